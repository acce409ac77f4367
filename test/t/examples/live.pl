# The live page in a browser: a click in one shows up in the other; viewers join and leave; a click
# whose answer is lost counts once; names of pages are treated only as names.
use strict;
use warnings;

use DcLive;
use DcTest;
use Test::More;

my $missing = live_missing('chromium');
plan skip_all => $missing if $missing;

my $node = live_node('live');
my $server = live_server($node);
my $browser = browser();
my $ann = $browser->open("$server->{url}?page=post", 'ann');
my $bob = $browser->open("$server->{url}?page=post", 'bob');

is($_->shows('state', 'Live'), 'Live', 'connected') foreach $ann, $bob;
is($ann->shows('count', '0'), '0', 'nothing yet');
$ann->click('like');
is($bob->shows('count', '1'), '1', 'a click in one page is seen in the other');
is($ann->shows('count', '1'), '1', 'and in its own');
is(sql($node, 'postgres', q{SELECT dc_get('likes', 'post')}), '1', 'and counted');
ok($bob->js(q{document.getElementById('back').disabled}), 'bob has nothing to take back');

# by keyboard
my $focus = q{document.activeElement.id};
for (my $i = 0; $i < 10 && $bob->js($focus) ne 'like'; $i++)
{
	$bob->do('key', key => 'Tab');
}
is($bob->js($focus), 'like', 'the button is reached by keyboard');
$bob->do('key', key => 'Space');
is($ann->shows('count', '2'), '2', 'and pressed');
$bob->do('key', key => 'Tab');
is($bob->js($focus), 'back', 'then the other one');
$bob->do('key', key => 'Enter');
is($ann->shows('count', '1'), '1', 'taken back');
is($ann->js(q{document.getElementById('spoken').ariaLive}), 'polite', 'values are spoken');
is($ann->shows('spoken', '1 like, 2 people looking at this'), '1 like, 2 people looking at this', 'as a sentence');
ok($ann->js(q{document.querySelector('#plot').getAttribute('aria-label').startsWith('Likes a minute')}), 'the plot has a label');
ok($bob->js(q{[...document.querySelectorAll('button, input')].every((e) => e.textContent.trim() || e.labels?.length)}), 'all controls have names');

# colours
my $dark = q{getComputedStyle(document.body).backgroundColor};
my $light = $ann->js($dark);
$ann->do('media', features => { 'prefers-color-scheme' => 'dark' });
isnt($ann->js($dark), $light, 'dark, if that is preferred');
$ann->do('media', features => { 'prefers-reduced-motion' => 'reduce' });
$ann->click('like');
is($ann->js(q{getComputedStyle(document.querySelector('#like svg')).animationName}), 'none', 'no motion, if that is preferred');
is($bob->shows('count', '2'), '2', 'but it counts');

# a small phone: nothing is wider than the screen
$bob->do('size', width => 320, height => 640);
cmp_ok($bob->js('document.documentElement.scrollWidth'), '<=', 320, '320 pixels are enough');
$bob->do('size', width => 1000, height => 800);

# viewers: two tabs of a browser are one
my $people = sub { return $_[0] . ' looking at this' };
is($bob->shows('people', $people->('2 people')), $people->('2 people'), 'two are there');
my $second = $browser->open("$server->{url}?page=post", 'ann');
is($second->shows('people', $people->('2 people')), $people->('2 people'), 'a second tab is no other viewer');
$ann->do('close');
is($second->shows('people', $people->('2 people')), $people->('2 people'), 'and when the first is closed, the viewer is still there');
$second->do('close');
is($bob->shows('people', $people->('1 person')), $people->('1 person'), 'who closes the last tab has left');
is(sql($node, 'postgres', q{SELECT expired FROM dc_stat_presence}), '0', 'without being waited for');
$server->stop('KILL');
is(wait_for($node, 'postgres', q{SELECT dc_present('viewers', 'post')}, '0'), '0', 'a server that dies leaves nobody behind');
is($bob->shows('state', 'Reconnecting'), 'Reconnecting', 'a lost connection is seen');
ok(!$bob->js(q{document.getElementById('notice').hidden}), 'and told');
$server->start;
is($bob->shows('state', 'Live'), 'Live', 'it comes back');
ok($bob->js(q{document.getElementById('notice').hidden}), 'which is seen, too');

# the answer is lost, on its way back
$bob->js(q{
	window.calls = 0;
	window.fetch = ((really) => async (...what) => {
		const response = await really(...what);
		if (what[1]?.method === 'PUT' && ++calls < 3) throw new TypeError('lost');
		return response;
	})(window.fetch); 0
});
$bob->click('like');
is($bob->shows('count', '3'), '3', 'a click whose answer is lost');
ok(until_true(sub { return $bob->js('clicks.length') == 0 }), 'has one in the end');
is($bob->js('calls'), 3, 'was sent three times');
is(sql($node, 'postgres', q{SELECT dc_get('likes', 'post'), (SELECT sum(value) FROM dc_buckets('likes_by_minute', 'post', now() - interval '59 minutes'))}),
	'3|4', 'and counted once, by the minute, too');

# names
my $name = '</script><img src=x onerror="window.bad = 1">';
sql($node, 'postgres', qq{SELECT dc_incr('likes', '$name', 7)});
my $odd = $browser->open("$server->{url}?page=%3C%2Fscript%3E%3Cimg%20src%3Dx%20onerror%3D%22window.bad%20%3D%201%22%3E", 'odd');
is($odd->shows('count', '7'), '7', 'a page of any name');
is($odd->text('title'), $name, 'which is shown');
$odd->click('like');
is($odd->shows('count', '8'), '8', 'is liked');
ok(until_true(sub { return index($bob->text('trending'), $name) >= 0 }), 'and is in the list of others');
is($odd->js('typeof window.bad'), 'undefined', 'and is no code');
is($bob->js('typeof window.bad + document.images.length'), 'undefined0', 'nowhere');
ok($odd->js(q{fetch('/').then((r) => r.headers.get('Content-Security-Policy').includes("default-src 'none'"))}), 'nor would code be run');
ok($odd->js(q{[...document.querySelectorAll('#trending a')].map((a) => new URL(a.href).searchParams.get('page')).includes(page)}), 'its link leads to it');

$browser->quit;
$server->stop;
$node->stop;
done_testing();
