# A snapshot that is held for a long time: what reads, first increments and compaction visit stays
# bounded, in buffers, while all kinds of writers continue; counts are exact inside and outside of
# the snapshot, after a crash, on a standby, and where shared hints are of other tables. When the
# snapshot has ended, the rows that were kept go.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $clients = 8;
my $transactions = torture(160, 4000);
my @keys = ('a', 'b');
my %held;    # sums in the snapshot

my $node = dc_node('old', init => { allows_streaming => 1 },
	conf => [ "shared_preload_libraries = 'dcounter'", 'dcounter.compact_interval = 100ms',
		'fsync = off', 'autovacuum_naptime = 1s' ]);

# Each transaction also notes in plain rows what it adds.
sql($node, 'postgres', q{
	SELECT dc_create('compacted', totals => 'compacted'), dc_create('direct');
	CREATE TABLE book (counter text, key text, n bigint);
	CREATE FUNCTION add(k text, n bigint) RETURNS void LANGUAGE sql AS $$
		SELECT dc_incr(c, k, n) FROM (VALUES ('compacted'::regclass), ('direct')) AS v(c);
		INSERT INTO book VALUES ('compacted', k, n), ('direct', k, n) $$;
	CREATE FUNCTION wrong() RETURNS SETOF text LANGUAGE sql AS $$
		SELECT format('%s %s: %s, not %s', counter, key, dc_get(counter::regclass, key), sum(n))
		FROM book GROUP BY counter, key HAVING dc_get(counter::regclass, key) IS DISTINCT FROM sum(n) $$});

my $key = '\set k random(0, 1)' . "\n" . '\set n random(1, 9)' . "\n";
my %scripts = (
	hot => "SELECT add(chr(97 + :k), :n);\n",
	rr => "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT add(chr(97 + :k), :n);\nSAVEPOINT s;\nSELECT add('a', 100);\nROLLBACK TO s;\nCOMMIT;\n",
	ser => "BEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT add(chr(97 + :k), :n);\nCOMMIT;\n",
	early => "BEGIN;\nSELECT add(chr(97 + :k), :n);\nSELECT dc_apply();\nCOMMIT;\n",
	prepared => "BEGIN;\nSELECT add(chr(97 + :k), :n);\nPREPARE TRANSACTION 'g:client_id';\nCOMMIT PREPARED 'g:client_id';\n",
	new => '\set i random(1, 1000000000)' . "\nSELECT add('new ' || :i, :n);\n");

# start_writers(HOW MANY TRANSACTIONS [, KINDS]): all kinds at the same time
sub start_writers
{
	my ($count, @kinds) = @_;

	@kinds = ('hot', 'rr', 'ser', 'new') if !@kinds;
	return map {
		start_command('pgbench', '-n', '-f', file_of("$_.sql", $key . $scripts{$_}), '-c', $clients,
			'-t', $count, '-d', $node->connstr('postgres'))
	} @kinds;
}

sub write_all
{
	my @jobs = start_writers(@_);
	my @failed = grep { finish_job($_) != 0 } @jobs;

	is(join('', map { $_->{err} } @failed), '', 'no writer fails');
	return;
}

# what this transaction has visited of the counters' tables and indexes. Buffers of catalogs do not count: how
# often a session reads those again is up to autovacuum, which begins every second.
my $fetched = q{SELECT sum(pg_stat_get_xact_blocks_fetched(oid)) FROM pg_class WHERE relname ~ '^(compacted|direct)(_|$)'};

# hits(STATEMENT): what it visits in a session that is new
sub hits
{
	my ($statement) = @_;

	return sql($node, 'postgres', "SELECT dc_get('compacted', 'other'), dc_get('direct', 'other') \\g /dev/null
			BEGIN; SELECT dc_incr('compacted', 'other', 0), dc_apply() \\g /dev/null
			COMMIT;
			BEGIN; SELECT ($fetched) AS before \\gset
			$statement \\g /dev/null
			SELECT ($fetched) - :before; COMMIT");
}

# hits_of(SESSION, STATEMENT): the buffers that it visits in a session, within a transaction
sub hits_of
{
	my ($session, $statement) = @_;
	my $before = $session->run($fetched);

	$session->run($statement);
	return $session->run($fetched) - $before;
}

# rows(COUNTER, KEY)
sub rows
{
	my ($counter, $k) = @_;

	return sql($node, 'postgres', "SELECT count(*) FROM ${counter}_shard WHERE key = '$k'");
}

# bounded(WHEN): the number of visited buffers is proportional to the number of rows
sub bounded
{
	my ($when) = @_;

	foreach my $counter ('compacted', 'direct')
	{
		my $live = rows($counter, 'a');
		my $hits = hits("SELECT dc_get('$counter', 'a')");

		cmp_ok($live, '<=', 64 + 32, "$when, $counter: rows of a key are as many as it may keep");
		cmp_ok($hits, '<=', 8 * $live + 60, "$when, $counter: a read, beside $live rows");
	}
	# those rows, and the new keys'
	my $all = sql($node, 'postgres', 'SELECT count(*) FROM direct_shard');
	cmp_ok(hits("SELECT dc_compact('direct')"), '<=', 12 * $all + 800, "$when: a compaction, beside $all rows");
	return;
}

write_all($transactions / 4);
is(sql($node, 'postgres', 'SELECT wrong()'), '', 'the counts are exact before');
my $holder = dc_session($node, 'postgres');
$holder->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $seen = $holder->run("SELECT dc_get('compacted', 'a'), dc_get('direct', 'a'), dc_sum('compacted'), dc_sum('direct')");
# rows are kept from here on: one of a key with a single row stays
sql($node, 'postgres', q{
	DO $$BEGIN
		FOR i IN 1 .. 600 LOOP
			PERFORM add('single', 1);
			COMMIT;
			PERFORM pg_sleep(0.3);
			EXIT WHEN EXISTS (SELECT FROM compacted_shard WHERE key = 'single' AND inc = 0);
		END LOOP;
	END$$});
is(sql($node, 'postgres', "SELECT count(*), sum(inc) FROM compacted_shard WHERE key = 'single'"), '1|0',
	'a row is kept at zero');

# compaction is over
sub settled
{
	return wait_for($node, 'postgres',
		'SELECT count(*) FROM (SELECT inc FROM compacted_shard UNION ALL SELECT inc FROM direct_shard) AS s WHERE inc <> 0', 0);
}

foreach my $round (1 .. 3)
{
	write_all($transactions);
	is(sql($node, 'postgres', 'SELECT wrong()'), '', "the counts are exact, round $round");
	is(settled(), 0, 'all amounts get to the totals');
	bounded("round $round");
}
my $inside = "SELECT dc_get('compacted', 'a'), dc_get('direct', 'a'), dc_sum('compacted'), dc_sum('direct')";
is($holder->run($inside), $seen, 'the snapshot shows what it showed');
$holder->run("SELECT dc_get('direct', 'a')");
my $visited = hits_of($holder, "SELECT dc_get('direct', 'a')");
# The version that it sees of a row may lie amid the places of others, so this varies from run to run (26
# to 229 for a dozen rows), but numbers of which it sees nothing are not searched again.
cmp_ok($visited, '<=', 30 * rows('direct', 'a') + 100, 'a read within the snapshot');

# A session that knows rows from long ago does not follow all links since
my $late = dc_session($node, 'postgres');
$late->run("SELECT dc_get('compacted', 'b'), dc_get('direct', 'b')");
write_all($transactions);
$late->run('BEGIN');
$visited = hits_of($late, "SELECT dc_get('compacted', 'b')");
$late->run('COMMIT');
cmp_ok($visited, '<=', 14 * rows('compacted', 'b') + 60, 'a session that has not looked for long');
$late->quit;

# Another snapshot, of the middle
my $middle = dc_session($node, 'postgres');
$middle->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $wrong = $middle->run('SELECT wrong()');
my $middle_sums = $middle->run("SELECT dc_sum('compacted'), dc_sum('direct')");
# those that leave a row of their own, and a dead index entry, each
write_all($transactions / 4, 'early', 'prepared', 'hot', 'ser');
is(sql($node, 'postgres', 'SELECT wrong()'), '', 'early writes and prepared transactions count');
is($wrong, '', 'a snapshot of the middle has exact counts');
is($middle->run('SELECT wrong()'), '', 'and still has them');
is($middle->run("SELECT dc_sum('compacted'), dc_sum('direct')"), $middle_sums, 'the same');
$middle->quit;

# Hints that are of other tables: a copy of the database has the same ids of tables, and
# tables that were rewritten or emptied have other rows at the same places.
$holder->run('COMMIT');
is($holder->run('SELECT wrong()'), '', 'the counts are exact when the snapshot has ended');
$holder->quit;
sql($node, 'postgres', q{ALTER SYSTEM SET dcounter.worker = off; SELECT pg_reload_conf()});
wait_for($node, 'template1', q{SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres'}, 0);
sql($node, 'template1', 'CREATE DATABASE copy TEMPLATE postgres');
sql($node, 'copy', "SELECT add('a', 1), add('b', 1)");
sql($node, 'postgres', 'VACUUM FULL compacted_shard; CLUSTER direct_shard USING direct_shard_pkey');
foreach my $database ('postgres', 'copy')
{
	is(sql($node, $database, 'SELECT wrong()'), '', "exact in $database, with hints of the other one");
}
sql($node, 'copy', 'TRUNCATE book, compacted, direct');
sql($node, 'copy', "SELECT add('b', i), add('a', i) FROM generate_series(1, 100) AS i");
is(sql($node, 'copy', 'SELECT wrong()'), '', 'exact in tables that were emptied');
is(sql($node, 'postgres', 'SELECT wrong()'), '', 'and in the others');
sql($node, 'template1', 'DROP DATABASE copy');
sql($node, 'postgres', q{ALTER SYSTEM RESET dcounter.worker; SELECT pg_reload_conf()});

# A standby, and a crash under load, while a snapshot is held
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('old_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$holder = dc_session($node, 'postgres');
$holder->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
$holder->run('SELECT wrong()');
write_all($transactions / 2, 'hot', 'ser', 'early', 'prepared');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(sql($standby, 'postgres', 'SELECT wrong()'), '', 'exact on the standby');
my $reader = dc_session($standby, 'postgres');
$reader->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($reader->run('SELECT wrong()'), '', 'and in a snapshot there');
write_all($transactions / 2);
is($reader->run('SELECT wrong()'), '', 'which stays exact');
$reader->quit;

my @jobs = start_writers(100000);
sql($node, 'postgres', 'CREATE TABLE started AS SELECT count(*) AS n FROM book');
wait_for($node, 'postgres', 'SELECT count(*) > (SELECT n + 1000 FROM started) FROM book', 't');
$node->stop('immediate');
finish_job($_) foreach @jobs;
$node->start;
is(sql($node, 'postgres', 'SELECT wrong()'), '', 'exact after a crash');
is(wait_for($node, 'postgres', 'SELECT count(*) FROM (SELECT FROM compacted_shard UNION ALL SELECT FROM direct_shard) AS s', 0, 180),
	0, 'without a snapshot all shard rows go');
is(sql($node, 'postgres', 'SELECT wrong()'), '', 'and the totals have all of it');

# A row that SERIALIZABLE transactions replace: no link leads from one to the next, and among hundreds of
# index entries that of the row which counts may be anywhere. Here it is amid them, in a page that vacuum has emptied.
sql($node, 'postgres', q{ALTER SYSTEM SET dcounter.worker = off; ALTER SYSTEM SET autovacuum = off});
$node->restart;

# replace(HOW OFTEN): in a session that is new
sub replace
{
	my ($times) = @_;

	sql($node, 'postgres', "BEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT dc_incr('replaced', 'k') \\g /dev/null\nCOMMIT;\n" x $times);
	return;
}

# replaced(SESSION, AMOUNT, WHEN): what a read visits
sub replaced
{
	my ($session, $amount, $when) = @_;
	my $fetches = "SELECT sum(pg_stat_get_xact_blocks_fetched(oid)) FROM pg_class WHERE relname ~ '^replaced'";
	my $before = $session->run($fetches);

	is($session->run("SELECT dc_get('replaced', 'k')"), $amount, "rows that were replaced: exact, $when");
	return $session->run($fetches) - $before;
}

# two rows: sessions remember where those of a key with several are
sql($node, 'postgres', "SELECT dc_create('replaced', totals => 'compacted');
	BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT dc_incr('replaced', 'k'), dc_apply(); PREPARE TRANSACTION 'two'");
replace(1);
sql($node, 'postgres', "COMMIT PREPARED 'two'");
$holder = dc_session($node, 'postgres');
$holder->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$late = dc_session($node, 'postgres');
$late->run("SELECT dc_get('replaced', 'k')");
# before the snapshot is taken for old, each transaction leaves a row of its own
my $count = 2;
for (my ($rows, $before) = (2, 0); $rows != $before && $count < 600; $count++)
{
	$before = $rows;
	sql($node, 'postgres', 'SELECT pg_sleep(0.3)');
	replace(1);
	$rows = sql($node, 'postgres', 'SELECT count(*) FROM replaced_shard');
}
replace(300);
$middle = dc_session($node, 'postgres');
$middle->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
sql($node, 'postgres', "BEGIN; INSERT INTO replaced_shard (key, shard) SELECT 'gone', i FROM generate_series(1, 3000) AS i; ROLLBACK");
replace(300);
sql($node, 'postgres', 'VACUUM replaced_shard');
replace(2);
$late->run('BEGIN');
cmp_ok(replaced($late, $count + 602, 'late'), '<=', 60, 'a session that knew the rows before');
cmp_ok(replaced($late, $count + 602, 'again'), '<=', 40, 'and knows them now');
my $looked = replaced($middle, $count + 300, 'in a snapshot');
cmp_ok($looked, '>', 100, 'a version amid those of others takes a search');
cmp_ok(replaced($middle, $count + 300, 'in a snapshot, again'), '<=', 40, 'and has not to be searched again');
$_->quit foreach ($late, $middle, $holder);

$standby->stop;
$node->stop;
done_testing();
