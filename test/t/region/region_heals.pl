# Regions that are restarted while they are cut off take a new epoch, and are well by themselves when the others have said that nothing is
# missing; one that was set back meanwhile is not. Regions that are started at the same time do not wait for each other.
use strict;
use warnings;

use DcRegion;
use DcTest;
use File::Path;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;

my ($eu, $us, $ap) = my @nodes = map { region_node($_, "dcounter.region_beat_interval = '500ms'", "dcounter.region_handshake = '1h'") } 'eu', 'us', 'ap';
my $epoch = 'SELECT epoch FROM dcounter.self';

# handshake(NODE, TIME): for how long its next starts wait for the others
sub handshake
{
	my ($node, $time) = @_;

	$node->append_conf('postgresql.conf', "dcounter.region_handshake = '$time'");
	return;
}

# state(NAME, NODE, STATE): what a region is in the end; a test
sub state
{
	my ($name, $node, $state) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(wait_for($node, 'postgres', region_state($node), $state), $state, "$name: " . $node->name . " is $state");
	return;
}

# cut(DISABLE or ENABLE): the links to us and from it
sub cut
{
	my ($what) = @_;

	sql($us, 'postgres', "ALTER SUBSCRIPTION dc_from_$_ $what") foreach 'eu', 'ap';
	sql($_, 'postgres', "ALTER SUBSCRIPTION dc_from_us $what") foreach $eu, $ap;
	return;
}

# renews(NAME): us is restarted, with nothing to publish, and takes a new epoch, as no region has
# confirmed the start
sub renews
{
	my ($name) = @_;
	my $before = sql($us, 'postgres', $epoch);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	sql($us, 'postgres', 'SELECT dc_compact(NULL)');
	$us->restart;
	is(wait_for($us, 'postgres', "SELECT epoch <> $before FROM dcounter.self", 't'), 't', "$name: us takes a new epoch");
	state($name, $us, 'recopy');
	return;
}

region_mesh(@nodes);
sql($_, 'postgres', q{SELECT dc_incr('likes', 'a', 1)}) foreach @nodes;
region_agrees('at first', 'a=3', @nodes);

# All at the same time
my @epochs = map { sql($_, 'postgres', $epoch) } @nodes;
$_->stop('immediate') foreach @nodes;
$_->start foreach @nodes;
state('all were restarted', $_, 'active') foreach @nodes;
is(sql($nodes[$_], 'postgres', $epoch), $epochs[$_], $nodes[$_]->name . ' has its epoch') foreach 0 .. $#nodes;

# Cut off, twice
handshake($us, '100ms');
cut('DISABLE');
sql($us, 'postgres', q{SELECT dc_incr('likes', 'a', 10)});
sql($eu, 'postgres', q{SELECT dc_incr('likes', 'a', 100)});
renews('cut off');
sql($us, 'postgres', q{SELECT dc_incr('likes', 'a', 1000)});
renews('once more');
sql($us, 'postgres', q{SELECT dc_incr('likes', 'a', 10000)});
cut('ENABLE');
state('healed', $us, 'active');
region_agrees('healed', 'a=11113', @nodes);
is(sql($us, 'postgres', q{SELECT bool_and(advice IS NULL) FROM dc_regions() WHERE region = 'us'}), 't', 'nothing is to be done');
state('healed', $_, 'active') foreach $eu, $ap;
my $status = start_command('dc_region', '-c', file_of('regions.conf', join('', map { '[' . $_->name . "]\nconninfo = " . $_->connstr('postgres') . "\n" } @nodes)), 'status');
finish_job($status);
unlike($status->{out} . $status->{err}, qr/another epoch/, 'its links are good');
like($status->{out}, qr/us +active, epochs: 3/, 'as dc_region sees it');

# Set back while it is cut off, to a time before something that it has sent
cut('DISABLE');
$us->stop;
my $copy = $us->basedir . '/copy';
PostgreSQL::Test::RecursiveCopy::copypath($us->data_dir, $copy);
handshake($us, '1h');
$us->start;
cut('ENABLE');
state('the original goes on', $us, 'active');
sql($us, 'postgres', q{SELECT dc_incr('likes', 'a', 5)});
region_agrees('the original goes on', 'a=11118', @nodes);
cut('DISABLE');
$us->stop;
rmtree($us->data_dir);
rename($copy, $us->data_dir) or die "$copy: $!";
chmod 0700, $us->data_dir;
$us->start;
state('set back', $us, 'recopy');
my $now = sql($us, 'postgres', $epoch);
# links that are recreated, as their positions are of the original
sql($us, 'postgres', "DROP SUBSCRIPTION dc_from_$_") foreach 'eu', 'ap';
sql($_, 'postgres', 'DROP SUBSCRIPTION dc_from_us') foreach $eu, $ap;
region_mesh(@nodes);
is(wait_for($us, 'postgres', "SELECT count(*) FROM dcounter.region WHERE region IN ('eu', 'ap') AND (seen -> 'us' ->> 0)::bigint = $now AND jsonb_array_length(seen -> 'us' -> 5) > 0", '2'), '2', 'the others have heard of it, and say what they had heard');
# the job that would end it looks after each beat
my $beats = sql($us, 'postgres', q{SELECT sum(seq) FROM dcounter.region});
is(wait_for($us, 'postgres', "SELECT sum(seq) > $beats + 6 FROM dcounter.region", 't'), 't', 'there are more beats');
state('set back', $us, 'recopy');
region_refresh($us, $eu, $ap);
state('refreshed', $us, 'active');
is(wait_for($us, 'postgres', q{SELECT dc_get('likes', 'a')}, '11118'), '11118', 'and has all');
$_->stop('immediate') foreach @nodes;
done_testing();
