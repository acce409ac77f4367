# Distinct tables: acknowledged items are present after a crash, on a standby and after dump and
# restore; a commit that waits for the disk does not rely on one that does not.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
# The WAL writer must not come between an asynchronous commit and the crash.
$node->append_conf('postgresql.conf', "wal_writer_delay = 10s\nautovacuum = off\nmax_prepared_transactions = 5\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION dcounter;
	SELECT dc_distinct_create('d');
	SELECT dc_add('d', 'k', 'first');
	CHECKPOINT;
});

sub items
{
	my ($server, $key, $db) = @_;
	return $server->safe_psql($db // 'postgres', "SELECT round(estimate) FROM dc_distinct('d', '$key')");
}

# Session 1 commits x asynchronously. Session 2 has read that, and commits x synchronously: it must not leave it to session 1.
my $async = $node->background_psql('postgres');
my $sync = $node->background_psql('postgres');
$async->query_safe('SET synchronous_commit = off');
$sync->query_safe("SELECT 1");
$async->query_safe("SELECT dc_add('d', 'k', 'x')");
$sync->query_safe("SELECT dc_add('d', 'k', 'x')");
$node->stop('immediate');
$node->start;
eval { $_->quit } foreach ($async, $sync);
is(items($node, 'k'), 2, 'an item is there that was committed after an asynchronous commit of the same');

# Nor when it is asynchronous only for the call.
$node->safe_psql('postgres', q{CREATE FUNCTION add_all() RETURNS void LANGUAGE sql SET synchronous_commit = off AS $$
	SELECT dc_add('d', 'all', 'item ' || i) FROM generate_series(1, 20) AS i $$});
my $both = $node->background_psql('postgres');
$both->query_safe('SET synchronous_commit = off; SELECT add_all()');
$both->query_safe('SET synchronous_commit = on; SELECT add_all()');
$node->stop('immediate');
$node->start;
eval { $both->quit };
is(items($node, 'all'), 20, 'a commit that waits for the disk rests on no asynchronous one, also if a function has set that it need not');

# Prepared items survive a crash, and count when they are committed.
$node->safe_psql('postgres', "BEGIN; SELECT dc_add('d', 'p', 'a'); PREPARE TRANSACTION 'p'");
$node->stop('immediate');
$node->start;
is(items($node, 'p'), 0, 'not while they are prepared');
$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
is(items($node, 'p'), 1, 'but when they are committed');

# A fold whose commit is lost leaves the deltas.
$node->safe_psql('postgres', "SELECT dc_add_many('d', array_agg('f'::text), array_agg(i)) FROM generate_series(1, 1000) AS i");
my $before = items($node, 'f');
$node->safe_psql('postgres', "SET synchronous_commit = off; CALL dc_maintain()");
$node->stop('immediate');
$node->start;
is(items($node, 'f'), $before, 'the same after a fold and a crash');

# A standby reads, and does not write.
$node->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', "SELECT dc_add('d', 'k', 'more')");
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(items($standby, 'k'), 3, 'a standby reads');
my (undef, undef, $error) = $standby->psql('postgres', "SELECT dc_add('d', 'k', 'x')");
like($error, qr/cannot execute dc_add\(\) (in a read-only transaction|during recovery)/, 'and does not write');
$standby->stop;

# Dump and restore, deltas included.
$node->safe_psql('postgres', "SELECT dc_distinct_create('b', 12, '1 day', '30 days'); SELECT dc_add('b', 'k', 'x')");
my $file = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $file, '-d', $node->connstr('postgres') ], 'dump');
$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-q', '-f', $file, '-d', $node->connstr('copy') ], 'restore');
is(items($node, 'f', 'copy'), $before, 'what was folded is in the copy');
is(items($node, 'k', 'copy'), 3, 'and what was not');
$node->safe_psql('copy', "SELECT dc_add('d', 'k', 'in the copy'), dc_add('b', 'k', 'y'); CALL dc_maintain()");
is(items($node, 'k', 'copy'), 4, 'it can be added to');
is($node->safe_psql('copy', "SELECT round(estimate) FROM dc_distinct_buckets('b', 'k')"), 2, 'buckets as well');

$node->stop;
done_testing();
