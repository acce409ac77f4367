CREATE TABLE likes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post_id bigint NOT NULL, fan bigint NOT NULL, seen int NOT NULL DEFAULT 0);
CREATE INDEX ON likes (post_id);
