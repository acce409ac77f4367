# dcounter_lite in its forms: as a file and as an extension, both by roles without special rights; the form for pg_tle on what pg_tle has documented;
# an upgrade by its script. The functions that it has in common with the extension have the same signatures.
use strict;
use warnings;

use DcTest;
use DcLite;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('lite', extension => 0);

# what each function states, by its name and arguments
my $functions = q{
	SELECT p.oid::regprocedure::text || ';' || pg_get_function_result(p.oid) || ' ' || pg_get_function_arguments(p.oid) || ' ' || provolatile::text || proparallel::text || ' ' || procost || ' ' || prorows
	FROM pg_proc AS p WHERE pronamespace = 'public'::regnamespace AND prokind = 'f' ORDER BY 1};
# all of dcounter_lite: functions, tables, triggers, rights, comments
my $catalog = q{
	SELECT p.oid::regprocedure, md5(prosrc), proconfig, provolatile, proparallel, procost, prorows, proacl, obj_description(p.oid, 'pg_proc')
	FROM pg_proc AS p WHERE pronamespace IN ('public'::regnamespace, 'dcounter_lite'::regnamespace) ORDER BY p.oid::regprocedure::text;
	SELECT c.oid::regclass, a.attname, format_type(atttypid, atttypmod), attnotnull, relacl, col_description(c.oid, attnum)
	FROM pg_class AS c JOIN pg_attribute AS a ON attrelid = c.oid AND attnum > 0 WHERE relnamespace = 'dcounter_lite'::regnamespace ORDER BY c.oid::regclass::text, attnum;
	SELECT pg_get_triggerdef(t.oid) FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = tgrelid WHERE relnamespace = 'dcounter_lite'::regnamespace AND NOT tgisinternal ORDER BY 1};
my $use = q{
	SELECT dc_create('likes'), dc_stock_create('seats');
	SELECT dc_incr('likes', 'a', 5), dc_incr_once('likes', 'a', 1, 'op'), dc_restock('seats', 'x', 3);
	SELECT dc_take('seats', 'x');
	CALL dc_maintain();
	SELECT dc_get('likes', 'a'), dc_get('seats', 'x'), dcounter_lite.version() = (SELECT default_version FROM pg_available_extensions WHERE name = 'dcounter')};

sql($node, 'postgres', 'CREATE ROLE plain LOGIN; CREATE DATABASE as_file OWNER plain; CREATE DATABASE as_extension OWNER plain; CREATE DATABASE with_c; CREATE DATABASE upgraded');
sql($node, $_, 'ALTER SCHEMA public OWNER TO plain') foreach 'as_file', 'as_extension';

# as a file
lite_install($node, 'as_file', 'plain');
is(sql($node, 'as_file', "SET ROLE plain; $use" =~ s/\n\t/\n/gr) =~ s/\|+\n|^\n|likes\|seats\n|\|t\|\n|t\n//gmr, '6|2|t', 'as a file, by a role that owns nothing but the database');

# Operators, functions and types of a caller's path that come before those of the server are not used, also by the functions that have no path of their own.
sql($node, 'postgres', 'CREATE DATABASE with_others');
lite_install($node, 'with_others');
my $evil = 'CREATE SCHEMA evil; CREATE DOMAIN evil.text AS pg_catalog.text CHECK (false); CREATE DOMAIN evil.int8 AS pg_catalog.int8 CHECK (false)';
my $raise = "LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END'";
foreach my $type ('text', 'int4', 'int8', 'numeric', 'oid', 'regclass', 'timestamptz', 'bool', 'regtype')
{
	my $t = "pg_catalog.$type";

	$evil .= "; CREATE FUNCTION evil.op($t, $t) RETURNS $t $raise; CREATE FUNCTION evil.cmp($t, $t) RETURNS bool $raise";
	$evil .= "; CREATE OPERATOR evil.$_ (FUNCTION = evil.op, LEFTARG = $t, RIGHTARG = $t)" foreach '+', '-', '*', '/', '%', '&', '|', '||';
	$evil .= "; CREATE OPERATOR evil.$_ (FUNCTION = evil.cmp, LEFTARG = $t, RIGHTARG = $t)" foreach '=', '<>', '<', '<=', '>', '>=';
	$evil .= "; CREATE FUNCTION evil.$_($t) RETURNS pg_catalog.text $raise" foreach 'format', 'to_regclass', 'to_regproc', 'pg_typeof', 'hashtextextended';
}
$evil .= "; CREATE FUNCTION evil.$_() RETURNS timestamptz $raise" foreach 'now', 'clock_timestamp', 'statement_timestamp', 'pg_backend_pid', 'random', 'pg_current_xact_id';
sql($node, 'with_others', $evil);
like(
	sql($node, 'with_others', q{
	CREATE TABLE rows (key pg_catalog.text NOT NULL);
	SET search_path = public, evil, pg_catalog;
	SELECT dc_create('likes'), dc_stock_create('seats'), dc_create('bound');
	SELECT dc_bind('bound', 'rows', 'key');
	SELECT dc_incr('likes', 'a', 5), dc_incr('likes', 7), dc_decr('likes', 'a'), dc_incr_once('likes', 'a', 1, 'op'), dc_restock('seats', 'x', 9);
	SELECT dcounter_lite.make_writer('likes'), dcounter_lite.make_writer('seats');
	INSERT INTO rows VALUES ('a'), ('b');
	SELECT dc_incr('likes', 'a', 5), likes_incr('a', 2), dc_incr_many('likes', '{a,b}', '{1,1}'), dc_incr_returning('likes', 'a', 1), dc_incr_once('likes', 'a', 1, 'op2'), dc_load('likes', '{a}', '{1}');
	SELECT dc_take('seats', 'x'), dc_take('seats', 'x', 2), dc_take_up_to('seats', 'x', 1), dc_take_all('seats', '{x}', '{1}'), dc_hold('seats', 'x', 2, '1 hour', '00000000-0000-0000-0000-000000000001');
	SELECT dc_hold_confirm('seats', '00000000-0000-0000-0000-000000000001', 1);
	CALL dc_maintain();
	SELECT dc_compact();
	SELECT dc_get('likes', 'a'), dc_get('seats', 'x'), dc_get('bound', 'a'), dc_sum('likes'), dc_set('likes', 'a', 3), dc_delete('seats', 'x')}), qr/^16\|3\|1\|18\|16\|3$/m, 'what a path has before the catalog is not used');

# as an extension
SKIP:
{
	skip 'dcounter_lite is not installed as an extension', 4
	  if sql($node, 'postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'dcounter_lite'") eq '0';
	like(sql($node, 'as_extension', "SET ROLE plain; CREATE EXTENSION dcounter_lite; $use"), qr/6\|2\|t$/, 'as an extension, by the same role');
	my $dump = file_of('dump', '');
	system('pg_dump', '-f', $dump, $node->connstr('as_extension')) == 0 or die 'pg_dump';
	sql($node, 'postgres', 'CREATE DATABASE restored OWNER plain');
	$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'it is dumped and restored');
	is(sql($node, 'restored', "SELECT dc_get('likes', 'a'), dc_get('seats', 'x'), dc_incr_once('likes', 'a', 1, 'op'), dc_incr_once('likes', 'a', 1, 'op2')"), '6|2|f|t', 'with the registry');
	fails_with($node, 'as_extension', 'DROP EXTENSION dcounter_lite', '2BP01', 'it cannot be dropped while triggers need it');
	sql($node, 'as_extension', 'SELECT dcounter_lite.leave(); DROP EXTENSION dcounter_lite');
	is(sql($node, 'as_extension', "SELECT sum(inc) - sum(dec) FROM (SELECT inc, dec FROM likes UNION ALL SELECT inc, dec FROM likes_shard) AS r"), '6', 'and leaves the tables when it is');
}

# for pg_tle, of which there are the functions that the script calls
sql($node, 'postgres', q{
	CREATE SCHEMA pgtle;
	CREATE TABLE pgtle.extension (name text, version text, description text, body text);
	CREATE FUNCTION pgtle.install_extension(name text, version text, description text, body text) RETURNS boolean LANGUAGE sql AS
		'INSERT INTO pgtle.extension VALUES ($1, $2, $3, $4) RETURNING true';
	CREATE FUNCTION pgtle.available_extensions() RETURNS TABLE (name name, default_version name) LANGUAGE sql AS 'SELECT name, version FROM pgtle.extension';
	CREATE FUNCTION pgtle.available_extension_versions() RETURNS TABLE (name name, version name) LANGUAGE sql AS 'SELECT name, version FROM pgtle.extension'});
my $tle = slurp_file(lite_file('-tle'));
fails_with($node, 'postgres', $tle, '55000', 'the script for pg_tle needs it');
$tle =~ s/extname OPERATOR\(pg_catalog.=\) 'pg_tle'/extname OPERATOR(pg_catalog.=) 'plpgsql'/ or die;
sql($node, 'postgres', $tle) foreach 1, 2;
is(sql($node, 'postgres', 'SELECT count(*) FROM pgtle.extension'), '1', 'it registers a version once');
is(sql($node, 'postgres', 'SELECT trim(body, E\'\n\') FROM pgtle.extension'), slurp_file(lite_file('')) =~ s/\n+\z//r, 'with the script of the extension');
sql($node, 'postgres', "UPDATE pgtle.extension SET version = '0.1'");
fails_with($node, 'postgres', $tle, '55000', 'and does not replace another version');

# signatures
lite_install($node, 'upgraded');
sql($node, 'with_c', 'CREATE EXTENSION dcounter');
my %in_lite = map { split /;/, $_, 2 } split /\n/, sql($node, 'upgraded', $functions);
my %in_c = map { split /;/, $_, 2 } split /\n/, sql($node, 'with_c', $functions);
my @other = grep { $in_lite{$_} ne ($in_c{$_} // '') } sort keys %in_lite;
is(join(' ', @other), 'dc_bind(regclass,regclass,text,text,text) dc_source_check(regclass)', 'signatures are those of the extension, but for two of ' . keys %in_lite);

# tables: those of the extension, but for the schema of the functions of triggers, that triggers depend on the extension, and that one which guards amounts of stocks
my @dumps;
foreach my $database ('upgraded', 'with_c')
{
	sql($node, $database, "SELECT dc_create('likes', totals => 'compacted'); SELECT dc_stock_create('seats'); SELECT dc_create('parts', partitions => 2); SELECT dc_incr_once('likes', 'a', 1, 'op')");
	my $dump = file_of("dump_$database", '');
	system('pg_dump', '-s', '-t', 'likes*', '-t', 'seats*', '-t', 'parts*', '-f', $dump, $node->connstr($database)) == 0 or die 'pg_dump';
	push @dumps, slurp_file($dump) =~ s/dcounter_lite\.on_/dcounter.on_/gr =~ s/^\\(un)?restrict.*\n|^ALTER TRIGGER .* DEPENDS ON EXTENSION dcounter;\n//gmr =~ s/^--\n-- Name: seats dcounter_change;.*?^CREATE TRIGGER.*?\n\n+//msr =~ s/\n{2,}/\n\n/gr;
}
is($dumps[0], $dumps[1], 'tables are those of the extension');

# an upgrade: all functions of an older version do something else, one is missing and one is no longer there; everybody may change its registry
my $fresh = sql($node, 'as_file', $catalog =~ s/proacl/CASE WHEN proacl IS NULL THEN 1 END/r =~ s/relacl/1/r);
sql($node, 'upgraded', q{
	DO $$
	DECLARE
		f text;
	BEGIN
		FOR f IN SELECT regexp_replace(pg_get_functiondef(oid), '\$function\$.*\$function\$', '$function$ BEGIN RAISE ''old''; END $function$') FROM pg_proc
			WHERE pronamespace = 'dcounter_lite'::regnamespace AND prolang = (SELECT oid FROM pg_language WHERE lanname = 'plpgsql') LOOP
			EXECUTE f;
		END LOOP;
	END $$;
	DROP FUNCTION dc_op_status;
	CREATE FUNCTION dcounter_lite.compact_lock(counter regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
	DROP TABLE dcounter_lite.change, dcounter_lite.lock;
	DROP TRIGGER on_insert ON dcounter_lite.counter;
	CREATE OR REPLACE TRIGGER on_change BEFORE INSERT OR UPDATE OR DELETE ON dcounter_lite.counter FOR EACH ROW EXECUTE FUNCTION dcounter_lite.on_registry_change();
	GRANT UPDATE, DELETE ON dcounter_lite.counter, dcounter_lite.op_slot, dcounter_lite.source TO PUBLIC});
fails_with($node, 'upgraded', "SELECT dc_get_many('likes', '{a}')", 'P0001', 'an older version');
$node->command_ok([ 'psql', '-Xq1', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('upgraded'), '-f', lite_file('-upgrade') ], 'is upgraded by the script');
is(sql($node, 'upgraded', $catalog =~ s/proacl/CASE WHEN proacl IS NULL THEN 1 END/r =~ s/relacl/1/r), $fresh, 'and is then as a new one');
is(sql($node, 'upgraded', "SELECT dc_get('likes', 'a'), dc_incr_once('likes', 'a', 1, 'op')"), '1|f', 'with the values that were there');
is(sql($node, 'upgraded', q{
	SELECT string_agg(c.relname || ' ' || p, ', ' ORDER BY relname, p) FROM pg_class AS c, unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE}'::text[]) AS p
	WHERE relnamespace = 'dcounter_lite'::regnamespace AND relkind = 'r' AND has_table_privilege('plain', c.oid, p)}),
	'change INSERT, change SELECT, counter INSERT, counter SELECT, lock SELECT, op_slot INSERT, op_slot SELECT, source INSERT, source SELECT', 'and others may add to the registry, but not change it');
is(sql($node, 'upgraded', 'SELECT count(*) = (SELECT count(*) FROM dcounter_lite.counter) FROM dcounter_lite.lock'), 't', 'with a row to lock for each counter');

done_testing();
