-- Verifying bound counters, by CALL dc_maintain()
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE ROLE regress_dc_owner;
CREATE ROLE regress_dc_user;
CREATE SCHEMA regress_dc AUTHORIZATION regress_dc_owner;
GRANT USAGE ON SCHEMA regress_dc TO regress_dc_user;
SET search_path = regress_dc, public;
-- What becomes of a call
CREATE FUNCTION try(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'SELECT ' || call;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END$$;
-- What passes have found so far: without times, and without what dead rows make of the number of keys
CREATE VIEW stat AS SELECT counter, source, state, passes, keys_checked >= 10 AS keys, drifted_keys AS drifted, drift_sum AS sum, repaired, last_pass IS NOT NULL AS pass, last_drift_at IS NOT NULL AS drift
	FROM dc_stat_drift ORDER BY counter::text;
CREATE VIEW drifts AS SELECT counter, key, source, value, drift, repaired FROM dc_drifts ORDER BY id;
GRANT SELECT ON stat, drifts TO regress_dc_owner, regress_dc_user;
-- Changes that no trigger sees; as session_replication_role needs a superuser
CREATE FUNCTION unseen(sql text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET session_replication_role = replica SET search_path = regress_dc AS $$BEGIN EXECUTE sql; END$$;
SET ROLE regress_dc_owner;
CREATE TABLE likes (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post int, fan text, amount int DEFAULT 2, deleted bool NOT NULL DEFAULT false);
CREATE INDEX ON likes (post);
SELECT dc_create('n'), dc_create('s');
SELECT dc_bind('n', 'likes', key => 'post', filter => 'NOT deleted'), dc_bind('s', 'likes', key => 'post', value => 'amount');
-- Not before they are built
INSERT INTO likes (post, fan) SELECT i % 10, 'f' || i FROM generate_series(1, 100) AS i;
CALL dc_maintain();
SELECT counter, state IN ('building', 'exact'), passes FROM dc_stat_drift WHERE state = 'building' AND passes > 0;
CALL dc_build('n');
CALL dc_build('s');
RESET ROLE;
UPDATE dcounter.source_state SET passes = 0, last_pass = NULL, keys_checked = 0;
SET ROLE regress_dc_owner;
SELECT * FROM stat;
CALL dc_maintain();
SELECT * FROM stat;
-- Writing goes on, and is no difference: deleted rows, moved ones, keys that come and go
UPDATE likes SET deleted = true WHERE post = 1;
UPDATE likes SET post = 11 WHERE post = 2;
DELETE FROM likes WHERE post = 3;
CALL dc_maintain();
SELECT * FROM stat;
-- Drift: more rows, rows that are gone, keys of the source alone, keys of the counter alone
SELECT unseen($$INSERT INTO likes (post, fan) VALUES (4, 'x'), (4, 'y'), (77, 'x'); DELETE FROM likes WHERE post = 5; UPDATE likes SET deleted = true WHERE post = 6 AND id <= 20$$);
CALL dc_maintain();
SELECT * FROM stat;
SELECT * FROM drifts;
RESET ROLE;
SELECT aggregatetype, aggregateid, type, payload FROM dcounter.outbox WHERE type = 'counter.drift' AND aggregatetype <> 'vast_k' ORDER BY aggregatetype, length(aggregateid), aggregateid;
SET ROLE regress_dc_owner;
-- What is known is not reported again, except by the warning
CALL dc_maintain();
SELECT * FROM stat;
SELECT count(*) FROM drifts;
-- ... until it is repaired, or another difference
SELECT * FROM dc_source_fix('n', '{4,77}');
SELECT unseen($$INSERT INTO likes (post, fan) VALUES (5, 'new')$$);
CALL dc_maintain();
SELECT * FROM stat WHERE counter = 'n'::regclass;
SELECT * FROM drifts WHERE counter = 'n'::regclass;
-- Repaired by the job
SELECT try($$dc_alter('n', on_drift => 'no')$$), try($$dc_alter('n', on_drift => '')$$);
SELECT dc_alter('n', on_drift => 'repair'), dc_alter('n', max_shards => 7);
SELECT on_drift FROM dcounter.source WHERE counter = 'n'::regclass;
CALL dc_maintain();
SELECT * FROM stat WHERE counter = 'n'::regclass;
SELECT * FROM drifts WHERE repaired;
SELECT * FROM dc_source_check('n');
CALL dc_maintain();
SELECT * FROM stat WHERE counter = 'n'::regclass;
SELECT dc_alter('n', on_drift => 'alarm');
SELECT on_drift FROM dcounter.source WHERE counter = 'n'::regclass;
CALL dc_build('s');
CALL dc_maintain();
SELECT counter, state FROM stat;
-- In a transaction block, whose snapshot is older
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM likes;
SELECT unseen($$DELETE FROM likes WHERE post = 7$$);
CALL dc_maintain();
SELECT key, drift FROM drifts WHERE key = '7';
ROLLBACK;
CALL dc_maintain();
SELECT counter, state FROM stat;

-- Not bound, not the owner
SELECT dc_create('plain');
SELECT try($$dc_alter('plain', on_drift => 'repair')$$);
RESET ROLE;
SET ROLE regress_dc_user;
SELECT try($$dc_alter('n', on_drift => 'repair')$$);
SELECT count(*) FROM dc_stat_drift;
SELECT count(*) FROM dc_drifts;
-- A function that is cheaper than the views' conditions sees no row either
RESET ROLE;
SELECT count(*) > 0 FROM dc_drifts WHERE counter = 'n'::regclass;
SELECT dc_mark('plain', 'theirs');
SET ROLE regress_dc_user;
CREATE FUNCTION pg_temp.leak(seen text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS $$BEGIN RAISE WARNING 'seen: %', seen; RETURN true; END$$;
SELECT count(*) FROM dc_drifts AS d WHERE pg_temp.leak(d.key) AND pg_temp.leak(d.value::text);
SELECT count(*) FROM dc_marks AS m WHERE pg_temp.leak(m.mark);
SELECT count(*) FROM dc_stat_drift AS s WHERE pg_temp.leak(s.state);
DROP FUNCTION pg_temp.leak;
RESET ROLE;
SELECT dc_unmark('plain', 'theirs');
SET ROLE regress_dc_user;
SELECT try($$count(*) FROM dcounter.drift$$);
CALL dc_maintain();
RESET ROLE;
GRANT SELECT ON n TO regress_dc_user;
SET ROLE regress_dc_user;
SELECT DISTINCT counter FROM dc_stat_drift UNION SELECT DISTINCT counter FROM dc_drifts;
RESET ROLE;
SELECT passes FROM stat WHERE counter = 'n'::regclass \gset
-- An owner of the counter who no longer owns the source
ALTER TABLE likes OWNER TO regress_dc_user;
SET ROLE regress_dc_owner;
CALL dc_maintain();
SELECT passes - :passes FROM stat WHERE counter = 'n'::regclass;
RESET ROLE;
ALTER TABLE likes OWNER TO regress_dc_owner;

-- Suspect: exact again after a pass that began later, and only if the triggers fire
SET ROLE regress_dc_owner;
ALTER TABLE likes DISABLE TRIGGER dcounter_source_row;
RESET ROLE;
UPDATE dcounter.source_state SET state = 'suspect' WHERE counter = 'n'::regclass;
SET ROLE regress_dc_owner;
CALL dc_maintain();
SELECT state FROM stat WHERE counter = 'n'::regclass;
ALTER TABLE likes ENABLE TRIGGER dcounter_source_row;
RESET ROLE;
UPDATE dcounter.source_state SET state = 'suspect' WHERE counter = 'n'::regclass;
SET ROLE regress_dc_owner;
CALL dc_maintain();
SELECT state FROM stat WHERE counter = 'n'::regclass;
-- A pass with another epoch at its end proves nothing; nor does one that was written by hand
RESET ROLE;
UPDATE dcounter.source_state SET state = 'suspect', pass_to = '1:0:0:0:0:0:0' WHERE counter = 'n'::regclass;
SET ROLE regress_dc_owner;
CALL dc_maintain();
SELECT state FROM stat WHERE counter = 'n'::regclass;
RESET ROLE;
DO $$
DECLARE
	q text;
BEGIN
	FOREACH q IN ARRAY ARRAY['7:0:0:0:0:0:0', '1:2', 'x', '', '1:0:0:0:0:0:0x', '99999999999999999999999:1:1:1:1:1:1', '1:1:1:1:1:1:1:' || repeat('key', 1000)] LOOP
		UPDATE dcounter.source_state SET state = 'suspect', pass_to = q WHERE counter = 'n'::regclass;
		CALL dc_maintain();
		RAISE WARNING '% %', (SELECT state FROM stat WHERE counter = 'n'::regclass), (SELECT pass_to IS NULL FROM dcounter.source_state WHERE counter = 'n'::regclass);
	END LOOP;
END$$;
SET ROLE regress_dc_owner;
CALL dc_maintain();
SELECT state FROM stat WHERE counter = 'n'::regclass;

-- Without an index: a scan. With one for each partition; keys of texts, with the empty one; several columns; distinct values
DROP INDEX likes_post_idx;
SELECT unseen($$INSERT INTO likes (post, fan) VALUES (8, 'scan')$$);
CALL dc_maintain();
SELECT * FROM drifts WHERE key = '8';
SELECT dc_source_fix('n', '{8}'), dc_source_fix('s', '{8}');
CREATE TABLE visit (page text, who int, day int) PARTITION BY RANGE (day);
CREATE TABLE visit_1 PARTITION OF visit FOR VALUES FROM (1) TO (10);
CREATE TABLE visit_2 (who int, gone int, day int NOT NULL, page text);
ALTER TABLE visit_2 DROP COLUMN gone;
ALTER TABLE visit ATTACH PARTITION visit_2 FOR VALUES FROM (10) TO (20);
CREATE INDEX ON visit (page, day);
SELECT dc_create('pages'), dc_create('pairs'), dc_create('visitors');
SELECT dc_bind('pages', 'visit', key => 'page'), dc_bind('pairs', 'visit', key => 'page, who'), dc_bind('visitors', 'visit', key => 'page', distinct_of => 'who');
INSERT INTO visit SELECT p, i % 4, i FROM unnest(ARRAY['', 'home', 'a b', 'Z']) AS p, generate_series(1, 19) AS i;
CALL dc_build('pages');
CALL dc_build('pairs');
CALL dc_build('visitors');
RESET ROLE;
UPDATE dcounter.source_state SET passes = 0 WHERE counter::text ~ '^(pa|vi)';
SET ROLE regress_dc_owner;
CALL dc_maintain();
SELECT counter, state, passes FROM stat WHERE counter::text ~ '^(pa|vi)';
SELECT unseen($$INSERT INTO visit VALUES ('', 9, 1), ('new', 1, 12); DELETE FROM visit WHERE page = 'home' AND who = 3$$);
CALL dc_maintain();
SELECT counter, key, drift FROM drifts WHERE counter::text ~ '^(pa|vi)' ORDER BY counter::text, key COLLATE "C";
SELECT dc_alter(counter, on_drift => 'repair') FROM dcounter.source WHERE source = 'visit'::regclass;
CALL dc_maintain();
SELECT counter, state FROM stat WHERE counter::text ~ '^(pa|vi)';
SELECT (SELECT count(*) FROM dc_source_check('pages')), (SELECT count(*) FROM dc_source_check('pairs')), (SELECT count(*) FROM dc_source_check('visitors'));
CALL dc_maintain();
SELECT counter, state FROM stat WHERE counter::text ~ '^(pa|vi)';
-- Other items, of the same number
SELECT unseen($$UPDATE visit SET who = 8 WHERE page = 'Z' AND who = 1$$);
CALL dc_maintain();
SELECT counter, key, source, value, drift, repaired FROM drifts WHERE key = 'Z' OR key ~ '"Z"' ORDER BY counter::text, key COLLATE "C";
CALL dc_maintain();
SELECT counter, state FROM stat WHERE counter::text ~ '^(pa|vi)';
DELETE FROM visit WHERE page = 'Z';
SELECT (SELECT count(*) FROM dc_source_check('pages')), (SELECT count(*) FROM dc_source_check('pairs')), (SELECT count(*) FROM dc_source_check('visitors'));

-- More keys than a step takes, in the counter and in the source; a call goes on where the last one has stopped
CREATE TABLE item (k int);
SELECT dc_create('items');
SELECT dc_bind('items', 'item', key => 'k', build => 'none');
CALL dc_build('items');
INSERT INTO item SELECT i FROM generate_series(1, 12000) AS i;
SELECT unseen($$INSERT INTO item SELECT i FROM generate_series(1, 12000) AS i; INSERT INTO item SELECT i FROM generate_series(20001, 21500) AS i$$);
CREATE INDEX ON item (k);
CALL dc_maintain();
RESET ROLE;
SELECT passes, pass_to ~ '^1:.*:\d+$' FROM dcounter.source_state WHERE counter = 'items'::regclass;
SET ROLE regress_dc_owner;
CALL dc_maintain();
CALL dc_maintain();
SELECT state, drifted, sum, passes FROM stat WHERE counter = 'items'::regclass;
-- ... of which some are noted, once
SELECT count(*) FROM drifts WHERE counter = 'items'::regclass;
CALL dc_maintain();
CALL dc_maintain();
CALL dc_maintain();
SELECT state, drifted, sum, passes FROM stat WHERE counter = 'items'::regclass;
SELECT count(*) FROM drifts WHERE counter = 'items'::regclass;
-- ... but for those that are repaired. The last 10,000 are kept
SELECT dc_alter('items', on_drift => 'repair');
CALL dc_maintain();
CALL dc_maintain();
CALL dc_maintain();
CALL dc_maintain();
CALL dc_maintain();
SELECT state, drifted, sum, repaired FROM stat WHERE counter = 'items'::regclass;
SELECT count(*) FROM dc_source_check('items');
RESET ROLE;
SELECT count(*), count(*) FILTER (WHERE key::int > 20000) FROM drifts WHERE counter = 'items'::regclass;
SELECT count(*), max(id) - min(id) + 1 FROM dcounter.drift;
SELECT count(*) <= 4000 FROM dcounter.outbox WHERE type = 'counter.drift' AND aggregatetype = 'items';
SET ROLE regress_dc_owner;
-- A scan repairs some of many at a time
DROP INDEX item_k_idx;
SELECT unseen($$DELETE FROM item WHERE k <= 6000$$);
CALL dc_maintain();
SELECT state, drifted, repaired FROM stat WHERE counter = 'items'::regclass;
CALL dc_build('items');
SELECT count(*) FROM dc_source_check('items');
-- While triggers are disabled nothing is found exact: not by a build, nor by a TRUNCATE
CREATE TABLE off (k int);
CREATE INDEX ON off (k);
SELECT dc_create('offs');
SELECT dc_bind('offs', 'off', key => 'k', build => 'none');
CALL dc_build('offs');
ALTER TABLE off DISABLE TRIGGER dcounter_source_row;
CALL dc_build('offs');
SELECT state FROM stat WHERE counter = 'offs'::regclass;
TRUNCATE off;
SELECT state FROM stat WHERE counter = 'offs'::regclass;
ALTER TABLE off ENABLE TRIGGER dcounter_source_row;
CALL dc_build('offs');
SELECT state FROM stat WHERE counter = 'offs'::regclass;
-- ... nor by a pass that was under way meanwhile: it is past key 1
INSERT INTO off VALUES (1), (2);
ALTER TABLE off DISABLE TRIGGER dcounter_source_row;
INSERT INTO off VALUES (1);
RESET ROLE;
UPDATE dcounter.source_state SET pass_to = format('1:%s:%1$s:0:-1:0:0:1', epoch) WHERE counter = 'offs'::regclass;
SET ROLE regress_dc_owner;
ALTER TABLE off ENABLE TRIGGER dcounter_source_row;
CALL dc_maintain();
SELECT state, passes FROM stat WHERE counter = 'offs'::regclass;
CALL dc_build('offs');
-- ... even if another binding enables them; that does not affect anything else in progress
SELECT dc_create('offs2');
RESET ROLE;
SELECT epoch FROM dcounter.source_state WHERE counter = 'offs'::regclass \gset
SET ROLE regress_dc_owner;
SELECT dc_bind('offs2', 'off', key => 'k', build => 'none');
RESET ROLE;
SELECT epoch - :epoch FROM dcounter.source_state WHERE counter = 'offs'::regclass;
SET ROLE regress_dc_owner;
SELECT dc_unbind('offs2');
ALTER TABLE off DISABLE TRIGGER dcounter_source_row;
INSERT INTO off VALUES (1);
RESET ROLE;
SELECT epoch FROM dcounter.source_state WHERE counter = 'offs'::regclass \gset
SET ROLE regress_dc_owner;
SELECT dc_bind('offs2', 'off', key => 'k', build => 'none');
RESET ROLE;
SELECT epoch - :epoch > 0 FROM dcounter.source_state WHERE counter = 'offs'::regclass;
SET ROLE regress_dc_owner;
SELECT dc_unbind('offs2');
CALL dc_build('offs');
-- A key of the source alone that got its first row in the counter after the pass had gone over these
SELECT unseen('INSERT INTO off VALUES (3)');
INSERT INTO off VALUES (3);
RESET ROLE;
UPDATE dcounter.source_state SET state = 'suspect', pass_to = format('2:%s:%1$s:0:-1:0:0', epoch) WHERE counter = 'offs'::regclass;
SET ROLE regress_dc_owner;
CALL dc_maintain();
SELECT state FROM stat WHERE counter = 'offs'::regclass;
SELECT key, drift FROM drifts WHERE counter = 'offs'::regclass AND key = '3';
-- Bound again, a difference that was noted is new
RESET ROLE;
SELECT epoch FROM dcounter.source_state WHERE counter = 'offs'::regclass \gset
SET ROLE regress_dc_owner;
SELECT dc_unbind('offs');
SELECT dc_bind('offs', 'off', key => 'k', build => 'none');
RESET ROLE;
SELECT epoch > :epoch FROM dcounter.source_state WHERE counter = 'offs'::regclass;
SET ROLE regress_dc_owner;
CALL dc_build('offs');
SELECT * FROM dc_source_check('offs');
SELECT dc_drop('offs'), dc_drop('offs2');
-- The end of a binding
SELECT dc_unbind('n');
CALL dc_maintain();
SELECT counter FROM dc_stat_drift ORDER BY counter::text;
SELECT dc_drop('items');
SELECT count(*) FROM dc_drifts WHERE counter = 'n'::regclass;
RESET ROLE;
DROP SCHEMA regress_dc CASCADE;
SELECT count(*) FROM dcounter.source_state;
DROP ROLE regress_dc_owner, regress_dc_user;
