-- Distinct tables with buckets of time.
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT dc_distinct_create('daily', bucket => '1 day', keep => '100 years'::interval);
SELECT dc_distinct_create('daily', bucket => '1 month');
SELECT dc_distinct_create('daily', bucket => '0.5 s');
SELECT dc_distinct_create('daily', keep => '1 day');
SELECT dc_distinct_create('daily', bucket => '1 day', keep => '1 hour');
SELECT dc_distinct_create('daily', 9);
SELECT dc_distinct_create('daily', 12, bucket => '1 day', keep => '10000 days');
-- 3 visitors a day, of whom one comes each day
SELECT count(*) FROM (SELECT dc_add('daily', 'home', v, timestamptz '2026-03-01 12:00' + d * interval '1 day')
	FROM generate_series(0, 9) AS d, LATERAL (VALUES ('same'), ('a' || d), ('b' || d)) AS x(v)) AS s;
SELECT bucket, round(estimate) AS n FROM dc_distinct_buckets('daily', 'home');
SELECT round(estimate) FROM dc_distinct('daily', 'home');
SELECT round(estimate) FROM dc_distinct('daily', 'home', '1 day', '2026-03-02');
SELECT round(estimate) FROM dc_distinct('daily', 'home', '3 days', '2026-03-04');
SELECT round(estimate) FROM dc_distinct('daily', 'home', '3 days', '2026-03-04 00:00:01');
SELECT round(estimate) FROM dc_distinct_union('daily', ARRAY['home', 'home'], '3 days', '2026-03-04');
CALL dc_maintain();
SELECT bucket, round(estimate) AS n FROM dc_distinct_buckets('daily', 'home', '2026-03-03', '2026-03-05');
SELECT bucket, round(estimate) AS n FROM dc_distinct_buckets('daily', 'home', NULL, '2026-03-03');
SELECT bucket, round(estimate) AS n FROM dc_distinct_buckets('daily', 'home', 'infinity', '-infinity');
SELECT bucket, newest FROM dc_distinct_tables;
-- rows of a key that begins as those of another one
SELECT dc_add('daily', 'home' || chr(1) || '00002600', 'other', timestamptz '2026-03-01');
SELECT round(estimate) FROM dc_distinct('daily', 'home');
CALL dc_maintain();
SELECT round(estimate) FROM dc_distinct('daily', 'home');
-- an item that is pending in two buckets
BEGIN;
SELECT dc_add('daily', 'p', 'x', '2026-03-02'), dc_add('daily', 'p', 'y', '2026-03-01'), dc_add('daily', 'p', 'x', '2026-03-01');
SELECT bucket, round(estimate) AS n FROM dc_distinct_buckets('daily', 'p');
COMMIT;
SELECT bucket, round(estimate) AS n FROM dc_distinct_buckets('daily', 'p');
\set VERBOSITY terse
SELECT dc_add('daily', 'p', 'x', now() + interval '3 days');
\set VERBOSITY default
SELECT dc_add('daily', 'p', 'x', '1999-01-01');
SELECT dc_add('daily', 'p', 'x', '-infinity');
SELECT dc_distinct('daily', 'p', '0 s');
SELECT dc_distinct('daily', 'p', '-1 day');
-- keep: what is over goes, by the clock and by what the table has seen
SELECT dc_distinct_alter('daily', '30 days');
SELECT dc_add('daily', 'p', 'x', '2020-01-01');
CALL dc_maintain();
SELECT count(*) FROM daily; -- the newest bucket is of March, so nothing of it is over
SELECT dc_add('daily', 'p', 'today');
CALL dc_maintain();
CALL dc_maintain();
SELECT key ~ '^p', count(*) FROM daily GROUP BY 1 ORDER BY 1; -- nor while one bucket says so: the clock may be ahead
SELECT dc_add('daily', 'p', 'tomorrow', now() + interval '1 day');
CALL dc_maintain();
CALL dc_maintain();
SELECT key ~ '^p', count(*) FROM daily GROUP BY 1;
SELECT round(estimate) FROM dc_distinct('daily', 'home');
SELECT dc_distinct_alter('daily', '1 hour');
SELECT dc_distinct_alter('daily', NULL);
SELECT keep FROM dc_distinct_tables;
SELECT dc_distinct_reset('daily', 'p');
SELECT round(estimate) FROM dc_distinct('daily', 'p');
-- many buckets
SELECT dc_distinct_create('seconds', 10, bucket => '1 s');
SELECT count(*) FROM (SELECT dc_add('seconds', 'k', i, timestamptz '2026-01-01' + i * interval '1 s') FROM generate_series(1, 3000) AS i) AS s;
CALL dc_maintain();
SELECT count(*), round(sum(estimate)) FROM dc_distinct_buckets('seconds', 'k');
SELECT dc_distinct_create('plain');
SELECT dc_distinct('plain', 'k', '1 day');
SELECT dc_distinct_buckets('plain', 'k');
SELECT dc_distinct_alter('plain', '1 day');
SELECT dc_distinct_drop('daily'), dc_distinct_drop('seconds'), dc_distinct_drop('plain');
