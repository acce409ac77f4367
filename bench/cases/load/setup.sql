CREATE TABLE source (key text NOT NULL, n bigint NOT NULL);
