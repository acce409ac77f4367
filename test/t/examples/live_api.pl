# The live page's server as a client sees it: each answer that it gives, a herd of readers, a thousand sockets.
use strict;
use warnings;

use DcLive;
use DcTest;
use HTTP::Tiny;
use IO::Socket::INET;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $missing = live_missing();
plan skip_all => $missing if $missing;

my $node = live_node('api');
# a socket that does not read for a while is not taken for dead, however slow the machine is
sql($node, 'postgres', q{SELECT dc_presence_alter('viewers', ttl => '1 h')});
my $server = live_server($node, BEAT => 1000);
my $http = HTTP::Tiny->new;
my $counter = "$server->{url}post/counter";

# answer_is(NAME, STATUS, ANSWER): a test; and an error is said in JSON
sub answer_is
{
	my ($name, $status, $answer) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($answer->{status}, $status, $name) or diag($answer->{content});
	like(eval { decode_json($answer->{content})->{error} } // '', qr/\w/, "$name, and says why") if $status >= 400;
	return $answer;
}

sub put
{
	my ($url, $content, %headers) = @_;

	return $http->put($url, { content => $content, headers => { 'Content-Type' => 'application/json', %headers } });
}

# values
my $answer = answer_is('a page that nobody liked', 200, $http->get($counter));
is($answer->{content}, '{"count":0,"updated_at":null}', 'has none');
is($answer->{headers}{'cache-control'}, 'max-age=1, stale-while-revalidate=5', 'may be cached for a moment');
$answer = answer_is('a like', 200, put_click($counter));
is(decode_json($answer->{content})->{count}, 1, 'counts');
like($answer->{content}, qr/"updated_at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"/, 'with its time');
my $tag = $answer->{headers}{etag};
ok(until_true(sub { return ($http->get($counter)->{headers}{etag} // '') eq $tag }), 'is read within a moment, with the same ETag');
foreach my $known ($tag, "W/$tag", qq{"other", $tag}, '*')
{
	$answer = answer_is("known as $known", 304, $http->get($counter, { headers => { 'If-None-Match' => $known } }));
	is($answer->{content} . $answer->{headers}{etag}, $tag, 'no content, the same ETag');
}
answer_is('known as another', 200, $http->get($counter, { headers => { 'If-None-Match' => '"other"' } }));
$answer = answer_is('HEAD', 200, $http->head($counter));
is($answer->{content} . $answer->{headers}{etag}, $tag, 'has no content');
$answer = answer_is('a like is taken back', 200, put_click($counter, undef, 'decrement'));
isnt($answer->{headers}{etag}, $tag, 'another value, another ETag');
is(sql($node, 'postgres', q{SELECT dc_get('likes', 'post')}), '0', 'counted');
my $minutes = decode_json(answer_is('the last hour', 200, $http->get("$server->{url}post/minutes"))->{content});
cmp_ok(scalar(@{ $minutes->{counts} }), '>=', 60, 'by the minute');
is(eval join('+', @{ $minutes->{counts} }), 1, 'has the like');

# once
is(decode_json(put_click($counter, 'key-1')->{content})->{count}, 1, 'a click with a key') foreach 1 .. 3;
answer_is('the same key for something else', 422, put_click($counter, 'key-1', 'decrement'));
answer_is('the same key for another page', 422, put_click("$server->{url}other/counter", 'key-1'));
answer_is('a key that is too old', 422, put_click($counter, '01700000-0000-7000-8000-000000000000'));
answer_is('a key that is too long', 400, put_click($counter, 'k' x 201));
is(sql($node, 'postgres', q{SELECT dc_get('likes', 'post'), dc_get('likes', 'other')}), '1|0', 'counted once');

# what cannot be
answer_is("as content: $_", 400, put($counter, $_)) foreach '', '{', 'null', '[]', '"increment"', '{"action":"constructor"}', '{"action":2}';
answer_is("as a page: $_", 400, $http->get("$server->{url}$_/counter")) foreach '%FF', '%', '%00', 'x' x 201, '%C3%A4' x 101;
answer_is("a page of 200 bytes", 200, $http->get($server->{url} . '%C3%A4' x 100 . '/counter'));
answer_is("at $_", 404, $http->get("$server->{url}$_")) foreach 'nothing', 'a/b', 'post/counter/x', '/counter', 'server.mjs';
$answer = answer_is('DELETE', 405, $http->delete($counter));
is($answer->{headers}{allow}, 'GET, HEAD, PUT', 'with what is allowed');
answer_is('PUT of the last hour', 405, put("$server->{url}post/minutes", '{}'));
answer_is('too much', 413, put($counter, '{"action":"' . 'x' x 1100 . '"}'));
answer_is("as $_", 415, put($counter, '{"action":"increment"}', 'Content-Type' => $_)) foreach 'text/plain', 'application/x-www-form-urlencoded', 'application/jsonx';
answer_is('with a parameter', 200, put($counter, '{"action":"increment"}', 'Content-Type' => 'application/json; charset=utf-8'));

# too often
sql($node, 'postgres', q{SELECT dc_limit_alter('clicks', rate => 1, burst => 1)});
my $refused;
ok(until_true(sub { return ($refused = put_click("$server->{url}busy/counter"))->{status} != 200 }), 'clicks come to an end');
answer_is('too often', 429, $refused);
like($refused->{headers}{'retry-after'}, qr/^[1-9]\d*$/, 'with the time to wait');
answer_is('but reading goes on', 200, $http->get($counter));
sql($node, 'postgres', q{SELECT dc_limit_alter('clicks', rate => 100000, burst => 100000)});

# a herd, at two servers
my $second = live_server($node);
sql($node, 'postgres', q{SELECT dc_incr('likes', 'herd', 42)});
my $misses = q{SELECT cache_misses FROM dc_stat_counters WHERE counter::text = 'likes'};
my $before = sql($node, 'postgres', $misses);
my ($out, $err);
run_load('gets', 10000, 'herd/counter', $server->{url}, $second->{url});
my $herd = decode_json($out);
is_deeply($herd->{answers}, { '200 42' => 10000 }, '10,000 readers at once have the value');
my $computed = sql($node, 'postgres', $misses) - $before;
note(sprintf('computed %d times in %.1f s', $computed, $herd->{ms} / 1000));
cmp_ok($computed, '>=', 1, 'which was computed');
# a second old is too old
cmp_ok($computed, '<=', 2 + $herd->{ms} / 1000, 'at most once a second');
$second->stop;

sub run_load
{
	$out = '';
	return IPC::Run::run([ 'node', "$ENV{TESTDIR}/test/live/load.mjs", @_ ], '<', \undef, '>', \$out, '2>', \$err);
}

# sockets
is($_->(), 'HTTP/1.1 101', 'a socket from the page itself') foreach map { my $origin = $_; sub { handshake($origin) } } '', "http://127.0.0.1:$server->{port}";
is(handshake('http://elsewhere.example'), 'HTTP/1.1 401', 'not from another site');

sub handshake
{
	my ($origin) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$server->{port}") or return "$!";

	print $socket "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:$server->{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
	  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", $origin ? "Origin: $origin\r\n" : '', "\r\n";
	return substr(scalar(<$socket>), 0, 12);
}

run_load('refused', $server->{url}, '{', 'null', '{"subscribe":["a"]}', '{"subscribe":"a","viewer":"v"}', '{"subscribe":[""],"viewer":"v"}',
	'{"subscribe":[1],"viewer":"v"}', '{"subscribe":["a"],"viewer":"' . 'v' x 65 . '"}', encode_json({ subscribe => [ 1 .. 51 ], viewer => 'v' }),
	encode_json({ subscribe => [ map { "$_" } 1 .. 51 ], viewer => 'v' }), 'x' x 20000);
is($out, "1008\n" x 9 . "1009\n", 'sockets that make no sense are closed');
answer_is('the server is still there', 200, $http->get($counter));

my ($in, $ready) = ('', '');
my $sockets = IPC::Run::start([ 'node', "$ENV{TESTDIR}/test/live/load.mjs", 'sockets', $server->{url}, 'arena', 1000 ], '<', \$in, '>', \$ready, '2>', \$err,
	IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
$sockets->pump until $ready =~ /\n/ || !$sockets->pumpable;
is($ready, qq{"ready"\n}, '1,000 sockets have a value') or diag($err);
is(wait_for($node, 'postgres', q{SELECT dc_present('viewers', 'arena')}, '901'), '901', 'a viewer with 100 of them is one, and keeps out nobody');
sql($node, 'postgres', q{DO $$ BEGIN FOR i IN 1..500 LOOP PERFORM dc_incr('likes', 'arena'); COMMIT; END LOOP; END $$});
($in, $ready) = (sql($node, 'postgres', q{SELECT dc_get('likes', 'arena')}) . "\n", '');
$sockets->pump until $ready =~ /\n/ || !$sockets->pumpable;
like($ready, qr/"sockets":1000/, 'all have the last value of 500, slow ones, too') or diag($err);
note($ready);
$in = '';
$sockets->kill_kill;
is(wait_for($node, 'postgres', q{SELECT dc_present('viewers', 'arena')}, '0'), '0', 'and all are gone');

# Listen, then read, then events: the connection that listens is lost, and there are changes before the next one is made, and while that
# reads. What it has read is held back until the latter was notified.
sql($node, 'postgres', q{
	SELECT dc_incr('likes', 'order');
	ALTER FUNCTION live_pages RENAME TO live_pages_at_once;
	CREATE FUNCTION live_pages(pages text[]) RETURNS TABLE (page text, count bigint, updated_at text, viewers bigint) LANGUAGE plpgsql AS $$
	BEGIN
		RETURN QUERY SELECT * FROM live_pages_at_once(pages);
		PERFORM pg_advisory_lock(27), pg_advisory_unlock(27);
	END $$});
my $counts = '';
my $watch = IPC::Run::start([ 'node', "$ENV{TESTDIR}/test/live/load.mjs", 'watch', $server->{url}, 'order' ], '<', \undef, '>', \$counts, '2>', \$err);
my $sees = sub { my ($n) = @_; return until_true(sub { $watch->pump_nb; return $counts =~ /^$n$/m || !$watch->pumpable }) };
my $session = dc_session($node, 'postgres');
ok($sees->(1), 'a page is looked at');
$session->run('SELECT pg_advisory_lock(27)');
$session->run('LISTEN likes');
sql($node, 'postgres', q{SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE usename = 'web'; SELECT dc_incr('likes', 'order')});
is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'web' AND wait_event = 'advisory'}, '1'), '1', 'it is read again');
sql($node, 'postgres', q{SELECT dc_incr('likes', 'order')});
ok(until_true(sub { return $session->run('SELECT 1') =~ /"key": "order", "value": 3,/ }), 'while that takes a while, a change is told');
$session->run('SELECT pg_advisory_unlock(27)');
ok($sees->(3), 'it is seen') or diag($counts);
# an event that was made before, and comes late
sql($node, 'postgres', q{SELECT pg_notify('likes', '{"key": "order", "value": 1, "updated_at": "2001-02-03T04:05:06.7+00:00"}'); SELECT dc_incr('likes', 'order')});
ok($sees->(4), 'and the next one');
is($counts, join('', sort split /^/, $counts), 'after what was read');
$watch->kill_kill;
$session->quit;

IPC::Run::run([ 'node', "$ENV{TESTDIR}/test/live/outlet.mjs" ], '>', \$out, '2>', \$err);
is($out, "[0]\n[0] [1000,-1000] [7]\n", 'a slow socket is told the newest values, in one message');

my ($block) = slurp_file("$ENV{TESTDIR}/doc/live-server.md") =~ /^```sql preload\n(.*?)^```$/ms;
like(slurp_file("$ENV{TESTDIR}/examples/live/schema.sql"), qr/\Q$block\E/, 'doc/live-server.md has the schema');

# without a table, without a database
sql($node, 'postgres', q{ALTER TABLE likes RENAME TO hearts});
answer_is('no such counter', 404, $http->get($counter));
answer_is('not to be written either', 404, put_click($counter));
sql($node, 'postgres', q{ALTER TABLE hearts RENAME TO likes});
answer_is('it is there again', 200, $http->get($counter));
$node->stop;
foreach my $away (answer_is('no database to read', 503, $http->get($counter)), answer_is('nor to write', 503, put_click($counter)))
{
	is($away->{headers}{'retry-after'}, '1', 'with the time to wait');
}
answer_is('the page itself is there', 200, $http->get($server->{url}));
$node->start;
answer_is('it is back', 200, $http->get($counter));

$server->stop;
$node->stop;
done_testing();
