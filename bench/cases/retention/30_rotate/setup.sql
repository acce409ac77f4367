SELECT dc_window_create('clicks', '1 hour', '6 hours');
SELECT dc_incr_at('clicks', 'first');
CALL dc_maintain();
-- the other rows of the bucket, as compaction leaves them
CREATE PROCEDURE fill(n bigint) LANGUAGE plpgsql AS $$
DECLARE
    slot regclass;
BEGIN
    FOR slot IN SELECT c.oid FROM pg_class AS c WHERE c.relname ~ '^clicks_w[0-9]+$' AND pg_relation_size(c.oid) > 0 LOOP
        EXECUTE format('INSERT INTO %s (key, inc, dec, updated_at) SELECT i || right(key, 9), 1, 0, now()
            FROM %1$s, generate_series(1, $1) AS i', slot) USING n;
    END LOOP;
END $$;
