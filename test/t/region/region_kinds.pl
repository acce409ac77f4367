# Restores of all kinds by dc_region, under load: what a region is set back to, and when. Meanwhile users count in all of them, set,
# and buy. In the end all regions are active and equal, and have, key by key, what was counted in all of
# them: of what a region had counted before it was set back, that which any region had heard of, or which is in what it was set
# back to, and no more. Nothing is sold twice. make torture does each kind.
#   DC_KINDS='dump:cut early:load'   these kinds only
use strict;
use warnings;

use DcLinks;
use DcRegion;
use DcRestore;
use DcTest;
use List::Util qw(max shuffle sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

# load: while all count; cut: it was cut off before; down: another region is down; joining: another one is being added; two: another
# region is set back as well; workers: it is started without the workers of its links at first
my @whens = ('load', 'cut', 'down', 'joining', 'two', 'workers');
my @kinds = grep { !/^renewed:(two|workers)/ } map { my $way = $_; map { "$way:$_" } @whens } restore_ways();
@kinds = grep { !/:two/ } @kinds if !torture(0, 1); # where one waits for the other, half a minute
@kinds = defined $ENV{DC_KINDS} ? split(/ /, $ENV{DC_KINDS}) : (shuffle(@kinds))[ 0 .. torture(1, $#kinds) ];

my $limit = $PostgreSQL::Test::Utils::timeout_default;
my $begin = time;
my @names = ('ap', 'eu', 'us');
my %nodes = map { $_ => region_node($_, "dcounter.region_beat_interval = '500ms'", restore_conf($_)) } @names;
my @nodes = map { $nodes{$_} } @names;
my $config;
my %truth;      # what was counted of each key
my $units = 30; # that each region stocks in a round
my $number = 0;

# say(TEXT): when it was
sub say
{
	note(sprintf('%.1f s: %s', time - $begin, $_[0]));
	return;
}

# configure([CONNINFO of another region])
sub configure
{
	my ($another) = @_;

	$config = file_of('regions.conf', join '', map({ "$_ = " . $nodes{$_}->connstr('postgres') . "\n" } @names), defined $another ? "sa = $another\n" : '');
	return;
}

# program(ARGUMENT...): its status and what it prints
sub program
{
	my (@arguments) = @_;
	my $job = start_command('dc_region', '-c', $config, '--trust-owners', "--timeout=$limit", @arguments);
	my $status = finish_job($job);

	say("dc_region @arguments: $status");
	return ($status, $job->{out} . $job->{err});
}

# does(STATUS, ARGUMENT...): a test
sub does
{
	my ($expected, @arguments) = @_;
	my ($status, $out) = program(@arguments);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($status, $expected, "dc_region @arguments") || diag($out);
}

# restores_but_for_joining(NODE, OPTION...): all that is left to do afterwards is what adds the other region, if anything
sub restores_but_for_joining
{
	my ($node, @options) = @_;
	my ($status, $out) = program('restore', $node->name, @options);
	my @left = $out =~ /^-- left to do: (.*)$/mg;

	return ok($status == (@left ? 3 : 0) && !grep({ !/: dc_region add sa$/ } @left), 'dc_region restore ' . $node->name) || diag($out);
}

# nothing_is_left(): the region that was added while another one was set back may have to be restored, and status says so
sub nothing_is_left
{
	my ($status, $out) = program('status');

	does(0, 'restore', 'sa') if $status == 3 && $out =~ /: dc_region restore sa$/m;
	return does(0, 'status');
}

# killed(ARGUMENT...): it is killed while it is at work
sub killed
{
	my (@arguments) = @_;
	my $job = start_command('dc_region', '-c', $config, '--trust-owners', @arguments);

	sleep(rand(1.5));
	$job->{run}->signal('KILL');
	finish_job($job);
	say("killed: dc_region @arguments\n$job->{out}$job->{err}");
	return;
}

# load(NODE, KEYS, SECONDS): users count in these keys, set, and buy. "counted" has the increments
# that were committed here; purchases are those that were acknowledged
sub load
{
	my ($node, $keys, $seconds) = @_;
	my $count = file_of('count.sql', qq{
		\\set id random(1, 8)
		\\set amount random(1, 7)
		BEGIN;
		SELECT dc_incr('likes', '$keys+' || :id, :amount), dc_decr('likes', '$keys-' || :id, :amount);
		INSERT INTO counted VALUES ('$keys+' || :id, :amount), ('$keys-' || :id, -:amount);
		COMMIT;
		SELECT dc_incr('hits', '$keys');
		});
	my $others = join '', map {
		my $id = int(rand(5));
		"SELECT 'bought ' || dc_take('seats', 'show $number', 1);\nSELECT dc_set('marks', 'mark $id', $_);\nSELECT pg_sleep(0.05);\n" . ($_ % 8 ? '' : "SELECT dc_want('seats', 'show $number', 4);\n")
	} 1 .. 8 * $seconds;

	return (start_command('pgbench', '-n', '-c', 2, '-T', $seconds, '-f', $count, $node->connstr('postgres')),
		map { start_command('psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', file_of('others.sql', $others)) } 1, 2);
}

# bought(JOB...): waits for them; how many units buyers have got
sub bought
{
	my (@jobs) = @_;
	my $bought = 0;

	foreach my $job (@jobs)
	{
		finish_job($job);
		$bought += () = $job->{out} =~ /^bought true$/mg;
	}
	return $bought;
}

# amounts(NODE, SQL): of keys
sub amounts
{
	my ($node, $sql) = @_;

	return map { split /\|/ } split /\n/, sql($node, 'postgres', $sql);
}

# known(NODE, KEYS): what it knows of what a region has counted
sub known
{
	my ($node, $keys) = @_;

	return amounts($node, "SELECT key, abs(dc_get('likes', key)) FROM (SELECT key FROM likes UNION SELECT key FROM likes_shard) AS u WHERE starts_with(key, '$keys')");
}

# heard(NODE, FROM, KEYS): the same, when nothing comes from there any more
sub heard
{
	my ($node, $from, $keys) = @_;
	my $link = 'dc_from_' . $from->name;

	sql($node, 'postgres', "ALTER SUBSCRIPTION $link DISABLE");
	wait_for($node, 'postgres', "SELECT count(*) FROM pg_stat_subscription WHERE subname = '$link' AND pid IS NOT NULL", '0');
	return known($node, $keys);
}

# all_become(NAME, SQL, RESULT): a test
sub all_become
{
	my ($name, $sql, $result) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(wait_for($_, 'postgres', $sql, $result), $result, "$name: " . $_->name) foreach @nodes;
	return;
}

# same(NAME, COUNTER): in the end the values of a counter are the same
sub same
{
	my ($name, $counter) = @_;
	my $sql = "SELECT string_agg(key || '=' || dc_get('$counter', key), ' ' ORDER BY key) FROM (SELECT key FROM $counter UNION SELECT key FROM ${counter}_shard) AS u";
	my $end = time + $limit;
	my @values;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	do
	{
		@values = map { answer($_, 'postgres', $sql) } @nodes;
	} until !grep({ $_ ne $values[0] } @values) || time > $end;
	is($values[$_], $values[0], "$name: $counter of $names[$_] and $names[0]") foreach 1 .. $#nodes;
	return $values[0];
}

# is_sound(NAME, BOUGHT): what must be true when nobody counts any more
sub is_sound
{
	my ($name, $bought) = @_;
	my $expected;
	my $left = 0;

	foreach my $node (@nodes)
	{
		my %more = amounts($node, q{SELECT key, abs(sum(amount)) FROM counted WHERE key !~ '@' GROUP BY key});

		$truth{$_} += $more{$_} foreach keys %more;
		sql($node, 'postgres', 'TRUNCATE counted');
	}
	$expected = join ' ', map { "$_=" . (/-\d+$/ ? -$truth{$_} : $truth{$_}) } grep { $truth{$_} } sort keys %truth;
	all_become("$name: what was counted", q{SELECT string_agg(key || '=' || dc_get('likes', key), ' ' ORDER BY key) FROM (SELECT key FROM likes UNION SELECT key FROM likes_shard) AS u WHERE dc_get('likes', key) <> 0}, $expected);
	sql($nodes[ rand @nodes ], 'postgres', "SELECT dc_set('marks', 'mark ' || i, $number) FROM generate_series(0, 4) AS i");
	all_become("$name: what was set last", q{SELECT count(*) FROM generate_series(0, 4) AS i WHERE dc_get('marks', 'mark ' || i) = } . $number, '5');
	same($name, $_) foreach 'marks', 'hits';
	all_become("$name: no stock is shut", 'SELECT count(*) FROM dcounter.counter WHERE grants <> 0 AND rights_epoch < 0', '0');
	all_become("$name: states", q{SELECT bool_and(state IN ('active', 'retired') AND coalesce(link_state, 'up') = 'up') FROM dc_regions()}, 't');
	does(0, 'check');
	nothing_is_left();
	$left += sql($_, 'postgres', "SELECT greatest(dc_get('seats', 'show $number'), 0)") foreach @nodes;
	cmp_ok($bought + $left, '<=', $units * @nodes, "$name: $bought units were sold, and $left are left");
	cmp_ok($bought, '>', 0, "$name: some were sold");
	return;
}

# restore(KIND): a round
sub restore
{
	my ($kind) = @_;
	my ($way, $when) = split /:/, $kind;
	my ($victim, $second, $third) = shuffle(@nodes);
	my %ways = ($victim->name => $way, ($when eq 'two' ? ($second->name => 'snapshot') : ()));
	my @victims = grep { $ways{ $_->name } } $victim, $second;
	my @others = grep { !$ways{ $_->name } } @nodes;
	my %keys = map { $_->name => $_->name . "\@$number " } @victims;
	my (%known, @jobs, %saved);
	my $name = "$number, $kind of " . $victim->name;
	my @options = restore_leaves_no_trace($way) && ($when eq 'cut' || rand(2) < 1) ? '--renew' : ();
	my $workers = $when ne 'workers' && $when ne 'two';
	my $bought;
	my $learn = sub
	{
		my (%of) = @_;

		$known{$_} = max($known{$_} // 0, $of{$_}) foreach keys %of;
	};

	say($name);
	sql($_, 'postgres', "SELECT dc_restock('seats', 'show $number', $units)") foreach @nodes;
	$saved{ $_->name } = $ways{ $_->name } =~ /^(old|early)$/ ? $ways{ $_->name } : "save$number" foreach @victims;
	@jobs = map { load($_, $keys{ $_->name } // 'key ', 4) } @nodes;
	sleep(0.5);
	foreach my $node (@victims)
	{
		next if $ways{ $node->name } =~ /^(old|early|renewed)$/;
		restore_save($node, $ways{ $node->name }, $saved{ $node->name });
		wait_for($node, 'postgres', region_state($node), 'active');
		push @jobs, load($node, $keys{ $node->name }, 4);
	}
	sleep(0.5);
	restore_meanwhile($victim, $way, $saved{ $victim->name });
	if ($when eq 'cut')
	{
		link_switch($victim, 'DISABLE');
		sql($_, 'postgres', 'ALTER SUBSCRIPTION dc_from_' . $victim->name . ' DISABLE') foreach @others;
	}
	if ($when eq 'down')
	{
		$learn->(heard($third, $victim, $keys{ $victim->name }));
		sql($third, 'postgres', 'ALTER SUBSCRIPTION dc_from_' . $victim->name . ' ENABLE');
		$third->stop('fast');
		@others = ($second);
	}
	if ($when eq 'joining')
	{
		sql($second, 'postgres', 'CREATE DATABASE sa' . $number);
		configure($second->connstr("sa$number"));
		killed('add', 'sa');
	}
	sleep(0.5 + rand(1));

	# it dies, with what the others have not heard of
	$_->stop($way eq 'renewed' || rand(2) < 1 ? 'fast' : 'immediate') foreach @victims;
	foreach my $other (@others)
	{
		foreach my $node (@victims)
		{
			$learn->(heard($other, $node, $keys{ $node->name }));
			sql($other, 'postgres', 'ALTER SUBSCRIPTION dc_from_' . $node->name . ' ENABLE');
		}
	}
	$bought = bought(@jobs);
	@jobs = map { load($_, 'key ', 4) } @others;
	restore_back($_, $ways{ $_->name }, $saved{ $_->name }, $workers) foreach @victims;
	foreach my $node (@victims)
	{
		$learn->(amounts($node, "SELECT key, abs(sum(amount)) FROM counted WHERE starts_with(key, '$keys{ $node->name }') GROUP BY key"));
		$learn->(known($node, $keys{ $_->name })) foreach grep { $_ != $node } @victims;
		sql($node, 'postgres', 'TRUNCATE counted');
		push @jobs, load($node, 'key ', 4) if $workers;
	}
	$truth{$_} = $known{$_} foreach keys %known;

	# it is brought back
	killed('restore', $_->name, @options) foreach @victims;
	if (!$workers)
	{
		does(3, 'restore', $_->name, @options) foreach @victims;
		restore_workers($_) foreach @victims;
		push @jobs, load($_, 'key ', 3) foreach @victims;
	}
	if ($when eq 'down')
	{
		killed('restore', $victim->name, @options);
		$third->start;
	}
	program('restore', $second->name, @options) if $when eq 'two'; # it may wait for the other one, and find out that they differ
	foreach my $node (@victims)
	{
		$when eq 'joining' ? restores_but_for_joining($node, @options) : does(0, 'restore', $node->name, @options);
	}
	does(0, 'add', 'sa') if $when eq 'joining';
	$bought += bought(@jobs);
	does(0, 'repair') if $when eq 'down';
	is_sound($name, $bought);
	if ($when eq 'joining')
	{
		is(wait_for($second, "sa$number", q{SELECT string_agg(key || '=' || dc_get('marks', key), ' ' ORDER BY key) FROM marks WHERE key LIKE 'mark%'}, same($name, 'marks')), same($name, 'marks'), "$name: the one that was added");
		does(0, 'retire', 'sa');
		configure();
		sql($second, 'postgres', "DROP DATABASE sa$number WITH (FORCE)");
	}
	return;
}

configure();
sql($_, 'postgres', q{
	SELECT dc_create('hits', mode => 'buffered', flush_interval => '200 ms'), dc_create('marks'), dc_stock_create('seats');
	SELECT dc_replicate('hits'), dc_replicate('marks'), dc_replicate('seats')}) foreach @nodes;
restore_save($_, 'early', 'early') foreach grep(/^early/, @kinds) ? @nodes : ();
does(0, 'add', @names);
foreach my $node (@nodes)
{
	restore_save($node, 'old', 'old') if grep { /^old/ } @kinds;
	is(wait_for($node, 'postgres', region_state($node), 'active'), 'active', $node->name . ' is active');
}
foreach my $kind (@kinds)
{
	$number++;
	restore($kind);
}
$_->stop('immediate') foreach @nodes;
done_testing();
