# Sync commits under load: dozens of sessions sleep and are woken, beside commits that wait for
# the server's own locks on the same semaphores, while workers come and go, flushes fail, and
# sessions are cancelled and terminated. Nobody hangs, nothing is lost or counted twice; and
# after a crash all is there that was acknowledged.
use strict;
use warnings;

use DcBuffer;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $node = buffer_node('sync', 'max_connections = 120', "dcounter.compact_interval = '200ms'");

in_tables($node);
sql($node, 'postgres', q{
	SELECT dc_create('s', mode => 'buffered', durability => 'sync', flush_interval => '1 day');
	SELECT dc_create('s2', mode => 'buffered', durability => 'sync', flush_interval => '1 day');
	SELECT dc_create('exact')});

# Each transaction is one statement, so the number that pgbench has processed is the number that was
# acknowledged
my %scripts = (
	one => [ "SELECT dc_incr('s', 'a');\n", [ 's', 1 ] ],
	both => [ "SELECT dc_incr('s', 'a'), dc_incr('s2', 'a');\n", [ 's', 1 ], [ 's2', 1 ] ],
	# waits for the locks of WAL as well, in turn with the above
	turns => [ "SELECT dc_incr('exact', 'a');\nSELECT dc_incr('s', 'a'), dc_incr('s2', 'b');\n", [ 'exact', 1 ], [ 's', 1 ], [ 's2', 1 ] ]);

my %told;

sub start_load
{
	my ($clients, $seconds) = @_;

	return map { { %{ pgbench($node, '-c', $clients, '-T', $seconds, '-M', 'prepared', '-f', file_of("$_.sql", $scripts{$_}[0])) }, script => $_ } } sort keys %scripts;
}

# ended(JOB...): adds up the acknowledged increments; returns the number of transactions
sub ended
{
	my $all = 0;

	foreach my $job (@_)
	{
		my $n = processed($job);
		my (undef, @adds) = @{ $scripts{ $job->{script} } };

		$told{ $_->[0] } += $n * $_->[1] foreach @adds;
		$all += $n;
	}
	return $all;
}

sub set
{
	my ($setting, $value) = @_;

	sql($node, 'postgres', defined $value ? "ALTER SYSTEM SET $setting = $value" : "ALTER SYSTEM RESET $setting");
	sql($node, 'postgres', 'SELECT pg_reload_conf()');
	return;
}

# are_told(NAME): each counter has what was acknowledged, in its tables, too
sub are_told
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $counters = join(' ', map { "$_ $told{$_}" } sort keys %told);

	sql($node, 'postgres', 'SELECT dc_flush()');
	is(sql($node, 'postgres', q{SELECT string_agg(c || ' ' || dc_sum(c), ' ' ORDER BY c) FROM unnest('{exact,s,s2}'::text[]) AS c}), $counters, $name);
	is(sql($node, 'postgres', q{SELECT string_agg(c || ' ' || in_tables(c), ' ' ORDER BY c) FROM unnest('{exact,s,s2}'::text[]) AS c}), $counters, '... in tables');
	is(sql($node, 'postgres', q{SELECT coalesce(sum(waiting), 0) FROM dc_stat_buffer}), '0', '... and nobody waits');
	return;
}

##
## Nothing disturbs them: each commit sleeps until its flush is done

sub test_quiet
{
	my @load = start_load(16, torture(3, 30));
	my $from = -s $node->logfile;
	my $n = ended(@load);

	cmp_ok($n, '>', 100, "there were commits ($n)");
	is(slurp_file($node->logfile, $from) =~ /(.*(?:WARNING|ERROR|FATAL|PANIC).*)/ ? $1 : '', '', 'none was interrupted');
	are_told('48 sessions: each increment counts once');
	return;
}

##
## All sorts of disturbances. A cancel ends a wait with a warning and no error; but outside of a
## wait it is an error, so there are few sessions that are cancelled, and they count for themselves.

my @disturb = (
	sub { sql($node, 'postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'}) },
	sub { sql($node, 'postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity, generate_series(1, 3) WHERE backend_type = 'dcounter worker'}) },
	sub { sql($node, 'postgres', 'SELECT dc_worker_stop()'); sleep(rand(0.3)); sql($node, 'postgres', 'SELECT dc_worker_start()') },
	sub { set('dcounter.worker', 'off'); sleep(rand(0.3)); set('dcounter.worker', undef) },
	sub { stuck($node, 'postgres', 's', 1); sleep(rand(0.3)); stuck($node, 'postgres', 's', 0) },
	sub { sql($node, 'postgres', q{BEGIN; LOCK TABLE s IN SHARE MODE; SELECT pg_sleep(0.1)}) },
	sub { sql($node, 'postgres', q{BEGIN; SELECT dc_flush('s'); SELECT pg_sleep(0.2); ROLLBACK}) },
	sub { sql($node, 'postgres', q{SELECT dc_flush('s')}) });

sub test_disturbed
{
	my $seconds = torture(8, 60);
	my @load = start_load(8, $seconds);
	my @extra = map { start_command('psql', '-XAtq', '-d', $node->connstr('postgres'), '-f',
			file_of("cancelled $_.sql", "SELECT dc_incr('s2', 'cancelled');\n" x 20000)) } 1 .. 4;
	my $end = time + $seconds - 1;
	my $n = 0;

	while (time < $end)
	{
		$disturb[ rand @disturb ]->();
		sql($node, 'postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%''cancelled''%' AND pid <> pg_backend_pid()});
		$n++;
	}
	sql($node, 'postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%''cancelled''%' AND pid <> pg_backend_pid()});
	my $transactions = ended(@load);
	finish_job($_) foreach @extra;
	is(join('', grep { /ERROR|FATAL|PANIC/ } map { split /^/, $_->{err} } @load), '', "$n disturbances: no error in $transactions transactions");

	# an answer to the statement is an empty line
	my $answers = 0;
	$answers += () = $_->{out} =~ /^$/mg foreach @extra;
	my $counted = sql($node, 'postgres', q{SELECT dc_get('s2', 'cancelled')});
	cmp_ok($counted, '>=', $answers, "sessions that are cancelled and terminated: what was answered is there ($answers)");
	cmp_ok($counted, '<=', $answers + @extra, "... and at most one each that was not ($counted)");
	$told{s2} += $counted;
	worker_runs($node, 'postgres');
	are_told('all increments are there, once');
	return;
}

##
## A crash: what was acknowledged is there

sub test_crash
{
	client_tables($node);
	foreach my $round (1 .. torture(3, 30))
	{
		my (%least, %most);
		my %before = counted($node, 's hot', 's2 hot');
		my @clients = start_clients($node, $round, 16, 's', 's2');

		die 'no progress' if wait_for($node, 'postgres', "SELECT dc_get('s', 'hot') > $before{'s hot'} + 30", 't') ne 't';
		sleep(rand(0.5));
		kill 'KILL', some_pid($node, q{SELECT pid FROM pg_stat_activity WHERE backend_type IN ('dcounter worker', 'client backend', 'checkpointer') AND pid <> pg_backend_pid() AND (backend_type <> 'client backend' OR state <> 'idle') ORDER BY random() LIMIT 1});
		is(clients_ended(\%least, \%most, @clients), '', "round $round: no error in clients");
		$node->poll_query_until('postgres', 'SELECT true') or die 'no restart';
		worker_runs($node, 'postgres');
		foreach (grep { exists $most{$_} } keys %before)
		{
			$least{$_} = ($least{$_} // 0) + $before{$_};
			$most{$_} += $before{$_};
		}
		delete $most{$_} foreach grep { !/ hot$| client / } keys %most;
		is(bounds_wrong($node, \%least, \%most), '', "round $round: what was acknowledged is there, and no more than was tried");
	}
	return;
}

test_quiet();
test_disturbed();
test_crash();

$node->stop;
done_testing();
