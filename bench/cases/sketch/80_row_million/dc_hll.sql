CALL row_dc(20000);
SELECT dc_hll_count(h) FROM row_dc;
