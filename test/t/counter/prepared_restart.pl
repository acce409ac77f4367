# PREPARE TRANSACTION: the increments of a prepared transaction survive a
# restart, count when it is committed and never when it is rolled back, and
# block nobody meanwhile.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# A wait for a lock is an error, not a matter of time.
my $node = dc_node('prepared', conf => [ "lock_timeout = '1s'" ]);
my @counters = ('c', 'one', 'p');
my @levels = ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');

sql($node, 'postgres', q{
	SELECT dc_create('c'), dc_create('one', max_shards => 1), dc_create('p', max_shards => 1, partitions => 3);
	SELECT dc_incr(t, k, 100) FROM unnest(ARRAY['c', 'one', 'p']::regclass[]) AS t, unnest(ARRAY['a', 'b', 'c']) AS k;});

# The expected values of every key, and what each prepared transaction adds
my %value = map { my $c = $_; map { ("$c $_" => 100) } 'a', 'b', 'c' } @counters;
my %adds = (a => 7, b => -3, d => 20, e => 1);

# prepare(COUNTER, LEVEL, GID): 7 to a, -3 to b, 20 to d, 1 to e
sub prepare
{
	my ($counter, $level, $gid) = @_;

	sql($node, 'postgres', qq{
		BEGIN ISOLATION LEVEL $level;
		SELECT dc_incr('$counter', 'a', 5), dc_decr('$counter', 'b', 3);
		SAVEPOINT kept;
		SELECT dc_incr('$counter', 'a', 2);
		SAVEPOINT inner_kept;
		SELECT dc_incr_many('$counter', ARRAY['d', 'd', 'e'], ARRAY[12, 8, 1]);
		RELEASE inner_kept;
		RELEASE kept;
		SAVEPOINT undone;
		SELECT dc_incr('$counter', 'a', 1000), dc_incr('$counter', 'f', 1000);
		SELECT dc_apply();
		SELECT dc_incr('$counter', 'd', 1000);
		SAVEPOINT inner_undone;
		SELECT dc_incr('$counter', 'e', 1000);
		RELEASE inner_undone;
		ROLLBACK TO undone;
		PREPARE TRANSACTION '$gid';});
	return;
}

sub decide
{
	my ($what, $counter, $gid) = @_;

	sql($node, 'postgres', "$what PREPARED '$gid'");
	return if $what ne 'COMMIT';
	$value{"$counter $_"} += $adds{$_} foreach keys %adds;
	return;
}

sub values_ok
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	foreach my $counter (@counters)
	{
		my $expected = join(' ', map { "$_=" . ($value{"$counter $_"} // 0) } 'a' .. 'f');
		my $sum = 0;

		$sum += ($value{"$counter $_"} // 0) foreach 'a' .. 'f';
		is(sql($node, 'postgres', qq{
			SELECT string_agg(key || '=' || value, ' ' ORDER BY key) FROM dc_get_many('$counter', ARRAY['a', 'b', 'c', 'd', 'e', 'f']);
			SELECT dc_sum('$counter');}), "$expected\n$sum", "$name: $counter");
	}
	return;
}

# others_work(NAME): other sessions write, read and compact, and wait for
# nothing. Each counter gets 3 more for a and d.
sub others_work
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	foreach my $counter (@counters)
	{
		my $sql = '';

		foreach my $level (@levels)
		{
			$sql .= "BEGIN ISOLATION LEVEL $level; SELECT dc_incr('$counter', 'a'), dc_incr('$counter', 'd'); COMMIT;\n";
			$sql .= "SELECT dc_compact('$counter');\n";
		}
		is($node->psql('postgres', $sql), 0, "$name: others count and compact $counter without waiting");
		$value{"$counter $_"} += 3 foreach 'a', 'd';
	}
	return;
}

values_ok('at first');
foreach my $counter (@counters)
{
	foreach my $level (@levels)
	{
		prepare($counter, $level, "$counter $level $_") foreach 1 .. 4;
	}
}
values_ok('prepared');
others_work('prepared');
values_ok('after others');

# One of each kind: before a restart, and after a clean and a crash restart
foreach my $n (1 .. 3)
{
	my $name = ('', 'no restart', 'fast restart', 'immediate restart')[$n];

	if ($n > 1)
	{
		$node->stop($n == 2 ? 'fast' : 'immediate');
		$node->start;
		values_ok("$name, still prepared");
		others_work($name);
	}
	foreach my $counter (@counters)
	{
		decide($n == 2 ? 'COMMIT' : 'ROLLBACK', $counter, "$counter READ COMMITTED $n");
		decide($n == 2 ? 'ROLLBACK' : 'COMMIT', $counter, "$counter REPEATABLE READ $n");
		decide('COMMIT', $counter, "$counter SERIALIZABLE $n");
	}
	values_ok("$name, decided");
}

# The fourth of each is forgotten. dc_set() sets the committed value, and prepared increments are
# added on top.
foreach my $counter (@counters)
{
	is(sql($node, 'postgres', "SELECT dc_set('$counter', 'a', 50), dc_delete('$counter', 'd'), dc_reset('$counter', 'e')"),
		join('|', map { $value{"$counter $_"} } 'a', 'd', 'e'),
		"$counter: dc_set, dc_delete and dc_reset do not wait for a prepared transaction");
	$value{"$counter a"} = 50;
	$value{"$counter $_"} = 0 foreach 'd', 'e';
}
values_ok('set');
others_work('set');
decide('COMMIT', $_, "$_ READ COMMITTED 4") foreach @counters;
values_ok('set, then prepared ones commit');
sql($node, 'postgres', 'SELECT dc_compact()');
values_ok('compacted');
$node->restart;
foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	decide('COMMIT', $_, "$_ $level 4") foreach @counters;
}
sql($node, 'postgres', 'SELECT dc_compact()') foreach 1 .. 3;
values_ok('all decided and compacted');
is(sql($node, 'postgres', 'SELECT count(*) FROM pg_prepared_xacts'), '0', 'nothing is left prepared');

# A PREPARE TRANSACTION that fails counts nothing, and the session continues.
my $session = dc_session($node, 'postgres');
$session->run("BEGIN; SELECT dc_incr('c', 'a'); PREPARE TRANSACTION 'twice'");
is($session->run("BEGIN; SELECT dc_incr('c', 'a', 1000); PREPARE TRANSACTION 'twice'"),
	'ERROR 42710', 'a duplicate identifier');
is($session->run("BEGIN; CREATE TEMP TABLE t (); SELECT dc_incr('c', 'a', 1000); PREPARE TRANSACTION 'temp'"),
	'ERROR 0A000', 'a transaction that cannot be prepared');
values_ok('after failed ones');
$session->run("SELECT dc_incr('c', 'b', 4)");
$value{'c b'} += 4;
values_ok('the session goes on');

# The session that prepared does not count it a second time.
is($session->run("BEGIN; SELECT dc_incr('c', 'b'); SELECT dc_get('c', 'a') = $value{'c a'}; COMMIT"),
	"\nt", 'a prepared increment is pending no more');
$session->run("COMMIT PREPARED 'twice'");
$value{'c a'}++;
$value{'c b'}++;
values_ok('after all');
$session->quit;

$node->stop;
done_testing();
