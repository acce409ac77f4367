CREATE UNLOGGED TABLE here (room text, member text, seen timestamptz NOT NULL, PRIMARY KEY (room, member));
INSERT INTO here SELECT (i % 100)::text, i::text, now() FROM generate_series(1, 100000) AS i;
