\set key random(1, 100000)
SELECT dc_incr('likes', 'post:' || :key);
