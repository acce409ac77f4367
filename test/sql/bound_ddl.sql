-- DDL on sources and on bound counter tables: TRUNCATE, partitions, drops, renames, triggers, owners
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE SCHEMA bd;
SET search_path = bd, public;

-- By what keys a bound counter table differs from its source, which is what it is all about: no row
CREATE FUNCTION drift(counter regclass) RETURNS TABLE (key text, source numeric, value numeric) LANGUAGE plpgsql AS $$
DECLARE
	b dcounter.source;
BEGIN
	PERFORM dc_apply();
	SELECT * INTO STRICT b FROM dcounter.source AS s WHERE s.counter = drift.counter;
	RETURN QUERY EXECUTE format('SELECT coalesce(a.k, b.k), coalesce(a.v, 0), coalesce(b.v, 0)
		FROM (SELECT u.k, sum(u.v) AS v FROM (SELECT CASE jsonb_array_length(jsonb_build_array(%1$s)) WHEN 1 THEN jsonb_build_array(%1$s) ->> 0 ELSE jsonb_build_array(%1$s)::text END,
			(%2$s)::numeric FROM %3$s WHERE num_nulls(%1$s) = 0 AND %4$s %5$s) AS u (k, v) GROUP BY 1) AS a
		FULL JOIN (SELECT u.k, sum(u.v) AS v FROM (SELECT t.key, t.inc - t.dec FROM %6$s AS t UNION ALL SELECT t.key, t.inc - t.dec FROM %7$s AS t) AS u (k, v)
			GROUP BY 1) AS b ON b.k = a.k
		WHERE coalesce(a.v, 0) <> coalesce(b.v, 0) ORDER BY 1',
		b.key, b.value, CASE (SELECT relkind FROM pg_class WHERE oid = b.source) WHEN 'r' THEN 'ONLY ' ELSE '' END || b.source::text,
		coalesce(b.filter, 'true'), 'UNION ALL SELECT key, amount FROM ' || b.carried,
		b.counter, (SELECT shards FROM dcounter.counter AS c WHERE c.counter = drift.counter));
END $$;
-- The same for all bound counters, with their states
CREATE FUNCTION drifts() RETURNS TABLE (counter regclass, state text, key text, source numeric, value numeric) LANGUAGE sql AS
	'SELECT s.counter, t.state, d.* FROM dcounter.source AS s JOIN dcounter.source_state AS t USING (counter) LEFT JOIN LATERAL drift(s.counter) AS d ON true ORDER BY s.counter::text';

-- TRUNCATE of a plain table: all values become 0, whatever they were
CREATE TABLE likes (id int, post int, amount int);
SELECT dc_create('n');
SELECT dc_create('total');
INSERT INTO likes VALUES (1, 1, 10), (2, 1, 5), (3, 2, -7);
SELECT dc_bind('n', 'likes', 'post', build => 'none');
SELECT dc_bind('total', 'likes', 'post', value => 'amount', filter => 'id <> 3', build => 'none');
INSERT INTO likes VALUES (4, 1, 10), (5, 3, -5), (6, NULL, 1);
SELECT * FROM drifts();
SELECT dc_compact('n') >= 0;
BEGIN;
INSERT INTO likes VALUES (7, 1, 100), (8, 4, 1);
SAVEPOINT s;
TRUNCATE likes;
SELECT * FROM drifts();
INSERT INTO likes VALUES (9, 9, 9);
SELECT * FROM drifts();
SELECT dc_get('n', '9'), dc_get('n', '1'), dc_get('total', '1');
ROLLBACK TO s;
SELECT * FROM drifts();
COMMIT;
SELECT * FROM drifts();
TRUNCATE likes RESTART IDENTITY;
SELECT * FROM drifts();
INSERT INTO likes VALUES (1, 1, 10), (2, 1, 5);
SELECT * FROM drifts();
-- An empty one, one that is truncated twice, and under REPEATABLE READ what the snapshot does not show
TRUNCATE likes;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM likes;
INSERT INTO likes VALUES (1, 1, 10);
TRUNCATE likes;
INSERT INTO likes VALUES (1, 1, 10);
TRUNCATE likes;
INSERT INTO likes VALUES (2, 2, 20);
COMMIT;
SELECT * FROM drifts();
-- Within a function that a statement on the same table calls the server refuses it
CREATE FUNCTION truncating() RETURNS int LANGUAGE plpgsql AS $$ BEGIN TRUNCATE bd.likes; RETURN 1; END $$;
INSERT INTO likes SELECT truncating(), 1, 1;
-- A trigger that is called before ours, and inserts a row which is truncated as well
CREATE FUNCTION inserts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO bd.likes VALUES (1, 1, 1); RETURN NULL; END $$;
CREATE TRIGGER a_before BEFORE TRUNCATE ON likes FOR EACH STATEMENT EXECUTE FUNCTION inserts();
TRUNCATE likes;
SELECT * FROM drifts();
DROP TRIGGER a_before ON likes;
CREATE TRIGGER z_after AFTER TRUNCATE ON likes FOR EACH STATEMENT EXECUTE FUNCTION inserts();
TRUNCATE likes;
SELECT * FROM drifts();
SELECT dc_get('n', 1);
DROP TRIGGER z_after ON likes;
-- One that is called after ours and before the rows go: what it changes would be counted, and vanish. After a
-- roll-back, and in a table that is emptied in place, rows can be changed again
CREATE TRIGGER z_before BEFORE TRUNCATE ON likes FOR EACH STATEMENT EXECUTE FUNCTION inserts();
TRUNCATE likes;
BEGIN;
SAVEPOINT a;
TRUNCATE likes;
ROLLBACK TO a;
INSERT INTO likes VALUES (3, 3, 3);
COMMIT;
SELECT * FROM drifts();
DROP TRIGGER z_before ON likes;
BEGIN;
TRUNCATE likes;
TRUNCATE likes;
INSERT INTO likes VALUES (3, 3, 3);
SAVEPOINT a;
TRUNCATE likes;
INSERT INTO likes VALUES (4, 4, 4);
ROLLBACK TO a;
INSERT INTO likes VALUES (5, 5, 5);
COMMIT;
SELECT * FROM drifts();
-- By a role that may truncate the source, and has no right to the counters
CREATE ROLE regress_bd_other;
GRANT USAGE ON SCHEMA bd TO regress_bd_other;
GRANT TRUNCATE, INSERT ON likes TO regress_bd_other;
SET ROLE regress_bd_other;
INSERT INTO likes VALUES (1, 1, 1);
TRUNCATE likes;
RESET ROLE;
SELECT * FROM drifts();
-- Within a restricted operation, while amounts are being written: refused
CREATE FUNCTION truncates() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN TRUNCATE bd.likes; RETURN NULL; END $$;
CREATE TRIGGER hostile AFTER INSERT OR UPDATE ON total FOR EACH ROW EXECUTE FUNCTION truncates();
CREATE TRIGGER hostile AFTER INSERT OR UPDATE ON total_shard FOR EACH ROW EXECUTE FUNCTION truncates();
INSERT INTO likes VALUES (1, 1, 1);
DROP TRIGGER hostile ON total;
DROP TRIGGER hostile ON total_shard;
SELECT * FROM drifts();
-- Two at once, and CASCADE
CREATE TABLE posts (id int PRIMARY KEY);
CREATE TABLE fans (id int PRIMARY KEY, post int REFERENCES posts);
SELECT dc_create('fans_n');
SELECT dc_bind('fans_n', 'fans', 'post');
INSERT INTO posts VALUES (1), (2);
INSERT INTO fans VALUES (1, 1), (2, 1), (3, 2);
TRUNCATE posts CASCADE;
SELECT * FROM drifts();
INSERT INTO posts VALUES (1), (2);
INSERT INTO fans VALUES (1, 1), (2, 1), (3, 2);
TRUNCATE fans, likes;
SELECT * FROM drifts();
-- A trigger with the function that is not ours does nothing a second time; in another place it is refused
INSERT INTO fans VALUES (1, 1);
CREATE TRIGGER again BEFORE TRUNCATE ON fans FOR EACH STATEMENT EXECUTE FUNCTION dcounter.source_truncate();
CREATE TRIGGER again_row AFTER INSERT ON fans FOR EACH ROW EXECUTE FUNCTION dcounter.source_row();
INSERT INTO fans VALUES (2, 1);
SELECT * FROM drift('fans_n');
TRUNCATE fans;
SELECT * FROM drift('fans_n');
DROP TRIGGER again ON fans;
DROP TRIGGER again_row ON fans;
CREATE TABLE alone (a int);
CREATE TRIGGER wrong AFTER TRUNCATE ON alone FOR EACH STATEMENT EXECUTE FUNCTION dcounter.source_truncate();
TRUNCATE alone;
CREATE OR REPLACE TRIGGER wrong BEFORE TRUNCATE ON alone FOR EACH STATEMENT EXECUTE FUNCTION dcounter.source_truncate();
TRUNCATE alone;
SELECT dcounter.source_truncate();
-- The counter itself is not to be truncated while it is bound, nor its shard table
TRUNCATE n;
TRUNCATE n_shard;
SELECT dc_unbind('fans_n');
TRUNCATE fans_n;
DROP TABLE fans, posts, alone;
SELECT dc_drop('fans_n');

-- Partitions: of a tree of several levels, with columns in another order
CREATE TABLE ev (region text, id int, k int, v int) PARTITION BY LIST (region);
CREATE TABLE ev_a PARTITION OF ev FOR VALUES IN ('a');
CREATE TABLE ev_b PARTITION OF ev FOR VALUES IN ('b') PARTITION BY RANGE (k);
SELECT dc_create('cut');
SELECT dc_create('kept');
SELECT dc_bind('cut', 'ev', 'k', value => 'v');
SELECT dc_bind('kept', 'ev', 'region, k', on_detach => 'keep');
CREATE TABLE ev_b1 PARTITION OF ev_b FOR VALUES FROM (0) TO (10);
CREATE SCHEMA bd2 CREATE TABLE ev_b2 PARTITION OF bd.ev_b FOR VALUES FROM (10) TO (20);
CREATE TABLE ev_c (dropped int, v int, k int, id int, region text);
ALTER TABLE ev_c DROP COLUMN dropped;
SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger WHERE tgname ~ 'dcounter_source' AND tgrelid::regclass::text ~ 'ev' ORDER BY tgrelid::regclass::text COLLATE "C", tgname;
INSERT INTO ev SELECT CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END, i, i % 20, i FROM generate_series(1, 100) AS i;
INSERT INTO ev_c SELECT i, i % 3, i, 'c' FROM generate_series(1, 50) AS i;
CREATE VIEW state AS SELECT * FROM drifts() WHERE counter::text IN ('cut', 'kept');
SELECT * FROM state;
ALTER TABLE ev ATTACH PARTITION ev_c FOR VALUES IN ('c');
SELECT * FROM state;
INSERT INTO ev_c (k, region, v) VALUES (1, 'c', 1000);
INSERT INTO ev VALUES ('c', 1, 2, 1000);
UPDATE ev SET region = 'b', k = 11 WHERE region = 'c' AND k = 2;
SELECT * FROM state;
-- TRUNCATE of a partition, of a subtree, of several, of all
BEGIN;
TRUNCATE ev_c;
SELECT * FROM state;
TRUNCATE ev_b;
SELECT * FROM state;
SAVEPOINT s;
TRUNCATE ev_a, ev;
SELECT * FROM state;
ROLLBACK TO s;
TRUNCATE ev, ev_a;
SELECT * FROM state;
INSERT INTO ev VALUES ('c', 1, 2, 1000);
TRUNCATE ev_c, bd2.ev_b2;
SELECT * FROM state;
SELECT sum(inc - dec) FROM (SELECT inc, dec FROM cut UNION ALL SELECT inc, dec FROM cut_shard) AS u;
ROLLBACK;
SELECT * FROM state;
-- Another trigger with the function subtracts nothing
BEGIN;
CREATE TRIGGER again BEFORE TRUNCATE ON ev_c FOR EACH STATEMENT EXECUTE FUNCTION dcounter.source_truncate();
TRUNCATE ev_c;
SELECT * FROM state;
ROLLBACK;
-- As a subscription does it: those that are not replicated keep what they have
SET session_replication_role = replica;
BEGIN;
TRUNCATE ev_c;
SELECT count(*) > 0 FROM drift('cut');
ROLLBACK;
RESET session_replication_role;
-- DETACH: subtracted, or carried over
ALTER TABLE ev DETACH PARTITION ev_a;
SELECT * FROM state;
SELECT key, amount FROM kept_carried ORDER BY key COLLATE "C" LIMIT 3;
SELECT tgname FROM pg_trigger WHERE tgrelid = 'ev_a'::regclass;
INSERT INTO ev_a SELECT * FROM ev_a;
SELECT * FROM state;
ALTER TABLE ev_b DETACH PARTITION ev_b1;
SELECT * FROM state;
-- Of a partition that has partitions
BEGIN;
ALTER TABLE ev DETACH PARTITION ev_b;
SELECT * FROM state;
SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgrelid IN ('ev_b'::regclass, 'bd2.ev_b2'::regclass) ORDER BY 1, 2;
ALTER TABLE ev ATTACH PARTITION ev_b FOR VALUES IN ('b');
SELECT * FROM state;
ROLLBACK;
SELECT * FROM state;
ALTER TABLE ev DETACH PARTITION ev_c CONCURRENTLY;
SELECT * FROM state;
ALTER TABLE ev ATTACH PARTITION ev_c FOR VALUES IN ('c');
SELECT * FROM state;
-- What is carried over stays when all is truncated
TRUNCATE ev;
SELECT * FROM state;
SELECT sum(amount) = (SELECT sum(u.v) FROM (SELECT inc - dec FROM kept UNION ALL SELECT inc - dec FROM kept_shard) AS u (v)) FROM kept_carried;
SELECT sum(u.v) FROM (SELECT inc - dec FROM cut UNION ALL SELECT inc - dec FROM cut_shard) AS u (v);
-- The table of it belongs to the counter
ALTER TABLE kept RENAME TO held;
ALTER TABLE held SET SCHEMA bd2;
SELECT carried, source FROM dcounter.source WHERE counter = 'bd2.held'::regclass;
DROP TABLE bd2.held_carried;
ALTER TABLE bd2.held SET SCHEMA bd;
ALTER TABLE held RENAME TO kept;
SELECT carried FROM dcounter.source WHERE counter = 'kept'::regclass;
INSERT INTO ev VALUES ('c', 1, 2, 1000);
-- What cannot be attached
CREATE UNLOGGED TABLE ev_d (LIKE ev);
ALTER TABLE ev ATTACH PARTITION ev_d FOR VALUES IN ('d');
CREATE UNLOGGED TABLE ev_e PARTITION OF ev FOR VALUES IN ('e');
CREATE FOREIGN DATA WRAPPER bd_none;
CREATE SERVER bd_none FOREIGN DATA WRAPPER bd_none;
CREATE FOREIGN TABLE ev_f PARTITION OF ev FOR VALUES IN ('f') SERVER bd_none;
CREATE FOREIGN TABLE ev_f (region text, id int, k int, v int) SERVER bd_none;
ALTER TABLE ev ATTACH PARTITION ev_f FOR VALUES IN ('f');
DROP FOREIGN DATA WRAPPER bd_none CASCADE;
-- A function that a statement calls which changes the same partition
CREATE FUNCTION detaching() RETURNS int LANGUAGE plpgsql AS $$ BEGIN ALTER TABLE bd.ev DETACH PARTITION bd.ev_c; RETURN 1; END $$;
INSERT INTO ev_c (k, region) SELECT detaching(), 'c';
CREATE FUNCTION attaching() RETURNS int LANGUAGE plpgsql AS $$ BEGIN ALTER TABLE bd.ev ATTACH PARTITION bd.ev_a FOR VALUES IN ('a'); RETURN 1; END $$;
INSERT INTO ev_a (region, k) SELECT 'a', attaching();
SELECT * FROM state;
-- DROP of a partition is refused, by whatever way, unless all goes
DROP TABLE ev_c;
DROP TABLE ev_b;
DROP SCHEMA bd2 CASCADE;
DROP TABLE ev_c, bd2.ev_b2;
CREATE ROLE regress_bd_owner;
ALTER TABLE ev_c OWNER TO regress_bd_owner;
DROP OWNED BY regress_bd_owner;
SELECT * FROM state;
BEGIN;
DROP TABLE ev_c, ev;
SELECT count(*) FROM dcounter.source;
ROLLBACK;
ALTER TABLE ev DETACH PARTITION ev_c;
DROP TABLE ev_c;
SELECT * FROM state;
-- A column in use; the type of one; and the source itself
ALTER TABLE ev DROP COLUMN v;
\set VERBOSITY terse
ALTER TABLE ev ALTER COLUMN v TYPE bigint;
\set VERBOSITY default
ALTER TABLE ev ALTER COLUMN id TYPE bigint;
BEGIN;
ALTER TABLE ev DROP COLUMN v CASCADE;
INSERT INTO ev VALUES ('b', 1, 12);
SELECT * FROM drifts();
SELECT tgname FROM pg_trigger WHERE tgrelid = 'bd2.ev_b2'::regclass ORDER BY 1;
ALTER TABLE ev DROP COLUMN k CASCADE;
ROLLBACK;
DROP TABLE ev;
SELECT * FROM drifts();
SELECT to_regclass('kept_carried'), to_regclass('kept');
SELECT dc_incr('kept', 'x');
DROP TABLE cut, kept, ev_a, ev_b1;
DROP SCHEMA bd2;

-- Distinct values: their reference counts follow
CREATE TABLE visits (page int, who int, day int) PARTITION BY LIST (day);
CREATE TABLE visits1 PARTITION OF visits FOR VALUES IN (1);
CREATE TABLE visits2 (LIKE visits);
SELECT dc_create('people');
SELECT dc_bind('people', 'visits', 'page', distinct_of => 'who', on_detach => 'keep');
SELECT dc_bind('people', 'visits', 'page', distinct_of => 'who');
CREATE VIEW counted AS SELECT page, count(DISTINCT who), dc_get('people', page) FROM visits GROUP BY 1 ORDER BY 1;
CREATE VIEW counts AS SELECT key, item, n FROM people_ref ORDER BY 1, 2;
INSERT INTO visits VALUES (1, 1, 1), (1, 1, 1), (1, 2, 1), (2, 1, 1);
INSERT INTO visits2 VALUES (1, 1, 2), (1, 3, 2), (3, 1, 2);
ALTER TABLE visits ATTACH PARTITION visits2 FOR VALUES IN (2);
SELECT * FROM counted;
SELECT * FROM counts;
BEGIN;
TRUNCATE visits1;
SELECT * FROM counted;
SELECT dc_get('people', 2);
SELECT dc_apply();
SELECT * FROM counts;
ROLLBACK;
BEGIN;
INSERT INTO visits VALUES (1, 7, 1);
TRUNCATE visits;
INSERT INTO visits VALUES (1, 7, 1);
SELECT * FROM counted;
SELECT dc_get('people', 2);
COMMIT;
SELECT * FROM counted;
SELECT * FROM counts;
INSERT INTO visits VALUES (1, 7, 2), (1, 8, 2);
ALTER TABLE visits DETACH PARTITION visits2;
SELECT * FROM counted;
SELECT * FROM counts;
ALTER TABLE people RENAME TO folk;
SELECT refs FROM dcounter.source WHERE counter = 'folk'::regclass;
BEGIN;
DROP TABLE folk_ref CASCADE;
ROLLBACK;
DROP VIEW counted, counts;
DROP TABLE folk;
SELECT to_regclass('folk_ref');
DROP TABLE visits, visits2;

-- Children by inheritance are not part of the source
CREATE TABLE parent (k int);
CREATE TABLE child () INHERITS (parent);
SELECT dc_create('inh');
SELECT dc_bind('inh', 'parent', 'k');
DROP TABLE child;
SELECT dc_bind('inh', 'parent', 'k');
-- and none can be made, nor a table become one
CREATE TABLE child () INHERITS (parent);
CREATE TABLE child (k int);
ALTER TABLE child INHERIT parent;
CREATE TABLE grandchild () INHERITS (child);
INSERT INTO parent VALUES (2);
SELECT * FROM drift('inh');
TRUNCATE parent;
SELECT * FROM drift('inh');
CREATE TABLE grandparent (k int);
ALTER TABLE parent INHERIT grandparent;
INSERT INTO parent VALUES (2);
TRUNCATE grandparent;
SELECT * FROM drift('inh');
ALTER TABLE grandparent RENAME COLUMN k TO kk;
SELECT key FROM dcounter.source WHERE counter = 'inh'::regclass;
INSERT INTO parent VALUES (2);
SELECT * FROM drift('inh');
DROP TABLE grandparent, parent CASCADE;
SELECT * FROM drift('inh');
DROP TABLE child CASCADE;
-- A source that changes places with another table goes on being counted, which is said; one that is renamed alone is as before
SELECT dc_drop('inh'), dc_create('inh');
CREATE TABLE votes (k int);
CREATE TABLE votes_new (k int);
SELECT dc_bind('inh', 'votes', 'k', build => 'now');
ALTER TABLE votes RENAME TO votes_old;
ALTER TABLE votes_new RENAME TO votes;
SELECT source, state FROM dc_stat_drift WHERE counter = 'inh'::regclass;
ALTER TABLE votes RENAME TO votes_new;
ALTER TABLE votes_old RENAME TO votes;
BEGIN;
ALTER TABLE votes RENAME TO votes_old;
ALTER TABLE votes_new RENAME TO votes;
SELECT source, state FROM dc_stat_drift WHERE counter = 'inh'::regclass;
COMMIT;
DROP TABLE votes;
ALTER TABLE votes_old RENAME TO votes;
CALL dc_build('inh');
BEGIN;
ALTER TABLE votes RENAME TO votes_old;
SAVEPOINT s;
CREATE TABLE votes (k int);
ROLLBACK TO s;
COMMIT;
SELECT source, state FROM dc_stat_drift WHERE counter = 'inh'::regclass;
ALTER TABLE votes_old RENAME TO votes;
-- ... even if the other one is created only now, or comes from another schema
BEGIN;
ALTER TABLE votes RENAME TO votes_old;
CREATE TABLE votes (k int);
COMMIT;
SELECT source, state FROM dc_stat_drift WHERE counter = 'inh'::regclass;
DROP TABLE votes;
ALTER TABLE votes_old RENAME TO votes;
CALL dc_build('inh');
CREATE SCHEMA bd_new CREATE TABLE votes (k int);
CREATE SCHEMA bd_old;
BEGIN;
ALTER TABLE votes SET SCHEMA bd_old;
ALTER TABLE bd_new.votes SET SCHEMA bd;
COMMIT;
SELECT source, state FROM dc_stat_drift WHERE counter = 'inh'::regclass;
DROP TABLE votes, bd_old.votes;
DROP SCHEMA bd_old, bd_new;
SELECT dc_drop('inh');
-- Arguments in the wrong places, and names that are not there
CREATE TYPE order_state AS ENUM ('new', 'old');
CREATE TABLE source (k int, d date, n numeric, j jsonb, e order_state);
SELECT dc_create('ordered');
SELECT dc_bind('source', 'ordered', 'k');
SELECT dc_bind('ordered', 'source', 'kk');
SELECT dc_bind('ordered', 'source', 'k', filter => 'nothing > 0');
\set SHOW_CONTEXT always
SELECT dc_bind('ordered', 'source', 'k', value => 'v');
\set SHOW_CONTEXT never
-- A date and an enum as key: what to write instead
SELECT dc_bind('ordered', 'source', 'k, d::text');
SELECT dc_bind('ordered', 'source', 'e::text');
SELECT dc_bind('ordered', 'source', $$k, (extract(year FROM d) * 10000 + extract(month FROM d) * 100 + extract(day FROM d))::int, CASE e WHEN 'new' THEN 'new' END$$, build => 'now');
INSERT INTO source VALUES (1, '2026-11-29', 1, '1', 'new');
SELECT key, inc FROM ordered;
SELECT dc_unbind('ordered');
-- A time zone, a date as text, and names: what to write instead
CREATE TABLE stamped (k int, at timestamptz);
SELECT dc_bind('ordered', 'stamped', 'date_trunc(''month'', at)');
SELECT dc_bind('ordered', 'stamped', 'to_char(at, ''YYYY-MM'')');
SELECT dc_bind('ordered', 'stamped', 'k AS key');
SELECT dc_bind('ordered', 'stamped', 'k at');
SELECT dc_bind('ordered', 'stamped', 'date_trunc(''month'', at AT TIME ZONE ''UTC'')::date', build => 'now');
SELECT dc_unbind('ordered');
-- Privileges would be of no use to a role that wants to write to a bound counter
SELECT dc_bind('ordered', 'stamped', 'k', build => 'now');
CREATE ROLE bd_nobody;
GRANT USAGE ON SCHEMA bd TO bd_nobody;
SET ROLE bd_nobody;
SELECT dc_incr('ordered', '1');
SELECT dc_get('ordered', '1');
RESET ROLE;
DROP OWNED BY bd_nobody;
DROP ROLE bd_nobody;
-- Keys that are repaired leave the state as it is
SET client_min_messages = error;
ALTER TABLE stamped DISABLE TRIGGER ALL;
SET client_min_messages = notice;
INSERT INTO stamped VALUES (2, now());
ALTER TABLE stamped ENABLE TRIGGER ALL;
SELECT * FROM dc_source_fix('ordered', ARRAY['2']);
CALL dc_build('ordered');
SELECT state FROM dc_stat_drift WHERE counter = 'ordered'::regclass;
SELECT * FROM dc_source_fix('ordered', ARRAY['2']);
SET client_min_messages = warning;
SELECT dc_unbind('ordered');
DROP TABLE stamped;

-- Distinct values whose equal ones have several spellings
CREATE DOMAIN dozen AS numeric;
ALTER TABLE source ADD nn dozen;
SELECT dc_bind('ordered', 'source', 'k', distinct_of => 'n');
SELECT dc_bind('ordered', 'source', 'k', distinct_of => 'nn');
SELECT dc_bind('ordered', 'source', 'k', distinct_of => 'n * 2');
SELECT dc_bind('ordered', 'source', 'k', distinct_of => 'j');
CREATE TABLE ordered_ref ();
SELECT dc_bind('ordered', 'source', 'k', distinct_of => 'trim_scale(n)', build => 'now');
DROP TABLE ordered_ref;
SELECT dc_bind('ordered', 'source', 'k', distinct_of => 'trim_scale(n)', build => 'now');
INSERT INTO source VALUES (2, NULL, 1), (2, NULL, 1.0), (2, NULL, 1.00);
SELECT dc_get('ordered', 2);
DROP TABLE source;
SELECT dc_drop('ordered');
DROP DOMAIN dozen;
DROP TYPE order_state;

-- Triggers: not dropped, not renamed; disabled ones make it suspect
DROP TRIGGER dcounter_source_row ON likes;
DROP TRIGGER dcounter_source_truncate ON likes;
ALTER TRIGGER dcounter_source_update ON likes RENAME TO other;
TRUNCATE likes;
SELECT * FROM drifts();
ALTER TABLE likes DISABLE TRIGGER dcounter_source_row;
SELECT * FROM drifts();
-- A build does not make it exact as long as rows may come that are not counted; another trigger that is disabled is news to a build under way
CALL dc_build('n');
SELECT state FROM dc_stat_drift WHERE counter = 'n'::regclass;
SELECT epoch AS epoch_before FROM dcounter.source_state WHERE counter = 'n'::regclass \gset
ALTER TABLE likes DISABLE TRIGGER dcounter_source_update;
SELECT epoch > :epoch_before FROM dcounter.source_state WHERE counter = 'n'::regclass;
ALTER TABLE likes ENABLE TRIGGER ALL;
SELECT * FROM drifts();
TRUNCATE likes;
ALTER TABLE likes DISABLE TRIGGER ALL, ENABLE TRIGGER ALL;
ALTER TABLE likes DISABLE TRIGGER USER;
ALTER TABLE likes ENABLE TRIGGER USER;
TRUNCATE likes;
ALTER TABLE likes ENABLE REPLICA TRIGGER dcounter_source_update;
ALTER TABLE likes ENABLE ALWAYS TRIGGER dcounter_source_update;
TRUNCATE likes;
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER mine AFTER INSERT ON likes FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT * FROM drifts();
CREATE OR REPLACE TRIGGER dcounter_source_row AFTER INSERT ON likes FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE OR REPLACE TRIGGER dcounter_source_update AFTER UPDATE ON likes FOR EACH ROW WHEN (false) EXECUTE FUNCTION dcounter.source_row();
CREATE TRIGGER dcounter_source_row AFTER INSERT ON likes FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT * FROM drifts();
DROP TRIGGER mine ON likes;
-- Binding again puts them in order
SELECT dc_unbind('total');
SELECT dc_unbind('n');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'likes'::regclass ORDER BY 1;
SELECT dc_bind('n', 'likes', 'post', value => 'amount', replicated => true);
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'likes'::regclass ORDER BY 1;
INSERT INTO likes VALUES (1, 1, 1);
SET session_replication_role = replica;
INSERT INTO likes VALUES (2, 2, 2);
SELECT * FROM drift('n');
TRUNCATE likes;
SELECT * FROM drift('n');
RESET session_replication_role;
ALTER TABLE likes ENABLE TRIGGER dcounter_source_row;
SELECT * FROM drifts();
TRUNCATE likes;
SELECT * FROM drifts();
ALTER TABLE likes ENABLE ALWAYS TRIGGER dcounter_source_row;
TRUNCATE likes;
-- With partitions all of them are looked at
CREATE TABLE par (k int) PARTITION BY LIST (k);
CREATE TABLE par1 PARTITION OF par FOR VALUES IN (1);
SELECT dc_create('par_n');
SELECT dc_bind('par_n', 'par', 'k');
TRUNCATE par;
ALTER TABLE par1 DISABLE TRIGGER dcounter_source_row;
SELECT * FROM drifts();
DROP TRIGGER dcounter_source_truncate ON par1;
DROP TABLE par;
SELECT dc_drop('par_n');

-- Logged they must be
ALTER TABLE likes SET UNLOGGED;
ALTER TABLE n SET UNLOGGED;

-- Names
CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'happy');
CREATE DOMAIN small AS int CHECK (VALUE < 1000);
CREATE TABLE "Fans" ("Post" small, mood mood, gone timestamptz, "select" int);
SELECT dc_create('moods');
SELECT dc_create('posts');
SELECT dc_bind('moods', '"Fans"', '"select" > 2, "Post"', value => '"select"', filter => 'mood IN (''sad'', ''it''''s ok'') AND gone IS NULL');
SELECT dc_bind('posts', '"Fans"', '"Post"', filter => 'mood = ''happy''::mood');
CREATE VIEW texts AS SELECT counter, source, key, value, filter FROM dcounter.source WHERE counter::text <> 'n' ORDER BY counter::text;
CREATE FUNCTION some_rows() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	t text := (SELECT source::text FROM dcounter.source WHERE counter = 'posts'::regclass);
BEGIN
	EXECUTE format('INSERT INTO %1$s SELECT i, m, NULL, i FROM generate_series(1, 3) AS i, unnest(enum_range(NULL::%2$s)) AS m', t,
		(SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = t::regclass AND attnum = 2));
	EXECUTE format('UPDATE %s SET %I = 4 WHERE %1$s.ctid = (SELECT min(ctid) FROM %1$s)', t, (SELECT attname FROM pg_attribute WHERE attrelid = t::regclass AND attnum = 1));
END $$;
SELECT * FROM texts;
SELECT some_rows();
ALTER TABLE "Fans" RENAME COLUMN "Post" TO post_id;
ALTER TABLE "Fans" RENAME "select" TO "Weight""s";
ALTER TYPE mood RENAME VALUE 'it''s ok' TO 'so-so';
ALTER TYPE mood RENAME VALUE 'happy' TO 'it''s \ good';
SELECT * FROM texts;
ALTER TYPE mood RENAME TO feeling;
CREATE SCHEMA bd3;
ALTER TYPE feeling SET SCHEMA bd3;
ALTER DOMAIN small RENAME TO tiny;
ALTER TABLE "Fans" RENAME TO fans;
ALTER TABLE fans SET SCHEMA bd3;
ALTER SCHEMA bd3 RENAME TO "bd 3";
SELECT * FROM texts;
SELECT some_rows();
SELECT * FROM drifts();
-- Undone, and with others in the same transaction
BEGIN;
ALTER TABLE "bd 3".fans RENAME COLUMN post_id TO a;
SAVEPOINT s;
ALTER TABLE "bd 3".fans RENAME COLUMN a TO b;
ALTER TABLE "bd 3".fans RENAME COLUMN b TO mood2;
ALTER TABLE "bd 3".fans RENAME COLUMN mood TO b;
SELECT * FROM texts;
ROLLBACK TO s;
ALTER TABLE "bd 3".fans RENAME COLUMN nosuch TO b;
ROLLBACK TO s;
ALTER TABLE "bd 3".fans RENAME COLUMN gone TO post_id;
SELECT * FROM texts;
COMMIT;
SELECT some_rows();
SELECT * FROM drifts();
-- The type goes: so do the bindings that name it
ALTER TABLE "bd 3".fans DROP COLUMN mood;
DROP TYPE "bd 3".feeling;
BEGIN;
DROP TYPE "bd 3".feeling CASCADE;
SELECT * FROM texts;
SELECT count(*) FROM pg_trigger WHERE tgrelid = '"bd 3".fans'::regclass;
ROLLBACK;
-- Several bindings, one of which goes on
SELECT dc_unbind('posts');
SELECT dc_bind('posts', '"bd 3".fans', 'a');
DROP TYPE "bd 3".feeling CASCADE;
SELECT * FROM texts;
TRUNCATE "bd 3".fans;
INSERT INTO "bd 3".fans (a) VALUES (1);
UPDATE "bd 3".fans SET a = 2;
SELECT * FROM drift('posts');
SELECT dc_get('posts', 2);

-- Owners: others than that of the source may not be counted into
GRANT ALL ON SCHEMA bd TO regress_bd_owner, regress_bd_other;
SET ROLE regress_bd_owner;
CREATE TABLE mine (k int);
SELECT dc_create('mine_n');
SELECT dc_create('mine_m');
SELECT dc_bind('mine_n', 'mine', 'k');
SELECT dc_bind('mine_m', 'mine', 'k');
RESET ROLE;
ALTER TABLE mine_n OWNER TO regress_bd_other;
SET ROLE regress_bd_owner;
INSERT INTO mine VALUES (1);
TRUNCATE mine;
RESET ROLE;
-- Whoever owns the counter can end it, and the other binding goes on
SET ROLE regress_bd_other;
SELECT dc_unbind('mine_n');
RESET ROLE;
SET ROLE regress_bd_owner;
INSERT INTO mine VALUES (1);
SELECT * FROM drift('mine_m');
TRUNCATE mine;
RESET ROLE;
SELECT tgname FROM pg_trigger WHERE tgrelid = 'mine'::regclass ORDER BY 1;
-- A partition of another owner
SET ROLE regress_bd_owner;
CREATE TABLE tree (k int) PARTITION BY LIST (k);
SELECT dc_create('tree_n');
SELECT dc_bind('tree_n', 'tree', 'k', on_detach => 'keep');
CREATE TABLE tree1 PARTITION OF tree FOR VALUES IN (1);
RESET ROLE;
ALTER TABLE tree1 OWNER TO regress_bd_other;
SET ROLE regress_bd_other;
INSERT INTO tree1 VALUES (1), (1);
TRUNCATE tree1;
INSERT INTO tree1 VALUES (1);
RESET ROLE;
SELECT * FROM drift('tree_n');
ALTER TABLE tree DETACH PARTITION tree1;
SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'tree_n_carried';
ALTER TABLE tree_n OWNER TO regress_bd_other;
SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'tree_n_carried';
ALTER TABLE tree OWNER TO regress_bd_other;
DROP TABLE tree, tree_n, tree1;
SELECT to_regclass('tree_n_carried');
-- DROP OWNED, and a schema
DROP OWNED BY regress_bd_owner;
SELECT * FROM texts;
DROP OWNED BY regress_bd_other;
DROP ROLE regress_bd_owner, regress_bd_other;

-- In every order: the counter first, then the source; the other way round; both at once
SELECT dc_drop('n');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'likes'::regclass ORDER BY 1;
INSERT INTO likes VALUES (1, 1, 1);
SELECT dc_create('n');
SELECT dc_bind('n', 'likes', 'post');
DROP TABLE likes;
SELECT * FROM texts;
SELECT count(*) FROM dcounter.source_state WHERE counter = 'n'::regclass;
CREATE TABLE likes (post int);
SELECT dc_bind('n', 'likes', 'post');
DROP TABLE n, likes;
DROP SCHEMA "bd 3" CASCADE;
-- a table and its partition are not both sources, in either order
CREATE TABLE tree (k text, v int) PARTITION BY LIST (k);
CREATE TABLE tree_a PARTITION OF tree FOR VALUES IN ('a') PARTITION BY RANGE (v);
CREATE TABLE tree_a1 PARTITION OF tree_a FOR VALUES FROM (0) TO (10);
CREATE TABLE tree_b (k text, v int);
SELECT dc_create('tree_k'), dc_create('tree_v');
SELECT dc_bind('tree_k', 'tree', 'k', build => 'none');
SELECT dc_bind('tree_v', 'tree_a1', 'k', value => 'v', build => 'none');
SELECT dc_bind('tree_v', 'tree', 'k', value => 'v', build => 'none');
SELECT dc_unbind('tree_v'), dc_unbind('tree_k');
SELECT dc_bind('tree_v', 'tree_a1', 'k', value => 'v', build => 'none');
SELECT dc_bind('tree_k', 'tree', 'k', build => 'none');
SELECT dc_bind('tree_k', 'tree_b', 'k', build => 'none');
ALTER TABLE tree ATTACH PARTITION tree_b FOR VALUES IN ('b');
ALTER TABLE tree DETACH PARTITION tree_b;
SELECT dc_unbind('tree_v');
SELECT dc_bind('tree_v', 'tree', 'k', value => 'v', build => 'none');
ALTER TABLE tree ATTACH PARTITION tree_b FOR VALUES IN ('b');
SELECT dc_unbind('tree_k');
ALTER TABLE tree ATTACH PARTITION tree_b FOR VALUES IN ('b');
INSERT INTO tree VALUES ('a', 1), ('b', 2);
UPDATE tree SET v = v + 1;
SELECT dc_get('tree_v', 'a'), dc_get('tree_v', 'b');
SELECT dc_unbind('tree_v');
DROP TABLE tree, tree_k, tree_v;

-- A column that the command that drops it adds again is another one; other bindings keep their triggers
CREATE TABLE again (id int PRIMARY KEY, a int, b int, c int);
SELECT dc_create('again_a'), dc_create('again_b');
SELECT dc_bind('again_a', 'again', 'a', build => 'now'), dc_bind('again_b', 'again', 'b', build => 'now');
INSERT INTO again VALUES (1, 1, 1, 1), (2, 1, 1, 1);
ALTER TABLE again DROP b, ADD b int DEFAULT 7;
ALTER TABLE again DROP b CASCADE, ADD b text DEFAULT 'a';
SELECT counter FROM dcounter.source WHERE source = 'again'::regclass;
UPDATE again SET a = 2 WHERE id = 1;
SELECT dc_get('again_a', 1), dc_get('again_a', 2), (SELECT count(*) FROM dc_source_check('again_a')) AS differences;
-- a trigger may also name a column that no binding names any more
SELECT dc_bind('again_b', 'again', 'b', build => 'now');
UPDATE dcounter.source SET key = 'c' WHERE counter = 'again_b'::regclass;
ALTER TABLE again DROP b CASCADE, ADD b int;
SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'again'::regclass AND tgname = 'dcounter_source_update';
DROP TABLE again, again_a, again_b;
CREATE TYPE again AS (a int, b int);
CREATE TABLE typed OF again;
SELECT dc_create('again_b');
SELECT dc_bind('again_b', 'typed', 'b', build => 'now');
ALTER TYPE again DROP ATTRIBUTE b CASCADE, ADD ATTRIBUTE b int CASCADE;
SELECT count(*) FROM dcounter.source WHERE source = 'typed'::regclass;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'typed'::regclass;
DROP TABLE typed, again_b;
DROP TYPE again;

CREATE TABLE likes (post int);
SELECT dc_create('n');
SELECT dc_bind('n', 'likes', 'post');
DROP SCHEMA bd CASCADE;
SELECT count(*) FROM dcounter.source;
SELECT count(*) FROM dcounter.source_state;
