-- Sampled counting: rounding at random, what is refused, and the error
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
\pset null NULL

SELECT dc_create('views', sample => 64);
SELECT sample, sample_max FROM dcounter.counter WHERE counter = 'views'::regclass;
SELECT settings -> 'sample' FROM dc_tables WHERE counter = 'views'::regclass;

-- Amounts are multiples of the sample, and near the truth: within 7 standard errors, but for one case in 10^11
SELECT count(dc_incr('views', 'k' || i % 10, 1 + i % 3)) FROM generate_series(1, 300000) AS i;
SELECT dc_compact('views') <= 10;
SELECT bool_and(inc % 64 = 0 AND dec = 0 AND value = inc), abs(sum(value) - 600000) < 7 * sqrt(600000 * 63.0) FROM views;
SELECT count(dc_decr('views', 'down')) FROM generate_series(1, 20000);
SELECT inc, dec % 64, abs(dec - 20000) < 7 * sqrt(20000 * 63.0), value = -dec FROM dc_info('views', 'down');
-- All ways to add
BEGIN;
SELECT count(dc_incr_hashed('views', 'h', i::text)), count(dc_incr_returning('views', 'r')) FROM generate_series(1, 20000) AS i;
SELECT dc_incr_many('views', array_agg('m'::text)) FROM generate_series(1, 20000);
SELECT dc_incr_many('views', array_agg('n'::text), array_agg(-3::bigint)) FROM generate_series(1, 20000);
SELECT key, value % 64, abs(value - CASE key WHEN 'n' THEN -60000 ELSE 20000 END) < 7 * sqrt(CASE key WHEN 'n' THEN 60000 ELSE 20000 END * 63.0)
FROM dc_get_many('views', ARRAY['h', 'r', 'm', 'n']);
COMMIT;
-- A multiple stays what it is
SELECT dc_incr('views', 'whole', 640), dc_incr('views', 'whole', -128);
SELECT dc_get('views', 'whole');
SELECT dc_incr('views', 'most', 9223372036854775807 / 64 * 64);
SELECT dc_get('views', 'most') = 9223372036854775807 / 64 * 64;
SELECT dc_incr('views', 'most', 64);
SELECT dc_get('views', 'most') = 9223372036854775807 / 64 * 64;

-- Most calls write nothing: no transaction gets a number. Of 2000, 31 do, 100 but for one case in 10^20, and none for one in 10^13
CREATE PROCEDURE run(INOUT written int, n int) LANGUAGE plpgsql AS $$
BEGIN
	written := 0;
	FOR i IN 1 .. n LOOP
		PERFORM dc_incr('views', 'few');
		PERFORM dc_apply();
		written := written + (pg_current_xact_id_if_assigned() IS NOT NULL)::int;
		COMMIT;
	END LOOP;
END $$;
SELECT dc_set('views', 'few', 0);
CREATE TABLE result (written int);
DO $$ DECLARE w int; BEGIN CALL run(w, 2000); INSERT INTO result VALUES (w); END $$;
SELECT written BETWEEN 1 AND 100, dc_get('views', 'few') = 64 * written FROM result;
-- Nor takes a lock, once the session knows the table
BEGIN;
SELECT dc_incr('views', 'few', 0);
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'views'::regclass;
COMMIT;
-- But says what it would have said
SELECT dc_incr('views', NULL::text);
SELECT dc_incr('views', 'k', NULL);
BEGIN READ ONLY;
SELECT dc_incr('views', 'k', 0);
ROLLBACK;
CREATE ROLE sample_user;
SELECT dc_incr('views', 'k', 0);
SET ROLE sample_user;
SELECT dc_incr('views', 'k', 0);
RESET ROLE;
GRANT INSERT, UPDATE ON views TO sample_user;
SET ROLE sample_user;
SELECT dc_incr('views', 'k', 0);
RESET ROLE;
REVOKE UPDATE ON views FROM sample_user;
SET ROLE sample_user;
SELECT dc_incr('views', 'k', 0);
RESET ROLE;
REVOKE ALL ON views FROM sample_user;
DROP ROLE sample_user;

-- The error: 1.96 times the root of (inc + dec + 3 p) (p - 1), and (p - 1) / 2, with the largest p that ever was
SELECT dc_set('views', 'set', 10000);
SELECT value, round(error::numeric, 6) FROM dc_info('views', 'set');
SELECT dc_reset('views', 'set');
SELECT value FROM dc_info('views', 'set');
SELECT value, round(error::numeric, 6) FROM dc_info('views', 'nothing');
SELECT dc_alter('views', sample => 16);
SELECT dc_set('views', 'set2', 10000);
SELECT round(error::numeric, 6) FROM dc_info('views', 'set2');
SELECT dc_alter('views', sample => 100);
SELECT round(error::numeric, 6) FROM dc_info('views', 'set2');
SELECT dc_alter('views', sample => 1);
SELECT dc_incr('views', 'exact', 7);
SELECT dc_get('views', 'exact');
SELECT sample, sample_max FROM dcounter.counter WHERE counter = 'views'::regclass;
SELECT dc_create('plain');
SELECT dc_incr('plain', 'a', 12345);
SELECT value, error FROM dc_info('plain', 'a');
-- dc_alter() takes effect in this session at once
SELECT dc_alter('plain', sample => 1000);
SELECT dc_incr('plain', 'b', 2000), dc_incr('plain', 'b', 5000);
SELECT dc_get('plain', 'b');

-- What must be exact cannot be sampled, and what is sampled cannot become that
SELECT dc_alter('plain', sample => 0);
SELECT dc_alter('plain', sample => 65537);
SELECT dc_create('wrong', sample => NULL);
SELECT dc_create('wrong', sample => -1);
SELECT dc_incr_once('plain', 'a', 1, 'op 1');
SELECT dc_unread_create('seen', 'plain');
CREATE TABLE source (k text);
SELECT dc_bind('plain', 'source', 'k', build => 'none');
SELECT dc_stock_create('tickets');
SELECT dc_alter('tickets', sample => 2);
SELECT dc_ledger_create('accounts');
SELECT dc_alter('accounts', sample => 2);
SELECT dc_create('ops');
SELECT dc_incr_once('ops', 'a', 1, 'op 1');
SELECT dc_alter('ops', sample => 2);
SELECT dc_alter('ops', sample => 1);
SELECT dc_create('read');
SELECT dc_unread_create('seen', 'read');
SELECT dc_alter('read', sample => 2);
SELECT dc_create('follows');
SELECT dc_bind('follows', 'source', 'k', build => 'none');
SELECT dc_alter('follows', sample => 2);

-- A partitioned table, and one with what runs on it
SELECT dc_create('parts', sample => 64, partitions => 2);
SELECT dc_incr('parts', 'k' || i, 128) FROM generate_series(1, 3) AS i;
SELECT dc_sum('parts');

DROP PROCEDURE run;
DROP TABLE result, seen, source CASCADE;
SELECT dc_drop(t) FROM unnest(ARRAY['views', 'plain', 'ops', 'read', 'parts', 'tickets', 'follows', 'accounts']::regclass[]) AS t;
