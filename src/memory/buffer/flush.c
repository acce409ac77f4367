/*
 * flush.c
 *		Writing the amounts in memory of a table to its rows.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A flush is a transaction, the flusher's (flushjob.c) or a user's. It takes all
 * amounts of the table (taken.c) and adds them to the table of totals, as compaction
 * does. Where that would have to wait or is not possible, it adds them to shard rows of
 * its own, as transactions do that write early:
 *
 *	- the amount of a key whose row of totals is locked, or whose sum would overflow bigint;
 *	- all amounts of a table that has become distributed, and is no longer buffered
 *	  (core/table/distribution.c);
 *	- all amounts, while another transaction compacts the table, or has locked the table of its
 *	  trend, or after a flush has failed (for example because of a trigger on the totals).
 *
 * So a flush never waits for another transaction, and leaves nothing behind. One flush at
 * a time works on a table: it holds the table's flush lock until it ends. It commits
 * synchronously, whatever the settings are. Only then are the amounts that it has taken
 * dropped from the memory.
 *
 * The flusher limits the number of keys of a flush. Sessions do not wait for a flush that leaves
 * some keys: the table is dirty again, and they wait for the flush that leaves none. The amounts of
 * a table that were loaded from the file are flushed at once, as the file is applied as a whole or
 * not at all.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/guc.h"
#include "base/hooks.h"
#include "base/lockclass.h"
#include "base/xactrooms.h"
#include "core/compact/compactbatch.h"
#include "core/counter/apply.h"
#include "core/rows/locks.h"
#include "core/stats/stats.h"
#include "core/table/layout.h"
#include "core/worker/flusher.h"
#include "memory/buffer/buffer.h"

/* A key's amount that is being written. */
typedef struct DcFlushKey
{
	DcDelta delta;
	TimestampTz at;
} DcFlushKey;

/* The flush of a table in this transaction. */
typedef struct DcFlush
{
	struct DcFlush *next;
	DcCounter *counter;
	DcBufferTable *table;
	int count;	  /* keys */
	bool is_part; /* it has left some */
	uint64 number;
	int nest;
	TimestampTz started_at; /* to be shown */
	DcMoment started;
} DcFlush;

/*
 * In TopTransactionContext, the innermost subtransaction's first; as discard.c has it
 * (flush_commit, flush_abort).
 */
static DcFlush *flushes = NULL;

/*
 * Entries in shared memory that are pinned, but not taken yet. None is left when
 * take_keys() has ended; flush_abort() and flush_abort_subxact() give them back if an
 * error ends it.
 */
static DcBufferScan scan;

/* The value of synchronous_commit for a flush; empty: as it is set. */
static char commit_level[16] = "";

static void commit_synchronously(void);
static int take_keys(DcCounter *counter, DcBufferTable *table, int limit, DcFlushKey **keys);
static void flush_key_init(DcFlushKey *key, DcCounter *counter, DcMapEntry *entry);
static int flush_compare_keys(const void *a, const void *b);
static void flush_write_rows(DcCounter *counter, DcFlushKey *keys, int count, bool exactly);
static int write_totals(DcCounter *counter, DcFlushKey *keys, int count,
						DcDelta **left);
static void begin_flush(DcCounter *counter, DcBufferTable *table,
						DcMoment started);
static void flush_failed(DcFlush *flush);
static void count_flush(DcCounter *counter, DcFlushKey *keys, int count);

/*
 * flush_lock makes this transaction the only one that flushes a table, until it
 * ends; false if another one does, and `wait` is false.
 */
bool
flush_lock(Oid counter, bool wait)
{
	return advisory_lock(FLUSH_LOCK_CLASS, counter, 0, ExclusiveLock, wait);
}

/*
 * Flush a table, on which this transaction has the flush lock and a lock as writers have. `exactly`
 * says to write to shard rows only. Return false if more than about `limit` keys were found, and
 * some are left.
 */
bool
flush_table(DcCounter *counter, DcBufferTable *table, bool exactly, int limit)
{
	DcMoment started = moment_now();
	DcFlushKey *keys;
	int count = 0;

	if (pg_atomic_read_u32(&table->restored) == DC_UNRESOLVED)
		bufferfile_resolve(table);
	counter_layout(counter);
	stats_attach(counter);

	begin_flush(counter, table, started);
	if (table->nentries > 0 && !discard_is_noted(table))
	{
		(void) GetTopTransactionId();
		commit_synchronously();
		if (pg_atomic_read_u32(&table->restored) != DC_NOT_RESTORED)
			limit = INT_MAX;
		count = take_keys(counter, table, limit, &keys);
		flushes->is_part = count >= limit;
	}
	if (count > 0)
	{
		flush_write_rows(counter, keys, count, exactly);
		count_flush(counter, keys, count);
		flushes->count = count;
	}
	bufferfile_note_flush(table);
	return !flushes->is_part;
}

/*
 * flush_set_commit sets the value that synchronous_commit had before this process turned it off.
 */
void
flush_set_commit(const char *level)
{
	strlcpy(commit_level, strcmp(level, "off") == 0 ? "local" : level,
			sizeof(commit_level));
}

/*
 * commit_synchronously makes this transaction wait for the disk when it commits, and
 * for synchronous standbys as others do.
 */
static void
commit_synchronously(void)
{
	ForceSyncCommit();
	if (commit_level[0] != '\0')
		(void) set_config_option("synchronous_commit", commit_level, PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

/*
 * Take all amounts of a table, up to about a limit, in the order of their keys, and free the
 * entries that have none.
 */
static int
take_keys(DcCounter *counter, DcBufferTable *table, int limit, DcFlushKey **keys)
{
	int capacity = 0;
	int count = 0;

	*keys = NULL;
	xact_mark(DC_XACT_BUFFER);
	scan.table = table;
	while (count < limit && buffer_scan_next(&scan) > 0)
	{
		/* allocate first, as that may fail: once taken, an amount has to be written */
		if (count + scan.count > capacity)
		{
			capacity = Max(2 * capacity, scan.count);
			*keys = *keys == NULL
				? palloc(capacity * sizeof(DcFlushKey))
				: repalloc_huge(*keys, capacity * sizeof(DcFlushKey));
		}
		while (scan.count > 0)
		{
			DcMapEntry *entry = scan.entries[scan.count - 1];

			flush_key_init(&(*keys)[count], counter, entry);
			if (buffer_take(entry, &(*keys)[count].delta, &(*keys)[count].at))
				count++;
			else
				(void) buffer_remove(entry);
			scan.count--;
		}
	}
	buffer_scan_end(&scan);
	if (count > 1)
		qsort(*keys, count, sizeof(DcFlushKey), flush_compare_keys);
	return count;
}

/*
 * Fill a flush key from an entry of the map, with a copy of the key's bytes, in the current memory
 * context.
 */
static void
flush_key_init(DcFlushKey *key, DcCounter *counter, DcMapEntry *entry)
{
	char *data = palloc(Max(entry->len, 1));

	map_key(buffer_map, entry, data);
	*key = (DcFlushKey){.delta = {.key = {data, entry->len, counter->relid},
								  .hint = DC_NO_HINT}};
}

/*
 * Compare two flush keys by their bytes, for qsort().
 */
static int
flush_compare_keys(const void *a, const void *b)
{
	const DcDeltaKey *left = &((const DcFlushKey *) a)->delta.key;
	const DcDeltaKey *right = &((const DcFlushKey *) b)->delta.key;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return bytes_compare(left->data, left->len, right->data, right->len);
}

/*
 * flush_write_rows writes the amounts that were taken, in batches.
 */
static void
flush_write_rows(DcCounter *counter, DcFlushKey *keys, int count, bool exactly)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter flush",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);

	/* under one snapshot, rows that have changed since would raise errors */
	exactly |= IsolationUsesXactSnapshot() || counter->distributed || !lock_compaction(counter) ||
		(counter_is_replicated(counter) && !region_hooks->ready(counter)) ||
		(counter_has_trend(counter) && !trend_hooks->ready(counter));
	for (int start = 0; start < count; start += dc_compact_batch)
	{
		int n = Min(count - start, dc_compact_batch);
		DcDelta **left = palloc(n * sizeof(DcDelta *));
		int nleft = n;

		CHECK_FOR_INTERRUPTS();
		if (!exactly)
			nleft = write_totals(counter, keys + start, n, left);
		else
		{
			for (int i = 0; i < n; i++)
				left[i] = &keys[start + i].delta;
		}
		if (nleft > 0)
			apply_amounts(counter, left, nleft);
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/*
 * write_totals adds amounts to rows of totals, and returns how many are left.
 */
static int
write_totals(DcCounter *counter, DcFlushKey *keys, int count, DcDelta **left)
{
	DcSqlSession session;
	DcBatch batch = {0};
	int nleft = 0;

	batch.keys = palloc(count * sizeof(DcBatchKey));
	batch.nkeys = count;
	for (int i = 0; i < count; i++)
	{
		const DcDelta *delta = &keys[i].delta;

		batch.keys[i] = (DcBatchKey){
			.key = delta_key_text(&delta->key),
			.inc = delta->inc,
			.dec = delta->dec,
			.at = keys[i].at,
			.own_inc = delta->inc,
			.own_dec = delta->dec,
			.own_at = keys[i].at,
			.used = true,
		};
	}
	sql_begin(&session, counter);
	batch_to_totals(&session, &batch);
	sql_end(&session);
	for (int i = 0; i < count; i++)
	{
		if (batch.keys[i].skip)
			left[nleft++] = &keys[i].delta;
	}
	return nleft;
}

/*
 * begin_flush gives a flush its number, and remembers it until the transaction ends.
 */
static void
begin_flush(DcCounter *counter, DcBufferTable *table, DcMoment started)
{
	DcFlush *flush = MemoryContextAllocZero(TopTransactionContext, sizeof(DcFlush));

	flush->counter = counter;
	flush->table = table;
	flush->started = started;
	flush->started_at = GetCurrentTimestamp();
	flush->nest = GetCurrentTransactionNestLevel();
	/* in this order; see flushwait.c */
	pg_atomic_exchange_u32(&table->dirty, 0);
	flush->number = pg_atomic_add_fetch_u64(&table->begun, 1);
	flush->next = flushes;
	xact_mark(DC_XACT_BUFFER);
	flushes = flush;
}

/*
 * count_flush adds a flush to the statistics.
 */
static void
count_flush(DcCounter *counter, DcFlushKey *keys, int count)
{
	DcApplyStats stats = {0};

	if (!stats_enabled())
		return;
	for (int i = 0; i < count; i++)
	{
		const DcDelta *delta = &keys[i].delta;

		stats.increments += delta->calls;
		stats_hot_key(counter, delta->key.data, delta->key.len, delta->calls);
	}
	stats.keys = count;
	stats.buffered = stats.increments;
	stats_applied(counter, &stats);
}

/*
 * flush_is_idle returns true if this transaction has no flush and has taken nothing.
 */
bool
flush_is_idle(void)
{
	return flushes == NULL && !take_any() && scan.count == 0 && scan.last == NULL;
}

/*
 * flush_commit ends the flushes of a transaction that has committed. Must not throw.
 */
void
flush_commit(void)
{
	take_commit();
	for (DcFlush *flush = flushes; flush != NULL; flush = flush->next)
	{
		DcBufferTable *table = flush->table;
		uint64 elapsed = (uint64) moment_age(flush->started);
		uint64 counts[DC_NUM_STATS] = {0};

		pg_atomic_write_u64(&table->last_start, (uint64) flush->started_at);
		pg_atomic_write_u64(&table->last_us, elapsed);
		counts[DC_STATS_FLUSHES] = flush->count > 0;
		counts[DC_STATS_FLUSHED] = flush->count;
		counts[DC_STATS_FLUSH_TIME] = elapsed;
		if (flush->count > 0)
			stats_add(flush->counter, counts, flush->started);
		if (flush->is_part)
		{
			table_mark_dirty(table);
			continue;
		}
		bufferfile_flushed(table);
		flush_wait_done(table, flush->number);
	}
	flushes = NULL;
}

/*
 * flush_failed makes another flush come for sessions that wait for a failed one.
 */
static void
flush_failed(DcFlush *flush)
{
	table_mark_dirty(flush->table);
	flush_wait_refused(flush->table);
}

/*
 * flush_abort undoes the flushes of a transaction that has failed. Must not throw.
 */
void
flush_abort(void)
{
	buffer_scan_end(&scan);
	take_abort();
	for (DcFlush *flush = flushes; flush != NULL; flush = flush->next)
		flush_failed(flush);
	flushes = NULL;
}

/*
 * flush_abort_subxact undoes the flushes of a subtransaction.
 */
void
flush_abort_subxact(int nest)
{
	buffer_scan_end(&scan);
	take_abort_subxact(nest);
	while (flushes != NULL && flushes->nest >= nest)
	{
		flush_failed(flushes);
		flushes = flushes->next;
	}
}

/*
 * flush_commit_subxact gives the flushes of a subtransaction to its parent.
 */
void
flush_commit_subxact(int nest)
{
	take_commit_subxact(nest);
	for (DcFlush *flush = flushes; flush != NULL && flush->nest >= nest; flush = flush->next)
		flush->nest = nest - 1;
}

/*
 * flush_here flushes a table in this transaction, which has a lock on it. It may wait for another
 * transaction's flush. If the table is locked against writers, nothing is in memory for it when
 * this transaction has committed.
 */
void
flush_here(DcCounter *counter)
{
	DcBufferTable *table = table_slot(counter);

	if (table == NULL)
		return;
	(void) flush_lock(counter->relid, true);
	(void) flush_table(counter, table, false, INT_MAX);
}

/*
 * buffer_key_set makes rows have all increments of a key that were committed before. If
 * the flusher cannot do that, this transaction does.
 */
void
buffer_key_set(DcCounter *counter, const DcKey *key)
{
	DcBufferTable *table;
	DcMapEntry *entry;
	DcMapKey map_key;

	if (!counter_is_buffered(counter))
		return;
	table = table_slot(counter);
	if (table == NULL)
		return; /* then there are no entries */
	if (pg_atomic_read_u32(&table->restored) == DC_UNRESOLVED)
		bufferfile_resolve(table);
	buffer_map_key(&map_key, counter->relid, key->data, key->len);
	entry = map_find(buffer_map, &map_key);
	if (entry == NULL)
		return;
	map_unpin(entry);
	if (!flush_wait(table))
		flush_here(counter);
}
