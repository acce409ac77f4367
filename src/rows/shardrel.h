/*
 * shardrel.h
 *		A shard table that is open for direct access.
 */
#ifndef DC_SHARDREL_H
#define DC_SHARDREL_H

#include "base/hooks.h"
#include "executor/tuptable.h"
#include "rows/hints.h"
#include "table/catalog.h"
#include "utils/rel.h"

/* Open for one commit or one read; freed by shardrel_close(). */
typedef struct DcShardRel
{
	DcCounter *counter;
	Relation heap;
	Relation index;		  /* NULL until needed */
	TupleTableSlot *slot; /* for the new version of a row */
	BlockNumber nblocks;  /* of heap; never too large, see versions.c */
	Datum *values;		  /* of the row that was found */
	bool *nulls;
	DcApplyStats stats; /* of a commit */
} DcShardRel;

extern void shardrel_open(DcShardRel *rel, DcCounter *counter, bool write);
extern void shardrel_close(DcShardRel *rel);
extern Relation shardrel_index(DcShardRel *rel);
extern bool shardrel_deform(DcShardRel *rel, HeapTuple tuple,
							const DcDeltaKey *key, int32 shard);

#endif /* DC_SHARDREL_H */
