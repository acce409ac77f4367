# Effects of Citus' own functions on tables of dcounter: which are refused, what is kept, and that
# no amount is lost.
use strict;
use warnings;

use DcCitus;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

citus_or_skip();

my ($coordinator, @workers) = citus_nodes(conf => ["dcounter.compact_interval = '1d'"]);

sub q_
{
	return sql($coordinator, 'postgres', $_[0]);
}

# names_like(PATTERN): tables with such names, those that Citus hides too
sub names_like
{
	return q_("SET citus.override_table_visibility = off; SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relkind = 'r' AND relname ~ '$_[0]'");
}

sub refused
{
	my ($sql, $state, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return fails_with($coordinator, 'postgres', $sql, $state, $name);
}

# error_of(SQL): what is said about it
sub error_of
{
	my ($result, $stdout, $stderr) = $coordinator->psql('postgres', $_[0]);

	return $stderr;
}

# are_tables(NAME...): all of them are there
sub are_tables
{
	return q_('SELECT ' . join(' AND ', map { "to_regclass('$_') IS NOT NULL" } @_)) eq 't';
}

# 1. Functions that make a shard of the table itself
q_("SELECT dc_create('likes'); SELECT dc_incr('likes', 'k' || i, i) FROM generate_series(1, 10) AS i; SELECT dc_compact('likes'); SELECT dc_incr('likes', 'k1', 100)");
foreach my $table ('likes', 'likes_shard')
{
	like(error_of("SELECT citus_add_local_table_to_metadata('$table')"),
		qr/"$table" cannot become a shard of Citus.*create_distributed_table\(\)/s, "citus_add_local_table_to_metadata('$table')");
	like(error_of("SELECT create_distributed_table_concurrently('$table', 'key')"), qr/"$table" cannot become a shard/, "create_distributed_table_concurrently('$table')");
}
refused("SELECT citus_add_local_table_to_metadata('likes')", '0A000', 'refused with 0A000');
is(names_like('^likes'), 'likes likes_shard', 'nothing was renamed');
is(q_("SELECT count(*) FROM pg_dist_partition WHERE logicalrelid::text LIKE 'likes%'"), 0, 'nor is anything in the metadata of Citus');
q_("SELECT dc_incr('likes', 'k1')");
is(q_("SELECT dc_sum('likes')"), 156, 'and all amounts are there');
q_("CREATE TABLE country (code text PRIMARY KEY); SELECT create_reference_table('country')");
like(error_of("ALTER TABLE likes ADD FOREIGN KEY (key) REFERENCES country NOT VALID"), qr/"likes" cannot become a shard/, 'a foreign key to a reference table');
is(q_("SELECT dc_sum('likes')"), 156, 'changes nothing either');

my $long = 'a_counter_whose_name_is_as_long_as_a_name_may_be_at_all';
q_("SELECT dc_create('$long'); SELECT dc_incr('$long', 'a')");
like(error_of("SELECT citus_add_local_table_to_metadata('$long')"), qr/cannot become a shard/, 'a name that Citus shortens');
is(q_("SELECT dc_get('$long', 'a')"), 1, 'it is as it was');
q_("CREATE ROLE plain; GRANT CREATE ON SCHEMA public TO plain; SET ROLE plain; SELECT dc_create('own'); SELECT dc_incr('own', 'a')");
like(error_of("SET ROLE plain; SELECT citus_add_local_table_to_metadata('own')"), qr/cannot become a shard/, 'an owner with no other rights');
is(q_("SET ROLE plain; SELECT dc_get('own', 'a'); ALTER TABLE own RENAME TO owned; DROP TABLE owned; SELECT to_regclass('owned_shard') IS NULL"), "1\nt", 'who may rename and drop it');

# of other rooms
q_("SELECT dc_distinct_create('visitors'); SELECT dc_add('visitors', 'a', 'x' || i) FROM generate_series(1, 50) AS i");
q_("SELECT dc_create('posts', trend => '1 day'); SELECT dc_incr('posts', 'p', 5); SELECT dc_compact('posts'); SELECT dc_incr('posts', 'p', 2)");
q_("SELECT dc_window_create('per_hour', '1 hour', '1 day'); SELECT dc_incr_at('per_hour', 'k', 3, now())");
my $slot = q_("SELECT slot FROM dcounter.window_slot WHERE number = 0 ORDER BY slot LIMIT 1");
foreach my $table ('visitors', 'visitors_delta', 'posts_trend', $slot)
{
	like(error_of("SELECT citus_add_local_table_to_metadata('$table')"), qr/cannot become a shard/, "a local table of Citus: $table");
}
is(q_("SELECT round(estimate) FROM dc_distinct('visitors', 'a')"), 50, 'distinct items are there');
q_("CREATE TABLE plain (i int); SELECT citus_add_local_table_to_metadata('plain')");
is(q_("SELECT count(*) FROM pg_dist_partition WHERE logicalrelid = 'plain'::regclass"), 1, 'a table that is not of dcounter');

# Names that end with a number
q_("ALTER TABLE likes RENAME TO likes_2026; ALTER TABLE likes_2026 RENAME TO likes_102008; ALTER TABLE likes_102008 RENAME TO likes_999999999; ALTER TABLE likes_999999999 RENAME TO likes");
is(q_("SELECT dc_sum('likes') || to_regclass('likes_shard')::text"), '156likes_shard', 'a user may rename a table to any name');
q_(q{DO $$ BEGIN ALTER TABLE likes RENAME TO likes_2026; ALTER TABLE likes_2026 RENAME TO likes; END $$});
is(q_("SELECT dc_sum('likes')"), 156, 'a function too');

# Event triggers were off
q_("SELECT dc_create('blind'); SELECT dc_incr('blind', 'a', 5); SELECT dc_compact('blind'); SELECT dc_incr('blind', 'a', 2), dc_incr('blind', 'b')");
q_("ALTER EVENT TRIGGER dcounter_ddl DISABLE; SELECT citus_add_local_table_to_metadata('blind'); ALTER EVENT TRIGGER dcounter_ddl ENABLE");
my $shard = names_like('^blind_[0-9]+$');
like($shard, qr/^blind_\d+$/, 'a counter table has become a shard');
refused("SELECT dc_incr('$shard', 'a')", '0A000', 'it is not counted in');
refused("SELECT dc_compact('$shard')", '0A000', 'nor compacted');
like(error_of("SELECT dc_get('$shard', 'a')"), qr/has become a shard of Citus.*undistribute_table/s, 'with a hint');
like(error_of("SELECT undistribute_table('blind')"), qr/table public\.blind_shard is kept/, 'made local again: a notice');
ok(are_tables('blind', 'blind_shard'), 'both tables are there');
q_("SELECT dc_adopt('blind'); SELECT dc_incr('blind', 'a')");
is(q_("SELECT dc_get('blind', 'a') + dc_get('blind', 'b')"), 9, 'nothing is lost');
q_("ALTER EVENT TRIGGER dcounter_ddl DISABLE; SELECT citus_add_local_table_to_metadata('blind'); ALTER EVENT TRIGGER dcounter_ddl ENABLE");
q_("DROP TABLE blind");
ok(are_tables('blind_shard'), 'a shard that is dropped takes no sibling along');
q_("DROP TABLE IF EXISTS blind_shard");
q_("SELECT dc_create('half'); SELECT dc_incr('half', 'a', 5)");
q_("ALTER EVENT TRIGGER dcounter_ddl DISABLE; SELECT citus_add_local_table_to_metadata('half_shard'); ALTER EVENT TRIGGER dcounter_ddl ENABLE");
refused("SELECT dc_get('half', 'a')", '0A000', 'the shard table has become a shard');
q_("SELECT undistribute_table('half_shard'); SELECT dc_adopt('half')");
is(q_("SELECT dc_get('half', 'a')"), 5, 'made local again and adopted');

# Adopted as what it must not be
q_("CREATE SCHEMA tenant; SET citus.enable_schema_based_sharding = on; CREATE SCHEMA apart");
q_("SET search_path = apart, public; SELECT dc_create('inside')");
is(q_("SELECT dc_incr('apart.inside', 'a'); SELECT dc_get('apart.inside', 'a')"), "\n1", 'Citus leaves tables alone that a function makes in a distributed schema: they are local');
q_("SELECT dc_create('tenant.likes'); SELECT dc_incr('tenant.likes', 'a', 4)");
q_("SELECT citus_schema_distribute('tenant')");
refused("SELECT dc_get('tenant.likes', 'a')", '0A000', 'a schema that is distributed later');
like(error_of("SELECT dc_incr('tenant.likes', 'a')"), qr/in a distributed schema.*HINT:.*schema that is not distributed/s, 'with a hint');
q_("SELECT citus_schema_undistribute('tenant'); SELECT dc_adopt('tenant.likes')");
is(q_("SELECT dc_get('tenant.likes', 'a')"), 4, 'and no longer');
q_("SELECT dc_create('copied'); SELECT dc_incr('copied', 'a', 3); SELECT create_reference_table('copied'); SELECT create_reference_table('copied_shard')");
like(error_of("SELECT dc_incr('copied', 'a')"), qr/is a reference table.*HINT:.*undistribute_table/s, 'a reference table: a hint');
q_("SELECT undistribute_table('copied'), undistribute_table('copied_shard'); SELECT dc_adopt('copied')");
is(q_("SELECT dc_get('copied', 'a')"), 3, 'which helps');
q_("CREATE TABLE place (LIKE copied INCLUDING ALL); CREATE TABLE place_shard (LIKE copied_shard INCLUDING ALL)");
q_("SELECT citus_add_local_table_to_metadata(t) FROM unnest('{place, place_shard}'::regclass[]) AS t; SELECT dc_adopt('place')");
like(error_of("SELECT dc_incr('place', 'a')"), qr/local table that was added to Citus' metadata.*HINT:.*undistribute_table/s, 'a local table of Citus, adopted: a hint');
q_("SELECT dc_create('one'); SELECT create_distributed_table('one', NULL), create_distributed_table('one_shard', NULL)");
like(error_of("SELECT dc_incr('one', 'a')"), qr/has a single shard.*HINT:.*undistribute_table/s, 'a single shard: a hint');

# 2. Tables of other rooms that Citus recreates
q_("SELECT dc_add('visitors', 'b', 'y')");
q_("SELECT create_distributed_table('visitors', 'key')");
like(error_of("SELECT undistribute_table('visitors')"), qr/table public\.visitors_delta is kept/, 'a distinct table made anew: a notice');
ok(are_tables('visitors', 'visitors_delta'), 'its deltas are there');
q_("SELECT dc_distinct_adopt('visitors')");
is(q_("SELECT round(a.estimate) || ' ' || round(b.estimate) FROM dc_distinct('visitors', 'a') AS a, dc_distinct('visitors', 'b') AS b"), '50 1', 'adopted: no item is lost');
q_("SELECT create_distributed_table('posts', 'key'), create_distributed_table('posts_shard', 'key', colocate_with => 'posts')");
refused("SELECT dc_get('posts', 'p')", '0A000', 'a counter with a trend is not used');
like(error_of("SELECT undistribute_table('posts')"), qr/posts_trend is kept.*posts_shard is kept/s, 'made anew: notices');
ok(are_tables('posts', 'posts_shard', 'posts_trend'), 'all of its tables are there');
is(q_("SELECT count(*) FROM posts_trend"), 1, 'with their rows');
q_("SELECT undistribute_table('posts_shard'); SELECT dc_adopt('posts')");
is(q_("SELECT dc_get('posts', 'p')"), 7, 'and the amounts');
q_("DROP TABLE posts_trend; SELECT dc_alter('posts', trend => '1 day'); DROP TABLE posts");
is(q_("SELECT count(*) FROM pg_class WHERE relname LIKE 'posts%'"), 0, 'DROP TABLE drops all of them');
q_("SELECT create_distributed_table('$slot', 'key'), create_distributed_table('${slot}_shard', 'key', colocate_with => '$slot')");

# 4. What helps a part of a window
my $hint = error_of("SELECT dc_incr('$slot', 'a')");
like($hint, qr/part of a windowed counter.*HINT:.*outside of any windowed counter/s, 'a part of a windowed counter: a hint');
unlike($hint, qr/dc_adopt/, 'that does not name dc_adopt()');

my $tables = names_like('^per_hour');
q_("SELECT undistribute_table('$slot'), undistribute_table('${slot}_shard')");
is(names_like('^per_hour'), $tables, 'made anew, it takes no other table of its window along');

# 3. A conversion that fails, and is rolled back to a savepoint
citus_counter($coordinator, 'votes');
q_("SELECT dc_incr('votes', 'a', 3)");
q_("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END'; CREATE VIEW seen AS SELECT * FROM votes");
my $fail = "SAVEPOINT s; SELECT alter_distributed_table('votes', shard_count => 3, colocate_with => 'nothing_like_that'); ROLLBACK TO s;";
my $fail_late = "SAVEPOINT s; SELECT dc_incr('votes', 'x'), undistribute_table('votes'); ROLLBACK TO s;";
q_("SELECT dc_create('gone')");
foreach my $script ($fail, $fail_late)
{
	my $file = file_of('fails.sql', "\\set ON_ERROR_STOP off\nBEGIN; $script SELECT dc_incr('votes', 'a'); COMMIT;\n");
	my $before = q_("SELECT dc_get('votes', 'a')");

	$coordinator->psql('postgres', undef, extra_params => [ '-f', $file ], on_error_stop => 0);
	is(q_("SELECT dc_get('votes', 'a')"), $before + 1, 'after a conversion that has failed, the transaction counts');
}
$coordinator->psql('postgres', undef, extra_params => [ '-f', file_of('drops.sql', "BEGIN; $fail_late DROP TABLE gone; COMMIT;\n") ], on_error_stop => 0);
is(q_("SELECT to_regclass('gone') IS NULL AND to_regclass('gone_shard') IS NULL"), 't', 'and DROP TABLE drops both tables');
# One that fails within a conversion does not end it
q_(q{CREATE FUNCTION tries() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN BEGIN RAISE ''x''; EXCEPTION WHEN OTHERS THEN NULL; END; END';
	CREATE EVENT TRIGGER atries ON sql_drop EXECUTE FUNCTION tries(); CREATE EVENT TRIGGER ztries ON ddl_command_start EXECUTE FUNCTION tries()});
q_("DROP VIEW seen; SELECT undistribute_table('votes')");
q_("DROP EVENT TRIGGER atries; DROP EVENT TRIGGER ztries");
ok(are_tables('votes_shard'), 'an error that is caught within a conversion does not end it');
q_("SELECT undistribute_table('votes_shard'); SELECT dc_adopt('votes')");
is(q_("SELECT dc_get('votes', 'a')"), 5, 'and nothing is lost');

# A bound counter
q_("CREATE TABLE source (id int PRIMARY KEY, k text); SELECT dc_create('follows'); SELECT dc_bind('follows', 'source', 'k'); INSERT INTO source VALUES (1, 'a')");
q_("SELECT create_distributed_table('follows', 'key')");
refused("SELECT undistribute_table('follows')", '55000', 'a bound counter is not made anew');

# 5. The extension without its library
citus_counter($coordinator, 'far');
q_("SELECT dc_incr('far', 'a', 6); SELECT dc_create('near'); SELECT dc_incr('near', 'a', 2)");
$coordinator->append_conf('postgresql.conf', "shared_preload_libraries = 'dcounter'\n");
$coordinator->restart;
refused("SELECT dc_incr('far', 'a')", '0A000', 'without the library of Citus nothing is counted');
like(error_of("SELECT dc_get('far', 'a')"), qr/library of Citus is not loaded.*shared_preload_libraries/s, 'with a hint');
is(q_("SELECT count(*) FROM dc_tables WHERE counter IN ('far'::regclass, 'near'::regclass)"), 2, 'dc_tables lists all');
is(q_("SELECT dc_incr('near', 'a'); SELECT dc_get('near', 'a')"), "\n3", 'local counters go on');
$coordinator->append_conf('postgresql.conf', "shared_preload_libraries = 'citus, dcounter'\n");
$coordinator->restart;
is(q_("SELECT dc_get('far', 'a')"), 6, 'with the library, all is there');
q_("SELECT dc_incr('far', 'a'); SELECT dc_incr('far', 'a')");
is(q_("SELECT dc_get('far', 'a')"), 8, 'and counts');

$_->stop foreach reverse $coordinator, @workers;
done_testing();
