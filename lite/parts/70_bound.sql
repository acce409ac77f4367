-- Bound counters: statement triggers with transition tables. A statement adds the net amount of each key once, however many rows it changes. The
-- expressions of a binding are code of the owner of both tables, which runs as the role that changes the source, as that of any trigger does.

-- rows_of returns the query of the keys and amounts that the rows of a table have in a binding.
CREATE FUNCTION dcounter_lite.rows_of(b dcounter_lite.source, relation text, sign text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 2 SET search_path = pg_catalog, pg_temp AS $$
	SELECT format('SELECT (%s)::text COLLATE "C" AS key, %s(%s)::bigint::numeric AS n FROM %s WHERE %s', b.key, sign, b.value, relation, b.filter) $$;
COMMENT ON FUNCTION dcounter_lite.rows_of(dcounter_lite.source, text, text) IS 'internal: the query of what rows count in a binding';

-- on_source adds what a statement has changed, for all counters that are bound to the table. The trigger's arguments are the number of each binding
-- and the OID of its counter: a transaction whose snapshot is older than a binding does not see it, and would leave its rows out. (The binding is gone
-- if the counter was dropped by DROP TABLE. pg_table_is_visible() is NULL then, whatever the snapshot is.)
CREATE FUNCTION dcounter_lite.on_source() RETURNS trigger
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	b dcounter_lite.source;
	shards regclass;
	rows text;
BEGIN
	IF EXISTS (SELECT FROM generate_series(0, TG_NARGS - 1, 2) AS i
			WHERE NOT EXISTS (SELECT FROM dcounter_lite.source AS s WHERE s.source = TG_RELID AND s.number = TG_ARGV[i]::int)
				AND (TG_NARGS < 2 OR pg_table_is_visible(TG_ARGV[i + 1]::oid) IS NOT NULL)) THEN
		RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = format('could not serialize access to "%s"', TG_TABLE_NAME), DETAIL = 'A counter was bound to it after this transaction had begun.';
	END IF;
	IF TG_OP = 'TRUNCATE' THEN
		PERFORM dcounter_lite.need_read_committed(TG_RELID, 'TRUNCATE');
	END IF;
	FOR b IN SELECT s.* FROM dcounter_lite.source AS s WHERE s.source = TG_RELID ORDER BY s.counter LOOP
		CONTINUE WHEN pg_table_is_visible(b.counter) IS NULL;
		SELECT c.shards INTO shards FROM dcounter_lite.counter AS c WHERE c.counter = b.counter;
		rows := concat_ws(' UNION ALL ',
			CASE WHEN TG_OP IN ('INSERT', 'UPDATE') THEN dcounter_lite.rows_of(b, 'dc_new', '') END,
			CASE WHEN TG_OP IN ('DELETE', 'UPDATE') THEN dcounter_lite.rows_of(b, 'dc_old', '-') END,
			CASE WHEN TG_OP = 'TRUNCATE' THEN dcounter_lite.rows_of(b, b.source::text, '-') END);
		EXECUTE format('INSERT INTO %s AS s (key, shard, inc, dec, updated_at)
			SELECT key, $1, greatest(sum(n), 0), greatest(-sum(n), 0), clock_timestamp() FROM (%s) AS r
			WHERE key IS NOT NULL AND n IS NOT NULL GROUP BY key HAVING sum(n) <> 0 ORDER BY key
			ON CONFLICT (key, shard) DO UPDATE SET inc = s.inc + excluded.inc, dec = s.dec + excluded.dec, updated_at = excluded.updated_at', shards, rows)
			USING dcounter_lite.slot();
	END LOOP;
	RETURN NULL;
END $$;
COMMENT ON FUNCTION dcounter_lite.on_source() IS 'internal: counts what a statement has changed in a source';

-- drift_of returns the query of the keys whose value is not that of the source.
CREATE FUNCTION dcounter_lite.drift_of(c dcounter_lite.counter, b dcounter_lite.source) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 2 SET search_path = pg_catalog, pg_temp AS $$
	SELECT format('SELECT key, coalesce(s.n, 0) AS source, coalesce(v.n, 0) AS value, coalesce(s.n, 0) - coalesce(v.n, 0) AS drift
		FROM (SELECT key, sum(n) AS n FROM (%s) AS r GROUP BY key) AS s
		FULL JOIN (SELECT key, sum(inc) - sum(dec) AS n FROM (SELECT key, inc, dec FROM %s UNION ALL SELECT key, inc, dec FROM %s) AS u GROUP BY key) AS v USING (key)
		WHERE coalesce(s.n, 0) <> coalesce(v.n, 0) AND key IS NOT NULL', dcounter_lite.rows_of(b, b.source::text, ''), c.counter, c.shards) $$;
COMMENT ON FUNCTION dcounter_lite.drift_of(dcounter_lite.counter, dcounter_lite.source) IS 'internal: the query of keys that differ from their source';

-- dc_source_check compares in one statement, so in one snapshot.
CREATE FUNCTION dc_source_check(counter regclass, OUT key text, OUT source numeric, OUT counter_value numeric, OUT drift numeric) RETURNS SETOF record
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 10000 ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter := dcounter_lite.find($1);
	b dcounter_lite.source;
BEGIN
	SELECT * INTO b FROM dcounter_lite.source AS r WHERE r.counter = c.counter;
	IF b.counter IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('"%s" is not bound to a source', c.counter);
	END IF;
	RETURN QUERY EXECUTE dcounter_lite.drift_of(c, b) || ' ORDER BY key';
END $$;
COMMENT ON FUNCTION dc_source_check(regclass) IS 'keys of a bound counter that differ from their source';

-- source_triggers creates the triggers of a source again, with the numbers of its bindings, or drops them if it has none. The caller has locked it.
CREATE FUNCTION dcounter_lite.source_triggers(source regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
	bindings text := (SELECT string_agg(concat_ws(', ', r.number, r.counter::oid), ', ' ORDER BY r.number) FROM dcounter_lite.source AS r WHERE r.source = $1);
	t record;
BEGIN
	FOR t IN SELECT * FROM (VALUES ('insert', 'AFTER INSERT', 'REFERENCING NEW TABLE AS dc_new'), ('delete', 'AFTER DELETE', 'REFERENCING OLD TABLE AS dc_old'),
			('update', 'AFTER UPDATE', 'REFERENCING OLD TABLE AS dc_old NEW TABLE AS dc_new'), ('truncate', 'BEFORE TRUNCATE', '')) AS v(name, event, tables) LOOP
		IF bindings IS NULL THEN
			EXECUTE format('DROP TRIGGER IF EXISTS dcounter_lite_%s ON %s', t.name, source);
		ELSE
			EXECUTE format('CREATE OR REPLACE TRIGGER dcounter_lite_%s %s ON %s %s FOR EACH STATEMENT EXECUTE FUNCTION dcounter_lite.on_source(%s)', t.name, t.event, source, t.tables, bindings);
		END IF;
	END LOOP;
END $$;
COMMENT ON FUNCTION dcounter_lite.source_triggers(regclass) IS 'internal: creates or drops the triggers of a source';

-- dc_bind counts the rows that the source has under a lock that makes its writers wait. Numbers of bindings are random, so that none is used again: a
-- transaction with an older snapshot would take the new binding for the one that it sees.
CREATE FUNCTION dc_bind(counter regclass, source regclass, key text, value text DEFAULT '1', filter text DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(dc_bind.counter);
	b dcounter_lite.source;
BEGIN
	PERFORM dcounter_lite.not_null(dc_bind.source, 'source'), dcounter_lite.not_null(dc_bind.key, 'key'), dcounter_lite.not_null(dc_bind.value, 'value');
	PERFORM dcounter_lite.need_read_committed(c.counter, 'dc_bind()');
	IF c.holds IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('cannot bind "%s": it is a stock', c.counter);
	END IF;
	EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', dc_bind.source);
	-- statements from here on have snapshots that are newer than the lock
	IF EXISTS (SELECT FROM dcounter_lite.source AS r WHERE r.counter = c.counter) THEN
		RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('"%s" is already bound', c.counter), HINT = 'Unbind it with dc_unbind() first.';
	END IF;
	INSERT INTO dcounter_lite.source (counter, source, key, value, filter, number)
		VALUES (c.counter, dc_bind.source, dc_bind.key, dc_bind.value, coalesce(dc_bind.filter, 'true'), floor(random() * 2147483648)::bigint)
		RETURNING * INTO b;
	PERFORM dcounter_lite.source_triggers(b.source);
	EXECUTE format('INSERT INTO %s AS s (key, shard, inc, dec, updated_at) SELECT key, $1, greatest(drift, 0), greatest(-drift, 0), clock_timestamp() FROM (%s) AS d ORDER BY key
		ON CONFLICT (key, shard) DO UPDATE SET inc = s.inc + excluded.inc, dec = s.dec + excluded.dec, updated_at = excluded.updated_at', c.shards, dcounter_lite.drift_of(c, b))
		USING dcounter_lite.slot();
END $$;
COMMENT ON FUNCTION dc_bind(regclass, regclass, text, text, text) IS 'makes a counter the count, or the sum, of the rows of a table';

-- unbind removes a binding, if there is one. It locks the source first: otherwise it could drop the triggers of a binding that is not committed yet.
CREATE FUNCTION dcounter_lite.unbind(counter regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	s regclass := (SELECT r.source FROM dcounter_lite.source AS r WHERE r.counter = unbind.counter);
BEGIN
	IF EXISTS (SELECT FROM pg_class WHERE oid = s) THEN
		EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', s);
	ELSE
		s := NULL;
	END IF;
	INSERT INTO dcounter_lite.change (what, counter) SELECT 'unbind', r.counter FROM dcounter_lite.source AS r WHERE r.counter = unbind.counter;
	IF s IS NOT NULL THEN
		PERFORM dcounter_lite.source_triggers(s);
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.unbind(regclass) IS 'internal: removes a binding and its triggers';

CREATE FUNCTION dc_unbind(counter regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	PERFORM dcounter_lite.unbind((dcounter_lite.find(dc_unbind.counter)).counter);
END $$;
COMMENT ON FUNCTION dc_unbind(regclass) IS 'makes a bound counter an ordinary one';
