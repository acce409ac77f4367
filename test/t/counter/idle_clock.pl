# Keys that expire, and a clock that is set forward: none goes for a day, and the log says why. After the setting was changed,
# they expire as before.
use strict;
use warnings;

use DcClock;
use DcTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'a clock that can be set needs Linux, a compiler, and a server without AddressSanitizer' if !clock_prepare();

my $node = dc_node('idle_clock', conf => [ "shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '50ms'", 'autovacuum = off' ]);

# A range comes a second after the last one, so the worker has looked at the clock before it is set.
sql($node, 'postgres', q{SELECT dc_create('likes', idle => '16 s'); SELECT dc_incr('likes', 'old');});
is(wait_for($node, 'postgres', q{SELECT count(*) FROM likes}, '0'), '0', 'the worker is at work');
sql($node, 'postgres', q{SELECT dc_incr('likes', 'k' || i) FROM generate_series(1, 100) AS i;});
clock_step(100 * 86400);
my $log = $node->logfile;
my $end = time + 120;
sleep(0.2) until slurp_file($log) =~ /do not expire for a day/ || time > $end;
like(slurp_file($log), qr/WARNING:  keys of counter table "likes" do not expire for a day: the clock was set forward/, 'the log says so');
sleep(3); # two more ranges, if there were any
is(sql($node, 'postgres', q{SELECT count(*) FROM likes}), '100', 'no key has expired');
is(scalar(() = slurp_file($log) =~ /do not expire for a day/g), 1, 'it is said once');

# It is what was wanted
sql($node, 'postgres', q{SELECT dc_alter('likes', idle => '17 s')});
is(wait_for($node, 'postgres', q{SELECT count(*) FROM likes}, '0'), '0', 'keys expire again when the setting is changed');
$node->stop;
done_testing();
