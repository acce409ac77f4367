# Members of rooms under storms of connections: each client knows which of its own members must be there. All that
# have joined leave, once, and listeners are notified of each. A process that is killed starts another epoch. What memory
# a million members take.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $members = torture(100_000, 1_000_000);
my $node = dc_node('load', conf => [ q{shared_preload_libraries = 'dcounter'}, 'dcounter.worker = off', 'max_connections = 60', 'restart_after_crash = on', 'fsync = off',
	'dcounter.presence_size = ' . ($members == 1_000_000 ? q{'200MB'} : q{'20MB'}) ]);

sql($node, 'postgres', q{
	SELECT dc_presence_create('chat', '7 days', events => '1 us'), dc_presence_create('brief', '1 s', events => '1 us');
	-- what a client does with connections of its own members, in rooms that all are in
	CREATE FUNCTION storm(client int, steps int, brief boolean DEFAULT false) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		here text[] := '{}'; -- connections that must be there
		name text := CASE WHEN brief THEN 'brief' ELSE 'chat' END; room text; member text; conn text; what int; knew boolean; mine text; found text[]; expected text[];
	BEGIN
		FOR n IN 1 .. steps LOOP
			room := 'room ' || (random() * 3)::int;
			member := 'client ' || client || ' ' || (random() * 3)::int;
			conn := (ARRAY['', 'phone', 'tablet'])[1 + (random() * 2)::int];
			mine := room || '/' || member || '/' || conn;
			what := random() * 5;
			IF what <= 1 THEN
				PERFORM dc_enter(name, room, member, conn, CASE WHEN what = 0 THEN '{"a": 1}'::jsonb END);
				here := array_remove(here, mine) || mine;
			ELSIF what = 2 THEN
				knew := dc_beat(name, room, member, conn);
				IF NOT brief AND knew <> (mine = ANY (here)) THEN
					RAISE 'a heartbeat of % says %', mine, knew;
				END IF;
				here := array_remove(here, mine) || mine;
			ELSIF what = 3 THEN
				PERFORM dc_exit(name, room, member, NULL);
				here := ARRAY(SELECT h FROM unnest(here) AS h WHERE left(h, length(room || '/' || member) + 1) <> room || '/' || member || '/');
			ELSE
				PERFORM dc_exit(name, room, member, conn);
				here := array_remove(here, mine);
			END IF;
			IF NOT brief AND n % 20 = 0 THEN
				found := ARRAY(SELECT r || '/' || l.member FROM generate_series(0, 3) AS i, format('room %s', i) AS r, dc_presence_list(name, r, 'client ' || client || ' ', 100) AS l WHERE l.member LIKE 'client ' || client || ' _' ORDER BY 1);
				expected := ARRAY(SELECT DISTINCT substring(h FROM '^[^/]*/[^/]*') FROM unnest(here) AS h ORDER BY 1);
				IF found <> expected THEN
					RAISE 'there are %, and not %', found, expected;
				END IF;
			END IF;
		END LOOP;
		PERFORM dc_exit(name, 'room ' || r, 'client ' || client || ' ' || m, NULL) FROM generate_series(0, 3) AS r, generate_series(0, 3) AS m WHERE NOT brief;
	END $$;});

# start_storm(CLIENTS, CALLS, BRIEF)
sub start_storm
{
	my ($clients, $calls, $brief) = @_;

	return start_command('pgbench', '-n', '-M', 'prepared', '-c', $clients, '-j', 2, '-t', $calls, '-f', file_of('storm.sql', "SELECT storm(:client_id, 100, $brief);"), $node->connstr('postgres'));
}

# balance(NAME): members that are there, and whether each join had a leave, in the events and in the view
sub balance
{
	my ($name) = @_;

	return sql($node, 'postgres', qq{SELECT s.members, s.connections, s.joined > 0, s.joined - s."left", s.joined - e.joined, s."left" - e."left" FROM dc_stat_presence AS s,
		(SELECT sum((payload ->> 'joined')::int) AS joined, sum((payload ->> 'left')::int) AS left FROM dcounter.outbox WHERE aggregatetype = '$name' AND type = 'presence.changed') AS e WHERE s.name = '$name'});
}

##
## Storms, while the wheel is turned and events are made by two sessions
my $told = start_command('pgbench', '-n', '-c', 2, '-T', torture(5, 60), '-f', file_of('maintain.sql', 'CALL dc_maintain();'), $node->connstr('postgres'));
my $storm = start_storm(16, torture(10, 1000), 'false');
is(finish_job($storm), 0, 'each client finds those of its members that must be there') or diag($storm->{err});
$storm = start_storm(16, torture(10, 1000), 'true');
is(finish_job($storm), 0, 'members that are not heard of leave meanwhile') or diag($storm->{err});
is(finish_job($told), 0, 'and events are made') or diag($told->{err});
wait_for($node, 'postgres', q{CALL dc_maintain(); SELECT sum(members) + sum(untold) FROM dc_stat_presence}, '0');
is(balance('chat'), '0|0|t|0|0|0', 'each has left as often as it has joined, of which listeners were told');
is(balance('brief'), '0|0|t|0|0|0', 'so have those that were not heard of');
is(sql($node, 'postgres', q{SELECT sum(dc_present(name, 'room ' || i)) FROM generate_series(0, 3) AS i, dc_stat_presence}), '0', 'nobody is there');
is(sql($node, 'postgres', q{SELECT count(*) FROM (SELECT payload, lag(payload) OVER (PARTITION BY aggregatetype, aggregateid ORDER BY seq) AS before FROM dcounter.outbox) AS e WHERE (before ->> 'version')::bigint >= (payload ->> 'version')::bigint
	OR coalesce((before ->> 'count')::bigint, 0) + (payload ->> 'joined')::bigint - (payload ->> 'left')::bigint <> (payload ->> 'count')::bigint}), '0', 'versions grow, and each count follows from the one before');
wait_for($node, 'postgres', q{CALL dc_maintain(); SELECT sum(rooms) + sum(memory) FROM dc_stat_presence}, '0');
pass('and all memory is free');

##
## Many members
sql($node, 'postgres', qq{SELECT dc_presence_create('many', '1 s', max_members => 10000000); SELECT count(dc_enter('many', 'room ' || i % 1000, 'member ' || i)) FROM generate_series(1, $members) AS i});
wait_for($node, 'postgres', q{CALL dc_maintain(); SELECT members FROM dc_stat_presence WHERE name = 'many'}, '0');
is(sql($node, 'postgres', q{SELECT joined, "left", expired FROM dc_stat_presence WHERE name = 'many'}), "$members|$members|$members", 'many members leave when they are not heard of');
sql($node, 'postgres', q{SELECT dc_presence_alter('many', '1 day')});
sql($node, 'postgres', qq{SELECT count(dc_enter('many', 'room ' || i % 1000, 'member ' || i)) FROM generate_series(1, $members) AS i});
is(sql($node, 'postgres', q{SELECT members, memory <= members * 200 FROM dc_stat_presence WHERE name = 'many'}), "$members|t", 'at most 200 bytes for each');
is(sql($node, 'postgres', q{SELECT sum(dc_present('many', 'room ' || i)) FROM generate_series(0, 999) AS i}), $members, 'all are present');
# a flood by a rule without a bound takes half of the memory
my $flood = start_command('psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', q{SELECT dc_presence_drop('many')}, '-c', q{SELECT dc_presence_create('flood', '1 day'), dc_presence_create('other', '1 day')},
	'-c', qq{SELECT count(dc_enter('flood', 'room', 'member ' || i)) FROM generate_series(1, 10 * $members) AS i});
finish_job($flood);
like($flood->{err}, qr/out of members for a presence/, 'a flood is refused');
is(sql($node, 'postgres', q{SELECT refused, dc_enter('other', 'room', 'ann') FROM dc_stat_presence WHERE name = 'flood'}), '1|1', 'and others have room for theirs');
sql($node, 'postgres', q{SELECT dc_presence_drop('flood')});

##
## A process is killed, which may have locked anything
foreach my $round (1 .. torture(1, 10))
{
	my ($epoch, $joined) = split /\|/, sql($node, 'postgres', q{SELECT epoch, joined FROM dc_stat_presence WHERE name = 'chat'});

	$storm = start_storm(16, 100000, 'false');
	wait_for($node, 'postgres', qq{SELECT joined > $joined + 1000 FROM dc_stat_presence WHERE name = 'chat'}, 't');
	kill 'KILL', some_pid($node, q{SELECT pid FROM pg_stat_activity WHERE query ~ 'storm' AND pid <> pg_backend_pid() AND state <> 'idle' ORDER BY random() LIMIT 1});
	finish_job($storm);
	wait_for($node, 'postgres', q{SELECT 'up' WHERE NOT pg_is_in_recovery()}, 'up');
	is(sql($node, 'postgres', qq{SELECT members, joined, epoch > $epoch FROM dc_stat_presence WHERE name = 'chat'}), '0|0|t', "killed, $round: nobody is there, in another epoch");
	sql($node, 'postgres', 'CALL dc_maintain()');
	is(sql($node, 'postgres', q{SELECT type FROM dcounter.outbox WHERE aggregatetype = 'chat' ORDER BY seq DESC LIMIT 1}), 'presence.reset', 'of which listeners are told');
	$storm = start_storm(8, 2, 'false');
	is(finish_job($storm), 0, 'and it goes on') or diag($storm->{err});
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|signal (?!9)/, 'nothing has crashed by itself');
$node->stop;
done_testing();
