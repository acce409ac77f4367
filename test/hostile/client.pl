# One client of make owners: sends statements to a psql, one after the other, until a file
# appears, and begins anew with another psql when it loses its connection.
#
#   client.pl CONNSTR ROLE CLIENT SEED STOP OUT
#
# ROLE is one of DcHostile::Clients. OUT says what was seen:
#   bad TEXT     an error that should not be, or what is left in a session
#   hang TEXT    no answer in time, and who waits for whom
#   seen WHAT N  how often (statements, lost connections, errors by SQLSTATE)
use strict;
use warnings;

use DcChaos::Mix;
use DcHostile::Clients;
use DcPsql;
use IO::Handle;
use Time::HiRes qw(sleep);

my ($connstr, $role, $client, $seed, $stop, $out_file) = @ARGV;
my $parent = getppid();

srand($seed);
open(my $out, '>', $out_file) or die "$out_file: $!";
$out->autoflush(1);

my %clients = clients();
my $me = $clients{$role};
my %seen = (statements => 0);
my $psql = DcPsql->new("$connstr user=$me->{user} application_name=$role", "SET lock_timeout = '1s';\nSET statement_timeout = '8s';\nSET client_min_messages = error;\n\\set ON_ERROR_ROLLBACK " . (chance(0.7) ? 'on' : 'off') . "\n",
	on_lost => \&lost, on_hang => \&hang, limit => $me->{limit} // 45, watch => $connstr);

$SIG{TERM} = sub { $psql->lost; exit 1 };

# What anybody has to expect: serialization failures, deadlocks, timeouts, cancelling, a
# server that is stopped, and what follows from an error before
my $expected = qr/^(?:40001|40P01|55P03|57014|57P0[123]|08\w{3}|25P02|53300|3B001): /;

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

# judge(TEXT, SQL): counts the errors, and notes those that should not be. Internal errors
# are in the server's log as well, where the runner looks for them.
sub judge
{
	my ($text, $sql) = @_;

	foreach (DcPsql::errors_in($text))
	{
		my ($error, $more) = @$_;

		$seen{ substr($error, 0, 5) }++;
		print $out 'bad ', DcPsql::one_line("$error $more in: $sql"), "\n" if $me->{strict} && $error !~ $expected;
	}
	print $out 'bad ', $_, ' after: ', DcPsql::one_line($sql), "\n" foreach $text =~ /^(leak: .*)$/mg;
	return;
}

# nor longer than the test that has started it
until (-e $stop || getppid() != $parent)
{
	if (!$psql->connected)
	{
		sleep(0.1);
		next;
	}
	my $sql = $me->{next}->();
	my $text = $psql->ask($sql) // next;

	$seen{statements}++;
	judge($text, $sql);
}
$psql->lost;
print $out "seen $role $_ $seen{$_}\n" foreach sort keys %seen;
close $out or die "$out_file: $!";
