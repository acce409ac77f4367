# Budgets under load, with kill -9: whatever clients reserve, settle for less or more, release or forget, while grants grow, shrink and expire, the
# books of each key balance in each snapshot; what clients were told is there. Two-phase commit, a standby that is promoted, and a dump.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $rounds = torture(2, 1000);
my $node = dc_node('budgets', conf => [ "shared_preload_libraries = 'dcounter'", "dcounter.expire_interval = '50ms'", "dcounter.compact_interval = '100ms'",
		'max_prepared_transactions = 10', 'dcounter.hold_retention = 2' ], init => { allows_streaming => 1 });

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

# what is wrong: books that do not balance, a negative row, a settlement that a client was told and that is not there (those that have been
# removed are in a sum)
my $wrong = q{
	SELECT 'check: ' || c::text FROM dc_budget_check('b') AS c
	UNION ALL SELECT 'units: ' || s::text FROM b_pool_shard AS s WHERE units < 0
	UNION ALL SELECT format('told %s of %s, found %s', t.told, k, f.found) FROM unnest(ARRAY['t0', 't1', 't2']) AS k,
		LATERAL (SELECT sum(cost) AS told FROM told WHERE key = k) AS t,
		LATERAL (SELECT dc_get('b_pool', '+' || k) + coalesce(sum(s), 0) AS found FROM b_reservation, unnest(keys, settled) AS u (key, s) WHERE u.key = k) AS f WHERE f.found < t.told};

foreach my $round (1 .. $rounds)
{
	my @jobs = (start_command('pgbench', '-n', '-c', '5', '-T', '3600', '-f', $script, $node->connstr('postgres')),
		start_command('pgbench', '-n', '-c', '1', '-T', '3600', '-f', $prepared, $node->connstr('postgres')));

	foreach my $look (1 .. 3)
	{
		sleep(0.2);
		is(sql($node, 'postgres', "BEGIN ISOLATION LEVEL REPEATABLE READ; $wrong; COMMIT"), '', "round $round, look $look: the books balance");
	}
	$node->stop('immediate');
	foreach my $job (@jobs)
	{
		finish_job($job);
		unlike($job->{err}, qr/ERROR(?!.*(terminat|deadlock))/, "round $round: clients meet no error");
	}
	$node->start;
	is(sql($node, 'postgres', $wrong), '', "round $round: the books balance after a crash");
	sql($node, 'postgres', q{ROLLBACK PREPARED 'budget'}) if sql($node, 'postgres', 'SELECT count(*) FROM pg_prepared_xacts');
	is(sql($node, 'postgres', $wrong), '', "round $round: and without what was prepared");
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

# A standby reads, and goes on after promotion
$node->backup('budgets');
my $standby = PostgreSQL::Test::Cluster->new('budgets_standby');
$standby->init_from_backup($node, 'budgets', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is(sql($standby, 'postgres', $wrong), '', 'the books balance on a standby');
is(sql($standby, 'postgres', q{SELECT available FROM dc_budget('b', 'two')}), '6', 'which reads');
fails_with($standby, 'postgres', q{SELECT dc_reserve('b', 'two', 1, '00000000-0000-0000-0000-000000000003')}, '25006', 'and does not reserve');
$node->stop('immediate');
$standby->promote;
is(sql($standby, 'postgres', q{SELECT dc_reserve('b', 'two', 6, '00000000-0000-0000-0000-000000000003')}), '6', 'after promotion it does');
is(sql($standby, 'postgres', $wrong), '', 'and the books balance');

# The worker removes what ended long ago, and keeps its costs
sql($standby, 'postgres', q{SELECT dc_settle('b', '00000000-0000-0000-0000-000000000003', 5)});
is(wait_for($standby, 'postgres', q{SELECT count(*) FROM b_reservation WHERE state <> 'open'}, '0'), '0', 'reservations that have ended are removed');
is(sql($standby, 'postgres', q{SELECT dc_get('b_pool', '+two')}), '6', 'their costs are kept');
is(sql($standby, 'postgres', $wrong), '', 'and the books balance');

# A dump
my $dump = PostgreSQL::Test::Utils::tempdir . '/budgets.dump';
$standby->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $standby->connstr('postgres') ], 'dump');
sql($standby, 'postgres', 'CREATE DATABASE restored TEMPLATE template0');
$standby->command_ok([ 'pg_restore', '-d', $standby->connstr('restored'), $dump ], 'restore');
is(sql($standby, 'restored', 'SELECT * FROM dc_budget_check(\'b\')'), '', 'restored: the books balance');
is(sql($standby, 'restored', q{SELECT dc_grant('b', 'two', 20, 'h') > 0, dc_reserve('b', 'two', 11, '00000000-0000-0000-0000-000000000004')}), 't|11', 'restored: it goes on');

$standby->stop;
done_testing();
