# Keys are set, reset and deleted in three regions, a mesh, while others count in them. What was not observed by a set is
# on top of it, wherever it was counted; two resets do not double; of two sets the later one stays. In the end all regions
# have the same, and what their rows say, even when they remove deleted keys at different times.
use strict;
use warnings;

use DcLinks;
use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = torture(5, 60);
my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my @nodes = map { region_node($_) } 'eu', 'us', 'asia';
my ($eu, $us, $asia) = @nodes;
my $refreshed = 0;

# Users do all of that, to few keys
my $setter = q{
\set id random(1, 12)
\set other random(1, 12)
\set amount random(-3, 7)
\set what random(1, 20)
SELECT dc_incr('likes', 'key ' || :id, :amount), dc_decr('likes', 'key ' || :other);
\if :what = 1
SELECT dc_reset('likes', 'key ' || :id);
\elif :what = 2
SELECT dc_delete('likes', 'key ' || :id);
\elif :what <= 4
SELECT dc_set('likes', 'key ' || :id, :amount * 1000);
\elif :what = 5
BEGIN;
SELECT dc_set('likes', 'key ' || :id, 17);
SELECT dc_incr('likes', 'key ' || :id, 1);
SELECT dc_delete('likes', 'key ' || :id);
ROLLBACK;
\elif :what = 6
BEGIN;
SELECT dc_incr('likes', 'key ' || :id, 2);
SELECT dc_set('likes', 'key ' || :id, :amount);
SAVEPOINT s;
SELECT dc_delete('likes', 'key ' || :id);
ROLLBACK TO s;
SELECT dc_incr('likes', 'key ' || :id, 3);
COMMIT;
\endif
};

sub start_setters
{
	my ($node, $time) = @_;

	return start_command('pgbench', '-n', '-j', 1, '-c', 3, '-T', $time, '-f', file_of('set ' . $node->name . '.sql', $setter), $node->connstr('postgres'));
}

sub values_of
{
	my ($node) = @_;

	return answer($node, 'postgres', q{
		SELECT key, sum(inc), sum(dec) FROM (SELECT key, inc, dec FROM likes UNION ALL SELECT key, inc, dec FROM likes_shard) AS u GROUP BY key HAVING sum(inc) <> 0 OR sum(dec) <> 0 ORDER BY key});
}

# all_agree(NAME): in the end all have the same values and rows, and values are what the rows say
sub all_agree
{
	my ($name) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my (@values, @checks, @left);

	do
	{
		sleep(0.2);
		@checks = map { answer($_, 'postgres', q{SELECT * FROM dc_region_check('likes')}) } @nodes;
		@values = map { values_of($_) } @nodes;
		@left = map { sql($_, 'postgres', 'SELECT count(*) FROM likes_shard WHERE inc <> 0 OR dec <> 0') } @nodes;
	} until (!grep({ $_ ne $values[0] } @values) && !grep({ $_ ne $checks[0] } @checks) && !grep({ $_ ne '0' } @left)) || time > $end;
	is($values[$_], $values[0], "$name: " . $nodes[$_]->name . ' has the values that eu has') foreach 1, 2;
	is($checks[$_], $checks[0], "$name: " . $nodes[$_]->name . ' has the rows that eu has') foreach 1, 2;
	like($checks[$_], qr/^\|\|0\|0\|0\|$/m, "$name: on " . $nodes[$_]->name . ' values are what the rows say') foreach 0 .. 2;
	is(errors_of($_), '', "$name: no errors on " . $_->name) foreach @nodes;
	return;
}

# value_everywhere(KEY, VALUE, NAME)
sub value_everywhere
{
	my ($key, $value, $name) = @_;

	is(wait_for($_, 'postgres', "SELECT dc_get('likes', '$key')", $value), $value, "$name, on " . $_->name) foreach @nodes;
	return;
}

sub likes
{
	my ($node, $call) = @_;
	my ($function, $arguments) = $call =~ /^(\w+) (.*)$/;

	return sql($node, 'postgres', "SELECT dc_$function('likes', $arguments)");
}

foreach my $to (@nodes)
{
	link_make($_, $to, 'dcounter_own', 1) foreach grep { $_ != $to } @nodes;
}
region_copied(@nodes);

# What is done where the others do not hear of it
likes($eu, "incr '$_', 10") foreach 'resets', 'sets', 'counted', 'deleted', 'revived', 'gone';
value_everywhere($_, 10, "before: $_") foreach 'resets', 'sets', 'counted', 'deleted', 'revived', 'gone';
link_switch($_, 'DISABLE') foreach @nodes;
is(likes($eu, "reset 'resets'"), 10, 'a reset returns the old value');
is(likes($us, "reset 'resets'"), 10, 'and so does the other one');
likes($asia, "incr 'resets', 5");
likes($us, "set 'sets', 100");
likes($eu, "set 'sets', 200");
likes($asia, "set 'sets', 300");
likes($us, "incr 'sets', 1");
likes($eu, "set 'counted', 50");
likes($us, "incr 'counted', 3");
likes($asia, "decr 'counted', 7");
likes($eu, "incr 'counted', 1000");
likes($eu, "delete 'deleted'");
likes($us, "incr 'deleted', 4");
likes($us, "delete 'revived'");
likes($asia, "set 'revived', 70");
likes($eu, "incr 'revived', 1");
is(likes($_, "delete 'gone'"), 10, 'deleted on ' . $_->name) foreach @nodes;
is(likes($us, "delete 'gone'"), 0, 'and once more');
link_switch($_, 'ENABLE') foreach @nodes;
value_everywhere('resets', 5, 'two resets do not double, and what they have not observed stays');
value_everywhere('sets', 301, 'the last set stays');
value_everywhere('counted', 1046, 'what is counted at the same time is on top');
value_everywhere('deleted', 4, 'so it is of a deletion');
value_everywhere('revived', 71, 'a key that was set after it was deleted is there');
value_everywhere('gone', 0, 'a key that all have deleted is not');
is(wait_for($_, 'postgres', q{SELECT count(*) FROM likes WHERE key = 'gone'}, 0), 0, 'it has no row on ' . $_->name) foreach @nodes;
all_agree('cut off');
likes($_, "incr 'gone', 2") foreach @nodes;
likes($us, "incr 'deleted', 3");
likes($eu, "incr 'nothing', 3");
is(wait_for($_, 'postgres', q{SELECT value FROM likes WHERE key = 'nothing'}, 3), 3, 'a key has a row on ' . $_->name) foreach @nodes;
likes($eu, "reset 'nothing'");
is(wait_for($_, 'postgres', q{SELECT inc - dec FROM likes WHERE key = 'nothing'}, 0), 0, 'a key of value 0 has a row on ' . $_->name) foreach @nodes;
likes($us, "delete 'nothing'");
is(wait_for($_, 'postgres', q{SELECT count(*) FROM likes WHERE key = 'nothing'}, 0), 0, 'and when it is deleted, none on ' . $_->name) foreach @nodes;
value_everywhere('gone', 6, 'all count again in a deleted key');
value_everywhere('deleted', 7, 'and in one that was counted meanwhile');
all_agree('counted again');
is(sql($eu, 'postgres', q{SELECT string_agg(region || ':' || value, ' ' ORDER BY region) FROM dc_get_regions('likes', 'gone')}), 'asia:2 eu:2 us:2', 'what each has counted since');

# An open dc_set() keeps what comes for its key, and what comes by the same links, waiting
my $session = dc_session($eu, 'postgres');
$session->run(q{BEGIN; SELECT dc_set('likes', 'sets', 1)});
likes($us, "set 'sets', 2");
sleep(0.5);
$session->run('COMMIT');
$session->quit;
value_everywhere('sets', 2, 'the set that was made later stays');

# Users, links that are cut, a server that is killed
my @jobs = map { start_setters($_, $seconds) } @nodes;
foreach my $cut (1 .. torture(3, 30))
{
	my $node = $nodes[ rand(@nodes) ];

	link_switch($node, 'DISABLE');
	sleep(0.3 + rand(0.5));
	link_switch($node, 'ENABLE');
	sleep(rand(0.3));
}
finish_job($_) foreach @jobs;
all_agree('users');
@jobs = map { start_setters($_, $seconds) } @nodes;
sleep($seconds / 2);
$us->kill9;
sleep(0.5);
restart_after_kill9($us);
finish_job($_) foreach @jobs;
all_agree('a crash');
links_are_idle('all is quiet', @nodes);

# From now on regions often tell each other what they have heard
foreach my $node (@nodes)
{
	sql($node, 'postgres', q{ALTER SYSTEM SET dcounter.region_beat_interval = '300ms'});
	$node->reload;
}

# All keys are deleted. Then all regions count in them, and remove their remains, each at its own
# time
sql($us, 'postgres', q{SELECT dc_delete('likes', key) FROM (SELECT DISTINCT key FROM likes_region UNION SELECT key FROM likes_set) AS k});
all_agree('deleted');
is(wait_for($_, 'postgres', 'SELECT count(*) FROM likes', 0), 0, 'nothing is left to be seen on ' . $_->name) foreach @nodes;
sql($_, 'postgres', 'TRUNCATE counted') foreach @nodes;
removes_all($eu, 'removed');
@jobs = map { region_count($_, $seconds) } @nodes;
sleep($seconds / 4);
foreach my $node ($asia, $eu, $us)
{
	note($node->name . ' removes ' . sql($node, 'postgres', q{SELECT dc_region_vacuum('likes', '0')}));
	sleep($seconds / 5);
}
link_written($_) foreach @jobs;
ends_with_counted('vacuum while users count');

# removes_all(NODE, NAME): when all regions know of the deletions, nothing is left of the keys
sub removes_all
{
	my ($node, $name) = @_;

	is(wait_for($node, 'postgres', q{SELECT dc_region_vacuum('likes', '0') * 0 + count(*) FROM (SELECT key FROM likes_set UNION ALL SELECT key FROM likes_region) AS k}, '0'), '0', "$name, on " . $node->name);
	is(sql($node, 'postgres', 'SELECT (SELECT count(*) FROM likes_set) + (SELECT count(*) FROM likes_region)'), '0', "$name: nothing is left on " . $node->name);
	return;
}

# ends_with_counted(NAME): values are what users have counted since all keys were deleted
sub ends_with_counted
{
	my ($name) = @_;
	my $truth = region_truth(@nodes);

	wait_for_values($_, $truth) foreach @nodes;
	is(values_of($_), $truth, "$name: " . $_->name . ' has what was counted') foreach @nodes;
	like(answer($_, 'postgres', q{SELECT * FROM dc_region_check('likes')}), qr/^\|\|0\|0\|0\|$/m, "$name: values are what the rows say, on " . $_->name) foreach @nodes;
	is(errors_of($_), '', "$name: no errors on " . $_->name) foreach @nodes;
	return;
}

# The first copies of the tables of regions and of sets, which are made at the same time, may wait for each other. Then
# the server lets one of them begin again.
sub errors_of
{
	my ($node) = @_;

	return join("\n", grep { !/ERROR:  deadlock detected$/ || !$refreshed } split /\n/, region_errors($node));
}

sub wait_for_values
{
	my ($node, $values) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;

	sleep(0.2) until values_of($node) eq $values || time > $end;
	return;
}

# A region that still has what others have removed brings it back to them, by a copy of all that it knows
$refreshed = 1;
foreach my $to ($eu, $us)
{
	my $connection = $asia->connstr('postgres');

	sql($to, 'postgres', "CREATE SUBSCRIPTION refresh CONNECTION \$c\$$connection application_name=refresh_" . $to->name . "\$c\$ PUBLICATION dcounter_all WITH (slot_name = 'refresh_" . $to->name . "')");
	region_copied($to);
	sql($to, 'postgres', 'DROP SUBSCRIPTION refresh');
}
ends_with_counted('refreshed');
@jobs = map { region_count($_, $seconds / 2) } @nodes;
link_written($_) foreach @jobs;
ends_with_counted('counted after that');
sql($asia, 'postgres', q{SELECT dc_delete('likes', key) FROM (SELECT DISTINCT key FROM likes_region UNION SELECT key FROM likes_set) AS k});
is(wait_for($_, 'postgres', 'SELECT count(*) FROM likes', 0), 0, 'deleted again, on ' . $_->name) foreach @nodes;
removes_all($_, 'removed again') foreach @nodes;
all_agree('nothing left');

$_->stop foreach @nodes;
done_testing();
