/*
 * compactjob.c
 *		Compaction as a job: all counter tables of the database, one batch per transaction.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A sweep goes over each table from its first shard row to its last, so each row that is not locked
 * by other transactions is compacted once. A table that was dropped, is locked by DDL or is broken
 * is skipped, and so is one that rests (compactrest.c).
 *
 * A sweep that has reached the end of the table and has moved nothing leaves nothing to do:
 * it has deleted the rows without amounts, except for those that a snapshot or a stock still
 * needs. The table is idle then, until a transaction writes to it. Rows that were locked, or
 * kept, are found when the pause of the idle table is over (core/table/tabledue.c).
 *
 * A batch is committed without waiting for the disk. That is safe, as a crash that
 * loses the commit loses all of it: then the amounts are where they were. And a
 * later increment of a row that the batch has set to zero cannot be on disk
 * before the batch is.
 *
 * Then keys with rows that others were just writing are swept again, if other regions wait for them
 * (compactbusy.c). After the sweep there is a step that gives back space, if that seems useful
 * (shrink.c).
 */
#include "postgres.h"

#include "base/activity.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "core/compact/compact.h"
#include "core/compact/compactbusy.h"
#include "core/compact/compactrest.h"
#include "core/compact/compactstuck.h"
#include "core/compact/keyexpiry.h"
#include "core/compact/shrink.h"
#include "core/table/tablejob.h"

/* The table at hand. */
static struct
{
	DcSweep sweep;
	DcMoment started; /* it */
	int64 moved;	  /* keys, by it */
	bool swept;		  /* swept; giving back space is next */
	int64 spent;	  /* us in its steps so far */
} work;

/*
 * Start a sweep over a table; the key that it remembers between batches lives in cxt.
 */
static void
compactjob_start(MemoryContext cxt)
{
	memset(&work, 0, sizeof(work));
	sweep_start(&work.sweep, cxt);
	work.sweep.remembers = true;
	work.started = moment_now();
}

/*
 * compactjob_step compacts the next batch of a table.
 */
static DcTableStep
compactjob_step(Oid table, bool all_owners)
{
	DcMoment began = moment_now();
	DcSweep *sweep = &work.sweep;
	bool again = sweep->complete && !work.swept; /* only keys that were busy */
	DcCounter *counter;

	/* only the worker comes back by itself */
	if (all_owners && work.spent == 0 && compact_rests(table))
		return TABLE_DONE;
	if (again)
		busy_wait(sweep);
	counter = compact_open(table, all_owners);
	if (counter == NULL)
		return TABLE_DONE;
	if (work.swept)
	{
		shrink_shards(counter);
		return TABLE_DONE;
	}
	sweep->notes_busy = all_owners && counter_is_replicated(counter);
	work.moved += again ? busy_sweep(sweep, counter) : sweep_next(sweep, counter, PG_INT64_MAX);
	work.spent += Max(moment_age(began), 1);
	if (all_owners)
		activity_forget();
	if (sweep->complete && !again)
	{
		int64 stuck = stuck_swept(table, work.started);

		if (all_owners && sweep->keeps)
			compact_rest(table, work.spent);
		if (stats_hooks != NULL)
			stats_hooks->swept(counter, work.started, stuck);
	}
	if (!sweep->done || sweep->busy != NIL)
		return TABLE_GOES_ON;
	work.swept = all_owners && shrink_is_due(counter);
	if (work.swept)
		return TABLE_GOES_ON;
	return sweep->complete && work.moved == 0 ? TABLE_IDLE : TABLE_DONE;
}

/*
 * compactjob_step_fed is called for a table that a subscription feeds. In dc_maintain() it tells
 * the user that the table is left alone.
 */
static DcTableStep
compactjob_step_fed(Oid table, bool all_owners)
{
	if (!all_owners && compat_owns_relation(table, GetUserId()))
		compact_note_fed(table);
	return TABLE_IDLE;
}

/*
 * compact_job compacts each table; true if it has yielded.
 */
static bool
compact_job(DcJobRun *run)
{
	static DcTableJob job = {.start = compactjob_start, .state = &work, .state_size = sizeof(work), .step = compactjob_step, .step_fed = compactjob_step_fed};

	return table_job_run(&job, run);
}

/*
 * compact_init registers the job "compaction"; called once.
 */
void
compact_init(bool preloading)
{
	job_register((DcJob){.name = "compaction", .interval = &dc_compact_interval, .run = compact_job, .is_needed = catalog_has_rows});
	keyexpiry_init(preloading);
}
