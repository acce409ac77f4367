# DDL on the tables of counters, as far as only a whole server shows it: a crash of
# tables that are not logged, dump and restore of the triggers that keep the tables
# together, TRUNCATE that arrives by a subscription, and increments in memory.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tempdir = PostgreSQL::Test::Utils::tempdir();

# all(NODE, DATABASE, COUNTER): its sum, and the rows of its tables
sub all
{
	my ($node, $database, $counter) = @_;

	return sql($node, $database, qq{SELECT dc_sum('$counter'), (SELECT count(*) FROM $counter), (SELECT count(*) FROM ${counter}_shard)});
}

##
## A crash: all of a counter's tables are emptied, or none

my $node = dc_node('crash');
sql($node, 'postgres', q{
	SELECT dc_create('stays', totals => 'compacted'), dc_create('goes', totals => 'compacted'), dc_create('back', totals => 'compacted'), dc_create('parts', partitions => 2), dc_stock_create('seats');
	ALTER TABLE goes SET UNLOGGED;
	ALTER TABLE seats SET UNLOGGED;
	ALTER TABLE parts_p0 SET UNLOGGED;
	ALTER TABLE back SET UNLOGGED;
	SELECT dc_incr(c, k::text), dc_restock('seats', k::text, 5) FROM unnest('{stays,goes,back,parts}'::regclass[]) AS c, generate_series(1, 20) AS k;
	SELECT dc_compact();
	SELECT dc_incr(c, k::text), dc_take('seats', k::text), dc_hold('seats', k::text, 1, '1 hour') FROM unnest('{stays,goes,back,parts}'::regclass[]) AS c, generate_series(1, 20) AS k;
	ALTER TABLE back SET LOGGED;
	CHECKPOINT});
my $kept = sql($node, 'postgres', q{SELECT sum(value) FROM dc_get_many('parts', ARRAY(SELECT k::text FROM generate_series(1, 20) AS k WHERE NOT satisfies_hash_partition('parts'::regclass, 2, 0, k::text COLLATE "C")))});
is(all($node, 'postgres', 'goes'), '40|20|20', 'not logged: all is there before the crash');
$node->kill9;
restart_after_kill9($node);
is(all($node, 'postgres', 'stays'), '40|20|20', 'logged: all is there after a crash');
is(all($node, 'postgres', 'back'), '40|20|20', 'logged again: all is there after a crash');
is(all($node, 'postgres', 'goes'), '0|0|0', 'not logged: all is gone after a crash');
is(all($node, 'postgres', 'seats'), '0|0|0', 'a stock that is not logged: all is gone');
is(sql($node, 'postgres', q{SELECT count(*) FROM seats_hold}), '0', '... with its holds');
is(sql($node, 'postgres', q{SELECT dc_take('seats', '1'), dc_get('seats', '1')}), 'f|0', '... and nothing can be taken');
is(sql($node, 'postgres', q{SELECT dc_sum('parts')}), $kept, 'a partition that is not logged: the keys of the other one are there');
is(sql($node, 'postgres', q{SELECT dc_restock('seats', '1', 2), dc_incr('goes', '1'), dc_incr('parts', k::text) FROM generate_series(1, 20) AS k;
	SELECT dc_get('seats', '1'), dc_get('goes', '1'), dc_sum('parts')}) =~ s/^.*\n//sr, '40|20|' . ($kept + 20), 'they count on');

##
## Dump and restore

sql($node, 'postgres', q{
	DROP TABLE goes, back, parts, seats;
	CREATE DATABASE source;
	CREATE DATABASE target;
	CREATE DATABASE data});
sql($node, 'source', q{
	CREATE EXTENSION dcounter;
	SELECT dc_create('c', totals => 'compacted'), dc_create('p', partitions => 2), dc_stock_create('s'), dc_ledger_create('w');
	SELECT dc_incr('c', 'a', 5), dc_incr('p', 'a', 5), dc_restock('s', 'a', 5), dc_account_open('w', 'x', NULL), dc_account_open('w', 'y');
	SELECT dc_compact(), dc_transfer('w', 'x', 'y', 3, 'e1')});
my $triggers = q{SELECT tgrelid::regclass::text COLLATE "C", tgname, tgenabled FROM pg_trigger WHERE tgname ~ 'dcounter' ORDER BY 1, 2};
my $expected = sql($node, 'source', $triggers);
like($expected, qr/^s_hold\|dcounter_delete\|O$/m, 'the triggers are there');

$node->command_ok([ 'pg_dump', '-Fc', '-f', "$tempdir/dump", '-d', $node->connstr('source') ], 'pg_dump');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-j', '2', '-d', $node->connstr('target'), "$tempdir/dump" ], 'pg_restore');
is(sql($node, 'target', $triggers), $expected, 'restored: the triggers are there');
fails_with($node, 'target', "$_", '55000', "restored: $_") foreach 'DELETE FROM s', 'TRUNCATE s_shard', 'DELETE FROM w', 'TRUNCATE w_entry';
is(sql($node, 'target', q{TRUNCATE c; TRUNCATE p_p0, p_p1; TRUNCATE s; TRUNCATE w;
	SELECT dc_sum('c'), dc_sum('p'), dc_sum('s'), dc_take('s', 'a'), (SELECT count(*) FROM w_entry), (SELECT count(*) FROM dc_ledger_check('w'))}),
	'0|0|0|f|0|0', 'restored: TRUNCATE');
is(sql($node, 'target', q{SELECT dc_drop('w'); DROP EXTENSION dcounter; SELECT count(*) FROM pg_trigger WHERE tgname ~ 'dcounter'}), "\n0", 'restored: the triggers go with the extension');

# data only, without triggers
sql($node, 'data', q{
	CREATE EXTENSION dcounter;
	SELECT dc_create('c', totals => 'compacted'), dc_create('p', partitions => 2), dc_stock_create('s')});
my $before = sql($node, 'data', $triggers =~ s/WHERE/WHERE tgenabled <> 'A' AND/r);
$node->command_ok([ 'pg_restore', '--exit-on-error', '--data-only', '--disable-triggers',
		(map { ('-t', $_) } qw(c c_shard p p_p0 p_p1 p_shard p_shard_p0 p_shard_p1 s s_shard s_hold)), '-d', $node->connstr('data'), "$tempdir/dump" ], 'pg_restore --data-only --disable-triggers');
is(sql($node, 'data', q{SELECT dc_sum('c'), dc_sum('p'), dc_sum('s')}), '5|5|5', '--disable-triggers: the data are there');
is(sql($node, 'data', q{SELECT count(*) FROM pg_trigger WHERE tgname ~ 'dcounter' AND tgenabled = 'D'}), '0', '--disable-triggers: the triggers are enabled again');
fails_with($node, 'data', "$_", '55000', "--disable-triggers: $_") foreach 'DELETE FROM s', 'TRUNCATE s_shard';
is(sql($node, 'data', q{TRUNCATE c, p, s; SELECT dc_sum('c'), dc_sum('p'), dc_sum('s'), dc_take('s', 'a')}), '0|0|0|f', '--disable-triggers: TRUNCATE');
$node->stop;

##
## A subscription: TRUNCATE and DELETE arrive

my $publisher = dc_node('publisher', init => { allows_streaming => 'logical' });
my $subscriber = dc_node('subscriber', conf => [ "shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '1d'" ]);
sql($_, 'postgres', q{SELECT dc_create('c'), dc_create('b'), dc_create('p', partitions => 2), dc_stock_create('s')}) foreach $publisher, $subscriber;
sql($subscriber, 'postgres', q{SELECT dc_alter('b', mode => 'buffered', flush_interval => '1 day'), dc_alter('c', totals => 'compacted')});
# the first compaction is over, and the next one is tomorrow's
is(wait_for($subscriber, 'postgres', q{SELECT runs > 0 FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'compaction'}, 't'), 't', 'the worker has looked at all tables');
# what was counted there before, in shard rows and in memory, stays: writing is refused from then on
sql($subscriber, 'postgres', q{SELECT dc_incr(c, k::text, 1) FROM unnest('{c,b,p}'::regclass[]) AS c, generate_series(1, 9) AS k});
# of the stock all tables, of the others the totals alone
sql($publisher, 'postgres', q{CREATE PUBLICATION pub FOR TABLE c, b, p, s, s_shard, s_hold});
my $source = $publisher->connstr . ' dbname=postgres';
sql($subscriber, 'postgres', qq{CREATE SUBSCRIPTION sub CONNECTION '$source' PUBLICATION pub});
$subscriber->wait_for_subscription_sync($publisher, 'sub');

# caught_up: what was published has been applied
sub caught_up
{
	$publisher->wait_for_catchup('sub');
	return;
}

sql($publisher, 'postgres', q{
	SELECT dc_incr(c, k::text, 10) FROM unnest('{c,b,p}'::regclass[]) AS c, generate_series(1, 9) AS k;
	SELECT dc_restock('s', 'a', 9), dc_restock('s', 'z', 9);
	SELECT dc_compact();
	SELECT dc_take('s', 'a', 2), dc_delete('s', 'z')});
caught_up();
is(sql($subscriber, 'postgres', q{SELECT dc_sum('c'), dc_sum('b'), dc_sum('p'), dc_sum('s'), dc_get('s', 'a')}), '99|99|99|7|7', 'replicated, with what was deleted, and what was counted there');
is(sql($subscriber, 'postgres', q{SELECT (SELECT count(*) FROM c_shard), (SELECT count(*) FROM p_shard), (SELECT count(*) FROM b_shard)}), '9|9|0', '... in shard rows and in memory');
sql($publisher, 'postgres', q{TRUNCATE c; TRUNCATE b; TRUNCATE p; TRUNCATE s});
caught_up();
is(sql($subscriber, 'postgres', q{SELECT dc_sum('c'), dc_sum('b'), dc_sum('p'), dc_sum('s'), dc_get('s', 'a')}), '0|0|0|0|0', 'TRUNCATE was applied to all tables');
is(sql($subscriber, 'postgres', q{SELECT (SELECT count(*) FROM c_shard), (SELECT count(*) FROM p_shard), (SELECT count(*) FROM s_shard)}), '0|0|0', '... also to those that are not published');
sql($publisher, 'postgres', q{SELECT dc_incr('c', 'a', 3); SELECT dc_compact(); SELECT dc_restock('s', 'a', 4)});
caught_up();
is(sql($subscriber, 'postgres', q{SELECT dc_sum('c'), dc_sum('s')}), '3|4', 'it goes on');
sql($subscriber, 'postgres', 'DROP SUBSCRIPTION sub');
$publisher->stop;

##
## Increments in memory

# memory(NAME, STATEMENTS, RESULT): b has 5 in memory before
sub memory
{
	my ($name, $statements, $result) = @_;

	sql($subscriber, 'postgres', q{TRUNCATE b; SELECT dc_incr('b', 'a', 5)});
	sql($subscriber, 'postgres', $statements);
	is(sql($subscriber, 'postgres', q{SELECT dc_get('b', 'a'), dc_sum('b')}), "$result|$result", "in memory: $name");
	sql($subscriber, 'postgres', q{SELECT dc_flush('b')});
	is(sql($subscriber, 'postgres', q{SELECT dc_get('b', 'a'), (SELECT coalesce(sum(inc - dec), 0) FROM (SELECT inc, dec FROM b UNION ALL SELECT inc, dec FROM b_shard) AS r)}), "$result|$result", "flushed: $name");
	return;
}

memory('TRUNCATE', q{TRUNCATE b}, 0);
memory('increments before TRUNCATE', q{BEGIN; SELECT dc_incr('b', 'a', 7); TRUNCATE b; COMMIT}, 0);
memory('increments before and after TRUNCATE', q{BEGIN; SELECT dc_incr('b', 'a', 7); TRUNCATE b; SELECT dc_incr('b', 'a', 2); COMMIT}, 2);
memory('TRUNCATE rolled back', q{BEGIN; SELECT dc_incr('b', 'a', 7); TRUNCATE b; ROLLBACK}, 5);
memory('TRUNCATE rolled back to a savepoint', q{BEGIN; SELECT dc_incr('b', 'a', 7); SAVEPOINT s; TRUNCATE b; SELECT dc_incr('b', 'a', 90); ROLLBACK TO s; SELECT dc_incr('b', 'a', 1); COMMIT}, 13);
memory('ALTER TABLE after an increment', q{BEGIN; SELECT dc_incr('b', 'a', 7); ALTER TABLE b SET UNLOGGED; SELECT dc_incr('b', 'a', 1); ALTER TABLE b SET LOGGED; COMMIT}, 13);

# a partition
sql($subscriber, 'postgres', q{SELECT dc_alter('p', mode => 'buffered', flush_interval => '1 day')});
my $in_p0 = q{satisfies_hash_partition('p'::regclass, 2, 0, key COLLATE "C")};
my $by_partition = qq{SELECT coalesce(sum(value) FILTER (WHERE $in_p0), 0), coalesce(sum(value) FILTER (WHERE NOT $in_p0), 0) FROM dc_get_many('p', ARRAY(SELECT k::text FROM generate_series(1, 9) AS k))};
sql($subscriber, 'postgres', q{SELECT dc_incr('p', k::text, 1) FROM generate_series(1, 9) AS k});
my ($zero, $one) = split(/\|/, sql($subscriber, 'postgres', $by_partition));
is($zero + $one, 9, 'partitions: counted in memory');
sql($subscriber, 'postgres', q{BEGIN; TRUNCATE p_p0; ROLLBACK});
is(sql($subscriber, 'postgres', $by_partition), "$zero|$one", 'TRUNCATE of a partition, rolled back');
sql($subscriber, 'postgres', q{TRUNCATE p_p0});
is(sql($subscriber, 'postgres', $by_partition), "0|$one", 'TRUNCATE of a partition: its keys are gone from memory as well');
sql($subscriber, 'postgres', q{SELECT dc_incr('p', k::text, 1) FROM generate_series(1, 9) AS k; SELECT dc_flush('p')});
is(sql($subscriber, 'postgres', $by_partition), "$zero|" . 2 * $one, '... and count again');

# ... beside one who has read the partition, and then sets a key: it waits for the flusher,
# which would wait behind the TRUNCATE. What the worker knows of the table is outdated.
my $waits = q{SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'p_p0'::regclass AND mode = 'AccessExclusiveLock'};
my $setter = dc_session($subscriber, 'postgres');
my $truncater = dc_session($subscriber, 'postgres');
$setter->run(q{SET statement_timeout = '20 s'});
$setter->run(q{SELECT dc_get('p', '2')});
sql($subscriber, 'postgres', q{TRUNCATE p_p1});
sql($subscriber, 'postgres', q{SELECT dc_incr('p', '2')});
is($setter->run(q{BEGIN; SELECT count(*) FROM p_p0 WHERE false}), '0', 'a partition was read');
$truncater->send('TRUNCATE p_p0');
is(wait_for($subscriber, 'postgres', $waits, '1'), '1', 'TRUNCATE waits for who has read it');
is($setter->run(q{SELECT dc_set('p', '2', 7)}), '2', 'dc_set() does not wait behind it');
$setter->run('COMMIT');
is($truncater->wait, '', '... nor is it in its way');
is(sql($subscriber, 'postgres', q{SELECT dc_get('p', '2')}), '0', 'TRUNCATE came last');
$_->quit foreach $setter, $truncater;

$subscriber->stop;
done_testing();
