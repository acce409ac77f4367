# Room of make chaos: windowed counters.
#
# Each increment that counts is logged in the same transaction, with its time; one that is dropped is not. Buckets are rolled up to
# ones that are kept for years, so whatever the clock does, a day of the window is never dropped:
# the sum of a key over all time is that of its log, in each snapshot.
package DcChaos::Room::Window;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_window_create('ticks', '1 s', '4 s', '{"2 s": "20 s", "1 hour": "36000 days"}', 'drop');
	CREATE TABLE log_hit (key text, at timestamptz, n bigint);
	CREATE FUNCTION w_hit(k text, n bigint, ago float8) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		t timestamptz := clock_timestamp() - ago * interval '1 s';
	BEGIN
		IF dc_incr_at('ticks', k, n, t) THEN
			INSERT INTO log_hit VALUES (k, t, n);
		END IF;
	END $$;
	CREATE FUNCTION w_sum(k text) RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT value FROM dc_window('ticks', k, '40000 days', clock_timestamp() + interval '100 days') $$;
	CREATE FUNCTION w_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		SELECT format('%s: window %s, log %s', key, w_sum(key), n) FROM (SELECT key, sum(n) AS n FROM log_hit GROUP BY key) AS l WHERE w_sum(key) <> n
	$$;
};

sub room
{
	return {
		name => 'window',
		schema => $schema,
		steps => [
			[ 6, sub { sprintf "SELECT w_hit('%s', %d, %s);\n", key('w', 6), num(1, 5), pick(0, 0, 0, 1, 5, 30) } ],
			[ 2, sub { sprintf "SELECT w_sum('%s');\n", key('w', 6) } ],
			[ 1, sub { sprintf "SELECT count(*) FROM dc_buckets('ticks', '%s', now() - interval '1 minute');\n", key('w', 6) } ],
			[ 0.3, sub { "SELECT * FROM dc_top_window('ticks', '1 minute', 3);\n" } ],
		],
		tables => [ map { ("ticks_w$_", "ticks_w${_}_shard") } 0, 3, 8, 16 ],
		snapshot => 1,
		wrong => 'SELECT w_wrong()',
	};
}

1;
