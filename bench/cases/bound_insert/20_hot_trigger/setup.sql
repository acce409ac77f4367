CREATE TABLE likes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post_id bigint NOT NULL, fan bigint NOT NULL);
CREATE INDEX ON likes (post_id);
CREATE TABLE posts (id bigint PRIMARY KEY, likes bigint NOT NULL DEFAULT 0);
INSERT INTO posts VALUES (42);
CREATE FUNCTION count_like() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE posts SET likes = likes + 1 WHERE id = NEW.post_id;
	RETURN NULL;
END $$;
CREATE TRIGGER count_like AFTER INSERT ON likes FOR EACH ROW EXECUTE FUNCTION count_like();
