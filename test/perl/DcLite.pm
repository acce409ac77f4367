# dcounter_lite in the TAP tests: installing it, and running the regression tests of the extension on it.
package DcLite;

use strict;
use warnings;

use Cwd qw(abs_path);
use PostgreSQL::Test::Utils;
use Exporter 'import';
use File::Temp qw(tempdir);
use IPC::Run ();

our @EXPORT = qw(lite_file lite_install lite_regress statements_of differences_of);

# The folder of the tree
my $tree = $ENV{TESTDIR} // abs_path('.');
my $build;

# lite_file(FORM): the file of a form, made from the parts of the tree: '' (for psql and CREATE EXTENSION), '-tle' or '-upgrade'
sub lite_file
{
	my ($form) = @_;

	if (!$build)
	{
		$build = tempdir(CLEANUP => 1);
		system('bash', "$tree/lite/build.sh", $build) == 0 or die "lite/build.sh failed";
	}
	my ($file) = glob "$build/dcounter_lite$form--*.sql";
	return $file;
}

# lite_install(NODE, DATABASE [, ROLE]): as doc/lite.md says
sub lite_install
{
	my ($node, $database, $role) = @_;

	my ($out, $errors);

	IPC::Run::run([ 'psql', '-XAtq1', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($database) . ($role ? " user=$role" : ''), '-f', lite_file('') ],
		'<', '/dev/null', '>', \$out, '2>', \$errors)
	  or die "dcounter_lite: $errors";
	return;
}

# lite_regress(NODE, DATABASE, NAME): the output of a regression test, as pg_regress runs it, without contexts: these name functions of dcounter_lite. Times
# and OIDs in messages are the same in each run
sub lite_regress
{
	my ($node, $database, $name) = @_;
	my $out;

	local $ENV{PGTZ} = 'America/Los_Angeles';
	local $ENV{PGDATESTYLE} = 'Postgres, MDY';
	local $ENV{PGOPTIONS} = '-c intervalstyle=postgres_verbose';
	local $ENV{PG_ABS_SRCDIR} = "$tree/test";
	IPC::Run::run(
		[ 'psql', '-X', '-a', '-q', '-v', 'HIDE_TABLEAM=on', '-v', 'HIDE_TOAST_COMPRESSION=on', '-v', 'SHOW_CONTEXT=never', '-d', $node->connstr($database) ],
		'<', "$tree/test/sql/$name.sql", '>&', \$out);
	# 19 says more of a function that does not exist
	$out =~ s/^DETAIL:  There is no function of that name\.$/HINT:  No function matches the given name and argument types. You might need to add explicit type casts./mg;
	return $out =~ s/(?<=null, null, )\w{3} \w{3} \d\d [\d:.]+ \d{4} \w+/(a time)/gr =~ s/(?<=at or near ")\d+/(an OID)/gr;
}

# input_lines(FILE): the lines that psql is given and repeats, so not the empty ones, nor data of a COPY, nor where it is told not to; those of included files in their place
sub input_lines
{
	my ($file) = @_;
	my @lines;
	my $echo = 1;
	my $data = 0;

	foreach my $line (split /\n/, slurp_file($file))
	{
		push @lines, $line if $echo && !$data && $line ne '';
		$data = $line =~ /^COPY .* FROM stdin/i || $data && $line ne '\\.';
		$echo = $1 eq 'all' if $line =~ /^\\set ECHO (\w+)/;
		push @lines, input_lines("$tree/test/$1") if $line =~ /^\\i (\S+)/;
	}
	return @lines;
}

# statements_of(NAME, OUTPUT): pairs of a line that psql was given, and what it has answered; contexts are left out
sub statements_of
{
	my ($name, $output) = @_;
	my @input = input_lines("$tree/test/sql/$name.sql");
	my @pairs;
	my $context = 0;

	foreach my $line (split /\n/, $output)
	{
		if (@pairs < @input && $line eq $input[@pairs])
		{
			push @pairs, [ $line, '' ];
			$context = 0;
			next;
		}
		$context = 1 if $line =~ /^CONTEXT:/;
		$context = 0 if $context && $line !~ /^(CONTEXT:|PL\/pgSQL function|SQL (statement|function)|\s)/;
		$pairs[-1][1] .= "$line\n" unless $context;
	}
	die "$name: after \"$pairs[-1][0]\": " . @pairs . ' of ' . @input . ' lines were found in the output' if @pairs != @input;
	return @pairs;
}

# differences_of(NAME, OUTPUT): lines that dcounter_lite answers otherwise than expected/NAME.out says: [line, wanted, got]
sub differences_of
{
	my ($name, $output) = @_;
	my @wanted = statements_of($name, slurp_file("$tree/expected/$name.out"));
	my @got = statements_of($name, $output);

	return map { [ $wanted[$_][0], $wanted[$_][1], $got[$_][1] ] } grep { $wanted[$_][1] ne $got[$_][1] } 0 .. $#wanted;
}

1;
