# One client of make chaos (test/perl/DcChaos.pm): sends random transactions.
#
#   client.pl CONNSTR ROLE CLIENT SEED STOP OUT
#
# ROLE is "mix", a role of a room or one of DcChaos::Gremlins. OUT says what DcClient does,
# how many transactions were committed, and
#   ack N        COMMIT of transaction N was answered, and promises that it is durable
use strict;
use warnings;

use DcChaos::Gremlins;
use DcChaos::Mix;
use DcClient;
use Time::HiRes qw(sleep);

my $client = DcClient->new;
my $mixes = $client->{role} eq 'mix';
my @rooms = rooms();
my %roles = (gremlins(@rooms), map { %{ $_->{roles} // {} } } @rooms);

# our own 1 / 0, a PREPARE TRANSACTION that did not come to be, and what rooms allow
my $allowed = join('|', '^22012: ', '^42704: prepared transaction', map { $_->{allowed} // () } @rooms);
my ($number, $durable) = (0, 0);

# next_sql(): the next transaction
sub next_sql
{
	$number++;
	return $roles{ $client->{role} }{next}->($client->{client}) if !$mixes;
	(my $sql, $durable) = compose(\@rooms, $client->{client}, $number);
	return $sql;
}

# answered(TEXT): to it
sub answered
{
	my ($text) = @_;

	if ($text =~ /^COMMIT(?: PREPARED)?$/m)
	{
		$client->saw('committed');
		# with a warning it waited for the disk in vain
		$client->say("ack $number") if $durable && $text !~ /WARNING/;
	}
	sleep(rand($mixes ? 0.03 : 0.01));
	return;
}

# of a name that is there twice, the last one counts
my $database = $mixes ? undef : $roles{ $client->{role} }{database};
my $connstr = $client->{connstr} . (defined $database ? " dbname=$database" : '');

$client->saw('committed', 0);
$client->run($connstr, "SET lock_timeout = '2s';\nSET client_min_messages = warning;\n",
	next => \&next_sql, answered => \&answered, is_bad => sub { $_[0] !~ /$allowed/ });
