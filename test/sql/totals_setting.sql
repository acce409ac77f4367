-- The setting "totals", and what makes a counter table compacted although the setting is direct
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = error;
CREATE ROLE regress_dc_owner;
CREATE SCHEMA regress_dc AUTHORIZATION regress_dc_owner;
SET search_path = regress_dc, public;
SET ROLE regress_dc_owner;
-- What is in effect, and why
CREATE FUNCTION way(relid regclass) RETURNS text LANGUAGE sql AS
	$$SELECT concat_ws(': ', totals, compacted_because) FROM dc_tables WHERE counter = relid$$;
SELECT dc_create('likes'), dc_create('moved', totals => 'compacted'), dc_create('parts', partitions => 2), dc_stock_create('seats'), dc_ledger_create('wallet');
-- What it is while a statement's effect lasts, and afterwards
CREATE FUNCTION try(ddl text, relid regclass DEFAULT 'likes') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	meanwhile text;
BEGIN
	BEGIN
		EXECUTE ddl;
		meanwhile := way(relid);
		RAISE EXCEPTION USING errcode = 'RB000';
	EXCEPTION WHEN SQLSTATE 'RB000' THEN
	END;
	RETURN concat_ws(' | then ', meanwhile, way(relid));
END$$;

SELECT counter, totals FROM dcounter.counter WHERE counter IN ('likes'::regclass, 'moved', 'parts', 'seats') ORDER BY counter::text;
SELECT counter, way(counter), settings -> 'totals' AS setting FROM dc_tables WHERE owner = 'regress_dc_owner'::regrole ORDER BY counter::text COLLATE "C";

-- Changing it
SELECT dc_alter('moved', totals => 'direct');
SELECT way('moved');
SELECT dc_alter('moved', max_shards => 8);
SELECT way('moved');
BEGIN;
SELECT dc_alter('moved', totals => 'compacted');
SELECT way('moved'), mode FROM pg_locks WHERE relation = 'moved'::regclass AND pid = pg_backend_pid() ORDER BY mode;
ROLLBACK;
SELECT way('moved');
SELECT dc_alter('moved', totals => 'compacted');
SELECT dc_alter('moved', totals => NULL);
SELECT way('moved');
SELECT dc_alter('moved', totals => 'Direct');
SELECT dc_create('other', totals => 'no');
SELECT dc_create('other', totals => NULL);
SET ROLE pg_read_all_data;
SELECT dc_alter('regress_dc.moved', totals => 'direct');
SET ROLE regress_dc_owner;
-- A counter table that is adopted starts with the default
RESET ROLE;
DELETE FROM dcounter.counter WHERE counter = 'moved'::regclass;
SET ROLE regress_dc_owner;
SELECT dc_adopt('moved');
SELECT way('moved');

-- What a plain UPDATE or INSERT would run: code of the owner ...
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$;
CREATE TABLE log(key text);
CREATE TABLE pages(key text COLLATE "C" PRIMARY KEY);
SELECT try('CREATE TRIGGER t BEFORE UPDATE ON likes FOR EACH ROW EXECUTE FUNCTION nothing()');
SELECT try('CREATE TRIGGER t AFTER INSERT ON likes FOR EACH ROW EXECUTE FUNCTION nothing()');
SELECT try('CREATE TRIGGER t AFTER UPDATE OF key ON likes FOR EACH STATEMENT EXECUTE FUNCTION nothing()');
SELECT try('CREATE TRIGGER t AFTER UPDATE ON likes REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION nothing()');
SELECT try('CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON likes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION nothing()');
SELECT try('CREATE TRIGGER t BEFORE DELETE ON likes FOR EACH ROW EXECUTE FUNCTION nothing()');
SELECT try('CREATE TRIGGER t AFTER TRUNCATE ON likes EXECUTE FUNCTION nothing()');
SELECT try('CREATE TRIGGER t BEFORE UPDATE ON likes FOR EACH ROW EXECUTE FUNCTION nothing(); ALTER TABLE likes DISABLE TRIGGER t');
SELECT try('CREATE TRIGGER t BEFORE UPDATE ON likes FOR EACH ROW EXECUTE FUNCTION nothing(); ALTER TABLE likes ENABLE REPLICA TRIGGER t');
SELECT try('CREATE RULE r AS ON UPDATE TO likes DO ALSO INSERT INTO log VALUES (NEW.key)');
SELECT try('CREATE RULE r AS ON INSERT TO likes DO ALSO INSERT INTO log VALUES (NEW.key)');
SELECT try('ALTER TABLE likes ADD CONSTRAINT c CHECK (inc >= 0)');
SELECT try('ALTER TABLE likes ADD CONSTRAINT c CHECK (inc >= 0) NOT VALID');
SELECT try('ALTER TABLE likes ADD CONSTRAINT f FOREIGN KEY (key) REFERENCES pages');
SELECT try('CREATE TRIGGER t BEFORE UPDATE ON likes_shard FOR EACH ROW EXECUTE FUNCTION nothing()');
SELECT try('CREATE TRIGGER t BEFORE UPDATE ON likes_shard FOR EACH ROW EXECUTE FUNCTION nothing(); ALTER TABLE likes_shard DISABLE TRIGGER t');
-- ... which a foreign key that refers to the table is not
SELECT try('CREATE TABLE notes(key text COLLATE "C" REFERENCES likes ON UPDATE CASCADE ON DELETE CASCADE)');
SELECT try('CREATE TABLE notes(key text COLLATE "C" REFERENCES likes DEFERRABLE INITIALLY DEFERRED)');

-- ... indexes ...
SELECT try('CREATE INDEX i ON likes(value)');
SELECT try('CREATE INDEX i ON likes(key)');
SELECT try('CREATE UNIQUE INDEX i ON likes(key)');
SELECT try('CREATE INDEX i ON likes(lower(key)) WHERE inc > 5');
SELECT try('CREATE INDEX i ON likes USING brin (updated_at)');
SELECT try('ALTER TABLE likes ADD CONSTRAINT x EXCLUDE (key WITH =)');
SELECT try('CREATE INDEX i ON likes_shard(inc)');
SELECT try('ALTER TABLE likes DROP CONSTRAINT likes_pkey; CREATE UNIQUE INDEX i ON likes(key) INCLUDE (inc)');
SELECT try('ALTER TABLE likes DROP CONSTRAINT likes_pkey; CREATE UNIQUE INDEX i ON likes(key)');
CREATE INDEX CONCURRENTLY i ON likes(value);
SELECT way('likes');
DROP INDEX CONCURRENTLY i;
SELECT way('likes');
REINDEX TABLE CONCURRENTLY likes;
SELECT way('likes');
-- one that has failed is still written to
INSERT INTO likes(key, inc) VALUES ('a', 1), ('b', 1);
CREATE UNIQUE INDEX CONCURRENTLY i ON likes(inc);
SELECT way('likes'), indisvalid FROM pg_index WHERE indexrelid = 'i'::regclass;
DROP INDEX i;
DELETE FROM likes;

-- ... columns ...
SELECT try('ALTER TABLE likes ADD COLUMN more int');
SELECT try('ALTER TABLE likes ADD COLUMN more int; ALTER TABLE likes DROP COLUMN more');
SELECT try('ALTER TABLE likes ALTER COLUMN inc DROP DEFAULT, ALTER COLUMN inc ADD GENERATED ALWAYS AS IDENTITY');
SELECT try('ALTER TABLE likes ALTER COLUMN inc SET DEFAULT 5, ALTER COLUMN updated_at DROP DEFAULT');
SELECT try('ALTER TABLE likes ALTER COLUMN value SET NOT NULL');
SELECT try('ALTER TABLE likes DROP COLUMN value');
CREATE FUNCTION minus(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT a - b';
CREATE OPERATOR - (FUNCTION = minus, LEFTARG = bigint, RIGHTARG = bigint);
CREATE OPERATOR !- (FUNCTION = pg_catalog.int8mi, LEFTARG = bigint, RIGHTARG = bigint);
CREATE FUNCTION generated(expression text) RETURNS text LANGUAGE sql AS $$
	SELECT try(format('ALTER TABLE likes DROP COLUMN value; ALTER TABLE likes ADD COLUMN value bigint GENERATED ALWAYS AS (%s) STORED', expression))$$;
SELECT expression, generated(expression) FROM unnest('{inc - dec, (inc) - (dec), dec - inc, inc + dec, inc - inc, inc - dec - 0, -(dec - inc), abs(inc - dec), inc,
	inc - dec::int, inc OPERATOR(regress_dc.-) dec, inc !- dec, "int8mi(inc, dec)", "minus(inc, dec)", "NULL"}'::text[]) AS expression;

-- ... what is published ...
RESET ROLE;
CREATE PUBLICATION regress_dc_p FOR TABLE likes;
SELECT way('likes'), way('moved');
ALTER PUBLICATION regress_dc_p SET (publish = 'insert, delete, truncate');
SELECT way('likes'), way('moved');
ALTER PUBLICATION regress_dc_p SET (publish = 'update');
SELECT way('likes'), way('moved');
ALTER PUBLICATION regress_dc_p SET TABLE moved, likes_shard;
SELECT way('likes'), way('moved');
ALTER PUBLICATION regress_dc_p ADD TABLE likes;
SELECT way('likes'), way('moved');
ALTER PUBLICATION regress_dc_p DROP TABLE likes;
SELECT way('likes'), way('moved');
ALTER PUBLICATION regress_dc_p SET TABLES IN SCHEMA regress_dc;
SELECT way('likes'), way('moved');
ALTER TABLE moved SET SCHEMA public;
SELECT way('likes'), way('moved');
ALTER TABLE moved SET SCHEMA regress_dc;
DROP PUBLICATION regress_dc_p;
SELECT way('likes'), way('moved');
CREATE PUBLICATION regress_dc_p FOR ALL TABLES;
SELECT way('likes'), way('moved');
DROP PUBLICATION regress_dc_p;
-- without publication no replica identity is needed
ALTER TABLE likes REPLICA IDENTITY NOTHING;
SELECT way('likes'), way('moved');
ALTER TABLE likes REPLICA IDENTITY DEFAULT;

-- ... and what is fed
CREATE SUBSCRIPTION regress_dc_s CONNECTION 'dbname=regress_dc_none' PUBLICATION p WITH (connect = false, slot_name = NONE);
INSERT INTO pg_subscription_rel SELECT oid, 'likes'::regclass, 'r', NULL FROM pg_subscription WHERE subname = 'regress_dc_s';
SELECT way('likes'), way('moved');
DROP SUBSCRIPTION regress_dc_s;
SELECT way('likes'), way('moved');

-- Other kinds of tables, and of storage
CREATE ACCESS METHOD regress_dc_heap TYPE TABLE HANDLER heap_tableam_handler;
SET ROLE regress_dc_owner;
SELECT try('ALTER TABLE likes SET ACCESS METHOD regress_dc_heap');
SELECT try('ALTER TABLE likes SET UNLOGGED');
RESET ROLE;
ALTER EVENT TRIGGER dcounter_ddl DISABLE;
SELECT try('ALTER TABLE likes SET UNLOGGED');
ALTER EVENT TRIGGER dcounter_ddl ENABLE;
SET ROLE regress_dc_owner;
SELECT try($$SELECT dc_alter('likes', events => '1 s')$$);

-- One that cannot be used has no answer
SELECT try('ALTER TABLE likes ENABLE ROW LEVEL SECURITY');
SELECT try('ALTER TABLE likes DROP COLUMN updated_at');
SELECT * FROM dcounter.totals_way(NULL);
SELECT * FROM dcounter.totals_way('log');

-- Events wait for those that write, who do not know of them
BEGIN;
SELECT dc_alter('likes', events => '1 s');
SELECT mode FROM pg_locks WHERE relation = 'likes'::regclass AND pid = pg_backend_pid() ORDER BY mode;
ROLLBACK;

RESET ROLE;
DROP SCHEMA regress_dc CASCADE;
DROP ACCESS METHOD regress_dc_heap;
DROP ROLE regress_dc_owner;
