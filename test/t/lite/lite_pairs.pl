# Each pair of calls of dcounter_lite on one key: the first in a transaction that is open, then the second in another session. Whether the second waits is
# as the table says. Then the first commits, or rolls back, and the value is what the calls have returned: amounts of increments, the new value less the
# old one of setters, units of takes. So whatever the order in which the two come to be, each counts once.
use strict;
use warnings;

use DcTest;
use DcLite;
use Test::More;
use Time::HiRes qw(usleep);

my $node = dc_node('lite', extension => 0);
lite_install($node, 'postgres');
my $first = dc_session($node, 'postgres');
my $second = dc_session($node, 'postgres');
my $pid = $second->run('SELECT pg_backend_pid()');

# The calls: what they add, by what they return. "end" is how the open one ends.
my %counter = (
	incr => [ "SELECT dc_incr('c', 'k', 3)", sub { 3 } ],
	many => [ "SELECT dc_incr_many('c', '{j,k}', '{1,4}')", sub { 4 } ],
	load => [ "SELECT dc_load('c', '{k}', '{5}')", sub { 5 } ],
	set => [ "SELECT dc_set('c', 'k', 100)", sub { 100 - $_[0] } ],
	reset => [ "SELECT dc_reset('c', 'k')", sub { -$_[0] } ],
	delete => [ "SELECT dc_delete('c', 'k')", sub { -$_[0] } ],
	compact => [ "SELECT dc_compact('c')", sub { 0 } ],
	maintain => [ 'CALL dc_maintain()', sub { 0 } ],
	once => [ "SELECT dc_incr_once('c', 'k', 7, 'op')", sub { $_[0] eq 't' ? 7 : 0 } ],
	writer => [ "SELECT c_incr('k', 9)", sub { 9 } ]);
my %stock = (
	restock => [ "SELECT dc_restock('c', 'k', 3)", sub { 3 } ],
	take => [ "SELECT dc_take('c', 'k', 2)", sub { $_[0] eq 't' ? -2 : 0 } ],
	up_to => [ "SELECT dc_take_up_to('c', 'k', 4)", sub { -$_[0] } ],
	cart => [ "SELECT dc_take_all('c', '{k,k}', '{1,2}')", sub { $_[0] eq 't' ? -3 : 0 } ],
	most => [ "SELECT dc_take('c', 'k', 10)", sub { $_[0] eq 't' ? -10 : 0 } ],
	hold => [ "SELECT dc_hold('c', 'k', 2, '1 hour') IS NOT NULL", sub { $_[0] eq 't' ? -2 : 0 } ],
	hold_all => [ "SELECT dc_hold_all('c', '{j,k,k}', '{1,1,1}', '1 hour') IS NOT NULL", sub { $_[0] eq 't' ? -2 : 0 } ],
	release => [ "SELECT dc_hold_release('c', '00000000-0000-0000-0000-000000000001', strict => false)", sub { $_[0] eq 'released' ? 5 : 0 } ],
	confirm => [ "SELECT dc_hold_confirm('c', '00000000-0000-0000-0000-000000000001', 4, strict => false)", sub { $_[0] eq 'confirmed' ? 1 : 0 } ],
	set => [ "SELECT dc_set('c', 'k', 100)", sub { 100 - $_[0] } ],
	delete => [ "SELECT dc_delete('c', 'k')", sub { -$_[0] } ],
	compact => [ "SELECT dc_compact('c')", sub { 0 } ],
	once => [ "SELECT dc_incr_once('c', 'k', 7, 'op')", sub { $_[0] eq 't' ? 7 : 0 } ]);

# Pairs in which the second waits for the first; in all others it does not.
my %waits = map { $_ => 1 } (
	# setters of a key wait for each other
	(map { ("counter $_ set", "counter $_ reset", "counter $_ delete") } qw(set reset delete)),
	# two with one op, and with one hold
	'counter once once', 'stock once once',
	(map { ("stock $_ release", "stock $_ confirm") } qw(release confirm)),
	# the rows of totals of new keys
	'counter load load', 'counter load compact', 'counter compact load',
	# setters of a stock wait for takers, and are waited for; a compaction by hand has all rows of the stock
	(map { my $taker = $_; map { ("stock $taker $_", "stock $_ $taker") } qw(set delete) } qw(take up_to cart most hold hold_all)),
	(map { ("stock $_ set", "stock $_ delete") } qw(set delete compact)),
	(map { "stock compact $_" } qw(take up_to cart most hold hold_all)));

# go_on(SESSION, SQL): starts a statement; whether it waits for a lock
sub go_on
{
	my ($session, $sql) = @_;

	$session->send($sql);
	while (!$session->answered)
	{
		return 1 if answer($node, 'postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid") eq 't';
		usleep(10_000);
	}
	return 0;
}

# one_pair(KIND, CALLS, FIRST, SECOND, END)
sub one_pair
{
	my ($kind, $calls, $name, $other, $end) = @_;
	my $pair = "$kind $name $other";
	my $value = 10;

	$first->run($kind eq 'counter'
		? "SELECT dc_create('c'); SELECT dc_incr('c', 'k', 10), dcounter_lite.make_writer('c'), dc_incr_once('c', 'j', 1, 'first')"
		: "SELECT dc_stock_create('c'); SELECT dc_restock('c', 'k', 15), dc_restock('c', 'j', 5); SELECT dc_hold('c', 'k', 5, '1 hour', '00000000-0000-0000-0000-000000000001'), dc_incr_once('c', 'j', 1, 'first')");
	# half of them by what make_writer() makes, half by statements that are planned at each call
	$first->run($end eq 'COMMIT' ? "SELECT dcounter_lite.make_writer('c') WHERE '$kind' = 'stock'" : 'UPDATE dcounter_lite.counter SET writes = NULL');
	$first->run('BEGIN');
	my $result = $first->run($calls->{$name}[0]);
	my $waited = go_on($second, $calls->{$other}[0]);
	is($waited, $waits{$pair} // 0, "$pair: " . ($waits{$pair} ? 'waits' : 'does not wait'));
	$first->run($end);
	my $second_result = $second->wait;
	unlike("$result $second_result", qr/ERROR/, "$pair: no error");
	$value += $calls->{$name}[1]->($result) if $end eq 'COMMIT';
	$value += $calls->{$other}[1]->($second_result);
	is(sql($node, 'postgres', "SELECT dc_get('c', 'k')"), $value, "$pair, $end: each counts once ($result, $second_result)");
	is(sql($node, 'postgres', "SELECT coalesce(sum(units), 0) = dc_get('c', 'k'), coalesce(min(units), 0) >= 0 FROM c_shard WHERE key = 'k'"), 't|t',
		"$pair, $end: and the units are those")
	  if $kind eq 'stock';
	sql($node, 'postgres', "SELECT dc_drop('c')");
	return;
}

foreach my $kind ('counter', 'stock')
{
	my $calls = $kind eq 'counter' ? \%counter : \%stock;
	foreach my $name (sort keys %$calls)
	{
		next if $name eq 'maintain';
		foreach my $other (sort keys %$calls)
		{
			one_pair($kind, $calls, $name, $other, $_) foreach 'COMMIT', 'ROLLBACK';
		}
	}
}

# Dropping waits for all, and later sessions find no counter.
sql($node, 'postgres', "SELECT dc_create('c')");
$first->run("BEGIN; SELECT dc_incr('c', 'k')");
is(go_on($second, "SELECT dc_drop('c')"), 1, 'a drop waits for an increment');
$first->run('COMMIT');
is($second->wait, '', 'and goes on');
sql($node, 'postgres', "SELECT dc_create('c')");
$first->run("BEGIN; SELECT dc_drop('c')");
is(go_on($second, "SELECT dc_incr('c', 'k')"), 1, 'an increment waits for a drop');
$first->run('ROLLBACK');
is($second->wait, '', 'and counts if that is rolled back');
is(sql($node, 'postgres', "SELECT dc_get('c', 'k')"), '1', 'once');

# A setter of a stock has deleted the shard rows, and waits for the row of totals, which another session has locked. What a restock and a release commit
# meanwhile is not in the value that the setter returns, so it has to be there afterwards.
foreach my $call ([ "dc_delete('s', 'k')", 0 ], [ "dc_reset('s', 'k')", 0 ], [ "dc_set('s', 'k', 4)", 4 ])
{
	sql($node, 'postgres', "SELECT dc_stock_create('s'); SELECT dc_restock('s', 'k', 9); SELECT dc_hold('s', 'k', 2, '1 hour', '00000000-0000-0000-0000-000000000001'), dc_compact('s')");
	$first->run("BEGIN; SELECT FROM s WHERE key = 'k' FOR UPDATE");
	is(go_on($second, "SELECT $call->[0]"), 1, "$call->[0] waits for the row of totals");
	sql($node, 'postgres', "SELECT dc_restock('s', 'k', 5); SELECT dc_hold_release('s', '00000000-0000-0000-0000-000000000001')");
	$first->run('COMMIT');
	is($second->wait, '7', "$call->[0] returns what there was");
	is(sql($node, 'postgres', "SELECT dc_get('s', 'k'), (SELECT sum(units) FROM s_shard WHERE key = 'k'), dc_take('s', 'k', 7)"), join('|', ($call->[1] + 7) x 2, 't'), "$call->[0]: a restock and a release in between count");
	sql($node, 'postgres', "SELECT dc_drop('s')");
}

# What make_writer() has made is used while it fits, by whoever may write the tables, and is made by the owner only.
sql($node, 'postgres', q{
	CREATE ROLE counting; CREATE ROLE other;
	ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON ROUTINES FROM PUBLIC;
	SELECT dcounter_lite.make_writer('c'), dc_stock_create('s');
	SELECT dc_restock('s', 'k', 10), dcounter_lite.make_writer('s'), dc_incr_once('c', 'k', 1, 'first');
	SELECT dcounter_lite.grant_to('c', 'counting'), dcounter_lite.grant_to('s', 'counting')});
my $count = "SELECT dc_incr('c', 'k'), dc_incr('c', 'j', -1), dc_take('s', 'k'), dc_take('s', 'k', 100), dc_incr_once('c', 'k', 1, 'op ' || %d)";
is(sql($node, 'postgres', sprintf("SET ROLE counting; $count", 1)), '||t|f|t', 'a role that may count');
is(sql($node, 'postgres', 'SET ROLE counting; SELECT c_incr(\'k\')'), '', 'also by c_incr');
fails_with($node, 'postgres', "SET ROLE other; SELECT dc_incr('c', 'k')", '42501', 'and one that may not');
fails_with($node, 'postgres', "SET ROLE other; CALL c_write('k', 1, 1, 0)", '42501', 'not by the procedure either');
fails_with($node, 'postgres', "SET ROLE counting; SELECT dcounter_lite.make_writer('c')", '42501', 'only the owner makes them');
fails_with($node, 'postgres', "SET ROLE counting; UPDATE dcounter_lite.counter SET writer = 'pg_catalog.now'", '42501', 'or says which they are');
# Rows of the registry are written by the owner of all tables that they name, or of none that is there.
sql($node, 'postgres', 'CREATE TABLE theirs (key text); ALTER TABLE theirs OWNER TO counting');
foreach my $write (
	"INSERT INTO dcounter_lite.counter (counter, shards) VALUES ('theirs', 'c_shard')", "UPDATE dcounter_lite.counter SET counter = 'theirs' WHERE counter = 'c'::regclass", "UPDATE dcounter_lite.counter SET max_shards = 1 WHERE counter = 's'::regclass",
	"DELETE FROM dcounter_lite.counter WHERE counter = 'c'::regclass", "UPDATE dcounter_lite.op_slot SET partition = 'theirs' WHERE counter = 'c'::regclass", "INSERT INTO dcounter_lite.source VALUES ('c', 'theirs', 'key', '1', 'true', 1)",
	"INSERT INTO dcounter_lite.source VALUES ('theirs', 'c_shard', 'key', '1', 'true', 1)")
{
	fails_with($node, 'postgres', "SET ROLE counting; $write", '42501', $write);
}
fails_with($node, 'postgres', "SET ROLE counting; INSERT INTO dcounter_lite.counter (counter, shards) VALUES ('theirs', 4294967295)", '42P01', 'nor of a table that is not there');
is(sql($node, 'postgres', "SET track_functions = 'all'; " . sprintf($count, 2)), '||t|f|t', 'they are used');
is(sql($node, 'postgres', "SELECT string_agg(funcname, ' ' ORDER BY funcname) FROM pg_stat_user_functions WHERE funcname IN ('c_write', 'c_once', 's_write', 'add', 'slot')"), 'c_once c_write s_write slot', 'as the statistics say');
sql($node, 'postgres', 'ALTER TABLE c_shard RENAME TO c_other; ALTER TABLE s_shard RENAME TO s_other; CREATE TABLE c_shard (key int)');
is(sql($node, 'postgres', sprintf($count, 3)), '||t|f|t', 'not when they name another table');
sql($node, 'postgres', 'DROP TABLE c_shard; ALTER TABLE c_other RENAME TO c_shard; ALTER TABLE c_op_1 RENAME TO c_old');
is(sql($node, 'postgres', sprintf($count, 4)), '||t|f|t', 'with a renamed partition of ops');
sql($node, 'postgres', "UPDATE dcounter_lite.op_slot SET since = since - interval '8 days' WHERE counter = 'c'::regclass; CALL dc_maintain()");
is(sql($node, 'postgres', sprintf($count, 5)), '||t|f|t', 'also when that is the open one');
sql($node, 'postgres', 'DROP PROCEDURE c_write, c_once, s_write');
is(sql($node, 'postgres', sprintf($count, 6)), '||t|f|t', 'and not when they are gone');
is(sql($node, 'postgres', "SELECT dc_get('c', 'k'), dc_get('c', 'j'), dc_get('s', 'k'), dc_incr_once('c', 'k', 1, 'op 1')"), '15|-6|4|f', 'each call has counted once');

# Holds of several keys, and confirming more than is held, answer as those of the extension (test/sql/stock_hold_all.sql).
sql($node, 'postgres', "SELECT dc_stock_create('h'); SELECT dc_restock('h', 'a', 10), dc_restock('h', 'b', 10)");
my $id = "'00000000-0000-0000-0000-00000000000%d'";
my @steps = (
	[ "SELECT dc_hold_all('h', '{b,a,b}', '{1,2,3}', '1 hour', ID1) = ID1, dc_hold_all('h', '{a,b}', '{1,7}') IS NULL", 't|t' ],
	[ "SELECT dc_get('h', 'a'), dc_get('h', 'b')", '8|6' ],
	[ "SELECT dc_hold_all('h', '{a,b}', '{2,4}', '1 hour', ID1) = ID1", 't' ],
	[ "SELECT dc_hold_all('h', '{a,b}', '{2,3}', '1 hour', ID1)", '22023' ],
	[ "SELECT dc_hold('h', 'a', 6, '1 hour', ID1)", '22023' ],
	[ "SELECT string_agg(key || qty, ' ') FROM dc_holds('h')", 'a2 b4' ],
	[ "SELECT string_agg(key || qty, ' ') FROM dc_holds('h', 'b')", 'b4' ],
	[ "SELECT key, qty, keys, qtys FROM h_hold", 'a|6|{a,b}|{2,4}' ],
	[ "SELECT dc_hold_confirm('h', ID1, 5)", '22023' ],
	[ "SELECT dc_hold_release('h', ID1), dc_hold_release('h', ID1)", 'released|released already' ],
	[ "SELECT dc_get('h', 'a'), dc_get('h', 'b')", '10|10' ],
	[ "SELECT dc_hold_all('h', '{a,b}', '{5,6}', '1 us', ID2) = ID2", 't' ],
	[ "SELECT dc_take('h', 'b', 7), dc_take('h', 'a', 8), dc_take('h', 'b', 7)", 'f|t|t' ],
	[ "SELECT dc_hold_confirm('h', ID2, strict => false)", 'expired' ],
	[ "SELECT dc_restock('h', 'a', 8), dc_restock('h', 'b', 7)", '|' ],
	[ "SELECT dc_hold_all('h', '{a,b}', '{5,6}', '1 us', ID3) = ID3, dc_set('h', 'a', 3)", 't|10' ],
	[ "SELECT dc_get('h', 'a'), dc_get('h', 'b')", '3|10' ],
	[ "SELECT dc_hold_all('h', '{b,a}', '{1,1}', '1 us', ID4) = ID4", 't' ],
	[ 'CALL dc_maintain()', '' ],
	[ "SELECT dc_get('h', 'a'), dc_get('h', 'b'), count(*) FROM h_hold WHERE state = 'expired'", '3|10|3' ],
	[ "SELECT dc_hold('h', 'a', 1, '1 hour', ID5) = ID5", 't' ],
	[ "SELECT dc_hold_confirm('h', ID5, 4)", '55000' ],
	[ "SELECT dc_hold_confirm('h', ID5, 4, false), dc_hold_confirm('h', ID5, 3), dc_hold_confirm('h', ID5, 3)", 'open|confirmed|confirmed already' ],
	[ "SELECT dc_hold_confirm('h', ID5)", '22023' ],
	[ "SELECT dc_get('h', 'a'), confirmed FROM h_hold WHERE state = 'confirmed'", '0|3' ],
	[ "SELECT dc_hold_all('h', '{}', '{}')", '22023' ],
	[ "SELECT dc_hold_all('h', array_agg('n' || i), array_agg(1::bigint)) FROM generate_series(1, 1001) AS i", '54000' ],
	[ "SELECT dc_hold_all('h', '{a,b}', '{9223372036854775807,1}')", '22003' ],
	[ "SELECT dc_hold_all('h', '{a,b}', '{1,1}', '0')", '22023' ],
	# a table of version 0.1
	[ 'ALTER TABLE h_hold DROP keys, DROP qtys', '' ],
	[ "SELECT dc_hold_all('h', '{a,b}', '{1,1}')", '42809' ],
	[ "SELECT dc_hold_all('h', '{b}', '{2}', '1 hour', ID6) = ID6, dc_hold('h', 'b', 1, '1 us', ID7) = ID7", 't|t' ],
	[ "SELECT string_agg(key || qty, ' ') FROM dc_holds('h')", 'b2' ],
	[ "SELECT dc_take('h', 'b', 8), dc_hold_confirm('h', ID6, 1), dc_take('h', 'b', 2), dc_take('h', 'b', 1)", 't|confirmed|f|t' ]);
foreach my $step (@steps)
{
	my $sql = $step->[0] =~ s/ID(\d)/sprintf $id, $1/ger;

	if ($step->[1] =~ /^\d{5}$/) { fails_with($node, 'postgres', $sql, $step->[1], $step->[0]) }
	else { is(sql($node, 'postgres', $sql), $step->[1], $step->[0]) }
}

# A session goes on while a transaction that it has prepared is there, in rows of other numbers: it does not wait for itself, and neither does a compaction.
# (Without that the same session would write the same row.)
sql($node, 'postgres', "SELECT dc_create('p'), dc_stock_create('q'); SELECT dcounter_lite.make_writer('p'), dc_restock('q', 'k', 10), dc_incr_once('p', 'j', 1, 'first')");
$first->run("SET lock_timeout = '10s'; BEGIN; SELECT dc_incr('p', 'k', 3), p_incr('k', 5), dc_take('q', 'k', 4), dc_incr_once('p', 'k', 10, 'op'); PREPARE TRANSACTION 'in doubt'");
is($first->run("SELECT dc_incr('p', 'k', 100), p_incr('k', 200), dc_take('q', 'k', 2), dc_incr_once('p', 'k', 1000, 'another')"), '||t|t', 'a session whose transaction is prepared goes on');
is($first->run("SELECT dc_compact('p') >= 0, dc_compact('q') >= 0"), 't|t', 'as does a compaction');
is($first->run("SELECT dc_get('p', 'k'), dc_get('q', 'k')"), '1300|8', 'which leaves out what is prepared');
$first->run("COMMIT PREPARED 'in doubt'");
is($first->run("SELECT dc_get('p', 'k'), dc_get('q', 'k'), dc_incr_once('p', 'k', 10, 'op')"), '1318|4|f', 'and is there when that is committed');
$first->run('RESET lock_timeout');

# A hold whose time comes while it is confirmed with more than it has: the call waits for the last units, and must not end its own hold to find some
sql($node, 'postgres', "SELECT dc_stock_create('late', max_shards => 1); SELECT dc_restock('late', 'k', 7), dc_hold('late', 'k', 5, '1 s')");
$first->run("BEGIN; SELECT dc_take('late', 'k', 1)");
go_on($second, "SELECT dc_hold_confirm('late', hold_id, 7, strict => false) FROM late_hold");
wait_for($node, 'postgres', 'SELECT expires_at < clock_timestamp() FROM late_hold', 't');
$first->run('COMMIT');
my $answer = $second->wait;
is(sql($node, 'postgres', "SELECT 1 + dc_get('late', 'k') + CASE state WHEN 'open' THEN qty ELSE confirmed END FROM late_hold"), '7', "a hold that expires while it is confirmed: $answer, and no unit too many");

$first->quit;
$second->quit;
done_testing();
