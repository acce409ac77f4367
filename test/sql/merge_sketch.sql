-- dcounter.merge_row() with sketches. dc_hll is united; of dc_cms and dc_topk, which add up, each database has a row of
-- its own, of which the state with the greater total weight is kept. What an apply worker does is done here
-- with session_replication_role = replica.
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
SET dcounter.node = 'eu';
CREATE SCHEMA s;
SET search_path = s, public;

CREATE TABLE seen (key text, node text DEFAULT dc_node(), users dc_hll, freq dc_cms, top dc_topk, PRIMARY KEY (key, node));
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON seen FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row();
ALTER TABLE seen ENABLE ALWAYS TRIGGER m;
CREATE VIEW seens AS SELECT key, node, dc_hll_count(users) AS users, (dc_cms_info(freq)).total_weight AS freq, (SELECT string_agg(item || estimate, ' ' ORDER BY rank) FROM dc_topk_list(top)) AS top FROM seen ORDER BY key, node;
CREATE FUNCTION cms(text, weight bigint DEFAULT 1, epsilon float8 DEFAULT 0.01) RETURNS dc_cms LANGUAGE sql AS $$SELECT dc_cms_add(dc_cms($3, 0.01), $1, $2)$$;
CREATE FUNCTION topk(text, weight bigint DEFAULT 1, k int DEFAULT 3) RETURNS dc_topk LANGUAGE sql AS $$SELECT dc_topk_add(dc_topk($3), $1, $2)$$;
-- what comes: the row, and whether anything was written
CREATE FUNCTION come(node text, hll dc_hll, cms dc_cms, topk dc_topk, OUT users float8, OUT freq bigint, OUT top text, OUT written boolean) LANGUAGE plpgsql AS $$
DECLARE
	before text := (SELECT ctid FROM seen AS s WHERE s.key = 'a' AND s.node = $1);
BEGIN
	SET LOCAL session_replication_role = replica;
	INSERT INTO seen VALUES ('a', node, hll, cms, topk);
	SET LOCAL session_replication_role = origin;
	written := before IS DISTINCT FROM (SELECT ctid FROM seen AS s WHERE s.key = 'a' AND s.node = $1)::text;
	SELECT v.users, v.freq, v.top INTO users, freq, top FROM seens AS v WHERE v.key = 'a' AND v.node = $1;
END$$;

-- The first, the same again, a later one, an older one
SELECT * FROM come('us', NULL, cms('x', 3), topk('x', 3));
SELECT * FROM come('us', NULL, cms('x', 3), topk('x', 3));
SELECT * FROM come('us', NULL, dc_cms_add(cms('x', 3), 'y', 2), dc_topk_add(topk('x', 3), 'y', 2));
SELECT * FROM come('us', NULL, cms('x', 3), topk('x', 3));
-- each column for itself; NULL is before all, and an empty one before the rest
SELECT * FROM come('us', dc_hll_add(dc_hll(), 'u'), NULL, NULL);
SELECT * FROM come('us', dc_hll_add(dc_hll(), 'v'), dc_cms(0.01, 0.01), dc_topk(3));
SELECT * FROM come('us', NULL, cms('x', 9), topk('x', 1));
SELECT * FROM come('us', NULL, cms('x', 1), topk('x', 9));
SELECT * FROM come('ap', NULL, NULL, NULL);
SELECT * FROM come('ap', NULL, dc_cms(0.01, 0.01), dc_topk(3));
SELECT * FROM come('ap', NULL, NULL, NULL);
-- other dimensions do not matter
SELECT * FROM come('us', NULL, cms('z', 10, 0.1), topk('z', 10, 20));
SELECT * FROM come('us', NULL, cms('z', 9), topk('z', 9));
SELECT * FROM come('us', NULL, cms('z', 11), topk('z', 11));
-- of one total, the same one is kept, whichever was first
SELECT count(come('t1', NULL, cms('x'), topk('x'))), count(come('t1', NULL, cms('y', 1, 0.1), topk('y', 1, 5)));
SELECT count(come('t2', NULL, cms('y', 1, 0.1), topk('y', 1, 5))), count(come('t2', NULL, cms('x'), topk('x')));
SELECT count(DISTINCT freq::text), count(DISTINCT top::text) FROM seen WHERE node IN ('t1', 't2');
DELETE FROM seen WHERE node IN ('t1', 't2');
-- updates that come
BEGIN;
SET LOCAL session_replication_role = replica;
UPDATE seen SET freq = cms('x', 12), top = topk('x', 3) WHERE node = 'us';
SELECT * FROM seens WHERE node = 'us';
UPDATE seen SET freq = cms('x', 11), top = topk('x', 3) WHERE node = 'us';
UPDATE seen SET freq = NULL, top = NULL WHERE node = 'us';
SELECT * FROM seens WHERE node = 'us';
COMMIT;

-- What users write in their own row
INSERT INTO seen (key, freq, top) VALUES ('a', cms('x', 1), topk('x', 1)) ON CONFLICT (key, node) DO UPDATE SET freq = dc_cms_add(seen.freq, 'x'), top = dc_topk_add(seen.top, 'x');
INSERT INTO seen (key, freq, top) VALUES ('a', cms('x', 1), topk('x', 1)) ON CONFLICT (key, node) DO UPDATE SET freq = dc_cms_add(seen.freq, 'y'), top = dc_topk_add(seen.top, 'y');
SELECT * FROM seens WHERE node = 'eu';
-- one that was read before, and one that is made smaller by hand: the greater one stays
UPDATE seen SET freq = cms('x', 1), top = topk('x', 1) WHERE node = 'eu';
UPDATE seen SET freq = dc_cms_add(freq, 'x', -1), top = NULL WHERE node = 'eu';
SELECT * FROM seens WHERE node = 'eu';
-- all of them together
SELECT dc_cms_estimate(dc_cms_union_agg(freq), 'x') FROM seen WHERE node <> 'us';
SELECT string_agg(item || estimate, ' ' ORDER BY rank) FROM dc_topk_list((SELECT dc_topk_union_agg(top) FROM seen));

-- Stored out of line and compressed: only a greater one is stored again
CREATE TABLE big (key text, node text, freq dc_cms, PRIMARY KEY (key, node));
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON big FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row();
ALTER TABLE big ENABLE ALWAYS TRIGGER m;
CREATE FUNCTION big(int) RETURNS dc_cms LANGUAGE sql AS $$SELECT dc_cms_agg(i, 0.0001, 0.01) FROM generate_series(1, $1) AS i$$;
INSERT INTO big VALUES ('a', 'us', big(20000)), ('b', 'us', big(10));
SET session_replication_role = replica;
INSERT INTO big VALUES ('a', 'us', big(19999));
SELECT (dc_cms_info(freq)).total_weight FROM big WHERE key = 'a';
INSERT INTO big VALUES ('a', 'us', big(20001));
SELECT (dc_cms_info(freq)).total_weight FROM big WHERE key = 'a';
INSERT INTO big VALUES ('b', 'us', big(20001)), ('b', 'us', big(9));
SELECT (dc_cms_info(freq)).total_weight FROM big WHERE key = 'b';
ALTER TABLE big ALTER freq SET STORAGE EXTERNAL;
INSERT INTO big VALUES ('c', 'us', big(20001)), ('c', 'us', big(9)), ('c', 'us', big(20002));
SELECT (dc_cms_info(freq)).total_weight FROM big WHERE key = 'c';
RESET session_replication_role;

-- Arguments: one column, a domain, the others as a group
CREATE DOMAIN small AS dc_topk CHECK ((dc_topk_info(value)).total_weight < 100);
CREATE TABLE named (key text PRIMARY KEY, freq dc_cms, top small, stamp dc_hlc);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON named FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row('top', 'stamp=stamp');
ALTER TABLE named ENABLE ALWAYS TRIGGER m;
SET session_replication_role = replica;
INSERT INTO named VALUES ('a', cms('x', 9), topk('x', 9), '{"time": 1, "node": "us"}'), ('a', cms('x', 1), topk('x', 1), '{"time": 2, "node": "us"}');
SELECT (dc_cms_info(freq)).total_weight, (dc_topk_info(top)).total_weight FROM named;
INSERT INTO named (key, top) VALUES ('a', topk('x', 100));
RESET session_replication_role;

DROP SCHEMA s CASCADE;
