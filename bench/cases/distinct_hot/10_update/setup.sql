CREATE TABLE visitors (key text PRIMARY KEY, sketch dc_hll(14) NOT NULL);
INSERT INTO visitors VALUES ('page 7', dc_hll(14));
CREATE SEQUENCE items;
