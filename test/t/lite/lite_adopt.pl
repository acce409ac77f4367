# From dcounter_lite to the extension and back, in one transaction each, while clients write: they wait for it, and go on. Values, holds, ops and the rows of
# a bound counter are exact.
use strict;
use warnings;

use DcTest;
use DcLite;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('lite', extension => 0);
lite_install($node, 'postgres');
sql($node, 'postgres', q{
	SELECT dc_create('c', op_retention => '3 days'), dc_create('p', partitions => 3), dc_create('bound'), dc_stock_create('s', max_shards => 16);
	SELECT dc_restock('s', 'k', 100000), dc_incr_once('c', 'op', 1, 'first');
	SELECT dcounter_lite.make_writer('c');
	CREATE TABLE rows (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL);
	SELECT dc_bind('bound', 'rows', 'key');
	CREATE TABLE log (what text, key text, amount bigint);
	INSERT INTO log VALUES ('c', 'op', 1)});
sql($node, 'postgres', "SELECT dc_hold('s', 'k', 7, '1 hour', '00000000-0000-0000-0000-000000000001')");

my $client = file_of('client', q{
\set k random(1, 5)
\set op random(1, 1000000)
BEGIN;
SELECT dc_incr('c', 'k' || :k, :k);
SELECT dc_incr('p', 'k' || :k, -:k);
INSERT INTO log VALUES ('c', 'k' || :k, :k), ('p', 'k' || :k, -:k);
INSERT INTO rows (key) VALUES ('k' || :k);
WITH t AS MATERIALIZED (SELECT dc_take('s', 'k', :k) AS t) INSERT INTO log SELECT 's', 'k', -:k FROM t WHERE t;
INSERT INTO log SELECT 'c', 'op', 1 WHERE dc_incr_once('c', 'op', 1, 'op' || :op);
COMMIT;
});
my $differences = q{
	SELECT what, key FROM (SELECT what, key, sum(amount) AS n FROM log WHERE what IN ('c', 'p') GROUP BY what, key) AS l WHERE n <> dc_get(what::regclass, key)
	UNION ALL SELECT 's', 'k' WHERE dc_get('s', 'k') <> 99993 + (SELECT coalesce(sum(amount), 0) FROM log WHERE what = 's')
	UNION ALL SELECT 'units', key FROM s_shard GROUP BY key HAVING sum(units) <> dc_get('s', key) OR min(units) < 0
	UNION ALL SELECT 'bound', key FROM dc_source_check('bound')
	UNION ALL SELECT 'ops', op_id FROM c_op GROUP BY op_id HAVING count(*) > 1
	UNION ALL SELECT 'ops', 'sum' WHERE dc_get('c', 'op') <> (SELECT count(*) FROM c_op WHERE op_id ~ '^(op|first)')};

# The blocks of doc/lite.md, with the binding that the page has in words
my $page = slurp_file("$ENV{TESTDIR}/doc/lite.md");
my ($to_c) = $page =~ /<!-- run by test\/t\/lite\/lite_adopt.pl: to the extension -->\n```sql on lite\n(.*?)```/s or die 'doc/lite.md: to the extension';
my ($to_lite) = $page =~ /<!-- run by test\/t\/lite\/lite_adopt.pl: back -->\n```sql on lite\n(.*?)```/s or die 'doc/lite.md: back';
my $lock = "BEGIN;\nLOCK TABLE rows, c, p, s, bound;\n";
my $bind_c = "SELECT dc_bind('bound', 'rows', 'key');\n";
my $bind_lite = "SELECT dc_bind('bound', 'rows', 'key');\n";
my $lite = lite_file('');

# move(NAME, SCRIPT): while clients write; a client that comes to a call in between may find no such function, and its transaction does not commit
sub move
{
	my ($name, $script) = @_;
	my $job = start_command('bash', '-c', "for i in 1 2 3 4 5 6 7 8; do pgbench -n -f $client -c 8 -j 1 -T 1 '" . $node->connstr('postgres') . "'; done");
	my $before = sql($node, 'postgres', 'SELECT count(*) FROM log');

	wait_for($node, 'postgres', "SELECT count(*) > $before + 200 FROM log", 't');
	my $file = file_of('move.sql', $script);
	my $start = Time::HiRes::time();
	my $moved;
	# a deadlock with a client that has locked tables in another order is possible
	foreach my $try (1 .. 10)
	{
		$moved = $node->psql('postgres', undef, extra_params => [ '-v', 'ON_ERROR_STOP=1', '-f', $file ], stdout => \my $out, stderr => \my $err);
		last if defined $moved && $moved == 0;
		note($err);
	}
	is($moved, 0, "$name: moved in " . sprintf('%.1f', Time::HiRes::time() - $start) . ' s');
	my $after = sql($node, 'postgres', 'SELECT count(*) FROM log');
	finish_job($job);
	cmp_ok(sql($node, 'postgres', 'SELECT count(*) FROM log'), '>', $after, "$name: clients go on");
	is(sql($node, 'postgres', $differences), '', "$name: exact");
	return;
}

foreach my $round (1 .. torture(1, 5))
{
	move("lite to the extension, $round", $lock . ($to_c =~ s/^BEGIN;\n//r =~ s/COMMIT;/${bind_c}COMMIT;/r));
	is(sql($node, 'postgres', "SELECT count(*) FROM pg_extension WHERE extname = 'dcounter'"), '1', "$round: it is the extension");
	is(sql($node, 'postgres', "SELECT max_shards, op_retention FROM dcounter.counter WHERE counter IN ('c'::regclass, 's'::regclass) ORDER BY 1"), "16|7 days\n64|3 days", "$round: settings");
	is(sql($node, 'postgres', "SELECT dc_incr_once('c', 'op', 1, 'first'), (SELECT key || qty FROM dc_holds('s')), dc_take('s', 'k', 1000000)"), 'f|k7|f', "$round: holds and ops");
	move("and back, $round", $lock . ($to_lite =~ s/^BEGIN;\n//r =~ s/^\\i .*$/\\i $lite/mr =~ s/COMMIT;/${bind_lite}COMMIT;/r));
	is(sql($node, 'postgres', "SELECT count(*) FROM pg_extension WHERE extname = 'dcounter'"), '0', "$round: it is lite");
	is(sql($node, 'postgres', "SELECT dc_incr_once('c', 'op', 1, 'first'), (SELECT key || qty FROM dc_holds('s'))"), 'f|k7', "$round: holds and ops");
	sql($node, 'postgres', "SELECT dc_alter('c', op_retention => '3 days'), dc_alter('s', max_shards => 16)");
}
is(sql($node, 'postgres', "SELECT dc_hold_release('s', '00000000-0000-0000-0000-000000000001')"), 'released', 'the hold is released in the end');

# What dcounter_lite cannot have is not adopted.
sql($node, 'postgres', "SELECT dcounter_lite.leave(); DROP SCHEMA dcounter_lite CASCADE; DO \$\$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname ~ '^dc_' AND pronamespace = 'public'::regnamespace LOOP EXECUTE format('DROP ROUTINE %s', f); END LOOP; END \$\$; CREATE EXTENSION dcounter");
sql($node, 'postgres', "SELECT dc_region_init('here'); SELECT dc_ledger_create('wallet'), dc_create('spread'), dc_stock_create('shared'); SELECT dc_replicate('spread'), dc_replicate('shared'); DROP EXTENSION dcounter CASCADE");
lite_install($node, 'postgres');
fails_with($node, 'postgres', "SELECT dc_adopt('$_')", '42809', "$_ is not adopted: a ledger, or replicated") foreach 'wallet', 'spread', 'shared';

done_testing();
