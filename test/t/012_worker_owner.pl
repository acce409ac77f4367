# Owners who are not to be trusted. The worker is connected as the bootstrap
# superuser, and compacts the tables of everybody; here it is told to do so where their code
# runs, too (dcounter.worker_runs_owner_code). What an owner has put on his
# tables runs as himself and cannot get out, whatever it tries; others' tables
# are compacted as ever. The same for dc_maintain() and dc_compact() of a superuser.
#
# Each hook of mallory's calls attack(), which tries everything and says in the
# server log, from where no rollback takes it away, as whom it ran and what came
# of it.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('worker', extension => 0, conf => [
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

# eventually(DATABASE, QUERY, NAME): tests that a condition comes true. Without it there is
# no point in going on.
sub eventually
{
	my ($database, $query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return ok($node->poll_query_until($database, $query), $name) || die 'waited in vain';
}

# as_mallory(SQL): in a session of his own
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
	'CREATE EVENT TRIGGER mallory ON ddl_command_end EXECUTE FUNCTION dcounter.on_alter_table()',
	'UPDATE vera.before SET inc = 0', 'DELETE FROM vera.before_shard', 'DROP TABLE boss.counter', 'DELETE FROM dcounter.counter',
	q{SELECT public.dc_incr('vera.before', 'a')}, q{SELECT public.dc_set('vera.before', 'a', 0)}, q{SELECT public.dc_alter('vera.before', max_shards => 1)},
	q{SELECT public.dc_incr('mallory.triggers', 'a')}, 'SELECT public.dc_compact()', 'CALL public.dc_maintain()',
	'SELECT public.dc_worker_start()', 'SELECT public.dc_worker_stop()',
	'SELECT pg_terminate_backend(pg_backend_pid())', 'SELECT pg_cancel_backend(pg_backend_pid())',
	'CREATE TEMP TABLE counter (a int)', 'CREATE TEMP VIEW before_shard AS SELECT 1', 'CREATE TABLE pg_temp.before (a int)',
	'LISTEN mallory', 'PREPARE p AS SELECT 1', 'DECLARE c CURSOR WITH HOLD FOR SELECT 1', 'DISCARD TEMP', 'DISCARD ALL',
	'COMMIT', 'ROLLBACK', 'DO $x$ BEGIN COMMIT; END $x$', 'CALL mallory.commits()');

# What he may do, and what must end with it
my @allowed = (
	'RESET ALL', 'SET search_path = mallory, pg_catalog', 'SET synchronous_commit = on', 'SET application_name = mallory',
	'SET statement_timeout = 1', 'SET lock_timeout = 1', 'SET default_transaction_read_only = on', q{SET default_transaction_isolation = 'serializable'},
	'SET dcounter.compact_batch = 10', 'SET enable_indexscan = off', 'SET work_mem = 64', q{SET DateStyle = 'German'}, 'SET extra_float_digits = -15',
	'SELECT pg_advisory_lock(4711)', 'SELECT pg_advisory_unlock_all()', 'SELECT pg_advisory_lock(4712)', 'NOTIFY mallory',
	'SET search_path = mallory, pg_catalog');

my $forbidden = join(', ', map { "\$c\$$_\$c\$" } @forbidden);
my $allowed = join(', ', map { "\$c\$$_\$c\$" } @allowed);

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

##
## His tables
#
# For each: what is put on it, in his name, and the hooks that compaction must set
# off, to be sure that they were tried. "fails": why the table cannot be compacted.

my @row = map { my $op = $_; map { "$_ ROW $op" } 'BEFORE', 'AFTER' } 'INSERT', 'UPDATE', 'DELETE';
my %tables = (
	triggers => {
		sql => join('', map {
			my $table = $_;

			map { my ($when, $level) = @$_;
				"CREATE TRIGGER \"$when $level\" $when INSERT OR UPDATE OR DELETE ON $table FOR EACH $level EXECUTE FUNCTION mallory.hook();
				ALTER TABLE $table ENABLE ALWAYS TRIGGER \"$when $level\";\n" }
			  ([ 'BEFORE', 'ROW' ], [ 'AFTER', 'ROW' ], [ 'BEFORE', 'STATEMENT' ], [ 'AFTER', 'STATEMENT' ])
		} 'mallory.triggers', 'mallory.triggers_shard'),
		hooks => [ map { my $when = $_; map { ("$when $_ UPDATE totals", "$when $_ DELETE shard") } 'ROW', 'STATEMENT' } 'BEFORE', 'AFTER' ] },
	indexes => {
		sql => q{
			CREATE INDEX ON mallory.indexes ((mallory.value('index on totals ' || inc)));
			CREATE INDEX ON mallory.indexes (key) WHERE mallory.test('predicate on totals ' || inc);
			CREATE INDEX ON mallory.indexes_shard ((mallory.value('index on shards ' || inc)));
			CREATE INDEX ON mallory.indexes_shard (key) WHERE mallory.test('predicate on shards ' || inc);
			CREATE INDEX ON mallory.indexes (key) WHERE mallory.test('constant predicate');
			CREATE INDEX ON mallory.indexes_shard (key) WHERE mallory.test('constant predicate')},
		hooks => [ 'index on totals', 'predicate on totals', 'constant predicate' ] },
	columns => {
		sql => q{
			CREATE DOMAIN mallory.checked AS text CHECK (mallory.test('domain ' || VALUE));
			ALTER TABLE mallory.columns ADD generated text GENERATED ALWAYS AS (mallory.value('generated ' || key || inc)) STORED,
				ADD preset text DEFAULT mallory.value('default'), ADD checked mallory.checked DEFAULT 'x', ADD CHECK (mallory.test('check ' || inc));
			ALTER TABLE mallory.columns_shard ADD preset text DEFAULT mallory.value('default on shards'), ADD CHECK (mallory.test('check on shards ' || inc))},
		hooks => [ 'generated', 'default', 'domain', 'check' ] },
	partitions => {
		create => 'partitions => 2',
		sql => join('', map { my $table = $_; map {
			"CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON mallory.${table}_p$_ FOR EACH ROW EXECUTE FUNCTION mallory.hook();
			CREATE INDEX ON mallory.${table}_p$_ ((mallory.value('index on partitions ' || inc)));\n" } 0, 1 } 'partitions', 'partitions_shard'),
		hooks => [ 'BEFORE ROW UPDATE totals', 'BEFORE ROW DELETE shard', 'index on partitions' ] },
	# with a parent; children are refused (test/sql/shapes.sql)
	child => {
		sql => q{
			CREATE TABLE mallory.parent (key text COLLATE "C" NOT NULL);
			ALTER TABLE mallory.child_shard INHERIT mallory.parent;
			CREATE TRIGGER t BEFORE UPDATE OR DELETE ON mallory.child_shard FOR EACH ROW EXECUTE FUNCTION mallory.hook()},
		unprevented => 1,
		hooks => [ 'BEFORE ROW DELETE shard' ] },
	cascade => {
		sql => q{
			CREATE TABLE mallory.refers (key text COLLATE "C", shard int, FOREIGN KEY (key, shard) REFERENCES mallory.cascade_shard ON DELETE CASCADE);
			CREATE TRIGGER t BEFORE DELETE ON mallory.refers FOR EACH ROW EXECUTE FUNCTION mallory.hook()},
		again => 'INSERT INTO mallory.refers SELECT key, shard FROM mallory.cascade_shard',
		hooks => [ 'BEFORE ROW DELETE totals' ] },
	rules => {
		sql => q{CREATE RULE r AS ON DELETE TO mallory.rules_shard DO ALSO SELECT mallory.attack('rule ' || old.key)},
		hooks => ['rule'] },
	renamed => {
		sql => q{
			ALTER TABLE mallory.renamed RENAME TO hidden;
			CREATE VIEW mallory.renamed AS SELECT key, inc, dec, value, updated_at FROM mallory.hidden WHERE mallory.test('view');
			CREATE VIEW mallory.renamed_shard AS SELECT key, shard, inc, dec, updated_at FROM mallory.hidden_shard WHERE mallory.test('view')},
		name => 'hidden',
	},
	# As the others' search_path, these names would come before the system's
	shadows => {
		sql => q{CREATE TRIGGER t BEFORE UPDATE ON mallory.shadows FOR EACH ROW EXECUTE FUNCTION mallory.hook()},
		hooks => ['BEFORE ROW UPDATE totals'] },

	read_only => {
		sql => q{
			CREATE FUNCTION mallory.read_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN SET transaction_read_only = on; RETURN NEW; END $$;
			CREATE TRIGGER t BEFORE UPDATE ON mallory.read_only FOR EACH ROW EXECUTE FUNCTION mallory.read_only()} },

	deferred => {
		sql => q{CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON mallory.deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION mallory.hook()},
		fails => '"deferred" cannot be written to, as its constraint "t" is deferred' },
	deferred_shard_rows => {
		sql => q{CREATE CONSTRAINT TRIGGER t AFTER DELETE ON mallory.deferred_shard_rows_shard DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION mallory.hook()},
		fails => 'cannot fire deferred trigger within security-restricted operation' },
	set_constraints => {
		sql => q{
			CREATE FUNCTION mallory.defer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN SET CONSTRAINTS ALL DEFERRED; RETURN NEW; END $$;
			CREATE TRIGGER a BEFORE UPDATE ON mallory.set_constraints FOR EACH ROW EXECUTE FUNCTION mallory.defer();
			CREATE CONSTRAINT TRIGGER b AFTER UPDATE ON mallory.set_constraints DEFERRABLE FOR EACH ROW EXECUTE FUNCTION mallory.hook()},
		fails => 'cannot execute SET CONSTRAINTS within security-restricted operation' },
	update_rule => {
		sql => q{CREATE RULE r AS ON UPDATE TO mallory.update_rule DO INSTEAD SELECT mallory.attack('rule')},
		fails => 'could not serialize access due to concurrent update' },
	suppressed => {
		sql => q{
			CREATE FUNCTION mallory.suppress() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.attack('suppress'); RETURN NULL; END $$;
			CREATE TRIGGER t BEFORE DELETE ON mallory.suppressed_shard FOR EACH ROW EXECUTE FUNCTION mallory.suppress()},
		hooks => ['suppress'],
		fails => 'locked shard rows have changed' },
	drops => {
		sql => q{
			CREATE FUNCTION mallory.drops() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.attack('drops'); DROP TABLE mallory.drops_shard; RETURN NEW; END $$;
			CREATE TRIGGER t BEFORE UPDATE ON mallory.drops FOR EACH ROW EXECUTE FUNCTION mallory.drops()},
		hooks => ['drops'],
		fails => 'cannot DROP TABLE "drops_shard" because it is being used by active queries in this session' },
	cancels => {
		sql => q{
			CREATE FUNCTION mallory.cancels() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE query_canceled; END $$;
			CREATE TRIGGER t BEFORE UPDATE ON mallory.cancels FOR EACH ROW EXECUTE FUNCTION mallory.cancels()},
		fails => 'query_canceled' },
	worst_message => {
		sql => q{
			CREATE FUNCTION mallory.message() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.attack('message'); RAISE E'%%s%%n\n%', repeat('ä', 1000) USING ERRCODE = 'XX001'; END $$;
			CREATE TRIGGER t BEFORE UPDATE ON mallory.worst_message FOR EACH ROW EXECUTE FUNCTION mallory.message()},
		hooks => ['message'],
		fails => '%s%n' });
my @names = sort keys %tables;
my @good = grep { !$tables{$_}{fails} } @names;
my @bad = grep { $tables{$_}{fails} } @names;


# Before and after all of his tables, in the order in which they are compacted,
# are those of others. They note how they find the world.
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
create_others('before');
foreach my $name (@names)
{
	as_mallory("SELECT public.dc_create('mallory.$name'" . ($tables{$name}{create} ? ", $tables{$name}{create}" : '') . ')');
}
sql($node, 'evil', join(';', map { "SELECT dc_incr('mallory.$_', 'a')" } @names));
eventually('evil', 'SELECT ' . join(' + ', map { "(dc_total('mallory.$_', 'a')).value" } @names) . ' = ' . @names, 'tables of his, still as they should be');
sql($node, 'evil', 'SELECT dc_worker_stop()');
as_mallory($tables{$_}{sql}) foreach grep { !$tables{$_}{unprevented} } @names;
# what only event triggers prevent
sql($node, 'evil', "SET session_replication_role = replica; SET ROLE mallory; $tables{$_}{sql}") foreach grep { $tables{$_}{unprevented} } @names;
$tables{$_}{name} //= $_ foreach @names;
create_others('after');
my @others = map { ("vera.$_", "boss.$_") } 'before', 'after';
sql($node, 'evil', join(';', map { "SELECT dc_incr('$_', 'a'); CALL dc_maintain()" } @others));

# The search_path of the database is his as well
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
is(sql($node, 'evil', 'SET search_path = shadow, pg_catalog; SELECT 1::pg_catalog.int8 + 1::pg_catalog.int8, current_user = session_user'), '666|t', 'names before those of the system work');

##
## Three ways to compact them

my %counted = map { $_ => 1 } @names, @others;

# count(): adds to all tables, while nobody compacts. Then @again.
sub count
{
	sql($node, 'evil', join(';', (map { "SELECT dc_incr('mallory.$tables{$_}{name}', 'a'), dc_incr('mallory.$tables{$_}{name}', clock_timestamp()::text)" } @names),
		map { "SELECT dc_incr('$_', 'a')" } @others));
	as_mallory($tables{$_}{again}) foreach grep { $tables{$_}{again} } @names;
	$counted{$_}++ foreach @names, @others;
	return;
}

sub values_of
{
	my ($function, @which) = @_;

	return sql($node, 'evil', 'SELECT ' . join(', ', map { sprintf($function, $tables{$_} ? "mallory.$tables{$_}{name}" : $_) . qq{ AS "$_"} } @which));
}

# check(WAY, LOG): what came of it
sub check
{
	my ($way, $log) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @spies = map { [ split /\|/, $_, -1 ] } $log =~ /LOG:  spy\|(.*)\|$/mg;
	my %hooks = map { $_->[0] => 1 } @spies;

	is(join("\n", grep { !/mallory\|mallory/ } map { "$_->[1]|$_->[2]" } @spies), '', "$way: his code runs as himself");
	my %done = map { $_ => 1 } grep { $_ ne '' } map { $_->[3] } @spies;
	is(join("\n", sort keys %done), '', "$way: and can do nothing else");
	foreach my $name (@names)
	{
		my @missing = grep { my $hook = $_; !grep { index($_, $hook) == 0 } keys %hooks } @{ $tables{$name}{hooks} // [] };

		is(join(', ', @missing), '', "$way: $name has tried") if $tables{$name}{hooks} && @{ $tables{$name}{hooks} };
	}
	ok(!$hooks{shadow} && !$hooks{view}, "$way: nobody is misled by names");
	is(values_of("dc_get('%s', 'a')", @names, @others), join('|', map { $counted{$_} } @names, @others), "$way: values are exact");
	is(values_of("(dc_total('%s', 'a')).value", @good, @others), join('|', map { $counted{$_} } @good, @others), "$way: totals");
	is(values_of("(dc_total('%s', 'a')).value", @bad), join('|', map { 1 } @bad), "$way: what fails stays where it is");
	is(sql($node, 'evil', q{
		SELECT rolname FROM pg_roles WHERE rolsuper AND rolname IN ('mallory', 'eve')
		UNION ALL SELECT roleid::regrole::text FROM pg_auth_members WHERE member = 'mallory'::regrole
		UNION ALL SELECT oid::regclass::text FROM pg_class WHERE relname = 'x'
		UNION ALL SELECT who FROM mallory.note WHERE who <> 'mallory'}), '', "$way: he has got nothing");

	return;
}


# errors(LOG): its entries about errors and failures, each from its severity on
sub errors
{
	my ($log) = @_;

	return grep { /^(ERROR|WARNING|FATAL|PANIC|LOG:  \S* ?job)/ }
	  map { s/^.*?(?=ERROR|WARNING|FATAL|PANIC|LOG)//r } split /^(?=\S.* (?:ERROR|WARNING|FATAL|PANIC|LOG):  )/m, $log;
}

# witness_ok(WAY, LOG, SETTINGS): how others' code has found the world, all along
sub witness_ok
{
	my ($way, $log, $settings) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %seen = map { $_ => 1 } $log =~ /LOG:  witness\|(.*)$/mg;
	my %settings = map { (split /\|/)[3] => 1 } keys %seen;

	is(join(' ', sort map { s/\|[^|]*$//r } keys %seen), 'boss|after|boss boss|before|boss vera|after|vera vera|before|vera', "$way: others' code runs as the others");
	is(scalar keys %settings, 1, "$way: nothing that he has set is left") or diag(join("\n", sort keys %settings));
	like((keys %settings)[0], $settings, "$way: settings");
	return;
}

## The worker

count();
my $offset = -s $node->logfile;
my $worker = q{SELECT pid, runs, last_error FROM dc_stat_worker WHERE datname = current_database() AND job = 'compaction'};

is(sql($node, 'evil', 'SELECT dc_worker_start()'), 't', 'worker');
my $pid = sql($node, 'evil', "SELECT pid FROM ($worker) AS w");
eventually('evil', 'SELECT ' . join(' AND ', map { "(dc_total('$_', 'a')).value = 2" } @others), 'worker: tables of others are compacted');
eventually('evil', 'SELECT ' . join(' AND ', map { "(dc_total('mallory.$tables{$_}{name}', 'a')).value = $counted{$_}" } @good), 'worker: and those of his that can be');
my $runs = sql($node, 'evil', "SELECT runs FROM ($worker) AS w");
eventually('evil', "SELECT runs >= $runs + 3 FROM ($worker) AS w", 'worker: again and again');
my $log = slurp_file($node->logfile, $offset);
check('worker', $log);
witness_ok('worker', $log, qr/^pg_catalog, pg_temp off dcounter worker 0 \S+ off read committed read committed off on 4MB ISO, MDY 1 /);
my @errors = errors($log);
foreach my $name (@bad)
{
	ok(scalar(grep { /^LOG:  dcounter job "compaction" on "$name" failed: $tables{$name}{fails}/ } @errors), "worker: the log says what is wrong with $name");
}
my $bad = join('|', @bad);
is(join('', grep { !/^LOG:  dcounter job "compaction" on "($bad)" failed: / } @errors), '', 'worker: and has no other errors');
is(sql($node, 'evil', "SELECT pid FROM ($worker) AS w"), $pid, 'worker: it survives');
eventually('evil', "SELECT count(*) = 1 AND bool_and(objid NOT IN (4711, 4712)) FROM pg_locks WHERE pid = $pid AND locktype = 'advisory'",
	'worker: it keeps its lock, and none of his');

## CALL dc_maintain() and dc_compact() of a superuser

my $session = q{
	SELECT current_user = session_user, current_setting('role'), current_setting('search_path'), current_setting('synchronous_commit'), current_setting('work_mem'),
		current_setting('DateStyle'), current_setting('default_transaction_read_only'), current_setting('transaction_read_only'), current_setting('enable_indexscan'),
		pg_my_temp_schema(), (SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors)};
my $path = 'shadow, pg_catalog, public';
my $usual = "t|none|$path|on|4MB|ISO, MDY|off|off|on|0|0|0|0";
my $settings = qr/^pg_catalog, pg_temp on 012_worker_owner.pl 0 0 off read committed read committed off on 4MB ISO, MDY 1 none$/;

is(sql($node, 'evil', 'SELECT dc_worker_stop()'), 't', 'the worker is stopped');
count();
$offset = -s $node->logfile;
my ($status, $out, $err) = $node->psql('evil', "SET search_path = $path;\nCALL dc_maintain();\n$session");
is("$status|$out", "0|$usual", 'dc_maintain: the session is as before');
$log = slurp_file($node->logfile, $offset);
check('dc_maintain', $log);
witness_ok('dc_maintain', $log, $settings);
foreach my $name (@bad)
{
	like($err, qr/WARNING:  dcounter job "compaction" on "$name" failed: $tables{$name}{fails}/, "dc_maintain: it says what is wrong with $name");
}
is(scalar(() = $err =~ /WARNING/g), scalar(@bad), 'dc_maintain: and warns of nothing else');

count();
$offset = -s $node->logfile;
foreach my $name ((map { "mallory.$tables{$_}{name}" } @good), @others)
{
	is(sql($node, 'evil', "SET search_path = $path;\nSELECT dc_compact('$name') > 0;\n$session"), "t\n$usual", "dc_compact: $name");
}
foreach my $name (@bad)
{
	($status, $out, $err) = $node->psql('evil', "SET search_path = $path;\nSELECT dc_compact('mallory.$name');\n$session", on_error_stop => 0);
	is($out, $usual, "dc_compact: $name, the session is as before");
	like($err, qr/ERROR:  $tables{$name}{fails}/, "dc_compact: $name cannot be compacted");
}
$log = slurp_file($node->logfile, $offset);
check('dc_compact', $log);
witness_ok('dc_compact', $log, $settings);

## Where it does not come to that

# goes_on(NAME): tests that the worker compacts tables of others
sub goes_on
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $counted = ++$counted{'vera.before'};

	$counted{'boss.after'}++;
	sql($node, 'evil', "SELECT dc_incr('vera.before', 'a'), dc_incr('boss.after', 'a')");
	return eventually('evil', "SELECT (dc_total('vera.before', 'a')).value = $counted AND (dc_total('boss.after', 'a')).value = $counted{'boss.after'}", $name);
}

as_mallory('DROP TABLE ' . join(', ', map { "mallory.$tables{$_}{name}" } grep { $_ ne 'worst_message' } @names) . ' CASCADE');
as_mallory(q{SELECT public.dc_create('mallory.secured'), public.dc_create('mallory.altered'), public.dc_create('mallory.converted')});
sql($node, 'evil', q{SELECT dc_incr('mallory.secured', 'a', 3), dc_incr('mallory.altered', 'a', 3), dc_incr('mallory.converted', 'a', 3)});
as_mallory(q{
	ALTER TABLE mallory.altered_shard ALTER inc TYPE numeric;
	CREATE POLICY p ON mallory.secured USING (mallory.test('policy')) WITH CHECK (mallory.test('policy'));
	CREATE POLICY p ON mallory.secured_shard USING (mallory.test('policy')) WITH CHECK (mallory.test('policy'));
	ALTER TABLE mallory.secured ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
	ALTER TABLE mallory.secured_shard ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY});
if ($node->pg_version < 16)
{
	# a table becomes a view
	as_mallory(q{
		ALTER TABLE mallory.converted DROP CONSTRAINT converted_pkey;
		DROP TRIGGER dcounter_truncate ON mallory.converted;
		VACUUM mallory.converted;
		CREATE RULE "_RETURN" AS ON SELECT TO mallory.converted DO INSTEAD
			SELECT key, inc, dec, inc - dec AS value, updated_at FROM mallory.converted_shard WHERE mallory.test('view')});
}
$offset = -s $node->logfile;
is(sql($node, 'evil', 'SELECT dc_worker_start()'), 't', 'the worker is started');
goes_on('row-level security and wrong columns: tables of others are compacted');
$runs = sql($node, 'evil', "SELECT runs FROM ($worker) AS w");
eventually('evil', "SELECT runs >= $runs + 2 FROM ($worker) AS w", 'again and again');
$log = slurp_file($node->logfile, $offset);
unlike($log, qr/spy\|(?!message)/, 'nothing of his runs');
is(join('', grep { !/on "worst_message" failed/ } errors($log)), '', 'and nothing fails');
as_mallory('ALTER TABLE mallory.secured DISABLE ROW LEVEL SECURITY; ALTER TABLE mallory.secured_shard DISABLE ROW LEVEL SECURITY');
as_mallory('ALTER TABLE mallory.altered_shard ALTER inc TYPE bigint');
eventually('evil', "SELECT (dc_total('mallory.secured', 'a')).value = 3", 'without row-level security it is compacted');
eventually('evil', "SELECT (dc_total('mallory.altered', 'a')).value = 3", 'with the right columns it is compacted');
# Wherever it is cut off
foreach my $length (1, 2)
{
	as_mallory("CREATE OR REPLACE FUNCTION mallory.message() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE '%', repeat('x', $length) || repeat('ä', 1000); END \$\$");
	eventually('evil', qq{SELECT last_error LIKE '% on "worst_message": ' || repeat('x', $length) || 'ä%' FROM ($worker) AS w}, 'the last error');
	($status, $out) = $node->psql('evil', "SELECT convert_from(convert_to(last_error, 'UTF8'), 'UTF8') = last_error FROM ($worker) AS w");
	is("$status|$out", '0|t', 'it can be read');
}
as_mallory('DROP TABLE mallory.worst_message');

# Nothing to cancel, most of the time
$pid = sql($node, 'evil', "SELECT pid FROM ($worker) AS w");
is(sql($node, 'evil', "SELECT bool_and(pg_cancel_backend($pid) AND pg_sleep(0.03) IS NOT NULL) FROM generate_series(1, 10)"), 't', 'a worker that sleeps is cancelled');
goes_on('it goes on');
is(sql($node, 'evil', "SELECT pid FROM ($worker) AS w"), $pid, 'it is the same');

# Settings of a database are its owner's; the role that this makes is not the worker's
as_mallory('ALTER DATABASE evil SET role = mallory');
is(sql($node, 'evil', 'SELECT dc_worker_stop(), dc_worker_start()'), 't|t', 'a role set for the database');
goes_on('tables of others are compacted');

## Owners who may not even connect

sql($node, 'evil', q{
	CREATE ROLE nina NOLOGIN CONNECTION LIMIT 0 VALID UNTIL '2000-01-01';
	CREATE SCHEMA nina;
	GRANT USAGE, CREATE ON SCHEMA nina TO nina;
	SELECT dc_create('nina.c');
	ALTER TABLE nina.c OWNER TO nina;
	REVOKE CONNECT, TEMP ON DATABASE evil FROM PUBLIC;
	REVOKE USAGE ON SCHEMA public FROM PUBLIC;
	SELECT dc_incr('nina.c', 'a');});
eventually('evil', q{SELECT (dc_total('nina.c', 'a')).value = 1}, 'an owner without LOGIN, CONNECT, and USAGE of the functions');
# Names are looked up as the owner, too
$offset = -s $node->logfile;
sql($node, 'evil', q{REVOKE USAGE ON SCHEMA nina FROM nina; SELECT dc_incr('nina.c', 'a', 5)});
goes_on('an owner without USAGE of the schema: tables of others are compacted');
$runs = sql($node, 'evil', "SELECT runs FROM ($worker) AS w");
eventually('evil', "SELECT runs >= $runs + 2 FROM ($worker) AS w", 'again and again');
like(slurp_file($node->logfile, $offset), qr/LOG:  dcounter job "compaction" on "c" failed: permission denied for schema nina$/m, 'the log says what is wrong');
is(sql($node, 'evil', q{SELECT dc_get('nina.c', 'a'), (dc_total('nina.c', 'a')).value}), '6|1', 'and the value is exact');
sql($node, 'evil', 'GRANT USAGE ON SCHEMA nina TO nina');
eventually('evil', q{SELECT (dc_total('nina.c', 'a')).value = 6}, 'with it, it is compacted');

## Code that does not end. Meanwhile nobody is compacted; but it can be ended.

# stuck(NAME): tests that the worker runs his code
sub stuck
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return eventually('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE backend_type = 'dcounter worker' AND datname = 'evil' AND wait_event = 'PgSleep'}, $name);
}

as_mallory(q{
	SELECT public.dc_create('mallory.loop');
	CREATE FUNCTION mallory.loop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(100000); RETURN NEW; END $$;
	CREATE TRIGGER t BEFORE INSERT OR UPDATE ON mallory.loop FOR EACH ROW EXECUTE FUNCTION mallory.loop()});
is(sql($node, 'evil', "SELECT dc_incr('mallory.loop', 'a')"), '', 'code that takes long');
stuck('it runs');
$offset = -s $node->logfile;
is(sql($node, 'evil', "SELECT dc_incr('vera.before', 'a'); SELECT dc_get('vera.before', 'a'), dc_get('mallory.loop', 'a')") =~ s/^\n//r, ++$counted{'vera.before'} . '|1', 'values are exact');
$pid = sql($node, 'evil', "SELECT pid FROM ($worker) AS w");
is(sql($node, 'evil', "SELECT pg_cancel_backend($pid)"), 't', 'cancelled');
goes_on('tables of others are compacted');
like(slurp_file($node->logfile, $offset), qr/LOG:  dcounter job "compaction" on "loop" failed: canceling statement due to user request$/m, 'the log says where');
is(sql($node, 'evil', "SELECT pid FROM ($worker) AS w"), $pid, 'the worker survives');

# It does not want to be cancelled, nor found
as_mallory(q{
	CREATE OR REPLACE FUNCTION mallory.loop() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		SET application_name = 'nobody';
		LOOP
			BEGIN
				PERFORM pg_sleep(100000);
			EXCEPTION WHEN query_canceled THEN
				NULL;
			END;
		END LOOP;
	END $$});
sql($node, 'evil', "SELECT pg_cancel_backend(pid) FROM ($worker) AS w");
eventually('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'nobody'}, 'code that catches a cancel');
stuck('it runs');
is(sql($node, 'evil', 'SELECT dc_worker_stop()'), 't', 'the worker can be stopped');
is(sql($node, 'evil', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'evil'}), '0', 'and is');
is(sql($node, 'evil', 'SELECT dc_worker_start()'), 't', 'and started');
stuck('once more');
ok($node->stop('fast', fail_ok => 1), 'the server can be stopped')
  or $node->stop('immediate');
$node->start;
stuck('it starts, and so does he');
is(sql($node, 'evil', 'SELECT dc_worker_stop()'), 't', 'the worker is stopped');
as_mallory('DROP TABLE mallory.loop');

## The extension itself: it is in a schema of the owner of the database

as_mallory(q{
	SELECT public.dc_create('mallory.last');
	CREATE FUNCTION mallory.last() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DROP SCHEMA public CASCADE; RETURN NEW; END $$;
	CREATE TRIGGER t BEFORE INSERT ON mallory.last FOR EACH ROW EXECUTE FUNCTION mallory.last()});
sql($node, 'evil', "SELECT dc_incr('mallory.last', 'a'); SELECT dc_worker_start()");
eventually('evil', q{SELECT count(*) = 0 FROM pg_extension WHERE extname = 'dcounter'}, 'he drops the extension in the middle of compaction');
eventually('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'evil'}, 'the worker leaves');
is(sql($node, 'evil', 'SELECT sum(inc - dec) FROM (SELECT inc, dec FROM vera.before UNION ALL SELECT inc, dec FROM vera.before_shard) AS u'),
	$counted{'vera.before'}, 'the amounts of others are there');
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC/, 'nothing has crashed');

$node->stop;
done_testing();
