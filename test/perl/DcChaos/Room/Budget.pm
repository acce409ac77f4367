# Room of make chaos: budgets.
#
# What a settlement has cost is logged in the same transaction. In any snapshot the books of each key balance, no row of units is below zero, and what
# reservations have settled is what the log says, whatever was cancelled, killed or rolled back. A reservation ends once: its id is a key of the log.
package DcChaos::Room::Budget;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_budget_create('bg');
	CREATE TABLE bg_log (id uuid, key text, cost bigint, PRIMARY KEY (id, key));
	SELECT dc_grant('bg', 'k' || i, 1000, 'first') FROM generate_series(1, 6) AS i;

	CREATE FUNCTION bg_wrong() RETURNS SETOF text LANGUAGE sql VOLATILE AS $$
		SELECT format('books: %s', c) FROM dc_budget_check('bg') AS c
		UNION ALL SELECT format('units: %s', s) FROM bg_pool_shard AS s WHERE units < 0
		UNION ALL SELECT format('settled of %s: %s, log %s', coalesce(l.key, r.key), r.cost, l.cost) FROM (SELECT key, sum(cost) AS cost FROM bg_log GROUP BY key) AS l
			FULL JOIN (SELECT u.key, sum(u.cost) AS cost FROM bg_reservation, unnest(keys, settled) AS u (key, cost) WHERE state = 'settled' GROUP BY u.key) AS r USING (key) WHERE l.cost IS DISTINCT FROM r.cost
	$$;
	-- To be called in a transaction of its own
	CREATE FUNCTION bg_check() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		wrong text := (SELECT string_agg(w, '; ') FROM bg_wrong() AS w);
	BEGIN
		IF wrong IS NOT NULL THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = wrong;
		END IF;
	END $$;
	-- Ends any reservation, of which "nth" chooses one: settles "part" of each amount, or releases it
	CREATE FUNCTION bg_end(nth float8, part float8) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		r record;
		costs bigint[];
		answer text;
	BEGIN
		SELECT * INTO r FROM bg_reservation WHERE state IN ('open', 'expired') OFFSET nth * (SELECT count(*) FROM bg_reservation WHERE state IN ('open', 'expired')) LIMIT 1;
		IF r.reservation_id IS NULL THEN
			RETURN;
		ELSIF part IS NULL THEN
			IF r.state = 'open' THEN
				PERFORM dc_release('bg', r.reservation_id);
			END IF;
			RETURN;
		END IF;
		costs := ARRAY(SELECT ceil(a * part) FROM unnest(r.amounts) AS a);
		answer := dc_settle('bg', r.reservation_id, costs);
		IF answer <> 'settled already' THEN
			INSERT INTO bg_log SELECT r.reservation_id, u.key, u.cost FROM unnest(r.keys, costs) AS u (key, cost);
		END IF;
	EXCEPTION WHEN object_not_in_prerequisite_state OR invalid_parameter_value THEN
		RETURN; -- another session has ended it, otherwise
	END $$;
};

my $key = sub { 'k' . num(1, 8) };
my $ttl = sub { pick('1 hour', '1 day', '1 us', '100 ms') };

sub room
{
	return {
		name => 'budget',
		schema => $schema,
		steps => [
			[ 6, sub { sprintf "SELECT dc_reserve('bg', '%s', %d, gen_random_uuid(), '%s', at_least => %s);\n", $key->(), num(10, 200), $ttl->(), pick('NULL', num(1, 10)) } ],
			[ 3, sub { my $k = num(1, 5); sprintf "SELECT dc_reserve_all('bg', ARRAY['k%d', 'k%d', 'org'], ARRAY[%d, %d, 10], gen_random_uuid(), '%s');\n", $k + 1, $k, num(1, 90), num(1, 90), $ttl->() } ],
			[ 8, sub { sprintf "SELECT bg_end(%s, %s);\n", rand(), pick('NULL', '0', '0.02', '0.5', '1', '1', '2', '10') } ],
			[ 2, sub { sprintf "SELECT dc_grant('bg', '%s', %d, 'g%d', %s, %d);\n", pick('org', $key->()), num(0, 2000), num(1, 5), pick(q{'infinity'}, q{clock_timestamp() + interval '1 s'}, q{clock_timestamp() + interval '1 day'}), num(0, 1) } ],
			[ 2, sub { sprintf "SELECT dc_allowance('bg', '%s', %d, '%s');\n", $key->(), num(100, 102), pick('1 second', '1 second', '1 month') } ],
			[ 1, sub { sprintf "SELECT * FROM dc_budget('bg', '%s');\n", $key->() } ],
		],
		roles => {
			books => {
				clients => 1,
				next => sub {
					return sprintf("BEGIN ISOLATION LEVEL %s;\nSELECT bg_check();\nCOMMIT;\nSELECT pg_sleep(0.05);\n", 'REPEATABLE READ');
				} },
		},
		tables => [ 'bg', 'bg_pool', 'bg_pool_shard', 'bg_pool_hold', 'bg_reservation' ],
		wrong => 'SELECT bg_wrong()',
		idle => q{SELECT format('%s reservations whose time is up are open', count(*)) FROM bg_reservation WHERE state = 'open' AND expires_at < clock_timestamp() HAVING count(*) > 0},
	};
}

1;
