# The live page while its server and the database are restarted and killed, under clicks in two browsers: each click counts
# once, and in the end all see the same. Clicks that were not sent yet outlive a reload.
use strict;
use warnings;

use DcLive;
use DcTest;
use Test::More;

my $missing = live_missing('chromium');
plan skip_all => $missing if $missing;

my $node = live_node('restart');
my $server = live_server($node);
my $browser = browser();
my @tabs = map { $browser->open("$server->{url}?page=post", $_) } 'ann', 'bob';

foreach my $tab (@tabs)
{
	is($tab->shows('state', 'Live'), 'Live', 'connected');
	$tab->js(q{
		window.clicked = 0;
		window.timer = setInterval(() => {
			if (clicks.length > 100) return;
			document.getElementById('like').click();
			clicked++;
		}, 30); 0
	});
}

# answered(): how many clicks have been counted certainly
sub answered
{
	my $sum = 0;

	$sum += $_->js('clicked - clicks.length') foreach @tabs;
	return $sum;
}

# goes_on(NAME): clicks are answered again
sub goes_on
{
	my ($name) = @_;
	my $from = answered();

	return ok(until_true(sub { return answered() > $from + 5 }), "clicks go on $name");
}

my @disasters = (
	[ 'after a kill of the server', sub { $server->stop('KILL'); $server->start } ],
	[ 'after a restart of the database', sub { $node->restart } ],
	[ 'after a crash of the database', sub { $node->stop('immediate'); $node->start } ],
	[ 'after a restart of the server', sub { $server->stop; $server->start } ],
	[ 'after all connections were ended', sub { sql($node, 'postgres', q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'web'}) } ],
	[ 'after a crash of both', sub { $node->stop('immediate'); $server->stop('KILL'); $server->start; $node->start } ]);
goes_on('at first');
foreach my $disaster (@disasters)
{
	$disaster->[1]->();
	goes_on($disaster->[0]);
}

# the database is away for longer: the page says so
$node->stop;
is($tabs[0]->shows('state', 'Database away'), 'Database away', 'that the database is away is seen');
cmp_ok($tabs[1]->js('known.count'), '>', 0, 'the last value stays');
$_->js('clearInterval(timer); 0') foreach @tabs;
$node->start;
is($_->shows('state', 'Live'), 'Live', 'it is back') foreach @tabs;
ok(until_true(sub { return $tabs[0]->js('clicks.length') + $tabs[1]->js('clicks.length') == 0 }), 'all clicks are sent');

my $clicked = $tabs[0]->js('clicked') + $tabs[1]->js('clicked');
is(sql($node, 'postgres', q{SELECT dc_get('likes', 'post')}), $clicked, 'each counts once');
foreach my $tab (@tabs)
{
	ok(until_true(sub { return $tab->js('known.count') == $clicked }), 'each page knows it');
}
is($_->text('count') =~ s/,//gr, $clicked, 'and shows it') foreach @tabs;
is(sql($node, 'postgres', q{SELECT sum(value) FROM dc_buckets('likes_by_minute', 'post', now() - interval '50 minutes')}), $clicked, 'as many are in the plot');
is($_->shows('people', '2 people looking at this'), '2 people looking at this', 'the viewers are known again') foreach @tabs;

# clicks that wait are there after a reload
$node->stop;
is($tabs[0]->shows('state', 'Database away'), 'Database away', 'away');
$tabs[0]->click('like') foreach 1 .. 5;
$tabs[0]->js(q{window.old = true; location.reload(); 0});
ok(until_true(sub { return eval { $tabs[0]->js(q{!window.old && document.readyState === 'complete' && clicks.length}) == 5 } }), 'a reload');
$node->start;
$clicked += 5;
is(wait_for($node, 'postgres', q{SELECT dc_get('likes', 'post')}, $clicked), $clicked, 'does not lose clicks');
ok(until_true(sub { return $tabs[1]->js('known.count') == $clicked }), 'and the other page sees them');

$browser->quit;
$server->stop;
$node->stop;
done_testing();
