-- Counters of distinct values of a source: dc_bind(..., distinct_of => ...)
\set VERBOSITY terse
CREATE TABLE visit (id int PRIMARY KEY, page text, visitor int, hidden bool NOT NULL DEFAULT false);
SELECT dc_create('visitors'), dc_create('visits');
SELECT dc_bind('visitors', 'visit', 'page', distinct_of => 'visitor', value => '2', build => 'none');
SELECT dc_bind('visitors', 'visit', 'page', distinct_of => 'visitor', filter => 'NOT hidden', build => 'none');
SELECT dc_bind('visits', 'visit', 'page', build => 'none');
\d visitors_ref
SELECT reloptions, pg_get_userbyid(relowner) = current_user AS own, obj_description(oid)
	FROM pg_class WHERE relname = 'visitors_ref';

-- what each page has, and whether counts, values and source agree
CREATE VIEW counted AS SELECT key, value FROM dc_get_many('visitors', ARRAY['a', 'b', 'c', 'd']) WHERE value <> 0;
CREATE VIEW visitors_all AS SELECT key, inc, dec FROM visitors UNION ALL SELECT key, inc, dec FROM visitors_shard;
CREATE VIEW differing AS
	SELECT 'count' AS of, key, item FROM (SELECT page AS key, visitor::text AS item, count(*) AS n FROM visit
			WHERE NOT hidden AND page IS NOT NULL AND visitor IS NOT NULL GROUP BY 1, 2) AS s
		FULL JOIN visitors_ref AS r USING (key, item) WHERE s.n IS DISTINCT FROM r.n
	UNION ALL
	SELECT 'value', key, NULL FROM (SELECT key, count(*) AS n FROM visitors_ref WHERE n > 0 GROUP BY key) AS r
		FULL JOIN (SELECT key, sum(inc - dec)::int8 AS n FROM visitors_all GROUP BY key) AS c USING (key)
		WHERE coalesce(r.n, 0) <> coalesce(c.n, 0);

-- an item counts once, as long as there is a row of it
INSERT INTO visit VALUES (1, 'a', 1), (2, 'a', 1), (3, 'a', 2), (4, 'b', 1), (5, NULL, 1), (6, 'b', NULL);
INSERT INTO visit VALUES (7, 'b', 7, true);
SELECT * FROM counted;
SELECT * FROM visitors_ref ORDER BY key, item;
DELETE FROM visit WHERE id = 1;
SELECT * FROM counted;
DELETE FROM visit WHERE id = 2;
SELECT * FROM counted;
SELECT * FROM visitors_ref ORDER BY key, item;

-- rows that move between keys, items, and from and to what is not counted
UPDATE visit SET page = 'c' WHERE id = 3;
UPDATE visit SET visitor = 5 WHERE id IN (3, 4);
UPDATE visit SET hidden = NOT hidden WHERE id IN (4, 7);
UPDATE visit SET visitor = 8 WHERE id = 6;
UPDATE visit SET page = NULL WHERE id = 3;
SELECT * FROM counted;
SELECT * FROM visitors_ref ORDER BY key, item;
INSERT INTO visit VALUES (7, 'd', 7) ON CONFLICT (id) DO UPDATE SET page = excluded.page, hidden = false;
SELECT * FROM counted;
SELECT * FROM differing;

-- a transaction sees what it has done itself, as all functions read it
BEGIN;
DELETE FROM visit;
INSERT INTO visit SELECT g, CASE WHEN g % 2 = 0 THEN 'a' ELSE 'b' END, g % 10 FROM generate_series(1, 100) AS g;
SELECT * FROM counted;
SELECT dc_get('visitors', 'a'), dc_sum('visitors'), value, inc, dec, updated_at IS NOT NULL AS changed FROM dc_info('visitors', 'a');
SELECT count(*) FROM visitors_ref WHERE key = 'a';
SAVEPOINT s;
DELETE FROM visit WHERE visitor = 4;
INSERT INTO visit VALUES (200, 'c', 1);
SELECT * FROM counted;
SAVEPOINT t;
INSERT INTO visit VALUES (201, 'd', 1), (202, 'd', 2);
-- written early, also what is of the levels above
SELECT dc_apply();
SELECT key, count(*), sum(n) FROM visitors_ref GROUP BY key ORDER BY key;
DELETE FROM visit WHERE id = 201;
SELECT * FROM counted;
ROLLBACK TO t;
-- that is gone, and pending again
SELECT key, count(*), sum(n) FROM visitors_ref GROUP BY key ORDER BY key;
SELECT * FROM counted;
INSERT INTO visit VALUES (203, 'd', 3);
SELECT dc_apply();
RELEASE s;
SELECT * FROM counted;
INSERT INTO visit VALUES (204, 'd', 4);
SELECT * FROM counted;
COMMIT;
SELECT * FROM counted;
SELECT key, count(*), sum(n) FROM visitors_ref GROUP BY key ORDER BY key;
SELECT * FROM differing;
-- nothing net, nothing written
CREATE TABLE before AS SELECT ctid AS tid, xmin::text AS xid, * FROM visitors_ref;
BEGIN;
INSERT INTO visit VALUES (300, 'a', 1), (301, 'e', 1);
DELETE FROM visit WHERE id >= 300;
COMMIT;
SELECT count(*) FROM (SELECT ctid AS tid, xmin::text AS xid, * FROM visitors_ref EXCEPT TABLE before) AS changed;
DROP TABLE before;

-- released and rolled back savepoints, early writes in each place
CREATE PROCEDURE levels() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..60 LOOP
		INSERT INTO visit VALUES (1000 + i * 10, 'a', i), (1001 + i * 10, 'a', i % 7);
		IF i % 5 = 0 THEN PERFORM dc_apply(); END IF;
		BEGIN
			INSERT INTO visit VALUES (1002 + i * 10, 'b', i), (1003 + i * 10, 'c', i % 3);
			IF i % 4 = 0 THEN PERFORM dc_apply(); END IF;
			BEGIN
				DELETE FROM visit WHERE visitor = i % 11;
				IF i % 3 = 0 THEN PERFORM dc_apply(); END IF;
				INSERT INTO visit VALUES (1004 + i * 10, 'd', i % 4);
				IF i % 2 = 0 THEN RAISE 'undo'; END IF;
			EXCEPTION WHEN raise_exception THEN
				INSERT INTO visit VALUES (1005 + i * 10, 'd', i % 5);
			END;
			IF i % 7 = 0 THEN RAISE 'undo'; END IF;
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
		IF i % 20 = 0 THEN COMMIT; END IF;
	END LOOP;
END$$;
CALL levels();
SELECT * FROM counted;
SELECT * FROM differing;
DROP PROCEDURE levels;

-- what does not fit into memory is made less, or written early
SET dcounter.pending_memory = '64kB';
BEGIN;
INSERT INTO visit SELECT 10000 + g, 'a', g % 50 FROM generate_series(1, 20000) AS g;
SELECT max(n) < 100 AS less FROM visitors_ref;
INSERT INTO visit SELECT 40000 + g, 'x' || g % 5, g FROM generate_series(1, 5000) AS g;
SELECT count(*) BETWEEN 3000 AND 5100 AS early FROM visitors_ref;
SAVEPOINT s;
INSERT INTO visit SELECT 50000 + g, 'y' || g % 5, g FROM generate_series(1, 5000) AS g;
SELECT dc_get('visitors', 'y1'), dc_get('visitors', 'x1');
ROLLBACK TO s;
SELECT dc_get('visitors', 'y1'), dc_get('visitors', 'x1');
COMMIT;
RESET dcounter.pending_memory;
SELECT dc_get('visitors', 'x1'), dc_get('visitors', 'a');
SELECT * FROM differing;

-- counts may be below zero while rows of before are not counted
CREATE TABLE old_visit (page text, visitor int);
INSERT INTO old_visit VALUES ('a', 1), ('a', 1), ('a', 2);
SELECT dc_create('old_visitors');
SELECT dc_bind('old_visitors', 'old_visit', 'page', distinct_of => 'visitor', build => 'none');
DELETE FROM old_visit WHERE visitor = 1;
INSERT INTO old_visit VALUES ('a', 2);
TABLE old_visitors_ref;
SELECT dc_get('old_visitors', 'a');
INSERT INTO old_visit VALUES ('a', 1);
TABLE old_visitors_ref;
SELECT dc_get('old_visitors', 'a');
INSERT INTO old_visit VALUES ('a', 1), ('a', 1);
SELECT * FROM old_visitors_ref ORDER BY item;
SELECT dc_get('old_visitors', 'a');

-- long keys and items
INSERT INTO old_visit SELECT repeat('k', 1024), 1;
SELECT dc_get('old_visitors', repeat('k', 1024));
INSERT INTO old_visit SELECT repeat('k', 1025), 1;
CREATE TABLE long_visit (page text, visitor text);
SELECT dc_create('long_visitors');
SELECT dc_bind('long_visitors', 'long_visit', 'page', distinct_of => 'visitor', build => 'none');
INSERT INTO long_visit SELECT string_agg(md5(g::text), ''), string_agg(md5((g + 100)::text), '') FROM generate_series(1, 32) AS g;
INSERT INTO long_visit SELECT 'k', repeat('i', 1025);
INSERT INTO long_visit VALUES ('', ''), ('', 'x'), ('a', 'bc'), ('ab', 'c');
SELECT dc_sum('long_visitors'), dc_get('long_visitors', ''), dc_get('long_visitors', 'a'), dc_get('long_visitors', 'ab');

-- rows that come while deltas are being written: code of an owner
SELECT dc_create('other');
CREATE FUNCTION visit_again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.visit SELECT max(id) + 1, 'w', 1 FROM public.visit;
	INSERT INTO public.visit SELECT max(id) + 1, 'w', 2 FROM public.visit;
	RETURN NULL;
END$$;
CREATE TRIGGER again AFTER INSERT ON other_shard FOR EACH ROW EXECUTE FUNCTION visit_again();
BEGIN;
SELECT dc_incr_many('other', ARRAY['x', 'y', 'z']);
INSERT INTO visit VALUES (0, 'v', 1);
SELECT dc_incr('other', 'u');
COMMIT;
SELECT dc_get('visitors', 'v'), dc_get('visitors', 'w'), dc_get('visits', 'v'), dc_get('visits', 'w'), dc_sum('other');
SELECT * FROM differing;
DROP FUNCTION visit_again CASCADE;
-- and while counts are
CREATE FUNCTION visit_more() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.key < 'zzzz' THEN
		INSERT INTO public.visit SELECT max(id) + 1, NEW.key || 'z', 1 FROM public.visit;
	END IF;
	RETURN NULL;
END$$;
CREATE TRIGGER more AFTER INSERT ON visitors_ref FOR EACH ROW EXECUTE FUNCTION visit_more();
INSERT INTO visit VALUES (-1, 'z', 1);
SELECT key, value FROM dc_get_many('visitors', ARRAY['z', 'zz', 'zzz', 'zzzz', 'zzzzz']);
SELECT * FROM differing;
DROP FUNCTION visit_more CASCADE;

-- an owner who keeps counts from being written, or changes the table
CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
CREATE FUNCTION elsewhere() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.item = 'y'; RETURN NEW; END$$;
CREATE TRIGGER never BEFORE INSERT ON visitors_ref FOR EACH ROW EXECUTE FUNCTION never();
INSERT INTO visit VALUES (-2, 'a', 1001);
DROP TRIGGER never ON visitors_ref;
CREATE TRIGGER never BEFORE INSERT ON visitors_ref FOR EACH ROW EXECUTE FUNCTION elsewhere();
INSERT INTO visit VALUES (-2, 'a', 1001);
DROP FUNCTION never, elsewhere CASCADE;
CREATE RULE never AS ON INSERT TO visitors_ref DO INSTEAD NOTHING;
INSERT INTO visit VALUES (-2, 'a', 1001);
DROP RULE never ON visitors_ref;
BEGIN;
ALTER TABLE visitors_ref DROP CONSTRAINT visitors_ref_pkey;
INSERT INTO visit VALUES (-2, 'a', 1001);
COMMIT;
BEGIN;
DROP VIEW differing;
ALTER TABLE visitors_ref ALTER n TYPE int4;
INSERT INTO visit VALUES (-2, 'a', 1001);
SELECT dc_get('visitors', 'a');
ROLLBACK;
BEGIN;
ALTER TABLE visitors_ref SET UNLOGGED;
INSERT INTO visit VALUES (-2, 'a', 1001);
COMMIT;
-- what is compatible may be added
ALTER TABLE visitors_ref ADD note text DEFAULT 'x';
INSERT INTO visit VALUES (-2, 'a', 1001);
SELECT * FROM visitors_ref WHERE item = '1001' AND key = 'a';
SELECT * FROM differing;
-- a count that leaves bigint
UPDATE visitors_ref SET n = 9223372036854775807 WHERE item = '1001' AND key = 'a';
INSERT INTO visit VALUES (-3, 'a', 1001);
UPDATE visitors_ref SET n = 1 WHERE item = '1001' AND key = 'a';

-- no rights are needed to count, and rows run as the owner of the counter
CREATE ROLE bound_visitor;
GRANT INSERT, DELETE, SELECT ON visit TO bound_visitor;
CREATE TABLE ran (who name);
CREATE FUNCTION ran() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.ran VALUES (current_user); RETURN NULL; END$$;
CREATE TRIGGER ran AFTER INSERT ON visitors_ref FOR EACH ROW EXECUTE FUNCTION ran();
SET ROLE bound_visitor;
INSERT INTO visit VALUES (-4, 'a', 1002);
SELECT * FROM visitors_ref;
RESET ROLE;
SELECT who = current_user AS owner FROM ran;
DROP FUNCTION ran CASCADE;
DROP TABLE ran;
-- in a transaction that was declared read-only since
BEGIN;
INSERT INTO visit VALUES (-5, 'a', 1003);
SET TRANSACTION READ ONLY;
SELECT dc_get('visitors', 'a') - (SELECT count(*) FROM visitors_ref WHERE key = 'a') AS mine;
COMMIT;
SELECT * FROM differing;
-- in a parallel plan, whose leader has them
CREATE TABLE many AS SELECT g FROM generate_series(1, 20000) AS g;
ANALYZE many;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
BEGIN;
INSERT INTO visit VALUES (-6, 'p', 1), (-7, 'p', 2);
SELECT count(*), max(dc_get('visitors', 'p')) FROM many;
ROLLBACK;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
DROP TABLE many;

-- unbound in the transaction that has changed rows: these count
DROP VIEW counted, differing, visitors_all;
BEGIN;
INSERT INTO visit VALUES (-8, 'u', 1), (-9, 'u', 2);
SELECT dc_unbind('visitors');
COMMIT;
SELECT dc_get('visitors', 'u'), dc_get('visits', 'u'), to_regclass('visitors_ref') IS NULL AS gone;

-- what there was before is built, in one transaction and in chunks; what is changed where triggers
-- do not fire is found and repaired, even if it has not changed a value yet
CREATE TABLE seen (page text, visitor int);
INSERT INTO seen SELECT 'p' || g % 7, g % 30 FROM generate_series(1, 1000) AS g;
INSERT INTO seen VALUES ('p1', NULL), (NULL, 1), ('once', 1), ('twice', 1), ('twice', 1);
SELECT dc_create('seen_n');
SELECT dc_bind('seen_n', 'seen', 'page', distinct_of => 'visitor', build => 'none');
SELECT count(*), sum(drift) FROM dc_source_check('seen_n');
DELETE FROM seen WHERE page = 'p2' AND visitor < 10;
INSERT INTO seen VALUES ('p2', 77), ('p2', 3), ('twice', 2);
SELECT count(*), sum(drift) FROM dc_source_check('seen_n');
CALL dc_build('seen_n', 10);
SELECT * FROM dc_source_check('seen_n');
SELECT dc_sum('seen_n') = (SELECT count(DISTINCT (page, visitor)) FROM seen WHERE page IS NOT NULL AND visitor IS NOT NULL) AS right,
	(SELECT count(*) FROM (SELECT page, visitor::text, count(*) FROM seen WHERE page IS NOT NULL AND visitor IS NOT NULL GROUP BY 1, 2 EXCEPT SELECT key, item, n FROM seen_n_ref) AS d) AS differing;
SET session_replication_role = replica;
INSERT INTO seen VALUES ('once', 1), ('p3', 501), ('new', 1);
DELETE FROM seen WHERE page = 'p4' AND visitor = 4;
RESET session_replication_role;
SELECT * FROM dc_source_check('seen_n') ORDER BY key;
SELECT * FROM dc_source_check('seen_n', keys => '{once,p3,p5}') ORDER BY key;
-- in the transaction that has changed rows, too, and with what it has not written yet
BEGIN;
DELETE FROM seen WHERE page = 'p5' AND visitor % 2 = 0;
INSERT INTO seen VALUES ('p5', 1000);
SELECT * FROM dc_source_check('seen_n') ORDER BY key;
SELECT * FROM dc_source_fix('seen_n', '{once,p3,p5}') ORDER BY key;
COMMIT;
SELECT * FROM dc_source_check('seen_n') ORDER BY key;
DELETE FROM seen WHERE page = 'once' AND ctid = (SELECT min(ctid) FROM seen WHERE page = 'once');
SELECT dc_get('seen_n', 'once');
-- a value, or counts, that the owner has written
UPDATE seen_n_ref SET n = n + 1 WHERE key = 'p6';
DELETE FROM seen_n_ref WHERE key = 'p0';
UPDATE seen_n SET inc = inc + 5 WHERE key = 'p1';
SELECT * FROM dc_source_check('seen_n') ORDER BY key;
CALL dc_build('seen_n');
SELECT * FROM dc_source_check('seen_n');
SELECT count(*) FROM (SELECT page, visitor::text, count(*) FROM seen WHERE page IS NOT NULL AND visitor IS NOT NULL GROUP BY 1, 2 EXCEPT SELECT key, item, n FROM seen_n_ref) AS differing;
-- TRUNCATE, also with what is not written yet, and rolled back
BEGIN;
INSERT INTO seen VALUES ('p1', 2001);
TRUNCATE seen;
INSERT INTO seen VALUES ('p1', 2001), ('p1', 2002);
SELECT dc_get('seen_n', 'p1'), dc_sum('seen_n');
SELECT * FROM seen_n_ref;
ROLLBACK;
SELECT * FROM dc_source_check('seen_n');
BEGIN;
INSERT INTO seen VALUES ('p1', 2001);
SAVEPOINT s;
TRUNCATE seen;
INSERT INTO seen VALUES ('p1', 2001);
ROLLBACK TO s;
INSERT INTO seen VALUES ('p1', 2003);
COMMIT;
SELECT * FROM dc_source_check('seen_n');
TRUNCATE seen;
SELECT dc_sum('seen_n'), count(*) FROM seen_n_ref;
INSERT INTO seen VALUES ('p1', 1);
SELECT dc_sum('seen_n'), (SELECT count(*) FROM seen_n_ref), (SELECT count(*) FROM dc_source_check('seen_n'));
-- in the middle of a statement that writes counts, by code of the owner
CREATE FUNCTION truncating() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN TRUNCATE public.seen; RETURN NULL; END$$;
CREATE TRIGGER truncating AFTER INSERT ON seen_n_ref FOR EACH ROW EXECUTE FUNCTION truncating();
INSERT INTO seen VALUES ('p1', 5), ('p2', 5);
DROP FUNCTION truncating CASCADE;
SELECT * FROM dc_source_check('seen_n');

-- what depends on the table of counts goes with it, if the command says so
CREATE VIEW depends AS SELECT * FROM seen_n_ref;
DROP TABLE seen_n;
DROP TABLE seen_n CASCADE;
SELECT to_regclass('seen_n_ref'), (SELECT count(*) FROM dcounter.source WHERE source = 'seen'::regclass);

-- a table of counts that was restored with its counter
SELECT dc_create('restored');
CREATE TABLE restored_ref ();
\set VERBOSITY default
SELECT dc_bind('restored', 'visit', 'page', distinct_of => 'visitor', build => 'none');
\set VERBOSITY terse
DROP TABLE restored_ref;
SELECT dc_bind('restored', 'visit', 'page', distinct_of => 'visitor', build => 'none');
SELECT dc_drop('restored');

DROP TABLE visit, old_visit, long_visit, seen;
SELECT dc_drop('visitors'), dc_drop('visits'), dc_drop('old_visitors'), dc_drop('long_visitors'), dc_drop('other');
DROP ROLE bound_visitor;
