# Three servers in a ring, one way and both ways, whose tables have rows before they are linked
# (dcounter.merge_row()): the copy of a table merges with existing rows, and rows stop circulating.
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
my @nodes = map { merge_node($_) } 'eu', 'us', 'asia';

# write(): users write to all while something is done
sub write_while
{
	my ($action) = @_;
	my @jobs = map { merge_write($_, $seconds) } @nodes;

	sleep($seconds / 3);
	$action->();
	link_written($_) foreach @jobs;
	return;
}

# copied(): all tables have been copied
sub copied
{
	foreach my $node (@nodes)
	{
		is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'}, '0'), '0', 'tables of ' . $node->name . ' are copied');
	}
	return;
}

# Each has rows of its own, some of the same keys
write_while(sub { });
my $rows = q{SELECT md5(string_agg(l::text, ' ' ORDER BY id)) FROM likes AS l};
isnt(sql($nodes[0], 'postgres', $rows), sql($nodes[1], 'postgres', $rows), 'the tables differ');

# One way: what one writes comes to the third by the second
write_while(sub { link_make($nodes[$_], $nodes[($_ + 1) % 3], 'p', 1) foreach 0 .. 2 });
copied();
merge_copies_are_sound('one way', @nodes);
write_while(sub {
		link_switch($nodes[1], 'DISABLE');
		sleep($seconds / 4);
		link_switch($nodes[1], 'ENABLE');
});
merge_is_sound('one way, cut', @nodes);

# Both ways: rows come by two paths. The copy meets those who apply.
write_while(sub { link_make($nodes[($_ + 1) % 3], $nodes[$_], 'p', 1) foreach 0 .. 2 });
copied();
merge_copies_are_sound('both ways', @nodes);

# Another one joins while they write
my $fourth = merge_node('fourth');
push @nodes, $fourth;
write_while(sub {
		link_make($nodes[0], $fourth, 'p', 1);
		link_make($nodes[1], $fourth, 'p', 1);
		link_make($fourth, $nodes[2], 'p', 1);
});
copied();
merge_copies_are_sound('a fourth', @nodes);

$_->stop foreach @nodes;
done_testing();
