-- Trends: what counts, scores, epochs, and what may happen to the tables
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
\pset null NULL

SELECT dc_create('likes', trend => '1000 hours');
\d likes_trend
SELECT obj_description('likes_trend'::regclass);
SELECT trends, half_life, totals FROM dcounter.counter WHERE counter = 'likes'::regclass;
SELECT totals, compacted_because, settings -> 'trend' FROM dc_tables WHERE counter = 'likes'::regclass;
SELECT * FROM dc_trending('likes');

-- Compaction feeds it; scores are a little less than what was counted a moment ago
CREATE FUNCTION top(counter regclass, n int DEFAULT 10) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s %s', key, round(score::numeric, 1)), ', ' ORDER BY round(score::numeric, 1) DESC, key) FROM dc_trending(counter, n) $$;
SELECT dc_incr('likes', 'a', 5), dc_incr('likes', 'b', 30), dc_incr('likes', 'c', 7), dc_incr('likes', 'd', 6);
SELECT top('likes');
SELECT dc_compact('likes');
SELECT top('likes');
SELECT top('likes', 2);
SELECT key, rank FROM dc_trending('likes');
SELECT count(*) FROM dc_trending('likes', 0);
SELECT dc_decr('likes', 'b', 28), dc_incr('likes', 'a', 1), dc_decr('likes', 'e', 3);
SELECT dc_compact('likes');
SELECT top('likes');
SELECT count(*), bool_and(epoch = floor(extract(epoch FROM now() - '2000-01-01 00:00:00+00') / 3600 / 1000 / 512)) FROM likes_trend;
-- What was not changed is not written
SELECT xmin AS before FROM likes_trend WHERE key = 'c' \gset
SELECT dc_incr('likes', 'a'), dc_compact('likes');
SELECT xmin = :before FROM likes_trend WHERE key = 'c';
-- Equal scores have the same rank
INSERT INTO likes_trend SELECT 'same ' || i, weight * 2, epoch FROM likes_trend, generate_series(1, 3) AS i WHERE key = 'c';
SELECT key, rank FROM dc_trending('likes', 4);
DELETE FROM likes_trend WHERE key LIKE 'same%';
-- Nothing net is nothing
SELECT dc_incr('likes', 'z', 5), dc_decr('likes', 'z', 5), dc_compact('likes');
SELECT count(*) FROM likes_trend WHERE key = 'z';

-- Shard rows say when they were changed last: half of a half-life later 2^-0.5 of it is left
SELECT dc_incr('likes', 'old', 1000);
UPDATE likes_shard SET updated_at = now() - interval '500 hours' WHERE key = 'old';
SELECT dc_compact('likes');
SELECT round(score::numeric, -1) FROM dc_trending('likes') WHERE key = 'old';
-- A time to come is now; one before all times is nothing
SELECT dc_incr('likes', 'future', 100), dc_incr('likes', 'never', 100);
UPDATE likes_shard SET updated_at = CASE key WHEN 'future' THEN 'infinity' ELSE '-infinity' END::timestamptz;
SELECT dc_compact('likes');
SELECT key, round(score::numeric) FROM dc_trending('likes') WHERE key IN ('future', 'never');
-- The greatest deltas
SELECT dc_incr('likes', 'most', 9223372036854775807), dc_decr('likes', 'least', 9223372036854775807);
SELECT dc_compact('likes');
SELECT score BETWEEN 9.2e18 AND 9.3e18 FROM dc_trending('likes', 1);
SELECT dc_delete('likes', k) FROM unnest(ARRAY['most', 'least', 'never', 'old', 'future', 'e', 'z']) AS k;
SELECT top('likes');

-- Epochs: a weight of the previous epoch is worth as much, moves with its key, and later without it
SELECT epoch AS now FROM likes_trend WHERE key = 'a' \gset
UPDATE likes_trend SET weight = weight * 2.0 ^ 512, epoch = epoch - 1 WHERE key IN ('a', 'c');
SELECT top('likes');
SELECT dc_incr('likes', 'c', 3), dc_compact('likes');
SELECT top('likes');
SELECT key, epoch - :now FROM likes_trend ORDER BY key;
-- Soon after an epoch has begun, 20 half-lives here, one of before can be the first
SELECT dc_create('begun', trend => make_interval(secs => extract(epoch FROM now() - '2000-01-01 00:00:00+00') / (512 * 1000 + 20)));
INSERT INTO begun_trend VALUES ('new', 2.0 ^ 20, 1000), ('before', 3 * 2.0 ^ 532, 999), ('less', 2.0 ^ 531, 999);
SELECT key, rank FROM dc_trending('begun', 1);
SELECT key, rank FROM dc_trending('begun', 2);
SELECT dc_drop('begun');
-- One that has decayed to nothing; one of an epoch that no clock has reached; values that are not numbers
INSERT INTO likes_trend VALUES ('past', 1e300, :now - 2), ('small', 1e100, :now - 1), ('beyond', 1e300, :now + 2), ('beyond', 1, 9223372036854775807) ON CONFLICT DO NOTHING;
INSERT INTO likes_trend VALUES ('inf', 'Infinity', :now), ('nan', 'NaN', :now), ('-inf', '-Infinity', :now), ('first', 1, -9223372036854775808);
SELECT top('likes');
SELECT dc_compact('likes');
SELECT key FROM likes_trend ORDER BY key;
SELECT dc_incr('likes', k, 2) FROM unnest(ARRAY['inf', 'nan', 'beyond', 'first']) AS k;
SELECT dc_compact('likes');
SELECT top('likes');
SELECT dc_delete('likes', k) FROM unnest(ARRAY['inf', 'nan', '-inf', 'beyond', 'first']) AS k;

-- What keys are set, reset or loaded to does not count, but the increments before do
SELECT dc_incr('likes', 'set', 4), dc_set('likes', 'set', 1000), dc_set('likes', 'new', 1000);
SELECT dc_compact('likes');
SELECT top('likes');
SELECT dc_incr('likes', 'set', 2), dc_incr('likes', 'new', 3), dc_reset('likes', 'set');
SELECT dc_get('likes', 'set'), dc_get('likes', 'new');
SELECT dc_compact('likes');
SELECT top('likes');
SELECT dc_load('likes', ARRAY['loaded'], ARRAY[500]::bigint[]), dc_compact('likes');
SELECT top('likes');
SELECT dc_delete('likes', 'set'), dc_delete('likes', 'nothing');
SELECT top('likes');
BEGIN;
SELECT dc_delete('likes', 'new');
SELECT dc_set('likes', 'new', 5);
SELECT top('likes');
ROLLBACK;
SELECT top('likes');

-- Another half-life: scores stay, and fade at another speed
SELECT dc_alter('likes', trend => '1000 hours');
SELECT dc_alter('likes', trend => '7 days');
SELECT top('likes');
SELECT dc_alter('likes', trend => '1 hour'), dc_alter('likes', trend => '3650 days'), dc_alter('likes', trend => '40 minutes');
SELECT round(score::numeric / 10) FROM dc_trending('likes', 1);
SELECT half_life FROM dcounter.counter WHERE counter = 'likes'::regclass;
INSERT INTO likes_trend SELECT 'odd ' || i, w, e + d FROM (SELECT max(epoch) AS e FROM likes_trend) AS m,
	(VALUES (1, 'NaN'::float8, 0), (2, 'Infinity', 0), (3, 1e308, -1), (4, 1e-300, -1), (5, 1e308, 1), (6, 1, 2), (7, -1e308, 0)) AS v(i, w, d);
SELECT dc_alter('likes', trend => '1 day');
SELECT key FROM likes_trend WHERE key LIKE 'odd%';

-- Ending it, and starting over
SELECT dc_alter('likes', trend => '0');
SELECT to_regclass('likes_trend'), trends, half_life FROM dcounter.counter WHERE counter = 'likes'::regclass;
SELECT totals FROM dc_tables WHERE counter = 'likes'::regclass;
SELECT * FROM dc_trending('likes');
SELECT dc_incr('likes', 'a', 100), dc_compact('likes');
SELECT dc_alter('likes', trend => '1000 hours');
SELECT dc_incr('likes', 'a'), dc_compact('likes');
SELECT top('likes');

-- Dropping its table ends it, too; renames follow; TRUNCATE
DROP TABLE likes_trend;
SELECT trends, half_life FROM dcounter.counter WHERE counter = 'likes'::regclass;
SELECT dc_incr('likes', 'a'), dc_compact('likes');
SELECT dc_alter('likes', trend => '1000 hours');
CREATE SCHEMA elsewhere;
ALTER TABLE likes RENAME TO hearts;
ALTER TABLE hearts SET SCHEMA elsewhere;
CREATE ROLE trend_owner;
GRANT ALL ON SCHEMA elsewhere TO trend_owner;
ALTER TABLE elsewhere.hearts OWNER TO trend_owner;
SELECT relname, relnamespace::regnamespace, relowner::regrole FROM pg_class WHERE relname LIKE 'hearts%' AND relkind = 'r' ORDER BY relname;
SET ROLE trend_owner;
SELECT dc_incr('elsewhere.hearts', 'a', 3), dc_compact('elsewhere.hearts');
SELECT top('elsewhere.hearts');
TRUNCATE elsewhere.hearts_trend;
SELECT top('elsewhere.hearts');
SELECT dc_incr('elsewhere.hearts', 'a', 3), dc_compact('elsewhere.hearts');
TRUNCATE elsewhere.hearts;
SELECT count(*) FROM elsewhere.hearts_trend;

-- A table that was altered: compaction goes on without it, once with a warning
ALTER TABLE elsewhere.hearts_trend ALTER COLUMN weight TYPE numeric;
SELECT dc_incr('elsewhere.hearts', 'a'), dc_compact('elsewhere.hearts');
SELECT dc_incr('elsewhere.hearts', 'a'), dc_compact('elsewhere.hearts');
SELECT dc_set('elsewhere.hearts', 'b', 1), dc_delete('elsewhere.hearts', 'b');
SELECT value FROM elsewhere.hearts;
SELECT * FROM dc_trending('elsewhere.hearts');
ALTER TABLE elsewhere.hearts_trend ALTER COLUMN weight TYPE float8;
SELECT dc_incr('elsewhere.hearts', 'a', 2), dc_compact('elsewhere.hearts');
SELECT top('elsewhere.hearts');
ALTER TABLE elsewhere.hearts_trend ADD COLUMN more int NOT NULL DEFAULT 1;
SELECT dc_incr('elsewhere.hearts', 'a', 2), dc_compact('elsewhere.hearts');
ALTER TABLE elsewhere.hearts_trend DROP COLUMN more;
SELECT dc_incr('elsewhere.hearts', 'a', 2), dc_compact('elsewhere.hearts');
SELECT top('elsewhere.hearts');
ALTER TABLE elsewhere.hearts_trend ENABLE ROW LEVEL SECURITY;
SELECT dc_incr('elsewhere.hearts', 'a', 2), dc_compact('elsewhere.hearts');
ALTER TABLE elsewhere.hearts_trend DISABLE ROW LEVEL SECURITY;
ALTER TABLE elsewhere.hearts_trend DROP CONSTRAINT likes_trend_pkey;
SELECT dc_incr('elsewhere.hearts', 'a', 2), dc_compact('elsewhere.hearts');
ALTER TABLE elsewhere.hearts_trend ADD PRIMARY KEY (key);
RESET ROLE;
ALTER TABLE elsewhere.hearts_trend OWNER TO CURRENT_USER;
SELECT dc_incr('elsewhere.hearts', 'a', 2), dc_compact('elsewhere.hearts');
ALTER TABLE elsewhere.hearts_trend OWNER TO trend_owner;
-- A parent or a child has rows of another role
CREATE TABLE elsewhere.parent (key text COLLATE "C" NOT NULL, weight float8 NOT NULL, epoch int8 NOT NULL) PARTITION BY LIST (key);
ALTER TABLE elsewhere.parent ATTACH PARTITION elsewhere.hearts_trend DEFAULT;
SELECT dc_incr('elsewhere.hearts', 'a', 2), dc_compact('elsewhere.hearts');
ALTER TABLE elsewhere.parent DETACH PARTITION elsewhere.hearts_trend;
DROP TABLE elsewhere.parent;
SELECT dc_incr('elsewhere.hearts', 'a', 2), dc_compact('elsewhere.hearts');
SELECT value FROM elsewhere.hearts;

-- Code on it is its owner's, and makes the table one that its owner maintains
CREATE FUNCTION elsewhere.code() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% as % with %', tg_op, current_user, new.key;
	RETURN new;
END $$;
CREATE TRIGGER code BEFORE INSERT OR UPDATE ON elsewhere.hearts_trend FOR EACH ROW EXECUTE FUNCTION elsewhere.code();
SELECT maintained_by, left_because FROM dc_tables WHERE counter = 'elsewhere.hearts'::regclass;
SELECT dc_incr('elsewhere.hearts', 'a', 2), dc_compact('elsewhere.hearts');
CREATE OR REPLACE FUNCTION elsewhere.code() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
SELECT dc_incr('elsewhere.hearts', 'new', 2), dc_compact('elsewhere.hearts');
SELECT value FROM elsewhere.hearts WHERE key = 'new';
DROP TRIGGER code ON elsewhere.hearts_trend;

-- Rights: roles that may read the counter may read its trend
CREATE ROLE trend_reader;
GRANT USAGE ON SCHEMA elsewhere TO trend_reader;
SET ROLE trend_reader;
SELECT * FROM dc_trending('elsewhere.hearts');
RESET ROLE;
GRANT SELECT ON elsewhere.hearts TO trend_reader;
SET ROLE trend_reader;
SELECT count(*) FROM dc_trending('elsewhere.hearts');
SELECT count(*) FROM elsewhere.hearts_trend;
SELECT dc_alter('elsewhere.hearts', trend => '1 day');
RESET ROLE;

-- Kinds of counters
SELECT dc_create('parts', partitions => 2, trend => '1000 hours');
SELECT dc_incr('parts', 'k' || i, i) FROM generate_series(1, 6) AS i;
SELECT dc_compact('parts');
SELECT top('parts');
TRUNCATE parts_p0;
SELECT (SELECT array_agg(key ORDER BY key) FROM parts) = (SELECT array_agg(key ORDER BY key) FROM parts_trend), (SELECT count(*) BETWEEN 1 AND 5 FROM parts);
SELECT dc_create('slow', totals => 'compacted', trend => '1000 hours');
SELECT dc_create('told', trend => '1000 hours');
SELECT dc_alter('told', events => '1 hour');
SELECT dc_incr('told', 'a', 2), dc_compact('told');
SELECT top('told');
SELECT dc_create('sampled', sample => 4, trend => '1000 hours');
SELECT dc_incr('sampled', 'a', 8), dc_compact('sampled');
SELECT top('sampled');
SELECT dc_stock_create('tickets');
SELECT dc_alter('tickets', trend => '1000 hours');
SELECT dc_ledger_create('accounts');
SELECT dc_alter('accounts', trend => '1000 hours');

-- What is refused
SELECT dc_create('wrong', trend => '-1 hour');
SELECT dc_create('wrong', trend => '500 ms');
SELECT dc_create('wrong', trend => '4000 days');
SELECT dc_create('a234567890123456789012345678901234567890123456789012345678', trend => '1000 hours');
SELECT dc_trending('parts', NULL);
SELECT dc_trending('parts', -1);
SELECT dc_trending(NULL);
SELECT dc_trending('parts_trend');
CREATE TABLE plain_trend ();
SELECT dc_create('plain');
SELECT dc_alter('plain', trend => '1000 hours');
DROP TABLE plain_trend;
SELECT dc_alter('plain', trend => '1000 hours');
ALTER TABLE plain_trend ALTER epoch TYPE int;
SELECT dc_trending('plain');
ALTER TABLE plain_trend ALTER epoch TYPE bigint;
BEGIN READ ONLY;
SELECT count(*) FROM dc_trending('plain');
SELECT dc_alter('plain', trend => '2 hours');
ROLLBACK;

-- REPEATABLE READ sees what its snapshot does
SELECT dc_incr('plain', 'a', 2), dc_compact('plain');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT top('plain');
SELECT dc_incr('plain', 'a', 2), dc_compact('plain');
SELECT top('plain');
COMMIT;

-- In the transaction of its creation; and rolled back
BEGIN;
SELECT dc_create('now', trend => '1000 hours');
SELECT dc_incr('now', 'a', 2), dc_compact('now');
SELECT top('now');
ROLLBACK;
BEGIN;
SELECT dc_incr('plain', 'a', 5), dc_compact('plain');
SAVEPOINT s;
SELECT dc_alter('plain', trend => '0');
ROLLBACK TO s;
SELECT top('plain');
ROLLBACK;
SELECT top('plain');

-- Another table takes its name; adopting brings no trend along
SELECT dc_create('adopted', trend => '1000 hours');
DELETE FROM dcounter.counter WHERE counter = 'adopted'::regclass;
SELECT dc_adopt('adopted');
SELECT * FROM dc_trending('adopted');
SELECT dc_alter('adopted', trend => '1000 hours');
DROP TABLE adopted_trend;
SELECT dc_alter('adopted', trend => '1000 hours');

DROP FUNCTION top;
SELECT dc_drop(t) FROM unnest(ARRAY['elsewhere.hearts', 'parts', 'slow', 'told', 'sampled', 'tickets', 'accounts', 'plain', 'adopted']::regclass[]) AS t;
SELECT relname FROM pg_class WHERE relname LIKE '%\_trend' AND relkind = 'r';
DROP SCHEMA elsewhere CASCADE;
DROP ROLE trend_reader;
DROP ROLE trend_owner;
