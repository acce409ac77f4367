# Ranks under load: in each snapshot, that of a key is what rank() says of the totals, and pages and neighborhoods are what row_number()
# says, while totals change in all ways: compaction by the worker, dc_set, dc_delete, dc_load, SQL, savepoints, prepared transactions, TRUNCATE; beside
# builds; after crashes; in a database that was restored from a dump, and in one on a standby.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $rounds = torture(2, 100);
my $looks = torture(4, 20);
my $node = dc_node('ranks', conf => [ "shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '50ms'", 'autovacuum = off' ],
	init => { allows_streaming => 1 });

sql($node, 'postgres', $_) foreach q{
	SELECT dc_create('points');
	SELECT dc_load('points', array_agg('k' || i), array_agg(CASE i % 4 WHEN 0 THEN i % 10 WHEN 1 THEN -i * i * 1000 WHEN 2 THEN i * 1000000 ELSE 500000 + i END)) FROM generate_series(1, 400) AS i;
	CREATE INDEX ON points (value DESC, key);
	SELECT dc_rank_create('points', build => 'none');
	CALL dc_build('points_rank');
}, q{
	CREATE VIEW ranked AS SELECT key, value, rank() OVER (ORDER BY value DESC), row_number() OVER (ORDER BY value DESC, key) AS n, count(*) OVER () AS keys FROM points;
	-- all ranks, and some pages and neighborhoods, in one snapshot
	CREATE FUNCTION wrong(OUT what text, OUT key text) RETURNS SETOF record LANGUAGE sql STABLE AS $$
		SELECT 'rank', r.key FROM ranked AS r WHERE dc_rank('points', r.key) IS DISTINCT FROM r.rank
		UNION ALL SELECT 'page', r.key FROM ranked AS r FULL JOIN dc_at_rank('points', 7, 100) AS a USING (key, value, rank) WHERE (r.n BETWEEN 7 AND 106 OR r.n IS NULL) AND (r.key IS NULL OR a.key IS NULL)
		UNION ALL SELECT 'around', r.key FROM ranked AS m, LATERAL (SELECT * FROM ranked AS r FULL JOIN (SELECT a.key, a.value, a.rank, true AS found FROM dc_around('points', m.key, 6) AS a) AS a USING (key, value, rank)) AS r
			WHERE m.n % 97 = 5 AND (r.n BETWEEN m.n - 6 AND m.n + 6 OR r.n IS NULL) AND (r.n IS NULL OR r.found IS NULL)
	$$;
};
is(sql($node, 'postgres', 'SELECT * FROM wrong()'), '', 'nobody writes: ranks are those of SQL');

# each client sets and deletes keys of its own, so they do not deadlock
my $script = file_of('ranks.sql', q{
\set k 3 * random(1, 150) + :client_id
\set n random(-60, 60)
SELECT dc_incr('points', 'k' || (:k + g) % 450, :n * g * g * g) FROM generate_series(1, 5) AS g;
BEGIN;
SELECT dc_set('points', 'k' || :k, :n * 1000003);
SAVEPOINT s;
SELECT dc_delete('points', 'k' || :k);
SELECT dc_load('points', ARRAY['lost' || :client_id], '{1000}');
ROLLBACK TO s;
UPDATE points SET inc = inc + 70 WHERE key = 'k' || :k;
SELECT dc_load('points', ARRAY['l' || :client_id || '_' || :n], '{5}');
COMMIT;
DELETE FROM points WHERE key = 'l' || :client_id || '_' || (:n + 1);
SELECT dc_delete('points', 'k' || :k);
});
my $prepared = file_of('prepared.sql', q{
\set k 1000 + random(1, 50)
\set n random(1, 1000000)
BEGIN;
SELECT dc_set('points', 'k' || :k, :n);
PREPARE TRANSACTION 'rank';
COMMIT PREPARED 'rank';
BEGIN;
SELECT dc_delete('points', 'k' || :k);
PREPARE TRANSACTION 'rank';
ROLLBACK PREPARED 'rank';
});

foreach my $round (1 .. $rounds)
{
	my @jobs = (start_command('pgbench', '-n', '-c', '3', '-T', '3600', '-f', $script, $node->connstr('postgres')),
		start_command('pgbench', '-n', '-c', '1', '-T', '3600', '-f', $prepared, $node->connstr('postgres')));

	foreach my $look (1 .. $looks)
	{
		sleep(0.1);
		is(sql($node, 'postgres', 'SELECT * FROM wrong() LIMIT 5'), '', "round $round, look $look: ranks are those of SQL");
		sql($node, 'postgres', q{CALL dc_build('points_rank', 50)}) if $look % 4 == 2;
		sql($node, 'postgres', 'TRUNCATE points') if $look % 4 == 3 && $round % 2 == 0;
	}
	wait_for($node, 'postgres', 'SELECT count(*) > 20 FROM points', 't');    # the table may have been truncated just now
	$node->stop('immediate');
	foreach my $job (@jobs)
	{
		finish_job($job);
		unlike($job->{err}, qr/ERROR(?!.*terminat)/, "round $round: writers meet no error");
	}
	$node->start;
	is(sql($node, 'postgres', 'SELECT * FROM wrong() LIMIT 5'), '', "round $round: ranks are those of SQL, after a crash");
	is(sql($node, 'postgres', q{SELECT count(*) FROM dc_source_check('points_rank')}), '0', "round $round: no difference");
	sql($node, 'postgres', q{ROLLBACK PREPARED 'rank'}) if sql($node, 'postgres', 'SELECT count(*) FROM pg_prepared_xacts');
}
cmp_ok(sql($node, 'postgres', 'SELECT count(*) FROM points'), '>', 20, 'there is something to compare');

# a standby
$node->backup('ranks');
my $standby = PostgreSQL::Test::Cluster->new('ranks_standby');
$standby->init_from_backup($node, 'ranks', has_streaming => 1);
$standby->start;
is(sql($standby, 'postgres', 'SELECT * FROM wrong() LIMIT 5'), '', 'ranks are those of SQL, on a standby');
$standby->stop('immediate');

# a dump
my $dump = PostgreSQL::Test::Utils::tempdir . '/ranks.dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], 'dump');
sql($node, 'postgres', 'CREATE DATABASE restored TEMPLATE template0');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('restored'), $dump ], 'restore');
is(sql($node, 'restored', 'SELECT * FROM wrong() LIMIT 5'), '', 'restored: ranks are those of SQL');
sql($node, 'restored', q{SELECT dc_set('points', 'k1', 77), dc_delete('points', 'k2'), dc_incr('points', 'new', 5); SELECT dc_compact('points')});
is(sql($node, 'restored', 'SELECT * FROM wrong() LIMIT 5'), '', 'restored: it goes on counting');
sql($node, 'restored', 'DROP TABLE points CASCADE');
is(sql($node, 'restored', q{SELECT to_regclass('points_rank')}), '', 'restored: the buckets follow');

# wrong() sees what is wrong
sql($node, 'postgres', q{SET session_replication_role = replica; INSERT INTO points (key, inc, dec) VALUES ('first', 9000000000000000000, 0)});
cmp_ok(sql($node, 'postgres', 'SELECT count(*) FROM wrong()'), '>=', 20, 'a row that was not counted is seen');

$node->stop;
done_testing();
