# Rules of limits and presences in databases that are copied, dumped, dropped and created again, or whose extension is;
# rules that are dropped in a transaction that is prepared; on a standby that is promoted. No two share what is in memory, though
# their ids are the same, and the memory of a dropped database is freed.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('main', init => { allows_streaming => 1 }, conf => [ q{shared_preload_libraries = 'dcounter'}, 'dcounter.worker = off', 'fsync = off' ], extension => 0);
my $memory = q{SELECT sum(memory) FROM (SELECT memory FROM dc_stat_limits UNION ALL SELECT memory FROM dc_stat_presence) AS s};

# shows(DATABASE): what is left of the limit, and the members present
sub shows
{
	my ($database) = @_;

	return sql($node, $database, q{SELECT remaining || ' ' || dc_present('chat', 'lobby') || ' ' || coalesce((SELECT string_agg(member, ' ') FROM dc_presence_list('chat', 'lobby')), 'nobody') FROM dc_limit_peek('api', 'k')});
}

sub use_rules
{
	my ($database, $member) = @_;

	sql($node, $database, "SELECT dc_limit('api', 'k'), dc_enter('chat', 'lobby', '$member')");
	return;
}

sql($node, 'postgres', 'CREATE DATABASE one');
sql($node, 'one', q{CREATE EXTENSION dcounter; SELECT dc_limit_create('api', 'fixed', 5, '3650 days'), dc_presence_create('chat', '7 days', events => '1 us', notify => 'chat', max_members => 1000); CREATE ROLE app; SELECT dc_presence_grant('chat', 'app'), dc_presence_grant('chat', '-'), dc_limit_grant('api', 'app')});
use_rules('one', 'ann');

##
## A copy: the same ids, the same numbers of catalogs
sql($node, 'postgres', 'CREATE DATABASE two TEMPLATE one');
is(sql($node, 'two', q{SELECT 'dcounter.presence_rule'::regclass::oid, id FROM dcounter.presence_rule}), sql($node, 'one', q{SELECT 'dcounter.presence_rule'::regclass::oid, id FROM dcounter.presence_rule}), 'a copy has the same numbers');
is(shows('two'), '5 0 nobody', 'and nothing of what is in memory');
use_rules('two', 'bob');
use_rules('two', 'cy');
is(shows('one') . '/' . shows('two'), '4 1 ann/3 2 bob cy', 'each counts for itself');
sql($node, 'one', 'CALL dc_maintain()');
is(sql($node, 'one', q{SELECT count(*) FROM dcounter.outbox}) . sql($node, 'two', q{SELECT count(*) FROM dcounter.outbox}), '20', 'and has events of its own, a reset and a change');
sql($node, 'two', q{SELECT dc_presence_alter('chat', '1 day', max_members => 1), dc_limit_alter('api', 2)});
is(sql($node, 'one', q{SELECT dc_enter('chat', 'lobby', 'dan')}), '2', 'so for changes of the rule');
fails_with($node, 'two', q{SELECT dc_enter('chat', 'lobby', 'dan')}, '53200', 'which hold where they were made');
$node->restart;
is(shows('one') . '/' . shows('two'), '4 2 ann dan/0 2 bob cy', 'over a restart, too');
sql($node, 'two', q{SELECT dc_presence_drop('chat'), dc_limit_drop('api')});
is(shows('one'), '4 2 ann dan', 'what is dropped in one is there in the other');

##
## Dropped, and one of the same name
sql($node, 'postgres', 'DROP DATABASE two; CREATE DATABASE two TEMPLATE one');
is(shows('two'), '5 0 nobody', 'a database of the same name is another one');
use_rules('two', 'eve');
sql($node, 'two', 'DROP EXTENSION dcounter');
sql($node, 'two', q{CREATE EXTENSION dcounter; SELECT dc_limit_create('api', 'fixed', 5, '3650 days'), dc_presence_create('chat', '7 days', events => '1 us')});
is(sql($node, 'two', 'SELECT min(id) FROM (SELECT id FROM dcounter.limit_rule UNION ALL SELECT id FROM dcounter.presence_rule) AS r'), '1', 'an extension that was made anew begins with the same ids');
is(shows('two'), '5 0 nobody', 'and nothing is there');
is(sql($node, 'two', q{CALL dc_maintain(); SELECT string_agg(type, ' ') FROM dcounter.outbox}), 'presence.reset', 'nor to be told, but that it is new');
use_rules('two', 'flo');
sql($node, 'two', q{BEGIN; DROP EXTENSION dcounter; ROLLBACK});
is(shows('two'), '4 1 flo', 'an extension that was nearly dropped');

##
## Dump and restore: rules with their owners, rights and settings
command_ok([ 'pg_dump', '-f', $node->basedir . '/dump.sql', '-d', $node->connstr('one') ], 'pg_dump');
sql($node, 'postgres', 'CREATE DATABASE restored');
command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $node->basedir . '/dump.sql' ], 'restored');
my $rules = q{SELECT string_agg(r::text, ' ' ORDER BY r::text) FROM (SELECT p::text FROM dcounter.presence_rule AS p UNION ALL SELECT l::text FROM dcounter.limit_rule AS l) AS r};
is(sql($node, 'restored', $rules), sql($node, 'one', $rules), 'the same rules');
is(shows('restored'), '5 0 nobody', 'with memory of their own');
is(sql($node, 'restored', q{SELECT dc_presence_create('next'), dc_limit_create('next', 'gcra', 1, '1 s'); SELECT count(DISTINCT id) FROM dcounter.presence_rule}), "|\n2", 'and ids of their own');
use_rules('restored', 'gus');
is(shows('one') . '/' . shows('restored'), '4 2 ann dan/4 1 gus', 'apart from the others');

##
## A drop that is prepared: nobody can enter after it is committed. Members who were there leave when their time is up.
sql($node, 'one', q{SELECT dc_presence_create('brief', '1 s'), dc_limit_create('brief', 'fixed', 1, '1 s'); SELECT dc_enter('brief', 'lobby', 'ann'), dc_limit('brief', 'k')});
sql($node, 'one', q{BEGIN; SELECT dc_presence_drop('brief'), dc_limit_drop('brief'); PREPARE TRANSACTION 'drop'});
is(sql($node, 'one', q{SELECT dc_enter('brief', 'lobby', 'bob') > 0}), 't', 'a drop that is prepared');
sql($node, 'one', q{COMMIT PREPARED 'drop'});
fails_with($node, 'one', q{SELECT dc_beat('brief', 'lobby', 'bob')}, '42704', 'and committed');
sql($node, 'one', q{SELECT dc_presence_create('brief', '1 s'), dc_limit_create('brief', 'fixed', 1, '1 s')});
is(sql($node, 'one', q{SELECT dc_present('brief', 'lobby'), allowed FROM dc_limit('brief', 'k')}), '0|t', 'one of that name is another one');
sql($node, 'one', q{BEGIN; SELECT dc_presence_drop('chat'), dc_limit_drop('api'); PREPARE TRANSACTION 'drop'});
sql($node, 'one', q{ROLLBACK PREPARED 'drop'});
is(shows('one'), '4 2 ann dan', 'or rolled back');

##
## A standby of all that
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
is(sql($standby, 'one', q{SELECT dc_enter('chat', 'lobby', 'sue'), remaining FROM dc_limit('api', 'k')}) . '/' . sql($standby, 'two', q{SELECT dc_present('chat', 'lobby'), remaining FROM dc_limit('api', 'k')}), '1|4/0|4', 'on a standby databases are apart, and it knows its own');
my $session = dc_session($standby, 'one');
$session->run(q{SELECT dc_present('chat', 'lobby')});
sql($node, 'one', q{SELECT dc_presence_drop('chat'); SELECT dc_presence_create('chat', '7 days')});
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($session->run(q{SELECT dc_present('chat', 'lobby')}), '0', 'a rule that was made anew on the primary is another one there');
$session->run(q{SELECT dc_enter('chat', 'lobby', 'tom')});
sql($node, 'postgres', 'DROP DATABASE two');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$node->stop;
$standby->promote;
is($session->run(q{SELECT dc_enter('chat', 'lobby', 'una')}), '2', 'who has entered is there when it is promoted');
$session->quit;
is(sql($standby, 'one', q{CALL dc_maintain(); SELECT dc_present('chat', 'lobby')}), '2', 'and after its first events');
$standby->stop;

##
## Memory of what is gone: of a database that was dropped, at once
$node->append_conf('postgresql.conf', "dcounter.limit_size = '1MB'\ndcounter.presence_size = '1MB'\ndcounter.throttle_max_keys = 100000");
$node->start;
sql($node, 'one', q{SELECT dc_presence_create('all', '7 days', events => '1 us', max_members => 100000), dc_limit_create('all', 'fixed', 1, '3650 days', max_keys => 100000)});
foreach my $round (1 .. 3)
{
	sql($node, 'postgres', "CREATE DATABASE three TEMPLATE one");
	is(sql($node, 'three', q{SELECT count(dc_enter('all', 'room ' || i % 10, 'm' || i)), count(*) FILTER (WHERE (dc_limit('all', 'k' || i)).allowed) FROM generate_series(1, 4000) AS i}), '4000|4000', "$round: members, and keys of limits");
	is(sql($node, 'three', q{SELECT count(*) FILTER (WHERE (dc_throttle('k' || i, 1, 1, '100 days')).allowed) > 100 FROM generate_series(1, 4000) AS i}), 't', 'and ad hoc ones');
	sql($node, 'postgres', 'DROP DATABASE three');
	# they are looked for each second
	sql($node, 'postgres', 'SELECT pg_sleep(1.1)');
}
is(shows('one'), '4 0 nobody', 'others are as before');
$node->stop;
done_testing();
