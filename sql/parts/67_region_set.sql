CREATE FUNCTION dcounter.merge_set() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dcounter.merge_set() IS 'internal: merges what another region has set a key to';

CREATE FUNCTION dc_region_vacuum(counter regclass, older_than interval DEFAULT '30 days') RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_region_vacuum(regclass, interval) IS 'removes what is left of keys that were deleted so long ago, where all regions know that; returns how many';
