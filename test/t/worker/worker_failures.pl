# Workers that cannot do their work: settings, tables and keys that fail, roles that
# lack privileges, a crash, a shutdown, no free slot, a standby.
use strict;
use warnings;

use DcTest;
use DcWorker;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = dc_node('main', init => { allows_streaming => 1 }, conf => [
		worker_conf(), "shared_preload_libraries = 'dcounter'", 'max_worker_processes = 20' ]);

#
# Databases with a worker
#
sql($node, 'postgres', "CREATE DATABASE $_") foreach 'a', 'plain';
sql($node, $_, 'CREATE EXTENSION dcounter') foreach 'a', 'plain';
sql($node, 'a', q{
	CREATE ROLE joe; CREATE ROLE alice; CREATE SCHEMA private AUTHORIZATION alice;
	SELECT dc_create('c', totals => 'compacted');
	SET ROLE alice; SELECT dc_create('private.c', totals => 'compacted');});
sql($node, $_, q{SELECT dc_create('here', totals => 'compacted')}) foreach 'plain', 'postgres';
soon($node, 'postgres', $workers, 'a plain postgres', 'each database has a worker');

#
# Settings
#
unlike(log_since($node, 0), qr/dcounter job "compaction" took/, 'runs are not logged');
my $offset = -s $node->logfile;
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
	SELECT dc_create('before', totals => 'compacted'), dc_create('failing', totals => 'compacted'), dc_create('after', totals => 'compacted');
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
# Many that fail, while somebody has locked the extension: that could be DROP EXTENSION, which is waited for once and not for each of them
sql($node, 'a', q{
	CREATE FUNCTION depends() RETURNS int LANGUAGE sql AS 'SELECT 1';
	SELECT count(dc_create('many' || i, totals => 'compacted')) FROM generate_series(1, 200) AS i;
	DO $$ BEGIN FOR i IN 1 .. 200 LOOP EXECUTE format('CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON many%s FOR EACH ROW EXECUTE FUNCTION fails()', i); END LOOP; END $$;});
my $locker = dc_session($node, 'a');
$locker->run('BEGIN; ALTER FUNCTION depends() DEPENDS ON EXTENSION dcounter');
$offset = -s $node->logfile;
my $many_from = time;
sql($node, 'a', q{SELECT count(dc_incr('many' || i, 'k')) FROM generate_series(1, 200) AS i});
logged($node, $offset, qr/"compaction" on "many$_" failed/, "table $_ of many fails") foreach 1 .. 200;
cmp_ok(time - $many_from, '<', 15, 'without a wait of 0.1 s for each');
$locker->run('ROLLBACK');
$locker->quit;
sql($node, 'a', q{SELECT count(dc_drop('many' || i)) FROM generate_series(1, 200) AS i; DROP FUNCTION depends()});
sql($node, 'a', 'DROP TRIGGER fails ON failing');
soon($node, 'a', q{SELECT value FROM failing WHERE key = 'k'}, '1', 'mended: it is compacted');

#
# A key that cannot be compacted
#
$offset = -s $node->logfile;
sql($node, 'a', q{SELECT dc_create('over', totals => 'compacted')});
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
my $pid = pid_of($node, 'a');
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
is(worker_failures(log_since($node, $offset)), '', 'nor does it fail');

#
# No room
#
$node->append_conf('postgresql.conf',
	"max_worker_processes = 1\nmax_logical_replication_workers = 0\ndcounter.compact_interval = '100ms'");
$offset = -s $node->logfile;
$node->start;
my $room = qr/could not start a dcounter worker: no background worker slot is free/;
logged($node, $offset, $room, 'no room for a worker');
my $starter = dc_session($node, 'plain');
$starter->send('SELECT dc_worker_start()');
my $looked = q{SELECT state_change FROM pg_stat_activity WHERE backend_type = 'dcounter launcher'};
my $rests = 0;
for (my $end = time + $limit; !$rests && time < $end;)
{
	my $then = sql($node, 'postgres', $looked);

	sleep(1);
	$rests = 1 if sql($node, 'postgres', $looked) eq $then;
}
is($rests, 1, 'the launcher does not try all the time');
is($starter->wait, 'ERROR 53400', 'dc_worker_start() says that there is no room');
$starter->quit;
my @room = log_since($node, $offset) =~ /$room/g;
is(scalar @room, 1, 'it was logged once');

# The first worker takes a slot in any case, the others leave some.
$node->append_conf('postgresql.conf', 'max_worker_processes = 3');
$offset = -s $node->logfile;
$node->restart;
my $few = qr/dcounter leaves background worker slots to others: \d databases wait for a worker/;
logged($node, $offset, $few, 'room for one worker');
# One that ends is there for a moment longer: so for how long there are the same two
my ($longest, $since, $pair, @seen) = (0, time, '');
for (my $end = time + $limit; @seen < 3 && time < $end; sleep(0.05))
{
	my @now = split / /, sql($node, 'postgres', $workers);

	($since, $pair) = (time, "@now") if "@now" ne $pair;
	$longest = time - $since if @now > 1 && time - $since > $longest;
	foreach my $name (@now) { push @seen, $name if !grep { $_ eq $name } @seen }
}
cmp_ok($longest, '<', 1, '... one at a time');
is("@{[sort @seen]}", 'a plain postgres', '... for each database');
compacts($node, $_, 'here', "and $_ is compacted") foreach 'plain', 'postgres', 'plain';
is(answer($node, 'plain', 'SELECT dc_worker_stop() IS NOT NULL, dc_worker_start()'), 't|t', 'dc_worker_start() gets a turn');
my @few = log_since($node, $offset) =~ /$few/g;
is(scalar @few, 1, 'it was logged once');

#
# Meanwhile, a worker that has nothing to do
#
my ($moved, $runs, $samples, $busy);
state_is($node, $_, 'stopped', "$_ is left") foreach map { answer($node, $_, 'SELECT dc_worker_stop()'); $_ } 'a', 'plain';

foreach (1 .. 10)
{
	sql($node, 'postgres', 'CHECKPOINT');
	my $session = dc_session($node, 'a');
	my $count = "SELECT sum(runs) FROM dc_stat_worker WHERE job = 'compaction' AND datname = 'postgres'";
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
# A standby
#
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_worker_processes = 20');
$standby->start;

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
