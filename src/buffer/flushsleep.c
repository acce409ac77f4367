/*
 * flushsleep.c
 *		Sessions that wait for a flush: who they are, how they sleep, and who wakes them.
 *
 * Each session has a place where it says which flush of which table it waits for
 * (flushwait.c has the numbers). The end of a flush wakes the sessions that wait for it.
 * These are often half of all: the others have come while it was on its way and wait for
 * the next one. To wake them as well, as a condition variable would, costs more than the
 * flush.
 *
 * A session sleeps in one of two ways:
 *
 *	- On its latch. Whoever waits in dc_flush() does, and a commit that the other way
 *	  has not served. Interrupts end the sleep at once. But it takes a signal, epoll and a
 *	  read to wake a session: together as much as the rest of a buffered increment.
 *	- On the semaphore of its PGPROC, as lwlock.c does: one system call here, and one there.
 *	  The first sleep of a commit is of this kind, if there is a flusher. No interrupt ends
 *	  it.
 *
 * The protocol of the semaphore:
 *
 *	1. The session has entered its flush (waiter_begin). It sets "asleep".
 *	2. It looks whether the flush is done, or the flusher has gone, or an interrupt has
 *	   come. Then it takes "asleep" back, and does not sleep.
 *	3. Otherwise it sleeps until "asleep" is not set any more. Then it sleeps on its latch,
 *	   if the flush still isn't done.
 *
 * Whoever changes "asleep" from 1 to 0, by compare-and-swap, posts the semaphore once; nobody
 * else does, and so each sleep has one post. If the session fails to take "asleep" back, there
 * is a post on its way, which it has to wait for. A post that comes while "asleep" is set is
 * one of others (the semaphore is also that of LWLocks and of group commits): the
 * session gives it back when it is awake, as they do with ours. Should ours be the one that it
 * gives back, another post is over, and that again is what they expect. So a post that
 * reaches the next process in the same PGPROC is harmless as well; but a place in the list
 * that is not asleep gets none, and every session has left its own when it ends.
 *
 * Between 1 and 2, and between a change of what is looked at and the look at "asleep", there is
 * a memory barrier. So either the session sees the change, or it is woken.
 *
 * An interrupt is to be noticed soon, and no session may sleep for ever. "asleep" ends:
 *
 *	- with the flush that the session waits for, or a later one;
 *	- with each attempt that fails or is put off, before the flush began or after
 *	  (flush_wait_refused);
 *	- when the flusher leaves, however it does: told to, by an error that ends it, because the
 *	  postmaster has died (flushjob.c). One that is killed by force takes the server down,
 *	  with all sessions and this memory;
 *	- after TICK_MS, by a time-out of the session itself. Its handler does what any waker
 *	  does; sem_post() may be called there. (Before 9.5 the server looked for deadlocks in such a
 *	  handler, and woke itself in this way.) So after that time at the latest the session
 *	  sleeps on its latch, and a cancel, a request to terminate, or the death of the postmaster
 *	  ends its wait;
 *	- at each LOOK_INTERVAL of a flusher that has nothing to do. Time-outs go by the wall
 *	  clock: if it is set back while the session sleeps, the tick comes so much later. The
 *	  flusher's own attempts are limited by the monotonic clock (job_step_hangs). But a
 *	  flush in a user's transaction may last for days.
 */
#include "postgres.h"

#include "base/compat.h"
#include "base/shmem.h"
#include "buffer/buffer.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/pg_sema.h"
#include "storage/proc.h"
#include "utils/timeout.h"

/* How long to sleep on the semaphore at most. */
#define TICK_MS 100

/* How long to sleep on the latch before the caller looks again. */
#define LOOK_MS 100

/*
 * The flush that a session waits for. The fields are written by that session only, the
 * number last; but anybody may wake it from "asleep".
 */
typedef struct DcWaiter
{
	struct Latch *latch;
	PGPROC *proc;			 /* whose semaphore it sleeps on */
	pg_atomic_uint32 asleep; /* on it */
	pg_atomic_uint32 table;	 /* its slot */
	pg_atomic_uint64 number; /* of the flush; 0: it does not wait */
} DcWaiter;

typedef struct DcWaiters
{
	pg_atomic_uint32 used; /* those from here on have never waited */
	DcWaiter sessions[FLEXIBLE_ARRAY_MEMBER];
} DcWaiters;

static DcWaiters *waiters = NULL;

/* The table that this session waits for, in shared memory; waiter_end() clears it. */
static DcBufferTable *waiting_for = NULL;

/* This session's place while it sleeps on its semaphore, for on_tick(); else NULL. */
static DcWaiter *volatile sleeper = NULL;

/* Looked up before they are needed where nothing may throw. */
static bool prepared = false;
static uint32 wait_event;
static TimeoutId tick;

static Size waiters_size(void);
static void waiters_init(void *area);
static void on_tick(void);
static bool wake_asleep(DcWaiter *waiter);

/*
 * waiters_add asks for shared memory; called once.
 */
void
waiters_add(void)
{
	shmem_add_sized("dcounter flush waiters", waiters_size, (void **) &waiters,
					waiters_init);
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
		pg_atomic_init_u32(&init->sessions[i].asleep, 0);
		pg_atomic_init_u32(&init->sessions[i].table, 0);
		pg_atomic_init_u64(&init->sessions[i].number, 0);
	}
}

/*
 * waiter_prepare does what may throw, before a commit that waits.
 */
void
waiter_prepare(void)
{
	if (prepared)
		return;
	wait_event = compat_wait_event("DcounterFlush");
	tick = RegisterTimeout(USER_TIMEOUT, on_tick);
	prepared = true;
}

/*
 * waiter_begin enters the flush that this session waits for, and tells the flusher.
 */
void
waiter_begin(DcBufferTable *table, uint64 number)
{
	uint32 me = compat_backend_number();
	DcWaiter *waiter = &waiters->sessions[me];
	uint32 used = pg_atomic_read_u32(&waiters->used);

	waiting_for = table;
	waiter->latch = MyLatch;
	waiter->proc = MyProc;
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

/*
 * waiter_end ends the wait, if this session waits.
 */
void
waiter_end(void)
{
	if (waiting_for == NULL)
		return;
	pg_atomic_write_u64(&waiters->sessions[compat_backend_number()].number, 0);
	pg_atomic_fetch_sub_u32(&waiting_for->waiting, 1);
	waiting_for = NULL;
}

/*
 * waiter_sleep sleeps on the semaphore, once, unless there is no use in it. Interrupts are
 * held, and none has come as far as the caller knows. Must not throw.
 */
void
waiter_sleep(void)
{
	DcWaiter *me = &waiters->sessions[compat_backend_number()];
	int others = 0;

	pg_atomic_write_u32(&me->asleep, 1);
	pg_memory_barrier();
	if (pg_atomic_read_u64(&waiting_for->done) >= pg_atomic_read_u64(&me->number) ||
		!flusher_flushes(waiting_for))
	{
		uint32 one = 1;

		if (pg_atomic_compare_exchange_u32(&me->asleep, &one, 0))
			return;
	}
	sleeper = me;
	enable_timeout_after(tick, TICK_MS);
	pgstat_report_wait_start(wait_event);
	for (;;)
	{
		PGSemaphoreLock(MyProc->sem);
		if (pg_atomic_read_u32(&me->asleep) == 0)
			break;
		others++;
	}
	pgstat_report_wait_end();
	disable_timeout(tick, false);
	sleeper = NULL;
	while (others-- > 0)
		PGSemaphoreUnlock(MyProc->sem);
}

/*
 * waiter_sleep_on_latch sleeps until the session is woken, an interrupt comes, or some time
 * has passed. `death` says what to do if the postmaster has died.
 */
int
waiter_sleep_on_latch(int death)
{
	int events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | death, LOOK_MS, wait_event);

	ResetLatch(MyLatch);
	return events;
}

/*
 * on_tick ends the sleep of this session; called by a signal's handler.
 */
static void
on_tick(void)
{
	if (sleeper != NULL)
		(void) wake_asleep(sleeper);
}

/*
 * wake_asleep wakes a session if it sleeps on its semaphore.
 */
static bool
wake_asleep(DcWaiter *waiter)
{
	uint32 one = 1;

	if (!pg_atomic_compare_exchange_u32(&waiter->asleep, &one, 0))
		return false;
	PGSemaphoreUnlock(waiter->proc->sem);
	return true;
}

/*
 * waiters_wake wakes the sessions that wait for this flush of a table or an earlier one.
 * Must not throw.
 */
void
waiters_wake(DcBufferTable *table, uint64 number)
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
		uint64 wanted = pg_atomic_read_u64(&waiter->number);

		if (wanted == 0 || wanted > number)
			continue;
		pg_read_barrier();
		if (pg_atomic_read_u32(&waiter->table) == slot && !wake_asleep(waiter))
			SetLatch(waiter->latch);
	}
}

/*
 * waiters_wake_all wakes the sessions that wait for tables of this database: they have to
 * look for themselves. Must not throw.
 */
void
waiters_wake_all(void)
{
	for (int i = 0; i < buffer_area->ntables; i++)
	{
		if (buffer_area->tables[i].database == MyDatabaseId)
			waiters_wake(&buffer_area->tables[i], PG_UINT64_MAX);
	}
}
