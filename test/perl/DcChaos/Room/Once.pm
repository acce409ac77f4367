# Room of make chaos: increments that count once.
#
# Key and amount follow from the event, and clients send each event again and again. The log has
# an event once (its primary key), written by the transaction that applied it; a session to which it
# is reported as applied before must find it there. So each key is the sum of its events, in an
# exact table and in a buffered one.
package DcChaos::Room::Once;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_create('plays');
	SELECT dc_create('clicks', mode => 'buffered', flush_interval => '100 ms');
	CREATE TABLE log_once (counter text, event text, key text, n bigint, PRIMARY KEY (counter, event));
	-- so that the tables of events are there
	SELECT dc_incr_once(c, 'k1', 1, 'first') FROM unnest(ARRAY['plays', 'clicks']::regclass[]) AS c;
	INSERT INTO log_once SELECT c, 'first', 'k1', 1 FROM unnest(ARRAY['plays', 'clicks']) AS c;

	CREATE FUNCTION o_once(c text, e text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		k text := 'k' || (hashtext(e) & 7);
		n bigint := 1 + (hashtext(e) >> 8 & 7);
	BEGIN
		IF dc_incr_once(c::regclass, k, n, e) THEN
			INSERT INTO log_once VALUES (c, e, k, n);
		ELSIF NOT EXISTS (SELECT FROM log_once WHERE counter = c AND event = e) THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('%s: event %s is said to be applied, and is not in the log', c, e);
		END IF;
	END $$;
	CREATE FUNCTION o_many(c text, events text[]) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		n bigint;
	BEGIN
		n := dc_incr_once_many(c::regclass, array_agg('k' || (hashtext(e) & 7)), array_agg(1 + (hashtext(e) >> 8 & 7)), array_agg(e)) FROM unnest(events) AS e;
		INSERT INTO log_once SELECT DISTINCT c, e, 'k' || (hashtext(e) & 7), 1 + (hashtext(e) >> 8 & 7) FROM unnest(events) AS e
		WHERE NOT EXISTS (SELECT FROM log_once WHERE counter = c AND event = e);
		GET DIAGNOSTICS n = ROW_COUNT;
	END $$;

	CREATE FUNCTION o_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		SELECT format('%s %s: value %s, log %s', c, key, value, n) FROM unnest(ARRAY['plays', 'clicks']) AS c,
			LATERAL (SELECT key, sum(n) AS n FROM log_once WHERE counter = c GROUP BY key) AS log,
			LATERAL dc_get(c::regclass, key) AS value WHERE value <> n
		UNION ALL SELECT format('%s: dc_sum %s, log %s', c, dc_sum(c::regclass), n) FROM unnest(ARRAY['plays', 'clicks']) AS c,
			LATERAL (SELECT sum(n) AS n FROM log_once WHERE counter = c) AS log WHERE dc_sum(c::regclass) <> n
		UNION ALL SELECT format('%s event %s: dc_op_status says %s', counter, event, s) FROM (SELECT * FROM log_once ORDER BY random() LIMIT 200) AS l
		LEFT JOIN LATERAL dc_op_status(counter::regclass, event) AS s ON true WHERE s.applied IS NOT TRUE OR (s.key, s.delta) <> (l.key, l.n)
	$$;
};

sub event
{
	return chance(0.5) ? 'event ' . num(1, 300) : 'event ' . num(1, 1_000_000_000);
}

sub room
{
	return {
		name => 'once',
		schema => $schema,
		steps => [
			[ 6, sub { sprintf "SELECT o_once('%s', '%s');\n", pick('plays', 'clicks'), event() } ],
			[ 1, sub { sprintf "SELECT o_many('%s', '{%s}');\n", pick('plays', 'clicks'), join(',', map { '"' . event() . '"' } 1 .. num(1, 8)) } ],
		],
		tables => [ map { ($_, "${_}_shard") } 'plays', 'clicks' ],
		wrong => 'SELECT o_wrong()',
	};
}

1;
