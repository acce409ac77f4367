# dc_hll and Redis's HyperLogLog are the same registers: sets of random strings
# counted by a Redis server and by dc_hll_agg, and moved from one to the other.
# What Redis never writes (hostile bytes) is in the regression test.
use strict;
use warnings;

use DcRedis qw(registers register_values);
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'there is no Redis server here' if !defined DcRedis::program();

my $sets = torture(60, 1000);
my $largest = torture(100_000, 1_000_000);

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $redis = DcRedis->start;
my $node = dc_node('redis', conf => [ 'fsync = off', 'synchronous_commit = off', 'jit = off' ]);
my $session = dc_session($node, 'postgres');
my $folder = PostgreSQL::Test::Utils::tempdir();

##
## sets of strings

# Kinds of strings: how one is made, and how its bytes become an item.
my $text = q{convert_from(bytes, 'UTF8')};
my @kinds = (
	{ name => 'bytes', make => sub { random_bytes(int(rand(41))) }, item => 'bytes' },
	{ name => 'integers', make => sub { int(rand(4e15)) - 2e15 }, item => "$text\::bigint" },
	{ name => 'words', make => sub { 'user:' . int(rand(1e12)) }, item => $text },
	{ name => 'characters', make => sub { random_text(int(rand(12))) }, item => "$text\::varchar" },
	{ name => 'long and short', make => sub { random_bytes(int(2**rand(11)) - 1) }, item => 'bytes' },
	{ name => 'few', make => sub { int(rand(300)) }, item => "$text\::int" });

sub random_bytes
{
	my ($length) = @_;

	return substr(pack('N*', map { rand(4294967296) } 0 .. $length / 4), 0, $length);
}

# Characters of one to four bytes
sub random_text
{
	my ($length) = @_;
	my $string = join('', map { chr(0x20 + int(rand(2) < 1 ? rand(0x60) : rand(0x1f000) + ($_ % 2 ? 0x1000 : 0xc0))) } 1 .. $length);

	$string =~ s/[\x{d800}-\x{dfff}\x{7f}]/-/g;
	utf8::encode($string);
	return $string;
}

# add(KEY, STRING...): PFADD, a thousand strings a command; whether any changed it
sub add
{
	my ($key, @strings) = @_;
	my @commands;

	push @commands, [ 'PFADD', $key, splice(@strings, 0, 1000) ] while @strings;
	return scalar grep { $_ } $redis->pipeline(@commands);
}

# load(STRING...): they are the rows of the table items
sub load
{
	my (@strings) = @_;

	open(my $file, '>', "$folder/items") or die "$folder/items: $!";
	print $file map { '\\\\x' . unpack('H*', $_) . "\n" } @strings;
	close $file or die "$folder/items: $!";
	$session->run("TRUNCATE items; COPY items FROM '$folder/items'");
	return;
}

sub hex_of
{
	my ($value) = @_;

	return q{'\x} . unpack('H*', $value) . q{'::bytea};
}

# exported(SKETCH): the Redis value that the server makes of an expression
sub exported
{
	my ($sketch) = @_;
	my $hex = $session->run("SELECT encode(dc_hll_to_redis($sketch), 'hex')");

	die "dc_hll_to_redis($sketch): $hex" if $hex !~ /^[0-9a-f]+$/;
	return pack('H*', $hex);
}

# stale(VALUE): the same without its cached count, which Redis then computes again
sub stale
{
	my ($value) = @_;

	return substr($value, 0, 8) . "\0\0\0\0\0\0\0\x80" . substr($value, 16);
}

# different(A, B): the first register that differs, "" if none does
sub different
{
	my ($left, $right) = @_;

	return '' if registers($left) eq registers($right);
	my @left = register_values($left);
	my @right = register_values($right);
	my ($i) = grep { $left[$_] != $right[$_] } 0 .. $#left;
	return "register $i: $left[$i], not $right[$i]";
}

# compare(NAME, GOT, EXPECTED): remembers what is not as it should be
my %wrong;

sub compare
{
	my ($what, $set, $got, $expected) = @_;

	$wrong{$what} //= '';
	$wrong{$what} .= "$set: '$got', not '$expected'; " if $got ne $expected;
	return;
}

sub nothing_wrong
{
	my (@names) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($wrong{$_}, '', $_) foreach @names;
	return;
}

##
## each set there and back

# size_of(I): from one string to the largest set, each so many times the one before
sub size_of
{
	my ($i) = @_;

	return int(exp(log($largest) * $i / ($sets - 1)) + 0.5);
}

$session->run('CREATE TABLE items (bytes bytea); ALTER TABLE items ALTER bytes SET STORAGE plain');
my %forms;
my $previous;
foreach my $i (0 .. $sets - 1)
{
	my $kind = $kinds[ $i % @kinds ];
	# The number of kinds and that of limits have a common factor.
	my $limit = (0, 3000, 30000)[ ($i + int($i / 3)) % 3 ];
	my $n = size_of($i);
	my @strings = map { $kind->{make}->() } 1 .. $n;
	my $set = "set $i, $n $kind->{name}, hll-sparse-max-bytes $limit";

	# counted by both
	$redis->command('CONFIG', 'SET', 'hll-sparse-max-bytes', $limit);
	$redis->command('DEL', qw(a b merged grown));
	add('a', @strings);
	my $count = $redis->command('PFCOUNT', 'a');
	my $theirs = $redis->command('GET', 'a');
	load(@strings);
	$session->run("DROP TABLE IF EXISTS mine; CREATE TABLE mine AS SELECT dc_hll_agg($kind->{item}) AS h FROM items");
	my $ours = exported('(SELECT h FROM mine)');
	$forms{ ord(substr($theirs, 4, 1)) ? 'from sparse' : 'from dense' }++;
	$forms{ ord(substr($ours, 4, 1)) ? 'to sparse' : 'to dense' }++;
	compare('the same strings are the same registers', $set, different($ours, $theirs), '');

	# from Redis
	my $import = 'dc_hll_from_redis(' . hex_of($theirs) . ')';
	compare('imported: dc_hll_count is PFCOUNT', $set, $session->run("SELECT dc_hll_count($import)"), $count);
	compare('imported and exported: the same registers', $set, different(exported($import), $theirs), '');

	# to Redis, which believes the count that comes with a value: with tokens a
	# better one than its own
	$redis->command('SET', 'b', $ours);
	my $import_ours = 'dc_hll_from_redis(' . hex_of($ours) . ')';
	compare('exported: PFCOUNT is dc_hll_count', $set, $redis->command('PFCOUNT', 'b'), $session->run('SELECT dc_hll_count(h) FROM mine'));
	$redis->command('SET', 'b', stale($ours));
	compare('exported: PFCOUNT made anew is that of its own value', $set, $redis->command('PFCOUNT', 'b'), $count);
	compare('both imported: equal values', $set, $session->run("SELECT $import = $import_ours"), 't');

	# goes on in Redis
	my @more = map { $kind->{make}->() } 1 .. 1 + int($n / 10);
	$redis->command('SET', 'b', $ours);
	my $changed = add('a', @more);
	compare('exported: PFADD goes on', $set, !!add('b', @more), !!$changed);
	compare('exported: PFADD leads to the same registers', $set, different($redis->command('GET', 'b'), $redis->command('GET', 'a')), '');

	# merged with the set before it, which may be of the other form
	if (defined $previous)
	{
		$redis->command('MSET', 'a', $ours, 'b', $previous);
		$redis->command('PFMERGE', 'merged', 'a', 'b');
		my $union = exported("(SELECT dc_hll_union(h, dc_hll_from_redis(" . hex_of($previous) . ")) FROM mine)");
		compare('PFMERGE and dc_hll_union: the same registers', $set, different($union, $redis->command('GET', 'merged')), '');
		compare('PFMERGE and dc_hll_union: the same count', $set,
			$session->run('SELECT dc_hll_count(dc_hll_from_redis(' . hex_of($union) . '))'), $redis->command('PFCOUNT', 'merged'));
	}
	$previous = $ours;
}
nothing_wrong(
	'the same strings are the same registers',
	'imported: dc_hll_count is PFCOUNT', 'imported and exported: the same registers',
	'exported: PFCOUNT is dc_hll_count', 'exported: PFCOUNT made anew is that of its own value', 'both imported: equal values',
	'exported: PFADD goes on', 'exported: PFADD leads to the same registers',
	'PFMERGE and dc_hll_union: the same registers', 'PFMERGE and dc_hll_union: the same count');
note(join(', ', map { "$forms{$_} $_" } sort keys %forms));
is(scalar keys %forms, 4, 'dense and sparse values, both ways');

##
## edges

# The registers as Redis sees them (PFDEBUG makes the key dense)
$redis->command('CONFIG', 'SET', 'hll-sparse-max-bytes', 3000);
$redis->command('DEL', 'a');
add('a', map { "item $_" } 1 .. 1000);
my $sparse = $redis->command('GET', 'a');
my $seen = $redis->command('PFDEBUG', 'GETREG', 'a');
my $dense = $redis->command('GET', 'a');
is(ord(substr($sparse, 4, 1)) . ord(substr($dense, 4, 1)), '10', 'a sparse value, and it dense');
is(join(' ', register_values($_)), join(' ', @$seen), 'registers as Redis sees them') foreach $sparse, $dense;
is($session->run('SELECT dc_hll_from_redis(' . hex_of($sparse) . ') = dc_hll_from_redis(' . hex_of($dense) . ')'),
	't', 'a sparse value and it dense are equal');

# Nothing, and the empty string, which is something
$redis->command('DEL', 'a', 'b');
$redis->command('PFADD', 'a');
my $nothing = $redis->command('GET', 'a');
is($session->run('SELECT dc_hll_count(dc_hll_from_redis(' . hex_of($nothing) . '))'), 0, 'an empty value from Redis');
$redis->command('SET', 'b', exported('dc_hll(14)'));
is($redis->command('PFCOUNT', 'b'), 0, 'an empty value to Redis');
is($redis->command('PFADD', 'b', ''), 1, 'the empty string is something');
is(different($redis->command('GET', 'b'), exported("(SELECT dc_hll_agg(''::text))")), '', 'and the same register');

# Equal numbers are the same item, whatever their type, and that of their digits
$redis->command('DEL', 'a');
add('a', -3 .. 500);
is(different($redis->command('GET', 'a'), exported("(SELECT dc_hll_agg(n$_) FROM generate_series(-3, 500) AS n)")),
	'', "integers are their digits: n$_")
  foreach '', '::smallint', '::bigint', '::numeric', '::text';

$session->quit;
$node->stop;
$redis->stop;
done_testing();
