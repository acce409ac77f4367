# Increments of one key of a table that Citus distributes, by many sessions at once: some are written together, and
# whatever becomes of who writes them, each counts if, and only if, its session was told so.
use strict;
use warnings;

use DcCitus;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

citus_or_skip();

my ($coordinator, @workers) = citus_nodes(conf => [ "dcounter.compact_interval = '50ms'", "dcounter.compact_batch = 40" ]);

sub q_
{
	return sql($coordinator, 'postgres', $_[0]);
}

citus_counter($coordinator, 'hot');
citus_counter($coordinator, 'compacted', ", totals => 'compacted'");

# written(): a number that grows by one with each transaction that writes on a worker
sub written
{
	return on_workers($coordinator, 'SELECT pg_current_xact_id()::text::int8');
}

#
# They are written together
#
my $hot = file_of('hot.sql', "SELECT dc_incr(:table, 'k');\n");

foreach my $table ('hot', 'compacted')
{
	my $before = written();
	my $job = start_command('pgbench', '-n', '-f', $hot, '-D', "table='$table'", '-c', 16, '-j', 2, '-T', torture(3, 30), $coordinator->connstr('postgres'));

	is(finish_job($job), 0, "$table: 16 sessions count one key");
	my ($done) = $job->{out} =~ /actually processed: (\d+)/;
	my $writes = written() - $before;

	is(q_("SELECT dc_get('$table', 'k')"), $done, "$table: each has counted once");
	cmp_ok($writes, '<', $done * 0.7, "$table: $done increments took $writes transactions on the workers");
	q_("SELECT dc_delete('$table', 'k')");
}
# who comes and goes alone is not kept waiting
my $began = time;
q_("SELECT dc_incr('hot', 'k');\n" x 20);
cmp_ok(time - $began, '<', 10, 'one session alone');
is(q_("SELECT dc_get('hot', 'k')"), 20, 'counts, too');

# ends(JOB): whether it has ended within a minute
sub ends
{
	my ($job) = @_;
	my $end = time + 60;

	while (time < $end && $job->{run}->pumpable)
	{
		sleep(0.05);
		$job->{run}->reap_nb;
	}
	return $job->{run}->pumpable ? 0 : 1;
}

#
# Something happens to those who count. Each client tells which of its increments have counted.
#
my $counting = file_of('counting.sql', "\\set ON_ERROR_STOP off\n" . "SELECT 'counted', dc_incr('hot', 'k') FROM pg_sleep(0.001);\n" x 1000);

# count_while(NAME, ACTION, UNKNOWN): eight clients count while something is done again and again. Errors of
# which it is not known whether they have counted match UNKNOWN, if there are any.
sub count_while
{
	my ($name, $action, $unknown) = @_;
	my $before = q_("SELECT dc_get('hot', 'k')");
	my @jobs = map { start_job($coordinator, 'postgres', $counting) } 1 .. 8;
	my $end = time + 120;
	my ($counted, $doubts, $errors) = (0, 0, 0);

	while ((grep { $_->{run}->pumpable } @jobs) && time < $end)
	{
		$action->();
		sleep(0.02);
		$_->{run}->reap_nb foreach grep { $_->{run}->pumpable } @jobs;
	}
	foreach my $job (@jobs)
	{
		finish_job($job);
		$counted += () = $job->{out} =~ /^counted/mg;
		$errors += () = $job->{err} =~ /ERROR|FATAL/g;
		next if !defined $unknown;
		$doubts += () = $job->{err} =~ /$unknown/g;
	}
	my $value = q_("SELECT dc_get('hot', 'k')") - $before;

	note("$name: $counted counted, $errors errors, $doubts in doubt, value $value");
	cmp_ok($counted, '>', 0, "$name: some have counted");
	cmp_ok($errors, '>', 0, "$name: and some have not");
	cmp_ok($value, '>=', $counted, "$name: who was told so has counted");
	cmp_ok($value, '<=', $counted + $doubts, "$name: and nobody else");
	return;
}

my $others = q{FROM pg_stat_activity WHERE query ~ '^SELECT .counted' AND state = 'active' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1};

count_while('canceled', sub { q_("SELECT pg_cancel_backend(pid) $others") });
# what is lost is one increment of each session, and those of its group
count_while('terminated', sub { sleep(0.2); q_("SELECT pg_terminate_backend(pid) $others") }, qr/FATAL|ERROR/);
# the owner does what he likes with his table
my $strict = 0;
count_while('refused', sub {
		$strict = !$strict;
		q_($strict ? 'ALTER TABLE hot_shard ADD CONSTRAINT few CHECK (inc < 3) NOT VALID; ALTER TABLE hot ADD CONSTRAINT few CHECK (dec > 3) NOT VALID'
			: 'ALTER TABLE hot_shard DROP CONSTRAINT few; ALTER TABLE hot DROP CONSTRAINT few');
		sleep(0.1);
});
q_('ALTER TABLE hot_shard DROP CONSTRAINT IF EXISTS few; ALTER TABLE hot DROP CONSTRAINT IF EXISTS few');
# the worker that has the key comes and goes
my $port = q_(q{SELECT nodeport FROM citus_shards WHERE shardid = get_shard_id_for_distribution_column('hot', 'k') LIMIT 1});
my ($has_key) = grep { $_->port == $port } @workers;
count_while('a worker', sub {
		sleep(0.3);
		$has_key->stop('immediate');
		sleep(0.1);
		$has_key->start;
}, qr/server closed the connection|terminating connection|lost synchronization|connection to the remote node|another session could not|the database system is/);

#
# Who writes for others is terminated while its statement waits
#
my ($names) = q_(q{SELECT string_agg(shard_name, ', ') FROM citus_shards
	WHERE shardid IN (get_shard_id_for_distribution_column('hot', 'k'), get_shard_id_for_distribution_column('hot_shard', 'k'))});
my $others_fail = 0;

# whether it writes for others at that moment is a matter of chance
foreach my $try (1 .. 5)
{
	my $value = q_("SELECT dc_get('hot', 'k')");
	my $job = start_command('pgbench', '-n', '-f', $hot, '-D', "table='hot'", '-c', 12, '-j', 1, '-T', 120, $coordinator->connstr('postgres'));

	sleep(1);
	my $locker = dc_session($has_key, 'postgres');
	$locker->run("SET citus.enable_manual_changes_to_shards = on");
	$locker->run("BEGIN; LOCK TABLE $names IN SHARE MODE");
	sleep(1);
	# those whose statements wait on the worker; the others wait for these
	my $pids = sql($has_key, 'postgres', q{SELECT string_agg(((substring(application_name FROM 'gpid=(\d+)')::int8) % 10000000000)::text, ', ')
		FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name ~ 'gpid'});
	q_("SELECT pg_terminate_backend(pid) FROM unnest(ARRAY[$pids]::int[]) AS pid");
	is(ends($job), 1, 'all sessions end when those who write are terminated');
	$locker->run('ROLLBACK');
	$locker->quit;
	finish_job($job);
	$others_fail = () = $job->{err} =~ /another session could not write this increment together with its own/g;
	# what has been sent to the worker is written there when the lock is released, though nobody is told so
	wait_for($has_key, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ '^INSERT'}, '0');
	my ($done) = $job->{out} =~ /actually processed: (\d+)/;
	cmp_ok(q_("SELECT dc_get('hot', 'k')"), '>=', $value + $done, 'who was told so has counted');
	cmp_ok(q_("SELECT dc_get('hot', 'k')"), '<=', $value + $done + 12, 'and no others than those 12, if at all');
	last if $others_fail;
}
cmp_ok($others_fail, '>', 0, 'some of them wrote for others, which are told');

#
# Who stays open is not waited for, or by one session only
#
q_("SELECT dc_set('hot', 'k', 0)");
foreach my $open ("SELECT dc_set('hot', 'k', 1000)", "SELECT dc_compact('hot')", "UPDATE hot SET updated_at = now() WHERE key = 'k'")
{
	my $session = dc_session($coordinator, 'postgres');

	$session->run('BEGIN');
	$session->run($open);
	my $stuck = start_job($coordinator, 'postgres', file_of('one.sql', "SELECT dc_incr('hot', 'k');"));
	# it has counted, or waits for a row
	wait_for($coordinator, 'postgres', q{SELECT max(result::int) FROM run_command_on_workers($$SELECT count(*) FROM pg_locks WHERE NOT granted$$)}, 1, 20) if $open =~ /^UPDATE/;
	my $job = start_command('pgbench', '-n', '-f', $hot, '-D', "table='hot'", '-c', 8, '-j', 1, '-t', 20, $coordinator->connstr('postgres'));
	is(ends($job), 1, "others count: $open");
	$session->run('ROLLBACK');
	$session->quit;
	is(finish_job($_), 0, 'all have') foreach $job, $stuck;
}
is(q_("SELECT dc_get('hot', 'k')"), 3 * 161, 'once each');

$_->stop foreach $coordinator, @workers;
done_testing();
