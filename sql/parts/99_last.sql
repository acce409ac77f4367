-- Last, so that they do not fire for the statements above.
CREATE EVENT TRIGGER dcounter_drop ON sql_drop
	EXECUTE FUNCTION dcounter.on_drop();
COMMENT ON EVENT TRIGGER dcounter_drop IS 'drops what belongs to dropped tables, and refuses to drop what others need';

CREATE EVENT TRIGGER dcounter_ddl ON ddl_command_end
	WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER TYPE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
		'ALTER SCHEMA', 'ALTER DOMAIN', 'ALTER COLLATION', 'ALTER EXTENSION', 'ALTER TRIGGER', 'ALTER INDEX',
		'CREATE TABLE', 'CREATE FOREIGN TABLE', 'CREATE SCHEMA', 'CREATE TRIGGER', 'CREATE RULE', 'CREATE INDEX', 'CREATE STATISTICS',
		'CREATE PUBLICATION', 'ALTER PUBLICATION', 'DROP TRIGGER', 'REVOKE')
	EXECUTE FUNCTION dcounter.on_ddl();
COMMENT ON EVENT TRIGGER dcounter_ddl IS 'keeps the tables of a counter together, and code of owners off buffered counter tables';

-- These drop partitions, change names that expressions contain, or cannot be refused when they have ended.
CREATE EVENT TRIGGER dcounter_begin ON ddl_command_start
	WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER TYPE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
		'ALTER SCHEMA', 'ALTER DOMAIN', 'ALTER COLLATION', 'ALTER EXTENSION',
		'DROP TABLE', 'DROP SCHEMA', 'DROP OWNED', 'DROP TYPE', 'DROP EXTENSION', 'DROP ACCESS METHOD', 'DROP INDEX', 'CREATE INDEX')
	EXECUTE FUNCTION dcounter.on_ddl_begin();
COMMENT ON EVENT TRIGGER dcounter_begin IS 'looks at what a command is about to drop or rename';
