# kill -9 of backends and of the postmaster under load: all transactions that were acknowledged are
# counted, and no others, except for one whose COMMIT was in progress. That one counts in all of its
# keys or in none.
#
# A client is a psql that runs a prepared file of transactions one after the
# other, and says "try N" before a COMMIT and "done N" after it, until it loses
# its connection. So at most one outcome is unknown per client. Each transaction
# also adds 1 to a key of its client: since they run in order, this tells which
# ones were committed, and so what every key must be.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = $ENV{DC_TORTURE} // 6;
my $clients = 6;
my $transactions = 3000;
my @keys = ('hot', map { "key $_" } 1 .. 40);
my @begin = (
	'BEGIN', 'BEGIN', 'BEGIN ISOLATION LEVEL REPEATABLE READ',
	'BEGIN ISOLATION LEVEL SERIALIZABLE');

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $node = dc_node('crash', conf => [
		'restart_after_crash = on', 'checkpoint_timeout = 30s', 'autovacuum_naptime = 1s']);
sql($node, 'postgres', q{
	SELECT dc_create('c', max_shards => 4), dc_create('p', partitions => 3)});

my %expected;
my ($told, $unknown) = (0, 0);

# transaction(CLIENT, NUMBER): its SQL, and what it adds
sub transaction
{
	my ($client, $number) = @_;
	my $kind = int(rand(10));
	my (%adds, $sql);
	my $add = sub {
		my ($counted) = @_;
		my $table = rand() < 0.8 ? 'c' : 'p';
		my $key = rand() < 0.3 ? 'hot' : $keys[ rand(@keys) ];
		my $delta = int(rand(9)) - 3;

		$adds{"$table $key"} += $delta if $counted;
		$sql .= "SELECT dc_incr('$table', '$key', $delta);\n";
	};

	$sql = $begin[ rand(@begin) ] . ";\nSELECT dc_incr('c', '$client');\n";
	$adds{"c $client"} = 1;
	$add->(1) for 0 .. rand(4);
	if ($kind == 0)
	{
		$sql .= "SAVEPOINT s;\n";
		$add->(0) for 0 .. rand(3);
		$sql .= rand() < 0.5 ? "SELECT dc_apply();\n" : '';
		$sql .= "ROLLBACK TO s;\n";
		$add->(1);
	}
	if ($kind == 1)
	{
		$sql .= "SELECT dc_apply();\n";
		$add->(1) for 0 .. rand(2);
		$sql .= "SELECT dc_incr('c', '$client', 5), dc_apply();\nSELECT dc_decr('c', '$client', 5);\n" if rand() < 0.5;
		$add->(1);
	}
	if ($kind == 2)
	{
		return "${sql}ROLLBACK;\n", {} if rand() < 0.5;
		$sql .= "PREPARE TRANSACTION '$client-$number';\n";
		return "$sql\\echo try $number\nCOMMIT PREPARED '$client-$number';\n\\echo done $number\n",
		  \%adds;
	}
	return "$sql\\echo try $number\nCOMMIT;\n\\echo done $number\n", \%adds;
}

# Counters that the reader looks at in every snapshot: all three ways agree.
my $reader = file_of('reader.sql', q{
	DO $$ BEGIN
		IF dc_sum('c') <> (SELECT sum(value) FROM c) + coalesce((SELECT sum(inc - dec) FROM c_shard), 0)
			OR dc_get('c', 'hot') <> (SELECT sum(n) FROM (SELECT value AS n FROM c WHERE key = 'hot'
				UNION ALL SELECT inc - dec FROM c_shard WHERE key = 'hot') AS u) THEN
			RAISE 'sums differ';
		END IF;
	END $$;
} =~ s/DO .*?\$\$;/BEGIN ISOLATION LEVEL REPEATABLE READ;\n$&\nCOMMIT;/sr x 20000);
my $compactor = file_of('compactor.sql', "SELECT dc_compact() \\g /dev/null\n" x 20000);

# one_round(NUMBER): load, kill, restart, compare
sub one_round
{
	my ($round) = @_;
	my (%adds, @jobs);
	my $postmaster = $round % 2;

	foreach my $client (map { "client $round.$_" } 1 .. $clients)
	{
		my $script = '';

		foreach my $number (1 .. $transactions)
		{
			my ($sql, $adds) = transaction($client, $number);

			$script .= $sql;
			$adds{$client}[$number] = $adds;
		}
		push @jobs, { %{ start_job($node, 'postgres', file_of($client, $script)) },
			client => $client };
	}
	my @side = map { start_job($node, 'postgres', $_) } $reader, $compactor, $compactor;

	# Some way into the load
	my $until = 5 + int(rand(200));
	$node->poll_query_until('postgres', qq{
		SELECT coalesce(max(dc_get('c', 'client $round.' || i)), 0) >= $until
		FROM generate_series(1, $clients) AS i})
	  or die 'no progress';
	if ($postmaster)
	{
		$node->kill9;
	}
	else
	{
		# not a session that ends just now
		kill 9, some_pid($node, q{
			SELECT pid FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND backend_type IN ('client backend', 'checkpointer', 'walwriter')
				AND (backend_type <> 'client backend' OR state <> 'idle')
			ORDER BY random() LIMIT 1});
	}
	is(join(' ', map { lost_connection($_) } @jobs), join(' ', (1) x @jobs),
		"round $round: all clients lost their connection");
	finish_job($_) foreach @side;
	unlike(join('', map { $_->{err} } @side), qr/ERROR/, "round $round: no error in readers and compaction");
	unlike(join('', map { $_->{err} } @jobs), qr/ERROR/, "round $round: no error in clients");
	restart_after_kill9($node) if $postmaster;
	wait_for($node, 'postgres', 'SELECT NOT pg_is_in_recovery()', 't') eq 't' or die 'no recovery';

	check_round($round, \%adds, @jobs);
	return;
}

# lost_connection(JOB): whether that is how it ended. psql has no exit status of its
# own for it when the server's last message was read before the end of the connection.
sub lost_connection
{
	my ($job) = @_;
	my $status = finish_job($job);

	return $status == 2
	  || ($status == 3 && $job->{err} =~ /terminating connection|server closed the connection/) ? 1 : 0;
}

sub check_round
{
	my ($round, $adds, @jobs) = @_;
	my $bad = '';

	# Prepared transactions survive: ours to decide, and not counted until then.
	foreach my $gid (split /\n/, sql($node, 'postgres', 'SELECT gid FROM pg_prepared_xacts'))
	{
		my ($client) = $gid =~ /^(.*)-\d+$/;
		my $decision = rand() < 0.5 ? 'COMMIT' : 'ROLLBACK';

		sql($node, 'postgres', "$decision PREPARED '$gid'");
	}

	foreach my $job (@jobs)
	{
		my $client = $job->{client};
		my @done = $job->{out} =~ /^done (\d+)$/mg;
		my @tried = $job->{out} =~ /^try (\d+)$/mg;
		my $got = sql($node, 'postgres', "SELECT dc_get('c', '$client')");
		my @numbers = grep { %{ $adds->{$client}[$_] } } 1 .. $transactions;

		# one that was being prepared can be there without "try"
		$bad .= "$client: told of " . @done . ", tried " . @tried . ", counted $got\n"
		  if $got < @done || $got > @done + 1;
		$told += @done;
		$unknown += @tried - @done;
		foreach my $number (@numbers[ 0 .. $got - 1 ])
		{
			my $added = $adds->{$client}[$number];

			$expected{$_} += $added->{$_} foreach keys %$added;
		}
	}
	is($bad, '', "round $round: what clients were told is counted");

	foreach my $when ('', ' after compaction')
	{
		my $rows = '';

		sql($node, 'postgres', 'SELECT dc_compact()') if $when;
		$rows .= sql($node, 'postgres', qq{
			SELECT '$_ ' || k || '=' || dc_get('$_', k)
			FROM (SELECT key FROM $_ UNION SELECT key FROM ${_}_shard) AS u(k)}) . "\n"
		  foreach 'c', 'p';
		my %got = $rows =~ /^(.*)=(.*)$/mg;
		my %all = (%got, %expected);
		my @differ = map { "$_: " . ($got{$_} // 'none') . ' instead of ' . ($expected{$_} // 'none') }
		  grep { ($got{$_} // 0) != ($expected{$_} // 0) } sort keys %all;
		is(join("\n", @differ), '', "round $round: every key is exact$when");
	}
	return;
}

one_round($_) foreach 1 .. $rounds;
cmp_ok($told, '>', 0, 'clients were told of commits');
note("$told transactions committed as told, $unknown unknown");

$node->stop;
done_testing();
