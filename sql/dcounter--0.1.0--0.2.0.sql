\echo Use "ALTER EXTENSION dcounter UPDATE" to load this file. \quit

-- Before anything is changed: a library that is older than this script has no such function.
CREATE FUNCTION dcounter.library_0_2() RETURNS pg_catalog.text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.library_0_2() IS 'internal: version of the library, which is 0.2 or later';
REVOKE EXECUTE ON FUNCTION dcounter.library_0_2() FROM PUBLIC;

COMMENT ON COLUMN dcounter.region.first IS 'number of the first beat of this boot, and of those that begin like it';
