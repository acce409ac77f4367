-- dc_mark(), dc_reconcile(), dc_unmark(): exact totals from outside
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset tuples_only on
\pset format unaligned
SET client_min_messages = error;
CREATE ROLE regress_dc_owner;
CREATE ROLE regress_dc_user;
CREATE SCHEMA regress_dc AUTHORIZATION regress_dc_owner;
GRANT USAGE ON SCHEMA regress_dc TO regress_dc_user;
SET search_path = regress_dc, public;
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/try.sql
CREATE VIEW marks AS SELECT counter, mark, key, value, exact FROM dcounter.mark_value ORDER BY counter::text, mark, key;
GRANT SELECT ON marks TO regress_dc_owner;
SET ROLE regress_dc_owner;
SELECT dc_create('likes');

-- Nothing to mark
SELECT dc_mark('likes', 'empty'), dc_unmark('likes', 'empty');
-- Totals, shard rows and pending increments; the empty key, too
SELECT dc_load('likes', '{a,b,c}', '{1,2,3}');
BEGIN;
SELECT dc_incr('likes', 'b', 20), dc_incr('likes', 's', 5), dc_decr('likes', '', 7);
SELECT dc_apply();
COMMIT;
BEGIN;
SELECT dc_incr('likes', 'a', 100), dc_incr('likes', 'p', 4);
SAVEPOINT s;
SELECT dc_incr('likes', 'c', 1000);
ROLLBACK TO s;
SELECT dc_mark('likes', 'night');
SELECT dc_incr('likes', 'a', 5000), dc_incr('likes', 'later', 1);
COMMIT;
SELECT * FROM marks;
SELECT counter, mark, keys, at <= now() AS at FROM dc_marks;
SELECT try($$SELECT dc_mark('likes', 'night')$$);
SELECT dc_mark('likes', 'Night');
SELECT dc_unmark('likes', 'Night');
-- Increments since stay, and compaction changes nothing
SELECT dc_incr('likes', 'b', 3);
SELECT dc_compact('likes') >= 0;
SELECT * FROM dc_reconcile('likes', '{b,a,c,new,later,p}', '{20,100,3,9,2,0}', 'night');
SELECT * FROM dc_get_many('likes', '{a,b,c,new,later,p,s}');
SELECT * FROM marks;
-- Once
SELECT * FROM dc_reconcile('likes', '{b,a,new}', '{20,100,9}', 'night');
SELECT * FROM dc_get_many('likes', '{a,b,c,new,later,p,s}');
SELECT try($$SELECT dc_reconcile('likes', '{s,b}', '{6,21}', 'night')$$);
SELECT try($$SELECT dc_reconcile('likes', '{p}', '{1}', 'night')$$);
SELECT dc_get('likes', 's'), dc_get('likes', 'p');
-- A key twice in a call
SELECT * FROM dc_reconcile('likes', '{s,s}', '{6,6}', 'night');
SELECT try($$SELECT dc_reconcile('likes', '{twice,twice}', '{6,7}', 'night')$$), dc_get('likes', 's'), dc_get('likes', 'twice');
-- Nothing to do
SELECT * FROM dc_reconcile('likes', '{}'::text[], '{}', 'night');
-- Key types
SELECT key, pg_typeof(key), was, exact, delta FROM dc_reconcile('likes', '{7,8}'::int[], '{1,-2}', 'night');
SELECT dc_get('likes', 7), dc_get('likes', 8);
-- Rolled back, to a savepoint too; what was noted goes with what was added
BEGIN;
SELECT delta FROM dc_reconcile('likes', '{c}', '{3}', 'night');
SELECT delta FROM dc_reconcile('likes', '{x}', '{50}', 'night');
SAVEPOINT s;
SELECT delta FROM dc_reconcile('likes', '{y}', '{60}', 'night');
SELECT dc_get('likes', 'x'), dc_get('likes', 'y');
ROLLBACK TO s;
SELECT dc_get('likes', 'x'), dc_get('likes', 'y');
SELECT delta FROM dc_reconcile('likes', '{y}', '{61}', 'night');
ROLLBACK;
SELECT dc_get('likes', 'x'), dc_get('likes', 'y');
SELECT key, value, exact FROM marks WHERE key IN ('c', 'x', 'y');
BEGIN;
SAVEPOINT s;
SELECT delta FROM dc_reconcile('likes', '{y}', '{60}', 'night');
SELECT dc_apply();
ROLLBACK TO s;
SELECT delta FROM dc_reconcile('likes', '{x}', '{50}', 'night');
SAVEPOINT t;
SELECT delta FROM dc_reconcile('likes', '{z}', '{70}', 'night');
RELEASE t;
COMMIT;
SELECT * FROM dc_get_many('likes', '{x,y,z}');
SELECT key, value, exact FROM marks WHERE key IN ('x', 'y', 'z');
-- Settings and deletions since the mark are changes since the mark
SELECT dc_mark('likes', 'second');
SELECT dc_set('likes', 'x', 7), dc_delete('likes', 'z');
SELECT * FROM dc_reconcile('likes', '{x,z}', '{60,71}', 'second');
SELECT dc_get('likes', 'x'), dc_get('likes', 'z');
-- Each mark by itself
SELECT * FROM dc_reconcile('likes', '{x}', '{50}', 'night');
SELECT counter, mark, keys FROM dc_marks ORDER BY mark;
SELECT dc_unmark('likes', 'night');
SELECT DISTINCT mark FROM marks;

-- Arguments
SELECT q, try(q) FROM unnest(ARRAY[
	$$SELECT dc_mark(NULL, 'm')$$, $$SELECT dc_mark('likes', NULL)$$, $$SELECT dc_mark('likes', '')$$, $$SELECT dc_mark('likes', repeat('x', 256))$$, $$SELECT dc_mark('pg_class', 'm')$$,
	$$SELECT dc_unmark(NULL, 'm')$$, $$SELECT dc_unmark('likes', NULL)$$, $$SELECT dc_unmark('likes', 'none')$$,
	$$SELECT dc_reconcile(NULL, '{a}', '{1}', 'second')$$, $$SELECT dc_reconcile('likes', NULL::text[], '{1}', 'second')$$, $$SELECT dc_reconcile('likes', '{a}', NULL, 'second')$$,
	$$SELECT dc_reconcile('likes', '{a}', '{1}', NULL)$$, $$SELECT dc_reconcile('likes', '{a,NULL}', '{1,2}', 'second')$$, $$SELECT dc_reconcile('likes', '{a,b}', '{1,NULL}', 'second')$$,
	$$SELECT dc_reconcile('likes', '{a,b}', '{1}', 'second')$$, $$SELECT dc_reconcile('likes', '{a}', '{1,2}', 'second')$$, $$SELECT dc_reconcile('likes', '{a}', '{1}', 'none')$$,
	$$SELECT dc_reconcile('likes', ARRAY[repeat('x', 1025)], '{1}', 'second')$$, $$SELECT dc_reconcile('likes', '{1.5}'::numeric[], '{1}', 'second')$$,
	$$SELECT dc_reconcile('likes', '{a}', '{99999999999999999999}', 'second')$$]) q;
SELECT dc_mark('likes', repeat('x', 255)) > 0;
SELECT length(key), delta FROM dc_reconcile('likes', ARRAY[repeat('y', 1024)], '{1}', repeat('x', 255));
SELECT dc_unmark('likes', repeat('x', 255)) > 0;
-- Overflow: of the difference, of what is added, of the value
SELECT dc_set('likes', 'low', -10), dc_set('likes', 'high', 9223372036854775800), dc_set('likes', 'one', 1);
SELECT dc_mark('likes', 'far') > 0;
SELECT try($$SELECT dc_reconcile('likes', '{low}', '{9223372036854775807}', 'far')$$), try($$SELECT dc_reconcile('likes', '{one}', '{-9223372036854775807}', 'far')$$);
SELECT try($$SELECT dc_reconcile('likes', '{nobody}', '{-9223372036854775808}', 'far')$$);
SELECT * FROM dc_reconcile('likes', '{high}', '{9223372036854775807}', 'far');
SELECT dc_get('likes', 'high'), dc_get('likes', 'low'), dc_get('likes', 'one');
SELECT dc_set('likes', 'high', 0), dc_unmark('likes', 'far') > 0;
BEGIN;
INSERT INTO likes_shard(key, shard, inc, dec) SELECT 'full', i, 9223372036854775807, 0 FROM generate_series(1, 2) i;
SELECT try($$SELECT dc_mark('likes', 'far')$$);
ROLLBACK;

-- Rights: those of dc_set()
RESET ROLE;
CREATE FUNCTION all_three() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT try('SELECT dc_mark(''likes'', ''theirs'')') UNION ALL
	SELECT try('SELECT dc_reconcile(''likes'', ''{a}'', ''{1}'', ''theirs'')') UNION ALL
	SELECT try('SELECT dc_unmark(''likes'', ''theirs'')')$$;
SET ROLE regress_dc_user;
SELECT all_three();
SELECT count(*) FROM dc_marks;
RESET ROLE;
GRANT SELECT, INSERT ON likes TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT all_three();
SELECT count(*) FROM dc_marks;
RESET ROLE;
GRANT INSERT, UPDATE ON likes TO regress_dc_user;
REVOKE SELECT ON likes FROM regress_dc_user;
SET ROLE regress_dc_user;
SELECT all_three();
RESET ROLE;
GRANT SELECT ON likes TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT all_three();
SELECT try('SELECT count(*) FROM dcounter.mark'), try('SELECT count(*) FROM dcounter.mark_value'), try('DELETE FROM dcounter.mark_value');
RESET ROLE;

BEGIN READ ONLY;
SELECT all_three();
ROLLBACK;

-- What cannot be marked
SET ROLE regress_dc_owner;
SELECT dc_stock_create('stock'), dc_ledger_create('money'), dc_create('views');
SELECT q, try(q) FROM unnest(ARRAY[$$SELECT dc_mark('stock', 'm')$$, $$SELECT dc_reconcile('stock', '{a}', '{1}', 'm')$$, $$SELECT dc_mark('money', 'm')$$, $$SELECT dc_reconcile('money', '{a}', '{1}', 'm')$$]) q;
RESET ROLE;
UPDATE dcounter.counter SET mode = 'buffered' WHERE counter = 'views'::regclass;
SET ROLE regress_dc_owner;
SELECT try($$SELECT dc_mark('views', 'm')$$);
-- In a transaction that makes it exact; reconciled as a buffered one, with rows at once
SELECT dc_incr('views', 'a', 5);
BEGIN;
SELECT dc_alter('views', mode => 'exact');
SELECT dc_mark('views', 'm');
COMMIT;
RESET ROLE;
UPDATE dcounter.counter SET mode = 'buffered' WHERE counter = 'views'::regclass;
SET ROLE regress_dc_owner;
SELECT dc_incr('views', 'a', 10);
BEGIN;
SELECT * FROM dc_reconcile('views', '{a,b,c}', '{7,-1,0}', 'm');
SELECT key, inc, dec FROM (SELECT key, inc, dec FROM views UNION ALL SELECT key, inc, dec FROM views_shard) r WHERE key = 'b';
SELECT try($$SELECT dc_reconcile('views', '{d}', '{-9223372036854775808}', 'm')$$);
COMMIT;
SELECT * FROM dc_get_many('views', '{a,b,c}');
-- A table that is bound to a source
CREATE TABLE posts (author text);
SELECT dc_create('written');
SELECT dc_mark('written', 'before');
SELECT dc_bind('written', 'posts', key => 'author');
SELECT try($$SELECT dc_mark('written', 'm')$$), try($$SELECT dc_reconcile('written', '{a}', '{1}', 'before')$$);
SELECT dc_unmark('written', 'before');

-- Partitions, and many rows in chunks that do not end where a key does
SELECT dc_create('parts', partitions => 3), dc_create('many', totals => 'compacted');
SELECT count(dc_incr('parts', i::text, i)) FROM generate_series(1, 30) i;
SELECT dc_mark('parts', 'm');
SELECT count(delta), sum(delta) FROM generate_series(1, 30) i, dc_reconcile('parts', ARRAY[i], ARRAY[i * 2], 'm');
SELECT dc_sum('parts');
SELECT dc_load('many', array_agg('k' || i), array_agg(i)) FROM generate_series(1, 25000) i;
SELECT dc_incr_many('many', array_agg('k' || i), array_agg(1000000::bigint)) FROM generate_series(1, 35000) i WHERE i % 2 = 0;
SELECT dc_mark('many', 'm');
RESET ROLE;
SELECT count(*), sum(value), dc_sum('regress_dc.many'), bool_and(dc_get('regress_dc.many', key) = value) FROM dcounter.mark_value WHERE counter = 'regress_dc.many'::regclass;
-- ... more rows of one key than a chunk
INSERT INTO many_shard(key, shard, inc, dec) SELECT 'k5', i, 1, 0 FROM generate_series(1, 25000) i;
SELECT dc_mark('many', 'n');
SELECT count(*), sum(value), dc_sum('regress_dc.many') FROM dcounter.mark_value WHERE counter = 'regress_dc.many'::regclass AND mark = 'n';

-- A new name, a dropped table
ALTER TABLE many RENAME TO "More";
SELECT counter, mark, keys FROM dc_marks WHERE counter::text ~ 'More' ORDER BY mark;
SELECT was, delta FROM dc_reconcile('"More"', '{k1}', '{10}', 'm');
SELECT count(*) FROM dcounter.mark_value WHERE counter = '"More"'::regclass;
SELECT dc_drop('"More"');
DROP TABLE parts;
SELECT DISTINCT counter, mark FROM dcounter.mark UNION SELECT DISTINCT counter, mark FROM dcounter.mark_value ORDER BY 1, 2;


DROP SCHEMA regress_dc CASCADE;
SELECT count(*) FROM dcounter.mark_value;
DROP ROLE regress_dc_owner, regress_dc_user;
