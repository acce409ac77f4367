# Whatever owners lock, or have written directly, the views of all tables can be read; and objects
# that depend on functions or have the name of a trigger do not prevent an update of the extension.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('main', conf => [ "shared_preload_libraries = 'dcounter'", 'fsync = off', "dcounter.compact_interval = '1h'" ]);
my @views = ('dc_tables', 'dc_windows', 'dc_stat_counters', 'dc_stat_shards', 'dc_stat_buffer', 'dc_stat_outbox');
my $owner = dc_session($node, 'postgres');

# look(NAME): each view answers soon
sub look
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	foreach my $view (@views)
	{
		my ($ret, $out, $err) = $node->psql('postgres', "SET statement_timeout = '20s'; SET client_min_messages = error; SELECT count(*) > 0 FROM $view", on_error_stop => 1);
		is("$ret $err", '0 ', "$name: $view");
	}
	return;
}

sql($node, 'postgres', q{
	CREATE ROLE mallory LOGIN;
	CREATE SCHEMA m AUTHORIZATION mallory;
	SET ROLE mallory;
	SELECT dc_create('m.c'), dc_window_create('m.w', bucket => '1 minute', keep => '1 hour', late => 'drop');
	SELECT dc_incr('m.c', 'a'), dc_incr_at('m.w', 'a', 1, now())});
look('before');
$owner->run('SET ROLE mallory; BEGIN; REINDEX INDEX m.c_pkey');
look('an index is locked');
$owner->run('ROLLBACK; BEGIN; LOCK TABLE m.w_w0, m.w_dropped');
look('tables of a windowed counter are locked');
is(sql($node, 'postgres', q{SELECT bytes IS NULL, dropped IS NULL FROM dc_windows}), 't|t', 'what cannot be known is NULL');
$owner->run('ROLLBACK');
is(sql($node, 'postgres', q{SELECT bytes > 0, dropped FROM dc_windows}), 't|0', 'and is known again');
is(sql($node, 'postgres', q{BEGIN; SELECT bytes > 0 FROM dc_windows; SELECT count(*) FROM pg_locks WHERE relation = 'm.w_w0'::regclass AND pid = pg_backend_pid(); COMMIT}), "t\n0", 'who looks keeps no lock on what is emptied');
sql($node, 'postgres', q{
	SET ROLE mallory;
	INSERT INTO m.c_shard (key, shard, inc, "dec", updated_at) VALUES ('x', 1, 9223372036854775807, 0, '-infinity'), ('x', 2, 9223372036854775807, 0, '-infinity');
	INSERT INTO m.w_dropped (key, inc, "dec") VALUES ('dropped', 9223372036854775807, 0);
	INSERT INTO m.w_dropped_shard (key, shard, inc, "dec") VALUES ('dropped', 1, 9223372036854775807, 0)});
look('rows by hand');
$owner->quit;

# The update
sql($node, 'postgres', 'CREATE DATABASE old TEMPLATE template0');
sql($node, 'old', q{
	CREATE EXTENSION dcounter VERSION '0.1.0';
	GRANT CREATE ON SCHEMA public TO mallory;
	SET ROLE mallory;
	SELECT dc_stock_create('stock'), dc_distinct_create('visitors');
	CREATE TABLE source (k text);
	SELECT dc_create('bound');
	CREATE VIEW checked AS SELECT * FROM dc_source_check('bound');
	CREATE VIEW regions AS SELECT * FROM dc_regions();
	CREATE VIEW stat_regions AS SELECT * FROM dc_stat_regions;
	RESET ROLE;
	-- a library of the release before makes no such triggers
	ALTER EVENT TRIGGER dcounter_ddl DISABLE;
	DROP TRIGGER dcounter_change ON stock;
	DROP TRIGGER dcounter_delete ON visitors;
	ALTER EVENT TRIGGER dcounter_ddl ENABLE;
	SET ROLE mallory;
	CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	CREATE CONSTRAINT TRIGGER dcounter_change AFTER INSERT ON stock FOR EACH ROW EXECUTE FUNCTION nothing();
	CREATE CONSTRAINT TRIGGER dcounter_delete AFTER INSERT ON visitors FOR EACH ROW EXECUTE FUNCTION nothing()});
my ($ret, $out, $err) = $node->psql('old', 'ALTER EXTENSION dcounter UPDATE', on_error_stop => 1);
is($ret, 0, 'the update goes on') or diag($err);
like($err, qr/WARNING:  dc_source_check\(.*\) is kept in schema dcounter/, 'a function that a view calls stays');
like($err, qr/WARNING:  triggers of stock are not made: /, 'a table whose owner has taken the name is passed over');
like($err, qr/WARNING:  dc_regions\(\) is kept in schema dcounter/, 'and one that has one column more now');
is(sql($node, 'old', q{SELECT dc_region_init('eu') > 0; SELECT region, state FROM regions; SELECT region, state FROM stat_regions; SELECT region, advice IS NULL FROM dc_stat_regions}), "t\neu|active\neu|active\neu|t", 'all three work');
like(sql($node, 'old', 'SELECT pg_get_viewdef($$checked$$)'), qr/dcounter\.dc_source_check/, 'the view goes on with it');
$node->stop;
done_testing();
