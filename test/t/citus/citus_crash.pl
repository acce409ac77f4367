# Compaction of counter tables that Citus distributes: nobody waits for it, and whatever is killed meanwhile, each
# increment counts once. A transaction writes the same into a local table, so that both must agree.
use strict;
use warnings;

use DcCitus;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

citus_or_skip();

my ($coordinator, @workers) = citus_nodes(conf => [ "dcounter.compact_interval = '1d'", 'dcounter.compact_batch = 40' ]);

sub q_
{
	return sql($coordinator, 'postgres', $_[0]);
}

citus_counter($coordinator, 'likes', ", totals => 'compacted'");
citus_counter($coordinator, 'direct');
q_("CREATE TABLE log (key text, n int)");

# differences(): keys that the log and the counter disagree about
sub differences
{
	return q_(q{SELECT count(*), string_agg(key || ': ' || n || ' and ' || dc_get('likes', key), ', ')
		FROM (SELECT key, sum(n) AS n FROM log GROUP BY key) AS l WHERE n <> dc_get('likes', key)}) .
	  # and the counter has nothing else
	  q_(q{SELECT nullif(value, (SELECT coalesce(sum(n), 0) FROM log))
		FROM (SELECT sum(inc - dec) AS value FROM (SELECT key, inc, dec FROM likes UNION ALL SELECT key, inc, dec FROM likes_shard) AS u WHERE key !~ '^lone') AS v});
}

# Many keys, and many rows of one
q_("BEGIN; SELECT dc_incr('likes', 'k' || i, i) FROM generate_series(1, 300) AS i; COMMIT");
q_(join ';', "SELECT 1", map { "BEGIN; SELECT dc_incr('likes', 'much'); SELECT dc_apply(); COMMIT" } 1 .. 60);
cmp_ok(q_("SELECT count(*) FROM likes_shard WHERE key = 'much'"), '>=', 60, 'a key has more rows than a batch');
is(q_("SELECT dc_compact('likes', 50)"), 50, 'dc_compact of some keys');
is(q_("SELECT dc_compact('likes')"), 251, 'and of all others');
is(q_("SELECT count(*) FROM likes_shard"), 0, 'no shard row is left');
is(q_("SELECT sum(value) || ' ' || max(value) FROM likes"), (300 * 301 / 2 + 60) . ' 300', 'the totals have all');
q_("SELECT dc_incr('likes', 'k1'), dc_incr('likes', 'new')");
is(q_("SELECT dc_compact('likes')"), 2, 'a key with a row of totals, and one without');
is(q_("SELECT sum(value) FROM likes WHERE key IN ('k1', 'new')"), 3, 'have both');

# A key whose sum leaves bigint stays
q_("SELECT dc_incr('likes', 'full', 9223372036854775807)");
q_("SELECT dc_compact('likes')");
q_("SELECT dc_incr('likes', 'full', 5)");
my ($out, $err);
$coordinator->psql('postgres', "SELECT dc_compact('likes')", stdout => \$out, stderr => \$err);
like($err, qr/cannot compact key "full"/, 'a key whose sum leaves bigint');
is(q_("SELECT inc FROM likes_shard WHERE key = 'full'"), 5, 'stays');
q_("SELECT dc_delete('likes', 'full')");

# Nobody waits
my $open = dc_session($coordinator, 'postgres');
my $soon = "SET statement_timeout = '20s';";

q_("SELECT dc_incr('likes', 'k' || i) FROM generate_series(1, 9) AS i");
$open->run("BEGIN; UPDATE likes_shard SET updated_at = now() WHERE key = 'k3'");
is(q_("$soon SELECT dc_compact('likes')"), 8, 'a row that another transaction has locked is passed over');
$open->run('ROLLBACK');
$open->run("BEGIN; UPDATE likes SET updated_at = now() WHERE key = 'k3'");
is(q_("$soon SELECT dc_compact('likes')"), 0, 'and so is a row of totals');
$open->run('ROLLBACK');
is(q_("SELECT dc_compact('likes')"), 1, 'until then');

$open->run("SELECT dc_incr('likes', 'k4')");
$open->run("BEGIN; SELECT dc_compact('likes')");
q_("$soon SELECT dc_incr('likes', 'k4')");
$open->run("SELECT dc_compact('likes')");
$open->run('COMMIT');
q_("$soon SELECT dc_incr('likes', 'k4')");
$open->run("BEGIN; SELECT dc_set('likes', 'k4', 100)");
q_("$soon SELECT dc_incr('likes', 'k4')");
$open->run('COMMIT');
is(q_("SELECT dc_get('likes', 'k4')"), 101, 'increments wait neither for a compaction nor for a setter that stays open');
$open->run("BEGIN; SELECT dc_compact('likes'); SAVEPOINT s; SELECT dc_incr('likes', 'k5'); SELECT dc_compact('likes'); ROLLBACK TO s");
$open->run('COMMIT');
is(q_("SELECT dc_get('likes', 'k5')"), 6, 'a compaction that is rolled back to a savepoint');

# shard_rows(KEY): those of a key of the table whose rows of totals are written at commit
sub shard_rows
{
	return q_("SELECT count(*) FROM direct_shard WHERE key = '$_[0]'");
}

# Commits keep away from the rows of totals of keys that are being compacted, and of no others, if these are few
q_("BEGIN; SELECT dc_incr('direct', 'one'), dc_apply(); COMMIT");
is(shard_rows('one'), 1, 'a key to compact');
$open->run("BEGIN; CALL dc_maintain()");
q_("$soon SELECT dc_incr('direct', 'one'); SELECT dc_incr('direct', 'other')");
$open->run('COMMIT');
is(shard_rows('one') . shard_rows('other'), '10', 'increments while the job compacts: its key, another one');
$open->run("BEGIN; SELECT dc_set('direct', 'one', 5)");
q_("$soon SELECT dc_incr('direct', 'one'), dc_incr('direct', 'other'), dc_apply(); CALL dc_maintain()");
# its rows that are not yet deleted, and one of the increment
is(shard_rows('one') . shard_rows('other'), '20', 'the job passes over a key that somebody sets');
$open->run('COMMIT');
q_('CALL dc_maintain()');
is(shard_rows('one') . q_("SELECT dc_get('direct', 'one') || ' ' || dc_get('direct', 'other')"), '06 2', 'afterwards');
$open->run("BEGIN; SELECT dc_compact('direct')");
q_("$soon SELECT dc_incr('direct', 'one')");
$open->run('COMMIT');
is(shard_rows('one'), 0, 'a compaction that finds nothing makes no work for the next one');
q_("BEGIN; SELECT dc_incr('direct', 'two'), dc_apply(); COMMIT");
$open->run("BEGIN; SELECT dc_compact('direct')");
q_("$soon SELECT dc_incr('direct', 'one')");
$open->run('COMMIT');
is(shard_rows('one'), 1, 'dc_compact() keeps commits away from all keys');
q_("BEGIN; SELECT dc_incr('direct', 'm' || i) FROM generate_series(1, 300) AS i; COMMIT");
is(q_("SELECT count(*) FROM direct_shard WHERE key ~ '^m'"), 300, 'more keys than are locked one by one');
$open->run("BEGIN; CALL dc_maintain()");
is(q_("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 77"), 256, 'a transaction locks so many');
q_("$soon SELECT dc_incr('direct', 'other')");
$open->run('COMMIT');
is(q_("SELECT count(*) || ' ' || min(key) FROM direct_shard"), '1 other', 'and then says that it may have any');
q_('CALL dc_maintain()');
is(q_("SELECT (SELECT count(*) FROM direct_shard) || ' ' || dc_sum('direct')"), '0 ' . (7 + 1 + 3 + 1 + 300), 'all have counted');
q_('TRUNCATE direct, direct_shard');

# While sessions count, compact and set, the sums stay
q_('TRUNCATE likes, likes_shard, log');
my $count = file_of('count.sql', q{\set k random(1, 30)
\set m random(1, 30)
\set n random(1, 5)
BEGIN;
INSERT INTO log VALUES ('k' || :k, :n), ('k' || :m, 1);
SELECT dc_incr('likes', 'k' || :k, :n), dc_incr('likes', 'k' || :m);
COMMIT;
});
my $lone = file_of('lone.sql', q{\set k random(1, 30)
SELECT dc_incr('likes', 'lone' || :k);
});
my $direct = file_of('direct.sql', q{\set k random(1, 3)
BEGIN;
SELECT dc_incr('direct', 'lone' || :k), dc_incr('direct', 'all');
COMMIT;
});
my $compact = file_of('compact.sql', "SELECT dc_compact('likes'), dc_compact('direct');\n\\sleep 20 ms\n");
my $maintain = file_of('maintain.sql', "CALL dc_maintain();\n\\sleep 20 ms\n");
# what is moved is seen at each moment: without it a value would go down for that long
my $read = file_of('read.sql', q{\set k random(1, 30)
SELECT dc_get('likes', 'k' || :k) AS before \gset
SELECT 1 / (dc_get('likes', 'k' || :k) >= :before)::int;
});

# bench(SECONDS, [SCRIPT, CLIENTS]...): starts pgbench for each
sub bench
{
	my ($seconds, @scripts) = @_;

	return map { start_command('pgbench', '-n', '-f', $_->[0], '-c', $_->[1], '-j', 1, '-T', $seconds, $coordinator->connstr('postgres')) } @scripts;
}

my @jobs = bench(torture(6, 60), [ $count, 5 ], [ $lone, 3 ], [ $compact, 2 ], [ $read, 1 ], [ $direct, 4 ], [ $maintain, 1 ]);
my @status = map { finish_job($_) } @jobs;

is("@status", '0 0 0 0 0 0', 'no error while all of them are at work');
diag($_->{err}) foreach grep { $_->{err} =~ /ERROR/ } @jobs;
is(differences(), '0|', 'log and counter agree');
my ($done) = $jobs[1]->{out} =~ /actually processed: (\d+)/;
is(q_("SELECT sum(value) FROM dc_get_many('likes', ARRAY(SELECT 'lone' || i FROM generate_series(1, 30) AS i))"), $done, 'lone increments have counted once each');
($done) = $jobs[4]->{out} =~ /actually processed: (\d+)/;
is(q_("SELECT dc_sum('direct') || ' ' || dc_get('direct', 'all')"), 2 * $done . " $done", 'and so have those of rows of totals');
q_("SELECT dc_compact('likes')");
is(differences(), '0|', 'and after a compaction');

# settled(): all transactions of the workers have ended, those that were prepared too
sub settled
{
	return wait_for($coordinator, 'postgres', q{SELECT coalesce(sum(result::int), -1) FROM
		run_command_on_workers('SELECT count(*) FROM pg_prepared_xacts')}, '0');
}

# Killing the coordinator, or a worker
foreach my $victim ($coordinator, @workers, $coordinator)
{
	my $name = $victim->name;

	my $before = q_('SELECT count(*) FROM log');

	@jobs = bench(20, [ $count, 4 ], [ $compact, 1 ], [ $maintain, 1 ]);
	sleep(1.5 + rand());
	$name eq 'worker2' ? $victim->stop('immediate') : $victim->kill9;
	sleep(0.5);
	# clients whose server is gone end; so do those that meet the error
	finish_job($_) foreach @jobs;
	$name eq 'worker2' ? $victim->start : restart_after_kill9($victim);
	is(settled(), '0', "$name was killed: what was prepared is decided");
	cmp_ok(q_('SELECT count(*) FROM log'), '>', $before, 'and something was counted before that');
	is(differences(), '0|', 'log and counter agree');
	q_("SELECT dc_compact('likes')");
	is(differences(), '0|', 'and after a compaction');
}

# The same in a transaction that writes here, and then there (one worker): both or neither, at each moment of a kill
my $one = file_of('one.sql', q{\set n random(1, 5)
BEGIN;
INSERT INTO log VALUES ('one', :n);
SELECT dc_incr('likes', 'one', :n), dc_incr('direct', 'one', :n);
COMMIT;
});
foreach my $try (1 .. torture(3, 30))
{
	@jobs = bench(20, [ $one, 8 ]);
	sleep(0.5 + rand() / 2);
	$coordinator->kill9;
	finish_job($_) foreach @jobs;
	restart_after_kill9($coordinator);
	is(settled(), '0', "kill $try: what was prepared is decided");
	is(differences(), '0|', 'one key, and a local row');
	is(q_("SELECT dc_get('direct', 'one') - dc_get('likes', 'one')"), 0, 'also in a row of totals');
}

$_->stop foreach $coordinator, @workers;
done_testing();
