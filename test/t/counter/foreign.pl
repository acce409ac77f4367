# A counter table whose partitions are postgres_fdw foreign tables on two other
# clusters behaves as a local one, and what fails on a remote cluster is an
# error at COMMIT.
#
# What two-phase guarantees there are: increments are written to all clusters
# before any of them commits, so a cluster that is down, refuses a row or has
# lost the connection by then undoes them everywhere. postgres_fdw then commits
# one cluster after the other. If one fails to commit what it has accepted (a
# deferred constraint, a crash in that moment), those committed before it stay
# committed: the last tests here show this, and that the error is still raised.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# A wait for a row of another transaction would be an error. One for autovacuum would be, too
my @conf = ("lock_timeout = '1s'", 'autovacuum = off');
my $local = dc_node('local', conf => \@conf);
my @remotes = map { dc_node($_, extension => 0, conf => \@conf) } 'remote1', 'remote2';
my $partitions = 4;

# create_foreign(DATABASE): the counter table c there, over both remotes, which
# hold its partitions in turns. Both tables of a key are on the same one.
sub create_foreign
{
	my ($database) = @_;
	my %columns = (
		c => 'key text COLLATE "C" NOT NULL, inc bigint NOT NULL DEFAULT 0, dec bigint NOT NULL DEFAULT 0,
			value bigint GENERATED ALWAYS AS (inc - dec) STORED, updated_at timestamptz NOT NULL DEFAULT now()',
		c_shard => 'key text COLLATE "C" NOT NULL, shard int NOT NULL, inc bigint NOT NULL DEFAULT 0,
			dec bigint NOT NULL DEFAULT 0, updated_at timestamptz NOT NULL DEFAULT now()');
	my $sql = 'CREATE EXTENSION IF NOT EXISTS dcounter; CREATE EXTENSION postgres_fdw;';

	foreach my $r (0, 1)
	{
		my $host = $remotes[$r]->host;
		my $port = $remotes[$r]->port;

		sql($remotes[$r], 'postgres', "CREATE DATABASE $database TEMPLATE template0")
		  if $database ne 'postgres';
		$sql .= qq{
			CREATE SERVER remote$r FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname '$database');
			CREATE USER MAPPING FOR CURRENT_USER SERVER remote$r;};
	}
	foreach my $table ('c', 'c_shard')
	{
		my $primary_key = $table eq 'c' ? 'key' : 'key, shard';

		$sql .= "CREATE TABLE $table ($columns{$table}) PARTITION BY HASH (key);\n";
		foreach my $p (0 .. $partitions - 1)
		{
			my $r = $p % 2;

			sql($remotes[$r], $database, "CREATE TABLE ${table}_p$p ($columns{$table}, PRIMARY KEY ($primary_key))");
			$sql .= "CREATE FOREIGN TABLE ${table}_p$p PARTITION OF $table
				FOR VALUES WITH (MODULUS $partitions, REMAINDER $p) SERVER remote$r;\n";
		}
	}
	sql($local, $database, "$sql SELECT dc_adopt('c')");
	return;
}

# The common behaviour tests give the same on a plain counter table.
my $include = $ENV{TESTDIR} . '/test/include/behaviour.sql';
my %output;
foreach my $kind ('plain', 'foreign')
{
	sql($local, 'postgres', "CREATE DATABASE behaviour_$kind TEMPLATE template0");
	sql($local, "behaviour_$kind", "CREATE EXTENSION dcounter; SELECT dc_create('c', totals => 'compacted')") if $kind eq 'plain';
	create_foreign("behaviour_$kind") if $kind eq 'foreign';
	# like pg_regress: echo the statements, both outputs in order
	$local->run_log(
		[ 'psql', '-Xaq', '-v', 'rounds=' . torture(30, 1000), '-d', $local->connstr("behaviour_$kind"), '-f', $include ],
		'>', \$output{$kind}, '2>&1');
	# A key that several transactions have counted in has several rows there, and
	# compaction leaves empty ones where it leaves none of a single row.
	$output{$kind} =~ s/^\|$/0|0/mg;
}
cmp_ok(length($output{plain}), '>', 10000, 'the behaviour tests ran');
is(join('', grep { /^[-+][^-+]/ } split /^/, diff($output{plain}, $output{foreign})),
	'', 'the behaviour is that of a plain counter table');

# One table over both clusters, a local one beside it, and two keys on each
create_foreign('postgres');
sql($local, 'postgres', "SELECT dc_create('l', totals => 'compacted')");
my %keys = (0 => [], 1 => []);
foreach my $key ('a' .. 'z')
{
	my $p = sql($local, 'postgres', qq{
		SELECT min(p) FROM generate_series(0, @{[ $partitions - 1 ]}) AS p
		WHERE satisfies_hash_partition('c'::regclass, $partitions, p, '$key'::text)});
	push @{ $keys{ $p % 2 } }, $key;
}
my ($k0, $k1) = map { $keys{$_}[0] } 0, 1;
my %count = ($k0 => 0, $k1 => 0, local => 0);

# counts_are(NAME): the counts of $k0, $k1 and the local key are those expected,
# to a new session, before and after what is under way has ended
sub counts_are
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(sql($local, 'postgres', "SELECT dc_get('c', '$k0'), dc_get('c', '$k1'), dc_get('l', 'local')"),
		join('|', @count{ $k0, $k1, 'local' }), $name);
}

# add(AMOUNT): SQL that counts on both clusters and locally
sub add
{
	my ($amount) = @_;

	return "SELECT dc_incr('c', '$k1', $amount), dc_incr('c', '$k0', $amount), dc_incr('l', 'local', $amount);";
}

# The first use in a session: our callback must come before that of the wrapper,
# whichever was loaded first. If it came after, the commit would PANIC.
my $started = sql($local, 'postgres', 'SELECT pg_postmaster_start_time()');
my $scan = 'SELECT count(*) FROM c_shard;';
my %first = (
	'an increment' => add(1),
	'an increment in a block' => 'BEGIN;' . add(1) . 'COMMIT;',
	'one on a local table' => "BEGIN; SELECT dc_incr('l', 'other'); COMMIT; BEGIN;" . add(1) . 'COMMIT;',
	'a local one, then the wrapper in the same transaction' =>
	  "BEGIN; SELECT dc_incr('l', 'other'); $scan" . add(1) . 'COMMIT;',
	'dcounter, then the wrapper' => "LOAD 'dcounter'; $scan" . add(1),
	'the wrapper, then dcounter' => "LOAD 'postgres_fdw'; $scan" . add(1),
	'a rolled back savepoint' => 'BEGIN; SAVEPOINT s;' . add(100) . 'ROLLBACK TO s;' . add(1) . 'COMMIT;',
	'a rolled back transaction' => 'BEGIN;' . add(100) . 'ROLLBACK;' . add(1),
	'a failed transaction' => 'BEGIN;' . add(100) . "SELECT 1 / 0; COMMIT;" . add(1),
	'dc_get' => "SELECT dc_get('c', 'x');" . add(1),
	'dc_compact' => "SELECT dc_compact('c');" . add(1),
	'dc_stat_shards' => 'SELECT count(*) FROM dc_stat_shards;' . add(1),
	'dc_stat_shards after it' => 'BEGIN;' . add(1) . 'SELECT count(*) FROM dc_stat_shards; COMMIT;',
	'dc_set' => "SELECT dc_set('c', 'x', 5);" . add(1),
	'dc_apply' => 'BEGIN;' . add(3) . 'SELECT dc_apply();' . add(-2) . 'COMMIT;',
	'REPEATABLE READ' => 'BEGIN ISOLATION LEVEL REPEATABLE READ;' . add(1) . 'COMMIT;',
	'SERIALIZABLE' => 'BEGIN ISOLATION LEVEL SERIALIZABLE;' . add(1) . 'COMMIT;');
foreach my $name (sort keys %first)
{
	$local->psql('postgres', $first{$name}, on_error_stop => 0);
	$count{$_}++ foreach keys %count;
	counts_are("first in a session: $name");
}
is(sql($local, 'postgres', 'SELECT pg_postmaster_start_time()'), $started, 'the server did not crash');

# An open transaction does not block others, nor compaction
my @open = map { dc_session($local, 'postgres') } 1 .. 2;
$open[0]->run('BEGIN;' . add(10));
$open[1]->run('BEGIN;' . add(10) . 'SELECT dc_apply()');
sql($local, 'postgres', add(1) . "SELECT dc_compact('c');" . add(1));
$count{$_} += 2 foreach keys %count;
counts_are('beside open transactions');
unlike($_->run('COMMIT'), qr/ERROR/, 'an open transaction commits') foreach @open;
$count{$_} += 20 foreach keys %count;
counts_are('open transactions have committed');
$_->quit foreach @open;

# Concurrent writers and compaction
my $clients = 8;
my $transactions = torture(50, 2000);
my $writer = file_of('writer.sql', "\\set r random(1, 3)\nBEGIN;\n" . add(1) . "SELECT dc_incr('c', 'many ' || :r);\nCOMMIT;\n");
my $compact = file_of('compact.sql', "SELECT dc_compact('c');\n");
my $compactor = start_command('pgbench', '-n', '-t', $transactions, '-f', $compact, $local->connstr('postgres'));
$local->command_ok([ 'pgbench', '-n', '-c', $clients, '-t', $transactions, '-f', $writer, $local->connstr('postgres') ],
	'concurrent writers');
is(finish_job($compactor), 0, 'compaction beside them') or diag($compactor->{err});
$count{$_} += $clients * $transactions foreach keys %count;
counts_are('after concurrent writers');
is(sql($local, 'postgres', "SELECT sum(value) FROM dc_get_many('c', ARRAY['many 1', 'many 2', 'many 3'])"),
	$clients * $transactions, 'the other keys add up');

# What fails while increments are written is an error at COMMIT, and undoes all.
my $session = dc_session($local, 'postgres');
$session->run(add(1));
$count{$_}++ foreach keys %count;
foreach my $r (0, 1)
{
	my $remote = $remotes[$r];
	my $check = sub {
		my ($prefix) = @_;
		my $sql = join(' ', map { $_ % 2 == $r ? "ALTER TABLE c_shard_p$_ $prefix;" : '' } 0 .. $partitions - 1);
		sql($remote, 'postgres', $sql);
	};

	$check->('ADD CONSTRAINT small CHECK (inc < 100000)');
	unlike($session->run('BEGIN;' . add(100000)), qr/ERROR/, "remote$r: a refused increment is no error yet");
	is($session->run('COMMIT'), 'ERROR 23514', "remote$r: it is one at commit");
	counts_are("remote$r: nothing is counted of a refused transaction");
	is($session->run(add(100000)), 'ERROR 23514', "remote$r: nor of a single statement");
	counts_are("remote$r: nothing is counted");
	$check->('DROP CONSTRAINT small');

	# with and without a remote transaction that was open before
	foreach my $before ('', "SELECT dc_get('c', '$k0'), dc_get('c', '$k1');")
	{
		unlike($session->run("BEGIN; $before" . add(1)), qr/ERROR/, "remote$r: increments before it goes down");
		$remote->stop('fast');
		like($session->run('COMMIT'), qr/^ERROR (08|57)/, "remote$r: its being down is an error at commit");
		$remote->start;
		counts_are("remote$r: nothing is counted of it");
		is($session->run(add(1)) =~ /ERROR/, '', "remote$r: the session goes on");
		$count{$_}++ foreach keys %count;
		counts_are("remote$r: and counts again");
	}
}

# The same for what was written early, by a transaction that has lost one of its
# connections since
foreach my $r (0, 1)
{
	unlike($session->run('BEGIN;' . add(1) . 'SELECT dc_apply()'), qr/ERROR/, "remote$r: increments written early");
	sql($remotes[$r], 'postgres', "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE application_name = 'postgres_fdw'");
	like($session->run('COMMIT'), qr/^ERROR (08|57)/, "remote$r: a lost connection is an error at commit");
	counts_are("remote$r: nothing is counted of what was written early");
	%count = map { $_ => sql($local, 'postgres', "SELECT dc_get('" . ($_ eq 'local' ? 'l' : 'c') . "', '$_')") } keys %count;
}
is($session->run('BEGIN;' . add(100) . "PREPARE TRANSACTION 'foreign'"), 'ERROR 0A000',
	'a transaction with remote parts cannot be prepared');
counts_are('nothing is counted of it');

# Statistics: live numbers come from all clusters. Those of a table of which a part
# cannot be reached are not known, and those of others are.
my $live = q{SELECT string_agg(counter || '=' || coalesce(active_keys::text, 'unknown'), ' ' ORDER BY counter::text) FROM dc_stat_shards};
sql($local, 'postgres', 'SELECT dc_compact();' . add(1) . "SELECT dc_incr('l', 'another')");
$count{$_}++ foreach keys %count;
is(sql($local, 'postgres', $live), 'c=2 l=2', 'live numbers of a foreign table');
is($session->run("BEGIN;" . add(1) . $live), "||\nc=2 l=2", 'and in a transaction that counts');
$session->run('COMMIT');
$count{$_}++ foreach keys %count;
$remotes[0]->stop('fast');
is(sql($local, 'postgres', $live), 'c=unknown l=2', 'live numbers while a server is down');
is(sql($local, 'postgres', q{SELECT string_agg(counter::text, ' ' ORDER BY counter::text) FROM dc_stat_counters}), 'c l', 'dc_stat_counters needs none');
is($session->run("BEGIN; SELECT dc_incr('l', 'local'); $live; COMMIT"), "\nc=unknown l=2", 'to a session that was connected to it');
$count{local}++;
$remotes[0]->start;
counts_are('after that');

# The limit of this: a cluster that fails to commit what it has accepted. The
# error is raised, and nothing is counted locally nor on that cluster, but what
# postgres_fdw had committed on the other one before it stays.
my $half = 0;
foreach my $r (0, 1)
{
	my ($failing, $other) = $r == 0 ? ($k0, $k1) : ($k1, $k0);
	my @tables = grep { /(\d)$/ && $1 % 2 == $r } map { "c_shard_p$_" } 0 .. $partitions - 1;

	sql($remotes[$r], 'postgres', join("\n", q{
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE integrity_constraint_violation; END';},
		map { "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON $_ DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail();" } @tables));
	is($session->run('BEGIN;' . add(1) . 'COMMIT'), 'ERROR 23000', "remote$r: failing to commit is an error at commit");
	my $got = sql($local, 'postgres', "SELECT dc_get('c', '$other')");
	$half++ if $got == $count{$other} + 1;
	$count{$other} = $got if $got == $count{$other} + 1;
	counts_are("remote$r: nothing is counted on it, nor locally");
	sql($remotes[$r], 'postgres', 'DROP FUNCTION fail CASCADE');
}
is($half, 1, 'the cluster that postgres_fdw commits first keeps its part');

# What the other clusters return is checked: a null where the tables here say none is
my $table = sql($local, 'postgres', "SELECT tableoid::regclass FROM c WHERE key = '$k0'");
sql($remotes[0], 'postgres', "ALTER TABLE $table ALTER inc DROP NOT NULL, ALTER updated_at DROP NOT NULL;
	UPDATE $table SET inc = NULL WHERE key = '$k0'");
foreach my $call ("dc_get('c', '$k0')", "dc_get_many('c', ARRAY['$k0'])", "dc_total('c', '$k0')", "dc_set('c', '$k0', 1)")
{
	is($session->run("SELECT $call"), 'ERROR 42809', "a null inc: $call");
}
sql($remotes[0], 'postgres', "UPDATE $table SET inc = dec + $count{$k0}, updated_at = NULL WHERE key = '$k0'");
is($session->run("SELECT dc_get('c', '$k0')"), 'ERROR 42809', 'a null updated_at');
sql($remotes[0], 'postgres', "UPDATE $table SET updated_at = now() WHERE key = '$k0'");

# TRUNCATE goes to the other clusters, and DROP of the shard table is no error later
is($session->run('BEGIN;' . add(1) . 'TRUNCATE c;' . add(1) . "COMMIT; SELECT dc_get('c', '$k0'), dc_sum('c')") =~ s/^.*\n//sr, '1|2', 'TRUNCATE');
is($session->run('BEGIN;' . add(1) . "SELECT dc_apply(); DROP TABLE c_shard; COMMIT; SELECT to_regclass('c_shard') IS NULL") =~ s/^.*\n//sr, 't', 'DROP TABLE of the shard table after increments');

unlike(slurp_file($local->logfile), qr/PANIC/, 'no PANIC');
$session->quit;

# diff(A, B): unified
sub diff
{
	my @files = (file_of('plain.out', $_[0]), file_of('foreign.out', $_[1]));
	my $out = '';

	$local->run_log([ 'diff', '-U2', @files ], '>', \$out);
	note($out);
	return $out;
}

$_->stop foreach $local, @remotes;
done_testing();
