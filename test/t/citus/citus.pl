# Counter tables that Citus distributes over two workers: writing, reading, setting, and which counters are refused.
use strict;
use warnings;

use DcCitus;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

citus_or_skip();

my ($coordinator, @workers) = citus_nodes(conf => ["dcounter.compact_interval = '1d'"]);

# q(SQL): on the coordinator
sub q_
{
	return sql($coordinator, 'postgres', $_[0]);
}

sub refused
{
	my ($sql, $state, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return fails_with($coordinator, 'postgres', $sql, $state, $name);
}

# rows_at(WORKERS' TABLE): rows in all of its shards
sub rows_at
{
	my ($table) = @_;

	return q_("SELECT coalesce(sum(result::int8), 0) FROM run_command_on_shards('$table', 'SELECT count(*) FROM %s')");
}

citus_counter($coordinator, 'likes');
is(q_("SELECT totals, compacted_because FROM dc_tables WHERE counter = 'likes'::regclass"), 'direct|', 'rows of totals are written at commit');

# Writing and reading
is(q_("SELECT dc_incr('likes', 'a')"), '', 'a lone increment');
q_("SELECT dc_incr('likes', 'a', 4)");
q_("SELECT dc_decr('likes', 'a', 2)");
q_("BEGIN; SELECT dc_incr('likes', 'k' || i, i) FROM generate_series(1, 40) AS i; COMMIT");
is(q_("SELECT dc_get('likes', 'a')"), 3, 'dc_get');
is(q_("SELECT string_agg(key || '=' || value, ' ') FROM dc_get_many('likes', ARRAY['k7', 'a', 'none', 'k40', 'a'])"),
	'k7=7 a=3 none=0 k40=40 a=3', 'dc_get_many: many keys in one query');
is(q_("SELECT dc_sum('likes')"), 3 + 820, 'dc_sum');
is(q_("SELECT inc, dec, shards FROM dc_info('likes', 'a')"), '5|2|' . q_("SELECT shards FROM dc_info('likes', 'a')"), 'dc_info');
is(q_("SELECT count(*) FROM likes_shard"), rows_at('likes_shard'), 'the rows are on the workers');
is(q_("SELECT pg_relation_size('likes') + pg_relation_size('likes_shard')"), 0, 'and nowhere else');
foreach my $worker (@workers)
{
	cmp_ok(sql($worker, 'postgres', q{SELECT count(*) FROM citus_shards WHERE table_name = 'likes'::regclass AND nodeport = } . $worker->port),
		'>', 0, $worker->name . ' has some');
}

# Keys of other types, odd ones
q_("SELECT dc_incr('likes', 42::bigint), dc_incr('likes', 'c0ffee00-0000-4000-8000-000000000001'::uuid), dc_incr('likes', ''), dc_incr('likes', E'it''s \\\\ \\n')");
is(q_("SELECT dc_get('likes', 42::bigint) + dc_get('likes', 'c0ffee00-0000-4000-8000-000000000001'::uuid) + dc_get('likes', '') + dc_get('likes', E'it''s \\\\ \\n')"),
	4, 'keys of other types, an empty one, one with quotes');
refused("SELECT dc_incr('likes', NULL::text)", '22004', 'no key');
refused("BEGIN; SELECT dc_incr('likes', 'big', 9223372036854775807), dc_incr('likes', 'big', 1); COMMIT", '22003', 'an amount that leaves bigint');
is(q_("SELECT dc_get('likes', 'big')"), 0, 'changes nothing');

# Totals first: nothing is left to compact. A sum that would leave bigint goes to a shard row
q_("SELECT dc_incr('likes', 'first', 2), dc_incr('likes', 'second'); SELECT dc_incr('likes', 'first')");
is(q_("SELECT string_agg(key || '=' || value, ' ' ORDER BY key) FROM likes WHERE key IN ('first', 'second')"), 'first=3 second=1', 'rows of totals');
is(q_("SELECT count(*) FROM likes_shard WHERE key IN ('first', 'second')"), 0, 'and no shard rows');
q_("SELECT dc_incr('likes', 'near', 9223372036854775807); SELECT dc_incr('likes', 'near', 5)");
is(q_("SELECT inc FROM likes_shard WHERE key = 'near'"), 5, 'a sum that would leave bigint');
q_("SELECT dc_delete('likes', 'near')");
q_("SELECT dc_alter('likes', totals => 'compacted'); SELECT dc_incr('likes', 'second'); SELECT dc_alter('likes', totals => 'direct')");
is(q_("SELECT value FROM likes WHERE key = 'second'"), 1, 'a table whose totals are compacted');
is(q_("SELECT dc_get('likes', 'second')"), 2, 'which counts as well');
q_("SELECT dc_delete('likes', 'first'), dc_delete('likes', 'second')");

# Transactions
q_("BEGIN; SELECT dc_incr('likes', 'a', 100); ROLLBACK");
q_("BEGIN; SELECT dc_incr('likes', 'a'); SAVEPOINT s; SELECT dc_incr('likes', 'a', 100), dc_apply(); ROLLBACK TO s; SELECT dc_incr('likes', 'a'); COMMIT");
is(q_("SELECT dc_get('likes', 'a')"), 5, 'rolled back, and to a savepoint');
is(q_("BEGIN; SELECT dc_incr('likes', 'a', 10); SELECT dc_get('likes', 'a'); COMMIT"), "\n15", 'a transaction sees its own');
is(q_("BEGIN; SELECT dc_incr('likes', 'a', 10); SELECT dc_apply(); SELECT dc_get('likes', 'a'); COMMIT"), "\n\n25", 'also when they are written');
foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	q_("BEGIN ISOLATION LEVEL $level; SELECT dc_get('likes', 'a'); SELECT dc_incr('likes', 'a'), dc_incr('likes', 'k1'); COMMIT");
}
is(q_("SELECT dc_get('likes', 'a') || ' ' || dc_get('likes', 'k1')"), '27 3', 'at other isolation levels');
refused("BEGIN; SELECT dc_incr('likes', 'a'); PREPARE TRANSACTION 'x'", '\w{5}', 'PREPARE TRANSACTION: Citus refuses it');
is(q_("SELECT dc_get('likes', 'a')"), 27, 'and nothing counts');
q_("PREPARE p(text) AS SELECT dc_incr('likes', \$1); SET plan_cache_mode = force_generic_plan; " . "EXECUTE p('a'); " x 8 . "SELECT dc_get('likes', 'a')");
is(q_("SET plan_cache_mode = force_generic_plan; SELECT dc_get('likes', 'a')"), 35, 'generic plans');

# What fails after the increment undoes it, a lone one, too
q_(q{CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES child DEFERRABLE INITIALLY DEFERRED)});
refused("BEGIN; SELECT dc_incr('likes', 'a'); INSERT INTO child VALUES (1, 7); COMMIT", '23503', 'a constraint that is checked at COMMIT');
is(q_("SELECT dc_get('likes', 'a')"), 35, 'and the increment is undone');
q_(q{CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM dc_incr(''likes'', ''a''); RAISE ''no''; END';
	CREATE TABLE t (i int); CREATE CONSTRAINT TRIGGER f AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fails()});
refused("INSERT INTO t VALUES (1)", 'P0001', 'a deferred trigger that counts and fails');
is(q_("SELECT dc_get('likes', 'a')"), 35, 'counts nothing');

# Setters, loading, totals
is(q_("SELECT dc_set('likes', 'a', 1000)"), 35, 'dc_set');
is(q_("SELECT dc_reset('likes', 'k9')"), 9, 'dc_reset');
is(q_("SELECT dc_delete('likes', 'k8')"), 8, 'dc_delete');
is(q_("SELECT string_agg(value::text, ' ') FROM dc_get_many('likes', ARRAY['a', 'k9', 'k8'])"), '1000 0 0', 'and what is there then');
is(q_("SELECT dc_load('likes', ARRAY['l1', 'l2', 'a'], ARRAY[10, -3, 1]::bigint[])"), 3, 'dc_load');
is(q_("SELECT string_agg(value::text, ' ') FROM dc_get_many('likes', ARRAY['l1', 'l2', 'a'])"), '10 -3 1001', 'and what is there then');
cmp_ok(q_("SELECT dc_compact('likes')"), '>', 30, 'dc_compact');
is(q_("SELECT value FROM dc_total('likes', 'a')"), 1001, 'dc_total');
is(q_("SELECT string_agg(key || '=' || value, ' ') FROM dc_top('likes', 3)"), 'a=1001 k40=40 k39=39', 'dc_top');
is(q_("SELECT dc_set('likes', 'a', 7), dc_get('likes', 'a')"), '1001|7', 'dc_set of a key with a row of totals');
is(q_("SELECT dc_get('likes', 'k3', max_staleness => '1 min')"), 3, 'dc_get that may be old');
q_("SELECT dc_set('likes', 'k3', 33)");
is(q_("SELECT dc_get('likes', 'k3', max_staleness => '1 min')"), 33, 'is not older than what was set');
is(q_("SELECT sum(value) FROM likes"), q_("SELECT dc_sum('likes')") - q_("SELECT coalesce(sum(inc - dec), 0) FROM likes_shard"), 'SQL on the table');

# Rights
q_(q{CREATE ROLE someone; CREATE ROLE counts; GRANT INSERT, UPDATE, SELECT ON likes TO counts});
refused("SET ROLE someone; SELECT dc_incr('likes', 'a')", '42501', 'a role without rights');
refused("SET ROLE someone; SELECT dc_get('likes', 'a')", '42501', 'which may not read either');
is(q_("SET ROLE counts; SELECT dc_incr('likes', 'a'); SELECT dc_get('likes', 'a')"), "\n8", 'a role with rights on the table of totals alone');

# On a worker
fails_with($workers[0], 'postgres', "SELECT dc_incr('likes', 'a')", '42809', 'on a worker: not a counter table');
sql($workers[0], 'postgres', "SET citus.enable_ddl_propagation = off; SELECT dc_adopt('likes')");
fails_with($workers[0], 'postgres', "SELECT dc_incr('likes', 'a')", '0A000', 'also if it was adopted there');
fails_with($workers[0], 'postgres', "SELECT dc_get('likes', 'a')", '0A000', 'nor is it read there');
is(q_("SELECT dc_get('likes', 'a')"), 8, 'nothing has counted');

# Local tables beside it are written without SQL, stocks too
q_("SELECT dc_create('here'); SELECT dc_incr('here', 'a')");
is(q_("SELECT dc_get('here', 'a') || ' ' || totals FROM dc_tables WHERE counter = 'here'::regclass"), '1 direct', 'a local counter table is as without Citus');
q_("SELECT dc_stock_create('seats'); SELECT dc_restock('seats', 'a', 3)");
is(q_("SELECT dc_take('seats', 'a', 2)"), 't', 'a stock');

# Others
q_("SELECT dc_create('half'); SELECT create_distributed_table('half', 'key')");
refused("SELECT dc_incr('half', 'a')", '0A000', 'one of two tables is distributed');
q_("SELECT create_distributed_table('half_shard', 'key', colocate_with => 'half'); SELECT dc_incr('half', 'a')");
is(q_("SELECT dc_get('half', 'a')"), 1, 'and when both are, it works');
q_("SELECT dc_create('apart'); SELECT create_distributed_table('apart', 'key', shard_count => 4, colocate_with => 'none');
	SELECT create_distributed_table('apart_shard', 'key', shard_count => 6, colocate_with => 'none')");
refused("SELECT dc_incr('apart', 'a')", '0A000', 'not colocated');
q_("SELECT dc_create('copied'); SELECT create_reference_table('copied'); SELECT create_reference_table('copied_shard')");
refused("SELECT dc_incr('copied', 'a')", '0A000', 'reference tables');
refused("SELECT dc_compact('copied')", '0A000', 'are not compacted either');
q_("SELECT dc_create('buf', mode => 'buffered'); SELECT dc_incr('buf', 'a', 5), dc_incr('buf', 'b', 2)");
q_("SELECT create_distributed_table('buf', 'key'), create_distributed_table('buf_shard', 'key', colocate_with => 'buf')");
refused("SELECT dc_incr('buf', 'a')", '0A000', 'buffered');
refused("SELECT dc_get('buf', 'a')", '0A000', 'nor is it read');
q_("SELECT dc_alter('buf', mode => 'exact')");
is(q_("SELECT dc_get('buf', 'a') + dc_get('buf', 'b')"), 7, 'made exact: what was in memory is there');
refused("SELECT dc_alter('buf', mode => 'buffered')", '42809', 'nor can it be made buffered');
refused("SELECT dc_incr_once('likes', 'a', 1, 'op1')", '0A000', 'ops once');
refused("SELECT dc_alter('likes', trend => '1 day')", '0A000', 'trends');
q_("CREATE TABLE source (id int PRIMARY KEY, k text)");
refused("SELECT dc_bind('likes', 'source', 'k')", '42809', 'sources');
refused("SELECT dc_replicate('likes')", '\w{5}', 'regions');
q_("SELECT dc_create('follows'); SELECT dc_bind('follows', 'source', 'k'); INSERT INTO source VALUES (1, 'a')");

# Tables of other rooms
q_("SELECT dc_distinct_create('visitors'); SELECT create_distributed_table('visitors', 'key')");
refused("SELECT dc_add('visitors', 'a', 'x')", '\w{5}', 'a distinct table');
refused("SELECT dc_distinct('visitors', 'a')", '\w{5}', 'nor is it read');
q_("SELECT dc_window_create('per_hour', '1 hour', '1 day')");
my $slot = q_("SELECT slot FROM dcounter.window_slot WHERE number = 0 ORDER BY slot LIMIT 1");
q_("SELECT create_distributed_table('$slot', 'key'), create_distributed_table('${slot}_shard', 'key', colocate_with => '$slot')");
refused("SELECT dc_incr('$slot', 'a')", '0A000', 'a part of a windowed counter');

# DDL
q_("ALTER TABLE half RENAME TO halves");
q_("SELECT dc_incr('halves', 'a')");
is(q_("SELECT dc_get('halves', 'a') || to_regclass('halves_shard')::text"), '2halves_shard', 'renamed');
q_("DROP TABLE halves");
is(q_("SELECT to_regclass('halves_shard') IS NULL AND NOT EXISTS (SELECT FROM dcounter.counter WHERE counter::text LIKE 'hal%')"), 't', 'DROP TABLE drops both');
q_("SELECT dc_drop('buf'), dc_drop('copied'), dc_drop('apart')");
is(q_("SELECT count(*) FROM pg_dist_partition WHERE logicalrelid::text ~ 'buf|copied|apart'"), 0, 'dc_drop drops both');

$_->stop foreach reverse $coordinator, @workers;
done_testing();
