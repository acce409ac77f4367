-- Events that come late, and events that are not to come
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SELECT last_seq AS base FROM dc_stat_outbox \gset

-- What a counter writes at the commit by SQL fires triggers
SELECT dc_create('late', partitions => 2);
SELECT dc_outbox_attach('late_shard', key_columns => '{key}', columns => '{inc}');
SELECT dc_incr('late', 'a', 2);
BEGIN;
SELECT dc_publish('t', 'b', 'test', NULL) IS NULL;
SELECT dc_incr('late', 'b', 3);
COMMIT;
SELECT aggregatetype, aggregateid, type, payload -> 'new' FROM dcounter.outbox WHERE seq > :base ORDER BY seq;

-- Events in a temporary file, all rolled back: the file is closed
SET work_mem = '64kB';
BEGIN;
SAVEPOINT a;
SELECT count(dc_publish('t', 'x', 'test', to_jsonb(repeat('x', 1000)))) FROM generate_series(1, 1000);
ROLLBACK TO a;
COMMIT;
SELECT count(*) FROM dcounter.outbox WHERE seq > :base;
DROP TABLE late, late_shard;
RESET work_mem;
