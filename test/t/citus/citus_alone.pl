# When an increment of a table that Citus distributes may be acknowledged: not before the statement
# is committed, wherever it is executed. And no session fails because other sessions hold rows.
use strict;
use warnings;

use DcCitus;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

citus_or_skip();

my ($coordinator, @workers) = citus_nodes(conf => [ "dcounter.compact_interval = '1h'" ]);

sub q_
{
	return sql($coordinator, 'postgres', $_[0]);
}

# trigger(TABLE, BODY, TIMING): on all shards of both of its tables; its function is made on all servers
sub trigger
{
	my ($table, $body, $timing) = @_;

	sql($_, 'postgres', "SET citus.enable_ddl_propagation = off; CREATE FUNCTION public.${table}_trigger() RETURNS trigger LANGUAGE plpgsql AS \$f\$ BEGIN $body; RETURN NEW; END \$f\$")
	  foreach $coordinator, @workers;
	$timing =~ s/INSERT/INSERT ON %s/;
	q_("SELECT count(*) FROM run_command_on_shards('$_', \$q\$CREATE $timing FOR EACH ROW EXECUTE FUNCTION public.${table}_trigger()\$q\$)")
	  foreach $table, "${table}_shard";
	return;
}

# count_by(NAME, STATEMENTS): what sessions with these statements have counted by their own account, after all have ended
sub count_by
{
	my ($name, @statements) = @_;
	my $n = 0;
	my @jobs = map { start_job($coordinator, 'postgres', file_of($name . ++$n . '.sql', "\\set ON_ERROR_STOP off\n" . $_ x 60)) } @statements;
	my $counted = 0;

	foreach my $job (@jobs)
	{
		finish_job($job);
		$counted += () = "$job->{out}$job->{err}" =~ /counted/g;
	}
	return $counted;
}

# Citus commits the statements of a DO block later, which can fail: no other session learns of it
citus_counter($coordinator, 'late');
trigger('late', q{IF random() < 0.3 THEN RAISE EXCEPTION 'no'; END IF}, 'CONSTRAINT TRIGGER late AFTER INSERT DEFERRABLE INITIALLY DEFERRED');
my $plain = "SELECT 'counted', dc_incr('late', 'k');\n";
my $block = "DO \$\$ BEGIN PERFORM dc_incr('late', 'k'); COMMIT; RAISE NOTICE 'counted'; END \$\$;\n";
my $counted = count_by('late', $plain, $block, $plain, $block, $plain, $block);

cmp_ok($counted, '<', 360, 'some commits fail');
is(q_("SELECT dc_get('late', 'k')"), $counted, 'sessions and DO blocks: who was told so has counted, and nobody else');

# Code of the owner that a statement runs here writes a counter of its own, which is in this transaction
citus_counter($coordinator, 'hot');
q_(q{CREATE TABLE source (id bigserial, k text); SELECT dc_create('nested'); SELECT dc_bind('nested', 'source', key => 'k', build => 'now')});
q_(q{CREATE FUNCTION public.count_too() RETURNS int LANGUAGE plpgsql VOLATILE AS $$ BEGIN INSERT INTO public.source (k) VALUES ('n'), ('m'); RETURN 1; END $$});
q_("ALTER TABLE $_ ADD COLUMN x int; ALTER TABLE $_ ALTER COLUMN x SET DEFAULT public.count_too()") foreach 'hot', 'hot_shard';
trigger('hot', q{IF random() < 0.3 THEN RAISE EXCEPTION 'no'; END IF}, 'TRIGGER hot BEFORE INSERT');
my $long = "SELECT 'counted', dc_incr('hot', repeat('k', 200));\n";
$counted = count_by('nested', ($long) x 6);
is(q_("SELECT dc_get('hot', repeat('k', 200))"), $counted, 'with code of the owner that counts, too');
is(q_("SELECT count(*) FROM source WHERE k = '$_'"), q_("SELECT dc_get('nested', '$_')"), "a counter that is bound to what it writes: $_") foreach 'n', 'm';
cmp_ok(q_('SELECT count(*) FROM source'), '>', 0, 'it has written something');

# A compaction that begins while the statement is on its way, and whose transaction goes on to the key
citus_counter($coordinator, 'slow');
q_(join '', map { "BEGIN; SELECT dc_incr('slow', 'k'); SELECT dc_apply(); COMMIT;" } 1 .. 20);
trigger('slow', 'PERFORM pg_sleep(CASE WHEN NEW.inc > 1 THEN 3 ELSE 0.1 END)', 'TRIGGER slow BEFORE INSERT');
my @jobs = map { start_job($coordinator, 'postgres', file_of("slow$_.sql", "SELECT dc_incr('slow', 'k');\n")) } 1 .. 12;
sleep(1);
my $user = dc_session($coordinator, 'postgres');
my $began = time;

$user->run("SET statement_timeout = '60s'; BEGIN");
$user->run("SELECT dc_compact('slow')");
like($user->run("SELECT 'set', dc_set('slow', 'k', 5)"), qr/^set/m, 'a setter that has compacted before is not kept waiting');
cmp_ok(time - $began, '<', 50, 'for long');
$user->run('COMMIT');
$user->quit;
is(finish_job($_), 0, 'a session has counted') foreach @jobs;

# A row to which the sum of many cannot be added is left alone
citus_counter($coordinator, 'near');
q_("INSERT INTO near_shard (key, shard, inc) VALUES ('k', 5, 9223372036854775806)");
is(finish_job(start_command('pgbench', '-n', '-f', file_of('near.sql', "SELECT dc_incr('near', 'k');\n"), '-c', 12, '-t', 100, $coordinator->connstr('postgres'))),
	0, 'no session fails beside a row that is full');
is(q_("SELECT sum(inc) - 9223372036854775806 FROM (SELECT inc FROM near WHERE key = 'k' UNION ALL SELECT inc FROM near_shard WHERE key = 'k') AS n"), 1200, 'all have counted');

# Where the coordinator has the shard, the statement is part of a transaction, which waits for a standby
q_(sprintf q{SELECT citus_set_node_property('%s', %d, 'shouldhaveshards', true)}, $coordinator->host, $coordinator->port);
# beside the others it would have its shards where they have theirs
q_(q{SELECT dc_create('here'); SELECT create_distributed_table('here', 'key', shard_count => 8, colocate_with => 'none');
	SELECT create_distributed_table('here_shard', 'key', colocate_with => 'here')});
my $key = q_(q{SELECT k FROM (SELECT 'k' || i AS k FROM generate_series(1, 200) AS i) AS k, citus_shards AS s
	WHERE s.table_name = 'here'::regclass AND s.shardid = get_shard_id_for_distribution_column('here', k) AND nodeport = } . $coordinator->port . ' LIMIT 1');
isnt($key, '', 'a key is on the coordinator');

# told(): the sum of the acknowledged increments, when that no longer changes
sub told
{
	my ($now, $before) = (0, -1);

	while ($now != $before)
	{
		$before = $now;
		sleep(5);
		$now = 0;
		$now += () = slurp_file("$_->{base}.out") =~ /counted/g foreach @jobs;
	}
	return $now;
}

my $many = file_of('here.sql', "SELECT 'counted', dc_incr('here', '$key');\n" x 20000);
my $counting = q{FROM pg_stat_activity WHERE query ~ '^SELECT .counted' AND state = 'active'};

# each line when it is there
@jobs = map { start_command('stdbuf', '-oL', 'psql', '-XAtq', '-d', $coordinator->connstr('postgres'), '-f', $many) } 1 .. 12;
wait_for($coordinator, 'postgres', "SELECT count(*) > 0 $counting", 't');
q_(q{ALTER SYSTEM SET synchronous_standby_names = 'nobody'});
$coordinator->reload;
my $told = told();
cmp_ok($told, '<=', q_("SELECT dc_get('here', '$key')"), 'nobody is told so while the commit waits for a standby');
$told += q_("SELECT count(pg_cancel_backend(pid)) $counting AND wait_event = 'SyncRep'");
is(told(), $told, 'one who gives up waiting for a standby does not speak for others');
sql($coordinator, 'postgres', q{SET synchronous_commit = local; ALTER SYSTEM RESET synchronous_standby_names});
$coordinator->reload;
q_('SELECT count(pg_terminate_backend(pid)) ' . $counting);
$told = 0;
foreach my $job (@jobs)
{
	finish_job($job);
	$told += () = $job->{out} =~ /counted/g;
}
cmp_ok(q_("SELECT dc_get('here', '$key')"), '>=', $told, 'who was told so has counted');

# The plan of a statement for a shard that the coordinator has knows the shard's indexes
my $session = dc_session($coordinator, 'postgres');
my $value = q_("SELECT dc_get('here', '$key')");

$session->run("SELECT dc_incr('here', '$key')") foreach 1 .. 8;
my @indexes = split /\n/, q_(q{SET citus.override_table_visibility = off;
	SELECT format('%I.%I', schemaname, indexrelname) FROM pg_stat_user_indexes WHERE relname ~ '^here(_shard)?_[0-9]+$'});
cmp_ok(@indexes, '>', 0, 'there are indexes of shards here');
q_("SET citus.enable_ddl_propagation = off; REINDEX INDEX CONCURRENTLY $_") foreach @indexes;
is($session->run("SELECT 'counted', dc_incr('here', '$key')"), 'counted|', 'REINDEX of shards') foreach 1 .. 3;
$session->quit;
is(q_("SELECT dc_get('here', '$key')"), $value + 11, 'is nothing that sessions notice');

$_->stop foreach $coordinator, @workers;
done_testing();
