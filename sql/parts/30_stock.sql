CREATE FUNCTION dc_stock_create(stock text, max_shards int DEFAULT 64, if_not_exists boolean DEFAULT false) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_stock_create(text, int, boolean) IS 'creates a stock: a counter table that never goes below zero';

CREATE FUNCTION dc_restock(stock regclass, key anycompatible, qty bigint) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_restock(regclass, anycompatible, bigint) IS 'adds units to a stock';

CREATE FUNCTION dc_take(stock regclass, key anycompatible, qty bigint DEFAULT 1, wait boolean DEFAULT false) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_take(regclass, anycompatible, bigint, boolean) IS 'takes units, or changes nothing and returns false';

CREATE FUNCTION dc_take_up_to(stock regclass, key anycompatible, qty bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_take_up_to(regclass, anycompatible, bigint) IS 'takes as many units as there are, up to a number, and returns how many';

CREATE FUNCTION dc_take_all(stock regclass, keys anycompatiblearray, qtys bigint[]) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_take_all(regclass, anycompatiblearray, bigint[]) IS 'takes units of many keys, all or none';

CREATE FUNCTION dc_hold(stock regclass, key anycompatible, qty bigint DEFAULT 1, ttl interval DEFAULT '10 minutes', hold_id uuid DEFAULT gen_random_uuid()) RETURNS uuid
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_hold(regclass, anycompatible, bigint, interval, uuid) IS 'sets units aside for a while, or returns NULL if there are not enough';

CREATE FUNCTION dc_hold_all(stock regclass, keys anycompatiblearray, qtys bigint[], ttl interval DEFAULT '10 minutes', hold_id uuid DEFAULT gen_random_uuid()) RETURNS uuid
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_hold_all(regclass, anycompatiblearray, bigint[], interval, uuid) IS 'sets units of many keys aside as one hold, all or none';

CREATE FUNCTION dc_hold_confirm(stock regclass, hold_id uuid, qty bigint DEFAULT NULL, strict boolean DEFAULT true) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_hold_confirm(regclass, uuid, bigint, boolean) IS 'ends a hold with its units sold';

CREATE FUNCTION dc_hold_release(stock regclass, hold_id uuid, strict boolean DEFAULT true) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 50;
COMMENT ON FUNCTION dc_hold_release(regclass, uuid, boolean) IS 'ends a hold and gives its units back';

CREATE FUNCTION dc_holds(stock regclass, key anycompatible DEFAULT NULL::text, OUT key text, OUT hold_id uuid, OUT qty bigint, OUT expires_at timestamptz, OUT age interval) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_holds(regclass, anycompatible) IS 'open holds of a key, of all keys by default';
