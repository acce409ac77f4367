-- Many keys in one transaction: early writes, and how much memory they save
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
SELECT dc_apply();
SHOW dcounter.pending_memory;
\set VERBOSITY sqlstate
SET dcounter.pending_memory = '63kB';
SET dcounter.pending_memory = -1;
SET dcounter.nothing = 1;
\set VERBOSITY default
SELECT dc_create('c', max_shards => 1, totals => 'compacted'), dc_create('c8', max_shards => 1, partitions => 8);
-- Keys, their least and greatest value, and the sum
CREATE FUNCTION state(c regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT format(''%%s keys, %%s to %%s, sum %%s'', count(*), min(m.value), max(m.value), dc_sum(%L))
		FROM dc_get_many(%L, (SELECT array_agg(DISTINCT key) FROM (SELECT key FROM %s UNION SELECT key FROM %s) k)) m',
		c, c, c, (SELECT shards FROM dcounter.counter d WHERE d.counter = c)) INTO result;
	RETURN result;
END $$;
SET dcounter.pending_memory = '64kB';
BEGIN;
SELECT count(dc_incr(c, i::text)) FROM generate_series(1, 20000) i, unnest(ARRAY['c', 'c8']::regclass[]) c;
-- Some are written, some wait; all are seen
SELECT (SELECT count(*) FROM c_shard) + (SELECT count(*) FROM c8_shard) BETWEEN 38000 AND 39999;
SELECT dc_get('c', '1'), dc_get('c', '20000'), dc_get('c8', '1'), dc_get('c8', '20000'), dc_sum('c'), dc_sum('c8');
COMMIT;
SELECT c, state(c) FROM unnest(ARRAY['c', 'c8']::regclass[]) c;
-- The same keys again and again: each transaction adds to a row of its own
SELECT count(dc_incr(c, (1 + i % 5000)::text, 10)) FROM generate_series(0, 19999) i, unnest(ARRAY['c', 'c8']::regclass[]) c;
SELECT c, state(c) FROM unnest(ARRAY['c', 'c8']::regclass[]) c;
SELECT count(*), max(n) FROM (SELECT count(*) AS n FROM c_shard GROUP BY key) k;
SELECT dc_compact(c) FROM unnest(ARRAY['c', 'c8']::regclass[]) c;
SELECT dc_compact(c), state(c) FROM unnest(ARRAY['c', 'c8']::regclass[]) c;
-- Rows are kept as long as another session has an old snapshot, as autovacuum may when it looks at as many
DO $$BEGIN
	FOR i IN 1..600 LOOP
		PERFORM dc_compact('c');
		COMMIT;
		EXIT WHEN NOT EXISTS (SELECT FROM c_shard);
		PERFORM pg_sleep(0.1);
		COMMIT;
	END LOOP;
END$$;
SELECT count(*) FROM c_shard;
-- In savepoints, rolled back and released
BEGIN;
SELECT count(dc_incr(c, i::text, 100)) FROM generate_series(1, 3000) i, unnest(ARRAY['c', 'c8']::regclass[]) c;
SAVEPOINT a;
SELECT count(dc_incr(c, i::text, 1000)) FROM generate_series(1, 20000) i, unnest(ARRAY['c', 'c8']::regclass[]) c;
SAVEPOINT b;
SELECT count(dc_incr(c, i::text, 10000)) FROM generate_series(1, 3000) i, unnest(ARRAY['c', 'c8']::regclass[]) c;
RELEASE b;
SELECT dc_get('c', '1'), dc_get('c', '3000'), dc_get('c8', '3001'), dc_get('c8', '20000');
ROLLBACK TO a;
SELECT dc_get('c', '1'), dc_get('c', '3000'), dc_get('c8', '3001'), dc_get('c8', '20000');
SAVEPOINT b;
SELECT count(dc_incr(c, i::text, 1000)) FROM generate_series(1, 6000) i, unnest(ARRAY['c', 'c8']::regclass[]) c;
RELEASE b;
COMMIT;
SELECT c, dc_get(c, '1'), dc_get(c, '3000'), dc_get(c, '3001'), dc_get(c, '6000'), dc_get(c, '6001'), dc_sum(c) FROM unnest(ARRAY['c', 'c8']::regclass[]) c;
BEGIN;
SELECT count(dc_incr('c', i::text, 100)) FROM generate_series(1, 20000) i;
ROLLBACK;
SELECT dc_sum('c') = dc_sum('c8');
-- An error in the midst of it, caught
DO $$
BEGIN
	PERFORM dc_incr('c', i::text, 1) FROM generate_series(1, 2000) i;
	BEGIN
		PERFORM dc_incr('c', i::text, 1 / (19999 - i)) FROM generate_series(1, 20000) i;
	EXCEPTION WHEN division_by_zero THEN
		PERFORM dc_incr('c', i::text, 1) FROM generate_series(2001, 4000) i;
	END;
END $$;
SELECT dc_sum('c') - dc_sum('c8');
-- dc_incr_many with more keys than fit, and long keys
SELECT dc_incr_many('c', array_agg(repeat('long', 250) || i), array_agg(i)) FROM generate_series(1, 2000) i;
SELECT dc_get('c', repeat('long', 250) || 1), dc_get('c', repeat('long', 250) || 2000), dc_sum('c') - dc_sum('c8');
RESET dcounter.pending_memory;

-- The memory that pending increments take, at its most: that of the setting, and
-- 1MB for what the server allocates with it. Short keys, and longer ones.
TRUNCATE c, c_shard;
CREATE FUNCTION pending_memory() RETURNS bigint LANGUAGE sql AS $$
	SELECT coalesce(sum(total_bytes), 0) FROM pg_backend_memory_contexts WHERE name LIKE 'dcounter%' AND name LIKE '%pending%' $$;
CREATE FUNCTION most(prefix text, n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	most bigint := 0;
	written bigint;
BEGIN
	FOR i IN 0 .. n / 2500 - 1 LOOP
		PERFORM dc_incr('c', prefix || (i * 2500 + j)) FROM generate_series(1, 2500) j;
		most := greatest(most, pending_memory());
	END LOOP;
	SELECT count(*) INTO written FROM c_shard;
	RETURN format('%s, %s, %s', CASE WHEN most > 4 * 1024 * 1024 THEN 'used' ELSE most::text END,
		CASE WHEN most <= 17 * 1024 * 1024 THEN 'within the bound' ELSE most::text END,
		CASE WHEN written BETWEEN 1 AND n - 1 THEN 'partly written' ELSE written::text END);
END $$;
BEGIN;
SELECT most('', 400000);
SELECT dc_sum('c');
ROLLBACK;
BEGIN;
SELECT most('0123456789012345678901234567', 200000);
COMMIT;
SELECT dc_sum('c'), pending_memory();
SELECT state('c');
SELECT dc_drop('c'), dc_drop('c8');
DROP FUNCTION state, pending_memory, most;
