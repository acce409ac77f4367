-- Idempotent increments. Ops are rows of dcounter's ring of four partitions. A session inserts into the partition that is open unless a closed one has the
-- op, which locks it in ROW EXCLUSIVE mode to the end of the transaction, and looks afterwards whether it is still the open one. The ring turns under SHARE
-- on the open partition, so while no transaction has written to it. So of two transactions with one op, either both meet in one unique index, or the later
-- one sees the committed row of the other.
--
-- make_ops creates the table of ops at the first op.
CREATE FUNCTION dcounter_lite.make_ops(c dcounter_lite.counter) RETURNS regclass
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	nsp text; rel text; o text; p text;
	known regclass;
BEGIN
	SELECT r.ops INTO known FROM dcounter_lite.counter AS r WHERE r.counter = c.counter;
	IF ascii(known::text) >= 58 THEN
		RETURN known;
	END IF;
	SELECT n.nspname, k.relname INTO nsp, rel FROM pg_class AS k JOIN pg_namespace AS n ON n.oid = k.relnamespace WHERE k.oid = c.counter;
	IF NOT (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = c.counter) THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('"%s" has no table of ops yet', rel), HINT = 'Let its owner call dc_incr_once() first, and grant rights on it.';
	END IF;
	-- another session of the owner may be creating it
	INSERT INTO dcounter_lite.change (what, counter) VALUES ('lock', c.counter);
	SELECT r.ops INTO known FROM dcounter_lite.counter AS r WHERE r.counter = c.counter;
	IF ascii(known::text) >= 58 THEN
		RETURN known;
	END IF;
	o := format('%I.%I', nsp, rel || '_op');
	EXECUTE format('CREATE TABLE %s (slot smallint NOT NULL, op_id text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, delta bigint NOT NULL, transfer_id bigint, digest bigint, at timestamptz NOT NULL) PARTITION BY LIST (slot)', o);
	EXECUTE format('COMMENT ON TABLE %s IS %L', o, 'dcounter: ops, which count once; see dc_incr_once()');
	INSERT INTO dcounter_lite.change (what, counter, ops) VALUES ('ops', c.counter, o::regclass);
	FOR i IN 0 .. 3 LOOP
		p := format('%I.%I', nsp, rel || '_op_' || i);
		-- with the names of the constraints, which NOT NULL has from PostgreSQL 18 on
		EXECUTE format('CREATE TABLE %s (LIKE %s, PRIMARY KEY (op_id)) WITH (vacuum_truncate = off)', p, o);
		EXECUTE format('ALTER TABLE %s ALTER slot SET DEFAULT %s', p, i);
		EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES IN (%s)', o, p, i);
		EXECUTE format('COMMENT ON TABLE %s IS %L', p, 'dcounter: ops, which count once; see dc_incr_once()');
		INSERT INTO dcounter_lite.op_slot (counter, slot, ops, partition, state) VALUES (c.counter, i, o::regclass, p::regclass, CASE WHEN i = 0 THEN 'open' ELSE 'empty' END);
	END LOOP;
	INSERT INTO dcounter_lite.change (what, counter) VALUES ('copy', c.counter);
	-- roles that may count may do so once
	FOR p IN SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END FROM pg_class AS k, aclexplode(k.relacl) AS a WHERE k.oid = c.shards AND a.privilege_type = 'INSERT' AND a.grantee <> k.relowner LOOP
		EXECUTE format('GRANT SELECT, INSERT ON %s TO %s', o, p);
		EXECUTE format('GRANT SELECT, INSERT, DELETE ON %s TO %s', (SELECT string_agg(s.partition::text, ', ') FROM dcounter_lite.op_slot AS s WHERE s.counter = c.counter), p);
	END LOOP;
	PERFORM dcounter_lite.make_once_writer(r) FROM dcounter_lite.counter AS r WHERE r.counter = c.counter;
	RETURN o::regclass;
END $$;
COMMENT ON FUNCTION dcounter_lite.make_ops(dcounter_lite.counter) IS 'internal: creates the table of ops';

-- adopt_ops registers a table of ops as dcounter's dc_adopt() does: partitions with ops are closed, and an empty one is open, or the first if none is.
CREATE FUNCTION dcounter_lite.adopt_ops(c dcounter_lite.counter) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	r record;
	has boolean;
	opened boolean := false;
	first_at timestamptz;
BEGIN
	-- a cast of another type would be code of the owner
	IF (SELECT atttypid FROM pg_attribute WHERE attrelid = c.ops AND attname = 'at') IS DISTINCT FROM 'timestamptz'::regtype THEN
		RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not a table of ops', c.ops), DETAIL = 'Its column "at" is missing, or of another type than timestamptz.';
	END IF;
	EXECUTE format('SELECT min(at) FROM %s', c.ops) INTO first_at;
	IF NOT isfinite(first_at) OR first_at NOT BETWEEN '2000-01-01 UTC' AND now() THEN
		first_at := now();
	END IF;
	FOR r IN SELECT i.inhrelid::regclass AS p, right(k.relname, 1)::smallint AS slot FROM pg_inherits AS i JOIN pg_class AS k ON k.oid = i.inhrelid WHERE i.inhparent = c.ops ORDER BY 2 LOOP
		EXECUTE format('SELECT EXISTS (SELECT FROM %s)', r.p) INTO has;
		INSERT INTO dcounter_lite.op_slot (counter, slot, ops, partition, state, forgotten)
			VALUES (c.counter, r.slot, c.ops, r.p, CASE WHEN has THEN 'closed' WHEN opened THEN 'empty' ELSE 'open' END, CASE WHEN r.slot = 0 THEN first_at - interval '2 hours' END);
		opened := opened OR NOT has;
	END LOOP;
	IF NOT opened THEN
		INSERT INTO dcounter_lite.change (what, counter, slot, state) VALUES ('slot', c.counter, 0, 'open');
	END IF;
	INSERT INTO dcounter_lite.change (what, counter) VALUES ('copy', c.counter);
END $$;
COMMENT ON FUNCTION dcounter_lite.adopt_ops(dcounter_lite.counter) IS 'internal: registers a table of ops that exists';

-- made_at returns the time that a UUIDv7 or a ULID carries, NULL for any other id.
CREATE FUNCTION dcounter_lite.made_at(op_id text) RETURNS timestamptz
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	ms bigint := 0;
	at timestamptz;
BEGIN
	IF op_id ~ '^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-7[0-9A-Fa-f]{3}-[89abAB][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}$' THEN
		ms := ('x' || lpad(left(replace(op_id, '-', ''), 12), 16, '0'))::bit(64)::bigint;
		RETURN to_timestamp(ms / 1000.0);
	ELSIF op_id ~ '^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$' THEN
		FOR i IN 1 .. 10 LOOP
			ms := ms * 32 + strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', upper(substr(op_id, i, 1))) - 1;
		END LOOP;
		at := to_timestamp(ms / 1000.0);
		RETURN CASE WHEN at >= '2016-01-01 UTC' AND at <= clock_timestamp() + interval '1 year' THEN at END;
	END IF;
	RETURN NULL;
END $$;
COMMENT ON FUNCTION dcounter_lite.made_at(text) IS 'internal: the time in a UUIDv7 or ULID';

CREATE FUNCTION dcounter_lite.check_op(op_id text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 2 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM dcounter_lite.not_null(op_id, 'op_id');
	IF op_id = '' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'op_id must not be empty';
	END IF;
	IF octet_length(op_id) > 1024 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'op_id is too long', DETAIL = format('It has %s bytes; the limit is 1024.', octet_length(op_id));
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.check_op(text) IS 'internal: raises what is wrong with an op id';

-- insert_op inserts an op into the open partition. A partition that is closed gets no more ops, so it is enough to look there. Returns true if the op is
-- new, false if it is not or if another transaction has it, and NULL if the ring has turned in between: then it has left no row.
CREATE FUNCTION dcounter_lite.insert_op(c dcounter_lite.counter, key text, delta bigint, op_id text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
	n int;
	p regclass;
BEGIN
	EXECUTE format('INSERT INTO %s (op_id, key, delta, at) SELECT $1, $2, $3, clock_timestamp() WHERE true%s ON CONFLICT (op_id) DO NOTHING', c.op_open, dcounter_lite.not_closed(c))
		USING op_id, key, delta;
	GET DIAGNOSTICS n = ROW_COUNT;
	IF n = 0 THEN
		RETURN false;
	END IF;
	IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
		-- The snapshot may be older than a turn of the ring, after which others look in the next partition: the op is written there, too.
		SELECT o.partition INTO p FROM dcounter_lite.op_slot AS o JOIN dcounter_lite.op_slot AS open ON open.counter = o.counter AND open.state = 'open'
			WHERE o.counter = c.counter AND o.slot = (open.slot + 1) % 4;
		EXECUTE format('INSERT INTO %s (op_id, key, delta, at) VALUES ($1, $2, $3, clock_timestamp()) ON CONFLICT (op_id) DO NOTHING', p) USING op_id, key, delta;
		RETURN true;
	END IF;
	IF c.op_open = (SELECT x.op_open FROM dcounter_lite.counter AS x WHERE x.counter = c.counter) THEN
		RETURN true;
	END IF;
	EXECUTE format('DELETE FROM %s WHERE op_id = $1', c.op_open) USING op_id;
	RETURN NULL;
END $$;
COMMENT ON FUNCTION dcounter_lite.insert_op(dcounter_lite.counter, text, bigint, text) IS 'internal: inserts an op unless it is known';

-- not_closed returns the conditions that no closed partition has op $1.
CREATE FUNCTION dcounter_lite.not_closed(c dcounter_lite.counter) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 2 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	p regclass;
	conditions text := '';
BEGIN
	FOREACH p IN ARRAY coalesce(c.op_closed, '{}') LOOP
		conditions := conditions || format(' AND NOT EXISTS (SELECT FROM %s WHERE op_id = $1)', p);
	END LOOP;
	RETURN conditions;
END $$;
COMMENT ON FUNCTION dcounter_lite.not_closed(dcounter_lite.counter) IS 'internal: conditions that no closed partition has an op';

-- known_op returns whether an op is recorded. An error if it is with another key or delta.
CREATE FUNCTION dcounter_lite.known_op(c dcounter_lite.counter, key text, delta bigint, op_id text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	r record;
	n int;
BEGIN
	EXECUTE format('SELECT key, delta FROM %s WHERE op_id = $1', c.ops) INTO r USING op_id;
	GET DIAGNOSTICS n = ROW_COUNT;
	IF n > 0 AND (r.key <> key OR r.delta <> delta) THEN
		RAISE EXCEPTION USING ERRCODE = '23505', MESSAGE = format('op "%s" was already applied with different arguments', op_id), DETAIL = format('The first time, key was "%s" and delta was %s.', r.key, r.delta);
	END IF;
	RETURN n > 0;
END $$;
COMMENT ON FUNCTION dcounter_lite.known_op(dcounter_lite.counter, text, bigint, text) IS 'internal: whether an op is recorded';

-- once records an op, and returns whether it is new.
CREATE FUNCTION dcounter_lite.once(c dcounter_lite.counter, key text, delta bigint, op_id text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	at timestamptz := dcounter_lite.made_at(op_id);
	is_new boolean;
BEGIN
	IF c.ops IS NULL OR ascii(c.ops::text) < 58 THEN
		PERFORM dcounter_lite.make_ops(c);
		c := dcounter_lite.find(c.counter);
	END IF;
	IF at > clock_timestamp() + interval '1 hour' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('op "%s" has a time in the future', op_id), DETAIL = format('It says that it was made at %s.', at);
	END IF;
	-- again if the ring has turned, or a transaction that had recorded the op was rolled back. A rule or a trigger could make that endless.
	FOR i IN 1 .. 100 LOOP
		is_new := false;
		IF at IS NULL OR at >= clock_timestamp() - c.op_retention THEN
			is_new := dcounter_lite.insert_op(c, key, delta, op_id);
		END IF;
		IF is_new THEN
			RETURN true;
		ELSIF NOT is_new AND dcounter_lite.known_op(c, key, delta, op_id) THEN
			RETURN false;
		ELSIF at < clock_timestamp() - c.op_retention THEN
			RAISE EXCEPTION USING ERRCODE = 'LG004', MESSAGE = format('op "%s" has expired', op_id), DETAIL = format('It was made at %s, and it is no longer known whether it was applied.', at);
		END IF;
		c := dcounter_lite.find(c.counter);
	END LOOP;
	RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('"%s" is not as dcounter created it', c.ops), DETAIL = 'An op cannot be recorded there.';
END $$;
COMMENT ON FUNCTION dcounter_lite.once(dcounter_lite.counter, text, bigint, text) IS 'internal: records an op, or returns false';

-- incr_once_checked does what dc_incr_once() leaves to it: stocks, rarer types of keys, errors, ops that are known, the first op of a counter.
CREATE FUNCTION dcounter_lite.incr_once_checked(counter regclass, key text, type regtype, delta bigint, op_id text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	c dcounter_lite.counter;
BEGIN
	PERFORM dcounter_lite.check_key(key, type);
	c := dcounter_lite.find(counter);
	PERFORM dcounter_lite.check_delta(delta), dcounter_lite.check_op(op_id);
	IF c.holds IS NOT NULL AND delta < 0 THEN
		PERFORM dcounter_lite.no_decrement(c.counter);
	END IF;
	IF NOT dcounter_lite.once(c, key, delta, op_id) THEN
		RETURN false;
	END IF;
	IF c.holds IS NOT NULL AND delta > 0 THEN
		PERFORM dcounter_lite.restock(c, key, delta);
	ELSIF delta <> 0 THEN
		PERFORM dcounter_lite.add(c.shards, key, greatest(delta, 0), greatest(-delta, 0));
	END IF;
	RETURN true;
END $$;
COMMENT ON FUNCTION dcounter_lite.incr_once_checked(regclass, text, regtype, bigint, text) IS 'internal: dc_incr_once() for stocks, known ops and errors';

-- dc_incr_once is a hot path: the procedure of make_writer(), or two statements of the cheapest form, as planning is most of what they cost (one that does
-- both takes half as long again). All else is for incr_once_checked().
CREATE FUNCTION dc_incr_once(counter regclass, key anycompatible, delta bigint, op_id text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dc_incr_once.key;
	d bigint := dc_incr_once.delta;
	o text := dc_incr_once.op_id;
	c dcounter_lite.counter;
	n int;
	at timestamptz;
	writer text;
BEGIN
	SELECT * INTO c FROM dcounter_lite.counter AS r WHERE r.counter = dc_incr_once.counter;
	at := CASE WHEN length(o) IN (26, 36) THEN dcounter_lite.made_at(o) ELSE NULL END;
	IF ascii(c.op_open::text) >= 58 AND ascii(c.shards::text) >= 58 AND c.holds IS NULL AND octet_length(k) <= 1024 AND d <> 0 AND d > -9223372036854775808 AND o <> '' AND octet_length(o) <= 1024
		AND (at IS NULL OR at BETWEEN clock_timestamp() - c.op_retention AND clock_timestamp()) AND pg_typeof(dc_incr_once.key) = ANY ('{text,int8,int4,uuid,varchar}'::regtype[])
		AND current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
		IF c.once_writer IS NOT NULL AND dcounter_lite.writer_of(c) IS NOT NULL THEN
			writer := to_regproc(c.once_writer)::text;
		END IF;
		IF writer IS NOT NULL THEN
			EXECUTE format('CALL %s($1, $2, $3, $4, $5, $6, $7, NULL)', writer) INTO n USING o, k, d, dcounter_lite.slot(), c.counter, c.op_open, c.op_closed <> '{}';
			IF n = 1 THEN
				RETURN true;
			ELSIF n = 2 THEN
				EXECUTE format('DELETE FROM %s WHERE op_id = $1', c.op_open) USING o;
			END IF;
			RETURN dcounter_lite.incr_once_checked(dc_incr_once.counter, k, pg_typeof(dc_incr_once.key), d, o);
		END IF;
		EXECUTE format('INSERT INTO %s (op_id, key, delta, at) %s ON CONFLICT (op_id) DO NOTHING', c.op_open,
			CASE WHEN c.op_closed = '{}' THEN 'VALUES ($1, $2, $3, clock_timestamp())' ELSE 'SELECT $1, $2, $3, clock_timestamp() WHERE true' || dcounter_lite.not_closed(c) END) USING o, k, d;
		GET DIAGNOSTICS n = ROW_COUNT;
		IF n > 0 THEN
			IF c.op_open = (SELECT r.op_open FROM dcounter_lite.counter AS r WHERE r.counter = c.counter) THEN
				EXECUTE format('INSERT INTO %s AS s (key, shard, inc, dec, updated_at) VALUES ($1, $2, $3, $4, clock_timestamp())
					ON CONFLICT (key, shard) DO UPDATE SET inc = s.inc + excluded.inc, dec = s.dec + excluded.dec, updated_at = excluded.updated_at', c.shards)
					USING k, dcounter_lite.slot(), greatest(d, 0), greatest(-d, 0);
				RETURN true;
			END IF;
			EXECUTE format('DELETE FROM %s WHERE op_id = $1', c.op_open) USING o;
		END IF;
	END IF;
	RETURN dcounter_lite.incr_once_checked(dc_incr_once.counter, k, pg_typeof(dc_incr_once.key), d, o);
END $$;
COMMENT ON FUNCTION dc_incr_once(regclass, anycompatible, bigint, text) IS 'adds to a counter, unless this op has been applied before';

CREATE FUNCTION dc_incr_once_many(counter regclass, keys anycompatiblearray, deltas bigint[], op_ids text[]) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 100 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(dc_incr_once_many.counter);
	ks text[] := ARRAY(SELECT u::text FROM unnest(dc_incr_once_many.keys) AS u);
	r record;
	n bigint := 0;
BEGIN
	PERFORM dcounter_lite.not_null(dc_incr_once_many.keys, 'keys'), dcounter_lite.not_null(dc_incr_once_many.deltas, 'deltas'), dcounter_lite.not_null(dc_incr_once_many.op_ids, 'op_ids');
	PERFORM dcounter_lite.check_keys(ks, pg_typeof(dc_incr_once_many.keys));
	IF cardinality(ks) <> cardinality(dc_incr_once_many.deltas) OR cardinality(ks) <> cardinality(dc_incr_once_many.op_ids) THEN
		RAISE EXCEPTION USING ERRCODE = '2202E', MESSAGE = 'keys, deltas and op_ids must have the same length',
			DETAIL = format('There are %s keys, %s deltas and %s op_ids.', cardinality(ks), cardinality(dc_incr_once_many.deltas), cardinality(dc_incr_once_many.op_ids));
	END IF;
	FOR r IN SELECT u.d, u.o FROM unnest(dc_incr_once_many.deltas, dc_incr_once_many.op_ids) AS u(d, o) LOOP
		PERFORM dcounter_lite.check_delta(r.d);
		PERFORM dcounter_lite.check_op(r.o);
		IF c.holds IS NOT NULL AND r.d < 0 THEN
			PERFORM dcounter_lite.no_decrement(c.counter);
		END IF;
	END LOOP;
	-- in the order of the ops, so that batches do not deadlock
	FOR r IN SELECT u.k, u.d, u.o FROM unnest(ks, dc_incr_once_many.deltas, dc_incr_once_many.op_ids) AS u(k, d, o) ORDER BY u.o COLLATE "C" LOOP
		IF dcounter_lite.once(dcounter_lite.find(dc_incr_once_many.counter), r.k, r.d, r.o) THEN
			n := n + 1;
			IF r.d <> 0 THEN
				IF c.holds IS NOT NULL THEN
					PERFORM dcounter_lite.restock(c, r.k, r.d);
				ELSE
					PERFORM dcounter_lite.add(c.shards, r.k, greatest(r.d, 0), greatest(-r.d, 0));
				END IF;
			END IF;
		END IF;
	END LOOP;
	RETURN n;
END $$;
COMMENT ON FUNCTION dc_incr_once_many(regclass, anycompatiblearray, bigint[], text[]) IS 'adds to many counters, except for ops that have been applied before; returns how many were new';

CREATE FUNCTION dc_op_status(counter regclass, op_id text, OUT applied boolean, OUT key text, OUT delta bigint, OUT at timestamptz) RETURNS SETOF record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 20 ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(dc_op_status.counter);
	made timestamptz;
	n int := 0;
BEGIN
	PERFORM dcounter_lite.check_op(dc_op_status.op_id);
	IF ascii(c.ops::text) >= 58 THEN
		EXECUTE format('SELECT true, key, delta, at FROM %s WHERE op_id = $1 LIMIT 1', c.ops) INTO applied, key, delta, at USING dc_op_status.op_id;
		GET DIAGNOSTICS n = ROW_COUNT;
	END IF;
	IF n = 0 THEN
		made := dcounter_lite.made_at(dc_op_status.op_id);
		applied := CASE WHEN made < clock_timestamp() - c.op_retention THEN NULL ELSE false END;
	END IF;
	RETURN NEXT;
END $$;
COMMENT ON FUNCTION dc_op_status(regclass, text) IS 'whether an op has been applied';

-- turn_ring opens the next partition after half of op_retention, if that is empty or all its ops are older than op_retention. It needs a moment in which no
-- open transaction has used dc_incr_once(), waits for it for 200 ms at most, and returns whether it has turned.
CREATE FUNCTION dcounter_lite.turn_ring(t regclass) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter;
	open dcounter_lite.op_slot;
	next dcounter_lite.op_slot;
	has boolean;
BEGIN
	SELECT r.* INTO c FROM dcounter_lite.counter AS r WHERE r.counter = t AND r.ops IS NOT NULL;
	SELECT o.* INTO open FROM dcounter_lite.op_slot AS o WHERE o.counter = t AND o.state = 'open';
	IF c.counter IS NULL OR open.counter IS NULL OR open.since + c.op_retention / 2 > clock_timestamp() THEN
		RETURN false;
	END IF;
	SELECT o.* INTO next FROM dcounter_lite.op_slot AS o WHERE o.counter = t AND o.slot = (open.slot + 1) % 4;
	IF next.state = 'closed' AND next.since + c.op_retention + interval '2 hours' > clock_timestamp() THEN
		RETURN false;
	END IF;
	EXECUTE format('SELECT EXISTS (SELECT FROM %s)', open.partition) INTO has;
	IF NOT has THEN
		RETURN false;
	END IF;
	BEGIN
		-- another session may have turned it by the time that this one has the lock
		INSERT INTO dcounter_lite.change (what, counter) VALUES ('lock', t);
		IF open.partition IS DISTINCT FROM (SELECT r.op_open FROM dcounter_lite.counter AS r WHERE r.counter = t) THEN
			RETURN false;
		END IF;
		EXECUTE format('LOCK TABLE ONLY %s IN SHARE MODE', open.partition);
		EXECUTE format('TRUNCATE ONLY %s', next.partition);
	EXCEPTION WHEN lock_not_available THEN
		RETURN false;
	END;
	INSERT INTO dcounter_lite.change (what, counter, slot, state) VALUES ('slot', t, open.slot, 'closed');
	INSERT INTO dcounter_lite.change (what, counter, slot, state, forgotten) VALUES ('slot', t, next.slot, 'open', CASE WHEN next.state = 'closed' THEN next.since END);
	INSERT INTO dcounter_lite.change (what, counter) VALUES ('copy', t);
	RETURN true;
END $$;
COMMENT ON FUNCTION dcounter_lite.turn_ring(regclass) IS 'internal: opens the next partition of ops';
