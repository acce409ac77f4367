-- Everybody may write the registry, as dc_create() does it with the rights of its caller; a trigger lets owners write rows of their own tables only.
-- (Row level security could do that, but then only a superuser could dump the registry.)
CREATE TRIGGER on_change BEFORE INSERT OR UPDATE OR DELETE ON dcounter_lite.counter FOR EACH ROW EXECUTE FUNCTION dcounter_lite.on_registry_change();
CREATE TRIGGER on_change BEFORE INSERT OR UPDATE OR DELETE ON dcounter_lite.op_slot FOR EACH ROW EXECUTE FUNCTION dcounter_lite.on_registry_change();
CREATE TRIGGER on_change BEFORE INSERT OR UPDATE OR DELETE ON dcounter_lite.source FOR EACH ROW EXECUTE FUNCTION dcounter_lite.on_registry_change();
GRANT SELECT, INSERT, UPDATE, DELETE ON dcounter_lite.counter, dcounter_lite.op_slot, dcounter_lite.source TO PUBLIC;

-- As an extension: the rows of the registry are dumped. (Three statements, as each of them updates one row of pg_extension.)
DO $$
BEGIN
	IF EXISTS (SELECT FROM pg_catalog.pg_depend WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
			AND objid OPERATOR(pg_catalog.=) 'dcounter_lite.counter'::pg_catalog.regclass AND deptype OPERATOR(pg_catalog.=) 'e') THEN
		PERFORM pg_catalog.pg_extension_config_dump('dcounter_lite.counter', '');
		PERFORM pg_catalog.pg_extension_config_dump('dcounter_lite.op_slot', '');
		PERFORM pg_catalog.pg_extension_config_dump('dcounter_lite.source', '');
	END IF;
END $$;
