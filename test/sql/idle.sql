-- Keys that expire: what is deleted, what stays, what is refused
CREATE SCHEMA idle;
SET search_path = idle, public;
SET client_min_messages = warning;
SELECT dc_create('likes', idle => '90 days');
SELECT idle FROM dcounter.counter WHERE counter = 'likes'::regclass;
SELECT settings -> 'idle' FROM dc_tables WHERE counter = 'likes'::regclass;
SELECT dc_incr('likes', k, n) FROM (VALUES ('old', 5), ('new', 6), ('shard', 7), ('set', 8), ('negative', -3)) AS v(k, n);
CALL dc_maintain();
-- aged(KEYS): makes rows of totals older, as nobody writes them
CREATE FUNCTION aged(keys text[], by interval DEFAULT '91 days') RETURNS bigint LANGUAGE sql AS $$
	WITH a AS (UPDATE likes SET updated_at = now() - by WHERE key = ANY (keys) RETURNING key) SELECT count(*) FROM a $$;
SELECT aged('{old,shard,set,negative}'), aged('{new}', '89 days');
-- an increment that is in a shard row keeps its key
BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT dc_incr('likes', 'shard', 1); COMMIT;
SELECT dc_set('likes', 'set', 2);
SELECT count(*) FROM likes_shard WHERE key = 'shard';
SELECT key, value FROM likes ORDER BY key;
-- dc_maintain() compacts first
CALL dc_maintain();
SELECT key, value FROM likes ORDER BY key;
SELECT dc_get('likes', 'old'), dc_get('likes', 'negative'), dc_get('likes', 'shard'), dc_sum('likes');
-- it counts from zero again
SELECT dc_incr('likes', 'old', 2);
SELECT dc_get('likes', 'old');

-- More keys than one transaction deletes, in several ranges of blocks, which are nearly empty
ALTER TABLE likes SET (fillfactor = 10);
SELECT dc_load('likes', ARRAY(SELECT 'key ' || i FROM generate_series(1, 15000) AS i), ARRAY(SELECT i FROM generate_series(1, 15000) AS i)) > 0;
UPDATE likes SET updated_at = now() - interval '91 days' WHERE key ~ '^key' AND right(key, 1) = '7';
SELECT pg_relation_size('likes') / 8192 > 1024;
CALL dc_maintain();
SELECT count(*), min(value), bool_or(key ~ '7$') FROM likes WHERE key ~ '^key';

-- Altering; 0 is never, and NULL keeps it
SELECT aged('{new}', '100 days');
SELECT dc_alter('likes', idle => '0'), dc_alter('likes', max_shards => 8);
SELECT idle FROM dcounter.counter WHERE counter = 'likes'::regclass;
CALL dc_maintain();
SELECT dc_get('likes', 'new');
SELECT dc_alter('likes', idle => '99 days'), dc_alter('likes', max_shards => 9);
SELECT idle FROM dcounter.counter WHERE counter = 'likes'::regclass;
CALL dc_maintain();
SELECT dc_get('likes', 'new');

SELECT dc_incr('likes', 'seen', 4);
CALL dc_maintain();
SELECT aged('{seen}', '100 days');

-- With a trend, which forgets the key, too
SELECT dc_alter('likes', trend => '1 hour');
SELECT dc_incr('likes', 'trendy', 4);
CALL dc_maintain();
SELECT count(*) FROM likes_trend WHERE key = 'trendy';
SELECT aged('{trendy}', '100 days');
CALL dc_maintain();
SELECT count(*) FROM likes_trend WHERE key = 'trendy';
SELECT count(*) FROM likes WHERE key IN ('trendy', 'seen');
SELECT dc_alter('likes', trend => '0');

-- Keys that others refer to stay, and so do those of a table with a trigger; compaction goes on
CREATE TABLE post (key text COLLATE "C" REFERENCES likes);
SELECT dc_incr('likes', 'kept', 1);
CALL dc_maintain();
SELECT aged('{kept}', '100 days');
SELECT dc_incr('likes', 'next', 1);
CALL dc_maintain();
SELECT key, value FROM likes WHERE key IN ('kept', 'next') ORDER BY key;
DROP TABLE post;
CALL dc_maintain();
SELECT key, value FROM likes WHERE key IN ('kept', 'next') ORDER BY key;

-- An op that was counted stays so when its key has gone
SELECT dc_incr_once('likes', 'once', 3, 'op 1');
CALL dc_maintain();
SELECT aged('{once}', '100 days');
CALL dc_maintain();
SELECT dc_get('likes', 'once'), dc_incr_once('likes', 'once', 3, 'op 1'), dc_get('likes', 'once');

-- Refused
CREATE FUNCTION try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text; hint text;
BEGIN
	EXECUTE statement;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' / ', sqlstate || ' ' || sqlerrm, nullif(detail, ''), nullif(hint, ''));
END $$;
SELECT dc_stock_create('stk'), dc_ledger_create('led'), dc_create('plain'), dc_create('parts', partitions => 2), dc_create('watched'), dc_create('bound');
SELECT dc_unread_create('seen', 'watched');
CREATE TABLE src (k text);
SELECT dc_bind('bound', 'src', 'k');
SELECT dc_window_create('win', '1 hour', '1 day');
SELECT s, try(s) FROM unnest(ARRAY[$$SELECT dc_alter('stk', idle => '1 day')$$, $$SELECT dc_alter('led', idle => '1 day')$$, $$SELECT dc_alter('parts', idle => '1 day')$$,
	$$SELECT dc_alter('watched', idle => '1 day')$$, $$SELECT dc_alter('bound', idle => '1 day')$$, $$SELECT dc_create('x', partitions => 2, idle => '1 day')$$,
	$$SELECT dc_alter('plain', idle => '1 month')$$, $$SELECT dc_alter('plain', idle => '1 us')$$, $$SELECT dc_alter('plain', idle => '-1 day')$$, $$SELECT dc_create('x', idle => '40000 days')$$,
	$$SELECT dc_unread_create('seen_likes', 'likes')$$, $$SELECT dc_bind('likes', 'src', 'k')$$]) AS s;
SELECT try(format('SELECT dc_alter(%L, idle => %L)', c.counter, '1 day')) FROM dcounter.counter AS c WHERE c.counter::text ~ 'win' ORDER BY c.counter::text COLLATE "C" LIMIT 1;
DROP SCHEMA idle CASCADE;
