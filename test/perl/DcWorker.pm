# Shared by the tests of the launcher and its workers: which databases have a worker,
# in which state, and what the server's log says.
package DcWorker;

use strict;
use warnings;

use DcTest;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(soon pid_of another_worker state_is compacts set_conf log_since logged worker_conf worker_failures step_failures $limit $workers $launcher);

# The launcher looks around once a minute in any case. What should happen at once
# must have happened long before.
our $limit = 40;

# The databases that have a worker, and the process of the launcher
our $workers = q{SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_stat_activity
	WHERE backend_type = 'dcounter worker'};
our $launcher = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter launcher'};

# A worker that exited unexpectedly, or could not do its work
my $failed = qr/dcounter worker (?:ERROR|FATAL|PANIC):|dcounter job .* failed|"dcounter worker" .* exited/;

# worker_conf(): lines of postgresql.conf for all servers
sub worker_conf
{
	return ("dcounter.compact_interval = '100ms'", 'dcounter.max_workers = 20', 'autovacuum = off', 'restart_after_crash = on', "log_line_prefix = '%m [%p] %b %q%a '");
}

# soon(NODE, DATABASE, QUERY, RESULT, NAME): a test
sub soon
{
	my ($node, $database, $sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(wait_for($node, $database, $sql, $expected, $limit), $expected, $name);
}

# pid_of(NODE, DATABASE): of the worker there, "" if none
sub pid_of
{
	my ($node, $database) = @_;

	return sql($node, 'postgres', qq{
		SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = '$database'});
}

# another_worker(NODE, DATABASE, PID, NAME): one is there, which is not PID
sub another_worker
{
	my ($node, $database, $pid, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	isnt($pid, '', "$name: there was a worker");
	return soon($node, 'postgres', qq{
		SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = '$database' AND pid <> 0$pid},
		'1', $name);
}

# state_is(NODE, DATABASE, STATE, NAME): what dc_stat_worker says, also of whether
# there is a process
sub state_is
{
	my ($node, $database, $state, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return soon($node, 'postgres', qq{
		SELECT state, pid IS NOT NULL, EXISTS (SELECT FROM pg_stat_activity
			WHERE backend_type = 'dcounter worker' AND datname = '$database')
		FROM dc_stat_worker WHERE job = 'compaction' AND datname = '$database'},
		$state eq 'running' ? 'running|t|t' : "$state|f|f", $name);
}

# compacts(NODE, DATABASE, COUNTER, NAME): what is counted gets to the totals
my $keys = 0;

sub compacts
{
	my ($node, $database, $counter, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $key = 'key ' . ++$keys;

	sql($node, $database, "SELECT dc_incr('$counter', '$key', 3)");
	return soon($node, $database, "SELECT value FROM $counter WHERE key = '$key'", '3', $name);
}

# set_conf(NODE, SETTING => VALUE...): by reload; new sessions have it then
sub set_conf
{
	my ($node, %conf) = @_;

	$node->append_conf('postgresql.conf', "$_ = '$conf{$_}'") foreach keys %conf;
	$node->reload;
	foreach (keys %conf)
	{
		die "$_ is not set" if wait_for($node, 'postgres', "SELECT current_setting('$_')", $conf{$_}, $limit) ne $conf{$_};
	}
	return;
}

# log_since(NODE, OFFSET): the server log from there on
sub log_since
{
	my ($node, $offset) = @_;

	return slurp_file($node->logfile, $offset);
}

# worker_failures(LOG): the lines about a worker that failed. A step that is cancelled at its limit is none: on a machine that
# stalls each may be.
sub worker_failures
{
	my ($log) = @_;

	return join("\n", grep { !/failed: canceling statement due to user request|HINT:  It took too long/ } $log =~ /^(.*$failed.*(?:\n.*HINT: .*)?)$/mg);
}

# step_failures(NODE [, JOB]): the lines of the log about steps (of that job) that the worker has failed in, as dc_stat_worker
# counts them, but for the limit
sub step_failures
{
	my ($node, $job) = @_;
	my $of = defined $job ? qr/dcounter job "$job"/ : qr/dcounter job/;

	return join("\n", grep { /LOG:  $of/ } split /\n/, worker_failures(log_since($node, 0)));
}

# logged(NODE, OFFSET, PATTERN, NAME): a test
sub logged
{
	my ($node, $offset, $pattern, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $end = time + $limit;

	sleep(0.05) while log_since($node, $offset) !~ $pattern && time < $end;
	return like(log_since($node, $offset), $pattern, $name);
}

1;
