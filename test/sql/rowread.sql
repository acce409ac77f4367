-- Rows of users' tables are read as what they are: code of an owner that alters a table
-- between two statements of ours, or while one is planned, gets an error, not our memory.
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
SET client_min_messages = warning;
CREATE ROLE regress_dc_owner;
CREATE SCHEMA regress_dc AUTHORIZATION regress_dc_owner;
SET ROLE regress_dc_owner;
SET search_path = regress_dc, public;
-- Runs `ddl` once, when an index with this predicate is looked at by the planner, or an
-- expression or a trigger is run
CREATE TABLE todo (ddl text);
CREATE FUNCTION work() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE t text;
BEGIN
	DELETE FROM regress_dc.todo RETURNING ddl INTO t;
	IF t IS NOT NULL THEN EXECUTE t; END IF;
	RETURN true;
END $$;
CREATE FUNCTION lies(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN regress_dc.work(); END $$;
CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc.work(); RETURN coalesce(NEW, OLD); END $$;

-- Compaction: while its first statement is planned
SELECT dc_create('w', totals => 'compacted');
SELECT dc_incr('w', E'\x01\x02AAAAAAAA', 3);
CREATE INDEX ON w_shard (key) WHERE lies('x');
TRUNCATE todo;
INSERT INTO todo VALUES ('ALTER TABLE regress_dc.w ALTER key TYPE name');
SELECT dc_compact('w');
TRUNCATE todo;
INSERT INTO todo VALUES ('ALTER TABLE regress_dc.w_shard ALTER key TYPE name');
SELECT dc_compact('w');
TRUNCATE todo;
INSERT INTO todo VALUES ('DROP TABLE regress_dc.w');
SELECT dc_compact('w');
TRUNCATE todo;
SELECT dc_compact('w'), dc_get('w', E'\x01\x02AAAAAAAA'), (SELECT value FROM w);
-- Compaction: between its statements
SELECT dc_create('v', totals => 'compacted');
SELECT dc_incr('v', 'a', 3);
CREATE TRIGGER fires BEFORE INSERT ON v FOR EACH ROW EXECUTE FUNCTION fires();
TRUNCATE todo;
INSERT INTO todo VALUES ('ALTER TABLE regress_dc.v_shard ALTER key TYPE name');
SELECT dc_compact('v');
TRUNCATE todo;
INSERT INTO todo VALUES ('ALTER TABLE regress_dc.v_shard ALTER inc TYPE numeric');
SELECT dc_compact('v');
TRUNCATE todo;
INSERT INTO todo VALUES ('DROP TABLE regress_dc.v_shard');
SELECT dc_compact('v');
TRUNCATE todo;
SELECT dc_compact('v'), dc_get('v', 'a'), (SELECT value FROM v);

-- Top: the value becomes text
SELECT dc_create('t', totals => 'compacted');
SELECT dc_incr('t', 'a', 3), dc_compact('t');
CREATE INDEX ON t (value) WHERE lies('x');
TRUNCATE todo;
INSERT INTO todo VALUES ('ALTER TABLE regress_dc.t DROP value, ADD value text DEFAULT ''Mine''');
SELECT * FROM dc_top('t', 1);
TRUNCATE todo;
SELECT * FROM dc_top('t', 1);

-- Holds
SELECT dc_stock_create('s');
SELECT dc_restock('s', 'k', 5);
SELECT dc_hold('s', 'k', 1, '1 hour', '01024141-4141-4141-4141-414141414141') IS NOT NULL;
CREATE INDEX ON s_hold (qty) WHERE lies('x');
TRUNCATE todo;
INSERT INTO todo VALUES ('ALTER TABLE regress_dc.s_hold ALTER state DROP DEFAULT, ALTER key TYPE name');
SELECT count(*) FROM dc_holds('s');
TRUNCATE todo;
INSERT INTO todo VALUES ('ALTER TABLE regress_dc.s_hold ALTER key DROP NOT NULL');
SELECT dc_hold_release('s', '01024141-4141-4141-4141-414141414141');
TRUNCATE todo;
SELECT dc_hold_release('s', '01024141-4141-4141-4141-414141414141');

-- Accounts and pending transfers of a ledger
SELECT dc_ledger_create('l', auto_open => true);
SELECT dc_account_open('l', 'a', NULL);
SELECT dc_transfer('l', 'a', 'b', 10, 'event 1') IS NOT NULL;
CREATE INDEX ON l_pending (amount) WHERE lies('x');
TRUNCATE todo;
INSERT INTO todo VALUES ('ALTER TABLE regress_dc.l_pending ALTER amount TYPE numeric');
SELECT * FROM dc_balance('l', 'a');
TRUNCATE todo;
INSERT INTO todo VALUES ('ALTER TABLE regress_dc.l_account ALTER min_balance TYPE text');
SELECT * FROM dc_balance('l', 'a');
TRUNCATE todo;
SELECT * FROM dc_balance('l', 'a');

-- Ops are read without SQL, and so not by an index that would run code
SELECT partition AS ops FROM dcounter.op_slot WHERE counter = 'l'::regclass \gset
SELECT indexrelid::regclass AS index FROM pg_index WHERE indrelid = :'ops'::regclass AND indisunique \gset
CREATE INDEX lies ON :ops (key) WHERE lies('x');
TRUNCATE todo;
INSERT INTO todo VALUES ('ALTER TABLE regress_dc.l_op ALTER delta TYPE text');
SELECT dc_op_status('l', 'event 1') IS NOT NULL;
SELECT count(*) FROM todo;
DROP INDEX lies;
SELECT dc_op_status('l', 'event 1') IS NOT NULL;
ALTER TABLE :ops DROP CONSTRAINT :index;
CREATE UNIQUE INDEX backwards ON :ops (op_id DESC);
SELECT dc_op_status('l', 'event 1') IS NOT NULL;
CREATE UNIQUE INDEX ON :ops (op_id);
SELECT dc_op_status('l', 'event 1') IS NOT NULL;
RESET ROLE;
-- The extension's own tables: a superuser has dropped a constraint
BEGIN;
ALTER TABLE dcounter.counter ALTER mode DROP NOT NULL;
SAVEPOINT kept;
UPDATE dcounter.counter SET mode = NULL;
ROLLBACK TO kept;
ALTER TABLE dcounter.counter DISABLE TRIGGER USER;
UPDATE dcounter.counter SET mode = NULL;
SELECT dc_adopt('regress_dc.w');
ROLLBACK;
BEGIN;
SELECT dc_consumer_create('regress_dc');
ALTER TABLE dcounter.consumer ALTER lease DROP NOT NULL;
UPDATE dcounter.consumer SET lease = NULL;
SELECT count(*) FROM dc_fetch('regress_dc');
ROLLBACK;
DROP SCHEMA regress_dc CASCADE;
DROP ROLE regress_dc_owner;
