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
