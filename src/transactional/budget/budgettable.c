/*
 * budgettable.c
 *		Creating and adopting the tables of a budget.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They are ordinary tables of the caller's, made with plain DDL: the grants, which have the name of
 * the budget, a stock, and the reservations. The last two are named after the first, by which
 * dc_budget_adopt() finds them. Roles that use the budget have rights on the table of grants only.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/table.h"
#include "transactional/budget/budget.h"

PG_FUNCTION_INFO_V1(dc_budget_create);
PG_FUNCTION_INFO_V1(dc_budget_adopt);

#define MAKER "dc_budget_create()"

/* The sequence of the grants' numbers, which is found by its owner, and may have any name. */
#define GRANT_ID_SUFFIX "_grant_id"

#define GRANT_OPTIONS "fillfactor=90"
#define GRANT_COLUMNS \
	"grant_id pg_catalog.int8 PRIMARY KEY," \
	" key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL" \
	" CHECK (pg_catalog.octet_length(key) OPERATOR(pg_catalog.<=) 1023)," \
	" name pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL" \
	" CHECK (pg_catalog.octet_length(name) OPERATOR(pg_catalog.<=) 1024)," \
	" priority pg_catalog.int4 NOT NULL," \
	" effective_at pg_catalog.timestamptz NOT NULL," \
	" expires_at pg_catalog.timestamptz NOT NULL," \
	" amount pg_catalog.int8 NOT NULL CHECK (amount OPERATOR(pg_catalog.>=) 0)," \
	" lapsed pg_catalog.int8 NOT NULL DEFAULT 0," \
	" live pg_catalog.bool NOT NULL DEFAULT true," \
	" UNIQUE (key, name)"

#define RESERVATION_OPTIONS "fillfactor=80"
#define RESERVATION_COLUMNS \
	"reservation_id pg_catalog.uuid PRIMARY KEY," \
	" keys pg_catalog.text[] COLLATE pg_catalog.\"C\" NOT NULL," \
	" amounts pg_catalog.int8[] NOT NULL," \
	" at_least pg_catalog.int8[] NOT NULL," \
	" ttl pg_catalog.interval NOT NULL," \
	" reserved pg_catalog.int8[] NOT NULL," \
	" grants pg_catalog.int8[] NOT NULL," \
	" taken pg_catalog.int8[] NOT NULL," \
	" owners pg_catalog.int8[] NOT NULL," \
	" state pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL DEFAULT 'open'" \
	" CHECK (state OPERATOR(pg_catalog.=) ANY ('{open,settled,released,expired}'::pg_catalog.text[]))," \
	" settled pg_catalog.int8[]," \
	" created_at pg_catalog.timestamptz NOT NULL," \
	" expires_at pg_catalog.timestamptz NOT NULL," \
	" ended_at pg_catalog.timestamptz"

static List *budget_tables(Oid counter, List *tables);
static Oid budget_existing(FunctionCallInfo fcinfo, RangeVar *name);
static Oid create_reservations(const char *schema, const char *name);
static Oid budget_find(Oid relid, const char *suffix);
static void budget_adopt_pool(Oid pool);
pg_noreturn static void budget_adopt_error(Oid relid, const char *detail);

/*
 * budget_init sets the hooks and registers the job of this room; called once.
 */
void
budget_init(void)
{
	static const DcBudgetHooks hooks = {.tables = budget_tables};

	budget_hooks = &hooks;
	ddl_hook_add(&budget_ddl);
	job_register((DcJob){.name = "budget", .interval = &dc_expire_interval, .run = budget_job});
}

/*
 * Add the tables of the budget whose units are in a stock, if they are.
 */
static List *
budget_tables(Oid counter, List *tables)
{
	DcBudgetRow row;

	if (budget_read_by_pool(counter, &row))
		tables = lappend_oid(lappend_oid(tables, row.budget), row.reservations);
	return tables;
}

/*
 * dc_budget_create(budget text, if_not_exists boolean) -> regclass, the table of grants
 *
 * Errors as of dc_create().
 */
Datum
dc_budget_create(PG_FUNCTION_ARGS)
{
	DcCounterRow settings;
	DcBudgetRow row;
	RangeVar *name;
	char *schema;
	char *table;
	char *reservations;
	char *pool;
	char *ids;

	arg_not_null(fcinfo, 0, "budget");
	prevent_write(MAKER);
	name = table_name_arg(fcinfo, 0);
	row.budget = budget_existing(fcinfo, name);
	if (OidIsValid(row.budget))
		PG_RETURN_OID(row.budget);
	pool = sibling_name(name->relname, DC_POOL_SUFFIX);
	reservations = sibling_name(name->relname, DC_RESERVATION_SUFFIX);
	ids = sibling_name(name->relname, GRANT_ID_SUFFIX);
	(void) table_schema(name, "budgets");
	schema = name->schemaname;
	create_table(schema, name->relname, GRANT_COLUMNS, GRANT_OPTIONS, "grants of a budget; see " MAKER);
	table = quote_qualified_identifier(schema, name->relname);
	run_ddl(psprintf("CREATE SEQUENCE %s OWNED BY %s.grant_id", quote_qualified_identifier(schema, ids), table));
	run_ddl(psprintf("CREATE INDEX ON %s (key, priority, expires_at, grant_id) WHERE live", table));
	run_ddl(psprintf("CREATE INDEX ON %s (expires_at, grant_id) WHERE live", table));
	row.budget = get_relname_relid(name->relname, get_namespace_oid(schema, false));
	catalog_row_defaults(&settings);
	row.pool = table_create(makeRangeVar(schema, pool, -1), settings, true, 0, MAKER);
	row.reservations = create_reservations(schema, reservations);
	(void) budget_check_shapes(&row);
	budget_insert(&row);
	PG_RETURN_OID(row.budget);
}

/*
 * Return the table of that name, if argument 1, if_not_exists, accepts an existing one.
 */
static Oid
budget_existing(FunctionCallInfo fcinfo, RangeVar *name)
{
	DcBudgetRow row;
	Oid relid;

	if (!bool_arg(fcinfo, 1, "if_not_exists"))
		return InvalidOid;
	relid = table_of_name(name);
	if (OidIsValid(relid))
		table_skip(name, budget_read(relid, &row), "budget");
	return relid;
}

/*
 * Create the table of reservations, with indexes for those that expire, and those that have ended.
 */
static Oid
create_reservations(const char *schema, const char *name)
{
	char *table = quote_qualified_identifier(schema, name);

	create_table(schema, name, RESERVATION_COLUMNS, RESERVATION_OPTIONS, "reservations of a budget; see " MAKER);
	run_ddl(psprintf("CREATE INDEX ON %s (expires_at) WHERE state OPERATOR(pg_catalog.=) 'open'", table));
	run_ddl(psprintf("CREATE INDEX ON %s (ended_at) WHERE state OPERATOR(pg_catalog.<>) 'open'", table));
	return get_relname_relid(name, get_namespace_oid(schema, false));
}

/*
 * dc_budget_adopt(budget regclass) -> void: registers a budget whose tables exist but are not in
 * the catalogs, as after restoring one schema or re-creating the extension. For the owner. Does
 * nothing for one that is registered.
 *
 * Errors: 42809 when the tables are not those of a budget.
 */
Datum
dc_budget_adopt(PG_FUNCTION_ARGS)
{
	DcBudgetRow row;

	arg_not_null(fcinfo, 0, "budget");
	prevent_write("dc_budget_adopt()");
	lock_own_table(PG_GETARG_OID(0), ShareRowExclusiveLock);
	if (budget_read(PG_GETARG_OID(0), &row))
		PG_RETURN_VOID();
	row.budget = PG_GETARG_OID(0);
	row.pool = budget_find(row.budget, DC_POOL_SUFFIX);
	row.reservations = budget_find(row.budget, DC_RESERVATION_SUFFIX);
	lock_own_table(row.pool, ShareRowExclusiveLock);
	lock_own_table(row.reservations, ShareRowExclusiveLock);
	budget_adopt_pool(row.pool);
	(void) budget_check_shapes(&row);
	budget_insert(&row);
	PG_RETURN_VOID();
}

/*
 * Return the table of a budget whose name has this suffix; 42809 if there is none.
 */
static Oid
budget_find(Oid relid, const char *suffix)
{
	Oid found = sibling_find(relid, suffix);

	if (!OidIsValid(found) || get_rel_relkind(found) != 'r')
		budget_adopt_error(relid, psprintf(_("There is no table \"%s%s\" in the same schema."), get_rel_name(relid), suffix));
	return found;
}

/*
 * Register the stock of a budget, unless it is registered.
 */
static void
budget_adopt_pool(Oid pool)
{
	DcCounterRow row;

	if (!catalog_read(pool, &row))
	{
		catalog_row_defaults(&row);
		row.counter = pool;
		table_adopt(&row, InvalidOid);
	}
	if (!OidIsValid(row.holds) || OidIsValid(row.ledger))
		budget_adopt_error(pool, psprintf(_("\"%s\" is not a stock."), get_rel_name(pool)));
}

/*
 * Raise 42809 with the reason as DETAIL, which is translated already.
 */
static void
budget_adopt_error(Oid relid, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot adopt \"%s\" as a budget", get_rel_name(relid)),
			 errdetail_internal("%s", detail)));
}
