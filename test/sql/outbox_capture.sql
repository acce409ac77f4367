-- Writing events: dc_publish, dc_outbox_attach and what fires its triggers
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET timezone = 'UTC';
SET client_min_messages = warning;

-- What is new in the outbox, without ids and times
CREATE TABLE seen AS SELECT coalesce(max(seq), 0) AS seq FROM dcounter.outbox;
CREATE FUNCTION news(OUT text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY SELECT format('%s %s %s%s%s%s%s%s', aggregatetype, coalesce(aggregateid, '(null)'), type,
			' new=' || nullif(payload ->> 'new', ''), ' old=' || nullif(payload ->> 'old', ''),
			CASE WHEN payload ->> 'op' <> type THEN ' op=' || (payload ->> 'op') END,
			' of ' || (payload ->> 'table'), ' ' || headers::text)
		FROM dcounter.outbox AS o WHERE o.seq > (SELECT s.seq FROM seen AS s) ORDER BY o.seq;
	UPDATE seen SET seq = (SELECT max(o.seq) FROM dcounter.outbox AS o);
END $$;

-- Events of the application's own
SELECT dc_publish('mail', 'a@b', 'welcome', '{"name": "A"}') IS NOT NULL, dc_publish('mail', '', 'tombstone', NULL, '{"h": 1}') IS NOT NULL;
SELECT aggregatetype, aggregateid, type, payload, headers, clock_timestamp() - created_at BETWEEN '0 s' AND '1 minute' FROM dcounter.outbox WHERE seq > (SELECT seq FROM seen) ORDER BY seq;
SELECT * FROM news();
-- Keys of any type that counters take
SELECT dc_publish('keys', 7, 'x', '1') IS NOT NULL, dc_publish('keys', '1f0e4ee0-8e3b-4a8f-9a39-8d8b7f0c8a10'::uuid, 'x', '1') IS NOT NULL;
SELECT * FROM news();
-- The id is a UUID of version 7, of this minute, and the one that is stored
BEGIN;
SELECT dc_publish('t', 'k', 'x', '1') AS first \gset
SELECT dc_publish('t', 'k', 'x', '2') AS second \gset
COMMIT;
SELECT :'first' <> :'second', :'first'::text ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$',
	abs(extract(epoch FROM now()) - ('x' || lpad(replace(left(:'first', 13), '-', ''), 16, '0'))::bit(64)::bigint / 1000.0) < 60;
SELECT array_agg(id::text ORDER BY seq) = ARRAY[:'first', :'second'] FROM dcounter.outbox WHERE seq > (SELECT seq FROM seen);
SELECT dc_publish(NULL, 'k', 'x', '1');
SELECT dc_publish('t', NULL, 'x', '1');
SELECT dc_publish('t', 'k', NULL, '1');
SELECT dc_publish('', 'k', 'x', '1');
SELECT dc_publish('t', 'k', '', '1');
-- an event that no reader could take would hold up all that come after it
SELECT dc_publish(repeat('t', 8193), 'k', 'x', '1');
SELECT dc_publish('t', repeat('k', 8193), 'x', '1');
SELECT dc_publish('t', 'k', repeat('x', 8193), '1');
SELECT dc_publish('t', 'k', 'x', to_jsonb(repeat(chr(1), 16777217)));
SELECT dc_publish('t', 'k', 'x', '1', to_jsonb(repeat(chr(1), 16777217)));
-- of a number, ten bytes can be a text of 131,072
BEGIN;
SELECT dc_publish('t', 'k', 'x', jsonb_build_array(1e131071::numeric), jsonb_build_object('n', -1e131071::numeric)) IS NOT NULL;
SELECT count(dc_publish('t', 'k', 'x', (SELECT jsonb_agg(n) FROM generate_series(1, 50000), (VALUES (1e49::numeric), (1e-16)) AS v(n)))) FROM generate_series(1, 2);
ROLLBACK;
SELECT dc_publish('t', 'k', 'x', jsonb_build_array(1e131071::numeric, 1e131071::numeric, 1e50));
SELECT dc_publish('t', 'k', 'x', '1', jsonb_build_object('a', jsonb_build_object('b', -1e131071::numeric, 'c', -1e131071::numeric)));
SELECT dc_publish('t', 'k', 'x', (SELECT jsonb_agg(1e-16383::numeric) FROM generate_series(1, 17)));
-- nor can a transaction have any number of them
CREATE ROLE regress_dc_many;
SET dcounter.max_events_per_transaction = 2;
BEGIN;
SET LOCAL ROLE regress_dc_many;
SELECT count(dc_publish('t', 'k', 'x', '1')) FROM generate_series(1, 2);
SELECT dc_publish('t', 'k', 'x', '1');
ROLLBACK;
BEGIN;
SELECT count(dc_publish('t', 'k', 'x', '1')) FROM generate_series(1, 3);
ROLLBACK;
SET dcounter.max_events_per_transaction = 0;
BEGIN;
SET LOCAL ROLE regress_dc_many;
SELECT count(dc_publish('t', 'k', 'x', '1')) FROM generate_series(1, 3);
SET dcounter.max_events_per_transaction = 5;
ROLLBACK;
RESET dcounter.max_events_per_transaction;
DROP ROLE regress_dc_many;
BEGIN READ ONLY;
SELECT dc_publish('t', 'k', 'x', '1');
ROLLBACK;
SELECT count(*) FROM news();

-- Columns that are too large are seen before they are decompressed: nulls of an array take a bit each
CREATE TABLE large (id int8[] PRIMARY KEY, v int8[]);
SELECT dc_outbox_attach('large');
INSERT INTO large VALUES ('{1}', array_fill(NULL::int8, ARRAY[2000000, 1, 1]));
INSERT INTO large VALUES (array_fill(1::int8, ARRAY[10000]));
INSERT INTO large VALUES ('{NULL,1}', '{{NULL},{NULL}}');
SELECT * FROM news();
DROP TABLE large;
-- json takes more as jsonb than as text; both rows of an update count
CREATE TYPE large_pair AS (j json);
CREATE TABLE large (id int PRIMARY KEY, j json, p large_pair[]);
SELECT dc_outbox_attach('large');
INSERT INTO large VALUES (1, ('[' || repeat('1,', 1200000) || '1]')::json);
INSERT INTO large VALUES (2, NULL, ARRAY[ROW(('[' || repeat('1,', 1200000) || '1]')::json)::large_pair]);
INSERT INTO large VALUES (3, ('["\"' || repeat(',', 1300000) || '"]')::json);
UPDATE large SET p = ARRAY[ROW(to_json(repeat('x', 14500000)))::large_pair];
SELECT length(payload ->> 'new') > 1300000 AS whole FROM dcounter.outbox ORDER BY seq DESC LIMIT 1;
SELECT count(*) FROM news();
DROP TABLE large;
DROP TYPE large_pair;

-- A table: each operation
CREATE TABLE item (id int PRIMARY KEY, name text, price numeric);
SELECT dc_outbox_attach('item');
INSERT INTO item VALUES (1, 'one', 1.50), (2, NULL, NULL);
UPDATE item SET price = 2 WHERE id = 1;
UPDATE item SET price = 2 WHERE id = 1; -- changes nothing, and is an update
DELETE FROM item WHERE id = 2;
DELETE FROM item WHERE id = 99;
TRUNCATE item;
SELECT * FROM news();
-- The payload has five members, and the time is that of the clock
BEGIN;
SELECT pg_sleep(0.01);
SELECT clock_timestamp() AS before \gset
INSERT INTO item VALUES (1, 'one', 1);
SELECT clock_timestamp() AS after \gset
COMMIT;
SELECT string_agg(k, ' ' ORDER BY k), min(payload ->> 'at') = min(to_jsonb((payload ->> 'at')::timestamptz) #>> '{}'),
		(min(payload ->> 'at'))::timestamptz BETWEEN :'before' AND :'after'
	FROM dcounter.outbox, jsonb_object_keys(payload) AS k WHERE seq > (SELECT seq FROM seen);
SELECT count(*) FROM news();
-- A change of the key: the old one is told that the row is gone
UPDATE item SET id = 5, price = 9 WHERE id = 1;
SELECT * FROM news();

-- ON CONFLICT
INSERT INTO item VALUES (5, 'x', 1), (6, 'six', 6) ON CONFLICT DO NOTHING;
INSERT INTO item VALUES (5, 'x', 1), (7, 'seven', 7) ON CONFLICT (id) DO UPDATE SET name = excluded.name;
SELECT * FROM news();
-- MERGE
MERGE INTO item USING (VALUES (5, 'gone'), (6, 'changed'), (8, 'new')) AS v (id, name) ON item.id = v.id
	WHEN MATCHED AND v.name = 'gone' THEN DELETE
	WHEN MATCHED THEN UPDATE SET name = v.name
	WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.name);
SELECT * FROM news();
-- COPY
COPY item FROM stdin;
20	copied	1.0
21	\N	\N
\.
SELECT * FROM news();
-- A data-modifying CTE, and UPDATE ... FROM
WITH d AS (DELETE FROM item WHERE id >= 20 RETURNING *) INSERT INTO item SELECT id + 10, name, price FROM d;
SELECT * FROM news();
UPDATE item SET name = v.n FROM (VALUES (6, 'a'), (6, 'a')) AS v (i, n) WHERE id = i;
SELECT * FROM news();
-- Rolled back: the transaction, a savepoint, an exception block
BEGIN;
INSERT INTO item VALUES (100, 'no', 1);
ROLLBACK;
BEGIN;
INSERT INTO item VALUES (101, 'yes', 1);
SAVEPOINT s;
INSERT INTO item VALUES (102, 'no', 1);
SELECT dc_publish('mail', 'no', 'no', NULL) IS NOT NULL;
ROLLBACK TO s;
INSERT INTO item VALUES (103, 'yes', 1);
SAVEPOINT s2;
INSERT INTO item VALUES (104, 'yes', 1);
RELEASE s2;
DO $$ BEGIN INSERT INTO item VALUES (105, 'no', 1); INSERT INTO item VALUES (105, 'twice', 1); EXCEPTION WHEN unique_violation THEN NULL; END $$;
COMMIT;
SELECT * FROM news();
-- A statement that fails writes nothing
INSERT INTO item VALUES (110, 'no', 1), (110, 'no', 1);
SELECT count(*) FROM news();
-- What a BEFORE trigger changes is what is reported
CREATE FUNCTION upcase() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.name = 'skip' THEN RETURN NULL; END IF; NEW.name := upper(NEW.name); RETURN NEW; END $$;
CREATE TRIGGER upcase BEFORE INSERT ON item FOR EACH ROW EXECUTE FUNCTION upcase();
INSERT INTO item VALUES (111, 'loud', 1), (112, 'skip', 1);
SELECT * FROM news();
DROP TRIGGER upcase ON item;

-- session_replication_role: replica writes nothing, unless the triggers say so
SET session_replication_role = replica;
INSERT INTO item VALUES (120, 'replica', 1);
SELECT count(*) FROM news();
ALTER TABLE item ENABLE ALWAYS TRIGGER dcounter_outbox_insert;
INSERT INTO item VALUES (121, 'replica', 1);
RESET session_replication_role;
SELECT * FROM news();
ALTER TABLE item DISABLE TRIGGER dcounter_outbox_insert;
INSERT INTO item VALUES (122, 'silent', 1);
SELECT count(*) FROM news();
ALTER TABLE item ENABLE TRIGGER dcounter_outbox_insert;

-- Attached, detached
SELECT dc_outbox_attach('item');
SELECT dc_outbox_detach('item');
INSERT INTO item VALUES (130, 'silent', 1);
SELECT count(*) FROM news();
SELECT dc_outbox_detach('item');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'item'::regclass;
-- Topic, key, columns
SELECT dc_outbox_attach('item', topic => 'it''s \ "x"', key_columns => '{name}', columns => '{price,id}');
INSERT INTO item VALUES (140, 'k', 1), (141, NULL, 1);
UPDATE item SET name = 'later' WHERE id = 141;
UPDATE item SET name = NULL WHERE id = 141;
DELETE FROM item WHERE id = 140;
TRUNCATE item;
SELECT * FROM news();
SELECT tgname, pg_get_triggerdef(oid) ~ 'outbox_capture\(''it''''s \\ "x"'', ''table'', ''\{name\}'', ''\{price,id\}''\)' FROM pg_trigger WHERE tgrelid = 'item'::regclass AND tgname ~ 'insert|truncate' ORDER BY 1;
SELECT dc_outbox_detach('item');
-- Several key columns
SELECT dc_outbox_attach('item', key_columns => ARRAY['name', 'id', 'price']);
INSERT INTO item VALUES (150, 'a "b"', 1.50), (151, NULL, NULL);
SELECT * FROM news();
SELECT dc_outbox_detach('item');

-- Conditions
SELECT dc_outbox_attach('item', condition => 'NEW.price > 10');
INSERT INTO item VALUES (160, 'cheap', 1), (161, 'dear', 11);
UPDATE item SET price = 12 WHERE id = 160;
UPDATE item SET price = 1;
DELETE FROM item WHERE id = 161;
SELECT * FROM news();
SELECT dc_outbox_detach('item');
SELECT dc_outbox_attach('item', condition => 'OLD.price IS DISTINCT FROM NEW.price -- only that');
INSERT INTO item VALUES (170, 'x', 1);
UPDATE item SET name = 'y' WHERE id = 170;
UPDATE item SET price = 2 WHERE id = 170;
DELETE FROM item WHERE id = 170;
TRUNCATE item;
SELECT * FROM news();
SELECT dc_outbox_detach('item');
SELECT dc_outbox_attach('item', condition => 'OLD.price > 10');
INSERT INTO item VALUES (171, 'x', 1), (172, 'y', 11);
UPDATE item SET name = 'z';
DELETE FROM item;
SELECT * FROM news();
SELECT dc_outbox_detach('item');
SELECT dc_outbox_attach('item', condition => 'current_setting(''my.quiet'', true) IS DISTINCT FROM ''on''');
SET my.quiet = 'on';
INSERT INTO item VALUES (180, 'x', 1);
DELETE FROM item;
RESET my.quiet;
INSERT INTO item VALUES (181, 'x', 1);
SELECT * FROM news();
SELECT dc_outbox_detach('item');
SELECT dc_outbox_attach('item', condition => 'NEW IS DISTINCT FROM OLD');
UPDATE item SET name = name;
UPDATE item SET name = 'w';
SELECT * FROM news();
SELECT dc_outbox_detach('item');
-- Names are found by the search_path of the call; afterwards it does not matter
CREATE SCHEMA rules;
CREATE FUNCTION rules.wanted(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > 200';
SELECT dc_outbox_attach('item', condition => 'wanted(NEW.id)');
SET search_path = public, rules;
SELECT dc_outbox_attach('item', condition => 'wanted(NEW.id)');
RESET search_path;
INSERT INTO item VALUES (199, 'no', 1), (201, 'yes', 1);
SELECT * FROM news();
SELECT dc_outbox_detach('item');
-- Exactly one expression
SELECT dc_outbox_attach('item', condition => 'true) EXECUTE FUNCTION upcase(); DROP TABLE item; --');
SELECT dc_outbox_attach('item', condition => 'true; DROP TABLE item');
SELECT dc_outbox_attach('item', condition => 'true FROM item');
SELECT dc_outbox_attach('item', condition => 'true WHERE false');
SELECT dc_outbox_attach('item', condition => 'true, false');
SELECT dc_outbox_attach('item', condition => 'true AS x');
SELECT dc_outbox_attach('item', condition => 'DISTINCT true');
SELECT dc_outbox_attach('item', condition => 'true LIMIT 1');
SELECT dc_outbox_attach('item', condition => 'true /*');
SELECT dc_outbox_attach('item', condition => '-- nothing');
SELECT dc_outbox_attach('item', condition => '');
SELECT dc_outbox_attach('item', condition => '$1');
SELECT dc_outbox_attach('item', condition => '1');
SELECT dc_outbox_attach('item', condition => 'EXISTS (SELECT FROM item)');
SELECT dc_outbox_attach('item', condition => 'NEW.nothing > 1');
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'item'::regclass;

-- Other errors
CREATE TABLE keyless (a int, b int);
CREATE VIEW a_view AS SELECT * FROM item;
CREATE TEMP TABLE own (id int PRIMARY KEY);
SELECT dc_outbox_attach(NULL);
SELECT dc_outbox_attach(0);
SELECT dc_outbox_attach('keyless');
SELECT dc_outbox_attach('a_view');
SELECT dc_outbox_attach('item_pkey');
SELECT dc_outbox_attach('own');
SELECT dc_outbox_attach('pg_class');
SELECT dc_outbox_attach('information_schema.sql_features', key_columns => '{feature_id}');
SELECT dc_outbox_attach('dcounter.counter');
SELECT dc_outbox_attach('dcounter.outbox', key_columns => '{aggregateid}');
SELECT dc_outbox_attach('item', topic => '');
SELECT dc_outbox_attach('item', key_columns => '{nothing}');
SELECT dc_outbox_attach('item', key_columns => '{}');
SELECT dc_outbox_attach('item', key_columns => '{ctid}');
SELECT dc_outbox_attach('item', key_columns => ARRAY['id', NULL]);
SELECT dc_outbox_attach('item', key_columns => '{id,id}');
SELECT dc_outbox_attach('item', columns => '{id,id}');
SELECT dc_outbox_attach('item', columns => '{Id}');
SELECT dc_outbox_attach('item', columns => '{{id},{name}}');
SELECT dc_outbox_attach('item', sink => 'kafka');
SELECT dc_outbox_attach('item', sink => NULL);
SELECT dc_outbox_detach(NULL);
SELECT dc_outbox_detach('a_view');
SELECT dcounter.outbox_capture();
BEGIN READ ONLY;
SELECT dc_outbox_attach('item');
ROLLBACK;
SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('item'::regclass, 'keyless'::regclass);
-- A table without primary key, but with another key; its columns' names need quotes
ALTER TABLE keyless ADD "Odd "", {name}" text;
SELECT dc_outbox_attach('keyless', key_columns => ARRAY['Odd ", {name}'], columns => ARRAY['b', 'Odd ", {name}']);
INSERT INTO keyless VALUES (1, 2, 'x'), (1, 2, NULL);
SELECT * FROM news();

-- Types: exactly what to_jsonb() makes of the row, byte for byte
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (a int, b text, c numeric[]);
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE DOMAIN pair_domain AS pair;
CREATE TABLE types (id bigint PRIMARY KEY, dropped int, b bool, i2 int2, i4 int4, f4 float4, f8 float8, n numeric, n2 numeric(10,3), tx text, vc varchar(10), bc char(5), nm name, ch "char",
	d date, ts timestamp, tz timestamptz, tm time, iv interval, by bytea, js json, jb jsonb, jb2 jsonb, jb3 jsonb, u uuid, ar int[], ar2 text[][], m mood, ma mood[], c pair, dc pair_domain, ca pair[],
	p positive, r int4range, mr int4multirange, ine inet, x xml, o oid, rc regtype, pt point, mo money, bt bit(3), ov oidvector, "Mixed ""Q" text, tsv tsvector, g int GENERATED ALWAYS AS (i4 * 2) STORED, nn int) PARTITION BY RANGE (id);
CREATE TABLE types_all (LIKE types INCLUDING ALL);
CREATE TABLE types_low PARTITION OF types FOR VALUES FROM (0) TO (100);
ALTER TABLE types DROP COLUMN dropped;
ALTER TABLE types ADD added int DEFAULT 7;
DROP TABLE types;
ALTER TABLE types_all DROP COLUMN dropped;
SELECT dc_outbox_attach('types_all', 'types');
INSERT INTO types_all (id, b, i2, i4, f4, f8, n, n2, tx, vc, bc, nm, ch, d, ts, tz, tm, iv, by, js, jb, jb2, jb3, u, ar, ar2, m, ma, c, dc, ca, p, r, mr, ine, x, o, rc, pt, mo, bt, ov, "Mixed ""Q", tsv) VALUES
	(1, true, -2, 4, 1.5, 'nan', 1.500, 12345.6, E'te"x\\t\n\u00e9', 'vc', 'bc', 'nm', 'c', '2020-01-01', 'infinity', '2020-01-01 10:00:00.123', '10:00', '1 day', '\xdead', '{"a":  [1, 2.0], "a": 3}', '{"b": [1, {"c": null}], "aa": 2}', '"str"', '12.30',
		'00000000-0000-0000-0000-00000000002a', '{1,NULL,3}', '{{a,b},{c,d}}', 'ok', '{sad,NULL}', '(1,x,"{1.0,2}")', '(2,y,)', ARRAY['(3,z,{})'::pair], 5, '[1,5)', '{[1,2)}', '10.0.0.1/8', '<a/>', 1, 'int', '(1,2)', 12.5, '101', '1 2', 'mx', 'a b'),
	(2, false, 0, -7, 'infinity', 1e300, 'NaN', 0.001, '', '', '', NULL, NULL, 'infinity', '-infinity', 'infinity', NULL, NULL, '', '"x"', '[]', 'null', 'true', NULL, '{}', NULL, NULL, '{}', NULL, NULL, NULL, NULL, 'empty', '{}', '::1', NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, ''),
	(3, NULL, 32767, NULL, '-infinity', '-infinity', '-infinity', NULL, repeat('long', 3000), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}', jsonb_build_object('k', repeat('toast', 3000)), '{}', '[[[]]]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT aggregateid, payload -> 'new' = to_jsonb(t), (payload -> 'new')::text = to_jsonb(t)::text, record_image_eq(ROW(payload -> 'new'), ROW(to_jsonb(t))), jsonb_object_keys.count
	FROM dcounter.outbox AS o JOIN types_all AS t ON t.id::text = aggregateid, LATERAL (SELECT count(*) FROM jsonb_object_keys(payload -> 'new')) AS jsonb_object_keys WHERE aggregatetype = 'types' ORDER BY seq;
-- each member can be found, and the whole be changed by the server's functions
SELECT aggregateid, count(*), bool_and(payload -> 'new' -> key = value), bool_and(payload #> ARRAY['new', key] IS NOT DISTINCT FROM to_jsonb(t) -> key), bool_and((payload #- ARRAY['new', key]) -> 'new' = to_jsonb(t) - key)
	FROM dcounter.outbox AS o JOIN types_all AS t ON t.id::text = aggregateid, jsonb_each(to_jsonb(t)) WHERE aggregatetype = 'types' GROUP BY 1 ORDER BY 1;
SELECT payload -> 'new' FROM dcounter.outbox WHERE aggregatetype = 'types' AND aggregateid = '2';
-- ... in any settings of the session
SET timezone = 'Asia/Kolkata';
SET datestyle = 'German';
SET extra_float_digits = 0;
SET bytea_output = 'escape';
SET intervalstyle = 'iso_8601';
UPDATE types_all SET f8 = 1.0 / 3, tz = '2021-06-01 12:00+00';
SELECT count(*), bool_and(payload -> 'new' = to_jsonb(t)), count(DISTINCT payload ->> 'at') > 0, min(payload ->> 'at') ~ '\+05:30$' FROM dcounter.outbox AS o JOIN types_all AS t ON t.id::text = aggregateid WHERE aggregatetype = 'types' AND type = 'update';
RESET datestyle;
RESET extra_float_digits;
RESET bytea_output;
RESET intervalstyle;
SET timezone = 'UTC';
UPDATE seen SET seq = (SELECT max(seq) FROM dcounter.outbox);
-- DDL between two writes of one session
ALTER TABLE types_all ADD later text DEFAULT 'l', ALTER i4 DROP EXPRESSION IF EXISTS;
DELETE FROM types_all WHERE id = 1;
ALTER TABLE types_all DROP g, DROP c;
ALTER TABLE types_all ALTER i4 TYPE text;
UPDATE types_all SET i4 = 'text' WHERE id = 2;
SELECT aggregateid, type, payload #> '{old,later}', payload #> '{old,g}', payload #> '{new,g}', payload #> '{new,i4}' FROM dcounter.outbox WHERE seq > (SELECT seq FROM seen) ORDER BY seq;
UPDATE seen SET seq = (SELECT max(seq) FROM dcounter.outbox);
-- Many columns (the stored form changes every 32 entries), one, and none
DO $$ BEGIN EXECUTE format('CREATE TABLE wide (id int PRIMARY KEY, %s)', (SELECT string_agg(format('c%s int DEFAULT %1$s', i), ', ') FROM generate_series(1, 500) AS i)); END $$;
SELECT dc_outbox_attach('wide');
INSERT INTO wide VALUES (1);
CREATE TABLE narrow ();
ALTER TABLE narrow ADD k int;
SELECT dc_outbox_attach('narrow', key_columns => '{k}');
INSERT INTO narrow DEFAULT VALUES;
SELECT record_image_eq(ROW(payload -> 'new'), ROW(to_jsonb(w))), record_image_eq(ROW(payload), ROW(payload::text::jsonb)), (SELECT sum((payload -> 'new' ->> key)::int) FROM jsonb_object_keys(payload -> 'new') AS key) FROM dcounter.outbox, wide AS w WHERE aggregatetype = 'wide';
SELECT payload -> 'new' FROM dcounter.outbox WHERE aggregatetype = 'narrow';
DROP TABLE wide, narrow;
UPDATE seen SET seq = (SELECT max(seq) FROM dcounter.outbox);

-- Keys of all types, as a cast to text shows them
CREATE TABLE keys (b bool, i int, n numeric, bc char(5), nm name, ine inet, tz timestamptz, u uuid, m mood, p positive, ar int[], j jsonb, by bytea, c pair);
INSERT INTO keys VALUES (true, 1, 1.50, 'ab', 'nm', '10.0.0.1', '2020-01-01', '00000000-0000-0000-0000-00000000002a', 'ok', 5, '{1,2}', '{"a": 1}', '\x01', '(1,x,)');
CREATE FUNCTION key_of(col text, OUT result text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM dc_outbox_attach('keys', 'keys', ARRAY[col]);
	UPDATE keys SET i = i;
	PERFORM dc_outbox_detach('keys');
	EXECUTE format('SELECT %I::text FROM keys', col) INTO result;
END $$;
CREATE TABLE key_texts AS SELECT row_number() OVER () AS n, attname, key_of(attname::text) AS text FROM pg_attribute WHERE attrelid = 'keys'::regclass AND attnum > 0 ORDER BY attnum;
SELECT attname, text, text = aggregateid FROM key_texts JOIN (SELECT row_number() OVER (ORDER BY seq) AS n, aggregateid FROM dcounter.outbox WHERE seq > (SELECT seq FROM seen)) AS o USING (n) ORDER BY n;
UPDATE seen SET seq = (SELECT max(seq) FROM dcounter.outbox);

-- Partitioned tables: the root's name and topic; rows that move; partitions that come and go
CREATE TABLE part (id int, region text, v int, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE part_eu PARTITION OF part FOR VALUES IN ('eu');
CREATE TABLE part_us (v int, gone int, region text NOT NULL, id int NOT NULL) PARTITION BY RANGE (id);
ALTER TABLE part_us DROP gone;
CREATE TABLE part_us_1 (id int NOT NULL, region text NOT NULL, v int);
ALTER TABLE part_us ATTACH PARTITION part_us_1 FOR VALUES FROM (0) TO (100);
ALTER TABLE part ATTACH PARTITION part_us FOR VALUES IN ('us');
SELECT dc_outbox_attach('part');
INSERT INTO part VALUES (1, 'eu', 1), (2, 'us', 2);
INSERT INTO part_us_1 VALUES (3, 'us', 3);
UPDATE part SET v = 20 WHERE id = 2;
UPDATE part SET region = 'us' WHERE id = 1;
DELETE FROM part_us WHERE id = 3;
SELECT * FROM news();
CREATE TABLE part_as PARTITION OF part FOR VALUES IN ('as');
INSERT INTO part VALUES (4, 'as', 4);
ALTER TABLE part DETACH PARTITION part_eu;
INSERT INTO part_eu VALUES (5, 'eu', 5);
ALTER TABLE part RENAME TO parts;
CREATE SCHEMA other;
UPDATE parts SET v = 5 WHERE id = 4;
ALTER TABLE parts SET SCHEMA other;
UPDATE other.parts SET v = 6 WHERE id = 4;
ALTER SCHEMA other RENAME TO "Other";
UPDATE "Other".parts SET v = 7 WHERE id = 4;
SELECT * FROM news();
TRUNCATE part_as;
TRUNCATE "Other".parts;
SELECT * FROM news();
SELECT dc_outbox_attach('part_as');
SELECT dc_outbox_detach('part_as');
SELECT dc_outbox_detach('"Other".parts');
SELECT count(*) FROM pg_trigger WHERE tgname ~ 'dcounter_outbox' AND tgrelid IN ('part_as'::regclass, '"Other".parts'::regclass, 'part_us_1'::regclass);
-- A partition alone
SELECT dc_outbox_attach('part_as');
INSERT INTO "Other".parts VALUES (1, 'as', 1), (1, 'us', 1);
UPDATE "Other".parts SET region = 'us', id = 2 WHERE region = 'as';
SELECT * FROM news();
SELECT dc_outbox_attach('"Other".parts');
DROP TABLE "Other".parts, part_eu;

-- Children by inheritance are tables of their own
CREATE TABLE base (id int PRIMARY KEY);
CREATE TABLE derived (x int) INHERITS (base);
SELECT dc_outbox_attach('base');
INSERT INTO derived VALUES (1, 1);
DELETE FROM base;
SELECT count(*) FROM news();
DROP TABLE base CASCADE;

-- Foreign keys: cascades are events of the table that they change
CREATE TABLE owner (id int PRIMARY KEY);
CREATE TABLE pet (id int PRIMARY KEY, owner int REFERENCES owner ON DELETE CASCADE ON UPDATE CASCADE, sitter int REFERENCES owner ON DELETE SET NULL);
INSERT INTO owner VALUES (1), (2);
INSERT INTO pet VALUES (10, 1, 2), (11, 2, 1);
SELECT dc_outbox_attach('pet'), dc_outbox_attach('owner');
DELETE FROM owner WHERE id = 1;
SELECT * FROM news() AS n ORDER BY n COLLATE "C";
TRUNCATE owner CASCADE;
SELECT * FROM news() AS n ORDER BY n COLLATE "C";
DROP TABLE pet, owner;

-- Columns that are renamed and dropped; writes never fail for it
CREATE TABLE cols (id int PRIMARY KEY, a int, b int, c int) PARTITION BY RANGE (id);
CREATE TABLE cols_1 PARTITION OF cols FOR VALUES FROM (0) TO (100);
SELECT dc_outbox_attach('cols', key_columns => '{a,b}', columns => '{id,b,"c"}', condition => 'NEW.a > 0');
INSERT INTO cols VALUES (1, 1, 1, 1);
ALTER TABLE cols RENAME a TO "A, ""1""";
ALTER TABLE cols RENAME COLUMN b TO bb;
INSERT INTO cols VALUES (2, 2, 2, 2), (3, 0, 3, 3);
SELECT * FROM news();
SELECT tgrelid::regclass, substring(pg_get_triggerdef(oid) FROM 'WHEN.*') FROM pg_trigger WHERE tgname = 'dcounter_outbox_insert' AND tgrelid::regclass::text ~ '^cols' ORDER BY 1;
CREATE TABLE cols_2 PARTITION OF cols FOR VALUES FROM (100) TO (200);
INSERT INTO cols VALUES (100, 2, 2, 2);
ALTER TABLE cols DROP bb;
ALTER TABLE cols DROP c CASCADE;
ALTER TABLE cols DROP "A, ""1""";
BEGIN;
ALTER TABLE cols RENAME c TO bye;
ROLLBACK;
INSERT INTO cols VALUES (101, 2, 2, 2);
SELECT * FROM news();
-- swapped in one transaction
BEGIN;
ALTER TABLE cols RENAME bb TO tmp;
ALTER TABLE cols RENAME c TO bb;
ALTER TABLE cols RENAME tmp TO c;
COMMIT;
INSERT INTO cols VALUES (102, 2, 0, 1);
SELECT * FROM news();
SELECT dc_outbox_detach('cols');
ALTER TABLE cols DROP bb, DROP c;
DROP TABLE cols;
-- by other commands
CREATE DOMAIN going AS int;
CREATE FUNCTION double(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE TABLE cols (id int PRIMARY KEY, a going, b int GENERATED ALWAYS AS (double(id)) STORED, c int);
SELECT dc_outbox_attach('cols', columns => '{a,b,c}');
BEGIN;
DROP DOMAIN going CASCADE;
ROLLBACK;
BEGIN;
DROP FUNCTION double CASCADE;
ROLLBACK;
ALTER VIEW cols RENAME COLUMN a TO aa;
INSERT INTO cols (id, aa) VALUES (1, 1);
SELECT * FROM news();
ALTER TABLE cols ALTER aa TYPE text;
UPDATE cols SET aa = 'one';
SELECT * FROM news();
-- the key's column has another name, or another type; its primary key is gone, and back
ALTER TABLE cols RENAME id TO ident;
UPDATE cols SET ident = 2;
ALTER TABLE cols DROP CONSTRAINT cols_pkey;
UPDATE cols SET aa = 'two';
\set VERBOSITY default
UPDATE cols SET aa = 'two';
\set VERBOSITY terse
TRUNCATE cols;
ALTER TABLE cols ADD PRIMARY KEY (ident) DEFERRABLE;
INSERT INTO cols VALUES (3, 'three');
SELECT * FROM news();
DROP TABLE cols;
-- typed tables
CREATE TYPE kind AS (id int, a int);
CREATE TABLE typed OF kind (PRIMARY KEY (id));
SELECT dc_outbox_attach('typed', columns => '{a}');
ALTER TYPE kind RENAME ATTRIBUTE a TO b CASCADE;
INSERT INTO typed VALUES (1, 2);
SELECT * FROM news();
ALTER TYPE kind DROP ATTRIBUTE b CASCADE;
DROP TABLE typed;

-- Rights: roles that may write to the table write its events, and no others
CREATE ROLE regress_owner;
CREATE ROLE regress_writer;
GRANT CREATE ON SCHEMA public TO regress_owner;
SET ROLE regress_owner;
CREATE TABLE owned (id int PRIMARY KEY);
SELECT dc_outbox_attach('owned');
GRANT INSERT ON owned TO regress_writer;
SET ROLE regress_writer;
SELECT dc_outbox_attach('owned');
SELECT dc_outbox_detach('owned');
INSERT INTO owned VALUES (1);
INSERT INTO dcounter.outbox VALUES (1, now(), gen_random_uuid(), 'x', 'x', 'x');
SELECT count(*) FROM dcounter.outbox;
RESET ROLE;
SELECT * FROM news();
-- of another
ALTER TABLE owned OWNER TO regress_writer;
SET ROLE regress_owner;
SELECT dc_outbox_detach('owned');
RESET ROLE;
DROP TABLE owned;

-- The function on a table of one's own, with any arguments
SET ROLE regress_owner;
CREATE TABLE hostile (id int PRIMARY KEY, v text);
CREATE FUNCTION try(timing text, args text, OUT result text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TRIGGER h %s EXECUTE FUNCTION dcounter.outbox_capture(%s)', timing, args);
	BEGIN
		INSERT INTO hostile VALUES (1, 'x');
		result := 'written';
	EXCEPTION WHEN OTHERS THEN
		result := sqlstate || ' ' || sqlerrm;
	END;
	EXECUTE 'DROP TRIGGER h ON hostile; DELETE FROM hostile';
END $$;
SELECT t, a, try(t || ' INSERT ON hostile FOR EACH ' || e, a) FROM (VALUES
	('AFTER', 'ROW', ''), ('AFTER', 'ROW', '''t'''), ('AFTER', 'ROW', '''t'', ''table'', '''', '''', ''more'''),
	('AFTER', 'ROW', '''t'', ''table'', '''', '''''), ('AFTER', 'ROW', 't, table, '''', '''''), ('AFTER', 'ROW', ''''', ''table'', '''', '''''),
	('AFTER', 'ROW', '''t'', ''x'', '''', '''''), ('AFTER', 'ROW', '''t'', ''table'', ''{'', '''''), ('AFTER', 'ROW', '''t'', ''table'', ''{no}'', '''''),
	('AFTER', 'ROW', '''t'', ''table'', ''{id,id}'', '''''), ('AFTER', 'ROW', '''t'', ''table'', ''{NULL}'', '''''), ('AFTER', 'ROW', '''t'', ''table'', '''', ''{{v},{id}}'''),
	('AFTER', 'ROW', '''t'', ''table'', '''', ''{v,v}'''), ('AFTER', 'ROW', '''t'', ''table'', ''{}'', ''{}'''), ('AFTER', 'ROW', '''t'', ''table'', ''{-1}'', '''''),
	('AFTER', 'ROW', '''t'', ''table'', ''{ctid}'', '''''), ('AFTER', 'ROW', '1, 2, 3, 4'),
	('BEFORE', 'ROW', '''t'', ''table'', '''', '''''), ('AFTER', 'STATEMENT', '''t'', ''table'', '''', '''''), ('BEFORE', 'STATEMENT', '''t'', ''table'', '''', ''''')) AS v (t, e, a);
CREATE TRIGGER h BEFORE TRUNCATE ON hostile EXECUTE FUNCTION dcounter.outbox_capture('t', 'table', '', '');
TRUNCATE hostile;
DROP TRIGGER h ON hostile;
-- it may be put on a view, and does nothing good there
CREATE VIEW hostile_view AS SELECT * FROM hostile;
CREATE TRIGGER h INSTEAD OF INSERT ON hostile_view FOR EACH ROW EXECUTE FUNCTION dcounter.outbox_capture('t', 'table', '', '');
INSERT INTO hostile_view VALUES (1, 'x');
-- two on one table, of different topics; constraint triggers wait for the commit
CREATE TRIGGER h AFTER INSERT OR UPDATE OR DELETE ON hostile FOR EACH ROW EXECUTE FUNCTION dcounter.outbox_capture('first', 'table', 'id', '{v}');
DROP TRIGGER h ON hostile;
CREATE TRIGGER h1 AFTER INSERT OR UPDATE OR DELETE ON hostile FOR EACH ROW EXECUTE FUNCTION dcounter.outbox_capture('first', 'table', '{id}', '{v}');
CREATE CONSTRAINT TRIGGER h2 AFTER INSERT ON hostile DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dcounter.outbox_capture('second', 'table', '{v}', '{id}');
BEGIN;
INSERT INTO hostile VALUES (1, 'x');
DELETE FROM hostile;
COMMIT;
RESET ROLE;
SELECT * FROM news();
-- a cast that writes to the same table while a row of it is made an event
SET ROLE regress_owner;
CREATE TYPE trap AS ENUM ('t');
CREATE FUNCTION trap_to_json(trap) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
	IF pg_trigger_depth() > 1 THEN
		RETURN '"inner"';
	END IF;
	GRANT SELECT ON trapped TO PUBLIC; -- invalidates what is known of the table
	INSERT INTO trapped VALUES (2, 't');
	RETURN '"outer"';
END $$;
CREATE CAST (trap AS json) WITH FUNCTION trap_to_json(trap);
CREATE TABLE trapped (id int PRIMARY KEY, t trap, c text DEFAULT 'c');
SELECT dc_outbox_attach('trapped');
INSERT INTO trapped VALUES (1, 't');
RESET ROLE;
SELECT * FROM news() AS n ORDER BY n COLLATE "C";
DROP OWNED BY regress_owner CASCADE;
REVOKE ALL ON SCHEMA public FROM regress_owner;
DROP ROLE regress_owner, regress_writer;

-- Dropping: the table alone, and not the extension
DROP TABLE keyless;
SELECT dc_outbox_attach('item');
DROP EXTENSION dcounter;
BEGIN;
DROP EXTENSION dcounter CASCADE;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'item'::regclass;
INSERT INTO item VALUES (1000, 'no extension', 1);
ROLLBACK;
INSERT INTO item VALUES (1001, 'extension', 1);
SELECT * FROM news();
DROP VIEW a_view;
DROP TABLE item, types_all, keys, key_texts, seen;
DROP FUNCTION news, key_of, upcase;
DROP SCHEMA rules CASCADE;
DROP DOMAIN pair_domain, positive;
DROP TYPE pair, mood, kind;

-- A column that is dropped with its type: nothing prevents the drop of the type
CREATE DOMAIN colour AS text;
CREATE TABLE coloured (id int PRIMARY KEY, c colour, "odd "",name" int) PARTITION BY LIST (id);
CREATE TABLE coloured_1 PARTITION OF coloured FOR VALUES IN (1);
SELECT dc_outbox_attach('coloured', columns => ARRAY['id', 'c', 'odd ",name']);
ALTER TABLE coloured RENAME "odd "",name" TO "still, odd";
INSERT INTO coloured VALUES (1, 'red', 2);
SELECT payload -> 'new' AS new FROM dcounter.outbox ORDER BY seq DESC LIMIT 1;
ALTER TABLE coloured DROP c;
SET client_min_messages = warning;
DROP DOMAIN colour CASCADE;
RESET client_min_messages;
SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgrelid IN ('coloured'::regclass, 'coloured_1'::regclass);
INSERT INTO coloured DEFAULT VALUES;
INSERT INTO coloured VALUES (1, 2) ON CONFLICT DO NOTHING;
DROP TABLE coloured;

-- Arguments that are no list of columns do not get in the way of DDL
CREATE TABLE badly (id int PRIMARY KEY, b int);
CREATE TRIGGER badly AFTER INSERT ON badly FOR EACH ROW EXECUTE FUNCTION dcounter.outbox_capture('t', 'table', '{bad,"', '');
ALTER TABLE badly RENAME b TO c;
ALTER TABLE badly DROP c;
INSERT INTO badly VALUES (1);
DROP TABLE badly;
