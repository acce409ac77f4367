/*
 * clear.c
 *		Locking shard rows for compaction, and clearing them, without SQL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A row is read first, and locked by the place of the version that was read. The lock is
 * granted only if that is still the latest version. As versions never change, the amounts that
 * were read are the row's then, and stay so: no other transaction can write the row until this
 * one has ended. Locking does not wait. It is the lock that DELETE needs, so that a row that other
 * transactions have locked FOR KEY SHARE is skipped as well.
 *
 * Between locking and clearing, code of the table's owner may have changed the row in this
 * transaction. So the lock is asked for again, which is an error if that has happened.
 *
 * WAL, visibility and logical replication are those of heap_update() and heap_delete(),
 * which also tell serializable transactions, as far as a statement would have done:
 * the caller is not serializable (compactdirect.c).
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"

#include "base/compat.h"
#include "core/rows/clear.h"
#include "core/rows/direct.h"
#include "core/rows/keyrow.h"
#include "core/rows/sharedhints.h"

static void check_locked(DcDirectRel *rel, const DcLiveRow *row);
static void rows_changed_error(DcDirectRel *rel);

/*
 * row_lock locks a row; false if it was changed since it was read, or is locked.
 */
bool
row_lock(DcDirectRel *rel, const DcLiveRow *row)
{
	return keyrow_lock_version(rel->heap, &row->tid, LockTupleExclusive, LockWaitSkip);
}

/*
 * row_zero sets the amounts of a row that was locked to zero. updated_at stays.
 */
void
row_zero(DcDirectRel *rel, const DcDeltaKey *key, const DcLiveRow *row)
{
	ItemPointerData tid = row->tid;

	check_locked(rel, row);
	if (!direct_set_zero(rel, key, row->shard, row->at, &tid))
		rows_changed_error(rel);
}

/*
 * row_delete deletes a row that was locked.
 */
void
row_delete(DcDirectRel *rel, const DcDeltaKey *key, const DcLiveRow *row)
{
	ItemPointerData tid = row->tid;
	TM_FailureData failure;

	check_locked(rel, row);
	if (compat_tuple_delete(rel->heap, &tid, true, &failure) != TM_Ok)
		rows_changed_error(rel);
	shared_hint_remove(key, row->shard);
}

/*
 * check_locked makes sure that a row that was locked is still as it was.
 */
static void
check_locked(DcDirectRel *rel, const DcLiveRow *row)
{
	if (!row_lock(rel, row))
		rows_changed_error(rel);
}

/*
 * rows_changed_error raises 55000 for a change that only code of the owner can have made, in
 * this transaction.
 */
static void
rows_changed_error(DcDirectRel *rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("rows of \"%s\" were changed while they were being compacted",
					RelationGetRelationName(rel->heap)),
			 errdetail("Code of its owner did that.")));
}
