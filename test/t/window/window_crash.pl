# Windowed counters over kill -9 of the server, of the worker and of a session in the middle of a rollup, in a dump, and on a standby.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $rounds = $ENV{DC_TORTURE} ? 20 : 3;
my $node = dc_node('window', init => { allows_streaming => 1 }, conf => [ q{shared_preload_libraries = 'dcounter'}, 'autovacuum = off', 'restart_after_crash = on',
		"dcounter.compact_interval = '20ms'", "dcounter.window_interval = '20ms'", "dcounter.compact_batch = 7" ]);

sql($node, 'postgres', q{
	SELECT dc_window_create('w', '1 s', '2 s', '{"2 s": "4 s", "4 s": "1 day"}', 'drop');
	CREATE TABLE log (key text, n bigint);
	CREATE FUNCTION put() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		k text := 'k' || (random() * 200)::int;
	BEGIN
		IF dc_incr_at('w', k, 1, clock_timestamp() - random() * interval '5 s') THEN
			INSERT INTO log VALUES (k, 1);
		END IF;
	END $$;
	CREATE VIEW wrong AS SELECT key, n, value FROM (SELECT key, sum(n) AS n FROM log GROUP BY key) AS l, dc_window('w', l.key, '1 day', now() + interval '1 hour') AS v WHERE value <> n;
	CREATE VIEW state AS SELECT (SELECT count(*) FROM wrong) AS wrong, (SELECT sum(value) FROM w) = (SELECT sum(n) FROM log) AS same;});

for my $round (1 .. $rounds)
{
	my $job = start_command('pgbench', '-n', '-c', '4', '-T', '3600', '-f', file_of('put', "SELECT put(), put(), put();\n"), $node->connstr('postgres'));
	my $moved = sql($node, 'postgres', q{SELECT max(floors[1]) FROM dcounter.time_window});

	# rows are moved, some at a time
	isnt(wait_for($node, 'postgres', qq{SELECT max(floors[1]) > $moved FROM dcounter.time_window}, 't'), '', 'it rolls up');
	sleep(rand(0.5));
	if ($round % 3 == 1)
	{
		$node->stop('immediate');
		eval { finish_job($job) };
		$node->start;
	}
	else
	{
		my $rotating = dc_session($node, 'postgres');
		my $pid = sql($node, 'postgres', q{SELECT pid FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'windows'});

		# one who rotates by hand, in a transaction that has moved rows
		if ($round % 3 == 0)
		{
			$rotating->run(q{BEGIN; SELECT dc_window_rotate('w', now() + interval '2 s')});
			$pid = $rotating->run('SELECT pg_backend_pid()');
		}
		kill('KILL', $pid) if $pid;
		$job->{run}->kill_kill;
		eval { finish_job($job) };
		eval { $rotating->quit };
	}
	is(wait_for($node, 'postgres', 'SELECT 1', '1'), '1', 'the server is there');
	# it may have answered before it has noticed
	is(wait_for($node, 'postgres', 'TABLE state', '0|t'), '0|t', "round $round: each increment is there once") or diag(sql($node, 'postgres', 'TABLE wrong LIMIT 5'));
}
is(wait_for($node, 'postgres', q{SELECT count(*) FROM w WHERE bucket < now() - interval '1 minute' AND extract(second FROM bucket)::int % 4 <> 0}, '0'), '0', 'it goes on');

# ------------------------------------------------------------
# A standby answers, or says that it cannot; and a dump has it all
# ------------------------------------------------------------
$node->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\n");
$standby->start;
sql($node, 'postgres', q{SELECT dc_window_create('other', '1 minute', '1 hour');
	SELECT dc_incr_at('other', 'a', 5, now() - interval '30 min')});
$node->wait_for_catchup($standby);
is(sql($standby, 'postgres', 'TABLE state'), '0|t', 'a standby has the same');
my ($code, $out, $err) = $standby->psql('postgres', q{SELECT dc_incr_at('w', 'a')});
like($err, qr/cannot execute dc_incr_at\(\) in a read-only transaction|recovery/, 'and counts nothing');
my $old = dc_session($standby, 'postgres');
$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM log');
sql($node, 'postgres', q{SELECT dc_window_rotate('other', now() + interval '10 days')});
$node->wait_for_catchup($standby);
is($old->run(q{SELECT upper FROM dc_window('other', 'a', '1 day')}), 'ERROR 40001', 'an old snapshot there cannot be answered, and is told so');
$old->quit;
is(sql($standby, 'postgres', q{SELECT upper FROM dc_window('other', 'a', '1 day')}), '0', 'a new one');
$standby->stop;

sql($node, 'postgres', q{SELECT dc_window_create('dumped', '1 minute', '1 hour', '{"1 hour": "2 days"}', 'drop');
	SELECT dc_window_create('days', '1 day', '90 days', '{"1 month": "5 years"}', time_zone => 'Europe/Berlin');
	SELECT dc_incr_at('days', 'a', n, now() - n * interval '100 days') FROM generate_series(1, 4) AS n;
	SELECT dc_incr_at('dumped', 'a', 5, now() - interval '30 min'), dc_incr_at('dumped', 'a', 3, now() - interval '5 hours'), dc_incr_at('dumped', 'a', 3, now() - interval '5 days');
	CREATE DATABASE restored});
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], 'restored');
is(sql($node, 'restored', q{SELECT upper FROM dc_window('dumped', 'a', '1 day')}), '8', 'what was counted is there');
is(sql($node, 'restored', q{SELECT late, dropped, levels FROM dc_windows WHERE windowed = 'dumped'::regclass}), 'drop|1|2', 'and the settings');
my $days = q{SELECT time_zone, rollup, (SELECT jsonb_agg(b) FROM dc_buckets('days', 'a', now() - interval '2 years') AS b) FROM dc_windows WHERE windowed = 'days'::regclass};
is(sql($node, 'restored', $days), sql($node, 'postgres', $days), 'and those of a calendar, with its buckets');
is(sql($node, 'restored', q{SELECT dc_incr_at('dumped', 'a', 2, now() - interval '20 min')}), 't', 'it goes on counting');
sql($node, 'restored', q{SELECT dc_compact(); SELECT dc_window_rotate('dumped', now() + interval '1 day')});
is(sql($node, 'restored', q{SELECT upper FROM dc_window('dumped', 'a', '1 day')}), '10', 'and rolling up');

$node->stop;
done_testing();
