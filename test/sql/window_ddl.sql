-- Windowed counters: settings, rights, DDL, tables that their owner has altered.
SET timezone = 'UTC';
\set VERBOSITY terse
SELECT dc_window_create('wd_a', '1 minute', '10 minutes');
SELECT dc_window_create('wd_a', '1 minute', '10 minutes');
SELECT dc_window_create('wd_b', '7 minutes', '1 hour', '{"1 hour": "1 day"}');
SELECT dc_window_create('wd_b', '1 minute', '1 hour', '{"1 hour": "1 hour"}');
SELECT dc_window_create('wd_b', '1 minute', '30 s');
SELECT dc_window_create('wd_b', '1 ms', '1 s');
SELECT dc_window_create('wd_b', '1 month', '1 year');
SELECT dc_window_create('wd_b', '1 minute', '1 hour', '{"1 month": "1 year"}');
SELECT dc_window_create('wd_b', '1 minute', '1 hour', '[1]');
SELECT dc_window_create('wd_b', '1 minute', '1 hour', '{"1 hour": null}');
SELECT dc_window_create('wd_b', '1 minute', '1 hour', '{"x": "1 day"}');
SELECT dc_window_create('wd_b', '1 minute', '1 hour', '{"2 minutes": "2 hours", "4 minutes": "3 hours", "8 minutes": "4 hours", "16 minutes": "5 hours"}');
SELECT dc_window_create('wd_b', '1 s', '36525 days');
SELECT dc_window_create('wd_b', '1 minute', '1 hour', NULL, 'maybe');
SELECT dc_window_create(repeat('n', 60), '1 minute', '1 hour');
SELECT dc_window_create('pg_temp.wd_b', '1 minute', '1 hour');
SELECT dc_window_create(NULL, '1 minute', '1 hour');
SELECT dc_window_create('wd_b', '1 minute', '1 hour', '{"4 minutes": "1 day", "2 minutes": "2 hours", "1 hour": "10 days"}');
SELECT bucket, keep, levels, rollup FROM dc_windows WHERE windowed = 'wd_b'::regclass;
SELECT dc_window_alter('wd_b', keep => '61 minutes');
SELECT dc_window_alter('wd_b', keep => '3 hours');
SELECT dc_window_alter('wd_a', keep => '1 day');
SELECT dc_window_alter('wd_a_w0', keep => '1 day');
SELECT dc_window_drop('wd_b');
SELECT dc_window_drop('pg_class');
ALTER TABLE wd_a_w0 SET UNLOGGED;
ALTER TABLE wd_a_dropped SET UNLOGGED;
SELECT count(*) FROM pg_class WHERE relname ~ '^wd_a_' AND relpersistence = 'u';

-- rights are those on the view
CREATE ROLE regress_wd_owner;
CREATE ROLE regress_wd_user;
GRANT CREATE, USAGE ON SCHEMA public TO regress_wd_owner;
SET ROLE regress_wd_user;
SELECT dc_incr_at('wd_a', 'a');
SELECT * FROM dc_window('wd_a', 'a', '1 min');
SELECT * FROM dc_buckets('wd_a', 'a', now());
SELECT * FROM dc_top_window('wd_a', '1 min');
SELECT dropped FROM dc_windows;
SELECT dc_window_alter('wd_a', late => 'drop');
SELECT dc_window_rotate('wd_a');
SELECT dc_window_reconcile('wd_a', now(), '{a}'::text[], '{1}');
CALL dc_seal('wd_a', now());
SELECT dc_window_drop('wd_a');
RESET ROLE;
GRANT INSERT, UPDATE ON wd_a TO regress_wd_user;
SET ROLE regress_wd_user;
SELECT dc_incr_at('wd_a', 'a');
SELECT * FROM dc_window('wd_a', 'a', '1 min');
RESET ROLE;
GRANT SELECT ON wd_a TO regress_wd_user;
SET ROLE regress_wd_user;
SELECT upper FROM dc_window('wd_a', 'a', '5 min');
SELECT key, value FROM dc_top_window('wd_a', '5 min');
SELECT key, value FROM wd_a;
SELECT dropped FROM dc_windows;
RESET ROLE;
-- who has looked at the list goes on calling functions of others
SET ROLE regress_wd_owner;
SELECT dc_window_create('wd_g', '1 min', '1 hour');
CREATE FUNCTION wd_called() RETURNS text LANGUAGE plpgsql AS $$BEGIN RETURN 'called'; END$$;
RESET ROLE;
SELECT dropped FROM dc_windows WHERE windowed = 'wd_g'::regclass;
SELECT wd_called();
DROP FUNCTION wd_called();
SELECT dc_window_drop('wd_g');
REVOKE INSERT ON wd_a FROM regress_wd_user;
SET ROLE regress_wd_user;
SELECT dc_incr_at('wd_a', 'a');
RESET ROLE;

-- a reader that may not write
BEGIN READ ONLY;
SELECT upper FROM dc_window('wd_a', 'a', '5 min');
SELECT dc_incr_at('wd_a', 'a');
ROLLBACK;

-- its owner gives it away: the tables go with it
ALTER VIEW wd_a OWNER TO regress_wd_owner;
SELECT count(*), min(relowner::regrole::text) FROM pg_class WHERE relname LIKE 'wd\_a%' AND relkind = 'r';
SET ROLE regress_wd_owner;
SELECT dc_incr_at('wd_a', 'a');
-- other names and schemas
ALTER VIEW wd_a RENAME TO wd_c;
SELECT value FROM dc_window('wd_c', 'a', '5 min');
ALTER TABLE wd_c_w3 RENAME TO wd_other;
SELECT value FROM dc_window('wd_c', 'a', '5 min');
SELECT key, value FROM dc_top_window('wd_c', '5 min');
CALL dc_maintain();
-- what a slot must not be
SELECT dc_create('wd_w');
-- either a generated column or a view needs it, whichever is found first
\set VERBOSITY sqlstate
DO $$BEGIN FOR i IN 0..7 LOOP EXECUTE format('ALTER TABLE %s ALTER inc TYPE numeric', (SELECT slot FROM dcounter.window_slot WHERE windowed = 'wd_c'::regclass AND number = i)); EXIT; END LOOP; END$$;
\set VERBOSITY terse
DO $$DECLARE s regclass; BEGIN FOR s IN SELECT slot FROM dcounter.window_slot WHERE windowed = 'wd_c'::regclass AND number >= 0 LOOP EXECUTE format('ALTER TABLE %s RENAME updated_at TO u', s); END LOOP; END$$;
\set VERBOSITY sqlstate
SELECT dc_incr_at('wd_c', 'a');
SELECT value FROM dc_window('wd_c', 'a', '5 min');
SELECT value FROM dc_top_window('wd_c', '5 min');
\set VERBOSITY terse
CALL dc_maintain();
DO $$DECLARE s regclass; BEGIN FOR s IN SELECT slot FROM dcounter.window_slot WHERE windowed = 'wd_c'::regclass AND number >= 0 LOOP EXECUTE format('ALTER TABLE %s RENAME u TO updated_at', s); END LOOP; END$$;
SELECT value FROM dc_window('wd_c', 'a', '5 min');
-- one goes, with the view that reads it
DROP TABLE wd_c_w1;
SET client_min_messages = warning;
DROP TABLE wd_c_w1 CASCADE;
RESET client_min_messages;
SELECT count(*) FROM dcounter.window_slot s WHERE NOT EXISTS (SELECT FROM dc_windows w WHERE w.windowed = s.windowed);
SELECT dc_incr('wd_c_w2', 'still a counter');
SELECT count(*) FROM pg_class WHERE relname LIKE 'wd\_c\_%' AND relkind = 'r';
DO $$DECLARE s text; BEGIN FOR s IN SELECT relname FROM pg_class WHERE (relname ~ '^wd_c_(w.|dropped)$' OR relname = 'wd_other') AND relkind = 'r' LOOP EXECUTE format('DROP TABLE %I', s); END LOOP; END$$;
SELECT dc_drop('wd_w');
RESET ROLE;

-- dropping the view drops all
SELECT dc_window_create('wd_d', '1 minute', '10 minutes');
DROP VIEW wd_d;
SELECT count(*) FROM pg_class WHERE relname LIKE 'wd\_%';
-- a slot that is no longer a counter table
SELECT dc_window_create('wd_e', '1 minute', '10 minutes', late => 'drop');
DELETE FROM dcounter.counter WHERE counter = ANY (SELECT slot FROM dcounter.window_slot);
\set VERBOSITY sqlstate
SELECT dc_incr_at('wd_e', 'a');
\set VERBOSITY terse
SELECT dc_window_drop('wd_e');
-- one that is bound: refused
SELECT dc_window_create('wd_f', '1 minute', '10 minutes');
CREATE TABLE wd_src (k text);
SELECT count(dc_bind(slot, 'wd_src', 'k', build => 'none')) FROM dcounter.window_slot WHERE number >= 0;
\set VERBOSITY sqlstate
SELECT dc_incr_at('wd_f', 'a');
\set VERBOSITY terse
DROP TABLE wd_src CASCADE;
SELECT dc_window_drop('wd_f');
-- rolled back
BEGIN;
SELECT dc_window_create('wd_g', '1 minute', '10 minutes');
SELECT dc_incr_at('wd_g', 'a', 3);
SELECT value FROM dc_window('wd_g', 'a', '5 min');
ROLLBACK;
SELECT dc_incr_at('wd_g', 'a', 3);
DROP OWNED BY regress_wd_owner, regress_wd_user;
DROP ROLE regress_wd_owner, regress_wd_user;
SELECT count(*) FROM dcounter.window_slot;
SELECT count(*) FROM dcounter.window_claim;

-- registered again after only its schema was restored: the rows say what the catalogs had
CREATE SCHEMA wd_restored;
SELECT dc_window_create('wd_restored.w', '1 minute', '2 days', '{"1 hour": "20 days"}', 'drop');
SELECT date_bin('8 hours', now(), '2000-01-03 UTC') AS t \gset
SELECT dc_incr_at('wd_restored.w', 'a', 1, :'t'), dc_incr_at('wd_restored.w', 'a', 2, :'t'::timestamptz - interval '8 hours'), dc_incr_at('wd_restored.w', 'a', 10, :'t'::timestamptz - interval '1 day'), dc_incr_at('wd_restored.w', 'a', 100, :'t'::timestamptz - interval '5 days'),
	dc_incr_at('wd_restored.w', 'a', 1000, :'t'::timestamptz - interval '1 year');
-- rolled up as by a clock that was ahead
SELECT dc_window_rotate('wd_restored.w', :'t'::timestamptz + interval '1 day 12 hours') AS moved;
CREATE FUNCTION wd_seen() RETURNS TABLE (w text, dropped bigint, buckets bigint, value bigint, n numeric) LANGUAGE sql AS $$
	SELECT 'w', dropped, (SELECT count(*) FROM dc_buckets(windowed, 'a', now() - interval '10 days') WHERE value <> 0), (dc_window(windowed, 'a', '10 days')).upper, (SELECT sum(value) FROM wd_restored.w)
	FROM dc_windows WHERE windowed = 'wd_restored.w'::regclass $$;
SELECT * FROM wd_seen();
CREATE TABLE wd_claims AS SELECT level, turn FROM dcounter.window_claim WHERE windowed = 'wd_restored.w'::regclass AND NOT emptied;
SELECT dc_window_adopt('wd_restored.w', '1 minute', '2 days');
DELETE FROM dcounter.counter WHERE counter IN (SELECT slot FROM dcounter.window_slot WHERE windowed = 'wd_restored.w'::regclass);
DELETE FROM dcounter.window_slot WHERE windowed = 'wd_restored.w'::regclass;
DELETE FROM dcounter.window_claim WHERE windowed = 'wd_restored.w'::regclass;
DELETE FROM dcounter.time_window WHERE windowed = 'wd_restored.w'::regclass;
\set VERBOSITY sqlstate
SELECT dc_incr_at('wd_restored.w', 'a');
SELECT dc_window_adopt('wd_restored.w_w0', '1 minute', '2 days');
SELECT dc_window_adopt('wd_restored.w', '1 minute', NULL);
\set VERBOSITY terse
SELECT dc_window_adopt('wd_restored.w', '1 minute', '2 days');
SELECT dc_window_adopt('wd_restored.w', '1 minute', '2 days', '{"1 hour": "20 days", "1 day": "40 days"}');
\set VERBOSITY sqlstate
SELECT dc_window_adopt('wd_restored.w', '1 minute', '1 day', '{"1 hour": "20 days"}');
\set VERBOSITY default
SELECT dc_window_adopt('wd_restored.w', '1 minute', '2 days', '{"1 hour": "20 days"}', 'drop');
SELECT * FROM wd_seen();
SELECT count(*), count(c.turn) FROM wd_claims AS o FULL JOIN (SELECT * FROM dcounter.window_claim WHERE windowed = 'wd_restored.w'::regclass) AS c USING (level, turn);
SELECT dc_incr_at('wd_restored.w', 'a', 1, :'t'), dc_incr_at('wd_restored.w', 'a', 1, :'t'::timestamptz - interval '1 year'), dc_window_rotate('wd_restored.w') >= 0 AS rotated;
SELECT * FROM wd_seen();
SET client_min_messages = warning;
SELECT dc_window_drop('wd_restored.w');
DROP SCHEMA wd_restored CASCADE;
DROP TABLE wd_claims;
DROP FUNCTION wd_seen;
RESET client_min_messages;
