-- The extension goes and comes back; the tables stay, with what they hold
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
\set VERBOSITY terse
CREATE SCHEMA regress_dc;
SELECT dc_create('likes', 'hash', 5), dc_create('regress_dc.views', partitions => 2);
SELECT dc_incr('likes', 'a', 5), dc_incr('regress_dc.views', 'a', 7);
SELECT dc_compact('likes'), dc_incr('likes', 'a', 10), dc_incr('likes', 'b', 1);
-- Restoring the settings over what is there replaces them
INSERT INTO dcounter.counter VALUES ('likes', 'likes_shard', 'backend', 7);
SELECT counter, shards, shard_by, max_shards FROM dcounter.counter ORDER BY counter::text COLLATE "C";
INSERT INTO dcounter.counter SELECT * FROM dcounter.counter;
COPY dcounter.counter (counter, shards, shard_by, max_shards) FROM stdin;
likes	likes_shard	hash	5
\.
SELECT counter, shards, shard_by, max_shards FROM dcounter.counter ORDER BY counter::text COLLATE "C";
ALTER EXTENSION dcounter SET SCHEMA regress_dc;
DROP TABLE dcounter.counter;
DROP FUNCTION dc_sum(regclass);

-- What depends on the functions is in the way; the tables are not
CREATE VIEW exact AS SELECT key, dc_get('likes', key) AS value FROM likes;
DROP EXTENSION dcounter;
DROP VIEW exact;
DROP EXTENSION dcounter;
SELECT to_regnamespace('dcounter'), count(*) FROM pg_proc WHERE proname ~ '^dc_' OR probin ~ 'dcounter';
SELECT count(*) FROM pg_event_trigger WHERE evtname ~ 'dcounter';
SELECT 'total', key, value FROM likes UNION ALL SELECT 'shard', key, sum(inc) FROM likes_shard GROUP BY key ORDER BY 1, 2;
SELECT sum(inc) FROM regress_dc.views_shard;
ALTER TABLE regress_dc.views RENAME TO seen;
ALTER TABLE regress_dc.seen RENAME TO views;
-- Again, in another schema: none of the tables is known until it is adopted,
-- also by a session that has used it before
CREATE EXTENSION dcounter SCHEMA regress_dc;
SELECT count(*) FROM dcounter.counter;
SELECT regress_dc.dc_get('likes', 'a');
SELECT regress_dc.dc_incr('likes', 'a');
SELECT regress_dc.dc_get('regress_dc.views', 'a');
SELECT regress_dc.dc_adopt('likes'), regress_dc.dc_adopt('regress_dc.views');
SELECT counter, shards, shard_by, max_shards FROM dcounter.counter ORDER BY counter::text COLLATE "C";
SELECT regress_dc.dc_incr('likes', 'a', 1000), regress_dc.dc_incr('regress_dc.views', 'a', 1000);
SELECT regress_dc.dc_get('likes', 'a'), regress_dc.dc_get('likes', 'b'), regress_dc.dc_get('regress_dc.views', 'a');
SELECT regress_dc.dc_compact();
SELECT value, regress_dc.dc_get('likes', key) FROM likes ORDER BY key;
ALTER TABLE likes RENAME TO loved;
SELECT regress_dc.dc_incr('loved', 'a', 1), to_regclass('loved_shard');
SELECT regress_dc.dc_get('loved', 'a');
-- Rolled back, nothing has happened
BEGIN;
SELECT regress_dc.dc_incr('loved', 'a', 2);
DROP EXTENSION dcounter;
ROLLBACK;
SELECT regress_dc.dc_incr('loved', 'a', 4);
SELECT regress_dc.dc_get('loved', 'a');
DROP TABLE loved, regress_dc.views;
SELECT to_regclass('loved_shard'), to_regclass('regress_dc.views_shard'), count(*) FROM dcounter.counter;
DROP EXTENSION dcounter;
DROP SCHEMA regress_dc;
-- What was counted before in the same transaction is not lost
CREATE EXTENSION dcounter;
SELECT dc_create('likes');
SELECT dc_incr('likes', 'a', 3);
BEGIN;
SELECT dc_incr('likes', 'a', 4);
DROP EXTENSION dcounter;
COMMIT;
SELECT to_regnamespace('dcounter'), sum(inc) FROM likes_shard;
DROP TABLE likes, likes_shard;
-- A session that has used the extension before can use it again
CREATE EXTENSION dcounter;
SELECT dc_create('likes');
SELECT dc_incr('likes', 'a', 5);
SELECT dc_get('likes', 'a'), dc_drop('likes');
