SELECT dc_distinct_create('visitors');
CREATE SEQUENCE items;
