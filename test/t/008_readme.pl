# The SQL in README.md and doc/*.md works as written: the blocks marked "sql" of
# a file run in order in a fresh database, and those marked "sql error" fail. A
# file with blocks marked "sql preload" runs on a server that has dcounter
# preloaded; without these blocks, and a file of nothing else, on one that has not.
# Roles are shared by databases, so what a file creates of these is dropped.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# blocks(FILE): [line, mark ("sql", "sql preload error" ...), text] of each block
sub blocks
{
	my ($file) = @_;
	my ($line, @blocks, $fence) = (0);

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
			$blocks[-1][2] .= $_;
		}
		elsif (/^\s*(`{3,}|~{3,})\s*(.*?)\s*$/)
		{
			$fence = $1;
			push @blocks, [ $line, $2, '' ];
		}
	}
	die "$file: a block without end" if defined $fence;
	return grep { $_->[1] =~ /sql/i } @blocks;
}

my $top = $ENV{TESTDIR};
my @files = grep { -e } "$top/README.md", sort glob("$top/doc/*.md");
my $plain = dc_node('readme', extension => 0);
my $preloaded = dc_node('preloaded', extension => 0,
	conf => [ q{shared_preload_libraries = 'dcounter'} ]);
my $n = 0;

# run(NODE, FILE, BLOCKS): tests
sub run
{
	my ($node, $file, @blocks) = @_;
	my $database = 'doc' . ++$n;
	my $roles = sql($node, 'postgres', 'SELECT rolname FROM pg_roles');

	sql($node, 'postgres', "CREATE DATABASE $database TEMPLATE template0");
	sql($node, $database, 'CREATE EXTENSION dcounter')
	  unless grep { $_->[2] =~ /CREATE EXTENSION (IF NOT EXISTS )?dcounter/i } @blocks;
	foreach my $block (@blocks)
	{
		my ($line, $mark, $sql) = @$block;
		my ($status, $out, $err) = $node->psql($database, $sql);
		my $name = "$file:$line" . ($node == $preloaded ? ', preloaded' : '');

		note("$name\n$sql$out");
		if ($mark =~ /^sql( preload)?$/)
		{
			is($status, 0, $name) or diag($err);
		}
		elsif ($mark =~ /^sql( preload)? error$/)
		{
			is($status, 3, "$name fails") or diag($err);
			unlike($err, qr/syntax error|XX000/, "$name fails on purpose");
		}
		else
		{
			fail("$name: unknown kind of block \"$mark\"");
		}
	}

	sql($node, 'postgres', "DROP DATABASE $database");
	foreach my $role (split /\n/, sql($node, 'postgres', 'SELECT rolname FROM pg_roles'))
	{
		sql($node, 'postgres', qq{DROP ROLE "$role"}) if $roles !~ /^\Q$role\E$/m;
	}
}

foreach my $path (@files)
{
	(my $file = $path) =~ s{^\Q$top\E/}{};
	my @blocks = blocks($path);
	my @without = grep { $_->[1] !~ /preload/ } @blocks;

	run($plain, $file, @without) if @without > 0;
	run($preloaded, $file, @blocks) if @without < @blocks;
}

SKIP:
{
	skip 'there is no README.md', 1 if !-e "$top/README.md";
	cmp_ok(scalar(blocks("$top/README.md")), '>', 0, 'README.md has SQL');
}

$plain->stop;
$preloaded->stop;
done_testing();
