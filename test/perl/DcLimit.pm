# Shared by the tests of limits: a server, clients that log their answers and the times, and checks
# whether everything allowed is within a limit's bound.
package DcLimit;

use strict;
use warnings;

use Exporter 'import';
use DcTest;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(limit_node log_table trace over_bound unjustified held_over start_load finish_load);

# limit_node(NAME, LINE...): a started server with limits
sub limit_node
{
	my ($name, @conf) = @_;

	return dc_node($name, conf => [ q{shared_preload_libraries = 'dcounter'}, 'dcounter.worker = off', 'max_connections = 100', 'restart_after_crash = on', @conf ]);
}

# log_table(NODE): where calls are written down. A call was decided at some moment between began and
# ended. clock_timestamp() is the wall clock, which is not set here.
sub log_table
{
	my ($node) = @_;

	sql($node, 'postgres', q{
		CREATE TABLE calls (rule text, key text, cost bigint, allowed boolean, began bigint, ended bigint, lease bigint, released bigint);
		CREATE FUNCTION us() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;
		CREATE FUNCTION called(name text, k text, units bigint DEFAULT 1) RETURNS boolean LANGUAGE plpgsql AS $$
		DECLARE
			t bigint := us(); l record;
		BEGIN
			SELECT * INTO l FROM dc_limit(name, k, units);
			INSERT INTO calls VALUES (name, k, units, l.allowed, t, us(), l.lease);
			RETURN l.allowed;
		END $$;
		CREATE FUNCTION called_all(names text[], keys text[]) RETURNS boolean LANGUAGE plpgsql AS $$
		DECLARE
			t bigint := us(); l record;
		BEGIN
			SELECT * INTO l FROM dc_limit_all(names, keys);
			INSERT INTO calls SELECT n, k, 1, l.allowed, t, us() FROM unnest(names, keys) AS u(n, k);
			RETURN l.allowed;
		END $$;
		CREATE FUNCTION held(name text, k text, seconds float8) RETURNS boolean LANGUAGE plpgsql AS $$
		DECLARE
			t bigint := us(); t2 bigint; l record;
		BEGIN
			SELECT * INTO l FROM dc_limit(name, k);
			t2 := us();
			IF l.allowed THEN
				PERFORM pg_sleep(seconds);
				INSERT INTO calls VALUES (name, k, 1, true, t, t2, l.lease, us());
				IF NOT dc_limit_release(name, k, l.lease) THEN
					RAISE 'a lease was gone';
				END IF;
			ELSE
				INSERT INTO calls VALUES (name, k, 1, false, t, t2);
			END IF;
			RETURN l.allowed;
		END $$;});
	return;
}

# trace(NODE, RULE): { key => [[began, ended, cost, allowed] ...] } in the order of ended
sub trace
{
	my ($node, $rule) = @_;
	my %calls;

	foreach (split /\n/, sql($node, 'postgres', "SELECT key, began, ended, cost, allowed::int FROM calls WHERE rule = '$rule' ORDER BY ended"))
	{
		my ($key, @call) = split /\|/;

		push @{ $calls{$key} }, \@call;
	}
	return \%calls;
}

# over_bound(TRACE, BOUND): how many windows have more than BOUND(us) says that so long a window may
# have, of calls that were certainly decided within it
sub over_bound
{
	my ($trace, $bound) = @_;
	my $over = 0;

	foreach my $calls (values %$trace)
	{
		my @allowed = grep { $_->[3] } @$calls;

		foreach my $from (@allowed)
		{
			my $units = 0;

			foreach my $call (@allowed)
			{
				next if $call->[0] < $from->[0];
				$units += $call->[2];
				$over++ if $units > $bound->($call->[1] - $from->[0], $from->[0], $call->[1]);
			}
		}
	}
	return $over;
}

# unjustified(TRACE, RATE, BURST): how many calls were denied though a bucket of so many units, filled with RATE
# units a us, must have had enough for them. If it had not, there is a moment from which on too much was allowed: it
# is looked for with the times at which calls may have been decided that speak for it. A window of N units in a period
# is a bucket that is not filled: RATE 0, and only what can have been in the PERIOD before counts.
sub unjustified
{
	my ($trace, $rate, $burst, $period) = @_;
	my $wrong = 0;

	foreach my $calls (values %$trace)
	{
		my @allowed = grep { $_->[3] } @$calls;
		my (@begins, @ends, @starts);

		foreach my $column (0, 1)
		{
			my ($sum, @sums) = (0);

			push @sums, [ $_->[$column], $sum += $_->[2] ] foreach sort { $a->[$column] <=> $b->[$column] } @allowed;
			push @{ $column == 0 ? \@begins : \@ends }, @sums;
		}
		foreach my $denied (grep { !$_->[3] } @$calls)
		{
			my ($began, $ended, $cost) = @$denied;
			my $upto = sum_to(\@begins, $ended);
			my $need = $burst - $cost;
			my $from = $period ? $began - $period : undef;

			if ($period)
			{
				$wrong++ if $upto - sum_to(\@ends, $from - 1) <= $need;
				next;
			}
			next if grep { $_->[0] <= $ended && $upto - sum_to(\@ends, $_->[0] - 1) > $need + $rate * ($began > $_->[1] ? $began - $_->[1] : 0) } @allowed;
			$wrong++;
		}
	}
	return $wrong;
}

# sum_to([[time, sum] ...], TIME): the last sum up to a time
sub sum_to
{
	my ($sums, $time) = @_;
	my ($low, $high) = (0, scalar(@$sums));

	while ($low < $high)
	{
		my $middle = int(($low + $high) / 2);

		if ($sums->[$middle][0] <= $time) { $low = $middle + 1 }
		else { $high = $middle }
	}
	return $low == 0 ? 0 : $sums->[ $low - 1 ][1];
}

# held_over(NODE, RULE, MOST): how often more than so many leases of a key were certainly held at a time
sub held_over
{
	my ($node, $rule, $most) = @_;

	return sql($node, 'postgres', qq{
		SELECT count(*) FROM (
			SELECT sum(d) OVER (PARTITION BY key ORDER BY t, d) AS n FROM (
				SELECT key, ended AS t, 1 AS d FROM calls WHERE rule = '$rule' AND allowed
				UNION ALL SELECT key, released, -1 FROM calls WHERE rule = '$rule' AND allowed) AS e) AS s
		WHERE n > $most});
}

# start_load(NODE, CLIENTS, SECONDS, NAME => SQL ...): pgbench with these scripts. With '-t' => N it is so many
# transactions a client, instead of seconds.
sub start_load
{
	my ($node, $clients, $seconds, %scripts) = @_;
	my $transactions = delete $scripts{-t};
	my @length = $transactions ? ('-t', $transactions) : ('-T', $seconds);
	my @files = map { ('-f', file_of("$_.sql", "$scripts{$_}\n")) } sort keys %scripts;

	return start_command('pgbench', '-n', '-c', $clients, '-j', 2, @length, '-M', 'prepared', @files, '-h', $node->host, '-p', $node->port, 'postgres');
}

# finish_load(JOB): its exit status, and what it has said
sub finish_load
{
	my ($job) = @_;

	return (finish_job($job), $job->{out} . $job->{err});
}

1;
