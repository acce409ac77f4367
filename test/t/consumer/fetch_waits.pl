# A dc_fetch() that waits, waits until there are events for it, whatever happens to the members of its consumer: it is a new
# member, it has lanes to give or to take, it finds a lease that has ended. Meanwhile others can work, and join, and each event is
# delivered once.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = dc_node('fetch_waits', conf => [ q{shared_preload_libraries = 'dcounter'} ]);
my $long = '5 min';
my @cases = ('new', 'gives', 'expired', 'plain', 'retried', 'several');
my %session = map { $_ => dc_session($node, 'postgres') } @cases, 'several too';

sql($node, 'postgres', q{
	CREATE TABLE got (consumer text, member text, seq bigint);
	CREATE FUNCTION take(consumer text, member text, wait interval DEFAULT '0') RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		last bigint; n bigint;
	BEGIN
		WITH f AS MATERIALIZED (SELECT seq FROM dc_fetch(take.consumer, 1000, take.wait, take.member)),
			i AS (INSERT INTO got SELECT take.consumer, take.member, seq FROM f)
		SELECT max(seq), count(*) INTO last, n FROM f;
		IF n > 0 THEN
			PERFORM dc_ack(take.consumer, last, take.member);
		END IF;
		RETURN n;
	END $$;
	CREATE FUNCTION lanes(consumer text, member text) RETURNS int LANGUAGE sql AS $$
		SELECT length(replace(lanes::bit(64)::text, '0', '')) FROM dcounter.consumer_member AS m
		WHERE m.member = lanes.member AND m.consumer = (SELECT id FROM dcounter.consumer AS c WHERE c.name = lanes.consumer) $$;
	CREATE FUNCTION expire(consumer text) RETURNS void LANGUAGE sql AS $$
		UPDATE dcounter.consumer_member AS m SET lease_until = clock_timestamp() - interval '1 s'
		WHERE m.member <> '' AND m.consumer = (SELECT id FROM dcounter.consumer AS c WHERE c.name = expire.consumer) $$;
});

sub take
{
	my ($consumer, $member, $wait) = @_;

	return "SELECT take('$consumer', " . (defined $member ? "'$member'" : 'NULL') . ", '" . ($wait // '0') . "')";
}

sub publish
{
	my ($consumer, $from, $to) = @_;

	sql($node, 'postgres', "SELECT count(dc_publish('$consumer', k::text, 'e', NULL)) FROM generate_series($from, $to) AS k");
	return;
}

# each consumer has a topic of its own, and a member "a" with all lanes
foreach my $case (@cases)
{
	sql($node, 'postgres', "SELECT dc_consumer_create('$case', topics => ARRAY['$case']); SELECT dc_consumer_alter('$case', lease => '1 h')");
	sql($node, 'postgres', take($case, 'a')) if $case ne 'retried';
}
sql($node, 'postgres', take('gives', 'b'));
sql($node, 'postgres', "SELECT expire('$_')") foreach 'expired', 'plain', 'several';
publish('retried', 1, 1);
sql($node, 'postgres', q{SELECT dc_nack('retried', seq, '0'), dc_ack('retried', seq) FROM dc_fetch('retried')});
is(sql($node, 'postgres', take('retried')), '1', 'what comes again is taken');

$session{new}->send(take('new', 'b', $long));
$session{gives}->send(take('gives', 'a', $long));
$session{expired}->send(take('expired', 'b', $long));
$session{plain}->send(take('plain', undef, $long));
$session{retried}->send(take('retried', undef, $long));
$session{several}->send(take('several', 'b', $long));
$session{'several too'}->send(take('several', 'c', $long));
my $waiting = q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT take%' AND wait_event_type = 'Extension'};
is(wait_for($node, 'postgres', $waiting, '7'), '7', 'all wait');
# an event that is for none of them: they look, and find nothing. Who returned early, did so within a second.
sql($node, 'postgres', q{SELECT dc_publish('other', 'k', 'e', NULL)});
sleep(1.5);
is(join(' ', grep { $session{$_}->answered } sort keys %session), '', 'and go on to wait');
is(sql($node, 'postgres', q{SELECT lanes('new', 'a'), lanes('gives', 'a'), lanes('gives', ''), lanes('expired', 'a'), lanes('new', 'b')}), '64|64|0|64|', 'no lane has moved');
is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_locks AS l, dcounter.consumer AS c WHERE l.locktype = 'advisory' AND l.classid = c.id AND l.objid = 1}, '0'), '0', 'nobody has locked a consumer');

# who waits gets what comes
foreach my $case ('expired', 'plain', 'retried')
{
	publish($case, 7, 7);
	is($session{$case}->wait, '1', "$case: an event ends the wait");
}

# a member that has too many lanes gives them up with the events that it gets
publish('gives', 1, 100);
cmp_ok($session{gives}->wait, '>', 0, 'gives: its events end the wait');
is(sql($node, 'postgres', q{SELECT lanes('gives', 'a'), lanes('gives', '')}), '32|32', 'gives: and the other lanes are given with them');
cmp_ok(sql($node, 'postgres', take('gives', 'b', $long)), '>', 0, 'gives: the other member has what is in these');

# a member that has never committed is known to the others
publish('new', 1, 100);
cmp_ok(sql($node, 'postgres', take('new', 'a')), '<', 100, 'new: who has all lanes leaves some of the events');
cmp_ok($session{new}->wait, '>', 0, 'new: which end the wait of the other');

# two that wait for lanes that nobody has: each event comes to one of them
foreach my $i (1 .. 8)
{
	publish('several', $i, $i);
	for (my $tries = 0; sql($node, 'postgres', q{SELECT count(*) FROM got WHERE consumer = 'several'}) < $i; $tries++)
	{
		die "event $i has not come" if $tries > 10 * $PostgreSQL::Test::Utils::timeout_default;
		foreach my $member ('b', 'c')
		{
			my $session = $session{ $member eq 'b' ? 'several' : 'several too' };

			next if !$session->answered;
			$session->wait;
			$session->send(take('several', $member, $long));
		}
		sleep(0.02);
	}
}
is(sql($node, 'postgres', q{SELECT count(DISTINCT member) FROM got WHERE consumer = 'several'}), '2', 'several: both have some');

# all of it, and once
foreach my $case ('gives', 'new')
{
	for (my $tries = 0; sql($node, 'postgres', "SELECT count(*) FROM got WHERE consumer = '$case'") < 100 && $tries < 100; $tries++)
	{
		sql($node, 'postgres', take($case, $_)) foreach 'a', 'b';
	}
}
is(sql($node, 'postgres', q{SELECT string_agg(format('%s %s %s', consumer, n, seqs), ', ' ORDER BY consumer) FROM (
	SELECT consumer, count(*) AS n, count(DISTINCT seq) AS seqs FROM got GROUP BY consumer) AS g}),
	'expired 1 1, gives 100 100, new 100 100, plain 1 1, retried 2 2, several 8 8', 'each event was delivered once');

# The time is up: changes are stored, so that other sessions see them
is(sql($node, 'postgres', q{SELECT dc_consumer_create('late', topics => ARRAY['late']) \g /dev/null
	SELECT dc_consumer_alter('late', lease => '1 h') \g /dev/null
	} . take('late', 'a') . '; ' . take('late', 'b', '300 ms') . q{; SELECT lanes('late', 'b')}),
	"0\n0\n0", 'a new member is there when its time is up');
is(sql($node, 'postgres', take('late', 'a', '300 ms') . '; ' . take('late', 'b', '300 ms') . q{; SELECT lanes('late', 'a'), lanes('late', 'b')}), "0\n0\n32|32", 'and then gets its lanes');

# The lane of the only event is among those that are kept, whichever it is
my $one = join '', map { "SELECT dc_consumer_create('f$_', topics => ARRAY['f$_']) \\g /dev/null\n" . take("f$_", 'a') . " \\g /dev/null\n" . take("f$_", 'b') . " \\g /dev/null\n"
	. "SELECT dc_publish('f$_', 'key $_', 'e', NULL) \\g /dev/null\n" . take("f$_", 'a') . ";\n" } 1 .. 8;
is(sql($node, 'postgres', $one), join("\n", (1) x 8), 'who gives lanes has the event that is there');

# one that is cancelled while it waits leaves nothing
my $cancelled = $session{plain};
$cancelled->run(q{SET statement_timeout = '300 ms'});
is($cancelled->run(take('late', 'x', $long)), 'ERROR 57014', 'cancelled');
is(sql($node, 'postgres', q{SELECT count(*) FROM dcounter.consumer_member WHERE member = 'x'}), '0', 'it was never there');
is(sql($node, 'postgres', q{SELECT dc_consumer_drop('late'); SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 2}), "\n0", 'and has no lock');

foreach my $session (values %session)
{
	$session->{run}->kill_kill;
}
$node->stop('immediate');
done_testing();
