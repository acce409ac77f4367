# Shared by the tests of owners' code in the worker: a database of mallory's, whose hooks call
# attack(), which tries everything. It writes to the server log, which no rollback undoes, as which
# role it ran and with which result; and the tables of two others, vera and boss, which are
# compacted beside mallory's.
package DcOwner;

use strict;
use warnings;

use DcTest;
use Exporter 'import';
use Test::More;

our @EXPORT = qw(owner_node as_mallory eventually create_others mislead worst_message errors $worker);

# The worker of the database, for a subquery
our $worker = q{SELECT pid, runs, last_error FROM dc_stat_worker WHERE datname = current_database() AND job = 'compaction'};

# That of the test, with the database "evil"
my $node;

# eventually(DATABASE, QUERY, NAME): tests that a condition comes true. Without it there is no point
# in continuing.
sub eventually
{
	my ($database, $query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return ok($node->poll_query_until($database, $query), $name) || die 'waited in vain';
}

# as_mallory(SQL): in a session of its own
sub as_mallory
{
	my ($sql) = @_;

	return $node->safe_psql('evil', $sql, extra_params => [ '-U', 'mallory' ]);
}

# What only others than mallory may do
my @forbidden = (
	'ALTER ROLE mallory SUPERUSER', 'CREATE ROLE eve SUPERUSER', 'GRANT boss TO mallory',
	'GRANT pg_execute_server_program TO mallory',
	'SET ROLE boss', 'SET LOCAL ROLE boss', 'RESET ROLE', q{SELECT set_config('role', 'boss', false)}, q{SELECT set_config('role', 'none', true)},
	'SET SESSION AUTHORIZATION boss', 'SET SESSION AUTHORIZATION DEFAULT', 'RESET SESSION AUTHORIZATION',
	q{COPY mallory.note TO PROGRAM 'true'}, q{COPY mallory.note FROM '/etc/passwd'}, q{SELECT pg_read_file('PG_VERSION')},
	q{SELECT lo_import('/etc/passwd')}, q{LOAD '/tmp/mallory'}, 'ALTER SYSTEM SET work_mem = 64', 'SET session_replication_role = replica',
	'CREATE TABLE vera.x ()', 'CREATE FUNCTION boss.f() RETURNS int LANGUAGE sql RETURN 1', 'CREATE TABLE dcounter.x ()', 'CREATE TABLE pg_catalog.x ()',
	'CREATE EVENT TRIGGER mallory ON ddl_command_end EXECUTE FUNCTION dcounter.on_ddl()',
	'UPDATE vera.before SET inc = 0', 'DELETE FROM vera.before_shard', 'DROP TABLE boss.counter', 'DELETE FROM dcounter.counter',
	q{SELECT public.dc_incr('vera.before', 'a')}, q{SELECT public.dc_set('vera.before', 'a', 0)}, q{SELECT public.dc_alter('vera.before', max_shards => 1)},
	q{SELECT public.dc_incr('mallory.triggers', 'a')}, 'SELECT public.dc_compact()', 'CALL public.dc_maintain()',
	'SELECT public.dc_worker_start()', 'SELECT public.dc_worker_stop()',
	'SELECT pg_terminate_backend(pg_backend_pid())', 'SELECT pg_cancel_backend(pg_backend_pid())',
	'CREATE TEMP TABLE counter (a int)', 'CREATE TEMP VIEW before_shard AS SELECT 1', 'CREATE TABLE pg_temp.before (a int)',
	'LISTEN mallory', 'PREPARE p AS SELECT 1', 'DECLARE c CURSOR WITH HOLD FOR SELECT 1', 'DISCARD TEMP', 'DISCARD ALL',
	'COMMIT', 'ROLLBACK', 'DO $x$ BEGIN COMMIT; END $x$', 'CALL mallory.commits()');

# What it may do, and effects that must end with it
my @allowed = (
	'RESET ALL', 'SET search_path = mallory, pg_catalog', 'SET synchronous_commit = on', 'SET application_name = mallory',
	'SET statement_timeout = 1', 'SET lock_timeout = 1', 'SET default_transaction_read_only = on', q{SET default_transaction_isolation = 'serializable'},
	'SET dcounter.compact_batch = 10', 'SET enable_indexscan = off', 'SET work_mem = 64', q{SET DateStyle = 'German'}, 'SET extra_float_digits = -15',
	'SELECT pg_advisory_lock(4711)', 'SELECT pg_advisory_unlock_all()', 'SELECT pg_advisory_lock(4712)', 'NOTIFY mallory',
	'SET search_path = mallory, pg_catalog');

my $forbidden = join(', ', map { "\$c\$$_\$c\$" } @forbidden);
my $allowed = join(', ', map { "\$c\$$_\$c\$" } @allowed);

# owner_node(): a server whose worker is told to run the code of owners
sub owner_node
{
	$node = dc_node('worker', extension => 0, conf => [
			"shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '50ms'", 'dcounter.worker_runs_owner_code = on' ]);

	sql($node, 'postgres', q{
		CREATE ROLE boss SUPERUSER;
		CREATE ROLE mallory LOGIN;
		CREATE ROLE vera;
		CREATE DATABASE evil OWNER mallory;});
	sql($node, 'evil', q{
		CREATE EXTENSION dcounter;
		CREATE SCHEMA mallory AUTHORIZATION mallory;
		CREATE SCHEMA vera AUTHORIZATION vera;
		CREATE SCHEMA boss;});
	hooks();
	witness();
	return $node;
}

# hooks(): what mallory's tables are given
sub hooks
{
	as_mallory(qq{
		CREATE TABLE mallory.note (who text);
		CREATE PROCEDURE mallory.commits() LANGUAGE plpgsql AS 'BEGIN COMMIT; END';
		CREATE FUNCTION mallory.attack(hook text) RETURNS void LANGUAGE plpgsql VOLATILE AS \$attack\$
		DECLARE
			command text;
			user_before text := current_user;
			session_before text := session_user;
			done text := '';
		BEGIN
			IF session_user = 'mallory' THEN
				RETURN;	-- nobody else's session
			END IF;
			FOREACH command IN ARRAY ARRAY[$forbidden] LOOP
				BEGIN
					EXECUTE command;
					done := done || command || '; ';
				EXCEPTION WHEN OTHERS THEN
					IF SQLSTATE NOT IN ('42501', '2D000', '25001', '0A000') THEN
						done := done || command || ' (' || SQLSTATE || '); ';
					END IF;
				END;
			END LOOP;
			FOREACH command IN ARRAY ARRAY[$allowed] LOOP
				BEGIN
					EXECUTE command;
				EXCEPTION WHEN OTHERS THEN
					done := done || command || ' cannot be tried (' || SQLSTATE || '); ';
				END;
			END LOOP;
			INSERT INTO mallory.note VALUES (current_user);
			RAISE LOG 'spy|%|%|%|%|', hook, user_before, current_user, done;
		END \$attack\$;
	} . q{
		CREATE FUNCTION mallory.hook() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM mallory.attack(concat_ws(' ', TG_WHEN, TG_LEVEL, TG_OP, CASE WHEN TG_TABLE_NAME ~ 'shard' THEN 'shard' ELSE 'totals' END));
			RETURN coalesce(NEW, OLD);
		END $$;
		-- Said to be immutable, for indexes and constraints
		CREATE FUNCTION mallory.value(hook text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM mallory.attack(hook); RETURN hook; END $$;
		CREATE FUNCTION mallory.test(hook text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM mallory.attack(hook); RETURN true; END $$;
	});
	return;
}

# witness(): lets the code of other roles note the state that it finds
sub witness
{
	sql($node, 'evil', q{
		GRANT USAGE ON SCHEMA boss TO vera;
		CREATE FUNCTION boss.witness() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			RAISE LOG 'witness|%|%|%|%', TG_TABLE_SCHEMA, TG_TABLE_NAME, current_user, concat_ws(' ', current_setting('search_path'),
				current_setting('synchronous_commit'), current_setting('application_name'), current_setting('statement_timeout'), current_setting('lock_timeout'),
				current_setting('default_transaction_read_only'), current_setting('default_transaction_isolation'), current_setting('transaction_isolation'), current_setting('transaction_read_only'),
				current_setting('enable_indexscan'), current_setting('work_mem'), current_setting('DateStyle'), current_setting('extra_float_digits'), current_setting('role'));
			RETURN NEW;
		END $$;
		CREATE TABLE boss.counter ();});
	return;
}

# create_others(SUFFIX): tables of the others. They are made before and after all of
# mallory's, which is the order in which they are compacted.
sub create_others
{
	my ($suffix) = @_;

	sql($node, 'evil', qq{
		SELECT dc_create('vera.$suffix'), dc_create('boss.$suffix');
		ALTER TABLE vera.$suffix OWNER TO vera;
		ALTER TABLE boss.$suffix OWNER TO boss;
		CREATE TRIGGER t BEFORE UPDATE ON vera.$suffix FOR EACH ROW EXECUTE FUNCTION boss.witness();
		CREATE TRIGGER t BEFORE UPDATE ON boss.$suffix FOR EACH ROW EXECUTE FUNCTION boss.witness();});
	return;
}

# worst_message(): SQL for a table of that name, which fails with it
sub worst_message
{
	return q{
		CREATE FUNCTION mallory.message() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.attack('message'); RAISE E'%%s%%n\n%', repeat('ä', 1000) USING ERRCODE = 'XX001'; END $$;
		CREATE TRIGGER t BEFORE UPDATE ON mallory.worst_message FOR EACH ROW EXECUTE FUNCTION mallory.message()};
}

# mislead(): the search_path and other settings of the database are mallory's as well.
# Sessions of the test have their own.
sub mislead
{
	as_mallory(q{
		CREATE SCHEMA shadow;
		CREATE FUNCTION shadow.boo() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'spy|shadow|%|%||', current_user, current_user; RETURN 666; END $$;
		CREATE FUNCTION shadow.add(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN shadow.boo(); END $$;
		CREATE FUNCTION shadow.cmp_text(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN shadow.boo() > 0; END $$;
		CREATE FUNCTION shadow.cmp_int(int, int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN shadow.boo() > 0; END $$;
		CREATE FUNCTION shadow.hashint4extended(int, bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN shadow.boo(); END $$;
		CREATE FUNCTION shadow.unnest(text[], bigint[], bigint[], timestamptz[]) RETURNS SETOF record LANGUAGE plpgsql AS $$ BEGIN PERFORM shadow.boo(); END $$;
		CREATE FUNCTION shadow.unnest(text[], int[]) RETURNS SETOF record LANGUAGE plpgsql AS $$ BEGIN PERFORM shadow.boo(); END $$;
		CREATE OPERATOR shadow.+ (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = shadow.add);
		CREATE OPERATOR shadow.- (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = shadow.add);
		CREATE OPERATOR shadow.= (LEFTARG = text, RIGHTARG = text, FUNCTION = shadow.cmp_text);
		CREATE OPERATOR shadow.> (LEFTARG = text, RIGHTARG = text, FUNCTION = shadow.cmp_text);
		CREATE OPERATOR shadow.= (LEFTARG = int, RIGHTARG = int, FUNCTION = shadow.cmp_int);
		CREATE OPERATOR shadow.> (LEFTARG = int, RIGHTARG = int, FUNCTION = shadow.cmp_int);
		CREATE DOMAIN shadow.text AS pg_catalog.text CHECK (VALUE = 'boo');
		CREATE DOMAIN shadow.int8 AS pg_catalog.int8 CHECK (VALUE = 666);
		CREATE TABLE shadow.pg_class (a int);
		CREATE TABLE shadow.counter (a int);
		ALTER DATABASE evil SET search_path = shadow, pg_catalog, mallory, public;
		ALTER ROLE mallory SET search_path = shadow, pg_catalog, mallory, public;
		ALTER DATABASE evil SET default_transaction_read_only = on;
		ALTER DATABASE evil SET default_transaction_isolation = 'serializable';
		ALTER DATABASE evil SET synchronous_commit = 'remote_apply';
		ALTER DATABASE evil SET statement_timeout = 1;
		ALTER DATABASE evil SET lock_timeout = 1;
		ALTER DATABASE evil SET idle_in_transaction_session_timeout = 1;
		ALTER DATABASE evil SET row_security = off;
	});
	$ENV{PGOPTIONS} = join(' ', map { "-c $_" } 'default_transaction_read_only=off', 'default_transaction_isolation=read\ committed', 'synchronous_commit=on',
		'statement_timeout=0', 'lock_timeout=0', 'idle_in_transaction_session_timeout=0', 'role=none', 'search_path=public', $node->pg_version >= 17 ? 'transaction_timeout=0' : ());
	as_mallory('ALTER DATABASE evil SET transaction_timeout = 1') if $node->pg_version >= 17;
	return;
}

# errors(LOG): its entries about errors and failures, each from its severity on
sub errors
{
	my ($log) = @_;

	return grep { /^(ERROR|WARNING|FATAL|PANIC|LOG:  \S* ?job)/ }
	  map { s/^.*?(?=ERROR|WARNING|FATAL|PANIC|LOG)//r } split /^(?=\S.* (?:ERROR|WARNING|FATAL|PANIC|LOG):  )/m, $log;
}

1;
