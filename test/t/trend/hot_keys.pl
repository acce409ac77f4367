# Hot keys: the rate of a window that is over, and the alert, which reports each key once: not in a transaction, nor in a
# savepoint, that is rolled back, by the worker or dc_maintain(), whichever comes first. The key has a letter that the encoding
# of a client lacks, which sees no message of the log.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = dc_node('hot', extension => 0, conf => [ q{shared_preload_libraries = 'dcounter'}, 'autovacuum = off', 'dcounter.hot_key_alarm = 100' ]);

# events(DATABASE): what was told
sub events
{
	return sql($node, $_[0], q{SELECT string_agg(aggregatetype || ' ' || aggregateid || ' ' || type, ', ' ORDER BY seq) FROM dcounter.outbox});
}

# window_begins(): waits for the beginning of a window: a multiple of 10 s of the clock that counts up from the start of the machine,
# which to the server has begun with DC_FIRST_MOMENT
sub window_begins
{
	my $now = Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC()) + (1 << 61) % 10_000_000 / 1_000_000;

	sleep(10 - $now + 10 * int($now / 10) + 0.1);
	return;
}

# busy(DATABASE, WRITES): writes of "hot" in the window that is open, and a few of others. One in 16 is counted as 16: of 8,000
# that is 8,000, to some 350 (a standard error).
my $write = q{DO $$ BEGIN FOR i IN 1 .. %d LOOP PERFORM dc_incr('likes', 'hot漢'); IF i %% 40 = 0 THEN PERFORM dc_incr('likes', 'cold' || i %% 10); END IF; COMMIT; END LOOP; END $$};

# The worker of this database is away, so that dc_maintain() tells
sql($node, 'postgres', q{CREATE EXTENSION dcounter; SELECT dc_worker_stop(); SELECT dc_create('likes')});
# and of that one not
sql($node, 'postgres', 'CREATE DATABASE watched');
sql($node, 'watched', q{CREATE EXTENSION dcounter; SELECT dc_create('likes')});
wait_for($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'dcounter%' AND datname = 'postgres'}, '0');

window_begins();
my $started = time;
sql($node, $_, sprintf $write, 8000) foreach 'postgres', 'watched';
my $took = time - $started;
window_begins() if $took < 9.5;
my $rate = sql($node, 'postgres', q{SELECT writes_last_window FROM dc_stat_hot_keys WHERE key = 'hot漢'});

SKIP:
{
	skip 'the machine is too slow to write within a window', 2 if $took >= 9.5;
	# eight standard errors
	cmp_ok(abs($rate - 800), '<', 280, 'the writes of the window that is over');
	cmp_ok(sql($node, 'postgres', q{SELECT coalesce(max(writes_last_window), 0) FROM dc_stat_hot_keys WHERE key <> 'hot漢'}), '<', 60, 'and those of others');
}

# From here on it stays hot, however long each step takes
my @writers = map {
	sql($node, $_, 'CREATE TABLE go ()');
	start_command('psql', '-XAtq', '-d', $node->connstr($_), '-c', q{DO $$ BEGIN WHILE to_regclass('go') IS NOT NULL LOOP PERFORM dc_incr('likes', 'hot漢'); COMMIT; END LOOP; END $$});
} 'postgres', 'watched';

is(wait_for($node, 'watched', q{SELECT count(*) FROM dcounter.outbox}, '1'), '1', 'the worker tells');
is(events('watched'), 'likes hot漢 counter.hot', 'of the key');
is(sql($node, 'watched', q{SELECT (payload ->> 'alarm')::int = 100 AND (payload ->> 'writes_per_second')::int >= 100 FROM dcounter.outbox}), 't', 'with its rate');

# in a transaction block that rolls back, and in a savepoint that does
is(events('postgres'), '', 'nothing yet where nobody looks');
sql($node, 'postgres', 'BEGIN; CALL dc_maintain(); ROLLBACK');
is(events('postgres'), '', 'rolled back');
sql($node, 'postgres', 'BEGIN; SAVEPOINT s; CALL dc_maintain(); ROLLBACK TO s; COMMIT');
is(events('postgres'), '', 'with a savepoint');
my $open = dc_session($node, 'postgres');
$open->run(q{SET client_encoding = 'LATIN1'; SET client_min_messages = 'log'});
$open->run('BEGIN; SAVEPOINT s; CALL dc_maintain(); RELEASE s; CALL dc_maintain()');
sql($node, 'postgres', 'CALL dc_maintain()');
is(events('postgres'), '', 'nobody tells while another one does');
$open->run('COMMIT');
is(events('postgres'), 'likes hot漢 counter.hot', 'told');
sql($node, 'postgres', 'CALL dc_maintain()') foreach 1 .. 3;
$open->run('BEGIN; CALL dc_maintain(); COMMIT');
is(events('postgres'), 'likes hot漢 counter.hot', 'and once only');
$open->quit;

# Nobody writes for a window: it is cool
sql($node, $_, 'DROP TABLE go') foreach 'postgres', 'watched';
is(join(' ', map { finish_job($_) } @writers), '0 0', 'the writers end');
window_begins() foreach 1 .. 2;
is(sql($node, 'postgres', q{SELECT coalesce(max(writes_last_window), 0) FROM dc_stat_hot_keys}), '0', 'a window without writes');
cmp_ok(sql($node, 'postgres', q{SELECT writes_per_second FROM dc_stat_hot_keys WHERE key = 'hot漢'}), '>', 0, 'the decayed count is not over yet');
is(wait_for($node, 'watched', q{SELECT count(*) FROM dcounter.outbox}, '2'), '2', 'the worker tells again');
is(events('watched'), 'likes hot漢 counter.hot, likes hot漢 counter.cool', 'that it is cool');
my $log = slurp_file($node->logfile);
is(scalar(() = $log =~ /LOG:  key "hot漢" of counter table "likes" is hot: \d+ writes a second/g), 2, 'the log has it once for each database');
$node->append_conf('postgresql.conf', 'dcounter.hot_key_alarm = 0');
$node->reload;
sql($node, 'postgres', 'CALL dc_maintain()');
is(events('postgres') =~ /cool/ ? 1 : 0, 0, 'nothing is told when it is turned off');
$node->stop;
done_testing();
