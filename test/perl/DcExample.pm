# The programs in examples/, and their environment.
package DcExample;

use strict;
use warnings;

use DcTest;
use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(example with_modules url_of run_example tour_is under_load left_as_it_should);

# example(PATH): where a file of examples/ is
sub example
{
	return "$ENV{TESTDIR}/examples/$_[0]";
}

# with_modules(LANGUAGE, MODULE...): the program that runs a language and finds these modules; undef, and it says so,
# if there is none
sub with_modules
{
	my ($language, @modules) = @_;
	my %tries = (
		# that of the packages, not one that was built from source
		python => [ [ '/usr/bin/python3', 'python3' ], sub { ('-c', join '; ', map { "import $_" } @_) } ],
		ruby => [ [ '/usr/bin/ruby', 'ruby' ], sub { ('-e', join '; ', map { "require '$_'" } @_) } ],
		# where it looks for modules follows from where the script is
		node => [ [ 'node', 'nodejs' ], sub { ('-e', join '; ', map { "require('" . example("node/node_modules/$_") . "')" } @_) } ]);
	my ($programs, $arguments) = @{ $tries{$language} };

	foreach my $program (@$programs)
	{
		return $program if eval { IPC::Run::run([ $program, $arguments->(@modules) ], '<', \undef, '>&', \my $out) };
	}
	note("no $language with " . join(' and ', @modules) . ' here');
	return undef;
}

# url_of(NODE, DATABASE): as all drivers understand it
sub url_of
{
	my ($node, $database) = @_;

	return "postgresql:///$database?host=" . $node->host . '&port=' . $node->port;
}

# environment(NODE, DATABASE): by which clients find it that have no URL. Not all take the user's name from the system.
sub environment
{
	my ($node, $database) = @_;

	return (PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => $database, PGUSER => scalar getpwuid($<),
		PYTHONDONTWRITEBYTECODE => 1);
}

# run_example(NODE, DATABASE, COMMAND...): what it prints; a test that it ends well
sub run_example
{
	my ($node, $database, @command) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	local %ENV = (%ENV, environment($node, $database));
	my $job = start_command(@command);
	my $name = join ' ', map { s/\?.*//sr =~ s{.*/(?=.)}{}r } @command;

	is(finish_job($job), 0, "$name ends well") or diag($job->{out} . $job->{err});
	return $job->{out};
}

# tour_is(NODE, SHOP, DATABASE, MODE): makes the tables of a shop in a new database, runs its tour, and compares what it prints, and
# what is in the tables then. MODE: how views are kept
sub tour_is
{
	my ($node, $shop, $database, $mode) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $name = "$shop->{name}, $mode";

	sql($node, 'postgres', "CREATE DATABASE $database");
	run_example($node, $database, @$_) foreach $shop->{make}->($database);
	is(run_example($node, $database, $shop->{tour}->($database)), $shop->{says}, "$name: its tour says what it should");
	is(sql($node, $database, q{SELECT mode FROM dc_tables WHERE name = 'public.views'}), $mode, "$name: how views are kept");
	is(sql($node, $database, qq{
		SELECT (SELECT string_agg(fan, ' ' ORDER BY fan) FROM $shop->{likes}), (SELECT string_agg(buyer, ' ') FROM $shop->{tickets}),
			dc_sum('post_likes'), dc_get('seats', 'opening night'), dc_get('views', 'home'), dc_get('messages', 'general')}),
		'ann|ann|1|1|3|2', "$name: the tables say the same");
	is(sql($node, $database, q{SELECT string_agg(state, ' ' ORDER BY state) FROM seats_hold}), 'confirmed released', "$name: both holds have ended");
	return;
}

# under_load(NODE, PROCESSES, ROUNDS, [SHOP, DATABASE]...): all shops' programs at once, each this
# many times. Each round likes as a fan whom all processes have, asks for a seat, and buys or gives
# it back, views a page, and writes a message.
sub under_load
{
	my ($node, $processes, $rounds, @shops) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @jobs;

	foreach my $entry (@shops)
	{
		my ($shop, $database) = @$entry;
		local %ENV = (%ENV, environment($node, $database));

		push @jobs, map { [ "$shop->{name} $_", $database, start_command($shop->{load}->($database, $_, $rounds)) ] } 1 .. $processes;
	}
	my %sums;
	foreach my $entry (@jobs)
	{
		my ($name, $database, $job) = @$entry;

		is(finish_job($job), 0, "$name comes to its end") or diag($job->{err});
		my ($new, $bought, $released, $refused) = $job->{out} =~ /^new (\d+) bought (\d+) released (\d+) refused (\d+)$/;

		$sums{$database}{new} += $new // 0;
		$sums{$database}{bought} += $bought // 0;
		$sums{$database}{asked} += ($bought // 0) + ($released // 0) + ($refused // 0);
	}
	return \%sums;
}

# left_as_it_should(NODE, SHOP, DATABASE, SUMS, ROUNDS, IN ALL, STOCK): what under_load() must leave: IN ALL rounds of all processes of
# a database
sub left_as_it_should
{
	my ($node, $shop, $database, $sums, $rounds, $all, $stock) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $name = $shop->{name};

	is($sums->{asked}, $all, "$name: each round asked for a seat");
	is($sums->{new}, $rounds, "$name: each fan was told once that their like is new");
	is(sql($node, $database, qq{SELECT count(*), dc_get('post_likes', 1) FROM $shop->{likes} WHERE post_id = 1}), "$rounds|$rounds", "$name: likes are exact");
	is(sql($node, $database, q{SELECT count(*) FROM dc_source_check('post_likes')}), '0', "$name: the counter is the number of rows");
	is(sql($node, $database, qq{SELECT count(*) FROM $shop->{tickets}}), $sums->{bought}, "$name: who was told to have bought has a ticket");
	is(sql($node, $database, qq{SELECT count(*) + dc_get('seats', 'last night') FROM $shop->{tickets}}), $stock, "$name: seats are sold, or left");
	is(sql($node, $database, q{SELECT dc_get('seats', 'last night') >= 0, count(*) FROM dc_holds('seats')}), 't|0', "$name: none is oversold, no hold is left");
	is(sql($node, $database, q{SELECT dc_get('views', 'page')}), $all, "$name: views are exact");
	is(sql($node, $database, qq{SELECT count(*), dc_get('messages', 'load') FROM $shop->{messages} WHERE channel = 'load'}), "$all|$all", "$name: so are messages");
	return;
}

1;
