/*
 * distinctscan.c
 *		Rows of a distinct table and of its deltas, without SQL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Rows are read by the index on the key, in the order of keys, and in any snapshot; under
 * SERIALIZABLE that takes the locks by which the server finds conflicts. A version whose key is not
 * in the requested range is skipped; an owner could create one directly, without an index.
 *
 * A caller may read in a memory context that it resets from one row to the next. What the server's
 * scan allocates on its way, such as its list of dead entries, must outlive that: it is in the
 * context in which the scan was begun.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/rowread.h"
#include "core/rows/keyrow.h"
#include "time/distinct/distinct.h"

static bool distinctscan_next_row(DcDistinctScan *scan);
static bool distinctscan_is_passed(DcDistinctScan *scan);

/*
 * distinctscan_begin starts to read the rows whose keys are in a range, both ends included; without
 * an end (NULL) all those from its beginning. The bytes of both are copied.
 */
void
distinctscan_begin(DcDistinctScan *scan, DcDistinctRel *rel, int which, Snapshot snapshot,
				   const char *from, uint32 from_len, const char *to, uint32 to_len)
{
	bool one = to != NULL && from_len == to_len && memcmp(from, to, to_len) == 0;
	ScanKeyData keys[2];
	int nkeys = 1;

	scan->from = PointerGetDatum(cstring_to_text_with_len(from, from_len));
	ScanKeyEntryInitialize(&keys[0], 0, 1, one ? BTEqualStrategyNumber : BTGreaterEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, one ? F_TEXTEQ : F_TEXT_GE,
						   scan->from);
	if (to != NULL && !one)
		ScanKeyEntryInitialize(&keys[nkeys++], 0, 1, BTLessEqualStrategyNumber, InvalidOid, C_COLLATION_OID,
							   F_TEXT_LE, PointerGetDatum(cstring_to_text_with_len(to, to_len)));
	scan->rel = rel;
	scan->which = which;
	scan->any = false;
	scan->cxt = CurrentMemoryContext;
	scan->key_copy = NULL;
	scan->slot = table_slot_create(rel->heaps[which], NULL);
	scan->visits = 0;
	scan->cut = false;
	ItemPointerSetInvalid(&scan->past);
	scan->scan = compat_index_beginscan(rel->heaps[which], rel->indexes[which], snapshot, nkeys);
	scan->scan->xs_want_itup = to == NULL; /* for distinctscan_place() */
	index_rescan(scan->scan, keys, nkeys, NULL, 0);
}

/*
 * distinctscan_next goes to the next row; false if there is none. Key and sketch live until the
 * next call.
 */
bool
distinctscan_next(DcDistinctScan *scan)
{
	const DcDistinct *distinct = scan->rel->distinct;
	const AttrNumber *atts = distinct->layouts[scan->which].atts;
	MemoryContext old;

	old = MemoryContextSwitchTo(scan->cxt);
	if (scan->key_copy != NULL)
		pfree(scan->key_copy);
	scan->key_copy = NULL;
	scan->any = distinctscan_next_row(scan);
	if (scan->any)
	{
		Datum stored = slot_datum(scan->slot, atts[DISTINCT_KEY], TEXTOID);
		text *key = DatumGetTextPP(stored);

		if ((Pointer) key != DatumGetPointer(stored))
			scan->key_copy = (char *) key;
		scan->key.data = VARDATA_ANY(key);
		scan->key.len = VARSIZE_ANY_EXHDR(key);
		scan->sketch = slot_datum(scan->slot, atts[DISTINCT_SKETCH], distinct->type);
	}
	MemoryContextSwitchTo(old);
	return scan->any;
}

/*
 * Go to the next row that the snapshot shows, as index_getnext_slot() does, but give up after too
 * many others.
 */
static bool
distinctscan_next_row(DcDistinctScan *scan)
{
	IndexScanDesc index = scan->scan;

	while (index->xs_heap_continue || index_getnext_tid(index, ForwardScanDirection) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (ItemPointerIsValid(&scan->past) && distinctscan_is_passed(scan))
			continue;
		if (index_fetch_heap(index, scan->slot))
			return true;
		if (scan->visits > 0 && --scan->visits == 0)
		{
			scan->cut = true;
			return false;
		}
	}
	return false;
}

/*
 * Return true if the entry that the scan is at must be skipped. Entries of one key come in the
 * order of their places.
 */
static bool
distinctscan_is_passed(DcDistinctScan *scan)
{
	const text *from = (const text *) DatumGetPointer(scan->from);
	bool isnull; /* the scan leaves out nulls */
	Datum stored = index_getattr(scan->scan->xs_itup, 1, scan->scan->xs_itupdesc, &isnull);
	text *key = DatumGetTextPP(stored);
	bool same = bytes_compare(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), VARDATA_ANY(from), VARSIZE_ANY_EXHDR(from)) == 0;

	if ((Pointer) key != DatumGetPointer(stored))
		pfree(key);
	if (same && ItemPointerCompare(&scan->scan->xs_heaptid, &scan->past) <= 0)
		return true;
	ItemPointerSetInvalid(&scan->past);
	return false;
}

/*
 * Return the place of the row of the entry that the scan, which has no end of its range, is at, and
 * its key. Both live until the next call.
 */
ItemPointer
distinctscan_place(DcDistinctScan *scan, DcKey *key)
{
	bool isnull; /* the scan leaves out nulls */

	key_from_text(index_getattr(scan->scan->xs_itup, 1, scan->scan->xs_itupdesc, &isnull), key);
	return &scan->scan->xs_heaptid;
}

/*
 * End a scan. The last row that it has returned is gone with it.
 */
void
distinctscan_end(DcDistinctScan *scan)
{
	index_endscan(scan->scan);
	ExecDropSingleTupleTableSlot(scan->slot);
}

/*
 * distinct_make_row creates a row.
 */
TupleTableSlot *
distinct_make_row(DcDistinctRel *rel, int which, const char *key, uint32 len, Datum sketch)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel->heaps[which]), &TTSOpsHeapTuple);
	Datum values[] = {[DISTINCT_KEY] = PointerGetDatum(cstring_to_text_with_len(key, len)), [DISTINCT_SKETCH] = sketch};

	keyrow_store(slot, rel->heaps[which], rel->distinct->layouts[which].atts, values, NULL, DISTINCT_NUM_COLUMNS);
	return slot;
}

/*
 * distinct_insert_row inserts a row and its index entries.
 */
void
distinct_insert_row(DcDistinctRel *rel, int which, const char *key, uint32 len, Datum sketch)
{
	TupleTableSlot *slot = distinct_make_row(rel, which, key, len, sketch);

	keyrow_insert(rel->heaps[which], slot);
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * distinct_insert_row_at_once inserts a row without waiting; false, with nothing done, if there may
 * be a row of that key, for example of a transaction in progress.
 */
bool
distinct_insert_row_at_once(DcDistinctRel *rel, int which, const char *key, uint32 len, Datum sketch)
{
	TupleTableSlot *slot = distinct_make_row(rel, which, key, len, sketch);
	bool inserted = keyrow_try_insert(rel->heaps[which], rel->indexes[which], slot);

	ExecDropSingleTupleTableSlot(slot);
	return inserted;
}
