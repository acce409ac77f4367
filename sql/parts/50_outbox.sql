CREATE SEQUENCE dcounter.outbox_seq AS pg_catalog.int8 CACHE 1 NO CYCLE;
COMMENT ON SEQUENCE dcounter.outbox_seq IS 'positions of events, drawn by transactions about to commit';

CREATE TABLE dcounter.outbox (
	seq           pg_catalog.int8        NOT NULL,
	created_at    pg_catalog.timestamptz NOT NULL,
	id            pg_catalog.uuid        NOT NULL,
	aggregatetype pg_catalog.text        NOT NULL,
	aggregateid   pg_catalog.text,
	type          pg_catalog.text        NOT NULL,
	payload       pg_catalog.jsonb,
	headers       pg_catalog.jsonb
);
COMMENT ON TABLE dcounter.outbox IS 'change events; the rows are in its partitions, the tables that inherit from it';
COMMENT ON COLUMN dcounter.outbox.seq IS 'position in the order of delivery';
COMMENT ON COLUMN dcounter.outbox.created_at IS 'when the transaction wrote it, about to commit';
COMMENT ON COLUMN dcounter.outbox.id IS 'identifies the event, the same in each delivery';
COMMENT ON COLUMN dcounter.outbox.aggregatetype IS 'topic';
COMMENT ON COLUMN dcounter.outbox.aggregateid IS 'key; events of a key keep their order';

CREATE TABLE dcounter.outbox_0 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_1 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_2 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_3 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_4 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_5 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_6 () INHERITS (dcounter.outbox);
CREATE TABLE dcounter.outbox_7 () INHERITS (dcounter.outbox);
CREATE INDEX outbox_0_seq ON dcounter.outbox_0 (seq);
CREATE INDEX outbox_1_seq ON dcounter.outbox_1 (seq);
CREATE INDEX outbox_2_seq ON dcounter.outbox_2 (seq);
CREATE INDEX outbox_3_seq ON dcounter.outbox_3 (seq);
CREATE INDEX outbox_4_seq ON dcounter.outbox_4 (seq);
CREATE INDEX outbox_5_seq ON dcounter.outbox_5 (seq);
CREATE INDEX outbox_6_seq ON dcounter.outbox_6 (seq);
CREATE INDEX outbox_7_seq ON dcounter.outbox_7 (seq);

COMMENT ON TABLE dcounter.outbox_0 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_1 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_2 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_3 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_4 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_5 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_6 IS 'events, one of the ring of partitions';
COMMENT ON TABLE dcounter.outbox_7 IS 'events, one of the ring of partitions';

CREATE TABLE dcounter.outbox_ring (
	current pg_catalog.int4        NOT NULL,
	since   pg_catalog.timestamptz NOT NULL
);
COMMENT ON TABLE dcounter.outbox_ring IS 'which partition of the outbox is written to';
INSERT INTO dcounter.outbox_ring VALUES (0, pg_catalog.now());

CREATE FUNCTION dcounter.on_outbox_insert() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_outbox_insert() IS 'internal: refuses rows that were not written by a commit';

-- For each row, as a data-only restore copies no rows to it.
CREATE TRIGGER on_outbox_insert
	BEFORE INSERT ON dcounter.outbox
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_outbox_insert();

CREATE FUNCTION dc_publish(topic text, key text, type text, payload jsonb, headers jsonb DEFAULT NULL) RETURNS uuid
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_publish(text, text, text, jsonb, jsonb) IS 'writes an event when the transaction commits';

CREATE FUNCTION dc_publish(topic text, key anycompatible, type text, payload jsonb, headers jsonb DEFAULT NULL) RETURNS uuid
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_publish(text, anycompatible, text, jsonb, jsonb) IS 'writes an event when the transaction commits';

CREATE FUNCTION dcounter.outbox_capture() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.outbox_capture() IS 'writes an event for each change of a row; see dc_outbox_attach()';

CREATE FUNCTION dc_outbox_attach(source regclass, topic text DEFAULT NULL, key_columns text[] DEFAULT NULL, columns text[] DEFAULT NULL, condition text DEFAULT NULL, sink text DEFAULT 'table', if_not_exists boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_outbox_attach(regclass, text, text[], text[], text, text, boolean) IS 'writes an event for each change of a table, in the same transaction';

CREATE FUNCTION dc_outbox_detach(source regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_outbox_detach(regclass) IS 'ends what dc_outbox_attach() began';

CREATE TABLE dcounter.counter_events (
	counter    pg_catalog.regclass NOT NULL,
	every      pg_catalog."interval" NOT NULL,
	channel    pg_catalog.text,
	last_round pg_catalog.timestamptz,
	CONSTRAINT counter_events_pkey PRIMARY KEY (counter)
) WITH (fillfactor = 50);
COMMENT ON TABLE dcounter.counter_events IS 'counter tables that emit events of type counter.changed';
COMMENT ON COLUMN dcounter.counter_events.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.counter_events.every IS 'at most one event of a key in this time';
COMMENT ON COLUMN dcounter.counter_events.channel IS 'channel that is notified of each event';
COMMENT ON COLUMN dcounter.counter_events.last_round IS 'when events were written last';

CREATE FUNCTION dcounter.on_events_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_events_change() IS 'internal: makes restoring these settings idempotent and tells sessions of changes';

CREATE TRIGGER on_events_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.counter_events
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_events_change();

CREATE TABLE dcounter.changed_key (
	counter   pg_catalog.regclass    NOT NULL,
	marked_at pg_catalog.timestamptz NOT NULL,
	key       pg_catalog.text COLLATE pg_catalog."C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);
CREATE INDEX changed_key_marked_at ON dcounter.changed_key (counter, marked_at);
COMMENT ON TABLE dcounter.changed_key IS 'keys of counter tables that have changed since their last event';
COMMENT ON COLUMN dcounter.changed_key.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.changed_key.marked_at IS 'when the change was made';
COMMENT ON COLUMN dcounter.changed_key.key IS 'the key';

CREATE FUNCTION dcounter.stat_outbox(OUT last_seq bigint, OUT horizon bigint, OUT held_back bigint, OUT held_back_by_pid int, OUT held_back_by_xid xid, OUT events bigint, OUT bytes bigint, OUT partitions int, OUT current_partition int, OUT current_since timestamptz, OUT oldest_seq bigint, OUT oldest_created_at timestamptz, OUT oldest_needed_seq bigint, OUT oldest_needed_by text)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dcounter.stat_outbox() IS 'internal: the row of dc_stat_outbox';

CREATE VIEW dc_stat_outbox AS
	SELECT s.last_seq, s.horizon, s.held_back, s.held_back_by_pid,
		(SELECT p.gid FROM pg_catalog.pg_prepared_xacts AS p
			WHERE p.transaction OPERATOR(pg_catalog.=) s.held_back_by_xid) AS held_back_by_gid,
		s.events, s.bytes, s.partitions, s.current_partition, s.current_since,
		s.oldest_seq, s.oldest_created_at, s.oldest_needed_seq, s.oldest_needed_by
	FROM dcounter.stat_outbox() AS s;
COMMENT ON VIEW dc_stat_outbox IS 'the outbox as it is now';
COMMENT ON COLUMN dc_stat_outbox.last_seq IS 'last number that a transaction has drawn for its events';
COMMENT ON COLUMN dc_stat_outbox.horizon IS 'events up to this one can be fetched';
COMMENT ON COLUMN dc_stat_outbox.held_back IS 'numbers after it, which wait for a transaction that is committing or prepared';
COMMENT ON COLUMN dc_stat_outbox.held_back_by_pid IS 'the session that commits';
COMMENT ON COLUMN dc_stat_outbox.held_back_by_gid IS 'the prepared transaction';
COMMENT ON COLUMN dc_stat_outbox.events IS 'upper bound of the stored events: numbers of transactions that failed to commit are included';
COMMENT ON COLUMN dc_stat_outbox.bytes IS 'size of all partitions with their indexes and TOAST tables';
COMMENT ON COLUMN dc_stat_outbox.partitions IS 'partitions in use, of 8';
COMMENT ON COLUMN dc_stat_outbox.current_partition IS 'the one that is written to';
COMMENT ON COLUMN dc_stat_outbox.current_since IS 'since when';
COMMENT ON COLUMN dc_stat_outbox.oldest_seq IS 'oldest event that is stored';
COMMENT ON COLUMN dc_stat_outbox.oldest_created_at IS 'when it was written';
COMMENT ON COLUMN dc_stat_outbox.oldest_needed_seq IS 'oldest event that a consumer may still need';
COMMENT ON COLUMN dc_stat_outbox.oldest_needed_by IS 'the consumer that is furthest behind, if the caller may read it';

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT SELECT ON dcounter.counter_events TO PUBLIC;
-- The owner of the database dumps these as well. No other role reads them, as they have rows of all roles.
GRANT SELECT ON SEQUENCE dcounter.outbox_seq TO pg_database_owner;
GRANT SELECT ON dcounter.changed_key TO pg_database_owner;
GRANT SELECT ON dcounter.outbox_0, dcounter.outbox_1, dcounter.outbox_2, dcounter.outbox_3, dcounter.outbox_4, dcounter.outbox_5, dcounter.outbox_6, dcounter.outbox_7 TO pg_database_owner;
-- The function behind a view decides which rows the caller is shown.
GRANT SELECT ON dc_stat_outbox TO PUBLIC;
-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_events_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_outbox_insert() FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.counter_events', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.changed_key', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_0', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_1', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_2', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_3', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_4', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_5', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_6', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.outbox_7', '');
