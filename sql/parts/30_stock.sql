CREATE FUNCTION dc_stock_create(stock text, max_shards int DEFAULT 64) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_stock_create(text, int) IS 'creates a stock: a counter table that never goes below zero';

CREATE FUNCTION dc_restock(stock regclass, key text, qty bigint) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_restock(regclass, text, bigint) IS 'adds units to a stock';

CREATE FUNCTION dc_restock(stock regclass, key bigint, qty bigint) RETURNS void
	AS 'MODULE_PATHNAME', 'dc_restock_int8' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_restock(regclass, bigint, bigint) IS 'adds units to a stock';

CREATE FUNCTION dc_restock(stock regclass, key uuid, qty bigint) RETURNS void
	AS 'MODULE_PATHNAME', 'dc_restock_uuid' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_restock(regclass, uuid, bigint) IS 'adds units to a stock';

CREATE FUNCTION dc_take(stock regclass, key text, qty bigint DEFAULT 1, wait boolean DEFAULT false) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_take(regclass, text, bigint, boolean) IS 'takes units, or changes nothing and answers false';

CREATE FUNCTION dc_take(stock regclass, key bigint, qty bigint DEFAULT 1, wait boolean DEFAULT false) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_take_int8' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_take(regclass, bigint, bigint, boolean) IS 'takes units, or changes nothing and answers false';

CREATE FUNCTION dc_take(stock regclass, key uuid, qty bigint DEFAULT 1, wait boolean DEFAULT false) RETURNS boolean
	AS 'MODULE_PATHNAME', 'dc_take_uuid' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_take(regclass, uuid, bigint, boolean) IS 'takes units, or changes nothing and answers false';

CREATE FUNCTION dc_take_up_to(stock regclass, key text, qty bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_take_up_to(regclass, text, bigint) IS 'takes as many units as there are, up to a number, and returns how many';

CREATE FUNCTION dc_take_up_to(stock regclass, key bigint, qty bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_take_up_to_int8' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_take_up_to(regclass, bigint, bigint) IS 'takes as many units as there are, up to a number, and returns how many';

CREATE FUNCTION dc_take_up_to(stock regclass, key uuid, qty bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'dc_take_up_to_uuid' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_take_up_to(regclass, uuid, bigint) IS 'takes as many units as there are, up to a number, and returns how many';

CREATE FUNCTION dc_take_all(stock regclass, keys text[], qtys bigint[]) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_take_all(regclass, text[], bigint[]) IS 'takes units of many keys, all or none';

CREATE FUNCTION dc_hold(stock regclass, key text, qty bigint DEFAULT 1, ttl interval DEFAULT '10 minutes', hold_id uuid DEFAULT gen_random_uuid()) RETURNS uuid
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_hold(regclass, text, bigint, interval, uuid) IS 'sets units aside for a while, or returns NULL if there are not enough';

CREATE FUNCTION dc_hold(stock regclass, key bigint, qty bigint DEFAULT 1, ttl interval DEFAULT '10 minutes', hold_id uuid DEFAULT gen_random_uuid()) RETURNS uuid
	AS 'MODULE_PATHNAME', 'dc_hold_int8' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_hold(regclass, bigint, bigint, interval, uuid) IS 'sets units aside for a while, or returns NULL if there are not enough';

CREATE FUNCTION dc_hold(stock regclass, key uuid, qty bigint DEFAULT 1, ttl interval DEFAULT '10 minutes', hold_id uuid DEFAULT gen_random_uuid()) RETURNS uuid
	AS 'MODULE_PATHNAME', 'dc_hold_uuid' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_hold(regclass, uuid, bigint, interval, uuid) IS 'sets units aside for a while, or returns NULL if there are not enough';

CREATE FUNCTION dc_hold_confirm(stock regclass, hold_id uuid, qty bigint DEFAULT NULL) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_hold_confirm(regclass, uuid, bigint) IS 'ends a hold with its units sold';

CREATE FUNCTION dc_hold_release(stock regclass, hold_id uuid) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_hold_release(regclass, uuid) IS 'ends a hold and gives its units back';

CREATE FUNCTION dc_holds(stock regclass, INOUT key text DEFAULT NULL, OUT hold_id uuid, OUT qty bigint, OUT expires_at timestamptz, OUT age interval) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_holds(regclass, text) IS 'open holds of a key, of all keys by default';
