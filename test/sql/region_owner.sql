-- What owners put on the tables that rows of other regions come to: nothing is written, and none of it runs
-- in the merge. What the server calls before, as defaults of columns that are not sent, is in
-- test/t/region/region_owner.pl.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = error; -- wal_level need not be logical
CREATE EXTENSION IF NOT EXISTS dcounter;
SELECT dc_region_init('eu') > 0;
SET client_min_messages = warning;
CREATE ROLE region_owner;
GRANT EXECUTE ON FUNCTION dc_replicate(regclass, boolean) TO region_owner;
CREATE SCHEMA region_mine AUTHORIZATION region_owner;
SET ROLE region_owner;
SET search_path = region_mine, public;
CREATE SEQUENCE ran; -- which a transaction that fails leaves as it is
GRANT ALL ON SCHEMA region_mine TO PUBLIC;
-- What the owner would like to run as somebody else
CREATE FUNCTION note() RETURNS void LANGUAGE plpgsql AS $$BEGIN IF current_user <> 'region_owner' THEN PERFORM nextval('region_mine.ran'); END IF; END$$;
CREATE FUNCTION spy(anyelement) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM region_mine.note(); RETURN true; END$$;
CREATE FUNCTION spy_trigger() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM region_mine.note(); RETURN NEW; END$$;
SELECT dc_create('plays'), dc_stock_create('seats');
SELECT dc_replicate('plays'), dc_replicate('seats');
SELECT dc_incr('plays', 'a', 5), dc_restock('seats', 'a', 5);
SELECT dc_compact('plays');
RESET ROLE;

-- Rows come as an apply worker writes them: an insert and an update; and rows of this region are written
CREATE FUNCTION come(OUT inserted text, OUT updated text, OUT compacted text, OUT ran bigint) LANGUAGE plpgsql AS $$
DECLARE
	n int := (SELECT count(*) FROM plays_region);
BEGIN
	PERFORM setval('region_mine.ran', 1, false);
	PERFORM set_config('session_replication_role', 'replica', false);
	BEGIN
		INSERT INTO plays_region (key, region, epoch, inc, dec, updated_at) VALUES ('b', 'us', n, 3, 1, now());
		inserted := CASE WHEN EXISTS (SELECT FROM plays_region WHERE epoch = n) THEN 'merged' ELSE 'not there' END;
	EXCEPTION WHEN wrong_object_type OR object_not_in_prerequisite_state THEN
		GET STACKED DIAGNOSTICS inserted = PG_EXCEPTION_DETAIL;
	END;
	BEGIN
		UPDATE plays_region SET inc = inc + 10 WHERE region = 'asia';
		updated := CASE WHEN FOUND THEN 'merged' ELSE 'not there' END;
	EXCEPTION WHEN wrong_object_type OR object_not_in_prerequisite_state THEN
		GET STACKED DIAGNOSTICS updated = PG_EXCEPTION_DETAIL;
	END;
	PERFORM set_config('session_replication_role', 'origin', false);
	BEGIN
		PERFORM dc_incr('plays', 'a'), dc_apply();
		PERFORM dc_compact('plays');
		compacted := CASE WHEN EXISTS (SELECT FROM plays_shard WHERE shard >= 0 AND inc <> 0) THEN 'not compacted' ELSE 'compacted' END;
	EXCEPTION WHEN wrong_object_type OR object_not_in_prerequisite_state THEN
		GET STACKED DIAGNOSTICS compacted = PG_EXCEPTION_DETAIL;
	END;
	SELECT CASE WHEN r.is_called THEN r.last_value ELSE 0 END INTO ran FROM region_mine.ran AS r;
END$$;
SET session_replication_role = replica;
INSERT INTO plays_region VALUES ('c', 'asia', 1, 1, 0, now());
RESET session_replication_role;
SELECT * FROM come();
-- What the owner does, the result, and that all is well after it is undone
CREATE FUNCTION attack(do_it text, undo_it text, OUT inserted text, OUT updated text, OUT compacted text, OUT ran bigint, OUT sound boolean) LANGUAGE plpgsql AS $$
BEGIN
	SET ROLE region_owner;
	EXECUTE do_it;
	RESET ROLE;
	SELECT c.inserted, c.updated, c.compacted, c.ran INTO inserted, updated, compacted, ran FROM come() AS c;
	SET ROLE region_owner;
	EXECUTE undo_it;
	RESET ROLE;
	SELECT c.inserted = 'merged' AND c.updated = 'merged' AND c.compacted = 'compacted' AND c.ran = 0 INTO sound FROM come() AS c;
	sound := sound AND (SELECT keys = 0 FROM dc_region_check('plays') WHERE region IS NULL);
END$$;
\pset format unaligned
\pset tuples_only on
SELECT * FROM attack('ALTER TABLE plays_region ALTER inc TYPE int', '');
-- what others are sent must be as they expect it
SELECT * FROM attack('ALTER TABLE plays_region ADD CONSTRAINT c CHECK (spy(inc)) NOT VALID', '');
SELECT * FROM attack('CREATE TRIGGER z BEFORE INSERT OR UPDATE ON plays_region FOR EACH ROW EXECUTE FUNCTION spy_trigger()', '');
RESET ROLE;
-- A superuser may leave it in any way. Its owner mends one problem after the other, and is not kept from what has nothing to do with them
CREATE ROLE region_reader;
GRANT SELECT ON plays_region, seats_want TO region_reader;
BEGIN;
CREATE UNIQUE INDEX plays_region_pkey_ccnew ON plays_region (key, region, epoch); -- as REINDEX CONCURRENTLY leaves it
SET ROLE region_owner;
REVOKE SELECT ON plays_region FROM region_reader;
ALTER TABLE plays_region SET (fillfactor = 40);
ALTER TABLE plays_region ALTER inc SET DEFAULT 0;
CREATE STATISTICS plays_region_stat ON key, region FROM plays_region;
CREATE TYPE unused AS ENUM ('a');
ALTER TABLE plays_region ALTER inc SET STATISTICS 10, ALTER inc SET NOT NULL;
ROLLBACK;
BEGIN;
ALTER TABLE plays_region ADD CONSTRAINT c CHECK (inc >= 0), ADD CONSTRAINT d CHECK (dec >= 0), ENABLE ROW LEVEL SECURITY, ALTER inc SET DEFAULT spy(1)::int,
	REPLICA IDENTITY FULL, ADD note text, ADD other text, ADD UNIQUE (epoch, region, key), ADD UNIQUE (region, key, epoch);
CREATE TRIGGER y BEFORE INSERT ON plays_region FOR EACH ROW EXECUTE FUNCTION spy_trigger();
CREATE TRIGGER z BEFORE INSERT ON plays_region FOR EACH ROW EXECUTE FUNCTION spy_trigger();
SET ROLE region_owner;
CREATE FUNCTION try(sql text) RETURNS text LANGUAGE plpgsql AS $$BEGIN EXECUTE sql; RETURN 'done'; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM; END$$;
SELECT s, try(s) FROM unnest('{REVOKE SELECT ON plays_region FROM region_reader,"REVOKE INSERT ON plays_region FROM region_owner","REVOKE USAGE ON SCHEMA region_mine FROM PUBLIC",
	DROP TRIGGER z ON plays_region,ALTER TABLE plays_region DROP CONSTRAINT c,ALTER TABLE plays_region DROP other,ALTER TABLE plays_region DISABLE ROW LEVEL SECURITY,
	ALTER TABLE plays_region ALTER inc DROP DEFAULT,ALTER TABLE plays_region REPLICA IDENTITY DEFAULT,ALTER TABLE plays_region DROP CONSTRAINT plays_region_epoch_region_key_key,
	DROP TRIGGER dcounter_merge ON plays_region,ALTER TABLE plays_region DROP CONSTRAINT plays_region_pkey,ALTER TABLE plays_region DROP inc CASCADE,
	ALTER TABLE plays_region ALTER inc SET DEFAULT spy(1)::int,ALTER TABLE plays_region REPLICA IDENTITY FULL,ALTER TABLE plays_region DISABLE TRIGGER USER,
	ALTER TABLE plays_region SET (user_catalog_table),ALTER TABLE plays_region ADD CHECK (inc > 0),
	DROP TRIGGER y ON plays_region,ALTER TABLE plays_region DROP note,ALTER TABLE plays_region DROP CONSTRAINT d,ALTER TABLE plays_region DROP CONSTRAINT plays_region_region_key_epoch_key,
	ALTER TABLE plays_region ALTER inc SET NOT NULL}'::text[]) AS s;
SELECT try('ALTER TABLE plays_region ADD UNIQUE (key, region, epoch)'), try('ALTER TABLE plays_region ADD UNIQUE (key, region, epoch) DEFERRABLE');
ROLLBACK;
-- What is wrong with another table, or with a table that nobody alters
ALTER TABLE plays_region ADD CONSTRAINT c CHECK (inc >= 0);
SET ROLE region_owner;
ALTER TABLE plays ADD note text;
ALTER TABLE plays DROP note;
CREATE INDEX i ON plays (inc);
DROP INDEX i;
ALTER TABLE plays_set ALTER hlc SET DEFAULT 0;
ALTER TABLE plays_set ALTER hlc DROP DEFAULT;
ALTER TABLE plays OWNER TO region_owner;
CREATE TABLE child () INHERITS (plays_set);
ALTER TABLE plays_region DROP CONSTRAINT c;
RESET ROLE;
-- Rights of others, while the owner lacks some, which are given one by one
BEGIN;
REVOKE INSERT ON plays_region, seats_want FROM region_owner;
SET ROLE region_owner;
REVOKE SELECT ON plays_region FROM region_reader;
GRANT INSERT ON plays_region TO region_owner;
REVOKE SELECT ON seats_want FROM region_reader;
GRANT INSERT ON seats_want TO region_owner;
REVOKE INSERT ON seats_want FROM region_owner;
ROLLBACK;
-- The owner of the schema revokes its use from an owner of stocks there
BEGIN;
CREATE ROLE region_landlord;
ALTER SCHEMA region_mine OWNER TO region_landlord;
SET LOCAL ROLE region_landlord;
REVOKE ALL ON SCHEMA region_mine FROM PUBLIC;
SELECT has_schema_privilege('region_owner', 'region_mine', 'USAGE');
ROLLBACK;

-- Tables made by hand do not make a counter a replicated one: that takes the right to replicate
CREATE ROLE region_poor;
CREATE SCHEMA region_hand AUTHORIZATION region_poor;
GRANT SELECT ON plays, plays_shard, plays_region, plays_set, seats, seats_shard, seats_hold, seats_grant, seats_want TO region_poor;
SET ROLE region_poor;
DO $$
DECLARE
	t text;
BEGIN
	FOREACH t IN ARRAY '{plays,plays_shard,plays_region,plays_set,seats,seats_shard,seats_hold,seats_grant,seats_want}'::text[] LOOP
		EXECUTE format('CREATE TABLE region_hand.%I (LIKE region_mine.%1$I INCLUDING ALL)', t);
	END LOOP;
END$$;
SET client_min_messages = notice;
\set VERBOSITY default
SELECT dc_adopt('region_hand.plays');
\set VERBOSITY terse
SELECT dc_adopt('region_hand.seats');
SET client_min_messages = warning;
SELECT dc_incr('region_hand.plays', 'a', 2), dc_restock('region_hand.seats', 'a', 2);
SELECT dc_get('region_hand.plays', 'a'), dc_get('region_hand.seats', 'a');
RESET ROLE;
SELECT counter, regions, sets, grants, wants FROM dcounter.counter WHERE counter::text LIKE 'region_hand.%' ORDER BY 1;
-- with the right, and as a superuser who restores a schema
DELETE FROM dcounter.counter WHERE counter::text LIKE 'region_hand.%';
GRANT EXECUTE ON FUNCTION dc_replicate(regclass, boolean) TO region_poor;
SET ROLE region_poor;
SELECT dc_adopt('region_hand.plays');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION dc_replicate(regclass, boolean) FROM region_poor;
SELECT dc_adopt('region_hand.seats');
SELECT counter, regions, sets, grants, wants FROM dcounter.counter WHERE counter::text LIKE 'region_hand.%' ORDER BY 1;
-- those of a ledger are never replicated
SELECT dc_ledger_create('region_hand.bank');
CREATE TABLE region_hand.bank_region (LIKE plays_region INCLUDING ALL);
CREATE TABLE region_hand.bank_set (LIKE plays_set INCLUDING ALL);
DELETE FROM dcounter.ledger WHERE ledger = 'region_hand.bank'::regclass;
DELETE FROM dcounter.counter WHERE counter::text LIKE 'region_hand.bank%';
SELECT dc_ledger_adopt('region_hand.bank', false);
SELECT counter, regions, sets FROM dcounter.counter WHERE counter::text LIKE 'region_hand.bank%' ORDER BY 1;
DROP SCHEMA region_hand CASCADE;
REVOKE SELECT ON plays, plays_shard, plays_region, plays_set, seats, seats_shard, seats_hold, seats_grant, seats_want FROM region_poor, region_reader;
DROP ROLE region_poor, region_reader;
-- no longer sent by this database, so the owner may do it
ALTER PUBLICATION dcounter_own DROP TABLE plays_region, seats_grant, seats_want;
ALTER PUBLICATION dcounter_all DROP TABLE plays_region, seats_grant, seats_want;
ALTER PUBLICATION dcounter_own DROP TABLE plays_set;
ALTER PUBLICATION dcounter_all DROP TABLE plays_set;
SELECT * FROM attack('ALTER TABLE plays_region ADD CONSTRAINT c CHECK (spy(inc)) NOT VALID', 'ALTER TABLE plays_region DROP CONSTRAINT c');
SELECT * FROM attack('ALTER TABLE plays_region ADD g boolean GENERATED ALWAYS AS (spy(inc)) STORED', 'ALTER TABLE plays_region DROP g');
SELECT * FROM attack('ALTER TABLE plays_region ADD g boolean NOT NULL DEFAULT true', 'ALTER TABLE plays_region DROP g');
SELECT * FROM attack('CREATE INDEX i ON plays_region (spy(inc))', 'DROP INDEX i');
SELECT * FROM attack('CREATE INDEX i ON plays_region (inc) WHERE spy(inc)', 'DROP INDEX i');
SELECT * FROM attack('CREATE RULE r AS ON INSERT TO plays_region DO ALSO SELECT spy(1)', 'DROP RULE r ON plays_region');
SELECT * FROM attack('CREATE POLICY p ON plays_region USING (spy(inc)); ALTER TABLE plays_region ENABLE ROW LEVEL SECURITY', 'ALTER TABLE plays_region DISABLE ROW LEVEL SECURITY; DROP POLICY p ON plays_region');
SELECT * FROM attack('ALTER TABLE plays_region ADD CONSTRAINT f FOREIGN KEY (key) REFERENCES plays DEFERRABLE NOT VALID', 'ALTER TABLE plays_region DROP CONSTRAINT f');
SELECT * FROM attack('CREATE TRIGGER z BEFORE INSERT OR UPDATE ON plays_region FOR EACH ROW EXECUTE FUNCTION spy_trigger()', 'DROP TRIGGER z ON plays_region');
SELECT * FROM attack('CREATE TRIGGER z BEFORE INSERT OR UPDATE ON plays_region FOR EACH ROW EXECUTE FUNCTION spy_trigger(); ALTER TABLE plays_region ENABLE ALWAYS TRIGGER z', 'DROP TRIGGER z ON plays_region');
SELECT * FROM attack('CREATE TRIGGER z BEFORE INSERT OR UPDATE ON plays_region FOR EACH ROW EXECUTE FUNCTION spy_trigger(); ALTER TABLE plays_region ENABLE REPLICA TRIGGER z', 'DROP TRIGGER z ON plays_region');
SELECT * FROM attack('CREATE TRIGGER z AFTER INSERT OR UPDATE ON plays_region FOR EACH ROW EXECUTE FUNCTION spy_trigger(); ALTER TABLE plays_region ENABLE REPLICA TRIGGER z', 'DROP TRIGGER z ON plays_region');
SELECT * FROM attack('CREATE TRIGGER z AFTER INSERT OR UPDATE ON plays_region EXECUTE FUNCTION spy_trigger(); ALTER TABLE plays_region ENABLE ALWAYS TRIGGER z', 'DROP TRIGGER z ON plays_region');
SELECT * FROM attack('CREATE TRIGGER z BEFORE INSERT OR UPDATE OR TRUNCATE ON plays_region EXECUTE FUNCTION spy_trigger()', 'DROP TRIGGER z ON plays_region');
SELECT * FROM attack('CREATE DOMAIN d AS bigint CHECK (value <> -7); ALTER TABLE plays_region ALTER inc TYPE d', 'ALTER TABLE plays_region ALTER inc TYPE bigint; DROP DOMAIN d');
SELECT * FROM attack('ALTER TABLE plays_region ALTER inc TYPE int', 'ALTER TABLE plays_region ALTER inc TYPE bigint');
-- without the merge trigger the values are wrong, and can be repaired
SELECT * FROM attack('ALTER TABLE plays_region DISABLE TRIGGER ALL', 'ALTER TABLE plays_region ENABLE REPLICA TRIGGER dcounter_merge');
SELECT dc_region_repair('plays') > 0;
-- the trigger that merges, as it is restored by an owner of a database: twice, and under another name
GRANT EXECUTE ON FUNCTION dcounter.merge_region() TO region_owner;
SELECT * FROM attack('CREATE TRIGGER z BEFORE INSERT OR UPDATE ON plays_region FOR EACH ROW EXECUTE FUNCTION dcounter.merge_region(); ALTER TABLE plays_region ENABLE REPLICA TRIGGER z', 'DROP TRIGGER z ON plays_region');
SELECT * FROM attack('ALTER TABLE plays_region ENABLE ALWAYS TRIGGER dcounter_merge', 'ALTER TABLE plays_region ENABLE REPLICA TRIGGER dcounter_merge');
SELECT * FROM attack('ALTER TRIGGER dcounter_merge ON plays_region RENAME TO other', 'ALTER TRIGGER other ON plays_region RENAME TO dcounter_merge');
SELECT * FROM attack('CREATE TABLE whole (LIKE plays_region INCLUDING DEFAULTS) PARTITION BY LIST (key); ALTER TABLE whole ATTACH PARTITION plays_region DEFAULT', 'ALTER TABLE whole DETACH PARTITION plays_region; DROP TABLE whole');
REVOKE EXECUTE ON FUNCTION dcounter.merge_region() FROM region_owner;
-- Tables of a stock: triggers that are told of TRUNCATE as well
SELECT setval('ran', 1, false);
SET session_replication_role = replica;
INSERT INTO seats_grant SELECT 'a', 'us', 1, 'eu', rights_epoch, 7 FROM dcounter.counter WHERE counter = 'seats'::regclass;
SET ROLE region_owner;
CREATE TRIGGER z BEFORE INSERT OR UPDATE OR TRUNCATE ON seats_want EXECUTE FUNCTION spy_trigger();
CREATE TRIGGER z BEFORE INSERT OR UPDATE ON seats_grant FOR EACH ROW EXECUTE FUNCTION spy_trigger();
ALTER TABLE seats_grant ENABLE REPLICA TRIGGER z;
RESET ROLE;
INSERT INTO seats_grant SELECT 'b', 'us', 1, 'eu', rights_epoch, 7 FROM dcounter.counter WHERE counter = 'seats'::regclass;
UPDATE seats_grant SET units = 9;
RESET session_replication_role;
SELECT dc_want('seats', 'a', 3);
SELECT is_called FROM ran;
DROP TRIGGER z ON seats_grant;
SELECT dc_want('seats', 'a', 3);
DROP TRIGGER z ON seats_want;
SELECT dc_want('seats', 'a', 3);
SET session_replication_role = replica;
UPDATE seats_grant SET units = 9;
RESET session_replication_role;
SELECT dc_get('seats', 'a');

-- The functions of the triggers: nobody calls them, nor puts them on tables
SET ROLE region_owner;
CREATE TABLE bait (LIKE plays_region INCLUDING ALL);
CREATE FUNCTION try(sql text) RETURNS text LANGUAGE plpgsql AS $$BEGIN EXECUTE sql; RETURN 'done'; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM; END$$;
SELECT f, try(format('SELECT dcounter.%s()', f)), try(format('CREATE TRIGGER t BEFORE INSERT ON bait FOR EACH ROW EXECUTE FUNCTION dcounter.%s()', f))
	FROM unnest('{merge_region,merge_grant,merge_want,on_self_change}'::text[]) AS f;
RESET ROLE;
SELECT f, try(format('SELECT dcounter.%s()', f)) FROM unnest('{merge_region,merge_grant,merge_want,on_self_change}'::text[]) AS f;
CREATE FUNCTION on_bait(f text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TRIGGER t BEFORE INSERT ON bait FOR EACH ROW EXECUTE FUNCTION dcounter.%s()', f);
	RETURN try($i$INSERT INTO bait VALUES ('a', 'us', 1, 5, 0, now())$i$);
END$$;
BEGIN;
SELECT on_bait('merge_region');
ROLLBACK;
BEGIN;
SELECT on_bait('merge_grant');
ROLLBACK;
BEGIN;
SELECT on_bait('merge_want');
ROLLBACK;
BEGIN;
SELECT on_bait('on_self_change');
ROLLBACK;
SELECT dc_drop('plays'), dc_drop('seats');
DELETE FROM dcounter.self;
DELETE FROM dcounter.region;
DROP PUBLICATION dcounter_own, dcounter_all;
DROP SCHEMA region_mine CASCADE;
REVOKE EXECUTE ON FUNCTION dc_replicate(regclass, boolean) FROM region_owner;
DROP ROLE region_owner;
