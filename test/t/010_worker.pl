# The launcher and its workers from start to end, with and without
# shared_preload_libraries: which databases have a worker, what makes it leave and
# come back, settings, failures, a standby, crashes and shutdowns.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# The launcher looks around once a minute in any case. What should happen at once
# must have happened long before.
my $limit = 40;

my $workers = q{SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_stat_activity
	WHERE backend_type = 'dcounter worker'};

# A worker that left in another way than it should, or could not do its work
my $failed = qr/dcounter worker (?:ERROR|FATAL|PANIC):|dcounter job .* failed|"dcounter worker" .* exited/;

# soon(NODE, DATABASE, QUERY, RESULT, NAME): a test
sub soon
{
	my ($node, $database, $sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(wait_for($node, $database, $sql, $expected, $limit), $expected, $name);
}

# pid_of(NODE, DATABASE): of the worker there, "" if none
sub pid_of
{
	my ($node, $database) = @_;

	return sql($node, 'postgres', qq{
		SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = '$database'});
}

# another_worker(NODE, DATABASE, PID, NAME): one is there, which is not PID
sub another_worker
{
	my ($node, $database, $pid, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	isnt($pid, '', "$name: there was a worker");
	return soon($node, 'postgres', qq{
		SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = '$database' AND pid <> 0$pid},
		'1', $name);
}

# state_is(NODE, DATABASE, STATE, NAME): what dc_stat_worker says, also of whether
# there is a process
sub state_is
{
	my ($node, $database, $state, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return soon($node, 'postgres', qq{
		SELECT state, pid IS NOT NULL, EXISTS (SELECT FROM pg_stat_activity
			WHERE backend_type = 'dcounter worker' AND datname = '$database')
		FROM dc_stat_worker WHERE job = 'compaction' AND datname = '$database'},
		$state eq 'running' ? 'running|t|t' : "$state|f|f", $name);
}

# compacts(NODE, DATABASE, COUNTER, NAME): what is counted gets to the totals
my $keys = 0;

sub compacts
{
	my ($node, $database, $counter, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $key = 'key ' . ++$keys;

	sql($node, $database, "SELECT dc_incr('$counter', '$key', 3)");
	return soon($node, $database, "SELECT value FROM $counter WHERE key = '$key'", '3', $name);
}

# set_conf(NODE, SETTING => VALUE...): by reload; new sessions have it then
sub set_conf
{
	my ($node, %conf) = @_;

	$node->append_conf('postgresql.conf', "$_ = '$conf{$_}'") foreach keys %conf;
	$node->reload;
	foreach (keys %conf)
	{
		die "$_ is not set" if wait_for($node, 'postgres', "SELECT current_setting('$_')", $conf{$_}, $limit) ne $conf{$_};
	}
	return;
}

# log_since(NODE, OFFSET): the server log from there on
sub log_since
{
	my ($node, $offset) = @_;

	return slurp_file($node->logfile, $offset);
}

# logged(NODE, OFFSET, PATTERN, NAME): a test
sub logged
{
	my ($node, $offset, $pattern, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $end = time + $limit;

	sleep(0.05) while log_since($node, $offset) !~ $pattern && time < $end;
	return like(log_since($node, $offset), $pattern, $name);
}

my @conf = (
	"dcounter.compact_interval = '100ms'", 'autovacuum = off', 'restart_after_crash = on',
	"log_line_prefix = '%m [%p] %b %q%a '");
my $node = dc_node('main', init => { allows_streaming => 1 }, conf => [
		@conf, "shared_preload_libraries = 'dcounter'", 'max_worker_processes = 20']);

#
# Which databases have a worker
#
sql($node, 'postgres', "CREATE DATABASE $_") foreach 'a', 'plain';
sql($node, 'a', 'CREATE EXTENSION dcounter');
soon($node, 'postgres', $workers, 'a postgres', 'a worker after CREATE EXTENSION');
state_is($node, 'plain', 'no extension', 'none without the extension');
is(sql($node, 'postgres', q{
	SELECT count(*) FROM dc_stat_worker WHERE job = 'compaction' AND datname LIKE 'template%'}), '0', 'nor in a template database');
is(sql($node, 'postgres', q{
	SELECT backend_type, application_name, datname IS NULL FROM pg_stat_activity WHERE backend_type LIKE 'dcounter l%'}),
	'dcounter launcher|dcounter launcher|t', 'the launcher is in no database');

sql($node, 'a', q{
	CREATE ROLE alice; CREATE SCHEMA private AUTHORIZATION alice;
	SELECT dc_create('c');
	SET ROLE alice; SELECT dc_create('private.c');});
compacts($node, 'a', $_, "$_ is compacted") foreach 'c', 'private.c';

my $session = dc_session($node, 'plain');
is($session->run('BEGIN; CREATE EXTENSION dcounter; ROLLBACK'), '', 'CREATE EXTENSION, rolled back');
$session->run('BEGIN; SAVEPOINT s; CREATE EXTENSION dcounter; ROLLBACK TO s; CREATE EXTENSION dcounter');
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

# This one waits for a session to end, while we go on.
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
# Databases that may have none any more
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
sql($node, 'plain', "BEGIN; CREATE EXTENSION dcounter; PREPARE TRANSACTION 'extension'");
state_is($node, 'plain', 'no extension', 'CREATE EXTENSION, prepared');
sql($node, 'plain', "COMMIT PREPARED 'extension'");
state_is($node, 'plain', 'running', 'and committed');
sql($node, 'a', "SELECT dc_create('gone'); SELECT dc_incr('gone', 'a'); SELECT pg_sleep(random() * 0.1); SELECT dc_drop('gone')")
  foreach 1 .. 10;
unlike(log_since($node, $offset), $failed, 'a database, an extension or a table that is gone is no error');

#
# Signals
#
my $launcher = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter launcher'};
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
soon($node, 'postgres', "SELECT wait_event FROM pg_stat_activity WHERE pid = $first", 'Extension', 'the launcher sleeps');
kill('STOP', $first);
sql($node, 'postgres', 'CREATE DATABASE unseen TEMPLATE template0');
sql($node, 'unseen', 'CREATE EXTENSION dcounter');
is(answer($node, 'unseen', 'SELECT dc_worker_stop()'), 'f', 'no worker yet, and none is to come');
kill('CONT', $first);
sql($node, 'postgres', 'CREATE DATABASE later TEMPLATE template0');
sql($node, 'later', 'CREATE EXTENSION dcounter');
soon($node, 'postgres', q{SELECT state FROM dc_stat_worker WHERE datname = 'later' AND job = 'compaction'}, 'running', 'the launcher has looked around');
is(sql($node, 'postgres', q{SELECT state, pid IS NULL FROM dc_stat_worker WHERE datname = 'unseen' AND job = 'compaction'}), 'stopped|t', 'it stays stopped');
is(answer($node, 'unseen', 'SELECT dc_worker_start()'), 't', 'until it is started');
sql($node, 'postgres', "DROP DATABASE $_") foreach 'unseen', 'later';

sql($node, 'postgres', "SELECT pg_terminate_backend($pid)");
another_worker($node, 'a', $pid, 'pg_terminate_backend(): another worker');

soon($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'plain'},
	'1', 'the worker of another database is there');

# The postmaster takes ten seconds to start another launcher. Who wants a worker
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
my $alone = dc_node('alone', conf => [ @conf, 'dcounter.compact_batch = 10' ]);

sql($alone, 'postgres', "SELECT dc_create('c')");
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

# A signal that comes when the step cannot be interrupted any more: it is done,
# and the worker ends all the same.
sql($alone, 'postgres', q{
	SELECT dc_worker_stop();
	CREATE SEQUENCE begun;
	CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE
			data bytea := repeat(tg_name, 10000000)::bytea;
		BEGIN
			PERFORM nextval('public.begun');
			RETURN CASE WHEN length(sha512(data) || sha512(data) || sha512(data) || sha512(data)) > 0 THEN NULL END;
		END $$;
	CREATE TRIGGER busy AFTER DELETE ON c_shard FOR EACH STATEMENT EXECUTE FUNCTION busy();
	SELECT dc_incr('c', 'busy'); SELECT dc_worker_start();});
soon($alone, 'postgres', 'SELECT is_called FROM begun', 't', 'the worker is busy');
is(answer($alone, 'postgres', 'SELECT dc_worker_stop()'), 't', 'it is stopped');
is(sql($alone, 'postgres', $workers), '', 'and is gone');
sql($alone, 'postgres', 'DROP TRIGGER busy ON c_shard');

# A step that sleeps is woken up, no matter when the next one would be.
set_conf($alone, 'dcounter.compact_interval' => '1d');
sql($alone, 'postgres', q{
	CREATE FUNCTION sleeps() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1000); RETURN NEW; END $$;
	CREATE TRIGGER sleeps BEFORE INSERT OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION sleeps();
	SELECT dc_incr('c', 'sleeps'); SELECT dc_worker_start();});
soon($alone, 'postgres', q{SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'dcounter worker'},
	'PgSleep', 'the worker sleeps in a step');
is(answer($alone, 'postgres', 'SELECT dc_worker_stop()'), 't', 'it is stopped');
sql($alone, 'postgres', 'DROP TRIGGER sleeps ON c');
unlike(log_since($alone, 0), $failed,
	'workers that were stopped left without an error');

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
$pid = pid_of($alone, 'postgres');
kill('KILL', sql($alone, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'}));
soon($alone, 'postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND pid <> $pid", '0', 'is gone after it');
is(answer($alone, 'postgres', 'SELECT dc_worker_start()'), 't', 'another one');
compacts($alone, 'postgres', 'c', 'which works');

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

#
# Settings
#
unlike(log_since($node, 0), qr/dcounter job "compaction" took/, 'runs are not logged');
$offset = -s $node->logfile;
set_conf($node, 'dcounter.log_min_duration' => '0');
logged($node, $offset, qr/dcounter worker LOG:  dcounter job "compaction" took \d+\.\d+ ms/,
	'unless dcounter.log_min_duration says so');
set_conf($node, 'dcounter.log_min_duration' => '-1', 'dcounter.compact_interval' => '1d');
my $lag = '';
foreach (1 .. 20)
{
	sql($node, 'a', q{SELECT dc_incr('c', 'lag')});
	sleep(0.5);
	$lag = sql($node, 'a', q{SELECT dc_get('c', 'lag') - coalesce((SELECT value FROM c WHERE key = 'lag'), 0)});
	last if $lag > 0;
}
cmp_ok($lag, '>', 0, 'a longer dcounter.compact_interval: the totals lag behind');
set_conf($node, 'dcounter.compact_interval' => '100ms');
soon($node, 'a', q{SELECT dc_get('c', 'lag') - value FROM c WHERE key = 'lag'}, '0', 'a shorter one: no more');

#
# A table that fails
#
$offset = -s $node->logfile;
sql($node, 'a', q{
	SELECT dc_create('before'), dc_create('failing'), dc_create('after');
	CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no totals today'; END $$;
	CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON failing FOR EACH ROW EXECUTE FUNCTION fails();
	SELECT dc_incr('failing', 'k');});
compacts($node, 'a', $_, "beside a table that fails, $_ is compacted") foreach 'before', 'after';
soon($node, 'a', q{SELECT failures >= 2 FROM dc_stat_worker WHERE job = 'compaction' AND datname = 'a'}, 't', 'the failures are counted');
like(log_since($node, $offset), qr/dcounter worker LOG:  dcounter job "compaction" on "failing" failed: no totals today\n/, 'logged');
my $error = q{SELECT datname, failures > 0, last_error, last_error_at <= clock_timestamp() FROM dc_stat_worker WHERE job = 'compaction' ORDER BY 1};
my $shown = 'a|t|dcounter job "compaction" on "failing": no totals today|t';
is(sql($node, 'a', $error), "$shown\nplain|f||\npostgres|f||", 'shown');
is(sql($node, 'a', "SET ROLE joe; $error"), 'a|t||t', 'but not to everyone');
is(sql($node, 'a', "GRANT pg_monitor TO joe; SET ROLE joe; $error"), "$shown\nplain|f||\npostgres|f||", 'to pg_monitor');
sql($node, 'a', 'DROP TRIGGER fails ON failing');
soon($node, 'a', q{SELECT value FROM failing WHERE key = 'k'}, '1', 'mended: it is compacted');

#
# A key that cannot be compacted
#
$offset = -s $node->logfile;
sql($node, 'a', q{SELECT dc_create('over')});
sql($node, 'a', "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT dc_incr('over', 'k', 9223372036854775807); COMMIT") foreach 1 .. 2;
soon($node, 'a', q{SELECT overflowed_keys FROM dc_stat_counters WHERE counter = 'over'::regclass}, '1', 'a key whose sum leaves bigint is counted');
# ... of each of these a sweep
foreach (1 .. 30)
{
	sql($node, 'a', q{SELECT dc_incr('over', 'other')});
	wait_for($node, 'a', q{SELECT value - dc_get('over', key) FROM over WHERE key = 'other'}, '0', $limit);
}
is(sql($node, 'a', q{SELECT key, value FROM over WHERE key = 'other'}), 'other|30', '... and others are compacted');
is(() = log_since($node, $offset) =~ /WARNING:  cannot compact key "k" of counter table "over": bigint out of range/g, 1, '... with one warning');
is(sql($node, 'a', q{SELECT dc_set('over', 'k', 5) IS NULL}), 't', 'it is set');
soon($node, 'a', q{SELECT value FROM over WHERE key = 'k'}, '5', '... and compacted');
soon($node, 'a', q{SELECT overflowed_keys FROM dc_stat_counters WHERE counter = 'over'::regclass}, '0', '... and not counted any more');

#
# The role that workers connect as
#
my $started = sql($node, 'postgres', 'SELECT pg_postmaster_start_time()');
sql($node, 'postgres', q{
	CREATE ROLE clerk LOGIN;
	ALTER ROLE clerk SET default_transaction_read_only = on;
	ALTER ROLE clerk SET default_transaction_isolation = 'serializable';
	ALTER ROLE clerk SET search_path = 'nowhere';
	ALTER ROLE clerk SET application_name = 'clerk';});
$offset = -s $node->logfile;
my $missing = qr/dcounter launcher LOG:  role "missing" of dcounter.worker_role does not exist/;
set_conf($node, 'dcounter.worker_role' => 'missing');
logged($node, $offset, $missing, 'a role that does not exist is logged');
compacts($node, 'a', 'c', 'workers that run go on');
$pid = pid_of($node, 'a');
sql($node, 'postgres', "SELECT pg_terminate_backend($pid)");
soon($node, 'postgres', $workers, 'plain postgres', 'no other is started');
set_conf($node, 'dcounter.worker_role' => 'clerk');
soon($node, 'postgres', q{SELECT usename FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'a'},
	'clerk', 'until there is a right role');
compacts($node, 'a', $_, "which works on $_ of somebody else, whatever its settings") foreach 'c', 'private.c';
is(answer($node, 'a', 'SELECT dc_worker_stop(), dc_worker_start()'), 't|t', 'and can be stopped and started');
my @missing = log_since($node, $offset) =~ /$missing/g;
is(scalar @missing, 1, 'that was logged once');

sql($node, 'postgres', 'REVOKE CONNECT ON DATABASE plain FROM PUBLIC');
sql($node, 'postgres', 'SELECT pg_terminate_backend(' . pid_of($node, 'plain') . ')');
logged($node, $offset, qr/FATAL:  permission denied for database "plain"/, 'a role without CONNECT');
state_is($node, 'plain', 'waiting to restart', 'is tried again later');
sql($node, 'postgres', 'GRANT CONNECT ON DATABASE plain TO PUBLIC');
answer($node, 'plain', 'SELECT dc_worker_start()');
isnt(pid_of($node, 'plain'), '', 'or when dc_worker_start() is called');
is(sql($node, 'postgres', 'SELECT pg_postmaster_start_time()'), $started, 'no crash so far');

#
# A crash
#
my $before = join(', ', map { pid_of($node, $_) } 'a', 'plain', 'postgres');
my $victim = dc_session($node, 'postgres');
kill('KILL', $victim->run('SELECT pg_backend_pid()'));
soon($node, 'postgres', "$workers AND pid NOT IN ($before)", 'a plain postgres', 'after a crash all workers are there');
like(log_since($node, $offset), qr/all server processes terminated; reinitializing/, 'it was a crash');
$victim->quit;
is(sql($node, 'postgres', $launcher =~ s/pid/count(*)/r), '1', 'and one launcher');
compacts($node, 'a', 'c', 'they work');

#
# A shutdown, with a step that is running and one that is far away
#
set_conf($node, 'dcounter.compact_interval' => '1d');
sql($node, 'a', q{
	SELECT dc_worker_stop();
	CREATE FUNCTION sleeps() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_sleep(1000) WHERE current_setting('dcounter.compact_interval') = '1d'; RETURN NEW; END $$;
	CREATE TRIGGER sleeps BEFORE INSERT OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION sleeps();
	SELECT dc_incr('c', 'sleeps'); SELECT dc_worker_start();});
soon($node, 'postgres', q{SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'a'},
	'PgSleep', 'a worker sleeps in a step');
$offset = -s $node->logfile;
my $begin = time;
$node->stop('fast');
cmp_ok(time - $begin, '<', $limit, 'a fast shutdown does not wait for it');
unlike(log_since($node, $offset), $failed, 'nor does it fail');

#
# No room: two workers, three databases
#
$node->append_conf('postgresql.conf',
	"max_worker_processes = 3\nmax_logical_replication_workers = 0\ndcounter.compact_interval = '100ms'");
$offset = -s $node->logfile;
$node->start;
my $room = qr/could not start a dcounter worker: no background worker slot is free/;
logged($node, $offset, $room, 'no room for a third worker');
soon($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'}, '2', 'two are there');
my $idle = sql($node, 'postgres', q{SELECT datname FROM dc_stat_worker WHERE job = 'compaction' AND pid IS NULL});
my @running = split /\n/, sql($node, 'postgres', q{SELECT datname FROM dc_stat_worker WHERE job = 'compaction' AND pid IS NOT NULL});
state_is($node, $idle, 'not running', 'and one is not');
$starter = dc_session($node, $idle);
$starter->send('SELECT dc_worker_start()');

foreach (@running)
{
	sql($node, $_, "SELECT dc_create('room')");
	compacts($node, $_, 'room', 'a worker that runs works');
}
my $looked = q{SELECT state_change FROM pg_stat_activity WHERE backend_type = 'dcounter launcher'};
my $rests = 0;
for (my $end = time + $limit; !$rests && time < $end;)
{
	my $then = sql($node, 'postgres', $looked);

	sleep(1);
	$rests = 1 if sql($node, 'postgres', $looked) eq $then;
}
is($rests, 1, 'the launcher does not try all the time');

#
# Meanwhile, a worker that has nothing to do
#
my ($moved, $runs, $samples, $busy);
foreach (1 .. 10)
{
	sql($node, 'postgres', 'CHECKPOINT');
	$session = dc_session($node, 'a');
	my $count = "SELECT sum(runs) FROM dc_stat_worker WHERE job = 'compaction' AND datname = '$running[0]'";
	my $active = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'
		AND num_nonnulls(backend_xmin, backend_xid, xact_start) > 0};

	# what a first use writes, such as hints, is written now
	$session->run($_) foreach ($count, $active, 'SELECT pg_current_wal_insert_lsn()') x 2;
	$runs = $session->run($count);
	my $lsn = $session->run('SELECT pg_current_wal_insert_lsn()');
	($samples, $busy) = (0, 0);
	for (my $end = time + 3; time < $end; sleep(0.05))
	{
		$samples++;
		$busy++ if $session->run($active) > 0;
	}
	$moved = $session->run("SELECT pg_current_wal_insert_lsn() - '$lsn'");
	$runs = $session->run($count) - $runs;
	$session->quit;
	last if $moved == 0;
}
is($moved, '0', 'it writes no WAL');
cmp_ok($runs, '>=', 2, 'although it looks for work');
cmp_ok($busy, '<', $samples / 2, 'most of the time it has no transaction and no snapshot');

#
# dc_maintain(), without preload
#
sql($alone, 'postgres', 'SELECT dc_worker_stop()');
sql($alone, 'postgres', q{
	CREATE ROLE bob; GRANT CREATE ON SCHEMA public TO bob;
	SELECT dc_create('before'), dc_create('broken'), dc_create('failing');
	SET ROLE bob; SELECT dc_create('bobs');
	RESET ROLE; SELECT dc_create('after');
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

#
# A standby
#
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_worker_processes = 20');
$standby->start;

is($starter->wait, 'ERROR 53400', 'dc_worker_start() says that there is no room');
$starter->quit;
my @room = log_since($node, $offset) =~ /$room/g;
is(scalar @room, 1, 'it was logged once');
is(answer($node, $running[0], 'SELECT dc_worker_stop()'), 't', 'a worker makes room');
state_is($node, $idle, 'running', 'for another');
sql($node, $idle, "SELECT dc_create('room')");
compacts($node, $idle, 'room', 'which works');

set_conf($node, 'dcounter.worker' => 'off');
soon($node, 'postgres', $workers, '', 'the primary compacts no more');
sql($node, 'a', q{SELECT dc_incr('c', 'standby', 7)});
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(sql($standby, 'a', q{SELECT dc_get('c', 'standby'), (SELECT count(*) FROM c WHERE key = 'standby'),
	(SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'dcounter%')}),
	'7|0|0', 'a standby has no launcher and no worker');
fails_with($standby, 'a', $_, '25006', "$_ on a standby") foreach 'SELECT dc_worker_start()', 'CALL dc_maintain()';
$node->stop('immediate');
$standby->promote;
soon($standby, 'a', q{SELECT value FROM c WHERE key = 'standby'}, '7', 'promoted: it compacts');
soon($standby, 'postgres', $workers, 'a plain postgres', 'in all databases');
is(sql($standby, 'a', q{SELECT dc_get('c', 'standby')}), '7', 'exactly');

$standby->stop;
done_testing();
