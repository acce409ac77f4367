# The SQL in README.md and doc/*.md.
package DcDoc;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;

our @EXPORT = qw(blocks);

# blocks(FILE): { line, mark ("sql", "sql preload error" ...), text, section } of each block of
# SQL. A section is the text of the last heading before it.
sub blocks
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
		}
		elsif (/^#+\s+(.*?)\s*$/)
		{
			$section = $1;
		}
	}
	die "$file: a block without end" if defined $fence;
	return grep { $_->{mark} =~ /sql/i } @blocks;
}

1;
