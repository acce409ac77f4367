CREATE UNLOGGED TABLE used (key text PRIMARY KEY, started timestamptz NOT NULL, n bigint NOT NULL);
INSERT INTO used VALUES ('key', now(), 0);
