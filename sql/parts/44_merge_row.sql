CREATE FUNCTION dcounter.merge_row() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.merge_row() IS 'merges rows that come by logical replication with those that are there';
