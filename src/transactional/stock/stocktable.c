/*
 * stocktable.c
 *		A stock's table of holds: creating it, adopting it, its required shape; opening a stock, and
 *		adding units to it.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The other two tables are those of any counter (core/table/table.c); the shard table has one
 * additional column.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/hooks.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/counter/units.h"
#include "core/counter/write.h"
#include "core/table/access.h"
#include "core/table/table.h"
#include "transactional/stock/hold.h"
#include "transactional/stock/stock.h"
#include "transactional/stock/take.h"

PG_FUNCTION_INFO_V1(dc_stock_create);

static void check_given(const DcCounter *counter, int64 qty);

#define HOLDS_OPTIONS "fillfactor=80"
#define HOLDS_COLUMNS \
	"hold_id pg_catalog.uuid PRIMARY KEY," \
	" key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL" \
	" CHECK (pg_catalog.octet_length(key) OPERATOR(pg_catalog.<=) 1024)," \
	" qty pg_catalog.int8 NOT NULL CHECK (qty OPERATOR(pg_catalog.>) 0)," \
	" ttl pg_catalog.interval NOT NULL," \
	" state pg_catalog.text NOT NULL DEFAULT 'open'" \
	" CHECK (state OPERATOR(pg_catalog.=) ANY ('{open,confirmed,released,expired}'::pg_catalog.text[]))," \
	" confirmed pg_catalog.int8," \
	" created_at pg_catalog.timestamptz NOT NULL," \
	" expires_at pg_catalog.timestamptz NOT NULL," \
	" ended_at pg_catalog.timestamptz," \
	" keys pg_catalog.text[] COLLATE pg_catalog.\"C\"," \
	" qtys pg_catalog.int8[]"

/* The same. Tables that were created by 0.1 do not have the last two columns (holdline.c). */
const DcShape holds_shape = {
	.relkinds = "r",
	.nkeys = 1,
	.keys = {0},
	.ncolumns = 11,
	.columns = {{"hold_id", UUIDOID},
				{"key", TEXTOID, C_COLLATION_OID},
				{"qty", INT8OID},
				{"ttl", INTERVALOID},
				{"state", TEXTOID, DEFAULT_COLLATION_OID},
				{"confirmed", INT8OID, InvalidOid, SHAPE_NULLABLE},
				{"created_at", TIMESTAMPTZOID},
				{"expires_at", TIMESTAMPTZOID},
				{"ended_at", TIMESTAMPTZOID, InvalidOid, SHAPE_NULLABLE},
				{"keys", TEXTARRAYOID, C_COLLATION_OID, SHAPE_NULLABLE | SHAPE_OPTIONAL},
				{"qtys", INT8ARRAYOID, InvalidOid, SHAPE_NULLABLE | SHAPE_OPTIONAL}}};

/*
 * dc_stock_create(stock text, max_shards int, if_not_exists boolean) -> regclass: a
 * counter table with a floor of zero, and its table of holds. Errors as of dc_create().
 */
Datum
dc_stock_create(PG_FUNCTION_ARGS)
{
	DcCounterRow row;
	RangeVar *name;
	Oid relid;

	arg_not_null(fcinfo, 0, "stock");
	catalog_row_defaults(&row);
	row.max_shards = max_shards_arg(fcinfo, 1);
	prevent_write("dc_stock_create()");
	name = table_name_arg(fcinfo, 0);
	relid = table_existing(fcinfo, 2, name, "stock");
	if (!OidIsValid(relid))
		relid = table_create(name, row, true, 0, "dc_stock_create()");
	PG_RETURN_OID(relid);
}

/*
 * create_holds creates a table of holds, with an index for each search: a take looks for the
 * expired ones of its key; the worker looks for all expired ones, and for those that have ended
 * long ago.
 */
Oid
create_holds(const RangeVar *stock, const char *maker)
{
	char *schema = stock->schemaname;
	char *name = sibling_name(stock->relname, DC_HOLD_SUFFIX);
	char *table = quote_qualified_identifier(schema, name);

	create_table(schema, name, HOLDS_COLUMNS, HOLDS_OPTIONS, psprintf("holds; see %s", maker));
	run_ddl(psprintf("CREATE INDEX ON %s (key, expires_at) WHERE state OPERATOR(pg_catalog.=) 'open'", table));
	run_ddl(psprintf("CREATE INDEX ON %s (expires_at) WHERE state OPERATOR(pg_catalog.=) 'open'", table));
	run_ddl(psprintf("CREATE INDEX ON %s (ended_at) WHERE state OPERATOR(pg_catalog.<>) 'open'", table));
	return get_relname_relid(name, get_namespace_oid(schema, false));
}

/*
 * find_holds finds the table of holds of a stock that is to be adopted.
 */
void
find_holds(DcCounterRow *row)
{
	char *name = get_rel_name(row->counter);
	char *holds = psprintf("%s%s", name, DC_HOLD_SUFFIX);

	row->holds = get_relname_relid(holds, get_rel_namespace(row->counter));
	if (!OidIsValid(row->holds))
		adopt_error(name, psprintf(_("There is no table of holds \"%s\" in the same schema."), holds));
	lock_own_table(row->holds, ShareUpdateExclusiveLock);
}

/*
 * counter_holds_layout checks the table of holds of a stock, which is locked, as counter_layout()
 * does the others.
 */
void
counter_holds_layout(DcCounter *counter)
{
	uint32 generation;
	Relation rel;

	if (counter->valid && counter->holds_generation == counter->generation)
		return;
	if (!counter->valid)
		(void) counter_lookup(counter->relid); /* the same entry */
	generation = counter->generation;
	if (get_rel_relkind(counter->row.holds) == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("stock \"%s\" has no table of holds",
						get_rel_name(counter->relid))));
	rel = table_open_present(counter->row.holds, NoLock);
	shape_check(rel, &holds_shape, &counter->holds);
	table_close(rel, NoLock);
	counter->holds_generation = generation;
}

/*
 * stock_open_to_write opens the stock in argument 0 for a function that changes it. 42809 for a
 * counter table that is not a stock. All waiting is done before its tables are locked.
 */
DcCounter *
stock_open_to_write(FunctionCallInfo fcinfo, const char *function)
{
	DcCounter *counter;

	region_hooks->await_rights(counter_arg(fcinfo), function);
	counter = counter_open_to_write(fcinfo, function);
	stock_check(counter);
	units_check(counter);
	return counter;
}

/*
 * stock_check raises 42809 for a counter table that is not a stock.
 */
void
stock_check(const DcCounter *counter)
{
	if (!counter_is_stock(counter))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("counter table \"%s\" is not a stock",
						get_rel_name(counter->relid)),
				 errhint("Create a stock with dc_stock_create().")));
}

/*
 * quantity_arg returns a quantity, which is a positive bigint (22004, 22023).
 */
int64
quantity_arg(FunctionCallInfo fcinfo, int argno)
{
	int64 qty = amount_arg(fcinfo, argno, "qty");

	if (qty <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("qty must be greater than zero")));
	return qty;
}

/*
 * stock_give adds units to a key, when this transaction commits.
 */
void
stock_give(DcCounter *counter, const DcKey *key, int64 qty)
{
	check_given(counter, qty);
	counter_add_amounts(counter, key, DC_NO_HINT, qty, 0);
}

/*
 * stock_give_back adds units that a hold has taken: they are not spread over rows.
 */
void
stock_give_back(DcCounter *counter, const DcKey *key, int64 qty)
{
	check_given(counter, qty);
	counter_add_back(counter, key, qty);
}

/*
 * check_given raises 42809 for a negative number of units. A hold whose row was inserted directly
 * may have such a number, and would take units from other holds.
 */
static void
check_given(const DcCounter *counter, int64 qty)
{
	if (qty < 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not as dcounter created it",
						get_rel_name(OidIsValid(counter->row.holds) ? counter->row.holds : counter->relid)),
				 errdetail("It gives back %lld units.", (long long) qty)));
}
