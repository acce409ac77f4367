CALL row_would_change(20000);
SELECT dc_hll_count(h) FROM row_dc;
