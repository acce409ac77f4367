-- The last time of the database's hybrid logical clock, in microseconds since 1970. No
-- session caches values.
CREATE SEQUENCE dcounter.hlc_clock AS pg_catalog.int8 MAXVALUE 253402300799999999 CACHE 1 NO CYCLE;
COMMENT ON SEQUENCE dcounter.hlc_clock IS 'the last time that dc_hlc_now() returned, in microseconds since 1970';

CREATE FUNCTION dc_node() RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_node() IS 'the name of this database among its replicas';

-- Mergeable types. A value is its state in bytes (doc/crdt-formats.md); most functions serve all types.

CREATE TYPE dc_gcounter;

CREATE FUNCTION dcounter.gcounter_in(cstring) RETURNS dc_gcounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.gcounter_in(cstring) IS 'input function of dc_gcounter';
CREATE FUNCTION dcounter.crdt_out(dc_gcounter) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_gcounter) IS 'output function of dc_gcounter';
CREATE FUNCTION dcounter.gcounter_recv(internal) RETURNS dc_gcounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.gcounter_recv(internal) IS 'binary input function of dc_gcounter';
CREATE FUNCTION dcounter.crdt_send(dc_gcounter) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_gcounter) IS 'binary output function of dc_gcounter';
CREATE TYPE dc_gcounter (
	INPUT = dcounter.gcounter_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.gcounter_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_gcounter IS 'grow-only counter: one amount per node';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_gcounter) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_gcounter) IS 'the state of a dc_gcounter';
CREATE CAST (dc_gcounter AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_gcounter);
COMMENT ON CAST (dc_gcounter AS jsonb) IS 'the state of a dc_gcounter';

CREATE TYPE dc_pncounter;

CREATE FUNCTION dcounter.pncounter_in(cstring) RETURNS dc_pncounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.pncounter_in(cstring) IS 'input function of dc_pncounter';
CREATE FUNCTION dcounter.crdt_out(dc_pncounter) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_pncounter) IS 'output function of dc_pncounter';
CREATE FUNCTION dcounter.pncounter_recv(internal) RETURNS dc_pncounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.pncounter_recv(internal) IS 'binary input function of dc_pncounter';
CREATE FUNCTION dcounter.crdt_send(dc_pncounter) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_pncounter) IS 'binary output function of dc_pncounter';
CREATE TYPE dc_pncounter (
	INPUT = dcounter.pncounter_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.pncounter_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_pncounter IS 'counter with increments and decrements per node, and observed reset';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_pncounter) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_pncounter) IS 'the state of a dc_pncounter';
CREATE CAST (dc_pncounter AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_pncounter);
COMMENT ON CAST (dc_pncounter AS jsonb) IS 'the state of a dc_pncounter';

CREATE TYPE dc_gset;

CREATE FUNCTION dcounter.gset_in(cstring) RETURNS dc_gset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.gset_in(cstring) IS 'input function of dc_gset';
CREATE FUNCTION dcounter.crdt_out(dc_gset) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_gset) IS 'output function of dc_gset';
CREATE FUNCTION dcounter.gset_recv(internal) RETURNS dc_gset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.gset_recv(internal) IS 'binary input function of dc_gset';
CREATE FUNCTION dcounter.crdt_send(dc_gset) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_gset) IS 'binary output function of dc_gset';
CREATE TYPE dc_gset (
	INPUT = dcounter.gset_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.gset_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_gset IS 'grow-only set of text';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_gset) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_gset) IS 'the state of a dc_gset';
CREATE CAST (dc_gset AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_gset);
COMMENT ON CAST (dc_gset AS jsonb) IS 'the state of a dc_gset';

CREATE TYPE dc_orset;

CREATE FUNCTION dcounter.orset_in(cstring) RETURNS dc_orset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.orset_in(cstring) IS 'input function of dc_orset';
CREATE FUNCTION dcounter.crdt_out(dc_orset) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_orset) IS 'output function of dc_orset';
CREATE FUNCTION dcounter.orset_recv(internal) RETURNS dc_orset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.orset_recv(internal) IS 'binary input function of dc_orset';
CREATE FUNCTION dcounter.crdt_send(dc_orset) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_orset) IS 'binary output function of dc_orset';
CREATE TYPE dc_orset (
	INPUT = dcounter.orset_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.orset_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_orset IS 'observed-remove set of text, in which additions win';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_orset) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_orset) IS 'the state of a dc_orset';
CREATE CAST (dc_orset AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_orset);
COMMENT ON CAST (dc_orset AS jsonb) IS 'the state of a dc_orset';

CREATE TYPE dc_lww;

CREATE FUNCTION dcounter.lww_in(cstring) RETURNS dc_lww
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.lww_in(cstring) IS 'input function of dc_lww';
CREATE FUNCTION dcounter.crdt_out(dc_lww) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_lww) IS 'output function of dc_lww';
CREATE FUNCTION dcounter.lww_recv(internal) RETURNS dc_lww
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.lww_recv(internal) IS 'binary input function of dc_lww';
CREATE FUNCTION dcounter.crdt_send(dc_lww) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_lww) IS 'binary output function of dc_lww';
CREATE TYPE dc_lww (
	INPUT = dcounter.lww_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.lww_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_lww IS 'last-writer-wins register of jsonb';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_lww) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_lww) IS 'the state of a dc_lww';
CREATE CAST (dc_lww AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_lww);
COMMENT ON CAST (dc_lww AS jsonb) IS 'the state of a dc_lww';

CREATE TYPE dc_mvreg;

CREATE FUNCTION dcounter.mvreg_in(cstring) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.mvreg_in(cstring) IS 'input function of dc_mvreg';
CREATE FUNCTION dcounter.crdt_out(dc_mvreg) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_mvreg) IS 'output function of dc_mvreg';
CREATE FUNCTION dcounter.mvreg_recv(internal) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.mvreg_recv(internal) IS 'binary input function of dc_mvreg';
CREATE FUNCTION dcounter.crdt_send(dc_mvreg) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_mvreg) IS 'binary output function of dc_mvreg';
CREATE TYPE dc_mvreg (
	INPUT = dcounter.mvreg_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.mvreg_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_mvreg IS 'register of jsonb that keeps concurrent values';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_mvreg) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_mvreg) IS 'the state of a dc_mvreg';
CREATE CAST (dc_mvreg AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_mvreg);
COMMENT ON CAST (dc_mvreg AS jsonb) IS 'the state of a dc_mvreg';

CREATE TYPE dc_hlc;

CREATE FUNCTION dcounter.hlc_in(cstring) RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.hlc_in(cstring) IS 'input function of dc_hlc';
CREATE FUNCTION dcounter.crdt_out(dc_hlc) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_hlc) IS 'output function of dc_hlc';
CREATE FUNCTION dcounter.hlc_recv(internal) RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.hlc_recv(internal) IS 'binary input function of dc_hlc';
CREATE FUNCTION dcounter.crdt_send(dc_hlc) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_hlc) IS 'binary output function of dc_hlc';
CREATE TYPE dc_hlc (
	INPUT = dcounter.hlc_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.hlc_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_hlc IS 'stamp of a hybrid logical clock';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_hlc) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_hlc) IS 'the state of a dc_hlc';
CREATE CAST (dc_hlc AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_hlc);
COMMENT ON CAST (dc_hlc AS jsonb) IS 'the state of a dc_hlc';

CREATE TYPE dc_vclock;

CREATE FUNCTION dcounter.vclock_in(cstring) RETURNS dc_vclock
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.vclock_in(cstring) IS 'input function of dc_vclock';
CREATE FUNCTION dcounter.crdt_out(dc_vclock) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_out(dc_vclock) IS 'output function of dc_vclock';
CREATE FUNCTION dcounter.vclock_recv(internal) RETURNS dc_vclock
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.vclock_recv(internal) IS 'binary input function of dc_vclock';
CREATE FUNCTION dcounter.crdt_send(dc_vclock) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_send(dc_vclock) IS 'binary output function of dc_vclock';
CREATE TYPE dc_vclock (
	INPUT = dcounter.vclock_in, OUTPUT = dcounter.crdt_out, RECEIVE = dcounter.vclock_recv, SEND = dcounter.crdt_send,
	INTERNALLENGTH = VARIABLE, STORAGE = extended
);
COMMENT ON TYPE dc_vclock IS 'vector clock';

CREATE FUNCTION dcounter.crdt_to_jsonb(dc_vclock) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_to_jsonb(dc_vclock) IS 'the state of a dc_vclock';
CREATE CAST (dc_vclock AS jsonb) WITH FUNCTION dcounter.crdt_to_jsonb(dc_vclock);
COMMENT ON CAST (dc_vclock AS jsonb) IS 'the state of a dc_vclock';

-- dc_gcounter: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_gcounter, dc_gcounter) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_gcounter, dc_gcounter) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_gcounter, dc_gcounter) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_gcounter, dc_gcounter) IS 'is a different state';
CREATE FUNCTION dcounter.crdt_le(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_gcounter, dc_gcounter) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_gcounter, dc_gcounter) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_gcounter, dc_gcounter) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_gcounter, dc_gcounter) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_gcounter, dc_gcounter) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_gcounter, dc_gcounter) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_gcounter, dc_gcounter) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_gcounter, dc_gcounter) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_gcounter, dc_gcounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_gcounter, dc_gcounter) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_gcounter, dc_gcounter) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_gcounter) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_gcounter) IS 'hash of a dc_gcounter';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_gcounter, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_gcounter, bigint) IS 'hash of a dc_gcounter with a seed';
CREATE OPERATOR CLASS dc_gcounter_hash_ops DEFAULT FOR TYPE dc_gcounter USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_gcounter), FUNCTION 2 dcounter.crdt_hash_extended(dc_gcounter, bigint);
COMMENT ON OPERATOR CLASS dc_gcounter_hash_ops USING hash IS 'equal states of dc_gcounter';
COMMENT ON OPERATOR FAMILY dc_gcounter_hash_ops USING hash IS 'equal states of dc_gcounter';

CREATE FUNCTION dc_merge(a dc_gcounter, b dc_gcounter) RETURNS dc_gcounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_gcounter, dc_gcounter) IS 'what either of two dc_gcounter has seen';
CREATE OPERATOR || (LEFTARG = dc_gcounter, RIGHTARG = dc_gcounter, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_gcounter, dc_gcounter) IS 'what either of two dc_gcounter has seen';
CREATE FUNCTION dc_delta(after dc_gcounter, before dc_gcounter) RETURNS dc_gcounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_gcounter, dc_gcounter) IS 'what the first dc_gcounter has and the second does not';
CREATE AGGREGATE dc_merge_agg(dc_gcounter) (SFUNC = dc_merge, STYPE = dc_gcounter, COMBINEFUNC = dc_merge, PARALLEL = SAFE);
COMMENT ON AGGREGATE dc_merge_agg(dc_gcounter) IS 'what any of many dc_gcounter has seen';

-- dc_pncounter: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_pncounter, dc_pncounter) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_pncounter, dc_pncounter) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_pncounter, dc_pncounter) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_pncounter, dc_pncounter) IS 'is a different state';
CREATE FUNCTION dcounter.crdt_le(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_pncounter, dc_pncounter) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_pncounter, dc_pncounter) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_pncounter, dc_pncounter) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_pncounter, dc_pncounter) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_pncounter, dc_pncounter) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_pncounter, dc_pncounter) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_pncounter, dc_pncounter) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_pncounter, dc_pncounter) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_pncounter, dc_pncounter) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_pncounter, dc_pncounter) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_pncounter, dc_pncounter) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_pncounter) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_pncounter) IS 'hash of a dc_pncounter';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_pncounter, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_pncounter, bigint) IS 'hash of a dc_pncounter with a seed';
CREATE OPERATOR CLASS dc_pncounter_hash_ops DEFAULT FOR TYPE dc_pncounter USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_pncounter), FUNCTION 2 dcounter.crdt_hash_extended(dc_pncounter, bigint);
COMMENT ON OPERATOR CLASS dc_pncounter_hash_ops USING hash IS 'equal states of dc_pncounter';
COMMENT ON OPERATOR FAMILY dc_pncounter_hash_ops USING hash IS 'equal states of dc_pncounter';

CREATE FUNCTION dc_merge(a dc_pncounter, b dc_pncounter) RETURNS dc_pncounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_pncounter, dc_pncounter) IS 'what either of two dc_pncounter has seen';
CREATE OPERATOR || (LEFTARG = dc_pncounter, RIGHTARG = dc_pncounter, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_pncounter, dc_pncounter) IS 'what either of two dc_pncounter has seen';
CREATE FUNCTION dc_delta(after dc_pncounter, before dc_pncounter) RETURNS dc_pncounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_pncounter, dc_pncounter) IS 'what the first dc_pncounter has and the second does not';
CREATE AGGREGATE dc_merge_agg(dc_pncounter) (SFUNC = dc_merge, STYPE = dc_pncounter, COMBINEFUNC = dc_merge, PARALLEL = SAFE);
COMMENT ON AGGREGATE dc_merge_agg(dc_pncounter) IS 'what any of many dc_pncounter has seen';

-- dc_gset: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_gset, dc_gset) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_gset, dc_gset) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_gset, dc_gset) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_gset, dc_gset) IS 'is a different state';
CREATE FUNCTION dcounter.crdt_le(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_gset, dc_gset) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_gset, dc_gset) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_gset, dc_gset) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_gset, dc_gset) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_gset, dc_gset) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_gset, dc_gset) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_gset, dc_gset) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_gset, dc_gset) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_gset, dc_gset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_gset, dc_gset) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_gset, dc_gset) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_gset) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_gset) IS 'hash of a dc_gset';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_gset, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_gset, bigint) IS 'hash of a dc_gset with a seed';
CREATE OPERATOR CLASS dc_gset_hash_ops DEFAULT FOR TYPE dc_gset USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_gset), FUNCTION 2 dcounter.crdt_hash_extended(dc_gset, bigint);
COMMENT ON OPERATOR CLASS dc_gset_hash_ops USING hash IS 'equal states of dc_gset';
COMMENT ON OPERATOR FAMILY dc_gset_hash_ops USING hash IS 'equal states of dc_gset';

CREATE FUNCTION dc_merge(a dc_gset, b dc_gset) RETURNS dc_gset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_gset, dc_gset) IS 'what either of two dc_gset has seen';
CREATE OPERATOR || (LEFTARG = dc_gset, RIGHTARG = dc_gset, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_gset, dc_gset) IS 'what either of two dc_gset has seen';
CREATE FUNCTION dc_delta(after dc_gset, before dc_gset) RETURNS dc_gset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_gset, dc_gset) IS 'what the first dc_gset has and the second does not';

-- dc_orset: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_orset, dc_orset) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_orset, dc_orset) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_orset, dc_orset) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_orset, dc_orset) IS 'is a different state';
CREATE FUNCTION dcounter.crdt_le(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_orset, dc_orset) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_orset, dc_orset) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_orset, dc_orset) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_orset, dc_orset) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_orset, dc_orset) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_orset, dc_orset) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_orset, dc_orset) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_orset, dc_orset) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_orset, dc_orset) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_orset, dc_orset) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_orset, dc_orset) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_orset) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_orset) IS 'hash of a dc_orset';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_orset, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_orset, bigint) IS 'hash of a dc_orset with a seed';
CREATE OPERATOR CLASS dc_orset_hash_ops DEFAULT FOR TYPE dc_orset USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_orset), FUNCTION 2 dcounter.crdt_hash_extended(dc_orset, bigint);
COMMENT ON OPERATOR CLASS dc_orset_hash_ops USING hash IS 'equal states of dc_orset';
COMMENT ON OPERATOR FAMILY dc_orset_hash_ops USING hash IS 'equal states of dc_orset';

CREATE FUNCTION dc_merge(a dc_orset, b dc_orset) RETURNS dc_orset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_orset, dc_orset) IS 'what either of two dc_orset has seen';
CREATE OPERATOR || (LEFTARG = dc_orset, RIGHTARG = dc_orset, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_orset, dc_orset) IS 'what either of two dc_orset has seen';
CREATE FUNCTION dc_delta(after dc_orset, before dc_orset) RETURNS dc_orset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_orset, dc_orset) IS 'what the first dc_orset has and the second does not';

-- dc_lww: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_lww, dc_lww) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_lww, dc_lww) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_lww, dc_lww) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_lww, dc_lww) IS 'is a different state';
CREATE FUNCTION dcounter.crdt_le(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_lww, dc_lww) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_lww, dc_lww) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_lww, dc_lww) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_lww, dc_lww) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_lww, dc_lww) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_lww, dc_lww) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_lww, dc_lww) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_lww, dc_lww) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_lww, dc_lww) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_lww, dc_lww) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_lww, dc_lww) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_lww) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_lww) IS 'hash of a dc_lww';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_lww, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_lww, bigint) IS 'hash of a dc_lww with a seed';
CREATE OPERATOR CLASS dc_lww_hash_ops DEFAULT FOR TYPE dc_lww USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_lww), FUNCTION 2 dcounter.crdt_hash_extended(dc_lww, bigint);
COMMENT ON OPERATOR CLASS dc_lww_hash_ops USING hash IS 'equal states of dc_lww';
COMMENT ON OPERATOR FAMILY dc_lww_hash_ops USING hash IS 'equal states of dc_lww';

CREATE FUNCTION dc_merge(a dc_lww, b dc_lww) RETURNS dc_lww
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_lww, dc_lww) IS 'what either of two dc_lww has seen';
CREATE OPERATOR || (LEFTARG = dc_lww, RIGHTARG = dc_lww, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_lww, dc_lww) IS 'what either of two dc_lww has seen';
CREATE FUNCTION dc_delta(after dc_lww, before dc_lww) RETURNS dc_lww
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_lww, dc_lww) IS 'what the first dc_lww has and the second does not';
CREATE AGGREGATE dc_merge_agg(dc_lww) (SFUNC = dc_merge, STYPE = dc_lww, COMBINEFUNC = dc_merge, PARALLEL = SAFE);
COMMENT ON AGGREGATE dc_merge_agg(dc_lww) IS 'what any of many dc_lww has seen';

-- dc_mvreg: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_mvreg, dc_mvreg) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_mvreg, dc_mvreg) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_mvreg, dc_mvreg) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_mvreg, dc_mvreg) IS 'is a different state';
CREATE FUNCTION dcounter.crdt_le(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_mvreg, dc_mvreg) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_mvreg, dc_mvreg) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_mvreg, dc_mvreg) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_mvreg, dc_mvreg) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_mvreg, dc_mvreg) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_mvreg, dc_mvreg) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_mvreg, dc_mvreg) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_mvreg, dc_mvreg) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_mvreg, dc_mvreg) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_mvreg, dc_mvreg) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_mvreg, dc_mvreg) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_mvreg) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_mvreg) IS 'hash of a dc_mvreg';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_mvreg, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_mvreg, bigint) IS 'hash of a dc_mvreg with a seed';
CREATE OPERATOR CLASS dc_mvreg_hash_ops DEFAULT FOR TYPE dc_mvreg USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_mvreg), FUNCTION 2 dcounter.crdt_hash_extended(dc_mvreg, bigint);
COMMENT ON OPERATOR CLASS dc_mvreg_hash_ops USING hash IS 'equal states of dc_mvreg';
COMMENT ON OPERATOR FAMILY dc_mvreg_hash_ops USING hash IS 'equal states of dc_mvreg';

CREATE FUNCTION dc_merge(a dc_mvreg, b dc_mvreg) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_mvreg, dc_mvreg) IS 'what either of two dc_mvreg has seen';
CREATE OPERATOR || (LEFTARG = dc_mvreg, RIGHTARG = dc_mvreg, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_mvreg, dc_mvreg) IS 'what either of two dc_mvreg has seen';
CREATE FUNCTION dc_delta(after dc_mvreg, before dc_mvreg) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_mvreg, dc_mvreg) IS 'what the first dc_mvreg has and the second does not';

-- dc_hlc: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_hlc, dc_hlc) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_hlc, dc_hlc) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES);
COMMENT ON OPERATOR = (dc_hlc, dc_hlc) IS 'is the same stamp';
CREATE FUNCTION dcounter.crdt_ne(dc_hlc, dc_hlc) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_hlc, dc_hlc) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_hlc, dc_hlc) IS 'is a different stamp';
CREATE FUNCTION dcounter.hlc_le(dc_hlc, dc_hlc) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hlc_le(dc_hlc, dc_hlc) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dcounter.hlc_le, COMMUTATOR = >=, NEGATOR = >, RESTRICT = scalarlesel, JOIN = scalarlejoinsel);
COMMENT ON OPERATOR <= (dc_hlc, dc_hlc) IS 'is earlier, or equal';
CREATE FUNCTION dcounter.hlc_lt(dc_hlc, dc_hlc) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hlc_lt(dc_hlc, dc_hlc) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dcounter.hlc_lt, COMMUTATOR = >, NEGATOR = >=, RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
COMMENT ON OPERATOR < (dc_hlc, dc_hlc) IS 'is earlier';
CREATE FUNCTION dcounter.hlc_ge(dc_hlc, dc_hlc) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hlc_ge(dc_hlc, dc_hlc) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dcounter.hlc_ge, COMMUTATOR = <=, NEGATOR = <, RESTRICT = scalargesel, JOIN = scalargejoinsel);
COMMENT ON OPERATOR >= (dc_hlc, dc_hlc) IS 'is later, or equal';
CREATE FUNCTION dcounter.hlc_gt(dc_hlc, dc_hlc) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hlc_gt(dc_hlc, dc_hlc) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dcounter.hlc_gt, COMMUTATOR = <, NEGATOR = <=, RESTRICT = scalargtsel, JOIN = scalargtjoinsel);
COMMENT ON OPERATOR > (dc_hlc, dc_hlc) IS 'is later';
CREATE FUNCTION dcounter.crdt_hash(dc_hlc) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_hlc) IS 'hash of a dc_hlc';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_hlc, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_hlc, bigint) IS 'hash of a dc_hlc with a seed';
CREATE OPERATOR CLASS dc_hlc_hash_ops DEFAULT FOR TYPE dc_hlc USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_hlc), FUNCTION 2 dcounter.crdt_hash_extended(dc_hlc, bigint);
COMMENT ON OPERATOR CLASS dc_hlc_hash_ops USING hash IS 'equal states of dc_hlc';
COMMENT ON OPERATOR FAMILY dc_hlc_hash_ops USING hash IS 'equal states of dc_hlc';
CREATE FUNCTION dcounter.hlc_cmp(dc_hlc, dc_hlc) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.hlc_cmp(dc_hlc, dc_hlc) IS 'comparison for B-trees';
CREATE OPERATOR CLASS dc_hlc_ops DEFAULT FOR TYPE dc_hlc USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 dcounter.hlc_cmp(dc_hlc, dc_hlc);
COMMENT ON OPERATOR CLASS dc_hlc_ops USING btree IS 'order of stamps: by time, then by node';
COMMENT ON OPERATOR FAMILY dc_hlc_ops USING btree IS 'order of stamps: by time, then by node';

CREATE FUNCTION dc_merge(a dc_hlc, b dc_hlc) RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_hlc, dc_hlc) IS 'the later of two stamps';
CREATE OPERATOR || (LEFTARG = dc_hlc, RIGHTARG = dc_hlc, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_hlc, dc_hlc) IS 'the later of two stamps';
CREATE AGGREGATE dc_merge_agg(dc_hlc) (SFUNC = dc_merge, STYPE = dc_hlc, COMBINEFUNC = dc_merge, PARALLEL = SAFE);
COMMENT ON AGGREGATE dc_merge_agg(dc_hlc) IS 'the latest of many stamps';

-- dc_vclock: comparison
CREATE FUNCTION dcounter.crdt_eq(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_eq(dc_vclock, dc_vclock) IS 'implementation of operator =';
CREATE OPERATOR = (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_eq, COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
COMMENT ON OPERATOR = (dc_vclock, dc_vclock) IS 'is the same state';
CREATE FUNCTION dcounter.crdt_ne(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_ne(dc_vclock, dc_vclock) IS 'implementation of operator <>';
CREATE OPERATOR <> (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_ne, COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR <> (dc_vclock, dc_vclock) IS 'is a different state';
CREATE FUNCTION dcounter.crdt_le(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_le(dc_vclock, dc_vclock) IS 'implementation of operator <=';
CREATE OPERATOR <= (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_le, COMMUTATOR = >=);
COMMENT ON OPERATOR <= (dc_vclock, dc_vclock) IS 'has happened before, or is equal';
CREATE FUNCTION dcounter.crdt_lt(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_lt(dc_vclock, dc_vclock) IS 'implementation of operator <';
CREATE OPERATOR < (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_lt, COMMUTATOR = >);
COMMENT ON OPERATOR < (dc_vclock, dc_vclock) IS 'has happened before';
CREATE FUNCTION dcounter.crdt_ge(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_ge(dc_vclock, dc_vclock) IS 'implementation of operator >=';
CREATE OPERATOR >= (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_ge, COMMUTATOR = <=);
COMMENT ON OPERATOR >= (dc_vclock, dc_vclock) IS 'has happened after, or is equal';
CREATE FUNCTION dcounter.crdt_gt(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_gt(dc_vclock, dc_vclock) IS 'implementation of operator >';
CREATE OPERATOR > (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_gt, COMMUTATOR = <);
COMMENT ON OPERATOR > (dc_vclock, dc_vclock) IS 'has happened after';
CREATE FUNCTION dcounter.crdt_concurrent(dc_vclock, dc_vclock) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_concurrent(dc_vclock, dc_vclock) IS 'implementation of operator &&';
CREATE OPERATOR && (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dcounter.crdt_concurrent, COMMUTATOR = &&);
COMMENT ON OPERATOR && (dc_vclock, dc_vclock) IS 'neither has seen all of the other';
CREATE FUNCTION dcounter.crdt_hash(dc_vclock) RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash(dc_vclock) IS 'hash of a dc_vclock';
CREATE FUNCTION dcounter.crdt_hash_extended(dc_vclock, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dcounter.crdt_hash_extended(dc_vclock, bigint) IS 'hash of a dc_vclock with a seed';
CREATE OPERATOR CLASS dc_vclock_hash_ops DEFAULT FOR TYPE dc_vclock USING hash AS
	OPERATOR 1 =, FUNCTION 1 dcounter.crdt_hash(dc_vclock), FUNCTION 2 dcounter.crdt_hash_extended(dc_vclock, bigint);
COMMENT ON OPERATOR CLASS dc_vclock_hash_ops USING hash IS 'equal states of dc_vclock';
COMMENT ON OPERATOR FAMILY dc_vclock_hash_ops USING hash IS 'equal states of dc_vclock';

CREATE FUNCTION dc_merge(a dc_vclock, b dc_vclock) RETURNS dc_vclock
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_merge(dc_vclock, dc_vclock) IS 'what either of two dc_vclock has seen';
CREATE OPERATOR || (LEFTARG = dc_vclock, RIGHTARG = dc_vclock, FUNCTION = dc_merge, COMMUTATOR = ||);
COMMENT ON OPERATOR || (dc_vclock, dc_vclock) IS 'what either of two dc_vclock has seen';
CREATE FUNCTION dc_delta(after dc_vclock, before dc_vclock) RETURNS dc_vclock
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_delta(dc_vclock, dc_vclock) IS 'what the first dc_vclock has and the second does not';
CREATE AGGREGATE dc_merge_agg(dc_vclock) (SFUNC = dc_merge, STYPE = dc_vclock, COMBINEFUNC = dc_merge, PARALLEL = SAFE);
COMMENT ON AGGREGATE dc_merge_agg(dc_vclock) IS 'what any of many dc_vclock has seen';

-- Counters and vector clocks
CREATE FUNCTION dc_gcounter() RETURNS dc_gcounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_gcounter() IS 'an empty dc_gcounter';
CREATE FUNCTION dc_pncounter() RETURNS dc_pncounter
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_pncounter() IS 'an empty dc_pncounter';
CREATE FUNCTION dc_vclock() RETURNS dc_vclock
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_vclock() IS 'an empty dc_vclock';
CREATE FUNCTION dc_add(counter dc_gcounter, amount bigint DEFAULT 1, node text DEFAULT dc_node()) RETURNS dc_gcounter
	AS 'MODULE_PATHNAME', 'dc_add_amount' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_add(dc_gcounter, bigint, text) IS 'raises the amount of a node';
CREATE FUNCTION dc_add(counter dc_pncounter, amount bigint DEFAULT 1, node text DEFAULT dc_node()) RETURNS dc_pncounter
	AS 'MODULE_PATHNAME', 'dc_add_amount' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_add(dc_pncounter, bigint, text) IS 'raises the increments of a node, or with a negative amount its decrements';
CREATE FUNCTION dc_add(clock dc_vclock, amount bigint DEFAULT 1, node text DEFAULT dc_node()) RETURNS dc_vclock
	AS 'MODULE_PATHNAME', 'dc_add_amount' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_add(dc_vclock, bigint, text) IS 'raises the number of a node';
CREATE FUNCTION dc_reset(counter dc_pncounter) RETURNS dc_pncounter
	AS 'MODULE_PATHNAME', 'dc_reset_pncounter' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_reset(dc_pncounter) IS 'takes away what this state has seen';
CREATE FUNCTION dc_value(counter dc_gcounter) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_value_counter' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_value(dc_gcounter) IS 'the value of a counter';
CREATE FUNCTION dc_value(counter dc_pncounter) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_value_counter' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_value(dc_pncounter) IS 'the value of a counter';
CREATE FUNCTION dc_values(counter dc_gcounter) RETURNS TABLE (node text, amount bigint)
	AS 'MODULE_PATHNAME', 'dc_values_amounts' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 10;
COMMENT ON FUNCTION dc_values(dc_gcounter) IS 'the amount of each node';
CREATE FUNCTION dc_values(counter dc_pncounter) RETURNS TABLE (node text, inc bigint, "dec" bigint, inc_reset bigint, dec_reset bigint)
	AS 'MODULE_PATHNAME', 'dc_values_amounts' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 10;
COMMENT ON FUNCTION dc_values(dc_pncounter) IS 'the amounts of each node, and how much of them resets took away';
CREATE FUNCTION dc_values(clock dc_vclock) RETURNS TABLE (node text, amount bigint)
	AS 'MODULE_PATHNAME', 'dc_values_amounts' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 10;
COMMENT ON FUNCTION dc_values(dc_vclock) IS 'the number of each node';

-- Sets
CREATE FUNCTION dc_gset() RETURNS dc_gset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_gset() IS 'an empty dc_gset';
CREATE FUNCTION dc_orset() RETURNS dc_orset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_orset() IS 'an empty dc_orset';
CREATE FUNCTION dc_add(set dc_gset, element text) RETURNS dc_gset
	AS 'MODULE_PATHNAME', 'dc_add_gset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_add(dc_gset, text) IS 'adds an element';
CREATE FUNCTION dc_add(set dc_orset, element text, node text DEFAULT dc_node()) RETURNS dc_orset
	AS 'MODULE_PATHNAME', 'dc_add_orset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_add(dc_orset, text, text) IS 'adds an element, on behalf of a node';
CREATE FUNCTION dc_remove(set dc_orset, element text) RETURNS dc_orset
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_remove(dc_orset, text) IS 'removes an element, as far as this state has seen it added';
CREATE FUNCTION dc_reset(set dc_orset) RETURNS dc_orset
	AS 'MODULE_PATHNAME', 'dc_reset_orset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_reset(dc_orset) IS 'removes all elements that this state has';
CREATE FUNCTION dc_contains(set dc_gset, element text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_contains_gset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_contains(dc_gset, text) IS 'whether a set has an element';
CREATE FUNCTION dc_value(set dc_gset) RETURNS text[]
	AS 'MODULE_PATHNAME', 'dc_value_gset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_value(dc_gset) IS 'the elements of a set, in order of their bytes';
CREATE FUNCTION dc_values(set dc_gset) RETURNS SETOF text
	AS 'MODULE_PATHNAME', 'dc_values_gset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 100;
COMMENT ON FUNCTION dc_values(dc_gset) IS 'the elements of a set, in order of their bytes';
CREATE FUNCTION dc_contains(set dc_orset, element text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_contains_orset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_contains(dc_orset, text) IS 'whether a set has an element';
CREATE FUNCTION dc_value(set dc_orset) RETURNS text[]
	AS 'MODULE_PATHNAME', 'dc_value_orset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_value(dc_orset) IS 'the elements of a set, in order of their bytes';
CREATE FUNCTION dc_values(set dc_orset) RETURNS SETOF text
	AS 'MODULE_PATHNAME', 'dc_values_orset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 100;
COMMENT ON FUNCTION dc_values(dc_orset) IS 'the elements of a set, in order of their bytes';

-- Registers. A third argument of dc_set() would make dc_set($1, $2, $3) of a counter table ambiguous
-- for drivers that leave the types of parameters to the server.
CREATE FUNCTION dc_lww() RETURNS dc_lww
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_lww() IS 'a dc_lww that was never written';
CREATE FUNCTION dc_mvreg() RETURNS dc_mvreg
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_mvreg() IS 'a dc_mvreg without values';
CREATE FUNCTION dc_set(register dc_lww, value jsonb) RETURNS dc_lww
	AS 'MODULE_PATHNAME', 'dc_set_lww' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_set(dc_lww, jsonb) IS 'writes a value, with a new stamp of this database';
CREATE FUNCTION dc_set_as(register dc_lww, value jsonb, node text) RETURNS dc_lww
	AS 'MODULE_PATHNAME', 'dc_set_as_lww' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dc_set_as(dc_lww, jsonb, text) IS 'writes a value on behalf of a node, with a new stamp';
CREATE FUNCTION dc_set(register dc_mvreg, value jsonb) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME', 'dc_set_mvreg' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_set(dc_mvreg, jsonb) IS 'replaces the values that this state has';
CREATE FUNCTION dc_set_as(register dc_mvreg, value jsonb, node text) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME', 'dc_set_as_mvreg' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_set_as(dc_mvreg, jsonb, text) IS 'replaces the values that this state has, on behalf of a node';
CREATE FUNCTION dc_reset(register dc_mvreg) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME', 'dc_reset_mvreg' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_reset(dc_mvreg) IS 'removes all values that this state has';
CREATE FUNCTION dc_value(register dc_lww) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'dc_value_lww' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_value(dc_lww) IS 'the value of a register';
CREATE FUNCTION dc_value(register dc_mvreg) RETURNS jsonb[]
	AS 'MODULE_PATHNAME', 'dc_value_mvreg' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dc_value(dc_mvreg) IS 'the values of a register, more than one after concurrent writes';
CREATE FUNCTION dc_values(register dc_mvreg) RETURNS SETOF jsonb
	AS 'MODULE_PATHNAME', 'dc_values_mvreg' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 10;
COMMENT ON FUNCTION dc_values(dc_mvreg) IS 'the values of a register, more than one after concurrent writes';
CREATE FUNCTION dc_stamp(register dc_lww) RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_stamp(dc_lww) IS 'when and by which node a register was written';

-- Aggregates of mergeable types whose values may be large.
CREATE FUNCTION dcounter.crdt_agg_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'crdt_agg_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.crdt_agg_combine(internal, internal) IS 'merges two states of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_serialize(internal) RETURNS bytea
	AS 'MODULE_PATHNAME', 'crdt_agg_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.crdt_agg_serialize(internal) IS 'writes a state of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_deserialize(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'crdt_agg_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.crdt_agg_deserialize(bytea, internal) IS 'reads a state of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_add(internal, dc_gset) RETURNS internal
	AS 'MODULE_PATHNAME', 'crdt_agg_add' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_agg_add(internal, dc_gset) IS 'transition of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_final(internal, dc_gset) RETURNS dc_gset
	AS 'MODULE_PATHNAME', 'crdt_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.crdt_agg_final(internal, dc_gset) IS 'result of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_add(internal, dc_orset) RETURNS internal
	AS 'MODULE_PATHNAME', 'crdt_agg_add' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_agg_add(internal, dc_orset) IS 'transition of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_final(internal, dc_orset) RETURNS dc_orset
	AS 'MODULE_PATHNAME', 'crdt_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.crdt_agg_final(internal, dc_orset) IS 'result of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_add(internal, dc_mvreg) RETURNS internal
	AS 'MODULE_PATHNAME', 'crdt_agg_add' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dcounter.crdt_agg_add(internal, dc_mvreg) IS 'transition of dc_merge_agg';

CREATE FUNCTION dcounter.crdt_agg_final(internal, dc_mvreg) RETURNS dc_mvreg
	AS 'MODULE_PATHNAME', 'crdt_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dcounter.crdt_agg_final(internal, dc_mvreg) IS 'result of dc_merge_agg';

CREATE AGGREGATE dc_merge_agg(dc_gset) (
	SFUNC = dcounter.crdt_agg_add, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.crdt_agg_final, FINALFUNC_EXTRA,
	COMBINEFUNC = dcounter.crdt_agg_combine, SERIALFUNC = dcounter.crdt_agg_serialize, DESERIALFUNC = dcounter.crdt_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_merge_agg(dc_gset) IS 'the elements of many dc_gset';

CREATE AGGREGATE dc_merge_agg(dc_orset) (
	SFUNC = dcounter.crdt_agg_add, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.crdt_agg_final, FINALFUNC_EXTRA,
	COMBINEFUNC = dcounter.crdt_agg_combine, SERIALFUNC = dcounter.crdt_agg_serialize, DESERIALFUNC = dcounter.crdt_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_merge_agg(dc_orset) IS 'what any of many dc_orset has seen';

CREATE AGGREGATE dc_merge_agg(dc_mvreg) (
	SFUNC = dcounter.crdt_agg_add, STYPE = internal, SSPACE = 1024, FINALFUNC = dcounter.crdt_agg_final, FINALFUNC_EXTRA,
	COMBINEFUNC = dcounter.crdt_agg_combine, SERIALFUNC = dcounter.crdt_agg_serialize, DESERIALFUNC = dcounter.crdt_agg_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE dc_merge_agg(dc_mvreg) IS 'what any of many dc_mvreg has seen';

-- What aggregates are made of is called with their owner's rights.
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_add(internal, dc_gset) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_final(internal, dc_gset) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_add(internal, dc_orset) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_final(internal, dc_orset) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_add(internal, dc_mvreg) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_final(internal, dc_mvreg) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_combine(internal, internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_serialize(internal) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION dcounter.crdt_agg_deserialize(bytea, internal) FROM PUBLIC;

CREATE FUNCTION dc_hlc_now() RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_hlc_now() IS 'a new stamp, later than all that this database has created or seen';

CREATE FUNCTION dc_hlc_after(stamp dc_hlc) RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_hlc_after(dc_hlc) IS 'a new stamp, which is also later than another one';

CREATE FUNCTION dc_hlc_time(stamp dc_hlc) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_hlc_time(dc_hlc) IS 'the time of a stamp';

CREATE FUNCTION dc_hlc_node(stamp dc_hlc) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_hlc_node(dc_hlc) IS 'the node that made a stamp';

CREATE FUNCTION dcounter.merge_row() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.merge_row() IS 'merges rows that arrive by logical replication with the existing rows';

-- The owner of the database dumps these as well. No other role reads them, as they have rows of all roles.
GRANT SELECT ON SEQUENCE dcounter.hlc_clock TO pg_database_owner;

SELECT pg_catalog.pg_extension_config_dump('dcounter.hlc_clock', '');
