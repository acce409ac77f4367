# Statistics of many counter tables: all of 2,000 have them, and none is read for them; more
# tables than dcounter.stats_size has room for; drops, restarts, and sessions at once.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my @conf = ("shared_preload_libraries = 'dcounter'", 'dcounter.worker = off', 'autovacuum = off', 'fsync = off',
	'max_locks_per_transaction = 1024', 'log_min_messages = log');
my $node;
my $counted = q{SELECT count(increments), count(*) FROM dc_stat_counters};

# increments_of(TABLES...): of each, "none" if it has no statistics
sub increments_of
{
	my (@tables) = @_;
	my $list = join(',', @tables);

	return sql($node, 'postgres', qq{SELECT string_agg(coalesce(increments::text, 'none'), ' ' ORDER BY n)
		FROM unnest('{$list}'::regclass[]) WITH ORDINALITY AS t(counter, n) JOIN dc_stat_counters USING (counter)});
}

sub max_tables
{
	return sql($node, 'postgres', 'SELECT max_tables FROM dc_stat_memory');
}

##
## 2,000 tables with the settings of a new server

my $many = 2000;

sub test_many
{
	$node = dc_node('many', conf => \@conf);
	sql($node, 'postgres', "SELECT count(dc_create('t' || i, totals => 'compacted')) FROM generate_series(1, $many) AS i");
	is(sql($node, 'postgres', "SELECT max_tables >= $many, tables, without_statistics, evicted FROM dc_stat_memory"), "t|0|$many|0", 'there is room for all');
	sql($node, 'postgres', qq{
		DO \$\$ BEGIN FOR i IN 1 .. $many LOOP PERFORM dc_incr('t' || i, 'a', 7), dc_incr('t' || i, 'b'); COMMIT; END LOOP; END \$\$});
	is(sql($node, 'postgres', 'SELECT tables, without_statistics FROM dc_stat_memory'), "$many|0", 'a table takes it when it is used');
	is(sql($node, 'postgres', 'SELECT count(*), min(increments), max(increments), min(keys_written), max(keys_written) FROM dc_stat_counters'), "$many|2|2|2|2", 'all have statistics, which are right');
	unlike(slurp_file($node->logfile), qr/no statistics are collected for counter table/, 'and the log does not complain');
	test_no_table_is_read();
	my $all = sql($node, 'postgres', 'SELECT md5(string_agg(s::text, chr(10) ORDER BY counter)) FROM (SELECT counter, increments, keys_written, stats_reset FROM dc_stat_counters) AS s');
	$node->restart;
	is(sql($node, 'postgres', 'SELECT tables FROM dc_stat_memory'), $many, 'all are kept over a restart');
	is(sql($node, 'postgres', 'SELECT md5(string_agg(s::text, chr(10) ORDER BY counter)) FROM (SELECT counter, increments, keys_written, stats_reset FROM dc_stat_counters) AS s'), $all, '... as they were');
	$node->stop;
	return;
}

# dc_stat_counters locks no table of a counter, reads none and waits for none.
sub test_no_table_is_read
{
	my $scans = q{SELECT sum(seq_scan + coalesce(idx_scan, 0)) FROM pg_stat_user_tables WHERE schemaname = 'public'};
	my $session = dc_session($node, 'postgres');
	my $before = sql($node, 'postgres', $scans);
	sql($node, 'postgres', q{CREATE SCHEMA aside; CREATE TABLE aside.before AS SELECT relid, seq_scan + idx_scan AS scans FROM pg_stat_user_tables WHERE schemaname = 'public'});

	$session->run('BEGIN; LOCK t1, t2_shard IN ACCESS EXCLUSIVE MODE; ALTER INDEX t3_shard_pkey RENAME TO i');
	is(sql($node, 'postgres', q{SET statement_timeout = '30s'; SELECT count(increments) FROM dc_stat_counters}), $many, 'locked tables are shown with the others');
	is(sql($node, 'postgres', q{SET statement_timeout = '30s'; SELECT count(*) FROM dc_stat_hot_keys WHERE counter = 't1'::regclass AND writes_per_second < 0}), '0', 'and their hot keys');
	$session->run('ROLLBACK');
	$session->quit;
	is(sql($node, 'postgres', q{
		BEGIN; CREATE TEMP TABLE s AS SELECT * FROM dc_stat_counters;
		SELECT count(*) FROM pg_locks AS l JOIN dcounter.counter AS c ON l.relation IN (c.counter, c.shards) WHERE l.pid = pg_backend_pid(); COMMIT;}), '0', 'it locks none');
	is(sql($node, 'postgres', "SELECT pg_stat_force_next_flush(); $scans") =~ s/^\n//r, $before, 'and reads none');
	is(sql($node, 'postgres', q{SELECT counter, shard_rows, active_keys, pending_amount FROM dc_stat_shards WHERE counter = 't7'::regclass}), 't7|2|2|8', 'dc_stat_shards reads the one that it is asked for');
	is(sql($node, 'postgres', q{SELECT pg_stat_force_next_flush();
		SELECT string_agg(relname, ' ') FROM (SELECT u.relname FROM pg_stat_user_tables AS u JOIN aside.before USING (relid) WHERE u.seq_scan + u.idx_scan > scans LIMIT 9) AS s}) =~ s/^\n//r, 't7_shard', '... and no other');
	return;
}

##
## More tables than there is memory for

my $room;

sub test_limit
{
	my $offset = -s $node->logfile;
	my $tables = $room + 10;

	sql($node, 'postgres', "SELECT dc_create('t' || i) FROM generate_series(1, $tables) AS i");
	my $session = dc_session($node, 'postgres');
	$session->run("SELECT count(dc_incr('t' || i, 'a')) FROM generate_series(1, $tables) AS i") foreach 1, 2;
	# one entry belongs to the other database
	is(sql($node, 'postgres', $counted), join('|', $room - 1, $tables), 'as many tables as there is memory for have statistics');
	is(sql($node, 'postgres', 'SELECT sum(increments) FROM dc_stat_counters'), 2 * ($room - 1), 'which are right');
	is(sql($node, 'postgres', 'SELECT tables, max_tables, without_statistics, evicted FROM dc_stat_memory'), "$room|$room|11|0", 'the others can be seen');
	my $n = () = substr(slurp_file($node->logfile), $offset) =~ /LOG:  no statistics are collected for counter table/g;
	is($n, 1, 'the log says once that there are some');
	is(sql($node, 'postgres', qq{SELECT count(*) FROM generate_series(1, $tables) AS i WHERE dc_get('t' || i, 'a') <> 2}), '0', 'all count');

	# Dropped tables make room, also for tables that a session knows already.
	# What is rolled back does not.
	sql($node, 'postgres', q{BEGIN; SELECT dc_drop('t1'); ROLLBACK; BEGIN; SAVEPOINT s; DROP TABLE t2; ROLLBACK TO s; COMMIT;
		BEGIN; SELECT dc_drop('t3'); PREPARE TRANSACTION 'x'; ROLLBACK PREPARED 'x';});
	is(increments_of(qw(t1 t2 t3)), '2 2 2', 'a drop that is rolled back changes nothing');
	sql($node, 'postgres', q{SELECT dc_drop('t1'); DROP TABLE t2, t2_shard; DROP TABLE t3;});
	is(sql($node, 'postgres', 'SELECT tables FROM dc_stat_memory'), $room - 3, 'dropped tables leave');
	$session->run("SELECT dc_incr(counter, 'b') FROM dcounter.counter");
	is(sql($node, 'postgres', $counted), join('|', $room - 1, $tables - 3), '... and make room for others');
	is(sql($node, 'postgres', q{SELECT string_agg(increments || 'x' || n, ' ' ORDER BY increments DESC)
		FROM (SELECT increments, count(*) AS n FROM dc_stat_counters WHERE increments IS NOT NULL GROUP BY 1) AS g}),
		'3x' . ($room - 4) . ' 1x3', '... which start at zero');

	# A session that remembers the entry of a dropped table
	sql($node, 'postgres', q{SELECT dc_drop('t4'), dc_drop('t5'); SELECT dc_create('t4'), dc_create('t5'); SELECT dc_incr('t5', 'a'), dc_incr('t4', 'a');});
	$session->run("SELECT dc_incr('t' || i, 'a') FROM generate_series(4, 8) AS i");
	is(increments_of(qw(t4 t5 t6 t7 t8)), '2 2 4 4 4', 'a session adds to the right table');

	# Its database is dropped; by a prepared transaction: that is found when it is needed
	sql($node, 'postgres', 'DROP DATABASE other');
	is(sql($node, 'postgres', 'SELECT tables FROM dc_stat_memory'), $room - 1, 'tables of a dropped database leave');
	sql($node, 'postgres', q{BEGIN; SELECT dc_drop('t6'); PREPARE TRANSACTION 'x'; COMMIT PREPARED 'x';});
	my $without = sql($node, 'postgres', q{SELECT counter FROM dc_stat_counters WHERE increments IS NULL ORDER BY 1 LIMIT 1});
	is($without =~ /^t/ ? 1 : 0, 1, 'some have none');
	is(wait_for($node, 'postgres', qq{SELECT dc_incr(counter, 'c') FROM dcounter.counter; SELECT evicted || ' ' || count(increments) FROM dc_stat_counters, dc_stat_memory GROUP BY evicted}, ("\n" x ($tables - 4)) . "0 $room") =~ s/^\n+//r,
		"0 $room", 'the entry of a table that is gone is found');
	$session->quit;
	return;
}

# A table of a transaction in progress is not taken for one that is gone.
sub test_fresh
{
	my $session = dc_session($node, 'postgres');

	sql($node, 'postgres', q{SELECT dc_drop('t7')});
	$session->run(q{BEGIN; SELECT dc_create('fresh'); SELECT dc_incr('fresh', 'a')});
	usleep(10_500_000);    # the time until it is looked for again
	sql($node, 'postgres', q{SELECT dc_create('more'); SELECT dc_incr('more', 'a')});
	$session->run('COMMIT');
	$session->quit;
	is(increments_of('fresh', 'more'), '1 none', 'the entry of a new table stays its own');
	return;
}

##
## Tables that are not used lose theirs to others

# Other tests do their work on other servers while the tables grow old that are not used.
my %old;

sub begin_old
{
	$node = $old{node} = dc_node('old', conf => [ @conf, 'dcounter.stats_size = 64kB' ]);
	$room = max_tables();
	sql($node, 'postgres', "SELECT dc_create('u' || i) FROM generate_series(1, $room) AS i; SELECT dc_create('v' || i) FROM generate_series(1, 3) AS i");
	$old{session} = dc_session($node, 'postgres');
	$old{locked} = dc_session($node, 'postgres');
	$old{session}->run("SELECT dc_incr('u' || i, 'a') FROM generate_series(2, $room) AS i");
	sql($node, 'postgres', q{BEGIN; SELECT dc_incr('u2', 'a'); PREPARE TRANSACTION 'old';});
	$old{locked}->run(q{BEGIN; SELECT dc_get('u3', 'a'), dc_incr('u3', 'b')});
	usleep(2_100_000);    # by a second or two is known when a table was used: u1 later than those
	$old{session}->run(q{SELECT dc_incr('u1', 'a')});
	is(increments_of('v1', 'v2', 'v3'), 'none none none', 'tables without statistics');
	$old{used} = "SELECT count(dc_incr('u' || i, 'a')) FROM generate_series(4, $room - 1) AS i; SELECT dc_get('u$room', 'a')";
	return;
}

sub end_old
{
	$node = $old{node};
	my $n = 0;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;

	until (sql($node, 'postgres', 'SELECT evicted FROM dc_stat_memory') > 0 || time > $end)
	{
		$old{session}->run($old{used});
		sql($node, 'postgres', q{SELECT dc_incr('v1', 'a')});
		$n++;
		usleep(500_000);
	}
	is(sql($node, 'postgres', 'SELECT evicted, tables, without_statistics FROM dc_stat_memory'), "1|$room|3", 'a table loses its statistics to another one');
	is(increments_of('u1'), 'none', 'the one that was not used for longest');
	is(increments_of('v1'), '1', 'the other one begins at zero');
	is(increments_of(map { "u$_" } 4 .. $room - 1), join(' ', (1 + $n) x ($room - 4)), 'those in use keep them');
	is(increments_of("u$room"), '1', '... reading is a use as well');
	is(increments_of('u2', 'u3'), '2 1', '... and those that are locked, by a prepared transaction or another one');
	$old{locked}->run('COMMIT');
	is(increments_of('u3'), '2', '... whose work is counted when it commits');
	sql($node, 'postgres', q{COMMIT PREPARED 'old'});

	# Who remembers the entry of u1 does not add to v1, which has it now
	$old{session}->run(q{SELECT dc_incr('u1', 'a')}) foreach 1 .. 3;
	is(increments_of('u1', 'v1'), 'none 1', 'a session that remembers the entry does not add to it');
	is(sql($node, 'postgres', q{SELECT dc_get('u1', 'a'), dc_get('v1', 'a') >= 1}), '4|t', 'and counts as ever');
	$_->quit foreach $old{session}, $old{locked};
	return;
}

##
## Restarts with another size

sub test_sizes
{
	my $kept = sql($node, 'postgres', q{SELECT string_agg(counter || '=' || increments, ' ' ORDER BY counter::text) FROM dc_stat_counters WHERE increments IS NOT NULL});

	$node->append_conf('postgresql.conf', 'dcounter.stats_size = 128kB');
	$node->restart;
	is(max_tables() >= 2 * $room, 1, 'more memory, more tables');
	is(sql($node, 'postgres', qq{SELECT string_agg(counter || '=' || increments, ' ' ORDER BY counter::text) FROM dc_stat_counters WHERE increments > 0}), $kept, 'all are taken over');
	sql($node, 'postgres', 'SELECT dc_drop(counter) FROM dcounter.counter');
	sql($node, 'postgres', "SELECT dc_create('w' || i) FROM generate_series(1, 2 * $room) AS i");
	sql($node, 'postgres', "SELECT dc_incr('w' || i, 'a') FROM generate_series(1, 2 * $room) AS i");
	usleep(2_100_000);
	sql($node, 'postgres', "SELECT dc_incr('w' || i, 'a') FROM generate_series(2, 2 * $room, 2) AS i");
	$node->append_conf('postgresql.conf', 'dcounter.stats_size = 64kB');
	$node->restart;
	is(sql($node, 'postgres', q{SELECT count(*), min(increments), max(increments) FROM dc_stat_counters WHERE increments IS NOT NULL}), "$room|2|2",
		'with less memory those are taken over that were used last');
	return;
}

##
## Sessions at once: tables are dropped and created, others take their entries, and whoever
## adds does so to the right one

sub test_concurrent
{
	my $seconds = torture(5, 60);
	my $tables = 2 * $room;

	sql($node, 'postgres', 'SELECT dc_drop(counter) FROM dcounter.counter');
	sql($node, 'postgres', qq{
		SELECT dc_create('k' || i) FROM generate_series(1, 3) AS i;
		SELECT dc_incr('k' || i, 'a') FROM generate_series(1, 3) AS i;
		CREATE TABLE dropped (n bigint);
		CREATE PROCEDURE churn(seconds int) LANGUAGE plpgsql AS \$\$
		DECLARE name text; until timestamptz = clock_timestamp() + seconds * interval '1 s';
		BEGIN
			WHILE clock_timestamp() < until LOOP
				name := 'x' || pg_backend_pid() || '_' || floor(random() * $tables);
				IF to_regclass(name) IS NULL THEN PERFORM dc_create(name);
				ELSE PERFORM dc_drop(name::regclass); END IF;
				COMMIT;
			END LOOP;
		END \$\$;
		CREATE PROCEDURE adds(seconds int) LANGUAGE plpgsql AS \$\$
		DECLARE t regclass; until timestamptz = clock_timestamp() + seconds * interval '1 s';
		BEGIN
			WHILE clock_timestamp() < until LOOP
				PERFORM dc_incr('k' || 1 + floor(random() * 3), 'a');
				FOR t IN SELECT c.counter FROM dcounter.counter AS c ORDER BY random() LIMIT 4 LOOP
					BEGIN
						PERFORM dc_incr(t, 'a'), dc_get(t, 'a');
					EXCEPTION WHEN OTHERS THEN -- it is being dropped
						NULL;
					END;
				END LOOP;
				COMMIT;
			END LOOP;
		END \$\$;
		CREATE PROCEDURE looks(seconds int) LANGUAGE plpgsql AS \$\$
		DECLARE until timestamptz = clock_timestamp() + seconds * interval '1 s';
		BEGIN
			WHILE clock_timestamp() < until LOOP
				PERFORM count(*) FROM dc_stat_counters;
				PERFORM count(*) FROM dc_stat_hot_keys;
				COMMIT;
			END LOOP;
		END \$\$;});
	my @jobs = map { start_job($node, 'postgres', file_of("job_$_", "CALL $_($seconds);\n")) } qw(churn adds looks);
	push @jobs, map { start_job($node, 'postgres', file_of("job_more_$_", "CALL $_($seconds);\n")) } qw(churn adds adds);
	finish_job($_) foreach @jobs;
	is(join('', map { $_->{err} } @jobs), '', 'sessions that count, look, create and drop');
	is(sql($node, 'postgres', q{SELECT count(*) FROM dc_stat_counters WHERE increments > dc_sum(counter)}), '0', 'nothing was counted for another table');
	is(sql($node, 'postgres', q{SELECT string_agg(counter::text, ' ') FROM dc_stat_counters WHERE counter::text ~ '^k' AND increments IS DISTINCT FROM dc_sum(counter)}), '', 'and nothing is missing where there was an entry all the time');
	cmp_ok(sql($node, 'postgres', q{SELECT sum(increments) FROM dc_stat_counters WHERE counter::text ~ '^k'}), '>', 100, '... which was used');
	sql($node, 'postgres', 'SELECT dc_drop(counter) FROM dcounter.counter');
	is(sql($node, 'postgres', 'SELECT tables, evicted FROM dc_stat_memory'), '0|0', 'no entry is left over');
	return;
}

begin_old();
test_many();
$node = dc_node('few', conf => [ @conf, 'dcounter.stats_size = 64kB' ]);
cmp_ok($room, '>=', 10, 'a small memory has room for some');
sql($node, 'postgres', 'CREATE DATABASE other');
sql($node, 'other', q{CREATE EXTENSION dcounter; SELECT dc_create('z'); SELECT dc_incr('z', 'a')});
test_limit();
test_fresh();
test_concurrent();
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal/, 'nothing has crashed');
end_old();
test_sizes();
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal/, 'nothing has crashed');
$node->stop;
done_testing();
