# The ring of ops turns between the two statements of dc_incr_once(): the session finds that out, takes its op back and begins again, so the op counts
# once. In a copy of the function, an advisory lock stops it before its first statement, as if it had been slow there.
use strict;
use warnings;

use DcTest;
use DcLite;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('lite', extension => 0);
lite_install($node, 'postgres');
sql($node, 'postgres', q{
	SELECT dc_create('plays', op_retention => '1 minute');
	SELECT dc_incr_once('plays', 'k', 1, 'first')});
# The copies: they stop when they have read the registry, if the setting says so.
my $source = slurp_file(lite_file(''));
foreach my $function ('dc_incr_once(counter regclass, key', 'dcounter_lite.insert_op(c dcounter_lite.counter')
{
	my ($text) = $source =~ /^(CREATE FUNCTION \Q$function\E.*?^END \$\$;)/ms or die $function;
	$text =~ s/^CREATE/CREATE OR REPLACE/;
	$text =~ s/(\tEXECUTE format\('INSERT INTO)/IF current_setting('test.stop', true) = 'on' THEN PERFORM pg_advisory_xact_lock(42); END IF; $1/ or die $function;
	sql($node, 'postgres', $text);
}
my $turn = q{
	UPDATE dcounter_lite.op_slot SET since = since - interval '1 hour' WHERE state <> 'empty';
	SELECT dcounter_lite.turn_ring('plays')};
my $blocker = dc_session($node, 'postgres');
my $stopped = dc_session($node, 'postgres');

# Two keys have a type that the hot path handles, the other a type for the general path. The last one is counted by the procedure of make_writer(), a copy
# of which stops there, too.
foreach my $kind ("'k'", "'k'::name", "'k' written")
{
	my $key = $kind =~ s/ written//r;

	if ($kind ne $key)
	{
		sql($node, 'postgres', "SELECT dcounter_lite.make_writer('plays')");
		my $text = sql($node, 'postgres', "SELECT pg_get_functiondef('plays_once'::regproc)");
		$text =~ s/BEGIN\n/BEGIN IF current_setting('test.stop', true) = 'on' THEN PERFORM pg_advisory_xact_lock(42); END IF;\n/ or die $text;
		sql($node, 'postgres', $text);
	}
	foreach my $op ('same', 'other')
	{
		my $before = sql($node, 'postgres', "SELECT dc_get('plays', 'k')");
		my $id = "$op $kind" =~ s/'/ /gr;

		$blocker->run('BEGIN; SELECT pg_advisory_xact_lock(42)');
		$stopped->run("BEGIN; SET LOCAL test.stop = 'on'");
		$stopped->send("SELECT dc_incr_once('plays', $key, 1, '$id')");
		wait_for($node, 'postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'", '1');
		is(sql($node, 'postgres', $turn), 't', "$id: the ring turns");
		# another session counts the same op, or another one, where ops go now
		my $they = $op eq 'same' ? $id : "their $id";
		is(sql($node, 'postgres', "SELECT dc_incr_once('plays', $key, 1, '$they')"), 't', "$id: another session counts");
		$blocker->run('COMMIT');
		is($stopped->wait, $op eq 'same' ? 'f' : 't', "$id: the session has looked again");
		$stopped->run('COMMIT');
		is(sql($node, 'postgres', "SELECT dc_get('plays', 'k') - $before"), $op eq 'same' ? 1 : 2, "$id: each counts once");
		is(sql($node, 'postgres', "SELECT count(*) FROM plays_op WHERE op_id = '$id'"), '1', "$id: and is there once");
	}
}

# A transaction that has counted once and is open keeps the ring from turning.
$stopped->run("BEGIN; SELECT dc_incr_once('plays', 'k', 1, 'open')");
is(sql($node, 'postgres', $turn), 'f', 'the ring does not turn under an open transaction');
$stopped->run('COMMIT');
is(sql($node, 'postgres', $turn), 't', 'and does afterwards');

# With an old snapshot the session does not know of the turn: the op is in the partition that others look in, all the same.
$stopped->run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM plays LIMIT 1");
sql($node, 'postgres', $turn);
is($stopped->run("SELECT dc_incr_once('plays', 'k', 1, 'old snapshot')"), 't', 'an op with an old snapshot');
$blocker->send("SELECT dc_incr_once('plays', 'k', 1, 'old snapshot')");
wait_for($node, 'postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", '1');
$stopped->run('COMMIT');
is($blocker->wait, 'f', 'another session waits for it, and does not count it again');

$blocker->quit;
$stopped->quit;
done_testing();
