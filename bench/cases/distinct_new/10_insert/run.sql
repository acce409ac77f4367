INSERT INTO visitors VALUES ('page 7', nextval('items'));
