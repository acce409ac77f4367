\set k random(0, :keys - 1)
INSERT INTO likes (post_id, fan) VALUES (:k, 7);
