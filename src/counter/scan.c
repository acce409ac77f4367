/*
 * scan.c
 *		Finding the rows of a key by the index, in the presence of many dead
 *		entries.
 *
 * While an old snapshot prevents vacuum, a hot row leaves an index entry behind
 * on each page that it was on. They sort by shard number and then by tuple id.
 * Going backwards, the newest entry of a shard number usually comes first, as a
 * growing table hands out ascending pages. In a snapshot at most one version of
 * a row is visible (the index is unique), so once it is found, the other entries
 * of that number need no visit to the heap: a few are stepped over, then the
 * scan starts again below the number. The order of entries is a matter of
 * speed only.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/skey.h"
#include "access/table.h"
#include "base/compat.h"
#include "catalog/pg_collation.h"
#include "counter/access.h"
#include "counter/scan.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

static void add_slot(DcKeyState *state, TupleTableSlot *slot,
					 const DcTableLayout *layout, bool is_shard);

/* Entries of a number to step over before the scan starts again. */
#define MAX_STEP_OVER 8

/*
 * shard_scan_begin starts a scan of a key's shard rows in a snapshot.
 */
void
shard_scan_begin(DcShardScan *scan, Relation heap, Relation index,
				 Datum key, Snapshot snapshot)
{
	ScanKeyEntryInitialize(&scan->keys[0], 0, 1, BTEqualStrategyNumber,
						   InvalidOid, C_COLLATION_OID, F_TEXTEQ, key);
	ScanKeyInit(&scan->keys[1], 2, BTLessEqualStrategyNumber, F_INT4LE,
				Int32GetDatum(PG_INT32_MAX));
	scan->index_scan = compat_index_beginscan(heap, index, snapshot, 2);
	scan->index_scan->xs_want_itup = true;
	index_rescan(scan->index_scan, scan->keys, 2, NULL, 0);
	scan->found = false;
}

/*
 * shard_scan_next fetches the visible version of the next row into slot, and
 * returns false when there is none left. *root is the index entry's tuple id.
 */
bool
shard_scan_next(DcShardScan *scan, TupleTableSlot *slot,
				ItemPointer root, int32 *shard)
{
	IndexScanDesc is = scan->index_scan;
	int stepped_over = 0;
	ItemPointer tid;

	while ((tid = index_getnext_tid(is, BackwardScanDirection)) != NULL)
	{
		bool isnull;
		int32 number = DatumGetInt32(index_getattr(is->xs_itup, 2,
												   is->xs_itupdesc,
												   &isnull));

		CHECK_FOR_INTERRUPTS();
		if (scan->found && number == scan->last)
		{
			if (++stepped_over > MAX_STEP_OVER)
			{
				if (number == PG_INT32_MIN)
					return false;
				scan->keys[1].sk_argument = Int32GetDatum(number - 1);
				index_rescan(is, scan->keys, 2, NULL, 0);
				stepped_over = 0;
			}
			continue;
		}
		*root = *tid;
		if (!index_fetch_heap(is, slot))
			continue;
		scan->found = true;
		scan->last = number;
		*shard = number;
		return true;
	}
	return false;
}

/*
 * shard_scan_end ends a scan.
 */
void
shard_scan_end(DcShardScan *scan)
{
	index_endscan(scan->index_scan);
}

/*
 * scan_key sums the rows of a key in the snapshot of a read function.
 */
void
scan_key(DcCounter *counter, const DcKey *key, DcKeyState *state)
{
	Relation heap = table_open(counter->relid, NoLock);
	Relation index = index_open(counter->totals.index, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(heap, NULL);
	Datum key_datum = key_text_datum(key);
	IndexScanDesc scan;
	ScanKeyData keys[1];
	DcShardScan shards;
	ItemPointerData root;
	int32 shard;

	read_snapshot_push();
	ScanKeyEntryInitialize(&keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ, key_datum);
	scan = compat_index_beginscan(heap, index, GetActiveSnapshot(), 1);
	index_rescan(scan, keys, 1, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
		add_slot(state, slot, &counter->totals, false);
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(heap, NoLock);

	heap = table_open(counter->row.shards, NoLock);
	index = index_open(counter->shards.index, AccessShareLock);
	slot = table_slot_create(heap, NULL);
	shard_scan_begin(&shards, heap, index, key_datum, GetActiveSnapshot());
	while (shard_scan_next(&shards, slot, &root, &shard))
		add_slot(state, slot, &counter->shards, true);
	shard_scan_end(&shards);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(heap, NoLock);

	PopActiveSnapshot();
	pfree(DatumGetPointer(key_datum));
}

/*
 * add_slot adds a row of either table.
 */
static void
add_slot(DcKeyState *state, TupleTableSlot *slot, const DcTableLayout *layout,
		 bool is_shard)
{
	bool isnull;
	Datum inc = slot_getattr(slot, layout->atts[DC_COL_INC], &isnull);
	Datum dec = slot_getattr(slot, layout->atts[DC_COL_DEC], &isnull);
	Datum at = slot_getattr(slot, layout->atts[DC_COL_UPDATED_AT], &isnull);

	key_state_add(state, DatumGetInt64(inc), DatumGetInt64(dec),
				  DatumGetTimestampTz(at), is_shard);
}
