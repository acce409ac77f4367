# Counter tables that Citus distributes, while its shards move to other workers, and while a worker is gone: no increment is
# lost, none counts twice, and the background worker continues.
use strict;
use warnings;

use DcCitus;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

citus_or_skip();

my ($coordinator, @workers) = citus_nodes(conf => ["dcounter.compact_interval = '200ms'"]);

sub q_
{
	return sql($coordinator, 'postgres', $_[0]);
}

sub differences
{
	return q_(q{SELECT count(*), string_agg(key || ': ' || n || ' and ' || dc_get('likes', key), ', ')
		FROM (SELECT key, sum(n) AS n FROM log GROUP BY key) AS l WHERE n <> dc_get('likes', key)});
}

citus_counter($coordinator, 'likes');
q_("CREATE TABLE log (key text, n int); SELECT dc_create('here')");

# The background worker compacts
q_("SELECT dc_incr('likes', 'w' || i) FROM generate_series(1, 20) AS i");
is(wait_for($coordinator, 'postgres', 'SELECT count(*) FROM likes_shard', '0'), '0', 'the background worker compacts');
is(q_("SELECT sum(value) FROM likes"), 20, 'and the totals have it');

# Shards move
my $count = file_of('count.sql', q{\set k random(1, 40)
\set n random(1, 5)
BEGIN;
INSERT INTO log VALUES ('k' || :k, :n);
SELECT dc_incr('likes', 'k' || :k, :n);
COMMIT;
});
my $lone = file_of('lone.sql', "\\set k random(1, 40)\nSELECT dc_incr('likes', 'lone' || :k);\n");

sub bench
{
	my ($seconds, @scripts) = @_;

	return map { start_command('pgbench', '-n', '-f', $_->[0], '-c', $_->[1], '-j', 1, '-T', $seconds, $coordinator->connstr('postgres')) } @scripts;
}

my $compact = file_of('compact.sql', "SELECT dc_compact('likes');\n");
my @jobs = bench(torture(20, 60), [ $count, 3 ], [ $lone, 3 ], [ $compact, 1 ]);
my $moved = 0;
foreach my $mode ('force_logical', ('block_writes') x 6)
{
	my ($shard, $from, $from_port, $to, $to_port) = split /\|/, q_(q{
		SELECT s.shardid, s.nodename, s.nodeport, n.nodename, n.nodeport FROM citus_shards AS s, pg_dist_node AS n
		WHERE s.table_name = 'likes'::regclass AND (n.nodename, n.nodeport) <> (s.nodename, s.nodeport) AND n.groupid > 0
		ORDER BY s.shardid LIMIT 1 OFFSET } . $moved % 4);

	q_("SELECT citus_move_shard_placement($shard, '$from', $from_port, '$to', $to_port, shard_transfer_mode => '$mode')");
	$moved++;
}
is($moved, 7, 'shards have moved under load');
my @status = map { finish_job($_) } @jobs;
is("@status", '0 0 0', 'no increment has failed meanwhile');
diag($_->{err}) foreach grep { $_->{err} =~ /ERROR/ } @jobs;
is(differences(), '0|', 'log and counter agree');
my ($done) = $jobs[1]->{out} =~ /actually processed: (\d+)/;
is(q_("SELECT sum(value) FROM dc_get_many('likes', ARRAY(SELECT 'lone' || i FROM generate_series(1, 40) AS i))"), $done, 'and so do the lone increments');
is(wait_for($coordinator, 'postgres', 'SELECT count(*) FROM likes_shard', '0'), '0', 'all is compacted');

# All shards leave one worker, and come back
q_(sprintf q{SELECT citus_set_node_property('%s', %d, 'shouldhaveshards', false)}, $workers[1]->host, $workers[1]->port);
@jobs = bench(torture(12, 60), [ $count, 3 ]);
q_("SELECT rebalance_table_shards('likes', shard_transfer_mode => 'block_writes')");
is(q_("SELECT count(DISTINCT nodeport) FROM citus_shards WHERE table_name = 'likes'::regclass"), 1, 'all shards are on one worker');
q_(sprintf q{SELECT citus_set_node_property('%s', %d, 'shouldhaveshards', true)}, $workers[1]->host, $workers[1]->port);
q_("SELECT rebalance_table_shards('likes', shard_transfer_mode => 'block_writes')");
@status = map { finish_job($_) } @jobs;
is("@status", '0', 'rebalanced twice under load');
is(differences(), '0|', 'log and counter agree');

# A worker is gone, and comes back
my ($lost) = split /\|/, q_(sprintf q{SELECT key FROM (SELECT 'k' || i AS key FROM generate_series(1, 40) AS i) AS u
	WHERE EXISTS (SELECT FROM citus_shards WHERE shardid = get_shard_id_for_distribution_column('likes', key) AND nodeport = %d) LIMIT 1}, $workers[1]->port);
my ($kept) = split /\|/, q_(sprintf q{SELECT key FROM (SELECT 'k' || i AS key FROM generate_series(1, 40) AS i) AS u
	WHERE EXISTS (SELECT FROM citus_shards WHERE shardid = get_shard_id_for_distribution_column('likes', key) AND nodeport = %d) LIMIT 1}, $workers[0]->port);
my $before = q_("SELECT dc_get('likes', '$kept')");

$workers[1]->stop('immediate');
fails_with($coordinator, 'postgres', "SELECT dc_incr('likes', '$lost')", '\w{5}', 'a key of the worker that is gone');
fails_with($coordinator, 'postgres', "BEGIN; INSERT INTO log VALUES ('$kept', 1); SELECT dc_incr('likes', '$kept'), dc_incr('likes', '$lost'); COMMIT",
	'\w{5}', 'a transaction with such a key');
q_("BEGIN; INSERT INTO log VALUES ('$kept', 2); SELECT dc_incr('likes', '$kept', 2); COMMIT");
is(q_("SELECT dc_get('likes', '$kept')"), $before + 2, 'keys of the other one are counted and read');
q_("SELECT dc_incr('here', 'a' || i % 3) FROM generate_series(1, 30) AS i");
is(q_("SELECT dc_sum('here')"), 30, 'and so are local counter tables');
sleep(1);
$workers[1]->start;
wait_for($coordinator, 'postgres', 'SELECT count(*) >= 0 FROM likes_shard', 't');
is(differences(), '0|', 'log and counter agree');
q_("BEGIN; INSERT INTO log VALUES ('$lost', 3); SELECT dc_incr('likes', '$lost', 3); COMMIT");
is(wait_for($coordinator, 'postgres', 'SELECT count(*) FROM likes_shard', '0'), '0', 'and all is compacted');
is(differences(), '0|', 'they still agree');

# A table that Citus recreates: amounts stay, also those that are not compacted, and settings go
q_("SET citus.multi_shard_modify_mode = sequential; ALTER SYSTEM SET dcounter.compact_interval = '1d'; SELECT pg_reload_conf()");
q_("SELECT dc_incr('likes', 'k' || i, 7) FROM generate_series(1, 20) AS i");
my $sum = q_("SELECT dc_sum('likes')");
fails_with($coordinator, 'postgres', "BEGIN; SELECT dc_incr('likes', 'k1'); SELECT undistribute_table('likes'); COMMIT",
	'55000', 'not with increments that are not written yet');
is(q_("SELECT dc_sum('likes')"), $sum, 'and nothing has changed');
q_("SELECT undistribute_table('likes')");
is(q_("SELECT to_regclass('likes_shard') IS NOT NULL"), 't', 'undistribute_table() does not drop the shard table');
fails_with($coordinator, 'postgres', "SELECT dc_incr('likes', 'k1')", '42809', 'calls fail until then');
q_("SELECT undistribute_table('likes_shard'); SELECT dc_adopt('likes'); SELECT dc_incr('likes', 'k1')");
is(q_("SELECT dc_sum('likes')"), $sum + 1, 'adopted: all is there');
q_("SELECT create_distributed_table('likes', 'key', shard_count => 4), create_distributed_table('likes_shard', 'key', colocate_with => 'likes')");
is(q_("SELECT dc_sum('likes')"), $sum + 1, 'distributed again, with what was counted here');
q_("SELECT truncate_local_data_after_distributing_table('likes'), truncate_local_data_after_distributing_table('likes_shard')");
q_("SELECT dc_incr('likes', 'k1')");
is(q_("SELECT dc_sum('likes')"), $sum + 2, 'and without the local rows');
q_("SELECT alter_distributed_table('likes', shard_count => 6, cascade_to_colocated => true); SELECT dc_adopt('likes'); SELECT dc_incr('likes', 'k1')");
q_("SELECT dc_compact('likes')");
is(q_("SELECT sum(value) FROM likes"), $sum + 3, 'another number of shards');

$_->stop foreach $coordinator, @workers;
done_testing();
