-- How a database of a region lives: beats, starts, new epochs, retirement; what others send being written as an apply
-- worker does, and what a start of the server leaves being made by hand
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET timezone = 'UTC';
SET client_min_messages = error; -- wal_level may be any
SET dcounter.region_handshake = '100ms';
CREATE FUNCTION is_sound(c regclass) RETURNS boolean LANGUAGE sql AS $$SELECT keys = 0 AND inc = 0 AND "dec" = 0 FROM dc_region_check(c) WHERE region IS NULL$$;
-- our beats, without what differs from run to run
CREATE VIEW own AS SELECT r.epoch = s.epoch AS current, r.boot = s.boot AS boot, r.seq, r.first, r.published, r.beat_at IS NOT NULL AS beat_at, r.retired_at IS NOT NULL AS retired
	FROM dcounter.region AS r, dcounter.self AS s WHERE r.region = s.region ORDER BY r.epoch;
CREATE VIEW marks AS SELECT m.epoch = s.epoch AS current, what, peer FROM dcounter.self_mark AS m, dcounter.self AS s ORDER BY what, peer;

-- In no region
SELECT dc_region_renew();
SELECT dc_region_retire('us');
SELECT * FROM dc_regions();
SELECT dc_region_renew(NULL);
SELECT dc_region_retire(NULL);
SELECT dc_region_retire('us', NULL);

SELECT dc_region_init('eu') > 0;
SELECT dc_create('likes');
SELECT dc_replicate('likes');
CREATE VIEW slots AS SELECT key, region, CASE WHEN epoch = s.e THEN 'now' WHEN epoch = -s.e THEN 'sealed' WHEN epoch < 0 THEN 'sealed before' ELSE 'before' END AS epoch, inc, dec
	FROM likes_region, (SELECT epoch AS e FROM dcounter.self) AS s ORDER BY key, region, likes_region.epoch;
SELECT * FROM own;
SELECT region, epochs, state, beat_at, lag, seen_by_all_to, link_state, apply_errors FROM dc_regions();
SELECT * FROM dc_stat_regions WHERE region <> 'eu';
SELECT tablename, attnames, rowfilter FROM pg_publication_tables WHERE pubname ~ '^dcounter_' ORDER BY pubname, tablename COLLATE "C";
CREATE ROLE life_user;
SET ROLE life_user;
SELECT dc_region_renew();
SELECT dc_region_retire('eu');
SELECT region, state FROM dc_regions();
SELECT count(*) FROM dcounter.self_mark;
INSERT INTO dcounter.self_mark VALUES (1, 'renew', NULL, now());
UPDATE dcounter.region SET seq = 7;
RESET ROLE;

-- Each transaction that publishes has a beat, and no other
SELECT dc_incr('likes', 'a', 5), dc_incr('likes', 'b');
SELECT * FROM own;
SELECT dc_compact('likes');
SELECT * FROM own;
SELECT dc_compact('likes');
SELECT * FROM own;
BEGIN;
SELECT dc_incr('likes', 'a', 1);
SELECT dc_compact('likes'), dc_incr('likes', 'b');
SELECT dc_compact('likes');
SELECT seq FROM own;
COMMIT;
SELECT * FROM own;
BEGIN;
SELECT dc_incr('likes', 'a', 1);
SELECT dc_compact('likes');
ROLLBACK;
SELECT * FROM own;
BEGIN;
SELECT dc_incr('likes', 'a', 1);
SELECT dc_compact('likes');
SET TRANSACTION READ ONLY;
COMMIT;
SELECT * FROM own;
BEGIN;
SELECT dc_incr('likes', 'a', 1);
SELECT dc_compact('likes');
PREPARE TRANSACTION 'published';
SELECT dc_get('likes', 'a');
-- The job tells since when all is published
CALL dc_maintain();
SELECT current, boot, published, beat_at FROM own;
SELECT state, lag < interval '1 minute', seen_by_all_to = beat_at FROM dc_regions();

-- Beats of others: the greater number is kept, of one boot
SET session_replication_role = replica;
\set boot '\'00000000-0000-4000-8000-000000000001\''
\set boot2 '\'00000000-0000-4001-8000-000000000002\''
CREATE VIEW others AS SELECT region, epoch, right(boot::text, 1) AS boot, seq, first, beat_at, retired_at IS NOT NULL AS retired FROM dcounter.region WHERE region <> 'eu' ORDER BY 1, 2;
INSERT INTO dcounter.region VALUES ('us', 1024, :boot, 3, 1, 3, '2025-01-01', NULL, NULL);
INSERT INTO dcounter.region VALUES ('us', 1024, :boot, 2, 1, 2, '2024-01-01', NULL, NULL);
SELECT * FROM others;
INSERT INTO dcounter.region VALUES ('us', 1024, :boot, 5, 1, 3, '2025-01-02', NULL, NULL);
SELECT * FROM others;
SELECT * FROM marks;
UPDATE dcounter.region SET seq = 6, beat_at = '2025-01-03' WHERE region = 'us';
UPDATE dcounter.region SET seq = 4 WHERE region = 'us';
SELECT * FROM others;
SELECT * FROM marks;
-- a gap: something was missed
UPDATE dcounter.region SET seq = 8 WHERE region = 'us';
SELECT * FROM marks;
SELECT state FROM dc_regions() WHERE region = 'eu';
-- another boot must begin after the last beat that is known; of one that does not the number is kept
UPDATE dcounter.region SET seq = 9, first = 7, boot = :boot2 WHERE region = 'us';
SELECT * FROM others;
UPDATE dcounter.region SET seq = 10, first = 10, boot = :boot2 WHERE region = 'us';
SELECT * FROM others;
UPDATE dcounter.region SET epoch = 7 WHERE region = 'us';
-- what cannot be understood
INSERT INTO dcounter.region VALUES ('us', 2048, :boot, 1, 1, 1, NULL, '[1]', NULL), ('asia', 1024, NULL, 1, 0, 0, NULL, '{"eu": 1, "us": [1]}', NULL), ('asia', 1025, NULL, 1, 0, 0, NULL, '{"eu": ["x", null, {}], "us": [1e300, 1.5, "x"]}', NULL);
SELECT * FROM others;
RESET session_replication_role;
SELECT region_check.region, epochs, state, seen_by_all_to FROM dc_regions() AS region_check ORDER BY 1;
-- A heartbeat of the own epoch is ignored; one of another boot says that there is another database
SET session_replication_role = replica;
INSERT INTO dcounter.region SELECT region, epoch, boot, seq + 5, first, published, now(), '{}', NULL FROM dcounter.region WHERE region = 'eu';
SELECT seq FROM own;
SELECT * FROM marks;
BEGIN;
INSERT INTO dcounter.region SELECT region, epoch, :boot, seq + 5, first, published, now(), '{}', NULL FROM dcounter.region WHERE region = 'eu';
SELECT seq FROM own;
SELECT * FROM marks;
ROLLBACK;
-- and so does what another one has seen
UPDATE dcounter.region SET seq = 2, seen = (SELECT jsonb_build_object('eu', jsonb_build_array(epoch, seq, :boot, NULL, NULL)) FROM dcounter.region WHERE region = 'eu') WHERE region = 'us' AND epoch = 2048;
RESET session_replication_role;
SELECT * FROM marks;
SELECT state FROM dc_regions() WHERE region = 'eu';
SELECT dc_incr('likes', 'a', 2), dc_incr('likes', 'new', 1);
SELECT dc_compact(NULL), dc_get('likes', 'a'), is_sound('likes');
SELECT * FROM slots;
-- A new epoch: what was counted goes to the old one
SELECT dc_region_renew() AS epoch \gset
SELECT epoch = :epoch FROM dcounter.self;
SELECT * FROM slots;
SELECT * FROM own;
SELECT * FROM marks;
SELECT state, starting FROM dcounter.self;
SELECT dc_incr('likes', 'a', 4), dc_compact('likes'), is_sound('likes'), dc_get('likes', 'a');
SELECT dc_compact('likes');
SELECT * FROM slots;
SELECT is_sound('likes'), dc_get('likes', 'a'), dc_node() = 'eu:' || epoch FROM dcounter.self;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_region_renew();
ROLLBACK;
-- what this database writes itself would be merged as if it came from another region
SET session_replication_role = replica;
SELECT dc_region_renew();
RESET session_replication_role;

-- A row that says more of the own epoch is not merged, but marks it; one of an older epoch is
SET session_replication_role = replica;
INSERT INTO likes_region SELECT 'a', 'eu', epoch, 3, 0, now() FROM dcounter.self;
SELECT * FROM marks;
INSERT INTO likes_region SELECT 'a', 'eu', min(epoch), 20, 0, now() FROM dcounter.region WHERE region = 'eu';
SELECT * FROM marks;
SELECT * FROM slots WHERE key = 'a';
BEGIN;
INSERT INTO likes_region SELECT 'a', 'eu', epoch, 1000, 0, now() FROM dcounter.self;
SELECT * FROM marks;
ROLLBACK;
BEGIN;
INSERT INTO likes_region SELECT 'z', 'eu', epoch, 1000, 0, now() FROM dcounter.self;
SELECT * FROM marks;
ROLLBACK;
UPDATE likes_region SET inc = 1000 WHERE key = 'a' AND epoch = (SELECT epoch FROM dcounter.self);
INSERT INTO likes_region SELECT 'a', 'eu', -epoch, 1000, 0, now() FROM dcounter.self;
RESET session_replication_role;
SELECT * FROM marks;
SELECT * FROM slots WHERE key = 'a';
SELECT is_sound('likes');
SELECT dc_region_renew() > 0;
SELECT * FROM slots WHERE key = 'a';

-- A start: what was there is sealed, until the others have confirmed it; what is counted later is not
UPDATE dcounter.region SET retired_at = now() WHERE region = 'asia';
SELECT dc_incr('likes', 'a', 100), dc_incr('likes', 'gone', 1);
UPDATE dcounter.self SET postmaster_start = postmaster_start - interval '1 hour';
SELECT dc_compact(NULL);
SELECT state FROM dc_regions() WHERE region = 'eu';
SET dcounter.region_handshake = '1h';
CALL dc_maintain(); -- begins
SELECT starting, state FROM dcounter.self;
SELECT * FROM slots WHERE key IN ('a', 'gone');
SELECT is_sound('likes'), dc_get('likes', 'a'), dc_get('likes', 'gone');
SELECT dc_incr('likes', 'a', 1000);
SELECT dc_compact(NULL);
CALL dc_maintain();
SELECT is_sound('likes'), dc_get('likes', 'a'), starting FROM dcounter.self;
SELECT boot, first = seq FROM own WHERE current;
-- another start: nothing more is sealed
UPDATE dcounter.self SET postmaster_start = postmaster_start - interval '1 hour';
CALL dc_maintain();
SELECT * FROM slots WHERE key IN ('a', 'gone');
-- confirmed by a boot that is not the last one, and by the last one
\set confirm 'UPDATE dcounter.region AS r SET seq = r.seq + 1, seen = (SELECT jsonb_build_object(\'eu\', jsonb_build_array(o.epoch, o.seq, :confirmed, 1800000000000000, NULL)) FROM dcounter.region AS o, dcounter.self AS s WHERE o.region = s.region AND o.epoch = s.epoch) WHERE r.region = \'us\' AND epoch = 2048;'
SET session_replication_role = replica;
\set confirmed 's.boot'
:confirm
RESET session_replication_role;
CALL dc_maintain();
SELECT starting FROM dcounter.self;
SELECT * FROM slots WHERE key IN ('a', 'gone');
SELECT is_sound('likes'), dc_compact('likes'), dc_get('likes', 'a');
SELECT * FROM slots WHERE key IN ('a', 'gone');
-- a later epoch that another region knows: this database was restored to an earlier state, if it is starting
\set later 'UPDATE dcounter.region AS r SET seq = r.seq + 1, seen = (SELECT jsonb_build_object(\'eu\', jsonb_build_array(epoch + 1, 1, boot, NULL, NULL)) FROM dcounter.self) WHERE r.region = \'us\' AND epoch = 2048;'
SET session_replication_role = replica;
:later
RESET session_replication_role;
SELECT * FROM marks;
BEGIN;
UPDATE dcounter.self SET postmaster_start = postmaster_start - interval '1 hour';
CALL dc_maintain();
SELECT starting FROM dcounter.self;
SET LOCAL session_replication_role = replica;
:later
SELECT * FROM marks;
ROLLBACK;
-- not confirmed in time: what is sealed goes to the old epoch, what came later to the new one
SELECT dc_incr('likes', 'a', 1);
UPDATE dcounter.self SET postmaster_start = postmaster_start - interval '1 hour';
CALL dc_maintain();
SELECT dc_incr('likes', 'a', 2);
SET dcounter.region_handshake = '100ms';
SELECT pg_sleep(0.1);
CALL dc_maintain();
CALL dc_maintain();
SELECT state, starting FROM dcounter.self;
SELECT * FROM slots WHERE key = 'a';
SELECT is_sound('likes');
-- Sums that leave bigint stay where they are
INSERT INTO likes_shard (key, shard, inc) VALUES ('huge', 1, 9223372036854775807), ('huge', 2, 9223372036854775807), ('neg', 1, -1);
SELECT dc_region_renew() > 0;
SELECT key, count(*) FROM likes_shard WHERE shard >= 0 AND inc <> 0 GROUP BY key ORDER BY key;
DELETE FROM likes_shard WHERE key IN ('huge', 'neg');
SELECT is_sound('likes');

-- A table that is not as it was made
ALTER TABLE likes_region ADD note text;
SELECT dc_region_renew() > 0; -- with a warning
ALTER TABLE likes_region DROP note;
SELECT dc_region_renew() > 0;

-- Retired: others say so, with the epoch that they mean
SELECT dc_region_retire('nobody');
SELECT dc_region_retire('us'); -- all active regions have received what it has published
SELECT dc_region_retire('us');
SELECT region, state FROM dc_regions() ORDER BY 1;
SELECT epoch, retired_at IS NOT NULL FROM dcounter.region WHERE region = 'us' ORDER BY 1;
SET session_replication_role = replica;
UPDATE dcounter.region SET retired_at = NULL, seq = seq + 1 WHERE region = 'us' AND epoch = 2048;
SELECT retired_at IS NOT NULL FROM dcounter.region WHERE region = 'us' AND epoch = 2048;
INSERT INTO dcounter.region VALUES ('us', 4096, :boot, 1, 1, 1, '2025-01-01', NULL, NULL);
RESET session_replication_role;
SELECT region, epochs, state FROM dc_regions() WHERE region = 'us';
SET session_replication_role = replica;
INSERT INTO dcounter.region VALUES ('af', 1024, :boot, 1, 1, 0, '2025-01-01', '{"us": [2048, 1, "x", null, 1735689600000000]}', NULL);
SELECT region, epochs, state FROM dc_regions() WHERE region = 'us';
UPDATE dcounter.region SET seq = 2, seen = '{"us": [4096, 1, "x", null, 1735689600000000]}' WHERE region = 'af';
RESET session_replication_role;
SELECT region, epochs, state FROM dc_regions() WHERE region = 'us';
-- This one: not while it has something that others do not have
SELECT dc_incr('likes', 'a');
SELECT dc_region_retire('eu');
SELECT dc_compact('likes');
SELECT dc_region_retire('eu');
SELECT dc_region_retire('eu', force => true);
SELECT current, retired FROM own WHERE current;
SELECT state FROM dc_regions() WHERE region = 'eu';
SELECT * FROM marks WHERE what = 'retired';
SELECT dc_incr('likes', 'a'), dc_compact(NULL);
SELECT dc_replicate('likes');
SELECT dc_node();
SELECT dc_region_renew() > 0;
SELECT state FROM dc_regions() WHERE region = 'eu';
SELECT dc_compact('likes'), is_sound('likes'), dc_node() LIKE 'eu:%';
-- nothing is missing, until a heartbeat arrives that knows more of the previous epoch than this database; one from before it was active does not count
UPDATE dcounter.self SET state = 'active';
SELECT dc_region_renew(lossless => true) > 0;
SELECT * FROM marks;
CREATE FUNCTION earlier(back int, more int) RETURNS void SET session_replication_role = replica LANGUAGE sql AS
	$$INSERT INTO dcounter.region SELECT region, epoch, boot, seq + more, first, published, beat_at, seen, NULL FROM dcounter.region WHERE region = 'eu' ORDER BY epoch DESC OFFSET back LIMIT 1$$;
SELECT earlier(1, 0), earlier(2, 1);
SELECT * FROM marks;
SELECT earlier(1, 1);
SELECT * FROM marks;
SELECT m.at = s.begun_at FROM dcounter.self_mark AS m, dcounter.self AS s WHERE what = 'recopy';
DROP FUNCTION earlier;
-- another one says that this is retired
SET session_replication_role = replica;
UPDATE dcounter.region SET seq = 3, seen = (SELECT jsonb_build_object('eu', jsonb_build_array(epoch, 1, boot, NULL, 1735689600000000)) FROM dcounter.self) WHERE region = 'af';
RESET session_replication_role;
SELECT state FROM dc_regions() WHERE region = 'eu';

-- The trigger on other tables
CREATE TABLE other (LIKE dcounter.region INCLUDING ALL);
CREATE TRIGGER merge BEFORE INSERT ON other FOR EACH ROW EXECUTE FUNCTION dcounter.merge_beat();
INSERT INTO other (region, epoch) VALUES ('x', 1);
DROP TABLE other;

DROP VIEW own, marks, slots, others;
SELECT dc_drop('likes');
DELETE FROM dcounter.self;
DELETE FROM dcounter.self_mark;
DELETE FROM dcounter.region;
DROP PUBLICATION dcounter_own, dcounter_all;
DROP FUNCTION is_sound;
DROP ROLE life_user;
