/*
 * scan.c
 *		Finding the shard rows of a key, in the presence of many dead versions.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * While an old snapshot prevents vacuum, a hot row leaves an index entry behind for
 * each page that it was on, and each of those pages is full of dead versions.
 * Visiting them all would make reads of a hot row slow. It is not necessary: in
 * a snapshot at most one version of a row is visible (the index is unique). So
 * once it is found, the other entries of that shard number are of no interest.
 *
 *	- The rows that this backend knows are read by their hints (probe.c), which
 *	  lead to the visible version without the index.
 *	- The index is then only asked for further shard numbers. Entries of a number that is done are
 *	  skipped without a visit to the heap. After a few of them the scan starts again, and looks only
 *	  into the gaps between the numbers that are known: usually there is nothing, which costs a
 *	  descent each.
 *	- It goes backwards: entries of one number sort by tuple id, and the newest version is
 *	  usually near the end of the table. If a reader does not find its version there, as its
 *	  snapshot is old, it continues from both ends (oldversion.c). It remembers numbers for which it
 *	  sees no row.
 *
 * Hints and the order of entries are a matter of speed. The index alone decides which rows exist.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/skey.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/rowread.h"
#include "core/rows/oldversion.h"
#include "core/rows/probe.h"
#include "core/rows/scan.h"
#include "core/rows/shardnumber.h"
#include "core/rows/sharedhints.h"
#include "core/table/access.h"
#include "core/table/layout.h"

/* Entries of a number to step over before the scan starts again. */
#define MAX_STEP_OVER 8

/* Bounds that exclude no shard number. */
#define ALL_LOW ((int64) PG_INT32_MIN - 1)
#define ALL_HIGH ((int64) PG_INT32_MAX + 1)

static void shard_scan_range(DcShardScan *scan, int64 low, int64 high);
static bool visits_all(const DcShardScan *scan, int32 number);
static bool fetch_old(DcShardScan *scan, TupleTableSlot *slot, ItemPointer root, int32 number);
static int64 known_below(const DcShardScan *scan, int64 number);
static bool known_has(const DcKnownShards *known, int32 number);
static int number_compare(const void *a, const void *b);
static void scan_total(DcCounter *counter, Datum key, DcKeyState *state);
static void scan_shards(DcCounter *counter, const DcKey *key, Datum key_datum,
						DcKeyState *state);
static void read_known_rows(DcDirectRel *rel, const DcDeltaKey *key,
							DcKeyState *state, DcKnownShards *known);
static void add_absent(const DcDeltaKey *key, DcKnownShards *known);
static void note_absent(const DcDeltaKey *key, List *absent);
static bool may_note_absent(void);
static void scan_add_slot(DcKeyState *state, TupleTableSlot *slot,
						  const DcTableLayout *layout, bool is_shard);

/*
 * shard_scan_begin starts a scan of a key's shard rows in a snapshot, without
 * those whose numbers are known.
 */
void
shard_scan_begin(DcShardScan *scan, Relation heap, Relation index, Datum key,
				 Snapshot snapshot, DcKnownShards known)
{
	ScanKeyEntryInitialize(&scan->keys[0], 0, 1, BTEqualStrategyNumber,
						   InvalidOid, C_COLLATION_OID, F_TEXTEQ, key);
	scan->index_scan = compat_index_beginscan(heap, index, snapshot,
											  lengthof(scan->keys));
	scan->index_scan->xs_want_itup = true;
	scan->visits_own = false;
	scan->absent = NULL;
	scan->known = known;
	scan->floor = ALL_LOW;
	/* few: hints */
	qsort(known.numbers, known.count, sizeof(int32), number_compare);
	shard_scan_range(scan, ALL_LOW, ALL_HIGH);
}

/*
 * shard_scan_below limits a scan that has just begun to the numbers below one.
 */
void
shard_scan_below(DcShardScan *scan, int32 number)
{
	shard_scan_range(scan, scan->floor, number);
}

/*
 * shard_scan_local limits a scan that has just begun to rows that sessions of this database
 * add to.
 */
void
shard_scan_local(DcShardScan *scan)
{
	scan->floor = -1;
	shard_scan_range(scan, scan->floor, ALL_HIGH);
}

/*
 * shard_scan_range starts the scan again, with the numbers between low and high, both excluded.
 */
static void
shard_scan_range(DcShardScan *scan, int64 low, int64 high)
{
	/* there is nothing between numbers that follow each other */
	while (low > scan->floor && high - low == 1)
	{
		high = low;
		low = known_below(scan, low);
	}
	scan->low = low;
	scan->started = false;
	/* int8 operators of the same family, as the bounds may be outside of int4 */
	ScanKeyEntryInitialize(&scan->keys[1], 0, 2, BTGreaterStrategyNumber,
						   INT8OID, InvalidOid, F_INT48GT, Int64GetDatum(low));
	ScanKeyEntryInitialize(&scan->keys[2], 0, 2, BTLessStrategyNumber,
						   INT8OID, InvalidOid, F_INT48LT, Int64GetDatum(high));
	index_rescan(scan->index_scan, scan->keys, lengthof(scan->keys), NULL, 0);
}

/*
 * shard_scan_next fetches the visible version of the next row into slot, and
 * returns false when there is none left. *root is the index entry's tuple id.
 */
bool
shard_scan_next(DcShardScan *scan, TupleTableSlot *slot,
				ItemPointer root, int32 *shard)
{
	while (shard_scan_next_entry(scan, root, shard))
	{
		bool found = index_fetch_heap(scan->index_scan, slot);

		if (!found && ++scan->missed == DC_NEWEST_ENTRIES && scan->absent != NULL &&
			!visits_all(scan, *shard))
		{
			found = fetch_old(scan, slot, root, *shard);
			scan->done = true; /* if it is not found, it is not there */
		}
		if (found)
		{
			scan->done = true;
			return true;
		}
	}
	return false;
}

/*
 * Return true if the scan visits every entry of a number, and so comes to each
 * version once.
 */
static bool
visits_all(const DcShardScan *scan, int32 number)
{
	return scan->visits_own && !shard_is_shared(number);
}

/*
 * fetch_old searches all entries of a number, and notes if none of them leads to a version that
 * the snapshot sees.
 */
static bool
fetch_old(DcShardScan *scan, TupleTableSlot *slot, ItemPointer root, int32 number)
{
	IndexScanDesc is = scan->index_scan;
	ScanKeyData keys[2] = {scan->keys[0]};
	bool found;

	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(number));
	found = old_version_fetch(is->heapRelation, is->indexRelation, keys, lengthof(keys),
							  is->xs_snapshot, slot, root);
	if (!found)
		*scan->absent = lappend_int(*scan->absent, number);
	return found;
}

/*
 * shard_scan_next_entry finds the next index entry of a number that is not known
 * and not done, without a look at the heap; false when there is none left.
 */
bool
shard_scan_next_entry(DcShardScan *scan, ItemPointer root, int32 *shard)
{
	IndexScanDesc is = scan->index_scan;

	for (;;)
	{
		ItemPointer tid = index_getnext_tid(is, BackwardScanDirection);
		bool isnull;
		int32 number;

		CHECK_FOR_INTERRUPTS();
		if (tid == NULL)
		{
			if (scan->low == scan->floor)
				return false;
			shard_scan_range(scan, known_below(scan, scan->low), scan->low);
			continue;
		}
		number = DatumGetInt32(index_getattr(is->xs_itup, 2, is->xs_itupdesc,
											 &isnull));
		if (!scan->started || number != scan->last)
		{
			scan->started = true;
			scan->last = number;
			scan->done = known_has(&scan->known, number);
			scan->stepped_over = 0;
			scan->missed = 0;
		}
		if (scan->done && !visits_all(scan, number))
		{
			if (++scan->stepped_over > MAX_STEP_OVER)
				shard_scan_range(scan, known_below(scan, number), number);
			continue;
		}
		*root = *tid;
		*shard = number;
		return true;
	}
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
 * scan_hints asks the index for the live rows of a key that are not in the list, and may be.
 * A row whose inserter is still in progress belongs to that transaction alone. It must
 * not be waited for, as the transaction may be a prepared one.
 */
void
scan_hints(DcDirectRel *rel, DcHintList *list)
{
	TupleTableSlot *slot = table_slot_create(rel->heap, NULL);
	Datum key = delta_key_text(&list->key);
	DcKnownShards known;
	SnapshotData dirty;
	DcShardScan scan;
	ItemPointerData root;
	int32 shard;

	known.numbers = palloc(Max(list->nhints, 1) * sizeof(int32));
	known.count = list->nhints;
	for (int i = 0; i < list->nhints; i++)
		known.numbers[i] = list->hints[i].shard;
	InitDirtySnapshot(dirty);
	shard_scan_begin(&scan, rel->heap, directrel_index(rel), key, &dirty, known);
	shard_scan_local(&scan);
	while (list->nhints < DC_MAX_SHARDS_LIMIT &&
		   shard_scan_next(&scan, slot, &root, &shard))
	{
		if (!TransactionIdIsValid(dirty.xmin))
			hints_add(list, &root, shard);
		else
			scan.done = false; /* it may be a new version of a row that counts */
	}
	shard_scan_end(&scan);
	ExecDropSingleTupleTableSlot(slot);
	pfree(known.numbers);
	pfree(DatumGetPointer(key));
}

/*
 * scan_key sums the rows of a key in the snapshot of a read function.
 */
void
scan_key(DcCounter *counter, const DcKey *key, DcKeyState *state)
{
	Datum key_datum = key_text_datum(key);

	read_snapshot_push();
	scan_total(counter, key_datum, state);
	scan_shards(counter, key, key_datum, state);
	PopActiveSnapshot();
	pfree(DatumGetPointer(key_datum));
}

/*
 * scan_key_total adds the row of totals of a key alone.
 */
void
scan_key_total(DcCounter *counter, const DcKey *key, DcKeyState *state)
{
	Datum key_datum = key_text_datum(key);

	read_snapshot_push();
	scan_total(counter, key_datum, state);
	PopActiveSnapshot();
	pfree(DatumGetPointer(key_datum));
}

/*
 * Add the row of totals of a key, if the active snapshot shows one.
 */
static void
scan_total(DcCounter *counter, Datum key, DcKeyState *state)
{
	Relation heap = counter_direct_open(counter, DC_TABLE_TOTALS);
	Relation index = index_open(counter->totals.index, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(heap, NULL);
	IndexScanDesc scan;
	ItemPointerData root;
	ScanKeyData keys[1];
	bool found = false;

	ScanKeyEntryInitialize(&keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ, key);
	scan = compat_index_beginscan(heap, index, GetActiveSnapshot(), 1);
	index_rescan(scan, keys, 1, NULL, 0);
	/* the newest version is usually near the end of the table */
	for (int missed = 0; !found && index_getnext_tid(scan, BackwardScanDirection) != NULL;)
	{
		found = index_fetch_heap(scan, slot);
		if (!found && ++missed == DC_NEWEST_ENTRIES)
		{
			found = old_version_fetch(heap, index, keys, 1, GetActiveSnapshot(), slot, &root);
			break;
		}
	}
	if (found)
		scan_add_slot(state, slot, &counter->totals, false);
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(heap, NoLock);
}

/*
 * scan_range calls a function for the rows of either table that the active snapshot shows, of keys
 * from one up to another, which is not among them.
 */
void
scan_range(DcCounter *counter, DcCounterTable table, Datum from, Datum end, DcRangeVisit visit, void *arg)
{
	const DcTableLayout *layout = table == DC_TABLE_TOTALS ? &counter->totals : &counter->shards;
	Relation heap = counter_direct_open(counter, table);
	Relation index = index_open(layout->index, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(heap, NULL);
	IndexScanDesc scan;
	ScanKeyData keys[2];

	ScanKeyEntryInitialize(&keys[0], 0, 1, BTGreaterEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXT_GE, from);
	ScanKeyEntryInitialize(&keys[1], 0, 1, BTLessStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXT_LT, end);
	scan = compat_index_beginscan(heap, index, GetActiveSnapshot(), lengthof(keys));
	index_rescan(scan, keys, lengthof(keys), NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_text(slot_datum(slot, layout->atts[DC_COL_KEY], TEXTOID), &key);
		visit(arg, &key, DatumGetInt64(slot_datum(slot, layout->atts[DC_COL_INC], INT8OID)),
			  DatumGetInt64(slot_datum(slot, layout->atts[DC_COL_DEC], INT8OID)));
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(heap, NoLock);
}

/*
 * scan_shards reads the rows that this backend knows, and then the others. Under
 * SERIALIZABLE all are read by the index: that takes the predicate locks, and misses no
 * row of another transaction (serial.c): of rows that such transactions insert in place of
 * each other, it visits each entry (again.c).
 */
static void
scan_shards(DcCounter *counter, const DcKey *key, Datum key_datum,
			DcKeyState *state)
{
	bool use_hints = !IsolationIsSerializable();
	DcKnownShards known = {NULL, 0};
	DcDeltaKey shard_key = delta_key(counter->relid, key);
	DcDirectRel rel;
	DcShardScan scan;
	TupleTableSlot *slot;
	ItemPointerData root;
	List *absent = NIL;
	int32 shard;

	directrel_open(&rel, counter, DC_TABLE_SHARDS, false);
	slot = table_slot_create(rel.heap, NULL);
	if (use_hints)
	{
		read_known_rows(&rel, &shard_key, state, &known);
		add_absent(&shard_key, &known);
	}
	shard_scan_begin(&scan, rel.heap, directrel_index(&rel), key_datum,
					 GetActiveSnapshot(), known);
	scan.visits_own = !use_hints;
	scan.absent = &absent;
	while (shard_scan_next(&scan, slot, &root, &shard))
	{
		scan_add_slot(state, slot, &counter->shards, true);
		/* remember the rows of hot keys only */
		if (use_hints && state->shards > 1 && !shard_is_remote(shard) &&
			state->shards <= DC_MAX_SHARDS_LIMIT)
			hints_add(hints_get(&shard_key), &root, shard);
	}
	shard_scan_end(&scan);
	note_absent(&shard_key, absent);
	ExecDropSingleTupleTableSlot(slot);
	directrel_close(&rel);
	if (known.numbers != NULL)
		pfree(known.numbers);
}

/*
 * add_absent adds the numbers for which this transaction has found that its snapshot sees no
 * row. They are many if the snapshot is older than what made the key hot.
 */
static void
add_absent(const DcDeltaKey *key, DcKnownShards *known)
{
	DcHintList *list = may_note_absent() ? hints_find(key) : NULL;

	if (list == NULL || list->nabsent == 0 || list->absent_in != compat_local_xid())
		return;
	if (known->numbers == NULL)
		known->numbers = palloc(list->nabsent * sizeof(int32));
	else
		known->numbers = repalloc(known->numbers,
								  (known->count + list->nabsent) * sizeof(int32));
	memcpy(known->numbers + known->count, list->absent, list->nabsent * sizeof(int32));
	known->count += list->nabsent;
}

/*
 * note_absent notes such numbers for the next reads of the transaction.
 */
static void
note_absent(const DcDeltaKey *key, List *absent)
{
	DcHintList *list;
	ListCell *lc;

	if (absent == NIL || !may_note_absent())
		return;
	list = hints_get(key);
	if (list->absent_in != compat_local_xid())
		list->nabsent = 0;
	list->absent_in = compat_local_xid();
	foreach(lc, absent)
		hints_add_absent(list, lfirst_int(lc));
}

/*
 * Return true if what a snapshot does not see stays so: if the transaction has
 * one snapshot, and has written nothing itself.
 */
static bool
may_note_absent(void)
{
	return IsolationUsesXactSnapshot() && !TransactionIdIsValid(GetTopTransactionIdIfAny());
}

/*
 * read_known_rows reads the rows that hints lead to, and lists their numbers.
 */
static void
read_known_rows(DcDirectRel *rel, const DcDeltaKey *key, DcKeyState *state,
				DcKnownShards *known)
{
	const AttrNumber *atts = rel->layout->atts;
	DcHintList *list = hints_find(key);

	if (list == NULL || list->nhints == 0)
		list = shared_hints_learn(key);
	if (list == NULL || list->nhints == 0)
		return;
	known->numbers = palloc(list->nhints * sizeof(int32));
	for (int i = 0; i < list->nhints;)
	{
		if (!probe_visible(rel, key, &list->hints[i], GetActiveSnapshot()))
		{
			/* gone, or changed since an old snapshot: then keep the hint */
			if (IsolationUsesXactSnapshot())
				i++;
			else
				hints_remove(list, i);
			continue;
		}
		key_state_add(state,
					  DatumGetInt64(rel->values[atts[DC_COL_INC] - 1]),
					  DatumGetInt64(rel->values[atts[DC_COL_DEC] - 1]),
					  DatumGetTimestampTz(rel->values[atts[DC_COL_UPDATED_AT] - 1]),
					  true);
		known->numbers[known->count++] = list->hints[i++].shard;
	}
}

/*
 * scan_add_slot adds a row of either table.
 */
static void
scan_add_slot(DcKeyState *state, TupleTableSlot *slot, const DcTableLayout *layout,
			  bool is_shard)
{
	Datum inc = slot_datum(slot, layout->atts[DC_COL_INC], INT8OID);
	Datum dec = slot_datum(slot, layout->atts[DC_COL_DEC], INT8OID);
	Datum at = slot_datum(slot, layout->atts[DC_COL_UPDATED_AT], TIMESTAMPTZOID);

	key_state_add(state, DatumGetInt64(inc), DatumGetInt64(dec),
				  DatumGetTimestampTz(at), is_shard);
}

/*
 * Return true if a number is among the known ones, which are sorted.
 */
static bool
known_has(const DcKnownShards *known, int32 number)
{
	return known->count > 0 &&
		bsearch(&number, known->numbers, known->count, sizeof(int32),
				number_compare) != NULL;
}

/*
 * known_below returns the highest of the known numbers below a number, or the floor.
 */
static int64
known_below(const DcShardScan *scan, int64 number)
{
	const int32 *numbers = scan->known.numbers;
	int from = 0;
	int to = scan->known.count;

	while (from < to)
	{
		int middle = (from + to) / 2;

		if (numbers[middle] < number)
			from = middle + 1;
		else
			to = middle;
	}
	return from > 0 && numbers[from - 1] > scan->floor ? numbers[from - 1] : scan->floor;
}

/*
 * Compare two numbers, for qsort() and bsearch().
 */
static int
number_compare(const void *a, const void *b)
{
	int32 left = *(const int32 *) a;
	int32 right = *(const int32 *) b;

	return left < right ? -1 : left > right;
}
