-- The shard rows of a key: which one is written, and what compaction leaves
\pset tuples_only on
\pset format unaligned
SELECT dc_create('c', totals => 'compacted');
-- How many rows hold an amount, of how many there are, and what they add up to
CREATE FUNCTION rows(k text) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s of %s, %s', count(*) FILTER (WHERE inc > 0), count(*), sum(inc)) FROM c_shard WHERE key = k $$;

-- The trap. In this often published statement random() is evaluated for each row
-- that is looked at, so it updates no row, or several.
INSERT INTO c_shard (key, shard) SELECT 'hot', i FROM generate_series(0, 15) i;
CREATE TABLE trap AS SELECT * FROM c_shard;
CREATE TABLE hits (n bigint);
DO $$
DECLARE
	n bigint;
BEGIN
	FOR i IN 1 .. 1000 LOOP
		UPDATE trap SET inc = inc + 1 WHERE key = 'hot' AND shard = floor(random() * 16);
		GET DIAGNOSTICS n = ROW_COUNT;
		INSERT INTO hits VALUES (n);
	END LOOP;
END $$;
SELECT count(*) FILTER (WHERE n = 0) > 0, count(*) FILTER (WHERE n > 1) > 0 FROM hits;
-- dc_incr() picks one row, once; shard_by = random: now this one, now that
SELECT dc_alter('c', 'random');
CREATE PROCEDURE hit(times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. times LOOP
		PERFORM dc_incr('c', 'hot');
		COMMIT;
	END LOOP;
END $$;
CALL hit(1000);
SELECT dc_get('c', 'hot'), sum(inc), sum(dec), count(*), count(*) FILTER (WHERE inc > 0) > 1 FROM c_shard;
-- A row that was used is set to zero, then deleted; one that was not, deleted.
-- So is one that belonged to a single transaction (a number below 2^30).
DELETE FROM c_shard;
INSERT INTO c_shard (key, shard, inc) SELECT 'hot', i, 1 FROM generate_series(0, 3) i;
INSERT INTO c_shard (key, shard, inc) SELECT 'hot', i + (1 << 30), CASE WHEN i < 4 THEN 1 ELSE 0 END FROM generate_series(0, 15) i;
SELECT rows('hot'), dc_get('c', 'hot');
SELECT dc_compact('c');
SELECT rows('hot'), dc_get('c', 'hot'), (SELECT value FROM c WHERE key = 'hot');
SELECT dc_compact('c');
SELECT rows('hot'), dc_get('c', 'hot'), (SELECT value FROM c WHERE key = 'hot');

-- shard_by = backend, the default: always the same row while there is no contention
SELECT dc_alter('c', 'backend');
INSERT INTO c_shard (key, shard) SELECT 'hot', i FROM generate_series(0, 15) i;
CALL hit(100);
SELECT rows('hot');
-- shard_by = hash: the row follows from `by`, whatever the setting
DELETE FROM c_shard;
INSERT INTO c_shard (key, shard) SELECT 'hot', i FROM generate_series(0, 15) i;
SELECT dc_alter('c', 'hash');
CREATE TABLE choice (round int, writer int, shard int);
CREATE PROCEDURE choose(r int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 40 LOOP
		UPDATE c_shard SET inc = 0;
		COMMIT;
		PERFORM dc_incr_hashed('c', 'hot', 'writer ' || i);
		COMMIT;
		INSERT INTO choice SELECT r, i, s.shard FROM c_shard s WHERE inc = 1;
	END LOOP;
END $$;
CALL choose(1);
SELECT dc_alter('c', 'random', 1);
CALL choose(2);
SELECT count(*), count(DISTINCT shard) > 1 FROM choice;
SELECT count(*) FROM choice a JOIN choice b USING (writer, shard) WHERE a.round = 1 AND b.round = 2;
-- ... also in another session
\connect -
CALL choose(3);
SELECT count(*) FROM choice a JOIN choice b USING (writer, shard) WHERE a.round = 1 AND b.round = 3;
-- One statement, many writers of one key: the amounts are one
TRUNCATE c, c_shard;
SELECT count(dc_incr_hashed('c', 'hot', i::text, i)) FROM generate_series(1, 100) i;
SELECT rows('hot');

-- max_shards: without contention there is one row, whatever the limit
SELECT m, dc_alter('c', max_shards => m) FROM unnest(ARRAY[1, 2, 4096]) m;
CALL hit(50);
SELECT rows('hot');
SELECT dc_alter('c', max_shards => 1);
CALL hit(50);
SELECT rows('hot');
-- More rows than max_shards are all used, and are all counted
INSERT INTO c_shard (key, shard, inc) SELECT 'hot', -i, 1 FROM generate_series(1, 10) i;
CALL hit(50);
SELECT dc_get('c', 'hot'), dc_compact('c'), dc_compact('c'), dc_get('c', 'hot'), (SELECT count(*) FROM c_shard);

-- Compaction in batches: many keys, one of which fills batches of its own
TRUNCATE c, c_shard;
INSERT INTO c_shard (key, shard, inc, dec) SELECT 'wide', i, i, 1 FROM generate_series(1, 3500) i;
INSERT INTO c_shard (key, shard, inc) SELECT 'k' || i % 1700, i, 1 FROM generate_series(1, 3400) i;
INSERT INTO c_shard (key, shard, inc) SELECT 'z' || i, i, 1 FROM generate_series(1, 1600) i;
INSERT INTO c_shard (key, shard) SELECT 'idle' || i, i FROM generate_series(1, 500) i;
INSERT INTO c (key, inc) SELECT 'k' || i, 10 FROM generate_series(0, 899) i;
SELECT dc_sum('c'), dc_get('c', 'wide'), dc_get('c', 'k0'), dc_get('c', 'k1699');
BEGIN;
SELECT dc_compact('c');
SELECT dc_sum('c'), (SELECT sum(value) FROM c), (SELECT coalesce(sum(inc + dec), 0) FROM c_shard);
SELECT count(*), min(value), max(value) FROM c WHERE key ~ '^[kz]';
SELECT dc_get('c', 'wide'), dc_get('c', 'k0'), dc_get('c', 'k1699'), value FROM c WHERE key = 'wide';
-- rows without an amount stay while another session has an old snapshot, as autovacuum may
SELECT count(*) FROM c_shard WHERE key !~ '^[wk]' AND (inc <> 0 OR dec <> 0);
SELECT dc_compact('c'), (SELECT count(*) FROM c);
SELECT count(*) FROM c_shard WHERE inc <> 0 OR dec <> 0;
ROLLBACK;
-- ... and a few keys at a time, each call going on where there is work
CREATE FUNCTION compact_all(step int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint; total bigint := 0; most bigint := 0;
BEGIN
	LOOP
		n := dc_compact('c', step);
		EXIT WHEN n = 0;
		total := total + n;
		most := greatest(most, n);
	END LOOP;
	RETURN format('%s in steps of at most %s', total, most);
END $$;
SELECT compact_all(700), dc_sum('c'), (SELECT sum(value) FROM c);
SELECT sum(inc) FROM c_shard;
SELECT dc_drop('c');
DROP TABLE trap, hits, choice;
DROP PROCEDURE hit, choose;
DROP FUNCTION rows, compact_all;
