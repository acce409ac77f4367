/*
 * budgetddl.c
 *		What follows from DDL on the tables of budgets.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *	- At a drop: dropping the table of grants drops the stock and the reservations. These cannot be
 *	  dropped by themselves: the rest could no longer be trusted.
 *	- ALTER TABLE ... RENAME TO, SET SCHEMA and OWNER TO of the table of grants are repeated on them.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "transactional/budget/budget.h"

static Oid budget_pool_of(Oid relid);
static Oid budget_reservations_of(Oid relid);

/*
 * Drop the tables of dropped budgets; raise an error if a table was dropped that a budget needs.
 */
static void
budget_dropped(const DcDdl *ddl)
{
	DcBudgetRow row;
	ListCell *lc;

	if (ddl->relations == NIL) /* then there is no need to read all budgets */
		return;
	foreach(lc, ddl->relations)
	{
		if (!budget_read(lfirst_oid(lc), &row))
			continue;
		(void) budget_delete(row.budget); /* so that the next call has nothing to do */
		sibling_drop(row.reservations, ddl);
		sibling_drop(row.pool, ddl);
	}
	foreach(lc, budget_read_all())
	{
		const DcBudgetRow *kept = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if ((list_member_oid(ddl->relations, kept->pool) || list_member_oid(ddl->relations, kept->reservations)) &&
			ddl_keeps(ddl, kept->budget))
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot drop a table that budget \"%s\" needs", get_rel_name(kept->budget)),
					 errhint("Drop \"%s\" instead, which drops all of its tables.", get_rel_name(kept->budget))));
	}
}

/*
 * Repeat a command on a table of grants on the other tables of the budget.
 */
static void
budget_altered(const DcDdl *ddl)
{
	siblings_follow(ddl, budget_pool_of, DC_POOL_SUFFIX);
	siblings_follow(ddl, budget_reservations_of, DC_RESERVATION_SUFFIX);
}

/*
 * Return the stock of a budget, or InvalidOid.
 */
static Oid
budget_pool_of(Oid relid)
{
	DcBudgetRow row;

	return budget_read(relid, &row) ? row.pool : InvalidOid;
}

/*
 * Return the table of reservations of a budget, or InvalidOid.
 */
static Oid
budget_reservations_of(Oid relid)
{
	DcBudgetRow row;

	return budget_read(relid, &row) ? row.reservations : InvalidOid;
}

const DcDdlHook budget_ddl = {budget_dropped, budget_altered, NULL};
