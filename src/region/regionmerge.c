/*
 * regionmerge.c
 *		The trigger for rows of regions that come from another region.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It keeps the greater one of each amount (mergetrigger.c has what all these triggers do). So it
 * does not matter how often or by which way a row comes, or whether an older one comes later.
 *
 *	- If nothing grows, nothing is written (NULL skips the row quietly). So a row that goes around a
 *	  ring stops where it is known.
 *	- An existing row is read before it is locked, since the worker should wait for nobody if it has
 *	  nothing to write.
 *	- A row of this database's own epoch that has more than the database itself is not merged
 *	  (slot_is_foreign). To be sure, transactions that are writing that row here are waited for
 *	  first.
 *	- The difference goes to a shard row of this transaction's own with a negative number
 *	  (apply_remote()), in the same transaction. That waits for nobody.
 *
 * So an apply worker waits for other transactions only if these write the same row of the
 * same region and epoch, which is where several links bring it.
 *
 * Where a subscription brings the totals and the shard rows of the counter as well, these have the
 * differences already, and shard rows of its own would collide with incoming ones. So then rows are
 * taken as they are.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "core/counter/apply.h"
#include "region/merge.h"
#include "region/sets.h"

PG_FUNCTION_INFO_V1(merge_region);

static DcRegionRow row_of(const Datum *columns);
static const char *region_problem(DcMerge *merge);
static void insert_region(DcMerge *merge);
static bool comes_back(DcRegionRel *rel, const DcRegionRow *wanted);
static bool raise_found(DcRegionRel *rel, DcRegionRow *row, const DcRegionRow *wanted,
						int64 *inc, int64 *dec);
static bool is_sealed(DcCounter *counter, const DcRegionRow *come);
static HeapTuple update_region(DcMerge *merge);
static void add_remote(const DcMerge *merge, Datum key, int64 inc, int64 dec);

static const DcMergeKind region_kind = {
	.function = "merge_region()",
	.table = TABLE_OF_REGIONS,
	.problem = region_problem,
	.other = gettext_noop("It would become the row of another key, region or epoch."),
	.insert = insert_region,
	.update = update_region,
};

/*
 * merge_region() -> trigger, BEFORE INSERT OR UPDATE FOR EACH ROW
 */
Datum
merge_region(PG_FUNCTION_ARGS)
{
	static DcCounter *last = NULL; /* entries stay where they are */

	return merge_trigger(fcinfo, &region_kind, &last);
}

/*
 * Return the row that a trigger was given as columns.
 */
static DcRegionRow
row_of(const Datum *columns)
{
	return (DcRegionRow){
		.key = columns[REGION_KEY],
		.region = columns[REGION_REGION],
		.epoch = DatumGetInt64(columns[REGION_EPOCH]),
		.inc = DatumGetInt64(columns[REGION_INC]),
		.dec = DatumGetInt64(columns[REGION_DEC]),
		.at = DatumGetTimestampTz(columns[REGION_UPDATED_AT]),
	};
}

/*
 * Return what is wrong with a row that has come, or NULL.
 */
static const char *
region_problem(DcMerge *merge)
{
	DcRegionRow row = row_of(merge->come);

	if (TIMESTAMP_NOT_FINITE(row.at))
		return _("A time is out of range.");
	return row.inc < 0 || row.dec < 0 ? _("An amount is negative.") : NULL;
}

/*
 * Merge a row to insert.
 */
static void
insert_region(DcMerge *merge)
{
	DcCounter *counter = merge->counter;
	DcRegionRow wanted = row_of(merge->come);
	DcRegionRel rel;
	int64 inc = 0;
	int64 dec = 0;

	if (wanted.epoch <= 0)
		return; /* sealed, and not published */
	regionrel_open(&rel, counter, TABLE_OF_REGIONS, NoLock);
	if (comes_back(&rel, &wanted))
		wanted.at = SLOT_IS_BACK;
	region_row_raise(&rel, &wanted, &inc, &dec);
	regionrel_close(&rel);
	add_remote(merge, wanted.key, inc, dec);
}

/*
 * Return true if a row of this database's own comes from a region that has not removed it with a
 * deleted key, as this one has (regionslot.c).
 */
static bool
comes_back(DcRegionRel *rel, const DcRegionRow *wanted)
{
	DcIdentity identity;
	DcRegionRow row;

	return rel->counter->row.rights_epoch > 0 && region_self(&identity) &&
		slot_comes_back(rel->counter, &identity, region_row_find(rel, wanted, &row) ? &row : NULL, wanted);
}

/*
 * region_row_raise raises a row to at least the amounts of another one, and sets by how much they
 * have grown. Waits for transactions that write it, if there is anything to write.
 */
void
region_row_raise(DcRegionRel *rel, DcRegionRow *wanted, int64 *inc, int64 *dec)
{
	bool done = false;

	*inc = *dec = 0;
	while (!done)
	{
		DcRegionRow row;

		CHECK_FOR_INTERRUPTS();
		if (region_row_find(rel, wanted, &row))
			done = raise_found(rel, &row, wanted, inc, dec);
		else if (wanted->at != SLOT_IS_BACK &&
				 region_row_is_foreign(rel, wanted))
			done = true;
		else if (region_row_insert(rel, wanted))
		{
			done = true;
			*inc = wanted->inc;
			*dec = wanted->dec;
			CommandCounterIncrement();
		}
		else
			(void) region_row_wait(rel, wanted);
	}
}

/*
 * region_row_is_foreign is slot_is_foreign(), after all transactions that write the row have ended.
 * Other regions may have their rows, and have sent them back, before they are visible here: a
 * commit is sent when it is on disk, but visible only when a synchronous standby has confirmed it,
 * too. Rows of transactions that have begun to write since then cannot have come back yet.
 */
bool
region_row_is_foreign(DcRegionRel *rel, const DcRegionRow *wanted)
{
	DcIdentity identity;
	DcRegionRow row;
	bool found;
	bool waited;

	if (!slot_is_own(wanted, &identity))
		return slot_is_sealed(rel, wanted);
	do
	{
		CHECK_FOR_INTERRUPTS();
		waited = region_row_wait(rel, wanted);
		found = region_row_find(rel, wanted, &row);
		if (found && wanted->inc <= row.inc && wanted->dec <= row.dec)
			return false;
	} while (waited);
	return slot_is_foreign(rel->counter, rel->heap, wanted, found ? row.inc : -1, found ? row.dec : -1);
}

/*
 * raise_found raises the amounts of a row that was found, and sets by how much; false if the row no
 * longer exists.
 */
static bool
raise_found(DcRegionRel *rel, DcRegionRow *row, const DcRegionRow *wanted, int64 *inc, int64 *dec)
{
	if (wanted->inc <= row->inc && wanted->dec <= row->dec)
		return true;
	if (wanted->at != SLOT_IS_BACK && region_row_is_foreign(rel, wanted))
		return true;
	if (!region_row_lock(rel, row))
		return false;
	*inc = Max(wanted->inc - row->inc, 0);
	*dec = Max(wanted->dec - row->dec, 0);
	if (*inc == 0 && *dec == 0)
		return true;
	row->inc += *inc;
	row->dec += *dec;
	row->at = Max(row->at, wanted->at);
	if (!region_row_replace(rel, row, true))
		elog(ERROR, "locked row of a region could not be updated");
	CommandCounterIncrement();
	return true;
}

/*
 * is_sealed is slot_is_sealed() where the table of regions is not open to write.
 */
static bool
is_sealed(DcCounter *counter, const DcRegionRow *come)
{
	DcRegionRel rel;
	DcIdentity self;
	bool sealed;

	if (!region_self(&self) || !batch_key_equal(come->region, CStringGetTextDatum(self.region)))
		return false;
	regionrel_open(&rel, counter, TABLE_OF_REGIONS, NoLock);
	sealed = slot_is_sealed(&rel, come);
	regionrel_close(&rel);
	return sealed;
}

/*
 * Merge an update of a row that the caller has locked.
 */
static HeapTuple
update_region(DcMerge *merge)
{
	DcCounter *counter = merge->counter;
	DcRegionRow old = row_of(merge->have);
	DcRegionRow new = row_of(merge->come);
	int64 inc = Max(new.inc - old.inc, 0);
	int64 dec = Max(new.dec - old.dec, 0);

	if (inc == 0 && dec == 0)
		return NULL;
	if (old.at != SLOT_IS_BACK && (slot_is_foreign(counter, merge->rel, &new, old.inc, old.dec) || is_sealed(counter, &new)))
		return NULL;
	merge->come[REGION_INC] = Int64GetDatum(old.inc + inc);
	merge->come[REGION_DEC] = Int64GetDatum(old.dec + dec);
	merge->come[REGION_UPDATED_AT] = TimestampTzGetDatum(old.at == SLOT_IS_BACK ? old.at : Max(old.at, new.at));
	add_remote(merge, new.key, inc, dec);
	return merge_form(merge, merge->come, REGION_NUM_COLUMNS);
}

/*
 * add_remote adds to the value of a key what its region has counted.
 */
static void
add_remote(const DcMerge *merge, Datum text, int64 inc, int64 dec)
{
	DcKey key;

	if (inc == 0 && dec == 0)
		return;
	key_from_text(text, &key);
	apply_remote(merge_lock(merge), &key, inc, dec);
}
