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
-- the file cannot be written: from a savepoint the transaction goes on
CREATE FUNCTION publish_sizes(kind text, sizes int[]) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(dc_publish('sizes', size::text, kind, to_jsonb(repeat(chr(65 + size % 57), size)))) FROM unnest(sizes) AS size $$;
SET temp_file_limit = '600kB';
\set VERBOSITY sqlstate
BEGIN;
SELECT publish_sizes('before', '{1,2,3}'), publish_sizes('before', ARRAY(SELECT generate_series(1, 3000, 20))), publish_sizes('before', '{150000,0,7}');
SAVEPOINT a;
SELECT publish_sizes('never', ARRAY(SELECT generate_series(1, 3000)));
ROLLBACK TO a;
SAVEPOINT b;
SELECT publish_sizes('never', '{700000}'), publish_sizes('never', '{700000}');
ROLLBACK TO b;
SELECT publish_sizes('after', ARRAY(SELECT generate_series(1000, 1, -20)));
COMMIT;
SELECT type, count(*), sum(aggregateid::bigint), bool_and(payload = to_jsonb(repeat(chr(65 + aggregateid::int % 57), aggregateid::int))) AS same
FROM dcounter.outbox WHERE aggregatetype = 'sizes' GROUP BY type ORDER BY min(seq);
BEGIN;
SAVEPOINT a;
SELECT publish_sizes('never', ARRAY(SELECT generate_series(1, 3000)));
ROLLBACK TO a;
COMMIT;
SELECT publish_sizes('never', ARRAY(SELECT generate_series(1, 3000)));
SELECT DISTINCT type FROM dcounter.outbox WHERE aggregatetype = 'sizes' ORDER BY type;
RESET temp_file_limit;
\set VERBOSITY terse
DROP FUNCTION publish_sizes;
RESET work_mem;
