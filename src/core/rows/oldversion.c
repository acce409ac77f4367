/*
 * oldversion.c
 *		Finding the version that a snapshot sees among many index entries of a row.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Readers visit the last index entries of a row first (scan.c): entries of a row sort by
 * place, the newest version is usually near the end of the table, and nearly all readers have a
 * new snapshot. But entries that the index has deduplicated come in the order of their places, even
 * when it is scanned backwards. And a transaction that has an old snapshot needs a version that may
 * have many newer ones, each page with an entry.
 *
 * So if the version is not found at the first few entries, all entries of the row are listed,
 * without a visit to the heap, which is quick: a leaf page has many. Then they are visited from
 * both ends of the list in turn. A version near either end is found soon, and if a version is not
 * found, all entries have been visited.
 *
 * No pin keeps VACUUM from removing an entry that is listed and using its place again. That is
 * harmless with an MVCC snapshot, as for a bitmap scan: the version that it sees cannot be
 * removed, and it does not see rows that reuse the place of another one later.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "miscadmin.h"

#include "base/compat.h"
#include "core/rows/oldversion.h"

/* Places of a row that index entries lead to. */
typedef struct DcPlaces
{
	ItemPointerData *tids;
	int count;
} DcPlaces;

static void list_places(DcPlaces *places, Relation heap, Relation index, ScanKey keys,
						int nkeys, Snapshot snapshot);

/*
 * old_version_fetch fetches the version that an MVCC snapshot sees, of the row whose index
 * entries have these keys, and sets *root to the place that its entry leads to. Returns false
 * if there is none.
 */
bool
old_version_fetch(Relation heap, Relation index, ScanKey keys, int nkeys, Snapshot snapshot,
				  TupleTableSlot *slot, ItemPointer root)
{
	IndexFetchTableData *fetch;
	DcPlaces places;
	bool found = false;

	list_places(&places, heap, index, keys, nkeys, snapshot);
	fetch = compat_index_fetch_begin(heap);
	for (int i = 0; !found && i < places.count; i++)
	{
		/* the last, the first, the last but one, and so on */
		int from_end = i / 2;
		ItemPointerData tid = places.tids[i % 2 == 0 ? places.count - 1 - from_end : from_end];
		bool call_again = false;

		CHECK_FOR_INTERRUPTS();
		*root = tid; /* which moves on to the version */
		found = table_index_fetch_tuple(fetch, &tid, snapshot, slot, &call_again, NULL);
	}
	table_index_fetch_end(fetch);
	pfree(places.tids);
	return found;
}

/*
 * list_places lists what the entries with these keys lead to.
 */
static void
list_places(DcPlaces *places, Relation heap, Relation index, ScanKey keys, int nkeys,
			Snapshot snapshot)
{
	IndexScanDesc scan = compat_index_beginscan(heap, index, snapshot, nkeys);
	int capacity = 256;
	ItemPointer tid;

	places->count = 0;
	places->tids = palloc(capacity * sizeof(ItemPointerData));
	index_rescan(scan, keys, nkeys, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (places->count == capacity)
		{
			capacity *= 2;
			places->tids = repalloc_huge(places->tids, capacity * sizeof(ItemPointerData));
		}
		places->tids[places->count++] = *tid;
	}
	index_endscan(scan);
}
