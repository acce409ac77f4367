# Presence over clean restarts, crashes, on standbys, after a promotion, and with a clock that is
# set; and the notifications of listeners.
use strict;
use warnings;

use DcClock;
use DcTest;
use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $clock = clock_prepare();
my $node = PostgreSQL::Test::Cluster->new('restart');
$node->init(allows_streaming => 1, extra => [ '-E', 'UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'dcounter'\ndcounter.worker = off\nfsync = off");
$node->start;
sql($node, 'postgres', 'CREATE EXTENSION dcounter');
my $file = $node->data_dir . '/pg_stat/dcounter.presence';

# who(NODE, ROOM): the members and their metas, and the number of them
sub who { return sql($_[0], 'postgres', "SELECT dc_present('chat', '$_[1]') || ' ' || coalesce(string_agg(left(member, 20) || coalesce(left(meta::text, 20), ''), ' '), '') FROM dc_presence_list('chat', '$_[1]')") }
sub epoch { return sql($_[0], 'postgres', q{SELECT epoch FROM dc_stat_presence WHERE name = 'chat'}) }

# told(NODE): the events since the last call
my $seen = 0;
sub told
{
	my ($n) = @_;

	sql($n, 'postgres', 'CALL dc_maintain()');
	my $events = sql($n, 'postgres', qq{SELECT string_agg(concat_ws(' ', replace(type, 'presence.', ''), aggregateid, payload ->> 'count', '+' || (payload ->> 'joined'), '-' || (payload ->> 'left')), ', ' ORDER BY seq) FROM dcounter.outbox WHERE seq > $seen});
	$seen = sql($n, 'postgres', 'SELECT coalesce(max(seq), 0) FROM dcounter.outbox');
	return $events;
}

sql($node, 'postgres', q{
	SELECT dc_presence_create('chat', '7 days', events => '1 us');
	SELECT dc_enter('chat', 'a', 'ann'), dc_enter('chat', 'a', 'bob', 'phone', '{"x": 1}'), dc_enter('chat', 'a', 'bob', 'tablet'), dc_enter('chat', 'b', 'cy'),
		dc_enter('chat', 'long', repeat('x', 1024), meta => to_jsonb(repeat('y', 1000)))});
is(told($node), 'reset, changed a 2 +2 -0, changed b 1 +1 -0, changed long 1 +1 -0', 'a rule that is new: another one may have had its name');
sql($node, 'postgres', q{SELECT dc_enter('chat', 'c', 'dan'), dc_exit('chat', 'b', 'cy')});

##
## Clean restarts
my $epoch = epoch($node);
foreach my $how ('fast', 'smart', 'fast')
{
	$node->stop($how);
	ok(-s $file, "$how shutdown: there is a file");
	$node->start;
	ok(-e $file, 'which stays when the server has started');
	is(who($node, 'a'), '2 ann bob{"x": 1}', 'who was there is there');
	is(who($node, 'b'), '0 ', 'and nobody else');
	is(who($node, 'long'), '1 ' . 'x' x 20 . '"' . 'y' x 19, 'long names and metas');
	is(epoch($node), $epoch, 'the epoch is the same');
}
fails_to_start($node);
is(who($node, 'a'), '2 ann bob{"x": 1}', 'a start that fails takes nothing away');
is(sql($node, 'postgres', q{SELECT members, connections FROM dc_stat_presence}), '4|2', 'the view knows of them');
is(join(', ', sort split /, /, told($node)), 'changed b 0 +0 -1, changed c 1 +1 -0', 'what was to be told is told');
is(told($node), '', 'once');
is(sql($node, 'postgres', q{SELECT dc_exit('chat', 'a', 'bob', 'phone'), dc_exit('chat', 'a', 'bob', 'tablet')}), '2|1', 'connections are known');
is(sql($node, 'postgres', q{SELECT dc_beat('chat', 'a', 'ann'), dc_beat('chat', 'c', 'dan')}), 't|t', 'heartbeats go on');
is(told($node), 'changed a 1 +0 -1', 'and nothing has changed by that');

# With less memory than the file needs
$node->append_conf('postgresql.conf', "dcounter.presence_size = '128kB'");
sql($node, 'postgres', q{SELECT count(dc_enter('chat', 'many', 'm' || i, 'c', '1')) FROM generate_series(1, 5000) AS i});
$node->restart;
is(sql($node, 'postgres', q{SELECT dc_present('chat', 'many'), count(DISTINCT member), count(meta) FROM dc_presence_list('chat', 'many', n => 10000)}), '5000|5000|5000', 'many are there when the memory is smaller');
$node->append_conf('postgresql.conf', "dcounter.presence_size = '16MB'");
is(sql($node, 'postgres', q{SELECT min(dc_exit('chat', 'many', 'm' || i, NULL)) FROM generate_series(1, 5000) AS i}), '0', 'and can go');
is(told($node), 'changed many 0 +5000 -5000', 'all of which is one event');
is(sql($node, 'postgres', q{SELECT members, connections, memory / rooms = 160 FROM dc_stat_presence}), '3|0|f', 'the memory is free again');

##
## Crashes
$node->stop('immediate');
$node->start;
is(who($node, 'a'), '0 ', 'a crash: nobody is there');
isnt(epoch($node), $epoch, 'another epoch');
is(sql($node, 'postgres', q{SELECT dc_beat('chat', 'a', 'ann'), dc_present('chat', 'a')}), 'f|1', 'the next heartbeat enters');
my $session = dc_session($node, 'postgres');
$session->run($_) foreach 'BEGIN', 'CALL dc_maintain()';
is(told($node), '', 'while one transaction tells of it, no other does');
$session->run('ROLLBACK');
$session->quit;
is(told($node), 'reset, changed a 1 +1 -0', 'listeners are told of it first');
is(told($node), '', 'once');
$epoch = epoch($node);
$node->restart;
is(told($node), '', 'not again after a clean restart');
foreach my $state ('broken', 'old')
{
	my $copy = $node->basedir . '/presence.copy';

	$node->stop;
	if ($state eq 'broken')
	{
		copy($file, $copy) or die;
		my $bytes = slurp_file($file);
		substr($bytes, length($bytes) / 2, 1) ^= "\1";
		open(my $fh, '>:raw', $file) or die;
		print $fh $bytes;
		close $fh;
	}
	else
	{
		copy($copy, $file) or die;
	}
	$node->start;
	is(who($node, 'a'), '0 ', "a file that is $state is a crash");
	ok(slurp_file($node->logfile) =~ ($state eq 'broken' ? qr/its contents are invalid/ : qr/it is not from the last shutdown/), 'and the log says so');
	is(told($node), 'reset', 'as are the listeners');
}

##
## Standbys have members of their own
sql($node, 'postgres', q{SELECT dc_enter('chat', 'a', 'ann')});
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
is(who($standby, 'a'), '0 ', 'nobody is on a standby');
is(sql($standby, 'postgres', q{SELECT dc_enter('chat', 'a', 'bob'), dc_beat('chat', 'a', 'bob'), dc_enter('chat', 'b', 'cy'), dc_exit('chat', 'b', 'cy')}), '1|t|1|0', 'until somebody enters there');
fails_with($standby, 'postgres', $_, '25006', "on a standby: $_") foreach q{SELECT dc_presence_create('x')}, q{SELECT dc_presence_alter('chat')}, q{SELECT dc_presence_drop('chat')}, q{SELECT dc_presence_grant('chat', '-')}, q{SELECT dc_presence_revoke('chat', '-')};
$standby->restart;
is(who($standby, 'a'), '1 bob', 'over a restart, too');
$epoch = epoch($standby);
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$seen = sql($standby, 'postgres', 'SELECT coalesce(max(seq), 0) FROM dcounter.outbox');
$standby->promote;
is(sql($standby, 'postgres', q{SELECT dc_enter('chat', 'a', 'cy')}), '2', 'when it is promoted');
isnt(epoch($standby), $epoch, 'another epoch begins');
is(told($standby), 'reset, changed a 2 +2 -0', 'and listeners are told, of members that had entered before, too');
$standby->stop;

##
## The wall clock is set
SKIP:
{
	skip 'no clock that can be set', 1 if !$clock;
	sql($node, 'postgres', q{SELECT dc_enter('chat', 'clock', 'ann'); CALL dc_maintain()});
	foreach my $step (400 * 86400, -400 * 86400, 0)
	{
		clock_step($step);
		sql($node, 'postgres', 'CALL dc_maintain()');
		is(who($node, 'clock'), '1 ann', "a clock that is set by $step s lets nobody leave");
	}
	$node->stop;
	clock_step(-86400);
	$node->start;
	sql($node, 'postgres', 'CALL dc_maintain()');
	is(who($node, 'clock'), '1 ann', 'nor does one that is set back while the server is down');
	$seen = sql($node, 'postgres', 'SELECT coalesce(max(seq), 0) FROM dcounter.outbox');
	$node->stop;
	clock_step(7 * 86400);
	$node->start;
	is(join(', ', sort split /, /, told($node)), 'changed a 0 +0 -1, changed clock 0 +0 -1', 'who was not heard of while the server was down has left');
}

##
## A crash, with a clock that was set back before the rule was made: the epoch is another one all the same
SKIP:
{
	skip 'no clock that can be set', 1 if !$clock;
	my $epoch = epoch($node);

	sql($node, 'postgres', q{SELECT dc_enter('chat', 'back', 'ann'); CALL dc_maintain()});
	$seen = sql($node, 'postgres', 'SELECT coalesce(max(seq), 0) FROM dcounter.outbox');
	$node->stop('immediate');
	clock_step(-500 * 86400);
	$node->start;
	isnt(epoch($node), $epoch, 'a crash, and a clock that was set back: another epoch');
	is(told($node), 'reset', 'of which listeners are told');
}

##
## A rule of an extension that was created again is not the one that had its id
sql($node, 'postgres', q{SELECT dc_enter('chat', 'a', 'ann')});
sql($node, 'postgres', q{DROP EXTENSION dcounter; CREATE EXTENSION dcounter; SELECT dc_presence_create('chat', '7 days')});
is(who($node, 'a'), '0 ', 'nobody is there');
is(sql($node, 'postgres', q{SELECT dc_enter('chat', 'a', 'bob')}), '1', 'but who enters');
$node->restart;
is(who($node, 'a'), '1 bob', 'over a restart');
$node->stop;

done_testing();
