-- Stocks: takes, carts, holds, and what is refused
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET timezone = 'UTC';

SELECT dc_stock_create('s');
-- How a stock is, by its functions and by SQL: the same in three ways
CREATE FUNCTION is_right(OUT key text, OUT value bigint, OUT right_sums boolean) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT k, dc_get('s', k),
		dc_get('s', k) = coalesce((SELECT value FROM s WHERE s.key = k), 0) + coalesce((SELECT sum(inc - dec) FROM s_shard AS r WHERE r.key = k), 0)
		AND dc_get('s', k) = coalesce((SELECT sum(units) FROM s_shard AS r WHERE r.key = k), 0)
		AND (SELECT coalesce(min(units), 0) >= 0 AND coalesce(min(value), 0) >= 0 FROM s_shard AS r FULL JOIN s USING (key) WHERE key = k)
	FROM (SELECT key FROM s UNION SELECT key FROM s_shard) AS u(k) ORDER BY k COLLATE "C" $$;

SELECT shards, shard_by, max_shards, holds FROM dcounter.counter WHERE counter = 's'::regclass;

-- An unknown key has no stock
SELECT dc_take('s', 'nothing'), dc_take('s', 'nothing', 5, true), dc_take_up_to('s', 'nothing', 5), dc_hold('s', 'nothing'), dc_get('s', 'nothing');

-- Restock and take; from one row, and from several
SELECT dc_restock('s', 'a', 100);
SELECT count(*), sum(units), min(units), max(units) FROM s_shard WHERE key = 'a';
SELECT dc_take('s', 'a'), dc_take('s', 'a', 4), dc_get('s', 'a');
SELECT dc_take('s', 'a', 60), dc_get('s', 'a');
SELECT dc_take('s', 'a', 36), dc_get('s', 'a');
SELECT dc_take_up_to('s', 'a', 5), dc_get('s', 'a');
SELECT dc_take('s', 'a', 30), dc_get('s', 'a'), dc_take('s', 'a'), dc_take_up_to('s', 'a', 5);
SELECT dc_take_up_to('s', 'a', 5), dc_take('s', 'a', 1, true);
SELECT * FROM is_right();
-- What is sold out can be had again, also by a plain increment
SELECT dc_restock('s', 'a', 1);
SELECT dc_take('s', 'a'), dc_take('s', 'a');
SELECT dc_incr('s', 'a', 2);
SELECT dc_take('s', 'a', 2), dc_take('s', 'a');
SELECT dc_set('s', 'a', 7);
SELECT dc_take('s', 'a', 7), dc_take('s', 'a');
-- Other types of keys
SELECT dc_restock('s', 42, 3), dc_restock('s', '00000000-0000-0000-0000-00000000002a'::uuid, 3);
SELECT dc_take('s', 42, 2), dc_take_up_to('s', '00000000-0000-0000-0000-00000000002a'::uuid, 9), dc_get('s', '42'), dc_take_up_to('s', 42, 9);
SELECT dc_hold('s', 42, 1) IS NULL, dc_hold('s', '00000000-0000-0000-0000-00000000002a'::uuid, 1) IS NULL;

-- A transaction can take what it adds, and gets back what it rolls back
BEGIN;
SELECT dc_restock('s', 't', 10), dc_restock('s', 't', 2);
SELECT dc_get('s', 't'), dc_take('s', 't', 11), dc_get('s', 't');
SAVEPOINT one;
SELECT dc_take('s', 't'), dc_take('s', 't');
ROLLBACK TO one;
SELECT dc_get('s', 't'), dc_take('s', 't'), dc_take('s', 't');
SAVEPOINT two;
SELECT dc_restock('s', 't', 5), dc_take('s', 't', 2), dc_get('s', 't');
RELEASE two;
COMMIT;
SELECT dc_get('s', 't'), dc_take('s', 't', 4), dc_take('s', 't', 3);
BEGIN;
SELECT dc_restock('s', 't', 5);
SELECT dc_take('s', 't', 5);
ROLLBACK;
SELECT dc_get('s', 't'), dc_take('s', 't');
SELECT dc_restock('s', 't', 6);
BEGIN; SELECT dc_take('s', 't', 6), dc_take('s', 't'); ROLLBACK;
SELECT dc_take('s', 't', 6), dc_take('s', 't');
-- Many takes in one command
SELECT dc_restock('s', 'many', 10);
SELECT count(*) FILTER (WHERE dc_take('s', 'many')), dc_get('s', 'many') FROM generate_series(1, 15);
SELECT * FROM is_right();

-- Compaction: totals get the amounts, the units stay
SELECT dc_restock('s', 'c', 50), dc_take('s', 'a', 1);
SELECT dc_take('s', 'c', 20);
SELECT count(*) > 0 FROM (SELECT dc_compact('s')) AS c;
SELECT key, inc, dec, value FROM s WHERE key = 'c';
SELECT sum(inc), sum(dec), sum(units) FROM s_shard WHERE key = 'c';
SELECT value, (dc_total('s', 'c')).value FROM dc_info('s', 'c');
SELECT key, value FROM dc_top('s', 1);
SELECT dc_take('s', 'c', 30), dc_take('s', 'c');
SELECT * FROM is_right();
-- Rows without units go, in two rounds
SELECT count(*) FROM (SELECT dc_compact('s') FROM generate_series(1, 2)) AS c;
SELECT dc_compact('s');
SELECT count(*) FROM s_shard;
SELECT dc_sum('s'), dc_get_many('s', '{a,c}');
-- Rows that are too many are merged, and what is in too few is spread
SELECT dc_restock('s', 'm', 10000);
SELECT count(*), min(units), max(units) FROM s_shard WHERE key = 'm';
SELECT dc_take('s', 'm', 9990), dc_compact('s');
SELECT count(*), min(units), max(units) FROM s_shard WHERE key = 'm';
SELECT count(dc_restock('s', 'few', 1)) FROM generate_series(1, 5);
SELECT dc_restock('s', 'few', 1); SELECT dc_restock('s', 'few', 1); SELECT dc_restock('s', 'few', 1);
BEGIN; SELECT count(dc_restock('s', 'few', 1)), dc_take('s', 'few') FROM generate_series(1, 900); COMMIT;
SELECT count(*) > 0 FROM (SELECT dc_compact('s')) AS c;
SELECT count(*) > 20, min(units) > 0, max(units) < 100, sum(units) FROM s_shard WHERE key = 'few';
SELECT dc_take('s', 'few', 907), dc_take('s', 'few');
SELECT dc_alter('s', max_shards => 4);
SELECT dc_restock('s', 'four', 1000);
SELECT count(*), min(units), max(units) FROM s_shard WHERE key = 'four';
SELECT dc_take('s', 'four', 1000), dc_alter('s', max_shards => 64);
SELECT * FROM is_right();

-- dc_set(), dc_reset(), dc_delete()
SELECT dc_set('s', 'x', 30), dc_get('s', 'x'), dc_take('s', 'x', 10), dc_set('s', 'x', 50), dc_take('s', 'x', 45), dc_get('s', 'x');
SELECT dc_compact('s'), dc_set('s', 'x', 8), dc_get('s', 'x'), dc_take('s', 'x', 9), dc_take('s', 'x', 8), dc_take('s', 'x');
SELECT dc_set('s', 'x', 8), dc_reset('s', 'x'), dc_take('s', 'x');
SELECT dc_set('s', 'x', 8), dc_delete('s', 'x'), dc_take('s', 'x'), dc_get('s', 'x');
SELECT * FROM is_right() WHERE key = 'x';
SELECT dc_set('s', 'x', -1);

-- A cart: all or nothing
SELECT dc_restock('s', 'k1', 5), dc_restock('s', 'k2', 5), dc_restock('s', 'k3', 5);
SELECT dc_take_all('s', '{k3,k1,k2,k1}', '{1,2,3,1}'), dc_get_many('s', '{k1,k2,k3}');
SELECT dc_take_all('s', '{k3,k1}', '{1,3}'), dc_get_many('s', '{k1,k2,k3}');
SELECT dc_take_all('s', '{k3,k1,k2,nothing}', '{1,1,1,1}'), dc_get_many('s', '{k1,k2,k3}');
SELECT dc_take_all('s', '{}', '{}'), dc_take_all('s', '{k3}', '{5}'), dc_take_all('s', '{k3,k1}', '{4,2}'), dc_take_all('s', '{k3,k1,k2}', '{1,1,1}');
SELECT * FROM is_right() WHERE key ~ '^k';

-- Holds
SELECT dc_restock('s', 'h', 20);
SELECT dc_hold('s', 'h', 3, '1 hour', '00000000-0000-0000-0000-000000000001'), dc_get('s', 'h');
SELECT dc_hold('s', 'h', 3, '60 minutes', '00000000-0000-0000-0000-000000000001'), dc_get('s', 'h');
SELECT dc_hold('s', 'h', 4, '1 hour', '00000000-0000-0000-0000-000000000001');
SELECT dc_hold('s', 'h', 3, '2 hours', '00000000-0000-0000-0000-000000000001');
SELECT dc_hold('s', 'a', 3, '1 hour', '00000000-0000-0000-0000-000000000001');
SELECT dc_hold('s', 'h', 18) IS NULL, dc_get('s', 'h');
SELECT dc_hold('s', 'h', 2, '1 hour', '00000000-0000-0000-0000-000000000002'), dc_hold('s', 'h', 1, '1 day', '00000000-0000-0000-0000-000000000003');
SELECT key, hold_id, qty, expires_at - now() BETWEEN '50 minutes' AND '25 hours', age BETWEEN '0' AND '1 minute' FROM dc_holds('s');
SELECT count(*) FROM dc_holds('s', 'h'); SELECT count(*) FROM dc_holds('s', 'a');
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000001', strict => false), dc_get('s', 'h');
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000001', strict => false), dc_hold_release('s', '00000000-0000-0000-0000-000000000001', strict => false), dc_get('s', 'h');
SELECT dc_hold_release('s', '00000000-0000-0000-0000-000000000002', strict => false), dc_get('s', 'h');
SELECT dc_hold_release('s', '00000000-0000-0000-0000-000000000002', strict => false), dc_hold_confirm('s', '00000000-0000-0000-0000-000000000002', strict => false), dc_get('s', 'h');
SELECT dc_hold('s', 'h', 2, '1 hour', '00000000-0000-0000-0000-000000000002') AS ended_long_ago, dc_get('s', 'h');
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000003', 200, strict => false);
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000009', strict => false), dc_hold_release('s', '00000000-0000-0000-0000-000000000009', strict => false);
-- Ending a hold in another way than it has ended is an error
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000001'), dc_hold_release('s', '00000000-0000-0000-0000-000000000002');
SELECT dc_hold_release('s', '00000000-0000-0000-0000-000000000001');
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000002');
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000009');
SELECT dc_hold_release('s', '00000000-0000-0000-0000-000000000009');
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000001', NULL, NULL);
-- A part of a hold
SELECT dc_hold('s', 'h', 5, '1 hour', '00000000-0000-0000-0000-000000000004'), dc_get('s', 'h');
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000004', 2, strict => false), dc_get('s', 'h');
-- ... and again: with the same quantity it is done already, with another one an error, strict or not
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000004', 2);
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000004', 1);
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000004', strict => false);
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000001', 3), dc_get('s', 'h');
-- One that has expired: a take that would fail, a confirmation, a release, dc_maintain()
SELECT dc_hold('s', 'h', 14, '1 us', '00000000-0000-0000-0000-000000000005'), dc_get('s', 'h');
SELECT dc_take('s', 'h', 15), dc_take('s', 'h', 14), dc_get('s', 'h');
SELECT dc_restock('s', 'h', 14);
SELECT dc_hold('s', 'h', 7, '1 us', '00000000-0000-0000-0000-000000000006'), dc_hold('s', 'h', 7, '1 us', '00000000-0000-0000-0000-000000000007'), dc_get('s', 'h');
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000006', strict => false), dc_hold_release('s', '00000000-0000-0000-0000-000000000007', strict => false), dc_get('s', 'h');
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000006', strict => false), dc_hold_release('s', '00000000-0000-0000-0000-000000000007', strict => false), dc_get('s', 'h');
SELECT dc_hold('s', 'h', 14, '1 us', '00000000-0000-0000-0000-000000000008'), dc_get('s', 'h');
CALL dc_maintain();
SELECT dc_get('s', 'h'), state FROM s_hold WHERE hold_id = '00000000-0000-0000-0000-000000000008';
SELECT dc_hold('s', 'h', 14, '1 us') IS NOT NULL, dc_take_up_to('s', 'h', 20), dc_get('s', 'h');
SELECT hold_id, qty, state, confirmed, ended_at IS NOT NULL FROM s_hold WHERE hold_id::text ~ '^00000000' ORDER BY hold_id;
-- Before anything ends it, its units are there, in every read of the value, and it is not shown
SELECT dc_restock('s', 'e', 9), dc_restock('s', 'f', 4);
SELECT dc_sum('s') AS sum \gset
SELECT dc_hold('s', 'e', 5, '1 us') IS NOT NULL, dc_hold('s', 'e', 1, '1 us') IS NOT NULL, dc_hold('s', 'e', 2, '1 hour') IS NOT NULL, dc_hold('s', 'f', 4, '1 us') IS NOT NULL;
SELECT dc_get('s', 'e'), (dc_info('s', 'e')).value, dc_sum('s') - :sum AS held;
SELECT * FROM dc_get_many('s', '{f,e,unknown,e}'::text[]);
SELECT key, qty FROM dc_holds('s', 'e');
SELECT count(*) FILTER (WHERE key = 'e'), count(*) FILTER (WHERE key = 'f') FROM dc_holds('s');
SELECT key, qty, state FROM s_hold WHERE key IN ('e', 'f') ORDER BY key, qty;
-- ... in one transaction with what ends it, and in an older snapshot
BEGIN; SELECT dc_get('s', 'e'), dc_take('s', 'e', 7), dc_get('s', 'e'); ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT dc_get('s', 'e'); SELECT dc_take('s', 'e', 7), dc_get('s', 'e'); ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT dc_take('s', 'e', 8), dc_take_up_to('s', 'e', 8), dc_get('s', 'e'); ROLLBACK;
-- Setting the key ends it: its units are in the old value, and do not come on top of the new one
SELECT dc_set('s', 'e', 3), dc_delete('s', 'f');
CALL dc_maintain();
SELECT dc_get('s', 'e'), dc_get('s', 'f');
SELECT key, qty, state FROM s_hold WHERE key IN ('e', 'f') ORDER BY key, qty;
SELECT dc_hold_release('s', hold_id) FROM dc_holds('s', 'e');
DELETE FROM s_hold WHERE key IN ('e', 'f');
-- By hand nobody makes units that could not be taken; columns of one's own can be changed
CREATE FUNCTION by_hand(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text; hint text;
BEGIN
	EXECUTE statement;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' / ', sqlstate || ' ' || sqlerrm, nullif(detail, ''), nullif(hint, ''));
END $$;
ALTER TABLE s ADD COLUMN note text;
SELECT dc_compact('s') > 0;
SELECT s, by_hand(s) FROM unnest(ARRAY[$$INSERT INTO s (key, inc) VALUES ('hand', 5)$$, $$INSERT INTO s (key, dec) VALUES ('hand', 5)$$, $$UPDATE s SET inc = inc + 5 WHERE key = 'h'$$,
	$$UPDATE s SET dec = dec + 1 WHERE key = 'h'$$, $$UPDATE s SET key = 'hand' WHERE key = 'h'$$, $$INSERT INTO s (key, inc) VALUES ('h', 5) ON CONFLICT (key) DO UPDATE SET inc = excluded.inc$$,
	$$MERGE INTO s USING (SELECT 1) AS x ON s.key = 'h' WHEN MATCHED THEN UPDATE SET inc = 0$$,
	$$UPDATE s SET note = 'a note', inc = inc WHERE key = 'h'$$, $$INSERT INTO s (key, note) VALUES ('hand', 'another') ON CONFLICT (key) DO UPDATE SET note = excluded.note$$]) AS s;
COPY s (key, inc) FROM stdin;
hand	5
\.
SELECT key, value, note FROM s WHERE note IS NOT NULL ORDER BY key;
SELECT dc_restock('s', 'hand', 2), dc_set('s', 'hand', 3), dc_take('s', 'hand'), dc_get('s', 'hand');
SELECT dc_compact('s') > 0, dc_delete('s', 'hand');
ALTER TABLE s DROP COLUMN note;
-- A hold in a transaction that is rolled back was never there
BEGIN; SELECT dc_restock('s', 'h', 3), dc_hold('s', 'h', 3, '1 hour', '00000000-0000-0000-0000-00000000000a'); ROLLBACK;
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-00000000000a', strict => false), dc_get('s', 'h');
-- Those that have ended long ago are removed
UPDATE s_hold SET ended_at = ended_at - interval '23 hours' WHERE state = 'released';
UPDATE s_hold SET ended_at = ended_at - interval '25 hours' WHERE state = 'expired';
CALL dc_maintain();
SELECT state, count(*) FROM s_hold GROUP BY state ORDER BY state;

-- Holds that expire, one every moment, do not keep old ones from being removed
SELECT dc_restock('s', 'old', 1);
INSERT INTO s_hold SELECT gen_random_uuid(), 'old', 1, '1 s', 'released', 0, now() - interval '9 days', now() - interval '9 days', now() - interval '9 days' FROM generate_series(1, 3);
SELECT dc_hold('s', 'old', 1, '1 us') IS NOT NULL;
CALL dc_maintain();
SELECT state, count(*) FROM s_hold WHERE key = 'old' GROUP BY state;
-- Many expired holds; only as many are ended as a take needs, and none if they do not help
INSERT INTO s_hold SELECT gen_random_uuid(), 'old', 1, '1 s', 'open', NULL, now(), now() - n * interval '1 s' FROM generate_series(1, 2000) AS n;
SELECT dc_take('s', 'old', 2002), count(*) FROM s_hold WHERE key = 'old' AND state = 'open';
SELECT dc_take('s', 'old', 1), dc_take('s', 'old', 1);
SELECT count(*) FROM s_hold WHERE key = 'old' AND state = 'open';
SELECT dc_take('s', 'old', 1500), dc_take('s', 'old', 600), dc_take_up_to('s', 'old', 1000);
SELECT count(*), dc_get('s', 'old') FROM s_hold WHERE key = 'old' AND state = 'open';
-- A table of holds that was altered is an error, not a crash
ALTER TABLE s_hold ALTER qty DROP NOT NULL;
SELECT dc_hold('s', 'h', 1);
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000003', strict => false);
SELECT dc_hold_release('s', '00000000-0000-0000-0000-000000000003', strict => false);
SELECT * FROM dc_holds('s');
CALL dc_maintain();
ALTER TABLE s_hold ALTER qty SET NOT NULL, ALTER ttl TYPE text;
SELECT dc_hold('s', 'h', 1);
ALTER TABLE s_hold ALTER ttl TYPE interval USING ttl::interval;
SELECT dc_hold_release('s', '00000000-0000-0000-0000-000000000003', strict => false);

-- More rows than a backend remembers, all needed
SET default_transaction_isolation = serializable;
DO $$ BEGIN FOR i IN 1..4200 LOOP PERFORM dc_restock('s', 'rows', 1); COMMIT; END LOOP; END $$;
RESET default_transaction_isolation;
SELECT count(*), sum(units) FROM s_shard WHERE key = 'rows';
SELECT dc_take('s', 'rows', 4199), dc_get('s', 'rows'), dc_take('s', 'rows', 2), dc_take('s', 'rows');
-- Restocks do not make more than max_shards
SELECT dc_alter('s', max_shards => 4);
DO $$ BEGIN FOR i IN 1..12 LOOP PERFORM dc_restock('s', 'few rows', 20); COMMIT; END LOOP; END $$;
SELECT count(*), sum(units), min(units), max(units) FROM s_shard WHERE key = 'few rows';
SELECT dc_take('s', 'few rows', 240), dc_alter('s', max_shards => 64);
-- An error that is caught ends what the take had begun
DO $$ BEGIN
	BEGIN PERFORM dc_take_all('s', ARRAY['k1', repeat('x', 1025)], '{1,1}'); EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', sqlerrm; END;
	BEGIN PERFORM dc_take_all('s', ARRAY['k1', 'k2'], '{1,1}'); PERFORM 1 / 0; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', sqlerrm; END;
END $$;
-- The primary key may be rebuilt concurrently, or have a twin
REINDEX INDEX CONCURRENTLY s_shard_pkey;
CREATE UNIQUE INDEX twin ON s_shard (key, shard);
SELECT dc_restock('s', 'twin', 500);
SELECT dc_take('s', 'twin', 400), dc_compact('s') > 0;
SET enable_seqscan = off; SET enable_bitmapscan = off;
ALTER TABLE s_shard DROP CONSTRAINT s_shard_pkey, ADD CONSTRAINT s_shard_pkey PRIMARY KEY USING INDEX twin;
SELECT sum(units), dc_take('s', 'twin', 100), dc_take('s', 'twin') FROM s_shard WHERE key = 'twin';
RESET enable_seqscan; RESET enable_bitmapscan;

-- Errors
SELECT dc_take('s', 'a', 0);
SELECT dc_take('s', 'a', -1);
SELECT dc_take('s', 'a', NULL);
SELECT dc_take('s', NULL::text);
SELECT dc_take(NULL, 'a');
SELECT dc_take('s', 'a', 1, NULL);
SELECT dc_take_up_to('s', 'a', 0);
SELECT dc_restock('s', 'a', 0);
SELECT dc_restock('s', 'a', NULL);
SELECT dc_restock('s', repeat('a', 1025), 1);
SELECT dc_take_all('s', '{a}', '{1,2}');
SELECT dc_take_all('s', '{a}', '{0}');
SELECT dc_take_all('s', '{a}', '{NULL}');
SELECT dc_take_all('s', '{NULL}', '{1}');
SELECT dc_take_all('s', NULL, '{1}');
SELECT dc_take_all('s', '{a}', NULL);
SELECT dc_take_all('s', '{a,a}', '{9223372036854775807,1}');
SELECT dc_hold('s', 'a', 0);
SELECT dc_hold('s', 'a', 1, '0');
SELECT dc_hold('s', 'a', 1, '-1 day');
SELECT dc_hold('s', 'a', 1, NULL);
SELECT dc_hold('s', 'a', 1, '1 day', NULL);
SELECT dc_hold_confirm('s', NULL);
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000001', 0, strict => false);
SELECT dc_hold_release('s', NULL);
SELECT dc_decr('s', 'a'), dc_incr('s', 'a');
SELECT dc_incr('s', 'a', -1);
SELECT dc_incr_many('s', '{a}', '{-1}');
SELECT dc_incr_hashed('s', 'a', 'b', -1);
SELECT dc_incr_returning('s', 'a', -1);
SELECT dc_decr('s', 'a', -1), dc_get('s', 'a');
SELECT dc_create('plain');
SELECT dc_take('plain', 'a');
SELECT dc_restock('plain', 'a', 1);
SELECT dc_hold('plain', 'a');
SELECT dc_hold_confirm('plain', '00000000-0000-0000-0000-000000000001');
SELECT * FROM dc_holds('plain');
SELECT dc_take('pg_class', 'a');
SELECT dc_stock_create(NULL);
SELECT dc_stock_create('s');
SELECT dc_stock_create('t', 0);
SELECT dc_stock_create(repeat('x', 60));
-- The end of bigint
SELECT dc_restock('s', 'big', 9223372036854775807);
SELECT dc_take('s', 'big', 9223372036854775807), dc_take('s', 'big'), dc_get('s', 'big');
SELECT dc_restock('s', 'big', 9223372036854775807);
SELECT dc_restock('s', 'big', 1);
SELECT dc_take_up_to('s', 'big', 9223372036854775807), dc_delete('s', 'big') IS NOT NULL;
BEGIN READ ONLY; SELECT dc_take('s', 'a'); ROLLBACK;
BEGIN READ ONLY; SELECT dc_hold('s', 'a'); ROLLBACK;

-- Rights
CREATE ROLE regress_dc_buyer;
GRANT CREATE ON SCHEMA public TO regress_dc_buyer;
SET ROLE regress_dc_buyer;
SELECT dc_take('s', 'a');
SELECT dc_hold('s', 'a');
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-000000000001', strict => false);
SELECT dc_hold_release('s', '00000000-0000-0000-0000-000000000001', strict => false);
SELECT dc_restock('s', 'a', 1);
SELECT * FROM dc_holds('s');
SELECT dc_take_all('s', '{a}', '{1}');
SELECT dc_set('s', 'a', 1);
RESET ROLE;
GRANT INSERT, UPDATE ON s TO regress_dc_buyer;
SET ROLE regress_dc_buyer;
SELECT dc_restock('s', 'buyer', 4);
SELECT dc_take('s', 'buyer'), dc_hold('s', 'buyer', 1, '1 day', '00000000-0000-0000-0000-00000000000b');
SELECT dc_hold_confirm('s', '00000000-0000-0000-0000-00000000000b', strict => false);
SELECT count(*) FROM s_hold;
SELECT count(*) FROM dc_holds('s');
RESET ROLE;
GRANT SELECT ON s TO regress_dc_buyer;
SET ROLE regress_dc_buyer;
SELECT count(*) FROM dc_holds('s');
SELECT dc_get('s', 'buyer');
RESET ROLE;
REVOKE ALL ON s FROM regress_dc_buyer;

-- DDL: the three tables stay together
CREATE SCHEMA regress_dc;
ALTER TABLE s RENAME TO wares;
ALTER TABLE wares SET SCHEMA regress_dc;
GRANT USAGE, CREATE ON SCHEMA regress_dc TO regress_dc_buyer;
ALTER TABLE regress_dc.wares OWNER TO regress_dc_buyer;
SELECT relname, relnamespace::regnamespace, relowner::regrole FROM pg_class WHERE relname ~ '^wares' AND relkind = 'r' ORDER BY relname;
SELECT dc_restock('regress_dc.wares', 'a', 2);
SELECT dc_take('regress_dc.wares', 'a'), dc_hold('regress_dc.wares', 'a') IS NOT NULL;
ALTER TABLE regress_dc.wares OWNER TO CURRENT_USER;
ALTER TABLE regress_dc.wares SET SCHEMA public;
ALTER TABLE wares RENAME TO s;
-- What the direct path would leave out makes a stock unusable, not wrong
CREATE INDEX more ON s_shard (units);
SELECT dc_take('s', 'a');
SELECT dc_restock('s', 'a', 1);
SELECT dc_incr('s', 'a');
SELECT dc_get('s', 'a'), dc_compact('s') > 0;
DROP INDEX more;
SELECT dc_restock('s', 'a', 1);
ALTER TABLE s_shard DROP COLUMN units;
SELECT dc_take('s', 'a');
SELECT dc_get('s', 'a');
ALTER TABLE s_shard ADD units int8 NOT NULL DEFAULT 0;
-- Adopted again it is a stock
DELETE FROM dcounter.counter WHERE counter = 's'::regclass;
SELECT dc_take('s', 'a');
ALTER TABLE s_hold RENAME TO away;
SELECT dc_adopt('s');
ALTER TABLE away RENAME TO s_hold;
SELECT dc_adopt('s');
SELECT dc_delete('s', 'a') IS NOT NULL, dc_restock('s', 'a', 3);
SELECT dc_take('s', 'a', 3), dc_take('s', 'a'), dc_hold('s', 'a') IS NULL;
DROP TABLE s_hold;
SELECT dc_take('s', 'a');
DROP TABLE s, s_shard;
SELECT dc_stock_create('s'), dc_stock_create('other');
DROP TABLE s_shard;
SELECT dc_adopt('s');
DROP TABLE s_hold;
SELECT dc_adopt('s');
DROP TABLE s;
SELECT dc_drop('other'), dc_drop('plain');
SELECT relname FROM pg_class WHERE relname ~ '^(s|other|plain)(_|$)' AND relkind = 'r';
SELECT count(*) FROM dcounter.counter;
DROP FUNCTION is_right;
DROP SCHEMA regress_dc;
REVOKE CREATE ON SCHEMA public FROM regress_dc_buyer;
DROP ROLE regress_dc_buyer;
