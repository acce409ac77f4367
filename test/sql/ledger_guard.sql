-- Ledgers: the guard of the tables, what dc_ledger_check() finds, privileges, and
-- tables that are not as they were made
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
\pset null NULL
SET timezone = 'UTC';

-- What a statement does: "ok", or its error. A block with an exception: what it has
-- written is undone.
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/try_line.sql

SELECT dc_ledger_create('purse');
SELECT dc_account_open('purse', 'bank', NULL), dc_account_open('purse', 'a', -10, 1000), dc_account_open('purse', 'b');
SELECT transfer_id AS t1 FROM dc_transfer('purse', 'bank', 'a', 100, 'e1') \gset
SELECT transfer_id AS t2 FROM dc_transfer('purse', 'a', 'b', 30, 'e2') \gset
SELECT transfer_id AS p1 FROM dc_transfer_pending('purse', 'a', 'b', 20, 'p1', NULL, NULL) \gset
SELECT transfer_id AS p2 FROM dc_transfer_pending('purse', 'a', 'b', 5, 'p2', NULL, NULL) \gset
SELECT dc_transfer_post('purse', :p2, 3);
SELECT * FROM dc_ledger_check('purse');

--
-- The guard: nobody changes the tables but the functions
--
SELECT s, try(s) FROM unnest(ARRAY[
	$$UPDATE purse_entry SET amount = 5$$, $$UPDATE purse_entry SET memo = '{}' WHERE entry_id = 1$$,
	$$DELETE FROM purse_entry$$, $$TRUNCATE purse_entry$$, $$TRUNCATE purse_entry, purse_account$$,
	$$INSERT INTO purse_entry SELECT * FROM purse_entry$$, $$INSERT INTO purse_entry VALUES (90, 90, 'a', 5, 'x', now())$$,
	$$MERGE INTO purse_entry AS e USING (SELECT 1) AS s ON e.key = 'a' WHEN MATCHED THEN UPDATE SET amount = 0$$,
	$$UPDATE purse_account SET max_balance = 5$$, $$DELETE FROM purse_account$$, $$TRUNCATE purse_account$$, $$INSERT INTO purse_account VALUES ('c', 0, 0, now())$$,
	$$UPDATE purse_pending SET state = 'voided'$$, $$DELETE FROM purse_pending$$, $$TRUNCATE purse_pending$$,
	$$INSERT INTO purse_pending SELECT 90, from_key, to_key, amount FROM purse_pending$$,
	$$UPDATE purse_op SET transfer_id = 5$$, $$UPDATE purse_op_0 SET transfer_id = 5$$, $$DELETE FROM purse_op$$, $$DELETE FROM purse_op_0$$,
	$$TRUNCATE purse_op$$, $$TRUNCATE purse_op_0$$, $$INSERT INTO purse_op SELECT * FROM purse_op$$, $$INSERT INTO purse_op_0 SELECT * FROM purse_op$$]) AS s;
-- ... nor those of balances and limits, though who posts has rights to the balances
SELECT dc_compact('purse') > 0, dc_compact('purse_limit') > 0;
SELECT s, try(s) FROM unnest(ARRAY[
	$$UPDATE purse SET inc = inc + 5$$, $$UPDATE purse SET updated_at = now() WHERE key = 'a'$$, $$DELETE FROM purse$$, $$DELETE FROM purse WHERE false$$,
	$$INSERT INTO purse VALUES ('z', 5)$$, $$INSERT INTO purse VALUES ('a', 5) ON CONFLICT (key) DO UPDATE SET inc = excluded.inc$$,
	$$MERGE INTO purse AS p USING (SELECT 1) AS s ON p.key = 'a' WHEN MATCHED THEN UPDATE SET inc = 0$$,
	$$INSERT INTO purse_shard VALUES ('a', 1, 5)$$, $$INSERT INTO purse_limit VALUES ('-a', 5)$$, $$UPDATE purse_limit SET dec = 0$$,
	$$UPDATE purse_limit_shard SET units = units + 5, inc = inc + 5$$, $$INSERT INTO purse_limit_shard VALUES ('-a', 1, 5)$$,
	$$INSERT INTO purse_limit_hold (hold_id, key, qty, ttl, created_at, expires_at) VALUES (gen_random_uuid(), '-a', 5, '1 s', now(), now() - interval '1 h')$$,
	$$TRUNCATE purse_shard$$, $$TRUNCATE purse_limit$$, $$TRUNCATE purse_limit_hold$$]) AS s;
COPY purse (key, inc) FROM stdin;
z	5
\.
SELECT key, inc, dec FROM purse ORDER BY key;
-- ... not with COPY either
COPY purse_entry FROM stdin;
1000	1000	a	5	x	2026-01-01	\N
\.
COPY purse_account (key, opened_at) FROM stdin;
c	2026-01-01
\.
-- ... which finds nothing to refuse where no row is
UPDATE purse_entry SET amount = 5 WHERE false;
-- ... not in a function, nor after one of the ledger's
DO $$BEGIN PERFORM dc_transfer('purse', 'bank', 'a', 1, 'e3'); UPDATE purse_entry SET amount = 5; END$$;
DO $$BEGIN BEGIN PERFORM dc_transfer('purse', 'b', 'bank', 1000, 'e3'); EXCEPTION WHEN OTHERS THEN DELETE FROM purse_entry; END; END$$;
-- ... nor does the trigger do for other tables
CREATE TABLE mine (i int);
CREATE TRIGGER t BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION dcounter.on_ledger_change();
INSERT INTO mine VALUES (1);
SELECT try('SELECT dcounter.on_ledger_change()');
DROP TABLE mine;
SELECT count(*), sum(amount) FROM purse_entry;
SELECT * FROM dc_ledger_check('purse');
-- A role of its own, without a superuser's rights, which owns the ledger
CREATE ROLE regress_dc_banker;
SELECT format('GRANT CREATE ON SCHEMA %I TO regress_dc_banker', nspname) FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE extname = 'dcounter' \gexec
SET ROLE regress_dc_banker;
SELECT dc_ledger_create('own');
SELECT dc_account_open('own', 'x', NULL), dc_account_open('own', 'y');
SELECT duplicate FROM dc_transfer('own', 'x', 'y', 5, 'e1');
SELECT s, try(s) FROM unnest(ARRAY[
	$$UPDATE own_entry SET amount = 5$$, $$DELETE FROM own_entry$$, $$TRUNCATE own_entry$$, $$INSERT INTO own_entry SELECT * FROM own_entry$$,
	$$UPDATE own_account SET min_balance = NULL$$, $$DELETE FROM own_pending WHERE false$$, $$TRUNCATE own_pending$$]) AS s;
RESET ROLE;

-- Without the guard nothing is posted
CREATE FUNCTION post_with(t text, guard text, how text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('ALTER TABLE purse_%s %s TRIGGER %s', t, how, guard);
	result := try(format('SELECT dc_transfer(''purse'', ''bank'', ''a'', 1, %L)', concat(t, guard, how)));
	EXECUTE format('ALTER TABLE purse_%s ENABLE TRIGGER %s', t, guard);
	RETURN result;
END $$;
SELECT t, guard, how, post_with(t, guard, how)
FROM unnest('{entry,account,pending,op_0}'::text[]) WITH ORDINALITY AS t(t, n), unnest('{dcounter_guard,dcounter_guard_truncate}'::text[]) AS guard, unnest('{DISABLE,ENABLE REPLICA,ENABLE ALWAYS,ENABLE}'::text[]) AS how ORDER BY n, guard, how;
BEGIN;
SELECT t, how, post_with(t, 'dcounter_guard', how)
FROM unnest('{shard,limit,limit_shard,limit_hold}'::text[]) WITH ORDINALITY AS t(t, n), unnest('{DISABLE,ENABLE REPLICA,ENABLE}'::text[]) AS how ORDER BY n, how;
ROLLBACK;
DROP FUNCTION post_with;
BEGIN;
ALTER TABLE purse DISABLE TRIGGER dcounter_guard;
DROP TRIGGER dcounter_guard ON purse_limit_shard;
SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'e4')$$);
SELECT problem FROM dc_ledger_check('purse');
SELECT dc_ledger_adopt('purse');
SELECT problem FROM dc_ledger_check('purse');
SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'e4')$$), try('UPDATE purse SET inc = 5'), try('UPDATE purse_limit_shard SET units = 5');
ROLLBACK;
BEGIN;
DROP TRIGGER dcounter_guard ON purse_entry;
SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'e4')$$);
SELECT try($$SELECT dc_transfer_many('purse', '{bank}', '{a}', '{1}', 'e4')$$);
SELECT try($$SELECT dc_transfer_pending('purse', 'bank', 'a', 1, 'e4')$$);
SELECT try(format($$SELECT dc_transfer_post('purse', %s)$$, :p1));
SELECT try(format($$SELECT dc_transfer_void('purse', %s)$$, :p1));
SELECT try($$SELECT dc_account_open('purse', 'c')$$);
ROLLBACK;
-- A trigger that does less does not count
BEGIN;
CREATE OR REPLACE TRIGGER dcounter_guard BEFORE INSERT OR UPDATE OR DELETE ON purse_entry FOR EACH ROW WHEN (false) EXECUTE FUNCTION dcounter.on_ledger_change();
SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'e4')$$);
ROLLBACK;
BEGIN;
CREATE OR REPLACE TRIGGER dcounter_guard BEFORE INSERT OR UPDATE OF memo OR DELETE ON purse_entry FOR EACH ROW EXECUTE FUNCTION dcounter.on_ledger_change();
SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'e4')$$);
ROLLBACK;
SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'e4')$$);
SELECT * FROM dc_ledger_check('purse');

--
-- The check finds what was changed all the same
--
-- Changes something without the guard, and tells what is found
CREATE FUNCTION found_after(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL session_replication_role = replica;
	EXECUTE statement;
	SET LOCAL session_replication_role = origin;
	RETURN QUERY SELECT concat_ws(' / ', key, 'balance ' || balance, 'entries ' || entries_sum, problem) FROM dc_ledger_check('purse');
	IF NOT FOUND THEN
		RETURN NEXT 'nothing: ' || statement;
	END IF;
END $$;
\set check 'BEGIN; SELECT found_after(:change); ROLLBACK;'
\set change '$$UPDATE purse_entry SET amount = amount + 1 WHERE transfer_id = ' :t2 ' AND key = ''a''$$'
:check
\set change '$$UPDATE purse_entry SET amount = 2 * amount WHERE transfer_id = ' :t2 '$$'
:check
\set change '$$UPDATE purse_entry SET key = ''b'' WHERE transfer_id = ' :t1 ' AND key = ''a''$$'
:check
\set change '$$DELETE FROM purse_entry WHERE transfer_id = ' :t2 ' AND key = ''a''$$'
:check
\set change '$$DELETE FROM purse_entry WHERE transfer_id = ' :t2 '$$'
:check
\set change '$$TRUNCATE purse_entry$$'
:check
\set change '$$INSERT INTO purse_entry VALUES (900, 900, ''a'', -1, ''x'', now()), (901, 900, ''nobody'', 1, ''x'', now())$$'
:check
\set change '$$INSERT INTO purse (key, inc, dec) VALUES (''b'', 7, 0) ON CONFLICT (key) DO UPDATE SET inc = purse.inc + 7$$'
:check
\set change '$$INSERT INTO purse (key, inc, dec) VALUES (''nobody'', 4, 0)$$'
:check
\set change '$$DELETE FROM purse_shard; DELETE FROM purse$$'
:check
\set change '$$DELETE FROM purse_account WHERE key = ''a''$$'
:check
\set change '$$UPDATE purse_account SET min_balance = 80 WHERE key = ''a''$$'
:check
\set change '$$UPDATE purse_account SET max_balance = 2 WHERE key = ''b''$$'
:check
\set change '$$UPDATE purse_account SET max_balance = NULL WHERE key = ''a''$$'
:check
\set change '$$UPDATE purse_account SET min_balance = NULL WHERE key = ''a''$$'
:check
\set change '$$UPDATE purse_limit_shard SET inc = inc + 7, units = units + 7 WHERE key = ''-b'' AND ctid = (SELECT min(ctid) FROM purse_limit_shard WHERE key = ''-b'')$$'
:check
\set change '$$UPDATE purse_limit_shard SET inc = inc + 7, units = units + 7 WHERE key = ''+a'' AND ctid = (SELECT min(ctid) FROM purse_limit_shard WHERE key = ''+a'')$$'
:check
\set change '$$UPDATE purse_limit_shard SET inc = inc + 7 WHERE key = ''-b'' AND ctid = (SELECT min(ctid) FROM purse_limit_shard WHERE key = ''-b'')$$'
:check
\set change '$$UPDATE purse_limit_shard SET units = units + 7 WHERE key = ''+a'' AND ctid = (SELECT min(ctid) FROM purse_limit_shard WHERE key = ''+a'')$$'
:check
\set change '$$DELETE FROM purse_limit_shard WHERE key = ''-a''; DELETE FROM purse_limit WHERE key = ''-a''$$'
:check
\set change '$$UPDATE purse_pending SET amount = 21 WHERE transfer_id = ' :p1 '$$'
:check
\set change '$$UPDATE purse_pending SET state = ''voided'' WHERE transfer_id = ' :p1 '$$'
:check
\set change '$$UPDATE purse_pending SET state = ''posted'', posted = 20 WHERE transfer_id = ' :p1 '$$'
:check
\set change '$$UPDATE purse_pending SET posted = 4 WHERE transfer_id = ' :p2 '$$'
:check
\set change '$$UPDATE purse_pending SET state = ''voided'', posted = 0 WHERE transfer_id = ' :p2 '$$'
:check
\set change '$$UPDATE purse_pending SET state = ''expired'' WHERE transfer_id = ' :p2 '$$'
:check
\set change '$$UPDATE purse_pending SET to_key = ''nobody'' WHERE transfer_id = ' :p1 '$$'
:check
\set change '$$DELETE FROM purse_pending$$'
:check
SELECT * FROM dc_ledger_check('purse');
-- Broken and repaired
ALTER TABLE purse_entry DISABLE TRIGGER dcounter_guard;
UPDATE purse_entry SET amount = amount + 1 WHERE transfer_id = :t2;
ALTER TABLE purse_entry ENABLE TRIGGER dcounter_guard;
SELECT key, balance, entries_sum, replace(problem, :'t2', 'N') FROM dc_ledger_check('purse');
SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 1, 'e5');
ALTER TABLE purse_entry DISABLE TRIGGER dcounter_guard;
UPDATE purse_entry SET amount = amount - 1 WHERE transfer_id = :t2;
ALTER TABLE purse_entry ENABLE TRIGGER dcounter_guard;
SELECT * FROM dc_ledger_check('purse');

--
-- Privileges
--
CREATE ROLE regress_dc_teller;
SET ROLE regress_dc_teller;
SELECT f, try('SELECT ' || f) FROM unnest(ARRAY[$$dc_transfer('purse', 'bank', 'a', 1, 'f1')$$, $$dc_transfer_many('purse', '{bank}', '{a}', '{1}', 'f1')$$,
	$$dc_transfer_pending('purse', 'bank', 'a', 1, 'f1')$$, $$dc_transfer_post('purse', 1)$$, $$dc_transfer_void('purse', 1)$$, $$dc_account_open('purse', 'f')$$,
	$$dc_balance('purse', 'a')$$, $$dc_balance_at('purse', 'a', now())$$, $$dc_account_statement('purse', 'a', now(), now())$$, $$dc_ledger_check('purse')$$, $$dc_op_status('purse', 'e1')$$]) AS f;
RESET ROLE;
GRANT SELECT ON purse TO regress_dc_teller;
SET ROLE regress_dc_teller;
SELECT f, try('SELECT ' || f) FROM unnest(ARRAY[$$dc_transfer('purse', 'bank', 'a', 1, 'f1')$$, $$dc_transfer('purse', 'bank', 'a', 100, 'e1')$$, $$dc_transfer_post('purse', 1)$$, $$dc_account_open('purse', 'f')$$,
	$$dc_balance('purse', 'a')$$, $$dc_balance_at('purse', 'a', now())$$, $$dc_account_statement('purse', 'a', now(), now())$$, $$dc_ledger_check('purse')$$, $$dc_op_status('purse', 'e1')$$]) AS f;
SELECT balance FROM dc_balance('purse', 'a');
SELECT try('SELECT * FROM purse_entry'), try('SELECT * FROM purse_pending');
RESET ROLE;
REVOKE SELECT ON purse FROM regress_dc_teller;
GRANT INSERT ON purse TO regress_dc_teller;
SET ROLE regress_dc_teller;
SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'f1')$$);
RESET ROLE;
GRANT UPDATE ON purse TO regress_dc_teller;
SET ROLE regress_dc_teller;
-- ... which is for the functions to use, not to change balances
SELECT try(s) FROM unnest(ARRAY[$$UPDATE purse SET inc = 1000000$$, $$INSERT INTO purse (key, inc) VALUES ('rich', 5)$$]) AS s;
SELECT f, try('SELECT ' || f) FROM unnest(ARRAY[$$dc_transfer('purse', 'bank', 'a', 1, 'f1')$$, $$dc_transfer_many('purse', '{bank}', '{a}', '{1}', 'f2')$$,
	$$dc_transfer_pending('purse', 'bank', 'a', 1, 'f3')$$, $$dc_transfer_post('purse', 1)$$, $$dc_transfer_void('purse', 1)$$,
	$$dc_account_open('purse', 'f')$$, $$dc_account_open('purse', 'a', -5)$$, $$dc_balance('purse', 'a')$$, $$dc_ledger_check('purse')$$]) AS f;
-- ... which cannot write the tables that the functions write for it
SELECT try(s) FROM unnest(ARRAY[$$INSERT INTO purse_entry VALUES (90, 90, 'a', 5, 'x', now())$$, $$UPDATE purse_account SET min_balance = 5$$, $$UPDATE purse_limit_shard SET units = 5$$, $$DELETE FROM purse_op$$]) AS s;
RESET ROLE;
GRANT INSERT ON purse_account TO regress_dc_teller;
SET ROLE regress_dc_teller;
SELECT try($$SELECT dc_account_open('purse', 'f')$$), try($$SELECT dc_account_open('purse', 'f', -5)$$), try($$SELECT dc_account_open('purse', 'f')$$);
RESET ROLE;
GRANT UPDATE ON purse_account TO regress_dc_teller;
SET ROLE regress_dc_teller;
SELECT try($$SELECT dc_account_open('purse', 'f', -5)$$);
SELECT try($$SELECT dc_transfer('purse', 'f', 'bank', 5, 'f4')$$);
RESET ROLE;
SELECT * FROM dc_ledger_check('purse');
-- The owner's name is on what the functions write, and the caller's search_path does not matter
CREATE SCHEMA regress_dc_trap;
CREATE FUNCTION regress_dc_trap.sum_sfunc(numeric, bigint) RETURNS numeric LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
CREATE AGGREGATE regress_dc_trap.sum(bigint) (SFUNC = regress_dc_trap.sum_sfunc, STYPE = numeric);
CREATE FUNCTION regress_dc_trap.eq(text, text) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
CREATE OPERATOR regress_dc_trap.= (FUNCTION = regress_dc_trap.eq, LEFTARG = text, RIGHTARG = text);
SELECT current_setting('search_path') AS path \gset
SET search_path = regress_dc_trap, pg_catalog, :path;
SELECT dc_balance('purse', 'f'), dc_balance_at('purse', 'f', now());
SELECT duplicate FROM dc_transfer_pending('purse', 'a', 'b', 1, 'trap', NULL, NULL);
SELECT * FROM dc_ledger_check('purse');
SELECT amount, balance FROM dc_account_statement('purse', 'f', '-infinity', 'infinity');
SET search_path = :path;
SET client_min_messages = warning;
DROP SCHEMA regress_dc_trap CASCADE;
RESET client_min_messages;

--
-- Tables that are not as they were made
--
-- More columns, checks, indexes
ALTER TABLE purse_entry ADD COLUMN note text DEFAULT 'new', ADD COLUMN day date GENERATED ALWAYS AS ((at AT TIME ZONE 'UTC')::date) STORED;
SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 2, 'x1', '{"m": 1}');
SELECT key, amount, memo, note, day = (at AT TIME ZONE 'UTC')::date FROM purse_entry WHERE op_id = 'x1' ORDER BY entry_id;
SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 2, 'x1');
ALTER TABLE purse_entry DROP COLUMN day;
ALTER TABLE purse_entry ADD CONSTRAINT small CHECK (amount < 50) NOT VALID;
SELECT split_part(try($$SELECT dc_transfer('purse', 'bank', 'a', 50, 'x2')$$), ' /', 1);
SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 49, 'x2');
ALTER TABLE purse_entry DROP CONSTRAINT small, DROP COLUMN note;
SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 1, 'x3');
ALTER TABLE purse_entry DISABLE TRIGGER dcounter_guard; UPDATE purse_entry SET memo = '{}' WHERE memo IS NULL; ALTER TABLE purse_entry ENABLE TRIGGER dcounter_guard;
ALTER TABLE purse_entry ALTER memo SET NOT NULL;
SELECT split_part(try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'x4')$$), ' /', 1);
SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 1, 'x4', '[]');
ALTER TABLE purse_entry ALTER memo DROP NOT NULL;
CREATE UNIQUE INDEX once_a_day ON purse_entry (key, amount) WHERE amount = 77;
SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 77, 'x5');
SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 77, 'x6')$$);
DROP INDEX once_a_day;
SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 77, 'x6');
SELECT * FROM dc_ledger_check('purse');
-- Triggers: after each entry, before it, and one that does not let it through
CREATE TABLE seen (key text, amount bigint);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$BEGIN INSERT INTO seen VALUES (NEW.key, NEW.amount); RETURN NEW; END$$;
CREATE TRIGGER see AFTER INSERT ON purse_entry FOR EACH ROW EXECUTE FUNCTION see();
SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 3, 'y1');
SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 3, 'y1');
SELECT duplicate FROM dc_transfer_many('purse', '{bank,a}', '{b,b}', '{4,5}', 'y2');
BEGIN; SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 3, 'y3'); ROLLBACK;
SELECT * FROM seen;
DROP TRIGGER see ON purse_entry;
CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
CREATE TRIGGER a_skip BEFORE INSERT ON purse_entry FOR EACH ROW EXECUTE FUNCTION skip();
SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 3, 'y4')$$);
DROP TRIGGER a_skip ON purse_entry;
CREATE TRIGGER a_skip BEFORE INSERT ON purse_account FOR EACH ROW EXECUTE FUNCTION skip();
SELECT try($$SELECT dc_account_open('purse', 'skipped')$$);
DROP TRIGGER a_skip ON purse_account;
CREATE TRIGGER a_skip BEFORE INSERT OR UPDATE ON purse_pending FOR EACH ROW EXECUTE FUNCTION skip();
SELECT try($$SELECT dc_transfer_pending('purse', 'bank', 'a', 3, 'y4')$$), try(format($$SELECT dc_transfer_post('purse', %s)$$, :p1)), try(format($$SELECT dc_transfer_void('purse', %s)$$, :p1));
DROP TRIGGER a_skip ON purse_pending;
-- An entry that a trigger has changed is found
CREATE FUNCTION tax() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.amount := NEW.amount - 1; RETURN NEW; END$$;
CREATE TRIGGER a_tax BEFORE INSERT ON purse_entry FOR EACH ROW EXECUTE FUNCTION tax();
BEGIN; SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 3, 'y5'); SELECT key, balance, entries_sum, regexp_replace(problem, '\d+', 'N') FROM dc_ledger_check('purse'); ROLLBACK;
DROP TRIGGER a_tax ON purse_entry;
-- A trigger that posts itself cannot: the owner's code runs with the least rights
CREATE FUNCTION fee() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
	IF NEW.op_id NOT LIKE 'fee %' AND NEW.amount < 0 THEN
		PERFORM dc_transfer('purse', 'b', 'bank', 1, 'fee ' || NEW.op_id);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER fee AFTER INSERT ON purse_entry FOR EACH ROW EXECUTE FUNCTION fee();
SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 3, 'y6');
SELECT op_id, key, amount FROM purse_entry WHERE op_id LIKE '%y6' ORDER BY op_id, key;
DROP TRIGGER fee ON purse_entry;
SELECT * FROM dc_ledger_check('purse');
DROP TABLE seen;
DROP FUNCTION see, skip, tax, fee;

-- Columns that are needed
BEGIN; ALTER TABLE purse_entry ALTER amount TYPE numeric; SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'c2')$$); ROLLBACK;
BEGIN; ALTER TABLE purse_entry ALTER key TYPE varchar(100); SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'c2')$$); ROLLBACK;
BEGIN; ALTER TABLE purse_entry ALTER at TYPE timestamp; SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'c2')$$); ROLLBACK;
BEGIN; ALTER TABLE purse_entry RENAME memo TO remark; SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'c2')$$); ROLLBACK;
BEGIN; ALTER TABLE purse_account ALTER key TYPE varchar(100); SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'c2')$$); ROLLBACK;
BEGIN; ALTER TABLE purse_account DROP COLUMN max_balance; SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'c2')$$); ROLLBACK;
BEGIN; ALTER TABLE purse_pending ALTER amount TYPE numeric; SELECT try($$SELECT dc_transfer_pending('purse', 'bank', 'a', 1, 'c2')$$), try(format($$SELECT dc_transfer_post('purse', %s)$$, :p1)); ROLLBACK;
BEGIN; ALTER TABLE purse_pending ALTER from_key TYPE varchar(100); SELECT try(format($$SELECT dc_transfer_void('purse', %s)$$, :p1)); ROLLBACK;
BEGIN; ALTER TABLE purse ALTER key TYPE varchar(100); SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'c2')$$); ROLLBACK;
BEGIN; ALTER TABLE purse_shard ALTER key TYPE varchar(100); SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'c2')$$); ROLLBACK;
BEGIN; ALTER TABLE purse_limit_shard ALTER key TYPE varchar(100); SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'c2')$$); ROLLBACK;
BEGIN; ALTER TABLE purse_account DROP CONSTRAINT purse_account_pkey; SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'c2')$$), try($$SELECT dc_account_open('purse', 'c2')$$); ROLLBACK;
BEGIN; ALTER TABLE purse_entry ENABLE ROW LEVEL SECURITY; SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'c2')$$); ROLLBACK;
BEGIN; ALTER TABLE purse_entry OWNER TO regress_dc_teller; SELECT try($$SELECT dc_transfer('purse', 'bank', 'a', 1, 'c2')$$); ROLLBACK;
SELECT duplicate FROM dc_transfer('purse', 'bank', 'a', 1, 'c2');
SELECT * FROM dc_ledger_check('purse');
SELECT * FROM dc_ledger_check('own');
SELECT dc_drop('purse'), dc_drop('own');
DROP FUNCTION try, found_after;
DROP OWNED BY regress_dc_banker, regress_dc_teller;
DROP ROLE regress_dc_banker, regress_dc_teller;
