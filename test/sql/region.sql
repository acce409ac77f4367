-- Counters that several regions count in: this database as one of them, what others send being
-- written as an apply worker does
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET timezone = 'UTC';
SET client_min_messages = error; -- wal_level may be any
CREATE FUNCTION keys_of(c regclass, OUT key text, OUT inc bigint, OUT "dec" bigint, OUT remote_inc bigint, OUT remote_dec bigint, OUT local_inc bigint, OUT local_dec bigint) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format($q$SELECT k, coalesce(t.inc, 0), coalesce(t.dec, 0), coalesce(sum(s.inc) FILTER (WHERE s.shard < 0), 0)::bigint, coalesce(sum(s.dec) FILTER (WHERE s.shard < 0), 0)::bigint,
		coalesce(sum(s.inc) FILTER (WHERE s.shard >= 0), 0)::bigint, coalesce(sum(s.dec) FILTER (WHERE s.shard >= 0), 0)::bigint
		FROM (SELECT t.key FROM %1$s AS t UNION SELECT s.key FROM %1$s_shard AS s) AS u(k) LEFT JOIN %1$s AS t ON t.key = k LEFT JOIN %1$s_shard AS s ON s.key = k GROUP BY k, t.inc, t.dec ORDER BY k COLLATE "C"$q$, c);
END$$;
CREATE FUNCTION regions_of(c regclass, OUT key text, OUT region text, OUT own boolean, OUT inc bigint, OUT "dec" bigint) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT r.key, r.region, r.epoch = (SELECT s.epoch FROM dcounter.self AS s), r.inc, r.dec FROM %s_region AS r ORDER BY r.key, r.region, r.epoch', c);
END$$;
-- false if values are not what regions have counted
CREATE FUNCTION is_sound(c regclass) RETURNS boolean LANGUAGE sql AS $$SELECT keys = 0 AND inc = 0 AND "dec" = 0 FROM dc_region_check(c) WHERE region IS NULL$$;

-- A database that is in no region
SELECT dc_create('likes');
SELECT dc_replicate('likes');
SELECT dc_unreplicate('likes');
SELECT * FROM dc_region_check('likes');
SELECT dc_region_repair('likes');
SELECT dc_node();
SELECT dc_region_init(NULL);
SELECT dc_region_init('');
SELECT dc_region_init('Eu');
SELECT dc_region_init('e:u');
SELECT dc_region_init(repeat('e', 41));
CREATE ROLE region_user;
GRANT ALL ON SCHEMA public TO region_user;
GRANT EXECUTE ON FUNCTION dc_replicate(regclass, boolean) TO region_user;
SET ROLE region_user;
SELECT dc_region_init('eu');
RESET ROLE;
-- What others have called so
CREATE PUBLICATION dcounter_all WITH (publish = 'insert, update, delete');
SELECT dc_region_init('eu');
ALTER PUBLICATION dcounter_all SET (publish = 'insert, update');
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO region_user', current_database()); END $$;
ALTER PUBLICATION dcounter_all OWNER TO region_user;
SELECT dc_region_init('eu');
ALTER PUBLICATION dcounter_all OWNER TO CURRENT_USER;

SELECT dc_region_init('eu') AS epoch \gset
SELECT epoch = :epoch FROM dcounter.self;
SELECT region, state, (epoch >> 10) / 1000000.0 BETWEEN extract(epoch FROM now()) - 60 AND extract(epoch FROM now()) + 60 FROM dcounter.self;
SELECT dc_node() = 'eu:' || epoch FROM dcounter.self;
SELECT dc_region_init('us');
SELECT pubname, pubinsert, pubupdate, pubdelete, pubtruncate, puballtables FROM pg_publication WHERE pubname LIKE 'dcounter%' ORDER BY 1;

-- What cannot be replicated
SET ROLE region_user;
SELECT dc_replicate('likes');
RESET ROLE;
SELECT dc_replicate(NULL);
SELECT dc_replicate('likes', NULL);
SELECT dc_ledger_create('region_ledger');
SELECT dc_replicate('region_ledger');
SELECT dc_window_create('region_window', bucket => '1 minute', keep => '1 hour');
SELECT dc_replicate('region_window');
SELECT dc_replicate('region_window_w0');
SELECT dc_distinct_create('region_distinct');
SELECT dc_replicate('region_distinct');
SELECT dc_window_drop('region_window');
SELECT dc_distinct_drop('region_distinct');
SELECT dc_create('region_c');
CREATE TABLE region_source (k text);
SELECT dc_bind('region_c', 'region_source', 'k');
SELECT dc_replicate('region_c');
SELECT dc_unbind('region_c');
CREATE INDEX ON region_c (value);
SELECT dc_rank_create('region_c', build => 'now');
SELECT dc_replicate('region_c');
SELECT dc_rank_drop('region_c');
ALTER TABLE region_c SET UNLOGGED;
SELECT dc_replicate('region_c');
ALTER TABLE region_c SET LOGGED;
CREATE TABLE region_c_set ();
SELECT dc_replicate('region_c');
DROP TABLE region_c_set;
SELECT dc_create(repeat('n', 57));
SELECT dc_replicate(repeat('n', 57));
SELECT dc_drop(repeat('n', 57));
ALTER PUBLICATION dcounter_own SET (publish = 'insert, update, truncate');
SELECT dc_replicate('region_c');
ALTER PUBLICATION dcounter_own SET (publish = 'insert, update');
SELECT regions, sets, totals FROM dcounter.counter WHERE counter = 'region_c'::regclass;
DROP TABLE region_source;

-- A counter that is: its tables, publications and trigger
SELECT dc_replicate('likes');
SELECT dc_replicate('likes');
SELECT regions, sets, totals FROM dcounter.counter WHERE counter = 'likes'::regclass;
SELECT attname, atttypid::regtype, attcollation::regcollation, attnotnull FROM pg_attribute WHERE attrelid = 'likes_region'::regclass AND attnum > 0 ORDER BY attnum;
SELECT attname, atttypid::regtype, attcollation::regcollation, attnotnull FROM pg_attribute WHERE attrelid = 'likes_set'::regclass AND attnum > 0 ORDER BY attnum;
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid IN ('likes_region'::regclass, 'likes_set'::regclass) ORDER BY 1;
SELECT tgname, tgenabled, tgfoid::regproc FROM pg_trigger WHERE tgrelid IN ('likes_region'::regclass, 'likes_set'::regclass) ORDER BY tgrelid, tgname;
SELECT pubname, tablename, attnames, rowfilter FROM pg_publication_tables WHERE tablename LIKE 'likes%' ORDER BY 1, 2;
SELECT relname, reloptions, pg_get_userbyid(relowner) = current_user FROM pg_class WHERE relname IN ('likes_region', 'likes_set') ORDER BY 1;

-- What is counted here is published by compaction, and counts from the start
SELECT dc_incr('likes', 'a', 5), dc_decr('likes', 'a', 2), dc_incr('likes', 'b');
SELECT * FROM regions_of('likes');
SELECT region, inc, "dec", value, updated_at > now() - interval '1 minute', complete_to >= now() FROM dc_get_regions('likes', 'a');
SELECT dc_compact('likes');
SELECT * FROM regions_of('likes');
SELECT * FROM keys_of('likes');
SELECT dc_incr('likes', 'a', 10);
SELECT dc_compact('likes'), dc_compact('likes');
SELECT * FROM regions_of('likes');
SELECT is_sound('likes');

-- What comes from others: rows that are new, that have grown, that have not
SET session_replication_role = replica;
INSERT INTO likes_region VALUES ('a', 'us', 7, 10, 1, '2025-01-01'), ('c', 'us', 7, 3, 0, '2025-01-01');
SELECT * FROM keys_of('likes');
SELECT dc_get('likes', 'a'), dc_get('likes', 'c'), dc_sum('likes');
SELECT value, inc, "dec" FROM dc_info('likes', 'a');
SELECT is_sound('likes');
INSERT INTO likes_region VALUES ('a', 'us', 7, 12, 0, '2025-01-02'), ('c', 'us', 7, 2, 5, '2025-01-02'), ('a', 'asia', 9, 1, 1, '2025-01-02');
SELECT * FROM keys_of('likes');
SELECT key, region, inc, dec, updated_at FROM likes_region WHERE epoch = 7 ORDER BY key;
SELECT is_sound('likes');
UPDATE likes_region SET inc = 20, dec = 3, updated_at = '2025-01-03' WHERE key = 'a' AND region = 'us';
UPDATE likes_region SET inc = 25, dec = 2, updated_at = '2024-01-01' WHERE key = 'a' AND region = 'us';
SELECT key, region, inc, dec, updated_at FROM likes_region WHERE key = 'a' AND region = 'us';
SELECT * FROM keys_of('likes');
-- What does not grow writes nothing
CREATE TEMP TABLE before AS SELECT key, region, ctid AS tid, xmin::text AS xid FROM likes_region;
INSERT INTO likes_region VALUES ('a', 'us', 7, 25, 3, '2026-01-02'), ('c', 'us', 7, 0, 0, '2026-01-02'), ('a', 'us', 7, -5, -5, '2026-01-02');
UPDATE likes_region SET updated_at = '2026-01-01' WHERE key = 'c';
SELECT count(*) FROM before AS b JOIN likes_region AS r USING (key, region) WHERE (b.tid, b.xid) = (r.ctid, r.xmin::text);
SELECT count(*) FROM before;
SELECT is_sound('likes');
-- A row that only comes to nothing; amounts that no region would send
INSERT INTO likes_region VALUES ('zero', 'us', 7, 0, 0, '2025-01-01'), ('less', 'us', 7, -3, 4, '2025-01-01');
SELECT dc_get('likes', 'zero'), dc_get('likes', 'less'), is_sound('likes');
-- The row of another key, region or epoch is not ours to make
UPDATE likes_region SET key = 'd' WHERE key = 'c';
SELECT count(*) FROM likes_region WHERE key IN ('d', 'less');
UPDATE likes_region SET region = 'eu' WHERE key = 'c';
UPDATE likes_region SET epoch = epoch + 1 WHERE key = 'c';
-- Several changes of a key in one transaction are in one row, but for what a savepoint has undone
BEGIN;
INSERT INTO likes_region VALUES ('many', 'us', 7, 1, 0, now());
INSERT INTO likes_region VALUES ('many', 'us', 7, 2, 0, now());
INSERT INTO likes_region VALUES ('many', 'asia', 9, 10, 0, now()), ('many', 'asia', 10, 0, 4, now());
SAVEPOINT s;
INSERT INTO likes_region VALUES ('many', 'us', 7, 102, 0, now()), ('undone', 'us', 7, 5, 0, now());
SELECT dc_get('likes', 'many'), dc_get('likes', 'undone');
ROLLBACK TO s;
UPDATE likes_region SET inc = 3 WHERE key = 'many' AND region = 'us';
INSERT INTO likes_region VALUES ('undone', 'us', 7, 6, 0, now());
INSERT INTO likes_region VALUES ('undone', 'us', 7, 7, 0, now());
SELECT key, count(*), sum(inc), sum(dec), bool_and(shard < 0) FROM likes_shard WHERE key IN ('many', 'undone') GROUP BY key ORDER BY key;
COMMIT;
SELECT dc_get('likes', 'many'), dc_get('likes', 'undone'), is_sound('likes');
-- Compaction moves them, and publishes none of them
CREATE TEMP TABLE own AS SELECT * FROM likes_region;
SELECT dc_incr('likes', 'a', 100);
SELECT dc_compact('likes'), dc_compact('likes');
SELECT * FROM keys_of('likes');
SELECT key, region, inc, dec FROM (TABLE likes_region EXCEPT TABLE own) AS d;
SELECT dc_get('likes', 'a'), dc_top('likes', 1), is_sound('likes');
SELECT region, inc, "dec", value, complete_to IS NULL FROM dc_get_regions('likes', 'a');
-- As under an epoch that this database no longer has
INSERT INTO likes_region VALUES ('a', 'eu', 1, 1000, 0, now());
SELECT region, inc, "dec", value FROM dc_get_regions('likes', 'a');
RESET session_replication_role;

-- Rows that came from others are no writer's choice, by SQL or without
SELECT dc_compact('likes');
SET session_replication_role = replica;
INSERT INTO likes_region VALUES ('hot', 'us', 7, 5, 0, now());
RESET session_replication_role;
SELECT dc_incr('likes', 'hot'), dc_get('likes', 'hot');
SELECT dc_incr('likes', 'hot'), dc_get('likes', 'hot');
SELECT * FROM keys_of('likes') WHERE key = 'hot';
ALTER TABLE likes_shard ADD note text; -- by SQL now
SELECT dc_incr('likes', 'hot'), dc_incr('likes', 'cold');
SELECT * FROM keys_of('likes') WHERE key IN ('hot', 'cold');
SET session_replication_role = replica;
BEGIN;
INSERT INTO likes_region VALUES ('hot', 'us', 7, 6, 0, now());
INSERT INTO likes_region VALUES ('hot', 'us', 7, 7, 0, now()), ('cold', 'us', 7, 1, 0, now());
COMMIT;
RESET session_replication_role;
DELETE FROM likes_shard WHERE key = 'cold' AND shard >= 0;
SELECT dc_incr('likes', 'cold');
SELECT key, count(*), sum(inc) FROM likes_shard WHERE shard < 0 GROUP BY key ORDER BY key;
SELECT * FROM keys_of('likes') WHERE key IN ('hot', 'cold');
SELECT is_sound('likes'), dc_compact('likes'), is_sound('likes');
SELECT * FROM regions_of('likes') WHERE key IN ('hot', 'cold');
SELECT * FROM keys_of('likes') WHERE key IN ('hot', 'cold');
ALTER TABLE likes_shard DROP note;

-- What writes to totals by other ways does not here
SELECT dc_load('likes', '{a,new}'::text[], '{1,-2}');
SELECT local_inc, local_dec FROM keys_of('likes') WHERE key IN ('a', 'new');
SELECT dc_incr_once('likes', 'once', 3, 'op 1'), dc_incr_once('likes', 'once', 3, 'op 1');
SELECT dc_compact('likes'), is_sound('likes');
SELECT dc_alter('likes', totals => 'direct');
SELECT dc_alter('likes', totals => 'compacted', max_shards => 8);
CREATE TABLE region_source (k text);
SELECT dc_bind('likes', 'region_source', 'k');
DROP TABLE region_source;
TRUNCATE likes;
TRUNCATE likes_shard;
TRUNCATE likes_region;
TRUNCATE likes_set;
ALTER TABLE likes SET UNLOGGED;
\set VERBOSITY sqlstate
ALTER TABLE likes_region SET UNLOGGED;
\set VERBOSITY terse
DROP TABLE likes_region;
DROP TABLE likes_set;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_region_repair('likes');
ROLLBACK;

-- Changes by hand are found, and can be put right
SELECT dc_incr('likes', 'a', 7);
UPDATE likes SET inc = inc + 5, dec = dec + 1 WHERE key = 'b';
DELETE FROM likes WHERE key = 'c';
INSERT INTO likes (key, inc) VALUES ('nobody', 4);
INSERT INTO likes_shard (key, shard, inc) VALUES ('a', -1, 3);
SELECT keys, inc, "dec" FROM dc_region_check('likes') WHERE region IS NULL;
SELECT dc_region_repair('likes');
SELECT is_sound('likes'), dc_region_repair('likes');
SELECT * FROM keys_of('likes') WHERE key IN ('a', 'b', 'c', 'nobody');
SELECT region, keys, inc, "dec", digest IS NULL FROM dc_region_check('likes');

-- A sum that leaves bigint stays where it is, here and where it came from
\set max 9223372036854775807
SET session_replication_role = replica;
SET client_min_messages = warning;
INSERT INTO likes_region VALUES ('much', 'us', 7, :max - 1, 0, now());
SELECT dc_compact('likes');
INSERT INTO likes_region VALUES ('much', 'asia', 9, 5, 0, now());
RESET session_replication_role;
SELECT dc_incr('likes', 'much', 3), dc_incr('likes', 'b');
SELECT dc_compact('likes');
SELECT * FROM regions_of('likes') WHERE key = 'much';
SELECT * FROM keys_of('likes') WHERE key = 'much';
SELECT is_sound('likes');
SET client_min_messages = error;
-- A row of this region's own that is full
SELECT dc_incr('likes', 'own', 1), dc_compact('likes', 1000) > 0;
UPDATE likes_region SET inc = :max WHERE key = 'own';
UPDATE likes SET inc = 0 WHERE key = 'own'; -- as after a setter
DELETE FROM likes_shard WHERE key IN ('own', 'much');
SELECT dc_incr('likes', 'own', 1);
SELECT dc_compact('likes');
SELECT local_inc FROM keys_of('likes') WHERE key = 'own';
DELETE FROM likes_shard WHERE key = 'own';
DELETE FROM likes_region WHERE key IN ('own', 'much');
SELECT dc_region_repair('likes');

-- Partitioned; amounts that are there become this region's
SELECT dc_create('parts', partitions => 2);
SELECT dc_incr('parts', 'p' || g, g) FROM generate_series(1, 5) AS g;
SELECT dc_compact('parts');
SELECT dc_incr('parts', 'p1'), dc_decr('parts', 'q');
SELECT dc_replicate('parts');
SELECT dc_replicate('parts', seed => true);
SELECT * FROM regions_of('parts');
SELECT is_sound('parts');
SET session_replication_role = replica;
INSERT INTO parts_region VALUES ('p1', 'us', 7, 10, 1, now());
RESET session_replication_role;
SELECT * FROM keys_of('parts');
SELECT dc_compact('parts'), is_sound('parts');
SELECT * FROM regions_of('parts');
SELECT * FROM keys_of('parts');
SELECT dc_drop('parts');
SELECT relname FROM pg_class WHERE relname LIKE 'parts%';
-- Amounts only in shard rows are accepted, too; negative ones are not
SELECT dc_create('seeds', totals => 'compacted');
SELECT dc_incr('seeds', 'x');
SELECT dc_replicate('seeds');
SELECT dc_compact('seeds');
UPDATE seeds SET inc = -1;
SELECT dc_replicate('seeds', true);
UPDATE seeds SET inc = 0;
SELECT dc_replicate('seeds');
SELECT * FROM regions_of('seeds');
SELECT dc_unreplicate('seeds');
SELECT dc_incr('seeds', 'x', 8), dc_compact('seeds');
SELECT regions, sets, totals FROM dcounter.counter WHERE counter = 'seeds'::regclass;
SELECT relname FROM pg_class WHERE relname LIKE 'seeds%' AND relkind = 'r' ORDER BY 1;
SELECT dc_set('seeds', 'x', 1), dc_get('seeds', 'x');
-- What an increment of the same transaction has counted before
BEGIN;
SELECT dc_create('early');
SELECT dc_incr('early', 'x');
SELECT dc_replicate('early', true);
SELECT dc_incr('early', 'x');
COMMIT;
SELECT dc_compact('early'), is_sound('early');
SELECT * FROM regions_of('early');

-- DDL: names, schemas, owners follow; tables that were altered are refused
ALTER TABLE likes RENAME TO loves;
CREATE SCHEMA region_schema;
GRANT ALL ON SCHEMA region_schema TO region_user;
ALTER TABLE loves SET SCHEMA region_schema;
ALTER TABLE region_schema.loves OWNER TO region_user;
SELECT relname, relowner::regrole FROM pg_class WHERE relnamespace = 'region_schema'::regnamespace AND relkind = 'r' ORDER BY 1;
SET ROLE region_user;
SELECT dc_incr('region_schema.loves', 'a'), dc_compact('region_schema.loves');
RESET ROLE;
SELECT is_sound('region_schema.loves');
SET search_path = region_schema, public;
ALTER TABLE loves_region ADD note text;
SELECT dc_incr('loves', 'a');
SELECT dc_compact('loves');
ALTER TABLE loves_region DROP note;
SELECT dc_compact('loves'), is_sound('loves');
SET session_replication_role = replica;
INSERT INTO loves_region VALUES ('a', 'us', 7, 10000, 1, '2025-01-01');
UPDATE loves_region SET inc = 20000, dec = 0 WHERE key = 'a' AND epoch = 7;
SELECT inc, dec, updated_at FROM loves_region WHERE key = 'a' AND epoch = 7;
RESET session_replication_role;
SELECT is_sound('loves');
-- The trigger on other tables
CREATE TABLE other (LIKE loves_region INCLUDING ALL);
INSERT INTO other SELECT key, region, epoch, inc, dec, updated_at FROM loves_region;
CREATE TRIGGER merge BEFORE INSERT OR UPDATE ON other FOR EACH ROW EXECUTE FUNCTION dcounter.merge_region();
ALTER TABLE other ENABLE ALWAYS TRIGGER merge;
INSERT INTO other VALUES ('x', 'us', 1, 1, 1, now());
DROP TABLE other;
SET ROLE region_user;
CREATE TABLE mine (LIKE loves_region INCLUDING ALL);
CREATE TRIGGER merge BEFORE INSERT OR UPDATE ON mine FOR EACH ROW EXECUTE FUNCTION dcounter.merge_region();
DROP TABLE mine;
-- The owner of a counter, who owns no publication
SELECT dc_unreplicate('loves');
SELECT dc_replicate('loves', true);
SELECT count(*) FROM pg_publication_tables WHERE schemaname = 'region_schema';
SELECT pg_get_userbyid(relowner), relname FROM pg_class WHERE relname IN ('loves_region', 'loves_set') ORDER BY 2;
-- Others need the tables as they are, as long as they are published
ALTER TABLE loves_region ADD CHECK (inc >= 0);
ALTER TABLE loves RENAME TO likes;
CREATE INDEX ON loves_set (hlc);
RESET ROLE;
ALTER PUBLICATION dcounter_own DROP TABLE loves_region, loves_set;
ALTER PUBLICATION dcounter_all DROP TABLE loves_region, loves_set;
SET ROLE region_user;
CREATE TRIGGER own BEFORE INSERT ON loves_region FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
SELECT dc_incr('loves', 'a');
SELECT dc_compact('loves');
DROP TRIGGER own ON loves_region;
ALTER TABLE loves_region ADD CHECK (inc >= 0);
SELECT dc_compact('loves');
ALTER TABLE loves_region DROP CONSTRAINT loves_region_inc_check;
CREATE RULE own AS ON INSERT TO loves_region DO NOTHING;
SELECT dc_compact('loves');
DROP RULE own ON loves_region;
ALTER TABLE loves_region ENABLE ROW LEVEL SECURITY;
SELECT dc_compact('loves');
ALTER TABLE loves_region DISABLE ROW LEVEL SECURITY;
ALTER TABLE loves_region DROP CONSTRAINT loves_region_pkey;
SELECT dc_compact('loves');
ALTER TABLE loves_region ADD PRIMARY KEY (key, region, epoch);
SELECT dc_compact('loves'), is_sound('loves');
RESET ROLE;
RESET search_path;
DROP TABLE region_schema.loves;
SELECT relname FROM pg_class WHERE relname LIKE 'loves%';

-- The settings again, as after the extension was dropped; a dump that brings the row of this database
DELETE FROM dcounter.counter WHERE counter = 'early'::regclass;
SELECT dc_adopt('early');
SELECT regions, sets, totals FROM dcounter.counter WHERE counter = 'early'::regclass;
CREATE TEMP TABLE self AS TABLE dcounter.self;
INSERT INTO dcounter.self VALUES ('us', 1, 1, 1, 1, now(), 'active');
SELECT count(*) FROM dcounter.self JOIN self USING (region, epoch);
DELETE FROM dcounter.self;
SELECT dc_incr('early', 'x'), dc_compact('early'), dc_node();
SELECT dc_incr('early', 'x'), dc_compact('early');
INSERT INTO dcounter.self TABLE self;
SELECT state FROM dcounter.self;
SET dcounter.region_handshake = '100ms';
SELECT dc_compact(NULL), dc_get('early', 'x');
SELECT dc_create('later');
SELECT dc_replicate('later');
SELECT dc_drop('later');
UPDATE dcounter.self SET state = 'active';

-- One of another system, timeline or database: what is counted stays in shard rows
UPDATE dcounter.self SET system_id = system_id + 1;
SELECT dc_compact(NULL), dc_get('early', 'x');
SELECT dc_create('later');
SELECT dc_replicate('later');
SELECT dc_drop('later');
UPDATE dcounter.self SET system_id = system_id - 1, timeline = timeline + 1;
SELECT dc_compact(NULL), dc_get('early', 'x');
UPDATE dcounter.self SET timeline = timeline - 1, dboid = 1;
SELECT dc_compact(NULL), dc_get('early', 'x');
UPDATE dcounter.self SET dboid = (SELECT s.dboid FROM pg_temp.self AS s);
SELECT dc_compact('early'), is_sound('early');
SELECT * FROM regions_of('early');

SELECT dc_drop('early'), dc_drop('seeds'), dc_drop('region_c');
SELECT * FROM pg_publication_tables WHERE pubname LIKE 'dcounter%';
DROP TABLE region_ledger;
DROP SCHEMA region_schema;
DROP FUNCTION keys_of, regions_of, is_sound;
DELETE FROM dcounter.self;
DELETE FROM dcounter.region;
DROP PUBLICATION dcounter_own, dcounter_all;
DROP OWNED BY region_user;
DROP ROLE region_user;
