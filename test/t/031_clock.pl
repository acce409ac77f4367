# The wall clock of the server is set back by an hour, and forth again, while all is at
# work. Each job of the worker goes on within its interval, what is in memory gets to
# the tables, waits end when they should, nothing is lost and nothing counted twice.
#
# Nothing depends on tight timing: intervals are short, waits may be long, and an hour
# is longer than any of them.
use strict;
use warnings;

use DcClock;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'no compiler for the clock that can be set, or a server with AddressSanitizer' if !clock_prepare();

# DC_CLOCK_ONLY=part,part: to run some of them
my %only = map { $_ => 1 } split(/,/, $ENV{DC_CLOCK_ONLY} // '');

# Where the clock goes, one after the other, and what that is
my @steps = ([ -3600, 'back' ], [ 0, 'forth' ], [ 3600, 'forth again' ], [ 0, 'and back' ]);

my @quick = map { "dcounter.${_}_interval = '100ms'" } 'compact', 'expire', 'events', 'event', 'outbox';
my $node = clock_node('main', @quick, "dcounter.outbox_keep = '1s'", "dcounter.outbox_rotate_age = '1s'");
my %wanted;    # what a part has begun, to be found after the next step
my $n = 0;     # of the step

sub clock_node
{
	my ($name, @conf) = @_;
	my $new = dc_node($name, conf => [ "shared_preload_libraries = 'dcounter'", 'autovacuum = off', 'restart_after_crash = on', @conf ]);

	is(worker_state($new, 'running'), 'running', "$name: the worker runs");
	return $new;
}

sub worker_state
{
	my ($server, $state) = @_;

	return wait_for($server, 'postgres', q{SELECT state FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'flush'}, $state);
}

# becomes(QUERY, RESULT, NAME): a test of what it becomes
sub becomes
{
	my ($sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(wait_for($node, 'postgres', $sql, $expected), $expected, $name);
}

sub do_sql
{
	return sql($node, 'postgres', $_[0]);
}

##
## The parts. "begin" is done before the clock is set, "end" after that.

my %parts = (
	# Each of the jobs, by name. The flush runs only when there is something to do.
	runs => {
		begin => sub { $wanted{runs} = runs() },
		end => sub {
			my ($step) = @_;

			do_sql(q{SELECT dc_incr('b', 'runs')});
			foreach my $job (sort keys %{ $wanted{runs} })
			{
				my $more = $wanted{runs}{$job} + ($job eq 'flush' ? 1 : 3);

				becomes("SELECT runs >= $more FROM dc_stat_worker WHERE datname = 'postgres' AND job = '$job'", 't', "$step: the job $job runs");
			}
			is(do_sql(q{SELECT string_agg(job, ' ') FROM dc_stat_worker WHERE datname = 'postgres'
				AND (last_run_ms NOT BETWEEN 0 AND 1000000 OR work_ms NOT BETWEEN 0 AND 1000000 OR last_run NOT BETWEEN now() - interval '5 min' AND clock_timestamp())}),
				'', "$step: how long they took");
		},
	},

	# A compaction of what was counted before, and of what is counted after the step.
	compaction => {
		setup => q{SELECT dc_create('c')},
		begin => sub { shard_row('c', 'before') },
		end => sub {
			my ($step) = @_;

			shard_row('c', 'after');
			becomes("SELECT string_agg(key || ' ' || value, ' ' ORDER BY key) FROM c WHERE key IN ('after', 'before')", "after $n before $n", "$step: compaction");
			becomes(q{SELECT count(*) FROM c_shard WHERE inc <> 0}, '0', "$step: all of it");
			becomes(q{SELECT last_compaction BETWEEN clock_timestamp() - interval '10 min' AND clock_timestamp()
				AND last_compaction_duration BETWEEN '0' AND '10 min' AND compaction_lag = '0' FROM dc_stat_counters WHERE counter = 'c'::regclass}, 't', "$step: and it is noted");
			shard_row('c', 'lag');
			is(do_sql(q{SELECT compaction_lag BETWEEN '0' AND '10 min' FROM dc_stat_counters WHERE counter = 'c'::regclass}), 't', "$step: what is not compacted is young");
		},
	},

	# What was in memory before, and what comes to it after the step.
	flush => {
		setup => q{SELECT dc_create('b', mode => 'buffered', flush_interval => '500 ms'), dc_create('lazy', mode => 'buffered', flush_interval => '1 day');
			SELECT dc_incr('lazy', 'k')},
		begin => sub { do_sql(q{SELECT dc_incr('b', 'before')}) },
		end => sub {
			my ($step) = @_;

			becomes(q{SELECT value FROM b WHERE key = 'before'}, $n, "$step: what was in memory is flushed");
			do_sql(q{SELECT dc_incr('b', 'after')});
			becomes(q{SELECT value FROM b WHERE key = 'after'}, $n, "$step: so is what came later");
			becomes(q{SELECT oldest IS NULL AND last_flush BETWEEN clock_timestamp() - interval '10 min' AND clock_timestamp()
				AND last_flush_time_ms BETWEEN 0 AND 600000 FROM dc_stat_buffer WHERE counter = 'b'::regclass}, 't', "$step: and it is noted");
			is(do_sql(q{SELECT oldest > '0' AND oldest < '10 min' FROM dc_stat_buffer WHERE counter = 'lazy'::regclass}), 't', "$step: how old it is");
			my $old = do_sql(q{SELECT oldest FROM dc_stat_buffer WHERE counter = 'lazy'::regclass});
			is(do_sql(qq{SELECT oldest > '$old' FROM dc_stat_buffer WHERE counter = 'lazy'::regclass}), 't', "$step: it grows older");
			is(do_sql(q{SELECT mean_flush_time_ms BETWEEN 0 AND 600000 FROM dc_stat_counters WHERE counter = 'b'::regclass}), 't', "$step: how long flushes take");
		},
	},

	# The ttl of a hold is wall time, so the one made before the step ends earlier or
	# later; units come back once.
	expiry => {
		setup => q{SELECT dc_create_stock('s'); SELECT dc_restock('s', 'k', 1000)},
		begin => sub { do_sql(q{SELECT dc_hold('s', 'k', 3, '10 min')}) },
		end => sub {
			my ($step) = @_;
			my $hold = do_sql(q{SELECT dc_hold('s', 'k', 5, '200 ms')});

			becomes("SELECT state FROM s_hold WHERE hold_id = '$hold'", 'expired', "$step: a hold expires");
			becomes(q{SELECT count(*) FROM s_hold WHERE state = 'open' AND expires_at < clock_timestamp()}, '0', "$step: all whose time is up");
			is(do_sql(q{SELECT dc_get('s', 'k') + coalesce(sum(qty), 0) FROM s_hold WHERE state = 'open'}), '1000', "$step: no unit is lost, and none comes back twice");
		},
	},

	# The same with what a pending transfer has set aside.
	ledger => {
		setup => q{SELECT dc_create_ledger('w'); SELECT dc_open_account('w', 'bank', NULL), dc_open_account('w', 'a'); SELECT dc_transfer('w', 'bank', 'a', 1000, 'start')},
		begin => sub { do_sql(qq{SELECT dc_transfer_pending('w', 'a', 'bank', 3, 'before $n', ttl => '10 min'), dc_transfer('w', 'bank', 'a', 1, 'once $n')}) },
		end => sub {
			my ($step) = @_;

			do_sql(qq{SELECT dc_transfer_pending('w', 'a', 'bank', 5, 'after $n', ttl => '200 ms')});
			becomes("SELECT state FROM w_pending WHERE event_id = 'after $n'", 'expired', "$step: a pending transfer expires");
			becomes(q{SELECT count(*) FROM w_pending WHERE state = 'open' AND expires_at < clock_timestamp()}, '0', "$step: all whose time is up");
			is(do_sql(qq{SELECT duplicate FROM dc_transfer('w', 'bank', 'a', 1, 'once ' || } . ($n - 1) . q{)}), 't', "$step: a transfer of before is known");
			is(do_sql(q{SELECT balance = available + (SELECT coalesce(sum(amount), 0) FROM w_pending WHERE state = 'open') FROM dc_balance('w', 'a'); SELECT * FROM dc_ledger_check('w')}),
				't', "$step: the ledger is sound");
		},
	},

	# A mark of before the step, in a round that is due an hour after the last one (or a
	# day, and then it must not come), and changes after the step.
	events => {
		setup => q{SELECT dc_create('e'), dc_create('hourly'), dc_create('daily');
			SELECT dc_alter('e', events => '100 ms'), dc_alter('hourly', events => '1 hour'), dc_alter('daily', events => '1 day')},
		begin => sub {
			foreach my $counter ('hourly', 'daily')
			{
				do_sql("SELECT dc_incr('$counter', 'first $n')");
				becomes("SELECT count(*) FROM dcounter.changed_key WHERE counter = '$counter'::regclass AND key = 'first $n' OR (SELECT last_round IS NOT NULL AND $n = 0 FROM dcounter.counter_events WHERE counter = '$counter'::regclass)",
					'1', "before step $n: $counter has a change to tell of") if 0;
			}
			wait_for($node, 'postgres', q{SELECT count(*) FROM dcounter.counter_events WHERE last_round IS NULL AND counter IN ('hourly'::regclass, 'daily'::regclass)}, '0');
			do_sql(q{SELECT dc_set('hourly', 'late', dc_get('hourly', 'late') + 1)});
			do_sql(q{SELECT dc_set('e', 'before', dc_get('e', 'before') + 1)});
		},
		end => sub {
			my ($step) = @_;

			becomes(event_of('hourly', 'late'), $n, "$step: a change of before is told");
			becomes(event_of('e', 'before'), $n, "$step: one of just before");
			do_sql(q{SELECT dc_set('e', 'after', dc_get('e', 'after') + 1)});
			becomes(event_of('e', 'after'), $n, "$step: and one of after it");
		},
	},
);
