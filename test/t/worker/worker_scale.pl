# More databases than workers: turns, databases without one, slots that are left to others.
use strict;
use warnings;

use DcTest;
use DcWorker;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my @names = map { "d$_" } 1 .. 6;
my $node = dc_node('main', conf => [
		worker_conf(), "shared_preload_libraries = 'dcounter'", 'dcounter.max_workers = 2', 'max_worker_processes = 12' ]);

#
# Who has a worker
#
sql($node, 'postgres', "CREATE DATABASE $_") foreach @names, 'bare', 'plain';
sql($node, $_, 'CREATE EXTENSION dcounter') foreach 'bare', 'd1';
state_is($node, $_, 'no tables', "$_: none for the extension alone") foreach 'bare', 'd1', 'postgres';
state_is($node, 'plain', 'no extension', 'none without it');
my ($status, $out, $err) = $node->psql('bare', 'SELECT dc_worker_start()');
is($out, 't', 'dc_worker_start() there');
like($err, qr/NOTICE:  the dcounter worker has nothing to do in this database/, '... says so');
sql($node, 'd1', 'DROP EXTENSION dcounter');
sql($node, $_, q{CREATE EXTENSION dcounter; SELECT dc_create('c', totals => 'compacted')}) foreach @names;

# sampled(SECONDS, SUB): for so long calls SUB again and again, and returns the turns: the most
# workers at a time, and for each database how often another worker was seen
my %last_pid;

sub sampled
{
	my ($seconds, $sub) = @_;
	my ($most, %turns, %states) = (0);
	my $session = dc_session($node, 'postgres');

	for (my $end = time + $seconds; time < $end; sleep(0.02))
	{
		$sub->();
		my $seen = $session->run(q{SELECT string_agg(datname || ' ' || pid, ' ') FROM pg_stat_activity WHERE backend_type = 'dcounter worker'}) // '';
		my %pids = split / /, $seen;

		$most = keys %pids if keys %pids > $most;
		foreach my $name (keys %pids)
		{
			$turns{$name}++ if ($last_pid{$name} // '') ne $pids{$name};
			$last_pid{$name} = $pids{$name};
		}
		$states{$_}++ foreach split /,/, $session->run(q{SELECT string_agg(DISTINCT state, ',') FROM dc_stat_worker WHERE job = 'compaction'});
	}
	$session->quit;
	return ($most, \%turns, \%states);
}

# All are written to all the time.
my %session = map { $_ => dc_session($node, $_) } @names;
my $count = 0;
my ($most, $turns, $states) = sampled(25, sub {
	$count++;
	$session{$_}->run(q{SELECT dc_incr('c', 'k')}) foreach @names;
});
is($most, 2, 'there are dcounter.max_workers at a time');
my @turns = sort { $a <=> $b } map { $turns->{$_} // 0 } @names;
note("turns: @turns");
cmp_ok($turns[0], '>=', 2, 'each database has its turns');
cmp_ok($turns[-1] - $turns[0], '<=', 4, '... as many as the others');
cmp_ok($states->{'waiting for its turn'} // 0, '>', 0, 'dc_stat_worker shows those that wait');
soon($node, $_, "SELECT value FROM c WHERE key = 'k'", $count, "$_: all of it is compacted") foreach @names;
is(sql($node, $_, q{SELECT dc_get('c', 'k')}), $count, '... exactly') foreach @names;

# Nobody writes: nobody has to wait, and no worker comes or goes but once a minute.
soon($node, 'postgres', q{SELECT count(*) FROM dc_stat_worker WHERE job = 'compaction' AND datname ~ '^d' AND state IN ('running', 'idle')},
	'6', 'idle databases');
sleep(2);
($most, $turns) = sampled(12, sub { });    # with turns there would be more than 20
my $all = 0;
$all += $_ foreach values %$turns;
cmp_ok($all, '<=', 12, 'which have few turns');

# One change calls a worker.
my $rested = sql($node, 'postgres', q{SELECT min(datname) FROM dc_stat_worker WHERE job = 'compaction' AND state = 'idle'});
my $begin = time;
compacts($node, $rested, 'c', 'an idle database is written to');
cmp_ok(time - $begin, '<', 25, '... and has its turn soon');
is(pid_of($node, $_), '', "none in $_ all the while") foreach 'bare', 'plain';

# A commit that no session can name
foreach my $name (@names)
{
	sql($node, $name, q{BEGIN; SELECT dc_incr('c', 'prepared'); PREPARE TRANSACTION 'p_} . "$name'");
	sql($node, $name, "COMMIT PREPARED 'p_$name'");
}
soon($node, $_, "SELECT value FROM c WHERE key = 'prepared'", '1', "$_: COMMIT PREPARED") foreach @names;

#
# A database with a backlog gives way
#
set_conf($node, 'dcounter.worker_load' => 1, 'dcounter.compact_batch' => 10, 'dcounter.max_workers' => 1);
sql($node, 'd1', q{SELECT dc_worker_stop(); SELECT count(dc_incr('c', 'many ' || n)) FROM generate_series(1, 20000) AS n; SELECT dc_worker_start()});
my $backlog = q{SELECT count(*) > 5000 FROM c_shard};
is(sql($node, 'd1', $backlog), 't', 'a backlog');
$begin = time;
compacts($node, 'd2', 'c', 'another database has its turn');
note(sprintf('after %.1f s', time - $begin));
is(sql($node, 'd1', $backlog), 't', '... before all of that is done');
# Whoever has left begins with the next table, the next time.
sql($node, 'd1', q{SELECT dc_create('d', totals => 'compacted'); SELECT dc_incr('d', 'k')});
my $done = '';
for (my $end = time + $limit; $done eq '' && time < $end; sleep(0.2))
{
	sql($node, 'd2', q{SELECT dc_incr('c', 'beside')});
	$done = sql($node, 'd1', q{SELECT value FROM d});
}
is($done, '1', 'and so has another table of the first database');
is(sql($node, 'd1', $backlog), 't', '... before that is done');
set_conf($node, 'dcounter.worker_load' => 15, 'dcounter.compact_batch' => 1000, 'dcounter.max_workers' => 2);

#
# What waits while there is no worker
#
# Increments of a buffered table go to memory with a worker, and to rows without.
sql($node, 'd3', q{SELECT dc_create('b', mode => 'buffered', flush_interval => '20ms'), dc_create('s', mode => 'buffered', flush_interval => '20ms', durability => 'sync')});
$session{d3}->quit;
$session{d3} = dc_session($node, 'd3');
my ($wrong, $buffered) = (0, 0);
($most, $turns) = sampled(25, sub {
	$session{$_}->run(q{SELECT dc_incr('c', 'beside')}) foreach grep { $_ ne 'd3' } @names;
	$session{d3}->run(q{SELECT dc_incr('b', 'k'), dc_incr('s', 'k')});
	$buffered++;
	$wrong++ if $session{d3}->run(q{SELECT dc_get('b', 'k') || ' ' || dc_get('s', 'k')}) ne "$buffered $buffered";
});
cmp_ok($turns->{d3} // 0, '>=', 2, 'a buffered table has a worker from time to time');
is($wrong, 0, '... and its increments are all there, at any time');
soon($node, 'd3', q{SELECT (SELECT sum(value) FROM b) || ' ' || (SELECT sum(value) FROM s)}, "$buffered $buffered", '... in its totals in the end');

# Holds end when they should, in a database that nobody writes to
set_conf($node, 'dcounter.max_workers' => 1);
sql($node, 'd4', q{SELECT dc_stock_create('st'); SELECT dc_restock('st', 'k', 10); SELECT dc_hold('st', 'k', 4, '15 s')});
sampled(6, sub { $session{$_}->run(q{SELECT dc_incr('c', 'beside')}) foreach 'd1', 'd2' });
isnt(sql($node, 'postgres', q{SELECT state FROM dc_stat_worker WHERE job = 'compaction' AND datname = 'd4'}), 'running', 'a hold, and no worker');
is(sql($node, 'd4', q{SELECT state FROM st_hold}), 'open', '... it is open');
is(wait_for($node, 'd4', q{SELECT state FROM st_hold}, 'expired', 35), 'expired', '... and expires');

#
# Starting and stopping, settings, and databases that go
#
$session{$_}->quit foreach @names;
answer($node, $_, 'SELECT dc_worker_stop()') foreach 'd5';
state_is($node, 'd5', 'stopped', 'a database without a worker is stopped');
sql($node, 'd5', q{SELECT dc_incr('c', 'stopped')});
compacts($node, 'd6', 'c', 'others have theirs');
is(sql($node, 'd5', q{SELECT count(*) FROM c WHERE key = 'stopped'}), '0', 'it has none');
is(answer($node, 'd5', 'SELECT dc_worker_start()'), 't', 'it is started, although another one has the only worker');
soon($node, 'd5', q{SELECT value FROM c WHERE key = 'stopped'}, '1', '... and has its turn');

set_conf($node, 'dcounter.max_workers' => 20);
soon($node, 'postgres', $workers, "@names", 'more workers than databases: each keeps its own');
my $pids = sql($node, 'postgres', q{SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'});
compacts($node, $_, 'c', "$_ is compacted") foreach @names;
is(sql($node, 'postgres', q{SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'}),
	$pids, '... by the same worker');
set_conf($node, 'dcounter.max_workers' => 1);
soon($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'}, '1', 'fewer: they leave');

sql($node, 'bare', q{BEGIN; SELECT dc_publish('topic', 'k', 'made', '{}'); ROLLBACK});
state_is($node, 'bare', 'no tables', 'an event that is rolled back calls no worker');
sql($node, 'bare', q{SELECT dc_publish('topic', 'k', 'made', '{}')});
soon($node, 'postgres', q{SELECT runs > 0 FROM dc_stat_worker WHERE job = 'outbox' AND datname = 'bare'}, 't', 'the first event does');
sql($node, 'postgres', "DROP DATABASE $_") foreach 'd1', 'd2';
sql($node, 'd3', 'DROP EXTENSION dcounter CASCADE');
soon($node, 'postgres', q{SELECT state FROM dc_stat_worker WHERE job = 'compaction' AND datname = 'd3'}, 'no extension', 'DROP EXTENSION');
compacts($node, $_, 'c', "after databases were dropped, $_ is compacted") foreach 'd5', 'd6';
sql($node, 'd6', q{SELECT dc_drop('c')});
is(worker_failures(log_since($node, 0)), '', 'no worker has failed');
is(step_failures($node), '', 'nor a step');
$node->stop;

#
# Slots are left to others
#
my $few = dc_node('few', conf => [
		worker_conf(), "shared_preload_libraries = 'dcounter'", 'max_worker_processes = 8', 'max_parallel_workers = 8',
		'max_parallel_workers_per_gather = 2' ]);
foreach (@names)
{
	sql($few, 'postgres', "CREATE DATABASE $_");
	sql($few, $_, q{CREATE EXTENSION dcounter; SELECT dc_create('c', totals => 'compacted')});
}
sql($few, 'postgres', q{CREATE TABLE big AS SELECT n FROM generate_series(1, 100000) AS n; ANALYZE big});
my $explain = q{SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
	EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT count(*) FROM big};
my ($planned, $launched) = (0, 0);
$most = 0;
my $n = 0;
for (my $end = time + $limit; $n < 30 || $most < 2 && time < $end; $n++)
{
	sql($few, $_, q{SELECT dc_incr('c', 'k')}) foreach @names;
	my $plan = sql($few, 'postgres', $explain);

	$planned += $1 if $plan =~ /Workers Planned: (\d+)/;
	$launched += $1 if $plan =~ /Workers Launched: (\d+)/;
	my $now = sql($few, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'});
	$most = $now if $now > $most;
}
is($planned, 2 * $n, 'queries want parallel workers');
is($launched, $planned, '... and get them');
cmp_ok($most, '<=', 4, 'since workers leave slots');
cmp_ok($most, '>=', 2, '... but not all of them');
soon($few, $_, "SELECT value FROM c WHERE key = 'k'", $n, "$_ is compacted all the same") foreach @names;
$few->stop;

done_testing();
