# Publications that PostgreSQL has since 19. FOR ALL TABLES EXCEPT, beside those of regions: a table that one leaves out is not taken for one
# that it sends, and a subscriber gets all but that one. FOR ALL SEQUENCES: numbers of ledgers for a subscriber that takes over, and what
# doc/logical-replication.md has against numbers of the outbox that went back.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('except', conf => [ 'wal_level = logical', 'max_wal_senders = 4' ]);

if (sql($node, 'postgres', 'SHOW server_version_num') < 190000)
{
	$node->stop;
	plan skip_all => 'publications FOR ALL TABLES EXCEPT are new in PostgreSQL 19';
}

sql($node, 'postgres', q{
	SELECT dc_region_init('eu');
	SELECT dc_create('likes'), dc_create('later');
	SELECT dc_replicate('likes');
	CREATE PUBLICATION others FOR ALL TABLES EXCEPT (TABLE likes_region, TABLE later, TABLE later_shard);
	CREATE VIEW sent AS SELECT tablename::text, string_agg(pubname, ' ' ORDER BY pubname COLLATE "C") AS by FROM pg_publication_tables WHERE schemaname = 'public' GROUP BY 1;
	SELECT dc_incr('likes', 'a', 3), dc_incr('later', 'a', 4)});
is(sql($node, 'postgres', q{SELECT * FROM sent WHERE tablename IN ('likes_region', 'likes_set', 'later') ORDER BY tablename COLLATE "C"}),
	"likes_region|dcounter_all dcounter_own\nlikes_set|dcounter_all dcounter_own others", 'a table of a region is left out, and its own publications have it');

# one that is replicated while another publication leaves it out
sql($node, 'postgres', q{SELECT dc_replicate('later', seed => true)});
is(sql($node, 'postgres', q{SELECT * FROM sent WHERE tablename ~ '^later' ORDER BY tablename COLLATE "C"}),
	"later_region|dcounter_all dcounter_own others\nlater_set|dcounter_all dcounter_own others", 'a counter that one leaves out can be replicated');
is(sql($node, 'postgres', q{
	ALTER PUBLICATION others SET (publish = 'insert, update');
	ALTER PUBLICATION others SET ALL TABLES EXCEPT (TABLE likes_set, TABLE later_region);
	SELECT dc_incr('likes', 'a', 1), dc_incr('later', 'a', 1);
	SELECT dc_get('likes', 'a'), dc_get('later', 'a')}), "|\n4|5", 'what is left out can be altered, and both count on');

# The publications of regions are of single tables: one that leaves some out is not as it was made, and a table that it names is not in it.
sql($node, 'postgres', q{
	SELECT dc_unreplicate('later');
	BEGIN;
	DROP PUBLICATION dcounter_all;
	CREATE PUBLICATION dcounter_all FOR ALL TABLES EXCEPT (TABLE later);
	COMMIT});
fails_with($node, 'postgres', q{SELECT dc_replicate('later')}, '55000', 'one of these that leaves tables out is refused');

# Two databases of this server, the sequences of one coming to the other. wallet_entry_id is what a promotion needs.
sql($node, 'postgres', "CREATE DATABASE $_") foreach 'pub', 'sub';
sql($node, $_, q{
	CREATE EXTENSION dcounter;
	SELECT dc_ledger_create('wallet', auto_open => true), dc_consumer_create('search');
	SELECT dc_account_open('wallet', 'bank', NULL);
	CREATE TABLE item (id int PRIMARY KEY);
	SELECT dc_outbox_attach('item', 'items')}) foreach 'pub', 'sub';
sql($node, 'pub', q{SELECT dc_transfer('wallet', 'bank', 'alice', 5, 'op ' || i) FROM generate_series(1, 7) AS i; INSERT INTO item VALUES (1)});
sql($node, 'sub', q{INSERT INTO item SELECT generate_series(1, 12)});
is(sql($node, 'sub', q{SELECT max(seq) AS last FROM dc_fetch('search') \gset
	SELECT dc_ack('search', :last); SELECT :last}), "\n12", 'a consumer has got all events');
sql($node, 'pub', q{CREATE PUBLICATION numbers FOR ALL SEQUENCES; SELECT pg_create_logical_replication_slot('numbers', 'pgoutput')});
sql($node, 'sub', q{CREATE SUBSCRIPTION numbers CONNECTION '} . ($node->connstr('pub') =~ s/'/''/gr) . q{' PUBLICATION numbers WITH (create_slot = false)});
is(wait_for($node, 'sub', q{SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'}, '0'), '0', 'the sequences are here');
my $number = 'SELECT last_value FROM wallet_entry_id';
is(sql($node, 'sub', $number), sql($node, 'pub', $number), 'that of the ledger, too');
is(sql($node, 'sub', 'SELECT last_value FROM dcounter.outbox_seq'), '1', 'that of the outbox has gone back');
sql($node, 'sub', 'ALTER SUBSCRIPTION numbers DISABLE; ALTER SUBSCRIPTION numbers SET (slot_name = NONE); DROP SUBSCRIPTION numbers');
my ($mends) = slurp_file("$ENV{TESTDIR}/doc/logical-replication.md") =~ /^(SELECT setval\('dcounter\.outbox_seq'.*)$/m;
sql($node, 'sub', $mends);
sql($node, 'sub', q{INSERT INTO item VALUES (100), (101)});
is(sql($node, 'sub', q{SELECT string_agg(key, ' ' ORDER BY seq) FROM dc_fetch('search')}), '100 101', 'the statement of the page mends that: new events are received');

done_testing();
