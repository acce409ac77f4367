# Windowed counters against a log of all that was counted, in every snapshot: at the edges of buckets, late, in the future,
# in savepoints, while a worker rolls up and empties tables all the time. Clients count, and note what was counted in the same
# transaction; others compare in one snapshot each, old ones too. A snapshot that cannot be answered is a serialization
# failure, which pgbench retries.
use strict;
use warnings;

use DcTest;
use DcWorker 'step_failures';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{DC_TORTURE} ? 120 : 12;
my $node = dc_node('window', conf => [ q{shared_preload_libraries = 'dcounter'}, 'autovacuum_naptime = 1s', 'max_prepared_transactions = 10',
		"dcounter.compact_interval = '50ms'", "dcounter.window_interval = '50ms'" ]);

sql($node, 'postgres', q{
	-- all is kept in the end; and what is older than 40 s goes
	SELECT dc_window_create('kept', '1 s', '6 s', '{"3 s": "15 s", "6 s": "1 day"}', 'drop');
	SELECT dc_window_create('short', '1 s', '6 s', '{"3 s": "40 s"}', 'drop');
	-- the same as the first, but the time that it takes for now is ahead again and again
	SELECT dc_window_create('ahead', '1 s', '6 s', '{"3 s": "15 s", "6 s": "1 day"}', 'drop');
	CREATE TABLE log (w text, key text, at timestamptz, n bigint);
	CREATE FUNCTION put(w text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		k text := 'k' || (random() * 5)::int;
		t timestamptz := clock_timestamp() - random() ^ 4 * interval '20 s' + (random() < 0.1)::int * interval '900 ms';
		n bigint := (random() * 9)::int - 3;
	BEGIN
		IF random() < 0.3 THEN -- at an edge
			t := date_trunc('second', t) - (random() < 0.5)::int * interval '1 us';
		END IF;
		IF dc_incr_at(w::regclass, k, n, t) THEN
			INSERT INTO log VALUES (w, k, t, n);
		END IF;
	END $$;
	-- in one snapshot: the sum, its bounds, the buckets and plain SQL are what the log says
	CREATE FUNCTION look(w text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		since timestamptz := '2000-01-03 UTC'::timestamptz + floor(extract(epoch FROM now() - random() * interval '24 s' - '2000-01-03 UTC'::timestamptz) / 6) * interval '6 s';
		k text := 'k' || (random() * 5)::int;
		logged bigint := (SELECT coalesce(sum(n), 0) FROM log AS l WHERE l.w = look.w AND l.key = k AND l.at >= since);
		span record := dc_window(w::regclass, k, now() + interval '1 hour' - since, now() + interval '1 hour');
		buckets bigint := (SELECT coalesce(sum(value), 0) FROM dc_buckets(w::regclass, k, since, now() + interval '1 hour'));
	BEGIN
		IF span.value <> logged OR span.lower <> logged OR span.upper <> logged OR buckets <> logged THEN
			RAISE 'WRONG: % % since %: log %, window %, buckets %', w, k, since, logged, span, buckets;
		END IF;
	END $$;
	CREATE FUNCTION look_at_all() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		wrong text;
	BEGIN
		SELECT string_agg(format('%s %s: log %s, window %s', w, key, n, value), '; ') INTO wrong
			FROM (SELECT w, key, sum(n) AS n FROM log WHERE w <> 'short' GROUP BY w, key) AS l, dc_window(w::regclass, l.key, '1 day', now() + interval '1 hour') WHERE value <> n;
		IF wrong IS NOT NULL THEN
			RAISE 'WRONG: %', wrong;
		END IF;
	END $$;
	CREATE FUNCTION look_by_sql() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		counted bigint;
		logged bigint;
	BEGIN
		SELECT (SELECT coalesce(sum(value), 0) FROM (TABLE kept UNION ALL TABLE ahead) AS v), (SELECT coalesce(sum(n), 0) FROM log WHERE w <> 'short') INTO counted, logged;
		IF counted <> logged THEN
			RAISE 'WRONG: plain SQL shows %, log %', counted, logged;
		END IF;
	END $$;});

my @writers = (
	q{SELECT put('kept'); SELECT put('short'); SELECT put('ahead');},
	q{BEGIN; SELECT put('kept'), put('short'); SAVEPOINT s; SELECT put('kept'); ROLLBACK TO s; SELECT put('kept'), put('ahead'); COMMIT;},
	q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT put('kept'); SELECT put('short'), put('ahead'); SELECT look('kept'), look('short'), look('ahead'); COMMIT;},
	q{BEGIN; SELECT put('kept'); SELECT put('short'); ROLLBACK;});
my @readers = (
	q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT look('kept'), look('short'), look('ahead'); SELECT look_at_all(); COMMIT;},
	q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; SELECT pg_sleep(random() * 2); SELECT look('short'), look('kept'), look('ahead'); SELECT look_by_sql(); SELECT pg_sleep(random()); SELECT look('kept'), look_at_all(); COMMIT;},
	q{BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT look('kept'); SELECT look_at_all(); COMMIT;},
	q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT look_at_all(); COMMIT; SELECT look_by_sql();});

sub start
{
	my ($name, $clients, $length, @scripts) = @_;
	my $n = 0;

	return start_command('pgbench', '-n', '-c', $clients, @$length, '--max-tries', '1000',
		(map { ('-f', file_of("$name" . $n++, "$_\n")) } @scripts), $node->connstr('postgres'));
}

# The worker goes on emptying tables, so one look may have to be tried again, too.
sub all_is_there
{
	my ($name) = @_;
	my $job = start('once', 1, [ '-t', 1 ], q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT look_at_all(); SELECT look_by_sql(); COMMIT;});

	is(finish_job($job), 0, $name) or diag($job->{err});
}

# A clock that is ahead: floors rise, rows are rolled up early; then the floors are lowered again
my @movers = (q{SELECT dc_window_rotate('ahead', now() + random() * interval '30 s'); SELECT pg_sleep(random() * 0.2); SELECT dc_window_reopen('ahead'); SELECT pg_sleep(random() * 0.5);},
	q{BEGIN; SELECT dc_window_rotate('ahead', now() + interval '20 s'); SELECT dc_window_reopen('ahead'), put('ahead'); COMMIT; SELECT pg_sleep(random() * 0.5);});

my @jobs = (start('writer', 4, [ '-T', $seconds ], @writers), start('reader', 3, [ '-T', $seconds ], @readers), start('mover', 1, [ '-T', $seconds ], @movers));
foreach my $job (@jobs)
{
	finish_job($job);
	unlike($job->{err}, qr/WRONG|ERROR/, 'nothing is lost, nor counted twice, in any snapshot') or diag(substr($job->{err}, 0, 2000));
	like($job->{out}, qr/number of transactions actually processed: [1-9]/, 'and they were at work');
}
all_is_there('nor in the end');
sql($node, 'postgres', q{SELECT dc_window_reopen('ahead')});
is(sql($node, 'postgres', q{SELECT floors[1] <= (extract(epoch FROM now() - '2000-01-01 UTC') + 8) * 1000000 FROM dcounter.time_window WHERE windowed = 'ahead'::regclass}), 't', 'floors that were ahead are not any more');
is(wait_for($node, 'postgres', q{SELECT count(*) FROM dcounter.window_claim AS c JOIN dcounter.time_window AS w USING (windowed)
	WHERE level = 0 AND (turn + 1) * w.spans[1] * w.widths[1] + 2 * 86400000000 <= w.floors[1]}, '0'), '0', 'all slots whose time is up are emptied');
is(step_failures($node, 'windows'), '', 'the worker has met no error');
all_is_there('and nothing was lost with them');

# ------------------------------------------------------------
# Prepared transactions: sealing waits for them, and moves pass them over
# ------------------------------------------------------------
sql($node, 'postgres', q{SELECT dc_window_create('prep', '1 minute', '1 day', '{"1 hour": "90 days"}');
	SELECT dc_incr_at('prep', 'a', 1, now() - interval '5 hours')});
sql($node, 'postgres', q{BEGIN; SELECT dc_incr_at('prep', 'a', 10, now() - interval '5 hours'); PREPARE TRANSACTION 'p'});
my $seal = dc_session($node, 'postgres');
$seal->send(q{CALL dc_seal('prep', now() - interval '1 hour')});
is(wait_for($node, 'postgres', q{SELECT sealed IS NULL AND refuses IS NOT NULL FROM dc_windows WHERE windowed = 'prep'::regclass}, 't'), 't', 'dc_seal() refuses at once');
sql($node, 'postgres', q{SELECT dc_window_rotate('prep', now() + interval '3 days')});
is(sql($node, 'postgres', q{SELECT upper FROM dc_window('prep', 'a', '1 day')}), '1', 'what is prepared does not count yet');
is(sql($node, 'postgres', q{SELECT sealed IS NULL FROM dc_windows WHERE windowed = 'prep'::regclass}), 't', 'and is waited for');
sql($node, 'postgres', q{COMMIT PREPARED 'p'});
is(wait_for($node, 'postgres', q{SELECT sealed IS NOT NULL FROM dc_windows WHERE windowed = 'prep'::regclass}, 't'), 't', 'then it is sealed');
is(sql($node, 'postgres', q{SELECT upper FROM dc_window('prep', 'a', '1 day')}), '11', 'with that');
is(wait_for($node, 'postgres', q{SELECT count(*) FROM dcounter.window_claim WHERE windowed = 'prep'::regclass AND level = 0}, '0'), '0', 'and it is moved as well');
is(sql($node, 'postgres', q{SELECT upper FROM dc_window('prep', 'a', '1 day')}), '11', 'once');
$seal->quit;

$node->stop;
done_testing();
