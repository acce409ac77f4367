/*
 * compactjob.c
 *		Compaction as a job: all counter tables of the database, a batch a
 *		transaction.
 *
 * A sweep goes over each table from its first shard row to its last, so each row
 * that is not locked by others is compacted once. A table that is gone, locked by
 * DDL or broken is passed over, and so is one that rests (compactrest.c).
 *
 * A sweep that has come to the end of the table and has moved nothing leaves nothing to do: rows
 * that hold nothing are gone with it, or stay for as long as a snapshot or a stock needs them.
 * The table is idle then, until somebody writes to it. Rows that were locked, or kept, are
 * found when the pause of the idle table is over (table/tabledue.c).
 *
 * A batch is committed without waiting for the disk. That is safe, as a crash that
 * loses the commit loses all of it: then the amounts are where they were. And a
 * later increment of a row that the batch has set to zero cannot be on disk
 * before the batch is.
 *
 * Then keys with rows that others were just writing are swept again, if other regions wait for
 * them (compactbusy.c). After the sweep there is a step to give back space, if that seems to be of use (shrink.c).
 */
#include "postgres.h"

#include "base/activity.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "compact/compact.h"
#include "compact/compactbusy.h"
#include "compact/compactrest.h"
#include "compact/compactstuck.h"
#include "compact/shrink.h"
#include "table/tablejob.h"

static DcSweep sweep;
static DcMoment started; /* sweep */
static int64 moved;		 /* keys, by it */
static bool swept;		 /* the space is next */
static int64 spent;		 /* us in its steps so far */

static void
start(MemoryContext cxt)
{
	sweep_start(&sweep, cxt);
	sweep.remembers = true;
	swept = false;
	started = moment_now();
	moved = 0;
	spent = 0;
}

/*
 * step compacts the next batch of a table.
 */
static DcTableStep
step(Oid table, bool all_owners)
{
	DcMoment began = moment_now();
	bool again = sweep.complete && !swept; /* only keys that were busy */
	DcCounter *counter;

	/* only the worker comes back by itself */
	if (all_owners && spent == 0 && compact_rests(table))
		return TABLE_DONE;
	if (again)
		busy_wait(&sweep);
	counter = compact_open(table, all_owners);
	if (counter == NULL)
		return TABLE_DONE;
	if (swept)
	{
		shrink_shards(counter);
		return TABLE_DONE;
	}
	sweep.notes_busy = all_owners && counter_is_replicated(counter);
	moved += again ? busy_sweep(&sweep, counter) : sweep_next(&sweep, counter, PG_INT64_MAX);
	spent += Max(moment_age(began), 1);
	if (all_owners)
		activity_forget();
	if (sweep.complete && !again)
	{
		int64 stuck = stuck_swept(table, started);

		if (all_owners && sweep.keeps)
			compact_rest(table, spent);
		if (stats_hooks != NULL)
			stats_hooks->swept(counter, started, stuck);
	}
	if (!sweep.done || sweep.busy != NIL)
		return TABLE_GOES_ON;
	swept = all_owners && shrink_is_due(counter);
	if (swept)
		return TABLE_GOES_ON;
	return sweep.complete && moved == 0 ? TABLE_IDLE : TABLE_DONE;
}

/*
 * step_fed is called for a table that a subscription feeds. In dc_maintain() it tells the
 * user that the table is left alone.
 */
static DcTableStep
step_fed(Oid table, bool all_owners)
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
	static DcTableJob job = {.start = start, .step = step, .step_fed = step_fed};

	return table_job_run(&job, run);
}

/*
 * compact_init is called once.
 */
void
compact_init(void)
{
	job_register((DcJob){.name = "compaction", .interval = &dc_compact_interval, .run = compact_job, .is_needed = catalog_has_rows});
}
