CREATE TABLE likes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post_id bigint NOT NULL, fan bigint NOT NULL);
CREATE INDEX ON likes (post_id);
