# Tables that nobody writes to: the worker runs no query on them, and comes back at once when
# there is something to do, no matter who caused it.
use strict;
use warnings;

use DcTest;
use DcWorker;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = dc_node('main', conf => [
		worker_conf(), "shared_preload_libraries = 'dcounter'", "dcounter.expire_interval = '100ms'", 'wal_level = logical' ]);

# A pause of an idle table grows to 32 s within half a minute. What is noticed is done within a
# few seconds, also on a slow machine, what is not noticed is found when the pause is over.
my $soon = 12;
my $net = 80;

# scans(): index scans and others of all shard tables and tables of holds
my $scans = q{SELECT sum(coalesce(idx_scan, 0) + seq_scan) FROM pg_stat_user_tables WHERE relname ~ '_(shard|hold|pending)$'};
my $runs = q{SELECT sum(runs) FROM dc_stat_worker WHERE job IN ('compaction', 'expiry', 'ledger')};

sql($node, 'postgres', q{
	SELECT count(dc_create('t' || n, totals => 'compacted')) FROM generate_series(1, 30) AS n;
	SELECT dc_stock_create('stock'), dc_ledger_create('money', auto_open => true);
	SELECT dc_restock('stock', 'k', 100), dc_account_open('money', 'x', NULL);
	CREATE ROLE alice; CREATE SCHEMA a AUTHORIZATION alice;
	SET ROLE alice; SELECT dc_create('a.own', totals => 'compacted');
	CREATE FUNCTION a.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE TRIGGER f BEFORE INSERT OR UPDATE ON a.own FOR EACH ROW EXECUTE FUNCTION a.f()});
sql($node, 'postgres', q{SELECT dc_incr('t' || n, 'k') FROM generate_series(1, 30) AS n});
soon($node, 'postgres', "SELECT value FROM t$_ WHERE key = 'k'", '1', "t$_ is compacted") foreach 1, 30;
is(sql($node, 'postgres', q{SELECT dc_incr('a.own', 'k')}), '', 'a table that is left to its owner');
sql($node, 'postgres', q{
	SELECT dc_hold('stock', 'k', 7, '60 s');
	SELECT dc_transfer_pending('money', 'x', 'y', 5, 'op', ttl => '60 s');});
my $made = time;

# set: a key that dc_set() has locked
my $setter = dc_session($node, 'postgres');
$setter->run(q{BEGIN});
$setter->run(q{SELECT dc_set('t5', 'k', 100)});
sql($node, 'postgres', q{SELECT dc_incr('t5', 'k')});
sql($node, 'postgres', q{BEGIN; SELECT dc_incr('t6', 'k', 5); SELECT dc_incr('t7', 'new', 5); PREPARE TRANSACTION 'p'});

#
# No queries, once the pauses have grown
#
my ($ran, $scanned);
foreach (1 .. 15)
{
	$ran = sql($node, 'postgres', $runs);
	$scanned = sql($node, 'postgres', $scans);
	sleep(4);
	$scanned = sql($node, 'postgres', $scans) - $scanned;
	$ran = sql($node, 'postgres', $runs) - $ran;
	last if $scanned < 40;
}
note("$ran runs, $scanned scans of about 35 tables");
cmp_ok($ran, '>', 5, 'the jobs run');
cmp_ok($scanned, '<', 40, '... and do not look at idle tables');
is(sql($node, 'postgres', q{SELECT tables_left FROM dc_stat_worker WHERE job = 'compaction'}), '1', 'one is left to its owner, as is shown');

# done_soon(QUERY, RESULT, NAME): a test
sub done_soon
{
	my ($query, $expected, $name, $limit) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $begin = time;

	is(wait_for($node, 'postgres', $query, $expected, $limit // $soon), $expected, $name);
	note(sprintf('after %.1f s', time - $begin));
	return;
}

#
# Lag. A compaction may be quicker than the question, so several tables are asked for theirs.
#
my $lag = 0;
for (my $i = 14; $i < 20 && $lag <= 0; $i++)
{
	$lag = sql($node, 'postgres', qq{
		SELECT dc_incr('t$i', 'k');
		SELECT coalesce(extract(epoch FROM compaction_lag), 0) FROM dc_stat_counters WHERE counter = 't$i'::regclass}) =~ s/\n//gr;
}
cmp_ok($lag, '>', 0, 'a table that was idle has a lag');
cmp_ok($lag, '<', 10, '... which is that of the change, not of the last sweep');

#
# What is noticed
#
sql($node, 'postgres', q{SELECT dc_incr('t2', 'k')});
done_soon(q{SELECT value FROM t2}, '2', 'an increment');
sql($node, 'postgres', q{BEGIN; SELECT dc_incr('t3', 'k'); SAVEPOINT s; SELECT dc_incr('t4', 'k'); ROLLBACK TO s; COMMIT});
done_soon(q{SELECT value FROM t3}, '2', 'one with savepoints');
is(sql($node, 'postgres', q{SELECT value FROM t4}), '1', '... of which one was rolled back');
$setter->run('ROLLBACK');
$setter->quit;
done_soon(q{SELECT value FROM t5}, '2', 'a key that was locked, when the lock is released by a rollback');
sql($node, 'postgres', q{COMMIT PREPARED 'p'});
done_soon(q{SELECT (SELECT value FROM t6) || ' ' || (SELECT value FROM t7 WHERE key = 'new')}, '6 5', 'COMMIT PREPARED');
sql($node, 'postgres', q{BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT dc_incr('t8', 'k'); COMMIT;
	BEGIN; SELECT dc_apply(); SELECT dc_incr('t9', 'k'); SELECT dc_apply(); COMMIT});
done_soon(q{SELECT (SELECT value FROM t8) || ' ' || (SELECT value FROM t9)}, '2 2', 'SERIALIZABLE, and early writes');
sql($node, 'postgres', q{ALTER TABLE t10 ADD COLUMN more int CHECK (more > 0)});
sql($node, 'postgres', q{SELECT dc_incr('t10', 'k')});
done_soon(q{SELECT value FROM t10}, '2', 'the way by SQL');
sql($node, 'postgres', q{SELECT count(dc_incr('t' || n, 'many')) FROM generate_series(1, 30) AS n WHERE n NOT IN (2, 20, 21)});
done_soon(join(' + ', map { "(SELECT value FROM t$_ WHERE key = 'many')" } 1, 3 .. 19, 22 .. 30) =~ s/^/SELECT /r, '27', 'many tables in one transaction');
sql($node, 'postgres', q{DROP TRIGGER f ON a.own});
done_soon(q{SELECT value FROM a.own}, '1', 'a trigger of the owner that is dropped');
sql($node, 'postgres', q{SELECT dc_create('fresh', totals => 'compacted'); SELECT dc_incr('fresh', 'k')});
done_soon(q{SELECT value FROM fresh}, '1', 'a new table');
sql($node, 'postgres', q{ALTER TABLE t11 RENAME TO renamed; SELECT dc_incr('renamed', 'k'); SELECT dc_drop('t12')});
done_soon(q{SELECT value FROM renamed WHERE key = 'k'}, '2', 'one that was renamed');
sql($node, 'postgres', q{SELECT dc_alter('t13', mode => 'buffered'); SELECT dc_incr('t13', 'k')});
done_soon(q{SELECT value FROM t13 WHERE key = 'k'}, '2', 'one that is buffered now');

# Holds and pending transfers whose time comes
sleep($made + 48 - time) if time < $made + 48;
is(sql($node, 'postgres', q{SELECT (SELECT state FROM stock_hold) || ' ' || (SELECT state FROM money_pending)}), 'open open', 'a hold and a pending transfer')
  if time < $made + 49;
sleep($made + 61 - time) if time < $made + 61;
done_soon(q{SELECT (SELECT state FROM stock_hold) || ' ' || (SELECT state FROM money_pending)}, 'expired expired', 'end when their time is up');

# Changes that nobody reports: rows written directly, in a table that was idle all the time
sql($node, 'postgres', q{INSERT INTO t20_shard (key, shard, inc, dec, updated_at) VALUES ('hand', 1, 3, 0, now())});
done_soon(q{SELECT value FROM t20 WHERE key = 'hand'}, '3', 'the net catches it', $net);

# Another worker looks at all tables. t21 was checked together with t20, and is not soon again.
sql($node, 'postgres', q{INSERT INTO t21_shard (key, shard, inc, dec, updated_at) VALUES ('hand', 1, 3, 0, now())});
sql($node, 'postgres', q{SELECT dc_worker_stop(), dc_worker_start()});
done_soon(q{SELECT value FROM t21 WHERE key = 'hand'}, '3', 'another worker looks at all tables');
sql($node, 'postgres', q{SELECT dc_incr('t22', 'crash')});
$node->stop('immediate');
$node->start;
done_soon(q{SELECT value FROM t22 WHERE key = 'crash'}, '1', 'after a crash', 20);

is(step_failures($node), '', 'no step has failed');
$node->stop;
done_testing();
