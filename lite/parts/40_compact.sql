-- Compaction moves amounts from shard rows to the totals. One statement does it, so a snapshot has an amount once; the amounts are those of the row
-- versions that it has locked, and it deletes these. It passes over all rows that others have locked, so it waits for nobody. (The exception is a row of
-- totals that somebody is just inserting, by hand or by dc_load().)
--
-- compact_batch compacts up to n keys: those after `after`, or from it on if `first`. Rows that were written within `age` are left alone. Returns how many
-- keys it has moved, and the last key that it has looked at, NULL if there are no more.
CREATE FUNCTION dcounter_lite.compact_batch(c dcounter_lite.counter, after text, first boolean, n int, age interval, OUT moved bigint, OUT last text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	before timestamptz := CASE WHEN age IS NULL THEN 'infinity' ELSE clock_timestamp() - age END;
	units text := CASE WHEN c.holds IS NOT NULL THEN 's.units' ELSE '0' END;
BEGIN
	PERFORM set_config('dcounter_lite.at_work', 'on', true);
	-- k: keys of this batch. l: their rows that nobody has locked, in their latest version, locked now. s: their sums. t: totals that nobody has locked.
	-- o: keys whose totals are in t or do not exist, and stay within bigint. Then: add to totals (i), delete rows (d) or empty those with units (z).
	EXECUTE format($sql$
		WITH k AS MATERIALIZED (SELECT DISTINCT key FROM %2$s WHERE key >= $1 AND ($2 OR key > $1) AND updated_at < $4 ORDER BY key LIMIT $3),
		l AS MATERIALIZED (SELECT s.key, s.shard, s.inc, s.dec, s.updated_at, %3$s AS units FROM %2$s AS s JOIN k ON k.key = s.key
			WHERE s.updated_at < $4 ORDER BY s.key, s.shard FOR UPDATE OF s SKIP LOCKED),
		s AS MATERIALIZED (SELECT key, sum(inc) AS inc, sum(dec) AS dec, max(updated_at) AS at, count(*) AS rows, sum(units) AS units FROM l GROUP BY key),
		t AS MATERIALIZED (SELECT t.key, t.inc, t.dec FROM %1$s AS t JOIN s ON s.key = t.key FOR NO KEY UPDATE OF t SKIP LOCKED),
		o AS MATERIALIZED (SELECT s.* FROM s LEFT JOIN t ON t.key = s.key
			WHERE (t.key IS NOT NULL OR NOT EXISTS (SELECT FROM %1$s AS x WHERE x.key = s.key))
			AND coalesce(t.inc, 0) + s.inc <= 9223372036854775807 AND coalesce(t.dec, 0) + s.dec <= 9223372036854775807),
		i AS (INSERT INTO %1$s AS t (key, inc, dec, updated_at) SELECT key, inc, dec, at FROM o WHERE inc <> 0 OR dec <> 0 ORDER BY key
			ON CONFLICT (key) DO UPDATE SET inc = t.inc + excluded.inc, dec = t.dec + excluded.dec, updated_at = greatest(t.updated_at, excluded.updated_at)),
		d AS (DELETE FROM %2$s AS s USING l JOIN o ON o.key = l.key WHERE s.key = l.key AND s.shard = l.shard AND l.units = 0),
		%4$s
		SELECT (SELECT count(*) FROM o WHERE inc <> 0 OR dec <> 0), (SELECT max(key) FROM k)$sql$,
		c.counter, c.shards, units,
		CASE WHEN c.holds IS NOT NULL THEN format('z AS (UPDATE %1$s AS s SET inc = 0, dec = 0 FROM l JOIN o ON o.key = l.key WHERE s.key = l.key AND s.shard = l.shard AND l.units <> 0 AND (l.inc <> 0 OR l.dec <> 0))', c.shards)
			ELSE 'z AS (SELECT)' END)
		INTO moved, last USING after, first, n, before;
	IF c.holds IS NOT NULL AND last IS NOT NULL THEN
		PERFORM dcounter_lite.level_units(c, after, first, last, before);
	END IF;
	PERFORM set_config('dcounter_lite.at_work', '', true);
END $$;
COMMENT ON FUNCTION dcounter_lite.compact_batch(dcounter_lite.counter, text, boolean, int, interval) IS 'internal: moves amounts of some keys to the totals';

-- level_units spreads the units of a key evenly over max_shards rows, or one row a unit if they are fewer, if its rows differ much from that.
CREATE FUNCTION dcounter_lite.level_units(c dcounter_lite.counter, after text, first boolean, last text, before timestamptz) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	EXECUTE format($sql$
		WITH l AS MATERIALIZED (SELECT s.key, s.shard, s.units, s.inc, s.dec FROM %1$s AS s WHERE s.key >= $1 AND ($2 OR s.key > $1) AND s.key <= $3 AND s.updated_at < $4
			ORDER BY s.key, s.shard FOR UPDATE OF s SKIP LOCKED),
		s AS MATERIALIZED (SELECT key, sum(units)::bigint AS units, count(*) AS rows, least(sum(units), $5)::bigint AS wanted, min(units) AS low, max(units) AS high FROM l GROUP BY key
			HAVING bool_and(inc = 0 AND dec = 0)),
		o AS MATERIALIZED (SELECT * FROM s WHERE wanted > 0 AND (rows > wanted + 4 OR rows * 2 < wanted OR low * 4 < units / wanted)),
		d AS (DELETE FROM %1$s AS s USING l JOIN o ON o.key = l.key WHERE s.key = l.key AND s.shard = l.shard)
		INSERT INTO %1$s AS s (key, shard, units, updated_at)
			SELECT o.key, 1073741824 + floor(random() * 1073741823)::int, o.units / o.wanted + CASE WHEN i <= o.units %% o.wanted THEN 1 ELSE 0 END, clock_timestamp()
			FROM o, generate_series(1, o.wanted) AS i
			ON CONFLICT (key, shard) DO UPDATE SET units = s.units + excluded.units$sql$, c.shards) USING after, first, last, before, c.max_shards;
END $$;
COMMENT ON FUNCTION dcounter_lite.level_units(dcounter_lite.counter, text, boolean, text, timestamptz) IS 'internal: spreads units of a stock evenly over its rows';

-- own_tables returns the counter tables of the caller. Triggers and expressions of a table run as the role that compacts it, so these are none of other
-- owners, also if the caller is a superuser or a member of their roles.
CREATE FUNCTION dcounter_lite.own_tables() RETURNS SETOF regclass
	LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100 ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
	SELECT r.counter FROM dcounter_lite.counter AS r JOIN pg_class AS k ON k.oid = r.counter JOIN pg_roles AS o ON o.oid = k.relowner
	WHERE o.rolname = current_user ORDER BY r.counter $$;
COMMENT ON FUNCTION dcounter_lite.own_tables() IS 'internal: the counter tables of the caller';

-- dc_compact moves all that nobody has locked, now. Sessions that are still writing to these rows wait until its transaction ends; dc_maintain() takes
-- only rows that nobody has written for 20 seconds, and commits after each batch.
CREATE FUNCTION dc_compact(counter regclass DEFAULT NULL, max_keys int DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 10000 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter;
	total bigint := 0;
	left_over int := dc_compact.max_keys;
	b record;
	after text;
	is_first boolean;
BEGIN
	IF dc_compact.max_keys < 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'max_keys must not be negative';
	END IF;
	IF dc_compact.counter IS NOT NULL THEN
		PERFORM dcounter_lite.find(dc_compact.counter);
		IF NOT (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = dc_compact.counter) THEN
			RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('must be owner of table %s', (SELECT relname FROM pg_class WHERE oid = dc_compact.counter));
		END IF;
	END IF;
	FOR c IN SELECT r.* FROM dcounter_lite.counter AS r WHERE r.counter = dc_compact.counter OR dc_compact.counter IS NULL AND r.counter IN (SELECT dcounter_lite.own_tables()) ORDER BY r.counter LOOP
		CONTINUE WHEN NOT dcounter_lite.lock_compaction(c.counter);
		after := ''; is_first := true;
		LOOP
			EXIT WHEN left_over <= 0;
			b := dcounter_lite.compact_batch(c, after, is_first, least(500, left_over), NULL);
			EXIT WHEN b.last IS NULL;
			total := total + b.moved;
			left_over := left_over - b.moved;
			after := b.last; is_first := false;
		END LOOP;
	END LOOP;
	RETURN total;
END $$;
COMMENT ON FUNCTION dc_compact(regclass, int) IS 'moves amounts from shard rows to totals; by default, in all tables of the caller';

-- maintain_step compacts up to 500 keys of a table. Returns whether there may be more, and the last key.
CREATE FUNCTION dcounter_lite.maintain_step(t regclass, after text, first boolean, OUT more boolean, OUT last text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	c dcounter_lite.counter;
	b record;
BEGIN
	more := false;
	SELECT r.* INTO c FROM dcounter_lite.counter AS r WHERE r.counter = t;
	IF c.counter IS NULL OR NOT dcounter_lite.lock_compaction(t) THEN
		RETURN;
	END IF;
	b := dcounter_lite.compact_batch(c, after, first, 500, '20 seconds');
	last := b.last;
	more := last IS NOT NULL;
END $$;
COMMENT ON FUNCTION dcounter_lite.maintain_step(regclass, text, boolean) IS 'internal: compacts some keys of one table';

-- dc_maintain does what the worker of dcounter does, for the tables that the caller owns. Call it by pg_cron or any other scheduler. It commits after each
-- step, so it has no SET clause; in a transaction block, where now() is older than the statement, it does not.
CREATE PROCEDURE dc_maintain()
	LANGUAGE plpgsql AS $$
DECLARE
	alone pg_catalog.bool := pg_catalog.now() OPERATOR(pg_catalog.=) pg_catalog.statement_timestamp();
	tables pg_catalog.oid[];
	t pg_catalog.oid;
	s record;
	after pg_catalog.text;
	is_first pg_catalog.bool;
BEGIN
	INSERT INTO dcounter_lite.change (what) VALUES ('gone');
	IF alone THEN COMMIT; END IF;
	-- not a query to loop over, which would be open at a COMMIT
	tables := ARRAY(SELECT dcounter_lite.own_tables()::pg_catalog.oid);
	FOREACH t IN ARRAY tables LOOP
		after := ''; is_first := true;
		LOOP
			s := dcounter_lite.maintain_step(t, after, is_first);
			IF alone THEN COMMIT; END IF;
			EXIT WHEN NOT s.more;
			after := s.last; is_first := false;
		END LOOP;
		WHILE dcounter_lite.expire_holds(t) LOOP
			IF alone THEN COMMIT; END IF;
		END LOOP;
		PERFORM dcounter_lite.turn_ring(t);
		-- unless it has been dropped in the meantime
		INSERT INTO dcounter_lite.change (what, counter) SELECT 'clean', r.counter FROM dcounter_lite.counter AS r WHERE r.counter OPERATOR(pg_catalog.=) t;
		IF alone THEN COMMIT; END IF;
	END LOOP;
END $$;
COMMENT ON PROCEDURE dc_maintain() IS 'compacts, ends holds whose time is up and forgets old ops, for the tables of the caller';
