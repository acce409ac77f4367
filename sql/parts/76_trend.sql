CREATE FUNCTION dc_trending(counter regclass, n int DEFAULT 10, OUT key text, OUT score float8, OUT rank bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 10;
COMMENT ON FUNCTION dc_trending(regclass, int) IS 'keys that are counted most recently and most often, as of the last compaction';
