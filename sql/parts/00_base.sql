\echo Use "CREATE EXTENSION dcounter" to load this file. \quit

-- Each function states its volatility, PARALLEL and COST, and ROWS if it returns a set. COST is in
-- units of cpu_operator_cost, by the work of one call:
--      1  looks at its argument, or at memory of the session
--   2-10  goes over a small part of a sketch; keeps a delta or an event for the commit; one row by
--         its index; a trigger, where it has nothing to do
--     20  one key's exact value: its total, its shard rows and what is pending
--     50  a row is found, locked and changed; or a whole sketch is gone over
--    100  many keys, or many rows of a few tables
--   1000  DDL, or going over all counter tables; sketches compared register by register
--  10000  a whole table; 100000: a whole ledger
-- Planners have no use for more precision: it tells which conditions to check last, and whether
-- workers pay. The catalog contract (test/pgtap/catalog.sql) lists them all.

CREATE SCHEMA dcounter;
COMMENT ON SCHEMA dcounter IS 'internals of the dcounter extension';

-- Before anything else: a library that is older than this script has no such function.
CREATE FUNCTION dcounter.library_0_2() RETURNS pg_catalog.text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.library_0_2() IS 'internal: version of the library, which is 0.2 or later';
REVOKE EXECUTE ON FUNCTION dcounter.library_0_2() FROM PUBLIC;

CREATE TABLE dcounter.counter (
	counter    pg_catalog.regclass NOT NULL,
	shards     pg_catalog.regclass NOT NULL,
	shard_by   pg_catalog.text     NOT NULL,
	max_shards pg_catalog.int4     NOT NULL,
	holds      pg_catalog.regclass,
	mode       pg_catalog.text     NOT NULL DEFAULT 'exact',
	flush_interval pg_catalog.interval NOT NULL DEFAULT '1 second',
	durability pg_catalog.text     NOT NULL DEFAULT 'async',
	op_retention pg_catalog.interval DEFAULT '7 days',
	ledger     pg_catalog.regclass,
	totals     pg_catalog.text     NOT NULL DEFAULT 'direct',
	regions    pg_catalog.regclass,
	sets       pg_catalog.regclass,
	grants     pg_catalog.regclass,
	wants      pg_catalog.regclass,
	rights_epoch pg_catalog.int8    NOT NULL DEFAULT 0,
	sample     pg_catalog.int4     NOT NULL DEFAULT 1,
	sample_max pg_catalog.int4     NOT NULL DEFAULT 1,
	trends     pg_catalog.regclass,
	half_life  pg_catalog.interval,
	idle       pg_catalog.interval,
	CONSTRAINT counter_pkey PRIMARY KEY (counter),
	CONSTRAINT counter_shards_key UNIQUE (shards),
	CONSTRAINT counter_holds_key UNIQUE (holds),
	CONSTRAINT counter_regions_key UNIQUE (regions),
	CONSTRAINT counter_sets_key UNIQUE (sets),
	CONSTRAINT counter_grants_key UNIQUE (grants),
	CONSTRAINT counter_wants_key UNIQUE (wants),
	CONSTRAINT counter_trends_key UNIQUE (trends)
);
COMMENT ON TABLE dcounter.counter IS 'settings of each counter table';
COMMENT ON COLUMN dcounter.counter.counter IS 'the table of totals, which identifies the counter table';
COMMENT ON COLUMN dcounter.counter.shards IS 'its shard table';
COMMENT ON COLUMN dcounter.counter.shard_by IS 'which shard row a transaction tries first: random, backend or hash';
COMMENT ON COLUMN dcounter.counter.mode IS 'where committed increments go: exact (to shard rows) or buffered (to memory, for a while)';
COMMENT ON COLUMN dcounter.counter.flush_interval IS 'of a buffered table: how long increments stay in memory';
COMMENT ON COLUMN dcounter.counter.durability IS 'of a buffered table: whether a commit waits until its increments are durable (sync) or not (async)';
COMMENT ON COLUMN dcounter.counter.op_retention IS 'how long the ops of dc_incr_once() or of a ledger are kept; NULL: forever';
COMMENT ON COLUMN dcounter.counter.ledger IS 'the ledger that it belongs to, by its table of balances';
COMMENT ON COLUMN dcounter.counter.totals IS 'whether a commit may write rows of totals (direct), or compaction alone (compacted)';
COMMENT ON COLUMN dcounter.counter.regions IS 'the table of the amounts of each region, if it is replicated';
COMMENT ON COLUMN dcounter.counter.sets IS 'the table of what its keys were set to, if it is replicated';
COMMENT ON COLUMN dcounter.counter.grants IS 'the table of units that regions have given to each other, if it is a replicated stock';
COMMENT ON COLUMN dcounter.counter.wants IS 'the table of units that regions ask for, if it is a replicated stock';
COMMENT ON COLUMN dcounter.counter.rights_epoch IS 'the epoch under which this database has its units of a replicated stock; of a counter, the lowest epoch under which it begins to count a key';
COMMENT ON COLUMN dcounter.counter.sample IS 'increments become multiples of it by random rounding; 1: they are exact';
COMMENT ON COLUMN dcounter.counter.sample_max IS 'the largest value it ever had, from which dc_info() computes the error';
COMMENT ON COLUMN dcounter.counter.trends IS 'the table of decayed weights, which dc_trending() reads';
COMMENT ON COLUMN dcounter.counter.half_life IS 'the time in which these weights halve';
COMMENT ON COLUMN dcounter.counter.idle IS 'the time after which a key that is not written is deleted, NULL for never';
COMMENT ON COLUMN dcounter.counter.max_shards IS 'maximum number of shard rows of one key that contention can create';
COMMENT ON COLUMN dcounter.counter.holds IS 'the table of holds, if it is a stock';

CREATE FUNCTION dcounter.on_catalog_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_catalog_change() IS 'internal: makes restoring the settings idempotent and tells sessions of changes';

CREATE TRIGGER on_catalog_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.counter
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_catalog_change();

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT USAGE ON SCHEMA dcounter TO PUBLIC;
GRANT SELECT ON dcounter.counter TO PUBLIC;
-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_catalog_change() FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.counter', '');
