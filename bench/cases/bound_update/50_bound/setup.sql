CREATE TABLE likes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post_id bigint NOT NULL, fan bigint NOT NULL, seen int NOT NULL DEFAULT 0);
CREATE INDEX ON likes (post_id);
SELECT dc_create('post_likes');
SELECT dc_bind('post_likes', 'likes', key => 'post_id', build => 'now');
