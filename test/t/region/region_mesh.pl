# Three regions in a mesh: each receives the counts of every other one over a separate link. Users
# count in all of them, with workers on. Links are cut and healed, an apply worker and servers are
# killed. In the end each region has the counts of all of them, key by key; no row was refused; and
# when nobody counts, no WAL is written.
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

my @nodes = map { region_node($_) } 'eu', 'us', 'asia';
my $committed = 0;

foreach my $to (@nodes)
{
	link_make($_, $to, 'dcounter_own', 1) foreach grep { $_ != $to } @nodes;
}
region_copied(@nodes);

# Each region has counted each key, however few transactions there are: 20 of two rows
foreach my $node (@nodes)
{
	sql($node, 'postgres', q{SELECT dc_incr('likes', 'key ' || i) FROM generate_series(1, 40) AS i; INSERT INTO counted SELECT 'key ' || i, 1 FROM generate_series(1, 40) AS i});
	$committed += 20;
}

# Users on all
my @jobs = map { region_count($_, $seconds) } @nodes;
$committed += link_written($_) foreach @jobs;
region_is_sound('mesh', @nodes);
is(sql($nodes[0], 'postgres', q{SELECT count(DISTINCT key), count(DISTINCT region), count(*) FROM likes_region}), '40|3|120', 'mesh: all keys');
my $counted = 0;
$counted += sql($_, 'postgres', 'SELECT count(*) / 2 FROM counted') foreach @nodes;
is($counted, $committed, 'mesh: what users were told is committed');
is(sql($nodes[0], 'postgres', q{SELECT count(*) FROM likes_shard WHERE shard < 0}), '0', 'mesh: what came is compacted');
is(sql($nodes[1], 'postgres', q{SELECT sum(value) = dc_get('likes', 'key 7') FROM dc_get_regions('likes', 'key 7')}), 't', 'mesh: the sum over regions is the value');
note("$committed transactions");

# Links are cut and healed
@jobs = map { region_count($_, $seconds) } @nodes;
foreach my $cut (1 .. torture(3, 30))
{
	my $node = $nodes[rand(@nodes)];

	link_switch($node, 'DISABLE');
	sleep(0.3 + rand(1));
	link_switch($node, 'ENABLE');
	sleep(rand(0.3));
}
link_written($_) foreach @jobs;
region_is_sound('cut links', @nodes);

# One that was cut off for all the time, and has a prepared transaction, and compacts by hand
link_switch($nodes[2], 'DISABLE');
@jobs = map { region_count($_, $seconds) } @nodes;
sql($nodes[2], 'postgres', q{
	BEGIN; SELECT dc_incr('likes', 'key 1', 1000); INSERT INTO counted VALUES ('key 1', 1000); PREPARE TRANSACTION 'late';
	SELECT dc_compact('likes')});
link_written($_) foreach @jobs;
link_switch($nodes[2], 'ENABLE');
sql($nodes[2], 'postgres', q{COMMIT PREPARED 'late'});
region_is_sound('a long cut', @nodes);

# An apply worker is killed, and with it all processes of its server; then a whole server
@jobs = map { region_count($_, 2 * $seconds) } @nodes;
sleep($seconds / 2);
kill 'KILL', some_pid($nodes[0], 'SELECT pid FROM pg_stat_subscription WHERE pid IS NOT NULL LIMIT 1');
sleep(0.5);
$nodes[1]->kill9;
sleep(0.5);
restart_after_kill9($nodes[1]);
is(wait_for($nodes[0], 'postgres', 'SELECT 1', '1'), '1', 'the server of the killed worker has restarted');
push @jobs, map { region_count($_, $seconds) } @nodes[ 0, 1 ];
link_written($_) foreach @jobs;
region_is_sound('crashes', @nodes);

# A backend that is merging is asked to stop
@jobs = map { region_count($_, $seconds) } @nodes;
foreach (1 .. 5)
{
	sleep($seconds / 8);
	sql($_, 'postgres', 'SELECT pg_terminate_backend(pid) FROM pg_stat_subscription WHERE pid IS NOT NULL') foreach @nodes;
}
link_written($_) foreach @jobs;
region_is_sound('workers that are stopped', @nodes);

$_->stop foreach @nodes;
done_testing();
