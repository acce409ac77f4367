/*
 * regionpublish.c
 *		Adding local counts to this region's row of each key.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Compaction and flushes do so, in the transaction that moves the same amounts to the totals. So
 * other regions are sent a row for each key and compaction, and nothing for an increment. Only rows
 * of this region and epoch are written, which nobody else changes. But an apply worker may have one
 * locked for a moment, when it has come back along a ring. Then the key is left for the next time:
 * compaction waits for nobody.
 *
 * The identity that is read here cannot change before the transaction has committed (life.h).
 * It raises this region's heartbeat then (region_published).
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/int.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"

#include "region/life.h"
#include "region/sets.h"

/* The tables to which a batch is published. */
typedef struct DcPublishing
{
	DcCounter *counter;
	DcIdentity identity;
	Datum region; /* its name */
	DcRegionRel *rel;
	DcRegionRel *sets; /* NULL: nothing was ever set */
} DcPublishing;

static bool add_own(DcPublishing *to, DcBatchKey *key);
static bool find_own(DcPublishing *to, Datum key, DcRegionRow *row);
static bool is_closed(DcRegionRel *sets, const DcRegionRow *row);

/*
 * Return true if amounts may go to the totals of a replicated counter table now, and locks its
 * tables of regions and of sets. The tables of the counter are locked.
 */
bool
region_ready(DcCounter *counter)
{
	DcIdentity identity;

	return !IsolationUsesXactSnapshot() && region_identity_at_once(&identity) &&
		ConditionalLockRelationOid(counter->row.regions, RowExclusiveLock) &&
		ConditionalLockRelationOid(counter->row.sets, RowExclusiveLock);
}

/*
 * region_publish adds this region's amounts of the keys of a batch. The table of sets is read
 * unless it is empty (setrow.c says why an empty one stays so in the meantime).
 */
void
region_publish(DcCounter *counter, DcBatch *batch)
{
	DcPublishing to = {.counter = counter};
	DcRegionRel rel;
	DcRegionRel sets;
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one = AllocSetContextCreate(caller, "dcounter published key", ALLOCSET_SMALL_SIZES); /* its sets may be large */
	bool any = false;

	region_identity_needed(&to.identity);
	regionrel_open(&rel, counter, TABLE_OF_REGIONS, RowExclusiveLock);
	regionrel_open(&sets, counter, TABLE_OF_SETS, RowExclusiveLock);
	to.rel = &rel;
	to.sets = setrel_is_empty(&sets) ? NULL : &sets;
	to.region = CStringGetTextDatum(to.identity.region);
	for (int i = 0; i < batch->nkeys; i++)
	{
		DcBatchKey *key = &batch->keys[i];

		CHECK_FOR_INTERRUPTS();
		if (key->skip || (key->own_inc == 0 && key->own_dec == 0))
			continue;
		MemoryContextSwitchTo(one);
		key->published = add_own(&to, key);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
		key->skip = !key->published;
		any |= key->published;
	}
	MemoryContextDelete(one);
	regionrel_close(&sets);
	regionrel_close(&rel);
	CommandCounterIncrement();
	if (!any)
		return;
	region_published();
	unpublished_forget(counter, batch);
}

/*
 * add_own adds this region's amounts of a key; false if that is not possible now. A sum that
 * overflows bigint is reported like one of the totals.
 */
static bool
add_own(DcPublishing *to, DcBatchKey *key)
{
	DcRegionRow row;
	bool locked = false;
	bool found = find_own(to, key->key, &row);
	bool again = found && (to->sets != NULL || row.at == SLOT_IS_BACK);

	if (again)
	{
		/* it is locked first: closing it needs the lock, too (regionset.c, setmerge.c) */
		if (!region_row_try_lock(to->rel, &row))
			return false;
		locked = true;
		again = is_closed(to->sets, &row);
	}
	if (!found || again)
	{
		row = (DcRegionRow){
			.key = key->key,
			.region = to->region,
			.epoch = slot_epoch_next(to->counter, &to->identity, found ? &row : NULL),
			.inc = key->own_inc,
			.dec = key->own_dec,
			.at = key->own_at,
		};
		return region_row_insert(to->rel, &row);
	}
	if (pg_add_s64_overflow(row.inc, key->own_inc, &row.inc) ||
		pg_add_s64_overflow(row.dec, key->own_dec, &row.dec))
	{
		key->overflow = true;
		return false;
	}
	row.at = Max(row.at, key->own_at);
	return region_row_replace(to->rel, &row, locked);
}

/*
 * find_own finds the slot that this database counts in. If nothing was ever set, it can have only
 * one epoch.
 */
static bool
find_own(DcPublishing *to, Datum key, DcRegionRow *row)
{
	DcRegionRow wanted = {.key = key, .region = to->region, .epoch = to->identity.epoch};

	if (to->sets == NULL && to->counter->row.rights_epoch <= to->identity.epoch)
		return region_row_find(to->rel, &wanted, row);
	return region_row_find_last(to->rel, &wanted, to->identity.epoch + REGION_EPOCH_SLOTS, row);
}

/*
 * Return true if a deletion has closed the slot, by the rows of sets as they are now.
 */
static bool
is_closed(DcRegionRel *sets, const DcRegionRow *row)
{
	return !slot_is_open(row, sets == NULL ? observed_slots(NIL) : set_observed_now(sets, row->key));
}
