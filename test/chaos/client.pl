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
use DcPsql;
use IO::Handle;
use Time::HiRes qw(sleep);

my ($connstr, $role, $client, $seed, $stop, $out_file) = @ARGV;
my $parent = getppid();

srand($seed);
open(my $out, '>', $out_file) or die "$out_file: $!";
$out->autoflush(1);

my @rooms = rooms();
my %roles = (gremlins(@rooms), map { %{ $_->{roles} // {} } } @rooms);
my $allowed = join('|', map { $_->{allowed} // () } @rooms);
my %seen = (committed => 0);
my $psql = DcPsql->new($connstr, "SET lock_timeout = '2s';\nSET client_min_messages = warning;\n", on_lost => \&lost, on_hang => \&hang);

$SIG{TERM} = sub { $psql->lost; exit 1 };

# What any statement may end with here: serialization failures, deadlocks, timeouts,
# cancelling, lost servers, our own 1 / 0 and what follows from an error before
my $expected = qr/^(?:40001|40P01|55P03|57014|57P0[123]|08\w{3}|25P02|22012|53300): |^42704: prepared transaction|^3B001: /;

# lost(TEXT, SQL): of a connection that has ended
sub lost
{
	judge(@_);
	$seen{'lost connections'}++;
	return;
}

# hang(SQL): no answer
sub hang
{
	my ($sql) = @_;

	print $out 'hang ', DcPsql::one_line($sql), "\n", map { "hang   $_" } $psql->waiters;
	return;
}

# judge(TEXT, SQL): counts the errors, and notes those that nobody expects
sub judge
{
	my ($text, $sql) = @_;

	foreach (DcPsql::errors_in($text))
	{
		my ($error, $more) = @$_;

		$seen{ substr($error, 0, 5) }++;
		next if $error =~ $expected || ($allowed ne '' && $error =~ /$allowed/);
		print $out 'bad ', DcPsql::one_line("$error $more in: $sql"), "\n";
	}
	return;
}

my $number = 0;

# nor longer than the test that has started it
until (-e $stop || getppid() != $parent)
{
	if (!$psql->connected)
	{
		sleep(0.1);
		next;
	}
	$number++;
	my ($sql, $durable) = $role eq 'mix' ? compose(\@rooms, $client, $number) : ($roles{$role}{next}->($client), 0);
	my $text = $psql->ask($sql) // next;

	judge($text, $sql);
	if ($text =~ /^COMMIT(?: PREPARED)?$/m)
	{
		$seen{committed}++;
		# with a warning it waited for the disk in vain
		print $out "ack $number\n" if $durable && $text !~ /WARNING/;
	}
	sleep(rand($role eq 'mix' ? 0.03 : 0.01));
}
$psql->lost;
print $out "seen $_ $seen{$_}\n" foreach sort keys %seen;
close $out or die "$out_file: $!";
