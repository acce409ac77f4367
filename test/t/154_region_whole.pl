# Regions in which something is missing that the others have: rows of a deleted key that one of them has removed, what a
# region has counted that is retired, what came since a snapshot of the disk of a region that knew no other. And a
# key whose amounts leave bigint in all of them. None of these makes regions differ, or stops a link.
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $beats = "dcounter.region_beat_interval = '1s'";
my @nodes = my ($eu, $us, $asia) = map { region_node($_, $beats) } qw(eu us asia);

# all_have(NAME, SQL, RESULT, NODES)
sub all_have
{
	my ($name, $query, $result, @of) = @_;

	is(wait_for($_, 'postgres', $query, $result), $result, "$name: " . $_->name) foreach @of;
	return;
}

# vacuumed(NODE): how many deleted keys are removed there, when all have heard of that
sub vacuumed
{
	my ($node) = @_;

	return wait_for($node, 'postgres', q{SET client_min_messages = warning; SELECT dc_region_vacuum('likes', '0 s')}, '1');
}

my $epoch = 'SELECT epoch FROM dcounter.self';
my $x = q{SELECT dc_get('likes', 'x')};

region_mesh(@nodes);

# One region removes a deleted key. The next to set it is another one, then that whose row was removed
sql($eu, 'postgres', q{SELECT dc_incr('likes', 'x', 5); SELECT dc_delete('likes', 'x')});
all_have('deleted', q{SELECT count(*) FROM likes_set WHERE key = 'x' AND deleted}, '1', @nodes);
is(vacuumed($us), '1', 'us removes a deleted key');
sql($us, 'postgres', q{SELECT dc_set('likes', 'x', 5)});
all_have('set by us', $x, '5', @nodes);
sql($eu, 'postgres', q{SELECT dc_set('likes', 'x', 7)});
all_have('set by the region that had deleted it', $x, '7', @nodes);
sql($eu, 'postgres', q{SELECT dc_incr('likes', 'x', 1); SELECT dc_set('likes', 'x', 8)});
all_have('set again', $x, '8', @nodes);

# The same, and the region that had deleted the key sets it: no row says any more that it was deleted
sql($eu, 'postgres', q{SELECT dc_set('likes', 'x', 9)});
all_have('set by eu', $x, '9', @nodes);
sql($asia, 'postgres', q{SELECT dc_delete('likes', 'x')});
all_have('deleted by asia', q{SELECT count(*) FROM likes_set WHERE key = 'x' AND deleted}, '1', @nodes);
is(vacuumed($us), '1', 'us removes it again');
sql($asia, 'postgres', q{SELECT dc_set('likes', 'x', 10)});
all_have('set by asia', $x, '10', @nodes);
sql($eu, 'postgres', q{SELECT dc_set('likes', 'x', 11)});
all_have('set by a region that had set it before', $x, '11', @nodes);
is(sql($_, 'postgres', q{SELECT keys, inc, "dec" FROM dc_region_check('likes') WHERE region IS NULL}), '0|0|0', $_->name . ' is sound') foreach @nodes;

# A key that leaves bigint, in all regions, is set
my $big = '9000000000000000000';
region_switch($_, 'DISABLE') foreach @nodes;
sql($_, 'postgres', "SELECT dc_incr('likes', 'big', $big)") foreach $eu, $us;
wait_for($_, 'postgres', q{SELECT count(*) FROM likes_region WHERE key = 'big'}, '1') foreach $eu, $us;
region_switch($_, 'ENABLE') foreach @nodes;
all_have('amounts that leave bigint have come', "SELECT sum(inc) FROM likes_region WHERE key = 'big'", '18000000000000000000', @nodes);
sql($eu, 'postgres', q{SELECT dc_reset('likes', 'big')});
sql($eu, 'postgres', q{SELECT dc_incr('likes', 'big', 3); SELECT dc_incr('likes', 'after', 1)});
all_have('what comes after it', q{SELECT dc_get('likes', 'after')}, '1', @nodes);
all_have('the key is set', q{SELECT dc_get('likes', 'big')}, '3', @nodes);
all_have('and compacted', q{SELECT count(*) FROM likes_shard WHERE inc <> 0 OR "dec" <> 0}, '0', @nodes);
is(sql($_, 'postgres', 'SELECT sum(apply_errors) FROM dc_regions()'), '0', 'no errors of links of ' . $_->name) foreach @nodes;
