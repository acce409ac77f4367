# Room of make chaos: unread counts.
#
# Messages of a channel are increments of its key; nothing else is done to the keys c1 to c6. Each is logged, and so is
# each mark, with the number that it marks, in the same transaction. So the number of a channel is the sum of
# its log, and a watermark is at least the greatest mark of the log, and at most that number. The keys d1 to d3 are deleted and come again:
# their increments are logged too, and deleted ones are not subtracted, since the number does not fall.
# A crash may lose messages of the buffered counter. For that counter the test only checks that no member who has marked a channel has
# read more messages than there are.
package DcChaos::Room::Unread;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_create('messages'), dc_create('rooms', partitions => 2), dc_create('whispers', mode => 'buffered', flush_interval => '100 ms');
	SELECT dc_unread_create('seen', 'messages'), dc_unread_create('seen_rooms', 'rooms'), dc_unread_create('seen_whispers', 'whispers');
	CREATE TABLE log_message (counter text, key text, n bigint);
	CREATE TABLE log_mark (counter text, member text, key text, n bigint);

	CREATE FUNCTION u_table(c text) RETURNS regclass LANGUAGE sql STABLE AS $$
		SELECT (CASE c WHEN 'messages' THEN 'seen' ELSE 'seen_' || c END)::regclass $$;
	CREATE FUNCTION u_send(c text, k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM dc_incr(c::regclass, k, n);
		INSERT INTO log_message VALUES (c, k, n);
	END $$;
	CREATE FUNCTION u_mark(c text, m text, k text, part float8) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		u record;
	BEGIN
		SELECT * INTO STRICT u FROM dc_unread(u_table(c), m, ARRAY[k]);
		PERFORM dc_mark_read(u_table(c), m, k, (u.upto * part)::bigint);
		INSERT INTO log_mark VALUES (c, m, k, least(u.upto, (u.upto * part)::bigint));
		IF c <> 'whispers' AND (SELECT seen FROM dc_unread(u_table(c), m, ARRAY[k])) < least(u.upto, (u.upto * part)::bigint) THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('%s: %s has marked %s of %s, and it is not there', c, m, part, u);
		END IF;
	END $$;
	CREATE FUNCTION u_read(c text, m text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		u record;
	BEGIN
		FOR u IN SELECT * FROM dc_unread(u_table(c), m, ARRAY['c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'd1', 'd2', 'd3', 'nobody']) LOOP
			IF u.unread < 0 OR u.unread > greatest(u.upto - u.seen, 0) OR (u.key LIKE 'c%' AND c <> 'whispers' AND u.unread <> greatest(u.upto - u.seen, 0)) THEN
				RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('%s: %s of %s', c, u, m);
			END IF;
		END LOOP;
	END $$;

	CREATE FUNCTION u_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		SELECT format('%s %s: number %s, log %s', counter, key, upto, n)
		FROM (SELECT counter, key, sum(n) AS n FROM log_message WHERE counter <> 'whispers' GROUP BY counter, key) AS l,
			LATERAL (SELECT upto FROM dc_unread(u_table(counter), 'nobody', ARRAY[key])) AS u WHERE upto <> n
		UNION ALL SELECT format('%s %s of %s: watermark %s, number %s, greatest mark %s', counter, key, member, seen, upto, n)
		FROM (SELECT counter, member, key, max(n) AS n FROM log_mark WHERE counter <> 'whispers' GROUP BY counter, member, key) AS l,
			LATERAL (SELECT seen, upto FROM dc_unread(u_table(counter), member, ARRAY[key])) AS u WHERE seen < n OR seen > upto
		UNION ALL SELECT format('%s %s of %s: it is there %s times', t, key, member, count(*)) FROM (SELECT 'seen', member, key FROM seen UNION ALL
			SELECT 'seen_rooms', member, key FROM seen_rooms UNION ALL SELECT 'seen_whispers', member, key FROM seen_whispers) AS s(t, member, key) GROUP BY t, member, key HAVING count(*) > 1
	$$;
	CREATE FUNCTION u_settled() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM dc_mark_read('seen_whispers', member, key) FROM seen_whispers WHERE member <> '' ORDER BY member, key;
		IF EXISTS (SELECT FROM seen_whispers AS s, dc_unread('seen_whispers', s.member, ARRAY[s.key]) AS u WHERE s.member <> '' AND (u.unread <> 0 OR u.seen <> u.upto)) THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = 'a watermark of whispers is not at its number after a mark';
		END IF;
	END $$;
};

my @counters = ('messages', 'messages', 'rooms', 'whispers');

sub member
{
	return 'm' . num(1, 6);
}

sub room
{
	return {
		name => 'unread',
		schema => $schema,
		steps => [
			[ 6, sub { sprintf "SELECT u_send('%s', '%s', %d);\n", pick(@counters), key('c', 6), num(1, 5) } ],
			[ 2, sub { sprintf "SELECT u_send('%s', '%s', %d);\n", pick(@counters), key('d', 3), num(1, 5) } ],
			[ 4, sub { sprintf "SELECT u_mark('%s', '%s', '%s', %s);\n", pick(@counters), member(), key('c', 6), pick(1, 1, 0.5, 0.9, 2) } ],
			[ 1, sub { sprintf "SELECT u_mark('%s', '%s', '%s', 1);\n", pick(@counters), member(), key('d', 3) } ],
			[ 3, sub { sprintf "SELECT u_read('%s', '%s');\n", pick(@counters), member() } ],
			[ 0.5, sub { sprintf "SELECT dc_delete('%s', '%s');\n", pick(@counters), key('d', 3) } ],
		],
		tables => [ 'seen', 'seen_rooms', 'seen_whispers', map({ ($_, "${_}_shard") } 'messages', 'whispers'), map { ("rooms_p$_", "rooms_shard_p$_") } 0, 1 ], # of one with partitions, these
		snapshot => 1,
		wrong => 'SELECT u_wrong()',
		settled => 'SELECT u_settled()',
	};
}

1;
