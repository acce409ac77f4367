/*
 * clear.h
 *		Locking shard rows for compaction, and clearing them (see clear.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_CLEAR_H
#define DC_CLEAR_H

#include "core/rows/directrel.h"

/* A version of a shard row that was live, as it was read. */
typedef struct DcLiveRow
{
	ItemPointerData tid;
	int32 shard;
	int64 inc;
	int64 dec;
	TimestampTz at;
} DcLiveRow;

extern bool row_lock(DcDirectRel *rel, const DcLiveRow *row);
extern void row_zero(DcDirectRel *rel, const DcDeltaKey *key, const DcLiveRow *row);
extern void row_delete(DcDirectRel *rel, const DcDeltaKey *key, const DcLiveRow *row);

#endif /* DC_CLEAR_H */
