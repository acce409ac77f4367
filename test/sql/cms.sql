-- Count-Min sketches: values, aggregates, windows, and what is refused
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on

-- What a statement fails with
CREATE FUNCTION fails(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	why text;
BEGIN
	EXECUTE statement;
	RETURN 'it works';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(': ', SQLSTATE, SQLERRM, nullif(why, ''));
END $$;

-- An empty sketch
SELECT * FROM dc_cms_info(dc_cms());
SELECT * FROM dc_cms_info(dc_cms(0.5, 0.5, true));
SELECT dc_cms();
SELECT dc_cms_estimate(dc_cms(), 1), dc_cms_bounds(dc_cms(), 'nothing'), dc_cms(NULL) IS NULL;
SELECT depth, width FROM dc_cms_info(dc_cms(0.0000001, 0.5)) UNION ALL SELECT depth, width FROM dc_cms_info(dc_cms(0.01, 0.000000001));
SELECT fails(format('SELECT dc_cms(%s, %s)', e, d)) FROM (VALUES ('0', '0.1'), ('-1', '0.1'), ('0.51', '0.1'), ('''NaN''', '0.1'), ('''inf''', '0.1'), ('1e-8', '0.1'),
	('0.1', '0'), ('0.1', '0.51'), ('0.1', '''NaN'''), ('0.1', '1e-10'), ('1e-7', '0.01')) v(e, d);

-- Adding and asking, while it is exact
CREATE TABLE c (name text PRIMARY KEY, s dc_cms);
INSERT INTO c VALUES ('a', dc_cms_add(dc_cms_add(dc_cms_add(dc_cms(), 'x'), 'y', 5), 'x', 2));
SELECT dc_cms_estimate(s, 'x'), dc_cms_estimate(s, 'y'), dc_cms_estimate(s, 'z'), dc_cms_bounds(s, 'y'), s FROM c;
SELECT * FROM c, dc_cms_info(s);
SELECT lower, estimate, upper FROM c, dc_cms_bounds(s, 'x'::text);
-- NULL adds nothing; of NULL nothing is known
SELECT dc_cms_add(s, NULL::text)::bytea = s::bytea, dc_cms_add(s, 'x', NULL)::bytea = s::bytea, dc_cms_add(s, 'x', 0)::bytea = s::bytea, dc_cms_add(s, NULL, -1)::bytea = s::bytea,
	dc_cms_add(NULL, 'x') IS NULL, dc_cms_estimate(s, NULL::int) IS NULL, dc_cms_bounds(NULL, 'x') IS NULL, dc_cms_info(NULL) IS NULL FROM c;
-- Equal items of different types are one item
SELECT dc_cms_estimate(s, '1'), dc_cms_estimate(s, 1::bigint), dc_cms_estimate(s, 1.00), dc_cms_estimate(s, true), dc_cms_estimate(s, '2024-02-29'::date), dc_cms_estimate(s, '2024-02-29'),
	dc_cms_estimate(s, '\x31'::bytea), dc_cms_estimate(s, '00000000-0000-0000-0000-00000000002A'::uuid), dc_cms_estimate(s, 'b '::char(5)), dc_cms_estimate(s, '{1,2}'::int[])
FROM (SELECT dc_cms_add(dc_cms_add(dc_cms_add(dc_cms_add(dc_cms_add(dc_cms_add(dc_cms_add(dc_cms_add(dc_cms(), 1::smallint), 1, 10), 1::numeric, 100), 'true', 3), '2024-02-29'::date, 4),
	'00000000-0000-0000-0000-00000000002a', 5), 'b', 6), '{1,2}'::int[], 7) AS s) q;
SELECT fails($$SELECT dc_cms_add(dc_cms(), '(1,1)'::point)$$);

-- Taking out, to nothing but not below
SELECT dc_cms_info(dc_cms_add(s, 'x', -3)), dc_cms_add(dc_cms_add(s, 'x', -3), 'y', -5)::bytea = dc_cms()::bytea FROM c;
SELECT fails(format('SELECT dc_cms_add(s, %L, %s) FROM c', i, w)) FROM (VALUES ('x', -4), ('z', -1), ('x', -9223372036854775807), ('x', -9223372036854775808),
	('x', 9223372036854775807), ('z', 9223372036854775800), ('z', 9223372036854775799)) v(i, w);

-- Many items
INSERT INTO c SELECT 'many', dc_cms_agg(i % 1000, 0.01, 0.01) FROM generate_series(1, 100000) i;
SELECT i.* FROM c, dc_cms_info(s) i WHERE name = 'many';
SELECT bool_and(b.estimate >= 100 AND b.upper = b.estimate AND b.lower <= 100 AND b.lower = greatest(b.estimate - 1000, 0)), min(b.estimate) >= 100
FROM c, generate_series(0, 999) i, dc_cms_bounds(s, i) b WHERE name = 'many';
SELECT dc_cms_estimate(dc_cms_add(s, 5, 70000), 5) >= 70100, dc_cms_info(dc_cms_add(s, 5, 70000)), dc_cms_add(dc_cms_add(s, 5, 70000), 5, -70000)::bytea = s::bytea,
	dc_cms_info(dc_cms_add(s, 5, 5000000000)), dc_cms_add(dc_cms_add(s, 5, 5000000000), 5, -5000000000)::bytea = s::bytea FROM c WHERE name = 'many';
SELECT fails(format('SELECT dc_cms_add(s, 5, %s) FROM c WHERE name = ''many''', w)) FROM (VALUES (-100001), (-90000), (9223372036854775807)) v(w);
-- In a table it is compressed, and comes back
SELECT pg_column_size(s) < (dc_cms_info(s)).bytes FROM c WHERE name = 'many';
UPDATE c SET s = dc_cms_add(s, 'x') WHERE name = 'many';
SELECT dc_cms_estimate(s, 'x') >= 1, (dc_cms_info(s)).total_weight FROM c WHERE name = 'many';
UPDATE c SET s = dc_cms_add(s, 'x', -1) WHERE name = 'many';

-- The switch from list to cells: 84 cells, so 10 items
SELECT n, i.form, i.items, i.cell_bytes, i.bytes, i.total_weight FROM unnest('{1,9,10,11,300}'::int[]) n, LATERAL (SELECT dc_cms_agg(x, 0.1, 0.05) s FROM generate_series(1, n) x) q, dc_cms_info(s) i;
CREATE FUNCTION adds(s dc_cms, first int, last int, weight bigint DEFAULT 1) RETURNS dc_cms LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN first..last LOOP
		s := dc_cms_add(s, i, weight);
	END LOOP;
	RETURN s;
END $$;
SELECT n, adds(dc_cms(0.1, 0.05), 1, n)::bytea = (SELECT dc_cms_agg(x, 0.1, 0.05)::bytea FROM generate_series(1, n) x) FROM unnest('{1,10,11,300}'::int[]) n;
-- Nothing left is an empty list again
SELECT adds(adds(dc_cms(0.1, 0.05), 1, 300), 1, 300, -1)::bytea = dc_cms(0.1, 0.05)::bytea;

-- Unions
CREATE TEMP TABLE parts AS SELECT x % 7 AS part, dc_cms_agg(x % 50, 0.1, 0.05, x) AS s FROM generate_series(1, 2000) x GROUP BY 1;
CREATE TEMP TABLE whole AS SELECT dc_cms_agg(x % 50, 0.1, 0.05, x) AS s FROM generate_series(1, 2000) x;
SELECT dc_cms_union_agg(parts.s)::bytea = (SELECT s::bytea FROM whole), dc_cms_union_agg(parts.s ORDER BY part DESC)::bytea = (SELECT s::bytea FROM whole) FROM parts;
SELECT (a.s || b.s)::bytea = (b.s || a.s)::bytea, dc_cms_union(a.s, b.s)::bytea = (a.s || b.s)::bytea, (dc_cms_info(a.s || b.s)).total_weight FROM parts a, parts b WHERE a.part = 1 AND b.part = 2;
SELECT dc_cms_union_agg(s)::bytea = dc_cms_add(dc_cms(), 'x')::bytea FROM (VALUES (NULL), (dc_cms_add(dc_cms(), 'x')), (dc_cms())) v(s);
SELECT dc_cms_union_agg(s) IS NULL FROM c WHERE false;
SELECT dc_cms_union_agg(NULL::dc_cms) IS NULL, dc_cms_union(NULL, dc_cms()) IS NULL;
SELECT fails($$SELECT dc_cms(0.1, 0.1) || dc_cms(0.1, 0.05)$$), fails($$SELECT dc_cms_union_agg(s) FROM (VALUES (dc_cms(0.1)), (dc_cms(0.2))) v(s)$$), fails($$SELECT dc_cms_subtract(dc_cms(0.1), dc_cms())$$),
	fails($$SELECT dc_cms_inner_product(dc_cms(0.1), dc_cms())$$);
SELECT fails(format('SELECT dc_cms_add(%s, ''x'', 9223372036854775807) || dc_cms_add(%1$s, %L)', s, i)) FROM (VALUES ('dc_cms()'), ('dc_cms(0.5, 0.5)')) v(s), (VALUES ('x'), ('y')) w(i);

-- Subtracting is adding undone
SELECT dc_cms_subtract((SELECT s FROM whole), dc_cms_union_agg(s) FILTER (WHERE part < 3))::bytea = (dc_cms_union_agg(s) FILTER (WHERE part >= 3))::bytea,
	dc_cms_subtract((SELECT s FROM whole), dc_cms_union_agg(s))::bytea = dc_cms(0.1, 0.05)::bytea FROM parts;
SELECT dc_cms_subtract(dc_cms_add(s, 'q', 4), dc_cms_add(s, 'q'))::bytea = dc_cms_add(dc_cms(), 'q', 3)::bytea FROM c WHERE name = 'a';
SELECT fails($$SELECT dc_cms_subtract(s, dc_cms_add(s, 'x')) FROM c WHERE name = 'a'$$), fails($$SELECT dc_cms_subtract(s, dc_cms_add(s, 7, 5000000)) FROM c WHERE name = 'many'$$),
	fails($$SELECT dc_cms_subtract(dc_cms_add(dc_cms(0.01), 5), s) FROM c WHERE name = 'many'$$);
-- What a list does not have cannot be taken out, even where cells would hide it
SELECT form, items, min(fails(format('SELECT dc_cms_add(%L, %s, -1)', s, i))), max(fails(format('SELECT dc_cms_add(%L, %s, -1)', s, i))),
	min(fails(format('SELECT dc_cms_subtract(%L, dc_cms_agg(%s, 0.1, 0.05))', s, i))), max(fails(format('SELECT dc_cms_subtract(%L, dc_cms_agg(%s, 0.1, 0.05))', s, i)))
	FROM (SELECT dc_cms_agg(i, 0.1, 0.05) FROM generate_series(1, 10) i) v(s), dc_cms_info(s), generate_series(101, 300) i GROUP BY form, items;

-- Inner products: exact of lists; not below the truth, nor far above
SELECT dc_cms_inner_product(s, s), dc_cms_inner_product(s, dc_cms()), dc_cms_inner_product(s, dc_cms_add(dc_cms(), 'x', 9223372036854775807)),
	dc_cms_inner_product(dc_cms_add(dc_cms(), 'x', 9223372036854775807), dc_cms_add(dc_cms(), 'x', 9223372036854775807)) FROM c WHERE name = 'a';
SELECT dc_cms_inner_product(s, s) BETWEEN 10000000 AND 10000000 + 0.01 * 100000 * 100000, dc_cms_inner_product(s, l) BETWEEN 600 AND 600 + 0.01 * 100000 * 6,
	dc_cms_inner_product(l, s) = dc_cms_inner_product(s, l) FROM c, LATERAL (SELECT dc_cms_add(dc_cms_add(dc_cms(0.01), 7, 2), 9, 4) l) l WHERE name = 'many';

-- Conservative update
SELECT i.* FROM dc_cms_info(adds(dc_cms(0.1, 0.05, true), 1, 300)) i;
SELECT bool_and(cons >= 1 AND cons <= plain), sum(cons) < sum(plain) FROM (SELECT dc_cms_estimate(p, i) plain, dc_cms_estimate(s, i) cons
	FROM (SELECT adds(dc_cms(0.1, 0.05, true), 1, 300) s, adds(dc_cms(0.1, 0.05), 1, 300) p) q, generate_series(1, 300) i) e;
SELECT fails('SELECT dc_cms_add(dc_cms_add(dc_cms(0.1, 0.1, true), 1), 1, -1)'), fails('SELECT dc_cms_subtract(dc_cms(0.1, 0.1, true), dc_cms(0.1, 0.1))'),
	fails('SELECT dc_cms_subtract(dc_cms(0.1, 0.1), dc_cms(0.1, 0.1, true))'), fails('SELECT dc_cms_inner_product(dc_cms(0.1, 0.1, true), dc_cms(0.1, 0.1, true))'),
	fails('SELECT dc_cms_inner_product(dc_cms(0.1, 0.1, true), dc_cms(0.1, 0.1))');
SELECT i.form, i.conservative, i.total_weight FROM (VALUES (dc_cms(0.1, 0.05, true) || dc_cms(0.1, 0.05)), (adds(dc_cms(0.1, 0.05, true), 1, 30) || adds(dc_cms(0.1, 0.05), 1, 5)),
	(adds(dc_cms(0.1, 0.05), 1, 30) || adds(dc_cms(0.1, 0.05, true), 1, 5)), (adds(dc_cms(0.1, 0.05, true), 1, 30) || adds(dc_cms(0.1, 0.05, true), 20, 40))) v(s), dc_cms_info(s) i;
SELECT dc_cms_union_agg(s)::bytea = (dc_cms(0.1, 0.05, true) || dc_cms(0.1, 0.05))::bytea FROM (VALUES (dc_cms(0.1, 0.05)), (dc_cms(0.1, 0.05, true))) v(s);

-- Aggregates: NULLs, weights, one epsilon and delta a group
SELECT dc_cms_agg(x, 0.1, 0.1)::bytea = dc_cms(0.1, 0.1)::bytea, dc_cms_agg(1, 0.1, 0.1, x)::bytea = dc_cms(0.1, 0.1)::bytea, fails('SELECT dc_cms_agg(NULL::int, NULL, 0.1)') FROM (VALUES (NULL::int), (NULL)) v(x);
SELECT dc_cms_agg('x', 0.1, 0.1) IS NULL FROM c WHERE false;
SELECT dc_cms_agg(x, 0.1, 0.1)::bytea = dc_cms_add(dc_cms(0.1, 0.1), 1, 2)::bytea, dc_cms_agg(x, 0.1, 0.1, w)::bytea = dc_cms_add(dc_cms(0.1, 0.1), 1, 4)::bytea,
	dc_cms_agg(x, 0.1, 0.1, 0)::bytea = dc_cms(0.1, 0.1)::bytea, dc_cms_agg(x::text, 0.1, 0.1, w)::bytea = dc_cms_add(dc_cms(0.1, 0.1), '1', 4)::bytea
FROM (VALUES (NULL, 7), (1, 4), (1, NULL)) v(x, w);
SELECT dc_cms_agg(x, 0.1, 0.1, w)::bytea = dc_cms_add(dc_cms(0.1, 0.1), 2, 3)::bytea FROM (VALUES (1, -5), (2, 3), (1, 5)) v(x, w);
SELECT fails($$SELECT dc_cms_agg(x, e, 0.1) FROM (VALUES (1, 0.1), (2, 0.1), (3, 0.2)) v(x, e)$$), fails($$SELECT dc_cms_agg(x, 0.1, e) FROM (VALUES (1, 0.1), (2, 0.1), (3, 0.2)) v(x, e)$$),
	fails($$SELECT dc_cms_agg(x, e, 0.1) FROM (VALUES (1, 0.1), (3, NULL)) v(x, e)$$), fails($$SELECT dc_cms_agg(1, 0.1, NULL)$$), fails($$SELECT dc_cms_agg(1, 0.9, 0.1)$$),
	fails($$SELECT dc_cms_agg(1, 0.1, 0.1, -1)$$), fails($$SELECT dc_cms_agg(x, 0.5, 0.5, -1) FROM generate_series(1, 20) x$$),
	fails($$SELECT dc_cms_agg(x, 0.1, 0.1, 9223372036854775807) FROM generate_series(1, 2) x$$), fails($$SELECT dc_cms_agg(1, 0.1, 0.1, -9223372036854775808)$$);
SELECT dc_cms_agg(DISTINCT x % 3, 0.1, 0.1)::bytea = adds(dc_cms(0.1, 0.1), 0, 2)::bytea, (dc_cms_agg(x, 0.1, 0.1) FILTER (WHERE x <= 3))::bytea = adds(dc_cms(0.1, 0.1), 1, 3)::bytea
FROM generate_series(1, 100) x;
SELECT a, b, (dc_cms_info(dc_cms_agg(x, 0.1, 0.1))).* FROM (SELECT x, x % 2 AS a, x % 3 AS b FROM generate_series(1, 30) x) q GROUP BY GROUPING SETS ((a), (b), ()) ORDER BY a, b;
-- Two aggregates may share a state; a running one goes on after its final function
SELECT dc_cms_agg(x, 0.1, 0.1)::bytea = (SELECT s::bytea FROM (SELECT adds(dc_cms(0.1, 0.1), 1, 50) s) q), (dc_cms_info(dc_cms_agg(x, 0.1, 0.1))).total_weight FROM generate_series(1, 50) x;
SELECT bool_and(s::bytea = adds(dc_cms(0.1, 0.1), 1, x)::bytea) FROM (SELECT x, dc_cms_agg(x, 0.1, 0.1) OVER (ORDER BY x) s FROM generate_series(1, 50) x) q;
SELECT bool_and(u::bytea = adds(dc_cms(0.1, 0.1), 1, x)::bytea) FROM (SELECT x, dc_cms_union_agg(dc_cms_add(dc_cms(0.1, 0.1), x)) OVER (ORDER BY x) u FROM generate_series(1, 50) x) q;

-- A parallel plan gives the same bytes, of every form
CREATE TABLE items AS SELECT x AS id, (x * 7919 % 4001)::bigint AS many, x % 20 AS few, CASE WHEN x % 11 <> 0 THEN md5((x % 500)::text) END AS t, x % 100 - 5 AS weight FROM generate_series(1, 39999) x;
ALTER TABLE items SET (parallel_workers = 3);
ANALYZE items;
CREATE VIEW sketches AS SELECT dc_cms_agg(many, 0.001, 0.01)::bytea AS a, dc_cms_agg(few, 0.001, 0.01)::bytea AS b, dc_cms_agg(t, 0.001, 0.01)::bytea AS c, dc_cms_agg(few, 0.001, 0.01, weight)::bytea AS d,
	dc_cms_agg(many, 0.01, 0.01, id)::bytea AS e, dc_cms_agg(id / 2 % 3000, 0.1, 0.1, CASE WHEN id % 2 = 0 THEN 1 - id ELSE id END)::bytea AS f FROM items;
CREATE VIEW unions AS SELECT dc_cms_union_agg(dc_cms_add(dc_cms(), few, 3))::bytea AS a, dc_cms_union_agg(dc_cms_add(dc_cms(0.1, 0.1), many))::bytea AS b FROM items;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE serial AS SELECT * FROM sketches, unions AS u (ua, ub);
SET max_parallel_workers_per_gather = 3;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
EXPLAIN (COSTS OFF) SELECT * FROM sketches;
SELECT p.* = s.* FROM serial s, (SELECT * FROM sketches, unions AS u (ua, ub)) p;
SELECT (dc_cms_info(a::dc_cms)).form, (dc_cms_info(b::dc_cms)).form, (dc_cms_info(c::dc_cms)).form, (dc_cms_info(d::dc_cms)).total_weight, (dc_cms_info(f::dc_cms)).total_weight FROM serial;
-- Also grouped, with groups in several workers
CREATE TEMP TABLE by_group AS SELECT few, dc_cms_agg(many, 0.01, 0.01)::bytea AS s FROM items GROUP BY few;
SET max_parallel_workers_per_gather = 0;
SELECT count(*), bool_and(g.s = q.s) FROM by_group g JOIN (SELECT few, dc_cms_agg(many, 0.01, 0.01 ORDER BY id DESC)::bytea AS s FROM items GROUP BY few) q USING (few);
RESET max_parallel_workers_per_gather;
RESET min_parallel_table_scan_size;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
SELECT bool_and(dc_cms_estimate(a::dc_cms, many) >= n) FROM serial, (SELECT many, count(*) n FROM items GROUP BY many) q;

-- Moving windows are as if aggregated from scratch: lists, cells, and frames that go to and fro
CREATE TABLE moves AS SELECT x, CASE WHEN x % 9 <> 0 THEN CASE WHEN x / 100 % 2 = 0 THEN x % 4 ELSE x * 7 % 31 END END AS item, CASE WHEN x % 13 <> 0 THEN x * x % 300 END AS weight FROM generate_series(1, 600) x;
CREATE UNIQUE INDEX ON moves (x);
ANALYZE moves;
CREATE FUNCTION windows_differ(frame int, epsilon float8) RETURNS TABLE (forms text, rows bigint, differ bigint) LANGUAGE sql AS $$
	WITH w AS (SELECT x, dc_cms_agg(item, epsilon, 0.05) OVER f AS plain, dc_cms_agg(item, epsilon, 0.05, weight) OVER f AS weighted, dc_cms_agg(item::text, epsilon, 0.05, weight) OVER f AS texts
		FROM moves WINDOW f AS (ORDER BY x ROWS BETWEEN frame PRECEDING AND CURRENT ROW)),
	scratch AS (SELECT x, (SELECT dc_cms_agg(item, epsilon, 0.05) FROM moves b WHERE b.x BETWEEN a.x - frame AND a.x) AS plain,
		(SELECT dc_cms_agg(item, epsilon, 0.05, weight) FROM moves b WHERE b.x BETWEEN a.x - frame AND a.x) AS weighted FROM moves a)
	SELECT string_agg(DISTINCT coalesce((dc_cms_info(w.plain)).form, 'null'), ', '), count(*),
		count(*) FILTER (WHERE w.plain::bytea IS DISTINCT FROM s.plain::bytea OR w.weighted::bytea IS DISTINCT FROM s.weighted::bytea OR w.texts::bytea IS DISTINCT FROM s.weighted::bytea)
	FROM w JOIN scratch s USING (x) $$;
SELECT * FROM windows_differ(5, 0.001);
SELECT * FROM windows_differ(0, 0.1);
SELECT * FROM windows_differ(20, 0.1);
SELECT * FROM windows_differ(40, 0.5);
-- With weights of both signs, the negative ones first
CREATE TABLE changes AS SELECT x, x / 3 AS step, CASE WHEN x % 3 = 2 THEN -1 WHEN x < 300 THEN x / 3 % 4 ELSE x / 3 % 20 END AS item, CASE x % 3 WHEN 0 THEN -x WHEN 1 THEN x + 3 ELSE 1 END AS weight FROM generate_series(3, 602) x;
WITH w AS (SELECT x, step, dc_cms_agg(item, 0.1, 0.05, weight) OVER (ORDER BY step GROUPS BETWEEN 12 PRECEDING AND 3 FOLLOWING) AS s FROM changes)
SELECT string_agg(DISTINCT (dc_cms_info(s)).form, ', ' ), count(*), count(*) FILTER (WHERE s::bytea IS DISTINCT FROM (SELECT dc_cms_agg(item, 0.1, 0.05, weight)::bytea FROM changes c WHERE c.step BETWEEN w.step - 12 AND w.step + 3)) FROM w;
-- Errors are those of the frame
SELECT fails($$SELECT dc_cms_agg(x, 0.1, 0.1, 2 - x) OVER (ORDER BY x ROWS 1 PRECEDING) FROM generate_series(1, 4) x$$),
	fails($$SELECT dc_cms_agg(x, 0.1 + x / 10 * 0.1, 0.1) OVER (ORDER BY x ROWS 1 PRECEDING) FROM generate_series(1, 12) x$$),
	fails($$SELECT dc_cms_agg(x, CASE WHEN x < 3 THEN 0.1 END, 0.1) OVER (ORDER BY x ROWS 1 PRECEDING) FROM generate_series(1, 4) x$$);
SELECT (dc_cms_info(s)).epsilon FROM (SELECT x, dc_cms_agg(CASE WHEN x % 3 > 0 THEN x END, CASE WHEN x < 3 THEN 0.1 ELSE 0.2 END, 0.1) OVER (ORDER BY x ROWS 0 PRECEDING) s FROM generate_series(1, 5) x) q;

-- Whoever may use an aggregate need not be allowed to call what it consists of
CREATE ROLE regress_dc_cms;
SET ROLE regress_dc_cms;
SELECT dc_cms_union_agg(s)::bytea = adds(dc_cms(0.1, 0.1), 1, 50)::bytea FROM (SELECT dc_cms_agg(x, 0.1, 0.1) s FROM generate_series(1, 50) x GROUP BY x % 3) q;
SELECT (dc_cms_info(s)).total_weight FROM (SELECT x, dc_cms_agg(x, 0.1, 0.1) OVER (ORDER BY x ROWS 1 PRECEDING) s FROM generate_series(1, 3) x) q;
SELECT has_function_privilege('dcounter.cms_agg_final(internal)', 'EXECUTE'), has_function_privilege('dcounter.cms_frame_add(internal, anyelement, float8, float8)', 'EXECUTE');
RESET ROLE;
DROP ROLE regress_dc_cms;

-- Input and output
SELECT s::text::dc_cms::bytea = s::bytea, s::bytea::dc_cms::bytea = s::bytea, dcounter.cms_send(s) = s::bytea FROM c;
CREATE TABLE copied (name text, s dc_cms);
\copy c TO 'results/cms.bin' (FORMAT binary)
\copy copied FROM 'results/cms.bin' (FORMAT binary)
SELECT count(*), bool_and(c.s::bytea = copied.s::bytea) FROM c JOIN copied USING (name);
-- Other bytes are refused
\copy (SELECT name, s::bytea || '\x00' FROM c WHERE name = 'a') TO 'results/cms.bin' (FORMAT binary)
\copy copied FROM 'results/cms.bin' (FORMAT binary)
SELECT fails(format('SELECT %L::dc_cms', v)) FROM unnest(ARRAY['', 'x', '\x', '\x0', '\xzz', '\x01', '\x0000000000000000000000000000000000000000000000000000000000000000']) v;
-- A list of x: 3, and what can be wrong with it
CREATE FUNCTION broken(at int, bytes bytea) RETURNS text LANGUAGE sql AS $$
	SELECT fails(format('SELECT %L::bytea::dc_cms', overlay(dc_cms_add(dc_cms(0.1, 0.05), 'x', 3)::bytea PLACING bytes FROM at + 1))) $$;
SELECT dc_cms_add(dc_cms(0.1, 0.05), 'x', 3);
SELECT at, bytes, broken(at, bytes) FROM (VALUES (0, '\x02'::bytea), (1, '\x01'), (1, '\x04'), (1, '\x10'), (1, '\x80'), (1, '\x02'), (2, '\x00'), (2, '\x02'), (3, '\x04'), (4, '\x1d'), (4, '\xffffffff'), (8, '\x0000000000000000'),
	(14, '\xf87f'), (16, '\x0000000000000000'), (24, '\x02'), (24, '\x04'), (31, '\x80'), (32, '\xffffff'), (41, '\x00'), (41, '\x80'), (41, '\x8300'), (41, '\x03ffff')) v(at, bytes);
SELECT fails($$SELECT substr(s::bytea, 1, 100)::dc_cms FROM c WHERE name = 'many'$$), fails($$SELECT overlay(s::bytea PLACING '\xff' FROM 40)::dc_cms FROM c WHERE name = 'many'$$),
	fails($$SELECT overlay(s::bytea PLACING '\x0d' FROM 2)::dc_cms FROM c WHERE name = 'many'$$), fails($$SELECT overlay(s::bytea PLACING '\x0000000000000000' FROM 25)::dc_cms FROM c WHERE name = 'many'$$);

-- A stored value that its disk damaged is refused before it is used
CREATE FUNCTION damaged(bytea) RETURNS dc_cms LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
SELECT fails(format('SELECT dc_cms_estimate(damaged(substr(s::bytea, 1, %s)), 7) FROM c WHERE name = ''many''', len)) FROM generate_series(0, 99, 33) len;
SELECT fails(format('SELECT %s FROM (SELECT damaged(overlay(s::bytea PLACING ''\xffff'' FROM 5)) AS d, s FROM c WHERE name = ''many'') v', call))
	FROM unnest('{"dc_cms_estimate(d, 7)","dc_cms_bounds(d, 7)","dc_cms_add(d, 7)",d||s,s||d,"dc_cms_subtract(s, d)","dc_cms_inner_product(s, d)",dc_cms_info(d),dc_cms_union_agg(d)}'::text[]) call;

DROP VIEW sketches, unions;
DROP TABLE c, copied, items, serial, moves, changes;
DROP FUNCTION fails, adds, windows_differ, broken, damaged;
