/*
 * regionmerge.c
 *		The trigger for rows of regions that come from another region.
 *
 * It fires in the workers of logical replication, for what they insert (a first copy of the
 * table included) and for what they update, and keeps the greater one of each amount. So it does
 * not matter how often a row comes, by which way, and whether an older one comes later.
 *
 *	- Nothing grows: nothing is written (NULL skips the row quietly). So a message that goes
 *	  around a ring ends where it is known.
 *	- A row that is not there is inserted here, not by the caller: where two links bring it, that
 *	  would be a unique violation for one of them. A row that is there is looked at before it is
 *	  locked, since the worker should wait for nobody if it has nothing to write.
 *	- An update: the caller has the row locked, and writes what this returns.
 *	- A row of this database's own epoch that says more than it has itself is not merged
 *	  (slot_is_foreign), and it is waited for who is writing that row here, to be sure.
 *	- What was added goes to a shard row of this transaction's own with a negative number
 *	  (apply_remote()), in the same transaction. That waits for nobody.
 *
 * So an apply worker waits for other transactions only if these write the same row of the
 * same region and epoch, which is where several links bring it.
 *
 * Where a subscription brings the totals and the shard rows of the counter as well, this database is not
 * a region but has a copy of one (table/subscription.c). What the rows add is in these already, and shard
 * rows of its own would be in the way of those that come. So rows are taken as they are.
 *
 * The role is that of the subscription's owner, in PostgreSQL 15 a superuser. No code of the
 * counter's owner runs: what is written directly calls none, and what goes by SQL, to shard tables
 * that have triggers, say, runs as their owner (base/runas.c). Any role that may execute this
 * function may put it on a table of its own: it raises an error if that is no table of regions.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "base/args.h"
#include "base/compat.h"
#include "base/rowread.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "counter/apply.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "region/sets.h"
#include "storage/lmgr.h"
#include "table/access.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(merge_region);

static DcCounter *counter_of(Relation regions);
static void row_of(DcCounter *counter, Relation rel, HeapTuple tuple, DcRegionRow *row);
static const char *take_row(DcCounter *counter, Relation rel, HeapTuple tuple, DcRegionRow *row);
static Datum merge_insert(DcCounter *counter, Relation regions, HeapTuple tuple);
static bool comes_back(DcRegionRel *rel, const DcRegionRow *wanted);
static bool raise_found(DcRegionRel *rel, DcRegionRow *row, const DcRegionRow *wanted,
						int64 *inc, int64 *dec);
static bool is_sealed(DcCounter *counter, const DcRegionRow *come);
static Datum merge_update(DcCounter *counter, TriggerData *data);
static void add_remote(DcCounter *counter, Datum key, int64 inc, int64 dec);

/*
 * merge_region() -> trigger, BEFORE INSERT OR UPDATE FOR EACH ROW
 *
 * Errors: 55000 if the table does not belong to a replicated counter; those of a counter table that cannot be
 * written to. All of these stop the subscription, and nothing is lost when the reason is gone. What is in a row
 * is no reason (passedover.c).
 */
Datum
merge_region(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	DcCounter *counter;

	trigger_check(fcinfo, "merge_region()");
	if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		TRIGGER_FIRED_BY_DELETE(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be called as a trigger, %s", "merge_region()", "BEFORE INSERT OR UPDATE FOR EACH ROW")));
	counter = counter_of(data->tg_relation);
	if (counter->fed)
		return region_row_as_it_came(data);
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		return merge_update(counter, data);
	return merge_insert(counter, data->tg_relation, data->tg_trigtuple);
}

/*
 * region_row_as_it_came returns the row that a trigger was called for.
 */
Datum
region_row_as_it_came(const TriggerData *data)
{
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple);
}

/*
 * counter_of returns the counter that a table of regions belongs to. The last one is remembered, as most
 * rows come one after the other.
 */
static DcCounter *
counter_of(Relation regions)
{
	static DcCounter *last = NULL; /* entries stay where they are */
	Oid relid = RelationGetRelid(regions);

	if (last == NULL || !last->valid || last->row.regions != relid)
	{
		DcCounterRow row;

		last = NULL;
		if (!catalog_read_by_regions(relid, &row))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" does not belong to a replicated counter table",
							RelationGetRelationName(regions)),
					 errhint("Call dc_adopt() for the counter table, or drop the table.")));
		last = counter_lookup(row.counter);
	}
	counter_regions_layout(last, regions);
	return last;
}

/*
 * row_of takes a tuple apart in which nothing is null.
 */
static void
row_of(DcCounter *counter, Relation rel, HeapTuple tuple, DcRegionRow *row)
{
	const AttrNumber *atts = counter->regions.atts;
	TupleDesc desc = RelationGetDescr(rel);
	Datum values[MaxTupleAttributeNumber];
	bool nulls[MaxTupleAttributeNumber];

	heap_deform_tuple(tuple, desc, values, nulls);
	*row = (DcRegionRow){
		.key = values[atts[REGION_KEY] - 1],
		.region = values[atts[REGION_REGION] - 1],
		.epoch = DatumGetInt64(values[atts[REGION_EPOCH] - 1]),
		.inc = DatumGetInt64(values[atts[REGION_INC] - 1]),
		.dec = DatumGetInt64(values[atts[REGION_DEC] - 1]),
		.at = DatumGetTimestampTz(values[atts[REGION_UPDATED_AT] - 1]),
	};
}

/*
 * take_row does so for a tuple that comes from elsewhere, and returns what is wrong with it, as a sentence, or NULL.
 */
static const char *
take_row(DcCounter *counter, Relation rel, HeapTuple tuple, DcRegionRow *row)
{
	const char *problem = row_null_problem(rel, tuple, counter->regions.atts, REGION_NUM_COLUMNS);

	if (problem != NULL)
		return problem;
	row_of(counter, rel, tuple, row);
	if ((problem = row_key_problem(row->key)) == NULL && (problem = row_region_problem(row->region)) == NULL &&
		(problem = row_time_problem(row->at)) == NULL && (row->inc < 0 || row->dec < 0))
		problem = _("An amount is negative.");
	return problem;
}

/*
 * merge_insert merges a row that is to be inserted.
 */
static Datum
merge_insert(DcCounter *counter, Relation regions, HeapTuple tuple)
{
	DcRegionRow wanted;
	DcRegionRel rel;
	const char *problem = take_row(counter, regions, tuple, &wanted);
	int64 inc = 0;
	int64 dec = 0;

	if (problem != NULL)
		return region_row_passed_over(regions, counter, problem);
	if (wanted.epoch <= 0)
		return PointerGetDatum(NULL); /* sealed, and not published */
	regionrel_open(&rel, counter, NoLock);
	if (comes_back(&rel, &wanted))
		wanted.at = SLOT_IS_BACK;
	region_row_raise(&rel, &wanted, &inc, &dec);
	regionrel_close(&rel);
	add_remote(counter, wanted.key, inc, dec);
	return PointerGetDatum(NULL);
}

/*
 * comes_back tells whether a row of this database's own comes from a region that has not removed it with a
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
 * region_row_raise makes a row have at least the amounts of another one, and tells how much they have grown. Waits
 * for transactions that write it, if there is anything to write.
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
 * region_row_is_foreign is slot_is_foreign(), after all transactions that write the row have ended. What they have published
 * others may have, and have sent back, before it is seen here: a commit is sent when it is on disk, and seen when a
 * synchronous standby has confirmed it as well. Who began to write the row since then has not sent anything that can
 * have come back.
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
 * raise_found raises the amounts of a row that was found, and tells by how much; false if it is
 * not there any more.
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
	regionrel_open(&rel, counter, NoLock);
	sealed = slot_is_sealed(&rel, come);
	regionrel_close(&rel);
	return sealed;
}

/*
 * merge_update merges a row that is to be updated, and that the caller has locked.
 */
static Datum
merge_update(DcCounter *counter, TriggerData *data)
{
	Relation regions = data->tg_relation;
	HeapTuple tuple = data->tg_newtuple;
	const char *problem;
	DcRegionRow old;
	DcRegionRow new;
	int64 inc;
	int64 dec;

	row_of(counter, regions, data->tg_trigtuple, &old);
	problem = take_row(counter, regions, tuple, &new);
	if (problem == NULL && (!batch_key_equal(old.key, new.key) || !batch_key_equal(old.region, new.region) || old.epoch != new.epoch))
		problem = _("It is to become that of another key, region or epoch.");
	if (problem != NULL)
		return region_row_passed_over(regions, counter, problem);
	inc = Max(new.inc - old.inc, 0);
	dec = Max(new.dec - old.dec, 0);
	if (inc == 0 && dec == 0)
		return PointerGetDatum(NULL);
	if (old.at != SLOT_IS_BACK && (slot_is_foreign(counter, regions, &new, old.inc, old.dec) || is_sealed(counter, &new)))
		return PointerGetDatum(NULL);
	if (new.inc < old.inc || new.dec < old.dec || new.at < old.at || old.at == SLOT_IS_BACK)
	{
		const AttrNumber *atts = counter->regions.atts;
		int columns[] = {atts[REGION_INC], atts[REGION_DEC], atts[REGION_UPDATED_AT]};
		Datum values[] = {Int64GetDatum(old.inc + inc), Int64GetDatum(old.dec + dec),
						  TimestampTzGetDatum(old.at == SLOT_IS_BACK ? old.at : Max(old.at, new.at))};
		bool nulls[] = {false, false, false};

		tuple = heap_modify_tuple_by_cols(tuple, RelationGetDescr(regions), lengthof(columns), columns,
										  values, nulls);
	}
	add_remote(counter, new.key, inc, dec);
	return PointerGetDatum(tuple);
}

/*
 * add_remote adds to the value of a key what its region has counted.
 */
static void
add_remote(DcCounter *counter, Datum text, int64 inc, int64 dec)
{
	Oid relid = counter->relid;
	DcKey key;

	if (inc == 0 && dec == 0)
		return;
	if (!counter_lock(relid, RowExclusiveLock))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("counter table \"%s\" was dropped", get_rel_name(relid))));
	key_from_text(text, &key);
	apply_remote(counter_lookup(relid), &key, inc, dec);
}
