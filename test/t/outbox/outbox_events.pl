# Events and notifications of changed keys, with the worker: LISTEN, at most one event
# of a key in an interval, transactions that end late, a crash, dump and restore; and which
# transactions delay delivery.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $limit = 40;
my $node = dc_node('events',
	conf => [ "shared_preload_libraries = 'dcounter'", 'dcounter.compact_interval = 50ms', 'dcounter.events_interval = 20ms', 'timezone = UTC',
		# nobody waits for a standby that does not exist, unless asked to
		'wal_level = replica', 'max_wal_senders = 2', q(synchronous_standby_names = 'nobody'), 'synchronous_commit = local' ]);

# events(KEY): the values that were reported of a key, in order
sub events
{
	my ($key) = @_;

	return qq{SELECT string_agg(payload ->> 'value', ' ' ORDER BY seq) FROM dcounter.outbox
		WHERE aggregatetype = 'likes' AND aggregateid = '$key' AND type = 'counter.changed'};
}

# heard(SESSION, WHAT, NAME): a test that a session is notified in the end. It
# does not listen to the table, so looking does not make it happen.
sub heard
{
	my ($session, $what, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $end = time + $limit;
	my $out = '';

	until ($out =~ $what || time > $end)
	{
		sleep(0.02);
		$out .= $session->run('SELECT');
	}
	return like($out, $what, $name);
}

# last_event(KEY): the value that was reported last. One that has not changed may be
# reported again when it is compacted.
sub last_event
{
	my ($key) = @_;

	return qq{SELECT payload ->> 'value' FROM dcounter.outbox WHERE aggregateid = '$key' ORDER BY seq DESC LIMIT 1};
}

sql($node, 'postgres', q{SELECT dc_create('likes')});
sql($node, 'postgres', q{SELECT dc_alter('likes', events => '1 ms', notify => 'Page "1"')});

my $page = dc_session($node, 'postgres');
$page->run('LISTEN "Page ""1"""');
sql($node, 'postgres', q{SELECT dc_incr('likes', 'a', 3)});
heard($page, qr/Asynchronous notification "Page "1"" with payload "\{"key": "a", "value": 3, "updated_at": "2[^"]*"\}"/, 'a page that listens is told');
is(answer($node, 'postgres', events('a')), '3', 'there is one event');
sql($node, 'postgres', q{SELECT dc_delete('likes', 'a')});
heard($page, qr/payload "\{"key": "a", "value": null, "updated_at": null\}"/, 'of a key that is gone as well');
sql($node, 'postgres', q{SELECT dc_set('likes', repeat(chr(1), 1024), 5)});
heard($page, qr/payload "\{"key": "(\\u0001){1024}", "value": 5, /, 'of the longest key');

# Conflation. The first round is due at once, the next in an hour. All at once, and when no round is under way, or that is the first one.
is(wait_for($node, 'postgres', 'SELECT count(*) FROM dcounter.changed_key', '0', $limit), '0', 'no event is due');
sql($node, 'postgres', q{
	BEGIN;
	SELECT dc_alter('likes', events => '1 hour', notify => '');
	UPDATE dcounter.counter_events SET last_round = NULL;
	SELECT dc_set('likes', 'b', 1);
	COMMIT});
is(wait_for($node, 'postgres', events('b'), '1', $limit), '1', 'the first change is reported');
sql($node, 'postgres', q{SELECT dc_incr('likes', 'b')}) foreach 1 .. 5;
is(wait_for($node, 'postgres', q{SELECT value FROM likes WHERE key = 'b'}, '6', $limit), '6', 'others are compacted');
sql($node, 'postgres', q{SELECT dc_incr('likes', 'b', 10)});
is(wait_for($node, 'postgres', q{SELECT value FROM likes WHERE key = 'b'}, '16', $limit), '16', 'in several rounds');
is(answer($node, 'postgres', events('b')), '1', 'and not reported within the interval');
like(sql($node, 'postgres', q{SELECT count(*) FROM dcounter.changed_key WHERE key = 'b'}), qr/^[1-9]/, 'but noted');

# A crash loses nothing; the time of the last round is kept
$node->stop('immediate');
$node->start;
sql($node, 'postgres', q{SELECT dc_incr('likes', 'b', 100)});
is(wait_for($node, 'postgres', q{SELECT value FROM likes WHERE key = 'b'}, '116', $limit), '116', 'the worker is back after a crash');
is(answer($node, 'postgres', events('b')), '1', 'the interval goes on');

# Dump and restore, too: the last value is reported there
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('restored') ], 'restore');
is(sql($node, 'restored', 'SELECT counter, every FROM dcounter.counter_events'), 'likes|01:00:00', 'the settings are restored');
like(sql($node, 'restored', q{SELECT count(*) FROM dcounter.changed_key WHERE key = 'b'}), qr/^[1-9]/, 'and what is still to be reported');
sql($node, $_, q{SELECT dc_alter('likes', events => '1 ms')}) foreach 'postgres', 'restored';
is(wait_for($node, $_, events('b'), '1 116', $limit), '1 116', "the newest value comes: $_") foreach 'postgres', 'restored';
sql($node, 'restored', q{SELECT dc_incr('likes', 'b')});
is(wait_for($node, 'restored', events('b'), '1 116 117', $limit), '1 116 117', 'and events go on');

# Transactions that end late, while others are reported
my $late = dc_session($node, 'postgres');
$late->run(q{BEGIN; SELECT dc_set('likes', 'late', 1)});
sql($node, 'postgres', q{BEGIN; SELECT dc_set('likes', 'prepared', 2); PREPARE TRANSACTION 'p'});
my $other = dc_session($node, 'postgres');
$other->run(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM likes});
sql($node, 'postgres', q{SELECT dc_set('likes', 'c', 3)});
is(wait_for($node, 'postgres', last_event('c'), '3', $limit), '3', 'open transactions do not hold up others');
$late->run('COMMIT');
is(wait_for($node, 'postgres', last_event('late'), '1', $limit), '1', 'a late commit is reported');
sql($node, 'postgres', q{COMMIT PREPARED 'p'});
is(wait_for($node, 'postgres', last_event('prepared'), '2', $limit), '2', 'a prepared transaction, too');
$other->run('COMMIT');
is(wait_for($node, 'postgres', 'SELECT count(*) FROM dcounter.changed_key', '0', $limit), '0', 'nothing is left');

$_->quit foreach $page, $late, $other;

# A table that vanishes behind the extension's back: the worker clears up
sql($node, 'postgres', q{SELECT dc_alter('likes', events => '1 hour')});
sql($node, 'postgres', q{
	SELECT dc_set('likes', 'c', 4);
	ALTER EVENT TRIGGER dcounter_drop DISABLE; DROP TABLE likes, likes_shard; ALTER EVENT TRIGGER dcounter_drop ENABLE;
	UPDATE dcounter.counter_events SET last_round = NULL});
is(wait_for($node, 'postgres', 'SELECT (SELECT count(*) FROM dcounter.counter_events) + (SELECT count(*) FROM dcounter.changed_key)', '0', $limit),
	'0', 'settings and marks of a table that vanished go');

# Who holds delivery back: a prepared transaction, a session that is committing
my $worker = q{SELECT string_agg(DISTINCT coalesce(pid::text, state), ' ') FROM dc_stat_worker WHERE datname = current_database()};
my $runs = q{SELECT runs FROM dc_stat_worker WHERE datname = current_database() AND job = 'compaction'};
my $worker_pid = sql($node, 'postgres', $worker);
sql($node, 'postgres', q{SELECT dc_consumer_create('page')});
my $held = q{SELECT held_back, held_back_by_pid, held_back_by_gid FROM dc_stat_outbox};
my $held_page = q{SELECT lag_events, held_back_by_pid, held_back_by_gid FROM dc_stat_consumers};
sql($node, 'postgres', q{
	SELECT dc_publish('t', 'before', 'test', NULL);
	BEGIN; SELECT dc_publish('t', 'prepared', 'test', NULL), dc_publish('t', 'prepared', 'test', NULL); PREPARE TRANSACTION 'p"1';
	SELECT dc_publish('t', 'after', 'test', NULL)});
is(sql($node, 'postgres', $held), '3||p"1', 'a prepared transaction holds back what comes after');
my $runs_then = sql($node, 'postgres', $runs);
is(wait_for($node, 'postgres', "SELECT ($runs) > $runs_then + 2", 't', $limit), 't', 'the worker goes on meanwhile');
is(sql($node, 'postgres', $worker), $worker_pid, 'the same one');
is(sql($node, 'postgres', $held_page), '1||p"1', 'also for each consumer');
$node->restart;
is(sql($node, 'postgres', $held), '3||p"1', 'after a restart as well');
sql($node, 'postgres', q{COMMIT PREPARED 'p"1'});
is(sql($node, 'postgres', $held), '0||', 'until it is committed');
is(sql($node, 'postgres', $held_page), '4||', 'then there is more to fetch');
my $commit = dc_session($node, 'postgres');
my $pid = $commit->run('SELECT pg_backend_pid()');
$commit->run('SET synchronous_commit = on');
$commit->send(q{SELECT dc_publish('t', 'slow', 'test', NULL) IS NULL});
is(wait_for($node, 'postgres', $held, "1|$pid|", $limit), "1|$pid|", 'a session holds back what it commits');
is(sql($node, 'postgres', $held_page), "4|$pid|", 'also for each consumer');
sql($node, 'postgres', "SELECT pg_cancel_backend($pid)");
is($commit->wait, 'f', 'it need not wait any longer');
is(sql($node, 'postgres', $held), '0||', 'and holds back nothing more');

unlike(slurp_file($node->logfile), qr/dcounter worker (?:ERROR|FATAL|PANIC):|dcounter job .* failed/, 'no failure is logged');
$commit->quit;
$node->stop;
done_testing();
