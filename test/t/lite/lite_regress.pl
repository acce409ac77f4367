# The regression tests of the extension on dcounter_lite. Its outputs are those of expected/lite. Each line that it answers otherwise than the extension is
# in the list of differences with its reason, and each in the list is one; doc/lite.md tells users of each reason.
use strict;
use warnings;

use DcTest;
use DcLite;
use PostgreSQL::Test::Utils;
use Test::More;

my @tests = qw(behaviour_plain behaviour_partitioned create load compact stock once);

# [REASON] and its text, then the lines: TEST: LINE
my (%reason, %listed, %texts);
my $section;
foreach my $line (split /\n/, slurp_file("$ENV{TESTDIR}/test/lite/differences"))
{
	next if $line =~ /^(#|$)/;
	if ($line =~ /^\[(\w+)\] (.+)$/)
	{
		($section, $texts{$1}) = ($1, $2);
		next;
	}
	my ($test, $statement) = $line =~ /^(\w+): (.*)$/ or die "differences: $line";
	$listed{$test}{$statement} = 0;
	$reason{"$test: $statement"} = $section;
}

my $node = dc_node('lite', extension => 0);
my $answers = 0;
foreach my $test (@tests)
{
	my $list = $listed{ $test =~ s/^behaviour_.*/behaviour/r } // {};
	my $kept = "$ENV{TESTDIR}/expected/lite/$test.out";

	sql($node, 'postgres', "CREATE DATABASE lite_$test");
	lite_install($node, "lite_$test");
	sql($node, "lite_$test", slurp_file("$ENV{TESTDIR}/test/lite/views.sql"));
	my $output = lite_regress($node, "lite_$test", $test);
	mkdir $_ foreach 'results', 'results/lite';
	append_to_file("results/lite/$test.out", $output);
	is($output, -e $kept ? slurp_file($kept) : '', "$test: the output is as it was");

	my @new;
	foreach my $difference (differences_of($test, $output))
	{
		my ($line, $wanted, $got) = @$difference;
		$answers++;
		if (exists $list->{$line}) { $list->{$line}++ }
		else { push @new, "$line\n--- dcounter\n$wanted--- dcounter_lite\n$got" }
	}
	is(join("\n", @new), '', "$test: each difference is in the list, with its reason");
}
foreach my $test (sort keys %listed)
{
	is(join("\n", grep { !$listed{$test}{$_} } sort keys %{ $listed{$test} }), '', "$test: each in the list is a difference");
}
cmp_ok($answers, '>', 0, "$answers answers differ in all");

# The page has the reasons, word for word
my $page = slurp_file("$ENV{TESTDIR}/doc/lite.md") =~ s/\s+/ /gr;
foreach my $name (sort keys %texts)
{
	ok(index($page, $texts{$name}) >= 0, "doc/lite.md says: $texts{$name}") if $name ne 'follows';
}

done_testing();
