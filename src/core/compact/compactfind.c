/*
 * compactfind.c
 *		Finding the shard rows of a batch without SQL, key by key.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * While an old snapshot is held, the index has an entry for each page that a hot row was ever on,
 * and each is a page of dead versions. A statement would visit all of them in each round.
 *
 *	- The index is read from key to key. The entries of a key are visited in their order, up
 *	  to FEW_ENTRIES: most keys have one or two. Dead ones are marked in the index on the
 *	  way, as any index scan does.
 *	- A key with more entries is looked up the way that reads do (scan.c): the rows that all
 *	  sessions are told of (sharedhints.c), and then the others, newest entry first. The scan
 *	  continues with the next key. What was found at the first entries is not used.
 *	- A row that another transaction inserts or changes is left out, and noted for
 *	  another try (compactbusy.c). Nothing here waits for it.
 *
 * Rows are read as of now, with a dirty snapshot: the committed ones and those of this
 * transaction, as a statement under READ COMMITTED would see them. Nothing is locked here, so
 * listed rows may have changed since: locking such a row fails (core/rows/clear.c).
 *
 * The rows of a key are listed from the highest number down. Those of a key with more than fit into
 * a batch, or than a batch visits, are cut, and the next batch goes on below the last number. In
 * the second case a row of that number may be left for the next sweep.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "base/key.h"
#include "base/rowread.h"
#include "core/compact/compactfind.h"
#include "core/rows/probe.h"
#include "core/rows/scan.h"
#include "core/rows/sharedhints.h"
#include "core/table/layout.h"

/* Entries of a key to visit in their order. */
#define FEW_ENTRIES 8

/* Keys that a sweep notes for another try. */
#define MAX_BUSY 100

static void compactfind_scan_start(DcFetch *fetch, Datum key, bool after);
static void scan_advance(DcFetch *fetch);
static Datum entry_key(DcFetch *fetch);
static bool is_at_key(DcFetch *fetch);
static void compactfind_read_hints(DcFetch *fetch, DcKnownShards *known);
static void compactfind_read_index(DcFetch *fetch, DcKnownShards known);
static void drop_lower(DcFetch *fetch, int32 number);
static bool compactfind_add_slot(DcFetch *fetch, TupleTableSlot *slot, int32 shard);
static DcLiveRow *compactfind_add_row(DcFetch *fetch, ItemPointer tid, int32 shard);
static int live_row_compare(const void *a, const void *b);

/*
 * fetch_begin starts with the first entry of the key that the sweep is at.
 */
void
fetch_begin(DcFetch *fetch, DcBatch *batch, DcSweep *sweep)
{
	DcDirectRel *rel = batch->direct;

	*fetch = (DcFetch){
		.batch = batch,
		.sweep = sweep,
		.rel = rel,
		.slot = table_slot_create(rel->heap, NULL),
		.key_cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter compaction key",
										 ALLOCSET_SMALL_SIZES),
		/* some may come from shared memory, before the entries of the index are counted */
		.capacity = batch->max_rows + DC_MAX_SHARED_HINTS,
	};
	fetch->rows = palloc(fetch->capacity * sizeof(DcLiveRow));
	InitDirtySnapshot(fetch->dirty);
	fetch->scan = compat_index_beginscan(rel->heap, directrel_index(rel), &fetch->dirty, 1);
	fetch->scan->xs_want_itup = true;
	compactfind_scan_start(fetch, sweep->key, false);
}

/*
 * fetch_end gives back what fetch_begin took.
 */
void
fetch_end(DcFetch *fetch)
{
	index_endscan(fetch->scan);
	pfree(DatumGetPointer(fetch->start));
	ExecDropSingleTupleTableSlot(fetch->slot);
	MemoryContextDelete(fetch->key_cxt);
	pfree(fetch->rows);
}

/*
 * compactfind_scan_start goes to the first entry of a key, or of the next one after it.
 */
static void
compactfind_scan_start(DcFetch *fetch, Datum key, bool after)
{
	ScanKeyData start;
	Datum copy = datumCopy(key, false, -1); /* the scan needs it as long as it goes on */

	ScanKeyEntryInitialize(&start, 0, 1,
						   after ? BTGreaterStrategyNumber : BTGreaterEqualStrategyNumber,
						   InvalidOid, C_COLLATION_OID, after ? F_TEXT_GT : F_TEXT_GE, copy);
	index_rescan(fetch->scan, &start, 1, NULL, 0);
	if (fetch->start != (Datum) 0)
		pfree(DatumGetPointer(fetch->start));
	fetch->start = copy;
	scan_advance(fetch);
}

/*
 * scan_advance goes to the next entry. (An index entry has no nulls as long as the
 * columns have none.)
 */
static void
scan_advance(DcFetch *fetch)
{
	bool isnull = true;

	while (isnull)
	{
		CHECK_FOR_INTERRUPTS();
		fetch->visited++;
		fetch->at_end = index_getnext_tid(fetch->scan, ForwardScanDirection) == NULL;
		if (fetch->at_end)
			return;
		fetch->shard = DatumGetInt32(index_getattr(fetch->scan->xs_itup, 2,
												   fetch->scan->xs_itupdesc, &isnull));
	}
}

/*
 * entry_key returns the key of the entry that the scan is at.
 */
static Datum
entry_key(DcFetch *fetch)
{
	bool isnull; /* the scan leaves out nulls */

	return index_getattr(fetch->scan->xs_itup, 1, fetch->scan->xs_itupdesc, &isnull);
}

/*
 * Return true if the scan is still at the key that was taken.
 */
static bool
is_at_key(DcFetch *fetch)
{
	MemoryContext old = MemoryContextSwitchTo(fetch->key_cxt); /* it may be compressed */
	bool same = !fetch->at_end && batch_key_equal(entry_key(fetch), fetch->key);

	MemoryContextSwitchTo(old);
	return same;
}

/*
 * fetch_take_key takes the key that the scan is at.
 */
void
fetch_take_key(DcFetch *fetch)
{
	MemoryContext old;
	DcKey key;

	MemoryContextReset(fetch->key_cxt);
	old = MemoryContextSwitchTo(fetch->key_cxt);
	key_from_text(entry_key(fetch), &key);
	fetch->key = key_text_datum(&key);
	key_from_text(fetch->key, &key);
	fetch->delta_key = delta_key(fetch->rel->counter->relid, &key);
	MemoryContextSwitchTo(old);
	fetch->below = INT64CONST(1) << 32; /* all */
	if (fetch->sweep->counted && batch_key_equal(fetch->key, fetch->sweep->key))
		fetch->below = DatumGetInt32(fetch->sweep->shard);
}

/*
 * fetch_pass_key goes on to the next key, without the rows of the one that was taken.
 */
void
fetch_pass_key(DcFetch *fetch)
{
	compactfind_scan_start(fetch, fetch->key, true);
}

/*
 * fetch_rows lists the live rows of the key, and goes on to the next key.
 */
void
fetch_rows(DcFetch *fetch)
{
	int entries = 0;
	int32 last = 0;
	bool done = false; /* with number `last` */

	fetch->nrows = 0;
	fetch->cut = false;
	do
	{
		if (++entries > FEW_ENTRIES)
		{
			compactfind_scan_start(fetch, fetch->key, true);
			fetch_many_rows(fetch);
			return;
		}
		done = done && fetch->shard == last;
		last = fetch->shard;
		if (!done && fetch->shard < fetch->below && index_fetch_heap(fetch->scan, fetch->slot))
			done = compactfind_add_slot(fetch, fetch->slot, fetch->shard);
		scan_advance(fetch);
	} while (is_at_key(fetch));
	qsort(fetch->rows, fetch->nrows, sizeof(DcLiveRow), live_row_compare);
}

/*
 * fetch_many_rows lists the live rows of a key with many entries, not all of them if they
 * are more than fit into a batch, or than it visits.
 */
void
fetch_many_rows(DcFetch *fetch)
{
	MemoryContext old = MemoryContextSwitchTo(fetch->key_cxt);
	int32 numbers[DC_MAX_SHARED_HINTS];
	DcKnownShards known = {.numbers = numbers};

	fetch->nrows = 0;
	fetch->cut = false;
	compactfind_read_hints(fetch, &known);
	compactfind_read_index(fetch, known);
	qsort(fetch->rows, fetch->nrows, sizeof(DcLiveRow), live_row_compare);
	MemoryContextSwitchTo(old);
}

/*
 * compactfind_read_hints reads the rows that shared memory tells of, and notes their numbers.
 */
static void
compactfind_read_hints(DcFetch *fetch, DcKnownShards *known)
{
	DcHint hints[DC_MAX_SHARED_HINTS];
	int count = shared_hints_read(&fetch->delta_key, hints);
	const AttrNumber *atts = fetch->rel->layout->atts;

	for (int i = 0; i < count; i++)
	{
		DcDirectRel *rel = fetch->rel;
		DcProbe probe;
		DcLiveRow *row;

		if (hints[i].shard >= fetch->below)
			continue;
		switch (probe_row(rel, &fetch->delta_key, &hints[i], &probe))
		{
			case DC_PROBE_GONE:
				continue;
			case DC_PROBE_BUSY:
				sweep_note_busy(fetch->sweep, fetch->key);
				break;
			case DC_PROBE_FREE:
				row = compactfind_add_row(fetch, &probe.version.tuple.t_self, hints[i].shard);
				row->inc = DatumGetInt64(rel->values[atts[DC_COL_INC] - 1]);
				row->dec = DatumGetInt64(rel->values[atts[DC_COL_DEC] - 1]);
				row->at = DatumGetTimestampTz(rel->values[atts[DC_COL_UPDATED_AT] - 1]);
				version_release(&probe.version);
				break;
		}
		known->numbers[known->count++] = hints[i].shard;
	}
}

/*
 * compactfind_read_index reads the rows of all other numbers, from the highest down. The next batch
 * can go on below the last of them if the lower ones that shared memory has told of wait, too.
 */
static void
compactfind_read_index(DcFetch *fetch, DcKnownShards known)
{
	DcDirectRel *rel = fetch->rel;
	TupleTableSlot *slot = table_slot_create(rel->heap, NULL);
	SnapshotData dirty;
	DcShardScan scan;
	ItemPointerData root;
	int32 shard;

	InitDirtySnapshot(dirty);
	shard_scan_begin(&scan, rel->heap, directrel_index(rel), fetch->key, &dirty, known);
	if (fetch->below <= PG_INT32_MAX)
		shard_scan_below(&scan, (int32) fetch->below);
	while (shard_scan_next(&scan, slot, &root, &shard))
	{
		fetch->dirty.xmin = dirty.xmin;
		fetch->dirty.xmax = dirty.xmax;
		scan.done = compactfind_add_slot(fetch, slot, shard);
		if (scan.done)
			shared_hint_put(&fetch->delta_key, shard, &root);
		fetch->visited++;
		if (fetch->nrows >= fetch->batch->max_rows || fetch_is_long(fetch))
		{
			fetch->cut = true;
			fetch->cut_at = shard;
			drop_lower(fetch, shard);
			break;
		}
	}
	shard_scan_end(&scan);
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * drop_lower takes rows with lower numbers off the list.
 */
static void
drop_lower(DcFetch *fetch, int32 number)
{
	int n = 0;

	for (int i = 0; i < fetch->nrows; i++)
	{
		if (fetch->rows[i].shard >= number)
			fetch->rows[n++] = fetch->rows[i];
	}
	fetch->nrows = n;
}

/*
 * compactfind_add_slot lists a version that the dirty snapshot sees, unless another transaction is
 * writing it. Returns whether it is the one of its number: a version in the making may replace
 * another one.
 */
static bool
compactfind_add_slot(DcFetch *fetch, TupleTableSlot *slot, int32 shard)
{
	const AttrNumber *atts = fetch->rel->layout->atts;
	DcLiveRow *row;

	if (TransactionIdIsValid(fetch->dirty.xmin))
		return false;
	if (TransactionIdIsValid(fetch->dirty.xmax))
	{
		sweep_note_busy(fetch->sweep, fetch->key);
		return true;
	}
	row = compactfind_add_row(fetch, &slot->tts_tid, shard);
	row->inc = DatumGetInt64(slot_datum(slot, atts[DC_COL_INC], INT8OID));
	row->dec = DatumGetInt64(slot_datum(slot, atts[DC_COL_DEC], INT8OID));
	row->at = DatumGetTimestampTz(slot_datum(slot, atts[DC_COL_UPDATED_AT], TIMESTAMPTZOID));
	return true;
}

/*
 * Add a row to the list, which has room for it, and return it for the caller to fill in.
 */
static DcLiveRow *
compactfind_add_row(DcFetch *fetch, ItemPointer tid, int32 shard)
{
	DcLiveRow *row = &fetch->rows[fetch->nrows++];

	Assert(fetch->nrows <= fetch->capacity);
	row->tid = *tid;
	row->shard = shard;
	return row;
}

/*
 * sweep_note_busy notes the key of a row that could not be locked, for compactbusy.c.
 */
void
sweep_note_busy(DcSweep *sweep, Datum key)
{
	MemoryContext old;

	if (!sweep->notes_busy || list_length(sweep->busy) >= MAX_BUSY ||
		(sweep->busy != NIL && batch_key_equal(PointerGetDatum(llast(sweep->busy)), key)))
		return;
	old = MemoryContextSwitchTo(sweep->cxt);
	sweep->busy = lappend(sweep->busy, DatumGetPointer(datumCopy(key, false, -1)));
	MemoryContextSwitchTo(old);
}

/*
 * live_row_compare orders rows by number, the highest first, for qsort().
 */
static int
live_row_compare(const void *a, const void *b)
{
	int32 left = ((const DcLiveRow *) a)->shard;
	int32 right = ((const DcLiveRow *) b)->shard;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return left > right ? -1 : left < right;
}
