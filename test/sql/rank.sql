-- Ranks: equal to rank() over the totals, whatever changes them; arguments, errors, rights, DDL.
SET client_min_messages = warning;
SELECT dc_create('points');
SELECT dc_load('points', '{ann,bob,cat,dan,eve}', '{30,20,20,10,-5}');

-- what dc_rank_create() asks for
SELECT dc_rank_create('points');
CREATE INDEX points_partial ON points (value DESC, key) WHERE value > 0;
CREATE INDEX points_key ON points (key, value);
CREATE INDEX points_hash ON points USING hash (value);
SELECT dc_rank_create('points');
DROP INDEX points_partial, points_key, points_hash;
SELECT dc_rank('points', 'ann');
-- the predicate of an index may be code of the owner's: it is not run
CREATE FUNCTION points_code(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'code of the owner runs'; RETURN true; END$$;
CREATE INDEX points_code ON points (value) WHERE points_code(1);
SET client_min_messages = notice;
SELECT dc_rank_create('points');
SET client_min_messages = warning;
DROP FUNCTION points_code CASCADE;
CREATE INDEX points_value ON points (value DESC, key);
SELECT dc_rank_create('points', build => 'none');
SELECT dc_rank('points', 'ann');
SELECT * FROM dc_at_rank('points', 1);
SELECT * FROM dc_around('points', 'ann');
CALL dc_build('points_rank');

-- ties have one rank, and come in the order of keys, as in dc_top()
SELECT * FROM dc_top('points', 3);
SELECT dc_rank('points', 'ann'), dc_rank('points', 'bob'), dc_rank('points', 'cat'), dc_rank('points', 'dan'), dc_rank('points', 'eve'), dc_rank('points', 'nobody');
SELECT * FROM dc_around('points', 'cat', 1);
SELECT * FROM dc_around('points', 'eve', 2);
SELECT * FROM dc_around('points', 'ann', 0);
SELECT * FROM dc_around('points', 'nobody');
SELECT * FROM dc_at_rank('points', 2);
SELECT * FROM dc_at_rank('points', 3, 2);
SELECT * FROM dc_at_rank('points', 6, 2);
SELECT * FROM dc_at_rank('points', 9223372036854775807, 2147483647);
SELECT count(*) FROM dc_at_rank('points', 1, 0);

-- as of the last compaction
SELECT dc_incr('points', 'dan', 100);
SELECT dc_incr('points', 'new', 50);
SELECT dc_get('points', 'dan'), dc_rank('points', 'dan'), dc_rank('points', 'new');
SELECT dc_compact('points') > 0, dc_rank('points', 'dan'), dc_rank('points', 'new');

-- what this transaction has written itself
BEGIN;
SELECT dc_set('points', 'eve', 1000), dc_rank('points', 'eve');
SELECT dc_rank('points', 'eve'), dc_rank('points', 'dan');
SAVEPOINT s;
SELECT dc_delete('points', 'eve');
SELECT dc_rank('points', 'eve'), dc_rank('points', 'dan');
ROLLBACK TO s;
SELECT dc_rank('points', 'eve'), dc_rank('points', 'dan');
UPDATE points SET inc = inc + 5000 WHERE key = 'cat';
SELECT * FROM dc_at_rank('points', 1, 2);
ROLLBACK;
SELECT * FROM dc_at_rank('points', 1, 2);

-- arguments
SELECT dc_rank(NULL, 'a');
SELECT dc_rank('points', NULL::text);
SELECT dc_rank('points_rank', 'a');
SELECT * FROM dc_around('points', 'a', NULL);
SELECT * FROM dc_around('points', 'a', -1);
SELECT * FROM dc_at_rank('points', NULL);
SELECT * FROM dc_at_rank('points', 0);
SELECT * FROM dc_at_rank('points', 1, -1);
SELECT * FROM dc_at_rank('points', 1, NULL);
SELECT dc_rank('pg_class', 'a');
SELECT dc_rank_create('points');
SELECT dc_rank_create('points', build => 'soon');
SELECT dc_rank_create('points', build => NULL);
SELECT dc_rank_create('points', lock_timeout => NULL);
SELECT dcounter.rank_bucket(1, -1), dcounter.rank_bucket(1, 19);
SELECT dcounter.rank_bucket(v, 0), dcounter.rank_bucket(v, 6), dcounter.rank_bucket(v, 12) FROM unnest('{0,1,-1,16384,16385,16386,9223372036854775807,-9223372036854775808}'::bigint[]) AS v;

-- keys of other types
SELECT dc_load('points', ARRAY[7], '{25}');
SELECT dc_rank('points', 7), dc_rank('points', '7'), dc_rank('points', jsonb '7');
SELECT count(*) FROM dc_around('points', 7, 1);
SELECT dc_delete('points', 7);

-- the model: all keys, positions and neighbourhoods, against window functions
CREATE FUNCTION wrong(OUT what text, OUT key text) RETURNS SETOF record LANGUAGE sql AS $$
	WITH ranked AS MATERIALIZED (SELECT p.key, p.value, rank() OVER (ORDER BY p.value DESC), row_number() OVER (ORDER BY p.value DESC, p.key) AS n FROM points AS p),
		framed AS MATERIALIZED (SELECT r.*, array_agg(format('%s %s %s', r.key, r.value, r.rank)) OVER (ORDER BY n ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING) AS page,
			array_agg(format('%s %s %s', r.key, r.value, r.rank)) OVER (ORDER BY n ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING) AS near FROM ranked AS r)
	SELECT 'rank', f.key FROM framed AS f WHERE dc_rank('points', f.key) IS DISTINCT FROM f.rank
	UNION ALL SELECT 'at_rank', f.key FROM framed AS f WHERE f.page IS DISTINCT FROM (SELECT array_agg(format('%s %s %s', a.key, a.value, a.rank)) FROM dc_at_rank('points', f.n, 3) AS a)
	UNION ALL SELECT 'around', f.key FROM framed AS f WHERE f.near IS DISTINCT FROM (SELECT array_agg(format('%s %s %s', a.key, a.value, a.rank)) FROM dc_around('points', f.key, 3) AS a)
	UNION ALL SELECT 'source', c.key FROM dc_source_check('points_rank') AS c
$$;
SELECT setseed(0.48);
SELECT dc_load('points', array_agg('e' || i), array_agg(CASE i % 3 WHEN 0 THEN (random() * 20)::bigint - 10 WHEN 1 THEN exp(random() * 43)::bigint ELSE -exp(random() * 43)::bigint END)) FROM generate_series(1, 90) AS i;
SELECT dc_load('points', array_agg('w' || i), array_agg(1000000 + i % 20)) FROM generate_series(1, 40) AS i;
SELECT dc_load('points', '{max,max2,min,big}', '{9223372036854775807,9223372036854775806,-9223372036854775807,4611686018427387904}');
SELECT * FROM wrong();
UPDATE points SET inc = 3, dec = 0 WHERE key LIKE 'e1%';
DELETE FROM points WHERE key LIKE 'w1%';
SELECT count(dc_incr('points', 'e' || i, i)) FROM generate_series(1, 40) AS i;
SELECT dc_compact('points') > 0;
SELECT * FROM wrong();
BEGIN;
UPDATE points SET dec = dec + 1 WHERE key LIKE 'w%';
SELECT * FROM wrong();
TRUNCATE points;
SELECT dc_load('points', '{x,y}', '{1,1}');
SELECT * FROM dc_at_rank('points', 1, 5);
SELECT * FROM wrong();
ROLLBACK;
SELECT * FROM wrong();
-- the model sees what is wrong
BEGIN;
SET session_replication_role = replica;
DELETE FROM points WHERE key = 'max';
SELECT what, count(*) FROM wrong() GROUP BY 1 ORDER BY 1;
ROLLBACK;
SET session_replication_role = origin;

-- a position further than all that are near it, among many ties
SELECT dc_load('points', array_agg('t' || lpad(i::text, 3, '0')), array_agg(77)) FROM generate_series(1, 600) AS i;
SELECT key, rank - dc_rank('points', 't001') FROM dc_around('points', 't300', 1);
SELECT key, rank = dc_rank('points', 't001') FROM dc_at_rank('points', dc_rank('points', 't001') + 499, 2);

-- in the leader of a parallel query
BEGIN;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL min_parallel_index_scan_size = 0;
SELECT count(inc) > 100, dc_rank('points', 'max'), (SELECT key FROM dc_at_rank('points', 1)) FROM points;
ROLLBACK;
-- old snapshots
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_rank('points', 'ann') = 1 + (SELECT count(*) FROM points WHERE value > 30);
SELECT dc_set('points', 'ann', 9000000000000);
SELECT dc_rank('points', 'ann') = 1 + (SELECT count(*) FROM points WHERE value > 9000000000000);
COMMIT;

-- rights: whoever may read the totals may read their ranks
CREATE ROLE dc_ranker;
GRANT USAGE ON SCHEMA public TO dc_ranker;
SET ROLE dc_ranker;
SELECT dc_rank('points', 'ann');
SELECT dc_rank_create('points');
SELECT dc_rank_drop('points');
RESET ROLE;
GRANT SELECT ON points TO dc_ranker;
SET ROLE dc_ranker;
SELECT dc_rank('points', 'ann') > 0, (SELECT count(*) FROM dc_at_rank('points', 1, 3)), (SELECT count(*) FROM dc_around('points', 'ann', 1));
SELECT dc_get('points_rank', 'x');
RESET ROLE;

-- nobody else binds a table of totals, or by this function
CREATE TABLE other (v bigint);
SELECT dc_create('othern');
SELECT dc_bind('othern', 'points', 'value');
SELECT dc_bind('othern', 'points', 'dcounter.rank_bucket(value, 0)');
SELECT dc_bind('othern', 'other', 'dcounter.rank_bucket(v, 0)');
SELECT dc_incr('points_rank', '[1]');
DROP TABLE other;

-- what cannot have ranks
SELECT dc_stock_create('pile');
CREATE INDEX ON pile (value);
SELECT dc_rank_create('pile');
SELECT dc_ledger_create('book');
CREATE INDEX ON book (value);
SELECT dc_rank_create('book');
CREATE INDEX ON points_rank (value);
SELECT dc_rank_create('points_rank');
SELECT dc_create('light');
ALTER TABLE light SET UNLOGGED;
CREATE INDEX ON light (value);
SELECT dc_rank_create('light');
SELECT to_regclass('light_rank');
SELECT dc_create(rpad('long', 55, 'g'));
DO $$ BEGIN EXECUTE format('CREATE INDEX ON %I (value)', rpad('long', 55, 'g')); END $$;
SELECT dc_rank_create(rpad('long', 55, 'g')::regclass);
SELECT dc_drop(rpad('long', 55, 'g')::regclass);

-- partitions, further columns, ranks of a bound counter
SELECT dc_create('parted', partitions => 2);
CREATE INDEX ON parted (value);
SELECT dc_rank_create('parted', build => 'now');
SELECT dc_load('parted', '{a,b,c}', '{1,2,3}');
SELECT dc_rank('parted', 'a'), dc_rank('parted', 'c');
CREATE TABLE fans (who text);
SELECT dc_create('fan_n');
SELECT dc_bind('fan_n', 'fans', 'who', build => 'now');
CREATE INDEX ON fan_n (value);
SELECT dc_rank_create('fan_n', build => 'now');
INSERT INTO fans VALUES ('a'), ('b'), ('b');
SELECT dc_compact('fan_n') > 0, dc_rank('fan_n', 'a'), dc_rank('fan_n', 'b');

-- DDL: the table of buckets follows
ALTER TABLE points RENAME TO scores;
SELECT to_regclass('points_rank'), to_regclass('scores_rank'), dc_rank('scores', 'ann') > 0;
CREATE SCHEMA dc_ranks AUTHORIZATION dc_ranker;
ALTER TABLE scores SET SCHEMA dc_ranks;
GRANT CREATE ON SCHEMA public TO dc_ranker;
ALTER TABLE dc_ranks.scores OWNER TO dc_ranker;
SELECT relname, relowner::regrole FROM pg_class WHERE relnamespace = 'dc_ranks'::regnamespace AND relkind = 'r' ORDER BY relname COLLATE "C";
SET ROLE dc_ranker;
SELECT dc_rank('dc_ranks.scores', 'ann') > 0;
SELECT dc_load('dc_ranks.scores', '{zoe}', '{9223372036854775807}');
SELECT dc_rank('dc_ranks.scores', 'zoe');
DROP INDEX dc_ranks.points_value;
SELECT dc_rank('dc_ranks.scores', 'zoe');
SELECT dc_rank_drop('dc_ranks.scores');
SELECT dc_rank_drop('dc_ranks.scores');
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'dc_ranks.scores'::regclass AND tgname LIKE 'dcounter_source%';
CREATE INDEX ON dc_ranks.scores (value);
SELECT dc_rank_create('dc_ranks.scores', build => 'now');
DROP TABLE dc_ranks.scores_rank;
SELECT dc_rank('dc_ranks.scores', 'zoe');
SELECT dc_rank_create('dc_ranks.scores', build => 'now');
SELECT dc_rank('dc_ranks.scores', 'zoe');
DROP TABLE dc_ranks.scores;
SELECT relname FROM pg_class WHERE relnamespace = 'dc_ranks'::regnamespace;
SELECT counter FROM dcounter.source WHERE key LIKE '%rank_bucket%' ORDER BY counter::text;
RESET ROLE;
BEGIN;
DROP TABLE parted, parted_rank;
ROLLBACK;
CREATE SCHEMA dc_all;
SELECT dc_create('dc_all.p');
CREATE INDEX ON dc_all.p (value);
SELECT dc_rank_create('dc_all.p', build => 'now');
DROP SCHEMA dc_all CASCADE;
DROP TABLE parted, fans, fan_n, pile, light, othern;
SELECT dc_drop('book');
DROP SCHEMA dc_ranks;
REVOKE ALL ON SCHEMA public FROM dc_ranker;
DROP ROLE dc_ranker;
SELECT to_regclass('parted_rank'), to_regclass('fan_n_rank');
SELECT counter, source FROM dcounter.source WHERE key LIKE '%rank_bucket%';
DROP FUNCTION wrong;
