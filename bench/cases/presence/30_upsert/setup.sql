CREATE UNLOGGED TABLE here (room text, member text, seen timestamptz NOT NULL, PRIMARY KEY (room, member));
INSERT INTO here SELECT '1', i::text, now() FROM generate_series(1, 100000) AS i;
