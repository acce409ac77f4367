TRUNCATE row_dc, row_hll;
INSERT INTO row_dc VALUES (1, dc_hll(14));
INSERT INTO row_hll VALUES (1, hll_empty(14));
