-- Holds of several keys, confirming more than is held, and rows that units come back to
CREATE SCHEMA carts;
SET search_path = carts, public;
SET client_min_messages = warning;
SELECT dc_stock_create('s');
CREATE VIEW holds AS SELECT right(hold_id::text, 1) AS hold, key, qty, state, confirmed, keys, qtys FROM s_hold ORDER BY hold_id;
CREATE FUNCTION id(n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$SELECT ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid$$;
-- what is available, and what rows have; they differ by the units of expired holds that nobody has ended
CREATE VIEW units AS SELECT key, dc_get('s', key) AS available, sum(units) AS in_rows FROM s_shard GROUP BY key ORDER BY key;
SELECT dc_restock('s', 'a', 10), dc_restock('s', 'b', 10), dc_restock('s', 'c', 10);

-- All or nothing; a key may come more than once
SELECT dc_hold_all('s', '{c,a,c}', '{1,2,3}', '1 hour', id(1)) = id(1);
TABLE units; TABLE holds;
SELECT dc_hold_all('s', '{a,b,c}', '{1,1,7}', '1 hour', id(2)) IS NULL, dc_hold_all('s', '{a,nothing}', '{1,1}') IS NULL;
SELECT dc_hold_all('s', ARRAY[7, 8], ARRAY[1, 1]) IS NULL;
TABLE units;
-- The same hold again, in another order of its lines; or with other arguments
SELECT dc_hold_all('s', '{c,a}', '{4,2}', '60 minutes', id(1)) = id(1);
SELECT dc_hold_all('s', '{c,a}', '{4,1}', '1 hour', id(1));
SELECT dc_hold_all('s', '{c,a,b}', '{4,2,1}', '1 hour', id(1));
SELECT dc_hold_all('s', '{c,b}', '{4,2}', '1 hour', id(1));
SELECT dc_hold_all('s', '{c,a}', '{4,2}', '2 hours', id(1));
SELECT dc_hold('s', 'a', 6, '1 hour', id(1));
-- One of one key is like one that dc_hold() has made
SELECT dc_hold_all('s', '{b,b}', '{1,2}', '1 hour', id(2)) = id(2), dc_hold('s', 'b', 3, '1 hour', id(2)) = id(2);
SELECT dc_hold_all('s', '{a,b}', '{1,2}', '1 hour', id(2));
TABLE units; TABLE holds;
SELECT key, right(hold_id::text, 1) AS hold, qty FROM dc_holds('s');
SELECT key, right(hold_id::text, 1) AS hold, qty FROM dc_holds('s', 'c');
SELECT key, right(hold_id::text, 1) AS hold, qty FROM dc_holds('s', 'a');
SELECT count(*) FROM dc_holds('s', 'x');

-- It ends once, as a whole
SELECT dc_hold_confirm('s', id(1), 5);
SELECT dc_hold_confirm('s', id(1)), dc_hold_confirm('s', id(1)), dc_hold_release('s', id(1), strict => false);
SELECT dc_hold_all('s', '{c,a}', '{4,2}', '1 hour', id(1)) = id(1) AS ended;
TABLE units;
SELECT dc_hold_all('s', '{c,a}', '{4,2}', '1 hour', id(3)) = id(3), dc_hold_release('s', id(3)), dc_hold_release('s', id(3)), dc_hold_confirm('s', id(3), strict => false);
TABLE units; TABLE holds;
SELECT dc_hold_confirm('s', id(3));
-- ... a transaction that is rolled back, to a savepoint or at all
BEGIN; SELECT dc_hold_all('s', '{a,b}', '{1,1}', '1 hour', id(4)) = id(4); SAVEPOINT p; SELECT dc_hold_release('s', id(4)); ROLLBACK TO p; TABLE units; ROLLBACK;
TABLE units; SELECT dc_hold_confirm('s', id(4), strict => false);

-- Expired: its first key counts as available at once, the others when it is ended, by the first call that needs units of the first key,
SELECT dc_hold_all('s', '{a,b}', '{5,6}', '1 us', id(5)) = id(5);
TABLE units; SELECT dc_sum('s'), (dc_info('s', 'a')).value AS a, (dc_info('s', 'b')).value AS b; SELECT * FROM dc_get_many('s', '{a,b}');
SELECT count(*) FROM dc_holds('s') WHERE hold_id = id(5);
SELECT dc_take('s', 'b', 7), dc_take('s', 'a', 8), dc_take('s', 'b', 7);
TABLE units; SELECT dc_hold_confirm('s', id(5), strict => false);
SELECT dc_restock('s', 'a', 8), dc_restock('s', 'b', 7);
-- ... the worker, or who tries to end it,
SELECT dc_hold_all('s', '{a,b}', '{5,6}', '1 us', id(6)) = id(6);
CALL dc_maintain();
TABLE units;
SELECT dc_hold_all('s', '{a,b}', '{5,6}', '1 us', id(7)) = id(7), dc_hold_release('s', id(7));
TABLE units;
-- ... or sets the first key
SELECT dc_hold_all('s', '{a,b}', '{5,6}', '1 us', id(8)) = id(8), dc_set('s', 'b', 1), dc_set('s', 'a', 3), dc_get('s', 'b');
TABLE units; TABLE holds;

-- Confirming more than is held takes the rest, or leaves the hold open
SELECT dc_set('s', 'a', 10);
SELECT dc_hold('s', 'a', 4, '1 hour', id(9)) = id(9);
SELECT dc_hold_confirm('s', id(9), 11);
SELECT dc_hold_confirm('s', id(9), 11, strict => false), dc_get('s', 'a');
SELECT dc_hold_confirm('s', id(9), 9223372036854775807, strict => false);
SELECT dc_hold_confirm('s', id(9), 10), dc_hold_confirm('s', id(9), 10), dc_get('s', 'a');
SELECT dc_hold_confirm('s', id(9), 4);
SELECT state, qty, confirmed FROM s_hold WHERE hold_id = id(9);
-- ... also with units of an expired hold
SELECT dc_set('s', 'a', 4), dc_hold('s', 'a', 1, '1 hour', id(10)) = id(10), dc_hold('s', 'a', 3, '1 us') IS NOT NULL;
SELECT dc_hold_confirm('s', id(10), 4), dc_get('s', 'a');
-- ... but not with its own, which a take would give back when the time of the hold has come since the call began
SELECT dc_stock_create('w', max_shards => 1);
CREATE PROCEDURE confirm_late(n int) LANGUAGE plpgsql AS $$
DECLARE
	h uuid;
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM dc_restock('w', 'k' || i, 6);
		COMMIT;
		h := dc_hold('w', 'k' || i, 5, make_interval(secs => (20 + i % 100 * 4) / 1e6));
		PERFORM dc_hold_confirm('w', h, 7, strict => false);
		COMMIT;
	END LOOP;
END $$;
CALL confirm_late(500);
SELECT count(*) AS confirmed FROM w_hold WHERE state = 'confirmed';
CALL dc_maintain();
SELECT count(*), min(dc_get('w', key)), max(dc_get('w', key)) FROM w_hold;
BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT dc_hold('s', 'b', 1, '1 hour', id(11)) = id(11), dc_hold_confirm('s', id(11), 2, false), dc_get('s', 'b'); ROLLBACK;

-- Units that come back go to one row; what is restocked is spread, also in the same transaction: 25 units are in 10 rows
SELECT dc_restock('s', 'many', 40000);
SELECT count(*) FROM s_shard WHERE key = 'many';
SELECT dc_hold('s', 'many', 500, '1 hour', id(20 + n)) = id(20 + n) FROM generate_series(0, 7) AS n;
BEGIN; SELECT pg_current_xact_id()::xid AS me \gset
SELECT dc_hold_release('s', id(20)); COMMIT; SELECT count(*) AS rows FROM s_shard WHERE key = 'many' AND xmin = :'me'::xid;
BEGIN; SELECT pg_current_xact_id()::xid AS me \gset
SELECT dc_hold_confirm('s', id(21), 100); COMMIT; SELECT count(*) AS rows FROM s_shard WHERE key = 'many' AND xmin = :'me'::xid;
BEGIN; SELECT pg_current_xact_id()::xid AS me \gset
SELECT dc_hold_release('s', id(22)), dc_restock('s', 'many', 25); COMMIT; SELECT count(*) AS rows FROM s_shard WHERE key = 'many' AND xmin = :'me'::xid;
BEGIN; SELECT pg_current_xact_id()::xid AS me \gset
SELECT dc_restock('s', 'many', 25), dc_hold_release('s', id(23)); COMMIT; SELECT count(*) AS rows FROM s_shard WHERE key = 'many' AND xmin = :'me'::xid;
BEGIN; SELECT pg_current_xact_id()::xid AS me \gset
SELECT dc_restock('s', 'many', 25); COMMIT; SELECT count(*) AS rows FROM s_shard WHERE key = 'many' AND xmin = :'me'::xid;
BEGIN; SELECT pg_current_xact_id()::xid AS me \gset
SAVEPOINT a; SELECT dc_hold_release('s', id(24)); RELEASE a; SELECT dc_restock('s', 'many', 25); COMMIT; SELECT count(*) AS rows FROM s_shard WHERE key = 'many' AND xmin = :'me'::xid;
BEGIN; SELECT pg_current_xact_id()::xid AS me \gset
SELECT dc_hold_release('s', id(25)); SAVEPOINT a; SELECT dc_hold_release('s', id(26)); ROLLBACK TO a; COMMIT; SELECT count(*) AS rows FROM s_shard WHERE key = 'many' AND xmin = :'me'::xid;
BEGIN; SELECT pg_current_xact_id()::xid AS me \gset
SELECT dc_hold_release('s', id(26)), dc_apply(), dc_restock('s', 'many', 25); COMMIT; SELECT count(*) AS rows FROM s_shard WHERE key = 'many' AND xmin = :'me'::xid;
SELECT dc_hold('s', 'many', 300, '1 us') IS NOT NULL FROM generate_series(1, 3);
CALL dc_maintain();
SELECT dc_get('s', 'many') = 40000 - 100 + 5 * 25 - 500 AS right;
SELECT * FROM units WHERE key = 'many';

-- A table of holds of 0.1: no holds of several keys, everything else as before
ALTER TABLE s_hold DROP keys CASCADE, DROP qtys;
SELECT dc_hold_all('s', '{a,b}', '{1,1}');
SELECT dc_set('s', 'b', 5), dc_hold_all('s', '{b}', '{2}', '1 hour', id(30)) = id(30), dc_hold('s', 'b', 1, '1 us', id(31)) = id(31);
SELECT dc_get('s', 'b'), dc_sum('s') - dc_get('s', 'many') > 0; SELECT key, qty FROM dc_holds('s', 'b');
SELECT dc_hold_confirm('s', id(30), 1), dc_hold_release('s', id(31)), dc_take('s', 'b', 5), dc_take('s', 'b', 4);
CALL dc_maintain();
ALTER TABLE s_hold ADD COLUMN keys text[] COLLATE "C", ADD COLUMN qtys bigint[];
SELECT dc_restock('s', 'a', 2), dc_restock('s', 'b', 2);
SELECT dc_hold_all('s', '{a,b}', '{1,1}', '1 hour', id(32)) = id(32); SELECT key, qty FROM dc_holds('s', 'b');
-- Rows that were made by hand
UPDATE s_hold SET qtys = '{1}' WHERE hold_id = id(32); SELECT dc_hold_release('s', id(32));
UPDATE s_hold SET qtys = '{1,NULL}' WHERE hold_id = id(32); SELECT dc_hold_release('s', id(32));
UPDATE s_hold SET qtys = NULL WHERE hold_id = id(32); SELECT dc_hold_release('s', id(32)), (SELECT count(*) FROM dc_holds('s', 'b'));
UPDATE s_hold SET qtys = '{1,-1}' WHERE hold_id = id(32); SELECT dc_hold_release('s', id(32));
UPDATE s_hold SET keys = ARRAY['a', repeat('x', 2000)], qtys = '{1,1}' WHERE hold_id = id(32); SELECT dc_hold_release('s', id(32));
UPDATE s_hold SET keys = ARRAY['a', repeat('x', 2000000)], qtys = '{1,1}' WHERE hold_id = id(32); SELECT dc_hold_release('s', id(32));
UPDATE s_hold SET keys = '{}', qtys = '{}' WHERE hold_id = id(32); SELECT dc_hold_release('s', id(32));
UPDATE s_hold SET keys = '{a,b}', qtys = '{1,1}' WHERE hold_id = id(32); SELECT dc_hold_release('s', id(32));
ALTER TABLE s_hold ALTER keys TYPE text[] COLLATE "default"; SELECT dc_hold('s', 'a');
ALTER TABLE s_hold ALTER keys TYPE text[] COLLATE "C"; SELECT dc_hold('s', 'a') IS NOT NULL;

-- The worker's steps end holds by their keys, not all that have expired
SELECT count(dc_restock('s', 'l' || i, 10)) FROM generate_series(1, 1000) AS i;
SELECT count(dc_hold_all('s', (SELECT array_agg('l' || i) FROM generate_series(1, 1000) AS i), array_fill(1::bigint, '{1000}'), '1 day')) FROM generate_series(1, 5);
SELECT dc_hold('s', 'l1', 3, '1 day') IS NOT NULL;
UPDATE s_hold SET expires_at = now() - interval '1 s' WHERE key = 'l1' AND state = 'open';
CALL dc_maintain();
SELECT count(*), count(DISTINCT ended_at) > 1 AS in_several_steps FROM s_hold WHERE key = 'l1' AND state = 'expired';
SELECT count(*), min(dc_get('s', key)), max(dc_get('s', key)) FROM s WHERE key ~ '^l';

-- The units of a part that is not confirmed go to one row, not to as many as a restock: a hold and that write 15 records at most. (The first of them make
-- pages, and a page may be pruned, so the fewest of three.)
\getenv abs_srcdir PG_ABS_SRCDIR
\set file :abs_srcdir '/include/wal_records.sql'
\i :file
CREATE TABLE wal (i int, n bigint);
SELECT dc_restock('s', 'wal', 1000000);
SELECT format('INSERT INTO wal SELECT %s, wal_records(%L)', i, format(call, 100 + i)) FROM generate_series(1, 3) AS i,
	unnest(ARRAY['SELECT dc_hold(''s'', ''wal'', 10000, ''1 day'', id(%s)), dc_apply()', 'SELECT dc_hold_confirm(''s'', id(%s), 5000), dc_apply()']) WITH ORDINALITY AS c (call, place) ORDER BY i, place \gexec
SELECT min(records) <= 15 AS few, count(*) FROM (SELECT sum(n) AS records FROM wal GROUP BY i) AS w;

-- Errors
SELECT dc_hold_all('s', '{}', '{}');
SELECT dc_hold_all('s', '{a,b}', '{1}');
SELECT dc_hold_all('s', '{a,NULL}', '{1,1}');
SELECT dc_hold_all('s', '{a,b}', '{1,NULL}');
SELECT dc_hold_all('s', '{a,b}', '{1,0}');
SELECT dc_hold_all('s', '{a,b}', '{9223372036854775807,1}');
SELECT dc_hold_all('s', '{a,a}', '{9223372036854775807,1}');
SELECT dc_hold_all('s', array_agg('n' || i), array_agg(1::bigint)) FROM generate_series(1, 1001) AS i;
SELECT dc_hold_all('s', '{a,b}', '{1,1}', '0');
SELECT dc_hold_all('s', '{a,b}', '{1,1}', NULL);
SELECT dc_hold_all('s', '{a,b}', '{1,1}', '1 day', NULL);
SELECT dc_hold_all(NULL, '{a,b}', '{1,1}');
SELECT dc_create('plain');
SELECT dc_hold_all('plain', '{a,b}', '{1,1}');
BEGIN READ ONLY; SELECT dc_hold_all('s', '{a,b}', '{1,1}'); ROLLBACK;
DROP SCHEMA carts CASCADE;
