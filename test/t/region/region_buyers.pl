# Units of a stock, and the fate of their region. Buyers who come while it starts: units that its
# server sold before it was set back are not sold again by sessions that have waited, and they do
# not prevent a renewal. A region that is retired: its units are reported to other regions before
# anybody asks for them, so they are not lost with it; while it is alive they have to move first.
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $buyers = 4;
my $node = region_node('us', 'max_prepared_transactions = 10', "dcounter.region_handshake = '1h'", "dcounter.region_beat_interval = '500ms'");
my $waiting = q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT dc_take%' AND state = 'active'};
my $units = q{SELECT coalesce(sum(units), 0) FROM seats_shard};
my @buyers;

# come(SQL): buyers, each in a session of its own, who wait
sub come
{
	my ($sql) = @_;

	@buyers = map { dc_session($node, 'postgres') } 1 .. $buyers;
	$_->send($sql) foreach @buyers;
	is(wait_for($node, 'postgres', $waiting, $buyers), $buyers, 'buyers wait');
	sleep(0.3);
	return;
}

# answers(): what they got
sub answers
{
	my @answers = map { $_->wait } @buyers;

	$_->quit foreach @buyers;
	return join("\n", @answers);
}

# Another region was heard of, which answers nobody
sql($node, 'postgres', q{
	SELECT dc_stock_create('seats'), dc_stock_create('rooms');
	SELECT dc_replicate('seats'), dc_replicate('rooms');
	SELECT dc_restock('seats', 'c', 50), dc_restock('rooms', 'c', 50);
	SELECT dc_hold('seats', 'c', 1, '1 day', '00000000-0000-4000-8000-000000000001')});
sql($node, 'postgres', q{SET session_replication_role = replica; INSERT INTO dcounter.region (region, epoch, seq) VALUES ('eu', 1, 1)});

# The server is set back, and all that it has is sold. No region confirms its state, so stocks are
# shut when the time is up
$node->stop;
my $snapshot = PostgreSQL::Test::Utils::tempdir() . '/snapshot';
PostgreSQL::Test::Utils::system_or_bail('cp', '-a', $node->data_dir, $snapshot);
$node->start;
sql($node, 'postgres', 'SELECT dc_region_renew(lossless => true)');
is(sql($node, 'postgres', q{SELECT dc_take_up_to('seats', 'c', 100)}), '49', 'all is sold');
$node->stop('immediate');
PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $node->data_dir);
PostgreSQL::Test::Utils::system_or_bail('mv', $snapshot, $node->data_dir);
$node->start;
come(q{SELECT dc_take('seats', 'c', 1)});
my $confirm = dc_session($node, 'postgres');
$confirm->send(q{SELECT dc_hold_confirm('seats', '00000000-0000-4000-8000-000000000001')});
$node->append_conf('postgresql.conf', "dcounter.region_handshake = '1s'");
$node->reload;
is(wait_for($node, 'postgres', q{SELECT bool_and(rights_epoch < 0) FROM dcounter.counter WHERE grants <> 0}, 't'), 't', 'stocks are shut when nobody has confirmed the start');
unlike(answers(), qr/^t$/m, 'buyers who have waited get nothing');
unlike($confirm->wait, qr/confirmed/, 'nor is a hold confirmed, whose units may be those of another buyer');
$confirm->quit;
is(sql($node, 'postgres', $units), '49', 'all units are there');
fails_with($node, 'postgres', q{SELECT dc_take('seats', 'c', 1)}, '55000', 'who comes later gets nothing either');

# The operator states what has happened to the units, while buyers wait. The first call does it
$node->append_conf('postgresql.conf', "dcounter.region_handshake = '1h'", "dcounter.region_beat_interval = '500ms'");
$node->reload;
foreach my $lossless ('true', 'false')
{
	$node->restart;
	come(q{SELECT dc_take('seats', 'c', 1)});
	is(sql($node, 'postgres', "SELECT dc_region_renew(lossless => $lossless) > 0"), 't', "lossless $lossless: a region renews while buyers wait");
	is((() = answers() =~ /^t$/mg), $lossless eq 'true' ? $buyers : 0, "lossless $lossless: they buy what there is");
}
is(sql($node, 'postgres', $units), '0', 'units that were given up are gone');
is(sql($node, 'postgres', q{SELECT dc_restock('seats', 'c', 10); SELECT dc_take('seats', 'c', 1)}), "\nt", 'new ones are sold');

# One that has taken units, and needs the identity, begins again: the worker does not have to shut
# the stock
sql($node, 'postgres', q{SELECT dc_restock('rooms', 'c', 10)});
my $epoch = sql($node, 'postgres', 'SELECT epoch FROM dcounter.self');
my $open = dc_session($node, 'postgres');
$open->send(q{BEGIN; SELECT dc_take('seats', 'c', 1)});
like($open->wait, qr/t/, 'one has taken units');
sql($node, 'postgres', q{UPDATE dcounter.self SET state = 'renew'});
$open->send(q{SELECT dc_take('rooms', 'c', 1)});
unlike($open->wait, qr/^t$/m, 'it gets no others meanwhile');
$open->send('ROLLBACK');
$open->wait;
is(wait_for($node, 'postgres', "SELECT epoch > $epoch FROM dcounter.self", 't'), 't', 'the region renews');
is(sql($node, 'postgres', q{SELECT bool_and(rights_epoch > 0) FROM dcounter.counter WHERE grants <> 0}), 't', 'no stock is shut');
$open->quit;
$node->stop;

# Nobody has asked for these units. The other regions know of them, and of their fate
my ($ap, $sa) = map { region_node($_, "dcounter.rights_interval = '100ms'", "dcounter.region_beat_interval = '500ms'") } 'ap', 'sa';
my $told = q{SELECT string_agg(key || '=' || units, ' ' ORDER BY key) FROM seats_want WHERE region = 'sa' AND units > 0};

foreach my $region ($ap, $sa)
{
	sql($region, 'postgres', q{SELECT dc_stock_create('seats'); SELECT dc_replicate('seats')});
}
region_mesh($ap, $sa);
sql($sa, 'postgres', q{SELECT dc_restock('seats', 'a', 7), dc_restock('seats', 'b', 5), dc_restock('seats', 'sold', 1)});
sql($sa, 'postgres', q{SELECT dc_take('seats', 'sold', 1)});
is(wait_for($ap, 'postgres', $told, 'a=7 b=5'), 'a=7 b=5', 'units are told to others');
is(wait_for($ap, 'postgres', q{SELECT units FROM dc_stock_regions('seats', 'a') WHERE region = 'sa'}, '7'), '7', 'and shown there');

# It does not leave with them, unless it is forced to
is(wait_for($_, 'postgres', q{SELECT bool_and(seen_by_all_to IS NOT NULL) FROM dc_regions()}, 't'), 't', 'beats are known on ' . $_->name) foreach $ap, $sa;
foreach my $region ($ap, $sa)
{
	fails_with($region, 'postgres', q{SELECT dc_region_retire('sa')}, '55000', 'a region that has units is not retired on ' . $region->name);
	like(($region->psql('postgres', q{SELECT dc_region_retire('sa')}))[2], qr/has units of stock "seats"/, '... for that reason');
}
sql($ap, 'postgres', q{SELECT dc_want('seats', 'b', 5)});
is(wait_for($ap, 'postgres', q{SELECT dc_get('seats', 'b')}, '5'), '5', 'they move where they are asked for');
is(wait_for($ap, 'postgres', $told, 'a=7'), 'a=7', 'which is told at once');
sql($sa, 'postgres', q{SELECT dc_take('seats', 'a', 3)});
is(wait_for($ap, 'postgres', $told, 'a=4'), 'a=4', 'what was sold is told later');

# It is lost
$sa->stop('immediate');
sql($ap, 'postgres', q{SELECT dc_region_retire('sa', force => true)});
is(sql($ap, 'postgres', q{SELECT dc_rights_reclaim('seats', 'sa')}), '4', 'its units are taken over');
is(sql($ap, 'postgres', q{SELECT dc_get('seats', 'a'), dc_get('seats', 'b'), dc_rights_reclaim('seats', 'sa')}), '4|5|0', 'once');
$ap->stop;
done_testing();
