/*
 * bufferread.c
 *		Reading amounts in memory, together with those in rows.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The value of a key is the sum of its rows in a snapshot, plus the pending amount, plus
 * the amount that is taken, unless the taker is visible in the snapshot. To have each
 * increment once:
 *
 *	1. The amounts are read first, under the partition's lock, with the version of
 *	   the entry, and the entry is pinned.
 *	2. Then a new snapshot is taken.
 *	3. If the version is still the same, no amount was taken, dropped or put back in
 *	   between. So the amount that was pending in step 1 is in no row that the snapshot
 *	   shows. The taken amount is in rows if the snapshot shows the taker as committed. If the
 *	   version has changed, all this starts over.
 *
 * A key without an entry has everything in rows; should one be made and flushed
 * before step 2, the snapshot shows that in full.
 *
 * The snapshot is new at every isolation level: amounts in memory belong to no
 * snapshot, and an old one would miss those that were flushed since. The answer is the present
 * value, and never misses increments that an earlier answer had.
 *
 * Many keys are read in the same way, with the numbers of the moves of the table in
 * place of a version: moves begun and ended are the same in step 1, and none has
 * begun in step 3. If flushes come so often that this fails again and again, they
 * are kept out by their lock for the moment that it takes.
 *
 * On a standby nothing is in memory.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "common/int128.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/lockclass.h"
#include "core/table/access.h"
#include "memory/buffer/buffer.h"

/* Failures until flushes are kept out. */
#define MAX_TRIES 20

/* The amounts of an entry, as of one moment. */
typedef struct DcAmounts
{
	int64 inc;
	int64 dec;
	TimestampTz at;
	TransactionId taker;
	int64 taken_inc;
	int64 taken_dec;
	uint64 version;
} DcAmounts;

/* We hold the flush lock of the table that is being read. */
static bool flushes_are_out = false;

static bool table_to_read(DcCounter *counter, DcBufferTable **table);
static bool bufferread_read_key(DcCounter *counter, DcBuffered *key);
static void bufferread_read_amounts(DcMapEntry *entry, DcAmounts *amounts);
static bool is_visible(TransactionId xid);
static bool try_keys(DcCounter *counter, DcBufferTable *table, DcBuffered *keys,
					 DcAmounts *amounts, int count);
static void collect_keys(DcCounter *counter, DcBuffered *keys, DcAmounts *amounts,
						 int count);
static bool moves_rest(DcBufferTable *table, uint64 *moves);
static bool snapshot_push_unmoved(DcBufferTable *table, uint64 moves);
static bool bufferread_try_all(DcBufferTable *table, DcSums *sums);
static void keep_flushes_out(DcCounter *counter);
static void let_flushes_in(DcCounter *counter);

/*
 * buffer_read_keys reads the amounts in memory of some keys, and makes a snapshot
 * active to read their rows in; false if nothing can be in memory.
 */
bool
buffer_read_keys(DcCounter *counter, DcBuffered *keys, int count)
{
	DcBufferTable *table;
	DcAmounts *amounts;
	bool readable = table_to_read(counter, &table);

	for (int i = 0; i < count; i++)
	{
		keys[i].inc = keys[i].dec = 0;
		TIMESTAMP_NOBEGIN(keys[i].at);
	}
	if (!readable)
		return false;
	if (table == NULL)
	{
		latest_snapshot_push();
		return true;
	}
	if (count == 1)
	{
		while (!bufferread_read_key(counter, &keys[0]))
			CHECK_FOR_INTERRUPTS();
		return true;
	}
	amounts = palloc_extended(Max(count, 1) * sizeof(DcAmounts), MCXT_ALLOC_HUGE);
	for (int i = 0; !try_keys(counter, table, keys, amounts, count); i++)
	{
		if (i == MAX_TRIES)
			keep_flushes_out(counter);
		CHECK_FOR_INTERRUPTS();
	}
	let_flushes_in(counter);
	pfree(amounts);
	return true;
}

/*
 * buffer_read_all does the same for all keys of a table.
 */
bool
buffer_read_all(DcCounter *counter, DcSums *sums)
{
	DcBufferTable *table;

	if (!table_to_read(counter, &table))
		return false;
	if (table == NULL)
	{
		sums_init(sums);
		latest_snapshot_push();
		return true;
	}
	for (int i = 0; !bufferread_try_all(table, sums); i++)
	{
		if (i == MAX_TRIES)
			keep_flushes_out(counter);
		CHECK_FOR_INTERRUPTS();
	}
	let_flushes_in(counter);
	return true;
}

/*
 * table_to_read finds the slot of a table, NULL if nothing was added to it yet; false
 * if nothing can be in memory.
 */
static bool
table_to_read(DcCounter *counter, DcBufferTable **table)
{
	*table = NULL;
	flushes_are_out = false; /* an error may have left it */
	if (RecoveryInProgress())
		return false;
	*table = table_slot(counter);
	if (*table == NULL)
		return true;
	if (discard_is_noted(*table))
		return false; /* if truncated: only this transaction's rows count, and no other transaction can add */
	if (pg_atomic_read_u32(&(*table)->restored) == DC_UNRESOLVED)
		bufferfile_resolve(*table);
	return true;
}

/*
 * bufferread_read_key reads one key; false if its amounts have moved in the meantime.
 */
static bool
bufferread_read_key(DcCounter *counter, DcBuffered *key)
{
	DcAmounts amounts;
	DcMapEntry *entry;
	DcMapKey map_key;
	bool moved;

	buffer_map_key(&map_key, counter->relid, key->key->data, key->key->len);
	entry = map_find(buffer_map, &map_key);
	if (entry == NULL)
	{
		latest_snapshot_push();
		return true;
	}
	bufferread_read_amounts(entry, &amounts);
	PG_TRY();
	{
		latest_snapshot_push();
	}
	PG_CATCH();
	{
		map_unpin(entry);
		PG_RE_THROW();
	}
	PG_END_TRY();
	pg_memory_barrier();
	moved = pg_atomic_read_u64(&buffer_of(entry)->version) != amounts.version;
	map_unpin(entry);
	if (moved)
	{
		PopActiveSnapshot();
		return false;
	}
	key->inc = amounts.inc;
	key->dec = amounts.dec;
	key->at = amounts.at;
	if (!is_visible(amounts.taker))
	{
		key->inc += amounts.taken_inc;
		key->dec += amounts.taken_dec;
	}
	return true;
}

/*
 * bufferread_read_amounts reads an entry that is pinned. inc and dec are two variables: they
 * only grow while no flush takes them, so if both are unchanged when they are read again, there was
 * a moment at which they had these values.
 */
static void
bufferread_read_amounts(DcMapEntry *entry, DcAmounts *amounts)
{
	DcBuffer *buffer = buffer_of(entry);
	LWLock *lock = map_lock(buffer_map, entry);
	uint64 inc;
	uint64 dec;

	LWLockAcquire(lock, LW_SHARED);
	do
	{
		inc = pg_atomic_read_u64(&buffer->inc);
		dec = pg_atomic_read_u64(&buffer->dec);
		pg_read_barrier();
	} while (inc != pg_atomic_read_u64(&buffer->inc) ||
			 dec != pg_atomic_read_u64(&buffer->dec));
	amounts->inc = (int64) inc;
	amounts->dec = (int64) dec;
	amounts->at = (TimestampTz) pg_atomic_read_u64(&buffer->at);
	amounts->taker = buffer->taker;
	amounts->taken_inc = buffer->taken_inc;
	amounts->taken_dec = buffer->taken_dec;
	amounts->version = pg_atomic_read_u64(&buffer->version);
	LWLockRelease(lock);
}

/*
 * Return true if rows of a transaction are visible in the active snapshot,
 * which is newer than its first row.
 */
static bool
is_visible(TransactionId xid)
{
	return !TransactionIdIsValid(xid) ||
		TransactionIdIsCurrentTransactionId(xid) ||
		(!XidInMVCCSnapshot(xid, GetActiveSnapshot()) && TransactionIdDidCommit(xid));
}

/*
 * try_keys reads many keys; false if some amounts have moved in the meantime.
 */
static bool
try_keys(DcCounter *counter, DcBufferTable *table, DcBuffered *keys,
		 DcAmounts *amounts, int count)
{
	uint64 moves;

	if (!moves_rest(table, &moves))
		return false;
	collect_keys(counter, keys, amounts, count);
	if (!snapshot_push_unmoved(table, moves))
		return false;
	for (int i = 0; i < count; i++)
	{
		bool counts = !is_visible(amounts[i].taker);

		keys[i].inc = amounts[i].inc + (counts ? amounts[i].taken_inc : 0);
		keys[i].dec = amounts[i].dec + (counts ? amounts[i].taken_dec : 0);
		keys[i].at = amounts[i].at;
	}
	return true;
}

/*
 * moves_rest sets *moves to the number of moves of a table so far; false if one is in
 * progress.
 */
static bool
moves_rest(DcBufferTable *table, uint64 *moves)
{
	*moves = pg_atomic_read_u64(&table->moves_ended);
	pg_memory_barrier();
	return pg_atomic_read_u64(&table->moves_begun) == *moves;
}

/*
 * snapshot_push_unmoved makes a new snapshot active, unless a move has begun since.
 */
static bool
snapshot_push_unmoved(DcBufferTable *table, uint64 moves)
{
	latest_snapshot_push();
	pg_memory_barrier();
	if (pg_atomic_read_u64(&table->moves_begun) == moves)
		return true;
	PopActiveSnapshot();
	return false;
}

/*
 * Read the amounts in memory of many keys. A key without an entry has none. The caller has noted
 * the table's moves, and checks them after it has taken its snapshot.
 */
static void
collect_keys(DcCounter *counter, DcBuffered *keys, DcAmounts *amounts, int count)
{
	for (int i = 0; i < count; i++)
	{
		DcMapEntry *entry;
		DcMapKey map_key;

		CHECK_FOR_INTERRUPTS();
		memset(&amounts[i], 0, sizeof(DcAmounts));
		TIMESTAMP_NOBEGIN(amounts[i].at);
		buffer_map_key(&map_key, counter->relid, keys[i].key->data, keys[i].key->len);
		entry = map_find(buffer_map, &map_key);
		if (entry == NULL)
			continue;
		bufferread_read_amounts(entry, &amounts[i]);
		map_unpin(entry);
	}
}

/*
 * bufferread_try_all reads all keys of a table; false if their amounts have moved in the meantime,
 * or an interrupt is to be served first, which must not find entries pinned.
 */
static bool
bufferread_try_all(DcBufferTable *table, DcSums *sums)
{
	uint64 moves;
	DcBufferScan scan = {.table = table};
	DcMapEntry *entry;
	TransactionId taker = InvalidTransactionId;
	DcSums with_taken;

	if (!moves_rest(table, &moves))
		return false;
	sums_init(sums);
	sums_init(&with_taken);
	while ((entry = buffer_scan_entry(&scan)) != NULL)
	{
		DcAmounts amounts;

		bufferread_read_amounts(entry, &amounts);
		map_unpin(entry);
		if (INTERRUPTS_PENDING_CONDITION() && INTERRUPTS_CAN_BE_PROCESSED())
		{
			buffer_scan_end(&scan);
			return false;
		}
		sums_add(sums, amounts.inc, amounts.dec);
		sums_add(&with_taken, amounts.inc, amounts.dec);
		sums_add(&with_taken, amounts.taken_inc, amounts.taken_dec);
		if (TransactionIdIsValid(amounts.taker))
			taker = amounts.taker; /* all have the same */
	}
	if (!snapshot_push_unmoved(table, moves))
		return false;
	if (!is_visible(taker))
		*sums = with_taken;
	return true;
}

/*
 * keep_flushes_out waits for a flush that is in progress, and keeps other sessions away.
 */
static void
keep_flushes_out(DcCounter *counter)
{
	(void) advisory_lock(FLUSH_LOCK_CLASS, counter->relid, 0, ShareLock, true);
	flushes_are_out = true;
}

/*
 * Release the lock by which this session has kept flushes of the table out, if it holds it.
 */
static void
let_flushes_in(DcCounter *counter)
{
	if (!flushes_are_out)
		return;
	flushes_are_out = false;
	advisory_unlock(FLUSH_LOCK_CLASS, counter->relid, 0, ShareLock);
}
