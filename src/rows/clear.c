/*
 * clear.c
 *		Locking shard rows for compaction, and clearing them, without SQL.
 *
 * A row is read first, and locked by the place of the version that was read. The lock
 * is had only if that is still the latest version. As versions never change, the amounts that
 * were read are the row's then, and stay so: no other transaction can write the row
 * until this one has ended. To lock does not wait. It is the lock that DELETE needs, so that
 * a row that others have locked FOR KEY SHARE is passed over as well.
 *
 * WAL, visibility and logical replication are those of heap_update() and heap_delete(),
 * which also tell serializable transactions, as far as a statement would have done:
 * the caller is not serializable (compactdirect.c).
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "rows/clear.h"
#include "rows/direct.h"
#include "rows/sharedhints.h"
#include "storage/bufmgr.h"

static void rows_changed_error(void);

/*
 * row_lock locks a row; false if it was changed since it was read, or is locked.
 */
bool
row_lock(DcDirectRel *rel, const DcLiveRow *row)
{
	HeapTupleData tuple;
	TM_FailureData failure;
	TM_Result result;
	Buffer buffer;

	tuple.t_self = row->tid;
	result = heap_lock_tuple(rel->heap, &tuple, GetCurrentCommandId(true), LockTupleExclusive,
							 LockWaitSkip, false, &buffer, &failure);
	ReleaseBuffer(buffer);
	return result == TM_Ok;
}

/*
 * row_zero sets the amounts of a row that was locked to zero. updated_at stays.
 */
void
row_zero(DcDirectRel *rel, const DcDeltaKey *key, const DcLiveRow *row)
{
	ItemPointerData tid = row->tid;

	if (!direct_set_zero(rel, key, row->shard, row->at, &tid))
		rows_changed_error();
}

/*
 * row_delete deletes a row that was locked.
 */
void
row_delete(DcDirectRel *rel, const DcDeltaKey *key, const DcLiveRow *row)
{
	ItemPointerData tid = row->tid;
	TM_FailureData failure;

	if (table_tuple_delete(rel->heap, &tid, GetCurrentCommandId(true), InvalidSnapshot,
						   InvalidSnapshot, true, &failure, false) != TM_Ok)
		rows_changed_error();
	shared_hint_remove(key, row->shard);
}

/*
 * rows_changed_error is for what only code of the owner can do, in this transaction.
 */
static void
rows_changed_error(void)
{
	elog(ERROR, "locked shard rows have changed");
}
