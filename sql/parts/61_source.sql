CREATE FUNCTION dc_source_check(counter regclass, keys anycompatiblearray DEFAULT NULL::text[], from_key text DEFAULT NULL, to_key text DEFAULT NULL, sample float8 DEFAULT NULL, OUT key text, OUT source bigint, OUT counter bigint, OUT drift bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 10;
COMMENT ON FUNCTION dc_source_check(regclass, anycompatiblearray, text, text, float8) IS 'keys of a bound counter table that differ from its source';

CREATE FUNCTION dc_source_fix(counter regclass, keys anycompatiblearray, OUT key text, OUT drift bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000 ROWS 10;
COMMENT ON FUNCTION dc_source_fix(regclass, anycompatiblearray) IS 'adds what keys of a bound counter table differ by from its source';

CREATE PROCEDURE dc_build(counter regclass, max_keys int DEFAULT 1000)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_build(regclass, int) IS 'adds what a source has and its bound counter table has not, in chunks of so many keys';
