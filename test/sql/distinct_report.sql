-- dc_distinct_report(): the distinct items of all keys and buckets, compared with what dc_distinct_buckets() says of each key.
SET client_min_messages = warning;
SET timezone = 'UTC';
SET extra_float_digits = 0;
SELECT dc_distinct_create('daily', 10, bucket => '1 day');
SELECT dc_distinct_create('plain', 10);
CREATE TABLE added (key text COLLATE "C", day date, item text);
-- keys that begin like each other, with the byte that separates key and bucket
CREATE TABLE keys AS SELECT k COLLATE "C" AS key FROM unnest(ARRAY['', 'a', 'aa', 'a' || chr(1), 'a' || chr(1) || '00002600', 'a' || chr(2), 'zürich', repeat('k', 1000)]) AS k;
CREATE FUNCTION add(n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	WITH new AS (
		INSERT INTO added SELECT key, date '2026-03-01' + d, 'item ' || hashtext(n || key || d || i) % 40
		FROM keys, generate_series(0, 4) AS d, generate_series(1, 1 + abs(hashtext(n || key || d)) % 30) AS i
		WHERE hashtext(n || key || d) % 3 <> 0 RETURNING key, day, item)
	SELECT count(dc_add('daily', key, item, day)), count(dc_add('plain', key, item)) FROM new INTO n;
END $$;
-- what differs: of each key and bucket, and of those that it should have, and should not
CREATE FUNCTION wrong(since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL) RETURNS TABLE (what text, key text, bucket timestamptz) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY
	WITH report AS MATERIALIZED (SELECT * FROM dc_distinct_report('daily', since, until)),
		keywise AS MATERIALIZED (SELECT k.key, b.* FROM keys AS k, dc_distinct_buckets('daily', k.key, since, until) AS b),
		both_ways AS ((TABLE report EXCEPT ALL TABLE keywise) UNION ALL (TABLE keywise EXCEPT ALL TABLE report))
	SELECT 'daily', b.key, b.bucket FROM both_ways AS b
	UNION ALL
	SELECT 'missing', a.key, a.day::timestamptz FROM added AS a WHERE a.day >= coalesce(since, '-infinity') AND a.day < coalesce(until, 'infinity')
		AND NOT EXISTS (SELECT FROM report AS r WHERE r.key = a.key AND r.bucket = a.day)
	UNION ALL
	SELECT 'plain', p.key, p.bucket FROM (
		SELECT * FROM dc_distinct_report('plain') EXCEPT ALL
		SELECT a.key, NULL, d.* FROM (SELECT DISTINCT added.key FROM added) AS a, dc_distinct('plain', a.key) AS d) AS p;
END $$;
SELECT * FROM dc_distinct_report('daily');
SELECT add(1);
SELECT * FROM wrong();
-- an estimate of few items is their number
SELECT count(*) FROM dc_distinct_report('daily') AS r
	WHERE estimate <> (SELECT count(DISTINCT item) FROM added AS a WHERE a.key = r.key AND a.day = r.bucket);
CALL dc_maintain();
SELECT * FROM wrong();
-- folded, not folded, and pending, also in a subtransaction that is rolled back
SELECT add(2);
BEGIN;
SELECT add(3);
SAVEPOINT s;
SELECT dc_add('daily', 'rolled back', 'item', '2026-03-02');
SELECT count(*) FROM dc_distinct_report('daily') WHERE key = 'rolled back';
ROLLBACK TO s;
SELECT count(*) FROM dc_distinct_report('daily') WHERE key = 'rolled back';
SELECT * FROM wrong();
SELECT * FROM wrong('2026-03-02', '2026-03-04');
COMMIT;
SELECT * FROM wrong();
SELECT * FROM wrong('2026-03-02');
SELECT * FROM wrong(NULL, '2026-03-02 00:00:01');
SELECT * FROM wrong('2026-03-02', '2026-03-01');
SELECT * FROM wrong('infinity', '-infinity');
SELECT count(*), count(DISTINCT key), count(DISTINCT bucket), min(bucket), max(bucket) FROM dc_distinct_report('daily', '2026-03-02', '2026-03-04');
SELECT count(*), count(bucket) FROM dc_distinct_report('plain');
-- a row that somebody has made by hand is no bucket's
INSERT INTO daily SELECT 'by hand', sketch FROM daily LIMIT 1;
SELECT * FROM wrong();
-- rights, and what is not there
SELECT dc_distinct_report('plain', now());
SELECT dc_distinct_report('plain', NULL, now());
SELECT dc_distinct_report('added');
SELECT dc_distinct_report(NULL);
CREATE ROLE regress_dc_reader;
SET ROLE regress_dc_reader;
SELECT dc_distinct_report('daily');
RESET ROLE;
GRANT SELECT ON daily TO regress_dc_reader;
SET ROLE regress_dc_reader;
SELECT count(*) > 0 FROM dc_distinct_report('daily');
RESET ROLE;
REVOKE SELECT ON daily FROM regress_dc_reader;
DROP ROLE regress_dc_reader;
SELECT dc_distinct_drop('daily'), dc_distinct_drop('plain');
DROP FUNCTION add, wrong;
DROP TABLE keys, added;
