/*
 * registry.c
 *		The horizon: the events before it are settled.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Numbers are drawn in one order and commits become visible in another. A reader
 * that went past a number whose transaction commits later would lose the event.
 * So before it draws, each transaction that writes events registers a lower bound of all numbers
 * that it will draw, until its commit is visible or it has aborted. The horizon is below the lowest
 * of these: every event up to it is either visible or never will be.
 *
 * Writer, about to commit (eventwrite.c):		Reader:
 *	W1. low := last number drawn + 1		R1. last := last number drawn
 *	W2. make low known						R2. look at all that is known
 *	W3. draw numbers (all >= low)			R3. horizon := min(last, lowest - 1)
 *	W4. write the events, commit			R4. read events up to the horizon
 *	W5. commit visible to all
 *	W6. take low back
 *
 * Each step is complete before the next begins. A reader whose R2 comes before W2
 * has done R1 before W3, so the writer's numbers are above its horizon. One whose
 * R2 comes between W2 and W6 stays below low. One whose R2 comes after W6 reads
 * (R4) after W5, and sees the events, or they are gone.
 *
 * A transaction is known from the time it is about to commit, not from its first
 * event: events are kept until then. So delivery is held back by commits in
 * progress, for the time of a commit, and prepared transactions. Transactions
 * that have written no event are never looked at, in this database or elsewhere,
 * and neither are snapshots. Nothing has to run in the background: each reader computes the horizon
 * itself. And no transaction id is part of a reader's position, so positions mean the same in a
 * restored, upgraded or promoted cluster.
 *
 * How it is made known: with shared_preload_libraries, in a slot of the backend in shared memory,
 * which only that backend writes. Without it, and for prepared transactions in either case, by a
 * lock whose tag has the number: locks end after the commit has become visible, pass from a session
 * to the prepared transaction that it leaves behind, and survive a restart with it. A second lock,
 * with the number 0, tells readers that there may be prepared transactions to look for.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "port/atomics.h"
#include "storage/lock.h"
#include "utils/resowner.h"

#include "base/compat.h"
#include "base/lockclass.h"
#include "base/sequence.h"
#include "base/shmem.h"
#include "base/xactrooms.h"
#include "events/outbox/outbox.h"
#include "events/outbox/registry.h"

/*
 * The number that a backend has made known. Only the backend writes it, with `low` last, so that a
 * reader that sees `low` sees the other fields as well.
 */
typedef struct WriterSlot
{
	pg_atomic_uint64 low; /* 0: nothing */
	Oid database;
	int pid;
} WriterSlot;

static WriterSlot *slots = NULL; /* by backend number; NULL without preload */
static bool entered = false;

static Size slots_size(void);
static int slots_count(void);
static void slots_prepare(void *area);
static void lock_shared(uint64 low);
static bool prepared_exist(void);
static uint64 lowest_in_slots(DcHolder *holder);
static uint64 lowest_in_locks(DcHolder *holder);

/*
 * registry_init asks for shared memory.
 */
void
registry_init(bool preloading)
{
	if (preloading)
		shmem_add_sized("dcounter outbox writers", slots_size, (void **) &slots,
						slots_prepare);
}

/*
 * Return the bytes of shared memory for a slot per backend number.
 */
static Size
slots_size(void)
{
	return slots_count() * sizeof(WriterSlot);
}

/*
 * slots_count returns how many backend numbers there can be. They begin at 0 or 1,
 * and auxiliary processes have some, too.
 */
static int
slots_count(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS + 1;
}

/*
 * Initialize the slots: nobody writes.
 */
static void
slots_prepare(void *area)
{
	for (int i = 0; i < slots_count(); i++)
		pg_atomic_init_u64(&((WriterSlot *) area)[i].low, 0);
}

/*
 * registry_enter does W1 and W2. A transaction that is being prepared outlives
 * this backend's slot.
 */
void
registry_enter(bool prepare)
{
	uint64 low;

	if (entered)
		return; /* the number that is known is lower */
	low = (uint64) sequence_last(catalog_relation(OUTBOX_SEQUENCE)) + 1;
	xact_mark(DC_XACT_OUTBOX);
	entered = true;
	if (slots != NULL)
	{
		WriterSlot *slot = &slots[compat_backend_number()];

		slot->database = MyDatabaseId;
		slot->pid = MyProcPid;
		pg_write_barrier();
		pg_atomic_write_u64(&slot->low, low);
		pg_memory_barrier();
	}
	if (slots == NULL || prepare)
		lock_shared(low);
	if (prepare)
		lock_shared(0);
}

/*
 * Return true if this transaction has registered as a writer.
 */
bool
registry_is_entered(void)
{
	return entered;
}

/*
 * registry_leave does W6, called after the end of a transaction; true if it had
 * entered. Locks are released by the server.
 */
bool
registry_leave(void)
{
	bool left = entered;

	if (entered && slots != NULL)
	{
		pg_memory_barrier();
		pg_atomic_write_u64(&slots[compat_backend_number()].low, 0);
	}
	entered = false;
	return left;
}

/*
 * Take the lock whose tag says that all numbers of this transaction are at least `low`; 0 says that
 * there is a prepared transaction. It is held until the transaction ends, even while it is
 * prepared.
 */
static void
lock_shared(uint64 low)
{
	ResourceOwner owner = CurrentResourceOwner;

	/* until the transaction ends, even if a subtransaction aborts */
	CurrentResourceOwner = TopTransactionResourceOwner;
	(void) advisory_lock(WRITER_LOCK_CLASS, (uint32) (low >> 32), (uint32) low, ShareLock, true);
	CurrentResourceOwner = owner;
}

/*
 * outbox_last_seq returns the last number that was drawn.
 */
int64
outbox_last_seq(void)
{
	return sequence_last(catalog_relation(OUTBOX_SEQUENCE));
}

/*
 * outbox_horizon returns the number up to which all events are settled, and the
 * transaction that keeps it from being higher, if holder is not NULL.
 */
int64
outbox_horizon(DcHolder *holder)
{
	DcHolder ignored;
	int64 last;
	uint64 low;

	if (holder == NULL)
		holder = &ignored;
	memset(holder, 0, sizeof(DcHolder));
	last = sequence_last(catalog_relation(OUTBOX_SEQUENCE));
	pg_memory_barrier();
	if (slots == NULL)
		low = lowest_in_locks(holder);
	else
	{
		/* first the slots: a transaction being prepared gets its lock before */
		low = lowest_in_slots(holder);
		if (prepared_exist())
		{
			DcHolder prepared = {0};
			uint64 other = lowest_in_locks(&prepared);

			if (other < low)
			{
				low = other;
				*holder = prepared;
			}
		}
	}
	if (low > (uint64) last)
	{
		memset(holder, 0, sizeof(DcHolder));
		return last;
	}
	return (int64) low - 1;
}

/*
 * Return the lowest number registered in a slot for this database, and set its holder;
 * PG_UINT64_MAX if there is none.
 */
static uint64
lowest_in_slots(DcHolder *holder)
{
	uint64 lowest = PG_UINT64_MAX;

	for (int i = 0; i < slots_count(); i++)
	{
		uint64 low = pg_atomic_read_u64(&slots[i].low);

		if (low == 0)
			continue;
		pg_read_barrier();
		if (slots[i].database == MyDatabaseId && low < lowest)
		{
			lowest = low;
			holder->held = true;
			holder->pid = slots[i].pid;
		}
	}
	return lowest;
}

/*
 * Return true if there are prepared transactions with events, or
 * some that are just being prepared.
 */
static bool
prepared_exist(void)
{
	LOCKTAG tag;
	int count;

	if (max_prepared_xacts == 0)
		return false;
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, 0, WRITER_LOCK_CLASS);
	pfree(GetLockConflicts(&tag, ExclusiveLock, &count));
	return count > 0;
}

/*
 * Return the lowest number registered by a lock in this database, and set its holder, which may be
 * a prepared transaction; PG_UINT64_MAX if there is none. Copies the server's whole lock table.
 */
static uint64
lowest_in_locks(DcHolder *holder)
{
	LockData *data = GetLockStatusData();
	uint64 lowest = PG_UINT64_MAX;

	for (int i = 0; i < data->nelements; i++)
	{
		const LockInstanceData *lock = &data->locks[i];
		const LOCKTAG *tag = &lock->locktag;
		uint64 low = ((uint64) tag->locktag_field2 << 32) | tag->locktag_field3;

		if (tag->locktag_type != LOCKTAG_ADVISORY ||
			tag->locktag_field4 != WRITER_LOCK_CLASS ||
			tag->locktag_field1 != MyDatabaseId ||
			lock->holdMask == 0 || low == 0 || low >= lowest)
			continue;
		lowest = low;
		holder->held = true;
		holder->pid = lock->pid;
		holder->xid = lock->pid == 0 ? compat_prepared_xid(lock) : InvalidTransactionId;
	}
	pfree(data->locks);
	pfree(data);
	return lowest;
}
