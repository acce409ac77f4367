# Buffered counters beside a worker: settings, what goes to memory and what to rows, keys,
# dc_set() and similar functions, sums out of range for bigint, rights. Tables that change are in
# buffer/buffer_ddl.pl, the worker and load in buffer/buffer_load.pl. Most tables have a flush
# interval of a day: there only dc_flush() flushes.
use strict;
use warnings;

use DcBuffer;
use DcSteps;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = buffer_node('main', 'max_connections = 100', "dcounter.buffer_size = '8MB'", "dcounter.compact_interval = '1h'");

exactness($node);
in_tables($node);
sql($node, 'postgres', q{
	SELECT dc_create('c', mode => 'buffered', flush_interval => '1 day');
	CREATE ROLE alice; CREATE ROLE bob; CREATE SCHEMA alice AUTHORIZATION alice});

##
## Settings

is(sql($node, 'postgres', q{
	SELECT dc_create('exact');
	SELECT dc_create('defaults', mode => 'buffered');
	SELECT dc_create('every', flush_interval => '1.5 s', durability => 'sync', mode => 'buffered');
	SELECT dc_create('exact_sync', flush_interval => '2 s', durability => 'sync');
	SELECT dc_create('parts', partitions => 3, mode => 'buffered', flush_interval => '1 day');
	SELECT counter, mode, flush_interval, durability FROM dcounter.counter ORDER BY counter::text COLLATE "C"}) =~ s/^\w+\n//mgr, "c|buffered|24:00:00|async\ndefaults|buffered|00:00:01|async\nevery|buffered|00:00:01.5|sync\n"
	  . "exact|exact|00:00:01|async\nexact_sync|exact|00:00:02|sync\nparts|buffered|24:00:00|async", 'dc_create() with settings of buffered mode');
is(sql($node, 'postgres', q{
	SELECT dc_alter('exact', mode => 'buffered', flush_interval => '1 day');
	SELECT dc_alter('defaults', flush_interval => '1 ms', durability => 'sync');
	SELECT dc_alter('every', mode => 'exact');
	SELECT dc_alter('exact_sync', durability => 'async', mode => 'buffered');
	SELECT dc_alter('parts', max_shards => 3);
	SELECT counter, mode, flush_interval, durability FROM dcounter.counter ORDER BY counter::text COLLATE "C"}) =~ s/^\n+//r,
	"c|buffered|24:00:00|async\ndefaults|buffered|00:00:00.001|sync\nevery|exact|00:00:01.5|sync\n"
	  . "exact|buffered|24:00:00|async\nexact_sync|buffered|00:00:02|async\nparts|buffered|24:00:00|async", 'dc_alter()');
sql($node, 'postgres', q{SELECT dc_alter('exact', mode => 'exact'), dc_stock_create('stock')});
fails_with($node, 'postgres', $_->[1], $_->[0], $_->[1])
  foreach [ '22023', "SELECT dc_create('x', mode => 'Buffered')" ], [ '22023', "SELECT dc_create('x', mode => 'buffered', durability => 'none')" ],
  (map { [ '22023', "SELECT dc_create('x', mode => 'buffered', flush_interval => '$_')" ] } '0', '-1 s', '999 us', '1 day 1 ms', '2000000000 days'),
  (map { [ '22004', "SELECT dc_create('x', $_ => NULL)" ] } 'mode', 'flush_interval', 'durability'),
  [ '22023', "SELECT dc_alter('c', mode => '')" ], [ '22023', "SELECT dc_alter('c', durability => 'SYNC')" ], [ '22023', "SELECT dc_alter('c', flush_interval => '25 hours')" ],
  [ '42809', "SELECT dc_alter('stock', mode => 'buffered')" ], [ '42501', "SET ROLE alice; SELECT dc_alter('c', mode => 'exact')" ],
  [ '42P01', "SELECT dc_flush('none')" ], [ '42809', "SELECT dc_flush('many')" ];
is(sql($node, 'postgres', "SELECT to_regclass('x'), (SELECT mode FROM dcounter.counter WHERE counter = 'stock'::regclass)"), '|exact', 'errors leave nothing behind');

##
## A transaction's increments: in memory after the commit, all of them or none

sub test_transactions
{
	my ($counter) = @_;
	my $session = dc_session($node, 'postgres');
	my $n = 0;

	foreach (
		[ "SELECT dc_incr(C, K)", 1 ],
		[ "SELECT dc_incr(C, K, 5), dc_decr(C, K, 2), dc_incr_hashed(C, K, 'x', 3)", 6 ],
		[ "SELECT dc_incr_many(C, ARRAY[K, 'other', K], ARRAY[1, 2, 3])", 4 ],
		[ "SELECT dc_incr(C, K, -5)", -5 ],
		[ "SELECT dc_incr(C, K, 0)", 0 ],
		[ "BEGIN; SELECT dc_incr(C, K); COMMIT", 1 ],
		[ "BEGIN; SELECT dc_incr(C, K); ROLLBACK", 0 ],
		[ "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT dc_incr(C, K); COMMIT", 1 ],
		[ "BEGIN; SELECT dc_incr(C, K); SAVEPOINT a; SELECT dc_incr(C, K, 10); RELEASE a; COMMIT", 11 ],
		[ "BEGIN; SELECT dc_incr(C, K); SAVEPOINT a; SELECT dc_incr(C, K, 10); ROLLBACK TO a; COMMIT", 1 ],
		[ "BEGIN; SAVEPOINT a; SELECT dc_incr(C, K); SAVEPOINT b; SELECT dc_incr(C, K, 10); RELEASE b; ROLLBACK TO a; COMMIT", 0 ],
		[ "BEGIN; SAVEPOINT a; SELECT dc_incr(C, K); SAVEPOINT b; SELECT dc_incr(C, K, 10); ROLLBACK TO b; SELECT dc_incr(C, K, 100); RELEASE a; COMMIT", 101 ],
		[ "BEGIN; SAVEPOINT a; SELECT dc_incr(C, K, 10); SAVEPOINT b; SELECT dc_incr(C, K, 100); RELEASE b; SAVEPOINT c; SELECT 1/0; ROLLBACK TO c; SELECT dc_incr(C, K); COMMIT", 111 ],
		[ "BEGIN; SELECT dc_incr(C, K); SELECT 1/0; COMMIT", 0 ],
		[ "DO \$\$ BEGIN PERFORM dc_incr(C, K); BEGIN PERFORM dc_incr(C, K, 10); RAISE 'x'; EXCEPTION WHEN OTHERS THEN END; END \$\$", 1 ],
		[ "DO \$\$ BEGIN FOR i IN 1 .. 5 LOOP PERFORM dc_incr(C, K); IF i = 4 THEN ROLLBACK; ELSE COMMIT; END IF; END LOOP; END \$\$", 4 ],
		[ "BEGIN; INSERT INTO many VALUES (0); SELECT dc_incr(C, K); DELETE FROM many WHERE i = 0; COMMIT", 1 ],
		# what goes to rows
		[ "BEGIN; SELECT dc_incr(C, K); SELECT dc_apply(); COMMIT", 1, 1 ],
		[ "BEGIN; SELECT dc_incr(C, K); SELECT dc_apply(); SELECT dc_incr(C, K, 10); COMMIT", 11, 1 ],
		[ "BEGIN; SELECT dc_incr(C, K); PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'", 1, 1 ],
		[ "BEGIN; SELECT dc_incr(C, K); PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'", 0, 0 ],
		[ "BEGIN; SET LOCAL dcounter.pending_memory = '64kB'; SELECT dc_incr(C, K); SELECT count(dc_incr(C, 'filler ' || i)) FROM generate_series(1, 5000) AS i; COMMIT", 1, 1 ])
	{
		my ($statement, $expected, $rows) = @$_;
		my $key = 'key ' . ++$n;

		$session->run($statement =~ s/\bC\b/'$counter'/gr =~ s/\bK\b/'$key'/gr);
		state($node, $counter, $key, "$expected " . ($rows // 0), "$counter: $statement");
	}
	$session->quit;

	my $reads = "SELECT dc_get('$counter', 'own'), (SELECT value FROM dc_get_many('$counter', '{none,own}') OFFSET 1), i.value, i.inc, i.dec, i.shards, "
	  . "dc_sum('$counter') - others, updated_at <= clock_timestamp() FROM others, dc_info('$counter', 'own') AS i;";
	is(sql($node, 'postgres', qq{
		CREATE TEMP TABLE others AS SELECT dc_sum('$counter') AS others;
		BEGIN;
		SELECT dc_incr('$counter', 'own', 3), dc_incr_returning('$counter', 'own', 4);
		$reads
		COMMIT;
		$reads
		SELECT dc_incr_returning('$counter', 'own', -2);
		BEGIN; SELECT dc_incr('$counter', 'own', 100); SAVEPOINT a; SELECT dc_decr('$counter', 'own', 1000); ROLLBACK TO a;
		$reads
		ROLLBACK;
		$reads
		SELECT dc_incr('$counter', 7, 2), dc_incr('$counter', '00000000-0000-0000-0000-000000000001'::uuid, 3);
		SELECT dc_get('$counter', 7), dc_get('$counter', '7'), dc_get('$counter', '00000000-0000-0000-0000-000000000001'::uuid)}),
		"|7\n7|7|7|7|0|0|7|t\n7|7|7|7|0|0|7|t\n5\n\n\n105|105|105|107|2|0|105|t\n5|5|5|7|2|0|5|t\n|\n2|2|3", "$counter: reads see its own increments");

	my $all = sql($node, 'postgres', "SELECT dc_sum('$counter')");
	my $counts = "SELECT string_agg(key || '=' || value, ' ' ORDER BY key) FROM dc_get_many('$counter', ARRAY(SELECT 'key ' || i FROM generate_series(1, $n) AS i))";
	my $before = sql($node, 'postgres', $counts);
	flush($node, $counter);
	is(sql($node, 'postgres', "SELECT dc_sum('$counter'), in_tables('$counter')"), "$all|$all", "$counter: dc_flush() writes it all down");
	is(sql($node, 'postgres', $counts), $before, "$counter: and changes no value");
	return;
}

test_transactions($_) foreach 'c', 'parts';
no_memory($node, 'then all entries are freed');

##
## No transaction id, no WAL

sub test_cheap
{
	my $session = dc_session($node, 'postgres');
	my ($moved, $xids) = ('', '');

	$session->run('CREATE TEMP TABLE before (lsn pg_lsn, xmax text)');
	foreach (1 .. 20)
	{
		# others may write something meanwhile, but not always
		$session->run(q{SELECT dc_incr('c', 'cheap')});
		$session->run(q{SELECT pg_current_wal_insert_lsn() AS lsn, pg_snapshot_xmax(pg_current_snapshot()) AS xmax \gset});
		$session->run(q{SELECT dc_incr('c', 'cheap')}) foreach 1 .. 5;
		$session->run(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT dc_incr('c', 'cheap ' || i) FROM generate_series(1, 5) AS i; COMMIT});
		$moved = $session->run(q{SELECT pg_current_wal_insert_lsn() - :'lsn'});
		$xids = $session->run(q{SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint - :'xmax'::bigint});
		last if "$moved $xids" eq '0 0';
	}
	is("$moved $xids", '0 0', 'increments that go to memory write no WAL and take no transaction id');
	$session->quit;
	return;
}

##
## Keys of all lengths

sub test_keys
{
	my $keys = q{SELECT left(repeat(md5(n::text), 33), n) AS key, n FROM generate_series(1, 1024) AS n
		UNION ALL SELECT left(repeat('x', 1020) || lpad(n::text, 4, '0'), 1024), n FROM generate_series(1, 300) AS n};
	my $wrong = "SELECT count(*) FILTER (WHERE value <> n), count(*), sum(value) FROM ($keys) AS k JOIN dc_get_many('keys', ARRAY(SELECT key FROM ($keys) AS k)) AS g USING (key)";

	sql($node, 'postgres', "SELECT dc_create('keys', mode => 'buffered', flush_interval => '1 day'); SELECT dc_incr('keys', key, n) FROM ($keys) AS k");
	is(sql($node, 'postgres', "$wrong; SELECT in_tables('keys')"), "0|1324|569950\n0", 'keys of 1 to 1,024 bytes in memory');
	sql($node, 'postgres', "SELECT dc_incr('keys', key, 1000000), dc_incr('keys', key, -1000000) FROM ($keys) AS k");
	is(sql($node, 'postgres', $wrong), '0|1324|569950', 'found again');
	flush($node, 'keys');
	is(sql($node, 'postgres', "$wrong; SELECT in_tables('keys')"), "0|1324|569950\n569950", 'and flushed');
	is(sql($node, 'postgres', q{SELECT keys FROM dc_stat_buffer WHERE counter = 'keys'::regclass}), '0', 'entries of idle keys are freed');
	fails_with($node, 'postgres', "SELECT dc_incr('keys', repeat('x', 1025))", sql($node, 'postgres', q{
		DO $$ BEGIN PERFORM dc_incr('every', repeat('x', 1025)); EXCEPTION WHEN OTHERS THEN PERFORM set_config('my.state', SQLSTATE, false); END $$;
		SELECT current_setting('my.state')}), 'one byte too many is the error of exact mode');
	return;
}

##
## dc_set(), dc_reset() and dc_delete() with amounts in memory

my %set = (
	b => 'BEGIN', c => 'COMMIT', r => 'ROLLBACK', s => 'SAVEPOINT s', back => 'ROLLBACK TO s', release => 'RELEASE s',
	two => q{SELECT dc_incr('c', KEY, 2)}, ten => q{SELECT dc_incr('c', KEY, 10)},
	set => q{SELECT dc_set('c', KEY, 50)}, reset => q{SELECT dc_reset('c', KEY)}, delete => q{SELECT dc_delete('c', KEY)},
	get => q{SELECT dc_get('c', KEY)}, flush => q{SELECT dc_flush('c')}, sleep => 'SELECT pg_sleep(0.05)', compact => q{SELECT count(*) FROM (SELECT dc_compact('c') OFFSET 0) AS c HAVING false});

# A key has 5 in memory, and nothing or 100 in its row of totals, which is what "+"
# stands for in what is expected
sub test_set
{
	my $n = 0;

	foreach (
		[ 's:set s:get', '5+ 50' ], [ 's:reset s:get', '5+ 0' ], [ 's:delete s:get', '5+ 0' ],
		[ 's:two s:reset s:two s:get', '7+ 2' ],
		[ 's:b s:reset s:get t:get s:c s:get t:get', '5+ 0 5+ 0 0' ],
		[ 's:b s:set s:get t:get s:c s:get t:get', '5+ 50 5+ 50 50' ],
		[ 's:b s:delete s:get t:get s:c s:get t:get', '5+ 0 5+ 0 0' ],
		[ 's:b s:reset s:get t:get s:r s:get t:get', '5+ 0 5+ 5+ 5+' ],
		[ 's:b s:delete s:get t:get s:r s:get t:get', '5+ 0 5+ 5+ 5+' ],
		# increments of others meanwhile are on top
		[ 's:b s:reset t:two s:get t:get s:c s:get t:get', '5+ 2 7+ 2 2' ],
		[ 's:b s:reset t:two t:two s:r t:get', '5+ 9+' ],
		[ 's:b t:b t:two s:reset t:c s:c t:get', '5+ 2' ],
		[ 's:b t:b t:two s:set s:c t:c t:get', '5+ 52' ],
		[ 's:b s:delete t:two s:c t:two t:get', '5+ 4' ],
		# own increments, before and after
		[ 's:b s:two s:reset s:ten s:get t:get s:c t:get', '7+ 10 5+ 10' ],
		[ 's:b s:two s:reset s:ten s:get t:get s:r t:get', '7+ 10 5+ 5+' ],
		[ 's:b s:reset s:two s:reset s:ten s:set s:c t:get', '5+ 2 10 50' ],
		# savepoints
		[ 's:b s:s s:reset s:back s:get t:get s:c t:get', '5+ 5+ 5+ 5+' ],
		[ 's:b s:s s:reset s:back s:two s:reset s:c t:get', '5+ 7+ 0' ],
		[ 's:b s:s s:reset t:two s:back t:two s:get s:reset s:c t:get', '5+ 9+ 9+ 0' ],
		[ 's:b s:s s:reset t:two s:release t:two s:get s:c t:get', '5+ 4 4' ],
		[ 's:b s:s s:reset t:two s:release t:two s:r t:get', '5+ 9+' ],
		[ 's:b s:reset s:s t:two s:reset s:back t:two s:get t:get s:c t:get', '5+ 2 4 9+ 4' ],
		[ 's:b s:s s:reset s:s s:two s:reset s:release s:back t:two s:get s:c t:get', '5+ 2 7+ 7+' ],
		[ 's:b s:s s:set s:s t:two s:reset s:back s:c t:get', '5+ 52 52' ],
		# flushes meanwhile
		[ 's:b s:reset t:two u:flush& t:sleep t:get s:get s:c u: t:get', '5+ 7+ 2 2' ],
		[ 's:b s:reset t:two u:flush& t:sleep t:get s:get s:r u: t:get', '5+ 7+ 2 7+' ],
		[ 's:b s:delete u:flush& t:two t:sleep s:c u: t:two t:get', '5+ 4' ],
		[ 's:b s:s s:reset u:flush& t:two t:sleep s:back t:get s:reset s:c u: t:get', '5+ 7+ 7+ 0' ],
		[ 's:b s:reset u:flush& t:two t:sleep v:compact s:r u: v:compact t:get', '5+ 7+' ],
		[ 's:b s:flush t:two s:reset s:ten s:c t:get', '7+ 10' ],
		# two of them
		[ 's:b s:reset t:reset& u:two s:c t: u:get', '5+ 2 0' ],
		[ 's:b s:reset t:reset& u:two s:r t: u:get', '5+ 7+ 0' ],
		[ 's:b s:set t:delete& u:two s:c t: u:get', '5+ 52 0' ])
	{
		my ($order, $expected) = @$_;

		foreach my $base (0, 100)
		{
			my $key = "'set " . ++$n . "'";
			my %steps = map { $_ => $set{$_} =~ s/KEY/$key/r } keys %set;

			query($node, "SELECT dc_incr('c', $key, 100); SELECT dc_flush('c')") if $base;
			query($node, "SELECT dc_incr('c', $key, 5)");
			is(play($node, \%steps, $order), $expected =~ s/(\d+)\+/$1 + $base/ger, "$base in the total: $order");
			my $value = query($node, "SELECT dc_get('c', $key)");
			query($node, "SELECT dc_flush('c')");
			state($node, 'c', $key =~ s/'//gr, "$value $value", '... flushed');
		}
	}
	is(sql($node, 'postgres', q{SELECT dc_sum('c') = in_tables('c')}), 't', 'nothing is left in memory');
	no_memory($node, 'no entry is left');
	return;
}

##
## Sums that leave bigint

sub test_overflow
{
	my $max = '9223372036854775807';
	my $others = sql($node, 'postgres', q{SELECT dc_sum('c')});

	sql($node, 'postgres', "SELECT dc_incr('c', 'max', $max)");
	state_is($node, 'c', 'max', "$max $max", 'a great amount goes to rows');
	fails_with($node, 'postgres', "SELECT dc_incr('c', 'max', $max)", '22003', 'twice is too much, as in exact mode');
	sql($node, 'postgres', q{SELECT dc_compact('c'); SELECT dc_incr('c', 'max', 5)});
	foreach my $when ('in memory', 'flushed', 'compacted')
	{
		flush($node, 'c') if $when eq 'flushed';
		sql($node, 'postgres', q{SET client_min_messages = error; SELECT dc_compact('c')}) if $when eq 'compacted';
		fails_with($node, 'postgres', q{SELECT dc_get('c', 'max')}, '22003', "a sum beyond bigint, $when");
		is(sql($node, 'postgres', qq{SELECT dc_sum('c') - $others}), '9223372036854775812', "dc_sum(), $when");
	}
	is(sql($node, 'postgres', q{SELECT in_tables('c') = dc_sum('c')}), 't', 'it is all in rows');
	sql($node, 'postgres', q{SELECT dc_decr('c', 'max', 7)});
	is(sql($node, 'postgres', q{SELECT dc_get('c', 'max')}), '9223372036854775805', 'less again');
	flush($node, 'c');
	is(sql($node, 'postgres', qq{SELECT dc_get('c', 'max'), dc_delete('c', 'max'), dc_sum('c') - $others}), '9223372036854775805|9223372036854775805|0', 'flushed');

	# Amounts that may go to memory, until there is too much of it
	my $great = 1 << 40;
	sql($node, 'postgres', qq{SELECT dc_create('great', mode => 'buffered', flush_interval => '1 day');
		DO \$\$ BEGIN FOR i IN 1 .. 50 LOOP PERFORM dc_incr('great', 'a', $great), dc_decr('great', 'b', $great); COMMIT; END LOOP; END \$\$});
	is(sql($node, 'postgres', q{SELECT dc_get('great', 'a'), dc_get('great', 'b'), dc_sum('great'), in_tables('great')}), 50 * $great . '|' . -50 * $great . '|0|0', 'great amounts in memory');
	sql($node, 'postgres', qq{SELECT dc_incr('great', 'a', $great + 1), dc_flush('great')});
	state_is($node, 'great', 'a', (51 * $great + 1) . ' ' . (51 * $great + 1), 'and in rows');
	return;
}

##
## Rights

sub test_rights
{
	sql($node, 'postgres', q{
		GRANT USAGE, CREATE ON SCHEMA alice TO alice; SET ROLE alice;
		SELECT dc_create('alice.c', mode => 'buffered', flush_interval => '1 day');
		GRANT USAGE ON SCHEMA alice TO bob; GRANT INSERT, UPDATE ON alice.c TO bob;});
	sql($node, 'postgres', q{SET ROLE bob; SELECT dc_incr('alice.c', 'a', 5)});
	fails_with($node, 'postgres', $_->[0], $_->[1], "$_->[0] needs rights") foreach [ q{SET ROLE bob; SELECT dc_get('alice.c', 'a')}, '42501' ],
	  [ q{REVOKE INSERT ON alice.c FROM bob; SET ROLE bob; SELECT dc_incr('alice.c', 'a', 5)}, '42501' ];
	is(sql($node, 'postgres', q{SET ROLE alice; SELECT dc_get('alice.c', 'a'); SELECT dc_flush('alice.c'); SELECT value FROM alice.c}), "5\n\n5", 'the rest is as in exact mode');
	return;
}

test_cheap();
test_keys();
test_set();
test_overflow();
test_rights();

end_sessions();
$node->stop;
done_testing();
