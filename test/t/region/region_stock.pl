# Three regions sell from one stock of few units. Buyers take, wait and restock in all of them, with
# workers on, while links are cut and servers are killed. Whatever happens, the units sold, left and
# in transit add up to those stocked. In the end the last unit is sold where a buyer wants it, and
# the older of two requests is served first.
use strict;
use warnings;

use DcLinks;
use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $seconds = torture(4, 60);
my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my @names = ('eu', 'us', 'asia');
my @nodes = map { region_node($_, q{dcounter.rights_interval = '100ms'}) } @names;
my @keys = map { "key $_" } 1 .. 4;

foreach my $node (@nodes)
{
	sql($node, 'postgres', q{
		SELECT dc_stock_create('shop');
		SELECT dc_replicate('shop');
		CREATE TABLE booked (key text, units bigint);
		CREATE PROCEDURE buy(k text, n bigint, patience interval) LANGUAGE plpgsql AS $$
			DECLARE ok boolean;
			BEGIN
				CALL dc_take_wait('shop', k, n, patience, ok);
				IF ok THEN INSERT INTO booked VALUES (k, -n); END IF;
			END $$});
}
foreach my $to (@nodes)
{
	link_make($_, $to, 'dcounter_own', 1) foreach grep { $_ != $to } @nodes;
}
region_copied(@nodes);

# What buyers and the warehouse do: takes, waits, restocks; "booked" is written in the same transactions
my $buyer = q{
\set k random(1, 4)
\set n random(1, 2)
\set what random(1, 20)
\if :{?never}
\endif
BEGIN;
INSERT INTO booked SELECT 'key ' || :k, -:n WHERE dc_take('shop', 'key ' || :k, :n);
COMMIT;
\sleep 5 ms
};
my $waiter = q{
\set k random(1, 4)
CALL buy('key ' || :k, 1, '300 ms');
};
my $warehouse = q{
\set k random(1, 4)
\set n random(1, 3)
BEGIN;
SELECT dc_restock('shop', 'key ' || :k, :n);
INSERT INTO booked VALUES ('key ' || :k, :n);
COMMIT;
\sleep 30 ms
};
$buyer =~ s/\\if.*?\\endif\n//s;

sub jobs
{
	my ($node, $time) = @_;

	return map {
		start_command('pgbench', '-n', '-j', 1, '-c', $_->[1], '-T', $time, '-f', file_of($_->[0] . ' ' . $node->name . '.sql', $_->[2]), $node->connstr('postgres'))
	} [ 'buyer', 1, $buyer ], [ 'waiter', 3, $waiter ], [ 'warehouse', 1, $warehouse ];
}

# per key: booked (stocked less sold), units in all regions, units that were given and not received
sub account
{
	my %sum;

	foreach my $node (@nodes)
	{
		foreach (split /\n/, sql($node, 'postgres', q{
			SELECT k, (SELECT coalesce(sum(b.units), 0) FROM booked AS b WHERE b.key = k), (SELECT coalesce(sum(s.units), 0) FROM shop_shard AS s WHERE s.key = k)
			FROM (SELECT 'key ' || g FROM generate_series(1, 4) AS g) AS u(k)}))
		{
			my ($key, $booked, $units) = split /\|/;

			$sum{$key}{booked} += $booked;
			$sum{$key}{units} += $units;
		}
	}
	return join("\n", map { "$_|" . ($sum{$_}{booked} - $sum{$_}{units}) } sort keys %sum);
}

# Nothing is on its way any more, no region has less than nothing, and all is accounted for
sub is_right
{
	my ($name) = @_;
	my $none = join("\n", map { "$_|0" } @keys);
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my ($account, @grants);

	do
	{
		sleep(0.2);
		$account = account();
		@grants = map { answer($_, 'postgres', 'SELECT * FROM shop_grant ORDER BY 1, 2, 3, 4, 5') } @nodes;
	} until ($account eq $none && !grep({ $_ ne $grants[0] } @grants)) || time > $end;
	is($account, $none, "$name: sold and left is what was stocked");
	is($grants[$_], $grants[0], "$name: $names[$_] knows the grants that $names[0] knows") foreach 1 .. $#nodes;
	foreach my $node (@nodes)
	{
		is(sql($node, 'postgres', q{SELECT count(*) FROM shop_shard WHERE units < 0}), '0', "$name: no negative units in " . $node->name);
		is(sql($node, 'postgres', q{SELECT count(*) FROM (SELECT key, sum(units) FROM shop_shard GROUP BY key) AS s(key, units) WHERE dc_get('shop', key) <> units}), '0', "$name: values are units in " . $node->name);
		is(region_errors($node), '', "$name: no errors on " . $node->name);
	}
	return;
}

# At work
my @jobs = map { jobs($_, $seconds) } @nodes;
finish_job($_) foreach @jobs;
is_right('at work');
cmp_ok(sql($nodes[0], 'postgres', 'SELECT count(*) FROM shop_grant'), '>', 0, 'units have moved between regions');

# Links are cut and restored; a region that is cut off sells exactly its own units
@jobs = map { jobs($_, $seconds) } @nodes;
foreach my $cut (1 .. torture(3, 30))
{
	my $node = $nodes[rand(@nodes)];

	link_switch($node, 'DISABLE');
	sleep(0.3 + rand(1));
	link_switch($node, 'ENABLE');
	sleep(rand(0.3));
}
finish_job($_) foreach @jobs;
is_right('cut links');

# kill -9 of an apply worker, and of a server, at work
@jobs = map { jobs($_, 2 * $seconds) } @nodes;
sleep($seconds / 2);
kill 'KILL', some_pid($nodes[0], 'SELECT pid FROM pg_stat_subscription WHERE pid IS NOT NULL LIMIT 1');
sleep(0.5);
$nodes[1]->kill9;
sleep(0.5);
restart_after_kill9($nodes[1]);
is(wait_for($nodes[0], 'postgres', 'SELECT 1', '1'), '1', 'the server of the killed worker has restarted');
finish_job($_) foreach @jobs;
is_right('crashes');

# The last unit is sold where it is wanted, wherever it is
sql($nodes[0], 'postgres', q{SELECT dc_restock('shop', 'last', 1)});
is(sql($nodes[2], 'postgres', q{SELECT dc_take('shop', 'last')}), 'f', 'a take asks nobody');
is(sql($nodes[2], 'postgres', q{CALL dc_take_wait('shop', 'last', 1, '60 s')}), 't', 'the last unit is sold');
is(sql($nodes[1], 'postgres', q{CALL dc_take_wait('shop', 'last', 1, '500 ms')}), 'f', '... once');
# all of what is in several regions
sql($_, 'postgres', q{SELECT dc_restock('shop', 'all', 2)}) foreach @nodes;
is(sql($nodes[1], 'postgres', q{CALL dc_take_wait('shop', 'all', 6, '60 s')}), 't', 'all that there is, for one');

# The older request is served first
my $first = dc_session($nodes[1], 'postgres');
my $second = dc_session($nodes[2], 'postgres');
$first->send(q{CALL dc_take_wait('shop', 'old', 1, '120 s')});
is(wait_for($nodes[0], 'postgres', q{SELECT count(*) FROM shop_want WHERE key = 'old' AND wanted = 1}, '1'), '1', 'the first one waits');
$second->send(q{CALL dc_take_wait('shop', 'old', 1, '120 s')});
is(wait_for($nodes[0], 'postgres', q{SELECT count(*) FROM shop_want WHERE key = 'old' AND wanted = 1}, '2'), '2', 'the second one, too');
sql($nodes[0], 'postgres', q{SELECT dc_restock('shop', 'old', 1)});
like($first->wait, qr/t/, 'the older request is served first');
ok(!$second->answered, '... and the younger one is not');
sql($nodes[0], 'postgres', q{SELECT dc_restock('shop', 'old', 1)});
like($second->wait, qr/t/, 'then the younger one');
$_->quit foreach $first, $second;

# dc_want brings units before anybody waits; and keys that run low are filled from what others can spare
sql($nodes[0], 'postgres', q{SELECT dc_restock('shop', 'low', 100)});
sql($nodes[1], 'postgres', q{SELECT dc_want('shop', 'low', 10)});
is(wait_for($nodes[1], 'postgres', q{SELECT dc_get('shop', 'low')}, '10'), '10', 'dc_want brings units');
foreach my $node (@nodes)
{
	$node->append_conf('postgresql.conf', 'dcounter.rights_low = 20');
	$node->reload;
}
is(wait_for($nodes[1], 'postgres', q{SELECT dc_get('shop', 'low') >= 20}, 't'), 't', 'a key that runs low gets more');
is(sql($nodes[0], 'postgres', q{SELECT dc_get('shop', 'low') >= 20}), 't', '... of what others can spare');
is(sql($nodes[1], 'postgres', q{SELECT granted_in >= 20 AND units >= 20 FROM dc_stock_regions('shop', 'low') WHERE region = 'us'}), 't', 'dc_stock_regions');

$_->stop foreach @nodes;
done_testing();
