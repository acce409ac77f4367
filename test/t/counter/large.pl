# Very many distinct keys in one transaction: the memory for increments that
# wait for commit stays within dcounter.pending_memory, whatever their number,
# and the counts are exact.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use Test::More;

my $keys = torture(1_000_000, 10_000_000);
my $half = $keys / 2;

# What is left of a process's peak beyond its start is then its own memory.
my $node = dc_node('large', conf => [
		'shared_buffers = 8MB', 'work_mem = 1MB', 'maintenance_work_mem = 4MB', 'autovacuum = off',
		'max_wal_size = 2GB', 'synchronous_commit = off', 'jit = off' ]);
sql($node, 'postgres', "SELECT dc_create('c', totals => 'compacted')");

my $session = dc_session($node, 'postgres');
my $pid = $session->run('SELECT pg_backend_pid()');
$session->run("SELECT dc_get('c', 'x')");
is($session->run('SHOW dcounter.pending_memory'), '16MB', 'the default of dcounter.pending_memory');

# pending_ok(NAME, MB): the pending deltas use this much memory, by pg_backend_memory_contexts. The
# block that was allocated last, of up to 8 MB, may be nearly empty.
sub pending_ok
{
	my ($name, $mb) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($used, $total) = split /\|/, $session->run(q{
		SELECT coalesce(sum(used_bytes), 0) / 1048576, coalesce(sum(total_bytes), 0) / 1048576
		FROM pg_backend_memory_contexts
		WHERE name = 'dcounter pending deltas'});

	note("$name: $used MB pending, $total MB allocated");
	cmp_ok($used, '<=', $mb, "$name: pending increments");
	cmp_ok($total, '<=', $mb + 8, "$name: memory of pending increments");
	return;
}

# memory_ok(NAME, MB): the same, and the peak of the backend
my $start = peak_memory($pid);
sub memory_ok
{
	my ($name, $mb) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	pending_ok($name, $mb);
  SKIP:
	{
		my $peak = peak_memory($pid);

		skip 'the peak of a process says nothing here (no /proc, or sanitizers)', 1 if !defined $peak;
		note("peak of the backend: $peak MB, at its start $start MB");
		# 8 MB of shared buffers and 4 MB of remembered rows; the rest is for
		# what malloc() cannot give back, and far less than the keys would need
		cmp_ok($peak - $start, '<=', $mb + 64, "$name: peak of the backend");
	}
	return;
}

# Each key gets 1, every tenth a second time much later
is($session->run("BEGIN; SELECT count(dc_incr('c', 'key ' || i)) FROM generate_series(1, $half) AS i"),
	$half, 'half of the keys');
memory_ok('half', 16);
my $half_peak = peak_memory($pid);
is($session->run("SELECT count(dc_incr('c', 'key ' || i)) FROM generate_series($half + 1, $keys) AS i"),
	$half, 'the other half');
is($session->run("SELECT count(dc_incr('c', 'key ' || i * 10, 2)) FROM generate_series(1, $keys / 10) AS i"),
	$keys / 10, 'a tenth again');
memory_ok('all', 16);
cmp_ok((peak_memory($pid) // 0) - ($half_peak // 0), '<=', 16, 'the peak does not depend on the number of keys');

my $sum = $keys + 2 * $keys / 10;
is($session->run("SELECT dc_sum('c'), dc_get('c', 'key 10'), dc_get('c', 'key $keys'), dc_get('c', 'key 1')"),
	"$sum|3|3|1", 'the transaction sees its own');
is(sql($node, 'postgres', "SELECT dc_sum('c'), dc_get('c', 'key 10')"), '0|0', 'others do not');
is($session->run('COMMIT'), '', 'commit');
is(sql($node, 'postgres', "SELECT dc_sum('c'), count(*), count(DISTINCT key), min(inc), max(inc) FROM c_shard"),
	"$sum|$keys|$keys|1|3", 'exact, and one row for each key');
memory_ok('committed', 16);

# Savepoints: rows written early in one that is rolled back are undone. Each open level may keep as
# much again.
my $some = $keys / 4;
$session->run(qq{
	BEGIN;
	SELECT count(dc_incr('c', 'outer ' || i)) FROM generate_series(1, $some) AS i;
	SAVEPOINT a;
	SELECT count(dc_incr('c', 'key ' || i, 1000)) FROM generate_series(1, $some) AS i;
	ROLLBACK TO a;
	SELECT count(dc_incr('c', 'inner ' || i)) FROM generate_series(1, $some) AS i;
	COMMIT});
$sum += 2 * $some;
is(sql($node, 'postgres', "SELECT dc_sum('c'), dc_get('c', 'key 10'), dc_get('c', 'outer $some'), dc_get('c', 'inner $some')"),
	"$sum|3|1|1", 'exact after a savepoint that was rolled back');
memory_ok('savepoints', 32);

# As little memory as can be set, and a rollback
$session->run(qq{
	SET dcounter.pending_memory = '64kB';
	BEGIN;
	SELECT count(dc_incr('c', 'key ' || i, 5)) FROM generate_series(1, $some) AS i;
	ROLLBACK;
	BEGIN;
	SELECT count(dc_incr('c', 'small ' || i % 50000)) FROM generate_series(1, 100000) AS i});
pending_ok('64kB', 0.0625);
$session->run('COMMIT; RESET dcounter.pending_memory');
$sum += 100000;
is(sql($node, 'postgres', "SELECT dc_sum('c'), dc_get('c', 'key 10'), dc_get('c', 'small 7')"), "$sum|3|2", '64kB: exact');

# The longest keys, which take the memory that they take
foreach my $count (4000, 8000, 12000, 15000, 20000)
{
	$session->run("BEGIN; SELECT count(dc_incr('c', repeat('x', 1019) || i)) FROM generate_series(10001, 10000 + $count) AS i");
	pending_ok("$count long keys", 16);
	$session->run('ROLLBACK');
}
is(sql($node, 'postgres', "SELECT dc_sum('c')"), $sum, 'rolled back');

# Compaction of all of them, in one call
my $all = $keys + 2 * $some + 50000;
is($session->run("SELECT dc_compact('c')"), $all, 'compaction of all keys');
memory_ok('compaction', 32);
is(sql($node, 'postgres', "SELECT dc_sum('c'), (SELECT sum(value) FROM c), (SELECT count(*) FROM c)"),
	"$sum|$sum|$all", 'exact after compaction');
$session->quit;

$node->stop;
done_testing();
