# Shared by the TAP tests. Works with the Perl modules of PostgreSQL 15 to 19; their own background
# sessions differ too much between these.
package DcTest;

use strict;
use warnings;

use Exporter 'import';
use File::Spec;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time usleep);

our @EXPORT = qw(dc_node dc_session sql answer wait_for fails_with counts file_of torture sanitized peak_memory
  start_job start_command finish_job
  some_pid restart_after_kill9 fails_to_start);

# dc_node(NAME, key => value...): a started server. Options: init (of
# PostgreSQL::Test::Cluster), conf (lines), extension => 0 for none.
sub dc_node
{
	my ($name, %option) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(extra => [ '-E', 'UTF8', '--locale=C' ],
		%{ $option{init} // {} });
	$node->append_conf('postgresql.conf',
		join("\n", 'max_connections = 60', 'max_prepared_transactions = 60',
			# a standby that lags behind on a slow machine would cancel the test's queries
			'max_standby_streaming_delay = -1',
			'log_statement = none', @{ $option{conf} // [] }, ''));
	$node->start;
	sql($node, 'postgres', 'CREATE EXTENSION dcounter')
	  if $option{extension} // 1;
	return $node;
}

# sql(NODE, DATABASE, STATEMENTS): output of psql; an error ends the test
sub sql
{
	my ($node, $database, $sql) = @_;

	return $node->safe_psql($database, $sql);
}

# answer(NODE, DATABASE, STATEMENT): its output, "" if it fails. The server may be
# restarting: psql reads nothing from a pipe that it may be too late to write to.
sub answer
{
	my ($node, $database, $sql) = @_;
	my $out;

	IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr($database), '-c', $sql ],
		'<', File::Spec->devnull, '>', \$out, '2>', File::Spec->devnull);
	chomp $out;
	return $out;
}

# wait_for(NODE, DATABASE, QUERY, RESULT [, SECONDS]): the answer that it has in
# the end. Each question is a session of its own, for which a processor works as long as the shortest pause: so what
# takes longer is asked for less often.
sub wait_for
{
	my ($node, $database, $sql, $expected, $limit) = @_;
	my $start = time;
	my $end = $start + ($limit // $PostgreSQL::Test::Utils::timeout_default);
	my $out;

	until (($out = answer($node, $database, $sql)) eq $expected || time > $end)
	{
		my $pause = 0.05 + (time - $start) / 8;
		sleep($pause < 0.3 ? $pause : 0.3);
	}
	return $out;
}

# fails_with(NODE, DATABASE, STATEMENTS, SQLSTATE, NAME): a test
sub fails_with
{
	my ($node, $database, $sql, $state, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($status, $out, $err) =
	  $node->psql($database, "\\set VERBOSITY verbose\n$sql");

	return like($err, qr/ERROR:  $state:/, $name);
}

# counts(NODE, DATABASE, COUNTER [, WHERE]): "key=value" of each key, exact
sub counts
{
	my ($node, $database, $counter) = @_;

	return sql($node, $database, qq{
		SELECT string_agg(k || '=' || dc_get('$counter', k), ' ' ORDER BY k)
		FROM (SELECT key FROM $counter
			UNION SELECT key FROM ${counter}_shard) AS u(k)});
}

# file_of(NAME, TEXT): writes a file of this test and returns its path
sub file_of
{
	my ($name, $text) = @_;
	my $path = PostgreSQL::Test::Utils::tempdir() . "/$name";

	open(my $fh, '>', $path) or die "$path: $!";
	print $fh $text;
	close $fh or die "$path: $!";
	return $path;
}

# torture(SHORT, LONG): LONG when make torture runs the test, else SHORT
sub torture
{
	my ($short, $long) = @_;

	return $ENV{DC_TORTURE} ? $long : $short;
}

# sanitized(): whether the server finds errors of memory (make check-memory), and needs several
# times as much time and memory for it
sub sanitized
{
	return ($ENV{ASAN_OPTIONS} // '') ne '';
}

# peak_memory(PID): the most memory that a process has had, in MB; undef where that says
# nothing: off Linux, or with the sanitizers' own memory in it
sub peak_memory
{
	my ($pid) = @_;
	my $status = "/proc/$pid/status";

	return undef if !-r $status || sanitized();
	return PostgreSQL::Test::Utils::slurp_file($status) =~ /^VmHWM:\s+(\d+) kB/m ? $1 / 1024 : undef;
}

# start_job(NODE, DATABASE, SCRIPT): runs a file with psql in the background
# until its end or its first error
sub start_job
{
	my ($node, $database, $script) = @_;

	return start_command('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v',
		'VERBOSITY=verbose', '-d', $node->connstr($database), '-f', $script);
}

# start_command(COMMAND...): any program in the background. Its output goes to
# files, as nobody would empty a pipe.
my $jobs = 0;

sub start_command
{
	my (@command) = @_;
	my $base = PostgreSQL::Test::Utils::tempdir() . '/job' . ++$jobs;
	my $job = { base => $base };

	$job->{run} = IPC::Run::start(\@command, '<', File::Spec->devnull,
		'>', "$base.out", '2>', "$base.err");
	return $job;
}

# finish_job(JOB): waits; the exit status (of psql, 2: connection lost). What
# the job wrote is in "out" and "err".
sub finish_job
{
	my ($job) = @_;

	IPC::Run::finish($job->{run});
	$job->{$_} = PostgreSQL::Test::Utils::slurp_file("$job->{base}.$_")
	  foreach 'out', 'err';
	return IPC::Run::full_result($job->{run}, 0) >> 8;
}

# some_pid(NODE, QUERY): that of a process which it finds, asked until there is one. (kill() takes "" for our own processes.)
sub some_pid
{
	my ($node, $sql) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $pid;

	while (($pid = answer($node, 'postgres', $sql)) eq '')
	{
		die "no process: $sql" if time > $end;
		sleep(0.02);
	}
	return $pid;
}

# restart_after_kill9(NODE): starts a server whose postmaster was killed. Its
# processes keep the shared memory until they notice, and so long a start fails.
sub restart_after_kill9
{
	my ($node) = @_;
	my $attempts = 10 * $PostgreSQL::Test::Utils::timeout_default;

	until ($node->start(fail_ok => 1))
	{
		die 'the server does not start' if --$attempts < 0;
		$node->{_pid} = undef;    # that of the killed postmaster
		usleep(100_000);
	}
	return;
}

# fails_to_start(NODE): stops a server, a start of which then fails, after it has its shared memory; the next one does not. A test
sub fails_to_start
{
	my ($node) = @_;
	my $hba = $node->data_dir . '/pg_hba.conf';
	my $lines = slurp_file($hba);

	$node->stop;
	append_to_file($hba, "nonsense\n");
	ok(!$node->start(fail_ok => 1), 'a start that fails');
	open(my $file, '>', $hba) or die "$hba: $!";
	print $file $lines;
	close $file;
	$node->start;
	return;
}

# dc_session(NODE, DATABASE): a session that stays open
sub dc_session
{
	my ($node, $database) = @_;

	return DcTest::Session->new($node, $database);
}

package DcTest::Session;

sub new
{
	my ($class, $node, $database) = @_;
	my $self = bless { in => '', out => '', err => '', n => 0 }, $class;

	$self->{timer} =
	  IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
	$self->{run} = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose',
			'-d', $node->connstr($database) ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err},
		$self->{timer});
	$self->run('SELECT 1');
	return $self;
}

# send(SQL): does not wait for the answer
sub send
{
	my ($self, $sql) = @_;
	my $mark = 'mark_' . ++$self->{n};

	$self->{in} .= "$sql\n;\n\\echo $mark\n\\warn $mark\n";
	$self->{timer}->start($PostgreSQL::Test::Utils::timeout_default);
	$self->{run}->pump_nb;
	return;
}

# answered: whether the answer is there
sub answered
{
	my ($self) = @_;
	my $mark = "mark_$self->{n}";

	$self->{run}->pump_nb;
	return $self->{out} =~ /^$mark$/m && $self->{err} =~ /^$mark$/m;
}

# wait: the answer to what was sent last, "" and its SQLSTATE after an error
sub wait
{
	my ($self) = @_;
	my $mark = "mark_$self->{n}";

	$self->{run}->pump
	  until $self->{out} =~ /^$mark$/m && $self->{err} =~ /^$mark$/m;
	my ($out, $err) = ($self->{out}, $self->{err});
	$self->{out} = $self->{err} = '';
	$out =~ s/^mark_\d+\n//mg;
	chomp $out;
	return $out if $err !~ /^\S*ERROR:  (\w{5}):/m;
	return "ERROR $1";
}

# run(SQL): its output, or "ERROR sqlstate"
sub run
{
	my ($self, $sql) = @_;

	$self->send($sql);
	return $self->wait;
}

sub quit
{
	my ($self) = @_;

	$self->{in} .= "\\q\n";
	$self->{run}->finish;
	return;
}

1;
