CALL row_hll(20000);
SELECT hll_cardinality(h) FROM row_hll;
