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
COMMENT ON COLUMN dcounter.counter.counter IS 'the table of totals, by which the counter table is known';
COMMENT ON COLUMN dcounter.counter.shards IS 'its shard table';
COMMENT ON COLUMN dcounter.counter.shard_by IS 'which shard row a transaction tries first: random, backend or hash';
COMMENT ON COLUMN dcounter.counter.mode IS 'where committed increments go: exact (to shard rows) or buffered (to memory, for a while)';
COMMENT ON COLUMN dcounter.counter.flush_interval IS 'of a buffered table: how long increments stay in memory';
COMMENT ON COLUMN dcounter.counter.durability IS 'of a buffered table: whether a commit waits until its increments are durable (sync) or not (async)';
COMMENT ON COLUMN dcounter.counter.op_retention IS 'how long the ops of dc_incr_once() or of a ledger are kept, NULL for good';
COMMENT ON COLUMN dcounter.counter.ledger IS 'the ledger that it belongs to, by its table of balances';
COMMENT ON COLUMN dcounter.counter.totals IS 'whether a commit may write rows of totals (direct), or compaction alone (compacted)';
COMMENT ON COLUMN dcounter.counter.regions IS 'the table of the amounts of each region, if it is replicated';
COMMENT ON COLUMN dcounter.counter.sets IS 'the table of what its keys were set to, if it is replicated';
COMMENT ON COLUMN dcounter.counter.grants IS 'the table of units that regions have given to each other, if it is a stock that is replicated';
COMMENT ON COLUMN dcounter.counter.wants IS 'the table of units that regions ask for, if it is a stock that is replicated';
COMMENT ON COLUMN dcounter.counter.rights_epoch IS 'the number under which this database has its units of a stock that is replicated; of a counter, the least epoch under which it begins to count a key';
COMMENT ON COLUMN dcounter.counter.sample IS 'increments become multiples of it by random rounding; 1: they are exact';
COMMENT ON COLUMN dcounter.counter.sample_max IS 'the largest that it ever was, by which dc_info() tells the error';
COMMENT ON COLUMN dcounter.counter.trends IS 'the table of decayed weights, which dc_trending() reads';
COMMENT ON COLUMN dcounter.counter.half_life IS 'in which time these halve';
COMMENT ON COLUMN dcounter.counter.max_shards IS 'most shard rows of one key that contention can create';
COMMENT ON COLUMN dcounter.counter.holds IS 'the table of holds, if it is a stock';

CREATE FUNCTION dcounter.on_catalog_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_catalog_change() IS 'internal: makes restoring the settings idempotent and tells sessions of changes';

CREATE TRIGGER on_catalog_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.counter
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_catalog_change();
CREATE FUNCTION dc_create(counter text, shard_by text DEFAULT 'backend', max_shards int DEFAULT 64, partitions int DEFAULT NULL,
	mode text DEFAULT 'exact', flush_interval interval DEFAULT '1 second', durability text DEFAULT 'async', op_retention interval DEFAULT '7 days', totals text DEFAULT 'direct',
	sample int DEFAULT 1, trend interval DEFAULT NULL, if_not_exists boolean DEFAULT false) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_create(text, text, int, int, text, interval, text, interval, text, int, interval, boolean) IS 'creates a counter table';

CREATE FUNCTION dc_alter(counter regclass, shard_by text DEFAULT NULL, max_shards int DEFAULT NULL, events interval DEFAULT NULL, notify text DEFAULT NULL,
	mode text DEFAULT NULL, flush_interval interval DEFAULT NULL, durability text DEFAULT NULL, op_retention interval DEFAULT NULL, totals text DEFAULT NULL,
	on_drift text DEFAULT NULL, sample int DEFAULT NULL, trend interval DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_alter(regclass, text, int, interval, text, text, interval, text, interval, text, text, int, interval) IS 'changes the settings of a counter table';

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
COMMENT ON FUNCTION dc_set(regclass, anycompatible, bigint) IS 'makes a counter exactly this value and returns the old one';

CREATE FUNCTION dc_reset(counter regclass, key anycompatible) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_reset(regclass, anycompatible) IS 'sets a counter to zero and returns what was there';

CREATE FUNCTION dc_delete(counter regclass, key anycompatible) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_delete(regclass, anycompatible) IS 'removes a key and returns its last value';

CREATE FUNCTION dc_compact(counter regclass DEFAULT NULL, max_keys int DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_compact(regclass, int) IS 'moves amounts from shard rows to totals, of all the tables of the caller by default';

CREATE FUNCTION dcounter.on_drop() RETURNS pg_catalog.event_trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_drop() IS 'internal: drops what belongs to tables that were dropped, or refuses that';

CREATE FUNCTION dcounter.on_ddl() RETURNS pg_catalog.event_trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_ddl() IS 'internal: does to tables what was done to the one that they belong to, or refuses that';

CREATE FUNCTION dcounter.on_ddl_begin() RETURNS pg_catalog.event_trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_ddl_begin() IS 'internal: looks at what a command is about to drop or rename';

CREATE FUNCTION dcounter.on_counter_truncate() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_counter_truncate() IS 'internal: truncates the tables of a counter together';

CREATE FUNCTION dcounter.on_counter_delete() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_counter_delete() IS 'internal: keeps rows of stocks and ledgers from being deleted but by their functions';
CREATE FUNCTION dcounter.stat_counters(OUT counter regclass, OUT fed_by text, OUT increments bigint, OUT keys_written bigint, OUT totals_written bigint,
	OUT writes_per_second float8, OUT busy_skipped bigint, OUT splits bigint, OUT waits bigint, OUT early_writes bigint,
	OUT estimated_shard_rows bigint, OUT compaction_lag interval, OUT keys_compacted bigint, OUT last_compaction timestamptz,
	OUT last_compaction_duration interval, OUT overflowed_keys bigint, OUT reads bigint, OUT mean_read_time_ms float8,
	OUT buffered bigint, OUT buffer_full bigint, OUT flushes bigint, OUT keys_flushed bigint, OUT mean_flush_time_ms float8,
	OUT cache_hits bigint, OUT cache_misses bigint, OUT cache_evictions bigint, OUT stats_reset timestamptz)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION dcounter.stat_counters() IS 'internal: the rows of dc_stat_counters';

CREATE VIEW dc_stat_counters AS
	SELECT s.counter, s.fed_by, s.increments, s.keys_written, s.totals_written, s.writes_per_second, s.busy_skipped, s.splits, s.waits,
		s.early_writes, s.estimated_shard_rows, s.compaction_lag,
		s.keys_compacted, s.last_compaction, s.last_compaction_duration, s.overflowed_keys, s.reads, s.mean_read_time_ms, s.buffered, s.buffer_full,
		s.flushes, s.keys_flushed, s.mean_flush_time_ms, s.cache_hits, s.cache_misses, s.cache_evictions, s.stats_reset
	FROM dcounter.stat_counters() AS s;
COMMENT ON VIEW dc_stat_counters IS 'statistics of the counter tables that the caller may read';
COMMENT ON COLUMN dc_stat_counters.counter IS 'the counter table';
COMMENT ON COLUMN dc_stat_counters.fed_by IS 'the subscriptions that feed it: then it is not written to here, nor maintained';
COMMENT ON COLUMN dc_stat_counters.increments IS 'calls of dc_incr() and its relatives that were committed; dc_incr_many() is one for each key';
COMMENT ON COLUMN dc_stat_counters.keys_written IS 'writes of a key by a transaction';
COMMENT ON COLUMN dc_stat_counters.totals_written IS 'of these, writes of the row of totals itself';
COMMENT ON COLUMN dc_stat_counters.writes_per_second IS 'increments a second over the last minute or so';
COMMENT ON COLUMN dc_stat_counters.busy_skipped IS 'shard rows passed over since another transaction was changing them';
COMMENT ON COLUMN dc_stat_counters.splits IS 'shard rows inserted for a key that had one already';
COMMENT ON COLUMN dc_stat_counters.waits IS 'waits of a commit for another one, with max_shards rows all busy';
COMMENT ON COLUMN dc_stat_counters.early_writes IS 'writes before the commit since dcounter.pending_memory was used up';
COMMENT ON COLUMN dc_stat_counters.estimated_shard_rows IS 'shard rows, as the server estimates them; dc_stat_shards counts';
COMMENT ON COLUMN dc_stat_counters.compaction_lag IS 'age of the oldest change that is not compacted, at most; null if it is not known';
COMMENT ON COLUMN dc_stat_counters.keys_compacted IS 'keys whose amounts compaction has moved to the totals';
COMMENT ON COLUMN dc_stat_counters.last_compaction IS 'end of the last compaction of the whole table';
COMMENT ON COLUMN dc_stat_counters.last_compaction_duration IS 'how long it took';
COMMENT ON COLUMN dc_stat_counters.overflowed_keys IS 'keys that it could not move since a sum leaves bigint; dc_set() or dc_delete() starts them anew';
COMMENT ON COLUMN dc_stat_counters.reads IS 'calls of dc_get(), dc_get_many(), dc_info() and dc_sum()';
COMMENT ON COLUMN dc_stat_counters.mean_read_time_ms IS 'mean time of these in milliseconds';
COMMENT ON COLUMN dc_stat_counters.buffered IS 'increments that went to memory, to be flushed by the worker';
COMMENT ON COLUMN dc_stat_counters.buffer_full IS 'transactions that wrote their increments since that memory was full';
COMMENT ON COLUMN dc_stat_counters.flushes IS 'transactions of the worker that wrote what was in memory';
COMMENT ON COLUMN dc_stat_counters.keys_flushed IS 'keys whose amounts they wrote';
COMMENT ON COLUMN dc_stat_counters.mean_flush_time_ms IS 'mean time of these transactions in milliseconds';
COMMENT ON COLUMN dc_stat_counters.cache_hits IS 'keys that dc_get() and dc_get_many() with max_staleness found in the cache';
COMMENT ON COLUMN dc_stat_counters.cache_misses IS 'keys that had to be computed, or whose computation was waited for';
COMMENT ON COLUMN dc_stat_counters.cache_evictions IS 'keys, of this table or another one, that left the cache to make room for one of this table';
COMMENT ON COLUMN dc_stat_counters.stats_reset IS 'since when the cumulative numbers count';

CREATE FUNCTION dcounter.stat_shards(counter regclass, OUT shard_rows bigint, OUT active_keys bigint, OUT shard_imbalance float8,
	OUT compaction_lag interval, OUT pending_amount numeric)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 1;
COMMENT ON FUNCTION dcounter.stat_shards(regclass) IS 'internal: the row of a table in dc_stat_shards';

CREATE VIEW dc_stat_shards AS
	SELECT c.counter, s.shard_rows, s.active_keys, s.shard_imbalance, s.compaction_lag, s.pending_amount
	FROM dcounter.counter AS c, dcounter.stat_shards(c.counter) AS s;
COMMENT ON VIEW dc_stat_shards IS 'what is in the shard tables now, of the counter tables that the caller may read; reads all of their shard rows';
COMMENT ON COLUMN dc_stat_shards.counter IS 'the counter table';
COMMENT ON COLUMN dc_stat_shards.shard_rows IS 'shard rows now';
COMMENT ON COLUMN dc_stat_shards.active_keys IS 'keys with an amount that is not compacted';
COMMENT ON COLUMN dc_stat_shards.shard_imbalance IS 'the amount in the fullest shard row of a key to the mean of its rows, for the key where this is highest';
COMMENT ON COLUMN dc_stat_shards.compaction_lag IS 'age of the oldest change that is not compacted';
COMMENT ON COLUMN dc_stat_shards.pending_amount IS 'sum of the amounts that are not compacted';

CREATE FUNCTION dcounter.stat_hot_keys(OUT counter regclass, OUT key text, OUT writes_per_second float8, OUT max_error float8,
	OUT writes_last_window float8)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 100;
COMMENT ON FUNCTION dcounter.stat_hot_keys() IS 'internal: the rows of dc_stat_hot_keys';

CREATE VIEW dc_stat_hot_keys AS
	SELECT s.counter, s.key, s.writes_per_second, s.max_error, s.writes_last_window
	FROM dcounter.stat_hot_keys() AS s
	ORDER BY s.writes_per_second DESC;
COMMENT ON VIEW dc_stat_hot_keys IS 'keys with the most writes lately, of the counter tables that the caller may read';
COMMENT ON COLUMN dc_stat_hot_keys.counter IS 'the counter table';
COMMENT ON COLUMN dc_stat_hot_keys.key IS 'the key, or the first 255 bytes of it';
COMMENT ON COLUMN dc_stat_hot_keys.writes_per_second IS 'increments a second lately, estimated from a sample';
COMMENT ON COLUMN dc_stat_hot_keys.max_error IS 'how much of that may belong to keys that are listed no more';
COMMENT ON COLUMN dc_stat_hot_keys.writes_last_window IS 'increments a second in the last 10 seconds from one multiple of 10 to the next: a rate, which does not fade';

CREATE FUNCTION dcounter.stat_memory(OUT tables bigint, OUT max_tables bigint, OUT without_statistics bigint, OUT evicted bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 1;
COMMENT ON FUNCTION dcounter.stat_memory() IS 'internal: the row of dc_stat_memory';

CREATE VIEW dc_stat_memory AS
	SELECT s.tables, s.max_tables, s.without_statistics, s.evicted
	FROM dcounter.stat_memory() AS s;
COMMENT ON VIEW dc_stat_memory IS 'how many counter tables have statistics, for members of pg_monitor';
COMMENT ON COLUMN dc_stat_memory.tables IS 'counter tables with statistics, of all databases';
COMMENT ON COLUMN dc_stat_memory.max_tables IS 'how many dcounter.stats_size has room for';
COMMENT ON COLUMN dc_stat_memory.without_statistics IS 'counter tables of this database without statistics';
COMMENT ON COLUMN dc_stat_memory.evicted IS 'tables that have lost their statistics to others, since the server started';

CREATE FUNCTION dc_stat_reset(counter regclass DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_stat_reset(regclass) IS 'sets the statistics of a counter table to zero, of all the tables of the caller by default';
CREATE TABLE dcounter.buffer_restored (
	counter    pg_catalog.oid  NOT NULL,
	generation pg_catalog.int8 NOT NULL,
	CONSTRAINT buffer_restored_pkey PRIMARY KEY (counter)
);
COMMENT ON TABLE dcounter.buffer_restored IS 'what a clean shutdown had left in memory and is in rows now';
COMMENT ON COLUMN dcounter.buffer_restored.counter IS 'OID of a buffered counter table';
COMMENT ON COLUMN dcounter.buffer_restored.generation IS 'of the file that was the last to be applied to it';

CREATE FUNCTION dc_flush(counter regclass DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_flush(regclass) IS 'writes to a buffered counter table what is in memory, to all the tables of the caller by default';

CREATE FUNCTION dcounter.stat_buffer(OUT counter regclass, OUT keys bigint, OUT increments bigint, OUT memory bigint,
	OUT oldest interval, OUT waiting int, OUT last_flush timestamptz, OUT last_flush_time_ms float8)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 20;
COMMENT ON FUNCTION dcounter.stat_buffer() IS 'internal: the rows of dc_stat_buffer';

CREATE VIEW dc_stat_buffer AS
	SELECT s.counter, s.keys, s.increments, s.memory, s.oldest, s.waiting, s.last_flush, s.last_flush_time_ms
	FROM dcounter.stat_buffer() AS s;
COMMENT ON VIEW dc_stat_buffer IS 'what is in memory for the buffered counter tables that the caller may read';
COMMENT ON COLUMN dc_stat_buffer.counter IS 'the counter table';
COMMENT ON COLUMN dc_stat_buffer.keys IS 'keys that take memory';
COMMENT ON COLUMN dc_stat_buffer.increments IS 'increments in memory that no flush has taken';
COMMENT ON COLUMN dc_stat_buffer.memory IS 'bytes of dcounter.buffer_size that they take';
COMMENT ON COLUMN dc_stat_buffer.oldest IS 'how long the oldest of these increments has been there';
COMMENT ON COLUMN dc_stat_buffer.waiting IS 'sessions that wait for a flush';
COMMENT ON COLUMN dc_stat_buffer.last_flush IS 'start of the last flush';
COMMENT ON COLUMN dc_stat_buffer.last_flush_time_ms IS 'how long it took, in milliseconds';
CREATE FUNCTION dc_get(counter regclass, key anycompatible, max_staleness interval) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_get_cached' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 20;
COMMENT ON FUNCTION dc_get(regclass, anycompatible, interval) IS 'value of a counter that is at most so old, from shared memory if possible';

CREATE FUNCTION dc_get_many(counter regclass, keys anycompatiblearray, max_staleness interval, OUT key anycompatible, OUT value bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'dc_get_many_cached' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_get_many(regclass, anycompatiblearray, interval) IS 'values of many counters that are at most so old, from shared memory if possible, in the order asked';
CREATE FUNCTION dc_stock_create(stock text, max_shards int DEFAULT 64, if_not_exists boolean DEFAULT false) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_stock_create(text, int, boolean) IS 'creates a stock: a counter table that never goes below zero';

CREATE FUNCTION dc_restock(stock regclass, key anycompatible, qty bigint) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_restock(regclass, anycompatible, bigint) IS 'adds units to a stock';

CREATE FUNCTION dc_take(stock regclass, key anycompatible, qty bigint DEFAULT 1, wait boolean DEFAULT false) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_take(regclass, anycompatible, bigint, boolean) IS 'takes units, or changes nothing and answers false';

CREATE FUNCTION dc_take_up_to(stock regclass, key anycompatible, qty bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_take_up_to(regclass, anycompatible, bigint) IS 'takes as many units as there are, up to a number, and returns how many';

CREATE FUNCTION dc_take_all(stock regclass, keys anycompatiblearray, qtys bigint[]) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_take_all(regclass, anycompatiblearray, bigint[]) IS 'takes units of many keys, all or none';

CREATE FUNCTION dc_hold(stock regclass, key anycompatible, qty bigint DEFAULT 1, ttl interval DEFAULT '10 minutes', hold_id uuid DEFAULT gen_random_uuid()) RETURNS uuid
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_hold(regclass, anycompatible, bigint, interval, uuid) IS 'sets units aside for a while, or returns NULL if there are not enough';

CREATE FUNCTION dc_hold_confirm(stock regclass, hold_id uuid, qty bigint DEFAULT NULL, strict boolean DEFAULT true) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_hold_confirm(regclass, uuid, bigint, boolean) IS 'ends a hold with its units sold';

CREATE FUNCTION dc_hold_release(stock regclass, hold_id uuid, strict boolean DEFAULT true) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_hold_release(regclass, uuid, boolean) IS 'ends a hold and gives its units back';

CREATE FUNCTION dc_holds(stock regclass, key anycompatible DEFAULT NULL::text, OUT key text, OUT hold_id uuid, OUT qty bigint, OUT expires_at timestamptz, OUT age interval) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_holds(regclass, anycompatible) IS 'open holds of a key, of all keys by default';
-- The partitions of the tables of ops.
CREATE TABLE dcounter.op_slot (
	counter   pg_catalog.regclass    NOT NULL,
	slot      pg_catalog.int2        NOT NULL,
	ops    pg_catalog.regclass    NOT NULL,
	partition pg_catalog.regclass    NOT NULL,
	state     pg_catalog.text        NOT NULL,
	since     pg_catalog.timestamptz NOT NULL,
	closed_at pg_catalog.timestamptz,
	forgotten pg_catalog.timestamptz,
	CONSTRAINT op_slot_pkey PRIMARY KEY (counter, slot),
	CONSTRAINT op_slot_partition_key UNIQUE (partition),
	CHECK (state OPERATOR(pg_catalog.=) ANY ('{empty,opening,open,closed,expired}'::pg_catalog.text[]))
);
CREATE INDEX op_slot_ops_idx ON dcounter.op_slot (ops);
COMMENT ON TABLE dcounter.op_slot IS 'the partitions of the tables of ops, and what they are used for';
COMMENT ON COLUMN dcounter.op_slot.counter IS 'the counter table whose ops they are';
COMMENT ON COLUMN dcounter.op_slot.slot IS 'number of the partition';
COMMENT ON COLUMN dcounter.op_slot.ops IS 'the table of ops';
COMMENT ON COLUMN dcounter.op_slot.partition IS 'its partition';
COMMENT ON COLUMN dcounter.op_slot.state IS 'open and opening (ops are written to it), closed (ops are looked for in it), expired (to be emptied) or empty';
COMMENT ON COLUMN dcounter.op_slot.since IS 'when it came into this state';
COMMENT ON COLUMN dcounter.op_slot.closed_at IS 'of a closed or expired one: ops were written to it up to then';
COMMENT ON COLUMN dcounter.op_slot.forgotten IS 'ops that were written to it up to then are no longer known';

CREATE FUNCTION dcounter.on_op_slot_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_op_slot_change() IS 'internal: makes restoring the partitions of ops idempotent and tells sessions of changes';

CREATE TRIGGER on_op_slot_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.op_slot
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_op_slot_change();

CREATE FUNCTION dc_incr_once(counter regclass, key anycompatible, delta bigint, op_id text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_incr_once(regclass, anycompatible, bigint, text) IS 'adds to a counter, unless this op has been applied before';

CREATE FUNCTION dc_incr_once_many(counter regclass, keys anycompatiblearray, deltas bigint[], op_ids text[]) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_incr_once_many(regclass, anycompatiblearray, bigint[], text[]) IS 'adds to many counters, except for ops that have been applied before; returns how many were new';

CREATE FUNCTION dc_op_status(counter regclass, op_id text, OUT applied boolean, OUT key text, OUT delta bigint, OUT at timestamptz) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 20 ROWS 1;
COMMENT ON FUNCTION dc_op_status(regclass, text) IS 'whether an op has been applied';
CREATE TABLE dcounter.ledger (
	ledger    pg_catalog.regclass NOT NULL,
	limits    pg_catalog.regclass NOT NULL,
	entries   pg_catalog.regclass NOT NULL,
	entry_ids pg_catalog.regclass NOT NULL,
	accounts  pg_catalog.regclass NOT NULL,
	pendings  pg_catalog.regclass NOT NULL,
	openings  pg_catalog.regclass,
	auto_open pg_catalog.bool     NOT NULL,
	CONSTRAINT ledger_pkey PRIMARY KEY (ledger)
);
COMMENT ON TABLE dcounter.ledger IS 'tables and settings of each ledger';
COMMENT ON COLUMN dcounter.ledger.ledger IS 'the table of balances, by which the ledger is known';
COMMENT ON COLUMN dcounter.ledger.limits IS 'the stock of what accounts with bounds may still post';
COMMENT ON COLUMN dcounter.ledger.entries IS 'the entries';
COMMENT ON COLUMN dcounter.ledger.entry_ids IS 'the sequence of their numbers';
COMMENT ON COLUMN dcounter.ledger.accounts IS 'the accounts and their bounds';
COMMENT ON COLUMN dcounter.ledger.pendings IS 'pending transfers';
COMMENT ON COLUMN dcounter.ledger.openings IS 'balances carried forward when entries were detached, if any were';
COMMENT ON COLUMN dcounter.ledger.auto_open IS 'whether posting to an account opens it';

CREATE FUNCTION dcounter.on_ledger_row_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_ledger_row_change() IS 'internal: makes restoring the ledgers idempotent and tells sessions of changes';

CREATE TRIGGER on_ledger_row_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.ledger
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_ledger_row_change();

CREATE FUNCTION dcounter.on_ledger_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_ledger_change() IS 'internal: keeps the tables of a ledger from being changed but by its functions';

CREATE FUNCTION dc_ledger_create(ledger text, auto_open boolean DEFAULT false, op_retention interval DEFAULT NULL, partition_by text DEFAULT NULL, if_not_exists boolean DEFAULT false) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_ledger_create(text, boolean, interval, text, boolean) IS 'creates a ledger: balances, accounts and entries';

CREATE FUNCTION dc_account_open(ledger regclass, key anycompatible, min_balance bigint DEFAULT 0, max_balance bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_account_open(regclass, anycompatible, bigint, bigint) IS 'opens an account of a ledger, or changes its bounds';

CREATE FUNCTION dc_transfer(ledger regclass, from_key anycompatible, to_key anycompatible, amount bigint, op_id text, memo jsonb DEFAULT NULL, OUT transfer_id bigint, OUT duplicate boolean)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_transfer(regclass, anycompatible, anycompatible, bigint, text, jsonb) IS 'moves an amount from one account to another, once for each op';

CREATE FUNCTION dc_transfer_many(ledger regclass, from_keys anycompatiblearray, to_keys anycompatiblearray, amounts bigint[], op_id text, memo jsonb DEFAULT NULL, OUT transfer_id bigint, OUT duplicate boolean)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_transfer_many(regclass, anycompatiblearray, anycompatiblearray, bigint[], text, jsonb) IS 'moves amounts between many accounts, all or none';

CREATE FUNCTION dc_transfer_pending(ledger regclass, from_key anycompatible, to_key anycompatible, amount bigint, op_id text, memo jsonb DEFAULT NULL, ttl interval DEFAULT '10 minutes', OUT transfer_id bigint, OUT duplicate boolean)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_transfer_pending(regclass, anycompatible, anycompatible, bigint, text, jsonb, interval) IS 'sets an amount aside for a transfer that is posted or voided later';

CREATE FUNCTION dc_transfer_post(ledger regclass, transfer_id bigint, amount bigint DEFAULT NULL) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_transfer_post(regclass, bigint, bigint) IS 'ends a pending transfer by posting it, or part of it';

CREATE FUNCTION dc_transfer_void(ledger regclass, transfer_id bigint) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_transfer_void(regclass, bigint) IS 'ends a pending transfer and gives back what it has set aside';

CREATE FUNCTION dc_transfers_pending(ledger regclass, key anycompatible DEFAULT NULL::text, OUT transfer_id bigint, OUT from_key text, OUT to_key text, OUT amount bigint, OUT op_id text, OUT memo jsonb, OUT expires_at timestamptz, OUT age interval) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_transfers_pending(regclass, anycompatible) IS 'open pending transfers of an account, of all accounts by default';

CREATE FUNCTION dc_balance(ledger regclass, key anycompatible, OUT balance bigint, OUT pending_out bigint, OUT pending_in bigint, OUT available bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 20;
COMMENT ON FUNCTION dc_balance(regclass, anycompatible) IS 'balance of an account, and what may go out of it';

CREATE FUNCTION dc_balance_at(ledger regclass, key anycompatible, at timestamptz) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dc_balance_at(regclass, anycompatible, timestamptz) IS 'balance of an account at a time, from its entries';

CREATE FUNCTION dc_account_statement(ledger regclass, key anycompatible, from_at timestamptz, to_at timestamptz, OUT at timestamptz, OUT entry_id bigint, OUT transfer_id bigint, OUT amount bigint, OUT balance bigint, OUT op_id text, OUT memo jsonb) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_account_statement(regclass, anycompatible, timestamptz, timestamptz) IS 'entries of an account, with the balance after each';

CREATE FUNCTION dc_ledger_check(ledger regclass, OUT key text, OUT balance numeric, OUT entries_sum numeric, OUT problem text) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 10;
COMMENT ON FUNCTION dc_ledger_check(regclass) IS 'what does not fit together in a ledger; no row if it is sound';

CREATE FUNCTION dc_ledger_detach(ledger regclass, before timestamptz) RETURNS SETOF regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 10;
COMMENT ON FUNCTION dc_ledger_detach(regclass, timestamptz) IS 'takes the entries of old months off a ledger, and carries their balances forward';

CREATE FUNCTION dc_ledger_adopt(ledger regclass, auto_open boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_ledger_adopt(regclass, boolean) IS 'registers existing tables as a ledger, and puts back the triggers that protect them';
-- dc_hll: how many distinct items (HyperLogLog).
CREATE TYPE dc_hll;
COMMENT ON TYPE dc_hll IS 'sketch of a set of items that knows how many there are, to a known error';

CREATE FUNCTION dcounter.hll_in(cstring, oid, int) RETURNS dc_hll
	AS 'MODULE_PATHNAME', 'dc_hll_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.hll_in(cstring, oid, int) IS 'input of dc_hll';

CREATE FUNCTION dcounter.hll_out(dc_hll) RETURNS cstring
	AS 'MODULE_PATHNAME', 'dc_hll_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_out(dc_hll) IS 'output of dc_hll';

CREATE FUNCTION dcounter.hll_recv(internal, oid, int) RETURNS dc_hll
	AS 'MODULE_PATHNAME', 'dc_hll_recv' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.hll_recv(internal, oid, int) IS 'binary input of dc_hll';

CREATE FUNCTION dcounter.hll_send(dc_hll) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_hll_send' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_send(dc_hll) IS 'binary output of dc_hll';

CREATE FUNCTION dcounter.hll_typmod_in(cstring[]) RETURNS int
	AS 'MODULE_PATHNAME', 'dc_hll_typmod_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_typmod_in(cstring[]) IS 'type modifier of dc_hll: the precision';

CREATE FUNCTION dcounter.hll_typmod_out(int) RETURNS cstring
	AS 'MODULE_PATHNAME', 'dc_hll_typmod_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_typmod_out(int) IS 'type modifier of dc_hll: the precision';

-- What is stored has no repetitions that the server's compression could find.
CREATE TYPE dc_hll (
	INPUT = dcounter.hll_in,
	OUTPUT = dcounter.hll_out,
	RECEIVE = dcounter.hll_recv,
	SEND = dcounter.hll_send,
	TYPMOD_IN = dcounter.hll_typmod_in,
	TYPMOD_OUT = dcounter.hll_typmod_out,
	STORAGE = external
);

CREATE FUNCTION dcounter.hll_enforce(dc_hll, int, boolean) RETURNS dc_hll
	AS 'MODULE_PATHNAME', 'dc_hll_enforce' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_enforce(dc_hll, int, boolean) IS 'enforces the precision of a column';

CREATE CAST (dc_hll AS dc_hll) WITH FUNCTION dcounter.hll_enforce(dc_hll, int, boolean) AS IMPLICIT;
COMMENT ON CAST (dc_hll AS dc_hll) IS 'enforces the precision of a column';

CREATE FUNCTION dcounter.hll_from_bytea(bytea) RETURNS dc_hll
	AS 'MODULE_PATHNAME', 'dc_hll_from_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.hll_from_bytea(bytea) IS 'reads a dc_hll from its bytes';

CREATE FUNCTION dcounter.hll_to_bytea(dc_hll) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_hll_to_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_to_bytea(dc_hll) IS 'the bytes of a dc_hll';

CREATE CAST (bytea AS dc_hll) WITH FUNCTION dcounter.hll_from_bytea(bytea);
COMMENT ON CAST (bytea AS dc_hll) IS 'reads a dc_hll from its bytes';
CREATE CAST (dc_hll AS bytea) WITH FUNCTION dcounter.hll_to_bytea(dc_hll);
COMMENT ON CAST (dc_hll AS bytea) IS 'the bytes of a dc_hll';

CREATE FUNCTION dc_hll("precision" int DEFAULT 14) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_hll(int) IS 'an empty sketch';

-- Where an item may be of any type: its canonical form may depend on an enum's
-- labels, which can be renamed.

CREATE FUNCTION dc_hll_add(h dc_hll, item text) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dc_hll_add(dc_hll, text) IS 'a sketch with one more item';

CREATE FUNCTION dc_hll_would_change(h dc_hll, item text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_hll_would_change(dc_hll, text) IS 'whether dc_hll_add would change the sketch';

CREATE FUNCTION dc_hll_add(h dc_hll, item anyelement) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dc_hll_add(dc_hll, anyelement) IS 'a sketch with one more item';

CREATE FUNCTION dc_hll_would_change(h dc_hll, item anyelement) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_hll_would_change(dc_hll, anyelement) IS 'whether dc_hll_add would change the sketch';

CREATE FUNCTION dc_hll_add_many(h dc_hll, items anyarray) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_add_many(dc_hll, anyarray) IS 'a sketch with the items of an array';

CREATE FUNCTION dc_hll_union(a dc_hll, b dc_hll) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_union(dc_hll, dc_hll) IS 'the items of both sketches';

CREATE FUNCTION dc_hll_reduce(h dc_hll, "precision" int) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_reduce(dc_hll, int) IS 'a sketch with less precision';

CREATE FUNCTION dc_hll_count(h dc_hll) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dc_hll_count(dc_hll) IS 'how many distinct items, estimated and rounded';

CREATE FUNCTION dc_hll_estimate(h dc_hll) RETURNS float8
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dc_hll_estimate(dc_hll) IS 'how many distinct items, estimated';

CREATE FUNCTION dc_hll_bounds(h dc_hll, confidence float8 DEFAULT 0.95, OUT lower float8, OUT estimate float8, OUT upper float8) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dc_hll_bounds(dc_hll, float8) IS 'an interval that holds the number of distinct items with that probability';

CREATE FUNCTION dc_hll_info(h dc_hll, OUT "precision" int, OUT hash text, OUT form text, OUT registers int, OUT tokens int, OUT relative_error float8, OUT bytes int) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_info(dc_hll) IS 'how a sketch is made';

CREATE FUNCTION dc_hll_intersect(a dc_hll, b dc_hll, confidence float8 DEFAULT 0.95, OUT lower float8, OUT estimate float8, OUT upper float8) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION dc_hll_intersect(dc_hll, dc_hll, float8) IS 'how many distinct items are in both, with bounds';

CREATE FUNCTION dc_hll_difference(a dc_hll, b dc_hll, confidence float8 DEFAULT 0.95, OUT lower float8, OUT estimate float8, OUT upper float8) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION dc_hll_difference(dc_hll, dc_hll, float8) IS 'how many distinct items are in the first and not in the second, with bounds';

CREATE FUNCTION dc_hll_jaccard(a dc_hll, b dc_hll) RETURNS float8
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION dc_hll_jaccard(dc_hll, dc_hll) IS 'the items in both, as a share of all';

CREATE FUNCTION dc_hll_from_redis(value bytea) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_from_redis(bytea) IS 'the HyperLogLog of a Redis key, as GET returns it';

CREATE FUNCTION dc_hll_to_redis(h dc_hll) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_to_redis(dc_hll) IS 'a HyperLogLog for Redis, to be stored with SET';

CREATE FUNCTION dc_hll_from_postgresql_hll(value bytea) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_from_postgresql_hll(bytea) IS 'a value of the extension hll';

CREATE FUNCTION dc_hll_to_postgresql_hll(h dc_hll) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_to_postgresql_hll(dc_hll) IS 'a value for the extension hll';

CREATE OPERATOR || (LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dc_hll_union, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_hll, dc_hll) IS 'the items of both sketches';
CREATE OPERATOR # (RIGHTARG = dc_hll, FUNCTION = dc_hll_count);
COMMENT ON OPERATOR # (NONE, dc_hll) IS 'how many distinct items, estimated and rounded';

CREATE FUNCTION dcounter.hll_eq(dc_hll, dc_hll) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_hll_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_eq(dc_hll, dc_hll) IS 'implementation of = operator';

CREATE FUNCTION dcounter.hll_ne(dc_hll, dc_hll) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_hll_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_ne(dc_hll, dc_hll) IS 'implementation of <> operator';

CREATE FUNCTION dcounter.hll_lt(dc_hll, dc_hll) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_hll_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_lt(dc_hll, dc_hll) IS 'implementation of < operator';

CREATE FUNCTION dcounter.hll_le(dc_hll, dc_hll) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_hll_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_le(dc_hll, dc_hll) IS 'implementation of <= operator';

CREATE FUNCTION dcounter.hll_gt(dc_hll, dc_hll) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_hll_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_gt(dc_hll, dc_hll) IS 'implementation of > operator';

CREATE FUNCTION dcounter.hll_ge(dc_hll, dc_hll) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_hll_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_ge(dc_hll, dc_hll) IS 'implementation of >= operator';

CREATE FUNCTION dcounter.hll_cmp(dc_hll, dc_hll) RETURNS int
	AS 'MODULE_PATHNAME', 'dc_hll_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_cmp(dc_hll, dc_hll) IS 'less, equal or greater';

CREATE FUNCTION dcounter.hll_hash(dc_hll) RETURNS int
	AS 'MODULE_PATHNAME', 'dc_hll_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_hash(dc_hll) IS 'hash for hash joins and indexes';

CREATE FUNCTION dcounter.hll_hash_extended(dc_hll, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_hll_hash_extended' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_hash_extended(dc_hll, bigint) IS 'hash for hash partitioning';

CREATE OPERATOR = (
	LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dcounter.hll_eq, COMMUTATOR = =, NEGATOR = <>,
	RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES
);
COMMENT ON OPERATOR = (dc_hll, dc_hll) IS 'equal';
CREATE OPERATOR <> (
	LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dcounter.hll_ne, COMMUTATOR = <>, NEGATOR = =,
	RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR <> (dc_hll, dc_hll) IS 'not equal';
CREATE OPERATOR < (
	LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dcounter.hll_lt, COMMUTATOR = >, NEGATOR = >=,
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR < (dc_hll, dc_hll) IS 'less than';
CREATE OPERATOR <= (
	LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dcounter.hll_le, COMMUTATOR = >=, NEGATOR = >,
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR <= (dc_hll, dc_hll) IS 'less than or equal';
CREATE OPERATOR > (
	LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dcounter.hll_gt, COMMUTATOR = <, NEGATOR = <=,
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR > (dc_hll, dc_hll) IS 'greater than';
CREATE OPERATOR >= (
	LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dcounter.hll_ge, COMMUTATOR = <=, NEGATOR = <,
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR >= (dc_hll, dc_hll) IS 'greater than or equal';

CREATE OPERATOR CLASS dc_hll_ops DEFAULT FOR TYPE dc_hll USING btree AS
	OPERATOR 1 <,
	OPERATOR 2 <=,
	OPERATOR 3 =,
	OPERATOR 4 >=,
	OPERATOR 5 >,
	FUNCTION 1 dcounter.hll_cmp(dc_hll, dc_hll);
COMMENT ON OPERATOR FAMILY dc_hll_ops USING btree IS 'operators of dc_hll values, which compare their bytes';
COMMENT ON OPERATOR CLASS dc_hll_ops USING btree IS 'order of dc_hll values, by their bytes';
CREATE OPERATOR CLASS dc_hll_ops DEFAULT FOR TYPE dc_hll USING hash AS
	OPERATOR 1 =,
	FUNCTION 1 dcounter.hll_hash(dc_hll),
	FUNCTION 2 dcounter.hll_hash_extended(dc_hll, bigint);
COMMENT ON OPERATOR FAMILY dc_hll_ops USING hash IS 'operators of dc_hll values, which compare their bytes';
COMMENT ON OPERATOR CLASS dc_hll_ops USING hash IS 'hash of dc_hll values';

CREATE FUNCTION dcounter.hll_agg_add(internal, text) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_add' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.hll_agg_add(internal, text) IS 'transition of dc_hll_agg';

CREATE FUNCTION dcounter.hll_agg_add(internal, text, int) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_add' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.hll_agg_add(internal, text, int) IS 'transition of dc_hll_agg';

CREATE FUNCTION dcounter.hll_agg_add(internal, anyelement) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_add' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.hll_agg_add(internal, anyelement) IS 'transition of dc_hll_agg';

CREATE FUNCTION dcounter.hll_agg_add(internal, anyelement, int) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_add' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.hll_agg_add(internal, anyelement, int) IS 'transition of dc_hll_agg';

CREATE FUNCTION dcounter.hll_agg_union(internal, dc_hll) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_union' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.hll_agg_union(internal, dc_hll) IS 'transition of dc_hll_union_agg';

CREATE FUNCTION dcounter.hll_agg_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.hll_agg_combine(internal, internal) IS 'merges two states of dc_hll aggregates';

CREATE FUNCTION dcounter.hll_agg_combine_union(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_combine_union' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.hll_agg_combine_union(internal, internal) IS 'merges two states of dc_hll_union_agg';

CREATE FUNCTION dcounter.hll_agg_serialize(internal) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_hll_agg_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.hll_agg_serialize(internal) IS 'writes a state of dc_hll aggregates';

CREATE FUNCTION dcounter.hll_agg_deserialize(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.hll_agg_deserialize(bytea, internal) IS 'reads a state of dc_hll aggregates';

CREATE FUNCTION dcounter.hll_agg_final(internal) RETURNS dc_hll
	AS 'MODULE_PATHNAME', 'dc_hll_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.hll_agg_final(internal) IS 'result of dc_hll_agg';

CREATE FUNCTION dcounter.hll_agg_count(internal) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_hll_agg_count' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.hll_agg_count(internal) IS 'result of dc_count_distinct';

-- SSPACE is what a group of some dozen items needs.
CREATE AGGREGATE dc_hll_agg(item text) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_final,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_hll_agg(text) IS 'a sketch of the items';

CREATE AGGREGATE dc_count_distinct(item text) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_count,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_count_distinct(text) IS 'how many distinct items, estimated';

CREATE AGGREGATE dc_hll_agg(item text, "precision" int) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_final,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_hll_agg(text, int) IS 'a sketch of the items';

CREATE AGGREGATE dc_count_distinct(item text, "precision" int) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_count,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_count_distinct(text, int) IS 'how many distinct items, estimated';

CREATE AGGREGATE dc_hll_agg(item anyelement) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_final,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_hll_agg(anyelement) IS 'a sketch of the items';

CREATE AGGREGATE dc_count_distinct(item anyelement) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_count,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_count_distinct(anyelement) IS 'how many distinct items, estimated';

CREATE AGGREGATE dc_hll_agg(item anyelement, "precision" int) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_final,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_hll_agg(anyelement, int) IS 'a sketch of the items';

CREATE AGGREGATE dc_count_distinct(item anyelement, "precision" int) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_count,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_count_distinct(anyelement, int) IS 'how many distinct items, estimated';

CREATE AGGREGATE dc_hll_union_agg(h dc_hll) (
	SFUNC = dcounter.hll_agg_union, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.hll_agg_final,
	COMBINEFUNC = dcounter.hll_agg_combine_union, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_hll_union_agg(dc_hll) IS 'the items of all sketches';

-- What aggregates are made of is called with their owner's rights.
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_add(internal, text) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_add(internal, text, int) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_add(internal, anyelement) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_add(internal, anyelement, int) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_union(internal, dc_hll) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_combine(internal, internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_combine_union(internal, internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_serialize(internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_deserialize(bytea, internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_final(internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_count(internal) FROM PUBLIC;
CREATE TYPE dc_cms;

CREATE FUNCTION dcounter.cms_in(cstring) RETURNS dc_cms
	AS 'MODULE_PATHNAME', 'dc_cms_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_in(cstring) IS 'input and output of dc_cms';

CREATE FUNCTION dcounter.cms_out(dc_cms) RETURNS cstring
	AS 'MODULE_PATHNAME', 'dc_cms_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.cms_out(dc_cms) IS 'input and output of dc_cms';

CREATE FUNCTION dcounter.cms_recv(internal) RETURNS dc_cms
	AS 'MODULE_PATHNAME', 'dc_cms_recv' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_recv(internal) IS 'input and output of dc_cms';

CREATE FUNCTION dcounter.cms_send(dc_cms) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_cms_send' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.cms_send(dc_cms) IS 'input and output of dc_cms';

-- Cells are mostly zeros and small numbers, so compression pays.
CREATE TYPE dc_cms (INPUT = dcounter.cms_in, OUTPUT = dcounter.cms_out, RECEIVE = dcounter.cms_recv, SEND = dcounter.cms_send, STORAGE = extended);
COMMENT ON TYPE dc_cms IS 'Count-Min sketch: how often each item occurs, never too low and with a known bound';

CREATE FUNCTION dcounter.cms_from_bytea(bytea) RETURNS dc_cms
	AS 'MODULE_PATHNAME', 'dc_cms_from_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_from_bytea(bytea) IS 'checked cast of bytes to a sketch';

CREATE FUNCTION dcounter.cms_to_bytea(dc_cms) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_cms_to_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.cms_to_bytea(dc_cms) IS 'the bytes of a sketch';

CREATE CAST (bytea AS dc_cms) WITH FUNCTION dcounter.cms_from_bytea(bytea);
COMMENT ON CAST (bytea AS dc_cms) IS 'checks that the bytes are a sketch';

CREATE CAST (dc_cms AS bytea) WITH FUNCTION dcounter.cms_to_bytea(dc_cms);
COMMENT ON CAST (dc_cms AS bytea) IS 'the bytes of a sketch';

CREATE FUNCTION dc_cms(epsilon float8 DEFAULT 0.001, delta float8 DEFAULT 0.01, conservative boolean DEFAULT false) RETURNS dc_cms
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_cms(float8, float8, boolean) IS 'empty Count-Min sketch';

CREATE FUNCTION dc_cms_add(c dc_cms, item anyelement, weight bigint DEFAULT 1) RETURNS dc_cms
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_cms_add(dc_cms, anyelement, bigint) IS 'sketch with the weight of an item added';

CREATE FUNCTION dc_cms_add(c dc_cms, item text, weight bigint DEFAULT 1) RETURNS dc_cms
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_cms_add(dc_cms, text, bigint) IS 'sketch with the weight of an item added';

CREATE FUNCTION dc_cms_estimate(c dc_cms, item anyelement) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION dc_cms_estimate(dc_cms, anyelement) IS 'weight of an item, or more';

CREATE FUNCTION dc_cms_estimate(c dc_cms, item text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION dc_cms_estimate(dc_cms, text) IS 'weight of an item, or more';

CREATE FUNCTION dc_cms_bounds(c dc_cms, item anyelement, OUT lower bigint, OUT estimate bigint, OUT upper bigint) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION dc_cms_bounds(dc_cms, anyelement) IS 'weight of an item, and between what it is with a confidence of 1 - delta';

CREATE FUNCTION dc_cms_bounds(c dc_cms, item text, OUT lower bigint, OUT estimate bigint, OUT upper bigint) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION dc_cms_bounds(dc_cms, text) IS 'weight of an item, and between what it is with a confidence of 1 - delta';

CREATE FUNCTION dc_cms_union(a dc_cms, b dc_cms) RETURNS dc_cms
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dc_cms_union(dc_cms, dc_cms) IS 'sketch of what two sketches have together';

CREATE OPERATOR || (LEFTARG = dc_cms, RIGHTARG = dc_cms, FUNCTION = dc_cms_union, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_cms, dc_cms) IS 'sketch of what two sketches have together';

CREATE FUNCTION dc_cms_subtract(a dc_cms, b dc_cms) RETURNS dc_cms
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dc_cms_subtract(dc_cms, dc_cms) IS 'sketch with what is in another taken out';

CREATE FUNCTION dc_cms_inner_product(a dc_cms, b dc_cms) RETURNS numeric
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dc_cms_inner_product(dc_cms, dc_cms) IS 'sum of the products of the weights of each item in two sketches, or more';

CREATE FUNCTION dc_cms_info(c dc_cms, OUT form text, OUT conservative boolean, OUT total_weight bigint, OUT width int, OUT depth int, OUT epsilon float8, OUT delta float8, OUT cell_bytes int, OUT items bigint, OUT bytes int) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_cms_info(dc_cms) IS 'what a sketch is like';

-- What the aggregates consist of

CREATE FUNCTION dcounter.cms_agg_trans(internal, anyelement, float8, float8) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_agg_trans' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.cms_agg_trans(internal, anyelement, float8, float8) IS 'internal: adds a row to a state of dc_cms_agg';
REVOKE EXECUTE ON FUNCTION dcounter.cms_agg_trans(internal, anyelement, float8, float8) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_agg_trans(internal, anyelement, float8, float8, bigint) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_agg_trans' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.cms_agg_trans(internal, anyelement, float8, float8, bigint) IS 'internal: adds a row to a state of dc_cms_agg';
REVOKE EXECUTE ON FUNCTION dcounter.cms_agg_trans(internal, anyelement, float8, float8, bigint) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_union_trans(internal, dc_cms) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_union_trans' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dcounter.cms_union_trans(internal, dc_cms) IS 'internal: adds a sketch to a state of dc_cms_union_agg';
REVOKE EXECUTE ON FUNCTION dcounter.cms_union_trans(internal, dc_cms) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_agg_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_agg_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dcounter.cms_agg_combine(internal, internal) IS 'internal: adds a state to another';
REVOKE EXECUTE ON FUNCTION dcounter.cms_agg_combine(internal, internal) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_agg_serialize(internal) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_cms_agg_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_agg_serialize(internal) IS 'internal: a state as bytes';
REVOKE EXECUTE ON FUNCTION dcounter.cms_agg_serialize(internal) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_agg_deserialize(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_agg_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_agg_deserialize(bytea, internal) IS 'internal: the state of its bytes';
REVOKE EXECUTE ON FUNCTION dcounter.cms_agg_deserialize(bytea, internal) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_agg_final(internal) RETURNS dc_cms
	AS 'MODULE_PATHNAME', 'dc_cms_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_agg_final(internal) IS 'internal: the sketch of a state';
REVOKE EXECUTE ON FUNCTION dcounter.cms_agg_final(internal) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_frame_add(internal, anyelement, float8, float8) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_frame_add' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.cms_frame_add(internal, anyelement, float8, float8) IS 'internal: adds a row to the frame of a window';
REVOKE EXECUTE ON FUNCTION dcounter.cms_frame_add(internal, anyelement, float8, float8) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_frame_add(internal, anyelement, float8, float8, bigint) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_frame_add' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.cms_frame_add(internal, anyelement, float8, float8, bigint) IS 'internal: adds a row to the frame of a window';
REVOKE EXECUTE ON FUNCTION dcounter.cms_frame_add(internal, anyelement, float8, float8, bigint) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_frame_remove(internal, anyelement, float8, float8) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_frame_remove' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.cms_frame_remove(internal, anyelement, float8, float8) IS 'internal: takes a row out of the frame of a window';
REVOKE EXECUTE ON FUNCTION dcounter.cms_frame_remove(internal, anyelement, float8, float8) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_frame_remove(internal, anyelement, float8, float8, bigint) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_frame_remove' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.cms_frame_remove(internal, anyelement, float8, float8, bigint) IS 'internal: takes a row out of the frame of a window';
REVOKE EXECUTE ON FUNCTION dcounter.cms_frame_remove(internal, anyelement, float8, float8, bigint) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_frame_final(internal) RETURNS dc_cms
	AS 'MODULE_PATHNAME', 'dc_cms_frame_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_frame_final(internal) IS 'internal: the sketch of the frame of a window';
REVOKE EXECUTE ON FUNCTION dcounter.cms_frame_final(internal) FROM PUBLIC;

-- A state of a few dozen items takes about 1 kB.
CREATE AGGREGATE dc_cms_agg(item anyelement, epsilon float8, delta float8) (
	SFUNC = dcounter.cms_agg_trans, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.cms_agg_final,
	COMBINEFUNC = dcounter.cms_agg_combine, SERIALFUNC = dcounter.cms_agg_serialize, DESERIALFUNC = dcounter.cms_agg_deserialize,
	MSFUNC = dcounter.cms_frame_add, MINVFUNC = dcounter.cms_frame_remove, MSTYPE = internal, MSSPACE = 1024,
	MFINALFUNC = dcounter.cms_frame_final, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_cms_agg(anyelement, float8, float8) IS 'frequencies of items, as a Count-Min sketch';

CREATE AGGREGATE dc_cms_agg(item text, epsilon float8, delta float8) (
	SFUNC = dcounter.cms_agg_trans, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.cms_agg_final,
	COMBINEFUNC = dcounter.cms_agg_combine, SERIALFUNC = dcounter.cms_agg_serialize, DESERIALFUNC = dcounter.cms_agg_deserialize,
	MSFUNC = dcounter.cms_frame_add, MINVFUNC = dcounter.cms_frame_remove, MSTYPE = internal, MSSPACE = 1024,
	MFINALFUNC = dcounter.cms_frame_final, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_cms_agg(text, float8, float8) IS 'frequencies of items, as a Count-Min sketch';

CREATE AGGREGATE dc_cms_agg(item anyelement, epsilon float8, delta float8, weight bigint) (
	SFUNC = dcounter.cms_agg_trans, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.cms_agg_final,
	COMBINEFUNC = dcounter.cms_agg_combine, SERIALFUNC = dcounter.cms_agg_serialize, DESERIALFUNC = dcounter.cms_agg_deserialize,
	MSFUNC = dcounter.cms_frame_add, MINVFUNC = dcounter.cms_frame_remove, MSTYPE = internal, MSSPACE = 1024,
	MFINALFUNC = dcounter.cms_frame_final, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_cms_agg(anyelement, float8, float8, bigint) IS 'weights of items, as a Count-Min sketch';

CREATE AGGREGATE dc_cms_agg(item text, epsilon float8, delta float8, weight bigint) (
	SFUNC = dcounter.cms_agg_trans, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.cms_agg_final,
	COMBINEFUNC = dcounter.cms_agg_combine, SERIALFUNC = dcounter.cms_agg_serialize, DESERIALFUNC = dcounter.cms_agg_deserialize,
	MSFUNC = dcounter.cms_frame_add, MINVFUNC = dcounter.cms_frame_remove, MSTYPE = internal, MSSPACE = 1024,
	MFINALFUNC = dcounter.cms_frame_final, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_cms_agg(text, float8, float8, bigint) IS 'weights of items, as a Count-Min sketch';

CREATE AGGREGATE dc_cms_union_agg(dc_cms) (
	SFUNC = dcounter.cms_union_trans, STYPE = internal, SSPACE = 16384, FINALFUNC = dcounter.cms_agg_final,
	COMBINEFUNC = dcounter.cms_agg_combine, SERIALFUNC = dcounter.cms_agg_serialize, DESERIALFUNC = dcounter.cms_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_cms_union_agg(dc_cms) IS 'sketch of what all sketches have together';
CREATE TYPE dc_topk;

CREATE FUNCTION dcounter.topk_in(cstring) RETURNS dc_topk
	AS 'MODULE_PATHNAME', 'dc_topk_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.topk_in(cstring) IS 'input function of dc_topk';

CREATE FUNCTION dcounter.topk_out(dc_topk) RETURNS cstring
	AS 'MODULE_PATHNAME', 'dc_topk_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.topk_out(dc_topk) IS 'output function of dc_topk';

CREATE FUNCTION dcounter.topk_recv(internal) RETURNS dc_topk
	AS 'MODULE_PATHNAME', 'dc_topk_recv' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.topk_recv(internal) IS 'binary input function of dc_topk';

CREATE FUNCTION dcounter.topk_send(dc_topk) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_topk_send' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.topk_send(dc_topk) IS 'binary output function of dc_topk';

-- Extended: items are text, which compresses.
CREATE TYPE dc_topk (
	INPUT = dcounter.topk_in, OUTPUT = dcounter.topk_out, RECEIVE = dcounter.topk_recv, SEND = dcounter.topk_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_topk IS 'the heaviest items of a stream, with bounds of their weights';

CREATE FUNCTION dcounter.topk_from_bytea(bytea) RETURNS dc_topk
	AS 'MODULE_PATHNAME', 'dc_topk_from_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.topk_from_bytea(bytea) IS 'a dc_topk of its bytes, which are checked';

CREATE FUNCTION dcounter.topk_to_bytea(dc_topk) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_topk_to_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.topk_to_bytea(dc_topk) IS 'the bytes of a dc_topk';

CREATE CAST (bytea AS dc_topk) WITH FUNCTION dcounter.topk_from_bytea(bytea);
COMMENT ON CAST (bytea AS dc_topk) IS 'a dc_topk of its bytes, which are checked';
CREATE CAST (dc_topk AS bytea) WITH FUNCTION dcounter.topk_to_bytea(dc_topk);
COMMENT ON CAST (dc_topk AS bytea) IS 'the bytes of a dc_topk';

CREATE FUNCTION dc_topk(k int, counters int DEFAULT NULL) RETURNS dc_topk
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_topk(int, int) IS 'an empty dc_topk';

-- Functions of an item of any type are stable: the text of text, numbers, uuid,
-- dates and times, enums and bytea depends on no setting, but that of other types
-- (arrays and intervals, say) is what their output functions make of it.
CREATE FUNCTION dc_topk_add(sketch dc_topk, item anyelement, weight bigint DEFAULT 1) RETURNS dc_topk
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_topk_add(dc_topk, anyelement, bigint) IS 'adds a weight to an item';

CREATE FUNCTION dc_topk_add(sketch dc_topk, item text, weight bigint DEFAULT 1) RETURNS dc_topk
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_topk_add(dc_topk, text, bigint) IS 'adds a weight to an item';

CREATE FUNCTION dc_topk_union(a dc_topk, b dc_topk) RETURNS dc_topk
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dc_topk_union(dc_topk, dc_topk) IS 'what is in either of two dc_topk, added up';

CREATE OPERATOR || (LEFTARG = dc_topk, RIGHTARG = dc_topk, FUNCTION = dc_topk_union);
COMMENT ON OPERATOR || (dc_topk, dc_topk) IS 'what is in either of two dc_topk, added up';

CREATE FUNCTION dc_topk_list(sketch dc_topk, n int DEFAULT NULL)
	RETURNS TABLE (rank bigint, item text, estimate bigint, lower bigint, upper bigint, guaranteed boolean)
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20 ROWS 10;
COMMENT ON FUNCTION dc_topk_list(dc_topk, int) IS 'the n heaviest items, by default k';

CREATE FUNCTION dc_topk_heavy(sketch dc_topk, share float8)
	RETURNS TABLE (rank bigint, item text, estimate bigint, lower bigint, upper bigint, guaranteed boolean)
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 ROWS 10;
COMMENT ON FUNCTION dc_topk_heavy(dc_topk, float8) IS 'every item that may have at least a share of the total weight';

CREATE FUNCTION dc_topk_estimate(sketch dc_topk, item anyelement) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_topk_estimate(dc_topk, anyelement) IS 'the weight of an item, or more, never less';

CREATE FUNCTION dc_topk_estimate(sketch dc_topk, item text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_topk_estimate(dc_topk, text) IS 'the weight of an item, or more, never less';

CREATE FUNCTION dc_topk_bounds(sketch dc_topk, item anyelement, OUT lower bigint, OUT estimate bigint, OUT upper bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_topk_bounds(dc_topk, anyelement) IS 'bounds of the weight of an item';

CREATE FUNCTION dc_topk_bounds(sketch dc_topk, item text, OUT lower bigint, OUT estimate bigint, OUT upper bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_topk_bounds(dc_topk, text) IS 'bounds of the weight of an item';

CREATE FUNCTION dc_topk_info(sketch dc_topk, OUT k int, OUT counters int, OUT items int, OUT total_weight bigint,
	OUT max_error bigint, OUT exact boolean, OUT bytes int)
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_topk_info(dc_topk) IS 'size and error of a dc_topk';

-- What the aggregates are made of. NULL arguments are looked at one by one.
CREATE FUNCTION dcounter.topk_trans(internal, item anyelement, k int) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.topk_trans(internal, anyelement, int) IS 'internal: transition function of dc_topk_agg()';
CREATE FUNCTION dcounter.topk_trans(internal, item anyelement, k int, weight bigint) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.topk_trans(internal, anyelement, int, bigint) IS 'internal: transition function of dc_topk_agg()';
CREATE FUNCTION dcounter.topk_trans(internal, item anyelement, k int, weight bigint, counters int) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.topk_trans(internal, anyelement, int, bigint, int) IS 'internal: transition function of dc_topk_agg()';
CREATE FUNCTION dcounter.topk_trans(internal, item text, k int) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.topk_trans(internal, text, int) IS 'internal: transition function of dc_topk_agg()';
CREATE FUNCTION dcounter.topk_trans(internal, item text, k int, weight bigint) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.topk_trans(internal, text, int, bigint) IS 'internal: transition function of dc_topk_agg()';
CREATE FUNCTION dcounter.topk_trans(internal, item text, k int, weight bigint, counters int) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.topk_trans(internal, text, int, bigint, int) IS 'internal: transition function of dc_topk_agg()';

CREATE FUNCTION dcounter.topk_union_trans(internal, dc_topk) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dcounter.topk_union_trans(internal, dc_topk) IS 'internal: transition function of dc_topk_union_agg()';
CREATE FUNCTION dcounter.topk_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dcounter.topk_combine(internal, internal) IS 'internal: combine function of dc_topk_agg()';
CREATE FUNCTION dcounter.topk_union_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dcounter.topk_union_combine(internal, internal) IS 'internal: combine function of dc_topk_union_agg()';
CREATE FUNCTION dcounter.topk_serialize(internal) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.topk_serialize(internal) IS 'internal: serialization function of the aggregates';
CREATE FUNCTION dcounter.topk_deserialize(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.topk_deserialize(bytea, internal) IS 'internal: deserialization function of the aggregates';
CREATE FUNCTION dcounter.topk_final(internal) RETURNS dc_topk
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.topk_final(internal) IS 'internal: final function of the aggregates';

-- An aggregate needs its owner's privilege on these, not its caller's.
REVOKE EXECUTE ON FUNCTION
	dcounter.topk_trans(internal, anyelement, int),
	dcounter.topk_trans(internal, anyelement, int, bigint),
	dcounter.topk_trans(internal, anyelement, int, bigint, int),
	dcounter.topk_trans(internal, text, int),
	dcounter.topk_trans(internal, text, int, bigint),
	dcounter.topk_trans(internal, text, int, bigint, int),
	dcounter.topk_union_trans(internal, dc_topk),
	dcounter.topk_combine(internal, internal),
	dcounter.topk_union_combine(internal, internal),
	dcounter.topk_serialize(internal),
	dcounter.topk_deserialize(bytea, internal),
	dcounter.topk_final(internal)
	FROM PUBLIC;

CREATE AGGREGATE dc_topk_agg(item anyelement, k int) (
	SFUNC = dcounter.topk_trans, STYPE = internal, SSPACE = 700, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_agg(anyelement, int) IS 'the heaviest items';

CREATE AGGREGATE dc_topk_agg(item anyelement, k int, weight bigint) (
	SFUNC = dcounter.topk_trans, STYPE = internal, SSPACE = 700, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_agg(anyelement, int, bigint) IS 'the heaviest items';

CREATE AGGREGATE dc_topk_agg(item anyelement, k int, weight bigint, counters int) (
	SFUNC = dcounter.topk_trans, STYPE = internal, SSPACE = 700, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_agg(anyelement, int, bigint, int) IS 'the heaviest items';

CREATE AGGREGATE dc_topk_agg(item text, k int) (
	SFUNC = dcounter.topk_trans, STYPE = internal, SSPACE = 700, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_agg(text, int) IS 'the heaviest items';

CREATE AGGREGATE dc_topk_agg(item text, k int, weight bigint) (
	SFUNC = dcounter.topk_trans, STYPE = internal, SSPACE = 700, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_agg(text, int, bigint) IS 'the heaviest items';

CREATE AGGREGATE dc_topk_agg(item text, k int, weight bigint, counters int) (
	SFUNC = dcounter.topk_trans, STYPE = internal, SSPACE = 700, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_agg(text, int, bigint, int) IS 'the heaviest items';

CREATE AGGREGATE dc_topk_union_agg(dc_topk) (
	SFUNC = dcounter.topk_union_trans, STYPE = internal, SSPACE = 4000, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_union_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_union_agg(dc_topk) IS 'what is in any of many dc_topk, added up';
-- The last time of the database's hybrid logical clock, in microseconds since 1970. No
-- session caches values.
CREATE SEQUENCE dcounter.hlc_clock AS pg_catalog.int8 MAXVALUE 253402300799999999 CACHE 1 NO CYCLE;
COMMENT ON SEQUENCE dcounter.hlc_clock IS 'the last time that dc_hlc_now() has given out, in microseconds since 1970';

CREATE FUNCTION dc_node() RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_node() IS 'the name of this database among its replicas';
-- Mergeable types. A value is its state in bytes (doc/crdt.md); most functions serve all types.

CREATE TYPE dc_gcounter;

CREATE FUNCTION dcounter.gcounter_in(cstring) RETURNS dc_gcounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.gcounter_in(cstring) IS 'input function of dc_gcounter';
CREATE FUNCTION dcounter.crdt_out(dc_gcounter) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_gcounter) IS 'output function of dc_gcounter';
CREATE FUNCTION dcounter.gcounter_recv(internal) RETURNS dc_gcounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.gcounter_recv(internal) IS 'binary input function of dc_gcounter';
CREATE FUNCTION dcounter.crdt_send(dc_gcounter) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_gcounter) IS 'binary output function of dc_gcounter';
CREATE TYPE dc_gcounter (
	INPUT = dcounter.gcounter_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.gcounter_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_gcounter IS 'grow-only counter: one amount per node';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_gcounter) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_gcounter) IS 'the state of a dc_gcounter';
CREATE CAST (dc_gcounter AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_gcounter);
COMMENT ON CAST (dc_gcounter AS jsonb) IS 'the state of a dc_gcounter';

CREATE TYPE dc_pncounter;

CREATE FUNCTION dcounter.pncounter_in(cstring) RETURNS dc_pncounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.pncounter_in(cstring) IS 'input function of dc_pncounter';
CREATE FUNCTION dcounter.crdt_out(dc_pncounter) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_pncounter) IS 'output function of dc_pncounter';
CREATE FUNCTION dcounter.pncounter_recv(internal) RETURNS dc_pncounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.pncounter_recv(internal) IS 'binary input function of dc_pncounter';
CREATE FUNCTION dcounter.crdt_send(dc_pncounter) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_pncounter) IS 'binary output function of dc_pncounter';
CREATE TYPE dc_pncounter (
	INPUT = dcounter.pncounter_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.pncounter_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_pncounter IS 'counter with increments and decrements per node, and observed reset';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_pncounter) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_pncounter) IS 'the state of a dc_pncounter';
CREATE CAST (dc_pncounter AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_pncounter);
COMMENT ON CAST (dc_pncounter AS jsonb) IS 'the state of a dc_pncounter';

CREATE TYPE dc_gset;

CREATE FUNCTION dcounter.gset_in(cstring) RETURNS dc_gset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.gset_in(cstring) IS 'input function of dc_gset';
CREATE FUNCTION dcounter.crdt_out(dc_gset) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_gset) IS 'output function of dc_gset';
CREATE FUNCTION dcounter.gset_recv(internal) RETURNS dc_gset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.gset_recv(internal) IS 'binary input function of dc_gset';
CREATE FUNCTION dcounter.crdt_send(dc_gset) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_gset) IS 'binary output function of dc_gset';
CREATE TYPE dc_gset (
	INPUT = dcounter.gset_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.gset_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_gset IS 'grow-only set of text';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_gset) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_gset) IS 'the state of a dc_gset';
CREATE CAST (dc_gset AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_gset);
COMMENT ON CAST (dc_gset AS jsonb) IS 'the state of a dc_gset';

CREATE TYPE dc_orset;

CREATE FUNCTION dcounter.orset_in(cstring) RETURNS dc_orset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.orset_in(cstring) IS 'input function of dc_orset';
CREATE FUNCTION dcounter.crdt_out(dc_orset) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_orset) IS 'output function of dc_orset';
CREATE FUNCTION dcounter.orset_recv(internal) RETURNS dc_orset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.orset_recv(internal) IS 'binary input function of dc_orset';
CREATE FUNCTION dcounter.crdt_send(dc_orset) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_orset) IS 'binary output function of dc_orset';
CREATE TYPE dc_orset (
	INPUT = dcounter.orset_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.orset_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_orset IS 'observed-remove set of text, in which additions win';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_orset) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_orset) IS 'the state of a dc_orset';
CREATE CAST (dc_orset AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_orset);
COMMENT ON CAST (dc_orset AS jsonb) IS 'the state of a dc_orset';

CREATE TYPE dc_lww;

CREATE FUNCTION dcounter.lww_in(cstring) RETURNS dc_lww
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.lww_in(cstring) IS 'input function of dc_lww';
CREATE FUNCTION dcounter.crdt_out(dc_lww) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_lww) IS 'output function of dc_lww';
CREATE FUNCTION dcounter.lww_recv(internal) RETURNS dc_lww
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.lww_recv(internal) IS 'binary input function of dc_lww';
CREATE FUNCTION dcounter.crdt_send(dc_lww) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_lww) IS 'binary output function of dc_lww';
CREATE TYPE dc_lww (
	INPUT = dcounter.lww_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.lww_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_lww IS 'last-writer-wins register of jsonb';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_lww) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_lww) IS 'the state of a dc_lww';
CREATE CAST (dc_lww AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_lww);
COMMENT ON CAST (dc_lww AS jsonb) IS 'the state of a dc_lww';

CREATE TYPE dc_mvreg;

CREATE FUNCTION dcounter.mvreg_in(cstring) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.mvreg_in(cstring) IS 'input function of dc_mvreg';
CREATE FUNCTION dcounter.crdt_out(dc_mvreg) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_mvreg) IS 'output function of dc_mvreg';
CREATE FUNCTION dcounter.mvreg_recv(internal) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.mvreg_recv(internal) IS 'binary input function of dc_mvreg';
CREATE FUNCTION dcounter.crdt_send(dc_mvreg) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_mvreg) IS 'binary output function of dc_mvreg';
CREATE TYPE dc_mvreg (
	INPUT = dcounter.mvreg_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.mvreg_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_mvreg IS 'register of jsonb that keeps concurrent values';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_mvreg) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_mvreg) IS 'the state of a dc_mvreg';
CREATE CAST (dc_mvreg AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_mvreg);
COMMENT ON CAST (dc_mvreg AS jsonb) IS 'the state of a dc_mvreg';

CREATE TYPE dc_hlc;

CREATE FUNCTION dcounter.hlc_in(cstring) RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.hlc_in(cstring) IS 'input function of dc_hlc';
CREATE FUNCTION dcounter.crdt_out(dc_hlc) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_hlc) IS 'output function of dc_hlc';
CREATE FUNCTION dcounter.hlc_recv(internal) RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.hlc_recv(internal) IS 'binary input function of dc_hlc';
CREATE FUNCTION dcounter.crdt_send(dc_hlc) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_hlc) IS 'binary output function of dc_hlc';
CREATE TYPE dc_hlc (
	INPUT = dcounter.hlc_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.hlc_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_hlc IS 'stamp of a hybrid logical clock';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_hlc) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_hlc) IS 'the state of a dc_hlc';
CREATE CAST (dc_hlc AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_hlc);
COMMENT ON CAST (dc_hlc AS jsonb) IS 'the state of a dc_hlc';

CREATE TYPE dc_vclock;

CREATE FUNCTION dcounter.vclock_in(cstring) RETURNS dc_vclock
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.vclock_in(cstring) IS 'input function of dc_vclock';
CREATE FUNCTION dcounter.crdt_out(dc_vclock) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_vclock) IS 'output function of dc_vclock';
CREATE FUNCTION dcounter.vclock_recv(internal) RETURNS dc_vclock
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.vclock_recv(internal) IS 'binary input function of dc_vclock';
CREATE FUNCTION dcounter.crdt_send(dc_vclock) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_vclock) IS 'binary output function of dc_vclock';
CREATE TYPE dc_vclock (
	INPUT = dcounter.vclock_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.vclock_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_vclock IS 'vector clock';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_vclock) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_vclock) IS 'the state of a dc_vclock';
CREATE CAST (dc_vclock AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_vclock);
COMMENT ON CAST (dc_vclock AS jsonb) IS 'the state of a dc_vclock';

-- dc_gcounter: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_gcounter, dc_gcounter) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_gcounter, dc_gcounter) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_gcounter, dc_gcounter) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_gcounter, dc_gcounter) IS 'is another state';
CREATE FUNCTION dcounter.crdt_le(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_gcounter, dc_gcounter) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_gcounter, dc_gcounter) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_gcounter, dc_gcounter) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_gcounter, dc_gcounter) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_gcounter, dc_gcounter) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_gcounter, dc_gcounter) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_gcounter, dc_gcounter) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_gcounter, dc_gcounter) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_gcounter, dc_gcounter) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_gcounter, dc_gcounter) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_gcounter) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_gcounter) IS 'hash of a dc_gcounter';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_gcounter, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_gcounter, bigint) IS 'hash of a dc_gcounter with a seed';
CREATE OPERATOR CLASS dc_gcounter_hash_ops DEFAULT FOR TYPE dc_gcounter USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_gcounter), FUNCTION 2 dcounter.crdt_hash_extended(dc_gcounter, bigint);
COMMENT ON OPERATOR CLASS dc_gcounter_hash_ops USING hash IS 'equal states of dc_gcounter';
COMMENT ON OPERATOR FAMILY dc_gcounter_hash_ops USING hash IS 'equal states of dc_gcounter';

CREATE FUNCTION dc_merge(a dc_gcounter, b dc_gcounter) RETURNS dc_gcounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_gcounter, dc_gcounter) IS 'what either of two dc_gcounter has seen';
CREATE OPERATOR || (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_gcounter, dc_gcounter) IS 'what either of two dc_gcounter has seen';
CREATE FUNCTION dc_delta(after dc_gcounter, before dc_gcounter) RETURNS dc_gcounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_gcounter, dc_gcounter) IS 'what must be merged into one dc_gcounter to have anothers news';
CREATE AGGREGATE dc_merge_agg(dc_gcounter) (SFUNC = dc_merge, STYPE = dc_gcounter, COMBINEFUNC = dc_merge, PARALLEL = SAFE);
COMMENT ON AGGREGATE dc_merge_agg(dc_gcounter) IS 'what any of many dc_gcounter has seen';

-- dc_pncounter: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_pncounter, dc_pncounter) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_pncounter, dc_pncounter) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_pncounter, dc_pncounter) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_pncounter, dc_pncounter) IS 'is another state';
CREATE FUNCTION dcounter.crdt_le(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_pncounter, dc_pncounter) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_pncounter, dc_pncounter) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_pncounter, dc_pncounter) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_pncounter, dc_pncounter) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_pncounter, dc_pncounter) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_pncounter, dc_pncounter) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_pncounter, dc_pncounter) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_pncounter, dc_pncounter) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_pncounter, dc_pncounter) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_pncounter, dc_pncounter) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_pncounter) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_pncounter) IS 'hash of a dc_pncounter';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_pncounter, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_pncounter, bigint) IS 'hash of a dc_pncounter with a seed';
CREATE OPERATOR CLASS dc_pncounter_hash_ops DEFAULT FOR TYPE dc_pncounter USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_pncounter), FUNCTION 2 dcounter.crdt_hash_extended(dc_pncounter, bigint);
COMMENT ON OPERATOR CLASS dc_pncounter_hash_ops USING hash IS 'equal states of dc_pncounter';
COMMENT ON OPERATOR FAMILY dc_pncounter_hash_ops USING hash IS 'equal states of dc_pncounter';

CREATE FUNCTION dc_merge(a dc_pncounter, b dc_pncounter) RETURNS dc_pncounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_pncounter, dc_pncounter) IS 'what either of two dc_pncounter has seen';
CREATE OPERATOR || (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_pncounter, dc_pncounter) IS 'what either of two dc_pncounter has seen';
CREATE FUNCTION dc_delta(after dc_pncounter, before dc_pncounter) RETURNS dc_pncounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_pncounter, dc_pncounter) IS 'what must be merged into one dc_pncounter to have anothers news';
CREATE AGGREGATE dc_merge_agg(dc_pncounter) (SFUNC = dc_merge, STYPE = dc_pncounter, COMBINEFUNC = dc_merge, PARALLEL = SAFE);
COMMENT ON AGGREGATE dc_merge_agg(dc_pncounter) IS 'what any of many dc_pncounter has seen';

-- dc_gset: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_gset, dc_gset) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_gset, dc_gset) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_gset, dc_gset) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_gset, dc_gset) IS 'is another state';
CREATE FUNCTION dcounter.crdt_le(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_gset, dc_gset) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_gset, dc_gset) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_gset, dc_gset) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_gset, dc_gset) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_gset, dc_gset) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_gset, dc_gset) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_gset, dc_gset) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_gset, dc_gset) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_gset, dc_gset) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_gset, dc_gset) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_gset) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_gset) IS 'hash of a dc_gset';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_gset, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_gset, bigint) IS 'hash of a dc_gset with a seed';
CREATE OPERATOR CLASS dc_gset_hash_ops DEFAULT FOR TYPE dc_gset USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_gset), FUNCTION 2 dcounter.crdt_hash_extended(dc_gset, bigint);
COMMENT ON OPERATOR CLASS dc_gset_hash_ops USING hash IS 'equal states of dc_gset';
COMMENT ON OPERATOR FAMILY dc_gset_hash_ops USING hash IS 'equal states of dc_gset';

CREATE FUNCTION dc_merge(a dc_gset, b dc_gset) RETURNS dc_gset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_gset, dc_gset) IS 'what either of two dc_gset has seen';
CREATE OPERATOR || (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_gset, dc_gset) IS 'what either of two dc_gset has seen';
CREATE FUNCTION dc_delta(after dc_gset, before dc_gset) RETURNS dc_gset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_gset, dc_gset) IS 'what must be merged into one dc_gset to have anothers news';

-- dc_orset: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_orset, dc_orset) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_orset, dc_orset) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_orset, dc_orset) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_orset, dc_orset) IS 'is another state';
CREATE FUNCTION dcounter.crdt_le(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_orset, dc_orset) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_orset, dc_orset) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_orset, dc_orset) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_orset, dc_orset) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_orset, dc_orset) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_orset, dc_orset) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_orset, dc_orset) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_orset, dc_orset) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_orset, dc_orset) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_orset, dc_orset) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_orset) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_orset) IS 'hash of a dc_orset';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_orset, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_orset, bigint) IS 'hash of a dc_orset with a seed';
CREATE OPERATOR CLASS dc_orset_hash_ops DEFAULT FOR TYPE dc_orset USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_orset), FUNCTION 2 dcounter.crdt_hash_extended(dc_orset, bigint);
COMMENT ON OPERATOR CLASS dc_orset_hash_ops USING hash IS 'equal states of dc_orset';
COMMENT ON OPERATOR FAMILY dc_orset_hash_ops USING hash IS 'equal states of dc_orset';

CREATE FUNCTION dc_merge(a dc_orset, b dc_orset) RETURNS dc_orset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_orset, dc_orset) IS 'what either of two dc_orset has seen';
CREATE OPERATOR || (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_orset, dc_orset) IS 'what either of two dc_orset has seen';
CREATE FUNCTION dc_delta(after dc_orset, before dc_orset) RETURNS dc_orset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_orset, dc_orset) IS 'what must be merged into one dc_orset to have anothers news';

-- dc_lww: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_lww, dc_lww) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_lww, dc_lww) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_lww, dc_lww) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_lww, dc_lww) IS 'is another state';
CREATE FUNCTION dcounter.crdt_le(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_lww, dc_lww) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_lww, dc_lww) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_lww, dc_lww) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_lww, dc_lww) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_lww, dc_lww) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_lww, dc_lww) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_lww, dc_lww) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_lww, dc_lww) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_lww, dc_lww) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_lww, dc_lww) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_lww) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_lww) IS 'hash of a dc_lww';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_lww, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_lww, bigint) IS 'hash of a dc_lww with a seed';
CREATE OPERATOR CLASS dc_lww_hash_ops DEFAULT FOR TYPE dc_lww USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_lww), FUNCTION 2 dcounter.crdt_hash_extended(dc_lww, bigint);
COMMENT ON OPERATOR CLASS dc_lww_hash_ops USING hash IS 'equal states of dc_lww';
COMMENT ON OPERATOR FAMILY dc_lww_hash_ops USING hash IS 'equal states of dc_lww';

CREATE FUNCTION dc_merge(a dc_lww, b dc_lww) RETURNS dc_lww
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_lww, dc_lww) IS 'what either of two dc_lww has seen';
CREATE OPERATOR || (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_lww, dc_lww) IS 'what either of two dc_lww has seen';
CREATE FUNCTION dc_delta(after dc_lww, before dc_lww) RETURNS dc_lww
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_lww, dc_lww) IS 'what must be merged into one dc_lww to have anothers news';
CREATE AGGREGATE dc_merge_agg(dc_lww) (SFUNC = dc_merge, STYPE = dc_lww, COMBINEFUNC = dc_merge, PARALLEL = SAFE);
COMMENT ON AGGREGATE dc_merge_agg(dc_lww) IS 'what any of many dc_lww has seen';

-- dc_mvreg: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_mvreg, dc_mvreg) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_mvreg, dc_mvreg) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_mvreg, dc_mvreg) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_mvreg, dc_mvreg) IS 'is another state';
CREATE FUNCTION dcounter.crdt_le(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_mvreg, dc_mvreg) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_mvreg, dc_mvreg) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_mvreg, dc_mvreg) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_mvreg, dc_mvreg) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_mvreg, dc_mvreg) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_mvreg, dc_mvreg) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_mvreg, dc_mvreg) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_mvreg, dc_mvreg) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_mvreg, dc_mvreg) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_mvreg, dc_mvreg) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_mvreg) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_mvreg) IS 'hash of a dc_mvreg';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_mvreg, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_mvreg, bigint) IS 'hash of a dc_mvreg with a seed';
CREATE OPERATOR CLASS dc_mvreg_hash_ops DEFAULT FOR TYPE dc_mvreg USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_mvreg), FUNCTION 2 dcounter.crdt_hash_extended(dc_mvreg, bigint);
COMMENT ON OPERATOR CLASS dc_mvreg_hash_ops USING hash IS 'equal states of dc_mvreg';
COMMENT ON OPERATOR FAMILY dc_mvreg_hash_ops USING hash IS 'equal states of dc_mvreg';

CREATE FUNCTION dc_merge(a dc_mvreg, b dc_mvreg) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_mvreg, dc_mvreg) IS 'what either of two dc_mvreg has seen';
CREATE OPERATOR || (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_mvreg, dc_mvreg) IS 'what either of two dc_mvreg has seen';
CREATE FUNCTION dc_delta(after dc_mvreg, before dc_mvreg) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_mvreg, dc_mvreg) IS 'what must be merged into one dc_mvreg to have anothers news';

-- dc_hlc: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_hlc, dc_hlc) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_hlc, dc_hlc) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES);
COMMENT ON OPERATOR = (dc_hlc, dc_hlc) IS 'is the same stamp';
CREATE FUNCTION dcounter.crdt_ne(dc_hlc, dc_hlc) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_hlc, dc_hlc) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_hlc, dc_hlc) IS 'is another stamp';
CREATE FUNCTION dcounter.hlc_le(dc_hlc, dc_hlc) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hlc_le(dc_hlc, dc_hlc) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dcounter.hlc_le, COMMUTATOR = >=, NEGATOR = >, RESTRICT = scalarlesel, JOIN = scalarlejoinsel);
COMMENT ON OPERATOR <= (dc_hlc, dc_hlc) IS 'is earlier, or equal';
CREATE FUNCTION dcounter.hlc_lt(dc_hlc, dc_hlc) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hlc_lt(dc_hlc, dc_hlc) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dcounter.hlc_lt, COMMUTATOR = >, NEGATOR = >=, RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
COMMENT ON OPERATOR < (dc_hlc, dc_hlc) IS 'is earlier';
CREATE FUNCTION dcounter.hlc_ge(dc_hlc, dc_hlc) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hlc_ge(dc_hlc, dc_hlc) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dcounter.hlc_ge, COMMUTATOR = <=, NEGATOR = <, RESTRICT = scalargesel, JOIN = scalargejoinsel);
COMMENT ON OPERATOR >= (dc_hlc, dc_hlc) IS 'is later, or equal';
CREATE FUNCTION dcounter.hlc_gt(dc_hlc, dc_hlc) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hlc_gt(dc_hlc, dc_hlc) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dcounter.hlc_gt, COMMUTATOR = <, NEGATOR = <=, RESTRICT = scalargtsel, JOIN = scalargtjoinsel);
COMMENT ON OPERATOR > (dc_hlc, dc_hlc) IS 'is later';
CREATE FUNCTION dcounter.crdt_hash(dc_hlc) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_hlc) IS 'hash of a dc_hlc';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_hlc, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_hlc, bigint) IS 'hash of a dc_hlc with a seed';
CREATE OPERATOR CLASS dc_hlc_hash_ops DEFAULT FOR TYPE dc_hlc USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_hlc), FUNCTION 2 dcounter.crdt_hash_extended(dc_hlc, bigint);
COMMENT ON OPERATOR CLASS dc_hlc_hash_ops USING hash IS 'equal states of dc_hlc';
COMMENT ON OPERATOR FAMILY dc_hlc_hash_ops USING hash IS 'equal states of dc_hlc';
CREATE FUNCTION dcounter.hlc_cmp(dc_hlc, dc_hlc) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hlc_cmp(dc_hlc, dc_hlc) IS 'comparison for B-trees';
CREATE OPERATOR CLASS dc_hlc_ops DEFAULT FOR TYPE dc_hlc USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 dcounter.hlc_cmp(dc_hlc, dc_hlc);
COMMENT ON OPERATOR CLASS dc_hlc_ops USING btree IS 'order of stamps: by time, then by node';
COMMENT ON OPERATOR FAMILY dc_hlc_ops USING btree IS 'order of stamps: by time, then by node';

CREATE FUNCTION dc_merge(a dc_hlc, b dc_hlc) RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_hlc, dc_hlc) IS 'the later of two stamps';
CREATE OPERATOR || (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_hlc, dc_hlc) IS 'the later of two stamps';
CREATE AGGREGATE dc_merge_agg(dc_hlc) (SFUNC = dc_merge, STYPE = dc_hlc, COMBINEFUNC = dc_merge, PARALLEL = SAFE);
COMMENT ON AGGREGATE dc_merge_agg(dc_hlc) IS 'the latest of many stamps';

-- dc_vclock: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_vclock, dc_vclock) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_vclock, dc_vclock) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_vclock, dc_vclock) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_vclock, dc_vclock) IS 'is another state';
CREATE FUNCTION dcounter.crdt_le(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_vclock, dc_vclock) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_vclock, dc_vclock) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_vclock, dc_vclock) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_vclock, dc_vclock) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_vclock, dc_vclock) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_vclock, dc_vclock) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_vclock, dc_vclock) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_vclock, dc_vclock) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_vclock, dc_vclock) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_vclock, dc_vclock) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_vclock) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_vclock) IS 'hash of a dc_vclock';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_vclock, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_vclock, bigint) IS 'hash of a dc_vclock with a seed';
CREATE OPERATOR CLASS dc_vclock_hash_ops DEFAULT FOR TYPE dc_vclock USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_vclock), FUNCTION 2 dcounter.crdt_hash_extended(dc_vclock, bigint);
COMMENT ON OPERATOR CLASS dc_vclock_hash_ops USING hash IS 'equal states of dc_vclock';
COMMENT ON OPERATOR FAMILY dc_vclock_hash_ops USING hash IS 'equal states of dc_vclock';

CREATE FUNCTION dc_merge(a dc_vclock, b dc_vclock) RETURNS dc_vclock
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_vclock, dc_vclock) IS 'what either of two dc_vclock has seen';
CREATE OPERATOR || (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_vclock, dc_vclock) IS 'what either of two dc_vclock has seen';
CREATE FUNCTION dc_delta(after dc_vclock, before dc_vclock) RETURNS dc_vclock
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_vclock, dc_vclock) IS 'what must be merged into one dc_vclock to have anothers news';
CREATE AGGREGATE dc_merge_agg(dc_vclock) (SFUNC = dc_merge, STYPE = dc_vclock, COMBINEFUNC = dc_merge, PARALLEL = SAFE);
COMMENT ON AGGREGATE dc_merge_agg(dc_vclock) IS 'what any of many dc_vclock has seen';

-- Counters and vector clocks
CREATE FUNCTION dc_gcounter() RETURNS dc_gcounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_gcounter() IS 'an empty dc_gcounter';
CREATE FUNCTION dc_pncounter() RETURNS dc_pncounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_pncounter() IS 'an empty dc_pncounter';
CREATE FUNCTION dc_vclock() RETURNS dc_vclock
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_vclock() IS 'an empty dc_vclock';
CREATE FUNCTION dc_add(counter dc_gcounter, amount bigint DEFAULT 1, node text DEFAULT dc_node()) RETURNS dc_gcounter
	AS 'MODULE_PATHNAME', 'dc_add_amount' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_add(dc_gcounter, bigint, text) IS 'raises the amount of a node';
CREATE FUNCTION dc_add(counter dc_pncounter, amount bigint DEFAULT 1, node text DEFAULT dc_node()) RETURNS dc_pncounter
	AS 'MODULE_PATHNAME', 'dc_add_amount' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_add(dc_pncounter, bigint, text) IS 'raises the increments of a node, or with a negative amount its decrements';
CREATE FUNCTION dc_add(clock dc_vclock, amount bigint DEFAULT 1, node text DEFAULT dc_node()) RETURNS dc_vclock
	AS 'MODULE_PATHNAME', 'dc_add_amount' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_add(dc_vclock, bigint, text) IS 'raises the number of a node';
CREATE FUNCTION dc_reset(counter dc_pncounter) RETURNS dc_pncounter
	AS 'MODULE_PATHNAME', 'dc_reset_pncounter' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_reset(dc_pncounter) IS 'takes away what this state has seen';
CREATE FUNCTION dc_value(counter dc_gcounter) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_value_counter' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_value(dc_gcounter) IS 'the value of a counter';
CREATE FUNCTION dc_value(counter dc_pncounter) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_value_counter' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_value(dc_pncounter) IS 'the value of a counter';
CREATE FUNCTION dc_values(counter dc_gcounter) RETURNS TABLE (node text, amount bigint)
	AS 'MODULE_PATHNAME', 'dc_values_amounts' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 10;
COMMENT ON FUNCTION dc_values(dc_gcounter) IS 'the amount of each node';
CREATE FUNCTION dc_values(counter dc_pncounter) RETURNS TABLE (node text, inc bigint, "dec" bigint, inc_reset bigint, dec_reset bigint)
	AS 'MODULE_PATHNAME', 'dc_values_amounts' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 10;
COMMENT ON FUNCTION dc_values(dc_pncounter) IS 'the amounts of each node, and how much of them resets took away';
CREATE FUNCTION dc_values(clock dc_vclock) RETURNS TABLE (node text, amount bigint)
	AS 'MODULE_PATHNAME', 'dc_values_amounts' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 10;
COMMENT ON FUNCTION dc_values(dc_vclock) IS 'the number of each node';

-- Sets
CREATE FUNCTION dc_gset() RETURNS dc_gset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_gset() IS 'an empty dc_gset';
CREATE FUNCTION dc_orset() RETURNS dc_orset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_orset() IS 'an empty dc_orset';
CREATE FUNCTION dc_add(set dc_gset, element text) RETURNS dc_gset
	AS 'MODULE_PATHNAME', 'dc_add_gset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_add(dc_gset, text) IS 'adds an element';
CREATE FUNCTION dc_add(set dc_orset, element text, node text DEFAULT dc_node()) RETURNS dc_orset
	AS 'MODULE_PATHNAME', 'dc_add_orset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_add(dc_orset, text, text) IS 'adds an element, on behalf of a node';
CREATE FUNCTION dc_remove(set dc_orset, element text) RETURNS dc_orset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_remove(dc_orset, text) IS 'removes an element, as far as this state has seen it added';
CREATE FUNCTION dc_reset(set dc_orset) RETURNS dc_orset
	AS 'MODULE_PATHNAME', 'dc_reset_orset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_reset(dc_orset) IS 'removes all elements that this state has';
CREATE FUNCTION dc_contains(set dc_gset, element text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_contains_gset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_contains(dc_gset, text) IS 'whether a set has an element';
CREATE FUNCTION dc_value(set dc_gset) RETURNS text[]
	AS 'MODULE_PATHNAME', 'dc_value_gset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_value(dc_gset) IS 'the elements of a set, in order of their bytes';
CREATE FUNCTION dc_values(set dc_gset) RETURNS SETOF text
	AS 'MODULE_PATHNAME', 'dc_values_gset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 100;
COMMENT ON FUNCTION dc_values(dc_gset) IS 'the elements of a set, in order of their bytes';
CREATE FUNCTION dc_contains(set dc_orset, element text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_contains_orset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_contains(dc_orset, text) IS 'whether a set has an element';
CREATE FUNCTION dc_value(set dc_orset) RETURNS text[]
	AS 'MODULE_PATHNAME', 'dc_value_orset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_value(dc_orset) IS 'the elements of a set, in order of their bytes';
CREATE FUNCTION dc_values(set dc_orset) RETURNS SETOF text
	AS 'MODULE_PATHNAME', 'dc_values_orset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 100;
COMMENT ON FUNCTION dc_values(dc_orset) IS 'the elements of a set, in order of their bytes';

-- Registers. A third argument of dc_set() would make dc_set($1, $2, $3) of a counter table ambiguous
-- for drivers that leave the types of parameters to the server.
CREATE FUNCTION dc_lww() RETURNS dc_lww
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_lww() IS 'a dc_lww that was never written';
CREATE FUNCTION dc_mvreg() RETURNS dc_mvreg
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_mvreg() IS 'a dc_mvreg without values';
CREATE FUNCTION dc_set(register dc_lww, value jsonb) RETURNS dc_lww
	AS 'MODULE_PATHNAME', 'dc_set_lww' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_set(dc_lww, jsonb) IS 'writes a value, with a new stamp of this database';
CREATE FUNCTION dc_set_as(register dc_lww, value jsonb, node text) RETURNS dc_lww
	AS 'MODULE_PATHNAME', 'dc_set_as_lww' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_set_as(dc_lww, jsonb, text) IS 'writes a value on behalf of a node, with a new stamp';
CREATE FUNCTION dc_set(register dc_mvreg, value jsonb) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME', 'dc_set_mvreg' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_set(dc_mvreg, jsonb) IS 'replaces the values that this state has';
CREATE FUNCTION dc_set_as(register dc_mvreg, value jsonb, node text) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME', 'dc_set_as_mvreg' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_set_as(dc_mvreg, jsonb, text) IS 'replaces the values that this state has, on behalf of a node';
CREATE FUNCTION dc_reset(register dc_mvreg) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME', 'dc_reset_mvreg' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_reset(dc_mvreg) IS 'removes all values that this state has';
CREATE FUNCTION dc_value(register dc_lww) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'dc_value_lww' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_value(dc_lww) IS 'the value of a register';
CREATE FUNCTION dc_value(register dc_mvreg) RETURNS jsonb[]
	AS 'MODULE_PATHNAME', 'dc_value_mvreg' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_value(dc_mvreg) IS 'the values of a register: more than one after concurrent writings';
CREATE FUNCTION dc_values(register dc_mvreg) RETURNS SETOF jsonb
	AS 'MODULE_PATHNAME', 'dc_values_mvreg' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 10;
COMMENT ON FUNCTION dc_values(dc_mvreg) IS 'the values of a register: more than one after concurrent writings';
CREATE FUNCTION dc_stamp(register dc_lww) RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_stamp(dc_lww) IS 'when and by which node a register was written';
-- Aggregates of mergeable types whose values may be large.
CREATE FUNCTION dcounter.crdt_agg_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'crdt_agg_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.crdt_agg_combine(internal, internal) IS 'merges two states of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_serialize(internal) RETURNS bytea
	AS 'MODULE_PATHNAME', 'crdt_agg_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.crdt_agg_serialize(internal) IS 'writes a state of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_deserialize(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'crdt_agg_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.crdt_agg_deserialize(bytea, internal) IS 'reads a state of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_add(internal, dc_gset) RETURNS internal
	AS 'MODULE_PATHNAME', 'crdt_agg_add' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_agg_add(internal, dc_gset) IS 'transition of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_final(internal, dc_gset) RETURNS dc_gset
	AS 'MODULE_PATHNAME', 'crdt_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.crdt_agg_final(internal, dc_gset) IS 'result of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_add(internal, dc_orset) RETURNS internal
	AS 'MODULE_PATHNAME', 'crdt_agg_add' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_agg_add(internal, dc_orset) IS 'transition of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_final(internal, dc_orset) RETURNS dc_orset
	AS 'MODULE_PATHNAME', 'crdt_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.crdt_agg_final(internal, dc_orset) IS 'result of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_add(internal, dc_mvreg) RETURNS internal
	AS 'MODULE_PATHNAME', 'crdt_agg_add' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_agg_add(internal, dc_mvreg) IS 'transition of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_final(internal, dc_mvreg) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME', 'crdt_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.crdt_agg_final(internal, dc_mvreg) IS 'result of dc_merge_agg';

CREATE AGGREGATE dc_merge_agg(dc_gset) (
	SFUNC = dcounter.crdt_agg_add, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.crdt_agg_final, FINALFUNC_EXTRA,
	COMBINEFUNC = dcounter.crdt_agg_combine, SERIALFUNC = dcounter.crdt_agg_serialize, DESERIALFUNC = dcounter.crdt_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_merge_agg(dc_gset) IS 'the elements of many dc_gset';

CREATE AGGREGATE dc_merge_agg(dc_orset) (
	SFUNC = dcounter.crdt_agg_add, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.crdt_agg_final, FINALFUNC_EXTRA,
	COMBINEFUNC = dcounter.crdt_agg_combine, SERIALFUNC = dcounter.crdt_agg_serialize, DESERIALFUNC = dcounter.crdt_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_merge_agg(dc_orset) IS 'what any of many dc_orset has seen';

CREATE AGGREGATE dc_merge_agg(dc_mvreg) (
	SFUNC = dcounter.crdt_agg_add, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.crdt_agg_final, FINALFUNC_EXTRA,
	COMBINEFUNC = dcounter.crdt_agg_combine, SERIALFUNC = dcounter.crdt_agg_serialize, DESERIALFUNC = dcounter.crdt_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_merge_agg(dc_mvreg) IS 'what any of many dc_mvreg has seen';

-- What aggregates are made of is called with their owner's rights.
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_add(internal, dc_gset) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_final(internal, dc_gset) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_add(internal, dc_orset) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_final(internal, dc_orset) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_add(internal, dc_mvreg) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_final(internal, dc_mvreg) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_combine(internal, internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_serialize(internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_deserialize(bytea, internal) FROM PUBLIC;
CREATE FUNCTION dc_hlc_now() RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_hlc_now() IS 'a new stamp, later than all that this database has made or seen';

CREATE FUNCTION dc_hlc_after(stamp dc_hlc) RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_hlc_after(dc_hlc) IS 'a new stamp, later than another one, too';

CREATE FUNCTION dc_hlc_time(stamp dc_hlc) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_hlc_time(dc_hlc) IS 'the time of a stamp';

CREATE FUNCTION dc_hlc_node(stamp dc_hlc) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_hlc_node(dc_hlc) IS 'the node that has made a stamp';
CREATE FUNCTION dcounter.merge_row() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.merge_row() IS 'merges rows that come by logical replication with those that are there';
CREATE SEQUENCE dcounter.outbox_seq AS pg_catalog.int8 CACHE 1 NO CYCLE;
COMMENT ON SEQUENCE dcounter.outbox_seq IS 'positions of events, drawn by transactions about to commit';

CREATE TABLE dcounter.outbox (
	seq           pg_catalog.int8        NOT NULL,
	created_at    pg_catalog.timestamptz NOT NULL,
	id            pg_catalog.uuid        NOT NULL,
	aggregatetype pg_catalog.text        NOT NULL,
	aggregateid   pg_catalog.text,
	type          pg_catalog.text        NOT NULL,
	payload       pg_catalog.jsonb,
	headers       pg_catalog.jsonb
);
COMMENT ON TABLE dcounter.outbox IS 'change events; the rows are in its partitions, the tables that inherit from it';
COMMENT ON COLUMN dcounter.outbox.seq IS 'position in the order of delivery';
COMMENT ON COLUMN dcounter.outbox.created_at IS 'when the transaction wrote it, about to commit';
COMMENT ON COLUMN dcounter.outbox.id IS 'identifies the event, the same in each delivery';
COMMENT ON COLUMN dcounter.outbox.aggregatetype IS 'topic';
COMMENT ON COLUMN dcounter.outbox.aggregateid IS 'key; events of a key keep their order';

CREATE TABLE dcounter.outbox_0 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_1 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_2 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_3 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_4 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_5 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_6 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_7 () INHERITS (dcounter.outbox);
CREATE INDEX outbox_0_seq ON dcounter.outbox_0 (seq);
CREATE INDEX outbox_1_seq ON dcounter.outbox_1 (seq);
CREATE INDEX outbox_2_seq ON dcounter.outbox_2 (seq);
CREATE INDEX outbox_3_seq ON dcounter.outbox_3 (seq);
CREATE INDEX outbox_4_seq ON dcounter.outbox_4 (seq);
CREATE INDEX outbox_5_seq ON dcounter.outbox_5 (seq);
CREATE INDEX outbox_6_seq ON dcounter.outbox_6 (seq);
CREATE INDEX outbox_7_seq ON dcounter.outbox_7 (seq);

COMMENT ON TABLE dcounter.outbox_0 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_1 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_2 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_3 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_4 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_5 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_6 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_7 IS 'events, one of the ring of partitions';

CREATE TABLE dcounter.outbox_ring (
	current pg_catalog.int4        NOT NULL,
	since   pg_catalog.timestamptz NOT NULL
);
COMMENT ON TABLE dcounter.outbox_ring IS 'which partition of the outbox is written to';
INSERT INTO dcounter.outbox_ring VALUES (0, pg_catalog.now());

CREATE FUNCTION dcounter.on_outbox_insert() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_outbox_insert() IS 'internal: refuses rows that were not written by a commit';

-- For each row, as a data-only restore copies no rows to it.
CREATE TRIGGER on_outbox_insert
	BEFORE INSERT ON dcounter.outbox
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_outbox_insert();
CREATE FUNCTION dc_publish(topic text, key text, type text, payload jsonb, headers jsonb DEFAULT NULL) RETURNS uuid
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_publish(text, text, text, jsonb, jsonb) IS 'writes an event when the transaction commits';

CREATE FUNCTION dcounter.outbox_capture() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.outbox_capture() IS 'writes an event for each change of a row; see dc_outbox_attach()';

CREATE FUNCTION dc_outbox_attach(source regclass, topic text DEFAULT NULL, key_columns text[] DEFAULT NULL, columns text[] DEFAULT NULL, condition text DEFAULT NULL, sink text DEFAULT 'table', if_not_exists boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_outbox_attach(regclass, text, text[], text[], text, text, boolean) IS 'writes an event for each change of a table, in the same transaction';

CREATE FUNCTION dc_outbox_detach(source regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_outbox_detach(regclass) IS 'ends what dc_outbox_attach() began';
CREATE SEQUENCE dcounter.consumer_id AS pg_catalog.int4 NO CYCLE;
COMMENT ON SEQUENCE dcounter.consumer_id IS 'ids of consumers';

CREATE TABLE dcounter.consumer (
	id           pg_catalog.int4      NOT NULL CONSTRAINT consumer_pkey PRIMARY KEY,
	name         pg_catalog.text      COLLATE pg_catalog."C" NOT NULL CONSTRAINT consumer_name_key UNIQUE,
	owner        pg_catalog.regrole   NOT NULL,
	readers      pg_catalog.regrole[] NOT NULL,
	topics       pg_catalog.text[],
	lease        pg_catalog.interval  NOT NULL,
	max_attempts pg_catalog.int4      NOT NULL,
	on_nack      pg_catalog.text      NOT NULL CHECK (on_nack OPERATOR(pg_catalog.=) ANY (ARRAY['wait', 'skip'])),
	max_retention_age  pg_catalog.interval,
	max_retention_size pg_catalog.int8,
	cut_off      pg_catalog.int8,
	created_at   pg_catalog.timestamptz NOT NULL,
	revived      pg_catalog.int8        NOT NULL
);
COMMENT ON TABLE dcounter.consumer IS 'consumers of the outbox and their settings';
COMMENT ON COLUMN dcounter.consumer.readers IS 'roles that may fetch and acknowledge, as the owner may';
COMMENT ON COLUMN dcounter.consumer.topics IS 'the topics it is interested in, NULL for all';
COMMENT ON COLUMN dcounter.consumer.max_retention_age IS 'how long it may hold events back from being removed, NULL for ever';
COMMENT ON COLUMN dcounter.consumer.max_retention_size IS 'how many bytes it may hold back, NULL for any number';
COMMENT ON COLUMN dcounter.consumer.cut_off IS 'events up to this seq were removed though it had not had them';
COMMENT ON COLUMN dcounter.consumer.revived IS 'grows when its members have to look for retries anew';

CREATE TABLE dcounter.consumer_member (
	consumer    pg_catalog.int4        NOT NULL,
	member      pg_catalog.text        COLLATE pg_catalog."C" NOT NULL,
	version     pg_catalog.int8        NOT NULL,
	lanes       pg_catalog.int8        NOT NULL,
	acked       pg_catalog.int8        NOT NULL,
	positions   pg_catalog.int8[],
	fetched     pg_catalog.int8        NOT NULL,
	delivered   pg_catalog.int8        NOT NULL,
	attempts    pg_catalog.int8[],
	skip        pg_catalog.bool        NOT NULL,
	retries     pg_catalog.int8[],
	lease_until pg_catalog.timestamptz NOT NULL,
	retry_due   pg_catalog.timestamptz,
	retry_first pg_catalog.int8        NOT NULL,
	retry_last  pg_catalog.int8        NOT NULL,
	revived     pg_catalog.int8        NOT NULL,
	CONSTRAINT consumer_member_pkey PRIMARY KEY (consumer, member, version)
);
COMMENT ON TABLE dcounter.consumer_member IS 'positions of consumers and of their members; each change makes a row with a higher version';
COMMENT ON COLUMN dcounter.consumer_member.member IS 'empty for the consumer itself: what no member has';
COMMENT ON COLUMN dcounter.consumer_member.lanes IS 'which of the 64 shares of the keys it has, a bit each';
COMMENT ON COLUMN dcounter.consumer_member.acked IS 'everything up to this seq is done, in all of its lanes';
COMMENT ON COLUMN dcounter.consumer_member.positions IS 'the same by lane, unless acked says it for all';
COMMENT ON COLUMN dcounter.consumer_member.fetched IS 'how far the last fetch has looked';
COMMENT ON COLUMN dcounter.consumer_member.delivered IS 'the last event that was handed out';
COMMENT ON COLUMN dcounter.consumer_member.attempts IS 'how often what was handed out has been: up to a seq, so often, up to the next one, so often; the rest has been once';
COMMENT ON COLUMN dcounter.consumer_member.skip IS 'whether on_nack was skip at the last fetch: who has fetched goes by that';
COMMENT ON COLUMN dcounter.consumer_member.retries IS 'events that were handed out from dcounter.consumer_retry';
COMMENT ON COLUMN dcounter.consumer_member.retry_due IS 'no retry of its lanes is due before, NULL if there is none';
COMMENT ON COLUMN dcounter.consumer_member.retry_first IS 'no retry of its lanes has a lower seq, unless it is dead';
COMMENT ON COLUMN dcounter.consumer_member.retry_last IS 'no retry of its lanes has a higher seq';
COMMENT ON COLUMN dcounter.consumer_member.revived IS 'dcounter.consumer.revived when these were found';

CREATE TABLE dcounter.consumer_retry (
	consumer     pg_catalog.int4        NOT NULL,
	seq          pg_catalog.int8        NOT NULL,
	lane         pg_catalog.int2        NOT NULL,
	pending_hash pg_catalog.int8,
	due_at       pg_catalog.timestamptz,
	died_at      pg_catalog.timestamptz,
	attempts     pg_catalog.int4        NOT NULL,
	spared       pg_catalog.int4        NOT NULL,
	reason       pg_catalog.text,
	created_at   pg_catalog.timestamptz NOT NULL,
	id           pg_catalog.uuid        NOT NULL,
	topic        pg_catalog.text        NOT NULL,
	key          pg_catalog.text,
	type         pg_catalog.text        NOT NULL,
	payload      pg_catalog.jsonb,
	headers      pg_catalog.jsonb,
	CONSTRAINT consumer_retry_pkey PRIMARY KEY (consumer, seq)
);
CREATE INDEX consumer_retry_due ON dcounter.consumer_retry (consumer, due_at);
CREATE INDEX consumer_retry_key ON dcounter.consumer_retry (consumer, pending_hash, seq);
COMMENT ON TABLE dcounter.consumer_retry IS 'events to be delivered again, those that wait for them, and dead letters';
COMMENT ON COLUMN dcounter.consumer_retry.pending_hash IS 'hash of topic and key, NULL if it holds up no other event';
COMMENT ON COLUMN dcounter.consumer_retry.due_at IS 'when it is delivered again, NULL if it waits for another event of its key, or is dead; -infinity if it was dead, and was discarded';
COMMENT ON COLUMN dcounter.consumer_retry.died_at IS 'when it was given up';
COMMENT ON COLUMN dcounter.consumer_retry.attempts IS 'how often it was delivered';
COMMENT ON COLUMN dcounter.consumer_retry.spared IS 'how many of these do not count: an event before it was nacked, and it was left alone';

CREATE FUNCTION dc_consumer_create(name text, topics text[] DEFAULT NULL, start text DEFAULT 'now', if_not_exists boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_consumer_create(text, text[], text, boolean) IS 'creates a consumer of events, of some topics or of all';

CREATE FUNCTION dc_consumer_alter(name text, topics text[] DEFAULT NULL, lease interval DEFAULT NULL, max_attempts int DEFAULT NULL, on_nack text DEFAULT NULL, max_retention_age interval DEFAULT NULL, max_retention_size bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_consumer_alter(text, text[], interval, int, text, interval, bigint) IS 'changes settings of a consumer; NULL keeps one, an empty array or 0 removes a limit';

CREATE FUNCTION dc_consumer_drop(name text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_consumer_drop(text) IS 'drops a consumer with its members and dead letters';

CREATE FUNCTION dc_consumer_grant(name text, role regrole) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_consumer_grant(text, regrole) IS 'lets a role fetch and acknowledge events of a consumer';

CREATE FUNCTION dc_consumer_revoke(name text, role regrole) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_consumer_revoke(text, regrole) IS 'takes back what dc_consumer_grant has given';

CREATE FUNCTION dc_fetch(consumer text, max_events int DEFAULT 100, wait interval DEFAULT '0', member text DEFAULT NULL)
	RETURNS TABLE (seq bigint, id uuid, topic text, key text, type text, payload jsonb, headers jsonb, created_at timestamptz, attempt int)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100 ROWS 100;
COMMENT ON FUNCTION dc_fetch(text, int, interval, text) IS 'the next events of a consumer, until they are acknowledged';

CREATE FUNCTION dcounter.last_fetch() RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1;
COMMENT ON FUNCTION dcounter.last_fetch() IS 'how the last dc_fetch of this session ended: complete; stopped, so that the next one goes on; busy, as others were at work';

CREATE FUNCTION dc_ack(consumer text, seq bigint, member text DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_ack(text, bigint, text) IS 'everything that was fetched up to an event is done';

CREATE FUNCTION dc_nack(consumer text, seq bigint, delay interval DEFAULT '10 s', reason text DEFAULT NULL, member text DEFAULT NULL) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_nack(text, bigint, interval, text, text) IS 'one fetched event is to be delivered again later: retry; or it was the last attempt: dead';

CREATE FUNCTION dc_seek(consumer text, "position" text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_seek(text, text) IS 'moves a consumer to another position, as dc_consumer_create understands it';

CREATE FUNCTION dc_seek(consumer text, "position" bigint) RETURNS void
	AS 'MODULE_PATHNAME', 'dc_seek_int8' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_seek(text, bigint) IS 'moves a consumer to just after an event';

CREATE FUNCTION dc_dead_letter_retry(consumer text, seq bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_dead_letter_retry(text, bigint) IS 'delivers a dead letter again, or all of a consumer; returns how many';

CREATE FUNCTION dc_dead_letter_discard(consumer text, seq bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_dead_letter_discard(text, bigint) IS 'removes a dead letter, or all of a consumer; returns how many';

CREATE VIEW dc_dead_letters WITH (security_barrier) AS
	SELECT c.name AS consumer, r.seq, r.id, r.topic, r.key, r.type, r.payload, r.headers, r.created_at, r.attempts, r.reason, r.died_at
	FROM dcounter.consumer_retry r JOIN dcounter.consumer c ON c.id OPERATOR(pg_catalog.=) r.consumer
	WHERE r.died_at IS NOT NULL AND r.due_at IS NULL
		AND (pg_catalog.pg_has_role(c.owner::pg_catalog.oid, 'USAGE')
			OR EXISTS (SELECT FROM pg_catalog.unnest(c.readers) reader WHERE pg_catalog.pg_has_role(reader::pg_catalog.oid, 'USAGE')));
COMMENT ON VIEW dc_dead_letters IS 'events that were given up after too many attempts';
CREATE TABLE dcounter.counter_events (
	counter    pg_catalog.regclass NOT NULL,
	every      pg_catalog."interval" NOT NULL,
	channel    pg_catalog.text,
	last_round pg_catalog.timestamptz,
	CONSTRAINT counter_events_pkey PRIMARY KEY (counter)
) WITH (fillfactor = 50);
COMMENT ON TABLE dcounter.counter_events IS 'counter tables that emit events of type counter.changed';
COMMENT ON COLUMN dcounter.counter_events.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.counter_events.every IS 'at most one event of a key in this time';
COMMENT ON COLUMN dcounter.counter_events.channel IS 'channel that is notified of each event';
COMMENT ON COLUMN dcounter.counter_events.last_round IS 'when events were written last';

CREATE FUNCTION dcounter.on_events_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_events_change() IS 'internal: makes restoring these settings idempotent and tells sessions of changes';

CREATE TRIGGER on_events_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.counter_events
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_events_change();

CREATE TABLE dcounter.changed_key (
	counter   pg_catalog.regclass    NOT NULL,
	marked_at pg_catalog.timestamptz NOT NULL,
	key       pg_catalog.text COLLATE pg_catalog."C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);
CREATE INDEX changed_key_marked_at ON dcounter.changed_key (counter, marked_at);
COMMENT ON TABLE dcounter.changed_key IS 'keys of counter tables that have changed since their last event';
COMMENT ON COLUMN dcounter.changed_key.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.changed_key.marked_at IS 'when the change was made';
COMMENT ON COLUMN dcounter.changed_key.key IS 'the key';
CREATE FUNCTION dcounter.stat_outbox(OUT last_seq bigint, OUT horizon bigint, OUT held_back bigint, OUT held_back_by_pid int, OUT held_back_by_xid xid, OUT events bigint, OUT bytes bigint, OUT partitions int, OUT current_partition int, OUT current_since timestamptz, OUT oldest_seq bigint, OUT oldest_created_at timestamptz, OUT oldest_needed_seq bigint, OUT oldest_needed_by text)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dcounter.stat_outbox() IS 'internal: the row of dc_stat_outbox';

CREATE VIEW dc_stat_outbox AS
	SELECT s.last_seq, s.horizon, s.held_back, s.held_back_by_pid,
		(SELECT p.gid FROM pg_catalog.pg_prepared_xacts AS p
			WHERE p.transaction OPERATOR(pg_catalog.=) s.held_back_by_xid) AS held_back_by_gid,
		s.events, s.bytes, s.partitions, s.current_partition, s.current_since,
		s.oldest_seq, s.oldest_created_at, s.oldest_needed_seq, s.oldest_needed_by
	FROM dcounter.stat_outbox() AS s;
COMMENT ON VIEW dc_stat_outbox IS 'the outbox as it is now';
COMMENT ON COLUMN dc_stat_outbox.last_seq IS 'last number that a transaction has drawn for its events';
COMMENT ON COLUMN dc_stat_outbox.horizon IS 'events up to this one can be fetched';
COMMENT ON COLUMN dc_stat_outbox.held_back IS 'numbers after it, which have to wait for a transaction that is committing or prepared';
COMMENT ON COLUMN dc_stat_outbox.held_back_by_pid IS 'the session that commits';
COMMENT ON COLUMN dc_stat_outbox.held_back_by_gid IS 'the prepared transaction';
COMMENT ON COLUMN dc_stat_outbox.events IS 'events that are stored, at most: numbers of transactions that failed to commit are counted, too';
COMMENT ON COLUMN dc_stat_outbox.bytes IS 'size of all partitions with their indexes and TOAST tables';
COMMENT ON COLUMN dc_stat_outbox.partitions IS 'partitions in use, of 8';
COMMENT ON COLUMN dc_stat_outbox.current_partition IS 'the one that is written to';
COMMENT ON COLUMN dc_stat_outbox.current_since IS 'since when';
COMMENT ON COLUMN dc_stat_outbox.oldest_seq IS 'oldest event that is stored';
COMMENT ON COLUMN dc_stat_outbox.oldest_created_at IS 'when it was written';
COMMENT ON COLUMN dc_stat_outbox.oldest_needed_seq IS 'oldest event that a consumer may still need';
COMMENT ON COLUMN dc_stat_outbox.oldest_needed_by IS 'the consumer that is furthest behind, if the caller may read it';

CREATE FUNCTION dcounter.stat_consumers(OUT name text, OUT owner regrole, OUT topics text[], OUT "position" bigint, OUT lag_events bigint, OUT lag_seconds float8, OUT lag_bytes bigint, OUT outstanding bigint, OUT retries bigint, OUT dead_letters bigint, OUT attempts int, OUT members int, OUT lease_until timestamptz, OUT leases_expired int, OUT cut_off bigint, OUT held_back_by_pid int, OUT held_back_by_xid xid)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 10;
COMMENT ON FUNCTION dcounter.stat_consumers() IS 'internal: the rows of dc_stat_consumers';

CREATE VIEW dc_stat_consumers AS
	SELECT s.name, s.owner, s.topics, s."position", s.lag_events, s.lag_seconds, s.lag_bytes,
		s.outstanding, s.retries, s.dead_letters, s.attempts, s.members, s.lease_until, s.leases_expired,
		s.cut_off, s.held_back_by_pid,
		(SELECT p.gid FROM pg_catalog.pg_prepared_xacts AS p
			WHERE p.transaction OPERATOR(pg_catalog.=) s.held_back_by_xid) AS held_back_by_gid
	FROM dcounter.stat_consumers() AS s;
COMMENT ON VIEW dc_stat_consumers IS 'consumers that the caller may read, and how far behind they are';
COMMENT ON COLUMN dc_stat_consumers.name IS 'the consumer';
COMMENT ON COLUMN dc_stat_consumers.owner IS 'who created it';
COMMENT ON COLUMN dc_stat_consumers.topics IS 'the topics it is interested in, NULL for all';
COMMENT ON COLUMN dc_stat_consumers."position" IS 'everything up to this event is done';
COMMENT ON COLUMN dc_stat_consumers.lag_events IS 'events that are not done; an upper bound if there are more than 10000';
COMMENT ON COLUMN dc_stat_consumers.lag_seconds IS 'age of the oldest of these, 0 if there is none';
COMMENT ON COLUMN dc_stat_consumers.lag_bytes IS 'about how much of the outbox is after its position';
COMMENT ON COLUMN dc_stat_consumers.outstanding IS 'events that were fetched and are not acknowledged';
COMMENT ON COLUMN dc_stat_consumers.retries IS 'events that are delivered again later, or wait for one of these';
COMMENT ON COLUMN dc_stat_consumers.dead_letters IS 'events that were given up';
COMMENT ON COLUMN dc_stat_consumers.attempts IS 'highest number of attempts of an event that is outstanding or to be delivered again';
COMMENT ON COLUMN dc_stat_consumers.members IS 'members with a lease that has not expired';
COMMENT ON COLUMN dc_stat_consumers.lease_until IS 'when the first of these leases ends';
COMMENT ON COLUMN dc_stat_consumers.leases_expired IS 'members with an expired lease whose keys nobody has taken over yet';
COMMENT ON COLUMN dc_stat_consumers.cut_off IS 'events up to this one were removed before it had them';
COMMENT ON COLUMN dc_stat_consumers.held_back_by_pid IS 'the session that is committing, for which delivery waits';
COMMENT ON COLUMN dc_stat_consumers.held_back_by_gid IS 'the prepared transaction for which delivery waits';
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
			'totals', c.totals, 'sample', c.sample, 'trend', c.half_life) AS settings,
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
COMMENT ON COLUMN dc_tables.left_because IS 'what on its tables could run code of the owner';
COMMENT ON COLUMN dc_tables.totals IS 'direct (a commit writes them, where it need not wait) or compacted (compaction alone does); null while it is locked';
COMMENT ON COLUMN dc_tables.compacted_because IS 'why they are compacted although the setting is direct';
CREATE TABLE dcounter.source (
	counter     pg_catalog.regclass NOT NULL,
	source      pg_catalog.regclass NOT NULL,
	key         pg_catalog.text     NOT NULL,
	value       pg_catalog.text     NOT NULL,
	filter      pg_catalog.text,
	distinct_of pg_catalog.text,
	refs        pg_catalog.regclass,
	carried     pg_catalog.regclass,
	build       pg_catalog.text     NOT NULL DEFAULT 'worker',
	replicated  pg_catalog.bool     NOT NULL DEFAULT false,
	on_detach   pg_catalog.text     NOT NULL DEFAULT 'subtract',
	on_drift    pg_catalog.text     NOT NULL DEFAULT 'alarm',
	CONSTRAINT source_pkey PRIMARY KEY (counter)
);
CREATE INDEX source_source ON dcounter.source (source, counter);
COMMENT ON TABLE dcounter.source IS 'counter tables that are bound to a source table, which they count';
COMMENT ON COLUMN dcounter.source.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.source.source IS 'the source table';
COMMENT ON COLUMN dcounter.source.key IS 'expressions over its columns that make the key';
COMMENT ON COLUMN dcounter.source.value IS 'what a row adds to the value of its key';
COMMENT ON COLUMN dcounter.source.filter IS 'which rows count; NULL: all';
COMMENT ON COLUMN dcounter.source.distinct_of IS 'instead of rows: of what distinct values count';
COMMENT ON COLUMN dcounter.source.refs IS 'the table with how often each of these values occurs';
COMMENT ON COLUMN dcounter.source.carried IS 'the table with the amounts of partitions that were detached and still count';
COMMENT ON COLUMN dcounter.source.build IS 'who counts the rows that there are: worker, or none but calls of dc_build()';
COMMENT ON COLUMN dcounter.source.replicated IS 'whether rows count that a subscription writes';
COMMENT ON COLUMN dcounter.source.on_detach IS 'what becomes of the rows of a partition that is detached: subtract or keep';
COMMENT ON COLUMN dcounter.source.on_drift IS 'what the worker does when values differ: alarm or repair';

CREATE TABLE dcounter.source_state (
	counter       pg_catalog.regclass NOT NULL,
	state         pg_catalog.text     NOT NULL,
	epoch         pg_catalog.int8     NOT NULL,
	built_to      pg_catalog.text COLLATE pg_catalog."C",
	pass_to       pg_catalog.text COLLATE pg_catalog."C",
	passes        pg_catalog.int8     NOT NULL,
	last_pass     pg_catalog.timestamptz,
	keys_checked  pg_catalog.int8     NOT NULL,
	rows_checked  pg_catalog.int8     NOT NULL,
	drifted_keys  pg_catalog.int8     NOT NULL,
	drift_sum     pg_catalog."numeric" NOT NULL,
	repaired      pg_catalog.int8     NOT NULL,
	last_drift_at pg_catalog.timestamptz,
	CONSTRAINT source_state_pkey PRIMARY KEY (counter)
) WITH (fillfactor = 50);
COMMENT ON TABLE dcounter.source_state IS 'how far each bound counter table agrees with its source';
COMMENT ON COLUMN dcounter.source_state.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.source_state.state IS 'building, exact, suspect or drifted';
COMMENT ON COLUMN dcounter.source_state.epoch IS 'changes with all that changes values other than with rows of the source';
COMMENT ON COLUMN dcounter.source_state.built_to IS 'keys up to here are built';
COMMENT ON COLUMN dcounter.source_state.pass_to IS 'the pass that is under way: what it goes over (1 counter, 2 source), the epoch at its beginning, and now, keys that differed, that were noted before it, that were repaired, that were left, and the last key';
COMMENT ON COLUMN dcounter.source_state.passes IS 'passes over all keys that were finished';
COMMENT ON COLUMN dcounter.source_state.last_pass IS 'when the last of them was';
COMMENT ON COLUMN dcounter.source_state.keys_checked IS 'keys compared, in all';
COMMENT ON COLUMN dcounter.source_state.rows_checked IS 'rows of the source read for that';
COMMENT ON COLUMN dcounter.source_state.drifted_keys IS 'keys that differed';
COMMENT ON COLUMN dcounter.source_state.drift_sum IS 'by how much, without the sign';
COMMENT ON COLUMN dcounter.source_state.repaired IS 'keys that were repaired';
COMMENT ON COLUMN dcounter.source_state.last_drift_at IS 'when the last of them was found';

CREATE TABLE dcounter.drift (
	id       pg_catalog.int8 GENERATED ALWAYS AS IDENTITY,
	counter  pg_catalog.regclass    NOT NULL,
	at       pg_catalog.timestamptz NOT NULL,
	key      pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
	source   pg_catalog.int8        NOT NULL,
	value    pg_catalog.int8        NOT NULL,
	drift    pg_catalog.int8        NOT NULL,
	repaired pg_catalog.bool        NOT NULL,
	epoch    pg_catalog.int8        NOT NULL,
	CONSTRAINT drift_pkey PRIMARY KEY (id)
);
CREATE INDEX drift_key ON dcounter.drift (counter, key);
COMMENT ON TABLE dcounter.drift IS 'differences that were found between bound counter tables and their sources: the last 10,000';
COMMENT ON SEQUENCE dcounter.drift_id_seq IS 'numbers of these differences';
COMMENT ON COLUMN dcounter.drift.id IS 'in the order in which they were found';
COMMENT ON COLUMN dcounter.drift.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.drift.at IS 'when';
COMMENT ON COLUMN dcounter.drift.key IS 'the key';
COMMENT ON COLUMN dcounter.drift.source IS 'what the source has';
COMMENT ON COLUMN dcounter.drift.value IS 'what the counter had';
COMMENT ON COLUMN dcounter.drift.drift IS 'the difference';
COMMENT ON COLUMN dcounter.drift.repaired IS 'whether it was repaired at once';
COMMENT ON COLUMN dcounter.drift.epoch IS 'that of the state: a difference that is found again in the same one is not noted again';

CREATE FUNCTION dcounter.on_source_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_source_change() IS 'internal: makes restoring the bound counters idempotent and tells sessions of changes';

CREATE TRIGGER on_source_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.source
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_source_change();

CREATE FUNCTION dcounter.on_source_state_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_source_state_change() IS 'internal: makes restoring the states of bound counters idempotent';

CREATE TRIGGER on_source_state_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.source_state
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_source_state_change();

-- Any owner of a source may execute it: it counts nothing for a table that is not bound.
CREATE FUNCTION dcounter.source_row() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.source_row() IS 'counts changes of a source table; see dc_bind()';

CREATE FUNCTION dcounter.source_truncate() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.source_truncate() IS 'counts what TRUNCATE removes from a source table; see dc_bind()';

-- In the condition of a trigger on a source, so evaluated by all who update one.
CREATE FUNCTION dcounter.source_differs(anyelement, anyelement) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.source_differs(anyelement, anyelement) IS 'whether two values differ in a byte';

CREATE FUNCTION dc_bind(counter regclass, source regclass, key text, value text DEFAULT '1', filter text DEFAULT NULL, distinct_of text DEFAULT NULL,
	build text DEFAULT 'worker', lock_timeout interval DEFAULT '200 ms', replicated boolean DEFAULT false, on_detach text DEFAULT 'subtract') RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_bind(regclass, regclass, text, text, text, text, text, interval, boolean, text) IS 'makes a counter table the count, or the sum, of a source table';

CREATE FUNCTION dc_unbind(counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_unbind(regclass) IS 'ends what dc_bind() began; the values stay';
CREATE FUNCTION dc_source_check(counter regclass, keys text[] DEFAULT NULL, from_key text DEFAULT NULL, to_key text DEFAULT NULL, sample float8 DEFAULT NULL, OUT key text, OUT source bigint, OUT counter bigint, OUT drift bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 10;
COMMENT ON FUNCTION dc_source_check(regclass, text[], text, text, float8) IS 'keys of a bound counter table that differ from its source';

CREATE FUNCTION dc_source_fix(counter regclass, keys text[], OUT key text, OUT drift bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 10;
COMMENT ON FUNCTION dc_source_fix(regclass, text[]) IS 'adds what keys of a bound counter table differ by from its source';

CREATE PROCEDURE dc_build(counter regclass, max_keys int DEFAULT 1000)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_build(regclass, int) IS 'adds what a source has and its bound counter table has not, in chunks of so many keys';
CREATE TABLE dcounter.mark (
	counter pg_catalog.regclass    NOT NULL,
	mark    pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
	at      pg_catalog.timestamptz NOT NULL,
	keys    pg_catalog.int8        NOT NULL,
	CONSTRAINT mark_pkey PRIMARY KEY (counter, mark)
);
COMMENT ON TABLE dcounter.mark IS 'marks: moments at which the values of a counter table were kept';
COMMENT ON COLUMN dcounter.mark.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.mark.mark IS 'the name of the mark';
COMMENT ON COLUMN dcounter.mark.at IS 'when';
COMMENT ON COLUMN dcounter.mark.keys IS 'how many keys there were';

CREATE TABLE dcounter.mark_value (
	counter pg_catalog.regclass NOT NULL,
	mark    pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
	key     pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
	value   pg_catalog.int8     NOT NULL,
	exact   pg_catalog.int8,
	CONSTRAINT mark_value_pkey PRIMARY KEY (counter, mark, key)
);
COMMENT ON TABLE dcounter.mark_value IS 'the values that marks keep, and those that they should have been';
COMMENT ON COLUMN dcounter.mark_value.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.mark_value.mark IS 'the name of the mark';
COMMENT ON COLUMN dcounter.mark_value.key IS 'the key';
COMMENT ON COLUMN dcounter.mark_value.value IS 'its value then, 0 if it was not there';
COMMENT ON COLUMN dcounter.mark_value.exact IS 'what that should have been, null as long as nobody has said so';

CREATE FUNCTION dc_mark(counter regclass, mark text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_mark(regclass, text) IS 'keeps the exact values of all keys of a counter table under a name';

CREATE FUNCTION dc_unmark(counter regclass, mark text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_unmark(regclass, text) IS 'removes what dc_mark() has kept';

CREATE FUNCTION dc_reconcile(counter regclass, keys anycompatiblearray, exact bigint[], as_of text,
	OUT key anycompatible, OUT was bigint, OUT exact bigint, OUT delta bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 100;
COMMENT ON FUNCTION dc_reconcile(regclass, anycompatiblearray, bigint[], text) IS 'makes values what they should have been at a mark, and keeps what was added since';

CREATE VIEW dc_marks AS
	SELECT m.counter, m.mark, m.at, m.keys
	FROM dcounter.mark AS m
	WHERE pg_catalog.has_table_privilege(m.counter, 'SELECT');
COMMENT ON VIEW dc_marks IS 'marks of the counter tables that the caller may read';
COMMENT ON COLUMN dc_marks.counter IS 'the counter table';
COMMENT ON COLUMN dc_marks.mark IS 'the name of the mark';
COMMENT ON COLUMN dc_marks.at IS 'when it was made';
COMMENT ON COLUMN dc_marks.keys IS 'how many keys it has';
CREATE VIEW dc_stat_drift AS
	SELECT s.counter, b.source, s.state, s.built_to, s.last_pass, s.passes, s.keys_checked, s.rows_checked, s.drifted_keys, s.drift_sum,
		s.repaired, s.last_drift_at
	FROM dcounter.source_state AS s JOIN dcounter.source AS b ON b.counter OPERATOR(pg_catalog.=) s.counter
	WHERE pg_catalog.has_table_privilege(s.counter, 'SELECT') OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW dc_stat_drift IS 'how far bound counter tables agree with their sources, of those that the caller may read, for members of pg_monitor of all';
COMMENT ON COLUMN dc_stat_drift.counter IS 'the counter table';
COMMENT ON COLUMN dc_stat_drift.source IS 'the table that it counts';
COMMENT ON COLUMN dc_stat_drift.state IS 'building, exact, suspect (something was done that is not counted) or drifted (a difference was found, and not repaired)';
COMMENT ON COLUMN dc_stat_drift.built_to IS 'while it is being built: keys up to here are done';
COMMENT ON COLUMN dc_stat_drift.last_pass IS 'when all keys had been verified for the last time';
COMMENT ON COLUMN dc_stat_drift.passes IS 'how often that was';
COMMENT ON COLUMN dc_stat_drift.keys_checked IS 'keys compared, in all';
COMMENT ON COLUMN dc_stat_drift.rows_checked IS 'rows of the source, or entries of its indexes, read for that';
COMMENT ON COLUMN dc_stat_drift.drifted_keys IS 'keys that differed';
COMMENT ON COLUMN dc_stat_drift.drift_sum IS 'by how much, without signs';
COMMENT ON COLUMN dc_stat_drift.repaired IS 'of these, keys that were repaired at once';
COMMENT ON COLUMN dc_stat_drift.last_drift_at IS 'when the last of them was found';

CREATE VIEW dc_drifts AS
	SELECT d.id, d.counter, d.at, d.key, d.source, d.value, d.drift, d.repaired
	FROM dcounter.drift AS d
	WHERE pg_catalog.has_table_privilege(d.counter, 'SELECT');
COMMENT ON VIEW dc_drifts IS 'the last differences that were found, of the counter tables that the caller may read';
COMMENT ON COLUMN dc_drifts.id IS 'in the order in which they were found';
COMMENT ON COLUMN dc_drifts.counter IS 'the counter table';
COMMENT ON COLUMN dc_drifts.at IS 'when';
COMMENT ON COLUMN dc_drifts.key IS 'the key';
COMMENT ON COLUMN dc_drifts.source IS 'what the source had';
COMMENT ON COLUMN dc_drifts.value IS 'what the counter had';
COMMENT ON COLUMN dc_drifts.drift IS 'the difference';
COMMENT ON COLUMN dc_drifts.repaired IS 'whether it was repaired at once';
-- This database, if it is one of a region: one row at most.
CREATE TABLE dcounter.self (
	region    pg_catalog.text        COLLATE pg_catalog."C" NOT NULL,
	epoch     pg_catalog.int8        NOT NULL,
	system_id pg_catalog.int8        NOT NULL,
	timeline  pg_catalog.int4        NOT NULL,
	dboid     pg_catalog.oid         NOT NULL,
	postmaster_start pg_catalog.timestamptz NOT NULL,
	state     pg_catalog.text        NOT NULL,
	boot      pg_catalog.uuid,
	starting  pg_catalog.bool        NOT NULL DEFAULT false,
	begun_at  pg_catalog.timestamptz,
	CONSTRAINT self_pkey PRIMARY KEY (region),
	CHECK (state OPERATOR(pg_catalog.=) ANY ('{active,renew,recopy}'::pg_catalog.text[]))
);
COMMENT ON TABLE dcounter.self IS 'the region that this database belongs to';
COMMENT ON COLUMN dcounter.self.region IS 'its name';
COMMENT ON COLUMN dcounter.self.epoch IS 'what this database counts is known by this number, which no other database ever has';
COMMENT ON COLUMN dcounter.self.system_id IS 'the identifier of the database system for which that is true,';
COMMENT ON COLUMN dcounter.self.timeline IS 'its timeline,';
COMMENT ON COLUMN dcounter.self.dboid IS 'the OID of the database there,';
COMMENT ON COLUMN dcounter.self.postmaster_start IS 'and when the server was started';
COMMENT ON COLUMN dcounter.self.state IS 'active, renew (it needs a new epoch before it publishes) or recopy (it does not have all of the others yet)';

COMMENT ON COLUMN dcounter.self.boot IS 'another one after each start of the server';
COMMENT ON COLUMN dcounter.self.starting IS 'it publishes nothing until the other regions have heard of the boot';
COMMENT ON COLUMN dcounter.self.begun_at IS 'since when, or since when it is in its state';

-- What apply workers find out about that; rows are added, and removed when it takes a new epoch.
CREATE TABLE dcounter.self_mark (
	epoch pg_catalog.int8        NOT NULL,
	what  pg_catalog.text        NOT NULL,
	peer  pg_catalog.text        COLLATE pg_catalog."C",
	at    pg_catalog.timestamptz NOT NULL,
	CHECK (what OPERATOR(pg_catalog.=) ANY ('{renew,recopy,retired,copied}'::pg_catalog.text[]))
);
COMMENT ON TABLE dcounter.self_mark IS 'what this database has found out about its epoch';
COMMENT ON COLUMN dcounter.self_mark.epoch IS 'the epoch that it is about';
COMMENT ON COLUMN dcounter.self_mark.what IS 'renew (another database has it, too), recopy (something was missed), retired, or copied (from a peer)';
COMMENT ON COLUMN dcounter.self_mark.peer IS 'the region that was copied from';
COMMENT ON COLUMN dcounter.self_mark.at IS 'when it was found out, or since when the copy has all';

-- What regions know of each other.
CREATE TABLE dcounter.region (
	region     pg_catalog.text        COLLATE pg_catalog."C" NOT NULL,
	epoch      pg_catalog.int8        NOT NULL,
	boot       pg_catalog.uuid,
	seq        pg_catalog.int8        NOT NULL DEFAULT 0,
	first      pg_catalog.int8        NOT NULL DEFAULT 0,
	published  pg_catalog.int8        NOT NULL DEFAULT 0,
	beat_at    pg_catalog.timestamptz,
	seen       pg_catalog.jsonb,
	retired_at pg_catalog.timestamptz,
	CONSTRAINT region_pkey PRIMARY KEY (region, epoch)
) WITH (fillfactor=50);
COMMENT ON TABLE dcounter.region IS 'the last beat of each region and epoch';
COMMENT ON COLUMN dcounter.region.region IS 'name of the region';
COMMENT ON COLUMN dcounter.region.epoch IS 'the number by which what it counts is known';
COMMENT ON COLUMN dcounter.region.boot IS 'another one after each start of its server';
COMMENT ON COLUMN dcounter.region.seq IS 'how many beats there were';
COMMENT ON COLUMN dcounter.region.first IS 'number of the first beat of this boot';
COMMENT ON COLUMN dcounter.region.published IS 'number of the last beat that came with something';
COMMENT ON COLUMN dcounter.region.beat_at IS 'what it had committed before then came before the beat';
COMMENT ON COLUMN dcounter.region.seen IS 'the last beats that it had got, by region: epoch, seq, boot, beat_at and retired_at (us since 1970)';
COMMENT ON COLUMN dcounter.region.retired_at IS 'when it was given up';

CREATE FUNCTION dcounter.on_self_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_self_change() IS 'internal: lets a database that was restored from a dump take a new epoch';

CREATE TRIGGER on_self_change
	BEFORE INSERT ON dcounter.self
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_self_change();

CREATE FUNCTION dcounter.merge_region() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dcounter.merge_region() IS 'internal: merges what another region has counted';

CREATE FUNCTION dc_region_init(region text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_region_init(text) IS 'makes this database one of a region, and returns its epoch';

CREATE FUNCTION dc_replicate(counter regclass, seed boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_replicate(regclass, boolean) IS 'lets other regions count in a counter table as well; with seed, what it has becomes this region''s own';

CREATE FUNCTION dc_unreplicate(counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_unreplicate(regclass) IS 'makes a counter table one of this database alone; its values stay';

CREATE FUNCTION dc_get_regions(counter regclass, key anycompatible, OUT region text, OUT inc bigint, OUT "dec" bigint, OUT value bigint, OUT updated_at timestamptz, OUT complete_to timestamptz) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 3;
COMMENT ON FUNCTION dc_get_regions(regclass, anycompatible) IS 'what each region has counted for a key';

CREATE FUNCTION dc_region_check(counter regclass, OUT region text, OUT epoch bigint, OUT keys bigint, OUT inc numeric, OUT "dec" numeric, OUT digest bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 10000 ROWS 5;
COMMENT ON FUNCTION dc_region_check(regclass) IS 'what there is of each region, and how many keys do not have the values that the regions have counted';

CREATE FUNCTION dc_region_repair(counter regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_region_repair(regclass) IS 'makes the totals what the regions have counted; returns how many keys were not';
CREATE FUNCTION dcounter.merge_beat() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dcounter.merge_beat() IS 'internal: merges the beats of other regions';

CREATE TRIGGER merge_beat
	BEFORE INSERT OR UPDATE ON dcounter.region
	FOR EACH ROW EXECUTE FUNCTION dcounter.merge_beat();
ALTER TABLE dcounter.region ENABLE REPLICA TRIGGER merge_beat;

CREATE FUNCTION dc_region_renew(lossless boolean DEFAULT false) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_region_renew(boolean) IS 'gives this database a new epoch, and returns it; stocks lose their units unless nothing was lost';

CREATE FUNCTION dc_region_retire(region text, force boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_region_retire(text, boolean) IS 'gives up a region: it is not waited for any more; force is for one that is lost';

CREATE FUNCTION dc_regions(OUT region text, OUT epochs int, OUT state text, OUT beat_at timestamptz, OUT lag interval, OUT seen_by_all_to timestamptz, OUT link_state text, OUT apply_errors bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 5;
COMMENT ON FUNCTION dc_regions() IS 'the regions that were heard of: how far they are, what is known of them everywhere, their links';

CREATE VIEW dc_stat_regions AS SELECT * FROM dc_regions();
COMMENT ON VIEW dc_stat_regions IS 'the regions, as dc_regions() shows them';
COMMENT ON COLUMN dc_stat_regions.region IS 'its name';
COMMENT ON COLUMN dc_stat_regions.epochs IS 'how many epochs it has had';
COMMENT ON COLUMN dc_stat_regions.state IS 'active or retired; of this database also starting, renew or recopy';
COMMENT ON COLUMN dc_stat_regions.beat_at IS 'all that it had committed before then is here';
COMMENT ON COLUMN dc_stat_regions.lag IS 'how long ago that was';
COMMENT ON COLUMN dc_stat_regions.seen_by_all_to IS 'all that it had committed before then is in each active region';
COMMENT ON COLUMN dc_stat_regions.link_state IS 'of the subscription dc_from_REGION: up, copying, down or disabled';
COMMENT ON COLUMN dc_stat_regions.apply_errors IS 'how many errors that has had';
CREATE FUNCTION dcounter.merge_set() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dcounter.merge_set() IS 'internal: merges what another region has set a key to';

CREATE FUNCTION dc_region_vacuum(counter regclass, older_than interval DEFAULT '30 days') RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_region_vacuum(regclass, interval) IS 'removes what is left of keys that were deleted so long ago, where all regions know that; returns how many';
CREATE FUNCTION dc_region_join(peer text, conninfo text, topology text DEFAULT 'mesh', trust_owners boolean DEFAULT false) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 3;
COMMENT ON FUNCTION dc_region_join(text, text, text, boolean) IS 'the statements that bring what another region counts to this database';

CREATE FUNCTION dc_region_refresh(peer text, conninfo text DEFAULT NULL, trust_owners boolean DEFAULT false) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 4;
COMMENT ON FUNCTION dc_region_refresh(text, text, boolean) IS 'the statements that bring all that another region knows, once';

CREATE PROCEDURE dc_region_wait_copied(subscription text DEFAULT NULL)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_region_wait_copied(text) IS 'waits until a subscription to another region, or all of them, have copied their tables';
CREATE FUNCTION dcounter.merge_grant() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dcounter.merge_grant() IS 'internal: merges what another region has given, and adds what it has given to this one';

CREATE FUNCTION dcounter.merge_want() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dcounter.merge_want() IS 'internal: merges what another region asks for';

CREATE FUNCTION dc_want(stock regclass, key anycompatible, qty bigint) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_want(regclass, anycompatible, bigint) IS 'asks other regions for units of a replicated stock, or, with 0, for none any more';

CREATE PROCEDURE dc_take_wait(stock regclass, key anycompatible, qty bigint, timeout interval, INOUT ok boolean DEFAULT NULL)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_take_wait(regclass, anycompatible, bigint, interval, boolean) IS 'takes units, and waits for them so long if there are not enough; commits while it waits';

CREATE FUNCTION dc_stock_regions(stock regclass, key anycompatible, OUT region text, OUT units bigint, OUT units_at timestamptz, OUT granted_in bigint, OUT granted_out bigint, OUT wanted bigint, OUT wanted_since timestamptz) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 3;
COMMENT ON FUNCTION dc_stock_regions(regclass, anycompatible) IS 'what is known of the units of a key in each region';

CREATE FUNCTION dc_rights_reclaim(stock regclass, region text, key anycompatible DEFAULT NULL::text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_rights_reclaim(regclass, text, anycompatible) IS 'takes over the units that a retired region has at most, of all keys by default; what it has sold unheard of is sold again';
CREATE SEQUENCE dcounter.limit_id AS pg_catalog.int4 NO CYCLE;
COMMENT ON SEQUENCE dcounter.limit_id IS 'ids of limits';

CREATE TABLE dcounter.limit_rule (
	id          pg_catalog.int4      NOT NULL CONSTRAINT limit_rule_pkey PRIMARY KEY,
	name        pg_catalog.text      COLLATE pg_catalog."C" NOT NULL CONSTRAINT limit_rule_name_key UNIQUE,
	owner       pg_catalog.regrole   NOT NULL,
	users       pg_catalog.regrole[] NOT NULL,
	refunders   pg_catalog.regrole[] NOT NULL,
	algorithm   pg_catalog.text      NOT NULL CHECK (algorithm OPERATOR(pg_catalog.=) ANY ('{gcra,fixed,log,sliding,concurrent}'::pg_catalog.text[])),
	rate        pg_catalog.int8      NOT NULL CHECK (rate OPERATOR(pg_catalog.>) 0),
	per         pg_catalog.interval  NOT NULL CHECK (per OPERATOR(pg_catalog.>) '0'::pg_catalog.interval),
	burst       pg_catalog.int8      CHECK (burst OPERATOR(pg_catalog.>) 0),
	max_keys    pg_catalog.int8      CHECK (max_keys OPERATOR(pg_catalog.>) 0),
	on_full     pg_catalog.text      NOT NULL CHECK (on_full OPERATOR(pg_catalog.=) ANY ('{deny,allow}'::pg_catalog.text[])),
	after_crash pg_catalog.text      NOT NULL CHECK (after_crash OPERATOR(pg_catalog.=) ANY ('{open,full}'::pg_catalog.text[])),
	version     pg_catalog.int4      NOT NULL CHECK (version OPERATOR(pg_catalog.>) 0),
	created_at  pg_catalog.timestamptz NOT NULL
);
COMMENT ON TABLE dcounter.limit_rule IS 'limits: how often a key may do something';
COMMENT ON COLUMN dcounter.limit_rule.users IS 'roles that may ask, as the owner may; - is everybody';
COMMENT ON COLUMN dcounter.limit_rule.refunders IS 'of these, who may also refund and reset';
COMMENT ON COLUMN dcounter.limit_rule.algorithm IS 'gcra (a token bucket), fixed, log (exact) or sliding windows, or concurrent';
COMMENT ON COLUMN dcounter.limit_rule.rate IS 'units in a period, or at a time';
COMMENT ON COLUMN dcounter.limit_rule.per IS 'the period, or how long a lease is';
COMMENT ON COLUMN dcounter.limit_rule.burst IS 'of a token bucket: units at once';
COMMENT ON COLUMN dcounter.limit_rule.max_keys IS 'how many keys may be in memory, NULL for half of it';
COMMENT ON COLUMN dcounter.limit_rule.on_full IS 'the answer for a key that there is no memory for';
COMMENT ON COLUMN dcounter.limit_rule.after_crash IS 'whether keys begin with their whole budget when it is not known what was used, or with none';
COMMENT ON COLUMN dcounter.limit_rule.version IS 'grows with each change';

CREATE TYPE dcounter.limit_answer AS (
	allowed     pg_catalog.bool,
	remaining   pg_catalog.int8,
	retry_after pg_catalog.interval,
	reset_at    pg_catalog.timestamptz,
	rule        pg_catalog.text,
	lease       pg_catalog.int8
);
COMMENT ON TYPE dcounter.limit_answer IS 'what a limit says to a call';
COMMENT ON COLUMN dcounter.limit_answer.allowed IS 'whether it may go on';
COMMENT ON COLUMN dcounter.limit_answer.remaining IS 'units that the key has left';
COMMENT ON COLUMN dcounter.limit_answer.retry_after IS 'when such a call will be allowed if nobody else comes; NULL: never';
COMMENT ON COLUMN dcounter.limit_answer.reset_at IS 'when the key will have its whole budget';
COMMENT ON COLUMN dcounter.limit_answer.rule IS 'name of the limit';
COMMENT ON COLUMN dcounter.limit_answer.lease IS 'to be given back with dc_limit_release, if the limit is one of leases';

CREATE FUNCTION dc_limit_create(name text, algorithm text, rate bigint, per interval, burst bigint DEFAULT NULL, on_full text DEFAULT 'deny', after_crash text DEFAULT 'open', max_keys bigint DEFAULT NULL, if_not_exists boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_limit_create(text, text, bigint, interval, bigint, text, text, bigint, boolean) IS 'creates a limit: how often, or how many at a time';

CREATE FUNCTION dc_limit_alter(name text, rate bigint DEFAULT NULL, per interval DEFAULT NULL, burst bigint DEFAULT NULL, on_full text DEFAULT NULL, after_crash text DEFAULT NULL, max_keys bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_limit_alter(text, bigint, interval, bigint, text, text, bigint) IS 'changes a limit; NULL keeps a setting, max_keys 0 removes it. What keys have used stays used';

CREATE FUNCTION dc_limit_drop(name text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_limit_drop(text) IS 'drops a limit';

CREATE FUNCTION dc_limit_grant(name text, role regrole, refund boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_limit_grant(text, regrole, boolean) IS 'lets a role, or everybody (-), ask a limit; with refund, also refund and reset';

CREATE FUNCTION dc_limit_revoke(name text, role regrole) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_limit_revoke(text, regrole) IS 'takes back what dc_limit_grant has given';

CREATE FUNCTION dc_limit(name text, key text, cost bigint DEFAULT 1) RETURNS dcounter.limit_answer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit(text, text, bigint) IS 'whether a key may do something now; if so, it is counted, and stays counted if the transaction rolls back';

CREATE FUNCTION dc_allow(name text, key text, cost bigint DEFAULT 1) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_allow(text, text, bigint) IS 'the column allowed of dc_limit, without the rest: the quickest form';

CREATE FUNCTION dc_limit_all(names text[], keys text[], costs bigint[] DEFAULT NULL, OUT allowed boolean, OUT remaining bigint, OUT retry_after interval, OUT reset_at timestamptz, OUT rule text, OUT leases bigint[]) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_limit_all(text[], text[], bigint[]) IS 'asks several limits: all count, or none; rule is the one that refuses';

CREATE FUNCTION dc_limit_peek(name text, key text, cost bigint DEFAULT 1) RETURNS dcounter.limit_answer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_peek(text, text, bigint) IS 'what dc_limit would say; nothing is counted';

CREATE FUNCTION dc_limit_refund(name text, key text, units bigint DEFAULT 1) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_refund(text, text, bigint) IS 'gives back units that were counted; returns how many there are now';

CREATE FUNCTION dc_limit_release(name text, key text, lease bigint) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_release(text, text, bigint) IS 'ends a lease; false if it had ended';

CREATE FUNCTION dc_limit_renew(name text, key text, lease bigint) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_renew(text, text, bigint) IS 'lets a lease begin anew; false if it had ended';

CREATE FUNCTION dc_limit_reset(name text, key text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_reset(text, text) IS 'gives a key its whole budget; false if it had it';

CREATE FUNCTION dc_throttle(key text, burst bigint, rate bigint, per interval, cost bigint DEFAULT 1) RETURNS dcounter.limit_answer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_throttle(text, bigint, bigint, interval, bigint) IS 'a token bucket of the calling role, without a rule';

CREATE FUNCTION dcounter.stat_limits(OUT rule text, OUT owner regrole, OUT keys bigint, OUT memory bigint, OUT allowed bigint, OUT denied bigint, OUT full_allowed bigint, OUT full_denied bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 20;
COMMENT ON FUNCTION dcounter.stat_limits() IS 'internal: the rows of dc_stat_limits';

CREATE VIEW dc_stat_limits AS
	SELECT s.rule, s.owner, s.keys, s.memory, s.allowed, s.denied, s.full_allowed, s.full_denied
	FROM dcounter.stat_limits() AS s;
COMMENT ON VIEW dc_stat_limits IS 'limits that the caller may use, since the server started';
COMMENT ON COLUMN dc_stat_limits.rule IS 'name of the limit; NULL: what a role asks with dc_throttle';
COMMENT ON COLUMN dc_stat_limits.owner IS 'its owner, or that role';
COMMENT ON COLUMN dc_stat_limits.keys IS 'keys in memory';
COMMENT ON COLUMN dc_stat_limits.memory IS 'bytes of dcounter.limit_size that they take';
COMMENT ON COLUMN dc_stat_limits.allowed IS 'calls that were allowed';
COMMENT ON COLUMN dc_stat_limits.denied IS 'calls that were denied, by this limit';
COMMENT ON COLUMN dc_stat_limits.full_allowed IS 'calls that were allowed, but not counted, for want of memory';
COMMENT ON COLUMN dc_stat_limits.full_denied IS 'calls that were denied for want of memory';
CREATE SEQUENCE dcounter.presence_id AS pg_catalog.int4 NO CYCLE;
COMMENT ON SEQUENCE dcounter.presence_id IS 'ids of presences';

CREATE TABLE dcounter.presence_rule (
	id          pg_catalog.int4      NOT NULL CONSTRAINT presence_rule_pkey PRIMARY KEY,
	name        pg_catalog.text      COLLATE pg_catalog."C" NOT NULL CONSTRAINT presence_rule_name_key UNIQUE,
	owner       pg_catalog.regrole   NOT NULL,
	users       pg_catalog.regrole[] NOT NULL,
	ttl         pg_catalog.interval  NOT NULL CHECK (ttl OPERATOR(pg_catalog.>) '0'::pg_catalog.interval),
	events      pg_catalog.interval  CHECK (events OPERATOR(pg_catalog.>) '0'::pg_catalog.interval),
	channel     pg_catalog.text,
	max_members pg_catalog.int8      CHECK (max_members OPERATOR(pg_catalog.>) 0),
	approx      pg_catalog.bool      NOT NULL,
	version     pg_catalog.int4      NOT NULL CHECK (version OPERATOR(pg_catalog.>) 0),
	created_at  pg_catalog.timestamptz NOT NULL,
	epoch       pg_catalog.int8
);
COMMENT ON TABLE dcounter.presence_rule IS 'presences: who is where';
COMMENT ON COLUMN dcounter.presence_rule.users IS 'roles that may let members enter and go, and see them, as the owner may; - is everybody';
COMMENT ON COLUMN dcounter.presence_rule.ttl IS 'how long a connection is there without a heartbeat';
COMMENT ON COLUMN dcounter.presence_rule.events IS 'how often a room is told of at most, NULL for never';
COMMENT ON COLUMN dcounter.presence_rule.channel IS 'of NOTIFY, for the same';
COMMENT ON COLUMN dcounter.presence_rule.max_members IS 'how many members, and rooms, may be in memory, NULL for half of it';
COMMENT ON COLUMN dcounter.presence_rule.approx IS 'whether rooms only know about how many members they have';
COMMENT ON COLUMN dcounter.presence_rule.version IS 'grows with each change';
COMMENT ON COLUMN dcounter.presence_rule.epoch IS 'in which it was created, or a later one that was told of; NULL without shared memory';

CREATE FUNCTION dc_presence_create(name text, ttl interval DEFAULT '30 s', events interval DEFAULT NULL, notify text DEFAULT NULL, max_members bigint DEFAULT NULL, approx boolean DEFAULT false, if_not_exists boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_presence_create(text, interval, interval, text, bigint, boolean, boolean) IS 'creates a presence: members of rooms, as long as they are heard of';

CREATE FUNCTION dc_presence_alter(name text, ttl interval DEFAULT NULL, events interval DEFAULT NULL, notify text DEFAULT NULL, max_members bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_presence_alter(text, interval, interval, text, bigint) IS 'changes a presence; NULL keeps a setting, 0 and an empty text remove it';

CREATE FUNCTION dc_presence_drop(name text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_presence_drop(text) IS 'drops a presence';

CREATE FUNCTION dc_presence_grant(name text, role regrole) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_presence_grant(text, regrole) IS 'lets a role, or everybody (-), use a presence';

CREATE FUNCTION dc_presence_revoke(name text, role regrole) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_presence_revoke(text, regrole) IS 'takes back what dc_presence_grant has given';

CREATE FUNCTION dc_enter(name text, room text, member text, conn text DEFAULT '', meta jsonb DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_enter(text, text, text, text, jsonb) IS 'a member enters a room, by one of its connections; returns how many members are there';

CREATE FUNCTION dc_beat(name text, room text, member text, conn text DEFAULT '') RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_beat(text, text, text, text) IS 'a connection is alive; false if it was not known, and has entered';

CREATE FUNCTION dc_beat_many(name text, rooms text[], members text[], conns text[] DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_beat_many(text, text[], text[], text[]) IS 'the same for many; returns how many were not known';

CREATE FUNCTION dc_exit(name text, room text, member text, conn text DEFAULT '') RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_exit(text, text, text, text) IS 'a connection of a member goes, with NULL all of them; returns how many members are there';

CREATE FUNCTION dc_present(name text, room text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_present(text, text) IS 'how many members a room has';

CREATE FUNCTION dc_presence_list(name text, room text, after text DEFAULT NULL, n integer DEFAULT 100, OUT member text, OUT meta jsonb) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100 ROWS 100;
COMMENT ON FUNCTION dc_presence_list(text, text, text, integer) IS 'n members of a room, in order, from the first one or after one that need not be there any more';

CREATE FUNCTION dcounter.stat_presence(OUT name text, OUT owner regrole, OUT approx boolean, OUT rooms bigint, OUT members bigint, OUT connections bigint, OUT memory bigint, OUT joined bigint, OUT "left" bigint, OUT expired bigint, OUT refused bigint, OUT untold bigint, OUT epoch bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 20;
COMMENT ON FUNCTION dcounter.stat_presence() IS 'internal: the rows of dc_stat_presence';

CREATE VIEW dc_stat_presence AS
	SELECT s.name, s.owner, s.approx, s.rooms, s.members, s.connections, s.memory, s.joined, s."left", s.expired, s.refused, s.untold, s.epoch
	FROM dcounter.stat_presence() AS s;
COMMENT ON VIEW dc_stat_presence IS 'presences that the caller may use, since the server started';
COMMENT ON COLUMN dc_stat_presence.name IS 'of the presence';
COMMENT ON COLUMN dc_stat_presence.owner IS 'its owner';
COMMENT ON COLUMN dc_stat_presence.approx IS 'whether its rooms only know about how many members they have';
COMMENT ON COLUMN dc_stat_presence.rooms IS 'rooms in memory; one that is empty stays for some seconds';
COMMENT ON COLUMN dc_stat_presence.members IS 'members of all rooms; of an approximate presence, the sum of the estimates';
COMMENT ON COLUMN dc_stat_presence.connections IS 'connections with names';
COMMENT ON COLUMN dc_stat_presence.memory IS 'bytes of dcounter.presence_size that all this takes';
COMMENT ON COLUMN dc_stat_presence.joined IS 'how often a member has come into a room';
COMMENT ON COLUMN dc_stat_presence."left" IS 'how often one has left';
COMMENT ON COLUMN dc_stat_presence.expired IS 'of these, because it was not heard of';
COMMENT ON COLUMN dc_stat_presence.refused IS 'how often there was no room for one';
COMMENT ON COLUMN dc_stat_presence.untold IS 'rooms that wait for their event';
COMMENT ON COLUMN dc_stat_presence.epoch IS 'another one: all that was known before was lost';
CREATE TABLE dcounter.unread (
	unread  pg_catalog.regclass NOT NULL,
	counter pg_catalog.regclass NOT NULL,
	CONSTRAINT unread_pkey PRIMARY KEY (unread)
);
CREATE INDEX unread_counter_idx ON dcounter.unread (counter);
COMMENT ON TABLE dcounter.unread IS 'the tables of what members have read, and of what';
COMMENT ON COLUMN dcounter.unread.unread IS 'the table with a row for each member and key';
COMMENT ON COLUMN dcounter.unread.counter IS 'the counter table whose increments are read';

CREATE FUNCTION dcounter.on_unread_row_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_unread_row_change() IS 'internal: makes restoring the tables of what was read idempotent and tells sessions of changes';

CREATE TRIGGER on_unread_row_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.unread
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_unread_row_change();

CREATE FUNCTION dc_unread_create(unread text, counter regclass, if_not_exists boolean DEFAULT false) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_unread_create(text, regclass, boolean) IS 'creates a table of what members have read of the keys of a counter table';

CREATE FUNCTION dc_unread_adopt(unread regclass, counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_unread_adopt(regclass, regclass) IS 'registers an existing table of what was read';

CREATE FUNCTION dc_unread_drop(unread regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_unread_drop(regclass) IS 'drops a table of what was read';

-- One for each type of a member: it need not be that of the key.
CREATE FUNCTION dc_mark_read(unread regclass, member text, key anycompatible, upto bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_mark_read(regclass, text, anycompatible, bigint) IS 'notes that a member has read a key, or the first of its messages';

CREATE FUNCTION dc_mark_read(unread regclass, member bigint, key anycompatible, upto bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_mark_read(regclass, bigint, anycompatible, bigint) IS 'notes that a member has read a key, or the first of its messages';

CREATE FUNCTION dc_mark_read(unread regclass, member uuid, key anycompatible, upto bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_mark_read(regclass, uuid, anycompatible, bigint) IS 'notes that a member has read a key, or the first of its messages';

CREATE FUNCTION dc_mark_read_many(unread regclass, member text, keys anycompatiblearray, upto bigint[] DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 500;
COMMENT ON FUNCTION dc_mark_read_many(regclass, text, anycompatiblearray, bigint[]) IS 'the same for many keys, in their order, from one snapshot';

CREATE FUNCTION dc_mark_read_many(unread regclass, member bigint, keys anycompatiblearray, upto bigint[] DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 500;
COMMENT ON FUNCTION dc_mark_read_many(regclass, bigint, anycompatiblearray, bigint[]) IS 'the same for many keys, in their order, from one snapshot';

CREATE FUNCTION dc_mark_read_many(unread regclass, member uuid, keys anycompatiblearray, upto bigint[] DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 500;
COMMENT ON FUNCTION dc_mark_read_many(regclass, uuid, anycompatiblearray, bigint[]) IS 'the same for many keys, in their order, from one snapshot';

CREATE FUNCTION dc_unread(unread regclass, member text, keys anycompatiblearray, OUT key anycompatible, OUT unread bigint, OUT seen bigint, OUT upto bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_unread(regclass, text, anycompatiblearray) IS 'how much of each of several keys a member has not read';

CREATE FUNCTION dc_unread(unread regclass, member bigint, keys anycompatiblearray, OUT key anycompatible, OUT unread bigint, OUT seen bigint, OUT upto bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_unread(regclass, bigint, anycompatiblearray) IS 'how much of each of several keys a member has not read';

CREATE FUNCTION dc_unread(unread regclass, member uuid, keys anycompatiblearray, OUT key anycompatible, OUT unread bigint, OUT seen bigint, OUT upto bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_unread(regclass, uuid, anycompatiblearray) IS 'how much of each of several keys a member has not read';

CREATE VIEW dc_unread_tables AS
	SELECT u.unread, pg_catalog.format('%I.%I', n.nspname, r.relname) AS name, u.counter, r.relowner::pg_catalog.regrole AS owner
	FROM dcounter.unread AS u
		JOIN pg_catalog.pg_class AS r ON r.oid OPERATOR(pg_catalog.=) u.unread
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) r.relnamespace;
COMMENT ON VIEW dc_unread_tables IS 'tables of what members have read';
COMMENT ON COLUMN dc_unread_tables.unread IS 'the table';
COMMENT ON COLUMN dc_unread_tables.name IS 'its name, with the schema';
COMMENT ON COLUMN dc_unread_tables.counter IS 'the counter table whose increments are read';
COMMENT ON COLUMN dc_unread_tables.owner IS 'the owner of both';
CREATE TABLE dcounter.time_window (
	windowed pg_catalog.regclass    NOT NULL,
	late     pg_catalog.text        NOT NULL,
	refuses  pg_catalog.timestamptz,
	sealed   pg_catalog.timestamptz,
	widths   pg_catalog.int8[]      NOT NULL,
	keeps    pg_catalog.int8[]      NOT NULL,
	spans    pg_catalog.int8[]      NOT NULL,
	floors   pg_catalog.int8[]      NOT NULL,
	gone     pg_catalog.int8[]      NOT NULL,
	advanced pg_catalog.int8[]      NOT NULL,
	version  pg_catalog.int8        NOT NULL,
	CONSTRAINT time_window_pkey PRIMARY KEY (windowed)
);
COMMENT ON TABLE dcounter.time_window IS 'windowed counters; arrays have a member for each level';
COMMENT ON COLUMN dcounter.time_window.windowed IS 'the view by which it is known';
COMMENT ON COLUMN dcounter.time_window.late IS 'what becomes of increments that come too late: error or drop';
COMMENT ON COLUMN dcounter.time_window.refuses IS 'increments for earlier times are refused';
COMMENT ON COLUMN dcounter.time_window.sealed IS 'and none for times before this is in progress any more';
COMMENT ON COLUMN dcounter.time_window.widths IS 'of a bucket, in microseconds';
COMMENT ON COLUMN dcounter.time_window.keeps IS 'for how long buckets are kept, in microseconds';
COMMENT ON COLUMN dcounter.time_window.spans IS 'how many buckets in a row lie in one table';
COMMENT ON COLUMN dcounter.time_window.floors IS 'the time before which increments go to the next level, in microseconds since 2000';
COMMENT ON COLUMN dcounter.time_window.gone IS 'the time before which rows may have been truncated';
COMMENT ON COLUMN dcounter.time_window.advanced IS 'when rows were last moved out of the level, or let go';
COMMENT ON COLUMN dcounter.time_window.version IS 'raised when values are reconciled';

CREATE TABLE dcounter.window_slot (
	slot     pg_catalog.regclass NOT NULL,
	windowed pg_catalog.regclass NOT NULL,
	number   pg_catalog.int4     NOT NULL,
	CONSTRAINT window_slot_pkey PRIMARY KEY (slot)
);
CREATE INDEX window_slot_windowed_idx ON dcounter.window_slot (windowed);
COMMENT ON TABLE dcounter.window_slot IS 'the counter tables of windowed counters';
COMMENT ON COLUMN dcounter.window_slot.slot IS 'the counter table';
COMMENT ON COLUMN dcounter.window_slot.windowed IS 'the windowed counter';
COMMENT ON COLUMN dcounter.window_slot.number IS 'eight for each level, or -1 for what was dropped';

CREATE TABLE dcounter.window_claim (
	windowed pg_catalog.regclass NOT NULL,
	level    pg_catalog.int4     NOT NULL,
	turn     pg_catalog.int8     NOT NULL,
	emptied  pg_catalog.bool     NOT NULL
);
CREATE INDEX window_claim_idx ON dcounter.window_claim (windowed);
COMMENT ON TABLE dcounter.window_claim IS 'which turns of windowed counters may have rows';
COMMENT ON COLUMN dcounter.window_claim.windowed IS 'the windowed counter';
COMMENT ON COLUMN dcounter.window_claim.level IS 'the level, from 0';
COMMENT ON COLUMN dcounter.window_claim.turn IS 'the number of the turn, which says the table';
COMMENT ON COLUMN dcounter.window_claim.emptied IS 'instead: its rows have all been moved';

CREATE FUNCTION dcounter.on_window_row_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_window_row_change() IS 'internal: makes restoring windowed counters idempotent and tells sessions of changes';

CREATE FUNCTION dcounter.on_window_slot_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_window_slot_change() IS 'internal: makes restoring the tables of windowed counters idempotent';

CREATE TRIGGER on_window_row_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.time_window
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_window_row_change();
CREATE TRIGGER on_window_slot_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.window_slot
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_window_slot_change();

CREATE FUNCTION dc_window_create(counter text, bucket interval, keep interval, rollup jsonb DEFAULT NULL, late text DEFAULT 'error') RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_create(text, interval, interval, jsonb, text) IS 'creates a counter that counts by buckets of time';

CREATE FUNCTION dc_window_alter(counter regclass, keep interval DEFAULT NULL, late text DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_alter(regclass, interval, text) IS 'changes settings of a windowed counter';

CREATE FUNCTION dc_window_drop(counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_drop(regclass) IS 'drops a windowed counter with its tables';

CREATE FUNCTION dc_window_rotate(counter regclass, at timestamptz DEFAULT clock_timestamp()) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_rotate(regclass, timestamptz) IS 'rolls up, and lets go, the buckets whose time is up by then';

CREATE FUNCTION dc_window_reconcile(counter regclass, bucket timestamptz, keys anycompatiblearray, totals bigint[]) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_reconcile(regclass, timestamptz, anycompatiblearray, bigint[]) IS 'gives keys the exact totals of a sealed bucket';

CREATE FUNCTION dc_incr_at(counter regclass, key anycompatible, delta bigint DEFAULT 1, at timestamptz DEFAULT clock_timestamp()) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_incr_at(regclass, anycompatible, bigint, timestamptz) IS 'adds to a key of a windowed counter at a time; false if it was dropped as too late';

CREATE FUNCTION dc_window(counter regclass, key anycompatible, span interval, until timestamptz DEFAULT NULL, OUT value bigint, OUT lower bigint, OUT upper bigint, OUT estimate float8)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dc_window(regclass, anycompatible, interval, timestamptz) IS 'what was counted for a key in a span of time, with bounds';

CREATE FUNCTION dc_buckets(counter regclass, key anycompatible, "from" timestamptz, "to" timestamptz DEFAULT clock_timestamp(), OUT bucket timestamptz, OUT value bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_buckets(regclass, anycompatible, timestamptz, timestamptz) IS 'the buckets of a key, those without increments included';

CREATE FUNCTION dc_top_window(counter regclass, span interval, n int DEFAULT 10, OUT key text, OUT value bigint, OUT rank bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 10000 ROWS 10;
COMMENT ON FUNCTION dc_top_window(regclass, interval, int) IS 'the keys with the most in the last while';

CREATE PROCEDURE dc_seal(counter regclass, before timestamptz)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_seal(regclass, timestamptz) IS 'refuses increments for times before one from now on, and waits for those in progress';

CREATE FUNCTION dcounter.window_key(key text) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.window_key(text) IS 'internal: the key in a key of a windowed counter''s table';

CREATE FUNCTION dcounter.window_bucket(key text, width bigint) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.window_bucket(text, bigint) IS 'internal: the bucket in a key of a windowed counter''s table';

CREATE FUNCTION dcounter.window_start(slot regclass) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dcounter.window_start(regclass) IS 'internal: since when a windowed counter has buckets';

CREATE FUNCTION dcounter.window_dropped(counter regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dcounter.window_dropped(regclass) IS 'internal: how many increments of a windowed counter were dropped';

CREATE VIEW dc_windows AS
	SELECT w.windowed, pg_catalog.format('%I.%I', n.nspname, r.relname) AS name, r.relowner::pg_catalog.regrole AS owner,
		'1 microsecond'::pg_catalog.interval OPERATOR(pg_catalog.*) w.widths[1]::pg_catalog.float8 AS bucket,
		'1 microsecond'::pg_catalog.interval OPERATOR(pg_catalog.*) w.keeps[1]::pg_catalog.float8 AS keep,
		w.late, w.refuses, w.sealed, dcounter.window_dropped(w.windowed) AS dropped,
		pg_catalog.cardinality(w.widths) AS levels,
		(SELECT pg_catalog.jsonb_object_agg('1 microsecond'::pg_catalog.interval OPERATOR(pg_catalog.*) l.width::pg_catalog.float8,
				'1 microsecond'::pg_catalog.interval OPERATOR(pg_catalog.*) l.keep::pg_catalog.float8)
			FROM ROWS FROM (pg_catalog.unnest(w.widths), pg_catalog.unnest(w.keeps)) WITH ORDINALITY AS l(width, keep, number)
			WHERE l.number OPERATOR(pg_catalog.>) 1) AS rollup,
		(SELECT pg_catalog.sum(pg_catalog.pg_total_relation_size(c.counter) OPERATOR(pg_catalog.+) pg_catalog.pg_total_relation_size(c.shards))::pg_catalog.int8
			FROM dcounter.window_slot AS s JOIN dcounter.counter AS c ON c.counter OPERATOR(pg_catalog.=) s.slot
			WHERE s.windowed OPERATOR(pg_catalog.=) w.windowed) AS bytes
	FROM dcounter.time_window AS w
		JOIN pg_catalog.pg_class AS r ON r.oid OPERATOR(pg_catalog.=) w.windowed
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) r.relnamespace;
COMMENT ON VIEW dc_windows IS 'windowed counters';
COMMENT ON COLUMN dc_windows.windowed IS 'the windowed counter';
COMMENT ON COLUMN dc_windows.name IS 'its name, with the schema';
COMMENT ON COLUMN dc_windows.owner IS 'its owner';
COMMENT ON COLUMN dc_windows.bucket IS 'how long a bucket is';
COMMENT ON COLUMN dc_windows.keep IS 'for how long such buckets are kept';
COMMENT ON COLUMN dc_windows.late IS 'what becomes of increments that come too late';
COMMENT ON COLUMN dc_windows.refuses IS 'increments for earlier times are refused';
COMMENT ON COLUMN dc_windows.sealed IS 'and none for times before this is in progress any more';
COMMENT ON COLUMN dc_windows.dropped IS 'how many increments were dropped as too late; null for a role that may not read it';
COMMENT ON COLUMN dc_windows.levels IS 'how many widths of buckets there are';
COMMENT ON COLUMN dc_windows.rollup IS 'the wider ones, and for how long they are kept';
COMMENT ON COLUMN dc_windows.bytes IS 'size of all of its tables and their indexes';
CREATE TABLE dcounter.distinct_table (
	distinct_table pg_catalog.regclass NOT NULL,
	deltas         pg_catalog.regclass NOT NULL,
	"precision"    pg_catalog.int4 NOT NULL,
	bucket         pg_catalog.interval,
	keep           pg_catalog.interval,
	newest         pg_catalog.timestamptz,
	CONSTRAINT distinct_table_pkey PRIMARY KEY (distinct_table)
);
CREATE UNIQUE INDEX distinct_table_delta_idx ON dcounter.distinct_table (deltas);
COMMENT ON TABLE dcounter.distinct_table IS 'the distinct tables and their settings';
COMMENT ON COLUMN dcounter.distinct_table.distinct_table IS 'the table with a sketch for each key';
COMMENT ON COLUMN dcounter.distinct_table.deltas IS 'the table with what is not in the sketches yet';
COMMENT ON COLUMN dcounter.distinct_table.precision IS 'of the sketches';
COMMENT ON COLUMN dcounter.distinct_table.bucket IS 'how long a bucket is; NULL: it has none';
COMMENT ON COLUMN dcounter.distinct_table.keep IS 'how long a bucket is kept; NULL: for good';
COMMENT ON COLUMN dcounter.distinct_table.newest IS 'when the newest bucket begins that has been folded';

CREATE FUNCTION dcounter.on_distinct_table_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_distinct_table_change() IS 'internal: makes restoring the distinct tables idempotent and tells sessions of changes';

CREATE TRIGGER on_distinct_table_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.distinct_table
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_distinct_table_change();

CREATE FUNCTION dc_distinct_create(distinct_table text, "precision" int DEFAULT 14, bucket interval DEFAULT NULL, keep interval DEFAULT NULL, if_not_exists boolean DEFAULT false) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_distinct_create(text, int, interval, interval, boolean) IS 'creates a table that counts the different items of keys';

CREATE FUNCTION dc_distinct_adopt(distinct_table regclass, bucket interval DEFAULT NULL, keep interval DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_distinct_adopt(regclass, interval, interval) IS 'registers an existing distinct table';

CREATE FUNCTION dc_distinct_alter(distinct_table regclass, keep interval) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_distinct_alter(regclass, interval) IS 'changes how long buckets are kept';

CREATE FUNCTION dc_distinct_drop(distinct_table regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_distinct_drop(regclass) IS 'drops a distinct table';

CREATE FUNCTION dc_distinct_reset(distinct_table regclass, key anycompatible) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_distinct_reset(regclass, anycompatible) IS 'lets a key start anew, in all buckets';

-- One for each type of a key, and for text, which a literal is, and any other type of an item, as of dc_hll_add().
-- The table is a text as well, so that literals do not mean the function of this name of mergeable sets.
CREATE FUNCTION dc_add(distinct_table text, key text, item text, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(text, text, text, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table text, key text, item anyelement, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(text, text, anyelement, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table text, key bigint, item text, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(text, bigint, text, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table text, key bigint, item anyelement, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(text, bigint, anyelement, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table text, key uuid, item text, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(text, uuid, text, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table text, key uuid, item anyelement, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(text, uuid, anyelement, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table regclass, key text, item text, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(regclass, text, text, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table regclass, key text, item anyelement, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(regclass, text, anyelement, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table regclass, key bigint, item text, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(regclass, bigint, text, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table regclass, key bigint, item anyelement, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(regclass, bigint, anyelement, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table regclass, key uuid, item text, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(regclass, uuid, text, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add(distinct_table regclass, key uuid, item anyelement, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_add(regclass, uuid, anyelement, timestamptz) IS 'adds an item to those of a key';

CREATE FUNCTION dc_add_many(distinct_table regclass, keys anycompatiblearray, items anyarray, at timestamptz DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 200;
COMMENT ON FUNCTION dc_add_many(regclass, anycompatiblearray, anyarray, timestamptz) IS 'adds each of several items to its key';

CREATE FUNCTION dc_distinct(distinct_table regclass, key anycompatible, span interval DEFAULT NULL, until timestamptz DEFAULT NULL, OUT estimate double precision, OUT lower double precision, OUT upper double precision) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dc_distinct(regclass, anycompatible, interval, timestamptz) IS 'how many different items a key has had, with an interval that holds the true number in 95 of 100 cases';

CREATE FUNCTION dc_distinct_union(distinct_table regclass, keys anycompatiblearray, span interval DEFAULT NULL, until timestamptz DEFAULT NULL, OUT estimate double precision, OUT lower double precision, OUT upper double precision) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 500;
COMMENT ON FUNCTION dc_distinct_union(regclass, anycompatiblearray, interval, timestamptz) IS 'how many different items several keys have had together';

CREATE FUNCTION dc_distinct_sketch(distinct_table regclass, key anycompatible, span interval DEFAULT NULL, until timestamptz DEFAULT NULL) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dc_distinct_sketch(regclass, anycompatible, interval, timestamptz) IS 'the sketch of the items of a key';

CREATE FUNCTION dc_distinct_buckets(distinct_table regclass, key anycompatible, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL, OUT bucket timestamptz, OUT estimate double precision, OUT lower double precision, OUT upper double precision) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 500 ROWS 100;
COMMENT ON FUNCTION dc_distinct_buckets(regclass, anycompatible, timestamptz, timestamptz) IS 'how many different items a key has had in each bucket';

CREATE VIEW dc_distinct_tables AS
	SELECT d.distinct_table, pg_catalog.format('%I.%I', n.nspname, r.relname) AS name, r.relowner::pg_catalog.regrole AS owner,
			d.precision, d.bucket, d.keep, d.newest
	FROM dcounter.distinct_table AS d
		JOIN pg_catalog.pg_class AS r ON r.oid OPERATOR(pg_catalog.=) d.distinct_table
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) r.relnamespace;
COMMENT ON VIEW dc_distinct_tables IS 'distinct tables';
COMMENT ON COLUMN dc_distinct_tables.distinct_table IS 'the table';
COMMENT ON COLUMN dc_distinct_tables.name IS 'its name, with the schema';
COMMENT ON COLUMN dc_distinct_tables.owner IS 'its owner';
COMMENT ON COLUMN dc_distinct_tables.precision IS 'of the sketches';
COMMENT ON COLUMN dc_distinct_tables.bucket IS 'how long a bucket is; NULL: it has none';
COMMENT ON COLUMN dc_distinct_tables.keep IS 'how long a bucket is kept; NULL: for good';
COMMENT ON COLUMN dc_distinct_tables.newest IS 'when the newest bucket begins that has been folded';
CREATE FUNCTION dc_trending(counter regclass, n int DEFAULT 10, OUT key text, OUT score float8, OUT rank bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 10;
COMMENT ON FUNCTION dc_trending(regclass, int) IS 'keys that are counted most of late, as of the last compaction';
CREATE FUNCTION dc_worker_start() RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_worker_start() IS 'starts the background worker of this database';

CREATE FUNCTION dc_worker_stop() RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_worker_stop() IS 'ends the background worker of this database';

CREATE PROCEDURE dc_maintain()
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_maintain() IS 'does once what the background worker does, for the tables of the caller';

CREATE FUNCTION dcounter.stat_worker(OUT datname name, OUT pid int, OUT state text, OUT job text, OUT last_run timestamptz, OUT last_run_ms float8, OUT runs bigint, OUT work_ms float8, OUT failures bigint, OUT last_error text, OUT last_error_at timestamptz, OUT tables_left bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000 ROWS 10;
COMMENT ON FUNCTION dcounter.stat_worker() IS 'what dc_stat_worker shows';

CREATE VIEW dc_stat_worker AS SELECT * FROM dcounter.stat_worker();
COMMENT ON VIEW dc_stat_worker IS 'background workers and their jobs';
-- Privileges: the catalog can be read (pg_dump needs it), and is written only by
-- the functions above, which check ownership themselves.
GRANT USAGE ON SCHEMA dcounter TO PUBLIC;
GRANT SELECT ON dcounter.counter TO PUBLIC;
GRANT SELECT ON dcounter.counter_events TO PUBLIC;
GRANT SELECT ON dcounter.ledger TO PUBLIC;
GRANT SELECT ON dcounter.op_slot TO PUBLIC;
GRANT SELECT ON dcounter.source TO PUBLIC;
GRANT SELECT ON dcounter.unread TO PUBLIC;
GRANT SELECT ON dcounter.time_window, dcounter.window_slot, dcounter.window_claim TO PUBLIC;
GRANT SELECT ON dcounter.distinct_table TO PUBLIC;
GRANT SELECT ON dcounter.self, dcounter.self_mark, dcounter.region TO PUBLIC;
GRANT SELECT ON dcounter.limit_rule, dcounter.presence_rule TO PUBLIC;

-- These are dumped as well, with events of all roles. The database's owner dumps them;
-- no other role may read them.
GRANT SELECT ON SEQUENCE dcounter.outbox_seq, dcounter.consumer_id, dcounter.limit_id, dcounter.presence_id, dcounter.hlc_clock TO pg_database_owner;
GRANT SELECT ON dcounter.changed_key, dcounter.source_state, dcounter.consumer, dcounter.consumer_member, dcounter.consumer_retry TO pg_database_owner;
GRANT SELECT ON dcounter.outbox_0, dcounter.outbox_1, dcounter.outbox_2, dcounter.outbox_3, dcounter.outbox_4,
	dcounter.outbox_5, dcounter.outbox_6, dcounter.outbox_7 TO pg_database_owner;
GRANT SELECT ON dcounter.mark, dcounter.mark_value TO pg_database_owner;
GRANT SELECT ON dc_marks, dc_stat_drift, dc_drifts TO PUBLIC; -- which show what the caller may read

-- The catalogs behind it may be read by all.
GRANT SELECT ON dc_windows TO PUBLIC;
GRANT SELECT ON dc_unread_tables, dc_distinct_tables TO PUBLIC;

-- The functions behind them decide which rows the caller is shown.
GRANT SELECT ON dc_tables, dc_stat_counters, dc_stat_shards, dc_stat_hot_keys, dc_stat_memory, dc_stat_buffer, dc_stat_worker, dc_stat_outbox, dc_stat_consumers, dc_stat_regions, dc_stat_limits, dc_stat_presence TO PUBLIC;

REVOKE EXECUTE ON FUNCTION dc_worker_start() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_worker_stop() FROM PUBLIC;

-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_catalog_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_events_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_op_slot_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_ledger_row_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_source_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_unread_row_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_window_row_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_window_slot_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_distinct_table_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_source_state_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_self_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_drop() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_ddl() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_ddl_begin() FROM PUBLIC;

REVOKE EXECUTE ON FUNCTION dcounter.on_outbox_insert() FROM PUBLIC;

REVOKE EXECUTE ON FUNCTION dcounter.merge_beat() FROM PUBLIC;

-- Who restores a dump creates triggers with these.
REVOKE EXECUTE ON FUNCTION dcounter.merge_region() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dcounter.merge_region() TO pg_database_owner;
REVOKE EXECUTE ON FUNCTION dcounter.merge_set() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dcounter.merge_set() TO pg_database_owner;
REVOKE EXECUTE ON FUNCTION dcounter.merge_grant() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dcounter.merge_grant() TO pg_database_owner;
REVOKE EXECUTE ON FUNCTION dcounter.merge_want() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dcounter.merge_want() TO pg_database_owner;

SELECT pg_catalog.pg_extension_config_dump('dcounter.counter', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.counter_events', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.ledger', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.op_slot', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.mark', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.mark_value', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.source', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.unread', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.time_window', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.window_slot', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.window_claim', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.distinct_table', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.source_state', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.self', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.region', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.limit_id', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.limit_rule', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.presence_id', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.presence_rule', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.changed_key', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.hlc_clock', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_0', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_1', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_2', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_3', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_4', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_5', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_6', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_7', '');
-- A limit takes shared memory, and so does a presence.
REVOKE EXECUTE ON FUNCTION dc_limit_create(text, text, bigint, interval, bigint, text, text, bigint, boolean) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_presence_create(text, interval, interval, text, bigint, boolean, boolean) FROM PUBLIC;

-- Creating a consumer holds back the removal of events, and reads all topics.
REVOKE EXECUTE ON FUNCTION dc_consumer_create(text, text[], text, boolean) FROM PUBLIC;

-- The view decides which rows the caller is shown.
GRANT SELECT ON dc_dead_letters TO PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.consumer_id', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.consumer', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.consumer_member', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.consumer_retry', '');

-- Last, so that they do not fire for the statements above.
CREATE EVENT TRIGGER dcounter_drop ON sql_drop
	EXECUTE FUNCTION dcounter.on_drop();
COMMENT ON EVENT TRIGGER dcounter_drop IS 'removes what belongs to tables that are dropped, and refuses to drop what others need';

CREATE EVENT TRIGGER dcounter_ddl ON ddl_command_end
	WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER TYPE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
		'ALTER SCHEMA', 'ALTER DOMAIN', 'ALTER COLLATION', 'ALTER EXTENSION', 'ALTER TRIGGER',
		'CREATE TABLE', 'CREATE FOREIGN TABLE', 'CREATE SCHEMA', 'CREATE TRIGGER', 'CREATE RULE', 'CREATE INDEX', 'CREATE STATISTICS')
	EXECUTE FUNCTION dcounter.on_ddl();
COMMENT ON EVENT TRIGGER dcounter_ddl IS 'keeps the tables of a counter together, and code of their owners from buffered ones';

-- These drop partitions, or change names that expressions contain.
CREATE EVENT TRIGGER dcounter_begin ON ddl_command_start
	WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER TYPE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
		'ALTER SCHEMA', 'ALTER DOMAIN', 'ALTER COLLATION', 'ALTER EXTENSION',
		'DROP TABLE', 'DROP SCHEMA', 'DROP OWNED', 'DROP TYPE', 'DROP EXTENSION', 'DROP ACCESS METHOD')
	EXECUTE FUNCTION dcounter.on_ddl_begin();
COMMENT ON EVENT TRIGGER dcounter_begin IS 'looks at what a command is about to drop or rename';
