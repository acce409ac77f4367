# Amounts loaded from the file are flushed in one step, or not at all. If that takes too long, for
# an owner who is not a superuser, the worker leaves the table to its owner, so that other owners
# wait for no more than two steps of 2.5 s, and says so. Whatever happens then, even a shutdown of
# the server, each increment counts once.
use strict;
use warnings;

use DcBuffer;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = buffer_node('loaded', "dcounter.compact_interval = '100ms'");
my $value = q{SELECT dc_get('m.c', 'a')};
my $view = q{SELECT maintained_by || coalesce(': ' || left_because, '') FROM dc_tables WHERE counter = 'm.c'::regclass};
my $left = 'owner: what was in memory at the last shutdown takes too long to flush';
my $logged = qr/dcounter worker leaves counter table "c" to its owner\n.*DETAIL:  Increments that were in memory at the last shutdown/;

# runs_code(VALUE): whether the worker may run code of owners
sub runs_code
{
	my ($value) = @_;

	sql($node, 'postgres', $_) foreach "ALTER SYSTEM SET dcounter.worker_runs_owner_code = $value", 'SELECT pg_reload_conf()';
	die 'not set' if wait_for($node, 'postgres', 'SHOW dcounter.worker_runs_owner_code', $value) ne $value;
	return;
}

# Rows of mallory take the worker 60 s. If such code is not run, it leaves the table alone, and the
# amounts in memory go to the file.
sql($node, 'postgres', q{
	CREATE ROLE mallory; CREATE SCHEMA m AUTHORIZATION mallory;
	SELECT dc_create('quick', totals => 'compacted');
	SET ROLE mallory;
	SELECT dc_create('m.c', mode => 'buffered', flush_interval => '1 h');
	SELECT dc_incr('m.c', 'a', 7);
	RESET ROLE;
	CREATE FUNCTION m.slow() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
	BEGIN
		IF (SELECT backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid()) <> 'client backend' THEN
			PERFORM pg_sleep(60);
		END IF;
		RETURN NEW;
	END $$;});
runs_code('on');
sql($node, 'postgres', q{
	CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON m.c FOR EACH ROW EXECUTE FUNCTION m.slow();
	CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON m.c_shard FOR EACH ROW EXECUTE FUNCTION m.slow();});
runs_code('off');

# loads(): restarts the server, which loads a file, and returns the place in the log from where on the worker has tried to flush it
sub loads
{
	my $from;

	$node->stop('fast');
	ok(-s $node->data_dir . '/pg_stat/dcounter.buffer', 'amounts are in the file');
	$from = -s $node->logfile;
	$node->append_conf('postgresql.auto.conf', 'dcounter.worker_runs_owner_code = on');
	$node->start;
	worker_runs($node, 'postgres');
	return $from;
}

# is_left(FROM): tests that the worker gives up, and that others are served meanwhile
sub is_left
{
	my ($from) = @_;
	my $log;
	my @cancels;

	sql($node, 'postgres', q{SELECT dc_incr('quick', 'a')});
	is(wait_for($node, 'postgres', q{SELECT count(*) FROM quick_shard}, '0', 30), '0', 'others are served');
	soon($node, $view, $left, 'the table is left to its owner');
	$log = slurp_file($node->logfile, $from);
	@cancels = $log =~ /"c" failed:.*\n.*It took too long/g;
	is(scalar(@cancels), 2, 'after two steps');
	like($log, $logged, 'and that is logged');
	is(sql($node, 'postgres', $value), '7', 'the amounts count');
	is(sql($node, 'postgres', q{SELECT dc_incr('m.c', 'b'); SELECT dc_get('m.c', 'b')}), "\n1", 'the next increments go to rows');
	return;
}

sub crash
{
	$node->stop('immediate');
	$node->start;
	worker_runs($node, 'postgres');
	return;
}

is_left(loads());
crash();
is(sql($node, 'postgres', $value), '7', 'they count once after a crash');
soon($node, $view, $left, 'the table is left again');
is(sql($node, 'postgres', q{SET ROLE mallory; CALL dc_maintain()}), '', 'the owner writes them');
is(sql($node, 'postgres', q{SELECT dc_get('m.c', 'a'), sum(inc - dec) FROM m.c WHERE key = 'a'}), '7|7', 'to rows');
soon($node, $view, 'worker', 'then the worker maintains the table');
crash();
is(sql($node, 'postgres', $value), '7', 'after a crash, too');

$node->stop;
done_testing();
