# One client of make chaos: sends random transactions to a psql, one after the other, until
# a file appears, and begins anew with another psql when it loses its connection.
#
#   client.pl CONNSTR ROLE CLIENT SEED STOP OUT
#
# ROLE is "mix", a role of a room or one of DcChaos::Gremlins. OUT says what was seen:
#   ack N        COMMIT of transaction N was answered, and promises that it is durable
#   bad TEXT     an error that none of the rooms expects
#   hang TEXT    no answer within 45 seconds, and who waits for whom
#   seen WHAT N  how often (committed, lost connections, errors by SQLSTATE)
use strict;
use warnings;

use DcChaos::Gremlins;
use DcChaos::Mix;
use IO::Handle;
use IO::Select;
use Time::HiRes qw(sleep time);

my ($connstr, $role, $client, $seed, $stop, $out_file) = @ARGV;
my $limit = 45;

my $parent = getppid();
my ($pid, $to, $from);    # psql

srand($seed);
$SIG{PIPE} = 'IGNORE';
$SIG{TERM} = sub { lost() if defined $pid; exit 1 };
open(my $out, '>', $out_file) or die "$out_file: $!";
$out->autoflush(1);

my @rooms = rooms();
my %roles = (gremlins(@rooms), map { %{ $_->{roles} // {} } } @rooms);
my $allowed = join('|', map { $_->{allowed} // () } @rooms);
my %seen = (committed => 0);

# What any statement may end with here: serialization failures, deadlocks, timeouts,
# cancelling, lost servers, our own 1 / 0 and what follows from an error before
my $expected = qr/^(?:40001|40P01|55P03|57014|57P0[123]|08\w{3}|25P02|22012|53300): |^42704: prepared transaction|^3B001: /;

# connected: whether there is a psql, after trying to start one
sub connected
{
	return 1 if defined $pid;
	pipe(my $in_read, $to) && pipe($from, my $out_write) or die "pipe: $!";
	$pid = fork() // die "fork: $!";
	if (!$pid)
	{
		open(STDIN, '<&', $in_read) && open(STDOUT, '>&', $out_write) && open(STDERR, '>&', $out_write) or die;
		close $_ foreach $to, $from;
		exec('psql', '-XAt', '-v', 'VERBOSITY=verbose', '-d', $connstr) or die "psql: $!";
	}
	close $_ foreach $in_read, $out_write;
	$to->autoflush(1);
	return defined ask("SET lock_timeout = '2s';\nSET client_min_messages = warning;\nSELECT setseed(" . sprintf('%.6f', rand()) . ")\n;");
}

# lost(): ends a psql that is of no use any more
sub lost
{
	close $_ foreach $to, $from;
	kill 'TERM', $pid;
	waitpid($pid, 0);
	undef $pid;
	return;
}

# ask(SQL): what psql writes until it has come to the end of it; undef if it ends before
my $marks = 0;

sub ask
{
	my ($sql) = @_;
	my $mark = 'mark ' . ++$marks;
	my $text = '';
	my $end = time + $limit;
	my $ready = IO::Select->new($from);

	print $to guarded($sql), "\n\\echo $mark\n";
	until ($text =~ /^$mark$/m)
	{
		if (!$ready->can_read($end - time > 0 ? $end - time : 0))
		{
			print $out 'hang ', one_line($sql), "\n", map { "hang   $_" } waiters();
			lost();
			return;
		}
		if (!sysread($from, $text, 65536, length $text))
		{
			judge($text, $sql);
			$seen{'lost connections'}++;
			lost();
			return;
		}
	}
	return $text;
}

# guarded(SQL): the same, but for a BEGIN that fails, as it may be cancelled like any statement:
# what follows it must not be run then, statement by statement and at another level
sub guarded
{
	my ($sql) = @_;

	return $sql =~ s/^(BEGIN[^;]*;\n)(.*)/$1\\if :ERROR\nROLLBACK;\n\\else\n$2\\endif/sr;
}

# waiters: what sessions are doing
sub waiters
{
	local $ENV{PGOPTIONS} = '-c statement_timeout=5s';

	open(my $psql, '-|', 'psql', '-XAt', '-d', $connstr, '-c', q{
		SELECT pid, backend_type, state, wait_event, clock_timestamp() - state_change, pg_blocking_pids(pid), left(regexp_replace(query, '\s+', ' ', 'g'), 100)
		FROM pg_stat_activity WHERE state <> 'idle' OR backend_type ~ 'dcounter'}) or return;
	return <$psql>;
}

sub one_line
{
	my ($text) = @_;

	return substr($text =~ s/\s+/ /gr, 0, 1500);
}

# judge(TEXT, SQL): counts the errors, and notes those that nobody expects
sub judge
{
	my ($text, $sql) = @_;

	while ($text =~ /(?:ERROR|FATAL|PANIC):  (\w{5}: .*)/g)
	{
		my $error = $1;

		$seen{ substr($error, 0, 5) }++;
		next if $error =~ $expected || ($allowed ne '' && $error =~ /$allowed/);
		my ($more) = $text =~ /\Q$error\E\n((?:(?:DETAIL|CONTEXT|LOCATION|HINT).*\n?|  .*\n?)*)/;

		print $out 'bad ', one_line("$error " . ($more // '') . " in: $sql"), "\n";
	}
	return;
}

my $number = 0;

# nor longer than the test that has started it
until (-e $stop || getppid() != $parent)
{
	if (!connected())
	{
		sleep(0.1);
		next;
	}
	$number++;
	my ($sql, $durable) = $role eq 'mix' ? compose(\@rooms, $client, $number) : ($roles{$role}{next}->($client), 0);
	my $text = ask($sql) // next;

	judge($text, $sql);
	if ($text =~ /^COMMIT(?: PREPARED)?$/m)
	{
		$seen{committed}++;
		# with a warning it waited for the disk in vain
		print $out "ack $number\n" if $durable && $text !~ /WARNING/;
	}
	sleep(rand($role eq 'mix' ? 0.03 : 0.01));
}
lost() if defined $pid;
print $out "seen $_ $seen{$_}\n" foreach sort keys %seen;
close $out or die "$out_file: $!";
