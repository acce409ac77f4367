/*
 * oldversion.c
 *		Finding the version that an old snapshot sees.
 *
 * Readers visit the newest index entries of a row first (scan.c), since nearly all of them
 * have a new snapshot. A transaction that has an old one needs a version that may have many
 * newer ones, with an entry for each page. Entries of a row sort by place, so those of
 * old versions are usually the lowest. Hence, if the version is not found at the newest entries,
 * the row is searched from both ends at the same time: what is near either end is found soon,
 * and when the two scans meet, every entry has been visited.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "base/compat.h"
#include "miscadmin.h"
#include "rows/oldversion.h"

/* One of the two scans. */
typedef struct DcEnd
{
	IndexScanDesc scan;
	ScanDirection direction;
} DcEnd;

static void
end_begin(DcEnd *end, ScanDirection direction, Relation heap, Relation index, ScanKey keys,
		  int nkeys, Snapshot snapshot)
{
	end->direction = direction;
	end->scan = compat_index_beginscan(heap, index, snapshot, nkeys);
	index_rescan(end->scan, keys, nkeys, NULL, 0);
}

/*
 * old_version_fetch fetches the version that an MVCC snapshot sees, of the row whose index
 * entries have these keys. False if there is none.
 */
bool
old_version_fetch(Relation heap, Relation index, ScanKey keys, int nkeys, Snapshot snapshot,
				  TupleTableSlot *slot)
{
	DcEnd ends[2]; /* the first goes up, the second down */
	ItemPointerData last[2];
	bool found = false;
	bool met = false;

	end_begin(&ends[0], ForwardScanDirection, heap, index, keys, nkeys, snapshot);
	end_begin(&ends[1], BackwardScanDirection, heap, index, keys, nkeys, snapshot);
	ItemPointerSetInvalid(&last[0]);
	ItemPointerSetInvalid(&last[1]);
	for (int i = 0; !found && !met; i = 1 - i)
	{
		ItemPointer tid = index_getnext_tid(ends[i].scan, ends[i].direction);
		ItemPointer other = &last[1 - i];

		CHECK_FOR_INTERRUPTS();
		met = tid == NULL ||
			(ItemPointerIsValid(other) &&
			 (i == 0 ? ItemPointerCompare(tid, other) >= 0
					 : ItemPointerCompare(tid, other) <= 0));
		if (!met)
		{
			last[i] = *tid;
			found = index_fetch_heap(ends[i].scan, slot);
		}
	}
	index_endscan(ends[0].scan);
	index_endscan(ends[1].scan);
	return found;
}
