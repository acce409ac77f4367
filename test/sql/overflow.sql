-- Keys that hold more than bigint can: rows that each fit, and a sum that does not.
-- Setters start such a key over.
\set VERBOSITY terse
\pset tuples_only on
\pset format unaligned
\set max 9223372036854775807
SELECT dc_create('c', totals => 'compacted'), dc_create('p', partitions => 3), dc_stock_create('s', max_shards => 2);
-- A value that leaves bigint: up, or down. A serializable transaction has a row of its own.
CREATE FUNCTION add_max(t regclass, ks text[]) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(CASE WHEN k = 'down' THEN dc_decr(t, k, 9223372036854775807) ELSE dc_incr(t, k, 9223372036854775807) END) FROM unnest(ks) AS k $$;
CREATE PROCEDURE overflow(t regclass, VARIADIC ks text[]) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM add_max(t, ks);
	COMMIT;
	SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
	PERFORM add_max(t, ks);
END $$;
CREATE FUNCTION try(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE sql INTO answer;
	RETURN coalesce(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
-- What becomes of it
CREATE FUNCTION state(t regclass, k text) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', try(format('SELECT dc_get(%L, %L)', t, k)), try(format('SELECT dc_info(%L, %L)::text', t, k)) ~ '^22003',
		try(format('SELECT string_agg(value::text, '','') FROM dc_get_many(%L, ARRAY[%L, ''other''])', t, k)), dc_sum(t)) $$;

-- Each setter, on each kind of table, before and after a compaction that cannot move it
SELECT dc_incr('c', 'other', 3), dc_incr('p', 'other', 3);
CALL overflow('c', 'set', 'reset', 'del', 'down');
CALL overflow('p', 'set', 'reset', 'del', 'down');
SELECT k, state('c', k), state('p', k) FROM unnest(ARRAY['set', 'reset', 'del', 'down']) AS k;
SELECT dc_compact('c');
SELECT dc_compact('p');
SELECT t, dc_set(t, 'set', 5), dc_reset(t, 'reset'), dc_delete(t, 'del'), dc_set(t, 'down', -:max) FROM unnest(ARRAY['c', 'p']::regclass[]) AS t;
SELECT k, (dc_info('c', k)).value, (dc_info('c', k)).inc, (dc_info('c', k)).dec, (dc_info('p', k)).value, (dc_info('p', k)).inc, (dc_info('p', k)).dec
FROM unnest(ARRAY['set', 'reset', 'del', 'down', 'other']) AS k;
-- They are ordinary keys again
SELECT dc_incr(t, k) FROM unnest(ARRAY['c', 'p']::regclass[]) AS t, unnest(ARRAY['set', 'reset', 'del', 'down']) AS k;
SELECT dc_compact('c'), dc_compact('p'), dc_sum('c') = dc_sum('p'), (SELECT count(*) FROM c_shard), (SELECT count(*) FROM p_shard);
SELECT key, value, inc, dec, (SELECT value FROM p WHERE p.key = c.key) FROM c ORDER BY key;

-- The value fits, and what was counted of it does not: it counts on, and setters tell the old value
CALL overflow('c', 'gross');
CALL overflow('p', 'gross');
SELECT t, dc_decr(t, 'gross', :max) FROM unnest(ARRAY['c', 'p']::regclass[]) AS t;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT t, dc_decr(t, 'gross', 7) FROM unnest(ARRAY['c', 'p']::regclass[]) AS t;
COMMIT;
SELECT state('c', 'gross'), state('p', 'gross');
SELECT dc_compact('c');
SELECT dc_compact('p');
SELECT t, dc_set(t, 'gross', dc_get(t, 'gross')) FROM unnest(ARRAY['c', 'p']::regclass[]) AS t;
SELECT dc_compact('c'), dc_compact('p');
SELECT value, inc, dec FROM c WHERE key = 'gross' UNION ALL SELECT value, inc, dec FROM p WHERE key = 'gross';
-- ... also with a row of totals that is as full as can be, and a difference that does not fit
SELECT dc_set('c', 'gross', -:max), dc_set('c', 'gross', :max), dc_set('c', 'gross', -1);
SELECT value, inc, dec FROM dc_info('c', 'gross');
SELECT dc_set('c', 'gross', (-9223372036854775808)::bigint);

-- The same in one transaction, and undone
CALL overflow('c', 'back');
BEGIN;
SAVEPOINT a;
SELECT dc_set('c', 'back', 1), dc_get('c', 'back');
ROLLBACK TO a;
SELECT state('c', 'back');
SELECT dc_delete('c', 'back'), dc_get('c', 'back');
ROLLBACK;
SELECT state('c', 'back'), dc_delete('c', 'back');
SELECT dc_get('c', 'back');

-- A stock that was restocked, emptied and restocked
SELECT dc_restock('s', k, :max) FROM unnest(ARRAY['set', 'reset', 'del', 'keep']) AS k;
SELECT dc_take('s', k, :max) FROM unnest(ARRAY['set', 'reset', 'del', 'keep']) AS k;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT dc_restock('s', k, :max) FROM unnest(ARRAY['set', 'reset', 'del', 'keep']) AS k;
COMMIT;
SELECT dc_take('s', k, :max - 4), dc_hold('s', k, 3, '1 day', ('00000000-0000-0000-0000-00000000000' || n)::uuid) IS NOT NULL AS held
FROM unnest(ARRAY['set', 'reset', 'del', 'keep']) WITH ORDINALITY AS u(k, n);
-- It sells on
SELECT dc_get('s', 'set'), dc_take('s', 'keep', 2), dc_take('s', 'keep'), dc_take('s', 'keep');
SELECT dc_compact('s');
SELECT dc_set('s', 'set', 5), dc_reset('s', 'reset'), dc_delete('s', 'del');
CREATE VIEW units AS
	SELECT k, dc_get('s', k), (SELECT coalesce(sum(units), 0) FROM s_shard WHERE key = k) AS units FROM unnest(ARRAY['set', 'reset', 'del', 'keep']) AS k;
SELECT * FROM units;
-- ... and what was held comes back
SELECT dc_hold_release('s', '00000000-0000-0000-0000-000000000001'), dc_hold_confirm('s', '00000000-0000-0000-0000-000000000002', 1),
	dc_hold_release('s', '00000000-0000-0000-0000-000000000003'), dc_hold_release('s', '00000000-0000-0000-0000-000000000004');
SELECT dc_compact('s');
SELECT * FROM units;
SELECT dc_take('s', 'set', 9), dc_take('s', 'set', 8), dc_take('s', 'reset', 3), dc_take('s', 'reset', 2), dc_take('s', 'del', 3);
-- More units than bigint can count: those that are there can be taken, and it can be set
CALL overflow('s', 'units');
SELECT state('s', 'units'), dc_take('s', 'units', :max), dc_take_up_to('s', 'units', 5);
SELECT dc_restock('s', 'units', 100);
SELECT dc_set('s', 'units', 4);
SELECT dc_get('s', 'units'), sum(units) FROM s_shard WHERE key = 'units';
SELECT dc_take('s', 'units', 5), dc_take('s', 'units', 4);

-- A ledger has no setters: what goes out again makes it fit
SELECT dc_ledger_create('l');
SELECT dc_account_open('l', 'a', NULL), dc_account_open('l', 'b', NULL);
SELECT duplicate FROM dc_transfer('l', 'a', 'b', :max, '1');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT duplicate FROM dc_transfer('l', 'a', 'b', :max, '2');
COMMIT;
SELECT state('l', 'a'), state('l', 'b');
SELECT dc_compact('l');
SELECT duplicate FROM dc_transfer('l', 'b', 'a', :max - 5, '3');
SELECT duplicate FROM dc_transfer('l', 'b', 'a', 10, '4');
SELECT dc_compact('l'), dc_balance('l', 'a'), dc_balance('l', 'b');
SELECT key, inc, dec FROM l ORDER BY key;
SELECT * FROM dc_ledger_check('l');

-- A row that we have not made
INSERT INTO c_shard (key, shard, dec) VALUES ('hand', 1, -:max - 1), ('hand2', 1, -5);
SELECT dc_get('c', 'hand');
SELECT dc_get('c', 'hand2'), dc_sum('c') > 0;

-- Only the value leaves bigint, of a row that the owner has changed: the other keys are compacted
DELETE FROM c_shard;
INSERT INTO c (key, inc) VALUES ('value', -:max);
SELECT dc_incr('c', 'value', -5), dc_incr('c', 'after', 1);
INSERT INTO c_shard (key, shard, inc) VALUES ('after', 1, 2);
SELECT dc_compact('c');
SELECT key, value, (SELECT dec FROM c_shard AS s WHERE s.key = c.key) FROM c WHERE key IN ('value', 'after') ORDER BY key;
SELECT dc_set('c', 'value', 7) IS NULL AS unknown, dc_get('c', 'value');

DROP VIEW units;
DROP FUNCTION try, state;
DROP PROCEDURE overflow;
DROP FUNCTION add_max;
SELECT dc_drop('c'), dc_drop('p'), dc_drop('s'), dc_drop('l');
