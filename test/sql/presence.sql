-- Presences, on a server that is preloaded. Times to live are so long that no time which the test takes matters.
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SET intervalstyle = postgres;
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/try_value.sql
CREATE VIEW stat AS SELECT name, members, connections, joined, "left", expired, refused FROM dc_stat_presence;

-- Rules
SELECT dc_presence_create('chat', '7 days'), dc_presence_create('defaults'), dc_presence_create('few', '7 days', max_members => 3),
	dc_presence_create('told', '7 days', events => '1 us', notify => 'told');
SELECT name, owner = current_user::regrole, users, ttl, events, channel, max_members, version FROM dcounter.presence_rule ORDER BY id;
SELECT try($$SELECT dc_presence_create('chat')$$);
SET client_min_messages = notice;
SELECT dc_presence_create('noticed', '7 days');
SELECT dc_presence_drop('noticed');
SELECT dc_presence_create('chat', if_not_exists => true);
SET client_min_messages = warning;
SELECT try($$SELECT dc_presence_create(NULL)$$), try($$SELECT dc_presence_create('x', NULL)$$), try($$SELECT dc_presence_create('')$$),
	try($$SELECT dc_presence_create(repeat('x', 64))$$), try($$SELECT dc_presence_create('x', '0.9 s')$$), try($$SELECT dc_presence_create('x', '8 days')$$),
	try($$SELECT dc_presence_create('x', events => '0')$$), try($$SELECT dc_presence_create('x', events => '-1 s')$$), try($$SELECT dc_presence_create('x', events => '8 days')$$),
	try($$SELECT dc_presence_create('x', notify => 'x')$$), try($$SELECT dc_presence_create('x', events => '1 s', notify => '')$$),
	try($$SELECT dc_presence_create('x', events => '1 s', notify => repeat('x', 64))$$), try($$SELECT dc_presence_create('x', max_members => 0)$$);
SELECT try($$SELECT dc_presence_alter('nothing')$$), try($$SELECT dc_presence_drop('nothing')$$), try($$SELECT dc_presence_alter('chat', max_members => -1)$$),
	try($$SELECT dc_presence_alter('told', events => '0')$$), try($$SELECT dc_presence_alter(NULL)$$);
BEGIN READ ONLY;
SELECT dc_presence_create('x');
ROLLBACK;
SELECT dc_presence_alter('defaults', '1 day', '2 s', 'channel', 7);
SELECT ttl, events, channel, max_members, version FROM dcounter.presence_rule WHERE name = 'defaults';
SELECT dc_presence_alter('defaults', events => '0', notify => '', max_members => 0);
SELECT ttl, events, channel, max_members, version FROM dcounter.presence_rule WHERE name = 'defaults';

-- Rooms and members of any type that keys of counters have, each of its own
SELECT dc_enter('chat', 7, 8), dc_enter('chat', '7', 9), dc_enter('chat', 7, 'ann'), dc_beat('chat', '7', '8'), dc_beat('chat', 7, 8), dc_present('chat', 7),
	dc_exit('chat', '7', 9), dc_exit('chat', 7, 'ann'), dc_enter('chat', 7, '1f0e4ee0-8e3b-4a8f-9a39-8d8b7f0c8a10'::uuid);
SELECT member FROM dc_presence_list('chat', 7);
SELECT dc_exit('chat', 7, '1f0e4ee0-8e3b-4a8f-9a39-8d8b7f0c8a10'), dc_exit('chat', 7, 8);
SELECT try($$SELECT dc_enter('chat', 1.5, 'ann')$$), try($$SELECT dc_enter('chat', 7, 1.5)$$), try($$SELECT dc_enter('chat', NULL::int, 8)$$);
SELECT dc_beat_many('chat', ARRAY[7, 7], ARRAY[8, 9]), dc_beat_many('chat', '{7,7}', '{8,9}'), dc_exit('chat', '7', '8'), dc_exit('chat', 7, 9);

-- Members come and go
SELECT dc_enter('chat', 'lobby', 'ann'), dc_enter('chat', 'lobby', 'bob'), dc_enter('chat', 'lobby', 'ann'), dc_present('chat', 'lobby');
SELECT dc_present('chat', 'nowhere'), dc_exit('chat', 'nowhere', 'ann'), dc_exit('chat', 'lobby', 'nobody');
SELECT dc_beat('chat', 'lobby', 'ann'), dc_beat('chat', 'lobby', 'cy'), dc_beat('chat', 'hall', 'ann'), dc_present('chat', 'lobby'), dc_present('chat', 'hall');
SELECT dc_exit('chat', 'lobby', 'ann'), dc_exit('chat', 'lobby', 'ann'), dc_beat('chat', 'lobby', 'ann');
SELECT * FROM stat ORDER BY name;
-- Several connections
SELECT dc_enter('chat', 'lobby', 'ann', 'phone'), dc_beat('chat', 'lobby', 'ann', 'tablet'), dc_beat('chat', 'lobby', 'ann', 'phone'),
	dc_exit('chat', 'lobby', 'ann'), dc_exit('chat', 'lobby', 'ann', 'unknown'), dc_exit('chat', 'lobby', 'ann', 'phone'), dc_exit('chat', 'lobby', 'ann', 'tablet');
SELECT dc_enter('chat', 'lobby', 'ann', 'a'), dc_enter('chat', 'lobby', 'ann', 'b'), dc_exit('chat', 'lobby', 'ann', NULL);
SELECT sum(dc_enter('chat', 'lobby', 'ann', 'c' || i)) FROM generate_series(1, 64) AS i;
SELECT try($$SELECT dc_enter('chat', 'lobby', 'ann', 'one more')$$), try($$SELECT dc_beat('chat', 'lobby', 'ann', 'one more')$$), try($$SELECT dc_beat('chat', 'lobby', 'ann', 'c64')$$), try($$SELECT dc_enter('chat', 'lobby', 'ann')$$);
SELECT * FROM stat WHERE name = 'chat';
SELECT dc_exit('chat', 'lobby', 'ann', NULL);
-- Many at once
SELECT dc_beat_many('chat', '{lobby,lobby,hall}', '{bob,dan,dan}'), dc_beat_many('chat', '{lobby,lobby}', '{dan,dan}', '{"",x}'), dc_beat_many('chat', '{}', '{}');
SELECT try($$SELECT dc_beat_many('chat', '{a}', '{b,c}')$$), try($$SELECT dc_beat_many('chat', '{a}', '{b}', '{c,d}')$$), try($$SELECT dc_beat_many('chat', '{NULL}', '{b}')$$),
	try($$SELECT dc_beat_many('chat', NULL, '{b}')$$);
-- It is not transactional
BEGIN;
SELECT dc_enter('chat', 'undone', 'ann');
ROLLBACK;
SELECT dc_present('chat', 'undone');
BEGIN READ ONLY;
SELECT dc_exit('chat', 'undone', 'ann');
COMMIT;
-- Names
SELECT dc_enter('chat', '', ''), dc_enter('chat', '', 'x'), dc_enter('chat', repeat('r', 1024), repeat('m', 1024), repeat('c', 128)), dc_present('chat', '');
SELECT length(member), meta FROM dc_presence_list('chat', repeat('r', 1024));
SELECT try($$SELECT dc_enter('chat', repeat('r', 1025), 'm')$$), try($$SELECT dc_enter('chat', 'r', repeat('m', 1025))$$), try($$SELECT dc_enter('chat', 'r', 'm', repeat('c', 129))$$),
	try($$SELECT dc_enter('chat', 'r', 'm', 'c', to_jsonb(repeat('x', 1100)))$$), try($$SELECT dc_enter(NULL, 'r', 'm')$$), try($$SELECT dc_enter('chat', NULL, 'm')$$),
	try($$SELECT dc_enter('chat', 'r', NULL)$$), try($$SELECT dc_enter('chat', 'r', 'm', NULL)$$), try($$SELECT dc_beat('chat', 'r', 'm', NULL)$$), try($$SELECT dc_enter('nothing', 'r', 'm')$$),
	try($$SELECT dc_present('chat', NULL)$$), try($$SELECT dc_present(repeat('x', 100), 'r')$$), try($$SELECT dc_exit('nothing', 'r', 'm')$$), try($$SELECT dc_beat('nothing', 'r', 'm')$$);
-- Pages, in the order of bytes
SELECT count(dc_enter('chat', 'big', 'm' || i, meta => CASE WHEN i % 100 = 0 THEN jsonb_build_object('i', i, 'x', repeat('x', i)) END)) FROM generate_series(1, 500) AS i;
SELECT member, meta ->> 'i', length(meta ->> 'x') FROM dc_presence_list('chat', 'big', n => 3);
SELECT member FROM dc_presence_list('chat', 'big', 'm102', 2);
SELECT dc_exit('chat', 'big', 'm102');
SELECT member FROM dc_presence_list('chat', 'big', 'm102', 2);
SELECT member FROM dc_presence_list('chat', 'big', 'm98');
SELECT count(*), count(DISTINCT member), count(meta), bool_and(length(meta ->> 'x') = (meta ->> 'i')::int AND 'm' || (meta ->> 'i') = member) FROM dc_presence_list('chat', 'big', n => 10000);
SELECT count(*) FROM dc_presence_list('chat', 'nowhere');
SELECT dc_enter('chat', 'big', 'm100', meta => '"new"'), dc_enter('chat', 'big', 'm100');
SELECT * FROM dc_presence_list('chat', 'big', 'm10', 1);
SELECT try($$SELECT dc_presence_list('chat', 'big', n => 0)$$), try($$SELECT dc_presence_list('chat', 'big', n => 10001)$$), try($$SELECT dc_presence_list('chat', 'big', n => NULL)$$), try($$SELECT dc_presence_list('chat', NULL)$$);
-- A bound
SELECT dc_enter('few', 'a', '1'), dc_enter('few', 'a', '2'), dc_enter('few', 'b', '3');
SELECT try($$SELECT dc_enter('few', 'a', '4')$$), try($$SELECT dc_beat('few', 'b', '4')$$), try($$SELECT dc_beat('few', 'a', '1')$$);
SELECT dc_exit('few', 'a', '1'), dc_enter('few', 'a', '4'), dc_exit('few', 'a', '2');
SELECT dc_enter('few', 'c', '1');
SELECT try($$SELECT dc_enter('few', 'd', '1')$$);
SELECT dc_presence_alter('few', max_members => 4);
SELECT dc_enter('few', 'd', '1');
SELECT * FROM stat WHERE name = 'few';
-- Events are conflated, and are in the transaction of the job
SELECT dc_enter('told', 'a', '1'), dc_enter('told', 'a', '2'), dc_exit('told', 'a', '1'), dc_enter('told', 'b', '1');
CALL dc_maintain();
SELECT dc_exit('told', 'a', '2'), dc_enter('told', 'b', '1', meta => '1');
CALL dc_maintain();
CALL dc_maintain();
SELECT aggregateid, type, payload - 'version' - 'epoch' FROM dcounter.outbox WHERE aggregatetype = 'told' ORDER BY seq;
SELECT untold FROM dc_stat_presence WHERE name = 'told';
-- Counts follow from each other, or a reset says that they do not: without events for a while, and re-created
CREATE VIEW told_counts AS
	SELECT seq, aggregateid AS room, replace(type, 'presence.', '') AS type, payload ->> 'count' AS count, payload ->> 'joined' AS joined, payload ->> 'left' AS left FROM dcounter.outbox WHERE aggregatetype = 'told';
SELECT coalesce(max(seq), 0) AS seen FROM told_counts \gset
SELECT dc_presence_alter('told', events => '0', notify => '');
SELECT dc_enter('told', 'a', '3'), dc_enter('told', 'a', '4'), dc_exit('told', 'b', '1'), dc_exit('told', 'a', '3'), dc_enter('told', 'c', '1');
CALL dc_maintain();
SELECT dc_presence_alter('told', events => '1 us', notify => 'told');
SELECT dc_enter('told', 'a', '5'), dc_enter('told', 'd', '1'), dc_exit('told', 'd', '1');
BEGIN; CALL dc_maintain(); ROLLBACK;
SELECT dc_exit('told', 'a', '4');
CALL dc_maintain();
CALL dc_maintain();
SELECT min(seq) FILTER (WHERE type = 'reset') = min(seq) AS reset_first, count(*) FILTER (WHERE type = 'reset') AS resets FROM told_counts WHERE seq > :seen;
SELECT room, type, count, joined, "left" FROM told_counts WHERE seq > :seen AND type = 'changed' ORDER BY room, seq;
SELECT coalesce(max(seq), 0) AS seen FROM told_counts \gset
SELECT dc_presence_drop('told');
SELECT dc_presence_create('told', '7 days', events => '1 us');
CALL dc_maintain();
SELECT dc_enter('told', 'a', '1');
CALL dc_maintain();
SELECT room, type, count, joined, "left" FROM told_counts WHERE seq > :seen ORDER BY seq;
SELECT dc_enter('told', 'b', '1');
DROP VIEW told_counts;
-- Rights
CREATE ROLE regress_dcounter_a;
CREATE ROLE regress_dcounter_b;
GRANT SELECT ON stat TO PUBLIC;
SET ROLE regress_dcounter_a;
SELECT try($$SELECT dc_presence_create('mine')$$), try($$SELECT dc_enter('chat', 'r', 'm')$$), try($$SELECT dc_beat('chat', 'r', 'm')$$), try($$SELECT dc_beat_many('chat', '{r}', '{m}')$$),
	try($$SELECT dc_exit('chat', 'r', 'm')$$), try($$SELECT dc_present('chat', 'r')$$), try($$SELECT count(*) FROM dc_presence_list('chat', 'r')$$),
	try($$SELECT dc_presence_alter('chat')$$), try($$SELECT dc_presence_drop('chat')$$), try($$SELECT dc_presence_grant('chat', 'regress_dcounter_a')$$);
SELECT count(*) FROM dc_stat_presence;
RESET ROLE;
SELECT dc_presence_grant('chat', 'regress_dcounter_a'), dc_presence_grant('told', '-');
SELECT try($$SELECT dc_presence_grant('chat', 1::regrole)$$), try($$SELECT dc_presence_grant('chat', NULL)$$);
SET ROLE regress_dcounter_a;
SELECT try($$SELECT dc_enter('chat', 'r', 'm')$$), try($$SELECT dc_present('told', 'b')$$), try($$SELECT dc_enter('few', 'r', 'm')$$);
SELECT name FROM dc_stat_presence ORDER BY 1;
RESET ROLE;
SELECT dc_presence_revoke('chat', 'regress_dcounter_a'), dc_presence_revoke('told', '-');
SET ROLE regress_dcounter_a;
SELECT try($$SELECT dc_enter('chat', 'r', 'm')$$), try($$SELECT dc_present('told', 'b')$$);
RESET ROLE;
-- not by the code of a table's owner
CREATE FUNCTION sneaky() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN public.dc_enter('chat', 'sneaky', 'me'); END $$;
CREATE MATERIALIZED VIEW sneaky_view AS SELECT 1 AS a WITH NO DATA;
SELECT try('CREATE MATERIALIZED VIEW sneaky_view_2 AS SELECT sneaky()');
DROP MATERIALIZED VIEW sneaky_view;
-- Rules are transactional
BEGIN;
SELECT dc_presence_create('new');
SELECT try($$SELECT dc_enter('new', 'r', 'm')$$);
ROLLBACK;
SELECT try($$SELECT dc_enter('new', 'r', 'm')$$);
BEGIN;
SELECT dc_presence_drop('few');
ROLLBACK;
SELECT try($$SELECT dc_present('few', 'c')$$);
SELECT dc_presence_drop('chat');
SELECT dc_presence_create('chat', '7 days');
SELECT try($$SELECT dc_present('chat', 'lobby')$$), try($$SELECT dc_enter('chat', 'lobby', 'zoe')$$);
SELECT dc_presence_drop(name) FROM unnest('{chat,defaults,few,told}'::text[]) AS name;
SELECT count(*) FROM dc_stat_presence;
-- Turns: a call in a transaction makes 500 events. Rooms that change all the time keep neither another owner's from theirs, nor another of the same owner's
GRANT EXECUTE ON FUNCTION dc_presence_create(text, interval, interval, text, bigint, boolean, boolean) TO regress_dcounter_a;
SET ROLE regress_dcounter_a;
SELECT dc_presence_create('busy', '7 days', events => '1 us'), dc_presence_create('busy too', '7 days', events => '1 us');
RESET ROLE;
SELECT dc_presence_create('calm', '7 days', events => '1 us');
CREATE FUNCTION fill(rule text, rooms int) RETURNS bigint LANGUAGE sql AS $$ SELECT count(dc_enter(rule, 'room ' || i, gen_random_uuid()::text)) FROM generate_series(1, rooms) AS i $$;
CREATE VIEW turns AS SELECT DISTINCT aggregatetype FROM dcounter.outbox WHERE aggregatetype IN ('busy', 'busy too', 'calm') ORDER BY 1;
SELECT fill('busy', 600), fill('busy too', 600), fill('calm', 1);
BEGIN; CALL dc_maintain(); COMMIT;
SELECT * FROM turns;
SELECT fill('busy', 600), fill('busy too', 600);
BEGIN; CALL dc_maintain(); COMMIT;
SELECT * FROM turns;
SELECT dc_presence_drop(name) FROM unnest('{busy,busy too,calm}'::text[]) AS name;
DROP VIEW turns;
DROP FUNCTION fill;
-- A role's presences can have an eighth of the slots; those of others have theirs
SET ROLE regress_dcounter_a;
SELECT count(dc_presence_create('slot ' || i, '7 days')) FROM generate_series(1, 140) AS i;
SELECT sum(dc_enter('slot ' || i, 'r', 'm')) FROM generate_series(1, 128) AS i;
SELECT try($$SELECT dc_enter('slot 129', 'r', 'm')$$), try($$SELECT dc_enter('slot 128', 'r2', 'm')$$);
RESET ROLE;
SELECT count(dc_presence_create('other ' || i, '7 days')) FROM generate_series(1, 200) AS i;
SELECT sum(dc_enter('other ' || i, 'r', 'm')) FROM generate_series(1, 200) AS i;
SELECT count(dc_presence_drop('slot ' || i)) FROM generate_series(1, 10) AS i;
SET ROLE regress_dcounter_a;
SELECT try($$SELECT dc_enter('slot 129', 'r', 'm')$$);
RESET ROLE;
SELECT count(dc_presence_drop(name)) FROM (SELECT 'slot ' || generate_series(11, 140) UNION SELECT 'other ' || generate_series(1, 200)) AS r (name);
REVOKE EXECUTE ON FUNCTION dc_presence_create(text, interval, interval, text, bigint, boolean, boolean) FROM regress_dcounter_a;
SELECT count(*) FROM dc_stat_presence;
DROP VIEW stat;
DROP FUNCTION try, sneaky;
DROP ROLE regress_dcounter_a, regress_dcounter_b;
