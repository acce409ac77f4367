# A database that is not the one that was made a region, but a copy of it, or a standby that was promoted: the
# original may have published more under the epoch than it knows. So it publishes nothing. What is counted
# there stays in shard rows, and values are exact.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = dc_node('primary', init => { allows_streaming => 1 }, conf => ["shared_preload_libraries = 'dcounter'", 'autovacuum = off', "dcounter.compact_interval = '100ms'"]);
my $published = q{SELECT string_agg(key || '=' || inc || '-' || dec, ' ' ORDER BY key) FROM likes_region};
my $values = q{SELECT dc_get('likes', 'a'), dc_get('likes', 'b')};

# keeps_still(NODE, DATABASE, NAME): what is counted there is not published, by the worker or by hand
sub keeps_still
{
	my ($node, $database, $name) = @_;

	sql($node, $database, q{SELECT dc_incr('likes', 'a', 3), dc_decr('likes', 'b'), dc_incr('likes', 'c')});
	sql($node, $database, q{SELECT pg_sleep(1)});
	is(sql($node, $database, q{SELECT dc_compact('likes')}), '0', "$name: nothing is compacted");
	is(sql($node, $database, $published), 'a=5-0 b=0-2', "$name: nothing is published");
	is(sql($node, $database, $values), '8|-3', "$name: values are exact");
	fails_with($node, $database, 'SELECT dc_node()', '55000', "$name: it has not the node's name");
	is(sql($node, $database, q{SELECT * FROM dc_region_check('likes') WHERE region IS NULL}), '||0|0|0|', "$name: totals are what is published");
	fails_with($node, $database, q{SELECT dc_create('more'); SELECT dc_replicate('more')}, '55000', "$name: no further counter is replicated");
	return;
}

sql($primary, 'postgres', 'CREATE DATABASE eu');
sql($primary, 'eu', q{
	CREATE EXTENSION IF NOT EXISTS dcounter;
	SELECT dc_region_init('eu');
	SELECT dc_create('likes');
	SELECT dc_replicate('likes');
	SELECT dc_incr('likes', 'a', 5), dc_decr('likes', 'b', 2)});
is(wait_for($primary, 'eu', $published, 'a=5-0 b=0-2'), 'a=5-0 b=0-2', 'the worker publishes');

# The worker is away for a moment, or the database could not be a template
foreach my $try (1 .. 100)
{
	sql($primary, 'postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'eu'});
	last if $primary->psql('postgres', 'CREATE DATABASE copy TEMPLATE eu') == 0;
	sql($primary, 'postgres', 'SELECT pg_sleep(0.1)');
}
keeps_still($primary, 'copy', 'a copy');

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is(sql($standby, 'eu', q{SELECT region, inc, dec FROM dc_get_regions('likes', 'a')}), 'eu|5|0', 'a standby reads');
$standby->promote;
keeps_still($standby, 'eu', 'a promoted standby');

# The original goes on
sql($primary, 'eu', q{SELECT dc_incr('likes', 'a')});
is(wait_for($primary, 'eu', $published, 'a=6-0 b=0-2'), 'a=6-0 b=0-2', 'the original goes on');
$primary->restart;
sql($primary, 'eu', q{SELECT dc_incr('likes', 'a')});
is(wait_for($primary, 'eu', $published, 'a=7-0 b=0-2'), 'a=7-0 b=0-2', 'and after a restart');

$standby->stop;
$primary->stop;
done_testing();
