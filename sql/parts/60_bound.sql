CREATE TABLE dcounter.source (
	counter     pg_catalog.regclass NOT NULL,
	source      pg_catalog.regclass NOT NULL,
	key         pg_catalog.text     NOT NULL,
	value       pg_catalog.text     NOT NULL,
	filter      pg_catalog.text,
	distinct_of pg_catalog.text,
	refs        pg_catalog.regclass,
	carried     pg_catalog.regclass,
	build       pg_catalog.text     NOT NULL DEFAULT 'worker',
	replicated  pg_catalog.bool     NOT NULL DEFAULT false,
	on_detach   pg_catalog.text     NOT NULL DEFAULT 'subtract',
	on_drift    pg_catalog.text     NOT NULL DEFAULT 'alarm',
	CONSTRAINT source_pkey PRIMARY KEY (counter)
);
CREATE INDEX source_source ON dcounter.source (source, counter);
COMMENT ON TABLE dcounter.source IS 'counter tables that are bound to a source table, which they count';
COMMENT ON COLUMN dcounter.source.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.source.source IS 'the source table';
COMMENT ON COLUMN dcounter.source.key IS 'expressions over its columns that make the key';
COMMENT ON COLUMN dcounter.source.value IS 'what a row adds to the value of its key';
COMMENT ON COLUMN dcounter.source.filter IS 'which rows count; NULL: all';
COMMENT ON COLUMN dcounter.source.distinct_of IS 'instead of rows: of what distinct values count';
COMMENT ON COLUMN dcounter.source.refs IS 'the table with how often each of these values occurs';
COMMENT ON COLUMN dcounter.source.carried IS 'the table with the amounts of partitions that were detached and still count';
COMMENT ON COLUMN dcounter.source.build IS 'who counts the rows that there are: worker, or none but calls of dc_build()';
COMMENT ON COLUMN dcounter.source.replicated IS 'whether rows count that a subscription writes';
COMMENT ON COLUMN dcounter.source.on_detach IS 'what becomes of the rows of a partition that is detached: subtract or keep';
COMMENT ON COLUMN dcounter.source.on_drift IS 'what the worker does when values differ: alarm or repair';

CREATE TABLE dcounter.source_state (
	counter       pg_catalog.regclass NOT NULL,
	state         pg_catalog.text     NOT NULL,
	epoch         pg_catalog.int8     NOT NULL,
	built_to      pg_catalog.text COLLATE pg_catalog."C",
	pass_to       pg_catalog.text COLLATE pg_catalog."C",
	passes        pg_catalog.int8     NOT NULL,
	last_pass     pg_catalog.timestamptz,
	keys_checked  pg_catalog.int8     NOT NULL,
	rows_checked  pg_catalog.int8     NOT NULL,
	drifted_keys  pg_catalog.int8     NOT NULL,
	drift_sum     pg_catalog."numeric" NOT NULL,
	repaired      pg_catalog.int8     NOT NULL,
	last_drift_at pg_catalog.timestamptz,
	CONSTRAINT source_state_pkey PRIMARY KEY (counter)
) WITH (fillfactor = 50);
COMMENT ON TABLE dcounter.source_state IS 'how far each bound counter table agrees with its source';
COMMENT ON COLUMN dcounter.source_state.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.source_state.state IS 'building, exact, suspect or drifted';
COMMENT ON COLUMN dcounter.source_state.epoch IS 'changes with all that changes values other than with rows of the source';
COMMENT ON COLUMN dcounter.source_state.built_to IS 'keys up to here are built';
COMMENT ON COLUMN dcounter.source_state.pass_to IS 'the pass that is under way: what it goes over (1 counter, 2 source), the epoch at its beginning, and now, keys that differed, that were noted before it, that were repaired, that were left, and the last key';
COMMENT ON COLUMN dcounter.source_state.passes IS 'passes over all keys that were finished';
COMMENT ON COLUMN dcounter.source_state.last_pass IS 'when the last of them was';
COMMENT ON COLUMN dcounter.source_state.keys_checked IS 'keys compared, in all';
COMMENT ON COLUMN dcounter.source_state.rows_checked IS 'rows of the source read for that';
COMMENT ON COLUMN dcounter.source_state.drifted_keys IS 'keys that differed';
COMMENT ON COLUMN dcounter.source_state.drift_sum IS 'by how much, without the sign';
COMMENT ON COLUMN dcounter.source_state.repaired IS 'keys that were repaired';
COMMENT ON COLUMN dcounter.source_state.last_drift_at IS 'when the last of them was found';

CREATE TABLE dcounter.drift (
	id       pg_catalog.int8 GENERATED ALWAYS AS IDENTITY,
	counter  pg_catalog.regclass    NOT NULL,
	at       pg_catalog.timestamptz NOT NULL,
	key      pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
	source   pg_catalog.int8        NOT NULL,
	value    pg_catalog.int8        NOT NULL,
	drift    pg_catalog.int8        NOT NULL,
	repaired pg_catalog.bool        NOT NULL,
	epoch    pg_catalog.int8        NOT NULL,
	CONSTRAINT drift_pkey PRIMARY KEY (id)
);
CREATE INDEX drift_key ON dcounter.drift (counter, key);
COMMENT ON TABLE dcounter.drift IS 'differences that were found between bound counter tables and their sources: the last 10,000';
COMMENT ON SEQUENCE dcounter.drift_id_seq IS 'numbers of these differences';
COMMENT ON COLUMN dcounter.drift.id IS 'in the order in which they were found';
COMMENT ON COLUMN dcounter.drift.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.drift.at IS 'when';
COMMENT ON COLUMN dcounter.drift.key IS 'the key';
COMMENT ON COLUMN dcounter.drift.source IS 'what the source has';
COMMENT ON COLUMN dcounter.drift.value IS 'what the counter had';
COMMENT ON COLUMN dcounter.drift.drift IS 'the difference';
COMMENT ON COLUMN dcounter.drift.repaired IS 'whether it was repaired at once';
COMMENT ON COLUMN dcounter.drift.epoch IS 'that of the state: a difference that is found again in the same one is not noted again';

CREATE FUNCTION dcounter.on_source_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_source_change() IS 'internal: makes restoring the bound counters idempotent and tells sessions of changes';

CREATE TRIGGER on_source_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.source
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_source_change();

CREATE FUNCTION dcounter.on_source_state_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_source_state_change() IS 'internal: makes restoring the states of bound counters idempotent';

CREATE TRIGGER on_source_state_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.source_state
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_source_state_change();

-- Any owner of a source may execute it: it counts nothing for a table that is not bound.
CREATE FUNCTION dcounter.source_row() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.source_row() IS 'counts changes of a source table; see dc_bind()';

CREATE FUNCTION dcounter.source_truncate() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.source_truncate() IS 'counts what TRUNCATE removes from a source table; see dc_bind()';

-- In the statements that read a source, as its owner.
CREATE FUNCTION dcounter.source_step(what integer) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 1;
COMMENT ON FUNCTION dcounter.source_step(integer) IS 'internal: counts the rows that a comparison of a source reads, and limits its time';

-- In the condition of a trigger on a source, so evaluated by all who update one.
CREATE FUNCTION dcounter.source_differs(anyelement, anyelement) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.source_differs(anyelement, anyelement) IS 'whether two values differ in a byte';

CREATE FUNCTION dc_bind(counter regclass, source regclass, key text, value text DEFAULT '1', filter text DEFAULT NULL, distinct_of text DEFAULT NULL,
	build text DEFAULT 'worker', lock_timeout interval DEFAULT '200 ms', replicated boolean DEFAULT false, on_detach text DEFAULT 'subtract') RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_bind(regclass, regclass, text, text, text, text, text, interval, boolean, text) IS 'makes a counter table the count, or the sum, of a source table';

CREATE FUNCTION dc_unbind(counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_unbind(regclass) IS 'ends what dc_bind() began; the values stay';
