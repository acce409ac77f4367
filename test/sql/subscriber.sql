-- Tables that a subscription feeds are left alone, and are not written to. Which tables these are is
-- in pg_subscription_rel; here nothing comes. Two servers are in test/t/table/subscriber.pl.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE ROLE regress_dc_owner;
CREATE ROLE regress_dc_user;
CREATE SCHEMA regress_dc AUTHORIZATION regress_dc_owner;
GRANT USAGE ON SCHEMA regress_dc TO regress_dc_user;
SET search_path = regress_dc, public;
SET client_min_messages = error;
CREATE SUBSCRIPTION regress_dc_s CONNECTION 'dbname=regress_dc_none' PUBLICATION p WITH (connect = false, slot_name = NONE);
CREATE SUBSCRIPTION regress_dc_t CONNECTION 'dbname=regress_dc_none' PUBLICATION p WITH (connect = false, slot_name = NONE);
RESET client_min_messages;
CREATE FUNCTION feed(relid regclass, name text DEFAULT 'regress_dc_s') RETURNS void LANGUAGE sql AS
	$$INSERT INTO pg_subscription_rel SELECT oid, relid, 'r', NULL FROM pg_subscription WHERE subname = name$$;
-- What it answers, or the SQLSTATE
CREATE FUNCTION try(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE 'SELECT ' || call INTO answer;
	RETURN coalesce(answer, 'null');
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	RETURN SQLERRM;
END$$;

SET ROLE regress_dc_owner;
SELECT dc_create('likes', totals => 'compacted'), dc_create('parts', partitions => 2), dc_stock_create('seats'), dc_ledger_create('wallet', op_retention => '1 hour', partition_by => 'month');
SELECT count(dc_incr_many(c, '{a,b}', '{1,2}')) FROM unnest('{likes,parts}'::regclass[]) AS c;
SELECT dc_incr_once('likes', 'a', 10, 'once'), dc_restock('seats', 'a', 10);
-- Time is up, and the worker has not come yet
SELECT dc_hold('seats', 'a', 3, interval '1 millisecond') IS NOT NULL AS held;
SELECT dc_account_open('wallet', 'bank', NULL), dc_account_open('wallet', 'x');
SELECT transfer_id IS NOT NULL AS done FROM dc_transfer('wallet', 'bank', 'x', 100, 'e1');
SELECT transfer_id IS NOT NULL AS done FROM dc_transfer_pending('wallet', 'x', 'bank', 30, 'e2', ttl => '1 millisecond');
SELECT pg_sleep(0.01);
RESET ROLE;

-- All that is in the tables of a counter table
CREATE FUNCTION state(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	relid regclass;
	rows text;
	result text := '';
BEGIN
	FOR relid IN SELECT oid FROM pg_class WHERE relnamespace = 'regress_dc'::regnamespace AND relkind = 'r' AND relname ~ ('^' || name) AND relname !~ '_entry_[0-9]' ORDER BY oid
	LOOP
		EXECUTE format('SELECT string_agg(t::text, chr(10) ORDER BY t::text) FROM %s AS t', relid) INTO rows;
		result := concat(result, relid, chr(10), rows, chr(10));
	END LOOP;
	RETURN result;
END$$;
-- What all jobs leave of a counter table if one of its tables is fed; all is rolled back
CREATE FUNCTION maintained(name text, fed regclass) RETURNS text LANGUAGE plpgsql SET client_min_messages = error AS $$
DECLARE
	before text := state(name);
	names text;
BEGIN
	PERFORM feed(fed);
	SELECT string_agg(counter::text, ' ' ORDER BY counter::text) INTO names FROM dc_stat_counters WHERE fed_by = 'regress_dc_s';
	CALL dc_maintain();
	PERFORM dc_compact(), dc_flush();
	RAISE EXCEPTION '%: %', names, CASE state(name) WHEN before THEN 'as it was' ELSE 'changed' END;
EXCEPTION WHEN raise_exception THEN
	RETURN SQLERRM;
END$$;
-- Time for another month
DO $$BEGIN EXECUTE 'DROP TABLE ' || max(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'wallet_entry'::regclass; END$$;

-- There is something to do in all of them
SELECT name, maintained(name, 'pg_class') FROM unnest('{likes,parts,seats,wallet}'::text[]) AS name;
-- Nothing is done in those that are fed: any table, its partitions and what it is a partition of
SELECT relname, relkind, maintained(substring(relname, '^[a-z]+'), oid) FROM pg_class
	WHERE relnamespace = 'regress_dc'::regnamespace AND relkind IN ('r', 'p') AND relname !~ '_entry_[0-9]' ORDER BY relname COLLATE "C";
-- But months are made, which the subscription needs; and ops are looked for in all partitions, as those that come may be in any
SELECT feed('wallet_entry');
CALL dc_maintain();
SELECT slot, state, closed_at > now() - interval '1 minute' AS just_closed, date_trunc('minute', now() - forgotten) AS forgotten FROM dcounter.op_slot WHERE counter = 'wallet'::regclass ORDER BY slot;
UPDATE dcounter.op_slot SET closed_at = closed_at - interval '9 minutes', forgotten = forgotten - interval '9 minutes' WHERE counter = 'wallet'::regclass AND slot = 1;
UPDATE dcounter.op_slot SET closed_at = closed_at - interval '11 minutes', forgotten = forgotten - interval '11 minutes' WHERE counter = 'wallet'::regclass AND slot = 2;
CALL dc_maintain();
SELECT slot, state, closed_at > now() - interval '1 minute' AS just_closed, date_trunc('minute', now() - forgotten) AS forgotten FROM dcounter.op_slot WHERE counter = 'wallet'::regclass ORDER BY slot;
SELECT count(*) FROM pg_inherits WHERE inhparent = 'wallet_entry'::regclass;
DELETE FROM pg_subscription_rel;

-- Writing is an error, in sessions that have used the table, too; reading is none
CREATE TABLE calls (n serial, call text);
INSERT INTO calls (call) VALUES ('dc_incr(''likes'', ''a'')'), ('dc_decr(''parts'', ''a'')'), ('dc_incr_returning(''likes'', ''a'')'), ('dc_incr_hashed(''likes'', ''a'', ''b'')'), ('dc_incr_many(''likes'', ''{a}'', ''{1}'')'),
	('dc_incr_once(''likes'', ''a'', 10, ''once'')'), ('dc_set(''likes'', ''a'', 1)'), ('dc_reset(''likes'', ''a'')'), ('dc_delete(''likes'', ''a'')'), ('dc_compact(''likes'')'), ('dc_flush(''likes'')'),
	('dc_restock(''seats'', ''a'', 1)'), ('dc_take(''seats'', ''a'')'), ('dc_hold(''seats'', ''a'')'), ('dc_hold_release(''seats'', (SELECT hold_id FROM seats_hold))'), ('dc_hold_confirm(''seats'', (SELECT hold_id FROM seats_hold))'),
	('dc_transfer(''wallet'', ''bank'', ''x'', 1, ''e3'')'), ('dc_transfer_pending(''wallet'', ''bank'', ''x'', 1, ''e3'')'), ('dc_transfer_void(''wallet'', 1)'), ('dc_account_open(''wallet'', ''new'')'), ('dc_ledger_detach(''wallet'', now())'),
	('dc_get(''likes'', ''a'')'), ('dc_get_many(''parts'', ''{a}'')'), ('dc_sum(''seats'')'), ('dc_balance(''wallet'', ''x'') IS NOT NULL'), ('(SELECT count(*) FROM dc_ledger_check(''wallet''))');
BEGIN;
SELECT feed('likes_shard'), feed('parts_p1'), feed('seats_hold'), feed('wallet_limit');
SELECT call, try(call) FROM calls ORDER BY n;
\set VERBOSITY default
SAVEPOINT a;
SELECT dc_incr('likes', 'a');
ROLLBACK TO a;
SELECT feed('likes', 'regress_dc_t');
SELECT dc_compact('likes');
ROLLBACK TO a;
-- All tables: those that are fed are named
SELECT dc_compact();
CALL dc_maintain();
SELECT counter, fed_by FROM dc_stat_counters ORDER BY counter::text COLLATE "C";
SELECT feed('likes', 'regress_dc_t');
SELECT counter, fed_by FROM dc_stat_counters WHERE counter = 'likes'::regclass;
-- A role that owns nothing sees nothing
SET ROLE regress_dc_user;
CALL dc_maintain();
RESET ROLE;
\set VERBOSITY terse
ROLLBACK;
-- A subscription counts only if its owner could write to the table: anybody who may create one may list any table in it
CREATE ROLE regress_dc_stranger SUPERUSER;
ALTER SUBSCRIPTION regress_dc_s OWNER TO regress_dc_stranger;
SELECT feed('likes'), feed('dcounter.consumer');
CREATE VIEW fed AS SELECT try('dc_incr(''likes'', ''a'', 0)') AS write, try('dc_compact(''likes'')') AS compact, (SELECT fed_by FROM dc_stat_counters WHERE counter = 'likes'::regclass);
SELECT * FROM fed;
ALTER ROLE regress_dc_stranger NOSUPERUSER;
SELECT * FROM fed;
GRANT regress_dc_owner TO regress_dc_stranger;
SELECT * FROM fed;
REVOKE regress_dc_owner FROM regress_dc_stranger;
SELECT * FROM fed;
ALTER SUBSCRIPTION regress_dc_s OWNER TO CURRENT_USER;
SELECT * FROM fed;
DELETE FROM pg_subscription_rel;
SELECT * FROM fed;
DROP VIEW fed;
-- A subscription that begins in the middle: what its rows could be among is rolled back
CREATE FUNCTION begin_feeding() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = regress_dc, pg_catalog AS $$BEGIN PERFORM feed('likes_shard'); RETURN NULL; END$$;
BEGIN;
SELECT dc_incr('likes', 'b', 5), dc_apply();
COMMIT;
CREATE TRIGGER begin_feeding AFTER INSERT OR UPDATE ON likes EXECUTE FUNCTION begin_feeding();
SELECT dc_compact('likes');
CALL dc_maintain();
SELECT count(*) FROM pg_subscription_rel;
DROP TRIGGER begin_feeding ON likes;

-- The extension's own tables, as with FOR ALL TABLES: the outbox and the rings are left alone
SELECT dc_consumer_create('c');
SELECT dc_alter('likes', events => '1 second');
SELECT dc_incr_once('likes', 'c', 1, 'again'), dc_publish('t', 'k', 'e', '{}') IS NOT NULL AS published;
UPDATE dcounter.op_slot SET since = since - interval '30 days';
UPDATE dcounter.outbox_ring SET since = since - interval '30 days';
\c -
SET search_path = regress_dc, public;
CREATE VIEW done AS SELECT (SELECT count(*) FROM dcounter.changed_key) AS marks, (SELECT current FROM dcounter.outbox_ring) AS outbox,
	(SELECT string_agg(slot || state, ' ' ORDER BY slot) FROM dcounter.op_slot WHERE counter = 'likes'::regclass) AS ops;
SELECT feed('dcounter.consumer');
SELECT * FROM done;
CALL dc_maintain();
SELECT * FROM done;
-- not by a stranger's subscription
ALTER ROLE regress_dc_stranger SUPERUSER;
ALTER SUBSCRIPTION regress_dc_s OWNER TO regress_dc_stranger;
ALTER ROLE regress_dc_stranger NOSUPERUSER;
CALL dc_maintain();
SELECT * FROM done;
ALTER SUBSCRIPTION regress_dc_s OWNER TO CURRENT_USER;
DELETE FROM pg_subscription_rel;
CALL dc_maintain();
SELECT * FROM done;

-- Dropped subscriptions: all goes on
SELECT feed('likes'), feed('seats'), feed('wallet', 'regress_dc_t');
SELECT try('dc_incr(''likes'', ''a'')'), try('dc_restock(''seats'', ''a'', 1)'), try('dc_account_open(''wallet'', ''new'')');
DROP SUBSCRIPTION regress_dc_s;
DROP SUBSCRIPTION regress_dc_t;
SELECT try('dc_incr(''likes'', ''a'')'), try('dc_restock(''seats'', ''a'', 1)'), try('dc_account_open(''wallet'', ''new'')');
CALL dc_maintain();
SELECT dc_compact();
SELECT key, value FROM likes UNION ALL SELECT 'seats ' || key, value FROM seats ORDER BY 1;
SELECT count(*) FROM dc_ledger_check('wallet');
SELECT counter FROM dc_stat_counters WHERE fed_by IS NOT NULL;

SET client_min_messages = warning;
DROP SCHEMA regress_dc CASCADE;
SELECT dc_consumer_drop('c');
TRUNCATE dcounter.outbox_0, dcounter.outbox_1;
UPDATE dcounter.outbox_ring SET current = 0;
DROP ROLE regress_dc_owner, regress_dc_stranger, regress_dc_user;
