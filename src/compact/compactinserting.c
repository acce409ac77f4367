/*
 * compactinserting.c
 *		Keys whose rows other transactions are inserting.
 *
 * Compaction waits for no row. SKIP LOCKED passes over rows that are locked, but a row that a transaction in progress has
 * inserted is not seen at all, and ON CONFLICT DO NOTHING waits for that transaction: for dc_set() of a new key in a
 * transaction that stays open, say, and with it all other keys of the table would. So the keys that have no row are
 * looked up in the primary key, with a dirty snapshot, and one that somebody is inserting is left for the next time.
 *
 * A row that is inserted after this look, and before ours, is waited for all the same. That is a matter of
 * microseconds: who inserts a row at any other time is not waited for. Nothing depends on the look for being right.
 *
 * No column is read, and no code of the table's owner runs: a primary key has neither expressions nor a
 * predicate, and its operators are those of its type. The table is locked.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "base/compat.h"
#include "base/relopen.h"
#include "catalog/pg_collation.h"
#include "compact/compactbatch.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"

static Relation open_key_index(Relation heap);
static bool is_inserting(Relation heap, Relation index, TupleTableSlot *slot, Datum key);

/*
 * batch_skip_inserting marks keys to be skipped, of those that `asks` names, whose row in a table others are inserting.
 */
void
batch_skip_inserting(DcBatch *batch, Oid relid, bool (*asks)(const DcBatchKey *key))
{
	Relation heap = NULL;
	Relation index = NULL;
	TupleTableSlot *slot = NULL;

	for (int i = 0; i < batch->nkeys; i++)
	{
		DcBatchKey *key = &batch->keys[i];

		if (key->skip || !key->used || !asks(key))
			continue;
		CHECK_FOR_INTERRUPTS();
		if (heap == NULL)
		{
			heap = table_open_present(relid, NoLock);
			index = open_key_index(heap);
			if (index == NULL)
				break;
			slot = table_slot_create(heap, NULL);
		}
		key->skip = is_inserting(heap, index, slot, key->key);
	}
	if (slot != NULL)
		ExecDropSingleTupleTableSlot(slot);
	if (index != NULL)
		index_close(index, NoLock);
	if (heap != NULL)
		table_close(heap, NoLock);
}

/*
 * open_key_index opens the primary key, if it is the key; else NULL. The owner may have made another one.
 */
static Relation
open_key_index(Relation heap)
{
	Oid indexid;
	Relation index;

	if (heap->rd_rel->relkind != RELKIND_RELATION)
		return NULL;
	list_free(RelationGetIndexList(heap)); /* finds out which it is */
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
 * is_inserting tells whether a transaction in progress, another than this, has inserted a row of a key.
 */
static bool
is_inserting(Relation heap, Relation index, TupleTableSlot *slot, Datum key)
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
