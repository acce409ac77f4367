# One client of make owners (test/perl/DcHostile.pm).
#
#   client.pl CONNSTR ROLE CLIENT SEED STOP OUT
#
# ROLE is one of DcHostile::Clients. OUT says what DcClient does, how many statements were
# answered, and as "bad" what is left in a session.
use strict;
use warnings;

use DcChaos::Mix;
use DcClient;
use DcHostile::Clients;
use DcPsql;

my $client = DcClient->new;
my %clients = clients();
my $me = $clients{ $client->{role} };

# look(TEXT, SQL): for what should not be left. Internal errors are in the server's log as
# well, where the runner looks for them.
sub look
{
	my ($text, $sql) = @_;

	$client->say("bad $_ after: " . DcPsql::one_line($sql)) foreach $text =~ /^(leak: .*)$/mg;
	return;
}

$client->saw('statements', 0);
my $database = $me->{database} // 'postgres';
$client->run("$client->{connstr} dbname=$database user=$me->{user} application_name=$client->{role}",
	"SET lock_timeout = '1s';\nSET statement_timeout = '8s';\nSET client_min_messages = error;\n\\set ON_ERROR_ROLLBACK " . (chance(0.7) ? 'on' : 'off') . "\n",
	label => "$client->{role} ", limit => $me->{limit} // 45, watch => $client->{connstr},
	next => $me->{next}, answered => sub { $client->saw('statements') }, is_bad => sub { $me->{strict} }, judged => \&look);
