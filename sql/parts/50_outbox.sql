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
