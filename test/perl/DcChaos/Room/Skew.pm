# Room of make chaos: write skew.
#
# Pairs of keys, each worth 0 or 1 modulo 1000. A SERIALIZABLE transaction reads both, and
# if both are 1 it takes one of them, in any of the ways to do that; if one is 0 it is set
# back to 1. One after the other, such transactions never see two zeros, nor anything but 0
# and 1; so a committed row in chaos_skew that says so is a write skew. Others add 1000 at
# READ COMMITTED, which does not change who is 1, and compact all the time: what compaction
# does to a row must not hide a conflict.
#
# All that is so if every move is SERIALIZABLE, which a move checks. What moves have
# read and done is in chaos_moves, so that a skew can be explained: which transaction did not see
# which.
package DcChaos::Room::Skew;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_create('pairs');
	SELECT dc_stock_create('twins', 4);
	CREATE TABLE chaos_skew (what text, pair text, x bigint, y bigint, xid xid8);
	CREATE TABLE chaos_moves (xid xid8, seen pg_snapshot, what text, pair text, x bigint, y bigint, moved text);
	SELECT dc_incr('pairs', p || side, 1), dc_restock('twins', p || side, 1) FROM generate_series(1, 3) AS p, unnest(ARRAY['x', 'y']) AS side;

	CREATE FUNCTION k_move(how text, pair text, pause float8) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		stock bool := how LIKE 'take%' OR how = 'hold';
		c regclass := CASE WHEN stock OR how LIKE 'twins%' THEN 'twins' ELSE 'pairs' END;
		x bigint := dc_get(c, pair || 'x');
		y bigint := dc_get(c, pair || 'y');
		side text := pair || CASE WHEN random() < 0.5 THEN 'x' ELSE 'y' END;
		here text := c || ' ' || pair;
		moved text := side;
		v bigint;
	BEGIN
		IF current_setting('transaction_isolation') <> 'serializable' THEN
			RAISE 'a move at level %', current_setting('transaction_isolation');
		END IF;
		PERFORM pg_sleep(pause);
		IF x % 1000 + y % 1000 < 1 OR x % 1000 NOT IN (0, 1) OR y % 1000 NOT IN (0, 1) THEN
			INSERT INTO chaos_skew VALUES (how, here, x, y, pg_current_xact_id());
		END IF;
		IF x % 1000 + y % 1000 < 1 THEN
			moved := 'both back';
			PERFORM dc_incr(c, pair || 'x', 1), dc_incr(c, pair || 'y', 1);
		ELSIF x % 1000 = 0 OR y % 1000 = 0 THEN
			moved := CASE WHEN x % 1000 = 0 THEN 'x' ELSE 'y' END || ' back';
			PERFORM dc_incr(c, pair || CASE WHEN x % 1000 = 0 THEN 'x' ELSE 'y' END, 1);
		ELSE
			v := CASE WHEN side = pair || 'x' THEN x ELSE y END;
			CASE replace(how, 'twins ', '')
				WHEN 'decr' THEN PERFORM dc_decr(c, side, 1);
				WHEN 'set' THEN PERFORM dc_set(c, side, v - 1);
				WHEN 'reset' THEN PERFORM dc_reset(c, side);
				WHEN 'delete' THEN PERFORM dc_delete(c, side);
				WHEN 'take' THEN PERFORM dc_take(c, side, 1);
				WHEN 'take up to' THEN PERFORM dc_take_up_to(c, side, 1);
				WHEN 'take all' THEN PERFORM dc_take_all(c, ARRAY[side], ARRAY[1]);
				WHEN 'hold' THEN PERFORM dc_hold(c, side, 1, '100 years');
			END CASE;
		END IF;
		INSERT INTO chaos_moves VALUES (pg_current_xact_id(), pg_current_snapshot(), how, here, x, y, moved);
	END $$;
};

my @ways = ('decr', 'set', 'reset', 'delete', 'take', 'take', 'take up to', 'take all', 'hold', 'twins set', 'twins reset', 'twins delete');

# A session waits between its reads and its writes, as compaction must run in between
sub move
{
	return sprintf("BEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT k_move('%s', '%d', %.3f);\nCOMMIT;\n", pick(@ways), num(1, 3), rand(0.04));
}

sub noise
{
	my $counter = pick('pairs', 'twins');

	return sprintf("SELECT dc_incr('%s', '%d%s', 1000);\nSELECT dc_compact('%s');\nSELECT pg_sleep(%.3f);\n", $counter, num(1, 3), pick('x', 'y'), $counter, rand(0.03));
}

sub room
{
	return {
		name => 'skew',
		schema => $schema,
		roles => { skew => { clients => 3, next => \&move }, skew_noise => { clients => 1, next => \&noise } },
		tables => [ map { ($_, "${_}_shard") } 'pairs', 'twins' ],
		snapshot => 1,
		wrong => q{
			SELECT format('%s of pair %s in transaction %s: read %s and %s, after %s', s.what, s.pair, s.xid, s.x, s.y,
				(SELECT string_agg(format('%s (%s) %s, who saw %s, and %s and %s', m.xid, m.what, m.moved, m.seen, m.x, m.y), '; ' ORDER BY m.xid DESC)
				 FROM (SELECT * FROM chaos_moves AS c WHERE c.pair = s.pair AND c.xid < s.xid ORDER BY c.xid DESC LIMIT 12) AS m))
			FROM chaos_skew AS s},
		settled => 'TRUNCATE chaos_moves',
	};
}

1;
