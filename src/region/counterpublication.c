/*
 * counterpublication.c
 *		The tables of replicated counters in the publications (publication.c), and dc_region_publish().
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/subxact.h"
#include "core/table/access.h"
#include "region/life.h"
#include "region/rights.h"

PG_FUNCTION_INFO_V1(dc_region_publish);

/* sealed amounts have an epoch below zero (seal.c) */
#define REGION_FILTER "epoch OPERATOR(pg_catalog.>) 0"

/* What publish_counter() is called with. */
typedef struct PublishWork
{
	const DcCounterRow *row;
	const char *region;
} PublishWork;

static bool publish_again(const DcCounterRow *row, const char *region);
static bool publish_counter(void *arg);
static bool is_lacking(const DcCounterRow *row);

/*
 * counter_publish adds the tables of a replicated counter to the publications. Raises 55000, or
 * 42809, if its tables could not take rows from other regions.
 */
void
counter_publish(const DcCounterRow *row, const char *region)
{
	const char *problem = regions_problem(row, LOOK_ALL);

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" cannot be replicated between regions with its tables as they are", get_rel_name(row->counter)),
				 errdetail_internal("%s", problem)));
	if (OidIsValid(row->grants))
	{
		publications_add(row->grants, grant_columns, "from_region", region);
		publications_add(row->wants, want_columns, "region", region);
		return;
	}
	publications_add_filtered(row->regions, region_columns, "region", region, REGION_FILTER);
	publications_add(row->sets, set_columns, "region", region);
}

/*
 * dc_region_publish() -> integer: creates the publications if necessary, and adds tables that are
 * missing. Returns the number of counters whose tables were added. For the owner of the database.
 *
 * Errors: 42501, 55000 if the database is in no region, or a publication is not as dcounter makes
 * it.
 */
Datum
dc_region_publish(PG_FUNCTION_ARGS)
{
	DcSelfRow self;

	prevent_write("dc_region_publish()");
	region_check_owner();
	if (!self_read(&self))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database is not in a region"),
				 errhint("Call dc_region_init() first.")));
	PG_RETURN_INT32(publications_complete(self.region, true));
}

/*
 * publications_complete adds missing tables to the publications: the one of heartbeats and, if
 * `all`, those of counters, whose owners have asked for that (dc_replicate). Returns the number of
 * counters.
 */
int
publications_complete(const char *region, bool all)
{
	int added = 0;
	ListCell *lc;

	if (publications_lack(beats_relation()))
	{
		publications_create_as_owner();
		publications_add(beats_relation(), beat_columns, "region", region);
	}
	foreach(lc, all ? catalog_read_all() : NIL)
	{
		CHECK_FOR_INTERRUPTS();
		if (is_lacking(lfirst(lc)) && publish_again(lfirst(lc), region))
			added++;
	}
	return added;
}

/*
 * publish_again publishes a counter as dc_replicate() has, or leaves it out with a warning, as its
 * tables may have changed.
 */
static bool
publish_again(const DcCounterRow *row, const char *region)
{
	MemoryContext caller = CurrentMemoryContext;
	PublishWork work = {row, region};
	volatile bool done = false;

	PG_TRY();
	{
		done = subxact_run(publish_counter, &work);
	}
	PG_CATCH();
	{
		ErrorData *error = error_caught(caller);

		if (!is_owners_error(error->sqlerrcode))
			ReThrowError(error);
		ereport(WARNING,
				(errmsg("counter table \"%s\" is not published: %s", get_rel_name(row->counter), error->message),
				 error->detail != NULL ? errdetail_internal("%s", error->detail) : 0));
		FreeErrorData(error);
	}
	PG_END_TRY();
	return done;
}

/*
 * Put the tables of a counter into the publications, as a subtransaction.
 */
static bool
publish_counter(void *arg)
{
	const PublishWork *work = arg;

	counter_publish(work->row, work->region);
	return true;
}

/*
 * publications_are_complete returns true if there is nothing to add.
 */
bool
publications_are_complete(void)
{
	bool lacking = publications_lack(beats_relation());
	ListCell *lc;

	foreach(lc, catalog_read_all())
	{
		CHECK_FOR_INTERRUPTS();
		lacking |= is_lacking(lfirst(lc));
	}
	return !lacking;
}

/*
 * Return true if a table of the counter is not in the publications.
 */
static bool
is_lacking(const DcCounterRow *row)
{
	if (OidIsValid(row->grants))
		return publications_lack(row->grants) || publications_lack(row->wants);
	return OidIsValid(row->regions) && (publications_lack(row->regions) || publications_lack(row->sets));
}
