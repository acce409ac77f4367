-- Creating, altering, dropping and adopting counter tables: arguments and errors
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
SET client_min_messages = warning;
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/try.sql
CREATE SCHEMA regress_dc;

-- What is created, where, with which settings
SELECT dc_create('likes', totals => 'compacted'), dc_create('regress_dc.likes', 'hash', 1, totals => 'compacted'), dc_create(counter => 'views', shard_by => 'backend', max_shards => 4096, partitions => 1);
SELECT counter, shards, shard_by, max_shards FROM dcounter.counter ORDER BY counter::text COLLATE "C";
SELECT dc_create('"Odd ""Name"".x"', totals => 'compacted'), dc_create('LoWer'), dc_create('regress_dc."select"', partitions => 2);
SELECT dc_incr('"Odd ""Name"".x"', 'a'), dc_incr('lower', 'a'), dc_incr('regress_dc."select"', 'a');
SELECT dc_get('"Odd ""Name"".x"', 'a'), dc_get('LOWER', 'a'), dc_get('regress_dc.select', 'a');
SELECT key, inc FROM "Odd ""Name"".x_shard";
SELECT dc_drop('"Odd ""Name"".x"'), dc_drop('lower'), dc_drop('regress_dc."select"');
-- The longest names: with _shard, and with _shard_pN
SELECT dc_create(repeat('x', 57)) IS NOT NULL, dc_create(repeat('y', 54), partitions => 10) IS NOT NULL, dc_create(repeat('z', 53), partitions => 11) IS NOT NULL;
SELECT dc_incr(repeat(x, n), 'a'), dc_apply(), dc_get(repeat(x, n), 'a'), dc_compact(repeat(x, n)), dc_drop(repeat(x, n)) FROM (VALUES ('x', 57), ('y', 54), ('z', 53)) v(x, n);
SELECT try($$SELECT dc_create(repeat('x', 58))$$);
SELECT try($$SELECT dc_create(repeat('x', 55), partitions => 10)$$), try($$SELECT dc_create(repeat('x', 54), partitions => 11)$$);
-- search_path decides where a name without schema goes
SET search_path = regress_dc, public;
SELECT dc_create('here'), try($$SELECT dc_create('likes')$$);
RESET search_path;
SELECT to_regclass('regress_dc.here') IS NOT NULL, to_regclass('regress_dc.here_shard') IS NOT NULL, dc_drop('regress_dc.here');

-- Errors leave nothing behind
CREATE TABLE half_shard (key text);
CREATE VIEW taken AS SELECT 1 AS one;
SELECT try($$SELECT dc_create('likes')$$), try($$SELECT dc_create('half')$$), try($$SELECT dc_create('taken')$$), try($$SELECT dc_create('likes', partitions => 2)$$);
SELECT to_regclass('half'), to_regclass('taken_shard');
SELECT q, try(format('SELECT dc_create(%s)', q)) FROM unnest(ARRAY['''x'', shard_by => ''none''', '''x'', shard_by => ''''', '''x'', shard_by => ''Random''',
	'''x'', max_shards => 0', '''x'', max_shards => -1', '''x'', max_shards => 4097', '''x'', partitions => 0', '''x'', partitions => -1', '''x'', partitions => 257']) q;
SELECT q, try(format('SELECT dc_create(%L)', q)) FROM unnest(ARRAY['', '.', 'a b', 'a.', 'no_schema.x', 'no_database.public.x', 'pg_temp.x', 'pg_catalog.x']) q;
SET search_path = '';
SELECT public.try($$SELECT public.dc_create('x')$$);
SET search_path = pg_temp, public;
SELECT try($$SELECT dc_create('x')$$);
RESET search_path;
SELECT count(*) FROM pg_class WHERE relname IN ('x', 'x_shard');
BEGIN;
SELECT dc_create('gone', totals => 'compacted');
SELECT dc_incr('gone', 'a', 2), dc_get('gone', 'a'), dc_apply(), dc_get('gone', 'a');
ROLLBACK;
SELECT to_regclass('gone'), to_regclass('gone_shard'), (SELECT count(*) FROM dcounter.counter);
BEGIN;
SELECT dc_create('kept', totals => 'compacted');
SELECT dc_incr('kept', 'a', 2);
SAVEPOINT a;
SELECT dc_create('gone', totals => 'compacted');
SELECT dc_incr('gone', 'a', 2), dc_incr('kept', 'a', 5);
ROLLBACK TO a;
COMMIT;
SELECT dc_get('kept', 'a'), (SELECT count(*) FROM dcounter.counter);

-- dc_alter
SELECT dc_alter('kept', 'hash', 7);
SELECT shard_by, max_shards FROM dcounter.counter WHERE counter = 'kept'::regclass;
SELECT dc_alter('kept'), dc_alter('kept', max_shards => 1), dc_alter('kept', NULL, 8), dc_alter('kept', shard_by => 'backend');
SELECT shard_by, max_shards FROM dcounter.counter WHERE counter = 'kept'::regclass;
SELECT try($$SELECT dc_alter('kept', 'x')$$), try($$SELECT dc_alter('kept', max_shards => 0)$$), try($$SELECT dc_alter('kept', max_shards => 4097)$$);
BEGIN;
SELECT dc_incr('kept', 'a', 3), dc_alter('kept', 'random', 2), dc_incr('kept', 'a', 4);
SELECT shard_by, max_shards FROM dcounter.counter WHERE counter = 'kept'::regclass;
ROLLBACK;
SELECT shard_by, max_shards, dc_get('kept', 'a') FROM dcounter.counter WHERE counter = 'kept'::regclass;

-- dc_drop
CREATE VIEW top AS SELECT key, value FROM kept ORDER BY value DESC LIMIT 10;
SELECT try($$SELECT dc_drop('kept')$$);
SELECT dc_get('kept', 'a');
DROP VIEW top;
BEGIN;
SELECT dc_incr('kept', 'a', 100);
SELECT dc_drop('kept');
SELECT to_regclass('kept'), to_regclass('kept_shard');
ROLLBACK;
SELECT dc_get('kept', 'a'), dc_drop('kept'), to_regclass('kept'), to_regclass('kept_shard');
SELECT try($$SELECT dc_drop('kept')$$);

-- dc_adopt: the tables must be those of a counter
CREATE UNLOGGED TABLE good (LIKE likes INCLUDING ALL);
SELECT try($$SELECT dc_adopt('good')$$);
ALTER TABLE good SET LOGGED;
CREATE TABLE good_shard (LIKE likes_shard INCLUDING ALL);
SELECT dc_adopt('good'), dc_incr('good', 'a', 4), dc_apply();
SELECT counter, shards, shard_by, max_shards FROM dcounter.counter WHERE counter = 'good'::regclass;
SELECT dc_get('good', 'a'), dc_compact('good'), try($$SELECT dc_adopt('good')$$);
SELECT key, value FROM good;
-- A shard table that was dropped comes back, empty
SELECT dc_incr('good', 'a', 3), dc_apply();
DROP TABLE good_shard;
SELECT try($$SELECT dc_get('good', 'a')$$);
SELECT dc_adopt('good'), dc_get('good', 'a');
SELECT obj_description('good_shard'::regclass);
SELECT dc_incr('good', 'a', 1), dc_apply(), dc_get('good', 'a');
SELECT try($$SELECT dc_adopt('likes_shard')$$), try($$SELECT dc_adopt('taken')$$), try($$SELECT dc_adopt('nothing')$$), try($$SELECT dc_adopt('0')$$), try($$SELECT dc_adopt('likes_pkey')$$);
-- Each row: what is done to a fresh copy of the tables, and the result
CREATE FUNCTION adopt(change text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	CREATE TABLE odd (LIKE likes INCLUDING ALL);
	CREATE TABLE odd_shard (LIKE likes_shard INCLUDING ALL);
	EXECUTE change;
	result := try($q$SELECT dc_adopt('odd')$q$);
	IF result = 'no error' THEN
		PERFORM dc_incr('odd', 'a', 2), dc_apply();
		result := result || ', ' || dc_get('odd', 'a') || ', ' || dc_compact('odd');
	END IF;
	DROP TABLE odd, odd_shard;
	RETURN result;
END $$;
SELECT c || E'\n    ' || adopt(c) FROM unnest(ARRAY[
	'ALTER TABLE odd DROP COLUMN inc CASCADE',
	'ALTER TABLE odd RENAME updated_at TO at',
	'ALTER TABLE odd DROP COLUMN value, ALTER dec TYPE numeric',
	'ALTER TABLE odd ALTER key TYPE varchar COLLATE "C"',
	'ALTER TABLE odd ALTER key TYPE text COLLATE "POSIX"',
	'ALTER TABLE odd_shard ALTER key TYPE text COLLATE "default"',
	'ALTER TABLE odd_shard ALTER shard TYPE bigint',
	'ALTER TABLE odd_shard DROP COLUMN shard',
	'ALTER TABLE odd_shard DROP COLUMN inc; ALTER TABLE odd_shard ADD inc bigint GENERATED ALWAYS AS (dec) STORED',
	'ALTER TABLE odd DROP CONSTRAINT odd_pkey',
	'ALTER TABLE odd_shard DROP CONSTRAINT odd_shard_pkey',
	'ALTER TABLE odd DROP CONSTRAINT odd_pkey, ADD PRIMARY KEY (key, inc)',
	'ALTER TABLE odd_shard DROP CONSTRAINT odd_shard_pkey, ADD PRIMARY KEY (shard, key)',
	'ALTER TABLE odd DROP CONSTRAINT odd_pkey; CREATE UNIQUE INDEX ON odd (key) WHERE inc > 0',
	'ALTER TABLE odd DROP CONSTRAINT odd_pkey; CREATE UNIQUE INDEX ON odd (lower(key))',
	'ALTER TABLE odd DROP CONSTRAINT odd_pkey, ADD PRIMARY KEY (key) DEFERRABLE',
	'ALTER TABLE odd DROP COLUMN value; ALTER TABLE odd ADD note text; ALTER TABLE odd_shard ADD note text DEFAULT ''x''',
	'ALTER TABLE odd DROP CONSTRAINT odd_pkey, ADD UNIQUE (key) INCLUDE (inc)',
	'ALTER TABLE odd SET UNLOGGED; ALTER TABLE odd_shard SET UNLOGGED']) WITH ORDINALITY u(c, n) ORDER BY n;
CREATE TEMP TABLE odd (LIKE likes INCLUDING ALL);
CREATE TEMP TABLE odd_shard (LIKE likes_shard INCLUDING ALL);
SELECT try($$SELECT dc_adopt('odd')$$);
DROP TABLE odd, odd_shard;
SELECT dc_drop('likes'), dc_drop('regress_dc.likes'), dc_drop('views'), dc_drop('good');
SELECT count(*) FROM dcounter.counter;
DROP VIEW taken;
DROP TABLE half_shard;
DROP FUNCTION try, adopt;
DROP SCHEMA regress_dc;
