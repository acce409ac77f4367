\set k1 random(1, 20)
\set k2 random(1, 20)
\set k3 random(1, 20)
\set k4 random(1, 20)
\set k5 random(1, 20)
BEGIN;
SELECT dc_incr('likes', :k1);
SELECT dc_incr('likes', :k2);
SELECT dc_incr('likes', :k3);
SELECT dc_incr('likes', :k4);
SELECT dc_incr('likes', :k5);
COMMIT;
