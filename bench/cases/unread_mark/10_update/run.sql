\set member random(1, 2000)
\set channel random(1, 50)
UPDATE mark SET seen = greatest(seen, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) WHERE member = :member::text AND key = 'c' || :channel;
