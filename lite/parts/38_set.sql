-- Setting: the difference to the new value is added, in a row of this session. Increments that the snapshot does not show are not in the value
-- returned, and come on top of the new one; so each counts once, and setters wait for other setters of the key only.
CREATE FUNCTION dcounter_lite.set_value(c dcounter_lite.counter, key text, value bigint) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	old numeric;
	d numeric;
BEGIN
	PERFORM dcounter_lite.not_null(value, 'value'), dcounter_lite.need_read_committed(c.counter, 'dc_set()');
	IF c.holds IS NOT NULL THEN
		RETURN dcounter_lite.set_stock(c, key, value);
	END IF;
	PERFORM dcounter_lite.lock_key(c.counter, key);
	-- a new statement, so its snapshot is newer than the lock
	old := dcounter_lite.value_of(c.counter, c.shards, key);
	d := value - old;
	IF d <> 0 THEN
		PERFORM dcounter_lite.add(c.shards, key, dcounter_lite.to_bigint(greatest(d, 0)), dcounter_lite.to_bigint(greatest(-d, 0)));
	END IF;
	RETURN CASE WHEN old BETWEEN -9223372036854775808 AND 9223372036854775807 THEN old END;
END $$;
COMMENT ON FUNCTION dcounter_lite.set_value(dcounter_lite.counter, text, bigint) IS 'internal: sets a counter or a stock';

CREATE FUNCTION dc_set(counter regclass, key anycompatible, value bigint) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	RETURN dcounter_lite.set_value(dcounter_lite.find(dc_set.counter), dcounter_lite.check_key(dc_set.key::text, pg_typeof(dc_set.key)), dc_set.value);
END $$;
COMMENT ON FUNCTION dc_set(regclass, anycompatible, bigint) IS 'sets a counter to exactly this value and returns the old one';

CREATE FUNCTION dc_reset(counter regclass, key anycompatible) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	RETURN dcounter_lite.set_value(dcounter_lite.find(dc_reset.counter), dcounter_lite.check_key(dc_reset.key::text, pg_typeof(dc_reset.key)), 0);
END $$;
COMMENT ON FUNCTION dc_reset(regclass, anycompatible) IS 'sets a counter to zero and returns the old value';

-- dc_delete deletes the rows that nobody has locked, and subtracts what is left by a row of its own. The next compaction merges both. (A plain DELETE
-- would wait for all open transactions that have counted the key.)
CREATE FUNCTION dc_delete(counter regclass, key anycompatible) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	k text := dcounter_lite.check_key(dc_delete.key::text, pg_typeof(dc_delete.key));
	c dcounter_lite.counter := dcounter_lite.find(dc_delete.counter);
	old numeric := 0;
	n numeric;
BEGIN
	PERFORM dcounter_lite.need_read_committed(c.counter, 'dc_delete()');
	IF c.holds IS NOT NULL THEN
		-- has deleted the shard rows. Those that are there now are of restocks that have committed since
		old := dcounter_lite.set_stock(c, k, 0);
		PERFORM set_config('dcounter_lite.at_work', 'on', true);
		EXECUTE format('DELETE FROM %s WHERE key = $1', c.counter) USING k;
		PERFORM set_config('dcounter_lite.at_work', '', true);
		RETURN old;
	END IF;
	PERFORM dcounter_lite.lock_key(c.counter, k);
	EXECUTE format('WITH l AS MATERIALIZED (SELECT shard FROM %1$s WHERE key = $1 ORDER BY shard FOR UPDATE SKIP LOCKED),
		d AS (DELETE FROM %1$s AS s USING l WHERE s.key = $1 AND s.shard = l.shard RETURNING s.inc, s.dec)
		SELECT coalesce(sum(inc) - sum(dec), 0) FROM d', c.shards) INTO n USING k;
	old := n;
	EXECUTE format('WITH l AS MATERIALIZED (SELECT key FROM %1$s WHERE key = $1 FOR UPDATE SKIP LOCKED),
		d AS (DELETE FROM %1$s AS t USING l WHERE t.key = l.key RETURNING t.inc, t.dec)
		SELECT coalesce(sum(inc) - sum(dec), 0) FROM d', c.counter) INTO n USING k;
	old := old + n;
	n := dcounter_lite.value_of(c.counter, c.shards, k);
	IF n <> 0 THEN
		PERFORM dcounter_lite.add(c.shards, k, dcounter_lite.to_bigint(greatest(-n, 0)), dcounter_lite.to_bigint(greatest(n, 0)));
		old := old + n;
	END IF;
	RETURN CASE WHEN old BETWEEN -9223372036854775808 AND 9223372036854775807 THEN old END;
END $$;
COMMENT ON FUNCTION dc_delete(regclass, anycompatible) IS 'removes a key and returns its last value';
