# Shared by the tests of buffered counters: servers with the worker, the parts of a counter in
# tables and in memory, clients that record the answers that they got, and readers that compare
# their results with the increments so far.
package DcBuffer;

use strict;
use warnings;

use DcTest;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(buffer_node worker_begins worker_runs state_is state_query in_tables soon flush no_memory stuck pgbench processed
  client_tables start_clients clients_ended counted bounds_wrong exactness read_loops);

# Long enough for anything that should happen by itself
my $limit = 60;

# buffer_node(NAME, CONF...): with preload; the worker of "postgres" is there
sub buffer_node
{
	my ($name, @conf) = @_;
	my $node = dc_node($name, init => { allows_streaming => 1 }, conf => [
			"shared_preload_libraries = 'dcounter'", 'autovacuum = off', 'restart_after_crash = on', @conf ]);

	worker_begins($node, 'postgres');
	return $node;
}

# worker_begins(NODE, DATABASE): waits until there is a worker where there is no counter table yet.
# An event gives it something to maintain.
sub worker_begins
{
	my ($node, $database) = @_;

	sql($node, $database, q{SELECT dc_publish('test', 'worker', 'begins', '{}')});
	worker_runs($node, $database);
	return;
}

# worker_runs(NODE, DATABASE): waits until it does
sub worker_runs
{
	my ($node, $database) = @_;

	die 'no worker' if wait_for($node, 'postgres', qq{
		SELECT state FROM dc_stat_worker WHERE datname = '$database' AND job = 'flush'}, 'running', $limit) ne 'running';
	return;
}

# soon(NODE, QUERY, RESULT, NAME): a test of what it becomes
sub soon
{
	my ($node, $sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(wait_for($node, 'postgres', $sql, $expected, $limit), $expected, $name);
}

# state_is(NODE, COUNTER, KEY, "VALUE TABLES", NAME): the value of a key, and how much
# of it the tables say, which is all but what is in memory
sub state_is
{
	my ($node, $counter, $key, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(sql($node, 'postgres', state_query($counter, $key)), $expected, $name);
}

sub state_query
{
	my ($counter, $key) = @_;

	return qq{
		SELECT dc_get('$counter', '$key') || ' ' || coalesce((SELECT value FROM $counter WHERE key = '$key'), 0)
			+ coalesce((SELECT sum(inc - dec) FROM ${counter}_shard WHERE key = '$key'), 0)};
}

# in_tables(NODE): creates a function of that name, which returns a counter's amount in its tables
sub in_tables
{
	my ($node) = @_;

	sql($node, 'postgres', q{
		CREATE FUNCTION in_tables(c text) RETURNS numeric LANGUAGE plpgsql AS $$
		DECLARE
			n numeric;
		BEGIN
			EXECUTE format('SELECT (SELECT coalesce(sum(inc - dec), 0) FROM %I) + (SELECT coalesce(sum(inc - dec), 0) FROM %I)', c, c || '_shard') INTO n;
			RETURN n;
		END $$;});
	return;
}

sub flush
{
	my ($node, $counter) = @_;

	sql($node, 'postgres', 'SELECT dc_flush(' . (defined $counter ? "'$counter'" : '') . ')');
	return;
}

# no_memory(NODE, NAME): all entries of the tables of "postgres" are freed, a test
sub no_memory
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return soon($node, 'SELECT coalesce(sum(keys), 0) FROM dc_stat_buffer', '0', $name);
}

# stuck(NODE, DATABASE, COUNTER, BOOL): whether the worker fails to flush a table, so that
# amounts stay in memory. Others may write its rows.
sub stuck
{
	my ($node, $database, $counter, $fails) = @_;

	sql($node, $database, q{
		CREATE OR REPLACE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF (SELECT backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid()) <> 'client backend' THEN
				RAISE 'not now';
			END IF;
			RETURN NEW;
		END $$;}) if $fails;
	sql($node, $database, join(';', map { $fails ? "CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON $_ FOR EACH ROW EXECUTE FUNCTION fails()" : "DROP TRIGGER fails ON $_" }
		  $counter, "${counter}_shard"));
	return;
}

# pgbench(NODE, OPTIONS...): in the background
sub pgbench
{
	my ($node, @options) = @_;

	return start_command('pgbench', '-n', '-j', 1, @options, $node->connstr('postgres'));
}

# processed(JOB): waits for its end; how many transactions it was told are committed
sub processed
{
	my ($job) = @_;

	finish_job($job);
	return $job->{out} =~ /transactions actually processed: (\d+)/ ? $1 : die "pgbench says: $job->{out} $job->{err}";
}

##
## Clients that were told. Each is a psql that runs a file of transactions one after the
## other and says "try N" before it ends one and "done N" after that, until it loses its
## connection or a row appears in the table "stop". What is taken by dc_reset() and
## dc_delete() is in the table "taken", and counts as if it were still there.

# client_tables(NODE): makes what they need
sub client_tables
{
	my ($node) = @_;

	sql($node, 'postgres', q{
		CREATE TABLE stop (); CREATE TABLE other (n int);
		CREATE TABLE taken (counter text, key text, n bigint);
		CREATE FUNCTION take(c regclass, k text) RETURNS void LANGUAGE sql AS $$
			INSERT INTO taken SELECT c, k, CASE WHEN random() < 0.8 THEN dc_reset(c, k) ELSE dc_delete(c, k) END
		$$;});
	return;
}

# transaction(CLIENT, NUMBER, COUNTERS): its SQL, and what it adds, by "counter key"
sub transaction
{
	my ($client, $number, @counters) = @_;
	my ($kind, $sql) = (int(rand(14)), "BEGIN;\n");
	my $counter = $counters[ rand @counters ];
	my ($try, $done) = ("\\echo try $number\n", "\\echo done $number\n");
	my %adds;
	my $add = sub {
		my ($counter, $key, $undone) = @_;
		my $n = 1 + int(rand(5));

		$adds{"$counter $key"} += $n if !$undone;
		$sql .= "SELECT dc_incr('$counter', '$key', $n);\n";
	};
	my $some = sub { $add->($counters[ rand @counters ], rand() < 0.3 ? 'hot' : rand() < 0.5 ? "client $client" : 'key ' . int(rand(50)), $_[0]) foreach 0 .. rand(4) };

	if ($kind == 0)
	{
		$some->();
		return "${sql}PREPARE TRANSACTION '$client-$number';\nROLLBACK PREPARED '$client-$number';\n", {} if rand() < 0.2;
		return "${sql}ROLLBACK;\n", {};
	}
	elsif ($kind == 1)
	{
		# counted by rows, so durable at once
		$add->($_, 'prepared') foreach grep { rand() < 0.5 } @counters;
		return "$sql${try}PREPARE TRANSACTION '$client-$number';\nCOMMIT PREPARED '$client-$number';\n$done", \%adds;
	}
	elsif ($kind == 2)
	{
		$some->();
		$sql .= "SAVEPOINT a;\n";
		$some->(1);
		$sql .= (rand() < 0.5 ? "SELECT take('$counter', 'reset');\n" : '') . "ROLLBACK TO a;\nSAVEPOINT b;\n";
		$some->();
		$sql .= "RELEASE b;\n";
	}
	elsif ($kind == 3)
	{
		$add->($counter, 'reset');
		$sql .= "SELECT take('$counter', 'reset');\n";
		$add->($counter, 'reset');
	}
	elsif ($kind < 6)
	{
		$add->($counter, 'reset');
	}
	elsif ($kind < 10)
	{
		$sql = $try;
		$add->($counter, rand() < 0.5 ? 'hot' : "client $client");
		return "$sql$done", \%adds;
	}
	else
	{
		$sql =~ s/;/ ISOLATION LEVEL REPEATABLE READ;/ if rand() < 0.3;
		$sql .= "INSERT INTO other VALUES (1);\n" if rand() < 0.3;
		$some->();
	}
	return "$sql${try}COMMIT;\n$done", \%adds;
}

# start_clients(NODE, ROUND, CLIENTS, COUNTER...)
sub start_clients
{
	my ($node, $round, $clients, @counters) = @_;
	my @jobs;

	foreach my $client (map { "$round.$_" } 1 .. $clients)
	{
		my (%adds, $script);

		foreach my $number (1 .. 4000)
		{
			(my $sql, $adds{$number}) = transaction($client, $number, @counters);
			$script .= $sql;
			$script .= "SELECT EXISTS (SELECT FROM stop) AS stop \\gset\n\\if :stop\n\\q\n\\endif\n" if $number % 5 == 0;
		}
		push @jobs, { %{ start_job($node, 'postgres', file_of("client $client.sql", $script)) }, client => $client, adds => \%adds };
	}
	return @jobs;
}

# clients_ended(LEAST, MOST, JOB...): waits for clients and adds up, by counter and key, the
# increments that are certainly committed into LEAST and those that may be into MOST; returns errors
sub clients_ended
{
	my ($least, $most, @jobs) = @_;
	my $bad = '';

	foreach my $job (@jobs)
	{
		finish_job($job);
		$bad .= "$job->{client}: $_\n" foreach grep { /ERROR|PANIC|WARNING/ && !/WARNING:  57P0[12]/ } split(/\n/, $job->{err});
		my %done = map { $_ => 1 } $job->{out} =~ /^done (\d+)$/mg;
		my %tried = map { $_ => 1 } $job->{out} =~ /^(?:try|done) (\d+)$/mg;
		my @open = grep { !$done{$_} } keys %tried;

		$bad .= "$job->{client} has more than one open end: @open\n" if @open > 1;
		foreach my $number (keys %tried)
		{
			my $adds = $job->{adds}{$number};

			foreach my $key (keys %$adds)
			{
				$least->{$key} += $adds->{$key} if $done{$number};
				$most->{$key} += $adds->{$key};
			}
		}
		$job->{done} = scalar keys %done;
	}
	return $bad;
}

# counted(NODE, NAME...): what has been counted, by "counter key"
sub counted
{
	my ($node, @names) = @_;
	my %keys;
	my %values;

	foreach (@names)
	{
		my ($counter, $key) = /^(\S+) (.*)$/;

		push @{ $keys{$counter} }, "'$key'";
	}
	foreach my $counter (keys %keys)
	{
		my $array = join(', ', @{ $keys{$counter} });

		# in this order, so that it is never too much
		my $out = sql($node, 'postgres', qq{
			CREATE TEMP TABLE before AS SELECT key, sum(n) AS n FROM taken WHERE counter = '$counter' GROUP BY key;
			SELECT '$counter ' || key, value + coalesce(n, 0) FROM dc_get_many('$counter', ARRAY[$array]) LEFT JOIN before USING (key)});

		$values{$1} = $2 while $out =~ /^(.*)\|(.*)$/mg;
	}
	return %values;
}

# bounds_wrong(NODE, LEAST, MOST): the keys whose value is not between these. Afterwards both are
# set to the counted values: from then on nothing is unknown.
sub bounds_wrong
{
	my ($node, $least, $most) = @_;
	my %got = counted($node, keys %$most);
	my $bad = '';

	foreach my $name (sort keys %$most)
	{
		my $from = $least->{$name} // 0;

		$bad .= "$name: $got{$name} instead of $from to $most->{$name}\n" if $got{$name} < $from || $got{$name} > $most->{$name};
	}
	%$least = %$most = %got;
	return $bad;
}

##
## Readers. Each increment of 1 is announced before by a number of the sequence "tried"
## and acknowledged after its commit by one of "told". What dc_reset() has taken, and
## committed, is in the table "taken". So the value and what was taken are together between
## these two at any moment.

my $schema = q{
	CREATE SEQUENCE tried; CREATE SEQUENCE told;
	CREATE TABLE taken (n bigint);
	INSERT INTO taken VALUES (0);
	CREATE TABLE many AS SELECT i FROM generate_series(1, 3000) AS i;

	CREATE FUNCTION read_key(how text, c regclass, k text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
	BEGIN
		RETURN CASE how WHEN 'dc_get' THEN dc_get(c, k)
			WHEN 'dc_get_many' THEN (SELECT value FROM dc_get_many(c, ARRAY['none', k]) WHERE key = k)
			WHEN 'dc_info' THEN (SELECT value FROM dc_info(c, k))
			WHEN 'dc_sum' THEN dc_sum(c) END;
	END $$;

	-- Reads a key and looks whether that can be; the reads of a loop are one transaction
	-- or one each
	CREATE PROCEDURE check_reads(how text, n int, each bool, c regclass, k text) LANGUAGE plpgsql AS $$
	DECLARE
		least bigint := 0; before bigint; taken_before bigint; taken_after bigint; value bigint; most bigint;
	BEGIN
		FOR i IN 1 .. n LOOP
			SELECT last_value - 1 + is_called::int INTO before FROM told;
			SELECT sum(t.n) INTO taken_before FROM taken AS t;
			value := read_key(how, c, k);
			SELECT sum(t.n) INTO taken_after FROM taken AS t;
			SELECT last_value - 1 + is_called::int INTO most FROM tried;
			IF value + taken_before > most OR value + taken_after < greatest(before, least) THEN
				RAISE '%: value %, taken % to %, counted % (before: %) to %', how, value, taken_before, taken_after, before, least, most;
			END IF;
			least := greatest(least, value + taken_before);
			IF each THEN
				COMMIT;
			END IF;
		END LOOP;
	END $$;
};

# exactness(NODE): makes what readers need
sub exactness
{
	my ($node) = @_;

	sql($node, 'postgres', $schema);
	return;
}

# read_loops(NODE, COUNTER, KEY, N, LEVELS, HOW...): readers in the background. In
# REPEATABLE READ "taken" is as of the start, so only if nobody takes.
my $readers = 0;

sub read_loops
{
	my ($node, $counter, $key, $n, $levels, @how) = @_;
	my @jobs;

	foreach my $how (@how)
	{
		foreach my $level (@$levels)
		{
			my ($isolation, $each) = $level =~ /^(.*?)(, each)?$/;

			push @jobs, start_job($node, 'postgres', file_of('reader' . ++$readers . '.sql',
					"SET default_transaction_isolation = '$isolation';\nCALL check_reads('$how', $n, " . ($each ? 'true' : 'false') . ", '$counter', '$key');\n"));
		}
	}
	return @jobs;
}

1;
