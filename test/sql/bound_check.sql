-- Counters that are bound to a source table: comparing, fixing, building
\set VERBOSITY terse
CREATE SCHEMA bound_check;
SET search_path = bound_check, public;
-- what differs, and how the table stands
CREATE FUNCTION drift(counter regclass) RETURNS text LANGUAGE sql AS
	$$ SELECT count(*) || ' keys, ' || coalesce(sum(drift), 0) FROM dc_source_check(counter) $$;
CREATE FUNCTION state(counter regclass) RETURNS text LANGUAGE sql AS
	$$ SELECT state || coalesce(' to ' || built_to, '') FROM dcounter.source_state AS s WHERE s.counter = state.counter $$;

CREATE TABLE likes (post bigint, fan text, amount int, deleted bool NOT NULL DEFAULT false);
INSERT INTO likes SELECT i % 10, 'f' || i, i % 3 FROM generate_series(1, 100) AS i;
INSERT INTO likes VALUES (NULL, 'x', 1, false), (7, 'x', NULL, false), (8, 'x', 5, true);
SELECT dc_create('n'), dc_create('s'), dc_create('c'), dc_create('d');
SELECT dc_bind('n', 'likes', 'post', filter => 'NOT deleted', build => 'none');
SELECT dc_bind('s', 'likes', 'post', value => 'amount', build => 'none');
SELECT dc_bind('c', 'likes', 'post % 2, length(fan)', build => 'none');
SELECT dc_bind('d', 'likes', 'post', distinct_of => 'amount', build => 'none');

-- nothing is built, and new rows make no difference to the difference
SELECT * FROM dc_source_check('n');
INSERT INTO likes VALUES (3, 'new', 2), (11, 'new', 2);
DELETE FROM likes WHERE post = 4 AND fan = 'f14';
SELECT * FROM dc_source_check('n');
SELECT * FROM dc_source_check('s');
SELECT * FROM dc_source_check('c');

-- some keys: by a scan, and by an index. No text but that of a value is a key
CREATE FUNCTION asked() RETURNS SETOF record LANGUAGE sql AS
	$$ SELECT c.key, c.source, c.counter, c.drift FROM dc_source_check('n', ARRAY['3', '3', '03', ' 3', '+3', '-3', '3.0', 'x', '', '99999999999999999999', '8', '11', '404']) AS c $$;
SELECT * FROM asked() AS c(key text, source bigint, counter bigint, drift bigint);
CREATE INDEX likes_partial ON likes (post) WHERE NOT deleted;
CREATE INDEX likes_expression ON likes ((post + 0));
CREATE INDEX likes_second ON likes (fan, post);
SELECT * FROM asked() AS c(key text, source bigint, counter bigint, drift bigint);
CREATE INDEX likes_post ON likes (post DESC, fan);
SELECT * FROM asked() AS c(key text, source bigint, counter bigint, drift bigint);
SELECT * FROM dc_source_check('n', ARRAY[]::text[]);
BEGIN;
SELECT seq_scan AS scans, idx_scan AS probes FROM pg_stat_xact_user_tables WHERE relid = 'likes'::regclass \gset
SELECT key FROM dc_source_check('n', ARRAY['3']);
SELECT seq_scan - :scans AS scans, idx_scan - :probes AS probes FROM pg_stat_xact_user_tables WHERE relid = 'likes'::regclass;
COMMIT;
-- a range, a sample, keys of a range
SELECT key, drift FROM dc_source_check('n', from_key => '3', to_key => '6');
SELECT key, drift FROM dc_source_check('n', ARRAY[3, 404]);
SELECT key, drift FROM dc_source_check('n', from_key => '8');
SELECT key, drift FROM dc_source_check('n', to_key => '1');
SELECT key, drift FROM dc_source_check('n', keys => ARRAY['1', '3', '5', '7'], from_key => '3', to_key => '6');
SELECT count(*) FROM dc_source_check('n', sample => 1);

-- fixing some keys
SELECT * FROM dc_source_fix('n', ARRAY['3', '404', '3', '8']);
SELECT * FROM dc_source_fix('n', ARRAY['3', '404', '3', '8']);
SELECT key FROM dc_source_check('n');
SELECT dc_get('n', '3'), dc_get('n', '8'), state('n');
-- within a transaction: what it has written, and what it is about to write
BEGIN;
INSERT INTO likes VALUES (5, 'own', 1), (5, 'own 2', 1);
SELECT * FROM dc_source_fix('n', ARRAY['5']);
SELECT * FROM dc_source_fix('n', ARRAY['5']);
DELETE FROM likes WHERE fan = 'own 2';
SELECT * FROM dc_source_check('n', ARRAY['5']);
SELECT dc_apply();
INSERT INTO likes VALUES (5, 'own 3', 1);
SELECT * FROM dc_source_check('n', ARRAY['5']);
SELECT key FROM dc_source_check('n');
SAVEPOINT a;
SELECT * FROM dc_source_fix('n', ARRAY['6', '7']);
SELECT key FROM dc_source_check('n');
ROLLBACK TO a;
SELECT key FROM dc_source_check('n');
SELECT * FROM dc_source_fix('n', ARRAY['6']);
COMMIT;
SELECT key FROM dc_source_check('n');
SELECT key, dc_get('n', key), count(*) FROM unnest(ARRAY['3', '5', '6', '8']) AS key, likes WHERE post::text = key AND NOT deleted GROUP BY key ORDER BY key;

-- building: the rest, by chunks
CALL dc_build('n', 2);
SELECT drift('n'), state('n');
CALL dc_build('s');
CALL dc_build('c', 1);
SELECT drift('d');
CALL dc_build('d', 3);
SELECT drift(c), state(c) FROM unnest('{s,c,d}'::regclass[]) AS c;
SELECT key, dc_get('d', key), count(DISTINCT amount) FROM generate_series(0, 11) AS k, CAST(k AS text) AS key, likes WHERE post = k GROUP BY key ORDER BY key;
SELECT count(*) FROM d_ref WHERE n <= 0;
-- what triggers did not see
SET session_replication_role = replica;
DELETE FROM likes WHERE post < 3;
INSERT INTO likes VALUES (20, 'unseen', 1);
RESET session_replication_role;
SELECT drift(c), state(c) FROM unnest('{n,s,c,d}'::regclass[]) AS c;
SELECT * FROM dc_source_check('d');
SELECT * FROM dc_source_fix('d', ARRAY['0', '20']);
SELECT * FROM dc_source_check('d');
CALL dc_build('n', 1);
CALL dc_build('s', 1);
CALL dc_build('c', 1);
CALL dc_build('d', 1);
SELECT drift(c), state(c) FROM unnest('{n,s,c,d}'::regclass[]) AS c;
-- in a transaction
SET session_replication_role = replica;
DELETE FROM likes WHERE post = 5;
RESET session_replication_role;
BEGIN;
INSERT INTO likes VALUES (5, 'own', 1);
CALL dc_build('n');
CALL dc_build('d');
INSERT INTO likes VALUES (5, 'own', 1);
SELECT drift('n'), drift('d');
COMMIT;
SELECT drift('n'), drift('d');
-- in dc_bind()
BEGIN;
INSERT INTO likes VALUES (6, 'own', 1);
SELECT dc_create('now'), dc_create('dnow');
SELECT dc_bind('now', 'likes', 'post', build => 'now');
SELECT dc_bind('dnow', 'likes', 'post', distinct_of => 'amount', build => 'now');
INSERT INTO likes VALUES (6, 'own', 2);
SELECT drift('now'), drift('dnow'), state('now');
COMMIT;
SELECT drift('now'), drift('dnow'), state('now'), dc_get('now', '6') = (SELECT count(*) FROM likes WHERE post = 6) AS same;
-- a session with other transactions
SET default_transaction_isolation = 'serializable';
CALL dc_build('s', 1);
SET default_transaction_isolation = 'repeatable read';
CALL dc_build('s', 1);
RESET default_transaction_isolation;
-- an interrupted build goes on where it was; one that has to begin again does
SELECT dc_create('i');
SELECT dc_bind('i', 'likes', 'post', build => 'none');
SELECT dc_source_fix('i', ARRAY['0', '11', '20', '3', '5']) IS NOT NULL AS fixed;
UPDATE dcounter.source_state SET built_to = '5' WHERE counter = 'i'::regclass;
CALL dc_build('i', 1);
SELECT key, drift, state('i') FROM dc_source_check('i');
CALL dc_build('i', 1);
SELECT key, drift, state('i') FROM dc_source_check('i');
-- not if something may not have been counted since it began
SET session_replication_role = replica;
INSERT INTO likes VALUES (4, 'unseen', 1);
RESET session_replication_role;
UPDATE dcounter.source_state SET built_to = '5' WHERE counter = 'i'::regclass;
ALTER TABLE likes DISABLE TRIGGER USER;
ALTER TABLE likes ENABLE TRIGGER USER;
SELECT state('i');
CALL dc_build('i', 1);
SELECT key, drift, state('i') FROM dc_source_check('i');
CALL dc_build('n');

-- more than fits into memory
CREATE TABLE many (k text, v bigint);
INSERT INTO many SELECT repeat(md5((i % 20000)::text), 4), i FROM generate_series(1, 40000) AS i;
SELECT dc_create('many_n');
SELECT dc_bind('many_n', 'many', 'k', value => 'v', build => 'none');
SET maintenance_work_mem = '1MB';
SELECT count(*), sum(drift), sum(source), sum(c.counter), min(source), max(key) = (SELECT max(k COLLATE "C") FROM many) AS last FROM dc_source_check('many_n') AS c;
SELECT count(*) BETWEEN 1500 AND 2500 AS a_tenth FROM dc_source_check('many_n', sample => 0.1);
CALL dc_build('many_n', 7000);
SELECT drift('many_n'), state('many_n');
SELECT sum(dc_get('many_n', k)) = (SELECT sum(v) FROM many) AS same FROM (SELECT DISTINCT k FROM many) AS k;
-- with sums that leave bigint on the way
CREATE TABLE much (k text, v bigint) WITH (autovacuum_enabled = off);
INSERT INTO much SELECT 'a', 9000000000000000000 FROM generate_series(1, 3);
INSERT INTO much SELECT repeat(md5(i::text), 4), 1 FROM generate_series(1, 15000) AS i;
INSERT INTO much SELECT 'a', -9000000000000000000 FROM generate_series(1, 2);
-- and with so many long keys that a part of them is too much as well
INSERT INTO much SELECT 'bb', 9000000000000000000 FROM generate_series(1, 3);
INSERT INTO much SELECT repeat(md5(i::text), 31), i FROM generate_series(1, 45000) AS i;
INSERT INTO much SELECT k, 1 FROM much WHERE length(k) > 900;
INSERT INTO much SELECT 'bb', -9000000000000000000 FROM generate_series(1, 2);
SELECT dc_create('much_s');
SELECT dc_bind('much_s', 'much', 'k', value => 'v', build => 'none');
SELECT length(key) AS length, count(*), count(DISTINCT key) AS keys, sum(c.source) AS source, sum(c.drift) AS drift FROM dc_source_check('much_s') AS c GROUP BY 1 ORDER BY 1;
SELECT dc_unbind('much_s');
RESET maintenance_work_mem;

-- partitions; a counter table with partitions; other types of keys
CREATE TABLE parts (u uuid, k varchar(9), n smallint, i int, at int) PARTITION BY RANGE (at);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts_2 (junk int, at int, i int, n smallint, k varchar(9), u uuid);
ALTER TABLE parts_2 DROP COLUMN junk;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (20);
CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (20) TO (40) PARTITION BY LIST (at);
CREATE TABLE parts_3a PARTITION OF parts_3 FOR VALUES IN (20);
INSERT INTO parts SELECT ('00000000-0000-0000-0000-0000000000' || lpad(to_hex(i), 2, '0'))::uuid, 'k' || i % 4, i % 3, -i, i FROM generate_series(0, 20) AS i;
SELECT dc_create('pu', partitions => 4), dc_create('pk'), dc_create('pn'), dc_create('pi');
SELECT dc_bind('pu', 'parts', 'u', build => 'none'), dc_bind('pk', 'parts', 'k', build => 'none'), dc_bind('pn', 'parts', 'n', value => 'at', build => 'none'), dc_bind('pi', 'parts', 'i', build => 'none');
SELECT drift(c) FROM unnest('{pu,pk,pn,pi}'::regclass[]) AS c;
CREATE INDEX ON parts (u); CREATE INDEX ON parts (k); CREATE INDEX ON parts (n); CREATE INDEX ON parts (i);
SELECT * FROM dc_source_check('pu', ARRAY['00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000A', '0000000000000000000000000000000a', '00000000-0000-0000-0000-000000000014', '{00000000-0000-0000-0000-000000000014}', '0']);
SELECT * FROM dc_source_check('pk', ARRAY['k1', 'k11', 'K1']);
SELECT * FROM dc_source_check('pn', ARRAY['1', '-0', '0', '32768', '65537']);
SELECT * FROM dc_source_check('pi', ARRAY['-1', '-0', '0', '4294967295', '-20']);
CALL dc_build('pu', 5); CALL dc_build('pk'); CALL dc_build('pn'); CALL dc_build('pi');
SELECT drift(c), state(c) FROM unnest('{pu,pk,pn,pi}'::regclass[]) AS c;
UPDATE parts SET at = at + 10 WHERE at BETWEEN 5 AND 9;
SELECT drift(c) FROM unnest('{pu,pk,pn,pi}'::regclass[]) AS c;

-- functions that see rows whose triggers have not run yet
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM dc_source_fix('n', ARRAY[NEW.post::text]); RETURN NEW; END $$;
CREATE TRIGGER a_meddle AFTER INSERT ON likes FOR EACH ROW EXECUTE FUNCTION meddle();
INSERT INTO likes VALUES (30, 'a', 1);
DROP TRIGGER a_meddle ON likes;
CREATE FUNCTION meddling(k int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM dc_source_check('n'); RETURN k; END $$;
INSERT INTO likes SELECT meddling(k), 'a' FROM generate_series(30, 32) AS k;
SELECT count(*) FROM likes WHERE post >= 30;

-- snapshots that are too old
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT drift('n');
SELECT dc_source_fix('n', ARRAY['1']);
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
CALL dc_build('n');
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO likes VALUES (5, 'own', 1);
SELECT drift('n');
ALTER TABLE likes ADD COLUMN more int;
SELECT drift('n');
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_create('rr');
SELECT dc_bind('rr', 'likes', 'post', build => 'now');
SELECT drift('rr');
ROLLBACK;

-- errors
SELECT dc_create('unbound');
SELECT dc_source_check('unbound');
SELECT dc_source_fix('unbound', '{a}');
CALL dc_build('unbound');
SELECT dc_source_check('likes');
SELECT dc_source_check(NULL);
SELECT dc_source_fix('n', NULL);
SELECT dc_source_fix('n', ARRAY[NULL]);
SELECT dc_source_check('n', ARRAY['a', NULL]);
SELECT dc_source_check('n', sample => 0);
SELECT dc_source_check('n', sample => 1.5);
SELECT dc_source_check('n', sample => 'NaN');
CALL dc_build('n', 0);
CALL dc_build('n', NULL);
CALL dc_build(NULL);
SELECT dc_source_check('n', ARRAY[repeat('x', 1025)]);
BEGIN READ ONLY;
SELECT drift('n');
SELECT dc_source_fix('n', '{1}');
ROLLBACK;
-- values that leave bigint
CREATE TABLE large (k text, v bigint);
INSERT INTO large VALUES ('a', 9223372036854775807), ('a', 5), ('a', -6), ('b', 9223372036854775807), ('b', 1);
SELECT dc_create('large_s');
SELECT dc_bind('large_s', 'large', 'k', value => 'v', build => 'none');
SELECT * FROM dc_source_check('large_s', to_key => 'a');
SELECT * FROM dc_source_check('large_s');
-- a build passes over b, so the counter is not exact
CALL dc_build('large_s');
SELECT state, dc_get('large_s', 'a') FROM dc_stat_drift WHERE counter = 'large_s'::regclass;
DELETE FROM large WHERE v = 1;
-- b: -1 was counted, so the difference is more than bigint has
CALL dc_build('large_s');
SELECT state FROM dc_stat_drift WHERE counter = 'large_s'::regclass;
DELETE FROM large WHERE k = 'b';

-- rights
CREATE ROLE bound_reader; CREATE ROLE bound_owner;
GRANT USAGE, CREATE ON SCHEMA bound_check TO bound_reader, bound_owner;
SET ROLE bound_reader;
SELECT drift('n');
RESET ROLE;
GRANT SELECT ON likes TO bound_reader;
SET ROLE bound_reader;
SELECT drift('n');
RESET ROLE;
GRANT SELECT ON n, n_shard TO bound_reader;
SET ROLE bound_reader;
SELECT drift('n');
SELECT dc_source_fix('n', '{1}');
CALL dc_build('n');
RESET ROLE;
ALTER TABLE likes ENABLE ROW LEVEL SECURITY;
SELECT drift('n');
SET ROLE bound_reader;
SELECT drift('n');
RESET ROLE;
ALTER TABLE likes DISABLE ROW LEVEL SECURITY;
ALTER TABLE n OWNER TO bound_owner;
SET ROLE bound_owner;
SELECT dc_source_fix('n', '{1}');
CALL dc_build('n');
RESET ROLE;

-- rows of pages that are visible to everybody are counted in the index: not those that were deleted or are not
-- committed, in VACUUMed pages and in others
CREATE TABLE seen (k int, t text, v int DEFAULT 1) WITH (autovacuum_enabled = off);
CREATE INDEX ON seen (k);
CREATE INDEX ON seen (t);
SELECT dc_create('seen_k'), dc_create('seen_t'), dc_create('seen_v');
SELECT dc_bind('seen_k', 'seen', 'k', build => 'none'), dc_bind('seen_t', 'seen', 't', value => '3', build => 'none'), dc_bind('seen_v', 'seen', 'k', value => 'v', filter => 'v > 0', build => 'none');
CREATE FUNCTION seen() RETURNS TABLE (counter text, key text, source bigint, counted bigint, drift bigint) LANGUAGE sql AS $$
	SELECT c, s.* FROM unnest(ARRAY['seen_k', 'seen_t', 'seen_v']) AS c, dc_source_check(c, ARRAY['1', '2', '3', 'a1', 'a2', 'a3']) AS s ORDER BY 1, 2 $$;
INSERT INTO seen SELECT i % 3, 'a' || i % 3 FROM generate_series(1, 3000) AS i;
VACUUM seen;
SELECT count(*) FROM seen();
SET session_replication_role = replica;
DELETE FROM seen WHERE ctid IN (SELECT ctid FROM seen WHERE k = 1 ORDER BY ctid LIMIT 5);
INSERT INTO seen VALUES (2, 'a2'), (NULL, 'a2');
BEGIN;
DELETE FROM seen WHERE k = 2 AND ctid IN (SELECT max(ctid) FROM seen WHERE k = 2);
UPDATE seen SET v = 0 WHERE ctid IN (SELECT min(ctid) FROM seen WHERE k = 2);
SELECT * FROM seen();
ROLLBACK;
SELECT * FROM seen();
VACUUM seen;
SELECT * FROM seen();
RESET session_replication_role;
SELECT (dc_source_fix('seen_k', '{1,2}')).*;
SELECT (dc_source_fix('seen_t', '{a1,a2}')).*;
SELECT * FROM seen();

-- a key whose sum leaves bigint does not keep the others from being compared; nor does one whose sums are the same
CREATE TABLE vast (k text, v bigint);
SELECT dc_create('vast_k');
SELECT dc_bind('vast_k', 'vast', 'k', value => 'v', build => 'none');
INSERT INTO vast VALUES ('a', 9223372036854775807), ('b', 1);
INSERT INTO vast VALUES ('a', 9223372036854775807);
SELECT * FROM dc_source_check('vast_k');
SET session_replication_role = replica;
INSERT INTO vast VALUES ('a', 2), ('b', 2);
RESET session_replication_role;
SELECT * FROM dc_source_check('vast_k');
SELECT * FROM dc_source_check('vast_k', ARRAY['b']);
\set VERBOSITY sqlstate
SELECT * FROM dc_source_check('vast_k', ARRAY['a']);
\set VERBOSITY default

SET client_min_messages = warning;
DROP SCHEMA bound_check CASCADE;
DROP ROLE bound_reader; DROP ROLE bound_owner;
-- ... nor from being built and verified, by scan and by index: b is found to differ
CREATE TABLE vast (k text, v bigint);
INSERT INTO vast VALUES ('a', 9223372036854775807), ('a', 9223372036854775807), ('b', 1);
SELECT dc_create('vast_k');
SELECT dc_bind('vast_k', 'vast', 'k', value => 'v', build => 'none');
CALL dc_build('vast_k');
SET client_min_messages = error;
SET session_replication_role = replica;
INSERT INTO vast VALUES ('b', 2);
RESET session_replication_role;
CALL dc_maintain();
SELECT state, passes, drifted_keys FROM dc_stat_drift WHERE counter = 'vast_k'::regclass;
SELECT key, drift FROM dc_source_fix('vast_k', ARRAY['b']);
CREATE INDEX ON vast (k);
SET session_replication_role = replica;
INSERT INTO vast VALUES ('b', 2);
RESET session_replication_role;
CALL dc_maintain();
SELECT state, passes, drifted_keys FROM dc_stat_drift WHERE counter = 'vast_k'::regclass;
DROP TABLE vast;
SELECT dc_drop('vast_k');
