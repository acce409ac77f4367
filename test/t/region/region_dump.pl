# A region's dump, restored as another database of its server beside the original: it renews, its
# beats continue, and its links are recreated without the slots of the original. And publications
# that lack something.
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @nodes = map { region_node($_, "dcounter.region_beat_interval = '500ms'") } 'eu', 'us';
my ($eu, $us) = @nodes;
my $dump = PostgreSQL::Test::Utils::tempdir() . '/us.dump';
my $beats = q{SELECT string_agg(p.pubname, ' ' ORDER BY p.pubname) FROM pg_publication_tables AS p WHERE p.schemaname = 'dcounter' AND p.tablename = 'region'};
my $slots = q{SELECT string_agg(slot_name, ' ' ORDER BY slot_name) FROM pg_replication_slots};

region_mesh(@nodes);
sql($_, 'postgres', q{SELECT dc_incr('likes', 'a', 5)}) foreach @nodes;
region_agrees('before', 'a=10', @nodes);
my $at_eu = sql($eu, 'postgres', $slots);

$us->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $us->connstr('postgres') ], 'pg_dump');
sql($us, 'postgres', 'CREATE DATABASE twin TEMPLATE template0');
$us->command_ok([ 'pg_restore', '-d', $us->connstr('twin'), $dump ], 'pg_restore');
is(wait_for($us, 'twin', q{SELECT state FROM dc_regions() WHERE region = 'us'}, 'recopy', 60), 'recopy', 'the copy renews');
is(wait_for($us, 'twin', $beats, 'dcounter_all dcounter_own'), 'dcounter_all dcounter_own', 'its beats are published');
is(sql($us, 'twin', q{SELECT dc_region_publish()}), '0', 'and so are the tables of its counter');
is(sql($us, 'twin', 'SELECT subname, subenabled, subslotname IS NULL FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())'),
	'dc_from_eu|f|f', 'its link has the slot of the original');

# The link is recreated, and the original's stays
my $join = 'SELECT dc_region_join($$eu$$, $$' . $eu->connstr('postgres') . '$$, trust_owners => true)';
my @statements = split /\n/, sql($us, 'twin', $join);
is($statements[0], 'ALTER SUBSCRIPTION dc_from_eu SET (slot_name = NONE)', 'the slot is left alone');
sql($us, 'twin', $_) foreach @statements;
is(wait_for($us, 'twin', q{SELECT count(*) FROM pg_subscription_rel AS r JOIN pg_subscription AS s ON s.oid = r.srsubid WHERE s.subname = 'dc_from_eu' AND r.srsubstate <> 'r'
	AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())}, '0', 60), '0', 'all is copied');
foreach my $slot (split / /, $at_eu)
{
	like(sql($eu, 'postgres', $slots), qr/\b$slot\b/, "slot $slot is there");
}
foreach my $statement (split /\n/, sql($us, 'twin', q{SELECT dc_region_refresh('eu', trust_owners => true)}))
{
	sql($us, 'twin', $statement);
}
is(wait_for($us, 'twin', q{SELECT state FROM dc_regions() WHERE region = 'us'}, 'active', 60), 'active', 'and is active then');
sql($eu, 'postgres', q{SELECT dc_incr('likes', 'a', 7)});
region_agrees('the original goes on', 'a=17', @nodes);
is(wait_for($us, 'twin', q{SELECT dc_get('likes', 'a')}, '17'), '17', 'the copy gets what is counted');

# What the copy counts goes to the other region, with its heartbeats
sql($eu, 'postgres', 'CREATE SUBSCRIPTION from_twin CONNECTION $c$' . $us->connstr('twin') . '$c$ PUBLICATION dcounter_own WITH (streaming = off)');
sql($us, 'twin', q{SELECT dc_incr('likes', 'a', 100)});
is(wait_for($eu, 'postgres', q{SELECT dc_get('likes', 'a')}, '117'), '117', 'what the copy counts arrives');
my $epoch = sql($us, 'twin', q{SELECT epoch FROM dcounter.self});
my $lag = qq{SELECT now() - max(beat_at) < '5 s' FROM dcounter.region WHERE region = 'us' AND epoch = $epoch};
is(wait_for($eu, 'postgres', $lag, 't'), 't', 'its beats arrive');

# What publications lack
sql($us, 'twin', 'ALTER PUBLICATION dcounter_own DROP TABLE likes_set, dcounter.region');
sql($us, 'twin', 'DROP PUBLICATION dcounter_all');
like((split /\n/, sql($us, 'twin', $join))[0], qr/^SELECT public\.dc_region_publish\(\)$/, 'dc_region_join names what mends it');
is(sql($us, 'twin', 'SELECT dc_region_publish(), dc_region_publish()'), '1|0', 'it is added');
is(sql($us, 'twin', $beats), 'dcounter_all dcounter_own', 'the beats, too');
is(sql($us, 'twin', q{SELECT string_agg(pubname || ' ' || tablename || ' ' || coalesce(rowfilter, ''), ', ' ORDER BY pubname, tablename) FROM pg_publication_tables WHERE schemaname = 'public'}),
	q{dcounter_all likes_region (epoch > 0), dcounter_all likes_set , dcounter_own likes_region ((region = 'us'::text) AND (epoch > 0)), dcounter_own likes_set (region = 'us'::text)}, 'with their filters');
sql($us, 'twin', 'CREATE ROLE alice LOGIN');
fails_with($us, 'twin', 'SET ROLE alice; SELECT dc_region_publish()', '42501', 'not for others');
sql($us, 'twin', 'ALTER PUBLICATION dcounter_own SET (publish = $$insert, update, delete$$); ALTER PUBLICATION dcounter_own DROP TABLE dcounter.region');
fails_with($us, 'twin', 'SELECT dc_region_publish()', '55000', 'a publication that is not as it was made is refused');
$_->stop foreach @nodes;
done_testing();
