# Regions that are not in a mesh: a star, a ring in one direction, a tree, and a ring in both. The links
# are made by the statements of dc_region_join(), users count everywhere, a link is cut and heals.
# In the end each region has the counts of all of them. Where one link carries a region no row is
# refused; where there are two, there may be deadlocks, which are retried. When nobody counts, no
# WAL is written.
#
# With DC_OTHER_PG_CONFIG, the pg_config of a server of another version that has the extension, every
# second region is on that one.
use strict;
use warnings;

use DcLinks;
use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $seconds = torture(3, 60);

# join_link(TO, FROM, TOPOLOGY): what psql's \gexec runs; what it says
sub join_link
{
	my ($to, $from, $topology) = @_;
	my $connection = $from->connstr('postgres') =~ s/'/''/gr;
	my ($status, $out, $err) = $to->psql('postgres', "SET client_min_messages = warning; SELECT dc_region_join('" . $from->name . "', '$connection', '$topology', trust_owners => true) \\gexec");

	is($status, 0, $to->name . ' joins ' . $from->name . " ($topology)") or diag($err);
	return $err;
}

# The regions of a case have their own servers
sub regions
{
	return map { region_node($_) } @_;
}

# count_and_cut(CUT, NODES): users count, one region hears nothing for a while
sub count_and_cut
{
	my ($cut, @nodes) = @_;
	my @jobs = map { region_count($_, $seconds) } @nodes;

	sleep($seconds / 4);
	link_switch($cut, 'DISABLE');
	sleep($seconds / 4);
	link_switch($cut, 'ENABLE');
	link_written($_) foreach @jobs;
	return;
}

# apply_errors(NODES): errors of apply workers, as the server counts them
sub apply_errors
{
	my $errors = 0;

	$errors += sql($_, 'postgres', q{SELECT coalesce(sum(apply_error_count + coalesce(to_jsonb(s) -> 'sync_error_count', to_jsonb(s) -> 'sync_table_error_count')::bigint), 0) FROM pg_stat_subscription_stats AS s}) foreach @_;
	return $errors;
}

# copied(NODES): tells it by the procedure
sub copied
{
	foreach my $node (@_)
	{
		sql($node, 'postgres', 'CALL dc_region_wait_copied()');
		is(sql($node, 'postgres', q{SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'}), '0', 'tables of ' . $node->name . ' are copied');
	}
	return;
}

##
## A star: the hub passes on what the leaves count

my ($hub, @leaves) = my @star = regions('hub', 'leaf1', 'leaf2', 'leaf3');
my $early = region_count($leaves[0], 1);
link_written($early); # there are rows to be copied
foreach my $leaf (@leaves)
{
	is(join_link($hub, $leaf, 'hub'), '', 'no warning');
	is(join_link($leaf, $hub, 'leaf'), '', 'no warning');
}
copied(@star);
count_and_cut($leaves[1], @star);
region_is_sound('star', @star);
is(apply_errors(@star), '0', 'star: no row was refused');

# Again: nothing changes, except for what is new
is(sql($leaves[0], 'postgres', q{SELECT count(*) FROM pg_subscription}), '1', 'a leaf has one link');
join_link($leaves[0], $hub, 'leaf');
is(sql($leaves[0], 'postgres', q{SELECT count(*) FROM pg_subscription}), '1', 'and one when it joins again');
sql($_, 'postgres', q{SELECT dc_create('views'); SELECT dc_replicate('views')}) foreach @star;
sql($leaves[1], 'postgres', q{SELECT dc_incr('views', 'page', 5)});
foreach my $leaf (@leaves)
{
	join_link($hub, $leaf, 'hub');
	join_link($leaf, $hub, 'leaf');
}
copied(@star);
is(wait_for($_, 'postgres', q{SELECT dc_get('views', 'page')}, '5'), '5', $_->name . ' has the new counter') foreach @star;

# A leaf has lost rows, which the hub gives back
sql($leaves[2], 'postgres', q{ALTER TABLE likes_region DISABLE TRIGGER ALL; DELETE FROM likes_region; ALTER TABLE likes_region ENABLE TRIGGER ALL;
	ALTER TABLE likes_region ENABLE REPLICA TRIGGER dcounter_merge; SELECT dc_region_repair('likes');
	SELECT dc_region_renew()}); # what it has counted itself comes back as well
is($leaves[2]->psql('postgres', q{SELECT dc_region_refresh('hub', trust_owners => true) \gexec}), 0, 'it is refreshed');
is(sql($leaves[2], 'postgres', q{SELECT count(*) FROM pg_subscription}), '1', 'by a link that is gone');
is(sql($hub, 'postgres', q{SELECT count(*) FROM pg_replication_slots WHERE slot_name ~ 'refresh'}), '0', 'with its slot');
region_is_sound('refreshed', @star);
is(wait_for($leaves[2], 'postgres', q{SELECT state FROM dc_regions() WHERE region = 'leaf3'}, 'active'), 'active', 'the hub alone gives it all');

# From a leaf to a link of its own
like(join_link($leaves[0], $leaves[1], 'mesh'), qr/WARNING:  rows of the same regions may arrive/, 'a second path is told of')
  if sql($leaves[0], 'postgres', q{SELECT count(*) FROM dcounter.region WHERE region = 'leaf2'}) ne '0';
$_->stop('immediate') foreach @star;

##
## A ring in one direction, which is cut

my @ring = regions('ring1', 'ring2', 'ring3');
is(join_link($ring[$_], $ring[ $_ - 1 ], 'ring'), '', 'no warning') foreach 0 .. $#ring;
copied(@ring);
count_and_cut($ring[0], @ring);
region_is_sound('ring', @ring);
is(apply_errors(@ring), '0', 'ring: no row was refused');

##
## Now in both: each region comes by two ways

like(join_link($ring[$_], $ring[ ($_ + 1) % @ring ], 'ring'), qr/WARNING:  rows of the same regions may arrive/, 'a second path is told of') foreach 0 .. $#ring;
copied(@ring);
count_and_cut($ring[0], @ring);

# Deadlocks are tried again
{
	my $all = \&DcRegion::region_errors;
	no warnings 'redefine';
	local *DcRegion::region_errors = sub { return join("\n", grep { !/deadlock detected/ } split /\n/, $all->(@_)) };
	region_is_sound('ring in both directions', @ring);
}
note('errors: ' . apply_errors(@ring));
$_->stop('immediate') foreach @ring;

##
## A tree: root - inner - two leaves, and root - leaf

my ($root, $inner, $low1, $low2, $low3) = my @tree = regions('root', 'inner', 'low1', 'low2', 'low3');
foreach ([ $root, $inner ], [ $inner, $low1 ], [ $inner, $low2 ], [ $root, $low3 ])
{
	is(join_link($_->[0], $_->[1], 'tree'), '', 'no warning');
	is(join_link($_->[1], $_->[0], 'tree'), '', 'no warning');
}
copied(@tree);
count_and_cut($inner, @tree);
region_is_sound('tree', @tree);
note('errors: ' . apply_errors(@tree));
$_->stop('immediate') foreach @tree;

##
## Servers of two versions

SKIP:
{
	my $other = $ENV{DC_OTHER_PG_CONFIG};

	skip 'no server of another version here (DC_OTHER_PG_CONFIG)', 1 if !$other;
	chomp(my $path = `$other --bindir`);
	my $old = region_node('this');
	my $new = region_node('that', "install_path = $path");

	note(sql($_, 'postgres', 'SHOW server_version')) foreach $old, $new;
	join_link($old, $new, 'mesh');
	join_link($new, $old, 'mesh');
	copied($old, $new);
	count_and_cut($new, $old, $new);
	region_is_sound('two versions', $old, $new);
	is(apply_errors($old, $new), '0', 'two versions: no row was refused');
	$_->stop('immediate') foreach $old, $new;
}
done_testing();
