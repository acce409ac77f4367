# dcounter_lite when the server is killed: what was acknowledged is there, and nothing twice. On a standby it is read, and used after a promotion. A dump
# of a database in use is of one moment.
use strict;
use warnings;

use DcTest;
use DcLite;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('lite', extension => 0, init => { allows_streaming => 1 }, conf => ['fsync = on']);
lite_install($node, 'postgres');
sql($node, 'postgres', q{
	SELECT dc_create('c'), dc_create('bound'), dc_stock_create('s');
	SELECT dc_restock('s', 'k', 100000), dc_incr_once('c', 'first', 1, 'first');
	CREATE TABLE rows (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL);
	SELECT dc_bind('bound', 'rows', 'key');
	CREATE TABLE log (what text, key text, amount bigint)});

# What a transaction does it writes into the log as well; beside them, maintenance and compaction.
my $client = file_of('client', q{
\set k random(1, 5)
\set op random(1, 100000)
BEGIN;
SELECT dc_incr('c', 'k' || :k, :k);
INSERT INTO log VALUES ('c', 'k' || :k, :k);
INSERT INTO rows (key) VALUES ('k' || :k);
WITH t AS MATERIALIZED (SELECT dc_take('s', 'k', :k) AS t) INSERT INTO log SELECT 's', 'k', -:k FROM t WHERE t;
INSERT INTO log SELECT 'c', 'op', 1 WHERE dc_incr_once('c', 'op', 1, 'op' || :op);
COMMIT;
});
my $upkeep = file_of('upkeep', "CALL dc_maintain();\nSELECT dc_compact('c');\nSELECT dc_compact('s');\n\\sleep 20 ms\n");
my $differences = q{
	SELECT 'c', key FROM (SELECT key, sum(amount) AS n FROM log WHERE what = 'c' GROUP BY key) AS l WHERE n <> dc_get('c', key)
	UNION ALL SELECT 's', 'k' WHERE dc_get('s', 'k') <> 100000 + (SELECT coalesce(sum(amount), 0) FROM log WHERE what = 's')
	UNION ALL SELECT 'units', key FROM s_shard GROUP BY key HAVING sum(units) <> dc_get('s', key) OR min(units) < 0
	UNION ALL SELECT 'bound', key FROM dc_source_check('bound')
	UNION ALL SELECT 'ops', op_id FROM c_op GROUP BY op_id HAVING count(*) > 1
	UNION ALL SELECT 'ops', 'sum' WHERE dc_get('c', 'op') <> (SELECT count(*) FROM c_op WHERE op_id LIKE 'op%')};

sub load
{
	my ($seconds) = @_;

	return map { start_command('pgbench', '-n', '-f', $_->[0], '-c', $_->[1], '-j', 1, '-T', $seconds, $node->connstr('postgres')) } ([ $client, 8 ], [ $upkeep, 1 ]);
}

foreach my $round (1 .. torture(2, 20))
{
	my @jobs = load(60);
	wait_for($node, 'postgres', "SELECT count(*) > $round * 100 FROM log", 't');
	$node->kill9;
	finish_job($_) foreach @jobs;
	restart_after_kill9($node);
	is(sql($node, 'postgres', $differences), '', "round $round: exact after a crash");
	cmp_ok(sql($node, 'postgres', 'SELECT count(*) FROM log'), '>', $round * 100, "round $round: of " . sql($node, 'postgres', 'SELECT count(*) FROM log') . ' amounts');
}

# A dump beside writers
my @jobs = load(4);
my $count = sql($node, 'postgres', 'SELECT count(*) FROM log');
wait_for($node, 'postgres', "SELECT count(*) > $count + 50 FROM log", 't');
my $dump = file_of('dump', '');
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'a dump beside writers');
finish_job($_) foreach @jobs;
sql($node, 'postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'is restored');
is(sql($node, 'restored', $differences), '', 'and is of one moment');
is(sql($node, 'restored', "SELECT dc_incr_once('c', 'first', 1, 'first'), dc_incr_once('c', 'first', 1, 'second'), dc_take('s', 'k')"), 'f|t|t', 'ops are known, and all goes on');

# A standby
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
@jobs = load(3);
my $seen = 0;
foreach my $i (1 .. 5)
{
	is(sql($standby, 'postgres', $differences), '', "standby, look $i: exact in each snapshot");
}
finish_job($_) foreach @jobs;
foreach my $call ("dc_incr('c', 'k1')", "dc_take('s', 'k')", "dc_set('c', 'k1', 1)", "dc_compact('c')", "dc_incr_once('c', 'x', 1, 'x')", "dc_create('d')")
{
	fails_with($standby, 'postgres', "SELECT $call", '25006', "standby: $call is the read-only error");
}
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
my $last = sql($node, 'postgres', "SELECT dc_sum('c'), dc_sum('s'), dc_sum('bound')");
$node->stop('immediate');
$standby->promote;
is(sql($standby, 'postgres', "SELECT dc_sum('c'), dc_sum('s'), dc_sum('bound')"), $last, 'the standby has the values');
sql($standby, 'postgres', "SELECT dc_incr('c', 'k1', 5), dc_take('s', 'k', 5); INSERT INTO log VALUES ('c', 'k1', 5), ('s', 'k', -5); INSERT INTO rows (key) VALUES ('k1')");
is(sql($standby, 'postgres', $differences), '', 'and counts on when it is promoted');

done_testing();
