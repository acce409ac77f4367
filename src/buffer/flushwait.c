/*
 * flushwait.c
 *		Waiting until committed increments are durable.
 *
 * Flushes of a table are numbered. A flush first resets the dirty mark, then gets its
 * number, then takes the amounts. A session that has added to the memory first looks at
 * the number of the last flush that has begun, and then sets the dirty mark. It waits for
 * the next number: that flush takes the amounts that the session has added. If the reset
 * undoes the session's mark, the number that it waits for is that of the flush that has
 * undone it, or an earlier one. Otherwise the mark stays, and another flush follows.
 *
 * Each session has a place where it says which flush of which table it waits for. The end
 * of a flush wakes the sessions that wait for it. These are half of all, usually: the
 * others have come while it was on its way and wait for the next one. To wake them as
 * well, as a condition variable would, costs more than the flush.
 *
 * A transaction that has added to a table of durability "sync" waits when it is
 * committed and has released its locks (so no other transaction waits for one that
 * waits), before the session goes on. As with synchronous replication it cannot fail any
 * more then: a cancel ends the wait with a warning, and a request to terminate
 * leaves the client without an answer.
 *
 * Such a transaction has found a flusher when it committed, or it would have written
 * rows. If there is none any more, for all of ALONE_MS, the session does not go on waiting
 * either: the wait ends with that warning, too. Usually the flusher that leaves, the next
 * one or a worker that the launcher starts for that (reserve.c) comes before. It does not
 * if the table is locked, or its rows cannot be written, or the server has no room for a
 * worker. It never does if it has left the table to its owner meanwhile. A worker that is
 * there, and cannot flush the table now, is waited for.
 */
#include "postgres.h"

#include "access/xact.h"
#include "base/compat.h"
#include "base/shmem.h"
#include "buffer/buffer.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* How long to sleep before signals are looked at again. */
#define LOOK_MS 100

/* How long to wait without a worker. */
#define ALONE_MS 5000

/*
 * The flush that a session waits for. The fields are written by that session only, the
 * number last.
 */
typedef struct DcWaiter
{
	struct Latch *latch;
	pg_atomic_uint32 table;	 /* its slot */
	pg_atomic_uint64 number; /* of the flush; 0: it does not wait */
} DcWaiter;

typedef struct DcWaiters
{
	pg_atomic_uint32 used; /* those from here on have never waited */
	DcWaiter sessions[FLEXIBLE_ARRAY_MEMBER];
} DcWaiters;

static DcWaiters *waiters = NULL;

/* The table that this session waits for, in shared memory; wait_end() clears it. */
static DcBufferTable *waiting_for = NULL;

/* Looked up before it is needed where nothing may throw. */
static uint32 wait_event = 0;

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

static void resource_callback(ResourceReleasePhase phase, bool commit, bool top,
							  void *arg);
static bool wait_committed(const DcWait *wait);
static bool sleep_once(void);
static bool is_interrupted(void);
static bool is_alone(DcBufferTable *table, instr_time *since);
static Size waiters_size(void);
static void waiters_init(void *area);
static void wake(DcBufferTable *table, uint64 number);
static void wait_begin(DcBufferTable *table, uint64 number);
static void wait_end(void);

/*
 * flush_wait_init asks for shared memory and registers the callback; called once.
 */
void
flush_wait_init(void)
{
	shmem_add_sized("dcounter flush waiters", waiters_size, (void **) &waiters,
					waiters_init);
	RegisterResourceReleaseCallback(resource_callback, NULL);
}

/*
 * flush_wait_prepare makes room for one more wait at commit.
 */
void
flush_wait_prepare(void)
{
	wanted++;
	if (wait_event == 0)
		wait_event = compat_wait_event("DcounterFlush"); /* may throw */
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
	pg_memory_barrier();
	waits[nwaits++] = (DcWait){table, pg_atomic_read_u64(&table->begun) + 1};
	pg_memory_barrier();
	pg_atomic_fetch_add_u32(&table->users, 1); /* the lock that protects the slot goes */
}

/*
 * resource_callback is called in each phase of the release of a transaction's
 * resources.
 */
static void
resource_callback(ResourceReleasePhase phase, bool commit, bool top, void *arg)
{
	bool ended = false;

	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !top)
		return;
	if (waiting_for != NULL)
		wait_end(); /* the session was terminated while it waited in dc_flush() */
	if (wanted == 0)
		return;
	wanted = 0;
	for (int i = 0; i < nwaits; i++)
	{
		if (!ended)
			ended = !wait_committed(&waits[i]);
		pg_atomic_fetch_sub_u32(&waits[i].table->users, 1);
	}
	nwaits = 0;
}

/*
 * wait_committed waits for a flush; false if the wait was interrupted. Interrupts
 * are held: it looks itself.
 */
static bool
wait_committed(const DcWait *wait)
{
	DcBufferTable *table = wait->table;
	bool interrupted = false;
	instr_time alone_since;

	if (pg_atomic_read_u64(&table->done) >= wait->number)
		return true;
	INSTR_TIME_SET_ZERO(alone_since);
	wait_begin(table, wait->number);
	while (!interrupted && pg_atomic_read_u64(&table->done) < wait->number)
		interrupted = is_interrupted() || is_alone(table, &alone_since) || !sleep_once();
	wait_end();
	return !interrupted;
}

/*
 * sleep_once sleeps until it is woken, or for some time; false if the postmaster is
 * dead. To exit at once would make a transaction abort that is committed.
 */
static bool
sleep_once(void)
{
	int events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH,
						   LOOK_MS, wait_event);

	ResetLatch(MyLatch);
	if (events & WL_POSTMASTER_DEATH)
	{
		ProcDiePending = true;
		whereToSendOutput = DestNone;
		return false;
	}
	return true;
}

/*
 * is_interrupted tells whether to stop waiting, as syncrep.c does.
 */
static bool
is_interrupted(void)
{
	if (ProcDiePending)
	{
		ereport(WARNING,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("canceling the wait for increments to become durable, and terminating connection"),
				 errdetail("The transaction has already committed, but a crash may lose its increments of buffered counters.")));
		whereToSendOutput = DestNone;
		return true;
	}
	if (QueryCancelPending)
	{
		QueryCancelPending = false;
		ereport(WARNING,
				(errmsg("canceling the wait for increments to become durable due to user request"),
				 errdetail("The transaction has already committed, but a crash may lose its increments of buffered counters.")));
		return true;
	}
	return false;
}

/*
 * is_alone tells whether to stop waiting, since the table has had no flusher for long.
 * *since is zero, or the time at which that was noticed.
 */
static bool
is_alone(DcBufferTable *table, instr_time *since)
{
	instr_time now;

	if (flusher_flushes(table))
	{
		INSTR_TIME_SET_ZERO(*since);
		return false;
	}
	INSTR_TIME_SET_CURRENT(now);
	if (INSTR_TIME_IS_ZERO(*since))
		*since = now;
	INSTR_TIME_SUBTRACT(now, *since);
	if (INSTR_TIME_GET_MILLISEC(now) < ALONE_MS)
		return false;
	ereport(WARNING,
			(errmsg(flusher_runs()
						? "ending the wait for increments to become durable because the worker leaves the table to its owner"
						: "ending the wait for increments to become durable because there is no worker"),
			 errdetail("The transaction has already committed, but a crash may lose its increments of buffered counters."),
			 errhint(flusher_runs() ? "The owner can call dc_flush()." : "Turn on dcounter.worker, or call dc_flush().")));
	return true;
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
	pg_memory_barrier();
	wait_begin(table, number);
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
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 LOOK_MS, compat_wait_event("DcounterFlush"));
			ResetLatch(MyLatch);
		}
	}
	PG_FINALLY();
	{
		wait_end();
	}
	PG_END_TRY();
	return done;
}

/*
 * flush_wait_done tells sessions that wait for a flush that it is done. Must not throw.
 */
void
flush_wait_done(DcBufferTable *table, uint64 number)
{
	uint64 done = pg_atomic_read_u64(&table->done);

	if (done < number)
		pg_atomic_write_u64(&table->done, number);
	wake(table, number); /* also sessions that wait for an earlier one, which has failed */
}

/*
 * flush_wait_refused tells sessions that wait that the flusher could not do it. Those in
 * flush_wait() will do it themselves.
 */
void
flush_wait_refused(DcBufferTable *table)
{
	pg_atomic_fetch_add_u64(&table->refused, 1);
	wake(table, PG_UINT64_MAX);
}

static Size
waiters_size(void)
{
	return add_size(offsetof(DcWaiters, sessions),
					mul_size(MaxBackends + 1, sizeof(DcWaiter)));
}

static void
waiters_init(void *area)
{
	DcWaiters *init = area;

	pg_atomic_init_u32(&init->used, 0);
	for (int i = 0; i <= MaxBackends; i++)
	{
		pg_atomic_init_u32(&init->sessions[i].table, 0);
		pg_atomic_init_u64(&init->sessions[i].number, 0);
	}
}

/*
 * wake wakes the sessions that wait for this flush of a table or an earlier one.
 */
static void
wake(DcBufferTable *table, uint64 number)
{
	uint32 slot = table - buffer_area->tables;
	uint32 used;

	pg_memory_barrier(); /* a session says that it waits, and then looks whether it is done */
	if (pg_atomic_read_u32(&table->waiting) == 0)
		return;
	used = pg_atomic_read_u32(&waiters->used);
	for (uint32 i = 0; i < used; i++)
	{
		DcWaiter *waiter = &waiters->sessions[i];
		uint64 wanted_number = pg_atomic_read_u64(&waiter->number);

		if (wanted_number == 0 || wanted_number > number)
			continue;
		pg_read_barrier();
		if (pg_atomic_read_u32(&waiter->table) == slot)
			SetLatch(waiter->latch);
	}
}

static void
wait_begin(DcBufferTable *table, uint64 number)
{
	uint32 me = compat_backend_number();
	DcWaiter *waiter = &waiters->sessions[me];
	uint32 used = pg_atomic_read_u32(&waiters->used);

	waiting_for = table;
	waiter->latch = MyLatch;
	pg_atomic_write_u32(&waiter->table, table - buffer_area->tables);
	pg_write_barrier();
	pg_atomic_write_u64(&waiter->number, number);
	while (used <= me &&
		   !pg_atomic_compare_exchange_u32(&waiters->used, &used, me + 1))
		;
	/* this is a barrier as well */
	pg_atomic_fetch_add_u32(&table->waiting, 1);
	flusher_wake();
}

static void
wait_end(void)
{
	pg_atomic_write_u64(&waiters->sessions[compat_backend_number()].number, 0);
	pg_atomic_fetch_sub_u32(&waiting_for->waiting, 1);
	waiting_for = NULL;
}
