-- The catalog contract: every object of the extension, with what callers and the
-- planner rely on. A new function is added to the list below.
\set ON_ERROR_STOP on
BEGIN;
SELECT plan(116);

-- Functions: signature, result, and what the planner is told: volatility, parallel, strict, cost, rows
CREATE TEMP VIEW members AS
	SELECT p.*, n.nspname AS schema
	FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid JOIN pg_namespace n ON n.oid = p.pronamespace
	WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
		AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'dcounter');
CREATE TEMP TABLE expected (signature text, result text, volatility text, parallel text, strict boolean, cost int, rows int);
-- What has a key, which is of any type that can be one (key.c)
INSERT INTO expected VALUES
	('public.dc_incr(counter regclass, key anycompatible, delta bigint DEFAULT 1)', 'void', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_decr(counter regclass, key anycompatible, delta bigint DEFAULT 1)', 'void', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_incr_hashed(counter regclass, key anycompatible, by text, delta bigint DEFAULT 1)', 'void', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_incr_returning(counter regclass, key anycompatible, delta bigint DEFAULT 1)', 'bigint', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_incr_once(counter regclass, key anycompatible, delta bigint, op_id text)', 'boolean', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_get(counter regclass, key anycompatible)', 'bigint', 'stable', 'restricted', false, 20, 0),
	('public.dc_get(counter regclass, key anycompatible, max_staleness interval)', 'bigint', 'volatile', 'restricted', false, 20, 0),
	('public.dc_info(counter regclass, key anycompatible, OUT value bigint, OUT inc bigint, OUT "dec" bigint, OUT updated_at timestamp with time zone, OUT shards integer, OUT cache_age interval, OUT error double precision)', 'record', 'stable', 'restricted', false, 20, 0),
	('public.dc_total(counter regclass, key anycompatible, OUT value bigint, OUT updated_at timestamp with time zone)', 'record', 'stable', 'restricted', false, 10, 0),
	('public.dc_set(counter regclass, key anycompatible, value bigint)', 'bigint', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_reset(counter regclass, key anycompatible)', 'bigint', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_delete(counter regclass, key anycompatible)', 'bigint', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_restock(stock regclass, key anycompatible, qty bigint)', 'void', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_take(stock regclass, key anycompatible, qty bigint DEFAULT 1, wait boolean DEFAULT false)', 'boolean', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_take_up_to(stock regclass, key anycompatible, qty bigint)', 'bigint', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_hold(stock regclass, key anycompatible, qty bigint DEFAULT 1, ttl interval DEFAULT ''00:10:00''::interval, hold_id uuid DEFAULT gen_random_uuid())', 'uuid', 'volatile', 'unsafe', false, 50, 0);
INSERT INTO expected VALUES
	('public.dc_stock_create(stock text, max_shards integer DEFAULT 64, if_not_exists boolean DEFAULT false)', 'regclass', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_take_all(stock regclass, keys anycompatiblearray, qtys bigint[])', 'boolean', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_hold_all(stock regclass, keys anycompatiblearray, qtys bigint[], ttl interval DEFAULT ''00:10:00''::interval, hold_id uuid DEFAULT gen_random_uuid())', 'uuid', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_hold_confirm(stock regclass, hold_id uuid, qty bigint DEFAULT NULL::bigint, strict boolean DEFAULT true)', 'text', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_hold_release(stock regclass, hold_id uuid, strict boolean DEFAULT true)', 'text', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_holds(stock regclass, key anycompatible DEFAULT NULL::text, OUT key text, OUT hold_id uuid, OUT qty bigint, OUT expires_at timestamp with time zone, OUT age interval)', 'SETOF record', 'stable', 'restricted', false, 100, 100),
	('public.dc_create(counter text, shard_by text DEFAULT ''backend''::text, max_shards integer DEFAULT 64, partitions integer DEFAULT NULL::integer, mode text DEFAULT ''exact''::text, flush_interval interval DEFAULT ''00:00:01''::interval, durability text DEFAULT ''async''::text, op_retention interval DEFAULT ''7 days''::interval, totals text DEFAULT ''direct''::text, sample integer DEFAULT 1, trend interval DEFAULT NULL::interval, if_not_exists boolean DEFAULT false, idle interval DEFAULT NULL::interval)', 'regclass', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_alter(counter regclass, shard_by text DEFAULT NULL::text, max_shards integer DEFAULT NULL::integer, events interval DEFAULT NULL::interval, notify text DEFAULT NULL::text, mode text DEFAULT NULL::text, flush_interval interval DEFAULT NULL::interval, durability text DEFAULT NULL::text, op_retention interval DEFAULT NULL::interval, totals text DEFAULT NULL::text, on_drift text DEFAULT NULL::text, sample integer DEFAULT NULL::integer, trend interval DEFAULT NULL::interval, idle interval DEFAULT NULL::interval)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_drop(counter regclass)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_adopt(counter regclass)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_load(counter regclass, keys anycompatiblearray, amounts bigint[])', 'bigint', 'volatile', 'unsafe', false, 10000, 0),
	('public.dc_incr_many(counter regclass, keys anycompatiblearray, deltas bigint[] DEFAULT NULL::bigint[])', 'void', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_get_many(counter regclass, keys anycompatiblearray, max_staleness interval, OUT key anycompatible, OUT value bigint)', 'SETOF record', 'volatile', 'restricted', false, 100, 100),
	('public.dc_get_many(counter regclass, keys anycompatiblearray, OUT key anycompatible, OUT value bigint)', 'SETOF record', 'stable', 'restricted', false, 100, 100),
	('public.dc_scan(counter regclass, prefix jsonb DEFAULT ''[]''::jsonb, OUT key jsonb, OUT value bigint)', 'SETOF record', 'stable', 'restricted', false, 100, 100),
	('public.dc_top(counter regclass, n integer DEFAULT 10, OUT key text, OUT value bigint, OUT rank bigint)', 'SETOF record', 'stable', 'restricted', false, 100, 10),
	('dcounter.rank_bucket(value bigint, shift integer)', 'integer', 'immutable', 'safe', true, 1, 0),
	('dcounter.on_budget_row_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_budget_create(budget text, if_not_exists boolean DEFAULT false)', 'regclass', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_budget_adopt(budget regclass)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_grant(budget regclass, key anycompatible, amount bigint, name text, expires_at timestamp with time zone DEFAULT ''infinity''::timestamp with time zone, priority integer DEFAULT 0, effective_at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'bigint', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_allowance(budget regclass, key anycompatible, amount bigint, period interval, time_zone text DEFAULT ''UTC''::text, anchor timestamp without time zone DEFAULT ''2000-01-01 00:00:00''::timestamp without time zone, valid_for interval DEFAULT NULL::interval, priority integer DEFAULT 0)', 'timestamp with time zone', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_reserve(budget regclass, key anycompatible, amount bigint, reservation_id uuid, ttl interval DEFAULT ''00:10:00''::interval, at_least bigint DEFAULT NULL::bigint)', 'bigint', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_reserve_all(budget regclass, keys anycompatiblearray, amounts bigint[], reservation_id uuid, ttl interval DEFAULT ''00:10:00''::interval, at_least bigint[] DEFAULT NULL::bigint[])', 'bigint[]', 'volatile', 'unsafe', false, 200, 0),
	('public.dc_settle(budget regclass, reservation_id uuid, cost bigint, overdraft boolean DEFAULT true)', 'text', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_settle(budget regclass, reservation_id uuid, costs bigint[], overdraft boolean DEFAULT true)', 'text', 'volatile', 'unsafe', false, 200, 0),
	('public.dc_release(budget regclass, reservation_id uuid)', 'text', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_budget(budget regclass, key anycompatible, OUT available bigint, OUT reserved bigint, OUT owed bigint, OUT expires_at timestamp with time zone)', 'record', 'stable', 'restricted', false, 100, 0),
	('public.dc_budget_check(budget regclass, OUT key text, OUT granted numeric, OUT lapsed numeric, OUT available numeric, OUT reserved numeric, OUT settled numeric, OUT owed numeric)', 'SETOF record', 'volatile', 'unsafe', false, 100000, 10),
	('public.dc_rank_create(counter regclass, build text DEFAULT ''worker''::text, lock_timeout interval DEFAULT ''00:00:00.2''::interval)', 'regclass', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_rank_drop(counter regclass)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_rank(counter regclass, key anycompatible)', 'bigint', 'stable', 'restricted', false, 100, 0),
	('public.dc_around(counter regclass, key anycompatible, n integer DEFAULT 5, OUT key text, OUT value bigint, OUT rank bigint)', 'SETOF record', 'stable', 'restricted', false, 1000, 10),
	('public.dc_at_rank(counter regclass, rank bigint, n integer DEFAULT 1, OUT key text, OUT value bigint, OUT rank bigint)', 'SETOF record', 'stable', 'restricted', false, 1000, 10),
	('public.dc_trending(counter regclass, n integer DEFAULT 10, OUT key text, OUT score double precision, OUT rank bigint)', 'SETOF record', 'stable', 'restricted', false, 100, 10),
	('dcounter.library_0_2()', 'text', 'stable', 'safe', false, 1, 0),
	('public.dc_worker_start()', 'boolean', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_worker_stop()', 'boolean', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_maintain()', NULL, 'volatile', 'unsafe', false, 1, 0),
	('dcounter.stat_worker(OUT datname name, OUT pid integer, OUT state text, OUT job text, OUT last_run timestamp with time zone, OUT last_run_ms double precision, OUT runs bigint, OUT work_ms double precision, OUT failures bigint, OUT last_error text, OUT last_error_at timestamp with time zone, OUT tables_left bigint)', 'SETOF record', 'volatile', 'restricted', false, 1000, 10),
	('public.dc_sum(counter regclass)', 'numeric', 'stable', 'restricted', false, 10000, 0),
	('public.dc_compact(counter regclass DEFAULT NULL::regclass, max_keys integer DEFAULT NULL::integer)', 'bigint', 'volatile', 'unsafe', false, 10000, 0),
	('public.dc_apply()', 'void', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_stat_reset(counter regclass DEFAULT NULL::regclass)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('dcounter.stat_counters(OUT counter regclass, OUT fed_by text, OUT increments bigint, OUT keys_written bigint, OUT totals_written bigint, OUT writes_per_second double precision, OUT busy_skipped bigint, OUT splits bigint, OUT waits bigint, OUT early_writes bigint, OUT estimated_shard_rows bigint, OUT compaction_lag interval, OUT keys_compacted bigint, OUT last_compaction timestamp with time zone, OUT last_compaction_duration interval, OUT overflowed_keys bigint, OUT reads bigint, OUT mean_read_time_ms double precision, OUT buffered bigint, OUT buffer_full bigint, OUT flushes bigint, OUT keys_flushed bigint, OUT mean_flush_time_ms double precision, OUT cache_hits bigint, OUT cache_misses bigint, OUT cache_evictions bigint, OUT stats_reset timestamp with time zone)', 'SETOF record', 'volatile', 'unsafe', false, 10000, 20),
	('dcounter.stat_shards(counter regclass, OUT shard_rows bigint, OUT active_keys bigint, OUT shard_imbalance double precision, OUT compaction_lag interval, OUT pending_amount numeric)', 'SETOF record', 'volatile', 'unsafe', false, 10000, 1),
	('dcounter.stat_memory(OUT tables bigint, OUT max_tables bigint, OUT without_statistics bigint, OUT evicted bigint)', 'SETOF record', 'volatile', 'unsafe', false, 1000, 1),
	('dcounter.stat_hot_keys(OUT counter regclass, OUT key text, OUT writes_per_second double precision, OUT max_error double precision, OUT writes_last_window double precision)', 'SETOF record', 'volatile', 'unsafe', false, 1000, 100),
	('dcounter.on_catalog_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.on_events_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.stat_outbox(OUT last_seq bigint, OUT horizon bigint, OUT held_back bigint, OUT held_back_by_pid integer, OUT held_back_by_xid xid, OUT events bigint, OUT bytes bigint, OUT partitions integer, OUT current_partition integer, OUT current_since timestamp with time zone, OUT oldest_seq bigint, OUT oldest_created_at timestamp with time zone, OUT oldest_needed_seq bigint, OUT oldest_needed_by text)', 'record', 'volatile', 'unsafe', false, 1000, 0),
	('dcounter.stat_consumers(OUT name text, OUT owner regrole, OUT topics text[], OUT "position" bigint, OUT lag_events bigint, OUT lag_seconds double precision, OUT lag_bytes bigint, OUT outstanding bigint, OUT retries bigint, OUT dead_letters bigint, OUT attempts integer, OUT members integer, OUT lease_until timestamp with time zone, OUT leases_expired integer, OUT cut_off bigint, OUT held_back_by_pid integer, OUT held_back_by_xid xid)', 'SETOF record', 'volatile', 'unsafe', false, 10000, 10),
	('public.dc_flush(counter regclass DEFAULT NULL::regclass)', 'void', 'volatile', 'unsafe', false, 10000, 0),
	('dcounter.stat_buffer(OUT counter regclass, OUT keys bigint, OUT increments bigint, OUT memory bigint, OUT oldest interval, OUT waiting integer, OUT last_flush timestamp with time zone, OUT last_flush_time_ms double precision)', 'SETOF record', 'volatile', 'unsafe', false, 1000, 20),
	('dcounter.on_drop()', 'event_trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.on_ddl()', 'event_trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.on_ddl_begin()', 'event_trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.maintainer(counter regclass, OUT maintained_by text, OUT left_because text)', 'record', 'volatile', 'unsafe', false, 1000, 0),
	('dcounter.totals_way(counter regclass, OUT totals text, OUT compacted_because text)', 'record', 'volatile', 'unsafe', false, 1000, 0),
	('dcounter.on_counter_truncate()', 'trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.on_counter_delete()', 'trigger', 'volatile', 'unsafe', false, 10, 0);
-- Limits
INSERT INTO expected VALUES
	('public.dc_limit_create(name text, algorithm text, rate bigint, per interval, burst bigint DEFAULT NULL::bigint, on_full text DEFAULT ''deny''::text, after_crash text DEFAULT ''open''::text, max_keys bigint DEFAULT NULL::bigint, if_not_exists boolean DEFAULT false)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_limit_alter(name text, rate bigint DEFAULT NULL::bigint, per interval DEFAULT NULL::interval, burst bigint DEFAULT NULL::bigint, on_full text DEFAULT NULL::text, after_crash text DEFAULT NULL::text, max_keys bigint DEFAULT NULL::bigint)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_limit_drop(name text)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_limit_grant(name text, role regrole, refund boolean DEFAULT false)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_limit_revoke(name text, role regrole)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_limit(name text, key text, cost bigint DEFAULT 1)', 'dcounter.limit_answer', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_limit(name text, key anycompatible, cost bigint DEFAULT 1)', 'dcounter.limit_answer', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_allow(name text, key text, cost bigint DEFAULT 1)', 'boolean', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_allow(name text, key anycompatible, cost bigint DEFAULT 1)', 'boolean', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_allow_up_to(name text, key text, cost bigint)', 'bigint', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_allow_up_to(name text, key anycompatible, cost bigint)', 'bigint', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_limit_all(names text[], keys anycompatiblearray, costs bigint[] DEFAULT NULL::bigint[], OUT allowed boolean, OUT remaining bigint, OUT retry_after interval, OUT reset_at timestamp with time zone, OUT rule text, OUT leases bigint[])', 'record', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_limit_peek(name text, key text, cost bigint DEFAULT 1)', 'dcounter.limit_answer', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_limit_peek(name text, key anycompatible, cost bigint DEFAULT 1)', 'dcounter.limit_answer', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_limit_refund(name text, key text, units bigint DEFAULT 1)', 'bigint', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_limit_refund(name text, key anycompatible, units bigint DEFAULT 1)', 'bigint', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_limit_release(name text, key text, lease bigint)', 'boolean', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_limit_release(name text, key anycompatible, lease bigint)', 'boolean', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_limit_renew(name text, key text, lease bigint)', 'boolean', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_limit_renew(name text, key anycompatible, lease bigint)', 'boolean', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_limit_reset(name text, key text)', 'boolean', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_limit_reset(name text, key anycompatible)', 'boolean', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_throttle(key text, burst bigint, rate bigint, per interval, cost bigint DEFAULT 1)', 'dcounter.limit_answer', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_throttle(key anycompatible, burst bigint, rate bigint, per interval, cost bigint DEFAULT 1)', 'dcounter.limit_answer', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_throttle_reset(key anycompatible DEFAULT NULL::text, role regrole DEFAULT NULL::regrole)', 'bigint', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_presence_create(name text, ttl interval DEFAULT ''00:00:30''::interval, events interval DEFAULT NULL::interval, notify text DEFAULT NULL::text, max_members bigint DEFAULT NULL::bigint, approx boolean DEFAULT false, if_not_exists boolean DEFAULT false)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_presence_alter(name text, ttl interval DEFAULT NULL::interval, events interval DEFAULT NULL::interval, notify text DEFAULT NULL::text, max_members bigint DEFAULT NULL::bigint)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_presence_drop(name text)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_presence_grant(name text, role regrole)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_presence_revoke(name text, role regrole)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_enter(name text, room text, member text, conn text DEFAULT ''''::text, meta jsonb DEFAULT NULL::jsonb)', 'bigint', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_enter(name text, room anycompatible, member text, conn text DEFAULT ''''::text, meta jsonb DEFAULT NULL::jsonb)', 'bigint', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_enter(name text, room anycompatible, member anynonarray, conn text DEFAULT ''''::text, meta jsonb DEFAULT NULL::jsonb)', 'bigint', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_beat(name text, room text, member text, conn text DEFAULT ''''::text)', 'boolean', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_beat(name text, room anycompatible, member text, conn text DEFAULT ''''::text)', 'boolean', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_beat(name text, room anycompatible, member anynonarray, conn text DEFAULT ''''::text)', 'boolean', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_beat_many(name text, rooms anycompatiblearray, members anycompatiblearray, conns text[] DEFAULT NULL::text[])', 'bigint', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_exit(name text, room text, member text, conn text DEFAULT ''''::text)', 'bigint', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_exit(name text, room anycompatible, member text, conn text DEFAULT ''''::text)', 'bigint', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_exit(name text, room anycompatible, member anynonarray, conn text DEFAULT ''''::text)', 'bigint', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_present(name text, room text)', 'bigint', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_present(name text, room anycompatible)', 'bigint', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_presence_list(name text, room text, after text DEFAULT NULL::text, n integer DEFAULT 100, OUT member text, OUT meta jsonb)', 'SETOF record', 'volatile', 'unsafe', false, 100, 100),
	('public.dc_presence_list(name text, room anycompatible, after text DEFAULT NULL::text, n integer DEFAULT 100, OUT member text, OUT meta jsonb)', 'SETOF record', 'volatile', 'unsafe', false, 100, 100),
	('dcounter.stat_presence(OUT name text, OUT owner regrole, OUT approx boolean, OUT rooms bigint, OUT members bigint, OUT connections bigint, OUT memory bigint, OUT joined bigint, OUT "left" bigint, OUT expired bigint, OUT refused bigint, OUT untold bigint, OUT epoch bigint)', 'SETOF record', 'volatile', 'unsafe', false, 1000, 20),
	('dcounter.stat_limits(OUT rule text, OUT owner regrole, OUT keys bigint, OUT memory bigint, OUT allowed bigint, OUT denied bigint, OUT full_allowed bigint, OUT full_denied bigint)', 'SETOF record', 'volatile', 'unsafe', false, 1000, 20);
-- Stamps of the hybrid logical clock
INSERT INTO expected VALUES
	('public.dc_node()', 'text', 'stable', 'safe', false, 1, 0),
	('public.dc_hlc_now()', 'dc_hlc', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_hlc_after(stamp dc_hlc)', 'dc_hlc', 'volatile', 'unsafe', true, 20, 0),
	('public.dc_hlc_time(stamp dc_hlc)', 'timestamp with time zone', 'immutable', 'safe', true, 1, 0),
	('public.dc_hlc_node(stamp dc_hlc)', 'text', 'immutable', 'safe', true, 1, 0);
-- Mergeable types: input, output, comparison and merging
INSERT INTO expected VALUES
	('dcounter.gcounter_in(cstring)', 'dc_gcounter', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_out(dc_gcounter)', 'cstring', 'immutable', 'safe', true, 10, 0),
	('dcounter.gcounter_recv(internal)', 'dc_gcounter', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_send(dc_gcounter)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_to_jsonb(dc_gcounter)', 'jsonb', 'immutable', 'safe', true, 10, 0),
	('dcounter.pncounter_in(cstring)', 'dc_pncounter', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_out(dc_pncounter)', 'cstring', 'immutable', 'safe', true, 10, 0),
	('dcounter.pncounter_recv(internal)', 'dc_pncounter', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_send(dc_pncounter)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_to_jsonb(dc_pncounter)', 'jsonb', 'immutable', 'safe', true, 10, 0),
	('dcounter.gset_in(cstring)', 'dc_gset', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_out(dc_gset)', 'cstring', 'immutable', 'safe', true, 10, 0),
	('dcounter.gset_recv(internal)', 'dc_gset', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_send(dc_gset)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_to_jsonb(dc_gset)', 'jsonb', 'immutable', 'safe', true, 10, 0),
	('dcounter.orset_in(cstring)', 'dc_orset', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_out(dc_orset)', 'cstring', 'immutable', 'safe', true, 10, 0),
	('dcounter.orset_recv(internal)', 'dc_orset', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_send(dc_orset)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_to_jsonb(dc_orset)', 'jsonb', 'immutable', 'safe', true, 10, 0),
	('dcounter.lww_in(cstring)', 'dc_lww', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_out(dc_lww)', 'cstring', 'immutable', 'safe', true, 10, 0),
	('dcounter.lww_recv(internal)', 'dc_lww', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_send(dc_lww)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_to_jsonb(dc_lww)', 'jsonb', 'immutable', 'safe', true, 10, 0),
	('dcounter.mvreg_in(cstring)', 'dc_mvreg', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_out(dc_mvreg)', 'cstring', 'immutable', 'safe', true, 10, 0),
	('dcounter.mvreg_recv(internal)', 'dc_mvreg', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_send(dc_mvreg)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_to_jsonb(dc_mvreg)', 'jsonb', 'immutable', 'safe', true, 10, 0),
	('dcounter.hlc_in(cstring)', 'dc_hlc', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_out(dc_hlc)', 'cstring', 'immutable', 'safe', true, 10, 0),
	('dcounter.hlc_recv(internal)', 'dc_hlc', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_send(dc_hlc)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_to_jsonb(dc_hlc)', 'jsonb', 'immutable', 'safe', true, 10, 0),
	('dcounter.vclock_in(cstring)', 'dc_vclock', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_out(dc_vclock)', 'cstring', 'immutable', 'safe', true, 10, 0),
	('dcounter.vclock_recv(internal)', 'dc_vclock', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_send(dc_vclock)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_to_jsonb(dc_vclock)', 'jsonb', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_eq(dc_gcounter, dc_gcounter)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_ne(dc_gcounter, dc_gcounter)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_le(dc_gcounter, dc_gcounter)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_lt(dc_gcounter, dc_gcounter)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_ge(dc_gcounter, dc_gcounter)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_gt(dc_gcounter, dc_gcounter)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_concurrent(dc_gcounter, dc_gcounter)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_hash(dc_gcounter)', 'integer', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_hash_extended(dc_gcounter, bigint)', 'bigint', 'immutable', 'safe', true, 1, 0),
	('public.dc_merge(a dc_gcounter, b dc_gcounter)', 'dc_gcounter', 'immutable', 'safe', true, 10, 0),
	('public.dc_delta(after dc_gcounter, before dc_gcounter)', 'dc_gcounter', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_eq(dc_pncounter, dc_pncounter)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_ne(dc_pncounter, dc_pncounter)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_le(dc_pncounter, dc_pncounter)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_lt(dc_pncounter, dc_pncounter)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_ge(dc_pncounter, dc_pncounter)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_gt(dc_pncounter, dc_pncounter)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_concurrent(dc_pncounter, dc_pncounter)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_hash(dc_pncounter)', 'integer', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_hash_extended(dc_pncounter, bigint)', 'bigint', 'immutable', 'safe', true, 1, 0),
	('public.dc_merge(a dc_pncounter, b dc_pncounter)', 'dc_pncounter', 'immutable', 'safe', true, 10, 0),
	('public.dc_delta(after dc_pncounter, before dc_pncounter)', 'dc_pncounter', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_eq(dc_gset, dc_gset)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_ne(dc_gset, dc_gset)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_le(dc_gset, dc_gset)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_lt(dc_gset, dc_gset)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_ge(dc_gset, dc_gset)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_gt(dc_gset, dc_gset)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_concurrent(dc_gset, dc_gset)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_hash(dc_gset)', 'integer', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_hash_extended(dc_gset, bigint)', 'bigint', 'immutable', 'safe', true, 1, 0),
	('public.dc_merge(a dc_gset, b dc_gset)', 'dc_gset', 'immutable', 'safe', true, 10, 0),
	('public.dc_delta(after dc_gset, before dc_gset)', 'dc_gset', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_eq(dc_orset, dc_orset)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_ne(dc_orset, dc_orset)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_le(dc_orset, dc_orset)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_lt(dc_orset, dc_orset)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_ge(dc_orset, dc_orset)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_gt(dc_orset, dc_orset)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_concurrent(dc_orset, dc_orset)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_hash(dc_orset)', 'integer', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_hash_extended(dc_orset, bigint)', 'bigint', 'immutable', 'safe', true, 1, 0),
	('public.dc_merge(a dc_orset, b dc_orset)', 'dc_orset', 'immutable', 'safe', true, 10, 0),
	('public.dc_delta(after dc_orset, before dc_orset)', 'dc_orset', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_eq(dc_lww, dc_lww)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_ne(dc_lww, dc_lww)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_le(dc_lww, dc_lww)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_lt(dc_lww, dc_lww)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_ge(dc_lww, dc_lww)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_gt(dc_lww, dc_lww)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_concurrent(dc_lww, dc_lww)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_hash(dc_lww)', 'integer', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_hash_extended(dc_lww, bigint)', 'bigint', 'immutable', 'safe', true, 1, 0),
	('public.dc_merge(a dc_lww, b dc_lww)', 'dc_lww', 'immutable', 'safe', true, 10, 0),
	('public.dc_delta(after dc_lww, before dc_lww)', 'dc_lww', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_eq(dc_mvreg, dc_mvreg)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_ne(dc_mvreg, dc_mvreg)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_le(dc_mvreg, dc_mvreg)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_lt(dc_mvreg, dc_mvreg)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_ge(dc_mvreg, dc_mvreg)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_gt(dc_mvreg, dc_mvreg)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_concurrent(dc_mvreg, dc_mvreg)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_hash(dc_mvreg)', 'integer', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_hash_extended(dc_mvreg, bigint)', 'bigint', 'immutable', 'safe', true, 1, 0),
	('public.dc_merge(a dc_mvreg, b dc_mvreg)', 'dc_mvreg', 'immutable', 'safe', true, 10, 0),
	('public.dc_delta(after dc_mvreg, before dc_mvreg)', 'dc_mvreg', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_eq(dc_hlc, dc_hlc)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_ne(dc_hlc, dc_hlc)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.hlc_le(dc_hlc, dc_hlc)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.hlc_lt(dc_hlc, dc_hlc)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.hlc_ge(dc_hlc, dc_hlc)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.hlc_gt(dc_hlc, dc_hlc)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_hash(dc_hlc)', 'integer', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_hash_extended(dc_hlc, bigint)', 'bigint', 'immutable', 'safe', true, 1, 0),
	('dcounter.hlc_cmp(dc_hlc, dc_hlc)', 'integer', 'immutable', 'safe', true, 1, 0),
	('public.dc_merge(a dc_hlc, b dc_hlc)', 'dc_hlc', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_eq(dc_vclock, dc_vclock)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_ne(dc_vclock, dc_vclock)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_le(dc_vclock, dc_vclock)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_lt(dc_vclock, dc_vclock)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_ge(dc_vclock, dc_vclock)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_gt(dc_vclock, dc_vclock)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_concurrent(dc_vclock, dc_vclock)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('dcounter.crdt_hash(dc_vclock)', 'integer', 'immutable', 'safe', true, 1, 0),
	('dcounter.crdt_hash_extended(dc_vclock, bigint)', 'bigint', 'immutable', 'safe', true, 1, 0),
	('public.dc_merge(a dc_vclock, b dc_vclock)', 'dc_vclock', 'immutable', 'safe', true, 10, 0),
	('public.dc_delta(after dc_vclock, before dc_vclock)', 'dc_vclock', 'immutable', 'safe', true, 10, 0);
-- Mergeable types: what each has of its own
INSERT INTO expected VALUES
	('public.dc_gcounter()', 'dc_gcounter', 'immutable', 'safe', true, 1, 0),
	('public.dc_pncounter()', 'dc_pncounter', 'immutable', 'safe', true, 1, 0),
	('public.dc_vclock()', 'dc_vclock', 'immutable', 'safe', true, 1, 0),
	('public.dc_add(counter dc_gcounter, amount bigint DEFAULT 1, node text DEFAULT dc_node())', 'dc_gcounter', 'immutable', 'safe', true, 10, 0),
	('public.dc_add(counter dc_pncounter, amount bigint DEFAULT 1, node text DEFAULT dc_node())', 'dc_pncounter', 'immutable', 'safe', true, 10, 0),
	('public.dc_add(clock dc_vclock, amount bigint DEFAULT 1, node text DEFAULT dc_node())', 'dc_vclock', 'immutable', 'safe', true, 10, 0),
	('public.dc_reset(counter dc_pncounter)', 'dc_pncounter', 'immutable', 'safe', true, 10, 0),
	('public.dc_value(counter dc_gcounter)', 'bigint', 'immutable', 'safe', true, 10, 0),
	('public.dc_value(counter dc_pncounter)', 'bigint', 'immutable', 'safe', true, 10, 0),
	('public.dc_values(counter dc_gcounter)', 'TABLE(node text, amount bigint)', 'immutable', 'safe', true, 10, 10),
	('public.dc_values(counter dc_pncounter)', 'TABLE(node text, inc bigint, "dec" bigint, inc_reset bigint, dec_reset bigint)', 'immutable', 'safe', true, 10, 10),
	('public.dc_values(clock dc_vclock)', 'TABLE(node text, amount bigint)', 'immutable', 'safe', true, 10, 10),
	('public.dc_gset()', 'dc_gset', 'immutable', 'safe', true, 1, 0),
	('public.dc_orset()', 'dc_orset', 'immutable', 'safe', true, 1, 0),
	('public.dc_add(set dc_gset, element text)', 'dc_gset', 'immutable', 'safe', true, 10, 0),
	('public.dc_add(set dc_orset, element text, node text DEFAULT dc_node())', 'dc_orset', 'immutable', 'safe', true, 10, 0),
	('public.dc_remove(set dc_orset, element text)', 'dc_orset', 'immutable', 'safe', true, 10, 0),
	('public.dc_reset(set dc_orset)', 'dc_orset', 'immutable', 'safe', true, 10, 0),
	('public.dc_contains(set dc_gset, element text)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('public.dc_value(set dc_gset)', 'text[]', 'immutable', 'safe', true, 10, 0),
	('public.dc_values(set dc_gset)', 'SETOF text', 'immutable', 'safe', true, 10, 100),
	('public.dc_contains(set dc_orset, element text)', 'boolean', 'immutable', 'safe', true, 10, 0),
	('public.dc_value(set dc_orset)', 'text[]', 'immutable', 'safe', true, 10, 0),
	('public.dc_values(set dc_orset)', 'SETOF text', 'immutable', 'safe', true, 10, 100),
	('public.dc_lww()', 'dc_lww', 'immutable', 'safe', true, 1, 0),
	('public.dc_mvreg()', 'dc_mvreg', 'immutable', 'safe', true, 1, 0),
	('public.dc_set(register dc_lww, value jsonb)', 'dc_lww', 'volatile', 'unsafe', true, 10, 0),
	('public.dc_set_as(register dc_lww, value jsonb, node text)', 'dc_lww', 'volatile', 'unsafe', true, 10, 0),
	('public.dc_set(register dc_mvreg, value jsonb)', 'dc_mvreg', 'stable', 'safe', true, 10, 0),
	('public.dc_set_as(register dc_mvreg, value jsonb, node text)', 'dc_mvreg', 'immutable', 'safe', true, 10, 0),
	('public.dc_reset(register dc_mvreg)', 'dc_mvreg', 'immutable', 'safe', true, 10, 0),
	('public.dc_value(register dc_lww)', 'jsonb', 'immutable', 'safe', true, 10, 0),
	('public.dc_value(register dc_mvreg)', 'jsonb[]', 'immutable', 'safe', true, 10, 0),
	('public.dc_values(register dc_mvreg)', 'SETOF jsonb', 'immutable', 'safe', true, 10, 10),
	('public.dc_stamp(register dc_lww)', 'dc_hlc', 'immutable', 'safe', true, 1, 0);
-- Mergeable types: aggregates, and rows that merge
INSERT INTO expected VALUES
	('public.dc_merge_agg(dc_gcounter)', 'dc_gcounter', 'immutable', 'safe', false, 1, 0),
	('public.dc_merge_agg(dc_pncounter)', 'dc_pncounter', 'immutable', 'safe', false, 1, 0),
	('public.dc_merge_agg(dc_lww)', 'dc_lww', 'immutable', 'safe', false, 1, 0),
	('public.dc_merge_agg(dc_hlc)', 'dc_hlc', 'immutable', 'safe', false, 1, 0),
	('public.dc_merge_agg(dc_vclock)', 'dc_vclock', 'immutable', 'safe', false, 1, 0),
	('dcounter.crdt_agg_combine(internal, internal)', 'internal', 'immutable', 'safe', false, 20, 0),
	('dcounter.crdt_agg_serialize(internal)', 'bytea', 'immutable', 'safe', true, 20, 0),
	('dcounter.crdt_agg_deserialize(bytea, internal)', 'internal', 'immutable', 'safe', true, 20, 0),
	('dcounter.crdt_agg_add(internal, dc_gset)', 'internal', 'immutable', 'safe', false, 10, 0),
	('dcounter.crdt_agg_final(internal, dc_gset)', 'dc_gset', 'immutable', 'safe', false, 20, 0),
	('dcounter.crdt_agg_add(internal, dc_orset)', 'internal', 'immutable', 'safe', false, 10, 0),
	('dcounter.crdt_agg_final(internal, dc_orset)', 'dc_orset', 'immutable', 'safe', false, 20, 0),
	('dcounter.crdt_agg_add(internal, dc_mvreg)', 'internal', 'immutable', 'safe', false, 10, 0),
	('dcounter.crdt_agg_final(internal, dc_mvreg)', 'dc_mvreg', 'immutable', 'safe', false, 20, 0),
	('public.dc_merge_agg(dc_gset)', 'dc_gset', 'immutable', 'safe', false, 1, 0),
	('public.dc_merge_agg(dc_orset)', 'dc_orset', 'immutable', 'safe', false, 1, 0),
	('public.dc_merge_agg(dc_mvreg)', 'dc_mvreg', 'immutable', 'safe', false, 1, 0),
	('dcounter.merge_row()', 'trigger', 'volatile', 'unsafe', false, 10, 0);
-- Increments that count once
INSERT INTO expected VALUES
	('public.dc_incr_once_many(counter regclass, keys anycompatiblearray, deltas bigint[], op_ids text[])', 'bigint', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_op_status(counter regclass, op_id text, OUT applied boolean, OUT key text, OUT delta bigint, OUT at timestamp with time zone)', 'SETOF record', 'volatile', 'unsafe', false, 20, 1),
	('dcounter.on_op_slot_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0);
-- Writing events
INSERT INTO expected VALUES
	('public.dc_publish(topic text, key text, type text, payload jsonb, headers jsonb DEFAULT NULL::jsonb)', 'uuid', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_publish(topic text, key anycompatible, type text, payload jsonb, headers jsonb DEFAULT NULL::jsonb)', 'uuid', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_outbox_attach(source regclass, topic text DEFAULT NULL::text, key_columns text[] DEFAULT NULL::text[], columns text[] DEFAULT NULL::text[], condition text DEFAULT NULL::text, sink text DEFAULT ''table''::text, if_not_exists boolean DEFAULT false)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_outbox_detach(source regclass)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('dcounter.on_outbox_insert()', 'trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.outbox_capture()', 'trigger', 'volatile', 'unsafe', false, 10, 0);
-- Consumers of events
INSERT INTO expected VALUES
('public.dc_consumer_create(name text, topics text[] DEFAULT NULL::text[], start text DEFAULT ''now''::text, if_not_exists boolean DEFAULT false)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_consumer_alter(name text, topics text[] DEFAULT NULL::text[], lease interval DEFAULT NULL::interval, max_attempts integer DEFAULT NULL::integer, on_nack text DEFAULT NULL::text, max_retention_age interval DEFAULT NULL::interval, max_retention_size bigint DEFAULT NULL::bigint)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_consumer_drop(name text)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_consumer_grant(name text, role regrole)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_consumer_revoke(name text, role regrole)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_fetch(consumer text, max_events integer DEFAULT 100, wait interval DEFAULT ''00:00:00''::interval, member text DEFAULT NULL::text)', 'TABLE(seq bigint, id uuid, topic text, key text, type text, payload jsonb, headers jsonb, created_at timestamp with time zone, attempt integer)', 'volatile', 'unsafe', false, 100, 100),
	('dcounter.last_fetch()', 'text', 'volatile', 'restricted', false, 1, 0),
	('public.dc_ack(consumer text, seq bigint, member text DEFAULT NULL::text)', 'void', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_nack(consumer text, seq bigint, delay interval DEFAULT ''00:00:10''::interval, reason text DEFAULT NULL::text, member text DEFAULT NULL::text)', 'text', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_seek(consumer text, "position" text)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_seek(consumer text, "position" bigint)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_dead_letter_retry(consumer text, seq bigint DEFAULT NULL::bigint)', 'bigint', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_dead_letter_discard(consumer text, seq bigint DEFAULT NULL::bigint)', 'bigint', 'volatile', 'unsafe', false, 1000, 0);
-- dc_topk
INSERT INTO expected VALUES
	('dcounter.topk_in(cstring)', 'dc_topk', 'immutable', 'safe', true, 10, 0),
	('dcounter.topk_out(dc_topk)', 'cstring', 'immutable', 'safe', true, 1, 0),
	('dcounter.topk_recv(internal)', 'dc_topk', 'immutable', 'safe', true, 10, 0),
	('dcounter.topk_send(dc_topk)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('dcounter.topk_from_bytea(bytea)', 'dc_topk', 'immutable', 'safe', true, 10, 0),
	('dcounter.topk_to_bytea(dc_topk)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('public.dc_topk(k integer, counters integer DEFAULT NULL::integer)', 'dc_topk', 'immutable', 'safe', false, 1, 0),
	('public.dc_topk_union(a dc_topk, b dc_topk)', 'dc_topk', 'immutable', 'safe', true, 100, 0),
	('public.dc_topk_list(sketch dc_topk, n integer DEFAULT NULL::integer)', 'TABLE(rank bigint, item text, estimate bigint, lower bigint, upper bigint, guaranteed boolean)', 'immutable', 'safe', false, 20, 10),
	('public.dc_topk_heavy(sketch dc_topk, share double precision)', 'TABLE(rank bigint, item text, estimate bigint, lower bigint, upper bigint, guaranteed boolean)', 'immutable', 'safe', true, 20, 10),
	('public.dc_topk_info(sketch dc_topk, OUT k integer, OUT counters integer, OUT items integer, OUT total_weight bigint, OUT max_error bigint, OUT exact boolean, OUT bytes integer)', 'record', 'immutable', 'safe', true, 1, 0),
	('public.dc_topk_add(sketch dc_topk, item anyelement, weight bigint DEFAULT 1)', 'dc_topk', 'stable', 'safe', false, 50, 0),
	('public.dc_topk_estimate(sketch dc_topk, item anyelement)', 'bigint', 'stable', 'safe', true, 10, 0),
	('public.dc_topk_bounds(sketch dc_topk, item anyelement, OUT lower bigint, OUT estimate bigint, OUT upper bigint)', 'record', 'stable', 'safe', true, 10, 0),
	('dcounter.topk_trans(internal, item anyelement, k integer)', 'internal', 'stable', 'safe', false, 2, 0),
	('public.dc_topk_agg(item anyelement, k integer)', 'dc_topk', 'immutable', 'safe', false, 1, 0),
	('dcounter.topk_trans(internal, item anyelement, k integer, weight bigint)', 'internal', 'stable', 'safe', false, 2, 0),
	('public.dc_topk_agg(item anyelement, k integer, weight bigint)', 'dc_topk', 'immutable', 'safe', false, 1, 0),
	('dcounter.topk_trans(internal, item anyelement, k integer, weight bigint, counters integer)', 'internal', 'stable', 'safe', false, 2, 0),
	('public.dc_topk_agg(item anyelement, k integer, weight bigint, counters integer)', 'dc_topk', 'immutable', 'safe', false, 1, 0),
	('public.dc_topk_add(sketch dc_topk, item text, weight bigint DEFAULT 1)', 'dc_topk', 'immutable', 'safe', false, 50, 0),
	('public.dc_topk_estimate(sketch dc_topk, item text)', 'bigint', 'immutable', 'safe', true, 10, 0),
	('public.dc_topk_bounds(sketch dc_topk, item text, OUT lower bigint, OUT estimate bigint, OUT upper bigint)', 'record', 'immutable', 'safe', true, 10, 0),
	('dcounter.topk_trans(internal, item text, k integer)', 'internal', 'immutable', 'safe', false, 2, 0),
	('public.dc_topk_agg(item text, k integer)', 'dc_topk', 'immutable', 'safe', false, 1, 0),
	('dcounter.topk_trans(internal, item text, k integer, weight bigint)', 'internal', 'immutable', 'safe', false, 2, 0),
	('public.dc_topk_agg(item text, k integer, weight bigint)', 'dc_topk', 'immutable', 'safe', false, 1, 0),
	('dcounter.topk_trans(internal, item text, k integer, weight bigint, counters integer)', 'internal', 'immutable', 'safe', false, 2, 0),
	('public.dc_topk_agg(item text, k integer, weight bigint, counters integer)', 'dc_topk', 'immutable', 'safe', false, 1, 0),
	('public.dc_topk_union_agg(dc_topk)', 'dc_topk', 'immutable', 'safe', false, 1, 0),
	('dcounter.topk_union_trans(internal, dc_topk)', 'internal', 'immutable', 'safe', false, 50, 0),
	('dcounter.topk_combine(internal, internal)', 'internal', 'immutable', 'safe', false, 50, 0),
	('dcounter.topk_union_combine(internal, internal)', 'internal', 'immutable', 'safe', false, 50, 0),
	('dcounter.topk_serialize(internal)', 'bytea', 'immutable', 'safe', true, 20, 0),
	('dcounter.topk_deserialize(bytea, internal)', 'internal', 'immutable', 'safe', true, 20, 0),
	('dcounter.topk_final(internal)', 'dc_topk', 'immutable', 'safe', false, 20, 0);
-- dc_hll
INSERT INTO expected VALUES
	('dcounter.hll_in(cstring, oid, integer)', 'dc_hll', 'immutable', 'safe', true, 10, 0),
	('dcounter.hll_out(dc_hll)', 'cstring', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_recv(internal, oid, integer)', 'dc_hll', 'immutable', 'safe', true, 10, 0),
	('dcounter.hll_send(dc_hll)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_typmod_in(cstring[])', 'integer', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_typmod_out(integer)', 'cstring', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_enforce(dc_hll, integer, boolean)', 'dc_hll', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_from_bytea(bytea)', 'dc_hll', 'immutable', 'safe', true, 10, 0),
	('dcounter.hll_to_bytea(dc_hll)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('public.dc_hll("precision" integer DEFAULT 14)', 'dc_hll', 'immutable', 'safe', true, 1, 0),
	('public.dc_hll_add(h dc_hll, item text)', 'dc_hll', 'immutable', 'safe', false, 20, 0),
	('public.dc_hll_would_change(h dc_hll, item text)', 'boolean', 'immutable', 'safe', false, 10, 0),
	('public.dc_hll_add(h dc_hll, item anyelement)', 'dc_hll', 'stable', 'safe', false, 20, 0),
	('public.dc_hll_would_change(h dc_hll, item anyelement)', 'boolean', 'stable', 'safe', false, 10, 0),
	('public.dc_hll_add_many(h dc_hll, items anyarray)', 'dc_hll', 'stable', 'safe', true, 50, 0),
	('public.dc_hll_union(a dc_hll, b dc_hll)', 'dc_hll', 'immutable', 'safe', true, 50, 0),
	('public.dc_hll_reduce(h dc_hll, "precision" integer)', 'dc_hll', 'immutable', 'safe', true, 50, 0),
	('public.dc_hll_count(h dc_hll)', 'bigint', 'immutable', 'safe', true, 20, 0),
	('public.dc_hll_estimate(h dc_hll)', 'double precision', 'immutable', 'safe', true, 20, 0),
	('public.dc_hll_bounds(h dc_hll, confidence double precision DEFAULT 0.95, OUT lower double precision, OUT estimate double precision, OUT upper double precision)', 'record', 'immutable', 'safe', true, 20, 0),
	('public.dc_hll_info(h dc_hll, OUT "precision" integer, OUT hash text, OUT form text, OUT registers integer, OUT tokens integer, OUT relative_error double precision, OUT bytes integer)', 'record', 'immutable', 'safe', true, 50, 0),
	('public.dc_hll_intersect(a dc_hll, b dc_hll, confidence double precision DEFAULT 0.95, OUT lower double precision, OUT estimate double precision, OUT upper double precision)', 'record', 'immutable', 'safe', true, 1000, 0),
	('public.dc_hll_difference(a dc_hll, b dc_hll, confidence double precision DEFAULT 0.95, OUT lower double precision, OUT estimate double precision, OUT upper double precision)', 'record', 'immutable', 'safe', true, 1000, 0),
	('public.dc_hll_jaccard(a dc_hll, b dc_hll)', 'double precision', 'immutable', 'safe', true, 1000, 0),
	('public.dc_hll_from_redis(value bytea)', 'dc_hll', 'immutable', 'safe', true, 50, 0),
	('public.dc_hll_to_redis(h dc_hll)', 'bytea', 'immutable', 'safe', true, 50, 0),
	('public.dc_hll_from_postgresql_hll(value bytea)', 'dc_hll', 'immutable', 'safe', true, 50, 0),
	('public.dc_hll_to_postgresql_hll(h dc_hll)', 'bytea', 'immutable', 'safe', true, 50, 0),
	('dcounter.hll_eq(dc_hll, dc_hll)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_ne(dc_hll, dc_hll)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_lt(dc_hll, dc_hll)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_le(dc_hll, dc_hll)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_gt(dc_hll, dc_hll)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_ge(dc_hll, dc_hll)', 'boolean', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_cmp(dc_hll, dc_hll)', 'integer', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_hash(dc_hll)', 'integer', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_hash_extended(dc_hll, bigint)', 'bigint', 'immutable', 'safe', true, 1, 0),
	('dcounter.hll_agg_add(internal, text)', 'internal', 'immutable', 'safe', false, 2, 0),
	('dcounter.hll_agg_add(internal, text, integer)', 'internal', 'immutable', 'safe', false, 2, 0),
	('dcounter.hll_agg_add(internal, anyelement)', 'internal', 'stable', 'safe', false, 2, 0),
	('dcounter.hll_agg_add(internal, anyelement, integer)', 'internal', 'stable', 'safe', false, 2, 0),
	('dcounter.hll_agg_union(internal, dc_hll)', 'internal', 'immutable', 'safe', false, 20, 0),
	('dcounter.hll_agg_combine(internal, internal)', 'internal', 'immutable', 'safe', false, 20, 0),
	('dcounter.hll_agg_combine_union(internal, internal)', 'internal', 'immutable', 'safe', false, 20, 0),
	('dcounter.hll_agg_serialize(internal)', 'bytea', 'immutable', 'safe', true, 20, 0),
	('dcounter.hll_agg_deserialize(bytea, internal)', 'internal', 'immutable', 'safe', true, 20, 0),
	('dcounter.hll_agg_final(internal)', 'dc_hll', 'immutable', 'safe', false, 20, 0),
	('dcounter.hll_agg_count(internal)', 'bigint', 'immutable', 'safe', false, 10, 0),
	('public.dc_hll_agg(item text)', 'dc_hll', 'immutable', 'safe', false, 1, 0),
	('public.dc_count_distinct(item text)', 'bigint', 'immutable', 'safe', false, 1, 0),
	('public.dc_hll_agg(item text, "precision" integer)', 'dc_hll', 'immutable', 'safe', false, 1, 0),
	('public.dc_count_distinct(item text, "precision" integer)', 'bigint', 'immutable', 'safe', false, 1, 0),
	('public.dc_hll_agg(item anyelement)', 'dc_hll', 'immutable', 'safe', false, 1, 0),
	('public.dc_count_distinct(item anyelement)', 'bigint', 'immutable', 'safe', false, 1, 0),
	('public.dc_hll_agg(item anyelement, "precision" integer)', 'dc_hll', 'immutable', 'safe', false, 1, 0),
	('public.dc_count_distinct(item anyelement, "precision" integer)', 'bigint', 'immutable', 'safe', false, 1, 0),
	('public.dc_hll_union_agg(h dc_hll)', 'dc_hll', 'immutable', 'safe', false, 1, 0);
-- dc_cms
INSERT INTO expected VALUES
	('dcounter.cms_in(cstring)', 'dc_cms', 'immutable', 'safe', true, 10, 0),
	('dcounter.cms_out(dc_cms)', 'cstring', 'immutable', 'safe', true, 1, 0),
	('dcounter.cms_recv(internal)', 'dc_cms', 'immutable', 'safe', true, 10, 0),
	('dcounter.cms_send(dc_cms)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('dcounter.cms_from_bytea(bytea)', 'dc_cms', 'immutable', 'safe', true, 10, 0),
	('dcounter.cms_to_bytea(dc_cms)', 'bytea', 'immutable', 'safe', true, 1, 0),
	('public.dc_cms(epsilon double precision DEFAULT 0.001, delta double precision DEFAULT 0.01, conservative boolean DEFAULT false)', 'dc_cms', 'immutable', 'safe', true, 1, 0),
	('public.dc_cms_add(c dc_cms, item anyelement, weight bigint DEFAULT 1)', 'dc_cms', 'stable', 'safe', false, 10, 0),
	('public.dc_cms_estimate(c dc_cms, item anyelement)', 'bigint', 'stable', 'safe', true, 5, 0),
	('public.dc_cms_bounds(c dc_cms, item anyelement, OUT lower bigint, OUT estimate bigint, OUT upper bigint)', 'record', 'stable', 'safe', true, 5, 0),
	('public.dc_cms_agg(item anyelement, epsilon double precision, delta double precision)', 'dc_cms', 'immutable', 'safe', false, 1, 0),
	('public.dc_cms_agg(item anyelement, epsilon double precision, delta double precision, weight bigint)', 'dc_cms', 'immutable', 'safe', false, 1, 0),
	('public.dc_cms_add(c dc_cms, item text, weight bigint DEFAULT 1)', 'dc_cms', 'immutable', 'safe', false, 10, 0),
	('public.dc_cms_estimate(c dc_cms, item text)', 'bigint', 'immutable', 'safe', true, 5, 0),
	('public.dc_cms_bounds(c dc_cms, item text, OUT lower bigint, OUT estimate bigint, OUT upper bigint)', 'record', 'immutable', 'safe', true, 5, 0),
	('public.dc_cms_agg(item text, epsilon double precision, delta double precision)', 'dc_cms', 'immutable', 'safe', false, 1, 0),
	('public.dc_cms_agg(item text, epsilon double precision, delta double precision, weight bigint)', 'dc_cms', 'immutable', 'safe', false, 1, 0),
	('public.dc_cms_union(a dc_cms, b dc_cms)', 'dc_cms', 'immutable', 'safe', true, 100, 0),
	('public.dc_cms_subtract(a dc_cms, b dc_cms)', 'dc_cms', 'immutable', 'safe', true, 100, 0),
	('public.dc_cms_inner_product(a dc_cms, b dc_cms)', 'numeric', 'immutable', 'safe', true, 100, 0),
	('public.dc_cms_info(c dc_cms, OUT form text, OUT conservative boolean, OUT total_weight bigint, OUT width integer, OUT depth integer, OUT epsilon double precision, OUT delta double precision, OUT cell_bytes integer, OUT items bigint, OUT bytes integer)', 'record', 'immutable', 'safe', true, 1, 0),
	('public.dc_cms_union_agg(dc_cms)', 'dc_cms', 'immutable', 'safe', false, 1, 0),
	('dcounter.cms_agg_trans(internal, anyelement, double precision, double precision)', 'internal', 'stable', 'safe', false, 2, 0),
	('dcounter.cms_agg_trans(internal, anyelement, double precision, double precision, bigint)', 'internal', 'stable', 'safe', false, 2, 0),
	('dcounter.cms_frame_add(internal, anyelement, double precision, double precision)', 'internal', 'stable', 'safe', false, 2, 0),
	('dcounter.cms_frame_add(internal, anyelement, double precision, double precision, bigint)', 'internal', 'stable', 'safe', false, 2, 0),
	('dcounter.cms_frame_remove(internal, anyelement, double precision, double precision)', 'internal', 'stable', 'safe', false, 2, 0),
	('dcounter.cms_frame_remove(internal, anyelement, double precision, double precision, bigint)', 'internal', 'stable', 'safe', false, 2, 0),
	('dcounter.cms_union_trans(internal, dc_cms)', 'internal', 'immutable', 'safe', false, 100, 0),
	('dcounter.cms_agg_combine(internal, internal)', 'internal', 'immutable', 'safe', false, 100, 0),
	('dcounter.cms_agg_serialize(internal)', 'bytea', 'immutable', 'safe', true, 10, 0),
	('dcounter.cms_agg_deserialize(bytea, internal)', 'internal', 'immutable', 'safe', true, 10, 0),
	('dcounter.cms_agg_final(internal)', 'dc_cms', 'immutable', 'safe', false, 10, 0),
	('dcounter.cms_frame_final(internal)', 'dc_cms', 'immutable', 'safe', false, 10, 0);
-- Ledgers
INSERT INTO expected VALUES
	('public.dc_ledger_create(ledger text, auto_open boolean DEFAULT false, op_retention interval DEFAULT NULL::interval, partition_by text DEFAULT NULL::text, if_not_exists boolean DEFAULT false)', 'regclass', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_account_open(ledger regclass, key anycompatible, min_balance bigint DEFAULT 0, max_balance bigint DEFAULT NULL::bigint)', 'void', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_transfer(ledger regclass, from_key anycompatible, to_key anycompatible, amount bigint, op_id text, memo jsonb DEFAULT NULL::jsonb, OUT transfer_id bigint, OUT duplicate boolean)', 'record', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_transfer_many(ledger regclass, from_keys anycompatiblearray, to_keys anycompatiblearray, amounts bigint[], op_id text, memo jsonb DEFAULT NULL::jsonb, OUT transfer_id bigint, OUT duplicate boolean)', 'record', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_transfer_pending(ledger regclass, from_key anycompatible, to_key anycompatible, amount bigint, op_id text, memo jsonb DEFAULT NULL::jsonb, ttl interval DEFAULT ''00:10:00''::interval, OUT transfer_id bigint, OUT duplicate boolean)', 'record', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_transfer_post(ledger regclass, transfer_id bigint, amount bigint DEFAULT NULL::bigint)', 'text', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_transfer_void(ledger regclass, transfer_id bigint)', 'text', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_transfers_pending(ledger regclass, key anycompatible DEFAULT NULL::text, OUT transfer_id bigint, OUT from_key text, OUT to_key text, OUT amount bigint, OUT op_id text, OUT memo jsonb, OUT expires_at timestamp with time zone, OUT age interval)', 'SETOF record', 'stable', 'restricted', false, 100, 100),
	('public.dc_balance(ledger regclass, key anycompatible, OUT balance bigint, OUT pending_out bigint, OUT pending_in bigint, OUT available bigint)', 'record', 'stable', 'restricted', false, 20, 0),
	('public.dc_balance_at(ledger regclass, key anycompatible, at timestamp with time zone)', 'bigint', 'stable', 'restricted', false, 100, 0),
	('public.dc_account_statement(ledger regclass, key anycompatible, from_at timestamp with time zone, to_at timestamp with time zone, OUT at timestamp with time zone, OUT entry_id bigint, OUT transfer_id bigint, OUT amount bigint, OUT balance bigint, OUT op_id text, OUT memo jsonb)', 'SETOF record', 'stable', 'restricted', false, 100, 100),
	('public.dc_ledger_check(ledger regclass, OUT key text, OUT balance numeric, OUT entries_sum numeric, OUT problem text)', 'SETOF record', 'volatile', 'unsafe', false, 100000, 10),
	('public.dc_ledger_detach(ledger regclass, before timestamp with time zone)', 'SETOF regclass', 'volatile', 'unsafe', false, 100000, 10),
	('public.dc_ledger_adopt(ledger regclass, auto_open boolean DEFAULT false)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('dcounter.on_ledger_row_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.on_ledger_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0);
-- Distinct tables
INSERT INTO expected VALUES
	('public.dc_add(distinct_table text, key text, item text, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_add(distinct_table text, key text, item anyelement, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_add(distinct_table text, key bigint, item text, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_add(distinct_table text, key bigint, item anyelement, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_add(distinct_table text, key uuid, item text, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_add(distinct_table text, key uuid, item anyelement, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_add(distinct_table regclass, key text, item text, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_add(distinct_table regclass, key text, item anyelement, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_add(distinct_table regclass, key bigint, item text, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_add(distinct_table regclass, key bigint, item anyelement, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_add(distinct_table regclass, key uuid, item text, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_add(distinct_table regclass, key uuid, item anyelement, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 20, 0),
	('public.dc_add_many(distinct_table regclass, keys anycompatiblearray, items anyarray, at timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'void', 'volatile', 'unsafe', false, 200, 0),
	('public.dc_distinct_create(distinct_table text, "precision" integer DEFAULT 14, bucket interval DEFAULT NULL::interval, keep interval DEFAULT NULL::interval, if_not_exists boolean DEFAULT false)', 'regclass', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_distinct_adopt(distinct_table regclass, bucket interval DEFAULT NULL::interval, keep interval DEFAULT NULL::interval)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_distinct_alter(distinct_table regclass, keep interval)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_distinct_drop(distinct_table regclass)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_distinct_report(distinct_table regclass, since timestamp with time zone DEFAULT NULL::timestamp with time zone, until timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT key text, OUT bucket timestamp with time zone, OUT estimate double precision, OUT lower double precision, OUT upper double precision)', 'SETOF record', 'stable', 'restricted', false, 1000, 1000),
	('public.dc_distinct_reset(distinct_table regclass, key anycompatible)', 'void', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_distinct(distinct_table regclass, key anycompatible, span interval DEFAULT NULL::interval, until timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT estimate double precision, OUT lower double precision, OUT upper double precision)', 'record', 'stable', 'restricted', false, 100, 0),
	('public.dc_distinct_union(distinct_table regclass, keys anycompatiblearray, span interval DEFAULT NULL::interval, until timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT estimate double precision, OUT lower double precision, OUT upper double precision)', 'record', 'stable', 'restricted', false, 500, 0),
	('public.dc_distinct_sketch(distinct_table regclass, key anycompatible, span interval DEFAULT NULL::interval, until timestamp with time zone DEFAULT NULL::timestamp with time zone)', 'dc_hll', 'stable', 'restricted', false, 100, 0),
	('public.dc_distinct_buckets(distinct_table regclass, key anycompatible, since timestamp with time zone DEFAULT NULL::timestamp with time zone, until timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT bucket timestamp with time zone, OUT estimate double precision, OUT lower double precision, OUT upper double precision)', 'SETOF record', 'stable', 'restricted', false, 500, 100),
	('dcounter.on_distinct_table_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0);
-- What was read
INSERT INTO expected VALUES
	('public.dc_unread_create(unread text, counter regclass, if_not_exists boolean DEFAULT false)', 'regclass', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_unread_adopt(unread regclass, counter regclass)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_unread_drop(unread regclass)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_mark_read(unread regclass, member text, key anycompatible, upto bigint DEFAULT NULL::bigint)', 'void', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_mark_read(unread regclass, member bigint, key anycompatible, upto bigint DEFAULT NULL::bigint)', 'void', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_mark_read(unread regclass, member uuid, key anycompatible, upto bigint DEFAULT NULL::bigint)', 'void', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_mark_read_many(unread regclass, member text, keys anycompatiblearray, upto bigint[] DEFAULT NULL::bigint[])', 'void', 'volatile', 'unsafe', false, 500, 0),
	('public.dc_mark_read_many(unread regclass, member bigint, keys anycompatiblearray, upto bigint[] DEFAULT NULL::bigint[])', 'void', 'volatile', 'unsafe', false, 500, 0),
	('public.dc_mark_read_many(unread regclass, member uuid, keys anycompatiblearray, upto bigint[] DEFAULT NULL::bigint[])', 'void', 'volatile', 'unsafe', false, 500, 0),
	('public.dc_unread(unread regclass, member text, keys anycompatiblearray, OUT key anycompatible, OUT unread bigint, OUT seen bigint, OUT upto bigint)', 'SETOF record', 'stable', 'restricted', false, 100, 100),
	('public.dc_unread(unread regclass, member bigint, keys anycompatiblearray, OUT key anycompatible, OUT unread bigint, OUT seen bigint, OUT upto bigint)', 'SETOF record', 'stable', 'restricted', false, 100, 100),
	('public.dc_unread(unread regclass, member uuid, keys anycompatiblearray, OUT key anycompatible, OUT unread bigint, OUT seen bigint, OUT upto bigint)', 'SETOF record', 'stable', 'restricted', false, 100, 100),
	('dcounter.on_unread_row_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0);
-- Windowed counters
INSERT INTO expected VALUES
	('public.dc_window_create(counter text, bucket interval, keep interval, rollup jsonb DEFAULT NULL::jsonb, late text DEFAULT ''error''::text, time_zone text DEFAULT NULL::text)', 'regclass', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_window_adopt(counter regclass, bucket interval, keep interval, rollup jsonb DEFAULT NULL::jsonb, late text DEFAULT ''error''::text, time_zone text DEFAULT NULL::text)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_window_alter(counter regclass, keep interval DEFAULT NULL::interval, late text DEFAULT NULL::text)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_window_drop(counter regclass)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_window_rotate(counter regclass, at timestamp with time zone DEFAULT clock_timestamp())', 'bigint', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_window_reopen(counter regclass)', 'boolean', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_window_reconcile(counter regclass, bucket timestamp with time zone, keys anycompatiblearray, totals bigint[])', 'bigint', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_incr_at(counter regclass, key anycompatible, delta bigint DEFAULT 1, at timestamp with time zone DEFAULT clock_timestamp())', 'boolean', 'volatile', 'unsafe', false, 10, 0),
	('public.dc_window(counter regclass, key anycompatible, span interval, until timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT value bigint, OUT lower bigint, OUT upper bigint, OUT estimate double precision)', 'record', 'stable', 'restricted', false, 100, 0),
	('public.dc_buckets(counter regclass, key anycompatible, "from" timestamp with time zone, "to" timestamp with time zone DEFAULT clock_timestamp(), OUT bucket timestamp with time zone, OUT value bigint)', 'SETOF record', 'stable', 'restricted', false, 100, 100),
	('public.dc_top_window(counter regclass, span interval, n integer DEFAULT 10, OUT key text, OUT value bigint, OUT rank bigint)', 'SETOF record', 'stable', 'restricted', false, 10000, 10),
	('public.dc_seal(IN counter regclass, IN before timestamp with time zone)', NULL, 'volatile', 'unsafe', false, 1, 0),
	('dcounter.on_window_row_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.on_window_slot_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.window_key(key text)', 'text', 'immutable', 'safe', true, 1, 0),
	('dcounter.window_bucket(key text, width bigint)', 'timestamp with time zone', 'immutable', 'safe', true, 1, 0),
	('dcounter.window_calendar_bucket(key text, width bigint, unit text, time_zone text)', 'timestamp with time zone', 'stable', 'safe', true, 1, 0),
	('dcounter.window_start(slot regclass)', 'timestamp with time zone', 'stable', 'restricted', true, 100, 0),
	('dcounter.window_dropped(counter regclass)', 'bigint', 'stable', 'restricted', true, 100, 0),
	('dcounter.window_bytes(counter regclass)', 'bigint', 'stable', 'restricted', true, 1000, 0);
-- Bound counters
INSERT INTO expected VALUES
	('public.dc_bind(counter regclass, source regclass, key text, value text DEFAULT ''1''::text, filter text DEFAULT NULL::text, distinct_of text DEFAULT NULL::text, build text DEFAULT ''worker''::text, lock_timeout interval DEFAULT ''00:00:00.2''::interval, replicated boolean DEFAULT false, on_detach text DEFAULT ''subtract''::text, group_by text DEFAULT NULL::text)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_build(IN counter regclass, IN max_keys integer DEFAULT 1000)', NULL, 'volatile', 'unsafe', false, 1, 0),
	('public.dc_source_check(counter regclass, keys anycompatiblearray DEFAULT NULL::text[], from_key text DEFAULT NULL::text, to_key text DEFAULT NULL::text, sample double precision DEFAULT NULL::double precision, OUT key text, OUT source bigint, OUT counter bigint, OUT drift bigint)', 'SETOF record', 'volatile', 'unsafe', false, 10000, 10),
	('public.dc_source_fix(counter regclass, keys anycompatiblearray, OUT key text, OUT drift bigint)', 'SETOF record', 'volatile', 'unsafe', false, 10000, 10),
	('public.dc_unbind(counter regclass)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_mark(counter regclass, mark text)', 'bigint', 'volatile', 'unsafe', false, 10000, 0),
	('public.dc_unmark(counter regclass, mark text)', 'bigint', 'volatile', 'unsafe', false, 10000, 0),
	('public.dc_reconcile(counter regclass, keys anycompatiblearray, exact bigint[], as_of text, OUT key anycompatible, OUT was bigint, OUT exact bigint, OUT delta bigint)', 'SETOF record', 'volatile', 'unsafe', false, 10000, 100),
	('dcounter.source_differs(anyelement, anyelement)', 'boolean', 'immutable', 'safe', false, 1, 0),
	('dcounter.source_row()', 'trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.source_truncate()', 'trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.on_source_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.on_self_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0),
	('dcounter.merge_region()', 'trigger', 'volatile', 'unsafe', false, 50, 0),
	('dcounter.merge_set()', 'trigger', 'volatile', 'unsafe', false, 100, 0),
	('dcounter.merge_grant()', 'trigger', 'volatile', 'unsafe', false, 50, 0),
	('dcounter.merge_want()', 'trigger', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_take_wait(IN stock regclass, IN key anycompatible, IN qty bigint, IN timeout interval, INOUT ok boolean DEFAULT NULL::boolean)', NULL, 'volatile', 'unsafe', false, 1, 0),
	('public.dc_want(stock regclass, key anycompatible, qty bigint)', 'void', 'volatile', 'unsafe', false, 100, 0),
	('public.dc_stock_regions(stock regclass, key anycompatible, OUT region text, OUT units bigint, OUT units_at timestamp with time zone, OUT granted_in bigint, OUT granted_out bigint, OUT wanted bigint, OUT wanted_since timestamp with time zone)', 'SETOF record', 'stable', 'restricted', false, 100, 3),
	('public.dc_rights_reclaim(stock regclass, region text, key anycompatible DEFAULT NULL::text)', 'bigint', 'volatile', 'unsafe', false, 10000, 0),
	('public.dc_region_init(region text)', 'bigint', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_replicate(counter regclass, seed boolean DEFAULT false)', 'void', 'volatile', 'unsafe', false, 10000, 0),
	('public.dc_unreplicate(counter regclass)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_get_regions(counter regclass, key anycompatible, OUT region text, OUT inc bigint, OUT "dec" bigint, OUT value bigint, OUT updated_at timestamp with time zone, OUT complete_to timestamp with time zone)', 'SETOF record', 'stable', 'restricted', false, 100, 3),
	('public.dc_region_check(counter regclass, OUT region text, OUT epoch bigint, OUT keys bigint, OUT inc numeric, OUT "dec" numeric, OUT digest bigint)', 'SETOF record', 'stable', 'restricted', false, 10000, 5),
	('public.dc_region_vacuum(counter regclass, older_than interval DEFAULT ''30 days''::interval)', 'bigint', 'volatile', 'unsafe', false, 10000, 0),
	('public.dc_region_repair(counter regclass)', 'bigint', 'volatile', 'unsafe', false, 10000, 0),
	('public.dc_region_join(peer text, conninfo text, topology text DEFAULT ''mesh''::text, trust_owners boolean DEFAULT false)', 'SETOF text', 'stable', 'restricted', false, 1000, 3),
	('public.dc_region_join(peer text, conninfo text, anew boolean, topology text DEFAULT ''mesh''::text, trust_owners boolean DEFAULT false)', 'SETOF text', 'stable', 'restricted', false, 1000, 3),
	('dcounter.stat_passed_over(counter regclass)', 'bigint', 'volatile', 'unsafe', true, 100, 0),
	('public.dc_region_refresh(peer text, conninfo text DEFAULT NULL::text, trust_owners boolean DEFAULT false)', 'SETOF text', 'stable', 'restricted', false, 1000, 4),
	('public.dc_region_wait_copied(IN subscription text DEFAULT NULL::text)', NULL, 'volatile', 'unsafe', false, 1, 0),
	('dcounter.merge_beat()', 'trigger', 'volatile', 'unsafe', false, 50, 0),
	('public.dc_region_renew(lossless boolean DEFAULT false)', 'bigint', 'volatile', 'unsafe', false, 10000, 0),
	('public.dc_region_publish()', 'integer', 'volatile', 'unsafe', false, 10000, 0),
	('public.dc_region_retire(region text, force boolean DEFAULT false)', 'void', 'volatile', 'unsafe', false, 1000, 0),
	('public.dc_regions(OUT region text, OUT epochs integer, OUT state text, OUT beat_at timestamp with time zone, OUT lag interval, OUT seen_by_all_to timestamp with time zone, OUT link_state text, OUT apply_errors bigint, OUT advice text, OUT conflicts bigint)', 'SETOF record', 'stable', 'restricted', false, 1000, 5),
	('dcounter.on_source_state_change()', 'trigger', 'volatile', 'unsafe', false, 10, 0);
SELECT set_eq(
	$$SELECT format('%s.%s(%s)', schema, proname, pg_get_function_arguments(oid)) AS signature, pg_get_function_result(oid) AS result,
		CASE provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END AS volatility,
		CASE proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END AS parallel, proisstrict, procost::int, prorows::int FROM members$$,
	'SELECT * FROM expected', 'each function has its signature, result, labels, cost and rows');
SELECT is((SELECT count(*) FROM members), (SELECT count(*) FROM expected), 'no signature occurs twice');
-- What pg_get_function_arguments() and the labels leave open
SELECT is_empty('SELECT oid::regprocedure FROM members WHERE prosecdef', 'no function is SECURITY DEFINER');
SELECT is_empty('SELECT oid::regprocedure FROM members WHERE proconfig IS NOT NULL OR proleakproof', 'no function has settings or is leakproof');
SELECT is_empty($$SELECT oid::regprocedure FROM members WHERE prokind <> 'a' AND (prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c') OR probin !~ 'dcounter$' OR prokind <> CASE proname WHEN 'dc_maintain' THEN 'p' WHEN 'dc_build' THEN 'p' WHEN 'dc_region_wait_copied' THEN 'p' WHEN 'dc_take_wait' THEN 'p' WHEN 'dc_seal' THEN 'p' ELSE 'f' END)$$, 'all are C functions of this module, or aggregates');
SELECT set_eq($$SELECT DISTINCT proname::text FROM members WHERE prokind = 'a'$$, ARRAY['dc_hll_agg', 'dc_hll_union_agg', 'dc_count_distinct', 'dc_cms_agg', 'dc_cms_union_agg', 'dc_topk_agg', 'dc_topk_union_agg', 'dc_merge_agg'], 'the aggregates');
SELECT is_empty($$SELECT a.aggfnoid FROM pg_aggregate a JOIN members m ON m.oid = a.aggfnoid WHERE aggcombinefn = 0 OR aggtranstype = 'internal'::regtype AND (aggserialfn = 0 OR aggdeserialfn = 0) OR aggfinalmodify <> 'r' OR aggmfinalmodify <> 'r'$$,
	'aggregates can be parallel, and their final functions change nothing');
SELECT set_eq($$SELECT DISTINCT m.proname::text FROM pg_aggregate a JOIN members m ON m.oid = a.aggfnoid WHERE aggminvtransfn <> 0$$, ARRAY['dc_cms_agg'], 'aggregates of moving windows');
SELECT is_empty($$SELECT oid::regprocedure FROM members WHERE coalesce(length(obj_description(oid, 'pg_proc')), 0) < 10$$, 'each function has a comment');
SELECT is_empty($$SELECT oid::regprocedure FROM members WHERE obj_description(oid, 'pg_proc') ~ '^[A-Z].*|\.$'$$, 'comments are phrases, like the server''s own');
SELECT is_empty($$SELECT oid::regprocedure FROM members WHERE schema = 'public' AND proname !~ '^dc_worker_|^dc_(consumer|limit|presence)_create$|^dc_throttle|^dc_(replicate|region_join|region_refresh)$' AND NOT has_function_privilege('public', oid, 'EXECUTE')$$, 'PUBLIC may execute the API: the tables'' privileges decide');
SELECT is_empty($$SELECT oid::regprocedure FROM members WHERE proname ~ '^dc_worker_|^dc_(consumer|limit|presence)_create$|^dc_throttle|^dc_(replicate|region_join|region_refresh)$' AND has_function_privilege('public', oid, 'EXECUTE')$$, 'but not start or stop workers, nor create consumers, limits or presences, use ad hoc limits, replicate, or make links');
-- What types, operators, casts and operator classes are made of: whoever uses these needs EXECUTE on it
CREATE TEMP VIEW plumbing AS
	SELECT m.oid, m.schema, m.proname FROM members m WHERE m.oid IN (
		SELECT unnest(ARRAY[typinput, typoutput, typreceive, typsend, typmodin, typmodout]::oid[]) FROM pg_type
		UNION SELECT castfunc FROM pg_cast UNION SELECT amproc FROM pg_amproc
		UNION SELECT oprcode FROM pg_operator JOIN pg_amop ON amopopr = pg_operator.oid
		UNION SELECT oprcode FROM pg_operator WHERE oprresult = 'boolean'::regtype);
SELECT is((SELECT count(*) FROM plumbing), 142::bigint, 'functions that types, casts and comparisons are made of');
SELECT is_empty($$SELECT oid::regprocedure FROM plumbing WHERE schema <> 'dcounter' OR NOT has_function_privilege('public', oid, 'EXECUTE')$$, 'they are in schema dcounter, and PUBLIC may execute them');
SELECT set_eq($$SELECT proname::text FROM members WHERE schema = 'dcounter' AND oid NOT IN (SELECT oid FROM plumbing) AND has_function_privilege('public', oid, 'EXECUTE')$$, ARRAY['stat_counters', 'stat_passed_over', 'stat_shards', 'stat_memory', 'maintainer', 'totals_way', 'stat_buffer', 'stat_hot_keys', 'stat_worker', 'stat_outbox', 'stat_consumers', 'stat_limits', 'stat_presence', 'last_fetch', 'outbox_capture', 'on_ledger_change', 'on_counter_truncate', 'on_counter_delete', 'source_row', 'source_truncate', 'source_differs', 'rank_bucket', 'merge_row', 'window_key', 'window_bucket', 'window_calendar_bucket', 'window_start', 'window_dropped', 'window_bytes'],
	'PUBLIC may not execute, or make triggers of, the internal functions, but for those of the types, of the views, of attached tables and of dc_relay');

-- The extension
SELECT is((SELECT extversion FROM pg_extension WHERE extname = 'dcounter'), (SELECT default_version FROM pg_available_extensions WHERE name = 'dcounter'), 'installed in its default version');
SELECT is((SELECT extrelocatable FROM pg_extension WHERE extname = 'dcounter'), false, 'not relocatable');
SELECT isnt((SELECT comment FROM pg_available_extensions WHERE name = 'dcounter'), NULL, 'the extension has a comment');
SELECT set_eq($$SELECT unnest(extconfig)::regclass::text AS t, unnest(extcondition) AS c FROM pg_extension WHERE extname = 'dcounter'$$,
	$$VALUES ('dcounter.counter', ''), ('dcounter.op_slot', ''), ('dcounter.ledger', ''), ('dcounter.counter_events', ''), ('dcounter.changed_key', ''), ('dcounter.outbox_seq', ''), ('dcounter.hlc_clock', ''),
		('dcounter.consumer', ''), ('dcounter.consumer_id', ''), ('dcounter.consumer_member', ''), ('dcounter.consumer_retry', ''), ('dcounter.source', ''), ('dcounter.source_state', ''),
		('dcounter.mark', ''), ('dcounter.mark_value', ''), ('dcounter.self', ''), ('dcounter.region', ''), ('dcounter.limit_id', ''), ('dcounter.limit_rule', ''), ('dcounter.presence_id', ''), ('dcounter.presence_rule', '')
	UNION ALL VALUES ('dcounter.unread', ''), ('dcounter.budget', '')
	UNION ALL VALUES ('dcounter.time_window', ''), ('dcounter.window_slot', ''), ('dcounter.window_claim', '')
	UNION ALL SELECT 'dcounter.distinct_table', ''
	UNION ALL SELECT 'dcounter.outbox_' || i, '' FROM generate_series(0, 7) i$$, 'settings and state are dumped, and nothing else is');
SELECT set_eq(
	$$SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
		AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'dcounter') AND classid <> 'pg_proc'::regclass
		AND classid <> 'pg_type'::regclass$$,
	(SELECT array_agg('table dcounter.outbox_' || i) FROM generate_series(0, 7) i) ||
	ARRAY['table dcounter.unread', 'view dc_unread_tables', 'table dcounter.budget'] ||
	ARRAY['table dcounter.time_window', 'table dcounter.window_slot', 'table dcounter.window_claim', 'view dc_windows'] ||
	ARRAY['table dcounter.distinct_table', 'view dc_distinct_tables'] ||
	ARRAY['schema dcounter', 'sequence dcounter.outbox_seq', 'sequence dcounter.hlc_clock', 'table dcounter.outbox', 'table dcounter.outbox_ring', 'sequence dcounter.consumer_id', 'table dcounter.consumer', 'table dcounter.consumer_member', 'table dcounter.consumer_retry', 'view dc_dead_letters',
		'table dcounter.counter', 'table dcounter.ledger', 'table dcounter.op_slot', 'table dcounter.buffer_restored', 'view dc_stat_buffer', 'table dcounter.counter_events', 'table dcounter.changed_key', 'view dc_stat_outbox', 'view dc_stat_consumers', 'view dc_stat_counters', 'view dc_stat_shards', 'view dc_stat_memory', 'view dc_stat_hot_keys', 'view dc_stat_worker', 'table dcounter.source', 'table dcounter.source_state', 'table dcounter.drift', 'sequence dcounter.drift_id_seq', 'table dcounter.mark', 'table dcounter.mark_value', 'table dcounter.self', 'table dcounter.self_mark', 'table dcounter.region', 'view dc_stat_regions', 'sequence dcounter.limit_id', 'table dcounter.limit_rule', 'view dc_stat_limits', 'sequence dcounter.presence_id', 'table dcounter.presence_rule', 'view dc_stat_presence', 'view dc_marks', 'view dc_stat_drift', 'view dc_drifts', 'event trigger dcounter_drop', 'event trigger dcounter_ddl', 'event trigger dcounter_begin', 'view dc_tables',
		'cast from bytea to dc_cms', 'cast from dc_cms to bytea', 'operator ||(dc_cms,dc_cms)',
		'cast from bytea to dc_topk', 'cast from dc_topk to bytea', 'operator ||(dc_topk,dc_topk)',
		'cast from dc_hll to dc_hll', 'cast from bytea to dc_hll', 'cast from dc_hll to bytea', 'operator ||(dc_hll,dc_hll)', 'operator #(NONE,dc_hll)',
		'operator =(dc_hll,dc_hll)', 'operator <>(dc_hll,dc_hll)', 'operator <(dc_hll,dc_hll)', 'operator <=(dc_hll,dc_hll)', 'operator >(dc_hll,dc_hll)', 'operator >=(dc_hll,dc_hll)',
		'operator family dc_hll_ops for access method btree', 'operator class dc_hll_ops for access method btree', 'operator family dc_hll_ops for access method hash', 'operator class dc_hll_ops for access method hash',
		'cast from dc_gcounter to jsonb', 'operator =(dc_gcounter,dc_gcounter)', 'operator <>(dc_gcounter,dc_gcounter)', 'operator <(dc_gcounter,dc_gcounter)', 'operator <=(dc_gcounter,dc_gcounter)', 'operator >(dc_gcounter,dc_gcounter)', 'operator >=(dc_gcounter,dc_gcounter)', 'operator ||(dc_gcounter,dc_gcounter)', 'operator &&(dc_gcounter,dc_gcounter)', 'operator family dc_gcounter_hash_ops for access method hash', 'operator class dc_gcounter_hash_ops for access method hash',
		'cast from dc_pncounter to jsonb', 'operator =(dc_pncounter,dc_pncounter)', 'operator <>(dc_pncounter,dc_pncounter)', 'operator <(dc_pncounter,dc_pncounter)', 'operator <=(dc_pncounter,dc_pncounter)', 'operator >(dc_pncounter,dc_pncounter)', 'operator >=(dc_pncounter,dc_pncounter)', 'operator ||(dc_pncounter,dc_pncounter)', 'operator &&(dc_pncounter,dc_pncounter)', 'operator family dc_pncounter_hash_ops for access method hash', 'operator class dc_pncounter_hash_ops for access method hash',
		'cast from dc_gset to jsonb', 'operator =(dc_gset,dc_gset)', 'operator <>(dc_gset,dc_gset)', 'operator <(dc_gset,dc_gset)', 'operator <=(dc_gset,dc_gset)', 'operator >(dc_gset,dc_gset)', 'operator >=(dc_gset,dc_gset)', 'operator ||(dc_gset,dc_gset)', 'operator &&(dc_gset,dc_gset)', 'operator family dc_gset_hash_ops for access method hash', 'operator class dc_gset_hash_ops for access method hash',
		'cast from dc_orset to jsonb', 'operator =(dc_orset,dc_orset)', 'operator <>(dc_orset,dc_orset)', 'operator <(dc_orset,dc_orset)', 'operator <=(dc_orset,dc_orset)', 'operator >(dc_orset,dc_orset)', 'operator >=(dc_orset,dc_orset)', 'operator ||(dc_orset,dc_orset)', 'operator &&(dc_orset,dc_orset)', 'operator family dc_orset_hash_ops for access method hash', 'operator class dc_orset_hash_ops for access method hash',
		'cast from dc_lww to jsonb', 'operator =(dc_lww,dc_lww)', 'operator <>(dc_lww,dc_lww)', 'operator <(dc_lww,dc_lww)', 'operator <=(dc_lww,dc_lww)', 'operator >(dc_lww,dc_lww)', 'operator >=(dc_lww,dc_lww)', 'operator ||(dc_lww,dc_lww)', 'operator &&(dc_lww,dc_lww)', 'operator family dc_lww_hash_ops for access method hash', 'operator class dc_lww_hash_ops for access method hash',
		'cast from dc_mvreg to jsonb', 'operator =(dc_mvreg,dc_mvreg)', 'operator <>(dc_mvreg,dc_mvreg)', 'operator <(dc_mvreg,dc_mvreg)', 'operator <=(dc_mvreg,dc_mvreg)', 'operator >(dc_mvreg,dc_mvreg)', 'operator >=(dc_mvreg,dc_mvreg)', 'operator ||(dc_mvreg,dc_mvreg)', 'operator &&(dc_mvreg,dc_mvreg)', 'operator family dc_mvreg_hash_ops for access method hash', 'operator class dc_mvreg_hash_ops for access method hash',
		'cast from dc_hlc to jsonb', 'operator =(dc_hlc,dc_hlc)', 'operator <>(dc_hlc,dc_hlc)', 'operator <(dc_hlc,dc_hlc)', 'operator <=(dc_hlc,dc_hlc)', 'operator >(dc_hlc,dc_hlc)', 'operator >=(dc_hlc,dc_hlc)', 'operator ||(dc_hlc,dc_hlc)', 'operator family dc_hlc_hash_ops for access method hash', 'operator class dc_hlc_hash_ops for access method hash', 'operator family dc_hlc_ops for access method btree', 'operator class dc_hlc_ops for access method btree',
		'cast from dc_vclock to jsonb', 'operator =(dc_vclock,dc_vclock)', 'operator <>(dc_vclock,dc_vclock)', 'operator <(dc_vclock,dc_vclock)', 'operator <=(dc_vclock,dc_vclock)', 'operator >(dc_vclock,dc_vclock)', 'operator >=(dc_vclock,dc_vclock)', 'operator ||(dc_vclock,dc_vclock)', 'operator &&(dc_vclock,dc_vclock)', 'operator family dc_vclock_hash_ops for access method hash', 'operator class dc_vclock_hash_ops for access method hash'], 'members besides functions and types');
SELECT is_empty(
	$$SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
		AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'dcounter') AND classid <> 'pg_type'::regclass
		AND coalesce(obj_description(objid, classid::regclass::name), '') = ''$$, 'each member has a comment');
SELECT is_empty($$SELECT attname FROM pg_attribute WHERE attrelid IN (
		'dcounter.unread'::regclass, 'dc_unread_tables'::regclass, 'dcounter.budget'::regclass,
		'dcounter.time_window'::regclass, 'dcounter.window_slot'::regclass, 'dcounter.window_claim'::regclass, 'dc_windows'::regclass,
		'dcounter.distinct_table'::regclass, 'dc_distinct_tables'::regclass,
		'dcounter.counter'::regclass, 'dcounter.ledger'::regclass, 'dcounter.op_slot'::regclass, 'dc_stat_counters'::regclass, 'dc_stat_shards'::regclass, 'dc_stat_memory'::regclass, 'dc_stat_hot_keys'::regclass,
		'dcounter.counter_events'::regclass, 'dcounter.changed_key'::regclass, 'dc_stat_outbox'::regclass, 'dc_stat_consumers'::regclass,
		'dcounter.source'::regclass, 'dcounter.source_state'::regclass, 'dcounter.drift'::regclass, 'dcounter.mark'::regclass, 'dcounter.mark_value'::regclass, 'dcounter.self'::regclass, 'dcounter.self_mark'::regclass, 'dcounter.region'::regclass, 'dc_stat_regions'::regclass, 'dc_marks'::regclass, 'dc_stat_drift'::regclass, 'dc_drifts'::regclass)
	AND attnum > 0 AND col_description(attrelid, attnum) IS NULL$$, 'each column of the settings and of the views has a comment');

-- The views
SELECT is_empty($$SELECT relname FROM pg_class WHERE oid IN ('dc_stat_counters'::regclass, 'dc_stat_shards'::regclass, 'dc_stat_memory'::regclass, 'dc_stat_hot_keys'::regclass, 'dc_stat_outbox'::regclass, 'dc_stat_consumers'::regclass, 'dc_stat_regions'::regclass, 'dc_marks'::regclass, 'dc_stat_drift'::regclass, 'dc_drifts'::regclass) AND (EXISTS (SELECT FROM aclexplode(relacl) WHERE grantee <> relowner AND (grantee, privilege_type, is_grantable) <> (0, 'SELECT', false))
	OR NOT EXISTS (SELECT FROM aclexplode(relacl) WHERE grantee = 0))$$, 'PUBLIC may SELECT from the views, and do nothing else');
-- Otherwise the planner evaluates a caller's function, which may print its argument, before the view's own condition
SELECT set_eq($$SELECT v.oid::regclass::text FROM pg_class v JOIN pg_depend m ON m.classid = 'pg_class'::regclass AND m.objid = v.oid AND m.refclassid = 'pg_extension'::regclass AND m.deptype = 'e'
		WHERE v.relkind = 'v' AND m.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'dcounter')
		AND (pg_get_viewdef(v.oid) ~ 'has_[a-z_]+_privilege|pg_has_role' OR EXISTS (SELECT FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
			WHERE r.ev_class = v.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> v.oid AND NOT has_table_privilege('public', d.refobjid, 'SELECT')))$$,
	$$SELECT v.oid::regclass::text FROM pg_class v JOIN pg_depend m ON m.classid = 'pg_class'::regclass AND m.objid = v.oid AND m.refclassid = 'pg_extension'::regclass AND m.deptype = 'e'
		WHERE v.reloptions = '{security_barrier=true}' AND m.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'dcounter')$$, 'views that choose rows by privilege are security barriers');
SELECT is((SELECT string_agg(format('%s %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'dc_stat_counters'::regclass AND attnum > 0),
	'counter regclass, fed_by text, increments bigint, keys_written bigint, totals_written bigint, writes_per_second double precision, busy_skipped bigint, splits bigint, waits bigint, early_writes bigint, '
	'estimated_shard_rows bigint, compaction_lag interval, keys_compacted bigint, '
	'last_compaction timestamp with time zone, last_compaction_duration interval, overflowed_keys bigint, reads bigint, mean_read_time_ms double precision, buffered bigint, buffer_full bigint, flushes bigint, keys_flushed bigint, mean_flush_time_ms double precision, cache_hits bigint, cache_misses bigint, cache_evictions bigint, stats_reset timestamp with time zone, rows_passed_over bigint', 'columns of dc_stat_counters');
SELECT is((SELECT string_agg(format('%s %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'dc_stat_shards'::regclass AND attnum > 0),
	'counter regclass, shard_rows bigint, active_keys bigint, shard_imbalance double precision, compaction_lag interval, pending_amount numeric', 'columns of dc_stat_shards');
SELECT is((SELECT string_agg(format('%s %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'dc_stat_memory'::regclass AND attnum > 0),
	'tables bigint, max_tables bigint, without_statistics bigint, evicted bigint', 'columns of dc_stat_memory');
SELECT is((SELECT string_agg(format('%s %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'dc_stat_hot_keys'::regclass AND attnum > 0),
	'counter regclass, key text, writes_per_second double precision, max_error double precision, writes_last_window double precision', 'columns of dc_stat_hot_keys');

-- The schema and the settings
SELECT is((SELECT nspacl::text FROM pg_namespace WHERE nspname = 'dcounter'), format('{%1$s=UC/%1$s,=U/%1$s}', current_user), 'schema dcounter: PUBLIC has USAGE alone');
SELECT is((SELECT relacl::text FROM pg_class WHERE oid = 'dcounter.counter'::regclass), (SELECT format('{%1$s=%2$s/%1$s,=r/%1$s}', current_user,
	(SELECT string_agg(CASE a WHEN 'INSERT' THEN 'a' WHEN 'SELECT' THEN 'r' WHEN 'UPDATE' THEN 'w' WHEN 'DELETE' THEN 'd' WHEN 'TRUNCATE' THEN 'D' WHEN 'REFERENCES' THEN 'x' WHEN 'TRIGGER' THEN 't' ELSE 'm' END, '')
		FROM (SELECT privilege_type AS a FROM aclexplode(acldefault('r', 10))) d))), 'table dcounter.counter: PUBLIC has SELECT alone');
SELECT columns_are('dcounter', 'counter', ARRAY['counter', 'shards', 'shard_by', 'max_shards', 'holds', 'mode', 'flush_interval', 'durability', 'op_retention', 'ledger', 'totals', 'regions', 'sets', 'grants', 'wants', 'rights_epoch', 'sample', 'sample_max', 'trends', 'half_life', 'idle']);
SELECT col_is_pk('dcounter', 'counter', 'counter', 'a counter is known by its table of totals');
SELECT col_is_unique('dcounter', 'counter', 'shards', 'a shard table serves one counter');
SELECT col_is_unique('dcounter', 'counter', 'holds', 'a table of holds serves one stock');
SELECT set_eq($$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = 'dcounter.counter'::regclass AND attnum > 0$$,
	$$VALUES (1, 'counter', 'regclass', true), (2, 'shards', 'regclass', true), (3, 'shard_by', 'text', true), (4, 'max_shards', 'integer', true), (5, 'holds', 'regclass', false),
	(6, 'mode', 'text', true), (7, 'flush_interval', 'interval', true), (8, 'durability', 'text', true), (9, 'op_retention', 'interval', false), (10, 'ledger', 'regclass', false), (11, 'totals', 'text', true), (12, 'regions', 'regclass', false), (13, 'sets', 'regclass', false), (14, 'grants', 'regclass', false), (15, 'wants', 'regclass', false), (16, 'rights_epoch', 'bigint', true), (17, 'sample', 'integer', true), (18, 'sample_max', 'integer', true), (19, 'trends', 'regclass', false), (20, 'half_life', 'interval', false), (21, 'idle', 'interval', false)$$, 'columns of the settings');
SELECT set_eq($$SELECT evtname::text, evtevent::text, evtfoid::regproc::text, evtenabled::text, evttags::text[] FROM pg_event_trigger WHERE evtname ~ 'dcounter'$$,
	$$VALUES ('dcounter_drop', 'sql_drop', 'dcounter.on_drop', 'O', NULL),
		('dcounter_ddl', 'ddl_command_end', 'dcounter.on_ddl', 'O', ARRAY['ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER TYPE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER SCHEMA', 'ALTER DOMAIN', 'ALTER COLLATION', 'ALTER EXTENSION', 'ALTER TRIGGER', 'ALTER INDEX', 'CREATE TABLE', 'CREATE FOREIGN TABLE', 'CREATE SCHEMA', 'CREATE TRIGGER', 'CREATE RULE', 'CREATE INDEX', 'CREATE STATISTICS', 'CREATE PUBLICATION', 'ALTER PUBLICATION', 'DROP TRIGGER', 'REVOKE']::text[]),
		('dcounter_begin', 'ddl_command_start', 'dcounter.on_ddl_begin', 'O', ARRAY['ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER TYPE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER SCHEMA', 'ALTER DOMAIN', 'ALTER COLLATION', 'ALTER EXTENSION', 'DROP TABLE', 'DROP SCHEMA', 'DROP OWNED', 'DROP TYPE', 'DROP EXTENSION', 'DROP ACCESS METHOD', 'DROP INDEX', 'CREATE INDEX']::text[])$$, 'the event triggers');
SELECT set_eq($$SELECT tgname::text, tgfoid::regproc::text, tgenabled::text FROM pg_trigger WHERE tgrelid = 'dcounter.counter'::regclass$$,
	$$VALUES ('on_catalog_change', 'dcounter.on_catalog_change', 'O')$$, 'the trigger on the settings');

SELECT set_eq($$SELECT tgname::text, tgfoid::regproc::text, tgenabled::text FROM pg_trigger WHERE tgrelid = 'dcounter.op_slot'::regclass$$,
	$$VALUES ('on_op_slot_change', 'dcounter.on_op_slot_change', 'O')$$, 'the trigger on the partitions of ops');
SELECT set_eq($$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = 'dcounter.op_slot'::regclass AND attnum > 0$$,
	$$VALUES (1, 'counter', 'regclass', true), (2, 'slot', 'smallint', true), (3, 'ops', 'regclass', true), (4, 'partition', 'regclass', true), (5, 'state', 'text', true),
	(6, 'since', 'timestamp with time zone', true), (7, 'closed_at', 'timestamp with time zone', false), (8, 'forgotten', 'timestamp with time zone', false)$$, 'columns of the partitions of events');
SELECT ok(has_table_privilege('public', 'dcounter.op_slot', 'SELECT') AND NOT has_table_privilege('public', 'dcounter.op_slot', 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER'), 'PUBLIC may read the states of events, and do nothing else');
SELECT set_eq($$SELECT tgname::text, tgfoid::regproc::text, tgenabled::text FROM pg_trigger WHERE tgrelid = 'dcounter.ledger'::regclass$$,
	$$VALUES ('on_ledger_row_change', 'dcounter.on_ledger_row_change', 'O')$$, 'the trigger on the ledgers');
SELECT set_eq($$SELECT tgname::text, tgfoid::regproc::text, tgenabled::text FROM pg_trigger WHERE tgrelid IN ('dcounter.source'::regclass, 'dcounter.source_state'::regclass)$$,
	$$VALUES ('on_source_change', 'dcounter.on_source_change', 'O'), ('on_source_state_change', 'dcounter.on_source_state_change', 'O')$$, 'the triggers on the bindings');
SELECT set_eq($$SELECT tgname::text, tgfoid::regproc::text, tgenabled::text FROM pg_trigger WHERE tgrelid IN ('dcounter.self'::regclass, 'dcounter.region'::regclass)$$,
	$$VALUES ('on_self_change', 'dcounter.on_self_change', 'O'), ('merge_beat', 'dcounter.merge_beat', 'R')$$, 'the triggers on what this database is, and on the beats');
SELECT ok(has_table_privilege('public', 'dcounter.self', 'SELECT') AND NOT has_table_privilege('public', 'dcounter.self', 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
	AND has_table_privilege('public', 'dcounter.region', 'SELECT') AND NOT has_table_privilege('public', 'dcounter.region', 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER'), 'PUBLIC may read which region this is, and the beats, and do nothing else');
SELECT ok(has_table_privilege('public', 'dcounter.self_mark', 'SELECT') AND NOT has_table_privilege('public', 'dcounter.self_mark', 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER') AND NOT has_function_privilege('public', 'dcounter.merge_beat()', 'EXECUTE'), 'nor what it has found out about it, nor merge beats');
SELECT set_eq($$SELECT name, boot_val, context FROM pg_settings WHERE name ~ '^dcounter.region_'$$, $$VALUES ('dcounter.region_beat_interval', '10000', 'sighup'), ('dcounter.region_handshake', '30000', 'superuser')$$, 'settings of regions');
SELECT ok(has_function_privilege('pg_database_owner', 'dcounter.merge_region()', 'EXECUTE') AND has_function_privilege('pg_database_owner', 'dcounter.merge_set()', 'EXECUTE'), 'the owner of the database may restore the triggers of replicated counters');
SELECT col_is_pk('dcounter', 'source', 'counter', 'a binding is known by its counter table');
SELECT ok(has_table_privilege('public', 'dcounter.source', 'SELECT') AND NOT has_table_privilege('public', 'dcounter.source', 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER'), 'PUBLIC may read the bindings, and do nothing else');
SELECT col_is_pk('dcounter', 'ledger', 'ledger', 'a ledger is known by its table of balances');
SELECT set_eq($$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = 'dcounter.ledger'::regclass AND attnum > 0$$,
	$$VALUES (1, 'ledger', 'regclass', true), (2, 'limits', 'regclass', true), (3, 'entries', 'regclass', true), (4, 'entry_ids', 'regclass', true), (5, 'accounts', 'regclass', true),
	(6, 'pendings', 'regclass', true), (7, 'openings', 'regclass', false), (8, 'auto_open', 'boolean', true)$$, 'columns of the ledgers');
SELECT ok(has_table_privilege('public', 'dcounter.ledger', 'SELECT') AND NOT has_table_privilege('public', 'dcounter.ledger', 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER'), 'PUBLIC may read the ledgers'' settings, and do nothing else');
SELECT set_eq($$SELECT tgname::text, tgfoid::regproc::text, tgenabled::text FROM pg_trigger WHERE tgrelid = 'dcounter.counter_events'::regclass$$,
	$$VALUES ('on_events_change', 'dcounter.on_events_change', 'O')$$, 'the trigger on the settings of events');
SELECT set_eq($$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = 'dcounter.counter_events'::regclass AND attnum > 0$$,
	$$VALUES (1, 'counter', 'regclass', true), (2, 'every', 'interval', true), (3, 'channel', 'text', false), (4, 'last_round', 'timestamp with time zone', false)$$, 'columns of the settings of events');
SELECT set_eq($$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod), attnotnull, (SELECT collname::text FROM pg_collation c WHERE c.oid = attcollation) FROM pg_attribute WHERE attrelid = 'dcounter.changed_key'::regclass AND attnum > 0$$,
	$$VALUES (1, 'counter', 'regclass', true, NULL), (2, 'marked_at', 'timestamp with time zone', true, NULL), (3, 'key', 'text', true, 'C')$$, 'columns of the changed keys');
SELECT ok(has_table_privilege('public', 'dcounter.counter_events', 'SELECT') AND NOT has_table_privilege('public', 'dcounter.counter_events', 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
	AND NOT has_table_privilege('public', 'dcounter.changed_key', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER'), 'PUBLIC may read which tables emit events, but not which keys');

-- The views of statistics
SELECT columns_are('public', 'dc_stat_outbox', ARRAY['last_seq', 'horizon', 'held_back', 'held_back_by_pid', 'held_back_by_gid', 'events', 'bytes', 'partitions', 'current_partition',
	'current_since', 'oldest_seq', 'oldest_created_at', 'oldest_needed_seq', 'oldest_needed_by']);
SELECT columns_are('public', 'dc_stat_consumers', ARRAY['name', 'owner', 'topics', 'position', 'lag_events', 'lag_seconds', 'lag_bytes', 'outstanding', 'retries', 'dead_letters',
	'attempts', 'members', 'lease_until', 'leases_expired', 'cut_off', 'held_back_by_pid', 'held_back_by_gid']);
SELECT columns_are('public', 'dc_stat_worker', ARRAY['datname', 'pid', 'state', 'job', 'last_run', 'last_run_ms', 'runs', 'work_ms', 'failures', 'last_error', 'last_error_at', 'tables_left']);
SELECT columns_are('public', 'dc_tables', ARRAY['counter', 'name', 'kind', 'mode', 'owner', 'settings', 'maintained_by', 'left_because', 'totals', 'compacted_because']);
SELECT columns_are('public', 'dc_stat_drift', ARRAY['counter', 'source', 'state', 'built_to', 'last_pass', 'passes', 'keys_checked', 'rows_checked', 'drifted_keys', 'drift_sum', 'repaired', 'last_drift_at']);
SELECT columns_are('public', 'dc_drifts', ARRAY['id', 'counter', 'at', 'key', 'source', 'value', 'drift', 'repaired']);
SELECT columns_are('public', 'dc_marks', ARRAY['counter', 'mark', 'at', 'keys']);
SELECT ok(has_table_privilege('public', 'dc_stat_worker', 'SELECT') AND NOT has_table_privilege('public', 'dc_stat_worker', 'INSERT, UPDATE, DELETE'), 'PUBLIC may read dc_stat_worker');
SELECT ok(has_table_privilege('public', 'dc_tables', 'SELECT') AND NOT has_table_privilege('public', 'dc_tables', 'INSERT, UPDATE, DELETE'), 'PUBLIC may read dc_tables');

-- The tables that dc_create() makes
SELECT is(dc_create('likes')::text, 'likes', 'dc_create() returns the table');
SELECT is(dc_create('views', partitions => 2)::text, 'views', 'dc_create() returns the partitioned table');
CREATE TEMP VIEW made AS
	SELECT c.oid, c.relname, c.relkind, c.relpersistence, c.relowner, c.reloptions, c.relispartition FROM pg_class c
	WHERE c.relname ~ '^(likes|views)(_shard)?(_p[0-9]+)?$' AND c.relnamespace = 'public'::regnamespace;
SELECT set_eq('SELECT relname::text, relkind::text FROM made',
	$$VALUES ('likes', 'r'), ('likes_shard', 'r'), ('views', 'p'), ('views_p0', 'r'), ('views_p1', 'r'), ('views_shard', 'p'), ('views_shard_p0', 'r'), ('views_shard_p1', 'r')$$, 'which tables it makes');
SELECT is_empty($$SELECT oid::regclass FROM made WHERE relpersistence <> 'p' OR relowner <> current_user::regrole$$, 'they are permanent, and the caller''s');
SELECT is_empty($$SELECT objid::regclass FROM pg_depend JOIN made ON objid = oid WHERE classid = 'pg_class'::regclass AND deptype = 'e'$$, 'they are not members of the extension');
SELECT is_empty($$SELECT objid::regclass, refobjid::regproc FROM pg_depend JOIN made ON objid = oid
	WHERE classid = 'pg_class'::regclass AND (refclassid = 'pg_extension'::regclass OR refobjid IN (SELECT oid FROM members) OR refobjid = 'dcounter'::regnamespace)$$, 'and do not depend on it');
SELECT set_eq($$SELECT DISTINCT obj_description(oid, 'pg_class') FROM made$$, ARRAY['dcounter: totals; see dc_create()', 'dcounter: shard rows, what is not in the totals yet; see dc_create()'], 'their comments');
SELECT set_eq($$SELECT relname::text, tgname::text, tgfoid::regproc::text, tgtype::int, tgenabled::text FROM pg_trigger JOIN made ON tgrelid = made.oid$$,
	$$SELECT t AS a, 'dcounter_truncate'::text AS b, 'dcounter.on_counter_truncate'::text AS c, 32 AS d, 'A'::text AS e FROM unnest('{likes,views,views_p0,views_p1}'::text[]) AS t$$, 'their triggers: AFTER TRUNCATE, always');
SELECT is_empty($$SELECT tgname FROM pg_trigger JOIN made ON tgrelid = made.oid WHERE NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_trigger'::regclass AND objid = pg_trigger.oid AND refclassid = 'pg_extension'::regclass AND deptype = 'x')$$, 'which go with the extension');
-- As in DESIGN 2
PREPARE columns (regclass) AS
	SELECT attnum::int AS n, attname::text AS name, format_type(atttypid, atttypmod) AS type, attnotnull AS not_null, attgenerated::text AS generated,
		(SELECT collname::text FROM pg_collation WHERE oid = attcollation) AS collation, pg_get_expr(adbin, adrelid) AS expression
	FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = $1 AND attnum > 0;
CREATE TEMP TABLE totals AS SELECT * FROM (VALUES (1, 'key', 'text', true, '', 'C', NULL), (2, 'inc', 'bigint', true, '', NULL, '0'), (3, 'dec', 'bigint', true, '', NULL, '0'),
	(4, 'value', 'bigint', false, 's', NULL, '(inc - "dec")'), (5, 'updated_at', 'timestamp with time zone', true, '', NULL, 'now()')) v;
CREATE TEMP TABLE shards AS SELECT * FROM (VALUES (1, 'key', 'text', true, '', 'C', NULL), (2, 'shard', 'integer', true, '', NULL, NULL), (3, 'inc', 'bigint', true, '', NULL, '0'), (4, 'dec', 'bigint', true, '', NULL, '0'),
	(5, 'updated_at', 'timestamp with time zone', true, '', NULL, 'now()')) v;
SELECT set_eq($$EXECUTE columns ('likes')$$, 'TABLE totals', 'columns of the table of totals');
SELECT set_eq($$EXECUTE columns ('views')$$, 'TABLE totals', 'columns of a partitioned one');
SELECT set_eq($$EXECUTE columns ('likes_shard')$$, 'TABLE shards', 'columns of the shard table');
SELECT set_eq($$EXECUTE columns ('views_shard')$$, 'TABLE shards', 'columns of a partitioned one');
SELECT col_is_pk('likes', 'key', 'primary key of the totals');
SELECT col_is_pk('likes_shard', ARRAY['key', 'shard'], 'primary key of the shards');
SELECT col_is_pk('views', 'key', 'primary key of partitioned totals');
SELECT col_is_pk('views_shard', ARRAY['key', 'shard'], 'primary key of partitioned shards');
SELECT is_empty($$SELECT indexrelid::regclass FROM pg_index JOIN made ON indrelid = oid WHERE NOT indisprimary$$, 'there is no other index');
SELECT is_empty($$SELECT partrelid::regclass FROM pg_partitioned_table JOIN made ON partrelid = oid WHERE partstrat <> 'h' OR pg_get_partkeydef(partrelid) <> 'HASH (key)'$$, 'partitions are by hash of the key');
-- A low fillfactor keeps updates of shard rows HOT; vacuum comes early, and
-- never truncates, which would lock the table
SELECT set_eq($$SELECT relname ~ 'shard' AS s, opt FROM made, unnest(reloptions) opt$$, $$VALUES (false, 'fillfactor=80'), (true, 'fillfactor=25'),
	(true, 'autovacuum_vacuum_scale_factor=0.01'), (true, 'autovacuum_vacuum_threshold=500'), (true, 'vacuum_truncate=off')$$, 'storage options');
SELECT is_empty($$SELECT oid::regclass FROM made WHERE relkind = 'r' AND array_length(reloptions, 1) <> CASE WHEN relname ~ 'shard' THEN 4 ELSE 1 END
	OR relkind = 'r' AND reloptions IS NULL$$, 'on each table that has storage');
SELECT set_eq($$SELECT counter::text, shards::text, shard_by, max_shards FROM dcounter.counter$$,
	$$VALUES ('likes', 'likes_shard', 'backend', 64), ('views', 'views_shard', 'backend', 64)$$, 'default settings');

-- The tables that dc_stock_create() makes
SELECT is(dc_stock_create('tickets')::text, 'tickets', 'dc_stock_create() returns the table');
SELECT set_eq($$EXECUTE columns ('tickets')$$, 'TABLE totals', 'its totals are those of any counter table');
SELECT set_eq($$EXECUTE columns ('tickets_shard')$$, $$SELECT * FROM shards WHERE column2 <> 'updated_at'
	UNION ALL VALUES (5, 'units', 'bigint', true, '', NULL, '0'), (6, 'updated_at', 'timestamp with time zone', true, '', NULL, 'now()')$$, 'its shard rows have units as well');
SELECT set_eq($$EXECUTE columns ('tickets_hold')$$, $$VALUES (1, 'hold_id', 'uuid', true, '', NULL, NULL), (2, 'key', 'text', true, '', 'C', NULL), (3, 'qty', 'bigint', true, '', NULL, NULL),
	(4, 'ttl', 'interval', true, '', NULL, NULL), (5, 'state', 'text', true, '', 'default', '''open''::text'), (6, 'confirmed', 'bigint', false, '', NULL, NULL),
	(7, 'created_at', 'timestamp with time zone', true, '', NULL, NULL), (8, 'expires_at', 'timestamp with time zone', true, '', NULL, NULL), (9, 'ended_at', 'timestamp with time zone', false, '', NULL, NULL),
	(10, 'keys', 'text[]', false, '', 'C', NULL), (11, 'qtys', 'bigint[]', false, '', NULL, NULL)$$, 'columns of the table of holds');
SELECT set_eq($$SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'tickets_hold'::regclass$$, ARRAY[
	'CREATE UNIQUE INDEX tickets_hold_pkey ON public.tickets_hold USING btree (hold_id)',
	'CREATE INDEX tickets_hold_key_expires_at_idx ON public.tickets_hold USING btree (key, expires_at) WHERE (state = ''open''::text)',
	'CREATE INDEX tickets_hold_expires_at_idx ON public.tickets_hold USING btree (expires_at) WHERE (state = ''open''::text)',
	'CREATE INDEX tickets_hold_ended_at_idx ON public.tickets_hold USING btree (ended_at) WHERE (state <> ''open''::text)'], 'indexes of the table of holds');
SELECT set_eq($$SELECT relname::text, relowner::regrole::text FROM pg_class WHERE relname ~ '^tickets' AND relkind = 'r'$$,
	$$SELECT n, current_user::text FROM unnest(ARRAY['tickets', 'tickets_shard', 'tickets_hold']) n$$, 'all three are the caller''s');
SELECT is_empty($$SELECT objid::regclass FROM pg_depend WHERE classid = 'pg_class'::regclass AND deptype = 'e' AND objid::regclass::text ~ '^tickets'$$, 'and not members of the extension');
SELECT set_eq($$SELECT tgrelid::regclass::text, tgname::text, tgtype::int, tgenabled::text, tgqual IS NOT NULL FROM pg_trigger WHERE tgrelid::regclass::text ~ '^tickets'$$,
	$$VALUES ('tickets', 'dcounter_truncate', 32, 'A', false), ('tickets', 'dcounter_delete', 10, 'O', false), ('tickets_shard', 'dcounter_truncate', 32, 'O', false), ('tickets_shard', 'dcounter_delete', 10, 'O', false),
	('tickets', 'dcounter_change', 23, 'O', false),
	('tickets_hold', 'dcounter_truncate', 32, 'O', false), ('tickets_hold', 'dcounter_delete', 11, 'O', true)$$, 'triggers of a stock');
SELECT results_eq($$SELECT shards::text, max_shards, holds::text FROM dcounter.counter WHERE counter = 'tickets'::regclass$$, $$VALUES ('tickets_shard', 64, 'tickets_hold')$$, 'settings of a stock');
SELECT lives_ok($$SELECT dc_ledger_create('purses')$$, 'a ledger');
SELECT set_eq($$SELECT relname::text, relkind::text FROM pg_class WHERE relname ~ '^purses' AND relkind NOT IN ('i', 'I', 't')$$,
	$$VALUES ('purses', 'r'), ('purses_shard', 'r'), ('purses_limit', 'r'), ('purses_limit_shard', 'r'), ('purses_limit_hold', 'r'), ('purses_account', 'r'),
	('purses_entry', 'r'), ('purses_entry_id', 'S'), ('purses_pending', 'r'), ('purses_op', 'p'), ('purses_op_0', 'r')$$, 'its tables');
SELECT is_empty($$SELECT relname FROM pg_class WHERE relname ~ '^(tickets|purses)' AND relkind IN ('r', 'p') AND obj_description(oid, 'pg_class') ~ '^dcounter: .* see dc_[a-z_]+\(\)$' IS NOT TRUE$$, 'each table says what it is');
SELECT is_empty($$SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'dcounter'::regnamespace AND relkind NOT IN ('r', 'i', 't', 'S') AND c.relname <> 'limit_answer' OR c.relnamespace = 'dcounter'::regnamespace AND relname !~ '^(counter|op_slot|ledger|hlc_clock|buffer_restored|changed_key|outbox|consumer|source|drift|mark|self|region|limit_|presence_|unread|budget|distinct_|time_window|window_)'$$,
	'nothing else is in schema dcounter');

-- The outbox: the columns that Debezium's outbox event router expects, and ours
SELECT set_eq($$SELECT attname::text, atttypid::regtype::text, attnotnull FROM pg_attribute WHERE attrelid = 'dcounter.outbox'::regclass AND attnum > 0$$,
	$$VALUES ('id', 'uuid', true), ('aggregatetype', 'text', true), ('aggregateid', 'text', false), ('type', 'text', true), ('payload', 'jsonb', false),
	('seq', 'bigint', true), ('headers', 'jsonb', false), ('created_at', 'timestamp with time zone', true)$$, 'columns of the outbox');
SELECT is((SELECT count(*) FROM pg_inherits WHERE inhparent = 'dcounter.outbox'::regclass), 8::bigint, 'its partitions');
SELECT is_empty($$SELECT c.relname FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) p
	WHERE relnamespace = 'dcounter'::regnamespace AND relkind = 'r' AND relname ~ '^(changed_key|outbox|consumer|source_state|drift|mark)' AND has_table_privilege('public', c.oid, p)$$,
	'PUBLIC has no right to events, nor to consumers, nor to what has keys of bound counters');

SELECT results_eq(
	$$SELECT name, boot_val, min_val, max_val, context FROM pg_settings WHERE name ~ '^dcounter.verify_' ORDER BY name$$,
	$$VALUES ('dcounter.verify_max_rows', '1000000', '1', '2147483647', 'sighup'), ('dcounter.verify_rate', '20000', '0', '2147483647', 'sighup')$$, 'the settings of verification');
SELECT results_eq(
	$$SELECT boot_val, min_val, max_val, context FROM pg_settings WHERE name = 'dcounter.max_workers'$$,
	$$VALUES ('3', '1', '128', 'sighup')$$, 'dcounter.max_workers');

-- What was read
SELECT col_is_pk('dcounter', 'budget', 'budget', 'a budget has one row');
SELECT set_eq($$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = 'dcounter.budget'::regclass AND attnum > 0$$,
	$$VALUES (1, 'budget', 'regclass', true), (2, 'pool', 'regclass', true), (3, 'reservations', 'regclass', true)$$, 'columns of the budgets');
SELECT set_eq($$SELECT tgname::text, tgfoid::regproc::text, tgenabled::text FROM pg_trigger WHERE tgrelid = 'dcounter.budget'::regclass$$,
	$$VALUES ('on_budget_row_change', 'dcounter.on_budget_row_change', 'O')$$, 'the trigger on them');
SELECT ok(has_table_privilege('public', 'dcounter.budget', 'SELECT') AND NOT has_table_privilege('public', 'dcounter.budget', 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER'),
	'PUBLIC may read which budgets there are, and do nothing else');
SELECT col_is_pk('dcounter', 'unread', 'unread', 'an unread table has one counter table');
SELECT set_eq($$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = 'dcounter.unread'::regclass AND attnum > 0$$,
	$$VALUES (1, 'unread', 'regclass', true), (2, 'counter', 'regclass', true)$$, 'columns of the unread tables');
SELECT set_eq($$SELECT tgname::text, tgfoid::regproc::text, tgenabled::text FROM pg_trigger WHERE tgrelid = 'dcounter.unread'::regclass$$,
	$$VALUES ('on_unread_row_change', 'dcounter.on_unread_row_change', 'O')$$, 'the trigger on them');
SELECT ok(has_table_privilege('public', 'dcounter.unread', 'SELECT') AND NOT has_table_privilege('public', 'dcounter.unread', 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
	AND has_table_privilege('public', 'dc_unread_tables', 'SELECT') AND NOT has_table_privilege('public', 'dc_unread_tables', 'INSERT, UPDATE, DELETE'), 'PUBLIC may read which there are, and do nothing else');
SELECT columns_are('public', 'dc_unread_tables', ARRAY['unread', 'name', 'counter', 'owner']);
SELECT is(dc_unread_create('seen', dc_create('posts'))::text, 'seen', 'dc_unread_create() returns the table');
SELECT set_eq($$SELECT attname::text, format_type(atttypid, atttypmod), attnotnull, (SELECT collname::text FROM pg_collation c WHERE c.oid = attcollation)
		FROM pg_attribute WHERE attrelid = 'seen'::regclass AND attnum > 0$$,
	$$VALUES ('member', 'text', true, 'C'), ('key', 'text', true, 'C'), ('seen', 'bigint', true, NULL)$$, 'columns of such a table');

SELECT * FROM finish();
ROLLBACK;
