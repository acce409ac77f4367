# The SQL in README.md and doc/*.md.
package DcDoc;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;

our @EXPORT = qw(blocks compared results steps);

my $mark = '@@';

# blocks(FILE): { line, mark ("sql", "sql preload error" ...), text, section } of each block of
# SQL. A section is the text of the last heading before it. A block for one of several servers, marked
# "sql on eu" or "sql on all", has where => 'eu' and the mark "sql".
sub blocks
{
	my ($file) = @_;

	return grep { $_->{mark} =~ /sql/i } parts($file);
}

# steps(FILE): in the order of the page, the blocks for one of several servers, of SQL and of the shell ("sh on
# eu"); and steps that only the test does, which a reader does not see: mark "test", from a comment
# <!-- test: ... -->
sub steps
{
	my ($file) = @_;

	return grep { $_->{where} || $_->{mark} eq 'test' } parts($file);
}

sub parts
{
	my ($file) = @_;
	my ($line, $section, @blocks, $fence) = (0, '');

	foreach (split /^/, slurp_file($file))
	{
		$line++;
		if (defined $fence)
		{
			# the end is a fence of its own kind and at least its length
			if (/^\s*(`{3,}|~{3,})\s*$/ && index($1, $fence) == 0)
			{
				undef $fence;
				next;
			}
			$blocks[-1]{text} .= $_;
		}
		elsif (/^\s*(`{3,}|~{3,})\s*(.*?)\s*$/)
		{
			$fence = $1;
			push @blocks, { line => $line, mark => $2, text => '', section => $section };
			$blocks[-1]{where} = $1 if $blocks[-1]{mark} =~ s/^(?:sql|sh)\K on (\w+)$//;
		}
		elsif (/^<!-- test: (.*) -->$/)
		{
			push @blocks, { line => $line, mark => 'test', text => $1, section => $section };
		}
		elsif (/^#+\s+(.*?)\s*$/)
		{
			$section = $1;
		}
	}
	die "$file: a block without end" if defined $fence;
	return @blocks;
}

# compared(SQL): the same, with the result that is expected before each statement that says so in a
# comment after it. For statements without a relevant result, the comment is only a remark.
sub compared
{
	my ($sql) = @_;

	$sql =~ s{^(SELECT (?!dc_(?:create|bind|incr|alter|flush|account_open|consumer_create|seek)\b).*;)[ \t]+-- (.*)$}{
		my ($statement, $result) = ($1, $2);

		$result =~ s/(['\\])/\\$1/g;
		"\\echo '$mark $result'\n$statement\n\\echo $mark"
	}mge;
	return $sql;
}

# results(OUTPUT): [expected, got] of each. What follows a colon and a space in the comment explains
sub results
{
	my ($out) = @_;
	my @results;

	while ($out =~ /^$mark (.*)\n((?s:.*?))^$mark$/mg)
	{
		my ($expected, $got) = ($1, $2);

		$expected =~ s/: .*//;
		$expected = '' if $expected eq 'no rows';
		chomp $got;
		$got =~ s/\bt\b/true/g if $expected eq 'true';
		$got =~ s/\bf\b/false/g if $expected eq 'false';
		push @results, [ $expected, join("\n", map { s/\|/, /gr } split /\n/, $got) ];
	}
	return @results;
}

1;
