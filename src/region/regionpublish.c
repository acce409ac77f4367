/*
 * regionpublish.c
 *		Adding what was counted here to what this region has of each key.
 *
 * Compaction and flushes do so, in the transaction that moves the same amounts to the totals. So
 * other regions are sent a row for each key and compaction, and nothing for an increment. It is
 * the rows of this region and epoch that are written, which nobody else changes. But an
 * apply worker may have one locked for a moment, when it has come back along a ring. Then the
 * key is left for the next time: compaction waits for nobody.
 *
 * The identity that is read here cannot change before the transaction has committed (life.h).
 * It raises this region's beat then (region_published).
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/int.h"
#include "miscadmin.h"
#include "region/life.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"

static bool add_own(DcRegionRel *rel, DcRegionRow *wanted, DcBatchKey *key);

/*
 * region_ready tells whether amounts may go to the totals of a replicated counter table now, and locks its
 * table of regions. The tables of the counter are locked.
 */
bool
region_ready(DcCounter *counter)
{
	DcIdentity identity;

	return !IsolationUsesXactSnapshot() && region_identity_at_once(&identity) &&
		ConditionalLockRelationOid(counter->row.regions, RowExclusiveLock);
}

/*
 * region_publish adds the own amounts of the keys of a batch.
 */
void
region_publish(DcCounter *counter, DcBatch *batch)
{
	DcIdentity identity;
	DcRegionRow wanted = {0};
	DcRegionRel rel;
	bool any = false;

	region_identity_needed(&identity);
	wanted.region = CStringGetTextDatum(identity.region);
	wanted.epoch = identity.epoch;
	regionrel_open(&rel, counter, RowExclusiveLock);
	for (int i = 0; i < batch->nkeys; i++)
	{
		DcBatchKey *key = &batch->keys[i];

		CHECK_FOR_INTERRUPTS();
		if (key->skip || (key->own_inc == 0 && key->own_dec == 0))
			continue;
		wanted.key = key->key;
		key->published = add_own(&rel, &wanted, key);
		key->skip = !key->published;
		any |= key->published;
	}
	regionrel_close(&rel);
	CommandCounterIncrement();
	if (!any)
		return;
	region_published();
	unpublished_forget(counter, batch);
}

/*
 * add_own adds those of a key; false if that is not possible now. A sum that leaves bigint is told
 * as one of the totals is.
 */
static bool
add_own(DcRegionRel *rel, DcRegionRow *wanted, DcBatchKey *key)
{
	DcRegionRow row;

	if (!region_row_find(rel, wanted, &row))
	{
		row = *wanted;
		row.inc = key->own_inc;
		row.dec = key->own_dec;
		row.at = key->own_at;
		return region_row_insert(rel, &row);
	}
	if (pg_add_s64_overflow(row.inc, key->own_inc, &row.inc) ||
		pg_add_s64_overflow(row.dec, key->own_dec, &row.dec))
	{
		key->overflow = true;
		return false;
	}
	row.at = Max(row.at, key->own_at);
	return region_row_replace(rel, &row, false);
}
