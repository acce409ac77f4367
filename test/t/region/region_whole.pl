# Regions in which something is missing that the others have: rows of a deleted key that one of them has removed, what a
# region has counted that is retired, what came since a snapshot of the disk of a region that knew no other. And a
# key whose amounts leave bigint in all of them. None of these makes regions differ, or stops a link.
use strict;
use warnings;

use DcLinks;
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

# vacuumed(NODE): how many deleted keys are removed there, when all regions know of the deletion
sub vacuumed
{
	my ($node) = @_;

	return wait_for($node, 'postgres', q{SET client_min_messages = warning; SELECT dc_region_vacuum('likes', '0 s')}, '1');
}

my $x = q{SELECT dc_get('likes', 'x')};

region_mesh(@nodes);
# two first copies may deadlock, and be done again
my %errors = map { $_->name => sql($_, 'postgres', 'SELECT sum(apply_errors) FROM dc_regions()') } @nodes;

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

# A set that was on its way while another region deleted the key: who has made it removes nothing before all have heard of it. It
# has observed what eu had counted, and removed
sql($eu, 'postgres', q{SELECT dc_incr('likes', 'w', 5); SELECT dc_delete('likes', 'w')});
all_have('deleted', q{SELECT count(*) FROM likes_set WHERE key = 'w' AND deleted}, '1', @nodes);
is(vacuumed($eu), '1', 'eu removes what it has counted');
link_switch($eu, 'DISABLE');
sql($us, 'postgres', q{SELECT dc_set('likes', 'w', 3)});
sql($eu, 'postgres', q{SELECT dc_set('likes', 'w', 4); SELECT dc_delete('likes', 'w')});
all_have('deleted again', q{SELECT count(*) FROM likes_set WHERE key = 'w' AND region = 'eu' AND deleted AND hlc = (SELECT max(hlc) FROM likes_set WHERE key = 'w')}, '1', $us, $asia);
sql($us, 'postgres', 'SELECT pg_sleep(2.5)'); # beats tell that asia has heard of it
is(sql($us, 'postgres', q{SET client_min_messages = warning; SELECT dc_region_vacuum('likes', '0 s')}), '0', 'us removes nothing while eu has not heard of its set');
link_switch($eu, 'ENABLE');
sql($asia, 'postgres', q{SELECT dc_incr('likes', 'w', 9)});
all_have('after it', q{SELECT dc_get('likes', 'w')}, '9', @nodes);
all_have('the set has come', q{SELECT count(*) FROM likes_set WHERE key = 'w' AND region = 'us'}, '1', $eu);
sql($us, 'postgres', q{SELECT dc_incr('likes', 'w', 1)});
all_have('all agree', q{SELECT dc_get('likes', 'w')}, '10', @nodes);
is(sql($_, 'postgres', q{SELECT keys, inc, "dec" FROM dc_region_check('likes') WHERE region IS NULL}), '0|0|0', $_->name . ' is sound') foreach @nodes;

# A key that overflows bigint, in all regions, is set
my $big = '9000000000000000000';
link_switch($_, 'DISABLE') foreach @nodes;
sql($_, 'postgres', "SELECT dc_incr('likes', 'big', $big)") foreach $eu, $us;
wait_for($_, 'postgres', q{SELECT count(*) FROM likes_region WHERE key = 'big'}, '1') foreach $eu, $us;
link_switch($_, 'ENABLE') foreach @nodes;
all_have('amounts that leave bigint have come', "SELECT sum(inc) FROM likes_region WHERE key = 'big'", '18000000000000000000', @nodes);
sql($eu, 'postgres', q{SELECT dc_reset('likes', 'big')});
sql($eu, 'postgres', q{SELECT dc_incr('likes', 'big', 3); SELECT dc_incr('likes', 'after', 1)});
all_have('what comes after it', q{SELECT dc_get('likes', 'after')}, '1', @nodes);
all_have('the key is set', q{SELECT dc_get('likes', 'big')}, '3', @nodes);
all_have('and compacted', q{SELECT count(*) FROM likes_shard WHERE inc <> 0 OR "dec" <> 0}, '0', @nodes);
is(sql($_, 'postgres', 'SELECT sum(apply_errors) FROM dc_regions()'), $errors{ $_->name }, 'no errors of links of ' . $_->name) foreach @nodes;

# statements(NODE, FUNCTION, PEER): runs the statements that it returns
sub statements
{
	my ($node, $function, $peer) = @_;
	my @statements = split /\n/, sql($node, 'postgres', "SELECT $function(\$\$" . $peer->name . '$$, $$' . $peer->connstr('postgres') . '$$, trust_owners => true)');

	sql($node, 'postgres', $_) foreach @statements;
	return;
}

# slots_of(REGION): what a node has of it
sub slots_of
{
	my ($region) = @_;

	return "SELECT string_agg(concat_ws(' ', epoch, keys, inc, \"dec\", digest), ', ' ORDER BY epoch) FROM dc_region_check('likes') WHERE region = '$region' AND epoch IS NOT NULL";
}

# A region leaves, and another one comes: what the former has counted comes from nobody, but with all that the first peer knows
my $y = q{SELECT dc_get('likes', 'y')};
sql($asia, 'postgres', q{SELECT dc_incr('likes', 'y', 100)});
sql($eu, 'postgres', q{SELECT dc_incr('likes', 'y', 1)});
all_have('before asia leaves', $y, '101', @nodes);
is(wait_for($asia, 'postgres', q{SELECT 'done' FROM dc_region_retire('asia')}, 'done'), 'done', 'asia is retired');
all_have('which is known', q{SELECT state FROM dc_regions() WHERE region = 'asia'}, 'retired', $eu, $us);
sql($_, 'postgres', 'DROP SUBSCRIPTION dc_from_asia') foreach $eu, $us;
sql($asia, 'postgres', 'DROP SUBSCRIPTION dc_from_eu; DROP SUBSCRIPTION dc_from_us');
$asia->stop;

my ($br, $mx) = map { region_node($_, $beats) } qw(br mx);
statements($br, 'dc_region_join', $_) foreach $eu, $us;
statements($_, 'dc_region_join', $br) foreach $eu, $us;
region_copied($eu, $us, $br);
all_have('a region that was added', $y, '101', $eu, $us, $br);
my $slots = sql($eu, 'postgres', slots_of('asia'));
isnt($slots, '', 'what asia has counted is known');
is(sql($br, 'postgres', slots_of('asia')), $slots, 'it has what asia had counted');
is(sql($br, 'postgres', region_state($br)), 'active', 'it is not to be copied');

# One whose links were made by hand says that it lacks something, and is mended by a refresh
link_make($eu, $mx, 'dcounter_own', 1);
link_make($us, $mx, 'dcounter_own', 1);
region_copied($mx);
all_have('links by hand', region_state($mx), 'recopy', $mx);
is(sql($mx, 'postgres', slots_of('asia')), '', 'dc_region_check shows what is missing');
statements($mx, 'dc_region_refresh', $eu);
all_have('a refresh', region_state($mx), 'active', $mx);
is(sql($mx, 'postgres', slots_of('asia')), $slots, 'nothing is missing');
all_have('all of it', $y, '101', $mx);
link_drop($_, $mx) foreach $eu, $us;
$mx->stop;

# A snapshot of the disk of a region that knew no other. The original continues, is started again,
# is joined, and sells
my $solo = region_node('solo', $beats);
my $epoch = 'SELECT epoch FROM dcounter.self';
my $z = q{SELECT dc_get('likes', 'z')};
my $take = q{SELECT dc_take('seats', 'show', 1)};
sql($solo, 'postgres', q{SELECT dc_stock_create('seats'); SELECT dc_replicate('seats'); SELECT dc_restock('seats', 'show', 10); SELECT dc_incr('likes', 'z', 1)});
wait_for($solo, 'postgres', q{SELECT count(*) FROM likes_region WHERE key = 'z'}, '1');
my $first = sql($solo, 'postgres', $epoch);
$solo->stop;
my $snapshot = PostgreSQL::Test::Utils::tempdir() . '/solo';
PostgreSQL::Test::Utils::system_or_bail('cp', '-a', $solo->data_dir, $snapshot);
$solo->start;
is(wait_for($solo, 'postgres', "SELECT epoch > $first FROM dcounter.self", 't'), 't', 'a region that knows no other takes a new epoch when it is started');
is(sql($solo, 'postgres', region_state($solo)), 'active', 'it is active');
is(sql($solo, 'postgres', q{SELECT dc_get('seats', 'show')}), '10', 'and has its units');
sql($solo, 'postgres', q{SELECT dc_incr('likes', 'z', 1000)});
sql($_, 'postgres', q{SELECT dc_stock_create('seats'); SELECT dc_replicate('seats')}) foreach $eu, $us, $br;
foreach my $node ($eu, $us, $br)
{
	statements($solo, 'dc_region_join', $node);
	statements($node, 'dc_region_join', $solo);
}
region_copied($solo, $eu, $us, $br);
all_have('solo is joined', $z, '1001', $eu, $us, $br, $solo);
is(sql($solo, 'postgres', $take), 't', 'a unit is sold') foreach 1 .. 10;
my $second = sql($solo, 'postgres', $epoch);
$solo->restart;
all_have('a restart', region_state($solo), 'active', $solo);
is(sql($solo, 'postgres', $epoch), $second, 'a start that others confirm takes no epoch');

# Back to the snapshot, which counts before it is joined
$solo->stop;
PostgreSQL::Test::Utils::system_or_bail('mv', $solo->data_dir, $solo->data_dir . '.original');
PostgreSQL::Test::Utils::system_or_bail('mv', $snapshot, $solo->data_dir);
$solo->start;
sql($solo, 'postgres', q{SELECT dc_incr('likes', 'z', 20000); SELECT dc_compact('likes')});
my $third = sql($solo, 'postgres', $epoch);
sql($_, 'postgres', 'ALTER SUBSCRIPTION dc_from_solo DISABLE; ALTER SUBSCRIPTION dc_from_solo SET (slot_name = NONE); DROP SUBSCRIPTION dc_from_solo') foreach $eu, $us, $br;
sql($_, 'postgres', q{SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND slot_name ~ '^dc_solo'}) foreach $eu, $us, $br;
statements($solo, 'dc_region_join', $eu);
is(wait_for($solo, 'postgres', "SELECT epoch > $third FROM dcounter.self", 't'), 't', 'a snapshot from before is found out when others tell what they have heard');
is(wait_for($solo, 'postgres', $take, 'f'), 'f', 'it sells nothing that may be sold');
statements($solo, 'dc_region_join', $_) foreach $us, $br;
statements($_, 'dc_region_join', $solo) foreach $eu, $us, $br;
statements($solo, 'dc_region_refresh', $_) foreach $eu, $us, $br;
all_have('all is there', $z, '21001', $solo, $eu, $us, $br);
all_have('the snapshot has all', region_state($solo), 'active', $solo);
my $check = q{SELECT string_agg(concat_ws(',', region, epoch, keys, inc, "dec", digest), ' ' ORDER BY region, epoch) FROM dc_region_check('likes') WHERE epoch IS NOT NULL OR region IS NULL};
my @checks;
for (1 .. $PostgreSQL::Test::Utils::timeout_default)
{
	@checks = map { sql($_, 'postgres', $check) } $eu, $us, $br, $solo;
	last if !grep { $_ ne $checks[0] } @checks;
	sleep(1);
}
is($checks[$_], $checks[0], 'regions agree: ' . ($eu, $us, $br, $solo)[$_]->name) foreach 1 .. 3;

is(region_errors($_), '', 'no errors on ' . $_->name) foreach $eu, $us, $br;
$_->stop foreach $eu, $us, $br, $solo;
done_testing();
