-- Counter tables that their owner has altered: a right result or a clear error
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
-- What an increment and a read of a counter table come to
CREATE FUNCTION use(c regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	PERFORM dc_incr(c, 'a', 7);
	RETURN dc_get(c, 'a');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || SQLERRM || E'\n\t' || detail;
END $$;
SELECT dc_create('c', totals => 'compacted');
SELECT use('c');

-- Columns of other types, nullable, gone, generated; other keys and collations
BEGIN;
ALTER TABLE c_shard ALTER inc DROP DEFAULT, ALTER inc TYPE text USING repeat('x', 10);
SELECT use('c');
SELECT dc_compact('c');
ROLLBACK;
BEGIN;
ALTER TABLE c_shard ALTER inc DROP NOT NULL;
UPDATE c_shard SET inc = NULL;
SELECT use('c');
ROLLBACK;
BEGIN;
ALTER TABLE c_shard DROP CONSTRAINT c_shard_pkey;
SELECT use('c');
ALTER TABLE c_shard ALTER key TYPE int USING 1;
ALTER TABLE c_shard ADD PRIMARY KEY (key, shard);
SELECT use('c');
ROLLBACK;
BEGIN;
ALTER TABLE c_shard DROP CONSTRAINT c_shard_pkey, ALTER key DROP NOT NULL;
ALTER TABLE c_shard ADD UNIQUE (key, shard);
SELECT use('c');
ROLLBACK;
BEGIN;
ALTER TABLE c_shard ALTER key TYPE text COLLATE "POSIX";
SELECT use('c');
ROLLBACK;
BEGIN;
ALTER TABLE c DROP COLUMN value, DROP COLUMN inc;
SELECT use('c');
SELECT dc_sum('c');
ROLLBACK;
BEGIN;
ALTER TABLE c DROP CONSTRAINT c_pkey;
SELECT use('c');
SELECT dc_compact();
ROLLBACK;
SELECT use('c');

-- An index in another order does as well, by SQL
BEGIN;
ALTER TABLE c_shard DROP CONSTRAINT c_shard_pkey;
CREATE UNIQUE INDEX ON c_shard (key, shard DESC);
SELECT use('c');
CREATE UNIQUE INDEX ON c_shard (key, shard);
SELECT use('c');
ROLLBACK;

-- More columns, constraints, triggers, rules and indexes: all observed
ALTER TABLE c_shard ADD COLUMN tenant int NOT NULL DEFAULT 7, ADD COLUMN id int GENERATED ALWAYS AS IDENTITY;
SELECT dc_incr('c', 'b', 5);
SELECT key, inc, tenant, id IS NULL FROM c_shard ORDER BY key COLLATE "C";
ALTER TABLE c_shard DROP COLUMN tenant, DROP COLUMN id;
SELECT dc_incr('c', 'b', 5), dc_incr('c', 'c', 5);
SELECT key, inc FROM c_shard ORDER BY key COLLATE "C";
ALTER TABLE c_shard ADD CONSTRAINT small CHECK (inc < 20);
SELECT dc_incr('c', 'b', 9);
\set VERBOSITY terse
SELECT dc_incr('c', 'b', 9);
ALTER TABLE c_shard DROP CONSTRAINT small;
CREATE UNIQUE INDEX one_key ON c_shard ((inc < 0), key) WHERE inc > 100;
SELECT dc_incr('c', 'b', 100), dc_get('c', 'b');
DROP INDEX one_key;
SELECT dc_get('c', 'b'), dc_get('c', 'c');
-- A partition of something else, which only event triggers prevent: its bound is observed
CREATE TABLE whole (LIKE c_shard INCLUDING DEFAULTS) PARTITION BY LIST (key);
SET session_replication_role = replica;
ALTER TABLE whole ATTACH PARTITION c_shard FOR VALUES IN ('a', 'b', 'c');
RESET session_replication_role;
SELECT dc_incr('c', 'b'), dc_get('c', 'b');
SELECT dc_incr('c', 'z');
\set VERBOSITY default
ALTER TABLE whole DETACH PARTITION c_shard;
DROP TABLE whole;

-- Rows that the statement itself has just written or locked
BEGIN;
WITH x AS (UPDATE c_shard SET inc = inc WHERE key = 'b' RETURNING 1) SELECT dc_incr('c', 'b') FROM x;
COMMIT;
WITH x AS (UPDATE c_shard SET inc = inc WHERE key = 'b' RETURNING 1) SELECT dc_incr('c', 'b') FROM x;
WITH x AS MATERIALIZED (SELECT FROM c_shard WHERE key = 'b' FOR UPDATE) SELECT dc_incr('c', 'b') FROM x;
SELECT dc_get('c', 'b');
-- Declared read-only after the increment, written by SQL
ALTER TABLE c_shard ADD COLUMN more int;
BEGIN;
SELECT dc_incr('c', 'b');
SET TRANSACTION READ ONLY;
COMMIT;
SELECT dc_get('c', 'b');
-- Settings that make no sense
INSERT INTO dcounter.counter VALUES ('c', 'c_shard', NULL, 64);
SELECT dc_drop('c');
DROP FUNCTION use;
