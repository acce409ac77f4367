-- pg_temp.wrong(TYPE, VALUE): why the text is no value of the type
CREATE FUNCTION pg_temp.wrong(type text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE format('SELECT %L::%s', value, type);
	RETURN 'nothing';
EXCEPTION WHEN invalid_text_representation THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN detail;
END $$;
