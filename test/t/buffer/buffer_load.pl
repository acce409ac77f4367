# Buffered counters, their worker and load: what stands in the way of a flush, sync commits,
# reads that are exact while amounts move, no worker, and memory that is full.
use strict;
use warnings;

use DcBuffer;
use DcSteps;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = buffer_node('main', 'max_connections = 100', "dcounter.buffer_size = '8MB'", "dcounter.compact_interval = '1h'");

exactness($node);
in_tables($node);
sql($node, 'postgres', q{SELECT dc_create('c', mode => 'buffered', flush_interval => '1 day')});

##
## What stands in the way of a flush

sub test_obstacles
{
	my %steps = (
		b => 'BEGIN', c => 'COMMIT', r => 'ROLLBACK', incr => q{SELECT dc_incr('c', 'row', 5)}, flush => q{SELECT dc_flush('c')}, all => 'SELECT dc_flush()',
		lock => q{SELECT 1 FROM c WHERE key = 'row' FOR UPDATE}, remove => q{DELETE FROM c WHERE key = 'row' RETURNING value}, compact => q{SELECT dc_compact('c') >= 0}, get => q{SELECT dc_get('c', 'row')},
		read => q{SELECT count(*) > 0 FROM c}, ddl => 'LOCK TABLE c IN ACCESS EXCLUSIVE MODE', share => 'LOCK TABLE c IN SHARE MODE', other => q{SELECT dc_incr('other', 'a')});

	sql($node, 'postgres', q{
		SELECT dc_create('other', mode => 'buffered', durability => 'sync', flush_interval => '1 day');
		SELECT dc_incr('c', 'row', 100); SELECT dc_flush('c')});
	is(play($node, \%steps, 's:b s:lock t:incr t:flush t:get'), '1 105', 'the row of totals is locked: dc_flush() does not wait');
	state_is($node, 'c', 'row', '105 105', 'what was in memory is in a shard row');
	is(play($node, \%steps, 't:incr t:flush s:c t:get t:incr t:flush t:get s:compact s:get'), '110 115 t 115', 'nor is anything counted twice');
	is(play($node, \%steps, 't:incr s:b s:compact t:flush t:get'), 't 120', 'compaction is open: dc_flush() does not wait');
	state_is($node, 'c', 'row', '120 120', 'but writes');
	is(play($node, \%steps, 't:incr s:r t:get s:b s:compact t:incr t:flush s:c t:get t:compact t:get'), '125 t 130 t 130', 'and it is right after that');
	is(play($node, \%steps, 's:b s:remove t:incr t:flush t:get s:r t:incr t:flush t:get'), '130 135 140', 'a row that is being deleted');

	# The worker does not wait for a table while others wait for the worker.
	is(play($node, \%steps, 's:b s:read t:b t:ddl&'), 't', 'DDL waits');
	waits($node, 't');
	is(play($node, \%steps, 'v:other v:other u:flush&'), '', 'meanwhile sync commits of another table are flushed');
	state_is($node, 'other', 'a', '2 2', 'and durable');
	is(play($node, \%steps, 's:c t: t:c u: t:get'), '140', 'a flush that waited for it ends');
	is(play($node, \%steps, 's:incr t:b t:share u:flush& v:other u2:all& v:other t:c u: u2: t:get'), '145', 'the same with a lock against writers');
	state_is($node, 'c', 'row', '145 145', 'all of it is written');
	state_is($node, 'other', 'a', '4 4', 'there, too');
	return;
}

sub test_failing
{
	sql($node, 'postgres', q{SELECT dc_create('bad', mode => 'buffered', flush_interval => '20 ms')});
	stuck($node, 'postgres', 'bad', 1);
	sql($node, 'postgres', q{SELECT dc_incr('bad', 'a', 5)});
	soon($node, q{SELECT failures > 1, last_error FROM dc_stat_worker WHERE datname = current_database() AND job = 'flush'}, 't|dcounter job "flush" on "bad": not now', 'flushes of a table with a failing trigger');
	state_is($node, 'bad', 'a', '5 0', 'its amounts stay in memory');
	sql($node, 'postgres', q{SELECT dc_incr('bad', 'a', 2), dc_incr('bad', 'b', 2)});
	flush($node, 'c');
	is(sql($node, 'postgres', q{SELECT dc_get('bad', 'a'), dc_get('bad', 'b'), dc_sum('bad'), in_tables('bad')}), '7|2|9|0', 'once, and other tables are flushed');

	# Sync: the wait can be cancelled, the increment stays
	sql($node, 'postgres', q{SELECT dc_alter('bad', durability => 'sync')});
	my $session = dc_session($node, 'postgres');
	my $pid = $session->run('SELECT pg_backend_pid()');
	$session->send(q{SELECT dc_incr('bad', 'a', 10)});
	soon($node, "SELECT wait_event_type, backend_xid IS NULL FROM pg_stat_activity WHERE pid = $pid", 'Extension|t', 'a sync commit waits');
	is(sql($node, 'postgres', q{SELECT dc_get('bad', 'a')}), '17', 'others see its increment meanwhile');
	sql($node, 'postgres', "SELECT pg_cancel_backend($pid)");
	is($session->wait, '', 'cancelled: no error');
	is($session->run(q{SELECT dc_get('bad', 'a')}), '17', 'and it is committed');
	$session->send(q{SELECT dc_incr('bad', 'a', 100)});
	soon($node, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Extension', 'another one');
	sql($node, 'postgres', "SELECT pg_terminate_backend($pid)");
	eval { $session->wait };
	soon($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", '0', 'can be terminated');
	is(sql($node, 'postgres', q{SELECT dc_get('bad', 'a')}), '117', 'its increment stays');
	sql($node, 'postgres', q{SELECT dc_flush('bad')});
	is(sql($node, 'postgres', q{SELECT dc_get('bad', 'a') || ' ' || in_tables('bad')}), '117 119', 'dc_flush() can do what the worker cannot');
	is(sql($node, 'postgres', q{SELECT dc_alter('bad', durability => 'async'); SELECT dc_incr('bad', 'a', 3); SELECT dc_reset('bad', 'a'), in_tables('bad')}) =~ s/^\n+//r, '120|2', 'so can dc_reset()');
	sql($node, 'postgres', q{SELECT dc_alter('bad', durability => 'sync'), dc_incr('bad', 'a', 0)});
	$session = dc_session($node, 'postgres');
	$session->send(q{SELECT dc_incr('bad', 'a', 117)});
	soon($node, q{SELECT waiting FROM dc_stat_buffer WHERE counter = 'bad'::regclass}, '1', 'a commit waits');
	stuck($node, 'postgres', 'bad', 0);
	is($session->wait, '', 'when the trigger is gone it goes on');
	$session->quit;
	is(sql($node, 'postgres', q{SELECT dc_get('bad', 'a') || ' ' || in_tables('bad')}), '117 119', 'it is flushed, once');
	sql($node, 'postgres', q{SELECT dc_incr('bad', 'a')});
	state_is($node, 'bad', 'a', '118 118', 'and sync commits return');
	no_memory($node, 'entries are freed then');
	return;
}

##
## Sync: durable when the commit returns, and many commits share a flush

sub test_sync
{
	sql($node, 'postgres', q{SELECT dc_create('sync', mode => 'buffered', durability => 'sync', flush_interval => '1 day')});
	sql($node, 'postgres', q{SELECT dc_incr('sync', 'a', 3)});
	state_is($node, 'sync', 'a', '3 3', 'a sync commit returns when it is in tables');
	sql($node, 'postgres', q{BEGIN; SELECT dc_incr('sync', 'a', 3), dc_incr('c', 'a'); SAVEPOINT s; SELECT dc_incr('sync', 'a', 10); ROLLBACK TO s; COMMIT});
	state_is($node, 'sync', 'a', '6 6', 'one of several tables');
	my $flushes = sql($node, 'postgres', q{SELECT flushes FROM dc_stat_counters WHERE counter = 'sync'::regclass});
	my $n = processed(pgbench($node, '-c', 20, '-t', 30, '-f', file_of('sync.sql', "SELECT dc_incr('sync', 'hot');\n")));
	state_is($node, 'sync', 'hot', "$n $n", 'many sync commits');
	cmp_ok(sql($node, 'postgres', qq{SELECT flushes - $flushes FROM dc_stat_counters WHERE counter = 'sync'::regclass}), '<', $n, 'share flushes');
	return;
}

##
## Reads are exact while amounts move

my @levels = ('read committed', 'read committed, each', 'repeatable read, each', 'serializable, each');

# under_load(NAME, COUNTER, SECONDS, RESETS, SCRIPT...): clients increment the key "hot" while
# scripts run in loops and readers look
sub under_load
{
	my ($name, $counter, $seconds, $resets, @scripts) = @_;
	my $file = file_of("$name.sql", "SELECT nextval('tried');\nSELECT dc_incr('$counter', 'hot');\nSELECT nextval('told');\n");
	my $before = sql($node, 'postgres', q{SELECT last_value - 1 + is_called::int FROM told});
	my $load = pgbench($node, '-c', 6, '-T', $seconds, '-M', 'prepared', '-f', $file);
	my $n = 0;
	my @others = map { pgbench($node, '-c', 1, '-T', $seconds, '-f', file_of("$name " . ++$n . '.sql', "$_\n")) } @scripts;
	my @readers = read_loops($node, $counter, 'hot', 150 * $seconds, $resets ? [ @levels[ 0, 1 ] ] : \@levels, 'dc_get', 'dc_get_many', 'dc_info', 'dc_sum');
	my $parallel = $resets ? '' : sql($node, 'postgres', qq{
		SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2;
		EXPLAIN (COSTS off) SELECT dc_get('$counter', 'hot') FROM many;
		SELECT count(*) FROM (SELECT v, lag(v) OVER () AS p FROM (SELECT dc_get('$counter', 'hot') AS v FROM many) AS u) AS w WHERE v < p;});

	finish_job($_) foreach @readers, @others;
	is(join('', grep { /ERROR|WARNING/ } map { split /^/, $_->{err} } @readers, @others), '', "$name: reads are exact");
	like($parallel, qr/Gather.*\n0$/s, "$name: also in a parallel query") if !$resets;
	my $processed = processed($load);
	cmp_ok($processed, '>', 50, "$name: there was load ($processed)");
	is(sql($node, 'postgres', qq{SELECT dc_get('$counter', 'hot') + (SELECT sum(n) FROM taken) - last_value, last_value - $before FROM told}), "0|$processed", "$name: all increments are there, once");
	return;
}

# A table that is made exact: an older snapshot does not show what that has flushed
sub old_snapshot
{
	my $reader = dc_session($node, 'postgres');

	sql($node, 'postgres', q{SELECT dc_create('made_exact', mode => 'buffered', flush_interval => '1 day')});
	$reader->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM made_exact');
	sql($node, 'postgres', q{SELECT dc_incr('made_exact', 'k', 5)});
	is($reader->run(q{SELECT dc_get('made_exact', 'k'), dc_sum('made_exact')}), '5|5', 'what is in memory counts in an old snapshot');
	sql($node, 'postgres', q{SELECT dc_alter('made_exact', mode => 'exact')});
	is($reader->run(q{SELECT dc_get('made_exact', 'k'), (dc_info('made_exact', 'k')).value, value, dc_sum('made_exact') FROM dc_get_many('made_exact', '{k, l}') WHERE key = 'k'}),
		'5|5|5|5', 'also when the table is exact by then');
	$reader->run('COMMIT');
	$reader->quit;
	return;
}

sub test_load
{
	my $moves = sub { return sql($node, 'postgres', q{SELECT flushes FROM dc_stat_counters WHERE counter = 'r'::regclass}) };

	sql($node, 'postgres', q{SELECT dc_create('r', mode => 'buffered', flush_interval => '5 ms')});
	my $before = $moves->();
	under_load('flushes', 'r', 2, 0);
	cmp_ok($moves->() - $before, '>', 10, 'there were many flushes');
	old_snapshot();
	under_load('everything', 'r', 3, 1,
		q{INSERT INTO taken SELECT dc_reset('r', 'hot');\sleep 7 ms},
		"BEGIN;\nSELECT dc_reset('r', 'hot');\n\\sleep 5 ms\nROLLBACK;",
		"SELECT dc_flush('r');", "SELECT dc_compact('r');\n\\sleep 3 ms",
		"SELECT dc_alter('r', mode => 'exact');\n\\sleep 30 ms\nSELECT dc_alter('r', mode => 'buffered', durability => 'sync');\n\\sleep 60 ms\nSELECT dc_alter('r', durability => 'async');\n\\sleep 60 ms",
		"BEGIN;\nSELECT dc_alter('r', mode => 'exact');\nROLLBACK;\n\\sleep 25 ms",
		"BEGIN;\nSELECT 1 FROM r WHERE key = 'hot' FOR UPDATE;\n\\sleep 5 ms\nCOMMIT;\n\\sleep 5 ms");
	return;
}

# A reader that is stopped anywhere, while an increment is flushed. If it counts that
# twice, or not at all, the next read shows it. Other keys give it more to do between
# what is in memory and the snapshot.
sub test_stopped
{
	my $writer = dc_session($node, 'postgres');
	my %read = (
		dc_get => q{dc_get('r', 'stop')}, dc_get_many => q{(SELECT value FROM dc_get_many('r', keys) LIMIT 1)}, dc_sum => q{dc_sum('r')});

	sql($node, 'postgres', q{SELECT dc_drop(c) FROM to_regclass('r') AS c WHERE c IS NOT NULL; SELECT dc_create('r', mode => 'buffered', flush_interval => '1 day')});
	foreach my $how (sort keys %read)
	{
		my $reader = dc_session($node, 'postgres');
		my $pid = $reader->run('SELECT pg_backend_pid()');

		$reader->send(qq{DO \$\$ DECLARE v bigint := 0; before bigint := 0; keys text[] := ARRAY(SELECT 'stop' UNION ALL SELECT 'z' || i FROM generate_series(1, 200) AS i); BEGIN
			WHILE v < 1000000 LOOP
				v := $read{$how};
				IF v < before THEN RAISE '% after %', v, before; END IF;
				before := v;
			END LOOP; END \$\$});
		foreach (1 .. torture(250, 3000))
		{
			$writer->run(q{SELECT dc_incr('r', 'stop')} . ($how eq 'dc_sum' ? q{, count(dc_incr('r', 'a' || i)) FROM generate_series(1, 50) AS i} : ''));
			usleep(rand(300));
			kill 'STOP', $pid;
			$writer->send(q{SELECT dc_flush('r')});
			# it may have stopped where the flush has to wait for it
			for (my $ms = 0; $ms < 20 && !$writer->answered; $ms++)
			{
				usleep(1_000);
			}
			kill 'CONT', $pid;
			$writer->wait;
		}
		$writer->run(q{SELECT dc_incr('r', 'stop', 1000000)});
		is($reader->wait, '', "$how is exact wherever a flush comes in between");
		$writer->run(q{SELECT dc_reset('r', 'stop')});
		$reader->quit;
	}
	$writer->quit;
	return;
}

##
## Without a worker

sub test_without_worker
{
	sql($node, 'postgres', q{SELECT dc_create('synced', mode => 'buffered', durability => 'sync', flush_interval => '1 day'); SELECT dc_incr('c', 'off', 1)});
	state_is($node, 'c', 'off', '1 0', 'with a worker');
	sql($node, 'postgres', 'SELECT dc_worker_stop()');
	soon($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'}, '0', 'no worker');
	state_is($node, 'c', 'off', '1 1', 'it has flushed before it left');
	sql($node, 'postgres', q{SELECT dc_incr('c', 'off', 2), dc_incr('synced', 'off', 3)});
	state_is($node, 'c', 'off', '3 3', 'without it increments go to rows');
	state_is($node, 'synced', 'off', '3 3', 'those of a sync table as well');
	sql($node, 'postgres', q{SELECT dc_flush()});
	is(sql($node, 'postgres', q{SELECT dc_reset('c', 'off'), dc_alter('synced', mode => 'exact'), dc_alter('synced', mode => 'buffered'), dc_sum('synced')}), '3|||3', 'and all else works');
	sql($node, 'postgres', 'SELECT dc_worker_start()');
	worker_runs($node, 'postgres');
	sql($node, 'postgres', q{SELECT dc_incr('c', 'off', 2)});
	state_is($node, 'c', 'off', '2 0', 'a worker again');

	# It comes and goes under load
	my $load = pgbench($node, '-c', 6, '-T', 2, '-M', 'prepared', '-f', file_of('leave.sql', "SELECT dc_incr('c', 'leave');\n"));
	foreach (1 .. 5)
	{
		sql($node, 'postgres', 'SELECT dc_worker_stop()');
		sql($node, 'postgres', 'SELECT dc_worker_start()');
		worker_runs($node, 'postgres');
	}
	sql($node, 'postgres', 'SELECT dc_worker_stop()');
	soon($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'}, '0', 'no worker any more');
	is(sql($node, 'postgres', q{SELECT coalesce(sum(keys), 0) FROM dc_stat_buffer}), '0', 'it leaves nothing behind, under load');
	my $n = processed($load);
	state_is($node, 'c', 'leave', "$n $n", 'all increments are in rows');
	sql($node, 'postgres', 'SELECT dc_worker_start()');
	worker_runs($node, 'postgres');
	return;
}

##
## Half of the tables that memory has slots for may be one role's

sub test_slots
{
	sql($node, 'postgres', q{
		CREATE ROLE slots;
		CREATE SCHEMA slots AUTHORIZATION slots;
		SET ROLE slots;
		SELECT count(dc_create('slots.t' || i, mode => 'buffered', flush_interval => '1 day')) FROM generate_series(1, 513) AS i;
		RESET ROLE;
		SELECT count(dc_incr(('slots.t' || i)::regclass, 'k')) FROM generate_series(1, 513) AS i;
		SELECT dc_create('slots.other', mode => 'buffered', flush_interval => '1 day');
		SELECT dc_incr('slots.other', 'k');});
	is(sql($node, 'postgres', q{SELECT count(*), sum(keys) FROM dc_stat_buffer WHERE counter::text LIKE 'slots.t%'}), '512|512', 'a role has half of the slots');
	is(sql($node, 'postgres', q{SELECT keys FROM dc_stat_buffer WHERE counter = 'slots.other'::regclass}), '1', 'and others have theirs');
	is(sql($node, 'postgres', q{SELECT dc_get('slots.t1', 'k'), dc_get('slots.t513', 'k')}), '1|1', 'all are counted');
	sql($node, 'postgres', 'DROP SCHEMA slots CASCADE; DROP ROLE slots');
	return;
}

##
## Memory is full

sub test_full
{
	my $tiny = buffer_node('tiny', "dcounter.buffer_size = '128kB'", "dcounter.compact_interval = '1h'");
	my $fill = q{SELECT count(dc_incr('c', 'key ' || i, i)) FROM generate_series(1, 20000) AS i};

	sql($tiny, 'postgres', q{
		SELECT dc_create('c', mode => 'buffered', flush_interval => '1 day'), dc_create('bad', mode => 'buffered', flush_interval => '1 day');});
	# half full: flushed long before the day is over
	sql($tiny, 'postgres', q{SELECT dc_incr('c', 'few ' || i) FROM generate_series(1, 10) AS i});
	is(sql($tiny, 'postgres', q{SELECT count(*) FROM c}), '0', 'a few keys are not flushed');
	sql($tiny, 'postgres', join(';', map { "SELECT dc_incr('c', 'some $_ ' || i) FROM generate_series(1, 50) AS i" } 1 .. 40));
	soon($tiny, q{SELECT count(*) > 100 FROM c}, 't', 'half full memory is flushed at once');
	is(sql($tiny, 'postgres', q{SELECT dc_sum('c')}), '2010', 'right');
	# one transaction with more than there is room for
	sql($tiny, 'postgres', "$fill; $fill");
	is(sql($tiny, 'postgres', q{SELECT dc_sum('c'), dc_get('c', 'key 1'), dc_get('c', 'key 20000'), (SELECT buffer_full > 0 FROM dc_stat_counters WHERE counter = 'c'::regclass)}),
		'400022010|2|40000|t', 'a transaction that does not fit goes to rows');
	# memory that cannot be flushed
	stuck($tiny, 'postgres', 'bad', 1);
	sql($tiny, 'postgres', q{
		SELECT dc_flush('c');
		DO $$ BEGIN FOR i IN 1 .. 5000 LOOP PERFORM dc_incr('bad', i::text || repeat('x', i % 1000)); COMMIT; END LOOP; END $$;});
	is(sql($tiny, 'postgres', q{SELECT dc_sum('bad'), (SELECT sum(inc) FROM bad_shard) BETWEEN 100 AND 4990}), '5000|t', 'memory is full of what cannot be flushed');
	sql($tiny, 'postgres', q{SELECT dc_incr('c', 'rows')});
	state_is($tiny, 'c', 'rows', '1 1', 'then others write rows');
	sql($tiny, 'postgres', q{SELECT count(dc_incr('bad', i::text || repeat('x', i % 1000), -1)) FROM generate_series(1, 5000) AS i});
	is(sql($tiny, 'postgres', q{SELECT dc_sum('bad'), (SELECT count(*) FROM dc_get_many('bad', ARRAY(SELECT i::text || repeat('x', i % 1000) FROM generate_series(1, 5000) AS i)) WHERE value <> 0)}), '0|0', 'nothing is lost');
	stuck($tiny, 'postgres', 'bad', 0);
	flush($tiny);
	is(sql($tiny, 'postgres', q{SELECT dc_sum('bad'), (SELECT count(*) FROM dc_get_many('bad', ARRAY(SELECT i::text || repeat('x', i % 1000) FROM generate_series(1, 5000) AS i)) WHERE value <> 0)}), '0|0', 'flushed at last');
	no_memory($tiny, 'memory is empty');
	sql($tiny, 'postgres', q{SELECT dc_incr('c', 'memory')});
	state_is($tiny, 'c', 'memory', '1 0', 'then there is room again');

	test_refused($tiny);
	test_leaks($tiny);
	$tiny->stop;
	return;
}

# A transaction with many keys whose reservation fails, and what its session does then:
# nothing of it is left. (A server with AddressSanitizer sees more than wrong counts.)
sub test_refused
{
	my ($tiny) = @_;
	my $many = sub { return "SELECT count(dc_incr('$_[0]', 'key ' || i)) FROM generate_series(1, $_[1]) AS i;" };
	my $great = "SELECT dc_incr('t', 'great', 1::bigint << 41);";
	my %sum = map { $_ => 0 } 't', 'u', 'e';

	sql($tiny, 'postgres', q{SELECT dc_create('t', mode => 'buffered', flush_interval => '1 day'), dc_create('u', mode => 'buffered', flush_interval => '1 day'), dc_create('e')});
	foreach (
		[ 'full memory', $many->('t', 1000), t => 1000 ],
		[ 'a great amount', "BEGIN; " . $many->('t', 40) . " $great COMMIT;", t => 40 + (1 << 41) ],
		[ 'a great amount alone', $great, t => 1 << 41 ],
		[ 'a great amount, beside another table', "BEGIN; " . $many->('t', 40) . $many->('u', 40) . " $great COMMIT;", t => 40 + (1 << 41), u => 40 ],
		[ 'full memory, in two tables', "BEGIN; " . $many->('t', 1000) . $many->('u', 1000) . " COMMIT;", t => 1000, u => 1000 ],
		[ 'an error at commit', "BEGIN; CREATE TEMP TABLE d (i int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO d VALUES (1), (1); " . $many->('t', 40) . " $great COMMIT;" ],
		[ 'PREPARE', "BEGIN; " . $many->('t', 40) . " $great PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p';", t => 40 + (1 << 41) ])
	{
		my ($what, $refused, %adds) = @$_;
		my $session = dc_session($tiny, 'postgres');

		foreach my $next (
			[ 'exact and buffered', "BEGIN; " . $many->('e', 1000) . $many->('t', 300) . " COMMIT;", e => 1000, t => 300 ],
			[ 'buffered', $many->('t', 30), t => 30 ],
			[ 'many tables', "BEGIN; " . $many->('e', 30) . $many->('t', 30) . $many->('u', 30) . " COMMIT;", e => 30, t => 30, u => 30 ],
			[ 'rolled back', "BEGIN; " . $many->('e', 30) . $many->('t', 30) . " ROLLBACK;" ])
		{
			my ($name, $sql, %more) = @$next;

			$session->run($refused);
			$session->run($sql);
			foreach my $counter (keys %sum)
			{
				$sum{$counter} += ($adds{$counter} // 0) + ($more{$counter} // 0);
			}
			is($session->run(q{SELECT dc_sum('t'), dc_sum('u'), dc_sum('e')}), "$sum{t}|$sum{u}|$sum{e}", "$what, then $name");
		}
		$session->quit;
		flush($tiny);
		is(sql($tiny, 'postgres', q{SELECT dc_sum('t'), dc_sum('u'), dc_sum('e')}), "$sum{t}|$sum{u}|$sum{e}", "$what, flushed");
	}
	sql($tiny, 'postgres', q{SELECT dc_drop(c) FROM unnest('{t,u,e}'::regclass[]) AS c});
	return;
}

# What is dropped gives its memory back: each round takes 40 percent of it, so that one
# that leaks leaves too little for the next but one.
sub test_leaks
{
	my ($tiny) = @_;
	my $bytes = sql($tiny, 'postgres', q{SELECT dc_flush(); SELECT dc_incr('c', 'room ' || i) FROM generate_series(1, 50) AS i; SELECT sum(memory) / 50 FROM dc_stat_buffer}) =~ s/^\n+//r;
	my $n = int(0.4 * 128 * 1024 / $bytes);
	my $fill = "SELECT count(dc_incr('t', 'key ' || i)) FROM generate_series(1, $n) AS i;";
	my $create = q{SELECT dc_create('t', mode => 'buffered', flush_interval => '1 day');};
	my $state = q{SELECT keys, (SELECT count(*) FROM t_shard) + (SELECT count(*) FROM t) FROM dc_stat_buffer WHERE counter = 't'::regclass};

	flush($tiny);
	cmp_ok($n, '>', 50, "$n keys for each round");
	foreach (
		[ 'DROP TABLE', 'DROP TABLE t, t_shard' ], [ 'dc_drop()', q{SELECT dc_drop('t')} ], [ 'TRUNCATE', q{TRUNCATE t; SELECT dc_drop('t')} ],
		[ 'DROP after a rollback of it', q{BEGIN; DROP TABLE t, t_shard; ROLLBACK; DROP TABLE t, t_shard} ],
		[ 'a flush', q{SELECT dc_flush('t'); SELECT dc_drop('t')} ], [ 'dc_alter()', q{SELECT dc_alter('t', mode => 'exact'); ALTER TABLE t RENAME TO u; DROP TABLE u; DROP TABLE t_shard} ],
		[ 'DROP SCHEMA', q{CREATE SCHEMA s; ALTER TABLE t SET SCHEMA s; ALTER TABLE s.t_shard SET SCHEMA public; DROP TABLE t_shard; SET client_min_messages = warning; DROP SCHEMA s CASCADE} ],
		[ 'DROP OWNED', q{CREATE ROLE owner; GRANT CREATE ON SCHEMA public TO owner; ALTER TABLE t OWNER TO owner; ALTER TABLE t_shard OWNER TO owner; DROP OWNED BY owner} ],
		[ 'increments of a transaction that drops', qq{BEGIN; $fill DROP TABLE t, t_shard; COMMIT} ])
	{
		sql($tiny, 'postgres', "$create $fill");
		is(sql($tiny, 'postgres', $state), "$n|0", "there is room for what comes before $_->[0]");
		$tiny->psql('postgres', $_->[1]);
	}
	foreach my $round (1 .. 3)
	{
		sql($tiny, 'postgres', 'CREATE DATABASE d');
		sql($tiny, 'd', 'CREATE EXTENSION dcounter');
		worker_begins($tiny, 'd');
		sql($tiny, 'd', "$create $fill");
		is(sql($tiny, 'd', $state), "$n|0", "there is room in database $round");
		stuck($tiny, 'd', 't', 1);
		sql($tiny, 'postgres', 'DROP DATABASE d WITH (FORCE)');
	}
	# Entries of transactions that fail when all is prepared for the commit
	sql($tiny, 'postgres', "$create CREATE TABLE skew (n int); INSERT INTO skew VALUES (0)");
	foreach (1 .. 3)
	{
		my @pair = map { dc_session($tiny, 'postgres') } 1 .. 2;

		$_->run('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(n) FROM skew; INSERT INTO skew VALUES (1)') foreach @pair;
		$_->run($fill) foreach @pair;
		is(join(' ', map { $_->run('COMMIT') } @pair), ' ERROR 40001', 'a serialization failure of increments');
		$_->quit foreach @pair;
		is(sql($tiny, 'postgres', q{SELECT dc_get('t', 'key 1')}), $_, '... counts nothing');
	}
	is(sql($tiny, 'postgres', $state), "$n|0", 'and takes no memory');
	return;
}

test_obstacles();
test_failing();
test_sync();
test_load();
test_stopped();
test_without_worker();
test_slots();
test_full();

end_sessions();
$node->stop;
done_testing();
