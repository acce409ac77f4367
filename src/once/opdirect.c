/*
 * opdirect.c
 *		Finding and inserting ops without SQL.
 *
 * This is the way of INSERT ... ON CONFLICT DO NOTHING (see execIndexing.c of the
 * server). A look into the unique index with a dirty snapshot finds the op, of any
 * transaction, and waits for the end of one that is in progress. If there is
 * no record, one is inserted speculatively: a transaction that comes across it before it
 * is complete waits for that only. If the index then says that there may be
 * another one, ours is taken back, and all begins again. So of two transactions that insert
 * the same op at the same time, one finds the record of the other, or both try again.
 *
 * There is no way by SQL: opslot_check() refuses partitions that would need it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "catalog/index.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "once/opslot.h"
#include "rows/insert.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

static Datum op_text(const DcOp *op, char *buf);
static void set_column(const DcOpRel *rel, TupleTableSlot *slot, int column, Datum value);
static void read_op(const DcOpRel *rel, TupleTableSlot *slot, DcOp *found);
static void check_visible(Relation heap, TupleTableSlot *slot);

/* An id as text, without an allocation. */
typedef union DcOpText
{
	struct varlena header;
	char data[VARHDRSZ + DC_MAX_OP_BYTES];
} DcOpText;

/*
 * oprel_open opens a partition, and makes sure that it is one.
 */
void
oprel_open(DcOpRel *rel, DcOpSlot *slot, bool write)
{
	LOCKMODE mode = write ? RowExclusiveLock : AccessShareLock;

	rel->slot = slot;
	rel->mode = mode;
	rel->heap = table_open_present(slot->table, mode);
	rel->index = NULL;
	oprel_check(rel);
}

/*
 * oprel_check makes sure of that anew, if it may have changed.
 */
void
oprel_check(DcOpRel *rel)
{
	opslot_check(rel->slot, rel->heap);
	if (rel->index != NULL && RelationGetRelid(rel->index) == rel->slot->layout.index)
		return;
	if (rel->index != NULL)
		index_close(rel->index, NoLock);
	rel->index = index_open(rel->slot->layout.index, rel->mode);
}

void
oprel_close(DcOpRel *rel)
{
	index_close(rel->index, NoLock);
	table_close(rel->heap, NoLock);
	rel->heap = NULL;
}

/*
 * oprel_find looks for an op, and waits for a transaction that has recorded or
 * deleted it and is in progress, unless it is to be found as it is now. *found is in
 * the caller's memory.
 */
bool
oprel_find(DcOpRel *rel, const DcOp *op, DcOpFind how,
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
				read_op(rel, slot, found);
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
 * oprel_insert inserts an op; false, with nothing done, if there may be one of
 * that id.
 */
bool
oprel_insert(DcOpRel *rel, const DcOp *op, ItemPointer tid)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel->heap),
													&TTSOpsVirtual);
	TransactionId xid = GetCurrentTransactionId();
	AttrNumber att = rel->slot->layout.atts[OP_ID] - 1;
	DcOpText id;
	uint32 token;
	bool unique;

	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts);
	set_column(rel, slot, OP_SLOT, Int16GetDatum(rel->slot->number));
	set_column(rel, slot, OP_ID, op_text(op, id.data));
	set_column(rel, slot, OP_KEY, op->key);
	set_column(rel, slot, OP_DELTA, Int64GetDatum(op->delta));
	if (op->transfer_id != 0)
		set_column(rel, slot, OP_TRANSFER_ID, Int64GetDatum(op->transfer_id));
	if (op->digest != 0)
		set_column(rel, slot, OP_DIGEST, Int64GetDatum(op->digest));
	set_column(rel, slot, OP_AT,
			   TimestampTzGetDatum(op->at != 0 ? op->at : GetCurrentTimestamp()));
	ExecStoreVirtualTuple(slot);

	token = SpeculativeInsertionLockAcquire(xid);
	table_tuple_insert_speculative(rel->heap, slot, GetCurrentCommandId(true), 0,
								   NULL, token);
	unique = index_insert(rel->index, &slot->tts_values[att], &slot->tts_isnull[att],
						  &slot->tts_tid, rel->heap, UNIQUE_CHECK_PARTIAL, false,
						  BuildIndexInfo(rel->index));
	table_tuple_complete_speculative(rel->heap, slot, token, unique);
	SpeculativeInsertionLockRelease(xid);
	if (unique && !rel->slot->layout.only_index)
	{
		DcIndexes others;

		indexes_open(&others, rel->heap);
		indexes_insert(&others, rel->heap, RelationGetRelid(rel->index), &slot, 1);
		indexes_close(&others);
	}
	*tid = slot->tts_tid;
	ExecDropSingleTupleTableSlot(slot);
	return unique;
}

static void
set_column(const DcOpRel *rel, TupleTableSlot *slot, int column, Datum value)
{
	AttrNumber att = rel->slot->layout.atts[column] - 1;

	slot->tts_values[att] = value;
	slot->tts_isnull[att] = false;
}

/*
 * oprel_delete takes back an op that this transaction has inserted.
 */
void
oprel_delete(DcOpRel *rel, ItemPointer tid)
{
	CommandCounterIncrement(); /* a command does not see rows that it has inserted */
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
read_op(const DcOpRel *rel, TupleTableSlot *slot, DcOp *found)
{
	const AttrNumber *atts = rel->slot->layout.atts;
	bool isnull;
	text *id;

	id = DatumGetTextPCopy(slot_datum(slot, atts[OP_ID], TEXTOID));
	found->id = VARDATA(id);
	found->id_len = VARSIZE(id) - VARHDRSZ;
	found->key = PointerGetDatum(DatumGetTextPCopy(slot_datum(slot, atts[OP_KEY], TEXTOID)));
	found->delta = DatumGetInt64(slot_datum(slot, atts[OP_DELTA], INT8OID));
	/* 0 for NULL */
	found->transfer_id = DatumGetInt64(slot_nullable(slot, atts[OP_TRANSFER_ID], INT8OID, &isnull));
	found->digest = DatumGetInt64(slot_nullable(slot, atts[OP_DIGEST], INT8OID, &isnull));
	found->at = DatumGetTimestampTz(slot_datum(slot, atts[OP_AT], TIMESTAMPTZOID));
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
