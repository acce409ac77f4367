# Owners who lock rows of their counter, or whose counter cannot be processed, keep the counters of others neither from being
# counted in after a start nor from being published, as heartbeats show; and no increment of theirs is lost or counted twice.
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = region_node('eu', 'max_prepared_transactions = 10', "dcounter.region_handshake = '2s'", "dcounter.region_beat_interval = '200ms'");
my $epoch = sql($node, 'postgres', 'SELECT epoch FROM dcounter.self');
my $sound = q{SELECT keys FROM dc_region_check('%s') WHERE region IS NULL};
my $offset;

# small(NAME): the worker has taken no more memory than one value at a time needs
sub small
{
	my ($name) = @_;
	my $most = peak_memory(sql($node, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'postgres'}));

	return cmp_ok($most // 0, '<', 350, "$name: the worker's memory, MB");
}

# restarted(SQL): after a start, with increments that were not published
sub restarted
{
	my ($sql) = @_;

	sql($node, 'postgres', $sql);
	$offset = -s $node->logfile;
	$node->stop('immediate');
	$node->start;
	return;
}

# A region that answers nobody, so that each start seals, and ends with a new epoch. Its beats come from nobody
sql($node, 'postgres', q{
	SELECT dc_stock_create('rooms'), dc_create('locked'), dc_create('large'), dc_create('held');
	SELECT dc_replicate(c) FROM unnest('{locked, large, held, rooms}'::regclass[]) AS c;
	SELECT dc_restock('rooms', 'may', 10)});
sql($node, 'postgres', q{SET session_replication_role = replica; INSERT INTO dcounter.region (region, epoch, seq) VALUES ('us', 1, 1)});

# "locked" has a row that is sealed, and locked by a prepared transaction; "large" one whose sum is out of range for bigint when more is sealed.
# Both were there before, without amounts
sql($node, 'postgres', qq{
	ALTER SYSTEM SET dcounter.compact_interval = '1h';
	SELECT pg_reload_conf();
	INSERT INTO locked_region VALUES ('a', 'eu', -$epoch, 0, 0, now());
	INSERT INTO large_region VALUES ('a', 'eu', -$epoch, 9223372036854775807, 0, now())});
sql($node, 'postgres', q{BEGIN; SELECT FROM locked_region FOR UPDATE; SELECT FROM held FOR UPDATE; PREPARE TRANSACTION 'locked'});
sql($node, 'postgres', q{BEGIN; SELECT FROM rooms_grant FOR UPDATE; SELECT FROM rooms_want FOR UPDATE; SELECT FROM rooms FOR UPDATE; SELECT FROM rooms_shard FOR UPDATE; PREPARE TRANSACTION 'stock'});
restarted(q{SELECT dc_incr('likes', 'a', 1), dc_incr('locked', 'a', 2), dc_incr('held', 'a', 3), dc_incr('large', 'a', 4)});
is(wait_for($node, 'postgres', "SELECT NOT starting AND epoch > $epoch FROM dcounter.self", 't'), 't', 'the start ends, with a new epoch, as nobody has confirmed it');
is(sql($node, 'postgres', qq{SELECT dc_set('likes', 'b', 5), dc_incr('likes', 'a', 1)}), '0|', 'others count and set');
is(sql($node, 'postgres', qq{SELECT inc FROM likes_region WHERE key = 'a' AND epoch = $epoch}), '1', 'what was there is published under the epoch that it was counted under');
is(sql($node, 'postgres', q{SELECT dc_get('locked', 'a'), dc_get('held', 'a')}), '2|3', 'what is in those that are left out is counted');
ok($node->wait_for_log(qr/WARNING: .*counter table "locked" was left out/, $offset), 'the log says which');
ok($node->wait_for_log(qr/WARNING: .*counter table "large" was left out/, $offset), 'each of them');
unlike(substr(slurp_file($node->logfile), $offset), qr/counter table "(likes|held)" was left out/, 'and no others');

# When the reason is gone, it is published, once
sql($node, 'postgres', q{COMMIT PREPARED 'locked'; COMMIT PREPARED 'stock'});
sql($node, 'postgres', q{ALTER SYSTEM RESET dcounter.compact_interval; SELECT pg_reload_conf()});
is(wait_for($node, 'postgres', q{SELECT sum(inc), bool_or(epoch < 0) FROM locked_region}, '2|f'), '2|f', 'what was left out is published');
is(wait_for($node, 'postgres', q{SELECT sum(inc), bool_or(epoch < 0) FROM held_region}, '3|f'), '3|f', 'so is what was not');
is(sql($node, 'postgres', sprintf($sound, $_)), '0', "$_: values are what regions have counted") foreach 'likes', 'locked', 'held';
is(sql($node, 'postgres', q{SELECT dc_get('likes', 'a'), dc_get('locked', 'a'), dc_get('held', 'a')}), '2|2|3', 'nothing is counted twice');

# A row that is never published, and a table that is locked, do not keep heartbeats from reporting
# on the other counters
my $later = q{SELECT beat_at > '%s' FROM dc_regions() WHERE region = 'eu'};
my $state = q{SELECT state FROM dc_regions() WHERE region = 'eu'};
sql($node, 'postgres', q{UPDATE dcounter.region SET retired_at = now() WHERE region = 'us'; DELETE FROM dcounter.self_mark; UPDATE dcounter.self SET state = 'active'});
is(wait_for($node, 'postgres', $state, 'active'), 'active', 'all is well');
my $well = -s $node->logfile;    # on a slow machine, it may have been put aside before
sql($node, 'postgres', q{DELETE FROM large_region; DELETE FROM large_shard;
	INSERT INTO large_shard VALUES ('x', 0, 9223372036854775807, 0, now()), ('x', 1, 9223372036854775807, 0, now())});
my $now = sql($node, 'postgres', 'SELECT now()');
is(wait_for($node, 'postgres', sprintf($later, $now), 't'), 't', 'beats tell of what was committed after a row that cannot be published');
is(wait_for($node, 'postgres', $state, 'behind'), 'behind', 'it is shown that not all is');
is(sql($node, 'postgres', q{SELECT seen -> '!aside' FROM dcounter.region WHERE region = 'eu' ORDER BY epoch DESC LIMIT 1}), '["public.large"]', 'and of which counter');
ok($node->wait_for_log(qr/WARNING: .*counter table "large" is put aside.*\n.*DETAIL: .*their sums would be out of range for bigint/, $offset), 'and why');
sql($node, 'postgres', q{BEGIN; LOCK TABLE held_shard; PREPARE TRANSACTION 'table'});
is(wait_for($node, 'postgres', q{SELECT seen -> '!aside' ? 'public.held' FROM dcounter.region WHERE region = 'eu' ORDER BY epoch DESC LIMIT 1}, 't'), 't', 'so it is with one that is locked');
$now = sql($node, 'postgres', 'SELECT now()');
is(wait_for($node, 'postgres', sprintf($later, $now), 't'), 't', 'beats go on');
# nor does a set that stays open, where something was missed
my $setter = dc_session($node, 'postgres');
$setter->run(q{BEGIN; SELECT dc_set('likes', 'open', 1)});
sql($node, 'postgres', "INSERT INTO dcounter.self_mark SELECT epoch, 'recopy', NULL, now() FROM dcounter.self");
$now = sql($node, 'postgres', 'SELECT now()');
is(wait_for($node, 'postgres', sprintf($later, $now), 't'), 't', 'beats go on while a key is being set');
is(sql($node, 'postgres', 'SELECT state FROM dcounter.self'), 'active', 'though what was missed cannot be noted');
$setter->run('ROLLBACK');
$setter->quit;
is(wait_for($node, 'postgres', 'SELECT state FROM dcounter.self', 'recopy'), 'recopy', 'before that has ended');
sql($node, 'postgres', q{DELETE FROM dcounter.self_mark; UPDATE dcounter.self SET state = 'active'});
my ($ret, $out, $err) = $node->psql('postgres', q{SELECT dc_region_retire('eu')});
like($err, qr/has increments that are not published yet/, 'a region is not retired meanwhile');
sql($node, 'postgres', q{COMMIT PREPARED 'table'});
is(scalar(() = slurp_file($node->logfile, $well) =~ /counter table "large" is put aside/g), 1, 'the log says it once');

# It is still known after a start of the server; and they are waited for again when they are published
$node->restart;
is(sql($node, 'postgres', q{SELECT dc_incr('held', 'a', 1)}), '', 'it counts');
sql($node, 'postgres', q{UPDATE large_shard SET inc = 1});
is(wait_for($node, 'postgres', $state, 'active'), 'active', 'the counter is one of all again');
is(sql($node, 'postgres', q{SELECT dc_get('large', 'x'), dc_get('held', 'a')}), '2|4', 'nothing is lost');

# Nor do counters that are replicated one after the other, each with rows that are never published
$now = sql($node, 'postgres', 'SELECT now()');
my $told = 'f';
for (my $i = 1; $i <= 20 && $told ne 't'; $i++)
{
	sql($node, 'postgres', qq{BEGIN; SELECT dc_create('next$i'); SELECT dc_replicate('next$i');
		INSERT INTO next${i}_shard VALUES ('x', 0, 9223372036854775807, 0, now()), ('x', 1, 9223372036854775807, 0, now()); COMMIT});
	$told = wait_for($node, 'postgres', sprintf($later, $now), 't', 5);
}
is($told, 't', 'beats go on while others come');

# The failures of an owner take a part of the time of a start, however many counters that role has
sql($node, 'postgres', q{
	SELECT count(dc_create('many' || i)) FROM generate_series(1, 60) AS i;
	SELECT count(dc_replicate(('many' || i)::regclass)) FROM generate_series(1, 60) AS i;
	ALTER SYSTEM SET dcounter.compact_interval = '1h';
	SELECT pg_reload_conf();
	UPDATE dcounter.region SET retired_at = NULL WHERE region = 'us'});
sql($node, 'postgres', join(';', 'BEGIN', (map { "INSERT INTO many${_}_shard VALUES ('a', 0, 1, 0, now())" } 1 .. 60), 'COMMIT'));
sql($node, 'postgres', join(';', 'BEGIN', (map { "SELECT FROM many${_}_shard FOR UPDATE" } 1 .. 60), q{PREPARE TRANSACTION 'many'}));
restarted(q{SELECT dc_incr('likes', 'c', 1)});
is(wait_for($node, 'postgres', 'SELECT NOT starting AND postmaster_start = pg_postmaster_start_time() FROM dcounter.self', 't'), 't', 'the start ends');
my $failures = () = substr(slurp_file($node->logfile), $offset) =~ /job "regions" on "many\d+" failed/g;
cmp_ok($failures, '>', 0, 'counters that are locked were tried');
cmp_ok($failures, '<', 60, 'not each of them');
sql($node, 'postgres', q{COMMIT PREPARED 'many'});

# So does what takes an owner's counters long
sql($node, 'postgres', $_) foreach q{CREATE ROLE mallory; CREATE SCHEMA m AUTHORIZATION mallory; GRANT EXECUTE ON FUNCTION dc_replicate(regclass, boolean) TO mallory},
	q{SET ROLE mallory; SELECT count(dc_create('m.slow' || i)) FROM generate_series(1, 20) AS i; SELECT count(dc_replicate(('m.slow' || i)::regclass)) FROM generate_series(1, 20) AS i},
	q{ALTER SYSTEM SET dcounter.compact_interval = '1h'; ALTER SYSTEM SET dcounter.region_handshake = '200ms'; SELECT pg_reload_conf()},
	join(';', 'BEGIN', (map { "INSERT INTO m.slow${_}_shard SELECT i, 0, 1, 0, now() FROM generate_series(1, 5000) AS i" } 1 .. 20), 'COMMIT');
restarted(q{SELECT dc_incr('likes', 'd', 1)});
is(wait_for($node, 'postgres', 'SELECT NOT starting AND postmaster_start = pg_postmaster_start_time() FROM dcounter.self', 't'), 't', 'the start ends');
my $left = () = substr(slurp_file($node->logfile), $offset) =~ /counter table "slow\d+" was left out/g;
cmp_ok($left, '>', 0, 'it has not waited for all of one owner');
is(sql($node, 'postgres', qq{SELECT sum(inc) FROM likes_region WHERE key = 'd'}), '1', 'what others have counted is published');
sql($node, 'postgres', 'ALTER SYSTEM RESET dcounter.compact_interval; SELECT pg_reload_conf()');
is(wait_for($node, 'postgres', join(' UNION ALL ', map { "SELECT sum(inc) FROM m.slow${_}_region" } 1 .. 20) =~ s/^/SELECT sum(sum) FROM (/r . ') AS s', '100000'), '100000', 'what was left out is published later');

# Rows by hand whose keys are larger than they look, and sets that have observed as much as a set may: one at a time
sql($node, 'postgres', q{SELECT dc_create('wide'), dc_create('tall'); SELECT dc_replicate('wide'), dc_replicate('tall');
	SELECT count(dc_incr('tall', 'key ' || i)) FROM generate_series(1, 700) AS i});
is(wait_for($node, 'postgres', 'SELECT count(*) FROM tall_region', '700'), '700', 'they are published');
sql($node, 'postgres', q{INSERT INTO wide_shard SELECT repeat('z', 150000), i, 1, 0, now() FROM generate_series(1, 6000) AS i;
	SET session_replication_role = replica;
	INSERT INTO tall_set SELECT key, 'zz', 5, 0, false, state FROM tall_region,
		(SELECT ('{' || string_agg(format('"%s:1": {"inc": 1}', lpad(i::text, 36, '0')), ', ') || '}')::dc_pncounter AS state FROM generate_series(1, 18000) AS i) AS s;
	SELECT count(dc_incr('tall', key)) FROM tall_region});
$now = sql($node, 'postgres', 'SELECT now()');
is(wait_for($node, 'postgres', sprintf($later, $now), 't'), 't', 'beats tell of what came after these rows');
is(wait_for($node, 'postgres', 'SELECT sum(inc) FROM tall_region', '1400'), '1400', 'what was counted is published');
small('looks and publishes');
sql($node, 'postgres', "SELECT dc_drop('wide')");

# All tables of an owner's replicated counters must be locked at once by a renewal
fails_with($node, 'postgres', q{SET ROLE mallory; DO $$ BEGIN FOR i IN 1..1000 LOOP PERFORM dc_create('m.more' || i); PERFORM dc_replicate(('m.more' || i)::regclass); COMMIT; END LOOP; END $$}, '54000', 'they may have half of the lock table');
cmp_ok(sql($node, 'postgres', q{SELECT count(*) FROM pg_class WHERE relname ~ '^more[0-9]+$'}), '>', 10, 'which is enough for some');

# Rows written by owners do not stop a renewal by dc_region_renew(); sealed amounts of a key that is
# left out keep rows of its epoch away, which would count twice when it is folded
sql($node, 'postgres', q{SELECT dc_region_renew(); SELECT dc_stock_create('attic'); SELECT dc_replicate('attic'); SELECT dc_restock('attic', 'box', 5)});
$epoch = sql($node, 'postgres', 'SELECT epoch FROM dcounter.self');
sql($node, 'postgres', qq{
	INSERT INTO many1_region VALUES ('k', 'eu', -9223372036854775808, 1, 0, now());
	INSERT INTO many2_region VALUES ('k', 'eu', $epoch, 9223372036854775807, 0, now()), ('k', 'eu', -$epoch, 5, 0, now());
	UPDATE attic_shard SET "dec" = 9223372036854775807});
(undef, $out, $err) = $node->psql('postgres', 'SELECT dc_region_renew() > 0', on_error_stop => 1);
is($out, 't', 'a renewal by hand goes on');
like($err, qr/WARNING:  stock "attic" is shut: /, 'the stock that cannot be renewed is shut') or diag($err);
is(sql($node, 'postgres', qq{SET client_min_messages = error; SET session_replication_role = replica;
		INSERT INTO many2_region VALUES ('j', 'eu', $epoch, 9, 0, now()); UPDATE many2_region SET inc = 1 WHERE key = 'k' AND epoch = $epoch;
		SET session_replication_role = origin; DELETE FROM many2_region WHERE key = 'k' AND epoch > 0;
		SET session_replication_role = replica; INSERT INTO many2_region VALUES ('k', 'eu', $epoch, 9, 0, now());
		SELECT string_agg(key || ' ' || sign(epoch) || ' ' || inc, ', ' ORDER BY key) FROM many2_region WHERE key IN ('j', 'k')}), 'j 1 9, k -1 5', 'a row of the epoch of what is sealed is not merged');

done_testing();
