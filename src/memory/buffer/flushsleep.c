/*
 * flushsleep.c
 *		Sessions that wait for a flush: their list, how they sleep and how they are woken.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each session has a place where it says which flush of which table it waits for
 * (flushwait.c has the numbers), and sleeps on its latch. The end of a flush wakes the
 * sessions that wait for it. These are often half of all: the others have come while it
 * was on its way and wait for the next one. Waking them as well, as a condition variable would,
 * costs more than the flush. Nor does a condition variable let a transaction that is committed
 * outlive the death of the postmaster.
 *
 * A session says that it waits, then checks whether the flush is done, then sleeps; the flush is
 * done before its end looks for sessions that wait. Between the two steps of each there is a memory
 * barrier, so either the session sees that it is done, or it is woken. It looks for itself every
 * LOOK_MS, too.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"

#include "base/compat.h"
#include "base/shmem.h"
#include "memory/buffer/buffer.h"

/* How long to sleep on the latch before the caller looks again. */
#define LOOK_MS 100

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

/* The table that this session waits for, in shared memory; waiter_end() clears it. */
static DcBufferTable *waiting_for = NULL;

/* Looked up before it is needed where nothing may throw. */
static uint32 wait_event = 0;

static Size waiters_size(void);
static void waiters_init(void *area);

/*
 * waiters_add asks for shared memory; called once.
 */
void
waiters_add(void)
{
	shmem_add_sized("dcounter flush waiters", waiters_size, (void **) &waiters,
					waiters_init);
}

/*
 * Return the bytes of shared memory for a place per backend number. These begin with 0 or 1,
 * depending on PostgreSQL's version.
 */
static Size
waiters_size(void)
{
	return add_size(offsetof(DcWaiters, sessions),
					mul_size(MaxBackends + 1, sizeof(DcWaiter)));
}

/*
 * Initialize the waiters' shared memory: nobody waits.
 */
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
 * waiter_prepare does what may throw, before a commit that waits.
 */
void
waiter_prepare(void)
{
	if (wait_event == 0)
		wait_event = compat_wait_event("DcounterFlush");
}

/*
 * waiter_begin notes which flush this session waits for, and wakes the flusher.
 */
void
waiter_begin(DcBufferTable *table, uint64 number)
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
 * waiter_sleep sleeps until the session is woken, an interrupt comes, or some time
 * has passed. `death` says what to do if the postmaster has died.
 */
int
waiter_sleep(int death)
{
	int events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | death, LOOK_MS, wait_event);

	ResetLatch(MyLatch);
	return events;
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

	pg_memory_barrier(); /* a session says that it waits, and then checks whether it is done */
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
		if (pg_atomic_read_u32(&waiter->table) == slot)
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
