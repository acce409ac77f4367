-- Distinct tables: what is counted, by whom, and how it is written.
SET client_min_messages = warning;
CREATE FUNCTION rows_of(text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint; BEGIN EXECUTE format('SELECT count(*) FROM %I', $1) INTO n; RETURN n; END $$;
SELECT dc_distinct_create('visitors');
CREATE TABLE rows_dummy ();
SELECT count(*) FROM (SELECT dc_add('visitors', 'home', 'user' || i) FROM generate_series(1, 3000) AS i) AS s;
SELECT count(*) FROM (SELECT dc_add('visitors', 'home', 'user' || i) FROM generate_series(2000, 4000) AS i) AS s;
SELECT dc_add_many('visitors', ARRAY['home', 'home', 'about'], ARRAY['user1', 'user4001', 'user1']);

-- the estimate is that of dc_hll_agg, before and after folding
SELECT d.estimate = dc_hll_count(h) AS same, dc_distinct_sketch('visitors', 'home') = h AS same_sketch
FROM dc_distinct('visitors', 'home') AS d, (SELECT dc_hll_agg('user' || i) AS h FROM generate_series(1, 4001) AS i) AS a;
CALL dc_maintain();
SELECT rows_of('visitors'), rows_of('visitors_delta');
SELECT d.estimate = dc_hll_count(h) AS same, v.sketch = h AS same_sketch, d.lower < 4001 AND 4001 < d.upper AS within
FROM dc_distinct('visitors', 'home') AS d, (SELECT dc_hll_agg('user' || i) AS h FROM generate_series(1, 4001) AS i) AS a, visitors AS v WHERE key = 'home';
SELECT round(estimate) FROM dc_distinct_union('visitors', ARRAY['about', 'none']);
SELECT round(estimate), round(lower), round(upper) FROM dc_distinct('visitors', 'none');

-- a repeat writes nothing
SELECT dc_add('visitors', 'home', 'user1'), dc_add('visitors', 'home', 'user2');
SELECT dc_add('visitors', 'home', 'user1');
SELECT rows_of('visitors_delta');
SELECT dc_add('visitors', 'new', 'a');
SELECT dc_add('visitors', 'new', 'a');
SELECT rows_of('visitors_delta');

-- types of keys and items: the same text is the same item
SELECT dc_add('visitors', 7, 42), dc_add('visitors', '7', '42'), dc_add('visitors', 7::bigint, 42::numeric), dc_add('visitors'::regclass, 7::smallint, 42::bigint);
SELECT round(estimate) FROM dc_distinct('visitors', 7);
CREATE DOMAIN word AS text;
SELECT dc_add('visitors', 'w'::word, 'x'::word), dc_add('visitors', 'w'::varchar, 'x'::varchar), dc_add('visitors', 'w'::char(3), 'x'::name);
SELECT round(estimate) FROM dc_distinct('visitors', 'w');
SELECT dc_add('visitors', '00000000-0000-0000-0000-000000000001'::uuid, ARRAY[1, 2]);
\set VERBOSITY sqlstate
SELECT dc_add('visitors', ROW(1, 2), 'x');
\set VERBOSITY default
SELECT dc_add('visitors', 'k', ROW(1, 2));
\set VERBOSITY sqlstate
SELECT dc_add('visitors', ARRAY['k'], 'x');
\set VERBOSITY default
SELECT dc_add_many('visitors', ARRAY[ROW(1, 2)], ARRAY['x']);
\set VERBOSITY sqlstate
SELECT dc_add_many('visitors', VARIADIC ARRAY['x']);
\set VERBOSITY default
SELECT dc_add_many('visitors', ARRAY['k'], ARRAY['x', 'y']);
SELECT dc_add_many('visitors', ARRAY['k', NULL], ARRAY['x', 'y']);
SELECT dc_add_many('visitors', ARRAY['k', 'k'], ARRAY['x', NULL]);
SELECT dc_add('visitors', NULL, 'x');
SELECT dc_add('visitors', 'k', NULL);
SELECT dc_add(NULL::text, 'k', 'x');
SELECT dc_add('visitors', repeat('k', 1025), 'x');
SELECT dc_add('visitors', repeat('k', 1024), repeat('x', 1000000));
SELECT dc_add('visitors', 'k', 'x', now());
SELECT dc_add('nothing', 'k', 'x');
SELECT dc_add('pg_class', 'k', 'x');
SELECT dc_get('visitors', 'k');

-- savepoints, what the transaction itself reads, and what is written early
BEGIN;
SELECT dc_add('visitors', 'sp', 'a');
SAVEPOINT a;
SELECT dc_add('visitors', 'sp', 'b');
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
ROLLBACK TO a;
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
SAVEPOINT b;
SELECT dc_add('visitors', 'sp', 'c');
RELEASE b;
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
SAVEPOINT c;
ALTER TABLE visitors SET (fillfactor = 70); -- writes what is pending
SELECT rows_of('visitors_delta') > 0 AS written;
SELECT dc_add('visitors', 'sp', 'c'), dc_add('visitors', 'sp', 'd');
ROLLBACK TO c;
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
COMMIT;
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
SELECT dc_add('visitors', 'sp', 'd'); -- was rolled back, so it is not known
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
-- rows that the session has read of its own, and that are rolled back, are not known
BEGIN;
SET LOCAL synchronous_commit = off; -- else what is known has to be on disk
SAVEPOINT a;
SELECT dc_add_many('visitors', array_agg('own' || i), array_agg('x'::text)) FROM generate_series(1, 1001) AS i; -- too many to read before
ALTER TABLE rows_dummy SET (fillfactor = 75);
SELECT dc_add('visitors', 'own1', 'y');
ALTER TABLE rows_dummy SET (fillfactor = 75);
ROLLBACK TO a;
SELECT dc_add('visitors', 'own1', 'x');
COMMIT;
SELECT round(estimate) FROM dc_distinct('visitors', 'own1');
SET dcounter.pending_memory = 64;
BEGIN;
SELECT dc_add_many('visitors', array_agg('m' || i % 500), array_agg(i)) FROM generate_series(1, 5000) AS i;
ROLLBACK;
SELECT round(estimate) FROM dc_distinct('visitors', 'm1');
SELECT dc_add_many('visitors', array_agg('m' || i % 500), array_agg(i)) FROM generate_series(1, 5000) AS i;
SELECT min(round(estimate)), max(round(estimate)) FROM generate_series(0, 499) AS i, dc_distinct('visitors', 'm' || i);
RESET dcounter.pending_memory;

-- many deltas and many that are gone, which scans step over
SELECT format('SELECT dc_add_many(%L, array_agg(%L || i %% 700), array_agg(%s * 10000 + i)) FROM generate_series(1, 5000) AS i', 'visitors', 'gone', r) AS add,
	'CALL dc_maintain()' AS fold FROM generate_series(1, 8) AS r \gexec
SELECT rows_of('visitors_delta'), min(round(estimate)) > 50, max(round(estimate)) < 65 FROM generate_series(0, 699) AS i, dc_distinct('visitors', 'gone' || i);
-- taking away: what the session knew is forgotten
SELECT dc_distinct_reset('visitors', 'sp');
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
SELECT dc_add('visitors', 'sp', 'a');
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
BEGIN;
TRUNCATE visitors, visitors_delta;
SELECT dc_add('visitors', 'sp', 'a');
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
ROLLBACK;
SELECT dc_add('visitors', 'sp', 'z');
TRUNCATE visitors, visitors_delta;
SELECT dc_add('visitors', 'sp', 'z');
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
BEGIN;
SELECT dc_distinct_reset('visitors', 'sp');
SELECT dc_add('visitors', 'sp', 'z');
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
COMMIT;
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');

-- isolation levels, read-only transactions
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT dc_add('visitors', 'sp', 'z'), dc_add('visitors', 'sp', 'y');
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
COMMIT;
BEGIN READ ONLY;
SELECT round(estimate) FROM dc_distinct('visitors', 'sp');
SELECT dc_add('visitors', 'sp', 'z');
ROLLBACK;

-- rights
CREATE ROLE regress_dc_distinct;
SET ROLE regress_dc_distinct;
SELECT dc_add('visitors', 'sp', 'z');
SELECT * FROM dc_distinct('visitors', 'sp');
SELECT dc_distinct_reset('visitors', 'sp');
SELECT dc_distinct_drop('visitors');
SELECT dc_distinct_alter('visitors', NULL);
RESET ROLE;
GRANT INSERT, UPDATE ON visitors TO regress_dc_distinct;
SET ROLE regress_dc_distinct;
SELECT dc_add('visitors', 'sp', 'z');
SELECT * FROM dc_distinct('visitors', 'sp');
RESET ROLE;
REVOKE ALL ON visitors FROM regress_dc_distinct;
SET ROLE regress_dc_distinct;
SELECT dc_add('visitors', 'sp', 'z');
RESET ROLE;
DROP ROLE regress_dc_distinct;

SELECT name, precision, bucket, keep FROM dc_distinct_tables;
SELECT dc_distinct_drop('visitors');
SELECT count(*) FROM dc_distinct_tables;
SELECT to_regclass('visitors'), to_regclass('visitors_delta');
DROP FUNCTION rows_of;
DROP TABLE rows_dummy;
DROP DOMAIN word;
