# Totals first: commits write rows of totals themselves, or insert them, beside everything
# else that writes there: users' own statements, compaction, dc_set and dc_delete, prepared
# transactions. All transactions that count also write what they count into an audit table, and
# what was taken away into another. So in each snapshot, on the standby too, the counters must
# equal the audit. None may fail. Once as it is, and once while an old snapshot is held.
# (003 has crashes, 004 other mixes.)
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $clients = 24;
my $transactions = torture(150, 2000);

my $node = dc_node('totals', init => { allows_streaming => 1 },
	conf => [ 'autovacuum_naptime = 1s', 'deadlock_timeout = 100ms' ]);
sql($node, 'postgres', q{
	SELECT dc_create('c', max_shards => 3), dc_create('later', totals => 'compacted');
	CREATE TABLE audit (t text, key text, delta bigint);
	CREATE TABLE taken (t text, key text, value bigint);
	CREATE TABLE refers (key text COLLATE "C" REFERENCES c ON DELETE CASCADE);

	-- Two ways to read, and plain SQL, against the audit, in one snapshot
	CREATE FUNCTION check_snapshot() RETURNS void LANGUAGE plpgsql STABLE AS $$
	DECLARE
		tab text; one text; plain text; audited text;
	BEGIN
		FOREACH tab IN ARRAY ARRAY['c', 'later'] LOOP
			SELECT string_agg(dc_get(tab::regclass, k::text)::text, ' ' ORDER BY k) INTO one FROM generate_series(1, 10) AS k;
			EXECUTE format('SELECT string_agg(coalesce(n, 0)::text, '' '' ORDER BY k) FROM generate_series(1, 10) AS k LEFT JOIN
				(SELECT key, sum(n) AS n FROM (SELECT key, value AS n FROM %1$I UNION ALL
					SELECT key, inc - dec FROM %2$I) AS u GROUP BY key) AS s ON s.key = k::text',
				tab, tab || '_shard') INTO plain;
			SELECT string_agg(coalesce(n, 0)::text, ' ' ORDER BY k) INTO audited FROM generate_series(1, 10) AS k LEFT JOIN
				(SELECT key, sum(n) AS n FROM (SELECT key, delta AS n FROM audit WHERE t = tab UNION ALL
					SELECT key, -value FROM taken WHERE t = tab) AS u GROUP BY key) AS s ON s.key = k::text;
			IF one <> plain OR one <> audited OR dc_sum(tab::regclass) <>
				(SELECT coalesce(sum(n), 0) FROM unnest(string_to_array(audited, ' ')::bigint[]) AS n) THEN
				RAISE 'counter % in one snapshot: dc_get %, rows %, audit %, dc_sum %', tab, one, plain, audited, dc_sum(tab::regclass);
			END IF;
		END LOOP;
	END $$;});
is(sql($node, 'postgres', q{SELECT totals FROM dc_tables WHERE counter = 'c'::regclass}), 'direct', 'commits write totals');
$node->backup('base');

my $scripts = 0;

# script(LEVEL, BODY [, END]): a pgbench script, with keys, deltas and the table
sub script
{
	my ($level, $body, $end) = @_;
	my $head = "\\set k3 random(1, 10)\n\\set d3 random(1, 9)\n";

	$head .= "\\set k$_ random_zipfian(1, 10, 1.1)\n\\set d$_ random(-5, 20)\n" foreach 1 .. 2;
	$body =~ s/ADD\((\w+), (\d)\)/SELECT dc_incr('$1', :k$2, :d$2); INSERT INTO audit VALUES ('$1', :k$2, :d$2);/g;
	return file_of('script' . ++$scripts . '.sql',
		"${head}BEGIN ISOLATION LEVEL $level;\n$body\n" . ($end // 'COMMIT;') . "\n");
}

my @writers = (
	(script('READ COMMITTED', 'ADD(c, 1)')) x 3,
	script('READ COMMITTED', 'ADD(c, 1) ADD(c, 2) ADD(later, 1)'),
	script('REPEATABLE READ', 'ADD(c, 1) SAVEPOINT a; ADD(c, 2) ROLLBACK TO a; ADD(c, 3)'),
	script('SERIALIZABLE', 'ADD(c, 1) ADD(later, 2)'),
	script('READ COMMITTED', 'ADD(c, 1) SELECT dc_apply(); ADD(c, 1) ADD(c, 2)'),
	script('READ COMMITTED', 'ADD(c, 1) ADD(later, 2)',
		"PREPARE TRANSACTION 'of :client_id';\nCOMMIT PREPARED 'of :client_id';"),
	script('READ COMMITTED', q{SELECT dc_incr_many('c', ARRAY[:k2, :k1]::text[], ARRAY[:d2, :d1]::bigint[]);
		INSERT INTO audit VALUES ('c', :k1, :d1), ('c', :k2, :d2);}),
	# users' own statements
	script('READ COMMITTED', q{WITH u AS (UPDATE c SET inc = inc + :d3 WHERE key = :k1::text RETURNING key)
		INSERT INTO audit SELECT 'c', key, :d3 FROM u; ADD(c, 2)}),
	script('READ COMMITTED', q{INSERT INTO c (key, inc) VALUES (:k1, :d3) ON CONFLICT (key) DO UPDATE SET inc = c.inc + :d3;
		INSERT INTO audit VALUES ('c', :k1, :d3);}),
	script('READ COMMITTED', q{SELECT 1 FROM c WHERE key = :k2::text FOR KEY SHARE; ADD(c, 1)}),
	script('READ COMMITTED', q{SELECT 1 FROM c WHERE key = :k1::text FOR UPDATE; ADD(c, 1)}));
my @others = (
	script('REPEATABLE READ', 'SELECT check_snapshot(); SELECT check_snapshot();'),
	file_of('compact.sql', "SELECT dc_compact();\n"),
	script('READ COMMITTED', q{INSERT INTO taken VALUES ('c', :k1, dc_delete('c', :k1));}),
	script('READ COMMITTED', q{INSERT INTO taken VALUES ('c', :k3, dc_set('c', :k3, 7) - 7);}),
	script('READ COMMITTED', q{ADD(c, 2) INSERT INTO taken VALUES ('c', :k1, dc_delete('c', :k1)); ADD(c, 1)}));

# load(NAME): a test; a third of the transactions are others
sub load
{
	my ($name) = @_;
	my $all = $clients * $transactions;

	$node->command_checks_all(
		[ 'pgbench', '-n', '-c', $clients, '-j', '2', '-t', $transactions,
			map({ ('-f', "$_\@2") } @writers), map({ ('-f', "$_\@2") } @others),
			$node->connstr('postgres') ],
		0, [qr{actually processed: $all/$all\b}], [qr/^$/], $name);
	is(sql($node, 'postgres', 'SELECT check_snapshot()'), '', "$name: final sums are those of the audit");
	is(sql($node, 'postgres', 'SELECT dc_compact() < 0; SELECT check_snapshot()'), "f\n", "$name: also compacted");
	return;
}

my $standby = PostgreSQL::Test::Cluster->new('totals_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\n");
$standby->start;
my $reads = start_command('pgbench', '-n', '-c', '1', '-t', torture(100, 3000),
	'-f', file_of('standby.sql', "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT check_snapshot();\nCOMMIT;\n"),
	$standby->connstr('postgres'));

load('as it is');

# The old snapshot sees what it saw, all the time.
my $old = dc_session($node, 'postgres');
my $sees = q{SELECT string_agg(dc_get('c', k::text)::text, ' '), dc_sum('c') FROM generate_series(1, 10) AS k; SELECT check_snapshot()};
$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $first = $old->run($sees);
load('while an old snapshot is held');
is($old->run($sees), $first, 'which sees what it saw');
$old->run('COMMIT');
$old->quit;

# Several sessions insert each key at once: one of them gets the row.
my $new = 40 * $transactions;
sql($node, 'postgres', "SELECT dc_create('fresh'); CREATE SEQUENCE numbers");
$node->command_ok([ 'pgbench', '-n', '-c', '20', '-j', '2', '-t', $new / 20, '-f',
		file_of('new.sql', "SELECT dc_incr('fresh', 'n' || nextval('numbers') / 10), dc_incr('fresh', 'm' || currval('numbers') / 20);\n"),
		$node->connstr('postgres') ], 'new keys, each by ten sessions or more');
is(sql($node, 'postgres', q{SET enable_indexscan = off; SET enable_indexonlyscan = off;
	SELECT count(*) - count(DISTINCT key), count(*) > 100, (SELECT count(*) > 0 FROM fresh_shard), dc_sum('fresh') FROM fresh}),
	'0|t|t|' . 2 * $new, 'one row a key, and each increment counted');
is(sql($node, 'postgres', q{SELECT dc_compact('fresh') > 0;
	SELECT count(*) - count(DISTINCT key), sum(value), (SELECT coalesce(sum(inc + dec), 0) FROM fresh_shard), dc_sum('fresh') FROM fresh}),
	"t\n0|" . 2 * $new . '|0|' . 2 * $new, 'also compacted');

is(finish_job($reads), 0, 'the standby never differed');
$node->wait_for_catchup($standby);
is(sql($standby, 'postgres', 'SELECT check_snapshot(), (SELECT coalesce(sum(inc + dec), 0) FROM c_shard)'), '|0', 'nor does it in the end');
$standby->stop;

is(sql($node, 'postgres', 'SELECT sum(deadlocks) FROM pg_stat_database'), '0', 'no deadlock');
is(join("\n", grep { /ERROR|FATAL|PANIC|WARNING/ && !/canceling autovacuum task/ } split(/\n/, slurp_file($node->logfile))), '', 'no error in the log');

$node->stop;
done_testing();
