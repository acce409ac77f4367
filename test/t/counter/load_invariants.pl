# Invariants under load. Every transaction that counts also writes what it
# counts into an audit table; so in each snapshot, and at the end, the counters
# must equal the sums of the audit. The number of transactions is fixed, not the
# time, and none may fail: no deadlock, no serialization failure.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $clients = 16;
my $transactions = torture(300, 2000);

my $node = dc_node('load', conf => [ 'autovacuum_naptime = 1s', 'deadlock_timeout = 100ms' ]);
sql($node, 'postgres', q{
	SELECT dc_create('c', max_shards => 3), dc_create('p', 'backend', 2, 3), dc_create('inbox'), dc_create('slow', max_shards => 1);
	CREATE TABLE audit (t text, key text, delta bigint);
	CREATE TABLE taken (key text, value bigint);

	-- All counters against the audit and against plain SQL, in one snapshot
	CREATE FUNCTION check_snapshot() RETURNS void LANGUAGE plpgsql STABLE AS $$
	DECLARE
		tab text; many text; again text; plain text; audited text;
		keys text[] := (SELECT array_agg(i::text ORDER BY i) FROM generate_series(1, 12) AS i);
	BEGIN
		FOREACH tab IN ARRAY ARRAY['c', 'p', 'slow'] LOOP
			SELECT string_agg(value::text, ' ' ORDER BY key::int) INTO many FROM dc_get_many(tab::regclass, keys);
			EXECUTE format('SELECT string_agg(coalesce(n, 0)::text, '' '' ORDER BY k::int) FROM unnest($1) AS k LEFT JOIN
				(SELECT key, sum(n) AS n FROM (SELECT key, value AS n FROM %1$I UNION ALL
					SELECT key, inc - dec FROM %1$s_shard) AS u GROUP BY key) AS s ON s.key = k', tab)
				INTO plain USING keys;
			SELECT string_agg(coalesce(n, 0)::text, ' ' ORDER BY k::int) INTO audited FROM unnest(keys) AS k LEFT JOIN
				(SELECT key, sum(delta) AS n FROM audit WHERE t = tab GROUP BY key) AS s ON s.key = k;
			SELECT string_agg(dc_get(tab::regclass, k)::text, ' ' ORDER BY k::int) INTO again FROM unnest(keys) AS k;
			IF many <> again OR many <> plain OR many <> audited
				OR dc_sum(tab::regclass) <> (SELECT coalesce(sum(delta), 0) FROM audit WHERE t = tab) THEN
				RAISE 'counter % in one snapshot: dc_get_many %, dc_get %, rows %, audit %', tab, many, again, plain, audited;
			END IF;
		END LOOP;
	END $$;});

my $scripts = 0;

# script(LEVEL, BODY): a pgbench script, with three keys, deltas and a table
sub script
{
	my ($level, $body) = @_;
	my $head = '';

	$head .= "\\set k$_ random_zipfian(1, 12, 1.2)\n\\set d$_ random(-5, 20)\n" foreach 1 .. 3;
	$body =~ s/ADD\((\w+), (\d)\)/SELECT dc_incr('$1', :k$2, :d$2); INSERT INTO audit VALUES ('$1', :k$2, :d$2);/g;
	return file_of('script' . ++$scripts . '.sql', "${head}BEGIN ISOLATION LEVEL $level;\n$body\nCOMMIT;\n");
}

my @writers;
foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	push @writers,
	  # keys in any order, twice the same, two tables
	  script($level, 'ADD(c, 1) ADD(c, 2) ADD(p, 3) ADD(c, 3) ADD(p, 1) ADD(slow, 1)'),
	  script($level, q{
		SELECT dc_incr_many('c', ARRAY[:k3, :k2, :k1]::text[], ARRAY[:d3, :d2, :d1]::bigint[]);
		INSERT INTO audit VALUES ('c', :k1, :d1), ('c', :k2, :d2), ('c', :k3, :d3);
		SELECT dc_decr('p', :k1, :d1), dc_incr_hashed('p', :k2, 'event :d2', :d2);
		INSERT INTO audit VALUES ('p', :k1, -(:d1)), ('p', :k2, :d2);}),
	  # savepoints, with early writes inside
	  script($level, q{ADD(c, 3)
		SAVEPOINT a; ADD(c, 1) ADD(p, 2) SELECT dc_apply(); ADD(c, 2) ROLLBACK TO a; ADD(c, 2)
		SAVEPOINT b; ADD(p, 1) SAVEPOINT d; ADD(c, 3) SELECT dc_apply(); RELEASE d; RELEASE b; ADD(c, 1)}),
	  script($level, 'ADD(c, 1) SELECT dc_apply(); ADD(c, 1) ADD(p, 2) SELECT dc_apply(); ADD(c, 1) ADD(p, 2) ADD(slow, 3)'),
	  script($level, "ADD(c, 1) ADD(p, 2) ADD(slow, 3) ROLLBACK; BEGIN;");
}
# A transaction's view of its own increments, in a fixed snapshot: an error (division by zero) if it
# is not what it should be.
push @writers, script('REPEATABLE READ', q{
	SELECT dc_get('c', :k1) AS before \gset
	SELECT 1 / (dc_incr_returning('c', :k1, :d1) = :before + :d1)::int;
	SELECT dc_apply(); SELECT 1 / (dc_get('c', :k1) = :before + :d1)::int;
	INSERT INTO audit VALUES ('c', :k1, :d1);});
my @others = (
	script('REPEATABLE READ', 'SELECT check_snapshot(); SELECT check_snapshot();'),
	file_of('compact.sql', "SELECT dc_compact();\n"),
	file_of('compact_some.sql', "SELECT dc_compact('c', 3);\n"));

# load(NAME, WRITERS, OTHERS): a test; a third of the transactions are others
sub load
{
	my ($name, $writers, $others) = @_;
	my $all = $clients * $transactions;

	$node->command_checks_all(
		[ 'pgbench', '-n', '-c', $clients, '-j', '2', '-t', $transactions,
			map({ ('-f', "$_\@2") } @$writers), map({ ('-f', "$_\@" . int(@$writers / @$others)) } @$others),
			$node->connstr('postgres') ],
		0, [qr{actually processed: $all/$all\b}], [qr/^$/], $name);
	return;
}

load('writers of all isolation levels, readers and compaction', \@writers, \@others);

is(sql($node, 'postgres', 'SELECT check_snapshot()'), '', 'final sums are those of the audit');
is(sql($node, 'postgres', 'SELECT dc_compact() < 0; SELECT check_snapshot()'), "f\n", 'also compacted');
is(sql($node, 'postgres', 'SELECT dc_compact(); SELECT (SELECT count(*) FROM c_shard) + (SELECT count(*) FROM p_shard) + (SELECT count(*) FROM slow_shard)'),
	"0\n0", 'an idle key leaves no shard row');

# Read and clear while others write: the taken and the remaining amounts add up.
load('dc_reset, dc_delete and dc_set beside writers', [
	script('READ COMMITTED', 'ADD(inbox, 1) ADD(inbox, 2)'),
	script('SERIALIZABLE', 'ADD(inbox, 1) ADD(inbox, 2)') ], [
	script('READ COMMITTED', q{INSERT INTO taken VALUES (:k1, dc_reset('inbox', :k1));}),
	script('READ COMMITTED', q{INSERT INTO taken VALUES (:k1, dc_delete('inbox', :k1));}),
	script('READ COMMITTED', q{INSERT INTO taken VALUES (:k1, dc_set('inbox', :k1, 7) - 7);}),
	file_of('compact_inbox.sql', "SELECT dc_compact('inbox');\n") ]);
is(sql($node, 'postgres', q{
	SELECT key, sum(delta), coalesce((SELECT sum(value) FROM taken AS t WHERE t.key = a.key), 0) + dc_get('inbox', key)
	FROM audit AS a WHERE t = 'inbox' GROUP BY key
	HAVING sum(delta) <> coalesce((SELECT sum(value) FROM taken AS t WHERE t.key = a.key), 0) + dc_get('inbox', key)}),
	'', 'every increment was taken once or is still there');

is(sql($node, 'postgres', 'SELECT sum(deadlocks) FROM pg_stat_database'), '0', 'no deadlock');
is(join("\n", grep { /ERROR|FATAL|PANIC|WARNING/ && !/canceling autovacuum task/ } split(/\n/, slurp_file($node->logfile))), '', 'no error in the log');

$node->stop;
done_testing();
