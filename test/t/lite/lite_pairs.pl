# Each pair of calls of dcounter_lite on one key: the first in a transaction that is open, then the second in another session. Whether the second waits is
# as the table says. Then the first commits, or rolls back, and the value is what the calls have returned: amounts of increments, the new value less the
# old one of setters, units of takes. So whatever the order in which the two come to be, each counts once.
use strict;
use warnings;

use DcTest;
use DcLite;
use Test::More;
use Time::HiRes qw(usleep);

my $node = dc_node('lite', extension => 0);
lite_install($node, 'postgres');
my $first = dc_session($node, 'postgres');
my $second = dc_session($node, 'postgres');
my $pid = $second->run('SELECT pg_backend_pid()');

# The calls: what they add, by what they return. "end" is how the open one ends.
my %counter = (
	incr => [ "SELECT dc_incr('c', 'k', 3)", sub { 3 } ],
	many => [ "SELECT dc_incr_many('c', '{j,k}', '{1,4}')", sub { 4 } ],
	load => [ "SELECT dc_load('c', '{k}', '{5}')", sub { 5 } ],
	set => [ "SELECT dc_set('c', 'k', 100)", sub { 100 - $_[0] } ],
	reset => [ "SELECT dc_reset('c', 'k')", sub { -$_[0] } ],
	delete => [ "SELECT dc_delete('c', 'k')", sub { -$_[0] } ],
	compact => [ "SELECT dc_compact('c')", sub { 0 } ],
	maintain => [ 'CALL dc_maintain()', sub { 0 } ],
	once => [ "SELECT dc_incr_once('c', 'k', 7, 'op')", sub { $_[0] eq 't' ? 7 : 0 } ],
	writer => [ "SELECT c_incr('k', 9)", sub { 9 } ]);
my %stock = (
	restock => [ "SELECT dc_restock('c', 'k', 3)", sub { 3 } ],
	take => [ "SELECT dc_take('c', 'k', 2)", sub { $_[0] eq 't' ? -2 : 0 } ],
	up_to => [ "SELECT dc_take_up_to('c', 'k', 4)", sub { -$_[0] } ],
	cart => [ "SELECT dc_take_all('c', '{k,k}', '{1,2}')", sub { $_[0] eq 't' ? -3 : 0 } ],
	most => [ "SELECT dc_take('c', 'k', 10)", sub { $_[0] eq 't' ? -10 : 0 } ],
	hold => [ "SELECT dc_hold('c', 'k', 2, '1 hour') IS NOT NULL", sub { $_[0] eq 't' ? -2 : 0 } ],
	release => [ "SELECT dc_hold_release('c', '00000000-0000-0000-0000-000000000001', strict => false)", sub { $_[0] eq 'released' ? 5 : 0 } ],
	confirm => [ "SELECT dc_hold_confirm('c', '00000000-0000-0000-0000-000000000001', 4, strict => false)", sub { $_[0] eq 'confirmed' ? 1 : 0 } ],
	set => [ "SELECT dc_set('c', 'k', 100)", sub { 100 - $_[0] } ],
	delete => [ "SELECT dc_delete('c', 'k')", sub { -$_[0] } ],
	compact => [ "SELECT dc_compact('c')", sub { 0 } ],
	once => [ "SELECT dc_incr_once('c', 'k', 7, 'op')", sub { $_[0] eq 't' ? 7 : 0 } ]);

# Pairs in which the second waits for the first; in all others it does not.
my %waits = map { $_ => 1 } (
	# setters of a key wait for each other
	(map { ("counter $_ set", "counter $_ reset", "counter $_ delete") } qw(set reset delete)),
	# two with one op, and with one hold
	'counter once once', 'stock once once',
	(map { ("stock $_ release", "stock $_ confirm") } qw(release confirm)),
	# the rows of totals of new keys
	'counter load load', 'counter load compact', 'counter compact load',
	# setters of a stock wait for takers, and are waited for; a compaction by hand has all rows of the stock
	(map { my $taker = $_; map { ("stock $taker $_", "stock $_ $taker") } qw(set delete) } qw(take up_to cart most hold)),
	(map { ("stock $_ set", "stock $_ delete") } qw(set delete compact)),
	(map { "stock compact $_" } qw(take up_to cart most hold)));

# go_on(SESSION, SQL): starts a statement; whether it waits for a lock
sub go_on
{
	my ($session, $sql) = @_;

	$session->send($sql);
	while (!$session->answered)
	{
		return 1 if answer($node, 'postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid") eq 't';
		usleep(10_000);
	}
	return 0;
}

# one_pair(KIND, CALLS, FIRST, SECOND, END)
sub one_pair
{
	my ($kind, $calls, $name, $other, $end) = @_;
	my $pair = "$kind $name $other";
	my $value = 10;

	$first->run($kind eq 'counter'
		? "SELECT dc_create('c'); SELECT dc_incr('c', 'k', 10), dcounter_lite.make_writer('c'), dc_incr_once('c', 'j', 1, 'first')"
		: "SELECT dc_stock_create('c'); SELECT dc_restock('c', 'k', 15); SELECT dc_hold('c', 'k', 5, '1 hour', '00000000-0000-0000-0000-000000000001'), dc_incr_once('c', 'j', 1, 'first')");
	$first->run('BEGIN');
	my $result = $first->run($calls->{$name}[0]);
	my $waited = go_on($second, $calls->{$other}[0]);
	is($waited, $waits{$pair} // 0, "$pair: " . ($waits{$pair} ? 'waits' : 'does not wait'));
	$first->run($end);
	my $second_result = $second->wait;
	unlike("$result $second_result", qr/ERROR/, "$pair: no error");
	$value += $calls->{$name}[1]->($result) if $end eq 'COMMIT';
	$value += $calls->{$other}[1]->($second_result);
	is(sql($node, 'postgres', "SELECT dc_get('c', 'k')"), $value, "$pair, $end: each counts once ($result, $second_result)");
	is(sql($node, 'postgres', "SELECT coalesce(sum(units), 0) = dc_get('c', 'k'), coalesce(min(units), 0) >= 0 FROM c_shard WHERE key = 'k'"), 't|t',
		"$pair, $end: and the units are those")
	  if $kind eq 'stock';
	sql($node, 'postgres', "SELECT dc_drop('c')");
	return;
}

foreach my $kind ('counter', 'stock')
{
	my $calls = $kind eq 'counter' ? \%counter : \%stock;
	foreach my $name (sort keys %$calls)
	{
		next if $name eq 'maintain';
		foreach my $other (sort keys %$calls)
		{
			one_pair($kind, $calls, $name, $other, $_) foreach 'COMMIT', 'ROLLBACK';
		}
	}
}

# Dropping waits for all, and later sessions find no counter.
sql($node, 'postgres', "SELECT dc_create('c')");
$first->run("BEGIN; SELECT dc_incr('c', 'k')");
is(go_on($second, "SELECT dc_drop('c')"), 1, 'a drop waits for an increment');
$first->run('COMMIT');
is($second->wait, '', 'and goes on');
sql($node, 'postgres', "SELECT dc_create('c')");
$first->run("BEGIN; SELECT dc_drop('c')");
is(go_on($second, "SELECT dc_incr('c', 'k')"), 1, 'an increment waits for a drop');
$first->run('ROLLBACK');
is($second->wait, '', 'and counts if that is rolled back');
is(sql($node, 'postgres', "SELECT dc_get('c', 'k')"), '1', 'once');

$first->quit;
$second->quit;
done_testing();
