/*
 * shardrel.c
 *		Opening a shard table for direct access.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "base/activity.h"
#include "executor/executor.h"
#include "rows/shardrel.h"
#include "table/layout.h"

/*
 * shardrel_open opens the shard table of a counter table for direct access. The
 * caller holds a lock on it, and has asked counter_layout() whether it may.
 */
void
shardrel_open(DcShardRel *rel, DcCounter *counter, bool write)
{
	TupleDesc desc;

	*rel = (DcShardRel){
		.counter = counter,
		.heap = counter_direct_open(counter, DC_TABLE_SHARDS),
	};
	desc = RelationGetDescr(rel->heap);
	if (write)
	{
		CheckCmdReplicaIdentity(rel->heap, CMD_UPDATE);
		activity_note(counter->relid);
		rel->slot = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
	}
	rel->values = palloc(desc->natts * sizeof(Datum));
	rel->nulls = palloc(desc->natts * sizeof(bool));
}

void
shardrel_close(DcShardRel *rel)
{
	if (rel->slot != NULL)
		ExecDropSingleTupleTableSlot(rel->slot);
	if (rel->index != NULL)
		index_close(rel->index, NoLock);
	table_close(rel->heap, NoLock);
	pfree(rel->values);
	pfree(rel->nulls);
}

/*
 * shardrel_index opens the unique index when it is first needed. Unlike the columns of
 * an open table, code of its owner may have replaced that.
 */
Relation
shardrel_index(DcShardRel *rel)
{
	if (rel->index == NULL)
	{
		counter_layout(rel->counter);
		if (!OidIsValid(rel->counter->shards.index))
			layout_altered_error(rel->heap);
		rel->index = index_open(rel->counter->shards.index,
								rel->slot != NULL ? RowExclusiveLock : AccessShareLock);
	}
	return rel->index;
}

/*
 * shardrel_deform reads a tuple into rel->values and checks that it is the row
 * wanted.
 */
bool
shardrel_deform(DcShardRel *rel, HeapTuple tuple, const DcDeltaKey *key,
				int32 shard)
{
	const AttrNumber *atts = rel->counter->shards.atts;
	struct varlena *value;

	heap_deform_tuple(tuple, RelationGetDescr(rel->heap), rel->values,
					  rel->nulls);
	for (int i = 0; i < DC_NUM_COLUMNS; i++)
	{
		if (atts[i] != InvalidAttrNumber && rel->nulls[atts[i] - 1])
			return false; /* no row of ours: a read by the index says so */
	}
	if (DatumGetInt32(rel->values[atts[DC_COL_SHARD] - 1]) != shard)
		return false;
	value = (struct varlena *) DatumGetPointer(rel->values[atts[DC_COL_KEY] - 1]);
	if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
		value = pg_detoast_datum_packed(value);
	return VARSIZE_ANY_EXHDR(value) == key->len &&
		memcmp(VARDATA_ANY(value), key->data, key->len) == 0;
}
