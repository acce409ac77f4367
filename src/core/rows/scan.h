/*
 * scan.h
 *		Scanning the shard rows of a key by the index (see scan.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SCAN_H
#define DC_SCAN_H

#include "access/genam.h"
#include "access/skey.h"
#include "executor/tuptable.h"
#include "nodes/pg_list.h"
#include "utils/snapshot.h"

#include "core/rows/directrel.h"
#include "core/rows/sums.h"
#include "core/table/catalog.h"

/* Shard numbers that a scan leaves out. */
typedef struct DcKnownShards
{
	int32 *numbers; /* sorted by shard_scan_begin() */
	int count;
} DcKnownShards;

typedef struct DcShardScan
{
	IndexScanDesc index_scan;
	ScanKeyData keys[3]; /* key, bounds of the shard numbers */
	int64 low;			 /* the lower bound, excluded, */
	int64 floor;		 /* and that of the whole scan */
	DcKnownShards known;
	bool started; /* an entry of number `last` has been seen, */
	int32 last;
	bool done;		  /* and nothing more is wanted of it, */
	bool visits_own;  /* unless it is a number of one transaction, or of several in turn (again.c) */
	int stepped_over; /* entries of it since */
	int missed;		  /* entries of it that lead to no visible version */
	List **absent;	  /* numbers found to have none, for MVCC snapshots; or NULL */
} DcShardScan;

extern void shard_scan_begin(DcShardScan *scan, Relation heap, Relation index,
							 Datum key, Snapshot snapshot,
							 DcKnownShards known);
extern void shard_scan_below(DcShardScan *scan, int32 number);
extern void shard_scan_local(DcShardScan *scan);
extern bool shard_scan_next(DcShardScan *scan, TupleTableSlot *slot,
							ItemPointer root, int32 *shard);
extern bool shard_scan_next_entry(DcShardScan *scan, ItemPointer root,
								  int32 *shard);
extern void shard_scan_end(DcShardScan *scan);

/*
 * Called for amounts of a key, which has several of them or one. The key, and what is allocated in
 * the current memory context, live until it returns.
 */
typedef void (*DcRangeVisit)(void *arg, const DcKey *key, int64 inc, int64 dec);

extern void scan_range(DcCounter *counter, DcCounterTable table, Datum from, Datum end, DcRangeVisit visit, void *arg);
extern void scan_hints(DcDirectRel *rel, DcHintList *list);
extern void scan_key_total(DcCounter *counter, const DcKey *key,
						   DcKeyState *state);
extern void scan_key(DcCounter *counter, const DcKey *key, DcKeyState *state);

#endif /* DC_SCAN_H */
