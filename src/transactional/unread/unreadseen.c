/*
 * unreadseen.c
 *		Reading and writing the rows of unread tables without SQL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A row says how many increments of a key a member has read. Rows of the member '' say how many
 * increments of a key are not in its counter's rows any more (unreadlost.c).
 *
 * Rows are read in the active snapshot, with the locks of SERIALIZABLE. They are written as of
 * now at every isolation level: the greater number stays, whichever mark comes first, so a row
 * that a snapshot does not show is no reason to fail with 40001. To find the row to write, the
 * unique index is checked with a dirty snapshot, which shows rows of any transaction, and one that
 * is in progress is waited for. Then
 *
 *	- the transaction's one snapshot shows another version of the row, or the row where there is
 *	  none any more, or none
 *		where there is one: the change waits for the end (unreadlater.c);
 *	- there is a row, and nothing to change: nothing is written, and no lock is left;
 *	- there is a row, and it is updated. If another transaction was faster, all begins again;
 *	- there is none, and one is inserted (core/rows/keyrow.c): of two that insert the same row one
 *	  finds that of the
 *		other, or both try again.
 *
 * A row may say more than there is, if increments were lost. The next mark lowers it to the
 * number there is. That must not happen just because another session has marked more than this
 * call has read. If number and row are read in one snapshot, a row that the snapshot shows is
 * not one of those. Amounts in memory belong to no snapshot, and are added after those who have
 * committed them are visible. So there the number is read again, when the row's writer has ended
 * altogether, and if it is still less, it is what there is. For a counter on another server the
 * time of the number is unknown.
 *
 * A row that is updated stays locked until the transaction ends, like any row. Transactions that
 * write several rows in different orders can deadlock, which the server finds out.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/rowread.h"
#include "core/rows/keyrow.h"
#include "transactional/unread/unread.h"

static bool index_is_usable(Relation index);
static bool find_by_heap(DcSeenRel *rel, ScanKeyData *keys, TupleTableSlot *slot);
static bool is_hidden(DcSeenRel *rel, Datum member, Datum key, bool exists, TupleTableSlot *found);
static bool any_shown(DcSeenRel *rel, ScanKeyData *keys, Snapshot snapshot, int64 *seen);
static bool may_take_back(DcSeenRel *rel, TupleTableSlot *found, DcSeenChange *change, bool *again);
static TransactionId writer_of(TupleTableSlot *slot);
static bool unreadseen_find_row(DcSeenRel *rel, Datum member, Datum key, TupleTableSlot *found);
static bool unreadseen_put_row(DcSeenRel *rel, Datum member, Datum key, int64 seen, bool exists, TupleTableSlot *found);
static int64 number_in(DcSeenRel *rel, TupleTableSlot *slot);
static bool is_shown(DcSeenRel *rel, TupleTableSlot *slot, Snapshot snapshot);

/*
 * seen_channel returns the member whose rows are about the counter.
 */
Datum
seen_channel(void)
{
	return PointerGetDatum(cstring_to_text(""));
}

/*
 * Make the keys of an index scan for the row of a member and a key.
 */
static void
make_keys(Datum member, Datum key, ScanKeyData *keys)
{
	keyrow_text(&keys[0], 1, member);
	keyrow_text(&keys[1], 2, key);
}

/*
 * seen_read returns the number of a member and a key in the active snapshot, which is the same
 * for all reads until the table is closed, with the changes of this transaction; 0 if there is
 * none. A number that the owner has set directly may be negative, and counts as 0.
 */
int64
seen_read(DcSeenRel *rel, Datum member, Datum key)
{
	ScanKeyData keys[2];
	bool found;
	int64 seen = 0;

	make_keys(member, key, keys);
	if (rel->slot == NULL)
		rel->slot = table_slot_create(rel->heap, NULL);
	if (index_is_usable(rel->index))
	{
		if (rel->scan == NULL)
			rel->scan = keyrow_scan(rel->heap, rel->index, keys, 2, GetActiveSnapshot());
		else
			index_rescan(rel->scan, keys, 2, NULL, 0);
		found = index_getnext_slot(rel->scan, ForwardScanDirection, rel->slot);
	}
	else
		found = find_by_heap(rel, keys, rel->slot);
	if (found)
		seen = number_in(rel, rel->slot);
	ExecClearTuple(rel->slot);
	if (later_was_written())
		(void) any_shown(rel, keys, GetActiveSnapshot(), &seen);
	return later_apply(RelationGetRelid(rel->heap), member, key, Max(seen, 0));
}

/*
 * Return the number in a row.
 */
static int64
number_in(DcSeenRel *rel, TupleTableSlot *slot)
{
	return DatumGetInt64(slot_datum(slot, rel->unread->layout.atts[SEEN_SEEN], INT8OID));
}

/*
 * Return true if a member has any row in the active snapshot.
 */
bool
seen_any(DcSeenRel *rel, Datum member)
{
	TupleTableSlot *slot;
	ScanKeyData keys[2];
	bool found;

	if (!index_is_usable(rel->index) || later_any(RelationGetRelid(rel->heap)))
		return true;
	slot = table_slot_create(rel->heap, NULL);
	make_keys(member, member, keys);
	found = keyrow_find(rel->heap, rel->index, keys, 1, GetActiveSnapshot(), slot);
	ExecDropSingleTupleTableSlot(slot);
	return found;
}

/*
 * Return true if all snapshots of this session may use an index, as the planner
 * asks (plancat.c): one that was built while old snapshots were held may lack what these see.
 */
static bool
index_is_usable(Relation index)
{
	return !index->rd_index->indcheckxmin ||
		TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data), TransactionXmin);
}

/*
 * find_by_heap finds a row without the index.
 */
static bool
find_by_heap(DcSeenRel *rel, ScanKeyData *keys, TupleTableSlot *slot)
{
	TableScanDesc scan;
	bool found;

	keys[0].sk_attno = rel->unread->layout.atts[SEEN_MEMBER];
	keys[1].sk_attno = rel->unread->layout.atts[SEEN_KEY];
	scan = compat_table_beginscan(rel->heap, GetActiveSnapshot(), 2, keys);
	found = table_scan_getnextslot(scan, ForwardScanDirection, slot);
	if (found)
		ExecMaterializeSlot(slot);
	table_endscan(scan);
	return found;
}

/*
 * seen_write changes the row of a member and a key, or makes one; or leaves that to the end of
 * the transaction, if its snapshot does not show the row as it is. Then later ones of the same
 * call wait, too: so it locks rows in the order of its keys, wherever it does so. Returns true
 * if the caller is to read the number again, and then to call this again.
 */
bool
seen_write(DcSeenRel *rel, Datum member, Datum key, DcSeenChange *change)
{
	TupleTableSlot *found = table_slot_create(rel->heap, NULL);
	bool again = false;
	bool done = false;

	while (!done)
	{
		bool exists = unreadseen_find_row(rel, member, key, found);
		int64 old = exists ? number_in(rel, found) : 0;
		int64 new = seen_changed(change, old);

		if (is_hidden(rel, member, key, exists, found) || (change->late && new != old))
		{
			later_add(RelationGetRelid(rel->heap), member, key, change);
			change->late = true;
			break;
		}
		if (exists && change->add == 0 && !change->late && old > change->all && may_take_back(rel, found, change, &again))
			new = change->all;
		done = again || new == old || unreadseen_put_row(rel, member, key, new, exists, found);
		ExecClearTuple(found);
	}
	ExecDropSingleTupleTableSlot(found);
	CommandCounterIncrement();
	return again;
}

/*
 * seen_write_now changes a row at the end of the transaction, where there is no snapshot.
 */
void
seen_write_now(DcSeenRel *rel, Datum member, Datum key, const DcSeenChange *change)
{
	TupleTableSlot *found = table_slot_create(rel->heap, NULL);
	bool done = false;

	while (!done)
	{
		bool exists = unreadseen_find_row(rel, member, key, found);
		int64 old = exists ? number_in(rel, found) : 0;
		int64 new = seen_changed(change, old);

		done = new == old || unreadseen_put_row(rel, member, key, new, exists, found);
		ExecClearTuple(found);
	}
	ExecDropSingleTupleTableSlot(found);
	CommandCounterIncrement();
}

/*
 * Find the row as it is now, with the table and its index as they are now, and wait for a
 * transaction in progress that has written it, or is deleting it.
 */
static bool
unreadseen_find_row(DcSeenRel *rel, Datum member, Datum key, TupleTableSlot *found)
{
	ScanKeyData keys[2];

	make_keys(member, key, keys);
	CHECK_FOR_INTERRUPTS();
	CommandCounterIncrement(); /* a row that the running statement has written can be updated */
	seenrel_check(rel);
	return keyrow_find_or_wait(rel->heap, rel->index, keys, 2, found);
}

/*
 * unreadseen_put_row writes a number; false if another transaction was faster.
 */
static bool
unreadseen_put_row(DcSeenRel *rel, Datum member, Datum key, int64 seen, bool exists, TupleTableSlot *found)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel->heap), &TTSOpsHeapTuple);
	Datum values[] = {[SEEN_MEMBER] = member, [SEEN_KEY] = key, [SEEN_SEEN] = Int64GetDatum(seen)};
	bool done;

	keyrow_store(slot, rel->heap, rel->unread->layout.atts, values, NULL, SEEN_NUM_COLUMNS);
	if (exists)
		done = keyrow_replace(rel->heap, &found->tts_tid, slot, true);
	else
		done = keyrow_try_insert(rel->heap, rel->index, slot);
	ExecDropSingleTupleTableSlot(slot);
	return done;
}

/*
 * Return true if this transaction has one snapshot, and that does not show the row as it is.
 * Looking for a version that it shows is not reading it: no predicate lock is needed.
 */
static bool
is_hidden(DcSeenRel *rel, Datum member, Datum key, bool exists, TupleTableSlot *found)
{
	ScanKeyData keys[2];
	int64 seen = 0;

	if (!IsolationUsesXactSnapshot())
		return false;
	if (exists)
		return !is_shown(rel, found, GetTransactionSnapshot());
	make_keys(member, key, keys);
	return any_shown(rel, keys, GetTransactionSnapshot(), &seen);
}

/*
 * Return true if a snapshot shows any version of a row, and raises *seen to what they say. It shows
 * more than one when this transaction has replaced one that it does not show.
 */
static bool
any_shown(DcSeenRel *rel, ScanKeyData *keys, Snapshot snapshot, int64 *seen)
{
	TupleTableSlot *slot = table_slot_create(rel->heap, NULL);
	IndexScanDesc scan = keyrow_scan(rel->heap, rel->index, keys, 2, SnapshotAny);
	bool any = false;

	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		if (!is_shown(rel, slot, snapshot))
			continue;
		any = true;
		*seen = Max(*seen, number_in(rel, slot));
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	return any;
}

/*
 * Return true if a row whose number is too high may be lowered; otherwise this may wait for its
 * writer, and set *again.
 */
static bool
may_take_back(DcSeenRel *rel, TupleTableSlot *found, DcSeenChange *change, bool *again)
{
	TransactionId writer = writer_of(found);

	if (change->back == SEEN_NOT_BACK || TransactionIdIsCurrentTransactionId(writer) ||
		!is_shown(rel, found, GetActiveSnapshot()))
		return false;
	if (change->back == SEEN_BACK || change->writer == writer)
		return true;
	ExecClearTuple(found);
	if (TransactionIdIsNormal(writer))
		XactLockTableWait(writer, NULL, NULL, XLTW_None);
	change->writer = writer;
	*again = true;
	return false;
}

/*
 * seen_changed returns what a number becomes.
 */
int64
seen_changed(const DcSeenChange *change, int64 old)
{
	int64 sum;

	if (change->add != 0)
		return pg_add_s64_overflow(Max(old, 0), change->add, &sum) ? PG_INT64_MAX : sum;
	return Max(old, change->upto);
}

/*
 * Return true if a snapshot shows a version.
 */
static bool
is_shown(DcSeenRel *rel, TupleTableSlot *slot, Snapshot snapshot)
{
	return table_tuple_satisfies_snapshot(rel->heap, slot, snapshot);
}

/*
 * writer_of returns the transaction that has made a version.
 */
static TransactionId
writer_of(TupleTableSlot *slot)
{
	return HeapTupleHeaderGetXmin(ExecFetchSlotHeapTuple(slot, false, NULL)->t_data);
}
