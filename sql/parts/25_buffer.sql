CREATE TABLE dcounter.buffer_restored (
	counter    pg_catalog.oid  NOT NULL,
	generation pg_catalog.int8 NOT NULL,
	CONSTRAINT buffer_restored_pkey PRIMARY KEY (counter)
);
COMMENT ON TABLE dcounter.buffer_restored IS 'files of clean shutdowns whose increments have been written to rows';
COMMENT ON COLUMN dcounter.buffer_restored.counter IS 'OID of a buffered counter table';
COMMENT ON COLUMN dcounter.buffer_restored.generation IS 'generation of the last file that was applied to it';

CREATE FUNCTION dc_flush(counter regclass DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_flush(regclass) IS 'writes increments in memory to a buffered counter table; by default, to all tables of the caller';

CREATE FUNCTION dcounter.stat_buffer(OUT counter regclass, OUT keys bigint, OUT increments bigint, OUT memory bigint,
	OUT oldest interval, OUT waiting int, OUT last_flush timestamptz, OUT last_flush_time_ms float8)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 20;
COMMENT ON FUNCTION dcounter.stat_buffer() IS 'internal: the rows of dc_stat_buffer';

CREATE VIEW dc_stat_buffer AS
	SELECT s.counter, s.keys, s.increments, s.memory, s.oldest, s.waiting, s.last_flush, s.last_flush_time_ms
	FROM dcounter.stat_buffer() AS s;
COMMENT ON VIEW dc_stat_buffer IS 'what is in memory for the buffered counter tables that the caller may read';
COMMENT ON COLUMN dc_stat_buffer.counter IS 'the counter table';
COMMENT ON COLUMN dc_stat_buffer.keys IS 'keys that take memory';
COMMENT ON COLUMN dc_stat_buffer.increments IS 'increments in memory that no flush has taken';
COMMENT ON COLUMN dc_stat_buffer.memory IS 'bytes of dcounter.buffer_size that they take';
COMMENT ON COLUMN dc_stat_buffer.oldest IS 'how long the oldest of these increments has been there';
COMMENT ON COLUMN dc_stat_buffer.waiting IS 'sessions that wait for a flush';
COMMENT ON COLUMN dc_stat_buffer.last_flush IS 'start of the last flush';
COMMENT ON COLUMN dc_stat_buffer.last_flush_time_ms IS 'how long it took, in milliseconds';

-- The function behind a view decides which rows the caller is shown.
GRANT SELECT ON dc_stat_buffer TO PUBLIC;
