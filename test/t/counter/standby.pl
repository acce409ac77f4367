# A streaming standby: exact values can be read there, writing is the read-only error, and after
# promotion counting continues from the committed values.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = dc_node('primary', init => { allows_streaming => 1 });
my @counters = ('c', 'p');
my $values = join('; ', map {
	"SELECT string_agg(key || '=' || value, ' ' ORDER BY key) FROM dc_get_many('$_', ARRAY['a', 'b', 'none']);
	SELECT dc_get('$_', 'a'), value, inc, dec, dc_sum('$_') FROM dc_info('$_', 'a')" } @counters);

sql($primary, 'postgres', q{
	SELECT dc_create('c', max_shards => 8), dc_create('p', partitions => 3);
	SELECT dc_incr('c', 'a', 5), dc_incr('p', 'a', 5);
	SELECT dc_compact();
	SELECT dc_create('idle', idle => '90 days'); SELECT dc_incr('idle', k) FROM unnest('{old,used,new}'::text[]) AS k;
	UPDATE idle SET updated_at = now() - interval '91 days' WHERE key = 'old';});
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# Totals, shard rows of several transactions, and a prepared transaction
foreach my $counter (@counters)
{
	sql($primary, 'postgres', qq{
		SELECT dc_incr('$counter', 'a', 10), dc_decr('$counter', 'a', 1), dc_incr('$counter', 'b', 3);
		BEGIN; SELECT dc_incr('$counter', 'a', 100), dc_apply(); COMMIT;
		BEGIN; SELECT dc_incr('$counter', 'a', 1000), dc_incr('$counter', 'b', 1000); PREPARE TRANSACTION '$counter kept';
		BEGIN; SELECT dc_incr('$counter', 'a', 5000); PREPARE TRANSACTION '$counter undone';});
}
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

is(sql($standby, 'postgres', $values), join("\n", ("a=114 b=3 none=0\n114|114|115|1|117") x 2),
	'the standby has the exact values');
is(sql($standby, 'postgres', $values), sql($primary, 'postgres', $values), 'those of the primary');

# A session that has been there before, and one that reads before and after
my $session = dc_session($standby, 'postgres');
$session->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($session->run("SELECT dc_get('c', 'a')"), '114', 'a snapshot on the standby');

foreach my $call (
	"dc_incr('c', 'a')", "dc_decr('c', 'a')", "dc_incr_hashed('c', 'a', 'x')",
	"dc_incr_many('c', ARRAY['a'])", "dc_incr_returning('c', 'a')", "dc_incr('p', 'a')",
	"dc_incr('c', 1)", "dc_set('c', 'a', 1)", "dc_reset('c', 'a')", "dc_delete('c', 'a')", "dc_compact()",
	"dc_compact('c')", "dc_apply()", "dc_create('d')", "dc_alter('c', 'hash')",
	"dc_drop('c')", "dc_adopt('c')", "dc_alter('idle', idle => '1 day')")
{
	fails_with($standby, 'postgres', "SELECT $call", '25006', "$call is the read-only error");
}
fails_with($standby, 'postgres', "BEGIN; SELECT dc_get('c', 'a'); SELECT dc_incr('c', 'a'); COMMIT",
	'25006', 'also after a read');
is(sql($standby, 'postgres', $values), sql($primary, 'postgres', $values), 'and changes nothing');

# Compaction on the primary does not move the standby's snapshot
sql($primary, 'postgres', "SELECT dc_compact(); SELECT dc_incr('c', 'a', 20), dc_incr('p', 'a', 20)");
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is($session->run("SELECT dc_get('c', 'a')"), '114', 'the snapshot stays');
$session->run('COMMIT');
is($session->run("SELECT dc_get('c', 'a')"), '134', 'the next one has what was counted since');

# Failover: everything acknowledged and replicated is present, and counting continues, also in a
# session from before.
$primary->stop('immediate');
$standby->promote;
is($session->run("SELECT dc_incr('c', 'a', 1)"), '', 'the session can count after promotion');
$session->quit;
sql($standby, 'postgres', q{
	SELECT dc_incr('p', 'a', 1);
	COMMIT PREPARED 'c kept'; COMMIT PREPARED 'p kept';
	ROLLBACK PREPARED 'c undone'; ROLLBACK PREPARED 'p undone';});
my $expected = join("\n", ("a=1135 b=1003 none=0\n1135|1135|1136|1|2138") x 2);
is(sql($standby, 'postgres', $values), $expected, 'promoted: exact, with prepared transactions');
sql($standby, 'postgres', 'SELECT dc_compact()') foreach 1 .. 2;
is(sql($standby, 'postgres', $values), $expected, 'promoted: compacted');
is(sql($standby, 'postgres', "SELECT dc_sum('idle'); CALL dc_maintain(); SELECT dc_sum('idle')"), "3\n2", 'promoted: keys expire');
is(sql($standby, 'postgres', q{
	SELECT dc_alter('c', 'backend', 2); SELECT dc_set('c', 'b', 5), dc_get('c', 'b');
	SELECT dc_create('d'); SELECT dc_incr('d', 'x'); SELECT dc_get('d', 'x')}) =~ s/^\n+//r,
	"1003|5\nd\n\n1", 'promoted: settings, dc_set and a new counter table');

$standby->stop;
done_testing();
