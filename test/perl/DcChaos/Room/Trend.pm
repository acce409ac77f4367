# Room of make chaos: trends.
#
# The half-life is ten years, so a score is the counted amount, except for the ages that the clock's
# steps make: a thousandth allows for half a month of them. Increments are logged in the transaction
# that makes them. Values that keys are set to do not count; the keys d1 to d3 are deleted, and left
# out, because it is unknown which increments came before. (What a set takes from shard rows it
# counts itself, so increments of keys that are set count as well.) Of the buffered counter a crash
# may take increments, so it is only compared with its own values, which are never set.
package DcChaos::Room::Trend;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_create('hearts', trend => '3650 days'), dc_create('pins', partitions => 2, trend => '3650 days'),
		dc_create('waves', mode => 'buffered', flush_interval => '100 ms', trend => '3650 days');
	CREATE TABLE log_trend (counter text, key text, n numeric);

	CREATE FUNCTION t_incr(c text, k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF n < 0 THEN
			PERFORM dc_decr(c::regclass, k, -n);
		ELSE
			PERFORM dc_incr(c::regclass, k, n);
		END IF;
		INSERT INTO log_trend VALUES (c, k, n);
	END $$;
	CREATE FUNCTION t_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		WITH log AS (SELECT counter, key, sum(n) AS n, sum(abs(n)) AS gross FROM log_trend WHERE counter <> 'waves' AND key !~ '^d' GROUP BY counter, key
			UNION ALL SELECT 'waves', key, value, inc + dec FROM waves),
		shard AS (SELECT 'hearts' AS counter, key, inc - dec AS n FROM hearts_shard UNION ALL SELECT 'pins', key, inc - dec FROM pins_shard),
		score AS (SELECT c AS counter, t.key, t.score FROM unnest(ARRAY['hearts', 'pins', 'waves']) AS c, dc_trending(c::regclass, 1000) AS t)
		SELECT format('trend of %s %s: score %s, log %s, not compacted %s', counter, key, score, n, p)
		FROM log LEFT JOIN score USING (counter, key), LATERAL (SELECT coalesce(sum(s.n), 0) AS p FROM shard AS s WHERE s.counter = log.counter AND s.key = log.key) AS s
		WHERE abs(greatest(n - p, 0) - coalesce(score, 0)) > 0.4 + 0.001 * gross
		UNION ALL SELECT format('trend: %s rows of %s', count(*), key) FROM hearts_trend GROUP BY key HAVING count(*) > 1
	$$;
};

my $idle = join(' UNION ALL ', map {
	"SELECT format('%s: %s keys are not compacted', '$_', count(*)) FROM (SELECT key FROM ${_}_shard GROUP BY key HAVING sum(inc) <> 0 OR sum(dec) <> 0) AS s HAVING count(*) > 0"
} 'hearts', 'pins');

my @counters = ('hearts', 'hearts', 'pins', 'waves');

sub room
{
	return {
		name => 'trend',
		schema => $schema,
		steps => [
			[ 8, sub { sprintf "SELECT t_incr('%s', '%s', %d);\n", pick(@counters), key('t', 8), pick(-1, 1, 1, 2, 3) } ],
			[ 1, sub { sprintf "SELECT t_incr('%s', '%s', %d);\n", pick('hearts', 'pins'), key('d', 3), num(1, 5) } ],
			[ 1, sub { sprintf "SELECT dc_set('%s', '%s', %d);\n", pick('hearts', 'pins'), key('t', 8), num(0, 1000) } ],
			[ 0.5, sub { sprintf "SELECT dc_delete('%s', '%s');\n", pick('hearts', 'pins'), key('d', 3) } ],
			[ 1, sub { sprintf "SELECT count(*) FROM dc_trending('%s', %d);\n", pick(@counters), num(0, 20) } ],
		],
		alone => [
			[ 0.5, sub { sprintf "SELECT dc_compact('%s');\n", pick('hearts', 'pins') } ],
			[ 0.2, sub { "BEGIN; SELECT FROM hearts_trend WHERE key = '" . key('t', 8) . "' FOR UPDATE; SELECT pg_sleep(0.05); COMMIT;\n" } ],
		],
		tables => [ 'hearts', 'hearts_shard', 'hearts_trend', 'waves', 'waves_shard', 'waves_trend', 'pins_trend', map { ("pins_p$_", "pins_shard_p$_") } 0, 1 ],
		snapshot => 1,
		wrong => 'SELECT t_wrong()',
		idle => $idle,
	};
}

1;
