CREATE FUNCTION dcounter.maintainer(counter regclass, OUT maintained_by text, OUT left_because text)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dcounter.maintainer(regclass) IS 'internal: who maintains a counter table';

CREATE FUNCTION dcounter.totals_way(counter regclass, OUT totals text, OUT compacted_because text)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dcounter.totals_way(regclass) IS 'internal: how increments of a counter table get to its totals, and why';

CREATE VIEW dc_tables AS
	SELECT c.counter, pg_catalog.format('%I.%I', n.nspname, r.relname) AS name,
		CASE WHEN c.ledger OPERATOR(pg_catalog.=) c.counter THEN 'ledger' WHEN c.ledger IS NOT NULL THEN 'limits'
			WHEN c.holds IS NOT NULL THEN 'stock' ELSE 'counter' END AS kind,
		c.mode, r.relowner::pg_catalog.regrole AS owner,
		pg_catalog.jsonb_build_object('shard_by', c.shard_by, 'max_shards', c.max_shards, 'events', e.every, 'notify', e.channel,
			'mode', c.mode, 'flush_interval', c.flush_interval, 'durability', c.durability, 'op_retention', c.op_retention,
			'totals', c.totals, 'sample', c.sample, 'trend', c.half_life, 'idle', c.idle) AS settings,
		m.maintained_by, m.left_because, w.totals, w.compacted_because
	FROM dcounter.counter AS c
		JOIN pg_catalog.pg_class AS r ON r.oid OPERATOR(pg_catalog.=) c.counter
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) r.relnamespace
		LEFT JOIN dcounter.counter_events AS e ON e.counter OPERATOR(pg_catalog.=) c.counter,
		dcounter.maintainer(c.counter) AS m, dcounter.totals_way(c.counter) AS w;
COMMENT ON VIEW dc_tables IS 'counter tables, their settings, who maintains them, and how their totals are written';
COMMENT ON COLUMN dc_tables.counter IS 'the table of totals';
COMMENT ON COLUMN dc_tables.name IS 'its name, with the schema';
COMMENT ON COLUMN dc_tables.kind IS 'counter, stock, ledger, or limits (of a ledger)';
COMMENT ON COLUMN dc_tables.mode IS 'exact or buffered';
COMMENT ON COLUMN dc_tables.owner IS 'its owner';
COMMENT ON COLUMN dc_tables.settings IS 'what dc_alter() can change';
COMMENT ON COLUMN dc_tables.maintained_by IS 'worker, owner (dc_maintain(); the worker leaves it alone) or publisher (a subscription feeds it); null while it is locked';
COMMENT ON COLUMN dc_tables.left_because IS 'what on its tables could run code of its owner';
COMMENT ON COLUMN dc_tables.totals IS 'direct (a commit writes them, where it need not wait) or compacted (compaction alone does); null while it is locked';
COMMENT ON COLUMN dc_tables.compacted_because IS 'why they are compacted although the setting is direct';

-- The function behind a view decides which rows the caller is shown.
GRANT SELECT ON dc_tables TO PUBLIC;
