# A clock that is far ahead for a while takes no bucket of a distinct table away, even if items are
# added meanwhile.
use strict;
use warnings;

use DcClock;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'a clock that can be set needs Linux, a compiler, and a server without AddressSanitizer' if !clock_prepare();

my $node = dc_node('distinct', conf => ['autovacuum = off']);

sub do_sql
{
	return sql($node, 'postgres', $_[0]);
}

sub buckets
{
	return do_sql(qq{SELECT count(*) FILTER (WHERE bucket > now() - interval '100 days' AND bucket < now()) FROM dc_distinct_buckets('d', 'site')});
}

do_sql(q{SELECT dc_distinct_create('d', bucket => '1 day', keep => '400 days');
	SELECT dc_add('d', 'site', i, now() - i * interval '1 day') FROM generate_series(0, 60) AS i;
	CALL dc_maintain()});
is(buckets(), 61, 'added');

clock_step(450 * 86400);
for my $i (1 .. 5)
{
	# all in one session, as by a worker, and by one for each
	do_sql(qq{SELECT dc_add('d', 'other', 'x $i'); CALL dc_maintain(); SELECT dc_add('d', 'other', 'y $i'); CALL dc_maintain()});
}
clock_step(0);
is(buckets(), 61, 'a clock that was far ahead has taken none');
do_sql(q{SELECT dc_add('d', 'other', 'z'); CALL dc_maintain()}) for 1 .. 2;
is(buckets(), 61, 'nor later');
clock_step(450 * 86400);
do_sql(q{SELECT dc_add('d', 'other', 'x again'); CALL dc_maintain()});
clock_step(0);
is(buckets(), 61, 'nor does it for the second time');

# time that goes on takes them, even after a pause
clock_step(410 * 86400);
do_sql(q{SELECT dc_add('d', 'site', 'late'); CALL dc_maintain();
	SELECT dc_add('d', 'site', 'later', now() + interval '1 day'); CALL dc_maintain(); CALL dc_maintain()});
is(do_sql(q{SELECT min(bucket) >= now() - interval '402 days' FROM dc_distinct_buckets('d', 'site')}), 't', 'a pause is over when the next bucket comes');

$node->stop;
done_testing();
