# Owners who do their worst to their own tables, of all rooms, while they are used
# (DcHostile.pm), for OWNERS_TIME seconds (60). DC_SEED=N repeats the choices of a run that
# failed, OWNERS_WITHOUT='sleep;cursor;types' leaves out what they do (DcHostile/Code.pm) and
# what they alter (DcHostile/Ddl.pm), OWNERS_ROUNDS='attack;restart' takes these rounds only.
use strict;
use warnings;

use DcChaos::Mix;
use DcHostile;
use DcTest;
use List::Util qw(shuffle);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $seed = $ENV{DC_SEED} // int(rand(1e9));

srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $run = DcHostile->new($seed);
my $end = time + ($ENV{OWNERS_TIME} || 60);    # from when all is there, which takes a slow machine a minute
my @rounds = $ENV{OWNERS_ROUNDS} ? split(/;/, $ENV{OWNERS_ROUNDS}) : ('attack', 'restart', 'restart under load', 'silent server', 'restart with a silent server');
my @deck;
my $good = 1;

do
{
	@deck = shuffle(@rounds) if !@deck;
	$good = $run->round(shift @deck);
} while ($good && time < $end - 10);
$run->finish;
note(join(', ', map { "$_: $run->{seen}{$_}" } sort keys %{ $run->{seen} }));
$run->{node}->stop('immediate');
done_testing();
