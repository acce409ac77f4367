/*
 * distinctrow.c
 *		The catalog dcounter.distinct_table, which has the distinct tables and their settings.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A library that is newer than the installed extension finds no such catalog: then there are no
 * such tables.
 */
#include "postgres.h"

#include "utils/fmgroids.h"

#include "base/catrow.h"
#include "base/compat.h"
#include "time/distinct/distinct.h"

PG_FUNCTION_INFO_V1(on_distinct_table_change);

#define COL_DELTA 2

static void distinctrow_columns(DcCatRow *io, void *data);

static const DcCatalog distincts = {
	.table = "distinct_table",
	.pkey = "distinct_table_pkey",
	.nkeys = 1,
	.size = sizeof(DcDistinctRow),
	.columns = distinctrow_columns,
	.tells = true,
};

/*
 * Read or write the columns of dcounter.distinct_table, in their order.
 */
static void
distinctrow_columns(DcCatRow *io, void *data)
{
	DcDistinctRow *row = data;

	cat_oid(io, &row->relid);
	cat_oid(io, &row->delta);
	cat_int4(io, &row->precision);
	cat_duration(io, &row->bucket, true);
	cat_duration(io, &row->keep, true);
	cat_time(io, &row->newest);
}

/*
 * Return true if the installed extension has the catalog.
 */
static bool
distinctrow_exists(void)
{
	return OidIsValid(catalog_relation_if_any(distincts.table));
}

/*
 * distinct_row_read fetches the row of a table; false when there is none.
 */
bool
distinct_row_read(Oid relid, DcDistinctRow *row)
{
	return distinctrow_exists() && cat_read(&distincts, row, ObjectIdGetDatum(relid));
}

/*
 * distinct_row_read_delta fetches the row of the table that has these deltas.
 */
bool
distinct_row_read_delta(Oid delta, DcDistinctRow *row)
{
	return distinctrow_exists() && cat_read_by(&distincts, row, "distinct_table_delta_idx", COL_DELTA, ObjectIdGetDatum(delta));
}

/*
 * distinct_rows lists all of them.
 */
List *
distinct_rows(void)
{
	return distinctrow_exists() ? cat_read_all(&distincts, SnapshotSelf) : NIL;
}

/*
 * distinct_row_insert adds a row.
 */
void
distinct_row_insert(const DcDistinctRow *row)
{
	cat_insert(&distincts, row);
}

/*
 * distinct_row_update changes the settings of a table; false when there is no row.
 */
bool
distinct_row_update(const DcDistinctRow *row)
{
	return cat_update(&distincts, row);
}

/*
 * distinct_row_delete removes the row of a table; false when there is none.
 */
bool
distinct_row_delete(Oid relid)
{
	return distinctrow_exists() && cat_delete(&distincts, ObjectIdGetDatum(relid)) > 0;
}

/*
 * on_distinct_table_change() -> trigger on dcounter.distinct_table
 */
Datum
on_distinct_table_change(PG_FUNCTION_ARGS)
{
	return cat_on_change(fcinfo, &distincts, "on_distinct_table_change()");
}
