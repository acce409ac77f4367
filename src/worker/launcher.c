/*
 * launcher.c
 *		The launcher: keeps a worker in each database that has dcounter.
 *
 * It is connected to no database, so it cannot see where the extension is: it
 * starts a worker in each database that allows connections and is no template, and
 * a worker that finds no extension leaves at once, for good. It is asked for again
 * when somebody creates the extension there (workerhooks.c).
 *
 * The launcher sleeps until something happens: a worker ends (the postmaster
 * signals that), a session changes databases or creates the extension (workerhooks.c),
 * the configuration is reloaded, or a start that failed is to be tried again. Once
 * a minute it looks at pg_database in any case.
 *
 * A worker that ends without having been told to is started again after a while,
 * which doubles with each failure. So is one that the postmaster has no room for. One
 * whose step should have timed out, and has not, is ended (jobs.c says why).
 *
 * If a worker is not wanted (dcounter.worker is off, or dc_worker_stop() was called)
 * but increments of its database are in memory, or about to be, one is started
 * that writes them down and leaves at once: the last one may have had to leave before
 * it could write all of it, or may have been ended by force. That is tried again,
 * less and less often, until nothing is left; from then on nothing can come (area.c).
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
#include "base/compat.h"
#include "base/guc.h"
#include "buffer/bufferinit.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "worker/slots.h"
#include "worker/worker.h"

/* How often to look at pg_database without being asked to. */
#define NAPTIME_MS (60 * 1000)

/* The pause after the first failure, and the longest one. */
#define RETRY_MS 1000
#define RETRY_MAX_MS (60 * 1000)

/* A worker that has run for this long was no failure. */
#define SETTLED_MS (60 * 1000)

/* A database that may have a worker. */
typedef struct DcDatabase
{
	Oid oid;
	bool allowed;
} DcDatabase;

typedef struct DcDatabaseList
{
	const DcDatabase *databases;
	int count;
} DcDatabaseList;

/* Of the workers that this launcher has started, by slot. */
static BackgroundWorkerHandle *handles[DC_MAX_DATABASES];

/* Which slots' workers the postmaster had no room for. */
static bool no_room[DC_MAX_DATABASES];

/* A lack of room has been logged, and not ended since. */
static bool no_slot_logged = false;
static bool no_process_logged = false;
static bool no_role_logged = false;

/* There is no role that workers could connect as. */
static bool no_role = false;

static void detach(int code, Datum arg);
static DcDatabase *list_databases(int *count, Oid *role);
static bool is_listed(Oid database, void *arg);
static void sync_slots(const DcDatabase *databases, int count);
static void reap_workers(void);
static void note_end(DcWorkerSlot *slot);
static void note_room(void);
static long manage_workers(Oid role);
static bool is_wanted(const DcWorkerSlot *slot);
static bool is_to_start(const DcWorkerSlot *slot);
static void start_worker(int i, Oid database, Oid role, bool only_flushes);
static void stop_worker(int i);
static void end_hanging(const DcWorkerSlot *slot);

/*
 * launcher_register asks the postmaster for the launcher; called at preload.
 */
void
launcher_register(void)
{
	BackgroundWorker worker = {0};

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

	LWLockAcquire(&dc_workers->lock, LW_EXCLUSIVE);
	dc_workers->launcher_pid = MyProcPid;
	dc_workers->launcher_latch = MyLatch;
	for (int i = 0; i < DC_MAX_DATABASES; i++)
	{
		/* asked for by another launcher; it will not run in this state */
		if (dc_workers->slots[i].state == DC_WORKER_STARTING)
		{
			dc_workers->slots[i].state = DC_WORKER_NONE;
			dc_workers->slots[i].only_flushes = false;
		}
	}
	LWLockRelease(&dc_workers->lock);
	before_shmem_exit(detach, (Datum) 0);

	while (!ShutdownRequestPending)
	{
		DcDatabase *databases;
		int count;
		Oid role;
		long timeout;

		databases = list_databases(&count, &role);
		reap_workers();
		sync_slots(databases, count);
		timeout = manage_workers(role);
		pfree(databases);

		pgstat_report_activity(STATE_IDLE, NULL);
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 timeout, compat_wait_event("DcounterLauncherMain"));
		ResetLatch(MyLatch);
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

static void
detach(int code, Datum arg)
{
	LWLockAcquire(&dc_workers->lock, LW_EXCLUSIVE);
	dc_workers->launcher_pid = 0;
	dc_workers->launcher_latch = NULL;
	LWLockRelease(&dc_workers->lock);
}

/*
 * list_databases reads pg_database, and the role that workers connect as.
 */
static DcDatabase *
list_databases(int *count, Oid *role)
{
	MemoryContext caller = CurrentMemoryContext;
	DcDatabase *databases;
	Relation rel;
	TableScanDesc scan;
	HeapTuple tuple;
	int capacity = 64;

	databases = palloc(capacity * sizeof(DcDatabase));
	*count = 0;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		if (*count == capacity)
		{
			capacity *= 2;
			databases = repalloc(databases, capacity * sizeof(DcDatabase));
		}
		databases[*count].oid = form->oid;
		/* a limit of -2 marks what an interrupted DROP DATABASE has left */
		databases[*count].allowed = form->datallowconn &&
			!form->datistemplate && form->datconnlimit != -2;
		(*count)++;
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
 * is_listed tells whether a database exists, by a list of all.
 */
static bool
is_listed(Oid database, void *arg)
{
	const DcDatabaseList *list = arg;

	for (int i = 0; i < list->count; i++)
	{
		if (list->databases[i].oid == database)
			return true;
	}
	return false;
}

/*
 * sync_slots gives a slot to each database that has none, and takes away those
 * of databases that are gone.
 */
static void
sync_slots(const DcDatabase *databases, int count)
{
	DcDatabaseList list = {databases, count};
	bool full = false;

	LWLockAcquire(&dc_workers->lock, LW_EXCLUSIVE);
	for (int s = 0; s < DC_MAX_DATABASES; s++)
	{
		DcWorkerSlot *slot = &dc_workers->slots[s];

		if (OidIsValid(slot->database) && slot->pid == 0 &&
			handles[s] == NULL && !is_listed(slot->database, &list) && !slot->unseen)
			slot_free(slot);
		slot->unseen = false; /* the next list has the database, if it exists */
	}
	for (int i = 0; i < count; i++)
	{
		DcWorkerSlot *slot;

		slot = databases[i].allowed ? slot_get(databases[i].oid) : slot_find(databases[i].oid);
		full |= (slot == NULL && databases[i].allowed);
		if (slot == NULL)
			continue;
		if (!databases[i].allowed && slot->state == DC_WORKER_NONE)
			slot->state = DC_WORKER_NOT_ALLOWED;
		else if (databases[i].allowed && slot->state == DC_WORKER_NOT_ALLOWED)
			slot->state = DC_WORKER_NONE;
		slot->allowed = databases[i].allowed;
	}
	LWLockRelease(&dc_workers->lock);
	if (full && !no_slot_logged)
		ereport(LOG,
				(errmsg("dcounter has no worker for some databases: there are more than %d",
						DC_MAX_DATABASES)));
	no_slot_logged = full;
	discard_lost(is_listed, &list);
}

/*
 * reap_workers looks which workers have ended.
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
		LWLockAcquire(&dc_workers->lock, LW_EXCLUSIVE);
		note_end(slot);
		note_room();
		LWLockRelease(&dc_workers->lock);
	}
}

/*
 * note_room lets those try again that there was no room for, now that there is
 * some. The caller holds the lock.
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

	/* a worker of an earlier launcher has come after all: it is not that one */
	if (slot->pid != 0 || slot->state == DC_WORKER_NO_EXTENSION)
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
 * manage_workers starts and stops what has to be, and returns how long to sleep.
 */
static long
manage_workers(Oid role)
{
	DcMoment now = moment_now();
	DcMoment next = moment_in(NAPTIME_MS);

	for (int i = 0; i < DC_MAX_DATABASES; i++)
	{
		DcWorkerSlot *slot = &dc_workers->slots[i];
		Oid start = InvalidOid;
		bool only_flushes;

		LWLockAcquire(&dc_workers->lock, LW_EXCLUSIVE);
		if (slot->state == DC_WORKER_RUNNING && job_step_hangs(slot->step_began))
			end_hanging(slot);
		if (slot->state == DC_WORKER_RUNNING && !is_wanted(slot) &&
			!slot->only_flushes)
			stop_worker(i);
		else if (handles[i] == NULL && !no_role && is_to_start(slot))
		{
			bool wanted = is_wanted(slot);
			DcMoment when = moment_max(wanted ? slot->start_after : slot->flush_after,
									   slot->paused_until);

			if (moment_is_before(now, when))
				next = moment_min(next, when);
			else
			{
				slot->state = DC_WORKER_STARTING;
				slot->only_flushes = !wanted;
				start = slot->database;
			}
		}
		only_flushes = slot->only_flushes;
		LWLockRelease(&dc_workers->lock);
		if (OidIsValid(start))
			start_worker(i, start, role, only_flushes);
	}
	return Max(moment_ms_left(next), 1);
}

static bool
is_wanted(const DcWorkerSlot *slot)
{
	return dc_worker && slot->allowed && !slot->stopped;
}

/*
 * is_to_start tells whether a slot that has no worker is to get one, of either kind. A
 * database that allows no connections is left alone until it does, or is dropped.
 */
static bool
is_to_start(const DcWorkerSlot *slot)
{
	return OidIsValid(slot->database) && slot->state == DC_WORKER_NONE &&
		(is_wanted(slot) || (slot->allowed && buffer_is_left(slot->database)));
}

/*
 * start_worker asks the postmaster for a worker.
 */
static void
start_worker(int i, Oid database, Oid role, bool only_flushes)
{
	BackgroundWorker worker;
	DcWorkerArgs args = {0};
	bool registered;

	args.database = database;
	args.role = role;
	args.slot = true;
	args.only_flushes = only_flushes;
	worker_fill(&worker, &args);
	registered = RegisterDynamicBackgroundWorker(&worker, &handles[i]);
	no_room[i] = !registered;
	if (registered)
	{
		no_process_logged = false;
		return;
	}

	handles[i] = NULL;
	LWLockAcquire(&dc_workers->lock, LW_EXCLUSIVE);
	dc_workers->slots[i].state = DC_WORKER_NONE;
	dc_workers->slots[i].only_flushes = false;
	dc_workers->slots[i].start_after = dc_workers->slots[i].flush_after = moment_in(RETRY_MAX_MS);
	LWLockRelease(&dc_workers->lock);
	if (!no_process_logged)
		ereport(LOG,
				(errmsg("could not start a dcounter worker: no background worker slot is free"),
				 errdetail("This is tried again every %d seconds.", RETRY_MAX_MS / 1000),
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
			(errmsg("ending the dcounter worker of database %u: a step of it hangs",
					slot->database)));
	(void) slot_terminate(slot);
}
