# Stocks and kill -9, two-phase commit, dump and restore, failover: what clients were
# told is sold, units stay taken until the decision, and nothing is lost.
use strict;
use warnings;

use DcStock;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = torture(3, 50);

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my %nodes = stock_nodes();
sql($_, 'postgres', 'CREATE TABLE told (client text, number int, what text, key text, qty bigint)') foreach values %nodes;

##
## kill -9

# transaction(CLIENT, NUMBER): its SQL. It says what it has sold before its COMMIT, and
# "done" after it.
sub transaction
{
	my ($client, $number) = @_;
	my $kind = int(rand(13));
	my ($key, $other) = map { 'k' . (1 + int(rand($_))) } 8, 60;
	my $n = 1 + int(rand(5));
	my $me = "'$client', $number";
	my $buy = "SELECT 'sold', '$key', buy('$key', $n, 'take', $me);\n";
	my $sql = "BEGIN;\n";

	if ($kind == 0)
	{
		$sql = "SELECT hold('$key', $n, '1 hour') AS h \\gset\nBEGIN;\nSELECT 'sold', '$key', confirm(:'h', NULL, $me);\n";
	}
	elsif ($kind == 1)
	{
		$sql .= "SELECT buy_cart('{$other,$key}', '{1,$n}', $me) > 0 AS ok \\gset\n"
		  . "\\if :ok\n\\echo sold|$key|$n\n\\echo sold|$other|1\n\\endif\n";
	}
	elsif ($kind == 2)
	{
		$sql .= "SAVEPOINT a;\nSELECT buy('$key', $n, 'up to', 'undone');\nROLLBACK TO a;\n$buy";
	}
	elsif ($kind == 3)
	{
		return "${sql}SELECT buy('$key', $n, 'take', 'undone');\nROLLBACK;\n";
	}
	elsif ($kind == 4)
	{
		$sql .= "${buy}PREPARE TRANSACTION '$client-$number';\n";
		return "${sql}COMMIT PREPARED '$client-$number';\n\\echo done $number\n";
	}
	elsif ($kind < 8)
	{
		my $more = 5 * $n;

		$sql .= "SELECT 'restocked', '$key', restock('$key', $more, $me);\n";
	}
	elsif ($kind == 12)
	{
		$sql = "SELECT hold_cart('{$other,$key}', '{1,$n}', '1 hour') AS h \\gset\nBEGIN;\nSELECT confirm(:'h', NULL, $me) > 0 AS ok \\gset\n"
		  . "\\if :ok\n\\echo sold|$key|$n\n\\echo sold|$other|1\n\\endif\n";
	}
	else
	{
		$sql .= $buy;
	}
	return "${sql}COMMIT;\n\\echo done $number\n";
}

# told(JOB, CLIENT): notes what a client was told in a table, and returns the number of
# its last transaction of which it was told that it is committed
sub told
{
	my ($node, $job, $client) = @_;
	my (@told, @now);
	my $last = 0;

	foreach my $line (split /\n/, $job->{out})
	{
		if ($line =~ /^(sold|restocked)\|(k\d+)\|(\d+)$/)
		{
			push @now, [ $1, $2, $3 ] if $3 > 0;
		}
		elsif ($line =~ /^done (\d+)$/)
		{
			$last = $1;
			push @told, map { "('$client', $last, '$_->[0]', '$_->[1]', $_->[2])" } @now;
			@now = ();
		}
	}
	sql($node, 'postgres', 'INSERT INTO told VALUES ' . join(', ', @told)) if @told;
	return $last;
}

sub test_kill
{
	my ($name, $round) = @_;
	my $node = $nodes{$name};
	my $postmaster = $round % 2;
	my @names = map { "client $round.$_" } 1 .. 4;
	my ($extra, $bad) = ('', 0);

	sql($node, 'postgres', q{SELECT restock('k' || i, 30) FROM generate_series(1, 60) AS i});
	my @jobs = map {
		my $client = $_;

		start_job($node, 'postgres', file_of("$client.sql", join('', map { transaction($client, $_) } 1 .. 3000)))
	} @names;
	my $load = load_for($node, 600, 8);
	my $until = 50 + int(rand(200));

	$node->poll_query_until('postgres', qq{
		SELECT coalesce(max(number), 0) > $until FROM orders WHERE client LIKE 'client $round.%'})
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
	# 3 if the server's last message was still read as an answer
	like(join(' ', map { finish_job($_) } @jobs), qr/^[23]( [23]){3}$/, "$name round $round: all clients lost their connection");
	unlike(join('', map { $_->{err} } @jobs), qr/ERROR/, "$name round $round: no error in clients");
	finish_job($load);
	unlike($load->{err}, qr/ERROR/, "$name round $round: no error in the load");
	restart_after_kill9($node) if $postmaster;
	wait_for($node, 'postgres', 'SELECT NOT pg_is_in_recovery()', 't') eq 't' or die 'no recovery';

	is(sql($node, 'postgres', 'SELECT wrong()'), '', "$name round $round: the books are right");
	foreach my $gid (split /\n/, sql($node, 'postgres', 'SELECT gid FROM pg_prepared_xacts'))
	{
		sql($node, 'postgres', (rand() < 0.5 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$gid'");
	}
	foreach my $i (0 .. 3)
	{
		my $last = told($node, $jobs[$i], $names[$i]);

		$extra .= " OR (client = '$names[$i]' AND number > $last)";
	}
	is(sql($node, 'postgres', qq{
		WITH found AS (SELECT client, number, 'sold' AS what, key, sum(qty) FROM orders WHERE client IS NOT NULL GROUP BY 1, 2, 3, 4
			UNION ALL SELECT client, number, 'restocked', key, qty FROM restocks WHERE client IS NOT NULL),
		told AS (SELECT client, number, what, key, sum(qty) FROM told GROUP BY 1, 2, 3, 4)
		SELECT 'lost', * FROM (SELECT * FROM told EXCEPT ALL SELECT * FROM found) AS lost
		UNION ALL
		-- each client's transaction that was under way
		SELECT 'not told', * FROM (SELECT * FROM found WHERE NOT (false$extra) EXCEPT ALL SELECT * FROM told) AS extra
		UNION ALL
		SELECT 'under way', client, count(DISTINCT number), NULL, NULL, NULL FROM found WHERE false$extra GROUP BY client HAVING count(DISTINCT number) > 1}),
		'', "$name round $round: what clients were told of is there, and nothing else");
	sql($node, 'postgres', "INSERT INTO told SELECT client, number, 'sold', key, qty FROM orders WHERE false$extra;
		INSERT INTO told SELECT client, number, 'restocked', key, qty FROM restocks WHERE false$extra;");
	cmp_ok(sql($node, 'postgres', "SELECT count(*) FROM told WHERE client LIKE 'client $round.%'"), '>', 20, "$name round $round: they were told of some");
	all_sold($node, "$name round $round");
	return;
}

##
## Two-phase commit

sub test_prepared
{
	my ($name) = @_;
	my $node = $nodes{$name};
	my $hold = '00000000-0000-0000-0002-000000000001';
	my $state = q{SELECT dc_get('s', 'p'), dc_take('s', 'p'), dc_take_up_to('s', 'p', 9), dc_take_all('s', '{p,k1}', '{1,1}'), dc_hold('s', 'p') IS NULL};

	sql($node, 'postgres', qq{
		SELECT restock('p', 9);
		BEGIN; SELECT buy('p', 4); PREPARE TRANSACTION 'four';
		BEGIN; SELECT buy('p', 3); PREPARE TRANSACTION 'three';
		BEGIN; SELECT dc_hold('s', 'p', 2, '1 hour', '$hold'); PREPARE TRANSACTION 'held';});
	foreach my $when ('at once', 'after a restart', 'after kill -9')
	{
		$node->restart if $when eq 'after a restart';
		if ($when eq 'after kill -9')
		{
			$node->kill9;
			restart_after_kill9($node);
		}
		is(sql($node, 'postgres', $state), '9|f|0|f|t', "$name: units taken by prepared transactions, $when");
		is(sql($node, 'postgres', "SELECT restock('p', 1); SELECT buy('p', 1); SELECT buy('p', 1)"), "1\n1\n0", "$name: others can be taken, $when");
	}
	is(sql($node, 'postgres', "ROLLBACK PREPARED 'four'; SELECT buy('p', 4); $state"), "4\n5|f|0|f|t", "$name: back after ROLLBACK PREPARED");
	is(sql($node, 'postgres', "COMMIT PREPARED 'three'; $state"), '2|f|0|f|t', "$name: sold after COMMIT PREPARED");
	is(sql($node, 'postgres', "COMMIT PREPARED 'held'; $state; SELECT dc_hold_release('s', '$hold')"), "0|f|0|f|t\nreleased", "$name: so for a hold");
	is(sql($node, 'postgres', "SELECT buy('p', 2); $state"), "2\n0|f|0|f|t", "$name: which can be released");
	is(sql($node, 'postgres', qq{
		BEGIN; SELECT restock('p', 3); PREPARE TRANSACTION 'more'; $state; COMMIT PREPARED 'more'; SELECT buy('p', 3);
		$state; SELECT restock('p', 2); SELECT hold('p', 2, '1 hour') AS h \\gset
		BEGIN; SELECT dc_hold_release('s', :'h'); PREPARE TRANSACTION 'released'; $state; COMMIT PREPARED 'released'; SELECT buy('p', 2);
		$state; SELECT wrong();} =~ s/^\t+//mgr), "3\n0|f|0|f|t\n3\n0|f|0|f|t\n2\nreleased\n0|f|0|f|t\n2\n0|f|0|f|t", "$name: what a prepared transaction adds");
	return;
}

##
## Dump and restore, failover

# Three kinds of holds. A key that is sold out, and one that has units.
my $shop = q{
	SELECT dc_stock_create('shop', 8);
	SELECT dc_restock('shop', 'a', 100), dc_restock('shop', 'b', 7);
	SELECT dc_take('shop', 'a', 10), dc_take('shop', 'b', 7);
	SELECT dc_hold('shop', 'a', 5, '1 hour', '00000000-0000-0000-0000-000000000001'), dc_hold('shop', 'a', 6, '1 us', '00000000-0000-0000-0000-000000000002'),
		dc_hold('shop', 'a', 7, '1 hour', '00000000-0000-0000-0000-000000000003');
	SELECT dc_compact('shop');
	SELECT dc_hold_confirm('shop', '00000000-0000-0000-0000-000000000003', 4);
	SELECT dc_take('shop', 'a', 1);};
my $of_shop = q{
	SELECT dc_get('shop', 'a'), dc_get('shop', 'b'), (SELECT sum(units) FROM shop_shard);
	SELECT hold_id, state, qty, confirmed, expires_at, ended_at FROM shop_hold ORDER BY hold_id;
	SELECT key, hold_id, qty, expires_at FROM dc_holds('shop');
	SELECT shards, shard_by, max_shards, holds FROM dcounter.counter WHERE counter = 'shop'::regclass;};

# goes_on(NODE, DATABASE, NAME): tests that the shop, with what was 100 units, does
sub goes_on
{
	my ($node, $database, $name) = @_;

	is(sql($node, $database, q{
		SELECT dc_hold_confirm('shop', '00000000-0000-0000-0000-000000000003', 4, false), dc_hold_confirm('shop', '00000000-0000-0000-0000-000000000002', strict => false),
			dc_hold_confirm('shop', '00000000-0000-0000-0000-000000000001', 2, false), dc_hold_release('shop', '00000000-0000-0000-0000-000000000001', false);
		SELECT dc_take('shop', 'b'), dc_get('shop', 'a'), dc_take('shop', 'a', 84), dc_take('shop', 'a', 80), dc_take_up_to('shop', 'a', 9), dc_take('shop', 'a');
		SELECT dc_restock('shop', 'b', 2);
		SELECT dc_take_all('shop', '{b,a}', '{1,1}'), dc_hold('shop', 'b', 2) IS NOT NULL, dc_take('shop', 'b');
		SELECT dc_compact('shop') > 0, dc_sum('shop'), (SELECT min(units) >= 0 AND sum(units) IS NOT DISTINCT FROM dc_sum('shop') FROM shop_shard);}),
		"confirmed already|expired|confirmed|confirmed\nf|83|f|t|3|f\n\nf|t|f\nt|0|t", $name);
	return;
}

sub test_dump
{
	my $node = $nodes{plain};
	my $dump = PostgreSQL::Test::Utils::tempdir() . '/shop.dump';

	sql($node, 'postgres', 'CREATE DATABASE shop; CREATE DATABASE restored');
	sql($node, 'shop', "CREATE EXTENSION dcounter; $shop");
	$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('shop') ], 'pg_dump');
	$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('restored'), $dump ], 'pg_restore');
	like(sql($node, 'shop', $of_shop), qr/^80\|0\|74\n/, 'the shop: of the expired hold the units are available, and not in its rows');
	is(sql($node, 'restored', $of_shop), sql($node, 'shop', $of_shop), 'the restored one is the same');
	goes_on($node, $_, "$_ goes on") foreach 'restored', 'shop';
	return;
}

sub test_standby
{
	my $node = $nodes{preload};
	my $standby = PostgreSQL::Test::Cluster->new('standby');

	$node->backup('base');
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	# without the worker, which would end the expired hold
	sql($node, 'postgres', "SELECT dc_worker_stop(); $shop");
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	is(sql($standby, 'postgres', $of_shop), sql($node, 'postgres', $of_shop), 'the standby is the same');
	foreach my $call ("dc_take('shop', 'a')", "dc_take('shop', 'b')", "dc_take_up_to('shop', 'a', 2)", "dc_take_all('shop', '{a}', '{1}')",
		"dc_restock('shop', 'a', 1)", "dc_hold('shop', 'a')", "dc_hold_all('shop', '{a,b}', '{1,1}')", "dc_hold_confirm('shop', '00000000-0000-0000-0000-000000000001')",
		"dc_hold_release('shop', '00000000-0000-0000-0000-000000000001')")
	{
		fails_with($standby, 'postgres', "SELECT $call", '25006', "$call is the read-only error");
	}
	sql($node, 'postgres', q{BEGIN; SELECT buy('p', 1); SELECT restock('p', 3); PREPARE TRANSACTION 'moved'});
	sql($node, 'postgres', q{SELECT dc_take('shop', 'b')});
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	$node->stop('immediate');
	$standby->promote;
	is(sql($standby, 'postgres', q{SELECT buy('p', 1); COMMIT PREPARED 'moved'; SELECT buy('p', 9, 'up to'); SELECT wrong();}),
		"0\n3", 'promoted: units of a prepared transaction');
	sql($standby, 'postgres', 'SELECT dc_worker_stop()');
	goes_on($standby, 'postgres', 'promoted: the shop goes on');
	$standby->stop;
	return;
}

test_kill($_ % 3 == 2 ? 'plain' : 'preload', $_) foreach 1 .. $rounds;
test_prepared($_) foreach 'preload', 'plain';
test_dump();
test_standby();

$nodes{plain}->stop;
done_testing();
