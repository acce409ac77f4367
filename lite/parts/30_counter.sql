-- Counting: INSERT ... ON CONFLICT DO UPDATE of a shard row of the session's own (dcounter_lite.slot). It is one ordinary row version, so it commits,
-- rolls back and survives a crash as rows do; it waits for nobody, and no isolation level makes it fail.

-- dc_incr is the hot path: checks, a look into the registry, one statement. It has no SET clause, which takes a tenth of its time before PostgreSQL 17.
-- So all names are qualified, and shards::text is, unless the caller's search path finds that very table.
CREATE FUNCTION dc_incr(counter regclass, key anycompatible, delta bigint DEFAULT 1) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 10 AS $$
#variable_conflict use_column
DECLARE
	k pg_catalog.text := dc_incr.key;
	d pg_catalog.int8 := dc_incr.delta;
	shards pg_catalog.text;
	writer pg_catalog.text;
	n pg_catalog.int4;
BEGIN
	SELECT c.shards::pg_catalog.text, dcounter_lite.writer_of(c) INTO shards, writer FROM dcounter_lite.counter AS c WHERE c.counter OPERATOR(pg_catalog.=) dc_incr.counter AND c.holds IS NULL;
	-- the name of a table that has gone is its number, which begins with a digit
	IF shards IS NULL OR pg_catalog.ascii(shards) OPERATOR(pg_catalog.<) 58 OR k IS NULL OR d IS NULL OR d OPERATOR(pg_catalog.=) 0 OR d OPERATOR(pg_catalog.=) -9223372036854775808 OR pg_catalog.octet_length(k) OPERATOR(pg_catalog.>) 1024
		OR pg_catalog.pg_typeof(dc_incr.key) OPERATOR(pg_catalog.<>) ALL ('{text,int8,int4,uuid,varchar}'::pg_catalog.regtype[]) THEN
		PERFORM dcounter_lite.incr_checked(dc_incr.counter, k, pg_catalog.pg_typeof(dc_incr.key), d);
		RETURN;
	END IF;
	IF pg_catalog.current_setting('max_prepared_transactions') OPERATOR(pg_catalog.<>) '0' THEN
		n := dcounter_lite.slot();
	ELSE
		n := 1073741824 OPERATOR(pg_catalog.|) ((pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.&) 4194303) OPERATOR(pg_catalog.<<) 8)
			OPERATOR(pg_catalog.|) (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp())::pg_catalog.int8 OPERATOR(pg_catalog./) 10 OPERATOR(pg_catalog.&) 255)::pg_catalog.int4;
	END IF;
	IF writer IS NOT NULL THEN
		EXECUTE pg_catalog.format('CALL %s($1, $2, $3, $4)', writer) USING k, n, greatest(d, 0), greatest(OPERATOR(pg_catalog.-) d, 0);
		RETURN;
	END IF;
	EXECUTE pg_catalog.format('INSERT INTO %s AS s (key, shard, inc, dec, updated_at) VALUES ($1, $2, $3, $4, pg_catalog.clock_timestamp())
		ON CONFLICT (key, shard) DO UPDATE SET inc = s.inc OPERATOR(pg_catalog.+) excluded.inc, dec = s.dec OPERATOR(pg_catalog.+) excluded.dec, updated_at = excluded.updated_at', shards)
		USING k, n, greatest(d, 0), greatest(OPERATOR(pg_catalog.-) d, 0);
END $$;
COMMENT ON FUNCTION dc_incr(regclass, anycompatible, bigint) IS 'adds to a counter';

-- incr_checked does what dc_incr() leaves to it: stocks, rarer types of keys, and errors.
CREATE FUNCTION dcounter_lite.incr_checked(counter regclass, key text, type regtype, delta bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	c dcounter_lite.counter;
BEGIN
	PERFORM dcounter_lite.check_key(key, type);
	PERFORM dcounter_lite.check_delta(delta);
	c := dcounter_lite.find(counter);
	IF c.holds IS NOT NULL AND delta < 0 THEN
		PERFORM dcounter_lite.no_decrement(counter);
	ELSIF c.holds IS NOT NULL AND delta > 0 THEN
		PERFORM dcounter_lite.restock(c, key, delta);
	ELSIF delta <> 0 THEN
		PERFORM dcounter_lite.add(c.shards, key, greatest(delta, 0), greatest(-delta, 0));
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.incr_checked(regclass, text, regtype, bigint) IS 'internal: dc_incr() for stocks, rarer types of keys and errors';

CREATE FUNCTION dc_decr(counter regclass, key anycompatible, delta bigint DEFAULT 1) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 10 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dcounter_lite.check_key(dc_decr.key::text, pg_typeof(dc_decr.key));
	d bigint := dc_decr.delta;
	c dcounter_lite.counter;
BEGIN
	PERFORM dcounter_lite.check_delta(d);
	c := dcounter_lite.find(dc_decr.counter);
	IF c.holds IS NOT NULL THEN
		IF d > 0 THEN
			PERFORM dcounter_lite.no_decrement(dc_decr.counter);
		ELSIF d < 0 THEN
			PERFORM dcounter_lite.restock(c, k, -d);
		END IF;
	ELSIF d <> 0 THEN
		PERFORM dcounter_lite.add(c.shards, k, CASE WHEN d < 0 THEN -d ELSE 0 END, CASE WHEN d > 0 THEN d ELSE 0 END);
	END IF;
END $$;
COMMENT ON FUNCTION dc_decr(regclass, anycompatible, bigint) IS 'subtracts from a counter';

-- dc_incr_hashed does not use "by", since each session has rows of its own.
CREATE FUNCTION dc_incr_hashed(counter regclass, key anycompatible, by text, delta bigint DEFAULT 1) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 10 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dcounter_lite.check_key(dc_incr_hashed.key::text, pg_typeof(dc_incr_hashed.key));
	c dcounter_lite.counter;
BEGIN
	PERFORM dcounter_lite.not_null(dc_incr_hashed.by, 'by');
	PERFORM dcounter_lite.check_delta(dc_incr_hashed.delta);
	c := dcounter_lite.find(dc_incr_hashed.counter);
	IF c.holds IS NOT NULL THEN
		IF dc_incr_hashed.delta < 0 THEN
			PERFORM dcounter_lite.no_decrement(dc_incr_hashed.counter);
		END IF;
		PERFORM dcounter_lite.restock(c, k, dc_incr_hashed.delta);
	ELSIF dc_incr_hashed.delta <> 0 THEN
		PERFORM dcounter_lite.add(c.shards, k, greatest(dc_incr_hashed.delta, 0), greatest(-dc_incr_hashed.delta, 0));
	END IF;
END $$;
COMMENT ON FUNCTION dc_incr_hashed(regclass, anycompatible, text, bigint) IS 'adds to a counter, with the shard row chosen by the hash of a writer or event';

-- add_many adds to many keys in one statement, in the order of the keys.
CREATE FUNCTION dcounter_lite.add_many(c dcounter_lite.counter, keys text[], incs bigint[], decs bigint[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	EXECUTE format('INSERT INTO %s AS s (key, shard, inc, dec, updated_at)
		SELECT key, $4, sum(inc), sum(dec), clock_timestamp() FROM unnest($1, $2, $3) AS u(key, inc, dec)
		WHERE inc <> 0 OR dec <> 0 GROUP BY key ORDER BY key COLLATE "C"
		ON CONFLICT (key, shard) DO UPDATE SET inc = s.inc + excluded.inc, dec = s.dec + excluded.dec, updated_at = excluded.updated_at', c.shards)
		USING keys, incs, decs, dcounter_lite.slot();
END $$;
COMMENT ON FUNCTION dcounter_lite.add_many(dcounter_lite.counter, text[], bigint[], bigint[]) IS 'internal: adds to many keys in one statement';

CREATE FUNCTION dcounter_lite.check_keys(keys text[], type regtype, name text DEFAULT 'keys') RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 2 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	k text;
BEGIN
	PERFORM dcounter_lite.not_null(keys, name);
	PERFORM dcounter_lite.check_key('', coalesce((SELECT typelem FROM pg_type WHERE oid = type)::regtype, type));
	IF array_position(keys, NULL) IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'counter key must not be null';
	END IF;
	SELECT u INTO k FROM unnest(keys) AS u WHERE octet_length(u) > 1024 LIMIT 1;
	IF k IS NOT NULL THEN
		PERFORM dcounter_lite.check_key(k, 'text');
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.check_keys(text[], regtype, text) IS 'internal: raises what is wrong with keys';

CREATE FUNCTION dc_incr_many(counter regclass, keys anycompatiblearray, deltas bigint[] DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 100 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(dc_incr_many.counter);
	ks text[] := ARRAY(SELECT u::text FROM unnest(dc_incr_many.keys) AS u);
	ds bigint[];
	r record;
BEGIN
	PERFORM dcounter_lite.not_null(dc_incr_many.keys, 'keys');
	PERFORM dcounter_lite.check_keys(ks, pg_typeof(dc_incr_many.keys));
	ds := CASE WHEN dc_incr_many.deltas IS NULL THEN array_fill(1::bigint, ARRAY[cardinality(ks)]) ELSE ARRAY(SELECT unnest(dc_incr_many.deltas)) END;
	IF cardinality(ks) <> cardinality(ds) THEN
		RAISE EXCEPTION USING ERRCODE = '2202E', MESSAGE = 'keys and deltas must have the same length', DETAIL = format('There are %s keys and %s deltas.', cardinality(ks), cardinality(ds));
	END IF;
	IF array_position(ds, NULL) IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'delta must not be null';
	END IF;
	IF -9223372036854775808 = ANY (ds) THEN
		PERFORM dcounter_lite.check_delta(-9223372036854775808);
	END IF;
	IF c.holds IS NOT NULL THEN
		IF 0 > ANY (ds) THEN
			PERFORM dcounter_lite.no_decrement(c.counter);
		END IF;
		FOR r IN SELECT u.k, sum(u.d) AS d FROM unnest(ks, ds) AS u(k, d) WHERE u.d <> 0 GROUP BY u.k ORDER BY u.k COLLATE "C" LOOP
			PERFORM dcounter_lite.restock(c, r.k, dcounter_lite.to_bigint(r.d));
		END LOOP;
		RETURN;
	END IF;
	PERFORM dcounter_lite.add_many(c, ks, ARRAY(SELECT greatest(d, 0) FROM unnest(ds) AS d), ARRAY(SELECT greatest(-d, 0) FROM unnest(ds) AS d));
END $$;
COMMENT ON FUNCTION dc_incr_many(regclass, anycompatiblearray, bigint[]) IS 'adds to many counters in one call';

CREATE FUNCTION dc_incr_returning(counter regclass, key anycompatible, delta bigint DEFAULT 1) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 20 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dcounter_lite.check_key(dc_incr_returning.key::text, pg_typeof(dc_incr_returning.key));
	d bigint := dc_incr_returning.delta;
	c dcounter_lite.counter;
BEGIN
	PERFORM dcounter_lite.check_delta(d);
	c := dcounter_lite.find(dc_incr_returning.counter);
	IF c.holds IS NOT NULL AND d < 0 THEN
		PERFORM dcounter_lite.no_decrement(c.counter);
	ELSIF c.holds IS NOT NULL AND d > 0 THEN
		PERFORM dcounter_lite.restock(c, k, d);
	ELSIF d <> 0 THEN
		PERFORM dcounter_lite.add(c.shards, k, greatest(d, 0), greatest(-d, 0));
	END IF;
	RETURN dcounter_lite.to_bigint(dcounter_lite.value_of(c.counter, c.shards, k));
END $$;
COMMENT ON FUNCTION dc_incr_returning(regclass, anycompatible, bigint) IS 'adds to a counter and returns the value that this transaction sees';

-- dc_apply has nothing to do, as increments are rows at once.
CREATE FUNCTION dc_apply() RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 100 AS $$ $$;
COMMENT ON FUNCTION dc_apply() IS 'does nothing: increments are rows at once';

-- dc_load writes rows of totals for new keys, and adds the amounts of the others to shard rows.
CREATE FUNCTION dc_load(counter regclass, keys anycompatiblearray, amounts bigint[]) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 10000 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(dc_load.counter);
	ks text[] := ARRAY(SELECT u::text FROM unnest(dc_load.keys) AS u);
	n bigint;
BEGIN
	PERFORM dcounter_lite.not_null(dc_load.keys, 'keys'), dcounter_lite.not_null(dc_load.amounts, 'amounts');
	PERFORM dcounter_lite.check_keys(ks, pg_typeof(dc_load.keys));
	IF c.holds IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('cannot load "%s": it is a stock', c.counter), HINT = 'Use dc_restock().';
	END IF;
	IF array_position(dc_load.amounts, NULL) IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'amount must not be null';
	END IF;
	IF cardinality(ks) <> cardinality(dc_load.amounts) THEN
		RAISE EXCEPTION USING ERRCODE = '2202E', MESSAGE = 'keys and amounts must have the same length';
	END IF;
	EXECUTE format('WITH d AS MATERIALIZED (SELECT key, sum(greatest(a, 0)) AS inc, sum(greatest(-a, 0)) AS dec FROM unnest($1, $2) AS u(key, a) GROUP BY key),
		i AS (INSERT INTO %s (key, inc, dec) SELECT key, inc, dec FROM d ORDER BY key COLLATE "C" ON CONFLICT DO NOTHING RETURNING key),
		s AS (INSERT INTO %s AS s (key, shard, inc, dec) SELECT key, $3, inc, dec FROM d WHERE NOT EXISTS (SELECT FROM i WHERE i.key = d.key) AND (inc <> 0 OR dec <> 0)
			ON CONFLICT (key, shard) DO UPDATE SET inc = s.inc + excluded.inc, dec = s.dec + excluded.dec)
		SELECT count(*) FROM d', c.counter, c.shards) INTO n USING ks, dc_load.amounts, dcounter_lite.slot();
	RETURN n;
END $$;
COMMENT ON FUNCTION dc_load(regclass, anycompatiblearray, bigint[]) IS 'loads the values that counters start with, and adds to those that exist';
