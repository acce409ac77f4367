/*
 * regionrow.c
 *		Finding and writing rows of regions, without SQL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each transaction that writes a row has the latest version of it, by a lock or by an update that
 * fails if the version that was read is not the latest. Shared memory does not cache places of
 * rows: the key is looked up in the index each time (core/rows/keyrow.c), which has one entry per
 * row, as long as its versions stay on their page.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/relopen.h"
#include "base/rowread.h"
#include "region/sets.h"

static void scan_keys(const DcRegionRow *row, ScanKeyData *keys);
static void read_row(DcRegionRel *rel, DcRegionRow *row);
static void store_row(DcRegionRel *rel, const DcRegionRow *row);

/*
 * Open one of the tables of a counter, whose tables are locked, to write. With NoLock it is locked
 * as well.
 */
void
regionrel_open(DcRegionRel *rel, DcCounter *counter, DcRegionTable table, LOCKMODE mode)
{
	rel->counter = counter;
	rel->heap = table_open_present(region_table_of(&counter->row, table), mode);
	rel->layout = region_layout(counter, rel->heap, table);
	CheckCmdReplicaIdentity(rel->heap, CMD_UPDATE);
	rel->index = index_open(rel->layout->index, RowExclusiveLock);
	rel->slot = MakeSingleTupleTableSlot(RelationGetDescr(rel->heap), &TTSOpsHeapTuple);
	rel->found = table_slot_create(rel->heap, NULL);
}

/*
 * Close the table and its index. The locks stay until the transaction ends.
 */
void
regionrel_close(DcRegionRel *rel)
{
	ExecDropSingleTupleTableSlot(rel->found);
	ExecDropSingleTupleTableSlot(rel->slot);
	index_close(rel->index, NoLock);
	table_close(rel->heap, NoLock);
}

/*
 * Set the keys of a look-up of the row's primary key.
 */
static void
scan_keys(const DcRegionRow *row, ScanKeyData *keys)
{
	keyrow_text(&keys[0], 1, row->key);
	keyrow_text(&keys[1], 2, row->region);
	keyrow_bigint(&keys[2], 3, row->epoch);
}

/*
 * regionrow_scan_begin scans for the row of a key, region and epoch, or by the first columns of
 * these.
 */
static IndexScanDesc
regionrow_scan_begin(DcRegionRel *rel, const DcRegionRow *wanted, int columns, Snapshot snapshot)
{
	ScanKeyData keys[3];

	scan_keys(wanted, keys);
	return keyrow_scan(rel->heap, rel->index, keys, columns, snapshot);
}

/*
 * Find the row of a key as of now, without a lock: rel->found.
 */
bool
regionrel_find(DcRegionRel *rel, ScanKeyData *keys, int nkeys)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool found = keyrow_find(rel->heap, rel->index, keys, nkeys, snapshot, rel->found);

	UnregisterSnapshot(snapshot);
	return found;
}

/*
 * region_row_find finds the row of a key, region and epoch in the same way. The texts of *row are
 * those that were wanted.
 */
bool
region_row_find(DcRegionRel *rel, const DcRegionRow *wanted, DcRegionRow *row)
{
	ScanKeyData keys[3];
	bool found;

	scan_keys(wanted, keys);
	found = regionrel_find(rel, keys, lengthof(keys));
	if (found)
	{
		*row = *wanted;
		read_row(rel, row);
	}
	ExecClearTuple(rel->found);
	return found;
}

/*
 * region_row_find_last finds the row of a key and region with the greatest epoch in a range: from
 * the wanted row's on, and before another one.
 */
bool
region_row_find_last(DcRegionRel *rel, const DcRegionRow *wanted, int64 before, DcRegionRow *row)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	IndexScanDesc scan;
	ScanKeyData keys[4];
	bool found;

	/* an owner may have written very many others */
	scan_keys(wanted, keys);
	ScanKeyInit(&keys[2], 3, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(wanted->epoch));
	ScanKeyInit(&keys[3], 3, BTLessStrategyNumber, F_INT8LT, Int64GetDatum(before));
	scan = keyrow_scan(rel->heap, rel->index, keys, lengthof(keys), snapshot);
	found = index_getnext_slot(scan, BackwardScanDirection, rel->found);
	if (found)
	{
		*row = *wanted;
		row->epoch = DatumGetInt64(slot_datum(rel->found, rel->layout->atts[REGION_EPOCH], INT8OID));
		read_row(rel, row);
	}
	ExecClearTuple(rel->found);
	index_endscan(scan);
	UnregisterSnapshot(snapshot);
	return found;
}

/*
 * region_rows_read returns the rows of a key that a snapshot sees (DcRegionRow).
 */
List *
region_rows_read(DcRegionRel *rel, Datum key, Snapshot snapshot)
{
	const AttrNumber *atts = rel->layout->atts;
	DcRegionRow wanted = {.key = key};
	IndexScanDesc scan = regionrow_scan_begin(rel, &wanted, 1, snapshot);
	List *rows = NIL;

	while (index_getnext_slot(scan, ForwardScanDirection, rel->found))
	{
		DcRegionRow *row = palloc(sizeof(DcRegionRow));

		CHECK_FOR_INTERRUPTS();
		row->key = key;
		row->region = datumCopy(slot_datum(rel->found, atts[REGION_REGION], TEXTOID), false, -1);
		row->epoch = DatumGetInt64(slot_datum(rel->found, atts[REGION_EPOCH], INT8OID));
		read_row(rel, row);
		rows = lappend(rows, row);
	}
	ExecClearTuple(rel->found);
	index_endscan(scan);
	return rows;
}

/*
 * Set the amounts, time and place of the row from the version that was found.
 */
static void
read_row(DcRegionRel *rel, DcRegionRow *row)
{
	const AttrNumber *atts = rel->layout->atts;

	row->inc = DatumGetInt64(slot_datum(rel->found, atts[REGION_INC], INT8OID));
	row->dec = DatumGetInt64(slot_datum(rel->found, atts[REGION_DEC], INT8OID));
	row->at = DatumGetTimestampTz(slot_datum(rel->found, atts[REGION_UPDATED_AT], TIMESTAMPTZOID));
	row->tid = rel->found->tts_tid;
}

/*
 * Lock the latest version of a row that was found, and read it again: rel->found. Wait for
 * other transactions; false if the row is gone.
 */
bool
regionrel_lock(DcRegionRel *rel, ItemPointer tid)
{
	TM_FailureData failure;
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool locked = table_tuple_lock(rel->heap, tid, snapshot, rel->found, GetCurrentCommandId(true),
								   LockTupleNoKeyExclusive, LockWaitBlock,
								   TUPLE_LOCK_FLAG_FIND_LAST_VERSION, &failure) == TM_Ok;

	UnregisterSnapshot(snapshot);
	return locked;
}

/*
 * region_row_lock does the same for a row of regions.
 */
bool
region_row_lock(DcRegionRel *rel, DcRegionRow *row)
{
	const AttrNumber *atts = rel->layout->atts;
	/* its owner may have changed its key directly */
	bool locked = regionrel_lock(rel, &row->tid) &&
		batch_key_equal(slot_datum(rel->found, atts[REGION_KEY], TEXTOID), row->key) &&
		batch_key_equal(slot_datum(rel->found, atts[REGION_REGION], TEXTOID), row->region) &&
		DatumGetInt64(slot_datum(rel->found, atts[REGION_EPOCH], INT8OID)) == row->epoch;

	if (locked)
		read_row(rel, row);
	ExecClearTuple(rel->found);
	return locked;
}

/*
 * region_row_try_lock locks a version that was found; false if another transaction has locked or
 * changed the row.
 */
bool
region_row_try_lock(DcRegionRel *rel, const DcRegionRow *row)
{
	return keyrow_lock_version(rel->heap, &row->tid, LockTupleNoKeyExclusive, LockWaitSkip);
}

/*
 * region_row_replace writes a row that was found in place of the version at row->tid. Returns false
 * if that version is not locked, and another transaction has locked or changed the row.
 */
bool
region_row_replace(DcRegionRel *rel, const DcRegionRow *row, bool locked)
{
	bool replaced;

	store_row(rel, row);
	replaced = keyrow_replace(rel->heap, &row->tid, rel->slot, locked);
	ExecClearTuple(rel->slot);
	return replaced;
}

/*
 * Store the row's values in the relation's slot, to be written.
 */
static void
store_row(DcRegionRel *rel, const DcRegionRow *row)
{
	Datum values[] = {[REGION_KEY] = row->key,
					  [REGION_REGION] = row->region,
					  [REGION_EPOCH] = Int64GetDatum(row->epoch),
					  [REGION_INC] = Int64GetDatum(row->inc),
					  [REGION_DEC] = Int64GetDatum(row->dec),
					  [REGION_UPDATED_AT] = TimestampTzGetDatum(row->at)};

	keyrow_store(rel->slot, rel->heap, rel->layout->atts, values, NULL, REGION_NUM_COLUMNS);
}

/*
 * region_row_insert inserts a row; false, with nothing done, if there is one, or a transaction in
 * progress has one. Never waits.
 */
bool
region_row_insert(DcRegionRel *rel, DcRegionRow *row)
{
	bool inserted;

	store_row(rel, row);
	inserted = keyrow_try_insert(rel->heap, rel->index, rel->slot);
	row->tid = rel->slot->tts_tid;
	ExecClearTuple(rel->slot);
	return inserted;
}

/*
 * region_row_wait waits for a transaction that inserts or changes a row, or until a speculative
 * insertion is withdrawn. False if there is none.
 */
bool
region_row_wait(DcRegionRel *rel, const DcRegionRow *wanted)
{
	ScanKeyData keys[3];

	scan_keys(wanted, keys);
	return keyrow_wait(rel->heap, rel->index, keys, 3, rel->found);
}
