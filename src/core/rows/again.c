/*
 * again.c
 *		Inserting a row in place of another one, while an old snapshot is held.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A SERIALIZABLE transaction that increments a key inserts a row, so that SSI detects conflicts
 * with transactions that read the key (core/counter/serial.c), and compaction deletes the row.
 * While an old snapshot is held, each such row leaves a dead index entry of a number without a
 * visible version, which every search for rows of the key has to visit (scan.c): one more for
 * each increment.
 *
 * So while an old snapshot is held, compaction keeps such rows at zero (compactdirect.c), and the
 * transaction takes one that is free: it deletes that row, and inserts one with the same number
 * and the sum. Then there are about as many rows as transactions that commit at the same time,
 * each with a visible version, which lets scans step over its dead entries.
 *
 *	- This is done at commit only. The row that is deleted stays locked no longer than one that
 *	  is updated, and no transaction waits: it is taken only if it is free. Nothing is read after
 *	  it, so it does not matter whether the transaction's snapshot sees that row.
 *	- A setter waits for rows that are being changed, but would not see a row that was inserted
 *	  in the meantime with the amounts of a deleted one. So no row is taken while a transaction sets
 *	  the key, which is checked when the row is locked; and setters, which lock the key first,
 *	  delete its rows twice (core/counter/set.c). If a row was taken before they had locked the key,
 *	  they wait for it the first time, and see its successor the second time.
 *	- There is one live row of the number at any time: no other transaction can have
 *	  inserted one, since we hold the lock on the previous one.
 *	- SERIALIZABLE readers find the transaction by the row that it inserts. As several
 *	  transactions insert rows of one number in turn, a reader must not stop at the one that
 *	  it sees: it visits every entry of such numbers, as it would if their numbers differed. It
 *	  takes predicate locks on the pages of all these entries, so a new one meets a lock wherever
 *	  it goes.
 *	- For that, these rows have numbers in another range than shared rows (shardnumber.c), whose
 *	  entries may be skipped: SERIALIZABLE transactions never insert an existing shared row again.
 *
 * The deletion is a change with which SERIALIZABLE readers of that row may conflict. But they
 * have read the key, so they conflict in any case.
 *
 * Rows that are inserted early, or for PREPARE TRANSACTION, stay locked for an unknown time. If
 * they replaced a row, dc_set() would have to wait for them. So these are always new rows.
 */
#include "postgres.h"

#include "access/table.h"
#include "common/int.h"
#include "miscadmin.h"

#include "base/relopen.h"
#include "core/rows/again.h"
#include "core/rows/clear.h"
#include "core/rows/locks.h"
#include "core/rows/oldsnapshot.h"
#include "core/rows/scan.h"
#include "core/rows/shardnumber.h"
#include "core/rows/sharedhints.h"

static bool try_own_rows(DcDirectRel *rel, const DcDelta *delta, DcHintList *list);
static bool replace_row(DcDirectRel *rel, const DcDelta *delta, DcHintList *list, int i,
						DcVersion *version);

/*
 * Return true if rows must be inserted in place of others.
 */
bool
inserts_again(DcCounter *counter)
{
	Relation heap = table_open_present(counter->row.shards, NoLock);
	bool old = old_snapshot_held(heap);

	table_close(heap, NoLock);
	return old;
}

/*
 * direct_insert_in_place inserts a row with a delta, in place of one that is free, or
 * a new one. Never waits.
 */
void
direct_insert_in_place(DcDirectRel *rel, const DcDelta *delta)
{
	DcHintList *list = hints_get(&delta->key);
	int32 number = own_shard(false);
	ItemPointerData root;

	if (list->nhints == 0)
		list = shared_hints_learn(&delta->key);
	if (try_own_rows(rel, delta, list))
		return;
	scan_hints(rel, list);
	if (try_own_rows(rel, delta, list))
		return;
	/* there may be a row of our number that we could not take */
	for (int i = 0; i < list->nhints; i++)
	{
		if (list->hints[i].shard == number)
		{
			number = random_shard() & (SHARED_SHARD - 1);
			i = -1;
		}
	}
	direct_insert_number(rel, delta, number, &root);
	hints_add(list, &root, number);
	shared_hint_put(&delta->key, number, &root);
}

/*
 * try_own_rows takes the first of the known rows that is free.
 */
static bool
try_own_rows(DcDirectRel *rel, const DcDelta *delta, DcHintList *list)
{
	for (int i = 0; i < list->nhints;)
	{
		DcProbe probe;

		CHECK_FOR_INTERRUPTS();
		if (shard_is_shared(list->hints[i].shard))
		{
			i++;
			continue;
		}
		switch (probe_row(rel, &delta->key, &list->hints[i], &probe))
		{
			case DC_PROBE_GONE:
				hints_remove(list, i);
				break;
			case DC_PROBE_FREE:
				if (replace_row(rel, delta, list, i, &probe.version))
					return true;
				i++;
				break;
			case DC_PROBE_BUSY:
				rel->stats.busy_skips++;
				i++;
				break;
		}
	}
	return false;
}

/*
 * replace_row deletes a row and inserts one with the same number, with a delta added. Returns false
 * if another transaction has locked it or sets the key, or if the sum overflows bigint.
 */
static bool
replace_row(DcDirectRel *rel, const DcDelta *delta, DcHintList *list, int i,
			DcVersion *version)
{
	const AttrNumber *atts = rel->layout->atts;
	DcDelta sum = *delta;
	ItemPointerData root;
	DcLiveRow row = {
		.tid = version->tuple.t_self,
		.shard = list->hints[i].shard,
		.inc = DatumGetInt64(rel->values[atts[DC_COL_INC] - 1]),
		.dec = DatumGetInt64(rel->values[atts[DC_COL_DEC] - 1]),
	};

	version_release(version);
	if (pg_add_s64_overflow(row.inc, delta->inc, &sum.inc) ||
		pg_add_s64_overflow(row.dec, delta->dec, &sum.dec))
		return false;
	/* in this order */
	if (!row_lock(rel, &row) ||
		locked_by_setter(rel->counter, delta->key.data, delta->key.len))
	{
		rel->stats.busy_skips++;
		return false;
	}
	row_delete(rel, &delta->key, &row);
	direct_insert_again(rel, &sum, row.shard, &root);
	hints_add(list, &root, row.shard);
	shared_hint_put(&delta->key, row.shard, &root);
	return true;
}
