-- The partitions of the tables of ops.
CREATE TABLE dcounter.op_slot (
	counter   pg_catalog.regclass    NOT NULL,
	slot      pg_catalog.int2        NOT NULL,
	ops    pg_catalog.regclass    NOT NULL,
	partition pg_catalog.regclass    NOT NULL,
	state     pg_catalog.text        NOT NULL,
	since     pg_catalog.timestamptz NOT NULL,
	closed_at pg_catalog.timestamptz,
	forgotten pg_catalog.timestamptz,
	CONSTRAINT op_slot_pkey PRIMARY KEY (counter, slot),
	CONSTRAINT op_slot_partition_key UNIQUE (partition),
	CHECK (state OPERATOR(pg_catalog.=) ANY ('{empty,opening,open,closed,expired}'::pg_catalog.text[]))
);
CREATE INDEX op_slot_ops_idx ON dcounter.op_slot (ops);
COMMENT ON TABLE dcounter.op_slot IS 'the partitions of the tables of ops, and what they are used for';
COMMENT ON COLUMN dcounter.op_slot.counter IS 'the counter table whose ops they are';
COMMENT ON COLUMN dcounter.op_slot.slot IS 'number of the partition';
COMMENT ON COLUMN dcounter.op_slot.ops IS 'the table of ops';
COMMENT ON COLUMN dcounter.op_slot.partition IS 'its partition';
COMMENT ON COLUMN dcounter.op_slot.state IS 'open and opening (ops are written to it), closed (ops are looked for in it), expired (to be emptied) or empty';
COMMENT ON COLUMN dcounter.op_slot.since IS 'when it came into this state';
COMMENT ON COLUMN dcounter.op_slot.closed_at IS 'of a closed or expired partition: when the last ops were written to it';
COMMENT ON COLUMN dcounter.op_slot.forgotten IS 'ops that were written to it until then are no longer known';

CREATE FUNCTION dcounter.on_op_slot_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_op_slot_change() IS 'internal: makes restoring the partitions of ops idempotent and tells sessions of changes';

CREATE TRIGGER on_op_slot_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.op_slot
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_op_slot_change();

CREATE FUNCTION dc_incr_once(counter regclass, key anycompatible, delta bigint, op_id text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_incr_once(regclass, anycompatible, bigint, text) IS 'adds to a counter, unless this op has been applied before';

CREATE FUNCTION dc_incr_once_many(counter regclass, keys anycompatiblearray, deltas bigint[], op_ids text[]) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_incr_once_many(regclass, anycompatiblearray, bigint[], text[]) IS 'adds to many counters, except for ops that have been applied before; returns how many were new';

CREATE FUNCTION dc_op_status(counter regclass, op_id text, OUT applied boolean, OUT key text, OUT delta bigint, OUT at timestamptz) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20 ROWS 1;
COMMENT ON FUNCTION dc_op_status(regclass, text) IS 'whether an op has been applied';

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT SELECT ON dcounter.op_slot TO PUBLIC;
-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_op_slot_change() FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.op_slot', '');
