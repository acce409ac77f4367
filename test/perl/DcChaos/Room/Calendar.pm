# Room of make chaos: windowed counters by calendar, hours in local days in local months.
#
# Each increment that counts is logged in the same transaction, with its time. The last level keeps
# 80 years, so nothing is ever dropped: what dc_buckets() shows of a key is the log, grouped as the
# documentation says: by the hour from the floor of the hours on, by the local date from the floor
# of the days on, and by local month before. The floors are read in the snapshot of the comparison.
# And local months are the same in the view, whichever level their rows are in, and by dc_window().
# In Havana the clock is set at midnight: one day begins at 01:00, and one has two midnights.
package DcChaos::Room::Calendar;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_window_create('cal', '1 hour', '36 hours', '{"1 day": "40 days", "1 month": "80 years"}', 'drop', 'America/Havana');
	CREATE TABLE log_cal (key text, at timestamptz, n bigint);
	CREATE FUNCTION cal_hit(k text, n bigint, ago interval) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		t timestamptz := clock_timestamp() - ago;
	BEGIN
		IF dc_incr_at('cal', k, n, t) THEN
			INSERT INTO log_cal VALUES (k, t, n);
		END IF;
	END $$;
	CREATE FUNCTION cal_month(t timestamptz) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'month ' || date_trunc('month', t AT TIME ZONE 'America/Havana')::date $$;
	-- floors are at full hours, which this product of a float8 has without a rest
	CREATE FUNCTION cal_bucket(t timestamptz, floors bigint[]) RETURNS text LANGUAGE sql STABLE AS $$
		SELECT CASE WHEN t >= '2000-01-01 UTC'::timestamptz + floors[1] * interval '1 us' THEN 'hour ' || (date_bin('1 hour', t, '2000-01-03 UTC') AT TIME ZONE 'UTC')
			WHEN t >= '2000-01-01 UTC'::timestamptz + floors[2] * interval '1 us' THEN 'day ' || (t AT TIME ZONE 'America/Havana')::date
			ELSE cal_month(t) END
	$$;
	CREATE FUNCTION cal_differences() RETURNS SETOF text LANGUAGE sql AS $$
		WITH floors AS MATERIALIZED (SELECT floors FROM dcounter.time_window WHERE windowed = 'cal'::regclass),
		keys AS MATERIALIZED (SELECT DISTINCT key FROM log_cal),
		months AS MATERIALIZED (SELECT key, cal_month(at) AS bucket, sum(n) AS n FROM log_cal GROUP BY 1, 2),
		since AS (SELECT (date_trunc('month', clock_timestamp() AT TIME ZONE 'America/Havana') - interval '2 months') AT TIME ZONE 'America/Havana' AS since)
		SELECT format('%s %s: buckets %s, log %s', key, bucket, b.value, l.n)
			FROM (SELECT key, cal_bucket(bucket, floors) AS bucket, value FROM floors, keys, dc_buckets('cal', key, clock_timestamp() - interval '3 years', clock_timestamp() + interval '100 days') WHERE value <> 0) AS b
			FULL JOIN (SELECT key, cal_bucket(at, floors) AS bucket, sum(n) AS n FROM floors, log_cal GROUP BY 1, 2) AS l USING (key, bucket) WHERE b.value IS DISTINCT FROM l.n
		UNION ALL SELECT format('%s %s: view %s, log %s', key, bucket, v.value, l.n)
			FROM (SELECT key COLLATE "default", cal_month(bucket) AS bucket, sum(value) AS value FROM cal GROUP BY 1, 2) AS v FULL JOIN months AS l USING (key, bucket) WHERE v.value IS DISTINCT FROM l.n
		UNION ALL SELECT format('%s since %s: %s, log %s', key, since, w, n)
			FROM (SELECT key, since, sum(n) FILTER (WHERE at >= since) AS n FROM log_cal, since GROUP BY 1, 2) AS l,
				dc_window('cal', key, '9600 hours', since + interval '9600 hours') AS w
			WHERE (w.lower, w.value, w.upper) IS DISTINCT FROM (coalesce(n, 0)::bigint, coalesce(n, 0)::bigint, coalesce(n, 0)::bigint)
	$$;
	-- Where each statement has a snapshot, a table may be emptied between that of the query and that of a function in it
	CREATE FUNCTION cal_wrong() RETURNS SETOF text LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. 3 LOOP
			IF NOT EXISTS (SELECT FROM cal_differences()) THEN
				RETURN;
			END IF;
		END LOOP;
		RETURN QUERY SELECT * FROM cal_differences();
	END $$;
};

sub room
{
	return {
		name => 'calendar',
		schema => $schema,
		steps => [
			[ 4, sub { sprintf "SELECT cal_hit('%s', %d, '%d %s');\n", key('c', 6), num(1, 5), num(0, 40), pick('seconds', 'minutes', 'hours', 'hours', 'days', 'weeks') } ],
			[ 1, sub { sprintf "SELECT lower, value, upper FROM dc_window('cal', '%s', '%s');\n", key('c', 6), pick('3 hours', '2 days', '1 month', '1 year') } ],
			[ 0.5, sub { sprintf "SELECT count(*) FROM dc_buckets('cal', '%s', now() - interval '%s');\n", key('c', 6), pick('2 days', '1 year') } ],
			[ 0.2, sub { "SELECT * FROM dc_top_window('cal', '3 months', 3);\n" } ],
		],
		# the time is ahead, for some moments
		alone => [
			[ 1, sub { sprintf "SELECT dc_window_rotate('cal', clock_timestamp() + interval '%d hours');\nSELECT dc_window_reopen('cal');\n", num(1, 1000) } ],
			[ 0.5, sub { sprintf "BEGIN;\nSELECT dc_window_rotate('cal', clock_timestamp() + interval '%d days');\n%s\n", num(1, 60), pick("SELECT dc_window_reopen('cal');\nCOMMIT;", 'ROLLBACK;') } ],
		],
		tables => [ map { ("cal_w$_", "cal_w${_}_shard") } 1, 9, 16 ],
		snapshot => 1,
		wrong => 'SELECT cal_wrong()',
	};
}

1;
