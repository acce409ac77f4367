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

-- Arrays of these, too, grouping sets, and time zones. The functions are made anew, as a second one of each would make calls with untyped parameters ambiguous. One
-- that somebody's view or function depends on stays, in another schema.
DO $$
DECLARE
	f text;
BEGIN
	FOREACH f IN ARRAY '{"dc_limit_all(text[], text[], bigint[])", "dc_beat_many(text, text[], text[], text[])",
		"dc_source_check(regclass, text[], text, text, float8)", "dc_source_fix(regclass, text[])",
		"dc_bind(regclass, regclass, text, text, text, text, text, interval, boolean, text)",
		"dc_window_create(text, interval, interval, jsonb, text)"}'::pg_catalog.text[]
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

-- Buckets of days and months of a time zone.
ALTER TABLE dcounter.time_window ADD COLUMN units pg_catalog.text[], ADD COLUMN time_zone pg_catalog.text;
COMMENT ON COLUMN dcounter.time_window.widths IS 'of a bucket, in microseconds, or in the unit of the level';
COMMENT ON COLUMN dcounter.time_window.keeps IS 'for how long buckets are kept, in microseconds, or in the unit of the level';
COMMENT ON COLUMN dcounter.time_window.units IS 'microsecond, day or month; null: all levels are in microseconds';
COMMENT ON COLUMN dcounter.time_window.time_zone IS 'the zone of days and months';
CREATE FUNCTION dc_window_create(counter text, bucket interval, keep interval, rollup jsonb DEFAULT NULL, late text DEFAULT 'error', time_zone text DEFAULT NULL) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_create(text, interval, interval, jsonb, text, text) IS 'creates a counter that counts by buckets of time';

CREATE FUNCTION dc_window_adopt(counter regclass, bucket interval, keep interval, rollup jsonb DEFAULT NULL, late text DEFAULT 'error', time_zone text DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_adopt(regclass, interval, interval, jsonb, text, text) IS 'registers an existing windowed counter';

CREATE FUNCTION dcounter.window_calendar_bucket(key text, width bigint, unit text, time_zone text) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.window_calendar_bucket(text, bigint, text, text) IS 'internal: the bucket of days or months in a key of a windowed counter''s table';

CREATE FUNCTION dc_distinct_report(distinct_table regclass, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL, OUT key text, OUT bucket timestamptz, OUT estimate double precision, OUT lower double precision, OUT upper double precision) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 1000;
COMMENT ON FUNCTION dc_distinct_report(regclass, timestamptz, timestamptz) IS 'how many different items each key has had in each bucket';
COMMENT ON COLUMN dc_stat_regions.state IS 'active, retired, or behind (some counters are put aside); for this database also starting, renew or recopy';

CREATE FUNCTION dcounter.window_bytes(counter regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 1000;
COMMENT ON FUNCTION dcounter.window_bytes(regclass) IS 'internal: the size of a windowed counter''s tables';

CREATE OR REPLACE VIEW dc_windows AS
	SELECT w.windowed, pg_catalog.format('%I.%I', n.nspname, r.relname) AS name, r.relowner::pg_catalog.regrole AS owner,
		b.widths[1] AS bucket, b.keeps[1] AS keep,
		w.late, w.refuses, w.sealed, dcounter.window_dropped(w.windowed) AS dropped,
		pg_catalog.cardinality(w.widths) AS levels,
		(SELECT pg_catalog.jsonb_object_agg(l.width, l.keep)
			FROM ROWS FROM (pg_catalog.unnest(b.widths), pg_catalog.unnest(b.keeps)) WITH ORDINALITY AS l(width, keep, number)
			WHERE l.number OPERATOR(pg_catalog.>) 1) AS rollup,
		dcounter.window_bytes(w.windowed) AS bytes, w.time_zone
	FROM dcounter.time_window AS w
		JOIN pg_catalog.pg_class AS r ON r.oid OPERATOR(pg_catalog.=) w.windowed
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) r.relnamespace
		CROSS JOIN LATERAL (SELECT pg_catalog.array_agg(u.unit OPERATOR(pg_catalog.*) l.width::pg_catalog.float8 ORDER BY l.number) AS widths,
				pg_catalog.array_agg(u.unit OPERATOR(pg_catalog.*) l.keep::pg_catalog.float8 ORDER BY l.number) AS keeps
			FROM ROWS FROM (pg_catalog.unnest(w.widths), pg_catalog.unnest(w.keeps), pg_catalog.unnest(w.units)) WITH ORDINALITY AS l(width, keep, unit, number),
				LATERAL (SELECT pg_catalog.concat('1 ', coalesce(l.unit, 'microsecond'))::pg_catalog.interval AS unit) AS u) AS b;
COMMENT ON COLUMN dc_windows.time_zone IS 'the zone whose days and months its buckets have';

CREATE FUNCTION dc_window_reopen(counter regclass) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_window_reopen(regclass) IS 'accepts increments again that are too late only because the clock was ahead; false if there are none';

-- Keys that are JSON arrays.
CREATE FUNCTION dc_scan(counter regclass, prefix jsonb DEFAULT '[]', OUT key jsonb, OUT value bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_scan(regclass, jsonb) IS 'exact values, except 0, of the keys that are JSON arrays and begin with these elements';

-- Budgets.
CREATE TABLE dcounter.budget (
	budget       pg_catalog.regclass NOT NULL,
	pool         pg_catalog.regclass NOT NULL,
	reservations pg_catalog.regclass NOT NULL,
	CONSTRAINT budget_pkey PRIMARY KEY (budget)
);
CREATE UNIQUE INDEX budget_pool_idx ON dcounter.budget (pool);
COMMENT ON TABLE dcounter.budget IS 'budgets and their tables';
COMMENT ON COLUMN dcounter.budget.budget IS 'the table of grants, which identifies the budget';
COMMENT ON COLUMN dcounter.budget.pool IS 'the stock that has the units of the grants, and those that are owed';
COMMENT ON COLUMN dcounter.budget.reservations IS 'the reservations';

CREATE FUNCTION dcounter.on_budget_row_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_budget_row_change() IS 'internal: makes restoring the budgets idempotent and tells sessions of changes';

CREATE TRIGGER on_budget_row_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.budget
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_budget_row_change();

CREATE FUNCTION dc_budget_create(budget text, if_not_exists boolean DEFAULT false) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_budget_create(text, boolean) IS 'creates a budget: grants of units, of which some are reserved and settled later';

CREATE FUNCTION dc_budget_adopt(budget regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_budget_adopt(regclass) IS 'registers existing tables as a budget';

CREATE FUNCTION dc_grant(budget regclass, key anycompatible, amount bigint, name text, expires_at timestamptz DEFAULT 'infinity', priority int DEFAULT 0, effective_at timestamptz DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_grant(regclass, anycompatible, bigint, text, timestamptz, int, timestamptz) IS 'gives a key units of a budget, once for each name';

CREATE FUNCTION dc_allowance(budget regclass, key anycompatible, amount bigint, period interval, time_zone text DEFAULT 'UTC', anchor timestamp DEFAULT '2000-01-01', valid_for interval DEFAULT NULL, priority int DEFAULT 0) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_allowance(regclass, anycompatible, bigint, interval, text, timestamp, interval, int) IS 'gives a key units of a budget once in each period, and returns when they expire';

CREATE FUNCTION dc_reserve(budget regclass, key anycompatible, amount bigint, reservation_id uuid, ttl interval DEFAULT '10 minutes', at_least bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_reserve(regclass, anycompatible, bigint, uuid, interval, bigint) IS 'sets units of a budget aside, and returns how many; 0 if there are not enough';

CREATE FUNCTION dc_reserve_all(budget regclass, keys anycompatiblearray, amounts bigint[], reservation_id uuid, ttl interval DEFAULT '10 minutes', at_least bigint[] DEFAULT NULL) RETURNS bigint[]
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 200;
COMMENT ON FUNCTION dc_reserve_all(regclass, anycompatiblearray, bigint[], uuid, interval, bigint[]) IS 'sets units of several keys of a budget aside, of all or of none';

CREATE FUNCTION dc_settle(budget regclass, reservation_id uuid, cost bigint, overdraft boolean DEFAULT true) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_settle(regclass, uuid, bigint, boolean) IS 'ends a reservation with what it has cost';

CREATE FUNCTION dc_settle(budget regclass, reservation_id uuid, costs bigint[], overdraft boolean DEFAULT true) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 200;
COMMENT ON FUNCTION dc_settle(regclass, uuid, bigint[], boolean) IS 'ends a reservation of several keys with what it has cost';

CREATE FUNCTION dc_release(budget regclass, reservation_id uuid) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_release(regclass, uuid) IS 'ends a reservation that has cost nothing';

CREATE FUNCTION dc_budget(budget regclass, key anycompatible, OUT available bigint, OUT reserved bigint, OUT owed bigint, OUT expires_at timestamptz)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dc_budget(regclass, anycompatible) IS 'what a key of a budget has left';

CREATE FUNCTION dc_budget_check(budget regclass, OUT key text, OUT granted numeric, OUT lapsed numeric, OUT available numeric, OUT reserved numeric, OUT settled numeric, OUT owed numeric) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 10;
COMMENT ON FUNCTION dc_budget_check(regclass) IS 'the keys of a budget whose books do not balance; no rows if it is sound';

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT SELECT ON dcounter.budget TO PUBLIC;
-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_budget_row_change() FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.budget', '');

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

-- Comments that are worded differently now.
COMMENT ON COLUMN dcounter.counter.counter IS 'the table of totals, which identifies the counter table';
COMMENT ON COLUMN dcounter.counter.op_retention IS 'how long the ops of dc_incr_once() or of a ledger are kept; NULL: forever';
COMMENT ON COLUMN dcounter.counter.grants IS 'the table of units that regions have given to each other, if it is a replicated stock';
COMMENT ON COLUMN dcounter.counter.wants IS 'the table of units that regions ask for, if it is a replicated stock';
COMMENT ON COLUMN dcounter.counter.rights_epoch IS 'the epoch under which this database has its units of a replicated stock; of a counter, the lowest epoch under which it begins to count a key';
COMMENT ON COLUMN dcounter.counter.sample_max IS 'the largest value it ever had, from which dc_info() computes the error';
COMMENT ON COLUMN dcounter.counter.half_life IS 'the time in which these weights halve';
COMMENT ON COLUMN dcounter.counter.max_shards IS 'maximum number of shard rows of one key that contention can create';
COMMENT ON FUNCTION dc_set(regclass, anycompatible, bigint) IS 'sets a counter to exactly this value and returns the old one';
COMMENT ON FUNCTION dc_reset(regclass, anycompatible) IS 'sets a counter to zero and returns the old value';
COMMENT ON FUNCTION dc_compact(regclass, int) IS 'moves amounts from shard rows to totals; by default, in all tables of the caller';
COMMENT ON FUNCTION dcounter.on_drop() IS 'internal: drops what belongs to dropped tables, or refuses the drop';
COMMENT ON FUNCTION dcounter.on_ddl() IS 'internal: applies to tables what was done to the table that they belong to, or refuses it';
COMMENT ON COLUMN dc_stat_counters.fed_by IS 'the subscriptions that feed it; if there are any, it is neither written to nor maintained here';
COMMENT ON COLUMN dc_stat_counters.totals_written IS 'those of them that wrote the row of totals itself';
COMMENT ON COLUMN dc_stat_counters.busy_skipped IS 'shard rows skipped because another transaction was changing them';
COMMENT ON COLUMN dc_stat_counters.early_writes IS 'writes before the commit because dcounter.pending_memory was used up';
COMMENT ON COLUMN dc_stat_counters.compaction_lag IS 'upper bound of the age of the oldest change that is not compacted; null if unknown';
COMMENT ON COLUMN dc_stat_counters.overflowed_keys IS 'keys that it could not move because a sum is out of range for bigint; dc_set() or dc_delete() starts them over';
COMMENT ON COLUMN dc_stat_counters.buffer_full IS 'transactions that wrote their increments because that memory was full';
COMMENT ON COLUMN dc_stat_counters.stats_reset IS 'when the cumulative numbers were reset';
COMMENT ON COLUMN dc_stat_shards.shard_imbalance IS 'ratio of the largest amount in a shard row of a key to the mean of its rows, for the key where it is highest';
COMMENT ON COLUMN dc_stat_hot_keys.max_error IS 'how much of that may belong to keys that are no longer listed';
COMMENT ON COLUMN dc_stat_hot_keys.writes_last_window IS 'increments a second in the last whole interval of 10 seconds: a rate, which does not fade';
COMMENT ON VIEW dc_stat_memory IS 'memory for the statistics of counter tables, for members of pg_monitor';
COMMENT ON COLUMN dc_stat_memory.max_tables IS 'how many counter tables dcounter.stats_size has room for';
COMMENT ON COLUMN dc_stat_memory.evicted IS 'tables that lost their statistics to others since the server was started';
COMMENT ON FUNCTION dc_stat_reset(regclass) IS 'resets the statistics of a counter table; by default, of all tables of the caller';
COMMENT ON TABLE dcounter.buffer_restored IS 'files of clean shutdowns whose increments have been written to rows';
COMMENT ON COLUMN dcounter.buffer_restored.generation IS 'generation of the last file that was applied to it';
COMMENT ON FUNCTION dc_flush(regclass) IS 'writes increments in memory to a buffered counter table; by default, to all tables of the caller';
COMMENT ON FUNCTION dc_get(regclass, anycompatible, interval) IS 'value of a counter, at most this old, from shared memory if possible';
COMMENT ON FUNCTION dc_get_many(regclass, anycompatiblearray, interval) IS 'values of many counters, at most this old, from shared memory if possible, in the order asked';
COMMENT ON FUNCTION dc_take(regclass, anycompatible, bigint, boolean) IS 'takes units, or changes nothing and returns false';
COMMENT ON COLUMN dcounter.op_slot.closed_at IS 'of a closed or expired partition: when the last ops were written to it';
COMMENT ON COLUMN dcounter.op_slot.forgotten IS 'ops that were written to it until then are no longer known';
COMMENT ON COLUMN dcounter.ledger.ledger IS 'the table of balances, which identifies the ledger';
COMMENT ON COLUMN dcounter.ledger.limits IS 'the stock of the amounts that bounded accounts may still post';
COMMENT ON FUNCTION dcounter.on_ledger_change() IS 'internal: keeps the tables of a ledger from being changed except by its functions';
COMMENT ON FUNCTION dc_transfer_void(regclass, bigint) IS 'ends a pending transfer and gives back the amount that it set aside';
COMMENT ON FUNCTION dc_balance(regclass, anycompatible) IS 'balance of an account, and how much may be withdrawn from it';
COMMENT ON FUNCTION dc_ledger_check(regclass) IS 'inconsistencies in a ledger; no rows if it is sound';
COMMENT ON FUNCTION dc_ledger_detach(regclass, timestamptz) IS 'detaches the entries of old months from a ledger, and carries their balances forward';
COMMENT ON TYPE dc_hll IS 'HyperLogLog: a sketch that estimates the number of distinct items, with a known error';
COMMENT ON FUNCTION dc_hll_bounds(dc_hll, float8) IS 'an interval that contains the number of distinct items with that probability';
COMMENT ON FUNCTION dc_hll_info(dc_hll) IS 'properties of a sketch';
COMMENT ON FUNCTION dc_cms_bounds(dc_cms, anyelement) IS 'weight of an item, with bounds at a confidence of 1 - delta';
COMMENT ON FUNCTION dc_cms_bounds(dc_cms, text) IS 'weight of an item, with bounds at a confidence of 1 - delta';
COMMENT ON FUNCTION dc_cms_union(dc_cms, dc_cms) IS 'sketch of the items of both sketches';
COMMENT ON OPERATOR || (dc_cms, dc_cms) IS 'sketch of the items of both sketches';
COMMENT ON FUNCTION dc_cms_subtract(dc_cms, dc_cms) IS 'sketch without the items of another';
COMMENT ON FUNCTION dc_cms_info(dc_cms) IS 'properties of a sketch';
COMMENT ON FUNCTION dcounter.cms_agg_deserialize(bytea, internal) IS 'internal: a state from its bytes';
COMMENT ON AGGREGATE dc_cms_union_agg(dc_cms) IS 'sketch of the items of all sketches';
COMMENT ON FUNCTION dcounter.topk_from_bytea(bytea) IS 'a dc_topk from its bytes, which are checked';
COMMENT ON CAST (bytea AS dc_topk) IS 'a dc_topk from its bytes, which are checked';
COMMENT ON SEQUENCE dcounter.hlc_clock IS 'the last time that dc_hlc_now() returned, in microseconds since 1970';
COMMENT ON OPERATOR <> (dc_gcounter, dc_gcounter) IS 'is a different state';
COMMENT ON FUNCTION dc_delta(dc_gcounter, dc_gcounter) IS 'what the first dc_gcounter has and the second does not';
COMMENT ON OPERATOR <> (dc_pncounter, dc_pncounter) IS 'is a different state';
COMMENT ON FUNCTION dc_delta(dc_pncounter, dc_pncounter) IS 'what the first dc_pncounter has and the second does not';
COMMENT ON OPERATOR <> (dc_gset, dc_gset) IS 'is a different state';
COMMENT ON FUNCTION dc_delta(dc_gset, dc_gset) IS 'what the first dc_gset has and the second does not';
COMMENT ON OPERATOR <> (dc_orset, dc_orset) IS 'is a different state';
COMMENT ON FUNCTION dc_delta(dc_orset, dc_orset) IS 'what the first dc_orset has and the second does not';
COMMENT ON OPERATOR <> (dc_lww, dc_lww) IS 'is a different state';
COMMENT ON FUNCTION dc_delta(dc_lww, dc_lww) IS 'what the first dc_lww has and the second does not';
COMMENT ON OPERATOR <> (dc_mvreg, dc_mvreg) IS 'is a different state';
COMMENT ON FUNCTION dc_delta(dc_mvreg, dc_mvreg) IS 'what the first dc_mvreg has and the second does not';
COMMENT ON OPERATOR <> (dc_hlc, dc_hlc) IS 'is a different stamp';
COMMENT ON OPERATOR <> (dc_vclock, dc_vclock) IS 'is a different state';
COMMENT ON FUNCTION dc_delta(dc_vclock, dc_vclock) IS 'what the first dc_vclock has and the second does not';
COMMENT ON FUNCTION dc_value(dc_mvreg) IS 'the values of a register, more than one after concurrent writes';
COMMENT ON FUNCTION dc_values(dc_mvreg) IS 'the values of a register, more than one after concurrent writes';
COMMENT ON FUNCTION dc_hlc_now() IS 'a new stamp, later than all that this database has created or seen';
COMMENT ON FUNCTION dc_hlc_after(dc_hlc) IS 'a new stamp, which is also later than another one';
COMMENT ON FUNCTION dc_hlc_node(dc_hlc) IS 'the node that made a stamp';
COMMENT ON FUNCTION dcounter.merge_row() IS 'merges rows that arrive by logical replication with the existing rows';
COMMENT ON COLUMN dc_stat_outbox.held_back IS 'numbers after it, which wait for a transaction that is committing or prepared';
COMMENT ON COLUMN dc_stat_outbox.events IS 'upper bound of the stored events: numbers of transactions that failed to commit are included';
COMMENT ON COLUMN dcounter.consumer.max_retention_age IS 'how long it may keep events from being removed; NULL: forever';
COMMENT ON COLUMN dcounter.consumer.max_retention_size IS 'how many bytes it may keep from being removed; NULL: any number';
COMMENT ON COLUMN dcounter.consumer.cut_off IS 'events up to this seq were removed before it had them';
COMMENT ON COLUMN dcounter.consumer.revived IS 'raised when its members must look for retries again';
COMMENT ON COLUMN dcounter.consumer_member.member IS 'empty for the consumer itself, which has what no member has';
COMMENT ON COLUMN dcounter.consumer_member.positions IS 'the same by lane, unless acked applies to all';
COMMENT ON COLUMN dcounter.consumer_member.attempts IS 'how often events were handed out: pairs of a seq and the attempts of the events up to it; all others were handed out once';
COMMENT ON COLUMN dcounter.consumer_member.skip IS 'whether on_nack was skip at the last fetch, which applies until the next one';
COMMENT ON COLUMN dcounter.consumer_member.retry_due IS 'no retry of its lanes is due before; NULL if there is none';
COMMENT ON COLUMN dcounter.consumer_retry.due_at IS 'when it is delivered again; NULL if it waits for another event of its key or is dead, -infinity if it was dead and was discarded';
COMMENT ON COLUMN dcounter.consumer_retry.spared IS 'how many of these do not count, because an event before it was refused';
COMMENT ON FUNCTION dc_consumer_revoke(text, regrole) IS 'revokes what dc_consumer_grant granted';
COMMENT ON FUNCTION dcounter.last_fetch() IS 'how the last dc_fetch of this session ended: complete, stopped (the next one continues) or busy (others were active)';
COMMENT ON FUNCTION dc_ack(text, bigint, text) IS 'acknowledges everything that was fetched, up to an event';
COMMENT ON FUNCTION dc_nack(text, bigint, interval, text, text) IS 'refuses a fetched event, which is delivered again later (retry) or was tried for the last time (dead)';
COMMENT ON COLUMN dc_stat_consumers.lag_bytes IS 'approximate size of the outbox after its position';
COMMENT ON COLUMN dc_stat_consumers.retries IS 'events that will be delivered again, or wait for such an event';
COMMENT ON COLUMN dc_tables.left_because IS 'what on its tables could run code of its owner';
COMMENT ON COLUMN dcounter.source.distinct_of IS 'the expression whose distinct values count, instead of rows';
COMMENT ON COLUMN dcounter.source.build IS 'who counts the existing rows: worker, or none (only calls of dc_build())';
COMMENT ON COLUMN dcounter.source.replicated IS 'whether rows that a subscription writes are counted';
COMMENT ON COLUMN dcounter.source.on_detach IS 'what happens to the counts of a detached partition: subtract or keep';
COMMENT ON COLUMN dcounter.source_state.epoch IS 'raised by every change of values other than by rows of the source';
COMMENT ON COLUMN dcounter.source_state.pass_to IS 'the current pass: its phase (1: counter, 2: source), the epoch at its start and now, how many keys differed, were noted before, were repaired and were left, and the last key';
COMMENT ON COLUMN dcounter.source_state.passes IS 'completed passes over all keys';
COMMENT ON TABLE dcounter.drift IS 'the last 10,000 differences found between bound counter tables and their sources';
COMMENT ON COLUMN dcounter.drift.epoch IS 'the epoch of the state: a difference is noted once per epoch';
COMMENT ON PROCEDURE dc_build(regclass, int) IS 'adds what a bound counter table lacks of its source, in chunks of this many keys';
COMMENT ON TABLE dcounter.mark IS 'marks: moments at which the values of a counter table were saved';
COMMENT ON TABLE dcounter.mark_value IS 'the values saved by marks, and what they should have been';
COMMENT ON COLUMN dcounter.mark_value.exact IS 'what it should have been; null if not reconciled';
COMMENT ON FUNCTION dc_mark(regclass, text) IS 'saves the exact values of all keys of a counter table under a name';
COMMENT ON FUNCTION dc_unmark(regclass, text) IS 'removes what dc_mark() saved';
COMMENT ON FUNCTION dc_reconcile(regclass, anycompatiblearray, bigint[], text) IS 'corrects values to what they should have been at a mark, and keeps what was added since';
COMMENT ON VIEW dc_stat_drift IS 'how far bound counter tables agree with their sources: those that the caller may read, or all for members of pg_monitor';
COMMENT ON COLUMN dc_stat_drift.last_pass IS 'when the last verification of all keys ended';
COMMENT ON COLUMN dcounter.self.epoch IS 'the number that identifies what this database counts; no other database ever has it';
COMMENT ON COLUMN dcounter.self.starting IS 'it publishes nothing until the other regions have acknowledged the boot';
COMMENT ON COLUMN dcounter.self.begun_at IS 'when it began, or when it entered its state';
COMMENT ON TABLE dcounter.self_mark IS 'what this database has learned about its epoch';
COMMENT ON COLUMN dcounter.self_mark.at IS 'when it was learned, or when the copy was complete';
COMMENT ON TABLE dcounter.region IS 'the last heartbeat of each region and epoch';
COMMENT ON COLUMN dcounter.region.seq IS 'number of heartbeats';
COMMENT ON COLUMN dcounter.region.published IS 'number of the last heartbeat with changes';
COMMENT ON COLUMN dcounter.region.beat_at IS 'what it had committed before then arrived before the heartbeat';
COMMENT ON COLUMN dcounter.region.seen IS 'the last heartbeats that it had received, by region: epoch, seq, boot, beat_at and retired_at (us since 1970)';
COMMENT ON FUNCTION dc_region_init(text) IS 'adds this database to a region, and returns its epoch';
COMMENT ON FUNCTION dc_unreplicate(regclass) IS 'ends the replication of a counter table; its values remain';
COMMENT ON FUNCTION dc_region_check(regclass) IS 'the amounts of each region, and how many keys differ from what the regions have counted';
COMMENT ON FUNCTION dc_region_repair(regclass) IS 'corrects the totals to what the regions have counted; returns how many keys were wrong';
COMMENT ON FUNCTION dcounter.merge_beat() IS 'internal: merges the heartbeats of other regions';
COMMENT ON FUNCTION dc_region_retire(text, boolean) IS 'retires a region, which others then no longer wait for; force is for a region that is lost';
COMMENT ON FUNCTION dc_region_vacuum(regclass, interval) IS 'removes the remains of keys that were deleted this long ago, if all regions know that; returns how many';
COMMENT ON FUNCTION dc_region_join(text, text, text, boolean) IS 'the statements that replicate what another region counts to this database';
COMMENT ON FUNCTION dc_region_refresh(text, text, boolean) IS 'the statements that copy everything that another region knows, once';
COMMENT ON PROCEDURE dc_region_wait_copied(text) IS 'waits until a subscription to another region, or every such subscription, has copied its tables';
COMMENT ON FUNCTION dcounter.merge_grant() IS 'internal: merges units that another region has given, and adds those for this region';
COMMENT ON FUNCTION dc_want(regclass, anycompatible, bigint) IS 'asks other regions for units of a replicated stock; 0 withdraws the request';
COMMENT ON PROCEDURE dc_take_wait(regclass, anycompatible, bigint, interval, boolean) IS 'takes units, and waits this long for them if there are not enough; commits while it waits';
COMMENT ON FUNCTION dc_rights_reclaim(regclass, text, anycompatible) IS 'takes over the units that a retired region may still have, by default of all keys; what it sold without telling others is sold again';
COMMENT ON COLUMN dcounter.limit_rule.users IS 'roles that may use it, besides the owner; - is everybody';
COMMENT ON COLUMN dcounter.limit_rule.refunders IS 'those of them that may also refund and reset';
COMMENT ON COLUMN dcounter.limit_rule.max_keys IS 'how many keys may be in memory; NULL: half of the memory';
COMMENT ON COLUMN dcounter.limit_rule.on_full IS 'the answer for a key for which there is no memory';
COMMENT ON COLUMN dcounter.limit_rule.after_crash IS 'whether keys start with their full budget or with none when it is not known what was used';
COMMENT ON TYPE dcounter.limit_answer IS 'the answer of a limit to a call';
COMMENT ON COLUMN dcounter.limit_answer.retry_after IS 'when such a call will be allowed if there are no other calls; NULL: never';
COMMENT ON COLUMN dcounter.limit_answer.reset_at IS 'when the key will have its full budget';
COMMENT ON COLUMN dcounter.limit_answer.lease IS 'the lease to end with dc_limit_release, if the limit gives leases';
COMMENT ON FUNCTION dc_limit_grant(text, regrole, boolean) IS 'lets a role, or everybody (-), use a limit; with refund, also refund and reset';
COMMENT ON FUNCTION dc_limit_revoke(text, regrole) IS 'revokes what dc_limit_grant granted';
COMMENT ON FUNCTION dc_allow(text, text, bigint) IS 'the column allowed of dc_limit without the rest: the fastest form';
COMMENT ON FUNCTION dc_limit_renew(text, text, bigint) IS 'renews a lease; false if it had ended';
COMMENT ON FUNCTION dc_limit_reset(text, text) IS 'gives a key its full budget; false if it already had it';
COMMENT ON COLUMN dc_stat_limits.full_allowed IS 'calls that were allowed, but not counted, because memory was full';
COMMENT ON COLUMN dc_stat_limits.full_denied IS 'calls that were denied because memory was full';
COMMENT ON COLUMN dcounter.presence_rule.users IS 'roles that may let members enter and leave, and list them, besides the owner; - is everybody';
COMMENT ON COLUMN dcounter.presence_rule.ttl IS 'how long a connection stays without a heartbeat';
COMMENT ON COLUMN dcounter.presence_rule.events IS 'minimum time between two events of a room; NULL: no events';
COMMENT ON COLUMN dcounter.presence_rule.channel IS 'channel of NOTIFY for the same changes';
COMMENT ON COLUMN dcounter.presence_rule.max_members IS 'how many members and rooms may be in memory; NULL: half of the memory';
COMMENT ON COLUMN dcounter.presence_rule.approx IS 'whether rooms only estimate how many members they have';
COMMENT ON COLUMN dcounter.presence_rule.epoch IS 'the epoch in which it was created, or a later one that was reported; NULL without shared memory';
COMMENT ON FUNCTION dc_presence_create(text, interval, interval, text, bigint, boolean, boolean) IS 'creates a presence: members of rooms, as long as they send heartbeats';
COMMENT ON FUNCTION dc_presence_revoke(text, regrole) IS 'revokes what dc_presence_grant granted';
COMMENT ON FUNCTION dc_enter(text, text, text, text, jsonb) IS 'enters a member into a room, by one of its connections; returns how many members are present';
COMMENT ON FUNCTION dc_beat(text, text, text, text) IS 'heartbeat of a connection; false if it was unknown and has entered';
COMMENT ON FUNCTION dc_exit(text, text, text, text) IS 'removes a connection of a member, or with NULL all of them; returns how many members are present';
COMMENT ON FUNCTION dc_presence_list(text, text, text, integer) IS 'n members of a room, in order, from the first or after a given one, which need not be present';
COMMENT ON COLUMN dc_stat_presence.approx IS 'whether its rooms only estimate how many members they have';
COMMENT ON COLUMN dc_stat_presence.joined IS 'how often a member has entered a room';
COMMENT ON COLUMN dc_stat_presence."left" IS 'how often a member has left';
COMMENT ON COLUMN dc_stat_presence.expired IS 'those of them that sent no heartbeat in time';
COMMENT ON COLUMN dc_stat_presence.refused IS 'how often there was no memory for a member';
COMMENT ON COLUMN dc_stat_presence.untold IS 'rooms with a pending event';
COMMENT ON COLUMN dc_stat_presence.epoch IS 'changes when everything that was known before is lost';
COMMENT ON TABLE dcounter.unread IS 'unread tables and their counter tables';
COMMENT ON FUNCTION dc_mark_read(regclass, text, anycompatible, bigint) IS 'records that a member has read a key, or its first messages';
COMMENT ON FUNCTION dc_mark_read(regclass, bigint, anycompatible, bigint) IS 'records that a member has read a key, or its first messages';
COMMENT ON FUNCTION dc_mark_read(regclass, uuid, anycompatible, bigint) IS 'records that a member has read a key, or its first messages';
COMMENT ON FUNCTION dc_unread(regclass, text, anycompatiblearray) IS 'unread counts of several keys for a member';
COMMENT ON FUNCTION dc_unread(regclass, bigint, anycompatiblearray) IS 'unread counts of several keys for a member';
COMMENT ON FUNCTION dc_unread(regclass, uuid, anycompatiblearray) IS 'unread counts of several keys for a member';
COMMENT ON COLUMN dcounter.time_window.windowed IS 'the view that identifies it';
COMMENT ON COLUMN dcounter.time_window.late IS 'what happens to increments that arrive too late: error or drop';
COMMENT ON COLUMN dcounter.time_window.sealed IS 'no increments for times before this are still in progress';
COMMENT ON COLUMN dcounter.time_window.advanced IS 'when rows were last moved out of the level, or removed';
COMMENT ON COLUMN dcounter.window_claim.turn IS 'the number of the turn, which determines the table';
COMMENT ON COLUMN dcounter.window_claim.emptied IS 'all of its rows have been moved';
COMMENT ON FUNCTION dc_window_rotate(regclass, timestamptz) IS 'rolls up and removes buckets that have expired by then';
COMMENT ON FUNCTION dc_window_reconcile(regclass, timestamptz, anycompatiblearray, bigint[]) IS 'sets keys to their exact totals in a sealed bucket';
COMMENT ON FUNCTION dc_top_window(regclass, interval, int) IS 'the keys with the highest counts in the last span of time';
COMMENT ON PROCEDURE dc_seal(regclass, timestamptz) IS 'refuses increments for times before this one, and waits for those in progress';
COMMENT ON COLUMN dc_windows.late IS 'what happens to increments that arrive too late';
COMMENT ON COLUMN dc_windows.sealed IS 'no increments for times before this are still in progress';
COMMENT ON COLUMN dcounter.distinct_table.keep IS 'how long a bucket is kept; NULL: forever';
COMMENT ON COLUMN dcounter.distinct_table.newest IS 'start of the newest bucket that has been folded';
COMMENT ON FUNCTION dc_distinct_reset(regclass, anycompatible) IS 'resets a key, in all buckets';
COMMENT ON FUNCTION dc_distinct(regclass, anycompatible, interval, timestamptz) IS 'how many different items a key has had, with an interval that contains the true number in 95 of 100 cases';
COMMENT ON COLUMN dc_distinct_tables.keep IS 'how long a bucket is kept; NULL: forever';
COMMENT ON COLUMN dc_distinct_tables.newest IS 'start of the newest bucket that has been folded';
COMMENT ON FUNCTION dc_trending(regclass, int) IS 'keys that are counted most recently and most often, as of the last compaction';
COMMENT ON PROCEDURE dc_maintain() IS 'does the work of the background worker once, for the tables of the caller';
COMMENT ON EVENT TRIGGER dcounter_drop IS 'drops what belongs to dropped tables, and refuses to drop what others need';

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
COMMENT ON COLUMN dcounter.counter.idle IS 'the time after which a key that is not written is deleted, NULL for never';
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
