# The worker while a dump is being restored: tables that have their rows, but no primary key yet, are left alone without a
# failure, and maintained once everything is there.
use strict;
use warnings;

use DcTest;
use DcWorker;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('restore', conf => [ worker_conf(), "shared_preload_libraries = 'dcounter'", 'dcounter.distinct_interval = 100ms' ]);
my $dump = $node->basedir . '/dump';

sql($node, 'postgres', q{
	SELECT dc_create('likes', trend => '1 hour');
	SELECT dc_stock_create('seats');
	SELECT dc_restock('seats', 'a', 3), dc_hold('seats', 'a', 2, ttl => '1 h');
	UPDATE seats_hold SET expires_at = now() + '1 s';
	SELECT dc_distinct_create('d');
	SELECT dc_add('d', 'a', i) FROM generate_series(1, 10) AS i;
	CREATE TABLE post (id int PRIMARY KEY, author text NOT NULL, page text NOT NULL);
	INSERT INTO post VALUES (1, 'ann', 'x'), (2, 'ann', 'y'), (3, 'ann', 'x');
	SELECT dc_create('pages');
	SELECT dc_bind('pages', 'post', key => 'author', distinct_of => 'page', build => 'now');
});
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'dump');
sql($node, 'postgres', 'CREATE DATABASE copy');

# restore(ARGUMENT...)
sub restore
{
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('copy'), @_, $dump ], "pg_restore $_[0]");
}

# looks_on(NAME): each job runs two more times, and none fails
sub looks_on
{
	my ($name) = @_;
	my $jobs = q{FROM dc_stat_worker WHERE datname = 'copy' AND job IN ('compaction', 'expiry', 'distinct', 'verify')};
	my %runs = map { split /\|/ } split /\n/, sql($node, 'copy', "SELECT job, runs $jobs");

	foreach my $job (sort keys %runs)
	{
		$node->poll_query_until('copy', "SELECT runs >= $runs{$job} + 2 $jobs AND job = '$job'") or die "$job does not run";
	}
	is(join(' ', sort keys %runs), 'compaction distinct expiry verify', "$name: all of them run");
	is(step_failures($node), '', "$name: nothing fails");
}

restore('--section=pre-data');
restore('--section=data');
$node->poll_query_until('copy', q{SELECT count(*) = 4 FROM dc_stat_worker WHERE datname = 'copy' AND runs > 0 AND job IN ('compaction', 'expiry', 'distinct', 'verify')});
looks_on('no table has a primary key');

# the tables themselves, and then those that belong to them
my ($list) = run_command([ 'pg_restore', '-l', '--section=post-data', $dump ]);
my $first = qr/ CONSTRAINT public \S+ (?:likes|likes_shard|seats|seats_shard|d|pages|pages_shard)_pkey /;
my @lines = split /\n/, $list;
is(scalar(grep { /$first/ } @lines), 7, 'primary keys of the tables');
restore('-L', file_of('first', join("\n", grep { /$first/ } @lines)));
looks_on('holds, deltas and references have none');
restore('-L', file_of('rest', join("\n", grep { !/$first/ } @lines)));

soon($node, 'copy', 'SELECT count(*) FROM d_delta', '0', 'items are folded when all is there');
soon($node, 'copy', q{SELECT state FROM seats_hold}, 'expired', 'a hold expires');
is(sql($node, 'copy', q{SELECT dc_get('seats', 'a'), dc_get('pages', 'ann'), (SELECT estimate FROM dc_distinct('d', 'a'))}), '3|2|10', 'the values are those of the dump');
looks_on('all is there');
is(worker_failures(slurp_file($node->logfile)), '', 'the log says nothing of failures');

$node->stop;
done_testing();
