# Room of make chaos: a counter of two regions.
#
# Another database of the server is the other region: each gets what the other one counts by a
# subscription. Each increment is logged in the same transaction, in the database where it is made. At any time,
# in any snapshot of a database, and for each key, with inc and dec for themselves,
#
#	- what this region has published, and what waits to be published (shard rows that are not negative), is
#	  the log of this database: nothing that is counted here is lost, or published twice
#	- the value is that, and what is known of the other region
#
# That is "wrong". When nobody writes, and no prepared transaction has rows locked, both databases have the sum of both
# logs after some time, and dc_region_check() says the same in both. That is waited for ("ready"), for
# a minute: after a start a region may have to hear from the other one before it publishes. A
# step of the clock backwards can keep the server from starting an apply worker again: then it is restarted.
#
# Setters belong into r_count() below, when they are for the other region as well: what they do to a log that is a sum
# is not the difference that they return, if both set a key.
package DcChaos::Room::Region;

use strict;
use warnings;

use DcChaos::Mix;
use Time::HiRes qw(sleep time);

my $other = 'chaos_other';
my ($limit, $restart_after) = (60, 20);

my $own_tables = q{
	SELECT NULL FROM (SELECT dc_region_init('REGION')) AS i;
	SELECT dc_create('common');
	SELECT dc_replicate('common');
	CREATE TABLE log_region (key text, inc numeric, dec numeric);
	CREATE FUNCTION r_count(k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF n < 0 THEN
			PERFORM dc_decr('common', k, -n);
		ELSE
			PERFORM dc_incr('common', k, n);
		END IF;
		INSERT INTO log_region VALUES (k, greatest(n, 0), greatest(-n, 0));
	END $$;
	CREATE FUNCTION r_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		WITH log AS (SELECT key, sum(inc) AS inc, sum(dec) AS dec FROM log_region GROUP BY key),
		own AS (SELECT key, sum(inc) AS inc, sum(dec) AS dec FROM (
			SELECT key, inc, dec FROM common_region WHERE region = 'REGION' UNION ALL SELECT key, inc, dec FROM common_shard WHERE shard >= 0) AS o GROUP BY key),
		others AS (SELECT key, sum(inc - dec) AS n FROM common_region WHERE region <> 'REGION' GROUP BY key),
		keys AS (SELECT key FROM log UNION SELECT key FROM common UNION SELECT key FROM common_region UNION SELECT key FROM common_shard),
		counted AS (SELECT * FROM dc_get_many('common', ARRAY(SELECT key FROM keys)))
		SELECT format('REGION %s: dc_get_many %s, own %s - %s, others %s, log %s - %s', key, value, own.inc, own.dec, others.n, log.inc, log.dec)
		FROM counted LEFT JOIN log USING (key) LEFT JOIN own USING (key) LEFT JOIN others USING (key)
		WHERE coalesce(own.inc, 0) <> coalesce(log.inc, 0) OR coalesce(own.dec, 0) <> coalesce(log.dec, 0)
			OR value <> coalesce(log.inc - log.dec, 0) + coalesce(others.n, 0) OR value <> dc_get('common', key)
	$$;
};

# A subscription to another database of the same server would wait for its own transaction when it makes its
# slot. So slots are there before.
my $link = q{SELECT format('CREATE SUBSCRIPTION %s CONNECTION %L PUBLICATION dcounter_own WITH (copy_data = false, create_slot = false, slot_name = %s)',
	'LINK', format('host=%s port=%s dbname=DATABASE', current_setting('unix_socket_directories'), current_setting('port')), 'LINK') \gexec
};

sub database
{
	my ($region) = @_;

	return $own_tables =~ s/REGION/$region/gr;
}

sub subscribe
{
	my ($name, $database) = @_;

	return $link =~ s/LINK/$name/gr =~ s/DATABASE/$database/r;
}

my $schema = database('here') . qq{
	SELECT NULL FROM (SELECT pg_create_logical_replication_slot('from_here', 'pgoutput')) AS s;
	CREATE DATABASE $other;
	\\c $other
	CREATE EXTENSION dcounter;
} . database('there') . q{
	SELECT NULL FROM (SELECT pg_create_logical_replication_slot('from_there', 'pgoutput')) AS s;
} . subscribe('from_here', 'postgres') . "\\c postgres\n" . subscribe('from_there', $other);

# difference(RUN): what is not the same in both, or not the sum of both logs
sub difference
{
	my ($run) = @_;
	my (%logged, @values, @checks, @bad);

	foreach my $database ('postgres', $other)
	{
		my @lines = $run->ask("\\c $database\n" . q{SET client_min_messages = warning;
			SELECT NULL FROM (SELECT dc_compact('common')) AS c;
			SELECT 'log', key, sum(inc), sum(dec) FROM log_region GROUP BY key ORDER BY key;
			SELECT 'value', key, sum(inc), sum(dec) FROM (TABLE amounts) AS u GROUP BY key HAVING sum(inc) > 0 OR sum(dec) > 0 ORDER BY key;
			SELECT 'check', * FROM dc_region_check('common');
			SELECT 'bad', r_wrong()} =~ s/TABLE amounts/SELECT key, inc, dec FROM common UNION ALL SELECT key, inc, dec FROM common_shard/r);

		foreach (@lines)
		{
			my ($what, $key, $inc, $dec) = split /\|/;

			if ($what eq 'log')
			{
				$logged{$key}[0] += $inc;
				$logged{$key}[1] += $dec;
			}
			elsif ($what eq 'value') { $values[ $database eq 'postgres' ? 0 : 1 ]{$key} = "$inc - $dec" }
			elsif ($what eq 'check') { push @{ $checks[ $database eq 'postgres' ? 0 : 1 ] }, $_ }
			else { push @bad, $_ }
		}
	}
	foreach my $key (sort keys %logged)
	{
		my $sum = "$logged{$key}[0] - $logged{$key}[1]";
		my @has = map { $_->{$key} // 'nothing' } @values[ 0, 1 ];

		push @bad, "$key: logged $sum, here $has[0], there $has[1]" if ($has[0] ne $sum || $has[1] ne $sum) && $sum ne '0 - 0';
	}
	my @check = map { join(' ', @{ $_ // [] }) } @checks[ 0, 1 ];
	push @bad, "dc_region_check: here $check[0], there $check[1]" if $check[0] ne $check[1] || $check[0] !~ /check\|\|\|0\|0\|0\|$/;
	return @bad;
}

# ready(RUN): both regions have caught up with each other
sub ready
{
	my ($run) = @_;
	my $begin = time;
	my ($restarted, @bad) = (0);

	return () if $run->one('SELECT count(*) FROM pg_prepared_xacts') ne '0';
	do
	{
		@bad = difference($run);
		return () if !@bad;
		if (!$restarted && $run->{clock} && time > $begin + $restart_after)
		{
			$run->{node}->restart;
			$restarted = 1;
		}
		sleep(0.1);
	} while (time < $begin + $limit);
	return (@bad, $run->ask(q{
		SELECT 'slot', slot_name, active, pg_current_wal_lsn(), confirmed_flush_lsn FROM pg_replication_slots;
		SELECT 'subscription', subname, pid, received_lsn, latest_end_lsn FROM pg_stat_subscription;
		SELECT 'errors', subname, apply_error_count FROM pg_stat_subscription_stats}));
}

sub count
{
	my $calls = join('', map { sprintf "SELECT r_count('%s', %d);\n", key('r', 15), num(-3, 9) } 1 .. num(1, 4));

	return chance(0.1) ? sprintf("SELECT dc_compact('common');\nSELECT pg_sleep(%.3f);\n", rand(0.1)) : chance(0.1) ? "BEGIN;\n${calls}ROLLBACK;\n" : "BEGIN;\n${calls}COMMIT;\n";
}

sub room
{
	return {
		name => 'region',
		schema => $schema,
		steps => [
			[ 8, sub { sprintf "SELECT r_count('%s', %d);\n", key('r', 15), num(-3, 9) } ],
			[ 1, sub { statements(map { sprintf "r_count('%s', %d)", key('r', 15), num(1, 3) } 1 .. 5) } ],
		],
		alone => [ [ 0.3, sub { "SELECT dc_compact('common');\n" } ] ],
		roles => { region_there => { clients => 2, database => $other, next => \&count } },
		tables => [ 'common', 'common_shard', 'common_region' ],
		snapshot => 1,
		ready => \&ready,
		wrong => 'SELECT r_wrong()',
	};
}

1;
