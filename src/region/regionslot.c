/*
 * regionslot.c
 *		Which slot of a key this database counts in.
 *
 * It is the row of the key and this region with the greatest epoch, from the epoch of this database on.
 * Mostly that has the epoch of the database. But a slot that a deletion has closed is not counted in
 * any more (sets.h): the next one has the next epoch. Epochs of databases are so far apart, by time, that
 * none gets to that of another: there are 1024 in a microsecond.
 *
 * Rows of deleted keys may have been removed (regionvacuum.c). Such a key begins with an epoch that is
 * greater than all that were removed here, which dcounter.counter has. Otherwise what is
 * counted from nothing on would be taken, by those who still have the row, for what they have already.
 */
#include "postgres.h"

#include "compact/compactbatch.h"
#include "region/sets.h"
#include "utils/builtins.h"

/*
 * slot_find_own finds the row of a key that this database has counted in last, without a lock.
 */
bool
slot_find_own(DcRegionRel *rel, Datum key, const DcIdentity *identity, DcRegionRow *row)
{
	DcRegionRow wanted = {.key = key, .region = CStringGetTextDatum(identity->region), .epoch = identity->epoch};

	return region_row_find_last(rel, &wanted, row);
}

/*
 * slot_epoch_next returns the epoch of a new slot; last is the row of slot_find_own(), or NULL.
 */
int64
slot_epoch_next(const DcCounter *counter, const DcIdentity *identity, const DcRegionRow *last)
{
	int64 next = last != NULL ? last->epoch + 1 : identity->epoch;

	return Max(next, counter->row.rights_epoch);
}

/*
 * slot_was_vacuumed tells whether a row that comes, and is not here, may have been removed here.
 */
bool
slot_was_vacuumed(const DcCounter *counter, const DcIdentity *identity, const DcRegionRow *come)
{
	return come->epoch >= identity->epoch && come->epoch < counter->row.rights_epoch &&
		batch_key_equal(come->region, CStringGetTextDatum(identity->region));
}
