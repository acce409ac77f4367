/*
 * keyrow.c
 *		Rows with a unique key, without SQL: find, lock, replace, insert.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The tables have nothing on them but plain indexes (insert.c); the room that a table belongs to
 * makes sure of that, and says by which index a row is found, what a row looks like, and which
 * isolation it has.
 *
 * A row is found as a snapshot shows it, or as it is now. In the second case the index is read with
 * a dirty snapshot, which shows rows of any transaction, and a transaction in progress is waited
 * for.
 *
 * A row that is not there is inserted as by INSERT ... ON CONFLICT DO NOTHING (see
 * execIndexing.c of the server): speculatively, so that a transaction that comes across it
 * before it is complete waits only until it is. If the index then says that there may be
 * another row of the key, ours is taken back. So of two transactions that insert the same key
 * at the same time, one finds the row of the other, or both try again. During REINDEX
 * CONCURRENTLY there are two such indexes, and a session may use either. So all unique
 * indexes on the key are checked, in a fixed order.
 *
 * A version is replaced only if it is the latest one. WAL and logical decoding are those of
 * heap_insert() and heap_update(). Nothing here makes a change visible to the rest of the command.
 *
 * Rows of totals and shard rows, which are found by remembered places, have their own way
 * (totalrow.c, direct.c).
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "core/rows/insert.h"
#include "core/rows/keyrow.h"

static bool wait_for_others(const SnapshotData *dirty);

/*
 * Begin to scan for the rows of a key, or of its first columns.
 */
IndexScanDesc
keyrow_scan(Relation heap, Relation index, ScanKeyData *keys, int nkeys, Snapshot snapshot)
{
	IndexScanDesc scan = compat_index_beginscan(heap, index, snapshot, nkeys);

	index_rescan(scan, keys, nkeys, NULL, 0);
	return scan;
}

/*
 * Find the first row of a key that a snapshot shows.
 */
bool
keyrow_find(Relation heap, Relation index, ScanKeyData *keys, int nkeys, Snapshot snapshot, TupleTableSlot *slot)
{
	IndexScanDesc scan = keyrow_scan(heap, index, keys, nkeys, snapshot);
	bool found = index_getnext_slot(scan, ForwardScanDirection, slot);

	index_endscan(scan);
	return found;
}

/*
 * Find the row of a key as it is now. Wait for transactions in progress that have written or
 * deleted it.
 */
bool
keyrow_find_or_wait(Relation heap, Relation index, ScanKeyData *keys, int nkeys, TupleTableSlot *slot)
{
	SnapshotData dirty;

	InitDirtySnapshot(dirty);
	do
	{
		CHECK_FOR_INTERRUPTS();
		ExecClearTuple(slot);
		if (!keyrow_find(heap, index, keys, nkeys, &dirty, slot))
			return false;
	} while (wait_for_others(&dirty));
	return true;
}

/*
 * Wait once for a transaction in progress that has written or deleted the row of a key; false if
 * there is none.
 */
bool
keyrow_wait(Relation heap, Relation index, ScanKeyData *keys, int nkeys, TupleTableSlot *slot)
{
	SnapshotData dirty;
	bool found;

	InitDirtySnapshot(dirty);
	found = keyrow_find(heap, index, keys, nkeys, &dirty, slot);
	ExecClearTuple(slot);
	return found && wait_for_others(&dirty);
}

/*
 * Wait for the transaction that a dirty snapshot has met at the row that it has shown, or until it
 * is known whether a row that is being inserted stays; false if there is none.
 */
static bool
wait_for_others(const SnapshotData *dirty)
{
	TransactionId xid = TransactionIdIsValid(dirty->xmin) ? dirty->xmin : dirty->xmax;

	if (!TransactionIdIsValid(xid))
		return false;
	if (dirty->speculativeToken != 0 && xid == dirty->xmin)
		SpeculativeInsertionWait(xid, dirty->speculativeToken);
	else
		XactLockTableWait(xid, NULL, NULL, XLTW_None);
	return true;
}

/*
 * Lock a version of a row; false if it is not the latest one, or, without waiting, if another
 * transaction has it.
 */
bool
keyrow_lock_version(Relation heap, const ItemPointerData *tid, LockTupleMode mode, LockWaitPolicy wait)
{
	HeapTupleData tuple = {.t_self = *tid};
	TM_FailureData failure;
	Buffer buffer;
	bool locked = heap_lock_tuple(heap, &tuple, GetCurrentCommandId(true), mode, wait, false, &buffer, &failure) == TM_Ok;

	ReleaseBuffer(buffer);
	return locked;
}

/*
 * Make a row of n columns, which are at atts. The table's other columns are dropped ones.
 */
HeapTuple
keyrow_form(Relation heap, const AttrNumber *atts, const Datum *values, const bool *nulls, int n)
{
	TupleDesc desc = RelationGetDescr(heap);
	Datum row[MaxTupleAttributeNumber];
	bool row_nulls[MaxTupleAttributeNumber];
	HeapTuple tuple;

	memset(row_nulls, true, desc->natts * sizeof(bool));
	for (int i = 0; i < n; i++)
	{
		row[atts[i] - 1] = values[i];
		row_nulls[atts[i] - 1] = nulls != NULL && nulls[i];
	}
	tuple = heap_form_tuple(desc, row, row_nulls);
	tuple->t_tableOid = RelationGetRelid(heap);
	return tuple;
}

/*
 * Put one into a slot for heap tuples.
 */
void
keyrow_store(TupleTableSlot *slot, Relation heap, const AttrNumber *atts, const Datum *values, const bool *nulls, int n)
{
	ExecStoreHeapTuple(keyrow_form(heap, atts, values, nulls, n), slot, true);
}

/*
 * Write a row in place of the version at tid; false if that is not the latest one, or, without
 * waiting, if another transaction has it. The primary key stays, so an index of it is not asked
 * whether it is unique.
 */
bool
keyrow_replace(Relation heap, const ItemPointerData *tid, TupleTableSlot *slot, bool wait)
{
	ItemPointerData place = *tid;
	TM_FailureData failure;
	DcIndexes indexes;
	bool new_entries;

	if (!wait && !COMPAT_UPDATE_NEED_NOT_WAIT)
	{
		if (!keyrow_lock_version(heap, tid, LockTupleNoKeyExclusive, LockWaitSkip))
			return false;
		wait = true;
	}
	if (compat_tuple_update(heap, &place, slot, GetCurrentCommandId(true), wait, &failure, &new_entries) != TM_Ok)
		return false;
	if (new_entries) /* it is not on the page of the old version */
	{
		indexes_open(&indexes, heap);
		indexes_insert_version(&indexes, heap, slot);
		indexes_close(&indexes);
	}
	return true;
}

/*
 * Insert a row. Raise 23505 if there is another one of its key.
 */
void
keyrow_insert(Relation heap, TupleTableSlot *slot)
{
	DcIndexes indexes;

	table_tuple_insert(heap, slot, GetCurrentCommandId(true), 0, NULL);
	indexes_open(&indexes, heap);
	indexes_insert(&indexes, heap, NULL, &slot, 1);
	indexes_close(&indexes);
}

/*
 * Insert a row; false, with nothing done, if there may be another one of its key, which is that
 * of an index: it may be of a transaction in progress. Does not wait for that.
 */
bool
keyrow_try_insert(Relation heap, Relation index, TupleTableSlot *slot)
{
	TransactionId xid = GetCurrentTransactionId();
	DcIndexes indexes;
	uint32 token;
	bool taken;

	indexes_open(&indexes, heap); /* before the row is there */
	token = SpeculativeInsertionLockAcquire(xid);
	table_tuple_insert_speculative(heap, slot, GetCurrentCommandId(true), 0, NULL, token);
	indexes_try_insert(&indexes, heap, index, &slot, 1, &taken);
	table_tuple_complete_speculative(heap, slot, token, !taken);
	SpeculativeInsertionLockRelease(xid);
	if (!taken)
		indexes_insert(&indexes, heap, index, &slot, 1);
	indexes_close(&indexes);
	return !taken;
}
