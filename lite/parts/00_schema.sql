-- dcounter_lite: the counters, stocks and idempotent increments of dcounter in SQL and PL/pgSQL, for servers where no library can be
-- installed. doc/lite.md says how it is installed and what differs from the extension.
--
-- Rules that all functions keep:
--   They are SECURITY INVOKER: nobody can do anything by them that they could not do by hand. The exceptions are triggers, which nobody can call:
--     make_change() changes the registry as its owner, after check_change() has let the caller's request pass, and on_counter_insert().
--   search_path is pinned. The exceptions say so, and qualify each name, type and operator.
--   Names in dynamic SQL come from regclass values or %I. The exception is the expressions of dc_bind(), code of the owner of both tables.
--   Writers never wait for writers: each session adds to shard rows of its own.
--   Statements that plans are kept for have no scan: PL/pgSQL plans while a shard table is empty, and would keep a sequential scan.
-- The file contains no commands of psql, so any client can run it. Inside of an extension it registers what pg_dump has to dump.

CREATE SCHEMA dcounter_lite;
COMMENT ON SCHEMA dcounter_lite IS 'internals of dcounter_lite';
GRANT USAGE ON SCHEMA dcounter_lite TO PUBLIC;

-- Columns are regclass, and no other reg type: pg_upgrade refuses those in tables of users.
CREATE TABLE dcounter_lite.counter (
	counter      regclass PRIMARY KEY,
	shards       regclass NOT NULL UNIQUE,
	holds        regclass UNIQUE,
	ops          regclass UNIQUE,
	max_shards   int NOT NULL DEFAULT 64 CHECK (max_shards BETWEEN 1 AND 4096),
	op_retention interval NOT NULL DEFAULT '7 days',
	op_open      regclass,
	op_closed    regclass[],
	writer       text,
	writes       text,
	once_writer  text
);
COMMENT ON TABLE dcounter_lite.counter IS 'settings of each counter table';
COMMENT ON COLUMN dcounter_lite.counter.counter IS 'the table of totals, which identifies the counter table';
COMMENT ON COLUMN dcounter_lite.counter.shards IS 'its shard table';
COMMENT ON COLUMN dcounter_lite.counter.holds IS 'the table of holds, if it is a stock';
COMMENT ON COLUMN dcounter_lite.counter.ops IS 'the table of ops, once there are any';
COMMENT ON COLUMN dcounter_lite.counter.max_shards IS 'of a stock: over how many rows the units of a key are spread';
COMMENT ON COLUMN dcounter_lite.counter.op_retention IS 'how long ops are kept';
COMMENT ON COLUMN dcounter_lite.counter.op_open IS 'the partition that ops are written to; a copy of op_slot, so that one look is enough';
COMMENT ON COLUMN dcounter_lite.counter.op_closed IS 'the partitions that ops are looked for in';
COMMENT ON COLUMN dcounter_lite.counter.writer IS 'the procedure that make_writer() has created';
COMMENT ON COLUMN dcounter_lite.counter.writes IS 'the shard table that it names; it is used while that is the shard table';
COMMENT ON COLUMN dcounter_lite.counter.once_writer IS 'the procedure that records an op and counts';

CREATE TABLE dcounter_lite.op_slot (
	counter   regclass NOT NULL REFERENCES dcounter_lite.counter ON DELETE CASCADE,
	slot      smallint NOT NULL CHECK (slot BETWEEN 0 AND 3),
	ops       regclass NOT NULL,
	partition regclass NOT NULL,
	state     text NOT NULL CHECK (state IN ('empty', 'open', 'closed')),
	since     timestamptz NOT NULL DEFAULT clock_timestamp(),
	forgotten timestamptz,
	PRIMARY KEY (counter, slot)
);
COMMENT ON TABLE dcounter_lite.op_slot IS 'the partitions of the tables of ops, and what they are used for';
COMMENT ON COLUMN dcounter_lite.op_slot.counter IS 'the counter table whose ops they are';
COMMENT ON COLUMN dcounter_lite.op_slot.slot IS 'number of the partition';
COMMENT ON COLUMN dcounter_lite.op_slot.ops IS 'the table of ops';
COMMENT ON COLUMN dcounter_lite.op_slot.partition IS 'its partition';
COMMENT ON COLUMN dcounter_lite.op_slot.state IS 'open (ops are written to it), closed (ops are looked for in it) or empty';
COMMENT ON COLUMN dcounter_lite.op_slot.since IS 'when it came into this state';
COMMENT ON COLUMN dcounter_lite.op_slot.forgotten IS 'ops that were written to it until then are no longer known';

CREATE TABLE dcounter_lite.source (
	counter regclass PRIMARY KEY REFERENCES dcounter_lite.counter ON DELETE CASCADE,
	source  regclass NOT NULL,
	key     text NOT NULL,
	value   text NOT NULL,
	filter  text NOT NULL,
	number  int NOT NULL
);
CREATE INDEX source_source_idx ON dcounter_lite.source (source);
COMMENT ON TABLE dcounter_lite.source IS 'the table that a bound counter counts, and how';
COMMENT ON COLUMN dcounter_lite.source.counter IS 'the counter table';
COMMENT ON COLUMN dcounter_lite.source.source IS 'the table whose rows it counts';
COMMENT ON COLUMN dcounter_lite.source.key IS 'expression: the key that a row counts for';
COMMENT ON COLUMN dcounter_lite.source.value IS 'expression: the amount that a row counts';
COMMENT ON COLUMN dcounter_lite.source.filter IS 'condition of the rows that count';
COMMENT ON COLUMN dcounter_lite.source.number IS 'a random number of its own; the triggers know those of their source';
