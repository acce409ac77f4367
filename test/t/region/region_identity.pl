# A database that is not the one that was made a region, but a copy of it, or a standby that was promoted, or was restored: the
# original may have published more under the epoch than it knows. So it takes a new epoch by itself.
# Counts made before go to the old epoch, later counts to the new one, and sums are exact.
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = dc_node('primary', init => { allows_streaming => 'logical', has_archiving => 1 }, conf => [
		"shared_preload_libraries = 'dcounter'", 'autovacuum = off', 'fsync = off', "dcounter.compact_interval = '100ms'", "dcounter.region_beat_interval = '1s'" ]);
my $published = q{SELECT string_agg(key || '=' || inc || '-' || dec, ' ' ORDER BY key, epoch) FROM likes_region};
my $values = q{SELECT dc_get('likes', 'a'), dc_get('likes', 'b')};
my $epoch = q{SELECT epoch FROM dcounter.self};
my $state = q{SELECT state FROM dc_regions() WHERE region = 'eu'};

# renews(NODE, DATABASE, OLD EPOCH, NAME): what is counted there is published under a new epoch
sub renews
{
	my ($node, $database, $old, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	sql($node, $database, q{SELECT dc_incr('likes', 'a', 3), dc_decr('likes', 'b'), dc_incr('likes', 'c')});
	is(wait_for($node, $database, $published, 'a=5-0 a=3-0 b=0-2 b=0-1 c=1-0'), 'a=5-0 a=3-0 b=0-2 b=0-1 c=1-0', "$name: what is counted goes to a new epoch");
	is(sql($node, $database, "SELECT bool_and(epoch > $old) FROM likes_region WHERE inc = 3 OR key = 'c'"), 't', "$name: which is a later one");
	is(sql($node, $database, "SELECT epoch > $old, state FROM dcounter.self"), 't|active', "$name: the database has it");
	is(sql($node, $database, q{SELECT s.boot = r.boot, r.first FROM dcounter.self AS s JOIN dcounter.region AS r USING (region, epoch)}), 't|1', "$name: with beats of its own");
	is(sql($node, $database, $values), '8|-3', "$name: values are exact");
	is(sql($node, $database, q{SELECT * FROM dc_region_check('likes') WHERE region IS NULL}), '||0|0|0|', "$name: totals are what is published");
	is(sql($node, $database, q{SELECT dc_node() = 'eu:' || epoch FROM dcounter.self}), 't', "$name: it is another node");
	return;
}

sql($primary, 'postgres', 'CREATE DATABASE eu');
sql($primary, 'eu', q{
	CREATE EXTENSION IF NOT EXISTS dcounter;
	SELECT dc_region_init('eu');
	SELECT dc_create('likes');
	SELECT dc_replicate('likes');
	SELECT dc_create('buffered', mode => 'buffered', flush_interval => '1 hour');
	SELECT dc_replicate('buffered');
	SELECT dc_incr('likes', 'a', 5), dc_decr('likes', 'b', 2)});
is(wait_for($primary, 'eu', $published, 'a=5-0 b=0-2'), 'a=5-0 b=0-2', 'the worker publishes');
my $first = sql($primary, 'eu', $epoch);
$primary->backup('pitr');
my $until = sql($primary, 'eu', 'SELECT pg_create_restore_point($$here$$)');

# A copy by TEMPLATE. The worker is away for a moment, or the database could not be a template
foreach my $try (1 .. 100)
{
	sql($primary, 'postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'eu'});
	last if $primary->psql('postgres', 'CREATE DATABASE copy TEMPLATE eu') == 0;
	sql($primary, 'postgres', 'SELECT pg_sleep(0.1)');
}
renews($primary, 'copy', $first, 'a copy');
is(sql($primary, 'eu', $epoch), $first, 'the original does not');

# A standby
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is(sql($standby, 'eu', q{SELECT region, inc, dec FROM dc_get_regions('likes', 'a')}), 'eu|5|0', 'a standby reads');
is(sql($standby, 'eu', $state), 'active', 'a standby is what its primary is');
fails_with($standby, 'eu', 'SELECT dc_region_renew()', '25006', 'a standby does not renew');
# a session that has used the counter before
my $script = file_of('promoted.sql', q{
SELECT dc_get('likes', 'a');
\! while [ -e $PROMOTED ]; do sleep 0.1; done
SELECT dc_incr('likes', 'late', 7);
});
my $wait = file_of('promoted', '');
$ENV{PROMOTED} = $wait;
my $job = start_job($standby, 'eu', $script);
sql($standby, 'eu', 'SELECT pg_sleep(0.5)');
$standby->promote;
unlink $wait;
is(finish_job($job), 0, 'a session from before the promotion counts');
is(wait_for($standby, 'eu', "SELECT epoch > $first, inc FROM likes_region WHERE key = 'late'", 't|7'), 't|7', 'which is of the new epoch');
sql($standby, 'eu', q{SELECT dc_decr('likes', 'late', 7)});
wait_for($standby, 'eu', q{SELECT dec FROM likes_region WHERE key = 'late'}, '7');
$published =~ s/FROM likes_region/FROM likes_region WHERE key <> 'late'/;
renews($standby, 'eu', $first, 'a promoted standby');
$standby->stop;

# What was in memory, and not published, when the server was stopped is of the old epoch in each copy of it
sql($primary, 'eu', q{SELECT dc_incr('buffered', 'm', 9)});
$primary->stop;
my $memory = PostgreSQL::Test::Cluster->new('memory');
PostgreSQL::Test::Utils::system_or_bail('cp', '-a', $primary->data_dir, $memory->data_dir);
$memory->append_conf('postgresql.conf', 'port = ' . $memory->port);
$memory->append_conf('postgresql.conf', q{archive_mode = off});
$primary->start;
is(wait_for($primary, 'eu', "SELECT epoch > $first FROM dcounter.self", 't'), 't', 'a start that no other region can confirm takes a new epoch');
my $alone = sql($primary, 'eu', $epoch);
sql($primary, 'eu', q{INSERT INTO dcounter.region (region, epoch, seq, first) VALUES ('us', 1, 1, 1)}); # that it has heard of another one

# Back to a moment, on a second timeline
my $pitr = PostgreSQL::Test::Cluster->new('pitr');
$pitr->init_from_backup($primary, 'pitr', has_restoring => 1, standby => 0);
$pitr->append_conf('postgresql.conf', "recovery_target_name = 'here'\nrecovery_target_action = 'promote'\narchive_mode = off");
$pitr->start;
wait_for($pitr, 'postgres', 'SELECT pg_is_in_recovery()', 'f');
$published =~ s/ WHERE key <> 'late'//;
renews($pitr, 'eu', $first, 'a point in time');
$pitr->stop;

# A dump that is restored
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
sql($primary, 'eu', q{DELETE FROM dcounter.region WHERE region = 'us'});
PostgreSQL::Test::Utils::system_or_bail('pg_dump', '-Fc', '-f', $dump, '-d', $primary->connstr('eu'));
sql($primary, 'postgres', 'CREATE DATABASE restored');
PostgreSQL::Test::Utils::system_or_bail('pg_restore', '-d', $primary->connstr('restored'), $dump);
renews($primary, 'restored', $first, 'a dump');

# The original goes on
is(sql($primary, 'eu', $epoch), $alone, 'the original has its epoch');
sql($primary, 'eu', q{SELECT dc_incr('likes', 'a')});
is(wait_for($primary, 'eu', $published, 'a=5-0 a=1-0 b=0-2'), 'a=5-0 a=1-0 b=0-2', 'the original goes on');
$primary->restart;
sql($primary, 'eu', q{SELECT dc_incr('likes', 'a')});
is(wait_for($primary, 'eu', $published, 'a=5-0 a=1-0 a=1-0 b=0-2'), 'a=5-0 a=1-0 a=1-0 b=0-2', 'and after a restart, under a new epoch');
is(sql($primary, 'eu', q{SELECT dc_get('likes', 'a'), keys FROM dc_region_check('likes') WHERE region IS NULL}), '7|0', 'the value is exact');

# The copy with what was in memory is isolated, but knows another region, which does not answer
$memory->start;
is(sql($memory, 'eu', q{SELECT dc_get('buffered', 'm')}), '9', 'what was in memory is there');
is(wait_for($memory, 'eu', $state, 'active'), 'active', 'with no other region it is active at once');
sql($memory, 'eu', q{SELECT dc_flush('buffered')});
is(wait_for($memory, 'eu', "SELECT epoch = $first, inc FROM buffered_region", 't|9'), 't|9', 'what was in memory is of the old epoch');
sql($memory, 'eu', q{INSERT INTO dcounter.region (region, epoch, seq, first) VALUES ('us', 1, 1, 1); SELECT dc_incr('buffered', 'm', 1)});
$memory->append_conf('postgresql.conf', "dcounter.region_handshake = '1s'");
$memory->restart;
sql($memory, 'eu', q{SELECT dc_incr('buffered', 'm', 100)}); sql($memory, 'eu', q{SELECT dc_flush('buffered')});
is(wait_for($memory, 'eu', q{SELECT string_agg(inc::text, ' ' ORDER BY epoch) FROM buffered_region}, '9 1 100'), '9 1 100', 'what is counted later is of the new one');
is(sql($memory, 'eu', q{SELECT dc_get('buffered', 'm'), keys FROM dc_region_check('buffered') WHERE region IS NULL}), '110|0', 'and the value is exact');
$memory->stop;

$primary->stop;
done_testing();
