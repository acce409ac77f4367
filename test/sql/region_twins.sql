-- Two databases of one region that both count: a copy that has renewed, and what it was copied from. Each has
-- slots of its own, also where keys are set, deleted and removed. What comes is written as an apply worker writes it
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error; -- wal_level may be any
SELECT dc_region_init('us') > 0;
SELECT dc_create('likes');
SELECT dc_replicate('likes');
CREATE VIEW slots AS SELECT r.key, r.epoch - s.epoch AS epoch, r.inc, r.dec FROM likes_region AS r, dcounter.self AS s ORDER BY 1, 2;
CREATE VIEW is_sound AS SELECT keys = 0 AND inc = 0 AND dec = 0 AS is_sound FROM dc_region_check('likes') WHERE region IS NULL;

SELECT dc_incr('likes', 'a', 5), dc_incr('likes', 'b', 1);
SELECT dc_compact('likes');
SET session_replication_role = replica;
INSERT INTO likes_region SELECT k, 'us', epoch + 1000000000000, 7, 0, now() FROM dcounter.self, unnest('{a,b}'::text[]) AS k;
RESET session_replication_role;
TABLE slots;
SELECT dc_set('likes', 'other', 1);
SELECT dc_incr('likes', 'a', 100);
SELECT dc_compact('likes');
TABLE slots;
SELECT dc_get('likes', 'a');
TABLE is_sound;

-- what is set is counted here as well, and what comes after a deletion starts from zero
SELECT dc_incr('likes', 'a', 10);
SELECT dc_set('likes', 'a', 3);
SELECT dc_delete('likes', 'b');
SELECT dc_incr('likes', 'b', 2);
SELECT dc_compact('likes') > 0;
TABLE slots;
SELECT dc_get('likes', 'a'), dc_get('likes', 'b');
TABLE is_sound;

-- the other one counts on
SET session_replication_role = replica;
UPDATE likes_region SET inc = 9 WHERE key = 'a' AND inc = 7;
RESET session_replication_role;
SELECT dc_get('likes', 'a');
SELECT state FROM dc_regions();
TABLE is_sound;

DROP VIEW slots, is_sound;
SELECT dc_drop('likes');
DELETE FROM dcounter.self;
DELETE FROM dcounter.self_mark;
DELETE FROM dcounter.region;
DROP PUBLICATION dcounter_own, dcounter_all;
