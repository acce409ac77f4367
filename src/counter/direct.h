/*
 * direct.h
 *		Adding to shard rows without SQL (see direct.c).
 */
#ifndef DC_DIRECT_H
#define DC_DIRECT_H

#include "counter/shardrel.h"

extern void direct_add(DcShardRel *rel, const DcDelta *delta, uint64 seed,
					   int32 new_shard);

#endif /* DC_DIRECT_H */
