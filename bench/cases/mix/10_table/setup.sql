CREATE TABLE posts (id int PRIMARY KEY, views bigint NOT NULL DEFAULT 0);
INSERT INTO posts (id) SELECT generate_series(1, 1000);
