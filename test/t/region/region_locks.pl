# What a user has locked, or has prepared, keeps a region neither from beginning again after a start nor from a new epoch; and rows
# that no region sends do not come to where sets would tell of them.
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = region_node('eu', 'max_prepared_transactions = 10', "dcounter.region_handshake = '3s'");
my $epoch = 'SELECT epoch FROM dcounter.self';
my $shut = q{SELECT rights_epoch < 0 FROM dcounter.counter WHERE counter = 'rooms'::regclass};

sql($node, 'postgres', q{
	SELECT dc_stock_create('rooms'), dc_create('buffered', mode => 'buffered', flush_interval => '1 hour');
	SELECT dc_replicate('rooms'), dc_replicate('buffered');
	SELECT dc_restock('rooms', 'may', 10)});

# A transaction that has asked for the identity cannot be prepared, even if it has not changed anything
foreach my $what (q{dc_delete('likes', 'nothing')}, q{dc_want('rooms', 'may', 1)})
{
	my ($ret, $out, $err) = $node->psql('postgres', "BEGIN; SELECT $what; PREPARE TRANSACTION 'kept'");

	like($err, qr/cannot PREPARE a transaction that has published/, "$what is not prepared");
}

# Nor is one that has noted that this database was copied
sql($node, 'postgres', q{
	CREATE SUBSCRIPTION dc_refresh_us CONNECTION 'host=us' PUBLICATION dcounter_all WITH (connect = false, slot_name = NONE);
	INSERT INTO pg_subscription_rel SELECT oid, 'dcounter.region'::regclass, 'r', NULL FROM pg_subscription;
	UPDATE dcounter.self SET state = 'recopy'});
my ($prepared, $said, $why) = $node->psql('postgres', q{BEGIN; CALL dc_region_wait_copied('dc_refresh_us'); PREPARE TRANSACTION 'copied'});
like($why, qr/cannot PREPARE a transaction that has published/, 'a copy that is noted is not prepared');
is(sql($node, 'postgres', 'SELECT state FROM dcounter.self'), 'recopy', 'and not noted');
sql($node, 'postgres', q{CALL dc_region_wait_copied('dc_refresh_us')});
is(sql($node, 'postgres', 'SELECT state FROM dcounter.self'), 'active', 'it is noted');
sql($node, 'postgres', 'DROP SUBSCRIPTION dc_refresh_us');

# One that has taken units is, by a session that has just come, and one that has counted: a server that is started begins all the same
sql($node, 'postgres', q{BEGIN; SELECT dc_take('rooms', 'may', 1), dc_incr('likes', 'a', 2); PREPARE TRANSACTION 'taken'});
is(sql($node, 'postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 91 AND classid = 0 AND objid = 0 AND mode = 'ShareLock'}), '0', 'the identity is free');
$node->restart;
is(sql($node, 'postgres', q{SELECT dc_incr('likes', 'a', 1)}), '', 'it is counted after a start');
is(sql($node, 'postgres', q{SELECT dc_take('rooms', 'may', 2)}), 't', 'units are sold after a start');

# The same holds if an owner has locked the table of regions of their counter
sql($node, 'postgres', q{SELECT dc_create('other'); SELECT dc_replicate('other'); SELECT dc_incr('other', 'a', 5)});
sql($node, 'postgres', q{BEGIN; LOCK TABLE other_region IN SHARE MODE; PREPARE TRANSACTION 'locked'});
$node->restart;
is(wait_for($node, 'postgres', q{SELECT 'counts' FROM (SELECT dc_incr('likes', 'b', 1)) AS c}, 'counts', 30), 'counts', 'a table that is locked does not keep it from beginning');
sql($node, 'postgres', q{COMMIT PREPARED 'locked'});
is(sql($node, 'postgres', q{SELECT dc_get('other', 'a')}), '5', 'and nothing is lost');

# The new epoch is taken without the stock, which is shut. The units that were taken are not there twice
my $old = sql($node, 'postgres', $epoch);
sql($node, 'postgres', qq{INSERT INTO dcounter.self_mark VALUES ($old, 'renew', NULL, now())});
$node->restart; # the worker looks
is(wait_for($node, 'postgres', "SELECT epoch > $old FROM dcounter.self", 't'), 't', 'there is a new epoch');
is(sql($node, 'postgres', $shut), 't', 'the stock that is locked is shut');
my ($ret, $out, $err) = $node->psql('postgres', q{SELECT dc_take('rooms', 'may', 1)});
like($err, qr/units of stock "rooms" may have been sold already/, 'it sells nothing');
sql($node, 'postgres', q{COMMIT PREPARED 'taken'});
sql($node, 'postgres', 'SELECT dc_region_renew(lossless => true)');
is(sql($node, 'postgres', q{SELECT dc_get('rooms', 'may'), dc_get('likes', 'a')}), '7|3', 'the numbers are right');
is(sql($node, 'postgres', q{SELECT dc_take('rooms', 'may', 7), dc_take('rooms', 'may', 1)}), 't|f', 'it sells what there is');

# What is in memory keeps a region from being retired, until it is published
sql($node, 'postgres', q{SELECT dc_incr('buffered', 'm', 3)});
($ret, $out, $err) = $node->psql('postgres', q{SELECT dc_region_retire('eu')});
like($err, qr/has increments that are not published yet/, 'it is not retired with amounts in memory');
is(sql($node, 'postgres', q{SELECT dc_get('buffered', 'm')}), '3', 'which are still there');

# foreign: a row tells of the work of a copy, so a new epoch is wanted; returns the one that there is
sub foreign
{
	my $before = sql($node, 'postgres', $epoch);

	sql($node, 'postgres', qq{SET session_replication_role = replica; INSERT INTO likes_region VALUES ('copied', 'eu', $before, 1000, 0, now())});
	return $before;
}

# A transaction that has published keeps the new epoch waiting, and does not wait for it: it fails at once. Until then
# nobody else publishes under the old one
my $session = dc_session($node, 'postgres');
$session->run(q{BEGIN; SELECT dc_set('likes', 'one', 1)});
$old = foreign();
is(sql($node, 'postgres', $epoch), $old, 'while it is open there is no new epoch');
is($session->run(q{SELECT dc_delete('likes', 'two')}), 'ERROR 40001', 'one that has published does not go on');
$session->run('ROLLBACK');
is(wait_for($node, 'postgres', "SELECT epoch > $old FROM dcounter.self", 't'), 't', 'then there is');
is($session->run(q{SELECT dc_set('likes', 'one', 2), dc_delete('likes', 'two')}), '0|0', 'it can begin anew');

# What was rolled back to before it had asked may wait, and so may one that has only counted
foreach my $begin (q{BEGIN; SAVEPOINT s; SELECT dc_set('likes', 'one', 3); ROLLBACK TO s}, q{BEGIN; SELECT dc_incr('likes', 'one', 3)})
{
	$session->run($begin);
	$old = foreign();
	like($session->run(q{SELECT dc_set('likes', 'one', 4)}), qr/^\d+$/, "waits: $begin");
	$session->run('COMMIT');
	is(sql($node, 'postgres', qq{SELECT s.epoch > $old FROM dcounter.self AS s}), 't', "there is a new epoch: $begin");
	is(sql($node, 'postgres', q{SELECT dc_get('likes', 'one')}), 4, "it was set: $begin");
}

# What makes links waits for a new epoch, and keeps the next one from nobody
$session->run(q{BEGIN; SELECT dc_set('likes', 'one', 5)});
$old = foreign();
my $joins = dc_session($node, 'postgres');
$joins->send(q{BEGIN; SELECT dc_region_join('us', 'host=us', trust_owners => true)});
is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT dc_region_join' AND state = 'active' AND wait_event IS NOT NULL}, '1'), '1', 'a link waits');
$session->run('COMMIT');
like($joins->wait, qr/CREATE SUBSCRIPTION dc_from_us/, 'it is made under the new epoch');
is(sql($node, 'postgres', qq{SELECT s.epoch > $old FROM dcounter.self AS s}), 't', 'which there is');
is(sql($node, 'postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 91 AND classid = 0 AND objid = 0 AND pid IN (SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction')}), '0', 'the identity is free');
$old = foreign();
is(wait_for($node, 'postgres', "SELECT epoch > $old FROM dcounter.self", 't'), 't', 'another one is taken meanwhile');
$joins->quit;
$session->quit;

# Rows of what cannot be a region
foreach my $row (q{likes_region VALUES ('k', 'Bad name', 5, 1, 1, now())}, q{likes_region VALUES ('k', repeat('x', 100), 5, 1, 1, now())},
	q{likes_set VALUES ('k', 'u s', 2, 5, false, '{}')}, q{dcounter.region (region, epoch, seq) VALUES ('', 1, 1)},
	q{dcounter.region (region, epoch, seq) VALUES ('us', -1, 1)}, q{dcounter.region (region, epoch, seq, beat_at) VALUES ('us', 1, 1, 'infinity')})
{
	($ret, $out, $err) = $node->psql('postgres', "SET session_replication_role = replica; INSERT INTO $row");
	like($err, qr/a row for "\w+" is not valid as a row of a region/, "refused: $row");
}
sql($node, 'postgres', q{SELECT dc_set('likes', 'k', 7)});
is(sql($node, 'postgres', q{SELECT dc_get('likes', 'k'), upto FROM likes_set WHERE key = 'k'}), '7|{}', 'a set observes none of these');
sql($node, 'postgres', q{SELECT dc_flush('buffered')});
is(sql($node, 'postgres', q{SELECT sum(inc) FROM buffered_region}), '3', 'what was in memory is published');
is(wait_for($node, 'postgres', q{SELECT count(*) FROM likes_shard WHERE shard >= 0 AND (inc > 0 OR dec > 0)}, '0'), '0', 'all is published');
is(sql($node, 'postgres', q{SELECT dc_region_retire('eu')}), '', 'it is retired');

done_testing();
