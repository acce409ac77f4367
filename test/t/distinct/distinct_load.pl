# Distinct tables under load: what clients commit they also write to a log, while the worker folds and others read. The sketch of each
# key and bucket is that of the log, whatever was killed in between.
use strict;
use warnings;

use DcTest;
use DcWorker 'step_failures';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{DC_TORTURE} ? 60 : 4;
my $node = dc_node('load', conf => [ q{shared_preload_libraries = 'dcounter'}, q{dcounter.distinct_interval = '20ms'}, q{dcounter.distinct_cache = 64}, 'autovacuum_naptime = 1s' ]);

sql($node, 'postgres', q{
	SELECT dc_distinct_create('d', 12), dc_distinct_create('b', 10, '1 day');
	CREATE TABLE log (name text, key text, item bigint, day timestamptz);
});

# Items repeat, so that most are known; keys are more than a session remembers, and of some there are many.
my $add = q{
\set i random_zipfian(1, 30000, 1.01)
\set k random_zipfian(1, 200, 1.2)
\set d random(0, 3)
BEGIN;
SELECT dc_add('d', 'k' || :k, :i::bigint);
SAVEPOINT s;
SELECT dc_add('d', 'k' || :k, -:i::bigint);
ROLLBACK TO s;
SELECT dc_add('b', 'k', :i::bigint, timestamptz '2026-02-01' + :d * interval '1 day');
INSERT INTO log VALUES ('d', 'k' || :k, :i, NULL), ('b', 'k', :i, timestamptz '2026-02-01' + :d * interval '1 day');
COMMIT;
};
my $read = q{
SELECT count(*) FROM dc_distinct_buckets('b', 'k');
SELECT dc_distinct('d', 'k1');
-- the report is of the statement's snapshot: else it divides by zero
SELECT 1 / (NOT EXISTS (SELECT key, estimate FROM dc_distinct_report('d') EXCEPT SELECT r.key, d.estimate FROM dc_distinct_report('d') AS r, dc_distinct('d', r.key) AS d))::int;
SELECT 1 / (NOT EXISTS (SELECT bucket, estimate FROM dc_distinct_report('b') EXCEPT SELECT bucket, estimate FROM dc_distinct_buckets('b', 'k')))::int;
};

sub differences
{
	return sql($node, 'postgres', q{
		SELECT key FROM (SELECT key, dc_hll_agg(item, 12) AS h FROM log WHERE name = 'd' GROUP BY key) AS l WHERE h <> dc_distinct_sketch('d', key)
		UNION ALL SELECT day::text FROM (SELECT day, dc_hll_agg(item, 10) AS h FROM log WHERE name = 'b' GROUP BY day) AS l
			WHERE h <> dc_distinct_sketch('b', 'k', '1 day', day + interval '1 day')
		UNION ALL SELECT 'buckets' WHERE (SELECT count(*) FROM dc_distinct_buckets('b', 'k')) <> (SELECT count(DISTINCT day) FROM log WHERE name = 'b')
		UNION ALL SELECT 'report' WHERE (SELECT count(*) FROM dc_distinct_report('b') WHERE key = 'k') <> (SELECT count(DISTINCT day) FROM log WHERE name = 'b')
			OR (SELECT count(*) FROM dc_distinct_report('d')) <> (SELECT count(DISTINCT key) FROM log WHERE name = 'd')
	});
}

foreach my $round (1 .. 2)
{
	my @jobs = map { start_command('pgbench', '-n', '-M', 'prepared', '-c', $_->[0], '-T', $seconds, '-f', file_of("round$round$_->[1]", $_->[2]), $node->connstr('postgres')) }
		[ 6, 'add', $add ], [ 1, 'read', $read ];

	if ($round == 2)
	{
		isnt(wait_for($node, 'postgres', q{SELECT count(*) > 20000 OR clock_timestamp() > pg_postmaster_start_time() + interval '3 s' FROM log}, 't'), '', 'clients are at work');
		$node->stop('immediate');
	}
	finish_job($_) foreach @jobs;
	$round == 1 ? unlike($jobs[0]{err} . $jobs[1]{err}, qr/ERROR|server closed/, 'no client meets an error') : $node->start;
	is(differences(), '', "round $round: the same as the log, before all is folded");
	isnt(wait_for($node, 'postgres', 'SELECT (SELECT count(*) FROM d_delta) + (SELECT count(*) FROM b_delta) = 0', 't'), '', 'all is folded');
	is(differences(), '', 'and the same again');
}
is(sql($node, 'postgres', q{SELECT runs > 0 FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'distinct'}), 't', 'by the worker');
is(step_failures($node, 'distinct'), '', 'which has not failed');
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, 'nothing has crashed');

$node->stop;
done_testing();
