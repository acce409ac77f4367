# All rooms at once under random transactions and faults (DcChaos.pm), for CHAOS_TIME seconds
# (120). DC_SEED=N repeats the choices of a run that failed, DC_CHAOS_FAULTS='clock
# back;signals' takes these faults only, DC_CHAOS_WITH='rewrites' has these gremlins in each
# round (DcChaos/Gremlins.pm), DC_CHAOS_WITHOUT='outbox' leaves rooms out.
use strict;
use warnings;

use DcChaos;
use DcChaos::Faults;
use DcChaos::Mix;
use DcTest;
use List::Util qw(shuffle);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $seed = $ENV{DC_SEED} // int(rand(1e9));

srand($seed);
note("seed $seed (set DC_SEED to repeat)");

plan skip_all => 'there is no /proc/uptime, a clock that nobody sets' if !-r '/proc/uptime';
my $run = DcChaos->new($seed);
my $end = time + ($ENV{CHAOS_TIME} || 120);    # from when all is there
my %faults = faults();
my @wanted = defined $ENV{DC_CHAOS_FAULTS} ? split(/;/, $ENV{DC_CHAOS_FAULTS}) : sort keys %faults;
my @gremlins = ('signals', 'rewrites', 'alters', 'snapshot', 'maintenance');
my @deck;
my $good = 1;

# The end takes some time as well
do
{
	@deck = shuffle(grep { $run->{clock} || !/clock/ } @wanted) if !@deck;
	my $name = shift @deck;
	my ($fault, @with) = @{ $faults{$name} // die "no fault $name" };

	push @with, pick(@gremlins) if chance(0.6) && !defined $ENV{DC_CHAOS_FAULTS};
	push @with, split(/;/, $ENV{DC_CHAOS_WITH} // '');
	$good = $run->round($name, $fault, @with);
} while ($good && time < $end - 12);
$run->finish if $good;
note(join(', ', map { "$_: $run->{seen}{$_}" } sort keys %{ $run->{seen} }));
$run->{node}->stop('immediate');
done_testing();
