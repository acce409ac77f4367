-- dc_hll: how many distinct items (HyperLogLog).
CREATE TYPE dc_hll;
COMMENT ON TYPE dc_hll IS 'sketch of a set of items that knows how many there are, to a known error';

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
COMMENT ON FUNCTION dc_hll_bounds(dc_hll, float8) IS 'an interval that holds the number of distinct items with that probability';

CREATE FUNCTION dc_hll_info(h dc_hll, OUT "precision" int, OUT hash text, OUT form text, OUT registers int, OUT tokens int, OUT relative_error float8, OUT bytes int) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50;
COMMENT ON FUNCTION dc_hll_info(dc_hll) IS 'how a sketch is made';

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
