-- Compacted values: dc_total(), dc_top(), and dc_maintain()
\pset tuples_only on
\pset format unaligned
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA regress_totals;
SET search_path = regress_totals, public;
SELECT dc_create('likes', totals => 'compacted');
SELECT dc_create('parts', partitions => 3);
SELECT * FROM dc_total('likes', 'a');
SELECT dc_incr('likes', 'a', 10), dc_decr('likes', 'a', 3), dc_incr('parts', 'a', 5);
-- not compacted yet: the total is old, the exact value is not
SELECT value, updated_at, dc_get('likes', 'a') FROM dc_total('likes', 'a');
CALL dc_maintain();
SELECT value, updated_at IS NOT NULL, dc_get('likes', 'a') FROM dc_total('likes', 'a');
SELECT value, updated_at IS NOT NULL, dc_get('parts', 'a') FROM dc_total('parts', 'a');
-- what this transaction has not committed is no total either
BEGIN;
SELECT dc_incr('likes', 'a', 100);
SELECT value, dc_get('likes', 'a') FROM dc_total('likes', 'a');
ROLLBACK;
-- the other types of keys
SELECT dc_set('likes', 7, 70), dc_set('likes', '00000000-0000-0000-0000-000000000007'::uuid, 700);
CALL dc_maintain();
SELECT value FROM dc_total('likes', 7) UNION ALL SELECT value FROM dc_total('likes', '00000000-0000-0000-0000-000000000007'::uuid);

-- dc_top: highest first, equal ones of one rank in the order of their keys
SELECT dc_set('likes', k, v) IS NULL FROM (VALUES ('b', 70), ('A', 70), ('zero', 0), ('low', -5)) AS t(k, v);
CALL dc_maintain();
SELECT * FROM dc_top('likes');
SELECT * FROM dc_top('likes', 3);
SELECT * FROM dc_top('likes', 0);
SELECT * FROM dc_top('parts', 1);
-- by an index on value, even one that is created later
CREATE INDEX ON likes (value);
SELECT * FROM dc_top('likes', 3);
INSERT INTO likes (key, inc, dec) SELECT 'key ' || i, i, 0 FROM generate_series(1000, 3000) i;
ANALYZE likes;
SELECT * FROM dc_top('likes', 3);
CREATE FUNCTION top_uses_index() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found boolean := false;
BEGIN
	SET LOCAL enable_seqscan = off;
	FOR line IN EXECUTE 'EXPLAIN SELECT t.key, t.value FROM likes AS t WHERE t.value IS NOT NULL ORDER BY t.value DESC, t.key COLLATE "C" LIMIT 3' LOOP
		found := found OR line LIKE '%Index Scan Backward using likes_value_idx%';
	END LOOP;
	RETURN found;
END $$;
SELECT top_uses_index();

-- errors
SELECT dc_total(NULL::regclass, 'a');
SELECT dc_total('likes', NULL::text);
SELECT dc_total('pg_class', 'a');
SELECT dc_top(NULL);
SELECT dc_top('likes', NULL);
SELECT dc_top('likes', -1);
CREATE ROLE regress_dc_reader;
GRANT USAGE ON SCHEMA regress_totals TO regress_dc_reader;
SET ROLE regress_dc_reader;
SELECT dc_total('likes', 'a');
SELECT * FROM dc_top('likes');
RESET ROLE;
GRANT SELECT ON likes TO regress_dc_reader;
SET ROLE regress_dc_reader;
SELECT value FROM dc_total('likes', 'a');
SELECT * FROM dc_top('likes', 1);
RESET ROLE;
-- the jobs are for the tables of the caller
SELECT dc_incr('likes', 'mine');
SET ROLE regress_dc_reader;
CALL dc_maintain();
SELECT value, dc_get('likes', 'mine') FROM dc_total('likes', 'mine');
RESET ROLE;

-- dc_maintain: a table that fails is a warning, and stops no other
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON likes FOR EACH ROW EXECUTE FUNCTION refuse();
SELECT dc_incr('likes', 'a'), dc_incr('parts', 'a');
CALL dc_maintain();
SELECT t.value, dc_get('likes', 'a'), p.value, dc_get('parts', 'a') FROM dc_total('likes', 'a') AS t, dc_total('parts', 'a') AS p;
-- in a transaction block it cannot commit: the error is one
SELECT dc_incr('parts', 'a');
BEGIN;
CALL dc_maintain();
ROLLBACK;
DROP TRIGGER refuse ON likes;
BEGIN;
SELECT dc_incr('parts', 'a');
CALL dc_maintain();
SELECT t.value, dc_get('likes', 'a'), p.value, dc_get('parts', 'a') FROM dc_total('likes', 'a') AS t, dc_total('parts', 'a') AS p;
ROLLBACK;
SELECT t.value, dc_get('likes', 'a'), p.value, dc_get('parts', 'a') FROM dc_total('likes', 'a') AS t, dc_total('parts', 'a') AS p;
-- a warning may have characters that the client's encoding lacks
SELECT dc_create(U&'\6F22', totals => 'compacted') IS NULL;
CREATE TRIGGER refuse BEFORE INSERT ON U&"\6F22" FOR EACH ROW EXECUTE FUNCTION refuse();
SELECT dc_incr(U&'\6F22'::regclass, 'a');
SET client_encoding = 'LATIN1';
\set VERBOSITY default
CALL dc_maintain();
\set VERBOSITY terse
RESET client_encoding;
SELECT dc_drop(U&'\6F22'::regclass);
-- in small batches, each a transaction of its own
SELECT count(dc_incr('likes', 'k' || i)) FROM generate_series(1, 250) i;
SET dcounter.compact_batch = 10;
SELECT pg_current_xact_id()::text::bigint AS before \gset
CALL dc_maintain();
SELECT pg_current_xact_id()::text::bigint - :before > 25;
SELECT count(*) FROM likes_shard;
SELECT sum(value) FROM likes WHERE key LIKE 'k%' AND key NOT LIKE 'key%';
BEGIN READ ONLY;
CALL dc_maintain();
ROLLBACK;

-- no worker: there is none without preload, and the test install has sent it away
SELECT count(pid) FROM dc_stat_worker WHERE datname = current_database();
SHOW dcounter.worker;
SET dcounter.worker = off;
SET dcounter.nonsense = 1;
SET ROLE regress_dc_reader;
SELECT dc_worker_start();
SELECT dc_worker_stop();
RESET ROLE;
SELECT dc_worker_stop();
DROP SCHEMA regress_totals CASCADE;
DROP ROLE regress_dc_reader;
