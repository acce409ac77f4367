# Building bound counter tables while others write, with the server killed in the middle; by the
# worker; and checks on a standby.
#
# For each key, source minus counter is the same in every snapshot, whatever is written
# meanwhile: so the differences have one md5 until somebody builds, and a build adds each of
# them once. A build that was killed leaves keys up to its position with a difference of 0, and
# those after it with the one they had.
use strict;
use warnings;

use DcTest;
use DcWorker 'step_failures';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $clients = 8;
my $checks = torture(60, 1000);
my $kills = torture(6, 40);
my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $node = dc_node('build', init => { allows_streaming => 1 }, conf => [
		"shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '50ms'", 'restart_after_crash = on',
		'autovacuum_naptime = 1s', 'fsync = on', 'synchronous_commit = off' ]);

sql($node, 'postgres', q{
	CREATE TABLE likes (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post int, fan int, amount int);
	CREATE INDEX ON likes (post);
	INSERT INTO likes (post, fan, amount) SELECT i % 200, i / 200 % 50, i % 7 - 2 FROM generate_series(1, 20000) AS i;
	CREATE TABLE parts (post int, at int) PARTITION BY LIST (at);
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
	CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2);
	INSERT INTO parts SELECT i % 200, i % 2 + 1 FROM generate_series(1, 20000) AS i;
	SELECT dc_create('n'), dc_create('s', partitions => 3), dc_create('d'), dc_create('p');
	SELECT dc_bind('n', 'likes', 'post', build => 'none'), dc_bind('s', 'likes', 'post, fan % 2', value => 'amount', build => 'none'),
		dc_bind('p', 'parts', 'post', build => 'none'), dc_bind('d', 'likes', 'post', distinct_of => 'fan', build => 'none');});

my @bound = ('n', 's', 'p', 'd');
my $writes = file_of('writes.sql', q{
\set k random(0, 199)
\set j random(0, 210)
\set what random(1, 11)
\if :what <= 3
INSERT INTO likes (post, fan, amount) VALUES (:k, :j, :j);
\elif :what <= 5
DELETE FROM likes WHERE id = (SELECT id FROM likes WHERE post = :k LIMIT 1);
\elif :what = 6
UPDATE likes SET post = :j, amount = amount + 1 WHERE id = (SELECT id FROM likes WHERE post = :k LIMIT 1);
\elif :what = 7
BEGIN;
INSERT INTO likes (post, fan, amount) VALUES (:k, 1, 1), (:j, 2, 2);
SAVEPOINT s;
DELETE FROM likes WHERE post = :k AND fan < 10;
ROLLBACK TO s;
INSERT INTO parts VALUES (:k, 1), (:j, 2);
COMMIT;
\elif :what = 8
BEGIN;
DELETE FROM likes WHERE post = :j;
ROLLBACK;
\elif :what = 9
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM likes WHERE post = :k;
INSERT INTO likes (post, fan, amount) VALUES (:k, :j, 4);
UPDATE parts SET at = 3 - at WHERE post = :k AND at = 1;
COMMIT;
\elif :what = 10
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO likes (post, fan, amount) SELECT :k, count(*), 1 FROM parts WHERE post = :k;
COMMIT;
\else
BEGIN;
INSERT INTO likes (post, fan, amount) VALUES (:j, :k, 1);
DELETE FROM parts WHERE ctid = (SELECT ctid FROM parts WHERE post = :k LIMIT 1);
PREPARE TRANSACTION 'load :client_id';
COMMIT PREPARED 'load :client_id';
\endif
} =~ s/'load :client_id'/'load'/gr);

# PREPARE has no parameters: a script for each client would do, one client is enough
my $prepared = file_of('prepared.sql', q{
\set k random(0, 199)
BEGIN;
INSERT INTO likes (post, fan, amount) VALUES (:k, 3, 1);
DELETE FROM likes WHERE id = (SELECT id FROM likes WHERE post = :k ORDER BY id LIMIT 1);
PREPARE TRANSACTION 'load';
COMMIT PREPARED 'load';
});
{
	my $text = PostgreSQL::Test::Utils::slurp_file($writes);

	$text =~ s/PREPARE TRANSACTION 'load';\nCOMMIT PREPARED 'load';/COMMIT;/;
	$writes = file_of('writes2.sql', $text);
}

# load(SECONDS): writers in the background
sub load
{
	my ($seconds) = @_;

	return map { start_command('pgbench', '-n', '-T', $seconds, '--max-tries=20', @$_, $node->connstr('postgres')) }
	  ([ '-c', $clients, '-j', 2, '-f', $writes ], [ '-c', 1, '-f', $prepared ]);
}

# load_ends: after it was killed, no session of it is left, and no prepared transaction
sub load_ends
{
	sql($node, 'postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgbench'");
	wait_for($node, 'postgres', "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'", '0');
	sql($node, 'postgres', "ROLLBACK PREPARED 'load'") if sql($node, 'postgres', 'SELECT count(*) FROM pg_prepared_xacts');
	return;
}

# drift(COUNTER [, NODE]): its differences, as keys and sum
sub drift
{
	my ($counter, $where) = @_;

	return sql($where // $node, 'postgres', "SELECT count(*) || ':' || coalesce(sum(drift), 0) FROM dc_source_check('$counter')");
}

# Before the build: one md5 in all snapshots. (With distinct_of, the difference is not the sum of two
# constants: rows of items that are not built yet change it.)
{
	my @jobs = load(6);
	my %seen;

	foreach (1 .. 5)
	{
		$seen{$_}{ sql($node, 'postgres', "SELECT md5(string_agg(key || ' ' || drift, ',' ORDER BY key COLLATE \"C\")) || count(*) FROM dc_source_check('$_')") } = 1
		  foreach 'n', 's', 'p';
		sleep(0.5);
	}
	is(scalar(keys %{ $seen{$_} }), 1, "$_: the same differences in five snapshots") foreach 'n', 's', 'p';
	like((keys %{ $seen{n} })[0], qr/200$/, 'n: of all keys');

	# The build itself, by small chunks
	sql($node, 'postgres', "CALL dc_build('$_', 7)") foreach @bound;
	is(drift($_), '0:0', "$_: built under load") foreach @bound;
	foreach my $job (@jobs)
	{
		is(finish_job($job), 0, 'the writers had no errors') or diag($job->{err});
		unlike($job->{out}, qr/number of transactions actually processed: 0\b/, 'and were at work');
	}
}
is(sql($node, 'postgres', "SELECT string_agg(DISTINCT state, ' ') FROM dcounter.source_state"), 'exact', 'all are exact');
is(sql($node, 'postgres', "SELECT count(*) FROM (SELECT post, count(*) AS n, count(DISTINCT fan) AS f FROM likes GROUP BY post) AS l WHERE dc_get('n', post::text) <> n OR dc_get('d', post::text) <> f"),
	'0', 'and plain SQL says the same');

# Killed in each chunk, and resumed
sub differing
{
	my ($counter) = @_;

	return { split /[ \n]/, sql($node, 'postgres', "SELECT key || ' ' || drift FROM dc_source_check('$counter')") };
}

foreach my $counter ('n', 'd')
{
	sql($node, 'postgres', "SET session_replication_role = replica; DELETE FROM likes WHERE id % 3 = " . ($counter eq 'n' ? 0 : 1));
	my $first = differing($counter);
	my $position = '';
	my $killed = 0;

	ok(keys %$first >= 190, "$counter: most keys differ");
	for (my $i = 0; $i < $kills; $i++)
	{
		my @jobs = load(60);
		# each commit takes 0.1 s
		my $builder = start_command('psql', '-Xq', '-d', $node->connstr('postgres'), '-c', 'SET commit_siblings = 0', '-c', 'SET commit_delay = 100000',
			'-c', 'SET synchronous_commit = on', '-c', 'SET application_name = builder', '-c', "CALL dc_build('$counter', " . ($counter eq 'd' ? 10 : 3) . ')', '-c', '\echo over');
		my $pid = wait_chunk($builder, $counter, $position);

		sleep(rand(0.05));
		kill('KILL', $pid eq '' ? sql($node, 'postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'") : $pid);
		finish_job($_) foreach $builder, @jobs;
		is(wait_for($node, 'postgres', 'SELECT 1', '1'), '1', "$counter: the server is back");
		sql($node, 'postgres', "ROLLBACK PREPARED 'load'") if sql($node, 'postgres', 'SELECT count(*) FROM pg_prepared_xacts');
		my ($state, $now) = split /\|/, sql($node, 'postgres', "SELECT state, coalesce(built_to, '') FROM dcounter.source_state WHERE counter = '$counter'::regclass"), 2;

		last if $now eq '';    # it was over
		$killed++;
		my $left = differing($counter);
		my @wrong = grep { $counter eq 'n' ? ($left->{$_} // 0) != ($_ le $now ? 0 : $first->{$_} // 0) : exists $left->{$_} && $_ le $now } keys %{ { %$left, %$first } };

		is("@wrong", '', "$counter: killed at '$now': keys up to it are done, others are as before");
		cmp_ok($now, 'ge', $position, 'it went on from where it was');
		$position = $now;
	}
	cmp_ok($killed, '>', 1, "$counter: it was killed $killed times");
	my @jobs = load(5);
	sql($node, 'postgres', "CALL dc_build('$counter', 50)");
	is(drift($counter), '0:0', "$counter: built in the end");
	finish_job($_) foreach @jobs;
	is(sql($node, 'postgres', "SELECT state, built_to FROM dcounter.source_state WHERE counter = '$counter'::regclass"), 'exact|', "$counter: exact");
	sql($node, 'postgres', "CALL dc_build('$_')") foreach @bound;
}

# wait_chunk(JOB, COUNTER, POSITION): the process of a builder that has done a chunk more, or '' if
# it was over before it was looked for
sub wait_chunk
{
	my ($builder, $counter, $position) = @_;
	my $pid = wait_pid($builder);

	for (my $i = 0; $i < 1000 && $pid ne ''; $i++)
	{
		last if (answer($node, 'postgres', "SELECT built_to FROM dcounter.source_state WHERE counter = '$counter'::regclass") // '') gt $position;
		last if answer($node, 'postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") ne '1';
	}
	return $pid;
}

# wait_pid(JOB): of the session that builds, '' if it is over already
sub wait_pid
{
	my ($builder) = @_;
	my $pid = '';
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;

	while ($pid eq '' && time < $end && PostgreSQL::Test::Utils::slurp_file("$builder->{base}.out") !~ /over/)
	{
		$pid = answer($node, 'postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'builder' AND query LIKE 'CALL%' AND state = 'active'");
	}
	return $pid;
}

# Many checks, here and on a standby, in READ COMMITTED and REPEATABLE READ
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
{
	my @jobs = load(3600);
	my %found;
	my $there = 0;

	foreach my $i (1 .. $checks)
	{
		my $counter = $bound[ $i % @bound ];
		my $begin = $i % 3 == 0 ? 'BEGIN ISOLATION LEVEL REPEATABLE READ;' : '';
		my $keys = $i % 2 ? '' : ", keys => ARRAY['1', '17', '[1, 0]', '199', '205', 'none']";

		$found{primary} += sql($node, 'postgres', "$begin SELECT count(*) FROM dc_source_check('$counter'$keys)");
		$found{standby} += sql($standby, 'postgres', "$begin SELECT count(*) FROM dc_source_check('$counter'$keys)");
		sql($node, 'postgres', "SELECT dc_source_fix('n', ARRAY['1', '2'])") if $i % 10 == 0;
	}
	is($found{$_}, 0, "$_: $checks checks under load: no drift") foreach 'primary', 'standby';
	fails_with($standby, 'postgres', "CALL dc_build('n')", '25006', 'building is an error on a standby');
	fails_with($standby, 'postgres', "SELECT dc_source_fix('n', ARRAY['1'])", '25006', 'fixing is, too');
	$_->{run}->kill_kill foreach @jobs;
}
$standby->stop('immediate');
load_ends();

# The worker builds, under load; it leaves expressions that it may not evaluate to the owner
{
	my @jobs = load(20);

	sql($node, 'postgres', q{
		SELECT dc_create('w'), dc_create('wd');
		SELECT dc_bind('w', 'likes', 'post, fan', lock_timeout => '10 s'), dc_bind('wd', 'likes', 'fan', distinct_of => 'post', lock_timeout => '10 s');});
	is(wait_for($node, 'postgres', "SELECT string_agg(state, ' ') FROM dcounter.source_state WHERE counter IN ('w'::regclass, 'wd'::regclass)", 'exact exact'),
		'exact exact', 'the worker has built');
	is(drift($_), '0:0', "$_: no drift") foreach 'w', 'wd';
	$_->{run}->kill_kill foreach @jobs;
	load_ends();
}
sql($node, 'postgres', q{
	CREATE ROLE alice LOGIN; GRANT CREATE ON SCHEMA public TO alice; SET ROLE alice;
	CREATE TABLE hers (k text); INSERT INTO hers SELECT i % 5 FROM generate_series(1, 100) AS i;
	SELECT dc_create('h'), dc_create('m');
	SELECT dc_bind('h', 'hers', 'k'), dc_bind('m', 'hers', $$repeat(k, 3)$$);});
is(wait_for($node, 'postgres', "SELECT state FROM dcounter.source_state WHERE counter = 'h'::regclass", 'exact'), 'exact', 'a source of any owner');
is(wait_for($node, 'postgres', "SELECT tables_left FROM dc_stat_worker WHERE job = 'build'", '1'), '1', 'one is left to its owner');
is(sql($node, 'postgres', "SELECT state FROM dcounter.source_state WHERE counter = 'm'::regclass"), 'building', 'and is not built');
like(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/worker leaves counter table "m" to its owner/, 'the log says so');
sql($node, 'postgres', 'SET ROLE alice; CALL dc_maintain()');
is(sql($node, 'postgres', "SELECT state FROM dcounter.source_state WHERE counter = 'm'::regclass"), 'exact', 'dc_maintain() builds it');
is(drift($_), '0:0', "$_: no drift") foreach 'h', 'm';
# dropped and unbound while the worker may be at it
sql($node, 'postgres', "SELECT dc_create('x'); SELECT dc_bind('x', 'hers', 'k'); SELECT dc_unbind('x'); SELECT dc_bind('x', 'hers', 'k'); SELECT dc_drop('x')");
is(step_failures($node, 'build'), '', 'the job has not failed');
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal (?!9)/, 'no crash but ours');
##
## Who builds it is said if no worker does
foreach my $worker (1, 0)
{
	my $err;
	my $said = qq{NOTICE:  "said" is not built yet, because no worker runs in this database\nHINT:  Run CALL dc_build('public.said').};

	sql($node, 'postgres', 'SELECT dc_worker_stop()') unless $worker;
	# autovacuum may be at the source
	$node->psql('postgres', q{SET client_min_messages = notice; SELECT dc_create('said'); SELECT dc_bind('said', 'likes', 'post', lock_timeout => '1 min'); SET client_min_messages = warning; DROP TABLE said CASCADE},
		stderr => \$err);
	$err =~ s/^psql:<stdin>:\d+: //gm;
	is($err, $worker ? '' : $said, $worker ? 'a worker' : 'no worker');
}
$node->stop;
done_testing();
