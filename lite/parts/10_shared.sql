-- What the other parts share: the registry, checks of arguments, adding and reading one key.

CREATE FUNCTION dcounter_lite.version() RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 1 AS $$ SELECT '@VERSION@' $$;
COMMENT ON FUNCTION dcounter_lite.version() IS 'version of dcounter_lite';

-- find returns the row of a counter table. The errors are those of dcounter.
CREATE FUNCTION dcounter_lite.find(counter regclass, stock boolean DEFAULT false) RETURNS dcounter_lite.counter
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter;
BEGIN
	IF find.counter IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'counter must not be null';
	END IF;
	SELECT * INTO c FROM dcounter_lite.counter AS r WHERE r.counter = find.counter;
	-- a table that has gone is a number
	IF c.counter IS NULL OR ascii(c.shards::text) < 58 OR ascii(c.holds::text) < 58 THEN
		RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a counter table', (SELECT relname FROM pg_class WHERE oid = find.counter)),
			HINT = 'Create a counter table with dc_create(), or register a restored one with dc_adopt().';
	END IF;
	IF find.stock AND c.holds IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('counter table "%s" is not a stock', (SELECT relname FROM pg_class WHERE oid = find.counter)),
			HINT = 'Create a stock with dc_stock_create().';
	END IF;
	RETURN c;
END $$;
COMMENT ON FUNCTION dcounter_lite.find(regclass, boolean) IS 'internal: the row of a counter table, or an error';

-- check_key raises an error for a key that is NULL, too long, or of another type than text, an integer or uuid.
CREATE FUNCTION dcounter_lite.check_key(key text, type regtype) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 2 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	t oid := type;
BEGIN
	WHILE (SELECT typtype = 'd' FROM pg_type WHERE oid = t) LOOP
		SELECT typbasetype INTO t FROM pg_type WHERE oid = t;
	END LOOP;
	IF (SELECT typcategory NOT IN ('S') AND t <> ALL (ARRAY['int2', 'int4', 'int8', 'oid', 'uuid', '"char"', 'name', 'regclass']::regtype[]) FROM pg_type WHERE oid = t) THEN
		RAISE EXCEPTION USING ERRCODE = '42804', MESSAGE = 'a key cannot be of type ' || type, HINT = 'Cast it to text, bigint or uuid.';
	END IF;
	IF key IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'counter key must not be null';
	END IF;
	IF octet_length(key) > 1024 THEN
		RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'counter key is too long', DETAIL = format('The key has %s bytes; the limit is 1024.', octet_length(key));
	END IF;
	RETURN key;
END $$;
COMMENT ON FUNCTION dcounter_lite.check_key(text, regtype) IS 'internal: raises what is wrong with a key';

CREATE FUNCTION dcounter_lite.not_null(value anyelement, name text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 2 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF value IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = name || ' must not be null';
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.not_null(anyelement, text) IS 'internal: raises an error for NULL';

CREATE FUNCTION dcounter_lite.check_delta(delta bigint) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 2 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF delta IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'delta must not be null';
	END IF;
	IF delta = -9223372036854775808 THEN
		RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = 'bigint out of range', DETAIL = 'The amount of a delta must fit into bigint.';
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.check_delta(bigint) IS 'internal: raises what is wrong with a delta';

CREATE FUNCTION dcounter_lite.to_bigint(n numeric) RETURNS bigint
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 2 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF n NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
		RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = 'bigint out of range';
	END IF;
	RETURN n;
END $$;
COMMENT ON FUNCTION dcounter_lite.to_bigint(numeric) IS 'internal: a number as bigint, or an error';

CREATE FUNCTION dcounter_lite.no_decrement(counter regclass) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('cannot decrement "%s": it is a stock', (SELECT relname FROM pg_class WHERE oid = counter)),
		HINT = 'Use dc_take(), which returns false if there are not enough units.';
END $$;
COMMENT ON FUNCTION dcounter_lite.no_decrement(regclass) IS 'internal: raises that a stock cannot be decremented';

-- slot returns the number of the shard row that this session adds to now. Two live sessions have different pids, and a session runs one
-- transaction at a time, so no two open transactions write one row: nobody waits. The number changes every 10 seconds, for two reasons:
-- dc_maintain() takes rows that nobody has written for 20 seconds, so it does not meet a writer; and while an old snapshot is held, a row has no
-- more dead versions than one session makes in 10 seconds. It is 2^30 or more, as those of dcounter's shared rows.
--
-- A prepared transaction is the exception: it may be of our own pid. While there is one, the number is made of the transaction's own id, and is less
-- than 2^30. The test is exact, as a prepared transaction of this pid was prepared before. It has no SET clause, as counting calls it.
CREATE FUNCTION dcounter_lite.slot() RETURNS int
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 AS $$
BEGIN
	IF pg_catalog.current_setting('max_prepared_transactions') OPERATOR(pg_catalog.<>) '0' THEN
		IF EXISTS (SELECT FROM pg_catalog.pg_prepared_xacts) THEN
			RETURN pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8 OPERATOR(pg_catalog.&) 1073741823;
		END IF;
	END IF;
	RETURN 1073741824 OPERATOR(pg_catalog.|) ((pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.&) 4194303) OPERATOR(pg_catalog.<<) 8)
		OPERATOR(pg_catalog.|) (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp())::pg_catalog.int8 OPERATOR(pg_catalog./) 10 OPERATOR(pg_catalog.&) 255)::pg_catalog.int4;
END $$;
COMMENT ON FUNCTION dcounter_lite.slot() IS 'internal: number of the shard row that this session writes now';

-- writer_of returns the procedure of make_writer() as its call names it, or NULL if there is none. It was dropped, or its statement has the name of
-- another table since the shard table was renamed: then it is not used. It has no SET clause, as counting calls it.
CREATE FUNCTION dcounter_lite.writer_of(c dcounter_lite.counter) RETURNS text
	LANGUAGE sql STABLE PARALLEL RESTRICTED COST 5 AS $$
	SELECT CASE WHEN pg_catalog.to_regclass(c.writes) OPERATOR(pg_catalog.=) c.shards THEN pg_catalog.to_regproc(c.writer)::pg_catalog.text END $$;
COMMENT ON FUNCTION dcounter_lite.writer_of(dcounter_lite.counter) IS 'internal: the procedure of make_writer(), if there is one';

-- add adds to the row of this session. The statement has no scan, so no plan of it is a bad one.
CREATE FUNCTION dcounter_lite.add(shards regclass, key text, up bigint, down bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	EXECUTE format('INSERT INTO %s AS s (key, shard, inc, dec, updated_at) VALUES ($1, $2, $3, $4, clock_timestamp())
		ON CONFLICT (key, shard) DO UPDATE SET inc = s.inc + excluded.inc, dec = s.dec + excluded.dec, updated_at = excluded.updated_at', shards)
		USING key, dcounter_lite.slot(), up, down;
END $$;
COMMENT ON FUNCTION dcounter_lite.add(regclass, text, bigint, bigint) IS 'internal: adds to the row of this session';

-- value_of returns the exact value in one snapshot, as numeric: amounts that cancel each other out do not overflow on the way.
CREATE FUNCTION dcounter_lite.value_of(counter regclass, shards regclass, key text) RETURNS numeric
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	v numeric;
BEGIN
	EXECUTE format('SELECT coalesce((SELECT inc::numeric - dec FROM %s WHERE key = $1), 0) + coalesce((SELECT sum(inc) - sum(dec) FROM %s WHERE key = $1), 0)', counter, shards)
		INTO v USING key;
	RETURN v;
END $$;
COMMENT ON FUNCTION dcounter_lite.value_of(regclass, regclass, text) IS 'internal: exact value of a key in one snapshot';

-- need_read_committed refuses higher levels: with an older snapshot, a setter would subtract what another one has subtracted since.
CREATE FUNCTION dcounter_lite.need_read_committed(counter regclass, function text) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('cannot execute %s on "%s" at this isolation level', function, (SELECT relname FROM pg_class WHERE oid = counter)),
			HINT = 'Call it in a READ COMMITTED transaction.';
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.need_read_committed(regclass, text) IS 'internal: refuses higher isolation levels';
