CREATE FUNCTION dcounter.stat_counters(OUT counter regclass, OUT fed_by text, OUT increments bigint, OUT keys_written bigint, OUT totals_written bigint,
	OUT writes_per_second float8, OUT busy_skipped bigint, OUT splits bigint, OUT waits bigint, OUT early_writes bigint,
	OUT estimated_shard_rows bigint, OUT compaction_lag interval, OUT keys_compacted bigint, OUT last_compaction timestamptz,
	OUT last_compaction_duration interval, OUT overflowed_keys bigint, OUT reads bigint, OUT mean_read_time_ms float8,
	OUT buffered bigint, OUT buffer_full bigint, OUT flushes bigint, OUT keys_flushed bigint, OUT mean_flush_time_ms float8,
	OUT cache_hits bigint, OUT cache_misses bigint, OUT cache_evictions bigint, OUT stats_reset timestamptz)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION dcounter.stat_counters() IS 'internal: the rows of dc_stat_counters';

CREATE FUNCTION dcounter.stat_passed_over(counter regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dcounter.stat_passed_over(regclass) IS 'internal: how many rows from other regions were passed over, for dc_stat_counters';

CREATE VIEW dc_stat_counters AS
	SELECT s.counter, s.fed_by, s.increments, s.keys_written, s.totals_written, s.writes_per_second, s.busy_skipped, s.splits, s.waits,
		s.early_writes, s.estimated_shard_rows, s.compaction_lag,
		s.keys_compacted, s.last_compaction, s.last_compaction_duration, s.overflowed_keys, s.reads, s.mean_read_time_ms, s.buffered, s.buffer_full,
		s.flushes, s.keys_flushed, s.mean_flush_time_ms, s.cache_hits, s.cache_misses, s.cache_evictions, s.stats_reset,
		dcounter.stat_passed_over(s.counter) AS rows_passed_over
	FROM dcounter.stat_counters() AS s;
COMMENT ON VIEW dc_stat_counters IS 'statistics of the counter tables that the caller may read';
COMMENT ON COLUMN dc_stat_counters.counter IS 'the counter table';
COMMENT ON COLUMN dc_stat_counters.fed_by IS 'the subscriptions that feed it; if there are any, it is neither written to nor maintained here';
COMMENT ON COLUMN dc_stat_counters.increments IS 'calls of dc_incr() and its relatives that were committed; dc_incr_many() is one for each key';
COMMENT ON COLUMN dc_stat_counters.keys_written IS 'writes of a key by a transaction';
COMMENT ON COLUMN dc_stat_counters.totals_written IS 'those of them that wrote the row of totals itself';
COMMENT ON COLUMN dc_stat_counters.writes_per_second IS 'increments a second over the last minute or so';
COMMENT ON COLUMN dc_stat_counters.busy_skipped IS 'shard rows skipped because another transaction was changing them';
COMMENT ON COLUMN dc_stat_counters.splits IS 'shard rows inserted for a key that had one already';
COMMENT ON COLUMN dc_stat_counters.waits IS 'waits of a commit for another one, with max_shards rows all busy';
COMMENT ON COLUMN dc_stat_counters.early_writes IS 'writes before the commit because dcounter.pending_memory was used up';
COMMENT ON COLUMN dc_stat_counters.estimated_shard_rows IS 'shard rows, as the server estimates them; dc_stat_shards counts';
COMMENT ON COLUMN dc_stat_counters.compaction_lag IS 'upper bound of the age of the oldest change that is not compacted; null if unknown';
COMMENT ON COLUMN dc_stat_counters.keys_compacted IS 'keys whose amounts compaction has moved to the totals';
COMMENT ON COLUMN dc_stat_counters.last_compaction IS 'end of the last compaction of the whole table';
COMMENT ON COLUMN dc_stat_counters.last_compaction_duration IS 'how long it took';
COMMENT ON COLUMN dc_stat_counters.overflowed_keys IS 'keys that it could not move because a sum is out of range for bigint; dc_set() or dc_delete() starts them over';
COMMENT ON COLUMN dc_stat_counters.reads IS 'calls of dc_get(), dc_get_many(), dc_info() and dc_sum()';
COMMENT ON COLUMN dc_stat_counters.mean_read_time_ms IS 'mean time of these in milliseconds';
COMMENT ON COLUMN dc_stat_counters.buffered IS 'increments that went to memory, to be flushed by the worker';
COMMENT ON COLUMN dc_stat_counters.buffer_full IS 'transactions that wrote their increments because that memory was full';
COMMENT ON COLUMN dc_stat_counters.flushes IS 'transactions of the worker that wrote what was in memory';
COMMENT ON COLUMN dc_stat_counters.keys_flushed IS 'keys whose amounts they wrote';
COMMENT ON COLUMN dc_stat_counters.mean_flush_time_ms IS 'mean time of these transactions in milliseconds';
COMMENT ON COLUMN dc_stat_counters.cache_hits IS 'keys that dc_get() and dc_get_many() with max_staleness found in the cache';
COMMENT ON COLUMN dc_stat_counters.cache_misses IS 'keys that had to be computed, or whose computation was waited for';
COMMENT ON COLUMN dc_stat_counters.cache_evictions IS 'keys, of this table or another one, that left the cache to make room for one of this table';
COMMENT ON COLUMN dc_stat_counters.stats_reset IS 'when the cumulative numbers were reset';
COMMENT ON COLUMN dc_stat_counters.rows_passed_over IS 'rows from other regions that are not valid and were not merged';

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
COMMENT ON COLUMN dc_stat_shards.shard_imbalance IS 'ratio of the largest amount in a shard row of a key to the mean of its rows, for the key where it is highest';
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
COMMENT ON COLUMN dc_stat_hot_keys.max_error IS 'how much of that may belong to keys that are no longer listed';
COMMENT ON COLUMN dc_stat_hot_keys.writes_last_window IS 'increments a second in the last whole interval of 10 seconds: a rate, which does not fade';

CREATE FUNCTION dcounter.stat_memory(OUT tables bigint, OUT max_tables bigint, OUT without_statistics bigint, OUT evicted bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 1;
COMMENT ON FUNCTION dcounter.stat_memory() IS 'internal: the row of dc_stat_memory';

CREATE VIEW dc_stat_memory AS
	SELECT s.tables, s.max_tables, s.without_statistics, s.evicted
	FROM dcounter.stat_memory() AS s;
COMMENT ON VIEW dc_stat_memory IS 'memory for the statistics of counter tables, for members of pg_monitor';
COMMENT ON COLUMN dc_stat_memory.tables IS 'counter tables with statistics, of all databases';
COMMENT ON COLUMN dc_stat_memory.max_tables IS 'how many counter tables dcounter.stats_size has room for';
COMMENT ON COLUMN dc_stat_memory.without_statistics IS 'counter tables of this database without statistics';
COMMENT ON COLUMN dc_stat_memory.evicted IS 'tables that lost their statistics to others since the server was started';

CREATE FUNCTION dc_stat_reset(counter regclass DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_stat_reset(regclass) IS 'resets the statistics of a counter table; by default, of all tables of the caller';

-- The function behind a view decides which rows the caller is shown.
GRANT SELECT ON dc_stat_counters, dc_stat_shards, dc_stat_hot_keys, dc_stat_memory TO PUBLIC;
