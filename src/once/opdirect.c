/*
 * opdirect.c
 *		Finding and inserting ops without SQL.
 *
 * This is what INSERT ... ON CONFLICT DO NOTHING does (see execIndexing.c of the
 * server). A look into the unique index with a dirty snapshot finds the op, whoever
 * has recorded it, and waits for the end of one who is in progress. If there is
 * none, the record is inserted speculatively: whoever comes across it before it
 * is complete waits for that only. If the index then says that there may be
 * another one, ours is taken back, and all begins again; so of two who insert the
 * same op at the same time, one finds the other's, or both try again.
 *
 * opslot_layout() says which partitions qualify: to insert, those with one index, and
 * without triggers and constraints. To look, those that have the index, whatever else
 * there is: SQL would not see that somebody is about to record an op.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/rowread.h"
#include "catalog/index.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "once/opslot.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"

static Datum op_text(const DcOp *op, char *buf);
static void read_op(TupleTableSlot *slot, DcOp *found);
static void check_visible(Relation heap, TupleTableSlot *slot);

/* An id as text, without an allocation. */
typedef union DcOpText
{
	struct varlena header;
	char data[VARHDRSZ + DC_MAX_OP_BYTES];
} DcOpText;

/*
 * oprel_open opens a partition, and finds out whether it may be accessed like
 * this.
 */
void
oprel_open(DcOpRel *rel, DcOpSlot *slot, bool write)
{
	LOCKMODE mode = write ? RowExclusiveLock : AccessShareLock;

	rel->slot = slot;
	rel->mode = mode;
	rel->heap = table_open(slot->table, mode);
	rel->index = NULL;
	oprel_check(rel);
}

/*
 * oprel_check finds that out anew, if it may have changed.
 */
void
oprel_check(DcOpRel *rel)
{
	Oid index;

	opslot_layout(rel->slot, rel->heap);
	index = rel->slot->by_index ? rel->slot->index : InvalidOid;
	if (rel->index != NULL && RelationGetRelid(rel->index) != index)
	{
		index_close(rel->index, NoLock);
		rel->index = NULL;
	}
	if (rel->index == NULL && OidIsValid(index))
		rel->index = index_open(index, rel->mode);
}

void
oprel_close(DcOpRel *rel)
{
	if (rel->index != NULL)
		index_close(rel->index, NoLock);
	table_close(rel->heap, NoLock);
	rel->heap = NULL;
}

/*
 * direct_find looks for an op, and waits for a transaction that has recorded or
 * deleted it and is in progress, unless it is to be found as it is now. *found is in
 * the caller's memory.
 */
bool
direct_find(DcOpRel *rel, const DcOp *op, DcOpFind how,
			DcOp *found)
{
	bool wait = how != FIND_NOW;
	DcOpText id;
	SnapshotData dirty;
	ScanKeyData key;

	ScanKeyEntryInitialize(&key, 0, 1, BTEqualStrategyNumber, InvalidOid,
						   rel->index->rd_indcollation[0], F_TEXTEQ,
						   op_text(op, id.data));
	for (;;)
	{
		IndexScanDesc scan;
		TupleTableSlot *slot = NULL;
		TransactionId xid = InvalidTransactionId;
		bool exists = false;

		CHECK_FOR_INTERRUPTS();
		InitDirtySnapshot(dirty);
		scan = compat_index_beginscan(rel->heap, rel->index,
									  wait ? &dirty : GetActiveSnapshot(), 1);
		index_rescan(scan, &key, 1, NULL, 0);
		while (!exists && index_getnext_tid(scan, ForwardScanDirection) != NULL)
		{
			if (slot == NULL)
				slot = table_slot_create(rel->heap, NULL);
			exists = index_fetch_heap(scan, slot);
		}
		if (exists)
		{
			if (wait)
				xid = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
			if (!TransactionIdIsValid(xid))
			{
				if (how == FIND_TO_WRITE)
					check_visible(rel->heap, slot);
				read_op(slot, found);
			}
		}
		index_endscan(scan);
		if (slot != NULL)
			ExecDropSingleTupleTableSlot(slot);
		if (!TransactionIdIsValid(xid))
			return exists;
		if (dirty.speculativeToken != 0 && xid == dirty.xmin)
			SpeculativeInsertionWait(dirty.xmin, dirty.speculativeToken);
		else
			XactLockTableWait(xid, NULL, NULL, XLTW_None);
	}
}

/*
 * direct_insert_op inserts an op; false, with nothing done, if there may be one of
 * that id.
 */
bool
direct_insert_op(DcOpRel *rel, const DcOp *op, ItemPointer tid)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel->heap),
													&TTSOpsVirtual);
	TransactionId xid = GetCurrentTransactionId();
	DcOpText id;
	uint32 token;
	bool unique;

	for (int i = 0; i < OP_NUM_COLUMNS; i++)
		slot->tts_isnull[i] = false;
	slot->tts_values[OP_SLOT - 1] = Int16GetDatum(rel->slot->number);
	slot->tts_values[OP_ID - 1] = op_text(op, id.data);
	slot->tts_values[OP_KEY - 1] = op->key;
	slot->tts_values[OP_DELTA - 1] = Int64GetDatum(op->delta);
	slot->tts_values[OP_TRANSFER_ID - 1] = Int64GetDatum(op->transfer_id);
	slot->tts_isnull[OP_TRANSFER_ID - 1] = op->transfer_id == 0;
	slot->tts_values[OP_DIGEST - 1] = Int64GetDatum(op->digest);
	slot->tts_isnull[OP_DIGEST - 1] = op->digest == 0;
	slot->tts_values[OP_AT - 1] =
		TimestampTzGetDatum(op->at != 0 ? op->at : GetCurrentTimestamp());
	ExecStoreVirtualTuple(slot);

	token = SpeculativeInsertionLockAcquire(xid);
	table_tuple_insert_speculative(rel->heap, slot, GetCurrentCommandId(true), 0,
								   NULL, token);
	unique = index_insert(rel->index, &slot->tts_values[OP_ID - 1],
						  &slot->tts_isnull[OP_ID - 1], &slot->tts_tid,
						  rel->heap, UNIQUE_CHECK_PARTIAL, false,
						  BuildIndexInfo(rel->index));
	table_tuple_complete_speculative(rel->heap, slot, token, unique);
	SpeculativeInsertionLockRelease(xid);
	*tid = slot->tts_tid;
	ExecDropSingleTupleTableSlot(slot);
	return unique;
}

/*
 * direct_delete_op takes back an op that this transaction has inserted.
 */
void
direct_delete_op(DcOpRel *rel, ItemPointer tid)
{
	CommandCounterIncrement(); /* a command does not see what it has inserted */
	simple_heap_delete(rel->heap, tid);
}

static Datum
op_text(const DcOp *op, char *buf)
{
	SET_VARSIZE(buf, VARHDRSZ + op->id_len);
	memcpy(VARDATA(buf), op->id, op->id_len);
	return PointerGetDatum(buf);
}

static void
read_op(TupleTableSlot *slot, DcOp *found)
{
	bool isnull;
	text *id;

	id = DatumGetTextPCopy(slot_datum(slot, OP_ID, TEXTOID));
	found->id = VARDATA(id);
	found->id_len = VARSIZE(id) - VARHDRSZ;
	found->key = PointerGetDatum(DatumGetTextPCopy(slot_datum(slot, OP_KEY, TEXTOID)));
	found->delta = DatumGetInt64(slot_datum(slot, OP_DELTA, INT8OID));
	found->transfer_id = DatumGetInt64(slot_nullable(slot, OP_TRANSFER_ID, INT8OID, &isnull));
	if (isnull)
		found->transfer_id = 0;
	found->digest = DatumGetInt64(slot_nullable(slot, OP_DIGEST, INT8OID, &isnull));
	if (isnull)
		found->digest = 0;
	found->at = DatumGetTimestampTz(slot_datum(slot, OP_AT, TIMESTAMPTZOID));
}

/*
 * check_visible raises 40001 if this transaction's snapshot does not see an op
 * that exists: neither "new" nor "applied before" would be true in it.
 */
static void
check_visible(Relation heap, TupleTableSlot *slot)
{
	Datum xmin;
	bool isnull;

	if (!IsolationUsesXactSnapshot() ||
		table_tuple_satisfies_snapshot(heap, slot, GetTransactionSnapshot()))
		return;
	xmin = slot_getsysattr(slot, MinTransactionIdAttributeNumber, &isnull);
	if (TransactionIdIsCurrentTransactionId(DatumGetTransactionId(xmin)))
		return;
	serialization_error();
}
