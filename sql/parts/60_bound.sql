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
COMMENT ON COLUMN dcounter.source.key IS 'expressions over its columns that make the key, and the grouping sets of them';
COMMENT ON COLUMN dcounter.source.value IS 'what a row adds to the value of its key, or several of these with their names';
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

-- In the condition of a trigger on a source, so evaluated by all who update one.
CREATE FUNCTION dcounter.source_differs(anyelement, anyelement) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.source_differs(anyelement, anyelement) IS 'whether two values differ in a byte';

CREATE FUNCTION dc_bind(counter regclass, source regclass, key text, value text DEFAULT '1', filter text DEFAULT NULL, distinct_of text DEFAULT NULL,
	build text DEFAULT 'worker', lock_timeout interval DEFAULT '200 ms', replicated boolean DEFAULT false, on_detach text DEFAULT 'subtract', group_by text DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_bind(regclass, regclass, text, text, text, text, text, interval, boolean, text, text) IS 'makes a counter table the count, or the sum, of a source table';

CREATE FUNCTION dc_unbind(counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_unbind(regclass) IS 'ends what dc_bind() began; the values stay';

CREATE FUNCTION dc_source_check(counter regclass, keys anycompatiblearray DEFAULT NULL::text[], from_key text DEFAULT NULL, to_key text DEFAULT NULL, sample float8 DEFAULT NULL, OUT key text, OUT source bigint, OUT counter bigint, OUT drift bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 10;
COMMENT ON FUNCTION dc_source_check(regclass, anycompatiblearray, text, text, float8) IS 'keys of a bound counter table that differ from its source';

CREATE FUNCTION dc_source_fix(counter regclass, keys anycompatiblearray, OUT key text, OUT drift bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 10;
COMMENT ON FUNCTION dc_source_fix(regclass, anycompatiblearray) IS 'adds what keys of a bound counter table differ by from its source';

CREATE PROCEDURE dc_build(counter regclass, max_keys int DEFAULT 1000)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_build(regclass, int) IS 'adds what a source has and its bound counter table has not, in chunks of so many keys';

CREATE TABLE dcounter.mark (
	counter pg_catalog.regclass    NOT NULL,
	mark    pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
	at      pg_catalog.timestamptz NOT NULL,
	keys    pg_catalog.int8        NOT NULL,
	CONSTRAINT mark_pkey PRIMARY KEY (counter, mark)
);
COMMENT ON TABLE dcounter.mark IS 'marks: moments at which the values of a counter table were kept';
COMMENT ON COLUMN dcounter.mark.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.mark.mark IS 'the name of the mark';
COMMENT ON COLUMN dcounter.mark.at IS 'when';
COMMENT ON COLUMN dcounter.mark.keys IS 'how many keys there were';

CREATE TABLE dcounter.mark_value (
	counter pg_catalog.regclass NOT NULL,
	mark    pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
	key     pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
	value   pg_catalog.int8     NOT NULL,
	exact   pg_catalog.int8,
	CONSTRAINT mark_value_pkey PRIMARY KEY (counter, mark, key)
);
COMMENT ON TABLE dcounter.mark_value IS 'the values that marks keep, and those that they should have been';
COMMENT ON COLUMN dcounter.mark_value.counter IS 'the counter table';
COMMENT ON COLUMN dcounter.mark_value.mark IS 'the name of the mark';
COMMENT ON COLUMN dcounter.mark_value.key IS 'the key';
COMMENT ON COLUMN dcounter.mark_value.value IS 'its value then, 0 if it was not there';
COMMENT ON COLUMN dcounter.mark_value.exact IS 'what that should have been, null as long as nobody has said so';

CREATE FUNCTION dc_mark(counter regclass, mark text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_mark(regclass, text) IS 'keeps the exact values of all keys of a counter table under a name';

CREATE FUNCTION dc_unmark(counter regclass, mark text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_unmark(regclass, text) IS 'removes what dc_mark() has kept';

CREATE FUNCTION dc_reconcile(counter regclass, keys anycompatiblearray, exact bigint[], as_of text,
	OUT key anycompatible, OUT was bigint, OUT exact bigint, OUT delta bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 100;
COMMENT ON FUNCTION dc_reconcile(regclass, anycompatiblearray, bigint[], text) IS 'makes values what they should have been at a mark, and keeps what was added since';

CREATE VIEW dc_marks WITH (security_barrier) AS
	SELECT m.counter, m.mark, m.at, m.keys
	FROM dcounter.mark AS m
	WHERE pg_catalog.has_table_privilege(m.counter, 'SELECT');
COMMENT ON VIEW dc_marks IS 'marks of the counter tables that the caller may read';
COMMENT ON COLUMN dc_marks.counter IS 'the counter table';
COMMENT ON COLUMN dc_marks.mark IS 'the name of the mark';
COMMENT ON COLUMN dc_marks.at IS 'when it was made';
COMMENT ON COLUMN dc_marks.keys IS 'how many keys it has';

CREATE VIEW dc_stat_drift WITH (security_barrier) AS
	SELECT s.counter, b.source, s.state, s.built_to, s.last_pass, s.passes, s.keys_checked, s.rows_checked, s.drifted_keys, s.drift_sum,
		s.repaired, s.last_drift_at
	FROM dcounter.source_state AS s JOIN dcounter.source AS b ON b.counter OPERATOR(pg_catalog.=) s.counter
	WHERE pg_catalog.has_table_privilege(s.counter, 'SELECT') OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW dc_stat_drift IS 'how far bound counter tables agree with their sources, of those that the caller may read, for members of pg_monitor of all';
COMMENT ON COLUMN dc_stat_drift.counter IS 'the counter table';
COMMENT ON COLUMN dc_stat_drift.source IS 'the table that it counts';
COMMENT ON COLUMN dc_stat_drift.state IS 'building, exact, suspect (something was done that is not counted) or drifted (a difference was found, and not repaired)';
COMMENT ON COLUMN dc_stat_drift.built_to IS 'while it is being built: keys up to here are done';
COMMENT ON COLUMN dc_stat_drift.last_pass IS 'when all keys had been verified for the last time';
COMMENT ON COLUMN dc_stat_drift.passes IS 'how often that was';
COMMENT ON COLUMN dc_stat_drift.keys_checked IS 'keys compared, in all';
COMMENT ON COLUMN dc_stat_drift.rows_checked IS 'rows of the source, or entries of its indexes, read for that';
COMMENT ON COLUMN dc_stat_drift.drifted_keys IS 'keys that differed';
COMMENT ON COLUMN dc_stat_drift.drift_sum IS 'by how much, without signs';
COMMENT ON COLUMN dc_stat_drift.repaired IS 'of these, keys that were repaired at once';
COMMENT ON COLUMN dc_stat_drift.last_drift_at IS 'when the last of them was found';

CREATE VIEW dc_drifts WITH (security_barrier) AS
	SELECT d.id, d.counter, d.at, d.key, d.source, d.value, d.drift, d.repaired
	FROM dcounter.drift AS d
	WHERE pg_catalog.has_table_privilege(d.counter, 'SELECT');
COMMENT ON VIEW dc_drifts IS 'the last differences that were found, of the counter tables that the caller may read';
COMMENT ON COLUMN dc_drifts.id IS 'in the order in which they were found';
COMMENT ON COLUMN dc_drifts.counter IS 'the counter table';
COMMENT ON COLUMN dc_drifts.at IS 'when';
COMMENT ON COLUMN dc_drifts.key IS 'the key';
COMMENT ON COLUMN dc_drifts.source IS 'what the source had';
COMMENT ON COLUMN dc_drifts.value IS 'what the counter had';
COMMENT ON COLUMN dc_drifts.drift IS 'the difference';
COMMENT ON COLUMN dc_drifts.repaired IS 'whether it was repaired at once';

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT SELECT ON dcounter.source TO PUBLIC;
-- The owner of the database dumps these as well. No other role reads them, as they have rows of all roles.
GRANT SELECT ON dcounter.source_state TO pg_database_owner;
GRANT SELECT ON dcounter.mark, dcounter.mark_value TO pg_database_owner;
GRANT SELECT ON dc_marks, dc_stat_drift, dc_drifts TO PUBLIC;
-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_source_change() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.on_source_state_change() FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.mark', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.mark_value', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.source', '');
SELECT pg_catalog.pg_extension_config_dump('dcounter.source_state', '');
