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
