CREATE FUNCTION dc_region_join(peer text, conninfo text, topology text DEFAULT 'mesh', trust_owners boolean DEFAULT false) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 3;
COMMENT ON FUNCTION dc_region_join(text, text, text, boolean) IS 'the statements that bring what another region counts to this database';

CREATE FUNCTION dc_region_join(peer text, conninfo text, anew boolean, topology text DEFAULT 'mesh', trust_owners boolean DEFAULT false) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 3;
COMMENT ON FUNCTION dc_region_join(text, text, boolean, text, boolean) IS 'the same, and drops a link that exists, to make it anew';

CREATE FUNCTION dc_region_refresh(peer text, conninfo text DEFAULT NULL, trust_owners boolean DEFAULT false) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 4;
COMMENT ON FUNCTION dc_region_refresh(text, text, boolean) IS 'the statements that bring all that another region knows, once';

CREATE PROCEDURE dc_region_wait_copied(subscription text DEFAULT NULL)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_region_wait_copied(text) IS 'waits until a subscription to another region, or all of them, have copied their tables';
