\set id random(1, 9000000000000000000)
SELECT dc_incr_once('likes', 'post:42', 1, :id);
