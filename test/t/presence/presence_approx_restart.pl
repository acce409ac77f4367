# Approximate presences over clean restarts, crashes, on standbys, after a promotion, and with a clock that is set; when
# members leave, and what listeners are told.
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

sub present { return sql($_[0], 'postgres', "SELECT dc_present('live', '$_[1]')") }
sub epoch { return sql($_[0], 'postgres', q{SELECT epoch FROM dc_stat_presence WHERE name = 'live'}) }
sub memory { return sql($_[0], 'postgres', q{SELECT rooms, memory FROM dc_stat_presence WHERE name = 'live'}) }

# told(NODE): the events since the last call
my $seen = 0;
sub told
{
	my ($n) = @_;

	sql($n, 'postgres', 'CALL dc_maintain()');
	my $events = sql($n, 'postgres', qq{SELECT string_agg(concat_ws(' ', replace(type, 'presence.', ''), aggregateid, payload ->> 'count'), ', ' ORDER BY seq) FROM dcounter.outbox WHERE seq > $seen AND aggregatetype = 'live'});
	$seen = sql($n, 'postgres', 'SELECT coalesce(max(seq), 0) FROM dcounter.outbox');
	return $events;
}

sql($node, 'postgres', q{
	SELECT dc_presence_create('live', '7 days', events => '1 us', approx => true), dc_presence_create('chat', '7 days');
	SELECT dc_enter('live', 'a', 'ann'), dc_enter('chat', 'a', 'ann'), dc_enter('chat', 'a', 'bob'), dc_enter('live', repeat('x', 1024), repeat('y', 1024))});
is(told($node), 'reset, changed a 1, changed ' . 'x' x 1024 . ' 1', 'a rule that is new: another one may have had its name');
sql($node, 'postgres', q{SELECT count(dc_beat('live', 'big', 'm' || i)) FROM generate_series(1, 30000) AS i});

##
## Clean restarts
my $epoch = epoch($node);
my $big = present($node, 'big');
my $memory = memory($node);
cmp_ok(abs($big - 30000), '<', 30000 * 0.06, "about how many are there ($big of 30000)");
foreach my $how ('fast', 'smart', 'fast')
{
	$node->stop($how);
	ok(-s $file, "$how shutdown: there is a file");
	$node->start;
	is(present($node, 'big'), $big, 'as many are there as were');
	is(present($node, 'a'), '1', 'also in a small room');
	is(sql($node, 'postgres', q{SELECT dc_present('chat', 'a'), dc_present('live', repeat('x', 1024))}), '2|1', 'and in others');
	is(sql($node, 'postgres', q{SELECT count(*) FROM generate_series(1, 30000) AS i WHERE NOT dc_beat('live', 'big', 'm' || i)}), '0', 'each of whom is known');
	is(present($node, 'big'), $big, 'so the number is the same');
	is(epoch($node), $epoch, 'the epoch is the same');
	is(memory($node), $memory, 'and so is the memory');
}
is(sql($node, 'postgres', qq{SELECT members = $big + 2, joined IS NULL FROM dc_stat_presence WHERE name = 'live'}), 't|t', 'the view has the sum');
is(told($node), "changed big $big", 'what was to be told is told');
is(told($node), '', 'once');

# With less memory than the file needs
$node->append_conf('postgresql.conf', "dcounter.presence_size = '128kB'");
$node->restart;
is(present($node, 'big'), $big, 'all are there when the memory is smaller');
is(sql($node, 'postgres', q{SELECT count(*) FROM generate_series(1, 30000) AS i WHERE NOT dc_beat('live', 'big', 'm' || i)}), '0', 'and can be heard of');
$node->append_conf('postgresql.conf', "dcounter.presence_size = '16MB'");
# not more from one restart to the next
sub map_bytes { return sql($node, 'postgres', q{SELECT allocated_size FROM pg_shmem_allocations WHERE name = 'dcounter presence map'}) }
$node->restart;
my $bytes = map_bytes();
$node->restart;
is(map_bytes(), $bytes, 'the memory does not grow by restarts');
cmp_ok($bytes, '<=', 17 * 1024 * 1024, 'and is as large as it should be');

##
## When members leave: with no worker, by looking. A ttl of 9 s has slots of 1 s
sub wait_until { my ($until) = @_; select(undef, undef, undef, 0.05) while Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC()) < $until; return }
sub clock_now { return Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC()) }
use Time::HiRes;
sql($node, 'postgres', q{SELECT dc_presence_create('brief', '3 s', events => '1 us', approx => true)});
my $before = clock_now();
sql($node, 'postgres', q{SELECT dc_beat('brief', 'r', 'ann')});
my $after = clock_now();
while (1)
{
	my $asked = clock_now();
	my $there = sql($node, 'postgres', q{SELECT dc_present('brief', 'r')});
	my $answered = clock_now();

	# each answer is judged by what must be so at some time between the question and the answer
	if ($there == 1 && $asked - $after > 3 * 10 / 9 + 0.01)
	{
		fail('a member leaves when its time is up, and a ninth of it');
		last;
	}
	if ($there == 0)
	{
		cmp_ok($answered - $before, '>=', 3, 'a member does not leave before its time is up');
		pass('it leaves when that is up, and a ninth of it');
		last;
	}
}
is(wait_for($node, 'postgres', q{CALL dc_maintain(); SELECT rooms, memory FROM dc_stat_presence WHERE name = 'brief'}, '0|0'), '0|0', 'the room goes, and its memory is free');
is(sql($node, 'postgres', q{SELECT string_agg(payload ->> 'count', ',' ORDER BY seq) ~ '^(1,)?0$' FROM dcounter.outbox WHERE aggregatetype = 'brief'}), 't', 'of which listeners are told');
# a shorter ttl applies to present members from the next heartbeat of the room
sql($node, 'postgres', q{SELECT dc_beat('brief', 'long', 'm'); SELECT dc_presence_alter('live', '3 s')});
sql($node, 'postgres', q{SELECT dc_beat('live', 'big', 'm1')});
is(wait_for($node, 'postgres', q{CALL dc_maintain(); SELECT dc_present('live', 'big')}, '0'), '0', 'a shorter ttl');
is(present($node, 'a'), '1', 'but not where nobody was heard of');
sql($node, 'postgres', q{SELECT dc_presence_alter('live', '7 days')});
$seen = sql($node, 'postgres', 'SELECT coalesce(max(seq), 0) FROM dcounter.outbox');

##
## Crashes, and files that are of no use
$epoch = epoch($node);
$node->stop('immediate');
$node->start;
is(present($node, 'a'), '0', 'after a crash nobody is there');
isnt(epoch($node), $epoch, 'another epoch');
is(sql($node, 'postgres', q{SELECT dc_beat('live', 'a', 'ann'), dc_present('live', 'a')}), 'f|1', 'the next heartbeat enters');
is(told($node), 'reset, changed a 1', 'listeners are told of it first');
sql($node, 'postgres', q{SELECT count(dc_beat('live', 'big', 'm' || i)) FROM generate_series(1, 1000) AS i});
$node->stop;
foreach my $place (0.02, 0.1, 0.5, 0.9, 1)
{
	my $whole = slurp_file($file);
	my $broken = $whole;
	my $at = int((length($whole) - 1) * $place);

	substr($broken, $at, 1) = chr(ord(substr($broken, $at, 1)) ^ 1);
	foreach my $bytes ($broken, substr($whole, 0, $at))
	{
		open(my $fh, '>:raw', $file) or die;
		print $fh $bytes;
		close $fh;
		$node->start;
		is(present($node, 'a'), '0', "a file that is broken at $at is a crash");
		$node->stop;
	}
	open(my $fh, '>:raw', $file) or die;
	print $fh $whole;
	close $fh;
}
$node->start;
is(present($node, 'a'), '0', 'as is one of another shutdown');
ok(slurp_file($node->logfile) =~ /it is not from the last shutdown/, 'the log says so');
like(told($node), qr/^reset/, 'and listeners are told');

##
## Standbys have members of their own
sql($node, 'postgres', q{SELECT dc_beat('live', 'a', 'ann')});
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
is(present($standby, 'a'), '0', 'nobody is on a standby');
is(sql($standby, 'postgres', q{SELECT dc_beat('live', 'a', 'bob'), dc_beat('live', 'a', 'bob'), dc_present('live', 'a')}), 'f|t|1', 'until somebody is heard of there');
fails_with($standby, 'postgres', q{SELECT dc_presence_create('x', approx => true)}, '25006', 'on a standby none is created');
$standby->restart;
is(present($standby, 'a'), '1', 'over a restart, too');
$epoch = epoch($standby);
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$seen = sql($standby, 'postgres', 'SELECT coalesce(max(seq), 0) FROM dcounter.outbox');
$standby->promote;
is(sql($standby, 'postgres', q{SELECT dc_beat('live', 'b', 'cy')}), 'f', 'when it is promoted');
isnt(epoch($standby), $epoch, 'another epoch begins');
is(told($standby), 'reset, changed b 1, changed a 1', 'and listeners are told, of rooms that had members before, too');
is(present($standby, 'a'), '1', 'who was heard of on the standby is there');
$standby->stop;

##
## The wall clock is set
SKIP:
{
	skip 'no clock that can be set', 1 if !$clock;
	sql($node, 'postgres', q{SELECT dc_beat('live', 'clock', 'ann')});
	foreach my $step (400 * 86400, -400 * 86400, 0)
	{
		clock_step($step);
		sql($node, 'postgres', 'CALL dc_maintain()');
		is(present($node, 'clock'), '1', "a clock that is set by $step s lets nobody leave");
	}
	$node->stop;
	clock_step(-86400);
	$node->start;
	is(present($node, 'clock'), '1', 'nor does one that is set back while the server is down');
	$node->stop;
	clock_step(5 * 86400);
	$node->start;
	is(present($node, 'clock'), '1', 'a server that was down for six days of seven');
	$node->stop;
	clock_step(13 * 86400);
	$node->start;
	is(present($node, 'clock'), '0', 'who was not heard of while the server was down has left');
	# some leave, and others stay
	sql($node, 'postgres', q{SELECT count(dc_beat('live', 'some', 'm' || i)) FROM generate_series(1, 100) AS i});
	$node->stop;
	clock_step(16 * 86400);
	$node->start;
	sql($node, 'postgres', q{SELECT dc_beat('live', 'some', 'late'); CALL dc_maintain()});
	cmp_ok(present($node, 'some'), '>', 80, 'who was heard of three days ago is there');
	$seen = sql($node, 'postgres', 'SELECT coalesce(max(seq), 0) FROM dcounter.outbox');
	$node->stop;
	clock_step(21 * 86400);
	$node->start;
	is(present($node, 'some'), '1', 'eight days, and is not, as another is');
	is(told($node), 'changed some 1', 'of which listeners are told');
}

##
## A rule of an extension that was created again is not the one that had its id
sql($node, 'postgres', q{SELECT dc_beat('live', 'a', 'ann')});
sql($node, 'postgres', q{DROP EXTENSION dcounter; CREATE EXTENSION dcounter; SELECT dc_presence_create('live', '7 days', approx => true)});
is(present($node, 'a'), '0', 'nobody is there');
is(sql($node, 'postgres', q{SELECT dc_beat('live', 'a', 'ann')}), 'f', 'but who is heard of');
$node->restart;
is(present($node, 'a'), '1', 'over a restart');
$node->stop;

done_testing();
