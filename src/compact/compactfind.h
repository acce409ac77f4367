/*
 * compactfind.h
 *		Finding the shard rows of a batch without SQL (see compactfind.c).
 */
#ifndef DC_COMPACTFIND_H
#define DC_COMPACTFIND_H

#include "access/relscan.h"
#include "compact/compactbatch.h"
#include "executor/tuptable.h"
#include "utils/snapshot.h"

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
	DcLiveRow *rows; /* that are live, and that nobody is writing */
	int nrows;
	int capacity;
	bool cut; /* there are more */
} DcFetch;

extern void fetch_begin(DcFetch *fetch, DcBatch *batch, DcSweep *sweep);
extern void fetch_take_key(DcFetch *fetch);
extern void fetch_pass_key(DcFetch *fetch);
extern void fetch_rows(DcFetch *fetch);
extern void fetch_many_rows(DcFetch *fetch);
extern void fetch_end(DcFetch *fetch);

#endif /* DC_COMPACTFIND_H */
