-- Consumers of events: positions, acknowledgements, retries, members, rights
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET timezone = 'UTC';

-- Events are shown by the name that their type is, since numbers depend on what was before
CREATE FUNCTION publish(topic text, key text, names text) RETURNS void LANGUAGE sql AS $$
	SELECT dc_publish(publish.topic, publish.key, name, NULL) FROM unnest(string_to_array(names, ' ')) name $$;
-- one without a key, as from a table that has none
CREATE FUNCTION publish_keyless(topic text, name text) RETURNS void LANGUAGE sql AS $$
	INSERT INTO dcounter.outbox_0 VALUES (nextval('dcounter.outbox_seq'), clock_timestamp(), gen_random_uuid(), topic, NULL, name) $$;
CREATE FUNCTION got(consumer text, n int DEFAULT 100, member text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(type || CASE WHEN attempt > 1 THEN '(' || attempt || ')' ELSE '' END, ' ' ORDER BY ordinality)
	FROM dc_fetch(consumer, n, member => member) WITH ORDINALITY $$;
CREATE FUNCTION seq_of(name text) RETURNS bigint LANGUAGE sql AS $$ SELECT seq FROM dcounter.outbox WHERE type = name $$;
CREATE FUNCTION ack(consumer text, name text, member text DEFAULT NULL) RETURNS void LANGUAGE sql AS $$
	SELECT dc_ack(consumer, seq_of(name), member) $$;
CREATE FUNCTION nack(consumer text, name text, delay interval DEFAULT '0', reason text DEFAULT NULL, member text DEFAULT NULL) RETURNS void LANGUAGE sql AS $$
	SELECT dc_nack(consumer, seq_of(name), delay, reason, member) $$;
-- Time passes: what is to be delivered again is due
CREATE FUNCTION later(consumer text) RETURNS void LANGUAGE sql AS $$
	UPDATE dcounter.consumer_retry SET due_at = clock_timestamp() - interval '1 s'
	WHERE due_at IS NOT NULL AND consumer = (SELECT id FROM dcounter.consumer WHERE name = later.consumer);
	UPDATE dcounter.consumer SET revived = revived + 1 WHERE name = later.consumer $$;
-- The lease of a member is over
CREATE FUNCTION expire(name text) RETURNS void LANGUAGE sql AS $$
	UPDATE dcounter.consumer_member SET lease_until = clock_timestamp() - interval '1 s' WHERE member = expire.name $$;

-- Fetching changes nothing until it is acknowledged
SELECT publish('oc', 'k', 'before');
SELECT dc_consumer_create('c');
SELECT got('c') IS NULL;
SELECT publish('oc', 'k', 'a1 a2 a3 a4 a5');
SELECT topic, key, type, payload, headers, attempt FROM dc_fetch('c', 1);
SELECT got('c', 3), got('c');
SELECT ack('c', 'a2');
SELECT got('c');
SELECT ack('c', 'a1'), got('c', 1);
-- beyond what was fetched last
\set VERBOSITY sqlstate
SELECT ack('c', 'a4');
\set VERBOSITY terse
SELECT got('c');
SELECT ack('c', 'a5');
SELECT ack('c', 'a5'), ack('c', 'a1');
SELECT got('c') IS NULL;
SELECT dc_ack('c', 9223372036854775807);
\set VERBOSITY default
SELECT dc_ack('c', NULL);
SELECT dc_ack('no such consumer', 1);
\set VERBOSITY terse

-- Fetch and acknowledge in one transaction, with savepoints
SELECT publish('oc', 'k', 'b1 b2 b3');
BEGIN;
SELECT got('c', 1), ack('c', 'b1');
SAVEPOINT s;
SELECT got('c', 1), ack('c', 'b2');
ROLLBACK TO s;
SELECT got('c');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT got('c', 2), ack('c', 'b2');
SELECT got('c');
COMMIT;
SELECT got('c');
SELECT ack('c', 'b3');
-- events of aborted transactions and savepoints do not exist
BEGIN;
SELECT publish('oc', 'k', 'never1');
SAVEPOINT s;
SELECT publish('oc', 'k', 'never2');
ROLLBACK TO s;
SELECT publish('oc', 'k', 'never3');
ROLLBACK;
BEGIN;
SELECT publish('oc', 'k', 'b4');
SAVEPOINT s;
SELECT publish('oc', 'k', 'never4');
ROLLBACK TO s;
SELECT publish('oc', 'k', 'b5');
COMMIT;
SELECT got('c'), ack('c', 'b5');

-- Topics; what is of no interest is passed with the events around it
SELECT dc_consumer_create('some', '{oc_x,oc_y}', 'beginning');
SELECT got('some') IS NULL;
SELECT publish('oc', 'k', 'c1'), publish('oc_x', 'k', 'c2'), publish('oc', 'k', 'c3'), publish('oc_xx', 'k', 'c4'), publish('oc_y', '', 'c5'), publish('oc', 'k', 'c6');
SELECT got('some'), ack('some', 'c5');
SELECT acked = seq_of('c6') FROM dcounter.consumer_member WHERE consumer = (SELECT id FROM dcounter.consumer WHERE name = 'some');
SELECT got('c'), ack('c', 'c6');
SELECT dc_consumer_alter('some', topics => '{}');
SELECT dc_seek('some', seq_of('b5')), got('some');
SELECT dc_consumer_drop('some');
-- many of them are passed without an event
SELECT dc_consumer_create('none', '{none}', 'beginning');
SELECT count(dc_publish('oc', 'k', 'bulk', NULL)) FROM generate_series(1, 5000);
SELECT got('none') IS NULL;
SELECT acked > seq_of('c6') FROM dcounter.consumer_member WHERE consumer = (SELECT id FROM dcounter.consumer WHERE name = 'none');
SELECT dc_consumer_drop('none');
SELECT dc_seek('c', 'now'), got('c') IS NULL;

-- Positions
SELECT dc_consumer_create('p', '{oc}', seq_of('a4')::text), got('p', 2);
SELECT dc_seek('p', seq_of('b1')), got('p', 2);
SELECT dc_seek('p', seq_of('b1')::text), got('p', 1);
SELECT dc_seek('p', created_at::text), got('p', 1) FROM dcounter.outbox WHERE type = 'c3';
SELECT dc_seek('p', '2000-01-01'), got('p', 1);
SELECT dc_seek('p', '2100-01-01'), got('p', 1) IS NULL;
SELECT dc_seek('p', 'now'), got('p', 1) IS NULL;
SELECT dc_seek('p', seq_of('a1')), got('p', 1);
-- what was fetched before can no longer be acknowledged
\set VERBOSITY sqlstate
SELECT dc_seek('p', 'beginning'), got('p', 1), dc_seek('p', 0), ack('p', 'a2');
\set VERBOSITY terse
SELECT dc_seek('p', 'soon');
SELECT dc_seek('p', '');
SELECT dc_seek('p', '1 day ago');
SELECT dc_seek('p', -1);
SELECT dc_seek('p', 9223372036854775807);
SELECT dc_seek('p', '99999999999999999999');
SELECT dc_seek('p', NULL::text);
SELECT dc_seek('p', NULL::bigint);
SELECT dc_consumer_drop('p');

-- Nacked events: the key waits
SELECT publish('oc', 'k1', 'd1'), publish('oc', 'k2', 'd2'), publish('oc', 'k1', 'd3');
SELECT publish_keyless('oc', 'd4');
SELECT publish('oc_u', 'k1', 'd5'), publish('oc', 'k1', 'd6');
SELECT got('c', 4);
SELECT nack('c', 'd1', '1 hour', 'not now');
-- again without d1, d3 and d6; then with the position behind them
SELECT got('c');
SELECT ack('c', 'd5'), got('c') IS NULL;
SELECT publish('oc', 'k1', 'd7'), publish('oc', 'k2', 'd8');
SELECT got('c');
SELECT ack('c', 'd8');
SELECT type, attempts, due_at IS NOT NULL AS due, reason FROM dcounter.consumer_retry JOIN dcounter.consumer c ON c.id = consumer WHERE c.name = 'c' ORDER BY seq;
-- when it is due it comes with all that follow; a new one after them
SELECT later('c');
SELECT publish('oc', 'k1', 'd9');
SELECT got('c');
SELECT got('c', 2);
-- acknowledged by pieces
SELECT ack('c', 'd1');
SELECT got('c');
SELECT ack('c', 'd6');
SELECT got('c');
SELECT ack('c', 'd9');
SELECT got('c') IS NULL, (SELECT count(*) FROM dcounter.consumer_retry);

-- Nacked again, until it is dead; then its key goes on
SELECT dc_consumer_alter('c', max_attempts => 3);
SELECT publish('oc', 'k1', 'e1 e2'), publish('oc', 'k2', 'e3');
SELECT got('c');
SELECT nack('c', 'e1', '1 hour', 'first'), ack('c', 'e3');
SELECT later('c'), got('c');
SELECT nack('c', 'e1', '1 hour', 'second');
-- e2 is no longer outstanding, so this does not acknowledge it
SELECT ack('c', 'e2'), got('c') IS NULL;
SELECT count(*) FROM dc_dead_letters;
SELECT later('c'), got('c');
SELECT nack('c', 'e1', '1 hour', 'third');
SELECT consumer, topic, key, type, attempts, reason, died_at IS NOT NULL, seq = seq_of('e1') FROM dc_dead_letters;
SELECT got('c'), ack('c', 'e2');
SELECT got('c') IS NULL;
-- a dead letter is delivered again on request, or removed
SELECT dc_dead_letter_retry('c', seq_of('e2')), dc_dead_letter_retry('c', seq_of('e1')), got('c');
SELECT nack('c', 'e1', '1 hour'), later('c'), got('c');
SELECT nack('c', 'e1', '1 hour'), later('c'), got('c');
SELECT nack('c', 'e1', '1 hour', 'again'), got('c') IS NULL;
SELECT reason FROM dc_dead_letters;
SELECT dc_dead_letter_retry('c'), got('c'), ack('c', 'e1');
SELECT count(*) FROM dcounter.consumer_retry;
SELECT dc_consumer_alter('c', max_attempts => 1);
SELECT publish('oc', 'k1', 'f1 f2');
SELECT got('c'), nack('c', 'f1', reason => 'once');
SELECT got('c');
SELECT ack('c', 'f2'), dc_dead_letter_discard('c', seq_of('f2')), dc_dead_letter_discard('c'), got('c') IS NULL;
SELECT count(*) FROM dc_dead_letters;

-- Nacked events: the key goes on
SELECT dc_consumer_alter('c', max_attempts => 10, on_nack => 'skip');
SELECT publish('oc', 'k1', 'g1 g2 g3');
SELECT got('c'), nack('c', 'g1', '1 hour'), nack('c', 'g2', '1 hour'), got('c'), ack('c', 'g3');
SELECT publish('oc', 'k1', 'g4');
SELECT got('c'), ack('c', 'g4');
SELECT later('c'), got('c'), ack('c', 'g1');
SELECT got('c'), ack('c', 'g2'), got('c') IS NULL;
-- from one policy to the other
SELECT dc_consumer_alter('c', on_nack => 'wait');
SELECT publish('oc', 'k1', 'h1 h2 h3');
SELECT got('c'), nack('c', 'h1', '1 hour');
SELECT got('c') IS NULL, dc_consumer_alter('c', on_nack => 'skip'), got('c'), ack('c', 'h3');
SELECT later('c'), got('c'), ack('c', 'h1'), dc_consumer_alter('c', on_nack => 'wait');
-- what is due is found wherever the last search has ended, and after lanes have moved
SELECT publish('oc', 'k1', 'j1'), publish('oc', 'k2', 'j2'), publish('oc', 'k3', 'j3'), publish('oc', 'k4', 'j4');
SELECT got('c'), nack('c', 'j2', '1 hour'), ack('c', 'j2'), got('c');
SELECT nack('c', 'j4', '2 hours'), ack('c', 'j3'), got('c') IS NULL;
SELECT publish('oc', 'k1', 'j5'), publish('oc', 'k4', 'j6');
SELECT got('c'), nack('c', 'j5', '0'), ack('c', 'j6'), got('c');
SELECT retry_due > clock_timestamp() FROM dcounter.consumer_member m JOIN dcounter.consumer c ON c.id = m.consumer WHERE c.name = 'c' AND member = '';
SELECT ack('c', 'j5'), got('c') IS NULL;
SELECT retry_due > clock_timestamp() + interval '50 min' FROM dcounter.consumer_member m JOIN dcounter.consumer c ON c.id = m.consumer WHERE c.name = 'c' AND member = '';
SELECT later('c'), got('c', member => 'one'), ack('c', 'j6', 'one'), got('c', member => 'one') IS NULL;
SELECT retry_due IS NULL FROM dcounter.consumer_member m JOIN dcounter.consumer c ON c.id = m.consumer WHERE c.name = 'c' AND member = 'one';
SELECT publish('oc', 'k1', 'j7');
SELECT got('c', member => 'one'), nack('c', 'j7', '0', member => 'one'), expire('one'), got('c'), ack('c', 'j7'), got('c') IS NULL;
-- dead letters are not delivered after a seek either
SELECT dc_consumer_alter('c', max_attempts => 1), publish('oc', 'k1', 'j8 j9');
SELECT got('c'), nack('c', 'j8'), ack('c', 'j9'), got('c'), ack('c', 'j9'), got('c') IS NULL;
SELECT dc_seek('c', seq_of('j7')), got('c'), ack('c', 'j9'), dc_dead_letter_retry('c'), got('c'), ack('c', 'j8'), got('c') IS NULL;
SELECT dc_consumer_alter('c', max_attempts => 10);
-- what was discarded is not delivered again, even if the position is before it; then its row is not needed
SELECT dc_consumer_alter('c', max_attempts => 1), publish('oc', 'k1', 'ad1'), publish('oc', 'k2', 'ad2 ad3'), publish('oc', 'k3', 'ad4');
SELECT got('c'), dc_nack('c', seq_of('ad2')), dc_nack('c', seq_of('ad4'));
SELECT dc_dead_letter_discard('c', seq_of('ad2')), dc_dead_letter_discard('c', seq_of('ad2')), dc_dead_letter_retry('c', seq_of('ad2'));
SELECT got('c'), (SELECT string_agg(type, ' ') FROM dc_dead_letters), (SELECT dead_letters FROM dc_stat_consumers WHERE name = 'c');
\set VERBOSITY sqlstate
SELECT dc_nack('c', seq_of('ad2'));
\set VERBOSITY terse
SELECT dc_dead_letter_discard('c'), got('c'), count(*) FROM dc_dead_letters;
CALL dc_maintain();
SELECT type, payload, headers, reason FROM dcounter.consumer_retry ORDER BY seq;
SELECT ack('c', 'ad1'), got('c');
CALL dc_maintain();
SELECT type FROM dcounter.consumer_retry;
SELECT ack('c', 'ad3'), got('c') IS NULL;
CALL dc_maintain();
SELECT count(*) FROM dcounter.consumer_retry;
-- of very many, some at a time
INSERT INTO dcounter.consumer_retry (consumer, seq, lane, due_at, died_at, attempts, spared, created_at, id, topic, type)
	SELECT c.id, -i, 0, '-infinity', now(), 1, 0, now(), gen_random_uuid(), 'oc', 'x' FROM dcounter.consumer c, generate_series(1, 2500) i WHERE name = 'c';
CALL dc_maintain();
SELECT count(*) FROM dcounter.consumer_retry;
CALL dc_maintain();
CALL dc_maintain();
SELECT count(*) FROM dcounter.consumer_retry;
-- unless that is asked for
SELECT dc_seek('c', seq_of('ad1')), got('c'), dc_nack('c', seq_of('ad3')), dc_dead_letter_discard('c');
SELECT dc_seek('c', seq_of('ad2')), got('c'), dc_nack('c', seq_of('ad4')), dc_dead_letter_discard('c'), ack('c', 'ad3'), got('c') IS NULL;
SELECT dc_consumer_alter('c', max_attempts => 10), publish('oc', 'k4', 'ad5');
SELECT got('c'), ack('c', 'ad5'), dc_dead_letter_discard('c');
SELECT count(*) FROM dcounter.consumer_retry;
-- fetches of different sizes: each event has its own number of attempts, and dies by that
SELECT dc_consumer_alter('c', max_attempts => 4), publish('oc', 'k1', 'at1'), publish('oc', 'k2', 'at2'), publish('oc', 'k3', 'at3'), publish('oc', 'k4', 'at4');
SELECT got('c', 3), got('c', 1), got('c', 2), got('c');
SELECT dc_nack('c', seq_of('at2'), '1 hour'), dc_nack('c', seq_of('at3'), '1 hour'), dc_nack('c', seq_of('at4'), '1 hour'), dc_nack('c', seq_of('at1'), '1 hour');
SELECT type, attempts, died_at IS NOT NULL AS dead FROM dcounter.consumer_retry ORDER BY seq;
SELECT later('c'), got('c'), ack('c', 'at4'), dc_dead_letter_discard('c'), got('c') IS NULL;
-- so many sizes that not all are remembered: nothing counts more than it should
SELECT dc_consumer_alter('c', max_attempts => 10), publish('oc', 'k', string_agg('as' || i, ' ' ORDER BY i)) FROM generate_series(1, 20) i;
SELECT count(got('c', i)) FROM generate_series(20, 2, -1) AS i;
SELECT got('c');
SELECT ack('c', 'as10');
SELECT got('c', 2), got('c'), ack('c', 'as20'), got('c') IS NULL;
-- what comes with lanes counts, what one had acknowledged does not
SELECT publish('oc', 'k1', 'al1'), publish('oc', 'k2', 'al2');
SELECT got('c', 1), got('c', 1), got('c', member => 'one');
SELECT ack('c', 'al2', 'one'), expire('one'), publish('oc', 'k1', 'al3');
SELECT got('c'), ack('c', 'al3'), got('c') IS NULL;
-- deliveries without an answer count as well
SELECT dc_consumer_alter('c', max_attempts => 4), publish('oc', 'k1', 'l1 l2'), publish('oc', 'k2', 'l3');
SELECT got('c', 2), got('c', 2), got('c', 3), nack('c', 'l3', '1 hour'), nack('c', 'l2', '1 hour');
SELECT type, attempts, died_at IS NULL FROM dcounter.consumer_retry ORDER BY seq;
SELECT got('c'), nack('c', 'l1', reason => 'four times'), got('c') IS NULL;
SELECT type, attempts FROM dc_dead_letters;
SELECT later('c'), got('c'), ack('c', 'l3'), dc_dead_letter_discard('c'), dc_consumer_alter('c', max_attempts => 10);
-- a fetch that comes to very many that wait puts some aside, and returns to have that committed
SELECT dc_consumer_create('many'), publish('oc', 'k1', 'm1');
SELECT got('many'), nack('many', 'm1', '1 hour'), ack('many', 'm1');
SELECT count(dc_publish('oc', 'k1', 'many', NULL)) FROM generate_series(1, 7000);
SELECT publish('oc', 'k2', 'm2');
SELECT count(*) FROM dc_fetch('many', 100, '1 hour');
SELECT count(*) FROM dcounter.consumer_retry;
SELECT got('many');
SELECT count(*) FROM dcounter.consumer_retry;
SELECT dc_consumer_drop('many'), dc_seek('c', 'now');
-- what may be nacked
SELECT publish('oc', 'k1', 'i1');
\set VERBOSITY sqlstate
SELECT nack('c', 'i1');
\set VERBOSITY terse
SELECT got('c'), nack('c', 'i1', '1 hour', 'no'), nack('c', 'i1', '2 hours', 'still no');
SELECT reason, attempts, due_at > now() + interval '1 hour 30 min' FROM dcounter.consumer_retry;
\set VERBOSITY sqlstate
SELECT nack('c', 'h3');
-- not what waits for another one, or is dead
SELECT publish('oc', 'k1', 'n1 n2'), publish('oc', 'k2', 'n3');
SELECT dc_seek('c', seq_of('n1') - 1), got('c'), nack('c', 'n1', '0');
SELECT nack('c', 'n2');
SELECT ack('c', 'n3'), got('c');
SELECT nack('c', 'n1', '1 hour');
SELECT nack('c', 'n2');
SELECT dc_consumer_alter('c', max_attempts => 1), dc_seek('c', seq_of('n1') - 1), got('c'), nack('c', 'n1');
SELECT nack('c', 'n1');
SELECT dc_dead_letter_discard('c'), dc_consumer_alter('c', max_attempts => 10);
\set VERBOSITY terse
-- a seek forgets them
SELECT dc_seek('c', 'now');
SELECT count(*) FROM dcounter.consumer_retry;
\set VERBOSITY sqlstate
SELECT nack('c', 'i1');
\set VERBOSITY terse
-- rolled back: nothing has happened
SELECT publish('oc', 'k1', 'i2 i3');
BEGIN;
SELECT got('c'), nack('c', 'i2', '1 hour'), ack('c', 'i3');
ROLLBACK;
SELECT got('c', 1), ack('c', 'i2');
SELECT got('c'), ack('c', 'i3');

-- Followers of an event that dies are delivered again as well: the caller has left them alone. First
-- as doc/outbox.md has it, with nothing but its own functions
SELECT dc_consumer_create('f'), dc_consumer_alter('f', max_attempts => 2);
SELECT publish('oc', '17', 'fa1 fa2 fa3 fa4');
BEGIN;
CREATE TEMP TABLE batch ON COMMIT DROP AS SELECT * FROM dc_fetch('f');
SELECT dc_nack('f', min(seq), '0', 'no'), dc_ack('f', max(seq)) FROM batch;
COMMIT;
BEGIN;
CREATE TEMP TABLE batch ON COMMIT DROP AS SELECT * FROM dc_fetch('f');
SELECT dc_nack('f', min(seq), '0', 'no'), dc_ack('f', max(seq)) FROM batch;
COMMIT;
SELECT type FROM dc_fetch('f');
SELECT type FROM dc_dead_letters WHERE consumer = 'f';
CREATE FUNCTION answer(consumer text, name text, delay interval DEFAULT '0', member text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT dc_nack(consumer, seq_of(name), delay, NULL, member) $$;
-- everything that was fetched, and what a fetch has passed
CREATE FUNCTION ack_all(consumer text, member text DEFAULT '') RETURNS void LANGUAGE sql AS $$
	SELECT dc_ack(name, fetched, nullif(m.member, '')) FROM dcounter.consumer_member m JOIN dcounter.consumer c ON c.id = m.consumer
	WHERE name = ack_all.consumer AND m.member = ack_all.member $$;
-- what was left alone has attempts of its own
SELECT answer('f', 'fa2'), got('f');
SELECT answer('f', 'fa2'), ack_all('f');
SELECT got('f'), ack('f', 'fa3'), got('f'), ack('f', 'fa4'), got('f') IS NULL;
SELECT count(*) FILTER (WHERE died_at IS NULL), dc_dead_letter_discard('f') FROM dcounter.consumer_retry r JOIN dcounter.consumer c ON c.id = r.consumer WHERE c.name = 'f';
-- at the first delivery, from the outbox; other keys and topics go on
SELECT dc_consumer_alter('f', max_attempts => 1), publish('oc', 'k1', 'fb1 fb2'), publish('oc', 'k2', 'fb3'), publish('oc', 'k1', 'fb4'), publish('oc_u', 'k1', 'fb5');
SELECT got('f'), answer('f', 'fb1'), ack_all('f');
SELECT publish('oc', 'k1', 'fb6');
SELECT got('f');
SELECT ack('f', 'fb2'), got('f', 1), ack('f', 'fb4'), got('f'), ack('f', 'fb6'), got('f') IS NULL, dc_dead_letter_discard('f');
-- without an acknowledgement; to nack what was left alone is an error, due as it may be
SELECT publish('oc', 'k1', 'fc1 fc2 fc3');
SELECT got('f'), answer('f', 'fc1');
\set VERBOSITY sqlstate
SELECT answer('f', 'fc2');
\set VERBOSITY terse
SELECT got('f');
SELECT answer('f', 'fc2'), got('f'), ack('f', 'fc3'), got('f') IS NULL, dc_dead_letter_discard('f');
-- in the middle: those before it are still the caller's
SELECT publish('oc', 'k1', 'fd1 fd2 fd3'), publish('oc', 'k2', 'fd4');
SELECT got('f'), answer('f', 'fd2'), ack('f', 'fd1');
SELECT got('f');
SELECT ack_all('f'), got('f'), ack_all('f'), got('f') IS NULL, dc_dead_letter_discard('f');
-- delivered again, with new ones behind; and from the middle of these
SELECT dc_consumer_alter('f', max_attempts => 2), publish('oc', 'k1', 'fg1 fg2 fg3');
SELECT got('f'), answer('f', 'fg1', '1 hour'), ack_all('f');
SELECT later('f'), publish('oc', 'k1', 'fg4 fg5');
SELECT got('f'), answer('f', 'fg1'), ack_all('f');
SELECT got('f'), answer('f', 'fg3'), ack('f', 'fg2');
SELECT got('f'), answer('f', 'fg3'), ack_all('f');
SELECT got('f'), ack('f', 'fg4'), got('f'), ack('f', 'fg5'), got('f') IS NULL;
SELECT string_agg(type, ' ' ORDER BY seq) FROM dc_dead_letters WHERE consumer = 'f';
-- revived, while others of the key are pending or are being worked on
SELECT publish('oc', 'k1', 'fh1 fh2');
SELECT got('f'), answer('f', 'fh1', '1 hour'), ack_all('f');
SELECT dc_dead_letter_retry('f', seq_of('fg1')), got('f'), answer('f', 'fg1', '1 hour'), ack_all('f'), got('f') IS NULL;
SELECT later('f'), got('f'), ack('f', 'fg1'), dc_dead_letter_retry('f', seq_of('fg3')), answer('f', 'fh1'), ack_all('f');
SELECT got('f'), answer('f', 'fg3'), ack_all('f');
SELECT got('f'), answer('f', 'fg3'), ack_all('f');
SELECT got('f'), ack('f', 'fh2'), got('f') IS NULL, dc_dead_letter_discard('f');
-- several in a transaction, and one in a savepoint that is rolled back
SELECT dc_consumer_alter('f', max_attempts => 1), publish('oc', 'k1', 'fi1 fi2'), publish('oc', 'k2', 'fi3 fi4'), publish('oc', 'k3', 'fi5 fi6');
BEGIN;
SELECT got('f'), answer('f', 'fi1');
SAVEPOINT s;
SELECT answer('f', 'fi5');
ROLLBACK TO s;
SELECT answer('f', 'fi3');
SELECT ack_all('f');
COMMIT;
SELECT got('f'), ack_all('f'), got('f') IS NULL, dc_dead_letter_discard('f');
-- before one that waits for longer, and with other settings by then
SELECT dc_consumer_alter('f', max_attempts => 10), publish('oc', 'k1', 'fj1 fj2'), publish('oc', 'k2', 'fj3 fj4');
SELECT got('f'), answer('f', 'fj3', '1 hour');
SELECT dc_consumer_alter('f', max_attempts => 1), answer('f', 'fj1'), ack_all('f');
SELECT got('f'), ack('f', 'fj2'), later('f'), got('f'), ack_all('f'), got('f') IS NULL, dc_dead_letter_discard('f');
-- on_nack at the time of the fetch decides what is delivered again, and the current one whether it waits
SELECT dc_consumer_alter('f', max_attempts => 10), publish('oc', 'k1', 'fl1 fl2 fl3');
SELECT got('f'), dc_consumer_alter('f', on_nack => 'skip');
SELECT answer('f', 'fl1', '1 hour'), ack_all('f');
SELECT got('f'), answer('f', 'fl2', '1 hour'), ack_all('f');
SELECT publish('oc', 'k1', 'fl4');
SELECT later('f'), got('f'), dc_consumer_alter('f', on_nack => 'wait');
SELECT answer('f', 'fl1', '1 hour'), ack_all('f');
SELECT publish('oc', 'k1', 'fl5 fl6');
SELECT got('f') IS NULL, later('f'), got('f'), dc_consumer_alter('f', on_nack => 'skip'), answer('f', 'fl1', '1 hour'), ack_all('f'), got('f');
SELECT ack_all('f'), later('f'), got('f'), ack_all('f'), got('f') IS NULL;
-- what was nacked under skip holds up its key under wait
SELECT publish('oc', 'k1', 'fm1 fm2');
SELECT got('f'), answer('f', 'fm1'), ack('f', 'fm2'), dc_consumer_alter('f', max_attempts => 2, on_nack => 'wait');
SELECT publish('oc', 'k1', 'fm3');
SELECT got('f'), answer('f', 'fm1'), ack_all('f');
SELECT got('f'), ack_all('f'), got('f') IS NULL, dc_dead_letter_discard('f');
-- the member has lost its lanes by then
SELECT dc_consumer_alter('f', max_attempts => 1), publish('oc', 'k1', 'fn1 fn2'), publish('oc', 'k2', 'fn3');
SELECT got('f', member => 'one'), answer('f', 'fn1', member => 'one'), ack_all('f', 'one'), expire('one');
SELECT publish('oc', 'k1', 'fn4');
SELECT got('f', member => 'two'), ack_all('f', 'two'), got('f', member => 'two') IS NULL, expire('two'), dc_dead_letter_discard('f');
-- events of counters
SELECT dc_create('oc_counter');
SELECT dc_alter('oc_counter', events => '1 us'), dc_set('oc_counter', 'k1', 1);
CALL dc_maintain();
SELECT dc_set('oc_counter', 'k1', 2), dc_set('oc_counter', 'k2', 3);
CALL dc_maintain();
SELECT key, payload -> 'value' AS value, CASE row_number() OVER (ORDER BY seq) WHEN 1 THEN dc_nack('f', seq) END AS answer FROM dc_fetch('f') ORDER BY seq;
SELECT ack_all('f');
SELECT key, payload -> 'value' AS value FROM dc_fetch('f');
SELECT ack_all('f'), got('f') IS NULL, dc_dead_letter_discard('f');
DROP TABLE oc_counter, oc_counter_shard;
SELECT dc_consumer_drop('f');
DROP FUNCTION answer, ack_all;

-- Members. Keys are split evenly over those who live
CREATE FUNCTION lanes(consumer text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT member || ' ' || length(replace(lanes::bit(64)::text, '0', '')) FROM dcounter.consumer_member m JOIN dcounter.consumer c ON c.id = m.consumer
	WHERE c.name = lanes.consumer ORDER BY member $$;
SELECT dc_consumer_create('m');
CREATE TABLE log (member text, key text, n int, seq bigint);
CREATE FUNCTION work(who text) RETURNS text LANGUAGE sql AS $$
	WITH fetched AS (INSERT INTO log SELECT who, key, type::int, seq FROM dc_fetch('m', 1000, member => who) RETURNING seq)
		SELECT dc_ack('m', max(seq), who) FROM fetched HAVING count(*) > 0;
	SELECT 'done' $$;
SELECT got('m', member => 'one') IS NULL;
SELECT lanes('m');
SELECT count(dc_publish('oc', 'k' || k, i::text, NULL)) FROM generate_series(1, 3) i, generate_series(1, 100) k;
SELECT got('m', 1000, 'two') IS NULL;
SELECT lanes('m');
SELECT got('m') IS NULL;
-- ... and says who
DO $$
DECLARE
	told text;
BEGIN
	PERFORM dc_fetch('m');
EXCEPTION WHEN object_in_use THEN
	GET STACKED DIAGNOSTICS told = PG_EXCEPTION_DETAIL;
	RAISE NOTICE '%', regexp_replace(told, 'until .*', 'until ...');
END $$;
SELECT work('one'), work('two');
SELECT lanes('m');
SELECT count(*), count(DISTINCT seq) FROM log;
SELECT count(dc_publish('oc', 'k' || k, i::text, NULL)) FROM generate_series(4, 6) i, generate_series(1, 100) k;
SELECT work('one'), work('two'), work('three');
SELECT work('one'), work('two'), work('three');
SELECT lanes('m');
SELECT count(*), count(DISTINCT seq), count(DISTINCT member) FROM log;
-- each key in order, over all members
SELECT count(*) FROM (SELECT n, lag(n, 1, 0) OVER (PARTITION BY key ORDER BY ctid) AS before FROM log) l WHERE n <> before + 1;
-- Who loses its lease loses its lanes, and what it has fetched comes to others
SELECT count(dc_publish('oc', 'k' || k, '7', NULL)) FROM generate_series(1, 100) k;
SELECT max(seq) AS last FROM dc_fetch('m', 1000, member => 'one') \gset
SELECT expire('one');
SELECT dc_ack('m', :last, 'one');
SELECT work('two'), work('three');
SELECT lanes('m');
SELECT dc_ack('m', :last, 'one');
SELECT dc_nack('m', :last, member => 'one');
SELECT work('two'), work('three'), work('two');
SELECT lanes('m');
SELECT count(*), count(DISTINCT seq) FROM log;
SELECT count(*) FROM (SELECT n, lag(n, 1, 0) OVER (PARTITION BY key ORDER BY ctid) AS before FROM log) l WHERE n <> before + 1;
SELECT dc_ack('m', 1, 'nobody');
-- It comes back
SELECT work('one'), work('two'), work('three'), work('one');
SELECT lanes('m');
-- Retries go with their lanes
SELECT dc_publish('oc', 'k1', 'r1', NULL) IS NULL, dc_publish('oc', 'k1', 'r2', NULL) IS NULL;
SELECT dc_seek('m', seq_of('r1') - 1), expire('one'), expire('two'), expire('three');
SELECT lanes('m');
SELECT got('m', member => 'one'), nack('m', 'r1', '1 hour', member => 'one');
SELECT ack('m', 'r2', 'one') IS NULL, expire('one'), later('m');
SELECT got('m', member => 'two');
SELECT ack('m', 'r2', 'one');
SELECT ack('m', 'r2', 'two');
SELECT got('m', member => 'two') IS NULL, (SELECT count(*) FROM dcounter.consumer_retry);
-- Without members again, when all have gone
SELECT expire('two'), expire('three');
SELECT publish('oc', 'k', 'n1');
SELECT got('m'), ack('m', 'n1');
SELECT lanes('m');

-- Rights
CREATE ROLE regress_outbox_owner;
CREATE ROLE regress_outbox_reader;
CREATE ROLE regress_outbox_other;
GRANT EXECUTE ON FUNCTION dc_consumer_create TO regress_outbox_owner;
SET ROLE regress_outbox_other;
SELECT dc_consumer_create('own');
SET ROLE regress_outbox_owner;
SELECT dc_consumer_create('own'), dc_publish('oc', 'k', 'o1', NULL) IS NULL;
SELECT dc_consumer_grant('own', 'regress_outbox_reader'), dc_consumer_grant('own', 'regress_outbox_reader');
SELECT dc_consumer_alter('own', max_attempts => 1);
SELECT readers FROM dcounter.consumer;
SET ROLE regress_outbox_reader;
SELECT type FROM dc_fetch('own');
SELECT seq AS o1 FROM dc_fetch('own') \gset
SELECT dc_nack('own', :o1), dc_ack('own', :o1);
SELECT consumer, type FROM dc_dead_letters;
SELECT dc_seek('own', 'now');
SELECT dc_consumer_alter('own', lease => '1 s');
SELECT dc_consumer_grant('own', 'regress_outbox_other');
SELECT dc_consumer_revoke('own', 'regress_outbox_reader');
SELECT dc_dead_letter_retry('own');
SELECT dc_dead_letter_discard('own');
SELECT dc_consumer_drop('own');
SET ROLE regress_outbox_other;
SELECT type FROM dc_fetch('own');
SELECT dc_ack('own', :o1);
SELECT dc_nack('own', :o1);
SELECT count(*) FROM dc_dead_letters;
SET ROLE regress_outbox_owner;
SELECT dc_consumer_revoke('own', 'regress_outbox_reader'), dc_dead_letter_discard('own');
SET ROLE regress_outbox_reader;
SELECT type FROM dc_fetch('own');
RESET ROLE;
SELECT name, owner, readers, topics, lease, max_attempts, on_nack, max_retention_age, max_retention_size, cut_off FROM dcounter.consumer WHERE name = 'own';
SELECT dc_consumer_grant('own', 'regress_outbox_other');
DROP ROLE regress_outbox_other;
-- dropped roles are forgotten, in a round of the worker or with any change
SELECT dc_consumer_grant('own', 'regress_outbox_reader'), cardinality(readers) FROM dcounter.consumer WHERE name = 'own';
SELECT readers FROM dcounter.consumer WHERE name = 'own';
UPDATE dcounter.consumer SET readers = ARRAY[1, 'regress_outbox_reader'::regrole, 2] WHERE name = 'own';
CALL dc_maintain();
SELECT owner, readers FROM dcounter.consumer WHERE name = 'own';
DROP OWNED BY regress_outbox_owner;
DROP ROLE regress_outbox_owner;
CALL dc_maintain();
SELECT owner = relowner, readers FROM dcounter.consumer c, pg_class t WHERE c.name = 'own' AND t.oid = 'dcounter.consumer'::regclass;
DROP ROLE regress_outbox_reader;
SELECT dc_consumer_alter('own', max_attempts => 2);
SELECT owner = relowner, readers FROM dcounter.consumer c, pg_class t WHERE c.name = 'own' AND t.oid = 'dcounter.consumer'::regclass;
SELECT dc_consumer_drop('own');

-- Settings
SELECT dc_consumer_create('s', '{a}'), dc_consumer_alter('s', '{b,c}', '1 min', 5, 'skip', '1 day', 1000000);
SELECT dc_consumer_alter('s', lease => '2 min');
SELECT topics, lease, max_attempts, on_nack, max_retention_age, max_retention_size FROM dcounter.consumer WHERE name = 's';
SELECT dc_consumer_alter('s', '{}', max_retention_age => '0', max_retention_size => 0);
SELECT topics, lease, max_attempts, on_nack, max_retention_age IS NULL, max_retention_size IS NULL FROM dcounter.consumer WHERE name = 's';

-- Cut off: an error, until it is moved
UPDATE dcounter.consumer SET cut_off = 1 WHERE name = 's';
SELECT got('s');
SELECT dc_seek('s', 'now'), got('s') IS NULL;
SELECT dc_consumer_drop('s');

-- Arguments
SELECT dc_consumer_create(NULL);
SELECT dc_consumer_create('');
SELECT dc_consumer_create(repeat('x', 64));
SELECT dc_consumer_create('c');
SELECT dc_consumer_create('x', start => NULL);
SELECT dc_consumer_create('x', start => 'then');
SELECT dc_consumer_create('x', '{a,NULL}');
SELECT dc_consumer_create('x', '{{a},{b}}');
SELECT dc_consumer_alter('x');
SELECT dc_consumer_alter('c', lease => '0');
SELECT dc_consumer_alter('c', lease => '-1 s');
SELECT dc_consumer_alter('c', lease => '1 month');
SELECT dc_consumer_alter('c', max_attempts => 0);
SELECT dc_consumer_alter('c', on_nack => 'ignore');
SELECT dc_consumer_alter('c', max_retention_age => '-1 day');
SELECT dc_consumer_alter('c', max_retention_age => '1 year');
SELECT dc_consumer_alter('c', max_retention_size => -1);
SELECT dc_consumer_drop('x');
SELECT dc_consumer_grant('x', current_user::regrole);
SELECT dc_consumer_grant('c', NULL);
SELECT dc_consumer_grant('c', 4294967295::oid::regrole);
SELECT dc_fetch('x');
SELECT dc_fetch(NULL);
SELECT dc_fetch('c', 0);
SELECT dc_fetch('c', NULL);
SELECT dc_fetch('c', 1, NULL);
SELECT dc_fetch('c', 1, '-1 s');
SELECT dc_fetch('c', member => '');
SELECT dc_fetch('c', member => repeat('x', 64));
SELECT dc_ack('x', 1);
SELECT dc_ack('c', NULL);
SELECT dc_ack(NULL, 1);
SELECT dc_nack('x', 1);
SELECT dc_nack('c', NULL);
SELECT dc_nack('c', 1, NULL);
SELECT dc_nack('c', 1, '-1 s');
SELECT dc_seek('x', 'now');
SELECT dc_dead_letter_retry('x');
SELECT dc_dead_letter_discard(NULL);
BEGIN READ ONLY;
SELECT dc_fetch('c');
ROLLBACK;
BEGIN READ ONLY;
SELECT dc_ack('c', 1);
ROLLBACK;

-- Members of all consumers of a role are limited, as the worker reads them all; those that are there go on
SELECT dc_consumer_create('many'), dc_consumer_create('more');
SELECT count(*) FROM dc_fetch('more', 1, '0', 'old');
INSERT INTO dcounter.consumer_member SELECT m.consumer, 'm' || i, m.version, 0, m.acked, NULL, m.fetched, m.delivered, NULL, m.skip, NULL, m.lease_until, NULL, m.retry_first, m.retry_last, m.revived
	FROM dcounter.consumer_member AS m JOIN dcounter.consumer AS c ON c.id = m.consumer, generate_series(1, 5000) AS i WHERE c.name = 'many' AND m.member = '';
SELECT count(*) FROM dc_fetch('more', 1, '0', 'old');
SELECT count(*) FROM dc_fetch('more', 1, '0', 'new');
DELETE FROM dcounter.consumer_member WHERE member = 'm1' OR member ~ 'm[2-9]';
SELECT count(*) FROM dc_fetch('more', 1, '0', 'new');
SELECT dc_consumer_drop('many'), dc_consumer_drop('more');

-- A fetch ends with the event that makes 16 MB full, retries among them
SELECT dc_consumer_create('big', '{big}');
SELECT count(dc_publish('big', 'k' || i, 'big' || i, to_jsonb(repeat('x', 6000000)), to_jsonb(repeat('y', 1000000)))) FROM generate_series(1, 5) AS i;
SELECT got('big');
SELECT nack('big', 'big1'), nack('big', 'big2'), nack('big', 'big3');
SELECT got('big');
SELECT nack('big', 'big4'), nack('big', 'big5');
SELECT got('big') IS NULL;
SELECT later('big');
SELECT got('big');
SELECT ack('big', 'big3');
SELECT got('big');
SELECT ack('big', 'big5');
SELECT got('big') IS NULL;
SELECT dc_consumer_drop('big');
-- and topics are not any number
SELECT dc_consumer_create('wide', array_fill(repeat('t', 100), ARRAY[400]));
SELECT dc_consumer_create('wide', array_fill(repeat('t', 100), ARRAY[300]));
SELECT dc_consumer_alter('wide', array_fill(repeat('t', 100), ARRAY[400]));
SELECT cardinality(topics) FROM dc_stat_consumers WHERE name = 'wide';
SELECT dc_consumer_drop('wide');

-- A dropped consumer leaves nothing
SELECT dc_consumer_drop('c'), dc_consumer_drop('m');
SELECT (SELECT count(*) FROM dcounter.consumer), (SELECT count(*) FROM dcounter.consumer_member), (SELECT count(*) FROM dcounter.consumer_retry);
DROP TABLE log;
DROP FUNCTION publish, publish_keyless, got, seq_of, ack, nack, later, expire, lanes, work;
