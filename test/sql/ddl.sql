-- DDL on the tables of a counter: plain commands are all it takes
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
\set VERBOSITY terse
CREATE SCHEMA regress_dc;
CREATE SCHEMA "regress_dc Other";
CREATE ROLE regress_dc_owner;
GRANT ALL ON SCHEMA regress_dc, "regress_dc Other" TO regress_dc_owner;
SET search_path = regress_dc, public;
-- The state of this test: settings, and tables with their owners
CREATE VIEW settings AS SELECT counter, shards, shard_by, max_shards FROM dcounter.counter ORDER BY counter::text COLLATE "C";
CREATE VIEW tables AS
	SELECT relnamespace::regnamespace AS schema, relname::text COLLATE "C", pg_get_userbyid(relowner) <> current_user AS given, relkind
	FROM pg_class WHERE relnamespace::regnamespace::text ~ 'regress_dc' AND relkind IN ('r', 'p') ORDER BY 1::text COLLATE "C", 2;

-- Every statement's plan is warm, then the tables are renamed and moved
CREATE FUNCTION warm(c regclass) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM dc_incr(c, 'a', 10), dc_apply(), dc_incr(c, 'a', 1), dc_incr(c, 'b', 2), dc_get(c, 'a'), dc_sum(c);
	PERFORM dc_set(c, 'b', dc_get(c, 'b')), dc_compact(c), dc_incr(c, 'a', 100), dc_apply(), dc_compact(c), dc_set(c, 'c', 1), dc_delete(c, 'c');
	RETURN format('a %s, b %s, sum %s', dc_get(c, 'a'), (SELECT value FROM dc_get_many(c, '{b}')), dc_sum(c));
END $$;
SELECT dc_create('likes', 'hash', 9), dc_create('views', partitions => 2);
PREPARE incr (regclass) AS SELECT dc_incr($1, 'p', 1);
PREPARE get (regclass) AS SELECT dc_get($1, 'p');
SELECT 'likes'::regclass::oid AS likes \gset
EXECUTE incr (:likes);
EXECUTE get (:likes);
SELECT warm('likes'), warm('views');
ALTER TABLE likes RENAME TO "Loved by";
EXECUTE incr (:likes);
EXECUTE get (:likes);
SELECT warm('"Loved by"'), warm('views');
ALTER TABLE "Loved by" SET SCHEMA "regress_dc Other";
EXECUTE incr (:likes);
EXECUTE get (:likes);
SELECT warm('"regress_dc Other"."Loved by"');
TABLE settings;
TABLE tables;
ALTER TABLE "regress_dc Other"."Loved by" SET SCHEMA regress_dc;
ALTER TABLE "Loved by" RENAME TO likes;
ALTER TABLE views RENAME TO seen;
ALTER TABLE seen SET SCHEMA "regress_dc Other";
SELECT warm('"regress_dc Other".seen');
TABLE tables;
ALTER TABLE "regress_dc Other".seen SET SCHEMA regress_dc;
ALTER TABLE seen RENAME TO views;
ALTER SCHEMA regress_dc RENAME TO regress_dc_new;
ALTER SCHEMA regress_dc_new RENAME TO regress_dc;
SELECT warm('likes'), warm('views');
-- Another table takes the old name
ALTER TABLE likes RENAME TO old;
SELECT dc_create('likes');
SELECT warm('likes'), warm('old');
EXECUTE incr (:likes);
SELECT dc_get('likes', 'p'), dc_get('old', 'p'), dc_drop('likes');
ALTER TABLE old RENAME TO likes;
-- Names for which there is no room, or that are taken
ALTER TABLE likes RENAME TO likes567890123456789012345678901234567890123456789012345678;
CREATE TABLE taken_shard (a int);
ALTER TABLE likes RENAME TO taken;
CREATE TABLE "regress_dc Other".likes_shard (a int);
ALTER TABLE likes SET SCHEMA "regress_dc Other";
DROP TABLE taken_shard, "regress_dc Other".likes_shard;
-- Columns, indexes and constraints may be renamed, which is not the table's name
ALTER TABLE likes RENAME CONSTRAINT likes_pkey TO likes_key;
ALTER INDEX likes_key RENAME TO likes_pkey;
ALTER TABLE likes_shard RENAME TO odd_name;
SELECT warm('likes');
ALTER TABLE likes RENAME TO likes2;
ALTER TABLE likes2 RENAME TO likes;
TABLE tables;
TABLE settings;

-- Owners
ALTER TABLE likes OWNER TO regress_dc_owner;
ALTER TABLE views OWNER TO regress_dc_owner;
TABLE tables;
SELECT warm('likes'), warm('views');
SET ROLE regress_dc_owner;
SELECT dc_incr('likes', 'a'), dc_compact('likes') > 0, dc_alter('likes', max_shards => 8);
RESET ROLE;
ALTER TABLE likes OWNER TO CURRENT_USER, ADD note text DEFAULT 'none';
SELECT warm('likes'), relname, pg_get_userbyid(relowner) = current_user FROM pg_class WHERE relname = 'likes_shard';
REASSIGN OWNED BY regress_dc_owner TO CURRENT_USER;
SELECT warm('views');
SELECT DISTINCT given FROM tables;
BEGIN;
SELECT dc_incr('likes', 'own', 1);
ALTER TABLE likes OWNER TO regress_dc_owner;
ALTER TABLE likes RENAME TO likes2;
ALTER TABLE likes2 SET SCHEMA "regress_dc Other";
SELECT dc_incr('"regress_dc Other".likes2', 'own', 2);
COMMIT;
SELECT dc_get('"regress_dc Other".likes2', 'own');
BEGIN;
ALTER TABLE "regress_dc Other".likes2 RENAME TO gone;
SELECT dc_incr('"regress_dc Other".gone', 'own', 4);
ROLLBACK;
SELECT dc_incr('"regress_dc Other".likes2', 'own', 8);
SELECT dc_get('"regress_dc Other".likes2', 'own');
ALTER TABLE "regress_dc Other".likes2 SET SCHEMA regress_dc;
ALTER TABLE likes2 RENAME TO likes;
ALTER TABLE likes OWNER TO CURRENT_USER;

-- Columns added and dropped
ALTER TABLE likes DROP COLUMN value, DROP COLUMN note, ADD title text, ADD n int NOT NULL DEFAULT 7;
ALTER TABLE likes_shard ADD extra text DEFAULT 'x', ADD gone int;
ALTER TABLE likes_shard DROP COLUMN gone;
ALTER TABLE views ADD title text;
ALTER TABLE views_shard ADD title text;
SELECT warm('likes'), warm('views'), dc_incr('likes', 'new column', 3);
SELECT dc_compact('likes');
SELECT key, inc - dec AS value, title, n FROM likes ORDER BY key;
ALTER TABLE likes ADD value bigint GENERATED ALWAYS AS (inc - dec) STORED, ALTER inc SET STATISTICS 10, SET (fillfactor = 50), SET UNLOGGED;
SELECT key, value, dc_get('likes', key) FROM likes ORDER BY key;
-- A rewritten table and its indexes; VACUUM FULL, CLUSTER, REINDEX
CREATE INDEX likes_top ON likes (value DESC);
VACUUM FULL likes;
CLUSTER likes_shard USING likes_shard_pkey;
REINDEX TABLE likes;
SELECT warm('likes');
TRUNCATE likes, likes_shard;
SELECT dc_get('likes', 'a'), dc_sum('likes'), warm('likes');
BEGIN;
SELECT dc_incr('likes', 'a', 1000), dc_apply();
TRUNCATE likes, likes_shard;
SELECT dc_incr('likes', 'a', 5), dc_get('likes', 'a');
COMMIT;
SELECT dc_get('likes', 'a'), dc_sum('likes');
-- Rows that users write themselves are counted too
INSERT INTO likes (key, inc) VALUES ('mine', 10);
INSERT INTO likes_shard (key, shard, inc, dec) VALUES ('mine', -5, 3, 1), ('mine', 2147483647, 4, 0), ('mine', -2147483648, 0, 2);
SELECT dc_get('likes', 'mine'), dc_incr_returning('likes', 'mine'), (dc_info('likes', 'mine')).shards;
SELECT dc_compact('likes') > 0, dc_compact('likes');
SELECT value, dc_get('likes', key), (dc_info('likes', key)).shards FROM likes WHERE key = 'mine';

-- Dropping leaves nothing
SELECT count(*) FROM settings;
BEGIN;
DROP TABLE likes;
ROLLBACK;
SELECT dc_get('likes', 'mine');
BEGIN;
SELECT dc_incr('likes', 'a', 5), dc_incr('views', 'v', 5), dc_apply(), dc_incr('likes', 'a', 5), dc_incr('views', 'v', 5);
SAVEPOINT s;
DROP TABLE likes;
ROLLBACK TO s;
SELECT dc_get('likes', 'a');
DROP TABLE likes;
COMMIT;
SELECT dc_get('views', 'v');
\set VERBOSITY sqlstate
EXECUTE get (:likes);
EXECUTE incr (:likes);
\set VERBOSITY terse
TABLE settings;
TABLE tables;
DROP TABLE views_shard;
TABLE settings;
SELECT dc_get('views', 'v');
SELECT dc_create('likes');
SELECT dc_incr('likes', 'a', 3), dc_compact('likes'), dc_incr('likes', 'a');
CREATE VIEW top AS SELECT key, value FROM likes;
DROP TABLE likes;
SELECT dc_get('likes', 'a');
DROP TABLE likes CASCADE;
SELECT to_regclass('likes'), to_regclass('likes_shard'), to_regclass('top');
SELECT dc_create('likes'), dc_create('"regress_dc Other".likes');
DROP SCHEMA "regress_dc Other" CASCADE;
TABLE settings;
CREATE VIEW on_shards AS SELECT key FROM likes_shard;
DROP TABLE likes;
SELECT dc_drop('likes');
SELECT dc_get('likes', 'a');
SET client_min_messages = warning;
DROP TABLE likes CASCADE;
RESET client_min_messages;
SELECT to_regclass('likes'), to_regclass('likes_shard'), to_regclass('on_shards');
DROP TABLE views;
TABLE settings;
SET ROLE regress_dc_owner;
SELECT dc_create('owned', partitions => 2), dc_create('owned2');
RESET ROLE;
SELECT dc_incr('owned', 'a'), dc_incr('owned2', 'a');
GRANT USAGE ON SCHEMA regress_dc TO regress_dc_owner;
DROP OWNED BY regress_dc_owner;
TABLE settings;
TABLE tables;
DROP ROLE regress_dc_owner;
-- With event triggers out of action nothing follows, and nothing breaks
SELECT dc_create('likes'), dc_create('views');
SELECT dc_incr('likes', 'a', 5), dc_incr('views', 'a', 6);
SET session_replication_role = replica;
ALTER TABLE likes RENAME TO likes2;
ALTER TABLE likes2 SET SCHEMA public;
DROP TABLE views;
RESET session_replication_role;
SELECT dc_incr('public.likes2', 'a'), dc_compact('public.likes2'), dc_get('public.likes2', 'a'), dc_compact() >= 0;
SELECT shards FROM settings WHERE counter = 'public.likes2'::regclass;
ALTER TABLE public.likes2 SET SCHEMA regress_dc;
ALTER TABLE likes2 RENAME TO likes;
SELECT warm('likes'), to_regclass('likes_shard');
DROP TABLE likes, views_shard;
SELECT count(*) FROM dcounter.counter;
-- (dropping views_shard has removed what was left of views)
-- CREATE TABLE of the same name after the drop is no counter table
CREATE TABLE likes (LIKE pg_class);
SELECT dc_incr('likes', 'a');
SET client_min_messages = warning;
-- All that follows a table follows its name and schema, partitions too, so that another one can have these
CREATE SCHEMA regress_dc_first;
CREATE SCHEMA regress_dc_second;
SET search_path = regress_dc_first, public;
CREATE FUNCTION public.regress_dc_rooms() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM dc_create('parts', partitions => 2), dc_create('trendy', trend => '1 day', op_retention => '1 day'), dc_create('posts'), dc_stock_create('seats'),
		dc_ledger_create('wallet'), dc_ledger_create('monthly', partition_by => 'month'), dc_window_create('hits', '1 minute', '3 minutes', '{"1 hour": "1 day"}'),
		dc_distinct_create('visitors', bucket => '1 day', keep => '3 days');
	PERFORM dc_unread_create('seen', 'posts'), dc_incr_once('trendy', 'a'::text, 1, 'op 1'), dc_incr('parts', 'a'), dc_incr('parts', 'b'), dc_incr_at('hits', 'a', 1, now());
	RETURN (SELECT count(*) FROM pg_class WHERE relnamespace = 'regress_dc_first'::regnamespace AND relkind IN ('r', 'p', 'v', 'S')) || ' relations';
END $$;
SELECT public.regress_dc_rooms() AS made \gset
SELECT format('ALTER TABLE %I RENAME TO %I', r, 'my_' || r) FROM unnest('{parts,trendy,posts,seats,wallet,monthly,hits,visitors,seen}'::text[]) AS r
\gexec
SELECT relname FROM pg_class WHERE relnamespace = 'regress_dc_first'::regnamespace AND relkind IN ('r', 'p', 'v', 'S') AND relname !~ '^my_' ORDER BY relname COLLATE "C";
SELECT relname FROM pg_class WHERE relnamespace = 'regress_dc_first'::regnamespace AND relname ~ '^my_(parts|hits)' AND relkind IN ('r', 'p', 'v', 'S') ORDER BY relname COLLATE "C";
SELECT dc_sum('my_parts'), dc_incr_at('my_hits', 'a', 1, now()), (dc_window('my_hits', 'a', '2 minutes')).estimate > 0;
SELECT format('ALTER TABLE %I SET SCHEMA regress_dc_second', 'my_' || r) FROM unnest('{parts,trendy,posts,seats,wallet,monthly,visitors,seen}'::text[]) AS r
\gexec
ALTER VIEW my_hits SET SCHEMA regress_dc_second;
SELECT relname FROM pg_class WHERE relnamespace = 'regress_dc_first'::regnamespace ORDER BY relname COLLATE "C";
SELECT public.regress_dc_rooms() = :'made' AS as_before;
SELECT dc_sum('regress_dc_second.my_parts'), dc_sum('parts'), dc_incr_at('regress_dc_second.my_hits', 'a', 1, now());
CREATE ROLE regress_dc_receiver;
GRANT CREATE ON SCHEMA regress_dc_first TO regress_dc_receiver;
ALTER TABLE parts OWNER TO regress_dc_receiver;
ALTER VIEW hits RENAME TO taken;
SELECT relname, pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 'regress_dc_first'::regnamespace AND relkind IN ('r', 'p') AND relname ~ '^parts' ORDER BY relname COLLATE "C";
SELECT count(*) FROM pg_class WHERE relnamespace = 'regress_dc_first'::regnamespace AND relkind IN ('r', 'v') AND relname ~ '^hits';
DROP SCHEMA regress_dc_first, regress_dc_second CASCADE;
DROP FUNCTION public.regress_dc_rooms;
DROP ROLE regress_dc_receiver;
SET search_path = regress_dc, public;
-- What follows a table is named in a statement. If another table has its name by then, it is
-- left alone: its owner may rename schemas while a superuser drops or alters the table.
CREATE SCHEMA regress_dc_swap;
CREATE SCHEMA regress_dc_other;
SELECT dc_create('regress_dc_swap.c');
CREATE TABLE regress_dc_other.c_shard AS SELECT 'not to be dropped' AS a;
CREATE SEQUENCE statements;
CREATE FUNCTION swap() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	IF nextval('regress_dc.statements') = 2 THEN
		ALTER SCHEMA regress_dc_swap RENAME TO regress_dc_swapped;
		ALTER SCHEMA regress_dc_other RENAME TO regress_dc_swap;
	END IF;
END $$;
CREATE EVENT TRIGGER regress_dc_swap ON ddl_command_start WHEN TAG IN ('DROP TABLE', 'ALTER TABLE') EXECUTE FUNCTION swap();
BEGIN; DROP TABLE regress_dc_swap.c; ROLLBACK; ALTER SEQUENCE statements RESTART;
BEGIN; ALTER TABLE regress_dc_swap.c SET SCHEMA public; ROLLBACK; ALTER SEQUENCE statements RESTART;
BEGIN; ALTER TABLE regress_dc_swap.c RENAME TO d; ROLLBACK; ALTER SEQUENCE statements RESTART;
BEGIN; ALTER TABLE regress_dc_swap.c OWNER TO pg_database_owner; ROLLBACK; ALTER SEQUENCE statements RESTART;
BEGIN; ALTER TABLE regress_dc_swap.c SET UNLOGGED; ROLLBACK; ALTER SEQUENCE statements RESTART;
BEGIN; SELECT dc_drop('regress_dc_swap.c'); ROLLBACK; ALTER SEQUENCE statements RESTART;
DROP EVENT TRIGGER regress_dc_swap;
DROP FUNCTION swap;
SELECT * FROM regress_dc_other.c_shard;
DROP SCHEMA regress_dc_swap, regress_dc_other CASCADE;
DROP SCHEMA regress_dc CASCADE;
SELECT count(*) FROM dcounter.counter;
