# Limits while 64 clients ask: in no window is more allowed than the algorithm promises, nor less than it
# could be; for several limits at once, too. Under a flood of keys no key is forgotten that counts. When a
# process is killed meanwhile, the rules that choose so allow no more than without that.
use strict;
use warnings;

use DcLimit;
use DcTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $seconds = torture(4, 120);
my $node = limit_node('load', 'fsync = off', "dcounter.limit_size = '1MB'");
my $us = 1_000_000;

log_table($node);
sql($node, 'postgres', q{
	SELECT dc_limit_create('gcra', 'gcra', 50, '1 s', burst => 20, after_crash => 'full'), dc_limit_create('odd', 'gcra', 37, '0.7 s', burst => 3, after_crash => 'full'),
		dc_limit_create('fixed', 'fixed', 30, '0.5 s', after_crash => 'full'), dc_limit_create('log', 'log', 30, '0.5 s', after_crash => 'full'),
		dc_limit_create('sliding', 'sliding', 30, '0.5 s', after_crash => 'full'), dc_limit_create('jobs', 'concurrent', 5, '1 hour'),
		dc_limit_create('ip', 'gcra', 40, '1 s', burst => 10, after_crash => 'full'), dc_limit_create('user', 'log', 20, '0.5 s', after_crash => 'full'),
		dc_limit_create('flood', 'gcra', 1, '1 hour', burst => 1), dc_limit_create('kept', 'gcra', 1, '10 days', burst => 1);});

my %bound = (
	gcra => sub { 20 + $_[0] * 50 / $us },
	odd => sub { 3 + $_[0] * 37 / (0.7 * $us) },
	fixed => sub { 30 * (1 + int($_[0] / (0.5 * $us)) + ($_[0] > 0)) },
	log => sub { 30 * (1 + int($_[0] / (0.5 * $us))) },
	sliding => sub { 30 * (2 + int($_[0] / (0.5 * $us))) - ($_[0] < 0.5 * $us ? 1 : 0) },
	ip => sub { 10 + $_[0] * 40 / $us },
	user => sub { 20 * (1 + int($_[0] / (0.5 * $us))) });
# a bucket that is filled, or units in the time before
my %denies = (
	gcra => [ 50 / $us, 20 ], odd => [ 37 / (0.7 * $us), 3 ],
	fixed => [ 0, 30, 0.5 * $us ], log => [ 0, 30, 0.5 * $us ], sliding => [ 0, 30, 1 * $us ]);

# check_bounds(STEP): tests of what was written down
sub check_bounds
{
	my ($step) = @_;

	foreach my $rule (sort keys %bound)
	{
		my $trace = trace($node, $rule);

		note("$step, $rule: " . join(', ', map { my $key = $_; "$key " . scalar(grep { $_->[3] } @{ $trace->{$key} }) . ' of ' . scalar(@{ $trace->{$key} }) } sort keys %$trace));
		is(over_bound($trace, $bound{$rule}), 0, "$step: $rule allows no more than it promises");
	}
	is(held_over($node, 'jobs', 5), '0', "$step: never more leases than there may be");
	return;
}

my %scripts = (
	(map { ($_ => "\\set k random(1, 2)\nSELECT called('$_', 'key ' || :k);") } 'odd', 'fixed', 'log', 'sliding'),
	gcra => "\\set k random(1, 2)\n\\set c random(1, 3)\nSELECT called('gcra', 'key ' || :k, :c);",
	jobs => "SELECT held('jobs', 'job', 0.01);",
	all => "\\set k random(1, 2)\n\\set u random(1, 3)\nSELECT called_all(ARRAY['ip', 'user'], ARRAY['ip ' || :k, 'user ' || :u]);");

##
## 64 clients
my ($status, $said) = finish_load(start_load($node, 64, $seconds, %scripts));
is($status, 0, 'clients have no errors') or diag($said);
check_bounds('64 clients');
is(unjustified(trace($node, $_), @{ $denies{$_} }), 0, "64 clients: $_ denies nothing that it can allow") foreach sort keys %denies;
is(sql($node, 'postgres', q{SELECT count(*) FROM calls WHERE rule = 'jobs' AND allowed}) > 0, 1, 'leases were given');
is(sql($node, 'postgres', q{SELECT remaining FROM dc_limit_peek('jobs', 'job')}), '5', 'and all came back');
is(sql($node, 'postgres', q{SELECT string_agg(DISTINCT (s.allowed = c.allowed AND s.denied <= c.denied)::text, ' ')
	FROM dc_stat_limits AS s JOIN (SELECT rule, count(*) FILTER (WHERE allowed) AS allowed, count(*) FILTER (WHERE NOT allowed) AS denied FROM calls GROUP BY rule) AS c USING (rule)}),
	'true', 'the view has counted the same');

##
## Millions of calls (torture: ten), too many to write down: no key is allowed more in all than the time is good for
my $calls = torture(100_000, 10_000_000);
my %mass = (gcra => [ 20_000, 100 ], fixed => [ 1000, 1000 ], log => [ 1000, 1000 ], sliding => [ 1000, 1000 ]);

foreach my $algorithm (sort keys %mass)
{
	my ($rate, $most) = @{ $mass{$algorithm} };
	my $burst = $algorithm eq 'gcra' ? ", burst => $most" : '';

	sql($node, 'postgres', "SELECT dc_limit_create('mass_$algorithm', '$algorithm', $rate, '1 s'$burst)");
	my $began = sql($node, 'postgres', 'SELECT us()');
	($status, $said) = finish_load(start_load($node, 8, 0, mass => "SELECT count(*) FROM generate_series(1, 1000) AS i, dc_limit('mass_$algorithm', 'key ' || i % 5) AS l WHERE l.allowed;", '-t' => int($calls / 4 / 8 / 1000)));
	my $seconds = (sql($node, 'postgres', 'SELECT us()') - $began) / $us;
	my ($allowed, $denied) = split /\|/, sql($node, 'postgres', "SELECT allowed, denied FROM dc_stat_limits WHERE rule = 'mass_$algorithm'");
	my $bound = 5 * ($algorithm eq 'gcra' ? $most + $rate * $seconds : $rate * (($algorithm eq 'log' ? 1 : 2) + int($seconds)));

	is($status, 0, "$algorithm: millions of calls") or diag($said);
	note("$allowed allowed, $denied denied in $seconds s, bound $bound");
	cmp_ok($allowed, '<=', $bound, "$algorithm: millions of calls are allowed no more than it promises");
	cmp_ok($allowed, '>=', 5 * $most, "$algorithm: and what there is at first");
	sql($node, 'postgres', "SELECT dc_limit_drop('mass_$algorithm')");
}

# Each call that was allowed is counted, once.
sql($node, 'postgres', q{SELECT dc_limit_create('exact_fixed', 'fixed', 1000000000000, '3650 days'), dc_limit_create('exact_sliding', 'sliding', 1000000000000, '3650 days'), dc_limit_create('exact_log', 'log', 1024, '3650 days')});
($status, $said) = finish_load(start_load($node, 16, 0, '-t' => torture(10, 1000), exact => q{SELECT count(*) FROM generate_series(1, 1000) AS i, dc_limit('exact_fixed', 'key ' || i * 0) AS l, dc_limit('exact_sliding', 'key ' || i * 0) AS m, dc_limit('exact_log', 'key ' || i * 0) AS n;}));
is($status, 0, 'counting exactly') or diag($said);
is(sql($node, 'postgres', q{SELECT string_agg(1000000000000 - remaining || '', ' ') FROM unnest('{exact_fixed,exact_sliding}'::text[]) AS r, dc_limit_peek(r, 'key 0')}), join(' ', (16_000 * torture(10, 1000)) x 2), 'each call is counted once');
is(sql($node, 'postgres', q{SELECT allowed, remaining FROM dc_stat_limits AS s, (SELECT remaining FROM dc_limit_peek('exact_log', 'key 0')) AS p WHERE rule = 'exact_log'}), '1024|0', 'and none too many is allowed');

# As many as are allowed: the sum is what there is, to the unit
sql($node, 'postgres', q{SELECT dc_limit_create('parts_' || a, a, CASE a WHEN 'log' THEN 1000 ELSE 1000000 END, '3000 days') FROM unnest('{gcra,fixed,sliding,log}'::text[]) AS a; CREATE TABLE parts (rule text, cost bigint, n bigint)});
($status, $said) = finish_load(start_load($node, 64, 0, '-t' => 40, map { ("parts_$_" => "\\set c random(1, 1000)\nINSERT INTO parts SELECT 'parts_$_', :c, dc_allow_up_to('parts_$_', 'key', CASE '$_' WHEN 'log' THEN 1 + :c / 100 ELSE :c * 10 END) FROM generate_series(1, 2);") } 'gcra', 'fixed', 'sliding', 'log'));
is($status, 0, 'parts of a cost') or diag($said);
sql($node, 'postgres', q{INSERT INTO parts SELECT r, 0, dc_allow_up_to(r, 'key', 100000000) FROM unnest('{parts_gcra,parts_fixed,parts_sliding,parts_log}'::text[]) AS r});
is(sql($node, 'postgres', q{SELECT rule, sum(n), max(n) FILTER (WHERE cost > 0) > 0, bool_and(n >= 0), dc_allow(rule, 'key') FROM parts GROUP BY rule ORDER BY rule}),
	join("\n", map { "parts_$_|" . ($_ eq 'log' ? 1000 : 1000000) . '|t|t|f' } 'fixed', 'gcra', 'log', 'sliding'), 'together they are what there is');

##
## A flood: a memory of some thousand keys. What counts stays; what is new is refused.
my $kept = sql($node, 'postgres', q{SELECT count(*) FROM generate_series(1, 500) AS i, dc_limit('kept', 'key ' || i) AS l WHERE l.allowed});
is($kept, '500', 'keys that must be kept');
($status, $said) = finish_load(start_load($node, 16, 0, '-t' => torture(100, 6250), flood => "\\set k random(1, 1000000000)\nSELECT count(*) FROM generate_series(1, 100) AS i, dc_limit('flood', 'key ' || :k + i);"));
is($status, 0, 'a flood') or diag($said);
is(sql($node, 'postgres', q{SELECT keys > 500 AND full_denied > 1000 AND denied >= full_denied FROM dc_stat_limits WHERE rule = 'flood'}), 't', 'takes its share of the memory, and is denied more');
is(sql($node, 'postgres', q{SELECT keys, full_denied FROM dc_stat_limits WHERE rule = 'kept'}), '500|0', 'all that counts is kept');
is(sql($node, 'postgres', q{SELECT count(*) FROM generate_series(1, 500) AS i, dc_limit('kept', 'key ' || i) AS l WHERE l.allowed}), '0', 'no limit was opened');
is(sql($node, 'postgres', q{SELECT count(*) FROM generate_series(501, 600) AS i, dc_limit('kept', 'key ' || i) AS l WHERE l.allowed}), '100', 'and others have room for theirs');
is(sql($node, 'postgres', q{SELECT retry_after > '50 min' AND retry_after <= '1 hour' FROM dc_limit('flood', 'one more')}), 't', 'who is refused is told when a key will be idle');
sql($node, 'postgres', q{SELECT dc_limit_drop('flood')});
is(sql($node, 'postgres', q{SELECT sum(keys) < 1000 FROM dc_stat_limits}), 't', 'the keys of a rule that is dropped go');

# Keys that are idle make room, all of them.
sql($node, 'postgres', q{SELECT dc_limit_create('short', 'gcra', 1, '1 ms', burst => 1, max_keys => 50), dc_limit_create('brief', 'gcra', 1000, '1 s', burst => 1)});
sql($node, 'postgres', q{SELECT count(*) FROM generate_series(1, 100) AS i, dc_limit('short', 'key ' || i)});
is(wait_for($node, 'postgres', q{SELECT allowed FROM dc_limit('short', 'another')}, 't'), 't', 'keys that are idle make room for others of their rule');
is(sql($node, 'postgres', q{SELECT keys <= 50 FROM dc_stat_limits WHERE rule = 'short'}), 't', 'which has no more than it may');
is(sql($node, 'postgres', q{SELECT count(*) FROM generate_series(1, 20000) AS i, dc_limit('brief', 'key ' || i)}), '20000', 'more keys than fit');
is(sql($node, 'postgres', q{SELECT count(*) FROM generate_series(1, 500) AS i, dc_limit('kept', 'key ' || i) AS l WHERE l.allowed}), '0', 'still no limit is open');

##
## Rules that change while they are used: what was used stays used, to the unit. Periods are so long that nothing comes back
# meanwhile. A bucket is never emptier than empty: one that shrinks, and grows again, has more. So it grows only; the others shrink first, each time.
my @changing = ('gcra', 'fixed', 'log', 'sliding', 'concurrent');
my $steps = torture(5, 80);

sql($node, 'postgres', 'TRUNCATE calls');
sql($node, 'postgres', "SELECT dc_limit_create('new_$_', '$_', 20, '3000 days'" . ($_ eq 'gcra' ? ', burst => 20' : '') . ')') foreach @changing;
my $load = start_load($node, 16, 600, map { ("new_$_" => "\\set k random(1, 2)\n\\set c random(1, 3)\nSELECT called('new_$_', 'key ' || :k, " . ($_ eq 'concurrent' ? 1 : ':c') . ');') } @changing);
foreach my $step (1 .. $steps)
{
	my $seen = sql($node, 'postgres', 'SELECT count(*) FROM calls');

	foreach my $to ([ 5, 2900 ], [ 20 + 10 * $step, 3000 + $step ])
	{
		sql($node, 'postgres', "SELECT dc_limit_alter('new_$_', $to->[0], '$to->[1] days')") foreach 'fixed', 'log', 'sliding', 'concurrent';
	}
	sql($node, 'postgres', "SELECT dc_limit_alter('new_gcra', per => '" . (3000 + $step) . " days', burst => " . (20 + 10 * $step) . ')');
	wait_for($node, 'postgres', "SELECT count(*) > $seen + 100 FROM calls", 't');
}
sql($node, 'postgres', q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query ~ 'called' AND pid <> pg_backend_pid()});
finish_load($load);
wait_for($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE query ~ 'called' AND pid <> pg_backend_pid()}, '0');
foreach my $rule (map { "new_$_" } @changing)
{
	# terminated clients may have counted units that they have not logged
	my $most = 20 + 10 * $steps;

	sql($node, 'postgres', "SELECT count(called('$rule', 'key ' || k)) FROM generate_series(1, 2) AS k, generate_series(1, $most)");
	my $sums = sql($node, 'postgres', "SELECT max(n) <= $most, min(n) >= $most - 16 * 3 FROM (SELECT sum(cost) AS n FROM calls WHERE rule = '$rule' AND allowed GROUP BY key) AS s");
	is($sums, 't|t', "$rule: what was used stays used, and no more");
}

##
## A process is killed, which may have locked anything
foreach my $round (1 .. torture(1, 10))
{
	sql($node, 'postgres', 'TRUNCATE calls');
	$load = start_load($node, 32, 600, %scripts);
	wait_for($node, 'postgres', 'SELECT count(*) > 1000 FROM calls', 't');
	kill 'KILL', some_pid($node, q{SELECT pid FROM pg_stat_activity WHERE query ~ 'called|held' AND pid <> pg_backend_pid() AND state <> 'idle' ORDER BY random() LIMIT 1});
	finish_load($load);
	wait_for($node, 'postgres', q{SELECT 'up' WHERE NOT pg_is_in_recovery()}, 'up');
	# leases ended with the server
	sql($node, 'postgres', q{UPDATE calls SET released = ended WHERE rule = 'jobs'});
	finish_load(start_load($node, 16, 1, %scripts));
	check_bounds("killed, $round");
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|signal (?!9)/, 'nothing has crashed by itself');
$node->stop;
done_testing();
