-- What members have not read: marks, and what may happen to the counter
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
\pset null NULL

SELECT dc_create('messages');
SELECT dc_unread_create('seen', 'messages');
\d seen
SELECT unread, name, counter, owner = current_user::regrole FROM dc_unread_tables;
SELECT obj_description('seen'::regclass);

-- Nothing is written for members that have read nothing; unknown keys and members are nothing special
SELECT dc_incr('messages', 'general'), dc_incr('messages', 'general'), dc_incr('messages', 'random');
SELECT * FROM dc_unread('seen', 'ann', ARRAY['random', 'general', 'nothing', 'general']);
SELECT * FROM dc_unread('seen', 'ann', '{}'::text[]);
SELECT count(*) FROM seen;

-- A mark says how much was read; twice, and too late, are harmless
SELECT dc_mark_read('seen', 'ann', 'general');
SELECT dc_mark_read('seen', 'ann', 'general'), dc_mark_read('seen', 'ann', 'general', 1), dc_mark_read('seen', 'ann', 'general', 0);
SELECT * FROM dc_unread('seen', 'ann', ARRAY['general', 'random']);
SELECT dc_incr('messages', 'general', 3);
SELECT * FROM dc_unread('seen', 'ann', ARRAY['general', 'random']);
SELECT dc_mark_read('seen', 'ann', 'general', 4);
SELECT * FROM dc_unread('seen', 'ann', ARRAY['general']);
-- More than there is: what comes later stays unread
SELECT dc_mark_read('seen', 'ann', 'general', 1000000), dc_mark_read('seen', 'ann', 'general', 9223372036854775807);
SELECT * FROM dc_unread('seen', 'ann', ARRAY['general']);
SELECT dc_incr('messages', 'general');
SELECT unread FROM dc_unread('seen', 'ann', ARRAY['general']);
SELECT unread FROM dc_unread('seen', 'ben', ARRAY['general']);
-- Nothing needs no row
SELECT dc_mark_read('seen', 'ann', 'nothing'), dc_mark_read('seen', 'ann', 'nothing', 5);
SELECT * FROM seen ORDER BY member, key;

-- Members and keys are of any type that keys have, each of its own
SELECT dc_mark_read('seen', 7, 'general'), dc_mark_read('seen', '7'::text, 'random'), dc_mark_read('seen', 7::smallint, 12), dc_mark_read('seen', '00000000-0000-0000-0000-00000000002a'::uuid, 'general');
SELECT dc_incr('messages', 12, 2);
SELECT *, pg_typeof(key) FROM dc_unread('seen', 7, ARRAY['general', 'random']);
SELECT *, pg_typeof(key) FROM dc_unread('seen', '7', ARRAY[12, 13]);
SELECT *, pg_typeof(key) FROM dc_unread('seen', '00000000-0000-0000-0000-00000000002a'::uuid, ARRAY['00000000-0000-0000-0000-00000000002a']::uuid[]);
SELECT dc_mark_read(unread => 'seen', member => 'kim'::varchar, key => 'general'::name, upto => 2);
SELECT * FROM dc_unread(unread => 'seen', member => 'kim', keys => '{general}');
DELETE FROM seen WHERE member <> 'ann';

-- Deleted messages: never more is unread than there is
SELECT dc_mark_read('seen', 'ann', 'room'), dc_incr('messages', 'room', 10);
SELECT dc_mark_read('seen', 'ann', 'room', 8), dc_decr('messages', 'room', 9);
SELECT * FROM dc_unread('seen', 'ann', '{room}');
SELECT dc_decr('messages', 'room', 5);
SELECT * FROM dc_unread('seen', 'ann', '{room}');

-- The counter is set: nothing is unread of what is gone, and the next message is
CREATE FUNCTION unread_of(k text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s %s/%s/%s', m, unread, seen, upto), ', ' ORDER BY m)
	FROM unnest(ARRAY['all', 'some', 'none']) AS m, dc_unread('seen', m, ARRAY[k]) $$;
CREATE FUNCTION read_some(k text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM dc_incr('messages', k, 10);
	PERFORM dc_mark_read('seen', 'some', k, 7), dc_mark_read('seen', 'all', k);
END $$;
SELECT read_some(k) FROM unnest(ARRAY['reset', 'deleted', 'set', 'up', 'hand']) AS k;
SELECT unread_of('reset');
SELECT dc_reset('messages', 'reset'), unread_of('reset');
SELECT dc_incr('messages', 'reset');
SELECT unread_of('reset');
SELECT dc_mark_read('seen', 'all', 'reset'), dc_mark_read('seen', 'some', 'reset');
SELECT unread_of('reset');
SELECT dc_set('messages', 'set', 2);
SELECT unread_of('set');
SELECT dc_incr('messages', 'set');
SELECT unread_of('set');
SELECT dc_set('messages', 'up', 12);
SELECT unread_of('up');
-- Deleted: what it has counted is noted, once for all members
SELECT dc_delete('messages', 'deleted'), unread_of('deleted');
SELECT * FROM seen WHERE key = 'deleted' ORDER BY member;
SELECT dc_incr('messages', 'deleted');
SELECT unread_of('deleted');
SELECT dc_mark_read('seen', 'all', 'deleted', 10);
SELECT unread_of('deleted');
SELECT dc_mark_read('seen', 'all', 'deleted');
SELECT unread_of('deleted');
SELECT dc_incr('messages', 'deleted', 20);
SELECT dc_compact('messages') >= 0, unread_of('deleted');
SELECT dc_delete('messages', 'deleted'), dc_delete('messages', 'deleted'), dc_delete('messages', 'unknown');
SELECT dc_incr('messages', 'deleted');
SELECT unread_of('deleted');
SELECT * FROM seen WHERE member = '' ORDER BY key;
-- in one transaction, and rolled back
BEGIN;
SELECT dc_mark_read('seen', 'all', 'deleted');
SELECT dc_delete('messages', 'deleted'), dc_incr('messages', 'deleted', 2), unread_of('deleted');
SAVEPOINT one;
SELECT dc_delete('messages', 'deleted');
SELECT dc_mark_read('seen', 'none', 'deleted');
SELECT unread_of('deleted');
ROLLBACK TO one;
SELECT unread_of('deleted');
ROLLBACK;
SELECT unread_of('deleted');
-- Rows of the counter that are changed by hand: nothing is unread until the member marks the key
DELETE FROM messages WHERE key = 'hand';
DELETE FROM messages_shard WHERE key = 'hand';
SELECT dc_incr('messages', 'hand', 2);
SELECT unread_of('hand');
SELECT dc_mark_read('seen', 'all', 'hand', 1);
SELECT dc_incr('messages', 'hand');
SELECT unread_of('hand');
-- A number below zero, by hand, is as none
UPDATE seen SET seen = -5 WHERE key = 'hand' AND member = 'all';
INSERT INTO seen VALUES ('', 'hand', -7);
SELECT unread_of('hand');
SELECT dc_mark_read('seen', 'all', 'hand');
SELECT unread_of('hand');

-- The end of bigint
SELECT dc_incr('messages', 'huge', 9223372036854775807), dc_incr('messages', 'huge2', 4611686018427387904);
SELECT dc_mark_read('seen', 'all', 'huge'), dc_mark_read('seen', 'all', 'huge2');
SELECT unread_of('huge'), unread_of('huge2');
SELECT dc_set('messages', 'huge', 5);
SELECT unread_of('huge');
SELECT dc_delete('messages', 'huge'), dc_incr('messages', 'huge', 5), unread_of('huge');
SELECT dc_set('messages', 'huge2', 4611686018427387910);
SELECT unread_of('huge2');
SELECT dc_delete('messages', 'huge2'), unread_of('huge2');

DELETE FROM seen WHERE key LIKE 'huge%';

-- Messages of this transaction count, and go with it
BEGIN;
SELECT dc_incr('messages', 'tx'), dc_incr('messages', 'tx', 2);
SELECT unread_of('tx');
SELECT dc_mark_read('seen', 'all', 'tx');
SAVEPOINT one;
SELECT dc_incr('messages', 'tx', 5), dc_mark_read('seen', 'all', 'tx'), dc_mark_read('seen', 'some', 'tx', 7);
SELECT unread_of('tx');
ROLLBACK TO one;
SELECT unread_of('tx');
SELECT dc_incr('messages', 'tx'), unread_of('tx');
COMMIT;
SELECT unread_of('tx');
BEGIN;
SELECT dc_mark_read('seen', 'all', 'tx');
ROLLBACK;
SELECT unread_of('tx');
-- several marks of one statement
SELECT dc_mark_read('seen', 'all', 'tx', 2), dc_mark_read('seen', 'all', 'tx', 4), dc_mark_read('seen', 'all', 'tx', 3);
SELECT dc_mark_read('seen', 'many', 'tx', n) FROM generate_series(1, 4) AS n;
SELECT dc_mark_read('seen', 'm' || m, 'tx', m) FROM generate_series(1, 3) AS m, generate_series(1, 2);
SELECT member, seen FROM seen WHERE key = 'tx' ORDER BY member;
UPDATE seen SET seen = 0 WHERE key = 'tx';
UPDATE seen AS s SET seen = 1 FROM generate_series(1, 2) WHERE key = 'tx' AND dc_mark_read('seen', 'all', 'tx', 3) IS NOT NULL;
SELECT member, seen FROM seen WHERE key = 'tx' ORDER BY member;

-- Many keys at once, each once, in any order, of any type; with upto only so much
SELECT dc_incr('messages', k, 10) FROM unnest(ARRAY['m1', 'm2', '33']) AS k;
SELECT dc_mark_read_many('seen', 'mia', ARRAY['m2', 'm1', 'nothing', 'm2'], ARRAY[3, 1, 5, 2]);
SELECT * FROM dc_unread('seen', 'mia', ARRAY['m1', 'm2', 'nothing', '33']);
SELECT dc_mark_read_many('seen', 'mia', ARRAY[33, 34]), dc_mark_read_many('seen', 'mia', ARRAY['m1', 'm2'], ARRAY[4, 0]), dc_mark_read_many('seen', 'mia', '{}'::text[]);
SELECT * FROM dc_unread('seen', 'mia', ARRAY['m1', 'm2', 'nothing', '33']);
SELECT dc_mark_read_many('seen', 'mia', array_agg(key), array_agg(upto)) FROM dc_unread('seen', 'mia', ARRAY['m1', 'm2', 'nothing', '33']);
SELECT * FROM seen WHERE member = 'mia' ORDER BY key;
SELECT dc_mark_read_many('seen', 7, ARRAY['m1', 'm2']), dc_mark_read_many('seen', '00000000-0000-0000-0000-00000000002a'::uuid, ARRAY['m1']), dc_mark_read_many(unread => 'seen', member => 'kim', keys => ARRAY[33::bigint], upto => ARRAY[9223372036854775807]);
SELECT member, key, seen FROM seen WHERE key IN ('m1', 'm2', '33') AND member <> 'mia' ORDER BY 1, 2;
-- one that was deleted, and one that lost its rows: its watermark is taken back
DELETE FROM messages WHERE key = 'm2';
DELETE FROM messages_shard WHERE key = 'm2';
SELECT dc_delete('messages', 'm1'), dc_incr('messages', k, 2) FROM unnest(ARRAY['m1', 'm2']) AS k;
SELECT * FROM dc_unread('seen', 'mia', ARRAY['m1', 'm2']);
SELECT dc_mark_read_many('seen', 'mia', ARRAY['m1', 'm2']);
SELECT * FROM dc_unread('seen', 'mia', ARRAY['m1', 'm2']);
SELECT dc_mark_read_many('seen', 'lots', array_agg('l' || i)), dc_incr_many('messages', array_agg('l' || i)) FROM generate_series(1, 3000) AS i;
SELECT dc_mark_read_many('seen', 'lots', array_agg('l' || i)) FROM generate_series(3000, 1, -1) AS i;
SELECT sum(unread), sum(seen), count(*) FROM dc_unread('seen', 'lots', ARRAY(SELECT 'l' || i FROM generate_series(1, 3001) AS i));
DELETE FROM seen WHERE member IN ('mia', '7', 'kim', 'lots') OR key IN ('m1', 'm2', '33');

-- Bad input
SELECT dc_mark_read_many(NULL, 'ann', '{general}');
SELECT dc_mark_read_many('seen', NULL::text, '{general}');
SELECT dc_mark_read_many('seen', 'ann', NULL::text[]);
SELECT dc_mark_read_many('seen', 'ann', ARRAY['general', NULL]);
SELECT dc_mark_read_many('seen', '', '{general}');
SELECT dc_mark_read_many('seen', 'ann', '{general,random}', '{1}');
SELECT dc_mark_read_many('seen', 'ann', '{general,random}', '{1,NULL}');
SELECT dc_mark_read_many('seen', 'ann', '{general,random}', '{1,-1}');
SELECT dc_mark_read_many('seen', 'ann', ARRAY['general', repeat('x', 1025)]);
SELECT dc_mark_read_many('messages', 'ann', '{general}');
SELECT dc_mark_read(NULL, 'ann', 'general');
SELECT dc_mark_read('seen', NULL::text, 'general');
SELECT dc_mark_read('seen', 'ann', NULL);
SELECT dc_mark_read('seen', '', 'general');
SELECT dc_mark_read('seen', 'ann', 'general', -1);
SELECT dc_mark_read('seen', 'ann', repeat('x', 1024 * 1024));
SELECT dc_mark_read('seen', repeat('x', 1024 * 1024), 'general');
SELECT dc_mark_read('seen', repeat('x', 1025), 'general');
SELECT dc_mark_read('seen', 1.5, 'general');
SELECT dc_mark_read('seen', 'ann', 1.5);
SELECT dc_mark_read('messages', 'ann', 'general');
SELECT dc_mark_read(4711::regclass, 'ann', 'general');
SELECT * FROM dc_unread('seen', 'ann', NULL::text[]);
SELECT * FROM dc_unread('seen', 'ann', ARRAY['general', NULL]);
SELECT * FROM dc_unread('seen', '', ARRAY['general']);
SELECT * FROM dc_unread(NULL, 'ann', ARRAY['general']);
SELECT * FROM dc_unread('seen', NULL::bigint, ARRAY['general']);
SELECT * FROM dc_unread('seen', 'ann', ARRAY[repeat('x', 1025)]);
SELECT * FROM dc_unread('messages', 'ann', ARRAY['general']);
-- The longest member and key
SELECT dc_incr('messages', k) FROM (SELECT string_agg(md5(i::text), '') AS k FROM generate_series(1, 32) AS i) AS s;
SELECT length(k), dc_mark_read('seen', reverse(k), k), dc_mark_read('seen', reverse(k), k) FROM (SELECT string_agg(md5(i::text), '') AS k FROM generate_series(1, 32) AS i) AS s;
SELECT unread, seen FROM (SELECT string_agg(md5(i::text), '') AS k FROM generate_series(1, 32) AS i) AS s, dc_unread('seen', reverse(k), ARRAY[k, reverse(k)]);
BEGIN READ ONLY;
SELECT unread FROM dc_unread('seen', 'ben', ARRAY['general']);
SELECT dc_mark_read('seen', 'ann', 'general');
ROLLBACK;
BEGIN READ ONLY;
SELECT dc_mark_read_many('seen', 'ann', '{general}');
ROLLBACK;

-- Rights: of the counter SELECT, of the table SELECT to read, INSERT and UPDATE to mark; deleting a key needs none of it
CREATE ROLE regress_unread_a;
CREATE ROLE regress_unread_b;
SET ROLE regress_unread_a;
SELECT dc_unread_create('mine', 'messages');
SELECT * FROM dc_unread('seen', 'ann', ARRAY['general']);
RESET ROLE;
GRANT SELECT ON seen TO regress_unread_a;
SET ROLE regress_unread_a;
SELECT * FROM dc_unread('seen', 'ann', ARRAY['general']);
RESET ROLE;
GRANT SELECT ON messages TO regress_unread_a;
SET ROLE regress_unread_a;
SELECT unread FROM dc_unread('seen', 'ben', ARRAY['general']);
SELECT dc_mark_read('seen', 'ben', 'general');
RESET ROLE;
GRANT INSERT ON seen TO regress_unread_a;
SET ROLE regress_unread_a;
SELECT dc_mark_read('seen', 'ben', 'general');
RESET ROLE;
GRANT UPDATE ON seen TO regress_unread_a;
SET ROLE regress_unread_a;
SELECT dc_mark_read_many('seen', 'ben', '{general}', '{1}');
SELECT dc_mark_read('seen', 'ben', 'general', 1);
SELECT dc_unread_drop('seen');
SELECT dc_unread_adopt('seen', 'messages');
RESET ROLE;
REVOKE ALL ON seen FROM regress_unread_a;
GRANT DELETE ON messages TO regress_unread_a;
SET ROLE regress_unread_a;
SELECT dc_delete('messages', 'random');
RESET ROLE;
SELECT * FROM seen WHERE key = 'random';

-- What its owner may put on it. To be read, it must have its shape
CREATE INDEX ON seen (key);
CREATE INDEX ON seen (seen);
SELECT dc_incr('messages', 'own');
SELECT dc_mark_read('seen', 'own', 'own');
SELECT dc_incr('messages', 'own');
SELECT dc_mark_read('seen', 'own', 'own');
SET enable_seqscan = off;
SELECT * FROM seen WHERE key = 'own';
SELECT count(*) FROM seen WHERE seen = 2 AND member = 'own';
RESET enable_seqscan;
CREATE INDEX seen_brin ON seen USING brin (seen);
SELECT dc_mark_read('seen', 'own', 'own');
DROP INDEX seen_brin;
CREATE INDEX seen_expression ON seen ((seen + 1));
SELECT dc_mark_read('seen', 'own', 'own');
SELECT unread FROM dc_unread('seen', 'own', '{own}');
DROP INDEX seen_expression;
CREATE FUNCTION noisy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'run as %', current_user; RETURN NEW; END $$;
CREATE TRIGGER noisy BEFORE INSERT OR UPDATE ON seen FOR EACH ROW EXECUTE FUNCTION noisy();
SELECT dc_mark_read('seen', 'own', 'own');
SELECT unread FROM dc_unread('seen', 'own', '{own}');
SELECT dc_delete('messages', 'own');
DROP TRIGGER noisy ON seen;
CREATE RULE nothing AS ON INSERT TO seen DO INSTEAD NOTHING;
SELECT dc_mark_read('seen', 'own', 'own');
DROP RULE nothing ON seen;
ALTER TABLE seen ADD CHECK (seen < 0) NOT VALID;
SELECT dc_mark_read('seen', 'own', 'own');
ALTER TABLE seen DROP CONSTRAINT seen_seen_check;
ALTER TABLE seen ADD COLUMN more int;
SELECT dc_mark_read('seen', 'own', 'own');
SELECT unread FROM dc_unread('seen', 'own', '{own}');
ALTER TABLE seen DROP COLUMN more;
SELECT dc_mark_read('seen', 'own', 'own'), dc_incr('messages', 'own');
ALTER TABLE seen ADD COLUMN twice bigint GENERATED ALWAYS AS (seen * 2) STORED;
SELECT dc_mark_read('seen', 'own', 'own');
ALTER TABLE seen DROP COLUMN twice;
ALTER TABLE seen ENABLE ROW LEVEL SECURITY;
SELECT dc_mark_read('seen', 'own', 'own');
SELECT unread FROM dc_unread('seen', 'own', '{own}');
ALTER TABLE seen DISABLE ROW LEVEL SECURITY;
BEGIN;
ALTER TABLE seen ALTER seen TYPE numeric;
SELECT unread FROM dc_unread('seen', 'own', '{own}');
ROLLBACK;
BEGIN;
ALTER TABLE seen ALTER key TYPE text COLLATE "POSIX";
SELECT unread FROM dc_unread('seen', 'own', '{own}');
ROLLBACK;
BEGIN;
ALTER TABLE seen DROP CONSTRAINT seen_pkey;
SELECT unread FROM dc_unread('seen', 'own', '{own}');
ROLLBACK;
BEGIN;
ALTER TABLE seen DROP CONSTRAINT seen_pkey, ADD PRIMARY KEY (key, member);
SELECT unread FROM dc_unread('seen', 'own', '{own}');
ROLLBACK;
BEGIN;
ALTER TABLE seen DROP CONSTRAINT seen_pkey, ADD PRIMARY KEY (member, key) DEFERRABLE INITIALLY DEFERRED;
SELECT dc_mark_read('seen', 'own', 'own');
ROLLBACK;
BEGIN;
ALTER TABLE seen SET UNLOGGED;
SELECT dc_mark_read('seen', 'own', 'own');
ROLLBACK;
BEGIN;
CREATE TABLE child () INHERITS (seen);
SELECT dc_mark_read('seen', 'own', 'own');
ROLLBACK;
BEGIN;
ALTER TABLE seen DROP CONSTRAINT seen_pkey, ALTER seen DROP NOT NULL;
ALTER TABLE seen ADD PRIMARY KEY (member, key);
SELECT dc_mark_read('seen', 'own', 'own');
ROLLBACK;
-- a partition takes certain rows alone
BEGIN;
CREATE TABLE members (member text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, seen bigint NOT NULL) PARTITION BY LIST (member);
ALTER TABLE members ATTACH PARTITION seen DEFAULT;
CREATE TABLE of_ben PARTITION OF members FOR VALUES IN ('newcomer');
SELECT unread FROM dc_unread('seen', 'own', '{own}');
SELECT dc_mark_read('seen', 'newcomer', 'own');
ROLLBACK;
-- columns in another order
BEGIN;
ALTER TABLE seen RENAME member TO was;
ALTER TABLE seen DROP CONSTRAINT seen_pkey, ADD COLUMN member text COLLATE "C";
UPDATE seen SET member = was;
ALTER TABLE seen DROP COLUMN was, ADD PRIMARY KEY (member, key);
SELECT dc_mark_read('seen', 'other', 'own');
SELECT unread, seen FROM dc_unread('seen', 'other', '{own}');
ROLLBACK;
REINDEX TABLE seen;
VACUUM FULL seen;
SELECT dc_mark_read('seen', 'own', 'own');
SELECT unread FROM dc_unread('seen', 'own', '{own}');

-- Names, schemas and owners
CREATE SCHEMA other;
ALTER TABLE seen RENAME TO looked_at;
ALTER TABLE looked_at SET SCHEMA other;
ALTER TABLE messages RENAME TO posts;
SELECT unread, name, counter, owner = current_user::regrole FROM dc_unread_tables;
SELECT unread FROM dc_unread('other.looked_at', 'own', '{own}');
GRANT CREATE, USAGE ON SCHEMA public, other TO regress_unread_a, regress_unread_b;
ALTER TABLE posts OWNER TO regress_unread_a;
SELECT relname, relowner::regrole FROM pg_class WHERE oid IN ('posts'::regclass, 'posts_shard'::regclass, 'other.looked_at'::regclass) ORDER BY relname;
SELECT unread FROM dc_unread('other.looked_at', 'own', '{own}');
REASSIGN OWNED BY regress_unread_a TO regress_unread_b;
SELECT unread FROM dc_unread('other.looked_at', 'own', '{own}');
ALTER TABLE other.looked_at OWNER TO regress_unread_a;
SELECT * FROM dc_unread_tables;
SELECT * FROM dc_unread('other.looked_at', 'own', '{own}');
SELECT dc_unread_adopt('other.looked_at', 'posts');
ALTER TABLE posts OWNER TO regress_unread_a;
SELECT dc_unread_adopt('other.looked_at', 'posts');
SELECT dc_unread_adopt('other.looked_at', 'posts');
SELECT unread FROM dc_unread('other.looked_at', 'own', '{own}');
-- of different owners all the same
ALTER EVENT TRIGGER dcounter_ddl DISABLE;
ALTER TABLE other.looked_at OWNER TO regress_unread_b;
ALTER EVENT TRIGGER dcounter_ddl ENABLE;
SELECT dc_mark_read('other.looked_at', 'own', 'own');
SELECT * FROM dc_unread('other.looked_at', 'own', '{own}');
SELECT dc_delete('posts', 'own'), count(*) FROM other.looked_at WHERE member = '' AND key = 'own';
ALTER TABLE other.looked_at OWNER TO regress_unread_a;

-- TRUNCATE of the counter forgets what was read of it
SELECT dc_incr('posts', 'own', 3);
TRUNCATE posts;
SELECT count(*) FROM other.looked_at;
SELECT dc_incr('posts', 'own', 3);
SELECT dc_mark_read('other.looked_at', 'own', 'own', 1), unread FROM dc_unread('other.looked_at', 'own', '{own}');
TRUNCATE posts, other.looked_at;
SELECT count(*) FROM other.looked_at;
SELECT dc_create('parts', partitions => 3);
SELECT dc_unread_create('seen_parts', 'parts');
SELECT dc_incr('parts', 'k' || i) FROM generate_series(1, 20) AS i;
SELECT dc_mark_read('seen_parts', 'ann', 'k' || i) FROM generate_series(1, 20) AS i;
SELECT sum(unread), sum(seen) FROM dc_unread('seen_parts', 'ann', ARRAY(SELECT 'k' || i FROM generate_series(1, 20) AS i));
SELECT dc_compact('parts') > 0;
TRUNCATE parts_p0;
SELECT count(*) = (SELECT count(*) FROM parts), count(*) BETWEEN 1 AND 19 FROM seen_parts;
SELECT dc_incr('parts', 'k' || i) FROM generate_series(1, 20) AS i;
SELECT sum(unread) FROM dc_unread('seen_parts', 'ann', ARRAY(SELECT 'k' || i FROM generate_series(1, 20) AS i));

-- Several tables of one counter, and what there cannot be
SELECT dc_unread_create('seen_too', 'posts', if_not_exists => true);
SELECT dc_unread_create('seen_too', 'posts', if_not_exists => true);
SELECT dc_unread_create('seen_too', 'posts');
SELECT dc_unread_create('seen_too', 'parts', if_not_exists => true);
SELECT dc_unread_create('posts', 'posts', if_not_exists => true);
SELECT dc_unread_create('pg_temp.seen_temp', 'posts');
SELECT dc_unread_create('a b', 'posts');
SELECT dc_unread_create(NULL, 'posts');
SELECT dc_unread_create('x', NULL);
SELECT dc_unread_create('x', 'posts', NULL);
SELECT dc_unread_create('x', 'seen_parts');
SELECT dc_unread_create('nowhere.x', 'posts');
SELECT dc_stock_create('stock'), dc_ledger_create('ledger');
SELECT dc_unread_create('x', 'stock');
SELECT dc_unread_create('x', 'ledger');
SELECT dc_unread_create('x', 'ledger_limit');
SET ROLE regress_unread_a;
SELECT dc_unread_create('seen_own', 'posts');
RESET ROLE;
SELECT dc_unread_create('"seen ""quoted"""', 'parts');
SELECT dc_unread_drop('"seen ""quoted"""');
SELECT dc_unread_drop('parts');
SELECT dc_unread_drop(NULL);
SELECT dc_unread_adopt('parts', 'posts');
SELECT dc_unread_adopt('seen_parts', 'parts');
SELECT dc_unread_adopt(NULL, 'parts'), 1;
SELECT dc_unread_adopt('seen_parts', NULL);
CREATE TABLE not_one (member text COLLATE "C", key text COLLATE "C", seen int NOT NULL, PRIMARY KEY (member, key));
SELECT dc_unread_adopt('not_one', 'parts');
ALTER TABLE not_one ALTER seen TYPE bigint, ADD COLUMN more int;
SELECT dc_unread_adopt('not_one', 'parts');
ALTER TABLE not_one DROP COLUMN more;
SELECT dc_unread_adopt('not_one', 'parts');
SELECT dc_incr('parts', 'x', 3);
SELECT dc_mark_read('not_one', 'ann', 'x', 2);
SELECT unread FROM dc_unread('not_one', 'ann', '{x}');
SELECT dcounter.on_unread_row_change();
CREATE TABLE t (n regclass NOT NULL, m regclass NOT NULL);
CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION dcounter.on_unread_row_change();
INSERT INTO t VALUES ('t', 't');
DROP TABLE t;

-- Dropping: the counter's unread tables stay, as ordinary ones
SELECT dc_drop('parts');
SELECT unread::text, counter::text FROM dc_unread_tables ORDER BY 1;
SELECT * FROM dc_unread('seen_parts', 'ann', '{k1}');
SELECT count(*) > 0 FROM seen_parts;
DROP TABLE seen_too;
DROP TABLE posts;
SELECT * FROM dc_unread_tables;
SELECT count(*) FROM dcounter.unread;

-- A bound counter is like any
CREATE TABLE source (channel text, body text);
SELECT dc_create('bound');
SELECT dc_bind('bound', 'source', 'channel', build => 'now');
CALL dc_build('bound');
SELECT dc_unread_create('seen_bound', 'bound');
INSERT INTO source SELECT 'a', i FROM generate_series(1, 5) AS i;
SELECT dc_mark_read('seen_bound', 'ann', 'a');
INSERT INTO source VALUES ('a', 6), ('a', 7);
SELECT * FROM dc_unread('seen_bound', 'ann', '{a}');
DELETE FROM source WHERE body = '7';
SELECT * FROM dc_unread('seen_bound', 'ann', '{a}');
TRUNCATE source;
SELECT * FROM dc_unread('seen_bound', 'ann', '{a}');
INSERT INTO source VALUES ('a', 8);
SELECT * FROM dc_unread('seen_bound', 'ann', '{a}');
SELECT dc_drop('bound');

DROP TABLE seen_parts, not_one, seen_own, seen_bound, source;
SELECT dc_drop('stock'), dc_drop('ledger');
DROP FUNCTION unread_of(text), read_some(text), noisy();
DROP SCHEMA other CASCADE;
REVOKE ALL ON SCHEMA public FROM regress_unread_a, regress_unread_b;
DROP ROLE regress_unread_a;
DROP ROLE regress_unread_b;
