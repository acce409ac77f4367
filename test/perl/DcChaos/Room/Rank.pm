# Room of make chaos: ranks.
#
# There is no log but the table of totals itself: in any snapshot the rank of a key is what
# rank() says of it, and a page is what row_number() says, whatever was cancelled, killed or rolled back. Both are compared in one
# statement, at any time. Values are of all magnitudes, with many ties.
package DcChaos::Room::Rank;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_create('rk_points');
	CREATE INDEX ON rk_points (value DESC, key);
	SELECT dc_load('rk_points', array_agg('k' || i), array_agg(i * i)) FROM generate_series(1, 60) AS i;
	SELECT dc_rank_create('rk_points', build => 'now');

	CREATE FUNCTION rk_wrong() RETURNS SETOF text LANGUAGE sql STABLE AS $$
		WITH ranked AS MATERIALIZED (SELECT key, value, rank() OVER (ORDER BY value DESC), row_number() OVER (ORDER BY value DESC, key) AS n FROM rk_points)
		SELECT format('rank of %s, which has %s: %s, by SQL %s', key, value, dc_rank('rk_points', key), rank) FROM ranked WHERE dc_rank('rk_points', key) IS DISTINCT FROM rank
		UNION ALL
		SELECT format('page: %s, by SQL %s', a, r) FROM (SELECT key, value, rank FROM ranked WHERE n BETWEEN 5 AND 24) AS r FULL JOIN dc_at_rank('rk_points', 5, 20) AS a USING (key, value, rank) WHERE r IS NULL OR a IS NULL
	$$;
	-- To be called in a transaction of its own
	CREATE FUNCTION rk_check() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		wrong text := (SELECT string_agg(w, '; ') FROM rk_wrong() AS w);
	BEGIN
		IF wrong IS NOT NULL THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = wrong;
		END IF;
	END $$;
};

my $key = sub { 'k' . num(1, 80) };
my $value = sub { pick(num(-5, 5), num(0, 200), num(1000000, 1000020), pick('', '-') . num(1, 9) . '0' x num(1, 17)) };

sub room
{
	return {
		name => 'rank',
		schema => $schema,
		steps => [
			[ 6, sub { sprintf "SELECT dc_incr('rk_points', '%s', %s);\n", $key->(), pick(num(-9, 9), num(1, 1000000)) } ],
			[ 3, sub { sprintf "SELECT dc_set('rk_points', '%s', %s);\n", $key->(), $value->() } ],
			[ 1, sub { sprintf "SELECT dc_delete('rk_points', '%s');\n", $key->() } ],
			[ 1, sub { my $k = num(1, 60); sprintf "SELECT dc_load('rk_points', ARRAY['k%d', 'l%d'], ARRAY[%d, %d]);\n", $k, $k, num(1, 50), num(1, 50) } ],
			[ 1, sub { sprintf "UPDATE rk_points SET inc = inc + %d WHERE key = '%s';\n", num(1, 9), $key->() } ],
			[ 1, sub { sprintf "DELETE FROM rk_points WHERE key = 'l%d';\n", num(1, 60) } ],
			[ 1, sub { sprintf "SELECT dc_rank('rk_points', '%s'), (SELECT count(*) FROM dc_around('rk_points', '%s', %d));\n", $key->(), $key->(), num(0, 9) } ],
		],
		alone => [
			[ 1, sub { "SELECT dc_compact('rk_points');\n" } ],
			[ 0.5, sub { sprintf "CALL dc_build('rk_points_rank', %d);\n", num(5, 50) } ],
			[ 0.1, sub { 'BEGIN;
TRUNCATE rk_points;
SELECT dc_load(\'rk_points\', array_agg(\'k\' || i), array_agg(i % 7)) FROM generate_series(1, 60) AS i;
' . pick('COMMIT', 'ROLLBACK') . ";\n" } ],
		],
		roles => {
			ranks => {
				clients => 1,
				next => sub {
					return sprintf("BEGIN ISOLATION LEVEL %s;\nSELECT rk_check();\nSELECT rk_check();\nCOMMIT;\nSELECT pg_sleep(0.05);\n", pick('READ COMMITTED', 'REPEATABLE READ'));
				} },
		},
		tables => [ 'rk_points', 'rk_points_shard', 'rk_points_rank', 'rk_points_rank_shard' ],
		# a snapshot of before TRUNCATE
		allowed => '^25001: ',
		wrong => 'SELECT rk_wrong()',
		idle => q{SELECT format('%s keys are not compacted', count(*)) FROM (SELECT key FROM rk_points_shard GROUP BY key HAVING sum(inc) <> 0 OR sum(dec) <> 0) AS s HAVING count(*) > 0},
	};
}

1;
