# A snapshot that is held keeps all earlier versions of a heartbeat. Neither raising one, nor what looks at the rows of all
# regions, gets slower by that: how many pages of the table and its index are visited is counted.
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $beats = 4000;
my $node = region_node('eu', 'autovacuum = off', "dcounter.compact_interval = '1h'");
my $visited = q{SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read) FROM pg_statio_all_tables WHERE schemaname = 'dcounter' AND relname = 'region'};
my $n = 0;
my $seq = 0;

# visited(STATEMENTS): how many pages of dcounter.region a session of its own visits to run them
sub visited
{
	my ($statements) = @_;
	my $before = sql($node, 'postgres', $visited);

	sql($node, 'postgres', "$statements; SELECT pg_stat_force_next_flush()");
	return sql($node, 'postgres', $visited) - $before;
}

# sets(COUNT): statements that set as many keys, each in a transaction of its own
sub sets
{
	my ($count) = @_;
	my $from = $n + 1;

	$n += $count;
	return qq{DO \$\$ BEGIN FOR i IN $from..$n LOOP PERFORM dc_set('likes', 'key ' || i, i); COMMIT; END LOOP; END \$\$};
}

# comes(COUNT): statements by which as many heartbeats of us come, which say that br is retired
sub comes
{
	my ($count) = @_;
	my $from = $seq + 1;

	$seq += $count;
	return qq{SET session_replication_role = replica; DO \$\$ BEGIN FOR i IN $from..$seq LOOP INSERT INTO dcounter.region (region, epoch, seq, seen) VALUES ('us', 5, i, '{"br": [5, 1, "", null, 1700000000000000]}'); COMMIT; END LOOP; END \$\$};
}

sql($node, 'postgres', q{SET session_replication_role = replica; INSERT INTO dcounter.region (region, epoch, seq, retired_at) VALUES ('br', 5, 1, '2023-11-14')});
sql($node, 'postgres', $_) foreach sets(10), comes(10);
my $snapshot = dc_session($node, 'postgres');
$snapshot->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');

my @looks = ([ 'in one session, to set 200 keys', sub { return sets(200) } ], [ 'in a session that has just come, to set one', sub { return sets(1) } ],
	[ 'to merge 200 heartbeats', sub { return comes(200) } ], [ 'to show the regions', sub { return 'SELECT count(*) FROM dc_regions()' } ]);
my @few = map { visited($_->[1]->()) } @looks;
sql($node, 'postgres', $_) foreach sets($beats), comes($beats);
cmp_ok(sql($node, 'postgres', q{SELECT pg_relation_size('dcounter.region') / 8192}), '>', 50, 'the earlier versions are there');
foreach my $look (@looks)
{
	my $before = shift @few;
	my $after = visited($look->[1]->());

	note("$look->[0]: $before pages before, $after after $beats heartbeats");
	cmp_ok($before, '>', 0, "pages are counted: $look->[0]");
	cmp_ok($after, '<=', 2 * $before + 50, "no more pages are visited: $look->[0]");
}
is(sql($node, 'postgres', q{SELECT seq FROM dcounter.region WHERE region = 'us'}), $seq, 'the last heartbeat has been merged');
is(sql($node, 'postgres', q{SELECT count(*) FROM dcounter.region}), '3', 'each region has one row');
is(sql($node, 'postgres', q{SELECT count(*) FROM likes_set}), $n, 'all keys were set');
$snapshot->run('COMMIT');
$snapshot->quit;
is(sql($node, 'postgres', q{VACUUM dcounter.region; SELECT count(*) FROM dcounter.region}), '3', 'nor does it lose any');

done_testing();
