# Fairness of the worker: while one owner's tables keep it busy, make it wait or cannot be processed, another owner's
# amounts are compacted and flushed, holds expire, distinct tables are folded, and sources verified. Idle, that takes a second or
# two here, and under each of these loads it should take no more than 3 s longer. The limit leaves room for a slow machine; where a
# table's turn had no bound, half of these took much longer, and some never ended.
use strict;
use warnings;

use DcTest;
use DcWorker;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# seconds
my $late = 25;
my $give_up = 60;

my $node = dc_node('fair', conf => [
		"shared_preload_libraries = 'dcounter'", 'autovacuum = off', 'max_locks_per_transaction = 256', "dcounter.window_interval = '500ms'", "dcounter.buffer_size = '128MB'", 'dcounter.verify_rate = 0' ]);

sql($node, 'postgres', q{
	CREATE ROLE alice; CREATE SCHEMA a AUTHORIZATION alice;
	CREATE ROLE mallory; CREATE SCHEMA m AUTHORIZATION mallory;
	SET ROLE alice;
	SELECT dc_create('a.compacted', totals => 'compacted'), dc_create('a.buffered', mode => 'buffered', durability => 'async'),
		dc_stock_create('a.stock'), dc_distinct_create('a.visitors');
	SELECT dc_restock('a.stock', 'seat', 1000);
	CREATE TABLE a.took (load text, what text, seconds numeric);
	CREATE FUNCTION a.done(what text, load text) RETURNS boolean LANGUAGE sql AS $$
		SELECT CASE what WHEN 'compaction' THEN EXISTS (SELECT FROM a.compacted WHERE key = load)
			WHEN 'flush' THEN EXISTS (SELECT FROM a.buffered WHERE key = load UNION ALL SELECT FROM a.buffered_shard WHERE key = load)
			WHEN 'expiry' THEN NOT EXISTS (SELECT FROM a.stock_hold WHERE state = 'open')
			WHEN 'folding' THEN NOT EXISTS (SELECT FROM a.visitors_delta) END $$;
	CREATE PROCEDURE a.measure(load text, give_up int) LANGUAGE plpgsql AS $$
		DECLARE
			began timestamptz;
			waiting text[] := '{compaction,flush,expiry,folding}';
			one text;
		BEGIN
			PERFORM dc_incr('a.compacted', load), dc_incr('a.buffered', load), dc_hold('a.stock', 'seat', 1, '1 s'), dc_add('a.visitors', 'page', load);
			COMMIT;
			began := clock_timestamp();
			WHILE waiting <> '{}' LOOP
				FOREACH one IN ARRAY waiting LOOP
					IF a.done(one, load) OR clock_timestamp() > began + give_up * interval '1 s' THEN
						INSERT INTO a.took VALUES (load, one, extract(epoch FROM clock_timestamp() - began));
						waiting := array_remove(waiting, one);
					END IF;
				END LOOP;
				COMMIT;
				PERFORM pg_sleep(0.02);
			END LOOP;
		END $$;
	RESET ROLE; SET ROLE mallory;
	CREATE TABLE m.stop ();});

# others_are_served(LOAD): tests how long another owner's things take, twice: the load may only begin with the first
sub others_are_served
{
	my ($load) = @_;

	foreach my $n (1, 2)
	{
		sql($node, 'postgres', "SET ROLE alice; CALL a.measure('$load $n', $give_up)");
	}
	note sql($node, 'postgres', "SELECT string_agg(what || ' ' || round(seconds, 1), ', ' ORDER BY load, what) FROM a.took WHERE load LIKE '$load _'");
	is(sql($node, 'postgres', "SELECT string_agg(what || ' ' || seconds, ', ') FROM a.took WHERE load LIKE '$load _' AND seconds > $late"),
		'', "$load: the others are served");
	return;
}

# busy(SQL): a session that runs a statement of mallory's over and over, until quiet()
sub busy
{
	my ($sql, $pause) = @_;
	my $session = dc_session($node, 'postgres');

	$session->run('SET ROLE mallory; DELETE FROM m.stop');
	$session->send("DO \$\$ BEGIN WHILE NOT EXISTS (SELECT FROM m.stop) LOOP $sql; COMMIT; PERFORM pg_sleep($pause); COMMIT; END LOOP; END \$\$");
	return $session;
}

sub quiet
{
	my ($session) = @_;

	sql($node, 'postgres', 'INSERT INTO m.stop DEFAULT VALUES');
	is($session->wait, '', 'the load was there to the end');
	$session->quit;
	return;
}

others_are_served('idle');

#
# A backlog that is never worked off, as keys come behind the one that compaction is at
#
sql($node, 'postgres', q{SET ROLE mallory; CREATE SEQUENCE m.n; SELECT dc_create('m.ascending', totals => 'compacted')});
my $load = busy(q{PERFORM count(dc_incr('m.ascending', lpad(nextval('m.n')::text, 12, '0'))) FROM generate_series(1, 3000)}, 0.25);
sleep 2;
others_are_served('ascending keys');
quiet($load);
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_drop('m.ascending')});

#
# A large one
#
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_create('m.large', totals => 'compacted');
	SELECT count(dc_incr('m.large', i::text)) FROM generate_series(1, 300000) i});
others_are_served('300,000 keys');
isnt(sql($node, 'postgres', q{SELECT count(*) FROM (SELECT FROM m.large_shard LIMIT 1) AS s}), '0', 'which are not done yet');
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_drop('m.large')});

#
# Rows that a transaction in progress has inserted, in partitions
#
my $waits = -s $node->logfile;
sql($node, 'postgres', qq{SET ROLE mallory; SELECT dc_create('m.p' || i, partitions => 2, totals => 'compacted') FROM generate_series(1, 100) i});
my $open = dc_session($node, 'postgres');
is($open->run(q{BEGIN; DO $$ BEGIN FOR i IN 1 .. 100 LOOP EXECUTE format($q$INSERT INTO m.p%s (key, inc, dec, updated_at)
	SELECT 'n' || j, 0, 0, now() FROM generate_series(1, 3) j$q$, i); END LOOP; END $$}), '', 'keys are being inserted');
$load = busy(q{PERFORM count(dc_incr(format('m.p%s', i)::regclass, 'n' || j)) FROM generate_series(1, 100) i, generate_series(1, 3) j;
	PERFORM dc_incr('m.p1', 'other')}, 1);
others_are_served('rows that are being inserted');
soon($node, 'postgres', q{SELECT count(*) FROM m.p1 WHERE key = 'other'}, '1', 'so are other keys of such a table');
is(worker_failures(log_since($node, $waits)), '', 'nothing was waited for in vain');
quiet($load);
$open->run('ROLLBACK');
$open->quit;
soon($node, 'postgres', q{SELECT count(*) FROM m.p100}, '3', 'and then these keys');

#
# A table that is locked, and others whose checks would occupy the worker forever
#
$waits = -s $node->logfile;
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_create('m.locked', totals => 'compacted');
	SELECT dc_create('m.check' || i, totals => 'compacted') FROM generate_series(1, 4) i;
	DO $$ BEGIN FOR i IN 1 .. 4 LOOP EXECUTE format('ALTER TABLE m.check%s ADD CHECK (key !~ %L)', i, '^(a+)(a+)(a+)(a+)(a+)(a+)\1\2\3\4\5\6$'); END LOOP; END $$;
	SELECT dc_incr('m.locked', 'k'), dc_incr('m.check1', repeat('a', 401)), dc_incr('m.check2', repeat('a', 401)), dc_incr('m.check3', repeat('a', 401)), dc_incr('m.check4', repeat('a', 401))});
my $lock = dc_session($node, 'postgres');
is($lock->run('BEGIN; LOCK TABLE m.locked IN ACCESS EXCLUSIVE MODE'), '', 'a lock');
others_are_served('a lock and hanging checks');
is(sql($node, 'postgres', q{SELECT count(left_because) || ' ' || min(maintained_by) FROM dc_tables WHERE counter::text LIKE 'm.check_'}), '4 owner', 'they are left to their owner');
$lock->run('ROLLBACK');
$lock->quit;
soon($node, 'postgres', q{SELECT count(*) FROM m.locked}, '1', 'the locked one is compacted then');

#
# A buffered table that always needs a flush
#
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_create('m.flushed', mode => 'buffered', durability => 'async', flush_interval => '1 ms')});
$load = busy(q{PERFORM count(dc_incr('m.flushed', (random() * 20000)::int::text)) FROM generate_series(1, 3000)}, 0.02);
others_are_served('a flush each millisecond');
quiet($load);

#
# Many of them: another owner's commit waits for its own flush, and not for one of each
#
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_create('m.flushed' || i, mode => 'buffered', durability => 'async', flush_interval => '1 ms') FROM generate_series(1, 150) i});
sql($node, 'postgres', $_) foreach q{SET ROLE alice; SELECT dc_create('a.durable', mode => 'buffered', durability => 'sync')},
	q{CREATE FUNCTION flushes() RETURNS bigint LANGUAGE sql AS $$SELECT sum(flushes) FROM dc_stat_counters WHERE counter::text LIKE 'm.flushed%'$$;
	CREATE TABLE flushes (n bigint);
	CREATE PROCEDURE count_flushes() LANGUAGE plpgsql AS $$
		DECLARE before bigint;
		BEGIN
			FOR i IN 1 .. 21 LOOP
				before := flushes();
				PERFORM dc_incr('a.durable', 'k');
				COMMIT;
				INSERT INTO flushes SELECT flushes() - before;
				COMMIT;
				PERFORM pg_sleep(0.05);
			END LOOP;
		END $$};
$load = busy(q{PERFORM count(dc_incr(format('m.flushed%s', i)::regclass, j::text)) FROM generate_series(1, 150) i, generate_series(1, 10) j}, 0.01);
sleep 2;
sql($node, 'postgres', 'CALL count_flushes()');
cmp_ok(sql($node, 'postgres', 'SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY n) FROM flushes'), '<', 35, 'many buffered tables: a commit of another owner waits for few of them');
quiet($load);
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_drop(('m.flushed' || i)::regclass) FROM generate_series(1, 150) i});

#
# A flush of more keys than a step takes: those who wait for it get all of them
#
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_create('m.much', mode => 'buffered', durability => 'async', flush_interval => '3 s')});
sql($node, 'postgres', $_) foreach q{SET ROLE mallory; SELECT count(dc_incr('m.much', i::text)) FROM generate_series(1, 70000) i}, q{SET ROLE mallory; SELECT dc_flush('m.much')};
is(sql($node, 'postgres', q{SELECT count(*) FROM (SELECT key FROM m.much UNION SELECT key FROM m.much_shard) AS u}), '70000', 'all of a large flush is in rows');
# where the worker is too slow, the session that waits has flushed all that is left at once: here none waits
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_alter('m.much', flush_interval => '100 ms')});
my $flushes = sql($node, 'postgres', q{SELECT flushes FROM dc_stat_counters WHERE counter = 'm.much'::regclass});
sql($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_incr('m.much', i::text)) FROM generate_series(1, 70000) i});
is(wait_for($node, 'postgres', q{SELECT sum(inc) FROM (SELECT inc FROM m.much UNION ALL SELECT inc FROM m.much_shard) AS u}, '140000'), '140000', 'the worker flushes all of it');
cmp_ok(sql($node, 'postgres', q{SELECT flushes FROM dc_stat_counters WHERE counter = 'm.much'::regclass}), '>', $flushes + 1, 'in several steps');
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_drop('m.much')});

#
# Verification of many tables: another owner's is verified before most of them
#
foreach my $of (map({"m.bound$_"} 1 .. 12), 'a.bound')
{
	my $owner = $of =~ /^m/ ? 'mallory' : 'alice';
	my $rows = $of =~ /^m/ ? 2000 : 10;

	sql($node, 'postgres', "SET ROLE $owner; CREATE TABLE ${of}_source (k text); CREATE INDEX ON ${of}_source (k COLLATE \"C\"); SELECT dc_create('$of'); SELECT dc_bind('$of', '${of}_source', 'k')");
	sql($node, 'postgres', "SET ROLE $owner; INSERT INTO ${of}_source SELECT i::text FROM generate_series(1, $rows) i");
}
sql($node, 'postgres', $_) foreach 'ALTER SYSTEM SET dcounter.verify_rate = 1000', 'SELECT pg_reload_conf()';
soon($node, 'postgres', q{SELECT passes > 0 FROM dcounter.source_state WHERE counter = 'a.bound'::regclass}, 't', 'a table of another owner is verified');
cmp_ok(sql($node, 'postgres', q{SELECT count(*) FROM dcounter.source_state WHERE keys_checked > 0 AND counter <> 'a.bound'::regclass}), '<', 8, 'before most of many tables');
sql($node, 'postgres', $_) foreach 'ALTER SYSTEM RESET dcounter.verify_rate', 'SELECT pg_reload_conf()', map({"SET ROLE mallory; SELECT dc_drop('m.bound$_')"} 1 .. 12);

#
# Deltas of a distinct table that come faster than they are folded
#
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_distinct_create('m.visitors')});
$load = busy(q{PERFORM count(dc_add('m.visitors', 'page ' || (random() * 1000000)::int, i::text)) FROM generate_series(1, 5000) i}, 0.1);
sleep 2;
others_are_served('deltas');
isnt(sql($node, 'postgres', q{SELECT count(*) FROM (SELECT FROM m.visitors_delta LIMIT 1) AS d}), '0', 'which are not done yet');
quiet($load);

#
# Many tables of one owner, each with more than a step
#
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_create('m.many' || i, totals => 'compacted') FROM generate_series(1, 150) i});
sql($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_incr(format('m.many%s', i)::regclass, j::text)) FROM generate_series(1, 150) i, generate_series(1, 2000) j});
others_are_served('many tables');
isnt(sql($node, 'postgres', q{SELECT count(*) FROM generate_series(1, 150) i WHERE NOT EXISTS (SELECT FROM dc_total(format('m.many%s', i)::regclass, '1999') WHERE value = 1)}),
	'0', 'which are not done yet');
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_drop(format('m.many%s', i)::regclass) FROM generate_series(1, 150) i});

#
# Nor do they keep each other from their turns: those that always have something new, and one with a backlog
#
sql($node, 'postgres', $_) foreach 'ALTER SYSTEM SET dcounter.worker_load = 1', 'SELECT pg_reload_conf()',
	q{SET ROLE mallory; SELECT dc_create('m.busy' || i, totals => 'compacted') FROM generate_series(1, 25) i; SELECT dc_create('m.backlog', totals => 'compacted')};
$load = busy(q{PERFORM count(dc_incr(format('m.busy%s', i)::regclass, j::text)) FROM generate_series(1, 25) i, generate_series(1, 20) j}, 0.1);
sleep 2;
sql($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_incr('m.backlog', i::text)) FROM generate_series(1, 4000) i});
# On a slow machine steps take long, and all of them rest for four times as long after each.
is(wait_for($node, 'postgres', 'SELECT count(*) FROM m.backlog', '4000', 180), '4000', 'a backlog among many busy tables of one owner');
quiet($load);
sql($node, 'postgres', $_) foreach 'ALTER SYSTEM RESET dcounter.worker_load', 'SELECT pg_reload_conf()',
	q{SET ROLE mallory; SELECT dc_drop(('m.busy' || i)::regclass) FROM generate_series(1, 25) i};

#
# Rows in a table of a window that no increment has written
#
sql($node, 'postgres', $_) foreach 'SELECT dc_worker_stop()', q{SET ROLE mallory; SELECT dc_window_create('m.w', '1 minute', '1 hour', '{"10 minutes": "1 day"}')},
	q{UPDATE dcounter.time_window SET floors[1] = floors[1] - spans[1] * widths[1]; GRANT SELECT ON dcounter.time_window TO mallory},
	q{SET ROLE mallory; SELECT dc_incr_at('m.w', 'k', 1, '2000-01-01 UTC'::timestamptz + floors[1] / 1000000 * interval '1 s') FROM dcounter.time_window};
my $slot = 'w_w' . sql($node, 'postgres', 'SELECT min(turn) % 8 FROM dcounter.window_claim');
sql($node, 'postgres', qq{SET ROLE mallory; INSERT INTO m.$slot (key, inc) SELECT 'k1zzzzzzzz' || i, 1 FROM generate_series(1, 300000) i; ANALYZE m.$slot});
$waits = -s $node->logfile;
sql($node, 'postgres', 'SELECT dc_worker_start()');
others_are_served('rows by hand in a window');
logged($node, $waits, qr/leaves table "$slot" of windowed counter "w" to its owner/, 'which the worker leaves to their owner');
my $read = qq{SELECT pg_stat_clear_snapshot()::text || (seq_tup_read + idx_tup_fetch + pg_stat_get_tuples_returned(indexrelid)) FROM pg_stat_all_tables JOIN pg_index ON indrelid = relid WHERE relname = '$slot'};
# the worker tells what it has read when it sleeps
my $before = sql($node, 'postgres', $read);
for (1 .. $limit)
{
	my $last = $before;

	sleep(1);
	$before = sql($node, 'postgres', $read);
	last if $before > 0 && $before == $last;
}
others_are_served('such rows, which are known');
cmp_ok(sql($node, 'postgres', $read) - $before, '<', 100000, 'they are not read again');

#
# Sources without an index on the key, which are read whole
#
sql($node, 'postgres', $_) foreach q{SET ROLE alice; CREATE TABLE a.orders (customer text); CREATE INDEX ON a.orders (customer);
		SELECT dc_create('a.orders_of'); SELECT dc_bind('a.orders_of', 'a.orders', key => 'customer'); INSERT INTO a.orders VALUES ('ann')},
	q{SET ROLE mallory; CREATE TABLE m.source AS SELECT i::text AS x FROM generate_series(1, 100000) i; ANALYZE m.source;
		SELECT count(dc_create('m.whole' || i)) FROM generate_series(1, 3) i;
		SELECT dc_bind(format('m.whole%s', i)::regclass, 'm.source', key => 'x') FROM generate_series(1, 3) i},
	'ALTER SYSTEM SET dcounter.verify_rate = 100', 'SELECT pg_reload_conf()';
is(wait_for($node, 'postgres', q{SELECT max(rows_checked) >= 100000 FROM dc_stat_drift WHERE counter::text LIKE 'm.whole%'}, 't', 200), 't', 'sources are read whole, which counts for 1000 s');
sql($node, 'postgres', $_) foreach q{SET session_replication_role = replica; INSERT INTO a.orders VALUES ('bea')}, q{SET ROLE alice; SELECT dc_alter('a.orders_of', max_shards => 64)};
soon($node, 'postgres', q{SELECT drifted_keys FROM dc_stat_drift WHERE counter = 'a.orders_of'::regclass}, '1', 'sources of others are verified meanwhile');
is(sql($node, 'postgres', q{SELECT sum(passes) FROM dc_stat_drift WHERE counter::text LIKE 'm.whole%'}), '1', 'and no other one of that owner');
sql($node, 'postgres', $_) foreach 'ALTER SYSTEM SET dcounter.verify_rate = 0', 'SELECT pg_reload_conf()', q{SET ROLE mallory; SELECT dc_drop(('m.whole' || i)::regclass) FROM generate_series(1, 3) i};

#
# Steps that hang, where code of an owner may do that: none takes longer than the first one, and then no table of this owner has one for
# four times as long
#
$waits = -s $node->logfile;
sql($node, 'postgres', $_) foreach 'ALTER SYSTEM SET dcounter.worker_runs_owner_code = on', 'SELECT pg_reload_conf()', q{SET ROLE mallory;
	SELECT dc_create('m.hangs', totals => 'compacted');
	CREATE FUNCTION m.hang() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE began timestamptz := clock_timestamp();
		BEGIN
			LOOP
				RAISE LOG 'hangs for % s', extract(epoch FROM clock_timestamp() - began);
				PERFORM pg_sleep(0.1);
			END LOOP;
		END $$;
	CREATE TRIGGER hang BEFORE INSERT ON m.hangs FOR EACH ROW EXECUTE FUNCTION m.hang();
	SELECT dc_incr('m.hangs', 'k')};
soon($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND backend_type = 'dcounter worker'}, '1', 'a step hangs');
others_are_served('a step that hangs');
# the tables with checks would have the next turns
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_drop(('m.check' || i)::regclass) FROM generate_series(1, 4) i});
logged($node, $waits, qr/("hangs" failed:.*){2}/s, 'the first one hangs again');
like(log_since($node, $waits), qr/It took too long\. The owner of the table can call dc_maintain/, 'the log has a hint');
my $log = log_since($node, $waits);
my @failed = map { $_->[0] * 3600 + $_->[1] * 60 + $_->[2] } map { [ /(\d+):(\d+):([\d.]+)/ ] } $log =~ /^\S+ (\S+) .*"\w+" failed:/gm;
is(scalar(grep { ($failed[$_] - $failed[ $_ - 1 ]) % 86400 < 9 } 1 .. $#failed), 0, 'the owner has no step for a while');
my ($longest) = sort { $b <=> $a } $log =~ /hangs for ([\d.]+) s/g;
cmp_ok($longest, '<', 8, 'no step takes longer after a failure');

$node->stop;
done_testing();
