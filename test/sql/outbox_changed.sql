-- Events of changed keys of counter tables
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET timezone = 'UTC';
-- Errors with their codes, and events since the last look
CREATE FUNCTION try(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE message text;
BEGIN
	EXECUTE sql;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE TABLE looked (seq bigint);
INSERT INTO looked SELECT coalesce(max(seq), 0) FROM dcounter.outbox;
CREATE FUNCTION news(OUT topic text, OUT key text, OUT type text, OUT payload text) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE last bigint := (SELECT max(looked.seq) FROM looked);
BEGIN
	RETURN QUERY SELECT o.aggregatetype, o.aggregateid, o.type, CASE WHEN o.payload ->> 'value' IS NULL THEN o.payload ELSE o.payload - 'updated_at' END::text
		FROM dcounter.outbox o WHERE o.seq > last ORDER BY o.seq;
	INSERT INTO looked SELECT max(o.seq) FROM dcounter.outbox o HAVING max(o.seq) > last;
END $$;

SELECT dc_create('likes');
-- Without dc_alter() nothing is noted
SELECT dc_incr('likes', 'before'), dc_set('likes', 'other', 5);
CALL dc_maintain();
SELECT count(*) FROM dcounter.changed_key;
SELECT * FROM news();

-- Settings
SELECT try($$SELECT dc_alter('likes', events => '-1 s')$$);
SELECT try($$SELECT dc_alter('likes', events => '25 hours')$$);
SELECT try($$SELECT dc_alter('likes', notify => 'likes')$$);
SELECT try($$SELECT dc_alter('likes', events => '0', notify => 'likes')$$);
SELECT try(format($$SELECT dc_alter('likes', events => '1 s', notify => %L)$$, repeat('x', 64)));
SELECT count(*) FROM dcounter.counter_events;
SELECT dc_alter('likes', events => '0'), dc_alter('likes', notify => '');
SELECT count(*) FROM dcounter.counter_events;
SELECT dc_alter('likes', events => '1 us');
SELECT * FROM dcounter.counter_events;
SELECT dc_alter('likes', notify => repeat('x', 63));
SELECT dc_alter('likes', events => '1 day');
SELECT counter, every, length(channel), last_round FROM dcounter.counter_events;
SELECT dc_alter('likes', max_shards => 8), dc_alter('likes', events => '1 us', notify => '');
SELECT * FROM dcounter.counter_events;

-- Increments, once they are compacted
SELECT dc_incr('likes', 'a', 3), dc_incr('likes', 'b'), dc_decr('likes', 'b', 5);
SELECT key FROM dcounter.changed_key;
SELECT dc_compact('likes');
SELECT counter, key FROM dcounter.changed_key ORDER BY key;
-- Transactions that have made marks are known by table: the worker waits for none of another one
SELECT dc_create('other');
BEGIN;
SELECT dc_alter('other', events => '1 us'), dc_set('other', 'a', 1), dc_incr('likes', 'b', 0);
SELECT classid::regclass, mode FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 81 AND objid = 1;
ROLLBACK;
SELECT dc_drop('other');
CALL dc_maintain();
SELECT * FROM news();
SELECT count(*) FROM dcounter.changed_key;
SELECT last_round IS NOT NULL FROM dcounter.counter_events;
-- Nothing new, no event
CALL dc_maintain();
SELECT * FROM news();
-- Only what is in a total is told of, with the newest value there is
SELECT dc_incr('likes', 'a'), dc_compact('likes');
SELECT dc_compact('likes');
SELECT dc_incr('likes', 'a', 10);
DO $$ BEGIN PERFORM dc_incr('likes', 'c'); END $$;
SELECT dc_compact('likes', 1);
BEGIN;
SELECT dc_incr('likes', 'a', 100);
ROLLBACK;
CALL dc_maintain();
SELECT * FROM news();
-- updated_at is that of the key; the whole event
SELECT dc_incr('likes', 'a'); CALL dc_maintain();
SELECT payload ->> 'updated_at' = to_jsonb(t.updated_at) #>> '{}', payload ? 'key', (SELECT count(*) FROM jsonb_object_keys(payload)), headers, created_at >= t.updated_at, id IS NOT NULL
FROM dcounter.outbox, likes t WHERE seq = (SELECT max(seq) FROM dcounter.outbox) AND t.key = 'a';
SELECT * FROM news();

-- Conflation: at most one event of a key in an interval
SELECT dc_alter('likes', events => '1 day');
SELECT dc_incr('likes', 'a'), dc_incr('likes', 'b');
CALL dc_maintain();
SELECT * FROM news();
SELECT dc_incr('likes', 'a'); CALL dc_maintain();
SELECT dc_incr('likes', 'a'), dc_set('likes', 'c', 40); CALL dc_maintain();
SELECT dc_incr('likes', 'a'); CALL dc_maintain();
SELECT key, count(*) FROM dcounter.changed_key GROUP BY key ORDER BY key;
SELECT * FROM news();
SELECT dc_alter('likes', events => '1 us');
CALL dc_maintain();
SELECT * FROM news();

-- dc_set(), dc_reset(), dc_delete(), at once
SELECT dc_set('likes', 'a', 7), dc_set('likes', 'new', 8), dc_reset('likes', 'b'), dc_delete('likes', 'c'), dc_delete('likes', 'nothing');
SELECT key FROM dcounter.changed_key ORDER BY key;
CALL dc_maintain();
SELECT * FROM news();
SELECT dc_delete('likes', 'new'), dc_incr('likes', 'new', 2);
SELECT dc_set('likes', 'a', 70), dc_incr('likes', 'a', 5);
CALL dc_maintain();
SELECT * FROM news();
-- Rolled back, all of it
BEGIN; SELECT dc_set('likes', 'a', 1); SAVEPOINT one; SELECT dc_delete('likes', 'a'); ROLLBACK TO one; SELECT dc_set('likes', 'b', 1); ROLLBACK;
BEGIN; SELECT dc_set('likes', 'a', 71); SAVEPOINT one; SELECT dc_delete('likes', 'b'); ROLLBACK TO one; COMMIT;
CALL dc_maintain();
SELECT * FROM news();
-- In one transaction with all of it, which may be rolled back
BEGIN; SELECT dc_incr('likes', 'b', 9); CALL dc_maintain(); SELECT count(*) FROM dcounter.changed_key; ROLLBACK;
SELECT count(*) FROM dcounter.changed_key;
SELECT * FROM news();
BEGIN; SELECT dc_set('likes', 'b', 9); CALL dc_maintain(); SELECT dc_set('likes', 'b', 10); CALL dc_maintain(); COMMIT;
CALL dc_maintain();
SELECT * FROM news();
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT dc_set('likes', 'b', 11); CALL dc_maintain(); COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT dc_set('likes', 'b', 12); CALL dc_maintain(); COMMIT;
SELECT * FROM news();
-- lastval() is left alone
CREATE SEQUENCE mine;
SELECT nextval('mine'), dc_set('likes', 'b', 13), lastval();

-- More keys than a step takes, each once; odd ones
SELECT count(dc_set('likes', k, 1)) FROM (VALUES ('"'), (E'\\'), (E'new\nline'), ('$'), (''), (repeat('k', 1024))) v(k);
CALL dc_maintain();
SELECT topic, left(key, 10), left(payload, 40) FROM news();
SELECT dc_incr_many('likes', (SELECT array_agg(format('key %s', i)) FROM generate_series(1, 5000) i));
CALL dc_maintain();
SELECT count(*), count(DISTINCT key), min(payload), count(*) FILTER (WHERE payload::jsonb ->> 'key' = key) FROM news();
SELECT dc_alter('likes', events => '1 day');
SELECT count(*) FROM (SELECT dc_incr_many('likes', (SELECT array_agg(format('key %s', i)) FROM generate_series(1, 1000) i)), dc_compact('likes') FROM generate_series(1, 5)) AS x;
SELECT count(*) FROM (SELECT dc_incr_many('likes', (SELECT array_agg(format('key %s', i)) FROM generate_series(1, 1000) i)), dc_compact('likes') FROM generate_series(1, 5)) AS x;
SELECT dc_compact('likes');
SELECT count(*) > 2000, count(DISTINCT key) FROM dcounter.changed_key;
SELECT dc_alter('likes', events => '1 us');
CALL dc_maintain();
SELECT payload::jsonb -> 'value', count(*), count(DISTINCT key) FROM news() GROUP BY 1;
CALL dc_maintain();
SELECT payload::jsonb -> 'value', count(*), count(DISTINCT key) FROM news() GROUP BY 1;
SELECT count(*) FROM dcounter.changed_key;

-- Off
SELECT dc_set('likes', 'a', 100), dc_alter('likes', events => '0');
SELECT count(*) FROM dcounter.changed_key;
SELECT dc_set('likes', 'a', 101); CALL dc_maintain();
SELECT count(*) FROM dcounter.counter_events;
SELECT * FROM news();
-- On again, and the change in the same transaction
BEGIN; SELECT dc_alter('likes', events => '1 us'); SELECT dc_set('likes', 'a', 102); COMMIT;
BEGIN; SELECT dc_alter('likes', events => '0'); SELECT dc_set('likes', 'a', 103); ROLLBACK;
SELECT count(*) FROM dcounter.changed_key;
CALL dc_maintain();
SELECT * FROM news();

-- Tables that are renamed, moved, partitioned; stocks
CREATE SCHEMA regress_dc_changed;
SELECT dc_set('likes', 'a', 104);
ALTER TABLE likes RENAME TO "My likes";
ALTER TABLE "My likes" SET SCHEMA regress_dc_changed;
CALL dc_maintain();
SELECT * FROM news();
SELECT dc_create('parts', partitions => 3), dc_stock_create('seats');
SELECT dc_alter('parts', events => '1 us'), dc_alter('seats', events => '1 us');
SELECT dc_incr('parts', 'a'), dc_incr('parts', 'b', 2), dc_incr('parts', 'c', 3), dc_restock('seats', 'x', 20), dc_restock('seats', 'y', 1);
CALL dc_maintain();
SELECT * FROM news() ORDER BY topic COLLATE "C", key COLLATE "C";
SELECT dc_set('parts', 'a', 5), dc_delete('parts', 'b'), dc_take('seats', 'x', 3), dc_take('seats', 'y');
CALL dc_maintain();
SELECT * FROM news() ORDER BY topic COLLATE "C", key COLLATE "C";
SELECT dc_set('seats', 'x', 4), dc_reset('seats', 'y'), dc_hold('seats', 'x', 3) IS NOT NULL;
CALL dc_maintain();
SELECT * FROM news() ORDER BY topic COLLATE "C", key COLLATE "C";

-- Dropped, in each way
SELECT dc_incr('parts', 'a'), dc_incr('seats', 'x'), dc_compact() > 0;
SELECT dc_drop('parts');
SELECT DISTINCT counter FROM dcounter.changed_key;
SELECT counter FROM dcounter.counter_events ORDER BY counter::text COLLATE "C";
DROP TABLE seats;
SELECT dc_set('regress_dc_changed."My likes"', 'a', 105);
DROP SCHEMA regress_dc_changed CASCADE;
SELECT count(*) FROM dcounter.changed_key;
SELECT count(*) FROM dcounter.counter_events;
-- Without its shard table it is not a counter; adopted again, it starts without events
SELECT dc_create('likes');
SELECT dc_alter('likes', events => '1 us');
SELECT dc_set('likes', 'a', 1);
DROP TABLE likes_shard;
SELECT count(*) FROM dcounter.counter_events;
DROP TABLE likes;
CALL dc_maintain();
SELECT * FROM news();

-- Rights: the owner alone alters; nobody needs a right to the tables behind it
CREATE ROLE regress_dc_c1;
CREATE ROLE regress_dc_c2;
CREATE SCHEMA regress_dc_changed;
GRANT USAGE, CREATE ON SCHEMA regress_dc_changed TO regress_dc_c1, regress_dc_c2;
SET ROLE regress_dc_c1;
SELECT dc_create('regress_dc_changed.one');
SELECT dc_alter('regress_dc_changed.one', events => '1 us');
SELECT dc_set('regress_dc_changed.one', 'a', 1);
GRANT SELECT, INSERT, UPDATE, DELETE ON regress_dc_changed.one TO regress_dc_c2;
SELECT try('SELECT count(*) FROM dcounter.changed_key'), try('DELETE FROM dcounter.counter_events'), try('INSERT INTO dcounter.counter_events DEFAULT VALUES');
SELECT counter, every FROM dcounter.counter_events;
RESET ROLE;
SET ROLE regress_dc_c2;
SELECT try($$SELECT dc_alter('regress_dc_changed.one', events => '0')$$);
SELECT dc_set('regress_dc_changed.one', 'b', 2), dc_incr('regress_dc_changed.one', 'c');
CALL dc_maintain();
RESET ROLE;
SELECT * FROM news();
SET ROLE regress_dc_c1;
CALL dc_maintain();
RESET ROLE;
SELECT * FROM news();
-- What its owner has put on the table runs as the owner, and stops only its own events
CREATE FUNCTION regress_dc_changed.spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'as %', current_user; RETURN NEW; END $$;
SET ROLE regress_dc_c1;
CREATE TRIGGER spy BEFORE UPDATE ON regress_dc_changed.one FOR EACH ROW EXECUTE FUNCTION regress_dc_changed.spy();
RESET ROLE;
SELECT dc_create('two');
SELECT dc_alter('two', events => '1 us');
SELECT dc_set('two', 'a', 1), dc_incr('regress_dc_changed.one', 'a');
CALL dc_maintain();
SELECT * FROM news() ORDER BY topic COLLATE "C";
ALTER TABLE regress_dc_changed.one ENABLE ROW LEVEL SECURITY;
SELECT dc_set('two', 'a', 2);
CALL dc_maintain();
SELECT * FROM news() ORDER BY topic COLLATE "C";

-- The table of settings as a restore fills it: a row replaces another, and is heeded
INSERT INTO dcounter.counter_events VALUES ('two', '1 day', NULL, now());
SELECT dc_set('two', 'a', 3);
CALL dc_maintain();
SELECT * FROM news();
INSERT INTO dcounter.counter_events VALUES ('two', '1 us', NULL, NULL);
SELECT counter, every FROM dcounter.counter_events WHERE counter = 'two'::regclass;
CALL dc_maintain();
SELECT * FROM news();
DELETE FROM dcounter.counter_events;
SELECT dc_set('two', 'a', 4);
SELECT count(*) FROM dcounter.changed_key;
INSERT INTO dcounter.counter_events VALUES ('two', '1 us', NULL, NULL);
INSERT INTO dcounter.changed_key VALUES ('two', '2000-01-01', 'a'), ('two', '2000-01-02', 'gone');
CALL dc_maintain();
SELECT * FROM news();
-- of a table that is gone, which only a worker would notice
INSERT INTO dcounter.counter_events VALUES (3999999999::oid, '1 us', NULL, NULL);
INSERT INTO dcounter.changed_key VALUES (3999999999::oid, '2000-01-01', 'a');
CALL dc_maintain();
SELECT try('INSERT INTO dcounter.counter_events VALUES (NULL)'), try($$CREATE TRIGGER t BEFORE INSERT ON two FOR EACH ROW EXECUTE FUNCTION dcounter.on_events_change(); INSERT INTO two VALUES ('x')$$);
DELETE FROM dcounter.counter_events; DELETE FROM dcounter.changed_key;

DROP TABLE two, looked;
DROP SCHEMA regress_dc_changed CASCADE;
DROP SEQUENCE mine;
DROP FUNCTION try, news;
DROP ROLE regress_dc_c1, regress_dc_c2;
