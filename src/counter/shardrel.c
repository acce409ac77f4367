/*
 * shardrel.c
 *		Opening a shard table for direct access.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "base/rowread.h"
#include "catalog/pg_type.h"
#include "counter/layout.h"
#include "counter/shardrel.h"
#include "executor/executor.h"

static void check_columns(DcShardRel *rel);

/*
 * shardrel_open opens the shard table of a counter table for direct access. The
 * caller holds a lock on it, and has asked counter_layout() whether it may.
 */
void
shardrel_open(DcShardRel *rel, DcCounter *counter, bool write)
{
	TupleDesc desc;

	rel->counter = counter;
	rel->heap = counter_direct_open(counter, DC_TABLE_SHARDS);
	rel->index = NULL;
	desc = RelationGetDescr(rel->heap);
	rel->slot = NULL;
	check_columns(rel);
	if (write)
	{
		CheckCmdReplicaIdentity(rel->heap, CMD_UPDATE);
		rel->slot = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
	}
	rel->values = palloc(desc->natts * sizeof(Datum));
	rel->nulls = palloc(desc->natts * sizeof(bool));
	rel->nblocks = 0;
	memset(&rel->stats, 0, sizeof(rel->stats));
}

/*
 * check_columns compares the columns with what is known of them: while the table is open,
 * they stay as they are.
 */
static void
check_columns(DcShardRel *rel)
{
	static const Oid types[DC_NUM_COLUMNS] = {
		[DC_COL_KEY] = TEXTOID,
		[DC_COL_SHARD] = INT4OID,
		[DC_COL_INC] = INT8OID,
		[DC_COL_DEC] = INT8OID,
		[DC_COL_UPDATED_AT] = TIMESTAMPTZOID,
		[DC_COL_UNITS] = INT8OID};
	const AttrNumber *atts = rel->counter->shards.atts;

	for (int i = 0; i < DC_NUM_COLUMNS; i++)
	{
		if (i != DC_COL_UNITS || counter_is_stock(rel->counter))
			relation_check_column(rel->heap, atts[i], types[i]);
	}
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
