-- Counts in a few rooms, on a server that is not preloaded. A wrong value ends it with an error.
CREATE EXTENSION dcounter;
SELECT dc_create('likes'), dc_stock_create('seats'), dc_ledger_create('wallet', auto_open => true);
SELECT dc_incr('likes', 'post:42', i) FROM generate_series(1, 10) AS i;
SELECT dc_restock('seats', 'concert', 3);
SELECT dc_take('seats', 'concert', 2), dc_take('seats', 'concert', 2);
SELECT dc_account_open('wallet', 'bank', NULL);
SELECT dc_transfer('wallet', 'bank', 'alice', 5, 'topup-1'), dc_transfer('wallet', 'bank', 'alice', 5, 'topup-1');
SELECT 1 / (dc_get('likes', 'post:42') = 55 AND dc_get('seats', 'concert') = 1 AND (dc_balance('wallet', 'alice')).balance = 5)::int AS right_values;
SELECT 1 / (dc_count_distinct(i) BETWEEN 990 AND 1010)::int AS right_estimate FROM generate_series(1, 1000) AS i;
DROP EXTENSION dcounter CASCADE;
