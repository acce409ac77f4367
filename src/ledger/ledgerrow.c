/*
 * ledgerrow.c
 *		The catalog dcounter.ledger.
 *
 * It is read as dcounter.counter is (catalog.c). A trigger makes restoring it
 * idempotent: pg_dump's data may meet rows that are there already.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "commands/trigger.h"
#include "ledger/ledger.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(on_ledger_row_change);

/* Columns of dcounter.ledger */
enum
{
	COL_LEDGER = 1,
	COL_LIMITS,
	COL_ENTRIES,
	COL_ENTRY_IDS,
	COL_ACCOUNTS,
	COL_PENDINGS,
	COL_OPENINGS,
	COL_AUTO_OPEN,
	NUM_COLS = COL_AUTO_OPEN
};

static bool ledger_change(Oid relid, const DcLedgerRow *row);
static bool ledger_deform(Relation rel, HeapTuple tuple, DcLedgerRow *row);
static HeapTuple ledger_form(Relation rel, const DcLedgerRow *row);

/*
 * ledger_read fetches the row of a ledger; false when there is none.
 */
bool
ledger_read(Oid relid, DcLedgerRow *row)
{
	Relation rel = table_open(catalog_relation(DC_LEDGER_TABLE), AccessShareLock);
	bool found = false;

	/* once more, if it was being replaced */
	for (int i = 0; i < 2 && !found; i++)
	{
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple tuple;

		ScanKeyInit(&key, COL_LEDGER, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(relid));
		scan = systable_beginscan(rel, catalog_relation(DC_LEDGER_INDEX), true,
								  SnapshotSelf, 1, &key);
		tuple = systable_getnext(scan);
		found = HeapTupleIsValid(tuple);
		if (found)
			(void) ledger_deform(rel, tuple, row);
		systable_endscan(scan);
	}
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * ledger_read_all returns a list of all rows (DcLedgerRow *).
 */
List *
ledger_read_all(void)
{
	Relation rel = table_open(catalog_relation(DC_LEDGER_TABLE), AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, SnapshotSelf, 0, NULL);
	List *rows = NIL;
	HeapTuple tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		DcLedgerRow *row = palloc(sizeof(DcLedgerRow));

		(void) ledger_deform(rel, tuple, row);
		rows = lappend(rows, row);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return rows;
}

/*
 * ledger_insert adds a row.
 */
void
ledger_insert(const DcLedgerRow *row)
{
	Relation rel = table_open(catalog_relation(DC_LEDGER_TABLE), RowExclusiveLock);

	CatalogTupleInsert(rel, ledger_form(rel, row));
	table_close(rel, RowExclusiveLock);
	counter_invalidate(row->ledger);
	CommandCounterIncrement();
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
	ledger_change(relid, &row);
}

/*
 * ledger_delete removes a row; false when there is none.
 */
bool
ledger_delete(Oid relid)
{
	return ledger_change(relid, NULL);
}

/*
 * ledger_change replaces a row, or removes it if there is no new one.
 */
static bool
ledger_change(Oid relid, const DcLedgerRow *row)
{
	Relation rel = table_open(catalog_relation(DC_LEDGER_TABLE), RowExclusiveLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple old;
	bool found;

	ScanKeyInit(&key, COL_LEDGER, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, catalog_relation(DC_LEDGER_INDEX), true,
							  SnapshotSelf, 1, &key);
	old = systable_getnext(scan);
	found = HeapTupleIsValid(old);
	if (found)
	{
		ItemPointerData tid = old->t_self;

		if (row != NULL)
			CatalogTupleUpdate(rel, &tid, ledger_form(rel, row));
		else
			CatalogTupleDelete(rel, &tid);
	}
	systable_endscan(scan);
	table_close(rel, RowExclusiveLock);
	if (found)
	{
		counter_invalidate(relid);
		CommandCounterIncrement();
	}
	return found;
}

/*
 * ledger_deform reads a row; false if it has a null where none may be.
 */
static bool
ledger_deform(Relation rel, HeapTuple tuple, DcLedgerRow *row)
{
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS];

	heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
	for (int i = 0; i < NUM_COLS; i++)
	{
		if (nulls[i] && i != COL_OPENINGS - 1)
			return false;
	}
	row->ledger = DatumGetObjectId(values[COL_LEDGER - 1]);
	row->limits = DatumGetObjectId(values[COL_LIMITS - 1]);
	row->entries = DatumGetObjectId(values[COL_ENTRIES - 1]);
	row->entry_ids = DatumGetObjectId(values[COL_ENTRY_IDS - 1]);
	row->accounts = DatumGetObjectId(values[COL_ACCOUNTS - 1]);
	row->pendings = DatumGetObjectId(values[COL_PENDINGS - 1]);
	row->openings = nulls[COL_OPENINGS - 1] ? InvalidOid : DatumGetObjectId(values[COL_OPENINGS - 1]);
	row->auto_open = DatumGetBool(values[COL_AUTO_OPEN - 1]);
	return true;
}

static HeapTuple
ledger_form(Relation rel, const DcLedgerRow *row)
{
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS] = {false};

	values[COL_LEDGER - 1] = ObjectIdGetDatum(row->ledger);
	values[COL_LIMITS - 1] = ObjectIdGetDatum(row->limits);
	values[COL_ENTRIES - 1] = ObjectIdGetDatum(row->entries);
	values[COL_ENTRY_IDS - 1] = ObjectIdGetDatum(row->entry_ids);
	values[COL_ACCOUNTS - 1] = ObjectIdGetDatum(row->accounts);
	values[COL_PENDINGS - 1] = ObjectIdGetDatum(row->pendings);
	values[COL_OPENINGS - 1] = ObjectIdGetDatum(row->openings);
	nulls[COL_OPENINGS - 1] = !OidIsValid(row->openings);
	values[COL_AUTO_OPEN - 1] = BoolGetDatum(row->auto_open);
	return heap_form_tuple(RelationGetDescr(rel), values, nulls);
}

/*
 * on_ledger_row_change() -> trigger, BEFORE INSERT OR UPDATE OR DELETE FOR EACH ROW on
 * dcounter.ledger. Tells sessions of the change; an INSERT of a ledger that is
 * registered already replaces its row instead.
 */
Datum
on_ledger_row_change(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	HeapTuple tuple;
	DcLedgerRow row;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be called as a trigger", "on_ledger_row_change()")));
	if (RelationGetRelid(data->tg_relation) != catalog_relation(DC_LEDGER_TABLE) ||
		!TRIGGER_FIRED_BEFORE(data->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be a trigger of the extension's own table",
						"on_ledger_row_change()")));
	tuple = TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple;
	if (!ledger_deform(data->tg_relation, tuple, &row))
		return PointerGetDatum(tuple); /* the NOT NULL constraint will tell */
	counter_invalidate(row.ledger);
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event) && ledger_change(row.ledger, &row))
		return PointerGetDatum(NULL);
	return PointerGetDatum(tuple);
}
