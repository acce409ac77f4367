-- How the tables of a counter are kept: what is done to one is done to the others, or
-- refused; and DDL in a transaction with increments
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
\set VERBOSITY terse
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/try_line.sql
CREATE VIEW kept AS SELECT relname::text COLLATE "C" AS name, relpersistence AS persistence, amname, CASE reltablespace WHEN 0 THEN 'default' ELSE 'other' END AS tablespace
	FROM pg_class AS c LEFT JOIN pg_am AS a ON a.oid = relam WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1;

-- Logged and unlogged
SELECT dc_create('c', totals => 'compacted'), dc_stock_create('s'), dc_create('p', partitions => 2);
SELECT dc_incr('c', 'a', 5), dc_restock('s', 'a', 5), dc_incr('p', k::text) FROM generate_series(1, 4) AS k;
ALTER TABLE c SET UNLOGGED;
ALTER TABLE s SET UNLOGGED, SET (fillfactor = 75);
ALTER TABLE p_p0 SET UNLOGGED;
SELECT name, persistence FROM kept;
SELECT dc_get('c', 'a'), dc_get('s', 'a'), dc_sum('p'), dc_take('s', 'a'), dc_hold('s', 'a') IS NOT NULL, dc_incr('c', 'a');
SELECT s, try(s) FROM unnest(ARRAY['ALTER TABLE c_shard SET LOGGED', 'ALTER TABLE s_shard SET LOGGED', 'ALTER TABLE s_hold SET LOGGED', 'ALTER TABLE p_shard_p0 SET LOGGED', 'ALTER TABLE p_shard_p1 SET UNLOGGED']) AS s;
-- what changes nothing is no matter
ALTER TABLE c_shard SET UNLOGGED;
SELECT dc_compact('c');
ALTER TABLE c SET LOGGED;
ALTER TABLE s SET LOGGED;
ALTER TABLE p_p0 SET LOGGED;
SELECT DISTINCT persistence FROM kept;
SELECT dc_get('c', 'a'), dc_get('s', 'a'), dc_sum('p');
SELECT try('ALTER TABLE c_shard SET UNLOGGED');
-- a partition of which the shard table has none
CREATE TABLE l (LIKE c INCLUDING ALL) PARTITION BY LIST (key);
CREATE TABLE l_shard (LIKE c_shard INCLUDING ALL);
CREATE TABLE l_a PARTITION OF l FOR VALUES IN ('a');
SELECT dc_adopt('l');
SELECT try('ALTER TABLE l_a SET UNLOGGED');
DROP TABLE l;
-- tables that differ are not adopted
CREATE TABLE mixed (LIKE c INCLUDING ALL);
CREATE UNLOGGED TABLE mixed_shard (LIKE c_shard INCLUDING ALL);
SELECT try($$SELECT dc_adopt('mixed')$$);
ALTER TABLE mixed SET UNLOGGED;
SELECT dc_adopt('mixed');
DROP TABLE mixed;
-- a ledger is logged
SELECT dc_ledger_create('w');
SELECT s, try(s) FROM unnest(ARRAY['ALTER TABLE w SET UNLOGGED', 'ALTER TABLE w_shard SET UNLOGGED', 'ALTER TABLE w_limit SET UNLOGGED', 'ALTER TABLE w_limit_shard SET UNLOGGED', 'ALTER TABLE w_limit_hold SET UNLOGGED']) AS s;
SELECT DISTINCT persistence FROM kept;
SELECT dc_drop('w');

-- Access methods
CREATE ACCESS METHOD regress_dc_heap TYPE TABLE HANDLER heap_tableam_handler;
ALTER TABLE c SET ACCESS METHOD regress_dc_heap;
ALTER TABLE s SET ACCESS METHOD regress_dc_heap;
ALTER TABLE p_p1 SET ACCESS METHOD regress_dc_heap;
SELECT name, amname FROM kept WHERE amname <> 'heap';
SELECT dc_incr('c', 'a'), dc_take('s', 'a'), dc_incr('p', '1');
SELECT dc_get('c', 'a'), dc_get('s', 'a'), dc_sum('p');
ALTER TABLE c SET ACCESS METHOD heap;
ALTER TABLE s SET ACCESS METHOD heap;
ALTER TABLE p_p1 SET ACCESS METHOD heap;
ALTER TABLE c_shard SET ACCESS METHOD regress_dc_heap;
SELECT name, amname FROM kept WHERE amname <> 'heap';
ALTER TABLE c_shard SET ACCESS METHOD heap;
DROP ACCESS METHOD regress_dc_heap;

-- Tablespaces
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_dc_space LOCATION '';
ALTER TABLE c SET TABLESPACE regress_dc_space;
ALTER TABLE s SET TABLESPACE regress_dc_space;
ALTER TABLE p_p1 SET TABLESPACE regress_dc_space;
ALTER TABLE p SET TABLESPACE regress_dc_space;
SELECT name FROM kept WHERE tablespace = 'other';
SELECT dc_incr('c', 'a'), dc_take('s', 'a'), dc_incr('p', '1');
SELECT dc_get('c', 'a'), dc_get('s', 'a'), dc_sum('p');
-- the shard table's can be chosen
ALTER TABLE c_shard SET TABLESPACE pg_default;
SELECT name FROM kept WHERE tablespace = 'other' AND name ~ '^c';
ALTER TABLE c SET TABLESPACE pg_default;
ALTER TABLE s SET TABLESPACE pg_default;
ALTER TABLE p SET TABLESPACE pg_default;
ALTER TABLE p_p1 SET TABLESPACE pg_default;
SELECT name FROM kept WHERE tablespace = 'other';
DROP TABLESPACE regress_dc_space;

-- Neither parents nor children
CREATE TABLE parent (LIKE c INCLUDING DEFAULTS INCLUDING GENERATED);
CREATE TABLE whole (LIKE c_shard INCLUDING DEFAULTS) PARTITION BY LIST (key);
CREATE TABLE holds (LIKE s_hold INCLUDING DEFAULTS) PARTITION BY LIST (key);
SELECT s, try(s) FROM unnest(ARRAY['ALTER TABLE c INHERIT parent', 'ALTER TABLE parent INHERIT c', 'CREATE TABLE child () INHERITS (c)', 'CREATE TABLE child () INHERITS (c_shard)', 'CREATE TABLE child () INHERITS (s_hold)',
	'ALTER TABLE whole ATTACH PARTITION c_shard DEFAULT', $$ALTER TABLE holds ATTACH PARTITION s_hold FOR VALUES IN ('a')$$]) AS s;
DROP TABLE parent, whole, holds;
-- ... that lie on other servers
CREATE FOREIGN DATA WRAPPER regress_dc_wrapper;
CREATE SERVER regress_dc_server FOREIGN DATA WRAPPER regress_dc_wrapper;
CREATE FOREIGN TABLE distant (key text COLLATE "C" NOT NULL, shard int NOT NULL, inc bigint NOT NULL, dec bigint NOT NULL, updated_at timestamptz NOT NULL) SERVER regress_dc_server;
SELECT s, try(s) FROM unnest(ARRAY['ALTER TABLE distant INHERIT c_shard', 'ALTER FOREIGN TABLE distant INHERIT c_shard', 'CREATE FOREIGN TABLE child () INHERITS (c) SERVER regress_dc_server']) AS s;
DROP FOREIGN DATA WRAPPER regress_dc_wrapper CASCADE;
-- Columns of others may have the types of these, and partitions of their own come and go
CREATE TABLE child_of_none () INHERITS (pg_class);
CREATE TABLE some_parent (a int);
CREATE TABLE some_child () INHERITS (some_parent);
DROP TABLE some_parent CASCADE;

--
-- DDL in a transaction that has increments: COMMIT does not fail for it
--
SELECT dc_create('d', totals => 'compacted');
-- What is run after an increment, in one transaction. What the table has afterwards.
CREATE FUNCTION after_incr(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM dc_incr('d', 'a', 1);
	EXECUTE statement;
	RETURN 'ok';
END $$;
SELECT after_incr('DROP TABLE d_shard');
SELECT try($$SELECT dc_incr('d', 'a')$$);
DROP TABLE d;
SELECT dc_create('d', totals => 'compacted');
SELECT after_incr('ALTER TABLE d_shard DROP COLUMN inc');
SELECT try($$SELECT dc_incr('d', 'a')$$);
DROP TABLE d;
SELECT dc_create('d', totals => 'compacted');
-- ... and after it, at once
BEGIN;
SELECT dc_incr('d', 'a', 2);
ALTER TABLE d_shard DROP CONSTRAINT d_shard_pkey;
SELECT dc_incr('d', 'a', 4);
COMMIT;
CREATE SCHEMA regress_dc;
BEGIN;
SELECT dc_incr('d', 'a', 2);
ALTER TABLE d_shard RENAME TO odd;
SELECT dc_incr('d', 'a', 4);
ALTER TABLE odd SET SCHEMA regress_dc;
SELECT dc_incr('d', 'a', 8);
ALTER TABLE d SET UNLOGGED;
SELECT dc_incr('d', 'a', 16);
CREATE INDEX ON regress_dc.odd (inc);
COMMIT;
BEGIN;
SELECT dc_incr('d', 'a', 32);
CREATE INDEX ON regress_dc.odd (shard);
SELECT dc_incr('d', 'a', 64);
CREATE TRIGGER no BEFORE INSERT OR UPDATE ON regress_dc.odd FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
ALTER TABLE regress_dc.odd ADD CHECK (inc < 1000);
COMMIT;
SELECT dc_get('d', 'a');
SELECT split_part(try($$SELECT dc_incr('d', 'a'), dc_apply()$$), ' /', 1);
SELECT dc_drop('d');
-- Of all commands that take the tables away
SELECT dc_create('d', totals => 'compacted');
SELECT after_incr('DROP TABLE d'), to_regclass('d_shard');
SELECT dc_create('regress_dc.d', totals => 'compacted');
BEGIN;
SELECT dc_incr('regress_dc.d', 'a');
SET client_min_messages = warning;
DROP SCHEMA regress_dc CASCADE;
COMMIT;
RESET client_min_messages;
SELECT dc_create('d', totals => 'compacted');
BEGIN;
SELECT dc_incr('d', 'a', 3);
SET LOCAL session_replication_role = replica;
DROP TABLE d_shard;
COMMIT;
DROP TABLE d;
SELECT dc_create('d', totals => 'compacted');
BEGIN;
SELECT dc_incr('d', 'a', 3);
SAVEPOINT s;
DROP TABLE d_shard;
ROLLBACK TO s;
SELECT dc_incr('d', 'a', 4);
COMMIT;
SELECT dc_get('d', 'a');
-- ... and that of the holds
BEGIN;
SELECT dc_restock('s', 'a', 3);
DROP TABLE s_hold;
COMMIT;
DROP TABLE s, s_shard;
-- A declared read-only transaction has its own error
BEGIN;
SELECT dc_incr('d', 'a');
SET TRANSACTION READ ONLY;
ALTER TABLE d RENAME TO e;
ROLLBACK;
-- Code of the owner that runs while increments are written writes none again
ALTER TABLE d_shard ADD COLUMN more int;
CREATE FUNCTION alters() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ALTER TABLE public.made ADD COLUMN IF NOT EXISTS b int; TRUNCATE public.made; RETURN NEW; END $$;
CREATE TABLE made (a int);
CREATE TRIGGER alters BEFORE INSERT OR UPDATE ON d_shard FOR EACH ROW EXECUTE FUNCTION alters();
SET client_min_messages = warning;
SELECT dc_incr('d', 'a', 10), dc_incr('d', 'b', 10);
BEGIN;
SELECT dc_incr('d', 'a', 10), dc_incr('d', 'b', 10);
ALTER TABLE made ADD COLUMN IF NOT EXISTS c int;
COMMIT;
RESET client_min_messages;
SELECT dc_get('d', 'a'), dc_get('d', 'b');
DROP TRIGGER alters ON d_shard;
DROP FUNCTION alters();
ALTER TABLE d_shard DROP COLUMN more;

--
-- Deferred constraints: said at once, with what to do about it
--
CREATE TABLE post (key text COLLATE "C" PRIMARY KEY);
INSERT INTO post VALUES ('a'), ('b'), ('c');
ALTER TABLE d_shard ADD CONSTRAINT of_post FOREIGN KEY (key) REFERENCES post DEFERRABLE INITIALLY DEFERRED;
SELECT s, try(s) FROM unnest(ARRAY[$$SELECT dc_incr('d', 'a')$$, $$SELECT dc_incr('d', 'new')$$, $$SELECT dc_set('d', 'a', 1)$$, $$SELECT dc_get('d', 'a')$$, $$SELECT dc_compact('d')$$]) AS s;
ALTER TABLE d_shard ALTER CONSTRAINT of_post NOT DEFERRABLE;
SELECT try($$SELECT dc_incr('d', 'a')$$), try($$SELECT dc_incr('d', 'new'), dc_apply()$$);
-- found while the transaction has increments
BEGIN;
SELECT dc_incr('d', 'a', 1);
ALTER TABLE d_shard ALTER CONSTRAINT of_post DEFERRABLE INITIALLY DEFERRED;
COMMIT;
ALTER TABLE d_shard ALTER CONSTRAINT of_post DEFERRABLE INITIALLY IMMEDIATE;
SELECT dc_incr('d', 'c', 5);
SELECT dc_get('d', 'a'), dc_get('d', 'c');
ALTER TABLE d_shard DROP CONSTRAINT of_post;
-- on the totals: compaction and setters
ALTER TABLE d ADD CONSTRAINT of_post FOREIGN KEY (key) REFERENCES post DEFERRABLE INITIALLY DEFERRED;
SELECT s, try(s) FROM unnest(ARRAY[$$SELECT dc_incr('d', 'a')$$, $$SELECT dc_compact('d')$$, $$SELECT dc_set('d', 'a', 1)$$, $$SELECT dc_get('d', 'a')$$]) AS s;
ALTER TABLE d DROP CONSTRAINT of_post;
-- one of rows that are unique anyway is no matter
ALTER TABLE d_shard ADD CONSTRAINT one UNIQUE (key, shard, inc) DEFERRABLE INITIALLY DEFERRED;
SELECT try($$SELECT dc_incr('d', 'a')$$), try($$SELECT dc_compact('d')$$);
ALTER TABLE d_shard DROP CONSTRAINT one;
-- the primary key
ALTER TABLE d_shard DROP CONSTRAINT d_shard_pkey, ADD PRIMARY KEY (key, shard) DEFERRABLE;
SELECT try($$SELECT dc_incr('d', 'a')$$);
ALTER TABLE d_shard DROP CONSTRAINT d_shard_pkey, ADD PRIMARY KEY (key, shard);
ALTER TABLE d DROP CONSTRAINT d_pkey, ADD PRIMARY KEY (key) DEFERRABLE;
SELECT try($$SELECT dc_get('d', 'a')$$);
ALTER TABLE d DROP CONSTRAINT d_pkey, ADD PRIMARY KEY (key);
SELECT try($$SELECT dc_incr('d', 'a')$$);
DROP TABLE d, post, made, c, p, child_of_none;
DROP VIEW kept;
DROP FUNCTION try(text), after_incr(text);
SELECT count(*) FROM dcounter.counter;
