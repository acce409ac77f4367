/*
 * compactinserting.c
 *		Keys whose rows other transactions are inserting.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Compaction waits for no row. SKIP LOCKED skips rows that are locked, but a row that a transaction
 * in progress has inserted is not seen at all, and ON CONFLICT DO NOTHING waits for that
 * transaction: for example for dc_set() of a new key in a transaction that stays open, and all
 * other keys of the table would wait with it. So the keys that have no row are looked up in the
 * primary key, with a dirty snapshot, and a key that another transaction is inserting is left for
 * the next time.
 *
 * A row that is inserted after this look, and before ours, is waited for nevertheless: for 100
 * ms at most in the worker, whose step then fails, otherwise until that transaction ends. That is a
 * matter of the milliseconds that a batch takes. A row that was inserted at any other time is not
 * waited for. Correctness does not depend on this look.
 *
 * A partitioned table has its keys in the primary keys of its partitions. Which of them has a key
 * is found as for a row that is inserted. The partition key is the key, or nothing, as the primary
 * key has no other column.
 *
 * No column is read, and no code of the table's owner runs: a primary key has neither expressions
 * nor a predicate, and its operators are those of its type. The table is locked, and so are its
 * partitions.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_collation.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "core/compact/compactbatch.h"

/* Finding the partition of a key. */
typedef struct DcRouting
{
	EState *estate;
	ModifyTableState *state;
	ResultRelInfo *root;
	PartitionTupleRouting *partitions;
	TupleTableSlot *row;
	AttrNumber key; /* column */
} DcRouting;

static bool is_asked(const DcBatchKey *key, bool (*asks)(const DcBatchKey *key));
static void skip_in_partitions(DcBatch *batch, Relation heap, bool (*asks)(const DcBatchKey *key));
static void routing_begin(DcRouting *routing, Relation heap);
static Relation routing_find(DcRouting *routing, Datum key);
static void routing_end(DcRouting *routing);
static Relation open_key_index(Relation heap);
static bool compactinserting_is_inserting(Relation heap, Relation index, TupleTableSlot *slot, Datum key);

/*
 * batch_skip_inserting marks those keys of `asks` to be skipped whose row in a table is being
 * inserted by other transactions.
 */
void
batch_skip_inserting(DcBatch *batch, Oid relid, bool (*asks)(const DcBatchKey *key))
{
	Relation heap;
	Relation index;
	TupleTableSlot *slot;
	bool any = false;

	for (int i = 0; i < batch->nkeys && !any; i++)
		any = is_asked(&batch->keys[i], asks);
	if (!any)
		return;
	heap = table_open_present(relid, NoLock);
	index = open_key_index(heap);
	if (index != NULL && heap->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		skip_in_partitions(batch, heap, asks);
	else if (index != NULL)
	{
		slot = table_slot_create(heap, NULL);
		for (int i = 0; i < batch->nkeys; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (is_asked(&batch->keys[i], asks))
				batch->keys[i].skip = compactinserting_is_inserting(heap, index, slot, batch->keys[i].key);
		}
		ExecDropSingleTupleTableSlot(slot);
	}
	if (index != NULL)
		index_close(index, NoLock);
	table_close(heap, NoLock);
}

/*
 * Return true if a key of the batch has amounts to move and is one that the caller asks about.
 */
static bool
is_asked(const DcBatchKey *key, bool (*asks)(const DcBatchKey *key))
{
	return !key->skip && key->used && asks(key);
}

/*
 * skip_in_partitions does the same for a partitioned table.
 */
static void
skip_in_partitions(DcBatch *batch, Relation heap, bool (*asks)(const DcBatchKey *key))
{
	DcRouting routing;

	routing_begin(&routing, heap);
	for (int i = 0; i < batch->nkeys; i++)
	{
		DcBatchKey *key = &batch->keys[i];
		Relation partition;
		Relation index;
		TupleTableSlot *slot;

		CHECK_FOR_INTERRUPTS();
		if (!is_asked(key, asks))
			continue;
		partition = routing_find(&routing, key->key);
		index = open_key_index(partition);
		if (index == NULL)
			continue;
		slot = table_slot_create(partition, NULL);
		key->skip = compactinserting_is_inserting(partition, index, slot, key->key);
		ExecDropSingleTupleTableSlot(slot);
		index_close(index, NoLock);
	}
	routing_end(&routing);
}

/*
 * Prepare to find the partitions of keys, as the executor does for INSERT.
 */
static void
routing_begin(DcRouting *routing, Relation heap)
{
	MemoryContext old;

	routing->estate = CreateExecutorState();
	old = MemoryContextSwitchTo(routing->estate->es_query_cxt);
	routing->root = makeNode(ResultRelInfo);
	InitResultRelInfo(routing->root, heap, 0, NULL, 0);
	routing->state = makeNode(ModifyTableState);
	routing->state->ps.state = routing->estate;
	routing->state->operation = CMD_INSERT;
	routing->state->resultRelInfo = routing->root;
	routing->partitions = ExecSetupPartitionTupleRouting(routing->estate, heap);
	routing->row = MakeSingleTupleTableSlot(RelationGetDescr(heap), &TTSOpsVirtual);
	routing->key = get_attnum(RelationGetRelid(heap), "key");
	MemoryContextSwitchTo(old);
}

/*
 * routing_find returns the partition of a key, which routing_end() closes.
 */
static Relation
routing_find(DcRouting *routing, Datum key)
{
	TupleTableSlot *row = routing->row;
	Relation partition;

	ExecClearTuple(row);
	memset(row->tts_isnull, true, row->tts_tupleDescriptor->natts * sizeof(bool));
	row->tts_values[routing->key - 1] = key;
	row->tts_isnull[routing->key - 1] = false;
	ExecStoreVirtualTuple(row);
	partition = ExecFindPartition(routing->state, routing->root, routing->partitions, row, routing->estate)->ri_RelationDesc;
	ResetPerTupleExprContext(routing->estate);
	return partition;
}

/*
 * Free the memory of the search, and close the partitions that it has found.
 */
static void
routing_end(DcRouting *routing)
{
	ExecDropSingleTupleTableSlot(routing->row);
	ExecCleanupTupleRouting(routing->state, routing->partitions);
	FreeExecutorState(routing->estate);
}

/*
 * open_key_index opens the primary key, if it is the key; else NULL. The owner may have made
 * another one.
 */
static Relation
open_key_index(Relation heap)
{
	Oid indexid;
	Relation index;

	if (heap->rd_rel->relkind != RELKIND_RELATION && heap->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return NULL;
	list_free(RelationGetIndexList(heap)); /* this finds the primary key */
	indexid = heap->rd_pkindex;
	if (!OidIsValid(indexid))
		return NULL;
	index = index_open(indexid, AccessShareLock);
	if (index->rd_index->indisvalid && IndexRelationGetNumberOfKeyAttributes(index) == 1 &&
		index->rd_index->indkey.values[0] == get_attnum(RelationGetRelid(heap), "key") &&
		index->rd_indcollation[0] == C_COLLATION_OID)
		return index;
	index_close(index, NoLock);
	return NULL;
}

/*
 * Return true if a transaction in progress, another than this, has inserted a row of a key.
 */
static bool
compactinserting_is_inserting(Relation heap, Relation index, TupleTableSlot *slot, Datum key)
{
	SnapshotData dirty;
	ScanKeyData scankey;
	IndexScanDesc scan;
	bool inserting = false;

	ScanKeyEntryInitialize(&scankey, 0, 1, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ, key);
	InitDirtySnapshot(dirty);
	scan = compat_index_beginscan(heap, index, &dirty, 1);
	index_rescan(scan, &scankey, 1, NULL, 0);
	while (!inserting && index_getnext_slot(scan, ForwardScanDirection, slot))
		inserting = TransactionIdIsValid(dirty.xmin);
	ExecClearTuple(slot);
	index_endscan(scan);
	return inserting;
}
