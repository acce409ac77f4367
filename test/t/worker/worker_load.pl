# The background worker under load. Every transaction that counts also writes what
# it counts into an audit table; so in each snapshot, whatever the worker moves
# meanwhile, the exact values are those of the audit, and so are the totals once
# the load has ended. Then what others lock, what DDL does, and kill -9.
use strict;
use warnings;

use DcTest;
use DcWorker 'step_failures';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = torture(3, 60);
my $rounds = torture(3, 50);
my @tables = ('c', 'p', 'i', 'g', 'inbox');

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $node = dc_node('worker', conf => [
		"shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '100ms'",
		'autovacuum_naptime = 1s', 'deadlock_timeout = 100ms', 'restart_after_crash = on' ]);

# Of different kinds; "g" only grows
sql($node, 'postgres', q{
	SELECT dc_create('c', max_shards => 3), dc_create('p', 'backend', 4, 3), dc_create('i'), dc_create('g'), dc_create('inbox'), dc_create('free');
	CREATE INDEX ON i (value);
	CREATE INDEX ON i_shard (updated_at);
	CREATE TABLE audit (t text, key text, delta bigint, client int, number int);
	CREATE INDEX ON audit (t, key);
	CREATE TABLE taken (key text, value bigint);

	-- The exact values of a counter table, as doc/counters.md has it
	CREATE FUNCTION by_sql(tab text) RETURNS TABLE (key text, value numeric) LANGUAGE plpgsql STABLE AS $$
	BEGIN
		RETURN QUERY EXECUTE format('SELECT u.key, sum(inc) - sum(dec) AS value
			FROM (SELECT key, inc, dec FROM %1$I UNION ALL SELECT key, inc, dec FROM %1$s_shard) AS u
			GROUP BY u.key', tab);
	END $$;

	-- All ways to read some keys, in one snapshot. What it has seen, as a hash.
	CREATE FUNCTION check_snapshot(hot text, other text) RETURNS text LANGUAGE plpgsql STABLE AS $$
	DECLARE
		tab text; many text; one text; plain text; total text; counted numeric; audited numeric;
		seen text := '';
		keys text[] := (SELECT array_agg(i::text) FROM generate_series(1, 12) AS i) || other;
	BEGIN
		FOREACH tab IN ARRAY ARRAY['c', 'p', 'i', 'g', 'inbox'] LOOP
			SELECT string_agg(m.value::text, ' ' ORDER BY m.key) INTO many FROM dc_get_many(tab::regclass, keys) AS m;
			SELECT string_agg(dc_get(tab::regclass, k)::text, ' ' ORDER BY k) INTO one FROM unnest(keys) AS k;
			SELECT string_agg(coalesce(s.value, 0)::text, ' ' ORDER BY k) INTO plain FROM unnest(keys) AS k LEFT JOIN by_sql(tab) AS s ON s.key = k;
			IF many <> one OR many <> plain OR dc_sum(tab::regclass) <> (SELECT coalesce(sum(s.value), 0) FROM by_sql(tab) AS s) THEN
				RAISE 'counter % in one snapshot: dc_get_many %, dc_get %, SQL %', tab, many, one, plain;
			END IF;
			FOREACH one IN ARRAY ARRAY[other, hot] LOOP
				SELECT coalesce(sum(delta), 0) INTO audited FROM audit AS a WHERE t = tab AND a.key = one;
				counted := dc_get(tab::regclass, one);
				IF tab = 'inbox' THEN
					counted := counted + coalesce((SELECT sum(k.value) FROM taken AS k WHERE k.key = one), 0);
				END IF;
				IF counted <> audited THEN
					RAISE 'counter %, key %: % instead of %', tab, one, counted, audited;
				END IF;
			END LOOP;
			SELECT string_agg(k || '=' || (dc_total(tab::regclass, k)).value, ' ' ORDER BY k) INTO total FROM unnest(keys) AS k;
			IF tab = 'g' AND EXISTS (SELECT FROM unnest(keys) AS k WHERE (dc_total('g', k)).value > dc_get('g', k)) THEN
				RAISE 'a total is ahead: % of %', total, many;
			END IF;
			seen := seen || many || total;
		END LOOP;
		RETURN md5(seen);
	END $$;

	-- Keys whose exact value is not that of the audit
	CREATE FUNCTION differing() RETURNS SETOF text LANGUAGE sql STABLE AS $$
		WITH counted AS (
			SELECT tab, s.key, s.value FROM unnest(ARRAY['c', 'p', 'i', 'g', 'inbox']) AS n(tab), by_sql(tab) AS s
		), audited AS (
			SELECT tab, key, sum(delta) AS value
			FROM (SELECT t, key, delta FROM audit UNION ALL SELECT 'inbox', key, -value FROM taken) AS u(tab, key, delta)
			GROUP BY tab, key
		)
		SELECT format('%s %s: %s, dc_get %s, instead of %s', tab, key, c.value, dc_get(tab::regclass, key), a.value)
		FROM counted AS c FULL JOIN audited AS a USING (tab, key)
		WHERE coalesce(c.value, 0) <> coalesce(a.value, 0) OR dc_get(tab::regclass, key) <> coalesce(a.value, 0)
	$$;});

# Rows that the worker has yet to move
my $left = join(' + ', map { "(SELECT count(*) FROM ${_}_shard)" } @tables);

# Totals that are not the exact value
my $behind = join(' UNION ALL ', map {
	"SELECT '$_', key, value, dc_get('$_', key) FROM $_ WHERE value <> dc_get('$_', key)" } @tables);

my $runs_of_worker = q{(SELECT runs FROM dc_stat_worker WHERE datname = current_database() AND job = 'compaction')};

# eventually(QUERY, NAME): tests that a condition comes true. Without it there is
# no point in going on.
sub eventually
{
	my ($query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return ok($node->poll_query_until('postgres', $query), $name) || die 'waited in vain';
}

# all_moved(NAME): tests that the worker moves everything, and that it is right
sub all_moved
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	eventually("SELECT $left = 0", "$name: an idle table has no shard rows");
	is(sql($node, 'postgres', $behind), '', "$name: the totals are the exact values");
	is(sql($node, 'postgres', 'SELECT * FROM differing()'), '', "$name: they are those of the audit");
	return;
}

# more_runs(NAME): tests that the worker continues, three times
sub more_runs
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $runs = sql($node, 'postgres', "SELECT $runs_of_worker");

	return eventually("SELECT $runs_of_worker >= $runs + 3", $name);
}

sub no_error_in_log
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(join("\n", grep { /ERROR|FATAL|PANIC|WARNING/ && !/canceling autovacuum task/ } split(/\n/, slurp_file($node->logfile))), '', "$name: no error in the log");
	is(step_failures($node), '', "$name: no step of the worker failed");
	return;
}

eventually("SELECT $runs_of_worker > 0", 'the worker runs');

##
## Load

my $scripts = 0;

# script(LEVEL, BODY): a pgbench script with three hot keys and a cold one
sub script
{
	my ($level, $body) = @_;
	my $head = "\\set gid random(1, 1000000000000000)\n\\set k4 random(13, 3000)\n\\set d4 random(1, 3)\n";

	$head .= "\\set k$_ random_zipfian(1, 12, 1.2)\n\\set d$_ random(-5, 20)\n\\set up$_ random(1, 9)\n" foreach 1 .. 3;
	$body =~ s/ADD\((\w+), (\d)\)/SELECT dc_incr('$1', :k$2, :d$2); INSERT INTO audit VALUES ('$1', :k$2, :d$2);/g;
	$body =~ s/UP\((\d)\)/SELECT dc_incr('g', :k$1, :up$1); INSERT INTO audit VALUES ('g', :k$1, :up$1);/g;
	$body = "BEGIN ISOLATION LEVEL $level;\n$body\n" if $level;
	$body .= "COMMIT;\n" if $level && $body !~ /PREPARE TRANSACTION/;
	return file_of('script' . ++$scripts . '.sql', "$head$body");
}

my @writers;
foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	push @writers,
	  script($level, 'ADD(c, 1) ADD(c, 2) ADD(p, 3) ADD(i, 3) ADD(p, 1) UP(1)'),
	  script($level, q{
		SELECT dc_incr_many('c', ARRAY[:k3, :k2, :k4]::text[], ARRAY[:d3, :d2, :d4]::bigint[]);
		INSERT INTO audit VALUES ('c', :k3, :d3), ('c', :k2, :d2), ('c', :k4, :d4);
		SELECT dc_decr('p', :k1, :d1), dc_incr_hashed('p', :k2, 'event :d2', :d2), dc_decr('i', :k4, :d4);
		INSERT INTO audit VALUES ('p', :k1, -(:d1)), ('p', :k2, :d2), ('i', :k4, -(:d4));}),
	  script($level, q{ADD(c, 3) UP(2)
		SAVEPOINT a; ADD(c, 1) ADD(p, 2) SELECT dc_apply(); ADD(c, 2) ROLLBACK TO a; ADD(i, 2)
		SAVEPOINT b; ADD(p, 4) SAVEPOINT d; ADD(c, 3) SELECT dc_apply(); RELEASE d; RELEASE b; ADD(c, 1) ADD(inbox, 1)}),
	  script($level, 'ADD(c, 1) ADD(p, 4) ADD(i, 3) SELECT dc_apply(); ADD(c, 2) UP(3) ROLLBACK; BEGIN;'),
	  script($level, q{ADD(c, 1) ADD(p, 2) UP(1) SELECT dc_apply(); ADD(i, 4) ADD(inbox, 2)
		PREPARE TRANSACTION ':client_id-:gid';
		COMMIT PREPARED ':client_id-:gid';}),
	  script($level, q{ADD(c, 4) UP(2) ADD(i, 2)
		PREPARE TRANSACTION ':client_id-:gid';
		ROLLBACK PREPARED ':client_id-:gid';});
}
push @writers,
  script('READ COMMITTED', q{INSERT INTO taken VALUES (:k1, dc_reset('inbox', :k1));}),
  script('READ COMMITTED', q{INSERT INTO taken VALUES (:k1, dc_set('inbox', :k1, 7) - 7);}),
  script('READ COMMITTED', q{INSERT INTO taken VALUES (:k1, dc_delete('inbox', :k1));});

# A snapshot stays as it is while the worker and the writers continue; and what only grows never
# goes back (a division by zero).
my @readers = (
	script('REPEATABLE READ', q{
		SELECT check_snapshot(':k1', ':k4') AS seen \gset
		SELECT pg_sleep(0.1);
		SELECT 1 / (check_snapshot(':k1', ':k4') = ':seen')::int;
		SELECT dc_get('g', :k1) AS before \gset
		SELECT 1 / (dc_get('g', :k1) = :before)::int;}),
	script('', q{
		SELECT dc_get('g', :k1) AS before, value AS total FROM dc_total('g', :k1) \gset
		SELECT 1 / (dc_get('g', :k1) >= :before AND value >= :total)::int FROM dc_total('g', :k1);}));

# By hand, beside the worker
my @compactors = map { file_of("compact$_->[0].sql", "$_->[1];\n") }
  [ 1, 'SELECT dc_compact()' ], [ 2, 'CALL dc_maintain()' ], [ 3, q{SELECT dc_compact('c', 3)} ];

# DDL on other counter tables, one after the other, until the load has ended
my $ddl = '';
foreach my $n (1 .. 20000)
{
	my $partitions = $n % 3 ? '' : ', partitions => 2';

	$ddl .= qq{
SELECT dc_create('d$n'$partitions);
SELECT dc_incr('d$n', 'key ' || i, i) FROM generate_series(1, 20) AS i;
ALTER TABLE d$n RENAME TO e$n;
SELECT dc_incr('e$n', 'key 1');
ALTER TABLE e$n ADD note text;
SELECT dc_alter('e$n', max_shards => 2);
SELECT 1 / (dc_sum('e$n') = 211)::int;
SELECT pg_sleep(0.03);
SELECT 1 / (dc_sum('e$n') = 211)::int;
} . ($n % 2 ? "DROP TABLE e$n;\n" : "BEGIN;\nSELECT dc_incr('e$n', 'key 2');\nSELECT dc_drop('e$n');\nCOMMIT;\n")
	  . "SELECT NOT EXISTS (SELECT FROM loading) AS done \\gset\n\\if :done\n\\q\n\\endif\n";
}
$ddl = file_of('ddl.sql', $ddl);
sql($node, 'postgres', 'CREATE TABLE loading (); INSERT INTO loading DEFAULT VALUES');

# pgbench(CLIENTS, SCRIPT...): in the background
sub pgbench
{
	my ($clients, @files) = @_;

	return start_command('pgbench', '-n', '-c', $clients, '-j', 1, '-T', $seconds,
		(map { ('-f', $_) } @files), $node->connstr('postgres'));
}

# load(NAME)
sub load
{
	my ($name) = @_;
	my $runs = sql($node, 'postgres', "TRUNCATE loading; INSERT INTO loading DEFAULT VALUES; SELECT $runs_of_worker");
	my %jobs = (
		writers => pgbench(10, @writers),
		readers => pgbench(10, @readers),
		compactors => pgbench(2, @compactors));
	my $changes = start_job($node, 'postgres', $ddl);

	foreach my $who (sort keys %jobs)
	{
		my $status = finish_job($jobs{$who});

		is("$status $jobs{$who}{err}", '0 ', "$name: $who");
		like($jobs{$who}{out}, qr/actually processed: [1-9].*number of failed transactions: 0 /s, "$name: $who, some, and none fails");
		note("$who: $1") if $jobs{$who}{out} =~ /actually processed: (\d+)/;
	}
	sql($node, 'postgres', 'TRUNCATE loading');
	is(finish_job($changes) . " $changes->{err}", '0 ', "$name: DDL on other counter tables");
	like($changes->{out}, qr/^d1\n.*^d2\n/ms, "$name: some of it");
	cmp_ok(sql($node, 'postgres', "SELECT $runs_of_worker"), '>', $runs, "$name: the worker has run meanwhile");
	all_moved($name);
	return;
}

load('every 100 ms');

sql($node, 'postgres', q{
	ALTER SYSTEM SET dcounter.compact_interval = '10ms';
	ALTER SYSTEM SET dcounter.compact_batch = 10;
	SELECT pg_reload_conf();});
load('every 10 ms, in batches of 10 rows');
no_error_in_log('load');

##
## What others lock

# moves(NAME, KEY): tests that the worker moves what is counted now
sub moves
{
	my ($name, $counter, $key) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $value = sql($node, 'postgres', "SELECT dc_get('$counter', '$key') + 1");

	sql($node, 'postgres', "SELECT dc_incr('$counter', '$key')");
	return eventually("SELECT (dc_total('$counter', '$key')).value = $value", $name);
}

# Keys that others have locked, with shard rows: counted while there is no worker
my @keys = ('deleted', 'early', 'locked', 'reset', 'set', 'total');
my $all_keys = join(', ', map { "'$_'" } @keys);
my @holders = map { dc_session($node, 'postgres') } 1 .. 6;

sql($node, 'postgres', "SELECT dc_create('h', max_shards => 2, totals => 'compacted'), dc_create('hp', partitions => 2); SELECT dc_incr('h', k, 10) FROM unnest(ARRAY[$all_keys]) AS k");
eventually("SELECT count(*) = 6 FROM h WHERE value = 10", 'keys with totals');
is(sql($node, 'postgres', "SELECT dc_worker_stop(); SELECT dc_incr('h', k, 5) FROM unnest(ARRAY[$all_keys]) AS k") =~ s/\n//gr, 't', 'and shard rows');
$_->run('BEGIN') foreach @holders;
is($holders[0]->run("SELECT dc_delete('h', 'deleted')"), '15', 'dc_delete');
is($holders[1]->run("SELECT dc_incr('h', 'early', 1000), dc_apply()"), '|', 'an early write');
is($holders[2]->run("SELECT inc FROM h_shard WHERE key = 'locked' FOR UPDATE"), '5', 'a locked shard row');
is($holders[3]->run("SELECT dc_reset('h', 'reset')"), '15', 'dc_reset');
is($holders[4]->run("SELECT dc_set('h', 'set', 100)"), '15', 'dc_set');
is($holders[5]->run("SELECT value FROM h WHERE key = 'total' FOR UPDATE"), '10', 'a locked row of totals');
is(sql($node, 'postgres', 'SELECT dc_worker_start()'), 't', 'the worker is started');
moves('other keys of the table are compacted', 'h', 'free');
moves('other tables are', 'free', 'free');
more_runs('again and again');
eventually("SELECT (dc_total('h', 'early')).value = 15", 'a row that is not locked is moved');
sql($node, 'postgres', "SELECT dc_incr('h', 'locked')");
eventually("SELECT (dc_total('h', 'locked')).value = 11", 'also if another one of its key is');
is(sql($node, 'postgres', "SELECT string_agg(key || ' ' || value || ' ' || dc_get('h', key), ', ' ORDER BY key) FROM h WHERE key <> 'free'"),
	'deleted 10 15, early 15 15, locked 11 16, reset 10 15, set 10 15, total 10 15', 'what is locked stays, and reads are exact');
is($_->run('COMMIT'), '', 'commit') foreach @holders;
eventually('SELECT count(*) = 0 FROM h_shard', 'then all is moved');
is(sql($node, 'postgres', "SELECT string_agg(key || ' ' || value || ' ' || dc_get('h', key), ', ' ORDER BY key) FROM h WHERE key <> 'free'"),
	'early 1015 1015, locked 16 16, reset 0 0, set 100 100, total 15 15', 'and right');

# Tables and partitions that others have locked. A worker that has seen them
# before, and one that has not.
foreach my $lock (
	'LOCK TABLE h', 'LOCK TABLE h_shard', 'ALTER TABLE h ADD note text',
	'ALTER TABLE h_shard ADD note text', 'CREATE INDEX ON h (updated_at)', 'TRUNCATE h_shard',
	'LOCK TABLE hp', 'LOCK TABLE hp_p1', 'TRUNCATE hp_shard_p0')
{
	sql($node, 'postgres', "SELECT dc_worker_stop(); SELECT dc_incr('h', 'free'), dc_incr('hp', k::text) FROM generate_series(1, 8) AS k");
	is($holders[0]->run("BEGIN; $lock"), '', $lock);
	sql($node, 'postgres', 'SELECT dc_worker_start()');
	moves("$lock: other tables are compacted", 'free', 'free');
	is($holders[0]->run('ROLLBACK'), '', 'rollback');
	moves('then this one', $_, 'free') foreach 'h', 'hp';
	$holders[0]->run("BEGIN; $lock");
	moves("$lock: the same for a worker that knows the table", 'free', 'free');
	more_runs('again and again');
	is($holders[0]->run('ROLLBACK'), '', 'rollback');
}
$_->quit foreach @holders;
eventually('SELECT (SELECT count(*) FROM h_shard) + (SELECT count(*) FROM hp_shard) = 0', 'all is moved');
no_error_in_log('locks');

##
## kill -9 of the worker
#
# A client is a psql that runs transactions one after the other and says "done N"
# after each COMMIT, until it loses its connection. The N-th writes its number into
# the audit, too.

my $clients = 4;
my @begin = (
	'BEGIN', 'BEGIN', 'BEGIN ISOLATION LEVEL REPEATABLE READ',
	'BEGIN ISOLATION LEVEL SERIALIZABLE');

# transaction(CLIENT, NUMBER): its SQL
sub transaction
{
	my ($client, $number) = @_;
	my $add = sub {
		my $table = (@tables)[ rand(4) ];
		my $key = rand() < 0.6 ? 1 + int(rand(3)) : 1 + int(rand(3000));
		my $delta = 1 + int(rand(9));

		return "SELECT dc_incr('$table', '$key', $delta); INSERT INTO audit VALUES ('$table', '$key', $delta, $client, $number);\n";
	};
	my $sql = $begin[ rand(@begin) ] . ";\n" . join('', map { $add->() } 0 .. rand(3));
	my $kind = rand();

	$sql .= "SELECT dc_apply();\n" . $add->() if $kind < 0.1;
	$sql .= "SAVEPOINT s;\n" . $add->() . "SELECT dc_apply();\nROLLBACK TO s;\n" if $kind > 0.9;
	return "${sql}COMMIT;\n\\echo done $number\n" if $kind < 0.8;
	return "${sql}PREPARE TRANSACTION '$client-$number';\nCOMMIT PREPARED '$client-$number';\n\\echo done $number\n";
}

foreach my $round (1 .. $rounds)
{
	my $first = 100 * $round;
	my @numbers = $first .. $first + $clients - 1;
	my @jobs = map {
		my $client = $_;

		start_job($node, 'postgres', file_of("client$client.sql", join('', map { transaction($client, $_) } 1 .. 4000)))
	} @numbers;
	my $until = 100 + int(rand(300));
	my ($told, $bad) = (0, '');

	$node->poll_query_until('postgres', "SELECT count(*) >= $until FROM audit WHERE client >= $first")
	  or die 'no progress';
	my $pid = some_pid($node, q{SELECT pid FROM dc_stat_worker WHERE datname = current_database() AND job = 'compaction'});
	kill 9, $pid;
	# 3 if the server's last message was still read as an answer
	like(join(' ', map { finish_job($_) } @jobs), qr/^[23]( [23]){3}$/, "round $round: all clients lost their connection");
	unlike(join('', map { $_->{err} } @jobs), qr/ERROR/, "round $round: no error in clients");
	eventually("SELECT pid <> $pid FROM dc_stat_worker WHERE datname = current_database() AND job = 'compaction'",
		"round $round: the server and its worker are back");

	foreach my $gid (split /\n/, sql($node, 'postgres', 'SELECT gid FROM pg_prepared_xacts'))
	{
		sql($node, 'postgres', (rand() < 0.5 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$gid'");
	}
	foreach my $i (0 .. $#jobs)
	{
		my $done = () = $jobs[$i]{out} =~ /^done /mg;
		my $got = sql($node, 'postgres', "SELECT count(DISTINCT number) FROM audit WHERE client = $numbers[$i]");

		$bad .= "client $i was told of $done, of which or more $got are there\n" if $got < $done || $got > $done + 1;
		$told += $done;
	}
	is($bad, '', "round $round: what clients were told of is there");
	cmp_ok($told, '>', 0, "round $round: they were told of some");
	is(sql($node, 'postgres', 'SELECT * FROM differing()'), '', "round $round: every key is exact");
	all_moved("round $round");
}

$node->stop;
done_testing();
