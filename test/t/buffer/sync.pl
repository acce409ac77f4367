# Sync commits asleep, and what may keep them so: a worker that stands still, a flush that fails
# or belongs to an open transaction, cancels, terminations, a worker that leaves in each way,
# shutdown, death of the postmaster. No session sleeps forever, nothing is acknowledged that a
# crash loses, and each increment counts once. The load is in buffer/sync_load.pl.
#
# A sleeping commit is woken by others, and by a time-out of its own. Time-outs go by the wall
# clock: where the clock runs backwards there are none, and others have to wake it.
use strict;
use warnings;

use DcBuffer;
use DcClock;
use DcTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $backwards = clock_prepare();
my $node = buffer_node('sync', 'max_connections = 80', "dcounter.compact_interval = '1h'", 'log_min_messages = warning');

in_tables($node);
sql($node, 'postgres', q{
	SELECT dc_create('s', mode => 'buffered', durability => 'sync', flush_interval => '1 day');
	SELECT dc_create('other', mode => 'buffered', durability => 'sync', flush_interval => '1 day')});

my $worker = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'postgres'};
my $n = 0;
my $clock;    # the process that turns it back

sub session
{
	my $session = dc_session($node, 'postgres');

	$session->{pid} = $session->run('SELECT pg_backend_pid()');
	return $session;
}

# sleeping(COUNTER, COUNT): sessions whose commits sleep, each of which has added 1 to the
# key "a". "n" counts them.
sub sleeping
{
	my ($counter, $count) = @_;
	my @sessions = map { session() } 1 .. $count;

	$_->send("SELECT dc_incr('$counter', 'a')") foreach @sessions;
	asleep($_) foreach @sessions;
	$n += $count if $counter eq 's';
	return @sessions;
}

sub asleep
{
	my ($session) = @_;
	my $state = "SELECT wait_event_type || ' ' || state FROM pg_stat_activity WHERE pid = $session->{pid}";

	die 'the commit does not sleep' if wait_for($node, 'postgres', $state, 'Extension active') ne 'Extension active';
	return;
}

# ends(SESSION): waits, not for ever, until it has its answer, or is gone; seconds, or ""
sub ends
{
	my ($session) = @_;
	my $begin = time;

	until (time > $begin + 90)
	{
		return sprintf('%.3f', time - $begin) if eval { $session->answered } || !kill(0, $session->{pid});
		sleep(0.01);
	}
	return '';
}

# all_end(NAME, SESSION...): a test
sub all_end
{
	my ($name, @sessions) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @ended = map { ends($_) } @sessions;

	return ok(!(grep { $_ eq '' } @ended), "$name (@ended)");
}

# warned(FROM): how often the log says since then that commits no longer wait, by reason
sub warned
{
	my ($from) = @_;
	my $log = slurp_file($node->logfile, $from);
	my %why;

	$why{$1}++ while $log =~ /WARNING:  (?:canceling|ending) the wait for increments to become durable(?:,| due| because) (.*)/g;
	return join('; ', map { "$_: $why{$_}" } sort keys %why);
}

# worker_set(ON OR OFF): what dcounter.worker is from now on
sub worker_set
{
	sql($node, 'postgres', "ALTER SYSTEM SET dcounter.worker = $_[0]");
	sql($node, 'postgres', 'SELECT pg_reload_conf()');
	return;
}

sub stand_still
{
	my $pid = sql($node, 'postgres', $worker);

	kill 'STOP', $pid;
	return $pid;
}

# quit(SESSION...): those that are still there
sub quit
{
	foreach my $session (@_)
	{
		eval { $session->quit };
	}
	return;
}

# is_counted(NAME): when it is flushed, which the worker puts off where it has failed
sub is_counted
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	flush($node, 's');
	return state_is($node, 's', 'a', "$n $n", $name);
}

##
## The worker stands still: only the session's time-out wakes it

sub test_still
{
	my $pid = stand_still();
	my $from = -s $node->logfile;
	my @sessions = sleeping('s', 6);

	sql($node, 'postgres', "SELECT pg_cancel_backend($_->{pid})") foreach @sessions[ 0, 1 ];
	sql($node, 'postgres', "SELECT pg_terminate_backend($_->{pid})") foreach @sessions[ 2, 3 ];
	all_end('the worker stands still: cancel and terminate end the waits', @sessions[ 0 .. 3 ]);
	is(warned($from), 'and terminating connection: 2; to user request: 2', '... with a warning each');
	is($sessions[0]->run(q{SELECT dc_get('s', 'a')}), "\n$n", 'the increments of all are there');
	ok(!$sessions[4]->answered && !$sessions[5]->answered, 'the other commits are not acknowledged');
	is(sql($node, 'postgres', q{SELECT in_tables('s')}), $n - 6, '... as they are not in tables');

	kill 'CONT', $pid;
	all_end('the worker goes on, and so do the others', @sessions[ 4, 5 ]);
	is_counted('all of it is counted once');
	quit(@sessions);
	return;
}

##
## The same, where nobody wakes anybody by time

# reverse_clock(): the wall clock runs backwards from now on
sub reverse_clock
{
	my $parent = $$;

	$clock = fork() // die "fork: $!";
	return if $clock;
	for (my $offset = 0; getppid() == $parent; $offset -= 2)
	{
		clock_step($offset);
		sleep(0.005);
	}
	POSIX::_exit(0);
}

# right_clock(): it goes as it should; returns whether it did not
sub right_clock
{
	return 0 if !$clock;
	kill 'KILL', $clock;
	waitpid($clock, 0);
	$clock = undef;
	clock_step(0);
	return 1;
}

# restarted(CODE): a server that is started, which needs a clock, and has a worker
sub restarted
{
	my ($start) = @_;
	my $reversed = right_clock();

	$start->();
	worker_runs($node, 'postgres');
	reverse_clock() if $reversed;
	return;
}

# What happens while sessions sleep, the worker stands still at that moment, and flushes of
# their table fail or not. Then it continues.
my %events = (
	'nothing happens' => sub { },
	'the worker is told to end' => sub { kill 'TERM', $_[0] },
	'the worker is told twice' => sub { kill 'TERM', $_[0]; kill 'CONT', $_[0]; sleep(1.1); kill 'TERM', $_[0] },
	'the worker is switched off' => sub { worker_set('off') },
	'sessions are cancelled' => sub { sql($node, 'postgres', "SELECT pg_cancel_backend($_->{pid})") foreach @_[ 1 .. $#_ ] },
	'sessions are terminated' => sub { sql($node, 'postgres', "SELECT pg_terminate_backend($_->{pid})") foreach @_[ 1 .. $#_ ] });

sub test_events
{
	foreach my $event (sort keys %events)
	{
		foreach my $fails (0, 1)
		{
			my $pid = stand_still();
			my $from = -s $node->logfile;
			my @sessions = sleeping('s', 4);

			# its trigger lets only clients write
			stuck($node, 'postgres', 's', 1) if $fails;
			$events{$event}->($pid, @sessions);
			kill 'CONT', $pid;
			if ($fails && $event =~ /nothing|told/)
			{
				soon($node, q{SELECT count(*) FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'flush' AND last_error LIKE '%not now%'}, '1', "$event, and flushes fail");
				sql($node, 'postgres', "SELECT pg_cancel_backend($_->{pid})") foreach @sessions;
			}
			all_end("$event, flushes @{[ $fails ? 'fail' : 'do not' ]}: all waits end", @sessions);
			stuck($node, 'postgres', 's', 0) if $fails;
			worker_set('on');
			worker_runs($node, 'postgres');
			is_counted('... and all is counted');
			is(warned($from), '', '... no wait has ended early') if !$fails && $event eq 'nothing happens';
			quit(@sessions);
		}
	}
	return;
}

# A flush in a transaction that goes on and on: no attempt of the worker's ends it
sub test_open_flush
{
	my $flusher = session();

	stuck($node, 'postgres', 's', 1);
	my ($cancelled, $terminated, $waiting) = sleeping('s', 3);
	$flusher->run(q{BEGIN; SELECT dc_flush('s')});
	my @later = sleeping('s', 1);
	stuck_no_more($flusher);
	sql($node, 'postgres', "SELECT pg_cancel_backend($cancelled->{pid}), pg_terminate_backend($terminated->{pid})");
	all_end('a flush in an open transaction: waits can be ended', $cancelled, $terminated);
	ok(!$waiting->answered, 'another commit waits for its end');
	$flusher->run('COMMIT');
	all_end('... and then returns', $waiting, @later);
	is_counted('all is counted once');
	quit($flusher, $cancelled, $terminated, $waiting, @later);
	return;
}

# The same by a transaction that takes everything before the worker can: it has nothing to try
# then, and wakes sleepers only now and then, and when it leaves
sub test_open_alter
{
	foreach my $off (0, 1)
	{
		my $alter = session();
		my $pid = stand_still();
		my ($cancelled, $terminated, $waiting) = sleeping('s', 3);
		my $name = 'everything is taken, ' . ($off ? 'the worker is switched off' : 'the worker goes on');

		$alter->run(q{BEGIN; SELECT dc_alter('s', mode => 'exact')});
		# nor is there another worker, which would wake them
		my $launcher = sql($node, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter launcher'});
		kill 'STOP', $launcher if $off;
		worker_set('off') if $off;
		kill 'CONT', $pid;
		soon($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", $off ? '0' : '1', $name);
		sql($node, 'postgres', "SELECT pg_cancel_backend($cancelled->{pid}), pg_terminate_backend($terminated->{pid})");
		all_end('... waits can be ended', $cancelled, $terminated);
		kill 'CONT', $launcher;
		$alter->run('ROLLBACK');
		worker_set('on') if $off;
		worker_runs($node, 'postgres');
		all_end('... and others end with that transaction', $waiting);
		is_counted('... all is counted once');
		quit($alter, $cancelled, $terminated, $waiting);
	}
	return;
}

# stuck_no_more(SESSION): it has locked the table against others, so it takes the triggers away
sub stuck_no_more
{
	my ($session) = @_;

	$session->run('DROP TRIGGER fails ON s; DROP TRIGGER fails ON s_shard');
	return;
}

##
## The ends of the server

# A fast shutdown while the worker fails
sub test_shutdown
{
	stuck($node, 'postgres', 's', 1);
	my @sessions = sleeping('s', 4);
	my $begin = time;

	$node->stop('fast');
	cmp_ok(time - $begin, '<', 90, 'a fast shutdown does not wait for sleeping commits');
	quit(@sessions);
	restarted(sub { $node->start });
	stuck($node, 'postgres', 's', 0);
	is_counted('what they have added is counted');
	return;
}

# The postmaster dies, and with it the worker, who wakes the others. What is in memory only
# is lost then, and was not acknowledged.
sub test_postmaster_death
{
	my $pid = stand_still();
	my @sessions = sleeping('s', 4);

	$node->kill9;
	kill 'CONT', $pid;
	all_end('the postmaster is killed: the sessions end', @sessions);
	quit(@sessions);
	restarted(sub { restart_after_kill9($node) });
	my $counted = sql($node, 'postgres', q{SELECT dc_get('s', 'a')});
	ok($counted == $n - 4 || $counted == $n, "what had been acknowledged is there ($counted)");
	$n = $counted;
	return;
}

sub test_all
{
	test_events();
	test_open_flush();
	test_open_alter();
	test_shutdown();
	test_postmaster_death();
	return;
}

test_still();
test_all();
if ($backwards)
{
	reverse_clock();
	test_all();
	right_clock();
}
END { right_clock() }

$node->stop;
done_testing();
