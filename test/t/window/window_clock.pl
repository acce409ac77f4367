# A clock that is far ahead for a while takes no more from a windowed counter than one turn of each level, and one that is set
# back takes nothing.
use strict;
use warnings;

use DcClock;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'a clock that can be set needs Linux, a compiler, and a server without AddressSanitizer' if !clock_prepare();

my $node = dc_node('window', conf => [ 'autovacuum = off' ]);

sub do_sql
{
	return sql($node, 'postgres', $_[0]);
}

# turn_lasts: waits, if need be, until a turn of 10 minutes goes on for some while
sub turn_lasts
{
	sleep(600 - time % 600 + 1) if time % 600 > 560;
	return;
}

# 60 minutes of 1 each
turn_lasts();
do_sql(q{SELECT dc_window_create('plain', '1 minute', '1 hour'), dc_window_create('rolled', '1 minute', '1 hour', '{"10 minutes": "10 hours"}');
	SELECT dc_incr_at(w, 'a', 1, now() - i * interval '1 min') FROM generate_series(0, 59) AS i, unnest(ARRAY['plain', 'rolled']::regclass[]) AS w});

my $sums = q{SELECT string_agg(upper::text, ' ') FROM unnest(ARRAY['plain', 'rolled']::regclass[]) AS w, dc_window(w, 'a', '1 hour 5 minutes')};

is(do_sql($sums), '60 60', 'counted');

# How many of them are in a turn of wide buckets that is over: those are what a clock may take that is ahead by more than these are kept
my $earlier = do_sql(q{SELECT sum(value) FROM dcounter.time_window, dc_buckets('rolled', 'a', now() - interval '2 hours', now() + interval '1 minute')
	WHERE windowed = 'rolled'::regclass AND bucket < date_bin(spans[2] * widths[2] * interval '1 us', now(), '2000-01-03 UTC')}) || 0;
do_sql('CALL dc_maintain()');
is(do_sql($sums), '60 60', 'nothing is old yet');

foreach my $ahead (2 * 3600, 30 * 86400)
{
	clock_step($ahead);
	do_sql('CALL dc_maintain()') for 1 .. 5;
	is(do_sql(q{SELECT dc_incr_at('plain', 'wrong time')}), 't', 'increments of the wrong time count');
	my ($code, $out, $err) = $node->psql('postgres', q{SELECT dc_incr_at('plain', 'a', 1, now() - interval '2 days')});
	like($err, qr/older than the windowed counter keeps/, 'those that are old by it do not');
	clock_step(0);
	my ($plain, $rolled) = split(' ', do_sql($sums));
	cmp_ok($plain, '>=', 60 - 20, "ahead by $ahead s: at most a turn each is gone");
	my $most = $ahead < 10 * 3600 ? 0 : $earlier;
	ok($rolled == 60 || $rolled == 60 - $most, 'and with a rollup, none of the last turn');
	do_sql('CALL dc_maintain()') for 1 .. 3;
	is(do_sql($sums), "$plain $rolled", 'nor later');
}
is(do_sql(q{SELECT dc_incr_at('plain', 'b'), dc_incr_at('rolled', 'b')}), 't|t', 'it counts on');
is(do_sql(q{SELECT upper FROM dc_window('plain', 'b', '10 minutes')}), '1', 'and shows it');

# With rows in one turn only, of now, all others are passed over at once when their time is up. Not by a clock that is ahead for a while,
# which also gets increments then: when it is right again, it is as before.
turn_lasts();
do_sql(q{SELECT dc_window_create('one', '1 minute', '1 hour'), dc_window_create('two', '1 minute', '1 hour', '{"10 minutes": "10 hours"}');
	SELECT dc_incr_at('one', 'a', 1, now() - interval '20 minutes'), dc_incr_at('two', 'a', 1, now() - interval '20 minutes')});
clock_step(30 * 86400);
is(do_sql(q{SELECT dc_incr_at('one', 'wrong time'), dc_incr_at('two', 'wrong time')}), 't|t', 'counted far ahead');
do_sql('CALL dc_maintain()') for 1 .. 5;
clock_step(0);
is(do_sql(q{SELECT w, dc_incr_at(w, 'a'), dc_incr_at(w, 'a', 1, now() - interval '35 minutes') FROM unnest(ARRAY['one', 'two']::regclass[]) AS w}),
	"one|t|t\ntwo|t|t", 'right again: increments count');
do_sql('CALL dc_maintain()') for 1 .. 3;
is(do_sql(q{SELECT w, upper FROM unnest(ARRAY['one', 'two']::regclass[]) AS w, dc_window(w, 'a', '1 hour')}), "one|3\ntwo|3", 'and nothing is gone');
is(do_sql(q{SELECT max(bucket) - min(bucket) < interval '30 minutes' FROM dc_buckets('two', 'a', now() - interval '20 minutes') WHERE value > 0}), 't', 'nor rolled up');

# A clock that is ahead for longer takes what has no increments for over. When it is right again, dc_window_reopen() takes that back at once; and
# when it is ahead again, that is again not taken for time that has passed.
do_sql(q{SELECT dc_window_create('long', '1 minute', '1 hour'), dc_window_create('long2', '1 minute', '1 hour', '{"10 minutes": "10 hours"}');
	SELECT dc_incr_at('long', 'a', 1, now() - interval '20 minutes'), dc_incr_at('long2', 'a', 1, now() - interval '20 minutes')});
my $longs = q{FROM unnest(ARRAY['long', 'long2']::regclass[]) AS w};
foreach my $minutes (0, 6, 12, 18)
{
	clock_step(30 * 86400 + $minutes * 60);
	is(do_sql(q{SELECT dc_incr_at('long', 'wrong time'), dc_incr_at('long2', 'wrong time')}), 't|t', 'counted far ahead') if $minutes == 0;
	do_sql('CALL dc_maintain()') for 1 .. 5;
}
clock_step(0);
my ($code, $out, $err) = $node->psql('postgres', q{SELECT dc_incr_at('long', 'b')});
like($err, qr/older than the windowed counter keeps/, 'ahead for longer: right times are refused');
is(do_sql("SELECT dc_window_reopen(w) $longs"), "t\nt", 'reopened');
my $counts = "SELECT w, dc_incr_at(w, 'b'), dc_incr_at(w, 'b', 1, now() - interval '35 minutes') $longs";
is(do_sql($counts), "long|t|t\nlong2|t|t", 'they count again');
is(do_sql(q{SELECT count(*) FROM dc_buckets('long2', 'b', now() - interval '9 minutes', now())}), '10', 'what has just been counted minute by minute');
clock_step(30 * 86400 + 24 * 60);
do_sql('CALL dc_maintain()') for 1 .. 5;
clock_step(0);
is(do_sql($counts), "long|t|t\nlong2|t|t", 'also after the clock was ahead again for a while');
do_sql('CALL dc_maintain()') for 1 .. 3;
is(do_sql("SELECT w, upper $longs, dc_window(w, 'b', '1 hour')"), "long|4\nlong2|4", 'all of them');

# windows whose clock was never ahead
do_sql(q{SELECT dc_window_create('plain2', '1 minute', '1 hour'), dc_window_create('rolled2', '1 minute', '1 hour', '{"10 minutes": "10 hours"}');
	SELECT dc_incr_at('plain2', 'a', 1, now() - i * interval '1 min') FROM generate_series(0, 59) AS i});
my $before = do_sql(q{SELECT upper FROM dc_window('plain2', 'a', '1 hour 5 minutes', clock_timestamp())});
clock_step(-3600);
do_sql('CALL dc_maintain()');
is(do_sql(q{SELECT upper FROM dc_window('plain2', 'a', '2 hours 5 minutes', clock_timestamp() + interval '1 hour')}), $before, 'set back: all is there');
is(do_sql(q{SELECT dc_incr_at('rolled2', 'c')}), 't', 'and what comes counts');
is(do_sql(q{SELECT upper FROM dc_window('rolled2', 'c', '10 minutes')}), '1', 'then');
clock_step(0);
is(do_sql(q{SELECT upper FROM dc_window('plain2', 'a', '1 hour 5 minutes')}), $before, 'forth again: likewise');

$node->stop;
done_testing();
