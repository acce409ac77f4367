-- What the owner of a ledger puts on its tables
\set VERBOSITY terse
SET client_min_messages = warning;
SELECT dc_ledger_create('guarded');
SELECT dc_account_open('guarded', 'bank', NULL);
SELECT dc_account_open('guarded', 'ann');
-- an index is not trusted to run code in the name of who posts
CREATE FUNCTION told(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS
	$$BEGIN IF current_user = 'regress_poster' THEN RAISE WARNING 'runs as the poster'; END IF; RETURN true; END$$;
CREATE ROLE regress_poster;
GRANT SELECT ON guarded TO regress_poster;
CREATE UNIQUE INDEX told_key ON guarded_account (key) WHERE told(1);
SET ROLE regress_poster;
SELECT balance FROM dc_balance('guarded', 'ann');
RESET ROLE;
DROP INDEX told_key;
-- nor is the key of a partitioned table, whose constants the server evaluates when it is asked for it
DO $$
DECLARE
	suffix text;
BEGIN
	FOREACH suffix IN ARRAY ARRAY['', '_shard', '_limit', '_limit_shard', '_limit_hold', '_account', '_pending'] LOOP
		EXECUTE format('CREATE TABLE handmade%1$s (LIKE guarded%1$s INCLUDING ALL)', suffix);
	END LOOP;
END $$;
CREATE SEQUENCE handmade_entry_id CACHE 1;
CREATE TABLE handmade_entry (LIKE guarded_entry) PARTITION BY RANGE ((told(1)::int + amount));
CREATE TABLE handmade_entry_all PARTITION OF handmade_entry FOR VALUES FROM (minvalue) TO (maxvalue);
SELECT dc_ledger_adopt('handmade');
SELECT dc_account_open('handmade', 'bank', NULL), dc_account_open('handmade', 'ann');
GRANT SELECT, INSERT, UPDATE ON handmade TO regress_poster;
\c -
SET client_min_messages = warning;
SET ROLE regress_poster;
SELECT duplicate FROM dc_transfer('handmade', 'bank', 'ann', 1, 'e1');
RESET ROLE;
SELECT dc_drop('handmade');
-- a trigger does not pass the guard
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN UPDATE public.guarded_account SET min_balance = -1000 WHERE key = 'ann'; RETURN NULL; END$$;
CREATE TRIGGER meddle AFTER INSERT ON guarded_entry FOR EACH ROW EXECUTE FUNCTION meddle();
SELECT duplicate FROM dc_transfer('guarded', 'bank', 'ann', 1, 'e1');
DROP TRIGGER meddle ON guarded_entry;
-- memo NOT NULL
ALTER TABLE guarded_entry ALTER COLUMN memo SET NOT NULL;
SELECT duplicate FROM dc_transfer('guarded', 'bank', 'ann', 1, 'e2');
ALTER TABLE guarded_entry ALTER COLUMN memo DROP NOT NULL;
-- names that change, and are rolled back
SELECT dc_transfer_void('guarded', 1);
BEGIN;
ALTER TABLE guarded_pending RENAME TO other;
SELECT dc_transfer_void('guarded', 1);
ROLLBACK;
SELECT dc_transfer_void('guarded', 1);
SELECT duplicate FROM dc_transfer('guarded', 'bank', 'ann', 1, 'e3');
-- Code called by a statement of the ledger does not pass the guard: it is at the same depth of triggers
CREATE TABLE todo (what text);
CREATE FUNCTION meddle(why text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	statement text;
BEGIN
	FOR statement IN DELETE FROM public.todo RETURNING what LOOP
		BEGIN
			EXECUTE statement;
			RAISE WARNING '%: % passes', why, statement;
		EXCEPTION WHEN object_not_in_prerequisite_state THEN
			RAISE WARNING '%: %', why, sqlerrm;
		END;
	END LOOP;
	RETURN true;
END $$;
CREATE FUNCTION meddle_all() RETURNS void LANGUAGE sql AS $$
	INSERT INTO todo VALUES ('UPDATE public.guarded_entry SET amount = 2 * amount'), ('UPDATE public.guarded SET inc = 2 * inc'),
		('UPDATE public.guarded_limit_shard SET units = 5, inc = 5'), ('DELETE FROM public.guarded_limit_shard'), ('DELETE FROM public.guarded_op'),
		('INSERT INTO public.guarded_entry SELECT 900, 900, key, 5, op_id, at FROM public.guarded_entry'), ('UPDATE public.guarded_account SET min_balance = -5') $$;
SELECT dc_account_open('guarded', 'cid', 0, 100);
SELECT duplicate FROM dc_transfer('guarded', 'bank', 'cid', 2, 'm0');
SELECT dc_compact('guarded') > 0;
ALTER TABLE guarded_entry ADD CONSTRAINT meddle CHECK (meddle('check of entries'));
SELECT meddle_all();
SELECT duplicate FROM dc_transfer('guarded', 'bank', 'ann', 2, 'm1');
ALTER TABLE guarded_entry DROP CONSTRAINT meddle;
ALTER TABLE guarded_entry ADD COLUMN more boolean DEFAULT meddle('default of entries');
SELECT meddle_all();
SELECT duplicate FROM dc_transfer('guarded', 'bank', 'ann', 2, 'm2');
ALTER TABLE guarded_entry DROP COLUMN more;
CREATE FUNCTION meddle_index(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$DECLARE x boolean; BEGIN SELECT public.meddle('index of ' || $1) INTO x; RETURN x; END$$;
CREATE INDEX meddle_index ON guarded_entry (meddle_index('entries'), amount) WHERE amount > 0;
SELECT meddle_all();
SELECT duplicate FROM dc_transfer('guarded', 'bank', 'ann', 2, 'm3');
DROP INDEX meddle_index;
ALTER TABLE guarded_account ADD CONSTRAINT meddle CHECK (meddle('check of accounts'));
SELECT meddle_all();
SELECT dc_account_open('guarded', 'ben', 0, 100);
ALTER TABLE guarded_account DROP CONSTRAINT meddle;
ALTER TABLE guarded_pending ADD CONSTRAINT meddle CHECK (meddle('check of pending transfers'));
SELECT meddle_all();
SELECT transfer_id AS p FROM dc_transfer_pending('guarded', 'bank', 'ben', 2, 'm4') \gset
SELECT meddle_all();
SELECT dc_transfer_post('guarded', :p);
ALTER TABLE guarded_pending DROP CONSTRAINT meddle;
-- ... nor does what is on the table of ops run at all: it is refused
ALTER TABLE guarded_op ADD CONSTRAINT meddle CHECK (meddle('check of ops'));
SELECT meddle_all();
SELECT duplicate FROM dc_transfer('guarded', 'bank', 'ann', 2, 'm5');
WITH d AS (DELETE FROM todo RETURNING 1) SELECT count(*) AS "not run" FROM d;
ALTER TABLE guarded_op DROP CONSTRAINT meddle;
SELECT duplicate FROM dc_transfer('guarded', 'bank', 'ann', 2, 'm5');
ALTER TABLE guarded ADD CONSTRAINT meddle CHECK (meddle('check of balances'));
SELECT meddle_all();
SELECT dc_compact('guarded') > 0;
ALTER TABLE guarded DROP CONSTRAINT meddle;
-- ... nor what a rule makes of it
CREATE RULE instead AS ON INSERT TO guarded_pending DO INSTEAD UPDATE guarded_entry SET amount = 5;
SELECT duplicate FROM dc_transfer_pending('guarded', 'bank', 'ben', 2, 'r1');
DROP RULE instead ON guarded_pending;
CREATE RULE also AS ON INSERT TO guarded_pending DO ALSO UPDATE guarded_entry SET amount = 5;
SELECT duplicate FROM dc_transfer_pending('guarded', 'bank', 'ben', 2, 'r1');
DROP RULE also ON guarded_pending;
SELECT transfer_id AS p FROM dc_transfer_pending('guarded', 'bank', 'ben', 2, 'r2') \gset
CREATE RULE instead AS ON UPDATE TO guarded_pending WHERE NEW.state = 'voided' DO INSTEAD UPDATE guarded_entry SET amount = 5;
SELECT dc_transfer_void('guarded', :p);
CREATE OR REPLACE RULE instead AS ON UPDATE TO guarded_pending DO INSTEAD UPDATE guarded_entry SET amount = 5;
SELECT dc_transfer_void('guarded', :p);
DROP RULE instead ON guarded_pending;
-- ... though one that does something else is no obstacle
CREATE RULE also AS ON UPDATE TO guarded_pending DO ALSO INSERT INTO todo VALUES ('seen');
SELECT dc_transfer_void('guarded', :p);
SELECT * FROM todo;
DROP RULE also ON guarded_pending;
DELETE FROM todo;
-- ... nor what is done while tables are emptied
CREATE FUNCTION empty_more() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM public.meddle('trigger'); RETURN NULL; END$$;
SELECT dc_ledger_create('other');
SELECT dc_account_open('other', 'bank', NULL), dc_account_open('other', 'ann');
SELECT duplicate FROM dc_transfer('other', 'bank', 'ann', 1, 'e1');
CREATE TRIGGER empty_more BEFORE TRUNCATE ON other_entry EXECUTE FUNCTION empty_more();
CREATE TRIGGER empty_more AFTER TRUNCATE ON other_limit_shard EXECUTE FUNCTION empty_more();
INSERT INTO todo VALUES ('TRUNCATE public.guarded_entry'), ('TRUNCATE public.guarded_shard'), ('TRUNCATE public.guarded_limit'), ('TRUNCATE public.guarded_limit_shard'), ('TRUNCATE public.guarded_op'), ('DELETE FROM public.guarded_shard');
TRUNCATE other;
SELECT count(*) FROM other_entry;
SELECT dc_drop('other');
DROP TABLE todo;
DROP FUNCTION meddle(text), meddle_all(), meddle_index(text), empty_more();
SELECT * FROM dc_ledger_check('guarded');
SELECT dc_drop('guarded');
DROP FUNCTION told(int), meddle();
DROP ROLE regress_poster;
