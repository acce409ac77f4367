# Buffered counters whose tables change while amounts are in memory: TRUNCATE, DROP, other
# names, owners and modes, databases, and the extension.
use strict;
use warnings;

use DcBuffer;
use DcSteps;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = buffer_node('main', 'max_connections = 100', "dcounter.buffer_size = '8MB'", "dcounter.compact_interval = '1h'");
my $session = dc_session($node, 'postgres');

in_tables($node);
sql($node, 'postgres', q{CREATE ROLE alice; CREATE SCHEMA alice AUTHORIZATION alice});

##
## TRUNCATE, DROP, rename

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

	is(play($node, \%steps, 'x:create x:b x:incr y:truncate& x:c y: y:get'), 'fresh 0', 'TRUNCATE waits for the first increment of a table, and takes it');
	# A partition: a transaction that has counted in the table reads it, and sets a key, before it commits.
	$steps{parted} = q{SELECT dc_create('parted', partitions => 2, mode => 'buffered', flush_interval => '1 day')};
	$steps{add} = q{SELECT dc_incr('parted', i::text, 10) FROM generate_series(1, 8) AS i};
	$steps{sum} = q{SELECT sum(value) FROM dc_get_many('parted', (SELECT array_agg(i::text) FROM generate_series(1, 8) AS i))};
	$steps{set} = q{SELECT dc_set('parted', i::text, 5) FROM generate_series(1, 8) AS i};
	$steps{part} = 'TRUNCATE parted_p0';
	$steps{left} = q{SELECT bool_and(satisfies_hash_partition('parted'::regclass, 2, 0, i::text COLLATE "C") = (dc_get('parted', i::text) = 0))
		FROM generate_series(1, 8) AS i};
	$steps{gone} = 'DROP TABLE parted';
	play($node, \%steps, 'x:parted x:add');
	foreach my $then ('sum', 'set', 'add')
	{
		play($node, \%steps, 'x:b x:add y:part&');
		waits($node, 'y');
		unlike(play($node, \%steps, "x:$then x:c y:"), qr/ERROR|deadlock/, "TRUNCATE of a partition waits for who has counted, and lets him go on: $then");
	}
	is(play($node, \%steps, 'x:left'), 't', 'TRUNCATE of a partition takes what is in it, and no more');
	play($node, \%steps, 'x:gone');
	is(play($node, \%steps, 'x:two x:incr x:b x:swap y:b y:only& x:c y: y:lock y:c y:old y:get x:drop'), 'two 7 0', 'TRUNCATE waits, and truncates another table: what is locked later is not truncated');
}

# Tables that are dropped while a command waits for them
sub dropped_meanwhile
{
	my %steps = (
		b => 'BEGIN', c => 'COMMIT', alice => 'SET ROLE alice',
		create => q{SELECT dc_create('alice.gone', partitions => 2, mode => 'buffered', flush_interval => '1 day')},
		incr => q{SELECT dc_incr('alice.gone', i::text, 1) FROM generate_series(1, 8) AS i},
		lock => 'LOCK TABLE alice.gone_p0 IN SHARE MODE',
		part => 'DROP TABLE alice.gone_p0',
		all => 'SET client_min_messages = warning; DROP TABLE alice.gone',
		truncate => 'TRUNCATE alice.gone_p0',
		index => 'CREATE INDEX CONCURRENTLY ON alice.gone_p1 (updated_at)',
		reset => 'RESET ROLE');

	play($node, \%steps, 'x:alice y:alice x:create y:incr x:b x:lock y:truncate&');
	waits($node, 'y');
	like(play($node, \%steps, 'x:part x:c y:'), qr/^ERROR 42P01\b/, 'TRUNCATE waits for a partition, which is dropped');
	play($node, \%steps, 'x:b x:all y:index&');
	waits($node, 'y');
	like(play($node, \%steps, 'x:c y:'), qr/^ERROR 42P01\b/, 'CREATE INDEX waits for a table, which is dropped');
	play($node, \%steps, 'x:reset y:reset');
	return;
}

# changed(NAME, STATEMENTS, EXPECTED [, TABLE [, SQLSTATE]]): a new table "t" with 5 in memory
# for key "a"; its value after statements, and once more after a flush
sub changed
{
	my ($name, $statements, $expected, $table, $state) = @_;

	$table //= 't';
	query($node, q{SET client_min_messages = warning; DROP TABLE IF EXISTS t, t_shard, u, u_shard, alice.t, alice.t_shard;
		SELECT dc_create('t', mode => 'buffered', flush_interval => '1 day');
		SELECT dc_incr('t', 'a', 5)});
	my $out = $session->run("SET client_min_messages = warning; $statements");
	is($out =~ /ERROR (\w{5})/ ? $1 : '', $state // '', "$name: " . ($state ? 'an error' : 'no error'));
	$session->run('ROLLBACK') if $state;
	is(query($node, "SELECT dc_get('$table', 'a')"), $expected, $name);
	is(query($node, "SELECT dc_flush(); SELECT dc_get('$table', 'a')") =~ s/^\n//r, $expected, "$name, and after a flush");
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
	dropped_meanwhile();
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
	sql($node, 'postgres', q{SELECT dc_drop('t'); SELECT dc_create('parts', partitions => 3, mode => 'buffered', flush_interval => '1 day'); SELECT dc_incr('parts', i, i) FROM generate_series(1, 20) AS i});
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
	worker_begins($node, 'd');
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
	worker_begins($node, 'd');
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

test_ddl();
test_databases();

$session->quit;
end_sessions();
$node->stop;
done_testing();
