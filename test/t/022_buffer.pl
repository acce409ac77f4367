# Buffered counters beside a worker: what goes to memory and what to rows, reads that
# are exact while amounts move, and what all that changes tables does to amounts in
# memory. Most tables have a flush interval of a day: there only dc_flush() flushes.
use strict;
use warnings;

use DcBuffer;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = buffer_node('main', 'max_connections = 100', "dcounter.buffer_size = '8MB'", "dcounter.compact_interval = '1h'");

exactness($node);
sql($node, 'postgres', q{
	SELECT dc_create('c', mode => 'buffered', flush_interval => '1 day');
	CREATE ROLE alice; CREATE ROLE bob; CREATE SCHEMA alice AUTHORIZATION alice;
	CREATE FUNCTION in_tables(c text) RETURNS numeric LANGUAGE plpgsql AS $$
	DECLARE
		n numeric;
	BEGIN
		EXECUTE format('SELECT (SELECT coalesce(sum(inc - dec), 0) FROM %I) + (SELECT coalesce(sum(inc - dec), 0) FROM %I)', c, c || '_shard') INTO n;
		RETURN n;
	END $$;});

# Sessions that stay open, by name
my %session;

# play(STEPS, ORDER): runs steps "session:step" one after the other, and returns what
# they said, without empty answers. "session:step&" does not wait, "session:" does.
sub play
{
	my ($steps, $order) = @_;
	my @out;

	foreach (split ' ', $order)
	{
		my ($name, $step, $leave) = /^(\w+):(\w*)(&?)$/ or die "step $_";
		my $session = $session{$name} //= dc_session($node, 'postgres');

		$session->send($steps->{$step} // die "no step $step") if $step;
		push @out, grep { $_ ne '' } split /\n/, $session->wait if !$leave;
	}
	return join(' ', @out);
}

# TRUNCATE notes the table before it has locked it.
sub truncate_waits
{
	my %steps = (
		b => 'BEGIN', c => 'COMMIT',
		create => q{SELECT dc_create('fresh', mode => 'buffered', flush_interval => '1 day')},
		incr => q{SELECT dc_incr('fresh', 'a', 7)},
		truncate => 'TRUNCATE fresh, fresh_shard',
		get => q{SELECT dc_get('fresh', 'a')},
		two => q{SELECT dc_create('two', mode => 'buffered', flush_interval => '1 day')},
		swap => 'ALTER TABLE fresh RENAME TO old; ALTER TABLE two RENAME TO fresh',
		only => 'TRUNCATE fresh',
		lock => 'LOCK TABLE old',
		old => q{SELECT dc_get('old', 'a')},
		drop => q{DROP TABLE old, fresh});

	is(play(\%steps, 'x:create x:b x:incr y:truncate& x:c y: y:get'), 'fresh 0', 'TRUNCATE waits for the first increment of a table, and takes it');
	# A partition: who has counted in the table reads it, and sets a key, before he commits.
	$steps{parted} = q{SELECT dc_create('parted', partitions => 2, mode => 'buffered', flush_interval => '1 day')};
	$steps{add} = q{SELECT dc_incr('parted', i::text, 10) FROM generate_series(1, 8) AS i};
	$steps{sum} = q{SELECT sum(value) FROM dc_get_many('parted', (SELECT array_agg(i::text) FROM generate_series(1, 8) AS i))};
	$steps{set} = q{SELECT dc_set('parted', i::text, 5) FROM generate_series(1, 8) AS i};
	$steps{part} = 'TRUNCATE parted_p0';
	$steps{left} = q{SELECT bool_and(satisfies_hash_partition('parted'::regclass, 2, 0, i::text COLLATE "C") = (dc_get('parted', i::text) = 0))
		FROM generate_series(1, 8) AS i};
	$steps{gone} = 'DROP TABLE parted';
	play(\%steps, 'x:parted x:add');
	foreach my $then ('sum', 'set', 'add')
	{
		play(\%steps, 'x:b x:add y:part&');
		waits('y');
		unlike(play(\%steps, "x:$then x:c y:"), qr/ERROR|deadlock/, "TRUNCATE of a partition waits for who has counted, and lets him go on: $then");
	}
	is(play(\%steps, 'x:left'), 't', 'TRUNCATE of a partition takes what is in it, and no more');
	play(\%steps, 'x:gone');
	is(play(\%steps, 'x:two x:incr x:b x:swap y:b y:only& x:c y: y:lock y:c y:old y:get x:drop'), 'two 7 0', 'TRUNCATE waits, and truncates another table: what is locked later is not truncated');
}

# query(SQL): the answer in a session that stays open, which is quicker than a new one
sub query
{
	my ($sql) = @_;
	my $session = $session{query} //= dc_session($node, 'postgres');
	my $out = $session->run($sql);

	die "$sql: $out" if $out =~ /^ERROR/;
	return $out;
}

# state(COUNTER, KEY, "VALUE TABLES", NAME): state_is() in that session
sub state
{
	my ($counter, $key, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(query(state_query($counter, $key)), $expected, $name);
}

# waits(SESSION): until it waits for a lock
sub waits
{
	my ($name) = @_;

	die "$name does not wait" if wait_for($node, 'postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted}, 't') ne 't';
	return;
}

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
  (map { [ '22023', "SELECT dc_create('x', mode => 'buffered', flush_interval => '$_')" ] } '0', '-1 s', '999 us', '1 day 1 ms', '178000000 years'),
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
		state($counter, $key, "$expected " . ($rows // 0), "$counter: $statement");
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

			query("SELECT dc_incr('c', $key, 100); SELECT dc_flush('c')") if $base;
			query("SELECT dc_incr('c', $key, 5)");
			is(play(\%steps, $order), $expected =~ s/(\d+)\+/$1 + $base/ger, "$base in the total: $order");
			my $value = query("SELECT dc_get('c', $key)");
			query("SELECT dc_flush('c')");
			state('c', $key =~ s/'//gr, "$value $value", '... flushed');
		}
	}
	is(sql($node, 'postgres', q{SELECT dc_sum('c') = in_tables('c')}), 't', 'nothing is left in memory');
	no_memory($node, 'no entry is left');
	return;
}

##
## TRUNCATE, DROP, rename

# changed(NAME, STATEMENTS, EXPECTED [, TABLE [, SQLSTATE]]): a new table "t" with 5 in memory
# for key "a"; its value after statements, and once more after a flush
sub changed
{
	my ($name, $statements, $expected, $table, $state) = @_;
	my $session = $session{changes} //= dc_session($node, 'postgres');

	$table //= 't';
	query(q{SET client_min_messages = warning; DROP TABLE IF EXISTS t, t_shard, u, u_shard, alice.t, alice.t_shard;
		SELECT dc_create('t', mode => 'buffered', flush_interval => '1 day');
		SELECT dc_incr('t', 'a', 5)});
	my $out = $session->run("SET client_min_messages = warning; $statements");
	is($out =~ /ERROR (\w{5})/ ? $1 : '', $state // '', "$name: " . ($state ? 'an error' : 'no error'));
	$session->run('ROLLBACK') if $state;
	is(query("SELECT dc_get('$table', 'a')"), $expected, $name);
	is(query("SELECT dc_flush(); SELECT dc_get('$table', 'a')") =~ s/^\n//r, $expected, "$name, and after a flush");
	return;
}

sub test_ddl
{
	my $new = q{SELECT dc_create('t', mode => 'buffered', flush_interval => '1 day')};

	changed('nothing', '', 5);
	changed('TRUNCATE', 'TRUNCATE t, t_shard', 0);
	changed('TRUNCATE of the totals', 'TRUNCATE t', 0);
	changed('TRUNCATE of the shard table', 'TRUNCATE t_shard', 5);
	changed('TRUNCATE and increments', q{BEGIN; TRUNCATE t, t_shard; SELECT dc_incr('t', 'a', 3); COMMIT}, 3);
	changed('TRUNCATE and later increments', q{TRUNCATE t, t_shard; SELECT dc_incr('t', 'a', 3)}, 3);
	changed('TRUNCATE rolled back', q{BEGIN; TRUNCATE t, t_shard; SELECT dc_incr('t', 'a', 3); ROLLBACK}, 5);
	changed('TRUNCATE rolled back to a savepoint', q{BEGIN; SAVEPOINT s; TRUNCATE t, t_shard; SELECT dc_incr('t', 'a', 3); ROLLBACK TO s; SELECT dc_incr('t', 'a', 4); COMMIT}, 9);
	changed('TRUNCATE in a savepoint that is released', q{BEGIN; SAVEPOINT s; TRUNCATE t, t_shard; RELEASE s; COMMIT}, 0);
	changed('TRUNCATE in a released savepoint, rolled back', q{BEGIN; SAVEPOINT s; SAVEPOINT u; TRUNCATE t, t_shard; RELEASE u; ROLLBACK TO s; COMMIT}, 5);
	changed('TRUNCATE by PREPARE TRANSACTION', q{BEGIN; TRUNCATE t, t_shard; PREPARE TRANSACTION 'x'}, 5, 't', '0A000');
	changed('DROP by PREPARE TRANSACTION', q{BEGIN; SELECT dc_drop('t'); PREPARE TRANSACTION 'x'}, 5, 't', '0A000');
	changed('dc_alter() by PREPARE TRANSACTION', q{BEGIN; SELECT dc_alter('t', mode => 'exact'); PREPARE TRANSACTION 'x'}, 5, 't', '0A000');
	changed('PREPARE TRANSACTION of what is rolled back', q{BEGIN; SAVEPOINT s; TRUNCATE t, t_shard; ROLLBACK TO s; SELECT dc_incr('t', 'a', 2); PREPARE TRANSACTION 'x'; COMMIT PREPARED 'x'}, 7);
	changed('dc_reset() by PREPARE TRANSACTION', q{BEGIN; SELECT dc_reset('t', 'a'), dc_incr('t', 'a', 3); PREPARE TRANSACTION 'x'; COMMIT PREPARED 'x'}, 3);
	changed('dc_reset() by PREPARE TRANSACTION, rolled back', q{BEGIN; SELECT dc_reset('t', 'a'), dc_incr('t', 'a', 3); PREPARE TRANSACTION 'x'; ROLLBACK PREPARED 'x'}, 5);
	changed('TRUNCATE in DO with COMMIT', q{DO $$ BEGIN PERFORM dc_incr('t', 'a', 7); COMMIT; TRUNCATE t, t_shard; COMMIT; PERFORM dc_incr('t', 'a', 2); COMMIT; TRUNCATE t, t_shard; ROLLBACK; END $$}, 2);
	truncate_waits();
	changed('DROP and a new table', "DROP TABLE t; $new", 0);
	changed('DROP and a new table in one transaction', "BEGIN; DROP TABLE t, t_shard; $new; SELECT dc_incr('t', 'a', 1); COMMIT", 1);
	changed('dc_drop() and a new table', "SELECT dc_drop('t'); $new", 0);
	changed('DROP rolled back', "BEGIN; DROP TABLE t, t_shard; $new; SELECT dc_incr('t', 'a', 1); ROLLBACK", 5);
	changed('dc_drop() rolled back to a savepoint', q{BEGIN; SAVEPOINT s; SELECT dc_drop('t'); ROLLBACK TO s; SELECT dc_incr('t', 'a', 2); COMMIT}, 7);
	changed('DROP SCHEMA', qq{ALTER TABLE t SET SCHEMA alice; SET client_min_messages = warning; DROP SCHEMA alice CASCADE; CREATE SCHEMA alice AUTHORIZATION alice; $new}, 0);
	changed('rename', 'ALTER TABLE t RENAME TO u', 5, 'u');
	changed('rename, and another takes the name', "ALTER TABLE t RENAME TO u; $new; SELECT dc_incr('t', 'a', 3)", 3);
	is(sql($node, 'postgres', q{SELECT dc_get('u', 'a')}), '5', 'and that of the renamed table is its own');
	changed('SET SCHEMA', 'ALTER TABLE t SET SCHEMA alice', 5, 'alice.t');
	changed('another owner', 'GRANT CREATE ON SCHEMA public TO alice; ALTER TABLE t OWNER TO alice; ALTER TABLE t_shard OWNER TO alice', 5);
	changed('VACUUM FULL, CLUSTER and ALTER that rewrites', q{VACUUM FULL t; VACUUM FULL t_shard; CLUSTER t USING t_pkey; ALTER TABLE t ADD COLUMN more int DEFAULT (random() * 9)::int}, 5);
	changed('UNLOGGED', q{ALTER TABLE t SET UNLOGGED; ALTER TABLE t_shard SET UNLOGGED}, 5);
	changed('REINDEX', 'REINDEX TABLE t; REINDEX TABLE t_shard', 5);
	changed('exact and back', q{SELECT dc_alter('t', mode => 'exact'); SELECT dc_incr('t', 'a', 1); SELECT dc_alter('t', mode => 'buffered'); SELECT dc_incr('t', 'a', 1)}, 7);
	changed('exact, rolled back', q{BEGIN; SELECT dc_incr('t', 'a', 1); SELECT dc_alter('t', mode => 'exact'); SELECT dc_incr('t', 'a', 1); ROLLBACK}, 5);
	changed('exact, rolled back to a savepoint', q{BEGIN; SELECT dc_incr('t', 'a', 1); SAVEPOINT s; SELECT dc_alter('t', mode => 'exact'); SELECT dc_incr('t', 'a', 10); ROLLBACK TO s; SELECT dc_incr('t', 'a', 1); COMMIT}, 7);
	changed('exact, in a transaction that increments', q{BEGIN; SELECT dc_incr('t', 'a', 1); SELECT dc_alter('t', mode => 'exact'); SELECT dc_incr('t', 'a', 1); COMMIT}, 7);
	changed('buffered, in a transaction that increments', q{SELECT dc_alter('t', mode => 'exact'); BEGIN; SELECT dc_incr('t', 'a', 1); SELECT dc_alter('t', mode => 'buffered'); SELECT dc_incr('t', 'a', 1); COMMIT}, 7);
	changed('exact, then TRUNCATE rolled back', q{BEGIN; SELECT dc_alter('t', mode => 'exact'); TRUNCATE t, t_shard; ROLLBACK}, 5);
	changed('TRUNCATE rolled back, then exact', q{BEGIN; SAVEPOINT s; TRUNCATE t, t_shard; ROLLBACK TO s; SELECT dc_alter('t', mode => 'exact'); COMMIT}, 5);
	changed('TRUNCATE, then exact', q{BEGIN; TRUNCATE t, t_shard; SELECT dc_alter('t', mode => 'exact'); COMMIT}, 0);
	changed('TRUNCATE, then dc_flush()', q{BEGIN; TRUNCATE t, t_shard; SELECT dc_flush('t'); SELECT dc_incr('t', 'a', 2); COMMIT}, 2);
	changed('TRUNCATE, then dc_reset()', q{BEGIN; TRUNCATE t, t_shard; SELECT dc_reset('t', 'a'); SELECT dc_incr('t', 'a', 2); COMMIT}, 2);
	changed('TRUNCATE, then dc_set() rolled back', q{BEGIN; TRUNCATE t, t_shard; SAVEPOINT s; SELECT dc_set('t', 'a', 9); ROLLBACK TO s; COMMIT}, 0);
	changed('TRUNCATE, then dc_reset(), all rolled back', q{BEGIN; TRUNCATE t, t_shard; SELECT dc_reset('t', 'a'); ROLLBACK}, 5);
	changed('DROP, rolled back, then dc_flush()', q{BEGIN; SAVEPOINT s; SELECT dc_drop('t'); ROLLBACK TO s; SELECT dc_flush('t'); SELECT dc_incr('t', 'a', 2); COMMIT}, 7);
	changed('LOCK, then dc_flush()', q{BEGIN; LOCK TABLE t; SELECT dc_flush('t'); SELECT dc_incr('t', 'a', 2); COMMIT}, 7);
	changed('LOCK, then dc_flush(), rolled back', q{BEGIN; LOCK TABLE t; SELECT dc_flush('t'); SELECT dc_incr('t', 'a', 2); ROLLBACK}, 5);
	changed('LOCK, then dc_flush(), rolled back to a savepoint', q{BEGIN; SELECT dc_incr('t', 'a', 2); SAVEPOINT s; LOCK TABLE t; SELECT dc_flush('t'); SELECT dc_incr('t', 'a', 2); ROLLBACK TO s; COMMIT}, 7);
	changed('LOCK, then dc_reset()', q{BEGIN; LOCK TABLE t IN SHARE MODE; SELECT dc_reset('t', 'a'); SELECT dc_incr('t', 'a', 2); COMMIT}, 2);
	changed('LOCK, then dc_reset(), twice, rolled back to a savepoint', q{BEGIN; LOCK TABLE t IN SHARE MODE; SAVEPOINT s; SELECT dc_reset('t', 'a'); SELECT dc_set('t', 'a', 3); ROLLBACK TO s; SELECT dc_incr('t', 'a', 2); COMMIT}, 7);
	changed('TRUNCATE, then reads', q{BEGIN; TRUNCATE t, t_shard; DO $$ BEGIN
		IF dc_get('t', 'a') <> 0 OR (SELECT sum(value) FROM dc_get_many('t', '{a,b}')) <> 0 OR (SELECT inc FROM dc_info('t', 'a')) <> 0 OR dc_sum('t') <> 0 THEN RAISE 'not truncated'; END IF;
		PERFORM dc_incr('t', 'a', 2);
		IF dc_get('t', 'a') <> 2 OR dc_sum('t') <> 2 THEN RAISE 'not incremented'; END IF; END $$; COMMIT}, 2);
	changed('TRUNCATE rolled back, then reads', q{BEGIN; SAVEPOINT s; TRUNCATE t, t_shard; ROLLBACK TO s; DO $$ BEGIN IF dc_get('t', 'a') <> 5 OR dc_sum('t') <> 5 THEN RAISE 'not there'; END IF; END $$; COMMIT}, 5);
	changed('dc_reset(), then TRUNCATE rolled back', q{BEGIN; SELECT dc_reset('t', 'a'); TRUNCATE t, t_shard; ROLLBACK}, 5);
	changed('dc_reset(), then DROP rolled back', q{BEGIN; SELECT dc_reset('t', 'a'), dc_drop('t'); ROLLBACK}, 5);
	changed('dc_reset(), then exact', q{BEGIN; SELECT dc_reset('t', 'a'); SELECT dc_alter('t', mode => 'exact'); COMMIT}, 0);
	changed('dc_reset(), then exact, rolled back', q{BEGIN; SELECT dc_reset('t', 'a'); SELECT dc_alter('t', mode => 'exact'); ROLLBACK}, 5);
	changed('dc_set() rolled back to a savepoint, then exact', q{BEGIN; SAVEPOINT s; SELECT dc_set('t', 'a', 9); ROLLBACK TO s; SELECT dc_alter('t', mode => 'exact'); COMMIT}, 5);
	is(sql($node, 'postgres', q{SELECT mode FROM dcounter.counter WHERE counter = 't'::regclass; SELECT in_tables('t')}), "exact\n5", 'which is exact then');
	sql($node, 'postgres', q{SELECT dc_drop('t'), dc_drop('parts'); SELECT dc_create('parts', partitions => 3, mode => 'buffered', flush_interval => '1 day'); SELECT dc_incr('parts', i, i) FROM generate_series(1, 20) AS i});
	sql($node, 'postgres', 'BEGIN; TRUNCATE parts, parts_shard; ROLLBACK');
	is(sql($node, 'postgres', q{SELECT dc_sum('parts')}), '210', 'TRUNCATE of a partitioned table, rolled back');
	sql($node, 'postgres', 'TRUNCATE parts, parts_shard');
	is(sql($node, 'postgres', q{SELECT dc_sum('parts')}), '0', 'TRUNCATE of a partitioned table');
	sql($node, 'postgres', q{SELECT dc_incr('parts', i, i) FROM generate_series(1, 20) AS i; SELECT dc_drop('parts')});
	no_memory($node, 'nothing of dropped tables is left');
	return;
}

##
## Databases and the extension

sub test_databases
{
	my $values = q{SELECT dc_get('c', 'a'), dc_get('bad', 'a'), dc_sum('c')};

	sql($node, 'postgres', 'CREATE DATABASE d');
	is(sql($node, 'd', 'CREATE TABLE t (a int) PARTITION BY LIST (a); CREATE TABLE t1 PARTITION OF t DEFAULT; TRUNCATE t1; DROP TABLE t; SELECT 1'),
		'1', 'TRUNCATE of a partition where there is no extension');
	sql($node, 'd', 'CREATE EXTENSION dcounter');
	worker_runs($node, 'd');
	sql($node, 'd', q{
		SELECT dc_create('c', mode => 'buffered', flush_interval => '1 day'), dc_create('bad', mode => 'buffered', flush_interval => '1 day');
		SELECT dc_incr('c', 'a', 5), dc_incr('bad', 'a', 3);});
	sql($node, 'postgres', 'CREATE DATABASE copy TEMPLATE d');
	is(sql($node, $_, $values), '5|3|5', "a copied database: $_") foreach 'd', 'copy';
	worker_runs($node, $_) foreach 'd', 'copy';
	sql($node, 'copy', q{SELECT dc_incr('c', 'a', 10)});
	sql($node, 'd', q{
		SELECT dc_incr('c', 'a', 1), dc_incr('bad', 'a', 1)});
	stuck($node, 'd', 'bad', 1);
	is(sql($node, 'd', $values), '6|4|6', 'each has its own memory');
	is(sql($node, 'copy', $values), '15|3|15', 'also the copy');
	sql($node, 'postgres', 'ALTER DATABASE d RENAME TO e');
	is(sql($node, 'e', $values), '6|4|6', 'ALTER DATABASE RENAME, with amounts that cannot be written');
	worker_runs($node, 'e');
	sql($node, 'e', q{SELECT dc_incr('bad', 'a' || i) FROM generate_series(1, 50) AS i});
	is(sql($node, 'e', 'SELECT counter, keys FROM dc_stat_buffer WHERE keys > 0'), 'bad|51', 'there is something in memory');
	sql($node, 'postgres', 'DROP DATABASE e WITH (FORCE); DROP DATABASE copy');

	sql($node, 'postgres', 'CREATE DATABASE d');
	sql($node, 'd', 'CREATE EXTENSION dcounter');
	worker_runs($node, 'd');
	sql($node, 'd', q{
		SELECT dc_create('c', mode => 'buffered', flush_interval => '1 day'), dc_create('p', partitions => 2, mode => 'buffered', flush_interval => '1 day');
		SELECT dc_incr('c', i, i), dc_incr('p', i, 2 * i) FROM generate_series(1, 100) AS i;});
	is(sql($node, 'd', q{BEGIN; DROP EXTENSION dcounter; ROLLBACK; SELECT dc_sum('c'), dc_sum('p')}), '5050|10100', 'DROP EXTENSION, rolled back');
	sql($node, 'd', q{SELECT dc_incr('c', i, i), dc_incr('p', i, 2 * i) FROM generate_series(1, 100) AS i; DROP EXTENSION dcounter});
	is(sql($node, 'd', q{SELECT sum(n), (SELECT sum(value) FROM p) + (SELECT coalesce(sum(inc - dec), 0) FROM p_shard)
		FROM (SELECT value AS n FROM c UNION ALL SELECT inc - dec FROM c_shard) AS u}) , '10100|20200', 'DROP EXTENSION writes all down');
	is(sql($node, 'd', q{CREATE EXTENSION dcounter; SELECT dc_adopt('c'), dc_sum('c'), dc_get('c', 7)}), '|10100|14', 'dc_adopt() goes on with it');
	# Increments at the same time come before it, or are errors.
	worker_runs($node, 'd');
	sql($node, 'd', q{SELECT dc_alter('c', mode => 'buffered'), dc_incr('c', 7, 1)});
	my ($s, $t, $u) = map { dc_session($node, 'd') } 1 .. 3;
	$s->run(q{BEGIN; SELECT dc_incr('c', 7, 10)});
	$t->send('BEGIN; DROP EXTENSION dcounter');
	die 'DROP EXTENSION does not wait' if wait_for($node, 'd', 'SELECT count(*) > 0 FROM pg_locks WHERE NOT granted', 't', 20) ne 't';
	$u->send(q{SELECT dc_incr('c', 7, 100)});
	$s->run('COMMIT');
	$t->wait;
	$t->run('COMMIT');
	my $late = $u->wait eq '' ? 100 : 0;
	is(sql($node, 'd', q{SELECT sum(n) FROM (SELECT value AS n FROM c WHERE key = '7' UNION ALL SELECT inc - dec FROM c_shard WHERE key = '7') AS u}), 25 + $late, 'DROP EXTENSION beside increments');
	$_->quit foreach $s, $t, $u;
	sql($node, 'd', q{CREATE SCHEMA ext; CREATE EXTENSION dcounter SCHEMA ext; SELECT ext.dc_adopt('c')});
	worker_runs($node, 'd');
	sql($node, 'd', q{SET search_path = public, ext; SELECT dc_alter('c', mode => 'buffered', flush_interval => '1 day'); SELECT dc_incr('c', 8, 1000)});
	fails_with($node, 'd', $_, '55006', "$_ with amounts in memory") foreach 'DROP SCHEMA ext CASCADE';
	is(sql($node, 'd', q{SET search_path = public, ext; SELECT dc_get('c', 8), dc_flush('c')}), '1016|', '... leaves all as it was');
	sql($node, 'd', q{SET client_min_messages = warning; DROP SCHEMA ext CASCADE});
	is(sql($node, 'd', q{SELECT sum(n) FROM (SELECT value AS n FROM c WHERE key = '8' UNION ALL SELECT inc - dec FROM c_shard WHERE key = '8') AS u}), '1016', 'and is possible when nothing is in memory');
	sql($node, 'postgres', 'DROP DATABASE d WITH (FORCE)');
	return;
}

##
## What stands in the way of a flush

sub test_obstacles
{
	my %steps = (
		b => 'BEGIN', c => 'COMMIT', r => 'ROLLBACK', incr => q{SELECT dc_incr('c', 'row', 5)}, flush => q{SELECT dc_flush('c')}, all => 'SELECT dc_flush()',
		lock => q{SELECT 1 FROM c WHERE key = 'row' FOR UPDATE}, remove => q{DELETE FROM c WHERE key = 'row' RETURNING value}, compact => q{SELECT dc_compact('c') >= 0}, get => q{SELECT dc_get('c', 'row')},
		read => q{SELECT count(*) > 0 FROM c}, ddl => 'LOCK TABLE c IN ACCESS EXCLUSIVE MODE', share => 'LOCK TABLE c IN SHARE MODE', other => q{SELECT dc_incr('other', 'a')});

	sql($node, 'postgres', q{
		SELECT dc_create('other', mode => 'buffered', durability => 'sync', flush_interval => '1 day');
		SELECT dc_incr('c', 'row', 100); SELECT dc_flush('c')});
	is(play(\%steps, 's:b s:lock t:incr t:flush t:get'), '1 105', 'the row of totals is locked: dc_flush() does not wait');
	state_is($node, 'c', 'row', '105 105', 'what was in memory is in a shard row');
	is(play(\%steps, 't:incr t:flush s:c t:get t:incr t:flush t:get s:compact s:get'), '110 115 t 115', 'nor is anything counted twice');
	is(play(\%steps, 't:incr s:b s:compact t:flush t:get'), 't 120', 'compaction is open: dc_flush() does not wait');
	state_is($node, 'c', 'row', '120 120', 'but writes');
	is(play(\%steps, 't:incr s:r t:get s:b s:compact t:incr t:flush s:c t:get t:compact t:get'), '125 t 130 t 130', 'and it is right after that');
	is(play(\%steps, 's:b s:remove t:incr t:flush t:get s:r t:incr t:flush t:get'), '130 135 140', 'a row that is being deleted');

	# The worker does not wait for a table while others wait for the worker.
	is(play(\%steps, 's:b s:read t:b t:ddl&'), 't', 'DDL waits');
	waits('t');
	is(play(\%steps, 'v:other v:other u:flush&'), '', 'meanwhile sync commits of another table are flushed');
	state_is($node, 'other', 'a', '2 2', 'and durable');
	is(play(\%steps, 's:c t: t:c u: t:get'), '140', 'a flush that waited for it ends');
	is(play(\%steps, 's:incr t:b t:share u:flush& v:other u2:all& v:other t:c u: u2: t:get'), '145', 'the same with a lock against writers');
	state_is($node, 'c', 'row', '145 145', 'all of it is written');
	state_is($node, 'other', 'a', '4 4', 'there, too');
	return;
}

sub test_failing
{
		sql($node, 'postgres', q{SELECT dc_create('bad', mode => 'buffered', flush_interval => '20 ms')});
	stuck($node, 'postgres', 'bad', 1);
	sql($node, 'postgres', q{SELECT dc_incr('bad', 'a', 5)});
	soon($node, q{SELECT failures > 1, last_error FROM dc_stat_worker WHERE datname = current_database() AND job = 'flush'}, 't|dcounter job "flush" on "bad": not now', 'flushes of a table with a failing trigger');
	state_is($node, 'bad', 'a', '5 0', 'its amounts stay in memory');
	sql($node, 'postgres', q{SELECT dc_incr('bad', 'a', 2), dc_incr('bad', 'b', 2)});
	flush($node, 'c');
	is(sql($node, 'postgres', q{SELECT dc_get('bad', 'a'), dc_get('bad', 'b'), dc_sum('bad'), in_tables('bad')}), '7|2|9|0', 'once, and other tables are flushed');

	# Sync: the wait can be cancelled, the increment stays
	sql($node, 'postgres', q{SELECT dc_alter('bad', durability => 'sync')});
	my $session = dc_session($node, 'postgres');
	my $pid = $session->run('SELECT pg_backend_pid()');
	$session->send(q{SELECT dc_incr('bad', 'a', 10)});
	soon($node, "SELECT wait_event_type, backend_xid IS NULL FROM pg_stat_activity WHERE pid = $pid", 'Extension|t', 'a sync commit waits');
	is(sql($node, 'postgres', q{SELECT dc_get('bad', 'a')}), '17', 'others see its increment meanwhile');
	sql($node, 'postgres', "SELECT pg_cancel_backend($pid)");
	is($session->wait, '', 'cancelled: no error');
	is($session->run(q{SELECT dc_get('bad', 'a')}), '17', 'and it is committed');
	$session->send(q{SELECT dc_incr('bad', 'a', 100)});
	soon($node, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid", 'Extension', 'another one');
	sql($node, 'postgres', "SELECT pg_terminate_backend($pid)");
	eval { $session->wait };
	soon($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", '0', 'can be terminated');
	is(sql($node, 'postgres', q{SELECT dc_get('bad', 'a')}), '117', 'its increment stays');
	sql($node, 'postgres', q{SELECT dc_flush('bad')});
	is(sql($node, 'postgres', q{SELECT dc_get('bad', 'a') || ' ' || in_tables('bad')}), '117 119', 'dc_flush() can do what the worker cannot');
	is(sql($node, 'postgres', q{SELECT dc_alter('bad', durability => 'async'); SELECT dc_incr('bad', 'a', 3); SELECT dc_reset('bad', 'a'), in_tables('bad')}) =~ s/^\n+//r, '120|2', 'so can dc_reset()');
	sql($node, 'postgres', q{SELECT dc_alter('bad', durability => 'sync'), dc_incr('bad', 'a', 0)});
	$session = dc_session($node, 'postgres');
	$session->send(q{SELECT dc_incr('bad', 'a', 117)});
	soon($node, q{SELECT waiting FROM dc_stat_buffer WHERE counter = 'bad'::regclass}, '1', 'a commit waits');
	stuck($node, 'postgres', 'bad', 0);
	is($session->wait, '', 'when the trigger is gone it goes on');
	$session->quit;
	is(sql($node, 'postgres', q{SELECT dc_get('bad', 'a') || ' ' || in_tables('bad')}), '117 119', 'it is flushed, once');
	sql($node, 'postgres', q{SELECT dc_incr('bad', 'a')});
	state_is($node, 'bad', 'a', '118 118', 'and sync commits return');
	no_memory($node, 'entries are freed then');
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
## Without a worker

sub test_without_worker
{
	sql($node, 'postgres', q{SELECT dc_create('synced', mode => 'buffered', durability => 'sync', flush_interval => '1 day'); SELECT dc_incr('c', 'off', 1)});
	state_is($node, 'c', 'off', '1 0', 'with a worker');
	sql($node, 'postgres', 'SELECT dc_worker_stop()');
	soon($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'}, '0', 'no worker');
	state_is($node, 'c', 'off', '1 1', 'it has flushed before it left');
	sql($node, 'postgres', q{SELECT dc_incr('c', 'off', 2), dc_incr('synced', 'off', 3)});
	state_is($node, 'c', 'off', '3 3', 'without it increments go to rows');
	state_is($node, 'synced', 'off', '3 3', 'those of a sync table as well');
	sql($node, 'postgres', q{SELECT dc_flush()});
	is(sql($node, 'postgres', q{SELECT dc_reset('c', 'off'), dc_alter('synced', mode => 'exact'), dc_alter('synced', mode => 'buffered'), dc_sum('synced')}), '3|||3', 'and all else works');
	sql($node, 'postgres', 'SELECT dc_worker_start()');
	worker_runs($node, 'postgres');
	sql($node, 'postgres', q{SELECT dc_incr('c', 'off', 2)});
	state_is($node, 'c', 'off', '2 0', 'a worker again');

	# It comes and goes under load
	my $load = pgbench($node, '-c', 6, '-T', 2, '-M', 'prepared', '-f', file_of('leave.sql', "SELECT dc_incr('c', 'leave');\n"));
	foreach (1 .. 5)
	{
		sql($node, 'postgres', 'SELECT dc_worker_stop()');
		sql($node, 'postgres', 'SELECT dc_worker_start()');
		worker_runs($node, 'postgres');
	}
	sql($node, 'postgres', 'SELECT dc_worker_stop()');
	soon($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker'}, '0', 'no worker any more');
	is(sql($node, 'postgres', q{SELECT coalesce(sum(keys), 0) FROM dc_stat_buffer}), '0', 'it leaves nothing behind, under load');
	my $n = processed($load);
	state_is($node, 'c', 'leave', "$n $n", 'all increments are in rows');
	sql($node, 'postgres', 'SELECT dc_worker_start()');
	return;
}

##
## Memory is full

sub test_full
{
	my $tiny = buffer_node('tiny', "dcounter.buffer_size = '128kB'", "dcounter.compact_interval = '1h'");
	my $fill = q{SELECT count(dc_incr('c', 'key ' || i, i)) FROM generate_series(1, 20000) AS i};

	sql($tiny, 'postgres', q{
		SELECT dc_create('c', mode => 'buffered', flush_interval => '1 day'), dc_create('bad', mode => 'buffered', flush_interval => '1 day');});
	# half full: flushed long before the day is over
	sql($tiny, 'postgres', q{SELECT dc_incr('c', 'few ' || i) FROM generate_series(1, 10) AS i});
	is(sql($tiny, 'postgres', q{SELECT count(*) FROM c}), '0', 'a few keys are not flushed');
	sql($tiny, 'postgres', join(';', map { "SELECT dc_incr('c', 'some $_ ' || i) FROM generate_series(1, 50) AS i" } 1 .. 40));
	soon($tiny, q{SELECT count(*) > 100 FROM c}, 't', 'half full memory is flushed at once');
	is(sql($tiny, 'postgres', q{SELECT dc_sum('c')}), '2010', 'right');
	# one transaction with more than there is room for
	sql($tiny, 'postgres', "$fill; $fill");
	is(sql($tiny, 'postgres', q{SELECT dc_sum('c'), dc_get('c', 'key 1'), dc_get('c', 'key 20000'), (SELECT buffer_full > 0 FROM dc_stat_counters WHERE counter = 'c'::regclass)}),
		'400022010|2|40000|t', 'a transaction that does not fit goes to rows');
	# memory that cannot be flushed
	stuck($tiny, 'postgres', 'bad', 1);
	sql($tiny, 'postgres', q{
		SELECT dc_flush('c');
		DO $$ BEGIN FOR i IN 1 .. 5000 LOOP PERFORM dc_incr('bad', i::text || repeat('x', i % 1000)); COMMIT; END LOOP; END $$;});
	is(sql($tiny, 'postgres', q{SELECT dc_sum('bad'), (SELECT sum(inc) FROM bad_shard) BETWEEN 100 AND 4990}), '5000|t', 'memory is full of what cannot be flushed');
	sql($tiny, 'postgres', q{SELECT dc_incr('c', 'rows')});
	state_is($tiny, 'c', 'rows', '1 1', 'then others write rows');
	sql($tiny, 'postgres', q{SELECT count(dc_incr('bad', i::text || repeat('x', i % 1000), -1)) FROM generate_series(1, 5000) AS i});
	is(sql($tiny, 'postgres', q{SELECT dc_sum('bad'), (SELECT count(*) FROM dc_get_many('bad', ARRAY(SELECT i::text || repeat('x', i % 1000) FROM generate_series(1, 5000) AS i)) WHERE value <> 0)}), '0|0', 'nothing is lost');
	stuck($tiny, 'postgres', 'bad', 0);
	flush($tiny);
	is(sql($tiny, 'postgres', q{SELECT dc_sum('bad'), (SELECT count(*) FROM dc_get_many('bad', ARRAY(SELECT i::text || repeat('x', i % 1000) FROM generate_series(1, 5000) AS i)) WHERE value <> 0)}), '0|0', 'flushed at last');
	no_memory($tiny, 'memory is empty');
	sql($tiny, 'postgres', q{SELECT dc_incr('c', 'memory')});
	state_is($tiny, 'c', 'memory', '1 0', 'then there is room again');

	test_refused($tiny);
	test_leaks($tiny);
	$tiny->stop;
	return;
}

# A transaction with many keys whose reservation fails, and what its session does then:
# nothing of it is left. (A server with AddressSanitizer sees more than wrong counts.)
sub test_refused
{
	my ($tiny) = @_;
	my $many = sub { return "SELECT count(dc_incr('$_[0]', 'key ' || i)) FROM generate_series(1, $_[1]) AS i;" };
	my $great = "SELECT dc_incr('t', 'great', 1::bigint << 41);";
	my %sum = map { $_ => 0 } 't', 'u', 'e';

	sql($tiny, 'postgres', q{SELECT dc_create('t', mode => 'buffered', flush_interval => '1 day'), dc_create('u', mode => 'buffered', flush_interval => '1 day'), dc_create('e')});
	foreach (
		[ 'full memory', $many->('t', 1000), t => 1000 ],
		[ 'a great amount', "BEGIN; " . $many->('t', 40) . " $great COMMIT;", t => 40 + (1 << 41) ],
		[ 'a great amount alone', $great, t => 1 << 41 ],
		[ 'a great amount, beside another table', "BEGIN; " . $many->('t', 40) . $many->('u', 40) . " $great COMMIT;", t => 40 + (1 << 41), u => 40 ],
		[ 'full memory, in two tables', "BEGIN; " . $many->('t', 1000) . $many->('u', 1000) . " COMMIT;", t => 1000, u => 1000 ],
		[ 'an error at commit', "BEGIN; CREATE TEMP TABLE d (i int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO d VALUES (1), (1); " . $many->('t', 40) . " $great COMMIT;" ],
		[ 'PREPARE', "BEGIN; " . $many->('t', 40) . " $great PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p';", t => 40 + (1 << 41) ])
	{
		my ($what, $refused, %adds) = @$_;
		my $session = dc_session($tiny, 'postgres');

		foreach my $next (
			[ 'exact and buffered', "BEGIN; " . $many->('e', 1000) . $many->('t', 300) . " COMMIT;", e => 1000, t => 300 ],
			[ 'buffered', $many->('t', 30), t => 30 ],
			[ 'many tables', "BEGIN; " . $many->('e', 30) . $many->('t', 30) . $many->('u', 30) . " COMMIT;", e => 30, t => 30, u => 30 ],
			[ 'rolled back', "BEGIN; " . $many->('e', 30) . $many->('t', 30) . " ROLLBACK;" ])
		{
			my ($name, $sql, %more) = @$next;

			$session->run($refused);
			$session->run($sql);
			foreach my $counter (keys %sum)
			{
				$sum{$counter} += ($adds{$counter} // 0) + ($more{$counter} // 0);
			}
			is($session->run(q{SELECT dc_sum('t'), dc_sum('u'), dc_sum('e')}), "$sum{t}|$sum{u}|$sum{e}", "$what, then $name");
		}
		$session->quit;
		flush($tiny);
		is(sql($tiny, 'postgres', q{SELECT dc_sum('t'), dc_sum('u'), dc_sum('e')}), "$sum{t}|$sum{u}|$sum{e}", "$what, flushed");
	}
	sql($tiny, 'postgres', q{SELECT dc_drop(c) FROM unnest('{t,u,e}'::regclass[]) AS c});
	return;
}

# What is dropped gives its memory back: each round takes 40 percent of it, so that one
# that leaks leaves too little for the next but one.
sub test_leaks
{
	my ($tiny) = @_;
	my $bytes = sql($tiny, 'postgres', q{SELECT dc_flush(); SELECT dc_incr('c', 'room ' || i) FROM generate_series(1, 50) AS i; SELECT sum(memory) / 50 FROM dc_stat_buffer}) =~ s/^\n+//r;
	my $n = int(0.4 * 128 * 1024 / $bytes);
	my $fill = "SELECT count(dc_incr('t', 'key ' || i)) FROM generate_series(1, $n) AS i;";
	my $create = q{SELECT dc_create('t', mode => 'buffered', flush_interval => '1 day');};
	my $state = q{SELECT keys, (SELECT count(*) FROM t_shard) + (SELECT count(*) FROM t) FROM dc_stat_buffer WHERE counter = 't'::regclass};

	flush($tiny);
	cmp_ok($n, '>', 50, "$n keys for each round");
	foreach (
		[ 'DROP TABLE', 'DROP TABLE t, t_shard' ], [ 'dc_drop()', q{SELECT dc_drop('t')} ], [ 'TRUNCATE', q{TRUNCATE t; SELECT dc_drop('t')} ],
		[ 'DROP after a rollback of it', q{BEGIN; DROP TABLE t, t_shard; ROLLBACK; DROP TABLE t, t_shard} ],
		[ 'a flush', q{SELECT dc_flush('t'); SELECT dc_drop('t')} ], [ 'dc_alter()', q{SELECT dc_alter('t', mode => 'exact'); ALTER TABLE t RENAME TO u; DROP TABLE u; DROP TABLE t_shard} ],
		[ 'DROP SCHEMA', q{CREATE SCHEMA s; ALTER TABLE t SET SCHEMA s; ALTER TABLE s.t_shard SET SCHEMA public; DROP TABLE t_shard; SET client_min_messages = warning; DROP SCHEMA s CASCADE} ],
		[ 'DROP OWNED', q{CREATE ROLE owner; GRANT CREATE ON SCHEMA public TO owner; ALTER TABLE t OWNER TO owner; ALTER TABLE t_shard OWNER TO owner; DROP OWNED BY owner} ],
		[ 'increments of a transaction that drops', qq{BEGIN; $fill DROP TABLE t, t_shard; COMMIT} ])
	{
		sql($tiny, 'postgres', "$create $fill");
		is(sql($tiny, 'postgres', $state), "$n|0", "there is room for what comes before $_->[0]");
		$tiny->psql('postgres', $_->[1]);
	}
	foreach my $round (1 .. 3)
	{
		sql($tiny, 'postgres', 'CREATE DATABASE d');
		sql($tiny, 'd', 'CREATE EXTENSION dcounter');
		worker_runs($tiny, 'd');
		sql($tiny, 'd', "$create $fill");
		is(sql($tiny, 'd', $state), "$n|0", "there is room in database $round");
		stuck($tiny, 'd', 't', 1);
		sql($tiny, 'postgres', 'DROP DATABASE d WITH (FORCE)');
	}
	# Entries of transactions that fail when all is prepared for the commit
	sql($tiny, 'postgres', "$create CREATE TABLE skew (n int); INSERT INTO skew VALUES (0)");
	foreach (1 .. 3)
	{
		my @pair = map { dc_session($tiny, 'postgres') } 1 .. 2;

		$_->run('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(n) FROM skew; INSERT INTO skew VALUES (1)') foreach @pair;
		$_->run($fill) foreach @pair;
		is(join(' ', map { $_->run('COMMIT') } @pair), ' ERROR 40001', 'a serialization failure of increments');
		$_->quit foreach @pair;
		is(sql($tiny, 'postgres', q{SELECT dc_get('t', 'key 1')}), $_, '... counts nothing');
	}
	is(sql($tiny, 'postgres', $state), "$n|0", 'and takes no memory');
	return;
}

##
## Reads are exact while amounts move

my @levels = ('read committed', 'read committed, each', 'repeatable read, each', 'serializable, each');

# under_load(NAME, COUNTER, SECONDS, RESETS, SCRIPT...): clients increment the key "hot" while
# scripts run in loops and readers look
sub under_load
{
	my ($name, $counter, $seconds, $resets, @scripts) = @_;
	my $file = file_of("$name.sql", "SELECT nextval('tried');\nSELECT dc_incr('$counter', 'hot');\nSELECT nextval('told');\n");
	my $before = sql($node, 'postgres', q{SELECT last_value - 1 + is_called::int FROM told});
	my $load = pgbench($node, '-c', 6, '-T', $seconds, '-M', 'prepared', '-f', $file);
	my $n = 0;
	my @others = map { pgbench($node, '-c', 1, '-T', $seconds, '-f', file_of("$name " . ++$n . '.sql', "$_\n")) } @scripts;
	my @readers = read_loops($node, $counter, 'hot', 150 * $seconds, $resets ? [ @levels[ 0, 1 ] ] : \@levels, 'dc_get', 'dc_get_many', 'dc_info', 'dc_sum');
	my $parallel = $resets ? '' : sql($node, 'postgres', qq{
		SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2;
		EXPLAIN (COSTS off) SELECT dc_get('$counter', 'hot') FROM many;
		SELECT count(*) FROM (SELECT v, lag(v) OVER () AS p FROM (SELECT dc_get('$counter', 'hot') AS v FROM many) AS u) AS w WHERE v < p;});

	finish_job($_) foreach @readers, @others;
	is(join('', grep { /ERROR|WARNING/ } map { split /^/, $_->{err} } @readers, @others), '', "$name: reads are exact");
	like($parallel, qr/Gather.*\n0$/s, "$name: also in a parallel query") if !$resets;
	my $processed = processed($load);
	cmp_ok($processed, '>', 50, "$name: there was load ($processed)");
	is(sql($node, 'postgres', qq{SELECT dc_get('$counter', 'hot') + (SELECT sum(n) FROM taken) - last_value, last_value - $before FROM told}), "0|$processed", "$name: all increments are there, once");
	return;
}

# A table that is made exact: an older snapshot does not show what that has flushed
sub old_snapshot
{
	my $reader = dc_session($node, 'postgres');

	sql($node, 'postgres', q{SELECT dc_create('made_exact', mode => 'buffered', flush_interval => '1 day')});
	$reader->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM made_exact');
	sql($node, 'postgres', q{SELECT dc_incr('made_exact', 'k', 5)});
	is($reader->run(q{SELECT dc_get('made_exact', 'k'), dc_sum('made_exact')}), '5|5', 'what is in memory counts in an old snapshot');
	sql($node, 'postgres', q{SELECT dc_alter('made_exact', mode => 'exact')});
	is($reader->run(q{SELECT dc_get('made_exact', 'k'), (dc_info('made_exact', 'k')).value, value, dc_sum('made_exact') FROM dc_get_many('made_exact', '{k, l}') WHERE key = 'k'}),
		'5|5|5|5', 'also when the table is exact by then');
	$reader->run('COMMIT');
	$reader->quit;
	return;
}

sub test_load
{
	my $moves = sub { return sql($node, 'postgres', q{SELECT flushes FROM dc_stat_counters WHERE counter = 'r'::regclass}) };

	sql($node, 'postgres', q{SELECT dc_create('r', mode => 'buffered', flush_interval => '5 ms')});
	my $before = $moves->();
	under_load('flushes', 'r', 2, 0);
	cmp_ok($moves->() - $before, '>', 10, 'there were many flushes');
	old_snapshot();
	under_load('everything', 'r', 3, 1,
		q{INSERT INTO taken SELECT dc_reset('r', 'hot');\sleep 7 ms},
		"BEGIN;\nSELECT dc_reset('r', 'hot');\n\\sleep 5 ms\nROLLBACK;",
		"SELECT dc_flush('r');", "SELECT dc_compact('r');\n\\sleep 3 ms",
		"SELECT dc_alter('r', mode => 'exact');\n\\sleep 30 ms\nSELECT dc_alter('r', mode => 'buffered', durability => 'sync');\n\\sleep 60 ms\nSELECT dc_alter('r', durability => 'async');\n\\sleep 60 ms",
		"BEGIN;\nSELECT dc_alter('r', mode => 'exact');\nROLLBACK;\n\\sleep 25 ms",
		"BEGIN;\nSELECT 1 FROM r WHERE key = 'hot' FOR UPDATE;\n\\sleep 5 ms\nCOMMIT;\n\\sleep 5 ms");
	return;
}

# A reader that is stopped anywhere, while an increment is flushed. If it counts that
# twice, or not at all, the next read shows it. Other keys give it more to do between
# what is in memory and the snapshot.
sub test_stopped
{
	my $writer = dc_session($node, 'postgres');
	my %read = (
		dc_get => q{dc_get('r', 'stop')}, dc_get_many => q{(SELECT value FROM dc_get_many('r', keys) LIMIT 1)}, dc_sum => q{dc_sum('r')});

	sql($node, 'postgres', q{SELECT dc_drop(c) FROM to_regclass('r') AS c WHERE c IS NOT NULL; SELECT dc_create('r', mode => 'buffered', flush_interval => '1 day')});
	foreach my $how (sort keys %read)
	{
		my $reader = dc_session($node, 'postgres');
		my $pid = $reader->run('SELECT pg_backend_pid()');

		$reader->send(qq{DO \$\$ DECLARE v bigint := 0; before bigint := 0; keys text[] := ARRAY(SELECT 'stop' UNION ALL SELECT 'z' || i FROM generate_series(1, 200) AS i); BEGIN
			WHILE v < 1000000 LOOP
				v := $read{$how};
				IF v < before THEN RAISE '% after %', v, before; END IF;
				before := v;
			END LOOP; END \$\$});
		foreach (1 .. torture(250, 3000))
		{
			$writer->run(q{SELECT dc_incr('r', 'stop')} . ($how eq 'dc_sum' ? q{, count(dc_incr('r', 'a' || i)) FROM generate_series(1, 50) AS i} : ''));
			usleep(rand(300));
			kill 'STOP', $pid;
			$writer->send(q{SELECT dc_flush('r')});
			# it may have stopped where the flush has to wait for it
			for (my $ms = 0; $ms < 20 && !$writer->answered; $ms++)
			{
				usleep(1_000);
			}
			kill 'CONT', $pid;
			$writer->wait;
		}
		$writer->run(q{SELECT dc_incr('r', 'stop', 1000000)});
		is($reader->wait, '', "$how is exact wherever a flush comes in between");
		$writer->run(q{SELECT dc_reset('r', 'stop')});
		$reader->quit;
	}
	$writer->quit;
	return;
}

##
## Sync: durable when the commit returns, and many commits share a flush

sub test_sync
{
	sql($node, 'postgres', q{SELECT dc_create('sync', mode => 'buffered', durability => 'sync', flush_interval => '1 day')});
	sql($node, 'postgres', q{SELECT dc_incr('sync', 'a', 3)});
	state_is($node, 'sync', 'a', '3 3', 'a sync commit returns when it is in tables');
	sql($node, 'postgres', q{BEGIN; SELECT dc_incr('sync', 'a', 3), dc_incr('c', 'a'); SAVEPOINT s; SELECT dc_incr('sync', 'a', 10); ROLLBACK TO s; COMMIT});
	state_is($node, 'sync', 'a', '6 6', 'one of several tables');
	my $flushes = sql($node, 'postgres', q{SELECT flushes FROM dc_stat_counters WHERE counter = 'sync'::regclass});
	my $n = processed(pgbench($node, '-c', 20, '-t', 30, '-f', file_of('sync.sql', "SELECT dc_incr('sync', 'hot');\n")));
	state_is($node, 'sync', 'hot', "$n $n", 'many sync commits');
	cmp_ok(sql($node, 'postgres', qq{SELECT flushes - $flushes FROM dc_stat_counters WHERE counter = 'sync'::regclass}), '<', $n / 2, 'share flushes');
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
test_ddl();
test_databases();
test_obstacles();
test_failing();
test_overflow();
test_sync();
test_rights();
test_load();
test_stopped();
test_without_worker();
test_full();

$_->quit foreach values %session;
$node->stop;
done_testing();
