# Rows that an owner has put into a table of a windowed counter by hand: the worker moves what can be moved, reads the other rows once,
# leaves that table to its owner, and continues with the others.
use strict;
use warnings;

use DcTest;
use DcWorker;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = dc_node('main', conf => [
		worker_conf(), "shared_preload_libraries = 'dcounter'", 'max_worker_processes = 20', "dcounter.window_interval = '20ms'", 'dcounter.compact_batch = 10' ]);

sub do_sql
{
	return sql($node, 'postgres', $_[0]);
}

# Not while one turn ends and the next one begins, every so often
my $left = do_sql(q{
	SELECT dc_window_create('turns', '1 minute', '1 hour', '{"10 minutes": "1 day"}') \g /dev/null
	SELECT turn - extract(epoch FROM clock_timestamp() - '2000-01-01 UTC')::numeric % turn FROM (SELECT spans[1] * widths[1] / 1000000 AS turn FROM dcounter.time_window) AS t;
	SELECT dc_window_drop('turns') \g /dev/null});
sleep($left + 1) if $left < 20;

# All windows have increments of one turn of the first level, whose time is up.
do_sql($_) foreach 'SELECT dc_worker_stop()', q{
	SELECT dc_window_create(w, '1 minute', '1 hour', '{"10 minutes": "1 day"}') FROM unnest(ARRAY['low', 'high', 'clean']) AS w;
	UPDATE dcounter.time_window SET floors[1] = floors[1] - spans[1] * widths[1];
	CREATE TABLE old AS SELECT min('2000-01-01 UTC'::timestamptz + floors[1] / 1000000 * interval '1 s') AS at FROM dcounter.time_window}, q{
	SELECT count(dc_incr_at(w, 'k' || i, 1, old.at)) FROM generate_series(1, 150) AS i, old, unnest(ARRAY['low', 'high', 'clean']::regclass[]) AS w};
my $number = do_sql('SELECT min(turn) % 8 FROM dcounter.window_claim');

# Keys that are no bucket's: in one table some end like an old bucket, in the other like a new one
do_sql(qq{
	INSERT INTO low_w$number (key, inc) SELECT k || i, 1 FROM generate_series(1, 2000) AS i, unnest(ARRAY['a0000000', 'k1zzzzzzzz']) AS k;
	INSERT INTO high_w$number (key, inc) SELECT 'k1zzzzzzzz' || i, 1 FROM generate_series(1, 4000) AS i;
	ANALYZE low_w$number, high_w$number});

my $claims = q{SELECT string_agg(windowed::text, ' ' ORDER BY windowed::text) FROM dcounter.window_claim WHERE level = 0 AND NOT emptied};
my $start = -s $node->logfile;
do_sql('SELECT dc_worker_start()');
soon($node, 'postgres', $claims, 'high low', 'the window that has no such rows is done');
logged($node, $start, qr/leaves table "${_}_w$number" of windowed counter "$_" to its owner/, "$_: the worker leaves the table") foreach 'low', 'high';
is(do_sql(q{SELECT string_agg(format('%s %s', v.key, v.sum), ', ') FROM (
	SELECT 'low' AS key, sum(value) FROM low WHERE key IS NOT NULL UNION ALL SELECT 'high', sum(value) FROM high WHERE key IS NOT NULL) AS v}), 'low 150, high 150', 'nothing is lost');
is(do_sql(qq{SELECT count(*) FROM low_w$number WHERE dcounter.window_key(key) IS NOT NULL}), '0', 'what can be moved is moved');

# rounds(N): waits for so many more of the job
my $runs = q{SELECT coalesce(sum(runs), 0) FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'windows'};

sub rounds
{
	my $until = do_sql($runs) + $_[0];

	return wait_for($node, 'postgres', "SELECT ($runs) >= $until", 't');
}

# rows_read(): from the tables with such rows, by all sessions that have told
sub rows_read
{
	return do_sql(qq{SELECT sum(seq_tup_read + pg_stat_get_tuples_returned(i.indexrelid)) FROM pg_stat_all_tables AS t JOIN pg_index AS i ON i.indrelid = t.relid
		WHERE t.relname IN ('low_w$number', 'high_w$number')});
}

rounds(3);
# the worker tells what it has read when it sleeps
for (1 .. $PostgreSQL::Test::Utils::timeout_default)
{
	last if rows_read() > 4000;
	sleep(1);
}
sleep(1);
my $before = rows_read();
cmp_ok($before, '>', 4000, 'they were read');
rounds(30);
cmp_ok(rows_read() - $before, '<', 4000, 'and not in each round');
is(do_sql(q{SELECT tables_left FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'windows'}), '2', 'dc_stat_worker counts the tables');
is(scalar(() = log_since($node, $start) =~ /leaves table/g), 2, 'the log has it once');

# Without them the worker goes on; dc_window_rotate() empties a table all the same, if they are not like old buckets
do_sql(qq{DELETE FROM low_w$number WHERE dcounter.window_key(key) IS NULL});
soon($node, 'postgres', $claims, 'high', 'without them, the worker goes on');
soon($node, 'postgres', "SELECT dc_window_rotate('high') >= 0 AND pg_relation_size('high_w$number') = 0", 't', 'the owner can empty the other');
soon($node, 'postgres', "SELECT pg_relation_size('low_w$number')", '0', 'and the worker that one');
soon($node, 'postgres', q{SELECT tables_left FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'windows'}, '0', 'none is left to its owner');

$node->stop;
done_testing();
