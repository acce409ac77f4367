# Buffered counters and a worker that leaves: whatever a commit waits for meanwhile, and
# whatever keeps the worker from writing, no increment stays in memory alone, and no
# commit waits for a worker that does not come. And what "sync" promises to
# transactions that write other things: a crash leaves both or neither.
use strict;
use warnings;

use DcBuffer;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time usleep);

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

# "local", as the tests make commits of some sessions hang for want of a standby
my $node = buffer_node('leave', 'max_connections = 80', "dcounter.compact_interval = '1h'", 'synchronous_commit = local');

# In this order: tables that come first are written first.
sql($node, 'postgres', q{
	SELECT dc_create('first', mode => 'buffered', flush_interval => '1 day'), dc_create('synced', mode => 'buffered', durability => 'sync', flush_interval => '1 day');
	SELECT dc_create('narrow', mode => 'buffered', durability => 'sync', flush_interval => '1 day', max_shards => 1);
	SELECT dc_create('exact', max_shards => 1, totals => 'compacted');
	SELECT dc_create('last', mode => 'buffered', flush_interval => '1 day'), dc_create('slow', mode => 'buffered', flush_interval => '1 day');
	CREATE TABLE log (kind text, n int);
	SELECT dc_incr('exact', 'row');});

# set(SETTING, VALUE): of the server, for all sessions from now on
sub set
{
	my ($setting, $value) = @_;

	sql($node, 'postgres', defined $value ? "ALTER SYSTEM SET $setting = '$value'" : "ALTER SYSTEM RESET $setting");
	sql($node, 'postgres', 'SELECT pg_reload_conf()');
	return;
}

my $state = q{SELECT state FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'flush'};

# off: switches the worker off, and returns when increments go to rows; on: the reverse
sub off
{
	set('dcounter.worker', 'off');
	die 'the worker stays' if wait_for($node, 'postgres', "SELECT ($state) IN ('off', 'flushing')", 't') ne 't';
	return;
}

sub on
{
	set('dcounter.worker', undef);
	worker_runs($node, 'postgres');
	return;
}

# waits(SESSION, WHAT): until it waits for that
sub waits
{
	my ($session, $what) = @_;

	die "no wait for $what" if wait_for($node, 'postgres', "SELECT wait_event FROM pg_stat_activity WHERE pid = $session->{pid}", $what) ne $what;
	return;
}

sub session
{
	my $session = dc_session($node, 'postgres');

	$session->{pid} = $session->run('SELECT pg_backend_pid()');
	return $session;
}

# written(COUNTER, KEY, VALUE, NAME): it is all in tables, at the latest soon
sub written
{
	my ($counter, $key, $value, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return soon($node, state_query($counter, $key), "$value $value", $name);
}

##
## A commit that waits for a row

sub test_row
{
	my ($holder, $writer) = (session(), session());

	$holder->run(q{BEGIN; SELECT 1 FROM exact_shard WHERE key = 'row' FOR UPDATE});
	$writer->run(q{BEGIN; SELECT dc_incr('first', 'row', 2), dc_incr('synced', 'row', 3), dc_incr('exact', 'row', 4), dc_incr('last', 'row', 5)});
	$writer->send('COMMIT');
	waits($writer, 'transactionid');
	is(sql($node, 'postgres', q{SELECT sum(keys) FROM dc_stat_buffer}) || 0, '0', 'a commit that waits for a row has nothing in memory');
	off();
	$holder->run('COMMIT');
	is($writer->wait, '', 'it ends when the worker is gone');
	state_is($node, $_->[0], 'row', "$_->[1] $_->[1]", "$_->[0]: in rows") foreach [ 'first', 2 ], [ 'synced', 3 ], [ 'exact', 5 ], [ 'last', 5 ];
	is(sql($node, 'postgres', q{SELECT coalesce(sum(keys), 0) FROM dc_stat_buffer}), '0', 'and not in memory');
	on();
	$writer->run(q{BEGIN; SELECT dc_incr('first', 'row', 2), dc_incr('exact', 'row', 4), dc_incr('last', 'row', 5); COMMIT});
	state_is($node, $_->[0], 'row', "$_->[1] $_->[2]", "$_->[0]: with a worker") foreach [ 'first', 4, 2 ], [ 'exact', 9, 9 ], [ 'last', 10, 5 ];
	$_->quit foreach $holder, $writer;
	return;
}

# What is refused at last goes to a row of its own, without waiting: here since an
# event, which is written at commit, gives the transaction an id.
sub test_refused
{
	my ($holder, $writer) = (session(), session());
	my $great = (1 << 40) + 1;

	sql($node, 'postgres', "BEGIN; SELECT dc_incr('narrow', 'row'); INSERT INTO log VALUES ('refused', 1); COMMIT");
	$holder->run(q{BEGIN; SELECT 1 FROM narrow_shard FOR UPDATE});
	$writer->run('BEGIN ISOLATION LEVEL ' . (rand() < 0.5 ? 'READ COMMITTED' : 'REPEATABLE READ'));
	$writer->send(q{SELECT dc_incr('first', 'refused', 1), dc_incr('synced', 'refused', 1), dc_incr('narrow', 'row'), dc_publish('topic', 'refused', 'type', '{}') IS NULL, dc_incr('last', 'refused', 1); COMMIT});
	for (my $ms = 0; $ms < 10_000 && !$writer->answered; $ms++)
	{
		usleep(1_000);
	}
	ok($writer->answered, 'a reservation that is refused does not wait for a row');
	$holder->run('COMMIT');
	is($writer->wait, '|||f|', 'and the transaction commits');
	state_is($node, 'narrow', 'row', '2 2', 'it is in rows');
	is(sql($node, 'postgres', 'SELECT count(*) FROM narrow_shard'), '2', '... in one of its own');
	state_is($node, 'synced', 'refused', '1 1', 'that of another sync table, too');
	state_is($node, $_, 'refused', '1 0', "$_: what was not refused is in memory") foreach 'first', 'last';
	sql($node, 'postgres', q{DELETE FROM log WHERE kind = 'refused'});

	# Most tables are refused, in a transaction of their own
	$writer->run("BEGIN; SELECT dc_incr('first', 'refused', $great), dc_incr('synced', 'refused', $great), dc_incr('narrow', 'refused', $great), dc_incr('last', 'refused', 1), dc_incr('slow', 'refused', $great); COMMIT");
	state_is($node, $_->[0], 'refused', "$_->[1] $_->[2]", "$_->[0]: most is refused")
	  foreach [ 'first', 1 + $great, $great ], [ 'synced', 1 + $great, 1 + $great ], [ 'narrow', $great, $great ], [ 'last', 2, 0 ], [ 'slow', $great, $great ];
	# A sync table that is not refused itself, beside one that is
	$writer->run("BEGIN; SELECT dc_incr('synced', 'beside', 1), dc_incr('slow', 'beside', $great); COMMIT");
	state_is($node, 'synced', 'beside', '1 1', 'a sync table goes where another one has to');
	$_->quit foreach $holder, $writer;
	return;
}

##
## A commit that hangs when all is reserved

# hang(SESSION): commits of sessions that want a standby hang from now on, also of this
# one. The checkpointer tells them so, at some time after the reload.
sub hang
{
	my ($session) = @_;
	my $wait = '';

	set('synchronous_standby_names', 'nobody');
	until ($wait eq 'SyncRep')
	{
		$session->run('SET synchronous_commit = on');
		$session->send(q{INSERT INTO log VALUES ('probe', 1)});
		until ($session->answered || $wait eq 'SyncRep')
		{
			$wait = answer($node, 'postgres', "SELECT wait_event FROM pg_stat_activity WHERE pid = $session->{pid}");
		}
	}
	return;
}

sub test_hanging
{
	my ($writer, $probe) = (session(), session());

	hang($probe);
	$writer->run('SET synchronous_commit = on');
	$writer->run(q{BEGIN; INSERT INTO log VALUES ('hanging', 1); SELECT dc_incr('first', 'hanging', 7)});
	$writer->send('COMMIT');
	waits($writer, 'SyncRep');
	off();
	set('synchronous_standby_names', undef);
	is($probe->wait, '', 'a standby is wanted no more');
	is($writer->wait, '', 'a commit that hangs for longer than the worker waits');
	is(sql($node, 'postgres', q{SELECT dc_get('first', 'hanging')}), '7', 'counts');
	written('first', 'hanging', 7, 'and is written, with the worker switched off');
	soon($node, $state, 'off', 'then nobody flushes any more');
	soon($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'}, '0', 'as there is no worker');
	on();

	# The same with the end of the server
	hang($probe);
	$writer->run(q{BEGIN; INSERT INTO log VALUES ('file', 1); SELECT dc_incr('first', 'file', 7)});
	$writer->send('COMMIT');
	waits($writer, 'SyncRep');
	$node->append_conf('postgresql.conf', "synchronous_standby_names = ''");
	sql($node, 'postgres', 'ALTER SYSTEM RESET synchronous_standby_names');
	$node->stop('fast');
	foreach my $session ($writer, $probe)
	{
		eval { $session->quit };
	}
	$node->start;
	worker_runs($node, 'postgres');
	is(sql($node, 'postgres', q{SELECT (SELECT count(*) FROM log WHERE kind = 'file') || ' ' || dc_get('first', 'file')}), '1 7', 'a commit that hangs at a shutdown counts');
	return;
}

##
## A worker that cannot write what it leaves

sub test_stuck
{
	my ($writer, $waiter) = (session(), session());

	sql($node, 'postgres', q{SELECT dc_create('bad', mode => 'buffered', durability => 'sync', flush_interval => '1 day')});
	stuck($node, 'postgres', 'bad', 1);
	$waiter->send(q{SELECT dc_incr('bad', 'a', 3)});
	soon($node, q{SELECT waiting FROM dc_stat_buffer WHERE counter = 'bad'::regclass}, '1', 'a sync commit waits for a worker that fails');
	off();
	my $from = -s $node->logfile;
	is($waiter->wait, '', 'it ends when there is no worker any more');
	like(slurp_file($node->logfile, $from), qr/WARNING:  .*durable because there is no worker/, '... with a warning');
	is(sql($node, 'postgres', q{SELECT in_rows('bad')}), '0', 'the increment is in memory');
	is(sql($node, 'postgres', q{SELECT dc_incr('bad', 'a', 4)}), '', 'the next one');
	is(sql($node, 'postgres', q{SELECT in_rows('bad'), dc_get('bad', 'a')}), '4|7', '... goes to rows');
	stuck($node, 'postgres', 'bad', 0);
	written('bad', 'a', 7, 'what was left in memory is written as soon as that is possible');
	no_memory($node, 'all of it');
	on();

	# DDL has locked the table when the worker leaves, by whatever way
	foreach my $stop ([ 'switched off', \&off, \&on ],
		[ 'stopped', sub { sql($node, 'postgres', 'SELECT dc_worker_stop()') }, sub { is(sql($node, 'postgres', 'SELECT dc_worker_start()'), 't', 'started'); worker_runs($node, 'postgres') } ])
	{
		my ($how, $leave, $come) = @$stop;
		my $value = sql($node, 'postgres', q{SELECT dc_incr_returning('first', 'locked')});

		$writer->run('BEGIN; LOCK TABLE first IN SHARE MODE');
		$leave->();
		$writer->run('COMMIT');
		written('first', 'locked', $value, "a table that was locked when the worker was $how");
		$come->();
	}

	# A transaction that flushes itself gives back what it has taken when nobody flushes
	sql($node, 'postgres', q{SELECT dc_incr('first', 'taken', 5)});
	$writer->run('BEGIN; LOCK TABLE first IN SHARE MODE');
	is($writer->run(q{SELECT dc_flush('first')}), '', 'a transaction flushes');
	off();
	$writer->run('ROLLBACK');
	written('first', 'taken', 5, 'and fails when the worker is gone');
	on();

	# dc_worker_start() while a session only flushes
	sql($node, 'postgres', q{SELECT dc_incr('first', 'start', 5)});
	stuck($node, 'postgres', 'first', 1);
	sql($node, 'postgres', 'SELECT dc_worker_stop()');
	foreach (1 .. 5)
	{
		is(sql($node, 'postgres', 'SELECT dc_worker_start()'), 't', 'dc_worker_start() starts a worker whatever is left');
		worker_runs($node, 'postgres');
		is(sql($node, 'postgres', 'SELECT dc_worker_stop()'), 't', 'and dc_worker_stop() ends it');
		sleep(rand(1));
	}
	stuck($node, 'postgres', 'first', 0);
	written('first', 'start', 5, 'in the end it is written');
	sql($node, 'postgres', 'SELECT dc_worker_start()');
	worker_runs($node, 'postgres');
	$_->quit foreach $writer, $waiter;
	return;
}

# A table whose owner's code catches the cancel
my $hanging = q{
	SELECT dc_create('hanging', mode => 'buffered', flush_interval => '10 ms');
	CREATE FUNCTION hangs() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		WHILE (SELECT backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid()) <> 'client backend' LOOP
			BEGIN
				PERFORM pg_sleep(60);
			EXCEPTION WHEN query_canceled THEN
				NULL;
			END;
		END LOOP;
		RETURN NEW;
	END $$;
	CREATE TRIGGER hangs BEFORE INSERT OR UPDATE ON hanging FOR EACH ROW EXECUTE FUNCTION hangs();
	CREATE TRIGGER hangs BEFORE INSERT OR UPDATE ON hanging_shard FOR EACH ROW EXECUTE FUNCTION hangs();
	SELECT dc_incr('hanging', 'a', 3);
};

# It ends the worker, which is signaled twice. The next one flushes the others.
sub test_suspect
{
	my $worker = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'postgres'};

	sql($node, 'postgres', $hanging . q{SELECT dc_create('quick', mode => 'buffered', flush_interval => '10 ms')});
	soon($node, 'SELECT wait_event FROM pg_stat_activity WHERE pid = (' . $worker . ')', 'PgSleep', 'the worker hangs in the code of an owner');
	sql($node, 'postgres', q{SELECT dc_incr('quick', 'a', 4)});
	my $pid = sql($node, 'postgres', $worker);
	wait_for($node, 'postgres', "SELECT pg_terminate_backend($pid), (SELECT count(*) FROM pg_stat_activity WHERE pid = $pid)", 'f|0');
	worker_runs($node, 'postgres');
	written('quick', 'a', 4, 'the next worker flushes the other tables');
	state_is($node, 'hanging', 'a', '3 0', 'and leaves that one alone for now');
	sql($node, 'postgres', q{DROP TRIGGER hangs ON hanging; DROP TRIGGER hangs ON hanging_shard; SELECT dc_flush('hanging')}) if sql($node, 'postgres', "SELECT count(*) FROM pg_locks WHERE relation = 'hanging'::regclass") eq '0';
	written('hanging', 'a', 3, 'it is flushed when its owner has repaired it');
	sql($node, 'postgres', q{SELECT dc_drop('hanging'), dc_drop('quick')});
	return;
}

# The same where no worker is wanted afterwards: those that only flush leave the table
# alone, too, but not forever. In another database, because it takes time; returns a
# function that waits for the end.
sub stopped_suspect
{
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	sql($node, 'other', 'CREATE EXTENSION dcounter');
	worker_begins($node, 'other');
	sql($node, 'other', $hanging);
	is(wait_for($node, 'other', q{SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'other'}, 'PgSleep'), 'PgSleep', 'another worker hangs');
	is(sql($node, 'other', 'SELECT dc_worker_stop()'), 't', 'it is stopped, by force');
	is(sql($node, 'other', state_query('hanging', 'a') . '; DROP TRIGGER hangs ON hanging; DROP TRIGGER hangs ON hanging_shard'), '3 0', 'the increments are in memory');
	return sub {
		is(wait_for($node, 'other', state_query('hanging', 'a'), '3 3', 60), '3 3', 'they are written in the end');
		$node->safe_psql('postgres', 'DROP DATABASE other');
		return;
	};
}

# Several processes ask the worker to end at the same time, as dc_worker_stop() and the
# launcher do, while it does something that does not look for a cancel. That is no
# reason to end it by force, or to leave the table alone. (It does that for a tenth of a second. After
# two seconds it would be asked again, and that ends it by force, as it should.)
sub test_asked_twice
{
	my $session = session();

	sql($node, 'postgres', q{
		SELECT dc_create('busy', mode => 'buffered', flush_interval => '10 ms');
		CREATE FUNCTION computes() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE
			n numeric := repeat('7', 40000)::numeric;
		BEGIN
			IF (SELECT backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid()) <> 'client backend' THEN
				RAISE LOG 'busy now';
				RETURN CASE WHEN least(n * n, n * n, n * n) > 0 THEN NEW END;
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER computes BEFORE INSERT OR UPDATE ON busy FOR EACH ROW EXECUTE FUNCTION computes();
		CREATE TRIGGER computes BEFORE INSERT OR UPDATE ON busy_shard FOR EACH ROW EXECUTE FUNCTION computes();});
	foreach my $round (1 .. 3)
	{
		my $from = -s $node->logfile;
		my $pid = sql($node, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'postgres'});

		$session->run(q{SELECT dc_incr('busy', 'a', 3)});
		usleep(1_000) until slurp_file($node->logfile, $from) =~ /busy now/;
		if ($round < 3)
		{
			is($session->run('SELECT dc_worker_stop()'), 't', 'the worker is stopped while it is busy');
		}
		else
		{
			# it may have ended before the last one
			like($session->run("SELECT pg_terminate_backend($pid), pg_sleep(0.02), pg_terminate_backend($pid), pg_sleep(0.02), pg_terminate_backend($pid)"), qr/^t\|\|[tf]\|\|[tf]$/m, 'it is asked three times to end');
			soon($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", '0', 'it ends');
		}
		my $start = time;
		written('busy', 'a', 3 * $round, 'what it was busy with is written');
		cmp_ok(time - $start, '<', 20, 'soon');
		unlike(slurp_file($node->logfile, $from), qr/FATAL/, 'it is not ended by force');
		sql($node, 'postgres', 'SELECT dc_worker_start()');
		worker_runs($node, 'postgres');
	}
	sql($node, 'postgres', q{SELECT dc_drop('busy')});
	$session->quit;
	return;
}

##
## Workers come and go in all ways, under load

sub test_load
{
	my $script = "BEGIN;\nSELECT dc_incr('first', 'load'), dc_incr('exact', 'load'), dc_incr('last', 'load');\nCOMMIT;\nSELECT dc_incr('synced', 'load'), dc_incr('first', 'load');\n";
	my $load = pgbench($node, '-c', 8, '-T', torture(8, 60), '-M', 'prepared', '-f', file_of('load.sql', $script));
	my $end = time + torture(7, 58);

	while (time < $end)
	{
		my $how = int(rand(4));

		if ($how == 0)
		{
			set('dcounter.worker', 'off');
			sleep(rand(1));
			set('dcounter.worker', undef);
		}
		elsif ($how == 1)
		{
			sql($node, 'postgres', 'SELECT dc_worker_stop()');
			sleep(rand(1));
			sql($node, 'postgres', 'SELECT dc_worker_start()');
		}
		else
		{
			sql($node, 'postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity, generate_series(1, } . ($how == 2 ? 1 : 3) . q{) WHERE backend_type = 'dcounter worker'});
			sleep(rand(0.3));
		}
	}
	off();
	my $n = processed($load);
	is($load->{err} =~ /ERROR|WARNING/ ? $load->{err} : '', '', "workers come and go: $n transactions without an error");
	written('first', 'load', 2 * $n, 'the increments are all there, in rows');
	written($_, 'load', $n, "$_: and those") foreach 'exact', 'last', 'synced';
	on();
	return;
}

##
## After a crash: both or neither

# What transactions of a kind do, and two numbers that are equal
my %kinds = (
	insert => [ q{BEGIN; INSERT INTO log VALUES ('insert', 1); SELECT dc_incr('synced', 'insert'); COMMIT;}, q{SELECT count(*) FROM log WHERE kind = 'insert'}, q{SELECT dc_get('synced', 'insert')} ],
	after => [ q{BEGIN; SELECT dc_incr('synced', 'after', 2); SAVEPOINT s; INSERT INTO log VALUES ('after', 1); RELEASE s; COMMIT;}, q{SELECT 2 * count(*) FROM log WHERE kind = 'after'}, q{SELECT dc_get('synced', 'after')} ],
	exact => [ q{SELECT dc_incr('synced', 'exact'), dc_incr('plain', 'exact');}, q{SELECT dc_get('plain', 'exact')}, q{SELECT dc_get('synced', 'exact')} ],
	event => [ q{SELECT dc_incr('synced', 'event'), dc_publish('topic', 'key', 'type', '{}');}, q{SELECT count(*) FROM dcounter.outbox WHERE aggregateid = 'key'}, q{SELECT dc_get('synced', 'event')} ],
	early => [ q{BEGIN; SELECT dc_incr('plain', 'early'); SELECT dc_apply(); SELECT dc_incr('synced', 'early'); COMMIT;}, q{SELECT dc_get('plain', 'early')}, q{SELECT dc_get('synced', 'early')} ],
	great => [ q{SELECT dc_incr('synced', 'great'), dc_incr('synced2', 'great', 1099511627777);}, q{SELECT dc_get('synced2', 'great') / 1099511627777}, q{SELECT dc_get('synced', 'great')} ],
);

sub test_crash
{
	sql($node, 'postgres', q{SELECT dc_create('plain'); SELECT dc_create('synced2', mode => 'buffered', durability => 'sync')});
	foreach my $round (1 .. torture(6, 60))
	{
		my @load = map { pgbench($node, '-c', 2, '-T', 600, '-f', file_of("$_.sql", $kinds{$_}[0])) } sort keys %kinds;

		$node->poll_query_until('postgres', "SELECT min(dc_get('synced', k)) > $round FROM unnest('{" . join(',', sort keys %kinds) . "}'::text[]) AS k") or die 'no progress';
		sleep(rand(0.5));
		if (rand() < 0.5)
		{
			kill 'KILL', sql($node, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
			finish_job($_) foreach @load;
			$node->poll_query_until('postgres', 'SELECT true') or die 'no restart';
		}
		else
		{
			$node->stop('immediate');
			finish_job($_) foreach @load;
			$node->start;
		}
		foreach my $kind (sort keys %kinds)
		{
			my ($rows, $increments) = map { sql($node, 'postgres', $_) } @{ $kinds{$kind} }[ 1, 2 ];

			is($increments, $rows, "round $round, $kind: increments as rows ($rows)");
		}
		worker_runs($node, 'postgres');
	}
	return;
}

# Without another write nothing has changed: no transaction id
sub test_alone
{
	my $session = session();

	is($session->run(q{BEGIN; SELECT dc_incr('synced', 'alone'), dc_incr('first', 'alone'); SELECT pg_current_xact_id_if_assigned() IS NULL; COMMIT}), "|\nt", 'no id before the commit');
	is(sql($node, 'postgres', q{SELECT buffered > 0 FROM dc_stat_counters WHERE counter = 'synced'::regclass}), 't', 'increments alone go to memory');
	is($session->run(q{BEGIN; INSERT INTO log VALUES ('alone', 1); SELECT dc_incr('first', 'alone'); COMMIT}), '', 'beside another write');
	state_is($node, 'first', 'alone', '2 0', '... those of async tables, too');
	$session->quit;
	return;
}

sql($node, 'postgres', q{
	CREATE FUNCTION in_rows(c text) RETURNS numeric LANGUAGE plpgsql AS $$
	DECLARE
		n numeric;
	BEGIN
		EXECUTE format('SELECT (SELECT coalesce(sum(inc - dec), 0) FROM %I) + (SELECT coalesce(sum(inc - dec), 0) FROM %I)', c, c || '_shard') INTO n;
		RETURN n;
	END $$;});
test_row();
test_refused();
test_alone();
test_hanging();
test_stuck();
my $written = stopped_suspect();
test_suspect();
test_asked_twice();
test_load();
$written->();
test_crash();

$node->stop;
done_testing();
