# Room of make chaos: sampled counting.
#
# Increments are logged unsampled, in the same transaction. The value is a multiple of the sample, and off the log by at most eight
# standard errors of deltas like these (the root of the sum of r (p - r), which is at most that of the sum of |d| (p - 1)): for all keys and rounds together
# one case in 10^12.
package DcChaos::Room::Sample;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_create('sampled', sample => 8), dc_create('sampled_parts', sample => 64, partitions => 2);
	CREATE TABLE log_sample (counter text, key text, n numeric);

	CREATE FUNCTION smp_incr(c text, k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF n < 0 THEN
			PERFORM dc_decr(c::regclass, k, -n);
		ELSIF n % 2 = 0 THEN
			PERFORM dc_incr_many(c::regclass, ARRAY[k], ARRAY[n]);
		ELSE
			PERFORM dc_incr(c::regclass, k, n);
		END IF;
		INSERT INTO log_sample VALUES (c, k, n);
	END $$;
	CREATE FUNCTION smp_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		SELECT format('sampled %s %s: value %s, log %s', counter, key, value, n)
		FROM (SELECT counter, key, sum(n) AS n, sum(abs(n)) AS gross FROM log_sample GROUP BY counter, key) AS l,
			LATERAL (SELECT sample FROM dcounter.counter AS c WHERE c.counter = l.counter::regclass) AS c, LATERAL (SELECT dc_get(l.counter::regclass, key) AS value) AS v
		WHERE value % sample <> 0 OR abs(value - n) > 8 * sqrt(gross * (sample - 1)) + sample
	$$;
};

sub room
{
	return {
		name => 'sample',
		schema => $schema,
		steps => [
			[ 4, sub { sprintf "SELECT smp_incr('%s', '%s', %d);\n", pick('sampled', 'sampled_parts'), key('s', 5), pick(1, 1, 1, -1, 2, 7, 100) } ],
		],
		tables => [ 'sampled', 'sampled_shard', map { ("sampled_parts_p$_", "sampled_parts_shard_p$_") } 0, 1 ],
		snapshot => 1,
		wrong => 'SELECT smp_wrong()',
	};
}

1;
