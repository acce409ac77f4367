# Room of make chaos: dcounter_lite beside the extension, as one more owner's code.
#
# Its functions are in the schema "lite". Increments, sets, takes, restocks and ops are logged in the same transaction, those of one counter with what
# make_writer() makes, those of the other one without. So in each snapshot each value is the sum of its log, and units of the stock, restocked less taken,
# sold and held, are those in its rows.
package DcChaos::Room::Lite;

use strict;
use warnings;

use DcChaos::Mix;
use File::Basename qw(dirname);

my $schema = q{
	SELECT lite.dc_create('lt_plain'), lite.dc_create('lt_written'), lite.dc_stock_create('lt_seats', 16);
	-- so that the tables of ops are there
	SELECT lite.dc_incr_once(c, 'k1', 1, 'first') FROM unnest(ARRAY['lt_plain', 'lt_written']::regclass[]) AS c;
	SELECT dcounter_lite.make_writer('lt_written'), dcounter_lite.make_writer('lt_seats');
	CREATE TABLE log_lite (counter text, key text, n numeric);
	CREATE TABLE log_lite_once (counter text, event text, key text, n bigint, PRIMARY KEY (counter, event));
	INSERT INTO log_lite_once SELECT c, 'first', 'k1', 1 FROM unnest(ARRAY['lt_plain', 'lt_written']) AS c;

	CREATE FUNCTION lt_incr(c text, k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM lite.dc_incr(c::regclass, k, n);
		INSERT INTO log_lite VALUES (c, k, n);
	END $$;
	CREATE FUNCTION lt_many(c text, ks text[], ns bigint[]) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM lite.dc_incr_many(c::regclass, ks, ns);
		INSERT INTO log_lite SELECT c, k, n FROM unnest(ks, ns) AS u(k, n);
	END $$;
	-- Setters need READ COMMITTED
	CREATE FUNCTION lt_set(c text, k text, v bigint) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		old bigint;
	BEGIN
		IF current_setting('transaction_isolation') = 'read committed' THEN
			old := CASE WHEN v IS NOT NULL THEN lite.dc_set(c::regclass, k, v) WHEN random() < 0.5 THEN lite.dc_reset(c::regclass, k) ELSE lite.dc_delete(c::regclass, k) END;
			INSERT INTO log_lite VALUES (c, k, coalesce(v, 0) - coalesce(old, 0));
		END IF;
	END $$;
	CREATE FUNCTION lt_once(c text, e text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		k text := 'k' || (hashtext(e) & 7);
		n bigint := 1 + (hashtext(e) >> 8 & 7);
	BEGIN
		IF lite.dc_incr_once(c::regclass, k, n, e) THEN
			INSERT INTO log_lite_once VALUES (c, e, k, n);
		ELSIF NOT EXISTS (SELECT FROM log_lite_once WHERE counter = c AND event = e) THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('%s: event %s is said to be applied, and is not in the log', c, e);
		END IF;
	END $$;
	CREATE FUNCTION lt_restock(k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM lite.dc_restock('lt_seats', k, n);
		INSERT INTO log_lite VALUES ('lt_seats', k, n);
	END $$;
	CREATE FUNCTION lt_take(k text, n bigint, how text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		got bigint := CASE how WHEN 'up to' THEN lite.dc_take_up_to('lt_seats', k, n) ELSE n * lite.dc_take('lt_seats', k, n, how = 'wait')::int END;
	BEGIN
		IF got NOT BETWEEN 0 AND n THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('took %s of %s', got, n);
		END IF;
		INSERT INTO log_lite SELECT 'lt_seats', k, -got WHERE got > 0;
	END $$;
	CREATE FUNCTION lt_cart(ks text[], ns bigint[]) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF lite.dc_take_all('lt_seats', ks, ns) THEN
			INSERT INTO log_lite SELECT 'lt_seats', k, -n FROM unnest(ks, ns) AS u(k, n);
		END IF;
	END $$;
	-- Ends any hold, of which "nth" chooses one; part: how much of it is confirmed, which may be more than it has
	CREATE FUNCTION lt_end(nth float8, part float8) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		h record; answer text;
	BEGIN
		SELECT hold_id, key, qty, keys, qtys, CASE WHEN keys IS NULL THEN ceil(part * qty)::bigint END AS n INTO h FROM lt_seats_hold WHERE state = 'open' OFFSET nth * (SELECT count(*) FROM lt_seats_hold WHERE state = 'open') LIMIT 1;
		BEGIN
			answer := CASE WHEN h IS NULL THEN 'open' WHEN part IS NULL THEN lite.dc_hold_release('lt_seats', h.hold_id, strict => false)
				ELSE lite.dc_hold_confirm('lt_seats', h.hold_id, h.n, strict => false) END;
		EXCEPTION WHEN invalid_parameter_value THEN
			-- it must have been confirmed with another quantity
			IF NOT EXISTS (SELECT FROM lt_seats_hold WHERE hold_id = h.hold_id AND state = 'confirmed') THEN
				RAISE;
			END IF;
		END;
		-- dc_maintain() removes the row a day later
		IF answer = 'confirmed' THEN
			INSERT INTO log_lite SELECT 'lt_seats', l.line_key, -coalesce(h.n, l.line_qty) FROM dcounter_lite.hold_lines(h.key, h.qty, h.keys, h.qtys) AS l;
		ELSIF answer NOT IN ('open', 'unknown', 'expired', 'released', 'confirmed', 'released already', 'confirmed already') THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('ending hold %s: %s', h.hold_id, answer);
		END IF;
	END $$;
	-- The ring has three partitions to turn to: the ops of the first one are kept
	CREATE FUNCTION lt_turn(c text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		UPDATE dcounter_lite.op_slot SET since = since - interval '4 days' WHERE counter = c::regclass AND state = 'open';
		PERFORM dcounter_lite.turn_ring(c::regclass);
	END $$;

	CREATE FUNCTION lt_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		WITH log AS (SELECT counter, key, sum(n) AS n FROM (SELECT counter, key, n FROM log_lite UNION ALL SELECT counter, key, n FROM log_lite_once) AS l GROUP BY counter, key),
		hold AS (SELECT l.line_key AS key, sum(l.line_qty) AS open
			FROM lt_seats_hold AS h, dcounter_lite.hold_lines(h.key, h.qty, h.keys, h.qtys) AS l WHERE state = 'open' GROUP BY l.line_key),
		rows AS (SELECT key, sum(units) AS units, min(units) AS least FROM lt_seats_shard GROUP BY key)
		SELECT format('%s %s: value %s, log %s', counter, key, value, n) FROM log, LATERAL lite.dc_get(counter::regclass, key) AS value WHERE counter <> 'lt_seats' AND value <> n
		UNION ALL SELECT format('%s: dc_sum %s, log %s', c, lite.dc_sum(c::regclass), n) FROM unnest(ARRAY['lt_plain', 'lt_written']) AS c,
			LATERAL (SELECT sum(n) AS n FROM log WHERE counter = c) AS l WHERE lite.dc_sum(c::regclass) <> n
		UNION ALL SELECT format('lt_seats %s: log %s, open %s, value %s, units %s, least %s', key, n, open, value, units, least)
			FROM log LEFT JOIN hold USING (key) LEFT JOIN rows USING (key), LATERAL lite.dc_get('lt_seats', key) AS value
			WHERE counter = 'lt_seats' AND (value <> n - coalesce(open, 0) OR value <> coalesce(units, 0) OR least < 0)
		UNION ALL SELECT format('%s event %s: dc_op_status says %s', counter, event, s) FROM (SELECT * FROM log_lite_once ORDER BY random() LIMIT 50) AS l
		LEFT JOIN LATERAL lite.dc_op_status(counter::regclass, event) AS s ON true WHERE s.applied IS NOT TRUE OR (s.key, s.delta) <> (l.key, l.n)
	$$;
	SELECT lt_restock('k' || i, 40) FROM generate_series(0, 9) AS i;
};

# the file, as build.sh makes it
sub file
{
	my $sql = '';

	foreach my $part (sort glob(dirname(__FILE__) . '/../../../../lite/parts/*.sql'))
	{
		open(my $in, '<', $part) or die "$part: $!";
		local $/ = undef;
		$sql .= <$in>;
	}
	return $sql =~ s/\@VERSION\@/chaos/gr;
}

sub counter
{
	return pick('lt_plain', 'lt_written');
}

sub cart
{
	my @k = map { key('k', 9) } 1 .. num(1, 5);

	return sprintf("'{%s}', '{%s}'", join(',', @k), join(',', map { num(1, 3) } @k));
}

sub uuid
{
	return join('-', map { my $n = $_; join('', map { sprintf '%04x', rand(65536) } 1 .. $n) } 2, 1, 1, 1, 3);
}

# finish(RUN): compacts all, and sells exactly what is left
sub finish
{
	my ($run) = @_;

	return $run->ask(q{
		SELECT format('release of %s: %s', hold_id, answer) FROM (SELECT hold_id, lite.dc_hold_release('lt_seats', hold_id, strict => false) AS answer FROM lt_seats_hold WHERE state = 'open') AS r
		WHERE answer NOT IN ('released', 'expired');
		SELECT 'compaction' WHERE lite.dc_compact() < 0;
		SELECT lt_wrong();
		SELECT format('%s: total %s of %s', key, value, lite.dc_get('lt_plain', key)) FROM lt_plain WHERE value <> lite.dc_get('lt_plain', key);
		SELECT format('%s: %s of %s sold', key, got, available) FROM (SELECT key, available, lite.dc_take_up_to('lt_seats', key, 1000000000) AS got
			FROM (SELECT key, lite.dc_get('lt_seats', key) AS available FROM lt_seats) AS a) AS s WHERE got <> available;
		SELECT format('units left: %s', u) FROM (SELECT sum(units) AS u FROM lt_seats_shard) AS s WHERE u <> 0;});
}

sub room
{
	return {
		name => 'lite',
		schema => "CREATE SCHEMA lite;\nSET search_path = lite;\n" . file() . "RESET search_path;\n$schema",
		steps => [
			[ 6, sub { sprintf "SELECT lt_incr('%s', '%s', %d);\n", counter(), key('k', 9), num(-9, 9) } ],
			[ 1, sub { sprintf "SELECT lt_many('%s', %s);\n", counter(), cart() } ],
			[ 0.3, sub { sprintf "SELECT lt_set('%s', '%s', %s);\n", pick(counter(), 'lt_seats'), key('k', 9), pick('NULL', num(0, 50)) } ],
			[ 3, sub { sprintf "SELECT lt_once('%s', 'event %d');\n", counter(), chance(0.5) ? num(1, 300) : num(1, 1_000_000_000) } ],
			[ 2, sub { sprintf "SELECT lt_restock('%s', %d);\n", key('k', 9), num(1, 20) } ],
			[ 4, sub { sprintf "SELECT lt_take('%s', %d, '%s');\n", key('k', 9), num(1, 6), pick('take', 'take', 'up to', 'wait') } ],
			[ 1, sub { sprintf "SELECT lt_cart(%s);\n", cart() } ],
			[ 2, sub { sprintf "SELECT count(lite.dc_hold('lt_seats', '%s', %d, '%d ms', '%s'));\n", key('k', 9), num(1, 4), num(10, 3000), uuid() } ],
			[ 2, sub { sprintf "SELECT lt_end(%.3f, %s);\n", rand(), chance(0.5) ? 'NULL' : sprintf('%.2f', 0.01 + rand(chance(0.2) ? 3 : 0.98)) } ],
			[ 1, sub { sprintf "SELECT count(lite.dc_hold_all('lt_seats', %s, '%d ms', '%s'));\n", cart(), num(10, 3000), uuid() } ],
		],
		alone => [ [ 2, sub { pick("CALL lite.dc_maintain();\n", "SELECT lite.dc_compact() >= 0;\n") } ] ],
		tables => [ map { ($_, "${_}_shard") } 'lt_plain', 'lt_written', 'lt_seats' ],
		alters => sub { pick("SELECT lite.dc_alter('lt_seats', max_shards => " . num(1, 32) . ')', sprintf("SELECT lt_turn('%s')", counter())) },
		snapshot => 1,
		wrong => 'SELECT lt_wrong()',
		finish => \&finish,
	};
}

1;
