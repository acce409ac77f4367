# Beside other extensions, in one session and preloaded in any order: each library calls its own functions. On PostgreSQL 15 libraries
# hide no names unless they do so themselves, and the server loads them so that a name of two of them can be one function. The stage
# neighbours of make check runs all tests of SQL beside them.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

sub output_of
{
	open(my $pipe, '-|', @_) or die "$_[0]: $!";
	my @lines = <$pipe>;
	close $pipe;
	chomp @lines;
	return @lines;
}

my ($config) = grep { -x } "$ENV{BINDIR}/pg_config", $ENV{PG_CONFIG} // '';
my ($libdir) = output_of($config, '--pkglibdir');
my ($share) = output_of($config, '--sharedir');

# What the library exports: functions that SQL calls, and what the server looks up in any library
my @exported = map { (split)[2] } output_of('nm', '-D', '--defined-only', "$libdir/dcounter.so");
my %called = map { $_ => 1 } map { /^pg_finfo_(.*)/ ? $1 : () } @exported;
is(join(' ', grep { !/^(?:pg_finfo_|_PG_init$|Pg_magic_func$|dc_(?:launcher|worker)_main$)/ && !$called{$_} } @exported), '', 'nothing else is exported');
cmp_ok(scalar(keys %called), '>', 200, 'all of these are');

# expected values are those of a session without others
my $ours = q{
	SELECT dc_hll_count(dc_hll_agg(i)) BETWEEN 900 AND 1100 FROM generate_series(1, 1000) i;
	SELECT dc_hll_count(dc_hll_union(dc_hll_agg(1), dc_hll_agg(2)));
	SELECT dc_topk_estimate(dc_topk_agg(i % 3, 2), 1) FROM generate_series(1, 30) i;
	SELECT dc_incr('likes', 'a');
	SELECT dc_get('likes', 'a') > 0};
my %theirs = (
	hll => 'SELECT hll_cardinality(hll_add_agg(hll_hash_integer(i))) BETWEEN 900 AND 1100 FROM generate_series(1, 1000) i',
	pg_cron => q{SELECT cron.schedule('neighbour', '0 0 1 1 *', 'SELECT 1') > 0},
	pg_stat_statements => 'SELECT count(*) >= 0 FROM pg_stat_statements',
	pg_partman => 'SELECT count(*) = 0 FROM part_config',
	vector => q{SELECT '[1,2,3]'::vector <-> '[1,2,5]'::vector = 2},
	timescaledb => q{SELECT time_bucket('1 hour', timestamptz '2026-01-01 00:30Z') = '2026-01-01 00:00Z'},
	citus => q{SELECT citus_version() LIKE 'Citus%'});
my %library = (map({ $_ => $_ } keys %theirs), pg_partman => 'pg_partman_bgw');
my @found = grep { -e "$share/extension/$_.control" && -e "$libdir/$library{$_}.so" } sort keys %theirs;
note("found here: @found; not tested, as they are not installed: ", join(' ', grep { my $name = $_; !grep { $_ eq $name } @found } sort keys %theirs));

sub together
{
	my ($node, $with, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $text = join ";\n", map { $theirs{$_} } @$with;
	my $alone = sql($node, 'postgres', $ours);

	is(sql($node, 'postgres', "$text;\n$ours;\n$text"), join("\n", ('t') x @$with, $alone, ('t') x @$with), "$name, theirs first");
	is(sql($node, 'postgres', "$ours;\n$text;\n$ours"), join("\n", $alone, ('t') x @$with, $alone), "$name, ours first");
	unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal/, "$name: the server is well");
	return;
}

# Loaded by their first use. Some work only when they are preloaded.
my @lazy = grep { /^(?:hll|vector|pg_partman)$/ } @found;
my $node = dc_node('lazy');
sql($node, 'postgres', join ';', q{SELECT dc_create('likes')}, map { "CREATE EXTENSION $_" } @lazy);
SKIP:
{
	skip 'none of them is installed', 3 if !@lazy;
	together($node, \@lazy, "beside @lazy");
}
$node->stop;

# Preloaded, before and after ours. Citus must be the first.
my @others = grep { $_ ne 'citus' } @found;
my @citus = grep { $_ eq 'citus' } @found;
foreach my $order ([ @others, 'dcounter' ], [ 'dcounter', @others ])
{
	my $list = join ', ', map { $library{$_} // $_ } @citus, @$order;

	$node = dc_node('preloaded' . ($order->[0] eq 'dcounter' ? '_first' : '_last'), extension => 0, conf => [
			"shared_preload_libraries = '$list'", "cron.use_background_workers = on", 'max_worker_processes = 20' ]);
	sql($node, 'postgres', join ';', map { "CREATE EXTENSION $_" } @citus, @$order);
	sql($node, 'postgres', q{SELECT dc_create('likes')});
	together($node, [ @others, @citus ], "preloaded as $list");
	$node->stop;
}
done_testing();
