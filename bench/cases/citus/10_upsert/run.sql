\set k random(1, 1000000000)
INSERT INTO posts AS p (key, likes) VALUES ('post:' || :k, 1)
	ON CONFLICT (key) DO UPDATE SET likes = p.likes + 1, updated_at = excluded.updated_at;
