-- dcounter.merge_row(): rows of one key merge. What an apply worker does is done here with
-- session_replication_role = replica.
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
SET dcounter.node = 'eu';
CREATE SCHEMA m;
SET search_path = m, public;

-- States and a group of ordinary columns
CREATE TABLE cart (id int PRIMARY KEY, items dc_orset, hits dc_pncounter DEFAULT dc_pncounter(), name text, size int, stamp dc_hlc);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON cart FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row('stamp=stamp');
ALTER TABLE cart ENABLE ALWAYS TRIGGER m;
CREATE VIEW carts AS SELECT id, dc_value(items) AS items, dc_value(hits) AS hits, name, size,
	CASE WHEN dc_hlc_time(stamp) < '1980-01-01' THEN extract(epoch FROM dc_hlc_time(stamp)) * 1000000 END::int AS time, dc_hlc_node(stamp) AS node FROM cart ORDER BY id;

-- A row that comes and is not there is inserted; once more, it changes nothing
SET session_replication_role = replica;
INSERT INTO cart VALUES (1, '{"elements": {"a": {"us": [1]}}, "seen": {"us": 1}}', '{"us": {"inc": 3}}', 'A', 1, '{"time": 100, "node": "us"}');
SELECT * FROM carts;
SELECT ctid, xmin AS first FROM cart \gset
INSERT INTO cart SELECT * FROM cart;
UPDATE cart SET id = id;
SELECT :'ctid'::tid = ctid, :first = xmin::text::bigint FROM cart;
-- states merge in either direction; of the group the later stamp wins, as a whole
INSERT INTO cart VALUES (1, '{"elements": {"b": {"asia": [1]}}, "seen": {"asia": 1}}', '{"asia": {"inc": 5, "dec": 1}}', 'B', NULL, '{"time": 90, "node": "asia"}');
SELECT * FROM carts;
INSERT INTO cart VALUES (1, NULL, '{"us": {"inc": 2}}', 'B', NULL, '{"time": 110, "node": "asia"}');
SELECT * FROM carts;
UPDATE cart SET hits = '{"us": {"inc": 4}}', name = 'C', size = 9, stamp = '{"time": 109, "node": "us"}' WHERE id = 1;
SELECT * FROM carts;
UPDATE cart SET items = NULL, hits = NULL, name = 'D', size = 4, stamp = '{"time": 111, "node": "asia"}' WHERE id = 1;
SELECT * FROM carts;
-- of the same time, by the node; no stamp is before all
UPDATE cart SET name = 'E', stamp = '{"time": 111, "node": "aaa"}' WHERE id = 1;
UPDATE cart SET name = 'F', stamp = NULL WHERE id = 1;
SELECT * FROM carts;
INSERT INTO cart VALUES (2, NULL, NULL, 'none', 1);
INSERT INTO cart VALUES (2, NULL, NULL, 'some', 1, '{"time": 1, "node": "us"}');
SELECT * FROM carts WHERE id = 2;
-- several rows of one statement
INSERT INTO cart SELECT 3, NULL, dc_add(dc_pncounter(), i, 'n' || i), 'i' || i, i, format('{"time": %s, "node": "us"}', 10 - i)::dc_hlc FROM generate_series(1, 5) AS i;
SELECT * FROM carts WHERE id = 3;
COPY cart (id, hits, name, stamp) FROM stdin;
3	{"us": {"inc": 100}}	copied	{"time": 50, "node": "us"}
4	{"us": {"inc": 1}}	copied	{"time": 50, "node": "us"}
3	{"us": {"inc": 101}}	old	{"time": 49, "node": "us"}
\.
SELECT * FROM carts WHERE id >= 3;
-- a statement of the same transaction
BEGIN;
INSERT INTO cart (id, hits) VALUES (5, '{"us": {"inc": 1}}');
SAVEPOINT s;
INSERT INTO cart (id, hits) VALUES (5, '{"us": {"inc": 2}}');
ROLLBACK TO s;
INSERT INTO cart (id, hits) VALUES (5, '{"asia": {"inc": 5}}');
COMMIT;
SELECT hits FROM cart WHERE id = 5;

-- Groups of one stamp that differ, as somebody has not made a new one: the same one wins, whichever
-- came first. Columns count in the order of their names, not of the table.
CREATE TABLE tie (id int PRIMARY KEY, z int, a text, stamp dc_hlc);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON tie FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row('stamp=stamp');
ALTER TABLE tie ENABLE REPLICA TRIGGER m;
INSERT INTO tie VALUES (1, 1, 'b', '{"time": 5, "node": "us"}'), (1, 2, 'a', '{"time": 5, "node": "us"}'),
	(2, 2, 'a', '{"time": 5, "node": "us"}'), (2, 1, 'b', '{"time": 5, "node": "us"}'),
	(3, 1, NULL, NULL), (3, 2, NULL, NULL), (4, 2, NULL, NULL), (4, 1, NULL, NULL),
	(5, 1, 'Ä', NULL), (5, 1, 'Z', NULL);
SELECT id, z, a FROM tie ORDER BY id;
SET client_encoding = 'SQL_ASCII';
INSERT INTO tie VALUES (5, 1, 'Z', NULL);
SET client_encoding = 'LATIN1';
INSERT INTO tie VALUES (5, 1, U&'\20AC', NULL);
RESET client_encoding;
SELECT id, z, a = U&'\20AC' FROM tie WHERE id = 5;
SHOW search_path;
RESET session_replication_role;

-- Rows that users write: an INSERT gets a stamp
INSERT INTO cart (id, name) VALUES (10, 'mine');
SELECT * FROM carts WHERE id = 10;
SELECT stamp AS before FROM cart WHERE id = 10 \gset
-- a state that was read before does not undo what has come
UPDATE cart SET hits = dc_add(hits, 7), items = dc_add(dc_orset(), 'x') WHERE id = 10;
UPDATE cart SET hits = '{"us": {"inc": 1}}', items = NULL WHERE id = 10;
SELECT * FROM carts WHERE id = 10;
SELECT stamp = :'before' FROM cart WHERE id = 10;
-- a change of the group makes a new stamp, not an older one
UPDATE cart SET name = 'other' WHERE id = 10;
SELECT stamp > :'before', dc_hlc_node(stamp) FROM cart WHERE id = 10;
SELECT stamp AS before FROM cart WHERE id = 10 \gset
UPDATE cart SET name = 'again', stamp = '{"time": 5, "node": "us"}' WHERE id = 10;
SELECT stamp > :'before', dc_hlc_node(stamp) FROM cart WHERE id = 10;
SELECT stamp AS before FROM cart WHERE id = 10 \gset
UPDATE cart SET stamp = NULL WHERE id = 10;
SELECT stamp > :'before', dc_hlc_node(stamp) FROM cart WHERE id = 10;
SELECT stamp AS before FROM cart WHERE id = 10 \gset
UPDATE cart SET name = name, size = size, stamp = stamp WHERE id = 10 RETURNING stamp = :'before';
-- a later one that the user gives is taken
UPDATE cart SET name = 'given', stamp = dc_hlc_after(stamp) WHERE id = 10 RETURNING stamp > :'before', dc_hlc_time(stamp) <= dc_hlc_time(dc_hlc_now());
-- after a stamp that came from elsewhere and is ahead
SET session_replication_role = replica;
SELECT format('{"time": %s, "node": "us"}', (extract(epoch FROM now() + '20 s') * 1000000)::bigint) AS ahead,
	format('{"time": %s, "node": "us"}', (extract(epoch FROM now() + '1 day') * 1000000)::bigint) AS far \gset
INSERT INTO cart (id, name, stamp) VALUES (10, 'ahead', :'ahead');
RESET session_replication_role;
SELECT name FROM carts WHERE id = 10;
UPDATE cart SET name = 'after it' WHERE id = 10 RETURNING stamp > :'ahead', dc_hlc_node(stamp);
INSERT INTO cart (id, name) VALUES (11, 'too') RETURNING stamp > :'ahead';
-- upserts
INSERT INTO cart (id, name, hits) VALUES (11, 'upsert', dc_add(dc_pncounter(), 2)) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, hits = EXCLUDED.hits;
SELECT id, items, hits, name, size, node FROM carts WHERE id = 11;
-- the key
UPDATE cart SET id = 12 WHERE id = 11;
-- too far ahead: refused, from users and from elsewhere
\set VERBOSITY sqlstate
SET session_replication_role = replica;
INSERT INTO cart (id, stamp) VALUES (13, :'far');
INSERT INTO cart (id, stamp) VALUES (10, :'far');
UPDATE cart SET stamp = :'far' WHERE id = 10;
RESET session_replication_role;
INSERT INTO cart (id, stamp) VALUES (13, :'far');
UPDATE cart SET stamp = :'far' WHERE id = 10;
\set VERBOSITY terse
SELECT name FROM carts WHERE id IN (10, 13);
-- without a name there are no stamps, but there may be increments of named nodes
RESET dcounter.node;
INSERT INTO cart (id) VALUES (14);
UPDATE cart SET name = 'x' WHERE id = 10;
UPDATE cart SET hits = dc_add(hits, 1, 'somebody') WHERE id = 10;
SET dcounter.node = 'eu';

-- Values that are stored out of line: one that an update of the group leaves unchanged is stored again, so that
-- it is sent with the rest. One of another update is not.
CREATE TABLE big (id int PRIMARY KEY, doc text, n int, hits dc_gcounter, stamp dc_hlc);
ALTER TABLE big ALTER doc SET STORAGE EXTERNAL;
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON big FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row('stamp=stamp');
ALTER TABLE big ENABLE ALWAYS TRIGGER m;
INSERT INTO big VALUES (1, repeat('x', 5000), 1, dc_gcounter());
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'big'::regclass \gset
SELECT min(chunk_id) AS chunk FROM :toast \gset
UPDATE big SET hits = dc_add(hits);
SELECT min(chunk_id) = :chunk FROM :toast;
UPDATE big SET n = 2;
SELECT min(chunk_id) = :chunk, count(DISTINCT chunk_id), (SELECT length(doc) FROM big) FROM :toast;
SELECT min(chunk_id) AS chunk FROM :toast \gset
SET session_replication_role = replica;
UPDATE big SET hits = '{"us": 1}', n = 3, stamp = '{"time": 1, "node": "us"}'; -- it keeps its group
SELECT min(chunk_id) = :chunk, (SELECT n FROM big), (SELECT dc_value(hits) FROM big) FROM :toast;
RESET session_replication_role;

-- Other keys, columns, types
CREATE DOMAIN small AS dc_gcounter CHECK (dc_value(VALUE) < 100);
CREATE TABLE "O'dd Table" ("The ""Key" text COLLATE "C" NOT NULL, part int NOT NULL, gone int, "select" small, h dc_hll DEFAULT dc_hll(10), twice int GENERATED ALWAYS AS (part * 2) STORED,
	seq bigint GENERATED ALWAYS AS IDENTITY, note varchar(5), w dc_hlc, "St amp" dc_hlc, UNIQUE (part, "The ""Key"));
ALTER TABLE "O'dd Table" DROP COLUMN gone;
ALTER TABLE "O'dd Table" REPLICA IDENTITY USING INDEX "O'dd Table_part_The ""Key_key";
CREATE TRIGGER "tri gger" BEFORE INSERT OR UPDATE ON "O'dd Table" FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row('stamp=St amp', 'select', 'h');
ALTER TABLE "O'dd Table" ENABLE REPLICA TRIGGER "tri gger";
SET session_replication_role = replica;
SET search_path = '';
INSERT INTO m."O'dd Table" ("The ""Key", part, "select", h, seq, note, w, "St amp") OVERRIDING SYSTEM VALUE
	VALUES ('k', 1, '{"us": 60}', public.dc_hll_add(public.dc_hll(10), 1), 7, 'one', '{"time": 50, "node": "us"}', '{"time": 5, "node": "us"}'), ('k', 2, '{"us": 1}', NULL, 8, 'two', NULL, NULL);
INSERT INTO m."O'dd Table" ("The ""Key", part, "select", h, seq, note, w, "St amp") OVERRIDING SYSTEM VALUE
	VALUES ('k', 1, '{"us": 40}', public.dc_hll_add(public.dc_hll(10), 2), 9, 'three', '{"time": 1, "node": "us"}', '{"time": 6, "node": "us"}'),
	('k', 2, '{"us": 60}', public.dc_hll_add(public.dc_hll(10), 2), 10, 'none', NULL, NULL);
SELECT "The ""Key", part, "select", public.dc_hll_count(h), twice, seq, note, w FROM m."O'dd Table" ORDER BY part;
INSERT INTO m."O'dd Table" ("The ""Key", part, "select") VALUES ('k', 1, '{"asia": 40}'); -- together too much
SELECT ctid AS before FROM m."O'dd Table" WHERE part = 1 \gset
INSERT INTO m."O'dd Table" ("The ""Key", part, h, seq, note, "St amp") OVERRIDING SYSTEM VALUE VALUES ('k', 1, public.dc_hll_add(public.dc_hll(10), 1), 11, 'old', '{"time": 4, "node": "us"}');
SELECT :'before'::tid = ctid FROM m."O'dd Table" WHERE part = 1;
SET search_path = m, public;
INSERT INTO "O'dd Table" ("The ""Key") VALUES ('null');
-- an index with a class of operators and a collation of its own
CREATE TABLE pattern (id text, n dc_gcounter);
CREATE UNIQUE INDEX pattern_key ON pattern (id COLLATE "POSIX" text_pattern_ops);
ALTER TABLE pattern ALTER id SET NOT NULL, REPLICA IDENTITY USING INDEX pattern_key;
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON pattern FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row();
ALTER TABLE pattern ENABLE REPLICA TRIGGER m;
INSERT INTO pattern VALUES ('a', '{"us": 1}'), ('a', '{"eu": 1}');
SELECT * FROM pattern;
-- another index on the same column, by which more is equal, is not the key
CREATE TYPE pair AS (a numeric, b int);
CREATE TABLE images (id pair NOT NULL, n dc_gcounter);
CREATE UNIQUE INDEX images_key ON images (id record_image_ops);
ALTER TABLE images REPLICA IDENTITY USING INDEX images_key, ADD UNIQUE (id);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON images FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row();
ALTER TABLE images ENABLE REPLICA TRIGGER m;
INSERT INTO images VALUES ('(1.0,1)', '{"us": 1}'), ('(1.0,1)', '{"eu": 1}');
INSERT INTO images VALUES ('(1.00,1)', '{"asia": 1}');
SELECT * FROM images;
-- nothing but a key
CREATE TABLE keys (id int PRIMARY KEY);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON keys FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row();
ALTER TABLE keys ENABLE REPLICA TRIGGER m;
INSERT INTO keys VALUES (1), (1), (2);
SELECT count(*) FROM keys;
-- a row whose writer has changed the key, without the trigger
INSERT INTO pattern VALUES ('b', '{"us": 1}');
UPDATE pattern SET id = 'c', n = '{"us": 2}' WHERE id = 'b';
SELECT * FROM pattern ORDER BY id;

-- Partitions: by the parent, and directly
CREATE TABLE parts (id int, day int, n dc_gcounter, PRIMARY KEY (id, day)) PARTITION BY LIST (day);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 (n dc_gcounter, unused int, day int NOT NULL, id int NOT NULL, PRIMARY KEY (id, day));
ALTER TABLE parts_2 DROP COLUMN unused;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (2);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON parts FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row();
ALTER TABLE parts ENABLE ALWAYS TRIGGER m;
SELECT tgrelid::regclass, tgenabled FROM pg_trigger WHERE tgrelid::regclass::text LIKE 'parts%' ORDER BY 1;
INSERT INTO parts VALUES (1, 1, '{"us": 1}'), (1, 2, '{"us": 1}');
INSERT INTO parts VALUES (1, 1, '{"eu": 1}'), (1, 2, '{"eu": 1}');
INSERT INTO parts_2 (id, day, n) VALUES (1, 2, '{"us": 5}');
UPDATE parts SET n = '{"us": 4}';
SELECT tableoid::regclass, * FROM parts ORDER BY 1;
RESET session_replication_role;
UPDATE parts SET day = 2, id = 2 WHERE day = 1;

-- Other triggers: one before that changes and one that keeps rows, one after, counters that are bound
CREATE TABLE others (id int PRIMARY KEY, n dc_gcounter, said int, stamp dc_hlc);
CREATE TABLE log (what text);
CREATE FUNCTION first() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.said = -1 THEN RETURN NULL; END IF;
	NEW.said := NEW.said + 1;
	RETURN NEW;
END $$;
CREATE FUNCTION last() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.said = 98 THEN RETURN NULL; END IF;
	RETURN NEW;
END $$;
CREATE FUNCTION after() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO m.log VALUES (format('%s %s %s', TG_OP, NEW.n, NEW.said));
	RETURN NULL;
END $$;
CREATE TRIGGER a BEFORE INSERT OR UPDATE ON others FOR EACH ROW EXECUTE FUNCTION first();
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON others FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row('stamp=stamp');
CREATE TRIGGER z BEFORE INSERT OR UPDATE ON others FOR EACH ROW EXECUTE FUNCTION last();
CREATE TRIGGER after AFTER INSERT OR UPDATE ON others FOR EACH ROW EXECUTE FUNCTION after();
ALTER TABLE others ENABLE ALWAYS TRIGGER a, ENABLE ALWAYS TRIGGER m, ENABLE ALWAYS TRIGGER z, ENABLE ALWAYS TRIGGER after;
SELECT dc_create('m.per_said');
SELECT dc_bind('m.per_said', 'm.others', $$'all'$$, value => 'said', replicated => true);
SET session_replication_role = replica;
INSERT INTO others VALUES (1, '{"us": 1}', 10, '{"time": 5, "node": "us"}'); -- the first fires for both statements
INSERT INTO others VALUES (1, '{"us": 2}', 20, '{"time": 6, "node": "us"}');
INSERT INTO others VALUES (1, '{"us": 1}', 20, '{"time": 4, "node": "us"}'); -- adds nothing
INSERT INTO others VALUES (2, '{"us": 1}', -1, NULL), (3, '{"us": 1}', -2, NULL), (4, '{"us": 1}', 97, NULL), (5, '{"us": 1}', 96, NULL);
SELECT id, n, said FROM others ORDER BY id;
SELECT * FROM log;
SELECT dc_get('per_said', 'all') = sum(said) FROM others;
RESET session_replication_role;
-- one that renames the table, its columns, or its schema while a row is on its way
CREATE FUNCTION renames() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.said = 1010 THEN ALTER TABLE m.others RENAME n TO renamed; END IF;
	IF NEW.said = 1020 THEN ALTER TABLE m.others RENAME TO others_renamed; CREATE TABLE m.others (LIKE m.others_renamed INCLUDING ALL); END IF;
	IF NEW.said = 1030 THEN ALTER TABLE m.others DROP COLUMN n; END IF;
	IF NEW.said = 1040 THEN ALTER TABLE m.others ADD COLUMN more int; END IF;
	IF NEW.said = 1050 THEN ALTER TABLE m.others DROP CONSTRAINT others_pkey; END IF;
	RETURN NEW;
END $$;
DROP TRIGGER after ON others;
CREATE TRIGGER b BEFORE INSERT OR UPDATE ON others FOR EACH ROW EXECUTE FUNCTION renames();
ALTER TABLE others ENABLE ALWAYS TRIGGER b;
SELECT dc_unbind('m.per_said');
SET session_replication_role = replica;
BEGIN;
INSERT INTO others VALUES (6, '{"us": 1}', 900, NULL);
INSERT INTO others VALUES (1, '{"asia": 1}', 1009, '{"time": 50, "node": "us"}');
SELECT renamed, said FROM others WHERE id = 1;
ROLLBACK;
BEGIN;
INSERT INTO others VALUES (6, '{"us": 1}', 900, NULL);
INSERT INTO others VALUES (1, '{"asia": 2}', 1008, '{"time": 50, "node": "us"}');
SELECT renamed, said FROM others WHERE id = 1;
ROLLBACK;
BEGIN;
INSERT INTO others VALUES (6, '{"us": 1}', 900, NULL);
INSERT INTO others VALUES (1, '{"asia": 3}', 1019, '{"time": 50, "node": "us"}');
SELECT n, said FROM others_renamed WHERE id = 1;
SELECT count(*) FROM others;
ROLLBACK;
BEGIN;
INSERT INTO others VALUES (6, '{"us": 1}', 900, NULL);
INSERT INTO others VALUES (1, '{"asia": 4}', 1018, '{"time": 50, "node": "us"}');
SELECT n, said FROM others_renamed WHERE id = 1;
SELECT count(*) FROM others;
ROLLBACK;
BEGIN;
INSERT INTO others VALUES (6, '{"us": 1}', 900, NULL);
INSERT INTO others VALUES (1, '{"asia": 5}', 1029, '{"time": 50, "node": "us"}');
ROLLBACK;
BEGIN;
INSERT INTO others VALUES (6, '{"us": 1}', 900, NULL);
INSERT INTO others VALUES (1, '{"asia": 6}', 1028, '{"time": 50, "node": "us"}');
ROLLBACK;
BEGIN;
INSERT INTO others VALUES (6, '{"us": 1}', 900, NULL);
INSERT INTO others VALUES (1, '{"asia": 7}', 1039, '{"time": 50, "node": "us"}');
ROLLBACK;
BEGIN;
INSERT INTO others VALUES (6, '{"us": 1}', 900, NULL);
INSERT INTO others VALUES (1, '{"asia": 8}', 1049, '{"time": 50, "node": "us"}');
ROLLBACK;
-- one that writes the same key, and one that writes another
CREATE FUNCTION writes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.said < 500 AND NEW.said > 200 THEN
		INSERT INTO m.others VALUES (NEW.id + NEW.said / 400, dc_add(NEW.n, 5, 'trigger'), 500, '{"time": 60, "node": "us"}');
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER b2 BEFORE INSERT OR UPDATE ON others FOR EACH ROW EXECUTE FUNCTION writes();
ALTER TABLE others ENABLE ALWAYS TRIGGER b2;
INSERT INTO others VALUES (20, '{"asia": 1}', 400, '{"time": 50, "node": "us"}');
INSERT INTO others VALUES (30, '{"asia": 1}', 300, '{"time": 50, "node": "us"}');
SELECT id, n, said FROM others WHERE id >= 20 ORDER BY id;
RESET session_replication_role;

-- Columns that come and go while the session knows the table
SET session_replication_role = replica;
INSERT INTO pattern VALUES ('d', '{"us": 1}');
ALTER TABLE pattern ADD COLUMN more dc_gcounter;
INSERT INTO pattern VALUES ('d', '{"us": 2}', '{"us": 1}'), ('d', NULL, '{"eu": 1}');
ALTER TABLE pattern DROP COLUMN n;
INSERT INTO pattern VALUES ('d', '{"us": 3}');
SELECT * FROM pattern WHERE id = 'd';
ALTER TABLE pattern RENAME more TO "less";
ALTER TABLE pattern RENAME TO pattern2;
ALTER SCHEMA m RENAME TO m2;
SET search_path = m2, public;
INSERT INTO pattern2 VALUES ('d', '{"asia": 3}');
-- another table of the name, in another schema of the name
ALTER SCHEMA m2 RENAME TO m3;
CREATE SCHEMA m2;
CREATE TABLE pattern2 (id text PRIMARY KEY, "less" dc_gcounter);
INSERT INTO m3.pattern2 VALUES ('d', '{"asia": 4}');
SELECT (SELECT "less" FROM m3.pattern2 WHERE id = 'd'), (SELECT count(*) FROM m2.pattern2);
DROP SCHEMA m2 CASCADE;
ALTER SCHEMA m3 RENAME TO m;
SET search_path = m, public;
RESET session_replication_role;

-- What cannot work
CREATE TABLE bad (id int, a int, g dc_gcounter, b int GENERATED ALWAYS AS (a + 1) STORED, s dc_hlc, PRIMARY KEY (id));
CREATE FUNCTION try(arguments text, events text DEFAULT 'BEFORE INSERT OR UPDATE', tail text DEFAULT 'FOR EACH ROW') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TRIGGER m %s ON m.bad %s EXECUTE FUNCTION dcounter.merge_row(%s)', events, tail, arguments);
	INSERT INTO m.bad (id, a) VALUES (1, 1);
	UPDATE m.bad SET a = 2;
	RAISE EXCEPTION USING errcode = 'DC000';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT try($$'stamp=s'$$);
SELECT try('');
SELECT try($$'g'$$);
SELECT try($$'g', 'nobody', 'stamp=s'$$);
SELECT try($$'stamp=nobody'$$);
SELECT try($$'ctid', 'stamp=s'$$);
SELECT try($$'a', 'stamp=s'$$);
SELECT try($$'id', 'stamp=s'$$);
SELECT try($$'b', 'stamp=s'$$);
SELECT try($$'g', 'g', 'stamp=s'$$);
SELECT try($$'s', 'stamp=s'$$);
SELECT try($$'stamp=s', 'stamp=s'$$);
SELECT try($$'stamp=a'$$);
SELECT try($$'stamp=g'$$);
SELECT try($$'stamp=s'$$, 'BEFORE INSERT');
SELECT try($$'stamp=s'$$, 'BEFORE UPDATE');
SELECT try($$'stamp=s'$$, 'BEFORE INSERT OR UPDATE OF a');
SELECT try($$'stamp=s'$$, 'AFTER INSERT OR UPDATE');
SELECT try($$'stamp=s'$$, 'BEFORE INSERT OR UPDATE', 'FOR EACH STATEMENT');
SELECT try($$'stamp=s'$$, 'BEFORE INSERT OR UPDATE', 'FOR EACH ROW WHEN (NEW.a = 1)');
SELECT dcounter.merge_row();
CREATE RULE r AS ON UPDATE TO bad DO ALSO NOTHING;
SELECT try($$'stamp=s'$$);
DROP RULE r ON bad;
ALTER TABLE bad DROP CONSTRAINT bad_pkey;
SELECT try($$'stamp=s'$$);
ALTER TABLE bad ADD PRIMARY KEY (id) DEFERRABLE;
SELECT try($$'stamp=s'$$);
DROP TABLE bad;
CREATE TABLE bad (id int PRIMARY KEY, h bytea, a int, s dc_hlc);
SELECT try($$'h', 'stamp=s'$$);
DROP TABLE bad;
CREATE FOREIGN DATA WRAPPER nothing;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing;
CREATE FOREIGN TABLE bad (id int, a int) SERVER nowhere;
SELECT try('') ~ 'foreign-data wrapper|not a table'; -- the server may refuse it first
DROP FOREIGN DATA WRAPPER nothing CASCADE;
-- row-level security, for roles that are subject to it
CREATE ROLE regress_merge_row;
CREATE TABLE secret (id int PRIMARY KEY, n dc_gcounter);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON secret FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row();
ALTER TABLE secret ENABLE ALWAYS TRIGGER m, ENABLE ROW LEVEL SECURITY;
GRANT USAGE ON SCHEMA m TO regress_merge_row;
GRANT ALL ON secret TO regress_merge_row;
CREATE POLICY p ON secret USING (id > 10) WITH CHECK (true);
SET session_replication_role = replica;
INSERT INTO secret VALUES (1, '{"us": 1}');
SET ROLE regress_merge_row;
INSERT INTO secret VALUES (1, '{"us": 2}');
RESET ROLE;
INSERT INTO secret VALUES (1, '{"us": 3}');
SELECT * FROM secret;
ALTER TABLE secret DISABLE ROW LEVEL SECURITY;
-- a role needs the rights of an upsert
REVOKE ALL ON secret FROM regress_merge_row;
GRANT INSERT, SELECT ON secret TO regress_merge_row;
SET ROLE regress_merge_row;
INSERT INTO secret VALUES (1, '{"us": 4}');
RESET ROLE;
RESET session_replication_role;
-- any role may use the function for tables of its own
GRANT CREATE ON SCHEMA m TO regress_merge_row;
SET ROLE regress_merge_row;
CREATE TABLE own (id int PRIMARY KEY, n dc_gcounter);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON own FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row();
INSERT INTO own VALUES (1, '{"us": 1}');
UPDATE own SET n = '{"eu": 1}' RETURNING n;
RESET ROLE;

-- Another unique constraint is not the key
CREATE TABLE uniq (id int PRIMARY KEY, n dc_gcounter, name text UNIQUE, stamp dc_hlc);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON uniq FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row('stamp=stamp');
ALTER TABLE uniq ENABLE ALWAYS TRIGGER m;
SET session_replication_role = replica;
INSERT INTO uniq VALUES (1, NULL, 'a'), (2, NULL, 'a');
RESET session_replication_role;

-- A table may have any name, and columns of types that are made of some without a send function
CREATE TYPE few AS (a aclitem, n int);
CREATE TABLE excluded (id int PRIMARY KEY, n dc_gcounter, list aclitem[], pair few, stamp dc_hlc);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON excluded FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row('stamp=stamp');
ALTER TABLE excluded ENABLE ALWAYS TRIGGER m;
SET session_replication_role = replica;
INSERT INTO excluded VALUES (1, '{"us": 1}', '{=r/regress_merge_row}', NULL, '{"time": 5, "node": "us"}');
INSERT INTO excluded VALUES (1, '{"eu": 1}', '{=w/regress_merge_row}', NULL, '{"time": 5, "node": "us"}');
INSERT INTO excluded VALUES (1, '{"eu": 1}', '{=w/regress_merge_row}', ('=r/regress_merge_row', 1), '{"time": 5, "node": "us"}');
INSERT INTO excluded VALUES (1, '{"eu": 1}', '{=w/regress_merge_row}', ('=r/regress_merge_row', 2), '{"time": 5, "node": "us"}');
RESET session_replication_role;
SELECT * FROM excluded;
DROP TABLE excluded;

-- Types that are made of others, which are made of others: each is looked at once. The server lets one build them from the outermost.
DO $$BEGIN FOR i IN 0 .. 40 LOOP EXECUTE format('CREATE TYPE nested_%s AS ()', i); END LOOP; END$$;
CREATE TABLE nested (id int PRIMARY KEY, n dc_gcounter, x nested_40, stamp dc_hlc);
DO $$BEGIN FOR i IN REVERSE 40 .. 1 LOOP EXECUTE format('ALTER TYPE nested_%s ADD ATTRIBUTE a nested_%s, ADD ATTRIBUTE b nested_%s[]', i, i - 1, i - 1); END LOOP; END$$;
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON nested FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row('stamp=stamp');
INSERT INTO nested VALUES (1, '{"us": 1}', NULL, '{"time": 5, "node": "us"}');
SELECT n FROM nested;

-- Stamps that users give within values must not be too far ahead either: others would not take them
CREATE TABLE ahead (id int PRIMARY KEY, w dc_lww, at dc_hlc);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON ahead FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row();
ALTER TABLE ahead ENABLE ALWAYS TRIGGER m;
INSERT INTO ahead VALUES (1, '{"value": 1, "time": 5, "node": "us"}', '{"time": 5, "node": "us"}');
\set VERBOSITY sqlstate
INSERT INTO ahead VALUES (2, '{"value": 1, "time": 253402300799999999, "node": "us"}', NULL);
INSERT INTO ahead VALUES (2, NULL, '{"time": 253402300799999999, "node": "us"}');
UPDATE ahead SET w = '{"value": 1, "time": 253402300799999999, "node": "us"}';
UPDATE ahead SET at = '{"time": 253402300799999999, "node": "us"}';
\set VERBOSITY terse
SELECT * FROM ahead;

-- A trigger that does not fire for what a subscription brings: a warning, once a session
CREATE TABLE fed (id int PRIMARY KEY, n dc_gcounter);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON fed FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row();
INSERT INTO fed VALUES (1, '{"us": 1}');
-- its warning depends on the release
SET client_min_messages = error;
CREATE SUBSCRIPTION regress_merge CONNECTION 'dbname=nowhere' PUBLICATION p WITH (connect = false);
SET client_min_messages = warning;
INSERT INTO pg_subscription_rel SELECT oid, 'fed'::regclass, 'r', NULL FROM pg_subscription WHERE subname = 'regress_merge';
INSERT INTO fed VALUES (2, '{"us": 1}');
INSERT INTO fed VALUES (3, '{"us": 1}');
ALTER TABLE fed ADD COLUMN more dc_gset;
INSERT INTO fed VALUES (4, '{"us": 1}');
ALTER SUBSCRIPTION regress_merge SET (slot_name = NONE);
DROP SUBSCRIPTION regress_merge;

DROP SCHEMA m CASCADE;
DROP ROLE regress_merge_row;
-- the clock is ahead by now, and what comes next deletes by it
DO $$BEGIN PERFORM setval('dcounter.hlc_clock', 1); END$$;
