# dc_load() by many sessions at once, on the same keys, and everything else that happens to
# them; and the shard table, which gives back its space after increments of many keys.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $clients = 8;
my $loads = torture(6, 60);
my $keys = 3000;
my $scripts = 0;

my $node = dc_node('load', conf => [
		"shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '50ms'", 'dcounter.worker_load = 100',
		'autovacuum = off', 'restart_after_crash = on' ]);

# script(BODY): the path of a pgbench script
sub script
{
	my ($body) = @_;
	my $path = PostgreSQL::Test::Utils::tempdir() . '/script' . ++$scripts;

	append_to_file($path, $body);
	return $path;
}

# pgbench(CLIENTS, TRANSACTIONS, SCRIPT...): its output
sub pgbench
{
	my ($n, $transactions, @scripts) = @_;
	my ($out, $err);

	IPC::Run::run([ 'pgbench', '-n', '-c', $n, '-j', '2', '-t', $transactions, (map { ('-f', $_) } @scripts), $node->connstr('postgres') ],
		'>', \$out, '2>', \$err);
	return "$out\n$err";
}

# The same keys, in any order, by all at once, from an empty table on: what two sessions insert at one
# moment is found in the unique index
foreach my $totals ('direct', 'compacted')
{
	sql($node, 'postgres', "SELECT dc_create('race', totals => '$totals'); SELECT dc_create('told');");
	my $output = pgbench($clients, $loads,
		script("SELECT dc_load('race', array_agg('k' || i), array_agg(1)) FROM (SELECT i FROM generate_series(1, $keys) AS i ORDER BY random()) AS r;\n"));
	my $all = $clients * $loads * $keys;
	like($output, qr{processed: ${\($clients * $loads)}/}, "$totals: all loads of the same keys have ended well") or diag($output);
	unlike($output, qr/ERROR/, "$totals: without an error");
	is(sql($node, 'postgres', "SELECT dc_sum('race'), (SELECT count(*) FROM dc_get_many('race', (SELECT array_agg('k' || i) FROM generate_series(1, $keys) AS i)) WHERE value = $clients * $loads)"),
		"$all|$keys", "$totals: each amount counts once");

	# With increments, setters of other keys, and the worker, in any transaction
	$output = pgbench($clients, $loads * 3,
		script("\\set n random(1, $keys)\nBEGIN;\nSELECT dc_load('race', array_agg('n' || i), array_agg(1)) FROM generate_series(:n, :n + 9) AS i;\nSELECT dc_load('told', '{x}', '{10}');\nEND;\n"),
		script("\\set n random(1, $keys)\nBEGIN;\nSELECT count(dc_incr('race', 'n' || i)) FROM generate_series(:n, :n + 9) AS i;\nSELECT dc_incr('told', 'x', 10);\nEND;\n"),
		script("\\set n random(1, $keys)\nBEGIN;\nSAVEPOINT s;\nSELECT dc_load('race', array_agg('n' || i), array_agg(7)) FROM generate_series(:n, :n + 9) AS i;\nROLLBACK TO s;\nEND;\n"),
		script("\\set n random(1, $keys)\nSELECT dc_set('race', 's' || :n, 0), dc_load('race', ARRAY['s' || :n], '{0}'), dc_delete('race', 's' || :n);\n"));
	unlike($output, qr/ERROR/, "$totals: with others at work, without an error") or diag($output);
	is(sql($node, 'postgres', "SELECT dc_sum('race') - dc_sum('told') FROM (SELECT) AS x"), $all, "$totals: and each amount counts once");
	wait_for($node, 'postgres', q{SELECT sum(inc) + sum(dec) IS NULL OR sum(inc) + sum(dec) = 0 FROM race_shard}, 't');
	is(sql($node, 'postgres', q{SELECT sum(value) - dc_sum('race') FROM race}), '0', "$totals: the totals have all");
	sql($node, 'postgres', q{SELECT dc_drop('race'), dc_drop('told')});
}

# Many new keys, by increments: 20 MB of shard rows, which are given back when they are compacted
my $many = 60000;
my $size = q{pg_total_relation_size('c_shard')};
sub bulk
{
	sql($node, 'postgres', "SELECT dc_incr_many('c', array_agg('key ' || i), array_agg(i)) FROM generate_series(1, $many) AS i");
	return;
}
sql($node, 'postgres', q{SELECT dc_create('c', totals => 'compacted'); SELECT dc_incr('c', 'hot')});
my $sum = $many * ($many + 1) / 2;
my $blocker = dc_session($node, 'postgres');
$blocker->run('BEGIN; LOCK c_shard IN ACCESS SHARE MODE');
bulk();
cmp_ok(sql($node, 'postgres', "SELECT $size"), '>', 12 * 1024 * 1024, 'shard rows of many keys take space');
wait_for($node, 'postgres', 'SELECT count(*) < 10 FROM c_shard', 't', 60);
sleep(1);
cmp_ok(sql($node, 'postgres', "SELECT $size"), '>', 12 * 1024 * 1024, 'as long as somebody uses the table, nobody waits for that');
is(sql($node, 'postgres', q{SET lock_timeout = '1s'; SELECT dc_incr('c', 'hot'), dc_get('c', 'hot')}), '|2', 'and everybody else goes on');
$blocker->run('COMMIT');
is(wait_for($node, 'postgres', "SELECT $size < 1024 * 1024", 't'), 't', 'then the space is given back, and that of the index');
is(sql($node, 'postgres', q{SELECT dc_sum('c')}), $sum + 2, 'the counts are as they were');

# While an old snapshot needs the rows, they stay; it sees what it saw
$blocker->run(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1});
bulk();
my $middle = dc_session($node, 'postgres');
$middle->run(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1});
wait_for($node, 'postgres', 'SELECT count(*) < 10 FROM c_shard', 't', 60);
sleep(1);
cmp_ok(sql($node, 'postgres', "SELECT $size"), '>', 12 * 1024 * 1024, 'an old snapshot keeps the space');
is($blocker->run(q{SELECT dc_sum('c'), dc_get('c', 'key 7'); COMMIT}), $sum + 2 . '|7', 'the old snapshot has its values');
is($middle->run(q{SELECT dc_sum('c'), dc_get('c', 'key 7'); COMMIT}), 2 * $sum + 2 . '|14', 'and the next one');
is(wait_for($node, 'postgres', "SELECT $size < 1024 * 1024", 't'), 't', 'then the space is given back');

# Hints of sessions to rows that are elsewhere now do no harm
my $known = dc_session($node, 'postgres');
$known->run(q{SELECT dc_incr('c', 'hot')});
bulk();
$known->run(q{SELECT dc_incr('c', 'key 60000'), dc_incr('c', 'hot')});
is(wait_for($node, 'postgres', "SELECT $size < 1024 * 1024 AND (SELECT count(*) < 10 FROM c_shard)", 't'), 't', 'a third time');
is($known->run(q{SELECT dc_incr('c', 'key 60000'), dc_incr('c', 'hot')}), '|', 'a session that knew rows counts on');
is(sql($node, 'postgres', q{SELECT dc_sum('c'), dc_get('c', 'hot')}), 3 * $sum + 7 . '|5', 'nothing is lost');

# Nor is anything by a crash
bulk();
$node->kill9;
restart_after_kill9($node);
is(sql($node, 'postgres', q{SELECT dc_sum('c'), dc_get('c', 'hot')}), 4 * $sum + 7 . '|5', 'after a crash all is there');
is(wait_for($node, 'postgres', "SELECT $size < 1024 * 1024 AND (SELECT count(*) < 10 FROM c_shard)", 't'), 't', 'and the space is given back');
$node->kill9;
restart_after_kill9($node);
is(sql($node, 'postgres', q{SELECT dc_sum('c'), dc_get('c', 'hot'), sum(value) FROM c}), 4 * $sum + 7 . '|5|' . (4 * $sum + 7), 'after another one, too');

$_->quit foreach $blocker, $middle;
$node->stop;
done_testing();
