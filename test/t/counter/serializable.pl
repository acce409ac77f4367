# SERIALIZABLE transactions that read some keys and write others, while compaction, the
# levelling of stocks and increments at other levels change the rows in between.
#
# In each round three sessions run a transaction each, at the same time, of random
# steps on the same three keys, with random pauses. A fourth one does what changes no
# value. Each step notes its answer in the transaction. Of those that were committed
# there must be an order in which, one after the other, they would have had exactly
# these answers and led to what there is in the end: that is what SERIALIZABLE means.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = torture(400, 12000);

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my @names = ('x', 'y', 'z');
my $node = dc_node('main');
sql($node, 'postgres', q{
	SELECT dc_create('counter', max_shards => 4);
	SELECT dc_create('part', partitions => 2);
	SELECT dc_stock_create('stock', max_shards => 8);
	SELECT dc_ledger_create('ledger', auto_open => true);
	SELECT dc_account_open('ledger', 'bank', NULL);
	CREATE TABLE log (round int, who int, step int, answer text);
	CREATE TABLE ids (round int PRIMARY KEY, hold uuid, pending bigint);
	CREATE TABLE arrived (round int);
	CREATE INDEX ON arrived (round);

	CREATE PROCEDURE meet(n int) LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO arrived VALUES (n);
		COMMIT;
		WHILE (SELECT count(*) FROM arrived WHERE round = n) < 4 LOOP
			COMMIT;
			PERFORM pg_sleep(0.0005);
		END LOOP;
	END $$;
	CREATE FUNCTION transfer(f text, t text, n bigint, e text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		RETURN (dc_transfer('ledger', f, t, n, e)).duplicate;
	EXCEPTION WHEN SQLSTATE 'LG001' THEN
		RETURN 'refused';
	END $$;
	CREATE FUNCTION transfer_pending(f text, t text, n bigint, e text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		RETURN (dc_transfer_pending('ledger', f, t, n, e)).duplicate;
	EXCEPTION WHEN SQLSTATE 'LG001' THEN
		RETURN 'refused';
	END $$;
});

# The operations on a table. Each kind has: setup (round, key => start value), read and write
# (round, table, key, another key): an expression, and what it does to a state and answers. A state
# has the values of the keys in "v".
sub key { my ($round, $name) = @_; return "'$name$round'"; }
sub one_of { return $_[ int(rand(@_)) ]; }
sub amount { return 1 + int(rand(2)); }

sub read_value
{
	my ($r, $t, $k) = @_;
	my $other = one_of(@names);

	return one_of(
		[ "dc_get('$t', " . key($r, $k) . ')', sub { $_[0]{v}{$k} } ],
		[ "(dc_info('$t', " . key($r, $k) . ')).value', sub { $_[0]{v}{$k} } ],
		[   "(SELECT string_agg(value::text, ' ' ORDER BY key) FROM dc_get_many('$t', ARRAY[" . join(', ', map { key($r, $_) } @names) . ']))',
			sub { my ($s) = @_; join(' ', map { $s->{v}{$_} } @names) } ]);
}

sub set_value
{
	my ($r, $t, $k) = @_;
	my $key = key($r, $k);
	my $n = int(rand(4));
	my $to = sub { my ($value) = @_; sub { my $old = $_[0]{v}{$k}; $_[0]{v}{$k} = $value; $old } };

	return one_of([ "dc_set('$t', $key, $n)", $to->($n) ],
		[ "dc_reset('$t', $key)", $to->(0) ],
		[ "dc_delete('$t', $key)", $to->(0) ]);
}

sub write_counter
{
	my ($r, $t, $k, $k2) = @_;
	my ($key, $key2) = (key($r, $k), key($r, $k2));
	my $n = amount();
	my $by = sub { my %by = @_; sub { my ($s) = @_; $s->{v}{$_} += $by{$_} foreach keys %by; '' } };

	return set_value(@_) if rand() < 0.5;
	return one_of(["dc_incr('$t', $key, $n)", $by->($k, $n) ],
		[ "dc_decr('$t', $key, $n)", $by->($k, -$n) ],
		[ "dc_incr_many('$t', ARRAY[$key, $key2], ARRAY[$n, -$n])", $by->($k, $n, $k2, -$n) ],
		[ "dc_incr_hashed('$t', $key, 'a', $n)", $by->($k, $n) ],
		[ "CASE WHEN dc_incr('$t', $key, $n) IS NOT NULL THEN dc_apply() END", $by->($k, $n) ],
		[ "dc_incr_returning('$t', $key, $n)", sub { $_[0]{v}{$k} += $n } ]);
}

# The other transactions of a round bring the same event
sub write_once
{
	my ($r, $t, $k) = @_;

	return write_counter(@_) if rand() < 0.3;
	return ["dc_incr_once('$t', 'x$r', 1, 'e$r')",
		sub { my ($s) = @_; return 'false' if $s->{once}++; $s->{v}{x}++; 'true' } ];
}

sub read_once
{
	my ($r, $t) = @_;

	return read_value(@_) if rand() < 0.5;
	return ["(SELECT applied FROM dc_op_status('$t', 'e$r'))", sub { $_[0]{once} ? 'true' : 'false' } ];
}

sub write_stock
{
	my ($r, $t, $k, $k2) = @_;
	my ($key, $key2) = (key($r, $k), key($r, $k2));
	my $n = amount();
	my $take = sub { my %by = @_; sub {
		my ($s) = @_;
		return 'false' if grep { $s->{v}{$_} < $by{$_} } keys %by;
		$s->{v}{$_} -= $by{$_} foreach keys %by;
		return 'true'; } };
	my $end = sub { my ($state, $back) = @_; sub {
		my ($s) = @_;
		return $s->{hold} eq $state ? "$state already" : $s->{hold} if $s->{hold};
		$s->{hold} = $state;
		$s->{v}{x} += $back;
		return $state; } };

	return set_value(@_) if rand() < 0.25;
	return one_of(["dc_take('$t', $key, $n)", $take->($k, $n) ],
		[ "dc_take('$t', $key, $n, true)", $take->($k, $n) ],
		[ "dc_take_up_to('$t', $key, $n)", sub {
				my ($s) = @_;
				my $got = $s->{v}{$k} < $n ? $s->{v}{$k} : $n;
				$s->{v}{$k} -= $got;
				return $got; } ],
		[ "dc_take_all('$t', ARRAY[$key, $key2], ARRAY[1, $n])", $take->($k, 1, $k2, $n) ],
		[ "dc_hold('$t', $key, $n, '1 day') IS NOT NULL", $take->($k, $n) ],
		[ "dc_restock('$t', $key, $n)", sub { $_[0]{v}{$k} += $n; '' } ],
		[ "dc_hold_release('$t', (SELECT hold FROM ids WHERE round = $r), false)", $end->('released', 2) ],
		[ "dc_hold_confirm('$t', (SELECT hold FROM ids WHERE round = $r), 1, false)", $end->('confirmed', 1) ]);
}

my $event = 0;

sub write_ledger
{
	my ($r, $t, $k, $k2) = @_;
	my $to = one_of("'bank'", key($r, $k2));
	my $n = amount();
	my $e = 'e' . ++$event;
	my $aside = sub { my ($s, $by) = @_; $s->{out}{x} -= $by; $s->{in}{y} -= $by; };

	return one_of(
		(["transfer(" . key($r, $k) . ", $to, $n, '$e')", sub {
				my ($s) = @_;
				return 'refused' if $s->{v}{$k} - $s->{out}{$k} < $n;
				$s->{v}{$k} -= $n;
				$s->{v}{$k2} += $n if $to ne "'bank'";
				return 'false'; } ]) x 3,
		["transfer_pending(" . key($r, $k) . ", $to, $n, '$e')", sub {
				my ($s) = @_;
				return 'refused' if $s->{v}{$k} - $s->{out}{$k} < $n;
				$s->{out}{$k} += $n;
				$s->{in}{$k2} += $n if $to ne "'bank'";
				return 'false'; } ],
		[ "dc_transfer_post('ledger', (SELECT pending FROM ids WHERE round = $r))", sub {
				my ($s) = @_;
				return $s->{pending} eq 'posted' ? 'posted already' : $s->{pending} if $s->{pending};
				$aside->($s, 1);
				$s->{v}{x}--;
				$s->{v}{y}++;
				return $s->{pending} = 'posted'; } ],
		[ "dc_transfer_void('ledger', (SELECT pending FROM ids WHERE round = $r))", sub {
				my ($s) = @_;
				return $s->{pending} eq 'voided' ? 'voided already' : $s->{pending} if $s->{pending};
				$aside->($s, 1);
				return $s->{pending} = 'voided'; } ]);
}

sub read_ledger
{
	my ($r, $t, $k) = @_;

	return ["dc_balance('ledger', " . key($r, $k) . ')', sub {
			my ($s) = @_;
			return sprintf('(%d,%d,%d,%d)', $s->{v}{$k}, $s->{out}{$k}, $s->{in}{$k}, $s->{v}{$k} - $s->{out}{$k}); } ];
}

my %kinds = (
	counter => { table => 'counter', read => \&read_value, write => \&write_counter },
	part => { table => 'part', read => \&read_value, write => \&write_counter },
	once => { table => 'counter', read => \&read_once, write => \&write_once },
	stock => { table => 'stock', read => \&read_value, write => \&write_stock },
	ledger => { table => 'ledger', read => \&read_ledger, write => \&write_ledger });

# The scripts of the four sessions
my @scripts = ('') x 4;
my @plan;

sub pause { return rand() < 0.3 ? '' : sprintf("SELECT pg_sleep(%.4f);\n", rand(0.006)); }

foreach my $r (1 .. $rounds)
{
	my $kind = one_of(sort keys %kinds);
	my ($t, $read, $write) = @{ $kinds{$kind} }{qw(table read write)};
	my %start = map { $_ => 1 + int(rand(2)) } @names;
	my $round = { kind => $kind, start => \%start, steps => [] };

	$scripts[0] .= setup($r, $kind, $t, \%start);
	foreach my $who (0 .. 2)
	{
		my @steps;

		$scripts[$who] .= "CALL meet($r);\n" . pause() . "BEGIN ISOLATION LEVEL SERIALIZABLE;\n";
		# most read all keys and write one; some write, or change their mind, before
		my @do = (map { [ $read, $_ ] } sort { rand() <=> 0.5 } @names);
		@do = @do[ 0 .. int(rand(3)) ] if rand() < 0.3;
		push @do, [ $write, $_ ] foreach (one_of(@names), rand() < 0.25 ? one_of(@names) : ());
		push @do, [ $read, one_of(@names) ] if rand() < 0.15;
		unshift @do, pop @do if rand() < 0.1;
		foreach my $do (@do)
		{
			my ($what, $k) = @$do;
			my $k2 = one_of(grep { $_ ne $k } @names);
			my ($sql, $apply) = @{ $what->($r, $t, $k, $k2) };
			my $insert = "INSERT INTO log SELECT $r, $who, " . @steps . ", ($sql)::text;\n";

			$scripts[$who] .= "SAVEPOINT s;\n" . pause() . "SELECT " . $write->($r, $t, $k, $k2)->[0] . ";\nROLLBACK TO s;\n"
			  if rand() < 0.1;
			$insert = "SAVEPOINT s;\n${insert}RELEASE s;\n" if rand() < 0.2;
			$scripts[$who] .= $insert . pause();
			push @steps, [ $sql, $apply ];
		}
		$scripts[$who] .= rand() < 0.15
		  ? "PREPARE TRANSACTION 'g${r}_$who';\n" . pause() . "COMMIT PREPARED 'g${r}_$who';\n" : "COMMIT;\n";
		push @{ $round->{steps} }, \@steps;
	}
	push @plan, $round;

	# Compactions, and increments of nothing. Those of the ledger move its limits, too.
	my @tables = ($t, $t eq 'ledger' ? 'ledger_limit' : ());
	$scripts[3] .= "CALL meet($r);\n";
	foreach (0 .. int(rand(4)))
	{
		$scripts[3] .= pause() . (rand() < 0.7 || $t =~ /stock|ledger/
			? join('', map { "SELECT dc_compact('$_');\n" } @tables)
			: "SELECT dc_incr('$t', k, 1), dc_decr('$t', k, 1) FROM unnest(ARRAY[" . join(', ', map { key($r, $_) } @names) . "]) AS k;\n");
	}
}

# setup makes the keys of a round, some of them compacted
sub setup
{
	my ($r, $kind, $t, $start) = @_;
	my $sql = '';

	foreach my $k (sort { rand() <=> 0.5 } @names)
	{
		my $key = key($r, $k);
		my $n = $start->{$k};

		$sql .= $kind eq 'ledger' ? "SELECT dc_transfer('ledger', 'bank', $key, $n, 'start$r$k');\n"
		  : $kind eq 'stock' ? "SELECT dc_restock('$t', $key, $n + ($key = 'x$r')::int * 2);\n"
		  : "SELECT dc_incr('$t', $key, $n);\n";
		$sql .= "SELECT dc_compact('$t');\n" if rand() < 0.5;
	}
	$sql .= "INSERT INTO ids VALUES ($r, dc_hold('stock', 'x$r', 2, '1 day'));\n" if $kind eq 'stock';
	$sql .= "INSERT INTO ids SELECT $r, NULL, transfer_id FROM dc_transfer_pending('ledger', 'x$r', 'y$r', 1, 'pending$r');\n"
	  if $kind eq 'ledger';
	return $sql;
}

# Run them
my @jobs = map {
	my $script = file_of("session$_.sql", "\\set VERBOSITY sqlstate\n$scripts[$_]");
	start_command('psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', $script) } 0 .. 3;
is(finish_job($_), 0, 'a session has come to its end') foreach @jobs;
my %errors;
$errors{$_}++ foreach map { $_->{err} =~ /ERROR:  (\w{5})/g } @jobs;
note(join(', ', map { "$_: $errors{$_}" } sort keys %errors));
# failures to serialize, deadlocks of takes, and what follows from them
is(join(' ', grep { !/^(40001|40P01|25P02|42704|3B001)$/ } sort keys %errors), '', 'errors are those that must be expected');
unlike($jobs[3]{err}, qr/ERROR/, 'none of them where nothing is read');

# What was answered: [round][who][step]
my @answers;
foreach my $line (split /\n/, sql($node, 'postgres', q{SELECT round, who, step, coalesce(answer, '') FROM log}))
{
	my ($r, $who, $step, $answer) = split /\|/, $line, 4;
	$answers[$r][$who][$step] = $answer;
}

# What there is in the end: {table}{key}
my %end;
foreach my $t ('counter', 'part', 'stock', 'ledger')
{
	foreach my $line (split /\n/, sql($node, 'postgres', qq{
		SELECT k, dc_get('$t', k) FROM (SELECT n || i AS k FROM unnest('{x,y,z}'::text[]) AS n, generate_series(1, $rounds) AS i) AS keys}))
	{
		my ($k, $value) = split /\|/, $line;
		$end{$t}{$k} = $value;
	}
}

# could_run: whether the committed transactions of a round could have run in an order
sub could_run
{
	my ($r, $round, @order) = @_;
	my $t = $kinds{ $round->{kind} }{table};
	my $s = { v => { %{ $round->{start} } }, hold => '', pending => '', once => 0,
		out => { x => 1, y => 0, z => 0 }, in => { x => 0, y => 1, z => 0 } };

	foreach my $who (@order)
	{
		my $step = 0;
		foreach my $answer (@{ $answers[$r][$who] })
		{
			my ($sql, $apply) = @{ $round->{steps}[$who][ $step++ ] };

			# if there is none, it has failed and was rolled back to a savepoint
			return 0 if defined $answer && $apply->($s) ne $answer;
		}
	}
	return !grep { $s->{v}{$_} != $end{$t}{"$_$r"} } @names;
}

sub orders
{
	my (@of) = @_;

	return ([]) if !@of;
	return map { my $first = $_; map { [ $first, @$_ ] } orders(grep { $_ != $first } @of) } @of;
}

my $wrong = 0;
my @committed = (0) x 4;
foreach my $r (1 .. $rounds)
{
	my $round = $plan[ $r - 1 ];
	my @done = grep { $answers[$r][$_] } 0 .. 2;

	$committed[@done]++;
	next if grep { could_run($r, $round, @$_) } orders(@done);
	next if $wrong++ >= 5;
	diag("round $r ($round->{kind}), start: " . join(', ', map { "$_ = $round->{start}{$_}" } @names));
	foreach my $who (@done)
	{
		diag("  session $who: " . join('; ', map { "$round->{steps}[$who][$_][0] -> " . ($answers[$r][$who][$_] // 'error') } 0 .. $#{ $answers[$r][$who] }));
	}
	diag('  end: ' . join(', ', map { $end{ $kinds{ $round->{kind} }{table} }{"$_$r"} } @names));
}
note("rounds with 0 to 3 committed transactions: @committed");
is($wrong, 0, "what was committed could have run one after the other (seed $seed)");
cmp_ok($committed[2] + $committed[3], '>', $rounds / 20, 'transactions were not all in the way of each other');
is(sql($node, 'postgres', q{SELECT count(*) FROM dc_ledger_check('ledger')}), 0, 'the ledger is sound');

$node->stop;
done_testing();
