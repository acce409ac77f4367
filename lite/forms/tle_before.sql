-- dcounter_lite @VERSION@ as a trusted language extension (pg_tle). Run it as a role that is a member of pgtle_admin, and then, in each database:
--   CREATE EXTENSION dcounter_lite;
-- It does nothing if this version is registered. Over another one, use pgtle.install_update_path().
DO $do$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname OPERATOR(pg_catalog.=) 'pg_tle') THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'pg_tle is not installed in this database', HINT = 'Use CREATE EXTENSION pg_tle, or install dcounter_lite without it: psql -1 -f dcounter_lite--@VERSION@.sql.';
	END IF;
	IF EXISTS (SELECT FROM pgtle.available_extension_versions() AS v WHERE v.name OPERATOR(pg_catalog.=) 'dcounter_lite' AND v.version OPERATOR(pg_catalog.=) '@VERSION@') THEN
		RAISE NOTICE 'dcounter_lite @VERSION@ is registered already';
		RETURN;
	END IF;
	IF EXISTS (SELECT FROM pgtle.available_extensions() AS e WHERE e.name OPERATOR(pg_catalog.=) 'dcounter_lite') THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'another version of dcounter_lite is registered', HINT = 'Register the way from that version to @VERSION@ with pgtle.install_update_path().';
	END IF;
	PERFORM pgtle.install_extension('dcounter_lite', '@VERSION@', 'exact counters without a hot row, stock and idempotent increments, in SQL alone', $dcounter_lite$
