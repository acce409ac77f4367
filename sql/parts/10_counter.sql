CREATE FUNCTION dc_create(counter text, shard_by text DEFAULT 'backend', max_shards int DEFAULT 64, partitions int DEFAULT NULL,
	mode text DEFAULT 'exact', flush_interval interval DEFAULT '1 second', durability text DEFAULT 'async', op_retention interval DEFAULT '7 days', totals text DEFAULT 'direct',
	sample int DEFAULT 1, trend interval DEFAULT NULL, if_not_exists boolean DEFAULT false, idle interval DEFAULT NULL) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_create(text, text, int, int, text, interval, text, interval, text, int, interval, boolean, interval) IS 'creates a counter table';

CREATE FUNCTION dc_alter(counter regclass, shard_by text DEFAULT NULL, max_shards int DEFAULT NULL, events interval DEFAULT NULL, notify text DEFAULT NULL,
	mode text DEFAULT NULL, flush_interval interval DEFAULT NULL, durability text DEFAULT NULL, op_retention interval DEFAULT NULL, totals text DEFAULT NULL,
	on_drift text DEFAULT NULL, sample int DEFAULT NULL, trend interval DEFAULT NULL, idle interval DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_alter(regclass, text, int, interval, text, text, interval, text, interval, text, text, int, interval, interval) IS 'changes the settings of a counter table';

CREATE FUNCTION dc_drop(counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_drop(regclass) IS 'drops a counter table';

CREATE FUNCTION dc_adopt(counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_adopt(regclass) IS 'registers an existing table as a counter table';

CREATE FUNCTION dc_incr(counter regclass, key anycompatible, delta bigint DEFAULT 1) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_incr(regclass, anycompatible, bigint) IS 'adds to a counter';

CREATE FUNCTION dc_decr(counter regclass, key anycompatible, delta bigint DEFAULT 1) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_decr(regclass, anycompatible, bigint) IS 'subtracts from a counter';

CREATE FUNCTION dc_incr_hashed(counter regclass, key anycompatible, by text, delta bigint DEFAULT 1) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_incr_hashed(regclass, anycompatible, text, bigint) IS 'adds to a counter, with the shard row chosen by the hash of a writer or event';

CREATE FUNCTION dc_incr_returning(counter regclass, key anycompatible, delta bigint DEFAULT 1) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_incr_returning(regclass, anycompatible, bigint) IS 'adds to a counter and returns the value that this transaction sees';

CREATE FUNCTION dc_incr_many(counter regclass, keys anycompatiblearray, deltas bigint[] DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_incr_many(regclass, anycompatiblearray, bigint[]) IS 'adds to many counters in one call';

CREATE FUNCTION dc_load(counter regclass, keys anycompatiblearray, amounts bigint[]) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_load(regclass, anycompatiblearray, bigint[]) IS 'loads the values that counters start with, and adds to those that exist';

CREATE FUNCTION dc_apply() RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_apply() IS 'writes the pending increments of this transaction now';

CREATE FUNCTION dc_get(counter regclass, key anycompatible) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 20;
COMMENT ON FUNCTION dc_get(regclass, anycompatible) IS 'exact value of a counter';

CREATE FUNCTION dc_get_many(counter regclass, keys anycompatiblearray, OUT key anycompatible, OUT value bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_get_many(regclass, anycompatiblearray) IS 'exact values of many counters, in the order asked';

CREATE FUNCTION dc_scan(counter regclass, prefix jsonb DEFAULT '[]', OUT key jsonb, OUT value bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_scan(regclass, jsonb) IS 'exact values, except 0, of the keys that are JSON arrays and begin with these elements';

CREATE FUNCTION dc_info(counter regclass, key anycompatible, OUT value bigint, OUT inc bigint, OUT "dec" bigint, OUT updated_at timestamptz, OUT shards int, OUT cache_age interval,
	OUT error float8)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 20;
COMMENT ON FUNCTION dc_info(regclass, anycompatible) IS 'exact value of a counter, with its parts';

CREATE FUNCTION dc_total(counter regclass, key anycompatible, OUT value bigint, OUT updated_at timestamptz)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 10;
COMMENT ON FUNCTION dc_total(regclass, anycompatible) IS 'value of a counter as of the last compaction';

CREATE FUNCTION dc_top(counter regclass, n int DEFAULT 10, OUT key text, OUT value bigint, OUT rank bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 10;
COMMENT ON FUNCTION dc_top(regclass, int) IS 'keys with the highest values as of the last compaction';

CREATE FUNCTION dc_sum(counter regclass) RETURNS numeric
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 10000;
COMMENT ON FUNCTION dc_sum(regclass) IS 'exact sum over all keys of a counter table';

CREATE FUNCTION dc_set(counter regclass, key anycompatible, value bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_set(regclass, anycompatible, bigint) IS 'sets a counter to exactly this value and returns the old one';

CREATE FUNCTION dc_reset(counter regclass, key anycompatible) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_reset(regclass, anycompatible) IS 'sets a counter to zero and returns the old value';

CREATE FUNCTION dc_delete(counter regclass, key anycompatible) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_delete(regclass, anycompatible) IS 'removes a key and returns its last value';

CREATE FUNCTION dc_compact(counter regclass DEFAULT NULL, max_keys int DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_compact(regclass, int) IS 'moves amounts from shard rows to totals; by default, in all tables of the caller';

CREATE FUNCTION dcounter.on_drop() RETURNS pg_catalog.event_trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_drop() IS 'internal: drops what belongs to dropped tables, or refuses the drop';

CREATE FUNCTION dcounter.on_ddl() RETURNS pg_catalog.event_trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_ddl() IS 'internal: applies to tables what was done to the table that they belong to, or refuses it';

CREATE FUNCTION dcounter.on_ddl_begin() RETURNS pg_catalog.event_trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_ddl_begin() IS 'internal: looks at what a command is about to drop or rename';

CREATE FUNCTION dcounter.on_counter_truncate() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_counter_truncate() IS 'internal: truncates the tables of a counter together';

CREATE FUNCTION dcounter.on_counter_delete() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_counter_delete() IS 'internal: keeps rows of stocks, ledgers and distinct tables from being changed except by their functions';

-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_drop() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_ddl() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_ddl_begin() FROM PUBLIC;
