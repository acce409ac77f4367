/*
 * compactdirect.c
 *		Finding, locking and clearing the shard rows of a batch without SQL.
 *
 * What the statements of compact.c do with any table, this does with a table whose shard rows
 * may be written without SQL (layout.c), below REPEATABLE READ. There it matters what is
 * looked at: while an old snapshot is held, the index has an entry for each page that a hot row
 * was ever on, and each is a page of dead versions. A statement would visit all
 * of them in each round.
 *
 *	- The index is read from key to key. The entries of a key are visited in their order, up
 *	  to FEW_ENTRIES: most keys have one or two. Dead ones are marked in the index on the
 *	  way, as any index scan does.
 *	- A key with more entries is looked up the way that reads do (scan.c): the rows that all
 *	  sessions are told of (sharedhints.c), and then the others, newest entry first. The
 *	  scan goes on with the next key. What was found at the first entries is not used.
 *	- A row that another transaction inserts, changes or has locked is left for the next time,
 *	  or for another try (compactbusy.c).
 *	  To lock never waits (rows/clear.c). It fails if the row has changed since it was read, so
 *	  the amounts of a locked row are those that were read. Any other transaction finds the lock
 *	  as it would find that of FOR UPDATE.
 *
 * Rows are read as of now, with a dirty snapshot: the committed ones and those of this
 * transaction, as a statement under READ COMMITTED would see them. A reader sees the new
 * totals and the cleared rows, or neither: they are of one transaction.
 *
 * The order. Keys come in their order, the rows of a key from the highest number down (by
 * SQL from the lowest up). A key with more rows than fit is left for the next batch, unless it
 * is the first of this one: then it is cut, and the next batch goes on below the last
 * number. A sweep may change from one way to the other between two batches, as the owner
 * may have altered the table. It goes on at the same key, and may see rows of it twice, or
 * leave some for the next sweep.
 *
 * Kept rows. A row that was deleted leaves dead index entries. A scan steps over the dead
 * entries of a number once it has found the visible version of that number, but has to
 * visit those of numbers without one. So while an old snapshot keeps dead rows (oldsnapshot.c),
 * rows are zeroed instead of deleted, and rows that are zero are left as they are: new
 * increments find them, and no new numbers are needed. That is exact in any case: a value is the sum of
 * all rows there are. When the snapshot has gone they are deleted as any idle row.
 * Rows that belonged to one transaction alone are kept as well, for SERIALIZABLE ones
 * (rows/again.c). A key keeps max_shards rows, and KEEP_OWN of these; what is more came of a burst.
 *
 * Between locking and clearing, statements of ours write the totals, and may run code of the
 * table's owner (in dc_compact(), never in the worker). The shard table stays open meanwhile, so
 * that code cannot alter it. It may put a trigger or a rule on it, which is looked for
 * again. If it changes a row that is locked, by this transaction, the row can no longer be
 * cleared, which is an error.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/compat.h"
#include "base/key.h"
#include "base/rowread.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "compact/compactbatch.h"
#include "compact/compactbusy.h"
#include "compact/compactstuck.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "rows/oldsnapshot.h"
#include "rows/probe.h"
#include "rows/scan.h"
#include "rows/shardnumber.h"
#include "rows/sharedhints.h"
#include "table/layout.h"
#include "table/protect.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

/* Entries of a key to visit in their order. */
#define FEW_ENTRIES 8

/* Rows that belonged to one transaction alone, of those that a key keeps. */
#define KEEP_OWN 32

/* Looking for the rows of a batch. */
typedef struct DcFetch
{
	DcBatch *batch;
	DcSweep *sweep;
	DcDirectRel *rel;
	IndexScanDesc scan; /* over all keys, */
	Datum start;		/* from here on, */
	SnapshotData dirty;
	TupleTableSlot *slot;
	bool at_end; /* or at an entry of this number: */
	int32 shard;
	MemoryContext key_cxt; /* for what belongs to one key: */
	Datum key;			   /* text */
	DcDeltaKey delta_key;
	int64 below;	 /* only rows with lower numbers */
	DcLiveRow *rows; /* that are live, and that nobody is writing */
	int nrows;
	int capacity;
	bool cut; /* there are more */
} DcFetch;

static void fetch_begin(DcFetch *fetch, DcBatch *batch, DcSweep *sweep);
static void fetch_end(DcFetch *fetch);
static void scan_start(DcFetch *fetch, Datum key, bool after);
static void scan_advance(DcFetch *fetch);
static Datum entry_key(DcFetch *fetch);
static bool is_at_key(DcFetch *fetch);
static void take_key(DcFetch *fetch);
static void read_rows(DcFetch *fetch);
static void read_many_rows(DcFetch *fetch);
static void read_hints(DcFetch *fetch, DcKnownShards *known);
static void read_index(DcFetch *fetch, DcKnownShards known);
static void drop_lower(DcFetch *fetch, int32 number);
static bool add_slot(DcFetch *fetch, TupleTableSlot *slot, int32 shard);
static DcLiveRow *add_row(DcFetch *fetch, ItemPointer tid, int32 shard);
static int live_row_compare(const void *a, const void *b);
static bool add_to_batch(DcFetch *fetch);
static void drop_kept(DcFetch *fetch);
static void lock_rows(DcFetch *fetch);
static void batch_add_live(DcBatch *batch, DcBatchKey *key, const DcLiveRow *live);
static bool is_empty(const DcLiveRow *row);

/*
 * compacts_directly tells whether the rows of a counter table are compacted without SQL.
 */
bool
compacts_directly(const DcCounter *counter)
{
	return counter->direct_write && !counter_is_stock(counter) && !IsolationUsesXactSnapshot();
}

/*
 * batch_fetch_direct locks and reads the next shard rows.
 */
void
batch_fetch_direct(DcCounter *counter, DcBatch *batch, DcSweep *sweep, int64 max_keys)
{
	DcFetch fetch;
	bool fits = true;

	batch->direct = palloc(sizeof(DcDirectRel));
	directrel_open(batch->direct, counter, DC_TABLE_SHARDS, true);
	batch->keep = old_snapshot_held(batch->direct->heap);
	PushActiveSnapshot(GetTransactionSnapshot()); /* to look up transactions */
	fetch_begin(&fetch, batch, sweep);
	while (fits && !fetch.at_end && batch->nkeys < max_keys && batch->nrows < batch->max_rows)
	{
		take_key(&fetch);
		if (sweep->only && !batch_key_equal(fetch.key, sweep->key))
			fetch.at_end = true;
		else if (sweep->remembers && stuck_is_left_out(counter->relid, fetch.key))
			scan_start(&fetch, fetch.key, true);
		else
		{
			read_rows(&fetch);
			fits = add_to_batch(&fetch);
		}
	}
	batch->last = fits && fetch.at_end;
	fetch_end(&fetch);
	PopActiveSnapshot();
}

/*
 * fetch_begin starts with the first entry of the key that the sweep is at.
 */
static void
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
		/* some may come from shared memory, before those are counted that the index has */
		.capacity = batch->max_rows + DC_MAX_SHARED_HINTS,
	};
	fetch->rows = palloc(fetch->capacity * sizeof(DcLiveRow));
	InitDirtySnapshot(fetch->dirty);
	fetch->scan = compat_index_beginscan(rel->heap, directrel_index(rel), &fetch->dirty, 1);
	fetch->scan->xs_want_itup = true;
	scan_start(fetch, sweep->key, false);
}

static void
fetch_end(DcFetch *fetch)
{
	index_endscan(fetch->scan);
	pfree(DatumGetPointer(fetch->start));
	ExecDropSingleTupleTableSlot(fetch->slot);
	MemoryContextDelete(fetch->key_cxt);
	pfree(fetch->rows);
}

/*
 * scan_start goes to the first entry of a key, or of the next one after it.
 */
static void
scan_start(DcFetch *fetch, Datum key, bool after)
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
 * is_at_key tells whether the scan is still at the key that was taken.
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
 * take_key takes the key that the scan is at.
 */
static void
take_key(DcFetch *fetch)
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
 * read_rows lists the live rows of the key, and goes on to the next key.
 */
static void
read_rows(DcFetch *fetch)
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
			scan_start(fetch, fetch->key, true);
			read_many_rows(fetch);
			return;
		}
		done = done && fetch->shard == last;
		last = fetch->shard;
		if (!done && fetch->shard < fetch->below && index_fetch_heap(fetch->scan, fetch->slot))
			done = add_slot(fetch, fetch->slot, fetch->shard);
		scan_advance(fetch);
	} while (is_at_key(fetch));
	qsort(fetch->rows, fetch->nrows, sizeof(DcLiveRow), live_row_compare);
}

/*
 * read_many_rows lists the live rows of a key with many entries, not all of them if they
 * are more than fit into a batch.
 */
static void
read_many_rows(DcFetch *fetch)
{
	MemoryContext old = MemoryContextSwitchTo(fetch->key_cxt);
	int32 numbers[DC_MAX_SHARED_HINTS];
	DcKnownShards known = {.numbers = numbers};

	fetch->nrows = 0;
	fetch->cut = false;
	read_hints(fetch, &known);
	read_index(fetch, known);
	qsort(fetch->rows, fetch->nrows, sizeof(DcLiveRow), live_row_compare);
	MemoryContextSwitchTo(old);
}

/*
 * read_hints reads the rows that shared memory tells of, and notes their numbers.
 */
static void
read_hints(DcFetch *fetch, DcKnownShards *known)
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
				busy_note(fetch->sweep, fetch->key);
				break;
			case DC_PROBE_FREE:
				row = add_row(fetch, &probe.version.tuple.t_self, hints[i].shard);
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
 * read_index reads the rows of all other numbers, from the highest down. The next batch can
 * go on below the last of them if the lower ones that shared memory has told of wait, too.
 */
static void
read_index(DcFetch *fetch, DcKnownShards known)
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
		scan.done = add_slot(fetch, slot, shard);
		if (scan.done)
			shared_hint_put(&fetch->delta_key, shard, &root);
		if (fetch->nrows >= fetch->batch->max_rows)
		{
			fetch->cut = true;
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
 * add_slot lists a version that the dirty snapshot sees, unless another transaction is writing
 * it. Returns whether it is the one of its number: a version in the making may replace
 * another one.
 */
static bool
add_slot(DcFetch *fetch, TupleTableSlot *slot, int32 shard)
{
	const AttrNumber *atts = fetch->rel->layout->atts;
	DcLiveRow *row;

	if (TransactionIdIsValid(fetch->dirty.xmin))
		return false;
	if (TransactionIdIsValid(fetch->dirty.xmax))
	{
		busy_note(fetch->sweep, fetch->key);
		return true;
	}
	row = add_row(fetch, &slot->tts_tid, shard);
	row->inc = DatumGetInt64(slot_datum(slot, atts[DC_COL_INC], INT8OID));
	row->dec = DatumGetInt64(slot_datum(slot, atts[DC_COL_DEC], INT8OID));
	row->at = DatumGetTimestampTz(slot_datum(slot, atts[DC_COL_UPDATED_AT], TIMESTAMPTZOID));
	return true;
}

static DcLiveRow *
add_row(DcFetch *fetch, ItemPointer tid, int32 shard)
{
	DcLiveRow *row = &fetch->rows[fetch->nrows++];

	Assert(fetch->nrows <= fetch->capacity);
	row->tid = *tid;
	row->shard = shard;
	return row;
}

/*
 * live_row_compare is for the highest numbers first.
 */
static int
live_row_compare(const void *a, const void *b)
{
	int32 left = ((const DcLiveRow *) a)->shard;
	int32 right = ((const DcLiveRow *) b)->shard;

	return left > right ? -1 : left < right;
}

/*
 * add_to_batch locks the rows of the key and adds them to the batch; false if the next batch
 * has to go on with this key.
 */
static bool
add_to_batch(DcFetch *fetch)
{
	DcBatch *batch = fetch->batch;

	for (;;)
	{
		int last = fetch->nrows > 0 ? fetch->rows[fetch->nrows - 1].shard : 0;
		bool cut = fetch->cut;

		if (batch->keep)
			drop_kept(fetch);
		if (fetch->nrows > batch->max_rows)
		{
			fetch->nrows = batch->max_rows;
			last = fetch->rows[fetch->nrows - 1].shard;
			cut = true;
		}
		if (batch->nkeys > 0 && (cut || batch->nrows + fetch->nrows > batch->max_rows))
			return false;
		lock_rows(fetch);
		if (!cut || batch->nkeys > 0)
			return !cut;
		/* none of these could be locked, or had to be */
		CHECK_FOR_INTERRUPTS();
		fetch->below = last;
		read_many_rows(fetch);
	}
}

/*
 * drop_kept takes off the list the rows that stay as they are: those without amounts, if
 * they are not too many.
 */
static void
drop_kept(DcFetch *fetch)
{
	int room[2] = {KEEP_OWN, fetch->rel->counter->row.max_shards};
	int n = 0;

	for (int i = 0; i < fetch->nrows; i++)
	{
		bool keeps = room[shard_is_shared(fetch->rows[i].shard) ? 1 : 0]-- > 0;

		if (!keeps || !is_empty(&fetch->rows[i]))
			fetch->rows[n++] = fetch->rows[i];
	}
	fetch->nrows = n;
}

/*
 * lock_rows locks the rows and adds those that it gets to the batch.
 */
static void
lock_rows(DcFetch *fetch)
{
	DcBatch *batch = fetch->batch;
	DcBatchKey *key = NULL;

	for (int i = 0; i < fetch->nrows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!row_lock(fetch->rel, &fetch->rows[i]))
		{
			busy_note(fetch->sweep, fetch->key);
			continue;
		}
		if (key == NULL)
		{
			key = &batch->keys[batch->nkeys++];
			*key = (DcBatchKey){
				.key = datumCopy(fetch->key, false, -1),
				.first = batch->nrows,
				.at = fetch->rows[i].at,
			};
		}
		batch_add_live(batch, key, &fetch->rows[i]);
	}
}

static void
batch_add_live(DcBatch *batch, DcBatchKey *key, const DcLiveRow *live)
{
	batch->rows[batch->nrows++] = (DcShardRow){
		.key = key->key,
		.shard = Int32GetDatum(live->shard),
		.empty = is_empty(live),
		.live = *live,
	};
	key->nrows++;
	key->used |= !is_empty(live);
	batch_key_add_shard(batch->direct->counter, key, live->shard, live->inc, live->dec, live->at);
}

static bool
is_empty(const DcLiveRow *row)
{
	return row->inc == 0 && row->dec == 0;
}

/*
 * batch_clear_direct deletes or zeroes the rows whose amounts are in the totals now.
 */
void
batch_clear_direct(DcBatch *batch)
{
	DcDirectRel *rel = batch->direct;

	/* code of the owner may have put something on it */
	if (!protect_lets_insert(rel->heap) || rel->heap->rd_rules != NULL)
		layout_altered_error(rel->heap);
	CheckCmdReplicaIdentity(rel->heap, CMD_DELETE);
	for (int i = 0; i < batch->nkeys; i++)
	{
		const DcBatchKey *key = &batch->keys[i];
		DcKey bytes;
		DcDeltaKey delta;

		key_from_text(key->key, &bytes);
		delta = delta_key(rel->counter->relid, &bytes);
		for (int r = key->first; !key->skip && r < key->first + key->nrows; r++)
		{
			const DcShardRow *row = &batch->rows[r];
			bool shared = shard_is_shared(row->live.shard);
			bool zero = !row->empty && (batch->keep || (key->nrows > 1 && shared));

			CHECK_FOR_INTERRUPTS();
			if (zero)
				row_zero(rel, &delta, &row->live);
			else
				row_delete(rel, &delta, &row->live);
		}
	}
	CommandCounterIncrement();
}

/*
 * batch_end_direct closes the shard table.
 */
void
batch_end_direct(DcBatch *batch)
{
	directrel_close(batch->direct);
}
