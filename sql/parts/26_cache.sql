CREATE FUNCTION dc_get(counter regclass, key text, max_staleness interval) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_get_cached' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 20;
COMMENT ON FUNCTION dc_get(regclass, text, interval) IS 'value of a counter that is at most so old, from shared memory if possible';

CREATE FUNCTION dc_get(counter regclass, key bigint, max_staleness interval) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_get_cached_int8' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 20;
COMMENT ON FUNCTION dc_get(regclass, bigint, interval) IS 'value of a counter that is at most so old, from shared memory if possible';

CREATE FUNCTION dc_get(counter regclass, key uuid, max_staleness interval) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_get_cached_uuid' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 20;
COMMENT ON FUNCTION dc_get(regclass, uuid, interval) IS 'value of a counter that is at most so old, from shared memory if possible';

CREATE FUNCTION dc_get_many(counter regclass, keys text[], max_staleness interval, OUT key text, OUT value bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'dc_get_many_cached' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_get_many(regclass, text[], interval) IS 'values of many counters that are at most so old, from shared memory if possible, in the order asked';
