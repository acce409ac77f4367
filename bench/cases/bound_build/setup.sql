CREATE TABLE likes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post_id bigint NOT NULL, fan bigint NOT NULL);
-- Waits for the end of a build by the worker: how many rows were inserted since it has begun to read, and in how many microseconds.
CREATE FUNCTION built(OUT inserted bigint, OUT us bigint) LANGUAGE plpgsql AS $$
DECLARE
	first bigint;
	start timestamptz;
BEGIN
	-- writers have another lock
	WHILE NOT EXISTS (SELECT FROM pg_locks WHERE relation = 'likes'::regclass AND mode = 'AccessShareLock')
		AND (SELECT state FROM dc_stat_drift WHERE counter = 'post_likes'::regclass) = 'building' LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
	SELECT last_value, clock_timestamp() INTO first, start FROM likes_id_seq;
	WHILE (SELECT state FROM dc_stat_drift WHERE counter = 'post_likes'::regclass) = 'building' LOOP
		PERFORM pg_sleep(0.02);
	END LOOP;
	SELECT last_value - first, extract(epoch FROM clock_timestamp() - start) * 1000000 INTO inserted, us FROM likes_id_seq;
END $$;
