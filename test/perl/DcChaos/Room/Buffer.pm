# Room of make chaos: buffered counters, async and sync.
#
# Increments are logged in the same transaction, with the time of a clock that is never
# set (the machine's uptime). Without a crash a key is the sum of its log: nothing is
# lost by a clean stop, and nothing is counted twice. After a crash what is missing must be
# part of what was logged in the last interval before it (and some seconds for the server
# to get to it), and for the table "pings", which is sync, part of what no client was
# told is committed. "quiet" is flushed by the worker alone, by its interval. There cannot be more
# than the log says, as flushed increments belong to durable transactions. Lost increments are then
# logged as lost, so the comparison is exact again.
package DcChaos::Room::Buffer;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_create('views', mode => 'buffered', flush_interval => '1 s');
	SELECT dc_create('hits', mode => 'buffered', flush_interval => '20 ms', shard_by => 'random');
	SELECT dc_create('pings', mode => 'buffered', flush_interval => '8 s', durability => 'sync');
	SELECT dc_create('quiet', mode => 'buffered', flush_interval => '1 s');
	CREATE TABLE log_buffer (counter text, key text, n numeric, client text, number int, at float8);

	CREATE FUNCTION uptime() RETURNS float8 LANGUAGE sql AS $$ SELECT split_part(pg_read_file('/proc/uptime', 0, 40), ' ', 1)::float8 $$;
	CREATE FUNCTION b_incr(c text, k text, n bigint, client text, number int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM dc_incr(c::regclass, k, n);
		INSERT INTO log_buffer VALUES (c, k, n, client, number, uptime());
	END $$;
	CREATE FUNCTION b_many(c text, first int, count int, n bigint, client text, number int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM dc_incr_many(c::regclass, array_agg('m' || i), array_agg(n)) FROM generate_series(first, first + count - 1) AS i;
		INSERT INTO log_buffer SELECT c, 'm' || i, n, client, number, uptime() FROM generate_series(first, first + count - 1) AS i;
	END $$;
	-- Forty keys, one of them with an amount that goes to rows
	CREATE FUNCTION b_large(c text, client text, number int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM b_many(c, 1, 39, 1, client, number), b_incr(c, 'large', 2199023255552, client, number);
	END $$;
	CREATE FUNCTION b_set(c text, k text, v bigint, client text, number int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		old bigint := CASE WHEN v IS NOT NULL THEN dc_set(c::regclass, k, v) WHEN random() < 0.5 THEN dc_reset(c::regclass, k) ELSE dc_delete(c::regclass, k) END;
	BEGIN
		-- rows of its own transaction, which no crash takes: not from that time
		INSERT INTO log_buffer VALUES (c, k, coalesce(v, 0) - coalesce(old, 0), client, number, -1);
	END $$;

	-- Values, the log, and what of it a crash of this round may have taken
	CREATE FUNCTION b_books(c text, OUT key text, OUT value bigint, OUT logged numeric, OUT losable numeric) RETURNS SETOF record LANGUAGE sql AS $$
		WITH log AS (
			SELECT key, sum(n) AS n, coalesce(sum(n) FILTER (WHERE at > (SELECT min(at) FROM chaos_crash) - 11
				AND NOT (counter = 'pings' AND EXISTS (SELECT FROM chaos_ack AS a WHERE (a.client, a.number) = (l.client, l.number)))), 0) AS losable
			FROM log_buffer AS l WHERE counter = c GROUP BY key)
		SELECT key, value, n, losable FROM dc_get_many(c::regclass, ARRAY(SELECT key FROM log)) JOIN log USING (key)
	$$;
	CREATE FUNCTION b_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		SELECT format('%s %s: value %s, log %s, of which the crash may have taken %s', c, key, value, logged, losable)
		FROM unnest(ARRAY['views', 'hits', 'pings', 'quiet']) AS c, b_books(c) WHERE value NOT BETWEEN logged - losable AND logged
	$$;
	CREATE FUNCTION b_settle() RETURNS bigint LANGUAGE sql AS $$
		WITH lost AS (INSERT INTO log_buffer SELECT c, key, value - logged, 'lost', 0, -1
			FROM unnest(ARRAY['views', 'hits', 'pings', 'quiet']) AS c, b_books(c) WHERE value <> logged RETURNING 1)
		SELECT count(*) FROM lost
	$$;
};

# Nothing is left in memory, except for "pings", whose interval is long: there a commit waits for
# the flush that it asks for
my $idle = q{SELECT format('%s: %s keys in memory for %s', counter, keys, oldest) FROM dc_stat_buffer WHERE increments > 0 AND counter <> 'pings'::regclass};

sub any_or_quiet
{
	return chance(0.2) ? 'quiet' : any_counter();
}

sub any_counter
{
	return pick('views', 'views', 'hits', 'pings');
}

sub alters
{
	return "SELECT dc_alter('views', " . pick("flush_interval => '" . num(50, 1000) . " ms'", 'mode => ' . pick(q{'buffered'}, q{'buffered'}, q{'exact'}), 'durability => ' . pick(q{'async'}, q{'sync'})) . ')'
	  if chance(0.7);
	return pick("SELECT dc_alter('pings', flush_interval => '" . num(20, 9000) . " ms')", "SELECT dc_alter('hits', flush_interval => '" . num(1, 500) . " ms')");
}

sub room
{
	return {
		name => 'buffer',
		schema => $schema,
		steps => [
			[ 12, sub { sprintf "SELECT b_incr('%s', '%s', %d, %s);\n", any_or_quiet(), key('k', 12), num(1, 5), $_[0] } ],
			[ 6, sub { sprintf "SELECT b_incr('%s', '%s', %d, %s);\n", any_or_quiet(), key('g', 3), num(1, 5), $_[0] } ],
			[ 1, sub { sprintf "SELECT b_many('%s', %d, %d, %d, %s);\n", any_counter(), num(1, 100), num(1, 300), num(1, 4), $_[0] } ],
			# more than memory holds, if that is small, after rows of exact ones
			[ 0.5, sub { sprintf "SELECT c_many('%s', 1, %d, 1);\nSELECT b_many('%s', %d, %d, 1, %s);\n", pick('likes', 'spread'), num(100, 1000), any_counter(), num(1, 50), num(200, 900), $_[0] } ],
			[ 0.4, sub { sprintf "SELECT b_large('%s', %s);\n", any_counter(), $_[0] } ],
			[ 0.6, sub { sprintf "SELECT b_set('%s', '%s', %s, %s);\n", any_counter(), key('k', 12), pick('NULL', num(0, 1000)), $_[0] } ],
		],
		alone => [
			[ 3, sub { my $c = any_counter(); my $k = key('g', 3); "SELECT read_forward('$c', '$k');\n" x num(1, 4) } ],
			[ 6, sub { sprintf "SELECT b_incr('%s', '%s', %d, %s);\n", any_or_quiet(), key('k', 12), num(1, 5), $_[0] } ],
			[ 0.5, sub { sprintf "SELECT dc_flush('%s');\n", any_counter() } ],
		],
		tables => [ map { ($_, "${_}_shard") } 'views', 'hits', 'pings', 'quiet' ],
		alters => \&alters,
		# a flush in the transaction of dc_set cannot be prepared
		allowed => '^0A000: cannot PREPARE|^0A000: .*prepare',
		wrong => 'SELECT b_wrong()',
		settled => 'SELECT b_settle()',
		idle => $idle,
	};
}

1;
