# Keys that expire, and a clock that is set forward: while the server runs, or before it was started. None goes for a
# while, and the log says why, whether other keys are being written or not.
use strict;
use warnings;

use DcClock;
use DcTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'a clock that can be set needs Linux, a compiler, and a server without AddressSanitizer' if !clock_prepare();

my $node = dc_node('idle_clock', conf => [ "shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '50ms'", 'autovacuum = off' ]);

# maintained(QUERY, RESULT, NAME): a test of what it becomes by dc_maintain(), which passes over a table that the worker has locked
sub maintained
{
	my ($query, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(wait_for($node, 'postgres', "CALL dc_maintain(); $query", $expected), $expected, $name);
}

# warns(TABLE): a test whether dc_maintain() says that keys of a table do not expire
sub warns
{
	my ($table) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $stderr = '';

	foreach (1 .. 100)
	{
		$node->psql('postgres', 'CALL dc_maintain()', stderr => \$stderr);
		last if $stderr =~ /"$table"/;
		sleep(0.1);
	}
	return like($stderr, qr/WARNING:  keys of counter table "$table" do not expire for now/, 'dc_maintain() says so');
}

# said(TABLE, DETAIL): whether the log of the server, since it was started, has that
sub said
{
	my ($table, $detail) = @_;
	my $end = time + 120;
	my $pattern = qr/WARNING:  keys of counter table "$table" do not expire for now.*?DETAIL:  $detail/s;

	sleep(0.1) until slurp_file($node->logfile) =~ $pattern || time > $end;
	return like(slurp_file($node->logfile), $pattern, "the log says that keys of $table do not expire: $detail");
}

# In "often" a range is checked each second. In "daily", each day.
sql($node, 'postgres', q{SELECT dc_create('often', idle => '60 s'), dc_create('daily', idle => '90 days'), dc_create('rest', idle => '90 days');
	SELECT dc_incr('often', 'k' || i), dc_incr('daily', 'k' || i) FROM generate_series(1, 100) AS i;
	SELECT dc_incr('rest', 'k' || i) FROM generate_series(1, 100) AS i;
	UPDATE rest SET updated_at = now() - interval '91 days' WHERE key ~ '^k.$';});
maintained(q{SELECT count(*) FROM rest}, '91', 'few keys expire, though the server was just started');
clock_step(100 * 86400);
said('often', 'The clock was set forward\.');
sql($node, 'postgres', q{SELECT dc_incr('daily', 'new')});
warns('daily');
is(sql($node, 'postgres', q{SELECT (SELECT count(*) FROM often), (SELECT count(*) FROM daily)}), '100|101', 'no key has expired');

# Set right, and back, and right again
clock_step(0);
sleep(0.2);
clock_step(-100 * 86400);
sql($node, 'postgres', q{CALL dc_maintain(); SELECT dc_incr('rest', 'back')});
clock_step(0);
sql($node, 'postgres', q{CALL dc_maintain()});
is(sql($node, 'postgres', q{SELECT dc_get('rest', 'back'), count(*) FROM rest}), '1|92', 'a key that was written while the clock was back');

# Keys that are written after the start say nothing of the clock before it, nor do those of the last day.
sql($node, 'postgres', q{SELECT dc_incr('daily', 'newer')});
$node->stop;
clock_step(100 * 86400);
unlink $node->logfile;
$node->start;
sql($node, 'postgres', q{SELECT dc_incr('daily', 'newest')});
said('daily', 'Most of them would, and the clock may have been set forward before the server was started\.');
warns('daily');
is(sql($node, 'postgres', q{SELECT count(*) FROM daily}), '103', 'no key has expired');
is(scalar(() = slurp_file($node->logfile) =~ /worker.*"daily" do not expire/g) <= 1, 1, 'it is said once');

# A key that was written in the week before the start
sql($node, 'postgres', q{UPDATE rest SET updated_at = now() - interval '3 days' WHERE key = 'k10'});
maintained(q{SELECT count(*) FROM rest}, '1', 'a key that was written days ago shows that the clock is right');

# It is what was wanted
sql($node, 'postgres', q{SELECT dc_alter('daily', idle => '91 days')});
is(wait_for($node, 'postgres', q{SELECT count(*) FROM daily}, '2'), '2', 'keys expire when the setting is altered');
$node->stop;
done_testing();
