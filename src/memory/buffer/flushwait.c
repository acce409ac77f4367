/*
 * flushwait.c
 *		Waiting until committed increments are durable.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Flushes of a table are numbered. A flush first resets the dirty mark, then gets its
 * number, then takes the amounts. A session that has added to the memory first looks at
 * the number of the last flush that has begun, and then sets the dirty mark. It waits for
 * the next number: that flush takes the amounts that the session has added. If the reset
 * undoes the session's mark, the number that it waits for is that of the flush that has
 * undone it, or an earlier one. Otherwise the mark stays, and another flush follows.
 *
 * Sessions that wait are woken at the end of each flush and each attempt at one
 * (flushsleep.c).
 *
 * A transaction that has added to a table of durability "sync" waits when it is
 * committed and has released its locks (so no other transaction waits for one that
 * waits), before the session continues. As with synchronous replication it can no longer fail then:
 * a cancel ends the wait with a warning, and a request to terminate leaves the client without an
 * answer. The warning comes when nothing else is left to do, has no context, and is dropped if it
 * cannot be sent: an error would be one of a committed transaction.
 *
 * Such a transaction has found a flusher when it committed, or it would have written
 * rows. If there has been none for all of ALONE_MS, the session does not go on waiting either: the
 * wait ends with that warning, too. Usually the flusher that leaves, the next one or a worker that
 * the launcher starts for that (reserve.c) comes before. It does not if the table is locked, or its
 * rows cannot be written, or the server has no room for a worker. It never does if it has left the
 * table to its owner in the meantime. The wait goes on if there is a worker that cannot flush the
 * table now.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "memory/buffer/buffer.h"

/* How long to wait without a worker. */
#define ALONE_MS 5000

typedef struct DcWait
{
	DcBufferTable *table;
	uint64 number; /* of the flush */
} DcWait;

/*
 * The flushes that this transaction waits for when it has committed, in TopMemoryContext, and
 * never freed; emptied when the transaction releases its resources, however it ends.
 */
static DcWait *waits = NULL;
static int nwaits = 0;
static int max_waits = 0;
static int wanted = 0;

/* How a wait has ended. */
typedef enum DcWaitEnd
{
	WAIT_DONE,
	WAIT_CANCELLED,
	WAIT_TERMINATED,
	WAIT_POSTMASTER_DEAD,
	WAIT_NO_WORKER,
	WAIT_LEFT_TO_OWNER,
} DcWaitEnd;

static void resource_callback(ResourceReleasePhase phase, bool commit, bool top,
							  void *arg);
static DcWaitEnd wait_committed(const DcWait *wait);
static DcWaitEnd flushwait_interruption(void);
static DcWaitEnd flushwait_loneliness(DcBufferTable *table, instr_time *since);
static void warn_quietly(DcWaitEnd end);
static void flushwait_warn(DcWaitEnd end);

/*
 * flush_wait_init asks for shared memory and registers the callback; called once.
 */
void
flush_wait_init(void)
{
	waiters_add();
	RegisterResourceReleaseCallback(resource_callback, NULL);
}

/*
 * flush_wait_prepare makes room for one more wait at commit.
 */
void
flush_wait_prepare(void)
{
	wanted++;
	waiter_prepare();
	if (wanted <= max_waits)
		return;
	if (waits == NULL)
		waits = MemoryContextAlloc(TopMemoryContext, 8 * sizeof(DcWait));
	else
		waits = repalloc(waits, 2 * max_waits * sizeof(DcWait));
	max_waits = Max(2 * max_waits, 8);
}

/*
 * flush_wait_at_commit makes the transaction, which is committed and has added to a table,
 * wait when its locks are released. Must not throw.
 */
void
flush_wait_at_commit(DcBufferTable *table)
{
	Assert(nwaits < max_waits);
	pg_memory_barrier();
	waits[nwaits++] = (DcWait){table, pg_atomic_read_u64(&table->begun) + 1};
	pg_memory_barrier();
	pg_atomic_fetch_add_u32(&table->users, 1); /* the lock that protects the slot is about to be released */
}

/*
 * resource_callback waits in the last phase of the release of a transaction's resources. Must not
 * throw.
 */
static void
resource_callback(ResourceReleasePhase phase, bool commit, bool top, void *arg)
{
	DcWaitEnd end = WAIT_DONE;
	int count = nwaits;

	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !top)
		return;
	waiter_end(); /* the session was terminated while it waited in dc_flush() */
	wanted = nwaits = 0;
	for (int i = 0; i < count; i++)
	{
		if (end == WAIT_DONE)
			end = wait_committed(&waits[i]);
		pg_atomic_fetch_sub_u32(&waits[i].table->users, 1);
	}
	if (end == WAIT_DONE)
		return;
	warn_quietly(end);
	if (end == WAIT_TERMINATED || end == WAIT_POSTMASTER_DEAD)
		whereToSendOutput = DestNone; /* no answer */
}

/*
 * wait_committed waits for a flush. Interrupts are held, so it looks for them itself.
 */
static DcWaitEnd
wait_committed(const DcWait *wait)
{
	DcBufferTable *table = wait->table;
	DcWaitEnd end;
	instr_time alone_since;

	if (pg_atomic_read_u64(&table->done) >= wait->number)
		return WAIT_DONE;
	INSTR_TIME_SET_ZERO(alone_since);
	waiter_begin(table, wait->number);
	end = WAIT_DONE;
	while (end == WAIT_DONE && pg_atomic_read_u64(&table->done) < wait->number)
	{
		end = flushwait_interruption();
		if (end == WAIT_DONE)
			end = flushwait_loneliness(table, &alone_since);
		/* to exit at once would make a transaction abort that is committed */
		if (end == WAIT_DONE && (waiter_sleep(WL_POSTMASTER_DEATH) & WL_POSTMASTER_DEATH))
			end = WAIT_POSTMASTER_DEAD;
	}
	waiter_end();
	if (end == WAIT_POSTMASTER_DEAD)
		ProcDiePending = true;
	return end;
}

/*
 * flushwait_interruption returns how to end the wait for an interrupt, as syncrep.c does, or
 * WAIT_DONE if there is none. As there, nothing else is processed: a barrier (DROP DATABASE or
 * TABLESPACE waits until all processes have let go of files) has to wait for the flush, or for a
 * cancel.
 */
static DcWaitEnd
flushwait_interruption(void)
{
	if (ProcDiePending)
		return WAIT_TERMINATED;
	if (!QueryCancelPending)
		return WAIT_DONE;
	QueryCancelPending = false;
	return WAIT_CANCELLED;
}

/*
 * flushwait_loneliness returns how to end the wait because the table has had no flusher for a long
 * time, or WAIT_DONE to continue. *since is zero, or the time at which that was noticed.
 */
static DcWaitEnd
flushwait_loneliness(DcBufferTable *table, instr_time *since)
{
	instr_time now;

	if (flusher_flushes(table))
	{
		INSTR_TIME_SET_ZERO(*since);
		return WAIT_DONE;
	}
	INSTR_TIME_SET_CURRENT(now);
	if (INSTR_TIME_IS_ZERO(*since))
		*since = now;
	INSTR_TIME_SUBTRACT(now, *since);
	if (INSTR_TIME_GET_MILLISEC(now) < ALONE_MS)
		return WAIT_DONE;
	return flusher_runs() ? WAIT_LEFT_TO_OWNER : WAIT_NO_WORKER;
}

/*
 * warn_quietly warns of a wait that was cut short, in a transaction that has committed. There is no
 * error context, as it may name code of users in characters that the client's encoding lacks. Any
 * error is caught and dropped.
 */
static void
warn_quietly(DcWaitEnd end)
{
	MemoryContext caller = CurrentMemoryContext;
	uint32 held = InterruptHoldoffCount;
	uint32 cancel_held = QueryCancelHoldoffCount;

	PG_TRY();
	{
		error_context_stack = NULL; /* restored by what follows */
		flushwait_warn(end);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		/* an error resets these, but the commit goes on */
		InterruptHoldoffCount = held;
		QueryCancelHoldoffCount = cancel_held;
	}
	PG_END_TRY();
}

/*
 * Warn that the wait has ended before the increments were durable, and why. There is no warning if
 * the postmaster has died.
 */
static void
flushwait_warn(DcWaitEnd end)
{
	static const char *const reasons[] = {
		[WAIT_CANCELLED] = "canceling the wait for increments to become durable due to user request",
		[WAIT_TERMINATED] = "canceling the wait for increments to become durable, and terminating connection",
		[WAIT_NO_WORKER] = "ending the wait for increments to become durable because there is no worker",
		[WAIT_LEFT_TO_OWNER] = "ending the wait for increments to become durable because the worker leaves the table to its owner",
	};

	if (end == WAIT_POSTMASTER_DEAD)
		return;
	ereport(WARNING,
			(end == WAIT_TERMINATED ? errcode(ERRCODE_ADMIN_SHUTDOWN) : 0,
			 errmsg("%s", reasons[end]),
			 errdetail("The transaction has already committed, but a crash may lose its increments of buffered counters."),
			 end == WAIT_NO_WORKER			 ? errhint("Turn on dcounter.worker, or call dc_flush().")
				 : end == WAIT_LEFT_TO_OWNER ? errhint("The owner can call dc_flush().")
											 : 0));
}

/*
 * flush_wait waits until all increments that were committed before are durable in rows.
 * False if the flusher cannot do that now: then the caller, which has a lock on the table,
 * has to flush.
 */
bool
flush_wait(DcBufferTable *table)
{
	uint64 refused = pg_atomic_read_u64(&table->refused);
	uint64 number = pg_atomic_read_u64(&table->begun) + 1;
	volatile bool done = false;

	if (!flusher_flushes(table))
		return false;
	waiter_prepare();
	pg_memory_barrier();
	waiter_begin(table, number);
	PG_TRY();
	{
		table_mark_dirty(table);
		for (;;)
		{
			done = pg_atomic_read_u64(&table->done) >= number;
			if (done || pg_atomic_read_u64(&table->refused) != refused ||
				!flusher_flushes(table))
				break;
			CHECK_FOR_INTERRUPTS();
			(void) waiter_sleep(WL_EXIT_ON_PM_DEATH);
		}
	}
	PG_FINALLY();
	{
		waiter_end();
	}
	PG_END_TRY();
	return done;
}

/*
 * flush_wait_done notifies the sessions that wait for a flush that it is done. Must not throw.
 */
void
flush_wait_done(DcBufferTable *table, uint64 number)
{
	uint64 done = pg_atomic_read_u64(&table->done);

	if (done < number)
		pg_atomic_write_u64(&table->done, number);
	waiters_wake(table, number); /* also sessions that wait for an earlier one, which has failed */
}

/*
 * flush_wait_refused notifies sessions that wait that the flusher could not flush the table. Those
 * in flush_wait() flush it themselves.
 */
void
flush_wait_refused(DcBufferTable *table)
{
	pg_atomic_fetch_add_u64(&table->refused, 1);
	waiters_wake(table, PG_UINT64_MAX);
}
