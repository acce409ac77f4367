-- Cursors: code of a table's owner leaves none, and does not get at those of the caller
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SELECT extnamespace::regnamespace AS ext FROM pg_extension WHERE extname = 'dcounter' \gset
CREATE ROLE regress_dc_owner;
CREATE ROLE regress_dc_caller;
GRANT USAGE ON SCHEMA :ext TO regress_dc_owner, regress_dc_caller;
CREATE SCHEMA regress_dc AUTHORIZATION regress_dc_owner;
CREATE TABLE secret (i) AS SELECT generate_series(1, 9);
GRANT SELECT ON secret TO regress_dc_caller;

SET ROLE regress_dc_owner;
GRANT USAGE ON SCHEMA regress_dc TO regress_dc_caller;
SELECT dc_create('regress_dc.likes');
GRANT SELECT, INSERT, UPDATE ON regress_dc.likes TO regress_dc_caller;
CREATE TABLE regress_dc.log (n int GENERATED ALWAYS AS IDENTITY, what text);
-- Does what is said here, with each row of the shard table
CREATE TABLE regress_dc.todo (what text);
CREATE FUNCTION regress_dc.misbehave() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
	todo text;
	c refcursor;
	r record;
	names text[];
	n text;
BEGIN
	SELECT what INTO todo FROM regress_dc.todo;
	CASE todo
	WHEN 'leave' THEN
		c := 'left';
		OPEN c FOR SELECT g FROM generate_series(1, 20000) AS g;
		FETCH c INTO r;
	WHEN 'leave many' THEN
		EXECUTE 'DECLARE more SCROLL CURSOR FOR SELECT 1 AS i';
		c := NULL;
		OPEN c FOR SELECT 1;
		c := NULL;
		OPEN c FOR INSERT INTO regress_dc.log (what) VALUES ('by a cursor') RETURNING what;
		FETCH c INTO r;
		BEGIN
			c := 'inner';
			OPEN c FOR SELECT dc_get('regress_dc.likes', 'a');
			FETCH c INTO r;
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		END;
	WHEN 'read' THEN
		INSERT INTO regress_dc.log (what) SELECT 'sees ' || name || ': ' || statement FROM pg_cursors;
		SELECT array_agg(format('<unnamed portal %s>', i)) || '{mine,<unnamed>}' INTO names FROM generate_series(1, 500) AS i;
		FOREACH n IN ARRAY names LOOP
			BEGIN
				c := n;
				FETCH c INTO r;
				INSERT INTO regress_dc.log (what) VALUES ('read ' || r::text);
			EXCEPTION
			WHEN invalid_cursor_name THEN
				NULL;
			WHEN OTHERS THEN
				INSERT INTO regress_dc.log (what) VALUES ('FETCH: ' || sqlstate);
				BEGIN
					MOVE c;
				EXCEPTION WHEN OTHERS THEN
					INSERT INTO regress_dc.log (what) VALUES ('MOVE: ' || sqlstate);
				END;
				BEGIN
					CLOSE c;
				EXCEPTION WHEN OTHERS THEN
					INSERT INTO regress_dc.log (what) VALUES ('CLOSE: ' || sqlstate);
				END;
				BEGIN
					c := n;
					OPEN c FOR SELECT 'forged';
				EXCEPTION WHEN OTHERS THEN
					INSERT INTO regress_dc.log (what) VALUES ('OPEN: ' || sqlstate);
				END;
			END;
		END LOOP;
	WHEN 'replace' THEN
		c := 'mine';
		BEGIN
			CLOSE c;
		EXCEPTION WHEN OTHERS THEN
			INSERT INTO regress_dc.log (what) VALUES ('CLOSE: ' || sqlstate);
		END;
		c := 'left';
		OPEN c FOR SELECT 1;
	WHEN 'hold' THEN
		EXECUTE 'DECLARE held CURSOR WITH HOLD FOR SELECT 1';
	WHEN 'raise' THEN
		PERFORM dc_get('regress_dc.likes', 'a');
		RAISE 'no';
	WHEN 'raise within' THEN
		BEGIN
			c := 'within';
			OPEN c FOR SELECT 1;
			PERFORM dc_get('regress_dc.likes', 'a');
			RAISE 'no';
		EXCEPTION WHEN OTHERS THEN
			INSERT INTO regress_dc.log (what) SELECT 'after an error sees ' || count(*) FROM pg_cursors;
		END;
	ELSE
		NULL;
	END CASE;
	RETURN NEW;
END $$;
CREATE TRIGGER misbehave BEFORE INSERT OR UPDATE ON regress_dc.likes_shard FOR EACH ROW EXECUTE FUNCTION regress_dc.misbehave();
RESET ROLE;
CREATE FUNCTION todo(what text) RETURNS void LANGUAGE sql AS 'TRUNCATE regress_dc.todo, regress_dc.log; INSERT INTO regress_dc.todo VALUES (what)';
CREATE VIEW log AS SELECT string_agg(what, ', ' ORDER BY n) FROM regress_dc.log;

--
-- What is left
--
-- ... when an increment is written at commit: the server has looked after its cursors already
SELECT todo('leave');
SET ROLE regress_dc_caller;
SELECT dc_incr('regress_dc.likes', 'a');
FETCH 1 FROM "left";
SELECT name FROM pg_cursors;
SELECT dc_incr('regress_dc.likes', 'a');
SELECT dc_get('regress_dc.likes', 'a');
BEGIN;
SELECT dc_incr('regress_dc.likes', 'a');
COMMIT;
SELECT name FROM pg_cursors;
-- ... or earlier
BEGIN;
SELECT dc_incr('regress_dc.likes', 'a'), dc_apply();
SELECT name FROM pg_cursors;
FETCH 1 FROM "left";
ROLLBACK;
RESET ROLE;
SELECT todo('leave many');
SET ROLE regress_dc_caller;
BEGIN;
SELECT dc_incr('regress_dc.likes', 'a'), dc_apply();
SELECT name FROM pg_cursors;
SELECT dc_incr('regress_dc.likes', 'b');
COMMIT;
SELECT name FROM pg_cursors;
-- ... within a savepoint
BEGIN;
SAVEPOINT s;
SELECT dc_incr('regress_dc.likes', 'a'), dc_apply();
SELECT name FROM pg_cursors;
RELEASE SAVEPOINT s;
SELECT name FROM pg_cursors;
COMMIT;
RESET ROLE;
SELECT * FROM log;
-- ... beyond the transaction
SELECT todo('hold');
SET ROLE regress_dc_caller;
SELECT dc_incr('regress_dc.likes', 'a');
RESET ROLE;

--
-- The caller's cursors
--
SELECT todo('read');
SET ROLE regress_dc_caller;
BEGIN;
DECLARE mine CURSOR FOR SELECT i FROM secret ORDER BY i;
FETCH mine;
SELECT dc_incr('regress_dc.likes', 'a'), dc_apply();
FETCH mine;
SELECT name, statement FROM pg_cursors;
SAVEPOINT s;
FETCH mine;
SELECT dc_incr('regress_dc.likes', 'b'), dc_apply();
RELEASE SAVEPOINT s;
FETCH mine;
CLOSE mine;
COMMIT;
RESET ROLE;
SELECT * FROM log;
-- ... one that has failed: what is opened in its place, and in its memory, is new
SELECT todo('replace');
SET ROLE regress_dc_caller;
BEGIN;
DECLARE mine CURSOR FOR SELECT 1 / (i - 2) FROM secret ORDER BY i;
SAVEPOINT s;
FETCH 2 FROM mine;
ROLLBACK TO SAVEPOINT s;
SELECT dc_incr('regress_dc.likes', 'a'), dc_apply();
SELECT name FROM pg_cursors;
FETCH mine;
ROLLBACK;
RESET ROLE;
-- ... that of a loop, and one that stays when the loop's transactions end
SELECT todo('read');
SET ROLE regress_dc_caller;
DO $$
DECLARE
	r record;
	seen int[];
BEGIN
	FOR r IN SELECT i FROM secret ORDER BY i LOOP
		PERFORM dc_incr('regress_dc.likes', 'a'), dc_apply();
		seen := seen || r.i;
	END LOOP;
	RAISE NOTICE 'seen: %', seen;
	seen := NULL;
	FOR r IN SELECT i FROM secret ORDER BY i LOOP
		PERFORM dc_incr('regress_dc.likes', 'a');
		COMMIT;
		PERFORM dc_incr('regress_dc.likes', 'a'), dc_apply();
		seen := seen || r.i;
	END LOOP;
	RAISE NOTICE 'seen: %', seen;
END $$;
-- ... one of an earlier transaction
BEGIN;
DECLARE mine CURSOR WITH HOLD FOR SELECT i FROM secret ORDER BY i;
COMMIT;
FETCH mine;
SELECT dc_incr('regress_dc.likes', 'a');
FETCH mine;
BEGIN;
SELECT dc_incr('regress_dc.likes', 'a'), dc_apply();
ROLLBACK;
FETCH mine;
RESET ROLE;
SELECT DISTINCT what FROM regress_dc.log ORDER BY what;

--
-- Errors: what the transaction keeps is as it was
--
SELECT todo('raise');
SET ROLE regress_dc_caller;
BEGIN;
SELECT dc_incr('regress_dc.likes', 'a'), dc_apply();
ROLLBACK;
FETCH mine;
SELECT dc_incr('regress_dc.likes', 'a');
FETCH mine;
CLOSE mine;
BEGIN;
DECLARE before CURSOR FOR SELECT i FROM secret ORDER BY i;
DECLARE used CURSOR FOR SELECT i FROM secret ORDER BY i;
FETCH before;
SAVEPOINT s;
FETCH used;
DECLARE within CURSOR FOR SELECT i FROM secret ORDER BY i;
SELECT dc_incr('regress_dc.likes', 'a'), dc_apply();
ROLLBACK TO SAVEPOINT s;
SELECT name FROM pg_cursors ORDER BY name;
FETCH before;
FETCH used;
FETCH within;
ROLLBACK TO SAVEPOINT s;
CLOSE used;
CLOSE before;
COMMIT;
DO $$
DECLARE
	r record;
	seen int[];
BEGIN
	FOR r IN SELECT i FROM secret ORDER BY i LOOP
		BEGIN
			PERFORM dc_incr('regress_dc.likes', 'a'), dc_apply();
		EXCEPTION WHEN OTHERS THEN
			seen := seen || r.i;
		END;
	END LOOP;
	RAISE NOTICE 'seen: %', seen;
END $$;
RESET ROLE;
-- ... in the owner's code
SELECT todo('raise within');
SET ROLE regress_dc_caller;
BEGIN;
DECLARE mine CURSOR FOR SELECT i FROM secret ORDER BY i;
FETCH mine;
SELECT dc_incr('regress_dc.likes', 'a'), dc_apply();
SELECT dc_incr('regress_dc.likes', 'b'), dc_apply();
SELECT name FROM pg_cursors;
FETCH mine;
COMMIT;
RESET ROLE;
SELECT * FROM log;

--
-- Triggers that are put off until the commit would be done as the caller, or, by then, not at all
--
SET ROLE regress_dc_owner;
CREATE TABLE regress_dc.parent (i int PRIMARY KEY);
CREATE TABLE regress_dc.child (i int, CONSTRAINT child_fkey FOREIGN KEY (i) REFERENCES regress_dc.parent DEFERRABLE INITIALLY DEFERRED);
CREATE FUNCTION regress_dc.put_off() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO regress_dc.child VALUES (1);
	RETURN NEW;
END $$;
CREATE TRIGGER put_off BEFORE INSERT OR UPDATE ON regress_dc.likes_shard FOR EACH ROW EXECUTE FUNCTION regress_dc.put_off();
RESET ROLE;
SELECT todo('nothing');
SET ROLE regress_dc_caller;
SELECT dc_incr('regress_dc.likes', 'a');
BEGIN;
SELECT dc_incr('regress_dc.likes', 'a'), dc_apply();
ROLLBACK;
RESET ROLE;
ALTER TABLE regress_dc.child ALTER CONSTRAINT child_fkey DEFERRABLE INITIALLY IMMEDIATE;
CREATE OR REPLACE FUNCTION regress_dc.put_off() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	SET CONSTRAINTS ALL DEFERRED;
	INSERT INTO regress_dc.child VALUES (1);
	RETURN NEW;
END $$;
SET ROLE regress_dc_caller;
SELECT dc_incr('regress_dc.likes', 'a');
RESET ROLE;
SELECT count(*) FROM regress_dc.child;

DROP VIEW log;
DROP FUNCTION todo;
DROP TABLE secret;
SET client_min_messages = warning;
DROP OWNED BY regress_dc_owner, regress_dc_caller;
DROP ROLE regress_dc_owner, regress_dc_caller;
