-- Wrong calls: each a clear error of a documented code, and nothing changed
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SELECT dc_create('e', totals => 'compacted'), dc_create('e8', partitions => 8);
CREATE TABLE plain (key text);
CREATE VIEW e_view AS SELECT * FROM e;
-- What a statement ends with: code, message, detail, hint
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/try.sql
SELECT dc_incr('e', 'a', 5);

-- NULL
SELECT f, try(format('SELECT %s(NULL, %s)', f, a)), try(format('SELECT %s(''e'', %s)', f, replace(a, '''k''', 'NULL::text')))
FROM (VALUES ('dc_incr', '''k'''), ('dc_decr', '''k'''), ('dc_incr_hashed', '''k'', ''by'''), ('dc_incr_returning', '''k'''),
	('dc_get', '''k'''), ('dc_info', '''k'''), ('dc_set', '''k'', 1'), ('dc_reset', '''k'''), ('dc_delete', '''k''')) v(f, a);
SELECT f, t, try(format('SELECT %s(''e'', NULL::%s%s)', f, t, CASE f WHEN 'dc_set' THEN ', 1' WHEN 'dc_incr_hashed' THEN ', ''by''' ELSE '' END))
FROM unnest(ARRAY['dc_incr', 'dc_decr', 'dc_incr_hashed', 'dc_incr_returning', 'dc_get', 'dc_info', 'dc_set', 'dc_reset', 'dc_delete']) f, unnest(ARRAY['bigint', 'uuid']) t;
SELECT try($$SELECT dc_incr('e', 'a', NULL)$$), try($$SELECT dc_decr('e', 1, NULL)$$), try($$SELECT dc_incr_returning('e', 'a', NULL)$$);
SELECT try($$SELECT dc_incr_hashed('e', 'a', NULL)$$), try($$SELECT dc_incr_hashed('e', 'a', 'by', NULL)$$), try($$SELECT dc_set('e', 'a', NULL)$$);
SELECT try($$SELECT dc_incr_many(NULL, '{}')$$), try($$SELECT dc_incr_many('e', NULL)$$), try($$SELECT dc_incr_many('e', '{a,NULL}')$$), try($$SELECT dc_incr_many('e', '{a}', '{NULL}')$$);
SELECT try($$SELECT dc_get_many(NULL, '{}')$$), try($$SELECT dc_get_many('e', NULL)$$), try($$SELECT dc_get_many('e', '{a,NULL}')$$);
SELECT try($$SELECT dc_sum(NULL)$$), try($$SELECT dc_alter(NULL)$$), try($$SELECT dc_drop(NULL)$$), try($$SELECT dc_adopt(NULL)$$);
SELECT try($$SELECT dc_create(NULL)$$), try($$SELECT dc_create('x', NULL)$$), try($$SELECT dc_create('x', max_shards => NULL)$$);

-- Not a counter table
SELECT try($$SELECT dc_incr('plain', 'k')$$);
SELECT f, try(format('SELECT %s(%L%s)', f, 'plain', a))
FROM (VALUES ('dc_decr', ',''k'''), ('dc_incr_hashed', ',''k'',''by'''), ('dc_incr_returning', ',''k'''), ('dc_incr_many', ',''{}'''),
	('dc_get', ',''k'''), ('dc_get_many', ',''{}'''), ('dc_info', ',''k'''), ('dc_sum', ''), ('dc_set', ',''k'',1'), ('dc_reset', ',''k'''),
	('dc_delete', ',''k'''), ('dc_compact', ''), ('dc_alter', ''), ('dc_drop', '')) v(f, a);
SELECT r, try(format('SELECT dc_incr(%L, ''k'')', r))
FROM unnest(ARRAY['e_shard', 'e_view', 'e_pkey', 'e8_p0', 'pg_class', 'nothing', '0']) r;

-- Keys over 1,024 bytes; what counts is bytes
SELECT f, try(format('SELECT %s(''e'', repeat(''x'', 1025)%s)', f, a))
FROM (VALUES ('dc_incr', ''), ('dc_decr', ''), ('dc_incr_hashed', ',''by'''), ('dc_incr_returning', ''), ('dc_get', ''), ('dc_info', ''),
	('dc_set', ',1'), ('dc_reset', ''), ('dc_delete', '')) v(f, a);
-- Arrays of several dimensions, whichever has them
SELECT try($$SELECT dc_incr_many('e', '{{a,b},{c,d}}')$$), try($$SELECT dc_incr_many('e', '{a,b}', '{{1,2}}')$$), try($$SELECT dc_get_many('e', '{{a},{b}}')$$);
SELECT try($$SELECT dc_incr_many('e', ARRAY['a', repeat('x', 1025)])$$), try($$SELECT dc_get_many('e', ARRAY['a', repeat('x', 1025)])$$);
SELECT try($$SELECT dc_incr('e', repeat(E'\xC3\xA9', 512) || 'x')$$), try($$SELECT dc_incr('e', repeat('x', 10000000))$$);
SELECT try($$SELECT dc_get('e', repeat(E'\xC3\xA9', 512))$$);

-- Overflow of one delta
SELECT try($$SELECT dc_incr('e', 'a', -9223372036854775808)$$), try($$SELECT dc_decr('e', 'a', -9223372036854775808)$$);
SELECT try($$SELECT dc_incr_many('e', '{b,a}', '{1,-9223372036854775808}')$$), try($$SELECT dc_incr_returning('e', 'a', -9223372036854775808)$$);
SELECT try($$SELECT dc_set('e', 'b', -9223372036854775808)$$), dc_set('e', 'b', -9223372036854775807), dc_delete('e', 'b');
SELECT dc_get('e', 'a'), dc_get('e', 'b'), dc_sum('e');
-- ... of the pending ones, on one level, and across levels
BEGIN;
SELECT dc_incr('e', 'o', 9223372036854775807), dc_decr('e', 'o', 1), dc_get('e', 'o');
SELECT try($$SELECT dc_incr('e', 'p', 9223372036854775807), dc_incr('e', 'p')$$), try($$SELECT dc_incr('e', 'o'), dc_get('e', 'o')$$), try($$SELECT dc_incr_returning('e', 'o')$$);
SELECT try($$SELECT dc_decr('e', 'p', 9223372036854775807), dc_incr_many('e', '{p,p}', '{5,-1}')$$), dc_get('e', 'p');
SELECT dc_get('e', 'o'), dc_delete('e', 'o');
SELECT dc_incr('e', 'a'), dc_incr('e', 'o', 9223372036854775807), dc_incr('e', 'o', 9223372036854775807);
COMMIT;
SELECT dc_get('e', 'o'), dc_get('e', 'a');
BEGIN;
SELECT dc_incr('e', 'o', 9223372036854775807), dc_incr('e', 'a', 1);
SAVEPOINT s;
SELECT dc_incr('e', 'o');
RELEASE s;
COMMIT;
SELECT dc_get('e', 'o'), dc_get('e', 'a');
BEGIN;
SELECT dc_incr('e', 'o', 9223372036854775807), dc_incr('e', 'a', 1);
SAVEPOINT s;
SELECT dc_incr('e', 'o'), dc_incr('e', 'a', 10);
SELECT try($$SELECT dc_get('e', 'o')$$), dc_get('e', 'a');
ROLLBACK TO s;
SELECT dc_get('e', 'o'), dc_get('e', 'a');
ROLLBACK;
-- ... of the sum: reading fails, the amounts stay, and a decrement heals it
SELECT dc_set('e', 'sum', 9223372036854775807), dc_compact('e');
SELECT dc_incr('e', 'sum', 1);
SELECT try($$SELECT dc_get('e', 'sum')$$), try($$SELECT dc_get_many('e', '{a,sum}')$$), try($$SELECT dc_info('e', 'sum')$$);
-- ... setters start such a key anew (overflow.sql)
BEGIN;
SELECT dc_set('e', 'sum', 1), dc_reset('e', 'sum'), dc_delete('e', 'sum');
ROLLBACK;
SELECT try($$SELECT dc_incr_returning('e', 'sum', 0)$$), dc_incr_returning('e', 'sum', -2), dc_sum('e');
SELECT dc_compact('e');
SELECT value, dc_get('e', key), dc_get('e', 'a') FROM e WHERE key = 'sum';
SELECT try($$SELECT dc_info('e', 'sum')$$), try($$SELECT dc_set('e', 'sum', 1)$$);
SELECT dc_delete('e', 'sum'), dc_get('e', 'sum'), dc_sum('e');

-- Read-only transactions
BEGIN READ ONLY;
SELECT dc_get('e', 'a'), dc_sum('e'), (SELECT sum(value) FROM dc_get_many('e', '{a}')), (dc_info('e', 'a')).value;
SELECT q, try('SELECT ' || q) FROM unnest(ARRAY['dc_incr(''e'', ''a'')', 'dc_decr(''e'', ''a'')', 'dc_incr_hashed(''e'', ''a'', ''b'')',
	'dc_incr_many(''e'', ''{a}'')', 'dc_incr_returning(''e'', ''a'')', 'dc_set(''e'', ''a'', 1)', 'dc_reset(''e'', ''a'')', 'dc_delete(''e'', ''a'')',
	'dc_compact()', 'dc_compact(''e'')', 'dc_apply()', 'dc_create(''x'')', 'dc_alter(''e'')', 'dc_drop(''e'')', 'dc_adopt(''e'')']) q;
COMMIT;
-- A transaction that turns read-only keeps what it has counted before
BEGIN;
SELECT dc_incr('e', 'ro', 3);
SET TRANSACTION READ ONLY;
SELECT dc_get('e', 'ro'), try($$SELECT dc_incr('e', 'ro')$$);
COMMIT;
SELECT dc_get('e', 'ro'), dc_delete('e', 'ro');
BEGIN;
SELECT dc_incr('e', 'ro', 3);
SET TRANSACTION READ ONLY;
SELECT dc_incr('e', 'ro', 3);
COMMIT;

-- Security-restricted operations: reading yes, writing no
CREATE FUNCTION counts(k text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM public.dc_incr('public.e', k); RETURN 1; END $$;
CREATE FUNCTION reads(k text) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN public.dc_get('public.e', k); END $$;
INSERT INTO plain VALUES ('a'), ('b');
SELECT try('CREATE INDEX ON plain (counts(key))'), try('CREATE INDEX plain_reads ON plain (reads(key))');
SELECT try('ANALYZE plain');
DROP INDEX plain_reads;
SELECT try($$CREATE MATERIALIZED VIEW m AS SELECT dc_incr_returning('e', 'a') AS n$$);
SELECT try($$CREATE MATERIALIZED VIEW m AS SELECT dc_incr_returning('e', 'a') AS n WITH NO DATA$$);
SELECT try('REFRESH MATERIALIZED VIEW m');
DROP MATERIALIZED VIEW m;
BEGIN;
SELECT dc_incr('e', 'a', 10);
CREATE MATERIALIZED VIEW m AS SELECT dc_get('e', 'a') AS n, (SELECT value FROM dc_get_many('e', '{a}')) AS many, dc_sum('e') AS sum;
SELECT * FROM m;
SELECT dc_incr('e', 'a', 10);
REFRESH MATERIALIZED VIEW m;
SELECT * FROM m;
ROLLBACK;
SELECT dc_get('e', 'a');

-- Parallel queries
SELECT count(set_config(name, 'on', false)) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
BEGIN;
SELECT dc_incr('e', 'a', 10);
SELECT dc_get('e', 'a'), (SELECT sum(value) FROM dc_get_many('e', '{a,b}')), (dc_info('e', 'a')).value, dc_sum('e');
SELECT sum(dc_get('e', key)) FROM plain;
ROLLBACK;
CREATE FUNCTION says_safe(k text) RETURNS bigint PARALLEL SAFE LANGUAGE plpgsql AS $$ BEGIN RETURN dc_get('e', k); END $$;
SELECT sum(says_safe(key)) FROM plain;
\echo :LAST_ERROR_SQLSTATE
DROP FUNCTION says_safe;
CREATE FUNCTION says_safe(k text) RETURNS bigint PARALLEL SAFE LANGUAGE plpgsql AS $$ BEGIN PERFORM dc_incr('e', k); RETURN 1; END $$;
SELECT sum(says_safe(key)) FROM plain;
\echo :LAST_ERROR_SQLSTATE
DROP FUNCTION says_safe;
CREATE FUNCTION says_restricted(k text) RETURNS bigint PARALLEL RESTRICTED LANGUAGE plpgsql AS $$ BEGIN RETURN dc_get('e', k); END $$;
SELECT sum(says_restricted(key)) FROM plain;
DROP FUNCTION says_restricted;
SELECT count(set_config(name, 'off', false)) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SELECT dc_get('e', 'a'), dc_get('e', 'b');

-- Row-level security, on either table
ALTER TABLE e ENABLE ROW LEVEL SECURITY;
SELECT try($$SELECT dc_incr('e', 'a')$$), try($$SELECT dc_get('e', 'a')$$), try($$SELECT dc_compact('e')$$), dc_compact() >= 0;
ALTER TABLE e DISABLE ROW LEVEL SECURITY;
ALTER TABLE e_shard ENABLE ROW LEVEL SECURITY;
SELECT try($$SELECT dc_incr('e', 'a')$$), try($$SELECT dc_set('e', 'a', 1)$$), try($$SELECT dc_delete('e', 'a')$$), try($$SELECT dc_sum('e')$$);
ALTER TABLE e_shard DISABLE ROW LEVEL SECURITY;
BEGIN;
SELECT dc_incr('e', 'a');
ALTER TABLE e ENABLE ROW LEVEL SECURITY;
SELECT try($$SELECT dc_incr('e', 'a')$$);
COMMIT;
ALTER TABLE e DISABLE ROW LEVEL SECURITY;
SELECT dc_get('e', 'a');

-- Names that are taken, of the table or of another one that comes with it: without statements that are not the user's
\set SHOW_CONTEXT always
CREATE TABLE taken_shard (i int);
CREATE TABLE parted_p1 (i int);
SELECT dc_create('plain');
SELECT dc_create('taken');
SELECT dc_create('parted', partitions => 2);
\set SHOW_CONTEXT never
DROP TABLE taken_shard, parted_p1;

-- The internal functions, called from where they do not belong
SELECT try('SELECT dcounter.on_catalog_change()'), try('SELECT dcounter.on_drop()'), try('SELECT dcounter.on_ddl()');
CREATE TRIGGER t BEFORE INSERT ON plain FOR EACH ROW EXECUTE FUNCTION dcounter.on_catalog_change();
SELECT left(try($$INSERT INTO plain VALUES ('a')$$), 5);
DROP TABLE plain;
DROP VIEW e_view;
SELECT dc_drop('e'), dc_drop('e8');
DROP MATERIALIZED VIEW IF EXISTS m;
DROP FUNCTION try, counts, reads;
