/*
 * regionslot.c
 *		The slot of a key that this database counts in.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It is the row of the key and this region with the greatest epoch among this database's epochs:
 * REGION_EPOCH_SLOTS of them, from its own epoch on. Another database of the region, such as a copy
 * that has renewed, has others. Usually the slot has the epoch of the database. But a slot that a
 * deletion has closed is no longer counted in (sets.h): the next one has the next epoch. Epochs of
 * databases are so far apart, by time, that they never overlap: there are 1024 in a microsecond.
 *
 * Rows of deleted keys may have been removed (regionvacuum.c). Such a key begins with an epoch that
 * is greater than all that were removed here, which dcounter.counter has. Otherwise regions that
 * still have the row would take the new counts, which start from zero, for ones that they have
 * already.
 *
 * A region that has not removed the rows may send them, including this database's own. Such a slot
 * is not counted in either, whether it is known to be closed yet or not. It is recognized by its
 * time, which is -infinity here. If others know more of it than this database, that does not mean
 * that there is a copy of this database.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "core/compact/compactbatch.h"
#include "region/sets.h"

static int64 epoch_after(const DcCounter *counter, const DcIdentity *identity, const DcRegionRow *last);

/*
 * slot_find_own finds the row of a key that this database has counted in last, without a lock.
 */
bool
slot_find_own(DcRegionRel *rel, Datum key, const DcIdentity *identity, DcRegionRow *row)
{
	DcRegionRow wanted = {.key = key, .region = CStringGetTextDatum(identity->region), .epoch = identity->epoch};

	return region_row_find_last(rel, &wanted, identity->epoch + REGION_EPOCH_SLOTS, row);
}

/*
 * slot_epoch_next returns the epoch of a new slot; last is the row of slot_find_own(), or NULL.
 */
int64
slot_epoch_next(const DcCounter *counter, const DcIdentity *identity, const DcRegionRow *last)
{
	if (!slot_has_next(counter, identity, last))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a key of counter table \"%s\" was deleted too often under one epoch", get_rel_name(counter->relid)),
				 errhint("Call dc_region_renew().")));
	return epoch_after(counter, identity, last);
}

/*
 * slot_has_next returns true if there is an epoch for a new slot.
 */
bool
slot_has_next(const DcCounter *counter, const DcIdentity *identity, const DcRegionRow *last)
{
	return region_epoch_is_own(identity, epoch_after(counter, identity, last));
}

/*
 * Return the epoch of the next slot: after the last one, and after all that were removed here.
 */
static int64
epoch_after(const DcCounter *counter, const DcIdentity *identity, const DcRegionRow *last)
{
	return Max(last != NULL ? last->epoch + 1 : identity->epoch, counter->row.rights_epoch);
}

/*
 * Return true if a row that comes is one of this database's own that was probably removed here, or
 * one that came back before; `have` is the existing row, or NULL. The row then gets SLOT_IS_BACK as
 * its time.
 */
bool
slot_comes_back(const DcCounter *counter, const DcIdentity *identity, const DcRegionRow *have, const DcRegionRow *come)
{
	if (!region_epoch_is_own(identity, come->epoch) || come->epoch >= counter->row.rights_epoch ||
		!batch_key_equal(come->region, CStringGetTextDatum(identity->region)))
		return false;
	return have == NULL || have->at == SLOT_IS_BACK;
}

/*
 * Return true if a slot of this database's own may be counted in; `observed` is the state that sets
 * of its key have observed.
 */
bool
slot_is_open(const DcRegionRow *row, Datum observed)
{
	return row->at != SLOT_IS_BACK && !observed_is_closed(observed, row);
}
