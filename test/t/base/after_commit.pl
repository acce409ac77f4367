# Code that runs after the end of a transaction cannot fail. A wait for a flush ends with a warning,
# in a transaction that is committed, even if names of the running code have letters that the
# client's encoding lacks; nothing of the wait is left behind. A build that has no room for its
# temporary file gives back what it has, and is neither the end of the worker nor of others' builds.
# Nor is it long: memory is gone over once, however many limits and presences a transaction has
# dropped.
use strict;
use warnings;

use DcBuffer;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $node = buffer_node('after_commit');
# more than the first waits that a session makes room for
my $waits = 20;

# bob may count in a table of alice, and nothing else
sql($node, 'postgres', q{
	CREATE ROLE alice; CREATE ROLE bob LOGIN;
	CREATE SCHEMA a AUTHORIZATION alice; GRANT USAGE ON SCHEMA a TO bob;
	SET ROLE alice;
	SELECT dc_create('a.s', mode => 'buffered', durability => 'sync', flush_interval => '1 day');
	GRANT INSERT, UPDATE, SELECT ON a.s TO bob;
	SELECT dc_incr('a.s', 'first')});
my $worker = sql($node, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'postgres'});

my $bob = dc_session($node, 'postgres');
$bob->run(q{
	SET SESSION AUTHORIZATION bob;
	CREATE PROCEDURE pg_temp."漢"() LANGUAGE plpgsql AS $$ BEGIN PERFORM dc_incr('a.s', 'k'); COMMIT; END $$;
	CREATE PROCEDURE pg_temp.outer() LANGUAGE plpgsql AS $$ BEGIN CALL pg_temp."漢"(); END $$;
	SET client_encoding = 'LATIN1'});
# the first call reads catalogs, and nothing may take as long as the timeout but the wait
$bob->run('CALL pg_temp.outer()');
$bob->run(q{SET statement_timeout = '500ms'});

kill 'STOP', $worker;
my @answers = map { eval { $bob->run("CALL pg_temp.outer(); SELECT 'goes on'") } // 'fails' } 1 .. $waits;
kill 'CONT', $worker;

is(join(' ', @answers), join(' ', ('goes on') x $waits), 'the session goes on after each');
is($bob->run('RESET statement_timeout; SELECT pg_backend_pid() > 0'), 't', 'and after all');
$bob->quit;
soon($node, q{SELECT dc_get('a.s', 'k')}, $waits + 1, 'each increment counts once');
my $log = slurp_file($node->logfile);
is(scalar(() = $log =~ /WARNING:  canceling the wait for increments to become durable due to user request/g), $waits, 'each wait was cancelled');
unlike($log, qr/PANIC|terminated by signal|was not released|AbortTransaction while/, 'the server is well');

is(sql($node, 'postgres', 'SELECT coalesce(sum(waiting), 0) FROM dc_stat_buffer'), '0', 'and nobody waits any more');

# ------------------------------------------------------------
# No room for a temporary file
# ------------------------------------------------------------
$node->append_conf('postgresql.conf', "temp_file_limit = '200kB'");
$node->reload;
my $builder = dc_session($node, 'postgres');
my $failed = sub { return scalar(() = slurp_file($node->logfile) =~ /temporary file size exceeds/g) };

$builder->run(q{
	CREATE TABLE source AS SELECT lpad(i::text, 40, '0') AS k FROM generate_series(1, 20000) AS i;
	SELECT dc_create('counter');
	SELECT dc_bind('counter', 'source', 'k')});
foreach (1 .. 300)
{
	last if $failed->() > 0;
	Time::HiRes::sleep(0.1);
}
cmp_ok($failed->(), '>', 0, 'the worker has no room');
my $build = eval { $builder->run(q{CALL dc_build('counter')}) } // $@;
like($build, qr/53400/, 'nor has a session');
is($builder->run(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()}), '0', 'it has given back its lock');
soon($node, q{SELECT count(*) FROM pg_ls_tmpdir()}, '0', 'and its file');    # the worker has one now and then
is(sql($node, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'postgres'}), $worker, 'the worker goes on');
# the file is told to the log, and to a client that lacks letters of the code that is running, while a subtransaction aborts
$builder->run(q{
	CREATE FUNCTION "漢"() RETURNS text LANGUAGE plpgsql AS $$ BEGIN CALL dc_build('counter'); RETURN 'built'; EXCEPTION WHEN configuration_limit_exceeded THEN RETURN 'no room'; END $$;
	CREATE FUNCTION build() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN "漢"(); END $$});
is(eval { $builder->run(q{SET client_encoding = 'LATIN1'; SET client_min_messages = log; SET log_temp_files = 0; SELECT build()}) } // $@, 'no room', 'a file that is closed is no error');
$builder->run('RESET client_min_messages; RESET client_encoding');
$node->append_conf('postgresql.conf', 'temp_file_limit = -1');
$node->reload;
soon($node, q{SELECT dc_sum('counter')}, '20000', 'and builds when there is room');
$builder->quit;

# ------------------------------------------------------------
# Many rules that are dropped at once
# ------------------------------------------------------------
$node->append_conf('postgresql.conf', "dcounter.limit_size = '256MB'\ndcounter.presence_size = '256MB'");
$node->restart;
my $dropper = dc_session($node, 'postgres');

# how long the commit takes that drops so many
sub commit_of
{
	my ($count, $create, $use, $drop) = @_;
	my $each = sub { return "DO \$\$ BEGIN FOR i IN 1 .. $count LOOP PERFORM @_; END LOOP; END \$\$;" };

	$dropper->run($each->($create) . $each->($use));
	$dropper->run('BEGIN;' . $each->($drop));
	my $begun = Time::HiRes::time();
	$dropper->run('COMMIT');
	return Time::HiRes::time() - $begun;
}

foreach ([ 'limits', q{dc_limit_create('l' || i, 'gcra', 10, '1 day')}, q{dc_allow('l' || i, 'k')}, q{dc_limit_drop('l' || i)} ],
	[ 'presences', q{dc_presence_create('p' || i, '1 day')}, q{dc_enter('p' || i, 'room', 'm')}, q{dc_presence_drop('p' || i)} ])
{
	my ($what, @calls) = @$_;
	my $one = commit_of(1, @calls);
	my $many = commit_of(400, @calls);

	cmp_ok($many, '<', 40 * $one + 1, "a commit that drops 400 $what goes over the memory once");
}
is(sql($node, 'postgres', 'SELECT (SELECT count(*) FROM dc_stat_limits) + (SELECT count(*) FROM dc_stat_presence)'), '0', 'they are gone');
$dropper->quit;
$node->stop;
done_testing();
