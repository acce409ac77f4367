/*
 * sourcestep.c
 *		A statement that reads a source (sourcesql.c) calls back for each row: rows are counted, the time is limited, and a
 *		worker takes only a part of a processor's.
 *
 * A scan reads one snapshot, so it is one step of the worker: it cannot be cut in pieces with pauses in between, as
 * other work is (worker/jobs.c). Instead it sleeps while it runs, every few milliseconds, for so long
 * that it works dcounter.worker_load percent of the time. It stops doing so, and goes on at full speed,
 *
 *	- when it has slept for SLEEP_MAX_US in all: all other work of the worker waits for the step, and vacuum
 *	  waits for the snapshot;
 *	- as soon as the urgent job is due, which has to wait for the end of the step;
 *	- as soon as a lock on the source, a partition of it or the counter table is asked for that does not go
 *	  the fast path: one that has to wait for us, and that writers then wait for. (Which lock it is makes no
 *	  difference here: to sleep less is never wrong.)
 */
#include "postgres.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/job.h"
#include "base/key.h"
#include "bound/sourcesql.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lock.h"

PG_FUNCTION_INFO_V1(source_step);

/* Rows after which the clock is looked at. */
#define LOOK_EVERY 1024

/* How long it works before it sleeps, how long it sleeps before it looks again, and in all. */
#define WORK_US 10000
#define LOOK_US 20000
#define SLEEP_MAX_US (1 * 1000 * 1000)

/* That of the statement that is running, or NULL. */
static DcSourceStep *current = NULL;

static bool next_row(bool of_source);
static bool is_late(void);
static void pause_scan(void);
static bool is_hurried(void);
static bool is_asked_for(Oid relid);
static void sleep_for(int64 us);

/*
 * Set the step that statements belong to from here on, and return the one of before.
 */
DcSourceStep *
source_step_set(DcSourceStep *step)
{
	DcSourceStep *before = current;

	current = step;
	return before;
}

/*
 * source_step(what integer) -> boolean
 *
 * 0: called for each row of the source that is read. -2: of another table. -1: before a key is read. Above 0: the length of a key in bytes, plus 1. Return false
 * to leave it out: it is late. Errors: 54000 for a key that is too long; 57014 if it is late and nothing may be left out.
 */
Datum
source_step(PG_FUNCTION_ARGS)
{
	int32 what = PG_GETARG_INT32(0);

	if (what > DC_MAX_KEY_BYTES + 1)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("counter key is too long"),
				 errdetail("The key has %d bytes; the limit is %d.", what - 1, DC_MAX_KEY_BYTES)));
	if (what > 0 || current == NULL)
		PG_RETURN_BOOL(true);
	if (what != -1)
		PG_RETURN_BOOL(next_row(what == 0));
	PG_RETURN_BOOL(!is_late() && (current->max_rows == 0 || current->rows < current->max_rows));
}

static bool
next_row(bool of_source)
{
	current->rows += of_source;
	if (++current->looked % LOOK_EVERY == 0)
	{
		if (current->paced)
			pause_scan();
		current->cut |= is_late();
	}
	return !current->cut;
}

static bool
is_late(void)
{
	if (current->late.us == DC_LONG_AGO.us || !moment_is_reached(moment_after(current->late, current->slept)))
		return false;
	current->was_late = true;
	if (!current->stops)
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("reading \"%s\" takes too long", get_rel_name(current->read->row.source))));
	return true;
}

static void
pause_scan(void)
{
	int64 worked = current->since.us == DC_LONG_AGO.us ? 0 : moment_age(current->since);
	int64 sleep;

	if (worked < WORK_US && current->since.us != DC_LONG_AGO.us)
		return;
	sleep = Min(worked * (100 - dc_worker_load) / dc_worker_load, SLEEP_MAX_US - current->slept);
	while (sleep > 0 && !is_hurried())
	{
		DcMoment start = moment_now();
		int64 slept;

		CHECK_FOR_INTERRUPTS();
		sleep_for(Min(sleep, LOOK_US));
		slept = moment_age(start);
		sleep -= slept;
		current->slept += slept;
	}
	current->since = moment_now();
}

static bool
is_hurried(void)
{
	ListCell *lc;

	/* the urgent job is the first */
	if (dc_njobs > 0 && dc_jobs[0].due != NULL && moment_is_reached(dc_jobs[0].due()))
		return true;
	foreach(lc, current->read->members)
	{
		if (is_asked_for(lfirst_oid(lc)))
			return true;
	}
	return is_asked_for(current->read->counter_id);
}

/*
 * is_asked_for tells whether the main table of locks has one on a relation. Ours, like those of writers, are
 * not there, unless another has been asked for.
 */
static bool
is_asked_for(Oid relid)
{
	LOCKTAG tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	return LockWaiterCount(&tag) > 0;
}

static void
sleep_for(int64 us)
{
	static uint32 wait_event = 0;

	if (wait_event == 0)
		wait_event = compat_wait_event("DcounterScanPace");
	pgstat_report_wait_start(wait_event);
	pg_usleep((long) us);
	pgstat_report_wait_end();
}
