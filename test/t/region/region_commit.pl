# Other regions may have a commit, and answer it, before it is seen where it was made: it is sent when it is on disk, and seen
# when a synchronous standby has confirmed it. That is not taken for the work of a copy of this database.
use strict;
use warnings;

use DcLinks;
use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $eu = region_node('eu');
my $us = region_node('us');
my $local = q{SET synchronous_commit = 'local'};
my $marks = q{SELECT count(*) FROM dcounter.self_mark WHERE what IN ('renew', 'recopy')};
my $epoch = 'SELECT epoch FROM dcounter.self';
my $waits = q{EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND backend_type LIKE 'logical replication%')};

# What is committed is on disk, and nobody here sees it; or it continues
sub standby_is
{
	my ($there) = @_;

	sql($eu, 'postgres', $there ? 'ALTER SYSTEM RESET synchronous_standby_names' : q{ALTER SYSTEM SET synchronous_standby_names = 'nobody'});
	$eu->reload;
	wait_for($eu, 'postgres', 'SHOW synchronous_standby_names', $there ? '' : 'nobody');
	sql($eu, 'postgres', 'CHECKPOINT');    # then the checkpointer has read it, which tells those who commit
	return;
}

# not_foreign(NAME, KEY, TELL): eu publishes 10 of a key, and does not see that; what us then tells of it is not foreign
sub not_foreign
{
	my ($name, $key, $tell) = @_;
	my $before = sql($eu, 'postgres', $epoch);
	my $session = dc_session($eu, 'postgres');

	standby_is(0);
	sql($eu, 'postgres', "$local; SELECT dc_incr('likes', '$key', 10)");
	$session->send(q{SELECT dc_compact('likes')});
	is(wait_for($us, 'postgres', "SELECT dc_get('likes', '$key')", 10), 10, "$name: us has it");
	is(sql($eu, 'postgres', qq{SELECT count(*) FROM likes_region WHERE key = '$key'}), 0, "$name: eu does not see it");
	sql($us, 'postgres', $tell);
	is(wait_for($eu, 'postgres', "SELECT $waits OR ($marks) > 0", 't'), 't', "$name: what us tells has come");
	is(sql($eu, 'postgres', $marks), 0, "$name: it waits for the commit");
	standby_is(1);
	$session->wait;
	$session->quit;
	return $before;
}

region_mesh($eu, $us);
sql($eu, 'postgres', q{ALTER SYSTEM SET dcounter.compact_interval = '1h'});
$eu->reload;
is(wait_for($eu, 'postgres', q{SELECT state = 'active' FROM dc_regions() WHERE region = 'eu'}, 't'), 't', 'eu has all');
is(wait_for($eu, 'postgres', $marks, 0), 0, 'nothing is to be done');

# A set of us has observed it. It is not the first one, which would wait for compaction
sql($us, 'postgres', q{SELECT dc_set('likes', 'first', 1)});
is(wait_for($eu, 'postgres', q{SELECT dc_get('likes', 'first')}, 1), 1, 'there was a set');
my $before = not_foreign('set', 'a', q{SELECT dc_set('likes', 'a', 100)});
is(wait_for($_, 'postgres', q{SELECT dc_get('likes', 'a')}, 100), 100, 'the set is on ' . $_->name) foreach $eu, $us;
is(sql($eu, 'postgres', $marks), 0, 'no mark after a set');
is(sql($eu, 'postgres', $epoch), $before, 'no new epoch after a set');

# The row comes back
link_make($us, $eu, 'dcounter_all');
$before = not_foreign('row', 'b', 'SELECT 1');
is(wait_for($eu, 'postgres', q{SELECT dc_get('likes', 'b')}, 10), 10, 'it is there once');
is(sql($eu, 'postgres', $marks), 0, 'no mark after a row');
is(sql($eu, 'postgres', $epoch), $before, 'no new epoch after a row');
link_drop($us, $eu);

# A start, by hand: us has heard of the boot, and says so
$eu->stop;
$eu->append_conf('postgresql.auto.conf', "shared_preload_libraries = ''\nsynchronous_standby_names = 'nobody'");
$eu->start;
my $boot = q{SELECT boot FROM dcounter.region WHERE region = 'eu'};
my $old = sql($us, 'postgres', $boot);
my $session = dc_session($eu, 'postgres');

$session->send(q{SELECT dc_compact('likes')});
is(wait_for($us, 'postgres', "SELECT boot <> '$old' FROM dcounter.region WHERE region = 'eu'", 't'), 't', 'us has heard of the start');
is(sql($eu, 'postgres', $boot), $old, 'eu does not see it');
is(wait_for($eu, 'postgres', "SELECT $waits OR ($marks) > 0", 't'), 't', 'what us has heard has come');
is(sql($eu, 'postgres', $marks), 0, 'it waits for the start');
standby_is(1);
$session->wait;
$session->quit;
is(wait_for($eu, 'postgres', q{SELECT starting FROM (SELECT dc_compact('likes') OFFSET 0) AS c, dcounter.self}, 'f'), 'f', 'the start is over');
is(sql($eu, 'postgres', $marks), 0, 'no mark after a start');
is(sql($eu, 'postgres', $epoch), $before, 'no new epoch after a start');

# A commit that waits for a temporary table, in what the server does after our callbacks, keeps nobody from publishing
my ($publishes, $holds) = map { dc_session($eu, 'postgres') } 1 .. 2;
my $beat = q{locktype = 'advisory' AND classid = 0 AND objid = 1 AND objsubid = 91 AND mode = 'ExclusiveLock' AND granted};
$publishes->run('CREATE TABLE parent (a int); CREATE TEMPORARY TABLE child () INHERITS (parent) ON COMMIT DELETE ROWS');
sql($eu, 'postgres', q{SELECT dc_incr('likes', 'a')});
$holds->run('BEGIN; LOCK TABLE parent IN ACCESS SHARE MODE');
$publishes->run(q{BEGIN; INSERT INTO child VALUES (1); SELECT dc_compact('likes')});
my $pid = $publishes->run('SELECT pg_backend_pid()');
$publishes->send('COMMIT');
is(wait_for($eu, 'postgres', "SELECT wait_event FROM pg_stat_activity WHERE pid = $pid", 'relation'), 'relation', 'a commit waits for a temporary table');
is(sql($eu, 'postgres', "SELECT count(*) FROM pg_locks WHERE pid = $pid AND $beat"), '0', 'and holds no lock that publishing waits for');
$holds->run('COMMIT');
is($publishes->wait, '', 'it goes on');
$_->quit foreach $publishes, $holds;
region_agrees('in the end', 'a=101 b=10 first=1', $eu, $us);

done_testing();
