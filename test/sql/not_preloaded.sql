-- A server that is not preloaded: rules can be made, what needs shared memory says how to get it, and tables that are
-- buffered all the same, as after a restore, count in rows.
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SET intervalstyle = postgres;
CREATE FUNCTION try(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	state text; message text; hint text; result text;
BEGIN
	EXECUTE sql INTO result;
	RETURN coalesce(result, 'NULL');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
	RETURN state || ' ' || message || coalesce(E'\n\t' || nullif(hint, ''), '');
END $$;
CREATE FUNCTION try_all(sqls text[]) RETURNS TABLE (statement text, answer text) LANGUAGE sql AS $$
	SELECT s, try(s) FROM unnest(sqls) WITH ORDINALITY AS u(s, n) ORDER BY n $$;

-- Rules are rows
SELECT dc_limit_create('login', 'gcra', 5, '1 day'), dc_limit_create('jobs', 'concurrent', 2, '1 day'),
	dc_presence_create('chat'), dc_presence_create('many', approx => true);
SELECT dc_limit_alter('login', burst => 9), dc_limit_grant('login', current_user::regrole), dc_presence_alter('chat', ttl => '1 h'), dc_presence_grant('chat', current_user::regrole);
SELECT name, rate, burst, version FROM dcounter.limit_rule ORDER BY id;
SELECT name, ttl, approx, version FROM dcounter.presence_rule ORDER BY id;
-- and not more than that
SELECT * FROM try_all(ARRAY[
	$$SELECT dc_allow('login', 'k')$$, $$SELECT dc_allow('login', 7)$$, $$SELECT dc_allow_up_to('login', 'k', 2)$$, $$SELECT dc_limit('login', 'k')$$, $$SELECT dc_limit_all('{login,jobs}', '{a,b}')$$,
	$$SELECT dc_limit_peek('login', 'k')$$, $$SELECT dc_limit_refund('login', 'k')$$, $$SELECT dc_limit_reset('login', 'k')$$,
	$$SELECT dc_limit_release('jobs', 'k', 1)$$, $$SELECT dc_limit_renew('jobs', 'k', 1)$$, $$SELECT dc_throttle('k', 1, 1, '1 s')$$, $$SELECT dc_throttle_reset('k')$$,
	$$SELECT dc_enter('chat', 'r', 'm')$$, $$SELECT dc_enter('many', 7, 'm')$$, $$SELECT dc_beat('chat', 'r', 'm')$$, $$SELECT dc_beat_many('chat', '{r}', '{m}')$$,
	$$SELECT dc_exit('chat', 'r', 'm')$$, $$SELECT dc_present('chat', 'r')$$, $$SELECT dc_presence_list('chat', 'r')$$,
	$$SELECT dc_limit('nothing', 'k')$$, $$SELECT dc_enter('nothing', 'r', 'm')$$]);
SELECT rule, keys, memory, allowed, denied FROM dc_stat_limits ORDER BY rule;
SELECT name, approx, rooms, members, connections, joined FROM dc_stat_presence ORDER BY name;
SELECT dc_limit_drop('login'), dc_limit_drop('jobs'), dc_presence_drop('chat'), dc_presence_drop('many');

-- Statistics, and reads from the cache
SELECT dc_create('likes') IS NOT NULL;
SELECT dc_incr('likes', 'a', 5);
SELECT * FROM try_all(ARRAY[
	$$SELECT dc_stat_reset()$$, $$SELECT dc_stat_reset('likes')$$, $$SELECT count(*) FROM dc_stat_worker WHERE datname = current_database()$$,
	$$SELECT shard_rows FROM dc_stat_shards$$, $$SELECT (increments, keys_written, cache_hits, stats_reset) FROM dc_stat_counters$$,
	$$SELECT count(*) FROM dc_stat_memory$$, $$SELECT count(*) FROM dc_stat_buffer$$, $$SELECT count(*) FROM dc_stat_hot_keys$$,
	$$SELECT dc_get('likes', 'a', '1 second')$$, $$SELECT dc_get('likes', 7, '0')$$, $$SELECT dc_get_many('likes', '{a,b}', '1 second')$$,
	$$SELECT (value, cache_age) FROM dc_info('likes', 'a')$$]);

-- Buffered counters are refused, but for those that are there
SELECT * FROM try_all(ARRAY[
	$$SELECT dc_create('views', mode => 'buffered')$$, $$SELECT dc_alter('likes', mode => 'buffered')$$,
	$$SELECT dc_alter('likes', mode => 'buffered', flush_interval => '2 s', durability => 'sync')$$]);
SELECT mode, flush_interval, durability FROM dcounter.counter WHERE counter = 'likes'::regclass;
UPDATE dcounter.counter SET mode = 'buffered', durability = 'sync' WHERE counter = 'likes'::regclass;
\c
SET client_min_messages = warning;
SELECT dc_incr('likes', 'a', 10), dc_decr('likes', 'b', 2), dc_get('likes', 'a'), dc_sum('likes');
SELECT key, sum(inc), sum(dec) FROM (SELECT key, inc, dec FROM likes UNION ALL SELECT key, inc, dec FROM likes_shard) AS r GROUP BY key ORDER BY key;
SELECT try($$SELECT dc_flush()$$), try($$SELECT dc_flush('likes')$$);
SELECT dc_alter('likes', mode => 'exact'), try($$SELECT dc_alter('likes', mode => 'buffered')$$);
SELECT dc_incr('likes', 'a'), dc_get('likes', 'a'), dc_drop('likes');
DROP FUNCTION try_all, try;
