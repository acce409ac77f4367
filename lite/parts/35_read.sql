-- Reading: totals and shard rows in one statement, so in one snapshot. The functions are STABLE, so that all reads of a query are of its snapshot; they
-- do not see what that query itself adds.

CREATE FUNCTION dc_get(counter regclass, key anycompatible) RETURNS bigint
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dc_get.key;
	t text; s text;
	v numeric;
BEGIN
	SELECT c.counter::text, c.shards::text INTO t, s FROM dcounter_lite.counter AS c WHERE c.counter = dc_get.counter;
	IF t IS NULL OR ascii(s) < 58 OR k IS NULL OR octet_length(k) > 1024 OR pg_typeof(dc_get.key) <> ALL ('{text,int8,int4,uuid,varchar}'::regtype[]) THEN
		PERFORM dcounter_lite.check_key(k, pg_typeof(dc_get.key)), dcounter_lite.find(dc_get.counter);
	END IF;
	EXECUTE format('SELECT coalesce((SELECT inc::numeric - dec FROM %s WHERE key = $1), 0) + coalesce((SELECT sum(inc) - sum(dec) FROM %s WHERE key = $1), 0)', t, s)
		INTO v USING k;
	IF v NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
		RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = 'bigint out of range';
	END IF;
	RETURN v;
END $$;
COMMENT ON FUNCTION dc_get(regclass, anycompatible) IS 'exact value of a counter';

CREATE FUNCTION dc_get_many(counter regclass, keys anycompatiblearray, OUT key anycompatible, OUT value bigint) RETURNS SETOF record
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 100 ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(dc_get_many.counter);
BEGIN
	PERFORM dcounter_lite.not_null(dc_get_many.keys, 'keys');
	PERFORM dcounter_lite.check_keys(ARRAY(SELECT u::text FROM unnest(dc_get_many.keys) AS u), pg_typeof(dc_get_many.keys));
	RETURN QUERY EXECUTE format('SELECT u.k, dcounter_lite.to_bigint(coalesce(t.inc::numeric - t.dec, 0) + coalesce(s.n, 0)) FROM unnest($1) WITH ORDINALITY AS u(k, i)
		LEFT JOIN %s AS t ON t.key = u.k::text
		LEFT JOIN LATERAL (SELECT sum(inc) - sum(dec) AS n FROM %s AS s WHERE s.key = u.k::text) AS s ON true ORDER BY u.i', c.counter, c.shards) USING dc_get_many.keys;
END $$;
COMMENT ON FUNCTION dc_get_many(regclass, anycompatiblearray) IS 'exact values of many counters, in the order asked';

CREATE FUNCTION dc_info(counter regclass, key anycompatible, OUT value bigint, OUT inc bigint, OUT "dec" bigint, OUT updated_at timestamptz, OUT shards int, OUT cache_age interval, OUT error float8)
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dcounter_lite.check_key(dc_info.key::text, pg_typeof(dc_info.key));
	c dcounter_lite.counter := dcounter_lite.find(dc_info.counter);
BEGIN
	EXECUTE format('SELECT dcounter_lite.to_bigint(coalesce(sum(inc), 0) - coalesce(sum(dec), 0)), dcounter_lite.to_bigint(coalesce(sum(inc), 0)), dcounter_lite.to_bigint(coalesce(sum(dec), 0)), max(updated_at), count(*) FILTER (WHERE is_shard)
		FROM (SELECT inc, dec, updated_at, false AS is_shard FROM %s WHERE key = $1 UNION ALL SELECT inc, dec, updated_at, true FROM %s WHERE key = $1) AS u', c.counter, c.shards)
		INTO dc_info.value, dc_info.inc, dc_info.dec, dc_info.updated_at, dc_info.shards USING k;
	dc_info.error := 0;
END $$;
COMMENT ON FUNCTION dc_info(regclass, anycompatible) IS 'exact value of a counter, with its parts';

CREATE FUNCTION dc_total(counter regclass, key anycompatible, OUT value bigint, OUT updated_at timestamptz)
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 10 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dcounter_lite.check_key(dc_total.key::text, pg_typeof(dc_total.key));
	c dcounter_lite.counter := dcounter_lite.find(dc_total.counter);
BEGIN
	EXECUTE format('SELECT value, updated_at FROM %s WHERE key = $1', c.counter) INTO dc_total.value, dc_total.updated_at USING k;
	dc_total.value := coalesce(dc_total.value, 0);
END $$;
COMMENT ON FUNCTION dc_total(regclass, anycompatible) IS 'value of a counter as of the last compaction';

CREATE FUNCTION dc_top(counter regclass, n int DEFAULT 10, OUT key text, OUT value bigint, OUT rank bigint) RETURNS SETOF record
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 100 ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(dc_top.counter);
BEGIN
	PERFORM dcounter_lite.not_null(dc_top.n, 'n');
	IF dc_top.n < 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'n must not be negative';
	END IF;
	RETURN QUERY EXECUTE format('SELECT key, value, rank() OVER (ORDER BY value DESC) FROM (SELECT key, value FROM %s ORDER BY value DESC, key LIMIT $1) AS t ORDER BY value DESC, key', c.counter) USING dc_top.n;
END $$;
COMMENT ON FUNCTION dc_top(regclass, int) IS 'keys with the highest values as of the last compaction';

CREATE FUNCTION dc_sum(counter regclass) RETURNS numeric
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 10000 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(dc_sum.counter);
	v numeric;
BEGIN
	EXECUTE format('SELECT (SELECT coalesce(sum(inc) - sum(dec), 0) FROM %s) + (SELECT coalesce(sum(inc) - sum(dec), 0) FROM %s)', c.counter, c.shards) INTO v;
	RETURN v;
END $$;
COMMENT ON FUNCTION dc_sum(regclass) IS 'exact sum over all keys of a counter table';
