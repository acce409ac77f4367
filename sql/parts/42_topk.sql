CREATE TYPE dc_topk;

CREATE FUNCTION dcounter.topk_in(cstring) RETURNS dc_topk
	AS 'MODULE_PATHNAME', 'dc_topk_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.topk_in(cstring) IS 'input function of dc_topk';

CREATE FUNCTION dcounter.topk_out(dc_topk) RETURNS cstring
	AS 'MODULE_PATHNAME', 'dc_topk_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.topk_out(dc_topk) IS 'output function of dc_topk';

CREATE FUNCTION dcounter.topk_recv(internal) RETURNS dc_topk
	AS 'MODULE_PATHNAME', 'dc_topk_recv' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.topk_recv(internal) IS 'binary input function of dc_topk';

CREATE FUNCTION dcounter.topk_send(dc_topk) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_topk_send' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.topk_send(dc_topk) IS 'binary output function of dc_topk';

-- Extended: items are text, which compresses.
CREATE TYPE dc_topk (
	INPUT = dcounter.topk_in, OUTPUT = dcounter.topk_out, RECEIVE = dcounter.topk_recv, SEND = dcounter.topk_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_topk IS 'the heaviest items of a stream, with bounds of their weights';

CREATE FUNCTION dcounter.topk_from_bytea(bytea) RETURNS dc_topk
	AS 'MODULE_PATHNAME', 'dc_topk_from_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.topk_from_bytea(bytea) IS 'a dc_topk of its bytes, which are checked';

CREATE FUNCTION dcounter.topk_to_bytea(dc_topk) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_topk_to_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.topk_to_bytea(dc_topk) IS 'the bytes of a dc_topk';

CREATE CAST (bytea AS dc_topk) WITH FUNCTION dcounter.topk_from_bytea(bytea);
COMMENT ON CAST (bytea AS dc_topk) IS 'a dc_topk of its bytes, which are checked';
CREATE CAST (dc_topk AS bytea) WITH FUNCTION dcounter.topk_to_bytea(dc_topk);
COMMENT ON CAST (dc_topk AS bytea) IS 'the bytes of a dc_topk';

CREATE FUNCTION dc_topk(k int, counters int DEFAULT NULL) RETURNS dc_topk
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_topk(int, int) IS 'an empty dc_topk';

-- Functions of an item of any type are stable: the text of text, numbers, uuid,
-- dates and times, enums and bytea depends on no setting, but that of other types
-- (arrays and intervals, say) is what their output functions make of it.
CREATE FUNCTION dc_topk_add(sketch dc_topk, item anyelement, weight bigint DEFAULT 1) RETURNS dc_topk
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_topk_add(dc_topk, anyelement, bigint) IS 'adds a weight to an item';

CREATE FUNCTION dc_topk_add(sketch dc_topk, item text, weight bigint DEFAULT 1) RETURNS dc_topk
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_topk_add(dc_topk, text, bigint) IS 'adds a weight to an item';

CREATE FUNCTION dc_topk_union(a dc_topk, b dc_topk) RETURNS dc_topk
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dc_topk_union(dc_topk, dc_topk) IS 'what is in either of two dc_topk, added up';

CREATE OPERATOR || (LEFTARG = dc_topk, RIGHTARG = dc_topk, FUNCTION = dc_topk_union);
COMMENT ON OPERATOR || (dc_topk, dc_topk) IS 'what is in either of two dc_topk, added up';

CREATE FUNCTION dc_topk_list(sketch dc_topk, n int DEFAULT NULL)
	RETURNS TABLE (rank bigint, item text, estimate bigint, lower bigint, upper bigint, guaranteed boolean)
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20 ROWS 10;
COMMENT ON FUNCTION dc_topk_list(dc_topk, int) IS 'the n heaviest items, by default k';

CREATE FUNCTION dc_topk_heavy(sketch dc_topk, share float8)
	RETURNS TABLE (rank bigint, item text, estimate bigint, lower bigint, upper bigint, guaranteed boolean)
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 ROWS 10;
COMMENT ON FUNCTION dc_topk_heavy(dc_topk, float8) IS 'every item that may have at least a share of the total weight';

CREATE FUNCTION dc_topk_estimate(sketch dc_topk, item anyelement) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_topk_estimate(dc_topk, anyelement) IS 'the weight of an item, or more, never less';

CREATE FUNCTION dc_topk_estimate(sketch dc_topk, item text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_topk_estimate(dc_topk, text) IS 'the weight of an item, or more, never less';

CREATE FUNCTION dc_topk_bounds(sketch dc_topk, item anyelement, OUT lower bigint, OUT estimate bigint, OUT upper bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_topk_bounds(dc_topk, anyelement) IS 'bounds of the weight of an item';

CREATE FUNCTION dc_topk_bounds(sketch dc_topk, item text, OUT lower bigint, OUT estimate bigint, OUT upper bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_topk_bounds(dc_topk, text) IS 'bounds of the weight of an item';

CREATE FUNCTION dc_topk_info(sketch dc_topk, OUT k int, OUT counters int, OUT items int, OUT total_weight bigint,
	OUT max_error bigint, OUT exact boolean, OUT bytes int)
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_topk_info(dc_topk) IS 'size and error of a dc_topk';

-- What the aggregates are made of. NULL arguments are looked at one by one.
CREATE FUNCTION dcounter.topk_trans(internal, item anyelement, k int) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.topk_trans(internal, anyelement, int) IS 'internal: transition function of dc_topk_agg()';
CREATE FUNCTION dcounter.topk_trans(internal, item anyelement, k int, weight bigint) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.topk_trans(internal, anyelement, int, bigint) IS 'internal: transition function of dc_topk_agg()';
CREATE FUNCTION dcounter.topk_trans(internal, item anyelement, k int, weight bigint, counters int) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.topk_trans(internal, anyelement, int, bigint, int) IS 'internal: transition function of dc_topk_agg()';
CREATE FUNCTION dcounter.topk_trans(internal, item text, k int) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.topk_trans(internal, text, int) IS 'internal: transition function of dc_topk_agg()';
CREATE FUNCTION dcounter.topk_trans(internal, item text, k int, weight bigint) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.topk_trans(internal, text, int, bigint) IS 'internal: transition function of dc_topk_agg()';
CREATE FUNCTION dcounter.topk_trans(internal, item text, k int, weight bigint, counters int) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.topk_trans(internal, text, int, bigint, int) IS 'internal: transition function of dc_topk_agg()';

CREATE FUNCTION dcounter.topk_union_trans(internal, dc_topk) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dcounter.topk_union_trans(internal, dc_topk) IS 'internal: transition function of dc_topk_union_agg()';
CREATE FUNCTION dcounter.topk_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dcounter.topk_combine(internal, internal) IS 'internal: combine function of dc_topk_agg()';
CREATE FUNCTION dcounter.topk_union_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dcounter.topk_union_combine(internal, internal) IS 'internal: combine function of dc_topk_union_agg()';
CREATE FUNCTION dcounter.topk_serialize(internal) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.topk_serialize(internal) IS 'internal: serialization function of the aggregates';
CREATE FUNCTION dcounter.topk_deserialize(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.topk_deserialize(bytea, internal) IS 'internal: deserialization function of the aggregates';
CREATE FUNCTION dcounter.topk_final(internal) RETURNS dc_topk
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.topk_final(internal) IS 'internal: final function of the aggregates';

-- An aggregate needs its owner's privilege on these, not its caller's.
REVOKE EXECUTE ON FUNCTION
	dcounter.topk_trans(internal, anyelement, int),
	dcounter.topk_trans(internal, anyelement, int, bigint),
	dcounter.topk_trans(internal, anyelement, int, bigint, int),
	dcounter.topk_trans(internal, text, int),
	dcounter.topk_trans(internal, text, int, bigint),
	dcounter.topk_trans(internal, text, int, bigint, int),
	dcounter.topk_union_trans(internal, dc_topk),
	dcounter.topk_combine(internal, internal),
	dcounter.topk_union_combine(internal, internal),
	dcounter.topk_serialize(internal),
	dcounter.topk_deserialize(bytea, internal),
	dcounter.topk_final(internal)
	FROM PUBLIC;

CREATE AGGREGATE dc_topk_agg(item anyelement, k int) (
	SFUNC = dcounter.topk_trans, STYPE = internal, SSPACE = 700, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_agg(anyelement, int) IS 'the heaviest items';

CREATE AGGREGATE dc_topk_agg(item anyelement, k int, weight bigint) (
	SFUNC = dcounter.topk_trans, STYPE = internal, SSPACE = 700, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_agg(anyelement, int, bigint) IS 'the heaviest items';

CREATE AGGREGATE dc_topk_agg(item anyelement, k int, weight bigint, counters int) (
	SFUNC = dcounter.topk_trans, STYPE = internal, SSPACE = 700, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_agg(anyelement, int, bigint, int) IS 'the heaviest items';

CREATE AGGREGATE dc_topk_agg(item text, k int) (
	SFUNC = dcounter.topk_trans, STYPE = internal, SSPACE = 700, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_agg(text, int) IS 'the heaviest items';

CREATE AGGREGATE dc_topk_agg(item text, k int, weight bigint) (
	SFUNC = dcounter.topk_trans, STYPE = internal, SSPACE = 700, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_agg(text, int, bigint) IS 'the heaviest items';

CREATE AGGREGATE dc_topk_agg(item text, k int, weight bigint, counters int) (
	SFUNC = dcounter.topk_trans, STYPE = internal, SSPACE = 700, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_agg(text, int, bigint, int) IS 'the heaviest items';

CREATE AGGREGATE dc_topk_union_agg(dc_topk) (
	SFUNC = dcounter.topk_union_trans, STYPE = internal, SSPACE = 4000, FINALFUNC = dcounter.topk_final, COMBINEFUNC = dcounter.topk_union_combine,
	SERIALFUNC = dcounter.topk_serialize, DESERIALFUNC = dcounter.topk_deserialize, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_topk_union_agg(dc_topk) IS 'what is in any of many dc_topk, added up';
