# Statistics with dcounter preloaded: what counts and what does not, contention, lag,
# hot keys, restarts, and who may see what. stats/stats_scale.pl has many tables.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = dc_node('stats', conf => [
		"shared_preload_libraries = 'dcounter'", 'dcounter.worker = off', 'autovacuum = off',
		'max_locks_per_transaction = 256', 'log_min_messages = log' ]);

# stat(COLUMNS [, COUNTER [, DATABASE]]): columns of a table's row
sub stat_of
{
	my ($columns, $counter, $database) = @_;

	$counter //= 'c';
	return sql($node, $database // 'postgres',
		"SELECT $columns FROM dc_stat_counters WHERE counter = '$counter'::regclass");
}

# shards_of(COLUMNS [, COUNTER]): columns of what is in its shard table
sub shards_of
{
	my ($columns, $counter) = @_;

	$counter //= 'c';
	return sql($node, 'postgres', "SELECT $columns FROM dc_stat_shards WHERE counter = '$counter'::regclass");
}

# wait_for_lock: until a session waits for a transaction to end
sub wait_for_lock
{
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'})
	  or die 'nobody waits';
	return;
}

# with_checksum(BYTES): these, and their CRC-32C in the machine's byte order
sub with_checksum
{
	my ($bytes) = @_;
	my $crc = 0xFFFFFFFF;

	foreach my $byte (unpack('C*', $bytes))
	{
		$crc ^= $byte;
		$crc = $crc & 1 ? ($crc >> 1) ^ 0x82F63B78 : $crc >> 1 foreach 1 .. 8;
	}
	return $bytes . pack('L', $crc ^ 0xFFFFFFFF);
}

my $written = 'increments, keys_written, early_writes';

sub test_increments
{
	sql($node, 'postgres', q{SELECT dc_create('c', totals => 'compacted'), dc_create('p', partitions => 2)});
	is(stat_of("$written, busy_skipped, splits, waits, keys_compacted, reads, writes_per_second, stats_reset <= clock_timestamp()"),
		'0|0|0|0|0|0|0|0|0|t', 'a new table');
	is(stat_of('last_compaction, last_compaction_duration, overflowed_keys, mean_read_time_ms, mean_flush_time_ms'), '||||', 'what has not happened is NULL');
	is(stat_of('buffered, buffer_full, flushes, keys_flushed, cache_hits, cache_misses, cache_evictions'), '0|0|0|0|0|0|0',
		'and of what needs to be asked for there is nothing');

	sql($node, 'postgres', q{SELECT dc_incr('c', 'a'), dc_incr('c', 'a'), dc_decr('c', 'a'), dc_incr('c', 'b', 5)});
	is(stat_of($written), '4|2|0', 'calls, and keys of a transaction');
	sql($node, 'postgres', q{
		SELECT dc_incr_many('c', ARRAY['a', 'b', 'a']); SELECT dc_incr_hashed('c', 'a', 'x'); SELECT dc_incr_returning('c', 'a', 3);});
	is(stat_of($written), '9|6|0', 'all ways to count');
	sql($node, 'postgres', q{SELECT dc_incr('c', 'a', 0), dc_set('c', 'new', 5), dc_reset('c', 'new'), dc_delete('c', 'new')});
	is(stat_of($written), '9|6|0', 'what adds nothing, and setting a key, are no increments');
	is(sql($node, 'postgres', q{BEGIN; SELECT dc_incr('c', 'a'); SELECT increments FROM dc_stat_counters WHERE counter = 'c'::regclass; ROLLBACK;}),
		"\n9", 'what is pending does not count');
	is(stat_of($written), '9|6|0', 'what is rolled back does not count');

	# Savepoints, also with early writes, which are undone and done again
	sql($node, 'postgres', q{
		BEGIN;
		SELECT dc_incr('c', 'a');
		SAVEPOINT s; SELECT dc_incr('c', 'a'), dc_incr('c', 'x'); ROLLBACK TO s;
		SAVEPOINT t; SELECT dc_incr('c', 'a'), dc_incr('c', 'b'); RELEASE t;
		COMMIT;});
	is(stat_of($written), '12|8|0', 'savepoints rolled back and released');
	sql($node, 'postgres', q{
		BEGIN;
		SELECT dc_incr('c', 'a');
		SAVEPOINT s; SELECT dc_incr('c', 'b'), dc_apply(), dc_incr('c', 'b'); ROLLBACK TO s;
		SELECT dc_incr('c', 'c');
		COMMIT;});
	is(stat_of($written), '14|10|0', 'an early write that was rolled back counts once, when it is done again');
	sql($node, 'postgres', q{
		BEGIN;
		SELECT dc_incr('c', 'a');
		SAVEPOINT s; SAVEPOINT t; SELECT dc_incr('c', 'b'); SELECT dc_apply(); RELEASE t;
		SELECT dc_incr('c', 'b'); SELECT dc_apply(); RELEASE s;
		SELECT dc_incr('c', 'b'); SELECT dc_apply();
		COMMIT;});
	is(stat_of($written), '18|14|0', 'early writes of released savepoints count');
	sql($node, 'postgres', q{
		BEGIN;
		SAVEPOINT s; SELECT dc_incr('p', 'early'), dc_apply(); RELEASE s;
		SAVEPOINT s; SELECT dc_incr('p', 'early'), dc_apply(); ROLLBACK TO s;
		SAVEPOINT t; SAVEPOINT u; SELECT dc_incr('p', 'early'), dc_apply(); RELEASE u; ROLLBACK TO t;
		COMMIT;
		SELECT dc_delete('p', 'early');});
	is(stat_of($written, 'p'), '1|1|0', 'also if others at their level are rolled back');
	sql($node, 'postgres', q{
		BEGIN;
		SAVEPOINT s; SELECT dc_incr('p', 'early'), dc_apply();
		SAVEPOINT t; SELECT dc_incr('p', 'early'), dc_apply(); RELEASE t;
		RELEASE s;
		COMMIT;
		SELECT dc_delete('p', 'early');});
	is(stat_of($written, 'p'), '3|3|0', 'those of two levels are added up');
	sql($node, 'postgres', q{SELECT dc_stat_reset('p')});
	sql($node, 'postgres', q{BEGIN; SELECT dc_incr('c', 'a'); SELECT dc_apply(); ROLLBACK;});
	is(stat_of($written), '18|14|0', 'early writes of a transaction that rolls back do not');
	sql($node, 'postgres', q{BEGIN; SELECT dc_incr('c', 'a'), dc_incr('p', 'a'); PREPARE TRANSACTION 'x'; COMMIT PREPARED 'x';});
	is(stat_of($written) . ' ' . stat_of($written, 'p'), '19|15|0 1|1|0', 'a prepared transaction');
	foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
	{
		sql($node, 'postgres', "BEGIN ISOLATION LEVEL $level; SELECT dc_incr('c', 'a'), dc_incr('p', 'a', 2), dc_incr('p', 'b'); COMMIT;");
	}
	is(stat_of($written) . ' ' . stat_of($written, 'p'), '21|17|0 5|5|0', 'all isolation levels');

	# What goes to the row of totals is nothing that compaction has to do.
	my $session = dc_session($node, 'postgres');
	sql($node, 'postgres', q{SELECT dc_create('t'); SELECT dc_incr('t', 'a'), dc_incr('t', 'b'); SELECT dc_incr('t', 'a'); SELECT dc_compact('t')});
	my $lag = stat_of('compaction_lag', 't');
	is(stat_of('keys_written, totals_written, compaction_lag', 't'), "3|3|$lag", 'rows of totals');
	sql($node, 'postgres', q{SELECT dc_incr('t', 'a')});
	is(stat_of('keys_written, totals_written, compaction_lag', 't'), "4|4|$lag", 'which leave no lag');
	$session->run(q{BEGIN; SELECT FROM t WHERE key = 'a' FOR UPDATE});
	sql($node, 'postgres', q{SELECT dc_incr('t', 'a')});
	is(stat_of(q{keys_written, totals_written, compaction_lag > '0'}, 't'), '5|4|t', 'and a shard row, which does');
	$session->run('COMMIT');
	sql($node, 'postgres', q{SELECT dc_drop('t')});
	$session->quit;

	# A commit that fails after the increments were written
	$node->psql('postgres', q{
		CREATE TABLE u (a int UNIQUE DEFERRABLE INITIALLY DEFERRED);
		BEGIN; SELECT dc_incr('c', 'a'); INSERT INTO u VALUES (1), (1); COMMIT;});
	is(stat_of($written), '21|17|0', 'a commit that fails does not count');

	sql($node, 'postgres', q{
		SET dcounter.pending_memory = '64kB';
		SELECT dc_incr_many('c', ARRAY(SELECT i::text FROM generate_series(1, 5000) AS i));});
	is(stat_of('increments, keys_written, early_writes > 5, early_writes < 50'), '5021|5017|t|t', 'early writes for want of memory');
	return;
}

sub test_reads
{
	my $sql = q{SELECT reads FROM dc_stat_counters WHERE counter = 'p'::regclass};

	is(sql($node, 'postgres', q{
		SELECT dc_get('p', 'a') >= 0; SELECT count(*) FROM dc_get_many('p', ARRAY['a', 'b']);
		SELECT dc_sum('p') >= 0; SELECT (dc_info('p', 'a')).value >= 0;} . $sql), "t\n2\nt\nt\n4", 'reads count');
	is(stat_of('mean_read_time_ms > 0, mean_read_time_ms < 1000', 'p'), 't|t', 'and take time');
	return;
}

sub test_compaction
{
	sql($node, 'postgres', q{SELECT dc_create('z', totals => 'compacted'); SELECT dc_incr_many('z', ARRAY['a', 'b', 'c']); SELECT dc_compact('z', 1);});
	is(stat_of('keys_compacted, last_compaction IS NULL', 'z') . ' ' . shards_of('active_keys', 'z'), '1|t 2', 'a compaction of some keys is not the last one of the table');
	sql($node, 'postgres', q{BEGIN; SELECT dc_compact('z'); ROLLBACK;});
	is(stat_of('keys_compacted, last_compaction IS NULL', 'z') . ' ' . shards_of('active_keys', 'z'), '1|t 2', 'nor is one that is rolled back');
	sql($node, 'postgres', q{SELECT dc_compact('z')});
	is(stat_of(q{keys_compacted, last_compaction BETWEEN now() - interval '1 hour' AND now(),
		last_compaction_duration BETWEEN '0' AND '1 hour'}, 'z') . ' ' . shards_of(q{active_keys, compaction_lag = '0'}, 'z'), '3|t|t 0|t', 'one of the whole table');
	# A row may hold changes since the last sweep began, however new its last one is.
	usleep(300_000);
	sql($node, 'postgres', q{SELECT dc_incr('z', 'a')});
	is(sql($node, 'postgres', q{SELECT s.compaction_lag >= now() - last_compaction, s.compaction_lag >= '300 ms', s.compaction_lag < '1 hour'
		FROM dc_stat_shards AS s JOIN dc_stat_counters USING (counter) WHERE counter = 'z'::regclass}), 't|t|t', 'the lag is that of the last compaction');
	sql($node, 'postgres', q{UPDATE z_shard SET updated_at = now() - interval '1 day'});
	is(shards_of(q{compaction_lag > '23 hours'}, 'z'), 't', 'and not less than the age of a row that it has not moved');
	sql($node, 'postgres', q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_sleep(0.1); SELECT dc_compact('z'); COMMIT;});
	is(stat_of(q{last_compaction_duration >= '100 ms'}, 'z'), 't', 'with one snapshot, it begins with the transaction');
	return;
}

# The lag as dc_stat_counters has it: of commits, without a look at rows
sub test_lag
{
	my $since = q{SELECT EXTRACT(epoch FROM clock_timestamp())};
	my $lag_from = sub {
		my ($counter, $from, $to) = @_;
		return stat_of("clock_timestamp() - compaction_lag BETWEEN to_timestamp($from) - interval '40 ms' AND to_timestamp($to) + interval '40 ms'", $counter);
	};

	sql($node, 'postgres', q{SELECT dc_create('lag', totals => 'compacted')});
	is(stat_of('compaction_lag', 'lag'), '', 'before anything is known there is no lag');
	my $t0 = sql($node, 'postgres', $since);
	sql($node, 'postgres', q{SELECT dc_incr('lag', 'a')});
	my $t1 = sql($node, 'postgres', $since);
	usleep(300_000);
	sql($node, 'postgres', q{SELECT dc_incr('lag', 'b')});
	is($lag_from->('lag', $t0, $t1), 't', 'it counts from the first commit');
	sql($node, 'postgres', q{SELECT dc_compact('lag', 1)});
	is($lag_from->('lag', $t0, $t1), 't', 'a compaction of some keys does not change that');
	sql($node, 'postgres', q{BEGIN; SELECT dc_compact('lag'); ROLLBACK;});
	is($lag_from->('lag', $t0, $t1), 't', 'nor does one that is rolled back');
	sql($node, 'postgres', q{SELECT dc_compact('lag')});
	is(stat_of('compaction_lag', 'lag'), '00:00:00', 'after one of the whole table there is none');
	sql($node, 'postgres', q{SELECT dc_get('lag', 'a'); BEGIN; SELECT dc_incr('lag', 'a'); SELECT dc_apply(); ROLLBACK;});
	is(stat_of('compaction_lag', 'lag'), '00:00:00', 'nor after a read, or what is rolled back');

	# A commit while the table is being compacted: in the transaction of that
	my $session = dc_session($node, 'postgres');
	$session->run(q{BEGIN; SELECT dc_incr('lag', 'before'); COMMIT; BEGIN});
	usleep(100_000);
	$t0 = sql($node, 'postgres', $since);
	$session->run(q{SELECT dc_compact('lag')});
	$t1 = sql($node, 'postgres', $since);
	sql($node, 'postgres', q{SELECT dc_incr('lag', 'meanwhile')});
	$session->run('COMMIT');
	is($lag_from->('lag', $t0, $t1), 't', 'a commit since a compaction began: from then on');
	is(shards_of('active_keys', 'lag'), '1', 'as it may not have seen that');
	$session->quit;

	# A key that it cannot move
	sql($node, 'postgres', q{SELECT dc_compact('lag')});
	is(stat_of('compaction_lag', 'lag'), '00:00:00', 'the next one has seen it');
	$t0 = sql($node, 'postgres', $since);
	sql($node, 'postgres', q{BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT dc_incr('lag', 'k', 9223372036854775807); COMMIT});
	$t1 = sql($node, 'postgres', $since);
	usleep(100_000);
	sql($node, 'postgres', q{BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT dc_incr('lag', 'k', 9223372036854775807); COMMIT});
	sql($node, 'postgres', q{SELECT dc_compact('lag')});
	is(stat_of('overflowed_keys', 'lag') . ' ' . $lag_from->('lag', $t0, $t1), '1 t', 'a key that it cannot move has the lag grow');
	sql($node, 'postgres', q{SELECT dc_drop('lag')});
	return;
}

# Rows that are locked: in one session directly, and by SQL
sub test_contention
{
	my @sessions = map { dc_session($node, 'postgres') } 1 .. 3;

	sql($node, 'postgres', q{SELECT dc_create('busy', max_shards => 2, totals => 'compacted'); SELECT dc_incr('busy', 'a')});
	$sessions[0]->run(q{BEGIN; UPDATE busy_shard SET inc = inc});
	$sessions[1]->run(q{SELECT dc_incr('busy', 'a')});
	is(stat_of('busy_skipped > 0, splits, waits', 'busy') . ' ' . shards_of('shard_rows', 'busy'), 't|1|0 2', 'a busy row is passed over, and the key splits');
	$sessions[0]->run('COMMIT');
	$sessions[0]->run(q{BEGIN; UPDATE busy_shard SET inc = inc});
	$sessions[2]->send(q{SELECT dc_incr('busy', 'a')});
	wait_for_lock();
	$sessions[0]->run('COMMIT');
	$sessions[2]->wait;
	is(stat_of('increments, splits, waits > 0', 'busy') . ' ' . shards_of('shard_rows, shard_imbalance', 'busy'), '3|1|t 2|1.3333333333333333', 'with max_shards rows it waits');

	sql($node, 'postgres', q{SELECT dc_create('busy_p', max_shards => 1, partitions => 1); SELECT dc_incr('busy_p', 'a')});
	$sessions[0]->run(q{BEGIN; UPDATE busy_p_shard SET inc = inc});
	$sessions[1]->send(q{SELECT dc_incr('busy_p', 'a')});
	wait_for_lock();
	$sessions[0]->run('COMMIT');
	$sessions[1]->wait;
	is(stat_of('increments, waits > 0', 'busy_p'), '2|t', 'so it does by SQL');

	# DDL in progress: no numbers from rows of that table, and no wait; the others are there
	my $busy = q{SET statement_timeout = '10s'; SELECT counter, increments, shard_rows FROM dc_stat_counters JOIN dc_stat_shards USING (counter)
		WHERE counter::text ~ '^busy' ORDER BY counter::text};
	$sessions[0]->run(q{BEGIN; LOCK busy_shard IN ACCESS EXCLUSIVE MODE});
	is(sql($node, 'postgres', $busy), "busy|3|\nbusy_p|2|1", 'a locked table');
	$sessions[0]->run('COMMIT');
	$sessions[0]->run(q{BEGIN; LOCK busy_p_shard_p0 IN ACCESS EXCLUSIVE MODE});
	is(sql($node, 'postgres', $busy), "busy|3|2\nbusy_p|2|", 'a locked partition');
	$sessions[0]->run('COMMIT');
	$_->quit foreach @sessions;

	sql($node, 'postgres', q{INSERT INTO busy_shard (key, shard) SELECT i, 0 FROM generate_series(1, 500000) AS i});
	fails_with($node, 'postgres', q{SET statement_timeout = '10ms'; SELECT count(*) FROM dc_stat_shards}, '57014', 'a cancelled query');
	sql($node, 'postgres', q{SELECT dc_drop('busy'), dc_drop('busy_p')});
	return;
}

sub test_hot_keys
{
	my $long = 'x' x 600;

	sql($node, 'postgres', qq{
		SELECT dc_create('h', totals => 'compacted');
		DO \$\$ BEGIN
			FOR i IN 1 .. 4000 LOOP
				PERFORM dc_incr('h', 'hot'), dc_incr('h', '$long', 3), dc_incr('h', 'cold ' || i);
				IF i % 3 = 0 THEN PERFORM dc_incr('h', 'warm'), dc_incr('h', '${long}y'); END IF;
				IF i % 2 = 0 THEN PERFORM dc_incr('h', 'hot'); END IF;
				COMMIT;
			END LOOP;
		END \$\$;});
	like(sql($node, 'postgres', q{
		SELECT string_agg(CASE WHEN key = repeat('x', 255) THEN 'long' ELSE key END, ' ')
		FROM (SELECT key FROM dc_stat_hot_keys WHERE counter = 'h'::regclass LIMIT 4) AS h}),
		qr/^hot long (long warm|warm long)$/, 'the hot keys are those with the most writes, long ones cut');
	is(sql($node, 'postgres', q{SELECT count(*) <= 16, bool_and(max_error <= writes_per_second),
		bool_and(max_error = 0) FILTER (WHERE key = 'hot') FROM dc_stat_hot_keys WHERE counter = 'h'::regclass}), 't|t|t', 'there are few of them');
	# 6000 writes in the time since the table was made, of which a sample is counted
	is(sql($node, 'postgres', q{
		SELECT h.writes_per_second * greatest(1, extract(epoch FROM clock_timestamp() - stats_reset)) BETWEEN 4200 AND 7800
		FROM dc_stat_hot_keys AS h JOIN dc_stat_counters USING (counter) WHERE key = 'hot'}) // '', 't', 'the rate of the hottest');
	# after a period of 5 s
	ok($node->poll_query_until('postgres', q{SELECT writes_per_second BETWEEN 50 AND 5000 FROM dc_stat_counters WHERE counter = 'h'::regclass}),
		'writes a second are seen once a period is over');
	return;
}

sub test_privileges
{
	my $see = q{SELECT string_agg(counter::text, ' ' ORDER BY counter::text) FROM dc_stat_counters;
		SELECT string_agg(DISTINCT counter::text, ' ') FROM dc_stat_hot_keys;
		SELECT string_agg(DISTINCT counter::text, ' ') FROM dcounter.stat_hot_keys();
		SELECT string_agg(counter::text, ' ' ORDER BY counter::text) FROM dc_stat_shards;
		SELECT count(*), count(s.tables) FROM dcounter.stat_memory() AS s, dc_stat_memory;};

	sql($node, 'postgres', q{
		CREATE ROLE reader; GRANT SELECT ON c TO reader;
		CREATE ROLE monitor IN ROLE pg_monitor;
		CREATE ROLE nobody; GRANT INSERT, UPDATE, DELETE ON h TO nobody;});
	is(sql($node, 'postgres', "SET ROLE reader; $see"), "c\nc\nc\nc\n0|0", 'a reader of one table');
	is(sql($node, 'postgres', "SET ROLE nobody; $see"), "\n\n\n\n0|0", 'who can read none');
	like(sql($node, 'postgres', "SET ROLE monitor; $see"), qr/^c h p z\n(.* h.*)\n\1\nc h p z\n1\|1$/, 'pg_monitor');
	fails_with($node, 'postgres', "SET ROLE $_; SELECT dc_stat_reset('c')", '42501', "$_ may not reset") foreach 'reader', 'monitor';
	return;
}

sub test_reset
{
	my $z = stat_of('increments, keys_compacted, last_compaction', 'z');

	sql($node, 'postgres', q{SELECT dc_stat_reset('c')});
	is(stat_of("$written, busy_skipped, splits, waits, keys_compacted, reads, mean_read_time_ms, writes_per_second, stats_reset > now() - interval '1 minute'"),
		'0|0|0|0|0|0|0|0||0|t', 'a table is reset');
	is(sql($node, 'postgres', q{SELECT count(*) FROM dc_stat_hot_keys WHERE counter = 'c'::regclass}), '0', 'with its hot keys');
	is(stat_of('increments, keys_compacted, last_compaction', 'z'), $z, 'and no other');
	sql($node, 'postgres', q{ALTER TABLE h OWNER TO nobody; SET ROLE nobody; SELECT dc_stat_reset()});
	is(stat_of('increments, keys_compacted, last_compaction', 'z') . ' ' . stat_of('increments', 'h'), "$z 0", 'by default, one resets what one owns');
	sql($node, 'postgres', q{SELECT dc_stat_reset()});
	is(stat_of('increments, keys_compacted, last_compaction IS NOT NULL', 'z'), '0|0|t', 'the time of the last compaction stays');
	return;
}

sub test_restarts
{
	my $columns = "$written, splits, keys_compacted, reads, mean_read_time_ms, last_compaction, last_compaction_duration, compaction_lag IS NULL, stats_reset";
	my $file = $node->data_dir . '/pg_stat/dcounter.stat';
	my ($before, $other);

	sql($node, 'postgres', q{
		SELECT dc_incr('z', 'a'), dc_incr('z', 'b'); SELECT dc_compact('z'); SELECT dc_incr('z', 'c'); SELECT dc_get('z', 'a');
		CREATE DATABASE other;});
	sql($node, 'other', q{CREATE EXTENSION dcounter; SELECT dc_create('z', totals => 'compacted'); SELECT dc_incr('z', 'a')});
	$before = stat_of($columns, 'z');
	$other = stat_of($columns, 'z', 'other');
	$node->stop('fast');
	ok(-e $file, 'a clean shutdown leaves a file');
	my $saved = slurp_file($file);
	$node->start;
	ok(-e $file, 'which stays after the start');
	is(stat_of($columns, 'z'), $before, 'numbers are kept over a clean restart');
	fails_to_start($node);
	is(stat_of($columns, 'z'), $before, 'and over a start that fails');
	is(stat_of($columns, 'z', 'other'), $other, 'in all databases');

	$node->stop('immediate');
	$node->start;
	is(stat_of("$written, last_compaction, compaction_lag", 'z'), '0|0|0||', 'and start anew after a crash');
	sql($node, 'postgres', q{SELECT dc_incr('z', 'c')});

	# A file that is not as it was written
	my %broken = (
		'empty' => '',
		'short' => substr($saved, 0, -1),
		'long' => "$saved ",
		'of another format' => with_checksum(substr($saved, 0, 4) . chr(99) . substr($saved, 5, -4)),
		'changed' => substr($saved, 0, 40) . chr(ord(substr($saved, 40, 1)) ^ 1) . substr($saved, 41),
		'with too few members' => with_checksum(substr($saved, 0, 12) . pack('L', unpack('x12 L', $saved) + 1) . substr($saved, 16, -4)),
		'with too many members' => with_checksum(substr($saved, 0, 12) . pack('L', 0xFFFFFFFF) . substr($saved, 16, -4)));
	is(with_checksum(substr($saved, 0, -4)), $saved, 'the checksum is CRC-32C');
	foreach my $how (sort keys %broken)
	{
		my $offset = -s $node->logfile;

		$node->stop('fast');
		open(my $fh, '>:raw', $file) or die $!;
		print $fh $broken{$how};
		close $fh or die $!;
		$node->start;
		is(stat_of($written, 'z'), '0|0|0', "a file that is $how is ignored");
		like(substr(slurp_file($node->logfile), $offset), $how eq 'of another format' ? qr/LOG:  file ".*" has format/ : qr/LOG:  ignoring invalid data in file/, 'and the log says so');
	}
	# A file of before the crash does not come back
	$node->stop('immediate');
	open(my $fh, '>:raw', $file) or die $!;
	print $fh $saved;
	close $fh or die $!;
	$node->start;
	is(stat_of($written, 'z'), '0|0|0', 'an old file is not used after a crash');
	$node->stop('fast');
	open($fh, '>:raw', $file) or die $!;
	print $fh $saved;
	close $fh or die $!;
	$node->start;
	is(stat_of($written, 'z'), '0|0|0', 'nor is that of an earlier shutdown after a clean one');
	return;
}

test_increments();
test_reads();
test_compaction();
test_lag();
test_contention();
test_hot_keys();
test_privileges();
test_reset();
test_restarts();
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal/, 'nothing has crashed');
$node->stop;
done_testing();
