/*
 * regionrow.c
 *		Finding and writing rows of regions, without SQL.
 *
 * Each transaction that writes a row has the latest version of it, by a lock or by an update that
 * is refused if the version that was read is not the latest. Rows are inserted speculatively,
 * as ON CONFLICT does: of two that insert a row one finds the other's. WAL and logical
 * decoding are those of heap_update() and heap_insert(). Old versions have no place in
 * memory that sessions share: the key is looked up in the index each time, which has one entry
 * a row, as long as its versions stay on their page.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/compat.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "catalog/index.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "region/region.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

static void scan_keys(const DcRegionRow *row, ScanKeyData *keys);
static void read_row(DcRegionRel *rel, DcRegionRow *row);
static void store_row(DcRegionRel *rel, const DcRegionRow *row);
static void open_indexes(DcRegionRel *rel);

/*
 * regionrel_open opens the table of regions of a counter, whose tables are locked, to write. With
 * NoLock it is locked as well.
 */
void
regionrel_open(DcRegionRel *rel, DcCounter *counter, LOCKMODE mode)
{
	rel->counter = counter;
	rel->opened = false;
	rel->heap = table_open_present(counter->row.regions, mode);
	counter_regions_layout(counter, rel->heap);
	CheckCmdReplicaIdentity(rel->heap, CMD_UPDATE);
	rel->index = index_open(counter->regions.index, RowExclusiveLock);
	rel->slot = MakeSingleTupleTableSlot(RelationGetDescr(rel->heap), &TTSOpsHeapTuple);
	rel->found = table_slot_create(rel->heap, NULL);
}

void
regionrel_close(DcRegionRel *rel)
{
	if (rel->opened)
		indexes_close(&rel->indexes);
	ExecDropSingleTupleTableSlot(rel->found);
	ExecDropSingleTupleTableSlot(rel->slot);
	index_close(rel->index, NoLock);
	table_close(rel->heap, NoLock);
}

static void
scan_keys(const DcRegionRow *row, ScanKeyData *keys)
{
	ScanKeyEntryInitialize(&keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID,
						   F_TEXTEQ, row->key);
	ScanKeyEntryInitialize(&keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID,
						   F_TEXTEQ, row->region);
	ScanKeyEntryInitialize(&keys[2], 0, 3, BTEqualStrategyNumber, InvalidOid, InvalidOid,
						   F_INT8EQ, Int64GetDatum(row->epoch));
}

/*
 * scan_begin scans for the row of a key, region and epoch, or by the first columns of these.
 */
static IndexScanDesc
scan_begin(DcRegionRel *rel, const DcRegionRow *wanted, int columns, Snapshot snapshot)
{
	IndexScanDesc scan = compat_index_beginscan(rel->heap, rel->index, snapshot, columns);
	ScanKeyData keys[3];

	scan_keys(wanted, keys);
	index_rescan(scan, keys, columns, NULL, 0);
	return scan;
}

/*
 * region_row_find reads the row of a key, region and epoch as of now, without a lock. The texts of
 * *row are those that were wanted.
 */
bool
region_row_find(DcRegionRel *rel, const DcRegionRow *wanted, DcRegionRow *row)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	IndexScanDesc scan = scan_begin(rel, wanted, 3, snapshot);
	bool found = index_getnext_slot(scan, ForwardScanDirection, rel->found);

	if (found)
	{
		*row = *wanted;
		read_row(rel, row);
	}
	ExecClearTuple(rel->found);
	index_endscan(scan);
	UnregisterSnapshot(snapshot);
	return found;
}

/*
 * region_row_find_last does so for the row of a key and region with the greatest epoch from the one wanted on, and
 * before another one.
 */
bool
region_row_find_last(DcRegionRel *rel, const DcRegionRow *wanted, int64 before, DcRegionRow *row)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	IndexScanDesc scan = compat_index_beginscan(rel->heap, rel->index, snapshot, 4);
	ScanKeyData keys[4];
	bool found;

	/* an owner may have written very many others */
	scan_keys(wanted, keys);
	ScanKeyInit(&keys[2], 3, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(wanted->epoch));
	ScanKeyInit(&keys[3], 3, BTLessStrategyNumber, F_INT8LT, Int64GetDatum(before));
	index_rescan(scan, keys, lengthof(keys), NULL, 0);
	found = index_getnext_slot(scan, BackwardScanDirection, rel->found);
	if (found)
	{
		*row = *wanted;
		row->epoch = DatumGetInt64(slot_datum(rel->found, rel->counter->regions.atts[REGION_EPOCH], INT8OID));
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
	const AttrNumber *atts = rel->counter->regions.atts;
	DcRegionRow wanted = {.key = key};
	IndexScanDesc scan = scan_begin(rel, &wanted, 1, snapshot);
	List *rows = NIL;

	while (index_getnext_slot(scan, ForwardScanDirection, rel->found))
	{
		DcRegionRow *row = palloc(sizeof(DcRegionRow));

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

static void
read_row(DcRegionRel *rel, DcRegionRow *row)
{
	const AttrNumber *atts = rel->counter->regions.atts;

	row->inc = DatumGetInt64(slot_datum(rel->found, atts[REGION_INC], INT8OID));
	row->dec = DatumGetInt64(slot_datum(rel->found, atts[REGION_DEC], INT8OID));
	row->at = DatumGetTimestampTz(slot_datum(rel->found, atts[REGION_UPDATED_AT], TIMESTAMPTZOID));
	row->tid = rel->found->tts_tid;
}

/*
 * region_row_lock locks the latest version of a row that was found, and reads it again. Waits for
 * other transactions; false if the row is gone.
 */
bool
region_row_lock(DcRegionRel *rel, DcRegionRow *row)
{
	TM_FailureData failure;
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool locked = table_tuple_lock(rel->heap, &row->tid, snapshot, rel->found, GetCurrentCommandId(true),
								   LockTupleNoKeyExclusive, LockWaitBlock,
								   TUPLE_LOCK_FLAG_FIND_LAST_VERSION, &failure) == TM_Ok;

	if (locked)
		read_row(rel, row);
	ExecClearTuple(rel->found);
	UnregisterSnapshot(snapshot);
	return locked;
}

/*
 * region_row_try_lock locks a version that was found; false if another transaction has the row, or had it
 * since.
 */
bool
region_row_try_lock(DcRegionRel *rel, const DcRegionRow *row)
{
	HeapTupleData tuple = {.t_self = row->tid};
	TM_FailureData failure;
	Buffer buffer;
	bool locked = heap_lock_tuple(rel->heap, &tuple, GetCurrentCommandId(true), LockTupleNoKeyExclusive,
								  LockWaitSkip, false, &buffer, &failure) == TM_Ok;

	ReleaseBuffer(buffer);
	return locked;
}

/*
 * region_row_replace writes a row that was found in place of the version at row->tid. If that is
 * not locked, false if another transaction has the row, or had it since.
 */
bool
region_row_replace(DcRegionRel *rel, const DcRegionRow *row, bool locked)
{
	ItemPointerData tid = row->tid;
	TM_FailureData failure;
	bool new_entry;
	bool replaced;

	if (!locked && !COMPAT_UPDATE_NEED_NOT_WAIT)
	{
		locked = region_row_try_lock(rel, row);
		if (!locked)
			return false;
	}
	store_row(rel, row);
	replaced = compat_tuple_update(rel->heap, &tid, rel->slot, GetCurrentCommandId(true), locked,
								   &failure, &new_entry) == TM_Ok;
	if (replaced && new_entry) /* it is not on the page of the old version */
	{
		open_indexes(rel);
		indexes_insert(&rel->indexes, rel->heap, InvalidOid, &rel->slot, 1);
	}
	ExecClearTuple(rel->slot);
	return replaced;
}

/*
 * store_row makes rel->slot a row. Columns that are not ours are dropped ones.
 */
static void
store_row(DcRegionRel *rel, const DcRegionRow *row)
{
	const AttrNumber *atts = rel->counter->regions.atts;
	TupleDesc desc = RelationGetDescr(rel->heap);
	Datum *values = palloc0(desc->natts * sizeof(Datum));
	bool *nulls = palloc(desc->natts * sizeof(bool));
	HeapTuple tuple;

	memset(nulls, true, desc->natts * sizeof(bool));
	for (int i = 0; i < REGION_NUM_COLUMNS; i++)
		nulls[atts[i] - 1] = false;
	values[atts[REGION_KEY] - 1] = row->key;
	values[atts[REGION_REGION] - 1] = row->region;
	values[atts[REGION_EPOCH] - 1] = Int64GetDatum(row->epoch);
	values[atts[REGION_INC] - 1] = Int64GetDatum(row->inc);
	values[atts[REGION_DEC] - 1] = Int64GetDatum(row->dec);
	values[atts[REGION_UPDATED_AT] - 1] = TimestampTzGetDatum(row->at);
	tuple = heap_form_tuple(desc, values, nulls);
	tuple->t_tableOid = RelationGetRelid(rel->heap);
	ExecStoreHeapTuple(tuple, rel->slot, true);
	pfree(values);
	pfree(nulls);
}

/*
 * open_indexes opens all indexes. There may be a second one while the one is being built anew.
 */
static void
open_indexes(DcRegionRel *rel)
{
	if (!rel->opened)
		indexes_open(&rel->indexes, rel->heap);
	rel->opened = true;
}

/*
 * region_row_insert inserts a row; false, with nothing done, if there is one, or a transaction in
 * progress has one. Never waits.
 */
bool
region_row_insert(DcRegionRel *rel, DcRegionRow *row)
{
	TransactionId xid = GetCurrentTransactionId();
	uint32 token;
	bool taken;

	store_row(rel, row);
	open_indexes(rel);
	token = SpeculativeInsertionLockAcquire(xid);
	table_tuple_insert_speculative(rel->heap, rel->slot, GetCurrentCommandId(true), 0, NULL, token);
	indexes_try_insert(&rel->indexes, rel->heap, &rel->slot, 1, &taken);
	table_tuple_complete_speculative(rel->heap, rel->slot, token, !taken);
	SpeculativeInsertionLockRelease(xid);
	row->tid = rel->slot->tts_tid;
	ExecClearTuple(rel->slot);
	return !taken;
}

/*
 * region_row_wait waits for a transaction that inserts or changes a row, or for the moment in which
 * it is clear that the row will not stay. False if there is none.
 */
bool
region_row_wait(DcRegionRel *rel, const DcRegionRow *wanted)
{
	SnapshotData dirty;
	IndexScanDesc scan;
	TransactionId xid = InvalidTransactionId;

	InitDirtySnapshot(dirty);
	scan = scan_begin(rel, wanted, 3, &dirty);
	if (index_getnext_slot(scan, ForwardScanDirection, rel->found))
		xid = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
	ExecClearTuple(rel->found);
	index_endscan(scan);
	if (!TransactionIdIsValid(xid))
		return false;
	if (dirty.speculativeToken != 0 && xid == dirty.xmin)
		SpeculativeInsertionWait(dirty.xmin, dirty.speculativeToken);
	else
		XactLockTableWait(xid, NULL, NULL, XLTW_None);
	return true;
}
