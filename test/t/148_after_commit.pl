# A wait for a flush that ends with a warning, in a transaction that is committed: the warning cannot fail, also if names of the code
# that is running are of letters that the client's encoding lacks. Nothing of the wait is left behind.
use strict;
use warnings;

use DcBuffer;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = buffer_node('after_commit');
# more than the first waits that a session makes room for
my $waits = 20;

# bob may count in a table of alice's, and nothing else
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
	SET client_encoding = 'LATIN1'; SET statement_timeout = '150ms'});

kill 'STOP', $worker;
my @answers = map { eval { $bob->run("CALL pg_temp.outer(); SELECT 'goes on'") } // 'fails' } 1 .. $waits;
kill 'CONT', $worker;

is(join(' ', @answers), join(' ', ('goes on') x $waits), 'the session goes on after each');
is($bob->run('RESET statement_timeout; SELECT pg_backend_pid() > 0'), 't', 'and after all');
$bob->quit;
soon($node, q{SELECT dc_get('a.s', 'k')}, $waits, 'each increment counts once');
my $log = slurp_file($node->logfile);
is(scalar(() = $log =~ /WARNING:  canceling the wait for increments to become durable due to user request/g), $waits, 'each wait was cancelled');
unlike($log, qr/PANIC|terminated by signal|was not released|AbortTransaction while/, 'the server is well');

is(sql($node, 'postgres', 'SELECT coalesce(sum(waiting), 0) FROM dc_stat_buffer'), '0', 'and nobody waits any more');
$node->stop;
done_testing();
