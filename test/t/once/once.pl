# Increments that count once, where sessions, restarts and copies of the database are
# in the way: storms of replayed ops while the ring of partitions turns, and
# through crashes; buffered tables; the worker's job; prepared transactions; dump
# and restore; a standby.
use strict;
use warnings;

use DcTest;
use DcWorker 'step_failures';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $clients = torture(6, 16);
my $rounds = torture(3, 60);
my $ops = torture(300, 2000);
my $crashes = torture(3, 40);

my $seed = $ENV{DC_SEED} // int(rand(1e9));
note("seed $seed (set DC_SEED to repeat)");

# Every session brings the ops of a round in an order of its own, and remembers which of them were
# reported as new; sometimes it rolls back.
my $helpers = q{
	CREATE TABLE acked (op text, new boolean);
	CREATE PROCEDURE storm(c regclass, round text, n int, seed float, fickle boolean) LANGUAGE plpgsql AS $$
	DECLARE
		i int; new bool;
	BEGIN
		PERFORM setseed(seed);
		FOR i IN SELECT g FROM generate_series(1, n) AS g ORDER BY random() LOOP
			new := dc_incr_once(c, 'k' || i % 7, i, round || '-' || i);
			IF fickle AND random() < 0.2 THEN
				ROLLBACK;
			ELSE
				INSERT INTO acked VALUES (round || '-' || i, new);
				COMMIT;
			END IF;
		END LOOP;
	END $$;
	CREATE FUNCTION states(c regclass) RETURNS text LANGUAGE sql AS $$
		SELECT string_agg(state, ' ' ORDER BY slot) FROM dcounter.op_slot WHERE counter = c $$;
	-- Makes it time to open the next partition, or to forget what is in closed ones
	CREATE PROCEDURE age(c regclass, forget boolean) LANGUAGE sql AS $$
		UPDATE dcounter.op_slot SET since = since - interval '4 days' WHERE counter = c AND state = 'open';
		UPDATE dcounter.op_slot SET closed_at = closed_at - interval '8 days' WHERE counter = c AND state = 'closed' AND forget;
	$$;};

# storm(NODE, COUNTER, ROUND, FICKLE): scripts of all sessions
sub storm
{
	my ($node, $counter, $round, $fickle) = @_;

	return map {
		my $x = ($seed % 1000 + $_ * 7 + $round) / 100000;
		start_job($node, 'postgres', file_of("storm$round-$_.sql",
			"CALL storm('$counter', 'r$round', $ops, $x, $fickle);"))
	} 1 .. $clients;
}

# Ops while partitions are opened, closed and emptied
sub turning_ring
{
	my ($node) = @_;
	my ($failed, $turns) = (0, 0);
	my $expected = 0;

	sql($node, 'postgres', q{SELECT dc_create('ring')});
	foreach my $round (1 .. $rounds)
	{
		my @jobs = storm($node, 'ring', $round, 'true');

		# three times at most: what is brought again must not be forgotten
		foreach (1 .. 3)
		{
			my $before = sql($node, 'postgres', q{SELECT states('ring')});

			sql($node, 'postgres', q{CALL age('ring', false)});
			sql($node, 'postgres', q{CALL dc_maintain()});
			$turns++ if sql($node, 'postgres', q{SELECT states('ring')}) ne $before;
			usleep(50_000);
		}
		$failed += finish_job($_) != 0 foreach @jobs;
		note(grep { $_ } map { $_->{err} } @jobs) if $failed;
		# those that all sessions have changed their mind about
		sql($node, 'postgres', qq{CALL storm('ring', 'r$round', $ops, 0, false)});
		$expected += $ops * ($ops + 1) / 2;
		sql($node, 'postgres', q{CALL age('ring', true)});
		sql($node, 'postgres', q{CALL dc_maintain()});
	}
	is($failed, 0, 'turning ring: no session failed');
	cmp_ok($turns, '>', 0, 'turning ring: it has turned under load');
	is(sql($node, 'postgres', q{SELECT dc_sum('ring')}), $expected, 'turning ring: each op counted once');
	is(sql($node, 'postgres', q{SELECT count(*) FROM acked WHERE new}), $rounds * $ops, 'turning ring: each op was new to one');
	is(sql($node, 'postgres', q{SELECT count(*) FROM (SELECT FROM acked WHERE new GROUP BY op HAVING count(*) > 1) AS twice}), 0, 'turning ring: and to one only');
}

# Each crash in the middle of a storm, which is brought again as a whole
sub crashes
{
	my ($node, $counter, $mode) = @_;
	my $expected = 0;
	my $lost = 0;

	sql($node, 'postgres', "TRUNCATE acked; SELECT dc_create('$counter', mode => '$mode')");
	sql($node, 'postgres', "SELECT dc_incr_once('$counter', 'k0', 0, 'first')");
	foreach my $round (101 .. 100 + $crashes)
	{
		my @jobs = storm($node, $counter, $round, 'false');

		usleep(50_000 + 1000 * ($seed % 97));
		$node->kill9;
		finish_job($_) foreach @jobs;
		restart_after_kill9($node);
		# a caller that was told so before can be sure
		$lost += sql($node, 'postgres', qq{
			SELECT count(*) FROM acked AS a, dc_op_status('$counter', a.op) AS s
			WHERE a.op LIKE 'r$round-%' AND NOT s.applied});
		@jobs = storm($node, $counter, $round, 'false');
		finish_job($_) foreach @jobs;
		$expected += $ops * ($ops + 1) / 2;
	}
	is($lost, 0, "$mode: no op is lost in a crash");
	is(sql($node, 'postgres', "SELECT dc_sum('$counter')"), $expected, "$mode: each op counted once");
}

# The worker turns the ring by itself, and keeps it while a transaction is prepared
sub worker
{
	my ($node) = @_;

	sql($node, 'postgres', q{
		SELECT dc_create('worked'); SELECT dc_incr_once('worked', 'a', 1, 'first');
		CALL age('worked', false);});
	is(wait_for($node, 'postgres', q{SELECT states('worked')}, 'closed open empty empty'), 'closed open empty empty', 'worker: turns the ring');
	sql($node, 'postgres', q{
		SELECT dc_incr_once('worked', 'a', 1, 'second');
		BEGIN; SELECT dc_incr_once('worked', 'a', 1, 'third'); PREPARE TRANSACTION 'third';
		CALL age('worked', false);});
	is(wait_for($node, 'postgres', q{SELECT states('worked')}, 'closed open opening empty'), 'closed open opening empty', 'worker: opens the next partition');
	$node->stop('immediate');
	$node->start;
	sql($node, 'postgres', q{CALL dc_maintain()});
	is(sql($node, 'postgres', q{SELECT states('worked')}), 'closed open opening empty', 'worker: waits for a prepared transaction, after a crash as well');
	my $session = dc_session($node, 'postgres');
	$session->send(q{SELECT dc_incr_once('worked', 'a', 1, 'third')});
	is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%third%' AND pid <> pg_backend_pid()}, 1), 1, 'worker: a duplicate waits for it');
	sql($node, 'postgres', q{COMMIT PREPARED 'third'});
	is($session->wait, 'f', 'worker: and is told that it is one');
	$session->quit;
	is(wait_for($node, 'postgres', q{SELECT states('worked')}, 'closed closed open empty'), 'closed closed open empty', 'worker: goes on when it has ended');
	sql($node, 'postgres', q{CALL age('worked', true)});
	is(wait_for($node, 'postgres', q{SELECT states('worked')}, 'empty empty open empty'), 'empty empty open empty', 'worker: empties what has expired');
	is(sql($node, 'postgres', q{SELECT string_agg(op_id, ' ') FROM worked_op}), '', 'worker: and its ops are gone');
	is(step_failures($node, 'ledger_ops'), '', 'worker: nothing has failed');
}

# A partition is altered while a session that knows it waits for its lock; and what is in
# progress is waited for, also where the table of ops was altered or is being made
sub altered
{
	my ($node) = @_;
	my $waits = q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'};
	my ($ddl, $writer) = (dc_session($node, 'postgres'), dc_session($node, 'postgres'));

	sql($node, 'postgres', q{SELECT dc_create('altered')});
	$ddl->run(q{BEGIN; SELECT dc_incr_once('altered', 'a', 1, 'first')});
	$writer->send(q{SELECT applied FROM dc_op_status('altered', 'first')});
	is(wait_for($node, 'postgres', $waits, 1), 1, 'altered: the status of the first op of all is waited for');
	$ddl->run(q{COMMIT});
	is($writer->wait, 't', 'altered: and it was applied');
	$writer->run(q{SELECT dc_incr_once('altered', 'a', 1, 'warm')});
	$ddl->run(q{BEGIN; LOCK TABLE altered_op_0});
	$writer->send(q{SELECT dc_incr_once('altered', 'late', 1, 'late')});
	is(wait_for($node, 'postgres', $waits, 1), 1, 'altered: a writer waits');
	$ddl->run(q{CREATE INDEX altered_key ON altered_op_0 (key); COMMIT});
	is($writer->wait, 't', 'altered: and goes on');
	is(sql($node, 'postgres', q{
		SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT count(*) FROM altered_op_0 WHERE key = 'late'}), 1, 'altered: the new index has the op');
	$ddl->run(q{BEGIN; SELECT dc_incr_once('altered', 'a', 1, 'open')});
	$writer->send(q{SELECT applied FROM dc_op_status('altered', 'open')});
	is(wait_for($node, 'postgres', $waits, 1), 1, 'altered: the status of an op in progress is waited for');
	$ddl->run(q{COMMIT});
	is($writer->wait, 't', 'altered: and it was applied, too');
	sql($node, 'postgres', q{
		CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER nothing BEFORE INSERT ON altered_op FOR EACH ROW EXECUTE FUNCTION nothing()});
	fails_with($node, 'postgres', q{SELECT dc_incr_once('altered', 'a', 1, 'never')}, '42809', 'altered: a trigger that could suppress a record is an error');
	$_->quit foreach $ddl, $writer;
}

# Another database gets all that is known, once or twice
sub dump_and_restore
{
	my ($node) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my @from = ('--no-sync', '-d', $node->connstr('postgres'));
	my $slots = q{SELECT string_agg(slot || state || partition || coalesce(closed_at, 'epoch') || coalesce(forgotten, 'epoch'), ' ' ORDER BY slot)
		FROM dcounter.op_slot WHERE counter = 'kept'::regclass};

	sql($node, 'postgres', q{
		SELECT dc_create('kept'); SELECT dc_incr_once('kept', 'a', 1, 'first');
		CALL age('kept', false);});
	sql($node, 'postgres', q{CALL dc_maintain()});
	wait_for($node, 'postgres', q{SELECT states('kept')}, 'closed open empty empty');
	sql($node, 'postgres', q{SELECT dc_incr_once('kept', 'a', 1, 'second')});
	command_ok([ 'pg_dump', @from, '-f', "$dir/all.sql" ], 'dump: all');
	command_ok([ 'pg_dump', @from, '--data-only', '-t', 'dcounter.op_slot', '-e', 'dcounter', '-f', "$dir/data.sql" ], 'dump: the states');
	sql($node, 'postgres', 'CREATE DATABASE copy');
	command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('copy'), '-f', "$dir/all.sql" ], 'dump: restored');
	is(sql($node, 'copy', $slots), sql($node, 'postgres', $slots), 'dump: the ring is the same');
	is(sql($node, 'copy', q{SELECT dc_incr_once('kept', 'a', 1, 'first'), dc_incr_once('kept', 'a', 1, 'second'), dc_incr_once('kept', 'a', 1, 'third'), dc_get('kept', 'a')}),
		'f|f|t|3', 'dump: ops are known in the copy');
	command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('copy'), '-f', "$dir/data.sql" ], 'dump: the states once more');
	is(sql($node, 'copy', $slots), sql($node, 'postgres', $slots), 'dump: the ring is still the same');
	sql($node, 'postgres', 'DROP DATABASE copy WITH (FORCE)');
}

# A standby reads
sub standby
{
	my ($node) = @_;
	my $standby = PostgreSQL::Test::Cluster->new('standby');

	$node->backup('base');
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	sql($node, 'postgres', q{
		SELECT dc_create('far'); SELECT dc_incr_once('far', 'a', 1, 'first');
		BEGIN; SELECT dc_incr_once('far', 'a', 1, 'second'); PREPARE TRANSACTION 'far';});
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	is(sql($standby, 'postgres', q{SELECT applied, key, delta FROM dc_op_status('far', 'first')}), 't|a|1', 'standby: what was applied');
	is(sql($standby, 'postgres', q{SELECT * FROM dc_op_status('far', 'second')}), 'f|||', 'standby: what is not committed, without waiting');
	is(sql($standby, 'postgres', q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT applied FROM dc_op_status('far', 'none'); COMMIT}), 'f', 'standby: what was not applied');
	fails_with($standby, 'postgres', q{SELECT dc_incr_once('far', 'a', 1, 'first')}, '25006', 'standby: nothing is written');
	sql($node, 'postgres', q{COMMIT PREPARED 'far'});
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	$standby->promote;
	is(sql($standby, 'postgres', q{SELECT dc_incr_once('far', 'a', 1, 'first'), dc_incr_once('far', 'a', 1, 'second'), dc_incr_once('far', 'a', 1, 'third'), dc_get('far', 'a')}),
		'f|f|t|3', 'standby: goes on when it is promoted');
	$standby->stop;
}

my $plain = dc_node('plain');
sql($plain, 'postgres', $helpers);
turning_ring($plain);
crashes($plain, 'exact', 'exact');
altered($plain);
$plain->stop;

my $node = dc_node('main', init => { allows_streaming => 1 },
	conf => [ "shared_preload_libraries = 'dcounter'", "dcounter.op_interval = '10ms'" ]);
sql($node, 'postgres', $helpers);
crashes($node, 'buffered', 'buffered');
worker($node);
dump_and_restore($node);
standby($node);
$node->stop;
done_testing();
