# What an owner can do to a table, as templates: m.expand() (DcHostile/Code.pm) puts in names
# of the moment.
#   %table %column %other   a table of its own, and two of its columns
#   %room                   a counter table that the table belongs to
#   %table2 %part %child    another one; a partition or child of it; any that it has made
#   %pkey %constraint %index %trigger
#   %text                   one of its columns of words
#   %type %using            any type, and an expression that makes it of the column
#   %literal %bare %new     the table's name quoted and without schema, and one that is free
#   %junk                   a value that may well be wrong for the column
package DcHostile::Ddl;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(templates types);

# types: [name, how to make it of anything, distinct if that is]
sub types
{
	return (
		[ 'text COLLATE "C"', '%::text' ], [ 'text COLLATE pg_catalog."default"', '%::text' ], [ 'name', '%::text::name' ], [ 'name', '%::text::name' ], [ 'varchar(2000)', '%::text' ], [ 'bytea', "convert_to(%::text, 'UTF8')" ],
		[ 'bigint', 'hashtextextended(%::text, 0)' ], [ 'integer', 'hashtext(%::text)' ], [ 'smallint', '(hashtext(%::text) % 1000)::smallint' ], [ 'numeric', 'hashtextextended(%::text, 0)::numeric' ],
		[ 'uuid', 'md5(%::text)::uuid' ], [ 'jsonb', 'to_jsonb(%::text)' ], [ 'interval', 'make_interval(secs => hashtext(%::text))' ], [ 'timestamptz', "timestamptz '2020-01-01' + make_interval(secs => hashtext(%::text) / 1000)" ],
		[ 'float8', 'hashtextextended(%::text, 0)::float8' ], [ 'boolean', 'hashtext(%::text) % 2 = 0' ], [ '"char"', 'left(%::text, 1)::"char"' ], [ 'text[]', 'ARRAY[%::text]' ], [ 'oid', '(hashtext(%::text)::bigint & 1048575)::oid' ],
		[ 'm.comp', 'ROW(%::text, 1)::m.comp' ], [ 'm.dom', '%::text::m.dom' ], [ 'm.num', 'hashtextextended(%::text, 0)::m.num' ], [ 'xml', "xmlcomment('x')" ], [ 'dc_hll', 'dc_hll()' ]);
}

# around what the guard of a ledger would refuse
my ($unguard, $guard) = ('ALTER TABLE %table DISABLE TRIGGER USER', 'ALTER TABLE %table ENABLE TRIGGER USER');

# [group, weight, template]: what the table is, code on it, where and whose it is, and what only
# a statement of its own can do
my @shape = (
	[ 'types', 5, 'ALTER TABLE %table ALTER %column TYPE %type USING %using' ],
	[ 'types', 2, 'ALTER TABLE %table DROP COLUMN IF EXISTS value, ALTER %column TYPE %type USING %using' ],
	[ 'types', 2, 'ALTER TABLE %table ALTER %column DROP DEFAULT, ALTER %column TYPE %type USING %using' ],
	[ 'types', 1, 'TRUNCATE %table; ALTER TABLE %table ALTER %column TYPE %type USING %using' ],
	[ 'types', 1, 'ALTER TABLE %table ALTER key TYPE name' ],
	[ 'columns', 2, 'ALTER TABLE %table DROP COLUMN %column CASCADE' ],
	[ 'columns', 3, 'ALTER TABLE %table DROP COLUMN %column CASCADE, ADD COLUMN %column %type' ],
	[ 'columns', 1, 'ALTER TABLE %table DROP COLUMN %column CASCADE, ADD COLUMN %column text NOT NULL DEFAULT m.h_text(%literal, 1)' ],
	[ 'columns', 1, 'ALTER TABLE %table ADD COLUMN %new %type' ],
	[ 'columns', 1, 'ALTER TABLE %table ADD COLUMN %new text NOT NULL' ],
	[ 'columns', 1, 'ALTER TABLE %table RENAME %column TO %new' ],
	[ 'columns', 3, 'ALTER TABLE %table RENAME %column TO %new; ALTER TABLE %table RENAME %other TO %column; ALTER TABLE %table RENAME %new TO %other' ],
	[ 'columns', 1, 'ALTER TABLE %table ALTER value DROP EXPRESSION' ],
	[ 'columns', 1, "ALTER TABLE %table DROP COLUMN value, ADD COLUMN value text DEFAULT 'AAAAAAAAAAAAAAAA'" ],
	[ 'columns', 1, 'ALTER TABLE %table DROP COLUMN value, ADD COLUMN value numeric GENERATED ALWAYS AS (inc) STORED' ],
	[ 'nulls', 2, 'ALTER TABLE %table ALTER %column DROP NOT NULL' ],
	[ 'nulls', 4, "$unguard; ALTER TABLE %table ALTER %column DROP NOT NULL; UPDATE %table SET %column = NULL; $guard" ],
	[ 'nulls', 4, "$unguard; ALTER TABLE %table ALTER %column DROP NOT NULL, ALTER %other DROP NOT NULL; UPDATE %table SET %column = NULL, %other = NULL; $guard" ],
	[ 'nulls', 6, "$unguard; ALTER TABLE %table DROP CONSTRAINT %pkey, ALTER %column DROP NOT NULL; UPDATE %table SET %column = NULL; $guard" ],
	[ 'nulls', 1, 'ALTER TABLE %table ADD CHECK (%column IS NULL) NOT VALID' ],
	[ 'keys', 2, 'ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE' ],
	[ 'keys', 2, 'ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE, ADD PRIMARY KEY (%column)' ],
	[ 'keys', 4, 'ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE, ADD PRIMARY KEY (%text)' ],
	[ 'keys', 3, "TRUNCATE %table; ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE, ADD PRIMARY KEY (%text)" ],
	[ 'keys', 3, "$unguard; DELETE FROM %table AS o USING %table AS n WHERE o.%text = n.%text AND o.ctid < n.ctid; ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE, ADD PRIMARY KEY (%text); $guard" ],
	[ 'keys', 1, 'ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE, ADD PRIMARY KEY (%column, %other)' ],
	[ 'keys', 1, 'ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE, ADD PRIMARY KEY (%text, %other)' ],
	[ 'keys', 1, 'ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE, ADD PRIMARY KEY (%column) DEFERRABLE INITIALLY DEFERRED' ],
	[ 'keys', 1, 'ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE; CREATE UNIQUE INDEX %new ON %table (key) WHERE m.h_true(%literal, key)' ],
	[ 'keys', 1, 'ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE; CREATE UNIQUE INDEX %new ON %table (m.h_text(%literal, %column))' ],
	[ 'keys', 1, 'ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE; CREATE UNIQUE INDEX %new ON %table (key text_pattern_ops)' ],
	[ 'keys', 1, 'ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE; CREATE UNIQUE INDEX %new ON %table (key DESC) INCLUDE (%other)' ],
	[ 'keys', 1, 'ALTER TABLE %table ADD EXCLUDE USING hash (%column WITH =)' ],
	[ 'keys', 1, 'ALTER TABLE %table DROP CONSTRAINT %constraint CASCADE' ],
	[ 'children', 2, "CREATE TABLE m.%new () INHERITS (%table); INSERT INTO m.child VALUES ('m.%new')" ],
	[ 'children', 9, "CREATE TABLE m.%new () INHERITS (%table); INSERT INTO m.child VALUES ('m.%new'); ALTER TABLE m.%new ALTER %column DROP NOT NULL, ALTER %other DROP NOT NULL; INSERT INTO m.%new SELECT * FROM ONLY %table; UPDATE m.%new SET %column = NULL, %other = NULL" ],
	[ 'children', 2, "CREATE TABLE m.%new () INHERITS (%table); INSERT INTO m.child VALUES ('m.%new'); INSERT INTO m.%new SELECT * FROM ONLY %table" ],
	[ 'children', 1, 'ALTER TABLE %child ALTER %column DROP NOT NULL' ],
	[ 'children', 2, 'INSERT INTO %child SELECT * FROM %table LIMIT 3' ],
	[ 'children', 2, 'UPDATE %child SET %column = %junk' ],
	[ 'children', 1, 'ALTER TABLE %child NO INHERIT %table' ],
	[ 'children', 1, 'ALTER TABLE %child INHERIT %table' ],
	[ 'children', 1, 'CREATE TABLE m.%new (%column %type); ALTER TABLE %table INHERIT m.%new' ],
	[ 'partitions', 1, 'ALTER TABLE %table DETACH PARTITION %part' ],
	[ 'partitions', 1, 'ALTER TABLE %table ATTACH PARTITION %table2 DEFAULT' ],
	[ 'partitions', 1, 'CREATE TABLE m.%new PARTITION OF %table DEFAULT' ],
	[ 'partitions', 1, 'ALTER TABLE %part ALTER %column TYPE %type USING %using' ],
	[ 'partitions', 1, 'ALTER TABLE %part ALTER %column DROP NOT NULL' ]);

my @code = (
	[ 'triggers', 8, 'CREATE TRIGGER %new BEFORE INSERT OR UPDATE OR DELETE ON %table FOR EACH ROW EXECUTE FUNCTION m.h_trigger()' ],
	[ 'triggers', 3, 'CREATE TRIGGER %new BEFORE INSERT OR UPDATE ON %table FOR EACH ROW EXECUTE FUNCTION m.h_change()' ],
	[ 'triggers', 3, 'CREATE TRIGGER %new AFTER INSERT OR UPDATE OR DELETE ON %table FOR EACH ROW EXECUTE FUNCTION m.h_trigger()' ],
	[ 'triggers', 1, 'CREATE TRIGGER %new AFTER INSERT OR UPDATE OR DELETE ON %table FOR EACH STATEMENT EXECUTE FUNCTION m.h_trigger()' ],
	[ 'triggers', 1, 'CREATE TRIGGER %new BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %table FOR EACH STATEMENT EXECUTE FUNCTION m.h_trigger()' ],
	[ 'triggers', 1, 'CREATE TRIGGER %new AFTER INSERT ON %table REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION m.h_trigger()' ],
	[ 'triggers', 1, 'CREATE TRIGGER %new BEFORE UPDATE ON %table FOR EACH ROW WHEN (m.h_true(%literal, new.key)) EXECUTE FUNCTION m.h_trigger()' ],
	[ 'triggers', 1, 'CREATE CONSTRAINT TRIGGER %new AFTER INSERT OR UPDATE ON %table DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION m.h_trigger()' ],
	[ 'triggers', 1, 'CREATE CONSTRAINT TRIGGER %new AFTER INSERT OR UPDATE OR DELETE ON %table DEFERRABLE FOR EACH ROW EXECUTE FUNCTION m.h_trigger()' ],
	[ 'triggers', 1, 'CREATE TABLE m.%new (key text COLLATE "C" REFERENCES %table ON DELETE CASCADE ON UPDATE SET NULL)' ],
	[ 'triggers', 4, 'ALTER TABLE %table ENABLE ALWAYS TRIGGER %trigger' ],
	[ 'triggers', 1, 'ALTER TABLE %table ENABLE REPLICA TRIGGER %trigger' ],
	[ 'triggers', 1, 'ALTER TABLE %table DISABLE TRIGGER %trigger' ],
	[ 'triggers', 1, 'ALTER TABLE %table DISABLE TRIGGER USER' ],
	[ 'triggers', 1, 'ALTER TABLE %table ENABLE TRIGGER USER' ],
	[ 'triggers', 4, 'DROP TRIGGER %trigger ON %table' ],
	[ 'rules', 1, 'CREATE RULE %new AS ON UPDATE TO %table DO ALSO SELECT m.hostile(\'rule\', %literal::regclass)' ],
	[ 'rules', 1, 'CREATE RULE %new AS ON INSERT TO %table DO INSTEAD SELECT m.hostile(\'rule\', %literal::regclass)' ],
	[ 'rules', 1, 'CREATE RULE %new AS ON DELETE TO %table DO INSTEAD NOTHING' ],
	[ 'rules', 1, 'CREATE RULE %new AS ON UPDATE TO %table DO INSTEAD UPDATE %table2 SET key = key' ],
	[ 'rules', 0.5, 'CREATE RULE %new AS ON DELETE TO %table DO ALSO INSERT INTO m.child VALUES (old.key)' ],
	[ 'security', 1, 'ALTER TABLE %table ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY %new ON %table USING (m.h_true(%literal, key))' ],
	[ 'security', 1, 'ALTER TABLE %table ENABLE ROW LEVEL SECURITY' ],
	[ 'security', 2, 'ALTER TABLE %table DISABLE ROW LEVEL SECURITY' ],
	[ 'checks', 2, 'ALTER TABLE %table ADD CHECK (m.h_true(%literal, %column))' ],
	[ 'checks', 1, 'ALTER TABLE %table ADD CHECK (m.h_true(%literal, %column)) NOT VALID' ],
	[ 'domains', 1, 'ALTER TABLE %table ALTER %column TYPE m.dom USING %column::text::m.dom' ],
	[ 'domains', 1, 'ALTER TABLE %table ALTER %column TYPE m.num' ],
	[ 'domains', 0.5, 'ALTER DOMAIN m.dom ADD CHECK (m.h_true(%literal, VALUE)) NOT VALID' ],
	[ 'defaults', 1, 'ALTER TABLE %table ADD COLUMN %new text DEFAULT m.h_text(%literal, 1)' ],
	[ 'defaults', 1, 'ALTER TABLE %table ALTER updated_at SET DEFAULT m.h_now(%literal)' ],
	[ 'defaults', 1, 'ALTER TABLE %table ALTER %column DROP DEFAULT' ],
	[ 'defaults', 1, 'ALTER TABLE %table ALTER %column SET DEFAULT NULL' ],
	[ 'defaults', 1, 'ALTER TABLE %table ADD COLUMN %new text GENERATED ALWAYS AS (m.h_text(%literal, key)) STORED' ],
	[ 'defaults', 0.5, 'ALTER TABLE %table ADD COLUMN %new bigint GENERATED ALWAYS AS IDENTITY' ],
	[ 'indexes', 2, 'CREATE INDEX ON %table (%column) WHERE m.h_true(%literal, 1)' ],
	[ 'indexes', 2, 'CREATE INDEX ON %table (%column) WHERE m.h_true(%literal, %column)' ],
	[ 'indexes', 2, 'CREATE INDEX ON %table (m.h_text(%literal, %column))' ],
	[ 'indexes', 1, 'CREATE INDEX ON %table USING hash (%column)' ],
	[ 'indexes', 1, 'CREATE INDEX ON %table (%column DESC, %other) INCLUDE (updated_at)' ],
	[ 'indexes', 1, 'CREATE STATISTICS m.%new ON (m.h_text(%literal, %column)), %other FROM %table' ],
	[ 'indexes', 3, 'DROP INDEX %index' ],
	[ 'indexes', 1, 'ALTER INDEX %index RENAME TO %new' ],
	[ 'indexes', 1, 'REINDEX TABLE %table' ]);

my @places = (
	[ 'places', 1, 'ALTER TABLE %table RENAME TO %bare_%new' ],
	[ 'places', 1, 'ALTER TABLE %table SET SCHEMA m2' ],
	[ 'places', 1, 'ALTER TABLE %table SET SCHEMA m' ],
	[ 'places', 1, 'ALTER TABLE %table OWNER TO moll' ],
	[ 'places', 1, 'ALTER TABLE %table OWNER TO mallory' ],
	[ 'places', 1, 'ALTER TABLE %table SET TABLESPACE elsewhere' ],
	[ 'places', 1, 'ALTER TABLE %table SET TABLESPACE pg_default' ],
	[ 'places', 1, 'ALTER TABLE %table SET UNLOGGED' ],
	[ 'places', 1, 'ALTER TABLE %table SET LOGGED' ],
	[ 'places', 1, 'CLUSTER %table USING %pkey' ],
	[ 'places', 1, 'TRUNCATE %table' ],
	[ 'places', 0.5, 'TRUNCATE %table CASCADE' ],
	[ 'places', 0.5, 'DROP TABLE %table' ],
	[ 'places', 0.3, 'DROP TABLE %table CASCADE' ],
	[ 'places', 0.3, 'DROP TABLE %part' ],
	[ 'places', 1, 'ALTER TABLE %table SET (fillfactor = 10)' ],
	[ 'places', 0.5, 'ALTER TABLE %table ALTER %column SET STORAGE EXTERNAL' ],
	[ 'places', 0.5, 'ALTER TABLE %table REPLICA IDENTITY FULL' ],
	[ 'places', 0.5, 'CREATE TYPE m.%new AS (key text); ALTER TABLE %table OF m.%new' ],
	[ 'places', 0.3, 'ALTER TABLE %table DROP CONSTRAINT %pkey CASCADE; CREATE RULE "_RETURN" AS ON SELECT TO %table DO INSTEAD SELECT * FROM %table2' ],
	[ 'rights', 0.5, 'REVOKE ALL ON %table FROM mallory' ],
	[ 'rights', 1, 'GRANT ALL ON %table TO mallory' ],
	[ 'rights', 0.5, 'REVOKE ALL ON %table FROM carol' ],
	[ 'sequences', 0.5, 'ALTER SEQUENCE IF EXISTS m.led_entry_id_seq RESTART 1' ],
	[ 'sequences', 0.5, 'ALTER SEQUENCE IF EXISTS m.led_entry_id_seq AS smallint MAXVALUE 32767' ],
	[ 'sequences', 0.5, "ALTER SEQUENCE IF EXISTS m.bud_grant_id RESTART 1" ],
	[ 'sequences', 0.3, 'DROP SEQUENCE IF EXISTS m.bud_grant_id CASCADE' ],
	[ 'sequences', 0.3, 'ALTER SEQUENCE IF EXISTS m.led_entry_id_seq CYCLE INCREMENT BY -1' ],
	[ 'settings', 1, q{SELECT public.dc_alter(%literal, mode => m.some('exact', 'buffered'), flush_interval => '50 ms')} ],
	[ 'settings', 1, q{SELECT public.dc_alter('%room', shard_by => m.some('backend', 'random', 'hash'), max_shards => floor(1 + random() * 8)::int)} ],
	[ 'settings', 1, q{SELECT public.dc_alter('%room', events => '50 ms', notify => 'mallory')} ],
	[ 'settings', 1, q{SELECT public.dc_alter('%room', op_retention => '1 hour')} ],
	[ 'settings', 1, q{SELECT public.dc_outbox_attach(%literal)} ],
	[ 'settings', 1, q{SELECT public.dc_outbox_attach(%literal, condition => 'm.h_true(%literal, new.key)')} ],
	[ 'settings', 1, q{SELECT public.dc_outbox_detach(%literal)} ],
	[ 'settings', 1, q{SELECT public.dc_adopt(%literal)} ],
	[ 'settings', 0.5, q{SELECT public.dc_budget_adopt(%literal)} ],
	[ 'settings', 0.5, q{SELECT public.dc_ledger_adopt(%literal)} ],
	[ 'settings', 0.5, q{SELECT public.dc_ledger_detach(%literal, now() + interval '1 day')} ],
	[ 'windows', 0.5, q{SELECT public.dc_window_rotate('m.win', now() + m.some('0', '20 s', '1 day')::interval)} ],
	[ 'windows', 0.5, q{SELECT public.dc_window_reopen('m.win')} ],
	[ 'windows', 0.3, 'DROP VIEW m.win' ],
	[ 'windows', 0.3, 'DROP VIEW m.win CASCADE; CREATE VIEW m.win AS SELECT * FROM %table' ],
	[ 'windows', 0.3, 'CREATE OR REPLACE VIEW m.win AS SELECT key, now() AS bucket, 1::bigint AS value FROM %table' ],
	[ 'windows', 0.3, 'CREATE TRIGGER %new INSTEAD OF INSERT OR UPDATE ON m.win FOR EACH ROW EXECUTE FUNCTION m.h_trigger()' ],
	[ 'windows', 0.3, 'ALTER VIEW m.win OWNER TO moll' ],
	[ 'windows', 0.3, 'ALTER VIEW m.win RENAME TO win_%new' ],
	[ 'windows', 0.3, 'ALTER VIEW m.win SET SCHEMA m2' ],
	[ 'distinct', 0.5, q{SELECT public.dc_distinct_adopt('m.dis', m.some(NULL, '1 day')::interval)} ],
	[ 'distinct', 0.5, q{INSERT INTO m.dis_delta SELECT 'k' || g, sketch FROM m.dis_delta, generate_series(1, 500) AS g} ],
	[ 'distinct', 0.5, q{INSERT INTO m.dis SELECT 'k' || g, public.dc_hll_agg(g, 12) FROM generate_series(1, 9) AS g GROUP BY g} ],
	[ 'bindings', 1, q{SELECT public.dc_unbind(m.some('m.bnd', 'm.bnd_uniq', 'm.bnd_prts'))} ],
	[ 'bindings', 3, q{SELECT public.dc_bind(m.some('m.bnd', 'm.bnd_uniq', 'm.bnd_prts'), m.some('m.bnd_src', 'm.bnd_prt', %literal), m.some('key', 'lower(key)', 'key, item', '%column', 'm.h_text(%literal, key)', 'item'),
		value => m.some('1', 'n', 'length(item)', 'm.h_true(%literal, key)::int'), filter => m.some(NULL, 'NOT gone', 'm.h_true(%literal, key)', 'key > ''k2'''), distinct_of => m.some(NULL, NULL, 'item', '%column'),
		build => m.some('worker', 'now', 'none'), lock_timeout => '50 ms', replicated => random() < 0.3, on_detach => m.some('subtract', 'keep'))} ],
	[ 'bindings', 1, 'CREATE TRIGGER %new AFTER INSERT OR DELETE ON %table FOR EACH ROW EXECUTE FUNCTION dcounter.source_row()' ],
	[ 'bindings', 0.5, 'CREATE TRIGGER %new BEFORE TRUNCATE ON %table FOR EACH STATEMENT EXECUTE FUNCTION dcounter.source_truncate()' ],
	[ 'bindings', 0.5, 'ALTER TABLE %table DISABLE TRIGGER dcounter_source_row' ],
	[ 'bindings', 0.5, 'DROP TRIGGER dcounter_source_update ON %table' ],
	[ 'bindings', 0.5, 'ALTER TABLE m.bnd_prt ATTACH PARTITION m.bnd_prt_1 FOR VALUES IN (1)' ],
	[ 'bindings', 0.5, 'ALTER TABLE m.bnd_prt ATTACH PARTITION %table FOR VALUES IN (7)' ],
	[ 'bindings', 0.5, 'UPDATE m.bnd_uniq_ref SET n = n + 1' ],
	[ 'bindings', 0.5, 'DROP TABLE m.bnd_uniq_ref' ],
	[ 'bindings', 1, q{SELECT public.dc_alter(m.some('m.bnd', 'm.bnd_uniq', 'm.bnd_prts'), on_drift => m.some('alarm', 'repair'))} ],
	[ 'bindings', 0.5, q{SELECT public.dc_mark(m.some('m.bnd', 'm.cnt'), m.some('x', 'y'))} ],
	[ 'bindings', 0.5, q{SELECT public.dc_reconcile(m.some('m.bnd', 'm.cnt'), '{k1,k2}', ARRAY[1, 4702111234474983745], m.some('x', 'y'))} ],
	[ 'bindings', 1, 'ALTER TABLE m.bnd_src DISABLE TRIGGER USER; DELETE FROM m.bnd_src; ALTER TABLE m.bnd_src ENABLE TRIGGER USER' ],
	[ 'bindings', 1, 'UPDATE m.bnd_uniq SET inc = inc + 3' ],
	[ 'bindings', 0.5, q{SELECT public.dc_rank_drop('m.rnk')} ],
	[ 'bindings', 0.5, q{SELECT public.dc_rank_create(m.some('m.rnk', %literal), m.some('worker', 'now', 'none'))} ],
	[ 'bindings', 0.5, q{UPDATE m.rnk_rank SET inc = inc + m.some('1', '4611686018427387904')::bigint, key = m.some(key, '[10000128, x', '[1', '[null, null, zzzzzzzz')} ],
	[ 'bindings', 0.5, q{SELECT public.dc_unbind('m.rnk_rank')} ],
	[ 'settings', 0.3, q{SELECT public.dc_drop('%room')} ]);

my @alone = (
	[ 'keys', 1, 'CREATE UNIQUE INDEX CONCURRENTLY %new ON %table (%column)' ],
	[ 'keys', 1, 'CREATE UNIQUE INDEX CONCURRENTLY %new ON %table (%column) WHERE m.h_true(%literal, %other)' ],
	[ 'places', 1, 'VACUUM FULL %table' ],
	[ 'places', 1, 'VACUUM (ANALYZE) %table' ],
	[ 'indexes', 1, 'REINDEX TABLE CONCURRENTLY %table' ],
	[ 'indexes', 1, 'DROP INDEX CONCURRENTLY %index' ],
	[ 'partitions', 1, 'ALTER TABLE %table DETACH PARTITION %part CONCURRENTLY' ]);

# templates: [kind, group, weight, SQL]
sub templates
{
	my %kinds = (shape => \@shape, code => \@code, places => \@places, alone => \@alone);

	return map { my $kind = $_; map { [ $kind, @$_ ] } @{ $kinds{$kind} } } sort keys %kinds;
}

1;
