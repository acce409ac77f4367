# dc_relay confirms a batch after it has been delivered and not before, and nothing is lost
# when the relay, the command it runs, the reader of its output or the server stops.
use strict;
use warnings;

use Config;
use DcRelay;
use DcTest;
use IO::Socket::INET;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = relay_node();
my $dsn = $node->connstr('postgres');
my $folder = PostgreSQL::Test::Utils::tempdir();
my ($job, $status, $out, $err, @lines);

consumer('c');

##
## standard output that is not read

# piped(COMMAND): run by bash with dc_relay's words in $@; its status and messages
sub piped
{
	my ($command, @options) = @_;
	my $pipe = start_command('bash', '-c', $command, 'bash', '-d', $dsn, '--consumer', 'c', @options);

	return (finish_job($pipe), $pipe->{err});
}

query(q{SELECT dc_publish('t', 'k', 'x', '"kept"'), dc_publish('t', 'k', 'x', to_jsonb(repeat('x', 1000000)))});
($status, $err) = piped('exec dc_relay "$@" >&-');
is($status, 1, 'standard output is closed');
like($err, qr/could not write to standard output/, 'standard output is closed: the message');
SKIP:
{
	skip 'there is no /dev/full', 2 if !-e '/dev/full';
	($status, $err) = piped('exec dc_relay "$@" >/dev/full');
	is($status, 1, 'a full disk');
	like($err, qr/could not write to standard output: No space/, 'a full disk: the message');
}
($status, $err) = piped('dc_relay "$@" | head -n 1; exit ${PIPESTATUS[0]}');
is($status, 1, 'a reader that goes in the middle of a batch');
@lines = left('c');
is(scalar @lines, 2, 'nothing of this was confirmed');
like($lines[0], qr/"kept".*"attempt":2\}/, 'nothing of this was confirmed: it comes again');
($status, $err) = piped('dc_relay "$@" | true; exit ${PIPESTATUS[0]}', '--wait', '3600');
is($status, 1, 'a reader that goes while there is nothing to write');

# A file is flushed before its events are confirmed; what is not a file, never. Here
# fsync() fails, after it has noted what was written by then.
SKIP:
{
	my $library = "$folder/failing_fsync.so";
	my $code = file_of('failing_fsync.c', <<'END');
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int
fsync(int fd)
{
	FILE *notes = fopen(getenv("FSYNC_NOTES"), "a");
	struct stat status;

	fstat(fd, &status);
	fprintf(notes, "%d: %ld\n", fd, (long) status.st_size);
	fclose(notes);
	errno = atoi(getenv("FSYNC_ERROR"));
	return errno == 0 ? 0 : -1;
}
END
	skip 'no way to replace fsync() here', 11
	  if $^O ne 'linux' || system("$Config{cc} -shared -fPIC -o $library $code >/dev/null 2>&1") != 0;

	query(q{SELECT dc_publish('t', 'k', 'x', '"flushed"')});
	my $notes = "$folder/fsync";
	my $preload = "exec env LD_PRELOAD=$library FSYNC_NOTES=$notes FSYNC_ERROR";
	my $file = "$folder/flushed";
	foreach my $error (5, 22)    # EIO, EINVAL
	{
		unlink $notes, $file;
		($status, $err) = piped("$preload=$error dc_relay \"\$@\" >$file", '--once');
		is($status, $error == 5 ? 1 : 0, "error $error of fsync: the status") or diag($err);
		like($err, $error == 5 ? qr/could not flush standard output to disk: / : qr/\A\z/, "error $error of fsync: the message");
		is(content($notes), '1: ' . (-s $file) . "\n", "error $error of fsync: all was written before");
		like(content($file), qr/"flushed".*"attempt":@{[ $error == 5 ? 1 : 2 ]}\}\n\z/, "error $error of fsync: confirmed only if it is none");
	}
	query(q{SELECT dc_publish('t', 'k', 'x', '"piped"')});
	unlink $notes;
	($status, $err) = piped("$preload=5 dc_relay \"\$@\" | cat; exit \${PIPESTATUS[0]}", '--once');
	is("$status$err", '0', 'a pipe is not flushed');
	is(content($notes), '', 'a pipe is not flushed');
	is(scalar left('c'), 0, 'and all is confirmed');
}

# A reader that does not read keeps nobody from stopping.
query(q{SELECT dc_publish('t', 'k', 'x', to_jsonb(repeat('x', 1000000)))});
pipe(my $reader, my $writer) or die "pipe: $!";
my $messages = '';
my $blocked = IPC::Run::start([ 'dc_relay', '-d', $dsn, '--consumer', 'c' ], '<', File::Spec->devnull, '>', $writer, '2>', \$messages);
close $writer;
my $first;
sysread($reader, $first, 10);
is($first, '{"seq":' . substr($first, 7), 'a reader that does not read on');
$blocked->signal('TERM');
IPC::Run::finish($blocked);
is($blocked->full_result(0), 0, 'a reader that does not read on: stops');
like($messages, qr/stays unconfirmed/, 'a reader that does not read on: the message');
close $reader;
is(scalar left('c'), 1, 'a reader that does not read on: not confirmed');

##
## commands

# Each way to fail, and then success
my $attempts = "$folder/attempts";
query(q{SELECT dc_publish('t', 'k', 'x', '"poor"')});
($status, $out, $err) = run('c', '--once', '--exec', script('moody', qq{
	echo x >>$attempts
	case \$(wc -l <$attempts) in
	1) cat; exit 3 ;;
	2) cat; kill -9 \$\$ ;;
	3) cat; kill -PIPE \$\$; exit 0 ;;
	4) exit 0 ;;
	5) dd bs=1 count=5 2>/dev/null ;;
	*) cat >$attempts.last ;;
	esac
}));
is($status, 0, 'a command that fails in each way, and then succeeds') or diag($err);
is($out, '', 'its output is not that of the relay');
is(content($attempts), "x\n" x 6, 'it was tried as often as it took');
like($err, qr/"poor".*"attempt":1\}\n.*failed with status 3.*"attempt":2\}\n.*by signal 9.*"attempt":3\}\n.*by signal 13/s, 'what is said of each failure');
like($err, qr/ended before it had read all events.*ended before it had read all events/s, 'reading nothing, or not all, is a failure');
like(content("$attempts.last"), qr/"poor".*"attempt":6\}\n\z/, 'it is the same event that comes again');
is(scalar left('c'), 0, 'and then it is confirmed');

# More than fits into the pipe
query(q{SELECT dc_publish('t', 'k', 'x', to_jsonb(repeat('x', 1000000))) FROM generate_series(1, 3)});
$job = start('c', '--exec', 'exec <&-; exit 0');
says($job, qr/ended before it had read all events/, 'a command that reads nothing of a large batch');
signal($job, 'TERM', 0, 'stops in the pause between two attempts');
($status, $out, $err) = run('c', '--once', '--exec', "sleep 0.2; cat >$folder/large");
is("$status$err", '0', 'a command that is slow to read a large batch');
is(join(',', map { length($1) if /"payload":"(x*)",/ } split /^/, content("$folder/large")), '1000000,1000000,1000000', 'all of it arrives');
is(scalar left('c'), 0, 'and is confirmed');

# Events that the command says are at fault: it gets ever fewer, until they are alone, and
# then the others. Those of one key wait, unless the consumer skips.
my $choosy = script('choosy', qq{
	cat >$folder/choosy.in
	if grep -q '"bad"' $folder/choosy.in; then exit 65; fi
	cat $folder/choosy.in >>$folder/choosy
});
foreach my $on_nack (qw(wait skip))
{
	consumer("choosy_$on_nack");
	query(qq{SELECT dc_consumer_alter('choosy_$on_nack', max_attempts => 3, on_nack => '$on_nack')});
	query(q{SELECT dc_publish('t', k, 'x', to_jsonb(v)) IS NULL FROM unnest(string_to_array('1a 2a 3bad 3b 4a 4b 5bad 5b 1b 3c 2b 5bad 3bad 1c', ' ')) AS e,
		LATERAL (SELECT left(e, 1) AS k, CASE WHEN e LIKE '%bad' THEN 'bad' ELSE e END AS v) AS l});
	unlink "$folder/choosy";
	$job = start("choosy_$on_nack", '--exec', $choosy, '--wait', '0.1');
	is(wait_for($node, 'postgres', "SELECT count(*) FROM dc_dead_letters WHERE consumer = 'choosy_$on_nack'", 4), 4, "on_nack $on_nack: what is at fault is a dead letter in the end");
	comes(sub { 10 == (() = content("$folder/choosy") =~ /\n/g) }, "on_nack $on_nack: all others are delivered");
	signal($job, 'TERM', 0, "on_nack $on_nack: stops after that");
	my @values = map { value($_, 'payload') } split /^/, content("$folder/choosy");
	is(join(' ', sort @values), '1a 1b 1c 2a 2b 3b 3c 4a 4b 5b', "on_nack $on_nack: once each");
	is(join(' ', sort { substr($a, 0, 1) cmp substr($b, 0, 1) } @values), '1a 1b 1c 2a 2b 3b 3c 4a 4b 5b', "on_nack $on_nack: the keys in order");
	# what was left alone has more deliveries, which do not count
	is(query("SELECT string_agg(DISTINCT key || ' ' || (payload #>> '{}'), ', ') || ' ' || min(attempts) FROM dc_dead_letters WHERE consumer = 'choosy_$on_nack'"),
		'3 bad, 5 bad 3', "on_nack $on_nack: the dead letters");
	is(scalar left("choosy_$on_nack"), 0, "on_nack $on_nack: nothing is left");
}

# Others do not know whose fault it is: nothing is refused.
query(q{SELECT dc_consumer_alter('c', max_attempts => 1), dc_seek('c', 'now')});
query(q{SELECT dc_publish('t', 'k', 'x', '"bad"'), dc_publish('t', 'k2', 'x', '"good"')});
my $failing = "$folder/failing";
$job = start('c', '--exec', "cat >/dev/null; echo >>$failing; exit 1");
comes(sub { -s $failing && -s $failing > 3 }, 'a command that only fails is tried again');
signal($job, 'TERM', 0, 'stops after that');
is(query(q{SELECT count(*) FROM dc_dead_letters WHERE consumer = 'c'}), 0, 'a command that only fails makes no dead letters');
query(q{SELECT dc_consumer_alter('c', max_attempts => 10)});
is(scalar left('c'), 2, 'and its events come again');

##
## what --once takes for the end

# Somebody reads the consumer, for longer than a relay waits; it is checked below.
consumer($_) foreach qw(taken held rare parked);
query(q{SELECT dc_publish('t', 'k', 'x', '1')});
my @readers = map { my $s = dc_session($node, 'postgres'); $s->run("BEGIN; SELECT count(*) FROM dc_fetch('$_')"); $s } qw(taken held);
my $held = start('held', '--once');
my $taken = start('taken', '--once');
sleep(0.5);
ok($taken->{run}->pumpable, '--once waits for another session');
$readers[0]->run('ROLLBACK');
is(finish_job($taken), 0, '--once waits for another session: and stops') or diag($taken->{err});
like($taken->{out}, qr/"payload":1,/, '--once waits for another session: and has what that has left');

# Events of no interest, more than a fetch passes; and more that wait than it parks
query(q{SELECT dc_consumer_alter('rare', topics => ARRAY['rare'])});
query(q{SELECT count(dc_publish('often', 'k', 'x', '1')) FROM generate_series(1, 100100); SELECT dc_publish('rare', 'k', 'x', '"rare"')});
@lines = left('rare');
is(scalar @lines, 1, '--once goes on when a fetch has found nothing in 100,000 events');
query(q{SELECT dc_seek('parked', 'now')});
query(q{SELECT dc_publish('t', 'k', 'x', '1')});
query(q{SELECT dc_nack('parked', seq, '1 hour') FROM dc_fetch('parked')});
query(q{SELECT count(dc_publish('t', 'k', 'x', n::text::jsonb)) FROM generate_series(1, 5100) AS n; SELECT dc_publish('t', 'other', 'x', '"parked"')});
@lines = left('parked');
is(scalar @lines, 1, '--once goes on when a fetch has found nothing but events that wait');
query(q{SELECT dc_consumer_drop('rare'), dc_consumer_drop('parked')});

is(finish_job($held), 1, '--once does not wait for ever');
like($held->{err}, qr/another session/, '--once does not wait for ever: the message');
$readers[1]->run('ROLLBACK');
query(q{SELECT dc_consumer_drop('held'), dc_consumer_drop('taken')});

##
## stopping

$job = start('c', '--wait', '3600');
waiting('waits for events');
signal($job, 'TERM', 0, 'SIGTERM while it waits');
is($job->{err}, '', 'SIGTERM while it waits: nothing is said');
$job = start('c', '--wait', '3600');
waiting('waits for events');
signal($job, 'INT', 0, 'SIGINT while it waits');
is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dc_relay'}, 0),
	0, 'the server does not wait either');

# Nor when it is not told.
$job = start('c', '--wait', '3600');
waiting('waits for events');
$job->{run}->signal('KILL');
eval { finish_job($job) };
is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dc_relay'}, 0),
	0, 'the server does not wait for a relay that was killed');

# The command of the current batch is waited for, and its batch is confirmed.
my $slow = script('slow', qq{
	echo \$\$ >$folder/begun
	until [ -e $folder/go ]; do sleep 0.02; done
	cat >$folder/done
});
query(q{SELECT dc_publish('t', 'k', 'x', '"slow"')});
$job = start_command('setsid', 'dc_relay', '-d', $dsn, '--consumer', 'c', '--exec', $slow);
comes(sub { content("$folder/begun") =~ /\n/ }, 'a command at work');
# as Ctrl-C in a terminal: to all of its processes, but the command is not one
kill('-INT', $job->{run}{KIDS}[0]{PID});
sleep(0.1);
ok($job->{run}->pumpable, 'Ctrl-C: the command is waited for');
append_to_file("$folder/go", '');
is(finish_job($job), 0, 'Ctrl-C: stops when it has ended');
like(content("$folder/done"), qr/"slow"/, 'Ctrl-C: the command had its batch');
is(scalar left('c'), 0, 'Ctrl-C: the batch was confirmed');

# A second signal is obeyed at once.
unlink "$folder/begun", "$folder/go", "$folder/done";
query(q{SELECT dc_publish('t', 'k', 'x', '"slow"')});
$job = start('c', '--exec', $slow);
comes(sub { content("$folder/begun") =~ /\n/ }, 'a command at work');
my $pid = content("$folder/begun") + 0;
$job->{run}->signal('TERM');
sleep(0.1);
signal($job, 'TERM', 1, 'a second SIGTERM');
comes(sub { !kill(0, $pid) }, 'a second SIGTERM: the command is told');
is(scalar left('c'), 1, 'a second SIGTERM: the batch was not confirmed');

##
## nothing is lost, no matter which process is killed

my $keys = 8;
my $events = torture(150, 3000);
my $publisher = file_of('publish.sql', join("\n",
	map { "SELECT count(dc_publish('t', k::text, 'x', '$_')) FROM generate_series(1, $keys) AS k; SELECT pg_sleep(0.01);" } 1 .. $events) . "\n");
consumer('killed');
my $writer_job = start_job($node, 'postgres', $publisher);
my @files;
foreach my $round (1 .. 8)
{
	$job = start('killed', '--batch', 7, '--wait', 1, ($round % 4 == 0 ? ('--exec', "cat >>$folder/exec$round") : ()));
	push @files, $round % 4 == 0 ? "$folder/exec$round" : "$job->{base}.out";
	comes(sub { -s $files[-1] }, "round $round: events come");
	sleep(rand(0.1));
	if ($round % 2)
	{
		signal($job, 'TERM', 0, "round $round: stops");
		is($job->{out} =~ /[^\n]\z/ ? 'part' : '', '', "round $round: no part of a line");
	}
	else
	{
		$job->{run}->signal('KILL');
		eval { finish_job($job) };
	}
}
is(finish_job($writer_job), 0, 'all events are there') or diag($writer_job->{err});
# A relay that was killed may not have left the server yet.
is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dc_relay'}, '0'), '0', 'no relay is left');
($status, $out, $err) = run('killed', '--once', '--wait', '2');
is("$status$err", '0', 'the rest');
check('relays that are stopped and killed', $keys, $events, received(@files), split /^/, $out);

##
## the server restarts

consumer('restart');
$job = start('restart', '--wait', '3600');
query(q{SELECT dc_publish('t', '1', 'x', '1')});
comes(sub { content("$job->{base}.out") =~ /"payload":1,/ }, 'an event before the restart');
waiting('waits for more');
$node->stop('immediate');
says($job, qr/connection/, 'the connection is lost');
$node->start;
says($job, qr/connected again/, 'the connection is made again');
query(q{SELECT dc_publish('t', '1', 'x', '2')});
comes(sub { content("$job->{base}.out") =~ /"payload":2,/ }, 'an event after the restart');
is(wait_for($node, 'postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dc_relay'}, 't'),
	't', 'the session is terminated');
query(q{SELECT dc_publish('t', '1', 'x', '3')});
comes(sub { content("$job->{base}.out") =~ /"payload":3,/ }, 'an event after that');
signal($job, 'TERM', 0, 'stops after all that');
check('over restarts', 1, 3, split /^/, $job->{out});

# A server that is not there at the beginning is an error, one that is about to be
# there is not.
query(q{SELECT dc_publish('t', '1', 'x', '4')});
$node->stop;
($status, $out, $err) = run('restart');
is($status, 1, 'there is no server');
like($err, qr/connection to server/, 'there is no server: the message');
$node->append_conf('postgresql.conf', 'hot_standby = off');
append_to_file($node->data_dir . '/standby.signal', '');
$node->start;
$job = start('restart');
says($job, qr/not accepting connections|starting up/, 'the server does not accept connections yet');
unlink $node->data_dir . '/standby.signal';
$node->stop;
says($job, qr/No such file or directory|refused/, 'and is not there for a moment');
$node->start;
comes(sub { content("$job->{base}.out") =~ /"payload":4,/ }, 'and then it does');
signal($job, 'TERM', 0, 'stops after it has waited for the server');

##
## several hosts

# The first host takes connections and never answers.
my $silent = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die "listen: $!";

# hosts(OPTION...): of a DSN whose first host is silent
sub hosts
{
	return join(' ', 'dbname=postgres connect_timeout=1', "host=127.0.0.1,/nowhere,@{[ $node->host ]}",
		'port=' . join(',', $silent->sockport, $node->port, $node->port), @_);
}

consumer('hosts');
query(q{SELECT dc_publish('t', 'k', 'x', '1')});
foreach my $wanted (qw(any read-write prefer-standby))
{
	$job = start_command('dc_relay', '-d', hosts("target_session_attrs=$wanted"), '--consumer', 'hosts', '--once');
	is(finish_job($job), 0, "the first host is silent, the second not there: $wanted");
	like($job->{err}, qr{\A.*"127.0.0.1", port \d+ does not answer\n.*/nowhere/.*No such file}s, 'what is said of them');
	is(scalar(() = $job->{out} =~ /"payload":1,/g), $wanted eq 'any' ? 1 : 0, 'the third has the events');
}
$job = start_command('dc_relay', '-d', hosts('target_session_attrs=standby'), '--consumer', 'hosts', '--once');
is(finish_job($job), 1, 'no host is what it should be');
like($job->{err}, qr/does not answer\n.*No such file.*not in hot standby/s, 'the last one has been tried');
$job = start_command('dc_relay', '-d', "host=127.0.0.1 port=@{[ $silent->sockport ]} connect_timeout=1", '--consumer', 'hosts');
is(finish_job($job), 1, 'the only host is silent');
$job = start_command('dc_relay', '-d', 'host=a,b,c port=1,2', '--consumer', 'hosts');
is(finish_job($job), 1, 'lists that do not match');
like($job->{err}, qr/could not match/, 'lists that do not match: the message');

$job = start_command('dc_relay', '-d', hosts(), '--consumer', 'hosts', '--wait', '3600');
waiting('waits for events of the third host');
is(wait_for($node, 'postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dc_relay'}, 't'),
	't', 'its session is terminated');
says($job, qr/connected again/, 'it finds that host again');
signal($job, 'TERM', 0, 'stops after that');
$job = start_command('dc_relay', '-d', "host=127.0.0.1 port=@{[ $silent->sockport ]}", '--consumer', 'hosts');
sleep(0.2);
signal($job, 'TERM', 0, 'stops while a host does not answer');
close $silent;

##
## two members

consumer('shared');
my @members = map { start('shared', '--member', $_, '--wait', '1', '--batch', 20) } qw(a b);
my $round = 0;
comes(sub {
		$round++;
		query("SELECT count(dc_publish('t', k::text, 'x', '$round')) FROM generate_series(1, 40) AS k");
		return 2 == grep { -s "$_->{base}.out" } @members;
	}, 'both members have events');
# Each line that comes after another one of its key is written later: a member has a
# key to itself, until it gives it up.
my $both = sub { map { received("$_->{base}.out") } @members };
comes(sub {
		my %seen = map { /"key":"(\d+)".*"payload":(\d+),/ ? ("$1 $2" => 1) : () } $both->();
		return 40 * $round == keys %seen;
	}, 'together they have all events');
signal($_, 'TERM', 0, 'a member stops') foreach @members;
foreach my $member (@members)
{
	my %last;
	my $wrong = '';

	foreach my $line (split /^/, $member->{out})
	{
		my ($key, $n) = $line =~ /"key":"(\d+)".*"payload":(\d+),/;

		$wrong .= "$key: $n after $last{$key}; " if $n <= ($last{$key} // 0) && value($line, 'attempt') == 1;
		$last{$key} = $n;
	}
	is($wrong, '', 'a member has the events of a key in order');
}

# A member that takes longer than its lease: another one has the event meanwhile, so
# what it did does not count, and it continues.
consumer('lease');
query(q{SELECT dc_consumer_alter('lease', lease => '200 ms')});
query(q{SELECT dc_publish('t', 'k', 'x', '1')});
unlink "$folder/begun", "$folder/go", "$folder/done";
$job = start('lease', '--member', 'slow', '--wait', '0.1', '--exec', $slow);
comes(sub { content("$folder/begun") =~ /\n/ }, 'a member at work');
is(wait_for($node, 'postgres', q{SELECT count(*) FROM dc_fetch('lease', 100, '1 s', 'quick')}, 1), 1, 'another member has its event');
append_to_file("$folder/go", '');
says($job, qr/"slow" of consumer "lease" has lost its lease/, 'its confirmation is refused');
comes(sub {
		query(q{SELECT dc_publish('t', 'k', 'x', '2')});
		return content("$folder/done") =~ /"payload":2,/;
	}, 'it goes on');
signal($job, 'TERM', 0, 'stops after that');

# Events that were removed before they were read are reported as missing.
query(q{UPDATE dcounter.consumer SET cut_off = 1 WHERE name = 'lease'});
($status, $out, $err) = run('lease');
is($status, 1, 'a consumer that was cut off');
like($err, qr/was cut off/, 'a consumer that was cut off: the message');

$node->stop;
done_testing();
