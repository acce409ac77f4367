-- Privileges: the catalog can be read (pg_dump needs it), and is written only by
-- the functions above, which check ownership themselves.
GRANT USAGE ON SCHEMA dcounter TO PUBLIC;
GRANT SELECT ON dcounter.counter TO PUBLIC;

-- The functions behind them decide which rows the caller is shown.
GRANT SELECT ON dc_stat_counters, dc_stat_hot_keys, dc_stat_worker TO PUBLIC;

REVOKE EXECUTE ON FUNCTION dc_worker_start() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_worker_stop() FROM PUBLIC;

-- Whoever may execute a trigger function may put it on a table of his own.
REVOKE EXECUTE ON FUNCTION dcounter.on_catalog_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_sql_drop() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_alter_table() FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.counter', '');

-- Last, so that they do not fire for the statements above.
CREATE EVENT TRIGGER dcounter_sql_drop ON sql_drop
	EXECUTE FUNCTION dcounter.on_sql_drop();
COMMENT ON EVENT TRIGGER dcounter_sql_drop IS 'removes the settings of dropped counter tables';

CREATE EVENT TRIGGER dcounter_alter_table ON ddl_command_end
	WHEN TAG IN ('ALTER TABLE')
	EXECUTE FUNCTION dcounter.on_alter_table();
COMMENT ON EVENT TRIGGER dcounter_alter_table IS 'keeps shard tables with their tables of totals';
