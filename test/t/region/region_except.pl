# Publications FOR ALL TABLES EXCEPT, which PostgreSQL has since 19, beside those of regions: a table that one leaves out is not taken for one
# that it sends, and who subscribes to it gets all but that one.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('except', conf => [ 'wal_level = logical' ]);

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

done_testing();
