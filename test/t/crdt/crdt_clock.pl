# The hybrid logical clock: no time is given out twice and none is before an earlier one,
# over sessions, rollbacks, crashes, steps of the wall clock, promotion of a standby,
# dump and restore. The wall clock is set back by an hour for most of it, so that it
# hides nothing.
use strict;
use warnings;

use DcClock;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'a clock that can be set needs Linux, a compiler, and a server without AddressSanitizer' if !clock_prepare();

my $second = 1_000_000;
my $hour = 3600 * $second;

# Nothing but the clock itself flushes WAL
my $node = dc_node('main', init => { allows_streaming => 1 }, conf => [ 'autovacuum = off', 'synchronous_commit = off', "wal_writer_delay = '10s'", 'wal_writer_flush_after = 0' ]);
my $last = 0;    # the last time that was given out

setup('postgres', 'eu');

sub setup
{
	my ($database, $name) = @_;

	sql($node, $database, qq{
		ALTER DATABASE $database SET dcounter.node = '$name';
		CREATE FUNCTION hlc() RETURNS bigint LANGUAGE sql AS \$\$SELECT (dc_hlc_now()::jsonb ->> 'time')::bigint\$\$;
		CREATE FUNCTION hlc_after(seen bigint) RETURNS bigint LANGUAGE sql AS
			\$\$SELECT (dc_hlc_after(format('{"time": %s, "node": "us"}', seen)::dc_hlc)::jsonb ->> 'time')::bigint\$\$;
		CREATE FUNCTION wall() RETURNS bigint LANGUAGE sql AS \$\$SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint\$\$});
	return;
}

# goes_on(TIME, NAME [, LEAST, MOST]): a test whether it is after the last one, by that much
sub goes_on
{
	my ($time, $name, $least, $most) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $step = $time - $last;

	ok($step >= ($least // 1) && $step <= ($most // 2 * $hour), $name) or diag("a step of $step");
	$last = $time;
	return;
}

sub hlc
{
	return sql($node, $_[0] // 'postgres', 'SELECT hlc()');
}

sub crash
{
	$node->kill9;
	restart_after_kill9($node);
	return;
}

##
is(sql($node, 'postgres', 'SELECT dc_node(), dc_hlc_node(dc_hlc_now())'), 'eu|eu', 'the name of the database');
is(sql($node, 'postgres', q{SELECT w <= s AND s <= wall(), dc_hlc_time(format('{"time": %s, "node": "x"}', s)::dc_hlc) BETWEEN now() AND clock_timestamp()
	FROM (SELECT wall() AS w, hlc() AS s OFFSET 0) AS x}), 't|t', 'it is as late as the wall clock, to begin with');
$last = hlc();

# Who was first, in whatever session, has the earlier one; a rollback takes back nothing
{
	my @sessions = map { dc_session($node, 'postgres') } 1 .. 2;

	foreach my $step (0, -3600)
	{
		clock_step($step);
		goes_on($sessions[ $_ % 2 ]->run('SELECT hlc()'), "sessions by turns, $step") foreach 1 .. 4;
		$sessions[0]->run('BEGIN');
		goes_on($sessions[0]->run('SELECT hlc()'), "a transaction, $step");
		$sessions[0]->run('SAVEPOINT s');
		goes_on($sessions[0]->run('SELECT hlc()'), "a savepoint, $step");
		goes_on($sessions[1]->run('SELECT hlc()'), "another session, $step");
		$sessions[0]->run('ROLLBACK TO s');
		goes_on($sessions[0]->run('SELECT hlc()'), "after a rollback to it, $step");
		$sessions[0]->run('ROLLBACK');
		goes_on($sessions[0]->run('SELECT hlc()'), "after a rollback of all, $step");
	}
	$_->quit foreach @sessions;
}

# One by one until the wall clock has caught up
goes_on(hlc(), 'an hour back', 1, 1);
clock_step(3600);
goes_on(hlc(), 'an hour forward', $hour - $second, $hour + 600 * $second);
clock_step(0);
goes_on(hlc(), 'and back', 1, 1);
clock_step(-3600);
goes_on(hlc(), 'and further', 1, 1);

$node->restart;
goes_on(hlc(), 'after a restart', 1, 1);
crash();
goes_on(hlc(), 'after a crash: up to a second is skipped', 1, $second + 1);

# What only a client knows of is not given out again: the record is flushed before. Then
# within what is logged; after a checkpoint, before which the record would be; and
# what one session has got by another one's record.
foreach my $before ('', 'CHECKPOINT', 'SELECT hlc()')
{
	sql($node, 'postgres', $before) if $before;
	goes_on(hlc(), "a stamp that nobody writes, after '$before'");
	crash();
	goes_on(hlc(), "a crash after '$before'", 1, $second + 2);
}
sql($node, 'postgres', 'SELECT hlc(); CHECKPOINT; SELECT hlc()');
goes_on(hlc(), 'a stamp after a checkpoint');
crash();
goes_on(hlc(), 'a crash after a checkpoint', 1, $second + 2);

# One session in which there are some before a checkpoint, and some after
{
	my $session = dc_session($node, 'postgres');

	$session->run('SELECT hlc()');
	sql($node, 'postgres', 'CHECKPOINT');
	goes_on($session->run('SELECT hlc() FROM generate_series(1, 5)') =~ s/.*\n//sr, 'the same session after a checkpoint');
	crash();
	goes_on(hlc(), 'and a crash', 1, $second + 2);
}

# A database that is made of another one has a copy of the page, but no record of its own.
# The same goes for sequences of which whole blocks are drawn.
foreach my $strategy ('wal_log', 'file_copy')
{
	my $copy = "copy_$strategy";
	my $publish = q{SELECT count(dc_publish('t', 'k', 'x', '{}'))};

	$last = hlc();
	sql($node, 'postgres', $publish);
	sql($node, 'template1', "SET synchronous_commit = on; CREATE DATABASE $copy TEMPLATE postgres STRATEGY $strategy; ALTER DATABASE $copy SET dcounter.node = '$strategy'");
	goes_on(hlc($copy), "a copied database, $strategy");
	sql($node, $copy, "SET synchronous_commit = on; $publish");
	crash();
	goes_on(hlc($copy), "a crash of it, $strategy", 1, $second + 2);
	sql($node, $copy, $publish);
	is(sql($node, $copy, 'SELECT count(*) - count(DISTINCT seq), count(*) >= 3 FROM dcounter.outbox'), '0|t', "and of its outbox, $strategy");
}

##
## Sessions at the same time, which roll back half of what they do: each time is
## given out once, and each session sees its own rise. The server is killed meanwhile.

sub load
{
	my ($jobs, $rounds) = @_;
	my $round = q{
		INSERT INTO given SELECT hlc() FROM generate_series(1, 20) RETURNING t;
		BEGIN; SELECT hlc(); SAVEPOINT s; INSERT INTO given SELECT hlc() FROM generate_series(1, 20) RETURNING t; ROLLBACK TO s; SELECT hlc_after(wall() + 1000); ROLLBACK;
		SELECT hlc();
	};

	return map { start_job($node, 'postgres', file_of("load_$_", $round x $rounds)) } 1 .. $jobs;
}

# collect(NAME, TIMES, JOB...): waits for the jobs, and looks at all times there were
sub collect
{
	my ($name, $times, @jobs) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($twice, $back) = (0, 0);

	foreach my $job (@jobs)
	{
		my $before = 0;

		finish_job($job);
		unlike($job->{err}, qr/ERROR/, "$name: a session has no errors");
		foreach my $time ($job->{out} =~ /^(\d{16})$/mg)
		{
			$twice++ if $times->{$time}++;
			$back++ if $time <= $before;
			$before = $time;
			$last = $time if $time > $last;
		}
	}
	is("$twice $back", '0 0', "$name: none is given out twice, none is before another of its session");
	return;
}

my %times;
$last = hlc();
sql($node, 'postgres', 'CREATE TABLE given (t bigint PRIMARY KEY)');
foreach my $step (7200, 0)
{
	clock_step($step);
	collect("load, $step", \%times, load(8, torture(40, 1000)));
	is(scalar(keys %times), 8 * torture(40, 1000) * 43 * ($step ? 1 : 2), "load, $step: all are there");
	goes_on(hlc(), "after the load, $step");
}
foreach my $n (1 .. torture(3, 20))
{
	my @jobs = load(4, 1000);

	wait_for($node, 'postgres', "SELECT count(*) > $n * 1000 FROM given", 't');
	crash();
	collect("crash $n", \%times, @jobs);
	goes_on(hlc(), "crash $n: after all that were seen");
}

##
## Stamps of elsewhere

sub after
{
	my ($seen, $setting) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n" . ($setting // '') . ";SELECT hlc_after($seen)");

	return $err =~ /ERROR:  (\w+)/ ? $1 : $out;
}

is(after($last - 1), ++$last, 'a stamp of elsewhere that is earlier');
is(after($last), ++$last, 'one that is this clock\'s last, which the wall clock is far behind of');
is(after($last + 1), '22023', 'but no later one');
is(after($last, 'SET dcounter.clock_drift = 0'), ++$last, 'the drift is no matter then');
clock_step(10800);
goes_on(hlc(), 'the wall clock leads again', $hour - 600 * $second);
{
	my $wall = sql($node, 'postgres', 'SELECT wall()');

	is(after($wall + 120 * $second), '22023', 'two minutes ahead');
	my ($status, $out, $err) = $node->psql('postgres', 'SELECT hlc_after(' . ($wall + 120 * $second) . ')');
	like($err, qr/stamp is 1[012]\d{4} ms ahead of this server's clock\nDETAIL:  Stamps may be 30000 ms ahead\.\nHINT:/, 'what there is to say');
	is(after($wall + 25 * $second, 'SET dcounter.clock_drift = 0'), '22023', '25 seconds ahead, which the setting forbids');
	is(after($wall + 25 * $second), $wall + 25 * $second + 1, '25 seconds ahead: the next is after it');
	$last = $wall + 25 * $second + 1;
	goes_on(hlc(), 'so are all others', 1, 1);
	is(after($wall + 120 * $second, q{SET dcounter.clock_drift = '5 min'}), $wall + 120 * $second + 1, 'two minutes, which the setting allows');
	$last = $wall + 120 * $second + 1;
	goes_on(hlc(), 'goes on from there', 1, 1);
	clock_step(0);
}

##
## A standby

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
goes_on(hlc(), 'a stamp that the standby gets', 1, 1);
sql($node, 'postgres', "INSERT INTO given VALUES ($last)");
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(sql($standby, 'postgres', 'SELECT dc_node()'), 'eu', 'a standby has the name');
is(sql($standby, 'postgres', "SELECT count(*) FROM given WHERE t = $last"), '1', 'and the row');
fails_with($standby, 'postgres', "SELECT $_", '25006', "no new stamps there: $_") foreach 'dc_hlc_now()', "dc_hlc_after('{\"time\": 1, \"node\": \"us\"}')";
$node->stop;
$standby->promote;
goes_on(sql($standby, 'postgres', 'SELECT hlc()'), 'when it is promoted it goes on after it', 1, $second + 1);
$standby->stop;
$node->start;
$last = hlc();

##
## Dump and restore, by the owner of the database

{
	my $file = PostgreSQL::Test::Utils::tempdir() . '/dump';

	sql($node, 'postgres', 'CREATE ROLE owner LOGIN; ALTER DATABASE postgres OWNER TO owner; GRANT SELECT ON given TO owner; CREATE DATABASE restored TEMPLATE template0');
	$node->command_ok([ 'pg_dump', '-Fc', '-U', 'owner', '-f', $file, '-d', $node->connstr('postgres') ], 'pg_dump');
	$node->command_ok([ 'pg_restore', '-d', $node->connstr('restored'), $file ], 'pg_restore');
	sql($node, 'postgres', q{ALTER DATABASE restored SET dcounter.node = 'eu'});
	goes_on(hlc('restored'), 'a restored database goes on', 1, 1);
}

unlike(slurp_file($_->logfile), qr/PANIC|terminated by signal/, 'nothing has crashed by itself: ' . $_->name) foreach $node, $standby;
done_testing();
