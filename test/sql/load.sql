-- dc_load(): the counts that keys start with
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = error;
CREATE ROLE regress_dc_owner;
CREATE ROLE regress_dc_user;
CREATE SCHEMA regress_dc AUTHORIZATION regress_dc_owner;
GRANT USAGE ON SCHEMA regress_dc TO regress_dc_user;
SET search_path = regress_dc, public;
SET ROLE regress_dc_owner;
-- What it answers, or the error
CREATE FUNCTION try(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE 'SELECT ' || call INTO answer;
	RETURN coalesce(answer, 'null');
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END$$;
-- All that is in the two tables, without times; what should be equal is
CREATE FUNCTION state(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format($q$SELECT concat_ws(' | ', (SELECT string_agg(concat_ws(' ', key, inc, dec), ', ' ORDER BY key) FROM %1$I),
		(SELECT 'shards: ' || string_agg(concat_ws(' ', key, inc, dec), ', ' ORDER BY key, inc) FROM %1$I_shard),
		(SELECT 'value is wrong: ' || string_agg(key, ' ') FROM %1$I WHERE value IS DISTINCT FROM inc - dec))$q$, name) INTO result;
	RETURN result;
END$$;

SELECT dc_create('likes');
-- New keys get rows of totals; what one key has several times is added up
SELECT dc_load('likes', '{b,a,c,z,a,n,a}', '{2,1,0,-5,10,9223372036854775807,-3}');
SELECT state('likes');
SELECT key, dc_get('likes', key), updated_at = (SELECT max(updated_at) FROM likes) AS at FROM likes ORDER BY key;
SELECT dc_sum('likes');
-- The index has them
SET enable_seqscan = off;
SELECT key, value FROM likes WHERE key BETWEEN 'a' AND 'c' ORDER BY key;
RESET enable_seqscan;
-- Keys that exist are added to when the transaction commits
SELECT dc_alter('likes', totals => 'compacted');
BEGIN;
SELECT dc_load('likes', '{a,d,b,c}', '{100,200,-7,0}');
SELECT state('likes'), dc_get('likes', 'a'), dc_get('likes', 'b'), dc_get('likes', 'd');
COMMIT;
SELECT state('likes'), dc_get('likes', 'a'), dc_get('likes', 'b'), dc_get('likes', 'd');
SELECT dc_compact('likes');
SELECT state('likes');
-- So are keys that have shard rows alone
SELECT dc_incr('likes', 'e', 5);
SELECT dc_load('likes', '{e}', '{50}');
SELECT state('likes'), dc_get('likes', 'e');
-- ... or pending deltas
BEGIN;
SELECT dc_incr('likes', 'f', 5);
SELECT dc_load('likes', '{f}', '{50}');
SELECT dc_incr('likes', 'f', 500);
SELECT dc_get('likes', 'f'), dc_set('likes', 'f', 7), dc_get('likes', 'f');
SELECT dc_load('likes', '{f}', '{50}'), dc_get('likes', 'f');
SELECT dc_delete('likes', 'f'), dc_get('likes', 'f');
SELECT dc_load('likes', '{f}', '{3}'), dc_get('likes', 'f');
COMMIT;
SELECT dc_get('likes', 'f');
-- Savepoints
BEGIN;
SAVEPOINT s;
SELECT dc_load('likes', '{a,s}', '{1000,1000}');
ROLLBACK TO s;
SELECT dc_get('likes', 'a'), dc_get('likes', 's');
SELECT dc_load('likes', '{s}', '{5}');
COMMIT;
SELECT dc_get('likes', 'a'), dc_get('likes', 's');
-- Key types
SELECT dc_load('likes', '{7,8,7}'::int[], '{1,2,3}'), dc_load('likes', '{9,8}'::bigint[], '{1,2}'),
	dc_load('likes', ARRAY['6f1c2a68-0000-4000-8000-000000000000']::uuid[], '{4}'), dc_load('likes', ARRAY['v']::varchar[], '{6}');
SELECT key, value FROM dc_get_many('likes', '{7,8,9,6f1c2a68-0000-4000-8000-000000000000,v}');
-- Nothing
SELECT dc_load('likes', '{}'::text[], '{}');
SELECT dc_load('likes', ARRAY['', repeat('k', 1024)], '{1,2}'), dc_get('likes', ''), dc_get('likes', repeat('k', 1024));

-- Errors
SELECT try($$dc_load(NULL, '{a}', '{1}')$$), try($$dc_load('likes', NULL::text[], '{1}')$$), try($$dc_load('likes', '{a}', NULL)$$);
SELECT try($$dc_load('likes', '{a,NULL}', '{1,2}')$$), try($$dc_load('likes', '{a,b}', '{1,NULL}')$$);
SELECT try($$dc_load('likes', '{a,b}', '{1}')$$), try($$dc_load('likes', '{a}', '{1,2}')$$);
SELECT try($$dc_load('likes', '{x,x}', '{9223372036854775807,1}')$$), try($$dc_load('likes', '{x}', '{-9223372036854775808}')$$);
SELECT try($$dc_load('likes', '{x,x}', '{-9223372036854775807,-1}')$$), try($$dc_load('likes', '{1.5}'::numeric[], '{1}')$$);
SELECT try(format('dc_load(%L, %L, %L)', 'likes', ARRAY['ok', repeat('k', 1025)], '{1,2}'));
SELECT dc_get('likes', 'x'), dc_get('likes', 'ok');
SELECT dc_stock_create('seats'), dc_ledger_create('wallet');
SELECT try($$dc_load('seats', '{a}', '{1}')$$), try($$dc_load('wallet', '{a}', '{1}')$$), try($$dc_load('likes_shard', '{a}', '{1}')$$);
-- An amount that the key's row cannot hold goes to a shard row, as with an increment
SELECT dc_load('likes', '{n}', '{1}'), try($$dc_get('likes', 'n')$$), dc_delete('likes', 'n');
-- Rights are those of an increment
SET ROLE regress_dc_user;
SELECT try($$dc_load('regress_dc.likes', '{a}', '{1}')$$);
RESET ROLE;
GRANT INSERT ON likes TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT regress_dc.try($$public.dc_load('regress_dc.likes', '{a}', '{1}')$$);
RESET ROLE;
GRANT UPDATE ON likes TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT regress_dc.try($$public.dc_load('regress_dc.likes', '{a,user}', '{1,1}')$$);
SET ROLE regress_dc_owner;
BEGIN READ ONLY;
SELECT try($$dc_load('likes', '{a}', '{1}')$$);
COMMIT;

-- Other isolation levels
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_load('likes', '{a,rr}', '{1,1}'), dc_get('likes', 'rr');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT dc_load('likes', '{a,ser}', '{1,1}'), dc_get('likes', 'ser');
COMMIT;
SELECT dc_get('likes', 'rr'), dc_get('likes', 'ser'), (SELECT count(*) FROM likes_shard WHERE key = 'ser') AS shards;

-- With further indexes, and a column that was dropped
SELECT dc_create('more');
ALTER TABLE more ADD COLUMN note text;
ALTER TABLE more DROP COLUMN note;
CREATE INDEX ON more(value DESC);
CREATE UNIQUE INDEX ON more(dec, key);
SELECT dc_load('more', '{a,b,c}', '{3,1,2}'), dc_load('more', '{c,d}', '{20,4}');
SET enable_seqscan = off;
SELECT key, value FROM more ORDER BY value DESC;
RESET enable_seqscan;
SELECT state('more'), dc_sum('more');

-- By SQL, if there is code of the owner: with that code, and as the owner
SELECT dc_create('coded');
CREATE TABLE log(who text, key text, inc bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO regress_dc.log VALUES (current_user, NEW.key, NEW.inc); RETURN NEW; END$$;
CREATE TRIGGER note AFTER INSERT ON coded FOR EACH ROW EXECUTE FUNCTION note();
GRANT INSERT, UPDATE ON coded TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT public.dc_load('regress_dc.coded', '{b,a,b}', '{1,2,3}'), public.dc_load('regress_dc.coded', '{b,c}', '{10,20}');
SET ROLE regress_dc_owner;
SELECT state('coded'), dc_sum('coded');
SELECT * FROM log ORDER BY inc;
-- ... columns and constraints of the owner
ALTER TABLE coded ADD COLUMN note text NOT NULL DEFAULT 'none', ADD CHECK (inc < 1000);
SELECT dc_load('coded', '{d}', '{5}'), try($$dc_load('coded', '{e,f}', '{5,1000}')$$);
SELECT key, inc, note FROM coded WHERE key > 'c';
-- ... which keeps a row away
CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
CREATE TRIGGER keep BEFORE INSERT ON coded FOR EACH ROW EXECUTE FUNCTION note();
SELECT dc_load('coded', '{g}', '{5}'), dc_get('coded', 'g');
-- ... or changes it: nothing is counted twice
CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.key := lower(NEW.key); NEW.inc := NEW.inc + 0; RETURN NEW; END$$;
SELECT try($$dc_load('coded', '{H}', '{5}')$$), try($$dc_load('coded', '{I,i}', '{5,6}')$$), try($$dc_load('coded', '{j}', '{5}')$$);
CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.inc := NEW.inc + 1; RETURN NEW; END$$;
SELECT try($$dc_load('coded', '{k}', '{5}')$$);
SELECT key, inc FROM coded WHERE key > 'd';
-- A generated column that is something else
SELECT dc_create('other');
ALTER TABLE other DROP COLUMN value;
ALTER TABLE other ADD COLUMN value bigint GENERATED ALWAYS AS (2 * (inc - dec)) STORED;
SELECT dc_load('other', '{a,b}', '{3,-1}');
SELECT key, inc, dec, value FROM other ORDER BY key;
-- Partitions
SELECT dc_create('parts', partitions => 3);
SELECT dc_load('parts', '{a,b,c,d,a}', '{1,2,3,4,5}'), dc_load('parts', '{d,e}', '{40,50}');
SELECT state('parts'), dc_sum('parts');
-- Events of new keys are written at once, and of others when they are compacted
SELECT dc_create('told');
SELECT dc_load('told', '{a}', '{1}');
SELECT dc_alter('told', events => '1 hour');
SELECT dc_load('told', '{a,b,c}', '{1,2,3}');
RESET ROLE;
SELECT key FROM dcounter.changed_key WHERE counter = 'told'::regclass ORDER BY key;
SELECT dc_compact('told');
SELECT key FROM dcounter.changed_key WHERE counter = 'told'::regclass ORDER BY key;
SET ROLE regress_dc_owner;

-- Many keys, in any order, twice
SELECT dc_create('many', totals => 'compacted');
SELECT dc_load('many', array_agg('k' || i * 7919 % 20011), array_agg(i)) FROM generate_series(1, 20010) i;
SELECT count(*), sum(inc) FROM many;
SELECT count(*) FROM many_shard;
SELECT dc_load('many', array_agg('k' || i), array_agg(1)) FROM generate_series(15001, 25000) i;
SELECT count(*), dc_sum('many') FROM many;
SELECT dc_compact('many') > 0 AS compacted;
SELECT count(*), sum(value) FROM many;

-- A plain INSERT is the other way to start
SELECT dc_create('plain');
INSERT INTO plain(key, inc) SELECT 'k' || i, i FROM generate_series(1, 100) i;
SELECT dc_incr('plain', 'k7'), dc_sum('plain');
SELECT dc_get('plain', 'k7');

RESET ROLE;
DROP SCHEMA regress_dc CASCADE;
DROP ROLE regress_dc_owner;
DROP ROLE regress_dc_user;
