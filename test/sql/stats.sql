-- Statistics, on a server that is preloaded: what is in shard tables, privileges, tables in any state. What shared memory adds is
-- in test/t/stats/stats.pl.
\pset null NULL
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SELECT count(*) > 0 AS worker_is_shown FROM dc_stat_worker WHERE datname = current_database();
CREATE ROLE regress_dc_owner;
CREATE ROLE regress_dc_user;
CREATE ROLE regress_dc_monitor IN ROLE pg_monitor;
CREATE SCHEMA regress_dc AUTHORIZATION regress_dc_owner;
GRANT USAGE ON SCHEMA regress_dc TO regress_dc_user, regress_dc_monitor;
SET search_path = regress_dc, public;
CREATE VIEW live AS SELECT counter, shard_rows AS rows, active_keys AS keys, round(shard_imbalance::numeric, 3) AS imbalance, pending_amount AS pending,
	compaction_lag = '0' AS no_lag, compaction_lag BETWEEN '0' AND '1 hour' AS small_lag FROM dc_stat_shards;
GRANT SELECT ON live TO PUBLIC;

SET ROLE regress_dc_owner;
SELECT dc_create('likes', totals => 'compacted'), dc_create('views', partitions => 3);
-- No row yet
SELECT * FROM live ORDER BY counter::text;
SELECT count(*), count(increments) + count(keys_written) + count(writes_per_second) + count(busy_skipped) + count(splits) + count(waits) + count(early_writes)
	+ count(keys_compacted) + count(last_compaction) + count(last_compaction_duration) + count(overflowed_keys) + count(reads) + count(mean_read_time_ms) + count(buffered) + count(buffer_full) + count(flushes) + count(keys_flushed)
	+ count(mean_flush_time_ms) + count(cache_hits) + count(cache_misses) + count(cache_evictions) + count(stats_reset) AS cumulative FROM dc_stat_counters;
SELECT * FROM dc_stat_hot_keys;
SELECT * FROM dc_stat_memory;
SELECT dc_stat_reset();
SELECT dc_stat_reset('likes');

-- Amounts, keys and rows
SELECT dc_incr_many('likes', ARRAY['a', 'b', 'c'], ARRAY[5, -3, 7]), dc_incr_many('views', ARRAY['a', 'b', 'c', 'd'], ARRAY[1, 2, 3, 4]);
SELECT * FROM live ORDER BY counter::text;
-- What the server believes after it was told: it counts by itself
SELECT pg_stat_force_next_flush();
SELECT counter, estimated_shard_rows FROM dc_stat_counters ORDER BY counter::text;
-- What this transaction has written counts, and what it has not written does not
BEGIN;
SELECT dc_incr('likes', 'd', 10), dc_apply();
SELECT dc_incr('likes', 'e', 100);
SELECT * FROM live WHERE counter = 'likes'::regclass;
ROLLBACK;
SELECT * FROM live WHERE counter = 'likes'::regclass;
-- Imbalance: of keys with at least two rows that hold amounts
INSERT INTO likes_shard (key, shard, inc, dec) VALUES ('b', 1, 0, 0);
SELECT * FROM live WHERE counter = 'likes'::regclass;
INSERT INTO likes_shard (key, shard, inc, dec) VALUES ('b', 2, 5, 4), ('c', 1, 3, 2), ('c', 2, 0, 0);
SELECT * FROM live WHERE counter = 'likes'::regclass;
UPDATE likes_shard SET inc = 9223372036854775807, dec = 9223372036854775807 WHERE key = 'b' AND shard = 2;
UPDATE likes_shard SET inc = 9223372036854775807 WHERE key = 'c' AND shard = 1;
SELECT * FROM live WHERE counter = 'likes'::regclass;
DELETE FROM likes_shard WHERE key IN ('b', 'c');
-- The lag: since the latest change of the row that has not changed for longest,
-- of those that hold an amount
UPDATE likes_shard SET updated_at = now() - interval '3 days';
INSERT INTO likes_shard (key, shard, updated_at) VALUES ('empty', 1, now() - interval '9 days');
INSERT INTO likes_shard (key, shard, inc, updated_at) VALUES ('later', 1, 1, now() - interval '1 day'), ('future', 1, 1, now() + interval '1 day');
SELECT extract(day FROM compaction_lag) AS days FROM dc_stat_shards WHERE counter = 'likes'::regclass;
DELETE FROM likes_shard WHERE key <> 'future';
SELECT compaction_lag FROM dc_stat_shards WHERE counter = 'likes'::regclass;
SELECT dc_compact('likes'), dc_compact('views');
SELECT * FROM live ORDER BY counter::text;

-- Who may see it: those with SELECT on the table, and pg_monitor. Nobody needs
-- rights on the shard table.
SELECT dc_incr('likes', 'a', 5);
SET ROLE regress_dc_user;
SELECT * FROM live ORDER BY counter::text;
SELECT dc_stat_reset('likes');
SELECT dc_stat_reset();
RESET ROLE;
GRANT INSERT, UPDATE, DELETE ON likes TO regress_dc_user;
GRANT SELECT ON likes_shard TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT (SELECT count(*) FROM dc_stat_counters) AS counters, (SELECT count(*) FROM dc_stat_shards) AS shards;
RESET ROLE;
REVOKE ALL ON likes, likes_shard FROM regress_dc_user;
GRANT SELECT ON likes TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT * FROM live ORDER BY counter::text;
SELECT counter FROM dcounter.stat_counters();
SELECT counter, s.shard_rows FROM dcounter.counter, dcounter.stat_shards(counter) AS s;
SELECT count(*) FROM dcounter.stat_shards(NULL) UNION ALL SELECT count(*) FROM dcounter.stat_shards(0) UNION ALL SELECT count(*) FROM dcounter.stat_shards('pg_class');
SELECT count(*) FROM dc_stat_memory UNION ALL SELECT count(*) FROM dcounter.stat_memory();
SET ROLE regress_dc_monitor;
SELECT * FROM live ORDER BY counter::text;
SELECT dc_stat_reset('likes');
RESET ROLE;
SELECT dc_stat_reset('pg_class');
SELECT dc_stat_reset(0);
-- pg_monitor, but without what its membership gives unless SET ROLE is used
ALTER ROLE regress_dc_monitor NOINHERIT;
REVOKE pg_monitor FROM regress_dc_monitor;
GRANT pg_monitor TO regress_dc_monitor;
SET ROLE regress_dc_monitor;
SELECT (SELECT count(*) FROM dc_stat_counters) AS counters, (SELECT count(*) FROM dc_stat_shards) AS shards, (SELECT count(*) FROM dc_stat_memory) AS memory;
RESET ROLE;

-- A table that cannot be read has no numbers in dc_stat_shards, and the others have theirs.
-- dc_stat_counters does not care.
SELECT dc_create('broken', totals => 'compacted');
ALTER TABLE broken ENABLE ROW LEVEL SECURITY;
SELECT * FROM live ORDER BY counter::text;
ALTER TABLE broken DISABLE ROW LEVEL SECURITY;
ALTER TABLE broken_shard OWNER TO regress_dc_owner;
SELECT * FROM live WHERE counter = 'broken'::regclass;
ALTER TABLE broken OWNER TO regress_dc_owner;
SELECT * FROM live WHERE counter = 'broken'::regclass;
ALTER TABLE broken_shard RENAME inc TO plus;
SELECT * FROM live WHERE counter = 'broken'::regclass;
ALTER TABLE broken_shard RENAME plus TO inc;
-- ... or with a warning
REVOKE ALL ON broken_shard FROM regress_dc_owner;
SELECT * FROM live ORDER BY counter::text;
SELECT counter FROM dc_stat_counters ORDER BY counter::text;
BEGIN;
SELECT * FROM live WHERE counter = 'broken'::regclass;
SELECT 'the transaction goes on';
COMMIT;
GRANT ALL ON broken_shard TO regress_dc_owner;
SELECT * FROM live WHERE counter = 'broken'::regclass;
-- A settings row of a table that is gone
ALTER EVENT TRIGGER dcounter_drop DISABLE;
DROP TABLE broken, broken_shard;
ALTER EVENT TRIGGER dcounter_drop ENABLE;
SELECT * FROM live ORDER BY counter::text;
SELECT counter FROM dc_stat_counters ORDER BY counter::text;
DELETE FROM dcounter.counter WHERE shards NOT IN (SELECT oid FROM pg_class);
-- In a read-only transaction, and at any isolation level
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT * FROM live ORDER BY counter::text;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT (SELECT count(*) FROM dc_stat_counters) AS counters, (SELECT count(*) FROM dc_stat_shards) AS shards;
SELECT dc_incr('likes', 'z');
SELECT (SELECT count(*) FROM dc_stat_counters) AS counters, (SELECT count(*) FROM dc_stat_shards) AS shards;
COMMIT;
SELECT dc_get('likes', 'z');
RESET search_path;
DROP SCHEMA regress_dc CASCADE;
SELECT (SELECT count(*) FROM dc_stat_counters) AS counters, (SELECT count(*) FROM dc_stat_shards) AS shards;
DROP ROLE regress_dc_owner, regress_dc_user, regress_dc_monitor;
