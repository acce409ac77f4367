-- Sets that merge: dc_gset, which only grows, and dc_orset, in which additions win.
\set VERBOSITY terse
SELECT dc_gset(), dc_orset(), dc_value(dc_gset()), dc_value(dc_orset());
SELECT dc_add(dc_add(dc_add(dc_gset(), 'pear'), 'apple'), 'pear') AS set;
SELECT dc_add(dc_add(dc_add(dc_orset(), 'pear', 'eu'), 'apple', 'us'), 'pear', 'eu') AS set;
SET dcounter.node = 'here';
SELECT dc_add(dc_orset(), 'pear');
RESET dcounter.node;
SELECT dc_add(dc_orset(), 'x', '');
SELECT dc_add(NULL::dc_orset, 'x', 'a') IS NULL AND dc_add(dc_gset(), NULL) IS NULL AND dc_remove(dc_orset(), NULL) IS NULL AND dc_contains(dc_orset(), NULL) IS NULL AS null_is_null;

-- Elements are any text, in order of their bytes.
SELECT dc_value(dc_add(dc_add(dc_add(dc_add(dc_gset(), 'b'), ''), 'B'), 'bb'));
SELECT * FROM dc_values(dc_add(dc_add(dc_orset(), E'tab\t', 'n'), '{"json": 1}', 'n')) AS element;
SELECT dc_contains(s, 'a') AS a, dc_contains(s, 'b') AS b, dc_contains(s, '') AS empty FROM (SELECT dc_add(dc_orset(), 'a', 'n') AS s) AS v;
SELECT dc_contains(s, 'a') AS a, dc_contains(s, 'b') AS b, dc_contains(s, '') AS empty FROM (SELECT dc_add(dc_gset(), 'a') AS s) AS v;

-- Removing needs no tombstone: what was seen and is not there was removed.
SELECT dc_remove(dc_add(dc_orset(), 'a', 'n'), 'a'), dc_remove(dc_orset(), 'a') = dc_orset() AS nothing, dc_reset(dc_add(dc_add(dc_orset(), 'a', 'n'), 'b', 'm')) AS reset;

-- Two replicas of {milk} that write at the same time.
CREATE TEMP TABLE replicas AS SELECT s, dc_add(s, 'milk', 'b') AS added, dc_remove(s, 'milk') AS removed, dc_reset(dc_add(s, 'tea', 'a')) AS reset
	FROM (SELECT dc_add(dc_orset(), 'milk', 'a') AS s) AS v;
SELECT dc_value(dc_merge(removed, s)) AS removed, dc_value(dc_merge(removed, added)) AS add_wins, dc_value(dc_merge(reset, added)) AS reset, dc_value(dc_merge(dc_remove(added, 'milk'), removed)) AS both_removed,
	dc_value(dc_merge(dc_add(removed, 'milk', 'a'), added)) AS both_added FROM replicas;
SELECT dc_merge(removed, added) = dc_merge(added, removed) AS commutes, dc_merge(dc_merge(removed, added), removed) = dc_merge(removed, added) AS idempotent, s < removed AS before, removed && added AS concurrent, removed <= dc_merge(removed, added) AS grows FROM replicas;

-- Concurrent additions keep a dot each, the next one takes the place of both.
SELECT m, dc_add(m, 'milk', 'c') FROM (SELECT dc_merge(dc_add(s, 'milk', 'a'), dc_add(s, 'milk', 'b')) AS m FROM replicas) AS v;

-- Deltas: small, and they merge in any order, though they leave gaps.
CREATE TEMP TABLE versions AS SELECT dc_add(dc_orset(), 'a', 'n') AS v1, NULL::dc_orset AS v2, NULL::dc_orset AS v3;
UPDATE versions SET v2 = dc_add(v1, 'b', 'n');
UPDATE versions SET v3 = dc_remove(dc_add(v2, 'c', 'n'), 'a');
SELECT dc_delta(v3, v2) AS d32, dc_delta(v2, v1) AS d21, dc_merge(v1, dc_delta(v3, v2)) AS gap FROM versions;
SELECT dc_merge(dc_merge(v1, dc_delta(v3, v2)), dc_delta(v2, v1)) = v3 AS other_order, dc_merge(v1, dc_delta(v3, v1)) = v3 AS whole, dc_delta(v1, v3) = dc_orset() AS no_news, dc_delta(v3, v3) AS none FROM versions;
SELECT dc_delta(after => dc_add(dc_add(dc_gset(), 'a'), 'b'), before => dc_add(dc_gset(), 'a'));

-- Comparison of grow-only sets
SELECT a <= b AS le, a < b AS lt, a = b AS eq, a && b AS concurrent FROM (VALUES ('["a"]'::dc_gset, '["a", "b"]'::dc_gset), ('["a"]', '["b"]'), ('["a"]', '["a"]'), ('["a", "b"]', '["a"]')) AS v (a, b);
SELECT s, count(*) FROM unnest(ARRAY['["b", "a"]', '["a", "b", "a"]', '[]']::dc_gset[]) AS s GROUP BY s ORDER BY s::text;

-- Text forms
SELECT '{"seen": {"b": [[2, 3], [9, 9]], "a": 7}, "elements": {"y": {"b": [9, 2]}, "x": {"a": [5], "b": [3]}}}'::dc_orset;
SELECT '{"elements": {}, "seen": {"a": [[1, 7]]}}'::dc_orset;
SELECT dc_add(dc_orset(), 'a', 'n')::jsonb -> 'elements', dc_add(dc_gset(), 'a')::jsonb;
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/crdt_wrong.sql
SELECT value, pg_temp.wrong(type, value) FROM (VALUES
	('dc_gset', '["a", 1]'),
	('dc_gset', '{}'),
	('dc_gset', '"a"'),
	('dc_orset', '{}'),
	('dc_orset', '{"elements": {}, "seen": {}, "more": 1}'),
	('dc_orset', '{"elements": [], "seen": {}}'),
	('dc_orset', '{"elements": {"a": {}}, "seen": {}}'),
	('dc_orset', '{"elements": {"a": {"n": []}}, "seen": {"n": 1}}'),
	('dc_orset', '{"elements": {"a": {"n": [1]}}, "seen": {}}'),
	('dc_orset', '{"elements": {"a": {"n": [2]}}, "seen": {"n": 1}}'),
	('dc_orset', '{"elements": {"a": {"n": [0]}}, "seen": {"n": 1}}'),
	('dc_orset', '{"elements": {"a": {"n": [1, 1]}}, "seen": {"n": 1}}'),
	('dc_orset', '{"elements": {"a": {"n": 1}}, "seen": {"n": 1}}'),
	('dc_orset', '{"elements": {"a": [1]}, "seen": {"n": 1}}'),
	('dc_orset', '{"elements": {}, "seen": {"n": 0}}'),
	('dc_orset', '{"elements": {}, "seen": {"n": []}}'),
	('dc_orset', '{"elements": {}, "seen": {"n": [[1, 2], [3, 4]]}}'),
	('dc_orset', '{"elements": {}, "seen": {"n": [[3, 2]]}}'),
	('dc_orset', '{"elements": {}, "seen": {"n": [[0, 2]]}}'),
	('dc_orset', '{"elements": {}, "seen": {"n": [1, 2]}}'),
	('dc_orset', '{"elements": {}, "seen": {"n": "1"}}'),
	('dc_orset', '{"elements": {}, "seen": {"": 1}}')) AS v (type, value);

-- Limits
SELECT dc_add('{"elements": {}, "seen": {"n": 9223372036854775807}}'::dc_orset, 'a', 'n');
SELECT dc_value(dc_add('{"elements": {}, "seen": {"n": 9223372036854775807}}'::dc_orset, 'a', 'm'));
SELECT dc_add(dc_gset(), repeat('x', 1024 * 1024 + 1));
SELECT dc_add(dc_orset(), repeat('x', 1024 * 1024 + 1), 'n');
SELECT length((dc_value(dc_add(dc_gset(), repeat('x', 1024 * 1024))))[1]);

-- The bytes, which doc/crdt-formats.md describes
SELECT dcounter.crdt_send('["", "ab"]'::dc_gset), dcounter.crdt_send('{"elements": {"ab": {"n": [3]}}, "seen": {"n": [[1, 1], [3, 4]]}}'::dc_orset);
