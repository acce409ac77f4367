/*
 * opdirect.c
 *		Finding and inserting ops without SQL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * As by INSERT ... ON CONFLICT DO NOTHING (core/rows/keyrow.c): an op of any transaction is
 * found, and one that is in progress is waited for. SQL is never used: opslot_check() refuses
 * partitions that would need it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "base/errors.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "core/rows/keyrow.h"
#include "transactional/once/opslot.h"

static Datum op_text(const DcOp *op, char *buf);
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
 * oprel_check checks its shape again, if it may have changed.
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

/*
 * Close a partition; its lock is kept.
 */
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
	TupleTableSlot *slot = table_slot_create(rel->heap, NULL);
	DcOpText id;
	ScanKeyData key;
	bool exists;

	keyrow_text(&key, 1, op_text(op, id.data));
	if (how == FIND_NOW)
		exists = keyrow_find(rel->heap, rel->index, &key, 1, GetActiveSnapshot(), slot);
	else
		exists = keyrow_find_or_wait(rel->heap, rel->index, &key, 1, slot);
	if (exists)
	{
		if (how == FIND_TO_WRITE)
			check_visible(rel->heap, slot);
		read_op(rel, slot, found);
	}
	ExecDropSingleTupleTableSlot(slot);
	return exists;
}

/*
 * oprel_insert inserts an op; false, with nothing done, if there may be one of
 * that id.
 */
bool
oprel_insert(DcOpRel *rel, const DcOp *op, ItemPointer tid)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel->heap), &TTSOpsHeapTuple);
	TimestampTz at = op->at != 0 ? op->at : GetCurrentTimestamp();
	DcOpText id;
	Datum values[] = {[OP_SLOT] = Int16GetDatum(rel->slot->number),
					  [OP_ID] = op_text(op, id.data),
					  [OP_KEY] = op->key,
					  [OP_DELTA] = Int64GetDatum(op->delta),
					  [OP_TRANSFER_ID] = Int64GetDatum(op->transfer_id),
					  [OP_DIGEST] = Int64GetDatum(op->digest),
					  [OP_AT] = TimestampTzGetDatum(at)};
	bool nulls[OP_NUM_COLUMNS] = {[OP_TRANSFER_ID] = op->transfer_id == 0, [OP_DIGEST] = op->digest == 0};
	bool inserted;

	keyrow_store(slot, rel->heap, rel->slot->layout.atts, values, nulls, OP_NUM_COLUMNS);
	inserted = keyrow_try_insert(rel->heap, rel->index, slot);
	*tid = slot->tts_tid;
	ExecDropSingleTupleTableSlot(slot);
	return inserted;
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

/*
 * Return the id of an op as a text, in a buffer of the caller.
 */
static Datum
op_text(const DcOp *op, char *buf)
{
	SET_VARSIZE(buf, VARHDRSZ + op->id_len);
	memcpy(VARDATA(buf), op->id, op->id_len);
	return PointerGetDatum(buf);
}

/*
 * Copy a row of a table of ops into *found; NULL columns become 0.
 */
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
