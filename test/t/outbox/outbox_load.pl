# The outbox under load and kill -9. Every transaction that makes events also writes
# into an audit what they are, in the same transaction, and their place in the order
# of the key: each change of a row adds 1 to its version, and what is published
# beside takes its place from the version that the transaction has made. So the audit
# is what has to be delivered, whatever clients were told.
#
# Three consumers read it in three ways. "shared" has members that process a batch in
# a transaction and acknowledge it in another one; they are killed, terminated, stall
# longer than their lease, acknowledge half, hand back. There each event comes at
# least once, and the first deliveries of a key are in order and without a gap. "fenced"
# has members, too, and "single" has none: both acknowledge in the transaction that
# processes, so each event is there exactly once, and in order.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $writers = torture(16, 64);
my $rounds = torture(3, int(($ENV{DC_TORTURE} // 0) / 3) || 1);
my $rounds_without = torture(1, int($rounds / 5) || 1);
my $keys = 15;

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $schema = q{
	CREATE TABLE item (id int PRIMARY KEY, version bigint NOT NULL, token text);
	CREATE SEQUENCE item_id START 1000;
	INSERT INTO item SELECT i, 0 FROM generate_series(1, KEYS) AS i;
	SELECT dc_outbox_attach('item', 'item', columns => ARRAY['version', 'token']);

	-- What has to be delivered: pos is 4 times the version, for what was published before
	-- the change of the row one less, after it one more.
	CREATE TABLE audit (key text, pos bigint, token text);
	CREATE TABLE done (client text, number int);
	CREATE INDEX ON done (client);

	CREATE FUNCTION change(k int, t text) RETURNS void LANGUAGE sql AS $$
		WITH u AS (UPDATE item SET version = version + 1, token = t WHERE id = k RETURNING version)
		INSERT INTO audit SELECT k, 4 * version, t FROM u
	$$;
	CREATE FUNCTION create_item(t text) RETURNS void LANGUAGE sql AS $$
		WITH i AS (INSERT INTO item VALUES (nextval('item_id'), 1, t) RETURNING id)
		INSERT INTO audit SELECT id, 4, t FROM i
	$$;
	CREATE FUNCTION publish(k int, t text) RETURNS void LANGUAGE sql AS $$
		SELECT dc_publish('item', k::text, 'note', jsonb_build_object('token', t))
	$$;
	CREATE FUNCTION published(k int, t text, place int) RETURNS void LANGUAGE sql AS $$
		INSERT INTO audit SELECT k, 4 * version + place, t FROM item WHERE id = k
	$$;

	-- Deliveries, and what was acknowledged of which batch, in the order of a clock
	CREATE SEQUENCE clock;
	CREATE TABLE seen (consumer text, n bigint, epoch int, batch bigint, seq bigint, key text, token text, attempt int);
	CREATE TABLE acked (n bigint, epoch int, batch bigint, seq bigint, nacked text);
	CREATE FUNCTION token(type text, payload jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
		SELECT CASE type WHEN 'note' THEN payload ->> 'token' ELSE payload -> 'new' ->> 'token' END
	$$;
	CREATE FUNCTION see(who text, e int, b bigint, events json) RETURNS void LANGUAGE sql AS $$
		INSERT INTO seen SELECT who, nextval('clock'), e, b, (event ->> 'seq')::bigint, event ->> 'key',
			token(event ->> 'type', (event ->> 'payload')::jsonb), (event ->> 'attempt')::int
		FROM (SELECT event FROM json_array_elements(events) WITH ORDINALITY AS u(event, i) ORDER BY i OFFSET 0) AS o
	$$;

	-- What is wrong with the deliveries to a consumer
	CREATE FUNCTION wrong(who text, exactly_once bool) RETURNS SETOF text LANGUAGE sql AS $$
		WITH first AS MATERIALIZED (
			SELECT key, token, min(n) AS n, count(*) AS times, count(DISTINCT seq) AS seqs FROM seen WHERE consumer = who GROUP BY key, token
		), both_sides AS MATERIALIZED (
			SELECT a.key AS wanted, f.key AS got, coalesce(a.key, f.key) AS key, token, pos, n, times, seqs
			FROM audit AS a FULL JOIN first AS f USING (key, token)
		), ordered AS (
			SELECT key, token, pos, n, row_number() OVER (PARTITION BY key ORDER BY pos) AS wanted, row_number() OVER (PARTITION BY key ORDER BY n) AS place
			FROM both_sides WHERE pos IS NOT NULL AND n IS NOT NULL
		), bad AS (
			SELECT format('lost: key %s, %s', key, token) AS what FROM both_sides WHERE got IS NULL
			UNION ALL SELECT format('of no committed transaction: key %s, %s', key, token) FROM both_sides WHERE wanted IS NULL
			UNION ALL SELECT format('key %s, %s, is delivery %s instead of %s', key, token, place, wanted) FROM ordered WHERE place <> wanted
			UNION ALL SELECT format('key %s, %s: %s times', key, token, times) FROM both_sides WHERE exactly_once AND times > 1
			UNION ALL SELECT format('key %s, %s: written %s times', key, token, seqs) FROM both_sides WHERE seqs > 1
		)
		SELECT what FROM bad LIMIT 20
	$$;

	SELECT dc_consumer_create('shared', ARRAY['item'], 'beginning'), dc_consumer_create('fenced', start => 'beginning'), dc_consumer_create('single');
	SELECT dc_consumer_alter('shared', lease => '700 ms', max_attempts => 1000000), dc_consumer_alter('fenced', lease => '1 s');
} =~ s/KEYS/$keys/r;

##
## Writers

# transaction(CLIENT, NUMBER): its SQL. Keys are taken in order, so that there is no
# deadlock. It says "done N" when it is committed.
sub transaction
{
	my ($client, $number) = @_;
	my $n = 0;
	my $token = sub { return "'$client-$number-" . $n++ . "'" };
	my $change = sub { return "SELECT change($_[0], " . $token->() . ");\n" };
	my %some = map { 1 + int(rand($keys)) => 1 } 0 .. rand(3);
	my @some = sort { $a <=> $b } keys %some;
	my $kind = int(rand(16));
	my $sleep = rand() < 0.4 ? sprintf("SELECT pg_sleep(%.3f);\n", rand(0.03)) : '';
	my $sql = "BEGIN;\nINSERT INTO done VALUES ('$client', $number);\n";

	if ($kind < 4)
	{
		$sql .= join($sleep, map { $change->($_) } @some);
	}
	elsif ($kind < 8)
	{
		# published long before the order of the key is known
		my $before = $token->();
		my $after = $token->();

		$sql .= "SELECT publish($some[0], $before);\n$sleep" . $change->($some[0])
		  . "SELECT published($some[0], $before, -1);\nSELECT publish($some[0], $after), published($some[0], $after, 1);\n"
		  . join('', map { $change->($_) } @some);
	}
	elsif ($kind < 10)
	{
		# A savepoint that is rolled back, one that is released, and one in it that is rolled back
		$sql .= "SAVEPOINT a;\n" . join('', map { $change->($_) } @some) . "SELECT publish($some[0], 'undone'), create_item('undone');\nROLLBACK TO a;\n"
		  . "SAVEPOINT b;\n" . $change->($some[0]) . "SAVEPOINT c;\n" . $change->($some[0]) . "ROLLBACK TO c;\n" . $change->($some[0]) . "RELEASE b;\n"
		  . $change->($some[-1]);
	}
	elsif ($kind < 12)
	{
		# a failure after the events
		$sql .= join('', map { $change->($_) } @some) . "SELECT publish($some[0], 'undone');\n";
		return "$sql${sleep}ROLLBACK;\n";
	}
	elsif ($kind < 14)
	{
		$sql =~ s/BEGIN/$& ISOLATION LEVEL REPEATABLE READ/;
		$sql .= 'SELECT ' . join(', ', map { 'create_item(' . $token->() . ')' } 0 .. rand(3)) . ";\n";
	}
	else
	{
		my $late = $kind == 14 && rand() < 0.3 ? 'late ' : '';
		my $gid = "'$late$client-$number'";
		my $end = rand() < 0.5 ? 'COMMIT' : 'ROLLBACK';

		$sql .= join('', map { $change->($_) } @some) . "PREPARE TRANSACTION $gid;\n";
		return $sql if $late;
		return "$sql$sleep$end PREPARED $gid;\n" . ($end eq 'COMMIT' ? "\\echo done $number\n" : '');
	}
	return "$sql${sleep}COMMIT;\n\\echo done $number\n";
}

# Decides for transactions that others have left prepared
my $decide = file_of('decide.sql', q{
	SELECT pg_sleep(0.02);
	SELECT format('%s PREPARED %L', CASE WHEN random() < 0.5 THEN 'COMMIT' ELSE 'ROLLBACK' END, gid)
	FROM pg_prepared_xacts WHERE gid LIKE 'late %' AND prepared < clock_timestamp() - interval '30 ms' \gexec
} x 20000);
my $maintain = file_of('maintain.sql', "CALL dc_maintain();\nSELECT pg_sleep(0.3);\n" x 20000);

##
## Consumers

# Loops of clients; "me" is the member's name. The batch stays with the client between
# transactions. Each way has a file of its own.
my $fetch = q{
	SELECT nextval('clock') AS batch \gset
	SELECT json_agg(f) AS events, json_agg(f) -> -1 ->> 'seq' AS last, json_agg(f) -> (count(*)::int / 2) ->> 'seq' AS middle,
		json_agg(f) -> 0 ->> 'seq' AS first, json_agg(f) -> 0 ->> 'key' AS first_key
	FROM dc_fetch(:'who', SIZE, '100 ms', MEMBER) AS f \gset
	\if :{?last}
	BODY
	\unset last
	\endif
} =~ s/^\t+//mgr;

sub consumer
{
	my ($size, $member, $body) = @_;

	return $fetch =~ s/SIZE/$size/r =~ s/MEMBER/$member/r =~ s/BODY/$body =~ s{^\t+}{}mgr/er;
}

my $see = "SELECT see(:'who', :epoch, :batch, :'events') \\g /dev/null\n";
my $note = "INSERT INTO acked VALUES (nextval('clock'), :epoch, :batch";
my $middle = "SELECT dc_ack(:'who', :middle, :'me') \\g /dev/null\n$note, :middle, NULL);\n";
my $last = "SELECT dc_ack(:'who', :last, :'me') \\g /dev/null\n$note, :last, NULL);\n";
my $back = "SELECT dc_nack(:'who', :first, '50 ms', 'again', :'me'), dc_ack(:'who', :last, :'me') \\g /dev/null\n$note, :last, :'first_key');\n";
my $stall = "SELECT pg_sleep(1.1) \\g /dev/null\n";
my %loop = (
	shared => join('', map {
		my $how = int(rand(40));

		consumer(1 + int(rand(60)), ":'me'", $how == 0 ? $see . $stall . $last : $how < 8 ? $see . $middle : $how < 14 ? $see . $back : $how < 16 ? $see : $see . $last)
	} 1 .. 5000),
	fenced => join('', map {
		consumer(1 + int(rand(60)), ":'me'", "BEGIN;\n$see" . ($_ % 40 ? '' : $stall) . "SELECT dc_ack(:'who', :last, :'me') \\g /dev/null\n" . ($_ % 9 ? 'COMMIT;' : 'ROLLBACK;'))
	} 1 .. 5000),
	# the second process of it finds it busy most of the time
	single => join('', map {
		('BEGIN', 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'BEGIN ISOLATION LEVEL SERIALIZABLE')[ $_ % 3 ] . ";\n"
		  . consumer(1 + int(rand(200)), 'NULL', "${see}SELECT dc_ack(:'who', :last) \\g /dev/null\n") . ($_ % 9 ? "COMMIT;\n" : "ROLLBACK;\n")
	} 1 .. 5000));
my %body = map { $_ => file_of("$_.sql", "SET application_name = 'consumer';\n$loop{$_}") } keys %loop;
my @places = (('shared') x 4, ('fenced') x 3, ('single') x 2);

my $epoch = 0;
my $names = 0;

# A member that comes back has its old name or a new one.
sub start_consumer
{
	my ($node, $place) = @_;
	my $who = $places[$place];
	my $me = rand() < 0.7 ? "m$place" : 'm' . (100 + ++$names % 30);

	return start_command('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose', '-v', "epoch=$epoch", '-v', "me=$me", '-v', "who=$who",
		'-d', $node->connstr('postgres'), '-f', $body{$who});
}

my $refused = 0;

# ended(JOB): collects what a consumer has said; errors that must not be. One that could not connect, or was told that the server
# ends right after it had, has them without a code.
sub ended
{
	my ($job) = @_;

	finish_job($job);
	$refused += () = $job->{err} =~ /ERROR:  55000:/g;
	return join('', map { "$_\n" } grep { /ERROR|FATAL|PANIC|WARNING/ && !/ERROR:  55000:|FATAL:  57P0[123]:|WARNING:  57P02:|psql: error:|FATAL:  the database system|FATAL:  terminating connection due to (?:unexpected postmaster exit|administrator command)/ } split(/\n/, $job->{err}));
}

##
## Rounds

my $told = 0;

# one_round(NODE, NAME, NUMBER): load while consumers are killed, kill the server, restart, compare
sub one_round
{
	my ($node, $name, $round) = @_;
	my @names = map { "$round.$_" } 1 .. $writers;
	my @jobs = map {
		my $client = $_;

		start_job($node, 'postgres', file_of("writer $client.sql", join('', map { transaction($client, $_) } 1 .. torture(500, 1500))))
	} @names;
	my @side = map { start_job($node, 'postgres', $_) } $decide, $maintain;
	my ($bad, $kills) = ('', 0);
	my $until = torture(15 + int(rand(25)), 20 + int(rand(100))) * $writers;

	$epoch++;
	my @consumers = map { start_consumer($node, $_) } 0 .. $#places;
	until ($kills > 0 && sql($node, 'postgres', "SELECT count(*) >= $until FROM done WHERE client LIKE '$round.%'") eq 't')
	{
		my $how = $kills ? rand() : 0;
		my $place = int(rand(@places));

		if ($how < 0.25)
		{
			$consumers[$place]{run}->signal('KILL');
			$kills++;
		}
		elsif ($how < 0.4)
		{
			sql($node, 'postgres', q{SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
				WHERE application_name = 'consumer' ORDER BY random() LIMIT 1) AS u});
			$kills++;
		}
		foreach my $i (grep { !$consumers[$_]{run}->pumpable } 0 .. $#consumers)
		{
			$bad .= ended($consumers[$i]);
			$consumers[$i] = start_consumer($node, $i);
		}
		sleep(0.05);
		if (!grep { $_->{run}->pumpable } @jobs)
		{
			$bad .= "no progress\n";
			last;
		}
	}
	if ($round % 3)
	{
		$node->kill9;
	}
	else
	{
		# not a session that ends just now
		kill 9, some_pid($node, q{SELECT pid FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND backend_type IN ('client backend', 'walwriter') AND (backend_type <> 'client backend' OR state <> 'idle') ORDER BY random() LIMIT 1});
	}
	finish_job($_) foreach @jobs, @side;
	$bad .= ended($_) foreach @consumers;
	is($bad, '', "$name round $round: no error in consumers");
	cmp_ok($kills, '>', 0, "$name round $round: of which $kills were killed");
	is(join('', grep { /ERROR/ } map { $_->{err} } @jobs, @side), '', "$name round $round: no error in writers");
	restart_after_kill9($node) if $round % 3;
	wait_for($node, 'postgres', 'SELECT NOT pg_is_in_recovery()', 't') eq 't' or die 'no recovery';

	$bad = '';
	foreach my $gid (split /\n/, sql($node, 'postgres', 'SELECT gid FROM pg_prepared_xacts'))
	{
		sql($node, 'postgres', (rand() < 0.5 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$gid'");
	}
	foreach my $i (0 .. $#jobs)
	{
		my %done = map { $_ => 1 } split /\n/, sql($node, 'postgres', "SELECT number FROM done WHERE client = '$names[$i]'");
		my @told = $jobs[$i]{out} =~ /^done (\d+)$/mg;
		my @lost = grep { !$done{$_} } @told;

		$bad .= "client $names[$i] was told of @lost\n" if @lost;
		$told += @told;
	}
	is($bad, '', "$name round $round: what clients were told of is committed");
	return;
}

# all_delivered(NODE, NAME): lets consumers come to the end, and compares
sub all_delivered
{
	my ($node, $name) = @_;
	my $bad = '';

	$epoch++;
	my @consumers = map { start_consumer($node, $_) } 0 .. $#places;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	until (time > $end || sql($node, 'postgres', q{SELECT bool_and(n >= (SELECT count(*) FROM audit))
		FROM (SELECT count(DISTINCT (key, token)) AS n FROM seen GROUP BY consumer) AS u}) eq 't')
	{
		foreach my $i (grep { !$consumers[$_]{run}->pumpable } 0 .. $#consumers)
		{
			$bad .= ended($consumers[$i]);
			$consumers[$i] = start_consumer($node, $i);
		}
		sleep(0.1);
	}
	$_->{run}->signal('KILL') foreach @consumers;
	$bad .= ended($_) foreach @consumers;
	is($bad, '', "$name: no error in the end");

	is(sql($node, 'postgres', qq{SELECT * FROM wrong('$_->[0]', $_->[1])}), '', "$name: deliveries to $_->[0]")
	  foreach [ 'shared', 'false' ], [ 'fenced', 'true' ], [ 'single', 'true' ];
	# An acknowledgement that is lost with the server may be one that was not written yet.
	is(sql($node, 'postgres', q{
		SELECT DISTINCT format('%s: acknowledged in batch %s, again in %s', s.seq, s.batch, again.batch)
		FROM acked AS a JOIN seen AS s ON s.consumer = 'shared' AND s.batch = a.batch AND s.seq <= a.seq AND s.key IS DISTINCT FROM a.nacked
		JOIN seen AS again ON again.consumer = 'shared' AND again.seq = s.seq AND again.batch > a.n AND again.epoch = a.epoch LIMIT 20}),
		'', "$name: what was acknowledged does not come again");
	cmp_ok(sql($node, 'postgres', q{SELECT count(*) FROM seen WHERE consumer = 'shared' AND attempt > 1}), '>', 0, "$name: some events came more than once");
	is(sql($node, 'postgres', 'SELECT sum(deadlocks) FROM pg_stat_database'), '0', "$name: no deadlock");
	note("$name: " . sql($node, 'postgres', q{SELECT format('%s events, %s deliveries to shared', (SELECT count(*) FROM audit), (SELECT count(*) FROM seen WHERE consumer = 'shared'))}));
	return;
}

foreach my $preload (1, 0)
{
	my $name = $preload ? 'preload' : 'plain';
	my $node = dc_node($name, conf => [
			'max_connections = 120', 'max_prepared_transactions = 120', 'autovacuum_naptime = 1s', 'deadlock_timeout = 500ms', 'restart_after_crash = on',
			'checkpoint_timeout = 30s', $preload ? "shared_preload_libraries = 'dcounter'" : '', "dcounter.outbox_interval = '300ms'",
			'dcounter.outbox_rotate_age = 0', 'dcounter.outbox_keep = 0', $preload ? "dcounter.outbox_rotate_size = '1MB'" : '' ]);

	sql($node, 'postgres', $schema);
	one_round($node, $name, $_) foreach 1 .. ($preload ? $rounds : $rounds_without);
	all_delivered($node, $name);
	$node->stop;
}
cmp_ok($told, '>', 0, 'clients were told of commits');
note("$told transactions committed as told, $refused acknowledgements refused");
done_testing();
