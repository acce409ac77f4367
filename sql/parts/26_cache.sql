CREATE FUNCTION dc_get(counter regclass, key anycompatible, max_staleness interval) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_get_cached' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 20;
COMMENT ON FUNCTION dc_get(regclass, anycompatible, interval) IS 'value of a counter, at most this old, from shared memory if possible';

CREATE FUNCTION dc_get_many(counter regclass, keys anycompatiblearray, max_staleness interval, OUT key anycompatible, OUT value bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'dc_get_many_cached' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_get_many(regclass, anycompatiblearray, interval) IS 'values of many counters, at most this old, from shared memory if possible, in the order asked';
