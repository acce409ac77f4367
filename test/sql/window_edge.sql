-- Windowed counters at the edges of buckets, turns and levels: what is moved, emptied, sealed and refused at which moment.
SET timezone = 'UTC';
-- autovacuum may have a table locked just when it is to be emptied, which is then left for later
\set quiet 'DO $q$DECLARE t regclass; BEGIN FOR t IN SELECT oid FROM pg_class WHERE relname ~ ''^we(_|$)'' AND relkind = ''r'' LOOP EXECUTE format(''ALTER TABLE %s SET (autovacuum_enabled = off)'', t); END LOOP; END$q$'
-- A turn of minutes has 4 buckets, one of the wider level 2 of 4 minutes. All times are told from
-- the border of a wide turn, which may be as long as that ago: there are 8 minutes left until the first floor would be another.
SELECT dc_window_create('we', '1 minute', '20 minutes', '{"4 minutes": "48 minutes"}');
:quiet;
SELECT spans FROM dcounter.time_window;
SELECT date_bin('8 minutes', now(), '2000-01-03 UTC') AS t \gset
SELECT floor(extract(epoch FROM :'t'::timestamptz - '2000-01-03 UTC') / 240)::bigint AS turn \gset
SELECT format('we_w%s', (:turn - 2) % 8) AS slot, format('we_w%s', 8 + (:turn / 2 - 1) % 8) AS wide \gset
CREATE VIEW we_state AS SELECT '2000-01-01 UTC'::timestamptz + floors[1] * interval '1 us' AS fine, '2000-01-01 UTC'::timestamptz + floors[2] * interval '1 us' AS wide,
	'2000-01-01 UTC'::timestamptz + gone[2] * interval '1 us' AS gone, (SELECT string_agg(format('%s %s', level, count), ', ' ORDER BY level)
	FROM (SELECT level, count(DISTINCT turn) FROM dcounter.window_claim GROUP BY level) AS c) AS claims FROM dcounter.time_window;

-- a turn goes when all of its buckets have been over for as long as they are kept, not a moment earlier
SELECT dc_incr_at('we', 'a', 1, :'t'::timestamptz - interval '8 min'), dc_incr_at('we', 'a', 10, :'t'::timestamptz - interval '4 min 1 us'),
	dc_incr_at('we', 'a', 100, :'t'::timestamptz - interval '4 min');
SELECT dc_compact() >= 0 AS compacted;
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '16 min' - interval '1 us');
SELECT fine < :'t'::timestamptz - interval '4 min' AS before, claims FROM we_state;
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '16 min');
SELECT fine - :'t' AS fine, claims FROM we_state;
SELECT bucket - :'t' AS at, value FROM dc_buckets('we', 'a', :'t'::timestamptz - interval '8 min', :'t'::timestamptz - interval '2 min');
-- the next one, and what comes late for it, also from this transaction
BEGIN;
SELECT dc_incr_at('we', 'a', 1000, :'t'::timestamptz - interval '1 min');
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '20 min');
SELECT fine - :'t' AS fine FROM we_state;
SELECT value FROM dc_window('we', 'a', '8 min', :'t');
ROLLBACK;
-- what an owner has made negative by hand is moved as it counts
UPDATE :slot SET inc = -inc, dec = -50 WHERE key LIKE 'a%';
SELECT dc_incr_at('we', 'n', 5, :'t'::timestamptz - interval '4 min'), dc_compact() >= 0 AS compacted;
DO $$BEGIN FOR i IN 0..7 LOOP EXECUTE format('UPDATE we_w%s SET inc = -7 WHERE key LIKE ''n%%''', i); END LOOP; END$$;
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '20 min');
SELECT k, value FROM unnest(ARRAY['a', 'n']) AS k, dc_window('we', k, '8 min', :'t');
SELECT fine - :'t' AS fine, claims FROM we_state;
-- emptied, and with it the claims; the tables of the moved turns have no rows. Not while a session has an older snapshot, as autovacuum may
CREATE PROCEDURE rotate_until(upto timestamptz, wanted text) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..300 LOOP
		PERFORM dc_window_rotate('we', upto);
		COMMIT;
		EXIT WHEN (SELECT claims FROM we_state) IS NOT DISTINCT FROM wanted;
		PERFORM pg_sleep(0.1);
	END LOOP;
END $$;
CALL rotate_until(:'t'::timestamptz + interval '20 min', '1 1');
SELECT claims FROM we_state;
SELECT sum(pg_relation_size('we_w' || i)) AS bytes FROM generate_series(0, 7) AS i;

-- the last level: kept until a wide turn is over for that long
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '48 min' - interval '1 us');
SELECT fine > wide AS above, wide < :'t' AS before FROM we_state;
SELECT value FROM dc_window('we', 'a', '8 min', :'t');
-- not while a later turn has rows in the same table
INSERT INTO dcounter.window_claim VALUES ('we', 1, :turn / 2 + 7, false);
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '48 min');
SELECT wide - :'t' AS wide, claims FROM we_state;
SELECT pg_relation_size(:'wide') > 0 AS has_rows;
SELECT value FROM dc_window('we', 'a', '8 min', :'t');
DELETE FROM dcounter.window_claim WHERE turn = :turn / 2 + 7;
CALL rotate_until(:'t'::timestamptz + interval '48 min', NULL);
DROP PROCEDURE rotate_until;
SELECT wide - :'t' AS wide, claims FROM we_state;
SELECT pg_relation_size(:'wide') AS bytes;
SELECT gone - :'t' AS gone FROM we_state;
SELECT value FROM dc_window('we', 'a', '8 min', :'t');
SELECT dc_window_drop('we');

-- a table of the first level that has rows of a later turn already: the earlier ones are moved, and the others stay
SELECT dc_window_create('we', '1 minute', '20 minutes', '{"4 minutes": "48 minutes"}');
:quiet;
-- a claim that is rolled back is none
BEGIN;
SELECT dc_incr_at('we', 'b', 1, :'t'::timestamptz - interval '8 min');
SELECT dc_incr_at('we', 'b', 1, :'t'::timestamptz - interval '8 min');
SELECT claims FROM we_state;
ROLLBACK;
SELECT dc_incr_at('we', 'b', 1, :'t'::timestamptz - interval '8 min');
SELECT claims FROM we_state;
INSERT INTO dcounter.window_claim VALUES ('we', 0, :turn + 6, false);
SELECT dc_incr(:'slot', 'b' || chr(1) || lpad(to_hex((:turn + 6) * 4), 8, '0'), 20);
SELECT dc_compact() >= 0 AS compacted;
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '16 min');
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '16 min');
SELECT key, bucket - :'t' AS at, value FROM we ORDER BY bucket;
SELECT claims FROM we_state;
-- rows that are not compacted keep it from being emptied, and are moved the next time
SELECT dc_incr_at('we', 'c', 3, :'t'::timestamptz - interval '4 min');
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '20 min') AS first, dc_compact() >= 0 AS compacted;
SELECT value FROM dc_window('we', 'c', '8 min', :'t');
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '20 min');
SELECT value FROM dc_window('we', 'c', '8 min', :'t');
SELECT dc_window_drop('we');

-- sealing: borders, and never backwards
SELECT dc_window_create('we', '1 minute', '20 minutes', '{"4 minutes": "48 minutes"}');
:quiet;
CALL dc_seal('we', :'t'::timestamptz - interval '3 min 1 us');
SELECT refuses - :'t' AS refuses, sealed - :'t' AS sealed FROM dc_windows;
CALL dc_seal('we', :'t'::timestamptz - interval '3 min');
SELECT refuses - :'t' AS refuses, sealed - :'t' AS sealed FROM dc_windows;
CALL dc_seal('we', :'t'::timestamptz - interval '30 min');
SELECT refuses - :'t' AS refuses, sealed - :'t' AS sealed FROM dc_windows;
SELECT dc_incr_at('we', 'a', 1, :'t'::timestamptz - interval '3 min');
\set VERBOSITY sqlstate
SELECT dc_incr_at('we', 'a', 1, :'t'::timestamptz - interval '3 min 1 us');
SELECT dc_window_reconcile('we', :'t'::timestamptz - interval '3 min', ARRAY['a'], ARRAY[1]);
CALL dc_seal('we', '-infinity');
SELECT dc_window_reconcile('we', '-infinity', ARRAY['a'], ARRAY[1]);
SELECT dc_window_reconcile('we', :'t'::timestamptz - interval '4 min', ARRAY[repeat('k', 1016)], ARRAY[1]);
SELECT dc_window_reconcile('we', :'t'::timestamptz - interval '4 min', ARRAY['o'], ARRAY[-9223372036854775808]), dc_window_reconcile('we', :'t'::timestamptz - interval '4 min', ARRAY['o'], ARRAY[9223372036854775807]);
\set VERBOSITY default
SELECT dc_window_reconcile('we', :'t'::timestamptz - interval '4 min', ARRAY['a', 'b', 'a'], ARRAY[5, 6, 5]);
SELECT dc_window_reconcile('we', :'t'::timestamptz - interval '4 min', ARRAY['a', repeat('k', 1015)], ARRAY[5, 6]);
SELECT claims FROM we_state;
-- in one transaction, with what it has counted itself
BEGIN;
SELECT dc_window_reconcile('we', :'t'::timestamptz - interval '4 min', ARRAY['a'], ARRAY[8]), dc_window_reconcile('we', :'t'::timestamptz - interval '4 min', ARRAY['a'], ARRAY[9]);
SELECT value FROM dc_window('we', 'a', '1 min', :'t'::timestamptz - interval '3 min');
COMMIT;
-- a wide bucket is sealed when all of it is
SELECT dc_compact() >= 0 AS compacted, dc_window_rotate('we', :'t'::timestamptz + interval '20 min');
\set VERBOSITY sqlstate
SELECT dc_window_reconcile('we', :'t'::timestamptz - interval '4 min', ARRAY['a'], ARRAY[1]);
\set VERBOSITY default
CALL dc_seal('we', :'t');
SELECT dc_window_reconcile('we', :'t'::timestamptz - interval '4 min', ARRAY['a'], ARRAY[70]);
SELECT value FROM dc_window('we', 'a', '8 min', :'t');

-- ahead: one bucket, and no more
SELECT dc_incr_at('we', 'f', 1, clock_timestamp() + interval '59 s');
\set VERBOSITY sqlstate
SELECT dc_incr_at('we', 'f', 1, clock_timestamp() + interval '110 s');
-- nothing is written without privileges
BEGIN READ ONLY;
SAVEPOINT s;
SELECT dc_window_rotate('we');
ROLLBACK TO s;
SELECT dc_window_reconcile('we', :'t'::timestamptz - interval '4 min', ARRAY['a'], ARRAY[1]);
ROLLBACK TO s;
SELECT dc_window_alter('we', late => 'drop');
ROLLBACK TO s;
SELECT dc_window_drop('we');
ROLLBACK TO s;
SELECT dc_window_create('we2', '1 minute', '12 minutes');
ROLLBACK;
-- a parallel worker does not know what is pending
CREATE FUNCTION we_read() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS $$BEGIN RETURN (SELECT upper FROM dc_window('we', 'a', '1 hour')); END$$;
SELECT set_config(name, 'on', false) IS NOT NULL AS in_workers FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SELECT we_read();
SELECT set_config(name, 'off', false) IS NOT NULL AS in_workers FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
\set VERBOSITY default
SELECT we_read();
DROP FUNCTION we_read();

-- rights come and go with a role, and tables have to be the owner's of the view
CREATE ROLE regress_we_user;
CREATE ROLE regress_we_group;
GRANT SELECT ON we TO regress_we_group;
GRANT regress_we_group TO regress_we_user;
SET ROLE regress_we_user;
SELECT value FROM dc_window('we', 'a', '8 min', :'t');
RESET ROLE;
REVOKE regress_we_group FROM regress_we_user;
SET ROLE regress_we_user;
SELECT value FROM dc_window('we', 'a', '8 min', :'t');
RESET ROLE;
SELECT value FROM dc_window('we', 'a', '8 min', :'t');
SET ROLE regress_we_user;
SELECT value FROM dc_window('we', 'a', '8 min', :'t');
RESET ROLE;
ALTER TABLE :wide OWNER TO regress_we_user;
\set VERBOSITY sqlstate
SELECT value FROM dc_window('we', 'a', '8 min', :'t');
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '20 min');
\set VERBOSITY default
-- jobs are done (the floor is as it was once) for windows that are whole, and those of the caller
UPDATE dcounter.time_window SET floors[1] = floors[2];
CALL dc_maintain();
SELECT fine > wide AS raised FROM we_state;
ALTER TABLE :wide OWNER TO CURRENT_USER;
SET ROLE regress_we_user;
CALL dc_maintain();
RESET ROLE;
SELECT fine > wide AS raised FROM we_state;
BEGIN;
CALL dc_maintain();
SELECT fine > wide AS raised FROM we_state;
ROLLBACK;
SELECT fine > wide AS raised FROM we_state;
CALL dc_maintain();
SELECT fine > wide AS raised FROM we_state;
-- no level's floor is raised past that of the level before, which rows come from: that has a turn with rows, and one has just gone
UPDATE dcounter.time_window SET floors = ARRAY[floors[2] - 4 * 3600000000, floors[2] - 4 * 3600000000], advanced = ARRAY[(extract(epoch FROM now() - '2000-01-01 UTC') * 1000000)::bigint, 0];
\set VERBOSITY sqlstate
SELECT dc_incr_at('we', 'a', 1, clock_timestamp() - interval '49 min');
\set VERBOSITY default
INSERT INTO dcounter.window_claim SELECT windowed, 0, (floors[1] - 2 * 86400000000) / (widths[1] * spans[1]), false FROM dcounter.time_window;
CALL dc_maintain();
SELECT fine = wide AS raised_as_far FROM we_state;
DROP OWNED BY regress_we_user, regress_we_group;
DROP ROLE regress_we_user, regress_we_group;
-- a window is known by a view
CREATE TABLE we_table ();
INSERT INTO dcounter.time_window SELECT (jsonb_populate_record(w, jsonb_build_object('windowed', 'we_table'))).* FROM dcounter.time_window AS w;
SELECT dc_incr_at('we_table', 'a');
DELETE FROM dcounter.time_window WHERE windowed = 'we_table'::regclass;
DROP TABLE we_table;
SELECT dc_window_drop('we');

-- rows that no increment has written: what can be moved is, page by page, and the owner is told what to do about the others
SELECT dc_window_create('we', '1 minute', '20 minutes', '{"4 minutes": "48 minutes"}');
:quiet;
SET dcounter.compact_batch = 10;
SELECT count(dc_incr_at('we', format('k%s', i), 1, :'t'::timestamptz - interval '8 min')) FROM generate_series(1, 150) AS i;
SELECT dc_compact() >= 0 AS compacted;
ALTER TABLE :slot RENAME TO we_slot;
INSERT INTO we_slot (key, inc) SELECT format('%s%s', k, i), 1 FROM generate_series(1, 120) AS i, unnest(ARRAY['j', 'k0000000', 'k1zzzzzzzz']) AS k;
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '16 min');
SELECT sum(value), count(*) FROM we WHERE key IS NOT NULL;
SELECT count(*) AS noted FROM dcounter.window_claim WHERE emptied;
DELETE FROM we_slot WHERE dcounter.window_key(key) IS NULL;
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '16 min');
SELECT sum(value), count(*) FROM we;
SELECT turn - :turn AS turn FROM dcounter.window_claim WHERE emptied;
-- those that look like rows of a later turn are to go with the table
SELECT dc_incr_at('we', 'a', 1, :'t'::timestamptz - interval '4 min');
SELECT format('we_w%s', (:turn - 1) % 8) AS next \gset
INSERT INTO :next (key, inc) SELECT format(E'f%s\x01ffffff00', i), 1 FROM generate_series(1, 120) AS i;
SELECT dc_compact() >= 0 AS compacted, dc_window_rotate('we', :'t'::timestamptz + interval '20 min') AS moved;
SELECT count(*) AS noted FROM dcounter.window_claim WHERE emptied AND turn = :turn - 1;
RESET dcounter.compact_batch;
SELECT dc_window_drop('we');

-- a time that is far away: there are more turns up to that than anybody can count
SELECT dc_window_create('we', '1 second', '1 second', '{"2 seconds": "1 minute"}');
:quiet;
SELECT dc_incr_at('we', 'a'), dc_compact() >= 0 AS compacted;
SET statement_timeout = '30s';
SELECT dc_window_rotate('we', '4713-01-01 BC');
SELECT dc_window_rotate('we', '9999-01-01 UTC') AS moved;
SELECT fine, wide FROM we_state;
SELECT count(*) FROM we;
SELECT dc_window_rotate('we', '294276-12-31 UTC') AS moved;
SELECT dc_window_rotate('we') AS moved;
RESET statement_timeout;
\set VERBOSITY sqlstate
SELECT dc_incr_at('we', 'a');
SELECT dc_window_rotate('we', 'infinity');
\set VERBOSITY default
SELECT dc_window_drop('we');

-- a bucket of the widest level is shown whole while its rows still are in several tables of finer ones
SELECT dc_window_create('we', '1 minute', '2 days', '{"1 hour": "4 days", "1 day": "30 days"}');
SELECT date_bin('1 day', now(), '2000-01-03 UTC') - interval '1 day' AS t \gset
SELECT dc_incr_at('we', 'a', 3, :'t'::timestamptz + interval '30 min'), dc_incr_at('we', 'a', 4, :'t'::timestamptz + interval '10 hours'),
	dc_incr_at('we', 'a', 5, :'t'::timestamptz + interval '20 hours');
BEGIN;
UPDATE dcounter.time_window SET floors[1] = extract(epoch FROM :'t'::timestamptz - '1999-12-31 UTC') * 1e6,
	floors[2] = extract(epoch FROM :'t'::timestamptz - '1999-12-31 UTC') * 1e6;
SELECT h, bucket - :'t' AS at, value FROM unnest(ARRAY[0, 7, 10, 23]) AS h,
	dc_buckets('we', 'a', :'t'::timestamptz + h * interval '1 hour', :'t'::timestamptz + h * interval '1 hour 1 s' + interval '1 s');
SELECT upper FROM dc_window('we', 'a', '1 day', :'t'::timestamptz + interval '1 day');
ROLLBACK;
SELECT dc_window_drop('we');
-- amounts that do not fit into the next level stay, and one claim for their slot is enough: that of the latest turn that has it
SELECT dc_window_create('we', '1 minute', '20 minutes', '{"4 minutes": "48 minutes"}');
:quiet;
SELECT date_bin('8 minutes', now(), '2000-01-03 UTC') AS t \gset
SELECT dc_incr_at('we', 'o', 9223372036854775807, :'t'::timestamptz - interval '8 min'), dc_incr_at('we', 'o', 7, :'t'::timestamptz - interval '7 min');
SELECT dc_compact() >= 0 AS compacted;
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '16 min');
INSERT INTO dcounter.window_claim SELECT windowed, level, turn + d, false FROM dcounter.window_claim, (VALUES (8), (16)) AS later (d) WHERE level = 0 AND NOT emptied;
SELECT level, count(*) AS claims FROM dcounter.window_claim GROUP BY 1 ORDER BY 1;
SELECT dc_window_rotate('we', :'t'::timestamptz + interval '20 min');
SELECT level, count(*) AS claims FROM dcounter.window_claim GROUP BY 1 ORDER BY 1;
SELECT dc_window_drop('we');
DROP VIEW we_state;
