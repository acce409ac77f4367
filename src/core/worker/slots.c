/*
 * slots.c
 *		The workers' slots in shared memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * There is a slot for each database that the launcher has seen. One LWLock
 * protects them all; it is held for moments only, and never while waiting.
 *
 *	- The launcher takes and frees slots, and is the only one that starts workers
 *	  for them: NONE -> STARTING. A start that leads to nothing, which the
 *	  launcher learns from the postmaster: STARTING -> NONE.
 *	- A worker enters its pid (STARTING -> RUNNING), or finds that it must not run after all and
 *	  leaves. When it exits it takes its pid out (RUNNING -> NONE or NO_EXTENSION or NO_TABLES). A
 *	  worker that is killed makes the server restart, with all slots empty.
 *	- dc_worker_stop() takes one for a database that the launcher has not seen yet, and
 *	  marks it as unseen. The launcher, whose list of databases may be an older one, frees
 *	  it the time after next at the earliest.
 *	- A worker that only flushes (launcher.c) goes the same way. Sessions ignore it, except
 *	  those that need the database for themselves.
 *	- Sessions set `stopped` and `paused_until`, and signal the worker. Where they
 *	  have changed something that a failure may be due to, they clear the back-off,
 *	  and make NO_EXTENSION NONE again.
 *
 * A process that changes something that the launcher should act on sets the launcher's latch.
 *
 * A pid is only as good as the lock under which it was read: once the process has ended,
 * any other, of any program, may get it. So signals are sent here alone, under a lock
 * that the process needs to end: that of the slots, since it takes its pid out before it
 * exits, or, for a worker without a slot, that of the server's list of processes.
 */
#include "postgres.h"

#include <signal.h>

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"

#include "base/compat.h"
#include "base/shmem.h"
#include "core/worker/slots.h"

DcWorkerArea *dc_workers = NULL;

static void slots_area_init(void *area);

/*
 * slots_init asks for the shared memory; called once, at preload.
 */
void
slots_init(void)
{
	shmem_add("dcounter workers", sizeof(DcWorkerArea), (void **) &dc_workers,
			  slots_area_init);
}

/*
 * Initialize the lock of the slots; zeros are free slots.
 */
static void
slots_area_init(void *area)
{
	shmem_init_lock(&((DcWorkerArea *) area)->lock);
}

/*
 * slots_lock takes the lock that protects all slots.
 */
void
slots_lock(LWLockMode mode)
{
	LWLockAcquire(&dc_workers->lock, mode);
}

/*
 * Release the lock that slots_lock() or slot_lock() has taken.
 */
void
slots_unlock(void)
{
	LWLockRelease(&dc_workers->lock);
}

/*
 * slot_lock takes the lock, and returns the slot of a database, or NULL.
 */
DcWorkerSlot *
slot_lock(Oid database, LWLockMode mode)
{
	slots_lock(mode);
	return slot_find(database);
}

/*
 * slot_find returns the slot of a database, or NULL. The caller holds the lock.
 */
DcWorkerSlot *
slot_find(Oid database)
{
	for (int i = 0; i < DC_MAX_DATABASES; i++)
	{
		if (dc_workers->slots[i].database == database)
			return &dc_workers->slots[i];
	}
	return NULL;
}

/*
 * slot_get returns the slot of a database, a new one if it has none, or NULL if all are taken.
 * The caller holds the lock exclusively.
 */
DcWorkerSlot *
slot_get(Oid database)
{
	DcWorkerSlot *slot = slot_find(database);

	if (slot == NULL)
	{
		slot = slot_find(InvalidOid);
		if (slot != NULL)
			slot->database = database;
	}
	return slot;
}

/*
 * slot_terminate asks the worker of a slot to end; false if it has none. The caller holds
 * the lock.
 */
bool
slot_terminate(const DcWorkerSlot *slot)
{
	Assert(LWLockHeldByMe(&dc_workers->lock));
	return slot->pid != 0 && kill(slot->pid, SIGTERM) == 0;
}

/*
 * worker_terminate asks a worker without a slot to end; false if the pid is no longer that
 * of a worker of the database. A process leaves the list with the lock held exclusively,
 * before it exits, and the postmaster takes a dead worker's pid out of its own list
 * before it starts a process that could get the same one.
 */
bool
worker_terminate(pid_t pid, Oid database)
{
	PGPROC *proc;
	bool told;

	LWLockAcquire(ProcArrayLock, LW_SHARED);
	proc = BackendPidGetProcWithLock(pid);
	told = proc != NULL && proc->databaseId == database && is_worker(pid) &&
		kill(pid, SIGTERM) == 0;
	LWLockRelease(ProcArrayLock);
	return told;
}

/*
 * Return true if a background worker is one of ours; others may give
 * themselves its name, but not in the postmaster's list.
 */
bool
is_worker(pid_t pid)
{
	const char *type = GetBackgroundWorkerTypeByPid(pid);

	return type != NULL && strcmp(type, "dcounter worker") == 0;
}

/*
 * launcher_wake makes the launcher look at the databases and slots. The caller
 * does not hold the lock.
 */
void
launcher_wake(void)
{
	slots_lock(LW_EXCLUSIVE);
	if (dc_workers->launcher_latch != NULL)
		SetLatch(dc_workers->launcher_latch);
	slots_unlock();
}

/*
 * launcher_recheck makes the launcher start a worker in a database, even if an earlier one has
 * failed or found no extension.
 */
void
launcher_recheck(Oid database)
{
	DcWorkerSlot *slot = slot_lock(database, LW_EXCLUSIVE);
	bool wake = true;

	if (slot != NULL)
	{
		wake = slot->state != DC_WORKER_RUNNING;
		slot->start_after = DC_LONG_AGO;
		slot->failed_starts = 0;
		if (slot->state == DC_WORKER_NO_EXTENSION || slot->state == DC_WORKER_NO_TABLES)
			slot->state = DC_WORKER_NONE;
		slot->due = DC_LONG_AGO;
	}
	slots_unlock();
	if (wake)
		launcher_wake();
}

/*
 * sleep_on_latch sleeps for this many milliseconds, or until this process is woken.
 */
void
sleep_on_latch(long ms, const char *wait_event)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 ms, compat_wait_event(wait_event));
	ResetLatch(MyLatch);
}
