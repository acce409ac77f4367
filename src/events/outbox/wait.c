/*
 * wait.c
 *		Waiting for events.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * With shared_preload_libraries a reader sleeps on a condition variable, and each
 * transaction that has written events, or has held others back, wakes the readers that sleep there
 * when it has ended. If none sleeps, this costs next to nothing. Databases share a few variables:
 * being woken by another one's events is harmless, as a reader that wakes looks again.
 *
 * A reader joins the sleepers before it looks for events, so that one that comes
 * in between is not missed.
 *
 * A prepared transaction is ended by a statement in another session, which runs no callback of it;
 * a hook on utility statements wakes readers then.
 *
 * Without preload there is no shared memory, and a reader looks again every few milliseconds.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"

#include "base/compat.h"
#include "base/shmem.h"
#include "base/utility.h"
#include "events/outbox/outbox.h"
#include "events/outbox/wait.h"

#define BEDS 16

/* How often to look without preload, and the longest sleep with it. */
#define LOOK_AGAIN_MS 10
#define LONGEST_MS 10000

typedef struct Beds
{
	ConditionVariable variables[BEDS]; /* by hash of the database */
} Beds;

static Beds *beds = NULL; /* NULL without preload */

static void beds_prepare(void *area);
static void wake_after(DcUtility *utility);

/*
 * wait_init asks for shared memory, and registers the hook.
 */
void
wait_init(bool preloading)
{
	if (!preloading)
		return;
	shmem_add("dcounter outbox readers", sizeof(Beds), (void **) &beds,
			  beds_prepare);
	utility_add(wake_after);
}

/*
 * Initialize the condition variables in shared memory.
 */
static void
beds_prepare(void *area)
{
	for (int i = 0; i < BEDS; i++)
		ConditionVariableInit(&((Beds *) area)->variables[i]);
}

/*
 * Return the condition variable on which readers of this database sleep.
 */
static ConditionVariable *
wait_bed(void)
{
	return &beds->variables[murmurhash32(MyDatabaseId) % BEDS];
}

/*
 * wait_wake wakes the readers of this database; raises no error.
 */
void
wait_wake(void)
{
	if (beds != NULL)
		ConditionVariableBroadcast(wait_bed());
}

/*
 * outbox_wait_begin joins the sleepers; to be called before looking for events.
 */
void
outbox_wait_begin(void)
{
	if (beds != NULL)
		ConditionVariablePrepareToSleep(wait_bed());
}

/*
 * outbox_wait sleeps until there may be something new; false if `until` has come. That may stand
 * for a time of the wall clock, which can be set in the meantime, so it never sleeps for long.
 */
bool
outbox_wait(DcMoment until)
{
	static uint32 wait_event = 0;
	long left = moment_ms_left(until);

	CHECK_FOR_INTERRUPTS();
	if (left <= 0)
		return false;
	if (wait_event == 0)
		wait_event = compat_wait_event("DcounterOutboxWait");
	if (beds != NULL)
		(void) ConditionVariableTimedSleep(wait_bed(), Min(left, LONGEST_MS),
										   wait_event);
	else
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(left, LOOK_AGAIN_MS),
						 wait_event);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/*
 * outbox_wait_end leaves the sleepers.
 */
void
outbox_wait_end(void)
{
	if (beds != NULL)
		ConditionVariableCancelSleep();
}

/*
 * Run a utility statement, and wake readers if it has ended a prepared transaction.
 */
static void
wake_after(DcUtility *utility)
{
	/* the statement may be freed when it runs */
	TransactionStmt *stmt = (TransactionStmt *) utility->statement;
	bool ends_prepared = IsA(stmt, TransactionStmt) &&
		(stmt->kind == TRANS_STMT_COMMIT_PREPARED || stmt->kind == TRANS_STMT_ROLLBACK_PREPARED);

	utility_run(utility);
	if (ends_prepared)
		wait_wake();
}
