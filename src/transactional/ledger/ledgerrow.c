/*
 * ledgerrow.c
 *		The catalog dcounter.ledger, which has the tables and settings of ledgers.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "utils/snapmgr.h"

#include "base/catrow.h"
#include "base/compat.h"
#include "transactional/ledger/ledger.h"

PG_FUNCTION_INFO_V1(on_ledger_row_change);

static void ledgerrow_columns(DcCatRow *io, void *data);

static const DcCatalog ledger_catalog = {
	.table = "ledger",
	.pkey = "ledger_pkey",
	.nkeys = 1,
	.size = sizeof(DcLedgerRow),
	.columns = ledgerrow_columns,
	.tells = true,
};

/*
 * Read or write the columns of a row of dcounter.ledger.
 */
static void
ledgerrow_columns(DcCatRow *io, void *data)
{
	DcLedgerRow *row = data;

	cat_oid(io, &row->ledger);
	cat_oid(io, &row->limits);
	cat_oid(io, &row->entries);
	cat_oid(io, &row->entry_ids);
	cat_oid(io, &row->accounts);
	cat_oid(io, &row->pendings);
	cat_oid(io, &row->openings);
	cat_bool(io, &row->auto_open);
}

/*
 * ledger_read fetches the row of a ledger; false when there is none.
 */
bool
ledger_read(Oid relid, DcLedgerRow *row)
{
	return cat_read(&ledger_catalog, row, ObjectIdGetDatum(relid));
}

/*
 * ledger_read_all returns a list of all rows (DcLedgerRow *).
 */
List *
ledger_read_all(void)
{
	return cat_read_all(&ledger_catalog, SnapshotSelf);
}

/*
 * ledger_insert adds a row.
 */
void
ledger_insert(const DcLedgerRow *row)
{
	cat_insert(&ledger_catalog, row);
}

/*
 * ledger_set_openings notes the table of balances of detached entries.
 */
void
ledger_set_openings(Oid relid, Oid openings)
{
	DcLedgerRow row;

	if (!ledger_read(relid, &row))
		return;
	row.openings = openings;
	(void) cat_update(&ledger_catalog, &row);
}

/*
 * ledger_delete removes a row; false when there is none.
 */
bool
ledger_delete(Oid relid)
{
	return cat_delete(&ledger_catalog, ObjectIdGetDatum(relid)) > 0;
}

/*
 * on_ledger_row_change() -> trigger on dcounter.ledger
 */
Datum
on_ledger_row_change(PG_FUNCTION_ARGS)
{
	return cat_on_change(fcinfo, &ledger_catalog, "on_ledger_row_change()");
}
