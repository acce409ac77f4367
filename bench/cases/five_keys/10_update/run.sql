\set k1 random(1, 20)
\set k2 random(1, 20)
\set k3 random(1, 20)
\set k4 random(1, 20)
\set k5 random(1, 20)
BEGIN;
UPDATE posts SET likes = likes + 1 WHERE id = :k1;
UPDATE posts SET likes = likes + 1 WHERE id = :k2;
UPDATE posts SET likes = likes + 1 WHERE id = :k3;
UPDATE posts SET likes = likes + 1 WHERE id = :k4;
UPDATE posts SET likes = likes + 1 WHERE id = :k5;
COMMIT;
