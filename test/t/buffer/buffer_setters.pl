# dc_set(), dc_reset() and dc_delete() of a buffered key at each isolation level, with flushes and other writers between
# the snapshot and the call: their results and the remaining values are those of a model, or they
# fail with 40001.
use strict;
use warnings;

use DcBuffer;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = buffer_node('main', "dcounter.compact_interval = '1h'");
my $setter = dc_session($node, 'postgres');
my $other = dc_session($node, 'postgres');
my $keys = 0;
my ($calls, $failures) = (0, 0);

# Before the snapshot: what is done, and the value
my %before = (
	nothing => [ '', 0 ],
	memory => [ 'SELECT dc_incr(C, K, 8)', 8 ],
	totals => [ 'SELECT dc_incr(C, K, 100); SELECT dc_flush(C)', 100 ],
	'shard rows and memory' => [ 'SELECT dc_set(C, K, 100); SELECT dc_incr(C, K, 8)', 108 ],
	'totals and memory' => [ 'SELECT dc_incr(C, K, 100); SELECT dc_flush(C); SELECT dc_incr(C, K, 8)', 108 ],
);

# Between the snapshot and the call: what the setter's transaction does, then what the other does, and how the
# value changes
my %between = (
	nothing => [ '', '', sub { $_[0] } ],
	increment => [ '', 'SELECT dc_incr(C, K, 3)', sub { $_[0] + 3 } ],
	'increment, flushed' => [ '', 'SELECT dc_incr(C, K, 3); SELECT dc_flush(C)', sub { $_[0] + 3 } ],
	'row locked' => [ 'SELECT FROM c WHERE key = K FOR UPDATE', '', sub { $_[0] } ],
	'row locked, increment' => [ 'SELECT FROM c WHERE key = K FOR UPDATE', 'SELECT dc_incr(C, K, 3)', sub { $_[0] + 3 } ],
	'row locked, increment, flushed' => [ 'SELECT FROM c WHERE key = K FOR UPDATE', 'SELECT dc_incr(C, K, 3); SELECT dc_flush(C)', sub { $_[0] + 3 } ],
	compaction => [ 'SELECT FROM dc_compact(C)', '', sub { $_[0] } ],
	'compaction, increment' => [ 'SELECT FROM dc_compact(C)', 'SELECT dc_incr(C, K, 3)', sub { $_[0] + 3 } ],
	'own set, increment' => [ 'SELECT FROM dc_set(C, K, 50)', 'SELECT dc_incr(C, K, 3)', sub { 53 } ],
	set => [ '', 'SELECT dc_set(C, K, 7)', sub { 7 } ],
	delete => [ '', 'SELECT dc_delete(C, K)', sub { 0 } ],
);

# What is called, and the value that it leaves
my %call = ('dc_set(C, K, 3)' => 3, 'dc_set(C, K, -4)' => -4, 'dc_reset(C, K)' => 0, 'dc_delete(C, K)' => 0);

# with_names(COUNTER, KEY, SQL): that SQL with the names
sub with_names
{
	my ($counter, $key, $sql) = @_;

	return $sql =~ s/\bC\b/'$counter'/gr =~ s/\bK\b/'$key'/gr =~ s/FROM c\b/FROM $counter/gr;
}

# one(COUNTER, LEVEL, BEFORE, BETWEEN, CALL): runs it with a key of its own, and returns what is wrong
sub one
{
	my ($counter, $level, $before, $between, $call) = @_;
	my $key = 'key ' . ++$keys;
	my $sql = sub { with_names($counter, $key, $_[0]) };
	my ($do, $value) = @{ $before{$before} };
	my ($own, $others, $change) = @{ $between{$between} };
	my $wrong = '';

	$other->run($sql->($do));
	# the first read takes the snapshot
	my $read = $setter->run($sql->("BEGIN ISOLATION LEVEL $level; SELECT dc_get(C, K)"));
	$wrong .= " reads $read, not $value;" if $read ne $value;
	my $said = $own eq '' ? '' : $setter->run($sql->($own));
	$other->run($sql->($others)) if $others ne '';
	my $changed = $said =~ /ERROR/ ? $change->($value) - ($between =~ /own set/ ? 50 - $value : 0) : $change->($value);
	my $got = $said =~ /ERROR/ ? $said : $setter->run($sql->("SELECT $call"));
	my $after = $call{$call};
	$calls++;
	if ($got eq 'ERROR 40001')
	{
		$failures++;
		$wrong .= ' fails;' if $level eq 'READ COMMITTED' || ($before =~ /^(?:nothing|totals)$/ && $between eq 'nothing');
		# its own set is undone: the increment is all that came
		$after = $between =~ /own set/ ? $value + 3 : $changed;
	}
	else
	{
		$wrong .= " returns $got, not $changed;" if $got ne $changed;
		$other->run($sql->('SELECT dc_incr(C, K, 1000)'));
		$after += 1000;
		$read = $setter->run($sql->('SELECT dc_get(C, K)'));
		$wrong .= " leaves $read to itself, not $after;" if $read ne $after;
	}
	$setter->run('COMMIT');
	foreach ('SELECT dc_get(C, K)', 'SELECT dc_flush(C); SELECT dc_get(C, K)')
	{
		$read = $other->run($sql->($_)) =~ s/.*\n//sr;
		$wrong .= " leaves $read, not $after;" if $read ne $after;
	}
	return $wrong eq '' ? '' : "$counter, $level, $before, then $between, $call:$wrong\n";
}

# each_of(COUNTER, LEVEL, BEFORE, BETWEEN): a test of all that match the two patterns. The calls take turns.
sub each_of
{
	my ($counter, $level, $before_like, $between_like) = @_;
	my @calls = sort keys %call;
	my $wrong = '';

	($calls, $failures) = (0, 0);
	foreach my $before (grep { /$before_like/ } sort keys %before)
	{
		$wrong .= one($counter, $level, $before, $_, $calls[ $keys % @calls ]) foreach grep { /$between_like/ } sort keys %between;
	}
	is($wrong, '', "$counter, $level: $calls calls are right or fail");
	note("$failures of $calls fail with 40001");
	return;
}

sql($node, 'postgres', q{
	SELECT dc_create('memory', mode => 'buffered', flush_interval => '1 day');
	SELECT dc_create('parts', mode => 'buffered', flush_interval => '1 day', partitions => 2);
	SELECT dc_create('trends', mode => 'buffered', flush_interval => '1 day', trend => '1 hour');
	SELECT dc_create('alone', mode => 'buffered', flush_interval => '1 day');
	SELECT dc_create('altered', mode => 'buffered', flush_interval => '1 day')});
each_of('memory', 'REPEATABLE READ', '', '');
each_of('memory', $_, 'and memory', '^(?!delete)') foreach 'READ COMMITTED', 'SERIALIZABLE';
each_of($_, 'REPEATABLE READ', 'and memory', '^(?:row locked|compaction|nothing)$') foreach 'parts', 'trends';

# The worker cannot flush it: the setter does
stuck($node, 'postgres', 'alone', 1);
each_of('alone', 'REPEATABLE READ', 'and memory', '^(?:row locked|compaction|nothing|increment)$');

# It is no longer buffered at the call
$other->run(q{SELECT dc_incr('altered', 'k', 100); SELECT dc_flush('altered'); SELECT dc_incr('altered', 'k', 8)});
$setter->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM memory LIMIT 1');
$other->run(q{BEGIN; SELECT FROM altered WHERE key = 'k' FOR UPDATE; SELECT dc_alter('altered', mode => 'exact'); COMMIT});
is($setter->run(q{SELECT dc_set('altered', 'k', 3)}), 'ERROR 40001', 'what dc_alter() has flushed since the snapshot is noticed');
$setter->run('ROLLBACK');
is($other->run(q{SELECT dc_get('altered', 'k')}), 108, 'and stays');

$_->quit foreach $setter, $other;
done_testing();
