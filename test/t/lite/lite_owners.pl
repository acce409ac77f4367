# dcounter_lite among owners who do not trust each other: installed by a role without special rights, which owns the registry. What one owner does to its
# own tables, locks or asks for stops no other one, and nobody's code runs as another role because of dc_maintain().
use strict;
use warnings;

use DcTest;
use DcLite;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('lite', extension => 0, conf => [ 'autovacuum = off' ]);

sql($node, 'postgres', q{
	CREATE ROLE installer LOGIN; CREATE ROLE alice LOGIN; CREATE ROLE mallory LOGIN; CREATE ROLE counting LOGIN;
	GRANT CREATE ON DATABASE postgres TO installer; GRANT ALL ON SCHEMA public TO installer;
	CREATE SCHEMA a AUTHORIZATION alice; CREATE SCHEMA m AUTHORIZATION mallory; GRANT USAGE ON SCHEMA a TO counting});
lite_install($node, 'postgres', 'installer');

# alice(STATEMENTS), mallory(STATEMENTS): output of a session of that role, in which a wait for a lock is an error
sub alice { return sql($node, 'postgres', "SET SESSION AUTHORIZATION alice; SET lock_timeout = '5s'; $_[0]") }
sub mallory { return sql($node, 'postgres', "SET SESSION AUTHORIZATION mallory; SET lock_timeout = '5s'; $_[0]") }

alice(q{SELECT dc_create('a.c'), dc_stock_create('a.s'), dc_create('a.bound'); CREATE TABLE a.rows (k text);
	SELECT dc_incr_once('a.c', 'k', 1, 'first'), dc_restock('a.s', 'k', 10);
	SELECT dcounter_lite.grant_to('a.c', 'counting'), dcounter_lite.grant_to('a.s', 'counting', 'delete')});
mallory("SELECT dc_create('m.x'), dc_create('m.y'); SELECT dc_incr_once('m.x', 'k', 1, 'op'), dc_incr('m.y', 'k')");

# A counter table that was dropped by itself: dc_maintain() of all others forgets it.
mallory('DROP TABLE m.x');
alice(q{SELECT dc_create('a.z'); SELECT dc_incr_once('a.z', 'k', 1, 'op'); DROP TABLE a.z; CALL dc_maintain()});
is(sql($node, 'postgres', 'SELECT string_agg(counter::text, \' \' ORDER BY counter) FROM dcounter_lite.counter'), 'a.c a.s a.bound m.y', 'what is left of a counter that was dropped is forgotten by whoever maintains');
is(sql($node, 'postgres', 'SELECT (SELECT count(*) FROM dcounter_lite.op_slot), (SELECT count(*) FROM dcounter_lite.lock)'), '4|4', 'with its ops and its lock');
# also while its owner has locked what is left
mallory("SELECT dc_create('m.held')");
my $theirs = dc_session($node, 'postgres');
$theirs->run("SET SESSION AUTHORIZATION mallory; BEGIN; SELECT dcounter_lite.lock_compaction('m.held')");
mallory('DROP TABLE m.held');
alice('CALL dc_maintain()');
$theirs->run('ROLLBACK');
mallory("SELECT dc_create('m.other'); DROP TABLE m.other");
$theirs->run("BEGIN; INSERT INTO dcounter_lite.change (what) VALUES ('gone')");
alice('CALL dc_maintain()');
$theirs->run('COMMIT');
is(sql($node, 'postgres', 'SELECT count(*) FROM dcounter_lite.counter'), '4', 'and by another one while somebody has locked it');

# Nobody but the registry's owner can lock it in a way that others wait for, or change what is of others.
foreach my $mode ('ACCESS EXCLUSIVE', 'EXCLUSIVE', 'SHARE')
{
	fails_with($node, 'postgres', "SET ROLE mallory; BEGIN; LOCK TABLE dcounter_lite.$_ IN $mode MODE", '42501', "LOCK TABLE $_ IN $mode MODE") foreach 'counter', 'op_slot', 'source', 'change', 'lock';
}
foreach my $sql (
	'SELECT FROM dcounter_lite.counter FOR UPDATE', 'SELECT FROM dcounter_lite.counter FOR KEY SHARE', 'SELECT FROM dcounter_lite.op_slot FOR KEY SHARE', 'SELECT FROM dcounter_lite.lock FOR KEY SHARE',
	"UPDATE dcounter_lite.counter SET max_shards = 1 WHERE counter = 'm.y'::regclass", 'DELETE FROM dcounter_lite.counter', 'DELETE FROM dcounter_lite.op_slot', 'DELETE FROM dcounter_lite.lock',
	"INSERT INTO dcounter_lite.lock SELECT counter, 'key', 'k' FROM dcounter_lite.counter", "SELECT dcounter_lite.lock_row('m.y', 'key', 'k')",
	'CREATE TABLE m.forged (LIKE dcounter_lite.change); CREATE TRIGGER t BEFORE INSERT ON m.forged FOR EACH ROW EXECUTE FUNCTION dcounter_lite.make_change()')
{
	fails_with($node, 'postgres', "SET ROLE mallory; $sql", '42501', $sql);
}
my $counter = sql($node, 'postgres', "SELECT 'a.c'::regclass::oid");
foreach my $role ('mallory', 'counting')
{
	fails_with($node, 'postgres', "SET ROLE $role; INSERT INTO dcounter_lite.change (what, counter, slot, state, max_shards) VALUES ('$_', $counter, 0, 'closed', 1)", '42501', "$role may not: $_")
	  foreach 'alter', 'writer', 'once_writer', 'ops', 'slot', 'copy', 'unbind', 'forget', 'lock', 'clean', 'no such thing';
}
fails_with($node, 'postgres', "SET ROLE mallory; INSERT INTO dcounter_lite.change (what, counter) VALUES ('$_', $counter)", '42501', "mallory may not: $_") foreach 'compaction', 'try compaction', 'key';
fails_with($node, 'postgres', "SET ROLE mallory; INSERT INTO dcounter_lite.change (what, counter, ops) SELECT 'ops', 'm.y', ops FROM dcounter_lite.counter WHERE counter = $counter", '42501', 'nor name tables of others');
fails_with($node, 'postgres', q{SET ROLE mallory; INSERT INTO dcounter_lite.change (what, counter) VALUES ('forget', 4294967295)}, '42501', 'nor forget a counter to come');
fails_with($node, 'postgres', q{SET ROLE mallory; INSERT INTO dcounter_lite.change (what, counter, ops) VALUES ('ops', 'm.y', 4294967295)}, '42501', 'nor name a table to come');
sql($node, 'postgres', 'CREATE TABLE m.requests (LIKE dcounter_lite.change); CREATE TRIGGER t BEFORE INSERT ON m.requests FOR EACH ROW EXECUTE FUNCTION dcounter_lite.make_change(); GRANT INSERT ON m.requests TO mallory');
fails_with($node, 'postgres', "SET ROLE mallory; INSERT INTO m.requests (what, counter) VALUES ('forget', $counter)", '42501', 'nor have a trigger that makes changes');
fails_with($node, 'postgres', "SET ROLE alice; INSERT INTO dcounter_lite.change (what, counter) VALUES ('no such thing', 'a.c')", '20000', 'what is not a change');
# A function that runs as mallory has the rights of mallory, whoever calls it, and an owner's role has those of its members.
sql($node, 'postgres', q{SET ROLE mallory; CREATE FUNCTION m.alter_it() RETURNS void SECURITY DEFINER LANGUAGE sql AS $$ INSERT INTO dcounter_lite.change (what, counter, max_shards) SELECT 'alter', counter, 1 FROM dcounter_lite.counter $$;
	GRANT USAGE ON SCHEMA m TO alice});
fails_with($node, 'postgres', 'SET SESSION AUTHORIZATION alice; SELECT m.alter_it()', '42501', 'the role that counts is the current one');
is(sql($node, 'postgres', "SET session_replication_role = replica; SELECT dc_alter('a.s', max_shards => 16); SELECT max_shards FROM dcounter_lite.counter WHERE counter = 'a.s'::regclass"), "\n16", 'a session that fires no ordinary triggers');
is(sql($node, 'postgres', 'SELECT count(*) FROM dcounter_lite.change'), '0', 'no request stays');
alice("SELECT dc_alter('a.s', max_shards => 8), dcounter_lite.make_writer('a.c'), dc_bind('a.bound', 'a.rows', 'k'), dc_unbind('a.bound')");
is(sql($node, 'postgres', 'SELECT max_shards, writer FROM dcounter_lite.counter WHERE counter IN (\'a.s\'::regclass, \'a.c\'::regclass) ORDER BY counter'), "64|a.c_write\n8|", 'the owner changes what is its own');

# Whatever mallory locks, alice's calls do not wait. Advisory locks on all numbers that were ever used are nobody's.
$theirs->run("BEGIN; LOCK TABLE dcounter_lite.counter, dcounter_lite.op_slot, dcounter_lite.source, dcounter_lite.change IN ROW EXCLUSIVE MODE; LOCK TABLE dcounter_lite.lock IN ACCESS SHARE MODE;
	SELECT pg_advisory_lock(hashint8extended(counter::oid::bigint, n)), pg_advisory_lock(hashtextextended('k', counter::oid::bigint + 7241 * 4294967296)) FROM dcounter_lite.counter, unnest('{724101,724102}'::bigint[]) AS n;
	SELECT dc_set('m.y', 'k', 7), dcounter_lite.lock_compaction('m.y')");
is(alice(q{SELECT dc_incr('a.c', 'k', 4), dc_incr_once('a.s', 'k', 1, 'op'); SELECT dc_set('a.c', 'k', 9), dc_delete('a.c', 'k'), dc_set('a.s', 'k', 3), dc_take('a.s', 'k', 2), dc_alter('a.c', max_shards => 32);
	SELECT dc_compact('a.c') >= 0, dc_get('a.s', 'k'), dc_create('a.late'); SELECT dc_drop('a.late'); CALL dc_maintain()}) =~ s/^\|t\n//r, "5|9|11|t|\nt|1|a.late\n", 'nobody else waits');
is(sql($node, 'postgres', "SELECT count(*), sum(inc - dec) FROM a.c_shard"), '0|', 'and compaction is not kept away');
$theirs->run('COMMIT; SELECT pg_advisory_unlock_all()');

# Who may write the tables may set, and takes the locks for that. A compaction that another one keeps away says so.
$theirs->run("RESET SESSION AUTHORIZATION; SET SESSION AUTHORIZATION counting; BEGIN");
is($theirs->run("SELECT dc_set('a.c', 'k', 5), dc_set('a.s', 'k', 6)"), '0|1', 'a role that may count sets');
my ($status, $out, $err) = $node->psql('postgres', "SET ROLE alice; SELECT dc_incr('a.s', 'k'), dc_compact('a.s')");
is($out, '|0', 'a compaction beside a setter of a stock');
like($err, qr/NOTICE:  skipping compaction of "s": another transaction compacts or sets it$/m, 'says that it does nothing');
my $waiting = dc_session($node, 'postgres');
$waiting->send("SET ROLE alice; SELECT dc_set('a.c', 'k', 100)");
is(wait_for($node, 'postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", '1'), '1', 'and another setter of the key waits');
is(alice("SELECT dc_set('a.c', 'j', 2)"), '0', 'one of another key does not');
alice('CALL dc_maintain()');
$theirs->run('COMMIT');
is($waiting->wait, '5', 'until the first one ends');
alice('CALL dc_maintain()');
is(sql($node, 'postgres', "SELECT count(*) FILTER (WHERE kind = 'key'), count(*) FROM dcounter_lite.lock WHERE counter <> 'm.y'::regclass"), '0|3', 'locks of keys do not stay');

# dc_maintain() leaves tables of roles alone whose member the caller is: their triggers would run as the caller.
sql($node, 'postgres', q{
	GRANT mallory TO installer; GRANT installer TO alice;
	SET ROLE mallory;
	CREATE TABLE m.log (who text); GRANT INSERT ON m.log TO PUBLIC; GRANT USAGE ON SCHEMA m TO PUBLIC;
	CREATE FUNCTION m.log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO m.log VALUES (current_user); RETURN NEW; END $$;
	CREATE TRIGGER log BEFORE INSERT ON m.y FOR EACH ROW EXECUTE FUNCTION m.log();
	UPDATE m.y_shard SET updated_at = updated_at - interval '1 minute'});
sql($node, 'postgres', "SET SESSION AUTHORIZATION $_; CALL dc_maintain(); SELECT dc_compact()") foreach 'installer', 'alice', 'postgres';
is(sql($node, 'postgres', 'SELECT count(*) FROM m.log'), '0', "no trigger of another owner's runs");
mallory('CALL dc_maintain()');
is(sql($node, 'postgres', 'SELECT * FROM m.log'), 'mallory', 'it runs as the owner');

# A bound counter that was dropped by itself does not stop writers of its source, also when it is forgotten.
$theirs->run("RESET SESSION AUTHORIZATION; SET SESSION AUTHORIZATION alice; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM a.c");
is(alice("SELECT dc_bind('a.bound', 'a.rows', 'k'); INSERT INTO a.rows VALUES ('x'); SELECT dc_get('a.bound', 'x')"), "\n1", 'a bound counter');
is($theirs->run("INSERT INTO a.rows VALUES ('y')"), 'ERROR 40001', 'a transaction that does not see the binding');
$theirs->run('ROLLBACK');
alice('DROP TABLE a.bound');
mallory('CALL dc_maintain()');
is(alice("INSERT INTO a.rows VALUES ('y'); SELECT count(*) FROM a.rows, dcounter_lite.source"), '0', 'its source when it is gone');

# ... nor does a transaction leave rows out that does not see one of several bindings, or takes a later one for one that is gone
alice("SELECT dc_create('a.first'), dc_create('a.second'); SELECT dc_bind('a.second', 'a.rows', 'k')");
$theirs->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM a.c');
alice("SELECT dc_create('a.last'), dc_unbind('a.second'); SELECT dc_bind('a.first', 'a.rows', 'k'); SELECT dc_bind('a.last', 'a.rows', 'k'); DROP TABLE a.last, a.last_shard");
is($theirs->run("INSERT INTO a.rows VALUES ('z')"), 'ERROR 40001', 'the last one is gone, the first one is not seen');
$theirs->run('ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM a.c');
alice("SELECT dc_unbind('a.first'); SELECT dc_bind('a.second', 'a.rows', 'k')");
is($theirs->run("INSERT INTO a.rows VALUES ('z')"), 'ERROR 40001', 'a later binding');
$theirs->run('ROLLBACK');
is(alice("INSERT INTO a.rows VALUES ('z'); SELECT dc_get('a.second', 'z'), count(*) FROM dc_source_check('a.second')"), '1|0', 'all is counted');
alice("SELECT dc_unbind('a.second')");

# A table that is dropped while dc_maintain() is at work does not keep it from the others
sql($node, 'postgres', q{SET ROLE alice; SELECT dc_create('a.z1'), dc_create('a.z2'), dc_create('a.z3'); INSERT INTO a.z1_shard (key, shard, inc) VALUES ('k', 1, 1); INSERT INTO a.z3_shard (key, shard, inc) VALUES ('k', 1, 1);
	UPDATE a.z1_shard SET updated_at = now() - interval '1 minute'; UPDATE a.z3_shard SET updated_at = now() - interval '1 minute'});
my $drops = dc_session($node, 'postgres');
$drops->run('SET SESSION AUTHORIZATION alice; BEGIN; LOCK TABLE a.z1 IN ACCESS EXCLUSIVE MODE');
$waiting->send('CALL dc_maintain()');
is(wait_for($node, 'postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", '1'), '1', 'dc_maintain() is at work');
$drops->run("SELECT dc_drop('a.z2'); COMMIT");
is($waiting->wait, '', 'it goes on without a table that is dropped');
is(sql($node, 'postgres', 'SELECT count(*) FROM a.z3_shard'), '0', 'to the last one');
$drops->quit;

# Two sessions turn the ring: the second one waits for the first, and then does not empty the partition that is open now. (It waits for longer here.)
sql($node, 'postgres', "ALTER FUNCTION dcounter_lite.turn_ring(regclass) SET lock_timeout = '10min'; UPDATE dcounter_lite.op_slot SET since = since - interval '8 days' WHERE counter = 'a.c'::regclass");
$theirs->run('RESET SESSION AUTHORIZATION; SET SESSION AUTHORIZATION alice; BEGIN');
is($theirs->run("SELECT dcounter_lite.turn_ring('a.c'), dc_incr_once('a.c', 'k', 1, 'next')"), 't|t', 'one session turns the ring');
$waiting->send("SELECT dcounter_lite.turn_ring('a.c')");
is(wait_for($node, 'postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", '1'), '1', 'another one waits');
$theirs->run('COMMIT');
is($waiting->wait, 'f', 'and does not turn it again');
is(alice("SELECT string_agg(state, ' ' ORDER BY slot), dc_incr_once('a.c', 'k', 1, 'next') FROM dcounter_lite.op_slot WHERE counter = 'a.c'::regclass"), 'closed open empty empty|f', 'so ops that were recorded in between are known');

$theirs->quit;
$waiting->quit;
done_testing();
