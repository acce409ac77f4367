# Buffered counters and kill -9: after a crash no key has more than what clients have
# tried to commit. Everything that a sync table has counted is there. Of an async table everything is
# there that was committed before the last flush but one began. On a standby, and after
# its promotion.
use strict;
use warnings;

use DcBuffer;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $rounds = torture(5, $ENV{DC_TORTURE} // 100);
my @async = ('a', 'parts');
my @strict = ('sync', 'exact');
my $limit = 60;

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $node = buffer_node('crash', 'max_connections = 80', "dcounter.compact_interval = '100ms'", 'checkpoint_timeout = 30s');

client_tables($node);
sql($node, 'postgres', q{
	SELECT dc_create('a', mode => 'buffered', flush_interval => '150 ms'), dc_create('parts', mode => 'buffered', partitions => 3, flush_interval => '150 ms'),
		dc_create('sync', mode => 'buffered', durability => 'sync'), dc_create('exact');});

# What "flushes" of the statistics says of the tables that are flushed by time
my $flushes = q{SELECT flushes FROM dc_stat_counters WHERE counter::text = 'a' OR counter::text = 'parts' ORDER BY counter::text};

my $told = 0;
my (%least, %most);

# pid_to_kill(ROUND): of a process of the server; the first rounds have one of each kind
sub pid_to_kill
{
	my ($round) = @_;
	my @kinds = ('postmaster', 'dcounter worker', 'client backend', 'checkpointer', 'walwriter');
	my $kind = $kinds[ $round <= @kinds ? $round - 1 : rand @kinds ];

	note("round $round: kill -9 of a $kind");
	return if $kind eq 'postmaster';
	return some_pid($node, qq{SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = '$kind' AND (backend_type <> 'client backend' OR state <> 'idle') ORDER BY random() LIMIT 1});
}

# one_round(NUMBER): load, kill, restart, compare
sub one_round
{
	my ($round) = @_;
	my $until = 3 + int(rand(torture(5, 20)));
	my @clients = start_clients($node, $round, 5, @async, @strict);
	my @load = map { pgbench($node, '-c', 3, '-T', 600, '-M', 'prepared', '-f', file_of("$_.sql", "SELECT dc_incr('$_', 'load');\n")) } 'a', 'sync';
	my @side = map { start_job($node, 'postgres', file_of('side.sql', $_ x 20000)) } "SELECT dc_compact() \\g /dev/null\n",
	  "SELECT dc_flush('parts') \\g /dev/null\nSELECT pg_sleep(0.2) \\g /dev/null\n";
	my %before;

	$node->poll_query_until('postgres', "SELECT min(dc_get('sync', 'client $round.' || i)) > $until FROM generate_series(1, 5) AS i") or die 'no progress';

	# What is committed now will be flushed soon.
	%before = counted($node, map { my $counter = $_; map { "$counter $_" } 'hot', 'load', 'reset', 'prepared', map { "client $round.$_" } 1 .. 5 } @async);
	my @then = split /\n/, sql($node, 'postgres', $flushes);
	is(wait_for($node, 'postgres', "SELECT bool_and(flushes >= n + 2) FROM ROWS FROM (unnest(ARRAY($flushes)), unnest(ARRAY[$then[0], $then[1]])) AS f(flushes, n)", 't', $limit), 't',
		"round $round: two more flushes");
	sleep(rand(0.3));
	if (my $pid = pid_to_kill($round))
	{
		kill 9, $pid;
	}
	else
	{
		$node->kill9;
	}
	my (%told, %tried);
	is(clients_ended(\%told, \%tried, @clients), '', "round $round: no error in clients");
	finish_job($_) foreach @load, @side;
	is(join('', grep { /ERROR|PANIC/ } map { $_->{err} } @side), '', "round $round: nor in others");
	foreach my $i (0, 1)
	{
		my $n = $load[$i]{out} =~ /transactions actually processed: (\d+)/ ? $1 : 0;
		my $name = ('a load', 'sync load')[$i];

		$told{$name} += $n;
		$tried{$name} += $n + 3;
	}

	# All was known when the round began. What was read meanwhile is what async tables must have.
	foreach my $name (keys %tried)
	{
		my ($counter, $key) = split / /, $name, 2;

		$most{$name} += $tried{$name};
		$least{$name} += $told{$name} // 0 if grep { $_ eq $counter } @strict or $key eq 'prepared';
	}
	foreach my $name (keys %before)
	{
		$least{$name} = $before{$name} if $before{$name} > ($least{$name} // 0);
	}
	restart_after_kill9($node) if !$node->{_pid} || !kill(0, $node->{_pid});
	wait_for($node, 'postgres', 'SELECT NOT pg_is_in_recovery()', 't') eq 't' or die 'no recovery';
	sql($node, 'postgres', "ROLLBACK PREPARED '$_'") foreach split /\n/, sql($node, 'postgres', 'SELECT gid FROM pg_prepared_xacts');
	is(bounds_wrong($node, \%least, \%most), '', "round $round: no key has too much, and none too little");
	$told += $_->{done} foreach @clients;
	foreach my $when ('flushed', 'compacted')
	{
		sql($node, 'postgres', $when eq 'flushed' ? 'SELECT dc_flush()' : 'SELECT dc_compact()');
		is(bounds_wrong($node, \%least, \%most), '', "round $round: the same when it is $when");
	}
	worker_runs($node, 'postgres');
	return;
}

one_round($_) foreach 1 .. $rounds;
cmp_ok($told, '>', 50 * $rounds, 'clients were told of commits');
note("$told transactions committed as told");

##
## A standby

sub test_standby
{
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	my $values = q{SELECT dc_get('s', 'a'), (SELECT value FROM dc_get_many('s', '{a}')), (SELECT value FROM dc_info('s', 'a')), dc_sum('s')};

	sql($node, 'postgres', q{
		SELECT dc_create('s', mode => 'buffered', flush_interval => '1 day'), dc_create('t', mode => 'buffered', durability => 'sync');
		SELECT dc_incr('s', 'a', 5); SELECT dc_flush('s'); SELECT dc_incr('s', 'a', 2);});
	$node->backup('base');
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	sql($node, 'postgres', q{SELECT dc_incr('t', 'a', 3)});
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	is(sql($node, 'postgres', $values), '7|7|7|7', 'the primary has rows and memory');
	is(sql($standby, 'postgres', $values), '5|5|5|5', 'a standby has the rows');
	is(sql($standby, 'postgres', q{SELECT dc_get('t', 'a')}), '3', 'which is all of a sync table');
	my $session = dc_session($standby, 'postgres');
	$session->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
	is($session->run($values), '5|5|5|5', 'so in a snapshot');
	flush($node, 's');
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	is(sql($standby, 'postgres', $values), '7|7|7|7', 'a flush is replayed');
	is($session->run("$values; COMMIT; $values"), "5|5|5|5\n7|7|7|7", 'after the snapshot');
	fails_with($standby, 'postgres', "SELECT $_", '25006', "$_ is the read-only error")
	  foreach "dc_incr('s', 'a')", "dc_incr_many('t', '{a}')", "dc_set('s', 'a', 1)", "dc_delete('s', 'a')", "dc_flush()", "dc_flush('s')",
	  "dc_alter('s', mode => 'exact')", "dc_create('x', mode => 'buffered')";
	fails_with($node, 'postgres', "BEGIN READ ONLY; SELECT $_", '25006', "$_ in a read-only transaction") foreach "dc_incr('s', 'a')", "dc_reset('s', 'a')";
	$node->stop('immediate');
	$standby->promote;
	worker_runs($standby, 'postgres');
	is($session->run(q{SELECT dc_incr('s', 'a', 10)}), '', 'promoted: a session from before counts');
	state_is($standby, 's', 'a', '17 7', 'promoted: in memory');
	sql($standby, 'postgres', q{SELECT dc_incr('t', 'a', 4)});
	state_is($standby, 't', 'a', '7 7', 'promoted: sync commits');
	flush($standby);
	state_is($standby, 's', 'a', '17 17', 'promoted: flushed');
	$session->quit;
	$standby->stop;
	return;
}

test_standby();
done_testing();
