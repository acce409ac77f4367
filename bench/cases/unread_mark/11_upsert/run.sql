\set member random(1, 2000)
\set channel random(1, 50)
INSERT INTO mark VALUES (:member::text, 'c' || :channel, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) ON CONFLICT (member, key) DO UPDATE SET seen = greatest(mark.seen, excluded.seen);
