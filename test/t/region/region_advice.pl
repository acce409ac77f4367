# Column advice of dc_regions(): null if there is nothing to do, otherwise what is wrong and what to
# call. Errors by which a link ends before it receives anything are counted; a join that is right
# heals it.
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# 19 makes "logical" of "replica" by itself
my $version = PostgreSQL::Test::Cluster->new('version')->pg_version->major;
my $level = $version >= 19 ? 'replica' : 'logical';
my ($eu, $us) = my @nodes = map { region_node($_, "wal_level = $level", "dcounter.region_beat_interval = '500ms'", "dcounter.region_handshake = '1h'") } 'eu', 'us';

# advises(NAME, NODE, REGION, PATTERN): what a region says of another one, or of itself, in the end; '' for nothing
sub advises
{
	my ($name, $node, $region, $pattern) = @_;
	my $sql = "SELECT coalesce(advice, '') FROM dc_stat_regions WHERE region = '$region'";
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(wait_for($node, 'postgres', "SELECT a ~ \$p\$$pattern\$p\$ FROM ($sql) AS s (a)", 't'), 't', $name) or diag(answer($node, 'postgres', $sql));
	return;
}

# joins(TO, FROM, CONNINFO): makes a link, or brings it up to date
sub joins
{
	my ($to, $from, $conninfo) = @_;

	sql($to, 'postgres', $_) foreach split /\n/, sql($to, 'postgres', 'SELECT dc_region_join($$' . $from->name . "\$\$, \$\$$conninfo\$\$, trust_owners => true)");
	return;
}

# errors(NODE, NUMBER): the errors of its links are more than these; a test
sub errors
{
	my ($node, $number) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(wait_for($node, 'postgres', "SELECT sum(apply_errors) > $number FROM dc_regions()", 't'), 't', 'errors are counted');
	return sql($node, 'postgres', 'SELECT sum(apply_errors) FROM dc_regions()');
}

advises('alone, there is nothing to do', $eu, 'eu', '^$');
joins($us, $eu, $eu->connstr('postgres'));
sql($eu, 'postgres', q{SELECT dc_incr('likes', 'a', 3)});
is(wait_for($us, 'postgres', q{SELECT dc_get('likes', 'a')}, '3'), '3', 'a link');
joins($eu, $us, $us->connstr('postgres'));
advises("$_->[1] is well, says " . $_->[0]->name, @$_, '^$') foreach [ $eu, 'eu' ], [ $eu, 'us' ], [ $us, 'eu' ], [ $us, 'us' ];
is(sql($us, 'postgres', 'SELECT sum(apply_errors) FROM dc_regions()'), '0', 'no errors');

# A conninfo that is wrong, and then right
sql($us, 'postgres', q{ALTER SUBSCRIPTION dc_from_eu CONNECTION 'host=/nowhere dbname=postgres'});
my $errors = errors($us, 1);
advises('a link that cannot connect', $us, 'eu', '^the link from eu to us is down: .*: dc_region join$');
joins($us, $eu, $eu->connstr('postgres'));
advises('it is mended', $us, 'eu', '^$');

# Cut by hand
sql($us, 'postgres', 'ALTER SUBSCRIPTION dc_from_eu DISABLE');
advises('a link that is disabled', $us, 'eu', '^the link from eu to us is disabled: dc_region join$');
joins($us, $eu, $eu->connstr('postgres'));
advises('it is enabled', $us, 'eu', '^$');

# A slot that is gone, and one that is another database's
sql($us, 'postgres', 'ALTER SUBSCRIPTION dc_from_eu DISABLE');
is(wait_for($eu, 'postgres', q{SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'dc\_us\_%' AND NOT active}, '1'), '1', 'nobody uses the slot');
sql($eu, 'postgres', q{SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE 'dc\_us\_%'; SELECT dc_incr('likes', 'a', 4)});
sql($us, 'postgres', 'ALTER SUBSCRIPTION dc_from_eu ENABLE');
errors($us, sql($us, 'postgres', 'SELECT sum(apply_errors) FROM dc_regions()'));
advises('a slot that is gone', $us, 'eu', '^the link from eu to us is refused by eu, because its slot is missing or no longer usable: dc_region join$');
joins($us, $eu, $eu->connstr('postgres'));
is(wait_for($us, 'postgres', q{SELECT dc_get('likes', 'a')}, '7'), '7', 'it is made anew');
advises('it is made anew', $us, 'eu', '^$');
sql($eu, 'postgres', 'CREATE DATABASE plain');
sql($us, 'postgres', 'DROP SUBSCRIPTION dc_from_eu');
joins($us, $eu, $eu->connstr('plain'));
is(sql($eu, 'postgres', q{SELECT count(*) FROM pg_replication_slots WHERE database = 'plain'}), '1', 'a join to a database that is none of a region');
sql($us, 'postgres', "ALTER SUBSCRIPTION dc_from_eu CONNECTION '" . ($eu->connstr('postgres') =~ s/'/''/gr) . "'");
advises('a slot that is of another database', $us, 'eu', '^the link from eu to us is refused by eu');
joins($us, $eu, $eu->connstr('postgres'));
sql($eu, 'postgres', q{SELECT dc_incr('likes', 'a', 8)});
is(wait_for($us, 'postgres', q{SELECT dc_get('likes', 'a')}, '15'), '15', 'it is made anew');
advises('it is made anew', $us, 'eu', '^$');
is(sql($us, 'postgres', q{SELECT string_agg(subname, ' ') FROM pg_subscription}), 'dc_from_eu', 'under its name');
sql($eu, 'postgres', q{SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = 'plain'});

# A region that is down
$errors = sql($us, 'postgres', 'SELECT sum(apply_errors) FROM dc_regions()');
$eu->stop;
$errors = errors($us, $errors + 1);
advises('a region that is down', $us, 'eu', '^the link from eu to us is down: ');
$us->stop('immediate');
$us->start;
advises('nobody has confirmed its start', $us, 'us', '^us waits until the others have acknowledged its start; if it was restored to an earlier state: dc_region restore us$');
$eu->start;
advises('a region that is back, both having been started at once', $us, 'eu', '^$');
advises('the start is confirmed', $us, 'us', '^$');

# A row that somebody has removed by hand: what another region adds to it finds none. The server counts that since 18
my $conflicts = q{SELECT conflicts FROM dc_regions() WHERE region = 'eu'};
is(sql($us, 'postgres', $conflicts), $version >= 18 ? '0' : '', 'no conflicts');
sql($us, 'postgres', q{SET session_replication_role = replica; DELETE FROM likes_region WHERE region = 'eu' AND key = 'a'});
sql($eu, 'postgres', q{SELECT dc_incr('likes', 'a', 10), dc_incr('likes', 'b', 5)});
is(wait_for($us, 'postgres', q{SELECT dc_get('likes', 'b')}, '5'), '5', 'others come');
is(wait_for($us, 'postgres', $conflicts, $version >= 18 ? '1' : ''), $version >= 18 ? '1' : '', 'a conflict');
region_refresh($us, $eu);
sql($us, 'postgres', q{SELECT dc_region_repair('likes')});
is(sql($us, 'postgres', q{SELECT dc_get('likes', 'a')}), '25', 'a refresh brings the row, and a repair the value');

# No link
sql($us, 'postgres', 'DROP SUBSCRIPTION dc_from_eu');
advises('no link', $us, 'eu', '^there is no link from eu to us: dc_region join$');
joins($us, $eu, $eu->connstr('postgres'));
advises('it is made', $us, 'eu', '^$');
sql($us, 'postgres', 'ALTER PUBLICATION dcounter_own DROP TABLE likes_region');
advises('a publication that lacks a table', $us, 'us', 'does not publish everything that it should: dc_region_publish\(\)');
sql($us, 'postgres', 'SELECT dc_region_publish()');
advises('it is mended', $us, 'us', '^$');
sql($us, 'postgres', q{INSERT INTO dcounter.self_mark SELECT epoch, 'recopy', NULL, now() FROM dcounter.self});
# it is copied before or after the worker has noted that
advises('something was missed', $us, 'us', '^us may lack rows that others have: dc_region restore us$');
region_refresh($us, $eu);
advises('it was copied', $us, 'us', '^$');

# A region that is retired, whose link stays
is(wait_for($us, 'postgres', q{SELECT 'done' FROM dc_region_retire('us')}, 'done'), 'done', 'us retires');
advises('one that is retired has nothing to do', $us, 'us', '^$');
advises('nor with others', $us, 'eu', '^$');
advises('the others have', $eu, 'us', '^eu has a link from us, which is retired, or keeps a slot for it: dc_region forget us$');
sql($eu, 'postgres', 'DROP SUBSCRIPTION dc_from_us');
sql($us, 'postgres', 'DROP SUBSCRIPTION dc_from_eu');
advises('the links are gone', $eu, 'us', '^$');
$_->stop('immediate') foreach @nodes;
done_testing();
