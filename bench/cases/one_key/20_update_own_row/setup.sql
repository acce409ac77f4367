CREATE TABLE posts (id int PRIMARY KEY, likes bigint NOT NULL DEFAULT 0);
INSERT INTO posts (id) SELECT generate_series(0, 999);
