# Fairness of what the worker does for roles that were granted a presence, or consumers: rooms that change all the time, presences that
# take all places, and consumers that are far behind keep neither the events of other presences nor other jobs from their turns.
# Where these had no bound, the events never came, and all jobs were half a minute late. And consumers, and members of one, that
# are more than the server has locks do not keep the outbox from being emptied.
use strict;
use warnings;

use DcTest;
use DcWorker;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('shared', conf => [ "shared_preload_libraries = 'dcounter'", 'autovacuum = off', "dcounter.outbox_interval = '500ms'" ]);

# told(ROOM, NAME): a test: what is entered into a room of alice's comes
sub told
{
	my ($room, $name) = @_;

	sql($node, 'postgres', qq{SET ROLE alice; SELECT dc_enter('quiet', '$room', 'ann')});
	soon($node, 'postgres', qq{SELECT count(*) FROM dcounter.outbox WHERE aggregatetype = 'quiet' AND aggregateid = '$room'}, '1', $name);
	return;
}

# The first rule is mallory's
sql($node, 'postgres', q{
	CREATE ROLE alice; CREATE ROLE mallory; CREATE SCHEMA a AUTHORIZATION alice; CREATE SCHEMA m AUTHORIZATION mallory;
	GRANT EXECUTE ON FUNCTION dc_presence_create TO alice, mallory; GRANT EXECUTE ON FUNCTION dc_consumer_create TO mallory;
	SET ROLE mallory; SELECT dc_presence_create('busy', events => '10ms', ttl => '1h'); CREATE TABLE m.stop ();
	RESET ROLE; SET ROLE alice; SELECT dc_presence_create('quiet', events => '100ms', ttl => '1h'), dc_create('a.likes', totals => 'compacted')});

#
# Rooms that change faster than they are reported
#
my $session = dc_session($node, 'postgres');

$session->run('SET ROLE mallory');
$session->send(q{DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM m.stop) LOOP
	PERFORM dc_enter('busy', i::text, 'x') FROM generate_series(1, 5000) i; PERFORM dc_exit('busy', i::text, 'x') FROM generate_series(1, 5000) i; COMMIT;
	END LOOP; END $$});
soon($node, 'postgres', q{SELECT count(*) > 5000 FROM dcounter.outbox WHERE aggregatetype = 'busy'}, 't', 'many rooms are told of');
told('one', 'and a room of another owner');
told('two', 'again');
sql($node, 'postgres', 'INSERT INTO m.stop DEFAULT VALUES');
is($session->wait, '', 'the load was there to the end');
$session->quit;

#
# Presences without a place in memory
#
sql($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_presence_create('m' || i, events => '1s', ttl => '1h', max_members => 10)) FROM generate_series(1, 1100) i});
sql($node, 'postgres', q{SELECT count(dc_presence_create('p' || i, events => '1s', ttl => '1h', max_members => 10)) FROM generate_series(1, 1100) i});
my $enter = q{DO $$ BEGIN FOR i IN 1..1100 LOOP PERFORM dc_enter('%s' || i, 'room', 'x'); END LOOP; RAISE 'there is room for all';
	EXCEPTION WHEN out_of_memory THEN NULL; END $$};
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_presence_drop('busy')});
# the place of the one that was dropped is free once the worker has removed its rooms
my $used = q{SELECT count(*) FROM dc_stat_presence WHERE rooms > 0 AND name LIKE 'm%'};
for (1 .. $PostgreSQL::Test::Utils::timeout_default)
{
	sql($node, 'postgres', 'SET ROLE mallory; ' . sprintf($enter, 'm'));
	last if sql($node, 'postgres', $used) >= 128;
	sleep 1;
}
is(sql($node, 'postgres', $used), '128', 'a role has its share of the places');
sql($node, 'postgres', sprintf($enter, 'p'));
is(sql($node, 'postgres', q{SELECT count(*) > 1000 FROM dc_stat_presence WHERE rooms > 0}), 't', 'all places are taken, by a superuser');
told('three', 'other presences have their events');
is(step_failures($node, 'presence'), '', 'and no step has failed');
fails_with($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_presence_create('n' || i)) FROM generate_series(1, 1000) i}, '54000', 'a role has so many and no more');
sql($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_presence_drop('m' || i)) FROM generate_series(1, 1100) i});
sql($node, 'postgres', q{SELECT count(dc_presence_drop('p' || i)) FROM generate_series(1, 1100) i});

#
# Consumers of other topics, which are moved past all that was written
#
sql($node, 'postgres', q{SELECT count(dc_publish('many', i::text, 'x', '{}')) FROM generate_series(1, 100000) i});
sql($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_consumer_create('c' || i, topics => '{none}', start => 'beginning')) FROM generate_series(1, 600) i});
soon($node, 'postgres', q{SELECT count(*) > 2 FROM dc_stat_consumers WHERE position > 0}, 't', 'some are moved at a time');
sql($node, 'postgres', q{SET ROLE alice; SELECT dc_incr('a.likes', 'k')});
soon($node, 'postgres', q{SELECT count(*) FROM a.likes}, '1', 'and compaction goes on');
is(step_failures($node, 'outbox'), '', 'no step has failed');

fails_with($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_consumer_create('d' || i)) FROM generate_series(1, 1401) i}, '54000', 'a role has so many consumers and no more');
is(sql($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_consumer_create('d' || i)) FROM generate_series(1, 1400) i}), '1400', 'but so many');
$node->stop;

#
# More consumers and members than locks. As many of mallory's as there are of several roles
#
my $small = dc_node('small', conf => [ 'autovacuum = off', 'max_connections = 20', 'max_prepared_transactions = 0', 'max_locks_per_transaction = 40',
		'dcounter.outbox_rotate_age = 0', 'dcounter.outbox_keep = 0', 'shared_buffers = 16MB' ]);
my $copies = 'generate_series(1, 4000) AS i';
my $events = 'SELECT count(*) FROM dcounter.outbox';

# copies(TABLE, WHERE, SET): 4,000 of a row, with these columns
sub copies
{
	my ($table, $where, $set) = @_;

	return qq{INSERT INTO dcounter.$table SELECT (jsonb_populate_record(r, jsonb_build_object($set))).* FROM dcounter.$table AS r, $copies WHERE $where;};
}

sql($small, 'postgres', q{SELECT dc_consumer_create('c'), dc_consumer_alter('c', max_retention_size => 1)});
sql($small, 'postgres', copies('consumer', q{name = 'c'}, q{'id', 1000 + i, 'name', 'c' || i}) . copies('consumer_member', 'true', q{'consumer', 1000 + i}));
sql($small, 'postgres', q{SELECT dc_publish('t', 'k', 'x', '{}')}) foreach 1 .. 2;
sql($small, 'postgres', 'CALL dc_maintain()') foreach 1 .. 2;
is(sql($small, 'postgres', "$events; SELECT count(*), count(cut_off) FROM dcounter.consumer"), "0\n4001|4001", 'all are cut off, some in each step, and do not keep events');

sql($small, 'postgres', q{UPDATE dcounter.consumer SET topics = '{none}', cut_off = NULL, max_retention_size = NULL; SELECT dc_publish('t', 'k', 'x', '{}')});
sql($small, 'postgres', 'CALL dc_maintain()');
is(sql($small, 'postgres', 'SELECT count(*) > 0 FROM dcounter.consumer_member WHERE acked >= (SELECT max(seq) FROM dcounter.outbox)'), 't', 'those of other topics are moved, some in each step');

sql($small, 'postgres', q{DELETE FROM dcounter.consumer WHERE name <> 'c'; DELETE FROM dcounter.consumer_member WHERE consumer > 1000; SELECT dc_seek('c', 'now'), dc_consumer_alter('c', topics => '{}', max_retention_size => 1)});
sql($small, 'postgres', copies('consumer_member', 'i < 1000', q{'member', 'm' || i, 'lanes', 0, 'lease_until', now()}));
is(sql($small, 'postgres', q{SELECT count(*) FROM dc_fetch('c', 1, '0', 'one more')}), '0', 'a consumer has a thousand members');
fails_with($small, 'postgres', q{SELECT dc_fetch('c', 1, '0', 'another')}, '54000', 'and no more');
is(sql($small, 'postgres', q{SELECT count(*) FROM dc_fetch('c', 1, '0', 'm1')}), '0', 'those that there are go on');

sql($small, 'postgres', copies('consumer_member', q{member = 'm2'}, q{'member', 'n' || i}) . q{UPDATE dcounter.consumer_member SET lease_until = now() - interval '2 h', lanes = -(member = '')::int});
sql($small, 'postgres', q{SELECT dc_publish('t', 'k', 'x', '{}')});
sql($small, 'postgres', 'CALL dc_maintain()') foreach 1 .. 2;
is(sql($small, 'postgres', "$events; SELECT count(*) FROM dcounter.consumer_member"), "0\n1", 'members that have left are removed, some in each step');
is(sql($small, 'postgres', q{SELECT dc_seek('c', 'now') IS NULL; SELECT count(*) FROM dc_fetch('c', 1, '0', 'another')}), "f\n0", 'others can come then');

$small->stop;
done_testing();
