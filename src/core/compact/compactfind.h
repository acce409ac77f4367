/*
 * compactfind.h
 *		Finding the shard rows of a batch without SQL (see compactfind.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_COMPACTFIND_H
#define DC_COMPACTFIND_H

#include "access/relscan.h"
#include "executor/tuptable.h"
#include "utils/snapshot.h"

#include "core/compact/compactbatch.h"

/* Looking for the rows of a batch. */
typedef struct DcFetch
{
	DcBatch *batch;
	DcSweep *sweep;
	DcDirectRel *rel;
	IndexScanDesc scan; /* over all keys, */
	Datum start;		/* from here on, */
	SnapshotData dirty;
	TupleTableSlot *slot;
	int visited; /* entries */
	bool at_end; /* or at an entry of this number: */
	int32 shard;
	MemoryContext key_cxt; /* for what belongs to one key: */
	Datum key;			   /* text */
	DcDeltaKey delta_key;
	int64 below;	 /* only rows with lower numbers */
	DcLiveRow *rows; /* the live rows that no other transaction is writing */
	int nrows;
	int capacity;
	bool cut;	  /* there are more, */
	int32 cut_at; /* with lower numbers than this */
} DcFetch;

/*
 * Entries that a batch visits, for each row that it may have. Rows that are kept, rows that other
 * transactions are writing, and dead rows add nothing to a batch: without a limit one batch would
 * visit all of them.
 */
#define ENTRIES_PER_ROW 10

static inline bool
fetch_is_long(const DcFetch *fetch)
{
	return fetch->visited >= ENTRIES_PER_ROW * fetch->batch->max_rows;
}

extern void fetch_begin(DcFetch *fetch, DcBatch *batch, DcSweep *sweep);
extern void fetch_take_key(DcFetch *fetch);
extern void fetch_pass_key(DcFetch *fetch);
extern void fetch_rows(DcFetch *fetch);
extern void fetch_many_rows(DcFetch *fetch);
extern void fetch_end(DcFetch *fetch);
extern void sweep_note_busy(DcSweep *sweep, Datum key);

#endif /* DC_COMPACTFIND_H */
