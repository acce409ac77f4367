-- Several roll-ups and measures of one binding: group_by, lists in value
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA bound_rollup;
SET search_path = bound_rollup, public;
CREATE TABLE comments (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post int, author text, at timestamptz, body text, deleted_at timestamptz, meta jsonb, other int, "Odd Col" int);
SELECT dc_create('stats');
SELECT dc_bind('stats', 'comments', key => 'post, author, date_trunc(''month'', at AT TIME ZONE ''Europe/Berlin'')::date AS month', value => '1 AS comments, length(body) AS bytes',
	filter => 'deleted_at IS NULL', group_by => 'GROUPING SETS ((post), (author, month), (3), ())', build => 'none');
SELECT key, value, filter FROM dcounter.source;
SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'comments'::regclass AND NOT tgisinternal ORDER BY 1;
-- what SQL says, of rows without nulls
CREATE FUNCTION expected(OUT key text, OUT value numeric) RETURNS SETOF record LANGUAGE sql AS $$
	WITH c AS MATERIALIZED (SELECT *, date_trunc('month', at AT TIME ZONE 'Europe/Berlin')::date AS month FROM comments WHERE deleted_at IS NULL),
	g AS (SELECT post, NULL::text AS author, NULL::date AS month, count(*) AS comments, sum(length(body)) AS bytes FROM c WHERE post IS NOT NULL GROUP BY post UNION ALL
		SELECT NULL, author, month, count(*), sum(length(body)) FROM c WHERE num_nulls(author, month) = 0 GROUP BY author, month UNION ALL
		SELECT NULL, NULL, month, count(*), sum(length(body)) FROM c WHERE month IS NOT NULL GROUP BY month UNION ALL
		SELECT NULL, NULL, NULL, count(*), sum(length(body)) FROM c)
	SELECT jsonb_build_array(post, author, month, 'comments')::text, comments FROM g WHERE comments <> 0 UNION ALL
	SELECT jsonb_build_array(post, author, month, 'bytes')::text, bytes FROM g WHERE bytes <> 0
$$;
CREATE FUNCTION differ(counter regclass, OUT key text, OUT value numeric, OUT expected numeric) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT * FROM (SELECT s.key::text AS key, s.value::numeric FROM dc_scan(counter) AS s) AS s FULL JOIN expected() AS e USING (key) WHERE s.value IS DISTINCT FROM e.value UNION ALL
	SELECT 'check: ' || d.key, d.source, d.counter FROM dc_source_check(counter) AS d
$$;
INSERT INTO comments (post, author, at, body) SELECT i % 5, chr(97 + i % 3), '2026-01-15 12:00+00'::timestamptz + i * interval '11 days', repeat('x', i % 7) FROM generate_series(1, 40) AS i;
SELECT * FROM dc_scan('stats', '[null, null]');
SELECT dc_get('stats', jsonb_build_array(2, NULL, NULL, 'comments')), dc_get('stats', jsonb_build_array(NULL, NULL, NULL, 'bytes')), dc_get('stats', jsonb_build_array(NULL, 'a', date '2026-02-01', 'comments'));
SELECT * FROM differ('stats');
-- nulls in one element of a set, a value that is zero or null, a text 'null'
INSERT INTO comments (post, author, at, body) VALUES (NULL, 'a', '2027-01-01', 'abc'), (7, NULL, '2027-01-01', 'abc'), (7, 'b', NULL, 'abc'), (NULL, NULL, NULL, 'abc'), (8, 'c', '2027-02-01', ''), (8, 'c', '2027-02-01', NULL), (9, 'null', '2027-03-01', 'x');
SELECT * FROM dc_scan('stats', '[8]') UNION ALL SELECT * FROM dc_scan('stats', '[7]') UNION ALL SELECT * FROM dc_scan('stats', '[null, "null"]');
SELECT * FROM differ('stats');
-- changes of each kind
UPDATE comments SET post = post + 1 WHERE id % 3 = 0;
UPDATE comments SET at = at - interval '2 months' WHERE id % 4 = 0;
UPDATE comments SET body = body || 'y' WHERE id % 5 = 0;
UPDATE comments SET deleted_at = now() WHERE id % 6 = 0;
UPDATE comments SET author = NULL, post = NULL WHERE id % 11 = 0;
UPDATE comments SET deleted_at = NULL, author = 'z' WHERE id % 12 = 0;
UPDATE comments SET other = 1;
DELETE FROM comments WHERE id % 13 = 0;
BEGIN;
UPDATE comments SET author = upper(author);
SAVEPOINT a;
DELETE FROM comments;
SELECT count(*) FROM dc_scan('stats');
ROLLBACK TO a;
SELECT count(*) > 30 FROM dc_scan('stats');
SELECT * FROM differ('stats');
ROLLBACK;
SELECT * FROM differ('stats');
-- build, check, fix
SET session_replication_role = replica;
DELETE FROM comments WHERE id % 17 = 1;
INSERT INTO comments (post, author, at, body) VALUES (100, 'new', '2028-05-05', 'twelve bytes');
RESET session_replication_role;
SELECT key, source, counter, drift FROM dc_source_check('stats') ORDER BY key;
SELECT * FROM dc_source_check('stats', keys => ARRAY[jsonb_build_array(100, NULL, NULL, 'bytes'), jsonb_build_array(1, NULL, NULL, 'bytes')]);
SELECT * FROM dc_source_fix('stats', ARRAY[jsonb_build_array(100, NULL, NULL, 'bytes')]);
SELECT count(*) FROM differ('stats') WHERE key !~ 'check';
CALL dc_build('stats', 3);
SELECT * FROM differ('stats');
SELECT dc_create('again');
SELECT dc_bind('again', 'comments', 'post, author, date_trunc(''month'', at AT TIME ZONE ''Europe/Berlin'')::date', '1 AS comments, length(body) AS bytes', 'deleted_at IS NULL', group_by => 'GROUPING SETS ((1), (2, 3), 3, ())', build => 'now');
SELECT * FROM differ('again');
-- names
ALTER TABLE comments RENAME author TO writer;
ALTER TABLE comments RENAME writer TO author;
SELECT * FROM differ('again');
SELECT key FROM dcounter.source WHERE counter = 'again'::regclass;
ALTER TABLE comments DROP COLUMN author;
ALTER TABLE comments ALTER post TYPE bigint;
TRUNCATE comments;
SELECT count(*) FROM dc_scan('stats') UNION ALL SELECT count(*) FROM dc_scan('again');
SELECT dc_unbind('again');

-- What SQL's own words make of it
CREATE FUNCTION sets(key text, group_by text, value text DEFAULT '1') RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	PERFORM dc_bind('again', 'comments', key, value, group_by => group_by, build => 'none');
	SELECT s.key || ' | ' || s.value INTO result FROM dcounter.source AS s WHERE counter = 'again'::regclass;
	PERFORM dc_unbind('again');
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT sets('post, author', g) FROM unnest(ARRAY['ROLLUP (post, author)', 'CUBE (1, 2)', 'post, author', '(1), ROLLUP (2)', 'GROUPING SETS (ROLLUP (post), CUBE (author))', 'DISTINCT ROLLUP (1), ROLLUP (1, 2)', 'GROUPING SETS ((1, 2), (2, 1), (1, 2))', 'ROLLUP ((post, author))',
	'post', '()', '1; SELECT 1', '1 HAVING true', '1 ORDER BY 1', 'id', 'post + 1', '3', 'count(*)', '', '1)', 'GROUPING SETS ()', 'ROLLUP (post, other)']) AS g;
SELECT sets('post, author, other, id', 'CUBE (1, 2, 3, 4)'), sets('post, author, other, id, body', 'CUBE (1, 2, 3, 4, 5)');
SELECT sets('post AS p, upper(author) AS author', 'GROUPING SETS (p, 2)'), sets('post AS p, upper(author) AS author', 'GROUPING SETS (p, author)'), sets('post', '1, ()'), sets('post AS p', NULL), sets('post GROUP BY 1', NULL), sets('post GROUP BY 1', '1');
SELECT sets('post', NULL, '1 AS n, length(body) AS bytes'), sets('post', NULL, '1, other'), sets('post', NULL, 'post, other'), sets('post', NULL, '1 AS other, other'), sets('post', NULL, '1 AS "N ""x"" y", "Odd Col"'), sets('post', NULL, 'post, 1.5 AS x'), sets('post', NULL, 'post, count(*) AS x'), sets('post', NULL, '1 AS n');
SELECT sets('post', NULL, string_agg('1 AS v' || i, ', ')) FROM generate_series(1, 9) AS i;
SELECT sets(string_agg('post + ' || i, ', '), 'ROLLUP (1)') FROM generate_series(1, 33) AS i;
SELECT dc_bind('again', 'comments', 'post', distinct_of => 'author', group_by => 'ROLLUP (1)');
SELECT dc_bind('again', 'comments', 'post', distinct_of => 'author', value => '1 AS a, 1 AS b');
-- several values without sets; names that need escapes; a JSON null is a null; a constant element
SELECT dc_bind('again', 'comments', 'post', value => '1 AS "N ""x"" y", "Odd Col"', build => 'now');
INSERT INTO comments (post, "Odd Col") VALUES (1, 5), (1, 0), (2, NULL), (NULL, 1);
SELECT * FROM dc_scan('again');
SELECT * FROM dc_source_check('again');
SELECT dc_unbind('again');
SELECT dc_create('meta');
SELECT dc_bind('meta', 'comments', 'meta, ''all''', group_by => 'GROUPING SETS ((1), (2), (1, 2))', build => 'now');
INSERT INTO comments (meta) VALUES ('null'), ('[null]'), ('"null"'), ('{"a": 1}'), (NULL);
SELECT * FROM dc_scan('meta');
SELECT * FROM dc_source_check('meta');
SELECT dc_unbind('meta');
-- A build adds up groups by the bytes of elements: of all types, nulls, more groups than there is memory for; the trigger has made each text
CREATE TABLE mixed (id int, i2 int2, i8 bigint, t text, v varchar(9), u uuid, b bool, d date, n numeric, j jsonb, x int);
SELECT dc_create('by_trigger'), dc_create('by_build'), dc_create('pair');
SELECT dc_bind('by_trigger', 'mixed', 'i2, i8, t, v, u, b, d, n, j', '1 AS c, x', group_by => 'GROUPING SETS (ROLLUP (1, 2), (3, 4), (5, 6), (7, 8), (9), (1, 2, 3, 4, 5, 6, 7, 8, 9))', build => 'none');
CREATE FUNCTION mix(m int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO mixed SELECT i, k % 7, CASE WHEN k % 5 > 0 THEN k % 11 * 10000000000 END, repeat(chr(65 + k % 26), k % 9 * 20) || CASE WHEN k % 3 = 0 THEN '"\' END || k, nullif('v' || k % 4, 'v2'), md5((k % 5)::text)::uuid, k % 6 = 1,
		CASE WHEN k % 8 > 0 THEN date '2026-01-01' + k % 8 ELSE 'infinity' END, CASE WHEN k % 2 = 0 THEN 1.5 ELSE 1.50 END, (ARRAY['{"a": 1}', 'null', '[1]', NULL])[1 + k % 4]::jsonb, k % 5 - 2
	FROM (SELECT i, i % m AS k FROM generate_series(1, 2500) AS i) AS k
$$;
CREATE VIEW mixed_differ AS SELECT key, t.value AS by_trigger, c.value AS by_build FROM dc_scan('by_trigger') AS t FULL JOIN dc_scan('by_build') AS c USING (key) WHERE t.value IS DISTINCT FROM c.value;
SET maintenance_work_mem = '1MB';
SELECT mix(400);
SELECT dc_bind('by_build', 'mixed', 'i2, i8, t, v, u, b, d, n, j', '1 AS c, x', group_by => 'GROUPING SETS (ROLLUP (1, 2), (3, 4), (5, 6), (7, 8), (9), (1, 2, 3, 4, 5, 6, 7, 8, 9))', build => 'now');
SELECT * FROM mixed_differ;
SELECT mix(2500);
SELECT dc_unbind('by_build');
SELECT dc_bind('by_build', 'mixed', 'i2, i8, t, v, u, b, d, n, j', '1 AS c, x', group_by => 'GROUPING SETS (ROLLUP (1, 2), (3, 4), (5, 6), (7, 8), (9), (1, 2, 3, 4, 5, 6, 7, 8, 9))', build => 'now');
SELECT * FROM mixed_differ;
SELECT count(*), sum(value) FROM dc_scan('by_build');
SELECT * FROM dc_source_check('by_trigger');
-- without sets a null of JSON is a value; a row with a null does not count, whatever the elements behind it
SELECT dc_bind('pair', 'mixed', 'j, 1 / nullif(x, 0), d', value => 'x', filter => 'x > -2', build => 'now');
SELECT count(*), sum(value), count(*) FILTER (WHERE key ->> 0 IS NULL) FROM dc_scan('pair');
SELECT * FROM dc_source_check('pair');
-- sums of groups that leave bigint on the way
CREATE TABLE steep (a text, n bigint);
INSERT INTO steep SELECT a, n FROM unnest('{9000000000000000000,9000000000000000000,-9000000000000000000,-8999999999999999990}'::bigint[]) AS n, unnest('{x,y}'::text[]) AS a;
SELECT dc_create('steep_sum');
SELECT dc_bind('steep_sum', 'steep', 'a, 1', value => 'n', group_by => 'ROLLUP (1, 2)', build => 'now');
SELECT * FROM dc_scan('steep_sum');
SELECT * FROM dc_source_check('steep_sum');
RESET maintenance_work_mem;

-- a key that is too long in the longest set only; a sum that leaves bigint in the grand total only
SELECT dc_create('long'), dc_create('large');
CREATE TABLE wide (a text, b text, n bigint);
SELECT dc_bind('long', 'wide', 'a, b', group_by => 'ROLLUP (a, b)', build => 'none');
SELECT dc_bind('large', 'wide', 'a', value => 'n', group_by => 'ROLLUP (a)', build => 'none');
INSERT INTO wide VALUES (repeat('a', 600), NULL, 1), (NULL, repeat('b', 600), 1);
INSERT INTO wide VALUES (repeat('a', 600), repeat('b', 600), 1);
INSERT INTO wide VALUES (repeat('a', 508), repeat('b', 508), 1);
SELECT length(key::text), value FROM dc_scan('long') ORDER BY 1;
INSERT INTO wide VALUES ('x', '1', 9223372036854775000);
INSERT INTO wide VALUES ('y', '1', 9223372036854775000);
SELECT key, value FROM dc_scan('large') WHERE length(key::text) < 20;
UPDATE wide SET n = 5 WHERE a = 'x';
SELECT key, value FROM dc_scan('large') WHERE length(key::text) < 20;
SELECT * FROM dc_source_check('long') UNION ALL SELECT * FROM dc_source_check('large');

-- Partitions
CREATE TABLE sales (day date NOT NULL, shop int, kind text, amount int) PARTITION BY RANGE (day);
CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE sales_2 (x int, amount int, kind text, shop int, day date NOT NULL);
ALTER TABLE sales_2 DROP COLUMN x;
INSERT INTO sales_2 SELECT i, CASE i % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' END, i % 4, '2026-02-01'::date + i % 28 FROM generate_series(1, 50) AS i;
SELECT dc_create('by'), dc_create('kept');
SELECT dc_bind('by', 'sales', 'shop, kind, day', '1 AS n, amount', group_by => 'GROUPING SETS (ROLLUP (shop, kind), (day))', build => 'now');
SELECT dc_bind('kept', 'sales', 'shop, kind, day', '1 AS n, amount', group_by => 'CUBE (shop, kind), ROLLUP (day)', build => 'now', on_detach => 'keep');
INSERT INTO sales SELECT '2026-01-01'::date + i % 31, i % 4, chr(97 + i % 2), i FROM generate_series(1, 50) AS i;
CREATE VIEW totals AS SELECT 'by' AS counter, count(*), sum(value) FROM dc_scan('by') UNION ALL SELECT 'kept', count(*), sum(value) FROM dc_scan('kept');
CREATE VIEW wrong AS SELECT 'by' AS what, d.* FROM dc_source_check('by') AS d UNION ALL SELECT 'kept', d.* FROM dc_source_check('kept') AS d;
CREATE VIEW by_sql AS SELECT jsonb_build_array(shop, kind, day, v.name) AS key, v.value FROM (SELECT shop, kind, day, count(*) AS n, sum(amount) AS amount, grouping(shop) AS gs, grouping(kind) AS gk FROM sales GROUP BY GROUPING SETS (ROLLUP (shop, kind), (day))) AS s,
	LATERAL (VALUES ('n', n), ('amount', amount)) AS v(name, value) WHERE NOT (kind IS NULL AND gk = 0);
SELECT * FROM totals; SELECT * FROM wrong;
ALTER TABLE sales ATTACH PARTITION sales_2 FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
SELECT * FROM totals; SELECT * FROM wrong;
UPDATE sales SET day = day + 31 WHERE amount < 10 AND day < '2026-01-25';
SELECT * FROM wrong;
SELECT * FROM dc_scan('by') FULL JOIN by_sql AS s USING (key) WHERE dc_scan.value IS DISTINCT FROM s.value;
TRUNCATE sales_1;
SELECT * FROM totals; SELECT * FROM wrong;
ALTER TABLE sales DETACH PARTITION sales_2;
SELECT * FROM totals; SELECT * FROM wrong;
TRUNCATE sales;
SELECT * FROM totals; SELECT * FROM wrong;
DROP SCHEMA bound_rollup CASCADE;
