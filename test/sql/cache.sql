-- Reads with max_staleness, on a server that is preloaded: errors, and what dc_info() says. What the cache does is in
-- test/t/cache/cache.pl.
\set VERBOSITY terse
\pset null NULL
SET client_min_messages = warning;
CREATE FUNCTION try(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE 'SELECT ' || call;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' ', SQLSTATE, SQLERRM || '.', nullif(hint, ''));
END $$;
SELECT dc_create('cc');
SELECT dc_incr('cc', 'a', 5), dc_incr('cc', 7, 2), dc_incr('cc', 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, 3);

-- They are answered from the cache
SELECT try($$dc_get('cc', 'a', '1 second')$$);
SELECT try($$dc_get('cc', 7, '1 second')$$);
SELECT try($$dc_get('cc', 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, '0')$$);
SELECT try($$dc_get_many('cc', '{a,b}', '1 second')$$);
-- Arguments are looked at before that
SELECT call, try(call)
FROM unnest(ARRAY['dc_get(%s, ''k'', %s)', 'dc_get(%s, 7, %s)', 'dc_get_many(%s, ''{k}'', %s)']) AS f,
	(VALUES ('NULL', '''1 second'''), ('''cc''', 'NULL'), ('''cc''', '''-1 us'''), ('''cc''', '''-1 month'''), ('''cc''', '''29 days -1 month'''), ('''cc''', '''1 month -30 days''')) AS a(counter, staleness),
	format(f, counter, staleness) AS call;
SELECT k, try(format('dc_get(''cc'', NULL::%s, ''1 second'')', k)) FROM unnest(ARRAY['text', 'bigint', 'uuid']) AS k;
-- Intervals that are as long as can be
SELECT try($$dc_get('cc', 'a', '2000000000 days')$$);
SELECT try($$dc_get('cc', 'a', '-2000000000 days')$$);

-- A key that was read has an age
SELECT value, cache_age IS NULL AS no_age FROM dc_info('cc', 'a');
SELECT value, cache_age IS NULL AS no_age FROM dc_info('cc', 7);
SELECT value, cache_age IS NULL AS no_age FROM dc_info('cc', 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid);
-- and there is a setting
SELECT count(*) FROM pg_settings WHERE name = 'dcounter.cache_size';
SELECT dc_drop('cc');
DROP FUNCTION try;
