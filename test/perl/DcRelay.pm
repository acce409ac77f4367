# Shared by the tests of dc_relay: a server, relays in the background, their messages and output,
# and whether they have delivered all events.
package DcRelay;

use strict;
use warnings;

use DcTest;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(relay_node query consumer start run left signal comes content says waiting script value received check);

# That of the test
my ($node, $dsn);

# relay_node(): the server. The test ends with an error if it takes too long.
sub relay_node
{
	delete $ENV{PGAPPNAME};    # the sessions are told apart by it
	$SIG{ALRM} = sub { die 'dc_relay does not come to an end' };
	alarm(torture(5, 20) * $PostgreSQL::Test::Utils::timeout_default);
	$node = dc_node('relay', init => { allows_streaming => 1 }, conf => [ 'fsync = off', "timezone = 'Asia/Kolkata'" ]);
	$dsn = $node->connstr('postgres');
	return $node;
}

# query(SQL): its output
sub query
{
	my ($sql) = @_;

	return sql($node, 'postgres', $sql);
}

# consumer(NAME): it has nothing to read yet
sub consumer
{
	my ($name) = @_;

	query("SELECT dc_consumer_create('$name')");
	return $name;
}

# start(CONSUMER, OPTION...): a relay in the background
sub start
{
	my ($consumer, @options) = @_;

	return start_command('dc_relay', '-d', $dsn, '--consumer', $consumer, @options);
}

# run(CONSUMER, OPTION...): its status, output and messages
sub run
{
	my $job = start(@_);
	my $status = finish_job($job);

	return ($status, $job->{out}, $job->{err});
}

# left(CONSUMER): the lines that a relay which waits for nothing finds
sub left
{
	my ($consumer) = @_;
	my ($status, $out, $err) = run($consumer, '--once');

	die "dc_relay: $err" if $status != 0;
	return split /^/, $out;
}

# signal(JOB, NAME, STATUS, TEST): sends it; how the relay ends is the test
sub signal
{
	my ($job, $name, $expected, $test) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$job->{run}->signal($name);
	is(finish_job($job), $expected, $test) or diag($job->{err});
	return;
}

# comes(SUB, TEST): waits until it returns true
sub comes
{
	my ($true, $test) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $limit = time + $PostgreSQL::Test::Utils::timeout_default;

	sleep(0.02) until $true->() || time > $limit;
	return ok($true->(), $test);
}

# content(PATH): of a file that need not be there yet
sub content
{
	my ($path) = @_;

	return -e $path ? slurp_file($path) : '';
}

# says(JOB, REGEX, TEST): waits until the relay has said so
sub says
{
	my ($job, $regex, $test) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return comes(sub { content("$job->{base}.err") =~ $regex }, $test) || diag(content("$job->{base}.err"));
}

# waiting(TEST): waits until some relay waits for events
sub waiting
{
	my ($test) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $sql = q{SELECT count(*) > 0 FROM pg_stat_activity
		WHERE application_name = 'dc_relay' AND state = 'active' AND query LIKE '%dc_fetch%'
			AND query_start < clock_timestamp() - interval '50 ms'};

	return is(wait_for($node, 'postgres', $sql, 't'), 't', $test);
}

# script(NAME, TEXT): a shell command
sub script
{
	my ($name, $text) = @_;

	return 'exec sh ' . file_of($name, $text);
}

# value(LINE, NAME): a number or a string of a line of JSON
sub value
{
	my ($line, $name) = @_;

	return $line =~ /"$name":"?([^",}]*)/ ? $1 : undef;
}

# received(FILE...): the whole lines of the files
sub received
{
	return map { grep { /\n\z/ } split /^/, content($_) } @_;
}

# check(TEST, KEYS, EVENTS, LINE...): all events 1 .. EVENTS of each key, in
# order, except for those that are delivered again
sub check
{
	my ($test, $keys, $events, @got) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %next = map { $_ => 1 } 1 .. $keys;
	my $early = '';

	foreach my $line (@got)
	{
		my ($key, $n) = $line =~ /"key":"(\d+)".*"payload":(\d+),/ or next;

		$early .= "$key: $n before $next{$key}; " if $n > $next{$key};
		$next{$key}++ if $n == $next{$key};
	}
	is($early, '', "$test: in order");
	return is(join(',', map { $next{$_} - 1 } sort { $a <=> $b } keys %next), join(',', ($events) x $keys), "$test: all");
}

1;
