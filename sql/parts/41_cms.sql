CREATE TYPE dc_cms;

CREATE FUNCTION dcounter.cms_in(cstring) RETURNS dc_cms
	AS 'MODULE_PATHNAME', 'dc_cms_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_in(cstring) IS 'input and output of dc_cms';

CREATE FUNCTION dcounter.cms_out(dc_cms) RETURNS cstring
	AS 'MODULE_PATHNAME', 'dc_cms_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.cms_out(dc_cms) IS 'input and output of dc_cms';

CREATE FUNCTION dcounter.cms_recv(internal) RETURNS dc_cms
	AS 'MODULE_PATHNAME', 'dc_cms_recv' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_recv(internal) IS 'input and output of dc_cms';

CREATE FUNCTION dcounter.cms_send(dc_cms) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_cms_send' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.cms_send(dc_cms) IS 'input and output of dc_cms';

-- Cells are mostly zeros and small numbers, so compression pays.
CREATE TYPE dc_cms (INPUT = dcounter.cms_in, OUTPUT = dcounter.cms_out, RECEIVE = dcounter.cms_recv, SEND = dcounter.cms_send, STORAGE = extended);
COMMENT ON TYPE dc_cms IS 'Count-Min sketch: how often each item occurs, never too low and with a known bound';

CREATE FUNCTION dcounter.cms_from_bytea(bytea) RETURNS dc_cms
	AS 'MODULE_PATHNAME', 'dc_cms_from_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_from_bytea(bytea) IS 'checked cast of bytes to a sketch';

CREATE FUNCTION dcounter.cms_to_bytea(dc_cms) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_cms_to_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.cms_to_bytea(dc_cms) IS 'the bytes of a sketch';

CREATE CAST (bytea AS dc_cms) WITH FUNCTION dcounter.cms_from_bytea(bytea);
COMMENT ON CAST (bytea AS dc_cms) IS 'checks that the bytes are a sketch';

CREATE CAST (dc_cms AS bytea) WITH FUNCTION dcounter.cms_to_bytea(dc_cms);
COMMENT ON CAST (dc_cms AS bytea) IS 'the bytes of a sketch';

CREATE FUNCTION dc_cms(epsilon float8 DEFAULT 0.001, delta float8 DEFAULT 0.01, conservative boolean DEFAULT false) RETURNS dc_cms
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_cms(float8, float8, boolean) IS 'empty Count-Min sketch';

CREATE FUNCTION dc_cms_add(c dc_cms, item anyelement, weight bigint DEFAULT 1) RETURNS dc_cms
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_cms_add(dc_cms, anyelement, bigint) IS 'sketch with the weight of an item added';

CREATE FUNCTION dc_cms_add(c dc_cms, item text, weight bigint DEFAULT 1) RETURNS dc_cms
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_cms_add(dc_cms, text, bigint) IS 'sketch with the weight of an item added';

CREATE FUNCTION dc_cms_estimate(c dc_cms, item anyelement) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION dc_cms_estimate(dc_cms, anyelement) IS 'weight of an item, or more';

CREATE FUNCTION dc_cms_estimate(c dc_cms, item text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION dc_cms_estimate(dc_cms, text) IS 'weight of an item, or more';

CREATE FUNCTION dc_cms_bounds(c dc_cms, item anyelement, OUT lower bigint, OUT estimate bigint, OUT upper bigint) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION dc_cms_bounds(dc_cms, anyelement) IS 'weight of an item, and between what it is with a confidence of 1 - delta';

CREATE FUNCTION dc_cms_bounds(c dc_cms, item text, OUT lower bigint, OUT estimate bigint, OUT upper bigint) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION dc_cms_bounds(dc_cms, text) IS 'weight of an item, and between what it is with a confidence of 1 - delta';

CREATE FUNCTION dc_cms_union(a dc_cms, b dc_cms) RETURNS dc_cms
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dc_cms_union(dc_cms, dc_cms) IS 'sketch of what two sketches have together';

CREATE OPERATOR || (LEFTARG = dc_cms, RIGHTARG = dc_cms, FUNCTION = dc_cms_union, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_cms, dc_cms) IS 'sketch of what two sketches have together';

CREATE FUNCTION dc_cms_subtract(a dc_cms, b dc_cms) RETURNS dc_cms
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dc_cms_subtract(dc_cms, dc_cms) IS 'sketch with what is in another taken out';

CREATE FUNCTION dc_cms_inner_product(a dc_cms, b dc_cms) RETURNS numeric
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dc_cms_inner_product(dc_cms, dc_cms) IS 'sum of the products of the weights of each item in two sketches, or more';

CREATE FUNCTION dc_cms_info(c dc_cms, OUT form text, OUT conservative boolean, OUT total_weight bigint, OUT width int, OUT depth int, OUT epsilon float8, OUT delta float8, OUT cell_bytes int, OUT items bigint, OUT bytes int) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_cms_info(dc_cms) IS 'what a sketch is like';

-- What the aggregates consist of

CREATE FUNCTION dcounter.cms_agg_trans(internal, anyelement, float8, float8) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_agg_trans' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.cms_agg_trans(internal, anyelement, float8, float8) IS 'internal: adds a row to a state of dc_cms_agg';
REVOKE EXECUTE ON FUNCTION dcounter.cms_agg_trans(internal, anyelement, float8, float8) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_agg_trans(internal, anyelement, float8, float8, bigint) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_agg_trans' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.cms_agg_trans(internal, anyelement, float8, float8, bigint) IS 'internal: adds a row to a state of dc_cms_agg';
REVOKE EXECUTE ON FUNCTION dcounter.cms_agg_trans(internal, anyelement, float8, float8, bigint) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_union_trans(internal, dc_cms) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_union_trans' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dcounter.cms_union_trans(internal, dc_cms) IS 'internal: adds a sketch to a state of dc_cms_union_agg';
REVOKE EXECUTE ON FUNCTION dcounter.cms_union_trans(internal, dc_cms) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_agg_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_agg_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dcounter.cms_agg_combine(internal, internal) IS 'internal: adds a state to another';
REVOKE EXECUTE ON FUNCTION dcounter.cms_agg_combine(internal, internal) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_agg_serialize(internal) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_cms_agg_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_agg_serialize(internal) IS 'internal: a state as bytes';
REVOKE EXECUTE ON FUNCTION dcounter.cms_agg_serialize(internal) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_agg_deserialize(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_agg_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_agg_deserialize(bytea, internal) IS 'internal: the state of its bytes';
REVOKE EXECUTE ON FUNCTION dcounter.cms_agg_deserialize(bytea, internal) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_agg_final(internal) RETURNS dc_cms
	AS 'MODULE_PATHNAME', 'dc_cms_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_agg_final(internal) IS 'internal: the sketch of a state';
REVOKE EXECUTE ON FUNCTION dcounter.cms_agg_final(internal) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_frame_add(internal, anyelement, float8, float8) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_frame_add' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.cms_frame_add(internal, anyelement, float8, float8) IS 'internal: adds a row to the frame of a window';
REVOKE EXECUTE ON FUNCTION dcounter.cms_frame_add(internal, anyelement, float8, float8) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_frame_add(internal, anyelement, float8, float8, bigint) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_frame_add' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.cms_frame_add(internal, anyelement, float8, float8, bigint) IS 'internal: adds a row to the frame of a window';
REVOKE EXECUTE ON FUNCTION dcounter.cms_frame_add(internal, anyelement, float8, float8, bigint) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_frame_remove(internal, anyelement, float8, float8) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_frame_remove' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.cms_frame_remove(internal, anyelement, float8, float8) IS 'internal: takes a row out of the frame of a window';
REVOKE EXECUTE ON FUNCTION dcounter.cms_frame_remove(internal, anyelement, float8, float8) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_frame_remove(internal, anyelement, float8, float8, bigint) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_cms_frame_remove' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.cms_frame_remove(internal, anyelement, float8, float8, bigint) IS 'internal: takes a row out of the frame of a window';
REVOKE EXECUTE ON FUNCTION dcounter.cms_frame_remove(internal, anyelement, float8, float8, bigint) FROM PUBLIC;

CREATE FUNCTION dcounter.cms_frame_final(internal) RETURNS dc_cms
	AS 'MODULE_PATHNAME', 'dc_cms_frame_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.cms_frame_final(internal) IS 'internal: the sketch of the frame of a window';
REVOKE EXECUTE ON FUNCTION dcounter.cms_frame_final(internal) FROM PUBLIC;

-- A state of a few dozen items takes about 1 kB.
CREATE AGGREGATE dc_cms_agg(item anyelement, epsilon float8, delta float8) (
	SFUNC = dcounter.cms_agg_trans, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.cms_agg_final,
	COMBINEFUNC = dcounter.cms_agg_combine, SERIALFUNC = dcounter.cms_agg_serialize, DESERIALFUNC = dcounter.cms_agg_deserialize,
	MSFUNC = dcounter.cms_frame_add, MINVFUNC = dcounter.cms_frame_remove, MSTYPE = internal, MSSPACE = 1024,
	MFINALFUNC = dcounter.cms_frame_final, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_cms_agg(anyelement, float8, float8) IS 'frequencies of items, as a Count-Min sketch';

CREATE AGGREGATE dc_cms_agg(item text, epsilon float8, delta float8) (
	SFUNC = dcounter.cms_agg_trans, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.cms_agg_final,
	COMBINEFUNC = dcounter.cms_agg_combine, SERIALFUNC = dcounter.cms_agg_serialize, DESERIALFUNC = dcounter.cms_agg_deserialize,
	MSFUNC = dcounter.cms_frame_add, MINVFUNC = dcounter.cms_frame_remove, MSTYPE = internal, MSSPACE = 1024,
	MFINALFUNC = dcounter.cms_frame_final, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_cms_agg(text, float8, float8) IS 'frequencies of items, as a Count-Min sketch';

CREATE AGGREGATE dc_cms_agg(item anyelement, epsilon float8, delta float8, weight bigint) (
	SFUNC = dcounter.cms_agg_trans, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.cms_agg_final,
	COMBINEFUNC = dcounter.cms_agg_combine, SERIALFUNC = dcounter.cms_agg_serialize, DESERIALFUNC = dcounter.cms_agg_deserialize,
	MSFUNC = dcounter.cms_frame_add, MINVFUNC = dcounter.cms_frame_remove, MSTYPE = internal, MSSPACE = 1024,
	MFINALFUNC = dcounter.cms_frame_final, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_cms_agg(anyelement, float8, float8, bigint) IS 'weights of items, as a Count-Min sketch';

CREATE AGGREGATE dc_cms_agg(item text, epsilon float8, delta float8, weight bigint) (
	SFUNC = dcounter.cms_agg_trans, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.cms_agg_final,
	COMBINEFUNC = dcounter.cms_agg_combine, SERIALFUNC = dcounter.cms_agg_serialize, DESERIALFUNC = dcounter.cms_agg_deserialize,
	MSFUNC = dcounter.cms_frame_add, MINVFUNC = dcounter.cms_frame_remove, MSTYPE = internal, MSSPACE = 1024,
	MFINALFUNC = dcounter.cms_frame_final, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_cms_agg(text, float8, float8, bigint) IS 'weights of items, as a Count-Min sketch';

CREATE AGGREGATE dc_cms_union_agg(dc_cms) (
	SFUNC = dcounter.cms_union_trans, STYPE = internal, SSPACE = 16384, FINALFUNC = dcounter.cms_agg_final,
	COMBINEFUNC = dcounter.cms_agg_combine, SERIALFUNC = dcounter.cms_agg_serialize, DESERIALFUNC = dcounter.cms_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_cms_union_agg(dc_cms) IS 'sketch of what all sketches have together';
