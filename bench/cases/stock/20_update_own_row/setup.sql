CREATE TABLE seats (id int PRIMARY KEY, n bigint NOT NULL);
INSERT INTO seats SELECT generate_series(0, 999), 1000000;
