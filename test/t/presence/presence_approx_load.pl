# A million members in a room of an approximate presence, and how far their number is off. Many clients at once: a room in which
# they all are has the number that it has when one client is all of them. Floods of rooms. A process that is killed.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('load', conf => [ q{shared_preload_libraries = 'dcounter'}, 'dcounter.worker = off', 'max_connections = 60', 'restart_after_crash = on', 'fsync = off', q{dcounter.presence_size = '4MB'} ]);

sub present { return sql($node, 'postgres', "SELECT dc_present('$_[0]', '$_[1]')") }

# storm(CLIENTS, CALLS, SQL): a job
sub storm
{
	my ($clients, $calls, $sql) = @_;

	return start_command('pgbench', '-n', '-M', 'prepared', '-c', $clients, '-j', 2, '-t', $calls, '-f', file_of('storm.sql', $sql), $node->connstr('postgres'));
}

sql($node, 'postgres', q{SELECT dc_presence_create('live', '7 days', events => '1 us', approx => true), dc_presence_create('brief', '1 s', events => '1 us', approx => true)});

##
## A million members. The hashes have a salt, so this is another million each time; the bound is six standard errors
foreach my $members (1000, 30_000, 1_000_000)
{
	my $room = "room of $members";

	sql($node, 'postgres', qq{SELECT sum(dc_beat_many('live', array_fill('$room'::text, ARRAY[1000]), ARRAY(SELECT 'member ' || i FROM generate_series(n * 1000 + 1, n * 1000 + 1000) AS i))) FROM generate_series(0, $members / 1000 - 1) AS n});
	my $estimate = present('live', $room);
	my $off = abs($estimate - $members) / $members;
	note("$members members: $estimate, " . sprintf('%.2f %%', 100 * $off));
	cmp_ok($off, '<', 0.05, "$members members are about as many");
}
is(sql($node, 'postgres', q{SELECT memory <= (889 + 889 + 889) * 160 FROM dc_stat_presence WHERE name = 'live'}), 't', 'a room takes no more than 150 kB');
my $large = sql($node, 'postgres', q{SELECT memory FROM dc_stat_presence WHERE name = 'live'});
my $estimate = present('live', 'room of 1000000');
is(sql($node, 'postgres', q{SELECT count(*) FROM generate_series(1, 1000000) AS i WHERE NOT dc_beat('live', 'room of 1000000', 'member ' || i)}), '0', 'each of them is known');
is(present('live', 'room of 1000000') . ' ' . sql($node, 'postgres', q{SELECT memory FROM dc_stat_presence WHERE name = 'live'}), "$estimate $large", 'and their heartbeats change nothing');

##
## All clients at once, while rings are given other times, the wheel is turned and events are made
my $other = start_command('pgbench', '-n', '-c', 2, '-T', torture(5, 60), '-f', file_of('maintain.sql', 'CALL dc_maintain();'), '-f', file_of('present.sql', q{SELECT dc_present('live', 'all'), dc_present('brief', 'all');}),
	'-f', file_of('alter.sql', q{SELECT dc_presence_alter('live', format('%s hours', 100 + (random() * 60)::int)::interval);}), $node->connstr('postgres'));
my $storm = storm(16, torture(30, 1000), q{SELECT count(dc_beat('live', 'all', 'c' || :client_id || ' ' || (random() * 3000)::int)), count(dc_enter('live', 'few', 'c' || :client_id)), count(dc_enter('live', 'other ' || i, 'm')) FROM generate_series(1, 200) AS i});
my $brief = storm(4, torture(30, 1000), q{SELECT count(dc_beat('brief', 'all', 'c' || (random() * 30000)::int)), count(dc_beat('brief', 'room ' || (random() * 10)::int, 'm')) FROM generate_series(1, 500) AS i});
is(finish_job($storm), 0, 'clients say that members are there') or diag($storm->{err});
is(finish_job($brief), 0, 'also with a short ttl') or diag($brief->{err});
is(finish_job($other), 0, 'while the wheel is turned') or diag($other->{err});
# now they are all there for certain
$storm = storm(16, 1, q{SELECT count(dc_beat('live', 'all', 'c' || :client_id || ' ' || i)) FROM generate_series(0, 3000) AS i});
is(finish_job($storm), 0, 'all are there') or diag($storm->{err});
sql($node, 'postgres', q{SELECT count(dc_beat('live', 'all by one', 'c' || c || ' ' || i)) FROM generate_series(0, 3000) AS i, generate_series(0, 15) AS c});
my $all = present('live', 'all');
is($all, present('live', 'all by one'), 'many clients have the number that one has');
cmp_ok(abs($all - 16 * 3001) / (16 * 3001), '<', 0.05, "which is about right ($all)");
sql($node, 'postgres', 'CALL dc_maintain()');
is(sql($node, 'postgres', q{SELECT payload ->> 'count' FROM dcounter.outbox WHERE aggregatetype = 'live' AND aggregateid = 'all' ORDER BY seq DESC LIMIT 1}), $all, 'the last event has it, too');
my $grow = q{SELECT bool_and(v > b) FROM (SELECT (payload ->> 'version')::bigint AS v, lag((payload ->> 'version')::bigint) OVER (PARTITION BY aggregatetype, aggregateid ORDER BY seq) AS b FROM dcounter.outbox) AS e WHERE b IS NOT NULL};
is(sql($node, 'postgres', $grow), 't', 'versions grow');
# also when listeners are notified of all rooms again, because they have missed something
my $resets = q{SELECT count(*) FROM dcounter.outbox WHERE aggregatetype = 'live' AND type = 'presence.reset'};
my $before = sql($node, 'postgres', $resets);
sql($node, 'postgres', $_) foreach q{SELECT dc_presence_alter('live', events => '0')}, q{SELECT dc_beat('live', 'few', 'untold')}, q{SELECT dc_presence_alter('live', events => '1 ms')};
is(wait_for($node, 'postgres', "CALL dc_maintain(); SELECT ($resets) > $before", 't'), 't', 'rooms are told of again');
sql($node, 'postgres', 'CALL dc_maintain()');
is(sql($node, 'postgres', $grow), 't', 'versions grow then, too');
is(sql($node, 'postgres', q{SELECT members = (SELECT sum(dc_present('live', room)) FROM (SELECT 'all' AS room UNION ALL SELECT unnest(ARRAY['all by one', 'few', 'room of 1000', 'room of 30000', 'room of 1000000']) UNION ALL SELECT 'other ' || i FROM generate_series(1, 200) AS i) AS r) FROM dc_stat_presence WHERE name = 'live'}), 't', 'the view has the sum of all rooms');
is(wait_for($node, 'postgres', q{CALL dc_maintain(); SELECT rooms, members, memory, untold FROM dc_stat_presence WHERE name = 'brief'}, '0|0|0|0'), '0|0|0|0', 'who is not heard of leaves, and all memory is free');
is(sql($node, 'postgres', q{SELECT DISTINCT (array_agg(payload ->> 'count' ORDER BY seq DESC))[1] FROM dcounter.outbox WHERE aggregatetype = 'brief' AND type = 'presence.changed' GROUP BY aggregateid}), '0', 'listeners know of each room that nobody is there');
$node->restart;
is(present('live', 'all'), $all, 'what each room knew is what its sketches say: they are counted anew after a restart');

##
## Floods
sql($node, 'postgres', q{SELECT dc_presence_drop('live')});
sql($node, 'postgres', q{SELECT dc_presence_create('flood', '7 days', approx => true), dc_presence_create('other', '7 days', approx => true), dc_presence_create('bound', '7 days', approx => true, max_members => 3)});
wait_for($node, 'postgres', q{CALL dc_maintain(); SELECT sum(memory) FROM dc_stat_presence}, '0');
sql($node, 'postgres', q{SELECT dc_beat('other', 'r', 'ann'), dc_beat('flood', 'r', 'ann')});
my $flood = start_command('psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', q{SELECT count(dc_beat('flood', 'room ' || i, 'm')) FROM generate_series(1, 100000) AS i});
finish_job($flood);
like($flood->{err}, qr/out of (rooms|memory) for a presence/, 'a flood of rooms is refused');
$flood = start_command('psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', q{SELECT count(dc_beat('flood', 'room 1', 'm' || i)) FROM generate_series(1, 100000) AS i});
finish_job($flood);
like($flood->{err}, qr/out of memory for a presence/, 'and so is one of members, in a presence that is full');
is(sql($node, 'postgres', q{SELECT refused, members > 100 FROM dc_stat_presence WHERE name = 'flood'}), '2|t', 'which the view says');
is(sql($node, 'postgres', q{SELECT dc_beat('flood', 'r', 'ann'), dc_present('flood', 'r')}), 't|1', 'who was there is there, and can be heard of');
is(sql($node, 'postgres', q{SELECT count(dc_beat('other', 'r', 'm' || i)) FROM generate_series(1, 100000) AS i}), '100000', 'others have room for theirs');
cmp_ok(abs(present('other', 'r') - 100_000), '<', 5000, 'as many as they like');
is(sql($node, 'postgres', q{SELECT count(dc_beat('bound', 'r' || i % 3, 'm' || i)) FROM generate_series(1, 3000) AS i}), '3000', 'max_members bounds rooms, not members');
fails_with($node, 'postgres', q{SELECT dc_beat('bound', 'r3', 'm')}, '53200', 'there is no fourth room');
sql($node, 'postgres', q{SELECT dc_presence_drop('flood')});
sql($node, 'postgres', q{SELECT dc_presence_create('flood', '7 days', approx => true)});
is(sql($node, 'postgres', q{SELECT count(dc_beat('flood', 'room', 'm' || i)) FROM generate_series(1, 100000) AS i}), '100000', 'memory of one that was dropped is free');

##
## A process is killed, which may have locked anything
sql($node, 'postgres', q{SELECT dc_presence_create('live', '7 days', approx => true, events => '1 us')});
foreach my $round (1 .. torture(1, 10))
{
	my $epoch = sql($node, 'postgres', q{SELECT epoch FROM dc_stat_presence WHERE name = 'live'});

	$storm = storm(16, 100000, q{SELECT count(dc_beat('live', 'all', 'c' || :client_id || ' ' || (random() * 30000)::int)), 'storm' FROM generate_series(1, 100) AS i});
	wait_for($node, 'postgres', q{SELECT dc_present('live', 'all') > 10000}, 't');
	kill 'KILL', some_pid($node, q{SELECT pid FROM pg_stat_activity WHERE query ~ 'storm' AND pid <> pg_backend_pid() AND state <> 'idle' ORDER BY random() LIMIT 1});
	finish_job($storm);
	wait_for($node, 'postgres', q{SELECT 'up' WHERE NOT pg_is_in_recovery()}, 'up');
	is(sql($node, 'postgres', qq{SELECT dc_present('live', 'all'), rooms, epoch > $epoch FROM dc_stat_presence WHERE name = 'live'}), '0|0|t', "killed, $round: nobody is there, in another epoch");
	is(sql($node, 'postgres', q{SELECT dc_beat('live', 'all', 'ann'), dc_present('live', 'all')}), 'f|1', 'and it goes on');
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|signal (?!9)/, 'nothing has crashed by itself');
$node->stop;
done_testing();
