\set member random(1, 2000)
\set channel random(1, 50)
SELECT dc_mark_read('seen', :member::text, 'c' || :channel, 10);
