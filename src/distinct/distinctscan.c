/*
 * distinctscan.c
 *		Rows of a distinct table and of its deltas, without SQL.
 *
 * Rows are read by the index on the key, in the order of keys, and in any snapshot; under SERIALIZABLE that takes
 * the locks by which the server finds conflicts. A version whose key is not in the range that was asked for, as an owner
 * could make one by hand without an index, is passed over.
 *
 * A caller may read in a memory context that it resets from one row to the next. What the server's scan allocates on its
 * way, such as its list of dead entries, must outlive that: it is in the context in which the scan was begun.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/compat.h"
#include "base/rowread.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "distinct/distinct.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "rows/insert.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

/*
 * distinctscan_begin starts to read the rows whose keys are in a range, both ends included; without an end (NULL) all
 * those from its beginning. The bytes of both are copied.
 */
void
distinctscan_begin(DcDistinctScan *scan, DcDistinctRel *rel, int which, Snapshot snapshot,
				   const char *from, uint32 from_len, const char *to, uint32 to_len)
{
	bool one = to != NULL && from_len == to_len && memcmp(from, to, to_len) == 0;
	ScanKeyData keys[2];
	int nkeys = 1;

	ScanKeyEntryInitialize(&keys[0], 0, 1, one ? BTEqualStrategyNumber : BTGreaterEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, one ? F_TEXTEQ : F_TEXT_GE,
						   PointerGetDatum(cstring_to_text_with_len(from, from_len)));
	if (to != NULL && !one)
		ScanKeyEntryInitialize(&keys[nkeys++], 0, 1, BTLessEqualStrategyNumber, InvalidOid, C_COLLATION_OID,
							   F_TEXT_LE, PointerGetDatum(cstring_to_text_with_len(to, to_len)));
	scan->rel = rel;
	scan->which = which;
	scan->any = false;
	scan->cxt = CurrentMemoryContext;
	scan->key_copy = NULL;
	scan->slot = table_slot_create(rel->heaps[which], NULL);
	scan->scan = compat_index_beginscan(rel->heaps[which], rel->indexes[which], snapshot, nkeys);
	index_rescan(scan->scan, keys, nkeys, NULL, 0);
}

/*
 * distinctscan_next goes to the next row; false if there is none. Key and sketch live until the next call.
 */
bool
distinctscan_next(DcDistinctScan *scan)
{
	const DcDistinct *distinct = scan->rel->distinct;
	const AttrNumber *atts = distinct->layouts[scan->which].atts;
	MemoryContext old;

	CHECK_FOR_INTERRUPTS();
	old = MemoryContextSwitchTo(scan->cxt);
	if (scan->key_copy != NULL)
		pfree(scan->key_copy);
	scan->key_copy = NULL;
	scan->any = index_getnext_slot(scan->scan, ForwardScanDirection, scan->slot);
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

void
distinctscan_end(DcDistinctScan *scan)
{
	index_endscan(scan->scan);
	ExecDropSingleTupleTableSlot(scan->slot);
}

/*
 * distinct_make_row makes a row. Columns that are not ours are dropped ones.
 */
TupleTableSlot *
distinct_make_row(DcDistinctRel *rel, int which, const char *key, uint32 len, Datum sketch)
{
	const AttrNumber *atts = rel->distinct->layouts[which].atts;
	TupleDesc desc = RelationGetDescr(rel->heaps[which]);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
	Datum *values = palloc0(desc->natts * sizeof(Datum));
	bool *nulls = palloc(desc->natts * sizeof(bool));
	HeapTuple tuple;

	memset(nulls, true, desc->natts * sizeof(bool));
	nulls[atts[DISTINCT_KEY] - 1] = nulls[atts[DISTINCT_SKETCH] - 1] = false;
	values[atts[DISTINCT_KEY] - 1] = PointerGetDatum(cstring_to_text_with_len(key, len));
	values[atts[DISTINCT_SKETCH] - 1] = sketch;
	tuple = heap_form_tuple(desc, values, nulls);
	tuple->t_tableOid = RelationGetRelid(rel->heaps[which]);
	ExecStoreHeapTuple(tuple, slot, true);
	return slot;
}

/*
 * distinct_insert_row inserts a row and its index entries.
 */
void
distinct_insert_row(DcDistinctRel *rel, int which, const char *key, uint32 len, Datum sketch)
{
	TupleTableSlot *slot = distinct_make_row(rel, which, key, len, sketch);
	DcIndexes indexes;

	table_tuple_insert(rel->heaps[which], slot, GetCurrentCommandId(true), 0, NULL);
	indexes_open(&indexes, rel->heaps[which]);
	indexes_insert(&indexes, rel->heaps[which], InvalidOid, &slot, 1);
	indexes_close(&indexes);
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * distinct_insert_row_at_once does so without waiting; false, with nothing done, if there may be a row of that key, of a
 * transaction in progress, say.
 */
bool
distinct_insert_row_at_once(DcDistinctRel *rel, int which, const char *key, uint32 len, Datum sketch)
{
	TupleTableSlot *slot = distinct_make_row(rel, which, key, len, sketch);
	Relation heap = rel->heaps[which];
	TransactionId xid = GetCurrentTransactionId();
	DcIndexes indexes;
	uint32 token;
	bool taken;

	indexes_open(&indexes, heap);
	token = SpeculativeInsertionLockAcquire(xid);
	table_tuple_insert_speculative(heap, slot, GetCurrentCommandId(true), 0, NULL, token);
	indexes_try_insert(&indexes, heap, &slot, 1, &taken);
	table_tuple_complete_speculative(heap, slot, token, !taken);
	SpeculativeInsertionLockRelease(xid);
	indexes_close(&indexes);
	ExecDropSingleTupleTableSlot(slot);
	return !taken;
}
