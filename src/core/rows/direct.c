/*
 * direct.c
 *		Adding to shard rows without SQL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A commit adds each of its deltas that do not go to a row of totals (totalrow.c) to one
 * shard row of the key that no other transaction is changing:
 *
 *	1. Take the rows that this backend knows (hints.c), starting with the one that
 *	   the table's shard_by chooses. probe.c finds the live version of each, or
 *	   says that it is busy or gone.
 *	2. A free row is updated without waiting. That fails, with nothing done, if
 *	   another transaction has locked or changed the row since the probe: then it
 *	   counts as busy. The version that the probe has read is still the latest one if the
 *	   update succeeds, so the new one may be computed from it.
 *	   An update that does not wait refuses more rows than necessary, including rows
 *	   that we have locked ourselves, or that other transactions have locked FOR KEY SHARE. So if no
 *	   row is left, the refused ones are tried again, and locked first, with LockWaitSkip. That
 *	   distinguishes these cases, at the cost of another WAL record. In builds with assertions rows
 *	   are locked right away (compat.h).
 *	3. If all known rows are busy, look for others in the index; if none is known, ask
 *	   other sessions too (sharedhints.c).
 *	4. If all are busy, insert another row. Its shard number comes from our
 *	   transaction id (shardnumber.c), so concurrent inserters cannot collide in the
 *	   unique index.
 *	5. If the key has max_shards rows, wait for the first choice and start again,
 *	   unless the rows may be locked for a long time (locks.c), as those of a stock always may: then
 *	   insert one more.
 *
 * WAL, visibility, two-phase commit and replication are those of heap_update()
 * and heap_insert(). No MVCC snapshot takes part, so no isolation level makes an
 * increment fail, and an old snapshot of this transaction does not matter.
 *
 * New versions usually stay on their page (HOT), and the index is not touched.
 * An update that leaves its page needs a new index entry. It skips the check for
 * uniqueness, which would visit every dead entry of the row. The check is not needed:
 * the row that is updated is the only one of its number.
 *
 * layout.c says which tables qualify: none whose triggers, constraints or index
 * expressions the executor would have to run.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "common/int.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/compat.h"
#include "core/rows/direct.h"
#include "core/rows/keyrow.h"
#include "core/rows/locks.h"
#include "core/rows/scan.h"
#include "core/rows/shardnumber.h"
#include "core/rows/sharedhints.h"
#include "core/rows/totalrow.h"
#include "core/table/layout.h"

static int first_choice(DcHintList *list, DcShardChoice choice);
static bool try_known_rows(DcDirectRel *rel, const DcDelta *delta,
						   DcHintList *list, DcShardChoice choice, bool lock,
						   bool *refused);
static bool wait_for_row(DcDirectRel *rel, const DcDelta *delta,
						 DcHintList *list, int first);
static void tell_all(DcDirectRel *rel, const DcHint *hint);
static bool insert_version(DcDirectRel *rel, const DcDelta *delta, int32 shard,
						   IndexUniqueCheck check, ItemPointer root);
static void fill_row(DcDirectRel *rel, const DcDeltaKey *key, int32 shard);
static void set_amounts(DcDirectRel *rel, const DcDelta *delta);
static void amount_error(DcDirectRel *rel);

/*
 * direct_add adds a delta to one of the key's rows, or to a new one with the number new_shard. If
 * none of the rows that this backend knew is left, it tries the row of totals first, in
 * totals_first, unless that is NULL. Raises 22003 when the row's sum overflows bigint.
 */
void
direct_add(DcDirectRel *rel, const DcDelta *delta, DcShardChoice choice,
		   int32 new_shard, DcDirectTables *totals_first)
{
	DcHintList *list = hints_get(&delta->key);

	for (;;)
	{
		bool refused = false;

		CHECK_FOR_INTERRUPTS();
		if (try_known_rows(rel, delta, list, choice, false,
						   &refused))
			return;
		if (totals_first != NULL && list->nhints == 0 && total_add(totals_first, delta))
			return;
		list = hints_get(&delta->key);
		/*
		 * the row of a value is chosen among all rows of the key, of which this backend may
		 * know only some
		 */
		if (list->nhints == 0 && choice.by != DC_SHARD_BY_HASH)
		{
			list = shared_hints_learn(&delta->key);
			if (try_known_rows(rel, delta, list, choice, false,
							   &refused))
				return;
		}
		scan_hints(rel, list);
		if (try_known_rows(rel, delta, list, choice, false,
						   &refused))
			return;
		if (refused &&
			try_known_rows(rel, delta, list, choice, true,
						   &refused))
			return;
		if (list->nhints < rel->counter->row.max_shards ||
			counter_is_stock(rel->counter) ||
			locked_for_long(rel->counter, delta->key.data, delta->key.len))
		{
			direct_insert_row(rel, delta, list, new_shard);
			return;
		}
		if (wait_for_row(rel, delta, list, first_choice(list, choice)))
			return;
	}
}

/*
 * direct_insert adds a delta to a new row in any case.
 */
void
direct_insert(DcDirectRel *rel, const DcDelta *delta, int32 new_shard)
{
	DcHintList *list = hints_get(&delta->key);

	scan_hints(rel, list); /* to learn which numbers are in use */
	direct_insert_row(rel, delta, list, new_shard);
}

/*
 * first_choice returns the row to try first. A backend stays with a row until it finds it busy:
 * so each backend soon has a row of its own, if there are enough. The row for a value is chosen
 * by rendezvous hashing, as by SQL (sqlwrite.c), so that it stays the same while other rows
 * come and go.
 */
static int
first_choice(DcHintList *list, DcShardChoice choice)
{
	int best = 0;
	uint64 best_hash = PG_UINT64_MAX;

	if (list->nhints == 0)
		return 0;
	if (choice.by == DC_SHARD_BY_BACKEND && list->last >= 0)
		return list->last;
	if (choice.by != DC_SHARD_BY_HASH)
		return (int) (choice.seed % list->nhints);
	for (int i = 0; i < list->nhints; i++)
	{
		int64 hash = (int64) hash_bytes_uint32_extended((uint32) list->hints[i].shard,
														choice.seed);
		uint64 order = (uint64) hash ^ (UINT64CONST(1) << 63);

		if (order <= best_hash)
		{
			best = i;
			best_hash = order;
		}
	}
	return best;
}

/*
 * try_known_rows adds a delta to the first free row, from the one that is chosen on. Forgets rows
 * that are gone; the last of the list takes their place, so one row may be tried twice and another
 * not until the next time. The row of a value may be gone from where it was known and live on
 * elsewhere, so then the index tells which rows there are. *refused is set if a row could not be
 * updated that no transaction is changing.
 */
static bool
try_known_rows(DcDirectRel *rel, const DcDelta *delta, DcHintList *list,
			   DcShardChoice choice, bool lock, bool *refused)
{
	int n = list->nhints;
	int i = first_choice(list, choice);
	bool ask_index = choice.by == DC_SHARD_BY_HASH;

	while (n-- > 0)
	{
		DcProbe probe;

		if (i >= list->nhints)
			i = 0;
		switch (probe_row(rel, &delta->key, &list->hints[i], &probe))
		{
			case DC_PROBE_FREE:
				if (direct_update(rel, delta, &list->hints[i], &probe.version,
								  lock ? ROW_LOCK : ROW_TRY))
				{
					list->last = i;
					return true;
				}
				*refused = true;
				rel->stats.busy_skips++;
				i++;
				break;
			case DC_PROBE_BUSY:
				rel->stats.busy_skips++;
				i++;
				break;
			case DC_PROBE_GONE:
				if (!ask_index)
				{
					hints_remove(list, i);
					break;
				}
				ask_index = false;
				hints_clear(list);
				scan_hints(rel, list);
				n = list->nhints;
				i = first_choice(list, choice);
				break;
		}
	}
	return false;
}

/*
 * direct_update adds a delta to the version that was probed, and releases it. Returns false if
 * another transaction has the row, or had it while we waited.
 */
bool
direct_update(DcDirectRel *rel, const DcDelta *delta, DcHint *hint,
			  DcVersion *version, DcRowHow how)
{
	bool must_lock = how != ROW_TRY || !COMPAT_UPDATE_NEED_NOT_WAIT;
	bool updated = !must_lock || direct_lock(rel, version, how == ROW_WAIT);

	if (updated)
	{
		set_amounts(rel, delta);
		updated = direct_replace(rel, hint, version, must_lock);
		if (must_lock && !updated)
			elog(ERROR, "locked shard row could not be updated");
	}
	version_release(version); /* not before: rel->values point into the page */
	return updated;
}

/*
 * direct_replace writes rel->values as the new version of the one that was
 * probed. Unless we have locked that, false if another transaction has the row
 * or has changed it.
 */
bool
direct_replace(DcDirectRel *rel, DcHint *hint, DcVersion *version, bool locked)
{
	HeapTuple tuple = heap_form_tuple(RelationGetDescr(rel->heap), rel->values,
									  rel->nulls);
	ItemPointer tid = &rel->slot->tts_tid;
	TM_FailureData failure;
	bool new_entry;
	bool updated;

	tuple->t_tableOid = RelationGetRelid(rel->heap);
	ExecStoreHeapTuple(tuple, rel->slot, true);
	updated = compat_tuple_update(rel->heap, &version->tuple.t_self, rel->slot,
								  GetCurrentCommandId(true), locked, &failure,
								  &new_entry) == TM_Ok;
	if (updated)
	{
		if (new_entry)
		{
			(void) direct_index_entries(rel, tid, UNIQUE_CHECK_NO);
			hint_set(hint, tid, InvalidOffsetNumber, InvalidBuffer);
			if (rel->table == DC_TABLE_SHARDS)
				tell_all(rel, hint);
		}
		hint->newest = ItemPointerGetOffsetNumber(tid);
	}
	ExecClearTuple(rel->slot);
	return updated;
}

/*
 * tell_all tells all sessions where the row that is in rel->values has moved to.
 */
static void
tell_all(DcDirectRel *rel, const DcHint *hint)
{
	ItemPointerData root = hint->root;
	DcDeltaKey key;
	DcKey bytes;

	key_from_text(rel->values[rel->layout->atts[DC_COL_KEY] - 1], &bytes);
	key = delta_key(rel->counter->relid, &bytes);
	shared_hint_put(&key, hint->shard, &root);
}

/*
 * direct_lock locks the version that was probed, if it is still the latest. Without
 * `wait`, false if another transaction has a lock on it.
 */
bool
direct_lock(DcDirectRel *rel, DcVersion *version, bool wait)
{
	return keyrow_lock_version(rel->heap, &version->tuple.t_self, LockTupleNoKeyExclusive,
							   wait ? LockWaitBlock : LockWaitSkip);
}

/*
 * wait_for_row waits for row `first`, and adds to it if it is still the same
 * then.
 */
static bool
wait_for_row(DcDirectRel *rel, const DcDelta *delta, DcHintList *list,
			 int first)
{
	DcProbe probe;

	switch (probe_row(rel, &delta->key, &list->hints[first], &probe))
	{
		case DC_PROBE_FREE:
			return direct_update(rel, delta, &list->hints[first], &probe.version, ROW_WAIT);
		case DC_PROBE_BUSY:
			/* a setter may have come since this was asked: it locks the key before rows */
			if (locked_for_long(rel->counter, delta->key.data, delta->key.len))
				return false;
			rel->stats.waits++;
			XactLockTableWait(probe.xid, rel->heap, &probe.version.tuple.t_self,
							  XLTW_Update);
			return false;
		case DC_PROBE_GONE:
			hints_remove(list, first);
			return false;
	}
	return false;
}

/*
 * direct_insert_row inserts a new shard row of the key. If a row with our number is left over
 * from long ago, or was written directly, any other number is fine.
 */
void
direct_insert_row(DcDirectRel *rel, const DcDelta *delta, DcHintList *list,
				  int32 shard)
{
	ItemPointerData root;

	for (int i = 0; i < list->nhints; i++)
	{
		if (list->hints[i].shard == shard)
		{
			shard = random_shard();
			i = -1;
		}
	}
	while (!direct_try_insert(rel, delta, shard, &root))
	{
		CHECK_FOR_INTERRUPTS();
		CommandCounterIncrement(); /* a command does not see rows that it has inserted */
		simple_heap_delete(rel->heap, &root);
		CommandCounterIncrement();
		shard = random_shard();
	}
	if (list->nhints > 0)
	{
		rel->stats.splits++;
		shared_hint_put(&delta->key, shard, &root);
	}
	hints_add(list, &root, shard);
	list->last = list->nhints - 1;
}

/*
 * direct_insert_number inserts a row of a number that no row of the key has, and sets *root to
 * its place.
 */
void
direct_insert_number(DcDirectRel *rel, const DcDelta *delta, int32 shard,
					 ItemPointer root)
{
	(void) insert_version(rel, delta, shard, UNIQUE_CHECK_YES, root);
}

/*
 * direct_insert_again does the same for a number whose row this transaction has just deleted,
 * so that no other one can have inserted it. Checking that would visit every dead entry.
 */
void
direct_insert_again(DcDirectRel *rel, const DcDelta *delta, int32 shard,
					ItemPointer root)
{
	(void) insert_version(rel, delta, shard, UNIQUE_CHECK_NO, root);
}

/*
 * direct_try_insert inserts a row; false if there may be another one of its number. Then the caller
 * takes the row back.
 */
bool
direct_try_insert(DcDirectRel *rel, const DcDelta *delta, int32 shard, ItemPointer root)
{
	return insert_version(rel, delta, shard, UNIQUE_CHECK_PARTIAL, root);
}

/*
 * Insert a row with the amounts of a delta, and its index entries; set *root to its place.
 * Returns false if UNIQUE_CHECK_PARTIAL has found that there may be another row of its number.
 */
static bool
insert_version(DcDirectRel *rel, const DcDelta *delta, int32 shard,
			   IndexUniqueCheck check, ItemPointer root)
{
	bool unique;

	fill_row(rel, &delta->key, shard);
	set_amounts(rel, delta);
	ExecStoreHeapTuple(heap_form_tuple(RelationGetDescr(rel->heap), rel->values, rel->nulls),
					   rel->slot, true);
	table_tuple_insert(rel->heap, rel->slot, GetCurrentCommandId(true), 0, NULL);
	*root = rel->slot->tts_tid;
	unique = direct_index_entries(rel, root, check);
	ExecClearTuple(rel->slot);
	return unique;
}

/*
 * direct_set_zero replaces a version that this transaction has locked by one without
 * amounts; false if it has written the row since. The table has no columns but ours.
 */
bool
direct_set_zero(DcDirectRel *rel, const DcDeltaKey *key, int32 shard, TimestampTz at,
				ItemPointer tid)
{
	DcHint hint = {.shard = shard};
	DcVersion version = {.tuple.t_self = *tid};

	hint_set(&hint, tid, InvalidOffsetNumber, InvalidBuffer);
	fill_row(rel, key, shard);
	rel->values[rel->layout->atts[DC_COL_UPDATED_AT] - 1] = TimestampTzGetDatum(at);
	return direct_replace(rel, &hint, &version, true);
}

/*
 * fill_row makes rel->values a row without amounts.
 */
static void
fill_row(DcDirectRel *rel, const DcDeltaKey *key, int32 shard)
{
	const AttrNumber *atts = rel->layout->atts;

	for (int i = 0; i < RelationGetDescr(rel->heap)->natts; i++)
		rel->nulls[i] = true;
	for (int i = 0; i < DC_NUM_COLUMNS; i++)
	{
		if (atts[i] != InvalidAttrNumber)
			rel->nulls[atts[i] - 1] = false;
	}
	rel->values[atts[DC_COL_KEY] - 1] = delta_key_text(key);
	rel->values[atts[DC_COL_SHARD] - 1] = Int32GetDatum(shard);
	rel->values[atts[DC_COL_INC] - 1] = Int64GetDatum(0);
	rel->values[atts[DC_COL_DEC] - 1] = Int64GetDatum(0);
	if (atts[DC_COL_UNITS] != InvalidAttrNumber)
		rel->values[atts[DC_COL_UNITS] - 1] = Int64GetDatum(0);
}

/*
 * Return true if a delta can be added to the amounts of the row that was probed.
 */
bool
direct_has_room(DcDirectRel *rel, const DcDelta *delta)
{
	const AttrNumber *atts = rel->layout->atts;
	int64 sum;

	if (pg_add_s64_overflow(DatumGetInt64(rel->values[atts[DC_COL_INC] - 1]), delta->inc, &sum) ||
		pg_add_s64_overflow(DatumGetInt64(rel->values[atts[DC_COL_DEC] - 1]), delta->dec, &sum))
		return false;
	return atts[DC_COL_UNITS] == InvalidAttrNumber ||
		(!pg_add_s64_overflow(DatumGetInt64(rel->values[atts[DC_COL_UNITS] - 1]), delta->inc - delta->dec, &sum) && sum >= 0);
}

/*
 * set_amounts adds a delta to the amounts in rel->values. In a stock it also
 * changes the units that may be taken from the row.
 */
static void
set_amounts(DcDirectRel *rel, const DcDelta *delta)
{
	const AttrNumber *atts = rel->layout->atts;
	Datum *inc = &rel->values[atts[DC_COL_INC] - 1];
	Datum *dec = &rel->values[atts[DC_COL_DEC] - 1];
	int64 new_inc;
	int64 new_dec;

	if (pg_add_s64_overflow(DatumGetInt64(*inc), delta->inc, &new_inc) ||
		pg_add_s64_overflow(DatumGetInt64(*dec), delta->dec, &new_dec))
	{
		/* compaction sets off the amounts of a ledger sooner or later (compacttotals.c) */
		int64 both = Min(DatumGetInt64(*inc), DatumGetInt64(*dec));

		if (!OidIsValid(rel->counter->row.ledger) || both < 0 ||
			pg_add_s64_overflow(DatumGetInt64(*inc) - both, delta->inc, &new_inc) ||
			pg_add_s64_overflow(DatumGetInt64(*dec) - both, delta->dec, &new_dec))
			amount_error(rel);
	}
	if (atts[DC_COL_UNITS] != InvalidAttrNumber)
	{
		Datum *units = &rel->values[atts[DC_COL_UNITS] - 1];
		int64 new_units;

		/* the difference of two amounts fits */
		if (pg_add_s64_overflow(DatumGetInt64(*units), delta->inc - delta->dec,
								&new_units))
			amount_error(rel);
		if (new_units < 0)
			elog(ERROR, "shard row of a stock would become negative");
		*units = Int64GetDatum(new_units);
	}
	*inc = Int64GetDatum(new_inc);
	*dec = Int64GetDatum(new_dec);
	rel->values[atts[DC_COL_UPDATED_AT] - 1] =
		TimestampTzGetDatum(GetCurrentTimestamp());
}

/*
 * Raise 22003: a shard row would overflow bigint.
 */
static void
amount_error(DcDirectRel *rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("bigint out of range"),
			 errdetail("A shard row of counter table \"%s\" would become too large.",
					   get_rel_name(rel->counter->relid))));
}

/*
 * direct_index_entries inserts the index entries of the tuple in rel->slot. There is one index,
 * or several of the same kind while one of them is rebuilt without a lock. One that another
 * session builds is not ready as long as we have our lock. But code of the owner in this
 * session may have made any index. `check` is UNIQUE_CHECK_NO for a new version of a row.
 * UNIQUE_CHECK_PARTIAL asks for an answer instead of an error: false if an index knows of
 * another row.
 */
bool
direct_index_entries(DcDirectRel *rel, ItemPointer tid, IndexUniqueCheck check)
{
	const AttrNumber *atts = rel->layout->atts;
	Relation own = directrel_index(rel);
	List *indexes = RelationGetIndexList(rel->heap);
	ListCell *lc;
	Datum values[2] = {rel->values[atts[DC_COL_KEY] - 1]};
	bool nulls[2] = {false, false};
	bool unique = true;

	if (atts[DC_COL_SHARD] != InvalidAttrNumber)
		values[1] = rel->values[atts[DC_COL_SHARD] - 1];
	foreach(lc, indexes)
	{
		bool known = lfirst_oid(lc) == RelationGetRelid(own);
		Relation index = known ? own : index_open(lfirst_oid(lc), RowExclusiveLock);

		if (index->rd_index->indisready)
		{
			if (!known && !layout_is_own_index(rel->counter, rel->table, index))
				layout_altered_error(rel->heap);
			unique &= index_insert(index, values, nulls, tid, rel->heap, check,
								   check == UNIQUE_CHECK_NO, BuildIndexInfo(index)) ||
				check != UNIQUE_CHECK_PARTIAL;
		}
		if (!known)
			index_close(index, NoLock);
	}
	list_free(indexes);
	return unique;
}
