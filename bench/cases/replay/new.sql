\set n :n + 1
\set id :client_id * 1000000000 + :n
SELECT dc_incr_once('likes', 'post:42', 1, :id);
