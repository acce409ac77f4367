-- In the key of the bindings that dc_rank_create() makes, so evaluated by all who change totals.
CREATE FUNCTION dcounter.rank_bucket(value bigint, shift int) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.rank_bucket(bigint, int) IS 'the bucket of a value, by which ranks are counted; see dc_rank_create()';

CREATE FUNCTION dc_rank_create(counter regclass, build text DEFAULT 'worker', lock_timeout interval DEFAULT '200 ms') RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_rank_create(regclass, text, interval) IS 'lets a counter table know the ranks of its keys';

CREATE FUNCTION dc_rank_drop(counter regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_rank_drop(regclass) IS 'ends what dc_rank_create() began, and drops its table';

CREATE FUNCTION dc_rank(counter regclass, key anycompatible) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dc_rank(regclass, anycompatible) IS 'the rank of a key as of the last compaction: 1 and the keys with a higher value';

CREATE FUNCTION dc_around(counter regclass, key anycompatible, n int DEFAULT 5, OUT key text, OUT value bigint, OUT rank bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 10;
COMMENT ON FUNCTION dc_around(regclass, anycompatible, int) IS 'a key with its neighbours by rank';

CREATE FUNCTION dc_at_rank(counter regclass, rank bigint, n int DEFAULT 1, OUT key text, OUT value bigint, OUT rank bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 10;
COMMENT ON FUNCTION dc_at_rank(regclass, bigint, int) IS 'the keys from a rank on, a page of a leaderboard';
