-- try(STATEMENT): "no error", or the error with its detail and hint, each in a line of its own
CREATE FUNCTION try(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	state text; message text; detail text; hint text;
BEGIN
	EXECUTE sql;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN state || ' ' || message || coalesce(E'\n\t' || nullif(detail, ''), '')
		|| coalesce(E'\n\t' || nullif(hint, ''), '');
END $$;
