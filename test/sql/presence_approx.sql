-- Approximate presences, on a server that is preloaded: rooms know about how many members they have. It is another number each
-- time, as hashes have a salt: so bounds are compared, which hold but for one time in a million million. Times to live are so long that no time which the test takes matters.
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SET intervalstyle = postgres;
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/try_value.sql

-- Rules
SELECT dc_presence_create('live', '7 days', approx => true), dc_presence_create('exact', '7 days'), dc_presence_create('told_live', '7 days', events => '1 us', approx => true),
	dc_presence_create('few', '7 days', max_members => 2, approx => true);
SELECT name, approx, ttl, max_members FROM dcounter.presence_rule ORDER BY id;
SELECT try($$SELECT dc_presence_create('x', approx => NULL)$$);
SELECT dc_presence_alter('live', '6 days');
SELECT name, approx, ttl, version FROM dcounter.presence_rule WHERE name = 'live';

-- Members
SELECT dc_present('live', 'a');
SELECT dc_enter('live', 'a', 'ann'), dc_enter('live', 'a', 'ann'), dc_enter('live', 'a', 'ann', 'phone'), dc_present('live', 'a');
SELECT dc_beat('live', 'a', 'ann'), dc_beat('live', 'a', 'ann', 'another phone'), dc_beat('live', 'b', 'ann'), dc_beat('live', 'b', 'ann'), dc_present('live', 'b');
SELECT dc_beat_many('live', '{c,c,d}', '{ann,ann,ann}'), dc_beat_many('live', '{c,c,d}', '{ann,ann,ann}', '{x,y,z}');
-- nobody can be taken out
SELECT dc_exit('live', 'a', 'ann'), dc_exit('live', 'a', 'ann', NULL), dc_exit('live', 'nowhere', 'ann'), dc_present('live', 'a');
-- Many of them
SELECT count(dc_enter('live', 'big', 'member ' || i)) FROM generate_series(1, 20000) AS i;
SELECT dc_present('live', 'big') BETWEEN 20000 * 0.94 AND 20000 * 1.06, dc_present('live', 'big') = dc_enter('live', 'big', 'member 1');
SELECT count(*) FROM generate_series(1, 20000) AS i WHERE NOT dc_beat('live', 'big', 'member ' || i);
SELECT count(dc_beat('live', 'hundred', 'member ' || i)) FROM generate_series(1, 100) AS i;
SELECT dc_present('live', 'hundred') BETWEEN 90 AND 105;
-- Names
SELECT dc_enter('live', '', ''), dc_enter('live', repeat('r', 1024), repeat('m', 1024), repeat('c', 128)), dc_present('live', repeat('r', 1024));
SELECT try($$SELECT dc_enter('live', repeat('r', 1025), 'm')$$), try($$SELECT dc_enter('live', 'r', repeat('m', 1025))$$), try($$SELECT dc_enter('live', 'r', 'm', repeat('c', 129))$$),
	try($$SELECT dc_enter('live', NULL, 'm')$$), try($$SELECT dc_beat('live', 'r', NULL)$$), try($$SELECT dc_present('live', NULL)$$);
-- What it cannot do
SELECT try($$SELECT dc_enter('live', 'a', 'ann', meta => '{}')$$), try($$SELECT count(*) FROM dc_presence_list('live', 'a')$$);
-- Statistics
SELECT name, approx, rooms, members BETWEEN 19000 AND 22000, connections, joined, "left", expired, refused, untold FROM dc_stat_presence WHERE name = 'live';
SELECT memory BETWEEN 100 * 160 AND 889 * 160 + 8 * 15 * 160 + 102 * 2 * 160 FROM dc_stat_presence WHERE name = 'live';
SELECT name, approx, rooms, members, connections, joined, "left", expired FROM dc_stat_presence WHERE name = 'exact';
-- A room of the same name of a presence that is exact is another
SELECT dc_enter('exact', 'a', 'bob'), dc_enter('exact', 'a', 'cy'), dc_present('live', 'a');
-- It is not transactional
BEGIN;
SELECT dc_beat('live', 'undone', 'ann');
ROLLBACK;
SELECT dc_present('live', 'undone');
BEGIN READ ONLY;
SELECT dc_beat('live', 'undone', 'ann'), dc_present('live', 'undone');
COMMIT;
BEGIN;
SELECT dc_presence_create('new', approx => true);
SELECT try($$SELECT dc_beat('new', 'r', 'm')$$);
ROLLBACK;

-- Another ttl: present members stay
SELECT dc_presence_alter('live', '1 day');
SELECT dc_beat('live', 'a', 'ann'), dc_present('live', 'a'), dc_present('live', 'hundred') BETWEEN 90 AND 105;
SELECT dc_beat('live', 'hundred', 'member 1'), dc_present('live', 'hundred') BETWEEN 90 AND 105;

-- A bound of rooms; who is in one of them is not refused
SELECT dc_beat('few', 'a', '1'), dc_beat('few', 'b', '1');
SELECT try($$SELECT dc_beat('few', 'c', '1')$$), try($$SELECT dc_enter('few', 'c', '1')$$), try($$SELECT dc_beat('few', 'a', '1')$$), try($$SELECT dc_present('few', 'c')$$);
SELECT rooms, refused FROM dc_stat_presence WHERE name = 'few';

-- Events: the number, if it is another
SELECT dc_beat('told_live', 'a', 'ann'), dc_beat('told_live', 'a', 'ann');
CALL dc_maintain();
CALL dc_maintain();
SELECT dc_beat('told_live', 'a', 'ann');
CALL dc_maintain();
SELECT aggregateid, type, payload - 'version' - 'epoch', payload ?& '{version,epoch}' FROM dcounter.outbox WHERE aggregatetype = 'told_live' ORDER BY seq;
SELECT count(dc_beat('told_live', 'a', 'm' || i)) FROM generate_series(1, 100) AS i;
CALL dc_maintain();
SELECT count(*), max((payload ->> 'count')::int) BETWEEN 90 AND 105, max((payload ->> 'count')::int) = dc_present('told_live', 'a') FROM dcounter.outbox WHERE aggregatetype = 'told_live';

-- Rights are those of any presence
CREATE ROLE regress_dcounter_a;
SET ROLE regress_dcounter_a;
SELECT try($$SELECT dc_beat('live', 'a', 'm')$$), try($$SELECT dc_present('live', 'a')$$), try($$SELECT dc_presence_create('mine', approx => true)$$);
RESET ROLE;
SELECT dc_presence_grant('live', 'regress_dcounter_a');
SET ROLE regress_dcounter_a;
SELECT try($$SELECT dc_present('live', 'a')$$), try($$SELECT dc_presence_drop('live')$$);
RESET ROLE;

-- Dropped: nobody is there, and the memory is free
SELECT dc_presence_drop('live');
SELECT dc_presence_create('live', '7 days');
SELECT try($$SELECT dc_present('live', 'big')$$), try($$SELECT dc_enter('live', 'big', 'zoe')$$), try($$SELECT count(*) FROM dc_presence_list('live', 'big')$$);
SELECT dc_presence_drop('live');
SELECT dc_presence_create('live', '7 days', approx => true);
SELECT try($$SELECT dc_present('live', 'big')$$), try($$SELECT dc_beat('live', 'big', 'zoe')$$);
SELECT dc_presence_drop(name) FROM unnest('{live,exact,told_live,few}'::text[]) AS name;
SELECT count(*) FROM dc_stat_presence;
DROP FUNCTION try;
DROP ROLE regress_dcounter_a;
