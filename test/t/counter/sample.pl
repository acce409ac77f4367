# Sampled counting in a server: it has no bias, its error is what dc_info() says, most calls write
# nothing, and concurrent clients lose none of the rounded increments.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('sample', conf => [ q{shared_preload_libraries = 'dcounter'}, 'autovacuum = off' ]);

# ------------------------------------------------------------
# 10,000 runs: a key is a run
# ------------------------------------------------------------
# Deltas of 1 and -1, for which the error of dc_info() is the standard error itself. A mean off by 4 standard errors is
# one case in 16,000, so that is measured a second time: both are wrong in one of 10^8.
my ($runs, $calls) = (10000, 600);
my ($mean, $within, $errors) = (9, 0, 0);

sql($node, 'postgres', q{
	SELECT dc_create('runs', sample => 16);
	CREATE TABLE truth (run int, n bigint)});
foreach my $try (1 .. 2)
{
	last if abs($mean) <= 4 && $within > 0.93 && $within < 0.97;
	sql($node, 'postgres', qq{
		TRUNCATE runs; TRUNCATE truth;
		SELECT count(dc_incr('runs', run, 1)) FROM generate_series(1, $runs) AS run, generate_series(1, $calls * 3 / 4);
		SELECT count(dc_decr('runs', run, 1)) FROM generate_series(1, $runs) AS run, generate_series(1, $calls / 4);
		SELECT dc_compact('runs')});
	($mean, $within, $errors) = split /\|/, sql($node, 'postgres', qq{
		SELECT avg(off) / (stddev(off) / sqrt(count(*))), avg((abs(off) <= error)::int), stddev(off) / sqrt($calls * 15)
		FROM (SELECT i.value - $calls / 2 AS off, i.error FROM generate_series(1, $runs) AS run, dc_info('runs', run) AS i) AS r});
}
cmp_ok(abs($mean), '<=', 4, 'the mean of 10,000 runs is within 4 standard errors of the truth');
cmp_ok($within, '>', 0.93, 'the error of dc_info() holds in more than 93 %');
cmp_ok($within, '<', 0.97, 'and in less than 97 %');
cmp_ok(abs($errors - 1), '<', 0.05, 'the standard error is the root of (inc + dec) (p - 1)');

# ------------------------------------------------------------
# Clients at once
# ------------------------------------------------------------
sql($node, 'postgres', q{SELECT dc_create('views', sample => 64)});
my $before = sql($node, 'postgres', 'SELECT pg_current_xact_id()');
my $load = start_command('pgbench', '-n', '-M', 'prepared', '-c', 8, '-j', 2, '-t', 2000,
	'-f', file_of('views.sql', "SELECT dc_incr('views', 'a');"), $node->connstr('postgres'));
is(finish_job($load), 0, '16,000 increments') or diag($load->{err});
my $xacts = sql($node, 'postgres', "SELECT pg_current_xact_id()::text::bigint - $before");
my $value = sql($node, 'postgres', q{SELECT dc_get('views', 'a')});

# the standard error is 1004; 8 of them are one case in 10^15
cmp_ok(abs($value - 16000), '<', 8 * 1004, 'their sum');
is($value % 64, 0, 'each is a multiple');
# every transaction with a number has written; some are the worker's
cmp_ok($value / 64, '<=', $xacts, 'what was written is there');
cmp_ok($xacts, '<', 3000, 'and most transactions have written nothing');

# ------------------------------------------------------------
# What is kept: after a crash, and in a dump; what is refused where there is memory
# ------------------------------------------------------------
sql($node, 'postgres', q{SELECT dc_alter('views', sample => 8)});
$node->stop('immediate');
$node->start;
is(sql($node, 'postgres', q{SELECT dc_get('views', 'a')}), $value, 'after a crash');
is(sql($node, 'postgres', q{SELECT sample || '/' || sample_max FROM dcounter.counter WHERE counter = 'views'::regclass}), '8/64', 'with the settings');
my $file = PostgreSQL::Test::Utils::tempdir() . '/views';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $file, $node->connstr('postgres') ], 'dump');
sql($node, 'postgres', 'CREATE DATABASE restored TEMPLATE template0');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('restored'), $file ], 'restore');
is(sql($node, 'restored', q{SELECT sample || '/' || sample_max || '/' || dc_get('views', 'a') FROM dcounter.counter WHERE counter = 'views'::regclass}), "8/64/$value", 'and restored');
fails_with($node, 'postgres', q{SELECT dc_create('wrong', sample => 64, mode => 'buffered')}, '22023', 'no buffered table is sampled');
fails_with($node, 'postgres', q{SELECT dc_alter('views', mode => 'buffered')}, '22023', 'and no sampled one buffered');
fails_with($node, 'postgres', q{SELECT dc_create('buffered', mode => 'buffered'); SELECT dc_alter('buffered', sample => 2)}, '22023', 'in either order');

# A session that knows the table hears of another's dc_alter() and DROP
my $knows = dc_session($node, 'postgres');
$knows->run(q{SELECT dc_incr('views', 'b', 0)});
sql($node, 'postgres', q{SELECT dc_alter('views', sample => 1)});
$knows->run(q{SELECT dc_incr('views', 'b')}) foreach 1 .. 100;
is(sql($node, 'postgres', q{SELECT dc_get('views', 'b')}), 100, 'exact again, in a session that was open');
sql($node, 'postgres', q{SELECT dc_alter('views', sample => 64)});
$knows->run(q{SELECT dc_incr('views', 'b', 0)});
$knows->run(q{SELECT dc_incr('views', 'b', 0)});
sql($node, 'postgres', q{CREATE TABLE regs AS SELECT 'views'::regclass::oid AS t; DROP TABLE views});
like($knows->run(q{SELECT dc_incr((SELECT t FROM regs), 'b', 0)}), qr/^ERROR/, 'a dropped table');
$knows->quit;

$node->stop;
done_testing();
