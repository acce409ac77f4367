-- Totals first: what a commit writes to the table of totals itself, and what it does not.
\set VERBOSITY terse
\pset tuples_only on
\pset format unaligned
\set max 9223372036854775807
SELECT dc_create('likes');
CREATE VIEW state AS SELECT k AS key, (SELECT format('%s-%s=%s', inc, dec, value) FROM likes WHERE key = k) AS total,
	(SELECT string_agg((inc - dec)::text, ' ' ORDER BY inc, dec) FROM likes_shard WHERE key = k) AS shards
	FROM unnest(ARRAY['a', 'b', 'c']) AS k;
CREATE PROCEDURE add(k text, n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..n LOOP
		PERFORM dc_incr('likes', k);
		COMMIT;
	END LOOP;
END $$;

-- A new key, and one that exists; several calls are one delta; amounts that are nothing
SELECT dc_incr('likes', 'a', 5), dc_incr('likes', 'a', -2), dc_decr('likes', 'b', 4);
TABLE state;
SELECT dc_incr('likes', 'a', 10), dc_incr('likes', 'b', 0), dc_decr('likes', 'c', 0);
TABLE state;
SELECT dc_get('likes', 'a'), dc_sum('likes');
-- Nothing before the commit, and nothing of what is rolled back
BEGIN;
SELECT dc_incr('likes', 'c');
SELECT dc_incr('likes', 'a', 1000);
TABLE state;
SELECT dc_get('likes', 'a'), dc_get('likes', 'c');
ROLLBACK;
TABLE state;
-- In one transaction with the setters, and with statements of one's own
BEGIN;
SELECT dc_incr('likes', 'a'), dc_set('likes', 'a', 50), dc_incr('likes', 'a', 2), dc_delete('likes', 'b'), dc_incr('likes', 'b', 3);
COMMIT;
TABLE state;
BEGIN;
DELETE FROM likes WHERE key = 'a';
INSERT INTO likes (key, inc) VALUES ('c', 7);
SELECT key FROM likes FOR UPDATE;
SELECT dc_incr_many('likes', ARRAY['a', 'b', 'c']);
SAVEPOINT s;
UPDATE likes SET inc = inc + 100;
SELECT dc_incr_many('likes', ARRAY['a', 'b', 'c']);
ROLLBACK TO s;
COMMIT;
TABLE state;

-- The time of the last change does not go back
UPDATE likes SET updated_at = '2999-12-31 UTC' WHERE key = 'a';
SELECT dc_incr('likes', 'a');
SELECT key, updated_at = '2999-12-31 UTC', inc FROM likes WHERE key = 'a';

-- Early writes are shard rows; compaction inserts and updates the same rows
SELECT dc_delete('likes', 'a') > 0, dc_delete('likes', 'b') > 0, dc_delete('likes', 'c') > 0;
SELECT dc_incr_many('likes', ARRAY['a', 'b'], ARRAY[5, 6]), dc_apply();
TABLE state;
SELECT dc_incr('likes', 'a');
TABLE state;
SELECT dc_compact('likes');
TABLE state;

-- Each 61st time a session looks for shard rows of the key, and leaves it to compaction if there are any
CALL add('often', 60);
SELECT dc_incr('likes', 'often', 500), dc_apply();
CALL add('often', 3);
SELECT value, (SELECT sum(inc) FROM likes_shard WHERE key = 'often') FROM likes WHERE key = 'often';
SELECT dc_compact('likes');
CALL add('often', 3);
SELECT value, (SELECT sum(inc) FROM likes_shard WHERE key = 'often') FROM likes WHERE key = 'often';
SELECT dc_delete('likes', 'often');

-- What a row of totals cannot hold stays in shard rows, and the commit does not fail
SELECT dc_incr('likes', 'c');
UPDATE likes SET inc = :max - 1 WHERE key = 'a';
UPDATE likes SET dec = :max WHERE key = 'b';
UPDATE likes SET inc = :max - 5, dec = -5 WHERE key = 'c';
SELECT dc_incr_many('likes', ARRAY['a', 'b', 'c'], ARRAY[1, -1, 1]);
TABLE state;
SELECT dc_incr_many('likes', ARRAY['a', 'b', 'c'], ARRAY[1, -1, 1]);
TABLE state;
SELECT k, dc_set('likes', k, 0) FROM unnest(ARRAY['a', 'b', 'c']) AS k;
SELECT k, dc_delete('likes', k) FROM unnest(ARRAY['a', 'b', 'c']) AS k;

-- Any key; many at once, new and known ones
SELECT dc_incr('likes', ''), dc_incr('likes', 'ä€'), dc_incr('likes', 42::bigint), dc_incr('likes', repeat('x', 1024)),
	dc_incr('likes', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 32) AS i));
SELECT dc_incr('likes', ''), dc_incr('likes', 'ä€'), dc_incr('likes', 42::bigint), dc_incr('likes', repeat('x', 1024)),
	dc_incr('likes', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 32) AS i));
SELECT left(key, 10), length(key), value FROM likes ORDER BY key;
SELECT dc_incr_many('likes', array_agg('k' || i), array_agg(i)) FROM generate_series(1, 3000) AS i;
SELECT dc_incr_many('likes', array_agg('k' || i), array_agg(i)) FROM generate_series(1001, 5000) AS i;
SELECT count(*), sum(value), bool_and(value = i * CASE WHEN i BETWEEN 1001 AND 3000 THEN 2 ELSE 1 END), dc_sum('likes') - 10
	FROM likes, replace(key, 'k', '') AS r, CAST(r AS bigint) AS i WHERE key ~ '^k\d+$';
SELECT count(*) FROM likes_shard;

-- Tables whose rows look otherwise: a column that was dropped, another order, no "value", not logged
ALTER TABLE likes ADD COLUMN note text DEFAULT 'x';
SELECT dc_incr_many('likes', ARRAY['k1', 'new']);
ALTER TABLE likes DROP COLUMN note;
SELECT dc_incr_many('likes', ARRAY['k1', 'k2', 'other']);
SELECT key, inc, dec, value, (SELECT sum(inc) FROM likes_shard AS s WHERE s.key = t.key) FROM likes AS t WHERE key IN ('k1', 'k2', 'new', 'other') ORDER BY key;
CREATE TABLE odd (updated_at timestamptz NOT NULL DEFAULT now(), dec bigint NOT NULL DEFAULT 0, inc bigint NOT NULL DEFAULT 0, key text COLLATE "C" PRIMARY KEY);
CREATE TABLE odd_shard (LIKE likes_shard INCLUDING ALL);
SELECT dc_adopt('odd');
SELECT dc_incr('odd', 'a', 3), dc_incr('odd', 'b', -2);
SELECT dc_incr('odd', 'a', 3), dc_incr('odd', 'b', -2);
SELECT key, inc, dec, updated_at BETWEEN now() - interval '1 hour' AND now() FROM odd ORDER BY key;
SELECT totals, compacted_because FROM dc_tables WHERE counter IN ('likes'::regclass, 'odd'::regclass);
ALTER TABLE odd SET UNLOGGED;
ALTER TABLE odd_shard SET UNLOGGED;
SELECT dc_incr('odd', 'a'), dc_incr('odd', 'c');
SELECT key, inc FROM odd ORDER BY key;

DROP VIEW state;
SELECT dc_drop('odd'), dc_drop('likes');
DROP PROCEDURE add;
