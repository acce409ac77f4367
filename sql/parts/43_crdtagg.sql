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
