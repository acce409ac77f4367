\echo Use "ALTER EXTENSION dcounter UPDATE" to load this file. \quit

-- Before anything is changed: a library that is older than this script has no such function.
CREATE FUNCTION dcounter.library_0_2() RETURNS pg_catalog.text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.library_0_2() IS 'internal: version of the library, which is 0.2 or later';
REVOKE EXECUTE ON FUNCTION dcounter.library_0_2() FROM PUBLIC;

COMMENT ON COLUMN dcounter.region.first IS 'number of the first heartbeat of this boot, and of those that begin like it';

-- Conditions of the caller must not see rows that these hide.
ALTER VIEW dc_marks SET (security_barrier);
ALTER VIEW dc_stat_drift SET (security_barrier);
ALTER VIEW dc_drifts SET (security_barrier);

-- It takes a snapshot of its own.
ALTER FUNCTION dc_op_status(regclass, text) PARALLEL UNSAFE;

CREATE FUNCTION dc_throttle_reset(key anycompatible DEFAULT NULL::text, role regrole DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_throttle_reset(anycompatible, regrole) IS 'gives the ad hoc limits of a key, or of all keys, of the calling or another role their full budget; returns how many there were';

-- Arrays of these, too, and grouping sets. The functions are made anew, as a second one of each would make calls with untyped parameters ambiguous. One
-- that somebody's view or function depends on stays, in another schema.
DO $$
DECLARE
	f text;
BEGIN
	FOREACH f IN ARRAY '{"dc_limit_all(text[], text[], bigint[])", "dc_beat_many(text, text[], text[], text[])",
		"dc_source_check(regclass, text[], text, text, float8)", "dc_source_fix(regclass, text[])",
		"dc_bind(regclass, regclass, text, text, text, text, text, interval, boolean, text)"}'::pg_catalog.text[]
	LOOP
		BEGIN
			EXECUTE pg_catalog.concat('DROP FUNCTION ', f);
		EXCEPTION WHEN dependent_objects_still_exist THEN
			EXECUTE pg_catalog.concat('ALTER FUNCTION ', f, ' SET SCHEMA dcounter');
			RAISE WARNING '% is kept in schema dcounter, as objects depend on it', f;
		END;
	END LOOP;
END $$;
CREATE FUNCTION dc_bind(counter regclass, source regclass, key text, value text DEFAULT '1', filter text DEFAULT NULL, distinct_of text DEFAULT NULL,
	build text DEFAULT 'worker', lock_timeout interval DEFAULT '200 ms', replicated boolean DEFAULT false, on_detach text DEFAULT 'subtract', group_by text DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_bind(regclass, regclass, text, text, text, text, text, interval, boolean, text, text) IS 'keeps a counter table equal to counts or sums of the rows of a source table';
COMMENT ON COLUMN dcounter.source.key IS 'expressions over its columns that form the key, and their grouping sets';
COMMENT ON COLUMN dcounter.source.value IS 'what a row adds to the value of its key, or several of these with their names';
CREATE FUNCTION dc_limit_all(names text[], keys anycompatiblearray, costs bigint[] DEFAULT NULL, OUT allowed boolean, OUT remaining bigint, OUT retry_after interval, OUT reset_at timestamptz, OUT rule text, OUT leases bigint[]) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_limit_all(text[], anycompatiblearray, bigint[]) IS 'asks several limits: all count, or none; rule is the one that refuses';

CREATE FUNCTION dc_beat_many(name text, rooms anycompatiblearray, members anycompatiblearray, conns text[] DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_beat_many(text, anycompatiblearray, anycompatiblearray, text[]) IS 'heartbeats of many connections; returns how many were unknown';

CREATE FUNCTION dc_source_check(counter regclass, keys anycompatiblearray DEFAULT NULL::text[], from_key text DEFAULT NULL, to_key text DEFAULT NULL, sample float8 DEFAULT NULL, OUT key text, OUT source bigint, OUT counter bigint, OUT drift bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 10;
COMMENT ON FUNCTION dc_source_check(regclass, anycompatiblearray, text, text, float8) IS 'keys of a bound counter table that differ from its source';

CREATE FUNCTION dc_source_fix(counter regclass, keys anycompatiblearray, OUT key text, OUT drift bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 10;
COMMENT ON FUNCTION dc_source_fix(regclass, anycompatiblearray) IS 'repairs keys of a bound counter table that differ from its source';

-- Keys, rooms and members of any type that keys of counters have
CREATE FUNCTION dc_publish(topic text, key anycompatible, type text, payload jsonb, headers jsonb DEFAULT NULL) RETURNS uuid
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_publish(text, anycompatible, text, jsonb, jsonb) IS 'writes an event when the transaction commits';

CREATE FUNCTION dc_limit(name text, key anycompatible, cost bigint DEFAULT 1) RETURNS dcounter.limit_answer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit(text, anycompatible, bigint) IS 'whether a key may do something now; if so, it is counted, and stays counted if the transaction rolls back';

CREATE FUNCTION dc_hold_all(stock regclass, keys anycompatiblearray, qtys bigint[], ttl interval DEFAULT '10 minutes', hold_id uuid DEFAULT gen_random_uuid()) RETURNS uuid
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_hold_all(regclass, anycompatiblearray, bigint[], interval, uuid) IS 'sets units of many keys aside as one hold, all or none';

CREATE FUNCTION dc_allow(name text, key anycompatible, cost bigint DEFAULT 1) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_allow(text, anycompatible, bigint) IS 'the column allowed of dc_limit without the rest: the fastest form';

CREATE FUNCTION dc_allow_up_to(name text, key text, cost bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_allow_up_to(text, text, bigint) IS 'allows as much of a cost as fits now, counts that, and returns how much it is';

CREATE FUNCTION dc_allow_up_to(name text, key anycompatible, cost bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_allow_up_to(text, anycompatible, bigint) IS 'allows as much of a cost as fits now, counts that, and returns how much it is';

CREATE FUNCTION dc_limit_peek(name text, key anycompatible, cost bigint DEFAULT 1) RETURNS dcounter.limit_answer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_peek(text, anycompatible, bigint) IS 'what dc_limit would say; nothing is counted';

CREATE FUNCTION dc_limit_refund(name text, key anycompatible, units bigint DEFAULT 1) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_refund(text, anycompatible, bigint) IS 'gives back units that were counted; returns how many there are now';

CREATE FUNCTION dc_limit_release(name text, key anycompatible, lease bigint) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_release(text, anycompatible, bigint) IS 'ends a lease; false if it had ended';

CREATE FUNCTION dc_limit_renew(name text, key anycompatible, lease bigint) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_renew(text, anycompatible, bigint) IS 'renews a lease; false if it had ended';

CREATE FUNCTION dc_limit_reset(name text, key anycompatible) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_limit_reset(text, anycompatible) IS 'gives a key its full budget; false if it already had it';

CREATE FUNCTION dc_throttle(key anycompatible, burst bigint, rate bigint, per interval, cost bigint DEFAULT 1) RETURNS dcounter.limit_answer
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_throttle(anycompatible, bigint, bigint, interval, bigint) IS 'a token bucket of the calling role, without a rule';

CREATE FUNCTION dc_enter(name text, room anycompatible, member text, conn text DEFAULT '', meta jsonb DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_enter(text, anycompatible, text, text, jsonb) IS 'enters a member into a room, by one of its connections; returns how many members are present';

CREATE FUNCTION dc_enter(name text, room anycompatible, member anynonarray, conn text DEFAULT '', meta jsonb DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_enter(text, anycompatible, anynonarray, text, jsonb) IS 'enters a member into a room, by one of its connections; returns how many members are present';

CREATE FUNCTION dc_beat(name text, room anycompatible, member text, conn text DEFAULT '') RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_beat(text, anycompatible, text, text) IS 'heartbeat of a connection; false if it was unknown and has entered';

CREATE FUNCTION dc_beat(name text, room anycompatible, member anynonarray, conn text DEFAULT '') RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_beat(text, anycompatible, anynonarray, text) IS 'heartbeat of a connection; false if it was unknown and has entered';

CREATE FUNCTION dc_exit(name text, room anycompatible, member text, conn text DEFAULT '') RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_exit(text, anycompatible, text, text) IS 'removes a connection of a member, or with NULL all of them; returns how many members are present';

CREATE FUNCTION dc_exit(name text, room anycompatible, member anynonarray, conn text DEFAULT '') RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_exit(text, anycompatible, anynonarray, text) IS 'removes a connection of a member, or with NULL all of them; returns how many members are present';

CREATE FUNCTION dc_present(name text, room anycompatible) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_present(text, anycompatible) IS 'how many members a room has';

CREATE FUNCTION dc_presence_list(name text, room anycompatible, after text DEFAULT NULL, n integer DEFAULT 100, OUT member text, OUT meta jsonb) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100 ROWS 100;
COMMENT ON FUNCTION dc_presence_list(text, anycompatible, text, integer) IS 'n members of a room, in order, from the first or after a given one, which need not be present';

-- It takes shared memory, without a rule that says how much.
REVOKE EXECUTE ON FUNCTION dc_throttle(text, bigint, bigint, interval, bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_throttle(anycompatible, bigint, bigint, interval, bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_throttle_reset(anycompatible, regrole) FROM PUBLIC;

CREATE FUNCTION dcounter.stat_passed_over(counter regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dcounter.stat_passed_over(regclass) IS 'internal: how many rows from other regions were passed over, for dc_stat_counters';

CREATE OR REPLACE VIEW dc_stat_counters AS
	SELECT s.counter, s.fed_by, s.increments, s.keys_written, s.totals_written, s.writes_per_second, s.busy_skipped, s.splits, s.waits,
		s.early_writes, s.estimated_shard_rows, s.compaction_lag,
		s.keys_compacted, s.last_compaction, s.last_compaction_duration, s.overflowed_keys, s.reads, s.mean_read_time_ms, s.buffered, s.buffer_full,
		s.flushes, s.keys_flushed, s.mean_flush_time_ms, s.cache_hits, s.cache_misses, s.cache_evictions, s.stats_reset,
		dcounter.stat_passed_over(s.counter) AS rows_passed_over
	FROM dcounter.stat_counters() AS s;
COMMENT ON COLUMN dc_stat_counters.rows_passed_over IS 'rows from other regions that are not valid and were not merged';

-- What is replicated comes by links that all counters share.
REVOKE EXECUTE ON FUNCTION dc_replicate(regclass, boolean) FROM PUBLIC;

CREATE FUNCTION dc_region_join(peer text, conninfo text, anew boolean, topology text DEFAULT 'mesh', trust_owners boolean DEFAULT false) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 3;
COMMENT ON FUNCTION dc_region_join(text, text, boolean, text, boolean) IS 'the same, but drops an existing link and creates it again';

-- They wait for a renewal, and what they return is for those who may make subscriptions.
REVOKE EXECUTE ON FUNCTION dc_region_join(text, text, text, boolean) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_region_join(text, text, boolean, text, boolean) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_region_refresh(text, text, boolean) FROM PUBLIC;

CREATE FUNCTION dc_region_publish() RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_region_publish() IS 'adds what is missing to the publications of the regions; returns for how many counters';

COMMENT ON FUNCTION dcounter.on_counter_delete() IS 'internal: keeps rows of stocks, ledgers and distinct tables from being changed except by their functions';

-- Triggers that dc_distinct_create() makes now (src/time/distinct/distinctddl.c): tables that exist get them, too.
DO $$
DECLARE
	t record;
	patience CONSTANT text := pg_catalog.current_setting('lock_timeout');
BEGIN
	-- no owner's table keeps the update from going on
	PERFORM pg_catalog.set_config('lock_timeout', '2s', true);
	FOR t IN
		SELECT r.relation, r."outer" FROM dcounter.distinct_table AS d,
			LATERAL (VALUES (d.distinct_table, true), (d.deltas, false)) AS r (relation, "outer")
		WHERE EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid OPERATOR(pg_catalog.=) r.relation AND c.relkind OPERATOR(pg_catalog.=) 'r')
			AND NOT EXISTS (SELECT FROM pg_catalog.pg_extension AS x WHERE x.extname OPERATOR(pg_catalog.=) 'citus')
	LOOP
		BEGIN
		EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER dcounter_delete BEFORE DELETE OR UPDATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION dcounter.on_counter_delete()', t.relation);
		EXECUTE pg_catalog.format('ALTER TRIGGER dcounter_delete ON %s DEPENDS ON EXTENSION dcounter', t.relation);
		CONTINUE WHEN NOT t."outer";
		EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER dcounter_truncate AFTER TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION dcounter.on_counter_truncate()', t.relation);
		EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER dcounter_truncate', t.relation);
		EXECUTE pg_catalog.format('ALTER TRIGGER dcounter_truncate ON %s DEPENDS ON EXTENSION dcounter', t.relation);
		EXCEPTION WHEN OTHERS THEN
			RAISE WARNING 'triggers of % are not made: %', t.relation::pg_catalog.regclass, SQLERRM;
		END;
	END LOOP;
	-- and dc_stock_create() (src/core/table/protect.c)
	FOR t IN
		SELECT c.counter AS relation FROM dcounter.counter AS c
		WHERE c.holds IS NOT NULL AND c.ledger IS NULL
			AND EXISTS (SELECT FROM pg_catalog.pg_class AS k WHERE k.oid OPERATOR(pg_catalog.=) c.counter AND k.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}'))
	LOOP
		BEGIN
		EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER dcounter_change BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION dcounter.on_counter_delete()', t.relation);
		EXECUTE pg_catalog.format('ALTER TRIGGER dcounter_change ON %s DEPENDS ON EXTENSION dcounter', t.relation);
		EXCEPTION WHEN OTHERS THEN
			RAISE WARNING 'triggers of % are not made: %', t.relation::pg_catalog.regclass, SQLERRM;
		END;
	END LOOP;
	PERFORM pg_catalog.set_config('lock_timeout', patience, true);
END $$;

-- Unread tables have this name everywhere.
COMMENT ON FUNCTION dcounter.on_unread_row_change() IS 'internal: makes restoring unread tables idempotent and tells sessions of changes';
COMMENT ON FUNCTION dc_unread_adopt(regclass, regclass) IS 'registers an existing unread table';
COMMENT ON FUNCTION dc_unread_drop(regclass) IS 'drops an unread table';

CREATE FUNCTION dc_window_adopt(counter regclass, bucket interval, keep interval, rollup jsonb DEFAULT NULL, late text DEFAULT 'error') RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_adopt(regclass, interval, interval, jsonb, text) IS 'registers an existing windowed counter';

CREATE FUNCTION dc_distinct_report(distinct_table regclass, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL, OUT key text, OUT bucket timestamptz, OUT estimate double precision, OUT lower double precision, OUT upper double precision) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 1000;
COMMENT ON FUNCTION dc_distinct_report(regclass, timestamptz, timestamptz) IS 'how many different items each key has had in each bucket';
COMMENT ON COLUMN dc_stat_regions.state IS 'active, retired, or behind (some counters are put aside); for this database also starting, renew or recopy';

CREATE FUNCTION dcounter.window_bytes(counter regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 1000;
COMMENT ON FUNCTION dcounter.window_bytes(regclass) IS 'internal: the size of a windowed counter''s tables';

CREATE OR REPLACE VIEW dc_windows AS
	SELECT w.windowed, pg_catalog.format('%I.%I', n.nspname, r.relname) AS name, r.relowner::pg_catalog.regrole AS owner,
		'1 microsecond'::pg_catalog.interval OPERATOR(pg_catalog.*) w.widths[1]::pg_catalog.float8 AS bucket,
		'1 microsecond'::pg_catalog.interval OPERATOR(pg_catalog.*) w.keeps[1]::pg_catalog.float8 AS keep,
		w.late, w.refuses, w.sealed, dcounter.window_dropped(w.windowed) AS dropped,
		pg_catalog.cardinality(w.widths) AS levels,
		(SELECT pg_catalog.jsonb_object_agg('1 microsecond'::pg_catalog.interval OPERATOR(pg_catalog.*) l.width::pg_catalog.float8,
				'1 microsecond'::pg_catalog.interval OPERATOR(pg_catalog.*) l.keep::pg_catalog.float8)
			FROM ROWS FROM (pg_catalog.unnest(w.widths), pg_catalog.unnest(w.keeps)) WITH ORDINALITY AS l(width, keep, number)
			WHERE l.number OPERATOR(pg_catalog.>) 1) AS rollup,
		dcounter.window_bytes(w.windowed) AS bytes
	FROM dcounter.time_window AS w
		JOIN pg_catalog.pg_class AS r ON r.oid OPERATOR(pg_catalog.=) w.windowed
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) r.relnamespace;

CREATE FUNCTION dc_window_reopen(counter regclass) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_reopen(regclass) IS 'accepts increments again that are too late only because the clock was ahead; false if there are none';

-- Keys that are JSON arrays.
CREATE FUNCTION dc_scan(counter regclass, prefix jsonb DEFAULT '[]', OUT key jsonb, OUT value bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_scan(regclass, jsonb) IS 'exact values, except 0, of the keys that are JSON arrays and begin with these elements';

-- Ranks of keys.
CREATE FUNCTION dcounter.rank_bucket(value bigint, shift int) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.rank_bucket(bigint, int) IS 'the bucket of a value, by which ranks are counted; see dc_rank_create()';

CREATE FUNCTION dc_rank_create(counter regclass, build text DEFAULT 'worker', lock_timeout interval DEFAULT '200 ms') RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_rank_create(regclass, text, interval) IS 'lets a counter table know the ranks of its keys';

CREATE FUNCTION dc_rank_drop(counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_rank_drop(regclass) IS 'ends what dc_rank_create() began, and drops its table';

CREATE FUNCTION dc_rank(counter regclass, key anycompatible) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dc_rank(regclass, anycompatible) IS 'the rank of a key as of the last compaction: 1 and the keys with a higher value';

CREATE FUNCTION dc_around(counter regclass, key anycompatible, n int DEFAULT 5, OUT key text, OUT value bigint, OUT rank bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 10;
COMMENT ON FUNCTION dc_around(regclass, anycompatible, int) IS 'a key with its neighbours by rank';

CREATE FUNCTION dc_at_rank(counter regclass, rank bigint, n int DEFAULT 1, OUT key text, OUT value bigint, OUT rank bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 10;
COMMENT ON FUNCTION dc_at_rank(regclass, bigint, int) IS 'the keys from a rank on, a page of a leaderboard';

-- Two more columns. A function that somebody's view depends on stays, in another schema.
ALTER FUNCTION dc_regions() SET SCHEMA dcounter;
CREATE FUNCTION dc_regions(OUT region text, OUT epochs int, OUT state text, OUT beat_at timestamptz, OUT lag interval, OUT seen_by_all_to timestamptz, OUT link_state text, OUT apply_errors bigint, OUT advice text, OUT conflicts bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 5;
COMMENT ON FUNCTION dc_regions() IS 'the known regions: how far they are, what all others have of them, their links, and what to do';
CREATE OR REPLACE VIEW dc_stat_regions AS SELECT * FROM dc_regions();
COMMENT ON COLUMN dc_stat_regions.advice IS 'what is wrong, and what to call; null if there is nothing to do';
COMMENT ON COLUMN dc_stat_regions.conflicts IS 'how many rows it has brought that met another row, or none, where they had to find one; null before PostgreSQL 18';
DO $$
BEGIN
	DROP FUNCTION dcounter.dc_regions();
EXCEPTION WHEN dependent_objects_still_exist THEN
	RAISE WARNING 'dc_regions() is kept in schema dcounter, as objects depend on it';
END $$;

-- Dropping a table does not read all bindings.
CREATE INDEX source_refs ON dcounter.source (refs);
CREATE INDEX source_carried ON dcounter.source (carried);

-- Marks of one more kind.
ALTER TABLE dcounter.self_mark DROP CONSTRAINT self_mark_what_check;
ALTER TABLE dcounter.self_mark ADD CHECK (what OPERATOR(pg_catalog.=) ANY ('{renew,recopy,retired,copied,alone,since}'::pg_catalog.text[]));
COMMENT ON COLUMN dcounter.self_mark.what IS 'renew (another database has it, too), recopy (something was missed), retired, copied (from a peer), alone (the epoch was taken when no other region was known), or since (when its epochs follow each other without a loss)';

-- Last, so that they do not fire for the statements above. They fire for more commands.
DROP EVENT TRIGGER dcounter_begin;
DROP EVENT TRIGGER dcounter_ddl;
CREATE EVENT TRIGGER dcounter_ddl ON ddl_command_end
	WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER TYPE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
		'ALTER SCHEMA', 'ALTER DOMAIN', 'ALTER COLLATION', 'ALTER EXTENSION', 'ALTER TRIGGER', 'ALTER INDEX',
		'CREATE TABLE', 'CREATE FOREIGN TABLE', 'CREATE SCHEMA', 'CREATE TRIGGER', 'CREATE RULE', 'CREATE INDEX', 'CREATE STATISTICS',
		'CREATE PUBLICATION', 'ALTER PUBLICATION', 'DROP TRIGGER', 'REVOKE')
	EXECUTE FUNCTION dcounter.on_ddl();
COMMENT ON EVENT TRIGGER dcounter_ddl IS 'keeps the tables of a counter together, and code of owners off buffered counter tables';

-- These drop partitions, change names that expressions contain, or cannot be refused when they have ended.
CREATE EVENT TRIGGER dcounter_begin ON ddl_command_start
	WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER TYPE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
		'ALTER SCHEMA', 'ALTER DOMAIN', 'ALTER COLLATION', 'ALTER EXTENSION',
		'DROP TABLE', 'DROP SCHEMA', 'DROP OWNED', 'DROP TYPE', 'DROP EXTENSION', 'DROP ACCESS METHOD', 'DROP INDEX', 'CREATE INDEX')
	EXECUTE FUNCTION dcounter.on_ddl_begin();
COMMENT ON EVENT TRIGGER dcounter_begin IS 'looks at what a command is about to drop or rename';

-- Keys that expire. The two functions have one more argument each.
ALTER TABLE dcounter.counter ADD COLUMN idle pg_catalog.interval;
COMMENT ON COLUMN dcounter.counter.idle IS 'after which time a key that is not written is deleted, NULL for never';
DO $$
DECLARE
	f text;
BEGIN
	FOREACH f IN ARRAY '{"dc_create(text, text, int, int, text, interval, text, interval, text, int, interval, boolean)",
		"dc_alter(regclass, text, int, interval, text, text, interval, text, interval, text, text, int, interval)"}'::pg_catalog.text[]
	LOOP
		BEGIN
			EXECUTE pg_catalog.concat('DROP FUNCTION ', f);
		EXCEPTION WHEN dependent_objects_still_exist THEN
			EXECUTE pg_catalog.concat('ALTER FUNCTION ', f, ' SET SCHEMA dcounter');
			RAISE WARNING '% is kept in schema dcounter, as objects depend on it', f;
		END;
	END LOOP;
END $$;
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

CREATE OR REPLACE VIEW dc_tables AS
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
