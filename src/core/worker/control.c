/*
 * control.c
 *		Starting and stopping the worker of this database, and working without
 *		one.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * With a launcher these functions only tell it what to do. Without one, the worker is a dynamic
 * background worker, which sessions of this database can find only by its name.
 *
 * A worker that the launcher has started only to flush what is left (launcher.c) does not count
 * for them.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/latch.h"
#include "utils/backend_status.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/guc.h"
#include "core/counter/apply.h"
#include "core/table/access.h"
#include "core/worker/slots.h"
#include "core/worker/worker.h"

PG_FUNCTION_INFO_V1(dc_worker_start);
PG_FUNCTION_INFO_V1(dc_worker_stop);
PG_FUNCTION_INFO_V1(dc_maintain);

/* How long to wait for a worker to come or to go. */
#define WAIT_MS (20 * 1000)

/* How long to wait before telling a worker again to end (worker.c). */
#define AGAIN_MS (2 * 1000)

/* dc_maintain() is running. What its jobs remember between steps belongs to one call. */
static bool is_maintaining = false;

static void start_by_launcher(void);
static void start_dynamic(void);
static bool worker_is_there(void);
static bool worker_has_come(void);
static bool worker_found_nothing(void);
static pid_t worker_pid(void);
static void control_terminate(void);
static bool control_wait_for(bool running);

/*
 * dc_worker_start() -> boolean: starts this database's worker; false if it is running already.
 * Errors: 25006 on a standby, 55000 when the setting dcounter.worker is off, 53400 when the
 * worker has not started, as when no background worker slot is free.
 */
Datum
dc_worker_start(PG_FUNCTION_ARGS)
{
	PreventCommandDuringRecovery("dc_worker_start()");
	if (!dc_worker)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot start a dcounter worker"),
				 errdetail("The setting dcounter.worker is off.")));
	if (worker_pid() != 0)
		PG_RETURN_BOOL(false);
	if (dc_workers != NULL)
		start_by_launcher();
	else
		start_dynamic();
	PG_RETURN_BOOL(true);
}

/*
 * dc_worker_stop() -> boolean: ends this database's worker; false if none is
 * running. It stays away until dc_worker_start() or a restart of the server.
 */
Datum
dc_worker_stop(PG_FUNCTION_ARGS)
{
	bool running = worker_is_there(); /* before the launcher ends it */

	if (dc_workers != NULL)
	{
		DcWorkerSlot *slot = slot_lock(MyDatabaseId, LW_EXCLUSIVE);

		if (slot == NULL && (slot = slot_get(MyDatabaseId)) != NULL)
			slot->unseen = true;
		if (slot != NULL)
			slot->stopped = true;
		slots_unlock();
		launcher_wake();
	}
	control_terminate();
	if (!control_wait_for(false))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("the dcounter worker has not ended yet")));
	PG_RETURN_BOOL(running);
}

/*
 * dc_maintain(): a procedure that runs each job once, to its end, for the tables
 * that the caller owns. It commits after each step, unless it was called in a
 * transaction block.
 */
Datum
dc_maintain(PG_FUNCTION_ARGS)
{
	bool atomic = fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic;

	prevent_write("dc_maintain()");
	if (is_maintaining)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("dc_maintain() is already running in this session"),
				 errdetail("It was called by code that runs while one of its steps commits, such as a deferred trigger.")));
	is_maintaining = true;
	PG_TRY();
	{
		apply_early();
		SPI_connect_ext(atomic ? 0 : SPI_OPT_NONATOMIC);
		for (int i = 0; i < dc_njobs; i++)
			job_run_here(i, atomic);
		SPI_finish();
	}
	PG_FINALLY();
	{
		is_maintaining = false;
	}
	PG_END_TRY();
	PG_RETURN_VOID();
}

/*
 * start_by_launcher asks the launcher for the worker, and waits for it; and for the launcher,
 * if that is just restarting.
 */
static void
start_by_launcher(void)
{
	DcWorkerSlot *slot = slot_lock(MyDatabaseId, LW_EXCLUSIVE);
	bool allowed = true;

	if (slot != NULL)
	{
		slot->stopped = false;
		slot->asked_for = true;
		allowed = slot->state != DC_WORKER_NOT_ALLOWED;
	}
	slots_unlock();
	if (!allowed)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot start a dcounter worker in a template database")));
	launcher_recheck(MyDatabaseId);
	if (!control_wait_for(true))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("the dcounter worker has not started"),
				 errhint("See the server log for the reason, or dc_stat_worker if it is waiting for its turn. "
						 "You may need to increase max_worker_processes or dcounter.max_workers.")));
	if (worker_found_nothing())
		ereport(NOTICE,
				(errmsg("the dcounter worker has nothing to do in this database"),
				 errdetail("It starts when there is a counter table, an event or a consumer.")));
}

/*
 * start_dynamic starts a worker without the launcher.
 */
static void
start_dynamic(void)
{
	BackgroundWorker worker;
	BackgroundWorkerHandle *handle;
	DcWorkerArgs args = {0};
	bool missing;
	bool there;
	pid_t pid;

	args.database = MyDatabaseId;
	args.role = worker_role_oid(&missing);
	if (missing)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role \"%s\" of dcounter.worker_role does not exist",
						dc_worker_role),
				 errhint("Create the role, or change the setting.")));
	worker_fill(&worker, &args);
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no background worker slot is free"),
				 errhint("You may need to increase max_worker_processes.")));
	/* a worker that has ended already has found another one, started by another session */
	there = WaitForBackgroundWorkerStartup(handle, &pid) == BGWH_STARTED ? control_wait_for(true) : worker_pid() != 0;
	if (!there)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the dcounter worker has not started"),
				 errhint("See the server log for the reason.")));
}

/*
 * Return true if this database has a worker, which may be about
 * to start.
 */
static bool
worker_is_there(void)
{
	DcWorkerSlot *slot;
	bool there;

	if (dc_workers == NULL)
		return worker_pid() != 0;
	slot = slot_lock(MyDatabaseId, LW_SHARED);
	there = slot != NULL && !slot->only_flushes &&
		(slot->state == DC_WORKER_STARTING || slot->state == DC_WORKER_RUNNING);
	slots_unlock();
	return there;
}

/*
 * Return true if this database's worker is there, and will not leave again because there is
 * nothing to look after.
 */
static bool
worker_has_come(void)
{
	DcWorkerSlot *slot;
	bool there;

	if (dc_workers == NULL)
		return worker_pid() != 0;
	slot = slot_lock(MyDatabaseId, LW_SHARED);
	there = slot != NULL && !slot->only_flushes && slot->pid != 0 && slot->stays;
	slots_unlock();
	return there;
}

/*
 * Return true if a worker that was asked for has come, and left again, as
 * there is nothing to look after.
 */
static bool
worker_found_nothing(void)
{
	DcWorkerSlot *slot;
	bool nothing;

	if (dc_workers == NULL)
		return false;
	slot = slot_lock(MyDatabaseId, LW_SHARED);
	nothing = slot != NULL && !slot->asked_for && slot->state == DC_WORKER_NO_TABLES;
	slots_unlock();
	return nothing;
}

/*
 * worker_pid returns the PID of this database's worker, or 0.
 */
static pid_t
worker_pid(void)
{
	int count;

	if (dc_workers != NULL)
	{
		DcWorkerSlot *slot = slot_lock(MyDatabaseId, LW_SHARED);
		pid_t pid;

		pid = slot != NULL && !slot->only_flushes ? slot->pid : 0;
		slots_unlock();
		return pid;
	}
	pgstat_clear_backend_activity_snapshot();
	count = pgstat_fetch_stat_numbackends();
	for (int i = 1; i <= count; i++)
	{
		PgBackendStatus *status = compat_backend_status(i);

		if (status->st_backendType == B_BG_WORKER &&
			status->st_databaseid == MyDatabaseId &&
			is_worker(status->st_procpid))
			return status->st_procpid;
	}
	return 0;
}

/*
 * control_terminate asks this database's worker to end, if there is one.
 */
static void
control_terminate(void)
{
	DcWorkerSlot *slot;

	if (dc_workers == NULL)
	{
		(void) worker_terminate(worker_pid(), MyDatabaseId);
		return;
	}
	slot = slot_lock(MyDatabaseId, LW_SHARED);
	if (slot != NULL && !slot->only_flushes)
		(void) slot_terminate(slot);
	slots_unlock();
}

/*
 * control_wait_for waits until this database's worker is running, or is not.
 */
static bool
control_wait_for(bool running)
{
	DcMoment end = moment_in(WAIT_MS);
	DcMoment again = moment_in(AGAIN_MS);

	while (running ? !worker_has_come() && !worker_found_nothing() : worker_is_there())
	{
		if (moment_is_reached(end))
			return false;
		if (!running && moment_is_reached(again))
		{
			control_terminate();
			again = moment_in(AGAIN_MS);
		}
		CHECK_FOR_INTERRUPTS();
		sleep_on_latch(20, "DcounterWorkerStart");
	}
	return true;
}
