CREATE FUNCTION dcounter.merge_grant() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dcounter.merge_grant() IS 'internal: merges what another region has given, and adds what it has given to this one';

CREATE FUNCTION dcounter.merge_want() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dcounter.merge_want() IS 'internal: merges what another region asks for';

CREATE FUNCTION dc_want(stock regclass, key anycompatible, qty bigint) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_want(regclass, anycompatible, bigint) IS 'asks other regions for units of a replicated stock, or, with 0, for none any more';

CREATE PROCEDURE dc_take_wait(stock regclass, key anycompatible, qty bigint, timeout interval, INOUT ok boolean DEFAULT NULL)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE dc_take_wait(regclass, anycompatible, bigint, interval, boolean) IS 'takes units, and waits for them so long if there are not enough; commits while it waits';

CREATE FUNCTION dc_stock_regions(stock regclass, key anycompatible, OUT region text, OUT units bigint, OUT units_at timestamptz, OUT granted_in bigint, OUT granted_out bigint, OUT wanted bigint, OUT wanted_since timestamptz) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 3;
COMMENT ON FUNCTION dc_stock_regions(regclass, anycompatible) IS 'what is known of the units of a key in each region';

CREATE FUNCTION dc_rights_reclaim(stock regclass, region text, key anycompatible DEFAULT NULL::text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION dc_rights_reclaim(regclass, text, anycompatible) IS 'takes over the units that a retired region has at most, of all keys by default; what it has sold unheard of is sold again';
