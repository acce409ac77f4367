# A logical subscriber that has the extension, with workers on both servers: what a subscription
# feeds is left alone and becomes equal to the publisher's; when the subscription is dropped,
# all of it is used and maintained here.
use strict;
use warnings;

use DcLedger;
use DcTest;
use DcWorker 'step_failures';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my @conf = ("shared_preload_libraries = 'dcounter'", 'fsync = off',
	"dcounter.compact_interval = '50ms'", "dcounter.expire_interval = '50ms'", "dcounter.op_interval = '1s'",
	'max_worker_processes = 20');
my $publisher = dc_node('publisher', init => { allows_streaming => 'logical' }, conf => \@conf);
my $subscriber = dc_node('subscriber', init => { allows_streaming => 'logical' }, conf => \@conf);
my $connection = $publisher->connstr('postgres');
my @tables = qw(likes parts views plays seats wallet wallet_limit);

# rows(NODE): all that is in the tables of counters
sub rows
{
	my ($node) = @_;

	return sql($node, 'postgres', q{
		SET timezone = 'UTC';
		CREATE FUNCTION pg_temp.rows() RETURNS SETOF text LANGUAGE plpgsql AS $$
		DECLARE
			relid regclass;
		BEGIN
			FOR relid IN SELECT oid FROM pg_class WHERE relnamespace = 'app'::regnamespace AND relkind = 'r' ORDER BY relname COLLATE "C"
			LOOP
				RETURN QUERY EXECUTE format('SELECT %L || chr(32) || t::text AS line FROM %s AS t ORDER BY 1', relid, relid);
			END LOOP;
		END$$;
		SELECT * FROM pg_temp.rows()});
}

# values_of(NODE): what the functions say
sub values_of
{
	my ($node) = @_;

	return sql($node, 'postgres', q{
		SELECT c, k, dc_get(c, k) FROM unnest('{app.likes,app.parts,app.views,app.plays,app.seats}'::regclass[]) AS c, unnest('{a,b,c,late}'::text[]) AS k ORDER BY c::text, k;
		SELECT key, balance FROM unnest('{bank,x,y}'::text[]) AS key, dc_balance('app.wallet', key) ORDER BY 1;
		SELECT * FROM dc_ledger_check('app.wallet')});
}

# caught_up(): the subscriber has all that the publisher has, which has nothing to do any more: what
# was buffered is flushed, what is expired has ended, and all is compacted
sub caught_up
{
	sql($publisher, 'postgres', q{SELECT dc_flush()});
	is(wait_for($publisher, 'postgres', q{SELECT count(*) FROM app.seats_hold WHERE state = 'open' AND expires_at < clock_timestamp() + interval '1 minute'}, 0), 0, 'holds have expired');
	is(wait_for($publisher, 'postgres', q{SELECT count(*) FROM app.wallet_pending WHERE state = 'open' AND expires_at < clock_timestamp() + interval '1 minute'}, 0), 0, 'pending transfers have expired');
	is(wait_for($publisher, 'postgres', q{SELECT sum(pending_amount) FROM dc_stat_shards}, 0), 0, 'the publisher has compacted');
	# Compactions of empty rows may be left, and one may come between the questions
	for (1 .. $PostgreSQL::Test::Utils::timeout_default)
	{
		$publisher->wait_for_catchup('s');
		last if rows($subscriber) eq rows($publisher);
		sleep(1);
	}
	return;
}

# load(ROUND): each kind of write, enough for shard rows of several sessions
sub load
{
	my ($round) = @_;
	my @jobs;

	foreach my $client (1 .. 4)
	{
		my $script = file_of("load_${round}_$client.sql", join('', map { qq{
			SELECT dc_incr('app.likes', 'a'), dc_incr('app.parts', 'b', 2), dc_incr('app.views', 'a'), dc_incr('app.views', 'c', 3);
			BEGIN; SELECT dc_incr('app.likes', 'b', 3), dc_decr('app.likes', 'c'), dc_apply(); COMMIT;
			SELECT dc_incr_once('app.plays', 'a', 1, 'round $round client $client event $_');
			SELECT dc_take('app.seats', 'a'), dc_hold('app.seats', 'b', 1, '10 milliseconds'), dc_restock('app.seats', 'c', 2);
			SELECT transfer_id FROM dc_transfer('app.wallet', 'bank', 'x', 5, 't $round $client $_');
			SELECT transfer_id FROM dc_transfer_pending('app.wallet', 'x', 'y', 1, 'p $round $client $_', ttl => '10 milliseconds');
		} } 1 .. 15));

		push @jobs, start_job($publisher, 'postgres', $script);
	}
	is(finish_job($_), 0, "round $round: a client") or diag $_->{err} foreach @jobs;
	sql($publisher, 'postgres', qq{SELECT dc_set('app.likes', 'c', $round), dc_set('app.seats', 'b', 100)});
	return;
}

# The same tables on both
sql($publisher, 'postgres', q{
	CREATE SCHEMA app;
	SELECT dc_create('app.likes'), dc_create('app.parts', partitions => 3), dc_create('app.views', mode => 'buffered'), dc_create('app.plays', op_retention => '1 hour'), dc_stock_create('app.seats'),
		dc_ledger_create('app.wallet', op_retention => '1 hour', partition_by => 'month');
	SELECT dc_account_open('app.wallet', 'bank', NULL), dc_account_open('app.wallet', 'x'), dc_account_open('app.wallet', 'y');
	SELECT dc_incr_once('app.plays', 'a', 1, 'from the beginning');
	SELECT dc_restock('app.seats', 'a', 1000), dc_restock('app.seats', 'b', 100);
	CREATE PUBLICATION p FOR TABLES IN SCHEMA app});
load(0);
my $schema = PostgreSQL::Test::Utils::tempdir() . '/schema.sql';
$publisher->command_ok([ 'pg_dump', '-s', '-n', 'app', '-f', $schema, '-d', $connection ], 'pg_dump of the schema');
$subscriber->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $subscriber->connstr('postgres'), '-f', $schema ], 'restore');
sql($subscriber, 'postgres', q{SELECT dc_adopt('app.' || c) FROM unnest('{likes,parts,views,plays,seats}'::text[]) AS c; SELECT dc_ledger_adopt('app.wallet');
	SELECT dc_alter('app.views', mode => 'buffered'), dc_alter('app.plays', op_retention => '1 hour'), dc_alter('app.wallet', op_retention => '1 hour')});

# What somebody has counted here before stays theirs
sql($subscriber, 'postgres', q{SELECT dc_create('mine')});
sql($subscriber, 'postgres', qq{CREATE SUBSCRIPTION s CONNECTION \$c\$$connection\$c\$ PUBLICATION p});
$subscriber->wait_for_subscription_sync($publisher, 's');
is(sql($subscriber, 'postgres', q{SELECT count(*) FROM pg_subscription_rel}) > 20, 1, 'all tables are fed');

my $compaction = q{SELECT string_agg(last_compaction::text, ' ' ORDER BY counter) FROM dc_stat_counters WHERE counter::text LIKE 'app.%'};
my $compacted = sql($subscriber, 'postgres', $compaction);

# A session of the subscriber that has been there all the time
my $session = dc_session($subscriber, 'postgres');

foreach my $round (1 .. torture(3, 20))
{
	load($round);
	sql($subscriber, 'postgres', q{SELECT dc_incr('mine', 'k')});
	# By hand, while the rows come
	my ($status, $out, $err) = $subscriber->psql('postgres', q{CALL dc_maintain(); SELECT dc_compact(), dc_flush()});
	like($err, qr/NOTICE:  counter table "likes" is left alone: it is fed by a subscription/, 'maintenance by hand says what it leaves alone') if $status == 0;
	is($status, 0, 'maintenance by hand');
	caught_up();
	is(rows($subscriber), rows($publisher), "round $round: the tables are the same");
	is(values_of($subscriber), values_of($publisher), "round $round: the values are the same");
	is($session->run(q{SELECT dc_incr('app.likes', 'a')}), 'ERROR 55000', 'increments are refused');
	is(wait_for($subscriber, 'postgres', q{SELECT dc_get('mine', 'k') = value FROM mine WHERE key = 'k'}, 't'), 't', 'what is not fed is compacted');
}
is(sql($subscriber, 'postgres', q{SELECT apply_error_count + coalesce(to_jsonb(s) -> 'sync_error_count', to_jsonb(s) -> 'sync_table_error_count')::bigint FROM pg_stat_subscription_stats AS s}), '0', 'the subscription has never failed');
is(sql($subscriber, 'postgres', q{SELECT string_agg(counter::text || ' ' || fed_by, ', ' ORDER BY counter::text) FROM dc_stat_counters WHERE fed_by IS NOT NULL}),
	'app.likes s, app.parts s, app.plays s, app.seats s, app.views s, app.wallet s, app.wallet_limit s', 'dc_stat_counters says what is fed');
is(sql($subscriber, 'postgres', q{SELECT count(*) FROM dc_stat_counters WHERE counter::text LIKE 'app.%' AND (keys_compacted > 0 OR flushes > 0)}), '0', 'nothing was maintained');
is(sql($subscriber, 'postgres', $compaction), $compacted, 'nor looked at');
is(step_failures($subscriber), '', 'no job has failed');
is(sql($publisher, 'postgres', q{SELECT count(*) FROM dc_stat_counters WHERE fed_by IS NOT NULL}), '0', 'not on the publisher');
# The lag is that of the rows, however long ago this server has compacted
cmp_ok(sql($subscriber, 'postgres', q{SELECT extract(epoch FROM max(compaction_lag)) FROM dc_stat_shards}), '<', 3600, 'lag');

# A subscription that is disabled counts
sql($subscriber, 'postgres', 'ALTER SUBSCRIPTION s DISABLE');
sql($publisher, 'postgres', q{SELECT dc_incr('app.likes', 'late'), dc_apply()});
is($session->run(q{SELECT dc_incr('app.likes', 'a')}), 'ERROR 55000', 'disabled: increments are refused');
$subscriber->restart;
sleep(0.5);
sql($subscriber, 'postgres', 'ALTER SUBSCRIPTION s ENABLE');
caught_up();
is(rows($subscriber), rows($publisher), 'after a restart: the tables are the same');

# One table of a counter table alone; and increments in memory from before
$session = dc_session($subscriber, 'postgres');
sql($publisher, 'postgres', q{CREATE TABLE public.half_shard (key text COLLATE "C", shard int, inc bigint NOT NULL DEFAULT 0, dec bigint NOT NULL DEFAULT 0, updated_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (key, shard));
	CREATE PUBLICATION half FOR TABLE public.half_shard; INSERT INTO half_shard VALUES ('a', 5, 7, 0)});
sql($subscriber, 'postgres', q{SELECT dc_create('half', mode => 'buffered', flush_interval => '1 day'); SELECT dc_incr('half', 'a', 100)});
sql($subscriber, 'postgres', qq{CREATE SUBSCRIPTION half CONNECTION \$c\$$connection\$c\$ PUBLICATION half});
$subscriber->wait_for_subscription_sync($publisher, 'half');
is(sql($subscriber, 'postgres', q{SELECT dc_get('half', 'a'), (SELECT count(*) FROM half), (SELECT sum(inc) FROM half_shard), keys FROM dc_stat_buffer WHERE counter = 'half'::regclass}), '107|0|7|1', 'one of two tables: what was in memory stays there');
is($session->run(q{SELECT dc_flush('half')}), 'ERROR 55000', 'it is not flushed by hand');
sql($subscriber, 'postgres', q{SELECT dc_flush()});
$subscriber->restart; # the worker leaves
is(sql($subscriber, 'postgres', q{SELECT dc_get('half', 'a'), (SELECT count(*) FROM half), (SELECT sum(inc) FROM half_shard)}), '107|0|7', 'nor by a worker that leaves, and it is not lost');
sql($publisher, 'postgres', q{UPDATE half_shard SET inc = 8});
$publisher->wait_for_catchup('half');
sql($subscriber, 'postgres', q{DROP SUBSCRIPTION half; SELECT dc_flush('half')});
is(wait_for($subscriber, 'postgres', q{SELECT value FROM half WHERE key = 'a'}, '108'), '108', 'when the subscription is dropped, it is flushed and compacted');

# A session that has added before, and waits until that is durable, does not wait for the subscription
sql($subscriber, 'postgres', q{SELECT dc_create('synced', mode => 'buffered', durability => 'sync', flush_interval => '1 day')});
$session = dc_session($subscriber, 'postgres');
$session->run(q{BEGIN; SELECT dc_incr('synced', 'a', 3)});
sql($subscriber, 'postgres', q{INSERT INTO pg_subscription_rel SELECT oid, 'synced'::regclass, 'r', NULL FROM pg_subscription WHERE subname = 's'});
is($session->run('COMMIT'), '', 'a commit that waits for a flush is done');
is(sql($subscriber, 'postgres', q{SELECT (SELECT count(*) FROM synced), (SELECT sum(inc) FROM synced_shard), dc_get('synced', 'a')}), '0|3|3', 'in shard rows');
sql($subscriber, 'postgres', q{DELETE FROM pg_subscription_rel WHERE srrelid = 'synced'::regclass});
is(wait_for($subscriber, 'postgres', q{SELECT value FROM synced WHERE key = 'a'}, '3'), '3', 'and compacted later');

# A subscription that comes while the worker flushes: what it has written is rolled back
sql($subscriber, 'postgres', q{
	CREATE TABLE gate ();
	CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		WHILE NOT EXISTS (SELECT FROM public.gate) LOOP
			PERFORM pg_sleep(0.05);
		END LOOP;
		RETURN NEW;
	END $$;
	SELECT dc_create('racing', mode => 'buffered', flush_interval => '10 ms');
	CREATE TRIGGER waits BEFORE INSERT ON racing FOR EACH ROW EXECUTE FUNCTION waits();
	SELECT dc_incr('racing', 'a', 3);});
is(wait_for($subscriber, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND wait_event = 'PgSleep'}, '1'), '1', 'the worker is writing what it flushes');
sql($subscriber, 'postgres', q{INSERT INTO pg_subscription_rel SELECT oid, 'racing'::regclass, 'r', NULL FROM pg_subscription WHERE subname = 's'});
sql($subscriber, 'postgres', q{INSERT INTO gate DEFAULT VALUES});
is(wait_for($subscriber, 'postgres', q{SELECT count(*) FROM pg_locks AS l JOIN dc_stat_worker AS w USING (pid) WHERE relation = 'racing'::regclass}, '0'), '0', 'the flush ends');
is(sql($subscriber, 'postgres', q{SELECT (SELECT count(*) FROM racing), (SELECT count(*) FROM racing_shard), dc_get('racing', 'a')}), '0|0|3', 'nothing is written to a table that is fed by now');
like(slurp_file($subscriber->logfile), qr/LOG:  dcounter job "flush" on "racing" failed: a subscription has begun to feed counter table "racing"/, 'the log says why');
sql($subscriber, 'postgres', q{DELETE FROM pg_subscription_rel WHERE srrelid = 'racing'::regclass});
is(wait_for($subscriber, 'postgres', q{SELECT (SELECT sum(value) FROM racing) || ' ' || dc_get('racing', 'a') || ' ' || (SELECT count(*) FROM racing_shard)}, '3 3 0'), '3 3 0', 'it is flushed when it is fed no more');

# Promotion
$session = dc_session($subscriber, 'postgres');
is($session->run(q{SELECT dc_incr('app.likes', 'a')}), 'ERROR 55000', 'still fed');
load(100);
caught_up();
is(wait_for($subscriber, 'postgres', q{SELECT count(*) FROM dcounter.op_slot WHERE state NOT IN ('open', 'closed')}, '0'), '0', 'ops are looked for in all partitions');
$publisher->stop('immediate');
sql($subscriber, 'postgres', q{ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE); DROP SUBSCRIPTION s;
	SELECT setval('app.wallet_entry_id', greatest((SELECT max(entry_id) FROM app.wallet_entry), (SELECT max(transfer_id) FROM app.wallet_pending)))});
my $before = values_of($subscriber);
is($session->run(q{SELECT dc_incr('app.likes', 'promoted', 5), dc_incr('app.views', 'promoted', 5)}), '|', 'promoted: a session that was there can count');
is(sql($subscriber, 'postgres', q{SELECT dc_incr_once('app.plays', 'a', 1, 'from the beginning'), dc_incr_once('app.plays', 'a', 1, 'round 1 client 1 event 1'), dc_incr_once('app.plays', 'a', 1, 'round 100 client 4 event 15');
	SELECT duplicate FROM dc_transfer('app.wallet', 'bank', 'x', 5, 't 100 4 15')}), "f|f|f\nt", 'promoted: ops are known');
is(values_of($subscriber), $before, 'promoted: and not applied again');
is(sql($subscriber, 'postgres', q{SELECT dc_take('app.seats', 'a', 3), dc_get('app.seats', 'a'); SELECT duplicate FROM dc_transfer('app.wallet', 'bank', 'x', 5, 'promoted')}) =~ s/\|\d+//r, "t\nf", 'promoted: takes and transfers');
is(sql($subscriber, 'postgres', q{SELECT * FROM dc_ledger_check('app.wallet')}), '', 'promoted: the ledger is sound');
is(wait_for($subscriber, 'postgres', q{SELECT coalesce((SELECT value FROM app.likes WHERE key = 'promoted'), 0) + coalesce((SELECT value FROM app.views WHERE key = 'promoted'), 0)}, '10'), '10', 'promoted: flushed and compacted');
is(wait_for($subscriber, 'postgres', q{SELECT sum(pending_amount) FROM dc_stat_shards}, '0'), '0', 'promoted: all is compacted');
is(sql($subscriber, 'postgres', q{SELECT dc_hold('app.seats', 'a', 1, '10 milliseconds') IS NOT NULL}), 't', 'promoted: a hold');
is(wait_for($subscriber, 'postgres', q{SELECT count(*) FROM app.seats_hold WHERE state = 'open'}, '0'), '0', 'promoted: it expires');
is(sql($subscriber, 'postgres', q{SELECT count(*) FROM dc_stat_counters WHERE fed_by IS NOT NULL}), '0', 'promoted: nothing is fed');

$session->quit;
$subscriber->stop;
done_testing();
