-- What fill.sql, and more.sql, have left: prints a line for each thing, and changes nothing. Two databases in which the same was
-- done print the same; so which of its tables a window has used, and under which epochs a region has counted, is not printed.
\set ON_ERROR_STOP on
\set QUIET on
\pset format unaligned
\pset tuples_only on
SET search_path = rooms, public;
SET timezone = 'UTC';

SELECT 'settings', counter, shards, shard_by, max_shards, holds, mode, flush_interval, durability, op_retention, ledger, totals, regions IS NOT NULL, sample, sample_max, trends, half_life
FROM dcounter.counter WHERE counter::text NOT LIKE 'views%' ORDER BY counter::text COLLATE "C";
SELECT format('SELECT ''counter'', %1$L, k.key, i.value, i.inc, i."dec" FROM (SELECT key FROM %1$I UNION SELECT key FROM %1$I_shard) AS k, dc_info(%1$L, k.key) AS i ORDER BY k.key COLLATE "C"', c)
FROM unnest('{plain,compacted,parts,sampled,rising,orders,like_count,like_sum,fan_count,nightly,messages,shared}'::text[]) AS c
\gexec
SELECT 'sum', counter, dc_sum(counter) FROM dcounter.counter WHERE holds IS NULL AND ledger IS NULL AND counter::text NOT LIKE 'views%' ORDER BY counter::text COLLATE "C";
SELECT 'error', (dc_info('sampled', 'page')).error > 0;
SELECT 'trending', key, rank FROM dc_trending('rising') ORDER BY rank;

SELECT 'stock', dc_get('seats', 'concert'), dc_get('seats', 'train');
SELECT 'hold', key, hold_id, qty, expires_at - now() > '90 days' FROM dc_holds('seats') ORDER BY hold_id;
SELECT 'once', o.op, s.applied, s.key, s.delta FROM unnest('{order-17,op-1,op-2,op-3,order-18}'::text[]) AS o (op) LEFT JOIN dc_op_status('orders', o.op) AS s ON true ORDER BY o.op;

SELECT 'ledger', l, k, (dc_balance(l, k)).* FROM (VALUES ('wallet'::regclass, 'bank'), ('wallet', 'alice'), ('wallet', 'bob'), ('monthly', 'bank'), ('monthly', 'x')) AS a (l, k);
SELECT 'pending', op_id, from_key, to_key, amount FROM dc_transfers_pending('wallet') ORDER BY op_id;
SELECT 'statement', amount, balance, op_id, memo FROM dc_account_statement('wallet', 'alice', '-infinity', 'infinity') ORDER BY entry_id;
SELECT 'ledger check', key, problem FROM dc_ledger_check('wallet') UNION ALL SELECT 'ledger check', key, problem FROM dc_ledger_check('monthly');

SELECT 'hll', md5(dense::text), dc_hll_count(dense), md5(sparse::text), dc_hll_count(sparse), md5(dense::bytea::text) FROM sketches ORDER BY id;
SELECT 'cms', md5(cms::text), dc_cms_estimate(cms, 7), md5(cms::bytea::text) FROM sketches ORDER BY id;
SELECT 'topk', md5(topk::text), dc_topk_list(topk, 3) FROM sketches ORDER BY id, 3;
SELECT 'merged', g, pn, gs, os, lww, mv::jsonb - 'time', clock, dc_value(pn), dc_value(os), dc_value(lww), dc_value(mv) FROM merged ORDER BY id;

SELECT 'event', row_number() OVER (ORDER BY seq), aggregatetype, aggregateid, type, payload - 'xid' - 'at' - 'ts', headers FROM dcounter.outbox WHERE aggregatetype IN ('posts', 'mails', 'rooms.posts') ORDER BY seq;
SELECT 'consumer', c.name, c.topics, c.max_attempts, (SELECT count(*) FROM dcounter.outbox AS o WHERE o.seq <= c.position AND aggregatetype IN ('posts', 'mails'))
FROM (SELECT s.name, s.topics, s.position, k.max_attempts FROM dc_stat_consumers AS s JOIN dcounter.consumer AS k USING (name)) AS c ORDER BY c.name;
SELECT 'retry', c.name, r.topic, r.key, r.type, r.attempts, r.reason, r.died_at IS NULL FROM dcounter.consumer_retry AS r JOIN dcounter.consumer AS c ON c.id = r.consumer ORDER BY 2, r.seq;

SELECT 'bound', s.counter, s.source, s.key, s.value, s.distinct_of, t.state FROM dcounter.source AS s JOIN dcounter.source_state AS t USING (counter) ORDER BY s.counter::text COLLATE "C";
SELECT 'drift', s.counter, d.* FROM dcounter.source AS s, dc_source_check(s.counter) AS d;
SELECT 'mark', counter, mark, keys FROM dc_marks ORDER BY 2, 3;

SELECT 'limit', name, algorithm, rate, per, burst FROM dcounter.limit_rule ORDER BY name;
SELECT 'presence', name, ttl, events, approx FROM dcounter.presence_rule ORDER BY name;

SELECT 'unread', u.* FROM dc_unread('seen', 'ann', '{general,random}'::text[]) AS u;
SELECT 'unread', u.* FROM dc_unread('seen', 7, '{general,random}'::text[]) AS u;

SELECT 'bucket', b.bucket - w.at, b.value FROM began AS w, dc_buckets('views', 'page:1', w.at, w.at + interval '1 hour') AS b WHERE b.value <> 0 ORDER BY b.bucket;
SELECT 'window', k, (dc_window('views', k, '30 minutes', at + interval '1 hour')).* FROM began, unnest('{page:0,page:1,page:2}'::text[]) AS k ORDER BY k;
SELECT 'windows', name, bucket, keep, late, levels FROM dc_windows;

SELECT 'distinct', round(estimate), round(lower), round(upper) FROM dc_distinct('visitors', 'page');
SELECT 'distinct', d.bucket = date_trunc('day', w.at, 'UTC'), round(d.estimate) FROM began AS w, dc_distinct_buckets('daily', 'page', w.at - interval '1 day', w.at + interval '2 days') AS d WHERE d.estimate > 0 ORDER BY d.bucket;
SELECT 'distinct tables', name, precision, bucket, keep FROM dc_distinct_tables ORDER BY name;

SELECT 'regions', region FROM dc_regions() WHERE region = 'eu';
SELECT 'region', k, r.region, r.inc, r."dec", r.value FROM unnest('{before,post:42,set}'::text[]) AS k, dc_get_regions('shared', k) AS r ORDER BY k, r.region;
SELECT 'region stock', dc_get('shared_stock', 'shoe'), s.region, s.wanted FROM dc_stock_regions('shared_stock', 'shoe') AS s;
SELECT 'node', count(*), bool_and(dc_stamp(dc_set_as(dc_lww(), '1', 'eu')) > before) FROM stamps;
