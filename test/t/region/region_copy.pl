# A logical replica of a region, with workers on both: two regions count, and one-way subscribers have copies of the
# tables of one of them, those of replicated counters included. What the regions tell each other has been
# merged by the one that is copied, so the copies take it as it is: they say what their publisher says, are not
# compacted, and the subscription does not stop. One of them is promoted in the end, and is right.
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
my @nodes = map { region_node($_, q{dcounter.rights_interval = '100ms'}) } 'eu', 'us';
my ($eu, $us) = @nodes;
my $copy = dc_node('copy', init => { allows_streaming => 'logical' }, extension => 0, conf => [
		"shared_preload_libraries = 'dcounter'", 'fsync = off', "dcounter.compact_interval = '50ms'", "dcounter.rights_interval = '100ms'",
		'max_worker_processes = 40', 'max_logical_replication_workers = 20', "wal_retrieve_retry_interval = '100ms'" ]);
my $connection = $eu->connstr('postgres');

# Which of the tables of eu a database has copies of, and by what publication
my %publication = (plain => 'FOR TABLE plain, plain_shard', schema => 'FOR TABLES IN SCHEMA public', everything => 'FOR ALL TABLES');
my @databases = sort keys %publication;

# values_of(NODE, DATABASE): what the functions and the tables say
sub values_of
{
	my ($node, $database) = @_;
	my @counters = $database eq 'plain' ? 'plain' : ('likes', 'plain', 'shop');
	my $values = join(' UNION ALL ', map { "SELECT '$_', key, dc_get('$_', key) FROM (SELECT key FROM $_ UNION SELECT key FROM ${_}_shard) AS k" } @counters);
	my @tables = $database eq 'plain' ? ('plain', 'plain_shard') : (map({ ($_, "${_}_shard") } @counters), 'likes_region', 'likes_set', 'shop_grant', 'shop_want');
	my $rows = join(' UNION ALL ', map { "SELECT '$_', t::text, NULL FROM $_ AS t" } @tables);

	return answer($node, $node eq $eu ? 'postgres' : $database, "SET timezone = 'UTC'; SELECT * FROM ($values UNION ALL $rows) AS u ORDER BY 1, 2");
}

# is_copied(NAME): all copies are as eu
sub is_copied
{
	my ($name) = @_;

	foreach my $database (@databases)
	{
		my ($mine, $its);

		foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
		{
			($mine, $its) = (values_of($eu, $database), values_of($copy, $database));
			last if $mine eq $its && $mine ne '';
			sleep(0.1);
		}
		is($its, $mine, "$name: $database is as it should be");
		isnt($mine, '', "$name: there are some");
		is(sql($copy, $database, 'SELECT sum(keys_compacted) FROM dc_stat_counters'), '0', "$name: $database: nothing is compacted");
	}
	is(sql($copy, 'schema', q{SELECT keys FROM dc_region_check('likes') WHERE region IS NULL}), '0', "$name: values are what regions have counted");
	return;
}

foreach my $node (@nodes)
{
	sql($node, 'postgres', q{
		SELECT dc_create('plain');
		SELECT dc_stock_create('shop');
		SELECT dc_replicate('shop')});
}
link_make($eu, $us, 'dcounter_own', 1);
link_make($us, $eu, 'dcounter_own', 1);
region_copied(@nodes);
my $schema = PostgreSQL::Test::Utils::tempdir() . '/schema.sql';
$eu->command_ok([ 'pg_dump', '-s', '-n', 'public', '--no-publications', '-T', 'counted', '-f', $schema, '-d', $connection ], 'pg_dump of the schema');
sql($eu, 'postgres', "CREATE PUBLICATION $_ $publication{$_}") foreach @databases;

# users(NODE): what is done in a region, except for likes: the plain counter, and the stock
sub users
{
	my ($node) = @_;

	return start_job($node, 'postgres', file_of('users ' . $node->name . '.sql', join('', map { qq{
		SELECT dc_incr('plain', 'key ' || i, i) FROM generate_series(1, 5) AS i;
		BEGIN; SELECT dc_incr('plain', 'key 1'), dc_decr('plain', 'key 2', 3), dc_apply(); COMMIT;
		SELECT dc_restock('shop', 'key ' || i, 2), dc_want('shop', 'key ' || i, 5), dc_take('shop', 'key ' || i) FROM generate_series(1, 3) AS i;
		SELECT pg_sleep(0.01);
	} } 1 .. 60)));
}

my @jobs = map { (users($_), region_count($_, $seconds)) } @nodes;
foreach my $database (@databases)
{
	my $table = $database eq 'plain' ? '-t plain -t plain_shard ' : '';

	sql($copy, 'postgres', "CREATE DATABASE $database");
	if ($database eq 'plain')
	{
		sql($copy, $database, q{CREATE EXTENSION dcounter; SELECT dc_create('plain')});
	}
	else
	{
		sql($copy, $database, 'CREATE EXTENSION dcounter');
		$copy->command_ok([ 'psql', '-Xq', '-d', $copy->connstr($database), '-f', $schema ], "$database: restore");
		sql($copy, $database, q{CREATE TABLE counted (key text, amount bigint)});
		sql($copy, $database, q{SELECT dc_adopt('likes'), dc_adopt('plain'), dc_adopt('shop')});
		is(sql($copy, $database, q{SELECT count(*) FROM dcounter.counter WHERE regions IS NOT NULL OR grants IS NOT NULL}), '2', "$database: both are adopted as replicated ones");
	}
	sql($copy, $database, "CREATE SUBSCRIPTION copy_$database CONNECTION \$c\$$connection\$c\$ PUBLICATION $database");
}
finish_job($_) foreach @jobs;
is_copied('with users');
@jobs = map { (users($_), region_count($_, $seconds)) } @nodes;
sleep($seconds / 2);
$copy->restart;
finish_job($_) foreach @jobs;
# the older wish is served first, and whose that is, is chance: so us has none
sql($us, 'postgres', q{SELECT dc_want('shop', 'key 1', 0), dc_restock('shop', 'key 1', 10)});
sql($eu, 'postgres', q{SELECT dc_want('shop', 'key 1', 1000)});
is(wait_for($eu, 'postgres', q{SELECT count(*) > 0 FROM shop_grant WHERE from_region = 'us'}, 't'), 't', 'us gives units');
is_copied('after a restart');
cmp_ok(sql($eu, 'postgres', q{SELECT count(*) FROM likes_region WHERE region = 'us'}), '>', 0, 'us has counted');
fails_with($copy, 'schema', q{SELECT dc_incr('likes', 'key 1')}, '55000', 'a copy is not written to');
fails_with($copy, 'schema', q{SELECT dc_take('shop', 'key 1')}, '55000', 'nor sold from');
is(sql($copy, 'schema', q{SELECT sum(apply_error_count + coalesce(to_jsonb(s) -> 'sync_error_count', to_jsonb(s) -> 'sync_table_error_count')::bigint) FROM pg_stat_subscription_stats AS s WHERE subname IN ('copy_plain', 'copy_schema')}), '0', 'their subscriptions have never failed');
# FOR ALL TABLES brings the tables of the extension as well, which have rows of their own here
my %bad = map { $_ => 1 } slurp_file($copy->logfile) =~ /duplicate key value violates unique constraint "(\w+)"/g;
is(join(' ', grep { /likes|plain|shop/ } sort keys %bad), '', 'no row of a counter has met another one');
is(sql($copy, 'everything', q{SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r' AND srrelid::regclass::text ~ 'likes|plain|shop'}), '0', 'and all of them are copied');
is(sql($eu, 'postgres', q{SELECT count(*) FROM dc_stat_counters WHERE fed_by IS NOT NULL AND counter::text = 'plain'}), '0', 'not on the publisher');

# Promotion: the region's database is lost, and a copy continues as another one
my $value = sql($copy, 'schema', q{SELECT sum(dc_get('likes', key)) FROM (SELECT key FROM likes UNION SELECT key FROM likes_shard) AS u});
sql($copy, 'schema', 'DROP SUBSCRIPTION copy_schema');
sql($copy, 'schema', q{SELECT dc_region_init('eu2'); SELECT dc_incr('likes', 'key 1', 5)});
is(wait_for($copy, 'schema', q{SELECT inc FROM likes_region WHERE region = 'eu2' AND key = 'key 1'}, '5'), '5', 'promoted: what it counts is published');
is(sql($copy, 'schema', q{SELECT sum(dc_get('likes', key)) FROM (SELECT key FROM likes UNION SELECT key FROM likes_shard) AS u}), $value + 5, 'promoted: its values go on');
is(sql($copy, 'schema', q{SELECT keys FROM dc_region_check('likes') WHERE region IS NULL}), '0', 'promoted: and are what regions have counted');

$_->stop foreach @nodes, $copy;
done_testing();
