# pg_dump and pg_restore: counts, shard rows and settings arrive, in every way
# that people dump and restore.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('dump', extension => 0);
my $connstr = sub { return $node->connstr($_[0]) };
my $tempdir = PostgreSQL::Test::Utils::tempdir();
my @counters = ('app.likes', 'app.parts', 'app."Odd Name"', 'public.views');

# state(DATABASE): settings and all rows of all the tables
sub state
{
	my ($database) = @_;
	my $rows = '';

	foreach my $counter (@counters)
	{
		(my $shards = $counter) =~ s/("?)$/_shard$1/;
		$rows .= sql($node, $database, qq{
			SET timezone = 'UTC';
			SELECT '$counter', * FROM $counter ORDER BY key;
			SELECT '$counter', * FROM $shards ORDER BY key, shard;
			SELECT '$counter', dc_sum('$counter');}) . "\n";
	}
	return settings($database) . "\n" . $rows;
}

sub settings
{
	my ($database) = @_;

	return sql($node, $database, q{
		SELECT counter, shards, shard_by, max_shards, totals || coalesce(' ' || idle, '') FROM dcounter.counter
		ORDER BY counter::text COLLATE "C"});
}

# works(DATABASE, NAME [, ROLE]): every counter still counts and compacts
sub works
{
	my ($database, $name, $role) = @_;

	foreach my $counter (@counters)
	{
		my $result = sql($node, $database,
			($role ? "SET ROLE $role;" : '') . qq{
			BEGIN;
			CREATE TEMP TABLE sum_before AS SELECT dc_sum('$counter') AS s;
			SELECT dc_incr('$counter', 'a', 5); SELECT dc_apply(); -- a shard row
			COMMIT;
			SELECT dc_compact('$counter') > 0, dc_sum('$counter') - s FROM sum_before;});
		is($result =~ s/^\n*//r, 't|5', "$name: $counter counts and compacts");
	}
}

sub create_database
{
	my ($name, $sql) = @_;

	sql($node, 'postgres', "CREATE DATABASE $name TEMPLATE template0");
	sql($node, $name, $sql) if $sql;
}

sub restore_ok
{
	my ($name, @command) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$node->command_ok(\@command, $name);
}

my $create = q{
	CREATE EXTENSION dcounter;
	CREATE SCHEMA app AUTHORIZATION app_owner;
	SET ROLE app_owner;
	SELECT dc_create('app.likes', 'backend', 8, totals => 'compacted');
	SELECT dc_create('app.parts', 'hash', 3, 4);
	SELECT dc_create('app."Odd Name"', totals => 'compacted');
	RESET ROLE;
	SELECT dc_create('public.views', max_shards => 1, totals => 'compacted', idle => '90 days');};
sql($node, 'postgres', 'CREATE ROLE app_owner; CREATE ROLE other LOGIN; ALTER ROLE app_owner LOGIN');
create_database('source', $create);

# Totals, and on top shard rows of several transactions: an early write makes a
# row of its own.
foreach my $counter (@counters)
{
	my $add = '';

	foreach my $i (1 .. 4)
	{
		$add .= qq{
			BEGIN;
			SELECT dc_incr('$counter', k::text, $i) FROM generate_series(1, 3) k;
			SELECT dc_decr('$counter', 'a', 1), dc_incr('$counter', 'a', 100);
			SELECT dc_apply();
			COMMIT;};
		$add .= "SELECT dc_compact('$counter');" if $i == 2;
	}
	sql($node, 'source', $add);
}
my $expected = state('source');
like($expected, qr{^app\.likes\|a\|200\|2\|198\|}m, 'there are totals');
is(sql($node, 'source', 'SELECT count(*) FROM app.likes_shard'), '8',
	'there are uncompacted shard rows');
is(sql($node, 'source', 'SELECT count(*) FROM dcounter.counter'), '4',
	'all are registered');

# Whole database, plain
$node->command_ok(
	[ 'pg_dump', '-f', "$tempdir/plain.sql", '-d', $connstr->('source') ],
	'pg_dump, plain');
create_database('plain');
restore_ok('plain dump into a new database', 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1',
	'-d', $connstr->('plain'), '-f', "$tempdir/plain.sql");
is(state('plain'), $expected, 'plain: all is there');
is(sql($node, 'plain', q{SELECT string_agg(DISTINCT relowner::regrole::text, ',')
	FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'app'::regnamespace}),
	'app_owner', 'plain: owner');
is(sql($node, 'plain', q{SELECT reloptions FROM pg_class WHERE oid = 'app.likes_shard'::regclass}),
	sql($node, 'source', q{SELECT reloptions FROM pg_class WHERE oid = 'app.likes_shard'::regclass}),
	'plain: storage parameters of the shard table');
works('plain', 'plain');

# Whole database, custom format, parallel
$node->command_ok(
	[ 'pg_dump', '-Fc', '-f', "$tempdir/custom", '-d', $connstr->('source') ],
	'pg_dump, custom');
create_database('custom');
restore_ok('pg_restore -j2 into a new database', 'pg_restore', '-j', '2',
	'--exit-on-error', '-d', $connstr->('custom'), "$tempdir/custom");
is(state('custom'), $expected, 'pg_restore: all is there');
works('custom', 'pg_restore');

# INSERTs instead of COPY
$node->command_ok(
	[ 'pg_dump', '--inserts', '-f', "$tempdir/inserts.sql", '-d', $connstr->('source') ],
	'pg_dump --inserts');
create_database('inserts');
restore_ok('--inserts into a new database', 'psql', '-Xq1', '-v', 'ON_ERROR_STOP=1',
	'-o', '/dev/null', '-d', $connstr->('inserts'), '-f', "$tempdir/inserts.sql");
is(state('inserts'), $expected, '--inserts: all is there');

# --no-owner: everything belongs to who restores
create_database('no_owner');
restore_ok('pg_restore --no-owner', 'pg_restore', '--no-owner', '--exit-on-error',
	'-d', $connstr->('no_owner'), "$tempdir/custom");
is(state('no_owner'), $expected, '--no-owner: all is there');
works('no_owner', '--no-owner');

# Data only, into the same schema: the settings rows are there already, with
# other values.
foreach my $format ('-Fp', '-Fc', '-Fp --inserts')
{
	my $database = 'data_' . ($format =~ s/\W//gr =~ tr/A-Z/a-z/r);
	my @restore =
	  $format eq '-Fc'
	  ? ('pg_restore', '--data-only', '--exit-on-error', '-d', $connstr->($database))
	  : ('psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $connstr->($database), '-f');

	$node->command_ok(
		[ 'pg_dump', '--data-only', split(/ /, $format), '-f', "$tempdir/data",
			'-d', $connstr->('source') ],
		"pg_dump --data-only $format");
	create_database($database, $create);
	sql($node, $database, q{
		SELECT dc_incr(counter, 'old') FROM dcounter.counter;
		SELECT dc_compact();
		SELECT dc_incr(counter, 'old') FROM dcounter.counter;
		SELECT dc_alter(counter, 'random', 64) FROM dcounter.counter;
		TRUNCATE app.likes, app.likes_shard, app.parts, app.parts_shard,
			app."Odd Name", app."Odd Name_shard", views, views_shard;});
	restore_ok("--data-only $format", @restore, "$tempdir/data");
	is(state($database), $expected, "--data-only $format: data and settings are there");
	works($database, "--data-only $format");
}

# Data only, into new tables that are not registered: dc_adopt is not needed,
# the dump has the settings.
$node->command_ok(
	[ 'pg_dump', '--schema-only', '-f', "$tempdir/schema.sql", '-d', $connstr->('source') ],
	'pg_dump --schema-only');
create_database('two_steps');
restore_ok('--schema-only', 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1',
	'-d', $connstr->('two_steps'), '-f', "$tempdir/schema.sql");
is(settings('two_steps'), '', '--schema-only: not registered');
restore_ok('then --data-only', 'pg_restore', '--data-only', '--exit-on-error',
	'-d', $connstr->('two_steps'), "$tempdir/custom");
is(state('two_steps'), $expected, 'schema and then data: all is there');
works('two_steps', 'schema and then data');

# One schema, by its owner, who is not a superuser; restored by another such role
$node->command_ok(
	[ 'pg_dump', '-n', 'app', '-f', "$tempdir/app.sql", '-U', 'app_owner',
		'-d', $connstr->('source') ],
	'pg_dump -n app by its owner');
$node->command_ok(
	[ 'pg_dump', '-Fc', '-n', 'app', '-f', "$tempdir/app.custom", '-U', 'app_owner',
		'-d', $connstr->('source') ],
	'the same in custom format');
@counters = grep { /^app/ } @counters;
create_database('app', 'CREATE EXTENSION dcounter');
restore_ok('one schema', 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1',
	'-d', $connstr->('app'), '-f', "$tempdir/app.sql");
is(settings('app'), '', 'one schema: not registered yet');
fails_with($node, 'app', "SELECT dc_incr('app.likes', 'a')", '42809',
	'one schema: an unregistered table is an error');
sql($node, 'app', "SET ROLE app_owner; SELECT dc_adopt('$_')") foreach @counters;
is(settings('app'), join("\n", 'app."Odd Name"|app."Odd Name_shard"|backend|64|direct',
		'app.likes|app.likes_shard|backend|64|direct', 'app.parts|app.parts_shard|backend|64|direct'),
	'one schema: adopted with default settings');
is(state('app') =~ s/^.*\|backend\|64\|direct\n//mgr,
	state('source') =~ s/^.*\|(random|hash|backend)\|\d+\|\w+[ \w]*\n//mgr,
	'one schema: all rows are there');
works('app', 'one schema', 'app_owner');

create_database('app_other', 'CREATE EXTENSION dcounter; GRANT CREATE ON DATABASE app_other TO other');
restore_ok('one schema, --no-owner, by another role', 'pg_restore', '--no-owner',
	'--exit-on-error', '-U', 'other', '-d', $connstr->('app_other'), "$tempdir/app.custom");
sql($node, 'app_other', "SET ROLE other; SELECT dc_adopt('$_')") foreach @counters;
is(counts($node, 'app_other', 'app.likes'), counts($node, 'source', 'app.likes'),
	'another role: counts are there');
works('app_other', 'another role', 'other');

# pg_restore --clean over what is there, where both a dump's DROP TABLE and the
# event trigger drop the shard tables. (PostgreSQL itself cannot restore a
# partitioned table with a primary key this way.)
@counters = ('app.likes', 'app."Odd Name"');
sql($node, 'app', 'DROP TABLE app.parts');
my $clean = state('app');
$node->command_ok(
	[ 'pg_dump', '-Fc', '-f', "$tempdir/clean", '-d', $connstr->('app') ],
	'pg_dump before --clean');
works('app', 'before --clean');
isnt(state('app'), $clean, 'before --clean: something has changed');
restore_ok('pg_restore --clean', 'pg_restore', '--clean', '--if-exists',
	'--exit-on-error', '-d', $connstr->('app'), "$tempdir/clean");
is(state('app'), $clean, '--clean: all is as dumped');
works('app', '--clean');

# The whole database, by its owner, who is not a superuser: with the outbox, in which events of others
# are, and its consumers. Nobody else may read these.
my @secret = map { "dcounter.$_" } qw(changed_key consumer consumer_member consumer_retry mark mark_value outbox_seq consumer_id), map { "outbox_$_" } 0 .. 7;
my $owned = q{
	SELECT counter, shards, max_shards, mode FROM dcounter.counter ORDER BY 1;
	SELECT key, value FROM app.likes ORDER BY 1; SELECT * FROM app.likes_shard ORDER BY 1, 2;
	SELECT * FROM dcounter.outbox ORDER BY seq;
	SELECT * FROM dcounter.changed_key ORDER BY 1, 2, 3;
	SELECT * FROM dcounter.consumer ORDER BY 1; SELECT * FROM dcounter.consumer_member ORDER BY 1, 2, 3; SELECT * FROM dcounter.consumer_retry ORDER BY 1, 2;
	SELECT * FROM dcounter.mark; SELECT * FROM dcounter.mark_value ORDER BY 1, 2, 3;
	SELECT last_value, is_called FROM dcounter.outbox_seq; SELECT last_value, is_called FROM dcounter.consumer_id;
	SELECT sum(balance) FROM (SELECT (dc_balance('app.wallet', key)).balance FROM app.wallet_account) AS b};
sql($node, 'postgres', 'CREATE ROLE db_owner LOGIN; CREATE DATABASE owned TEMPLATE template0 OWNER db_owner');
sql($node, 'owned', q{
	CREATE EXTENSION dcounter;
	SELECT dc_consumer_create('billing'), dc_consumer_create('mail', '{orders}'), dc_consumer_create('gone');
	SELECT dc_consumer_drop('gone');
	SET ROLE db_owner;
	CREATE SCHEMA app;
	SELECT dc_create('app.likes', max_shards => 7), dc_ledger_create('app.wallet');
	SELECT dc_alter('app.likes', events => '1 hour');
	SELECT dc_incr('app.likes', k, 3) FROM unnest('{a,b}'::text[]) AS k;
	SELECT dc_mark('app.likes', 'night');
	SELECT dc_reconcile('app.likes', '{b,c}', '{4,5}', 'night');
	SELECT dc_account_open('app.wallet', 'bank', NULL), dc_account_open('app.wallet', 'x');
	SELECT transfer_id FROM dc_transfer('app.wallet', 'bank', 'x', 5, 'e');
	RESET ROLE;
	SET ROLE other;
	SELECT dc_publish('orders', '17', 'e' || g, '{"secret": 1}') FROM generate_series(1, 5) AS g;
	RESET ROLE;
	SELECT count(*) FROM dc_fetch('billing', 3); SELECT dc_nack('billing', min(seq), '1 day', 'no') FROM dcounter.outbox; SELECT dc_ack('billing', max(seq)) FROM (SELECT seq FROM dcounter.outbox ORDER BY seq LIMIT 3) AS e});
$expected = sql($node, 'owned', $owned);
like($expected, qr/e5.*secret.*billing.*^5\|t$/ms, 'owned: there are events and consumers');
foreach my $how ('-Fp', '-Fc', '-Fp --inserts', '-s', '-a')
{
	my $name = 'owned_' . ($how =~ s/\W//gr =~ tr/A-Z/a-z/r);
	my $file = "$tempdir/$name";

	$node->command_ok([ 'pg_dump', split(/ /, $how), '-U', 'db_owner', '-f', $file, '-d', $connstr->('owned') ], "pg_dump $how by the owner of the database");
	next if $how eq '-a';
	sql($node, 'postgres', "CREATE DATABASE $name TEMPLATE template0 OWNER db_owner");
	restore_ok("restore of $how", $how eq '-Fc' ? ('pg_restore', '--exit-on-error', '-j', '2', '-d', $connstr->($name), $file)
		: ('psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d', $connstr->($name), '-f', $file));
	next if $how eq '-s';
	is(sql($node, $name, $owned), $expected, "$how by the owner: all is there");
	is(sql($node, $name, q{SELECT string_agg(type, ' ') FROM dc_fetch('billing'); SELECT dc_consumer_create('next'); SELECT id = max(id) OVER () FROM dcounter.consumer WHERE name = 'next';
		SELECT dc_publish('orders', '18', 'new', NULL) IS NOT NULL; SELECT type FROM dcounter.outbox ORDER BY seq DESC LIMIT 1;
		SET ROLE db_owner; SELECT duplicate FROM dc_transfer('app.wallet', 'bank', 'x', 5, 'e'); SELECT dc_incr('app.likes', 'a'); SELECT dc_get('app.likes', 'a');
		SELECT delta FROM dc_reconcile('app.likes', '{a,b,c}', '{6,4,5}', 'night'); SELECT dc_get('app.likes', k) FROM unnest('{a,b,c}'::text[]) AS k}),
		"\n\nt\nt\nnew\nt\n\n4\n3\n0\n0\n7\n4\n5", "$how by the owner: it goes on");
}
is(sql($node, 'owned', join(' UNION ALL ', map { my $table = $_; map { "SELECT '$_ $table' WHERE has_table_privilege('$_', '$table', 'SELECT')" } 'other', 'app_owner', 'public' } @secret)),
	'', 'nobody else may read these');
is(sql($node, 'owned', join(' UNION ALL ', map { "SELECT '$_' WHERE has_table_privilege('db_owner', '$_', 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER, REFERENCES')" } grep { !/_seq|_id/ } @secret)),
	'', 'and the owner of the database may read only');
is(sql($node, 'owned', q{SELECT has_sequence_privilege('db_owner', 'dcounter.outbox_seq', 'USAGE, UPDATE')}), 'f', 'also the sequences');
fails_with($node, 'owned', "SET ROLE db_owner; SELECT nextval('dcounter.outbox_seq')", '42501', 'it draws no number');
fails_with($node, 'owned', 'SET ROLE other; SELECT * FROM dcounter.mark_value', '42501', 'marks are secret, too');
fails_with($node, 'owned', 'SET ROLE other; SELECT * FROM dcounter.outbox_0', '42501', 'events are secret');
fails_with($node, 'owned', 'SET ROLE other; SELECT last_value FROM dcounter.outbox_seq', '42501', 'and so is how many there are');
sql($node, 'postgres', 'ALTER DATABASE owned OWNER TO postgres');
fails_with($node, 'owned', 'SET ROLE db_owner; SELECT * FROM dcounter.outbox_0', '42501', 'who was the owner may not read them any more');

$node->stop;
done_testing();
