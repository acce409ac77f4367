CREATE TABLE dcounter.budget (
	budget       pg_catalog.regclass NOT NULL,
	pool         pg_catalog.regclass NOT NULL,
	reservations pg_catalog.regclass NOT NULL,
	CONSTRAINT budget_pkey PRIMARY KEY (budget)
);
CREATE UNIQUE INDEX budget_pool_idx ON dcounter.budget (pool);
COMMENT ON TABLE dcounter.budget IS 'budgets and their tables';
COMMENT ON COLUMN dcounter.budget.budget IS 'the table of grants, which identifies the budget';
COMMENT ON COLUMN dcounter.budget.pool IS 'the stock that has the units of the grants, and those that are owed';
COMMENT ON COLUMN dcounter.budget.reservations IS 'the reservations';

CREATE FUNCTION dcounter.on_budget_row_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_budget_row_change() IS 'internal: makes restoring the budgets idempotent and tells sessions of changes';

CREATE TRIGGER on_budget_row_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.budget
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_budget_row_change();

CREATE FUNCTION dc_budget_create(budget text, if_not_exists boolean DEFAULT false) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_budget_create(text, boolean) IS 'creates a budget: grants of units, of which some are reserved and settled later';

CREATE FUNCTION dc_budget_adopt(budget regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_budget_adopt(regclass) IS 'registers existing tables as a budget';

CREATE FUNCTION dc_grant(budget regclass, key anycompatible, amount bigint, name text, expires_at timestamptz DEFAULT 'infinity', priority int DEFAULT 0, effective_at timestamptz DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_grant(regclass, anycompatible, bigint, text, timestamptz, int, timestamptz) IS 'gives a key units of a budget, once for each name';

CREATE FUNCTION dc_allowance(budget regclass, key anycompatible, amount bigint, period interval, time_zone text DEFAULT 'UTC', anchor timestamp DEFAULT '2000-01-01', valid_for interval DEFAULT NULL, priority int DEFAULT 0) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_allowance(regclass, anycompatible, bigint, interval, text, timestamp, interval, int) IS 'gives a key units of a budget once in each period, and returns when they expire';

CREATE FUNCTION dc_reserve(budget regclass, key anycompatible, amount bigint, reservation_id uuid, ttl interval DEFAULT '10 minutes', at_least bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_reserve(regclass, anycompatible, bigint, uuid, interval, bigint) IS 'sets units of a budget aside, and returns how many; 0 if there are not enough';

CREATE FUNCTION dc_reserve_all(budget regclass, keys anycompatiblearray, amounts bigint[], reservation_id uuid, ttl interval DEFAULT '10 minutes', at_least bigint[] DEFAULT NULL) RETURNS bigint[]
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 200;
COMMENT ON FUNCTION dc_reserve_all(regclass, anycompatiblearray, bigint[], uuid, interval, bigint[]) IS 'sets units of several keys of a budget aside, of all or of none';

CREATE FUNCTION dc_settle(budget regclass, reservation_id uuid, cost bigint, overdraft boolean DEFAULT true) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_settle(regclass, uuid, bigint, boolean) IS 'ends a reservation with what it has cost';

CREATE FUNCTION dc_settle(budget regclass, reservation_id uuid, costs bigint[], overdraft boolean DEFAULT true) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 200;
COMMENT ON FUNCTION dc_settle(regclass, uuid, bigint[], boolean) IS 'ends a reservation of several keys with what it has cost';

CREATE FUNCTION dc_release(budget regclass, reservation_id uuid) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_release(regclass, uuid) IS 'ends a reservation that has cost nothing';

CREATE FUNCTION dc_budget(budget regclass, key anycompatible, OUT available bigint, OUT reserved bigint, OUT owed bigint, OUT expires_at timestamptz)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dc_budget(regclass, anycompatible) IS 'what a key of a budget has left';

CREATE FUNCTION dc_budget_check(budget regclass, OUT key text, OUT granted numeric, OUT lapsed numeric, OUT available numeric, OUT reserved numeric, OUT settled numeric, OUT owed numeric) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 10;
COMMENT ON FUNCTION dc_budget_check(regclass) IS 'the keys of a budget whose books do not balance; no rows if it is sound';

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT SELECT ON dcounter.budget TO PUBLIC;
-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_budget_row_change() FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.budget', '');
