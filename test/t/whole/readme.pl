# The SQL in README.md and doc/*.md works as written: the blocks marked "sql" of
# a file run in order in a fresh database, and those marked "sql error" fail. A
# file with blocks marked "sql preload" runs on a server that has dcounter
# preloaded; without these blocks, and a file of nothing else, on one that has not.
# Blocks for one of several servers ("sql on eu") have a test of their own, crdt/crdt_example.pl.
# Roles are shared by databases, so what a file creates of these is dropped.
use strict;
use warnings;

use DcDoc;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my @files = grep { -e } "$top/README.md", sort glob("$top/doc/*.md");
# no autovacuum, whose lock may be waited for longer than a function does
my $plain = dc_node('readme', extension => 0, conf => ['autovacuum = off']);
my $preloaded = dc_node('preloaded', extension => 0,
	conf => [ q{shared_preload_libraries = 'dcounter'}, 'autovacuum = off' ]);
my $n = 0;

# run(NODE, FILE, BLOCKS): tests
sub run
{
	my ($node, $file, @blocks) = @_;
	my $database = 'doc' . ++$n;
	my $roles = sql($node, 'postgres', 'SELECT rolname FROM pg_roles');

	sql($node, 'postgres', "CREATE DATABASE $database TEMPLATE template0");
	sql($node, $database, 'CREATE EXTENSION dcounter')
	  unless grep { $_->{text} =~ /CREATE EXTENSION (IF NOT EXISTS )?dcounter/i } @blocks;
	foreach my $block (@blocks)
	{
		my ($line, $mark, $sql) = @{$block}{qw(line mark text)};
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
	my @blocks = grep { !$_->{where} } blocks($path);
	my @without = grep { $_->{mark} !~ /preload/ } @blocks;

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
