-- What a clean restart keeps of shared memory, on a server that is preloaded; after fill.sql.
\set ON_ERROR_STOP on
\set QUIET on
\pset format unaligned
\pset tuples_only on
\o /dev/null
SET search_path = rooms, public;

SELECT dc_create('pings', mode => 'buffered', flush_interval => '1 hour');
SELECT dc_incr('pings', 'host:' || i % 3, i) FROM generate_series(1, 10) AS i;
SELECT dc_limit('login', 'ip:192.0.2.1', 3), dc_limit('export', 'customer:7'), dc_limit('export', 'customer:7');
SELECT dc_enter('chat', 'lobby', 'ann', '', '{"nick": "A"}'), dc_enter('chat', 'lobby', 'bob', 'phone'), dc_enter('chat', 'hall', 'bob');
SELECT dc_enter('stadium', 'final', 'fan ' || i) FROM generate_series(1, 100) AS i;
