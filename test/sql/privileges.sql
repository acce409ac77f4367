-- Privileges, and the role as which everything is done
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE ROLE regress_dc_owner;
CREATE ROLE regress_dc_user;
CREATE ROLE regress_dc_group;
CREATE SCHEMA regress_dc AUTHORIZATION regress_dc_owner;
GRANT USAGE ON SCHEMA regress_dc TO regress_dc_user, regress_dc_group;
SET search_path = regress_dc, public;
-- What a statement ends with
CREATE FUNCTION public.regress_dc_try(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE sql INTO result;
	RETURN coalesce('ok ' || result, 'ok');
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
-- Each of the functions in turn, each undone
CREATE FUNCTION public.regress_dc_all(c regclass) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	call text; result text;
BEGIN
	FOREACH call IN ARRAY ARRAY['dc_incr(%s, ''a'')', 'dc_decr(%s, ''a'')', 'dc_incr_hashed(%s, ''a'', ''b'')', 'dc_incr_many(%s, ''{a}'')',
		'dc_incr_returning(%s, ''a'')', 'dc_get(%s, ''a'')', 'dc_get_many(%s, ''{a}'')', '(dc_info(%s, ''a'')).value', 'dc_sum(%s)',
		'dc_set(%s, ''a'', 9)', 'dc_reset(%s, ''a'')', 'dc_delete(%s, ''a'')', 'dc_compact(%s)', 'dc_alter(%s)', 'dc_drop(%s)', 'dc_adopt(%s)']
	LOOP
		BEGIN
			result := regress_dc_try(format('SELECT ' || call, c::oid::regclass::oid));
			RAISE data_exception;
		EXCEPTION WHEN data_exception THEN
			RETURN NEXT format(call, 'c') || ': ' || result;
		END;
	END LOOP;
END $$;

SET ROLE regress_dc_owner;
SELECT dc_create('likes', totals => 'compacted'), dc_create('views', partitions => 2);
SELECT dc_incr('likes', 'a', 5);
SELECT pg_get_userbyid(relowner), count(*) FROM pg_class WHERE relnamespace = 'regress_dc'::regnamespace AND relkind IN ('r', 'p') GROUP BY 1;
RESET ROLE;
SET ROLE regress_dc_user;
SELECT 'nothing granted', regress_dc_all('likes');
RESET ROLE;
GRANT INSERT ON likes TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT 'INSERT', a FROM regress_dc_all('likes') a WHERE a !~ '42501';
RESET ROLE;
REVOKE INSERT ON likes FROM regress_dc_user;
GRANT UPDATE ON likes TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT 'UPDATE', a FROM regress_dc_all('likes') a WHERE a !~ '42501';
RESET ROLE;
REVOKE UPDATE ON likes FROM regress_dc_user;
GRANT INSERT (key, inc), UPDATE (inc) ON likes TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT 'columns', a FROM regress_dc_all('likes') a WHERE a !~ '42501';
RESET ROLE;
REVOKE INSERT (key, inc), UPDATE (inc) ON likes FROM regress_dc_user;
GRANT INSERT, UPDATE ON likes TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT 'INSERT, UPDATE', a FROM regress_dc_all('likes') a WHERE a !~ '42501';
RESET ROLE;
GRANT SELECT ON likes TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT 'SELECT, INSERT, UPDATE', a FROM regress_dc_all('likes') a WHERE a !~ '42501';
RESET ROLE;
REVOKE INSERT, UPDATE ON likes FROM regress_dc_user;
SET ROLE regress_dc_user;
SELECT 'SELECT', a FROM regress_dc_all('likes') a WHERE a !~ '42501';
RESET ROLE;
GRANT DELETE ON likes TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT 'SELECT, DELETE', a FROM regress_dc_all('likes') a WHERE a !~ '42501';
RESET ROLE;
REVOKE SELECT ON likes FROM regress_dc_user;
SET ROLE regress_dc_user;
SELECT 'DELETE', a FROM regress_dc_all('likes') a WHERE a !~ '42501';
RESET ROLE;
REVOKE ALL ON likes FROM regress_dc_user;
GRANT ALL ON likes_shard TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT 'ALL on the shard table', a FROM regress_dc_all('likes') a WHERE a !~ '42501';
RESET ROLE;
REVOKE ALL ON likes_shard FROM regress_dc_user;
GRANT ALL ON likes, views TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT 'ALL', a FROM regress_dc_all('likes') a;
SELECT 'ALL, partitioned', a FROM regress_dc_all('views') a;
-- It is really written, also without any privilege on the shard table
SELECT dc_incr('likes', 'a', 2), dc_incr('views', 'a', 3);
SELECT dc_incr('likes', 'a'), dc_apply();
SELECT dc_get('likes', 'a'), dc_get('views', 'a'), regress_dc_try('SELECT count(*) FROM likes_shard');
-- dc_compact() of everything takes the caller's own tables only
SELECT dc_compact();
RESET ROLE;
SET ROLE regress_dc_owner;
SELECT dc_get('likes', 'a'), dc_get('views', 'a'), (SELECT count(*) FROM likes) + (SELECT count(*) FROM views);
SELECT dc_compact(), (SELECT count(*) FROM likes) + (SELECT count(*) FROM views);
SELECT value FROM likes UNION ALL SELECT value FROM views ORDER BY 1;
SELECT 'owner', a FROM regress_dc_all('likes') a;
RESET ROLE;
-- A member of a role that has the privileges or is the owner; a privilege that
-- is taken away counts from the next call on
REVOKE ALL ON likes, views FROM regress_dc_user;
GRANT INSERT, UPDATE ON likes TO regress_dc_group;
GRANT regress_dc_group TO regress_dc_user;
SET ROLE regress_dc_user;
BEGIN;
SELECT dc_incr('likes', 'a', 10);
RESET ROLE;
REVOKE regress_dc_group FROM regress_dc_user;
SET ROLE regress_dc_user;
SELECT regress_dc_try($$SELECT dc_incr('likes', 'a', 100)$$);
COMMIT;
RESET ROLE;
GRANT SELECT, INSERT, UPDATE ON likes TO regress_dc_user;
SET ROLE regress_dc_user;
BEGIN;
SELECT dc_incr('likes', 'a', 20);
RESET ROLE;
REVOKE INSERT ON likes FROM regress_dc_user;
SET ROLE regress_dc_user;
SELECT regress_dc_try($$SELECT dc_incr('likes', 'a', 100)$$), dc_get('likes', 'a');
COMMIT;
BEGIN;
SET LOCAL ROLE regress_dc_owner;
SELECT dc_incr('likes', 'a', 40);
SET LOCAL ROLE regress_dc_user;
SELECT regress_dc_try($$SELECT dc_incr('likes', 'a', 100)$$);
COMMIT;
SELECT dc_get('likes', 'a');
RESET ROLE;
GRANT regress_dc_owner TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT 'member of the owner', a FROM regress_dc_all('likes') a WHERE a ~ '42501';
SELECT dc_compact('likes'), dc_get('likes', 'a');
RESET ROLE;
REVOKE regress_dc_owner FROM regress_dc_user;
-- The same without a savepoint in between, which makes the backend look again
GRANT INSERT, UPDATE ON likes TO regress_dc_group;
GRANT regress_dc_group TO regress_dc_user;
SET ROLE regress_dc_user;
BEGIN;
SELECT dc_incr('likes', 'a', 1000);
RESET ROLE;
REVOKE regress_dc_group FROM regress_dc_user;
SET ROLE regress_dc_user;
SELECT dc_incr('likes', 'a', 1000);
COMMIT;
RESET ROLE;
REVOKE regress_dc_group FROM regress_dc_user;
GRANT SELECT, INSERT, UPDATE ON likes TO regress_dc_user;
BEGIN;
SET LOCAL ROLE regress_dc_user;
SELECT dc_incr('likes', 'a', 1000);
RESET ROLE;
REVOKE INSERT ON likes FROM regress_dc_user;
SET LOCAL ROLE regress_dc_user;
SELECT dc_incr('likes', 'a', 1000);
COMMIT;
REVOKE INSERT, UPDATE ON likes FROM regress_dc_user;
BEGIN;
SET LOCAL ROLE regress_dc_owner;
SELECT dc_incr('likes', 'a', 1000);
SET LOCAL ROLE regress_dc_user;
SELECT dc_incr('likes', 'a', 1000);
COMMIT;
SELECT dc_get('likes', 'a');
-- A SECURITY DEFINER function lends its owner's privileges, for itself only
SET ROLE regress_dc_owner;
CREATE FUNCTION like_it(key text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN PERFORM public.dc_incr('regress_dc.likes', key); END $$;
RESET ROLE;
SET ROLE regress_dc_user;
BEGIN;
SELECT like_it('definer'), regress_dc_try($$SELECT dc_incr('likes', 'definer')$$), like_it('definer');
COMMIT;
BEGIN;
SELECT like_it('definer');
SELECT dc_incr('likes', 'definer');
COMMIT;
SELECT dc_get('likes', 'definer');
-- Creating takes CREATE in the schema; dropping and adopting, the ownership,
-- which is checked before the table is locked, and before any other error
SELECT regress_dc_try($$SELECT dc_create('regress_dc.mine')$$), regress_dc_try('SELECT dc_adopt(''likes'')'), regress_dc_try('SELECT dc_adopt(''pg_class'')'), regress_dc_try('DROP TABLE likes');
-- ... and the error shows no statement of dcounter's
SELECT dc_create('mine');
SELECT dc_distinct_create('mine');
SELECT dc_window_create('mine', '1 min', '1 hour');
-- The settings can be read, and are changed by the functions alone
SELECT count(*) FROM dcounter.counter WHERE counter IN ('likes'::regclass, 'views'::regclass);
SELECT regress_dc_try($$INSERT INTO dcounter.counter VALUES ('likes', 'views', 'random', 1)$$), regress_dc_try('UPDATE dcounter.counter SET max_shards = 1'),
	regress_dc_try('DELETE FROM dcounter.counter'), regress_dc_try('TRUNCATE dcounter.counter'), regress_dc_try('CREATE TABLE dcounter.x (a int)');
RESET ROLE;
-- ... also not through the trigger function that keeps them, on a table alike
CREATE SCHEMA regress_dc_evil AUTHORIZATION regress_dc_user;
SET ROLE regress_dc_user;
CREATE TABLE regress_dc_evil.fake (counter regclass, shards regclass, shard_by text, max_shards int);
CREATE TRIGGER t BEFORE INSERT ON regress_dc_evil.fake FOR EACH ROW EXECUTE FUNCTION dcounter.on_catalog_change();
INSERT INTO regress_dc_evil.fake VALUES ('regress_dc.likes', 'regress_dc.views', 'hash', 1);
SELECT count(*) FROM regress_dc_evil.fake;
RESET ROLE;
SELECT shards, shard_by, max_shards FROM dcounter.counter WHERE counter = 'likes'::regclass;
DROP SCHEMA regress_dc_evil CASCADE;
-- Two tables of a counter with different owners
ALTER TABLE likes_shard OWNER TO regress_dc_user;
SELECT regress_dc_try($$SELECT dc_incr('likes', 'a')$$), regress_dc_try($$SELECT dc_get('likes', 'a')$$);
ALTER TABLE likes_shard OWNER TO regress_dc_owner;
-- statement_timeout has ended when COMMIT runs the owner's triggers; dc_apply() is a statement
CREATE FUNCTION regress_dc_sleeps() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(300); RETURN NEW; END $$;
SELECT dc_create('slow', totals => 'compacted');
ALTER TABLE slow_shard OWNER TO regress_dc_owner;
ALTER TABLE slow OWNER TO regress_dc_owner;
GRANT SELECT, INSERT, UPDATE ON slow TO regress_dc_user;
CREATE TRIGGER sleeps BEFORE INSERT OR UPDATE ON slow_shard FOR EACH ROW EXECUTE FUNCTION regress_dc_sleeps();
SET ROLE regress_dc_user;
BEGIN;
SELECT dc_incr('slow', 'a');
SET LOCAL statement_timeout = '100ms';
SELECT dc_apply();
ROLLBACK;
RESET ROLE;
SELECT dc_get('slow', 'a'), dc_drop('slow');
DROP FUNCTION regress_dc_sleeps;
SELECT dc_get('likes', 'a'), dc_drop('likes'), dc_drop('views');
RESET search_path;
DROP SCHEMA regress_dc CASCADE;
DROP FUNCTION regress_dc_try, regress_dc_all;
DROP ROLE regress_dc_owner, regress_dc_user, regress_dc_group;
-- dc_adopt: code on a table of ops, such as a cast of its column, runs as the owner of the table, and a time at which no op can have been recorded counts as now
SET client_min_messages = warning;
CREATE ROLE regress_adopted;
CREATE SCHEMA adopted AUTHORIZATION regress_adopted;
CREATE TYPE adopted.t;
CREATE FUNCTION adopted.t_in(cstring) RETURNS adopted.t LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
CREATE FUNCTION adopted.t_out(adopted.t) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE TYPE adopted.t (INPUT = adopted.t_in, OUTPUT = adopted.t_out, LIKE = int4);
ALTER TYPE adopted.t OWNER TO regress_adopted;
SET ROLE regress_adopted;
CREATE TABLE adopted.d (key text COLLATE "C" NOT NULL PRIMARY KEY, inc int8 NOT NULL DEFAULT 0, dec int8 NOT NULL DEFAULT 0, updated_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE adopted.d_shard (key text COLLATE "C" NOT NULL, shard int4 NOT NULL, inc int8 NOT NULL DEFAULT 0, dec int8 NOT NULL DEFAULT 0, updated_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (key, shard));
CREATE FUNCTION adopted.code(adopted.t) RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN RAISE WARNING 'runs as the owner: %', current_user = 'regress_adopted'; RETURN '-infinity'; END$$;
CREATE CAST (adopted.t AS timestamptz) WITH FUNCTION adopted.code(adopted.t) AS IMPLICIT;
CREATE TABLE adopted.d_op (slot int2 NOT NULL, op_id text, at adopted.t) PARTITION BY LIST (slot);
CREATE TABLE adopted.d_op_0 PARTITION OF adopted.d_op FOR VALUES IN (0);
CREATE TABLE adopted.d_op_1 PARTITION OF adopted.d_op FOR VALUES IN (1);
CREATE TABLE adopted.d_op_2 PARTITION OF adopted.d_op FOR VALUES IN (2);
CREATE TABLE adopted.d_op_3 PARTITION OF adopted.d_op FOR VALUES IN (3);
INSERT INTO adopted.d_op VALUES (1, 'x', '1');
RESET ROLE;
SELECT dc_adopt('adopted.d');
SELECT slot, state, forgotten BETWEEN now() - interval '1 day' AND now() AS forgotten FROM dcounter.op_slot WHERE counter = 'adopted.d'::regclass ORDER BY 1;
DROP SCHEMA adopted CASCADE;
RESET client_min_messages;
DROP ROLE regress_adopted;
