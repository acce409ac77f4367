/*
 * launcher.c
 *		The launcher: starts workers in the databases that have dcounter.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It is connected to no database, so it cannot see where the extension is: it starts a worker
 * in each database that allows connections and is not a template, and a worker that finds no
 * extension exits at once, and the launcher starts no other one there until the extension is
 * created (workerhooks.c). A worker that finds the extension but nothing to do also exits, until
 * there is something to do. turns.c decides how many run at a time, and which comes next.
 *
 * The launcher sleeps until something happens: a worker ends (the postmaster
 * signals that) or has done its round, a session changes databases, creates the extension
 * (workerhooks.c) or changes something in a database that has no worker (activity.c),
 * the configuration is reloaded, it is time for a turn, or it is time to retry a failed
 * start. Once a minute it reads pg_database in any case.
 *
 * A worker that ends without having been told to is started again after a while, which doubles
 * with each failure. So is one that the postmaster has no room for. A worker whose step should
 * have timed out, and has not, is ended (jobrun.c says why).
 *
 * If a worker is not wanted (dcounter.worker is off, or dc_worker_stop() was called)
 * but increments of its database are in memory, or about to be, one is started that writes them to
 * rows and exits at once: the last one may have had to leave before it could write all of it, or
 * may have been ended by force. That is tried again, less and less often, until nothing is left;
 * from then on nothing can come (area.c).
 *
 * The launcher is the only process that starts workers for slots (slots.c has the
 * protocol). It starts when recovery has ended, so there is none on a standby.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/job.h"
#include "core/worker/flusher.h"
#include "core/worker/slots.h"
#include "core/worker/turns.h"
#include "core/worker/worker.h"

/* How often to look at pg_database without being asked to. */
#define NAPTIME_MS (60 * 1000)

/* The pause after the first failure, and the longest one. */
#define RETRY_MS 1000
#define RETRY_MAX_MS (60 * 1000)

/* A worker that has run for this long does not count as a failed start. */
#define SETTLED_MS (60 * 1000)

/* A database. */
typedef struct DcDatabase
{
	Oid oid;
	bool allowed;
} DcDatabase;

/* Of the workers that this launcher has started, by slot. */
static BackgroundWorkerHandle *handles[DC_MAX_DATABASES];

/* Which slots' workers the postmaster had no room for. */
static bool no_room[DC_MAX_DATABASES];

/* A lack of room has been logged, and there has been no room since. */
static bool no_slot_logged = false;
static bool no_process_logged = false;
static bool no_role_logged = false;
static bool few_logged = false;

/* There is no role that workers could connect as. */
static bool no_role = false;

static void launcher_detach(int code, Datum arg);
static List *list_databases(Oid *role);
static void sync_slots(List *databases);
static void reap_workers(void);
static void note_end(DcWorkerSlot *slot);
static void note_room(void);
static long manage_workers(Oid role);
static int count_workers(void);
static void log_room(const DcTurns *turns);
static void start_worker(int i, Oid role);
static void stop_worker(int i);
static void end_hanging(const DcWorkerSlot *slot);

/*
 * launcher_register asks the postmaster for the launcher; called at preload.
 */
void
launcher_register(void)
{
	BackgroundWorker worker = {0};

	job_has_worker = database_has_worker;
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 10;
	strlcpy(worker.bgw_library_name, "dcounter", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "dc_launcher_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "dcounter launcher", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "dcounter launcher", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

/*
 * dc_launcher_main is the launcher's entry point.
 */
void
dc_launcher_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	SetConfigOption("application_name", "dcounter launcher", PGC_SUSET,
					PGC_S_OVERRIDE);

	slots_lock(LW_EXCLUSIVE);
	dc_workers->launcher_pid = MyProcPid;
	dc_workers->launcher_latch = MyLatch;
	for (int i = 0; i < DC_MAX_DATABASES; i++)
	{
		/* requested by an earlier launcher; it will not run in this state */
		if (dc_workers->slots[i].state == DC_WORKER_STARTING)
		{
			dc_workers->slots[i].state = DC_WORKER_NONE;
			dc_workers->slots[i].only_flushes = false;
		}
	}
	slots_unlock();
	before_shmem_exit(launcher_detach, (Datum) 0);

	while (!ShutdownRequestPending)
	{
		Oid role;
		List *databases = list_databases(&role);
		long timeout;

		reap_workers();
		sync_slots(databases);
		timeout = manage_workers(role);
		list_free_deep(databases);

		pgstat_report_activity(STATE_IDLE, NULL);
		sleep_on_latch(timeout, "DcounterLauncherMain");
		QueryCancelPending = false; /* there is nothing to cancel */
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
	/* not 0: if only the launcher is ended, the postmaster starts another */
	proc_exit(1);
}

/*
 * Remove the launcher from shared memory when it exits. Must not throw.
 */
static void
launcher_detach(int code, Datum arg)
{
	LWLockReleaseAll(); /* an error may have been raised under one */
	slots_lock(LW_EXCLUSIVE);
	dc_workers->launcher_pid = 0;
	dc_workers->launcher_latch = NULL;
	slots_unlock();
}

/*
 * list_databases returns a list of the rows of pg_database (DcDatabase *), and finds the
 * role that workers connect as.
 */
static List *
list_databases(Oid *role)
{
	MemoryContext caller = CurrentMemoryContext;
	List *databases = NIL;
	Relation rel;
	TableScanDesc scan;
	HeapTuple tuple;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext old = MemoryContextSwitchTo(caller);
		DcDatabase *database = palloc(sizeof(DcDatabase));

		database->oid = form->oid;
		/* a limit of -2 marks a database that an interrupted DROP DATABASE has left */
		database->allowed = form->datallowconn && !form->datistemplate &&
			form->datconnlimit != -2;
		databases = lappend(databases, database);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	*role = worker_role_oid(&no_role);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
	if (no_role && !no_role_logged)
		ereport(LOG,
				(errmsg("role \"%s\" of dcounter.worker_role does not exist",
						dc_worker_role),
				 errdetail("No dcounter worker is started.")));
	no_role_logged = no_role;
	return databases;
}

/*
 * Return true if a database exists, by a list of all.
 */
static bool
launcher_is_listed(Oid database, void *arg)
{
	ListCell *lc;

	foreach(lc, (List *) arg)
	{
		if (((DcDatabase *) lfirst(lc))->oid == database)
			return true;
	}
	return false;
}

/*
 * sync_slots gives a slot to each database that has none, and takes away those
 * of databases that are gone.
 */
static void
sync_slots(List *databases)
{
	ListCell *lc;
	bool full = false;

	slots_lock(LW_EXCLUSIVE);
	for (int s = 0; s < DC_MAX_DATABASES; s++)
	{
		DcWorkerSlot *slot = &dc_workers->slots[s];

		if (OidIsValid(slot->database) && slot->pid == 0 &&
			handles[s] == NULL && !launcher_is_listed(slot->database, databases) && !slot->unseen)
			memset(slot, 0, sizeof(*slot));
		slot->unseen = false; /* the next list has the database, if it exists */
	}
	foreach(lc, databases)
	{
		const DcDatabase *database = lfirst(lc);
		DcWorkerSlot *slot = database->allowed ? slot_get(database->oid) : slot_find(database->oid);

		full |= (slot == NULL && database->allowed);
		if (slot == NULL)
			continue;
		if (!database->allowed && slot->state == DC_WORKER_NONE)
			slot->state = DC_WORKER_NOT_ALLOWED;
		else if (database->allowed && slot->state == DC_WORKER_NOT_ALLOWED)
			slot->state = DC_WORKER_NONE;
		slot->allowed = database->allowed;
	}
	slots_unlock();
	if (full && !no_slot_logged)
		ereport(LOG,
				(errmsg("dcounter has no worker for some databases: there are more than %d",
						DC_MAX_DATABASES)));
	no_slot_logged = full;
	discard_lost(launcher_is_listed, databases);
}

/*
 * reap_workers finds the workers that have ended, and decides when to start them again.
 */
static void
reap_workers(void)
{
	for (int i = 0; i < DC_MAX_DATABASES; i++)
	{
		DcWorkerSlot *slot = &dc_workers->slots[i];
		pid_t pid;

		if (handles[i] == NULL ||
			GetBackgroundWorkerPid(handles[i], &pid) != BGWH_STOPPED)
			continue;
		pfree(handles[i]);
		handles[i] = NULL;
		slots_lock(LW_EXCLUSIVE);
		note_end(slot);
		note_room();
		slots_unlock();
	}
}

/*
 * note_room lets starts that failed for lack of room be tried again, now that there is some.
 * The caller holds the lock.
 */
static void
note_room(void)
{
	for (int i = 0; i < DC_MAX_DATABASES; i++)
	{
		if (no_room[i])
			dc_workers->slots[i].start_after = dc_workers->slots[i].flush_after = DC_LONG_AGO;
		no_room[i] = false;
	}
}

/*
 * note_end decides when the worker of a slot, which has ended, is to be started
 * again. The caller holds the lock.
 */
static void
note_end(DcWorkerSlot *slot)
{
	int64 pause;

	/*
	 * a worker that an earlier launcher had started has entered the slot after all: it has not
	 * ended
	 */
	if (slot->pid != 0 || slot->state == DC_WORKER_NO_EXTENSION || slot->state == DC_WORKER_NO_TABLES)
		return;
	slot->flush_tries = buffer_is_left(slot->database) ? slot->flush_tries + 1 : 0;
	pause = Min((int64) RETRY_MS << Min(slot->flush_tries, 10), RETRY_MAX_MS) / 2;
	slot->flush_after = moment_in(pause);
	if (slot->only_flushes)
	{
		slot->only_flushes = false;
		slot->state = DC_WORKER_NONE;
		return;
	}
	if (slot->state != DC_WORKER_STARTING &&
		(slot->ended_well ||
		 moment_age(slot->running_since) >= SETTLED_MS * INT64CONST(1000)))
		slot->failed_starts = 0;
	slot->state = DC_WORKER_NONE;
	if (slot->ended_well)
	{
		slot->ended_well = false;
		return;
	}
	pause = Min((int64) RETRY_MS << Min(slot->failed_starts, 10), RETRY_MAX_MS);
	slot->failed_starts++;
	slot->start_after = moment_in(pause);
}

/*
 * manage_workers starts and stops workers as needed, and returns how long to sleep.
 */
static long
manage_workers(Oid role)
{
	static DcTurns turns;
	int room = turns_room(count_workers());

	slots_lock(LW_EXCLUSIVE);
	for (int i = 0; i < DC_MAX_DATABASES; i++)
	{
		DcWorkerSlot *slot = &dc_workers->slots[i];

		slot->ends = handles[i] != NULL && !slot_has_worker(slot);
		if (slot->state == DC_WORKER_RUNNING && job_step_hangs(slot->step_began))
			end_hanging(slot);
		if (slot->state == DC_WORKER_RUNNING && !turns_is_wanted(slot) &&
			!slot->only_flushes)
			stop_worker(i);
	}
	turns_plan(&turns, room);
	for (int s = 0; s < turns.nstart && !no_role; s++)
	{
		DcWorkerSlot *slot = &dc_workers->slots[turns.start[s]];

		slot->state = DC_WORKER_STARTING;
		slot->only_flushes = !turns_is_wanted(slot);
	}
	slots_unlock();
	log_room(&turns);
	for (int s = 0; s < turns.nstart && !no_role; s++)
		start_worker(turns.start[s], role);
	return Max(moment_ms_left(moment_min(turns.next, moment_in(NAPTIME_MS))), 1);
}

/*
 * count_workers returns how many of the postmaster's slots our workers have.
 */
static int
count_workers(void)
{
	int count = 0;

	slots_lock(LW_SHARED);
	for (int i = 0; i < DC_MAX_DATABASES; i++)
		count += handles[i] != NULL || slot_has_worker(&dc_workers->slots[i]);
	slots_unlock();
	return count;
}

/*
 * log_room logs once that databases wait for lack of slots, and not each time that their turns
 * come.
 */
static void
log_room(const DcTurns *turns)
{
	if (!turns->short_of_room || few_logged)
		return;
	few_logged = true;
	ereport(LOG,
			(errmsg("dcounter leaves background worker slots to others: %d databases wait for a worker",
					turns->nwaiting),
			 errhint("To run dcounter.max_workers workers, you may need to increase max_worker_processes.")));
}

/*
 * start_worker asks the postmaster for a worker.
 */
static void
start_worker(int i, Oid role)
{
	BackgroundWorker worker;
	DcWorkerArgs args = {0};
	bool registered;

	/* no other process changes these while it is STARTING */
	args.database = dc_workers->slots[i].database;
	args.role = role;
	args.slot = true;
	args.only_flushes = dc_workers->slots[i].only_flushes;
	worker_fill(&worker, &args);
	registered = RegisterDynamicBackgroundWorker(&worker, &handles[i]);
	no_room[i] = !registered;
	if (registered)
	{
		no_process_logged = false;
		return;
	}

	handles[i] = NULL;
	slots_lock(LW_EXCLUSIVE);
	dc_workers->slots[i].state = DC_WORKER_NONE;
	dc_workers->slots[i].only_flushes = false;
	dc_workers->slots[i].start_after = dc_workers->slots[i].flush_after = moment_in(RETRY_MAX_MS);
	slots_unlock();
	if (!no_process_logged)
		ereport(LOG,
				(errmsg("could not start a dcounter worker: no background worker slot is free"),
				 errdetail("This is retried every %d seconds.", RETRY_MAX_MS / 1000),
				 errhint("You may need to increase max_worker_processes.")));
	no_process_logged = true;
}

/*
 * stop_worker ends a worker, which an earlier launcher may have started. The caller holds
 * the lock.
 */
static void
stop_worker(int i)
{
	if (handles[i] != NULL)
		TerminateBackgroundWorker(handles[i]);
	else
		(void) slot_terminate(&dc_workers->slots[i]);
}

/*
 * end_hanging asks a worker to end whose step takes too long: the first time that
 * cancels the step, the next time it ends the process (worker.c). The caller holds the
 * lock.
 */
static void
end_hanging(const DcWorkerSlot *slot)
{
	ereport(LOG,
			(errmsg("terminating the dcounter worker of database %u: one of its steps hangs",
					slot->database)));
	(void) slot_terminate(slot);
}
