SELECT dc_create('likes');
CREATE SEQUENCE new_key CACHE 1000;
-- milliseconds that a statement takes; after a COMMIT of the increment
CREATE FUNCTION timed(statement text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz := clock_timestamp();
BEGIN
	EXECUTE statement;
	RETURN 1000 * extract(epoch FROM clock_timestamp() - began);
END $$;
CREATE PROCEDURE timed_incr(key text, INOUT ms float8) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz := clock_timestamp();
BEGIN
	PERFORM dc_incr('likes', key);
	COMMIT;
	ms := 1000 * extract(epoch FROM clock_timestamp() - began);
END $$;
