/*
 * jobrun.c
 *		Running the jobs.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A worker runs each job at its interval, counted from start to start, by the monotonic clock:
 * no job waits, or comes early, because the wall clock is set. A run that has used up its time
 * yields, or ends and reports that there is more; the other jobs that are due come first, and then
 * it continues. A run that works for a long time is slowed down: it rests after a step, in
 * proportion to the step's time, and yields for the rest, so that the other jobs continue. A run
 * that has ended is followed by a pause as long as itself, or as its interval, unless there is
 * more.
 *
 * The first job, the flush, is an urgent one: it decides itself when it is due, is not slowed
 * down, and also runs between two steps of the others. It has less time, and while other jobs
 * have something to do a long run of it is followed by a pause of several times its length, so
 * that tables that always need a flush do not keep the others from their steps.
 *
 * A step that fails is logged and counted, and the job continues with the next. Its time counts
 * like that of others.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/xactrooms.h"
#include "core/table/catalog.h"
#include "core/table/ownercode.h"
#include "core/worker/flusher.h"
#include "core/worker/slots.h"
#include "core/worker/worker.h"

/* How long a job may run before it yields. */
#define JOB_BUDGET_MS 1000
#define URGENT_BUDGET_MS 50

/* Its place in the table: its room registers it first. */
#define URGENT_JOB 0

/*
 * How long a step may take, and then until the worker is ended.
 *
 * A time-out ticks while a step is running, and each tick checks how long the step has taken,
 * by the monotonic clock. PostgreSQL's timeouts use the wall clock: if that is set back in the
 * meantime, the next tick comes later by that much; later steps are not concerned. So the launcher
 * looks as well, and ends a worker whose step takes longer than both (job_step_hangs).
 */
#define STEP_TICK_MS 500
#define STEP_LIMIT_MS (30 * 1000)
#define STEP_GRACE_MS (5 * 1000)
#define STEP_HANGS_MS (STEP_LIMIT_MS + 2 * STEP_GRACE_MS)

/*
 * How long a worker that was asked to end may take for everything that it still does: a step
 * that goes on nevertheless ends it after the grace. The last flushes end one grace period
 * earlier, so that those that ignore a cancel are over by then, too. Amounts that are not
 * flushed by then are left to bufferfile.c.
 */
#define LEAVE_LIMIT_MS (10 * 1000)
#define LEAVE_GRACE_MS 1000

/* A signal to end must cancel a step. */
volatile sig_atomic_t job_in_step = false;

/* When that signal came first, if it did (ShutdownRequestPending). */
volatile DcMoment job_asked_at = {0};

/* The worker has been asked to end, and runs a job for the last time. */
static bool job_leaving = false;

/* It has been asked again: it does nothing more. */
volatile sig_atomic_t job_hurries = false;

/* The table of the step that is running, or InvalidOid. */
Oid job_step_table = InvalidOid;

/* The table that the worker before this has ended on; each job is told once. */
Oid job_suspect = InvalidOid;

/* The job that is running, an index of last_run. */
#define NO_JOB DC_MAX_JOBS
static int running = NO_JOB;

/* How long (us) the current step may take, if the worker is not leaving. */
static int64 step_limit = STEP_LIMIT_MS * INT64CONST(1000);

static TimeoutId step_timeout;
static volatile sig_atomic_t step_cancelled = false;
static volatile sig_atomic_t step_commits = false;
static DcMoment step_worked; /* when its commit began */

/* The start of the running step, and the time by which the last ones must be over. */
static volatile DcMoment step_began = {0};
static volatile DcMoment leave_until = {0};

/* The job whose step is running, by its name. */
const char *job_step_name = NULL;

/* How long a run may work before it is slowed down, and its shortest and its longest rest. */
#define PACE_AFTER_US (50 * 1000)
#define PACE_MIN_US (10 * 1000)
#define PACE_MAX_US (1000 * 1000)

/*
 * A run of the urgent job that takes longer is followed by a pause of this many times its
 * length, up to a limit.
 */
#define URGENT_SHORT_US (10 * 1000)
#define URGENT_PAUSE 4
#define URGENT_PAUSE_MAX_US (2 * 1000 * 1000)

/*
 * How often to check if DROP EXTENSION has reached the catalog, the pause in between, and how long
 * to take a "no" for an answer.
 */
#define LEAVING_TRIES 10
#define LEAVING_PAUSE_US (10 * 1000)
#define LEAVING_KNOWN_US (5 * 1000 * 1000)

/* The last run of each of this worker's jobs. */
static struct
{
	bool yielded;
	bool more;		/* it is over, but the next one need not wait */
	bool told;		/* of job_suspect */
	int64 busy;		/* us at work, in all its parts, and in those of runs before it that had more to do */
	int64 left;		/* tables left to their owners, in all its parts */
	DcMoment began; /* of all its parts, if it has yielded */
	DcMoment ended;
	int64 took;		/* us, its last part */
	DcMoment rests; /* until then */
} last_run[DC_MAX_JOBS + 1];

static void jobrun_look_step(void *arg);
static void on_step_tick(void);
static int64 step_time(void);
static bool step_in_worker(DcJobRun *run, DcJobStep step, void *arg, Oid table);
static void step_has_written(void);
static void note_rest(DcJobRun *run, DcMoment began);
static bool is_resting(void);
static void jobrun_pace(void);
static DcMoment urgent_due(bool others_wait);
static bool others_are_due(void);
static void run_urgent(bool others_wait);
static void log_run(int job);
static bool extension_is_leaving(void);

/*
 * job_due returns when a job is to be run next in this worker, with the interval
 * as it is set now.
 */
DcMoment
job_due(int job)
{
	int64 interval;
	DcMoment began = last_run[job].began;
	DcMoment ended = last_run[job].ended;

	if (job == URGENT_JOB)
		return urgent_due(others_are_due());
	if (last_run[job].yielded || last_run[job].more)
		return moment_max(ended, last_run[job].rests);
	if (dc_jobs[job].due != NULL)
		return dc_jobs[job].due();
	interval = *dc_jobs[job].interval * INT64CONST(1000);
	return moment_max(moment_after(began, interval),
					  moment_after(ended, Min(moment_diff(began, ended), interval)));
}

/*
 * urgent_due returns when the urgent job is due. A long run of it yields to other jobs that wait.
 */
static DcMoment
urgent_due(bool others_wait)
{
	DcMoment due = dc_jobs[URGENT_JOB].due();
	DcMoment ended = last_run[URGENT_JOB].ended;
	int64 took = last_run[URGENT_JOB].took;

	if (last_run[URGENT_JOB].yielded || last_run[URGENT_JOB].more)
		due = ended;
	if (others_wait && took > URGENT_SHORT_US && !job_leaving)
		due = moment_max(due, moment_after(ended, Min(URGENT_PAUSE * took, URGENT_PAUSE_MAX_US)));
	return due;
}

/*
 * others_are_due returns true if a job is due that is not the urgent one.
 */
static bool
others_are_due(void)
{
	for (int i = URGENT_JOB + 1; i < dc_njobs; i++)
	{
		if (moment_is_reached(job_due(i)))
			return true;
	}
	return false;
}

/*
 * Return true if this worker has run each job to its end. The urgent one
 * may never be due.
 */
bool
job_all_have_run(void)
{
	for (int i = URGENT_JOB + 1; i < dc_njobs; i++)
	{
		if (last_run[i].yielded || last_run[i].more || last_run[i].ended.us == DC_LONG_AGO.us)
			return false;
	}
	return true;
}

/*
 * Return true if this database has something that a job looks after, or may have: if the look
 * fails, that counts as something.
 */
bool
job_any_is_needed(void)
{
	DcJobRun run = {.step = step_in_worker, .job = "look", .all_owners = true};
	bool needed = false;

	running = NO_JOB;
	last_run[running].busy = 0;
	return !run.step(&run, jobrun_look_step, &needed, InvalidOid) || needed;
}

/*
 * Set *arg if a job says that it is needed. The step for job_any_is_needed().
 */
static void
jobrun_look_step(void *arg)
{
	bool *needed = arg;

	for (int i = 0; i < dc_njobs && !*needed; i++)
		*needed = dc_jobs[i].is_needed != NULL && dc_jobs[i].is_needed();
}

/*
 * job_timer_init prepares the limit of a step's time; called once by a worker.
 */
void
job_timer_init(void)
{
	step_timeout = RegisterTimeout(USER_TIMEOUT, on_step_tick);
	dc_xact_written = step_has_written;
}

/*
 * step_has_written notes that a step has written everything: only the commit record, and the
 * wait for a standby, are left.
 */
static void
step_has_written(void)
{
	step_worked = moment_now();
	step_commits = job_in_step;
}

/*
 * job_step_hangs returns true, for the launcher, if the worker should have ended a step that
 * began at this moment; DC_LONG_AGO: none is running.
 */
bool
job_step_hangs(DcMoment began)
{
	return began.us != DC_LONG_AGO.us &&
		moment_age(began) > STEP_HANGS_MS * INT64CONST(1000);
}

/*
 * on_step_tick cancels a step that takes too long, and ends the worker if that did not help, or
 * if it was asked to end and the step continues.
 */
static void
on_step_tick(void)
{
	int64 limit = step_time();
	int64 grace = (job_leaving ? LEAVE_GRACE_MS : STEP_GRACE_MS) * INT64CONST(1000);
	int64 age = moment_age(step_began);

	if (age >= limit + grace ||
		(ShutdownRequestPending && !job_leaving && moment_age(job_asked_at) >= grace))
		ProcDiePending = true;
	else if (age >= limit && !step_cancelled)
	{
		QueryCancelPending = true;
		step_cancelled = true;
	}
	else
		return;
	InterruptPending = true;
	SetLatch(MyLatch);
}

/*
 * step_time returns how long the step that is running may take, in us.
 */
static int64
step_time(void)
{
	/* cancelling a commit ends its wait for a synchronous standby, and raises no error */
	if (!job_leaving)
		return step_commits ? Max(step_limit, STEP_LIMIT_MS * INT64CONST(1000)) : step_limit;
	return moment_diff(step_began, leave_until) - LEAVE_GRACE_MS * INT64CONST(1000);
}

/*
 * job_run_in_worker runs a job until it is done or has to yield.
 */
void
job_run_in_worker(int job)
{
	TimestampTz at = GetCurrentTimestamp(); /* to be shown */
	DcMoment start = moment_now();
	DcJobRun run = {0};
	int64 before;

	run.step = step_in_worker;
	run.job = dc_jobs[job].name;
	run.all_owners = true;
	if (!last_run[job].told)
		run.suspect = job_suspect;
	last_run[job].told = true;
	run.deadline = moment_after(start, (job == URGENT_JOB ? URGENT_BUDGET_MS : JOB_BUDGET_MS) * INT64CONST(1000));
	if (!last_run[job].yielded)
	{
		last_run[job].began = start;
		last_run[job].left = 0;
		if (!last_run[job].more)
			last_run[job].busy = 0; /* else it is still slowed down */
	}
	last_run[job].rests = DC_LONG_AGO;
	running = job;
	before = last_run[job].busy;
	last_run[job].yielded = dc_jobs[job].run(&run);
	last_run[job].more = run.more;
	last_run[job].ended = moment_now();
	last_run[job].took = moment_diff(start, last_run[job].ended);
	last_run[job].left += run.left;
	jobnote_run(job, at, last_run[job].took, last_run[job].busy - before,
				last_run[job].yielded ? -1 : last_run[job].left);
	log_run(job);
}

/*
 * job_leave does the last work of a worker that leaves. All of it has one deadline,
 * counted from when the worker was asked to end.
 */
void
job_leave(void)
{
	leave_until = moment_after(ShutdownRequestPending ? job_asked_at : moment_now(),
							   LEAVE_LIMIT_MS * INT64CONST(1000));
	job_leaving = true;
	flush_leave(moment_after(leave_until, -LEAVE_GRACE_MS * INT64CONST(1000)));
	if (moment_is_reached(job_due(URGENT_JOB)))
		job_run_in_worker(URGENT_JOB);
}

/*
 * log_run logs a run that has ended, if it took long enough.
 */
static void
log_run(int job)
{
	int64 us = moment_diff(last_run[job].began, last_run[job].ended);

	if (last_run[job].yielded || dc_log_min_duration < 0 ||
		us < dc_log_min_duration * INT64CONST(1000))
		return;
	ereport(LOG,
			(errmsg("dcounter job \"%s\" took %.3f ms", dc_jobs[job].name, us / 1000.0)));
}

/*
 * step_in_worker runs a step in a transaction of its own. It may be interrupted
 * by an error, by a cancel or by the request to end (worker.c).
 */
static bool
step_in_worker(DcJobRun *run, DcJobStep step, void *arg, Oid table)
{
	MemoryContext caller = CurrentMemoryContext;
	ErrorData *volatile error = NULL;
	bool failed;
	DcMoment began;

	QueryCancelPending = false; /* meant for the step before */
	run->took = 0;
	if (running != URGENT_JOB)
		jobrun_pace();
	if ((ShutdownRequestPending && !job_leaving) || job_hurries)
		return false;
	began = moment_now();
	step_began = began;
	step_limit = (run->limit > 0 ? Min(run->limit, STEP_LIMIT_MS) : STEP_LIMIT_MS) * INT64CONST(1000);
	if (step_time() <= 0)
		return false;
	step_cancelled = false;
	step_commits = false;
	job_step_name = run->job;
	job_step_table = table;
	job_in_step = true;
	jobnote_step(began);
	enable_timeout_every(step_timeout,
						 TimestampTzPlusMilliseconds(GetCurrentTimestamp(), STEP_TICK_MS),
						 STEP_TICK_MS);
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		job_name_subject(run, table);
		pgstat_report_activity(STATE_RUNNING, job_subject);
		step(arg);
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	(void) ownercode_guard(false);
	disable_timeout(step_timeout, false);
	job_in_step = false;
	job_step_table = InvalidOid;
	jobnote_step(DC_LONG_AGO);
	/*
	 * neither being told to end nor DROP EXTENSION is a failure; to find that out is part of the
	 * step's time
	 */
	failed = error != NULL && (!ShutdownRequestPending || job_leaving) && !job_hurries && !extension_is_leaving();
	note_rest(run, began);
	if (error == NULL) /* the table's owner has not made a standby slow */
		run->took = moment_diff(began, step_worked);
	MemoryContextSwitchTo(caller);
	if (error == NULL)
		return true;
	if (step_cancelled && OidIsValid(table) && error->hint == NULL)
		error->hint = pstrdup(_("It took too long. The owner of the table can call dc_maintain(), where a step has no limit."));
	if (failed)
	{
		job_report_failure(run, LOG, error);
		jobnote_error(run->job, error->message);
	}
	FreeErrorData(error);
	return false;
}

/*
 * note_rest counts the time of a step. If the run has worked for a long time, it has to rest so
 * long that the steps took no more than their share of the time, and to yield for that.
 */
static void
note_rest(DcJobRun *run, DcMoment began)
{
	DcMoment now = moment_now();
	DcMoment *rests = &last_run[running].rests;

	run->took = moment_diff(began, now);
	last_run[running].busy += run->took;
	if (running == URGENT_JOB || last_run[running].busy < PACE_AFTER_US || dc_worker_load == 100)
		return;
	*rests = moment_after(moment_max(*rests, began), run->took * 100 / dc_worker_load);
	*rests = moment_min(*rests, moment_after(now, PACE_MAX_US));
	if (is_resting())
		run->deadline = DC_LONG_AGO;
}

/*
 * is_resting returns true if the job that is running has to rest. A rest that is too short for a
 * sleep is added to the next one.
 */
static bool
is_resting(void)
{
	return moment_diff(moment_now(), last_run[running].rests) >= PACE_MIN_US;
}

/*
 * jobrun_pace sleeps before a step of a run that has to rest, and has not yielded. Nothing is
 * locked in the meantime.
 */
static void
jobrun_pace(void)
{
	run_urgent(true);
	if (!is_resting())
		return;
	while (!ShutdownRequestPending && !moment_is_reached(last_run[running].rests))
	{
		pgstat_report_activity(STATE_IDLE, NULL);
		/* the process that has woken it has left a flag, too */
		sleep_on_latch(moment_ms_left(moment_min(last_run[running].rests, urgent_due(false))), "DcounterWorkerPace");
		run_urgent(false);
	}
}

/*
 * run_urgent runs the urgent job, if it is due, between two steps of another one.
 */
static void
run_urgent(bool others_wait)
{
	int outer = running;

	if (ShutdownRequestPending || !moment_is_reached(urgent_due(others_wait)))
		return;
	job_run_in_worker(URGENT_JOB);
	running = outer;
}

/*
 * Return true if the extension is gone, or is about to be dropped: the extension and its catalog
 * are locked, so a step that cannot lock them in the meantime has not failed. DROP EXTENSION locks
 * the former some moments before the latter. Any role can lock the extension alone (ALTER FUNCTION
 * ... DEPENDS ON EXTENSION). So after waiting without success, this does not wait again for some
 * seconds.
 */
static bool
extension_is_leaving(void)
{
	static DcMoment known_until = {0};
	int most = moment_is_reached(known_until) ? LEAVING_TRIES : 1;
	bool locked = true;
	bool leaving = false;

	HOLD_CANCEL_INTERRUPTS();
	for (int tries = 0; locked && !leaving && tries < most; tries++)
	{
		Oid extension;

		if (tries > 0)
			pg_usleep(LEAVING_PAUSE_US);
		StartTransactionCommand();
		extension = get_extension_oid("dcounter", true);
		leaving = !OidIsValid(extension);
		locked = !leaving && !ConditionalLockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock);
		if (locked)
			leaving = catalog_is_leaving();
		CommitTransactionCommand();
	}
	RESUME_CANCEL_INTERRUPTS();
	if (locked && !leaving && most > 1)
		known_until = moment_after(moment_now(), LEAVING_KNOWN_US);
	return leaving;
}
