\echo Use "ALTER EXTENSION dcounter UPDATE" to load this file. \quit

-- Before anything is changed: a library that is older than this script has no such function.
CREATE FUNCTION dcounter.library_0_2() RETURNS pg_catalog.text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.library_0_2() IS 'internal: version of the library, which is 0.2 or later';
REVOKE EXECUTE ON FUNCTION dcounter.library_0_2() FROM PUBLIC;

COMMENT ON COLUMN dcounter.region.first IS 'number of the first beat of this boot, and of those that begin like it';

-- Conditions of the caller must not see rows that these hide.
ALTER VIEW dc_marks SET (security_barrier);
ALTER VIEW dc_stat_drift SET (security_barrier);
ALTER VIEW dc_drifts SET (security_barrier);

-- It takes a snapshot of its own.
ALTER FUNCTION dc_op_status(regclass, text) PARALLEL UNSAFE;

CREATE FUNCTION dc_throttle_reset(key text DEFAULT NULL, role regrole DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_throttle_reset(text, regrole) IS 'gives the ad hoc limits of a key, or all, of the calling role, or another one, their whole budget; returns how many there were';

-- It takes shared memory, without a rule that says how much.
REVOKE EXECUTE ON FUNCTION dc_throttle(text, bigint, bigint, interval, bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_throttle_reset(text, regrole) FROM PUBLIC;
