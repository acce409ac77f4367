-- The database's name, and stamps of its clock. How it gets over crashes: test/t/crdt/crdt_clock.pl
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
\pset null NULL
\set VERBOSITY sqlstate

-- No name, no stamps
SELECT dc_node();
SELECT dc_hlc_now();
SELECT dc_hlc_after('{"time": 1, "node": "us"}');
\set VERBOSITY terse
\set VERBOSITY default
SELECT dc_node();
\set VERBOSITY terse
SHOW dcounter.node;
SET dcounter.node = E'a\nb';
SELECT set_config('dcounter.node', repeat('n', 65), false);
SELECT length(set_config('dcounter.node', repeat('n', 64), false)), length(dc_node());
SET dcounter.node = E'a\x7f';
SET dcounter.node = 'eu:1 "x"';
SELECT dc_node(), dc_hlc_node(dc_hlc_now());
SET dcounter.node = '';
SELECT dc_node();
SET dcounter.node = 'eu';
SELECT dc_node(), dc_hlc_node(dc_hlc_now());

-- Only a superuser says who this is, and what clocks may be off
CREATE ROLE regress_dc_clock;
SET ROLE regress_dc_clock;
SET dcounter.node = 'us';
SET dcounter.clock_drift = 0;
SELECT dc_node(), dc_hlc_now() < dc_hlc_now();
SELECT last_value FROM dcounter.hlc_clock;
SELECT nextval('dcounter.hlc_clock');
RESET ROLE;
SHOW dcounter.clock_drift;
-- what it says depends on the release
\set VERBOSITY sqlstate
SET dcounter.clock_drift = -1;
\set VERBOSITY terse

-- Each stamp is later than all before it
SELECT count(*), count(DISTINCT s), bool_and(s > before) FROM (SELECT s, lag(s) OVER (ORDER BY i) AS before FROM (SELECT i, dc_hlc_now() AS s FROM generate_series(1, 1000) AS i OFFSET 0) AS x) AS y;
SELECT dc_hlc_now() AS first \gset
BEGIN;
SELECT dc_hlc_now() > :'first' AS later, dc_hlc_now() AS second \gset
SELECT :'later';
ROLLBACK;
SELECT dc_hlc_now() > :'second', dc_hlc_after(:'second') > :'second';
SELECT dc_hlc_time(:'first') BETWEEN now() - interval '10 min' AND now(), dc_hlc_node(:'first');
SELECT dc_hlc_time('{"time": 0, "node": "us"}') AT TIME ZONE 'UTC', dc_hlc_node('{"time": 0, "node": "us"}'),
	dc_hlc_time('{"time": 253402300799999999, "node": "us"}') AT TIME ZONE 'UTC';
SELECT dc_hlc_after(NULL), dc_hlc_time(NULL), dc_hlc_node(NULL);

-- lastval() is that of the user's own sequences
CREATE SEQUENCE own START 7;
SELECT nextval('own'), dc_hlc_now() IS NULL, lastval();

-- A transaction that may not write, and a worker of a parallel query
BEGIN READ ONLY;
SELECT dc_node();
\set VERBOSITY sqlstate
SELECT dc_hlc_now();
ROLLBACK;
\set VERBOSITY terse
BEGIN;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL parallel_leader_participation = off;
CREATE TABLE parallel AS SELECT i FROM generate_series(1, 1000) AS i;
ANALYZE parallel;
SELECT count(*) FROM parallel WHERE dc_node() = 'eu';
ROLLBACK;

-- Stamps of elsewhere: 10 s ahead are within the drift, 120 s are not
CREATE FUNCTION ahead(seconds int) RETURNS dc_hlc LANGUAGE sql AS
	$$SELECT format('{"time": %s, "node": "us"}', (extract(epoch FROM clock_timestamp()) * 1e6)::bigint + seconds * 1000000::bigint)::dc_hlc$$;
CREATE FUNCTION is_after(stamp dc_hlc) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN dc_hlc_after(stamp) > stamp;
EXCEPTION WHEN OTHERS THEN
	RETURN concat(sqlstate, ' ', regexp_replace(sqlerrm, '\d+', 'N'));
END $$;
SELECT is_after(ahead(-10));
SELECT is_after(ahead(120));
SELECT dc_hlc_time(dc_hlc_now()) < now() + interval '1 min';
SET dcounter.clock_drift = 0;
SELECT is_after(ahead(10));
SET dcounter.clock_drift = '5 min';
SELECT ahead(10) AS seen \gset
SELECT is_after(:'seen'), dc_hlc_now() > :'seen';
SELECT ahead(120) AS seen \gset
SELECT is_after(:'seen'), dc_hlc_now() > :'seen';
-- which this clock has reached now, so that they do no harm
SET dcounter.clock_drift = 0;
SELECT is_after(:'seen'), is_after(ahead(240));
RESET dcounter.clock_drift;
SELECT is_after('{"time": 253402300799999999, "node": "us"}');

-- One that is made here may be half as far ahead as one that comes by a link
SELECT setval('dcounter.hlc_clock', 1);
SELECT is_after(ahead(20)), is_after(ahead(40));
SET session_replication_role = replica;
SELECT is_after(ahead(40)), is_after(ahead(120));
RESET session_replication_role;

-- The end of time
SELECT setval('dcounter.hlc_clock', 253402300799999998);
SELECT dc_hlc_now();
\set VERBOSITY sqlstate
SELECT dc_hlc_now();
SELECT dc_hlc_after('{"time": 253402300799999999, "node": "us"}');
\set VERBOSITY terse
SELECT dc_hlc_now();
SELECT setval('dcounter.hlc_clock', 1), is_after(ahead(0));

DROP FUNCTION ahead, is_after;
DROP SEQUENCE own;
DROP ROLE regress_dc_clock;
