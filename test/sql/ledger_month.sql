-- Ledgers whose entries are kept by month: partitions, posting, detaching; and adopting
-- the tables of a ledger.
SET timezone = 'Asia/Tokyo';
SET datestyle = 'ISO, YMD';
CREATE ROLE regress_month_owner;
CREATE SCHEMA month AUTHORIZATION regress_month_owner;
GRANT USAGE ON SCHEMA public TO regress_month_owner;
SET SESSION AUTHORIZATION regress_month_owner;

-- error(SQL): the error that a statement raises, with its SQLSTATE
CREATE FUNCTION month.error(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	EXECUTE sql;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', SQLSTATE, SQLERRM, nullif(detail, ''), nullif(hint, ''));
END $$;

SELECT month.error($$SELECT dc_ledger_create('month.w', partition_by => 'week')$$);
SELECT month.error($$SELECT dc_ledger_create('month.w', partition_by => '')$$);
SELECT dc_ledger_create('month.plain', true);
SELECT relkind FROM pg_class WHERE oid = 'month.plain_entry'::regclass;
SELECT dc_ledger_create('month.w', true, partition_by => 'month');

-- This month's partition and the next two, in UTC whatever the session's time zone is
CREATE VIEW month.parts AS
	SELECT c.oid, c.relname, pg_get_expr(c.relpartbound, c.oid) AS bound
	FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'month.w_entry'::regclass;
CREATE FUNCTION month.utc(later int) RETURNS timestamp LANGUAGE sql STABLE AS $$
	SELECT date_trunc('month', now() AT TIME ZONE 'UTC') + later * interval '1 month' $$;
SET timezone = 'UTC';
SELECT count(*), bool_and(p.relname = 'w_entry_' || to_char(month.utc(i), 'YYYY_MM')),
	bool_and(p.bound = format('FOR VALUES FROM (''%s+00'') TO (''%s+00'')', month.utc(i), month.utc(i + 1)))
FROM generate_series(0, 2) AS i JOIN month.parts AS p ON p.relname = 'w_entry_' || to_char(month.utc(i), 'YYYY_MM');
SET timezone = 'Asia/Tokyo';
SELECT pg_get_partkeydef('month.w_entry'::regclass);
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'month.w_entry'::regclass AND contype = 'p';
-- The guard is on each of them
SELECT bool_and((SELECT string_agg(tgname, ' ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = p.oid)
	= 'dcounter_guard dcounter_guard_truncate') FROM month.parts AS p;
SELECT left(month.error(format('UPDATE month.%I SET amount = 0', relname)), 5), month.error(format('TRUNCATE month.%I', relname)) ~ '^55000'
FROM month.parts, LATERAL (SELECT dc_account_open('month.w', 'bank', NULL), dc_transfer('month.w', 'bank', 'alice', 1, 'first')) AS t
WHERE relname = 'w_entry_' || to_char(month.utc(0), 'YYYY_MM');

-- Names that leave no room
SELECT month.error(format('SELECT dc_ledger_create(''month.%s'', partition_by => ''month'')', repeat('x', 50)));
SELECT to_regclass('month.' || repeat('x', 50));

-- Older months, which do not come by themselves
CREATE TABLE month.w_entry_2024_01 PARTITION OF month.w_entry FOR VALUES FROM ('2024-01-01 00:00:00+00') TO ('2024-02-01 00:00:00+00');
CREATE TABLE month.w_entry_2024_02 PARTITION OF month.w_entry FOR VALUES FROM ('2024-02-01 00:00:00+00') TO ('2024-03-01 00:00:00+00');
CREATE TABLE month.w_entry_2024_03 PARTITION OF month.w_entry FOR VALUES FROM ('2024-03-01 00:00:00+00') TO ('2024-04-01 00:00:00+00');
SELECT duplicate FROM dc_transfer('month.w', 'bank', 'alice', 100, 'jan');
SELECT duplicate FROM dc_transfer('month.w', 'alice', 'bob', 30, 'feb');
SELECT duplicate FROM dc_transfer('month.w', 'alice', 'bob', 7, 'now');
SELECT dc_transfer_post('month.w', (dc_transfer_pending('month.w', 'alice', 'carol', 20, 'posted in january')).transfer_id, 15);
SELECT dc_transfer_post('month.w', (dc_transfer_pending('month.w', 'alice', 'carol', 5, 'posted now')).transfer_id, 4);
SELECT dc_transfer_void('month.w', (dc_transfer_pending('month.w', 'alice', 'carol', 3, 'voided in january')).transfer_id);
-- A transfer has ended when its entries say that it has, so both are in one month
SELECT p.op_id, count(*) FROM month.w_pending AS p JOIN month.w_entry AS e ON e.transfer_id = p.transfer_id AND e.at = p.ended_at GROUP BY 1 ORDER BY 1;
SELECT duplicate FROM dc_transfer_pending('month.w', 'alice', 'carol', 6, 'open since january', ttl => NULL);
RESET SESSION AUTHORIZATION;
SET session_replication_role = replica;
UPDATE month.w_entry SET at = '2024-01-10 12:00+00' WHERE op_id IN ('first', 'jan');
UPDATE month.w_entry SET at = '2024-01-31 23:59:59.999999+00' WHERE op_id = 'posted in january';
UPDATE month.w_entry SET at = '2024-02-29 12:00+00' WHERE op_id = 'feb';
UPDATE month.w_pending SET created_at = '2024-01-10 12:00+00', ended_at = CASE WHEN ended_at IS NOT NULL THEN timestamptz '2024-01-31 23:59:59.999999+00' END
WHERE op_id ~ 'january';
RESET session_replication_role;
SET SESSION AUTHORIZATION regress_month_owner;
SELECT tableoid::regclass, key, amount, op_id FROM month.w_entry WHERE at < '2025-01-01' ORDER BY entry_id;
SELECT * FROM dc_ledger_check('month.w');
CREATE VIEW month.balances AS
	SELECT k AS key, b.*, dc_balance_at('month.w', k, now()) AS at_now, dc_balance_at('month.w', k, '2024-02-01 00:00+00') AS february,
		dc_balance_at('month.w', k, '2024-03-01 00:00+00') AS march
	FROM unnest('{bank,alice,bob,carol,nobody}'::text[]) WITH ORDINALITY AS u(k, n), dc_balance('month.w', k) AS b ORDER BY n;
SELECT * FROM month.balances;

-- Detaching
SELECT month.error($$SELECT dc_ledger_detach('month.w', NULL)$$);
SELECT month.error($$SELECT dc_ledger_detach(NULL, now())$$);
SELECT month.error($$SELECT dc_ledger_detach('month.w', now() + interval '1 minute')$$);
SELECT month.error($$SELECT dc_ledger_detach('month.w', 'infinity')$$);
SELECT month.error($$SELECT dc_ledger_detach('month.plain', now())$$);
SELECT month.error($$SELECT dc_ledger_detach('month.w_limit', now())$$);
RESET SESSION AUTHORIZATION;
CREATE ROLE regress_month_other;
GRANT USAGE ON SCHEMA month TO regress_month_other;
GRANT ALL ON ALL TABLES IN SCHEMA month TO regress_month_other;
SET SESSION AUTHORIZATION regress_month_other;
SELECT dc_ledger_detach('month.w', '2024-02-01 00:00+00');
SET SESSION AUTHORIZATION regress_month_owner;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_ledger_detach('month.w', '2024-02-01 00:00+00');
ROLLBACK;
BEGIN READ ONLY;
SELECT dc_ledger_detach('month.w', '2024-02-01 00:00+00');
ROLLBACK;
-- Nothing ends by then
SELECT * FROM dc_ledger_detach('month.w', '2024-01-31 23:59:59.999999+00');
SELECT * FROM dc_ledger_detach('month.w', '-infinity');
SELECT openings FROM dcounter.ledger WHERE ledger = 'month.w'::regclass;
-- Rolled back, statements prepared in this session notice both
BEGIN;
SELECT * FROM dc_ledger_detach('month.w', '2024-02-01 00:00+00');
SELECT dc_balance_at('month.w', 'alice', now());
ROLLBACK;
SELECT dc_balance_at('month.w', 'alice', now());
SELECT to_regclass('month.w_opening');

SELECT * FROM dc_ledger_detach('month.w', '2024-02-15 00:00+00');
SELECT key, amount, before AT TIME ZONE 'UTC' AS before FROM month.w_opening ORDER BY key;
SELECT openings FROM dcounter.ledger WHERE ledger = 'month.w'::regclass;
SELECT * FROM dc_ledger_check('month.w');
SELECT * FROM month.balances;
SELECT month.error($$SELECT dc_balance_at('month.w', 'alice', '2024-01-31 23:59:59.999999+00')$$);
SELECT month.error($$SELECT * FROM dc_account_statement('month.w', 'alice', '2024-01-31 23:59:59.999999+00', now())$$);
SELECT amount, balance, op_id FROM dc_account_statement('month.w', 'alice', '2024-02-01 00:00+00', 'infinity');
SELECT amount, balance, op_id FROM dc_account_statement('month.w', 'alice', '2024-03-01 00:00+00', 'infinity');
-- The ops of that time are still known, pending transfers can be ended
SELECT duplicate FROM dc_transfer('month.w', 'bank', 'alice', 100, 'jan');
SELECT dc_transfer_post('month.w', transfer_id, 2) FROM month.w_pending WHERE op_id = 'open since january';
SELECT * FROM dc_ledger_check('month.w');
-- What was detached is an ordinary table of the owner
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'month.w_entry_2024_01'::regclass;
DELETE FROM month.w_entry_2024_01;
DROP TABLE month.w_entry_2024_01;
SELECT * FROM dc_ledger_check('month.w');
-- The openings are protected, and posting goes by that
SELECT month.error($$UPDATE month.w_opening SET amount = amount + 1$$);
SELECT month.error($$TRUNCATE month.w_opening$$);
ALTER TABLE month.w_opening DISABLE TRIGGER dcounter_guard;
UPDATE month.w_opening SET amount = amount + 1 WHERE key = 'bob' OR key = 'alice';
SELECT month.error($$SELECT dc_transfer('month.w', 'alice', 'bob', 1, 'unprotected')$$);
ALTER TABLE month.w_opening ENABLE TRIGGER dcounter_guard;
SELECT * FROM dc_ledger_check('month.w');
ALTER TABLE month.w_opening DISABLE TRIGGER dcounter_guard;
UPDATE month.w_opening SET amount = amount - 1 WHERE key = 'bob' OR key = 'alice';
SELECT dc_ledger_adopt('month.w');
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'month.w_opening'::regclass ORDER BY 1;

-- The rest: one row of bob, one of alice; a month without entries
SELECT * FROM dc_ledger_detach('month.w', '2024-04-01 00:00+00');
SELECT key, amount, before AT TIME ZONE 'UTC' AS before FROM month.w_opening ORDER BY key;
SELECT month.error($$SELECT dc_balance_at('month.w', 'nobody', '2024-03-31 23:59:59.999999+00')$$);
SELECT dc_balance_at('month.w', 'bob', '2024-04-01 00:00+00');
SELECT * FROM dc_ledger_check('month.w');
SELECT duplicate FROM dc_transfer('month.w', 'alice', 'bob', 1, 'after all');
SELECT dc_balance('month.w', 'bob');
-- Never the current month
SELECT * FROM dc_ledger_detach('month.w', now());
SELECT count(*) FROM month.parts;

-- A ledger without entries
SELECT dc_ledger_create('month.empty', partition_by => 'month');
CREATE TABLE month.empty_entry_2024_01 PARTITION OF month.empty_entry FOR VALUES FROM ('2024-01-01 00:00:00+00') TO ('2024-02-01 00:00:00+00');
SELECT * FROM dc_ledger_detach('month.empty', now());
SELECT * FROM month.empty_opening;
SELECT dc_balance_at('month.empty', 'a', '2023-01-01');
SELECT * FROM dc_ledger_check('month.empty');

-- Partitions are known by their bounds; a default one keeps months from being made
CREATE TABLE month.later PARTITION OF month.empty_entry FOR VALUES FROM ('2999-01-01') TO (MAXVALUE);
CREATE TABLE month.other PARTITION OF month.empty_entry DEFAULT;
SELECT dc_account_open('month.empty', 'a', NULL), dc_account_open('month.empty', 'b', NULL);
SELECT month.error($$SELECT dc_ledger_detach('month.empty', now())$$);
DO $$ BEGIN EXECUTE 'DROP TABLE month.' || (SELECT relname FROM pg_class WHERE relname = 'empty_entry_' || to_char(month.utc(0), 'YYYY_MM')); END $$;
SELECT dc_transfer('month.empty', 'a', 'b', 1, '1');
SELECT tableoid::regclass, key, amount FROM month.empty_entry ORDER BY entry_id;
SELECT * FROM dc_ledger_check('month.empty');

-- A missing month is made by who posts, and by dc_maintain()
SELECT dc_ledger_create('month.gap', partition_by => 'month');
SELECT dc_account_open('month.gap', 'a', NULL), dc_account_open('month.gap', 'b', NULL);
SELECT dc_transfer('month.gap', 'a', 'b', 1, '0');
CREATE FUNCTION month.drop_month(later int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('DROP TABLE month.gap_entry_%s', to_char(month.utc(later), 'YYYY_MM'));
END $$;
CREATE VIEW month.gaps AS
	SELECT string_agg((to_regclass('month.gap_entry_' || to_char(month.utc(i), 'YYYY_MM')) IS NOT NULL)::text, ' ' ORDER BY i) AS there
	FROM generate_series(0, 2) AS i;
BEGIN; -- keeps the worker away
SELECT month.drop_month(0), month.drop_month(1);
SELECT key, balance, entries_sum FROM dc_ledger_check('month.gap');
GRANT SELECT, INSERT, UPDATE ON month.gap TO regress_month_other;
SET SESSION AUTHORIZATION regress_month_other;
SELECT transfer_id FROM dc_transfer('month.gap', 'a', 'b', 2, '1');
SELECT transfer_id FROM dc_transfer('month.gap', 'a', 'b', 3, '2');
SET SESSION AUTHORIZATION regress_month_owner;
SELECT * FROM month.gaps;
SELECT key, amount, tableoid = to_regclass('month.gap_entry_' || to_char(month.utc(0), 'YYYY_MM')) FROM month.gap_entry ORDER BY entry_id;
SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass('month.gap_entry_' || to_char(month.utc(0), 'YYYY_MM'));
SELECT string_agg(tgname, ' ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = to_regclass('month.gap_entry_' || to_char(month.utc(0), 'YYYY_MM'));
CALL dc_maintain();
SELECT * FROM month.gaps;
COMMIT;

-- Objects on a partition take effect: a check, a disabled trigger
CREATE FUNCTION month.this() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'month.gap_entry_' || to_char(month.utc(0), 'YYYY_MM') $$;
DO $$ BEGIN EXECUTE format('ALTER TABLE %s ADD CONSTRAINT small CHECK (abs(amount) < 10)', month.this()); END $$;
SELECT split_part(month.error($$SELECT dc_transfer('month.gap', 'a', 'b', 10, '3')$$), ' ', 1);
SELECT duplicate FROM dc_transfer('month.gap', 'a', 'b', 9, '3');
DO $$ BEGIN EXECUTE format('ALTER TABLE %s DROP CONSTRAINT small, DISABLE TRIGGER dcounter_guard', month.this()); END $$;
SELECT replace(month.error($$SELECT dc_transfer('month.gap', 'a', 'b', 1, '4')$$), split_part(month.this(), '.', 2), 'THIS');
SELECT dc_ledger_adopt('month.gap');
SELECT duplicate FROM dc_transfer('month.gap', 'a', 'b', 1, '4');
DO $$ BEGIN EXECUTE format('DROP TRIGGER dcounter_guard_truncate ON %s', month.this()); END $$;
SELECT replace(month.error($$SELECT dc_transfer('month.gap', 'a', 'b', 1, '5')$$), split_part(month.this(), '.', 2), 'THIS');
SELECT dc_ledger_adopt('month.gap');
SELECT duplicate FROM dc_transfer('month.gap', 'a', 'b', 1, '5');
-- A trigger of the owner's on the parent, for rows and for statements
CREATE TABLE month.seen (what text);
CREATE FUNCTION month.see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO month.seen VALUES (TG_LEVEL);
	RETURN NEW;
END $$;
CREATE FUNCTION month.seen_too() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER see AFTER INSERT ON month.gap_entry FOR EACH STATEMENT EXECUTE FUNCTION month.see();
SELECT duplicate FROM dc_transfer('month.gap', 'a', 'b', 1, '6');
DROP TRIGGER see ON month.gap_entry;
CREATE TRIGGER see AFTER INSERT ON month.gap_entry FOR EACH ROW EXECUTE FUNCTION month.see();
SELECT duplicate FROM dc_transfer('month.gap', 'a', 'b', 1, '7');
-- It may not change entries, though the function's own statement has fired it
CREATE OR REPLACE FUNCTION month.see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE month.gap_entry SET amount = 0 WHERE entry_id = NEW.entry_id;
	RETURN NEW;
END $$;
SELECT split_part(month.error($$SELECT dc_transfer('month.gap', 'a', 'b', 1, '8')$$), ' ', 1);
DROP TRIGGER see ON month.gap_entry;
SELECT duplicate FROM dc_transfer('month.gap', 'a', 'b', 1, '8');
-- A trigger may post
CREATE TABLE month.orders (id int);
CREATE FUNCTION month.pay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM dc_transfer('month.gap', 'a', 'b', 1, 'order ' || NEW.id), dc_account_open('month.gap', 'order ' || NEW.id);
	RETURN NEW;
END $$;
CREATE TRIGGER pay AFTER INSERT ON month.orders FOR EACH ROW EXECUTE FUNCTION month.pay();
CREATE TRIGGER see AFTER INSERT ON month.gap_entry FOR EACH STATEMENT EXECUTE FUNCTION month.seen_too();
INSERT INTO month.orders VALUES (1);
DROP TRIGGER see ON month.gap_entry;
INSERT INTO month.orders VALUES (2);
SELECT op_id, amount FROM month.gap_entry WHERE op_id ~ 'order' ORDER BY entry_id;
SELECT what, count(*) FROM month.seen GROUP BY what ORDER BY what;
SELECT key, balance, entries_sum FROM dc_ledger_check('month.gap');

-- Adopting: the tables of a ledger whose rows in the catalogs are gone
RESET SESSION AUTHORIZATION;
CREATE FUNCTION month.forget(name text) RETURNS void LANGUAGE sql AS $$
	DELETE FROM dcounter.ledger WHERE ledger = name::regclass;
	DELETE FROM dcounter.counter WHERE ledger = name::regclass;
	DELETE FROM dcounter.op_slot WHERE counter = name::regclass;
$$;
SELECT month.forget('month.w');
SET SESSION AUTHORIZATION regress_month_owner;
SELECT month.error($$SELECT dc_balance('month.w', 'alice')$$);
SELECT month.error($$SELECT dc_adopt('month.w')$$);
SELECT month.error($$SELECT dc_adopt('month.w_limit')$$);
SELECT month.error($$SELECT dc_ledger_adopt(NULL)$$);
SELECT month.error($$SELECT dc_ledger_adopt('month.w', NULL)$$);
SELECT month.error($$SELECT dc_ledger_adopt('month.w_entry')$$);
SET SESSION AUTHORIZATION regress_month_other;
SELECT dc_ledger_adopt('month.w');
SET SESSION AUTHORIZATION regress_month_owner;
DROP TRIGGER dcounter_guard ON month.w_entry;
DROP TRIGGER dcounter_guard_truncate ON month.w_account;
SELECT dc_ledger_adopt('month.w', auto_open => true);
SELECT * FROM dcounter.ledger WHERE ledger = 'month.w'::regclass;
SELECT counter, shards, holds, op_retention, ledger FROM dcounter.counter WHERE ledger = 'month.w'::regclass ORDER BY counter::text;
SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgrelid IN ('month.w_entry'::regclass, 'month.w_account'::regclass) ORDER BY 1, 2;
SELECT * FROM dc_ledger_check('month.w');
SELECT duplicate FROM dc_transfer('month.w', 'alice', 'bob', 1, 'after all');
SELECT duplicate FROM dc_transfer('month.w', 'alice', 'dora', 2, 'adopted');
SELECT dc_balance('month.w', 'alice');
SELECT * FROM dc_ledger_check('month.w');
-- A registered one keeps its settings
SELECT dc_ledger_adopt('month.w');
SELECT auto_open FROM dcounter.ledger WHERE ledger = 'month.w'::regclass;

-- What cannot be adopted
RESET SESSION AUTHORIZATION;
SELECT month.forget('month.plain');
SET SESSION AUTHORIZATION regress_month_owner;
ALTER TABLE month.plain_pending RENAME TO plain_p;
SELECT month.error($$SELECT dc_ledger_adopt('month.plain')$$);
CREATE VIEW month.plain_pending AS SELECT 1 AS x;
SELECT month.error($$SELECT dc_ledger_adopt('month.plain')$$);
DROP VIEW month.plain_pending;
ALTER TABLE month.plain_p RENAME TO plain_pending;
ALTER TABLE month.plain_entry RENAME COLUMN amount TO amounts;
SELECT month.error($$SELECT dc_ledger_adopt('month.plain')$$);
ALTER TABLE month.plain_entry RENAME COLUMN amounts TO amount;
RESET SESSION AUTHORIZATION;
ALTER TABLE month.plain_account OWNER TO regress_month_other;
SELECT month.error($$SELECT dc_ledger_adopt('month.plain')$$);
ALTER TABLE month.plain_account OWNER TO regress_month_owner;
SELECT dc_ledger_adopt('month.plain');
SELECT * FROM dc_ledger_check('month.plain');

-- Restoring the catalog again changes nothing, but what differs
INSERT INTO dcounter.ledger SELECT * FROM dcounter.ledger WHERE ledger = 'month.w'::regclass;
SELECT count(*), bool_and(auto_open) FROM dcounter.ledger WHERE ledger = 'month.w'::regclass;
INSERT INTO dcounter.ledger SELECT ledger, limits, entries, entry_ids, accounts, pendings, openings, false FROM dcounter.ledger WHERE ledger = 'month.w'::regclass;
SELECT count(*), bool_and(auto_open) FROM dcounter.ledger WHERE ledger = 'month.w'::regclass;
SELECT month.error($$SELECT dc_transfer('month.w', 'alice', 'newcomer', 1, 'not open')$$);
INSERT INTO dcounter.ledger (ledger) VALUES ('month.w');
SELECT month.error($$CREATE TRIGGER t BEFORE INSERT ON month.seen FOR EACH ROW EXECUTE FUNCTION dcounter.on_ledger_row_change(); INSERT INTO month.seen VALUES ('')$$);

SET client_min_messages = warning;
DROP SCHEMA month CASCADE;
RESET client_min_messages;
SELECT count(*) FROM dcounter.ledger AS l WHERE NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = l.ledger);
REVOKE USAGE ON SCHEMA public FROM regress_month_owner;
DROP ROLE regress_month_owner, regress_month_other;
