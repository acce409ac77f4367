# Ledgers with entries by month: who makes a month that is missing, the worker's job,
# detaching under way, dump and restore, and adopting the tables after DROP EXTENSION.
use strict;
use warnings;

use DcTest;
use DcWorker 'step_failures';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tempdir = PostgreSQL::Test::Utils::tempdir();
my $helpers = q{
	CREATE FUNCTION this_month(later int = 0) RETURNS text LANGUAGE sql AS $$
		SELECT 'app.w_entry_' || to_char(now() AT TIME ZONE 'UTC' + later * interval '1 month', 'YYYY_MM') $$;
	CREATE FUNCTION drop_months(VARIADIC later int[]) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. cardinality(later) LOOP
			EXECUTE format('DROP TABLE %s', this_month(later[i]));
		END LOOP;
	END $$;
	CREATE FUNCTION months() RETURNS text LANGUAGE sql AS $$
		SELECT string_agg((to_regclass(this_month(i)) IS NOT NULL)::text, ' ' ORDER BY i) FROM generate_series(0, 2) AS i $$;};
my $create = qq{
	CREATE SCHEMA app AUTHORIZATION app_owner;
	SET ROLE app_owner;
	SELECT dc_ledger_create('app.w', auto_open => true, partition_by => 'month');
	SELECT dc_account_open('app.w', 'bank', NULL);
	RESET ROLE;
	$helpers};
my $check = q{SELECT * FROM dc_ledger_check('app.w')};

# entry(OP [, AMOUNT]): a transfer
sub entry
{
	my ($op, $amount) = @_;

	$amount //= 1;
	return "SELECT duplicate FROM dc_transfer('app.w', 'bank', 'a$amount', $amount, '$op')";
}

# waits(NODE, PID, NAME): a session waits for a lock on the entries, or for its holder
sub waits
{
	my ($node, $pid, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(wait_for($node, 'postgres', "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND pid = $pid", 't'), 't', $name);
	return;
}

sub is_sound
{
	my ($node, $database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(sql($node, $database, $check), '', "$name: the ledger is sound");
	return;
}

#
# A missing month, without a worker
#
my $plain = dc_node('plain', conf => [ 'autovacuum = off', 'fsync = off', 'wal_level = logical' ]);
sql($plain, 'postgres', "CREATE ROLE app_owner LOGIN; $create");
my ($s1, $s2) = map { dc_session($plain, 'postgres') } (1, 2);
my $pid2 = $s2->run('SELECT pg_backend_pid()');

foreach my $end ('COMMIT', 'ROLLBACK', "PREPARE TRANSACTION 'x'; COMMIT PREPARED 'x'", "PREPARE TRANSACTION 'x'; ROLLBACK PREPARED 'x'")
{
	my $survives = $end =~ /ROLLBACK/ ? 0 : 1;
	my $op = $end =~ s/\W+/ /gr;

	sql($plain, 'postgres', 'SELECT drop_months(0)');
	$s1->run('BEGIN');
	is($s1->run(entry("first $op")), 'f', "$end: a transfer makes its month");
	$s2->send(entry("second $op"));
	waits($plain, $pid2, "$end: another that needs it waits");
	$s1->run("$_;") foreach split(/; /, $end);
	is($s2->wait, 'f', "$end: and has it, or makes it");
	is(sql($plain, 'postgres', q{SELECT count(*), bool_and(tableoid::regclass::text = this_month()) FROM app.w_entry}),
		2 * (1 + $survives) . '|t', "$end: all entries are in that month");
}

# Bounds of a remembered partition: it ends while the session continues
sql($plain, 'postgres', q{
	SELECT drop_months(0);
	CREATE TABLE app.until AS SELECT now() + interval '15 seconds' AS at;
	SET timezone = 'UTC';
	SELECT format('CREATE TABLE app.w_entry_early PARTITION OF app.w_entry FOR VALUES FROM (%L) TO (%L)', date_trunc('month', now()), at),
		format('CREATE TABLE app.w_entry_late PARTITION OF app.w_entry FOR VALUES FROM (%L) TO (%L)', at, date_trunc('month', at) + interval '1 month') FROM app.until \gexec
	CREATE TRIGGER dcounter_guard_truncate BEFORE TRUNCATE ON app.w_entry_early EXECUTE FUNCTION dcounter.on_ledger_change();
	CREATE TRIGGER dcounter_guard_truncate BEFORE TRUNCATE ON app.w_entry_late EXECUTE FUNCTION dcounter.on_ledger_change();});
is($s1->run(entry("early $_")), 'f', "a transfer to the first partition") foreach (1, 2);
is(wait_for($plain, 'postgres', 'SELECT clock_timestamp() > at FROM app.until', 't'), 't', 'it has ended');
is($s1->run(entry("late $_")), 'f', "a transfer to the second one") foreach (1, 2);
is(sql($plain, 'postgres', q{SELECT tableoid::regclass, string_agg(DISTINCT op_id, ' '), bool_and((at >= (SELECT at FROM app.until)) = (op_id ~ 'late'))
	FROM app.w_entry GROUP BY 1 ORDER BY 1}), "app.w_entry_early|early 1 early 2|t\napp.w_entry_late|late 1 late 2|t", 'each is where it belongs');
sql($plain, 'postgres', 'DROP TABLE app.w_entry_early, app.w_entry_late');

# Many at once
my $script = file_of('month.sql', "\\set a random(1, 5)\n\\set e random(1, 1000000000)\nSELECT dc_transfer('app.w', 'bank', 'a' || :a, :a, 'e' || :e);\n");
$plain->command_ok([ 'pgbench', '-n', '-c', '8', '-j', '2', '-t', '20', '-f', $script, '-d', $plain->connstr('postgres') ], 'eight sessions at once');
is(sql($plain, 'postgres', q{SELECT count(*), count(DISTINCT tableoid), bool_and(tableoid::regclass::text = this_month()) FROM app.w_entry}), '320|1|t', 'all of their entries are there');

# Detaching waits for a prepared transaction that has posted
sql($plain, 'postgres', "CREATE TABLE app.w_entry_2024_01 PARTITION OF app.w_entry FOR VALUES FROM ('2024-01-01 00:00:00+00') TO ('2024-02-01 00:00:00+00')");
$s1->run('BEGIN');
$s1->run(entry('prepared'));
$s1->run(q{PREPARE TRANSACTION 'x'});
$s2->send(q{SELECT dc_ledger_detach('app.w', now())});
waits($plain, $pid2, 'detaching waits for a prepared transaction');
is($s1->run(entry('beside it')), 'f', 'others post meanwhile');
$s1->run(q{COMMIT PREPARED 'x'});
is($s2->wait, 'app.w_entry_2024_01', 'then it goes on');
$_->quit foreach ($s1, $s2);
unlike(slurp_file($plain->logfile), qr/deadlock detected/, 'no deadlock');
$plain->stop;

#
# The worker
#
my $node = dc_node('worker', extension => 0, conf => [ q{shared_preload_libraries = 'dcounter'},
	q{dcounter.expire_interval = '20ms'}, 'fsync = off' ]);
sql($node, 'postgres', "CREATE ROLE app_owner LOGIN; CREATE DATABASE source");
sql($node, 'source', "CREATE EXTENSION dcounter; $create");
my $runs = q{(SELECT runs FROM dc_stat_worker WHERE datname = 'source' AND job = 'ledger')};

sql($node, 'source', 'SELECT drop_months(0, 1, 2)');
is(wait_for($node, 'source', 'SELECT months()', 'true true true'), 'true true true', 'the worker makes this month and the next two');
is(sql($node, 'source', q{SELECT string_agg(DISTINCT relowner::regrole::text, ' ') FROM pg_class WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'app.w_entry'::regclass)}),
	'app_owner', 'they are the owner\'s');
is(sql($node, 'source', q{SELECT count(*), count(DISTINCT tgrelid) FROM pg_trigger WHERE tgrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'app.w_entry'::regclass)}),
	'6|3', 'and protected');
# It waits for nobody
my $session = dc_session($node, 'source');
$session->run('BEGIN; SELECT drop_months(2); SAVEPOINT s');
my $seen = sql($node, 'source', "SELECT $runs");
is(wait_for($node, 'source', "SELECT $runs > $seen + 2", 't'), 't', 'it passes over a table that is locked');
$session->run('COMMIT');
is(wait_for($node, 'source', 'SELECT months()', 'true true true'), 'true true true', 'and comes back');
$session->quit;
is(step_failures($node), '', 'no step of it has failed');

#
# Dump and restore, with openings and pending transfers
#
sql($node, 'source', q{
	CREATE TABLE app.w_entry_2024_01 PARTITION OF app.w_entry FOR VALUES FROM ('2024-01-01 00:00:00+00') TO ('2024-02-01 00:00:00+00');
	CREATE TABLE app.w_entry_2024_02 PARTITION OF app.w_entry FOR VALUES FROM ('2024-02-01 00:00:00+00') TO ('2024-03-01 00:00:00+00');
	ALTER TABLE app.w_entry_2024_01 OWNER TO app_owner;
	ALTER TABLE app.w_entry_2024_02 OWNER TO app_owner;
	SELECT dc_ledger_adopt('app.w');});
sql($node, 'source', entry($_, $_)) foreach (1, 2, 3);
sql($node, 'source', q{
	SELECT dc_transfer_post('app.w', transfer_id, 3) FROM dc_transfer_pending('app.w', 'a3', 'a1', 3, 'pending');
	SELECT transfer_id FROM dc_transfer_pending('app.w', 'bank', 'a1', 9, 'open', ttl => NULL);
	SET session_replication_role = replica;
	UPDATE app.w_entry SET at = '2024-01-10' WHERE op_id = '1';
	UPDATE app.w_entry SET at = '2024-02-10' WHERE op_id IN ('2', 'pending');
	UPDATE app.w_pending SET ended_at = '2024-02-10' WHERE op_id = 'pending';});
is_sound($node, 'source', 'source');
is(sql($node, 'source', q{SET ROLE app_owner; SELECT dc_ledger_detach('app.w', '2024-02-01 00:00:00+00')}), 'app.w_entry_2024_01', 'a month is detached');
is_sound($node, 'source', 'detached');

# state(DATABASE): everything in the ledger
sub state
{
	my ($database) = @_;

	return sql($node, $database, q{
		SET timezone = 'UTC';
		SELECT * FROM dcounter.ledger;
		SELECT counter, op_retention, ledger FROM dcounter.counter ORDER BY counter::text;
		SELECT * FROM app.w_opening ORDER BY key;
		SELECT tableoid::regclass, * FROM app.w_entry ORDER BY entry_id;
		SELECT * FROM app.w_pending ORDER BY transfer_id;
		SELECT k, dc_balance('app.w', k), dc_balance_at('app.w', k, '2024-02-15') FROM unnest('{bank,a1,a2,a3}'::text[]) AS k;
		SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger WHERE tgfoid = 'dcounter.on_ledger_change'::regproc ORDER BY tgrelid::regclass::text, tgname;});
}

# works(DATABASE): it posts, knows what was posted, and detaches
sub works
{
	my ($database) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is_sound($node, $database, $database);
	is(sql($node, $database, entry($_, $_)), 't', "$database: op $_ is known") foreach (1, 2, 3);
	is(sql($node, $database, entry('new')), 'f', "$database: a new transfer is posted");
	is(sql($node, $database, q{SELECT dc_transfer_post('app.w', transfer_id) FROM app.w_pending WHERE op_id = 'open'}), 'posted', "$database: a pending one, too");
	fails_with($node, $database, q{UPDATE app.w_entry SET amount = 0}, '55000', "$database: entries are protected");
	fails_with($node, $database, q{SELECT dc_balance_at('app.w', 'a1', '2024-01-31')}, '55000', "$database: the openings count");
	is(sql($node, $database, q{SELECT dc_ledger_detach('app.w', now())}), 'app.w_entry_2024_02', "$database: the next month is detached");
	is(sql($node, $database, q{SELECT string_agg(key || '=' || amount, ' ' ORDER BY key) FROM app.w_opening}), 'a1=4 a2=2 a3=-3 bank=-3', "$database: and carried forward");
	is_sound($node, $database, $database);
	is(wait_for($node, $database, 'SELECT months()', 'true true true'), 'true true true', "$database: months are made");
	return;
}

my $expected = state('source');
like($expected, qr/^app\.w\|app\.w_limit\|.*app\.w_opening\|t$/m, 'there is a ledger with openings');
my $connstr = sub { return $node->connstr($_[0]) };
$node->command_ok([ 'pg_dump', '-f', "$tempdir/plain.sql", '-d', $connstr->('source') ], 'pg_dump, plain');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$tempdir/custom", '-d', $connstr->('source') ], 'pg_dump, custom');
$node->command_ok([ 'pg_dump', '-Fc', '-n', 'app', '-f', "$tempdir/app", '-d', $connstr->('source') ], 'pg_dump of the schema');
sql($node, 'postgres', "CREATE DATABASE $_ TEMPLATE template0") foreach ('plain', 'custom', 'two_steps', 'one_schema');

$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d', $connstr->('plain'), '-f', "$tempdir/plain.sql" ], 'plain dump restored');
is(state('plain'), $expected, 'plain: all is there');
works('plain');
$node->command_ok([ 'pg_restore', '-j', '2', '--exit-on-error', '-d', $connstr->('custom'), "$tempdir/custom" ], 'pg_restore -j2');
is(state('custom'), $expected, 'pg_restore: all is there');
works('custom');
# The data again: the rows of the catalogs are there already
sql($node, 'custom', 'DELETE FROM dcounter.op_slot');
$node->command_ok([ 'pg_restore', '--data-only', '--exit-on-error', '-t', 'ledger', '-d', $connstr->('custom'), "$tempdir/custom" ], 'the catalog of ledgers again');
$node->command_ok([ 'pg_restore', '--schema-only', '--exit-on-error', '-d', $connstr->('two_steps'), "$tempdir/custom" ], 'the schema');
$node->command_ok([ 'pg_restore', '--data-only', '--disable-triggers', '--exit-on-error', '-d', $connstr->('two_steps'), "$tempdir/custom" ], 'and the data');
is(state('two_steps'), $expected, 'schema and then data: all is there');
works('two_steps');

# One schema: the tables have to be adopted
sql($node, 'one_schema', "CREATE EXTENSION dcounter; $helpers");
$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $connstr->('one_schema'), "$tempdir/app" ], 'one schema');
fails_with($node, 'one_schema', $check, '42809', 'one schema: it is no ledger yet');
fails_with($node, 'one_schema', q{SELECT dc_adopt('app.w')}, '42809', 'nor can it become a counter table');
sql($node, 'one_schema', q{SET ROLE app_owner; SELECT dc_ledger_adopt('app.w', auto_open => true)});
is(state('one_schema'), $expected, 'one schema: all is there');
works('one_schema');

#
# DROP EXTENSION
#
fails_with($node, 'source', 'DROP EXTENSION dcounter', '2BP01', 'DROP EXTENSION is refused while there are ledgers');
is_sound($node, 'source', 'not dropped');
sql($node, 'source', 'SET client_min_messages = warning; DROP EXTENSION dcounter CASCADE');
is(sql($node, 'source', q{SELECT count(*) FROM pg_trigger WHERE tgrelid::regclass::text ~ '^app\.'}), '0', 'DROP EXTENSION CASCADE drops what protects the tables');
is(sql($node, 'source', q{SELECT count(*) FROM app.w_opening}), '2', 'but not the tables');
sql($node, 'source', 'CREATE EXTENSION dcounter');
fails_with($node, 'source', entry('new'), '42809', 'a new extension does not know the ledger');
sql($node, 'source', q{SET ROLE app_owner; SELECT dc_ledger_adopt('app.w', auto_open => true)});
is(state('source'), $expected, 'adopted: all is there');
works('source');
# A restore brings the keys and triggers last
is(sql($node, 'plain', q{SELECT string_agg(DISTINCT last_error, ' ') FROM dc_stat_worker WHERE failures > 0 AND last_error !~ 'is not protected|is not as dcounter created it|canceling statement due to user request'}), '', 'no other step of the workers has failed');

$node->stop;
done_testing();
