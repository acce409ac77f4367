-- Links between regions: the statements that make them.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dcounter;
RESET client_min_messages;
-- In no region
SELECT dc_region_join('us', 'host=us');
SELECT dc_region_refresh('us', 'host=us');
CALL dc_region_wait_copied();
SET client_min_messages = error; -- wal_level may be any
SELECT dc_region_init('eu') > 0;
RESET client_min_messages;
-- The hash at the end of a slot's name depends on the epoch
CREATE FUNCTION plain(text) RETURNS text LANGUAGE sql AS $$SELECT regexp_replace(regexp_replace($1, '_[0-9a-f]{16}', '_HASH'), ', origin = any, run_as_owner = false', '')$$;
SELECT plain(dc_region_join('us', 'host=us dbname=shop'));
SELECT count(*) FROM unnest('{mesh,hub,leaf,ring,tree}'::text[]) AS topology, dc_region_join('us', 'host=us', topology) GROUP BY topology ORDER BY topology;
-- Before the first link of a mesh, all that the peer knows is copied: not if another region is known
INSERT INTO dcounter.region (region, epoch) VALUES ('known', 1);
SELECT plain(dc_region_join('us', 'host=us dbname=shop'));
SELECT plain(dc_region_join('us', 'host=us', topology)) FROM unnest('{mesh,hub,leaf,ring,tree}'::text[]) AS topology;
SELECT plain(dc_region_refresh('us', 'host=us'));
-- What is passed is one literal
SELECT plain(dc_region_join('us', $$password='it\'s' host=us'; DROP TABLE x; --$$));
SELECT plain(dc_region_refresh('us', $$password='it\'s'$$)) LIMIT 1;
-- A slot's name fits, and is another one for each peer, also of long names
SELECT count(DISTINCT slot), max(length(slot)) FROM unnest(ARRAY[repeat('x', 40), repeat('x', 39), repeat('x', 38) || 'y']) AS peer, dc_region_join(peer, '') AS statement, substring(statement FROM 'slot_name = (\w+)') AS slot;
SELECT substring(dc_region_join('us', '') FROM 'slot_name = (\w+)') <> substring(dc_region_refresh('us', '') FROM 'slot_name = (\w+)');
-- Arguments
SELECT dc_region_join('eu', 'host=us');
SELECT dc_region_join('US', 'host=us');
SELECT dc_region_join('', 'host=us');
SELECT dc_region_join('a"b', 'host=us');
SELECT dc_region_join(repeat('x', 41), 'host=us');
SELECT dc_region_join('us', 'host=us', 'star');
SELECT dc_region_join(NULL, 'host=us');
SELECT dc_region_join('us', NULL);
SELECT dc_region_join('us', 'host=us', NULL);
SELECT dc_region_refresh('eu', 'host=us');
SELECT dc_region_refresh(NULL, 'host=us');
SELECT dc_region_refresh('us');
CALL dc_region_wait_copied('dc_from_us');
-- A link that exists (it connects to nowhere)
SET client_min_messages = error;
CREATE SUBSCRIPTION dc_from_us CONNECTION 'host=old' PUBLICATION dcounter_own WITH (connect = false, slot_name = 'x');
RESET client_min_messages;
SELECT plain(dc_region_join('us', 'host=new'));
SELECT plain(dc_region_join('us', 'host=new', 'leaf'));
SELECT plain(dc_region_refresh('us'));
SELECT plain(dc_region_refresh('us', 'host=new'));
SELECT plain(dc_region_join('asia', 'host=asia', 'mesh'));
SELECT plain(dc_region_join('asia', 'host=asia', 'ring'));
SELECT plain(dc_region_join('asia', 'host=asia', 'tree'));
ALTER SUBSCRIPTION dc_from_us SET (slot_name = NONE);
SELECT plain(dc_region_join('us', 'host=new'));
-- Nothing is left to be copied
CALL dc_region_wait_copied('dc_from_us');
CALL dc_region_wait_copied();
BEGIN;
CALL dc_region_wait_copied();
COMMIT;
-- Who may not read passwords
CREATE ROLE region_user;
SET ROLE region_user;
SELECT dc_region_refresh('us');
SELECT plain(dc_region_refresh('us', 'host=new'));
RESET ROLE;
DROP SUBSCRIPTION dc_from_us;
-- A region that is known comes by another link
SET client_min_messages = error;
CREATE SUBSCRIPTION other CONNECTION 'host=old' PUBLICATION dcounter_all WITH (connect = false, slot_name = NONE);
RESET client_min_messages;
SELECT plain(dc_region_join('us', 'host=us', 'tree'));
SET session_replication_role = replica;
INSERT INTO dcounter.region (region, epoch, seq) VALUES ('us', 1, 1);
RESET session_replication_role;
SELECT plain(dc_region_join('us', 'host=us', 'tree'));
SELECT plain(dc_region_join('us', 'host=us', 'mesh'));
SELECT plain(dc_region_join('asia', 'host=asia', 'tree'));
DROP SUBSCRIPTION other;
SELECT plain(dc_region_join('us', 'host=us', 'tree'));
-- Owners whose triggers the server would run as a superuser, before PostgreSQL 16
SELECT dc_create('mine'), dc_stock_create('seats');
SELECT dc_replicate('mine'), dc_replicate('seats');
SELECT plain(dc_region_join('us', 'host=us'));
ALTER TABLE mine OWNER TO region_user;
SELECT plain(dc_region_join('us', 'host=us'));
SELECT plain(dc_region_refresh('us', 'host=us'));
SELECT plain(dc_region_join('us', 'host=us', trust_owners => true));
SELECT plain(dc_region_refresh('us', 'host=us', true)) LIMIT 1;
SELECT dc_region_join('us', 'host=us', 'mesh', trust_owners => NULL);
SELECT dc_region_join('us', 'host=us', anew => NULL);
SELECT dc_region_refresh('us', 'host=us', NULL);
ALTER TABLE mine OWNER TO CURRENT_USER;
SELECT plain(dc_region_join('us', 'host=us'));
-- one of the tables alone, of any kind
CREATE FUNCTION refused_for(tab text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('ALTER TABLE %s OWNER TO region_user', tab);
	PERFORM dc_region_join('us', 'host=us');
	EXECUTE format('ALTER TABLE %s OWNER TO CURRENT_USER', tab);
	RETURN false;
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	RETURN SQLERRM LIKE '%: "' || split_part(tab, '.', -1) || '" of "region_user"';
END$$;
SELECT tab, refused_for(tab) FROM unnest('{mine_region,mine_set,seats_grant,seats_want,dcounter.region,mine_shard,seats_hold}'::text[]) AS tab;
-- tables that may be what the peer sends rows to, though no counter of this database has them
CREATE TABLE a_region (LIKE mine_region);
CREATE TABLE b_set (LIKE mine_set, more int) PARTITION BY HASH (key);
CREATE TABLE c_grant (LIKE seats_grant);
CREATE TABLE d_want (LIKE seats_want);
CREATE TABLE e_region (key text, region text, epoch int, inc text, updated_at date);
SELECT tab, refused_for(tab) FROM unnest('{a_region,b_set,c_grant,d_want,e_region}'::text[]) AS tab;
DROP TABLE a_region, b_set, c_grant, d_want, e_region;
-- many
CREATE SCHEMA region_many AUTHORIZATION region_user;
SET ROLE region_user;
DO $$BEGIN FOR i IN 1 .. 12 LOOP EXECUTE format('CREATE TABLE region_many.t%s (key text, region text, epoch int, inc int, dec int, updated_at date)', i); END LOOP; END$$;
RESET ROLE;
SELECT plain(dc_region_join('us', 'host=us'));
SET client_min_messages = warning;
DROP SCHEMA region_many CASCADE;
RESET client_min_messages;
-- a counter that is replicated while there are links
SELECT dc_create('later'), dc_stock_create('later_seats');
GRANT CREATE ON SCHEMA public TO region_user;
ALTER TABLE later OWNER TO region_user;
ALTER TABLE later_seats OWNER TO region_user;
BEGIN;
SELECT dc_replicate('later');
ROLLBACK;
SET client_min_messages = error;
CREATE SUBSCRIPTION dc_from_us CONNECTION 'host=old' PUBLICATION dcounter_own WITH (connect = false, slot_name = NONE);
RESET client_min_messages;
BEGIN;
SELECT dc_replicate('later');
SELECT dc_replicate('later_seats');
ROLLBACK;
-- one that is fed, and is given away
INSERT INTO pg_subscription_rel SELECT oid, 'mine_set'::regclass, 'r', NULL FROM pg_subscription WHERE subname = 'dc_from_us';
INSERT INTO pg_subscription_rel SELECT oid, 'seats_want'::regclass, 'r', NULL FROM pg_subscription WHERE subname = 'dc_from_us';
ALTER TABLE later OWNER TO CURRENT_USER;
ALTER TABLE later OWNER TO region_user;
ALTER TABLE mine OWNER TO region_user;
ALTER TABLE mine SET (fillfactor = 50);
ALTER TABLE seats OWNER TO region_user;
ALTER TABLE seats OWNER TO CURRENT_USER;
ALTER TABLE mine OWNER TO CURRENT_USER;
DROP SUBSCRIPTION dc_from_us;
REVOKE CREATE ON SCHEMA public FROM region_user;
SELECT dc_drop('mine'), dc_drop('seats'), dc_drop('later'), dc_drop('later_seats');
DROP FUNCTION refused_for;
-- A copy
SET dcounter.region_handshake = '100ms';
UPDATE dcounter.self SET state = 'renew';
SELECT dc_region_join('us', 'host=us');
DELETE FROM dcounter.self;
DELETE FROM dcounter.region;
DROP PUBLICATION dcounter_own, dcounter_all;
DROP FUNCTION plain;
DROP ROLE region_user;
