# Three servers that replicate to each other, both ways, and merge rows (dcounter.merge_row()).
# Users write to all of them. Links are cut and healed, a server is killed. In the end the tables
# are equal and have all counts; and nothing circulates any more.
use strict;
use warnings;

use DcLinks;
use DcMerge;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $seconds = torture(4, 60);
my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my @nodes = map { merge_node($_) } 'eu', 'us', 'asia';
my $committed = 0;

foreach my $to (@nodes)
{
	link_make($_, $to, 'p') foreach grep { $_ != $to } @nodes;
}

# All rows are there, however few transactions there are
sql($nodes[0], 'postgres', q{INSERT INTO likes SELECT i, dc_add(dc_pncounter(), 1) FROM generate_series(1, 40) AS i; INSERT INTO counted SELECT i, 1 FROM generate_series(1, 40) AS i});
$committed += 40;
is(wait_for($_, 'postgres', 'SELECT count(*) FROM likes', '40'), '40', 'rows come to ' . $_->name) foreach @nodes;

# Users on all
my @jobs = map { merge_write($_, $seconds) } @nodes;
$committed += link_written($_) foreach @jobs;
merge_is_sound('mesh', @nodes);
is(sql($nodes[0], 'postgres', 'SELECT count(*) FROM likes'), '40', 'mesh: all rows');
my $counted = 0;
$counted += sql($_, 'postgres', 'SELECT count(*) FROM counted') foreach @nodes;
is($counted, $committed, 'mesh: what users were told is committed');
note("$committed transactions");

# Links are cut and healed
@jobs = map { merge_write($_, $seconds) } @nodes;
foreach my $cut (1 .. torture(3, 30))
{
	my $node = $nodes[rand(@nodes)];

	link_switch($node, 'DISABLE');
	sleep(0.3 + rand(1));
	link_switch($node, 'ENABLE');
	sleep(rand(0.3));
}
link_written($_) foreach @jobs;
merge_is_sound('cut links', @nodes);

# One that was cut off for all the time
link_switch($nodes[2], 'DISABLE');
@jobs = map { merge_write($_, $seconds) } @nodes;
link_written($_) foreach @jobs;
link_switch($nodes[2], 'ENABLE');
merge_is_sound('a long cut', @nodes);

# One is killed
@jobs = map { merge_write($_, 2 * $seconds) } @nodes;
sleep($seconds / 2);
$nodes[1]->kill9;
sleep(0.5);
restart_after_kill9($nodes[1]);
push @jobs, merge_write($nodes[1], $seconds);
link_written($_) foreach @jobs;
merge_is_sound('a crash', @nodes);

# Rows that one of them has deleted by its own come back with the next change elsewhere
sql($nodes[0], 'postgres', 'DELETE FROM likes WHERE id = 1');
is(sql($nodes[1], 'postgres', 'SELECT count(*) FROM likes'), '40', 'deletes are not published');
# (an UPDATE does not find the row, and the trigger is not asked)
sql($nodes[1], 'postgres', 'UPDATE likes SET n = dc_add(n, 5) WHERE id = 1; INSERT INTO counted VALUES (1, 5)');
sleep(1);
is(sql($nodes[0], 'postgres', 'SELECT count(*) FROM likes WHERE id = 1'), '0', 'an update of a row that is missing is passed over');
sql($nodes[0], 'postgres', 'ALTER SUBSCRIPTION from_us_to_eu DISABLE; ALTER SUBSCRIPTION from_us_to_eu SET (slot_name = NONE); DROP SUBSCRIPTION from_us_to_eu');
is(wait_for($nodes[1], 'postgres', q{SELECT active FROM pg_replication_slots WHERE slot_name = 'from_us_to_eu'}, 'f'), 'f', 'its slot is not used any more');
sql($nodes[1], 'postgres', q{SELECT pg_drop_replication_slot('from_us_to_eu')});
link_make($nodes[1], $nodes[0], 'p', 1);
merge_is_sound('a link that is made anew copies what is missing', @nodes);

$_->stop foreach @nodes;
done_testing();
