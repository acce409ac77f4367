/*
 * buffer.h
 *		Increments that are kept in memory until they are flushed.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * For each key of a buffered table that has something in memory there is an entry
 * in a map (map.h), and for each such table a slot, both in shared memory.
 *
 * An amount is in one of two places of its key's entry:
 *
 *	- pending: committed, and in no row yet. Committing transactions add to it.
 *	- taken: by a transaction that is writing it to rows, a flush.
 *
 * A taken amount is marked with the id of that transaction. If it commits, the amount is
 * dropped, as rows have it; if it aborts, the amount is pending again (taken.c). In
 * between, and a moment longer, a reader decides by the transaction's visibility
 * in its snapshot whether the amount counts (bufferread.c).
 *
 * Access:
 *
 *	- Pending amounts are atomic variables. A transaction that adds has pinned the entry.
 *	- Taking, dropping or putting back amounts needs the lock of the entry's partition in exclusive
 *	  mode. Reading taken amounts needs it in shared mode. The version of the entry changes whenever
 *	  amounts are taken, dropped or put back. There is one taker at a time: it has the table's flush
 *	  lock, a heavyweight one.
 *	- The slot's lock protects the list of its entries. It is taken after a partition's lock, never
 *	  before. An entry gets another pin only under one of the two locks. So a process that holds
 *	  both, and finds no pins, may remove the entry.
 *	- area->lock protects the assignment of slots to tables, and of flushers to databases. A slot is
 *	  given away only if its table is locked against all other sessions, or gone, and no session
 *	  waits in the slot. So a session that has a lock on the table may use the slot that it
 *	  remembers, if the generation is still the same.
 *	- The other fields of a slot are atomic variables.
 */
#ifndef DC_BUFFER_H
#define DC_BUFFER_H

#include "storage/lock.h"

#include "base/clock.h"
#include "base/hooks.h"
#include "base/key.h"
#include "base/map.h"
#include "base/utility.h"
#include "core/counter/pending.h"
#include "core/counter/read.h"
#include "core/table/catalog.h"

#define DC_BUFFER_TABLES 1024
#define DC_BUFFER_FLUSHERS 128

/* Why the flusher leaves a table to its owner. */
typedef enum DcFlushLeft
{
	DC_NOT_LEFT,
	DC_LEFT_CODE, /* code of the owner can run on it */
	DC_LEFT_LONG  /* to flush what was loaded from the file takes too long */
} DcFlushLeft;

/* The payload of a map entry. */
typedef struct DcBuffer
{
	pg_atomic_uint64 inc; /* pending */
	pg_atomic_uint64 dec;
	pg_atomic_uint64 calls;
	pg_atomic_uint64 at; /* TimestampTz of the last change, for the rows */
	pg_atomic_uint64 version;
	TransactionId taker; /* invalid: nothing is taken */
	int64 taken_inc;
	int64 taken_dec;
	uint32 table;	 /* its slot */
	uint32 next;	 /* in the list of the slot's entries */
	uint32 previous; /* DC_MAP_NONE: the first one */
} DcBuffer;

typedef struct DcBufferTable
{
	Oid database; /* invalid: the slot is free */
	Oid counter;
	pg_atomic_uint32 generation; /* changes when the slot changes hands */
	pg_atomic_uint32 users;		 /* sessions that wait in it, and must not lose it */
	pg_atomic_uint32 reserving;	 /* transactions that are about to add */

	/* of the flusher; see flushwait.c and flushjob.c */
	pg_atomic_uint32 dirty;	   /* something was added since the last flush began */
	pg_atomic_uint64 since;	   /* DcMoment: when */
	pg_atomic_uint64 interval; /* us, as known to the last writer, */
	pg_atomic_uint32 owner;	   /* and the owner of the table; 0: not known */
	pg_atomic_uint64 begun;	   /* flushes that have begun, */
	pg_atomic_uint64 done;	   /* and the last of them that is durable */
	pg_atomic_uint64 refused;  /* times that the flusher could not do it */
	pg_atomic_uint32 waiting;  /* sessions that wait */
	pg_atomic_uint32 left;	   /* DcFlushLeft; if it is, the flusher does not flush it */
	pg_atomic_uint64 last_start;
	pg_atomic_uint64 last_us; /* how long it took */

	/* of readers of many keys; see bufferread.c */
	pg_atomic_uint64 moves_begun;
	pg_atomic_uint64 moves_ended;

	/* amounts of a file may have been flushed before a crash (bufferfile.c) */
	pg_atomic_uint32 restored; /* DcRestored */
	uint64 file_generation;

	LWLock lock;  /* protects the list: */
	uint32 first; /* entry, or DC_MAP_NONE */
	uint32 nentries;
} DcBufferTable;

typedef struct DcFlusher
{
	Oid database;		 /* invalid: free */
	struct Latch *latch; /* NULL: not running */
	pid_t pid;
} DcFlusher;

typedef struct DcBufferArea
{
	LWLock lock;
	pg_atomic_uint32 restored; /* slots that the file is needed for */
	pg_atomic_uint32 pressed;  /* flushers were woken because the map is half full */
	int ntables;			   /* slots beyond were never used */
	DcFlusher flushers[DC_BUFFER_FLUSHERS];
	DcBufferTable tables[DC_BUFFER_TABLES];
} DcBufferArea;

/* The number of entries listed at a time. No entry can be made in the meantime. */
#define DC_SCAN_CHUNK 256

/* Going over the entries of a table; starts with a table and zeros. */
typedef struct DcBufferScan
{
	DcBufferTable *table;
	DcMapEntry *last; /* pinned */
	int count;
	DcMapEntry *entries[DC_SCAN_CHUNK]; /* pinned */
} DcBufferScan;

extern DcBufferArea *buffer_area;
extern DcMap *buffer_map;

static inline DcBuffer *
buffer_of(DcMapEntry *entry)
{
	return map_payload(entry);
}

/*
 * Return true if an entry has an amount that is in no row yet and not
 * being written.
 */
static inline bool
buffer_has_pending(DcBuffer *buffer)
{
	return pg_atomic_read_u64(&buffer->inc) != 0 || pg_atomic_read_u64(&buffer->dec) != 0;
}

/* area.c */
extern void area_init(void *new_area);
extern DcBufferTable *table_slot(DcCounter *counter);
extern DcBufferTable *table_slot_to_add(DcCounter *counter);
extern DcBufferTable *table_slot_find(Oid database, Oid counter);
extern DcBufferTable *table_slot_make(Oid database, Oid counter, Oid owner);
extern void table_slot_free(DcBufferTable *table);
extern void table_mark_dirty(DcBufferTable *table);
extern bool flusher_runs(void);
extern bool flusher_flushes(DcBufferTable *table);
extern bool flusher_takes_too_long(Oid counter);
extern void flusher_wake(void);
extern void buffer_altered(DcCounter *counter, int64 flush_interval);
extern void flusher_enter(void);
extern void flusher_leave(void);
extern void buffer_map_key(DcMapKey *map_key, Oid counter, const char *data,
						   uint32 len);
extern DcMapEntry *buffer_entry(DcBufferTable *table, const DcMapKey *key);
extern bool buffer_remove(DcMapEntry *entry);
extern int buffer_scan_next(DcBufferScan *scan);
extern DcMapEntry *buffer_scan_entry(DcBufferScan *scan);
extern void buffer_scan_end(DcBufferScan *scan);
extern void buffer_forget_amounts(DcBufferTable *table);
extern bool buffer_is_pressed(void);

/* reserve.c */
extern bool buffer_reserve(DcCounter *counter, DcDelta **deltas, int count);
extern bool reserve_is_idle(void);
extern void reserve_commit(void);
extern void reserve_abort(void);

/* taken.c */
extern bool buffer_take(DcMapEntry *entry, DcDelta *amount, TimestampTz *at);
extern bool take_any(void);
extern void take_commit(void);
extern void take_abort(void);
extern void take_commit_subxact(int nest);
extern void take_abort_subxact(int nest);

/* flush.c */
extern bool flush_lock(Oid counter, bool wait);
extern bool flush_table(DcCounter *counter, DcBufferTable *table, bool exactly, int limit);
extern void flush_here(DcCounter *counter);
extern void buffer_key_set(DcCounter *counter, const DcKey *key);
extern bool flush_is_idle(void);
extern void flush_commit(void);
extern void flush_abort(void);
extern void flush_commit_subxact(int nest);
extern void flush_abort_subxact(int nest);

/* flushwait.c */
extern void flush_wait_init(void);
extern void flush_wait_prepare(void);
extern void flush_wait_at_commit(DcBufferTable *table);
extern bool flush_wait(DcBufferTable *table);
extern void flush_wait_done(DcBufferTable *table, uint64 number);
extern void flush_wait_refused(DcBufferTable *table);

/* flushsleep.c */
extern void waiters_add(void);
extern void waiter_prepare(void);
extern void waiter_begin(DcBufferTable *table, uint64 number);
extern void waiter_end(void);
extern int waiter_sleep(int death);
extern void waiters_wake(DcBufferTable *table, uint64 number);
extern void waiters_wake_all(void);

/* flushjob.c */
extern void flush_database(void);

/* bufferread.c */
extern bool buffer_read_keys(DcCounter *counter, DcBuffered *keys, int count);
extern bool buffer_read_all(DcCounter *counter, DcSums *sums);

/* discard.c */
extern void discard_init(void);
extern void discard_truncated(Oid counter);
extern bool discard_is_idle(void);
extern void discard_commit(void);
extern void discard_run_truncate(DcUtility *utility);
extern void discard_gone(DcBufferTable *table);
extern bool discard_is_noted(const DcBufferTable *table);
extern void discard_check_prepare(void);
extern void discard_abort(void);
extern void discard_commit_subxact(int nest);
extern void discard_abort_subxact(int nest);

/* bufferfile.c */
typedef enum DcRestored
{
	DC_NOT_RESTORED,
	DC_RESTORED,  /* in memory from the file, not flushed yet */
	DC_UNRESOLVED /* the same, or flushed before a crash */
} DcRestored;

extern void bufferfile_load(void);
extern void bufferfile_save(int code, Datum arg);
extern void bufferfile_resolve(DcBufferTable *table);
extern void bufferfile_note_flush(DcBufferTable *table);
extern void bufferfile_flushed(DcBufferTable *table);
extern void bufferfile_discarded(DcBufferTable *table);
extern Size bufferfile_size(void);

#endif /* DC_BUFFER_H */
