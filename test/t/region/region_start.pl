# What a region does when its server is started: it publishes nothing until the others have acknowledged
# the start, and takes a new epoch if they do not, or if its data is a snapshot of the disk.
use strict;
use warnings;

use DcLinks;
use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $epoch = 'SELECT epoch FROM dcounter.self';
my ($eu, $us, $asia) = my @nodes = map { region_node($_) } qw(eu us asia);

sub count
{
	my ($node, $key, $amount) = @_;

	sql($node, 'postgres', "SELECT dc_incr('likes', '$key', $amount)");
	return;
}

region_mesh(@nodes);
count($eu, 'a', 1);
count($us, 'a', 10);
count($asia, 'b', 100);
region_agrees('a mesh', 'a=11 b=100', @nodes);
my $first = sql($eu, 'postgres', $epoch);

# A restart, and one without a shutdown: no new epoch; counts from before and after are present once
foreach my $how (qw(fast immediate))
{
	my $seq = sql($eu, 'postgres', 'SELECT seq FROM dcounter.region WHERE epoch = (SELECT epoch FROM dcounter.self)');

	count($eu, 'a', 1);
	$eu->stop($how);
	count($us, 'a', 1);
	$eu->start;
	count($eu, 'b', 1);
	is(wait_for($eu, 'postgres', region_state($eu), 'active'), 'active', "$how restart: it is active again");
	is(sql($eu, 'postgres', $epoch), $first, "$how restart: no new epoch");
	is(wait_for($us, 'postgres', "SELECT boot = '" . sql($eu, 'postgres', q{SELECT boot FROM dcounter.region WHERE epoch = (SELECT epoch FROM dcounter.self)}) . "' AND first > $seq FROM dcounter.region WHERE epoch = $first", 't'), 't', "$how restart: others have heard of the boot");
}
region_agrees('restarts', 'a=15 b=102', @nodes);

# Without one of the others nothing is published. A crash meanwhile seals nothing more
$us->stop;
$eu->append_conf('postgresql.conf', "dcounter.region_handshake = '1h'");
sql($eu, 'postgres', 'ALTER SUBSCRIPTION dc_from_asia DISABLE; ALTER SUBSCRIPTION dc_from_us DISABLE');
count($eu, 'a', 1);
$eu->stop('immediate');
$eu->start;
count($eu, 'a', 1);
is(sql($eu, 'postgres', region_state($eu)), 'starting', 'it waits');
my $sealed = q{SELECT coalesce(sum(inc), 0) FROM likes_region WHERE epoch < 0};
my $was = sql($eu, 'postgres', $sealed);
$eu->stop('immediate');
$eu->start;
count($eu, 'b', 1);
is(sql($eu, 'postgres', $sealed), $was, 'what was counted since the first start is not sealed by the second');
is(sql($eu, 'postgres', q{SELECT keys, inc, "dec" FROM dc_region_check('likes') WHERE region IS NULL}), '0|0|0', 'values are what regions have counted, with what is sealed');
is(sql($eu, 'postgres', q{SELECT dc_get('likes', 'a'), dc_get('likes', 'b')}), '17|103', 'values are exact');
is(sql($asia, 'postgres', q{SELECT dc_get('likes', 'b')}), '102', 'nothing is published');
sql($eu, 'postgres', 'ALTER SUBSCRIPTION dc_from_asia ENABLE; ALTER SUBSCRIPTION dc_from_us ENABLE');
$us->start;
is(wait_for($eu, 'postgres', region_state($eu), 'active'), 'active', 'all have confirmed it');
is(sql($eu, 'postgres', $epoch), $first, 'no new epoch after crashes');
region_agrees('crashes while it waits', 'a=17 b=103', @nodes);

# Nobody answers: a new epoch; the links continue, so nothing is missing
$us->stop;
$eu->append_conf('postgresql.conf', "dcounter.region_handshake = '1s'");
count($eu, 'a', 1);
$eu->restart;
count($eu, 'a', 1);
is(wait_for($eu, 'postgres', region_state($eu), 'recopy'), 'recopy', 'it does not wait for ever');
isnt(sql($eu, 'postgres', $epoch), $first, 'and takes a new epoch');
$us->start;
region_agrees('no answer', 'a=19 b=103', @nodes);
region_refresh($eu, $us, $asia);
is(sql($eu, 'postgres', region_state($eu)), 'active', 'it has all when it was refreshed from each');

# drop_links(): those from and to eu, whose positions do not fit any more
sub drop_links
{
	foreach my $to (@nodes)
	{
		foreach my $from (grep { $_ != $to } @nodes)
		{
			next if $from != $eu && $to != $eu;
			my $link = 'dc_from_' . $from->name;
			sql($to, 'postgres', "ALTER SUBSCRIPTION $link DISABLE; ALTER SUBSCRIPTION $link SET (slot_name = NONE); DROP SUBSCRIPTION $link");
		}
	}
	sql($_, 'postgres', q{SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND slot_name ~ '^dc_'}) foreach @nodes;
	return;
}

# A snapshot of the disk, while the original continues. What the others have sent to the original is
# not sent again, so the snapshot hears from their next beat what they know
sub beat
{
	my ($interval) = @_;

	foreach my $node ($us, $asia)
	{
		$node->append_conf('postgresql.conf', "dcounter.region_beat_interval = '$interval'");
		$node->reload;
	}
	return;
}
beat('1s');
my $second = sql($eu, 'postgres', $epoch);
$eu->append_conf('postgresql.conf', "dcounter.region_handshake = '1h'");
$eu->append_conf('postgresql.conf', "dcounter.compact_interval = '1h'");
$eu->reload;
sql($eu, 'postgres', 'SELECT pg_sleep(0.5)');
count($eu, 'a', 1); # in the snapshot, and published by the original
$eu->stop;
my $snapshot = PostgreSQL::Test::Utils::tempdir() . '/snapshot';
PostgreSQL::Test::Utils::system_or_bail('cp', '-a', $eu->data_dir, $snapshot);
$eu->append_conf('postgresql.conf', "dcounter.compact_interval = '200ms'");
$eu->start;
count($eu, 'a', 1);
count($eu, 'c', 1000);
region_agrees('the original goes on', 'a=21 b=103 c=1000', @nodes);
is(sql($eu, 'postgres', $epoch), $second, 'it is the same');
$eu->stop;
PostgreSQL::Test::Utils::system_or_bail('mv', $eu->data_dir, $eu->data_dir . '.original');
PostgreSQL::Test::Utils::system_or_bail('mv', $snapshot, $eu->data_dir);
$eu->append_conf('postgresql.conf', "dcounter.compact_interval = '200ms'");
$eu->start;
count($eu, 'a', 2);
is(wait_for($eu, 'postgres', "SELECT epoch <> $second FROM dcounter.self", 't'), 't', 'the snapshot takes a new epoch, as others know more of the old one');
is(sql($eu, 'postgres', region_state($eu)), 'recopy', 'it does not have all');
drop_links();
region_mesh(@nodes);
region_refresh($eu, $us, $asia);
region_agrees('a snapshot', 'a=23 b=103 c=1000', @nodes);
is(sql($eu, 'postgres', region_state($eu)), 'active', 'the snapshot has all');

# A snapshot that is started twice, with nobody to hear of it in between: the second start must not climb over what the others
# know of the original, which is one beat more than the snapshot
my $third = sql($eu, 'postgres', $epoch);
wait_for($eu, 'postgres', q{SELECT count(*) FROM likes_shard WHERE shard >= 0}, '0');
$eu->append_conf('postgresql.conf', "dcounter.region_beat_interval = '1h'");
$eu->stop;
$snapshot = PostgreSQL::Test::Utils::tempdir() . '/snapshot';
PostgreSQL::Test::Utils::system_or_bail('cp', '-a', $eu->data_dir, $snapshot);
$eu->start;
is(wait_for($eu, 'postgres', region_state($eu), 'active'), 'active', 'the original is confirmed');
count($eu, 'd', 500);
region_agrees('the original has counted more', 'a=23 b=103 c=1000 d=500', @nodes);
my $seq = sql($us, 'postgres', "SELECT seq FROM dcounter.region WHERE epoch = $third");
$eu->stop;
PostgreSQL::Test::Utils::system_or_bail('mv', $eu->data_dir, $eu->data_dir . '.third');
PostgreSQL::Test::Utils::system_or_bail('mv', $snapshot, $eu->data_dir);
$eu->append_conf('postgresql.conf', 'max_logical_replication_workers = 0');
my $own = "SELECT seq FROM dcounter.region WHERE epoch = $third";
$eu->start;
my $had = sql($eu, 'postgres', $own);
foreach my $try (1 .. 40)
{
	is(wait_for($eu, 'postgres', "SELECT seq > $had FROM dcounter.region WHERE epoch = $third AND (SELECT starting FROM dcounter.self)", 't'), 't', 'it has begun') if $try > 1;
	$had = sql($eu, 'postgres', $own);
	last if $had > $seq + 1;
	sql($eu, 'postgres', 'CHECKPOINT'); # nobody has waited for the step to be on disk
	$eu->stop('immediate'); # the others' positions are later than its log: a sender would wait for them
	$eu->start;
}
is(sql($eu, 'postgres', "SELECT first <= $seq FROM dcounter.region WHERE epoch = $third"), 't', 'its starts are one series, which begins before what the others know');
is(sql($eu, 'postgres', $epoch), $third, 'nobody has told it yet');
count($eu, 'd', 2);
$eu->append_conf('postgresql.conf', 'max_logical_replication_workers = 20');
$eu->stop('immediate');
$eu->start;
is(wait_for($eu, 'postgres', "SELECT epoch <> $third FROM dcounter.self", 't'), 't', 'the snapshot takes a new epoch after several starts, too');
drop_links();
region_mesh(@nodes);
region_refresh($eu, $us, $asia);
region_agrees('a snapshot that was started several times', 'a=23 b=103 c=1000 d=502', @nodes);
beat('1min');
links_are_idle('all is quiet', @nodes);
is(region_errors($_), '', 'no errors on ' . $_->name) foreach @nodes;

$_->stop foreach @nodes;
done_testing();
