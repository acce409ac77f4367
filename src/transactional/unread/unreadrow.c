/*
 * unreadrow.c
 *		The catalog dcounter.unread, which has the unread tables, and their counter tables.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "utils/fmgroids.h"

#include "base/catrow.h"
#include "base/compat.h"
#include "transactional/unread/unread.h"

PG_FUNCTION_INFO_V1(on_unread_row_change);

#define COL_COUNTER 2

static void unreadrow_columns(DcCatRow *io, void *data);

static const DcCatalog unreads = {
	.table = "unread",
	.pkey = "unread_pkey",
	.nkeys = 1,
	.size = sizeof(DcUnreadRow),
	.columns = unreadrow_columns,
	.tells = true,
};

/*
 * Read or write the columns of a row of dcounter.unread.
 */
static void
unreadrow_columns(DcCatRow *io, void *data)
{
	DcUnreadRow *row = data;

	cat_oid(io, &row->unread);
	cat_oid(io, &row->counter);
}

/*
 * unread_read fetches the row of a table; false when there is none.
 */
bool
unread_read(Oid relid, DcUnreadRow *row)
{
	return cat_read(&unreads, row, ObjectIdGetDatum(relid));
}

/*
 * unread_read_of lists the tables (OIDs) of a counter table.
 */
List *
unread_read_of(Oid counter)
{
	DcCatScan scan;
	ScanKeyData key;
	DcUnreadRow row;
	List *tables = NIL;

	ScanKeyInit(&key, COL_COUNTER, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(counter));
	cat_scan_begin(&scan, &unreads, "unread_counter_idx", AccessShareLock, &key, 1);
	while (cat_scan_next(&scan, ForwardScanDirection, &row))
		tables = list_append_unique_oid(tables, row.unread);
	cat_scan_end(&scan);
	return tables;
}

/*
 * unread_insert adds a row.
 */
void
unread_insert(const DcUnreadRow *row)
{
	cat_insert(&unreads, row);
}

/*
 * unread_delete removes the row of a table; false when there is none.
 */
bool
unread_delete(Oid relid)
{
	return cat_delete(&unreads, ObjectIdGetDatum(relid)) > 0;
}

/*
 * on_unread_row_change() -> trigger on dcounter.unread
 */
Datum
on_unread_row_change(PG_FUNCTION_ARGS)
{
	return cat_on_change(fcinfo, &unreads, "on_unread_row_change()");
}
