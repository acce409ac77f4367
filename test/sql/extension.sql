-- The extension goes and comes back; the tables stay, with what they hold
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
\set VERBOSITY terse
CREATE SCHEMA regress_dc;
SELECT dc_create('likes', 'hash', 5, totals => 'compacted'), dc_create('regress_dc.views', partitions => 2);
SELECT dc_incr('likes', 'a', 5), dc_incr('regress_dc.views', 'a', 7);
SELECT dc_compact('likes'), dc_incr('likes', 'a', 10), dc_incr('likes', 'b', 1);
-- Restoring the settings over what is there replaces them
INSERT INTO dcounter.counter VALUES ('likes', 'likes_shard', 'backend', 7);
SELECT counter, shards, shard_by, max_shards FROM dcounter.counter ORDER BY counter::text COLLATE "C";
INSERT INTO dcounter.counter SELECT * FROM dcounter.counter;
COPY dcounter.counter (counter, shards, shard_by, max_shards) FROM stdin;
likes	likes_shard	hash	5
\.
SELECT counter, shards, shard_by, max_shards FROM dcounter.counter ORDER BY counter::text COLLATE "C";
ALTER EXTENSION dcounter SET SCHEMA regress_dc;
DROP TABLE dcounter.counter;
DROP FUNCTION dc_sum(regclass);

-- What depends on the functions is in the way; the tables are not
CREATE VIEW exact AS SELECT key, dc_get('likes', key) AS value FROM likes;
DROP EXTENSION dcounter;
DROP VIEW exact;
DROP EXTENSION dcounter;
SELECT to_regnamespace('dcounter'), count(*) FROM pg_proc WHERE proname ~ '^dc_' OR probin ~ 'dcounter';
SELECT count(*) FROM pg_event_trigger WHERE evtname ~ 'dcounter';
SELECT 'total', key, value FROM likes UNION ALL SELECT 'shard', key, sum(inc) FROM likes_shard GROUP BY key ORDER BY 1, 2;
SELECT sum(inc) FROM regress_dc.views_shard;
ALTER TABLE regress_dc.views RENAME TO seen;
ALTER TABLE regress_dc.seen RENAME TO views;
-- Again, in another schema: none of the tables is known until it is adopted,
-- also by a session that has used it before
CREATE EXTENSION dcounter SCHEMA regress_dc;
SELECT count(*) FROM dcounter.counter;
SELECT regress_dc.dc_get('likes', 'a');
SELECT regress_dc.dc_incr('likes', 'a');
SELECT regress_dc.dc_get('regress_dc.views', 'a');
SELECT regress_dc.dc_adopt('likes'), regress_dc.dc_adopt('regress_dc.views');
SELECT counter, shards, shard_by, max_shards FROM dcounter.counter ORDER BY counter::text COLLATE "C";
SELECT regress_dc.dc_incr('likes', 'a', 1000), regress_dc.dc_incr('regress_dc.views', 'a', 1000);
SELECT regress_dc.dc_get('likes', 'a'), regress_dc.dc_get('likes', 'b'), regress_dc.dc_get('regress_dc.views', 'a');
SELECT regress_dc.dc_compact();
SELECT value, regress_dc.dc_get('likes', key) FROM likes ORDER BY key;
ALTER TABLE likes RENAME TO loved;
SELECT regress_dc.dc_incr('loved', 'a', 1), to_regclass('loved_shard');
SELECT regress_dc.dc_get('loved', 'a');
-- Rolled back, nothing has happened
BEGIN;
SELECT regress_dc.dc_incr('loved', 'a', 2);
DROP EXTENSION dcounter;
ROLLBACK;
SELECT regress_dc.dc_incr('loved', 'a', 4);
SELECT regress_dc.dc_get('loved', 'a');
DROP TABLE loved, regress_dc.views;
SELECT to_regclass('loved_shard'), to_regclass('regress_dc.views_shard'), count(*) FROM dcounter.counter;
DROP EXTENSION dcounter;
DROP SCHEMA regress_dc;
-- What was counted before in the same transaction is not lost
CREATE EXTENSION dcounter;
SELECT dc_create('likes', totals => 'compacted');
SELECT dc_incr('likes', 'a', 3);
BEGIN;
SELECT dc_incr('likes', 'a', 4);
DROP EXTENSION dcounter;
COMMIT;
SELECT to_regnamespace('dcounter'), sum(inc) FROM likes_shard;
DROP TABLE likes, likes_shard;
-- A session that has used the extension before can use it again
CREATE EXTENSION dcounter;
SELECT dc_create('likes', totals => 'compacted');
SELECT dc_incr('likes', 'a', 5);
SELECT dc_get('likes', 'a'), dc_drop('likes');
-- In a schema of its own, which is not in the search path
DROP EXTENSION dcounter;
CREATE SCHEMA regress_dc;
CREATE EXTENSION dcounter SCHEMA regress_dc;
SELECT regress_dc.dc_create('likes', totals => 'compacted'), regress_dc.dc_create('parts', partitions => 2), regress_dc.dc_stock_create('stock'), regress_dc.dc_ledger_create('purse', partition_by => 'month');
SELECT regress_dc.dc_incr('likes', 'a', 5), regress_dc.dc_decr('likes', 7), regress_dc.dc_incr_many('parts', '{a,b}'), regress_dc.dc_incr_hashed('likes', 'a', 'x'), regress_dc.dc_incr_returning('likes', 'b', 2);
SELECT regress_dc.dc_incr_once('likes', 'a', 1, 'e1'), regress_dc.dc_incr_once('likes', 'a', 1, 'e1'), (regress_dc.dc_op_status('likes', 'e1')).applied;
SELECT regress_dc.dc_get('likes', 'a'), regress_dc.dc_get('likes', 7), regress_dc.dc_sum('parts'), (regress_dc.dc_info('likes', 'a')).inc;
SELECT * FROM regress_dc.dc_get_many('parts', '{a,b}') ORDER BY key;
SELECT regress_dc.dc_set('likes', 'a', 50), regress_dc.dc_reset('likes', 'b'), regress_dc.dc_delete('likes', '7'), regress_dc.dc_compact('likes') > 0;
SELECT * FROM regress_dc.dc_top('likes', 1);
SELECT (regress_dc.dc_total('likes', 'a')).value;
SELECT regress_dc.dc_restock('stock', 'x', 10), regress_dc.dc_take('stock', 'x', 2), regress_dc.dc_take_up_to('stock', 'x', 1), regress_dc.dc_take_all('stock', '{x}', '{1}');
SELECT regress_dc.dc_hold('stock', 'x', 2) AS hold \gset
SELECT regress_dc.dc_hold_confirm('stock', :'hold', 1), regress_dc.dc_hold_release('stock', :'hold', strict => false), regress_dc.dc_get('stock', 'x');
SELECT count(*) FROM regress_dc.dc_holds('stock');
SELECT regress_dc.dc_account_open('purse', 'a', NULL), regress_dc.dc_account_open('purse', 'b', 0, 100);
SELECT duplicate FROM regress_dc.dc_transfer('purse', 'a', 'b', 5, 'e1');
SELECT duplicate FROM regress_dc.dc_transfer_many('purse', '{a}', '{b}', '{1}', 'e2');
SELECT transfer_id AS p FROM regress_dc.dc_transfer_pending('purse', 'a', 'b', 3, 'e3') \gset
SELECT regress_dc.dc_transfer_post('purse', :p), regress_dc.dc_transfer_void('purse', :p);
SELECT * FROM regress_dc.dc_balance('purse', 'b');
SELECT amount, balance FROM regress_dc.dc_account_statement('purse', 'b', '-infinity', 'infinity');
SELECT regress_dc.dc_balance_at('purse', 'b', now()), regress_dc.dc_ledger_adopt('purse');
SELECT * FROM regress_dc.dc_ledger_check('purse');
SELECT * FROM regress_dc.dc_ledger_detach('purse', now());
CREATE TABLE posts (id int PRIMARY KEY, title text);
SELECT regress_dc.dc_consumer_create('reader'), regress_dc.dc_outbox_attach('posts');
INSERT INTO posts VALUES (1, 'new');
SELECT regress_dc.dc_publish('t', 'k', 'made', '{}') IS NOT NULL;
SELECT topic, key, type FROM regress_dc.dc_fetch('reader');
SELECT count(*) FROM regress_dc.dc_dead_letters;
SELECT regress_dc.dc_outbox_detach('posts'), regress_dc.dc_consumer_drop('reader');
SELECT regress_dc.dc_count_distinct(g), regress_dc.dc_hll_count(regress_dc.dc_hll_agg(g::text)) FROM generate_series(1, 3) AS g;
SELECT regress_dc.dc_cms_estimate(regress_dc.dc_cms_add(regress_dc.dc_cms(), 'a'::text, 3), 'a'::text), (regress_dc.dc_topk_list(regress_dc.dc_topk_agg(g % 2, 1))).item FROM generate_series(1, 3) AS g;
CREATE TABLE sketches (h regress_dc.dc_hll, c regress_dc.dc_cms, t regress_dc.dc_topk);
INSERT INTO sketches SELECT regress_dc.dc_hll_agg(g), regress_dc.dc_cms_agg(g, 0.01, 0.01), regress_dc.dc_topk_agg(g, 1) FROM generate_series(1, 3) AS g;
SELECT regress_dc.dc_hll_count(h::bytea::regress_dc.dc_hll), regress_dc.dc_cms_estimate(c::bytea::regress_dc.dc_cms, 1) FROM sketches;
SELECT count(*) >= 0 FROM regress_dc.dc_stat_outbox;
SELECT count(*) FROM regress_dc.dc_stat_consumers;
CALL regress_dc.dc_maintain();
TRUNCATE purse;
ALTER TABLE likes RENAME TO loved;
SELECT regress_dc.dc_alter('loved', max_shards => 3), regress_dc.dc_drop('loved'), regress_dc.dc_drop('parts'), regress_dc.dc_drop('stock'), regress_dc.dc_drop('purse');
DROP TABLE posts, sketches;
DROP EXTENSION dcounter;
DROP SCHEMA regress_dc;
