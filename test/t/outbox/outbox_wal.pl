# Events that go to the WAL alone (sink => 'wal'), read with test_decoding,
# pg_recvlogical and wal2json; and triggers that write events where rows come by logical
# replication, and after dump and restore.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# 19 makes "logical" of "replica" by itself
my ($less, $enough) = PostgreSQL::Test::Cluster->new('version')->pg_version->major >= 19 ? ('minimal', 'replica') : ('replica', 'logical');
my $node = dc_node('wal', conf => [ "wal_level = $less", 'max_wal_senders = 0', 'max_replication_slots = 10', 'timezone = UTC' ]);

sql($node, 'postgres', 'CREATE TABLE item (id int PRIMARY KEY, v text); CREATE TABLE stored (id int PRIMARY KEY, v text)');
my ($status, $out, $err) = $node->psql('postgres', q{SELECT dc_outbox_attach('item', 'items', sink => 'wal')});
like($err, qr/WARNING:  events cannot be read from the WAL.*\nHINT:  Set wal_level to logical/, 'a warning if nobody can read the WAL');
sql($node, 'postgres', q{INSERT INTO item VALUES (1, 'one')});
is(sql($node, 'postgres', 'SELECT count(*) FROM item'), '1', 'which does no harm');

$node->append_conf('postgresql.conf', "wal_level = $enough\nmax_wal_senders = 10");
# Newer minor releases want output plugins listed
my $plugins = sql($node, 'postgres', q{SELECT setting FROM pg_settings WHERE name = 'output_plugin_libraries'});
$node->append_conf('postgresql.conf', "output_plugin_libraries = '$plugins, wal2json'") if $plugins ne '';
$node->restart;
($status, $out, $err) = $node->psql('postgres', q{SELECT dc_outbox_detach('item'); SELECT dc_outbox_attach('item', 'items', sink => 'wal')});
is($err, '', 'no warning if one can');
sql($node, 'postgres', q{SELECT pg_create_logical_replication_slot('s', 'test_decoding')});

# events(COLUMNS): what the slot has that is new
sub events
{
	my ($columns) = @_;

	return sql($node, 'postgres', qq{
		SELECT $columns FROM pg_logical_slot_get_changes('s', NULL, NULL) AS c,
			LATERAL (SELECT substring(data FROM 'content:(.*)\$')::jsonb AS e) AS j
		WHERE data ~ '^message: transactional: 1 prefix: dcounter.outbox, '});
}

my $brief = q{concat_ws(' ', e ->> 'aggregatetype', e ->> 'aggregateid', e ->> 'type', e #>> '{payload,old,v}', e #>> '{payload,new,v}', e ->> 'headers')};

# Each operation; what is rolled back does not come
sql($node, 'postgres', q{
	INSERT INTO item VALUES (2, 'two');
	BEGIN; INSERT INTO item VALUES (3, 'rolled back'); ROLLBACK;
	BEGIN;
	UPDATE item SET v = 'a' WHERE id = 2;
	SAVEPOINT s; UPDATE item SET v = 'rolled back' WHERE id = 2; ROLLBACK TO s;
	SAVEPOINT t; UPDATE item SET v = 'b' WHERE id = 2; RELEASE t;
	COMMIT;
	UPDATE item SET id = 4 WHERE id = 2;
	DELETE FROM item WHERE id = 4;
	TRUNCATE item;});
is(events($brief), join("\n", 'items 2 insert two', 'items 2 update two a', 'items 2 update a b', 'items 2 delete b {"moved_to": "4"}',
		'items 4 update b b {"moved_from": "2"}', 'items 4 delete b', 'items truncate'), 'each operation, and nothing that was rolled back');
is(sql($node, 'postgres', 'SELECT count(*) FROM dcounter.outbox'), '0', 'the outbox stays empty');

# Members and values
sql($node, 'postgres', q{INSERT INTO item VALUES (5, E'quote " backslash \\\\ newline \n tab \t \u00e4\u4e2d')});
is(events(q{concat_ws('|', (SELECT string_agg(key, ' ' ORDER BY key) FROM jsonb_object_keys(e) AS key), e ->> 'id' ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7', e -> 'headers',
		clock_timestamp() - (e ->> 'created_at')::timestamptz BETWEEN '0' AND '10 minutes',
		e -> 'payload' -> 'new' = (SELECT to_jsonb(item) FROM item), (SELECT string_agg(key, ' ' ORDER BY key) FROM jsonb_object_keys(e -> 'payload') AS key), position(E'\n' IN data))}),
	'aggregateid aggregatetype created_at headers id payload type|t|null|t|t|at new old op table|0', 'the columns of the outbox, as JSON in one line');

# Prepared transactions, and one that commits later than it began
sql($node, 'postgres', q{
	BEGIN; INSERT INTO item VALUES (10, 'prepared'); PREPARE TRANSACTION 'kept';
	BEGIN; INSERT INTO item VALUES (11, 'never'); PREPARE TRANSACTION 'undone';
	INSERT INTO item VALUES (12, 'meanwhile');});
is(events($brief), 'items 12 insert meanwhile', 'a prepared transaction does not come');
sql($node, 'postgres', q{COMMIT PREPARED 'kept'; ROLLBACK PREPARED 'undone'});
is(events($brief), 'items 10 insert prepared', 'until it is committed');

# Together with events of the table
sql($node, 'postgres', q{SELECT dc_outbox_attach('stored'); BEGIN; INSERT INTO item VALUES (20, 'wal'); INSERT INTO stored VALUES (20, 'table'); COMMIT});
is(events($brief), 'items 20 insert wal', 'one sink of two: the WAL');
is(sql($node, 'postgres', q{SELECT concat(aggregatetype, ' ', payload #>> '{new,v}') FROM dcounter.outbox}), 'stored table', 'and the table');
($status, $out, $err) = $node->psql('postgres', q{BEGIN; INSERT INTO item VALUES (21, 'x'); SELECT count(*) FROM pg_logical_slot_peek_changes('s', NULL, NULL) WHERE data ~ 'message'; ROLLBACK});
is($out, '0', 'nothing before the commit');

# pg_recvlogical, as a client would
sub received
{
	my ($slot, @options) = @_;
	my ($lines, $errors);
	my $end = sql($node, 'postgres', 'SELECT pg_current_wal_insert_lsn()');

	# a record at or after the end stops it
	sql($node, 'postgres', "SELECT pg_logical_emit_message(false, 'end', '')");
	IPC::Run::run([ 'pg_recvlogical', '-d', $node->connstr('postgres'), '--slot', $slot, '--start', '--endpos', $end, '--no-loop', @options, '-f', '-' ],
		'<', File::Spec->devnull, '>', \$lines, '2>', \$errors);
	diag($errors) if $errors;
	return $lines;
}
sql($node, 'postgres', q{SELECT pg_create_logical_replication_slot('r', 'test_decoding'); INSERT INTO item VALUES (30, 'received'); BEGIN; SAVEPOINT a; INSERT INTO item VALUES (31, 'no'); ROLLBACK TO a; COMMIT});
my @contents = map { /^message: transactional: 1 prefix: dcounter\.outbox, sz: \d+ content:(.*)$/ ? $1 : () } split(/\n/, received('r'));
is(scalar(@contents), 1, 'pg_recvlogical gets one event');
is(sql($node, 'postgres', qq{SELECT j #>> '{payload,new,v}' FROM (SELECT \$e\$$contents[0]\$e\$::jsonb AS j) AS x}), 'received', 'which is JSON');

# wal2json
SKIP:
{
	my ($result) = $node->psql('postgres', q{SELECT pg_create_logical_replication_slot('w', 'wal2json')});

	if ($result != 0)
	{
		note('wal2json is not installed: its package may not exist here');
		skip('wal2json is not installed', 1);
	}
	sql($node, 'postgres', q{INSERT INTO item VALUES (40, 'a "b"'); BEGIN; INSERT INTO item VALUES (41, 'no'); ROLLBACK});
	is(sql($node, 'postgres', q{
		SELECT string_agg(concat_ws(' ', d ->> 'prefix', d ->> 'transactional', (d ->> 'content')::jsonb ->> 'aggregateid', (d ->> 'content')::jsonb #>> '{payload,new,v}'), ',')
		FROM (SELECT data::jsonb AS d FROM pg_logical_slot_get_changes('w', NULL, NULL, 'format-version', '2')) AS c WHERE d ->> 'action' = 'M'}),
		'dcounter.outbox true 40 a "b"', 'wal2json has the event');
	sql($node, 'postgres', q{SELECT pg_drop_replication_slot('w')});
}
sql($node, 'postgres', q{SELECT pg_drop_replication_slot('s'); SELECT pg_drop_replication_slot('r')});

# Rows that come by logical replication are no events, unless the triggers say so
$node->safe_psql('postgres', 'CREATE DATABASE copy');
sql($node, 'copy', q{CREATE EXTENSION dcounter; CREATE TABLE stored (id int PRIMARY KEY, v text); SELECT dc_outbox_attach('stored')});
sql($node, 'postgres', q{CREATE PUBLICATION p FOR TABLE stored; SELECT pg_create_logical_replication_slot('copy', 'pgoutput')});
sql($node, 'copy', q{CREATE SUBSCRIPTION copy CONNECTION $c$} . $node->connstr('postgres') . q{$c$ PUBLICATION p WITH (create_slot = false, copy_data = false, slot_name = 'copy')});
sql($node, 'postgres', q{INSERT INTO stored VALUES (100, 'silent')});
is(wait_for($node, 'copy', 'SELECT count(*) FROM stored WHERE id = 100', '1'), '1', 'a row is replicated');
is(sql($node, 'copy', 'SELECT count(*) FROM dcounter.outbox'), '0', 'and is no event there');
sql($node, 'copy', q{ALTER TABLE stored ENABLE ALWAYS TRIGGER dcounter_outbox_insert});
sql($node, 'postgres', q{INSERT INTO stored VALUES (101, 'told')});
is(wait_for($node, 'copy', q{SELECT string_agg(concat(aggregateid, ' ', payload #>> '{new,v}'), ' ') FROM dcounter.outbox}, '101 told'), '101 told', 'with ENABLE ALWAYS it is one');
sql($node, 'copy', q{ALTER SUBSCRIPTION copy DISABLE; ALTER SUBSCRIPTION copy SET (slot_name = NONE); DROP SUBSCRIPTION copy});
is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_replication_slots WHERE active}, '0'), '0', 'the subscription is gone');
sql($node, 'postgres', q{SELECT pg_drop_replication_slot('copy')});

# Dump and restore: attached as before, without an event of the restored rows
sql($node, 'postgres', q{
	CREATE SCHEMA "S p"; CREATE TABLE "S p"."T ""q" (gone int, "K k" int, v text) PARTITION BY RANGE ("K k");
	CREATE TABLE "S p".low PARTITION OF "S p"."T ""q" FOR VALUES FROM (0) TO (100);
	ALTER TABLE "S p"."T ""q" DROP gone;
	SELECT dc_outbox_attach('"S p"."T ""q"', 'topic \ ''', ARRAY['K k'], ARRAY['v', 'K k'], 'NEW.v <> ''no''');
	ALTER TABLE "S p"."T ""q" RENAME v TO "V, v";
	INSERT INTO "S p"."T ""q" VALUES (1, 'before');});
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('restored'), $dump ], 'pg_restore');
my $before = sql($node, 'restored', 'SELECT max(seq) FROM dcounter.outbox');
is($before, sql($node, 'postgres', 'SELECT max(seq) FROM dcounter.outbox'), 'restored rows are no new events');
sql($node, 'restored', q{INSERT INTO "S p"."T ""q" VALUES (2, 'after'), (3, 'no')});
is(sql($node, 'restored', qq{SELECT concat_ws('|', aggregatetype, aggregateid, type, payload ->> 'new', payload ->> 'table') FROM dcounter.outbox WHERE seq > $before}),
	q{topic \ '|2|insert|{"K k": 2, "V, v": "after"}|"S p"."T ""q"}, 'new ones are, with the same topic, key, columns and condition');

# Virtual generated columns: as other triggers see them
SKIP:
{
	my ($result) = $node->psql('postgres', 'CREATE TABLE virtual (id int PRIMARY KEY, v text, g int GENERATED ALWAYS AS (id * 2) VIRTUAL)');

	skip('there are no virtual generated columns', 3) if $result != 0;
	sql($node, 'postgres', q{
		CREATE TABLE as_seen (j jsonb);
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO as_seen VALUES (to_jsonb(NEW)); RETURN NULL; END $$;
		CREATE TRIGGER see AFTER INSERT ON virtual FOR EACH ROW EXECUTE FUNCTION see();
		SELECT dc_outbox_attach('virtual');
		INSERT INTO virtual VALUES (1, 'x');});
	is(sql($node, 'postgres', q{SELECT payload -> 'new', payload -> 'new' = j FROM dcounter.outbox, as_seen WHERE aggregatetype = 'virtual'}),
		'{"g": null, "v": "x", "id": 1}|t', 'a virtual generated column is null');
	sql($node, 'postgres', q{SELECT dc_outbox_detach('virtual')});
	fails_with($node, 'postgres', "SELECT dc_outbox_attach('virtual', key_columns => '{g}')", '0A000', 'it cannot be a key');
	fails_with($node, 'postgres', "SELECT dc_outbox_attach('virtual', columns => '{id,g}')", '0A000', 'nor be asked for');
}

$node->stop;
done_testing();
