# Counter tables that Citus distributes: isolation levels, and parts of a query that Citus runs elsewhere.
use strict;
use warnings;

use DcCitus;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

citus_or_skip();

my ($coordinator, @workers) = citus_nodes(conf => [ "dcounter.compact_interval = '1d'" ]);

sub q_
{
	return sql($coordinator, 'postgres', $_[0]);
}

citus_counter($coordinator, 'likes');

# A worker does not tell whether there are rows that are too new for a snapshot
foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	my $begin = "BEGIN ISOLATION LEVEL $level; SELECT dc_get('likes', 'a');";

	fails_with($coordinator, 'postgres', "$begin SELECT dc_set('likes', 'new', 100)", '0A000', "$level: dc_set");
	fails_with($coordinator, 'postgres', "$begin SELECT dc_reset('likes', 'a')", '0A000', "$level: dc_reset");
	fails_with($coordinator, 'postgres', "$begin SELECT dc_delete('likes', 'a')", '0A000', "$level: dc_delete");
	q_("$begin SELECT dc_incr('likes', 'a', 2); COMMIT");
}
is(q_("SELECT dc_get('likes', 'a')"), 4, 'increments are written at all levels');
q_("BEGIN; SELECT dc_set('likes', 'a', 7); COMMIT");
is(q_("SELECT dc_get('likes', 'a')"), 7, 'READ COMMITTED has setters');

# A coordinator with shards: Citus calls functions in parts of a query, on connections of its own
q_("SELECT citus_set_node_property('" . $coordinator->host . "', " . $coordinator->port . ", 'shouldhaveshards', true)");
q_("CREATE TABLE events (key text, n int); SELECT create_distributed_table('events', 'key', shard_count => 12, colocate_with => 'none')");
q_("INSERT INTO events SELECT 'e' || i, 1 FROM generate_series(1, 200) AS i");
cmp_ok(q_("SELECT count(*) FROM citus_shards WHERE table_name = 'events'::regclass AND nodeport = " . $coordinator->port), '>', 1, 'the coordinator has shards');
foreach my $setting ('', 'SET citus.enable_local_execution = off;', 'SET citus.allow_nested_distributed_execution = on;')
{
	my $before = q_("SELECT dc_sum('likes')");
	my ($status) = $coordinator->psql('postgres', "$setting BEGIN; SELECT dc_incr('likes', key) FROM events; COMMIT", on_error_stop => 1);
	my $counted = q_("SELECT dc_sum('likes')") - $before;

	is($counted, $status == 0 ? 200 : 0, "$setting a query of all events counts all of them, or fails");
}
my $before = q_("SELECT dc_sum('likes')");

q_("WITH r AS MATERIALIZED (SELECT key FROM events) SELECT dc_incr('likes', key) FROM r");
is(q_("SELECT dc_sum('likes')") - $before, 200, 'with the result of a query');

# One plan serves a session for all keys, amounts and places: shards that are here, too
q_("SELECT dc_create('here'); SELECT create_distributed_table('here', 'key', shard_count => 8, colocate_with => 'none');
	SELECT create_distributed_table('here_shard', 'key', colocate_with => 'here')");
cmp_ok(q_("SELECT count(*) FROM citus_shards WHERE table_name = 'here'::regclass AND nodeport = " . $coordinator->port), '>', 1, 'a counter table with shards here');
q_(join('', map { sprintf "SELECT dc_incr('here', 'h%d', %d); SELECT dc_decr('here', 'd%d', %d); ", $_ % 20, $_, $_ % 20, $_ } 1 .. 100));
is(q_("SELECT count(*) FROM generate_series(0, 19) AS k WHERE dc_get('here', 'h' || k) <> (SELECT sum(i) FROM generate_series(1, 100) AS i WHERE i % 20 = k)
	OR dc_get('here', 'd' || k) <> -dc_get('here', 'h' || k)"), 0, 'each increment counts for its key');
is(q_('SELECT count(*) FROM here_shard'), 0, 'in rows of totals');

# A lone increment that waits for another one cannot be canceled, as it may have been written by then; nothing is counted twice
my $open = dc_session($coordinator, 'postgres');
my $waits = dc_session($coordinator, 'postgres');
my $pid = $waits->run('SELECT pg_backend_pid()');

q_("SELECT dc_alter('likes', max_shards => 1); SELECT dc_incr('likes', 'lone')");
$open->run("BEGIN; UPDATE likes SET updated_at = now() WHERE key = 'lone'");
$waits->send("SELECT dc_incr('likes', 'lone')");
is(wait_for($coordinator, 'postgres', "SELECT state FROM pg_stat_activity WHERE pid = $pid", 'active'), 'active', 'an increment waits');
q_("SELECT pg_cancel_backend($pid)");
ok(!$waits->answered, 'and does not give up');
$open->run('COMMIT');
is($waits->wait, '', 'it succeeds');
is(q_("SELECT dc_get('likes', 'lone')"), 2, 'and has counted once');
is($waits->run("SELECT dc_incr('likes', 'lone'); SELECT dc_get('likes', 'lone')"), "\n3", 'the session goes on');
$waits->send('SELECT pg_sleep(600)');
is(wait_for($coordinator, 'postgres', "SELECT wait_event FROM pg_stat_activity WHERE pid = $pid", 'PgSleep'), 'PgSleep', 'with another statement');
q_("SELECT pg_cancel_backend($pid)");
is($waits->wait, 'ERROR 57014', 'which can be canceled');

$_->stop foreach $coordinator, @workers;
done_testing();
