# Members that fetch, acknowledge, nack and leave alone at random, while they stall beyond
# their lease, lose savepoints and transactions, are terminated, and the server is
# killed; the ring of partitions turns, and settings change. Each worker logs its work
# in the transaction that does it. In the end everything that was published
# is done once or is a dead letter, by each consumer; each key was worked on in order;
# and nothing is there that was not published.
#
# "strict" has members, and each follows the documentation: after a nack it leaves the
# key's later events alone, and acknowledges the events behind them. "plain" has no members
# and does all in one transaction. Dead letters of "mixed" are revived, and its on_nack
# changes all the time: only its order is free.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $rounds = torture(3, int(($ENV{DC_TORTURE} // 0) / 3) || 1);
my $seconds = torture(5, 20);
my $keys = 12;

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $schema = q{
	CREATE TABLE item (key text PRIMARY KEY, n bigint NOT NULL);
	INSERT INTO item SELECT 'k' || i, 0 FROM generate_series(1, KEYS) AS i;
	CREATE TABLE published (id uuid PRIMARY KEY, key text, n bigint);
	CREATE SEQUENCE clock;
	-- events that were handed out by one fetch have one n
	CREATE TABLE delivered (who text, me text, n bigint, seq bigint, id uuid, key text, attempt int);
	CREATE TABLE done (who text, me text, n bigint, seq bigint, id uuid);
	CREATE TABLE answer (who text, me text, n bigint, seq bigint, id uuid, answer text);
	CREATE TYPE batch AS (n int, seqs bigint[], keys text[], ids uuid[], waits bool);

	-- Some events of some keys fail most of the time, others now and then.
	CREATE FUNCTION fails(id uuid) RETURNS bool LANGUAGE sql AS $$
		SELECT random() < CASE WHEN hashtext(id::text) % 5 = 0 THEN 0.7 ELSE 0.05 END $$;

	CREATE FUNCTION take_batch(who text, me text) RETURNS batch LANGUAGE plpgsql AS $$
		DECLARE
			b batch;
			f bigint;
		BEGIN
			SELECT count(*), array_agg(seq ORDER BY o), array_agg(key ORDER BY o), array_agg(id ORDER BY o) INTO b.n, b.seqs, b.keys, b.ids
			FROM dc_fetch(who, 1 + (random() * random() * 60)::int, '50 ms', me)
				WITH ORDINALITY AS e(seq, id, topic, key, type, payload, headers, created_at, attempt, o);
			f := nextval('clock'); -- what has ended before has a lower one
			b.waits := on_nack = 'wait' FROM dcounter.consumer WHERE name = who;
			INSERT INTO delivered SELECT who, me, f, s, i, k FROM unnest(b.seqs, b.ids, b.keys) AS u(s, i, k);
			RETURN b;
		END $$;

	-- Works on some events of a batch; what has been nacked is in `held`. NULL: the lease is lost
	CREATE FUNCTION process(who text, me text, b batch, low int, high int, held text[]) RETURNS text[] LANGUAGE plpgsql AS $$
		DECLARE
			worked int[] := '{}';
			said text;
		BEGIN
			FOR i IN low .. high LOOP
				CONTINUE WHEN b.waits AND b.keys[i] = ANY (held);
				IF random() < 0.05 THEN
					BEGIN
						PERFORM dc_nack(who, b.seqs[i], '0', 'undone', me);
						RAISE EXCEPTION 'undone';
					EXCEPTION WHEN raise_exception THEN
						NULL;
					END;
				END IF;
				IF fails(b.ids[i]) THEN
					said := dc_nack(who, b.seqs[i], random() * interval '60 ms', 'no', me);
					INSERT INTO answer VALUES (who, me, nextval('clock'), b.seqs[i], b.ids[i], said);
					held := held || b.keys[i];
				ELSE
					worked := worked || i;
				END IF;
				IF random() < 0.1 THEN
					PERFORM dc_ack(who, b.seqs[i], me);
					INSERT INTO done SELECT who, me, nextval('clock'), b.seqs[w], b.ids[w] FROM unnest(worked) WITH ORDINALITY AS u(w, o) ORDER BY o;
					worked := '{}';
				END IF;
			END LOOP;
			IF high >= low AND random() < 0.85 THEN
				PERFORM dc_ack(who, b.seqs[high], me);
				INSERT INTO done SELECT who, me, nextval('clock'), b.seqs[w], b.ids[w] FROM unnest(worked) WITH ORDINALITY AS u(w, o) ORDER BY o;
			ELSIF worked <> '{}' THEN
				RETURN NULL; -- these are not acknowledged: what follows must not be
			END IF;
			RETURN held;
		EXCEPTION WHEN object_not_in_prerequisite_state THEN
			RETURN NULL;
		END $$;

	-- A member: one transaction a batch, or two, or three.
	CREATE PROCEDURE work(who text, me text, seed float8, seconds float8) LANGUAGE plpgsql AS $$
		DECLARE
			b batch;
			held text[];
			middle int;
			until timestamptz := clock_timestamp() + seconds * interval '1 s';
		BEGIN
			PERFORM setseed(seed);
			WHILE clock_timestamp() < until LOOP
				b := take_batch(who, me);
				IF b.n = 0 THEN
					COMMIT;
					CONTINUE;
				END IF;
				IF me IS NOT NULL AND random() < 0.6 THEN
					COMMIT;
					IF random() < 0.04 THEN
						PERFORM pg_sleep(0.5);
					END IF;
				END IF;
				middle := (random() * b.n)::int;
				held := process(who, me, b, 1, middle, '{}');
				IF me IS NOT NULL AND random() < 0.3 THEN
					COMMIT;
				END IF;
				IF held IS NOT NULL AND random() < 0.9 THEN
					held := process(who, me, b, middle + 1, b.n, held);
				END IF;
				IF random() < 0.9 THEN
					COMMIT;
				ELSE
					ROLLBACK;
				END IF;
			END LOOP;
		END $$;

	-- One batch in one transaction, to be prepared
	CREATE FUNCTION at_once(who text, me text) RETURNS int LANGUAGE plpgsql AS $$
		DECLARE
			b batch := take_batch(who, me);
		BEGIN
			PERFORM process(who, me, b, 1, b.n, '{}');
			RETURN b.n;
		END $$;

	CREATE PROCEDURE write(seed float8, seconds float8) LANGUAGE plpgsql AS $$
		DECLARE
			item record;
			until timestamptz := clock_timestamp() + seconds * interval '1 s';
		BEGIN
			PERFORM setseed(seed);
			WHILE clock_timestamp() < until LOOP
				FOR item IN UPDATE item AS i SET n = i.n + 1 FROM (SELECT key FROM item WHERE random() < 0.2 ORDER BY key FOR UPDATE) AS chosen
					WHERE i.key = chosen.key RETURNING i.key, i.n LOOP
					BEGIN
						INSERT INTO published SELECT dc_publish('item', item.key, 'e' || item.n, NULL), item.key, item.n;
						IF random() < 0.1 THEN
							RAISE EXCEPTION 'undone';
						END IF;
					EXCEPTION WHEN raise_exception THEN
						NULL;
					END;
				END LOOP;
				IF random() < 0.9 THEN
					COMMIT;
				ELSE
					ROLLBACK;
				END IF;
				PERFORM pg_sleep(random() * 0.03);
			END LOOP;
		END $$;

	-- Who changes the settings, and looks
	CREATE PROCEDURE operate(seed float8, seconds float8) LANGUAGE plpgsql AS $$
		DECLARE
			until timestamptz := clock_timestamp() + seconds * interval '1 s';
		BEGIN
			PERFORM setseed(seed);
			WHILE clock_timestamp() < until LOOP
				PERFORM dc_consumer_alter(who, max_attempts => 1 + (random() * 3)::int) FROM unnest('{strict,plain,mixed}'::text[]) AS who;
				COMMIT;
				PERFORM dc_consumer_alter('mixed', on_nack => CASE WHEN random() < 0.5 THEN 'wait' ELSE 'skip' END);
				COMMIT;
				PERFORM dc_dead_letter_retry('mixed');
				COMMIT;
				PERFORM count(*) FROM dc_stat_consumers;
				COMMIT;
				PERFORM pg_sleep(random() * 0.3);
			END LOOP;
		END $$;

	-- To the end, without faults; 'done' when nothing is left
	CREATE PROCEDURE finish(who text, me text, INOUT state text DEFAULT NULL) LANGUAGE plpgsql AS $$
		DECLARE
			b batch;
			until timestamptz := clock_timestamp() + interval 'LIMIT s';
		BEGIN
			WHILE clock_timestamp() < until LOOP
				b := take_batch(who, me);
				IF b.n > 0 THEN
					PERFORM dc_ack(who, b.seqs[b.n], me);
					INSERT INTO done SELECT who, me, nextval('clock'), s, i FROM unnest(b.seqs, b.ids) WITH ORDINALITY AS u(s, i, o) ORDER BY o;
				END IF;
				COMMIT;
				state := format('%s events, %s retries', lag_events, retries) FROM dc_stat_consumers WHERE name = who;
				IF b.n = 0 AND state = '0 events, 0 retries' THEN
					state := 'done';
					RETURN;
				END IF;
			END LOOP;
		END $$;

	-- What is wrong
	CREATE FUNCTION wrong(c text) RETURNS SETOF text LANGUAGE sql AS $$
		WITH ended AS MATERIALIZED (
			SELECT id, n, 'done' AS how FROM done WHERE who = c
			UNION ALL SELECT l.id, (SELECT max(n) FROM answer AS a WHERE a.who = c AND a.id = l.id AND answer = 'dead'), 'dead' FROM dc_dead_letters AS l WHERE consumer = c
		), ends AS MATERIALIZED (
			SELECT id, count(*) AS times, min(n) AS n, min(how) AS how FROM ended GROUP BY id
		), ordered AS MATERIALIZED (
			SELECT id, p.key, p.n AS place, e.n, e.how, max(e.n) OVER (key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before,
				lag(id) OVER key AS previous, lag(e.n) OVER key AS previous_n
			FROM published AS p JOIN ends AS e USING (id) WINDOW key AS (PARTITION BY p.key ORDER BY p.n)
		), got AS MATERIALIZED (
			SELECT id, n FROM delivered WHERE who = c
		), bad AS (
			SELECT format('lost: %s %s', key, p.n) AS what FROM published AS p LEFT JOIN ends AS e USING (id) WHERE e.id IS NULL
			UNION ALL SELECT format('invented: %s', id) FROM ends LEFT JOIN published AS p USING (id) WHERE p.id IS NULL
			UNION ALL SELECT format('ended %s times: %s %s', times, key, p.n) FROM ends JOIN published AS p USING (id) WHERE times > 1
			UNION ALL SELECT format('dead without having been told: %s %s', key, p.n) FROM ended AS e JOIN published AS p USING (id) WHERE e.n IS NULL
			UNION ALL SELECT format('told to be dead, and it is not: %s', id) FROM answer AS a WHERE c <> 'mixed' AND who = c AND answer = 'dead'
				AND NOT EXISTS (SELECT FROM ended AS e WHERE e.id = a.id AND how = 'dead')
			UNION ALL SELECT format('out of order: %s %s', key, place) FROM ordered WHERE c <> 'mixed' AND n < before
				AND how = 'done' -- a reader that gives up an event may not have acknowledged yet what it has done before
			UNION ALL SELECT format('handed out before the one before it has ended: %s %s', key, o.place) FROM ordered AS o JOIN got AS d USING (id)
			WHERE c <> 'mixed' AND o.previous_n > d.n AND NOT EXISTS (SELECT FROM got AS same WHERE same.id = o.previous AND same.n = d.n)
		)
		SELECT what FROM bad LIMIT 10
	$$;

	SELECT dc_consumer_create(who), dc_consumer_alter(who, lease => '300 ms', max_attempts => 3) FROM unnest('{strict,plain,mixed}'::text[]) AS who;
} =~ s/KEYS/$keys/r =~ s/LIMIT/$PostgreSQL::Test::Utils::timeout_default/r;

# Concurrent clients: one that fails is started again, members under their names
my @places = ((map { [ 'strict', "m$_" ] } 1 .. 4), (map { [ 'mixed', "m$_" ] } 1 .. 3), (map { ['plain'] } 1 .. 2));

sub call
{
	my ($node, $sql) = @_;

	return start_command('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'),
		'-c', "SET application_name = 'random'", '-c', $sql);
}

sub start_place
{
	my ($node, $place, $left) = @_;
	my $random = rand();

	return call($node, "CALL write($random, $left)") if $place eq 'write';
	return call($node, "CALL operate($random, $left)") if $place eq 'operate';
	my ($who, $me) = @$place;
	return call($node, sprintf("CALL work('$who', %s, $random, $left)", defined $me ? "'$me'" : 'NULL'));
}

# A member whose transactions are prepared, and decided upon later
my $prepares = file_of('prepares.sql', "SET application_name = 'random';\n" . join('', map {
	my $end = rand() < 0.7 ? 'COMMIT' : 'ROLLBACK';

	"BEGIN;\nSELECT at_once('strict', 'p');\nPREPARE TRANSACTION 'p$_';\nSELECT pg_sleep(random() * 0.1);\n$end PREPARED 'p$_';\n"
} 1 .. 2000));

# ended(JOB): what must not be among its errors. libpq prints what ends a session right after it was let in as a notice, without
# its code.
sub ended
{
	my ($job) = @_;

	finish_job($job);
	return join('', map { "$_\n" } grep { /ERROR|FATAL|PANIC/ && !/ERROR:  55000:|FATAL:  57P0[123]:|psql: error:|FATAL:  the database system|FATAL:  terminating connection due to (?:unexpected postmaster exit|administrator command)/ } split(/\n/, $job->{err}));
}

# decide(NODE, WHERE): ends prepared transactions that nobody else will end
sub decide
{
	my ($node, $where) = @_;

	answer($node, 'postgres', (rand() < 0.5 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$_'") foreach split /\n/, answer($node, 'postgres', "SELECT gid FROM pg_prepared_xacts $where");
	return;
}

# one_round(NODE, NAME): everybody at once, and faults; in the end one that stops the server
sub one_round
{
	my ($node, $name) = @_;
	my @everybody = (@places, ('write') x 3, 'operate');
	my @jobs = map { start_place($node, $_, $seconds) } @everybody;
	my $prepare = start_job($node, 'postgres', $prepares);
	my ($bad, $faults) = ('', 0);

	# The time begins when they are at work: on a slow machine it may take as long to start them.
	wait_for($node, 'postgres', q{SELECT count(*) > 5 FROM pg_stat_activity WHERE application_name = 'random'}, 't', 30);
	my $end = time + $seconds;
	while (time < $end)
	{
		sleep(0.1);
		if (!$faults || rand() < 0.3)
		{
			$faults += answer($node, 'postgres', q{SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
				WHERE application_name = 'random' ORDER BY random() LIMIT 1) AS u}) || 0;
		}
		answer($node, 'postgres', 'CALL dc_maintain()') if rand() < 0.2;
		decide($node, q{WHERE prepared < clock_timestamp() - interval '200 ms'}) if rand() < 0.2;
		foreach my $i (grep { !$jobs[$_]{run}->pumpable } 0 .. $#jobs)
		{
			$bad .= ended($jobs[$i]);
			$jobs[$i] = start_place($node, $everybody[$i], $end - time) if $end > time;
		}
	}
	my $how = int(rand(4));
	my $victim = $how == 1 ? sql($node, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'random' ORDER BY random() LIMIT 1}) : '';
	$how = 0 if $how == 1 && $victim eq '';    # all have ended, or were terminated
	if ($how == 0)
	{
		$node->kill9;
	}
	elsif ($how == 1)
	{
		kill 9, $victim;
	}
	else
	{
		$node->stop($how == 2 ? 'immediate' : 'fast');
	}
	finish_job($prepare);
	$bad .= ended($_) foreach @jobs;
	is($bad, '', "$name: no error that must not be");
	cmp_ok($faults, '>', 0, "$name: $faults were terminated, then " . ('the server was killed', 'a backend was killed', 'an immediate stop', 'a fast stop')[$how]);
	restart_after_kill9($node) if $how == 0;
	$node->start if $how > 1;
	wait_for($node, 'postgres', 'SELECT NOT pg_is_in_recovery()', 't') eq 't' or die 'no recovery';
	decide($node, '');
	return;
}

# compare(NODE, NAME): comes to the end of all events, and compares
sub compare
{
	my ($node, $name) = @_;

	is(sql($node, 'postgres', "CALL finish('$_->[0]', $_->[1])"), 'done', "$name: $_->[0] comes to the end") foreach [ 'strict', "'m1'" ], [ 'plain', 'NULL' ], [ 'mixed', "'m2'" ];
	is(sql($node, 'postgres', "SELECT * FROM wrong('$_')"), '', "$name: what $_ has got") foreach 'strict', 'plain', 'mixed';
	note("$name: " . sql($node, 'postgres', q{SELECT format('%s published, %s deliveries, %s done, %s refused, of which %s dead', (SELECT count(*) FROM published),
		(SELECT count(*) FROM delivered), (SELECT count(*) FROM done), count(*), count(*) FILTER (WHERE answer = 'dead')) FROM answer}));
	return;
}

foreach my $preload (0, 1)
{
	my $name = $preload ? 'preload' : 'plain';
	my $node = dc_node("random_$name", conf => [ 'restart_after_crash = on', 'dcounter.outbox_rotate_age = 1s', 'dcounter.outbox_keep = 0', 'deadlock_timeout = 100ms',
		$preload ? ("shared_preload_libraries = 'dcounter'", 'dcounter.outbox_interval = 300ms') : () ]);

	sql($node, 'postgres', $schema);
	# Without a worker partitions are emptied by dc_maintain() alone, and how often that is called in a round depends
	# on the machine; by the second call after all consumers have come to the end it has happened. So there may be further rounds.
	my ($least, $most) = $preload ? ($rounds, $rounds + 3) : (int($rounds / 3) || 1, $rounds + 3);
	my $turned = 0;
	foreach my $round (1 .. $most)
	{
		one_round($node, "$name round $round");
		compare($node, "$name round $round");
		$turned ||= sql($node, 'postgres', 'SELECT (SELECT count(*) FROM published) > (SELECT events FROM dc_stat_outbox)') eq 't';
		last if $turned && $round >= $least;
	}
	cmp_ok(sql($node, 'postgres', q{SELECT count(*) FILTER (WHERE answer = 'dead') FROM answer WHERE who <> 'mixed'}), '>', 20, "$name: there were dead letters");
	is($turned, 1, "$name: the ring has turned");
	$node->stop;
}
done_testing();
