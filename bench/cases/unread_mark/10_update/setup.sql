CREATE TABLE mark (member text, key text, seen bigint NOT NULL, PRIMARY KEY (member, key));
INSERT INTO mark SELECT m::text, 'c' || c, 10 FROM generate_series(1, 2000) AS m, generate_series(1, 50) AS c;
