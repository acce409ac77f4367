-- dc_window_reopen(): floors that a clock has raised which was ahead go back. dc_window_rotate() to a time to come stands for the clock.
SET timezone = 'UTC';
-- autovacuum may have a table locked just when it is to be emptied, which is then left for later
\set quiet 'DO $q$DECLARE t regclass; BEGIN FOR t IN SELECT oid FROM pg_class WHERE relname ~ ''^wo(_|$)'' AND relkind = ''r'' LOOP EXECUTE format(''ALTER TABLE %s SET (autovacuum_enabled = off)'', t); END LOOP; END$q$'
-- Times are told from this midnight. A turn of hours is a day.
SELECT date_bin('1 day', now(), '2000-01-03 UTC') AS t \gset
SELECT extract(day FROM :'t'::timestamptz - '2000-01-03 UTC') AS turn \gset

-- without a rollup
SELECT dc_window_create('wo', '1 hour', '6 days');
:quiet;
SELECT dc_window_reopen('wo');
SELECT dc_incr_at('wo', 'a', 1, :'t'::timestamptz - interval '2 days'), dc_incr_at('wo', 'a', 10, :'t'::timestamptz - interval '1 day'), dc_compact() >= 0 AS compacted;
-- the table of the second one is left alone for a later turn
INSERT INTO dcounter.window_claim VALUES ('wo', 0, :turn - 1 + 8000, false);
SELECT dc_window_rotate('wo', :'t'::timestamptz + interval '30 days');
SELECT gone[1] AS gone FROM dcounter.time_window \gset
\set VERBOSITY sqlstate
SELECT dc_incr_at('wo', 'a', 100);
\set VERBOSITY default
SELECT upper FROM dc_window('wo', 'a', '6 days');
SELECT dc_window_reopen('wo');
SELECT dc_window_reopen('wo');
SELECT dc_incr_at('wo', 'a', 100), dc_incr_at('wo', 'a', 1000, :'t'::timestamptz - interval '2 days');
SELECT upper FROM dc_window('wo', 'a', '6 days');
SELECT sum(value) FROM wo;
-- what is taken now is noticed, although the floor is lower than it was
SELECT dc_compact() >= 0 AS compacted, dc_window_rotate('wo', :'t'::timestamptz + interval '10 days');
SELECT gone[1] > :gone AS other FROM dcounter.time_window;
-- the next turn is gone in time: neither before it is up, nor after
SELECT dc_window_reopen('wo');
SELECT dc_incr_at('wo', 'a', 1, :'t'::timestamptz - interval '1 day');
CALL dc_maintain();
SELECT dc_incr_at('wo', 'a', 1, :'t'::timestamptz - interval '4 days');
SELECT upper FROM dc_window('wo', 'a', '6 days');
-- what is sealed stays sealed
CALL dc_seal('wo', :'t'::timestamptz - interval '1 day');
SELECT dc_window_rotate('wo', :'t'::timestamptz + interval '10 days');
SELECT dc_window_reopen('wo');
SELECT refuses - :'t' AS refuses, sealed - :'t' AS sealed FROM dc_windows;
SELECT dc_window_drop('wo');

-- with one: what was rolled up stays so, and what follows is counted by hours
SELECT dc_window_create('wo', '1 hour', '6 days', '{"1 day": "60 days"}');
:quiet;
CREATE VIEW wo_floor AS SELECT '2000-01-01 UTC'::timestamptz + floors[1] * interval '1 us' AS floor, floors[1] > floors[2] AS above FROM dcounter.time_window;
SELECT dc_incr_at('wo', 'a', 1, :'t'::timestamptz - interval '60 hours'), dc_compact() >= 0 AS compacted;
SELECT dc_window_rotate('wo', :'t'::timestamptz + interval '20 days');
SELECT dc_incr_at('wo', 'a', 10, :'t'::timestamptz - interval '61 hours');
SELECT dc_window_reopen('wo');
SELECT floor - :'t' AS floor, above FROM wo_floor;
SELECT dc_window_reopen('wo');
SELECT dc_incr_at('wo', 'a', 100, :'t'::timestamptz - interval '3 hours'), dc_incr_at('wo', 'a', 1000, :'t'::timestamptz - interval '49 hours');
SELECT bucket - :'t' AS at, value FROM dc_buckets('wo', 'a', :'t'::timestamptz - interval '6 days') WHERE value <> 0;
SELECT value FROM dc_window('wo', 'a', '24 hours', :'t'::timestamptz - interval '48 hours');
-- the mover goes on from there
SELECT dc_compact() >= 0 AS compacted, dc_window_rotate('wo', :'t'::timestamptz + interval '7 days');
SELECT bucket - :'t' AS at, value FROM wo ORDER BY 1;
-- what this transaction has counted in wide buckets is there, too
SELECT dc_window_rotate('wo', :'t'::timestamptz + interval '12 days');
BEGIN;
SELECT dc_incr_at('wo', 'a', 10000, :'t');
SELECT dc_window_reopen('wo');
SELECT floor - :'t' AS floor FROM wo_floor;
SELECT value FROM dc_window('wo', 'a', '1 day', :'t'::timestamptz + interval '1 day');
ROLLBACK;
-- wide buckets of the wrong time are in the way, until their owner takes them away
SELECT dc_incr_at('wo', 'wrong time', 1, :'t'::timestamptz - interval '2 hours'), dc_compact() >= 0 AS compacted;
DO $$BEGIN FOR i IN 8..15 LOOP EXECUTE format($q$UPDATE wo_w%s SET key = left(key, -8) || lpad(to_hex(('x' || right(key, 8))::bit(32)::int + 4), 8, '0') WHERE key ~ '^wrong'$q$, i); END LOOP; END$$;
SELECT dc_window_reopen('wo');
SELECT floor - :'t' AS floor FROM wo_floor;
DO $$BEGIN FOR i IN 8..15 LOOP EXECUTE format($q$DELETE FROM wo_w%s WHERE dcounter.window_bucket(key, 86400000000) > now()$q$, i); END LOOP; END$$;
SELECT dc_window_reopen('wo');
SELECT floor - :'t' AS floor FROM wo_floor;
DROP VIEW wo_floor;
SELECT dc_window_drop('wo');

-- a turn that was emptied since its rows were too old for all levels, and has rows again
SELECT dc_window_create('wo', '1 hour', '6 days', '{"1 day": "12 days"}');
:quiet;
SELECT dc_incr_at('wo', 'a', 1, :'t'::timestamptz - interval '2 days'), dc_compact() >= 0 AS compacted;
BEGIN;
SELECT dc_window_rotate('wo', :'t'::timestamptz + interval '40 days');
SELECT count(*) AS notes FROM dcounter.window_claim WHERE emptied;
SELECT dc_window_reopen('wo');
SELECT count(*) AS notes FROM dcounter.window_claim WHERE emptied;
COMMIT;
SELECT dc_incr_at('wo', 'a', 1, :'t'::timestamptz - interval '2 days'), dc_compact() >= 0 AS compacted;
SELECT dc_window_rotate('wo', :'t'::timestamptz + interval '9 days');
SELECT sum(value) FROM wo;

-- errors
CREATE ROLE regress_wo_user;
GRANT SELECT, INSERT, UPDATE ON wo TO regress_wo_user;
SELECT dc_window_reopen(NULL);
SELECT dc_window_reopen('pg_class');
SET ROLE regress_wo_user;
SELECT dc_window_reopen('wo');
RESET ROLE;
BEGIN READ ONLY;
SELECT dc_window_reopen('wo');
ROLLBACK;
ALTER TABLE wo_w3 OWNER TO regress_wo_user;
SELECT dc_window_reopen('wo');
ALTER TABLE wo_w3 OWNER TO CURRENT_USER;
SELECT dc_window_reopen('wo');
DROP OWNED BY regress_wo_user;
DROP ROLE regress_wo_user;
SELECT dc_window_drop('wo');
