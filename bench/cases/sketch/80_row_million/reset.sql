TRUNCATE row_dc, row_hll;
INSERT INTO row_dc SELECT 1, h FROM million_dc;
INSERT INTO row_hll SELECT 1, h FROM million_hll;
