CREATE EXTENSION hll;
CREATE EXTENSION pg_prewarm;

-- One value that items are added to, one by one.
CREATE TABLE row_dc (id int PRIMARY KEY, h dc_hll);
CREATE TABLE row_hll (id int PRIMARY KEY, h hll);

CREATE FUNCTION variable_dc(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	h dc_hll := dc_hll(14);
BEGIN
	FOR i IN 1 .. n LOOP
		h := dc_hll_add(h, i);
	END LOOP;
	RETURN dc_hll_count(h);
END $$;

CREATE FUNCTION variable_hll(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	h hll := hll_empty(14);
BEGIN
	FOR i IN 1 .. n LOOP
		h := hll_add(h, hll_hash_integer(i));
	END LOOP;
	RETURN hll_cardinality(h);
END $$;

-- Each UPDATE is a transaction: within one, every UPDATE would have to step over
-- all row versions that those before it left, which costs more than the sketches.
CREATE PROCEDURE row_dc(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		UPDATE row_dc SET h = dc_hll_add(h, i) WHERE id = 1;
		COMMIT;
	END LOOP;
END $$;

CREATE PROCEDURE row_would_change(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		UPDATE row_dc SET h = dc_hll_add(h, i) WHERE id = 1 AND dc_hll_would_change(h, i);
		COMMIT;
	END LOOP;
END $$;

CREATE PROCEDURE row_hll(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		UPDATE row_hll SET h = hll_add(h, hll_hash_integer(i)) WHERE id = 1;
		COMMIT;
	END LOOP;
END $$;
