-- The partitions of the tables of events.
CREATE TABLE dcounter.event_slot (
	counter   pg_catalog.regclass    NOT NULL,
	slot      pg_catalog.int2        NOT NULL,
	events    pg_catalog.regclass    NOT NULL,
	partition pg_catalog.regclass    NOT NULL,
	state     pg_catalog.text        NOT NULL,
	since     pg_catalog.timestamptz NOT NULL,
	closed_at pg_catalog.timestamptz,
	forgotten pg_catalog.timestamptz,
	CONSTRAINT event_slot_pkey PRIMARY KEY (counter, slot),
	CONSTRAINT event_slot_partition_key UNIQUE (partition),
	CHECK (state OPERATOR(pg_catalog.=) ANY ('{empty,opening,open,closed,expired}'::pg_catalog.text[]))
);
CREATE INDEX event_slot_events_idx ON dcounter.event_slot (events);
COMMENT ON TABLE dcounter.event_slot IS 'the partitions of the tables of events, and what they are used for';
COMMENT ON COLUMN dcounter.event_slot.counter IS 'the counter table whose events they are';
COMMENT ON COLUMN dcounter.event_slot.slot IS 'number of the partition';
COMMENT ON COLUMN dcounter.event_slot.events IS 'the table of events';
COMMENT ON COLUMN dcounter.event_slot.partition IS 'its partition';
COMMENT ON COLUMN dcounter.event_slot.state IS 'open and opening (events are written to it), closed (events are looked for in it), expired (to be emptied) or empty';
COMMENT ON COLUMN dcounter.event_slot.since IS 'when it came into this state';
COMMENT ON COLUMN dcounter.event_slot.closed_at IS 'of a closed or expired one: events were written to it up to then';
COMMENT ON COLUMN dcounter.event_slot.forgotten IS 'events that were written to it up to then are no longer known';

CREATE FUNCTION dcounter.on_event_slot_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON FUNCTION dcounter.on_event_slot_change() IS 'internal: makes restoring the partitions of events idempotent and tells sessions of changes';

CREATE TRIGGER on_event_slot_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.event_slot
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_event_slot_change();

CREATE FUNCTION dc_incr_once(counter regclass, key text, delta bigint, event_id text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION dc_incr_once(regclass, text, bigint, text) IS 'adds to a counter, unless this event has been applied before';

CREATE FUNCTION dc_incr_once(counter regclass, key bigint, delta bigint, event_id text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_incr_once_int8' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION dc_incr_once(regclass, bigint, bigint, text) IS 'adds to a counter, unless this event has been applied before';

CREATE FUNCTION dc_incr_once(counter regclass, key uuid, delta bigint, event_id text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_incr_once_uuid' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION dc_incr_once(regclass, uuid, bigint, text) IS 'adds to a counter, unless this event has been applied before';

CREATE FUNCTION dc_incr_once_many(counter regclass, keys text[], deltas bigint[], event_ids text[]) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION dc_incr_once_many(regclass, text[], bigint[], text[]) IS 'adds to many counters, except for events that have been applied before; returns how many were new';

CREATE FUNCTION dc_op_status(counter regclass, event_id text, OUT applied boolean, OUT key text, OUT delta bigint, OUT at timestamptz) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1;
COMMENT ON FUNCTION dc_op_status(regclass, text) IS 'whether an event has been applied';

CREATE FUNCTION dcounter.on_ledger_drop() RETURNS pg_catalog.event_trigger
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON FUNCTION dcounter.on_ledger_drop() IS 'internal: drops tables of events and of ledgers with the tables that they belong to';

CREATE FUNCTION dcounter.on_ledger_alter() RETURNS pg_catalog.event_trigger
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON FUNCTION dcounter.on_ledger_alter() IS 'internal: keeps tables of events and of ledgers with the tables that they belong to';
