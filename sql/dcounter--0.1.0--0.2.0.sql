\echo Use "ALTER EXTENSION dcounter UPDATE" to load this file. \quit

-- Before anything is changed: a library that is older than this script has no such function.
CREATE FUNCTION dcounter.library_0_2() RETURNS pg_catalog.text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.library_0_2() IS 'internal: version of the library, which is 0.2 or later';
REVOKE EXECUTE ON FUNCTION dcounter.library_0_2() FROM PUBLIC;

COMMENT ON COLUMN dcounter.region.first IS 'number of the first beat of this boot, and of those that begin like it';

-- What dc_distinct_create() makes now: distinct tables that exist get it, too (src/distinct/distinctddl.c).
DO $$
DECLARE
	t record;
BEGIN
	FOR t IN
		SELECT r.relation, r."outer" FROM dcounter.distinct_table AS d,
			LATERAL (VALUES (d.distinct_table, true), (d.deltas, false)) AS r (relation, "outer")
		WHERE EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid OPERATOR(pg_catalog.=) r.relation)
	LOOP
		EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER dcounter_delete BEFORE DELETE OR UPDATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION dcounter.on_counter_delete()', t.relation);
		EXECUTE pg_catalog.format('ALTER TRIGGER dcounter_delete ON %s DEPENDS ON EXTENSION dcounter', t.relation);
		CONTINUE WHEN NOT t."outer";
		EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER dcounter_truncate AFTER TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION dcounter.on_counter_truncate()', t.relation);
		EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER dcounter_truncate', t.relation);
		EXECUTE pg_catalog.format('ALTER TRIGGER dcounter_truncate ON %s DEPENDS ON EXTENSION dcounter', t.relation);
	END LOOP;
END $$;
