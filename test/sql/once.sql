-- Increments that are applied once: dc_incr_once(), batches, status, the ring of
-- ops, ids that carry their time, DDL
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET timezone = 'UTC';

SELECT dc_create('likes');
SELECT op_retention FROM dcounter.counter WHERE counter = 'likes'::regclass;

-- Ids of a time: a UUIDv7 or a ULID made so long ago
CREATE FUNCTION uuid_of(made timestamptz, n int DEFAULT 0) RETURNS text LANGUAGE sql AS $$
	SELECT substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-7' || lpad(to_hex(n % 4096), 3, '0') || '-8000-000000000000'
	FROM lpad(to_hex(floor(extract(epoch FROM made) * 1000)::bigint), 12, '0') AS h $$;
CREATE FUNCTION ulid(made timestamptz) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', (floor(extract(epoch FROM made) * 1000)::bigint >> (45 - 5 * i) & 31)::int + 1, 1), '' ORDER BY i)
		|| '0123456789ABCDEF'
	FROM generate_series(0, 9) AS i $$;
CREATE FUNCTION states() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(state, ' ' ORDER BY slot) FROM dcounter.op_slot WHERE counter = 'likes'::regclass $$;

-- No op yet, and no tables of ops
SELECT * FROM dc_op_status('likes', 'e1');
SELECT to_regclass('likes_op');

-- Once, and never again
SELECT dc_incr_once('likes', 'a', 2, 'e1'), dc_incr_once('likes', 'a', 2, 'e1'), dc_incr_once('likes', 'a', 2, 'e1'), dc_get('likes', 'a');
SELECT dc_incr_once('likes', 'a', 2, 'e1'), dc_get('likes', 'a');
SELECT applied, key, delta, at BETWEEN now() - interval '1 hour' AND now() FROM dc_op_status('likes', 'e1');
-- It takes a snapshot of its own, so there is no parallel plan
CREATE TABLE many_rows WITH (parallel_workers = 2) AS SELECT i FROM generate_series(1, 1000) AS i;
ANALYZE many_rows;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT DISTINCT (SELECT applied FROM dc_op_status('likes', 'e1' || substr(i::text, 1, 0))) FROM many_rows WHERE i % 10 = 0;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
DROP TABLE many_rows;
SELECT * FROM dc_op_status('likes', 'e2');
SELECT slot, op_id, key, delta, transfer_id, digest FROM likes_op;
SELECT slot, ops, partition, state, closed_at, forgotten FROM dcounter.op_slot WHERE counter = 'likes'::regclass ORDER BY slot;
-- Keys of all types, negative deltas, zero
SELECT dc_incr_once('likes', 7, 1, 'e3'), dc_incr_once('likes', 7, 1, 'e3'), dc_incr_once('likes', '7', 1, 'e3'), dc_get('likes', 7);
SELECT dc_incr_once('likes', '00000000-0000-0000-0000-000000000007'::uuid, 1, 'e4'), dc_incr_once('likes', '00000000-0000-0000-0000-000000000007', 1, 'e4');
SELECT dc_incr_once('likes', 'b', -5, 'e5'), dc_incr_once('likes', 'b', -5, 'e5'), dc_incr_once('likes', 'c', 0, 'e6'), dc_get('likes', 'b'), dc_get('likes', 'c');
-- In one statement
SELECT count(*) FILTER (WHERE dc_incr_once('likes', 'd', 1, 'g' || i % 10)), dc_get('likes', 'd') FROM generate_series(1, 100) AS i;
SELECT dc_get('likes', 'd');

-- Another key or delta is an error, which shows the first ones
\set VERBOSITY default
SELECT dc_incr_once('likes', 'a', 3, 'e1');
SELECT dc_incr_once('likes', 'b', 2, 'e1');
\set VERBOSITY terse
SELECT dc_incr_once('likes', 'A', 2, 'e1');
SELECT dc_get('likes', 'a'), dc_get('likes', 'b');

-- Bad arguments
SELECT dc_incr_once(NULL, 'a', 1, 'x');
SELECT dc_incr_once('likes', NULL::text, 1, 'x');
SELECT dc_incr_once('likes', 'a', NULL, 'x');
SELECT dc_incr_once('likes', 'a', 1, NULL);
SELECT dc_incr_once('likes', 'a', 1, '');
SELECT dc_incr_once('likes', 'a', 1, repeat('x', 1025));
SELECT dc_incr_once('likes', repeat('k', 1024), 1, repeat('x', 1024)), dc_incr_once('likes', repeat('k', 1024), 1, repeat('x', 1024));
SELECT dc_incr_once('likes', repeat('k', 1025), 1, 'x');
SELECT dc_incr_once('likes', 'a', -9223372036854775808, 'x');
SELECT dc_op_status('likes', NULL), 1;
SELECT dc_op_status('likes', '');
SELECT applied FROM dc_op_status('likes', 'x');
SELECT dc_incr_once('pg_class', 'a', 1, 'x');
-- Ids are bytes: case and trailing spaces count
SELECT dc_incr_once('likes', 'e', 1, 'E1'), dc_incr_once('likes', 'e', 1, 'e1 '), dc_incr_once('likes', 'e', 1, E'\u00e9'), dc_incr_once('likes', 'e', 1, E'\u00e9');

-- The record goes with the increment
BEGIN;
SELECT dc_incr_once('likes', 'r', 1, 'r1');
SAVEPOINT s;
SELECT dc_incr_once('likes', 'r', 1, 'r2'), dc_incr_once('likes', 'r', 1, 'r1'), dc_get('likes', 'r');
ROLLBACK TO s;
SELECT applied FROM dc_op_status('likes', 'r1');
SELECT applied FROM dc_op_status('likes', 'r2');
SELECT dc_get('likes', 'r'), dc_incr_once('likes', 'r', 1, 'r2'), dc_get('likes', 'r');
ROLLBACK;
SELECT dc_get('likes', 'r'), (SELECT applied FROM dc_op_status('likes', 'r1'));
DO $$ BEGIN
	PERFORM dc_incr_once('likes', 'r', 1, 'r3');
	RAISE EXCEPTION 'no';
EXCEPTION WHEN raise_exception THEN
	PERFORM dc_incr_once('likes', 'r', 10, 'r3');
END $$;
SELECT dc_get('likes', 'r');
-- An op of ours under other levels of isolation
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_incr_once('likes', 'i', 1, 'i1'), dc_incr_once('likes', 'i', 1, 'i1'), dc_incr_once('likes', 'a', 2, 'e1');
SELECT dc_incr_once('likes', 'i', 1, 'i1');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT dc_incr_once('likes', 'i', 1, 'i1'), dc_incr_once('likes', 'i', 1, 'i2'), dc_incr_once('likes', 'i', 1, 'i2');
COMMIT;
SELECT dc_get('likes', 'i');
-- A duplicate writes nothing
BEGIN;
SELECT dc_incr_once('likes', 'i', 1, 'i1'), pg_current_xact_id_if_assigned() IS NULL;
COMMIT;
BEGIN READ ONLY;
SELECT applied FROM dc_op_status('likes', 'i1');
SELECT dc_incr_once('likes', 'i', 1, 'i1');
ROLLBACK;

-- Batches
SELECT dc_incr_once_many('likes', ARRAY['m', 'n', 'm', 'm'], ARRAY[1, 2, 3, 1], ARRAY['m3', 'm2', 'm1', 'm3']), dc_get('likes', 'm'), dc_get('likes', 'n');
SELECT dc_incr_once_many('likes', ARRAY['m', 'n', 'm', 'm'], ARRAY[1, 2, 3, 1], ARRAY['m3', 'm2', 'm1', 'm4']), dc_get('likes', 'm');
SELECT string_agg(op_id, ' ' ORDER BY ctid) FROM likes_op_0 WHERE op_id LIKE 'm_';
SELECT dc_incr_once_many('likes', ARRAY['m', 'm'], ARRAY[1, 2], ARRAY['m9', 'm9']);
SELECT dc_incr_once_many('likes', ARRAY['m'], ARRAY[1], ARRAY['m2']);
SELECT applied FROM dc_op_status('likes', 'm9');
SELECT dc_incr_once_many('likes', '{}', '{}', '{}');
SELECT dc_incr_once_many('likes', ARRAY['m'], ARRAY[1, 2], ARRAY['m8']);
SELECT dc_incr_once_many('likes', ARRAY['m', NULL], ARRAY[1, 2], ARRAY['m8', 'm9']);
SELECT dc_incr_once_many('likes', ARRAY['m', 'm'], ARRAY[1, NULL], ARRAY['m8', 'm9']);
SELECT dc_incr_once_many('likes', ARRAY['m', 'm'], ARRAY[1, 2], ARRAY['m8', NULL]);
SELECT dc_incr_once_many('likes', ARRAY['m', 'm'], ARRAY[1, 2], ARRAY['m8', '']);
SELECT dc_incr_once_many('likes', NULL, ARRAY[1], ARRAY['m8']);
SELECT dc_incr_once_many('likes', ARRAY['m'], NULL, ARRAY['m8']);
SELECT dc_incr_once_many('likes', ARRAY['m'], ARRAY[1], NULL);
SELECT dc_incr_once_many('likes', array_agg('x' || i % 3), array_agg(1), array_agg('big' || i)), dc_incr_once_many('likes', array_agg('x' || i % 3), array_agg(1), array_agg('big' || i)) FROM generate_series(1, 3000) AS i;
SELECT dc_get('likes', 'x0'), dc_get('likes', 'x1'), dc_get('likes', 'x2');

-- Ids that carry their time
SELECT dc_incr_once('likes', 't', 1, uuid_of(now())), dc_incr_once('likes', 't', 1, ulid(now())), dc_incr_once('likes', 't', 1, uuid_of(now())), dc_incr_once('likes', 't', 1, ulid(now()));
SELECT dc_incr_once('likes', 't', 1, uuid_of(now() - interval '6 days 23 hours')), dc_incr_once('likes', 't', 1, uuid_of(now() + interval '59 minutes'));
\set VERBOSITY sqlstate
SELECT dc_incr_once('likes', 't', 1, uuid_of(now() - interval '7 days 1 minute'));
SELECT dc_incr_once('likes', 't', 1, upper(uuid_of(now() - interval '7 days 1 minute')));
SELECT dc_incr_once('likes', 't', 1, ulid(now() - interval '7 days 1 minute'));
SELECT dc_incr_once('likes', 't', 1, lower(ulid(now() - interval '7 days 1 minute')));
SELECT dc_incr_once('likes', 't', 1, uuid_of(now() + interval '61 minutes'));
SELECT dc_incr_once('likes', 't', 1, ulid(now() + interval '61 minutes'));
SELECT dc_incr_once('likes', 't', 1, uuid_of('1970-01-02'));
SELECT dc_incr_once('likes', 't', 1, 'ffffffff-ffff-7fff-bfff-ffffffffffff');
\set VERBOSITY terse
SELECT applied, key FROM dc_op_status('likes', uuid_of(now() - interval '7 days 1 minute'));
SELECT applied, key FROM dc_op_status('likes', uuid_of(now() - interval '6 days'));
SELECT applied, key FROM dc_op_status('likes', uuid_of(now() + interval '2 days'));
-- What looks like a ULID of no likely time is an id like any other
SELECT dc_incr_once('likes', 'u', 1, ulid('2015-12-31')), dc_incr_once('likes', 'u', 1, ulid('2015-12-31')), dc_incr_once('likes', 'u', 1, '20240101120000123456789012'), dc_incr_once('likes', 'u', 1, ulid(now() + interval '400 days'));
-- as are UUIDs without a time
SELECT dc_incr_once('likes', 'u', 1, '919108f7-52d1-4320-9bac-f847db4148a8'), dc_incr_once('likes', 'u', 1, '919108f7-52d1-4320-9bac-f847db4148a8'), dc_get('likes', 'u');

-- The ring turns when half of op_retention is over
CALL dc_maintain();
SELECT states();
UPDATE dcounter.op_slot SET since = since - interval '84 hours' WHERE state = 'open' AND counter = 'likes'::regclass;
CALL dc_maintain();
SELECT states();
-- Ops are found where they are, and new ones go to the next partition
SELECT dc_incr_once('likes', 'a', 2, 'e1'), dc_incr_once('likes', 'a', 2, 'f1'), dc_incr_once('likes', 'a', 2, 'f1'), (SELECT applied FROM dc_op_status('likes', 'e1'));
SELECT dc_incr_once('likes', 'b', 2, 'e1');
SELECT slot FROM likes_op WHERE op_id IN ('e1', 'f1') ORDER BY op_id;
-- It does not turn while there is nothing new in it, or no room
CALL dc_maintain();
SELECT states();
-- A closed one expires when all of it is older than op_retention, and two hours
UPDATE dcounter.op_slot SET closed_at = closed_at - interval '7 days 1 hour 59 minutes' WHERE state = 'closed' AND counter = 'likes'::regclass;
CALL dc_maintain();
SELECT states();
UPDATE dcounter.op_slot SET closed_at = closed_at - interval '2 minutes' WHERE state = 'closed' AND counter = 'likes'::regclass RETURNING closed_at AS closed_at \gset
CALL dc_maintain();
SELECT states();
SELECT slot, closed_at, forgotten = :'closed_at' FROM dcounter.op_slot WHERE slot = 0 AND counter = 'likes'::regclass;
SELECT count(*), min(slot) FROM likes_op;
-- Then ids without a time are forgotten, and others refused, whatever the clock says
SELECT dc_incr_once('likes', 'z', 2, 'e1');
SELECT dc_alter('likes', op_retention => '36500 days');
\set VERBOSITY sqlstate
SELECT dc_incr_once('likes', 'z', 2, uuid_of(:'closed_at'::timestamptz + interval '1 hour 59 minutes'));
\set VERBOSITY terse
SELECT applied FROM dc_op_status('likes', uuid_of(:'closed_at'::timestamptz + interval '1 hour 59 minutes'));
SELECT dc_incr_once('likes', 'z', 2, uuid_of(:'closed_at'::timestamptz + interval '2 hours 1 minute'));
SELECT dc_alter('likes', op_retention => '1 minute');
-- Once around
CREATE PROCEDURE turn(n int) LANGUAGE plpgsql AS $$ BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM dc_incr_once('likes', 'turn', 1, 'turn' || clock_timestamp());
		UPDATE dcounter.op_slot SET since = since - interval '1 hour' WHERE state = 'open' AND counter = 'likes'::regclass;
		COMMIT;
		CALL dc_maintain();
	END LOOP;
END $$;
CALL turn(3);
SELECT states();
-- No room: the window grows
CALL turn(2);
SELECT states();
UPDATE dcounter.op_slot SET closed_at = closed_at - interval '3 hours' WHERE state = 'closed' AND slot = 1 AND counter = 'likes'::regclass;
CALL turn(1);
SELECT states();
-- In one transaction there is one change at most
BEGIN;
UPDATE dcounter.op_slot SET closed_at = closed_at - interval '3 hours' WHERE state = 'closed' AND counter = 'likes'::regclass;
CALL dc_maintain();
SELECT states();
COMMIT;
CALL dc_maintain();
SELECT states();

-- Indexes may be added to partitions: they get their entries
CREATE INDEX once_key ON likes_op USING hash (key);
CREATE UNIQUE INDEX once_same ON likes_op (slot, key, op_id) INCLUDE (at);
SELECT dc_incr_once('likes', 'q', 2, 'q1'), dc_incr_once('likes', 'q', 2, 'q1'), dc_incr_once('likes', 'q', 2, 'q2'), dc_get('likes', 'q');
SELECT dc_incr_once('likes', 'q', 1, 'q1');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_incr_once('likes', 'q', 2, 'q1'), dc_incr_once('likes', 'q', 2, 'q3'), dc_incr_once('likes', 'q', 2, 'q3');
COMMIT;
SET enable_seqscan = off;
SELECT count(*), string_agg(op_id, ' ' ORDER BY op_id) FROM likes_op AS e WHERE key = 'q' AND transfer_id IS NULL AND digest IS NULL;
SET enable_bitmapscan = off;
SELECT count(*), string_agg(op_id, ' ' ORDER BY op_id) FROM likes_op AS e WHERE slot = (SELECT slot FROM dcounter.op_slot WHERE state = 'open' AND counter = 'likes'::regclass) AND key = 'q';
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT partition AS ops FROM dcounter.op_slot WHERE state = 'open' AND counter = 'likes'::regclass \gset
CREATE FUNCTION refused(ddl text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text; hint text;
BEGIN
	EXECUTE ddl;
	PERFORM dc_incr_once('likes', 'q', 2, 'q4');
	RAISE EXCEPTION 'applied';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' / ', SQLSTATE, SQLERRM, nullif(detail, ''), nullif(hint, ''));
END $$;
-- A unique one has its say
SELECT refused(format('TRUNCATE %1$s; CREATE UNIQUE INDEX once_alone ON %1$s (key); SELECT dc_incr_once(''likes'', ''q'', 2, ''q0'')', :'ops'));
-- Everything else on them is refused, and nothing is applied
CREATE TABLE seen (op_id text);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO public.seen VALUES (NEW.op_id);
	RETURN NEW;
END $$;
SELECT refused('CREATE TRIGGER see BEFORE INSERT ON likes_op FOR EACH ROW EXECUTE FUNCTION see()');
SELECT refused('CREATE TRIGGER see BEFORE INSERT ON likes_op FOR EACH ROW EXECUTE FUNCTION see(); ALTER TABLE likes_op DISABLE TRIGGER see');
SELECT refused(format('CREATE RULE nothing AS ON INSERT TO %s DO INSTEAD NOTHING', :'ops'));
SELECT refused('ALTER TABLE likes_op ADD CHECK (delta <> 0)');
SELECT refused(format('CREATE INDEX ON %s (lower(key))', :'ops'));
SELECT refused(format('CREATE INDEX ON %s (key) WHERE delta > 0', :'ops'));
SELECT refused(format('ALTER TABLE %s ADD UNIQUE (at, op_id) DEFERRABLE', :'ops'));
SELECT refused('ALTER TABLE likes_op ADD COLUMN note text');
SELECT refused('UPDATE likes_op SET digest = 0; ALTER TABLE likes_op ALTER digest SET NOT NULL');
SELECT refused(format('ALTER TABLE %1$s DROP CONSTRAINT %2$I; CREATE UNIQUE INDEX ON %1$s (op_id DESC)', :'ops', conname)) FROM pg_constraint WHERE contype = 'p' AND conrelid = :'ops'::regclass;
-- nor may it, or its parent, become a partition of another table, or of other slots
SELECT refused('CREATE TABLE whole (LIKE likes_op) PARTITION BY LIST (key); ALTER TABLE whole ATTACH PARTITION likes_op DEFAULT');
SELECT refused(format('CREATE TABLE whole (LIKE likes_op) PARTITION BY LIST (key); ALTER TABLE likes_op DETACH PARTITION %1$s; ALTER TABLE whole ATTACH PARTITION %1$s DEFAULT', :'ops'));
SELECT refused(format('TRUNCATE %1$s; ALTER TABLE likes_op DETACH PARTITION %1$s; ALTER TABLE likes_op ATTACH PARTITION %1$s FOR VALUES IN (17)', :'ops'));
SELECT refused(format('ALTER TABLE likes_op DETACH PARTITION %1$s; ALTER TABLE likes_op ATTACH PARTITION %1$s DEFAULT', :'ops'));
SELECT refused('SELECT');
CREATE TRIGGER see BEFORE INSERT ON likes_op FOR EACH ROW EXECUTE FUNCTION see();
SELECT applied FROM dc_op_status('likes', 'q1');
DROP TRIGGER see ON likes_op;
SELECT applied FROM dc_op_status('likes', 'q1');
TABLE seen;
SELECT dc_incr_once('likes', 'q', 2, 'q4'), dc_get('likes', 'q');
-- Columns may have other numbers, if all are there
ALTER TABLE likes_op DROP COLUMN digest;
SELECT dc_incr_once('likes', 'q', 2, 'q3');
ALTER TABLE likes_op ADD COLUMN digest bigint;
SELECT dc_incr_once('likes', 'q', 2, 'q3'), dc_incr_once('likes', 'q', 2, 'q5');
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_constraint WHERE contype = 'p' AND conrelid = (SELECT partition FROM dcounter.op_slot WHERE state = 'open' AND counter = 'likes'::regclass) \gexec
\set VERBOSITY sqlstate
SELECT dc_incr_once('likes', 'q', 2, 'q3');
\set VERBOSITY terse

-- Privileges: those on the counter table are enough
SELECT dc_create('plays');
CREATE ROLE once_owner;
CREATE ROLE once_writer;
CREATE ROLE once_reader;
GRANT CREATE ON SCHEMA public TO once_owner;
ALTER TABLE plays OWNER TO once_owner;
GRANT INSERT, UPDATE ON plays TO once_writer;
GRANT SELECT ON plays TO once_reader;
SET ROLE once_reader;
SELECT dc_incr_once('plays', 'a', 1, 'p1');
SELECT applied FROM dc_op_status('plays', 'p1');
SET ROLE once_writer;
SELECT dc_incr_once('plays', 'a', 1, 'p1'), dc_incr_once('plays', 'a', 1, 'p1');
SELECT * FROM dc_op_status('plays', 'p1');
SELECT * FROM plays_op;
SET ROLE once_reader;
SELECT applied, key, delta FROM dc_op_status('plays', 'p1');
RESET ROLE;
SELECT relname, relowner::regrole FROM pg_class WHERE relname LIKE 'plays\_op%' AND relkind IN ('r', 'p') ORDER BY relname COLLATE "C";
-- What the owner has put on them does not run
CREATE TABLE plays_who (who name);
GRANT INSERT ON plays_who TO once_owner;
SET ROLE once_owner;
CREATE FUNCTION plays_who() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO public.plays_who VALUES (current_user);
	RETURN NEW;
END $$;
CREATE TRIGGER plays_who BEFORE INSERT ON plays_op FOR EACH ROW EXECUTE FUNCTION plays_who();
SET ROLE once_writer;
SELECT dc_incr_once('plays', 'a', 1, 'p0'), dc_incr_once('plays', 'a', 1, 'p0');
RESET ROLE;
TABLE plays_who;
DROP FUNCTION plays_who CASCADE;
DROP TABLE plays_who;
\set VERBOSITY default
-- DDL on the counter table is repeated
ALTER TABLE plays RENAME TO played;
CREATE SCHEMA once_schema AUTHORIZATION once_owner;
ALTER TABLE played SET SCHEMA once_schema;
ALTER TABLE once_schema.played OWNER TO CURRENT_USER;
SELECT c.oid::regclass, relowner = current_user::regrole FROM pg_class AS c WHERE relnamespace = 'once_schema'::regnamespace AND relkind IN ('r', 'p') ORDER BY relname COLLATE "C";
SELECT dc_incr_once('once_schema.played', 'a', 1, 'p1'), dc_incr_once('once_schema.played', 'a', 1, 'p2');
-- The table of ops can be dropped, which forgets them
DROP TABLE once_schema.played_op_1;
BEGIN;
DROP TABLE once_schema.played_op;
SELECT dc_incr_once('once_schema.played', 'a', 1, 'p1');
ROLLBACK;
SELECT dc_incr_once('once_schema.played', 'a', 1, 'p1'), count(*) FROM dcounter.op_slot WHERE counter = 'once_schema.played'::regclass;
-- Another table of that name is in the way
SELECT dc_create('taken');
CREATE TABLE taken_op (a int);
SELECT dc_incr_once('taken', 'a', 1, 'p1');
SELECT applied FROM dc_op_status('taken', 'p1');
-- Adopted: what is in the tables of ops is known again
BEGIN;
DELETE FROM dcounter.counter WHERE counter = 'once_schema.played'::regclass;
DELETE FROM dcounter.op_slot WHERE counter = 'once_schema.played'::regclass;
SELECT dc_adopt('once_schema.played');
SELECT slot, state, forgotten < now() - interval '1 hour' FROM dcounter.op_slot WHERE counter = 'once_schema.played'::regclass ORDER BY slot;
SELECT dc_incr_once('once_schema.played', 'a', 1, 'p1'), dc_incr_once('once_schema.played', 'a', 1, 'p3');
ROLLBACK;
-- Restoring the catalog twice is harmless
INSERT INTO dcounter.op_slot SELECT * FROM dcounter.op_slot;
SELECT count(*) FROM dcounter.op_slot WHERE counter = 'once_schema.played'::regclass;
-- Dropping the counter table drops the ops
DROP TABLE once_schema.played;
SELECT count(*) FROM pg_class WHERE relnamespace = 'once_schema'::regnamespace AND relkind IN ('r', 'p');
SELECT dc_drop('likes');
DROP TABLE taken;
SELECT to_regclass('likes_op'), to_regclass('taken_op'), (SELECT count(*) FROM dcounter.op_slot);

-- Stocks: what is added
SELECT dc_stock_create('s');
SELECT dc_incr_once('s', 'a', 3, 's1'), dc_incr_once('s', 'a', 3, 's1'), dc_get('s', 'a'), dc_take('s', 'a', 3), dc_take('s', 'a');
SELECT dc_incr_once('s', 'a', -1, 's2');
-- Partitions of the counter table
SELECT dc_create('parts', partitions => 2);
SELECT dc_incr_once('parts', i::text, i, 'p' || i % 3) FROM generate_series(1, 2) AS i;
SELECT dc_incr_once('parts', '1', 1, 'p1'), dc_get('parts', '1'), dc_get('parts', '2');
-- The tables of a ledger are its own
SELECT dc_ledger_create('once_ledger');
SELECT dc_incr_once('once_ledger', 'a', 1, 'x');
SELECT dc_incr_once_many('once_ledger', '{a}', '{1}', '{x}');
SELECT dc_incr_once('once_ledger_limit', 'a', 1, 'x');
SELECT slot, state FROM dcounter.op_slot WHERE counter = 'once_ledger'::regclass;
INSERT INTO once_ledger_op VALUES (0, 'x', 'a', 1, NULL, NULL, now());
TRUNCATE once_ledger_op_0;
DROP TABLE once_ledger_entry;
DROP TABLE once_ledger_account, once_ledger_pending;
DROP TABLE once_ledger_op;
-- ... nor with the shard table: the ledger looks before the settings are removed
DROP TABLE once_ledger_op, once_ledger_shard;
DROP TABLE once_ledger_limit;
DROP TABLE once_ledger_shard;
DROP TABLE once_ledger_limit_shard;
DROP TABLE once_ledger_limit_hold;
ALTER TABLE once_ledger RENAME TO twice_ledger;
SELECT oid::regclass FROM pg_class WHERE relname LIKE '%ce\_ledger%' AND relkind IN ('r', 'p', 'S') ORDER BY relname COLLATE "C";
DROP TABLE twice_ledger;
SELECT oid::regclass FROM pg_class WHERE relname LIKE '%ce\_ledger%' AND relkind IN ('r', 'p', 'S') ORDER BY relname COLLATE "C";
-- The ops of a ledger can be kept for a time, too
SELECT dc_ledger_create('ring_ledger', op_retention => '7 days');
SELECT dc_account_open('ring_ledger', 'a', NULL), dc_account_open('ring_ledger', 'b');
CREATE INDEX ON ring_ledger_op_0 (at);
SELECT duplicate FROM dc_transfer('ring_ledger', 'a', 'b', 5, 't1');
SELECT duplicate FROM dc_transfer('ring_ledger', 'a', 'b', 5, 't1');
SELECT applied, key, delta FROM dc_op_status('ring_ledger', 't1');
UPDATE dcounter.op_slot SET since = since - interval '84 hours' WHERE state = 'open' AND counter = 'ring_ledger'::regclass;
CALL dc_maintain();
SELECT duplicate FROM dc_transfer('ring_ledger', 'a', 'b', 5, 't2');
SELECT duplicate FROM dc_transfer('ring_ledger', 'a', 'b', 5, 't1');
UPDATE dcounter.op_slot SET closed_at = closed_at - interval '8 days' WHERE state = 'closed' AND counter = 'ring_ledger'::regclass;
CALL dc_maintain();
SELECT slot, state FROM dcounter.op_slot WHERE counter = 'ring_ledger'::regclass ORDER BY slot;
SELECT op_id, slot FROM ring_ledger_op;
SELECT duplicate FROM dc_transfer('ring_ledger', 'a', 'b', 5, 't1');
DROP TABLE ring_ledger;
SELECT dc_drop('s'), dc_drop('parts');
SELECT count(*) FROM dcounter.op_slot;
-- partitions that have the names of others, in other schemas
CREATE SCHEMA once_more;
SELECT dc_create('many');
CREATE TABLE many_op (slot int2 NOT NULL, op_id text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, delta int8 NOT NULL,
	transfer_id int8, digest int8, at timestamptz NOT NULL) PARTITION BY LIST (slot);
DO $$
BEGIN
	FOR i IN 0 .. 11 LOOP
		EXECUTE format('CREATE TABLE %I.many_op_%s PARTITION OF many_op (PRIMARY KEY (op_id)) FOR VALUES IN (%s)',
			(ARRAY['once_schema', 'public', 'once_more'])[i / 4 + 1], i % 4, i - 4);
	END LOOP;
END $$;
SELECT dc_incr_once('many', 'a', 1, 'e1');
SELECT slot, partition, state FROM dcounter.op_slot WHERE counter = 'many'::regclass ORDER BY slot;
SELECT dc_drop('many');
-- Partitions are heaps, whatever is usual
CREATE ACCESS METHOD once_method TYPE TABLE HANDLER heap_tableam_handler;
SET default_table_access_method = once_method;
SELECT dc_create('kept');
SELECT dc_incr_once('kept', 'a', 1, 'e1');
SELECT relname, amname FROM pg_class AS c JOIN pg_am AS a ON a.oid = relam WHERE relname ~ '^kept(_op_0)?$' ORDER BY 1;
RESET default_table_access_method;
SELECT dc_drop('kept');
DROP ACCESS METHOD once_method;
DROP SCHEMA once_more;
DROP SCHEMA once_schema;
REVOKE CREATE ON SCHEMA public FROM once_owner;
DROP ROLE once_owner;
DROP ROLE once_writer;
DROP ROLE once_reader;
DROP FUNCTION see, refused;
DROP TABLE seen, taken_op;
DROP FUNCTION uuid_of, ulid, states;
DROP PROCEDURE turn;
