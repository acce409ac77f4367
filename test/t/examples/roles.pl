# doc/roles.md: what its roles are granted is enough for what the page has them do, and nothing of it is too much. The blocks that
# begin with SET ROLE are run by a session of that role, which has nothing but the grants of the page. Then each
# grant is revoked alone, after which the same block fails or returns something else.
use strict;
use warnings;

use DcDoc;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('roles', init => { allows_streaming => 'logical' }, conf => [ q{shared_preload_libraries = 'dcounter'} ]);
my (%grants, $uses, $taken);

# done(ROLE, TEXT): the block's results, of a session of the role, and its expected results; or its
# error
sub done
{
	my ($role, $text) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "SET SESSION AUTHORIZATION $role;\n" . compared($text));
	my @results = map { [ $_->[0], $_->[1] eq 't' ? 'true' : $_->[1] eq 'f' ? 'false' : $_->[1] ] } results($out);

	return $status ? ($err, '') : map { my $n = $_; join "\n", map { $_->[$n] } @results } 1, 0;
}

# each(GRANT): [ statement that takes it back, statement that gives it again ] for each right in it
sub each_right
{
	my ($grant) = @_;

	if (my ($rights, $on, $role) = $grant =~ /^GRANT ([A-Z, ]+) ON (.*) TO (\w+);/)
	{
		return map { [ "REVOKE $_ ON $on FROM $role", "GRANT $_ ON $on TO $role" ] } split /, /, $rights;
	}
	return [ "REVOKE $1 FROM $2", $grant ] if $grant =~ /^GRANT (\w+) TO (\w+);/;
	return [ "SELECT dc_$1_revoke($2)", $grant ] if $grant =~ /^SELECT dc_(\w+)_grant\((.*)\);/;
	return;
}

foreach my $block (blocks("$ENV{TESTDIR}/doc/roles.md"))
{
	my $name = "line $block->{line}";

	if ($block->{text} !~ s/^SET ROLE (\w+);\n//)
	{
		sql($node, 'postgres', $block->{text});
		push @{ $grants{$1} }, $& while $block->{text} =~ /^(?:GRANT .* TO|SELECT dc_\w+_grant\('\w+',) '?(\w+)'?\)?;/mg;
		next;
	}
	my $role = $1;
	my ($got, $expected) = done($role, $block->{text});

	$uses++;
	is($got, $expected, "$name: $role may do that");
	foreach my $right (map { each_right($_) } @{ $grants{$role} })
	{
		sql($node, 'postgres', $right->[0]);
		($got) = done($role, $block->{text});
		isnt($got, $expected, "$name: $role may not after $right->[0]");
		like($got, qr/permission denied|must be owner|must have|not allowed|privilege/, 'and is told so') if $got =~ /ERROR/;
		sql($node, 'postgres', $right->[1]);
		$taken++;
	}
}
cmp_ok($uses, '>=', 14, 'products are used');
cmp_ok($taken, '>=', 35, 'rights are taken back');
$node->stop;
done_testing();
