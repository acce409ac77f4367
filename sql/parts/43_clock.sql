CREATE FUNCTION dc_node() RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_node() IS 'the name of this database among those that write to the same mergeable values';
