# dc_relay: its command line, what it writes in each format and to streams of Redis, where
# the extension and the role are unusual, and permanent errors. When it confirms
# what it has delivered is in relay/relay_delivery.pl.
use strict;
use warnings;

use DcRedis;
use DcRelay;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = relay_node();
my $dsn = $node->connstr('postgres');
my $folder = PostgreSQL::Test::Utils::tempdir();

##
## the command line

program_help_ok('dc_relay');
program_version_ok('dc_relay');
program_options_handling_ok('dc_relay');
foreach my $wrong ([], [ '--consumer', 'c', 'more' ], [ '--consumer', 'c', '--format', 'xml' ],
	[ '--consumer', 'c', '--batch', '0' ], [ '--consumer', 'c', '--wait', '1x' ])
{
	my $job = start_command('dc_relay', '-d', $dsn, @$wrong);

	is(finish_job($job), 1, "dc_relay @$wrong: fails");
	like($job->{err}, qr/try "dc_relay --help"/, "dc_relay @$wrong: says where help is");
}

##
## formats

# The last event is as one of a TRUNCATE: without a key.
consumer($_) foreach qw(json debezium redis kafka);
my @ids = split /\n/, query(q{
	BEGIN;
	SELECT dc_publish('orders', E'k\t"\\\\\n\x01é', 'created', '{"n": 1.50, "text": "a\nb\t\"c\" \\\\ é"}', '{"trace": "x"}');
	SELECT dc_publish('orders', '7a', 'deleted', NULL);
	COMMIT;
	INSERT INTO dcounter.outbox_0 VALUES (nextval('dcounter.outbox_seq'), now(), gen_random_uuid(), 'carts', NULL, 'truncate', 'null')
		RETURNING id});
my $now = query('SELECT extract(epoch FROM clock_timestamp())');
my $version = query(q{SELECT extversion FROM pg_extension WHERE extname = 'dcounter'});
is(scalar @ids, 3, 'three events');

# masked(TEXT): without what differs from run to run
sub masked
{
	my ($text) = @_;

	for my $i (0 .. $#ids)
	{
		$text =~ s/$ids[$i]/ID$i/g;
	}
	$text =~ s/("seq":)\d+/$1N/g;
	$text =~ s/("created_at":")\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}/$1TIME/g;
	$text =~ s/("ts_ms":)\d{13}\b/$1MS/g;
	$text =~ s/\$\d+\r\n\d+\r\n(?=\$\d+\r\n(?:key|type)\r\n)/SEQ\r\n/g;
	return $text;
}

my ($status, $out, $err) = run('json', '--once');
is("$status$err", '0', 'json');
is(masked($out), <<'END', 'json: the lines');
{"seq":N,"id":"ID0","topic":"orders","key":"k\t\"\\\n\u0001é","type":"created","payload":{"n": 1.50, "text": "a\nb\t\"c\" \\ é"},"headers":{"trace": "x"},"created_at":"TIME+00:00","attempt":1}
{"seq":N,"id":"ID1","topic":"orders","key":"7a","type":"deleted","payload":null,"headers":null,"created_at":"TIME+00:00","attempt":1}
{"seq":N,"id":"ID2","topic":"carts","key":null,"type":"truncate","payload":null,"headers":null,"created_at":"TIME+00:00","attempt":1}
END
my @seqs = map { value($_, 'seq') } split /^/, $out;
cmp_ok($seqs[0], '<', $seqs[1], 'json: in order');
cmp_ok($seqs[1], '<', $seqs[2], 'json: in order');
my ($created_at) = $out =~ /"created_at":"([^"]+)"/;
cmp_ok(abs(query("SELECT extract(epoch FROM '$created_at'::timestamptz)") - $now), '<', 3600, 'json: the time is in UTC');
is(scalar left('json'), 0, 'json: confirmed');

my $source = qq("source":{"version":"$version","connector":"dcounter","name":"debezium","ts_ms":MS,"snapshot":"false",)
  . q("db":"postgres","sequence":null,"schema":"dcounter","table":"outbox","txId":null,"lsn":null,"xmin":null},"op":"c","ts_ms":MS});
($status, $out, $err) = run('debezium', '--once', '--format', 'debezium');
is("$status$err", '0', 'debezium');
is(masked($out), <<"END", 'debezium: the lines');
{"before":null,"after":{"seq":N,"created_at":"TIMEZ","id":"ID0","aggregatetype":"orders","aggregateid":"k\\t\\"\\\\\\n\\u0001é","type":"created","payload":"{\\"n\\": 1.50, \\"text\\": \\"a\\\\nb\\\\t\\\\\\"c\\\\\\" \\\\\\\\ é\\"}","headers":"{\\"trace\\": \\"x\\"}"},$source
{"before":null,"after":{"seq":N,"created_at":"TIMEZ","id":"ID1","aggregatetype":"orders","aggregateid":"7a","type":"deleted","payload":null,"headers":null},$source
{"before":null,"after":{"seq":N,"created_at":"TIMEZ","id":"ID2","aggregatetype":"carts","aggregateid":null,"type":"truncate","payload":"null","headers":null},$source
END

# The envelope is what Debezium sends, and "after" is the row of the table.
my $columns = query(q{SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute
	WHERE attrelid = 'dcounter.outbox'::regclass AND attnum > 0 AND NOT attisdropped});
my $members = query('SELECT string_agg(key, \',\') FROM json_each($x$' . (split /^/, $out)[0] . '$x$::json->\'after\')');
is($members, $columns, 'debezium: all columns of dcounter.outbox');

sub bulk
{
	return join('', map { '$' . length($_) . "\r\n$_\r\n" } @_);
}

my $key = qq{k\t"\\\n\x01\xc3\xa9};
my $payload = qq({"n": 1.50, "text": "a\\nb\\t\\"c\\" \\\\ \xc3\xa9"});
my $length = length($ids[0]);
($status, $out, $err) = run('redis', '--once', '--format', 'redis');
is("$status$err", '0', 'redis');
is(masked($out),
	"*15\r\n" . bulk('XADD', 'orders', '*', 'id') . "\$$length\r\nID0\r\n" . bulk('seq') . "SEQ\r\n"
	  . bulk('key', $key, 'type', 'created', 'payload', $payload, 'headers', '{"trace": "x"}')
	  . "*11\r\n" . bulk('XADD', 'orders', '*', 'id') . "\$$length\r\nID1\r\n" . bulk('seq') . "SEQ\r\n"
	  . bulk('key', '7a', 'type', 'deleted')
	  . "*11\r\n" . bulk('XADD', 'carts', '*', 'id') . "\$$length\r\nID2\r\n" . bulk('seq') . "SEQ\r\n"
	  . bulk('type', 'truncate', 'payload', 'null'),
	'redis: the commands');

($status, $out, $err) = run('kafka', '--once', '--format', 'kafka');
is("$status$err", '0', 'kafka');
is($out, qq{k\\t"\\\\\\n\x01\xc3\xa9\t$payload\n7a\t\n\tnull\n}, 'kafka: the lines');

# Control characters: C0, DEL, C1, a change of direction; and letters that only look
# similar in their bytes. In JSON they are escaped, also within the payload.
my @controls = ("\x1b]0;evil\x07", "\x7f", "\xc2\x9b2J", "\xe2\x80\xae", "\xe2\x81\xa6", "\xc2\xa0\xe2\x80\x93\xc3\xa9");
my $controls = join('', @controls);
consumer("control_$_") foreach qw(json debezium kafka terminal terminal_json);
$node->safe_psql('postgres', qq{SELECT dc_publish('t', \$k\$$controls\$k\$, 'x', jsonb_build_object('p', \$k\$$controls\$k\$))});
my $escaped = '\u001b]0;evil\u0007\u007f\u009b2J\u202e\u2066' . $controls[5];
foreach my $format (qw(json debezium))
{
	($status, $out, $err) = run("control_$format", '--once', '--format', $format);
	is("$status$err", '0', "control characters: $format");
	is(scalar(() = $out =~ /"\Q$escaped\E"/g), $format eq 'json' ? 2 : 1, "control characters: $format escapes them");
	unlike($out, qr/[^ -~\n\xc2\xa0\xe2\x80\x93\xc3\xa9]/, "control characters: $format has none");
	chomp($out);
	is(query("SELECT count(*) FROM (SELECT \$x\$$out\$x\$::json AS e) AS l WHERE \$k\$$controls\$k\$"
		  . ($format eq 'json' ? q{= ALL (ARRAY[e->>'key', e->'payload'->>'p'])} : q{= ALL (ARRAY[e->'after'->>'aggregateid', (e->'after'->>'payload')::json->>'p'])})),
		1, "control characters: $format means the same");
}
($status, $out, $err) = run('control_kafka', '--once', '--format', 'kafka');
is($status, 0, 'control characters: kafka');
is((split /\t/, $out)[0], $controls, 'control characters: kafka keeps them');
SKIP:
{
	# script(1) of util-linux makes a terminal
	skip 'no terminal here', 6 if system(q{[ "$(script -qec 'test -t 1 && echo yes' /dev/null 2>&1 | tr -d '\r')" = yes ]}) != 0;

	foreach my $format (qw(kafka json))
	{
		my $consumer = $format eq 'kafka' ? 'control_terminal' : 'control_terminal_json';
		my $terminal = start_command('script', '-qec', "dc_relay -d '$dsn' --consumer $consumer --format $format --once", File::Spec->devnull);

		is(finish_job($terminal), 0, "a terminal: $format") or diag($terminal->{err});
		like($terminal->{out}, $format eq 'kafka' ? qr/^\\x1b\]0;evil\\x07\\x7f\\xc2\\x9b2J\\xe2\\x80\\xae\\xe2\\x81\\xa6\Q$controls[5]\E\t\{/m : qr/"key":"\Q$escaped\E"/,
			"a terminal: $format");
		unlike($terminal->{out}, qr/[^ -~\t\r\n\xc2\xa0\xe2\x80\x93\xc3\xa9]/, "a terminal: $format has no control characters");
	}
}
# nor do messages have them, which are there for people
my $message = start_command('dc_relay', '-d', $dsn, '--consumer', "\x1b]0;evil\x07\xc2\x9b");
is(finish_job($message), 1, 'control characters: a message');
like($message->{err}, qr/\\x1b\]0;evil\\x07/, 'control characters: a message shows them');
unlike($message->{err}, qr/[^ -~\n]/, 'control characters: a message has none');

# kcat's own client library plays the brokers, as long as kcat runs.
SKIP:
{
	skip 'kcat is not installed', 2 if system('command -v kcat >/dev/null 2>&1') != 0;

	consumer('kcat');
	query(q{SELECT dc_publish('posts', n::text, 'x', '{"a": 1}') FROM generate_series(1, 5) AS n});
	($status, $out, $err) = run('kcat', '--once', '--format', 'kafka', '--exec',
		q{kcat -P -b kafka.example.com -X test.mock.num.brokers=1 -t posts -K '\t' -Z -X enable.idempotence=true});
	is($status, 0, 'kcat takes the lines') or diag($err);
	is(scalar left('kcat'), 0, 'kcat: confirmed');
}

# More than a batch, more than a buffer, more than a pipe
consumer('many');
query(q{SELECT count(dc_publish('t', (n % 10)::text, 'x', jsonb_build_object('n', n, 'filler', repeat('x', n % 50 * 500))))
	FROM generate_series(1, 250) AS n});
my @lines = left('many');
is(scalar @lines, 250, 'several batches');
is(join(',', map { /"n": (\d+)/ } @lines), join(',', 1 .. 250), 'several batches: in order');
is(join(',', map { length($1) / 500 if /"filler": "(x*)"/ } @lines), join(',', map { $_ % 50 } 1 .. 250), 'several batches: whole events');

##
## a schema that must be quoted, and functions that only look like ours

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', q{
	CREATE SCHEMA "Odd ""one";
	CREATE EXTENSION dcounter SCHEMA "Odd ""one";
	CREATE FUNCTION public.dc_fetch(text, int, interval, text)
		RETURNS TABLE (seq int8, id uuid, topic text, key text, type text, payload jsonb, headers jsonb, created_at timestamptz, attempt int)
		LANGUAGE plpgsql AS $$ BEGIN RAISE 'not ours'; END $$;
	ALTER DATABASE other SET search_path = public;
	ALTER DATABASE other SET statement_timeout = '500ms';
	ALTER DATABASE other SET datestyle = 'German';
	ALTER DATABASE other SET intervalstyle = 'sql_standard';
	ALTER DATABASE other SET client_encoding = 'LATIN1'});
$node->safe_psql('other', q{
	SET statement_timeout = 0;
	SET search_path = "Odd ""one";
	SET client_encoding = 'UTF8';
	SELECT dc_consumer_create('c');
	SELECT dc_publish('t', 'é', 'x', '1')});
my $job = start_command('dc_relay', '-d', $node->connstr('other'), '--consumer', 'c', '--once', '--wait', '2');
is(finish_job($job), 0, 'an extension in another schema') or diag($job->{err});
like($job->{out}, qr/"key":"é".*"payload":1,.*"created_at":"\d{4}-\d\d-\d\dT/, 'an extension in another schema: the event');

##
## a role whose sessions may not wait

my @timeouts = split /\n/, query(q{SELECT name FROM pg_settings
	WHERE name IN ('statement_timeout', 'idle_session_timeout', 'transaction_timeout')});
cmp_ok(scalar @timeouts, '>=', 2, "timeouts: @timeouts");
consumer('patient');
query(q{CREATE ROLE hasty LOGIN; SELECT dc_consumer_grant('patient', 'hasty')});
query("ALTER ROLE hasty SET $_ = '500ms'") foreach @timeouts;
$job = start_command('dc_relay', '-d', "$dsn user=hasty", '--consumer', 'patient', '--wait', '3600',
	'--exec', "sleep 1; cat >>$folder/patient");
waiting('waits for events');
sleep(1);
query(q{SELECT dc_publish('t', 'k', 'x', '1')});
# The session is idle while the command runs.
comes(sub { content("$folder/patient") =~ /"payload":1,/ }, 'an event that took longer to come than a statement may');
waiting('waits again');
signal($job, 'TERM', 0, 'stops after that');
is($job->{err}, '', 'no timeout was in the way');
is(scalar left('patient'), 0, 'and the event was confirmed');

##
## errors that stay

query(q{CREATE ROLE nobody LOGIN; CREATE DATABASE empty});
consumer('c');
($status, $out, $err) = run('no such consumer');
is($status, 1, 'a consumer that does not exist');
like($err, qr/no such consumer/, 'a consumer that does not exist: the message');
$job = start_command('dc_relay', '-d', "$dsn user=nobody", '--consumer', 'c');
is(finish_job($job), 1, 'a role without rights');
like($job->{err}, qr/ERROR: /, 'a role without rights: the message');
$job = start_command('dc_relay', '-d', $node->connstr('empty'), '--consumer', 'c');
is(finish_job($job), 1, 'a database without the extension');
like($job->{err}, qr/extension dcounter is not installed/, 'a database without the extension: the message');
$job = start_command('dc_relay', '-d', $node->connstr('nowhere'), '--consumer', 'c');
is(finish_job($job), 1, 'a database that does not exist');
like($job->{err}, qr/"nowhere" does not exist/, 'a database that does not exist: the message');

##
## streams of Redis

SKIP:
{
	skip 'there is no Redis server here', 28 if !defined DcRedis::program();
	my $redis = DcRedis->start;

	my $keys = 8;

	consumer('streams');
	query(q{SELECT dc_publish('orders', E'k\t"\\\\\n\x01é', 'created', '{"text": "é\n"}', '{"trace": "x"}')});
	query(qq{SELECT count(dc_publish('stream' || k % 2, k::text, 'x', n::text::jsonb))
		FROM generate_series(1, 50) AS n, generate_series(1, $keys) AS k});
	# the server's socket is not there at first
	my $socket = "$folder/redis";
	$job = start('streams', '--format', 'redis', '--exec', "redis-cli -s $socket --pipe");
	says($job, qr/failed with status 1/, 'Redis is not there');
	symlink($redis->{socket}, $socket) or die "$socket: $!";
	comes(sub { ($redis->command('XLEN', 'stream0') + $redis->command('XLEN', 'stream1')) >= 50 * $keys }, 'events come when it is');
	signal($job, 'TERM', 0, 'stops after that');
	is(scalar left('streams'), 0, 'all is confirmed');
	is($redis->command('XLEN', "stream$_"), 25 * $keys, "a stream has what it should have: $_") foreach 0, 1;

	my %field = @{ $redis->command('XRANGE', 'orders', '-', '+')->[0][1] };
	like(delete $field{id}, qr/^[0-9a-f]{8}-[-0-9a-f]{27}$/, 'an event in a stream: its id');
	like(delete $field{seq}, qr/^\d+$/, 'an event in a stream: its seq');
	is_deeply(\%field, { key => $key, type => 'created', payload => qq({"text": "\xc3\xa9\\n"}), headers => '{"trace": "x"}' },
		'an event in a stream');

	my @entries = map { @{ $redis->command('XRANGE', "stream$_", '-', '+') } } 0, 1;
	check('streams', $keys, 50, map { my %f = @{ $_->[1] }; qq("key":"$f{key}","payload":$f{payload},) } @entries);

	# A key that cannot be a stream stops no others, and its events are dead letters.
	$redis->command('SET', 'wrong', 'not a stream');
	consumer('poison');
	query(q{SELECT dc_consumer_alter('poison', max_attempts => 3)});
	query(q{SELECT count(dc_publish(t, k::text, 'x', n::text::jsonb)) FROM generate_series(1, 20) AS n, generate_series(1, 4) AS k, unnest(ARRAY['fine', 'wrong']) AS t
		WHERE t = 'fine' OR n % 10 = 1});
	$job = start('poison', '--format', 'redis', '--wait', '0.1', '--exec', "redis-cli -s $socket --pipe");
	is(wait_for($node, 'postgres', q{SELECT count(*) FROM dc_dead_letters WHERE consumer = 'poison' AND topic = 'wrong'}, 8), 8,
		'events of a stream that cannot be one are dead letters');
	comes(sub { $redis->command('XLEN', 'fine') >= 80 }, 'all others are delivered');
	signal($job, 'TERM', 0, 'stops after that');
	like($job->{err}, qr/WRONGTYPE.*of topic "wrong" was refused, and will be retried in .*is now a dead letter/s, 'it says so');
	is(scalar left('poison'), 0, 'and all others are confirmed');
	check('beside a stream that cannot be one', 4, 20, map { my %f = @{ $_->[1] }; qq("key":"$f{key}","payload":$f{payload},) } @{ $redis->command('XRANGE', 'fine', '-', '+') });
	is(query(q{SELECT count(*) FROM dc_dead_letters WHERE consumer = 'poison' AND topic <> 'wrong'}), 0, 'no other event is a dead letter');

	# It is not the events' fault if Redis is not there, or takes nothing.
	consumer('outage');
	query(q{SELECT dc_consumer_alter('outage', max_attempts => 2)});
	query(q{SELECT dc_publish('outage', k::text, 'x', '1') FROM generate_series(1, 3) AS k});
	unlink $socket;
	$job = start('outage', '--format', 'redis', '--wait', '0.1', '--exec', "redis-cli -s $socket --pipe");
	says($job, qr/(failed with status 1\n.*){6}/s, 'Redis is not there');
	$redis->command('CONFIG', 'SET', 'maxmemory', '1');
	symlink($redis->{socket}, $socket) or die "$socket: $!";
	says($job, qr/(OOM.*){6}/s, 'Redis takes nothing');
	$redis->command('CONFIG', 'SET', 'maxmemory', '0');
	comes(sub { $redis->command('XLEN', 'outage') >= 3 }, 'events come when it does');
	signal($job, 'TERM', 0, 'stops after that');
	is(query(q{SELECT count(*) FROM dcounter.consumer_retry r JOIN dcounter.consumer c ON c.id = r.consumer WHERE c.name = 'outage'}), 0, 'none of them was refused');
	is($redis->command('DBSIZE'), $redis->command('EXISTS', qw(orders stream0 stream1 wrong fine outage)), 'and there are no other keys');

	# What Redis refuses is delivered again.
	$redis->command('SET', 'orders', 'not a stream');
	query(q{SELECT dc_publish('orders', '1', 'x', '1')});
	$job = start('streams', '--format', 'redis', '--exec', "redis-cli -s $socket --pipe");
	says($job, qr/WRONGTYPE.*failed with status 1/s, 'what Redis refuses is a failure');
	$redis->command('DEL', 'orders');
	comes(sub { $redis->command('XLEN', 'orders') == 1 }, 'and comes again');
	signal($job, 'TERM', 0, 'stops after that');
	$redis->stop;
}

$node->stop;
done_testing();
