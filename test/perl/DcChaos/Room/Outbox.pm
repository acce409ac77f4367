# Room of make chaos: events, published and captured, and their consumers.
#
# A transaction that publishes an event of a key first counts it in a row of the key, and keeps
# the lock on that row until it ends; rows with captured changes count themselves. So the
# events of a key have numbers without a gap in the order of their commits, and the log has
# the committed ones. Consumers that keep the order must get 1, 2, 3, ... of each key,
# each number once, and may miss one only if it is a dead letter. They acknowledge in the
# transaction that notes what they got (exactly once), nack, stall longer than their
# lease, roll back and vanish. After the last round each event is done or dead, and when the dead
# are delivered again, done. "watch" gets the changes of the counter "told": the last one that
# it is told is the value, and values of keys that only grow never go back.
package DcChaos::Room::Outbox;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	CREATE TABLE orders (key text PRIMARY KEY, n bigint);
	CREATE TABLE item (key text PRIMARY KEY, n bigint, more text);
	INSERT INTO orders SELECT 'k' || i, 0 FROM generate_series(1, 12) AS i;
	INSERT INTO item SELECT 'k' || i, 0 FROM generate_series(1, 12) AS i;
	SELECT dc_outbox_attach('item', columns => ARRAY['n', 'more']);
	CREATE TABLE log_outbox (topic text, key text, n bigint, PRIMARY KEY (topic, key, n));
	CREATE SEQUENCE done_at;
	CREATE TABLE done (consumer text, topic text, key text, n bigint, seq bigint, at bigint DEFAULT nextval('done_at'), PRIMARY KEY (consumer, topic, key, n));
	CREATE TABLE watched (key text PRIMARY KEY, value numeric, seq bigint);
	SELECT dc_consumer_create('members', ARRAY['orders', 'item'], 'beginning'), dc_consumer_create('single', ARRAY['orders', 'item'], 'beginning'),
		dc_consumer_create('skipping', ARRAY['orders', 'item'], 'beginning'), dc_consumer_create('watch', ARRAY['told'], 'beginning');
	SELECT dc_consumer_alter('members', lease => '1 s', max_attempts => 3), dc_consumer_alter('single', max_attempts => 2), dc_consumer_alter('skipping', on_nack => 'skip', max_attempts => 3);

	CREATE FUNCTION e_publish(k text, times int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		i bigint;
	BEGIN
		FOR j IN 1 .. times LOOP
			UPDATE orders SET n = n + 1 WHERE key = k RETURNING n INTO STRICT i;
			PERFORM dc_publish('orders', k, 'made', jsonb_build_object('n', i, 'more', repeat('x', (random() * 200)::int)));
			INSERT INTO log_outbox VALUES ('orders', k, i);
		END LOOP;
	END $$;
	CREATE FUNCTION e_change(k text) RETURNS void LANGUAGE sql AS $$
		WITH u AS (UPDATE item SET n = n + 1, more = repeat('y', (random() * 200)::int) WHERE key = k RETURNING n)
		INSERT INTO log_outbox SELECT 'item', k, n FROM u
	$$;

	-- Fetches, notes what is done, nacks some, and acknowledges the batch
	CREATE FUNCTION e_consume(who text, me text, size int, nacks float8) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		waits bool := who <> 'skipping';
		events jsonb := (SELECT jsonb_agg(to_jsonb(f) ORDER BY seq) FROM dc_fetch(who, size, '100 ms', me) AS f);
		e jsonb; put_back text[] := '{}'; of_key text;
	BEGIN
		FOR e IN SELECT * FROM jsonb_array_elements(coalesce(events, '[]')) LOOP
			of_key := (e ->> 'topic') || ' ' || (e ->> 'key');
			IF waits AND of_key = ANY (put_back) THEN
				CONTINUE;
			ELSIF random() < nacks THEN
				PERFORM dc_nack(who, (e ->> 'seq')::bigint, random() * interval '300 ms', 'no', me);
				put_back := put_back || of_key;
			ELSE
				INSERT INTO done VALUES (who, e ->> 'topic', e ->> 'key', coalesce(e -> 'payload' -> 'new' ->> 'n', e -> 'payload' ->> 'n')::bigint, (e ->> 'seq')::bigint);
			END IF;
		END LOOP;
		IF events IS NOT NULL THEN
			PERFORM dc_ack(who, (events -> -1 ->> 'seq')::bigint, me);
		END IF;
	END $$;
	CREATE FUNCTION e_watch(size int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		events jsonb := (SELECT jsonb_agg(to_jsonb(f) ORDER BY seq) FROM dc_fetch('watch', size, '100 ms') AS f);
		e jsonb; old numeric; new numeric;
	BEGIN
		FOR e IN SELECT * FROM jsonb_array_elements(coalesce(events, '[]')) LOOP
			old := (SELECT value FROM watched WHERE key = e ->> 'key');
			new := coalesce((e -> 'payload' ->> 'value')::numeric, 0);
			IF new < old AND e ->> 'key' LIKE 'g%' THEN
				RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('event %s of %s: %s after %s', e ->> 'seq', e ->> 'key', new, old);
			END IF;
			INSERT INTO watched VALUES (e ->> 'key', new, (e ->> 'seq')::bigint) ON CONFLICT (key) DO UPDATE SET value = excluded.value, seq = excluded.seq;
		END LOOP;
		IF events IS NOT NULL THEN
			PERFORM dc_ack('watch', (events -> -1 ->> 'seq')::bigint);
		END IF;
	END $$;

	-- What a consumer has got that is not to be, or not in this order, or without what comes before it
	CREATE FUNCTION e_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		WITH dead AS MATERIALIZED (SELECT consumer, topic, key, coalesce(payload -> 'new' ->> 'n', payload ->> 'n')::bigint AS n FROM dc_dead_letters),
		got AS (SELECT consumer, topic, key, n FROM done UNION ALL SELECT * FROM dead),
		ordered AS (SELECT *, lag(n) OVER (PARTITION BY consumer, topic, key ORDER BY at) AS before FROM done WHERE consumer <> 'skipping' AND NOT EXISTS (SELECT FROM chaos_final)),
		reached AS (SELECT consumer, topic, key, max(n) AS n FROM got GROUP BY consumer, topic, key)
		SELECT format('%s got %s %s %s, which nobody has published', consumer, topic, key, n) FROM got WHERE NOT EXISTS (SELECT FROM log_outbox AS l WHERE (l.topic, l.key, l.n) = (got.topic, got.key, got.n))
		UNION ALL SELECT format('%s got %s %s %s, which is a dead letter', consumer, topic, key, n) FROM done JOIN dead USING (consumer, topic, key, n)
		UNION ALL SELECT format('%s got %s %s %s after %s', consumer, topic, key, n, before) FROM ordered WHERE n <= before
		UNION ALL SELECT format('%s got %s %s %s, but not %s', r.consumer, l.topic, l.key, r.n, l.n) FROM reached AS r JOIN log_outbox AS l ON l.topic = r.topic AND l.key = r.key AND l.n < r.n
		WHERE r.consumer <> 'skipping' AND NOT EXISTS (SELECT FROM got AS g WHERE (g.consumer, g.topic, g.key, g.n) = (r.consumer, l.topic, l.key, l.n))
	$$;
	-- When all is consumed
	CREATE FUNCTION e_missing() RETURNS SETOF text LANGUAGE sql AS $$
		SELECT format('%s: %s %s %s is neither done nor dead', consumer, topic, key, n) FROM unnest(ARRAY['members', 'single', 'skipping']) AS consumer, log_outbox AS l
		WHERE NOT EXISTS (SELECT FROM done AS d WHERE (d.consumer, d.topic, d.key, d.n) = (consumer, l.topic, l.key, l.n))
			AND NOT EXISTS (SELECT FROM dc_dead_letters AS d WHERE (d.consumer, d.topic, d.key, coalesce(payload -> 'new' ->> 'n', payload ->> 'n')::bigint) = (consumer, l.topic, l.key, l.n))
	$$;
};

# consume(WHO): one transaction of a consumer. A member has its client's name.
sub consume
{
	my ($who, $client) = @_;
	my $me = $who eq 'members' ? "'m$client'" : 'NULL';
	my $call = $who eq 'watch' ? 'e_watch(' . num(1, 50) . ')' : sprintf("e_consume('%s', %s, %d, %.2f)", $who, $me, weighted([ 3, num(1, 10) ], [ 1, num(10, 300) ]), pick(0, 0, 0.05, 0.3));

	return weighted(
		[ 10, "SELECT $call;\n" ], [ 2, "BEGIN;\nSELECT $call;\nROLLBACK;\n" ], [ 1, "BEGIN;\nSAVEPOINT a;\nSELECT $call;\nROLLBACK TO a;\nSELECT $call;\nCOMMIT;\n" ],
		# fetched, and left alone
		$who eq 'watch' ? () : [ 2, "SELECT count(*) FROM dc_fetch('$who', 20, '0', $me);\n" ],
		# holds its lanes longer than its lease, and is then absent for a while
		[ 0.3, "BEGIN;\nSELECT $call;\nSELECT pg_sleep(1.3);\nCOMMIT;\n" ], [ 0.3, "SELECT pg_sleep(1.5);\n" ], [ 0.3, "BEGIN;\nSELECT $call;\nSELECT pg_terminate_backend(pg_backend_pid());\n" ]);
}

# drained(RUN): lets all consumers come to their end; what they have not got then
sub drained
{
	my ($run) = @_;

	my @left = $run->until_none(
		q{
			SELECT e_consume('members', 'last', 100, 0), e_consume('single', NULL, 100, 0), e_consume('skipping', NULL, 100, 0), e_watch(100)},
		q{
			SELECT format('%s: %s events behind, %s outstanding, %s to be retried', name, lag_events, outstanding, retries)
			FROM dc_stat_consumers WHERE lag_events + outstanding + retries > 0}, 90);

	return @left, $run->ask('SELECT e_wrong(); SELECT e_missing()');
}

# finish(RUN): all is done or dead; then also what was dead
sub finish
{
	my ($run) = @_;
	my @bad = (drained($run), $run->until_none('SELECT e_watch(100)', q{
		SELECT format('told %s: the last event says %s, the value is %s', key, w.value, dc_get('told', key)) FROM (SELECT DISTINCT key FROM log_counter WHERE counter = 'told') AS l
		LEFT JOIN watched AS w USING (key) WHERE coalesce(w.value, 0) <> dc_get('told', key)}, 30));

	@bad = $run->ask(q{
		INSERT INTO chaos_final VALUES (1);
		DO $$BEGIN
			PERFORM dc_consumer_alter(name, max_attempts => 100), dc_dead_letter_retry(name) FROM dc_stat_consumers;
		END$$;}) if !@bad;
	return @bad if @bad;
	return drained($run), $run->ask(q{SELECT format('%s: still dead: %s', consumer, seq) FROM dc_dead_letters});
}

sub room
{
	return {
		name => 'outbox',
		schema => $schema,
		steps => [
			[ 5, sub { sprintf "SELECT e_publish('%s', %d);\n", key('k', 12), num(1, 3) } ],
			[ 5, sub { sprintf "SELECT e_change('%s');\n", key('k', 12) } ],
		],
		roles => {
			members => { clients => 2, next => sub { consume('members', @_) } },
			single => { clients => 1, next => sub { consume('single', @_) } },
			skipping => { clients => 1, next => sub { consume('skipping', @_) } },
			watch => { clients => 1, next => sub { consume('watch', @_) } },
		},
		tables => [ 'orders', 'item' ],
		# late acknowledgements of members that have lost their lanes
		allowed => '^55000: .*(?:lease|lanes|fetched|acknowledge)|^55006: ',
		snapshot => 1,
		wrong => 'SELECT e_wrong()',
		finish => \&finish,
	};
}

1;
