# The launcher and its workers, with and without shared_preload_libraries: which databases
# have a worker, what makes it leave and come back, and starting and stopping directly. What goes
# wrong is in worker/worker_failures.pl.
use strict;
use warnings;

use DcTest;
use DcWorker;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = dc_node('main', conf => [
		worker_conf(), "shared_preload_libraries = 'dcounter'", 'max_worker_processes = 20' ]);

#
# Which databases have a worker
#
sql($node, 'postgres', "CREATE DATABASE $_") foreach 'a', 'plain';
sql($node, 'postgres', q{SELECT dc_create('here', totals => 'compacted')});
sql($node, 'a', 'CREATE EXTENSION dcounter');
state_is($node, 'a', 'no tables', 'none for the extension alone');
sql($node, 'a', q{SELECT dc_create('c', totals => 'compacted')});
soon($node, 'postgres', $workers, 'a postgres', 'a worker after dc_create()');
state_is($node, 'plain', 'no extension', 'none without the extension');
is(sql($node, 'postgres', q{
	SELECT count(*) FROM dc_stat_worker WHERE job = 'compaction' AND datname LIKE 'template%'}), '0', 'nor in a template database');
is(sql($node, 'postgres', q{
	SELECT backend_type, application_name, datname IS NULL FROM pg_stat_activity WHERE backend_type LIKE 'dcounter l%'}),
	'dcounter launcher|dcounter launcher|t', 'the launcher is in no database');

sql($node, 'a', q{
	CREATE ROLE alice; CREATE SCHEMA private AUTHORIZATION alice;
	SET ROLE alice; SELECT dc_create('private.c', totals => 'compacted');});
compacts($node, 'a', $_, "$_ is compacted") foreach 'c', 'private.c';

my $session = dc_session($node, 'plain');
is($session->run('BEGIN; CREATE EXTENSION dcounter; ROLLBACK'), '', 'CREATE EXTENSION, rolled back');
$session->run('BEGIN; SAVEPOINT s; CREATE EXTENSION dcounter; ROLLBACK TO s; CREATE EXTENSION dcounter; SELECT dc_create(\'p\')');
state_is($node, 'plain', 'no extension', 'no worker before the commit');
$session->run('COMMIT');
soon($node, 'postgres', $workers, 'a plain postgres', 'a worker after it');
$session->quit;

#
# dc_stat_worker
#
is(sql($node, 'postgres', q{
	SELECT string_agg(attname || ' ' || atttypid::regtype, ', ' ORDER BY attnum)
	FROM pg_attribute WHERE attrelid = 'dc_stat_worker'::regclass AND attnum > 0}),
	'datname name, pid integer, state text, job text, last_run timestamp with time zone, '
	  . 'last_run_ms double precision, runs bigint, work_ms double precision, failures bigint, last_error text, last_error_at timestamp with time zone, tables_left bigint',
	'the columns of dc_stat_worker');
is(sql($node, 'postgres', q{
	SELECT w.datname, w.state, w.job, w.last_run BETWEEN a.backend_start AND clock_timestamp(), w.last_run_ms BETWEEN 0 AND 1e6, w.runs > 0, w.work_ms BETWEEN 0.001 AND 1e6,
		w.failures, w.last_error, w.last_error_at
	FROM dc_stat_worker AS w JOIN pg_stat_activity AS a USING (pid, datname) WHERE w.datname = 'a' AND w.job = 'compaction'}),
	'a|running|compaction|t|t|t|t|0||', 'and its row of a running worker');

#
# Statements that need a database without sessions
#
my $offset = -s $node->logfile;
my $pid = pid_of($node, 'a');
sql($node, 'postgres', 'CREATE DATABASE copy TEMPLATE a');
another_worker($node, 'a', $pid, 'CREATE DATABASE of a database with a worker');
soon($node, 'postgres', $workers, 'a copy plain postgres', 'a copy with the extension has one');
compacts($node, 'copy', 'c', 'which works');

$pid = pid_of($node, 'copy');
sql($node, 'postgres', 'ALTER DATABASE copy RENAME TO renamed');
another_worker($node, 'renamed', $pid, 'ALTER DATABASE RENAME');
$pid = pid_of($node, 'renamed');
sql($node, 'postgres', q{SET allow_in_place_tablespaces = on; CREATE TABLESPACE ts LOCATION ''});
sql($node, 'postgres', 'ALTER DATABASE renamed SET TABLESPACE ts');
another_worker($node, 'renamed', $pid, 'ALTER DATABASE SET TABLESPACE');
compacts($node, 'renamed', 'c', 'the worker works there');

# This one waits for a session to end, while we continue.
$pid = pid_of($node, 'renamed');
$session = dc_session($node, 'renamed');
my $ddl = dc_session($node, 'postgres');
$ddl->send('ALTER DATABASE renamed RENAME TO other');

my $pid_a = pid_of($node, 'a');
sql($node, 'postgres', 'CREATE ROLE joe CREATEDB');
foreach my $sql ('DROP DATABASE a', 'ALTER DATABASE a RENAME TO other', 'ALTER DATABASE a SET TABLESPACE pg_default',
	'CREATE DATABASE other TEMPLATE a', 'ALTER DATABASE a IS_TEMPLATE true')
{
	fails_with($node, 'plain', "SET ROLE joe; $sql", '42501', "$sql without being the owner");
}
is(pid_of($node, 'a'), $pid_a, 'does not disturb the worker');
sql($node, 'postgres', 'BEGIN; ALTER DATABASE a IS_TEMPLATE true; ROLLBACK');
is(pid_of($node, 'a'), $pid_a, 'nor does a change that is rolled back');
fails_with($node, 'postgres', 'BEGIN; DROP DATABASE a', '25001', 'DROP DATABASE in a transaction block');
another_worker($node, 'a', $pid_a, 'and the worker is back');

is($ddl->wait, 'ERROR 55006', 'ALTER DATABASE RENAME fails because of another session');
$ddl->quit;
another_worker($node, 'renamed', $pid, 'and the worker is back');
$session->quit;
sql($node, 'postgres', 'ALTER DATABASE renamed OWNER TO joe; SET ROLE joe; DROP DATABASE renamed');
sql($node, 'postgres', 'DROP TABLESPACE ts');
soon($node, 'postgres', q{SELECT string_agg(datname, ' ' ORDER BY datname) FROM dc_stat_worker WHERE job = 'compaction'},
	'a plain postgres', 'DROP DATABASE of a database with a worker, by its owner');

#
# Databases that may no longer have one
#
sql($node, 'postgres', 'ALTER DATABASE plain IS_TEMPLATE true');
state_is($node, 'plain', 'not allowed', 'IS_TEMPLATE true');
fails_with($node, 'plain', 'SELECT dc_worker_start()', '55000', 'dc_worker_start() in a template database');
sql($node, 'postgres', 'ALTER DATABASE plain IS_TEMPLATE false');
state_is($node, 'plain', 'running', 'IS_TEMPLATE false');
sql($node, 'postgres', 'ALTER DATABASE plain ALLOW_CONNECTIONS false');
state_is($node, 'plain', 'not allowed', 'ALLOW_CONNECTIONS false');
sql($node, 'postgres', 'ALTER DATABASE plain ALLOW_CONNECTIONS true');
state_is($node, 'plain', 'running', 'ALLOW_CONNECTIONS true');

# The worker has the time to get in the way, if it does.
$session = dc_session($node, 'plain');
$session->run('BEGIN; DROP EXTENSION dcounter');
sleep(0.3);
$session->run('COMMIT');
$session->quit;
state_is($node, 'plain', 'no extension', 'DROP EXTENSION');
sql($node, 'plain', "BEGIN; CREATE EXTENSION dcounter; SELECT dc_create('q'); PREPARE TRANSACTION 'extension'");
state_is($node, 'plain', 'no extension', 'CREATE EXTENSION, prepared');
sql($node, 'plain', "COMMIT PREPARED 'extension'");
state_is($node, 'plain', 'running', 'and committed');
sql($node, 'a', "SELECT dc_create('gone', totals => 'compacted'); SELECT dc_incr('gone', 'a'); SELECT pg_sleep(random() * 0.1); SELECT dc_drop('gone')")
  foreach 1 .. 10;
is(worker_failures(log_since($node, $offset)), '', 'a database, an extension or a table that is gone is no error');

#
# Signals
#
my $first = sql($node, 'postgres', $launcher);
$pid = pid_of($node, 'a');
my $runs_before = sql($node, 'a', q{
	SELECT runs FROM dc_stat_worker WHERE job = 'compaction' AND datname = 'a';
	DO $$ BEGIN PERFORM pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'dcounter%'; END $$});
soon($node, 'postgres', "SELECT runs > $runs_before + 1 FROM dc_stat_worker WHERE job = 'compaction' AND datname = 'a'", 't', 'pg_cancel_backend(): it works on');
is(pid_of($node, 'a'), $pid, 'the same worker');
is(sql($node, 'postgres', $launcher), $first, 'and the same launcher');

# A worker is stopped before the launcher has seen the database. The launcher is asleep when it
# is stopped, or it might have a lock of the server's memory.
soon($node, 'postgres', "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $first", 'Extension', 'the launcher sleeps');
kill('STOP', $first);
sql($node, 'postgres', 'CREATE DATABASE unseen TEMPLATE template0');
sql($node, 'unseen', q{CREATE EXTENSION dcounter; SELECT dc_create('u')});
is(answer($node, 'unseen', 'SELECT dc_worker_stop()'), 'f', 'no worker yet, and none is to come');
kill('CONT', $first);
sql($node, 'postgres', 'CREATE DATABASE later TEMPLATE template0');
sql($node, 'later', q{CREATE EXTENSION dcounter; SELECT dc_create('l')});
soon($node, 'postgres', q{SELECT state FROM dc_stat_worker WHERE datname = 'later' AND job = 'compaction'}, 'running', 'the launcher has looked around');
is(sql($node, 'postgres', q{SELECT state, pid IS NULL FROM dc_stat_worker WHERE datname = 'unseen' AND job = 'compaction'}), 'stopped|t', 'it stays stopped');
is(answer($node, 'unseen', 'SELECT dc_worker_start()'), 't', 'until it is started');
sql($node, 'postgres', "DROP DATABASE $_") foreach 'unseen', 'later';

sql($node, 'postgres', "SELECT pg_terminate_backend($pid)");
another_worker($node, 'a', $pid, 'pg_terminate_backend(): another worker');

soon($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'plain'},
	'1', 'the worker of another database is there');

# The postmaster takes ten seconds to start another launcher. A call for a worker
# just then gets it from that one.
is(answer($node, 'plain', 'SELECT dc_worker_stop()'), 't', 'a worker is stopped');
sql($node, 'postgres', "SELECT pg_terminate_backend($first)");
my $starter = dc_session($node, 'plain');
soon($node, 'postgres', $launcher, '', 'no launcher');
$starter->send('SELECT dc_worker_start()');
compacts($node, 'a', 'c', 'without a launcher workers go on');

#
# Meanwhile, a server without preload
#
my $alone = dc_node('alone', conf => [ worker_conf(), 'dcounter.compact_batch = 10' ]);

sql($alone, 'postgres', "SELECT dc_create('c', totals => 'compacted')");
is(sql($alone, 'postgres', q{
	SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'dcounter%'), (SELECT count(*) FROM dc_stat_worker)}),
	'0|0', 'no preload: no launcher, no worker, nothing to show');
is(answer($alone, 'postgres', 'SELECT dc_worker_stop()'), 'f', 'nothing to stop');
my @starters = map { dc_session($alone, 'postgres') } 1 .. 4;
$_->run('SELECT 1 FROM dc_stat_worker') foreach @starters;
$_->send('SELECT dc_worker_start()') foreach @starters;
like(join('', map { $_->wait } @starters), qr/^f*t[tf]*$/, 'a worker is started, by some that want one at the same time');
$_->quit foreach @starters;
soon($alone, 'postgres', $workers, 'postgres', 'there is only one');
is(answer($alone, 'postgres', 'SELECT dc_worker_start(), dc_worker_stop(), dc_worker_start(), dc_worker_start()'), 'f|t|t|f',
	'another one is started when it has been stopped');
is(sql($alone, 'postgres', $workers), 'postgres', 'it is there');
compacts($alone, 'postgres', 'c', 'and works');

# A signal that arrives when the step can no longer be interrupted: it is done,
# and the worker ends all the same.
sql($alone, 'postgres', q{
	SELECT dc_worker_stop();
	CREATE SEQUENCE begun;
	CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			-- first of all, so that the step is stopped long before its limit
			PERFORM nextval('public.begun');
			RETURN CASE WHEN length(sha512(repeat(tg_name, 10000000)::bytea)) > 0 THEN NULL END;
		END $$;
	CREATE TRIGGER busy AFTER DELETE ON c_shard FOR EACH STATEMENT EXECUTE FUNCTION busy();
	SELECT dc_incr('c', 'busy');});
is(answer($alone, 'postgres', q{
	SELECT dc_worker_start();
	DO $$ BEGIN WHILE NOT (SELECT is_called FROM begun) LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;
	SELECT dc_worker_stop()}), "t\nt", 'the worker is busy, and is stopped');
is(sql($alone, 'postgres', $workers), '', 'and is gone');
sql($alone, 'postgres', 'DROP TRIGGER busy ON c_shard');

# A step that sleeps is woken up, no matter when the next one would be.
set_conf($alone, 'dcounter.compact_interval' => '1d');
sql($alone, 'postgres', q{
	CREATE FUNCTION sleeps() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1000); RETURN NEW; END $$;
	CREATE TRIGGER sleeps BEFORE INSERT OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION sleeps();
	SELECT dc_incr('c', 'sleeps');});
is(answer($alone, 'postgres', q{
	SELECT dc_worker_start();
	DO $$ BEGIN
		WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND wait_event = 'PgSleep') LOOP
			PERFORM pg_sleep(0.01);
			PERFORM pg_stat_clear_snapshot();
		END LOOP;
	END $$;
	SELECT dc_worker_stop()}), "t\nt", 'the worker sleeps in a step, and is stopped');
sql($alone, 'postgres', 'DROP TRIGGER sleeps ON c');
is(worker_failures(log_since($alone, 0)), '', 'workers that were stopped left without an error');

# Settings
is(answer($alone, 'postgres', 'SELECT dc_worker_start()'), 't', 'a worker that runs once a day');
soon($alone, 'postgres', "SELECT value FROM c WHERE key = 'sleeps'", '1', 'it begins at once');
set_conf($alone, 'dcounter.compact_interval' => '100ms');
compacts($alone, 'postgres', 'c', 'a shorter interval takes effect at once');
set_conf($alone, 'dcounter.worker' => 'off');
soon($alone, 'postgres', $workers, '', 'dcounter.worker is off: the worker leaves');
fails_with($alone, 'postgres', 'SELECT dc_worker_start()', '55000', 'and none can be started');
set_conf($alone, 'dcounter.worker' => 'on');

# A start that fails is not repeated.
my $alone_offset = -s $alone->logfile;
sql($alone, 'postgres', 'CREATE ROLE no_login');
set_conf($alone, 'dcounter.worker_role' => 'no_login');
fails_with($alone, 'postgres', 'SELECT dc_worker_start()', '55000', 'a role without LOGIN');
set_conf($alone, 'dcounter.worker_role' => 'missing');
fails_with($alone, 'postgres', 'SELECT dc_worker_start()', '42704', 'a role that does not exist');
set_conf($alone, 'dcounter.worker_role' => '');

# It is gone after a crash, as after a restart.
is(answer($alone, 'postgres', 'SELECT dc_worker_start()'), 't', 'a worker before a crash');
kill('KILL', sql($alone, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'}));
soon($alone, 'postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'", '0', 'is gone after it');
is(answer($alone, 'postgres', 'SELECT dc_worker_start()'), 't', 'another one');
compacts($alone, 'postgres', 'c', 'which works');

# A statement that needs a database for itself has the worker leave since 19, without preload, too. Before, it fails, after some seconds.
SKIP:
{
	skip 'PostgreSQL before 19 does not end workers', 2 if $alone->pg_version->major < 19;
	sql($alone, 'postgres', 'CREATE DATABASE theirs');
	sql($alone, 'theirs', q{CREATE EXTENSION dcounter; SELECT dc_create('c', totals => 'compacted'), dc_worker_start()});
	isnt(pid_of($alone, 'theirs'), '', 'a worker of another database');
	sql($alone, 'postgres', 'ALTER DATABASE theirs RENAME TO others');
	is(sql($alone, 'others', 'SELECT dc_worker_start()'), 't', 'it has left, and can be started again');
	sql($alone, 'postgres', 'DROP DATABASE others');
}

#
# dc_maintain(), without preload
#
sql($alone, 'postgres', 'SELECT dc_worker_stop()');
sql($alone, 'postgres', q{
	CREATE ROLE bob; GRANT CREATE ON SCHEMA public TO bob;
	SELECT dc_create('before', totals => 'compacted'), dc_create('broken', totals => 'compacted'), dc_create('failing', totals => 'compacted');
	SET ROLE bob; SELECT dc_create('bobs', totals => 'compacted');
	RESET ROLE; SELECT dc_create('after', totals => 'compacted');
	SELECT dc_incr('broken', 'key'); ALTER TABLE broken_shard DROP COLUMN updated_at;
	CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE 'no totals today' USING DETAIL = 'It is too late.', HINT = 'Try tomorrow.'; END $$;
	CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON failing FOR EACH ROW EXECUTE FUNCTION fails();});
my $fill = q{SELECT dc_incr(t, 'key ' || n) FROM unnest(ARRAY['before', 'failing', 'bobs', 'after']::regclass[]) AS t, generate_series(1, 50) AS n};
my $sums = q{SELECT (SELECT sum(value) FROM before), (SELECT sum(value) FROM failing), (SELECT sum(value) FROM bobs), (SELECT sum(value) FROM after)};

sql($alone, 'postgres', $fill);
sql($alone, 'postgres', 'SET ROLE bob; CALL dc_maintain()');
is(sql($alone, 'postgres', $sums), '||50|', 'dc_maintain() is about the tables of its caller');
my (undef, $out, $err) = $alone->psql('postgres', '\set VERBOSITY verbose
	CALL dc_maintain()');
like($err, qr/WARNING:  P0001: dcounter job "compaction" on "failing" failed: no totals today\nDETAIL:  It is too late.\nHINT:  Try tomorrow./,
	'a table that fails gives a warning');
unlike($err, qr/ERROR/, 'and no error');
is(sql($alone, 'postgres', $sums), '50||50|50', 'the others are compacted');
cmp_ok(sql($alone, 'postgres', 'SELECT count(DISTINCT xmin::text) FROM after'), '>=', 5, 'batch by batch');

sql($alone, 'postgres', 'DROP TRIGGER fails ON failing');
sql($alone, 'postgres', "$fill; BEGIN; CALL dc_maintain(); ROLLBACK");
is(sql($alone, 'postgres', $sums), '50||50|50', 'in a transaction block it can be rolled back');
sql($alone, 'postgres', q{BEGIN; SELECT dc_incr('after', 'pending'); CALL dc_maintain(); COMMIT});
is(sql($alone, 'postgres', $sums), '100|100|100|101', 'and committed');
is(sql($alone, 'postgres', 'SELECT count(DISTINCT xmin::text) FROM after'), '1', 'all at once');

is(answer($alone, 'postgres', 'SELECT dc_worker_start()'), 't', 'a worker before a restart');
$alone->restart;
is(sql($alone, 'postgres', $workers), '', 'none after it');
$alone->append_conf('postgresql.conf', 'max_worker_processes = 0');
$alone->restart;
fails_with($alone, 'postgres', 'SELECT dc_worker_start()', '53400', 'no room for one');
my @ends = log_since($alone, $alone_offset) =~ /"dcounter worker" .* exited with exit code/g;
is(scalar @ends, 1, 'only the role without LOGIN has made a worker fail, once');
$alone->stop;

# Back to the launcher
is($starter->wait, 't', 'dc_worker_start() has waited for a launcher');
$starter->quit;
state_is($node, 'plain', 'running', 'whose worker that is');
isnt(sql($node, 'postgres', $launcher), $first, 'another launcher');
soon($node, 'postgres', $workers, 'a plain postgres', 'each database has one worker');

#
# Starting and stopping
#
fails_with($node, 'plain', "SET ROLE joe; SELECT $_()", '42501', "$_() is not for everyone")
  foreach 'dc_worker_start', 'dc_worker_stop';
sql($node, 'plain', "GRANT EXECUTE ON FUNCTION $_() TO joe") foreach 'dc_worker_start', 'dc_worker_stop';
is(answer($node, 'plain', 'SET ROLE joe; SELECT dc_worker_start(), dc_worker_stop(), dc_worker_stop()'),
	'f|t|f', 'but for whom it is granted');
state_is($node, 'plain', 'stopped', 'a worker that was stopped');

set_conf($node, 'dcounter.worker' => 'off');
soon($node, 'postgres', $workers, '', 'dcounter.worker is off: all workers leave');
state_is($node, 'a', 'off', 'and that is shown');
fails_with($node, 'a', 'SELECT dc_worker_start()', '55000', 'dc_worker_start() while they are off');
set_conf($node, 'dcounter.worker' => 'on');
soon($node, 'postgres', $workers, 'a postgres', 'on: they come back, but the one that was stopped');
state_is($node, 'plain', 'stopped', 'which stays so');
is(answer($node, 'plain', 'SET ROLE joe; SELECT dc_worker_start(), dc_worker_start()'), 't|f', 'until dc_worker_start()');
state_is($node, 'plain', 'running', 'it runs again');

$node->stop;
done_testing();
