# A table that has no index when all data of a dump has come keeps the worker from a new epoch for a
# while, and not permanently
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = region_node('eu', "dcounter.region_handshake = '200ms'");
my $old = sql($node, 'postgres', 'SELECT epoch FROM dcounter.self');

sql($node, 'postgres', q{SELECT dc_create('other')});
sql($node, 'postgres', q{SELECT dc_replicate('other')});
sql($node, 'postgres', q{SELECT dc_worker_stop()});
sql($node, 'postgres', q{ALTER TABLE other_shard DROP CONSTRAINT other_shard_pkey});
sql($node, 'postgres', q{VACUUM other_shard});
is(sql($node, 'postgres', q{SELECT relhasindex FROM pg_class WHERE relname = 'other_shard'}), 'f', 'a table has no index');
sql($node, 'postgres', q{UPDATE dcounter.self SET state = 'renew'});
$node->restart;
is(wait_for($node, 'postgres', "SELECT epoch > $old FROM dcounter.self", 't'), 't', 'there is a new epoch all the same');
like(slurp_file($node->logfile), qr/table "other_shard" of a replicated counter has no index: a dump is being restored/, 'it was waited for');
sql($node, 'postgres', q{SELECT dc_set('likes', 'a', 5)});
is(sql($node, 'postgres', q{SELECT dc_get('likes', 'a')}), '5', 'the other counter goes on');
$node->stop;

done_testing();
