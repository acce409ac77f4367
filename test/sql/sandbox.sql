-- The owner of a counter table is not trusted by those who count in it: what the owner
-- puts on the tables runs as that owner, in a security-restricted operation. Nor is
-- the caller's search_path trusted. This session is a superuser's.
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE ROLE regress_dc_owner;
CREATE ROLE regress_dc_victim SUPERUSER;
CREATE SCHEMA regress_dc AUTHORIZATION regress_dc_owner;
GRANT ALL ON SCHEMA regress_dc TO regress_dc_owner;
SET ROLE regress_dc_owner;
SET search_path = regress_dc, public;
SELECT dc_create('c', totals => 'compacted'), dc_create('c2', partitions => 2);
CREATE TABLE seen (event text, who name, became text, path text, made_temp text);
-- Notes as whom it runs, and tries to get out
CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	became text := 'not';
	made_temp text := 'not';
BEGIN
	BEGIN
		SET ROLE regress_dc_victim;
		became := current_user;
	EXCEPTION WHEN OTHERS THEN became := SQLSTATE;
	END;
	BEGIN
		SET SESSION AUTHORIZATION regress_dc_victim;
		became := 'session ' || current_user;
	EXCEPTION WHEN OTHERS THEN became := became || ' ' || SQLSTATE;
	END;
	BEGIN
		CREATE TEMP TABLE trap (a int);
		made_temp := 'made';
	EXCEPTION WHEN OTHERS THEN made_temp := SQLSTATE;
	END;
	INSERT INTO regress_dc.seen VALUES (TG_TABLE_NAME || ' ' || lower(TG_OP) || ' ' || lower(TG_LEVEL), current_user, became, current_setting('search_path'), made_temp);
	RETURN COALESCE(NEW, OLD);
END $$;
CREATE TRIGGER spy BEFORE INSERT OR UPDATE OR DELETE ON c FOR EACH ROW EXECUTE FUNCTION spy();
CREATE TRIGGER spy AFTER INSERT OR UPDATE OR DELETE ON c_shard FOR EACH STATEMENT EXECUTE FUNCTION spy();
CREATE TRIGGER spy BEFORE INSERT OR UPDATE OR DELETE ON c2_shard FOR EACH ROW EXECUTE FUNCTION spy();
-- A check, an index expression and a default of the owner
CREATE FUNCTION spy_value(what text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_user <> 'regress_dc_owner' THEN RAISE WARNING 'escaped: % runs as %', what, current_user; END IF;
	IF current_setting('search_path') <> 'pg_catalog, pg_temp' THEN RAISE WARNING 'escaped: % has search_path %', what, current_setting('search_path'); END IF;
	RETURN true;
END $$;
SET search_path = pg_catalog, pg_temp;
ALTER TABLE regress_dc.c_shard ADD CHECK (regress_dc.spy_value('check ' || key));
ALTER TABLE regress_dc.c_shard ADD spied boolean DEFAULT regress_dc.spy_value('default');
CREATE INDEX ON regress_dc.c_shard (regress_dc.spy_value('index ' || key));
CREATE INDEX ON regress_dc.c (regress_dc.spy_value('index ' || key));
ALTER TABLE regress_dc.c ADD spied boolean GENERATED ALWAYS AS (regress_dc.spy_value('generated ' || key)) STORED;
RESET ROLE;
SET search_path = regress_dc, public;
-- The superuser counts, in all ways
SELECT current_user = 'regress_dc_owner', dc_incr('c', 'a', 5), dc_incr('c2', 'a', 5);
SELECT dc_incr('c', 'a');
BEGIN;
SELECT dc_incr('c', 'a'), dc_apply(), dc_incr('c', 'a'), dc_incr('c2', 'b');
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_incr('c', 'a');
COMMIT;
SELECT dc_get('c', 'a'), dc_get('c2', 'a'), dc_sum('c'), (SELECT value FROM dc_get_many('c', '{a}')), (dc_info('c', 'a')).value;
SELECT dc_set('c', 'b', 3), dc_compact('c') > 0, dc_compact('c2') > 0, dc_reset('c', 'a'), dc_delete('c', 'b'), dc_compact() >= 0;
SELECT regexp_replace(event, '_p\d', '_pN'), who, became, path, made_temp FROM seen GROUP BY 1, 2, 3, 4, 5 ORDER BY 1 COLLATE "C", 2;
SELECT current_user = session_user, current_setting('search_path'), to_regclass('pg_temp.trap');
-- A deferred trigger would run at commit, as the superuser: refused
DROP TRIGGER spy ON c_shard;
TRUNCATE seen;
SET ROLE regress_dc_owner;
CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON c_shard DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION spy();
RESET ROLE;
BEGIN;
SELECT dc_incr('c', 'late'), dc_apply();
COMMIT;
SELECT dc_incr('c', 'late');
SELECT dc_get('c', 'late'), (SELECT count(*) FROM seen);
DROP TRIGGER late ON c_shard;
SELECT dc_incr('c', 'late');
SELECT dc_get('c', 'late');
-- A hidden increment: code of the owner cannot count in the victim's name either
SET ROLE regress_dc_owner;
CREATE FUNCTION nest() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.dc_incr('regress_dc.c2', 'nested'); RETURN NEW; END $$;
CREATE TRIGGER nest BEFORE INSERT OR UPDATE ON c_shard FOR EACH ROW EXECUTE FUNCTION nest();
RESET ROLE;
SELECT dc_incr('c', 'nest');
SELECT dc_get('c', 'nest'), dc_get('c2', 'nested');
DROP TRIGGER nest ON c_shard;

-- Names planted in front of the system's own, in the path of the caller
CREATE SCHEMA regress_dc_evil;
SET search_path = regress_dc_evil, pg_catalog, regress_dc, public;
CREATE FUNCTION evil() RETURNS void LANGUAGE plpgsql VOLATILE AS $$ BEGIN RAISE 'evil ran as %', CASE current_user WHEN session_user THEN 'the superuser' ELSE current_user END; END $$;
CREATE FUNCTION add(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc_evil.evil(); RETURN 666; END $$;
CREATE FUNCTION cmp_text(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc_evil.evil(); RETURN true; END $$;
CREATE FUNCTION cmp_int(int, int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc_evil.evil(); RETURN true; END $$;
CREATE FUNCTION cmp_bigint(int, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc_evil.evil(); RETURN true; END $$;
CREATE FUNCTION cmp_oid(oid, regclass) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc_evil.evil(); RETURN true; END $$;
CREATE FUNCTION sub_numeric(numeric, numeric) RETURNS numeric LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc_evil.evil(); RETURN 666; END $$;
CREATE OPERATOR + (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = add);
CREATE OPERATOR - (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = add);
CREATE OPERATOR - (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = sub_numeric);
CREATE OPERATOR = (LEFTARG = text, RIGHTARG = text, FUNCTION = cmp_text);
CREATE OPERATOR > (LEFTARG = text, RIGHTARG = text, FUNCTION = cmp_text);
CREATE OPERATOR = (LEFTARG = int, RIGHTARG = int, FUNCTION = cmp_int);
CREATE OPERATOR > (LEFTARG = int, RIGHTARG = int, FUNCTION = cmp_int);
CREATE OPERATOR > (LEFTARG = int, RIGHTARG = bigint, FUNCTION = cmp_bigint);
CREATE OPERATOR = (LEFTARG = oid, RIGHTARG = regclass, FUNCTION = cmp_oid);
CREATE FUNCTION hashint4extended(int, bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc_evil.evil(); RETURN 1; END $$;
CREATE FUNCTION now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc_evil.evil(); END $$;
CREATE FUNCTION unnest(text[], bigint[], bigint[]) RETURNS SETOF record LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc_evil.evil(); END $$;
CREATE FUNCTION unnest(text[], int[]) RETURNS SETOF record LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc_evil.evil(); END $$;
CREATE FUNCTION pg_event_trigger_dropped_objects(OUT objid oid) RETURNS SETOF oid LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc_evil.evil(); END $$;
CREATE FUNCTION pg_event_trigger_ddl_commands(OUT objid oid) RETURNS SETOF oid LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_dc_evil.evil(); END $$;
CREATE DOMAIN text AS pg_catalog.text CHECK (VALUE = 'evil');
CREATE DOMAIN int8 AS pg_catalog.int8 CHECK (VALUE = 666);
CREATE TABLE pg_class (a int);
-- In a session whose plans are all new
\connect -
SET client_min_messages = warning;
\set VERBOSITY terse
SET search_path = regress_dc_evil, pg_catalog, regress_dc, public;
SELECT 1::bigint + 1::bigint;
SELECT dc_create('regress_dc.fresh', totals => 'compacted'), dc_create('regress_dc.fresh8', partitions => 8);
DROP TRIGGER spy ON c;
SELECT dc_incr(r, 'a', 5), dc_incr(r, 'b') FROM pg_catalog.unnest(ARRAY['c', 'c2', 'fresh', 'fresh8']::regclass[]) r;
BEGIN;
SELECT dc_incr(r, 'a'), dc_apply(), dc_incr(r, 'a') FROM pg_catalog.unnest(ARRAY['c', 'c2', 'fresh', 'fresh8']::regclass[]) r;
COMMIT;
SELECT r, dc_get(r, 'a'), (dc_info(r, 'b')).value, dc_sum(r), dc_set(r, 'b', 9), dc_compact(r), dc_reset(r, 'a'), dc_delete(r, 'b') FROM pg_catalog.unnest(ARRAY['c', 'c2', 'fresh', 'fresh8']::regclass[]) r;
SELECT value FROM dc_get_many('fresh', '{a,b}');
ALTER TABLE regress_dc.fresh RENAME TO renamed;
SELECT to_regclass('regress_dc.renamed_shard');
DROP TABLE regress_dc.renamed;
SELECT to_regclass('regress_dc.renamed_shard');
SELECT dc_drop('fresh8'), dc_drop('c'), dc_drop('c2');
-- Nor does it decide when the constraints of others are checked
CREATE FUNCTION regress_dc.put_off() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		SET CONSTRAINTS ALL IMMEDIATE;
	EXCEPTION WHEN OTHERS THEN RAISE WARNING '%', SQLERRM;
	END;
	SET CONSTRAINTS ALL DEFERRED;
	RETURN NEW;
EXCEPTION WHEN OTHERS THEN
	RAISE WARNING '%', SQLERRM;
	RETURN NEW;
END $$;
CREATE FUNCTION regress_dc.later() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE WARNING 'deferred trigger as %', current_user; RETURN NULL; END$$;
SELECT dc_create('public.put_off');
ALTER TABLE public.put_off OWNER TO regress_dc_owner;
CREATE TRIGGER put_off BEFORE INSERT OR UPDATE ON public.put_off_shard FOR EACH ROW EXECUTE FUNCTION regress_dc.put_off();
CREATE TABLE public.mine (i int UNIQUE DEFERRABLE);
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON public.mine DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION regress_dc.later();
SET ROLE regress_dc_victim;
BEGIN;
INSERT INTO public.mine VALUES (1);
SELECT dc_incr('public.put_off', 'a'), dc_apply();
SAVEPOINT s;
INSERT INTO public.mine VALUES (1);
ROLLBACK TO s;
COMMIT;
RESET ROLE;
SELECT dc_drop('public.put_off');
DROP TABLE public.mine;
-- Schemas that change their names under a session that has its plans
RESET search_path;
SET search_path = pg_catalog, public;
CREATE SCHEMA regress_dc_one;
CREATE SCHEMA regress_dc_two;
SELECT dc_create('regress_dc_one.t'), dc_create('regress_dc_two.t');
CREATE FUNCTION regress_dc.as_whom() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN RAISE WARNING 'table % of the other one', tg_table_name; RETURN NEW; END $$;
CREATE TRIGGER w BEFORE INSERT OR UPDATE ON regress_dc_two.t FOR EACH ROW EXECUTE FUNCTION regress_dc.as_whom();
CREATE TRIGGER w BEFORE INSERT OR UPDATE OR DELETE ON regress_dc_two.t_shard FOR EACH ROW EXECUTE FUNCTION regress_dc.as_whom();
SELECT 'regress_dc_one.t'::regclass::oid AS one \gset
SELECT dc_incr(:one, 'a'), dc_apply();
SELECT dc_set(:one, 'a', 5), dc_compact(:one), dc_get(:one, 'a');
ALTER SCHEMA regress_dc_one RENAME TO regress_dc_other;
ALTER SCHEMA regress_dc_two RENAME TO regress_dc_one;
SELECT dc_incr(:one, 'a'), dc_apply();
SELECT dc_set(:one, 'a', 7), dc_compact(:one), dc_get(:one, 'a');
SELECT (SELECT count(*) FROM regress_dc_one.t_shard), (SELECT count(*) FROM regress_dc_other.t_shard);
SELECT dc_drop('regress_dc_one.t'), dc_drop('regress_dc_other.t');
DROP SCHEMA regress_dc_one, regress_dc_other;
DROP SCHEMA regress_dc_evil CASCADE;
DROP SCHEMA regress_dc CASCADE;
DROP ROLE regress_dc_owner, regress_dc_victim;
