# Keys that expire while they are counted: 100,000 increments, of keys that are idle again and
# again. The deleted and the remaining amounts are all increments, each once; and no key was deleted
# that had just been written. The deleted rows are read from the WAL.
use strict;
use warnings;

use DcTest;
use DcWorker 'step_failures';
use PostgreSQL::Test::Utils;
use Test::More;

my $clients = 20;
my $each = torture(1_000, 20_000); # transactions, of five increments each
my $idle = 20; # ms
my $node = dc_node('idle', conf => [ "shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '10ms'", 'wal_level = logical', 'fsync = off',
		'deadlock_timeout = 100ms' ]);

sql($node, 'postgres', qq{
	SELECT dc_create('likes', idle => '$idle ms');
	ALTER TABLE likes REPLICA IDENTITY FULL;
	SELECT pg_create_logical_replication_slot('idle', 'test_decoding');});

# Keys are chosen in the server. What is rolled back counts for nothing.
my $some = q{SELECT dc_incr('likes', (random() * 3000)::int) FROM generate_series(1, %d);};
my $hot = q{SELECT dc_incr('likes', 'hot ' || (random() * 3)::int) FROM generate_series(1, %d);};
my ($some5, $some3, $hot5, $hot2) = (sprintf($some, 5), sprintf($some, 3), sprintf($hot, 5), sprintf($hot, 2));
my $n = 0;
my @scripts = map { ('-f', file_of('script' . ++$n . '.sql', "\\set gid random(1, 1000000000000000)\n$_->[1]\n") . "\@$_->[0]") } (
	[ 20, $some5 ],
	[ 10, $hot5 ],
	[ 4, "BEGIN; $some3 SAVEPOINT a; $hot5 ROLLBACK TO a; $hot2 COMMIT;" ],
	[ 2, "BEGIN ISOLATION LEVEL REPEATABLE READ; $some5 SELECT dc_apply(); COMMIT;" ],
	[ 2, "BEGIN; $some5\nPREPARE TRANSACTION ':client_id-:gid';\nCOMMIT PREPARED ':client_id-:gid';" ],
	[ 1, "BEGIN; $hot5 ROLLBACK; $some5" ]);
my $job = start_command('pgbench', '-n', '-j', 2, '-c', $clients, '-t', $each, @scripts, $node->connstr('postgres'));
# sessions that maintain all tables race with the worker, too
my $maintainer = start_command('pgbench', '-n', '-c', 1, '-t', 50, '-f', file_of('maintain.sql', "CALL dc_maintain();\n"), $node->connstr('postgres'));
is(finish_job($maintainer), 0, 'dc_maintain() has no errors') or diag($maintainer->{err});
is(finish_job($job), 0, 'clients have no errors') or diag($job->{err});

# The lock waits for a sweep that is under way. From then on nothing expires.
sql($node, 'postgres', q{SELECT dc_alter('likes', idle => '0')});
sql($node, 'postgres', q{BEGIN; LOCK TABLE likes; COMMIT;});

# Rows of totals that were deleted: how many, the sum of their values, and how many of them were written less than the
# time before the commit that has deleted them
my ($rows, $sum, $early) = split /\|/, sql($node, 'postgres', qq{SET enable_nestloop = off;
	WITH change AS MATERIALIZED (SELECT row_number() OVER () AS n, data
			FROM pg_logical_slot_get_changes('idle', NULL, NULL, 'include-timestamp', 'on', 'skip-empty-xacts', 'on')
			WHERE data ~ '^(COMMIT|table public.likes: DELETE)'),
		part AS (SELECT data, count(*) FILTER (WHERE data ~ '^COMMIT') OVER (ORDER BY n) - (data ~ '^COMMIT')::int AS x FROM change),
		done AS (SELECT x, substring(data FROM 'at (.*)\\)')::timestamptz AS at FROM part WHERE data ~ '^COMMIT'),
		gone AS (SELECT x, substring(data FROM 'inc"?\\[bigint\\]:(\\d+)')::bigint - substring(data FROM 'dec"?\\[bigint\\]:(\\d+)')::bigint AS value,
			substring(data FROM 'updated_at\\[[^]]*\\]:''([^'']+)')::timestamptz AS at FROM part WHERE data ~ 'DELETE')
	SELECT count(*), coalesce(sum(value), 0), count(*) FILTER (WHERE gone.at > done.at - interval '$idle ms') FROM gone JOIN done USING (x)});
my $left = sql($node, 'postgres', q{SELECT coalesce(dc_sum('likes'), 0)});
my $total = 5 * $clients * $each;
note("$rows keys expired, with $sum; $left left");
is($sum + $left, $total, "none of $total increments is lost");
is($early, 0, 'no key has expired that was just written');
cmp_ok($rows, '>', 1000, 'keys have expired meanwhile');
is(step_failures($node, 'keys'), '', 'the worker has not failed');

# The worker comes by itself, and a restart makes no difference
sql($node, 'postgres', q{SELECT dc_create('visits', idle => '1 s'); SELECT dc_incr('visits', 'k' || i) FROM generate_series(1, 2000) AS i;});
is(wait_for($node, 'postgres', q{SELECT count(*) FROM visits}, '0'), '0', 'idle keys go');
sql($node, 'postgres', q{SELECT dc_alter('visits', idle => '1 hour'); SELECT dc_incr('visits', 'k' || i) FROM generate_series(1, 30) AS i; UPDATE visits SET updated_at = now() - interval '2 hours' WHERE key ~ '^k.$';});
$node->restart;
is(wait_for($node, 'postgres', q{SELECT count(*) FROM visits}, '21'), '21', 'after a restart as well');
# Buffered: what is in memory counts on top. And the time that was to pass until the next range, of an hour's pace (225 s), is over.
sql($node, 'postgres', q{SELECT dc_alter('visits', mode => 'buffered', flush_interval => '10 ms', idle => '50 ms')});
$job = start_command('pgbench', '-n', '-c', 4, '-t', 500, '-f', file_of('buffered.sql', "\\set k random(1, 20)\nSELECT dc_incr('visits', 'b' || :k);\n"), $node->connstr('postgres'));
is(finish_job($job), 0, 'a buffered table') or diag($job->{err});
is(wait_for($node, 'postgres', q{SELECT count(*) FROM visits}, '0', 100), '0', 'its keys go, too');
$node->stop;
done_testing();
