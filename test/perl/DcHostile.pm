# The runner of make owners: mallory, a role that has rights only on its own schema, alters tables
# of all rooms while they are used, and puts code on them that does the same. In each round users,
# owners and the worker are at work; then the clients stop, its attacks stay in place, and the
# server is checked:
#
#   - it has neither crashed nor failed an assertion, nor reported an error of memory
#   - no internal error (XX000) but in a session of mallory's own
#   - none of its code has run as anybody else, or could do what it may not
#   - what users did with alice's tables is there, exactly
#   - her tables are compacted, flushed and expired, and listeners of her presences told, in time
#   - her counter that another region counts in as well is the same in both
#   - statistics answer in time
#   - the server stops in time, and after that start what was in memory is there
#
# Rounds, clients and time limits are those of make chaos (DcChaos.pm).
package DcHostile;

use strict;
use warnings;

use parent 'DcChaos';
use DcChaos::Mix;
use DcHostile::Code;
use DcHostile::Rooms;
use DcTest;
use IO::Socket::INET;
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# How long jobs, statistics and a stop may take at the end of a round
my $slow = sanitized() ? 4 : 1;
my ($idle_limit, $stat_limit, $stop_limit) = (20 * $slow, 5 * $slow, 20 * $slow);

# new(SEED): a run with its server
sub new
{
	my ($class, $seed) = @_;
	my $self = bless { seed => $seed, program => 'hostile/client.pl', round => 0, clients => [], crashes => [], what => [], log => 0, seen => {}, allowed => {}, acks => '', offset => 0, order => [] }, $class;

	$ENV{PGCONNECT_TIMEOUT} = 10;
	# a server that does not answer: connections are only accepted by the kernel
	$self->{silent} = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1') or die "listen: $!";
	$self->{node} = dc_node('owners', init => { allows_streaming => 'logical' }, conf => [
			"shared_preload_libraries = 'dcounter'", 'max_worker_processes = 20', "wal_retrieve_retry_interval = '100ms'", 'restart_after_crash = on', 'deadlock_timeout = 100ms', 'autovacuum_naptime = 1s', 'max_locks_per_transaction = 256', 'allow_in_place_tablespaces = on',
			"log_line_prefix = '%m [%p] %b %u: '", 'log_error_verbosity = verbose', 'log_checkpoints = off', 'log_parameter_max_length_on_error = 0',
			"dcounter.compact_interval = '50ms'", "dcounter.expire_interval = '50ms'", "dcounter.events_interval = '50ms'", "dcounter.op_interval = '1s'", "dcounter.window_interval = '50ms'", "dcounter.distinct_interval = '50ms'", 'dcounter.worker_load = 80',
			"dcounter.outbox_interval = '200ms'", "dcounter.cache_size = '256kB'", "dcounter.buffer_size = '512kB'" ]);
	$self->schema;
	return $self;
}

# schema: roles, mallory's and alice's tables, and all of its code
sub schema
{
	my ($self) = @_;
	my $node = $self->{node};
	my $port = $self->{silent}->sockport;

	sql($node, 'postgres', $_) foreach "CREATE TABLESPACE elsewhere LOCATION ''", qq{
		CREATE ROLE mallory LOGIN;
		CREATE ROLE moll LOGIN;
		CREATE ROLE alice LOGIN;
		CREATE ROLE carol LOGIN;
		CREATE ROLE mona LOGIN;
		GRANT moll TO mallory;
		GRANT pg_monitor TO mona;
		GRANT CREATE ON TABLESPACE elsewhere TO mallory;
		CREATE SCHEMA m AUTHORIZATION mallory;
		CREATE SCHEMA m2 AUTHORIZATION mallory;
		CREATE SCHEMA a AUTHORIZATION alice;
		CREATE SCHEMA c AUTHORIZATION carol;
		GRANT USAGE, CREATE ON SCHEMA m, m2 TO moll;
		GRANT USAGE ON SCHEMA m, m2 TO PUBLIC;
		CREATE EXTENSION postgres_fdw;
		CREATE SERVER silent FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '$port');
		CREATE USER MAPPING FOR PUBLIC SERVER silent OPTIONS (user 'x', password 'x');
		GRANT USAGE ON FOREIGN SERVER silent TO mallory;
		GRANT EXECUTE ON FUNCTION dc_limit_create, dc_presence_create TO alice;
		GRANT EXECUTE ON FUNCTION dc_replicate TO mallory, alice;
		SELECT NULL FROM (SELECT dc_region_init('here')) AS i;
	};
	$node->safe_psql('postgres', alices_code(), extra_params => [ '-U', 'alice' ]);
	$node->safe_psql('postgres', hostile_code(odd_calls('m', 60)) . resets(), extra_params => [ '-U', 'mallory' ]);
	sql($node, 'postgres', $_) foreach users_code();
	$node->safe_psql('postgres', "SELECT m.reset('$_')", extra_params => [ '-U', 'mallory' ]) foreach room_names();
	$self->other_region;
	return;
}

# other_region: a database whose rows come to tables of mallory; and to those of alice, and hers to it, by
# links of their own, which its tables cannot stop. To make the slot of a link to a database of the same
# server is a step of its own.
sub other_region
{
	my ($self) = @_;
	my $node = $self->{node};
	my $link = sub {
		my ($to, $from, $name, $publication) = @_;
		my $connection = $node->connstr($from);

		sql($node, $from, "SELECT pg_create_logical_replication_slot('$name', 'pgoutput')");
		sql($node, $to, "CREATE SUBSCRIPTION $name CONNECTION \$c\$$connection\$c\$ PUBLICATION $publication WITH (copy_data = false, create_slot = false, slot_name = $name)");
	};

	sql($node, 'postgres', 'CREATE DATABASE there');
	sql($node, 'there', q{
		CREATE EXTENSION dcounter;
		SELECT dc_region_init('there');
		GRANT EXECUTE ON FUNCTION dc_replicate(regclass, boolean) TO mallory, alice;
		CREATE SCHEMA m AUTHORIZATION mallory;
		CREATE SCHEMA a AUTHORIZATION alice;
		CREATE TABLE a.log (key text, n numeric);
		CREATE FUNCTION a.count(k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM dc_incr('a.rep', k, n);
			INSERT INTO a.log VALUES (k, n);
		END $$});
	$node->safe_psql('there', q{SELECT dc_create('m.rep'), dc_stock_create('m.rst'); SELECT dc_replicate('m.rep'), dc_replicate('m.rst')}, extra_params => [ '-U', 'mallory' ]);
	$node->safe_psql('there', q{SELECT dc_create('a.rep'); SELECT dc_replicate('a.rep')}, extra_params => [ '-U', 'alice' ]);
	sql($node, 'there', q{
		CREATE PUBLICATION mallorys FOR TABLE m.rep_region WHERE (region = 'there'), m.rep_set WHERE (region = 'there'), m.rst_grant WHERE (from_region = 'there'), m.rst_want WHERE (region = 'there') WITH (publish = 'insert, update');
		CREATE PUBLICATION alices FOR TABLE a.rep_region WHERE (region = 'there'), a.rep_set WHERE (region = 'there') WITH (publish = 'insert, update')});
	sql($node, 'postgres', q{CREATE PUBLICATION alices FOR TABLE a.rep_region WHERE (region = 'here'), a.rep_set WHERE (region = 'here') WITH (publish = 'insert, update')});
	$link->('postgres', 'there', 'mallorys', 'mallorys');
	$link->('postgres', 'there', 'alices', 'alices');
	$link->('there', 'postgres', 'hers', 'alices');
	return;
}

# regions_differ: what of alice's counter has not come to the other region, or is not what was counted there
sub regions_differ
{
	my ($self) = @_;
	my $end = time + $idle_limit;
	my $rows = q{SELECT region, key, sum(inc), sum(dec) FROM a.rep_region GROUP BY 1, 2 HAVING sum(inc) > 0 OR sum(dec) > 0 ORDER BY 1, 2};
	my $wrong = q{SELECT 'there: ' || l.key || ' is ' || coalesce(r.n, 0) || ', log ' || l.n FROM (SELECT key, sum(n) AS n FROM a.log GROUP BY key) AS l
		LEFT JOIN (SELECT key, sum(inc - dec) AS n FROM a.rep_region WHERE region = 'there' GROUP BY key) AS r USING (key) WHERE coalesce(r.n, 0) <> l.n};
	my (@here, @there, @wrong);

	do
	{
		@here = $self->ask($rows);
		@there = $self->ask("\\c there\n$rows");
		@wrong = $self->ask("\\c there\n$wrong");
		return () if "@here" eq "@there" && !@wrong;
		sleep(0.1);
	} while (time < $end);
	return (@wrong, 'here:', @here, 'there:', @there);
}

# users_code: m.call and m.calls() again, for carol, who does not trust mallory's functions
sub users_code
{
	return (q{CREATE TABLE c.call AS TABLE m.call}, q{GRANT SELECT ON c.call TO carol}, q{
		DO $do$
		DECLARE
			name text;
		BEGIN
			FOREACH name IN ARRAY ARRAY['some_call', 'calls'] LOOP
				EXECUTE replace(pg_get_functiondef(('m.' || name)::regproc), 'm.', 'c.');
			END LOOP;
		END $do$});
}

# resets: m.reset(), which recreates the tables of a room
sub resets
{
	my $cases = join('', map { "WHEN '$_' THEN " . create_room($_, 'm') . ";\n" . fill_room($_, 'm') . ";\n" } room_names());

	return q{
		CREATE FUNCTION m.reset(room text) RETURNS void LANGUAGE plpgsql AS $$
		DECLARE
			name text;
		BEGIN
			FOR name IN SELECT c.oid::regclass::text FROM pg_class AS c WHERE relowner IN ('mallory'::regrole, 'moll'::regrole) AND relkind IN ('r', 'p', 'v', 'S', 'f') AND (relname ~ ('^' || room || '(_|$)') OR relname ~ '^x')
				AND relnamespace IN ('m'::regnamespace, 'm2'::regnamespace)
				ORDER BY relname <> room, c.oid NOT IN (SELECT budget FROM dcounter.budget), c.oid NOT IN (SELECT counter FROM dcounter.counter), relispartition LOOP
				BEGIN
					EXECUTE format('DROP %s IF EXISTS %s CASCADE', CASE (SELECT relkind FROM pg_class WHERE oid = to_regclass(name)) WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' WHEN 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END, name);
				EXCEPTION WHEN undefined_table OR wrong_object_type THEN
					NULL;
				END;
			END LOOP;
			SET LOCAL search_path = public, m;
			CASE room } . $cases . q{ END CASE;
			FOR name IN SELECT c.oid::regclass::text FROM pg_class AS c WHERE relnamespace = 'm'::regnamespace AND relkind IN ('r', 'p') AND relname ~ ('^' || room || '(_|$)') LOOP
				EXECUTE format('GRANT ALL ON %s TO carol', name);
			END LOOP;
		END $$;
	};
}

# round(NAME): whether all is well after it
sub round
{
	my ($self, $name) = @_;
	my @bad;

	$self->{round}++;
	$self->{clients} = [];
	$self->{what} = [$name];
	# one of the rooms at a time, so that each of its tables is used often
	$self->{order} = [ shuffle(room_names()) ] if !@{ $self->{order} };
	local $ENV{OWNERS_FOCUS} = $ENV{OWNERS_FOCUS} // shift @{ $self->{order} };
	$self->ask("TRUNCATE m.focus; INSERT INTO m.focus SELECT unnest(string_to_array('$ENV{OWNERS_FOCUS}', ' '))");
	$self->silence if $name =~ /silent/;
	$self->start_client($_) foreach 'owner', 'owner', 'user', 'user', 'alice', 'admin', 'monitor', 'remote', 'remote', 'linker';
	sleep(5 + rand(3));
	push @bad, $self->restart if $name =~ /under load/;
	sleep(2) if @bad == 0 && $name =~ /under load/;
	push @bad, $self->stop_clients;

	my $title = "round $self->{round} ($name; $ENV{OWNERS_FOCUS})";
	my $good = $self->fine("$title: clients and server", @bad, $self->complaints_of_server);

	$good &= $self->look("$title: ") if $good;
	if ($good && $name =~ /^restart/)
	{
		# what is in memory then
		my @bad = $self->ask(q{SET ROLE alice; SELECT NULL FROM (SELECT a.many('buf', 1) FROM generate_series(1, 20)) AS s});

		$good &= $self->fine("$title: it is stopped and started", @bad, $self->restart);
		$good &= $self->look("$title, then: ") if $good;
	}
	return $good;
}

# look(TITLE): at alice's tables, and at the server
sub look
{
	my ($self, $title) = @_;
	my $good = 1;
	my @left = $self->until_none('', 'SELECT a.undone()', $idle_limit);

	$good &= $self->fine("${title}alice's tables are what her users have made of them", $self->ask('SELECT a.wrong()'));
	$good &= $self->fine("${title}her tables are compacted, flushed and expired", @left, @left ? $self->waiters : ());
	$good &= $self->fine("${title}her regions have what both have counted", $self->regions_differ);
	foreach my $view ('dc_stat_counters', 'dc_stat_shards', 'dc_stat_worker', 'dc_stat_limits', 'dc_stat_presence')
	{
		my $began = time;
		my @bad = $self->ask("SET ROLE mona; SET statement_timeout = '20s'; SET application_name = 'monitor'; SELECT NULL FROM (SELECT count(*) FROM $view) AS s");
		my $took = time - $began;

		push @bad, sprintf('it took %.1f s', $took) if $took > $stat_limit;
		$good &= $self->fine("$title$view answers", @bad);
	}
	$good &= $self->fine("${title}there is a worker", $self->until_none('', q{SELECT 'none' WHERE NOT EXISTS (SELECT FROM dc_stat_worker WHERE datname = 'postgres' AND state = 'running')}, $idle_limit));
	$good &= $self->fine("${title}the server's log", $self->complaints_of_server);
	return $good;
}

# silence: a table of its own has a part on a server that does not answer
sub silence
{
	my ($self) = @_;

	$self->{node}->psql('postgres', q{
		SET lock_timeout = '5s';
		DROP TABLE IF EXISTS m.silent, m.silent_shard CASCADE;
		SELECT dc_create('m.silent', partitions => 2);
		ALTER TABLE m.silent_shard DROP CONSTRAINT silent_shard_pkey;
		ALTER TABLE m.silent_shard DETACH PARTITION m.silent_shard_p0;
		CREATE FOREIGN TABLE m.silent_shard_p2 PARTITION OF m.silent_shard FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER silent}, extra_params => [ '-U', 'mallory' ]);
	return;
}

# restart: stops the server within its time, and starts it
sub restart
{
	my ($self) = @_;
	my $node = $self->{node};
	local $ENV{PGCTLTIMEOUT} = $stop_limit;

	if (!$node->stop('fast', fail_ok => 1))
	{
		my @left = `ps -eo pid,etimes,args | grep 'postgres: ' | grep -v grep`;

		$node->stop('immediate');
		$node->start;
		return ("it was not stopped within $stop_limit s, because of", @left);
	}
	$node->start;
	return;
}

# complaints_of_server: what its log says that it should not, since the last call
sub complaints_of_server
{
	my ($self) = @_;
	my $log = slurp_file($self->{node}->logfile, $self->{log});
	my @bad;
	my $crash = 0;

	$self->{log} += length $log;
	# entries, which may have several lines
	foreach my $entry (split /^(?=\d{4}-\d\d-\d\d )/m, $log)
	{
		my ($who) = $entry =~ /^\S+ \S+ \S+ \[\d+\] (.*?): /;

		if ($entry =~ /PANIC:|TRAP:|AddressSanitizer|runtime error:|was terminated by signal|BREACH/)
		{
			push @bad, $entry;
			$crash = 1 if $entry =~ /terminated/;
		}
		elsif ($crash && $entry =~ /DETAIL:  Failed process was running/)
		{
			push @bad, $entry;
		}
		elsif ($entry =~ /(?:ERROR|FATAL|WARNING|LOG):  (?:XX\d{3}: (?!hostile)(?!dcounter job .* failed: hostile)|00000: CAUGHT XX)/ || $entry =~ /failed: .*(?:could not find|cache lookup failed|unrecognized|unexpected|unsupported)/)
		{
			my ($what) = $entry =~ /((?:ERROR|FATAL|WARNING|LOG):  .*)/;

			if ($self->acceptable($who // '', $entry))
			{
				$self->{allowed}{ $what =~ s/\d+|"[^"]*"/%/gr }++;
			}
			else
			{
				push @bad, $entry;
			}
		}
	}
	s/\s+/ /g foreach @bad;
	$_ = substr($_, 0, 1200) foreach @bad;
	return @bad > 10 ? @bad[ 0 .. 9 ] : @bad;
}

# acceptable(WHO, ENTRY): an internal error that is not the extension's
sub acceptable
{
	my ($self, $who, $entry) = @_;

	# two sessions that change one row of a catalog
	return 1 if $entry =~ /tuple concurrently (?:updated|deleted)/;
	# about rows that a trigger or a rule of its own has left unchanged
	return 1 if $entry =~ /locked shard rows have changed|limit of an account could not be changed/;
	# statements of its own that the server does not expect within an index or a constraint
	return 1 if $entry =~ /CAUGHT XX/ && ($who =~ / mallory$/ || $entry !~ / in (?:SELECT (?:\* FROM )?|CALL )public\.dc_/);
	# an index expression changes the table while a row is inserted speculatively
	return 1 if $entry =~ /attempted to kill a non-speculative tuple/;
	return 1 if $who =~ / mallory$/ && $entry !~ /^STATEMENT:.*dc_|\.c:|dc_\w+\(/m;
	return 0;
}

# finish: what was seen and let pass
sub finish
{
	my ($self) = @_;

	note("let pass: $_ ($self->{allowed}{$_})") foreach sort keys %{ $self->{allowed} };
	return;
}

1;
