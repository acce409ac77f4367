# The wall clock of the server is set back by an hour, and forward again, while everything is at
# work. Each job of the worker continues within its interval, increments in memory reach the tables,
# waits end when they should, nothing is lost and nothing counted twice.
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

plan skip_all => 'a clock that can be set needs Linux, a compiler, and a server without AddressSanitizer' if !clock_prepare();

# Where the clock goes, one after the other
my @steps = ([ -3600, 'back' ], [ 0, 'forth' ], [ 3600, 'forth again' ], [ 0, 'and back' ]);
my $n = 0;    # how many there were

my @quick = map { "dcounter.${_}_interval = '100ms'" } 'compact', 'expire', 'events', 'op', 'outbox', 'presence';
my $node = clock_node('main', @quick, "wal_level = logical", "dcounter.region_beat_interval = '100ms'", "dcounter.outbox_keep = '1s'", "dcounter.outbox_rotate_age = '1s'", 'max_worker_processes = 20');
my $other = clock_node('other', "dcounter.outbox_interval = '1d'");
my $hanging = clock_node('hanging', map { "dcounter.${_}_interval = '1d'" } 'compact', 'expire', 'events', 'op', 'outbox');

sub clock_node
{
	my ($name, @conf) = @_;
	my $new = dc_node($name, conf => [ "shared_preload_libraries = 'dcounter'", 'autovacuum = off', @conf ]);

	sql($new, 'postgres', q{SELECT dc_create('looked_after')});
	worker_runs($new, "$name: the worker runs");
	# jobs that have never run are due, though all intervals are longer than the age of the clock
	is(wait_for($new, 'postgres', q{SELECT count(*) FROM dc_stat_worker WHERE datname = 'postgres' AND job <> 'flush' AND runs = 0}, '0'), '0', "$name: each job has run");
	return $new;
}

sub worker_runs
{
	my ($server, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(wait_for($server, 'postgres', state_of_worker(), 'running'), 'running', $name);
}

sub state_of_worker
{
	return q{SELECT state FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'flush'};
}

sub do_sql
{
	return sql($node, 'postgres', $_[0]);
}

# so that there are beats
do_sql(q{SELECT dc_region_init('eu')});

# becomes(QUERY, RESULT, NAME): a test of what it becomes
sub becomes
{
	my ($sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(wait_for($node, 'postgres', $sql, $expected), $expected, $name);
}

# is_answered(SESSION, NAME): a test whether it has its answer soon, which is returned
sub is_answered
{
	my ($session, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $end = time + 60;

	sleep(0.05) until $session->answered || time > $end;
	return ok($session->answered, $name) ? $session->wait : '';
}

##
## What is tested. Each part has a "setup", a "before" that is done before each step of
## the clock, and an "after".

my %part;
my %kept;    # of a part, from before to after

# All jobs. The flush runs only when there is something to do.
$part{runs} = {
	before => sub {
		$kept{runs} = { map { split /\|/ } split /\n/, do_sql(q{SELECT job, runs FROM dc_stat_worker WHERE datname = 'postgres'}) };
	},
	after => sub {
		my ($step) = @_;

		do_sql(q{SELECT dc_incr('b', 'runs')});
		foreach my $job (sort keys %{ $kept{runs} })
		{
			my $runs = $kept{runs}{$job} + ($job eq 'flush' ? 1 : 3);

			becomes("SELECT runs >= $runs FROM dc_stat_worker WHERE datname = 'postgres' AND job = '$job'", 't', "$step: the job $job runs");
		}
		becomes(q{SELECT string_agg(job, ' ') FROM dc_stat_worker WHERE datname = 'postgres' AND (last_run_ms NOT BETWEEN 0 AND 600000
			OR work_ms NOT BETWEEN 0 AND 600000 OR last_run NOT BETWEEN clock_timestamp() - interval '50 min' AND clock_timestamp())}, '', "$step: when, and for how long");
	} };

# What was counted before, and what is counted then
$part{compaction} = {
	setup => q{SELECT dc_create('c'), dc_create('idle')},
	before => sub { do_sql(q{SELECT dc_incr('c', 'before')}) },
	after => sub {
		my ($step) = @_;

		do_sql(q{SELECT dc_incr('c', 'after')});
		becomes(q{SELECT string_agg(key || ' ' || value, ', ' ORDER BY key) FROM c WHERE key IN ('after', 'before')}, "after $n, before $n", "$step: compaction");
		becomes(q{SELECT last_compaction BETWEEN clock_timestamp() - interval '10 min' AND clock_timestamp() AND last_compaction_duration BETWEEN '0' AND '10 min'
			AND compaction_lag = '0' FROM dc_stat_counters WHERE counter = 'c'::regclass}, 't', "$step: it is noted");
		is(do_sql(q{BEGIN; SELECT dc_incr('c', 'lag'); SELECT dc_apply(); SELECT compaction_lag BETWEEN '0' AND '10 min' FROM dc_stat_shards WHERE counter = 'c'::regclass; ROLLBACK}) =~ s/\n//gr,
			't', "$step: what is not compacted yet is young");
		becomes(q{SELECT writes_per_second > 0 FROM dc_stat_counters WHERE counter = 'c'::regclass}, 't', "$step: increments are counted");
	} };

# What was in memory before, and what comes to it then
$part{flush} = {
	setup => q{SELECT dc_create('b', mode => 'buffered', flush_interval => '500 ms'), dc_create('lazy', mode => 'buffered', flush_interval => '1 day'); SELECT dc_incr('lazy', 'k')},
	before => sub { do_sql(q{SELECT dc_incr('b', 'before')}) },
	after => sub {
		my ($step) = @_;
		my $oldest = do_sql(q{SELECT oldest FROM dc_stat_buffer WHERE counter = 'lazy'::regclass});

		becomes(q{SELECT value FROM b WHERE key = 'before'}, $n, "$step: what was in memory is flushed");
		do_sql(q{SELECT dc_incr('b', 'after')});
		becomes(q{SELECT value FROM b WHERE key = 'after'}, $n, "$step: so is what comes then");
		becomes(q{SELECT oldest IS NULL AND last_flush BETWEEN clock_timestamp() - interval '10 min' AND clock_timestamp() AND last_flush_time_ms BETWEEN 0 AND 600000
			FROM dc_stat_buffer WHERE counter = 'b'::regclass}, 't', "$step: it is noted");
		is(do_sql(q{SELECT mean_flush_time_ms BETWEEN 0 AND 600000 FROM dc_stat_counters WHERE counter = 'b'::regclass}), 't', "$step: and how long it takes");
		is(do_sql(qq{SELECT '$oldest' BETWEEN interval '1 us' AND '50 min', oldest > '$oldest' AND oldest < '50 min' FROM dc_stat_buffer WHERE counter = 'lazy'::regclass}),
			't|t', "$step: how old the rest is");
	} };

# The ttl of a hold is wall time
$part{expiry} = {
	setup => q{SELECT dc_stock_create('s'); SELECT dc_restock('s', 'k', 1000)},
	before => sub { do_sql(q{SELECT dc_hold('s', 'k', 3, '10 min')}) },
	after => sub {
		my ($step) = @_;
		my $hold = do_sql(q{SELECT dc_hold('s', 'k', 5, '200 ms')});

		becomes("SELECT state FROM s_hold WHERE hold_id = '$hold'", 'expired', "$step: a hold expires");
		becomes(q{SELECT count(*) FROM s_hold WHERE state = 'open' AND expires_at < clock_timestamp()}, '0', "$step: all whose time is up");
		is(do_sql(q{SELECT dc_get('s', 'k') + coalesce(sum(qty), 0) FROM s_hold WHERE state = 'open' AND expires_at > statement_timestamp()}), '1000', "$step: no unit is lost, or comes back twice");
	} };

# So is that of a pending transfer
$part{ledger} = {
	setup => q{SELECT dc_ledger_create('w'); SELECT dc_account_open('w', 'bank', NULL), dc_account_open('w', 'a'); SELECT dc_transfer('w', 'bank', 'a', 1000, 'start')},
	before => sub { do_sql(qq{SELECT dc_transfer_pending('w', 'a', 'bank', 3, 'before $n', ttl => '10 min')}) },
	after => sub {
		my ($step) = @_;

		do_sql(qq{SELECT dc_transfer_pending('w', 'a', 'bank', 5, 'after $n', ttl => '200 ms')});
		becomes("SELECT state FROM w_pending WHERE op_id = 'after $n'", 'expired', "$step: a pending transfer expires");
		becomes(q{SELECT count(*) FROM w_pending WHERE state = 'open' AND expires_at < clock_timestamp()}, '0', "$step: all whose time is up");
		is(do_sql(q{SELECT balance = available + (SELECT coalesce(sum(amount), 0) FROM w_pending WHERE state = 'open' AND expires_at > statement_timestamp()), (SELECT count(*) FROM dc_ledger_check('w')) FROM dc_balance('w', 'a')}),
			't|0', "$step: the ledger is sound");
	} };

# Changes that were to be reported an hour later; just before; and then. The consumer
# "keeper" acknowledges nothing, so the events stay.
$part{events} = {
	setup => q{SELECT dc_create('e'), dc_create('hourly'); SELECT dc_alter('e', events => '100 ms'), dc_alter('hourly', events => '1 hour');
		SELECT dc_set('hourly', 'first', 1)},
	before => sub {
		becomes(q{SELECT last_round IS NOT NULL FROM dcounter.counter_events WHERE counter = 'hourly'::regclass}, 't', 'there was a round') if $n == 0;
		do_sql(q{SELECT dc_set('hourly', 'late', dc_get('hourly', 'late') + 1), dc_set('e', 'before', dc_get('e', 'before') + 1)});
		# a compaction makes a mark, too
		becomes(q{SELECT (SELECT count(*) FROM hourly_shard WHERE inc <> dec) + (SELECT count(*) FROM e_shard WHERE inc <> dec)}, '0', "before step $n: all is compacted");
	},
	after => sub {
		my ($step) = @_;
		my $told = sub { "SELECT payload ->> 'value' FROM dcounter.outbox WHERE aggregatetype = '$_[0]' AND payload ->> 'key' = '$_[1]' ORDER BY seq DESC LIMIT 1" };

		becomes($told->('hourly', 'late'), $n, "$step: what had to wait is told");
		becomes($told->('e', 'before'), $n, "$step: and what had not");
		do_sql(q{SELECT dc_set('e', 'after', dc_get('e', 'after') + 1)});
		becomes($told->('e', 'after'), $n, "$step: and what comes then");
	} };

# The ring turns, and what nobody needs goes
$part{outbox} = {
	before => sub { $kept{seq} = do_sql(q{SELECT dc_publish('t', 'k', 'x', '{}'); SELECT max(seq) FROM dcounter.outbox}) =~ s/.*\n//sr },
	after => sub {
		my ($step) = @_;

		do_sql(q{SELECT dc_seek('keeper', 'now')});
		becomes("SELECT count(*) FROM dcounter.outbox WHERE seq <= $kept{seq}", '0', "$step: the outbox is emptied");
	} };

# A partition of ops that was open for long; ids with time, and others
$part{ledger_ops} = {
	setup => q{SELECT dc_create('o', op_retention => '1 day');
		CREATE FUNCTION made_now() RETURNS text LANGUAGE sql AS $$
			SELECT format('%s-%s-7000-8000-%s', left(h, 8), right(h, 4), left(md5(random()::text), 12))
			FROM lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') AS h $$},
	before => sub {
		$kept{id} = do_sql('SELECT made_now()');
		is(do_sql("SELECT dc_incr_once('o', 'k', 1, '$kept{id}'), dc_incr_once('o', 'k', 1, 'id $n')"), 't|t', "before step $n: ops");
		$kept{open} = do_sql(q{SELECT slot FROM dcounter.op_slot WHERE counter = 'o'::regclass AND state = 'open'});
	},
	after => sub {
		my ($step) = @_;
		my $before = $n - 1;
		my $again = "SELECT dc_incr_once('o', 'k', 1, '$kept{id}'), dc_incr_once('o', 'k', 1, 'id $before')";

		is(do_sql($again), 'f|f', "$step: none of them is applied twice");
		do_sql(q{UPDATE dcounter.op_slot SET since = clock_timestamp() - interval '1 day' WHERE counter = 'o'::regclass AND state = 'open'});
		becomes(qq{SELECT count(*) FROM dcounter.op_slot WHERE counter = 'o'::regclass AND state = 'open' AND slot <> $kept{open}}, '1', "$step: the ring of ops turns");
		is(do_sql("$again; SELECT dc_get('o', 'k')"), "f|f\n" . 2 * $n, "$step: nor is any then");
		do_sql(q{UPDATE dcounter.op_slot SET closed_at = clock_timestamp() - interval '2 days' WHERE counter = 'o'::regclass AND state = 'closed'});
		becomes(q{SELECT count(*) FROM dcounter.op_slot WHERE counter = 'o'::regclass AND state = 'empty'}, '3', "$step: and is emptied");
	} };

# A worker that could not start is to be tried again
$part{launcher} = {
	setup => sub { sql($other, 'postgres', 'CREATE ROLE no_login') },
	before => sub {
		set_role('no_login');
		sql($other, 'postgres', q{SELECT pg_terminate_backend(pid) FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'flush'});
		is(wait_for($other, 'postgres', state_of_worker(), 'waiting to restart'), 'waiting to restart', "before step $n: the worker has to wait");
	},
	after => sub {
		set_role('');
		worker_runs($other, "$_[0]: the launcher starts a worker");
	} };

sub set_role
{
	sql($other, 'postgres', "ALTER SYSTEM SET dcounter.worker_role = '$_[0]'");
	$other->reload;
	return;
}

# How old values in the cache are. A transaction on another server began before.
$part{cache} = {
	setup => sub {
		my ($host, $port) = ($node->host, $node->port);

		do_sql(q{CREATE DATABASE far});
		sql($node, 'far', q{CREATE EXTENSION dcounter; SELECT dc_create('f'); SELECT dc_incr('f', 'k')});
		do_sql(qq{CREATE EXTENSION postgres_fdw; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'far');
			CREATE USER MAPPING FOR CURRENT_USER SERVER far;
			CREATE TABLE f (key text COLLATE "C" NOT NULL, inc bigint NOT NULL DEFAULT 0, dec bigint NOT NULL DEFAULT 0,
				value bigint GENERATED ALWAYS AS (inc - dec) STORED, updated_at timestamptz NOT NULL DEFAULT now()) PARTITION BY HASH (key);
			CREATE TABLE f_shard (key text COLLATE "C" NOT NULL, shard int NOT NULL, inc bigint NOT NULL DEFAULT 0, dec bigint NOT NULL DEFAULT 0,
				updated_at timestamptz NOT NULL DEFAULT now()) PARTITION BY HASH (key);
			CREATE FOREIGN TABLE f_p PARTITION OF f FOR VALUES WITH (MODULUS 1, REMAINDER 0) SERVER far OPTIONS (table_name 'f');
			CREATE FOREIGN TABLE f_shard_p PARTITION OF f_shard FOR VALUES WITH (MODULUS 1, REMAINDER 0) SERVER far OPTIONS (table_name 'f_shard');
			SELECT dc_adopt('f')});
		do_sql(q{SELECT dc_create('cached')});
	},
	before => sub {
		is(do_sql(q{SELECT dc_get('cached', 'k', '0')}), $n, "before step $n: a value is computed");
		$kept{far} = dc_session($node, 'postgres');
		is($kept{far}->run(q{BEGIN; SELECT dc_get('f', 'k')}), $n + 1, "before step $n: a transaction sees another server");
		sql($node, 'far', q{SELECT dc_incr('f', 'k')});
	},
	after => sub {
		my ($step) = @_;

		do_sql(q{SELECT dc_incr('cached', 'k')});
		is(do_sql(q{SELECT dc_get('cached', 'k', '1 hour'), cache_age BETWEEN '0' AND '50 min' FROM dc_info('cached', 'k')}), $n - 1 . '|t', "$step: a value is as old as it is");
		is(do_sql(q{SELECT pg_sleep(0.05); SELECT dc_get('cached', 'k', '49 ms')}), "\n$n", "$step: it is computed if it is too old");
		sleep(2);
		is($kept{far}->run(q{SELECT dc_get('f', 'k', '10 ms')}), $n, "$step: the transaction sees what it saw");
		is(do_sql(q{SELECT dc_get('f', 'k', '2 s')}), $n + 1, "$step: that is older than others ask for");
		$kept{far}->quit;
	} };

# Two readers of the outbox: one waits for seconds, without success, the other for an hour
$part{wait} = {
	setup => q{SELECT dc_consumer_create('short', '{short}'), dc_consumer_create('long', '{long}')},
	before => sub {
		$kept{$_} = dc_session($node, 'postgres') foreach 'short', 'long';
		$kept{short}->send(q{SELECT count(*) FROM dc_fetch('short', wait => '10 s')});
		$kept{long}->send(q{SELECT dc_ack('long', max(seq)), count(*) FROM dc_fetch('long', wait => '30 min')});
		becomes(qq{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%dc_fetch(''$_''%'}, '1', "before step $n: a reader waits") foreach 'short', 'long';
	},
	after => sub {
		my ($step) = @_;

		ok(!$kept{long}->answered, "$step: who waits for long goes on");
		do_sql(q{SELECT dc_publish('long', 'k', 'x', '{}')});
		is(is_answered($kept{long}, "$step: until there is something"), '|1', "$step: an event");
		is(is_answered($kept{short}, "$step: who waits for short comes back"), '0', "$step: with nothing");
		$kept{$_}->quit foreach 'short', 'long';
	} };

# A member that is gone, with a lease. Another member takes over without a worker (whose
# job is a day away on the one server); other roles have to wait for that job.
$part{lease} = {
	before => sub {
		foreach my $server ($node, $other)
		{
			sql($server, 'postgres', qq{SELECT dc_consumer_create('team $n', '{team}'); SELECT dc_consumer_alter('team $n', lease => '3 s');
				SELECT dc_publish('team', 'k' || i, 'x', '{}') FROM generate_series(1, 10) AS i});
			is(sql($server, 'postgres', qq{SELECT count(*) FROM dc_fetch('team $n', member => 'gone')}), '10', "before step $n: a member fetches");
		}
	},
	after => sub {
		my ($step) = @_;
		my $team = 'team ' . ($n - 1);

		is(wait_for($other, 'postgres', "SELECT count(*) FROM dc_fetch('$team', member => 'heir')", '10'), '10', "$step: another member takes over");
		is(wait_for($node, 'postgres', "SELECT count(*) FROM dc_fetch('$team')", '10'), '10', "$step: who is no member does, too");
		foreach my $member ([ $other, q{'heir'} ], [ $node, 'NULL' ])
		{
			is(sql($member->[0], 'postgres', "SELECT dc_ack('$team', max(seq), $member->[1]) FROM dcounter.outbox WHERE aggregatetype = 'team'; SELECT count(*) FROM dc_fetch('$team', member => $member->[1])"),
				"\n0", "$step: and is done");
			sql($member->[0], 'postgres', "SELECT dc_consumer_drop('$team')");
		}
	} };

# A key that was sold out, of which units come in a way that opens no gate. The last
# thing to be done before the clock is set: a mark lasts a second.
$part{gate} = {
	setup => q{SELECT dc_stock_create('g'); SELECT dc_restock('g', 'k', 1); SELECT dc_take('g', 'k')},
	before => sub { is(do_sql(q{SELECT dc_take('g', 'k')}), 'f', "before step $n: sold out") },
	after => sub {
		do_sql("INSERT INTO g_shard (key, shard, inc, units) VALUES ('k', 1000 + $n, 1, 1)");
		becomes(q{SELECT dc_take('g', 'k')}, 't', "$_[0]: the gate opens");
	} };

##
## A step of a job that hangs while the clock is set back: its time-out would come an
## hour late. The launcher looks once a minute, or when there is DDL on databases.

sub hang_begin
{
	sql($hanging, 'postgres', q{
		CREATE TABLE hang (); INSERT INTO hang DEFAULT VALUES;
		CREATE FUNCTION hangs() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF EXISTS (SELECT FROM public.hang) AND (SELECT backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid()) <> 'client backend' THEN
				PERFORM pg_sleep(3600);
			END IF;
			RETURN NEW;
		END $$;
		SELECT dc_create('h', mode => 'buffered', flush_interval => '10 ms');
		CREATE TRIGGER hangs BEFORE INSERT OR UPDATE ON h FOR EACH ROW EXECUTE FUNCTION hangs();
		CREATE TRIGGER hangs BEFORE INSERT OR UPDATE ON h_shard FOR EACH ROW EXECUTE FUNCTION hangs();
		SELECT dc_incr('h', 'k', 7)});
	is(wait_for($hanging, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND wait_event = 'PgSleep'}, '1'), '1', 'a flush hangs');
	sql($hanging, 'postgres', 'DELETE FROM hang');
	return;
}

sub hang_end
{
	my $end = time + 180;
	my $value;

	until (($value = sql($hanging, 'postgres', q{ALTER DATABASE postgres CONNECTION LIMIT -1; SELECT value FROM h WHERE key = 'k'})) || time > $end)
	{
		sleep(0.5);
	}
	is($value, '7', 'it is ended, and done again');
	like(slurp_file($hanging->logfile), qr/terminating the dcounter worker of database \d+: one of its steps hangs/, 'by the launcher');
	return;
}

##
## What was counted is durable within the interval.

sub test_crash
{
	my $flushed = q{SELECT oldest IS NULL FROM dc_stat_buffer WHERE counter = 'b'::regclass};

	foreach my $step (-3600, 0)
	{
		do_sql(q{SELECT dc_incr('b', 'crash', 1)});
		clock_step($step);
		do_sql(q{SELECT dc_incr('b', 'crash', 2)});
		becomes($flushed, 't', "a crash after a step to $step: when all is flushed");
		my $value = do_sql(q{SELECT dc_get('b', 'crash')});
		$node->stop('immediate');
		$node->start;
		is(do_sql(q{SELECT dc_get('b', 'crash')}), $value, "a crash after a step to $step: nothing is lost");
		worker_runs($node, "a crash after a step to $step: the worker is back");
	}
	is(do_sql(q{SELECT dc_get('b', 'crash')}), '6', 'each increment counts once');
	return;
}

##
# In the order in which they are checked; DC_CLOCK_ONLY="part ..." runs some of them
my @parts = qw(wait lease cache gate launcher runs compaction flush expiry ledger events ledger_ops outbox);
my $some = $ENV{DC_CLOCK_ONLY} // "@parts hang crash";

@parts = grep { " $some " =~ / $_ / } @parts;
do_sql("$part{flush}{setup}; SELECT dc_consumer_create('keeper')");
foreach my $part (map { $part{$_} } grep { $_ ne 'flush' } @parts)
{
	ref $part->{setup} ? $part->{setup}->() : do_sql($part->{setup}) if $part->{setup};
}
foreach (@steps)
{
	my ($seconds, $step) = @$_;

	$part{$_}{before}->() foreach grep { $_ ne 'gate' } @parts;
	hang_begin() if $n == 0 && $some =~ /hang/;
	$part{$_}{before}->() foreach grep { $_ eq 'gate' } @parts;
	clock_step($seconds);
	$n++;
	$part{$_}{after}->($step) foreach @parts;
	hang_end() if $n == 1 && $some =~ /hang/;
}
test_crash() if $some =~ /crash/;
unlike(slurp_file($_->logfile), qr/PANIC|terminated by signal/, 'nothing has crashed: ' . $_->name) foreach $node, $other, $hanging;
done_testing();
