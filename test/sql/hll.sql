-- dc_hll: counts of distinct items.
SET extra_float_digits = 0;
\set SHOW_CONTEXT never

-- An empty sketch, and one item: the bytes are the format's
SELECT dc_hll(), dc_hll(10), # dc_hll() AS count;
SELECT dc_hll_add(dc_hll(), 'a'), # dc_hll_add(dc_hll(), 'a') AS count;
SELECT dc_hll_add(dc_hll(), 'a')::text::dc_hll = dc_hll_add(dc_hll(), 'a') AS text_round_trip,
	dc_hll_add(dc_hll(), 'a')::bytea::dc_hll = dc_hll_add(dc_hll(), 'a') AS bytea_round_trip;

-- Input is checked: syntax, header, contents, and that there is one encoding only
\set VERBOSITY sqlstate
SELECT ''::dc_hll;
SELECT 'hello'::dc_hll;
SELECT '\x0'::dc_hll;
SELECT '\xzz'::dc_hll;
\set VERBOSITY terse
SELECT '\x'::dc_hll;
SELECT '\x200e0100'::dc_hll;
SELECT '\x130e0100'::dc_hll;
SELECT '\x10090100'::dc_hll;
SELECT '\x10130100'::dc_hll;
SELECT '\x102e0100'::dc_hll;
SELECT '\x100e0300'::dc_hll;
SELECT '\x100e1100'::dc_hll;
SELECT '\x100e01'::dc_hll;
SELECT '\x100e0181'::dc_hll;
SELECT '\x100e018000'::dc_hll;
SELECT '\x100e01ff7f'::dc_hll;
SELECT '\x100e0100'::dc_hll = dc_hll() AS right;
SELECT '\x100e010000'::dc_hll;
SELECT '\x100e01014f63'::dc_hll;
SELECT '\x100e01014f638700'::dc_hll;
SELECT '\x100e01014f63c7'::dc_hll;
SELECT '\x110e0100'::dc_hll;
SELECT '\x110e0105'::dc_hll;
SELECT '\x120e010000000000000000000000'::dc_hll;
SELECT '\x120e010900000000000000000000'::dc_hll;
SELECT '\x120e0100ff0000000000000000'::dc_hll;
SELECT '\x100e0200'::bytea::dc_hll, '\x100e0400'::bytea::dc_hll;
\set VERBOSITY default
SELECT '\x100e'::dc_hll;

-- The forms' bytes may never change: what they were when they were made
SELECT p, n, (dc_hll_info(h)).form, length(h::bytea) AS bytes, md5(h::text) FROM (VALUES (10, 100), (10, 200), (10, 5000), (12, 1000), (12, 20000), (14, 1000), (14, 3000), (14, 50000), (18, 50000)) v(p, n),
	LATERAL (SELECT dc_hll_agg(i, p) AS h FROM generate_series(1, n) i) q;

-- Precision: 10 to 18
SELECT dc_hll(9);
SELECT dc_hll(19);
SELECT dc_hll(NULL) IS NULL AS null;
SELECT dc_hll_agg(i, 5) FROM generate_series(1, 3) i;
SELECT dc_hll_agg(i, i + 10) FROM generate_series(1, 3) i;
SELECT dc_hll_agg(i, NULL) FROM generate_series(1, 3) i;

-- The type's modifier: what is too much is dropped, what is missing is an error
CREATE TABLE hll_typmod (h dc_hll(12));
SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'hll_typmod'::regclass AND attname = 'h';
INSERT INTO hll_typmod SELECT dc_hll_agg(i) FROM generate_series(1, 10000) i;
INSERT INTO hll_typmod VALUES (dc_hll(12)), ('\x100e0100'), (NULL);
INSERT INTO hll_typmod VALUES (dc_hll(11));
INSERT INTO hll_typmod VALUES ('\x100b0100');
SELECT (dc_hll_info(h))."precision", h = (SELECT dc_hll_agg(i, 12) FROM generate_series(1, 10000) i) AS as_built
FROM hll_typmod WHERE h IS NOT NULL ORDER BY 2 DESC;
SELECT 1 FROM (SELECT NULL::dc_hll(9)) q;
SELECT NULL::dc_hll(12, 13);
SELECT # (SELECT dc_hll_agg(i) FROM generate_series(1, 500) i)::dc_hll(10);
SELECT dcounter.hll_enforce(dc_hll(), 0, true);
SELECT dcounter.hll_in('\x100e0100', 0, 9);
SELECT array_send(ARRAY[dc_hll(), dc_hll(10)]) = array_send(ARRAY['\x100e0100', '\x100a0100']::dc_hll[]) AS sent;

-- Adding; NULLs
SELECT # dc_hll_add(dc_hll_add(dc_hll_add(dc_hll(), 'a'), 'b'), 'a') AS two;
SELECT dc_hll_add(NULL, 'a') IS NULL AS null, # dc_hll_add(dc_hll(), NULL::text) AS none, # dc_hll_add(dc_hll(), NULL::int) AS none;
SELECT dc_hll_would_change(dc_hll(), 'a') AS yes, dc_hll_would_change(dc_hll_add(dc_hll(), 'a'), 'a') AS no,
	dc_hll_would_change(dc_hll(), NULL::text) AS no, dc_hll_would_change(NULL, 'a') AS null;
SELECT # dc_hll_add_many(dc_hll(), ARRAY['a', NULL, 'b', 'a']) AS two, # dc_hll_add_many(dc_hll(), '{}'::int[]) AS none,
	# dc_hll_add_many(dc_hll(), ARRAY[[1, 2], [3, NULL]]) AS three, dc_hll_add_many(dc_hll(), NULL::int[]) IS NULL AS null;
SELECT dc_hll_add_many(dc_hll(), array_agg(i)) = dc_hll_agg(i) AS same FROM generate_series(1, 30000) i;

-- An add that changes nothing writes nothing
CREATE TABLE hll_row (id int PRIMARY KEY, h dc_hll);
INSERT INTO hll_row SELECT 1, dc_hll_agg(i) FROM generate_series(1, 30000) i;
UPDATE hll_row SET h = dc_hll_add(h, 77) WHERE dc_hll_would_change(h, 77) RETURNING id;
SELECT pg_relation_size(reltoastrelid) AS toasted FROM pg_class WHERE oid = 'hll_row'::regclass \gset
UPDATE hll_row SET h = dc_hll_add(h, 77);
SELECT pg_relation_size(reltoastrelid) = :toasted AS same FROM pg_class WHERE oid = 'hll_row'::regclass;
UPDATE hll_row SET h = dc_hll_add(h, i) FROM (SELECT i FROM hll_row, generate_series(30001, 40000) i WHERE dc_hll_would_change(h, i) LIMIT 1) q RETURNING id;

-- In PL/pgSQL a variable keeps its state, and values keep what they were
DO $$
DECLARE
	h dc_hll := dc_hll();
	old dc_hll;
	other dc_hll;
	counts bigint[];
BEGIN
	FOR i IN 1..6000 LOOP
		IF i IN (10, 1000, 2040, 5000) THEN
			old := h;
			other := dc_hll_add(h, 'x');
			counts := counts || ARRAY[# h, # other, # dc_hll_add(dc_hll_add(h, 'y'), 'z')];
		END IF;
		h := dc_hll_add(h, i);
		h := dc_hll_add(h, i);
		IF i IN (10, 1000, 2040) THEN
			RAISE NOTICE '%: old %, other %, now %', i, # old, # other, # h;
		END IF;
	END LOOP;
	RAISE NOTICE '% % %', counts, # old, h = (SELECT dc_hll_agg(i) FROM generate_series(1, 6000) i);
	BEGIN
		h := dc_hll_add(h, 'inner');
		RAISE EXCEPTION 'thrown';
	EXCEPTION WHEN raise_exception THEN
		RAISE NOTICE 'kept: %', NOT dc_hll_would_change(h, 'inner');
	END;
	-- In one expression, both before and after
	other := dc_hll(12);
	SELECT array_agg(c) INTO counts FROM (VALUES (# dc_hll_add(other, 1)), (# other), (# (dc_hll_add(other, 1) || dc_hll_add(other, 2)))) v(c);
	RAISE NOTICE '%', counts;
END $$;
DO $$
DECLARE
	h dc_hll := dc_hll();
	snapshots dc_hll[];
BEGIN
	FOR i IN 1..3000 LOOP
		h := dc_hll_add(h, i);
		IF i % 600 = 0 THEN
			snapshots := snapshots || h;
		END IF;
	END LOOP;
	FOR i IN 1..5 LOOP
		RAISE NOTICE '%', snapshots[i] = (SELECT dc_hll_agg(j) FROM generate_series(1, 600 * i) j);
	END LOOP;
END $$;
CREATE FUNCTION hll_both(h dc_hll, item int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	mine dc_hll := h;
BEGIN
	mine := dc_hll_add(mine, item);
	RETURN # h || ' ' || # mine;
END $$;
SELECT hll_both(dc_hll_agg(i), 5001) FROM generate_series(1, 1000) i;
SELECT hll_both(dc_hll_add(dc_hll_add(dc_hll(), 1), 2), 3);
CREATE AGGREGATE hll_own(item int) (SFUNC = dc_hll_add, STYPE = dc_hll, INITCOND = '\x100e0100');
SELECT hll_own(i) = dc_hll_agg(i) AS same FROM generate_series(1, 5000) i;
SELECT count(*) FROM (SELECT hll_own(i) OVER (ORDER BY i) AS h, dc_hll_agg(i) OVER (ORDER BY i) AS a FROM generate_series(1, 300) i) q WHERE h <> a;

-- Items are their canonical text
CREATE TYPE hll_mood AS ENUM ('happy', 'sad');
CREATE TYPE hll_pair AS (a numeric, b text);
CREATE DOMAIN hll_positive AS int CHECK (VALUE > 0);
CREATE FUNCTION hll_same(VARIADIC dc_hll[]) RETURNS boolean LANGUAGE sql AS 'SELECT count(DISTINCT h) = 1 FROM unnest($1) h';
SELECT hll_same(dc_hll_add(dc_hll(), 42::smallint), dc_hll_add(dc_hll(), 42), dc_hll_add(dc_hll(), 42::bigint), dc_hll_add(dc_hll(), '42'),
	dc_hll_add(dc_hll(), 42.00), dc_hll_add(dc_hll(), 42::real), dc_hll_add(dc_hll(), 42::float8), dc_hll_add(dc_hll(), '42'::bytea),
	dc_hll_add(dc_hll(), '42'::char(5)), dc_hll_add(dc_hll(), '42'::varchar), dc_hll_add(dc_hll(), '42'::name), dc_hll_add(dc_hll(), 42::hll_positive)) AS one_item;
SELECT hll_same(dc_hll_add(dc_hll(), 1.0), dc_hll_add(dc_hll(), 1.00), dc_hll_add(dc_hll(), 1)) AS numeric,
	hll_same(dc_hll_add(dc_hll(), '-0'::float8), dc_hll_add(dc_hll(), 0::float4), dc_hll_add(dc_hll(), 0)) AS zero,
	hll_same(dc_hll_add(dc_hll(), 'NaN'::float8), dc_hll_add(dc_hll(), 'NaN'::numeric), dc_hll_add(dc_hll(), 'NaN')) AS nan,
	hll_same(dc_hll_add(dc_hll(), true), dc_hll_add(dc_hll(), 'true')) AS bool,
	hll_same(dc_hll_add(dc_hll(), 'happy'::hll_mood), dc_hll_add(dc_hll(), 'happy')) AS enum,
	hll_same(dc_hll_add(dc_hll(), 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid), dc_hll_add(dc_hll(), 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')) AS uuid,
	hll_same(dc_hll_add(dc_hll(), (-9223372036854775808)::bigint), dc_hll_add(dc_hll(), '-9223372036854775808')) AS lowest;
SELECT i, dc_hll_add(dc_hll(), i) = dc_hll_add(dc_hll(), i::text) AS same
FROM unnest('{0,9,-9,12345678,99999999,100000000,9999999999999999,10000000000000000,9223372036854775807}'::bigint[]) i;
SET timezone = 'UTC';
CREATE TEMP TABLE hll_times AS SELECT dc_hll_add(dc_hll(), '2024-02-03 04:05:06.7+00'::timestamptz) h;
SET timezone = 'Asia/Tokyo';
SET datestyle = 'SQL, DMY';
SELECT h = dc_hll_add(dc_hll(), '2024-02-03T04:05:06.7+00:00'::timestamptz) AS zone, h = dc_hll_add(dc_hll(), '2024-02-03T04:05:06.7+00:00') AS text FROM hll_times;
SELECT hll_same(dc_hll_add(dc_hll(), '2024-02-03'::date), dc_hll_add(dc_hll(), '2024-02-03')) AS date,
	hll_same(dc_hll_add(dc_hll(), '04:05:06'::time), dc_hll_add(dc_hll(), '04:05:06')) AS time,
	hll_same(dc_hll_add(dc_hll(), 'infinity'::timestamp), dc_hll_add(dc_hll(), 'infinity')) AS infinity;
RESET timezone;
RESET datestyle;
-- Other types by their own equality
SELECT hll_same(dc_hll_add(dc_hll(), '1 day'::interval), dc_hll_add(dc_hll(), '24 hours'::interval)) AS interval,
	hll_same(dc_hll_add(dc_hll(), ARRAY[1.0, 2]), dc_hll_add(dc_hll(), ARRAY[1.00, 2.0])) AS array,
	hll_same(dc_hll_add(dc_hll(), '{"a": 1.0}'::jsonb), dc_hll_add(dc_hll(), '{"a": 1.00}'::jsonb)) AS jsonb,
	hll_same(dc_hll_add(dc_hll(), ROW(1, 'a')::hll_pair), dc_hll_add(dc_hll(), ROW(1.0, 'a')::hll_pair)) AS row,
	hll_same(dc_hll_add(dc_hll(), '1 day'::interval), dc_hll_add(dc_hll(), '2 days'::interval)) AS different;
SELECT dc_hll_add(dc_hll(), '{}'::json);
SELECT dc_hll_add(dc_hll(), point(1, 2));
-- A value out of line or compressed is the item that it is in line
CREATE TABLE hll_long (a text, b text);
ALTER TABLE hll_long ALTER a SET STORAGE external;
INSERT INTO hll_long VALUES (repeat('long', 10000), repeat('long', 10000));
SELECT hll_same(dc_hll_add(dc_hll(), a), dc_hll_add(dc_hll(), b), dc_hll_add(dc_hll(), repeat('long', 10000)), dc_hll_add(dc_hll(), a::bytea)) AS same FROM hll_long;
SELECT # dc_hll_agg(i % 5000), dc_count_distinct(i % 700), dc_count_distinct((i % 700)::text), dc_count_distinct(i % 700, 10) = dc_count_distinct((i % 700)::text, 10) AS same
FROM generate_series(1, 10000) i;

-- Aggregates: no rows, only NULLs, FILTER, DISTINCT, ORDER BY, GROUPING SETS
SELECT dc_hll_agg(i) IS NULL AS null, dc_count_distinct(i) AS none FROM generate_series(1, 0) i;
SELECT # dc_hll_agg(NULL::int) AS none, dc_count_distinct(NULL::text) AS none, # dc_hll_agg(NULL::text, 12) AS none;
SELECT dc_hll_union_agg(h) IS NULL AS null FROM (VALUES (NULL::dc_hll)) v(h);
SELECT dc_count_distinct(i) FILTER (WHERE i % 2 = 0) AS half, dc_count_distinct(DISTINCT i % 10) AS ten,
	dc_hll_agg(i ORDER BY i DESC) = dc_hll_agg(i ORDER BY i) AS any_order FROM generate_series(1, 1000) i;
SELECT a, b, dc_count_distinct(i), count(DISTINCT i) FROM (SELECT i % 2 AS a, i % 3 AS b, i % 50 AS i FROM generate_series(1, 1000) i) q
GROUP BY GROUPING SETS ((a, b), (a), (b), ()) ORDER BY a, b;
-- Two aggregates with one state; window frames that grow and that move
SELECT # dc_hll_agg(i), dc_count_distinct(i) FROM generate_series(1, 100) i;
SELECT count(*) AS wrong FROM (
	SELECT dc_count_distinct(i % 40) OVER w AS c, dc_hll_agg(i % 40) OVER w AS h, count(*) OVER w AS n FROM generate_series(1, 200) i
	WINDOW w AS (ORDER BY i)) q
WHERE c <> least(n, 40) OR # h <> least(n, 40);
SELECT count(*) AS wrong FROM (
	SELECT dc_count_distinct(i) OVER (ORDER BY i ROWS BETWEEN 5 PRECEDING AND 5 FOLLOWING) AS c,
		count(*) OVER (ORDER BY i ROWS BETWEEN 5 PRECEDING AND 5 FOLLOWING) AS n FROM generate_series(1, 100) i) q
WHERE c <> n;

-- Any split, order, grouping and plan: the same bytes
CREATE TABLE hll_items AS SELECT i, i % 97 AS g, md5(i::text) AS t FROM generate_series(1, 60000) i;
ANALYZE hll_items;
CREATE TEMP TABLE hll_whole AS SELECT dc_hll_agg(t) AS h, dc_hll_agg(i) AS hi FROM hll_items;
SELECT dc_hll_union_agg(part) = h AS by_parts FROM (SELECT dc_hll_agg(t) AS part FROM hll_items GROUP BY g) q, hll_whole GROUP BY h;
SELECT dc_hll_union_agg(part ORDER BY md5(g::text)) = h AS by_parts FROM (SELECT g, dc_hll_agg(t) AS part FROM hll_items GROUP BY g) q, hll_whole GROUP BY h;
SELECT n, dc_hll_agg(i) = dc_hll_union_agg(p) AS same FROM unnest('{15,31,100,1500,2048,2049,5000}'::int[]) n,
	LATERAL (SELECT i, dc_hll_add(dc_hll(), i) AS p FROM generate_series(1, n) i) q GROUP BY n ORDER BY n;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET enable_indexonlyscan = off;
EXPLAIN (COSTS OFF) SELECT dc_hll_agg(t) FROM hll_items;
SELECT dc_hll_agg(t)::text = min(h::text) AS text, dc_hll_agg(i)::text = min(hi::text) AS int FROM hll_items, hll_whole;
SELECT dc_hll_agg(t) = (SELECT h FROM hll_whole) AS text, dc_count_distinct(i) = (SELECT # hi FROM hll_whole) AS int FROM hll_items;
SELECT dc_hll_union_agg(p) = (SELECT h FROM hll_whole) AS same FROM (SELECT dc_hll_agg(t) AS p FROM hll_items GROUP BY g) q;
SELECT dc_hll_agg(i, 10 + (i % 2)) FROM hll_items;
SELECT dc_count_distinct(i) FILTER (WHERE i < 0) AS none, dc_count_distinct(i) FILTER (WHERE i <= 12) AS twelve FROM hll_items;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;
RESET enable_indexonlyscan;

-- Unions: of sets, of mixed precisions, of mixed hashes
CREATE TEMP TABLE hll_sets AS
SELECT p, dc_hll_agg(i, p) FILTER (WHERE i <= 700) AS a, dc_hll_agg(i, p) FILTER (WHERE i BETWEEN 500 AND 1200) AS b,
	dc_hll_agg(i, p) FILTER (WHERE i BETWEEN 500 AND 90000) AS c, dc_hll_agg(i, p) FILTER (WHERE i > 80000) AS d
FROM unnest('{10,12,14,18}'::int[]) p, generate_series(1, 100000) i GROUP BY p;
SELECT p, # (a || b) AS ab, a || b = b || a AS commutes, a || a = a AS idempotent, (a || b) || c = a || (b || c) AS associates,
	c || d = d || c AS commutes, c || c = c AS idempotent, a || dc_hll(p) = a AS neutral, dc_hll(p) || c = c AS neutral FROM hll_sets ORDER BY p;
SELECT x.p, y.p, (dc_hll_info(x.a || y.b))."precision" AS lower, x.a || y.b = z.a || z.b AS few, x.a || y.c = z.a || z.c AS mixed,
	x.c || y.b = z.c || z.b AS mixed, x.c || y.d = z.c || z.d AS many
FROM hll_sets x, hll_sets y, hll_sets z WHERE x.p <> y.p AND z.p = least(x.p, y.p) ORDER BY 1, 2;
SELECT x.p, y.p, dc_hll_reduce(x.a, y.p) = y.a AS few, dc_hll_reduce(x.c, y.p) = y.c AS many FROM hll_sets x, hll_sets y WHERE x.p > y.p ORDER BY 1, 2;
SELECT dc_hll_reduce(a, 18) = a AS same FROM hll_sets WHERE p = 14;
SELECT dc_hll_reduce(a, 9) FROM hll_sets WHERE p = 14;
SELECT dc_hll() || '\x100e0200';
SELECT dc_hll_union_agg(h) FROM (VALUES (dc_hll()), ('\x100e0200')) v(h);
SELECT dc_hll_jaccard(dc_hll(), '\x100e0200');
SELECT dc_hll_union(NULL, dc_hll()) IS NULL AS null;

-- Order, equality, GROUP BY, DISTINCT, joins, indexes
CREATE TABLE hll_keys AS SELECT i, dc_hll_add(dc_hll(), i % 10) AS h FROM generate_series(1, 100) i;
SELECT count(*) FROM (SELECT h FROM hll_keys GROUP BY h) q;
SELECT count(DISTINCT h) FROM hll_keys;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT count(*) FROM hll_keys a JOIN hll_keys b USING (h);
SET enable_mergejoin = off;
SET enable_hashjoin = on;
SELECT count(*) FROM hll_keys a JOIN hll_keys b USING (h);
RESET enable_mergejoin;
RESET enable_nestloop;
CREATE INDEX ON hll_keys (h);
CREATE INDEX ON hll_keys USING hash (h);
SET enable_seqscan = off;
SELECT count(*) FROM hll_keys WHERE h = dc_hll_add(dc_hll(), 3);
RESET enable_seqscan;
SELECT a = b AS eq, a <> b AS ne, a < b AS lt, a <= b AS le, a > b AS gt, a >= b AS ge FROM (VALUES (dc_hll(12), dc_hll(13)), (dc_hll(13), dc_hll(12)), (dc_hll(12), dc_hll(12))) v(a, b);
CREATE TABLE hll_parted (h dc_hll) PARTITION BY HASH (h);
CREATE TABLE hll_parted_0 PARTITION OF hll_parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE hll_parted_1 PARTITION OF hll_parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO hll_parted SELECT h FROM hll_keys;
SELECT count(*), count(DISTINCT h) FROM hll_parted;

-- Estimates and bounds
SELECT n, # h AS count, abs(dc_hll_estimate(h) / n - 1) < 0.025 AS near, lower <= n AND n <= upper AND lower <= estimate AND estimate <= upper AS within
FROM unnest('{1,10,100,1000,2048,3000,10000,40960,100000}'::int[]) n, LATERAL (SELECT dc_hll_agg(i) AS h FROM generate_series(1, n) i) q, LATERAL dc_hll_bounds(h, 0.99);
SELECT * FROM dc_hll_bounds(dc_hll());
SELECT dc_hll_bounds(dc_hll(), 1);
SELECT dc_hll_bounds(dc_hll(), 'NaN');
CREATE FUNCTION hll_show(name text, truth float8, lower float8, estimate float8, upper float8, OUT sets text, OUT truth float8, OUT estimate float8, OUT within boolean)
	LANGUAGE sql AS 'SELECT name, truth, round(estimate), lower <= truth AND truth <= upper AND lower <= estimate AND estimate <= upper';
SELECT s.* FROM hll_sets, dc_hll_intersect(a, b) r, hll_show('a and b', 201, r.lower, r.estimate, r.upper) s WHERE p = 14;
SELECT s.* FROM hll_sets, dc_hll_difference(a, b) r, hll_show('a not b', 499, r.lower, r.estimate, r.upper) s WHERE p = 14;
SELECT s.* FROM hll_sets, dc_hll_intersect(a, c, 0.99) r, hll_show('a and c', 201, r.lower, r.estimate, r.upper) s WHERE p = 14;
SELECT s.* FROM hll_sets, dc_hll_intersect(c, d, 0.99) r, hll_show('c and d', 10001, r.lower, r.estimate, r.upper) s WHERE p = 14;
SELECT s.* FROM hll_sets, dc_hll_difference(c, d, 0.99) r, hll_show('c not d', 79500, r.lower, r.estimate, r.upper) s WHERE p = 14;
SELECT s.* FROM hll_sets, dc_hll_intersect(a, d) r, hll_show('a and d', 0, r.lower, r.estimate, r.upper) s WHERE p = 14;
SELECT s.* FROM hll_sets, dc_hll_intersect(c, c, 0.99) r, hll_show('c and c', 89501, r.lower, r.estimate, r.upper) s WHERE p = 14;
SELECT s.* FROM hll_sets, dc_hll_difference(c, c) r, hll_show('c not c', 0, r.lower, r.estimate, r.upper) s WHERE p = 14;
SELECT s.* FROM hll_sets, dc_hll_difference(b, c) r, hll_show('b not c', 0, r.lower, r.estimate, r.upper) s WHERE p = 14;
SELECT s.* FROM hll_sets, dc_hll_intersect(b, c, 0.99) r, hll_show('b and c', 701, r.lower, r.estimate, r.upper) s WHERE p = 14;
SELECT s.* FROM hll_sets, dc_hll_intersect(dc_hll(), c) r, hll_show('none and c', 0, r.lower, r.estimate, r.upper) s WHERE p = 14;
SELECT s.* FROM hll_sets, dc_hll_difference(c, dc_hll(), 0.99) r, hll_show('c not none', 89501, r.lower, r.estimate, r.upper) s WHERE p = 14;
SELECT * FROM dc_hll_intersect(dc_hll(), dc_hll());
SELECT round(dc_hll_jaccard(a, b)::numeric, 3) AS few, round(dc_hll_jaccard(c, d)::numeric, 2) AS many, dc_hll_jaccard(a, a) AS same, dc_hll_jaccard(dc_hll(), dc_hll()) AS empty,
	dc_hll_jaccard(a, dc_hll()) AS none FROM hll_sets WHERE p = 14;
-- Registers that are full, as no number of items fills them
SELECT dc_hll_estimate(h), dc_hll_jaccard(h, dc_hll()) FROM dc_hll_from_redis('\x48594c4c000000000000000000000080'::bytea || decode(repeat('f33ccf', 4096), 'hex')) h;
SELECT (i).precision, (i).hash, (i).form, (i).registers, (i).tokens, (i).relative_error, (i).bytes = 4 + length(h::bytea) AS bytes
FROM (SELECT dc_hll_info(h) AS i, h FROM (VALUES (dc_hll(10)), ((SELECT a FROM hll_sets WHERE p = 12)), ((SELECT dc_hll_agg(i) FROM generate_series(1, 2050) i)), ((SELECT d FROM hll_sets WHERE p = 12)), ('\x100e0200')) v(h)) q;

-- Sizes, with the header that the server adds
SELECT p, n, pg_column_size(dc_hll_agg(i, p)) <= bytes AS small
FROM (VALUES (14, 10, 40), (14, 100, 260), (14, 1000, 2000), (14, 2048, 6100), (14, 10000, 6100), (14, 40000, 6100), (14, 100000, 6100), (14, 300000, 6100), (12, 512, 1550), (12, 10000, 1550), (12, 25000, 1550), (12, 100000, 1550)) v(p, n, bytes),
	LATERAL generate_series(1, n) i GROUP BY p, n, bytes ORDER BY p, n;

-- Redis: what a real server has for these strings
CREATE FUNCTION hll_hyll(payload text, encoding text DEFAULT '01') RETURNS bytea LANGUAGE sql
	AS $$ SELECT decode('48594c4c' || encoding || '000000' || '0000000000000080' || payload, 'hex') $$;
SELECT # dc_hll_from_redis(hll_hyll('7fff')) AS none, # dc_hll_from_redis(hll_hyll('60f38050b1844bfb80425a')) AS three,
	dc_hll_from_redis(hll_hyll('60f38050b1844bfb80425a')) = dc_hll_from_redis(dc_hll_to_redis(dc_hll_add_many(dc_hll(), '{a,b,c}'::text[]))) AS same;
SELECT items, encode(dc_hll_to_redis(dc_hll_add_many(dc_hll(), items)), 'hex') FROM (VALUES ('{}'::text[]), ('{a}'), ('{a,b,c}'), ('{python,java,golang}')) v(items);
SELECT n, length(dc_hll_to_redis(h)) AS bytes, dc_hll_from_redis(dc_hll_to_redis(h)) = dc_hll_from_redis(dc_hll_to_redis(dc_hll_from_redis(dc_hll_to_redis(h)))) AS same,
	dc_hll_from_redis(dc_hll_to_redis(h)) = h AS same_if_dense, substr(dc_hll_to_redis(h), 5, 1) AS encoding
FROM unnest('{1,1000,1900,30000}'::int[]) n, LATERAL (SELECT dc_hll_agg(i) AS h FROM generate_series(1, n) i) q;
SELECT # (dc_hll_from_redis(dc_hll_to_redis(a)) || c) = # (a || c) AS merges FROM hll_sets WHERE p = 14;
SELECT dc_hll_to_redis(dc_hll(18)) = dc_hll_to_redis(dc_hll()) AS reduced;
SELECT dc_hll_to_redis(dc_hll(12));
SELECT dc_hll_to_redis('\x100e0200');
-- Hostile input: too long by a run, by very many runs, too short, cut off, over the highest rank
\set VERBOSITY terse
SELECT dc_hll_from_redis('');
SELECT dc_hll_from_redis('HYLX');
SELECT dc_hll_from_redis(hll_hyll('7fff', '02'));
SELECT dc_hll_from_redis(hll_hyll('', '01'));
SELECT dc_hll_from_redis(hll_hyll('7fff00'));
SELECT dc_hll_from_redis(hll_hyll('7ffe'));
SELECT dc_hll_from_redis(hll_hyll('7f'));
SELECT dc_hll_from_redis(hll_hyll(repeat('7fff', 131073) || 'ff'));
SELECT dc_hll_from_redis(hll_hyll(repeat('7fff', 262144) || 'ff'));
SELECT dc_hll_from_redis(hll_hyll('00', '00'));
SELECT dc_hll_from_redis(hll_hyll(repeat('ff', 12288), '00'));
SELECT dc_hll_from_redis(hll_hyll(repeat('00', 12289), '00'));
\set VERBOSITY default
SELECT # dc_hll_from_redis(hll_hyll(repeat('00', 12288), '00')) AS none;
SELECT dc_hll_count(dc_hll_from_redis(hll_hyll(repeat('f33ccf', 4096), '00')));

-- postgresql-hll: values of its own, of each type, and with its hash functions
SELECT # dc_hll_from_postgresql_hll('\x118b7f') AS none, # dc_hll_from_postgresql_hll('\x108b7f') AS undefined;
-- hll_add_agg(hll_hash_integer(i)) over 1 to 3
SELECT h, # h AS three, dc_hll_would_change(h, 1) AS no, dc_hll_would_change(h, 4) AS yes, dc_hll_would_change(h, 1::bigint) AS other_width
FROM dc_hll_from_postgresql_hll('\x128b7f8895a3f5af28cafeda0ce907e4355b604848de7f7bd2a13b') h;
-- hll_add_agg(hll_hash_text(i::text), 11, 5, 0, 1) over 1 to 5: sparse
SELECT h, # h AS five, h = dc_hll_from_postgresql_hll(dc_hll_to_postgresql_hll(h)) AS same, dc_hll_would_change(h, '5') AS no, dc_hll_would_change(h, '6') AS yes
FROM dc_hll_from_postgresql_hll('\x138b4014a12821330341c58e21') h;
-- the same, full
SELECT # dc_hll_from_postgresql_hll(('\x148a00' || repeat('0', 1278) || '10')::bytea) AS one;
\set VERBOSITY terse
SELECT dc_hll_from_postgresql_hll('\x12');
SELECT dc_hll_from_postgresql_hll('\x228b7f');
SELECT dc_hll_from_postgresql_hll('\x158b7f');
SELECT dc_hll_from_postgresql_hll('\x118bff');
SELECT dc_hll_from_postgresql_hll('\x11897f');
SELECT dc_hll_from_postgresql_hll('\x11927f');
SELECT dc_hll_from_postgresql_hll('\x118b7f00');
SELECT dc_hll_from_postgresql_hll('\x128b7f8895a3f5af28ca');
SELECT dc_hll_from_postgresql_hll('\x128b7f00000000000000020000000000000001');
SELECT dc_hll_from_postgresql_hll('\x138b7fffff');
SELECT dc_hll_from_postgresql_hll('\x138b7f00410041');
SELECT dc_hll_from_postgresql_hll('\x148b7f00');
SELECT dc_hll_add(dc_hll_from_postgresql_hll('\x118b7f'), 1.5);
SELECT dc_hll_to_postgresql_hll(dc_hll(18));
\set VERBOSITY default
SELECT encode(dc_hll_to_postgresql_hll(dc_hll(11)), 'hex') AS empty, encode(dc_hll_to_postgresql_hll(dc_hll_add(dc_hll(11), 'a')), 'hex') AS one;
SELECT p, # x.a = # (dc_hll_from_postgresql_hll(dc_hll_to_postgresql_hll(x.c || x.a)) || dc_hll_from_postgresql_hll(dc_hll_to_postgresql_hll(x.c))) AS no,
	# (x.c || x.a) = # (dc_hll_from_postgresql_hll(dc_hll_to_postgresql_hll(x.c || x.a)) || dc_hll_from_postgresql_hll(dc_hll_to_postgresql_hll(x.c))) AS yes
FROM hll_sets x WHERE p < 18 ORDER BY p;

-- A stored value that its disk damaged is refused
CREATE FUNCTION hll_damaged(bytea) RETURNS dc_hll LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
\set VERBOSITY terse
SELECT # hll_damaged('\x10');
SELECT # hll_damaged('\x10ff0100');
SELECT # hll_damaged('\x120e0100');
SELECT dc_hll_add(hll_damaged('\x100e0164'), 1);
SELECT dc_hll_would_change(hll_damaged('\x10000100'), 1);
SELECT dc_hll_union_agg(hll_damaged(h)) FROM (VALUES ('\x100e0100'::bytea), ('\x110e01ff')) v(h);
SELECT hll_damaged('\x10300100')::dc_hll(12);
SELECT # substr(dc_hll_agg(i)::bytea, 1, 3000)::dc_hll FROM generate_series(1, 100000) i;
SELECT # hll_damaged(substr(dc_hll_agg(i)::bytea, 1, 3000)) FROM generate_series(1, 100000) i;
\set VERBOSITY default

-- Binary output is what binary input takes
\copy (SELECT a, c FROM hll_sets ORDER BY p) TO 'results/hll.data' WITH (FORMAT binary)
CREATE TEMP TABLE hll_copy (a dc_hll, c dc_hll);
\copy hll_copy FROM 'results/hll.data' WITH (FORMAT binary)
SELECT count(*) FROM hll_copy JOIN hll_sets USING (a, c);

DROP AGGREGATE hll_own(int);
DROP FUNCTION hll_damaged, hll_both, hll_same, hll_hyll, hll_show;
DROP TABLE hll_typmod, hll_row, hll_long, hll_items, hll_keys, hll_parted;
DROP TYPE hll_mood, hll_positive, hll_pair;
