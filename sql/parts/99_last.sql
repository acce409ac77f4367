-- Privileges: the catalog can be read (pg_dump needs it), and is written only by
-- the functions above, which check ownership themselves.
GRANT USAGE ON SCHEMA dcounter TO PUBLIC;
GRANT SELECT ON dcounter.counter TO PUBLIC;
GRANT SELECT ON dcounter.counter_events TO PUBLIC;
GRANT SELECT ON dcounter.ledger TO PUBLIC;
GRANT SELECT ON dcounter.op_slot TO PUBLIC;
GRANT SELECT ON dcounter.source TO PUBLIC;
GRANT SELECT ON dcounter.unread TO PUBLIC;
GRANT SELECT ON dcounter.time_window, dcounter.window_slot, dcounter.window_claim TO PUBLIC;
GRANT SELECT ON dcounter.distinct_table TO PUBLIC;
GRANT SELECT ON dcounter.self, dcounter.self_mark, dcounter.region TO PUBLIC;
GRANT SELECT ON dcounter.limit_rule, dcounter.presence_rule TO PUBLIC;

-- These are dumped as well, with events of all roles. The database's owner dumps them;
-- no other role may read them.
GRANT SELECT ON SEQUENCE dcounter.outbox_seq, dcounter.consumer_id, dcounter.limit_id, dcounter.presence_id, dcounter.hlc_clock TO pg_database_owner;
GRANT SELECT ON dcounter.changed_key, dcounter.source_state, dcounter.consumer, dcounter.consumer_member, dcounter.consumer_retry TO pg_database_owner;
GRANT SELECT ON dcounter.outbox_0, dcounter.outbox_1, dcounter.outbox_2, dcounter.outbox_3, dcounter.outbox_4,
	dcounter.outbox_5, dcounter.outbox_6, dcounter.outbox_7 TO pg_database_owner;
GRANT SELECT ON dcounter.mark, dcounter.mark_value TO pg_database_owner;
GRANT SELECT ON dc_marks, dc_stat_drift, dc_drifts TO PUBLIC; -- which show what the caller may read

-- The catalogs behind it may be read by all.
GRANT SELECT ON dc_windows TO PUBLIC;
GRANT SELECT ON dc_unread_tables, dc_distinct_tables TO PUBLIC;

-- The functions behind them decide which rows the caller is shown.
GRANT SELECT ON dc_tables, dc_stat_counters, dc_stat_shards, dc_stat_hot_keys, dc_stat_memory, dc_stat_buffer, dc_stat_worker, dc_stat_outbox, dc_stat_consumers, dc_stat_regions, dc_stat_limits, dc_stat_presence TO PUBLIC;

REVOKE EXECUTE ON FUNCTION dc_worker_start() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_worker_stop() FROM PUBLIC;

-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_catalog_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_events_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_op_slot_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_ledger_row_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_source_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_unread_row_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_window_row_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_window_slot_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_distinct_table_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_source_state_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_self_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_drop() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_ddl() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_ddl_begin() FROM PUBLIC;

REVOKE EXECUTE ON FUNCTION dcounter.on_outbox_insert() FROM PUBLIC;

REVOKE EXECUTE ON FUNCTION dcounter.merge_beat() FROM PUBLIC;

-- Who restores a dump creates triggers with these.
REVOKE EXECUTE ON FUNCTION dcounter.merge_region() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dcounter.merge_region() TO pg_database_owner;
REVOKE EXECUTE ON FUNCTION dcounter.merge_set() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dcounter.merge_set() TO pg_database_owner;
REVOKE EXECUTE ON FUNCTION dcounter.merge_grant() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dcounter.merge_grant() TO pg_database_owner;
REVOKE EXECUTE ON FUNCTION dcounter.merge_want() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dcounter.merge_want() TO pg_database_owner;

SELECT pg_catalog.pg_extension_config_dump('dcounter.counter', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.counter_events', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.ledger', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.op_slot', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.mark', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.mark_value', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.source', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.unread', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.time_window', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.window_slot', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.window_claim', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.distinct_table', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.source_state', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.self', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.region', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.limit_id', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.limit_rule', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.presence_id', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.presence_rule', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.changed_key', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.hlc_clock', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_0', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_1', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_2', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_3', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_4', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_5', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_6', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_7', '');
-- A limit takes shared memory, and so does a presence.
REVOKE EXECUTE ON FUNCTION dc_limit_create(text, text, bigint, interval, bigint, text, text, bigint, boolean) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_throttle(text, bigint, bigint, interval, bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_throttle(anycompatible, bigint, bigint, interval, bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_throttle_reset(anycompatible, regrole) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dc_presence_create(text, interval, interval, text, bigint, boolean, boolean) FROM PUBLIC;

-- Creating a consumer holds back the removal of events, and reads all topics.
REVOKE EXECUTE ON FUNCTION dc_consumer_create(text, text[], text, boolean) FROM PUBLIC;

-- What is replicated comes by links that all counters share.
REVOKE EXECUTE ON FUNCTION dc_replicate(regclass, boolean) FROM PUBLIC;

-- The view decides which rows the caller is shown.
GRANT SELECT ON dc_dead_letters TO PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.consumer_id', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.consumer', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.consumer_member', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.consumer_retry', '');

-- Last, so that they do not fire for the statements above.
CREATE EVENT TRIGGER dcounter_drop ON sql_drop
	EXECUTE FUNCTION dcounter.on_drop();
COMMENT ON EVENT TRIGGER dcounter_drop IS 'removes what belongs to tables that are dropped, and refuses to drop what others need';

CREATE EVENT TRIGGER dcounter_ddl ON ddl_command_end
	WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER TYPE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
		'ALTER SCHEMA', 'ALTER DOMAIN', 'ALTER COLLATION', 'ALTER EXTENSION', 'ALTER TRIGGER', 'ALTER INDEX',
		'CREATE TABLE', 'CREATE FOREIGN TABLE', 'CREATE SCHEMA', 'CREATE TRIGGER', 'CREATE RULE', 'CREATE INDEX', 'CREATE STATISTICS',
		'CREATE PUBLICATION', 'ALTER PUBLICATION', 'DROP TRIGGER', 'REVOKE')
	EXECUTE FUNCTION dcounter.on_ddl();
COMMENT ON EVENT TRIGGER dcounter_ddl IS 'keeps the tables of a counter together, and code of their owners from buffered ones';

-- These drop partitions, change names that expressions contain, or cannot be refused when they have ended.
CREATE EVENT TRIGGER dcounter_begin ON ddl_command_start
	WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER TYPE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
		'ALTER SCHEMA', 'ALTER DOMAIN', 'ALTER COLLATION', 'ALTER EXTENSION',
		'DROP TABLE', 'DROP SCHEMA', 'DROP OWNED', 'DROP TYPE', 'DROP EXTENSION', 'DROP ACCESS METHOD', 'DROP INDEX', 'CREATE INDEX')
	EXECUTE FUNCTION dcounter.on_ddl_begin();
COMMENT ON EVENT TRIGGER dcounter_begin IS 'looks at what a command is about to drop or rename';
