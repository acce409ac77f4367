-- A start of a server seals what was counted before. Where keys were set or deleted it is folded into the slot that is counted
-- in since, once another region has confirmed that this database is the only one of its epoch
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error; -- wal_level may be any
SELECT dc_region_init('eu') > 0;
SELECT dc_create('likes');
SELECT dc_replicate('likes');
CREATE FUNCTION is_sound() RETURNS boolean LANGUAGE sql AS $$SELECT keys = 0 AND inc = 0 AND "dec" = 0 FROM dc_region_check('likes') WHERE region IS NULL$$;
CREATE VIEW slots AS SELECT r.key, CASE WHEN r.epoch < 0 THEN 'sealed' ELSE '+' || r.epoch - s.epoch END AS slot, r.inc, r.dec, r.updated_at = '-infinity' AS is_back
	FROM likes_region AS r, dcounter.self AS s WHERE r.region = s.region ORDER BY r.key, r.epoch;
CREATE VIEW counted AS SELECT k AS key, dc_get('likes', k) AS value FROM unnest(ARRAY['again', 'closed', 'counted', 'fresh', 'set']) AS k;
-- another region, as an apply worker writes its beats
CREATE FUNCTION beat(peer text) RETURNS void LANGUAGE sql AS $$
	INSERT INTO dcounter.region VALUES (peer, 2048, '00000000-0000-4000-8000-000000000001', 1, 1, 1, now(), NULL, NULL) $$;
CREATE FUNCTION confirm(peer text) RETURNS void LANGUAGE sql AS $$
	UPDATE dcounter.region AS r SET seq = r.seq + 1, seen = (SELECT jsonb_build_object('eu', jsonb_build_array(o.epoch, o.seq, s.boot, 1800000000000000, NULL))
		FROM dcounter.region AS o, dcounter.self AS s WHERE o.region = s.region AND o.epoch = s.epoch) WHERE r.region = peer $$;
SET dcounter.region_handshake = '1h';

-- Keys that were counted, set, deleted, and counted since
SELECT dc_incr('likes', 'counted', 10), dc_incr('likes', 'closed', 5), dc_decr('likes', 'closed', 1), dc_incr('likes', 'again', 5), dc_compact('likes');
SELECT dc_delete('likes', 'closed'), dc_delete('likes', 'again'), dc_set('likes', 'set', 100);
SELECT dc_incr('likes', 'again', 3), dc_incr('likes', 'set', 2), dc_compact('likes');
TABLE slots;
TABLE counted;
-- the server starts
SELECT dc_incr('likes', 'counted', 1), dc_incr('likes', 'closed', 20), dc_incr('likes', 'again', 30), dc_decr('likes', 'set', 40), dc_incr('likes', 'fresh', 50);
SET session_replication_role = replica;
SELECT beat('us');
RESET session_replication_role;
UPDATE dcounter.self SET postmaster_start = postmaster_start - interval '1 hour';
CALL dc_maintain();
TABLE slots;
TABLE counted;
SELECT is_sound();
-- nobody may observe what is sealed; with a worker one would wait for it
SET dcounter.region_handshake = '100ms';
SELECT dc_set('likes', 'set', 1000);
SET dcounter.region_handshake = '1h';
-- what is counted meanwhile waits
SELECT dc_incr('likes', 'closed', 200), dc_incr('likes', 'again', 300);
CALL dc_maintain();
SELECT count(*) FROM likes_shard WHERE shard >= 0 AND inc > 0;
SET session_replication_role = replica;
SELECT confirm('us');
RESET session_replication_role;
CALL dc_maintain();
SELECT starting FROM dcounter.self;
TABLE slots;
TABLE counted;
SELECT is_sound();
SELECT dc_compact('likes') >= 0;
TABLE slots;
TABLE counted;
SELECT is_sound();

-- A slot that would leave bigint stays sealed
SELECT dc_incr('likes', 'much', 9223372036854775806), dc_compact('likes');
SELECT dc_incr('likes', 'much', 2), dc_incr('likes', 'set', 1);
UPDATE dcounter.self SET postmaster_start = postmaster_start - interval '1 hour';
CALL dc_maintain();
SET session_replication_role = replica;
SELECT confirm('us');
RESET session_replication_role;
CALL dc_maintain();
SELECT * FROM slots WHERE key IN ('much', 'set');
-- a set does not observe it
SELECT dc_set('likes', 'much', 5), dc_get('likes', 'much');
SELECT v.node ~ '^eu:[1-9]', v.inc FROM likes_set, dc_values(upto) AS v WHERE key = 'much';
SELECT is_sound();
DELETE FROM likes_region WHERE key = 'much';
DELETE FROM likes_set WHERE key = 'much';
DELETE FROM likes_shard WHERE key = 'much';
DELETE FROM likes WHERE key = 'much';

-- When nothing is left of deleted keys they are counted in slots that have never been
SELECT sum(dc_delete('likes', key)) FROM (SELECT DISTINCT key FROM likes_region UNION SELECT key FROM likes_set) AS k;
UPDATE dcounter.region SET retired_at = now() WHERE region = 'us';
SELECT dc_region_vacuum('likes', '0');
ALTER TABLE likes_set ADD note float DEFAULT random(); -- rewrites it, without rows that are dead
ALTER TABLE likes_set DROP note;
SELECT count(*), pg_relation_size('likes_set'), (SELECT rights_epoch > epoch FROM dcounter.counter, dcounter.self WHERE counter = 'likes'::regclass) FROM likes_region;
SET session_replication_role = replica;
SELECT beat('asia');
RESET session_replication_role;
SELECT dc_incr('likes', 'closed', 7);
UPDATE dcounter.self SET postmaster_start = postmaster_start - interval '1 hour';
CALL dc_maintain();
TABLE slots;
SET session_replication_role = replica;
SELECT confirm('asia');
RESET session_replication_role;
CALL dc_maintain();
SELECT key, slot NOT IN ('sealed', '+0') AS is_new, inc, dec FROM slots;
TABLE counted;
SELECT is_sound();

DROP VIEW slots, counted;
DROP FUNCTION is_sound, beat, confirm;
SELECT dc_drop('likes');
DELETE FROM dcounter.self;
DELETE FROM dcounter.self_mark;
DELETE FROM dcounter.region;
DROP PUBLICATION dcounter_own, dcounter_all;
