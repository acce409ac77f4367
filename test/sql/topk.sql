-- dc_topk: the heaviest items of a stream
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
\pset null NULL

-- An empty one, and its sizes
SELECT dc_topk(10), dc_topk(3, 5), dc_topk(1000000);
SELECT * FROM dc_topk_info(dc_topk(10));
SELECT counters FROM unnest(ARRAY[1, 6, 7, 100, 100000, 100001, 1000000]) k, dc_topk_info(dc_topk(k));
SELECT count(*) FROM dc_topk_list(dc_topk(10));
SELECT count(*) FROM dc_topk_heavy(dc_topk(10), 0);
SELECT dc_topk_estimate(dc_topk(10), 'x'), dc_topk_bounds(dc_topk(10), 'x');
SELECT dc_topk(0);
SELECT dc_topk(NULL::int);
SELECT dc_topk(10, NULL)::text = dc_topk(10)::text;
SELECT dc_topk(1000001);
SELECT dc_topk(10, 9);
SELECT dc_topk(10, 1000001);

-- Few items are counted exactly
CREATE TABLE words (id int, w text, n bigint);
INSERT INTO words SELECT i, w, i FROM unnest(string_to_array('the cat and the dog and the bird saw the cat', ' ')) WITH ORDINALITY AS u(w, i);
SELECT dc_topk_agg(w, 2) AS words FROM words \gset
SELECT * FROM dc_topk_list(:'words');
SELECT * FROM dc_topk_list(:'words', 100);
SELECT count(*) FROM dc_topk_list(:'words', 0);
SELECT * FROM dc_topk_list(:'words', 3);
SELECT * FROM dc_topk_heavy(:'words', 2 / 11.0);
SELECT item FROM dc_topk_heavy(:'words', 0);
SELECT item FROM dc_topk_heavy(:'words', 1);
SELECT dc_topk_estimate(:'words', 'the'), dc_topk_estimate(:'words', 'fish'), dc_topk_bounds(:'words', 'cat'), dc_topk_bounds(:'words', 'fish');
SELECT * FROM dc_topk_info(:'words');
-- By hand: the same bytes, because there was room for all
SELECT dc_topk_add(dc_topk_add(dc_topk_add(dc_topk_add(dc_topk_add(dc_topk_add(dc_topk(2), 'saw'), 'bird'), 'dog'), 'and', 2), 'cat', 2), 'the', 4)::text = :'words';
-- A weight; rows without item or weight add nothing
SELECT dc_topk_agg(w, 2, n) AS weighted FROM words \gset
SELECT item, estimate FROM dc_topk_list(:'weighted', 10);
SELECT dc_topk_agg(w, 2, n)::text = :'weighted' FROM (TABLE words UNION ALL VALUES (0, NULL, 5), (0, 'none', NULL), (0, 'zero', 0)) v(id, w, n);
SELECT dc_topk_info(dc_topk_agg(NULL::text, 2)), dc_topk_info(dc_topk_agg('a', 2, NULL)), dc_topk_agg('a', 2) FILTER (WHERE false) FROM words;
SELECT dc_topk_agg(w, 2, -1) FROM words;
SELECT dc_topk_agg(NULL::text, 2, -1)::text = dc_topk_add(dc_topk(2), NULL, -1)::text;
SELECT dc_topk_agg(w, id) FROM words;
SELECT dc_topk_agg(w, nullif(id, 5) / 100 + 1) FROM words;
SELECT dc_topk_agg(w, NULL) FROM words;
SELECT dc_topk_agg(w, 0) FROM words;
SELECT counters FROM dc_topk_info((SELECT dc_topk_agg(w, 2, 1, 3) FROM words));
SELECT dc_topk_agg(w, 2, 1, NULL)::text = :'words' FROM words;
SELECT dc_topk_agg(w, 2, 1, 1) FROM words;
SELECT dc_topk_agg(w, 2, 1, id + 10) FROM words;

-- NULL and 0 leave a value as it is
SELECT dc_topk_add(NULL::dc_topk, 'a'), dc_topk_add(:'words'::dc_topk, NULL::text)::text = :'words', dc_topk_add(:'words'::dc_topk, NULL::int)::text = :'words',
	dc_topk_add(:'words', 'a', NULL)::text = :'words', dc_topk_add(:'words', 'a', 0)::text = :'words';
SELECT dc_topk_union(NULL, dc_topk(1)), dc_topk(1) || NULL, dc_topk_estimate(NULL, 'a'), dc_topk_estimate(:'words'::dc_topk, NULL::text), dc_topk_bounds(NULL, 'a'), dc_topk_info(NULL);
SELECT count(*) FROM dc_topk_list(NULL);
SELECT count(*) FROM dc_topk_heavy(NULL, 0.5);
SELECT count(*) FROM dc_topk_list(:'words', NULL);
SELECT dc_topk_add(dc_topk(1), 'a', -1);
SELECT dc_topk_list(:'words', -1);
SELECT dc_topk_heavy(:'words', s) FROM unnest(ARRAY[-0.1]) s;
SELECT dc_topk_heavy(:'words', 1.1);
SELECT dc_topk_heavy(:'words', 'NaN');

-- Total weights up to the largest bigint
SELECT dc_topk_add(dc_topk(1, 2), 'a', 9223372036854775806) AS large \gset
SELECT dc_topk_info(dc_topk_add(:'large', 'b', 1)), dc_topk_list(dc_topk_add(:'large', 'a', 1));
SELECT dc_topk_heavy(dc_topk_add(:'large', 'b', 1), 1e-18);
SELECT dc_topk_add(:'large', 'b', 2);
SELECT dc_topk_union(:'large', :'large');
SELECT dc_topk_agg(w, 1, 9223372036854775807) FROM words;
SELECT dc_topk_union_agg(t) FROM (VALUES (:'large'::dc_topk), (:'large')) v(t);

-- Dropped items: 3 counters
SELECT dc_topk_agg(w, 2, 1, 3) AS small FROM (SELECT w FROM words ORDER BY id) s \gset
SELECT dc_topk_info(:'small');
SELECT * FROM dc_topk_list(:'small');
SELECT * FROM dc_topk_list(:'small', 10);
SELECT w, dc_topk_bounds(:'small', w), count(*) FROM words GROUP BY w ORDER BY w COLLATE "C";
SELECT * FROM dc_topk_heavy(:'small', 0.3);
\set VERBOSITY default
SELECT * FROM dc_topk_heavy(:'small', 0.1);
\set VERBOSITY terse
-- Adding to a stored value is adding to the state
DO $$
DECLARE
	t dc_topk := dc_topk(2, 3);
	r record;
BEGIN
	FOR r IN SELECT w, id, dc_topk_agg(w, 2, id % 3, 3) OVER (ORDER BY id) AS agg FROM words ORDER BY id LOOP
		t := dc_topk_add(t, r.w, r.id % 3);
		ASSERT t::text = r.agg::text, r.id;
	END LOOP;
END $$;

-- Unions: the smaller k, the smaller number of counters
SELECT dc_topk_info(:'small'::dc_topk || :'weighted'), dc_topk_info(:'weighted'::dc_topk || :'small'), dc_topk_info(dc_topk(1, 2) || :'weighted');
SELECT dc_topk_list(:'small'::dc_topk || :'weighted');
SELECT (:'small'::dc_topk || :'weighted')::text = dc_topk_union(:'weighted', :'small')::text;
SELECT (:'words'::dc_topk || :'words')::text = dc_topk_agg(w, 2, 2)::text FROM words;
SELECT (:'words'::dc_topk || dc_topk(2))::text = :'words', (dc_topk(2) || :'words'::dc_topk)::text = :'words';
SELECT dc_topk_union_agg(t)::text = :'words' FROM (SELECT dc_topk_agg(w, 2) AS t FROM words GROUP BY id % 3) s;
SELECT dc_topk_union_agg(t), dc_topk_union_agg(t) FILTER (WHERE t IS NOT NULL) FROM (VALUES (NULL::dc_topk), (NULL)) v(t);
SELECT dc_topk_union_agg(t)::text = :'words' FROM (VALUES (NULL::dc_topk), (:'words'), (NULL)) v(t);

-- Items of any type: equal text is one item
CREATE TYPE color AS ENUM ('red', 'green');
CREATE DOMAIN short AS varchar(5);
SELECT item, estimate FROM dc_topk_list((SELECT dc_topk_agg(x, 5) FROM unnest(ARRAY[1.0, 1.00, 1, 2.50, 'NaN']) x)) ORDER BY 2 DESC, 1;
SELECT item, estimate FROM dc_topk_list((SELECT dc_topk_agg(1::smallint, 5) || dc_topk_agg(1, 5) || dc_topk_agg(1::bigint, 5) || dc_topk_agg(1.0, 5) || dc_topk_agg('1', 5) || dc_topk_agg(1.0::float8, 5)));
SELECT dc_topk_list(dc_topk_add(dc_topk(1), x)) FROM unnest(ARRAY['A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid]) x;
SELECT dc_topk_list(dc_topk_add(dc_topk(1), '\xDEAD'::bytea)), dc_topk_estimate(dc_topk_add(dc_topk(1), '\xDEAD'::bytea), '\xdead');
SELECT dc_topk_list(dc_topk_add(dc_topk_add(dc_topk(1), 'red'::color), 'red'::short)), dc_topk_list(dc_topk_add(dc_topk(1), 'red  '::char(9)));
SELECT dc_topk_list(dc_topk_add(dc_topk(1), true)), dc_topk_list(dc_topk_add(dc_topk(1), '2026-02-01'::date)), dc_topk_list(dc_topk_add(dc_topk(1), 'pg_class'::name));
SELECT dc_topk_list(dc_topk_add(dc_topk(1), ARRAY['a b', 'c'])), dc_topk_list(dc_topk_add(dc_topk(1), '{"a": 1}'::jsonb)), dc_topk_list(dc_topk_add(dc_topk(1), int4range(1, 5)));
SELECT dc_topk_list(dc_topk_add(dc_topk_add(dc_topk(1), ''), 'ü€𝄞', 3), 2);
BEGIN;
SET LOCAL timezone = 'Asia/Tokyo';
SELECT dc_topk_add(dc_topk(1), '2026-02-01 12:00+00'::timestamptz) AS tokyo \gset
SET LOCAL timezone = 'America/New_York';
SET LOCAL datestyle = 'German';
SELECT dc_topk_add(:'tokyo', '2026-02-01 12:00+00'::timestamptz) AS both \gset
SELECT dc_topk_list(:'both'), dc_topk_estimate(:'both', '2026-02-01 12:00+00'::timestamptz);
COMMIT;
-- Long ones, and a value that is stored out of line
CREATE TABLE kept (t dc_topk);
INSERT INTO kept SELECT dc_topk_agg(repeat(md5(i::text), 3200) || i % 3, 2) FROM generate_series(1, 9) i;
UPDATE kept SET t = dc_topk_add(t, repeat('long ', 20000), 5);
SELECT items, total_weight, exact, bytes FROM kept, dc_topk_info(t);
SELECT rank, left(item, 10), length(item), estimate FROM kept, dc_topk_list(t, 2);
SELECT dc_topk_estimate(t, repeat('long ', 20000)), dc_topk_estimate(t, repeat('long ', 19999)), dc_topk_estimate(t, repeat(md5('4'), 3200) || 1) FROM kept;
SELECT dc_topk_add(t, NULL::text)::text = t::text, dc_topk_add(t, 'a', 0)::text = t::text FROM kept;
SELECT count(*) FROM dc_topk_list((SELECT dc_topk_agg(w, 2) FROM (SELECT repeat('wide ', 20000) || i % 5 AS w FROM generate_series(1, 50) i) s), 10);

-- Types' bytes: in, out, casts, binary copy
SELECT :'words'::dc_topk::bytea::dc_topk::text = :'words', octet_length(:'words'::dc_topk::bytea) = (SELECT bytes FROM dc_topk_info(:'words'));
SELECT dc_topk(2, 3)::bytea, '\x0100020301050000000161'::dc_topk;
SELECT dcounter.topk_send(dc_topk(2, 3));
SELECT 'x'::dc_topk;
SELECT '\x0'::dc_topk;
SELECT '\x0g'::dc_topk;
\set VERBOSITY default
SELECT ''::bytea::dc_topk;
SELECT '\x0200020301050000000161'::dc_topk;
SELECT '\x0101020301050000000161'::dc_topk;
SELECT '\x0100020301050000000161'::bytea::dc_topk;
SELECT '\x010002030105000000016100'::bytea::dc_topk;
SELECT '\x0100020301060000000161'::bytea::dc_topk;
SELECT '\x01000203010500000001ff'::bytea::dc_topk;
SELECT '\x01000203010500000002c328'::dc_topk;
\set VERBOSITY terse
CREATE FUNCTION refusal(b bytea) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN b::dc_topk::text;
EXCEPTION WHEN invalid_parameter_value THEN
	RETURN 'refused';
END $$;
CREATE TEMP TABLE copied (t dc_topk);
\copy (SELECT t FROM kept UNION ALL SELECT dc_topk(5)) TO 'results/topk.copy' (FORMAT binary)
\copy copied FROM 'results/topk.copy' (FORMAT binary)
SELECT c.t::text = kept.t::text, dc_topk_info(c.t) FROM copied c, kept;
CREATE TEMP TABLE bad AS SELECT '\x010002030105000000016100'::bytea AS t;
\copy bad TO 'results/topk.copy' (FORMAT binary)
\copy copied FROM 'results/topk.copy' (FORMAT binary)
-- Each byte changed, each length: refused, or a value that is its own form
SELECT count(*) FILTER (WHERE r <> 'refused') > 0 AS some_pass, bool_and(r IN ('refused', set_byte(:'small'::dc_topk::bytea, i, x)::text)) AS same
	FROM generate_series(0, octet_length(:'small'::dc_topk::bytea) - 1) i, generate_series(0, 255) x, refusal(set_byte(:'small'::dc_topk::bytea, i, x)) r;
SELECT bool_and(refusal(substr(:'small'::dc_topk::bytea, 1, i)) = 'refused') FROM generate_series(0, octet_length(:'small'::dc_topk::bytea) - 1) i;

-- Many rows against exact counts: item i of 2000 has a share of about 1/i
CREATE TABLE stream AS
	SELECT 'item ' || floor(exp(ln(2000) * (hashint4extended(i, 0) & 1048575) / 1048576.0))::int AS item, (i % 4)::bigint AS weight, i % 10 AS part
	FROM generate_series(1, 60000) i;
CREATE FUNCTION is_right(t dc_topk, weighted boolean DEFAULT false) RETURNS text LANGUAGE sql AS $$
	WITH truth AS (SELECT item, CASE WHEN weighted THEN sum(weight)::bigint ELSE count(*) END AS w FROM stream GROUP BY item),
		total AS (SELECT sum(w) AS n FROM truth),
		joined AS (SELECT r.item, w, r.lower, r.upper, b.lower AS l, b.estimate AS e, b.upper AS u FROM truth FULL JOIN dc_topk_list(t, 1000000) r USING (item) LEFT JOIN dc_topk_bounds(t, item) b ON true),
		top AS (SELECT item, rank() OVER (ORDER BY w DESC) FROM truth)
	SELECT coalesce(nullif(concat_ws(', ',
		CASE WHEN total_weight <> n THEN 'total weight' END,
		CASE WHEN max_error > n / counters THEN 'error too high' END,
		CASE WHEN EXISTS (SELECT FROM joined WHERE w NOT BETWEEN l AND u OR e <> u) THEN 'bounds' END,
		CASE WHEN EXISTS (SELECT FROM joined WHERE coalesce(lower, 0) <> l OR coalesce(upper, max_error) <> u) THEN 'list' END,
		CASE WHEN EXISTS (SELECT FROM joined WHERE w > n / counters AND item IS NULL) THEN 'a heavy one is missing' END,
		CASE WHEN EXISTS (SELECT FROM dc_topk_list(t) r JOIN top USING (item) WHERE guaranteed AND top.rank > k) THEN 'guarantee' END,
		CASE WHEN EXISTS (SELECT FROM joined WHERE w >= 0.015 * n AND item NOT IN (SELECT item FROM dc_topk_heavy(t, 0.015)))
			OR EXISTS (SELECT FROM dc_topk_heavy(t, 0.015) r JOIN truth USING (item) WHERE guaranteed AND w < 0.015 * n) THEN 'heavy' END), ''), 'right')
	FROM total, dc_topk_info(t) $$;
SELECT is_right(dc_topk_agg(item, 10)) FROM stream;
SELECT count(*), count(*) FILTER (WHERE guaranteed) FROM dc_topk_list((SELECT dc_topk_agg(item, 10) FROM stream));
-- is_right() finds what is wrong
SELECT is_right(dc_topk_add(dc_topk_agg(item, 10), 'item 1')), is_right(dc_topk_agg(item, 10, weight)), is_right(dc_topk_agg(CASE item WHEN 'item 1' THEN 'item 7' ELSE item END, 10)) FROM stream;
SELECT is_right(dc_topk_agg(item, 10, weight), true), is_right(dc_topk_agg(item, 10, 1, 3000)), is_right(dc_topk_agg(item, 100)) FROM stream;
SELECT is_right(dc_topk_union_agg(t)), (dc_topk_info(dc_topk_union_agg(t))).total_weight FROM (SELECT part, dc_topk_agg(item, 10) AS t FROM stream GROUP BY part) s;
SELECT is_right(dc_topk_union_agg(t)) FROM (SELECT dc_topk_agg(item, 10 + part, 1, 100 + 30 * part) AS t FROM stream GROUP BY part) s;
-- The same rows in the same order give the same bytes
SELECT a::text = b::text, a::text = c::text FROM (SELECT dc_topk_agg(item, 10 ORDER BY part, item) AS a, dc_topk_agg(item, 10, 1 ORDER BY part, item) AS b, dc_topk_agg(item::name, 10 ORDER BY part, item) AS c FROM stream) s;

-- In parallel
BEGIN;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL max_parallel_workers_per_gather = 3;
SET LOCAL parallel_leader_participation = off;
EXPLAIN (COSTS OFF) SELECT dc_topk_agg(item, 10) FROM stream;
SELECT is_right(dc_topk_agg(item, 10)), is_right(dc_topk_agg(item, 10, weight), true), is_right(dc_topk_agg(item::name, 10)) FROM stream;
SAVEPOINT a;
SELECT dc_topk_agg(item, part + 5) FROM stream;
ROLLBACK TO a;
SELECT dc_topk_agg(NULL::text, 10), dc_topk_agg(item, 10) FILTER (WHERE part > 100) FROM stream;
-- the total of all workers may be too large
SELECT dc_topk_agg(item, 10, 200000000000000) FROM stream;
ROLLBACK;
BEGIN;
CREATE TABLE parts AS SELECT part, dc_topk_agg(item, 10, 1, 100 + part) AS t FROM stream GROUP BY part;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS OFF) SELECT dc_topk_union_agg(t) FROM parts;
SELECT is_right(dc_topk_union_agg(t)), (dc_topk_info(dc_topk_union_agg(t))).counters FROM parts;
ROLLBACK;

-- As window aggregates; two of one state; groups, filters, distinct items
SELECT i, string_agg(item || ':' || estimate, ' ' ORDER BY rank) FROM
	(SELECT id AS i, dc_topk_agg(w, 2, 1, 4) OVER (ORDER BY id) AS t FROM words) s, dc_topk_list(t, 4) GROUP BY i ORDER BY i;
SELECT i, string_agg(item || ':' || estimate, ' ' ORDER BY rank) FROM
	(SELECT id AS i, dc_topk_agg(w, 2) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS t FROM words) s, dc_topk_list(t, 4) GROUP BY i ORDER BY i;
SELECT count(DISTINCT t::text) FROM (SELECT dc_topk_union_agg(dc_topk_add(dc_topk(2, 3), w)) OVER (ORDER BY id) AS t FROM words) s;
SELECT dc_topk_agg(w, 2)::text = dc_topk_agg(w, 2)::text, dc_topk_agg(w, 2) FILTER (WHERE id > 4)::text = dc_topk_agg(w, 2)::text, dc_topk_info(dc_topk_agg(DISTINCT w, 2)) FROM words;
CREATE AGGREGATE pg_temp.topk_bytes(item text, k int) (SFUNC = dcounter.topk_trans, STYPE = internal, FINALFUNC = dcounter.topk_serialize);
SELECT pg_temp.topk_bytes(w, 2) = dc_topk_agg(w, 2)::bytea, dc_topk_agg(w, 2)::text = :'words' FROM words;
SELECT bool_and(a = b), count(DISTINCT a) FROM (SELECT pg_temp.topk_bytes(w, 2) OVER win AS a, (dc_topk_agg(w, 2) OVER win)::bytea AS b FROM words WINDOW win AS (ORDER BY id)) s;
SELECT a, b, item, estimate FROM (SELECT id % 2 AS a, id % 3 AS b, dc_topk_agg(w, 1) AS t FROM words GROUP BY GROUPING SETS ((id % 2), (id % 3), ())) s, dc_topk_list(t) ORDER BY 1, 2;
SELECT count(*), sum(items) FROM (SELECT (dc_topk_info(dc_topk_agg(item, 3))).items FROM stream GROUP BY hashtext(item), part) s;

-- What the errors are
\set VERBOSITY sqlstate
SELECT dc_topk(0);
SELECT dc_topk(NULL::int);
SELECT dc_topk(5, 4);
SELECT dc_topk_agg(w, id) FROM words;
SELECT dc_topk_add(dc_topk(1), 'a', -1);
SELECT dc_topk_add(:'large', 'b', 2);
SELECT dc_topk_list(dc_topk(1), -1);
SELECT dc_topk_heavy(dc_topk(1), 2);
SELECT dc_topk_heavy(:'small', 0.1);
SELECT ''::bytea::dc_topk;
SELECT '\x'::dc_topk;
\copy copied FROM 'results/topk.copy' (FORMAT binary)
\set VERBOSITY terse

-- Anyone may use them
CREATE ROLE regress_dc_topk;
SET ROLE regress_dc_topk;
SELECT dc_topk_info(dc_topk_union_agg(t)) FROM (SELECT dc_topk_agg(i, 2) AS t FROM generate_series(1, 5) i) s;
RESET ROLE;
DROP ROLE regress_dc_topk;

-- A stored value that its disk damaged is refused
CREATE FUNCTION damaged(bytea) RETURNS dc_topk LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE FUNCTION outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RETURN 'read';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
CREATE VIEW torn AS SELECT n, damaged(bytes) AS t FROM (VALUES (1, ''::bytea), (2, '\x0200024001010000000131'), (3, '\x0100024002020000000131'), (4, '\x010002400101000000f031')) v(n, bytes);
SELECT n, string_agg(outcome(format('SELECT %s FROM torn WHERE n = %s', call, n)), ' ' ORDER BY call)
	FROM generate_series(1, 4) n, unnest('{"dc_topk_add(t, 2)",t||t,dc_topk_union_agg(t),dc_topk_list(t),"dc_topk_heavy(t, 0.5)","dc_topk_estimate(t, 2)","dc_topk_bounds(t, 2)"}'::text[]) call GROUP BY n ORDER BY n;
SELECT outcome(format('SELECT dc_topk_info(t) FROM torn WHERE n = %s', n)) FROM generate_series(1, 2) n;
DROP VIEW torn;

DROP FUNCTION refusal, is_right, damaged, outcome;
DROP TABLE words, kept, stream;
DROP TYPE color, short;
