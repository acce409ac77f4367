# The runner of make chaos: a server, rounds of random transactions with faults, and after
# each round the comparison of every room with its log (DcChaos/Mix.pm says what a room
# is). Nothing here waits without a limit: a hang is a failure.
package DcChaos;

use strict;
use warnings;

use DcChaos::Mix;
use DcClock;
use DcTest;
use File::Basename qw(dirname);
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $leftovers = q{FROM pg_index WHERE NOT indisvalid AND indexrelid::regclass::text ~ '_cc(new|old)'};

# How long a statement of the runner, the end of a client, and a job may take
my ($statement_limit, $client_limit, $idle_limit) = (60, 60, 20);

# new(SEED): a run with its server
sub new
{
	my ($class, $seed) = @_;
	my $self = bless { seed => $seed, rooms => [ rooms() ], round => 0, clients => [], crashes => [], what => [], jobs => 0, log => 0, seen => {}, offset => 0 }, $class;

	$self->{clock} = clock_prepare();
	$ENV{PGCONNECT_TIMEOUT} = 10;
	$self->{node} = dc_node('chaos', init => { allows_streaming => 'logical' }, conf => [
			"shared_preload_libraries = 'dcounter'", 'max_worker_processes = 20', "wal_retrieve_retry_interval = '100ms'", 'max_prepared_transactions = 50', 'restart_after_crash = on', 'deadlock_timeout = 100ms',
			'autovacuum_naptime = 1s', 'max_pred_locks_per_transaction = 256', 'max_locks_per_transaction = 256',
			"log_line_prefix = '%m [%p] %b: '", 'log_error_verbosity = verbose', 'log_checkpoints = off',
			"dcounter.compact_interval = '50ms'", "dcounter.expire_interval = '100ms'", "dcounter.events_interval = '50ms'", "dcounter.op_interval = '1s'", "dcounter.window_interval = '100ms'", "dcounter.distinct_interval = '100ms'",
			'dcounter.hold_retention = -1', "dcounter.outbox_interval = '200ms'", "dcounter.outbox_rotate_age = '2s'", "dcounter.outbox_rotate_size = '1MB'",
			"dcounter.outbox_keep = '1s'", "dcounter.cache_size = '64kB'", "dcounter.buffer_size = '128kB'" ]);
	$self->schema;
	return $self;
}

# schema: what all rooms need, and theirs
sub schema
{
	my ($self) = @_;

	# an error here ends the test
	sql($self->{node}, 'postgres', $_) foreach q{
		CREATE TABLE chaos_txn (client text, number int);
		CREATE TABLE chaos_ack (client text, number int, PRIMARY KEY (client, number));
		CREATE TABLE chaos_crash (at float8);
		CREATE TABLE chaos_final (n int);
		-- that a query which looks for differences returns none
		CREATE FUNCTION chaos_check(query text) RETURNS void LANGUAGE plpgsql AS $$
		DECLARE
			bad text;
		BEGIN
			EXECUTE format('SELECT string_agg(w, E''\n'') FROM (SELECT * FROM (%s) AS q(w) LIMIT 10) AS l', query) INTO bad;
			IF bad IS NOT NULL THEN
				RAISE SQLSTATE 'CHAOS' USING MESSAGE = 'wrong in a snapshot: ' || bad;
			END IF;
		END $$;
	}, map { $_->{schema} } @{ $self->{rooms} };
	return;
}

# ask(SQL): the lines of the answer. An error or a hang is a line, too.
sub ask
{
	my ($self, $sql) = @_;
	my ($out, $err) = ('', '');
	my $connstr = $self->{node}->connstr('postgres') . ' application_name=runner';
	my $done = eval {
		IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose', '-d', $connstr ],
			'<', \$sql, '>', \$out, '2>', \$err, IPC::Run::timeout($statement_limit));
		1;
	};

	return ("no answer within $statement_limit s: $sql", $self->waiters) if !$done;
	return grep { $_ ne '' } split(/\n/, $out), grep { /ERROR|FATAL|PANIC|psql: error|CONTEXT|DETAIL/ } split(/\n/, $err);
}

# one(SQL): its answer as one text, "" if the server is not there
sub one
{
	my ($self, $sql) = @_;

	return join("\n", grep { !/psql: error|FATAL/ } $self->ask($sql));
}

# waiters: the sessions that are waiting, for a message about a hang
sub waiters
{
	my ($self) = @_;
	my $out = '';

	eval {
		IPC::Run::run([ 'psql', '-XAtq', '-d', $self->{node}->connstr('postgres'), '-c', q{
			SELECT pid, backend_type, state, wait_event, clock_timestamp() - state_change, pg_blocking_pids(pid), left(query, 150) FROM pg_stat_activity
			WHERE state <> 'idle' OR backend_type ~ 'dcounter'} ], '<', \'', '>', \$out, '2>', \$out, IPC::Run::timeout(10));
	};
	return split(/\n/, $out);
}

# until_none(DO, QUERY, SECONDS): runs DO until the query returns no rows; its last result
sub until_none
{
	my ($self, $do, $query, $seconds) = @_;
	my $end = time + $seconds;
	my @left;

	do
	{
		my @done = $do ne '' ? errors($self->ask($do)) : ();

		return @done if @done && $done[0] !~ /ERROR:  (?:40001|40P01|55P03)/;
		@left = $self->ask($query);
		return () if !@left;
		sleep(0.05);
	} while (time < $end);
	return @left;
}

# uptime: seconds of a clock that is never set, as in the room "buffer"
sub uptime
{
	return (split ' ', slurp_file('/proc/uptime'))[0];
}

# note_fault(TEXT): for the message of a failure, and the name of the tests
sub note_fault
{
	my ($self, $text) = @_;

	push @{ $self->{what} }, $text;
	return;
}

##
## Clients

# start_client(ROLE): another one in the background
sub start_client
{
	my ($self, $role) = @_;
	my $name = "$self->{round}." . (1 + @{ $self->{clients} });
	my $stop = $self->{stop} //= PostgreSQL::Test::Utils::tempdir() . '/stop';
	my $out = PostgreSQL::Test::Utils::tempdir() . "/client $name";
	# the same name from round to round, as members of a consumer come back
	my $client = $role =~ /^(?:mix|check|signals|rewrites|alters|snapshot|maintenance)$/ ? $name : 1 + grep { $_->{role} eq $role } @{ $self->{clients} };
	# its clock is not the server's
	local $ENV{LD_PRELOAD} = '';
	my $job = start_command($^X, (map { ('-I', $_) } @INC), dirname(__FILE__) . '/../' . ($self->{program} // 'chaos/client.pl'), $self->{node}->connstr('postgres'), $role, $client, int(rand(2**31)), $stop, $out);

	push @{ $self->{clients} }, { role => $role, name => $name, out => $out, job => $job };
	return;
}

# stop_clients: waits for their end; their complaints
sub stop_clients
{
	my ($self) = @_;
	my $end = time + $client_limit;
	my @bad;

	append_to_file($self->{stop}, '');
	foreach my $client (@{ $self->{clients} })
	{
		my $run = $client->{job}{run};

		$run->reap_nb while $run->pumpable && time < $end && !sleep_a_little();
		if ($run->pumpable)
		{
			push @bad, "client $client->{name} ($client->{role}) does not end", $self->waiters;
			$run->kill_kill(grace => 2);
		}
		else
		{
			my $status = finish_job($client->{job});

			push @bad, "client $client->{name} ($client->{role}) failed: $client->{job}{err}" if $status != 0 || $client->{job}{err} ne '';
		}
		push @bad, $self->read_client($client);
	}
	unlink $self->{stop};
	return @bad;
}

sub sleep_a_little
{
	sleep(0.02);
	return 0;
}

# read_client(CLIENT): its complaints; what was acknowledged goes to a table if there was a
# crash
sub read_client
{
	my ($self, $client) = @_;
	my $text = -e $client->{out} ? slurp_file($client->{out}) : '';
	my @acked = $text =~ /^ack (\d+)$/mg;

	$self->{seen}{$1} += $2 while $text =~ /^seen (.*) (\d+)$/mg;
	$self->{acks} .= join('', map { "$client->{name}\t$_\n" } @acked);
	unlink $client->{out};
	return map { "client $client->{name} ($client->{role}): $_" } $text =~ /^((?:bad|hang) .*)$/mg;
}

##
## Rounds

# round(NAME, SUB, GREMLIN...): clients of all kinds, while the sub causes faults; then the
# comparison. Returns whether all is well.
sub round
{
	my ($self, $name, $fault, @gremlins) = @_;
	my @roles = map {
		my $roles = $_->{roles} // {};
		map { ($_) x $roles->{$_}{clients} } sort keys %$roles
	} @{ $self->{rooms} };

	$self->{round}++;
	$self->{clients} = [];
	$self->{what} = [ $name, map { "with $_" } @gremlins ];
	$self->{acks} = '';
	$self->{decide_all} = 0;
	$self->start_client($_) foreach ('mix') x 4, 'check', @roles, @gremlins;
	my @bad = eval { $fault->($self) };

	push @bad, "the fault failed: $@" if $@;
	push @bad, $self->stop_clients;
	return $self->compare(@bad);
}

# compare(COMPLAINTS): one test for each room, and one for what else was seen
sub compare
{
	my ($self, @bad) = @_;
	my $title = "round $self->{round} (" . join('; ', @{ $self->{what} }) . ')';
	my $good = 1;

	push @bad, $self->complaints_of_server;
	push @bad, $self->answers_again;
	push @bad, $self->acknowledged if @{ $self->{crashes} };
	$good &= $self->fine("$title: clients and server", @bad);
	foreach my $room (@{ $self->{rooms} })
	{
		my @differences = defined $room->{ready} ? $room->{ready}->($self) : ();

		push @differences, $self->ask($room->{wrong}) if defined $room->{wrong};
		$good &= $self->fine("$title: $room->{name} agrees with its log", @differences);
	}
	if (@{ $self->{crashes} } && $good)
	{
		# which would wait for what is prepared
		my @bad = ($self->decide('true'), map { my $settled = $_->{settled}; $settled ? errors($self->ask($settled)) : () } @{ $self->{rooms} });

		$good &= $self->fine("$title: what was lost is noted", @bad);
	}
	$self->ask('TRUNCATE chaos_crash, chaos_ack');
	$self->{crashes} = [];
	$good &= $self->idle($title) if $good;
	return $good;
}

# answers_again: restores everything that the faults took away
sub answers_again
{
	my ($self) = @_;
	my @bad = $self->until_none('', 'SELECT 1 WHERE pg_is_in_recovery()', 60);

	return 'the server does not answer: ' . join(' ', @bad) if @bad;
	push @bad, $self->decide($self->{decide_all} || chance(0.5) ? 'true' : "gid NOT LIKE 'left %' OR random() < 0.3");
	# what an interrupted REINDEX CONCURRENTLY has left
	if ($self->one("SELECT count(*) $leftovers") ne '0')
	{
		push @bad, $self->decide('true'),
		  errors($self->ask("SET lock_timeout = '20s'; SELECT format('DROP INDEX IF EXISTS %s', indexrelid::regclass) $leftovers \\gexec"));
	}
	push @bad, $self->ask('INSERT INTO chaos_crash VALUES ' . join(', ', map { "($_)" } @{ $self->{crashes} })) if @{ $self->{crashes} };
	return @bad;
}

# decide(WHICH): commits or rolls back prepared transactions
sub decide
{
	my ($self, $which) = @_;

	return errors($self->ask("SELECT format('%s PREPARED %L', CASE WHEN hashtext(gid) & 1 = 0 THEN 'COMMIT' ELSE 'ROLLBACK' END, gid) FROM pg_prepared_xacts WHERE $which \\gexec"));
}

# errors(LINES): those of ask() that are not answers
sub errors
{
	return grep { /ERROR|FATAL|PANIC|psql: error|no answer/ } @_;
}

# acknowledged: everything that was reported to clients as committed exists
sub acknowledged
{
	my ($self) = @_;

	return if $self->{acks} eq '';
	return $self->ask("COPY chaos_ack FROM stdin;\n$self->{acks}\\.\n"
		  . q{SELECT format('transaction %s %s was acknowledged, and is not there', client, number) FROM (TABLE chaos_ack EXCEPT TABLE chaos_txn) AS lost LIMIT 10});
}

# complaints_of_server: unexpected entries in its log since the last call
sub complaints_of_server
{
	my ($self) = @_;
	my $log = slurp_file($self->{node}->logfile, $self->{log});
	my @bad;

	$self->{log} += length $log;
	foreach (split /\n/, $log)
	{
		# about what an interrupted REINDEX CONCURRENTLY has left
		next if /cannot reindex invalid index/;
		push @bad, $_ if /PANIC:|TRAP:|AddressSanitizer|(?:ERROR|FATAL|WARNING):  XX\d{3}:/;
		if (/was terminated by signal (?!9:)/)
		{
			push @bad, $_;
			# what was lost by it is not to be reported as well
			push @{ $self->{crashes} }, 0;
		}
		# what it was doing
		push @bad, $_ if @bad && /DETAIL:  Failed process was running/;
		# a job that failed, for another reason than the faults: that of a step is a LOG
		push @bad, $_ if /dcounter \S+: (?:LOG|ERROR|FATAL|PANIC|WARNING):/ && !/:  (?:00000|40001|40P01|55P03|57014|57P0[123]):/;
	}
	return @bad > 10 ? @bad[ 0 .. 9 ] : @bad;
}

# idle(TITLE): jobs come to their end when nobody writes any more, unless rows are locked by
# prepared transactions
sub idle
{
	my ($self, $title) = @_;
	my $query = join(' UNION ALL ', map { "($_->{idle})" } grep { $_->{idle} } @{ $self->{rooms} });

	return 1 if $query eq '' || $self->one('SELECT count(*) FROM pg_prepared_xacts') ne '0';
	return $self->fine("$title: jobs have done their work", $self->until_none('', $query, $idle_limit));
}

# fine(NAME, DIFFERENCES): a test
sub fine
{
	my ($self, $name, @differences) = @_;

	return 1 if is(join("\n", @differences > 15 ? (@differences[ 0 .. 14 ], '...') : @differences), '', $name);
	# in one line beside the test: the end of the output may be all that is shown
	note("DC_SEED=$self->{seed}, wrong: " . substr(join('; ', @differences) =~ s/\s+/ /gr, 0, 250));
	return 0;
}

# finish: the last comparisons, when all transactions have ended
sub finish
{
	my ($self) = @_;

	$self->{round} = 'the last';
	$self->{what} = ['the end'];
	$self->forward;
	return 0 if !$self->compare($self->decide('true'));
	foreach my $room (grep { $_->{finish} } @{ $self->{rooms} })
	{
		return 0 if !$self->fine("at the end: $room->{name}", $room->{finish}->($self));
	}
	return 1;
}

# forward: sets the clock to the latest time so far, so that everything due by then is due
sub forward
{
	my ($self) = @_;

	$self->{latest} //= 0;
	clock_step($self->{offset} = $self->{latest}) if $self->{clock};
	return;
}

1;
