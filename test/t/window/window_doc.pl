# The blocks of SQL in doc/windows.md run.
use strict;
use warnings;

use DcDoc;
use DcTest;
use PostgreSQL::Test::Cluster;
use Test::More;

my $node = dc_node('doc', conf => ['autovacuum = off']);

foreach my $block (grep { $_->{mark} eq 'sql' } blocks("$ENV{TESTDIR}/doc/windows.md"))
{
	my ($status, $out, $err) = $node->psql('postgres', $block->{text});

	is($status, 0, "line $block->{line} runs") or diag($err);
}
is(sql($node, 'postgres', q{SELECT upper, dropped FROM dc_windows, dc_window('clicks', 'page 7', '1 day') WHERE windowed = 'clicks'::regclass}), '5|1', 'and counts');
is(sql($node, 'postgres', q{SELECT sum(value) FROM dc_buckets('views', 'page 7', now() - interval '30 days')}), '1', 'also by local days');

$node->stop;
done_testing();
