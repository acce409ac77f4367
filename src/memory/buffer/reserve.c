/*
 * reserve.c
 *		A committing transaction adds to the memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It does so in two steps, since nothing may fail once the transaction is committed, and
 * nothing may be counted before:
 *
 *	- PRE_COMMIT, after everything else that rooms of dcounter do at that time: find the entry of
 *	  each key, or make one, and pin it. If there is no room, no flusher, or an amount is so large
 *	  that sums could overflow, the answer is no, and the counter room writes rows (apply.c).
 *	- COMMIT: add the amounts, and unpin. Other sessions see the transaction as
 *	  committed already, and its locks are still held. So a session that has locked the
 *	  table against writers knows that all increments of committed transactions are here.
 *
 * The transaction needs no id for that, and writes no WAL.
 *
 * A flusher that leaves first says so, and then waits for the transactions that are
 * between the two steps. Transactions are counted before they check whether there is a flusher. So
 * no transaction adds after that. Between the steps nothing of ours waits. But the server may: for
 * a synchronous standby, the lock of NOTIFY, the disk, or another extension's callback. And a
 * flusher that is ended by force waits for no transaction. So a transaction may add when there is
 * no longer a flusher. Then, in the order in which this is found out:
 *
 *	- Another worker comes, or is there already: it flushes the amounts that it finds.
 *	- The worker is switched off or stopped: the launcher starts one that only
 *	  flushes, as long as something is in memory or about to be (buffer_is_left).
 *	  The same happens if the flusher had to leave a table that was locked.
 *	- The server is being shut down: the file has the amounts (bufferfile.c).
 *	- The server crashes: they are lost, as promised for "async", and no "sync" commit
 *	  has returned that had not been flushed (flushwait.c).
 *
 * A table that the flusher leaves to its owner (ownercode.c) is treated as one without a
 * flusher. Transactions that were between the steps when that became known add to the
 * amounts that the owner is to flush.
 *
 * A transaction that adds and subtracts at one key holds the partition's lock while
 * it adds both, so that no reader sees only one of them.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "base/xactrooms.h"
#include "core/stats/stats.h"
#include "memory/buffer/buffer.h"

/*
 * Amounts go to rows while the sum of a key is beyond this. All backends together can add
 * less than the rest of bigint after they have looked (DC_MAX_BUFFERED each).
 */
#define MAX_PENDING (UINT64CONST(1) << 61)

typedef struct DcReserved
{
	DcMapEntry *entry; /* pinned */
	int64 inc;
	int64 dec;
	uint64 calls;
} DcReserved;

/* A table of this transaction. */
typedef struct DcReservedTable
{
	DcBufferTable *table;
	bool sync;
} DcReservedTable;

/* Most transactions change few keys of few tables, and need no more. */
static DcReserved few[16];
static DcReservedTable few_tables[4];

/*
 * The reservations of this transaction: in the lists above, or, if they are too short,
 * in TopTransactionContext. Without tables they are always the lists above: giving back the last
 * table, the commit and the abort ensure that (reserve_forget). A transaction that is prepared has
 * reserved nothing.
 */
static DcReserved *reserved = few;
static int nreserved = 0;
static int max_reserved = lengthof(few);

static DcReservedTable *tables = few_tables;
static int ntables = 0;
static int max_tables = lengthof(few_tables);

static bool table_reserve(DcCounter *counter, DcBufferTable *table);
static void table_release(int i);
static bool nothing_more(int start);
static void count_full(DcCounter *counter);
static void reserve_make_room(int count);
static bool reserve_one(DcBufferTable *table, const DcDelta *delta);
static void reserve_give_back(int from);
static void reserve_add(const DcReserved *r, TimestampTz now);
static void reserve_forget(void);
pg_attribute_unused() static bool nothing_is_kept(void);

/*
 * buffer_reserve prepares for adding deltas of one table when this transaction
 * commits; false if they must be written to rows.
 */
bool
buffer_reserve(DcCounter *counter, DcDelta **deltas, int count)
{
	int start = nreserved;
	DcBufferTable *table;

	Assert(ntables > 0 || nothing_is_kept());
	if (!flusher_runs() || counter->foreign)
		return false;
	table = table_slot_to_add(counter);
	if (table == NULL)
	{
		count_full(counter);
		return false;
	}
	if (!flusher_flushes(table))
		return false;
	xact_mark(DC_XACT_BUFFER); /* the lists of a transaction that fails now are forgotten at its end */
	reserve_make_room(count);
	flush_wait_prepare();
	if (!table_reserve(counter, table))
		return nothing_more(start);
	if (pg_atomic_read_u32(&table->restored) == DC_UNRESOLVED)
		bufferfile_resolve(table);
	for (int i = 0; i < count; i++)
	{
		if (deltas[i]->inc == 0 && deltas[i]->dec == 0)
			continue;
		CHECK_FOR_INTERRUPTS(); /* a transaction may have very many */
		if (!reserve_one(table, deltas[i]))
		{
			reserve_give_back(start);
			table_release(--ntables);
			count_full(counter);
			return nothing_more(start);
		}
	}
	pg_atomic_write_u64(&table->interval, (uint64) counter->row.flush_interval);
	pg_atomic_write_u32(&table->owner, counter->owner);
	return true;
}

/*
 * table_reserve enters a table in the list, if there is a flusher that will wait for
 * this transaction.
 */
static bool
table_reserve(DcCounter *counter, DcBufferTable *table)
{
	pg_atomic_fetch_add_u32(&table->reserving, 1);
	if (!flusher_runs())
	{
		pg_atomic_fetch_sub_u32(&table->reserving, 1);
		return false;
	}
	tables[ntables++] =
		(DcReservedTable){table, counter->row.durability == DC_DURABILITY_SYNC};
	return true;
}

/*
 * table_release undoes table_reserve. Something was added, or at least entries may
 * have been made that are to be freed again.
 */
static void
table_release(int i)
{
	table_mark_dirty(tables[i].table);
	pg_atomic_fetch_sub_u32(&tables[i].table->reserving, 1);
}

/*
 * nothing_more returns false, the answer for a table that is not, or no longer, in the list.
 */
static bool
nothing_more(int start)
{
	Assert(nreserved == start);
	if (ntables == 0)
		reserve_forget();
	return false;
}

/*
 * count_full counts that there was no room.
 */
static void
count_full(DcCounter *counter)
{
	DcApplyStats stats = {.full = 1};

	stats_applied(counter, &stats);
}

/*
 * reserve_make_room makes the lists long enough for more keys, of one more table.
 */
static void
reserve_make_room(int count)
{
	if (nreserved + count > max_reserved)
	{
		int capacity = Max(nreserved + count, 2 * max_reserved);
		DcReserved *more = MemoryContextAllocHuge(TopTransactionContext,
												  capacity * sizeof(DcReserved));

		memcpy(more, reserved, nreserved * sizeof(DcReserved));
		reserved = more;
		max_reserved = capacity;
	}
	if (ntables == max_tables)
	{
		DcReservedTable *more = MemoryContextAlloc(TopTransactionContext,
												   2 * max_tables * sizeof(DcReservedTable));

		memcpy(more, tables, ntables * sizeof(DcReservedTable));
		tables = more;
		max_tables *= 2;
	}
}

/*
 * reserve_one pins the entry of a key; false if that is not possible.
 */
static bool
reserve_one(DcBufferTable *table, const DcDelta *delta)
{
	DcMapEntry *entry;
	DcBuffer *buffer;
	DcMapKey key;

	if (delta->inc > DC_MAX_BUFFERED || delta->dec > DC_MAX_BUFFERED)
		return false;
	buffer_map_key(&key, delta->key.counter, delta->key.data, delta->key.len);
	entry = buffer_entry(table, &key);
	if (entry == NULL)
		return false;
	reserved[nreserved++] = (DcReserved){entry, delta->inc, delta->dec, delta->calls};
	buffer = buffer_of(entry);
	return pg_atomic_read_u64(&buffer->inc) < MAX_PENDING &&
		pg_atomic_read_u64(&buffer->dec) < MAX_PENDING;
}

/*
 * reserve_give_back unpins the reserved entries of index `from` on.
 */
static void
reserve_give_back(int from)
{
	for (int i = from; i < nreserved; i++)
		map_unpin(reserved[i].entry);
	nreserved = from;
}

/*
 * reserve_is_idle returns true if this transaction has reserved nothing.
 */
bool
reserve_is_idle(void)
{
	return ntables == 0;
}

/*
 * reserve_commit adds the amounts that were reserved. Runs when the transaction has committed:
 * must not throw.
 */
void
reserve_commit(void)
{
	TimestampTz now;

	Assert(ntables > 0 || nothing_is_kept());
	if (ntables == 0)
		return;
	now = GetCurrentTransactionStartTimestamp();
	for (int i = 0; i < nreserved; i++)
		reserve_add(&reserved[i], now);
	for (int i = 0; i < ntables; i++)
	{
		if (tables[i].sync)
			flush_wait_at_commit(tables[i].table); /* before, see there */
		table_release(i);
	}
	reserve_forget();
}

/*
 * Add a reserved amount to its entry, set the entry's time, and unpin it. It must not fail, as the
 * transaction has committed. Only if there are both increments and decrements is the partition's
 * lock needed: readers see both or none.
 */
static void
reserve_add(const DcReserved *r, TimestampTz now)
{
	DcBuffer *buffer = buffer_of(r->entry);
	LWLock *lock = map_lock(buffer_map, r->entry);
	bool both = r->inc != 0 && r->dec != 0;
	uint64 at;

	if (both)
		LWLockAcquire(lock, LW_EXCLUSIVE);
	if (r->inc != 0)
		pg_atomic_fetch_add_u64(&buffer->inc, r->inc);
	if (r->dec != 0)
		pg_atomic_fetch_add_u64(&buffer->dec, r->dec);
	pg_atomic_fetch_add_u64(&buffer->calls, r->calls);
	at = pg_atomic_read_u64(&buffer->at);
	while ((TimestampTz) at < now &&
		   !pg_atomic_compare_exchange_u64(&buffer->at, &at, (uint64) now))
		;
	if (both)
		LWLockRelease(lock);
	map_unpin(r->entry);
}

/*
 * reserve_abort gives back all reservations, if the transaction aborts, or before it
 * writes rows after all. Must not throw.
 */
void
reserve_abort(void)
{
	reserve_give_back(0);
	for (int i = 0; i < ntables; i++)
		table_release(i);
	reserve_forget();
}

/*
 * reserve_forget returns to the lists that are always there.
 */
static void
reserve_forget(void)
{
	reserved = few;
	nreserved = 0;
	max_reserved = lengthof(few);
	tables = few_tables;
	ntables = 0;
	max_tables = lengthof(few_tables);
}

/*
 * Return true if the lists are those that are always there, and empty.
 */
static bool
nothing_is_kept(void)
{
	return reserved == few && nreserved == 0 && max_reserved == lengthof(few) &&
		tables == few_tables && ntables == 0 && max_tables == lengthof(few_tables);
}
