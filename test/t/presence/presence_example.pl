# doc/presence.md does what it says: where a statement has its result in a comment after it, that is the result.
use strict;
use warnings;

use DcDoc;
use DcLimit;
use DcTest;
use Test::More;

my $page = "$ENV{TESTDIR}/doc/presence.md";
my $node = limit_node('example');
my $compared = 0;

foreach my $block (grep { $_->{mark} eq 'sql preload' } blocks($page))
{
	my ($status, $out, $err) = $node->psql('postgres', "\\pset null ''\n" . compared($block->{text}));

	is($status, 0, "line $block->{line} runs") or diag($err);
	foreach my $result (results($out))
	{
		my ($expected, $got) = @$result;

		$got =~ s/(^|, )t(?=,|$)/$1true/g;
		$got =~ s/(^|, )f(?=,|$)/$1false/g;
		is($got, $expected, "line $block->{line}: as it says");
		$compared++;
	}
}
is($compared, 16, 'results were compared');
sql($node, 'postgres', q{SELECT dc_enter('game', 'lobby', 'ann'); CALL dc_maintain()});
is(sql($node, 'postgres', q{SELECT array_agg(k ORDER BY k) FROM dcounter.outbox, jsonb_object_keys(payload) AS k WHERE type = 'presence.changed' AND aggregatetype = 'game' AND aggregateid = 'lobby'}),
	'{count,epoch,joined,left,presence,room,version}', 'an event as it is described');
$node->stop;
done_testing();
