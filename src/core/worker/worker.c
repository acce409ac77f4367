/*
 * worker.c
 *		The worker of one database.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It is started by the launcher, or by dc_worker_start() without one, and runs
 * the jobs of jobrun.c when they are due. In between it sleeps, outside of any
 * transaction, and wakes up no earlier than the next job is due.
 *
 * A session-level advisory lock makes it the only worker of its database.
 *
 * It ends, with exit code 0, when it is told to (SIGTERM), when the setting dcounter.worker is
 * turned off, when it finds that the extension is gone or has nothing to maintain, and when its
 * turn is over (turns.c). Before it ends it flushes the amounts in memory. A worker that is started
 * for that alone does nothing else (launcher.c). SIGTERM cancels the step that is running, which is
 * rolled back, as by any error. A step that takes too long is cancelled as well: code of a
 * superuser, or of any owner (dcounter.worker_runs_owner_code), may run in it. If such code catches
 * the cancel and continues, the worker is ended a little later, and the next worker leaves the
 * table for the end. All of that has to be over 10 seconds after SIGTERM (jobrun.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/guc.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/lockclass.h"
#include "base/relcached.h"
#include "core/table/tabledue.h"
#include "core/worker/flusher.h"
#include "core/worker/slots.h"
#include "core/worker/turns.h"
#include "core/worker/worker.h"

/* A worker that remembers this many tables, and has run for this long, is replaced. */
#define ENTRIES_MAX 50000
#define ENTRIES_AGE_US (INT64CONST(300) * USECS_PER_SEC)

/* How long a worker that leaves is not disturbed. */
#define LEAVE_MS 1000

/* How long a step that was cancelled has to end, before another signal ends it. */
#define CANCEL_MS 1000

/* How long a flush-only worker skips a table whose flush terminated the previous one. */
#define SUSPECT_MS (30 * 1000)

/* The worker found no extension; for leave_slot(). */
static bool no_extension = false;

/* It found nothing to look after, or has to leave for another database; also for leave_slot(). */
static bool no_tables = false;
static DcMoment began; /* this worker */
static bool gives_way = false;

/* For on_sigterm: the step has been cancelled, and when; until when not to cancel. */
static volatile sig_atomic_t cancelled = false;
static volatile DcMoment cancelled_at = {0};
static volatile sig_atomic_t leaving = false;
static volatile DcMoment worker_leave_until = {0};

static void on_sigterm(SIGNAL_ARGS);
static bool take_slot(const DcWorkerArgs *args);
static void leave_slot(int code, Datum arg);
static void settings_init(void);
static bool take_lock(void);
static void leave_for_good(void);
static bool is_other(Oid database, void *arg);
static bool remembers_too_much(void);
static void run_jobs(void);
static void sleep_until_due(void);
static bool extension_is_here(void);

/*
 * worker_fill describes a worker to the postmaster.
 */
void
worker_fill(BackgroundWorker *worker, const DcWorkerArgs *args)
{
	memset(worker, 0, sizeof(*worker));
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION | BGWORKER_INTERRUPTIBLE;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = BGW_NEVER_RESTART;
	worker->bgw_notify_pid = MyProcPid;
	strlcpy(worker->bgw_library_name, "dcounter", sizeof(worker->bgw_library_name));
	strlcpy(worker->bgw_function_name, "dc_worker_main", sizeof(worker->bgw_function_name));
	strlcpy(worker->bgw_name, "dcounter worker", sizeof(worker->bgw_name));
	strlcpy(worker->bgw_type, "dcounter worker", sizeof(worker->bgw_type));
	StaticAssertStmt(sizeof(*args) <= BGW_EXTRALEN, "too many arguments");
	memcpy(worker->bgw_extra, args, sizeof(*args));
}

/*
 * worker_role_oid returns the role that workers are to connect as, which is InvalidOid for the
 * bootstrap superuser. Needs a transaction. Sets *missing if no role has the name in
 * dcounter.worker_role.
 */
Oid
worker_role_oid(bool *missing)
{
	Oid role = InvalidOid;

	*missing = false;
	if (dc_worker_role != NULL && dc_worker_role[0] != '\0')
	{
		role = get_role_oid(dc_worker_role, true);
		*missing = !OidIsValid(role);
	}
	return role;
}

/*
 * dc_worker_main is the worker's entry point.
 */
void
dc_worker_main(Datum arg)
{
	DcWorkerArgs args;

	began = moment_now();
	memcpy(&args, MyBgworkerEntry->bgw_extra, sizeof(args));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, on_sigterm);
	BackgroundWorkerUnblockSignals();

	if (!take_slot(&args))
		proc_exit(0);
	BackgroundWorkerInitializeConnectionByOid(args.database, args.role, 0);
	settings_init();
	if (!take_lock())
		proc_exit(0);
	if (!args.only_flushes && !extension_is_here())
		leave_for_good();
	if (args.slot && !args.only_flushes)
		no_tables = turn_is_for_nothing();
	if (!args.only_flushes && !no_tables)
	{
		flush_enter();
		turn_stay();
	}

	while (!ShutdownRequestPending && dc_worker && !args.only_flushes && !no_tables)
	{
		run_jobs();
		turn_note_pass();
		gives_way = turn_is_over() || (args.slot && remembers_too_much());
		no_tables = turn_is_for_nothing();
		if (gives_way || no_tables)
			break;
		sleep_until_due();
		QueryCancelPending = false; /* there is nothing to cancel */
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			due_all();
		}
	}
	if (gives_way)
		turn_leave();
	if (extension_is_here())
	{
		worker_leave_until = moment_in(LEAVE_MS);
		leaving = true;
		cancelled = false;
		job_leave();
	}
	else if (args.only_flushes)
		no_extension = true;
	proc_exit(0);
}

/*
 * on_sigterm asks the worker to end, and cancels its step. Another signal ends the worker at
 * once: the step has caught the cancel. But the step first gets a moment to end: several
 * processes may ask at the same time (dc_worker_stop() and the launcher do), and not all code
 * looks for a cancel soon. When the worker is leaving it has a moment, too, and from then on
 * does no further step.
 */
static void
on_sigterm(SIGNAL_ARGS)
{
	int save_errno = errno;

	if (leaving && moment_is_reached(worker_leave_until))
		job_hurries = true;
	if (job_in_step && (!leaving || job_hurries))
	{
		if (!cancelled)
			cancelled_at = moment_now();
		if (moment_age(cancelled_at) >= CANCEL_MS * INT64CONST(1000))
			ProcDiePending = true;
		else
			QueryCancelPending = true;
		cancelled = true;
		InterruptPending = true;
	}
	if (!ShutdownRequestPending)
		job_asked_at = moment_now();
	ShutdownRequestPending = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

/*
 * take_slot enters this worker in its slot, unless it should not run any more. From here on the
 * launcher leaves the slot to this worker until it exits.
 */
static bool
take_slot(const DcWorkerArgs *args)
{
	DcWorkerSlot *slot;
	bool wanted;

	if (!args->slot)
		return true;
	slot = slot_lock(args->database, LW_EXCLUSIVE);
	wanted = slot != NULL && slot->state == DC_WORKER_STARTING &&
		(!slot->stopped || args->only_flushes) && moment_is_reached(slot->paused_until);
	if (wanted)
	{
		slot->state = DC_WORKER_RUNNING;
		slot->pid = MyProcPid;
		turn_enter(slot);
		slot->running_since = moment_now();
		slot->step_began = DC_LONG_AGO;
		slot->ended_well = false;
		slot->only_flushes = args->only_flushes;
		/* a flush-only worker would skip it forever */
		if (args->only_flushes && moment_is_reached(slot->suspect_until))
			slot->suspect = InvalidOid;
		job_suspect = slot->suspect;
		if (!args->only_flushes)
			slot->suspect = InvalidOid;
	}
	slots_unlock();
	if (wanted)
		before_shmem_exit(leave_slot, ObjectIdGetDatum(args->database));
	return wanted;
}

/*
 * Take this worker out of its slot when it exits, note how it has ended, and wake the launcher.
 * Must not throw.
 */
static void
leave_slot(int code, Datum arg)
{
	DcWorkerSlot *slot;

	LWLockReleaseAll(); /* an error may have been raised under one */
	slot = slot_lock(DatumGetObjectId(arg), LW_EXCLUSIVE);
	if (slot != NULL && slot->pid == MyProcPid)
	{
		if (job_in_step)
			jobnote_end(slot, job_step_name);
		slot->pid = 0;
		slot->state = no_extension ? DC_WORKER_NO_EXTENSION : DC_WORKER_NONE;
		if (no_tables && slot->state == DC_WORKER_NONE)
			slot->state = DC_WORKER_NO_TABLES;
		turn_end(slot);
		if (!slot->only_flushes || OidIsValid(job_step_table))
			slot->suspect = job_step_table;
		if (OidIsValid(job_step_table))
			slot->suspect_until = moment_in(SUSPECT_MS);
		slot->ended_well = (ShutdownRequestPending || !dc_worker || slot->only_flushes || gives_way || no_tables) &&
			!OidIsValid(job_step_table);
		slot->only_flushes = false;
		/* the postmaster notifies only the launcher that has started us */
		if (dc_workers->launcher_latch != NULL)
			SetLatch(dc_workers->launcher_latch);
	}
	slots_unlock();
}

/*
 * settings_init overrides settings of the database or the role that would disturb the jobs.
 */
static void
settings_init(void)
{
	static const char *const settings[][2] = {
		{"application_name", "dcounter worker"},
		{"statement_timeout", "0"},
		/* no step has to wait for a lock */
		{"lock_timeout", "100ms"},
		{"idle_in_transaction_session_timeout", "0"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"session_replication_role", "origin"},
		/* see compactjob.c */
		{"synchronous_commit", "off"},
		{"transaction_timeout", "0"}}; /* since 17 */

	/* before it is turned off */
	flush_set_commit(GetConfigOption("synchronous_commit", false, false));
	for (int i = 0; i < lengthof(settings); i++)
	{
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	}
	job_timer_init();
}

/*
 * take_lock makes this the worker of its database; false if there is one.
 */
static bool
take_lock(void)
{
	LOCKTAG tag;
	bool locked;

	HOLD_CANCEL_INTERRUPTS();
	StartTransactionCommand();
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, 0, WORKER_LOCK_CLASS);
	locked = LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
	CommitTransactionCommand();
	RESUME_CANCEL_INTERRUPTS();
	return locked;
}

/*
 * extension_is_here returns true if this database has the extension, which it looks up in a
 * transaction of its own.
 */
static bool
extension_is_here(void)
{
	bool here;

	HOLD_CANCEL_INTERRUPTS(); /* only steps are cancelled */
	StartTransactionCommand();
	here = OidIsValid(get_extension_oid("dcounter", true));
	CommitTransactionCommand();
	RESUME_CANCEL_INTERRUPTS();
	return here;
}

/*
 * leave_for_good ends a worker that has found no extension.
 */
static void
leave_for_good(void)
{
	no_extension = true;
	discard_lost(is_other, NULL);
	proc_exit(0);
}

/*
 * is_other returns true for other databases than this worker's; a callback for discard_lost.
 */
static bool
is_other(Oid database, void *arg)
{
	return database != MyDatabaseId;
}

/*
 * Return true if this worker should be replaced by a new one. A process keeps what it remembers
 * of tables when these are dropped, and each invalidation goes over it (relcached.c).
 */
static bool
remembers_too_much(void)
{
	return relcached_made() > ENTRIES_MAX && moment_age(began) > ENTRIES_AGE_US;
}

/*
 * run_jobs runs the jobs that are due, each once.
 */
static void
run_jobs(void)
{
	DcMoment now = moment_now();
	bool checked = false;

	for (int i = 0; i < dc_njobs; i++)
	{
		if (moment_is_before(now, job_due(i)))
			continue;
		if (!checked && !extension_is_here())
			leave_for_good();
		checked = true;
		job_run_in_worker(i);
		if (ShutdownRequestPending || turn_is_over())
			return;
		/* a table's owner may have left advisory locks, or released ours */
		LockReleaseSession(USER_LOCKMETHOD);
		if (!take_lock())
			proc_exit(0);
	}
}

/*
 * sleep_until_due sleeps until a job is due, or a signal comes.
 */
static void
sleep_until_due(void)
{
	DcMoment due = DC_NEVER;
	long timeout;

	/* a step may have consumed the latch's event */
	if (ShutdownRequestPending || ConfigReloadPending)
		return;
	for (int i = 0; i < dc_njobs; i++)
		due = moment_min(due, job_due(i));
	timeout = moment_ms_left(due);
	if (timeout <= 0)
		return;
	pgstat_report_activity(STATE_IDLE, NULL);
	pgstat_report_stat(true);
	sleep_on_latch(timeout, "DcounterWorkerMain");
}
