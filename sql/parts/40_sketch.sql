-- dc_hll: how many distinct items (HyperLogLog).
CREATE TYPE dc_hll;
COMMENT ON TYPE dc_hll IS 'HyperLogLog: a sketch that estimates the number of distinct items, with a known error';

CREATE FUNCTION dcounter.hll_in(cstring, oid, int) RETURNS dc_hll
	AS 'MODULE_PATHNAME', 'dc_hll_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.hll_in(cstring, oid, int) IS 'input of dc_hll';

CREATE FUNCTION dcounter.hll_out(dc_hll) RETURNS cstring
	AS 'MODULE_PATHNAME', 'dc_hll_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_out(dc_hll) IS 'output of dc_hll';

CREATE FUNCTION dcounter.hll_recv(internal, oid, int) RETURNS dc_hll
	AS 'MODULE_PATHNAME', 'dc_hll_recv' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.hll_recv(internal, oid, int) IS 'binary input of dc_hll';

CREATE FUNCTION dcounter.hll_send(dc_hll) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_hll_send' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_send(dc_hll) IS 'binary output of dc_hll';

CREATE FUNCTION dcounter.hll_typmod_in(cstring[]) RETURNS int
	AS 'MODULE_PATHNAME', 'dc_hll_typmod_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_typmod_in(cstring[]) IS 'type modifier of dc_hll: the precision';

CREATE FUNCTION dcounter.hll_typmod_out(int) RETURNS cstring
	AS 'MODULE_PATHNAME', 'dc_hll_typmod_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_typmod_out(int) IS 'type modifier of dc_hll: the precision';

-- What is stored has no repetitions that the server's compression could find.
CREATE TYPE dc_hll (
	INPUT = dcounter.hll_in,
	OUTPUT = dcounter.hll_out,
	RECEIVE = dcounter.hll_recv,
	SEND = dcounter.hll_send,
	TYPMOD_IN = dcounter.hll_typmod_in,
	TYPMOD_OUT = dcounter.hll_typmod_out,
	STORAGE = external
);

CREATE FUNCTION dcounter.hll_enforce(dc_hll, int, boolean) RETURNS dc_hll
	AS 'MODULE_PATHNAME', 'dc_hll_enforce' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_enforce(dc_hll, int, boolean) IS 'enforces the precision of a column';

CREATE CAST (dc_hll AS dc_hll) WITH FUNCTION dcounter.hll_enforce(dc_hll, int, boolean) AS IMPLICIT;
COMMENT ON CAST (dc_hll AS dc_hll) IS 'enforces the precision of a column';

CREATE FUNCTION dcounter.hll_from_bytea(bytea) RETURNS dc_hll
	AS 'MODULE_PATHNAME', 'dc_hll_from_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.hll_from_bytea(bytea) IS 'reads a dc_hll from its bytes';

CREATE FUNCTION dcounter.hll_to_bytea(dc_hll) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_hll_to_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_to_bytea(dc_hll) IS 'the bytes of a dc_hll';

CREATE CAST (bytea AS dc_hll) WITH FUNCTION dcounter.hll_from_bytea(bytea);
COMMENT ON CAST (bytea AS dc_hll) IS 'reads a dc_hll from its bytes';
CREATE CAST (dc_hll AS bytea) WITH FUNCTION dcounter.hll_to_bytea(dc_hll);
COMMENT ON CAST (dc_hll AS bytea) IS 'the bytes of a dc_hll';

CREATE FUNCTION dc_hll("precision" int DEFAULT 14) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_hll(int) IS 'an empty sketch';

-- Where an item may be of any type: its canonical form may depend on an enum's
-- labels, which can be renamed.

CREATE FUNCTION dc_hll_add(h dc_hll, item text) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dc_hll_add(dc_hll, text) IS 'a sketch with one more item';

CREATE FUNCTION dc_hll_would_change(h dc_hll, item text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_hll_would_change(dc_hll, text) IS 'whether dc_hll_add would change the sketch';

CREATE FUNCTION dc_hll_add(h dc_hll, item anyelement) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dc_hll_add(dc_hll, anyelement) IS 'a sketch with one more item';

CREATE FUNCTION dc_hll_would_change(h dc_hll, item anyelement) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_hll_would_change(dc_hll, anyelement) IS 'whether dc_hll_add would change the sketch';

CREATE FUNCTION dc_hll_add_many(h dc_hll, items anyarray) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_add_many(dc_hll, anyarray) IS 'a sketch with the items of an array';

CREATE FUNCTION dc_hll_union(a dc_hll, b dc_hll) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_union(dc_hll, dc_hll) IS 'the items of both sketches';

CREATE FUNCTION dc_hll_reduce(h dc_hll, "precision" int) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_reduce(dc_hll, int) IS 'a sketch with less precision';

CREATE FUNCTION dc_hll_count(h dc_hll) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dc_hll_count(dc_hll) IS 'how many distinct items, estimated and rounded';

CREATE FUNCTION dc_hll_estimate(h dc_hll) RETURNS float8
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dc_hll_estimate(dc_hll) IS 'how many distinct items, estimated';

CREATE FUNCTION dc_hll_bounds(h dc_hll, confidence float8 DEFAULT 0.95, OUT lower float8, OUT estimate float8, OUT upper float8) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dc_hll_bounds(dc_hll, float8) IS 'an interval that contains the number of distinct items with that probability';

CREATE FUNCTION dc_hll_info(h dc_hll, OUT "precision" int, OUT hash text, OUT form text, OUT registers int, OUT tokens int, OUT relative_error float8, OUT bytes int) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_info(dc_hll) IS 'properties of a sketch';

CREATE FUNCTION dc_hll_intersect(a dc_hll, b dc_hll, confidence float8 DEFAULT 0.95, OUT lower float8, OUT estimate float8, OUT upper float8) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION dc_hll_intersect(dc_hll, dc_hll, float8) IS 'how many distinct items are in both, with bounds';

CREATE FUNCTION dc_hll_difference(a dc_hll, b dc_hll, confidence float8 DEFAULT 0.95, OUT lower float8, OUT estimate float8, OUT upper float8) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION dc_hll_difference(dc_hll, dc_hll, float8) IS 'how many distinct items are in the first and not in the second, with bounds';

CREATE FUNCTION dc_hll_jaccard(a dc_hll, b dc_hll) RETURNS float8
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION dc_hll_jaccard(dc_hll, dc_hll) IS 'the items in both, as a share of all';

CREATE FUNCTION dc_hll_from_redis(value bytea) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_from_redis(bytea) IS 'the HyperLogLog of a Redis key, as GET returns it';

CREATE FUNCTION dc_hll_to_redis(h dc_hll) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_to_redis(dc_hll) IS 'a HyperLogLog for Redis, to be stored with SET';

CREATE FUNCTION dc_hll_from_postgresql_hll(value bytea) RETURNS dc_hll
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_from_postgresql_hll(bytea) IS 'a value of the extension hll';

CREATE FUNCTION dc_hll_to_postgresql_hll(h dc_hll) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_to_postgresql_hll(dc_hll) IS 'a value for the extension hll';

CREATE OPERATOR || (LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dc_hll_union, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_hll, dc_hll) IS 'the items of both sketches';
CREATE OPERATOR # (RIGHTARG = dc_hll, FUNCTION = dc_hll_count);
COMMENT ON OPERATOR # (NONE, dc_hll) IS 'how many distinct items, estimated and rounded';

CREATE FUNCTION dcounter.hll_eq(dc_hll, dc_hll) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_hll_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_eq(dc_hll, dc_hll) IS 'implementation of = operator';

CREATE FUNCTION dcounter.hll_ne(dc_hll, dc_hll) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_hll_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_ne(dc_hll, dc_hll) IS 'implementation of <> operator';

CREATE FUNCTION dcounter.hll_lt(dc_hll, dc_hll) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_hll_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_lt(dc_hll, dc_hll) IS 'implementation of < operator';

CREATE FUNCTION dcounter.hll_le(dc_hll, dc_hll) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_hll_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_le(dc_hll, dc_hll) IS 'implementation of <= operator';

CREATE FUNCTION dcounter.hll_gt(dc_hll, dc_hll) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_hll_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_gt(dc_hll, dc_hll) IS 'implementation of > operator';

CREATE FUNCTION dcounter.hll_ge(dc_hll, dc_hll) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_hll_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_ge(dc_hll, dc_hll) IS 'implementation of >= operator';

CREATE FUNCTION dcounter.hll_cmp(dc_hll, dc_hll) RETURNS int
	AS 'MODULE_PATHNAME', 'dc_hll_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_cmp(dc_hll, dc_hll) IS 'less, equal or greater';

CREATE FUNCTION dcounter.hll_hash(dc_hll) RETURNS int
	AS 'MODULE_PATHNAME', 'dc_hll_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_hash(dc_hll) IS 'hash for hash joins and indexes';

CREATE FUNCTION dcounter.hll_hash_extended(dc_hll, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_hll_hash_extended' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hll_hash_extended(dc_hll, bigint) IS 'hash for hash partitioning';

CREATE OPERATOR = (
	LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dcounter.hll_eq, COMMUTATOR = =, NEGATOR = <>,
	RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES
);
COMMENT ON OPERATOR = (dc_hll, dc_hll) IS 'equal';
CREATE OPERATOR <> (
	LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dcounter.hll_ne, COMMUTATOR = <>, NEGATOR = =,
	RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR <> (dc_hll, dc_hll) IS 'not equal';
CREATE OPERATOR < (
	LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dcounter.hll_lt, COMMUTATOR = >, NEGATOR = >=,
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR < (dc_hll, dc_hll) IS 'less than';
CREATE OPERATOR <= (
	LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dcounter.hll_le, COMMUTATOR = >=, NEGATOR = >,
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR <= (dc_hll, dc_hll) IS 'less than or equal';
CREATE OPERATOR > (
	LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dcounter.hll_gt, COMMUTATOR = <, NEGATOR = <=,
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR > (dc_hll, dc_hll) IS 'greater than';
CREATE OPERATOR >= (
	LEFTARG = dc_hll, RIGHTARG = dc_hll, FUNCTION = dcounter.hll_ge, COMMUTATOR = <=, NEGATOR = <,
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR >= (dc_hll, dc_hll) IS 'greater than or equal';

CREATE OPERATOR CLASS dc_hll_ops DEFAULT FOR TYPE dc_hll USING btree AS
	OPERATOR 1 <,
	OPERATOR 2 <=,
	OPERATOR 3 =,
	OPERATOR 4 >=,
	OPERATOR 5 >,
	FUNCTION 1 dcounter.hll_cmp(dc_hll, dc_hll);
COMMENT ON OPERATOR FAMILY dc_hll_ops USING btree IS 'operators of dc_hll values, which compare their bytes';
COMMENT ON OPERATOR CLASS dc_hll_ops USING btree IS 'order of dc_hll values, by their bytes';
CREATE OPERATOR CLASS dc_hll_ops DEFAULT FOR TYPE dc_hll USING hash AS
	OPERATOR 1 =,
	FUNCTION 1 dcounter.hll_hash(dc_hll),
	FUNCTION 2 dcounter.hll_hash_extended(dc_hll, bigint);
COMMENT ON OPERATOR FAMILY dc_hll_ops USING hash IS 'operators of dc_hll values, which compare their bytes';
COMMENT ON OPERATOR CLASS dc_hll_ops USING hash IS 'hash of dc_hll values';

CREATE FUNCTION dcounter.hll_agg_add(internal, text) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_add' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.hll_agg_add(internal, text) IS 'transition of dc_hll_agg';

CREATE FUNCTION dcounter.hll_agg_add(internal, text, int) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_add' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.hll_agg_add(internal, text, int) IS 'transition of dc_hll_agg';

CREATE FUNCTION dcounter.hll_agg_add(internal, anyelement) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_add' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.hll_agg_add(internal, anyelement) IS 'transition of dc_hll_agg';

CREATE FUNCTION dcounter.hll_agg_add(internal, anyelement, int) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_add' LANGUAGE C STABLE PARALLEL SAFE COST 2;
COMMENT ON FUNCTION dcounter.hll_agg_add(internal, anyelement, int) IS 'transition of dc_hll_agg';

CREATE FUNCTION dcounter.hll_agg_union(internal, dc_hll) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_union' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.hll_agg_union(internal, dc_hll) IS 'transition of dc_hll_union_agg';

CREATE FUNCTION dcounter.hll_agg_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.hll_agg_combine(internal, internal) IS 'merges two states of dc_hll aggregates';

CREATE FUNCTION dcounter.hll_agg_combine_union(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_combine_union' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.hll_agg_combine_union(internal, internal) IS 'merges two states of dc_hll_union_agg';

CREATE FUNCTION dcounter.hll_agg_serialize(internal) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_hll_agg_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.hll_agg_serialize(internal) IS 'writes a state of dc_hll aggregates';

CREATE FUNCTION dcounter.hll_agg_deserialize(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'dc_hll_agg_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.hll_agg_deserialize(bytea, internal) IS 'reads a state of dc_hll aggregates';

CREATE FUNCTION dcounter.hll_agg_final(internal) RETURNS dc_hll
	AS 'MODULE_PATHNAME', 'dc_hll_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.hll_agg_final(internal) IS 'result of dc_hll_agg';

CREATE FUNCTION dcounter.hll_agg_count(internal) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_hll_agg_count' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.hll_agg_count(internal) IS 'result of dc_count_distinct';

-- SSPACE is what a group of some dozen items needs.
CREATE AGGREGATE dc_hll_agg(item text) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_final,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_hll_agg(text) IS 'a sketch of the items';

CREATE AGGREGATE dc_count_distinct(item text) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_count,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_count_distinct(text) IS 'how many distinct items, estimated';

CREATE AGGREGATE dc_hll_agg(item text, "precision" int) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_final,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_hll_agg(text, int) IS 'a sketch of the items';

CREATE AGGREGATE dc_count_distinct(item text, "precision" int) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_count,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_count_distinct(text, int) IS 'how many distinct items, estimated';

CREATE AGGREGATE dc_hll_agg(item anyelement) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_final,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_hll_agg(anyelement) IS 'a sketch of the items';

CREATE AGGREGATE dc_count_distinct(item anyelement) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_count,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_count_distinct(anyelement) IS 'how many distinct items, estimated';

CREATE AGGREGATE dc_hll_agg(item anyelement, "precision" int) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_final,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_hll_agg(anyelement, int) IS 'a sketch of the items';

CREATE AGGREGATE dc_count_distinct(item anyelement, "precision" int) (
	SFUNC = dcounter.hll_agg_add, STYPE = internal, SSPACE = 128, FINALFUNC = dcounter.hll_agg_count,
	COMBINEFUNC = dcounter.hll_agg_combine, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_count_distinct(anyelement, int) IS 'how many distinct items, estimated';

CREATE AGGREGATE dc_hll_union_agg(h dc_hll) (
	SFUNC = dcounter.hll_agg_union, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.hll_agg_final,
	COMBINEFUNC = dcounter.hll_agg_combine_union, SERIALFUNC = dcounter.hll_agg_serialize, DESERIALFUNC = dcounter.hll_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_hll_union_agg(dc_hll) IS 'the items of all sketches';

-- What aggregates are made of is called with their owner's rights.
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_add(internal, text) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_add(internal, text, int) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_add(internal, anyelement) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_add(internal, anyelement, int) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_union(internal, dc_hll) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_combine(internal, internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_combine_union(internal, internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_serialize(internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_deserialize(bytea, internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_final(internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.hll_agg_count(internal) FROM PUBLIC;

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
COMMENT ON FUNCTION dc_cms_bounds(dc_cms, anyelement) IS 'weight of an item, with bounds at a confidence of 1 - delta';

CREATE FUNCTION dc_cms_bounds(c dc_cms, item text, OUT lower bigint, OUT estimate bigint, OUT upper bigint) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION dc_cms_bounds(dc_cms, text) IS 'weight of an item, with bounds at a confidence of 1 - delta';

CREATE FUNCTION dc_cms_union(a dc_cms, b dc_cms) RETURNS dc_cms
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dc_cms_union(dc_cms, dc_cms) IS 'sketch of the items of both sketches';

CREATE OPERATOR || (LEFTARG = dc_cms, RIGHTARG = dc_cms, FUNCTION = dc_cms_union, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_cms, dc_cms) IS 'sketch of the items of both sketches';

CREATE FUNCTION dc_cms_subtract(a dc_cms, b dc_cms) RETURNS dc_cms
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dc_cms_subtract(dc_cms, dc_cms) IS 'sketch without the items of another';

CREATE FUNCTION dc_cms_inner_product(a dc_cms, b dc_cms) RETURNS numeric
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION dc_cms_inner_product(dc_cms, dc_cms) IS 'sum of the products of the weights of each item in two sketches, or more';

CREATE FUNCTION dc_cms_info(c dc_cms, OUT form text, OUT conservative boolean, OUT total_weight bigint, OUT width int, OUT depth int, OUT epsilon float8, OUT delta float8, OUT cell_bytes int, OUT items bigint, OUT bytes int) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_cms_info(dc_cms) IS 'properties of a sketch';

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
COMMENT ON FUNCTION dcounter.cms_agg_deserialize(bytea, internal) IS 'internal: a state from its bytes';
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
COMMENT ON AGGREGATE dc_cms_union_agg(dc_cms) IS 'sketch of the items of all sketches';

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
COMMENT ON FUNCTION dcounter.topk_from_bytea(bytea) IS 'a dc_topk from its bytes, which are checked';

CREATE FUNCTION dcounter.topk_to_bytea(dc_topk) RETURNS bytea
	AS 'MODULE_PATHNAME', 'dc_topk_to_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.topk_to_bytea(dc_topk) IS 'the bytes of a dc_topk';

CREATE CAST (bytea AS dc_topk) WITH FUNCTION dcounter.topk_from_bytea(bytea);
COMMENT ON CAST (bytea AS dc_topk) IS 'a dc_topk from its bytes, which are checked';
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

-- What the aggregates are made of. NULL arguments are checked one by one.
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
