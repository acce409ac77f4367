-- Stocks that several regions sell from: what others send is written as an apply worker does
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET timezone = 'UTC';
SET client_min_messages = error; -- wal_level may be any
SELECT dc_stock_create('shop');
SELECT dc_replicate('shop');
SELECT dc_want('shop', 'a', 1);
SELECT * FROM dc_stock_regions('shop', 'a');
SELECT dc_rights_reclaim('shop', 'us');
SELECT dc_region_init('eu') > 0;
SELECT dc_restock('shop', 'a', 10);
SELECT dc_replicate('shop');
SELECT dc_replicate('shop', seed => true);
SELECT dc_replicate('shop', seed => true);
SELECT grants, wants, rights_epoch > 0, regions FROM dcounter.counter WHERE counter = 'shop'::regclass;
SELECT pubname, tablename, attnames, rowfilter FROM pg_publication_tables WHERE tablename LIKE 'shop%' ORDER BY 1, 2;
SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger WHERE tgrelid IN ('shop_grant'::regclass, 'shop_want'::regclass) ORDER BY 1, 2;

CREATE FUNCTION is_right(OUT key text, OUT units bigint, OUT right_sums boolean) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT k, (SELECT sum(s.units)::bigint FROM shop_shard AS s WHERE s.key = k), dc_get('shop', k) = coalesce((SELECT sum(s.units) FROM shop_shard AS s WHERE s.key = k), 0)
	FROM (SELECT s.key FROM shop AS s UNION SELECT s.key FROM shop_shard AS s) AS u(k) ORDER BY k COLLATE "C" $$;
CREATE FUNCTION granted(OUT key text, OUT "from" text, OUT "to" text, OUT own_epochs text, OUT units bigint) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT g.key, g.from_region, g.to_region, (g.from_epoch = c.rights_epoch)::text || (g.to_epoch = c.rights_epoch), g.units
	FROM shop_grant AS g, dcounter.counter AS c WHERE c.counter = 'shop'::regclass ORDER BY 1, 2, 3, 4, 5 $$;

-- Takes work as before; setters are refused
SELECT dc_take('shop', 'a', 3), dc_get('shop', 'a');
SELECT dc_set('shop', 'a', 1);
SELECT dc_reset('shop', 'a');
SELECT dc_delete('shop', 'a');
TRUNCATE shop;
TRUNCATE shop_grant;
DROP TABLE shop_want;

-- Another region wants units, and this one gives them: the oldest first
SET session_replication_role = replica;
INSERT INTO shop_want VALUES ('a', 'us', 7, 100, 50, 2, 0, 0, 2, 50, 0, 0, 'infinity', 0, 0), ('a', 'asia', 9, 100, 40, 3, 0, 0, 3, 40, 0, 0, 'infinity', 0, 0);
RESET session_replication_role;
CALL dc_maintain();
SELECT * FROM granted();
SELECT * FROM is_right();
CALL dc_maintain();
SELECT * FROM granted();
-- there are 2 left: the older request gets them
SET session_replication_role = replica;
UPDATE shop_want SET hlc = 101, since = 60, wanted = 2, granted = 2 WHERE region = 'us';
UPDATE shop_want SET hlc = 101, since = 61, wanted = 2, granted = 3 WHERE region = 'asia';
UPDATE shop_want SET hlc = 100, wanted = 1000 WHERE region = 'asia'; -- an older message
RESET session_replication_role;
CALL dc_maintain();
SELECT * FROM granted();
SELECT * FROM is_right();
SELECT dc_take('shop', 'a'), dc_restock('shop', 'a', 1);
CALL dc_maintain();
SELECT * FROM granted();

-- What comes: once, however often, and for this region and its epoch alone
SET session_replication_role = replica;
INSERT INTO shop_grant SELECT 'b', 'us', 7, 'eu', rights_epoch, 5 FROM dcounter.counter WHERE counter = 'shop'::regclass;
INSERT INTO shop_grant SELECT 'b', 'us', 7, 'eu', rights_epoch, 5 FROM dcounter.counter WHERE counter = 'shop'::regclass;
INSERT INTO shop_grant SELECT 'b', 'us', 7, 'eu', rights_epoch, 8 FROM dcounter.counter WHERE counter = 'shop'::regclass;
INSERT INTO shop_grant SELECT 'b', 'us', 7, 'eu', rights_epoch, 4 FROM dcounter.counter WHERE counter = 'shop'::regclass;
UPDATE shop_grant SET units = 9 WHERE key = 'b';
UPDATE shop_grant SET units = 3 WHERE key = 'b';
UPDATE shop_grant SET units = 9 WHERE key = 'b';
UPDATE shop_grant SET to_region = 'us' WHERE key = 'b';
INSERT INTO shop_grant VALUES ('b', 'us', 7, 'eu', 1, 100), ('b', 'us', 7, 'asia', 9, 100);
RESET session_replication_role;
SELECT * FROM granted() WHERE key = 'b';
SELECT * FROM is_right();
SELECT dc_take('shop', 'b', 9), dc_take('shop', 'b');

-- Asking
SELECT dc_want('shop', 'c', 4), dc_want('shop', 'c', 1);
SELECT region, wanted, low, granted, kept, asked, since = asked_at, units FROM shop_want WHERE key = 'c';
SET session_replication_role = replica;
INSERT INTO shop_grant SELECT 'c', 'us', 7, 'eu', rights_epoch, 3 FROM dcounter.counter WHERE counter = 'shop'::regclass;
RESET session_replication_role;
SELECT dc_want('shop', 'c', 1);
SELECT region, wanted, low, granted, kept, asked, since = asked_at, units FROM shop_want WHERE key = 'c';
-- an own older request keeps what it needs from a younger one, not from an older
SET session_replication_role = replica;
INSERT INTO shop_want VALUES ('c', 'us', 7, 100, 9000000000000000, 2, 0, 0, 2, 9000000000000000, 0, 0, 'infinity', 0, 0);
RESET session_replication_role;
CALL dc_maintain();
SELECT * FROM granted() WHERE key = 'c';
SELECT dc_want('shop', 'c', 0);
SELECT region, wanted, low, granted, kept, asked, since, units FROM shop_want WHERE key = 'c' ORDER BY region;
CALL dc_maintain();
SELECT * FROM granted() WHERE key = 'c';
SELECT region, units, granted_in, granted_out, wanted, wanted_since FROM dc_stock_regions('shop', 'c');
SELECT dc_want('shop', 'c', -1);

-- Waiting
CALL dc_take_wait('shop', 'c', 1, '1 second');
CALL dc_take_wait('shop', 'd', 1, '150 ms');
SELECT region, wanted, kept, waits, since FROM shop_want WHERE key = 'd';
BEGIN;
CALL dc_take_wait('shop', 'c', 1, '1 second');
ROLLBACK;
CALL dc_take_wait('shop', 'c', 0, '1 second');
CALL dc_take_wait('shop', 'c', 1, '-1 second');
CALL dc_take_wait('shop', 'c', 1, NULL);

-- Units that nobody has asked for are reported, and reported again later; a region that has units cannot be retired
SELECT dc_restock('shop', 'told', 6), dc_restock('shop', 'sold', 1);
SELECT dc_take('shop', 'sold');
CALL dc_maintain();
SELECT key, region, wanted, low, units FROM shop_want WHERE key IN ('told', 'sold');
SELECT dc_take('shop', 'told', 2);
UPDATE shop_want SET hlc = 1 WHERE key = 'told';
CALL dc_maintain();
SELECT key, region, wanted, low, units FROM shop_want WHERE key = 'told';
SELECT dc_stock_create('large');
SELECT dc_replicate('large');
SELECT count(dc_restock('large', n, 1)) FROM generate_series(1, 1200) AS n;
CALL dc_maintain();
SELECT count(*), sum(units) FROM large_want;
SELECT dc_drop('large');
SET session_replication_role = replica;
INSERT INTO shop_want VALUES ('told', 'west', 11, 100, 0, 0, 0, 0, 0, 0, 0, 0, '-infinity', 5, 0);
RESET session_replication_role;
INSERT INTO dcounter.region (region, epoch) VALUES ('west', 11);
SELECT dc_region_retire('west');
SELECT dc_region_retire('west', force => true);
SELECT dc_rights_reclaim('shop', 'west');
DELETE FROM dcounter.region WHERE region = 'west';

-- A stock that is shut: a session that has found it open before sees that
SELECT dc_hold('shop', 'told', 1, '1 day', '00000000-0000-4000-8000-000000000001');
BEGIN;
SELECT dc_take('shop', 'told');
UPDATE dcounter.counter SET rights_epoch = -rights_epoch WHERE counter = 'shop'::regclass;
SELECT dc_take('shop', 'told');
ROLLBACK;
UPDATE dcounter.counter SET rights_epoch = -rights_epoch WHERE counter = 'shop'::regclass;
SELECT dc_take('shop', 'told');
SELECT dc_hold_confirm('shop', '00000000-0000-4000-8000-000000000001');
SELECT dc_hold_release('shop', '00000000-0000-4000-8000-000000000001');
UPDATE dcounter.counter SET rights_epoch = -rights_epoch WHERE counter = 'shop'::regclass;
SELECT dc_take('shop', 'told', 9);

-- A region that is gone
SELECT dc_rights_reclaim('shop', 'eu');
SELECT dc_rights_reclaim('shop', 'us');
INSERT INTO dcounter.region (region, epoch, retired_at) VALUES ('us', 7, now());
SET session_replication_role = replica;
UPDATE shop_want SET hlc = 200, units = 4, granted = 2, given = 3, wanted = 0 WHERE region = 'us' AND key = 'c';
RESET session_replication_role;
SELECT dc_rights_reclaim('shop', 'us', 'c');
SELECT dc_rights_reclaim('shop', 'us', 'c'), dc_rights_reclaim('shop', 'us', 'nothing');
SELECT key, from_region, from_epoch, to_region, units FROM shop_grant WHERE from_region = 'eu' AND to_region = 'eu' ORDER BY key;
SELECT * FROM is_right();

-- Renamed, adopted
ALTER TABLE shop RENAME TO market;
SELECT grants, wants FROM dcounter.counter WHERE counter = 'market'::regclass;
ALTER TABLE market RENAME TO shop;
DELETE FROM dcounter.counter WHERE counter = 'shop'::regclass;
SELECT dc_adopt('shop');
SELECT grants, wants, rights_epoch > 0 FROM dcounter.counter WHERE counter = 'shop'::regclass;
SELECT count(*) FROM granted() WHERE own_epochs LIKE '%true%';
-- A database that was restored sells nothing, gives nothing and gets nothing
SET dcounter.region_handshake = '100ms';
UPDATE dcounter.self SET state = 'renew';
\c -
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SELECT dc_restock('shop', 'c', 1);
SELECT dc_take('shop', 'c');
SELECT dc_hold('shop', 'c');
SELECT dc_want('shop', 'c', 1);
SET session_replication_role = replica;
INSERT INTO shop_grant SELECT 'e', 'us', 7, 'eu', rights_epoch, 5 FROM dcounter.counter WHERE counter = 'shop'::regclass;
RESET session_replication_role;
UPDATE dcounter.self SET state = 'active';
-- Code of the owner on the tables
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER own BEFORE INSERT ON shop_grant FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT dc_want('shop', 'c', 1);
DROP TRIGGER own ON shop_grant;
DROP FUNCTION nothing;
SELECT dc_want('shop', 'c', 1);
SET ROLE pg_read_all_data;
SELECT dc_want('shop', 'c', 1);
CALL dc_take_wait('shop', 'c', 1, '1 second');
SELECT dc_rights_reclaim('shop', 'us');
RESET ROLE;
SELECT dc_unreplicate('shop');
DROP FUNCTION is_right, granted;
SELECT dc_drop('shop');
SELECT relname FROM pg_class WHERE relname LIKE 'shop%';
DELETE FROM dcounter.region;
DELETE FROM dcounter.self;
DROP PUBLICATION dcounter_own, dcounter_all;
