/*
 * shardrel.h
 *		A shard table that is open for direct access.
 */
#ifndef DC_SHARDREL_H
#define DC_SHARDREL_H

#include "executor/tuptable.h"
#include "rows/hints.h"
#include "stats/stats.h"
#include "storage/buf.h"
#include "table/catalog.h"
#include "utils/rel.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"

/* Open for one commit or one read; freed by shardrel_close(). */
typedef struct DcShardRel
{
	DcCounter *counter;
	Relation heap;
	Relation index;		  /* NULL until needed */
	TupleTableSlot *slot; /* for the new version of a row */
	BlockNumber nblocks;  /* of heap; never too large, see probe.c */
	Datum *values;		  /* of the row that was found */
	bool *nulls;
	DcApplyStats stats; /* what a commit has met */
} DcShardRel;

/* What became of a hint. */
typedef enum DcProbeResult
{
	DC_PROBE_FREE, /* a live row that no transaction is changing */
	DC_PROBE_BUSY, /* a live row that another one is changing */
	DC_PROBE_GONE  /* nothing there, or another row */
} DcProbeResult;

/* A row that was found; its page stays pinned until probe_release(). */
typedef struct DcProbe
{
	Buffer buffer;
	HeapTupleData tuple;
	TransactionId xid; /* of a busy row: who is changing it */
} DcProbe;

extern void shardrel_open(DcShardRel *rel, DcCounter *counter, bool write);
extern void shardrel_close(DcShardRel *rel);
extern Relation shardrel_index(DcShardRel *rel);

extern DcProbeResult probe_row(DcShardRel *rel, const DcDeltaKey *key,
							   DcHint *hint, DcProbe *probe);
extern bool probe_visible(DcShardRel *rel, const DcDeltaKey *key,
						  DcHint *hint, Snapshot snapshot);
extern void probe_release(DcProbe *probe);
extern bool version_fetch(DcShardRel *rel, Buffer buffer, OffsetNumber offset,
						  bool at_root, TransactionId *xmax, HeapTuple tuple);
extern bool version_has_next(HeapTuple tuple, TransactionId *xmax);
extern bool shardrel_deform(DcShardRel *rel, HeapTuple tuple,
							const DcDeltaKey *key, int32 shard);

#endif /* DC_SHARDREL_H */
