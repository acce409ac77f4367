-- as the table of totals: the key is text, and pages have the same room for versions
CREATE TABLE posts (key text COLLATE "C" PRIMARY KEY, likes bigint NOT NULL DEFAULT 0, updated_at timestamptz NOT NULL DEFAULT now())
	WITH (fillfactor = 80);
SELECT create_distributed_table('posts', 'key');
INSERT INTO posts VALUES ('hot');
