CREATE TABLE likes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post_id bigint NOT NULL, fan bigint NOT NULL);
CREATE INDEX ON likes (post_id);
SELECT dc_create('post_likes');
CREATE FUNCTION count_like() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM dc_incr('post_likes', NEW.post_id);
	RETURN NULL;
END $$;
CREATE TRIGGER count_like AFTER INSERT ON likes FOR EACH ROW EXECUTE FUNCTION count_like();
