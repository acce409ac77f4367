-- 1,000 accounts, filled from account 1000, and two hot ones: without a lower
-- bound, and with one
SELECT dc_ledger_create('wallet');
SELECT count(dc_account_open('wallet', n::text)) FROM generate_series(0, 999) n;
SELECT dc_account_open('wallet', '1000', NULL);
SELECT dc_account_open('wallet', '1001', NULL);
SELECT dc_account_open('wallet', '1002');
SELECT dc_transfer_many('wallet', array_agg('1000'::text), array_agg(n::text), array_agg(1000000000), 'opening')
    FROM generate_series(0, 999) n;
SELECT dc_transfer('wallet', '1000', '1002', 1000000000000, 'opening of 1002');
