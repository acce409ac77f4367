# Times to live: what a heartbeat puts off, for a member and for each of its connections; expiry by
# the worker, dc_maintain(), or calls. Nothing here depends on how long a statement takes: a time to
# live that has to pass is a second, and is waited for; one that must not is a week.
use strict;
use warnings;

use DcTest;
use DcWorker 'step_failures';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('main', conf => [ q{shared_preload_libraries = 'dcounter'}, 'dcounter.worker = off', 'fsync = off' ]);

# here(ROOM): the members of a room
sub here { return sql($node, 'postgres', "SELECT coalesce(string_agg(member, ' '), '') FROM dc_presence_list('chat', '$_[0]')") }

# ttl(INTERVAL): for what is done from now on
sub ttl { sql($node, 'postgres', "SELECT dc_presence_alter('chat', '$_[0]')"); return }

# second_passes(HOW): a member that has entered now, for a second, is gone
my $n = 0;

sub second_passes
{
	my ($how) = @_;
	my $room = 'second ' . ++$n;

	ttl('1 s');
	sql($node, 'postgres', "SELECT dc_enter('chat', '$room', 'x')");
	ttl('7 days');
	return wait_for($node, 'postgres', "$how SELECT count(*) FROM dc_presence_list('chat', '$room')", '0');
}

sql($node, 'postgres', q{SELECT dc_presence_create('chat', '1 s', events => '1 us')});

##
## Only a heartbeat postpones the end
my $enter = q{
	SELECT dc_presence_alter('chat', '1 s');
	SELECT dc_enter('chat', 'a', m) FROM unnest('{beaten,entered,many,left alone,asked}'::text[]) AS m;
	SELECT dc_enter('chat', 'a', 'named', 'one'), dc_enter('chat', 'a', 'named', 'two'), dc_enter('chat', 'a', 'other', 'one'), dc_enter('chat', 'a', 'other', 'two'), dc_enter('chat', 'a', 'both', 'one'), dc_enter('chat', 'a', 'both');
	SELECT dc_presence_alter('chat', '7 days');
	SELECT dc_beat('chat', 'a', 'beaten'), dc_enter('chat', 'a', 'entered'), dc_beat_many('chat', '{a,a}', '{many,many}'), dc_beat('chat', 'a', 'named', 'two'), dc_beat('chat', 'a', 'other', 'one'), dc_beat('chat', 'a', 'both', 'one');
	SELECT dc_present('chat', 'a'), count(*) FROM dc_presence_list('chat', 'a');};
sql($node, 'postgres', $enter);
is(second_passes('CALL dc_maintain();'), '0', 'a second passes');
is(here('a'), 'beaten both entered many named other', 'who was heard of is there, and nobody else');
sql($node, 'postgres', 'CALL dc_maintain()');
is(sql($node, 'postgres', q{SELECT sum((payload ->> 'joined')::int) - sum((payload ->> 'left')::int), sum((payload ->> 'left')::int) >= 2 FROM dcounter.outbox WHERE aggregateid = 'a'}), '6|t', 'and who left is told of');

# When a connection goes, the member is there as long as the others are
is(sql($node, 'postgres', q{SELECT dc_exit('chat', 'a', 'named', 'one'), dc_exit('chat', 'a', 'named', 'one')}), '6|6', 'a connection that is not heard of any more goes');
is(sql($node, 'postgres', q{SELECT dc_exit('chat', 'a', 'named', 'two')}), '5', 'and the one that was heard of: it was the last');
is(sql($node, 'postgres', q{SELECT dc_exit('chat', 'a', 'other', 'two'), dc_exit('chat', 'a', 'both')}), '5|5', 'for others it is another one');
is(sql($node, 'postgres', q{SELECT dc_exit('chat', 'a', 'other', 'one'), dc_exit('chat', 'a', 'both', 'one')}), '4|3', 'each by its own');
ttl('1 s');
sql($node, 'postgres', q{SELECT dc_enter('chat', 'a', 'short', 'brief')});
ttl('7 days');
sql($node, 'postgres', q{SELECT dc_enter('chat', 'a', 'short', 'long'); SELECT dc_exit('chat', 'a', 'short', 'long')});
# the same, when the one that goes has come first: the wheel knows a later time
sql($node, 'postgres', q{SELECT dc_enter('chat', 'a', 'shorter', 'long')});
ttl('1 s');
sql($node, 'postgres', q{SELECT dc_enter('chat', 'a', 'shorter', 'brief'); SELECT dc_exit('chat', 'a', 'shorter', 'long')});
is(second_passes('CALL dc_maintain();'), '0', 'another second passes');
is(here('a'), 'beaten entered many', 'without its other connection it has the time of the first one');
ttl('1 s');
is(sql($node, 'postgres', q{SELECT dc_beat('chat', 'a', 'beaten')}), 't', 'a shorter time to live');
is(second_passes('CALL dc_maintain();'), '0', 'passes');
is(here('a'), 'beaten entered many', 'and takes nothing from what was promised');
is(sql($node, 'postgres', q{SELECT joined - "left", expired >= 5 FROM dc_stat_presence}), '3|t', 'the view knows who has expired');

##
## What looks for expired members: calls, when nothing else does
is(second_passes(''), '0', 'a list');
foreach my $call (q{SELECT dc_present('chat', 'b')}, q{SELECT dc_enter('chat', 'b', 'y') - 1}, q{SELECT dc_exit('chat', 'b', 'z')})
{
	ttl('1 s');
	sql($node, 'postgres', q{SELECT dc_exit('chat', 'b', 'y', NULL); SELECT dc_enter('chat', 'b', 'x')});
	ttl('7 days');
	is(wait_for($node, 'postgres', $call, '0'), '0', "$call lets who is late leave");
}
# a heartbeat of an expired member that has not been removed yet is one of a known member
ttl('1 s');
sql($node, 'postgres', q{SELECT dc_enter('chat', 'c', 'x')});
ttl('7 days');
sql($node, 'postgres', q{SELECT pg_sleep(1.2)});
like(sql($node, 'postgres', q{SELECT dc_beat('chat', 'c', 'x'), dc_present('chat', 'c')}), qr/^[tf]\|1$/, 'one that is late is there once');

##
## The worker
$node->append_conf('postgresql.conf', "dcounter.worker = on\ndcounter.presence_interval = '100ms'\nlog_statement = none");
$node->reload;
ttl('1 s');
sql($node, 'postgres', q{SELECT count(dc_enter('chat', 'worker ' || i % 10, 'x' || i)) FROM generate_series(1, 1000) AS i});
is(wait_for($node, 'postgres', q{SELECT sum((payload ->> 'left')::int) FROM dcounter.outbox WHERE aggregateid LIKE 'worker %'}, '1000'), '1000', 'the worker lets them leave, and tells of it');
is(wait_for($node, 'postgres', q{SELECT runs > 0 FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'presence'}, 't'), 't', 'as its job says');
is(step_failures($node, 'presence'), '', 'which has not failed');
is(wait_for($node, 'postgres', q{SELECT untold FROM dc_stat_presence}, '0'), '0', 'nothing is left to be told');
$node->stop;
done_testing();
