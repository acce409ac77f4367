# Room of make chaos: cached reads.
#
# A session reads a key that only grows, waits, and asks for a value that is at most as old
# as it has waited. So that must not be less than the value that it has read. Both reads are
# transactions of their own; the counters are those of the rooms counter and buffer.
package DcChaos::Room::Cache;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	CREATE FUNCTION read_cached(c text, k text, before bigint, age interval) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		value bigint := CASE WHEN random() < 0.5 THEN dc_get(c::regclass, k, age) ELSE (SELECT m.value FROM dc_get_many(c::regclass, ARRAY[k], age) AS m) END;
	BEGIN
		IF value < before THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('%s %s is %s, not older than %s, but was %s before', c, k, value, age, before);
		END IF;
	END $$;
};

sub read_twice
{
	my $counter = pick('likes', 'spread', 'views', 'hits', 'pings');
	my $key = key('g', 3);
	my $age = num(0, 40);

	return sprintf("SELECT dc_get('%s', '%s') AS v \\gset\nSELECT pg_sleep(%.3f);\nSELECT read_cached('%s', '%s', :v, '%d ms');\n", $counter, $key, ($age + 1) / 1000, $counter, $key, $age);
}

sub room
{
	return { name => 'cache', schema => $schema, alone => [ [ 6, \&read_twice ] ] };
}

1;
