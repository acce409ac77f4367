CREATE EXTENSION pg_prewarm;

CREATE FUNCTION variable_orset(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	s dc_orset := dc_orset();
BEGIN
	FOR i IN 1 .. n LOOP
		s := dc_add(s, 'element ' || i, 'eu');
	END LOOP;
	RETURN cardinality(dc_value(s));
END $$;

CREATE FUNCTION variable_gset(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	s dc_gset := dc_gset();
BEGIN
	FOR i IN 1 .. n LOOP
		s := dc_add(s, 'element ' || i);
	END LOOP;
	RETURN cardinality(dc_value(s));
END $$;

-- A loaded set that is changed: elements are removed and others added.
CREATE FUNCTION changed_orset(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	s dc_orset := (SELECT o FROM large);
BEGIN
	FOR i IN 1 .. n LOOP
		s := dc_remove(s, 'element ' || i);
		s := dc_add(s, 'other ' || i, 'us');
	END LOOP;
	RETURN cardinality(dc_value(s)) - (SELECT cardinality(dc_value(o)) FROM large) + n;
END $$;

CREATE TABLE large AS
	SELECT ('{"elements":{' || string_agg(format('"element %s":{"eu":[%s]}', i, i), ',') || '},"seen":{"eu":20000}}')::dc_orset AS o
	FROM generate_series(1, 20000) AS i;

-- Sets of five elements of 20,000 different ones
CREATE TABLE many AS
	SELECT i, ('[' || string_agg('"element ' || (i * 5 + k) % 20000 || '"', ',') || ']')::dc_gset AS g,
		('{"elements":{' || string_agg(format('"element %s":{"node %s":[%s]}', (i * 5 + k) % 20000, i % 10, i * 5 + k), ',') ||
			format('},"seen":{"node %s":[[%s,%s]]}}', i % 10, i * 5 + 1, i * 5 + 5))::dc_orset AS o
	FROM generate_series(0, 199999) AS i, generate_series(1, 5) AS k GROUP BY i;
SELECT pg_prewarm('many');
