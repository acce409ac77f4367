CREATE FUNCTION dc_hlc_now() RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_hlc_now() IS 'a new stamp, later than all that this database has made or seen';

CREATE FUNCTION dc_hlc_after(stamp dc_hlc) RETURNS dc_hlc
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 20;
COMMENT ON FUNCTION dc_hlc_after(dc_hlc) IS 'a new stamp, later than another one, too';

CREATE FUNCTION dc_hlc_time(stamp dc_hlc) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_hlc_time(dc_hlc) IS 'the time of a stamp';

CREATE FUNCTION dc_hlc_node(stamp dc_hlc) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION dc_hlc_node(dc_hlc) IS 'the node that has made a stamp';
