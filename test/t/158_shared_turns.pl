# Fairness of what the worker does for roles that were granted a presence, or consumers: rooms that change all the time, presences that
# take all places, and consumers that are far behind keep neither the events of other presences nor other jobs from their turns.
# Where these had no bound, the events did not come at all, and all jobs were half a minute late.
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

# failures(JOB)
sub failures
{
	return sql($node, 'postgres', "SELECT failures FROM dc_stat_worker WHERE job = '$_[0]' AND datname = 'postgres'");
}

# The first rule is mallory's
sql($node, 'postgres', q{
	CREATE ROLE alice; CREATE ROLE mallory; CREATE SCHEMA a AUTHORIZATION alice; CREATE SCHEMA m AUTHORIZATION mallory;
	GRANT EXECUTE ON FUNCTION dc_presence_create TO alice, mallory; GRANT EXECUTE ON FUNCTION dc_consumer_create TO mallory;
	SET ROLE mallory; SELECT dc_presence_create('busy', events => '10ms', ttl => '1h'); CREATE TABLE m.stop ();
	RESET ROLE; SET ROLE alice; SELECT dc_presence_create('quiet', events => '100ms', ttl => '1h'), dc_create('a.likes', totals => 'compacted')});

#
# Rooms that change faster than they are told of
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
my $before = failures('presence');

sql($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_presence_create('m' || i, events => '1s', ttl => '1h', max_members => 10)) FROM generate_series(1, 1100) i});
sql($node, 'postgres', $_) foreach q{SET ROLE mallory; SELECT dc_presence_drop('busy')}, q{SET ROLE mallory;
	DO $$ BEGIN FOR i IN 1..1100 LOOP PERFORM dc_enter('m' || i, 'room', 'x'); END LOOP; RAISE 'there is room for all';
	EXCEPTION WHEN out_of_memory THEN NULL; END $$};
is(sql($node, 'postgres', q{SELECT count(*) > 1000 FROM dc_stat_presence WHERE rooms > 0}), 't', 'all places are taken');
told('three', 'other presences have their events');
is(failures('presence'), $before, 'and no step has failed');
fails_with($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_presence_create('n' || i)) FROM generate_series(1, 1000) i}, '54000', 'a role has so many and no more');
sql($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_presence_drop('m' || i)) FROM generate_series(1, 1100) i});

#
# Consumers of other topics, which are moved past all that was written
#
sql($node, 'postgres', q{SELECT count(dc_publish('many', i::text, 'x', '{}')) FROM generate_series(1, 100000) i});
$before = failures('outbox');
sql($node, 'postgres', q{SET ROLE mallory; SELECT count(dc_consumer_create('c' || i, topics => '{none}', start => 'beginning')) FROM generate_series(1, 600) i});
soon($node, 'postgres', q{SELECT count(*) > 2 FROM dc_stat_consumers WHERE position > 0}, 't', 'some are moved at a time');
sql($node, 'postgres', q{SET ROLE alice; SELECT dc_incr('a.likes', 'k')});
soon($node, 'postgres', q{SELECT count(*) FROM a.likes}, '1', 'and compaction goes on');
is(failures('outbox'), $before, 'no step has failed');

$node->stop;
done_testing();
