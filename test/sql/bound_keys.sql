-- Keys of bound counters that are dates and JSON arrays; jsonb and dates as arguments; dc_scan()
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA bound_keys;
SET search_path = bound_keys, public;

-- Byte for byte what jsonb_build_array() makes, of many values, in sessions with other settings
CREATE DOMAIN day AS date;
CREATE DOMAIN name20 AS varchar(20);
CREATE TABLE many (id int GENERATED ALWAYS AS IDENTITY, i2 int2, i4 int4, i8 int8, t text, vc varchar, n20 name20, bp char(4), u uuid, b bool, d date, dd day, n numeric, j jsonb);
SELECT dc_create(c) FROM unnest(ARRAY['k_quick', 'k_other', 'k_day', 'k_day2', 'k_expr']) AS c;
SELECT dc_bind('k_quick', 'many', 'i2, i4, i8, t, vc, n20, u, b, d, dd', build => 'none');
SELECT dc_bind('k_other', 'many', 't, bp, n, j, b', build => 'none');
SELECT dc_bind('k_day', 'many', 'd', build => 'none');
SELECT dc_bind('k_day2', 'many', 'd + 1', build => 'none');
SELECT dc_bind('k_expr', 'many', 'i4 % 7, upper(t), NOT b, dd - 1, d - 0, vc::text, n20::varchar', build => 'none');
CREATE VIEW expected AS
	SELECT 'k_quick' AS counter, jsonb_build_array(i2, i4, i8, t, vc, n20, u, b, d, dd)::text AS key, num_nulls(i2, i4, i8, t, vc, n20, u, b, d, dd) AS nulls FROM many UNION ALL
	SELECT 'k_other', jsonb_build_array(t, bp, n, j, b)::text, num_nulls(t, bp, n, j, b) FROM many UNION ALL
	SELECT 'k_day', to_jsonb(d) #>> '{}', num_nulls(d) FROM many UNION ALL
	SELECT 'k_day2', to_jsonb(d + 1) #>> '{}', num_nulls(d) FROM many UNION ALL
	SELECT 'k_expr', jsonb_build_array(i4 % 7, upper(t), NOT b, dd - 1, d, vc, n20)::text, num_nulls(i4, t, b, dd, d, vc, n20) FROM many;
CREATE VIEW actual AS
	SELECT 'k_quick' AS counter, key, value FROM k_quick UNION ALL SELECT 'k_other', key, value FROM k_other UNION ALL SELECT 'k_day', key, value FROM k_day
	UNION ALL SELECT 'k_day2', key, value FROM k_day2 UNION ALL SELECT 'k_expr', key, value FROM k_expr;
CREATE VIEW differ AS
	SELECT counter, key, a.value, e.value AS expected FROM (SELECT counter, key, sum(value) AS value FROM actual GROUP BY counter, key HAVING sum(value) <> 0) AS a
		FULL JOIN (SELECT counter, key COLLATE "C" AS key, count(*) AS value FROM expected WHERE nulls = 0 GROUP BY 1, 2) AS e USING (counter, key) WHERE a.value IS DISTINCT FROM e.value;
CREATE FUNCTION random_text() RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT string_agg(CASE (random() * 8)::int WHEN 0 THEN chr(1 + (random() * 126)::int) WHEN 1 THEN '"' WHEN 2 THEN '\' WHEN 3 THEN chr((random() * 2000)::int + 160) WHEN 4 THEN chr(8 + (random() * 5)::int) ELSE chr(97 + (random() * 25)::int) END, '')
	FROM generate_series(1, 1 + (random() * 11)::int)
$$;
CREATE PROCEDURE fill(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		INSERT INTO many (i2, i4, i8, t, vc, n20, bp, u, b, d, dd, n, j)
		VALUES ((random() * 65535 - 32768)::int2, (random() * 4294967295 - 2147483648)::int4, (random() * 18e18 - 9e18)::int8, random_text(), random_text(), random_text(), left(random_text(), 4),
			gen_random_uuid(), random() < 0.5, date '2000-01-01' + (random() * 4000000 - 2000000)::int % 2000000, date '0001-01-01' + (random() * 800000 - 400000)::int, (random() * 1000)::numeric(10, 3) * 1e3::numeric ^ (random() * 5)::int,
			to_jsonb(ARRAY[random_text(), NULL]));
	END LOOP;
END $$;
SELECT setseed(0.47);
CALL fill(300);
SET DateStyle = 'SQL, DMY';
SET TimeZone = 'Pacific/Apia';
SET IntervalStyle = 'iso_8601';
CALL fill(300);
SET DateStyle = 'German';
SET extra_float_digits = 0;
SET quote_all_identifiers = on;
CALL fill(300);
INSERT INTO many (i2, i4, i8, t, vc, n20, u, b, d, dd) VALUES
	(-32768, -2147483648, -9223372036854775808, '', '', '', '00000000-0000-0000-0000-000000000000', false, 'infinity', '-infinity'),
	(32767, 2147483647, 9223372036854775807, E'\u0001\b\t\n\f\r\x1f\x7f"\\/''', 'ü', '𝄞', 'ffffffff-ffff-ffff-ffff-ffffffffffff', true, '-infinity', '4714-11-25 BC'),
	(0, 0, 0, 'null', 'true', '[]', 'ffffffff-ffff-ffff-ffff-ffffffffffff', true, '294276-12-30', '0044-03-15 BC');
SELECT d, dd FROM many ORDER BY id DESC LIMIT 3;
UPDATE many SET d = d - 1, dd = dd + 1, t = t || '"' WHERE id % 3 = 0 AND isfinite(d) AND d > '4714-11-24 BC' AND isfinite(dd);
UPDATE many SET d = NULL WHERE id % 17 = 0;
UPDATE many SET b = NOT b, i4 = NULL WHERE id % 19 = 0;
DELETE FROM many WHERE id % 5 = 0;
SET DateStyle = 'ISO, MDY';
SELECT dc_apply(), (SELECT count(*) FROM dc_compact());
SELECT * FROM differ;
SELECT count(*) > 1000 AS many FROM actual WHERE value <> 0;
SELECT key FROM k_day2 WHERE value <> 0 AND key !~ '^\d{4,7}-\d\d-\d\d( BC)?$' ORDER BY key;
-- the scan agrees, under any settings
SELECT c, (SELECT count(*) FROM dc_source_check(c)) AS differ FROM unnest('{k_quick,k_other,k_day,k_day2,k_expr}'::regclass[]) AS c;
SET DateStyle = 'Postgres, DMY';
SELECT c, (SELECT count(*) FROM dc_source_check(c)) AS differ FROM unnest('{k_quick,k_other,k_day,k_day2,k_expr}'::regclass[]) AS c;
SELECT dc_create('built');
SELECT dc_bind('built', 'many', 'i2, i4, i8, t, vc, n20, u, b, d, dd', build => 'now');
SELECT count(*) FROM dc_scan('built') AS b FULL JOIN dc_scan('k_quick') AS k USING (key, value) WHERE b IS NULL OR k IS NULL;
RESET ALL;
SET client_min_messages = warning;
SET search_path = bound_keys, public;
-- what depends on settings stays refused, and names the way out
\set VERBOSITY default
CREATE TABLE stamps (ts timestamp, tz timestamptz, d date, ds date[]);
SELECT dc_create('s');
SELECT dc_bind('s', 'stamps', 'd, tz');
\set VERBOSITY terse
SELECT dc_bind('s', 'stamps', 'ts');
SELECT dc_bind('s', 'stamps', 'tz::date');
SELECT dc_bind('s', 'stamps', 'd::text');
SELECT dc_bind('s', 'stamps', 'd, d::text');
SELECT dc_bind('s', 'stamps', 'ds');
SELECT dc_bind('s', 'stamps', 'date_trunc(''month'', tz)::date');
SELECT dc_bind('s', 'stamps', 'date_trunc(''month'', ts)::date', distinct_of => 'd', build => 'now');
INSERT INTO stamps VALUES ('2026-03-31', now(), '2026-01-01'), ('2026-03-01', now(), '2026-01-01'), ('2026-03-01', now(), '2026-01-02');
SELECT dc_get('s', date '2026-03-01'), dc_get('s', '2026-03-01');
SELECT * FROM dc_source_check('s');
-- a key that is too long as JSON only
SELECT dc_create('long');
CREATE TABLE lengths (a int, t text);
SELECT dc_bind('long', 'lengths', 'a, t', build => 'none');
INSERT INTO lengths VALUES (1, repeat('x', 1017));
INSERT INTO lengths VALUES (1, repeat('x', 1018));
INSERT INTO lengths VALUES (1, repeat('"', 509));
INSERT INTO lengths VALUES (1, repeat('x', 100000));
SELECT length(key::text), value FROM dc_scan('long');

-- Arguments: a date is ISO 8601, jsonb its text
SELECT dc_create('c');
SET DateStyle = 'SQL, DMY';
SELECT dc_incr('c', date '2026-03-01', 5), dc_incr('c', jsonb_build_array(7, date '2026-03-01'), 3), dc_incr('c', '[7,   "2026-03-02"]'::jsonb, 4);
SELECT dc_get('c', '2026-03-01'), dc_get('c', '[7, "2026-03-01"]'), dc_get('c', date '2026-03-01'), dc_get('c', 'infinity'::date), dc_get('c', (dc_info('c', jsonb_build_array(7, date '2026-03-02'))).value::text);
SELECT * FROM dc_get_many('c', ARRAY['[7, "2026-03-02"]', '[8]']::jsonb[]);
SELECT * FROM dc_get_many('c', ARRAY[date '2026-03-01', date '2026-03-02']);
SELECT dc_incr_many('c', ARRAY[date '2026-03-01', date '2026-03-02']);
SELECT dc_get('c', '{"b": 1, "a": [1, {"c": null}]}'::jsonb), dc_get('c', '"x"'::jsonb), dc_get('c', 'null'::jsonb);
SELECT dc_get('c', jsonb_build_array(repeat('x', 1021)));
SELECT dc_get('c', jsonb_build_array(repeat('x', 20000)));
SELECT dc_get('c', (SELECT jsonb_agg(1) FROM generate_series(1, 341)));
SELECT dc_get('c', (SELECT jsonb_agg(1) FROM generate_series(1, 342)));
SELECT dc_get('c', '[1]'::json);
RESET DateStyle;

-- dc_scan()
SELECT dc_incr_many('c', ARRAY['[]', '[7]', '[70]', '[70, 1]', '[7, 10, "a"]', '[7, 9]', '[7, 10]', '[7, null, 1]', '[null, 1]', '[[7], 1]', '[[7, 8], 1]', '["7", 1]', '["a\"b", 1]', '[7.0]',
	'[7]x', '[7,9]', '[7, oops', '[7, 1e2]', '{"a": 1}', 'plain', '[7', '[7, "\u0000"]'], ARRAY[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]);
SELECT * FROM dc_scan('c', '[7]');
SELECT * FROM dc_scan('c');
SELECT * FROM dc_scan('c', '[null]') UNION ALL SELECT * FROM dc_scan('c', '[[7]]') UNION ALL SELECT * FROM dc_scan('c', '[[7, 8]]') UNION ALL SELECT * FROM dc_scan('c', '["7"]') UNION ALL SELECT * FROM dc_scan('c', '["a\"b"]') UNION ALL SELECT * FROM dc_scan('c', '[7, 10]');
SELECT * FROM dc_scan('c', '[8]');
-- keys that are, or nearly are, what jsonb writes: found if, and only if, they are, as the jsonb that the server reads
SELECT dc_create('texts');
SELECT dc_incr_many('texts', ARRAY['[0]', '[-0]', '[00]', '[01]', '[-01]', '[-5]', '[- 5]', '[--5]', '[+5]', '[-]', '[123456789012345678]', '[-123456789012345678]', '[1234567890123456789]', '[-1234567890123456789]', '[9223372036854775808]', '[10000000000000000000000]',
	'[70000]', '[10000, 100000000]', '[1.0]', '[1.]', '[.5]', '[-0.5]', '[1e3]', '[1]]', '[[1]]', '[1', '[1,', '[1, ', '[1, ]', '[1,]', '[, 1]', '[ 1]', '[1 ]', '[1,  2]', '[1 , 2]', '[1;2]', '[1] ', '[]x', '[', '[null]', '[nul]', '[nulll]', '[null1]', '[NULL]', '[true, false]', '[truefalse]', '[true', '[tru',
	'[""]', '["", ""]', '["]"]', '["a', '["a"', '["a"]', '["a"x]', '["a" ]', '["a", "b"]', '["a","b"]', '["a, b"]', '["a\"b"]', '["\\"]', '["\"]', '["\n"]', '["\u0007"]', '["\u0041"]', '["\/"]', E'["\n"]', E'["\x07"]', E'["\x7f"]', '["ü", "𝄞"]', '[1, {"a": 2}]', '[1, {"a":2}]', '[2, "2026-01-01", null, "n"]',
	'[' || repeat('1, ', 340) || '1]', '["' || repeat('x', 1020) || '"]']);
CREATE FUNCTION is_what_jsonb_writes(key text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	RETURN key::jsonb::text = key AND jsonb_typeof(key::jsonb) = 'array';
EXCEPTION WHEN OTHERS THEN
	RETURN false;
END $$;
SELECT s.key, t.key AS text FROM dc_scan('texts') AS s FULL JOIN (SELECT key FROM texts WHERE is_what_jsonb_writes(key)) AS t ON t.key = s.key::text COLLATE "C" AND record_image_eq(ROW(s.key), ROW(t.key::jsonb)) WHERE s IS NULL OR t IS NULL;
SELECT count(*) FROM dc_scan('texts');
SELECT c, (SELECT count(*) FROM dc_scan(c) AS s WHERE NOT record_image_eq(ROW(s.key), ROW(s.key::text::jsonb))) AS differ FROM unnest('{k_quick,k_other,k_expr}'::regclass[]) AS c;
-- what is pending, what was compacted, what is zero
BEGIN;
SELECT dc_incr('c', '[7, 9]'), dc_decr('c', '[7, 10]', 7), dc_incr('c', '[7, 11]'), dc_incr('c', '[8, 1]');
SAVEPOINT a;
SELECT dc_incr('c', '[7, 12]');
ROLLBACK TO a;
SELECT * FROM dc_scan('c', '[7]') WHERE jsonb_array_length(key) = 2;
COMMIT;
SELECT count(*) > 0 FROM dc_compact();
SELECT * FROM dc_scan('c', '[7]') WHERE jsonb_array_length(key) = 2;
SELECT bool_and(dc_get('c', key) = value) FROM dc_scan('c');
-- distinct values that are not written yet
SELECT dc_create('f');
CREATE TABLE fans (a int, b int, fan text);
SELECT dc_bind('f', 'fans', 'a, b', distinct_of => 'fan', build => 'now');
INSERT INTO fans VALUES (1, 1, 'x'), (1, 1, 'x'), (1, 1, 'y'), (1, 2, 'x');
BEGIN;
DELETE FROM fans WHERE fan = 'y';
INSERT INTO fans VALUES (1, 2, 'z'), (1, 3, 'z'), (2, 1, 'z');
SELECT * FROM dc_scan('f', '[1]');
ROLLBACK;
SELECT * FROM dc_scan('f');
-- a stock: units of holds whose time is up
SELECT dc_stock_create('st');
SELECT dc_restock('st', '[1, 1]', 5);
SELECT dc_hold('st', '[1, 1]', 2, '1 microsecond') IS NOT NULL;
SELECT dc_get('st', '[1, 1]'), (SELECT value FROM dc_scan('st', '[1]'));
-- errors
SELECT dc_scan('c', NULL);
SELECT dc_scan(NULL, '[]');
SELECT dc_scan('c', '7');
SELECT dc_scan('c', '{"a": 1}');
SELECT dc_scan('many', '[7]');
SELECT dc_scan('c', jsonb_build_array(repeat('x', 1021)));
SELECT dc_incr('c', '[9, 1]', 9223372036854775807), dc_incr('c', '[9, 2]', 9223372036854775807);
BEGIN;
SELECT dc_incr('c', '[9, 1]');
SELECT * FROM dc_scan('c', '[9]');
ROLLBACK;
-- texts that a collation considers equal are different keys: when rows are built, counted, updated and checked. (Without ICU all collations are deterministic.)
DO $$
BEGIN
	CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
EXCEPTION WHEN feature_not_supported THEN
	CREATE COLLATION alike FROM "C";
END $$;
CREATE TABLE alikes (id int PRIMARY KEY, t text COLLATE alike, n int);
SELECT dc_create(c) FROM unnest(ARRAY['alike_t', 'alike_tn', 'alike_sets']) AS c;
INSERT INTO alikes VALUES (1, 'a', 1), (2, 'A', 1), (3, 'a', 1), (4, 'b', 2);
SELECT dc_bind('alike_t', 'alikes', 't', build => 'now'), dc_bind('alike_tn', 'alikes', 't, n', build => 'now'), dc_bind('alike_sets', 'alikes', 't, n', group_by => 'ROLLUP (1, 2)', build => 'now');
CREATE VIEW alike_counts AS SELECT c.counter, k.key, dc_get(c.counter::regclass, k.key) AS value
	FROM (VALUES ('alike_t', '{a,A,b,B}'::text[]), ('alike_tn', '{"[\"a\", 1]","[\"A\", 1]","[\"b\", 2]"}'), ('alike_sets', '{"[\"a\", null]","[\"A\", null]","[\"A\", 1]","[null, null]"}')) AS c (counter, keys), unnest(c.keys) AS k (key);
SELECT * FROM alike_counts;
UPDATE alikes SET t = 'A' WHERE id = 1;
INSERT INTO alikes VALUES (5, 'B', 2);
SELECT * FROM alike_counts;
SELECT * FROM unnest(ARRAY['alike_t', 'alike_tn', 'alike_sets']) AS c, LATERAL dc_source_check(c::regclass);
-- constructors of JSON, which PostgreSQL has from 16 on, write floats and bytea as the settings say
CREATE DOMAIN constructed_d AS float8;
CREATE TABLE constructed (id int PRIMARY KEY, f float8, r float4[], b bytea, ds constructed_d[], i int, n numeric, t text);
SELECT dc_create('made');
CREATE FUNCTION binds(expression text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM dc_bind('made', 'constructed', expression, build => 'none'), dc_unbind('made');
	RETURN '';
EXCEPTION WHEN syntax_error OR undefined_function THEN -- on PostgreSQL 15
	RETURN '';
WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
SELECT a, current_setting('server_version_num')::int < 160000 OR binds(format('JSON_ARRAY(%s)', a)) = CASE WHEN a IN ('i', 'n', 't') THEN '' ELSE '42P17' END AS right
	FROM unnest('{f,r,b,ds,i,n,t}'::text[]) AS a;
CREATE ROLE regress_scan;
GRANT USAGE ON SCHEMA bound_keys TO regress_scan;
SET ROLE regress_scan;
SELECT * FROM dc_scan('c', '[7]');
RESET ROLE;
GRANT SELECT ON c TO regress_scan;
SET ROLE regress_scan;
SELECT count(*) FROM dc_scan('c', '[7]');
RESET ROLE;
DROP OWNED BY regress_scan;
DROP ROLE regress_scan;
DROP SCHEMA bound_keys CASCADE;
