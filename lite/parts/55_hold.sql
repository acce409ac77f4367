-- Holds, by dcounter's protocol: lock the row of the hold, end it if it is open, and restock what goes back. A hold of several keys has them in the columns
-- keys and qtys, in the order of the keys; its key is the first of them, by which it is found when it has expired, and its qty is the sum.

-- hold_columns returns the two columns as a statement names them that reads a row h. A table of version 0.1 of dcounter does not have them.
CREATE FUNCTION dcounter_lite.hold_columns(c dcounter_lite.counter) RETURNS text
	LANGUAGE sql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
	SELECT CASE WHEN count(*) = 2 THEN 'h.keys, h.qtys' ELSE 'NULL::text[] AS keys, NULL::bigint[] AS qtys' END
	FROM pg_attribute WHERE attrelid = c.holds AND attname IN ('keys', 'qtys') AND NOT attisdropped $$;
COMMENT ON FUNCTION dcounter_lite.hold_columns(dcounter_lite.counter) IS 'internal: columns of holds of several keys';

-- hold_lines returns of which keys a hold has how many units. It has no SET clause, so that it is a part of the statement that calls it.
CREATE FUNCTION dcounter_lite.hold_lines(key text, qty bigint, keys text[], qtys bigint[]) RETURNS TABLE (line_key text, line_qty bigint)
	LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 5 ROWS 2 AS $$
	SELECT key, qty WHERE keys IS NULL UNION ALL SELECT * FROM ROWS FROM (pg_catalog.unnest(keys), pg_catalog.unnest(qtys)) AS u $$;
COMMENT ON FUNCTION dcounter_lite.hold_lines(text, bigint, text[], bigint[]) IS 'internal: of which keys a hold has how many units';

-- make_hold sets units of keys aside, which come in their order and once each; of all or none. Returns NULL for none.
CREATE FUNCTION dcounter_lite.make_hold(c dcounter_lite.counter, ks text[], qs bigint[], ttl interval, hold_id uuid) RETURNS uuid
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	columns text := dcounter_lite.hold_columns(c);
	many boolean := cardinality(ks) > 1;
	total bigint := dcounter_lite.to_bigint((SELECT sum(q) FROM unnest(qs) AS q));
	h record;
	n int;
BEGIN
	PERFORM dcounter_lite.not_null(ttl, 'ttl'), dcounter_lite.not_null(hold_id, 'hold_id');
	IF ttl <= '0'::interval THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'ttl must be greater than zero';
	END IF;
	IF many AND columns LIKE 'NULL%' THEN
		RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('stock "%s" cannot have holds of several keys', (SELECT relname FROM pg_class WHERE oid = c.counter)),
			DETAIL = 'Its table of holds was created by a version of dcounter that did not have them.',
			HINT = format('Use ALTER TABLE %s ADD COLUMN keys text[] COLLATE "C", ADD COLUMN qtys bigint[].', c.holds);
	END IF;
	LOOP
		EXECUTE format('SELECT h.key, h.qty, h.ttl, %s FROM %s AS h WHERE h.hold_id = $1', columns, c.holds) INTO h USING hold_id;
		GET DIAGNOSTICS n = ROW_COUNT;
		IF n > 0 THEN
			IF h.ttl <> ttl OR coalesce(h.keys, ARRAY[h.key]) <> ks COLLATE "C" OR coalesce(h.qtys, ARRAY[h.qty]) <> qs THEN
				RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('hold %s already exists with different arguments', hold_id);
			END IF;
			RETURN hold_id;
		END IF;
		-- The row comes first, so that a second call with this id waits here. If there are not enough units, the subtransaction removes it.
		BEGIN
			EXECUTE format('INSERT INTO %s (hold_id, key, qty, ttl, created_at, expires_at%s) VALUES ($1, $2, $3, $4, $5, $5 + $4%s) ON CONFLICT (hold_id) DO NOTHING',
				c.holds, CASE WHEN many THEN ', keys, qtys' END, CASE WHEN many THEN ', $6, $7' END) USING hold_id, ks[1], total, ttl, clock_timestamp(), ks, qs;
			GET DIAGNOSTICS n = ROW_COUNT;
			IF n > 0 THEN
				FOR i IN 1 .. cardinality(ks) LOOP
					IF NOT dcounter_lite.take(c, ks[i], qs[i], false) THEN
						RAISE EXCEPTION USING ERRCODE = 'LGW04';
					END IF;
				END LOOP;
				RETURN hold_id;
			END IF;
		EXCEPTION WHEN SQLSTATE 'LGW04' THEN
			RETURN NULL;
		END;
	END LOOP;
END $$;
COMMENT ON FUNCTION dcounter_lite.make_hold(dcounter_lite.counter, text[], bigint[], interval, uuid) IS 'internal: sets units aside, of all keys or none';

CREATE FUNCTION dc_hold(stock regclass, key anycompatible, qty bigint DEFAULT 1, ttl interval DEFAULT '10 minutes', hold_id uuid DEFAULT gen_random_uuid()) RETURNS uuid
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dcounter_lite.check_key(dc_hold.key::text, pg_typeof(dc_hold.key));
BEGIN
	PERFORM dcounter_lite.check_qty(dc_hold.qty), dcounter_lite.not_null(dc_hold.ttl, 'ttl'), dcounter_lite.not_null(dc_hold.hold_id, 'hold_id');
	RETURN dcounter_lite.make_hold(dcounter_lite.find(dc_hold.stock, true), ARRAY[k], ARRAY[dc_hold.qty], dc_hold.ttl, dc_hold.hold_id);
END $$;
COMMENT ON FUNCTION dc_hold(regclass, anycompatible, bigint, interval, uuid) IS 'sets units aside for a while, or returns NULL if there are not enough';

CREATE FUNCTION dc_hold_all(stock regclass, keys anycompatiblearray, qtys bigint[], ttl interval DEFAULT '10 minutes', hold_id uuid DEFAULT gen_random_uuid()) RETURNS uuid
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 100 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	cart record := dcounter_lite.check_cart(CASE WHEN dc_hold_all.keys IS NOT NULL THEN ARRAY(SELECT u::text FROM unnest(dc_hold_all.keys) AS u) END, dc_hold_all.qtys, pg_typeof(dc_hold_all.keys));
	c dcounter_lite.counter := dcounter_lite.find(dc_hold_all.stock, true);
BEGIN
	IF cardinality(cart.ks) = 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'keys must not be empty';
	END IF;
	IF cardinality(cart.ks) > 1000 THEN
		RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'a hold can have units of at most 1000 keys', DETAIL = format('There are %s keys.', cardinality(cart.ks));
	END IF;
	IF (SELECT sum(q) FROM unnest(cart.qs) AS q) > 9223372036854775807 THEN
		RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = 'bigint out of range', DETAIL = 'The sum of the quantities is too large.';
	END IF;
	RETURN dcounter_lite.make_hold(c, cart.ks, cart.qs, dc_hold_all.ttl, dc_hold_all.hold_id);
END $$;
COMMENT ON FUNCTION dc_hold_all(regclass, anycompatiblearray, bigint[], interval, uuid) IS 'sets units of many keys aside as one hold, all or none';

-- end_hold locks a hold, and ends it if it is open: as expired if its time is up, as `state` otherwise. What was not confirmed goes back; if more is to be
-- confirmed, it takes that, and leaves the hold open if it cannot. Returns the state that it was in, or unknown, the one that it has ended in, if it has,
-- its quantity, and how much of it is sold.
CREATE FUNCTION dcounter_lite.end_hold(c dcounter_lite.counter, hold_id uuid, state text, qty bigint, OUT was text, OUT ended text, OUT held bigint, OUT sold bigint)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	h record;
	n int;
	at timestamptz;
BEGIN
	EXECUTE format('SELECT h.key, h.qty, h.state, h.confirmed, h.expires_at, %s FROM %s AS h WHERE h.hold_id = $1 FOR NO KEY UPDATE', dcounter_lite.hold_columns(c), c.holds) INTO h USING hold_id;
	GET DIAGNOSTICS n = ROW_COUNT;
	IF n = 0 THEN
		was := 'unknown';
		RETURN;
	END IF;
	was := h.state;
	held := h.qty;
	sold := coalesce(h.confirmed, 0);
	IF was <> 'open' THEN
		RETURN;
	END IF;
	at := clock_timestamp();
	sold := 0;
	IF h.expires_at <= at THEN
		ended := 'expired';
	ELSE
		IF state = 'confirmed' THEN
			IF qty IS NOT NULL AND cardinality(h.keys) > 1 THEN
				RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('hold %s has several keys, and can only be confirmed as a whole', hold_id);
			END IF;
			sold := coalesce(qty, h.qty);
		END IF;
		ended := state;
	END IF;
	EXECUTE format('UPDATE %s SET state = $2, confirmed = $3, ended_at = $4 WHERE hold_id = $1', c.holds) USING hold_id, ended, sold, at;
	-- after that: a take that waits may end holds whose time is up, and this one's may be up by then
	IF sold > h.qty AND NOT dcounter_lite.take(c, h.key, sold - h.qty, false) THEN
		EXECUTE format('UPDATE %s SET state = ''open'', confirmed = NULL, ended_at = NULL WHERE hold_id = $1', c.holds) USING hold_id;
		ended := NULL;
		RETURN;
	END IF;
	IF sold = 0 THEN
		PERFORM dcounter_lite.restock(c, l.line_key, l.line_qty) FROM (SELECT * FROM dcounter_lite.hold_lines(h.key, h.qty, h.keys, h.qtys) AS u ORDER BY u.line_key COLLATE "C") AS l;
	ELSIF sold < h.qty THEN
		PERFORM dcounter_lite.restock(c, h.key, h.qty - sold);
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.end_hold(dcounter_lite.counter, uuid, text, bigint) IS 'internal: ends a hold if it is open';

CREATE FUNCTION dcounter_lite.cannot_end(hold_id uuid, state text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF state = 'unknown' THEN
		RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('hold %s does not exist', hold_id), DETAIL = 'There were not enough units for it, or it has been removed since it ended.', HINT = 'With strict => false the result says so instead of raising an error.';
	END IF;
	RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('hold %s %s', hold_id, CASE state WHEN 'expired' THEN 'has expired' ELSE 'was ' || state END), HINT = 'With strict => false the result says so instead of raising an error.';
END $$;
COMMENT ON FUNCTION dcounter_lite.cannot_end(uuid, text) IS 'internal: raises why a hold cannot be ended';

CREATE FUNCTION dc_hold_confirm(stock regclass, hold_id uuid, qty bigint DEFAULT NULL, strict boolean DEFAULT true) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter;
	e record;
BEGIN
	PERFORM dcounter_lite.not_null(dc_hold_confirm.hold_id, 'hold_id'), dcounter_lite.not_null(dc_hold_confirm.strict, 'strict');
	IF dc_hold_confirm.qty IS NOT NULL THEN
		PERFORM dcounter_lite.check_qty(dc_hold_confirm.qty);
	END IF;
	c := dcounter_lite.find(dc_hold_confirm.stock, true);
	e := dcounter_lite.end_hold(c, dc_hold_confirm.hold_id, 'confirmed', dc_hold_confirm.qty);
	IF e.ended = 'confirmed' THEN
		RETURN 'confirmed';
	ELSIF e.was = 'confirmed' THEN
		IF e.sold <> coalesce(dc_hold_confirm.qty, e.held) THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('hold %s was already confirmed with a different quantity', dc_hold_confirm.hold_id),
				DETAIL = format('%s units were sold, and it had %s.', e.sold, e.held);
		END IF;
		RETURN 'confirmed already';
	ELSIF e.was = 'open' AND e.ended IS NULL AND dc_hold_confirm.strict THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('there are not enough units to confirm hold %s with %s', dc_hold_confirm.hold_id, dc_hold_confirm.qty),
			DETAIL = format('It has %s, and stays open.', e.held), HINT = 'With strict => false the result is "open" instead of an error.';
	ELSIF dc_hold_confirm.strict THEN
		PERFORM dcounter_lite.cannot_end(dc_hold_confirm.hold_id, coalesce(e.ended, e.was));
	END IF;
	RETURN coalesce(e.ended, e.was);
END $$;
COMMENT ON FUNCTION dc_hold_confirm(regclass, uuid, bigint, boolean) IS 'ends a hold with its units sold';

CREATE FUNCTION dc_hold_release(stock regclass, hold_id uuid, strict boolean DEFAULT true) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter;
	e record;
BEGIN
	PERFORM dcounter_lite.not_null(dc_hold_release.hold_id, 'hold_id'), dcounter_lite.not_null(dc_hold_release.strict, 'strict');
	c := dcounter_lite.find(dc_hold_release.stock, true);
	e := dcounter_lite.end_hold(c, dc_hold_release.hold_id, 'released', NULL);
	IF e.ended IS NOT NULL THEN
		RETURN e.ended;
	ELSIF e.was = 'released' THEN
		RETURN 'released already';
	ELSIF e.was = 'expired' THEN
		RETURN 'expired';
	ELSIF dc_hold_release.strict THEN
		PERFORM dcounter_lite.cannot_end(dc_hold_release.hold_id, e.was);
	END IF;
	RETURN e.was;
END $$;
COMMENT ON FUNCTION dc_hold_release(regclass, uuid, boolean) IS 'ends a hold and gives its units back';

CREATE FUNCTION dcounter_lite.holds_of(stock regclass, of_key text) RETURNS TABLE (key text, hold_id uuid, qty bigint, expires_at timestamptz, age interval)
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 20 ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(stock, true);
BEGIN
	RETURN QUERY EXECUTE format('SELECT l.line_key, h.hold_id, l.line_qty, h.expires_at, clock_timestamp() - h.created_at
		FROM (SELECT h.key, h.hold_id, h.qty, h.expires_at, h.created_at, %s FROM %s AS h WHERE h.state = ''open'' AND h.expires_at > statement_timestamp()) AS h, LATERAL dcounter_lite.hold_lines(h.key, h.qty, h.keys, h.qtys) AS l
		WHERE l.line_key = coalesce($1, l.line_key) ORDER BY h.expires_at, h.hold_id, l.line_key COLLATE "C"', dcounter_lite.hold_columns(c), c.holds) USING of_key;
END $$;
COMMENT ON FUNCTION dcounter_lite.holds_of(regclass, text) IS 'internal: open holds';

-- dc_holds is in SQL, since PL/pgSQL allows no two arguments of one name.
CREATE FUNCTION dc_holds(stock regclass, key anycompatible DEFAULT NULL::text, OUT key text, OUT hold_id uuid, OUT qty bigint, OUT expires_at timestamptz, OUT age interval) RETURNS SETOF record
	LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100 ROWS 100 SET search_path = pg_catalog, pg_temp AS $$ SELECT * FROM dcounter_lite.holds_of($1, $2::text) $$;
COMMENT ON FUNCTION dc_holds(regclass, anycompatible) IS 'open holds of a key, of all keys by default';

-- expire_some gives back the `missing` units of a key from holds that have expired, of as few as that takes; those of several keys are found by the first
-- one. If these have fewer units, it gives back none of them, or all with `fewer`. Returns whether it has.
CREATE FUNCTION dcounter_lite.expire_some(c dcounter_lite.counter, key text, missing bigint, fewer boolean DEFAULT false) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	columns text := dcounter_lite.hold_columns(c);
	expired text := format('SELECT hold_id, expires_at, CASE WHEN keys IS NULL THEN qty ELSE qtys[1] END AS n FROM (SELECT h.hold_id, h.qty, h.expires_at, %s FROM %s AS h
		WHERE h.key = $1 AND h.state = ''open'' AND h.expires_at <= clock_timestamp()', columns, c.holds);
	r record;
	n numeric;
	any_back boolean := false;
BEGIN
	EXECUTE format('SELECT coalesce(sum(n), 0) FROM (%s) AS h) AS e', expired) INTO n USING key;
	IF n = 0 OR n < missing AND NOT fewer THEN
		RETURN false;
	END IF;
	FOR r IN EXECUTE format('WITH e AS MATERIALIZED (%1$s ORDER BY h.expires_at LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED) AS h),
		f AS (SELECT hold_id FROM (SELECT hold_id, sum(n) OVER (ORDER BY expires_at, hold_id ROWS UNBOUNDED PRECEDING) - n AS before FROM e) AS x WHERE before < $2),
		u AS (UPDATE %2$s AS h SET state = ''expired'', confirmed = 0, ended_at = clock_timestamp() FROM f WHERE h.hold_id = f.hold_id RETURNING h.key, h.qty, %3$s)
		SELECT l.line_key AS key, sum(l.line_qty)::bigint AS qty FROM u, LATERAL dcounter_lite.hold_lines(u.key, u.qty, u.keys, u.qtys) AS l
		GROUP BY l.line_key ORDER BY l.line_key COLLATE "C"', expired, c.holds, columns) USING key, missing LOOP
		PERFORM dcounter_lite.restock(c, r.key, r.qty);
		any_back := true;
	END LOOP;
	RETURN any_back;
END $$;
COMMENT ON FUNCTION dcounter_lite.expire_some(dcounter_lite.counter, text, bigint, boolean) IS 'internal: gives back expired holds of a key';

-- expire_holds ends up to 500 holds whose time is up, and removes up to 500 that ended a day ago. Returns whether there may be more.
CREATE FUNCTION dcounter_lite.expire_holds(t regclass) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	c dcounter_lite.counter;
	r record;
	n int := 0;
	gone int := 0;
BEGIN
	SELECT x.* INTO c FROM dcounter_lite.counter AS x WHERE x.counter = t AND x.holds IS NOT NULL;
	IF c.counter IS NULL THEN
		RETURN false;
	END IF;
	FOR r IN EXECUTE format('WITH e AS MATERIALIZED (SELECT hold_id FROM %1$s WHERE state = ''open'' AND expires_at <= clock_timestamp() ORDER BY expires_at LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED),
		u AS (UPDATE %1$s AS h SET state = ''expired'', confirmed = 0, ended_at = clock_timestamp() FROM e WHERE h.hold_id = e.hold_id RETURNING h.key, h.qty, %2$s)
		SELECT l.line_key AS key, sum(l.line_qty)::bigint AS qty, count(*) AS lines FROM u, LATERAL dcounter_lite.hold_lines(u.key, u.qty, u.keys, u.qtys) AS l
		GROUP BY l.line_key ORDER BY l.line_key COLLATE "C"', c.holds, dcounter_lite.hold_columns(c)) LOOP
		PERFORM dcounter_lite.restock(c, r.key, r.qty);
		n := n + r.lines;
	END LOOP;
	EXECUTE format('WITH e AS MATERIALIZED (SELECT hold_id FROM %1$s WHERE state <> ''open'' AND ended_at < clock_timestamp() - interval ''1 day'' LIMIT 500 FOR UPDATE SKIP LOCKED)
		DELETE FROM %1$s AS h USING e WHERE h.hold_id = e.hold_id', c.holds);
	GET DIAGNOSTICS gone = ROW_COUNT;
	RETURN n >= 500 OR gone >= 500;
END $$;
COMMENT ON FUNCTION dcounter_lite.expire_holds(regclass) IS 'internal: gives back expired holds and removes old ones';
