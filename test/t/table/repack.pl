# REPACK, which PostgreSQL has since 19: CONCURRENTLY on the tables of all kinds of counters, one after the other, while they are written
# and the worker compacts them, each value being exact in the end; and in a transaction that has increments to write.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('repack', conf => [ q{shared_preload_libraries = 'dcounter'}, 'wal_level = logical', "dcounter.compact_interval = '50ms'" ]);

if (sql($node, 'postgres', 'SHOW server_version_num') < 190000)
{
	$node->stop;
	plan skip_all => 'REPACK is new in PostgreSQL 19';
}

my $clients = 4;
my $calls = torture(400, 20000);
my $n = $clients * $calls;

sql($node, 'postgres', q{
	SET client_min_messages = error;
	SELECT dc_create('direct'), dc_create('compacted', totals => 'compacted'), dc_create('shared'), dc_stock_create('seats'), dc_ledger_create('wallet'), dc_window_create('views', '1 minute', '3 days');
	SELECT dc_region_init('eu');
	SELECT dc_replicate('shared');
	SELECT dc_restock('seats', 'a', 1000000), dc_account_open('wallet', 'bank', NULL), dc_account_open('wallet', 'alice');
	CREATE TABLE sold (qty int)});

# Each call counts once in each of them; some take a unit, and some hold one and give it back.
my $script = file_of('count', q{
	\set key random(1, 3)
	\set op random(1, 9000000000000000)
	BEGIN;
	SELECT dc_incr('direct', :key), dc_incr('compacted', :key), dc_incr('shared', :key), dc_incr_at('views', :key);
	INSERT INTO sold SELECT 1 WHERE dc_take('seats', 'a');
	SELECT dc_hold_release('seats', dc_hold('seats', 'a', 1, '1 hour'));
	SELECT dc_transfer('wallet', 'bank', 'alice', 1, :op || '-' || :client_id);
	COMMIT;
});

my @tables = split(/\n/, sql($node, 'postgres', q{
	SELECT c.oid::regclass FROM pg_class AS c JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
	WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname COLLATE "C"}));
my %repacked = map { $_ => 0 } @tables;
my @failed;
my $job = start_command('pgbench', '-n', '-c', $clients, '-j', 2, '-t', $calls, '--max-tries', 1000, '-f', $script, $node->connstr('postgres'));

while ($job->{run}->pumpable && grep { $_ < 2 } values %repacked)
{
	foreach my $table (@tables)
	{
		my $node_of = sql($node, 'postgres', "SELECT pg_relation_filenode('$table')");
		my ($status, undef, $err) = $node->psql('postgres', "REPACK (CONCURRENTLY) $table");

		push(@failed, "$table: $err") if $status != 0;
		$repacked{$table}++ if $status == 0 && $node_of ne sql($node, 'postgres', "SELECT pg_relation_filenode('$table')");
	}
}
is(finish_job($job), 0, 'all calls are done') or diag($job->{err});
is(join("\n", @failed), '', 'REPACK (CONCURRENTLY) of each table, under writers');
is(join(' ', grep { $repacked{$_} == 0 } @tables), '', 'each has a new file');
cmp_ok(scalar(@tables), '>=', 12, 'totals, shard rows, regions, holds, accounts, entries and windows are among them') or diag("@tables");

my $values = qq{
	SELECT dc_sum('direct'), dc_sum('compacted'), dc_sum('shared'), (SELECT sum(value) FROM views), dc_get('seats', 'a') + (SELECT sum(qty) FROM sold), (SELECT sum(qty) FROM sold),
		(SELECT balance FROM dc_balance('wallet', 'alice')), (SELECT count(*) FROM dc_ledger_check('wallet')), (SELECT count(*) FROM dc_holds('seats'))};
my $expected = "$n|$n|$n|$n|1000000|$n|$n|0|0";

is(sql($node, 'postgres', $values), $expected, 'each call has counted once');
sql($node, 'postgres', "SELECT dc_compact(); REPACK (CONCURRENTLY) $_") foreach @tables;
is(sql($node, 'postgres', $values), $expected, 'and after compaction, and once more');

# Increments that are not written yet are, before a table is rewritten
is(sql($node, 'postgres', q{
	SELECT dc_incr('direct', 'new', 5);
	BEGIN;
	SELECT dc_incr('direct', 'new', 2);
	REPACK direct_shard;
	SELECT dc_get('direct', 'new') = sum(value) FROM (SELECT inc - dec AS value FROM direct_shard WHERE key = 'new' UNION ALL SELECT value FROM direct WHERE key = 'new') AS v;
	REPACK direct USING INDEX direct_pkey;
	COMMIT;
	SELECT dc_get('direct', 'new')}), "\n\nt\n7", 'REPACK after increments of its transaction');

##
## Who waits for the end of REPACK (CONCURRENTLY) has a snapshot that does not show the rows of the new file

my @sessions = map { dc_session($node, 'postgres') } 1 .. 3;

# after_repack(TABLE, CALL, RESULT): a test of a call that begins before the files are exchanged
sub after_repack
{
	my ($table, $call, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($holder, $repack, $caller) = @sessions;
	my $waiting = "SELECT count(*) FROM pg_locks WHERE relation = '$table'::regclass AND NOT granted";

	$holder->run("BEGIN; LOCK TABLE $table IN ACCESS SHARE MODE");
	$repack->send("REPACK (CONCURRENTLY) $table");
	is(wait_for($node, 'postgres', $waiting, 1), 1, "$table: REPACK waits");
	$caller->send($call);
	is(wait_for($node, 'postgres', $waiting, 2, 10), 2, 'and then the call');
	$holder->run('COMMIT');
	is($repack->wait, '', 'REPACK ends');
	return is($caller->wait, $expected, "right after it: $call");
}

sql($node, 'postgres', q{
	SELECT dc_worker_stop();
	SELECT dc_create('c', totals => 'compacted'), dc_create('d'), dc_stock_create('s'), dc_ledger_create('l'), dc_window_create('w', '1 minute', '1 day');
	SELECT dc_incr('c', 'a', 10), dc_incr('d', 'a', 10), dc_restock('s', 'a', 10), dc_account_open('l', 'x', NULL), dc_account_open('l', 'y'), dc_incr_at('w', 'a', 10, now() - interval '10 minutes');
	SELECT dc_compact(), dc_transfer('l', 'x', 'y', 10, 'o1')});
after_repack('c', "SELECT dc_get('c', 'a'), dc_sum('c')", '10|10');
after_repack('d', "SELECT dc_get('d', 'a'), dc_sum('d')", '10|10');
after_repack('c', "SELECT sum(value) FROM dc_get_many('c', '{a,b}'::text[])", '10');
after_repack('c', "SELECT value FROM dc_info('c', 'a')", '10');
after_repack('d', "SELECT dc_incr('d', 'a', 5)", '');
is(sql($node, 'postgres', "SELECT dc_get('d', 'a')"), '15', 'it is counted');
after_repack('d', "SELECT dc_set('d', 'a', 7)", '15');
is(sql($node, 'postgres', "SELECT dc_get('d', 'a')"), '7', 'it is set');
after_repack('c', "SELECT dc_set('c', 'a', 9)", '10');
is(sql($node, 'postgres', "SELECT dc_get('c', 'a')"), '9', 'it is set');
after_repack('s', "SELECT dc_take('s', 'a', 4), dc_get('s', 'a')", 't|6');
after_repack('l', "SELECT balance FROM dc_balance('l', 'y')", '10');
after_repack('l', "SELECT (dc_transfer('l', 'x', 'y', 1, 'o2')).duplicate", 'f');
after_repack('l_entry', "SELECT count(*) FROM dc_account_statement('l', 'y', '-infinity', 'infinity')", '2');
$_->quit foreach @sessions;

done_testing();
