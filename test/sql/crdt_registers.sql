-- Registers of jsonb that merge: dc_lww, in which the later writing wins, and dc_mvreg, which keeps all concurrent ones.
\set VERBOSITY terse
SET dcounter.node = 'here';
SELECT dc_lww(), dc_value(dc_lww()) IS NULL AS never_written, dc_stamp(dc_lww()) IS NULL AS no_stamp, dc_mvreg(), dc_value(dc_mvreg());
SELECT dc_value(dc_set(dc_lww(), '{"b": 1,  "a": [null]}')), dc_value(dc_set(dc_lww(), 'null'));
SELECT dc_hlc_node(dc_stamp(dc_set(dc_lww(), '1'))) AS node, dc_hlc_node(dc_stamp(dc_set_as(dc_lww(), '1', 'there'))) AS other_node,
	dc_hlc_time(dc_stamp(dc_set(dc_lww(), '1'))) BETWEEN now() AND clock_timestamp() + interval '2 s' AS about_now;
SELECT dc_set(NULL::dc_lww, '1') IS NULL AND dc_set(dc_lww(), NULL) IS NULL AND dc_set_as(dc_lww(), '1', NULL) IS NULL AS null_is_null;
SELECT dc_set_as(dc_lww(), '1', '');

-- The later stamp wins; each writing is later than what it replaces.
SELECT dc_value(dc_merge(a, b)) AS b, dc_value(dc_merge(b, a)) AS b, a < b AS before, dc_value(dc_merge(c, b)) AS c
FROM (SELECT a, b, dc_set(b, '"c"') AS c FROM (SELECT a, dc_set(a, '"b"') AS b FROM (SELECT dc_set(dc_lww(), '"a"') AS a) AS v) AS v OFFSET 0) AS v;
SELECT dc_value(dc_merge('{"value": 1, "time": 5, "node": "a"}'::dc_lww, '{"value": 2, "time": 5, "node": "b"}')) AS node_decides,
	dc_value(dc_merge('{"value": 1, "time": 6, "node": "a"}'::dc_lww, '{"value": 2, "time": 5, "node": "b"}')) AS time_decides,
	dc_merge('{"value": 1, "time": 5, "node": "a"}'::dc_lww, '{"value": 2, "time": 5, "node": "a"}') =
	dc_merge('{"value": 2, "time": 5, "node": "a"}'::dc_lww, '{"value": 1, "time": 5, "node": "a"}') AS forged_ones_merge_too;
SELECT dc_delta('{"value": 1, "time": 6, "node": "a"}'::dc_lww, '{"value": 2, "time": 5, "node": "b"}') AS news, dc_delta('{"value": 1, "time": 4, "node": "a"}'::dc_lww, '{"value": 2, "time": 5, "node": "b"}') AS none;
SELECT dc_value(dc_merge_agg(r)) FROM unnest(ARRAY['{"value": 1, "time": 6, "node": "a"}', '{"value": 2, "time": 9, "node": "b"}', NULL, '{}']::dc_lww[]) AS r;

-- A register that keeps concurrent values
SELECT dc_value(dc_merge(b, c)) AS both, dc_value(dc_merge(a, b)) AS later, dc_value(dc_set_as(dc_merge(b, c), '"d"', 'n')) AS settled, dc_value(dc_merge(dc_reset(b), c)) AS reset, dc_value(dc_reset(b)) AS none, b && c AS concurrent, a < b AS before
FROM (SELECT a, dc_set_as(a, '{"x": 1}', 'n') AS b, dc_set_as(a, '{"x": 2}', 'm') AS c FROM (SELECT dc_set_as(dc_mvreg(), '"a"', 'n') AS a) AS v) AS v;
SELECT dc_set(dc_mvreg(), '1'), dc_merge(dc_set_as(dc_mvreg(), '1', 'n'), dc_set_as(dc_mvreg(), '1', 'm')) AS same_value;
SELECT v FROM dc_values(dc_merge(dc_set_as(dc_mvreg(), '1', 'n'), dc_set_as(dc_mvreg(), '"x"', 'm'))) AS v;
SELECT dc_value(dc_merge_agg(r)) FROM (VALUES (dc_set_as(dc_mvreg(), '1', 'n')), (dc_set_as(dc_mvreg(), '2', 'm')), (NULL)) AS v (r);
SELECT dc_merge(a, dc_delta(b, a)) = b AS delta FROM (SELECT a, dc_set_as(a, '2', 'm') AS b FROM (SELECT dc_set_as(dc_mvreg(), '1', 'n') AS a) AS v) AS v;

-- Text forms
SELECT '{"node": "n", "time": 1, "value": {"b":1,"a":2}}'::dc_lww, '{}'::dc_lww, '{"values": [{"value": "x", "dots": {"n": [1]}}], "seen": {"n": 1}}'::dc_mvreg;
SELECT '{"value": 1, "time": 5, "node": "a"}'::dc_lww::jsonb -> 'value';
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/crdt_wrong.sql
SELECT value, pg_temp.wrong(type, value) FROM (VALUES
	('dc_lww', '[]'),
	('dc_lww', '{"value": 1}'),
	('dc_lww', '{"value": 1, "time": 1}'),
	('dc_lww', '{"value": 1, "time": -1, "node": "a"}'),
	('dc_lww', '{"value": 1, "time": 253402300800000000, "node": "a"}'),
	('dc_lww', '{"value": 1, "time": 1, "node": 5}'),
	('dc_lww', '{"value": 1, "time": 1, "node": "a", "x": 1}'),
	('dc_mvreg', '{"values": [{"value": 1}], "seen": {"n": 1}}'),
	('dc_mvreg', '{"values": [1], "seen": {"n": 1}}'),
	('dc_mvreg', '{"values": {}, "seen": {}}'),
	('dc_mvreg', '{"values": [{"value": 1, "dots": {"n": [1]}}, {"value": 1, "dots": {"n": [2]}}], "seen": {"n": 2}}'),
	('dc_hlc', '{"time": 1}'),
	('dc_hlc', '{"time": 1, "node": "a", "value": 1}')) AS v (type, value);

-- Stamps are in one order.
SELECT h FROM unnest(ARRAY['{"time": 2, "node": "a"}', '{"time": 1, "node": "b"}', '{"time": 1, "node": "a"}', '{"time": 1, "node": "b"}']::dc_hlc[]) AS h ORDER BY h;
SELECT max(h::text) = dc_merge_agg(h)::text AS latest, count(DISTINCT h) FROM unnest(ARRAY['{"time": 2, "node": "a"}', '{"time": 1, "node": "b"}', '{"time": 1, "node": "b"}']::dc_hlc[]) AS h;
SELECT a < b AS lt, a <= b AS le, a = b AS eq, a <> b AS ne, a >= b AS ge, a > b AS gt, dc_merge(a, b) = b AS merged FROM (VALUES ('{"time": 1, "node": "a"}'::dc_hlc, '{"time": 1, "node": "b"}'::dc_hlc), ('{"time": 1, "node": "a"}', '{"time": 1, "node": "a"}')) AS v (a, b);

-- Limits
SELECT dc_set(dc_lww(), to_jsonb(repeat('x', 1024 * 1024)));
SELECT length(dc_value(dc_set(dc_lww(), to_jsonb(repeat('x', 1024 * 1024 - 2))))::text);

-- The bytes, which doc/crdt-formats.md describes
SELECT dcounter.crdt_send(dc_lww()), dcounter.crdt_send('{"value": [1], "time": 300, "node": "n"}'::dc_lww), dcounter.crdt_send('{"time": 300, "node": "n"}'::dc_hlc), dcounter.crdt_send('{"values": [{"value": 1, "dots": {"n": [1]}}], "seen": {"n": 1}}'::dc_mvreg);

-- Counters' setters are found as before, also with parameters without types.
SELECT dc_create('crdt_likes');
PREPARE setter AS SELECT dc_set($1, $2, $3);
EXECUTE setter('crdt_likes', 'k', 5);
SELECT dc_set('crdt_likes', 'k', '7'), dc_reset('crdt_likes', 'k');
SELECT dc_drop('crdt_likes');
