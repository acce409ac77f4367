/*
 * buildjob.c
 *		Builds as a job: counter tables that are new, and were bound with build => 'worker'.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A step is the scan, or a chunk (build.c), of one counter table. The differences that the scan
 * has found live in a file between steps. As a round may yield between two steps, and the
 * server may crash, each step opens everything again, and a chunk looks at the epoch.
 *
 * The worker waits for no lock, and leaves alone what would keep it from its other work:
 *
 *	- a source whose expressions may take a long time, or much memory (source_is_harmless), unless
 *	  it belongs to a superuser, or dcounter.worker_runs_owner_code is on;
 *	- a source of which a scan takes longer than SCAN_MS.
 *
 * It says so in the log, and counts it as left to the owner, who calls dc_build() or
 * dc_maintain().
 *
 * In each step it takes the lock against other builds, without waiting, until the step ends: so
 * while dc_build() runs in a session the job does nothing. A lock between steps is not needed:
 * a build that comes in between changes the epoch.
 */
#include "postgres.h"

#include "access/table.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/activity.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/job.h"
#include "base/lockclass.h"
#include "base/relopen.h"
#include "core/table/access.h"
#include "core/table/ownercode.h"
#include "core/table/tablejob.h"
#include "transactional/bound/build.h"
#include "transactional/bound/sourceexpr.h"

/* Keys that a step adds to. */
#define CHUNK_KEYS 1000

/*
 * Time limit of the worker's scan of a source, as all its other work waits for it, and the time
 * until the next try.
 */
#define SCAN_MS 2000
#define TRY_AGAIN_MS (60 * 60 * 1000)

/* How often the job looks for something to build even if nothing has changed. */
#define LOOK_MS (60 * 1000)

static int interval = 1000; /* ms */

/* The build of the current table, or NULL, and its memory. */
static struct
{
	DcBuild *build;
	MemoryContext cxt;
} at;

/* Results of the last look for tables: */
static uint32 seen;
static DcMoment looked = {0};
static bool found_some = true; /* there was something to build */

/* Sources that are too large for the worker. */
typedef struct DcTooLarge
{
	Oid counter;
	DcMoment until;
} DcTooLarge;

static List *too_large = NIL;

static void start_build(MemoryContext cxt);
static List *list_tables(void);
static bool is_to_build(Oid counter, DcSourceRow *row);
static bool is_left_to_worker(const DcSourceRow *row);
static DcTableStep buildjob_step(Oid table, bool all_owners);
static DcTableStep scan_step(Oid table, bool all_owners);
static DcTableStep chunk_step(Oid table, bool all_owners);
static DcTableStep buildjob_stop(DcTableStep result);
static DcCounter *counter_to_build(Oid table, bool all_owners);
static bool may_evaluate(const DcSourceRow *row);
static bool is_too_large(Oid table);
static void note_too_large(Oid table);
static bool buildjob_is_due(void);

static DcTableJob job = {.start = start_build, .state = &at, .state_size = sizeof(at), .list = list_tables, .step = buildjob_step};

/*
 * build_job builds the counter tables that are due; returns true if it has yielded. In the worker,
 * a round with nothing to do needs no transaction.
 */
static bool
build_job(DcJobRun *run)
{
	if (run->all_owners && !table_job_goes_on(&job) && !buildjob_is_due())
		return false;
	return table_job_run(&job, run);
}

/*
 * build_job_init registers the job "build"; called once.
 */
void
build_job_init(void)
{
	job_register((DcJob){.name = "build", .interval = &interval, .run = build_job});
}

/*
 * Return true if there may be something to build: there was at the last check, or a catalog has new
 * rows, or the last check was long ago.
 */
static bool
buildjob_is_due(void)
{
	bool due = found_some || !activity_is_known() || moment_age(looked) > LOOK_MS * INT64CONST(1000) ||
		activity_differs(MyDatabaseId, DC_ACTIVITY_THINGS, seen);

	if (due)
	{
		seen = activity_collect(MyDatabaseId, DC_ACTIVITY_THINGS);
		looked = moment_now();
	}
	return due;
}

/*
 * list_tables lists the counter tables to build.
 */
static List *
list_tables(void)
{
	Oid catalog = catalog_relation_if_any("source");
	List *tables = NIL;
	ListCell *lc;

	found_some = false;
	if (!OidIsValid(catalog))
		return NIL;
	found_some = true;
	if (!ConditionalLockRelationOid(catalog, AccessShareLock) ||
		!ConditionalLockRelationOid(catalog_relation("source_state"), AccessShareLock))
		return NIL;
	foreach(lc, source_list())
	{
		const DcSourceRow *row = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (is_left_to_worker(row) && (job.all_owners || compat_owns_relation(row->counter, GetUserId())))
			tables = lappend_oid(tables, row->counter);
	}
	found_some = tables != NIL;
	return tables;
}

/*
 * Return true if a bound counter table is left to the worker to build and is not built yet;
 * sets *row. False while an index of the tables that a chunk writes to is missing.
 */
static bool
is_to_build(Oid counter, DcSourceRow *row)
{
	return source_read(counter, row) && is_left_to_worker(row);
}

/*
 * Return true if a binding's counter table is left to the worker to build and can be built now. The
 * binding's texts are not needed.
 */
static bool
is_left_to_worker(const DcSourceRow *row)
{
	DcSourceStateRow state;

	return row->build == DC_BUILD_WORKER &&
		!relation_lacks_indexes(row->refs) && !relation_lacks_indexes(row->carried) &&
		source_state_read(row->counter, &state) && state.state == DC_SOURCE_BUILDING;
}

/*
 * Start on a counter table, for which nothing was scanned yet; its build will live in cxt.
 */
static void
start_build(MemoryContext cxt)
{
	at.build = NULL;
	at.cxt = cxt;
}

/*
 * buildjob_step does one transaction's work.
 */
static DcTableStep
buildjob_step(Oid table, bool all_owners)
{
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table)) ||
		(!all_owners && !compat_owns_relation(table, GetUserId())))
		return buildjob_stop(TABLE_DONE);
	if (!advisory_lock(BOUND_LOCK_CLASS, table, 1, ExclusiveLock, false))
		return buildjob_stop(TABLE_LATER);
	if (at.build == NULL)
		at.build = build_begin(table, CHUNK_KEYS, at.cxt);
	return build_needs_scan(at.build) ? scan_step(table, all_owners) : chunk_step(table, all_owners);
}

/*
 * buildjob_stop ends work on a table for this round.
 */
static DcTableStep
buildjob_stop(DcTableStep result)
{
	if (at.build != NULL)
		build_end(at.build);
	at.build = NULL;
	return result;
}

/*
 * Do the first step: lock both sides, find the differences and write them to the spool. The
 * worker (all_owners) does not wait for locks, and leaves a source that takes longer than
 * SCAN_MS to its owner.
 */
static DcTableStep
scan_step(Oid table, bool all_owners)
{
	DcSourceWait wait = all_owners ? DC_SOURCE_AT_ONCE : DC_SOURCE_WAIT;
	DcBuildStep result;
	DcSourceRead read;
	DcSourceRow row;
	DcCounter *counter;

	if (!is_to_build(table, &row))
		return buildjob_stop(TABLE_DONE);
	if (all_owners && is_too_large(table))
	{
		job.left = true;
		return buildjob_stop(TABLE_DONE);
	}
	if (!source_read_lock(&read, table, "the job \"build\"", wait))
		return buildjob_stop(TABLE_LATER);
	counter = counter_to_build(table, all_owners);
	if (counter == NULL)
		return buildjob_stop(TABLE_LATER);
	if (!all_owners)
		prevent_not_owner(read.row.source);
	else if (!may_evaluate(&read.row))
	{
		job.left = true;
		ownercode_log(table, "the expressions that the counter table is bound with");
		return buildjob_stop(TABLE_DONE);
	}
	if (!source_read_begin(&read, counter, true))
		return buildjob_stop(TABLE_LATER);
	result = build_scan(at.build, &read, all_owners ? moment_in(SCAN_MS) : DC_LONG_AGO);
	source_read_end(&read);
	if (result != BUILD_TOO_LONG)
		return TABLE_GOES_ON;
	note_too_large(table);
	ereport(LOG,
			(errmsg("dcounter worker leaves building \"%s\" to its owner", get_rel_name(table)),
			 errdetail("Reading its source takes longer than %d s.", SCAN_MS / 1000),
			 errhint("The owner can call dc_build().")));
	job.left = true;
	return buildjob_stop(TABLE_DONE);
}

/*
 * Do a later step: add the next differences from the spool, in this transaction.
 */
static DcTableStep
chunk_step(Oid table, bool all_owners)
{
	DcCounter *counter = counter_to_build(table, all_owners);
	DcSourceRow row;

	if (counter == NULL || !bound_lock(table, !all_owners))
		return buildjob_stop(TABLE_LATER);
	if (!is_to_build(table, &row))
		return buildjob_stop(TABLE_DONE);
	if (!all_owners)
		prevent_not_owner(row.source);
	return build_chunk(at.build, counter, &row) == BUILD_DONE ? buildjob_stop(TABLE_DONE) : TABLE_GOES_ON;
}

/*
 * counter_to_build locks and opens the counter table; NULL if that cannot be done now.
 */
static DcCounter *
counter_to_build(Oid table, bool all_owners)
{
	if (all_owners)
		return counter_open_at_once(table, RowExclusiveLock);
	return counter_lock(table, RowExclusiveLock) ? counter_lookup(table) : NULL;
}

/*
 * Return true if the worker may evaluate the expressions of a binding, whose source
 * is locked.
 */
static bool
may_evaluate(const DcSourceRow *row)
{
	Relation source;
	bool harmless;

	if (dc_worker_runs_owner_code || superuser_arg(relation_owner(row->source)))
		return true;
	source = table_open_present(row->source, NoLock);
	harmless = source_is_harmless(row, source);
	table_close(source, NoLock);
	return harmless;
}

/*
 * Return true if a scan of this table's source took too long, less than TRY_AGAIN_MS ago.
 */
static bool
is_too_large(Oid table)
{
	ListCell *lc;

	foreach(lc, too_large)
	{
		DcTooLarge *entry = lfirst(lc);

		if (entry->counter == table)
			return !moment_is_reached(entry->until);
	}
	return false;
}

/*
 * Remember for TRY_AGAIN_MS that the source of a table is too large for the worker.
 */
static void
note_too_large(Oid table)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	DcTooLarge *entry = NULL;
	ListCell *lc;

	foreach(lc, too_large)
	{
		if (((DcTooLarge *) lfirst(lc))->counter == table)
			entry = lfirst(lc);
	}
	if (entry == NULL)
	{
		entry = palloc(sizeof(DcTooLarge));
		too_large = lappend(too_large, entry);
	}
	entry->counter = table;
	entry->until = moment_in(TRY_AGAIN_MS);
	MemoryContextSwitchTo(old);
}
