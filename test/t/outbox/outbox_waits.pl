# What delivery waits for, and what it does not: transactions that delay events, a commit in
# progress with a lower number, waiting readers, and how much a fetch reads with many events behind,
# under an old snapshot, and after a huge transaction.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $behind = torture(200_000, 2_000_000);
my $huge = torture(100_000, 1_000_000);
my $acks = torture(2000, 20_000);
my $retries = torture(300, 5000);

my $schema = q{
	CREATE TABLE other (i int);
	CREATE TABLE got (who text, n bigserial, topic text, key text);
	SELECT dc_consumer_create('c');

	-- What comes next, acknowledged at once
	CREATE FUNCTION take(who text, how_many int = 1000, how_long interval = '0') RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		last bigint; keys text;
	BEGIN
		SELECT max(seq), string_agg(coalesce(key, '-'), ' ') INTO last, keys FROM dc_fetch(who, how_many, how_long);
		IF last IS NOT NULL THEN
			PERFORM dc_ack(who, last);
		END IF;
		RETURN keys;
	END $$;
	CREATE FUNCTION collect(who text, how_many int) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		last bigint; n bigint;
	BEGIN
		WITH f AS MATERIALIZED (
			SELECT * FROM dc_fetch(collect.who, how_many)
		), i AS (
			INSERT INTO got (who, topic, key) SELECT collect.who, topic, key FROM f
		)
		SELECT max(seq), count(*) INTO last, n FROM f;
		PERFORM dc_ack(collect.who, last) WHERE n > 0;
		RETURN n;
	END $$;
	CREATE FUNCTION publish(key text) RETURNS void LANGUAGE sql AS $$ SELECT dc_publish('t', key, 'x', '{"a": 1}') $$;};

my @conf = ('wal_level = logical', 'max_wal_senders = 4', 'shared_buffers = 16MB', 'jit = off', 'autovacuum = off', 'fsync = off');
my %nodes = (
	preload => dc_node('preload', conf => [ @conf, "shared_preload_libraries = 'dcounter'" ]),
	plain => dc_node('plain', conf => \@conf));

sub publish
{
	my ($node, $key, $before) = @_;

	sql($node, 'postgres', ($before // '') . "SELECT publish('$key')");
	return;
}

# taken(NODE): what comes next to consumer "c"
sub taken
{
	my ($node) = @_;

	return sql($node, 'postgres', q{SELECT take('c')});
}

# holder(NODE): who holds delivery back, as each of the views has it
sub holder
{
	my ($node) = @_;

	return sql($node, 'postgres', q{SELECT (SELECT coalesce(held_back_by_gid, held_back_by_pid::text) FROM dc_stat_outbox),
		(SELECT coalesce(held_back_by_gid, held_back_by_pid::text) FROM dc_stat_consumers WHERE name = 'c')});
}

##
## Transactions that are none of its business

sub test_not_delayed
{
	my ($node, $name) = @_;
	my %open = map { $_ => dc_session($node, $_ eq 'another database' ? 'elsewhere' : 'postgres') }
	  'a transaction that has written', 'another database', 'an old snapshot', 'a serializable one', 'unpublished', 'many unpublished', 'a catalog change';

	$open{'a transaction that has written'}->run('BEGIN; INSERT INTO other VALUES (1); SELECT pg_current_xact_id()');
	$open{'another database'}->run('BEGIN; CREATE TABLE t (i int); SELECT publish($$x$$)');
	$open{'an old snapshot'}->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other');
	$open{'a serializable one'}->run('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM other, dcounter.outbox; INSERT INTO other VALUES (2)');
	$open{'unpublished'}->run(q{BEGIN; SAVEPOINT a; SELECT publish('late'); SAVEPOINT b; SELECT publish('undone'); ROLLBACK TO b});
	$open{'many unpublished'}->run(q{SET work_mem = '64kB'; BEGIN; SELECT count(publish('late ' || i)) FROM generate_series(1, 5000) AS i});
	$open{'a catalog change'}->run('BEGIN; CREATE TABLE fresh (i int); ALTER TABLE fresh ADD j int');
	sql($node, 'postgres', q{BEGIN; INSERT INTO other VALUES (3); PREPARE TRANSACTION 'no events'});
	sql($node, 'elsewhere', q{BEGIN; SELECT publish('y'); PREPARE TRANSACTION 'events elsewhere'});
	publish($node, "now $_") foreach 1 .. 3;
	is(taken($node), 'now 1 now 2 now 3', "$name: delivery does not wait for transactions without events of theirs to commit");
	is(sql($node, 'postgres', q{BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM other; SELECT publish('s1'); SELECT take('c'); COMMIT; SELECT take('c')}),
		"2\n\n\ns1" =~ s/^2/0/r, "$name: an event of the transaction's own comes after its commit");
	is(holder($node), '|', "$name: nobody is shown as holding it back");

	# one after the other ends
	foreach my $which (sort keys %open)
	{
		$open{$which}->run($which =~ /serializable/ ? 'ROLLBACK' : 'COMMIT');
		$open{$which}->quit;
		publish($node, "after");
		like(taken($node), $which =~ /many/ ? qr/^late 1 late 2 .* late 1000$/ : $which eq 'unpublished' ? qr/^late after$/ : qr/^after$/, "$name: $which has ended");
		if ($which =~ /many/)
		{
			is(sql($node, 'postgres', q{SELECT take('c') ~ '^late 1001 .* late 2000$', take('c', 5000) ~ '^late 2001 .* late 5000 after$', take('c')}), 't|t|', "$name: all that $which had");
		}
	}
	sql($node, 'postgres', q{COMMIT PREPARED 'no events'});
	sql($node, 'elsewhere', q{COMMIT PREPARED 'events elsewhere'; DROP TABLE t});
	is(taken($node), '', "$name: nothing of another database");
	return;
}

##
## Who holds events back

sub test_prepared
{
	my ($node, $name) = @_;

	publish($node, 'before');
	sql($node, 'postgres', q{BEGIN; SELECT publish('p1'), publish('p2'); PREPARE TRANSACTION 'with events';
		BEGIN; SELECT publish('q1'); PREPARE TRANSACTION 'with events, too'});
	publish($node, 'after');
	is(taken($node), 'before', "$name: a prepared transaction with events holds back what comes after");
	is(taken($node), '', "$name: nothing more");
	is(holder($node), 'with events|with events', "$name: the views show which one");
	sql($node, 'postgres', q{ROLLBACK PREPARED 'with events, too'});
	is(taken($node), '', "$name: the first of two holds back alone");
	sql($node, 'postgres', q{COMMIT PREPARED 'with events'});
	is(taken($node), 'p1 p2 after', "$name: all comes in order when it is committed");
	is(holder($node), '|', "$name: the views show none");
	sql($node, 'postgres', q{BEGIN; SELECT publish('p3'); PREPARE TRANSACTION 'with events'});
	publish($node, 'after');
	is(taken($node), '', "$name: held back");
	sql($node, 'postgres', q{ROLLBACK PREPARED 'with events'});
	is(taken($node), 'after', "$name: nothing of it when it is rolled back");
	sql($node, 'postgres', q{BEGIN; SAVEPOINT a; SELECT publish('p4'); ROLLBACK TO a; INSERT INTO other VALUES (4); PREPARE TRANSACTION 'events rolled back'});
	publish($node, 'after');
	is(taken($node), 'after', "$name: one whose events were all rolled back does not");
	sql($node, 'postgres', q{COMMIT PREPARED 'events rolled back'});
	test_may_prepare($node, $name);
	return;
}

# A role that anybody may be holds back nobody's events
sub test_may_prepare
{
	my ($node, $name) = @_;
	my $session = dc_session($node, 'postgres');
	my $prepare = q{BEGIN; SELECT publish('r'); PREPARE TRANSACTION 'of a role'};

	sql($node, 'postgres', 'CREATE ROLE plain');
	$session->run('SET SESSION AUTHORIZATION plain');
	is($session->run($prepare), 'ERROR 42501', "$name: a role may not prepare events");
	is($session->run(q{BEGIN; SAVEPOINT a; SELECT publish('r'); ROLLBACK TO a; PREPARE TRANSACTION 'of a role'; ROLLBACK PREPARED 'of a role'}), '', "$name: but it may without them");
	is($session->run('SET dcounter.prepare_events = on'), 'ERROR 42501', "$name: nor can it allow itself to");
	publish($node, 'after');
	is(taken($node), 'after', "$name: nothing is held back");
	$session->run('RESET SESSION AUTHORIZATION; SET dcounter.prepare_events = on; SET SESSION AUTHORIZATION plain');
	is($session->run("$prepare; COMMIT PREPARED 'of a role'"), '', "$name: a superuser can allow it");
	is(taken($node), 'r', "$name: ... and its events come");
	$session->quit;
	sql($node, 'postgres', 'DROP ROLE plain');
	return;
}

# Nor does one whose commit waits for a session of its own, in what the server does after our callbacks, or in rows that memory refused
sub test_waiting_commits
{
	my ($node, $name) = @_;
	my ($writer, $holder) = map { dc_session($node, 'postgres') } 1 .. 2;
	my %waits = (
		'a temporary table' => [ 'LOCK TABLE m.parent IN ACCESS SHARE MODE', 'INSERT INTO child VALUES (1)' ],
		'a row of a buffered counter' => [ q{INSERT INTO m.b_shard (key, shard, inc) VALUES ('k', 5, 1)}, q{SELECT dc_incr('m.b', 'k')} ]);

	sql($node, 'postgres', 'CREATE ROLE plain; CREATE SCHEMA m AUTHORIZATION plain');
	$_->run('SET SESSION AUTHORIZATION plain') foreach $writer, $holder;
	$writer->run(q{CREATE TABLE m.parent (a int); CREATE TEMPORARY TABLE child () INHERITS (m.parent) ON COMMIT DELETE ROWS;
		SELECT dc_create('m.b', mode => 'buffered', flush_interval => '1 hour'); CREATE UNIQUE INDEX ON m.b_shard (key)});
	delete $waits{'a row of a buffered counter'} if $name ne 'preload'; # there are none
	foreach my $what (sort keys %waits)
	{
		my ($hold, $wait) = @{ $waits{$what} };

		is($holder->run("BEGIN; $hold"), '', "$name: a session holds $what");
		$writer->send("BEGIN; SELECT publish('slow'); $wait; COMMIT");
		is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'COMMIT%'}, '1'), '1', "$name: a commit waits for $what");
		publish($node, 'fast');
		is(taken($node), 'fast', "$name: events of others come");
		$holder->run('ROLLBACK');
		is($writer->wait =~ /ERROR.*/ ? $& : '', '', "$name: it goes on");
		is(taken($node), 'slow', "$name: its events come, too");
	}
	$_->quit foreach $writer, $holder;
	sql($node, 'postgres', 'DROP OWNED BY plain; DROP ROLE plain');
	return;
}

# A commit that waits for a standby which does not exist has its number, and is not
# visible. One with a higher number that does not wait is.
sub test_late_commit
{
	my ($node, $name) = @_;

	foreach my $end ('the standby is no longer waited for', 'it is cancelled', 'its session is terminated')
	{
		my $waiting = q{SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'};
		my $slow = dc_session($node, 'postgres');

		$node->safe_psql('postgres', q{SET synchronous_commit = local; ALTER SYSTEM SET synchronous_standby_names = 'nobody'; SELECT pg_reload_conf();});
		wait_for($node, 'postgres', 'SHOW synchronous_standby_names', 'nobody');
		sql($node, 'postgres', 'CHECKPOINT');    # then the checkpointer has read it, which tells those who commit
		$slow->send(q{SELECT publish('slow')});
		$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($waiting) AS w") or die 'does not wait';
		my $pid = sql($node, 'postgres', $waiting);
		is(sql($node, 'postgres', q{SET synchronous_commit = local; SELECT publish('fast'); SELECT take('c')}), "\n", "$name: a commit with a higher number waits for one with a lower");
		is(holder($node), "$pid|$pid", "$name: the views show its process");
		if ($end =~ /standby/)
		{
			sql($node, 'postgres', 'SET synchronous_commit = local; ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()');
		}
		else
		{
			my $function = $end =~ /cancelled/ ? 'pg_cancel_backend' : 'pg_terminate_backend';

			sql($node, 'postgres', "SELECT $function($pid)");
		}
		is(sql($node, 'postgres', q{SET synchronous_commit = local; SELECT take('c', 1, '1 minute'); SELECT take('c', 1, '1 minute')}), "slow\nfast", "$name: then $end, and both come in order");
		$end =~ /terminated/ ? $slow->{run}->kill_kill : $slow->quit;
		sql($node, 'postgres', 'SET synchronous_commit = local; ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()');
		wait_for($node, 'postgres', 'SHOW synchronous_standby_names', '');
	}
	is(taken($node), '', "$name: once each");
	return;
}

# Transactions that fail when their events have their numbers already
sub test_failed_commit
{
	my ($node, $name) = @_;
	my @sessions = map { dc_session($node, 'postgres') } 1 .. 2;

	# each reads what the other one writes: the second to commit fails at its end
	sql($node, 'postgres', 'CREATE TABLE skew AS SELECT i FROM generate_series(1, 2) AS i');
	foreach my $i (0, 1)
	{
		my $mine = $i + 1;

		$sessions[$i]->run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(i) FROM skew; SELECT publish('skew $mine')");
	}
	$sessions[$_]->run('INSERT INTO skew VALUES (1)') foreach 0, 1;
	is(join('|', map { $_->run('COMMIT') } @sessions), '|ERROR 40001', "$name: of two transactions the second fails to commit");
	publish($node, 'after');
	is(taken($node), 'skew 1 after', "$name: its events do not come, and hold nothing back");
	sql($node, 'postgres', q{BEGIN; SELECT publish('same 1'); PREPARE TRANSACTION 'same'});
	is($sessions[0]->run(q{BEGIN; SELECT publish('same 2'); PREPARE TRANSACTION 'same'}), 'ERROR 42710', "$name: PREPARE TRANSACTION fails");
	sql($node, 'postgres', q{COMMIT PREPARED 'same'});
	publish($node, 'after');
	is(taken($node), 'same 1 after', "$name: so for its events");
	is($sessions[0]->run(q{SELECT publish('again'); SELECT take('c')}), "\nagain", "$name: the session goes on");
	$_->quit foreach @sessions;
	sql($node, 'postgres', 'DROP TABLE skew');
	return;
}

# Fetching and acknowledging in transactions that are rolled back, or prepared
sub test_undone_acks
{
	my ($node, $name) = @_;

	publish($node, $_) foreach 'u1', 'u2';
	is(sql($node, 'postgres', q{BEGIN; SELECT take('c'); SELECT take('c') IS NULL; ROLLBACK; SELECT take('c', 1)}), "u1 u2\nt\nu1", "$name: an acknowledgement is rolled back");
	is(sql($node, 'postgres', q{BEGIN; SAVEPOINT a; SELECT take('c'); ROLLBACK TO a; SELECT key FROM dc_fetch('c'); COMMIT; SELECT take('c', 5)}), "u2\nu2\nu2", "$name: and so to a savepoint");
	publish($node, 'u3');
	is(sql($node, 'postgres', q{BEGIN; SELECT take('c'); PREPARE TRANSACTION 'acked'; SELECT take('c', 1, '50 ms') IS NULL; ROLLBACK PREPARED 'acked'; SELECT take('c', 1, '1 minute')}), "u3\nt\nu3",
		"$name: a prepared acknowledgement that is rolled back");
	publish($node, $_) foreach 'u4', 'u5';
	is(sql($node, 'postgres', q{BEGIN; SELECT take('c', 1); PREPARE TRANSACTION 'acked'; SELECT take('c', 1, '50 ms') IS NULL; COMMIT PREPARED 'acked'; SELECT take('c', 1, '1 minute'); SELECT take('c')}), "u4\nt\nu5\n",
		"$name: and one that is committed");
	return;
}

##
## Waiting readers

# woken(NODE, NAME, STATEMENTS, EXPECTED): two consumers wait, and get what another
# session does. A reader that misses it looks again after 10 seconds at the latest:
# so that is too late.
sub woken
{
	my ($node, $name, $sql, $expected) = @_;
	my @readers = map { dc_session($node, 'postgres') } 1 .. 2;
	my @who = ('c', 'd');

	$readers[$_]->send("SELECT take('$who[$_]', 100, '1 minute')") foreach 0 .. 1;
	$node->poll_query_until('postgres', q{SELECT count(*) = 2 FROM pg_stat_activity WHERE query LIKE 'SELECT take%minute%' AND wait_event_type = 'Extension' AND pid <> pg_backend_pid()})
	  or die 'they do not wait';
	sql($node, 'postgres', $sql);
	my $start = time;
	is(join('|', map { $_->wait } @readers), "$expected|$expected", "$name");
	cmp_ok(time - $start, '<', 8, "$name: at once");
	$_->quit foreach @readers;
	return;
}

sub test_wait
{
	my ($node, $name) = @_;

	sql($node, 'postgres', q{SELECT dc_consumer_create('d')});
	woken($node, "$name: a reader is woken by a commit, $_", "SELECT publish('w$_')", "w$_") foreach 1 .. 3;
	woken($node, "$name: by a transaction of many events", q{BEGIN; SELECT publish('a'); SELECT publish('b'); COMMIT}, 'a b');
	sql($node, 'postgres', q{BEGIN; SELECT publish('p'); PREPARE TRANSACTION 'p'});
	woken($node, "$name: by COMMIT PREPARED", q{COMMIT PREPARED 'p'}, 'p');
	sql($node, 'postgres', q{BEGIN; SELECT publish('p'); PREPARE TRANSACTION 'p'; SELECT publish('after')});
	woken($node, "$name: by ROLLBACK PREPARED", q{ROLLBACK PREPARED 'p'}, 'after');

	# nothing new is published
	sql($node, 'postgres', q{SELECT dc_consumer_alter(n, max_attempts => 1) FROM unnest(ARRAY['c', 'd']) AS n; SELECT publish('dead');
		SELECT dc_nack(n, seq, '0'), dc_ack(n, seq) FROM unnest(ARRAY['c', 'd']) AS n, dc_fetch(n)});
	woken($node, "$name: by a dead letter that is to come again", q{SELECT dc_dead_letter_retry('c'), dc_dead_letter_retry('d')}, 'dead');
	# the first fetch after it notes that nothing is left to retry, and does not wait long
	sql($node, 'postgres', q{SELECT take('c'), take('d')});
	sql($node, 'postgres', q{SELECT dc_consumer_alter(n, max_attempts => 10) FROM unnest(ARRAY['c', 'd']) AS n});
	woken($node, "$name: by a new position", q{SELECT dc_seek(n, (SELECT max(seq) - 1 FROM dcounter.outbox)) FROM unnest(ARRAY['c', 'd']) AS n}, 'dead');

	is(sql($node, 'postgres', q{SELECT take('c', 10, '300 ms') IS NULL; SELECT count(*) FROM dc_fetch('c', 10, '0')}), "t\n0", "$name: nothing comes when the time is up");
	my $start = time;
	is(sql($node, 'postgres', q{SET statement_timeout = '20s'; SELECT take('c', 10, '200 ms') IS NULL; BEGIN; SELECT publish('x'); ROLLBACK; SELECT take('c', 10, '200 ms') IS NULL}), "t\n\nt",
		"$name: nor after a rollback");
	cmp_ok(time - $start, '>=', 0.4, "$name: not before the time is up");

	# a reader that is cancelled while it waits
	my $reader = dc_session($node, 'postgres');
	$reader->run(q{SET statement_timeout = '200ms'});
	is($reader->run(q{SELECT take('c', 10, '1 minute')}), 'ERROR 57014', "$name: waiting can be cancelled");
	publish($node, 'c1');
	$reader->run('RESET statement_timeout');
	is($reader->run(q{SELECT take('c', 10, '1 minute')}), 'c1', "$name: the session goes on");
	$reader->quit;
	is(sql($node, 'postgres', q{SELECT take('d')}), 'c1', "$name: another consumer has its own position");

	# two readers without member: one waits for the other
	my @readers = map { dc_session($node, 'postgres') } 1 .. 2;
	$_->send(q{SELECT take('c', 1, '1 minute')}) foreach @readers;
	publish($node, $_) foreach 'one', 'two';
	is(join(' ', sort map { $_->wait } @readers), 'one two', "$name: two readers of one consumer take turns");
	$_->quit foreach @readers;
	sql($node, 'postgres', q{SELECT dc_consumer_drop('d')});
	is(taken($node), '', "$name: nothing left");
	return;
}

##
## How much is read

# blocks(NODE, STATEMENT): how many blocks it looks at, in a session that has done it before
sub blocks
{
	my ($node, $statement) = @_;
	my $plan = sql($node, 'postgres', "SET track_io_timing = off;\n" . "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) $statement;\n" x 4);
	my @lines = $plan =~ /^\s*(?:\S.*\n)?\s+Buffers: shared (.*)$/mg;
	my $sum = 0;

	@lines = grep { /\d/ } @lines;
	$sum += $_ foreach $lines[-1] =~ /(?:hit|read)=(\d+)/g;
	die "no blocks in $plan" if !$sum;
	return $sum;
}

sub test_backlog
{
	my ($node, $name) = @_;
	my $part = $behind / 20;

	sql($node, 'postgres', "SELECT dc_consumer_create('far'), dc_consumer_create('near')");
	foreach my $i (0 .. 19)
	{
		sql($node, 'postgres', "SELECT count(publish(i::text)) FROM generate_series($i * $part + 1, ($i + 1) * $part) AS i");
		# into the next partition
		sql($node, 'postgres', 'CALL dc_maintain()') if $i % 4 == 1;
	}
	cmp_ok(sql($node, 'postgres', 'SELECT count(DISTINCT tableoid) FROM dcounter.outbox'), '>', 1, "$name: events are in several partitions");
	sql($node, 'postgres', q{SELECT dc_seek('near', (SELECT seq FROM dcounter.outbox ORDER BY seq DESC OFFSET 2000 LIMIT 1))});
	is(sql($node, 'postgres', q{SELECT (SELECT key FROM dc_fetch('near', 1)), (SELECT key FROM dc_fetch('far', 1))}), ($behind - 1999) . '|1', "$name: two consumers, one is 2000 events behind, one $behind");
	foreach my $n (1, 100, 1000)
	{
		my ($near, $far) = map { blocks($node, "SELECT * FROM dc_fetch('$_', $n)") } 'near', 'far';

		note("$n events: $near and $far blocks");
		cmp_ok($far, '<', $near * 1.5 + 30, "$name: a fetch of $n with $behind events behind reads as much as with 2000");
	}
	my ($near, $far) = map { blocks($node, "SELECT take('$_', 10)") } 'near', 'far';
	cmp_ok($far, '<', $near * 1.5 + 30, "$name: and so with its acknowledgement");
	sql($node, 'postgres', "SELECT dc_consumer_drop('far'), dc_consumer_drop('near'), dc_seek('c', 'now')");
	return;
}

# Each acknowledgement leaves a dead row that a snapshot keeps from being removed.
sub test_snapshot
{
	my ($node, $name) = @_;
	my $old = dc_session($node, 'postgres');

	sql($node, 'postgres', "SELECT dc_consumer_create('busy'); SELECT count(publish(i::text)) FROM generate_series(1, $acks + 100) AS i");
	sql($node, 'postgres', 'VACUUM ANALYZE dcounter.consumer_member');
	$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other');
	my $before = blocks($node, "SELECT take('busy', 1)");
	sql($node, 'postgres', "SET synchronous_commit = off;\n" . "SELECT take('busy', 1) \\g /dev/null\n" x $acks);
	my $after = blocks($node, "SELECT take('busy', 1)");
	note("blocks of a fetch and an acknowledgement: $before, after $acks of them $after");
	cmp_ok($after, '<', $before * 1.5 + 30, "$name: under an old snapshot, fetching does not become slower");
	is(sql($node, 'postgres', q{SELECT take('busy', 1)}), $acks + 9, "$name: and none was skipped");
	$old->run('COMMIT');
	$old->quit;
	sql($node, 'postgres', "SELECT dc_consumer_drop('busy'), dc_seek('c', 'now')");
	return;
}

# Events that were nacked, delivered again and acknowledged leave dead rows as well.
sub test_snapshot_retries
{
	my ($node, $name) = @_;
	my $old = dc_session($node, 'postgres');
	my %statements = (
		'a fetch of nothing' => q{SELECT * FROM dc_fetch('retried')},
		'a fetch of a retry' => q{SELECT * FROM dc_fetch('retried', 1)},
		'a fetch that finds its key waiting' => q{SELECT * FROM dc_fetch('retried', 5)});
	my (%before, %after);

	sql($node, 'postgres', q{SELECT dc_consumer_create('retried');
		CREATE FUNCTION again() RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM dc_nack('retried', seq, '0'), dc_ack('retried', seq) FROM dc_fetch('retried', 1);
			IF take('retried', 1) IS NULL THEN
				RAISE 'nothing comes again';
			END IF;
		END $$});
	$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other');
	foreach my $blocks (\%before, \%after)
	{
		sql($node, 'postgres', "SET synchronous_commit = off;\n" . "SELECT publish('r');\nSELECT again() \\g /dev/null\n" x $retries) if $blocks == \%after;
		is(taken($node) =~ s/r| //gr, '', "$name: another consumer has them all, too");
		$blocks->{'a fetch of nothing'} = blocks($node, $statements{'a fetch of nothing'});
		sql($node, 'postgres', q{SELECT publish('r'); SELECT dc_nack('retried', seq, '0'), dc_ack('retried', seq) FROM dc_fetch('retried', 1)});
		$blocks->{'a fetch of a retry'} = blocks($node, $statements{'a fetch of a retry'});
		sql($node, 'postgres', q{SELECT dc_nack('retried', seq, '1 hour') FROM dc_fetch('retried', 1); SELECT publish('r')});
		$blocks->{'a fetch that finds its key waiting'} = blocks($node, $statements{'a fetch that finds its key waiting'});
		is(sql($node, 'postgres', q{SELECT count(*), count(due_at) FROM dcounter.consumer_retry}), '2|1', "$name: one waits for the other");
		sql($node, 'postgres', q{SELECT dc_seek('retried', 'now')});
	}
	foreach my $what (sort keys %statements)
	{
		note("blocks of $what: $before{$what}, after $retries retries $after{$what}");
		cmp_ok($after{$what}, '<', $before{$what} * 1.5 + 30, "$name: under an old snapshot, $what does not become slower with retries");
	}
	$old->run('COMMIT');
	$old->quit;
	sql($node, 'postgres', "SELECT dc_consumer_drop('retried'), dc_seek('c', 'now')");
	return;
}

##
## Huge transactions

sub test_huge
{
	my ($node, $name) = @_;
	my $writer = dc_session($node, 'postgres');
	my $reader = dc_session($node, 'postgres');
	my %pid = map { $_->[0] => $_->[1]->run('SELECT pg_backend_pid()') } [ 'writer', $writer ], [ 'reader', $reader ];
	my $batch = 1000;
	my $size = torture(800, 300);
	my $bound = 40;
	my %before;

	# shared memory counts as the process's own: so it has been in use
	foreach my $session ($writer, $reader)
	{
		$session->run(q{SET work_mem = '64kB'; SET enable_seqscan = on; SELECT count(*) FROM dcounter.outbox; SELECT sum(length(o::text)) FROM dcounter.outbox AS o});
	}
	$writer->run(q{SELECT publish('first')});
	$reader->run(q{SELECT collect('c', 10)});
	SKIP:
	{
		skip('the peak of a process says nothing here (no /proc, or sanitizers)', 2) if !defined peak_memory($pid{writer});
		%before = map { $_ => peak_memory($pid{$_}) } keys %pid;
	}
	is($writer->run(qq{SELECT count(dc_publish('huge', i::text, 'x', jsonb_build_object('i', repeat('x', $size)))) FROM generate_series(1, $huge) AS i}), $huge, "$name: a transaction of $huge events");
	sql($node, 'postgres', 'TRUNCATE got');
	my $batches = $huge / $batch;
	my $answer = '';
	foreach my $some (1 .. 10)
	{
		$answer .= $reader->run("SELECT collect('c', $batch);\n" x ($batches / 10)) . "\n";
	}
	is($answer, "$batch\n" x $batches, "$name: is delivered in batches");
	is(sql($node, 'postgres', q{SELECT take('c') IS NULL, (SELECT count(*) FROM got),
		(SELECT count(*) FROM (SELECT key::bigint AS key, row_number() OVER (ORDER BY n) AS place FROM got) AS u WHERE key <> place)}), "t|$huge|0", "$name: in order, and all of it");
	foreach my $who (sort keys %before)
	{
		my $grown = peak_memory($pid{$who}) - $before{$who};

		cmp_ok($grown, '<', $bound, sprintf('%s: the %s took %.0f MB more memory than %.0f MB, for %.0f MB of events', $name, $who, $grown, $before{$who}, $huge * $size / 1024 / 1024));
	}

	# savepoints, half of them rolled back, while events go to a file
	is($writer->run(q{
		DO $$ BEGIN
			FOR i IN 1 .. 2000 LOOP
				BEGIN
					PERFORM dc_publish('sub', (20 * i + j)::text, 'x', jsonb_build_object('i', repeat('x', 300))) FROM generate_series(0, 19) AS j;
					IF i % 2 = 1 THEN
						RAISE division_by_zero;
					END IF;
				EXCEPTION WHEN division_by_zero THEN
					NULL;
				END;
			END LOOP;
		END $$}), '', "$name: savepoints");
	sql($node, 'postgres', 'TRUNCATE got; SELECT collect($$c$$, 5000) FROM generate_series(1, 6)');
	is(sql($node, 'postgres', q{SELECT count(*), count(*) FILTER (WHERE key <> expected), min(topic), max(topic)
		FROM (SELECT topic, key::int AS key, (row_number() OVER (ORDER BY n) - 1) / 20 * 40 + (row_number() OVER (ORDER BY n) - 1) % 20 + 40 AS expected FROM got) AS u}),
		'20000|0|sub|sub', "$name: their events, but none of those rolled back");
	$_->quit foreach $writer, $reader;
	return;
}

foreach my $name ('preload', 'plain')
{
	my $node = $nodes{$name};

	sql($node, 'postgres', $schema);
	sql($node, 'postgres', "CREATE DATABASE elsewhere");
	sql($node, 'elsewhere', "CREATE EXTENSION dcounter; $schema");
	# It keeps rows of catalogs, and waits for transactions in progress when it is made.
	sql($node, 'postgres', q{SELECT count(*) FROM pg_create_logical_replication_slot('held', 'pgoutput')});
	test_not_delayed($node, $name);
	test_prepared($node, $name);
	test_waiting_commits($node, $name);
	test_late_commit($node, $name);
	test_failed_commit($node, $name);
	test_undone_acks($node, $name);
	test_wait($node, $name);
}
$nodes{plain}->stop;
{
	my $node = $nodes{preload};

	$node->append_conf('postgresql.conf', "dcounter.outbox_rotate_age = 0\ndcounter.outbox_interval = '1d'");
	$node->reload;
	test_backlog($node, 'preload');
	test_snapshot($node, 'preload');
	test_snapshot_retries($node, 'preload');
	test_huge($node, 'preload');
	is(join("\n", grep { /PANIC|WARNING|TRAP/ && !/canceling (the )?wait for synchronous|terminating connection/ } split(/\n/, slurp_file($node->logfile))), '', 'no warning in the log');
	$node->stop;
}
done_testing();
