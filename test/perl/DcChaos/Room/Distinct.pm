# Room of make chaos: distinct tables.
#
# Each item that is added is logged in the same transaction, with its key and day. A sketch is the union of the items of
# committed transactions, in any order and any number of times; so that of a key is the very one that dc_hll_agg() makes of
# the log, in each snapshot, whatever was folded, forgotten or written twice. A key that is reset (r1, r2) has no log: items that
# others add at the same time may be there or not. The days are long past, and kept forever: no
# clock removes them.
package DcChaos::Room::Distinct;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_distinct_create('guests', 12), dc_distinct_create('guests_daily', 10, '1 day');
	CREATE TABLE log_guest (key text, item bigint, day int);
	CREATE FUNCTION d_visit(k text, i bigint, d int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM dc_add('guests', k, i), dc_add('guests_daily', k, i, timestamptz '2010-01-04 UTC' + d * interval '1 day');
		INSERT INTO log_guest VALUES (k, i, d);
	END $$;
	CREATE FUNCTION d_visit_many(k text, first bigint, n int, d int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM dc_add_many('guests', array_agg(k), array_agg(first + g)), dc_add_many('guests_daily', array_agg(k), array_agg(first + g), timestamptz '2010-01-04 UTC' + d * interval '1 day')
		FROM generate_series(1, n) AS g;
		INSERT INTO log_guest SELECT k, first + g, d FROM generate_series(1, n) AS g;
	END $$;
	CREATE FUNCTION d_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		SELECT format('guests of %s: %s, log %s', key, round(dc_hll_count(s)), round(dc_hll_count(h)))
			FROM (SELECT key, dc_hll_agg(item, 12) AS h FROM log_guest GROUP BY key) AS l, LATERAL (SELECT dc_distinct_sketch('guests', key) AS s) AS d WHERE s IS DISTINCT FROM h
		UNION ALL SELECT format('guests of %s on day %s: %s, log %s', key, day, round(dc_hll_count(s)), round(dc_hll_count(h)))
			FROM (SELECT key, day, dc_hll_agg(item, 10) AS h FROM log_guest GROUP BY key, day) AS l,
				LATERAL (SELECT dc_distinct_sketch('guests_daily', key, '1 day', timestamptz '2010-01-05 UTC' + day * interval '1 day') AS s) AS d WHERE s IS DISTINCT FROM h
		UNION ALL SELECT format('%s has %s days, log %s', key, days, n) FROM (SELECT key, count(DISTINCT day) AS n FROM log_guest GROUP BY key) AS l,
			LATERAL (SELECT count(*) AS days FROM dc_distinct_buckets('guests_daily', key)) AS d WHERE days <> n
	$$;
};

sub item
{
	return pick(num(1, 20), num(1, 2000), num(1, 1_000_000));
}

sub room
{
	return {
		name => 'distinct',
		schema => $schema,
		steps => [
			[ 6, sub { sprintf "SELECT d_visit('%s', %d, %d);\n", key('g', 8), item(), num(0, 3) } ],
			[ 2, sub { sprintf "SELECT d_visit_many('%s', %d, %d, %d);\n", key('g', 8), item(), num(1, 50), num(0, 3) } ],
			[ 1, sub { sprintf "SELECT dc_add('guests', 'r%d', %d::bigint);\n", num(1, 2), item() } ],
			[ 0.5, sub { sprintf "SELECT dc_distinct_reset('guests', 'r%d');\n", num(1, 2) } ],
			[ 1, sub { sprintf "SELECT * FROM dc_distinct('%s', '%s');\n", pick('guests', 'guests_daily'), key('g', 8) } ],
			[ 0.5, sub { sprintf "SELECT * FROM dc_distinct_union('guests', ARRAY['g1', '%s']);\n", key('g', 8) } ],
		],
		tables => [ 'guests', 'guests_delta', 'guests_daily', 'guests_daily_delta' ],
		snapshot => 1,
		wrong => 'SELECT d_wrong()',
		idle => q{SELECT format('folding: %s deltas', count(*)) FROM (SELECT FROM guests_delta UNION ALL SELECT FROM guests_daily_delta) AS d HAVING count(*) > 0
			UNION ALL SELECT format('the row of %s is not what was folded into it', key) FROM (SELECT key, dc_hll_agg(item, 12) AS h FROM log_guest GROUP BY key) AS l LEFT JOIN guests USING (key) WHERE sketch IS DISTINCT FROM h},
	};
}

1;
