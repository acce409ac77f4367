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

SET client_min_messages = warning;
DROP SCHEMA bound_owner CASCADE;
DROP ROLE bound_mallory, bound_writer;
