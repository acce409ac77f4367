# Trends against an oracle of all events, with compactions, rollbacks and crashes at random moments and across an epoch; and
# under load, where no increment may be missing from the trend, or be in it twice.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = dc_node('trend', init => { allows_streaming => 1 },
	conf => [ q{shared_preload_libraries = 'dcounter'}, 'autovacuum = off', "dcounter.compact_interval = '100ms'" ]);
my $seed = $ENV{DC_SEED} // time * 1000 % 1_000_000;

srand $seed;
note "DC_SEED=$seed";

# ------------------------------------------------------------
# Oracle
# ------------------------------------------------------------
# The half-life is such that an epoch has begun 60 half-lives ago. Events come from 30 before that on; their time is what their
# shard rows say. A worker must not take them before that, so this is a server without one.
my $quiet = dc_node('oracle', conf => [ 'autovacuum = off' ]);
sql($quiet, 'postgres', 'CREATE TABLE event (key text, delta bigint, at bigint)');
my $now = sql($quiet, 'postgres', q{SELECT (extract(epoch FROM now() - '2000-01-01 00:00:00+00') * 1000000)::bigint});
my $half = int($now / (512 * 1000 + 60));
my $begin = int(int($now / $half) / 512) * 512 * $half;

sql($quiet, 'postgres', "SELECT dc_create('likes', trend => '1 hour'); DELETE FROM likes_trend;
	SELECT dc_alter('likes', trend => make_interval(secs => $half / 1000000.0))");
$half = sql($quiet, 'postgres', q{SELECT (extract(epoch FROM half_life) * 1000000)::bigint FROM dcounter.counter});

# wrong(): the keys whose weights are not what the events say
sub wrong
{
	my (%score, %size, @wrong);
	my $t = $begin + 58 * $half;

	foreach (split /\n/, sql($quiet, 'postgres', 'SELECT key, delta, at FROM event'))
	{
		my ($key, $delta, $at) = split /\|/;
		my $part = 2**(-($t - $at) / $half);

		$score{$key} += $delta * $part;
		$size{$key} += abs($delta) * $part;
	}
	my %have = map { my ($key, $weight, $epoch) = split /\|/; ($key => $weight * 2**(512 * ($epoch - $begin / $half / 512)) * 2**-58) }
	  split /\n/, sql($quiet, 'postgres', 'SET extra_float_digits = 3; SELECT key, weight, epoch FROM likes_trend');
	foreach (keys %size)
	{
		# deltas of nothing net leave no row
		my $off = abs(($have{$_} // 0) - $score{$_});
		push @wrong, "$_: " . ($have{$_} // 'none') . ", events $score{$_}" if $off > 1e-9 * $size{$_};
	}
	push @wrong, map { "$_: $have{$_}, no events" } grep { !exists $size{$_} } keys %have;
	return join("\n", @wrong);
}

my $at = $begin - 30 * $half;
my $steps = torture(90, 3000);
my $session = dc_session($quiet, 'postgres');
my ($crashes, $last_epoch) = (0, 0);

for my $step (1 .. $steps)
{
	my $key = 'k' . int(rand(12));
	my @do = map { my $k = rand() < 0.6 ? $key : 'k' . int(rand(12)); sprintf "SELECT dc_incr('likes', '%s', %d);", $k, (rand() < 0.2 ? -1 : 1) * int(1 + rand(10)**(1 + rand(8))) } 1 .. 1 + rand(6);

	# forward by up to two half-lives or so, and sometimes back
	$at += int($half * (rand() < 0.1 ? -rand(3) : rand(2 * 85 / $steps)));
	$at = $begin + 55 * $half if $at > $begin + 55 * $half;
	push @do, "SELECT dc_apply(); UPDATE likes_shard SET updated_at = '2000-01-01 00:00:00+00'::timestamptz + $at * interval '1 microsecond';",
	  "INSERT INTO event SELECT key, sum(inc - dec), $at FROM likes_shard GROUP BY key;";
	push @do, 'SAVEPOINT s; SELECT dc_compact(\'likes\'); ROLLBACK TO s;' if rand() < 0.1;
	push @do, "SELECT dc_compact('likes'" . (rand() < 0.2 ? ', 2' : '') . ");", "SELECT dc_compact('likes');";
	push @do, "SELECT dc_delete('likes', '$key'); DELETE FROM event WHERE key = '$key';" if rand() < 0.03;
	my $end = rand() < 0.1 ? 'ROLLBACK' : rand() < 0.04 ? 'crash' : 'COMMIT';
	$session->run(join(' ', 'BEGIN;', @do));
	if ($end eq 'crash')
	{
		$quiet->stop('immediate');
		$quiet->start;
		$session = dc_session($quiet, 'postgres');
		$crashes++;
	}
	else
	{
		$session->run($end);
	}
	next if $step % 30 != 0;
	my $problems = wrong();
	is($problems, '', "step $step: weights are those of the events, relative 1e-9");
}
is(sql($quiet, 'postgres', q{SELECT count(*) FROM (SELECT key, sum(delta) FROM event GROUP BY key) AS e(key, n) WHERE dc_get('likes', key) <> n}), '0', 'and so are the values');
is(sql($quiet, 'postgres', 'SELECT count(*) FROM likes_trend WHERE epoch <> ' . int($now / $half / 512)), '0', 'all were moved to the epoch of now');
is(sql($quiet, 'postgres', q{SELECT count(*) FROM (SELECT score, lag(score) OVER (ORDER BY rank, key) AS before FROM dc_trending('likes', 100)) AS t WHERE score > before}), '0', 'scores are in order');
$session->quit;
$quiet->stop;

# ------------------------------------------------------------
# Under load: a score of nearly no decay is the number of increments
# ------------------------------------------------------------
sql($node, 'postgres', q{
	SELECT dc_create('load', trend => '3650 days'), dc_create('mem', mode => 'buffered', flush_interval => '50 ms', trend => '3650 days');
	CREATE VIEW off AS SELECT c, k, dc_get(c, k) AS value, t.score FROM (VALUES ('load'::regclass), ('mem')) AS c(c), generate_series(1, 8) AS n, LATERAL (SELECT 'k' || n) AS k(k)
		LEFT JOIN LATERAL (SELECT score FROM dc_trending(c, 100) WHERE key = k) AS t ON true
		WHERE abs(dc_get(c, k) - coalesce(t.score, 0)) > 0.3});
my $script = file_of('load.sql', q{
\set k random(1, 8)
\set d random(1, 3)
BEGIN;
SELECT dc_incr('load', 'k' || :k, :d);
SAVEPOINT s;
SELECT dc_incr('load', 'k' || (9 - :k), :d);
ROLLBACK TO s;
SELECT dc_incr('mem', 'k' || :k, :d);
END;
});
my $maintain = file_of('maintain.sql', q{SELECT dc_compact('load'); SELECT pg_sleep(0.02);});
my $vacuum = file_of('vacuum.sql', q{REINDEX TABLE load_trend; SELECT pg_sleep(0.2);});

# settled(NAME): all is compacted, and in the trend
sub settled
{
	my ($name) = @_;

	is(wait_for($node, 'postgres', q{SELECT count(*) FROM (SELECT FROM load_shard WHERE inc + dec <> 0 UNION ALL SELECT FROM mem_shard WHERE inc + dec <> 0) AS s, dc_flush('mem') AS f}, '0'), '0', "$name: all is compacted");
	is(wait_for($node, 'postgres', 'SELECT c, k, value, score FROM off', ''), '', "$name: each increment is in the trend once");
}

for my $round (1 .. torture(2, 20))
{
	my @jobs = map { start_command('pgbench', '-n', '-c', $_->[1], '-T', torture(2, 10), '-f', $_->[0], $node->connstr('postgres')) } [ $script, 6 ], [ $maintain, 1 ], [ $vacuum, 1 ];
	if ($round % 2 == 0)
	{
		sleep 1;
		$node->stop('immediate');
	}
	finish_job($_) foreach @jobs;
	$node->start if $round % 2 == 0;
	# of the buffered one a crash may take increments that the trend has not either
	settled($round % 2 == 0 ? "round $round, after a crash" : "round $round");
}

# ------------------------------------------------------------
# Locks: the worker passes the table over, and comes back
# ------------------------------------------------------------
my $holds = dc_session($node, 'postgres');
$holds->run(q{BEGIN; LOCK TABLE load_trend IN SHARE MODE});
my $locked = sql($node, 'postgres', q{SELECT dc_get('load', 'k1')});
sql($node, 'postgres', q{SELECT dc_incr('load', 'k1', 5)});
is(sql($node, 'postgres', q{SELECT dc_compact('load')}), '0', 'while the trend is locked, nothing is compacted');
is(sql($node, 'postgres', q{SELECT value FROM load WHERE key = 'k1'}), $locked, 'nor by the worker');
$holds->run('COMMIT');
settled('when it is not locked any more');
$holds->run(q{BEGIN; SELECT FROM load_trend WHERE key = 'k1' FOR UPDATE});
sql($node, 'postgres', q{SELECT dc_incr('load', 'k1', 5), dc_incr('load', 'k2', 5)});
is(wait_for($node, 'postgres', q{SELECT count(*) FROM load_shard WHERE key = 'k2' AND inc <> 0}, '0'), '0', 'a row that is locked keeps its key alone from being compacted');
is(sql($node, 'postgres', q{SELECT sum(inc) FROM load_shard WHERE key = 'k1'}), '5', 'that one waits');
$holds->run('COMMIT');
settled('when the row is not locked any more');
# Keys that are set all the time are counted as well
sql($node, 'postgres', q{SELECT dc_incr('load', 'set', 3), dc_set('load', 'set', 0)}) foreach 1 .. 5;
is(wait_for($node, 'postgres', q{SELECT round(score) FROM dc_trending('load', 100) WHERE key = 'set'}, '15'), '15', 'increments of a key that is set again and again');
$holds->quit;

# ------------------------------------------------------------
# A standby, and a dump
# ------------------------------------------------------------
my $before = sql($node, 'postgres', q{SELECT string_agg(key || round(score), ' ' ORDER BY rank, key) FROM dc_trending('load', 100)});

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(sql($standby, 'postgres', q{SELECT string_agg(key || round(score), ' ' ORDER BY rank, key) FROM dc_trending('load', 100)}), $before, 'a standby has the trend');
fails_with($standby, 'postgres', q{SELECT dc_alter('load', trend => '0')}, '25006', 'and cannot end it');
$standby->stop('immediate');
my $file = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $file, $node->connstr('postgres') ], 'dump');
sql($node, 'postgres', 'CREATE DATABASE restored TEMPLATE template0');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('restored'), $file ], 'restore');
is(sql($node, 'restored', q{SELECT string_agg(key || round(score), ' ' ORDER BY rank, key) FROM dc_trending('load', 100)}), $before, 'a dump has the trend');
is(sql($node, 'restored', q{SELECT dc_incr('load', 'k1', 1000000), dc_compact('load'); SELECT key FROM dc_trending('load', 1)}) =~ s/.*\n//sr, 'k1', 'and it goes on');
$node->stop;
done_testing();
