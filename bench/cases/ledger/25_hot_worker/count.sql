SELECT CASE WHEN EXISTS (SELECT FROM dc_ledger_check('wallet')) THEN -1
    ELSE (SELECT count(*) / 2 FROM wallet_entry WHERE op_id NOT LIKE 'opening%') END;
