/*
 * scan.h
 *		Scanning the shard rows of a key by the index (see scan.c).
 */
#ifndef DC_SCAN_H
#define DC_SCAN_H

#include "access/genam.h"
#include "access/skey.h"
#include "base/catalog.h"
#include "counter/read.h"
#include "executor/tuptable.h"
#include "utils/snapshot.h"

typedef struct DcShardScan
{
	IndexScanDesc index_scan;
	ScanKeyData keys[2]; /* key, highest shard number */
	bool found;			 /* a visible row of number `last` */
	int32 last;
} DcShardScan;

extern void shard_scan_begin(DcShardScan *scan, Relation heap, Relation index,
							 Datum key, Snapshot snapshot);
extern bool shard_scan_next(DcShardScan *scan, TupleTableSlot *slot,
							ItemPointer root, int32 *shard);
extern void shard_scan_end(DcShardScan *scan);

extern void scan_key(DcCounter *counter, const DcKey *key, DcKeyState *state);

#endif /* DC_SCAN_H */
