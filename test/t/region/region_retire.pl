# Regions that are given up: one that is alive, and one that is lost, of which the others know different states.
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($eu, $us, $asia) = my @nodes = map { region_node($_, "dcounter.region_beat_interval = '500ms'", "dcounter.region_handshake = '1h'") } qw(eu us asia);
my $states = q{SELECT string_agg(region || '=' || state, ' ' ORDER BY region) FROM dc_regions()};

sub count
{
	my ($node, $key, $amount) = @_;

	sql($node, 'postgres', "SELECT dc_incr('likes', '$key', $amount)");
	return;
}

region_mesh(@nodes);
count($eu, 'a', 1);
count($us, 'a', 10);
count($asia, 'a', 100);
region_agrees('a mesh', 'a=111', @nodes);
is(wait_for($_, 'postgres', q{SELECT bool_and(seen_by_all_to > now() - interval '10 s') FROM dc_regions()}, 't'), 't', 'all that was seen is seen by all, as known on ' . $_->name) foreach @nodes;
is(sql($eu, 'postgres', q{SELECT string_agg(concat_ws(' ', region, link_state, apply_errors >= 0), ', ' ORDER BY region) FROM dc_stat_regions}), 'asia up t, eu, us up t', 'links are shown');

# Alive: not before the others have all
sql($us, 'postgres', 'ALTER SUBSCRIPTION dc_from_asia DISABLE');
is(wait_for($us, 'postgres', q{SELECT link_state FROM dc_regions() WHERE region = 'asia'}, 'disabled'), 'disabled', 'a link that is cut is shown');
count($asia, 'a', 100);
fails_with($asia, 'postgres', q{BEGIN; SELECT dc_incr('likes', 'a'); SELECT dc_apply(); SELECT dc_region_retire('asia')}, '55000', 'not before all is published');
is(wait_for($asia, 'postgres', q{SELECT count(*) FROM likes_shard WHERE shard >= 0 AND inc > 0}, '0'), '0', 'all is published');
fails_with($asia, 'postgres', q{SELECT dc_region_retire('asia')}, '55000', 'not before all have it');
fails_with($eu, 'postgres', q{SELECT dc_region_retire('asia')}, '55000', 'nor from elsewhere, once it was heard of') if wait_for($eu, 'postgres', q{SELECT dc_get('likes', 'a')}, '211') eq '211';
sql($us, 'postgres', 'ALTER SUBSCRIPTION dc_from_asia ENABLE');
is(wait_for($asia, 'postgres', q{SELECT 'done' FROM dc_region_retire('asia')}, 'done'), 'done', 'then it is retired');
is(wait_for($asia, 'postgres', $states, 'asia=retired eu=active us=active'), 'asia=retired eu=active us=active', 'which it knows');
is(wait_for($_, 'postgres', $states, 'asia=retired eu=active us=active'), 'asia=retired eu=active us=active', 'and so does ' . $_->name) foreach $eu, $us;
count($asia, 'a', 1000);
fails_with($asia, 'postgres', q{SELECT dc_compact('likes')}, '55000', 'it publishes nothing any more');
is(sql($eu, 'postgres', q{SELECT dc_get('likes', 'a')}), '211', 'what it counts is its own');
$asia->stop;
$eu->restart;
is(wait_for($eu, 'postgres', $states, 'asia=retired eu=active us=active'), 'asia=retired eu=active us=active', 'it is not waited for');

# It comes back, under a new epoch
$asia->start;
sql($asia, 'postgres', 'SELECT dc_region_renew()');
is(wait_for($_, 'postgres', q{SELECT state, epochs FROM dc_regions() WHERE region = 'asia'}, 'active|2'), 'active|2', 'it is back on ' . $_->name) foreach $eu, $us;
region_agrees('back', 'a=1211', @nodes);
region_refresh($asia, $eu, $us);

# Lost, with survivors that know different states of it
sql($us, 'postgres', 'ALTER SUBSCRIPTION dc_from_asia DISABLE');
count($asia, 'a', 10000);
count($asia, 'new', 1);
is(wait_for($eu, 'postgres', q{SELECT dc_get('likes', 'a'), dc_get('likes', 'new')}, '11211|1'), '11211|1', 'one of them knows more');
$asia->stop('immediate');
is(sql($us, 'postgres', q{SELECT dc_get('likes', 'a')}), '1211', 'than the other');
sql($us, 'postgres', q{SELECT dc_region_retire('asia', force => true)});
is(wait_for($_, 'postgres', $states, 'asia=retired eu=active us=active'), 'asia=retired eu=active us=active', 'all hear of it: ' . $_->name) foreach $eu, $us;
foreach my $node ($eu, $us)
{
	sql($node, 'postgres', 'ALTER SUBSCRIPTION dc_from_asia DISABLE; ALTER SUBSCRIPTION dc_from_asia SET (slot_name = NONE); DROP SUBSCRIPTION dc_from_asia');
}
region_refresh($eu, $us);
region_refresh($us, $eu);
region_agrees('survivors', 'a=11211 new=1', $eu, $us);
$us->restart;
is(wait_for($us, 'postgres', region_state($us), 'active'), 'active', 'it is not waited for');
unlike(region_errors($_), qr/^(?!.*not all regions have)./m, 'no other errors on ' . $_->name) foreach $eu, $us;

$_->stop foreach $eu, $us;
done_testing();
