CREATE PROCEDURE create_tables(tables int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. tables LOOP
		PERFORM dc_create('c' || i);
		PERFORM dc_incr('c' || i, k::text) FROM generate_series(1, 10) AS k;
		COMMIT;
	END LOOP;
END $$;
