/*
 * directrel.c
 *		Opening a table of a counter for direct access.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "executor/executor.h"

#include "base/activity.h"
#include "core/rows/directrel.h"
#include "core/table/layout.h"

/*
 * directrel_open opens the table of totals or the shard table for direct access. The caller
 * holds a lock on it, and counter_layout() has allowed that.
 */
void
directrel_open(DcDirectRel *rel, DcCounter *counter, DcCounterTable table, bool write)
{
	TupleDesc desc;

	*rel = (DcDirectRel){
		.counter = counter,
		.table = table,
		.layout = table == DC_TABLE_TOTALS ? &counter->totals : &counter->shards,
		.heap = counter_direct_open(counter, table),
	};
	desc = RelationGetDescr(rel->heap);
	if (write)
	{
		/* the table of totals is not published where it is written so (directtotals.c) */
		if (table == DC_TABLE_SHARDS)
		{
			CheckCmdReplicaIdentity(rel->heap, CMD_UPDATE);
			activity_note(counter->relid);
		}
		rel->slot = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
	}
	rel->values = palloc(desc->natts * sizeof(Datum));
	rel->nulls = palloc(desc->natts * sizeof(bool));
}

/*
 * Close a table that directrel_open() has opened; the lock on it is kept.
 */
void
directrel_close(DcDirectRel *rel)
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
 * direct_tables_init prepares for opening tables of a counter, in the current context.
 */
void
direct_tables_init(DcDirectTables *tables, DcCounter *counter)
{
	*tables = (DcDirectTables){.counter = counter, .cxt = CurrentMemoryContext};
}

/*
 * direct_tables_open returns one of them, open to write.
 */
DcDirectRel *
direct_tables_open(DcDirectTables *tables, DcCounterTable table)
{
	DcDirectRel *rel = table == DC_TABLE_TOTALS ? &tables->totals : &tables->shards;

	if (rel->heap == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(tables->cxt);

		directrel_open(rel, tables->counter, table, true);
		MemoryContextSwitchTo(old);
	}
	return rel;
}

/*
 * Close the tables of a counter that were opened.
 */
void
direct_tables_close(DcDirectTables *tables)
{
	if (tables->totals.heap != NULL)
		directrel_close(&tables->totals);
	if (tables->shards.heap != NULL)
		directrel_close(&tables->shards);
}

/*
 * directrel_index opens the unique index when it is first needed. Unlike the columns of
 * an open table, code of its owner may have replaced that.
 */
Relation
directrel_index(DcDirectRel *rel)
{
	if (rel->index == NULL)
	{
		counter_layout(rel->counter);
		if (!OidIsValid(rel->layout->index))
			layout_altered_error(rel->heap);
		rel->index = index_open(rel->layout->index,
								rel->slot != NULL ? RowExclusiveLock : AccessShareLock);
	}
	return rel->index;
}

/*
 * directrel_deform reads a tuple into rel->values and checks that it is the row
 * wanted. A table of totals has one row per key, and no numbers.
 */
bool
directrel_deform(DcDirectRel *rel, HeapTuple tuple, const DcDeltaKey *key,
				 int32 shard)
{
	const AttrNumber *atts = rel->layout->atts;
	struct varlena *value;

	heap_deform_tuple(tuple, RelationGetDescr(rel->heap), rel->values,
					  rel->nulls);
	for (int i = 0; i < DC_NUM_COLUMNS; i++)
	{
		if (atts[i] != InvalidAttrNumber && rel->nulls[atts[i] - 1])
			return false; /* not a row of ours: a read by the index raises the error */
	}
	if (atts[DC_COL_SHARD] != InvalidAttrNumber &&
		DatumGetInt32(rel->values[atts[DC_COL_SHARD] - 1]) != shard)
		return false;
	value = (struct varlena *) DatumGetPointer(rel->values[atts[DC_COL_KEY] - 1]);
	if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
		value = pg_detoast_datum_packed(value);
	return VARSIZE_ANY_EXHDR(value) == key->len &&
		memcmp(VARDATA_ANY(value), key->data, key->len) == 0;
}
