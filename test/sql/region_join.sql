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
SELECT plain(dc_region_join('us', 'host=us dbname=shop', trust_owners => true));
SELECT count(*) FROM unnest('{mesh,hub,leaf,ring,tree}'::text[]) AS topology, dc_region_join('us', 'host=us', topology, trust_owners => true) GROUP BY topology ORDER BY topology;
-- Before the first link of a mesh, all that the peer knows is copied: not if another region is known
INSERT INTO dcounter.region (region, epoch) VALUES ('known', 1);
SELECT plain(dc_region_join('us', 'host=us dbname=shop', trust_owners => true));
SELECT plain(dc_region_join('us', 'host=us', topology, trust_owners => true)) FROM unnest('{mesh,hub,leaf,ring,tree}'::text[]) AS topology;
SELECT plain(dc_region_refresh('us', 'host=us', trust_owners => true));
-- What is passed is one literal
SELECT plain(dc_region_join('us', $$password='it\'s' host=us'; DROP TABLE x; --$$, trust_owners => true));
SELECT plain(dc_region_refresh('us', $$password='it\'s'$$, trust_owners => true)) LIMIT 1;
-- A slot's name fits, and is another one for each peer, also of long names
SELECT count(DISTINCT slot), max(length(slot)) FROM unnest(ARRAY[repeat('x', 40), repeat('x', 39), repeat('x', 38) || 'y']) AS peer, dc_region_join(peer, '', trust_owners => true) AS statement, substring(statement FROM 'slot_name = (\w+)') AS slot;
SELECT substring(dc_region_join('us', '', trust_owners => true) FROM 'slot_name = (\w+)') <> substring(dc_region_refresh('us', '', trust_owners => true) FROM 'slot_name = (\w+)');
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
SELECT plain(dc_region_join('us', 'host=new', trust_owners => true));
SELECT plain(dc_region_join('us', 'host=new', 'leaf', trust_owners => true));
SELECT plain(dc_region_refresh('us', trust_owners => true));
SELECT plain(dc_region_refresh('us', 'host=new', trust_owners => true));
SELECT plain(dc_region_join('asia', 'host=asia', 'mesh', trust_owners => true));
SELECT plain(dc_region_join('asia', 'host=asia', 'ring', trust_owners => true));
SELECT plain(dc_region_join('asia', 'host=asia', 'tree', trust_owners => true));
ALTER SUBSCRIPTION dc_from_us SET (slot_name = NONE);
SELECT plain(dc_region_join('us', 'host=new', trust_owners => true));
-- Nothing is left to be copied
CALL dc_region_wait_copied('dc_from_us');
CALL dc_region_wait_copied();
BEGIN;
CALL dc_region_wait_copied();
COMMIT;
-- Who may not make links
CREATE ROLE region_user;
SET ROLE region_user;
SELECT dc_region_join('us', 'host=us');
SELECT dc_region_join('us', 'host=us', anew => true);
SELECT dc_region_refresh('us');
-- Who may not read passwords
RESET ROLE;
GRANT EXECUTE ON FUNCTION dc_region_refresh TO region_user;
SET ROLE region_user;
SELECT dc_region_refresh('us');
SELECT plain(dc_region_refresh('us', 'host=new', trust_owners => true));
RESET ROLE;
REVOKE EXECUTE ON FUNCTION dc_region_refresh FROM region_user;
DROP SUBSCRIPTION dc_from_us;
-- That a link has refreshed this database is noted for the owner, and if it is awaited: from us, and from known
SET client_min_messages = error;
CREATE SUBSCRIPTION dc_from_known CONNECTION 'host=old' PUBLICATION dcounter_own WITH (connect = false, slot_name = NONE);
CREATE SUBSCRIPTION dc_refresh_known CONNECTION 'host=old' PUBLICATION dcounter_all WITH (connect = false, slot_name = NONE);
CREATE SUBSCRIPTION dc_refresh_us CONNECTION 'host=old' PUBLICATION dcounter_all WITH (connect = false, slot_name = NONE);
RESET client_min_messages;
-- But not if it has no tables
CALL dc_region_wait_copied('dc_refresh_us');
INSERT INTO pg_subscription_rel SELECT oid, 'dcounter.region'::regclass, 'r', NULL FROM pg_subscription WHERE subname IN ('dc_refresh_known', 'dc_refresh_us');
-- Nor if it is another's, who could not have copied anything; it is no link, either, and is given no password
ALTER ROLE region_user SUPERUSER;
ALTER SUBSCRIPTION dc_refresh_us OWNER TO region_user;
ALTER SUBSCRIPTION dc_from_known RENAME TO dc_from_us;
ALTER SUBSCRIPTION dc_from_us OWNER TO region_user;
ALTER ROLE region_user NOSUPERUSER;
SET ROLE region_user;
CALL dc_region_wait_copied('dc_refresh_us');
RESET ROLE;
CALL dc_region_wait_copied('dc_refresh_us');
SELECT dc_region_refresh('us', 'password=secret', trust_owners => true);
SELECT dc_region_join('us', 'password=secret', trust_owners => true);
SELECT dc_region_refresh('us');
SELECT link_state FROM dc_regions() WHERE region = 'known';
ALTER SUBSCRIPTION dc_from_us RENAME TO dc_from_known;
SELECT link_state FROM dc_regions() WHERE region = 'known';
ALTER SUBSCRIPTION dc_refresh_us OWNER TO CURRENT_USER;
ALTER SUBSCRIPTION dc_from_known OWNER TO CURRENT_USER;
SELECT link_state FROM dc_regions() WHERE region = 'known';
CREATE VIEW identity_locks AS SELECT mode FROM pg_locks
	WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid = 0 AND objid = 0 AND objsubid = 91;
SET ROLE region_user;
CALL dc_region_wait_copied('dc_refresh_us');
CALL dc_region_wait_copied();
RESET ROLE;
BEGIN;
CALL dc_region_wait_copied('dc_refresh_us');
SELECT * FROM identity_locks;
COMMIT;
SELECT what, peer FROM dcounter.self_mark;
UPDATE dcounter.self SET state = 'recopy', begun_at = now();
SET ROLE region_user;
CALL dc_region_wait_copied('dc_refresh_known');
RESET ROLE;
CALL dc_region_wait_copied('dc_refresh_us');
CALL dc_region_wait_copied('dc_refresh_us');
CALL dc_region_wait_copied('dc_refresh_us');
SELECT what, peer FROM dcounter.self_mark;
SELECT state FROM dcounter.self;
BEGIN;
CALL dc_region_wait_copied('dc_refresh_known');
SELECT * FROM identity_locks;
COMMIT;
SELECT what, peer FROM dcounter.self_mark;
SELECT state FROM dcounter.self;
-- Outside of a transaction block the identity is free at once
UPDATE dcounter.self SET state = 'recopy', begun_at = now();
DO $$BEGIN CALL dc_region_wait_copied('dc_refresh_us'); RAISE NOTICE '% locks', (SELECT count(*) FROM identity_locks); END$$;
UPDATE dcounter.self SET state = 'active';
DELETE FROM dcounter.self_mark;
DROP VIEW identity_locks;
DROP SUBSCRIPTION dc_from_known;
DROP SUBSCRIPTION dc_refresh_known;
DROP SUBSCRIPTION dc_refresh_us;
-- A region that is known comes by another link
SET client_min_messages = error;
CREATE SUBSCRIPTION other CONNECTION 'host=old' PUBLICATION dcounter_all WITH (connect = false, slot_name = NONE);
RESET client_min_messages;
SELECT plain(dc_region_join('us', 'host=us', 'tree', trust_owners => true));
SET session_replication_role = replica;
INSERT INTO dcounter.region (region, epoch, seq) VALUES ('us', 1, 1);
RESET session_replication_role;
SELECT plain(dc_region_join('us', 'host=us', 'tree', trust_owners => true));
SELECT plain(dc_region_join('us', 'host=us', 'mesh', trust_owners => true));
SELECT plain(dc_region_join('asia', 'host=asia', 'tree', trust_owners => true));
DROP SUBSCRIPTION other;
SELECT plain(dc_region_join('us', 'host=us', 'tree', trust_owners => true));
-- Before PostgreSQL 16, the server runs what owners put on tables as a superuser
SELECT plain(dc_region_join('us', 'host=us'));
SELECT plain(dc_region_refresh('us', 'host=us'));
SELECT plain(dc_region_join('us', 'host=us', trust_owners => true));
SELECT plain(dc_region_refresh('us', 'host=us', true)) LIMIT 1;
SELECT dc_region_join('us', 'host=us', 'mesh', trust_owners => NULL);
SELECT dc_region_join('us', 'host=us', anew => NULL);
SELECT dc_region_refresh('us', 'host=us', NULL);
-- A copy
SET dcounter.region_handshake = '100ms';
UPDATE dcounter.self SET state = 'renew';
SELECT dc_region_join('us', 'host=us');
DELETE FROM dcounter.self;
DELETE FROM dcounter.region;
DROP PUBLICATION dcounter_own, dcounter_all;
DROP FUNCTION plain;
DROP ROLE region_user;
