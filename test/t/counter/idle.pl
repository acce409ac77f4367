# Keys that expire while they are counted: 100,000 increments, of keys that are idle again and again. What was deleted and
# what is left are all increments, each once; and no key was deleted that had just been written. The deleted rows are
# read from the WAL.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $clients = 20;
my $each = torture(5_000, 100_000);
my $idle = 20; # ms
my $node = dc_node('idle', conf => [ "shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '10ms'", 'wal_level = logical', 'fsync = off',
		'deadlock_timeout = 100ms' ]);

# deleted: rows of totals that were deleted since the last call: how many, the sum of their values, and how many of
# them were written less than the time before the commit that has deleted them
sub deleted
{
	return split /\|/, sql($node, 'postgres', qq{SET enable_nestloop = off;
		WITH change AS MATERIALIZED (SELECT row_number() OVER () AS n, data FROM pg_logical_slot_get_changes('idle', NULL, NULL, 'include-timestamp', 'on')
			WHERE data ~ '^(COMMIT|table public.likes: DELETE)'),
		part AS (SELECT data, count(*) FILTER (WHERE data ~ '^COMMIT') OVER (ORDER BY n) - (data ~ '^COMMIT')::int AS x FROM change),
		done AS (SELECT x, substring(data FROM 'at (.*)\\)')::timestamptz AS at FROM part WHERE data ~ '^COMMIT'),
		gone AS (SELECT x, substring(data FROM 'inc"?\\[bigint\\]:(\\d+)')::bigint - substring(data FROM 'dec"?\\[bigint\\]:(\\d+)')::bigint AS value,
			substring(data FROM 'updated_at\\[[^]]*\\]:''([^'']+)')::timestamptz AS at FROM part WHERE data ~ 'DELETE')
		SELECT count(*), coalesce(sum(value), 0), count(*) FILTER (WHERE gone.at > done.at - interval '$idle ms') FROM gone JOIN done USING (x)});
}

sql($node, 'postgres', qq{
	SELECT dc_create('likes', idle => '$idle ms');
	ALTER TABLE likes REPLICA IDENTITY FULL;
	SELECT pg_create_logical_replication_slot('idle', 'test_decoding');});

# one increment in each transaction
my $head = "\\set k random(1, 3000)\n\\set hot random(1, 3)\n\\set gid random(1, 1000000000000000)\n";
my @scripts = map { file_of("script$_->[0].sql", "$head$_->[1]\n") . "\@$_->[2]" } (
	[ 1, q{SELECT dc_incr('likes', :k);}, 20 ],
	[ 2, q{SELECT dc_incr('likes', 'hot ' || :hot);}, 10 ],
	[ 3, q{BEGIN; SELECT dc_incr('likes', :k); SAVEPOINT a; SELECT dc_incr('likes', 'hot ' || :hot); ROLLBACK TO a; COMMIT;}, 4 ],
	[ 4, q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT dc_incr('likes', :k); SELECT dc_apply(); COMMIT;}, 2 ],
	[ 5, qq{BEGIN; SELECT dc_incr('likes', :k);\nPREPARE TRANSACTION ':client_id-:gid';\nCOMMIT PREPARED ':client_id-:gid';}, 2 ],
	[ 6, qq{CALL dc_maintain();\nSELECT dc_incr('likes', :k);}, 1 ]);
my $job = start_command('pgbench', '-n', '-j', 2, '-c', $clients, '-t', $each, (map { ('-f', $_) } @scripts), $node->connstr('postgres'));
my ($status, $said) = finish_job($job);

is($status, 0, 'clients have no errors') or diag($said);
my $total = $clients * $each;
my ($rows, $sum, $early) = deleted();
my $left = sql($node, 'postgres', q{SELECT dc_sum('likes')});

# what expires between the two
my ($rows2, $sum2, $early2) = deleted();
is(sql($node, 'postgres', q{SELECT dc_alter('likes', idle => '0')}), '', 'keys do not expire any more');
my @rest = deleted();
$left = sql($node, 'postgres', q{SELECT dc_sum('likes')});
$rows += $rows2 + $rest[0];
note("$rows keys expired, with $sum + $sum2 + $rest[1]; $left left");
is($sum + $sum2 + $rest[1] + $left, $total, "none of $total increments is lost");
is($early + $early2 + $rest[2], 0, 'no key has expired that was just written');
cmp_ok($rows, '>', 1000, 'keys have expired meanwhile');
is(sql($node, 'postgres', q{SELECT count(*) FROM dc_stat_worker WHERE job = 'keys' AND failures > 0}), '0', 'the worker has not failed');

# The worker comes by itself, and a restart makes no difference
sql($node, 'postgres', q{SELECT dc_create('visits', idle => '1 s'); SELECT dc_incr('visits', 'k' || i) FROM generate_series(1, 2000) AS i;});
is(wait_for($node, 'postgres', q{SELECT count(*) FROM visits}, '0'), '0', 'idle keys go');
sql($node, 'postgres', q{SELECT dc_alter('visits', idle => '1 hour'); SELECT dc_incr('visits', 'k' || i) FROM generate_series(1, 10) AS i; UPDATE visits SET updated_at = now() - interval '2 hours' WHERE key <> 'k1';});
$node->restart;
is(wait_for($node, 'postgres', q{SELECT count(*) FROM visits}, '1'), '1', 'after a restart as well');
# Buffered: what is in memory counts on top
sql($node, 'postgres', q{SELECT dc_alter('visits', mode => 'buffered', flush_interval => '10 ms', idle => '50 ms')});
($status, $said) = finish_job(start_command('pgbench', '-n', '-c', 4, '-t', 500, '-f', file_of('buffered.sql', "\\set k random(1, 20)\nSELECT dc_incr('visits', 'b' || :k);\n"), $node->connstr('postgres')));
is($status, 0, 'a buffered table') or diag($said);
is(wait_for($node, 'postgres', q{SELECT count(*) FROM visits}, '0'), '0', 'its keys go, too');
$node->stop;
done_testing();
