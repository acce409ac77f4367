-- Counts in every room, in a schema "rooms" of a database that has the extension and nothing else of it. psql runs it, as a
-- superuser, by whatever version there is. check.sql tells what is there; more.sql goes on.
-- Nothing in what check.sql prints depends on when this runs, on OIDs or on places of rows.
-- Needs no preload; memory.sql fills what is in shared memory.
\set ON_ERROR_STOP on
\set QUIET on
\pset format unaligned
\pset tuples_only on
\o /dev/null
SET client_min_messages = error; -- a region says that wal_level should be logical

CREATE SCHEMA rooms;
SET search_path = rooms, public;
-- the beginning of an hour that is over: of events whose time is given
CREATE TABLE began AS SELECT date_trunc('hour', now() - interval '2 hours') AS at;

-- counters: totals, shard rows, keys of three types, settings, a reset and a deletion
SELECT dc_create('plain'), dc_create('compacted', 'hash', 16, totals => 'compacted'), dc_create('parts', partitions => 3, totals => 'compacted');
SELECT dc_incr('plain', 'post:' || i, i) FROM generate_series(1, 20) AS i;
SELECT dc_decr('plain', 'post:1', 5), dc_incr('plain', 'gone', 7), dc_incr('plain', 'reset', 7);
SELECT dc_delete('plain', 'gone'), dc_reset('plain', 'reset'), dc_set('plain', 'set', 1000000000000);
SELECT dc_incr_hashed('compacted', 42, 'alice', 3), dc_incr('compacted', 'c0ffee00-0000-4000-8000-000000000001'::uuid, 2);
SELECT dc_compact('compacted');
BEGIN;
SELECT dc_incr('compacted', 42, 4), dc_incr('parts', k::text, k) FROM generate_series(1, 9) AS k;
SELECT dc_apply();
COMMIT;
SELECT dc_load('parts', '{a,b}'::text[], '{100,200}');
SELECT dc_alter('parts', max_shards => 7, events => '1 hour');

-- sampled, with amounts that are multiples of the sample, and a trend
SELECT dc_create('sampled', sample => 8), dc_create('rising', trend => '1 hour');
SELECT dc_incr('sampled', 'page', 64), dc_incr('rising', 'song', 5), dc_incr('rising', 'film', 2);
SELECT dc_compact('rising');

-- stock, with holds that are open for long
SELECT dc_stock_create('seats');
SELECT dc_restock('seats', 'concert', 100), dc_restock('seats', 'train', 1);
SELECT dc_take('seats', 'concert', 2), dc_take('seats', 'train');
SELECT dc_hold('seats', 'concert', 10, '100 days', 'c0ffee00-0000-4000-8000-000000000001'),
	dc_hold('seats', 'concert', 5, '100 days', 'c0ffee00-0000-4000-8000-000000000002'),
	dc_hold('seats', 'concert', 3, '100 days', 'c0ffee00-0000-4000-8000-000000000003');
SELECT dc_hold_confirm('seats', 'c0ffee00-0000-4000-8000-000000000001');

-- once
SELECT dc_create('orders', op_retention => '1000 days');
SELECT dc_incr_once('orders', 'shop:7', 3, 'order-17'), dc_incr_once_many('orders', '{a,b}'::text[], '{1,2}', '{op-1,op-2}');

-- ledgers, one by month; transfers that are pending for long
SELECT dc_ledger_create('wallet'), dc_ledger_create('monthly', auto_open => true, partition_by => 'month');
SELECT dc_account_open('wallet', 'bank', NULL), dc_account_open('wallet', 'alice'), dc_account_open('wallet', 'bob', max_balance => 1000);
SELECT dc_transfer('wallet', 'bank', 'alice', 1000, 'topup-1', '{"by": "card"}'), dc_transfer('wallet', 'alice', 'bob', 250, 'order-17');
SELECT dc_transfer_pending('wallet', 'alice', 'bob', 100, 'order-18', ttl => '100 days'), dc_transfer_pending('wallet', 'alice', 'bob', 30, 'order-19', ttl => '100 days');
SELECT dc_account_open('monthly', 'bank', NULL);
SELECT dc_transfer('monthly', 'bank', 'x', 5, 'e-1');

-- values of all the types
CREATE TABLE sketches AS SELECT 1 AS id, (SELECT dc_hll_agg(i) FROM generate_series(1, 5000) AS i) AS dense, (SELECT dc_hll_agg(i) FROM generate_series(1, 50) AS i) AS sparse,
	(SELECT dc_cms_agg(i % 50, 0.01, 0.01) FROM generate_series(1, 1000) AS i) AS cms, (SELECT dc_topk_agg(i % 40 % (1 + i % 7), 5) FROM generate_series(1, 1000) AS i) AS topk;
CREATE TABLE merged AS SELECT 1 AS id, dc_add(dc_add(dc_gcounter(), 5, 'eu'), 2, 'us') AS g, dc_add(dc_add(dc_pncounter(), 5, 'eu'), -7, 'us') AS pn,
	dc_add(dc_add(dc_gset(), 'tea'), 'mug') AS gs, dc_remove(dc_add(dc_add(dc_orset(), 'tea', 'eu'), 'mug', 'us'), 'tea') AS os,
	'{"value": "blue", "time": 1, "node": "eu"}'::dc_lww AS lww, dc_set_as(dc_mvreg(), '[1, 2]', 'eu') AS mv, dc_add(dc_vclock(), 3, 'eu') AS clock;
CREATE TABLE stamps AS SELECT dc_stamp(dc_set_as(dc_lww(), '1', 'eu')) AS before;

-- outbox: captured and published events, two consumers, one of which has an event to come again and a dead letter
CREATE TABLE posts (id bigint PRIMARY KEY, title text);
SELECT dc_consumer_create('search', '{posts,mails}'), dc_consumer_create('mail', '{mails}', 'now');
SELECT dc_consumer_alter('mail', max_attempts => 1);
SELECT dc_outbox_attach('posts');
INSERT INTO posts SELECT i, 'title ' || i FROM generate_series(1, 5) AS i;
UPDATE posts SET title = 'new' WHERE id = 3;
SELECT dc_publish('mails', 'alice', 'welcome', '{"to": "alice@example.com"}', '{"h": 1}'), dc_publish('mails', 'bob', 'welcome', NULL);
-- Events are fetched when no transaction is left that was there when they were committed, in any database: of the worker, too.
CREATE PROCEDURE settle() LANGUAGE plpgsql AS $$
DECLARE
	before xid8 := pg_snapshot_xmax(pg_current_snapshot());
BEGIN
	COMMIT;
	WHILE pg_snapshot_xmin(pg_current_snapshot()) < before LOOP
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
END$$;
CALL settle();
CREATE TEMP TABLE batch AS SELECT seq FROM dc_fetch('search', 2);
SELECT dc_nack('search', min(seq), '100 days', 'not now') FROM batch;
SELECT dc_ack('search', max(seq)) FROM batch;
SELECT dc_nack('mail', seq, '1 s', 'no such address') FROM dc_fetch('mail', 1);

-- bound: a count, a sum, distinct values; marks
CREATE TABLE likes (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post int, fan int, amount int);
INSERT INTO likes (post, fan, amount) SELECT i % 5, i % 3, i FROM generate_series(1, 60) AS i;
SELECT dc_create('like_count'), dc_create('like_sum'), dc_create('fan_count'), dc_create('nightly');
SELECT dc_bind('like_count', 'likes', 'post', build => 'none'), dc_bind('like_sum', 'likes', 'post', value => 'amount', build => 'none'),
	dc_bind('fan_count', 'likes', 'post', distinct_of => 'fan', build => 'none');
CALL dc_build('like_count');
CALL dc_build('like_sum');
CALL dc_build('fan_count');
DELETE FROM likes WHERE id <= 7;
SELECT dc_incr('nightly', k, 3) FROM unnest('{a,b}'::text[]) AS k;
SELECT dc_mark('nightly', 'night');
SELECT dc_incr('nightly', 'a', 2);
SELECT dc_reconcile('nightly', '{a,b}'::text[], '{10,20}', 'night');

-- rules: their numbers are in tables, what was used is in memory
SELECT dc_limit_create('login', 'gcra', 5, '1 hour'), dc_limit_create('export', 'concurrent', 3, '10 hours');
SELECT dc_presence_create('chat', ttl => '10 hours', events => '1 hour'), dc_presence_create('stadium', ttl => '10 hours', approx => true);

-- unread
SELECT dc_create('messages');
SELECT dc_unread_create('seen', 'messages');
SELECT dc_incr('messages', 'general', 5), dc_incr('messages', 'random', 2);
SELECT dc_mark_read('seen', 'ann', 'general', 3), dc_mark_read('seen', 7, 'random', 1);

-- windows, with a level of hours
SELECT dc_window_create('views', '1 minute', '3 days', '{"1 hour": "30 days"}', 'drop');
SELECT dc_incr_at('views', 'page:' || i % 3, i, at + i * interval '1 minute') FROM began, generate_series(0, 59) AS i;

-- distinct tables
SELECT dc_distinct_create('visitors'), dc_distinct_create('daily', bucket => '1 day', keep => '100 days');
SELECT dc_add('visitors', 'page', i), dc_add('daily', 'page', i, at) FROM began, generate_series(1, 500) AS i;

-- a counter and a stock that are counted in a region
SELECT dc_create('shared'), dc_stock_create('shared_stock');
SELECT dc_incr('shared', 'before', 5), dc_restock('shared_stock', 'shoe', 9);
SELECT dc_region_init('eu');
SELECT dc_replicate('shared', seed => true), dc_replicate('shared_stock', seed => true);
SELECT dc_incr('shared', 'post:42', 4), dc_take('shared_stock', 'shoe', 2), dc_want('shared_stock', 'shoe', 3);
SELECT dc_set('shared', 'set', 11), dc_delete('shared', 'before');
