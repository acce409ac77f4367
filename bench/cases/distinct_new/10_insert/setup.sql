CREATE TABLE visitors (key text, item bigint);
CREATE SEQUENCE items;
