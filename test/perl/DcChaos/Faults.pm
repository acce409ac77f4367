# Faults that the runner of make chaos causes by signals and restarts. Each is a sub that is
# called while clients are at work, and returns complaints.
package DcChaos::Faults;

use strict;
use warnings;

use DcChaos::Mix;
use DcClock;
use DcTest;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(faults);

# faults: name => [sub, gremlins that come along in any case]
sub faults
{
	return (
		'nothing' => [ \&pause ],
		'kill -9 of a backend' => [ sub { kill_backend(@_, q{backend_type = 'client backend' AND application_name <> 'runner'}) } ],
		'kill -9 of the worker' => [ sub { kill_backend(@_, q{backend_type ~ 'dcounter'}) } ],
		'kill -9 of the postmaster' => [ \&kill_postmaster ],
		'immediate stop' => [ sub { restart(@_, 'immediate') } ],
		'fast stop' => [ sub { restart(@_, 'fast') } ],
		'worker off and on' => [ \&worker_off ],
		'clock back' => [ sub { clock(@_, -3600 * num(1, 30)) } ],
		'clock forth' => [ sub { clock(@_, 3600 * num(1, 30)) } ],
		'clock back, then a crash' => [ \&clock_and_crash ],
		'signals' => [ \&pause, 'signals', 'signals' ],
		'rewrites' => [ \&pause, 'rewrites', 'rewrites' ],
		'alters' => [ \&pause, 'alters' ],
		'old snapshot' => [ \&pause, 'snapshot', 'snapshot' ],
		'maintenance by hand' => [ \&pause, 'maintenance' ]);
}

sub pause
{
	sleep(2.5 + rand(2));
	return;
}

# crashed(RUN): notes when
sub crashed
{
	my ($run) = @_;

	push @{ $run->{crashes} }, $run->uptime;
	return;
}

sub kill_backend
{
	my ($run, $which) = @_;

	sleep(1.5 + rand(2));
	my $pid = $run->one("SELECT pid FROM pg_stat_activity WHERE $which ORDER BY random() LIMIT 1");

	return "there is none to kill: $pid" if $pid !~ /^\d+$/;
	crashed($run);
	kill 9, $pid;
	# all sessions end, and then come back
	sleep(1 + rand(2));
	return;
}

sub kill_postmaster
{
	my ($run) = @_;

	sleep(1.5 + rand(2));
	crashed($run);
	$run->{node}->kill9;
	memory($run);
	restart_after_kill9($run->{node});
	sleep(0.5 + rand(1));
	return;
}

sub restart
{
	my ($run, $mode) = @_;

	sleep(1.5 + rand(2));
	crashed($run) if $mode eq 'immediate';
	$run->{node}->stop($mode);
	memory($run);
	$run->{node}->start;
	sleep(0.5 + rand(1));
	return;
}

# memory(RUN, SIZE): from the next start on, the server and the sessions have random sizes of memory
sub memory
{
	my ($run, $size) = @_;
	my %setting = ('dcounter.buffer_size' => $size // pick('128kB', '128kB', '512kB', '32MB'), 'dcounter.cache_size' => pick('64kB', '8MB'), 'dcounter.limit_size' => pick('128kB', '16MB'),
		'dcounter.presence_size' => pick('128kB', '16MB'), 'dcounter.pending_memory' => pick('64kB', '16MB'));

	$run->{node}->append_conf('postgresql.conf', join('', map { "$_ = '$setting{$_}'\n" } sort keys %setting));
	$run->note_fault("then buffer_size $setting{'dcounter.buffer_size'}, pending_memory $setting{'dcounter.pending_memory'}");
	return;
}

sub worker_off
{
	my ($run) = @_;
	my $set = sub { $run->{node}->append_conf('postgresql.conf', "dcounter.worker = $_[0]\n"); $run->{node}->reload };

	foreach (1 .. num(1, 2))
	{
		sleep(0.5 + rand(1));
		$set->('off');
		sleep(rand(2));
		$set->('on');
	}
	sleep(0.5);
	my @bad = $run->ask('SELECT NULL FROM (SELECT dc_worker_stop()) AS s; SELECT pg_sleep(0.5); SELECT NULL FROM (SELECT dc_worker_start()) AS s');

	sleep(0.5);
	return @bad;
}

# clock(RUN, SECONDS): steps the clock of the server. It keeps that offset until the next step.
# Sessions end then: the server itself measures pg_sleep() and its timeouts (that of deadlocks, too)
# by the wall clock, so what was under way when the clock was set back would go on for hours.
sub clock
{
	my ($run, $seconds) = @_;

	sleep(1 + rand(1));
	$run->{offset} += $seconds;
	clock_step($run->{offset});
	$run->{latest} = $run->{offset} if $run->{offset} > ($run->{latest} // 0);
	$run->note_fault("by $seconds s");
	$run->{decide_all} = 1;    # so that jobs can do all of their work
	sleep(0.1);
	my @bad = grep { !/^t$/ } $run->ask(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'});

	sleep(2.5 + rand(1));
	return @bad;
}

# clock_and_crash(RUN): after the clock was set back, work that the jobs should have finished by
# then survives a crash
sub clock_and_crash
{
	my ($run) = @_;

	# with memory that is never half full, which would be a reason to flush
	$run->{node}->stop('fast');
	memory($run, '32MB');
	$run->{node}->start;
	my @bad = clock($run, -3600 * num(1, 30));

	# longer than the loss that the room "buffer" allows
	sleep(12);
	$run->note_fault('immediate stop');
	crashed($run);
	$run->{node}->stop('immediate');
	$run->{node}->start;
	return @bad;
}

1;
