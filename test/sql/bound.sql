-- Counters that are bound to a source table: what the trigger counts
\set VERBOSITY terse
CREATE SCHEMA bound;
SET search_path = bound, public;
CREATE FUNCTION v(counter regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	PERFORM dc_apply();
	EXECUTE format('SELECT string_agg(key || '':'' || value, '' '' ORDER BY key) FROM (SELECT key, sum(inc - dec) AS value FROM (SELECT key, inc, dec FROM %s UNION ALL SELECT key, inc, dec FROM %s_shard) AS r GROUP BY key) AS s WHERE value <> 0', counter, counter) INTO result;
	RETURN result;
END $$;

CREATE TABLE post (id int PRIMARY KEY);
INSERT INTO post SELECT generate_series(1, 9);
CREATE TABLE likes (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post int REFERENCES post ON DELETE CASCADE ON UPDATE CASCADE, fan text, amount bigint, deleted_at timestamptz, note text, UNIQUE (post, fan));
SELECT dc_create('n'), dc_create('s'), dc_create('p');
SELECT dc_bind('n', 'likes', key => 'post', filter => 'deleted_at IS NULL', build => 'none');
SELECT dc_bind('s', 'likes', 'post', value => 'amount', build => 'none');
SELECT dc_bind('p', 'likes', 'post % 2, fan', build => 'none');
SELECT * FROM dcounter.source ORDER BY counter::text;
SELECT counter, state, epoch, built_to FROM dcounter.source_state ORDER BY counter::text;
SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'likes'::regclass AND NOT tgisinternal ORDER BY 1;

-- INSERT, with nulls and zeros
INSERT INTO likes (post, fan, amount) VALUES (1, 'a', 5), (1, 'b', -7), (2, 'a', NULL), (2, 'b', 0), (NULL, 'c', 9), (3, NULL, 1);
SELECT v('n') AS n, v('s') AS s, v('p') AS p;
-- COPY
COPY likes (post, fan, amount) FROM stdin;
4	a	1
4	b	2
\.
-- upsert, MERGE
INSERT INTO likes (post, fan, amount) VALUES (4, 'a', 10), (4, 'c', 10) ON CONFLICT (post, fan) DO UPDATE SET amount = likes.amount + excluded.amount;
INSERT INTO likes (post, fan) VALUES (4, 'a') ON CONFLICT DO NOTHING;
MERGE INTO likes AS l USING (VALUES (4, 'a', 1), (4, 'b', 0), (5, 'a', 3)) AS m(post, fan, amount) ON l.post = m.post AND l.fan = m.fan
	WHEN MATCHED AND m.amount = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET amount = m.amount WHEN NOT MATCHED THEN INSERT (post, fan, amount) VALUES (m.post, m.fan, m.amount);
SELECT v('n') AS n, v('s') AS s, v('p') AS p;
-- moves, the filter both ways, a column that plays no part
UPDATE likes SET post = 6 WHERE post = 4 AND fan = 'a';
UPDATE likes SET deleted_at = now() WHERE post = 1;
UPDATE likes SET deleted_at = now() - interval '1 hour' WHERE post = 1 AND fan = 'a';
UPDATE likes SET deleted_at = NULL WHERE post = 1 AND fan = 'b';
UPDATE likes SET note = 'x';
UPDATE likes SET amount = -amount WHERE post = 1;
SELECT v('n') AS n, v('s') AS s, v('p') AS p;
-- cascades
UPDATE post SET id = 10 WHERE id = 6;
DELETE FROM post WHERE id = 1;
SELECT v('n') AS n, v('s') AS s, v('p') AS p;
-- savepoints, roll-back, one transaction that sees its own
BEGIN;
INSERT INTO likes (post, fan) VALUES (9, 'a');
SAVEPOINT one;
INSERT INTO likes (post, fan) VALUES (9, 'b');
DELETE FROM likes WHERE post = 2;
SELECT dc_get('n', 9), dc_get('n', 2);
ROLLBACK TO one;
SELECT dc_get('n', 9), dc_get('n', 2);
INSERT INTO likes (post, fan) VALUES (9, 'c');
COMMIT;
BEGIN;
INSERT INTO likes (post, fan) VALUES (9, 'd');
ROLLBACK;
SELECT v('n') AS n;
-- all at once, by the rows
SELECT (SELECT string_agg(post || ':' || c, ' ' ORDER BY post::text COLLATE "C") FROM (SELECT post, count(*) AS c FROM likes WHERE deleted_at IS NULL AND post IS NOT NULL GROUP BY post) AS l) = v('n') AS n,
	(SELECT string_agg(post || ':' || c, ' ' ORDER BY post::text COLLATE "C") FROM (SELECT post, sum(amount) AS c FROM likes WHERE post IS NOT NULL GROUP BY post HAVING sum(amount) <> 0) AS l) = v('s') AS s;

-- Nothing but rows of the source changes it
SELECT dc_incr('n', 1);
SELECT dc_decr('n', 1);
SELECT dc_incr_many('n', ARRAY[1]);
SELECT dc_incr_once('n', 1, 1, 'op');
SELECT dc_set('n', 1, 1);
SELECT dc_reset('n', 1);
SELECT dc_delete('n', 1);
SELECT dc_load('n', ARRAY[1], ARRAY[1]);
SELECT dc_bind('n', 'likes', 'post');

-- Keys as a cast to text shows them
CREATE TYPE mood AS ENUM ('happy', 'sad');
CREATE DOMAIN pos AS int CHECK (VALUE > 0);
CREATE TABLE kinds (i2 int2, i4 int4, i8 int8, t text, vc varchar(20), bp char(5), u uuid, n numeric, b bool, d pos, e mood, o oid, j jsonb, na name, by bytea, date date);
CREATE FUNCTION key_of(expr text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE by_sql text; by_us text;
BEGIN
	PERFORM dc_create('k');
	PERFORM dc_bind('k', 'kinds', expr, build => 'none');
	INSERT INTO kinds VALUES (-5, -5, -5, '007', '007', 'ab', '00000000-0000-0000-0000-00000000000A', 1.50, true, 7, 'sad', 4294967295, '{"b": 1}', 'na', '\x00ff', '2026-01-31');
	PERFORM dc_apply();
	EXECUTE format('SELECT (%s)::text FROM kinds', expr) INTO by_sql;
	SELECT string_agg(key, '|') INTO by_us FROM (SELECT key FROM k UNION SELECT key FROM k_shard) AS r;
	DELETE FROM kinds;
	PERFORM dc_drop('k');
	RETURN by_us || CASE WHEN by_sql = by_us THEN '' ELSE ' instead of ' || by_sql END;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT expr, key_of(expr) FROM unnest(ARRAY['i2', 'i4', 'i8', 't', 'vc', 'bp', 'u', 'n', 'b', 'd', 'e', 'o', 'j', 'na', 'by', 'encode(by, ''hex'')', 'date::text', 't::int', 't::varchar(2)', 'vc::text', 'i4::oid', 'i4::numeric', 'i4::bigint',
	'd::text', 'bp::varchar', 'i4::text::varchar(1)', 'u::text', 'upper(t)', 't || i4', 'CASE WHEN b THEN i4 END', '''all''', 'jsonb_build_array(i4, t)', 'i4 + 1', 't COLLATE "C"',
	'e = ''sad''', 'ARRAY[i4, i8]', 'ROW(i4)', 'k', 'now()', 'i4 / 0', 'max(i4)', '(SELECT 1)', 'sum(i4) OVER ()', 'unnest(ARRAY[i4])', 'ctid', 'kinds', '$1', 'i4 AS x', 'i4; SELECT 1', 'i4 FROM post', '']) WITH ORDINALITY AS e(expr, ord) ORDER BY ord;
-- several
SELECT dc_create('k');
SELECT dc_bind('k', 'kinds', 'i4, t, b', build => 'none');
INSERT INTO kinds (i4, t, b) VALUES (1, 'a"b', true), (NULL, 'a', true), (1, NULL, NULL);
SELECT v('k');
SELECT dc_unbind('k');
SELECT dc_bind('k', 'kinds', 't', value => 'i8', filter => 'e = ''happy'' AND i2 IS NOT NULL', build => 'none');
INSERT INTO kinds (t, i8, e, i2) VALUES ('min', -9223372036854775807 - 1, 'happy', 1);
INSERT INTO kinds (t, i8, e, i2) VALUES ('max', 9223372036854775807, 'happy', 1), ('no', 1, 'happy', NULL), ('no', 1, 'sad', 1), ('no', 1, NULL, 1);
INSERT INTO kinds (t, i8, e, i2) VALUES ('max', 1, 'happy', 1);
UPDATE kinds SET i8 = 9223372036854775807 WHERE t = 'max';
INSERT INTO kinds (t, i8, e, i2) VALUES (repeat('x', 1025), 1, 'happy', 1);
INSERT INTO kinds (t, i8, e, i2) VALUES (repeat('x', 1025), 1, 'sad', 1);
INSERT INTO kinds (t, i8, e, i2) VALUES (repeat('y', 1024), 1, 'happy', 1);
SELECT replace(v('k'), repeat('y', 1024), 'y * 1024');
SELECT dc_drop('k');

-- Errors of dc_bind()
SELECT dc_create('k');
SELECT dc_bind(NULL, 'likes', 'post');
SELECT dc_bind('k', NULL, 'post');
SELECT dc_bind('k', 'likes', NULL);
SELECT dc_bind('k', 'likes', 'post', value => '1.5');
SELECT dc_bind('k', 'likes', 'post', value => NULL);
SELECT dc_bind('k', 'likes', 'post', value => 'fan');
SELECT dc_bind('k', 'likes', 'post', filter => 'fan');
SELECT dc_bind('k', 'likes', 'post', build => 'x');
SELECT dc_bind('k', 'likes', 'post', on_detach => 'x');
SELECT dc_bind('k', 'likes', 'post', lock_timeout => '-1 s');
SELECT dc_bind('k', 'likes', 'post', value => '2', distinct_of => 'fan');
SELECT dc_bind('likes', 'likes', 'post');
SELECT dc_bind('k', 'k', 'key');
SELECT dc_bind('k', 'k_shard', 'key');
SELECT dc_bind('k', 'n', 'key');
SELECT dc_bind('k', 'pg_class', 'relname');
SELECT dc_bind('k', 'dcounter.counter', 'counter');
CREATE VIEW w AS SELECT 1 AS a;
SELECT dc_bind('k', 'w', 'a');
CREATE TEMP TABLE tmp (a int);
SELECT dc_bind('k', 'tmp', 'a');
CREATE UNLOGGED TABLE unl (a int);
SELECT dc_bind('k', 'unl', 'a');
CREATE TABLE parent (a int);
CREATE TABLE child () INHERITS (parent);
SELECT dc_bind('k', 'parent', 'a');
SELECT dc_bind('k', 'child', 'a', build => 'none');
SELECT dc_drop('k');
SELECT dc_stock_create('st');
SELECT dc_bind('st', 'likes', 'post');
SELECT dc_ledger_create('led');
SELECT dc_bind('led', 'likes', 'post');
SELECT dc_drop('st'), dc_drop('led');
SELECT dc_unbind('likes');
SELECT dc_create('k');
SELECT dc_unbind('k');
SELECT dc_unbind(NULL);

-- Rights: the owner of both binds, whoever may write to the source counts
CREATE ROLE bound_alice;
CREATE ROLE bound_mallory;
GRANT ALL ON SCHEMA bound TO bound_alice, bound_mallory;
SET ROLE bound_mallory;
CREATE TABLE m (a int);
SELECT dc_bind('k', 'm', 'a');
SELECT dc_create('mk');
SELECT dc_bind('mk', 'likes', 'post');
SELECT dc_unbind('n');
-- a trigger of his own on a table of his own counts nothing
CREATE TRIGGER dcounter_source_row AFTER INSERT ON m FOR EACH ROW EXECUTE FUNCTION dcounter.source_row();
INSERT INTO m VALUES (1);
INSERT INTO m VALUES (1);
-- nor may code of his run in others' sessions
CREATE FUNCTION mine(int) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT ''x''';
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq);
CREATE FUNCTION ne(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT false';
CREATE OPERATOR bound.= (LEFTARG = int, RIGHTARG = int, FUNCTION = bound.ne);
DROP TRIGGER dcounter_source_row ON m;
SELECT dc_bind('mk', 'm', 'mine(a)');
SET search_path = bound, pg_catalog, public;
SELECT dc_bind('mk', 'm', 'a', filter => 'a = 1');
SET search_path = bound, public;
SELECT dc_bind('mk', 'm', 'a', filter => 'a = 1', build => 'none');
GRANT INSERT, DELETE ON m TO bound_alice;
SET ROLE bound_alice;
INSERT INTO m VALUES (1), (2);
SELECT dc_get('mk', 1);
RESET ROLE;
SELECT dc_get('mk', 1), dc_get('mk', 2);
-- owners that have nothing to do with each other
ALTER TABLE mk OWNER TO bound_alice;
SET ROLE bound_mallory;
INSERT INTO m VALUES (1);
RESET ROLE;
GRANT bound_alice TO bound_mallory;
INSERT INTO m VALUES (1);
SELECT dc_get('mk', 1);
SET ROLE bound_alice;
SELECT dc_unbind('mk');
RESET ROLE;
SELECT tgname FROM pg_trigger WHERE tgrelid = 'm'::regclass;

-- Changes that a subscription applies
CREATE TABLE sub (a int);
SELECT dc_create('x'), dc_create('y');
SELECT dc_bind('x', 'sub', 'a', build => 'none');
SET session_replication_role = replica;
INSERT INTO sub VALUES (1);
RESET session_replication_role;
SELECT v('x') AS x;
SELECT dc_bind('y', 'sub', 'a', build => 'none', replicated => true);
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'sub'::regclass ORDER BY 1;
SET session_replication_role = replica;
INSERT INTO sub VALUES (1);
UPDATE sub SET a = 2;
RESET session_replication_role;
SELECT v('x') AS x, v('y') AS y;
INSERT INTO sub VALUES (3);
SELECT v('x') AS x, v('y') AS y;
SELECT dc_unbind('y');
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'sub'::regclass ORDER BY 1;

-- Partitions, with columns in another order, and rows that move
CREATE TABLE ev (id int, kind text, at int) PARTITION BY RANGE (at);
CREATE TABLE ev1 PARTITION OF ev FOR VALUES FROM (0) TO (10);
CREATE TABLE ev2 (at int, gone int, kind text, id int);
ALTER TABLE ev2 DROP COLUMN gone;
ALTER TABLE ev ATTACH PARTITION ev2 FOR VALUES FROM (10) TO (20) ;
SELECT dc_create('e'), dc_create('e1');
SELECT dc_bind('e', 'ev', 'kind', value => 'id', build => 'none');
INSERT INTO ev VALUES (1, 'a', 1), (2, 'b', 11);
INSERT INTO ev2 (id, kind, at) VALUES (4, 'a', 12);
UPDATE ev SET at = at + 10 WHERE at < 10;
UPDATE ev2 SET kind = 'c' WHERE id = 1;
DELETE FROM ev2 WHERE id = 4;
SELECT v('e');
SELECT dc_bind('e1', 'ev', 'at', build => 'none');
CREATE TABLE ev3 PARTITION OF ev FOR VALUES FROM (20) TO (30);
INSERT INTO ev3 VALUES (8, 'd', 21);
UPDATE ev SET at = 1, kind = 'e' WHERE id = 8;
UPDATE ev SET at = 2 WHERE id = 8;
SELECT v('e'), v('e1');
SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgrelid::regclass::text ~ '^ev' ORDER BY 1, 2;
SELECT dc_unbind('e1');
SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'ev2'::regclass AND tgname = 'dcounter_source_update';
-- what is equal but not the same
CREATE TABLE same (n numeric, f float8, i interval, j jsonb, a numeric[], p box, t text, c char(3));
SELECT dc_create(k) FROM unnest(ARRAY['same_n', 'same_f', 'same_i', 'same_j', 'same_a', 'same_p']) AS k;
SELECT dc_bind('same_n', 'same', 'n', build => 'none'), dc_bind('same_f', 'same', 'f > 0, atan2(f, -1) > 0', build => 'none'), dc_bind('same_i', 'same', 'extract(hour FROM i)::int', build => 'none'),
	dc_bind('same_j', 'same', $$j ->> 'x'$$, build => 'none'), dc_bind('same_a', 'same', 'a[1]', build => 'none'), dc_bind('same_p', 'same', '(p[0])[0] > 1', build => 'none');
SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'same'::regclass AND tgname = 'dcounter_source_update';
INSERT INTO same VALUES (1.0, 0, '1 day', '{"x": 1.0}', '{1.0}', '(1,1),(0,0)', 'a', 'a'), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
UPDATE same SET n = 1.00 WHERE n = 1;
UPDATE same SET f = '-0' WHERE n = 1;
UPDATE same SET i = '24:00' WHERE n = 1;
UPDATE same SET j = '{"x": 1.00}' WHERE n = 1;
UPDATE same SET a = '{1.00}' WHERE n = 1;
UPDATE same SET p = '(3,3),(2,2)' WHERE n = 1;
SELECT v('same_n') AS n, v('same_f') AS f, v('same_i') AS i, v('same_j') AS j, v('same_a') AS a, v('same_p') AS p;
UPDATE same SET n = NULL WHERE n = 1;
UPDATE same SET a = '{2}' WHERE a IS NULL;
SELECT v('same_n') AS n, v('same_a') AS a;
-- Settings of sessions play no part: neither in the text of a constant, nor in the key that a row has
CREATE TABLE settings (f float8, p point, d date, t text, a text[]);
SELECT dc_bind('e1', 'settings', 'f');
SELECT dc_bind('e1', 'settings', 'f::numeric, (p[0])::text');
SELECT dc_bind('e1', 'settings', 'quote_ident(t)');
SELECT dc_bind('e1', 'settings', 'xmlelement(name x, t)::text');
SET DateStyle = 'SQL, DMY';
SELECT dc_create('settings_n');
SELECT dc_bind('settings_n', 'settings', 't', filter => $$d >= date '2026-02-01' AND t <> 'a\b' AND a IS DISTINCT FROM '{a,NULL}'::text[]$$, build => 'none');
SELECT filter FROM dcounter.source WHERE counter = 'settings_n'::regclass;
RESET DateStyle;
INSERT INTO settings VALUES (0, NULL, '2026-01-15', 'x', NULL);
\c
SET search_path = bound, public;
SET DateStyle = 'SQL, DMY';
DO $$ BEGIN -- which 19 does not take
	SET standard_conforming_strings = off;
	SET escape_string_warning = off;
EXCEPTION WHEN OTHERS THEN NULL;
END $$;
SET array_nulls = off;
INSERT INTO settings VALUES (0, NULL, '2026-02-02', E'a\\b', NULL), (0, NULL, '2026-02-02', 'x', ARRAY['a', NULL]), (0, NULL, '2026-02-02', 'x', ARRAY['a', 'NULL']);
RESET ALL;
SET search_path = bound, public;
SELECT v('settings_n') AS n;
SELECT * FROM dc_source_check('settings_n');

-- An owner's code that changes rows of the source while amounts are written early, in the middle of a statement
CREATE TABLE again (k text);
SELECT dc_create('again_n'), dc_create('again_d');
SELECT dc_bind('again_n', 'again', 'lower(k)', build => 'none'), dc_bind('again_d', 'again', 'lower(k)', distinct_of => 'upper(k)', build => 'none');
CREATE FUNCTION echo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF new.key NOT LIKE 'echo%' THEN
		INSERT INTO bound.again VALUES ('Echo' || new.key);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER echo AFTER INSERT ON again_n_shard FOR EACH ROW EXECUTE FUNCTION echo();
SET dcounter.pending_memory = '64kB';
INSERT INTO again SELECT 'Long' || repeat('x', 20) || i FROM generate_series(1, 3000) AS i;
SELECT count(*) FROM again;
UPDATE again SET k = 'z' || k WHERE k ~ '[05]$';
SELECT (SELECT count(*) FROM dc_source_check('again_n')) AS n, (SELECT count(*) FROM dc_source_check('again_d')) AS d;
RESET dcounter.pending_memory;
DROP TRIGGER echo ON again_n_shard;

-- of that name is another
CREATE TABLE taken (a int);
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER dcounter_source_row AFTER INSERT ON taken EXECUTE FUNCTION nothing();
SELECT dc_bind('e1', 'taken', 'a');
-- Expressions have a limit
SELECT dc_bind('e1', 'taken', 'a', filter => 'a > 0' || repeat(' ', 8192));

-- The last that is bound takes the triggers along; values stay
SELECT dc_unbind('s'), dc_unbind('p');
SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'likes'::regclass AND tgname = 'dcounter_source_update';
SELECT dc_unbind('n');
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'likes'::regclass AND NOT tgisinternal;
SELECT v('n') AS n;
SELECT dc_incr('n', 1);
INSERT INTO likes (post, fan) VALUES (3, 'z');
SELECT v('n') AS n;
SET client_min_messages = warning;
DROP SCHEMA bound CASCADE;
DROP ROLE bound_alice, bound_mallory;
SELECT count(*) FROM dcounter.source;
SELECT count(*) FROM dcounter.source_state;
