-- Holds, by dcounter's protocol: lock the row of the hold, end it if it is open, and restock what goes back.

CREATE FUNCTION dc_hold(stock regclass, key anycompatible, qty bigint DEFAULT 1, ttl interval DEFAULT '10 minutes', hold_id uuid DEFAULT gen_random_uuid()) RETURNS uuid
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dcounter_lite.check_key(dc_hold.key::text, pg_typeof(dc_hold.key));
	c dcounter_lite.counter;
	h record;
	at timestamptz;
	n int;
BEGIN
	PERFORM dcounter_lite.check_qty(dc_hold.qty), dcounter_lite.not_null(dc_hold.ttl, 'ttl'), dcounter_lite.not_null(dc_hold.hold_id, 'hold_id');
	IF dc_hold.ttl <= '0'::interval THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'ttl must be greater than zero';
	END IF;
	c := dcounter_lite.find(dc_hold.stock, true);
	LOOP
		EXECUTE format('SELECT key, qty, ttl FROM %s WHERE hold_id = $1', c.holds) INTO h USING dc_hold.hold_id;
		GET DIAGNOSTICS n = ROW_COUNT;
		IF n > 0 THEN
			IF h.key <> k OR h.qty <> dc_hold.qty OR h.ttl <> dc_hold.ttl THEN
				RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('hold %s exists with other arguments', dc_hold.hold_id);
			END IF;
			RETURN dc_hold.hold_id;
		END IF;
		-- The row comes first, so that a second call with this id waits here. If there are not enough units, the subtransaction removes it.
		BEGIN
			at := clock_timestamp();
			EXECUTE format('INSERT INTO %s (hold_id, key, qty, ttl, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $5 + $4) ON CONFLICT (hold_id) DO NOTHING', c.holds)
				USING dc_hold.hold_id, k, dc_hold.qty, dc_hold.ttl, at;
			GET DIAGNOSTICS n = ROW_COUNT;
			IF n > 0 THEN
				IF NOT dcounter_lite.take(c, k, dc_hold.qty, false) THEN
					RAISE EXCEPTION USING ERRCODE = 'LGW04';
				END IF;
				RETURN dc_hold.hold_id;
			END IF;
		EXCEPTION WHEN SQLSTATE 'LGW04' THEN
			RETURN NULL;
		END;
	END LOOP;
END $$;
COMMENT ON FUNCTION dc_hold(regclass, anycompatible, bigint, interval, uuid) IS 'sets units aside for a while, or returns NULL if there are not enough';

-- end_hold locks a hold, and ends it if it is open: as expired if its time is up, as `state` otherwise. What was not confirmed goes back. Returns the state
-- that it was in, or unknown, and the one that it has ended in, if it has.
CREATE FUNCTION dcounter_lite.end_hold(c dcounter_lite.counter, hold_id uuid, state text, qty bigint, OUT was text, OUT ended text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	h record;
	n int;
	back bigint;
	at timestamptz;
BEGIN
	EXECUTE format('SELECT key, qty, state, expires_at FROM %s WHERE hold_id = $1 FOR NO KEY UPDATE', c.holds) INTO h USING hold_id;
	GET DIAGNOSTICS n = ROW_COUNT;
	IF n = 0 THEN
		was := 'unknown';
		RETURN;
	END IF;
	was := h.state;
	IF was <> 'open' THEN
		RETURN;
	END IF;
	at := clock_timestamp();
	IF h.expires_at <= at THEN
		ended := 'expired';
		back := h.qty;
	ELSIF state = 'confirmed' THEN
		IF qty > h.qty THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'qty must not be greater than that of the hold', DETAIL = format('The hold has %s units.', h.qty);
		END IF;
		ended := 'confirmed';
		back := h.qty - coalesce(qty, h.qty);
	ELSE
		ended := 'released';
		back := h.qty;
	END IF;
	EXECUTE format('UPDATE %s SET state = $2, confirmed = $3, ended_at = $4 WHERE hold_id = $1', c.holds) USING hold_id, ended, h.qty - back, at;
	IF back > 0 THEN
		PERFORM dcounter_lite.restock(c, h.key, back);
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.end_hold(dcounter_lite.counter, uuid, text, bigint) IS 'internal: ends a hold if it is open';

CREATE FUNCTION dcounter_lite.cannot_end(hold_id uuid, state text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF state = 'unknown' THEN
		RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('hold %s does not exist', hold_id), DETAIL = 'There were not enough units for it, or it has been removed since it ended.', HINT = 'With strict => false the answer says so, without an error.';
	END IF;
	RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('hold %s %s', hold_id, CASE state WHEN 'expired' THEN 'has expired' ELSE 'was ' || state END), HINT = 'With strict => false the answer says so, without an error.';
END $$;
COMMENT ON FUNCTION dcounter_lite.cannot_end(uuid, text) IS 'internal: raises why a hold cannot be ended';

CREATE FUNCTION dc_hold_confirm(stock regclass, hold_id uuid, qty bigint DEFAULT NULL, strict boolean DEFAULT true) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter;
	e record;
	same boolean;
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
		EXECUTE format('SELECT confirmed = coalesce($2, qty) FROM %s WHERE hold_id = $1', c.holds) INTO same USING dc_hold_confirm.hold_id, dc_hold_confirm.qty;
		IF NOT same THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('hold %s was confirmed with another quantity', dc_hold_confirm.hold_id);
		END IF;
		RETURN 'confirmed already';
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
BEGIN
	RETURN QUERY EXECUTE format('SELECT key, hold_id, qty, expires_at, clock_timestamp() - created_at FROM %s WHERE state = ''open'' AND key = coalesce($1, key) ORDER BY expires_at, hold_id', (dcounter_lite.find(stock, true)).holds)
		USING of_key;
END $$;
COMMENT ON FUNCTION dcounter_lite.holds_of(regclass, text) IS 'internal: open holds';

-- dc_holds is in SQL, since PL/pgSQL allows no two arguments of one name.
CREATE FUNCTION dc_holds(stock regclass, key anycompatible DEFAULT NULL::text, OUT key text, OUT hold_id uuid, OUT qty bigint, OUT expires_at timestamptz, OUT age interval) RETURNS SETOF record
	LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100 ROWS 100 SET search_path = pg_catalog, pg_temp AS $$ SELECT * FROM dcounter_lite.holds_of($1, $2::text) $$;
COMMENT ON FUNCTION dc_holds(regclass, anycompatible) IS 'open holds of a key, of all keys by default';

-- expire_some gives back the `missing` units of a key from holds that have expired, of as few as that takes. If these have fewer units, it gives back none
-- of them, or all with `fewer`. Returns whether it has.
CREATE FUNCTION dcounter_lite.expire_some(c dcounter_lite.counter, key text, missing bigint, fewer boolean DEFAULT false) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	back bigint;
	n numeric;
BEGIN
	EXECUTE format('SELECT coalesce(sum(qty), 0) FROM %s WHERE key = $1 AND state = ''open'' AND expires_at <= clock_timestamp()', c.holds) INTO n USING key;
	IF n = 0 OR n < missing AND NOT fewer THEN
		RETURN false;
	END IF;
	EXECUTE format('WITH e AS MATERIALIZED (SELECT hold_id, qty FROM %1$s WHERE key = $1 AND state = ''open'' AND expires_at <= clock_timestamp() ORDER BY expires_at LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED),
		f AS (SELECT hold_id FROM (SELECT hold_id, sum(qty) OVER (ROWS UNBOUNDED PRECEDING) - qty AS before FROM e) AS x WHERE before < $2),
		u AS (UPDATE %1$s AS h SET state = ''expired'', confirmed = 0, ended_at = clock_timestamp() FROM f WHERE h.hold_id = f.hold_id RETURNING h.qty)
		SELECT sum(qty) FROM u', c.holds) INTO back USING key, missing;
	IF back IS NULL THEN
		RETURN false;
	END IF;
	PERFORM dcounter_lite.restock(c, key, back);
	RETURN true;
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
		u AS (UPDATE %1$s AS h SET state = ''expired'', confirmed = 0, ended_at = clock_timestamp() FROM e WHERE h.hold_id = e.hold_id RETURNING h.key, h.qty)
		SELECT key, sum(qty)::bigint AS qty, count(*) AS holds FROM u GROUP BY key ORDER BY key', c.holds) LOOP
		PERFORM dcounter_lite.restock(c, r.key, r.qty);
		n := n + r.holds;
	END LOOP;
	EXECUTE format('WITH e AS MATERIALIZED (SELECT hold_id FROM %1$s WHERE state <> ''open'' AND ended_at < clock_timestamp() - interval ''1 day'' LIMIT 500 FOR UPDATE SKIP LOCKED)
		DELETE FROM %1$s AS h USING e WHERE h.hold_id = e.hold_id', c.holds);
	GET DIAGNOSTICS gone = ROW_COUNT;
	RETURN n >= 500 OR gone >= 500;
END $$;
COMMENT ON FUNCTION dcounter_lite.expire_holds(regclass) IS 'internal: gives back expired holds and removes old ones';
