-- The views dc_stat_outbox and dc_stat_consumers
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET timezone = 'UTC';
-- Numbers go on from the tests before: the last one
SELECT last_seq AS base FROM dc_stat_outbox \gset
CREATE TABLE base AS SELECT :base::bigint AS seq;
GRANT SELECT ON base TO PUBLIC;
CREATE VIEW state AS SELECT last_seq - seq AS last, horizon - seq AS horizon, held_back, held_back_by_pid AS pid, held_back_by_gid AS gid,
	oldest_needed_seq - seq AS needed, oldest_needed_by AS by FROM dc_stat_outbox, base;
CREATE VIEW consumers AS SELECT name, owner::text = session_user AS mine, topics, "position" - seq AS "position", lag_events, lag_seconds > 0 AS late, outstanding, retries, dead_letters AS dead, attempts, members, leases_expired AS expired,
	cut_off - seq AS cut_off, held_back_by_pid AS pid, held_back_by_gid AS gid FROM dc_stat_consumers, base ORDER BY name COLLATE "C";
GRANT SELECT ON state, consumers TO PUBLIC;

-- One row, always
SELECT count(*), bool_and(held_back = 0 AND last_seq = horizon) FROM dc_stat_outbox;
SELECT count(*) FROM dc_stat_consumers;
SELECT * FROM state;

-- Events of some topics
SELECT dc_consumer_create('regress_all'), dc_consumer_create('regress_a', '{a}'), dc_consumer_create('regress_none', '{nothing}');
SELECT * FROM consumers;
SELECT * FROM state;
SELECT dc_publish('a', 'k', 'test', jsonb_build_object('i', i)) IS NULL, dc_publish('b', 'k', 'test', NULL) IS NULL FROM generate_series(1, 5) i;
BEGIN; SELECT dc_publish('a', 'k', 'test', NULL) IS NULL; SELECT last, horizon FROM state; ROLLBACK;
SELECT * FROM state;
SELECT * FROM consumers;
-- what is stored: at most as many events as there are numbers
SELECT events >= 10, events = horizon - oldest_seq + 1, events >= (SELECT count(*) FROM dcounter.outbox), oldest_seq = (SELECT min(seq) FROM dcounter.outbox),
	oldest_created_at = (SELECT created_at FROM dcounter.outbox ORDER BY seq LIMIT 1) FROM dc_stat_outbox;
SELECT bytes = (SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'dcounter.outbox'::regclass),
	partitions = (SELECT count(*) FROM pg_inherits WHERE inhparent = 'dcounter.outbox'::regclass AND pg_relation_size(inhrelid) > 0),
	current_partition = current, current_since = since FROM dc_stat_outbox, dcounter.outbox_ring;
SELECT name, lag_seconds BETWEEN 0 AND 3600, lag_bytes > 0, lag_bytes < bytes FROM dc_stat_consumers, dc_stat_outbox ORDER BY name;

-- Fetched, acknowledged, sent back, given up
SELECT count(*) FROM dc_fetch('regress_all', 4);
SELECT count(*) FROM dc_fetch('regress_a', 2);
SELECT * FROM consumers;
SELECT count(*) FROM dc_fetch('regress_all', 4);
SELECT attempts FROM consumers WHERE name = 'regress_all';
SELECT dc_ack('regress_all', seq + 3) FROM base;
SELECT * FROM consumers WHERE name = 'regress_all';
SELECT * FROM state;
SELECT dc_ack('regress_all', seq + 4) FROM base;
SELECT * FROM consumers WHERE name = 'regress_all';
SELECT dc_consumer_alter('regress_a', max_attempts => 2, on_nack => 'skip');
SELECT dc_nack('regress_a', seq + 1, '0') FROM base;
SELECT dc_ack('regress_a', seq + 3) FROM base;
SELECT * FROM consumers WHERE name = 'regress_a';
SELECT seq - (SELECT seq FROM base), attempt FROM dc_fetch('regress_a', 1);
SELECT * FROM consumers WHERE name = 'regress_a';
SELECT dc_nack('regress_a', seq + 1, '0') FROM base;
SELECT * FROM consumers WHERE name = 'regress_a';
SELECT count(*) FROM dc_dead_letters WHERE consumer = 'regress_a';
-- all done: no lag
SELECT count(*) FROM dc_fetch('regress_all');
SELECT dc_ack('regress_all', seq + 10) FROM base;
SELECT name, lag_events, lag_seconds, outstanding, lag_bytes FROM dc_stat_consumers WHERE name = 'regress_all';
SELECT * FROM state;

-- Members and their leases
SELECT count(dc_publish('a', format('key %s', i), 'test', NULL)) FROM generate_series(1, 64) i;
SELECT dc_consumer_alter('regress_all', lease => '1 hour');
SELECT count(*) FROM dc_fetch('regress_all', 5, member => 'one');
SELECT * FROM consumers WHERE name = 'regress_all';
SELECT lease_until BETWEEN now() + interval '59 minutes' AND now() + interval '61 minutes' FROM dc_stat_consumers WHERE name = 'regress_all';
SELECT count(*) FROM dc_fetch('regress_all', 5, member => 'two');
SELECT lag_events, outstanding, members, expired FROM consumers WHERE name = 'regress_all';

-- More than is looked at: an upper bound, and the oldest event of interest is not older than said
SELECT count(dc_publish('b', 'k', 'test', NULL)) FROM generate_series(1, 12000) i;
SELECT count(dc_publish('nothing', 'k', 'test', NULL)) FROM generate_series(1, 3) i;
SELECT name, lag_events, lag_seconds > 0 FROM dc_stat_consumers ORDER BY name COLLATE "C";
SELECT dc_seek('regress_none', seq + 10000) FROM base;
SELECT name, lag_events, lag_seconds > 0 FROM dc_stat_consumers WHERE name = 'regress_none';
SELECT * FROM state;

-- Other partitions
UPDATE dcounter.outbox_ring SET current = 1;
\c
\pset format unaligned
\pset tuples_only on
SELECT dc_publish('nothing', 'k', 'test', NULL) IS NULL;
SELECT partitions, current_partition FROM dc_stat_outbox;
SELECT lag_events FROM dc_stat_consumers WHERE name = 'regress_none';
SELECT s.bytes = sum(pg_total_relation_size(inhrelid)) FROM dc_stat_outbox s, pg_inherits WHERE inhparent = 'dcounter.outbox'::regclass GROUP BY s.bytes;
SELECT dc_seek('regress_none', horizon - 1) FROM dc_stat_outbox;
SELECT lag_events, lag_bytes = pg_total_relation_size('dcounter.outbox_1') FROM dc_stat_consumers WHERE name = 'regress_none';
SELECT dc_seek('regress_none', horizon) FROM dc_stat_outbox;
SELECT lag_events, lag_bytes FROM dc_stat_consumers WHERE name = 'regress_none';

-- Who sees what: a consumer's owner, its readers, roles that read all statistics
CREATE ROLE regress_dc_o1;
CREATE ROLE regress_dc_o2;
CREATE ROLE regress_dc_o3 IN ROLE pg_read_all_stats;
GRANT EXECUTE ON FUNCTION dc_consumer_create(text, text[], text, boolean) TO regress_dc_o1;
SET ROLE regress_dc_o1;
SELECT dc_consumer_create('regress_first', start => 'beginning'), dc_consumer_create('regress_own');
SELECT name, owner FROM dc_stat_consumers ORDER BY name COLLATE "C";
SELECT by FROM state;
RESET ROLE;
SET ROLE regress_dc_o2;
SELECT count(*) FROM dc_stat_consumers;
SELECT needed IS NOT NULL, by FROM state;
RESET ROLE;
SET ROLE regress_dc_o1;
SELECT dc_consumer_grant('regress_own', 'regress_dc_o2');
RESET ROLE;
SET ROLE regress_dc_o2;
SELECT name, owner FROM dc_stat_consumers ORDER BY name COLLATE "C";
SELECT by FROM state;
RESET ROLE;
SET ROLE regress_dc_o3;
SELECT name FROM dc_stat_consumers ORDER BY name COLLATE "C";
SELECT by FROM state;
RESET ROLE;
-- A consumer that was cut off no longer needs anything
UPDATE dcounter.consumer SET cut_off = (SELECT seq FROM base) + 5 WHERE name = 'regress_first';
SELECT cut_off FROM consumers WHERE name = 'regress_first';
SELECT by FROM state;
-- Read-only, and serializable
BEGIN READ ONLY ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM dc_stat_outbox;
SELECT count(*) FROM dc_stat_consumers;
COMMIT;

SELECT dc_consumer_drop(name) FROM (VALUES ('regress_all'), ('regress_a'), ('regress_none'), ('regress_first'), ('regress_own')) v(name);
SELECT count(*) FROM dc_stat_consumers;
SELECT needed, by FROM state;
UPDATE dcounter.outbox_ring SET current = 0;
DROP VIEW state, consumers;
DROP TABLE base;
REVOKE EXECUTE ON FUNCTION dc_consumer_create(text, text[], text, boolean) FROM regress_dc_o1;
DROP ROLE regress_dc_o1, regress_dc_o2, regress_dc_o3;
