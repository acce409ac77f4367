\set k random(1, 100000)
UPDATE posts SET likes = likes + 1, updated_at = now() WHERE key = 'post:' || :k;
