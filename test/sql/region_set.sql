-- Keys of counters that several regions count in are set and deleted: here by functions, elsewhere as an apply
-- worker writes what comes
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET timezone = 'UTC';
SET client_min_messages = error; -- wal_level may be any
SELECT dc_region_init('eu') > 0;
SELECT dc_create('likes');
SELECT dc_replicate('likes');
SELECT epoch AS e FROM dcounter.self \gset
CREATE VIEW keys AS
	SELECT k AS key, dc_get('likes', k) AS value, t.inc, t.dec, coalesce(sum(s.inc) FILTER (WHERE s.shard < 0), 0) AS remote_inc, coalesce(sum(s.dec) FILTER (WHERE s.shard < 0), 0) AS remote_dec,
		coalesce(sum(s.inc) FILTER (WHERE s.shard >= 0), 0) AS local_inc, coalesce(sum(s.dec) FILTER (WHERE s.shard >= 0), 0) AS local_dec
	FROM (SELECT key FROM likes UNION SELECT key FROM likes_shard UNION SELECT key FROM likes_set) AS u(k) LEFT JOIN likes AS t ON t.key = k LEFT JOIN likes_shard AS s ON s.key = k
	GROUP BY k, t.inc, t.dec ORDER BY k COLLATE "C";
-- epochs of this database are shown as 0, 1, ...
CREATE VIEW slots AS
	SELECT r.key, r.region, CASE WHEN r.region = 'eu' AND r.epoch >= s.epoch THEN r.epoch - s.epoch ELSE r.epoch END AS epoch, r.inc, r.dec FROM likes_region AS r, dcounter.self AS s ORDER BY 1, 2, r.epoch;
CREATE VIEW sets AS
	SELECT t.key, t.region, t.value, t.deleted, (SELECT string_agg(CASE WHEN v.node ~ '^eu:\d{5,}' THEN 'eu+' || split_part(v.node, ':', 2)::bigint - s.epoch ELSE v.node END
		|| '=' || v.inc || '-' || v.dec || CASE WHEN v.inc_reset = v.inc AND v.dec_reset = v.dec THEN ' closed' WHEN v.inc_reset > 0 OR v.dec_reset > 0 THEN ' closed at ' || v.inc_reset || '-' || v.dec_reset ELSE '' END, ', ' ORDER BY v.node) FROM dc_values(t.upto) AS v) AS upto
	FROM likes_set AS t, dcounter.self AS s ORDER BY 1, 2;
CREATE VIEW is_sound AS SELECT keys = 0 AND inc = 0 AND dec = 0 AS is_sound FROM dc_region_check('likes') WHERE region IS NULL;
-- a state: nodes as region, epoch, inc, dec, and whether it is closed
CREATE FUNCTION upto(text) RETURNS dc_pncounter LANGUAGE sql AS $$
	SELECT ('{' || string_agg(format('"%s:%s": {"inc": %s, "dec": %s, "inc_reset": %s, "dec_reset": %s}', n[1], CASE WHEN n[1] = 'eu' AND length(n[2]) < 5 THEN (n[2]::bigint + s.epoch)::text ELSE n[2] END, n[3], n[4],
		CASE WHEN n[5] = 'closed' THEN n[3] ELSE '0' END, CASE WHEN n[5] = 'closed' THEN n[4] ELSE '0' END), ', ' ORDER BY n[1], n[2]) || '}')::dc_pncounter
	FROM (SELECT string_to_array(u, ' ') FROM unnest(string_to_array($1, ', ')) AS u) AS m(n), dcounter.self AS s $$;

-- Of a key that nobody has counted; the row of totals comes with compaction
SELECT dc_set('likes', 'new', 7), dc_set('likes', 'new', 8), dc_set('likes', 'zero', 0);
TABLE keys;
TABLE slots;
TABLE sets;
TABLE is_sound;
SELECT dc_compact('likes');
TABLE keys;
-- What was counted here is folded into the own slot, and observed
SELECT dc_incr('likes', 'a', 5), dc_decr('likes', 'a', 2);
SELECT dc_set('likes', 'a', 10), dc_get('likes', 'a');
TABLE keys;
TABLE slots;
TABLE sets;
SELECT dc_incr('likes', 'a', 3), dc_compact('likes');
SELECT * FROM keys WHERE key = 'a';
SELECT dc_incr('likes', 'a', 20), dc_set('likes', 'a', -4), dc_incr('likes', 'a', 1);
SELECT * FROM keys WHERE key = 'a';
TABLE slots;
SELECT * FROM sets WHERE key = 'a';
TABLE is_sound;
-- What another region has counted is observed, too; what comes later is on top, and what was observed is not counted again
SET session_replication_role = replica;
INSERT INTO likes_region VALUES ('a', 'us', 7, 100, 30, now());
SELECT dc_reset('likes', 'a');
SELECT dc_get('likes', 'a');
INSERT INTO likes_region VALUES ('a', 'us', 7, 101, 30, now()), ('a', 'us', 7, 100, 20, now());
SELECT dc_get('likes', 'a');
SELECT dc_compact('likes'), dc_set('likes', 'a', 50);
RESET session_replication_role;
SELECT * FROM keys WHERE key = 'a';
SELECT * FROM sets WHERE key = 'a';
TABLE is_sound;
SELECT region, inc, dec, value, complete_to IS NULL FROM dc_get_regions('likes', 'a');
SELECT dc_incr('likes', 'a', 2), region, inc, dec, value FROM dc_get_regions('likes', 'a');
SELECT sum(value) = dc_get('likes', 'a') FROM dc_get_regions('likes', 'a');
SELECT region, epoch IS NULL, keys, inc, dec, digest IS NULL FROM dc_region_check('likes');

-- What another region has set: the later one stays, however they come
SET session_replication_role = replica;
INSERT INTO likes_set VALUES ('a', 'us', 1000, 99, false, upto('us 7 101 30'));
SELECT dc_get('likes', 'a'); -- an older one, that has observed nothing new
INSERT INTO likes_set VALUES ('b', 'us', 1000, 99, false, upto('us 7 10 1')), ('b', 'asia', 2000, 44, false, upto('us 7 5 1, asia 9 3 0'));
SELECT * FROM keys WHERE key = 'b';
SELECT * FROM slots WHERE key = 'b';
INSERT INTO likes_region VALUES ('b', 'us', 7, 12, 1, now()), ('b', 'asia', 9, 3, 0, now()), ('b', 'eu', 5, 1, 0, now());
SELECT dc_get('likes', 'b');
-- a later one of a region, as an update, as an insertion; an earlier one that has observed more
UPDATE likes_set SET hlc = 3000, value = -20, upto = upto('us 7 11 1') WHERE key = 'b' AND region = 'us';
SELECT * FROM keys WHERE key = 'b';
INSERT INTO likes_set VALUES ('b', 'us', 3001, -30, false, upto('us 7 11 1'));
UPDATE likes_set SET hlc = 1999, value = 1, upto = upto('us 7 13 1') WHERE key = 'b' AND region = 'asia';
INSERT INTO likes_set VALUES ('b', 'asia', 500, 2, false, upto('asia 9 4 0'));
SELECT * FROM keys WHERE key = 'b';
SELECT * FROM sets WHERE key = 'b';
SELECT * FROM slots WHERE key = 'b';
TABLE is_sound;
-- what brings nothing writes nothing
CREATE TEMP TABLE before AS SELECT ctid AS tid, xmin::text AS xid FROM likes_set;
INSERT INTO likes_set SELECT key, region, hlc, value, deleted, upto FROM likes_set;
INSERT INTO likes_set VALUES ('b', 'asia', 500, 2, false, upto('asia 9 1 0'));
UPDATE likes_set SET hlc = hlc - 1 WHERE key = 'b';
UPDATE likes_set SET upto = dc_pncounter() WHERE key = 'b';
SELECT count(*) FROM before JOIN likes_set AS s ON (tid, xid) = (s.ctid, s.xmin::text);
SELECT count(*) FROM before;
-- of two at one time all take the same
INSERT INTO likes_set VALUES ('tie', 'us', 1000, 5, false, upto('us 7 1 0'));
INSERT INTO likes_set VALUES ('tie', 'us', 1000, 4, false, upto('us 7 1 0'));
SELECT dc_get('likes', 'tie');
UPDATE likes_set SET value = 6 WHERE key = 'tie';
UPDATE likes_set SET value = 5 WHERE key = 'tie';
INSERT INTO likes_set VALUES ('tie', 'asia', 1000, 9, false, upto('us 7 1 0'));
INSERT INTO likes_set VALUES ('tie 2', 'us', 1000, 0, false, upto('us 7 1 0'));
INSERT INTO likes_set VALUES ('tie 2', 'us', 1000, 0, true, upto('us 7 1 0'));
INSERT INTO likes_set VALUES ('tie 2', 'us', 1000, 0, false, upto('us 7 1 0'));
SELECT deleted FROM likes_set WHERE key = 'tie 2';
DELETE FROM likes_set WHERE key = 'tie 2';
DELETE FROM likes_region WHERE key = 'tie 2';
DELETE FROM likes_shard WHERE key = 'tie 2';
SELECT dc_get('likes', 'tie');
RESET session_replication_role;
-- the next stamp of this region is later than all that it knows, even one from the future
SET session_replication_role = replica;
INSERT INTO likes_set VALUES ('tie', 'asia', 253000000000000000, 10, false, dc_pncounter());
RESET session_replication_role;
SELECT dc_get('likes', 'tie'), dc_set('likes', 'tie', 1), dc_get('likes', 'tie');
SELECT hlc FROM likes_set WHERE key = 'tie' AND region = 'eu';
SELECT dc_get('likes', 'tie');
TABLE is_sound;
-- The row of sets comes before or after the slot, or between two states of it
SET session_replication_role = replica;
INSERT INTO likes_set VALUES ('order', 'us', 10, 1000, false, upto('us 7 50 5'));
INSERT INTO likes_region VALUES ('order', 'us', 7, 50, 5, now());
INSERT INTO likes_region VALUES ('order', 'us', 7, 49, 0, now()), ('order', 'us', 7, 53, 5, now());
INSERT INTO likes_region VALUES ('order 2', 'us', 7, 53, 5, now()), ('order 2', 'us', 7, 49, 0, now());
INSERT INTO likes_set VALUES ('order 2', 'us', 10, 1000, false, upto('us 7 50 5'));
SELECT key, value FROM keys WHERE key LIKE 'order%';
RESET session_replication_role;
-- Several of a key in one transaction, but for what a savepoint has undone
BEGIN;
SELECT dc_incr('likes', 's', 4);
SELECT dc_set('likes', 's', 10);
SAVEPOINT x;
SELECT dc_incr('likes', 's', 1), dc_set('likes', 's', 20), dc_incr('likes', 's', 1);
SELECT dc_delete('likes', 's');
ROLLBACK TO x;
SELECT dc_incr('likes', 's', 2), dc_get('likes', 's');
COMMIT;
SELECT dc_get('likes', 's');
BEGIN;
SELECT dc_set('likes', 's', 100), dc_delete('likes', 'a');
ROLLBACK;
SELECT dc_get('likes', 's'), dc_get('likes', 'a');
TABLE is_sound;

-- What no region would send
SET client_min_messages = warning;
SET session_replication_role = replica;
INSERT INTO likes_set VALUES ('bad', 'us', 1, 1, false, upto('us x 1 0'));
INSERT INTO likes_set VALUES ('bad', 'us', 1, 1, false, '{"us": {"inc": 1}}');
INSERT INTO likes_set VALUES ('bad', 'us', 1, 1, false, '{"us:01": {"inc": 1}}');
INSERT INTO likes_set VALUES ('bad', 'us', 1, 1, false, '{"us:-1": {"inc": 1}}');
INSERT INTO likes_set VALUES ('bad', 'us', 1, 1, false, '{"Us:1": {"inc": 1}}');
INSERT INTO likes_set VALUES ('bad', 'us', 1, 1, false, '{"us:9223372036854775808": {"inc": 1}}');
INSERT INTO likes_set VALUES ('bad', 'us', 1, 1, false, '{"us:1 ": {"inc": 1}}');
INSERT INTO likes_set VALUES ('bad', 'us', 1, 1, false, '{":1": {"inc": 1}}');
INSERT INTO likes_set VALUES ('bad', 'us', 9000000000000000000, 1, false, dc_pncounter());
INSERT INTO likes_set VALUES ('bad', 'us', -1, 1, false, dc_pncounter());
INSERT INTO likes_set VALUES ('bad', 'us', 1, -9223372036854775808, false, dc_pncounter());
INSERT INTO likes_set VALUES ('bad', 'us', 1, 1, true, dc_pncounter());
INSERT INTO likes_set VALUES ('bad', 'us', 1, NULL, false, dc_pncounter());
UPDATE likes_set SET key = 'c' WHERE key = 'b';
UPDATE likes_set SET region = 'moon' WHERE key = 'b' AND region = 'us';
SET client_min_messages = error;
RESET session_replication_role;
SELECT * FROM sets WHERE key = 'bad';
TABLE is_sound;

-- Deleted: the row of totals goes, and the slots are closed
SELECT dc_delete('likes', 'a'), dc_delete('likes', 'a'), dc_delete('likes', 'nothing');
SELECT * FROM keys WHERE key IN ('a', 'nothing');
SELECT * FROM sets WHERE key IN ('a', 'nothing');
SELECT count(*) FROM likes WHERE key = 'a';
SELECT region, inc, dec, value FROM dc_get_regions('likes', 'a');
TABLE is_sound;
-- A key that is not here is set as well: what another region has set it to before does not win
SELECT hlc AS h FROM likes_set WHERE key = 'nothing' \gset
SELECT dc_delete('likes', 'nothing');
SET session_replication_role = replica;
INSERT INTO likes_set VALUES ('nothing', 'us', :h, 51, false, dc_pncounter());
RESET session_replication_role;
SELECT dc_get('likes', 'nothing');
SELECT count(*) FROM likes WHERE key = 'nothing';
-- counted again, in a new slot
SELECT dc_incr('likes', 'a', 3), dc_compact('likes') > 0;
SELECT dc_incr('likes', 'a', 4), dc_compact('likes');
SELECT * FROM slots WHERE key = 'a';
SELECT * FROM keys WHERE key = 'a';
-- set, in another one
SELECT dc_delete('likes', 'a');
SELECT dc_incr('likes', 'a', 9), dc_set('likes', 'a', 12), dc_get('likes', 'a');
SELECT * FROM slots WHERE key = 'a';
SELECT * FROM sets WHERE key = 'a';
TABLE is_sound;
-- one that was only decremented is closed, too
SELECT dc_decr('likes', 'down', 4), dc_compact('likes') > 0, dc_delete('likes', 'down');
SELECT dc_decr('likes', 'down', 1), dc_compact('likes') > 0;
SELECT * FROM slots WHERE key = 'down';
SELECT dc_delete('likes', 'down');
-- Deleted elsewhere: the row of totals goes with the next compaction, the own slot is closed
SELECT dc_incr('likes', 'd', 6), dc_compact('likes') > 0;
SET session_replication_role = replica;
INSERT INTO likes_set VALUES ('d', 'us', 5000, 0, true, upto('eu 0 6 0 closed, us 7 1 0 closed'));
SELECT * FROM keys WHERE key = 'd';
SELECT dc_compact('likes');
SELECT * FROM keys WHERE key = 'd';
SELECT dc_incr('likes', 'd', 1), dc_compact('likes');
SELECT * FROM slots WHERE key = 'd';
-- an amount that the deletion has not observed stays; in a slot that it has closed nobody counts on
SELECT dc_incr('likes', 'd2', 6), dc_compact('likes') > 0;
INSERT INTO likes_set VALUES ('d2', 'us', 5000, 0, true, upto('eu 0 4 0 closed'));
SELECT dc_compact('likes'), dc_get('likes', 'd2');
SELECT dc_incr('likes', 'd2', 1), dc_compact('likes');
SELECT * FROM slots WHERE key = 'd2';
SELECT * FROM keys WHERE key IN ('d', 'd2');
RESET session_replication_role;
TABLE is_sound;

-- A row of a deleted key is inserted again, for regions that have removed it; another one is updated
CREATE VIEW written AS SELECT pg_stat_get_xact_tuples_inserted(r) AS inserted, pg_stat_get_xact_tuples_updated(r) AS updated, pg_stat_get_xact_tuples_deleted(r) AS deleted FROM CAST('likes_set' AS regclass) AS r;
SELECT dc_set('likes', 'w', 1);
BEGIN;
SELECT inserted AS i, updated AS u, deleted AS d FROM written \gset
SELECT dc_set('likes', 'w', 2), dc_delete('likes', 'w');
SELECT inserted - :i, updated - :u, deleted - :d FROM written;
SELECT dc_set('likes', 'w', 3);
SELECT inserted - :i, updated - :u, deleted - :d FROM written;
ROLLBACK;
DROP VIEW written;
-- that may be on another page, which the index has
BEGIN;
DO $$BEGIN FOR i IN 1 .. 300 LOOP PERFORM dc_set('likes', 'w', i); END LOOP; END$$;
COMMIT;
SELECT count(*), min(value), max(value), bool_and(ctid > '(0,1)') FROM likes_set WHERE key = 'w';
SELECT dc_delete('likes', 'w');

-- Other isolation levels
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_set('likes', 'a', 1), dc_delete('likes', 'b'), dc_set('likes', 'rr', 3);
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT dc_set('likes', 'a', 2), dc_set('likes', 'b', 7), dc_delete('likes', 'rr');
COMMIT;
SELECT * FROM keys WHERE key IN ('a', 'b', 'rr');
TABLE is_sound;
BEGIN READ ONLY;
SELECT dc_set('likes', 'a', 1);
ROLLBACK;
BEGIN READ ONLY;
SELECT dc_region_vacuum('likes');
ROLLBACK;

-- Values that leave bigint, and those that nearly do
\set max 9223372036854775807
SELECT dc_set('likes', 'much', :max), dc_incr('likes', 'much', 1);
SELECT dc_get('likes', 'much');
SELECT dc_compact('likes') >= 0;
SELECT dc_set('likes', 'much', -:max);
SELECT dc_get('likes', 'much'), dc_set('likes', 'much', 5), dc_get('likes', 'much');
SELECT dc_set('likes', 'much', -9223372036854775808);
SELECT dc_incr('likes', 'slot', :max - 1), dc_compact('likes') > 0;
SELECT dc_incr('likes', 'slot', 2), dc_set('likes', 'slot', 1);
SELECT dc_set('likes', 'slot', 1);
SELECT dc_get('likes', 'slot');
SET session_replication_role = replica;
INSERT INTO likes_set VALUES ('sum', 'us', 10, :max, false, upto('us 7 ' || :max || ' 0, asia 9 ' || :max || ' ' || :max));
SELECT dc_get('likes', 'sum');
UPDATE likes_set SET hlc = 11, value = -:max WHERE key = 'sum';
SELECT dc_get('likes', 'sum');
RESET session_replication_role;
TABLE is_sound;
SELECT dc_reset('likes', 'sum'), dc_compact('likes') >= 0;
TABLE is_sound;

-- Vacuum
SELECT dc_region_vacuum('likes', NULL);
SELECT dc_region_vacuum('likes', '-1 second');
SELECT dc_region_vacuum('likes');
SELECT count(*) FROM likes_set WHERE deleted;
SELECT dc_create('plain');
SELECT dc_region_vacuum('plain');
SELECT dc_drop('plain');
CREATE ROLE region_user;
GRANT ALL ON likes TO region_user;
GRANT ALL ON SCHEMA public TO region_user;
SET ROLE region_user;
SELECT dc_set('likes', 'by', 5), dc_incr('likes', 'by', 1), dc_delete('likes', 'by');
SELECT dc_region_vacuum('likes');
RESET ROLE;
REVOKE SELECT ON likes FROM region_user;
SET ROLE region_user;
SELECT dc_set('likes', 'by', 5);
RESET ROLE;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_region_vacuum('likes');
ROLLBACK;
SET client_min_messages = notice;
\set VERBOSITY default
-- one whose deletion has not observed all that is observed
SET session_replication_role = replica;
INSERT INTO likes_set VALUES ('open', 'us', 5000, 0, true, upto('us 7 5 0 closed')), ('open', 'asia', 4000, 3, false, upto('asia 9 2 0'));
RESET session_replication_role;
SELECT dc_compact('likes') > 0, dc_get('likes', 'open');
-- 'd' and 'd2' have been counted since
SELECT key FROM (SELECT DISTINCT ON (key) * FROM likes_set ORDER BY key, hlc DESC) AS l WHERE deleted ORDER BY key;
SELECT dc_region_vacuum('likes', '0');
SELECT dc_region_vacuum('likes', '0');
SELECT dc_delete('likes', 'd') > 0, dc_delete('likes', 'd2') > 0, dc_delete('likes', 'a') > 0, dc_delete('likes', 'open');
SELECT * FROM sets WHERE key = 'open';
-- a region that may not know of them
INSERT INTO dcounter.region (region, epoch) VALUES ('us', 7);
SELECT dc_region_vacuum('likes', '0');
UPDATE dcounter.region SET retired_at = now();
SELECT dc_region_vacuum('likes', '0');
\set VERBOSITY terse
SET client_min_messages = error;
SELECT key FROM (SELECT key FROM likes UNION ALL SELECT key FROM likes_region UNION ALL SELECT key FROM likes_set) AS u WHERE key IN ('a', 'd', 'd2', 'rr', 'by', 'open');
SELECT rights_epoch - :e FROM dcounter.counter WHERE counter = 'likes'::regclass;
TABLE is_sound;
-- what is counted after that is in a slot that has never been; so is what is counted first of other keys
SELECT dc_incr('likes', 'a', 3), dc_incr('likes', 'fresh', 1), dc_incr('likes', 'b', 1), dc_compact('likes') > 0;
SELECT * FROM slots WHERE key IN ('a', 'b', 'fresh');
-- a region that has not removed them brings them back: first slots, then sets; or only a set
SET session_replication_role = replica;
INSERT INTO likes_region VALUES ('a', 'us', 7, 101, 30, now()), ('a', 'eu', :e, 29, 2, now());
SELECT *, (SELECT updated_at FROM likes_region AS r WHERE r.key = 'a' AND r.epoch = :e) FROM slots WHERE key = 'a';
SELECT dc_incr('likes', 'only', 5), dc_compact('likes');
INSERT INTO likes_set VALUES ('a', 'us', 2000, 0, false, upto('eu 0 30 2'));
UPDATE likes_region SET inc = 29, dec = 3, updated_at = now() WHERE key = 'a' AND epoch = :e;
INSERT INTO likes_region VALUES ('back', 'eu', :e, 29, 2, now());
SELECT dc_incr('likes', 'back', 1), dc_compact('likes') > 0;
SELECT * FROM slots WHERE key = 'back';
SELECT updated_at FROM likes_region WHERE key IN ('a', 'back') AND epoch = :e;
INSERT INTO likes_set VALUES ('a', 'us', 3000, 0, true, upto('us 7 101 30 closed, eu 0 31 3 closed, eu 1 7 0 closed'));
INSERT INTO likes_set VALUES ('back', 'us', 3000, 0, true, upto('eu 0 29 2 closed'));
SELECT * FROM keys WHERE key IN ('a', 'back');
INSERT INTO likes_set VALUES ('d', 'us', 9000, 40, false, upto('us 7 1 0 closed, eu 0 6 0 closed'));
SELECT dc_incr('likes', 'a', 2), dc_incr('likes', 'd', 2), dc_compact('likes') > 0;
RESET session_replication_role;
SELECT * FROM slots WHERE key IN ('a', 'd');
SELECT * FROM keys WHERE key IN ('a', 'd');
TABLE is_sound;

-- Changes by hand are found, and can be put right
UPDATE likes SET inc = inc + 5, dec = dec + 1 WHERE key = 'b';
DELETE FROM likes WHERE key = 'new';
UPDATE likes_set SET value = value + 1 WHERE key = 's';
DELETE FROM likes_set WHERE key = 'order';
SELECT keys, inc, dec FROM dc_region_check('likes') WHERE region IS NULL;
SELECT dc_region_repair('likes'), dc_region_repair('likes');
TABLE is_sound;
SELECT * FROM keys WHERE key IN ('b', 'new', 's', 'order');
-- a row of totals by hand goes with a deletion
INSERT INTO likes (key, inc) VALUES ('hand', 5);
SELECT dc_delete('likes', 'hand');
SELECT count(*) FROM likes WHERE key = 'hand';
-- a set puts its key right
UPDATE likes SET inc = inc + 5 WHERE key = 'b';
SELECT dc_set('likes', 'b', 33);
SELECT dc_get('likes', 'b');
TABLE is_sound;

-- Tables that were altered, code of the owner on them
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER own BEFORE INSERT ON likes_set FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT dc_set('likes', 'b', 1);
DROP TRIGGER own ON likes_set;
DROP FUNCTION nothing;
-- refused for the view or for the publication, whichever the server finds first
\set VERBOSITY sqlstate
ALTER TABLE likes_set ALTER upto TYPE text USING upto::text;
\set VERBOSITY terse
ALTER TABLE likes_set ADD note text;
SELECT dc_set('likes', 'b', 1);
SELECT dc_incr('likes', 'b', 1);
SELECT dc_compact('likes');
ALTER TABLE likes_set DROP note;
SELECT dc_set('likes', 'b', 1), dc_compact('likes') >= 0;
SET session_replication_role = replica;
INSERT INTO likes_set VALUES ('b', 'us', 4000, -30, false, upto('us 7 15 1'));
UPDATE likes_set SET hlc = 4001, upto = upto('us 7 16 1') WHERE key = 'b' AND region = 'us';
RESET session_replication_role;
SELECT dc_get('likes', 'b');
TABLE is_sound;
-- The trigger on other tables
CREATE TABLE other (LIKE likes_set INCLUDING ALL);
CREATE TRIGGER merge BEFORE INSERT OR UPDATE ON other FOR EACH ROW EXECUTE FUNCTION dcounter.merge_set();
INSERT INTO other VALUES ('b', 'us', 4000, -30, false, dc_pncounter());
DROP TABLE other;
SET ROLE region_user;
CREATE TABLE mine (upto dc_pncounter);
CREATE TRIGGER merge BEFORE INSERT OR UPDATE ON mine FOR EACH ROW EXECUTE FUNCTION dcounter.merge_set();
DROP TABLE mine;
RESET ROLE;
-- More of the own slot than this database has counted: the work of a copy
SET session_replication_role = replica;
INSERT INTO likes_set VALUES ('s', 'asia', 5000, 1, false, upto('eu 0 1000 0, us 7 1 1'));
INSERT INTO likes_set VALUES ('unknown', 'asia', 5000, 1, false, upto('eu 3 1 0'));
INSERT INTO likes_set VALUES ('known', 'asia', 5000, 1, false, upto('eu 1 1 0'));
RESET session_replication_role;
SELECT * FROM sets WHERE key IN ('s', 'unknown', 'known');
SELECT * FROM slots WHERE key IN ('s', 'unknown', 'known');
TABLE is_sound;
SELECT what FROM dcounter.self_mark ORDER BY 1;
DELETE FROM dcounter.self_mark;
-- A database that needs a new epoch; one that was adopted
UPDATE dcounter.self SET state = 'renew';
SELECT dc_set('likes', 'b', 2);
SELECT dc_delete('likes', 'b');
SELECT dc_region_vacuum('likes');
UPDATE dcounter.self SET state = 'active';
SELECT dc_set('likes', 'b', 2);
DELETE FROM dcounter.counter WHERE counter = 'likes'::regclass;
SELECT dc_adopt('likes');
SELECT regions, sets, rights_epoch > :e FROM dcounter.counter WHERE counter = 'likes'::regclass;
SELECT dc_get('likes', 'b'), dc_set('likes', 'b', 3), dc_get('likes', 'b');
SELECT dc_incr('likes', 'adopted', 1), dc_compact('likes') > 0;
SELECT dc_incr('likes', 'adopted', 1), dc_compact('likes') > 0;
SELECT * FROM slots WHERE key = 'adopted';
TABLE is_sound;
UPDATE dcounter.counter SET rights_epoch = rights_epoch + 1024 * 1024 WHERE counter = 'likes'::regclass;
SELECT dc_incr('likes', 'beyond', 1);
SELECT dc_compact('likes');
SELECT dc_set('likes', 'beyond', 1);
SELECT dc_get('likes', 'beyond');
UPDATE dcounter.counter SET rights_epoch = 0 WHERE counter = 'likes'::regclass;
SELECT dc_set('likes', 'beyond', 1);
TABLE is_sound;
-- Very many rows of a key by hand
INSERT INTO likes_set SELECT 'many', 'r' || i, 5, 0, false, dc_pncounter() FROM generate_series(1, 257) AS i;
SELECT dc_set('likes', 'many', 1);
SET session_replication_role = replica;
INSERT INTO likes_set VALUES ('many', 'us', 253000000000000000, 5, false, upto('us 7 15 1'));
RESET session_replication_role;
SELECT count(*) FROM likes_set WHERE key = 'many';
DELETE FROM likes_set WHERE key = 'many' AND region <> 'r257';
SELECT dc_set('likes', 'many', 1), dc_get('likes', 'many');
TABLE is_sound;
SELECT dc_delete('likes', 'many');
-- Partitioned, and with shards that are written by SQL
SELECT dc_create('parts', partitions => 2);
SELECT dc_incr('parts', 'p', 4);
SELECT dc_replicate('parts', seed => true);
ALTER TABLE parts_shard ADD note text;
SELECT dc_incr('parts', 'p', 2), dc_set('parts', 'p', 9), dc_set('parts', 'q', 1), dc_delete('parts', 'p');
SET session_replication_role = replica;
INSERT INTO parts_set VALUES ('q', 'us', 253000000000000000, 5, false, upto('us 7 15 1'));
RESET session_replication_role;
SELECT dc_compact('parts'), dc_get('parts', 'p'), dc_get('parts', 'q');
SELECT keys, inc, dec FROM dc_region_check('parts') WHERE region IS NULL;
SELECT dc_unreplicate('parts');
SELECT dc_set('parts', 'q', 1), dc_get('parts', 'q');
SELECT dc_replicate('parts', seed => true);
SELECT dc_drop('parts');

DROP VIEW keys, slots, sets, is_sound;
DROP FUNCTION upto;
SELECT dc_drop('likes');
REVOKE ALL ON SCHEMA public FROM region_user;
DROP ROLE region_user;
DELETE FROM dcounter.self;
DELETE FROM dcounter.region;
DROP PUBLICATION dcounter_own, dcounter_all;
