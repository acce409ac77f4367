-- Sets that are changed in loops, and aggregates of sets: what is kept in memory between
-- calls is what the same calls make of stored values.
SET extra_float_digits = 0;
\set SHOW_CONTEXT never
\set VERBOSITY terse

-- A set of so many elements, e1, e2, ...
CREATE FUNCTION orset_of(n int, node text DEFAULT 'eu') RETURNS dc_orset LANGUAGE plpgsql AS $$
DECLARE
	s dc_orset := dc_orset();
BEGIN
	FOR i IN 1..n LOOP
		s := dc_add(s, 'e' || i, node);
	END LOOP;
	RETURN s;
END $$;
CREATE FUNCTION gset_of(n int) RETURNS dc_gset LANGUAGE plpgsql AS $$
DECLARE
	s dc_gset := dc_gset();
BEGIN
	FOR i IN 1..n LOOP
		s := dc_add(s, 'e' || i);
	END LOOP;
	RETURN s;
END $$;
-- The same value, read again from its text
CREATE FUNCTION anew(s dc_orset) RETURNS dc_orset LANGUAGE sql AS 'SELECT s::text::dc_orset';
CREATE FUNCTION anew(s dc_gset) RETURNS dc_gset LANGUAGE sql AS 'SELECT s::text::dc_gset';

SELECT n, cardinality(dc_value(orset_of(n))) AS orset, cardinality(dc_value(gset_of(n))) AS gset
	FROM unnest(ARRAY[0, 1, 50, 1000, 20000]) AS n;
SELECT orset_of(3), gset_of(3);
SELECT dc_contains(orset_of(1000), 'e1000') AS there, dc_contains(orset_of(1000), 'e1001') AS not_there,
	dc_contains(gset_of(1000), 'e1000') AS there, dc_contains(gset_of(1000), 'e1001') AS not_there;
SELECT orset_of(1000)::jsonb->'seen' AS seen, orset_of(1000)::jsonb->'elements'->'e77' AS dots;
SELECT dc_reset(orset_of(1000)), dc_add(dc_reset(orset_of(1000)), 'x', 'eu');

-- Random changes of several variables that derive from each other, each compared with its value read again
CREATE FUNCTION random_changes(steps int, elements int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a dc_orset := orset_of(elements / 2);
	b dc_orset := a;
	c dc_orset := dc_add(a, 'of c', 'us');
	fa dc_orset := anew(a);
	fb dc_orset := anew(a);
	fc dc_orset := dc_add(anew(a), 'of c', 'us');
	x text;
	n text;
	r int;
BEGIN
	FOR i IN 1..steps LOOP
		x := 'e' || floor(random() * elements);
		n := (ARRAY['eu', 'us', 'asia'])[1 + floor(random() * 3)];
		r := floor(random() * 12);
		CASE
			WHEN r < 3 THEN a := dc_add(a, x, n); fa := anew(dc_add(fa, x, n));
			WHEN r < 4 THEN a := dc_remove(a, x); fa := anew(dc_remove(fa, x));
			WHEN r < 5 THEN b := dc_add(a, x, n); fb := anew(dc_add(fa, x, n));
			WHEN r < 6 THEN c := dc_remove(a, x); fc := anew(dc_remove(fa, x));
			WHEN r < 7 THEN b := dc_add(dc_remove(b, x), x || x, n); fb := anew(dc_add(anew(dc_remove(fb, x)), x || x, n));
			WHEN r < 8 THEN a := dc_merge(a, c); fa := anew(dc_merge(fa, fc));
			WHEN r < 9 THEN c := b; fc := fb;
			WHEN r < 10 THEN c := dc_add(c, x, n); fc := anew(dc_add(fc, x, n));
			WHEN r < 11 AND i % 50 = 0 THEN b := dc_reset(b); fb := anew(dc_reset(fb));
			ELSE
				IF dc_contains(a, x) <> dc_contains(fa, x) OR dc_contains(b, x) <> dc_contains(fb, x) THEN
					RETURN format('step %s: dc_contains', i);
				END IF;
		END CASE;
		IF i % 7 = 0 AND (a <> fa OR b <> fb OR c <> fc) THEN
			RETURN format('step %s: %s %s %s', i, a = fa, b = fb, c = fc);
		END IF;
	END LOOP;
	RETURN CASE WHEN a = fa AND b = fb AND c = fc THEN 'the same' END;
END $$;
SELECT setseed(0.25);
SELECT DISTINCT random_changes(300, elements) FROM unnest(ARRAY[8, 30, 100, 300]) AS elements, generate_series(1, 4);

-- An older value stays as it is, however long ago it was shared
CREATE FUNCTION shared(steps int) RETURNS TABLE (who text, elements int, right_ones boolean) LANGUAGE plpgsql AS $$
DECLARE
	a dc_orset := dc_add(orset_of(200), 'of a', 'eu');
	b dc_orset;
	before dc_orset := anew(a);
	removed dc_orset;
BEGIN
	b := dc_add(a, 'of b', 'eu');
	FOR i IN 1..steps LOOP
		b := dc_add(b, 'b' || i, 'eu');
		b := dc_remove(b, 'e' || i);
		b := dc_add(b, 'e' || i + 1, 'us');
	END LOOP;
	removed := dc_remove(a, 'of a');
	RETURN QUERY VALUES
		('a', cardinality(dc_value(a)), a = before),
		('b', cardinality(dc_value(b)), dc_contains(b, 'of b') AND dc_contains(b, 'of a') AND b = anew(b)),
		('removed', cardinality(dc_value(removed)), removed = dc_remove(before, 'of a'));
END $$;
SELECT * FROM shared(0);
SELECT * FROM shared(10);
SELECT * FROM shared(100);

-- Grow-only sets, and elements that are there already
DO $$
DECLARE
	a dc_gset := gset_of(500);
	b dc_gset;
	c dc_gset;
BEGIN
	b := dc_add(a, 'of b');
	c := dc_add(a, 'of c');
	FOR i IN 1..1000 LOOP
		a := dc_add(a, 'e' || i % 500 + 1);
		c := dc_add(c, 'c' || i % 3);
	END LOOP;
	RAISE NOTICE '% %', a = gset_of(500), cardinality(dc_value(a));
	RAISE NOTICE '% %', dc_contains(b, 'of c'), cardinality(dc_value(b));
	RAISE NOTICE '% %', dc_contains(c, 'of b'), cardinality(dc_value(c));
END $$;

-- Exceptions: a change that failed, and changes of a savepoint that is rolled back, which
-- a variable keeps
DO $$
DECLARE
	s dc_orset := orset_of(300);
	t dc_orset;
BEGIN
	FOR i IN 1..200 LOOP
		BEGIN
			t := dc_add(s, 't' || i, 'eu');
			s := dc_add(s, 's' || i, 'eu');
			IF i % 2 = 0 THEN
				s := dc_add(dc_add(s, 'lost' || i, 'eu'), 'lost', repeat('x', 65));
			ELSIF i % 5 = 0 THEN
				PERFORM 1 / 0;
			END IF;
		EXCEPTION
			WHEN division_by_zero THEN s := dc_add(s, 'zero' || i, 'us');
			WHEN invalid_parameter_value THEN NULL;
		END;
	END LOOP;
	RAISE NOTICE '% elements, % lost, % zero', cardinality(dc_value(s)),
		(SELECT count(*) FROM dc_values(s) AS x WHERE x LIKE 'lost%'),
		(SELECT count(*) FROM dc_values(s) AS x WHERE x LIKE 'zero%');
	RAISE NOTICE '% %', s = anew(s), (SELECT string_agg(x, ' ') FROM dc_values(t) AS x WHERE x LIKE 't%');
END $$;

-- A node whose dots are used up
DO $$
DECLARE
	s dc_orset := dc_merge(orset_of(300), '{"elements":{},"seen":{"full":9223372036854775806}}');
BEGIN
	s := dc_add(s, 'last', 'full');
	s := dc_add(s, 'other', 'eu');
	BEGIN
		s := dc_add(s, 'more', 'full');
	EXCEPTION WHEN numeric_value_out_of_range THEN
		RAISE NOTICE '%', SQLERRM;
	END;
	s := dc_add(s, 'another', 'eu');
	RAISE NOTICE '% %', cardinality(dc_value(s)), dc_contains(s, 'more');
END $$;

-- Records, arrays, arguments, results
CREATE TYPE cart AS (name text, items dc_orset);
CREATE FUNCTION with_one(s dc_orset, x text) RETURNS dc_orset LANGUAGE plpgsql AS $$
BEGIN
	s := dc_add(s, x, 'eu');
	s := dc_add(s, x || x, 'eu');
	RETURN s;
END $$;
DO $$
DECLARE
	c cart := ROW('a cart', orset_of(100));
	d cart;
	many dc_orset[] := ARRAY[orset_of(100), dc_orset()];
	s dc_orset := orset_of(100);
	t dc_orset;
BEGIN
	FOR i IN 1..50 LOOP
		c.items := dc_add(c.items, 'x' || i, 'eu');
		d := c;
		d.items := dc_remove(d.items, 'x1');
		many[1] := dc_add(many[1], 'x' || i, 'eu');
		many[2] := dc_add(many[1], 'of 2', 'eu');
		t := with_one(s, 'y' || i);
		s := with_one(with_one(s, 'z'), 'zz' || i);
	END LOOP;
	RAISE NOTICE 'records: % % %', cardinality(dc_value(c.items)), cardinality(dc_value(d.items)), dc_contains(d.items, 'x1');
	RAISE NOTICE 'arrays: % % %', cardinality(dc_value(many[1])), cardinality(dc_value(many[2])), dc_contains(many[1], 'of 2');
	RAISE NOTICE 'results: % %', cardinality(dc_value(s)), cardinality(dc_value(t));
	RAISE NOTICE '%', ARRAY[c.items, d.items, s, t] = ARRAY[anew(c.items), anew(d.items), anew(s), anew(t)];
END $$;

-- Stored in tables, and changed there; an UPDATE that changes nothing stores what it found
CREATE TABLE sets (id int PRIMARY KEY, o dc_orset, g dc_gset);
INSERT INTO sets SELECT i, orset_of(i * 1000), gset_of(i * 1000) FROM generate_series(0, 3) AS i;
UPDATE sets SET o = dc_add(dc_remove(o, 'e1'), 'x', 'us'), g = dc_add(g, 'x');
SELECT id, cardinality(dc_value(o)) AS o, cardinality(dc_value(g)) AS g, dc_contains(o, 'e1') AS e1,
	dc_contains(o, 'x') AND dc_contains(g, 'x') AS x FROM sets ORDER BY id;
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'sets'::regclass \gset
SELECT pg_relation_size(:'toast') AS before \gset
UPDATE sets SET o = dc_remove(o, 'not there'), g = dc_add(g, 'x') WHERE id = 3;
SELECT pg_relation_size(:'toast') = :before AS stored_as_it_was;
UPDATE sets SET o = dc_remove(o, 'e2'), g = dc_add(g, 'y') WHERE id = 3;
SELECT pg_relation_size(:'toast') > :before AS stored_anew;
DO $$
DECLARE
	s dc_orset := (SELECT o FROM sets WHERE id = 3);
	g dc_gset := (SELECT g FROM sets WHERE id = 3);
BEGIN
	FOR i IN 1..1000 LOOP
		s := dc_remove(s, 'not there');
		g := dc_add(g, 'x');
	END LOOP;
	RAISE NOTICE '%', s = (SELECT o FROM sets WHERE id = 3) AND g = (SELECT sets.g FROM sets WHERE id = 3);
	FOR i IN 1..2000 LOOP
		s := dc_remove(s, 'e' || i);
	END LOOP;
	UPDATE sets SET o = s WHERE id = 3;
END $$;
SELECT cardinality(dc_value(o)) AS elements, (dc_value(o))[1] AS first FROM sets WHERE id = 3;

-- NULL, and groups
SELECT dc_add(NULL::dc_orset, 'x', 'eu') IS NULL AND dc_add(gset_of(100), NULL) IS NULL AND
	dc_remove(orset_of(100), NULL) IS NULL AND dc_contains(NULL::dc_gset, 'x') IS NULL AS nulls;
SELECT cardinality(dc_value(o)) AS elements, count(*)
	FROM (SELECT dc_add(orset_of(i % 3 * 100), 'x', 'eu') AS o FROM generate_series(1, 10) AS i) AS all_sets GROUP BY o ORDER BY 1;

-- Memory is given back with the last variable
DO $$
DECLARE
	s dc_orset := orset_of(1000);
	t dc_orset;
	n bigint;
BEGIN
	FOR i IN 1..3000 LOOP
		t := dc_add(s, 'x' || i, 'eu');
		IF i % 100 = 0 THEN
			s := t;
		END IF;
	END LOOP;
	SELECT count(*) INTO n FROM pg_backend_memory_contexts WHERE name LIKE 'dcounter set%';
	RAISE NOTICE 'few contexts: %', n <= 8;
END $$;
SELECT count(*) FROM pg_backend_memory_contexts WHERE name LIKE 'dcounter set%';

-- Aggregates: any order, groups, one row, no row, NULL
CREATE TABLE parts AS
	SELECT i, dc_add(dc_orset(), 'e' || i % 700, 'n' || i) AS o, dc_add(dc_gset(), 'e' || i % 700) AS g,
		CASE WHEN i % 3 = 0 THEN dc_set_as(dc_mvreg(), to_jsonb(i), 'n' || i) END AS m
	FROM generate_series(1, 5000) AS i;
ANALYZE parts;
SELECT cardinality(dc_value(dc_merge_agg(o))) AS o, cardinality(dc_value(dc_merge_agg(g))) AS g,
	(SELECT count(*) FROM jsonb_object_keys(dc_merge_agg(o)::jsonb->'seen')) AS nodes FROM parts;
SELECT dc_merge_agg(o) = dc_merge_agg(o ORDER BY i DESC) AND dc_merge_agg(g) = dc_merge_agg(g ORDER BY -i) AS any_order,
	dc_merge_agg(o) = (SELECT dc_merge_agg(o) FROM (SELECT dc_merge_agg(o) AS o FROM parts GROUP BY i % 17) AS p) AS of_groups
	FROM parts;
SELECT dc_merge_agg(o), dc_merge_agg(g), dc_merge_agg(m) FROM parts WHERE i IN (1, 701);
SELECT dc_merge_agg(o), dc_merge_agg(g), dc_merge_agg(m) FROM parts WHERE i < 0;
SELECT dc_merge_agg(NULL::dc_orset), dc_merge_agg(NULL::dc_gset), dc_merge_agg(NULL::dc_mvreg) FROM parts;
SELECT dc_merge_agg(dc_set_as(dc_mvreg(), to_jsonb(i), 'n' || i)) FROM generate_series(1, 3) AS i;
SELECT dc_merge_agg(o) FROM (VALUES (orset_of(2)), (dc_remove(orset_of(2), 'e1')), (NULL)) AS v (o);
SELECT count(*) FROM (SELECT i % 1000, dc_merge_agg(g) AS g FROM parts GROUP BY 1) AS p WHERE cardinality(dc_value(g)) = 5;

-- As window functions: the state is read after each row, and goes on
SELECT i, dc_value(dc_merge_agg(g) OVER (ORDER BY i)) AS so_far,
	dc_value(dc_merge_agg(o) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)) AS last_two
	FROM parts WHERE i <= 4 ORDER BY i;
SELECT bool_and(cardinality(dc_value(g)) = i) FROM (SELECT i, dc_merge_agg(g) OVER (ORDER BY i) AS g FROM parts WHERE i < 300) AS p;

-- In parallel
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS OFF) SELECT dc_merge_agg(o), dc_merge_agg(g), dc_merge_agg(m) FROM parts;
CREATE TEMP TABLE in_parallel AS SELECT dc_merge_agg(o) AS o, dc_merge_agg(g) AS g, dc_merge_agg(m) AS m FROM parts;
EXPLAIN (COSTS OFF) SELECT i % 2, dc_merge_agg(o) FROM parts WHERE i < 0 GROUP BY 1;
SELECT dc_merge_agg(o) FROM parts WHERE i < 0;
SET max_parallel_workers_per_gather = 0;
SELECT p.o = s.o AND p.g = s.g AND p.m = s.m AS the_same
	FROM in_parallel AS p, (SELECT dc_merge_agg(o) AS o, dc_merge_agg(g) AS g, dc_merge_agg(m) AS m FROM parts) AS s;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;

-- A value is limited to 10 MB, in memory, too
DO $$
DECLARE
	s dc_gset := dc_gset();
	big text := repeat('x', 1000000);
BEGIN
	FOR i IN 1..100 LOOP
		s := dc_add(s, i || big);
	END LOOP;
EXCEPTION WHEN program_limit_exceeded THEN
	RAISE NOTICE '%: %', SQLERRM, cardinality(dc_value(s));
END $$;
SELECT dc_merge_agg(dc_add(dc_gset(), i || repeat('x', 1000000))) FROM generate_series(1, 100) AS i;

DROP FUNCTION orset_of, gset_of, random_changes, shared, with_one;
DROP FUNCTION anew(dc_orset), anew(dc_gset);
DROP TYPE cart;
DROP TABLE sets, parts;
