# Room of make chaos: presences.
#
# Members who have entered are present even if the transaction rolls back; the log has only committed entries. Each transaction lets members
# enter that no other transaction uses, so the log has all that is known of a member: with a time to live that no run
# reaches (nor the steps of the clock while the server is down, which are hours), it is there from then on. A member is taken out by a
# transaction of its own, between two that note it in the log: a client that is ended in between
# leaves it marked as unknown. A crash empties all rooms, in another epoch; so the log has the
# epoch. A clean restart changes nothing.
#
# A consumer gets all events. Within an epoch each count follows from the one before, and in the end the last
# is how many are present: so each join and each leave was reported once. Members of "p_brief" send
# no more heartbeats, and must have expired.
package DcChaos::Room::Presence;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_presence_create('p_long', '7 days', events => '1 us', max_members => 1000000), dc_presence_create('p_brief', '1 s', events => '10 ms', notify => 'p_brief', max_members => 100000);
	SELECT dc_consumer_create('p_events', ARRAY['p_long', 'p_brief'], 'beginning');
	CREATE TABLE log_presence (room text, member text PRIMARY KEY, state text, epoch bigint);
	CREATE TABLE p_known AS SELECT epoch FROM dc_stat_presence LIMIT 1;
	CREATE TABLE p_event (seq bigint PRIMARY KEY, topic text, type text, room text, count bigint, joined bigint, gone bigint, version bigint, epoch bigint);
	CREATE FUNCTION p_epoch() RETURNS bigint LANGUAGE sql AS $$ SELECT epoch FROM dc_stat_presence WHERE name = 'p_long' $$;

	CREATE FUNCTION p_enter(r text, how int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		m text := gen_random_uuid();
	BEGIN
		INSERT INTO log_presence VALUES (r, m, 'in', p_epoch());
		IF how = 0 THEN
			PERFORM dc_beat('p_long', r, m);
		ELSIF how = 1 THEN
			PERFORM dc_enter('p_long', r, m, meta => jsonb_build_object('m', m));
		ELSIF how = 2 THEN
			PERFORM dc_enter('p_long', r, m, 'phone'), dc_enter('p_long', r, m, 'tablet'), dc_exit('p_long', r, m, 'phone'), dc_beat('p_long', r, m);
		ELSE
			PERFORM dc_enter('p_long', r, m), dc_exit('p_long', r, m), dc_enter('p_long', r, m, 'again', 'null');
		END IF;
	END $$;
	CREATE FUNCTION p_brief(r text, m text) RETURNS void LANGUAGE sql AS $$ SELECT dc_enter('p_brief', r, m) $$;
	-- In transactions of their own
	CREATE PROCEDURE p_leave() LANGUAGE plpgsql AS $$
	DECLARE
		l log_presence;
	BEGIN
		SELECT * INTO l FROM log_presence WHERE state = 'in' ORDER BY member LIMIT 1 OFFSET (random() * 5)::int FOR UPDATE SKIP LOCKED;
		IF FOUND THEN
			UPDATE log_presence SET state = 'unknown' WHERE member = l.member;
			COMMIT;
			PERFORM dc_exit('p_long', l.room, l.member, NULL);
			COMMIT;
			UPDATE log_presence SET state = 'out' WHERE member = l.member;
		END IF;
	END $$;
	CREATE FUNCTION p_fetch() RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		last bigint;
	BEGIN
		WITH got AS (
			INSERT INTO p_event SELECT seq, topic, type, key, (payload ->> 'count')::bigint, (payload ->> 'joined')::bigint, (payload ->> 'left')::bigint, (payload ->> 'version')::bigint, (payload ->> 'epoch')::bigint
			FROM dc_fetch('p_events', 500) RETURNING seq)
		SELECT max(seq) INTO last FROM got;
		IF last IS NOT NULL THEN
			PERFORM dc_ack('p_events', last);
		END IF;
		RETURN last;
	END $$;

	CREATE FUNCTION p_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		WITH now AS MATERIALIZED (SELECT p_epoch() AS epoch),
		room AS MATERIALIZED (SELECT DISTINCT room FROM log_presence),
		here AS MATERIALIZED (SELECT r.room, l.member, l.meta FROM room AS r, dc_presence_list('p_long', r.room, n => 10000) AS l),
		event AS MATERIALIZED (SELECT *, lag(count) OVER w AS before, lag(version) OVER w AS older FROM p_event WHERE type = 'presence.changed' WINDOW w AS (PARTITION BY topic, room, epoch ORDER BY seq))
		SELECT format('%s is not in %s', l.member, l.room) FROM log_presence AS l, now WHERE l.state = 'in' AND l.epoch = now.epoch AND NOT EXISTS (SELECT FROM here AS h WHERE (h.room, h.member) = (l.room, l.member))
		UNION ALL SELECT format('%s is still in %s: %s', l.member, l.room, l.state) FROM here AS h JOIN log_presence AS l USING (room, member), now WHERE l.state = 'out' OR l.epoch <> now.epoch
		UNION ALL SELECT format('%s: %s members, but %s in the list', r.room, p, count(h.member)) FROM room AS r CROSS JOIN dc_present('p_long', r.room) AS p LEFT JOIN here AS h USING (room) WHERE p <= 10000 GROUP BY r.room, p HAVING p <> count(h.member)
		UNION ALL SELECT format('%s has the meta %s', h.member, h.meta) FROM here AS h WHERE h.meta ->> 'm' <> h.member
		UNION ALL SELECT format('event %s of %s %s: %s + %s - %s is not %s', seq, topic, room, before, joined, gone, count) FROM event WHERE coalesce(before, 0) + joined - gone <> count
		UNION ALL SELECT format('epoch %s after %s, without a crash', now.epoch, k.epoch) FROM now, p_known AS k WHERE k.epoch <> now.epoch AND NOT EXISTS (SELECT FROM chaos_crash)
		UNION ALL SELECT format('event %s of %s %s: version %s after %s', seq, topic, room, version, older) FROM event WHERE older >= version
	$$;
	-- When all has been told and fetched
	CREATE FUNCTION p_undone() RETURNS SETOF text LANGUAGE sql AS $$
		SELECT format('%s: %s rooms to be told of', name, untold) FROM dc_stat_presence WHERE name LIKE 'p\_%' AND untold > 0
		UNION ALL SELECT format('%s members of p_brief', members) FROM dc_stat_presence WHERE name = 'p_brief' AND members > 0
		UNION ALL SELECT format('events to fetch up to %s', seq) FROM p_fetch() AS seq WHERE seq IS NOT NULL
		UNION ALL SELECT format('%s %s: told of %s, there are %s', e.topic, e.room, e.count, p)
		FROM (SELECT DISTINCT ON (topic, room) * FROM p_event WHERE type = 'presence.changed' ORDER BY topic, room, seq DESC) AS e JOIN dc_stat_presence AS s ON s.name = e.topic AND s.epoch = e.epoch, dc_present(e.topic, e.room) AS p WHERE p <> e.count
		UNION ALL SELECT format('%s: not told of epoch %s', s.name, s.epoch) FROM dc_stat_presence AS s WHERE s.name = 'p_long'
			AND EXISTS (SELECT FROM p_event AS e WHERE e.topic = s.name) AND NOT EXISTS (SELECT FROM p_event AS e WHERE e.topic = s.name AND e.epoch = s.epoch)
	$$;
};

sub room
{
	return {
		name => 'presence',
		schema => $schema,
		steps => [
			[ 0.7, sub { sprintf "SELECT p_enter('r%d', %d);\n", num(1, 5), num(0, 3) } ],
			[ 0.3, sub { sprintf "SELECT p_brief('r%d', '%s');\n", num(1, 5), key('m', 200) } ] ],
		alone => [
			[ 0.5, sub { "CALL p_leave();\n" } ],
			[ 0.2, sub { sprintf "SELECT count(*) FROM dc_presence_list('p_long', 'r%d');\n", num(1, 5) } ] ],
		roles => { p_consumer => { clients => 1, next => sub { "SELECT p_fetch();\nSELECT pg_sleep(0.05);\n" } } },
		alters => sub { sprintf "SELECT dc_presence_alter('%s', events => '%d ms', max_members => %d)", pick('p_long', 'p_brief'), num(1, 50), num(100_000, 1_000_000) },
		# there may be very little memory
		allowed => '^53200: out of \w+ for a presence',
		wrong => 'SELECT p_wrong()',
		settled => 'UPDATE p_known SET epoch = p_epoch()',
		idle => 'SELECT p_undone()',
	};
}

1;
