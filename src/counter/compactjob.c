/*
 * compactjob.c
 *		Compaction as a job: all counter tables of the database, a batch a
 *		transaction.
 *
 * A sweep goes over each table from its first shard row to its last, so each row
 * that is not locked by others is compacted once. When the job's time is up it
 * yields between two batches and goes on from there when it is called again. What
 * it remembers belongs to this process alone. Everything may have changed by the
 * next batch: then the table is opened anew, as any that was never seen before,
 * and a table that is gone, locked by DDL or broken is passed over.
 *
 * A batch is committed without waiting for the disk. That is safe, as a crash that
 * loses the commit loses all of it: then the amounts are where they were. And a
 * later increment of a row that the batch has set to zero cannot be on disk
 * before the batch is.
 */
#include "postgres.h"

#include "base/catalog.h"
#include "base/guc.h"
#include "base/job.h"
#include "counter/compact.h"
#include "counter/stats.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* What is left of the tables that were there when the job began. */
static struct
{
	MemoryContext cxt; /* NULL: the job is not under way */
	Oid *tables;
	int ntables;
	int current;
	bool all_owners;
	bool sweeping; /* the current table has been begun */
	DcSweep sweep;
	TimestampTz started; /* sweep */
} state;

/*
 * A table that has failed is left alone for a while, which doubles each time: so
 * it does not fill the log, or cost a time-out each round.
 */
typedef struct DcFailing
{
	Oid table;
	int64 pause; /* us */
	TimestampTz until;
} DcFailing;

#define PAUSE_MIN (INT64CONST(1000) * 1000)
#define PAUSE_MAX (INT64CONST(60) * 1000 * 1000)

static List *failing = NIL; /* of DcFailing */

static void begin(void);
static void end(void);
static bool failed_lately(Oid table);
static void note_failure(Oid table, int64 pause);
static void forget_failure(Oid table);
static void list_tables(void *arg);
static void compact_batch(void *arg);

/*
 * compact_job compacts each table; true if it has yielded.
 */
bool
compact_job(DcJobRun *run)
{
	if (state.cxt != NULL && run->afresh)
		end();
	if (OidIsValid(run->suspect))
		note_failure(run->suspect, PAUSE_MAX);
	if (state.cxt == NULL)
	{
		begin();
		state.all_owners = run->all_owners;
		if (!run->step(run, list_tables, NULL, InvalidOid))
			state.ntables = 0;
	}
	while (state.current < state.ntables)
	{
		Oid table = state.tables[state.current];

		if (!state.sweeping)
		{
			sweep_start(&state.sweep, state.cxt);
			state.started = GetCurrentTimestamp();
			state.sweeping = true;
		}
		if (run->all_owners && failed_lately(table))
			state.sweep.done = true;
		else if (!run->step(run, compact_batch, &table, table))
		{
			state.sweep.done = true; /* on with the next table */
			if (run->all_owners)
				note_failure(table, PAUSE_MIN);
		}
		if (state.sweep.done)
		{
			/* its keys would be locked in vain, and warned of, each time */
			if (run->all_owners && state.sweep.overflow)
				note_failure(table, PAUSE_MIN);
			sweep_end(&state.sweep);
			state.sweeping = false;
			state.current++;
		}
		if (job_is_late(run) && state.current < state.ntables)
			return true;
	}
	end();
	return false;
}

static void
begin(void)
{
	memset(&state, 0, sizeof(state));
	state.cxt = AllocSetContextCreate(TopMemoryContext, "dcounter compaction",
									  ALLOCSET_DEFAULT_SIZES);
}

static void
end(void)
{
	MemoryContextDelete(state.cxt);
	state.cxt = NULL;
}

/*
 * failed_lately tells whether a table is still to be left alone.
 */
static bool
failed_lately(Oid table)
{
	ListCell *lc;

	foreach(lc, failing)
	{
		DcFailing *entry = lfirst(lc);

		if (entry->table == table)
			return entry->until > GetCurrentTimestamp();
	}
	return false;
}

static void
note_failure(Oid table, int64 pause)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	DcFailing *entry = NULL;
	ListCell *lc;

	foreach(lc, failing)
	{
		if (((DcFailing *) lfirst(lc))->table == table)
			entry = lfirst(lc);
	}
	if (entry == NULL)
	{
		entry = palloc0(sizeof(DcFailing));
		entry->table = table;
		failing = lappend(failing, entry);
	}
	entry->pause = Min(Max(entry->pause * 2, pause), PAUSE_MAX);
	entry->until = GetCurrentTimestamp() + entry->pause;
	MemoryContextSwitchTo(old);
}

static void
forget_failure(Oid table)
{
	ListCell *lc;

	foreach(lc, failing)
	{
		DcFailing *entry = lfirst(lc);

		if (entry->table == table)
		{
			failing = foreach_delete_current(failing, lc);
			pfree(entry);
		}
	}
}

/*
 * list_tables is the job's first step.
 */
static void
list_tables(void *arg)
{
	List *rows = catalog_lock_at_once() ? catalog_read_all() : NIL;
	ListCell *lc;

	state.tables = MemoryContextAlloc(state.cxt,
									  Max(list_length(rows), 1) * sizeof(Oid));
	foreach(lc, rows)
		state.tables[state.ntables++] = ((DcCounterRow *) lfirst(lc))->counter;
}

/*
 * compact_batch is one step of a sweep.
 */
static void
compact_batch(void *arg)
{
	DcCounter *counter = compact_open(*(Oid *) arg, state.all_owners);

	if (counter == NULL)
	{
		state.sweep.done = true;
		return;
	}
	sweep_next(&state.sweep, counter, PG_INT64_MAX);
	if (state.sweep.done && !state.sweep.overflow)
		forget_failure(counter->relid);
	if (state.sweep.complete)
		stats_swept(counter, state.started);
}
