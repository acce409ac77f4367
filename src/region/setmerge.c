/*
 * setmerge.c
 *		The trigger for rows of sets that come from another region.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Of a region's rows it keeps (mergetrigger.c) the one with the later stamp, and the greatest of
 * the observed amounts. The amounts that a set has observed are merged into the slots first, as if
 * their rows had come: they may be on their way still, in the same transaction or on another link.
 *
 *	- A row that has nothing new writes nothing, and waits for nobody: that stops it on its way
 *	  around a ring.
 *	- Otherwise the key is locked, as dc_set() does. So a dc_set() that is held open delays rows of
 *	  its key, and with them all rows of the same link.
 *	- Then only this row of the key's sets changes. The resulting change of the value (sets.h), with
 *	  the growth of the slots, goes to a shard row with a negative number.
 *	- A row that is inserted at the sender is inserted here, even if there was one: see setrow.c.
 *	- A set that closes a slot that this database counts in locks it, which waits for a compaction
 *	  that adds to it. Later compactions find it closed. So rows that this region has published
 *	  before others may learn that it knows of the deletion are sent before that.
 *
 * If a set has observed more of a slot of this database than it has counted, a copy of it has
 * counted: then nothing is merged (beatmerge.c). But a slot that may have been removed with a
 * deleted key comes back here (regionslot.c).
 *
 * Nothing is trusted. A row that no region would send, as it was written directly in another
 * region, is skipped (passedover.c). The change of a value by a set may overflow bigint, and then
 * goes to several shard rows.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/key.h"
#include "core/compact/compactbatch.h"
#include "core/counter/apply.h"
#include "core/rows/locks.h"
#include "core/table/access.h"
#include "region/merge.h"
#include "region/sets.h"
#include "types/crdt/crdttype.h"
#include "types/crdt/stamp.h"

/* How many keys a transaction locks before it locks whole tables: without, and with waiting. */
#define KEY_LOCKS 500
#define KEY_LOCKS_MAX 1000

/* How many shard rows a change that overflows bigint may take. */
#define MAX_SHARD_ROWS 16

PG_FUNCTION_INFO_V1(merge_set);

/* A row that is being merged. */
typedef struct DcSetMerge
{
	DcCounter *counter;
	DcSetRow come;
	DcSetRow *have;	  /* the row of its region, or NULL */
	bool is_inserted; /* the row that comes, */
	bool is_foreign;  /* or it must not be */
	DcSetRow merged;
	DcSetRows rows; /* of the key */
	DcRegionRel slots;
	DcRegionRel sets;
	DcTally tally; /* how much the value grows */
	bool deletes;  /* the key is a deleted one then */
} DcSetMerge;

static const char *set_problem(DcMerge *row);
static bool set_has_news(const DcSetRow *come, const DcSetRow *have);
static bool set_row_has_news(DcSetMerge *merge);
static bool any_key_locks_left(Oid sets);
static void read_and_lock(DcSetMerge *merge);
static bool merge_row(DcSetMerge *merge);
static void setmerge_lock_all(const DcMerge *row, DcSetMerge *merge);
static void lock_key_of(DcSetMerge *merge);
static void read_set_rows(DcSetMerge *merge);
static bool setmerge_fits(__int128 sum);
static bool is_foreign(DcSetMerge *merge, DcTally *raised);
static void raise_slots(DcSetMerge *merge);
static void close_own(DcSetMerge *merge);
static DcRegionRow setmerge_slot_of(const DcSetMerge *merge, const AmountsEntry *entry);
static void merge_end(DcSetMerge *merge);
static void insert_set(DcMerge *row);
static HeapTuple update_set(DcMerge *row);

static const DcMergeKind set_kind = {
	.function = "merge_set()",
	.table = TABLE_OF_SETS,
	.problem = set_problem,
	.other = gettext_noop("It would become the row of another key or region."),
	.insert = insert_set,
	.update = update_set,
};

/*
 * merge_set() -> trigger, BEFORE INSERT OR UPDATE FOR EACH ROW
 */
Datum
merge_set(PG_FUNCTION_ARGS)
{
	static DcCounter *last = NULL; /* entries stay where they are */

	return merge_trigger(fcinfo, &set_kind, &last);
}

/*
 * What was observed is in the caller's memory.
 */
static DcSetRow
set_row_of(const Datum *columns)
{
	return (DcSetRow){
		.key = columns[SET_KEY],
		.region = columns[SET_REGION],
		.hlc = DatumGetInt64(columns[SET_HLC]),
		.value = DatumGetInt64(columns[SET_VALUE]),
		.deleted = DatumGetBool(columns[SET_DELETED]),
		.upto = PointerGetDatum(PG_DETOAST_DATUM(columns[SET_UPTO])),
	};
}

/*
 * Return what is wrong with a row that has come, or NULL.
 */
static const char *
set_problem(DcMerge *row)
{
	DcSetRow set = set_row_of(row->come);
	const DcSetRow *come = &set;
	const char *problem;

	if (toast_raw_datum_size(come->upto) > SET_OBSERVED_MAX)
		return _("Its observed amounts are too large.");
	if ((problem = observed_wrong(come->upto)) != NULL)
		return problem;
	if (come->hlc <= 0 || come->hlc > STAMP_MAX_TIME)
		return _("The stamp is out of range.");
	if (come->value == PG_INT64_MIN)
		return _("The value is out of range.");
	return come->deleted && come->value != 0 ? _("A deleted key has no value.") : NULL;
}

/*
 * Return true if a row that comes has more than the existing one.
 */
static bool
set_has_news(const DcSetRow *come, const DcSetRow *have)
{
	return have == NULL || set_wins(come, have) || !observed_covers(come->upto, have->upto);
}

/*
 * set_row_has_news returns true if a row that comes has more than the existing rows of its key,
 * which have been read. Some may have been written directly: their observed states must merge into
 * one.
 */
static bool
set_row_has_news(DcSetMerge *merge)
{
	Size observed = toast_raw_datum_size(merge->come.upto);

	for (int i = 0; i < merge->rows.n; i++)
		observed += toast_raw_datum_size(merge->rows.rows[i].upto);
	if (observed <= SET_BYTES_MAX && !merge->rows.too_many)
		return set_has_news(&merge->come, merge->have);
	(void) region_row_passed_over(merge->sets.heap, merge->counter, _("The observed amounts of its key are too large."));
	return false;
}

/*
 * Merge a row to insert.
 */
static void
insert_set(DcMerge *row)
{
	DcSetMerge state = {.counter = row->counter, .come = set_row_of(row->come)};
	DcSetMerge *merge = &state;

	setmerge_lock_all(row, merge);
	read_set_rows(merge);
	merge->have = set_rows_find(&merge->rows, merge->come.region);
	if (set_row_has_news(merge))
	{
		lock_key_of(merge);
		read_and_lock(merge);
		if (!merge->is_foreign && set_row_has_news(merge) && merge_row(merge))
		{
			if (merge->have != NULL)
				set_row_insert_again(&merge->sets, &merge->merged);
			merge_end(merge);
		}
		else if (merge->is_inserted)
			set_row_delete(&merge->sets, &merge->come);
	}
	regionrel_close(&merge->sets);
	regionrel_close(&merge->slots);
}

/*
 * Merge an update of a row that the caller has locked.
 */
static HeapTuple
update_set(DcMerge *row)
{
	DcSetMerge state = {.counter = row->counter, .come = set_row_of(row->come)};
	DcSetMerge *merge = &state;
	DcSetRow old = set_row_of(row->have);
	HeapTuple tuple = NULL;

	if (toast_raw_datum_size(old.upto) <= SET_OBSERVED_MAX && !set_has_news(&merge->come, &old))
		return NULL;
	setmerge_lock_all(row, merge);
	lock_key_of(merge);
	read_set_rows(merge);
	merge->have = set_rows_find(&merge->rows, merge->come.region);
	if (merge->have == NULL && !merge->rows.too_many)
		elog(ERROR, "locked row of a set is not there");
	if (set_row_has_news(merge) && merge_row(merge))
	{
		row->come[SET_HLC] = Int64GetDatum(merge->merged.hlc);
		row->come[SET_VALUE] = Int64GetDatum(merge->merged.value);
		row->come[SET_DELETED] = BoolGetDatum(merge->merged.deleted);
		row->come[SET_UPTO] = merge->merged.upto;
		tuple = merge_form(row, row->come, SET_NUM_COLUMNS);
		merge_end(merge);
	}
	regionrel_close(&merge->sets);
	regionrel_close(&merge->slots);
	return tuple;
}

/*
 * setmerge_lock_all locks the tables that are written to, and opens those of regions and of sets.
 */
static void
setmerge_lock_all(const DcMerge *row, DcSetMerge *merge)
{
	DcCounter *counter = row->counter;

	region_lock(counter);
	(void) merge_lock(row);
	regionrel_open(&merge->slots, counter, TABLE_OF_REGIONS, NoLock);
	regionrel_open(&merge->sets, counter, TABLE_OF_SETS, NoLock);
}

/*
 * Lock the key as dc_set() does. If the transaction has no locks for single keys left, it locks out
 * all transactions that set keys of the counter.
 */
static void
lock_key_of(DcSetMerge *merge)
{
	DcKey key;

	sets_first(&merge->sets);
	if (any_key_locks_left(merge->counter->row.sets))
	{
		key_from_text(merge->come.key, &key);
		lock_key(merge->counter, key.data, key.len);
	}
	else
		LockRelationOid(merge->counter->row.sets, ShareRowExclusiveLock); /* setters hold it in RowExclusive mode (region_lock) */
}

/*
 * Return true if this transaction may lock another key. One that brings very many, as a copy does,
 * would fill the lock table. So from KEY_LOCKS on it locks the whole table instead, if no setter
 * has it, and in any case from KEY_LOCKS_MAX on.
 */
static bool
any_key_locks_left(Oid sets)
{
	static LocalTransactionId locked_in = InvalidLocalTransactionId;
	static int locked;

	if (locked_in != compat_local_xid())
		locked = 0;
	locked_in = compat_local_xid();
	if (locked < KEY_LOCKS || (locked < KEY_LOCKS_MAX && !ConditionalLockRelationOid(sets, ShareRowExclusiveLock)))
	{
		locked++;
		return true;
	}
	return false;
}

/*
 * Read all rows of sets of the key as they are now; the key is locked.
 */
static void
read_set_rows(DcSetMerge *merge)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());

	set_rows_read(&merge->sets, merge->come.key, snapshot, &merge->rows);
	UnregisterSnapshot(snapshot);
}

/*
 * Read the rows of the key, and lock that of the region that the row comes from. Only the
 * transaction that has locked the key writes rows of it, except for an owner who writes directly,
 * which must not make the link fail. So if there is no row, the incoming one is inserted at once,
 * as it is: merging it may take a long time if it has observed much.
 */
static void
read_and_lock(DcSetMerge *merge)
{
	bool again = true;
	DcTally raised = {0, 0};

	while (again)
	{
		CHECK_FOR_INTERRUPTS();
		read_set_rows(merge);
		merge->have = set_rows_find(&merge->rows, merge->come.region);
		if (merge->rows.too_many)
			return;
		if (merge->have == NULL)
		{
			again = set_row_wait(&merge->sets, &merge->come);
			if (!again)
			{
				merge->is_foreign = is_foreign(merge, &raised); /* insertions are sent to others */
				merge->is_inserted = !merge->is_foreign && set_row_try_insert(&merge->sets, &merge->come);
				again = !merge->is_foreign && !merge->is_inserted;
			}
		}
		else if (regionrel_lock(&merge->sets, &merge->have->tid))
		{
			read_set_rows(merge); /* it may be a later version, or belong to another key by now */
			merge->have = set_rows_find(&merge->rows, merge->come.region);
			again = merge->have == NULL && !merge->rows.too_many;
		}
		ExecClearTuple(merge->sets.found);
	}
}

/*
 * merge_row raises the slots, and makes the row to write; false if it must not be merged.
 */
static bool
merge_row(DcSetMerge *merge)
{
	const DcSetRow *come = &merge->come;
	DcSetRows rows = merge->rows;
	DcTally before = sets_tally(&rows);
	DcTally raised = {0, 0};
	DcTally after;
	bool knows_all;

	/*
	 * a row that only has a later stamp: all of that, which may be very much, was done for the
	 * previous one
	 */
	knows_all = merge->have != NULL && observed_covers(come->upto, merge->have->upto);
	if (!knows_all && is_foreign(merge, &raised))
		return false;
	merge->merged = *come;
	if (merge->have != NULL)
	{
		if (!set_wins(come, merge->have))
			merge->merged = *merge->have;
		merge->merged.upto = crdt_merge_datums(come->upto, merge->have->upto);
		merge->merged.tid = merge->have->tid;
	}
	set_rows_put(&rows, &merge->merged);
	merge->deletes = sets_last(&rows)->deleted;
	after = sets_tally(&rows);
	merge->tally.inc = after.inc - before.inc;
	merge->tally.dec = after.dec - before.dec;
	if (!setmerge_fits(merge->tally.inc) || !setmerge_fits(merge->tally.inc + raised.inc) ||
		!setmerge_fits(merge->tally.dec) || !setmerge_fits(merge->tally.dec + raised.dec))
	{
		(void) region_row_passed_over(merge->sets.heap, merge->counter, _("The amount that it changes is out of range."));
		return false;
	}
	if (!knows_all)
		raise_slots(merge);
	close_own(merge);
	return true;
}

/*
 * Return true if the change of a value fits into few enough shard rows.
 */
static bool
setmerge_fits(__int128 sum)
{
	return sum / MAX_SHARD_ROWS >= -PG_INT64_MAX && sum / MAX_SHARD_ROWS <= PG_INT64_MAX;
}

/*
 * setmerge_slot_of creates a row from a slot's observed amounts.
 */
static DcRegionRow
setmerge_slot_of(const DcSetMerge *merge, const AmountsEntry *entry)
{
	DcRegionRow slot = {.key = merge->come.key,
						.inc = entry->amounts[AMOUNT_INC],
						.dec = entry->amounts[AMOUNT_DEC],
						.at = GetCurrentTransactionStartTimestamp()};

	(void) observed_node(entry->node, &slot);
	return slot;
}

/*
 * Return true if one of the slots that were observed must not be raised (slot_is_foreign). Adds to
 * *raised by how much they will grow, at most.
 */
static bool
is_foreign(DcSetMerge *merge, DcTally *raised)
{
	AmountsIter iter = amounts_iter(crdt_bytes_of(merge->come.upto));
	AmountsEntry entry;
	DcIdentity identity;
	bool here = region_self(&identity);

	while (amounts_next(&iter, &entry))
	{
		DcRegionRow slot = setmerge_slot_of(merge, &entry);
		DcRegionRow have;
		bool found = region_row_find(&merge->slots, &slot, &have);

		raised->inc += Max(slot.inc - (found ? have.inc : 0), 0);
		raised->dec += Max(slot.dec - (found ? have.dec : 0), 0);
		if (here && slot_comes_back(merge->counter, &identity, found ? &have : NULL, &slot))
			continue;
		if (!(found && slot.inc <= have.inc && slot.dec <= have.dec) && region_row_is_foreign(&merge->slots, &slot))
			return true;
	}
	return false;
}

/*
 * Raise the slots of the key to what the set has observed, and add to merge->tally by how much they
 * have grown.
 */
static void
raise_slots(DcSetMerge *merge)
{
	AmountsIter iter = amounts_iter(crdt_bytes_of(merge->come.upto));
	AmountsEntry entry;
	DcIdentity identity;
	bool here = region_self(&identity);

	while (amounts_next(&iter, &entry))
	{
		DcRegionRow slot = setmerge_slot_of(merge, &entry);
		DcRegionRow have;
		int64 inc;
		int64 dec;

		if (here && slot_comes_back(merge->counter, &identity, region_row_find(&merge->slots, &slot, &have) ? &have : NULL, &slot))
			slot.at = SLOT_IS_BACK;
		region_row_raise(&merge->slots, &slot, &inc, &dec);
		merge->tally.inc += inc;
		merge->tally.dec += dec;
	}
}

/*
 * close_own locks the slot that this database counts in, if it is being closed.
 */
static void
close_own(DcSetMerge *merge)
{
	DcIdentity identity;
	DcRegionRow own;

	if (region_self(&identity) && slot_find_own(&merge->slots, merge->come.key, &identity, &own) &&
		observed_is_closed(merge->come.upto, &own) && !observed_is_closed(sets_observed(&merge->rows), &own))
		(void) region_row_lock(&merge->slots, &own);
}

/*
 * merge_end adds to the value of the key. A deleted key gets a row even if its value was 0:
 * compaction, which finds it, removes the row of totals (regionset.c). A change that overflows
 * bigint is added in parts, to several rows (core/rows/remote.c).
 */
static void
merge_end(DcSetMerge *merge)
{
	DcTally *rest = &merge->tally;
	DcKey key;

	if (rest->inc == 0 && rest->dec == 0 && !merge->deletes)
		return;
	key_from_text(merge->come.key, &key);
	do
	{
		int64 inc = (int64) Max(Min(rest->inc, PG_INT64_MAX), -PG_INT64_MAX);
		int64 dec = (int64) Max(Min(rest->dec, PG_INT64_MAX), -PG_INT64_MAX);

		apply_remote(merge->counter, &key, inc, dec);
		rest->inc -= inc;
		rest->dec -= dec;
	} while (rest->inc != 0 || rest->dec != 0);
}
