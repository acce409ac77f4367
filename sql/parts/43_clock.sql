-- The last time of the database's hybrid logical clock, in microseconds since 1970. No
-- session caches values.
CREATE SEQUENCE dcounter.hlc_clock AS pg_catalog.int8 MAXVALUE 253402300799999999 CACHE 1 NO CYCLE;
COMMENT ON SEQUENCE dcounter.hlc_clock IS 'the last time that dc_hlc_now() has given out, in microseconds since 1970';

CREATE FUNCTION dc_node() RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_node() IS 'the name of this database among its replicas';
