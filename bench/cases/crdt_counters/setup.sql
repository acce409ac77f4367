CREATE EXTENSION pg_prewarm;

-- The processor time of this session in microseconds
CREATE FUNCTION cpu_us() RETURNS float8 LANGUAGE sql VOLATILE AS
	$$SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1000$$;

-- What there would be without the extension: the greater amount of each node
CREATE FUNCTION merge_sql(a jsonb, b jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT jsonb_object_agg(key, amount)
	FROM (SELECT key, max(value::bigint) AS amount
		FROM (SELECT * FROM jsonb_each_text(a) UNION ALL SELECT * FROM jsonb_each_text(b)) AS nodes GROUP BY key) AS merged $$;
CREATE FUNCTION merge_plpgsql(a jsonb, b jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
	node text;
	amount bigint;
BEGIN
	FOR node, amount IN SELECT key, value::bigint FROM jsonb_each_text(b) LOOP
		IF amount > coalesce((a ->> node)::bigint, 0) THEN
			a := a || jsonb_build_object(node, amount);
		END IF;
	END LOOP;
	RETURN a;
END $$;
CREATE AGGREGATE merge_sql_agg(jsonb) (SFUNC = merge_sql, STYPE = jsonb);
CREATE AGGREGATE merge_plpgsql_agg(jsonb) (SFUNC = merge_plpgsql, STYPE = jsonb);
