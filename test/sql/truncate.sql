-- TRUNCATE and DELETE on the tables of counters, stocks and ledgers: what belongs
-- together goes together, or is refused
\pset tuples_only on
\pset format unaligned
\pset null NULL
\set SHOW_CONTEXT never
\set VERBOSITY terse
-- What a statement does: "ok", or its error, detail and hint. It is undone if it fails.
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/try_line.sql
-- Rows of several tables
CREATE FUNCTION rows(VARIADIC tables text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	t text; n bigint; result text[] = '{}';
BEGIN
	FOREACH t IN ARRAY tables LOOP
		EXECUTE format('SELECT count(*) FROM %s', t) INTO n;
		result := result || format('%s %s', t, n);
	END LOOP;
	RETURN array_to_string(result, ', ');
END $$;

--
-- A counter: compacted, not compacted, and counted in this transaction
--
SELECT dc_create('t', totals => 'compacted');
CREATE FUNCTION fill() RETURNS void LANGUAGE sql AS $$
	SELECT dc_incr('t', 'a', 5), dc_apply(), dc_compact('t'), dc_incr('t', 'a', 1), dc_incr('t', 'b', 2), dc_apply();
$$;
SELECT fill();
TRUNCATE t;
SELECT dc_get('t', 'a'), dc_sum('t'), rows('t', 't_shard');
SELECT fill();
BEGIN;
SELECT dc_incr('t', 'a', 100), dc_incr('t', 'c', 100);
TRUNCATE t;
SELECT dc_get('t', 'a'), dc_sum('t'), rows('t', 't_shard');
SELECT dc_incr('t', 'a', 3);
SELECT dc_get('t', 'a');
COMMIT;
SELECT dc_get('t', 'a'), dc_sum('t');
-- Both in one statement, in either order
SELECT fill();
BEGIN;
SELECT dc_incr('t', 'a', 100);
TRUNCATE t, t_shard;
COMMIT;
SELECT dc_sum('t');
SELECT fill();
BEGIN;
SELECT dc_incr('t', 'a', 100);
TRUNCATE t_shard, t;
COMMIT;
SELECT dc_sum('t');
-- Undone, the increments come back
SELECT fill();
BEGIN;
SELECT dc_incr('t', 'a', 100);
SAVEPOINT s;
SELECT dc_incr('t', 'a', 1000);
TRUNCATE t;
SELECT dc_incr('t', 'a', 10000);
SELECT dc_get('t', 'a');
ROLLBACK TO s;
SELECT dc_get('t', 'a');
SAVEPOINT s;
TRUNCATE t;
RELEASE s;
SELECT dc_incr('t', 'a', 7);
COMMIT;
SELECT dc_get('t', 'a'), dc_sum('t');
BEGIN;
TRUNCATE t;
ROLLBACK;
SELECT dc_get('t', 'a');
-- In one statement with the increments, and in a function
CREATE FUNCTION truncates() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM dc_incr('t', 'a', 9); TRUNCATE t; PERFORM dc_incr('t', 'a', 2); END $$;
SELECT dc_incr('t', 'a', 50), truncates(), dc_incr('t', 'a', 3);
SELECT dc_get('t', 'a'), dc_sum('t');
DROP FUNCTION truncates();
-- Other counters keep what was counted
SELECT dc_create('other', totals => 'compacted');
BEGIN;
SELECT dc_incr('other', 'a', 3), dc_incr('t', 'a', 3);
TRUNCATE t;
COMMIT;
SELECT dc_get('t', 'a'), dc_get('other', 'a');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT dc_incr('t', 'a', 3);
TRUNCATE t;
SELECT dc_incr('t', 'a', 4);
COMMIT;
SELECT dc_get('t', 'a');
-- The shard table alone has what is not compacted; rows of a plain counter may be deleted
SELECT fill();
TRUNCATE t_shard;
SELECT dc_get('t', 'a');
SELECT dc_incr('t', 'a', 2);
DELETE FROM t WHERE key = 'a';
SELECT dc_get('t', 'a');
-- Foreign keys: as for any table. One to the shard table is in the way.
CREATE TABLE refs (key text COLLATE "C" REFERENCES t);
SELECT try('TRUNCATE t');
TRUNCATE t CASCADE;
SELECT dc_sum('t');
DROP TABLE refs;
CREATE TABLE refs (key text COLLATE "C", shard int, FOREIGN KEY (key, shard) REFERENCES t_shard);
SELECT fill();
SELECT try('TRUNCATE t');
SELECT dc_sum('t');
DROP TABLE refs;
-- The triggers
SELECT tgname, tgenabled, tgfoid::regproc FROM pg_trigger WHERE tgrelid IN ('t'::regclass, 't_shard'::regclass) ORDER BY 1;
-- Ops stay: what was counted before does not count again
SELECT dc_incr_once('t', 'a', 1, 'event 1');
TRUNCATE t;
SELECT dc_incr_once('t', 'a', 1, 'event 1'), dc_incr_once('t', 'a', 1, 'event 2'), dc_get('t', 'a');
SELECT dc_get('t', 'a');

--
-- Privileges: those to truncate the totals. Everything else runs as the owner.
--
CREATE ROLE regress_dc_cleaner;
GRANT TRUNCATE, SELECT ON t TO regress_dc_cleaner;
SELECT fill();
SET ROLE regress_dc_cleaner;
SELECT try('TRUNCATE t_shard');
SELECT try('TRUNCATE t, t_shard');
TRUNCATE t;
SELECT dc_get('t', 'a'), current_user;
RESET ROLE;
SELECT rows('t', 't_shard');
-- ... whose code on the shard table runs as the owner, not as who truncates
CREATE ROLE regress_dc_cleaned;
CREATE SCHEMA regress_dc AUTHORIZATION regress_dc_cleaned;
SET ROLE regress_dc_cleaned;
SELECT dc_create('regress_dc.u', totals => 'compacted');
CREATE TABLE regress_dc.seen (who name, restricted text);
CREATE FUNCTION regress_dc.spy() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	became text := 'not';
BEGIN
	BEGIN
		SET ROLE regress_dc_cleaner;
		became := current_user;
	EXCEPTION WHEN OTHERS THEN became := SQLSTATE;
	END;
	INSERT INTO regress_dc.seen VALUES (current_user, became);
	RETURN NULL;
END $$;
CREATE TRIGGER spy AFTER TRUNCATE ON regress_dc.u_shard EXECUTE FUNCTION regress_dc.spy();
SELECT dc_incr('regress_dc.u', 'a');
RESET ROLE;
TRUNCATE regress_dc.u;
SELECT * FROM regress_dc.seen;
SELECT dc_sum('regress_dc.u'), current_user = session_user;
-- ... who must own the other tables
SET ROLE regress_dc_cleaned;
SELECT dc_incr('regress_dc.u', 'a');
RESET ROLE;
SET session_replication_role = replica;
ALTER TABLE regress_dc.u_shard OWNER TO CURRENT_USER;
RESET session_replication_role;
SELECT try('TRUNCATE regress_dc.u');
-- The functions do nothing elsewhere, no matter who calls them
SELECT try('SELECT dcounter.on_counter_truncate()'), try('SELECT dcounter.on_counter_delete()');
SET ROLE regress_dc_cleaned;
CREATE TABLE regress_dc.mine (i int);
CREATE TRIGGER a AFTER TRUNCATE ON regress_dc.mine EXECUTE FUNCTION dcounter.on_counter_truncate();
CREATE TRIGGER b BEFORE DELETE ON regress_dc.mine FOR EACH ROW EXECUTE FUNCTION dcounter.on_counter_delete();
CREATE TRIGGER c AFTER INSERT ON regress_dc.mine FOR EACH ROW EXECUTE FUNCTION dcounter.on_counter_delete();
SELECT try('INSERT INTO regress_dc.mine VALUES (1)');
DROP TRIGGER c ON regress_dc.mine;
INSERT INTO regress_dc.mine VALUES (1), (2);
DELETE FROM regress_dc.mine WHERE i = 1;
SELECT rows('regress_dc.mine');
TRUNCATE regress_dc.mine;
SELECT rows('regress_dc.mine');
CREATE TRIGGER d BEFORE TRUNCATE ON regress_dc.mine EXECUTE FUNCTION dcounter.on_counter_truncate();
SELECT try('TRUNCATE regress_dc.mine');
RESET ROLE;
SET client_min_messages = warning;
DROP SCHEMA regress_dc CASCADE;
DROP ROLE regress_dc_cleaned;
RESET client_min_messages;

--
-- Partitions
--
SELECT dc_create('p', partitions => 2);
CREATE FUNCTION fill_p() RETURNS void LANGUAGE sql AS $$
	SELECT dc_incr('p', k::text, 10) FROM generate_series(1, 8) AS k; SELECT dc_apply(), dc_compact('p');
	SELECT dc_incr('p', k::text, 1) FROM generate_series(1, 8) AS k; SELECT dc_apply();
$$;
CREATE FUNCTION values_p() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(DISTINCT v, ', ' ORDER BY v) FROM (
		SELECT value || CASE WHEN satisfies_hash_partition('p'::regclass, 2, 0, key COLLATE "C") THEN ' in p0' ELSE ' in p1' END AS v
		FROM dc_get_many('p', ARRAY['1', '2', '3', '4', '5', '6', '7', '8'])) AS v;
$$;
SELECT fill_p();
SELECT values_p();
BEGIN;
SELECT dc_incr('p', k::text, 100) FROM generate_series(1, 8) AS k;
TRUNCATE p_p0;
SELECT values_p();
SELECT dc_incr('p', k::text, 1000) FROM generate_series(1, 8) AS k;
COMMIT;
SELECT values_p();
BEGIN ISOLATION LEVEL REPEATABLE READ;
TRUNCATE p_p1;
SELECT values_p();
ROLLBACK;
SELECT values_p();
TRUNCATE p_p1, p_p0;
SELECT values_p(), rows('p', 'p_shard');
SELECT fill_p();
TRUNCATE p;
SELECT values_p(), rows('p', 'p_shard');
SELECT fill_p();
TRUNCATE p_shard, p;
SELECT values_p(), rows('p', 'p_shard');
-- Partitions that are attached later, and one that is detached
CREATE TABLE l (LIKE t INCLUDING ALL) PARTITION BY LIST (key);
CREATE TABLE l_shard (LIKE t_shard INCLUDING ALL);
SELECT dc_adopt('l');
CREATE TABLE l_only PARTITION OF l DEFAULT;
SELECT dc_incr('l', 'a', 2), dc_apply(), dc_compact('l'), dc_incr('l', 'b');
TRUNCATE l_only;
SELECT dc_sum('l');
DROP TABLE l_only;
CREATE TABLE l_a PARTITION OF l FOR VALUES IN ('a');
CREATE TABLE l_sub PARTITION OF l FOR VALUES IN ('b', 'c') PARTITION BY LIST (key);
CREATE TABLE l_b PARTITION OF l_sub FOR VALUES IN ('b');
CREATE TABLE l_rest (LIKE l INCLUDING ALL);
ALTER TABLE l ATTACH PARTITION l_rest DEFAULT;
CREATE TABLE l_c (LIKE l INCLUDING ALL);
ALTER TABLE l_sub ATTACH PARTITION l_c FOR VALUES IN ('c');
SELECT tgrelid::regclass, tgenabled FROM pg_trigger WHERE tgname = 'dcounter_truncate' AND tgrelid::regclass::text ~ '^l' ORDER BY tgrelid::regclass::text COLLATE "C";
SELECT dc_incr('l', k, 2), dc_apply() FROM unnest('{a,b,c,d}'::text[]) AS k;
SELECT dc_compact('l');
SELECT dc_incr('l', k) FROM unnest('{a,b,c,d}'::text[]) AS k;
TRUNCATE l_rest;
SELECT string_agg(concat_ws(' ', key, value), ', ') FROM dc_get_many('l', '{a,b,c,d}');
TRUNCATE l_b;
SELECT string_agg(concat_ws(' ', key, value), ', ') FROM dc_get_many('l', '{a,b,c,d}');
ALTER TABLE l DETACH PARTITION l_a;
TRUNCATE l_a;
TRUNCATE l_sub;
SELECT string_agg(concat_ws(' ', key, value), ', ') FROM dc_get_many('l', '{a,b,c,d}');
DROP TABLE l, l_a;

--
-- A stock
--
SELECT dc_stock_create('st');
CREATE FUNCTION fill_st() RETURNS text LANGUAGE sql AS $$
	SELECT dc_restock('st', 'a', 10), dc_restock('st', 'b', 3), dc_apply(), dc_take('st', 'a', 4), dc_compact('st'), dc_take('st', 'a'), dc_hold('st', 'a', 2), dc_hold('st', 'b', 1, hold_id => '00000000-0000-0000-0000-000000000001');
	SELECT dc_hold_release('st', '00000000-0000-0000-0000-000000000001');
	SELECT format('a %s, b %s', dc_get('st', 'a'), dc_get('st', 'b'));
$$;
-- before the first compaction, when the totals are empty
SELECT dc_restock('st', 'a', 5), dc_apply(), dc_hold('st', 'a', 2) IS NOT NULL;
SELECT s, split_part(try(s), ' /', 1) FROM unnest(ARRAY['TRUNCATE st_shard', 'TRUNCATE st_hold', 'TRUNCATE st_shard, st_hold']) AS s;
SELECT dc_get('st', 'a'), rows('st');
TRUNCATE st_shard, st;
SELECT dc_get('st', 'a'), rows('st', 'st_shard', 'st_hold');
SELECT fill_st();
SELECT s, try(s) FROM unnest(ARRAY['DELETE FROM st', $$DELETE FROM st WHERE key = 'none'$$, 'DELETE FROM st_shard', 'DELETE FROM st_hold', 'TRUNCATE st_shard', 'TRUNCATE st_hold',
	'TRUNCATE st_hold, st_shard', 'TRUNCATE st_hold, st', $$MERGE INTO st USING (SELECT 'a' AS k) AS s ON k = key WHEN MATCHED THEN DELETE$$, 'WITH d AS (DELETE FROM st RETURNING 1) SELECT 1']) AS s;
-- holds that have ended may go
DELETE FROM st_hold WHERE state <> 'open';
SELECT count(*) FROM st_hold;
SELECT dc_get('st', 'a'), dc_take('st', 'a', 4), dc_take('st', 'a', 3), dc_take('st', 'a');
BEGIN;
SELECT dc_restock('st', 'a', 100);
TRUNCATE st;
SELECT dc_get('st', 'a'), dc_take('st', 'a'), rows('st', 'st_shard', 'st_hold');
SELECT dc_restock('st', 'a', 2);
SELECT dc_get('st', 'a'), dc_take('st', 'a', 2);
ROLLBACK;
SELECT dc_get('st', 'a'), dc_get('st', 'b'), dc_take('st', 'b', 3), rows('st_hold');
SELECT fill_st();
BEGIN;
TRUNCATE st, st_hold, st_shard;
SELECT rows('st', 'st_shard', 'st_hold');
ROLLBACK;
BEGIN;
TRUNCATE st_shard, st;
SELECT rows('st', 'st_shard', 'st_hold');
ROLLBACK;
BEGIN;
TRUNCATE st_hold, st_shard, st;
SELECT rows('st', 'st_shard', 'st_hold');
ROLLBACK;
TRUNCATE st;
SELECT dc_get('st', 'a'), dc_take('st', 'a'), rows('st', 'st_shard', 'st_hold');
-- The functions delete
SELECT fill_st();
SELECT dc_delete('st', 'b'), dc_set('st', 'a', 5), dc_compact('st'), dc_get('st', 'a'), dc_take('st', 'a', 5), dc_take('st', 'a');
-- ... what a trigger on these tables does meanwhile is not theirs
CREATE FUNCTION deletes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM public.st_shard WHERE key = 'a'; RETURN NULL; END $$;
CREATE TRIGGER deletes AFTER UPDATE OR INSERT ON st EXECUTE FUNCTION deletes();
SELECT dc_restock('st', 'a', 3);
SELECT split_part(try($$SELECT dc_compact('st')$$), ' /', 1), dc_get('st', 'a');
DROP TRIGGER deletes ON st;
DROP FUNCTION deletes();
-- ... nor is it theirs after one that failed
DO $$ BEGIN BEGIN PERFORM dc_delete('st', repeat('x', 2000)); EXCEPTION WHEN OTHERS THEN END; DELETE FROM st_shard; END $$;
-- A trigger for TRUNCATE does not keep a stock from being used; others for DELETE do
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER t AFTER TRUNCATE ON st_shard EXECUTE FUNCTION nothing();
SELECT dc_take('st', 'a');
CREATE TRIGGER d AFTER DELETE ON st_shard EXECUTE FUNCTION nothing();
SELECT split_part(try($$SELECT dc_take('st', 'a')$$), ' /', 1);
DROP TRIGGER d ON st_shard;
DROP TRIGGER t ON st_shard;
DROP FUNCTION nothing();
-- A foreign key to holds
CREATE TABLE orders (hold_id uuid REFERENCES st_hold);
SELECT dc_hold('st', 'a') IS NOT NULL;
SELECT try('TRUNCATE st');
SELECT dc_get('st', 'a'), rows('st_hold');
TRUNCATE st, st_hold CASCADE;
SELECT dc_get('st', 'a'), rows('st_hold', 'st_shard');
DROP TABLE orders;

--
-- A ledger
--
SELECT dc_ledger_create('wl');
CREATE FUNCTION fill_wl() RETURNS text LANGUAGE sql AS $$
	SELECT dc_account_open('wl', 'bank', NULL), dc_account_open('wl', 'x', -10, 1000), dc_account_open('wl', 'y');
	SELECT dc_transfer('wl', 'bank', 'x', 100, 'e1'), dc_apply(), dc_compact(), dc_transfer('wl', 'x', 'y', 30, 'e2'), dc_transfer_pending('wl', 'x', 'y', 5, 'e3', NULL, NULL);
	SELECT string_agg(balance || ' ' || available, ', ' ORDER BY k) FROM unnest('{x,y}'::text[]) AS k, dc_balance('wl', k);
$$;
SELECT fill_wl();
SELECT s, try(s) FROM unnest(ARRAY['DELETE FROM wl', 'DELETE FROM wl_shard', 'DELETE FROM wl_limit', 'DELETE FROM wl_limit_shard', 'TRUNCATE wl_shard', 'TRUNCATE wl_limit', 'TRUNCATE wl_limit_shard',
	'TRUNCATE wl_limit_hold', 'TRUNCATE wl, wl_shard', 'TRUNCATE wl_limit, wl']) AS s;
SELECT * FROM dc_ledger_check('wl');
GRANT TRUNCATE ON wl TO regress_dc_cleaner;
SET ROLE regress_dc_cleaner;
SELECT try('TRUNCATE wl');
RESET ROLE;
BEGIN;
SELECT duplicate FROM dc_transfer('wl', 'bank', 'y', 1, 'e4');
TRUNCATE wl;
SELECT rows('wl', 'wl_shard', 'wl_limit', 'wl_limit_shard', 'wl_entry', 'wl_account', 'wl_pending', 'wl_op');
SELECT * FROM dc_ledger_check('wl');
SELECT fill_wl();
SELECT * FROM dc_ledger_check('wl');
ROLLBACK;
SELECT string_agg(balance || ' ' || available, ', ' ORDER BY k) FROM unnest('{x,y}'::text[]) AS k, dc_balance('wl', k);
SELECT * FROM dc_ledger_check('wl');
TRUNCATE wl;
SELECT fill_wl();
SELECT * FROM dc_ledger_check('wl');
SELECT s, try(s) FROM unnest(ARRAY['TRUNCATE wl_entry', 'DELETE FROM wl_account']) AS s;
-- By months; never compacted
SELECT dc_ledger_create('wm', partition_by => 'month');
SELECT dc_account_open('wm', 'x', NULL), dc_account_open('wm', 'y');
SELECT duplicate FROM dc_transfer('wm', 'x', 'y', 5, 'e1');
TRUNCATE wm;
SELECT rows('wm', 'wm_shard', 'wm_limit', 'wm_limit_shard', 'wm_entry', 'wm_account', 'wm_pending', 'wm_op');
SELECT * FROM dc_ledger_check('wm');
SELECT dc_drop('wm');
-- Adopting puts the triggers back
DROP TRIGGER dcounter_delete ON wl;
DROP TRIGGER dcounter_truncate ON wl;
ALTER TABLE wl_limit_shard DISABLE TRIGGER ALL;
SELECT dc_ledger_adopt('wl');
SELECT count(*) FROM pg_trigger WHERE tgname IN ('dcounter_delete', 'dcounter_truncate') AND tgrelid::regclass::text ~ '^wl' AND tgenabled <> 'D';
SELECT try('DELETE FROM wl') ~ '^55000', try('DELETE FROM wl_limit_shard') ~ '^55000';

-- The extension can be dropped, as far as these triggers are concerned, and comes back
SELECT dc_drop('wl');
SELECT fill(), fill_st();
CREATE TABLE checks AS SELECT dc_get('t', 'a') AS t, dc_get('st', 'a') AS st;
DROP FUNCTION fill(), fill_st(), fill_wl(), fill_p(), values_p();
DROP EXTENSION dcounter;
SELECT count(*) FROM pg_trigger WHERE tgname ~ 'dcounter';
CREATE EXTENSION dcounter;
SELECT dc_adopt('t'), dc_adopt('other'), dc_adopt('p'), dc_adopt('st');
SELECT count(*) FROM pg_trigger WHERE tgname ~ 'dcounter';
SELECT t = dc_get('t', 'a'), st = dc_get('st', 'a') FROM checks;
TRUNCATE t, st;
SELECT dc_get('t', 'a'), dc_get('st', 'a'), rows('t_shard', 'st_shard', 'st_hold');
SELECT dc_drop('t'), dc_drop('other'), dc_drop('p'), dc_drop('st');
DROP TABLE checks;
DROP FUNCTION try(text), rows(text[]);
DROP ROLE regress_dc_cleaner;
