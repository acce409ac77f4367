# The SQL of doc/lite.md, which is for a server without the extension, and what PostgREST sends for its example. Moving is lite_adopt.pl's.
use strict;
use warnings;

use DcDoc;
use DcLite;
use DcTest;
use Test::More;

my $node = dc_node('lite', extension => 0);
lite_install($node, 'postgres');
foreach my $block (grep { ($_->{where} // '') eq 'lite' && $_->{section} ne 'When to move' } blocks("$ENV{TESTDIR}/doc/lite.md"))
{
	my ($status, $out, $err) = $node->psql('postgres', compared($block->{text}));

	is($status, 0, "line $block->{line}") or diag($err);
	is($_->[1], $_->[0], "line $block->{line}: $_->[0]") foreach results($out);
}

# As PostgREST documents it: a transaction, the role and the claims of the request, and the call with arguments out of the body
my $request = q{
	BEGIN;
	SELECT set_config('role', 'lite_anon', true), set_config('request.jwt.claims', '{"role":"lite_anon"}', true);
	SELECT set_config('search_path', '"api", "public"', true);
	WITH pgrst_source AS (
		SELECT "api"."like_post"("post" := (SELECT "post" FROM json_to_record('{"post": "post:42"}'::json) AS _("post" text))) AS pgrst_scalar)
	SELECT coalesce((json_agg(pgrst_source.pgrst_scalar) -> 0)::text, 'null') FROM pgrst_source;
	%s
	COMMIT};
my $value = sql($node, 'postgres', "SELECT dc_get('likes', 'post:42')");
like(sql($node, 'postgres', sprintf($request, '')), qr/^@{[ $value + 1 ]}$/m, 'a call over HTTP counts, and returns the value');
fails_with($node, 'postgres', sprintf($request, "INSERT INTO likes_shard VALUES ('post:42', 1, 1);"), '42501', 'and the anonymous role can do nothing else');
is(sql($node, 'postgres', "SELECT dc_get('likes', 'post:42')"), $value + 1, 'each call counts once');

done_testing();
