\set k random(1, 1000000000)
SELECT dc_incr('likes', 'post:' || :k);
