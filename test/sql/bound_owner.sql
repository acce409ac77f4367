-- Bound counters: owners who would have others run their code, and settings that would make sessions disagree
\set VERBOSITY terse
CREATE ROLE bound_mallory;
CREATE ROLE bound_writer;
CREATE SCHEMA bound_owner;
GRANT ALL ON SCHEMA bound_owner TO bound_mallory;
GRANT USAGE ON SCHEMA bound_owner TO bound_writer;
SET search_path = bound_owner, public;
SET ROLE bound_mallory;
CREATE FUNCTION evil(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'code of mallory as %', current_user; RETURN true; END $$;
CREATE DOMAIN evils AS int CHECK (bound_owner.evil(VALUE));
CREATE TYPE mood AS ENUM ('happy', 'sad', 'Mad');
CREATE TABLE src (id int PRIMARY KEY, k int, m mood, ms mood[], b bytea, f float8, f4 float4, p point, i interval, at timestamptz, day date, x xml, o oid, t text);
GRANT INSERT, UPDATE, DELETE ON src TO bound_writer;
SELECT dc_create('c');

-- Constants are read from text in each session that writes: with no code of users, and no names of objects
CREATE FUNCTION tried(what text, expr text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF what = 'key' THEN
		PERFORM dc_bind('c', 'src', expr, build => 'none');
	ELSE
		PERFORM dc_bind('c', 'src', 'k', filter => expr, build => 'none');
	END IF;
	INSERT INTO src (id) VALUES (0);
	DELETE FROM src;
	RETURN (SELECT concat_ws('; ', key, filter) FROM dcounter.source WHERE counter = 'bound_owner.c'::regclass);
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SET client_min_messages = warning; -- the caller's own code may run when it binds
SELECT expr, tried('filter', expr) AS bound FROM unnest(ARRAY['k = ANY (''{1,2}''::evils[]::int[])', 'k = ANY (''{1,2}''::text[]::evils[]::int[])', 'k = 1::evils', 'k = ANY (NULL::evils[]::int[])',
	'o <> ''src''::regclass', 'o <> ALL (''{src}''::regclass[])', 'o <> ''bound_mallory''::regrole', 'to_tsvector(''english'', t) @@ ''a''::tsquery', 'xmlelement(name a, k)::text = ''''', 'x IS DOCUMENT']) WITH ORDINALITY AS e(expr, ord) ORDER BY ord;
-- Texts that depend on settings
SELECT expr, tried('key', expr) AS bound FROM unnest(ARRAY['b', 'f', 'f4', 'p', 'k, f', 'md5(f::text)', 'quote_ident(t)', 'byteaout(b)::text', 'i']) WITH ORDINALITY AS e(expr, ord) ORDER BY ord;
RESET client_min_messages;

-- Constants mean in all sessions what they meant to the one that has bound
SET datestyle = 'SQL, DMY';
SET intervalstyle = sql_standard;
SET extra_float_digits = -15;
SET bytea_output = escape;
SET quote_all_identifiers = on;
SET transform_null_equals = on;
SELECT dc_bind('c', 'src', 'k', filter => 'day < ''01/02/2020''::date AND at < ''01/02/2020 00:00:00+00'' AND i > ''-1 year -2 days'' AND f < 0.1234567::float8 * 1e0::float8 AND b <> ''\x00ff'' AND m <> ALL (''{Mad,NULL}'') IS NOT TRUE', build => 'none');
RESET datestyle;
RESET intervalstyle;
RESET extra_float_digits;
RESET bytea_output;
RESET quote_all_identifiers;
RESET transform_null_equals;
SELECT filter FROM dcounter.source WHERE counter = 'bound_owner.c'::regclass;
SELECT dc_unbind('c');

-- Names in texts are found however they are quoted
SELECT dc_bind('c', 'src', 'k', filter => 'm = ''Mad'' AND day IS NULL', build => 'none');
SET quote_all_identifiers = on;
ALTER TYPE mood RENAME TO humour;
ALTER TABLE src RENAME COLUMN day TO "the ""day""";
ALTER TABLE src RENAME COLUMN "the ""day""" TO other;
ALTER TYPE humour RENAME VALUE 'Mad' TO 'mad';
RESET quote_all_identifiers;
SELECT filter FROM dcounter.source WHERE counter = 'bound_owner.c'::regclass;
RESET ROLE;
SET ROLE bound_writer;
INSERT INTO src (id, k, m) VALUES (1, 1, 'mad'), (2, 1, 'sad');
RESET ROLE;
SELECT dc_apply();
SELECT dc_get('c', 1), count(*) AS differences FROM dc_source_check('c');

-- What goes with the session, without an event trigger, is not named
SET ROLE bound_mallory;
SET client_min_messages = warning;
CREATE TYPE pg_temp.te AS ENUM ('a', 'b');
CREATE DOMAIN pg_temp.td AS int;
CREATE TYPE pg_temp.tc AS (k int);
SET search_path = bound_owner, public, pg_temp;
CREATE TABLE temps (k int, e te, d td, ds td[]);
CREATE TABLE typed OF tc;
SELECT dc_create('ct');
SELECT dc_bind('ct', 'temps', 'k', filter => 'e = ''a''');
SELECT dc_bind('ct', 'temps', 'd');
SELECT dc_bind('ct', 'temps', 'k', filter => 'ds IS NULL');
SELECT dc_bind('ct', 'temps', 'k', filter => 'enum_larger(''a''::te, ''b''::te) IS NOT NULL');
SELECT dc_bind('ct', 'typed', 'k');
RESET client_min_messages;
SET search_path = bound_owner, public;

-- A binding that does not parse keeps nobody from dropping what is theirs
RESET ROLE;
CREATE SCHEMA other AUTHORIZATION bound_writer;
UPDATE dcounter.source SET filter = 'gone = 1' WHERE counter = 'c'::regclass;
SET ROLE bound_writer;
CREATE FUNCTION other.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN new; END $$;
CREATE TABLE other.t (a int, b int);
CREATE TYPE other.ty AS ENUM ('a');
CREATE TRIGGER f BEFORE INSERT ON other.t FOR EACH ROW EXECUTE FUNCTION other.f();
DROP TRIGGER f ON other.t;
ALTER TABLE other.t DROP COLUMN b;
DROP TABLE other.t CASCADE;
DROP TYPE other.ty;
RESET ROLE;
CREATE TYPE other.e AS ENUM ('a');
UPDATE dcounter.source SET filter = 'k::text = ''e'' AND at = ''2026-13-32''' WHERE counter = 'c'::regclass;
DROP TYPE other.e;
UPDATE dcounter.source SET filter = NULL WHERE counter = 'c'::regclass;
-- A schema that goes with a type
CREATE TYPE other.e AS ENUM ('a');
SELECT dc_create('c2');
SELECT dc_bind('c2', 'src', 'k', filter => 'enum_larger(''a''::other.e, NULL) IS NOT NULL', build => 'none');
DROP SCHEMA other;
DROP SCHEMA other CASCADE;
SELECT counter FROM dcounter.source WHERE source = 'src'::regclass ORDER BY counter::text;

-- Code on the reference counts cannot keep TRUNCATE from deleting them
SET ROLE bound_mallory;
CREATE TABLE fans (k int, fan text);
SELECT dc_create('d');
SELECT dc_bind('d', 'fans', 'k', distinct_of => 'fan', build => 'now');
INSERT INTO fans VALUES (1, 'a'), (1, 'b');
ALTER TABLE d_ref ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
TRUNCATE fans;
ALTER TABLE d_ref DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;
CREATE RULE r AS ON DELETE TO d_ref DO INSTEAD NOTHING;
TRUNCATE fans;
DROP RULE r ON d_ref;
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER t BEFORE DELETE ON d_ref FOR EACH ROW EXECUTE FUNCTION keep();
TRUNCATE fans;
DROP TRIGGER t ON d_ref;
SELECT key, item, n FROM d_ref ORDER BY 1, 2;
TRUNCATE fans;
SELECT count(*) FROM d_ref;
SELECT count(*) AS differences FROM dc_source_check('d');
-- Tables of a binding belong to the counter's owner: no code of another one runs as that
CREATE TABLE parts (id int PRIMARY KEY, k int) PARTITION BY RANGE (id);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
SELECT dc_create('kept');
SELECT dc_bind('kept', 'parts', 'k', on_detach => 'keep', build => 'now');
INSERT INTO parts VALUES (1, 1), (2, 1), (11, 1);
ALTER TABLE parts DETACH PARTITION parts1;
RESET ROLE;
GRANT USAGE, CREATE ON SCHEMA bound_owner TO bound_writer;
ALTER TABLE d_ref OWNER TO bound_writer;
ALTER TABLE kept_carried OWNER TO bound_writer;
SET ROLE bound_writer;
GRANT ALL ON d_ref, kept_carried TO bound_mallory;
CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'code of writer as %', current_user; RETURN new; END $$;
CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON d_ref FOR EACH ROW EXECUTE FUNCTION other();
CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON kept_carried FOR EACH ROW EXECUTE FUNCTION other();
SET ROLE bound_mallory;
INSERT INTO fans VALUES (2, 'a');
TRUNCATE fans;
ALTER TABLE parts DETACH PARTITION parts2;
RESET ROLE;
ALTER TABLE d_ref OWNER TO bound_mallory;
ALTER TABLE kept_carried OWNER TO bound_mallory;
DROP TRIGGER t ON d_ref;
DROP TRIGGER t ON kept_carried;
SET ROLE bound_mallory;
-- Nor can code keep carried amounts from being written
CREATE TRIGGER t BEFORE INSERT ON kept_carried FOR EACH ROW EXECUTE FUNCTION keep();
ALTER TABLE parts DETACH PARTITION parts2;
DROP TRIGGER t ON kept_carried;
ALTER TABLE kept_carried RENAME amount TO amounts;
ALTER TABLE parts DETACH PARTITION parts2;
ALTER TABLE kept_carried RENAME amounts TO amount;
ALTER TABLE parts DETACH PARTITION parts2;
INSERT INTO fans VALUES (2, 'a');
SELECT * FROM kept_carried;
SELECT count(*) AS differences FROM dc_source_check('kept');
RESET ROLE;

-- Bindings that do not parse can be ended one by one; meanwhile all changes fail, none goes uncounted
SET ROLE bound_mallory;
CREATE TABLE broken (id int, k int, other int);
SELECT dc_create('b1'), dc_create('b2'), dc_create('b3');
SELECT dc_bind('b1', 'broken', 'k', build => 'now'), dc_bind('b2', 'broken', 'k', build => 'now'), dc_bind('b3', 'broken', 'k', build => 'now');
INSERT INTO broken VALUES (1, 1, 1);
RESET ROLE;
UPDATE dcounter.source SET key = 'gone' WHERE counter = 'b1'::regclass;
UPDATE dcounter.source SET filter = 'k < ''one''' WHERE counter = 'b2'::regclass;
SET ROLE bound_mallory;
SELECT dc_unbind('b3');
SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'broken'::regclass AND tgname = 'dcounter_source_update';
UPDATE broken SET other = 2;
INSERT INTO broken VALUES (2, 1, 1);
DELETE FROM broken;
SELECT dc_unbind('b1');
UPDATE broken SET k = 2;
SELECT dc_drop('b2');
UPDATE broken SET k = 2;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'broken'::regclass;
RESET ROLE;

-- the columns of bindings that do not parse, and of the others, cannot be dropped or altered meanwhile
SET ROLE bound_mallory;
CREATE TABLE half (k int, other int, last int);
SELECT dc_create('h1'), dc_create('h2'), dc_create('h3');
SELECT dc_bind('h1', 'half', 'k', build => 'now'), dc_bind('h2', 'half', 'other', build => 'now');
RESET ROLE;
UPDATE dcounter.source SET filter = 'k < ''one''' WHERE counter = 'h1'::regclass;
SET ROLE bound_mallory;
SELECT dc_bind('h3', 'half', 'last', build => 'now');
SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'half'::regclass AND tgname = 'dcounter_source_update';
ALTER TABLE half DROP COLUMN other;
ALTER TABLE half ALTER COLUMN other TYPE bigint;
ALTER TABLE half DROP COLUMN k;
ALTER TABLE half DROP COLUMN k, ADD k int;
RESET ROLE;

-- Others get no locks on what is bound, whatever they rename, nor by maintaining what is theirs
SET ROLE bound_mallory;
CREATE TABLE plain (k int);
SELECT dc_create('pl');
SELECT dc_bind('pl', 'plain', 'k', build => 'now');
SET ROLE bound_writer;
CREATE TYPE k AS ENUM ('x');
CREATE TYPE "a""b" AS ENUM ('x');
PREPARE locks AS SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND (locktype = 'advisory' OR relation = 'plain'::regclass);
BEGIN;
ALTER TYPE k RENAME TO l;
EXECUTE locks;
ALTER TYPE "a""b" RENAME TO was_quoted;
EXECUTE locks;
CALL dc_maintain();
EXECUTE locks;
ROLLBACK;
DEALLOCATE locks;

-- A text is not too long because of what it was made of, but as it is stored: others read it
SET ROLE bound_mallory;
DO $$BEGIN EXECUTE format('CREATE TABLE wide (k int, %s)', (SELECT string_agg(format('%s int', rpad('c' || i, 60, '_')), ', ') FROM generate_series(1, 300) AS i)); END$$;
SELECT dc_create('wd');
SELECT dc_bind('wd', 'wide', 'k', filter => 'ROW(wide.*) IS NULL OR ROW(wide.*) IS NULL', build => 'now');
SELECT dc_bind('wd', 'wide', 'k', filter => 'ROW(wide.*) IS NULL', build => 'now');
RESET ROLE;

-- but that is no reason why another role could not rename what is theirs, though it becomes longer by that
SET ROLE bound_mallory;
CREATE TYPE mood AS ENUM ('a', 'b');
CREATE TABLE moods (k int, m mood);
SELECT dc_create('md');
DO $$BEGIN PERFORM dc_bind('md', 'moods', 'k', filter => format('m IN (%s)', (SELECT string_agg($a$'a'::mood$a$, ', ') FROM generate_series(1, 700))), build => 'now'); END$$;
SELECT length(filter) < 32768 AS is_short FROM dcounter.source WHERE counter = 'md'::regclass;
RESET ROLE;
ALTER TYPE mood RENAME TO a_mood_of_a_name_that_is_as_long_as_any;
SELECT length(filter) > 32768 AS is_longer FROM dcounter.source WHERE counter = 'md'::regclass;
INSERT INTO moods VALUES (1, 'a'), (1, 'b');
SELECT dc_get('md', '1');

-- Names of others in strings, and types that are called the same: such bindings are neither parsed, nor locked, nor kept in memory
CREATE SCHEMA bound_other AUTHORIZATION bound_mallory;
SET ROLE bound_mallory;
CREATE TYPE bound_other.flag AS ENUM ('x');
CREATE TABLE strings (k int, t text, f bound_other.flag);
SELECT dc_create('st' || i) FROM generate_series(1, 10) AS i;
SELECT dc_bind(('st' || i)::regclass, 'strings', 'k', filter => format($$t <> 'bound_owner.flag' AND t <> 'it''s "bound_owner"."flag"' AND f = 'x'::bound_other.flag AND k NOT IN (%s)$$,
	(SELECT string_agg(n::text, ', ') FROM generate_series(1, 1200) AS n)), build => 'now') FROM generate_series(1, 10) AS i;
RESET ROLE;
CREATE TYPE flag AS ENUM ('a', 'b');
PREPARE memory AS SELECT sum(total_bytes) AS bytes FROM pg_backend_memory_contexts WHERE name IN ('TopTransactionContext', 'CurTransactionContext');
BEGIN;
EXECUTE memory \gset before_
ALTER TYPE flag RENAME VALUE 'a' TO 'c';
ALTER TYPE flag RENAME TO flags;
ALTER TYPE flags SET SCHEMA public;
DROP TYPE public.flags;
CREATE TABLE flag (flag int);
ALTER TABLE flag RENAME flag TO flags;
DROP TABLE flag;
EXECUTE memory \gset after_
SELECT :after_bytes - :before_bytes < 65536 AS is_little;
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'strings'::regclass;
ROLLBACK;
DEALLOCATE memory;

-- Those that name it follow, whatever the names look like
CREATE SCHEMA "bound.1";
CREATE TYPE "bound.1"."t""2 'x" AS ENUM ('a', 'it''s');
CREATE COLLATION "bound.1"."c.2" FROM "C";
GRANT USAGE ON SCHEMA "bound.1" TO bound_mallory;
SET ROLE bound_mallory;
CREATE TABLE quoted ("k 'k" int, t text, f "bound.1"."t""2 'x");
SELECT dc_create('qu');
SELECT dc_bind('qu', 'quoted', '"k ''k"', filter => $$t <> 'it''s' AND f <> 'it''s'::"bound.1"."t""2 'x" AND t COLLATE "bound.1"."c.2" > ''$$, build => 'now');
RESET ROLE;
ALTER TYPE "bound.1"."t""2 'x" RENAME VALUE 'it''s' TO 'its';
ALTER TYPE "bound.1"."t""2 'x" RENAME TO t;
ALTER COLLATION "bound.1"."c.2" RENAME TO "C";
ALTER TABLE quoted RENAME "k 'k" TO "a.k";
ALTER SCHEMA "bound.1" RENAME TO bound_1;
SELECT key, filter FROM dcounter.source WHERE counter = 'qu'::regclass;
DROP TYPE bound_1.t;
INSERT INTO quoted VALUES (7, 'a', 'a');
SELECT dc_get('qu', 7);
SET client_min_messages = warning;
DROP SCHEMA bound_1 CASCADE;
SELECT count(*) FROM dcounter.source WHERE counter = 'qu'::regclass;
-- An operator of the owner's, over a function of the server's: it may become another one
SET ROLE bound_mallory;
CREATE TABLE operated (id int PRIMARY KEY, k text);
CREATE OPERATOR @#@ (FUNCTION = pg_catalog.num_nonnulls, RIGHTARG = "any");
CREATE OPERATOR @#@ (FUNCTION = pg_catalog.texteq, LEFTARG = text, RIGHTARG = text);
SELECT dc_create('opd');
SELECT dc_bind('opd', 'operated', 'k', filter => $$(@#@ '{x}') = 1$$);
SELECT dc_bind('opd', 'operated', 'k', filter => $$k @#@ 'a'$$);
SELECT dc_bind('opd', 'operated', 'k', filter => $$k @#@ ANY ('{a}')$$);
SELECT dc_bind('opd', 'operated', 'k', filter => $$k = 'a'$$);
RESET ROLE;
-- nor in what was stored before
UPDATE dcounter.source SET filter = format($$(OPERATOR(%I.@#@) '{x}') = 1$$, current_schema) WHERE counter = 'opd'::regclass;
SELECT filter FROM dcounter.source WHERE counter = 'opd'::regclass;
INSERT INTO operated VALUES (1, 'a');
UPDATE dcounter.source SET filter = format($$%I.f(k) = 1$$, current_schema) WHERE counter = 'opd'::regclass;
INSERT INTO operated VALUES (1, 'a');
UPDATE dcounter.source SET filter = $$k OPERATOR(pg_catalog.=) 'a'$$ WHERE counter = 'opd'::regclass;
INSERT INTO operated VALUES (1, 'a');
SELECT dc_get('opd', 'a');
-- the server makes JSON of an enum by a cast that its owner may create; a domain in an array without elements has a CHECK, too
SET ROLE bound_mallory;
CREATE TYPE operated_e AS ENUM ('a');
CREATE DOMAIN operated_d AS text CHECK (VALUE <> '');
ALTER TABLE operated ADD e operated_e, ADD es operated_e[];
SELECT dc_create('opd2');
SELECT dc_bind('opd2', 'operated', 'k, id', filter => $$ARRAY[]::operated_d[] IS NOT NULL$$);
SELECT dc_bind('opd2', 'operated', 'k, id');
RESET ROLE;
UPDATE dcounter.source SET key = 'k, e' WHERE counter = 'opd2'::regclass;
INSERT INTO operated VALUES (2, 'a', 'a');
UPDATE dcounter.source SET key = 'k, es' WHERE counter = 'opd2'::regclass;
INSERT INTO operated VALUES (2, 'a', 'a');
UPDATE dcounter.source SET key = 'k, id' WHERE counter = 'opd2'::regclass;
INSERT INTO operated VALUES (2, 'a', 'a');
SELECT dc_get('opd2', '["a", 2]');

DROP SCHEMA bound_other CASCADE;
SET client_min_messages = warning;
DROP SCHEMA bound_owner CASCADE;
DROP OWNED BY bound_mallory, bound_writer;
DROP ROLE bound_mallory, bound_writer;
