# Room of make chaos: sketches in rows.
#
# Items are added to a sketch in a row, and logged in the same transaction. A sketch depends on
# its set of items alone, so it must be equal to the aggregate of the log, byte by byte.
package DcChaos::Room::Sketch;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	CREATE TABLE visitors (key text PRIMARY KEY, h dc_hll);
	INSERT INTO visitors SELECT 'k' || i, dc_hll() FROM generate_series(1, 4) AS i;
	CREATE TABLE log_sketch (key text, item text);
	CREATE FUNCTION h_add(k text, i text) RETURNS void LANGUAGE sql AS $$
		UPDATE visitors SET h = dc_hll_add(h, i) WHERE key = k;
		INSERT INTO log_sketch VALUES (k, i);
	$$;
};

sub room
{
	return {
		name => 'sketch',
		schema => $schema,
		steps => [ [ 0.7, sub { sprintf "SELECT h_add('%s', 'item %d');\n", key('k', 4), num(1, 3000) } ] ],
		tables => ['visitors'],
		snapshot => 1,
		wrong => q{
			SELECT format('%s: %s items, log %s', key, dc_hll_count(v.h), dc_hll_count(l.h))
			FROM visitors AS v JOIN (SELECT key, dc_hll_agg(item) AS h FROM log_sketch GROUP BY key) AS l USING (key) WHERE v.h::text <> l.h::text},
	};
}

1;
