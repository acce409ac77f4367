/*
 * budgetshape.c
 *		What the tables of a budget must look like, as budgettable.c makes them; see
 *		core/table/shape.c.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "utils/lsyscache.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "core/table/shape.h"
#include "transactional/budget/budget.h"

static Oid budget_check_shape(Oid relid, const DcShape *shape);

static const DcShape grant_shape = {
	.relkinds = "r",
	.logged = true,
	.nkeys = 1,
	.keys = {0},
	.ncolumns = 9,
	.columns = {{"grant_id", INT8OID},
				{"key", TEXTOID, C_COLLATION_OID},
				{"name", TEXTOID, C_COLLATION_OID},
				{"priority", INT4OID},
				{"effective_at", TIMESTAMPTZOID},
				{"expires_at", TIMESTAMPTZOID},
				{"amount", INT8OID},
				{"lapsed", INT8OID},
				{"live", BOOLOID}}};

static const DcShape reservation_shape = {
	.relkinds = "r",
	.logged = true,
	.nkeys = 1,
	.keys = {0},
	.ncolumns = 14,
	.columns = {{"reservation_id", UUIDOID},
				{"keys", TEXTARRAYOID, C_COLLATION_OID},
				{"amounts", INT8ARRAYOID},
				{"at_least", INT8ARRAYOID},
				{"ttl", INTERVALOID},
				{"reserved", INT8ARRAYOID},
				{"grants", INT8ARRAYOID},
				{"taken", INT8ARRAYOID},
				{"owners", INT8ARRAYOID},
				{"state", TEXTOID, C_COLLATION_OID},
				{"settled", INT8ARRAYOID, InvalidOid, SHAPE_NULLABLE},
				{"created_at", TIMESTAMPTZOID},
				{"expires_at", TIMESTAMPTZOID},
				{"ended_at", TIMESTAMPTZOID, InvalidOid, SHAPE_NULLABLE}}};

/*
 * budget_check_shapes raises 42809 unless the tables of a budget, which are locked, are as they
 * were made, and 55000 unless all have one owner. Returns the index of the reservations' ids,
 * or InvalidOid if it cannot be scanned without SQL.
 */
Oid
budget_check_shapes(const DcBudgetRow *row)
{
	Oid index;

	(void) budget_check_shape(row->budget, &grant_shape);
	index = budget_check_shape(row->reservations, &reservation_shape);
	if (relation_owner(row->pool) != relation_owner(row->budget) ||
		relation_owner(row->reservations) != relation_owner(row->budget))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the tables of budget \"%s\" have different owners", get_rel_name(row->budget)),
				 errhint("Use ALTER TABLE ... OWNER TO to give all of them to one role.")));
	return index;
}

/*
 * Raise 42809 unless a table has a shape. Return the index of its key.
 */
static Oid
budget_check_shape(Oid relid, const DcShape *shape)
{
	Relation rel = table_open_present(relid, AccessShareLock);
	DcTableLayout layout;

	shape_check(rel, shape, &layout);
	table_close(rel, NoLock);
	return layout.index;
}
