-- Compaction without SQL: batches, keys with more rows than a batch, and what it does as its
-- statements do, which serve a table that it cannot be used for
\pset tuples_only on
\pset format unaligned
SELECT dc_create('d', totals => 'compacted'), dc_create('s', totals => 'compacted');
-- an index of the owner's, so by SQL
CREATE INDEX ON s_shard (updated_at);
CREATE FUNCTION fill(t regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('INSERT INTO %s_shard (key, shard, inc, dec, updated_at)'
		' SELECT k, CASE WHEN k = ''blind'' THEN i ELSE (1 << 30) + i END, i, 1, timestamptz ''2020-01-01Z'' + i * interval ''1 day'''
		' FROM (VALUES ('''', 1), (''a'', 1), (''blind'', 25), (''few'', 3), (''many'', 35), (''more'', 9), (''z'', 1)) AS v(k, n), generate_series(1, n) AS i', t);
END $$;
CREATE FUNCTION state(t text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT format(''%%s: %%s = %%s - %%s at %%s, rows %%s, with %%s'', k, dc_get(%1$L, k), t.inc, t.dec, t.updated_at AT TIME ZONE ''UTC'', count(s.key), coalesce(sum(s.inc), 0))'
		' FROM (SELECT key FROM %1$I UNION SELECT key FROM %2$I) AS u(k) LEFT JOIN %1$I AS t ON t.key = k LEFT JOIN %2$I AS s ON s.key = k'
		' GROUP BY k, t.inc, t.dec, t.updated_at ORDER BY k', t, t || '_shard');
END $$;
SET dcounter.compact_batch = 10;
SELECT fill('d'), fill('s');
SELECT dc_compact('d', 0);
SELECT state('d') EXCEPT SELECT state('s');
-- some keys at a time. Of a key that is cut the two take other rows first.
SELECT dc_compact('d', 1), dc_compact('s', 1);
SELECT * FROM state('d');
SELECT state('d') EXCEPT SELECT state('s');
SELECT dc_compact('d', 2), dc_compact('s', 2);
SELECT key, count(*), sum(inc) FROM d_shard GROUP BY key ORDER BY key;
SELECT dc_compact('d', 2), dc_compact('s', 2);
SELECT state('d') EXCEPT SELECT state('s');
SELECT dc_compact('d'), dc_compact('s');
SELECT * FROM state('d');
SELECT state('d') EXCEPT SELECT state('s');
SELECT dc_compact('d'), dc_compact('s');
SELECT count(*) FROM d_shard;
SELECT count(*) FROM s_shard;
-- all in one batch; rows that are found at their first index entries, and others
SET dcounter.compact_batch = 1000;
SELECT fill('d'), fill('s');
SELECT dc_compact('d'), dc_compact('s');
SELECT * FROM state('d');
SELECT state('d') EXCEPT SELECT state('s');
SELECT dc_compact('d'), dc_compact('s');
SELECT (SELECT count(*) FROM d_shard), (SELECT count(*) FROM s_shard);
-- a key that cannot be moved, between others, with more rows than a batch
SET dcounter.compact_batch = 10;
INSERT INTO d_shard (key, shard, inc) SELECT 'full', (1 << 30) + i, 9223372036854775807 FROM generate_series(1, 25) i;
SELECT fill('d');
SELECT dc_compact('d');
SELECT count(*), count(DISTINCT inc) FROM d_shard WHERE key = 'full';
SELECT key, value FROM d ORDER BY key;
DELETE FROM d_shard;
-- a table of totals that is in the way: rows stay
DELETE FROM d;
SELECT fill('d');
CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
CREATE TRIGGER skip BEFORE INSERT ON d FOR EACH ROW WHEN (new.key = 'few') EXECUTE FUNCTION skip();
SELECT dc_compact('d');
SELECT key, count(*), sum(inc) FROM d_shard WHERE key = 'few' GROUP BY key;
DROP TRIGGER skip ON d;
SELECT dc_compact('d');
SELECT value FROM d WHERE key = 'few';
DELETE FROM d_shard;
-- one that changes the key: an error
DELETE FROM d;
SELECT fill('d');
CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN new.key = new.key || ' other'; RETURN new; END$$;
CREATE TRIGGER other BEFORE INSERT ON d FOR EACH ROW EXECUTE FUNCTION other();
SELECT dc_compact('d');
DROP FUNCTION other() CASCADE;
SELECT dc_compact('d');
SELECT count(*) FROM d WHERE key LIKE '% other';
DELETE FROM d_shard;
\set VERBOSITY terse
-- code of the owner that changes the shard table while its rows are locked
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN EXECUTE tg_argv[0]; RETURN new; END$$;
SELECT fill('d');
CREATE TRIGGER touch BEFORE UPDATE ON d FOR EACH ROW EXECUTE FUNCTION touch('UPDATE public.d_shard SET inc = inc + 1 WHERE key = ''z''');
SELECT dc_compact('d');
CREATE OR REPLACE TRIGGER touch BEFORE UPDATE ON d FOR EACH ROW EXECUTE FUNCTION touch('CREATE OR REPLACE TRIGGER skip BEFORE DELETE ON public.d_shard FOR EACH ROW EXECUTE FUNCTION public.skip()');
SELECT dc_compact('d');
CREATE OR REPLACE TRIGGER touch BEFORE UPDATE ON d FOR EACH ROW EXECUTE FUNCTION touch('ALTER TABLE public.d_shard ADD COLUMN more int');
SELECT dc_compact('d');
DROP TRIGGER touch ON d;
SELECT sum(inc) FROM d_shard;
SELECT dc_compact('d');
-- a dropped column, and compressed keys, which index entries hold too
ALTER TABLE d_shard ADD COLUMN gone int;
ALTER TABLE d_shard DROP COLUMN gone;
INSERT INTO d_shard (key, shard, inc) SELECT repeat('x', 1000) || n, (1 << 30) + i, 1 FROM generate_series(1, 3) n, generate_series(1, 12) i;
SELECT dc_compact('d');
SELECT right(key, 3), value, dc_get('d', key) FROM d WHERE length(key) > 1000 ORDER BY key;
SELECT count(*), sum(inc) FROM d_shard WHERE length(key) > 1000;
-- code that a step's commit runs does not work on the tables as well
CREATE TABLE deferring (a int);
CREATE FUNCTION maintain() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN CALL dc_maintain(); RETURN NULL; END$$;
CREATE CONSTRAINT TRIGGER t AFTER INSERT ON deferring DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION maintain();
DO $$BEGIN INSERT INTO deferring VALUES (1); CALL dc_maintain(); END$$;
CALL dc_maintain();
DROP TABLE deferring;
DROP FUNCTION fill(regclass), state(text), touch(), maintain();
SELECT dc_drop('d'), dc_drop('s');
DROP FUNCTION skip();
