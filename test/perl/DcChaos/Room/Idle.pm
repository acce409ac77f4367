# Room of make chaos: keys that expire.
#
# Keys expire after a hundred years, which no step of the clock reaches. A statement makes them old
# by setting back updated_at of keys whose total is zero. So a key that expires has no amount, and
# each value still is the sum of its log: an increment that is lost with a key would be missing. The
# setting is altered again and again, since the worker then trusts the clock of a server that was
# just started, and looks at the table at once.
package DcChaos::Room::Idle;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_create('visits', idle => '36525 days'), dc_create('trips', idle => '36525 days', trend => '3650 days');
	CREATE TABLE log_idle (counter text, key text, n numeric);

	CREATE FUNCTION i_incr(c text, k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM dc_incr(c::regclass, k, n);
		INSERT INTO log_idle VALUES (c, k, n);
	END $$;
	CREATE FUNCTION i_zero(c text, k text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		v bigint := dc_get(c::regclass, k);
	BEGIN
		IF v <> 0 THEN
			PERFORM i_incr(c, k, -v);
		END IF;
	END $$;
	CREATE FUNCTION i_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		WITH log AS (SELECT counter, key, sum(n) AS n FROM log_idle GROUP BY counter, key),
		stored AS (SELECT 'visits' AS counter, key FROM visits UNION SELECT 'visits', key FROM visits_shard UNION SELECT 'trips', key FROM trips UNION SELECT 'trips', key FROM trips_shard)
		SELECT format('%s %s: dc_get %s, log %s', counter, key, value, coalesce(n, 0))
		FROM log FULL JOIN stored USING (counter, key), LATERAL (SELECT dc_get(counter::regclass, key) AS value) AS v WHERE value <> coalesce(n, 0)
	$$;
};

my @counters = ('visits', 'visits', 'trips');

sub old
{
	my $counter = pick(@counters);

	return "UPDATE $counter SET updated_at = '1900-01-01' WHERE inc = dec AND updated_at > '1900-01-01' AND key <> 'i1'";
}

sub room
{
	return {
		name => 'idle',
		schema => $schema,
		steps => [
			[ 6, sub { sprintf "SELECT i_incr('%s', '%s', %d);\n", pick(@counters), key('i', 20), num(-3, 3) } ],
			[ 6, sub { sprintf "SELECT i_zero('%s', '%s');\n", pick(@counters), key('i', 20) } ],
			[ 1, sub { sprintf "SELECT dc_get('%s', '%s');\n", pick(@counters), key('i', 20) } ],
		],
		alone => [
			[ 2, sub { old() . ";\n" } ],
			[ 2, sub { sprintf "SELECT dc_alter('%s', idle => '%d days');\n", pick(@counters), num(36400, 36525) } ],
		],
		tables => [ 'trips_trend', map { ($_, "${_}_shard") } 'visits', 'trips' ],
		snapshot => 1,
		wrong => 'SELECT i_wrong()',
	};
}

1;
