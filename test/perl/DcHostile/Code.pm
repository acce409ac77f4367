# mallory's means of attack: functions that choose a random statement against its own tables, and
# the code that it puts on them, which chooses its action each time that it is run. All of it must
# run as mallory, whichever role triggers it.
#
# m.some_ddl() and m.some_dml() return a statement, so that a session can run it alone
# (\gexec), and the hostile code from within any other. They take a table to aim at.
package DcHostile::Code;

use strict;
use warnings;

use DcHostile::Ddl;
use Exporter 'import';

our @EXPORT = qw(hostile_code);

# Values that are odd as another type, too: bytes that look like the header of a long, a
# compressed or an external value, addresses, the ends of ranges
my $values = q{
	CREATE FUNCTION m.some(VARIADIC list text[]) RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT list[1 + floor(random() * cardinality(list))::int] $$;
	CREATE FUNCTION m.junk(type regtype) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
	BEGIN
		RETURN CASE WHEN random() < 0.15 THEN 'NULL'
			ELSE CASE type::text
				WHEN 'bigint' THEN m.some('0', '1', '-1', '7', '1000', '9223372036854775807', '(-9223372036854775808)', '4702111234474983745', '140737488355328')
				WHEN 'integer' THEN m.some('0', '1', '-1', '2147483647', '1094795585')
				WHEN 'smallint' THEN m.some('0', '1', '2', '3', '-1', '32767')
				WHEN 'uuid' THEN m.some('gen_random_uuid()', quote_literal('01024141-4141-4141-4141-414141414141'), quote_literal('01124141-4141-4141-4141-414141414141'),
					quote_literal('00ffffff-4141-4141-4141-414141414141'), quote_literal('02ffff7f-0000-0000-0000-000000000000'))
				WHEN 'timestamp with time zone' THEN m.some('now()', 'now() - interval ''1 hour''', 'now() + interval ''1 hour''', '''infinity''', '''-infinity''', '''294270-01-01''', '''4000-01-01 BC''')
				WHEN 'interval' THEN m.some('''1 hour''', '''-1 hour''', '''178000000 years''', '''0''')
				WHEN 'bigint[]' THEN m.some('''{}''', '''{1}''', '''{1,2}''', '''{7,-1}''', '''{NULL}''', '''{1,2,3,4,5,6,7}''', '''{{1,2},{3,4}}''', '''[5:6]={1,2}''', '''{9223372036854775807,1}''', 'array_fill(1::bigint, ''{3000}'')')
				WHEN 'text[]' THEN m.some('''{}''', '''{k1}''', '''{k1,k2}''', '''{k1,k1}''', '''{NULL}''', '''{{k1,k2},{k3,k4}}''', '''[5:6]={k1,k2}''', 'ARRAY[repeat(''x'', 5000)]', 'array_fill(''k1''::text, ''{3000}'')')
				WHEN 'jsonb' THEN m.some('''{}''', '''null''', '''[1, 2]''')
				ELSE m.some('''k1''', '''k2''', '''k3''', '''k4''', '''aaaa''', '''open''', '''open''', '''expired''', '''confirmed''', '''posted''', '''nonsense''', '''''', 'repeat(''x'', 900)', 'repeat(''x'', 5000)',
					'E''\x01\x02AAAAAAAA''', 'E''\x01\x12AAAAAAAAAAAAAAAA''', 'E''\x7f\x7f\x7f\x7fAAAA''', '''-''', '''+''')
			END END;
	END $$;
};

# m.room: which tables are mallory's to alter. m.target(): one of these, or of what belongs
# to a table that is given
my $tables = q{
	-- rooms of this round
	CREATE TABLE m.focus (room text);
	CREATE FUNCTION m.targets() RETURNS TABLE (rel oid, room text) LANGUAGE sql VOLATILE AS $$
		SELECT c.oid, substring(relname FROM '^[a-z]{3}') FROM pg_catalog.pg_class AS c
		WHERE relowner IN ('mallory'::regrole, 'moll'::regrole) AND relnamespace IN ('m'::regnamespace, 'm2'::regnamespace) AND relkind IN ('r', 'p')
			AND relname ~ '^(cnt|buf|par|hsh|onc|rep|rst|stk|led|mon|bnd|unr|trd|rnk|win|dis|idl|bud)(_|$)'
	$$;
	CREATE FUNCTION m.target(near oid) RETURNS oid LANGUAGE plpgsql VOLATILE AS $$
	DECLARE
		found oid;
		-- the table itself; one of its room; any
		chance float8 := random();
		wanted text := (SELECT t.room FROM m.targets() AS t WHERE t.rel = near);
	BEGIN
		IF wanted IS NOT NULL AND chance < 0.5 THEN
			RETURN near;
		END IF;
		IF wanted IS NULL OR chance > 0.97 THEN
			wanted := (SELECT f.room FROM m.focus AS f ORDER BY random() LIMIT 1);
		END IF;
		SELECT t.rel INTO found FROM m.targets() AS t WHERE t.room = wanted ORDER BY random() LIMIT 1;
		RETURN found;
	END $$;
};

# m.expand(): a template of DcHostile::Ddl with the names of the moment
my $ddl = q{
	CREATE TABLE m.template (kind text, grp text, weight float8, sql text);
	CREATE TABLE m.type (name text, as_that text);
	CREATE FUNCTION m.expand(template text, t oid) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
	DECLARE
		sql text := template;
		a record; b record; y record;
		words text[] := ARRAY(SELECT quote_ident(attname) FROM pg_catalog.pg_attribute WHERE attrelid = t AND attnum > 0 AND atttypid IN ('text'::regtype, 'name'::regtype));
	BEGIN
		SELECT attname AS name, atttypid::regtype AS type INTO a FROM pg_catalog.pg_attribute WHERE attrelid = t AND attnum > 0 AND NOT attisdropped ORDER BY random() LIMIT 1;
		SELECT attname AS name, atttypid::regtype AS type INTO b FROM pg_catalog.pg_attribute WHERE attrelid = t AND attnum > 0 AND NOT attisdropped AND attname <> a.name ORDER BY random() LIMIT 1;
		SELECT name, replace(as_that, '%', quote_ident(a.name)) AS made INTO y FROM m.type ORDER BY random() LIMIT 1;
		sql := replace(sql, '%column', coalesce(quote_ident(a.name), 'key'));
		sql := replace(sql, '%other', coalesce(quote_ident(b.name), 'inc'));
		sql := replace(sql, '%junk', coalesce(m.junk(a.type), 'NULL'));
		sql := replace(sql, '%text', coalesce(m.some(VARIADIC words), 'key'));
		sql := replace(sql, '%type', y.name);
		sql := replace(sql, '%using', y.made);
		sql := replace(sql, '%literal', quote_literal(t::regclass::text));
		sql := replace(sql, '%bare', (SELECT relname FROM pg_catalog.pg_class WHERE oid = t));
		sql := replace(sql, '%room', coalesce((SELECT m.some(VARIADIC array_agg(counter::text)) FROM dcounter.counter WHERE counter IN (SELECT rel FROM m.targets() WHERE room = (SELECT room FROM m.targets() WHERE rel = t))), 'm.cnt'));
		sql := replace(sql, '%table2', (SELECT rel FROM m.targets() ORDER BY random() LIMIT 1)::regclass::text);
		sql := replace(sql, '%table', t::regclass::text);
		sql := replace(sql, '%part', coalesce((SELECT inhrelid::regclass::text FROM pg_catalog.pg_inherits WHERE inhparent = t ORDER BY random() LIMIT 1), 'm.none'));
		sql := replace(sql, '%child', coalesce((SELECT rel::regclass::text FROM m.child AS c, pg_catalog.to_regclass(c.name) AS rel WHERE rel IS NOT NULL ORDER BY random() LIMIT 1), 'm.none'));
		sql := replace(sql, '%pkey', coalesce((SELECT quote_ident(conname) FROM pg_catalog.pg_constraint WHERE conrelid = t AND contype = 'p'), 'none'));
		sql := replace(sql, '%constraint', coalesce((SELECT quote_ident(conname) FROM pg_catalog.pg_constraint WHERE conrelid = t ORDER BY random() LIMIT 1), 'none'));
		sql := replace(sql, '%index', coalesce((SELECT indexrelid::regclass::text FROM pg_catalog.pg_index WHERE indrelid = t ORDER BY random() LIMIT 1), 'm.none'));
		sql := replace(sql, '%trigger', coalesce((SELECT quote_ident(tgname) FROM pg_catalog.pg_trigger WHERE tgrelid = t AND NOT tgisinternal ORDER BY random() LIMIT 1), 'none'));
		sql := replace(sql, '%new', 'x' || floor(random() * 1e9)::bigint);
		RETURN sql;
	END $$;
	-- Before PostgreSQL 16 the server calls some code as a superuser when rows come by a subscription: what is said of
	-- such owners in src/region/trust.c. Tables that rows come to are spared that, and what takes dcounter's trigger
	-- away, which keeps the server from calling the rest.
	CREATE FUNCTION m.tame(sql text, t oid) RETURNS text LANGUAGE sql VOLATILE AS $$
		SELECT CASE WHEN current_setting('server_version_num')::int < 160000 AND sql ~* 'ENABLE (ALWAYS|REPLICA)|(DISABLE|DROP) TRIGGER|TRIGGER USER|DEFAULT m\.|m\.(dom|num|comp)'
			AND (EXISTS (SELECT FROM dcounter.counter WHERE t IN (regions, sets, grants, wants)) OR EXISTS (SELECT FROM pg_catalog.pg_subscription_rel WHERE srrelid = t)) THEN 'SELECT 1' ELSE sql END
	$$;
	-- kind: of DcHostile::Ddl. NULL: any that can be run in a function
	CREATE FUNCTION m.some_ddl(near oid, wanted text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
	DECLARE
		template text := (SELECT sql FROM m.template WHERE kind = wanted OR wanted IS NULL AND kind <> 'alone' ORDER BY -ln(1 - random()) / weight LIMIT 1);
		t oid := m.target(near);
	BEGIN
		RETURN coalesce(m.tame(m.expand(template, t), t), 'SELECT 1');
	END $$;
	CREATE FUNCTION m.some_dml(near oid) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
	DECLARE
		t oid := m.target(near);
		name text := t::regclass::text;
		sql text;
		cols text := (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_catalog.pg_attribute WHERE attrelid = t AND attnum > 0 AND NOT attisdropped AND attgenerated = '');
		vals text := (SELECT string_agg(m.junk(atttypid), ', ' ORDER BY attnum) FROM pg_catalog.pg_attribute WHERE attrelid = t AND attnum > 0 AND NOT attisdropped AND attgenerated = '');
	BEGIN
		sql := CASE floor(random() * 9)
			WHEN 0 THEN m.expand('UPDATE %table SET %column = %junk WHERE random() < 0.5', t)
			WHEN 1 THEN m.expand('UPDATE %table SET %column = %junk', t)
			WHEN 2 THEN m.expand('DELETE FROM %table WHERE random() < 0.3', t)
			WHEN 3 THEN format('INSERT INTO %s (%s) SELECT %s FROM %s', name, cols, cols, name)
			WHEN 4 THEN m.expand('SELECT FROM %table FOR UPDATE', t)
			ELSE format('INSERT INTO %s (%s) VALUES (%s)', name, cols, vals) END;
		-- as the guard of a ledger would have it
		IF name ~ '(led|mon)' AND random() < 0.8 THEN
			sql := format('ALTER TABLE %s DISABLE TRIGGER USER; %s; ALTER TABLE %s ENABLE TRIGGER USER', name, sql, name);
		END IF;
		RETURN coalesce(sql, 'SELECT 1');
	END $$;
};

# m.hostile(): the action of the code on the tables. Its arguments say where the code is and on
# which table. Statements of one call may fail, and most of them do.
my $hostile = q{
	CREATE TABLE m.child (name text);
	CREATE TABLE m.action (name text, weight float8);
	CREATE TABLE m.call (room text, sql text);
	CREATE TABLE m.forbidden (sql text);
	CREATE TABLE m.setting (sql text);

	-- for rows of its sources. The server would fire deferred triggers as whoever commits. What its
	-- code leaves in the session, called in this way, is the caller's own doing
	CREATE FUNCTION m.write(statement text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
	DECLARE
		before text := coalesce(current_setting('m.direct', true), '');
	BEGIN
		PERFORM set_config('m.direct', 'on', true);
		EXECUTE statement;
		SET CONSTRAINTS ALL IMMEDIATE;
		PERFORM set_config('m.direct', before, true);
	END $$;
	CREATE FUNCTION m.some_call(wanted text) RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT sql FROM m.call WHERE room = wanted ORDER BY random() LIMIT 1 $$;
	-- Calls one after the other, each in a transaction of its own, without a client in between
	CREATE PROCEDURE m.calls(wanted text, n int) LANGUAGE plpgsql AS $$
	DECLARE
		call text;
		context text;
	BEGIN
		FOR i IN 1 .. n LOOP
			call := m.some_call(wanted);
			BEGIN
				EXECUTE call;
				IF random() < 0.3 THEN
					PERFORM public.dc_apply();
				END IF;
			EXCEPTION WHEN OTHERS THEN
				IF SQLSTATE LIKE 'XX%' AND SQLERRM NOT LIKE 'hostile%' THEN
					GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
					RAISE WARNING '% in % (%)', SQLERRM, call, context USING ERRCODE = SQLSTATE;
				END IF;
			END;
			IF random() < 0.6 THEN
				COMMIT;
			END IF;
		END LOOP;
	END $$;
	-- A room as it should be; then a few alterations, since most of them leave tables that cannot
	-- be used any more
	CREATE PROCEDURE m.campaign(room text, parts text[]) LANGUAGE plpgsql AS $$
	DECLARE
		near oid;
	BEGIN
		IF random() < 0.9 THEN
			PERFORM m.reset(room);
			COMMIT;
		END IF;
		FOR i IN 1 .. 1 + floor(3 * random() * random()) LOOP
			near := to_regclass(format('m.%s%s', room, m.some(VARIADIC parts)));
			BEGIN
				EXECUTE CASE floor(random() * 8) WHEN 0 THEN m.some_dml(near) WHEN 1 THEN m.some_ddl(near, NULL) WHEN 2 THEN m.some_ddl(near, 'code') WHEN 3 THEN m.some_ddl(near, 'code') ELSE m.some_ddl(near, 'shape') END;
			EXCEPTION WHEN OTHERS THEN
				CONTINUE WHEN random() < 0.7;
			END;
			COMMIT;
			CALL m.calls(room, 6);
		END LOOP;
	END $$;

	-- No other role may be acted as. What is found goes to the server log, from where no
	-- rollback takes it away.
	CREATE FUNCTION m.who(hook text, what text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
	BEGIN
		IF current_user NOT IN ('mallory', 'moll') THEN
			RAISE LOG 'BREACH: % runs as %, in a session of % (%): %', hook, current_user, session_user, current_setting('application_name'), what;
		END IF;
	END $$;
	CREATE FUNCTION m.try(hook text, near oid, statement text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
	BEGIN
		EXECUTE statement;
	EXCEPTION WHEN OTHERS THEN
		-- nobody else would hear of it
		IF SQLSTATE LIKE 'XX%' AND SQLERRM NOT LIKE 'hostile%' THEN
			RAISE LOG 'CAUGHT %: % (%) in %', SQLSTATE, SQLERRM, hook, statement;
		END IF;
	END $$;
	-- until a time, whoever cancels
	CREATE FUNCTION m.sleep(seconds float8) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
	BEGIN
		LOOP
			BEGIN
				EXIT WHEN clock_timestamp() > statement_timestamp() + seconds * interval '1 s';
				PERFORM pg_sleep(least(seconds, 1));
			EXCEPTION WHEN query_canceled THEN
				NULL;
			END;
		END LOOP;
	END $$;

	CREATE FUNCTION m.hostile(hook text, near oid) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
	DECLARE
		act text;
		depth int := coalesce(nullif(current_setting('m.depth', true), ''), '0');
		sql text;
		context text;
		cur refcursor; r record;
	BEGIN
		GET DIAGNOSTICS context = PG_CONTEXT;
		PERFORM m.who(hook, 'at once');
		IF depth >= 2 OR random() < 0.45 THEN
			RETURN;
		END IF;
		PERFORM set_config('m.depth', (depth + 1)::text, true);
		-- assertions of the server's own do not expect that an expression of an index changes the
		-- row that is being inserted
		act := (SELECT name FROM m.action WHERE NOT (hook IN ('condition', 'expression') AND name IN ('dml', 'subtransactions', 'call', 'cursor') AND current_setting('debug_assertions') = 'on')
			-- the server cannot decode a transaction, ever, that writes between the two halves of a speculative insertion
			-- (XX000, "invalid ordering of speculative insertion changes"). That takes no more than plain SQL
			AND NOT (hook IN ('condition', 'expression') AND name IN ('ddl', 'dml', 'subtransactions', 'call', 'odd') AND context ~ 'ON CONFLICT')
			AND NOT (name IN ('cursor', 'held cursor', 'setting', 'odd') AND coalesce(current_setting('m.direct', true), '') = 'on')
			ORDER BY -ln(1 - random()) / weight LIMIT 1);
		CASE act
			WHEN 'ddl' THEN
				PERFORM m.try(hook, near, m.some_ddl(near, CASE WHEN random() < 0.6 THEN 'shape' END));
			WHEN 'dml' THEN
				PERFORM m.try(hook, near, m.some_dml(near));
			WHEN 'call' THEN
				PERFORM m.try(hook, near, m.some_call((SELECT room FROM m.targets() WHERE rel = near)));
			WHEN 'cursor' THEN
				BEGIN
					cur := m.some('left', 'left2', 'left3');
					OPEN cur FOR EXECUTE m.some('SELECT g FROM generate_series(1, 20000) AS g', format('SELECT * FROM %s', near::regclass), format('SELECT * FROM %s FOR UPDATE', near::regclass));
					FETCH cur INTO r;
				EXCEPTION WHEN duplicate_cursor THEN
					CLOSE cur;
				END;
			WHEN 'held cursor' THEN
				PERFORM m.try(hook, near, m.some('DECLARE left4 CURSOR WITH HOLD FOR SELECT 1', 'DECLARE left5 NO SCROLL CURSOR FOR SELECT 1', 'CLOSE ALL', 'MOVE ALL IN "left"', 'CLOSE "left"'));
			WHEN 'sleep' THEN
				-- those who use its tables have to wait for it, but others must not
				PERFORM m.sleep(CASE WHEN current_setting('application_name') ~ 'dcounter' THEN 300 WHEN current_setting('application_name') = 'monitor' THEN 20 ELSE random() END);
			WHEN 'error' THEN
				RAISE EXCEPTION 'hostile' USING ERRCODE = m.some('P0001', '40001', '40P01', '57014', '55P03', '23505', '42P01', '22003', '53200', 'XX000', '0A000', '57P01');
			WHEN 'subtransactions' THEN
				FOR i IN 1 .. 3 LOOP
					BEGIN
						PERFORM m.try(hook, near, m.some_dml(near));
						IF random() < 0.5 THEN
							RAISE division_by_zero;
						END IF;
					EXCEPTION WHEN division_by_zero THEN
						NULL;
					END;
				END LOOP;
			WHEN 'setting' THEN
				PERFORM m.try(hook, near, (SELECT s.sql FROM m.setting AS s ORDER BY random() LIMIT 1));
			WHEN 'forbidden' THEN
				IF session_user <> 'mallory' THEN
					sql := (SELECT f.sql FROM m.forbidden AS f ORDER BY random() LIMIT 1);
					BEGIN
						EXECUTE sql;
						PERFORM m.who(hook, sql);
						RAISE LOG 'BREACH: % in a session of % (%) may %', hook, session_user, current_setting('application_name'), sql;
					EXCEPTION WHEN OTHERS THEN
						PERFORM m.who(hook, sql);
					END;
				END IF;
			WHEN 'odd' THEN
				PERFORM m.try(hook, near, m.some('NOTIFY mallory, ''x''', 'LISTEN mallory', 'CREATE TEMP TABLE counter (a int) ON COMMIT DROP', 'COMMIT', 'ROLLBACK', 'PREPARE p AS SELECT 1', 'DEALLOCATE ALL',
					'DISCARD PLANS', 'DISCARD ALL', 'SELECT lo_create(0)', 'SET CONSTRAINTS ALL DEFERRED', 'SET CONSTRAINTS ALL IMMEDIATE', 'SELECT pg_advisory_lock(1)', 'SELECT pg_advisory_xact_lock(2, 3)',
					'LOCK ' || near::regclass || ' IN ACCESS EXCLUSIVE MODE', 'SAVEPOINT s', 'SELECT pg_terminate_backend(0)', 'DO $d$ BEGIN COMMIT; END $d$', 'ANALYZE ' || near::regclass));
			ELSE NULL;
		END CASE;
		PERFORM set_config('m.depth', depth::text, true);
	END $$;
};

# Where it can be put
my $hooks = q{
	CREATE FUNCTION m.h_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM m.hostile(concat_ws(' ', TG_WHEN, TG_LEVEL, TG_OP, TG_RELID::regclass), TG_RELID);
		RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
	END $$;
	-- changes the row, or suppresses the change
	CREATE FUNCTION m.h_change() RETURNS trigger LANGUAGE plpgsql AS $$
	DECLARE
		c record;
	BEGIN
		PERFORM m.hostile(concat_ws(' ', TG_WHEN, TG_LEVEL, TG_OP, TG_RELID::regclass), TG_RELID);
		IF TG_OP = 'DELETE' OR TG_LEVEL = 'STATEMENT' OR random() < 0.5 THEN
			RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
		END IF;
		IF random() < 0.2 THEN
			RETURN NULL;
		END IF;
		SELECT attname AS name, atttypid AS type INTO c FROM pg_catalog.pg_attribute WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY random() LIMIT 1;
		BEGIN
			EXECUTE format('SELECT jsonb_build_object(%L, %s)', c.name, m.junk(c.type)) INTO c;
			NEW := jsonb_populate_record(NEW, c.jsonb_build_object);
		EXCEPTION WHEN OTHERS THEN
			NULL;
		END;
		RETURN NEW;
	END $$;
	-- for indexes, constraints and the like, which take what is said to be immutable
	CREATE FUNCTION m.h_true(t text, v anyelement) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.hostile('condition', to_regclass(t)); RETURN true; END $$;
	CREATE FUNCTION m.h_text(t text, v anyelement) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.hostile('expression', to_regclass(t)); RETURN left(v::text, 100); END $$;
	CREATE FUNCTION m.h_now(t text) RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$ BEGIN PERFORM m.hostile('default', to_regclass(t)); RETURN now(); END $$;
	CREATE TYPE m.comp AS (a text, b int);
	CREATE TYPE m.state AS ENUM ('open', 'confirmed', 'posted', 'k1', 'k2');
	CREATE DOMAIN m.dom AS text CHECK (m.h_true('m.cnt', VALUE));
	CREATE DOMAIN m.num AS bigint CHECK (m.h_true('m.cnt_shard', VALUE::text));
	CREATE FUNCTION m.comp_text(c m.comp) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.hostile('cast', 'm.cnt'::regclass); RETURN c.a; END $$;
	CREATE CAST (m.comp AS text) WITH FUNCTION m.comp_text(m.comp) AS IMPLICIT;
	CREATE FUNCTION m.same(m.comp, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.hostile('operator', 'm.cnt'::regclass); RETURN true; END $$;
	CREATE OPERATOR m.= (LEFTARG = m.comp, RIGHTARG = text, FUNCTION = m.same);
};

my @forbidden = (
	'SELECT count(*) FROM a.log', q{UPDATE a.cnt SET inc = inc + 1}, q{DELETE FROM a.stk_hold}, q{SELECT public.dc_incr('a.cnt', 'k1')}, q{SELECT public.dc_get('a.cnt', 'k1')},
	q{SELECT public.dc_set('a.buf', 'k1', 0)}, q{SELECT public.dc_compact('a.cnt')}, q{SELECT public.dc_flush('a.buf')}, q{SELECT public.dc_drop('a.cnt')},
	q{SELECT public.dc_alter('a.cnt', max_shards => 1)}, q{SELECT public.dc_transfer('a.led', 'a1', 'a2', 1, 'x')}, q{SELECT public.dc_hold_release('a.stk', hold_id) FROM a.stk_hold},
	q{SELECT public.dc_mark_read('a.unr_seen', 'x', 'k1')}, q{SELECT public.dc_unread('a.unr_seen', 'x', '{k1}')}, q{SELECT public.dc_unread_drop('a.unr_seen')}, q{SELECT public.dc_unread_create('m.forged', 'a.unr')},
	q{SELECT public.dc_unread_adopt('a.unr_seen', 'm.unr')}, q{SELECT public.dc_unread_adopt('m.unr_seen', 'a.unr')}, q{DELETE FROM dcounter.unread},
	q{SELECT public.dc_grant('a.bud', 'k1', 1, 'x')}, q{SELECT public.dc_allowance('a.bud', 'k1', 1, '1 month')}, q{SELECT public.dc_reserve('a.bud', 'k1', 1, gen_random_uuid())}, q{SELECT public.dc_settle('a.bud', gen_random_uuid(), 1)}, q{SELECT public.dc_budget('a.bud', 'k1')},
	q{SELECT public.dc_budget_check('a.bud')}, q{SELECT public.dc_budget_adopt('a.bud')}, q{SELECT public.dc_take('a.bud_pool', '1')}, q{UPDATE a.bud SET amount = 0}, q{DELETE FROM a.bud_reservation}, q{DELETE FROM dcounter.budget}, q{UPDATE dcounter.budget SET pool = 'm.bud_pool'},
	q{SELECT public.dc_incr_at('a.win', 'k1')}, q{SELECT public.dc_window('a.win', 'k1', '1 day')}, q{SELECT public.dc_top_window('a.win', '1 day')}, q{SELECT count(*) FROM a.win}, q{SELECT public.dc_window_rotate('a.win', now() + interval '1 day')}, q{SELECT public.dc_window_reopen('a.win')}, q{SELECT public.dc_window_alter('a.win', late => 'error')},
	q{SELECT public.dc_window_drop('a.win')}, q{SELECT public.dc_window_reconcile('a.win', '2026-01-01', '{k1}'::text[], '{5}')}, q{DELETE FROM dcounter.time_window}, q{UPDATE dcounter.window_slot SET windowed = 'm.win'::regclass}, q{DELETE FROM dcounter.window_claim}, q{TRUNCATE a.win_w3},
	q{SELECT public.dc_add('a.dis', 'k1', 1)}, q{SELECT public.dc_distinct('a.dis', 'k1')}, q{SELECT public.dc_distinct_reset('a.dis', 'k1')}, q{SELECT public.dc_distinct_drop('a.dis')}, q{SELECT public.dc_distinct_adopt('a.dis')}, q{UPDATE dcounter.distinct_table SET deltas = 'm.dis_delta'::regclass}, q{DELETE FROM a.dis_delta},
	q{SELECT public.dc_alter('a.idl', idle => '1 ms')}, q{SELECT public.dc_trending('a.trd')}, q{SELECT public.dc_alter('a.trd', trend => '0')}, q{UPDATE a.trd_trend SET weight = 0}, q{SELECT public.dc_alter('a.cnt', sample => 64)},
	q{SELECT public.dc_limit('a.lim', 'k1', 1000000)}, q{SELECT public.dc_limit_reset('a.lim', 'k1')}, q{SELECT public.dc_limit_alter('a.lim', max_keys => 1)}, q{SELECT public.dc_limit_create('m.lim', 'gcra', 1, '1 s')}, q{DELETE FROM dcounter.limit_rule},
	q{SELECT public.dc_exit('a.prs', 'room', 'm1', NULL)}, q{SELECT public.dc_enter('a.prs', 'room', 'x')}, q{SELECT public.dc_presence_list('a.prs', 'room')}, q{SELECT public.dc_presence_alter('a.prs', '1 s')}, q{UPDATE dcounter.presence_rule SET owner = 'mallory'},
	q{CREATE TRIGGER t BEFORE INSERT ON dcounter.presence_rule FOR EACH ROW EXECUTE FUNCTION m.h_trigger()}, q{CREATE TRIGGER t BEFORE INSERT ON dcounter.outbox FOR EACH ROW EXECUTE FUNCTION m.h_trigger()},
	q{SELECT public.dc_bind('m.bnd', 'a.bnd_src', 'key')}, q{SELECT public.dc_bind('a.cnt', 'm.bnd_src', 'key')}, q{SELECT public.dc_unbind('a.bnd')}, q{SELECT public.dc_rank('a.rnk', 'k1')}, q{SELECT public.dc_rank_drop('a.rnk')}, q{SELECT public.dc_unbind('a.rnk_rank')}, q{SELECT public.dc_source_check('a.bnd')}, q{SELECT public.dc_source_fix('a.bnd', '{k1}')},
	q{SELECT public.dc_alter('a.bnd', on_drift => 'repair')}, q{SELECT public.dc_mark('a.cnt', 'm')}, q{SELECT public.dc_reconcile('a.cnt', '{k1}', '{0}', 'm')}, q{SELECT count(*) FROM dcounter.drift},
	q{CALL public.dc_build('a.bnd')}, 'INSERT INTO a.bnd_src (key) VALUES (1)', 'SELECT count(*) FROM a.bnd_uniq_ref', 'TRUNCATE a.bnd_prt_1', 'CREATE TABLE m.forged PARTITION OF a.bnd_prt FOR VALUES IN (9)', 'UPDATE dcounter.source SET on_drift = \'repair\'',
	q{SELECT key FROM dcounter.changed_key}, 'DELETE FROM dcounter.counter', 'UPDATE dcounter.ledger SET auto_open = true', 'TRUNCATE dcounter.op_slot',
	'CREATE TABLE a.x ()', 'CREATE TABLE dcounter.x ()', 'DROP TABLE a.cnt_shard', 'ALTER ROLE mallory SUPERUSER', 'GRANT alice TO mallory', 'SET ROLE alice', 'SET ROLE postgres', 'SET ROLE carol', 'RESET ROLE',
	'SET SESSION AUTHORIZATION DEFAULT', q{SELECT set_config('role', 'none', false)}, q{SELECT set_config('session_authorization', 'alice', true)}, 'SET session_replication_role = replica',
	q{COPY (SELECT 1) TO PROGRAM 'true'}, q{SELECT pg_read_file('PG_VERSION')}, 'ALTER SYSTEM SET work_mem = 64', 'SELECT pg_terminate_backend(pg_backend_pid())', 'SELECT pg_cancel_backend(pg_backend_pid())',
	'SELECT public.dc_worker_stop()', q{SELECT pg_terminate_backend(pid) FROM dc_stat_worker}, q{SELECT public.dc_consumer_create('mallory')});

my @settings = map { "SET $_" } (
	'search_path = m, pg_catalog', 'work_mem = 64', 'lock_timeout = 1', 'statement_timeout = 1', 'synchronous_commit = off', "application_name = 'nobody'", 'enable_indexscan = off', 'enable_seqscan = off',
	'dcounter.compact_batch = 10', "dcounter.pending_memory = '64kB'", 'plan_cache_mode = force_custom_plan', "default_transaction_isolation = 'serializable'", 'transaction_read_only = on', 'row_security = off',
	"DateStyle = 'German'", 'extra_float_digits = -15', "TimeZone = 'Asia/Kathmandu'", 'bytea_output = escape', 'max_stack_depth = 100', 'constraint_exclusion = on', 'LOCAL enable_bitmapscan = off', 'jit = off');

# hostile_code(CALLS): SQL that makes it; calls are [room, statement that uses it]
sub hostile_code
{
	my (@calls) = @_;
	my %without = map { $_ => 1 } split(/;/, $ENV{OWNERS_WITHOUT} // '');
	my %action = (ddl => 5, dml => 2, call => 2, cursor => 1.5, 'held cursor' => 0.5, sleep => 0.5, error => 1, subtransactions => 1, setting => 1, forbidden => 3, odd => 1.5);
	my @actions = map { [ $_, $action{$_} ] } grep { !$without{$_} } sort keys %action;
	my @templates = grep { !$without{ $_->[1] } } templates();
	my $rows = sub { my ($table, @rows) = @_; "INSERT INTO m.$table VALUES " . join(', ', map { '(' . join(', ', map { "\$v\$$_\$v\$" } @$_) . ')' } @rows) . ";\n" };

	return join("\n", $values, $tables, $ddl, $hostile, $hooks)
	  . $rows->('template', @templates) . $rows->('type', types()) . $rows->('action', @actions) . $rows->('call', @calls)
	  . $rows->('forbidden', map { [$_] } @forbidden) . $rows->('setting', map { [$_] } @settings);
}

1;
