-- Procedures of a table, which dc_incr(), dc_take() and dc_incr_once() call where there are any: they do what these would do by a statement that is planned
-- at each call, as the table is an argument.
--
-- make_writer creates a procedure NAME_write in the counter's schema, with the statement that dc_incr() or dc_take() would plan at each call; a session plans
-- it once, and calls it by a statement that is not planned at all. Of a counter it also creates NAME_incr(key text, delta bigint DEFAULT 1), which does what
-- dc_incr() does without a look into the registry; of a stock, the procedure is all. They have no SET clause, so all names are qualified. They are
-- SECURITY INVOKER and anybody may call them: the rights that count are those on the tables.
CREATE FUNCTION dcounter_lite.make_writer(counter regclass) RETURNS regprocedure
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(counter);
	nsp text; rel text; shard_name text; made text;
BEGIN
	IF NOT (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = c.counter) THEN
		RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('must be owner of table %s', (SELECT relname FROM pg_class WHERE oid = c.counter));
	END IF;
	PERFORM dcounter_lite.drop_writer(c.counter);
	SELECT n.nspname, k.relname INTO nsp, rel FROM pg_class AS k JOIN pg_namespace AS n ON n.oid = k.relnamespace WHERE k.oid = c.counter;
	SELECT format('%I.%I', n.nspname, k.relname) INTO shard_name FROM pg_class AS k JOIN pg_namespace AS n ON n.oid = k.relnamespace WHERE k.oid = c.shards;
	IF c.holds IS NOT NULL THEN
		PERFORM dcounter_lite.make_taker(nsp, rel, shard_name);
		made := format('%I.%I(text, bigint, boolean)', nsp, rel || '_write');
	ELSE
		PERFORM dcounter_lite.make_adder(nsp, rel, shard_name);
		made := format('%I.%I(text, bigint)', nsp, rel || '_incr');
		EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', made);
		EXECUTE format('COMMENT ON FUNCTION %s IS %L', made, 'dcounter: counts in ' || counter);
	END IF;
	EXECUTE format('GRANT EXECUTE ON PROCEDURE %I.%I TO PUBLIC', nsp, rel || '_write');
	EXECUTE format('COMMENT ON PROCEDURE %I.%I IS %L', nsp, rel || '_write', 'dcounter: writes to ' || shard_name);
	INSERT INTO dcounter_lite.change (what, counter, writer, writes) VALUES ('writer', c.counter, format('%I.%I', nsp, rel || '_write'), shard_name);
	PERFORM dcounter_lite.make_once_writer(r) FROM dcounter_lite.counter AS r WHERE r.counter = c.counter;
	RETURN made::regprocedure;
END $$;
COMMENT ON FUNCTION dcounter_lite.make_writer(regclass) IS 'creates routines with which counting, or taking, is planned once in a session';

CREATE FUNCTION dcounter_lite.make_adder(nsp text, rel text, shard_name text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	-- It has no scan, so that the plan which is kept cannot be a bad one.
	stmt text := format('INSERT INTO %s AS s (key, shard, inc, dec, updated_at) VALUES (key, shard, up, down, pg_catalog.clock_timestamp())
				ON CONFLICT (key, shard) DO UPDATE SET inc = s.inc OPERATOR(pg_catalog.+) excluded.inc, dec = s.dec OPERATOR(pg_catalog.+) excluded.dec, updated_at = excluded.updated_at', shard_name);
BEGIN
	EXECUTE format($sql$
		CREATE PROCEDURE %1$I.%2$I(key text, shard int, up bigint, down bigint) LANGUAGE plpgsql AS $f$
		#variable_conflict use_column
		BEGIN
			%3$s;
		END $f$ $sql$, nsp, rel || '_write', stmt);
	EXECUTE format($sql$
		CREATE FUNCTION %1$I.%2$I(key text, delta bigint DEFAULT 1) RETURNS void LANGUAGE plpgsql VOLATILE AS $f$
		#variable_conflict use_column
		DECLARE
			shard pg_catalog.int4;
			up pg_catalog.int8 := greatest(delta, 0);
			down pg_catalog.int8;
		BEGIN
			IF key IS NULL OR delta IS NULL OR pg_catalog.octet_length(key) OPERATOR(pg_catalog.>) 1024 OR delta OPERATOR(pg_catalog.=) -9223372036854775808 THEN
				PERFORM dcounter_lite.check_key(key, 'pg_catalog.text'), dcounter_lite.check_delta(delta);
			END IF;
			IF delta OPERATOR(pg_catalog.=) 0 THEN
				RETURN;
			END IF;
			down := up OPERATOR(pg_catalog.-) delta;
			IF pg_catalog.current_setting('max_prepared_transactions') OPERATOR(pg_catalog.<>) '0' THEN
				shard := dcounter_lite.slot();
			ELSE
				shard := 1073741824 OPERATOR(pg_catalog.|) ((pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.&) 4194303) OPERATOR(pg_catalog.<<) 8)
					OPERATOR(pg_catalog.|) (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp())::pg_catalog.int8 OPERATOR(pg_catalog./) 10 OPERATOR(pg_catalog.&) 255)::pg_catalog.int4;
			END IF;
			%3$s;
		END $f$ $sql$, nsp, rel || '_incr', stmt);
END $$;
COMMENT ON FUNCTION dcounter_lite.make_adder(text, text, text) IS 'internal: creates what make_writer() makes for a counter';

-- make_once_writer creates the procedure NAME_once if a counter has both ops and a writer: it records an op in the open partition and counts. The next
-- partition is among those that must not have the op, although it is empty, or has ops that the open one has, too (insert_op). "state" is 1 if the op
-- has counted; 0 if it is known, or was not looked for, as another table has the name of a partition; 2 if it is recorded where the ring has turned since.
CREATE FUNCTION dcounter_lite.make_once_writer(c dcounter_lite.counter) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	nsp text; rel text; branches text;
BEGIN
	IF c.writer IS NULL OR c.holds IS NOT NULL OR c.ops IS NULL OR ascii(c.ops::text) < 58 THEN
		RETURN;
	END IF;
	SELECT n.nspname, k.relname INTO nsp, rel FROM pg_class AS k JOIN pg_namespace AS n ON n.oid = k.relnamespace WHERE k.oid = c.counter;
	WITH p AS (SELECT o.slot, format('%I.%I', n.nspname, k.relname) AS name FROM dcounter_lite.op_slot AS o JOIN pg_class AS k ON k.oid = o.partition
		JOIN pg_namespace AS n ON n.oid = k.relnamespace WHERE o.counter = c.counter)
	SELECT string_agg(format('IF open = to_regclass(%1$L) AND NOT closed THEN
				INSERT INTO %1$s (op_id, key, delta, at) VALUES (op_id, key, delta, clock_timestamp()) ON CONFLICT (op_id) DO NOTHING;
			ELSIF open = to_regclass(%1$L) AND %2$s THEN
				INSERT INTO %1$s (op_id, key, delta, at) SELECT $1, $2, $3, clock_timestamp() WHERE %3$s ON CONFLICT (op_id) DO NOTHING;
			ELS', p.name, (SELECT string_agg(format('to_regclass(%L) IS NOT NULL', o.name), ' AND ') FROM p AS o WHERE o.slot <> p.slot),
			(SELECT string_agg(format('NOT EXISTS (SELECT FROM %s AS o WHERE o.op_id = $1)', o.name), ' AND ') FROM p AS o WHERE o.slot <> p.slot)), '' ORDER BY p.slot)
		INTO branches FROM p;
	EXECUTE format($sql$
		CREATE OR REPLACE PROCEDURE %1$I.%2$I(op_id text, key text, delta bigint, shard int, counter regclass, open regclass, closed boolean, INOUT state int)
			LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $f$
		#variable_conflict use_column
		BEGIN
			%3$sE
				state := 0;
				RETURN;
			END IF;
			state := FOUND::int;
			IF state = 0 THEN
				RETURN;
			ELSIF open IS DISTINCT FROM (SELECT r.op_open FROM dcounter_lite.counter AS r WHERE r.counter = $5) THEN
				state := 2;
				RETURN;
			END IF;
			CALL %4$s(key, shard, greatest(delta, 0), greatest(-delta, 0));
		END $f$ $sql$, nsp, rel || '_once', branches, c.writer);
	EXECUTE format('GRANT EXECUTE ON PROCEDURE %I.%I TO PUBLIC', nsp, rel || '_once');
	EXECUTE format('COMMENT ON PROCEDURE %I.%I IS %L', nsp, rel || '_once', 'dcounter: ops of ' || c.counter);
	INSERT INTO dcounter_lite.change (what, counter, writer) VALUES ('once_writer', c.counter, format('%I.%I', nsp, rel || '_once'));
END $$;
COMMENT ON FUNCTION dcounter_lite.make_once_writer(dcounter_lite.counter) IS 'internal: creates the procedure that records ops';

-- make_taker creates the procedure of a stock. Its settings count when the statement is planned: for any state of the table, by the index.
CREATE FUNCTION dcounter_lite.make_taker(nsp text, rel text, shard_name text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	EXECUTE format($sql$
		CREATE PROCEDURE %1$I.%2$I(key text, qty bigint, INOUT taken boolean) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $f$
		#variable_conflict use_variable
		DECLARE
			low int := 1073741824 + floor(random() * 1073741823)::int;
			high int := 2147483647;
		BEGIN
			%3$s;
			taken := FOUND;
			IF NOT taken THEN
				high := low;
				low := -2147483648;
				%3$s;
				taken := FOUND;
			END IF;
		END $f$ $sql$, nsp, rel || '_write', dcounter_lite.take_statement(shard_name, 'key', 'qty', 'low', 'high'));
END $$;
COMMENT ON FUNCTION dcounter_lite.make_taker(text, text, text) IS 'internal: creates what make_writer() makes for a stock';

CREATE FUNCTION dcounter_lite.drop_writer(counter regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	f regprocedure;
BEGIN
	FOR f IN SELECT p.oid FROM pg_proc AS p JOIN pg_class AS k ON k.relnamespace = p.pronamespace
		WHERE k.oid = counter AND p.proname IN (k.relname || '_incr', k.relname || '_write', k.relname || '_once') AND obj_description(p.oid, 'pg_proc') LIKE 'dcounter: %' AND pg_has_role(p.proowner, 'USAGE') LOOP
		EXECUTE format('DROP ROUTINE %s', f);
	END LOOP;
	INSERT INTO dcounter_lite.change (what, counter) SELECT 'writer', r.counter FROM dcounter_lite.counter AS r WHERE r.counter = drop_writer.counter AND r.writer IS NOT NULL;
END $$;
COMMENT ON FUNCTION dcounter_lite.drop_writer(regclass) IS 'internal: drops what make_writer() has made';
