-- What the owner of a ledger puts on its tables
\set VERBOSITY terse
SET client_min_messages = warning;
SELECT dc_create_ledger('guarded');
SELECT dc_open_account('guarded', 'bank', NULL);
SELECT dc_open_account('guarded', 'ann');
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
SELECT * FROM dc_ledger_check('guarded');
SELECT dc_drop('guarded');
DROP FUNCTION told(int), meddle();
DROP ROLE regress_poster;
