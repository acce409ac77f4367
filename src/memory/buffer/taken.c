/*
 * taken.c
 *		Taking amounts out of the memory, to write them to rows.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A transaction that flushes a table takes the pending amount of an entry and marks
 * it with its transaction id. From then on that transaction alone writes the amount, which
 * counts for others until they see the transaction as committed (bufferread.c). When it
 * ends:
 *
 *	- It has committed: the amount is dropped. The commit is durable by then.
 *	- It has aborted, or the subtransaction has: the amount is pending again.
 *
 * Until an amount is dropped, it counts for a reader only if the transaction is not visible in the
 * reader's snapshot. So it does not matter that it is dropped a moment after the commit has become
 * visible.
 *
 * A transaction that has taken something cannot be prepared: no process would be left to
 * drop it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "base/xactrooms.h"
#include "memory/buffer/buffer.h"

/* An amount that this transaction has taken. */
typedef struct DcTake
{
	DcMapEntry *entry; /* pinned */
	int nest;		   /* level of the subtransaction */
	int64 inc;
	int64 dec;
	uint64 calls;
} DcTake;

#define TAKES_MIN 64
#define TAKES_KEPT 4096 /* memory that is not given back */

/*
 * The takes of this transaction, an array in TopMemoryContext; their entries are pinned. It is
 * emptied when the transaction ends (take_commit, take_abort); such a transaction cannot be
 * prepared.
 */
static DcTake *takes = NULL;
static int ntakes = 0;
static int max_takes = 0;

static void make_taken_room(void);
static void take_end(const DcTake *take, bool drop);

/*
 * buffer_take takes the pending amount of an entry, and the caller's pin on it. False if
 * there is nothing: then the pin stays the caller's. The caller has the flush lock, and
 * the transaction an id.
 */
bool
buffer_take(DcMapEntry *entry, DcDelta *amount, TimestampTz *at)
{
	DcBuffer *buffer = buffer_of(entry);
	DcBufferTable *table = &buffer_area->tables[buffer->table];
	LWLock *lock = map_lock(buffer_map, entry);

	if (!buffer_has_pending(buffer))
		return false;
	make_taken_room();
	pg_atomic_fetch_add_u64(&table->moves_begun, 1);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	amount->inc = (int64) pg_atomic_exchange_u64(&buffer->inc, 0);
	amount->dec = (int64) pg_atomic_exchange_u64(&buffer->dec, 0);
	amount->calls = pg_atomic_exchange_u64(&buffer->calls, 0);
	*at = (TimestampTz) pg_atomic_read_u64(&buffer->at);
	/* the same transaction may flush a table several times */
	buffer->taker = GetTopTransactionIdIfAny();
	buffer->taken_inc += amount->inc;
	buffer->taken_dec += amount->dec;
	pg_atomic_fetch_add_u64(&buffer->version, 1);
	LWLockRelease(lock);
	pg_atomic_fetch_add_u64(&table->moves_ended, 1);
	xact_mark(DC_XACT_BUFFER);
	takes[ntakes++] = (DcTake){entry, GetCurrentTransactionNestLevel(), amount->inc,
							   amount->dec, amount->calls};
	return true;
}

/*
 * Make room for one more take, in memory that outlives the transaction. Called before an amount is
 * taken, as nothing may fail after that.
 */
static void
make_taken_room(void)
{
	if (ntakes < max_takes)
		return;
	if (takes == NULL)
		takes = MemoryContextAlloc(TopMemoryContext, TAKES_MIN * sizeof(DcTake));
	else
		takes = repalloc_huge(takes, 2 * (Size) max_takes * sizeof(DcTake));
	max_takes = Max(2 * max_takes, TAKES_MIN);
}

/*
 * Return true if this transaction has taken anything.
 */
bool
take_any(void)
{
	return ntakes > 0;
}

/*
 * take_commit drops the amounts that the transaction has taken, since rows have them.
 * Must not throw.
 */
void
take_commit(void)
{
	while (ntakes > 0)
		take_end(&takes[--ntakes], true);
	if (max_takes > TAKES_KEPT)
	{
		pfree(takes);
		takes = NULL;
		max_takes = 0;
	}
}

/*
 * take_abort makes the amounts that the transaction has taken pending again. Must not
 * throw.
 */
void
take_abort(void)
{
	while (ntakes > 0)
		take_end(&takes[--ntakes], false);
}

/*
 * take_commit_subxact gives the takes of a subtransaction to its parent.
 */
void
take_commit_subxact(int nest)
{
	for (int i = ntakes - 1; i >= 0 && takes[i].nest >= nest; i--)
		takes[i].nest = nest - 1;
}

/*
 * take_abort_subxact makes the amounts that a subtransaction has taken pending again.
 */
void
take_abort_subxact(int nest)
{
	while (ntakes > 0 && takes[ntakes - 1].nest >= nest)
		take_end(&takes[--ntakes], false);
}

/*
 * take_end drops an amount or puts it back, and gives back the pin.
 */
static void
take_end(const DcTake *take, bool drop)
{
	DcBuffer *buffer = buffer_of(take->entry);
	DcBufferTable *table = &buffer_area->tables[buffer->table];
	LWLock *lock = map_lock(buffer_map, take->entry);

	pg_atomic_fetch_add_u64(&table->moves_begun, 1);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (!drop)
	{
		pg_atomic_fetch_add_u64(&buffer->inc, (uint64) take->inc);
		pg_atomic_fetch_add_u64(&buffer->dec, (uint64) take->dec);
		pg_atomic_fetch_add_u64(&buffer->calls, take->calls);
	}
	buffer->taken_inc -= take->inc;
	buffer->taken_dec -= take->dec;
	if (buffer->taken_inc == 0 && buffer->taken_dec == 0)
		buffer->taker = InvalidTransactionId;
	pg_atomic_fetch_add_u64(&buffer->version, 1);
	LWLockRelease(lock);
	pg_atomic_fetch_add_u64(&table->moves_ended, 1);
	if (!drop)
		table_mark_dirty(table);
	(void) buffer_remove(take->entry);
}
