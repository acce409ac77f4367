# The read cache: how old answers may be, what makes them obsolete, who may read,
# waiting for a computation, eviction, and a standby.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $preload = "shared_preload_libraries = 'dcounter'";
my $node = dc_node('main', conf => [ $preload, 'dcounter.worker = off', 'autovacuum = off', "statement_timeout = '60s'" ]);
# as old as can be, and computed now
my ($old, $new) = ("'1 hour'", "'0'");

# get(KEY [, STALENESS [, COUNTER]]): in a session of its own
sub get
{
	my ($key, $staleness, $counter) = @_;

	return sql($node, 'postgres', sprintf(q{SELECT dc_get('%s', '%s', %s)}, $counter // 'c', $key, $staleness // $old));
}

# cached(KEY [, COUNTER]): is it in the cache?
sub cached
{
	my ($key, $counter) = @_;

	return sql($node, 'postgres', sprintf(q{SELECT cache_age IS NOT NULL FROM dc_info('%s', '%s')}, $counter // 'c', $key));
}

# use_of(STATEMENTS [, COUNTER]): hits and misses that they are
sub use_of
{
	my ($sql, $counter) = @_;
	my $see = sprintf(q{SELECT cache_hits, cache_misses FROM dc_stat_counters WHERE counter = '%s'::regclass}, $counter // 'c');
	my ($hits, $misses) = split(/\|/, sql($node, 'postgres', $see));

	sql($node, 'postgres', $sql);
	my ($hits_now, $misses_now) = split(/\|/, sql($node, 'postgres', $see));
	return ($hits_now - $hits) . ' hits, ' . ($misses_now - $misses) . ' misses';
}

# waiting(WHAT, N): waits until N backends do so
sub waiting
{
	my ($what, $n) = @_;

	is(wait_for($node, 'postgres', "SELECT count(*) FROM pg_stat_activity WHERE $what", $n), $n, "$n: $what");
	return;
}

sub test_values
{
	sql($node, 'postgres', q{SELECT dc_create('c'); SELECT dc_incr('c', 'a', 5), dc_incr('c', 7, 2), dc_incr('c', 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, 3);});
	is(cached('a'), 'f', 'what was not asked for is not in the cache');
	is(get('a'), '5', 'a value is computed');
	is(cached('a'), 't', 'and stored');
	sql($node, 'postgres', q{SELECT dc_incr('c', 'a')});
	is(get('a'), '5', 'the stored value is returned');
	is(sql($node, 'postgres', q{SELECT dc_get('c', 'a'), value FROM dc_info('c', 'a')}), '6|6', 'exact reads are exact');
	is(get('a', $new), '6', 'with no staleness it is computed');
	is(get('a'), '6', 'and stored again');
	sql($node, 'postgres', q{SELECT dc_incr('c', 'a'), pg_sleep(0.05)});
	is(get('a', q{'49 ms'}), '7', 'it is computed if it is too old');
	is(sql($node, 'postgres', q{SELECT cache_age BETWEEN '0' AND '10 minutes' FROM dc_info('c', 'a')}), 't', 'its age is shown');
	is(sql($node, 'postgres', q{SELECT pg_sleep(0.05); SELECT cache_age >= '50 ms' FROM dc_info('c', 'a')}), "\nt", 'which grows');

	foreach my $key ('7', q{'7'}, q{'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid}, q{'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'})
	{
		is(sql($node, 'postgres', "SELECT dc_get('c', $key, $old) = dc_get('c', $key)"), 't', "key $key");
	}
	is(use_of(q{SELECT dc_get('c', 7, '1 hour'), dc_get('c', '7', '1 hour')}), '2 hits, 0 misses', 'a number is its text');
	is(use_of(q{SELECT dc_get('c', 'none', '1 hour'); SELECT dc_get('c', 'none', '1 hour'), dc_get('c', '', '1 hour')}), '1 hits, 2 misses',
		'keys that do not exist are stored as well');
	sql($node, 'postgres', q{SELECT dc_incr('c', 'none')});
	is(get('none'), '0', 'and may come to exist meanwhile');
	my $long = 'x' x 1000;
	sql($node, 'postgres', qq{SELECT dc_incr('c', '${long}1', 11), dc_incr('c', '${long}2', 12)});
	is(use_of("SELECT dc_get('c', '${long}1', $old), dc_get('c', '${long}2', $old), dc_get('c', '${long}1', $old)"), '1 hits, 2 misses', 'long keys');
	is(get("$long$_"), 10 + $_, "of long keys that begin alike, number $_") foreach 1, 2;

	is(sql($node, 'postgres', qq{SELECT string_agg(key || '=' || value, ' ') FROM dc_get_many('c', '{m1,a,m1,none,m2}', $old)}),
		'm1=0 a=7 m1=0 none=0 m2=0', 'many keys, in the order asked');
	is(use_of(qq{SELECT count(*) FROM dc_get_many('c', '{m2,a,m3,a,m3}', $old)}), '3 hits, 2 misses', 'some of them found');
	sql($node, 'postgres', q{SELECT dc_incr_many('c', '{m1,m2,m3}')});
	is(sql($node, 'postgres', qq{SELECT string_agg(key || '=' || value, ' ') FROM dc_get_many('c', '{m3,m4,m1}', $old)}), 'm3=0 m4=0 m1=0', 'they are not computed');
	is(sql($node, 'postgres', qq{SELECT string_agg(key || '=' || value, ' ') FROM dc_get_many('c', '{m1,m1,m2}', $new)}), 'm1=1 m1=1 m2=1', 'but now they are');
	is(sql($node, 'postgres', qq{SELECT count(*) FROM dc_get_many('c', '{}', $old)}), '0', 'no keys');
	return;
}

sub test_arguments
{
	fails_with($node, 'postgres', "SELECT dc_get('c', 'a', NULL)", '22004', 'no staleness');
	fails_with($node, 'postgres', "SELECT dc_get('c', 'a', '-1 s')", '22023', 'a negative one');
	fails_with($node, 'postgres', "SELECT dc_get(NULL, 'a', $old)", '22004', 'no counter');
	fails_with($node, 'postgres', "SELECT dc_get('c', NULL::text, $old)", '22004', 'no key');
	fails_with($node, 'postgres', "SELECT dc_get_many('c', NULL, $old)", '22004', 'no keys');
	fails_with($node, 'postgres', "SELECT dc_get_many('c', '{a,NULL}', $old)", '22004', 'one of them NULL');
	fails_with($node, 'postgres', "SELECT dc_get_many('c', ARRAY[repeat('x', 1025)], $old)", '54000', 'a key that is too long');
	fails_with($node, 'postgres', "SELECT dc_get('pg_class', 'a', $old)", '42809', 'not a counter table');
	fails_with($node, 'postgres', "SELECT dc_get(1, 'a', $old)", '42P01', 'no table');
	is(sql($node, 'postgres', "SELECT dc_get('c', 'a', '36500000 days') = dc_get('c', 'a')"), 't', 'staleness without end');
	is(sql($node, 'postgres', 'SHOW dcounter.cache_size'), '8MB', 'the size has a default');
	# what cannot be computed is not stored
	sql($node, 'postgres', q{SELECT dc_incr('c', 'max', 9223372036854775807)});
	sql($node, 'postgres', q{INSERT INTO c_shard (key, shard, inc) VALUES ('max', 1, 1)});
	foreach my $call ("dc_get('c', 'max', $old)", "dc_get_many('c', '{max,fine}', $old)")
	{
		fails_with($node, 'postgres', "SELECT $call", '22003', "$call: out of range") foreach 1, 2;
	}
	sql($node, 'postgres', q{DELETE FROM c_shard WHERE key = 'max' AND shard = 1});
	is(cached('max') . cached('fine'), 'ff', 'and not in the cache');
	is(get('max'), '9223372036854775807', 'until it can be');
	is(get('fine'), '0', 'an error leaves no claim');
	return;
}

# Whoever sets a key makes the cache forget it
sub test_set
{
	my $session = dc_session($node, 'postgres');

	foreach my $set ("dc_set('c', 'a', 100)", "dc_reset('c', 'a')", "dc_set('c', 'a', 50)", "dc_delete('c', 'a')")
	{
		get('a');
		$session->run("BEGIN; SELECT $set");
		is(cached('a'), 't', "$set: it stays until the commit");
		$session->run('COMMIT');
		is(get('a'), sql($node, 'postgres', "SELECT dc_get('c', 'a')"), 'and is forgotten then');
	}
	get('a');
	$session->run(q{BEGIN; SELECT dc_set('c', 'a', 100); ROLLBACK});
	is(cached('a'), 't', 'it stays if that is rolled back');
	$session->run(q{BEGIN; SAVEPOINT s; SELECT dc_set('c', 'a', 3); RELEASE s; SAVEPOINT t; SELECT dc_set('c', 'none', 4); ROLLBACK TO t; COMMIT});
	is(get('a') . ' ' . get('none', $new), '3 1', 'savepoints');
	get('b');
	$session->run(q{SELECT dc_set('c', 'b', 1)});
	is(get('b') . ' ' . get('a'), '1 3', 'one key is forgotten');
	is(cached('a'), 't', 'and not the others');

	sql($node, 'postgres', qq{SELECT count(*) FROM dc_get_many('c', ARRAY(SELECT 'k' || i FROM generate_series(1, 1200) i), $old)});
	is(use_of(q{BEGIN; SELECT count(dc_set('c', 'k' || i, i)) FROM generate_series(1, 1000) i; COMMIT}) . ' ' . cached('a'), '0 hits, 0 misses t', 'many keys are set');
	is(sql($node, 'postgres', qq{SELECT count(*) FROM generate_series(1, 1200) i WHERE dc_get('c', 'k' || i, $old) = CASE WHEN i <= 1000 THEN i ELSE 0 END}), '1200', 'all of them are forgotten');
	sql($node, 'postgres', q{BEGIN; SELECT count(dc_set('c', 'k' || i, i + 1)) FROM generate_series(1, 1200) i; COMMIT});
	is(sql($node, 'postgres', qq{SELECT count(*) FROM generate_series(1, 1200) i WHERE dc_get('c', 'k' || i, $old) = i + 1}), '1200', 'and more than can be remembered');

	get('a');
	sql($node, 'postgres', q{BEGIN; SELECT dc_set('c', 'a', 33); PREPARE TRANSACTION 'x'});
	is(cached('a'), 'f', 'a prepared transaction makes it forget when it is prepared');
	sql($node, 'postgres', q{COMMIT PREPARED 'x'});
	is(get('a'), '33', 'and counts when it is committed');
	$session->quit;
	return;
}

# What a transaction sees, and what others see of it
sub test_transactions
{
	my $session = dc_session($node, 'postgres');

	sql($node, 'postgres', q{SELECT dc_set('c', 'a', 10), dc_set('c', 'b', 20)});
	get('a');
	$session->run("BEGIN; SELECT dc_incr('c', 'a')");
	is($session->run("SELECT dc_get('c', 'a', $old)"), '11', 'own increments are seen');
	is($session->run("SELECT string_agg(key || '=' || value, ' ') FROM dc_get_many('c', '{a,b}', $old)"), 'a=11 b=20', 'also by dc_get_many()');
	is(get('a') . ' ' . get('a', $new), '10 10', 'by nobody else');
	$session->run(q{SAVEPOINT s; SELECT dc_incr('c', 'a'); SELECT dc_apply()});
	is($session->run("SELECT dc_get('c', 'a', $old), dc_get('c', 'a', $new)"), '12|12', 'and when they are written');
	$session->run('ROLLBACK TO s');
	is($session->run("SELECT dc_get('c', 'a', $old)"), '11', 'a savepoint');
	$session->run('ROLLBACK');
	is(get('a') . ' ' . get('b'), '10 20', 'nothing of it was stored');
	$session->run("BEGIN; SELECT dc_set('c', 'b', 1)");
	is($session->run("SELECT dc_get('c', 'b', $old), dc_get('c', 'none', $new)"), '1|1', 'what was set is seen');
	is(get('b', $new), '20', 'by nobody else');
	$session->run('ROLLBACK');
	is(get('b'), '20', 'it was not stored');
	is(use_of("BEGIN; SELECT dc_incr('c', 'other', 0); CREATE TABLE t (); SELECT dc_get('c', 'a', $old), dc_get('c', 'new1', $old); ROLLBACK"), '0 hits, 0 misses', 'a transaction that writes something');
	is(use_of("BEGIN; SELECT dc_incr('c', 'x'); SELECT dc_get('c', 'a', $old), dc_get('c', 'x', $old); ROLLBACK"), '1 hits, 1 misses', 'one that has increments of another key');

	foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
	{
		$session->run("BEGIN ISOLATION LEVEL $level; SELECT dc_get('c', 'a')");
		sql($node, 'postgres', q{SELECT dc_incr('c', 'a'), dc_incr('c', 'b')});
		my $now = get('a', $new);
		is($session->run("SELECT dc_get('c', 'a', $old), dc_get('c', 'b', $new)"), $now - 1 . '|' . ($now + 9), "$level: the value in the snapshot");
		is($session->run("SELECT sum(value) FROM dc_get_many('c', '{a,b}', $old)"), $now * 2 + 8, 'of many keys');
		$session->run('COMMIT');
		is(get('a') . ' ' . get('b', $new), "$now " . ($now + 10), 'which is not stored');
	}
	# a statement that began before
	my $locker = dc_session($node, 'postgres');
	$locker->run(q{SELECT pg_advisory_lock(1)});
	$session->send("SELECT dc_get('c', 'b', $new); SELECT pg_advisory_lock(1) IS NULL, dc_get('c', 'a', $new) - dc_get('c', 'a')");
	waiting("wait_event = 'advisory'", 1);
	sql($node, 'postgres', q{SELECT dc_incr('c', 'a')});
	$locker->quit;
	like($session->wait, qr/^\d+\nf\|1$/, 'a statement with an older snapshot computes in a new one');

	# during a parallel query
	sql($node, 'postgres', q{CREATE TABLE big AS SELECT i FROM generate_series(1, 10000) i; ANALYZE big});
	my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;';
	my $query = "SELECT dc_get('c', 'par' || max(i) % 3, $old) FROM big";
	like(sql($node, 'postgres', "$parallel EXPLAIN $query"), qr/Gather/, 'a parallel query');
	is(sql($node, 'postgres', "$parallel $query"), '0', 'may compute a value');
	is(sql($node, 'postgres', "SELECT dc_get('c', 'par1', $old); $parallel $query"), "0\n0", 'and find one');
	sql($node, 'postgres', qq{CREATE FUNCTION hidden(text) RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS \$\$BEGIN RETURN dc_get('c', \$1, $old); END\$\$});
	fails_with($node, 'postgres', "$parallel SET parallel_leader_participation = off; SELECT sum(hidden('a')) FROM big WHERE i < 100", '25000', 'a parallel worker may not');
	$session->quit;
	return;
}

# Each session remembers what it may read
sub test_rights
{
	my $session = dc_session($node, 'postgres');
	my $read = "SELECT dc_get('c', 'a', $old)";
	my $value = get('a');

	sql($node, 'postgres', q{CREATE ROLE r; CREATE ROLE grp; GRANT SELECT ON c TO r});
	$session->run('SET ROLE r');
	is($session->run($read), $value, 'who may read');
	sql($node, 'postgres', 'REVOKE SELECT ON c FROM r');
	is($session->run($read), 'ERROR 42501', 'and may no more');
	is($session->run("SELECT dc_get_many('c', '{a}', $old)"), 'ERROR 42501', 'many keys');
	sql($node, 'postgres', 'GRANT SELECT ON c TO grp; GRANT grp TO r');
	is($session->run($read), $value, 'a member of a group');
	sql($node, 'postgres', 'REVOKE grp FROM r');
	is($session->run($read), 'ERROR 42501', 'and not any more');
	is($session->run("RESET ROLE; $read"), $value, 'another role in the same session');
	is($session->run("SET ROLE r; $read"), 'ERROR 42501', 'and back');
	is($session->run("RESET ROLE; BEGIN; $read; SET LOCAL ROLE r; $read"), 'ERROR 42501', 'in one transaction');
	$session->run('ROLLBACK');
	sql($node, 'postgres', 'ALTER ROLE r SUPERUSER');
	is($session->run("SET ROLE r; $read"), $value, 'a superuser');
	sql($node, 'postgres', 'ALTER ROLE r NOSUPERUSER');
	is($session->run($read), 'ERROR 42501', 'and not any more');
	$session->run('RESET ROLE');
	is($session->run($read), $value, 'the owner');
	sql($node, 'postgres', 'ALTER TABLE c ENABLE ROW LEVEL SECURITY');
	is($session->run($read), 'ERROR 0A000', 'no row-level security');
	sql($node, 'postgres', 'ALTER TABLE c DISABLE ROW LEVEL SECURITY');
	is($session->run($read), $value, 'again without');
	$session->quit;
	return;
}

# Tables that are not what they were
sub test_tables
{
	my $session = dc_session($node, 'postgres');
	my $read = "SELECT dc_get('d', 'a', $old)";

	foreach my $options ('', ', partitions => 3')
	{
		sql($node, 'postgres', qq{SELECT dc_create('d'$options); SELECT dc_incr('d', 'a', 5)});
		is($session->run($read), '5', "a table$options");
		sql($node, 'postgres', q{TRUNCATE d, d_shard});
		is($session->run($read), '0', 'truncated');
		$session->run("BEGIN; TRUNCATE d, d_shard; ROLLBACK");
		sql($node, 'postgres', q{SELECT dc_incr('d', 'a', 6)});
		is($session->run($read), '0', 'truncated, and rolled back');
		is(sql($node, 'postgres', qq{BEGIN; SELECT dc_incr('d', 'a', 7); TRUNCATE d, d_shard; $read; COMMIT}), "\n0", 'truncated in the same transaction');
		sql($node, 'postgres', q{DROP TABLE d});
		is($session->run($read), 'ERROR 42P01', 'dropped');
		sql($node, 'postgres', qq{SELECT dc_create('d'$options)});
		is($session->run($read), '0', 'and created again');
		sql($node, 'postgres', q{SELECT dc_drop('d')});
	}
	sql($node, 'postgres', q{SELECT dc_create('d'); SELECT dc_incr('d', 'a', 7)});
	is($session->run($read), '7', 'a table');
	sql($node, 'postgres', q{ALTER TABLE d RENAME TO e});
	is($session->run($read), 'ERROR 42P01', 'renamed');
	is($session->run("SELECT dc_get('e', 'a', $old)"), '7', 'to be found there');
	sql($node, 'postgres', q{SELECT dc_create('d'); SELECT dc_incr('d', 'a', 8)});
	is($session->run($read), '8', 'its name for another one');
	is($session->run("BEGIN; SELECT dc_get('e', 'a', $old); ROLLBACK"), '7', 'which is another one');
	sql($node, 'postgres', q{SELECT dc_drop('d'), dc_drop('e')});
	# an OID that is used again, by force
	sql($node, 'postgres', q{
		SELECT dc_create('d'); SELECT dc_incr('d', 'a', 5);
		SELECT dc_create('e'); SELECT dc_incr('e', 'a', 6); SELECT dc_compact();});
	is($session->run("SELECT dc_get('d', 'a', $old), dc_get('e', 'a', $old)"), '5|6', 'two tables');
	sql($node, 'postgres', q{
		SET allow_system_table_mods = on;
		UPDATE pg_class c SET relfilenode = o.relfilenode FROM pg_class o
		WHERE c.relname IN ('d', 'e') AND o.relname IN ('d', 'e') AND c.relname <> o.relname;});
	is($session->run("SELECT dc_get('d', 'a', $old)"), '6', 'that change places');
	sql($node, 'postgres', q{
		SET allow_system_table_mods = on;
		UPDATE pg_class c SET relfilenode = o.relfilenode FROM pg_class o
		WHERE c.relname IN ('d', 'e') AND o.relname IN ('d', 'e') AND c.relname <> o.relname;
		DROP TABLE d, e;});
	$session->quit;
	return;
}

# stopped(PID): a process that does not continue until the end of the block
{
	package Stopped;
	sub new { my ($class, $pid) = @_; kill('STOP', $pid) == 1 or die "kill: $!"; return bless { pid => $pid }, $class; }
	sub go_on { my ($self) = @_; kill('CONT', delete $self->{pid}) if $self->{pid}; return; }
	sub DESTROY { my ($self) = @_; local ($?, $!); $self->go_on; return; }
}

# A computation that began before a key was set is not stored. Whoever computes it is
# stopped between its snapshot and its reading: by a lock on the partitions, and
# then by a signal.
sub test_obsolete
{
	my $filler = dc_session($node, 'postgres');
	my $locker = dc_session($node, 'postgres');
	my $pid = $filler->run('SELECT pg_backend_pid()');
	my $lock = 'BEGIN; ' . sql($node, 'postgres', q{SELECT dc_create('p', partitions => 2);
		SELECT string_agg(format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', inhrelid::regclass), ';' ORDER BY inhrelid) FROM pg_inherits WHERE inhparent = 'p'::regclass}) =~ s/^p\n//r;
	my %sets = ('a key' => q{SELECT dc_set('p', 'a', 100)},
		'many keys' => q{SELECT count(dc_set('p', 'k' || i, i)), min(dc_set('p', 'a', 100)) FROM generate_series(1, 1500) i},
		'a key, and a rollback' => q{BEGIN; SELECT dc_set('p', 'a', 100); ROLLBACK});

	sql($node, 'postgres', q{SELECT dc_incr('p', 'a', 5), dc_incr('p', 'b', 6)});
	$filler->run("SELECT dc_get('p', 'warm', $new)");
	foreach my $set (sort keys %sets)
	{
		sql($node, 'postgres', q{SELECT dc_set('p', 'a', 5)});
		$locker->run($lock);
		$filler->send("SELECT dc_get('p', 'a', $old), count(*), max(value) FROM dc_get_many('p', '{a,b}', $old)");
		waiting("pid = $pid AND wait_event_type = 'Lock'", 1);
		my $stopped = Stopped->new($pid);
		$locker->run('COMMIT');
		sql($node, 'postgres', $sets{$set});
		$stopped->go_on;
		like($filler->wait, qr/^(5|100)\|2\|\d+$/, "$set: a computation that began before");
		my $value = sql($node, 'postgres', q{SELECT dc_get('p', 'a')});
		is(get('a', $old, 'p'), $value, "it is not found by those that come later: $value");
	}
	is(get('b', $old, 'p'), '6', 'other keys');
	$_->quit foreach $filler, $locker;
	return;
}

# A session that waits for one that waits for it computes the value itself
sub test_deadlock
{
	my @session = map { dc_session($node, 'postgres') } 1 .. 3;
	my $lock = 'BEGIN; ' . sql($node, 'postgres', q{
		SELECT string_agg(format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', inhrelid::regclass), ';' ORDER BY inhrelid) FROM pg_inherits WHERE inhparent = 'p'::regclass});

	$_->run("SELECT dc_get('p', 'warm', $new)") foreach @session;
	sql($node, 'postgres', q{SELECT dc_set('p', 'a', 7)});
	$session[0]->run($lock);
	is($session[0]->run('SELECT pg_current_xact_id_if_assigned() IS NULL'), 't', 'a lock that needs no transaction id');
	$session[1]->send("SELECT dc_get('p', 'a', $old)");
	waiting("wait_event_type = 'Lock'", 1);
	is($session[0]->run("SELECT dc_get('p', 'a', $old)"), '7', 'one that is being waited for does not wait for long');
	$session[2]->send("SELECT string_agg(key || '=' || value, ' ') FROM dc_get_many('p', '{a,b,a}', $old)");
	waiting("wait_event_type = 'Lock'", 2);
	$session[0]->run('COMMIT');
	is($session[1]->wait, '7', 'the one goes on');
	is($session[2]->wait, 'a=7 b=6 a=7', 'and the other one');
	is(cached('a', 'p') . cached('b', 'p'), 'tt', 'what they found is there');
	$_->quit foreach @session;
	return;
}

# Of many sessions that need a value, one computes it. It is kept busy by a lock in
# another database, where its table is.
sub test_one_computes
{
	my $remote = q{backend_type = 'client backend' AND datname = 'remote' AND wait_event_type = 'Lock'};
	my $host = $node->host;
	my $port = $node->port;
	my $columns = q{key text COLLATE "C" NOT NULL, inc bigint NOT NULL DEFAULT 0, dec bigint NOT NULL DEFAULT 0, updated_at timestamptz NOT NULL DEFAULT now()};

	sql($node, 'postgres', 'CREATE DATABASE remote TEMPLATE template0');
	sql($node, 'remote', qq{
		CREATE TABLE f ($columns, value bigint GENERATED ALWAYS AS (inc - dec) STORED, PRIMARY KEY (key));
		CREATE TABLE f_shard ($columns, shard int NOT NULL, PRIMARY KEY (key, shard))});
	sql($node, 'postgres', qq{
		CREATE EXTENSION postgres_fdw;
		CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'remote');
		CREATE USER MAPPING FOR CURRENT_USER SERVER s;
		CREATE FOREIGN TABLE f ($columns, value bigint GENERATED ALWAYS AS (inc - dec) STORED) SERVER s;
		CREATE FOREIGN TABLE f_shard ($columns, shard int NOT NULL) SERVER s;
		SELECT dc_adopt('f'); SELECT dc_incr('f', 'a', 5)});
	my @session = map { dc_session($node, 'postgres') } 1 .. 8;
	my @pid = map { $_->run('SELECT pg_backend_pid()') } @session;
	my $pids = join(', ', @pid);
	my $locker = dc_session($node, 'remote');
	my $misses = q{SELECT cache_misses FROM dc_stat_counters WHERE counter = 'f'::regclass};

	$_->run(q{SET postgres_fdw.application_name = 'fdw %p'; SELECT dc_get('f', 'warm', '0')}) foreach @session;
	my $before = sql($node, 'postgres', $misses);
	$locker->run('BEGIN; LOCK TABLE f_shard IN ACCESS EXCLUSIVE MODE');
	$session[0]->send("SELECT dc_get('f', 'a', $old)");
	waiting($remote, 1);
	$session[$_]->send("SELECT dc_get('f', 'a', $old)") foreach 1 .. 4;
	$session[$_]->send("SELECT value FROM dc_get_many('f', '{a}', $old)") foreach 5 .. 7;
	waiting("pid IN ($pids) AND wait_event_type = 'Extension'", 8);
	waiting($remote, 1);

	sql($node, 'postgres', "SELECT pg_cancel_backend($pid[$_])") foreach 4, 7;
	is($session[$_]->wait, 'ERROR 57014', 'waiting can be cancelled') foreach 4, 7;
	# Of those who compute, one is cancelled, and one ends. Each time another follows.
	sql($node, 'postgres', "SELECT pg_cancel_backend($pid[0])");
	is($session[0]->wait, 'ERROR 57014', 'computing can be cancelled');
	waiting("$remote AND application_name <> 'fdw $pid[0]'", 1);
	my ($second) = sql($node, 'postgres', "SELECT application_name FROM pg_stat_activity WHERE $remote AND application_name <> 'fdw $pid[0]'") =~ /(\d+)/;
	my @rest = grep { $pid[$_] != $second } 1, 2, 3, 5, 6;
	is(@rest, 4, 'another one computes');
	sql($node, 'postgres', "SELECT pg_terminate_backend($second)");
	waiting("$remote AND application_name NOT IN ('fdw $pid[0]', 'fdw $second')", 1);
	$locker->run('COMMIT');
	is(join(' ', map { $session[$_]->wait } @rest), '5 5 5 5', 'all have the value');
	is(sql($node, 'postgres', $misses) - $before, 8, 'nobody had found it');
	is(use_of("SELECT dc_get('f', 'a', $old)", 'f'), '1 hits, 0 misses', 'it is stored');
	$session[$_]->quit foreach @rest;
	$locker->quit;
	return;
}

# What is written to another server needs no transaction id here, and there the
# transaction has one snapshot.
sub test_foreign
{
	my $session = dc_session($node, 'postgres');

	is($session->run("BEGIN; SELECT dc_set('f', 'a', 50); SELECT dc_get('f', 'a', $old), dc_get('f', 'a', $new)"), "5\n50|50", 'a transaction sees what it has set');
	is($session->run("SELECT value FROM dc_get_many('f', '{a}', $new)"), '50', 'also one of many keys');
	is(get('a', $old, 'f'), '5', 'nobody else does');
	$session->run('ROLLBACK');
	is(get('a', $old, 'f'), '5', 'nor later');
	is($session->run("BEGIN; UPDATE f_shard SET inc = 50 WHERE key = 'a'; SELECT dc_get('f', 'a', $new)"), '50', 'by plain SQL');
	$session->run('ROLLBACK');
	is(get('a', $old, 'f'), '5', 'the same');

	is($session->run("BEGIN; SELECT dc_get('f', 'none')"), '0', 'a transaction with a snapshot there');
	sql($node, 'postgres', q{SELECT dc_set('f', 'a', 60)});
	is($session->run("SELECT dc_get('f', 'a', $old)"), '5', 'in which it computes');
	is(get('a', $old, 'f'), '60', 'and which it does not store');
	$session->run('COMMIT');
	is($session->run("SELECT dc_get('f', 'a', $old)"), '60', 'the next transaction finds what was stored');
	sql($node, 'postgres', q{SELECT dc_incr('f', 'a')});
	$session->run("BEGIN; SELECT dc_get('f', 'none')");
	sql($node, 'postgres', q{SELECT pg_sleep(0.05), dc_incr('f', 'a')});
	is($session->run("SELECT dc_get('f', 'a', '1 us')"), '61', 'a value of that snapshot');
	is(sql($node, 'postgres', q{SELECT cache_age >= '50 ms' FROM dc_info('f', 'a')}), 't', 'is as old as the transaction');
	$session->run('COMMIT');
	$session->quit;
	return;
}

# Each value with no staleness has all that was committed before the call, though
# many sessions share a computation
sub test_no_staleness
{
	my $script = file_of('increments.sql', q{
		SELECT dc_incr('c', 'hot');
		SELECT dc_get('c', 'hot', '0') AS v \gset
		\if :v <= :last
		SELECT 1 / 0;
		\endif
		\set last :v
	});
	my $runs = torture(200, 5000);

	sql($node, 'postgres', q{SELECT dc_set('c', 'hot', 0)});
	command_ok([ 'pgbench', '-n', '-c', 8, '-j', 2, '-t', $runs, '-D', 'last=0', '-f', $script, $node->connstr('postgres') ], 'increments and reads');
	is(get('hot', $new), 8 * $runs, 'the sum');
	return;
}

# Less memory than values
sub test_eviction
{
	my $small = dc_node('small', conf => [ $preload, 'dcounter.worker = off', 'dcounter.cache_size = 64kB' ]);
	my $evictions = q{SELECT cache_evictions > 1000 FROM dc_stat_counters};

	sql($small, 'postgres', q{
		SELECT dc_create('c');
		SELECT dc_incr_many('c', array_agg('k' || i), array_agg(i)) FROM generate_series(1, 3000) i;
		SELECT dc_incr('c', 'hot', 1);});
	is(sql($small, 'postgres', "SELECT dc_get('c', 'hot', $old); SELECT dc_get('c', 'hot', $old); SELECT dc_incr('c', 'hot')"), "1\n1\n", 'a value');
	is(sql($small, 'postgres', "SELECT count(*) FROM generate_series(1, 3000) i WHERE dc_get('c', 'k' || i, $old) = i AND (i % 50 <> 0 OR dc_get('c', 'hot', $old) = 1)"), '3000',
		'many keys are right; what is used again and again stays');
	is(sql($small, 'postgres', $evictions), 't', 'others go');
	is(sql($small, 'postgres', "SELECT sum(dc_get('c', 'k' || i, $old)) FROM generate_series(1, 3000) i"), 3000 * 3001 / 2, 'again');
	is(sql($small, 'postgres', "SELECT sum(value) FROM dc_get_many('c', ARRAY(SELECT 'k' || i FROM generate_series(1, 3000) i), $old)"), 3000 * 3001 / 2, 'at once');
	is(sql($small, 'postgres', "SELECT count(*) FROM generate_series(1, 300) i WHERE dc_get('c', repeat('x', 1000) || i, $old) = 0"), '300', 'long keys');
	is(sql($small, 'postgres', "SELECT sum(dc_get('c', 'k' || i, $old)) FROM generate_series(1, 3000) i"), 3000 * 3001 / 2, 'short ones again');
	# another table's keys are in the way, and go
	sql($small, 'postgres', q{SELECT dc_create('d'), dc_create('e', mode => 'buffered'); SELECT dc_incr('d', 'a')});
	is(sql($small, 'postgres', "SELECT dc_get('d', 'a', $old); SELECT dc_get('d', 'a', $old); SELECT dc_drop('c'); SELECT dc_get('d', 'a', $old)"), "1\n1\n\n1", 'of a dropped table');
	$small->stop;
	return;
}

# A standby has a cache of its own, and is not notified of what was set.
sub test_standby
{
	my $primary = dc_node('primary', init => { allows_streaming => 1 }, conf => [ $preload, 'dcounter.worker = off', 'autovacuum = off' ]);
	my $standby = PostgreSQL::Test::Cluster->new('standby');

	sql($primary, 'postgres', q{
		CREATE ROLE r;
		SELECT dc_create('c'), dc_create('p', partitions => 2), dc_create('gone'); GRANT SELECT ON c TO r;
		SELECT dc_incr('c', 'a', 5), dc_incr('p', 'a', 6), dc_incr('gone', 'a')});
	$primary->backup('base');
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	my $session = dc_session($standby, 'postgres');
	my $do = sub {
		sql($primary, 'postgres', $_[0]);
		$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	};
	my $read = "SELECT dc_get('c', 'a', $old)";

	is($session->run($read), '5', 'a standby');
	$do->(q{SELECT dc_incr('c', 'a')});
	is($session->run("$read; SELECT dc_get('c', 'a')"), "5\n6", 'has a cache');
	is($session->run("SELECT dc_get('c', 'a', $new); $read"), "6\n6", 'and reads what was replayed');
	is($session->run(q{SELECT cache_hits, cache_misses FROM dc_stat_counters WHERE counter = 'c'::regclass}), '2|2', 'it counts that');
	$do->(q{SELECT dc_set('c', 'a', 100)});
	is($session->run("SELECT pg_sleep(0.05); SELECT dc_get('c', 'a', '49 ms')"), "\n100", 'the staleness bounds how long a set key is not noticed');
	$do->(q{TRUNCATE c, c_shard});
	is($session->run($read), '0', 'a table that is truncated is');
	is($session->run("SELECT dc_get('p', 'a', $old)"), '6', 'a partitioned table');
	$do->(q{TRUNCATE p, p_shard});
	is($session->run("SELECT dc_get('p', 'a', $old)"), '0', 'and this');
	is($session->run("SET ROLE r; $read"), '0', 'a role that may read');
	$do->(q{REVOKE SELECT ON c FROM r});
	is($session->run($read), 'ERROR 42501', 'and may no more');
	$session->run('RESET ROLE');
	is($session->run("SELECT dc_get('gone', 'a', $old)"), '1', 'a table');
	$do->(q{SELECT dc_drop('gone'); SELECT dc_create('gone')});
	is($session->run("SELECT dc_get('gone', 'a', $old)"), '0', 'dropped, and created again');
	$standby->promote;
	is($session->run("$read; SELECT dc_set('c', 'a', 9); $read"), "0\n0\n9", 'it goes on when it is promoted');
	$session->quit;
	return;
}

test_values();
test_arguments();
test_set();
test_transactions();
test_rights();
test_tables();
test_obsolete();
test_deadlock();
test_one_computes();
test_foreign();
test_no_staleness();
$node->stop;
test_eviction();
test_standby();
done_testing();
