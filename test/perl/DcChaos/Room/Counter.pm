# Room of make chaos: exact counters.
#
# Each call is logged with the amount by which it changed the key, in the same transaction:
# increments with their delta, dc_set and its relatives with the new value less the old one
# that they return, which is exact since they lock the key. So in any snapshot the value
# of a key is the sum of its log. Keys g1 to g3 only grow: of these no session may ever
# read less than it has read before.
package DcChaos::Room::Counter;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_create('likes');
	SELECT dc_create('spread', shard_by => 'random', max_shards => 4);
	SELECT dc_create('told', shard_by => 'hash');
	SELECT dc_alter('told', events => '100 ms', notify => 'told');
	CREATE TABLE log_counter (counter text, key text, n numeric);

	CREATE FUNCTION c_incr(c text, k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF n < 0 THEN
			PERFORM dc_decr(c::regclass, k, -n);
		ELSIF n % 3 = 0 THEN
			PERFORM dc_incr_hashed(c::regclass, k, n::text, n);
		ELSE
			PERFORM dc_incr(c::regclass, k, n);
		END IF;
		INSERT INTO log_counter VALUES (c, k, n);
	END $$;
	CREATE FUNCTION c_many(c text, first int, count int, n bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM dc_incr_many(c::regclass, array_agg('m' || i), array_agg(n)) FROM generate_series(first, first + count - 1) AS i;
		INSERT INTO log_counter SELECT c, 'm' || i, n FROM generate_series(first, first + count - 1) AS i;
	END $$;
	CREATE FUNCTION c_set(c text, k text, v bigint) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		old bigint := CASE WHEN v IS NOT NULL THEN dc_set(c::regclass, k, v) WHEN random() < 0.5 THEN dc_reset(c::regclass, k) ELSE dc_delete(c::regclass, k) END;
	BEGIN
		INSERT INTO log_counter VALUES (c, k, coalesce(v, 0) - coalesce(old, 0));
	END $$;

	-- To be called in a transaction of its own. The session remembers what was read.
	CREATE FUNCTION read_forward(c text, k text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		name text := format('chaos.%s_%s', c, k);
		before bigint := coalesce(nullif(current_setting(name, true), ''), '0');
		now bigint := dc_get(c::regclass, k);
	BEGIN
		IF now < before THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('reads of %s %s went back from %s to %s', c, k, before, now);
		END IF;
		PERFORM set_config(name, now::text, false);
	END $$;

	CREATE FUNCTION c_wrong() RETURNS SETOF text LANGUAGE plpgsql AS $$
	DECLARE
		c text;
	BEGIN
		FOREACH c IN ARRAY ARRAY['likes', 'spread', 'told'] LOOP
			RETURN QUERY EXECUTE format($q$
				WITH log AS (SELECT key, sum(n) AS n FROM log_counter WHERE counter = %1$L GROUP BY key),
				stored AS (SELECT key, sum(inc - dec) AS n FROM (SELECT key, inc, dec FROM %1$I UNION ALL SELECT key, inc, dec FROM %2$I) AS u GROUP BY key),
				keys AS (SELECT key FROM log UNION SELECT key FROM stored),
				counted AS (SELECT * FROM dc_get_many(%1$L, ARRAY(SELECT key FROM keys)))
				SELECT format('%%s %%s: dc_get_many %%s, in tables %%s, log %%s', %1$L, key, value, s.n, l.n)
				FROM counted LEFT JOIN stored AS s USING (key) LEFT JOIN log AS l USING (key)
				WHERE value <> coalesce(l.n, 0) OR coalesce(s.n, 0) <> coalesce(l.n, 0) OR dc_get(%1$L, key) <> value
				UNION ALL
				SELECT format('%%s: dc_sum %%s, log %%s', %1$L, dc_sum(%1$L), (SELECT sum(n) FROM log))
				WHERE dc_sum(%1$L) <> (SELECT coalesce(sum(n), 0) FROM log)$q$, c, c || '_shard');
		END LOOP;
	END $$;
};

# The state that jobs must reach in the end: no amount is left in shard rows
my $idle = join(' UNION ALL ', map {
	"SELECT format('%s: %s keys are not compacted', '$_', count(*)) FROM (SELECT key FROM ${_}_shard GROUP BY key HAVING sum(inc) <> 0 OR sum(dec) <> 0) AS s HAVING count(*) > 0"
} 'likes', 'spread', 'told');

my @counters = ('likes', 'likes', 'spread', 'told');

sub any_counter
{
	return pick(@counters);
}

sub alters
{
	my $counter = any_counter();

	return "SELECT dc_alter('$counter', " . pick('shard_by => ' . pick(q{'random'}, q{'backend'}, q{'hash'}), 'max_shards => ' . num(1, 32)) . ')';
}

sub room
{
	return {
		name => 'counter',
		schema => $schema,
		steps => [
			[ 12, sub { sprintf "SELECT c_incr('%s', '%s', %d);\n", any_counter(), key('k', 12), num(-3, 9) } ],
			[ 6, sub { sprintf "SELECT c_incr('%s', '%s', %d);\n", any_counter(), key('g', 3), num(1, 5) } ],
			[ 2, sub { my $c = any_counter(); statements(map { sprintf "c_incr('%s', '%s', %d)", $c, key('k', 12), num(1, 3) } 1 .. 5) } ],
			[ 1, sub { sprintf "SELECT c_many('%s', %d, %d, %d);\n", any_counter(), num(1, 100), num(1, 300), num(1, 4) } ],
			[ 0.3, sub { sprintf "SELECT c_many('%s', %d, %d, %d);\n", any_counter(), num(1, 400), num(500, 1500), num(1, 4) } ],
			[ 1, sub { sprintf "SELECT c_set('%s', '%s', %s);\n", any_counter(), key('k', 12), pick('NULL', num(0, 1000)) } ],
			[ 1, sub { "SELECT dc_apply();\n" } ],
			[ 0.2, sub { sprintf "SELECT c_incr('%s', 'b%d', %s);\n", any_counter(), num(1, 3), pick('2199023255552', '-2199023255552') } ],
		],
		alone => [
			[ 3, sub { my $c = any_counter(); my $k = key('g', 3); "SELECT read_forward('$c', '$k');\n" x num(1, 4) } ],
			[ 1, sub { sprintf "SELECT c_incr('%s', '%s', %d);\n", any_counter(), key('k', 12), num(1, 9) } ],
			[ 0.3, sub { sprintf "SELECT dc_compact('%s');\n", any_counter() } ],
		],
		tables => [ map { ($_, "${_}_shard") } 'likes', 'spread', 'told' ],
		alters => \&alters,
		snapshot => 1,
		wrong => 'SELECT c_wrong()',
		idle => $idle,
	};
}

1;
