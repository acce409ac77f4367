# Room of make chaos: stocks and holds.
#
# Restocks, takes and sets are logged in the same transaction; so is each hold, and
# how it ended if a client ended it. Units never appear or vanish: for each key, restocked -
# taken - confirmed - held is the available number, in each snapshot, and the same number, less those of
# holds that have expired and were not ended yet, is in the rows of the shard table, none of which
# is below zero. A hold ends once: the table of holds must agree with the log, except that an open
# one may have expired.
package DcChaos::Room::Stock;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_stock_create('seats', 16);
	CREATE TABLE log_stock (key text, n numeric);
	CREATE TABLE log_hold (hold_id uuid PRIMARY KEY, key text, qty bigint, keys text[], qtys bigint[]);
	-- what holds have of each key; of those that have expired, the first key's is available
	CREATE VIEW hold_line AS SELECT h.hold_id, h.state, h.confirmed, h.qty AS all_qty, l.key, l.qty, h.keys IS NULL AS single, h.expires_at <= statement_timestamp() AND l.key = h.key AS free
		FROM seats_hold AS h, LATERAL (SELECT h.key, h.qty WHERE h.keys IS NULL UNION ALL SELECT * FROM unnest(h.keys, h.qtys)) AS l(key, qty);
	CREATE TABLE log_end (hold_id uuid PRIMARY KEY, what text, qty bigint);

	CREATE FUNCTION s_restock(k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM dc_restock('seats', k, n);
		INSERT INTO log_stock VALUES (k, n);
	END $$;
	CREATE FUNCTION s_take(k text, n bigint, how text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		got bigint := CASE how WHEN 'up to' THEN dc_take_up_to('seats', k, n) ELSE n * dc_take('seats', k, n, how = 'wait')::int END;
	BEGIN
		IF got NOT BETWEEN 0 AND n THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('took %s of %s', got, n);
		END IF;
		INSERT INTO log_stock SELECT k, -got WHERE got > 0;
	END $$;
	CREATE FUNCTION s_cart(ks text[], ns bigint[]) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF dc_take_all('seats', ks, ns) THEN
			INSERT INTO log_stock SELECT k, -n FROM unnest(ks, ns) AS u(k, n);
		END IF;
	END $$;
	CREATE FUNCTION s_set(k text, v bigint) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		old bigint := CASE WHEN v IS NOT NULL THEN dc_set('seats', k, v) WHEN random() < 0.5 THEN dc_reset('seats', k) ELSE dc_delete('seats', k) END;
	BEGIN
		INSERT INTO log_stock VALUES (k, coalesce(v, 0) - coalesce(old, 0));
	END $$;
	CREATE FUNCTION s_hold(k text, n bigint, ttl interval, h uuid) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO log_hold SELECT got, k, n FROM dc_hold('seats', k, n, ttl, h) AS got WHERE got IS NOT NULL;
	END $$;
	CREATE FUNCTION s_hold_cart(ks text[], ns bigint[], ttl interval, h uuid) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO log_hold SELECT got, min(k), sum(n), CASE WHEN count(*) > 1 THEN array_agg(k ORDER BY k) END, CASE WHEN count(*) > 1 THEN array_agg(n ORDER BY k) END
		FROM dc_hold_all('seats', ks, ns, ttl, h) AS got, (SELECT k, sum(n)::bigint AS n FROM unnest(ks, ns) AS u(k, n) GROUP BY k) AS l WHERE got IS NOT NULL GROUP BY got;
	END $$;
	-- Ends any hold, of which "nth" chooses one; part: how much of it is confirmed, which may be more than it has
	CREATE FUNCTION s_end(nth float8, part float8) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		h record; answer text; n bigint;
	BEGIN
		SELECT hold_id, qty, keys INTO h FROM seats_hold WHERE state = 'open' OR random() < 0.01
		OFFSET nth * (SELECT count(*) FROM seats_hold WHERE state = 'open') LIMIT 1;
		IF h IS NULL THEN
			RETURN;
		END IF;
		n := CASE WHEN h.keys IS NULL THEN ceil(part * h.qty) END;
		BEGIN
			answer := CASE WHEN part IS NULL THEN dc_hold_release('seats', h.hold_id, strict => false) ELSE dc_hold_confirm('seats', h.hold_id, n, strict => false) END;
		EXCEPTION WHEN invalid_parameter_value THEN
			-- it must have been confirmed with another quantity
			IF EXISTS (SELECT FROM seats_hold WHERE hold_id = h.hold_id AND state = 'confirmed' AND confirmed <> n) THEN
				RETURN;
			END IF;
			RAISE;
		END;
		IF answer = (CASE WHEN part IS NULL THEN 'released' ELSE 'confirmed' END) THEN
			INSERT INTO log_end VALUES (h.hold_id, answer, CASE WHEN part IS NULL THEN 0 ELSE coalesce(n, h.qty) END);
		ELSIF answer NOT IN ('expired', 'released', 'confirmed', 'released already', 'confirmed already') AND (answer <> 'open' OR part <= 1) THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('ending hold %s: %s', h.hold_id, answer);
		END IF;
	END $$;

	CREATE FUNCTION s_books(OUT key text, OUT logged numeric, OUT confirmed numeric, OUT held numeric, OUT expired numeric, OUT available bigint) RETURNS SETOF record LANGUAGE sql AS $$
		WITH keys AS (SELECT key FROM log_stock UNION SELECT key FROM seats UNION SELECT key FROM seats_shard),
		log AS (SELECT key, sum(n) AS n FROM log_stock GROUP BY key),
		hold AS (SELECT h.key, sum(CASE WHEN single THEN h.confirmed ELSE h.qty END) FILTER (WHERE state = 'confirmed') AS confirmed, sum(h.qty) FILTER (WHERE state = 'open' AND NOT free) AS open, sum(h.qty) FILTER (WHERE state = 'open' AND free) AS expired FROM hold_line AS h GROUP BY h.key)
		SELECT key, coalesce(n, 0), coalesce(hold.confirmed, 0), coalesce(open, 0), coalesce(hold.expired, 0), dc_get('seats', key) FROM keys LEFT JOIN log USING (key) LEFT JOIN hold USING (key)
	$$;
	CREATE FUNCTION s_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		WITH rows AS (SELECT key, sum(units) AS units, min(units) AS least FROM seats_shard GROUP BY key)
		SELECT format('seats %s: restocked less taken %s, confirmed %s, held %s, available %s, expired %s, in rows %s, least %s', key, logged, confirmed, held, available, expired, units, least)
		FROM s_books() LEFT JOIN rows USING (key)
		WHERE logged - confirmed - held <> available OR available < 0 OR coalesce(units, 0) <> available - expired OR least < 0
		UNION ALL
		SELECT format('hold %s of %s: %s with %s, logged %s as %s with %s', coalesce(h.hold_id, l.hold_id), h.qty, h.state, h.confirmed, l.qty, e.what, e.qty)
		FROM seats_hold AS h FULL JOIN log_hold AS l USING (hold_id) LEFT JOIN log_end AS e ON e.hold_id = l.hold_id
		WHERE h.hold_id IS NULL OR l.hold_id IS NULL OR (h.key, h.qty, h.keys, h.qtys) IS DISTINCT FROM (l.key, l.qty, l.keys, l.qtys)
			OR CASE WHEN e.what IS NULL THEN h.state NOT IN ('open', 'expired') ELSE h.state <> e.what END
			OR CASE WHEN e.what = 'confirmed' THEN h.confirmed <> e.qty ELSE coalesce(h.confirmed, 0) <> 0 END
	$$;
	SELECT s_restock('k' || i, 40) FROM generate_series(1, 20) AS i;
};

# A hold whose time is up by the server's clock ends
my $idle = q{SELECT format('hold %s should have expired at %s', hold_id, expires_at) FROM seats_hold WHERE state = 'open' AND expires_at < clock_timestamp() - interval '1 s'};

# finish(RUN): ends all holds, and sells exactly what is left
sub finish
{
	my ($run) = @_;

	return $run->ask(q{
		SELECT format('release of %s: %s', hold_id, answer) FROM (SELECT hold_id, dc_hold_release('seats', hold_id, strict => false) AS answer FROM seats_hold WHERE state = 'open') AS r
		WHERE answer NOT IN ('released', 'expired');
		SELECT format('%s: %s of %s sold', key, got, available) FROM (SELECT key, available, dc_take_up_to('seats', key, 1000000000) AS got FROM s_books()) AS s WHERE got <> available;
		SELECT format('%s: sold more', key) FROM seats WHERE dc_take('seats', key);
		SELECT format('units left: %s', u) FROM (SELECT sum(units) AS u FROM seats_shard) AS s WHERE u <> 0;});
}

sub room
{
	return {
		name => 'stock',
		schema => $schema,
		steps => [
			[ 5, sub { sprintf "SELECT s_restock('%s', %d);\n", key('k', 20), num(1, 20) } ],
			[ 8, sub { sprintf "SELECT s_take('%s', %d, '%s');\n", key('k', 20), num(1, 6), pick('take', 'take', 'up to', 'wait') } ],
			[ 2, sub { my @k = map { key('k', 20) } 1 .. num(1, 5); sprintf "SELECT s_cart('{%s}', '{%s}');\n", join(',', @k), join(',', map { num(1, 3) } @k) } ],
			[ 4, sub { sprintf "SELECT s_hold('%s', %d, '%d ms', '%s');\n", key('k', 20), num(1, 4), num(10, 3000), uuid() } ],
			[ 5, sub { sprintf "SELECT s_end(%.3f, %s);\n", rand(), chance(0.5) ? 'NULL' : sprintf('%.2f', 0.01 + rand(chance(0.2) ? 3 : 0.98)) } ],
			[ 3, sub { my @k = map { key('k', 20) } 1 .. num(1, 4); sprintf "SELECT s_hold_cart('{%s}', '{%s}', '%d ms', '%s');\n", join(',', @k), join(',', map { num(1, 3) } @k), num(10, 3000), uuid() } ],
			[ 0.3, sub { sprintf "SELECT s_set('%s', %s);\n", key('k', 20), pick('NULL', num(0, 50)) } ],
		],
		tables => [ 'seats', 'seats_shard', 'seats_hold' ],
		alters => sub { "SELECT dc_alter('seats', max_shards => " . num(1, 32) . ')' },
		snapshot => 1,
		wrong => 'SELECT s_wrong()',
		idle => $idle,
		finish => \&finish,
	};
}

sub uuid
{
	return join('-', map { my $n = $_; join('', map { sprintf '%04x', rand(65536) } 1 .. $n) } 2, 1, 1, 1, 3);
}

1;
