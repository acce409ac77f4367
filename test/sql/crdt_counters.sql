-- Counters and vector clocks that merge: dc_gcounter, dc_pncounter, dc_vclock.
\set VERBOSITY terse
SELECT dc_gcounter(), dc_pncounter(), dc_vclock();
SELECT dc_value(dc_gcounter()), dc_value(dc_pncounter());

-- Each node has an amount of its own; nodes are in order of their bytes.
SELECT dc_add(dc_add(dc_add(dc_gcounter(), 5, 'us'), 7, 'eu'), 2, 'us') AS counter;
SELECT dc_add(dc_add(dc_add(dc_vclock(), node => 'b'), node => 'B'), node => 'bb') AS clock;
SELECT dc_add(dc_gcounter(), 0, 'us') = dc_gcounter() AS nothing_is_nothing;
SELECT dc_add(dc_gcounter(), -1, 'us');
SELECT dc_add(dc_vclock(), -1, 'us');
SELECT dc_value(dc_add(dc_add(dc_pncounter(), 5, 'us'), -7, 'us'));
SELECT dc_add(dc_add(dc_pncounter(), 5, 'us'), -7, 'us');

-- Who writes: dc_node(), as the setting says.
SET dcounter.node = 'here';
SELECT dc_add(dc_gcounter()), dc_add(dc_pncounter(), -3), dc_add(dc_vclock());
RESET dcounter.node;
SELECT dc_add(dc_gcounter(), 1, '');
SELECT dc_add(dc_gcounter(), 1, repeat('x', 65));
SELECT dc_add(dc_gcounter(), 1, E'a\tb');
SELECT dc_value(dc_add(dc_gcounter(), 1, repeat('x', 64)));

-- NULL in, NULL out.
SELECT dc_add(NULL::dc_gcounter, 1, 'a') IS NULL AND dc_add(dc_gcounter(), NULL, 'a') IS NULL AND dc_add(dc_gcounter(), 1, NULL) IS NULL AND
	dc_merge(dc_gcounter(), NULL) IS NULL AND dc_value(NULL::dc_pncounter) IS NULL AND dc_reset(NULL::dc_pncounter) IS NULL AS null_is_null;

-- The merge takes the greater amount of each node: in any order, any number of times.
SELECT dc_merge('{"a": 5, "b": 1}'::dc_gcounter, '{"a": 3, "c": 2}');
SELECT '{"a": 5, "b": 1}'::dc_vclock || '{"a": 3, "c": 2}';
SELECT dc_merge(x.c, y.c) = dc_merge(y.c, x.c) AS commutes, dc_merge(x.c, dc_merge(x.c, y.c)) = dc_merge(x.c, y.c) AS idempotent, x.c <= dc_merge(x.c, y.c) AS grows
FROM (VALUES ('{"a": {"inc": 5}, "b": {"dec": 1}}'::dc_pncounter)) AS x (c),
	(VALUES ('{"a": {"inc": 3, "dec": 4, "inc_reset": 2}}'::dc_pncounter)) AS y (c);

-- A reset takes away what it has seen, and that once, however often it is done at the same time.
SELECT dc_value(dc_merge(dc_reset(c), dc_add(c, 10, 'b'))) AS "10", dc_value(dc_merge(dc_reset(c), dc_reset(c))) AS "0",
	dc_value(dc_merge(dc_add(dc_reset(c), 1, 'a'), dc_add(dc_reset(c), 2, 'b'))) AS "3",
	dc_value(dc_merge(dc_reset(c), dc_add(c, -4, 'a'))) AS "-4"
FROM (SELECT dc_add(dc_add(dc_pncounter(), 100, 'a'), -30, 'b') AS c) AS s;

-- What has happened before, and what at the same time.
SELECT a, b, a = b AS eq, a <> b AS ne, a <= b AS le, a < b AS lt, a >= b AS ge, a > b AS gt, a && b AS concurrent
FROM (VALUES ('{"x": 1}'::dc_vclock, '{"x": 1}'::dc_vclock), ('{"x": 1}', '{"x": 2}'), ('{"x": 2}', '{"x": 1}'), ('{}', '{"x": 1}'), ('{"x": 1}', '{"y": 1}'), ('{"x": 2, "y": 1}', '{"x": 1, "y": 2}')) AS v (a, b);
SELECT count(DISTINCT hash) FROM (SELECT dcounter.crdt_hash(c::dc_gcounter) FROM unnest(ARRAY['{"a": 1, "b": 2}', '{"b": 2, "a": 1}']) AS c) AS h (hash);
SELECT c, count(*) FROM unnest(ARRAY['{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"a": 2}']::dc_gcounter[]) AS c GROUP BY c ORDER BY c::text;
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/crdt_wrong.sql
SELECT value, pg_temp.wrong(type, value) FROM (VALUES
	('dc_pncounter', '{}'::dc_gcounter < '{}')) AS v (type, value);
SELECT c FROM unnest('{"{}"}'::dc_gcounter[]) AS c ORDER BY c;

-- Deltas: what must be sent to get from one state to another.
SELECT dc_delta(after, before), dc_merge(before, dc_delta(after, before)) = dc_merge(before, after) AS same
FROM (VALUES ('{"a": {"inc": 5}, "b": {"inc": 2}}'::dc_pncounter, '{"a": {"inc": 5}, "b": {"inc": 1}}'::dc_pncounter),
	('{"a": {"inc": 5, "inc_reset": 5}}', '{"a": {"inc": 5}}'), ('{"a": {"inc": 5}}', '{"a": {"inc": 7}}'), ('{}', '{}')) AS v (after, before);

-- Aggregates, in groups, as a window, and of nothing.
CREATE TEMP TABLE states (id int, c dc_pncounter);
INSERT INTO states SELECT i, dc_add(dc_pncounter(), i * (i % 3 - 1), 'n' || i % 4) FROM generate_series(1, 20) AS i;
INSERT INTO states VALUES (21, NULL);
SELECT dc_merge_agg(c), dc_value(dc_merge_agg(c)) FROM states;
SELECT id, dc_value(dc_merge_agg(c) OVER (ORDER BY id ROWS 2 PRECEDING)) FROM states WHERE id < 6 ORDER BY id;
SELECT dc_merge_agg(c) FROM states WHERE false;
SELECT dc_merge_agg(c) FROM states WHERE c IS NULL;
SELECT * FROM states, dc_values(c) WHERE id IN (5, 6, 7) ORDER BY id;
SELECT * FROM dc_values('{"a": 1, "b": 2}'::dc_gcounter);

-- Text forms are JSON, in one form only; what is no state is refused.
SELECT ' {"b":1 , "a":2}'::dc_gcounter, '{"a": {"dec": 0, "inc": 3}}'::dc_pncounter, '{"a": {"inc": 5, "dec": 1, "inc_reset": 5, "dec_reset": 1}}'::dc_pncounter;
SELECT '{"a": 1, "b": 2}'::dc_gcounter::jsonb -> 'b' AS b;
SELECT '{"\u00e9\"\\": 1}'::dc_gcounter;
SELECT value, pg_temp.wrong(type, value) FROM (VALUES
	('dc_gcounter', '{"a": 0}'),
	('dc_gcounter', '{"a": -1}'),
	('dc_gcounter', '{"a": 1.5}'),
	('dc_gcounter', '{"a": "1"}')) AS v (type, value);
SELECT '{"a": 9223372036854775807}'::dc_gcounter;
SELECT value, pg_temp.wrong(type, value) FROM (VALUES
	('dc_gcounter', '{"a": 9223372036854775808}')) AS v (type, value);
SELECT '{"a": 1e3}'::dc_gcounter;
SELECT value, pg_temp.wrong(type, value) FROM (VALUES
	('dc_gcounter', '{"": 1}'),
	('dc_gcounter', '[]'),
	('dc_gcounter', '1'),
	('dc_gcounter', ''),
	('dc_gcounter', '{"a": 1'),
	('dc_gcounter', '{"a": {"inc": 1}}'),
	('dc_pncounter', '{"a": 1}'),
	('dc_pncounter', '{"a": {"inc": 1, "more": 1}}'),
	('dc_pncounter', '{"a": {"inc": 1, "inc_reset": 2}}'),
	('dc_pncounter', '{"a": {"inc_reset": 1}}')) AS v (type, value);

-- Out of range: nothing wraps around.
SELECT dc_add('{"a": 9223372036854775807}'::dc_gcounter, 1, 'a');
SELECT dc_add('{"a": {"dec": 9223372036854775807}}'::dc_pncounter, -1, 'a');
SELECT dc_add(dc_pncounter(), -9223372036854775808, 'a');
SELECT dc_value('{"a": 9223372036854775807, "b": 1}'::dc_gcounter);
SELECT dc_value('{"a": {"inc": 9223372036854775807}, "b": {"inc": 5, "dec": 9}}'::dc_pncounter);
SELECT dc_value('{"a": {"dec": 9223372036854775807}, "b": {"dec": 1}}'::dc_pncounter);
SELECT dc_value('{"a": {"dec": 9223372036854775807}, "b": {"dec": 2}}'::dc_pncounter);

-- The bytes, which doc/crdt-formats.md describes.
SELECT dcounter.crdt_send('{"eu": 5, "us": 300}'::dc_gcounter), dcounter.crdt_send('{"eu": {"inc": 5, "dec": 1, "inc_reset": 4}}'::dc_pncounter), dcounter.crdt_send('{"n": 127}'::dc_vclock);

-- In tables: many nodes, out of line, in an index.
CREATE TEMP TABLE kept (id int PRIMARY KEY, c dc_gcounter);
INSERT INTO kept VALUES (1, dc_gcounter());
UPDATE kept SET c = dc_add(c, 1, 'eu') WHERE id = 1;
UPDATE kept SET c = dc_add(c, 2, 'us') WHERE id = 1 RETURNING dc_value(c);
INSERT INTO kept SELECT 2, dc_merge_agg(dc_add(dc_gcounter(), i, 'node ' || md5(i::text))) FROM generate_series(1, 2000) AS i;
SELECT id, dc_value(c), (SELECT count(*) FROM dc_values(c)) AS nodes FROM kept ORDER BY id;
CREATE INDEX ON kept USING hash (c);
SET enable_seqscan = off;
SELECT id FROM kept WHERE c = '{"eu": 1, "us": 2}';
RESET enable_seqscan;
DO $$
DECLARE
	c dc_gcounter := dc_gcounter();
BEGIN
	FOR i IN 1 .. 1000 LOOP
		c := dc_add(c, i, 'n' || i % 7);
	END LOOP;
	RAISE NOTICE '%', dc_value(c);
END $$;
