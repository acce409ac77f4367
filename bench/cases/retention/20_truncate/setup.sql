CREATE TABLE clicks (key text COLLATE "C" PRIMARY KEY, inc bigint NOT NULL, dec bigint NOT NULL,
    value bigint GENERATED ALWAYS AS (inc - dec) STORED, updated_at timestamptz NOT NULL);
CREATE PROCEDURE fill(n bigint) LANGUAGE sql AS
    $$INSERT INTO clicks (key, inc, dec, updated_at) SELECT i || E'\x0100039931', 1, 0, now() FROM generate_series(1, n) AS i$$;
