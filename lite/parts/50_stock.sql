-- Stocks. For each key, value + sum(inc - dec) = sum(units), and no row has units < 0. A take updates one row that nobody has locked and that has enough
-- units, and checks that again on the version that it updates: so no order of commits and rollbacks sells a unit twice.
-- restock inserts new rows, so it locks none that others could take from.
CREATE FUNCTION dcounter_lite.restock(c dcounter_lite.counter, key text, qty bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF dcounter_lite.value_of(c.counter, c.shards, key) + qty > 9223372036854775807 THEN
		RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = 'bigint out of range';
	END IF;
	EXECUTE format('INSERT INTO %s AS s (key, shard, inc, units, updated_at)
		SELECT $1, 1073741824 + floor(random() * 1073741823)::int, n, n, clock_timestamp() FROM (SELECT $2 / w + CASE WHEN i <= $2 %% w THEN 1 ELSE 0 END AS n FROM (SELECT least($2, $3) AS w) AS w, generate_series(1, w) AS i) AS p
		ON CONFLICT (key, shard) DO UPDATE SET inc = s.inc + excluded.inc, units = s.units + excluded.units, updated_at = excluded.updated_at', c.shards)
		USING key, qty, c.max_shards::bigint;
END $$;
COMMENT ON FUNCTION dcounter_lite.restock(dcounter_lite.counter, text, bigint) IS 'internal: adds units in new rows';

CREATE FUNCTION dcounter_lite.check_qty(qty bigint, name text DEFAULT 'qty') RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 2 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM dcounter_lite.not_null(qty, name);
	IF qty <= 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = name || ' must be greater than zero';
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.check_qty(bigint, text) IS 'internal: raises what is wrong with a quantity';

CREATE FUNCTION dc_restock(stock regclass, key anycompatible, qty bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dcounter_lite.check_key(dc_restock.key::text, pg_typeof(dc_restock.key));
BEGIN
	PERFORM dcounter_lite.check_qty(dc_restock.qty);
	PERFORM dcounter_lite.restock(dcounter_lite.find(dc_restock.stock, true), k, dc_restock.qty);
END $$;
COMMENT ON FUNCTION dc_restock(regclass, anycompatible, bigint) IS 'adds units to a stock';

-- take_free takes up to qty units from one row that nobody has locked and that has at_least units; returns how many. It begins at a random row, so that
-- takes do not all walk over the same locked rows.
CREATE FUNCTION dcounter_lite.take_free(shards text, key text, qty bigint, at_least bigint) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	n bigint;
	at int := 1073741824 + floor(random() * 1073741823)::int;
	-- A subquery in FROM may run once for each row of s, and then passes over the row that this statement has just changed: hence MATERIALIZED. It is joined
	-- by key and shard, as the snapshot may not have the ctid of the version that was locked.
	stmt text := format('WITH f AS MATERIALIZED (SELECT l.shard, least(l.units, $2) AS n FROM %1$s AS l WHERE l.key = $1 AND l.units >= $3 AND l.shard >= $4 AND l.shard < $5
		ORDER BY l.key, l.shard LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
		UPDATE %1$s AS s SET dec = s.dec + f.n, units = s.units - f.n, updated_at = clock_timestamp() FROM f WHERE s.key = $1 AND s.shard = f.shard AND s.units >= f.n
		RETURNING f.n', shards);
BEGIN
	EXECUTE stmt INTO n USING key, qty, at_least, at, 2147483647;
	IF n IS NULL THEN
		EXECUTE stmt INTO n USING key, qty, at_least, -2147483648, at;
	END IF;
	RETURN coalesce(n, 0);
END $$;
COMMENT ON FUNCTION dcounter_lite.take_free(text, text, bigint, bigint) IS 'internal: takes from one row that nobody has locked';

-- survey looks at all rows of a key in one snapshot. `total` is what is committed, with our own changes. `most` is at least what is left if all transactions
-- in progress commit: each row that another one has locked loses a unit or more, as restocks insert. That is wrong while a compaction or a setter is at work
-- (`busy`), which lock rows and take nothing. `seen` has the versions and the lockers: equal ones of two surveys mean that nothing has happened in between.
CREATE FUNCTION dcounter_lite.survey(c dcounter_lite.counter, key text, OUT total numeric, OUT most numeric, OUT busy boolean, OUT seen text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	-- not by trying the lock, which would stop compaction until this transaction ends
	busy := EXISTS (SELECT FROM dcounter_lite.lock AS l WHERE l.counter = c.counter AND l.kind = 'compaction' AND l.xmax <> 0
		AND coalesce(pg_xact_status(dcounter_lite.xid8_of(l.xmax)) = 'in progress', true) AND l.xmax <> ALL (dcounter_lite.own_xids()));
	EXECUTE format($sql$
		SELECT coalesce(sum(units), 0), coalesce(sum(units) - count(*) FILTER (WHERE locked), 0), string_agg(concat_ws(' ', shard, ctid, CASE WHEN locked THEN xmax END), ',' ORDER BY shard)
		FROM (SELECT shard, units, ctid, xmax, xmax <> 0 AND coalesce(pg_xact_status(dcounter_lite.xid8_of(xmax)) = 'in progress', true) AND xmax <> ALL ($2) AS locked
			FROM %s WHERE key = $1 AND units > 0) AS r$sql$, c.shards) INTO total, most, seen USING key, dcounter_lite.own_xids();
END $$;
COMMENT ON FUNCTION dcounter_lite.survey(dcounter_lite.counter, text) IS 'internal: what is there, and what is left if all transactions in progress commit';

-- xid8_of extends the id of a recent transaction. It may be newer than the snapshot, so the difference is signed.
CREATE FUNCTION dcounter_lite.xid8_of(x xid) RETURNS xid8
	LANGUAGE sql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
	SELECT (n + (x::text::bigint - (n & 4294967295) + 6442450944) % 4294967296 - 2147483648)::text::xid8
	FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS n) AS s $$;
COMMENT ON FUNCTION dcounter_lite.xid8_of(xid) IS 'internal: the full id of a recent transaction';

-- own_xids returns the ids of this transaction and of its savepoints.
CREATE FUNCTION dcounter_lite.own_xids() RETURNS xid[]
	LANGUAGE sql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
	SELECT coalesce(array_agg(l.transactionid), '{}') FROM pg_locks AS l WHERE l.pid = pg_backend_pid() AND l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' $$;
COMMENT ON FUNCTION dcounter_lite.own_xids() IS 'internal: ids of this transaction and its savepoints';

-- wait_for_row waits for a row of the key that others have locked, and keeps no lock: an error gives it back.
CREATE FUNCTION dcounter_lite.wait_for_row(c dcounter_lite.counter, key text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	EXECUTE format('SELECT FROM (SELECT shard FROM %1$s WHERE key = $1 AND units > 0 ORDER BY random() LIMIT 1) AS r JOIN %1$s AS s ON s.key = $1 AND s.shard = r.shard FOR NO KEY UPDATE OF s', c.shards) USING key;
	RAISE EXCEPTION USING ERRCODE = 'LGW01';
EXCEPTION WHEN SQLSTATE 'LGW01' THEN
	NULL;
END $$;
COMMENT ON FUNCTION dcounter_lite.wait_for_row(dcounter_lite.counter, text) IS 'internal: waits until a locked row is free';

-- take_statement returns the statement that takes qty units from one row that nobody has locked, with its parameters as the caller names them. The
-- subquery is not correlated, so it runs once.
CREATE FUNCTION dcounter_lite.take_statement(shards text, key text, qty text, low text, high text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 2 AS $$
	SELECT pg_catalog.format('UPDATE %1$s AS s SET dec = s.dec + %3$s, units = s.units - %3$s, updated_at = clock_timestamp() WHERE s.key = %2$s AND s.units >= %3$s
		AND s.shard = (SELECT l.shard FROM %1$s AS l WHERE l.key = %2$s AND l.units >= %3$s AND l.shard >= %4$s AND l.shard <= %5$s ORDER BY l.shard LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)', shards, key, qty, low, high) $$;
COMMENT ON FUNCTION dcounter_lite.take_statement(text, text, text, text, text) IS 'internal: the statement that takes units from one row';

-- take_one takes qty units from one row that nobody has locked, by the procedure of make_writer() if there is one. It begins at a random row. It has no SET
-- clause, as its callers have pinned the path.
CREATE FUNCTION dcounter_lite.take_one(c dcounter_lite.counter, key text, qty bigint) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 AS $$
DECLARE
	writer text := CASE WHEN c.writer IS NOT NULL THEN dcounter_lite.writer_of(c) END;
	at int := 1073741824 + floor(random() * 1073741823)::int;
	stmt text;
	taken boolean;
	n int;
BEGIN
	IF writer IS NOT NULL THEN
		EXECUTE format('CALL %s($1, $2, NULL)', writer) INTO taken USING key, qty;
		RETURN taken;
	END IF;
	stmt := dcounter_lite.take_statement(c.shards::text, '$1', '$2', '$3', '$4');
	EXECUTE stmt USING key, qty, at, 2147483647;
	GET DIAGNOSTICS n = ROW_COUNT;
	IF n = 0 THEN
		EXECUTE stmt USING key, qty, -2147483648, at;
		GET DIAGNOSTICS n = ROW_COUNT;
	END IF;
	RETURN n > 0;
END $$;
COMMENT ON FUNCTION dcounter_lite.take_one(dcounter_lite.counter, text, bigint) IS 'internal: takes all units from one row';

-- take_several takes qty units row by row, so that it locks no row that it does not need. If they do not suffice, a subtransaction gives them back.
CREATE FUNCTION dcounter_lite.take_several(shards text, key text, qty bigint) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	got bigint := 0;
	more bigint;
BEGIN
	LOOP
		more := dcounter_lite.take_free(shards, key, qty - got, 1);
		got := got + more;
		EXIT WHEN more = 0 OR got = qty;
	END LOOP;
	IF got < qty THEN
		RAISE EXCEPTION USING ERRCODE = 'LGW02';
	END IF;
	RETURN true;
EXCEPTION WHEN SQLSTATE 'LGW02' THEN
	RETURN false;
END $$;
COMMENT ON FUNCTION dcounter_lite.take_several(text, text, bigint) IS 'internal: takes units from several rows, or none';

-- take takes qty units or none, and returns whether it has. It has no SET clause, as its callers have pinned the path.
CREATE FUNCTION dcounter_lite.take(c dcounter_lite.counter, key text, qty bigint, wait boolean) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 AS $$
DECLARE
	v record;
	last_seen text;
BEGIN
	LOOP
		IF dcounter_lite.take_one(c, key, qty) OR qty > 1 AND dcounter_lite.take_several(c.shards::text, key, qty) THEN
			RETURN true;
		END IF;
		v := dcounter_lite.survey(c, key);
		IF v.total < qty THEN
			-- not enough even if nobody else takes: unless holds have expired
			CONTINUE WHEN dcounter_lite.expire_some(c, key, qty - v.total::bigint);
			RETURN false;
		END IF;
		IF v.most < qty AND NOT v.busy AND NOT wait THEN
			-- others are taking them: refused if two surveys in a row say so, of one state
			IF v.seen = last_seen THEN
				RETURN false;
			END IF;
			last_seen := v.seen;
		ELSE
			last_seen := NULL;
			PERFORM dcounter_lite.wait_for_row(c, key);
		END IF;
	END LOOP;
END $$;
COMMENT ON FUNCTION dcounter_lite.take(dcounter_lite.counter, text, bigint, boolean) IS 'internal: takes units, or none';

CREATE FUNCTION dc_take(stock regclass, key anycompatible, qty bigint DEFAULT 1, wait boolean DEFAULT false) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dc_take.key;
	c dcounter_lite.counter;
BEGIN
	SELECT * INTO c FROM dcounter_lite.counter AS r WHERE r.counter = dc_take.stock AND r.holds IS NOT NULL;
	IF c.counter IS NULL OR ascii(c.shards::text) < 58 OR ascii(c.holds::text) < 58 OR k IS NULL OR octet_length(k) > 1024 OR dc_take.qty IS NULL OR dc_take.qty <= 0 OR dc_take.wait IS NULL
		OR pg_typeof(dc_take.key) <> ALL ('{text,int8,int4,uuid,varchar}'::regtype[]) THEN
		PERFORM dcounter_lite.check_key(k, pg_typeof(dc_take.key));
		PERFORM dcounter_lite.check_qty(dc_take.qty), dcounter_lite.not_null(dc_take.wait, 'wait');
		c := dcounter_lite.find(dc_take.stock, true);
	END IF;
	RETURN dcounter_lite.take(c, k, dc_take.qty, dc_take.wait);
END $$;
COMMENT ON FUNCTION dc_take(regclass, anycompatible, bigint, boolean) IS 'takes units, or changes nothing and returns false';

CREATE FUNCTION dc_take_up_to(stock regclass, key anycompatible, qty bigint) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dcounter_lite.check_key(dc_take_up_to.key::text, pg_typeof(dc_take_up_to.key));
	c dcounter_lite.counter;
	got bigint;
	more bigint;
	v record;
BEGIN
	PERFORM dcounter_lite.check_qty(dc_take_up_to.qty);
	c := dcounter_lite.find(dc_take_up_to.stock, true);
	got := 0;
	LOOP
		LOOP
			more := dcounter_lite.take_free(c.shards::text, k, dc_take_up_to.qty - got, 1);
			got := got + more;
			EXIT WHEN more = 0 OR got = dc_take_up_to.qty;
		END LOOP;
		EXIT WHEN got = dc_take_up_to.qty;
		v := dcounter_lite.survey(c, k);
		IF v.most > 0 OR (v.busy AND v.total > 0) THEN
			PERFORM dcounter_lite.wait_for_row(c, k);
			CONTINUE;
		END IF;
		EXIT WHEN v.total > 0 OR NOT dcounter_lite.expire_some(c, k, dc_take_up_to.qty - got, true);
	END LOOP;
	RETURN got;
END $$;
COMMENT ON FUNCTION dc_take_up_to(regclass, anycompatible, bigint) IS 'takes as many units as there are, up to a number, and returns how many';

-- check_cart raises what is wrong with the lines of a cart, and returns them in the order of the keys, each once.
CREATE FUNCTION dcounter_lite.check_cart(keys text[], qtys bigint[], type regtype, OUT ks text[], OUT qs bigint[])
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 10 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM dcounter_lite.not_null(keys, 'keys'), dcounter_lite.not_null(qtys, 'qtys');
	qtys := ARRAY(SELECT unnest(qtys));
	IF cardinality(keys) <> cardinality(qtys) THEN
		RAISE EXCEPTION USING ERRCODE = '2202E', MESSAGE = 'keys and qtys must have the same length', DETAIL = format('There are %s keys and %s quantities.', cardinality(keys), cardinality(qtys));
	END IF;
	PERFORM dcounter_lite.check_keys(keys, type);
	PERFORM dcounter_lite.check_qty(q) FROM unnest(qtys) AS q;
	IF EXISTS (SELECT FROM unnest(keys, qtys) AS u(k, q) GROUP BY u.k HAVING sum(u.q) > 9223372036854775807) THEN
		RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = 'bigint out of range', DETAIL = 'The sum of the quantities of one key is too large.';
	END IF;
	SELECT coalesce(array_agg(l.k ORDER BY l.k COLLATE "C"), '{}'), coalesce(array_agg(l.q ORDER BY l.k COLLATE "C"), '{}') INTO ks, qs
		FROM (SELECT u.k, sum(u.q)::bigint AS q FROM unnest(keys, qtys) AS u(k, q) GROUP BY u.k) AS l;
END $$;
COMMENT ON FUNCTION dcounter_lite.check_cart(text[], bigint[], regtype) IS 'internal: raises what is wrong with the lines of a cart';

-- dc_take_all takes in the order of the keys, so that two carts do not deadlock. A subtransaction gives back what was taken if a key has too few units.
CREATE FUNCTION dc_take_all(stock regclass, keys anycompatiblearray, qtys bigint[]) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 100 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	cart record := dcounter_lite.check_cart(CASE WHEN dc_take_all.keys IS NOT NULL THEN ARRAY(SELECT u::text FROM unnest(dc_take_all.keys) AS u) END, dc_take_all.qtys, pg_typeof(dc_take_all.keys));
	c dcounter_lite.counter := dcounter_lite.find(dc_take_all.stock, true);
BEGIN
	FOR i IN 1 .. cardinality(cart.ks) LOOP
		IF NOT dcounter_lite.take(c, cart.ks[i], cart.qs[i], false) THEN
			RAISE EXCEPTION USING ERRCODE = 'LGW03';
		END IF;
	END LOOP;
	RETURN true;
EXCEPTION WHEN SQLSTATE 'LGW03' THEN
	RETURN false;
END $$;
COMMENT ON FUNCTION dc_take_all(regclass, anycompatiblearray, bigint[]) IS 'takes units of many keys, all or none';

-- set_stock sets a key to an exact number of units. It keeps compaction away, and waits for open transactions that have taken from the key.
CREATE FUNCTION dcounter_lite.set_stock(c dcounter_lite.counter, key text, value bigint) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	s record;
	d numeric;
BEGIN
	IF value < 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = 'a stock cannot be less than zero';
	END IF;
	INSERT INTO dcounter_lite.change (what, counter) VALUES ('compaction', c.counter); -- no compaction, and surveys wait
	-- or they would be added to the new value when they are ended
	WHILE dcounter_lite.expire_some(c, key, 9223372036854775807, true) LOOP
	END LOOP;
	PERFORM set_config('dcounter_lite.at_work', 'on', true);
	EXECUTE format('SELECT FROM %s WHERE key = $1 ORDER BY shard FOR UPDATE', c.shards) USING key;
	EXECUTE format('WITH g AS (DELETE FROM %s WHERE key = $1 RETURNING inc, dec, units) SELECT coalesce(sum(inc), 0) AS inc, coalesce(sum(dec), 0) AS dec, coalesce(sum(units), 0) AS units FROM g', c.shards) INTO s USING key;
	PERFORM set_config('dcounter_lite.at_work', '', true);
	d := value - s.units;
	EXECUTE format('INSERT INTO %s AS t (key, inc, dec, updated_at) VALUES ($1, $2, $3, clock_timestamp()) ON CONFLICT (key) DO UPDATE SET inc = t.inc + excluded.inc, dec = t.dec + excluded.dec, updated_at = excluded.updated_at', c.counter)
		USING key, dcounter_lite.to_bigint(s.inc + greatest(d, 0)), dcounter_lite.to_bigint(s.dec + greatest(-d, 0));
	IF value > 0 THEN
		EXECUTE format('INSERT INTO %s AS s (key, shard, units, updated_at)
			SELECT $1, 1073741824 + floor(random() * 1073741823)::int, $2 / w + CASE WHEN i <= $2 %% w THEN 1 ELSE 0 END, clock_timestamp() FROM (SELECT least($2, $3) AS w) AS w, generate_series(1, w) AS i
			ON CONFLICT (key, shard) DO UPDATE SET units = s.units + excluded.units', c.shards) USING key, value, c.max_shards::bigint;
	END IF;
	RETURN dcounter_lite.to_bigint(s.units);
END $$;
COMMENT ON FUNCTION dcounter_lite.set_stock(dcounter_lite.counter, text, bigint) IS 'internal: makes a key exactly so many units';
