-- Counts on, in every room that fill.sql has filled: what an upgraded database must still be able to do.
\set ON_ERROR_STOP on
\set QUIET on
\pset format unaligned
\pset tuples_only on
\o /dev/null
SET search_path = rooms, public;

SELECT dc_incr('plain', 'post:' || i, 1000) FROM generate_series(1, 25) AS i;
BEGIN;
SELECT dc_incr('compacted', 42, 1), dc_incr('parts', '3', 1), dc_incr('parts', 'new', 1);
SELECT dc_apply();
SAVEPOINT s;
SELECT dc_incr('compacted', 42, 1000);
ROLLBACK TO s;
COMMIT;
SELECT dc_compact();
SELECT dc_set('plain', 'set', 5), dc_incr_returning('plain', 'post:2', 1), dc_load('parts', '{c}'::text[], '{300}');
SELECT dc_incr('sampled', 'page', 16), dc_incr('rising', 'film', 50);
SELECT dc_compact('rising');

SELECT dc_take('seats', 'concert', 4), dc_take('seats', 'train'), dc_restock('seats', 'train', 3);
SELECT dc_hold_confirm('seats', 'c0ffee00-0000-4000-8000-000000000002'), dc_hold_release('seats', 'c0ffee00-0000-4000-8000-000000000003');
SELECT dc_hold('seats', 'train', 1, '100 days', 'c0ffee00-0000-4000-8000-000000000004');
SELECT dc_incr_once('orders', 'shop:7', 3, 'order-17'), dc_incr_once('orders', 'shop:7', 4, 'order-18');

SELECT dc_transfer('wallet', 'alice', 'bob', 250, 'order-17'), dc_transfer('wallet', 'alice', 'bob', 1, 'order-20'), dc_transfer('monthly', 'bank', 'y', 2, 'e-2');
SELECT dc_transfer_post('wallet', (SELECT transfer_id FROM dc_transfers_pending('wallet') WHERE op_id = 'order-18'), 60);
SELECT dc_transfer_void('wallet', (SELECT transfer_id FROM dc_transfers_pending('wallet') WHERE op_id = 'order-19'));

UPDATE sketches SET dense = dc_hll_union(dc_hll_add(dense, 'new'::text), sparse), sparse = dc_hll_add(sparse, 'new'::text), cms = dc_cms_add(cms, 7, 3), topk = dc_topk_add(topk, 2, 1000);
UPDATE merged SET g = dc_add(g, 1, 'us'), pn = dc_merge(dc_add(pn, 1, 'us'), dc_add(dc_pncounter(), 2, 'ap')), gs = dc_add(gs, 'pen'), os = dc_add(os, 'tea', 'ap'),
	lww = dc_merge(lww, '{"value": "red", "time": 2, "node": "us"}'), mv = dc_set_as(mv, '[3]', 'us'), clock = dc_add(clock, 1, 'us');

INSERT INTO posts VALUES (6, 'title 6');
SELECT dc_publish('mails', 'carol', 'welcome', NULL);
CALL settle();
SELECT dc_ack('search', max(seq)) FROM dc_fetch('search', 3);
SELECT dc_dead_letter_retry('mail');
SELECT count(*) FROM dc_fetch('mail', 10);

INSERT INTO likes (post, fan, amount) VALUES (1, 9, 100), (7, 9, 100);
SELECT dc_create('like_sets');
SELECT dc_bind('like_sets', 'likes', 'post, fan', value => '1 AS n, amount', group_by => 'CUBE (post, fan)', build => 'now');
DELETE FROM likes WHERE id BETWEEN 20 AND 25;
DO $$
BEGIN
	IF EXISTS (SELECT FROM dc_source_check('like_sets')) OR dc_get('like_sets', '[null, null, "amount"]') IS DISTINCT FROM (SELECT sum(amount) FROM likes) THEN
		RAISE 'the sums of grouping sets are wrong';
	END IF;
END$$;
SELECT dc_reconcile('nightly', '{c}'::text[], '{30}', 'night');

SELECT dc_incr('messages', 'general', 4);
SELECT dc_mark_read('seen', 'ann', 'random'), dc_mark_read('seen', 7, 'general', 2);
SELECT dc_incr_at('views', 'page:1', 100, at + interval '4 minutes'), dc_incr_at('views', 'page:9', 9, at) FROM began;
SELECT dc_add('visitors', 'page', i), dc_add('daily', 'page', i, at) FROM began, generate_series(400, 600) AS i;

SELECT dc_incr('shared', 'post:42', 6), dc_take('shared_stock', 'shoe'), dc_restock('shared_stock', 'shoe', 2);
SELECT dc_compact('shared'), dc_compact('shared_stock');
CALL dc_maintain();
