# The worker runs no code of a table's owner: whatever owners put on their tables, the tables of
# others are still compacted and flushed, the server stops when it is told to, and sessions that
# read statistics get an answer. Owners can maintain the tables that are left to them.
use strict;
use warnings;

use DcBuffer;
use DcTest;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = buffer_node('code', "dcounter.compact_interval = '20ms'", "dcounter.expire_interval = '20ms'", 'restart_after_crash = off');

sql($node, 'postgres', q{
	CREATE EXTENSION postgres_fdw;
	CREATE ROLE mallory LOGIN;
	CREATE ROLE vera LOGIN;
	CREATE ROLE watcher LOGIN;
	GRANT pg_monitor TO watcher;
	CREATE SCHEMA m AUTHORIZATION mallory;
	CREATE SCHEMA v AUTHORIZATION vera;
	SET SESSION AUTHORIZATION vera;
	SELECT dc_create('v.exact'), dc_create('v.sync', mode => 'buffered', flush_interval => '50 ms', durability => 'sync'), dc_stock_create('v.stock');
	SET SESSION AUTHORIZATION mallory;
	-- what hangs when the worker runs it, and does not heed a cancel
	CREATE FUNCTION m.hangs() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
	BEGIN
		IF current_setting('application_name') LIKE '%worker' OR session_user = 'watcher' THEN
			RAISE LOG 'code of an owner runs in %', current_setting('application_name');
			LOOP
				BEGIN
					PERFORM pg_sleep(60);
				EXCEPTION WHEN query_canceled THEN NULL;
				END;
			END LOOP;
		END IF;
		RETURN true;
	END $$;
	CREATE FUNCTION m.pure(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN m.hangs(); END $$;
	CREATE FUNCTION m.hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM m.hangs(); RETURN coalesce(NEW, OLD); END $$;
	CREATE FUNCTION m.code() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN coalesce(NEW, OLD); END $$;});

# as_role(ROLE, SQL): output
sub as_role
{
	my ($role, $sql) = @_;

	return $node->safe_psql('postgres', $sql, extra_params => [ '-U', $role ]);
}

# error_of(ROLE, SQL): its message, SQLSTATE first; "" if there is none
sub error_of
{
	my ($role, $sql) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql", extra_params => [ '-U', $role ]);

	return $err =~ /ERROR:  (\w{5}: .*)/ ? $1 : '';
}

# others_go_on(NAME): vera's tables are maintained, and her sync commit returns
my $round = 0;

sub others_go_on
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $start = time;

	$round++;
	as_role('vera', q{SELECT dc_incr('v.exact', 'a'), dc_restock('v.stock', 'a', 5)});
	as_role('vera', q{SELECT dc_incr('v.sync', 'a')});
	as_role('vera', q{SELECT dc_hold('v.stock', 'a', 2, '1 ms')});
	soon($node, q{SELECT (dc_total('v.exact', 'a')).value || ' ' || (dc_total('v.sync', 'a')).value || ' ' || (SELECT count(*) FILTER (WHERE state = 'open') FROM v.stock_hold)}, "$round $round 0", "$name: others are compacted, flushed, expired");
	cmp_ok(time - $start, '<', 20, "$name: soon");
	return;
}

# log_since(POSITION)
sub log_since
{
	return slurp_file($node->logfile, $_[0]);
}

# runs_none(NAME): none of its code has run
sub runs_none
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return unlike(log_since(0), qr/code of an owner runs/, "$name: no code of its own runs");
}

# job(JOB, COLUMN)
sub job
{
	my ($job, $column) = @_;

	return sql($node, 'postgres', "SELECT $column FROM dc_stat_worker WHERE datname = 'postgres' AND job = '$job'");
}

# stop_quickly(NAME)
sub stop_quickly
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $start = time;

	ok($node->stop('fast', fail_ok => 1), "$name: a fast shutdown");
	cmp_ok(time - $start, '<', 25, '... is fast');
	return;
}

# set(NAME, VALUE)
sub set
{
	my ($name, $value) = @_;

	sql($node, 'postgres', "ALTER SYSTEM SET $name = $value");
	$node->reload;
	return;
}

##
## Triggers that sleep and catch cancels

sub test_triggers
{
	as_role('mallory', join('', map { qq{
		SELECT dc_create('m.t$_'); SELECT dc_incr('m.t$_', 'a');
		CREATE TRIGGER hang BEFORE INSERT OR UPDATE OR DELETE ON m.t${_}_shard FOR EACH ROW EXECUTE FUNCTION m.hang();
		SELECT dc_incr('m.t$_', 'b');} } 1 .. 3));
	soon($node, q{SELECT tables_left FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'compaction'}, 3, 'three tables are left to their owner, dc_stat_worker says');
	is(sql($node, 'postgres', q{SELECT string_agg(counter || ' ' || maintained_by || ', ' || coalesce(left_because, '-'), '; ' ORDER BY counter::text) FROM dc_tables}),
		join('; ', map({ qq{m.t$_ owner, trigger "hang" on "m.t${_}_shard"} } 1 .. 3), 'v.exact worker, -', 'v.stock worker, -', 'v.sync worker, -'), 'dc_tables says which, and why');
	others_go_on('triggers');
	is(scalar(() = log_since(0) =~ /leaves counter table "t1" to its owner/g), 1, 'the log says so once');
	is(job('compaction', 'failures'), 0, 'that is no failure');
	as_role('mallory', 'CALL dc_maintain()');
	is(sql($node, 'postgres', q{SELECT count(*) FROM m.t1 WHERE inc = 1}), 2, 'it maintains them itself');
	as_role('mallory', q{SELECT dc_incr('m.t2', 'c'), dc_compact('m.t2')});
	return runs_none('triggers');
}

##
## A foreign partition, whose server accepts, and never answers

sub test_foreign
{
	my $socket = IO::Socket::INET->new(Listen => 20, LocalAddr => '127.0.0.1', Proto => 'tcp') or die "no socket: $!";
	my $port = $socket->sockport;

	sql($node, 'postgres', qq{
		CREATE SERVER silent FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '$port', dbname 'postgres');
		GRANT USAGE ON FOREIGN SERVER silent TO mallory;});
	as_role('mallory', q{
		CREATE USER MAPPING FOR mallory SERVER silent OPTIONS (user 'x', password 'y');
		SELECT dc_create('m.f', partitions => 1);
		ALTER TABLE m.f_shard DROP CONSTRAINT f_shard_pkey;
		ALTER TABLE m.f_shard DETACH PARTITION m.f_shard_p0;
		CREATE FOREIGN TABLE m.f_shard_f PARTITION OF m.f_shard FOR VALUES WITH (MODULUS 1, REMAINDER 0) SERVER silent;});
	like(sql($node, 'postgres', q{SELECT left_because FROM dc_tables WHERE counter = 'm.f'::regclass}), qr/^foreign table "m\.f_shard_f"$/, 'a foreign partition');
	soon($node, q{SELECT tables_left FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'compaction'}, 4, 'is left to its owner');
	others_go_on('foreign partition');
	is(as_role('watcher', q{SET statement_timeout = '20s'; SELECT count(*), count(shard_rows) FROM dc_stat_shards WHERE counter::text = 'm.f'}), '1|0', 'statistics do not ask its server');
	return $socket;
}

##
## Statistics read no table through code of its owner

sub test_statistics
{
	as_role('mallory', q{
		SELECT dc_drop('m.f'); -- it would wait for its server itself
		SELECT dc_create('m.i'); SELECT dc_incr('m.i', 'a');
		CREATE INDEX ON m.i_shard (key) WHERE m.pure('x');});
	is(as_role('watcher', q{SET statement_timeout = '20s'; SELECT string_agg(counter || ' ' || coalesce(shard_rows::text, '-'), ', ' ORDER BY counter::text) FROM dc_stat_shards WHERE counter::text IN ('m.i', 'v.exact')}), 'm.i -, v.exact 0', 'no live numbers where they would run its code');
	is(as_role('mallory', q{SELECT shard_rows IS NOT NULL FROM dc_stat_shards WHERE counter = 'm.i'::regclass}), 't', 'it sees them itself');

	# an index that is locked, without its table
	my $session = dc_session($node, 'postgres');
	$session->run(q{SET SESSION AUTHORIZATION mallory; SELECT dc_create('m.locked')});
	$session->run('BEGIN; ALTER INDEX m.locked_shard_pkey SET TABLESPACE pg_default');
	is(as_role('watcher', q{SET statement_timeout = '20s'; SELECT string_agg(counter || ' ' || coalesce(shard_rows::text, '-'), ', ' ORDER BY counter::text) FROM dc_stat_shards WHERE counter::text IN ('m.locked', 'v.exact')}), 'm.locked -, v.exact 0', 'a locked index is not waited for');
	$session->run('ROLLBACK');
	$session->quit;
	as_role('mallory', q{SELECT dc_drop('m.locked')});
	others_go_on('statistics');
	return runs_none('statistics');
}

##
## A buffered table cannot become one

my @refused = (
	'CREATE TRIGGER t BEFORE INSERT ON m.b FOR EACH ROW EXECUTE FUNCTION m.code()', 'CREATE TRIGGER t BEFORE INSERT ON m.b_shard FOR EACH ROW EXECUTE FUNCTION m.code()',
	'CREATE RULE r AS ON UPDATE TO m.b DO ALSO SELECT pg_sleep(1)', 'ALTER TABLE m.b ENABLE ROW LEVEL SECURITY', q{CREATE INDEX ON m.b (key) WHERE m.pure(key)},
	q{CREATE INDEX CONCURRENTLY broken ON m.b (key) WHERE m.pure(key)}, q{CREATE INDEX CONCURRENTLY broken ON m.b_shard ((m.pure(key)))}, 'CREATE INDEX CONCURRENTLY broken ON m.b USING hash (key)',
	'CREATE INDEX ON m.b (lower(key))', q{ALTER TABLE m.b ADD CHECK (length(key) < 9)}, 'CREATE INDEX CONCURRENTLY broken ON m.b (key COLLATE m.own_order)', 'ALTER TABLE m.b ADD CHECK (pg_sleep(0) IS NOT NULL)',
	q{ALTER TABLE m.b_shard ALTER inc SET DEFAULT length(pg_sleep(0)::text)}, 'CREATE DOMAIN m.d AS int; ALTER TABLE m.b ADD x m.d', 'CREATE TABLE m.refers (key text COLLATE "C" REFERENCES m.b)',
	'CREATE TABLE m.other (key text COLLATE "C" PRIMARY KEY); ALTER TABLE m.b ADD FOREIGN KEY (key) REFERENCES m.other', 'CREATE SCHEMA AUTHORIZATION mallory CREATE TABLE refers2 (key text COLLATE "C" REFERENCES m.b)',
	'CREATE STATISTICS m.x ON (m.pure(key)), inc FROM m.b', 'CREATE TRIGGER t BEFORE INSERT ON m.bp_p0 FOR EACH ROW EXECUTE FUNCTION m.code()',
	'ALTER TABLE m.br_rank_shard ADD CHECK (pg_sleep(0) IS NOT NULL)', 'CREATE INDEX CONCURRENTLY broken ON m.br_rank (lower(key))',
	'CREATE TRIGGER t BEFORE INSERT ON m.bo_op FOR EACH ROW EXECUTE FUNCTION m.code()', 'CREATE TABLE m.refers (key text COLLATE "C"); ALTER TABLE m.refers ADD FOREIGN KEY (key) REFERENCES m.bp',
	'ALTER TABLE m.bp DETACH PARTITION m.bp_p1; ALTER TABLE m.bp_p1 ADD CHECK (pg_sleep(0) IS NOT NULL); ALTER TABLE m.bp ATTACH PARTITION m.bp_p1 FOR VALUES WITH (MODULUS 2, REMAINDER 1)');

# a name that comes to mean the buffered table while the command waits for a lock on another one
sub decoy_index
{
	my ($holder, $maker) = map { dc_session($node, 'postgres') } 1 .. 2;

	as_role('mallory', 'CREATE SCHEMA decoy; CREATE TABLE decoy.b (key text)');
	$_->run('SET SESSION AUTHORIZATION mallory; SET search_path = decoy, m, public') foreach $holder, $maker;
	$holder->run('BEGIN; LOCK TABLE b');
	$maker->send('CREATE INDEX CONCURRENTLY broken ON b (key) WHERE m.pure(key)');
	wait_for($node, 'postgres', q{SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'decoy.b'::regclass)}, 't');
	$holder->run('DROP TABLE b; COMMIT');
	is($maker->wait, 'ERROR 55000', 'refused, whatever the name meant when the command began');
	as_role('mallory', 'DROP SCHEMA decoy');
	$_->quit foreach $holder, $maker;
	return;
}

# Commands on a table that has nothing to do with counters do not go over those of others
sub reads_of_ddl
{
	return as_role('mallory', q{
		BEGIN;
		CREATE TABLE m.plain (a int PRIMARY KEY);
		CREATE TABLE m.refers (a int REFERENCES m.plain);
		CREATE INDEX plain_a ON m.plain (a);
		ALTER TABLE m.plain ADD b int CHECK (b > 0);
		ALTER TABLE m.plain RENAME b TO c;
		ALTER TABLE m.plain RENAME TO plainer;
		CREATE TRIGGER t BEFORE INSERT ON m.plainer FOR EACH ROW EXECUTE FUNCTION m.code();
		CREATE STATISTICS m.of_plain ON a, c FROM m.plainer;
		GRANT SELECT ON m.plainer TO PUBLIC;
		DROP INDEX m.plain_a;
		DROP TRIGGER t ON m.plainer;
		DROP TABLE m.refers;
		SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_xact_all_tables WHERE schemaname = 'dcounter' AND relname IN ('counter', 'source');
		ROLLBACK;});
}

sub test_buffered
{
	sql($node, 'postgres', 'GRANT CREATE ON DATABASE postgres TO mallory');
	as_role('mallory', q{SELECT dc_create('m.b', mode => 'buffered'), dc_create('m.bp', mode => 'buffered', partitions => 2); CREATE COLLATION m.own_order (provider = libc, locale = 'C'); SELECT dc_create('m.bo', mode => 'buffered'); SELECT dc_incr_once('m.bo', 'k', 1, 'e');
		SELECT dc_create('m.br', mode => 'buffered'); CREATE INDEX ON m.br (value); SELECT dc_rank_create('m.br', build => 'none');
		CREATE TABLE m.source (a int, b int); SELECT dc_create('m.bound', totals => 'compacted'); SELECT dc_bind('m.bound', 'm.source', 'a')});
	is(reads_of_ddl(), 0, 'DDL reads no settings of other tables');
	foreach my $ddl (@refused)
	{
		like(error_of('mallory', $ddl =~ /CONCURRENTLY/ ? "$ddl;" : "BEGIN; $ddl; ROLLBACK;"), qr/^55000: "b[opr]?" cannot be buffered with code of its owner/, "refused: $ddl");
	}
	decoy_index();
	is(sql($node, 'postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'broken'}), 0, 'no index is left');
	is(error_of('mallory', q{CREATE INDEX CONCURRENTLY ON m.b (value DESC, key COLLATE "C") INCLUDE (inc); CREATE INDEX CONCURRENTLY ON m.b (key text_pattern_ops); CREATE INDEX ON m.b (key text_pattern_ops) WHERE inc > 0; ALTER TABLE m.b ADD x int CHECK (x > 0)}), '', 'what is harmless may be done');
	like(error_of('mallory', q{SELECT dc_alter('m.t1', mode => 'buffered')}), qr/^55000: "t1" cannot be buffered with code of its owner/, 'nor can one with code become buffered');
	as_role('mallory', q{
		SELECT dc_incr('m.b', 'a');
		SELECT dc_alter('m.b', mode => 'exact');
		CREATE TRIGGER t BEFORE INSERT ON m.b FOR EACH ROW EXECUTE FUNCTION m.code();});
	is(sql($node, 'postgres', q{SELECT dc_get('m.b', 'a')}), 1, 'in exact mode it may have a trigger');
	is(error_of('postgres', q{SELECT dc_create('super', mode => 'buffered'); CREATE TRIGGER t BEFORE INSERT ON super FOR EACH ROW EXECUTE FUNCTION m.code()}), '', 'and so may that of a superuser, buffered');
	is(error_of('postgres', 'ALTER TABLE super OWNER TO mallory') =~ /^55000/, 1, '... as long as mallory owns it');
	return;
}

##
## One that has become one all the same: its owner ceases to be a superuser

sub test_buffered_nevertheless
{
	my $in_rows = q{SELECT sum(inc) FROM (SELECT inc FROM boss UNION ALL SELECT inc FROM boss_shard) AS r};

	sql($node, 'postgres', q{
		CREATE ROLE boss SUPERUSER LOGIN;
		SELECT dc_create('boss', mode => 'buffered', flush_interval => '1 hour');
		ALTER TABLE boss OWNER TO boss;
		CREATE TRIGGER hang BEFORE INSERT OR UPDATE ON boss FOR EACH ROW EXECUTE FUNCTION m.hang();
		CREATE TRIGGER hang BEFORE INSERT OR UPDATE ON boss_shard FOR EACH ROW EXECUTE FUNCTION m.hang();
		SELECT dc_incr('boss', 'a', 10);});
	state_is($node, 'boss', 'a', '10 0', 'in memory');
	sql($node, 'postgres', q{ALTER ROLE boss NOSUPERUSER; GRANT ALL ON SCHEMA m TO boss; GRANT ALL ON SCHEMA public TO boss; SELECT dc_alter('boss', flush_interval => '20 ms')});
	sql($node, 'postgres', q{SELECT dc_incr('boss', 'b')}); # tells the flusher of the interval
	soon($node, q{SELECT tables_left FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'flush'}, 1, 'the worker leaves it');
	my $before = sql($node, 'postgres', "SELECT coalesce(($in_rows), 0)");

	sql($node, 'postgres', q{SELECT dc_incr('boss', 'a', 5)});
	is(sql($node, 'postgres', $in_rows), $before + 5, 'increments go to rows');
	is(sql($node, 'postgres', q{SELECT dc_get('boss', 'a')}), 15, 'and all are there');
	others_go_on('buffered nevertheless');
	stop_quickly('buffered nevertheless');
	$node->start;
	worker_runs($node, 'postgres');
	is(sql($node, 'postgres', q{SELECT dc_get('boss', 'a')}), 15, 'a restart loses none');
	soon($node, q{SELECT tables_left FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'flush'}, 1, 'the worker still leaves it');
	as_role('boss', q{SELECT dc_flush('boss')});
	is(sql($node, 'postgres', $in_rows), 16, 'the owner flushes it');
	as_role('boss', q{DROP TRIGGER hang ON boss; DROP TRIGGER hang ON boss_shard});
	soon($node, q{SELECT tables_left FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'flush'}, 0, 'without its code it is the worker\'s again');
	sql($node, 'postgres', q{SELECT dc_incr('boss', 'a', 5)});
	soon($node, $in_rows, 21, '... and is flushed');
	$round = sql($node, 'postgres', q{SELECT dc_get('v.exact', 'a')});
	return runs_none('buffered nevertheless');
}

##
## While the worker is in the middle of a step

# while_stopped(SESSION, PID, SQL): the answer while the worker is stopped. It may have been
# stopped with a lock of the server's memory (that of a part of the buffer table, say), for
# which anybody else may come to wait: then it is let go, and the answer is undef.
sub while_stopped
{
	my ($session, $pid, $sql) = @_;
	my $end = time + 2;

	$session->send($sql);
	usleep(5_000) until $session->answered || time > $end;
	return $session->wait if $session->answered;
	kill 'CONT', $pid;
	$session->wait;
	return;
}

# is_within(SESSION, PID): whether the worker, which is stopped, is within a step on m.w
sub is_within
{
	my ($session, $pid) = @_;

	return (while_stopped($session, $pid, qq{SELECT pg_logical_emit_message(true, 'test', '') IS NULL; SELECT count(*) > 0 FROM pg_locks WHERE pid = $pid AND relation = 'm.w'::regclass AND mode = 'RowShareLock'}) // '') eq "f\nt";
}

# stopped_step(): stops the worker while it compacts m.w; its PID
sub stopped_step
{
	my $pid = sql($node, 'postgres', q{SELECT pid FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'flush'});
	my $session = dc_session($node, 'postgres');

	for (;;)
	{
		$session->run(q{INSERT INTO m.w_shard (key, shard, inc) SELECT 'k' || i || clock_timestamp(), 0, 1 FROM generate_series(1, 20000) AS i; SELECT dc_incr('m.w', 'wakes the worker')});
		for my $try (1 .. 2000)
		{
			last if $session->run(qq{SELECT count(*) > 0 FROM pg_locks WHERE pid = $pid AND relation = 'm.w'::regclass AND mode = 'RowShareLock'}) eq 't';
		}
		kill 'STOP', $pid;
		last if is_within($session, $pid);
		kill 'CONT', $pid;
	}
	$session->quit;
	return $pid;
}

sub test_race
{
	set('dcounter.compact_batch', 20000);
	as_role('mallory', q{SELECT dc_create('m.w', totals => 'compacted'), dc_create('m.wp', partitions => 2)});
	# an index that does not wait for the worker, until its code could run
	for my $try (1 .. 10)
	{
		my $from = -s $node->logfile;
		my ($session, $watch) = map { dc_session($node, 'postgres') } 1 .. 2;
		my $there = 'f';

		$session->run('SET SESSION AUTHORIZATION mallory');
		my $pid = stopped_step();
		my $end = time + 2;

		$session->send(q{CREATE INDEX CONCURRENTLY raced ON m.w (key) WHERE m.pure('x')});
		$there = while_stopped($watch, $pid, q{SELECT count(*) = 1 FROM pg_index WHERE indexrelid = to_regclass('m.raced')})
		  while ($there // 't') eq 'f' && time < $end;
		kill 'CONT', $pid;
		is($session->wait, '', 'an index is created while the worker compacts');
		$_->quit foreach $session, $watch;
		is(sql($node, 'postgres', q{SELECT left_because FROM dc_tables WHERE counter = 'm.w'::regclass}), 'index "raced" on "m.w"', 'the table is left to its owner');
		my $refused = log_since($from) =~ /function m\.(pure|hangs)\(.*\) must not run here/;
		as_role('mallory', 'DROP INDEX m.raced');
		next if !$refused && $try < 10;
		ok($refused, 'the step that was running fails when it comes to that');
		last;
	}
	runs_none('while an index is created');
	# a partition is not there before the step is over
	my $session = dc_session($node, 'postgres');
	my ($pid, $locked);

	until (defined $locked)
	{
		$pid = stopped_step();
		$locked = while_stopped($session, $pid, qq{SELECT count(*) > 0 FROM pg_locks WHERE pid = $pid AND locktype = 'advisory' AND classid = 'm.w'::regclass AND objsubid = 87});
	}
	is($locked, 't', 'the worker keeps others from making children');
	kill 'CONT', $pid;
	sql($node, 'postgres', 'SELECT dc_worker_stop()');
	$session->run('SET SESSION AUTHORIZATION mallory');
	$session->run('BEGIN; ALTER TABLE m.wp_shard DETACH PARTITION m.wp_shard_p0; COMMIT');
	$session->run('ALTER TABLE m.wp_shard_p0 ADD CHECK (m.hangs())');
	$session->run('BEGIN; ALTER TABLE m.wp_shard ATTACH PARTITION m.wp_shard_p0 FOR VALUES WITH (MODULUS 2, REMAINDER 0)');
	is(sql($node, 'postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 'm.wp_shard'::regclass AND objsubid = 87 AND mode = 'ExclusiveLock'}), 1, 'who attaches a partition keeps the worker away');
	sql($node, 'postgres', 'SELECT dc_worker_start()');
	worker_runs($node, 'postgres');
	others_go_on('attached partition');
	$session->run('COMMIT');
	$session->quit;
	is(sql($node, 'postgres', q{SELECT left_because FROM dc_tables WHERE counter = 'm.wp'::regclass}), 'constraint "wp_shard_p0_check" on "m.wp_shard_p0"', '... which is found when that is committed');
	set('dcounter.compact_batch', 1000);
	return runs_none('while a partition is attached');
}

##
## With the setting on they do run, and may be ended; that is counted

sub test_setting
{
	my $pid;

	sql($node, 'postgres', 'DROP SCHEMA m CASCADE; CREATE SCHEMA m AUTHORIZATION mallory');
	as_role('mallory', q{
		CREATE FUNCTION m.code() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN coalesce(NEW, OLD); END $$;
		CREATE FUNCTION m.sleeps() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			LOOP
				BEGIN
					PERFORM pg_sleep(60);
				EXCEPTION WHEN query_canceled THEN NULL;
				END;
			END LOOP;
		END $$;
		SELECT dc_create('m.good'), dc_create('m.bad');
		CREATE TRIGGER t BEFORE INSERT ON m.good FOR EACH ROW EXECUTE FUNCTION m.code();
		SELECT dc_incr('m.good', 'a');});
	usleep(200_000);
	is(sql($node, 'postgres', q{SELECT count(*) FROM m.good}), 0, 'off: a table with a trigger is left alone');
	set('dcounter.worker_runs_owner_code', 'on');
	soon($node, q{SELECT count(*) FROM m.good}, 1, 'on: it is compacted');
	is(sql($node, 'postgres', q{SELECT maintained_by FROM dc_tables WHERE counter = 'm.good'::regclass}), 'worker', 'dc_tables says so');
	is(error_of('mallory', q{SELECT dc_alter('m.good', mode => 'buffered', flush_interval => '20 ms')}), '', 'it may be buffered');
	as_role('mallory', q{SELECT dc_incr('m.good', 'b')});
	soon($node, q{SELECT count(*) FROM m.good}, 2, 'and is flushed');
	as_role('mallory', q{CREATE TRIGGER t BEFORE INSERT ON m.bad FOR EACH ROW EXECUTE FUNCTION m.sleeps(); SELECT dc_incr('m.bad', 'a')});
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND wait_event = 'PgSleep'}) or die 'it does not sleep';
	my $failures = job('compaction', 'failures');

	$pid = sql($node, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'postgres'});
	sql($node, 'postgres', "SELECT pg_terminate_backend($pid)");
	usleep(1_200_000);
	sql($node, 'postgres', "SELECT pg_terminate_backend($pid)");
	soon($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", 0, 'a worker is ended in a step');
	is(job('compaction', 'failures'), $failures + 1, 'which is counted');
	like(job('compaction', 'last_error'), qr/^dcounter job "compaction" on "bad": the worker was ended/, '... and said');
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND wait_event = 'PgSleep'}) or die 'it does not sleep again';
	stop_quickly('code that catches cancels');
	return;
}

test_triggers();
my $socket = test_foreign();
stop_quickly('triggers and a foreign server');
$node->start;
worker_runs($node, 'postgres');
test_statistics();
test_buffered();
test_buffered_nevertheless();
test_race();
test_setting();

done_testing();
