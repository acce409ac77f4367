# Budgets under load, with kill -9 of the server and of backends, and standbys that are promoted: whatever clients reserve, settle for less or more, release
# or forget, while grants grow, shrink and expire, and allowances are renewed, the books of each key balance in each snapshot; no grant has more units
# reserved than it has; what clients were told is there. Two-phase commit, a dump, and a snapshot that is held.
#
# make torture: a thousand crashes under 16 to 64 clients, and a hundred failovers (DC_BUDGET_CRASHES, DC_BUDGET_FAILOVERS).
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my ($rounds, $failovers) = (torture(3, $ENV{DC_BUDGET_CRASHES} // 1000), torture(1, $ENV{DC_BUDGET_FAILOVERS} // 100));
my $node = dc_node('budgets', conf => [ "shared_preload_libraries = 'dcounter'", "dcounter.expire_interval = '50ms'", "dcounter.compact_interval = '100ms'",
		'max_prepared_transactions = 10', 'dcounter.hold_retention = 2', 'max_connections = 100', 'restart_after_crash = on' ], init => { allows_streaming => 1 });

sql($node, 'postgres', $_) foreach q{SELECT dc_budget_create('b')}, q{
	CREATE TABLE told (id uuid PRIMARY KEY, key text, cost bigint);
	-- Reserves units of two keys; settles 0.02 to 2 times as much, sometimes 10 times, releases or forgets
	CREATE FUNCTION request(c int, n bigint) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		k text[] := ARRAY['t' || n % 3, 'u' || (c * 7 + n) % 5];
		a bigint := 1 + n % 50;
		id uuid := gen_random_uuid();
		got bigint[];
		costs bigint[];
	BEGIN
		IF n % 4 = 0 THEN
			PERFORM dc_grant('b', k[1], 40 * (1 + n % 60), 'g' || n % 6, CASE n % 6 WHEN 0 THEN 'infinity' ELSE clock_timestamp() + (n % 300) * interval '1 ms' END, (n % 2)::int);
		END IF;
		PERFORM dc_allowance('b', k[2], 100 + n % 2, '1 second');
		got := dc_reserve_all('b', k, ARRAY[a, a], id, CASE WHEN n % 5 = 0 THEN interval '10 ms' ELSE '1 hour' END, CASE WHEN n % 2 = 0 THEN ARRAY[1, 1] END);
		IF got IS NULL THEN
			RETURN 'refused';
		END IF;
		IF n % 9 = 0 THEN
			RETURN dc_release('b', id);
		ELSIF n % 10 = 0 THEN
			RETURN 'forgotten';
		END IF;
		costs := ARRAY[a * (1 + n % 100) / 50 * CASE WHEN n % 20 = 1 THEN 10 ELSE 1 END, a * (n % 7) / 4];
		INSERT INTO told VALUES (id, k[1], costs[1]);
		RETURN dc_settle('b', id, costs);
	END $$;
};

my $script = file_of('budgets.sql', q{
\set n random(1, 1000000)
SELECT request(:client_id, :n);
SELECT dc_grant('b', 't0', 200 * :n % 5000, 'top');
BEGIN;
SELECT request(:client_id, :n + 1);
SAVEPOINT s;
SELECT request(:client_id, :n + 2);
ROLLBACK TO s;
COMMIT;
SELECT count(dc_settle('b', reservation_id, amounts)) FROM (SELECT * FROM b_reservation WHERE state = 'expired' ORDER BY ended_at DESC LIMIT 1) AS r WHERE :n % 3 = 0;
});
my $prepared = file_of('budget_prepared.sql', q{
\set n random(1, 1000000)
BEGIN;
SELECT request(9, :n);
PREPARE TRANSACTION 'budget';
COMMIT PREPARED 'budget';
BEGIN;
SELECT request(9, :n + 1);
PREPARE TRANSACTION 'budget';
ROLLBACK PREPARED 'budget';
});

# what is wrong: books that do not balance; units that are negative, or not what their key has; a grant of which more is reserved than it has had; a
# settlement that a client was told and that is not there (those that have been removed are in a sum)
my $wrong = q{
	SELECT 'check: ' || c::text FROM dc_budget_check('b') AS c
	UNION ALL SELECT format('units of %s: %s, at least %s, value %s', s.key, s.units, s.least, v.value) FROM (SELECT key, sum(units) AS units, min(units) AS least FROM b_pool_shard GROUP BY key) AS s,
		LATERAL (SELECT dc_get('b_pool', s.key) AS value) AS v WHERE s.least < 0 OR s.units <> v.value
	UNION ALL SELECT format('grant %s: %s of %s reserved', g.grant_id, u.taken, g.amount - g.lapsed)
		FROM (SELECT l.grant_id, sum(l.taken) AS taken FROM b_reservation AS r, unnest(r.grants, r.taken) AS l (grant_id, taken) WHERE r.state = 'open' GROUP BY l.grant_id) AS u
		LEFT JOIN b AS g USING (grant_id) WHERE u.taken <= g.amount - g.lapsed IS NOT TRUE
	UNION ALL SELECT format('told %s of %s, found %s', t.told, k, f.found) FROM unnest(ARRAY['t0', 't1', 't2']) AS k,
		LATERAL (SELECT sum(cost) AS told FROM told WHERE key = k) AS t,
		LATERAL (SELECT dc_get('b_pool', '+' || k) + coalesce(sum(s), 0) AS found FROM b_reservation, unnest(keys, settled) AS u (key, s) WHERE u.key = k) AS f WHERE f.found < t.told};

# load(SERVER): clients that use it until it stops
sub load
{
	my ($server) = @_;
	my $clients = torture(5, 16 + int(rand(49)));

	# one that meets a deadlock tries again
	return (start_command('pgbench', '-n', '--max-tries=100', '-c', $clients, '-j', '2', '-T', '3600', '-f', $script, $server->connstr('postgres')),
		start_command('pgbench', '-n', '-c', '1', '-T', '3600', '-f', $prepared, $server->connstr('postgres')));
}

# ended(TITLE, JOB...): waits for them. They may have lost the connection, and nothing else
sub ended
{
	my ($title, @jobs) = @_;

	foreach my $job (@jobs)
	{
		finish_job($job);
		unlike($job->{err}, qr/ERROR(?!.*(terminat|deadlock))/, "$title: clients meet no error");
	}
	return;
}

# balances(SERVER, TITLE): after a crash, with and without what was prepared
sub balances
{
	my ($server, $title) = @_;

	is(sql($server, 'postgres', $wrong), '', "$title: the books balance");
	if (sql($server, 'postgres', 'SELECT count(*) FROM pg_prepared_xacts'))
	{
		sql($server, 'postgres', q{ROLLBACK PREPARED 'budget'});
		is(sql($server, 'postgres', $wrong), '', "$title: and without what was prepared");
	}
	return;
}

# The server stops at once; its postmaster is killed; or one of its backends is, at which the others end, and it starts again by itself
foreach my $round (1 .. $rounds)
{
	my @jobs = load($node);
	my $how = ('stopped at once', 'kill -9 of a backend', 'kill -9 of the server')[ $round % 3 ];

	foreach my $look (1 .. torture(2, 1))
	{
		sleep(torture(0.2, 0.1 + rand(0.6)));
		is(sql($node, 'postgres', "BEGIN ISOLATION LEVEL REPEATABLE READ; $wrong; COMMIT"), '', "round $round, look $look: the books balance");
	}
	if ($how =~ /backend/)
	{
		my $of_client = q{FROM pg_stat_activity WHERE query LIKE '%request(%' AND pid <> pg_backend_pid()};

		wait_for($node, 'postgres', "SELECT count(*) > 0 $of_client", 't');
		my $pid = sql($node, 'postgres', "SELECT pid $of_client ORDER BY random() LIMIT 1") || next;
		kill 'KILL', $pid;
		wait_for($node, 'postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", '0');
	}
	elsif ($how =~ /at once/)
	{
		$node->stop('immediate');
		$node->start;
	}
	else
	{
		$node->kill9;
		restart_after_kill9($node);
	}
	ended("round $round", @jobs);
	balances($node, "round $round, $how");
}
note(sql($node, 'postgres', q{SELECT string_agg(state || ' ' || n, ', ') FROM (SELECT state, count(*) AS n FROM b_reservation GROUP BY state) AS r}));
cmp_ok(sql($node, 'postgres', 'SELECT count(*) FROM told'), '>', 0, 'there was something to lose');

# A prepared reservation keeps its units, and nobody else knows it
sql($node, 'postgres', $_) foreach q{SELECT dc_grant('b', 'two', 10, 'g')}, q{BEGIN; SELECT dc_reserve('b', 'two', 7, '00000000-0000-0000-0000-000000000001'); PREPARE TRANSACTION 'two'};
is(sql($node, 'postgres', q{SELECT dc_reserve('b', 'two', 7, '00000000-0000-0000-0000-000000000002')}), '0', 'its units are taken');
$node->stop('immediate');
$node->start;
is(sql($node, 'postgres', q{SELECT dc_reserve('b', 'two', 3, '00000000-0000-0000-0000-000000000002')}), '3', 'the rest is not, after a crash');
fails_with($node, 'postgres', q{SELECT dc_settle('b', '00000000-0000-0000-0000-000000000001', 1)}, '42704', 'a prepared reservation is unknown');
sql($node, 'postgres', q{COMMIT PREPARED 'two'});
is(sql($node, 'postgres', q{SELECT dc_settle('b', '00000000-0000-0000-0000-000000000001', 1)}), 'settled', 'a committed one is known');

# A standby reads, and goes on when it is promoted, with clients at work
foreach my $n (1 .. $failovers)
{
	my $standby = PostgreSQL::Test::Cluster->new("budgets_standby_$n");

	$node->backup("budgets_$n");
	$standby->init_from_backup($node, "budgets_$n", has_streaming => 1);
	$standby->start;
	$node->wait_for_catchup($standby);
	is(sql($standby, 'postgres', $wrong), '', "failover $n: the books balance on a standby");
	is(sql($standby, 'postgres', q{SELECT available FROM dc_budget('b', 'two')}), '6', "failover $n: which reads");
	fails_with($standby, 'postgres', q{SELECT dc_reserve('b', 'two', 1, '00000000-0000-0000-0000-000000000003')}, '25006', "failover $n: and does not reserve");
	my @jobs = load($node);
	sleep(0.3);
	is(sql($standby, 'postgres', $wrong), '', "failover $n: the books balance while clients are at work");
	$node->stop('immediate');
	ended("failover $n", @jobs);
	$standby->promote;
	balances($standby, "failover $n, promoted");
	$node->clean_node;
	$node = $standby;
}
is(sql($node, 'postgres', q{SELECT dc_reserve('b', 'two', 6, '00000000-0000-0000-0000-000000000003')}), '6', 'after promotion it does');
is(sql($node, 'postgres', $wrong), '', 'and the books balance');

# The worker removes what ended long ago, and keeps its costs
sql($node, 'postgres', q{SELECT dc_settle('b', '00000000-0000-0000-0000-000000000003', 5)});
is(wait_for($node, 'postgres', q{SELECT count(*) FROM b_reservation WHERE state <> 'open'}, '0'), '0', 'reservations that have ended are removed');
is(sql($node, 'postgres', q{SELECT dc_get('b_pool', '+two')}), '6', 'their costs are kept');
is(sql($node, 'postgres', $wrong), '', 'and the books balance');

# A dump
my $dump = PostgreSQL::Test::Utils::tempdir . '/budgets.dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], 'dump');
sql($node, 'postgres', 'CREATE DATABASE restored TEMPLATE template0');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('restored'), $dump ], 'restore');
is(sql($node, 'restored', 'SELECT * FROM dc_budget_check(\'b\')'), '', 'restored: the books balance');
is(sql($node, 'restored', q{SELECT dc_grant('b', 'two', 20, 'h') > 0, dc_reserve('b', 'two', 11, '00000000-0000-0000-0000-000000000004')}), 't|11', 'restored: it goes on');

# Three grants, and many sessions at once that give nothing back: when a unit of a later grant is used, those of an earlier one are, to the last.
sql($node, 'postgres', q{SELECT dc_grant('b', 'drained', 1000, 'third', 'infinity', 3), dc_grant('b', 'drained', 1000, 'first', 'infinity', 1), dc_grant('b', 'drained', 1000, 'second', 'infinity', 2)});
my $drain = file_of('drain.sql', "SELECT dc_reserve('b', 'drained', 7, gen_random_uuid(), '1 day');\n");
foreach my $step ([ 14, '0,432,1000' ], [ 5, '0,0,872' ], [ 20, '0,0,4' ])
{
	my ($calls, $left) = @$step;

	$node->command_ok([ 'pgbench', '-n', '-c', '16', '-t', $calls, '-f', $drain, $node->connstr('postgres') ], 'sessions drain grants');
	is(sql($node, 'postgres', q{SELECT string_agg(dc_get('b_pool', grant_id)::text, ',' ORDER BY priority) FROM b WHERE key = 'drained'}), $left, 'in their order, and no more than there is');
}
is(sql($node, 'postgres', q{SELECT count(*), sum((SELECT sum(t) FROM unnest(taken) AS t)) FROM b_reservation WHERE keys = '{drained}'}), '428|2996', 'as the reservations say');

# While a snapshot is held no version of a row goes away, and calls do not look at more and more of them. The session that does it knows where its rows are.
sql($node, 'postgres', $_) foreach q{SELECT dc_grant('b', 'held', 1000000000, 'g')}, q{
	CREATE PROCEDURE spend(n int) LANGUAGE plpgsql AS $$
	DECLARE
		id uuid;
	BEGIN
		FOR i IN 1 .. n LOOP
			id := gen_random_uuid();
			PERFORM dc_reserve('b', 'held', 100, id);
			COMMIT;
			PERFORM dc_settle('b', id, 50);
			COMMIT;
		END LOOP;
	END $$;
	CREATE FUNCTION buffers() RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		id uuid;
		plan json;
		fewest bigint;
	BEGIN
		FOR i IN 1 .. 10 LOOP -- the first calls look at catalogs, too, and some at where the worker has just put the rows
			id := gen_random_uuid();
			EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT dc_reserve(''b'', ''held'', 100, %1$L), dc_settle(''b'', %1$L, 50), dc_apply()', id) INTO plan;
			fewest := least(fewest, (plan->0->'Plan'->>'Shared Hit Blocks')::bigint + (plan->0->'Plan'->>'Shared Read Blocks')::bigint);
		END LOOP;
		RETURN fewest;
	END $$};
my ($old, $session) = (dc_session($node, 'postgres'), dc_session($node, 'postgres'));
my @buffers;
$session->run('SET synchronous_commit = off');
$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM b');
foreach my $calls (2000, 6000)
{
	$session->run("CALL spend($calls)");
	push @buffers, $session->run('SELECT buffers()');
}
# A grant has some 64 rows, and each is looked at in a few pages; thousands if all their versions were
cmp_ok($buffers[1], '<', 8 * 64, "with a snapshot that is held a request has looked at $buffers[0] pages, and at $buffers[1] later");
$_->quit foreach $old, $session;

$node->stop;
done_testing();
