/*
 * budgetrow.c
 *		The catalog dcounter.budget, which has the tables of budgets.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "utils/snapmgr.h"

#include "base/catrow.h"
#include "base/compat.h"
#include "transactional/budget/budget.h"

PG_FUNCTION_INFO_V1(on_budget_row_change);

#define COL_POOL 2

static bool budgets_exist(void);
static void budgetrow_columns(DcCatRow *io, void *data);

static const DcCatalog budgets = {
	.table = "budget",
	.pkey = "budget_pkey",
	.nkeys = 1,
	.size = sizeof(DcBudgetRow),
	.columns = budgetrow_columns,
	.tells = true,
};

/*
 * Read or write the columns of a row of dcounter.budget.
 */
static void
budgetrow_columns(DcCatRow *io, void *data)
{
	DcBudgetRow *row = data;

	cat_oid(io, &row->budget);
	cat_oid(io, &row->pool);
	cat_oid(io, &row->reservations);
}

/*
 * Return true if the catalog exists: until the extension is updated, the script of a version
 * without budgets may be installed.
 */
static bool
budgets_exist(void)
{
	return OidIsValid(catalog_relation_if_any(budgets.table));
}

/*
 * budget_read fetches the row of a budget; false when there is none.
 */
bool
budget_read(Oid relid, DcBudgetRow *row)
{
	return budgets_exist() && cat_read(&budgets, row, ObjectIdGetDatum(relid));
}

/*
 * budget_read_by_pool fetches the row of the budget whose units are in a stock; false when there is
 * none.
 */
bool
budget_read_by_pool(Oid pool, DcBudgetRow *row)
{
	return budgets_exist() && cat_read_by(&budgets, row, "budget_pool_idx", COL_POOL, ObjectIdGetDatum(pool));
}

/*
 * budget_read_all returns a list of all rows (DcBudgetRow *).
 */
List *
budget_read_all(void)
{
	return budgets_exist() ? cat_read_all(&budgets, SnapshotSelf) : NIL;
}

/*
 * budget_insert adds a row.
 */
void
budget_insert(const DcBudgetRow *row)
{
	cat_insert(&budgets, row);
}

/*
 * budget_delete removes a row; false when there is none.
 */
bool
budget_delete(Oid relid)
{
	return cat_delete(&budgets, ObjectIdGetDatum(relid)) > 0;
}

/*
 * on_budget_row_change() -> trigger on dcounter.budget
 */
Datum
on_budget_row_change(PG_FUNCTION_ARGS)
{
	return cat_on_change(fcinfo, &budgets, "on_budget_row_change()");
}
