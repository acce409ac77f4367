/*
 * direct.h
 *		Adding to shard rows without SQL (see direct.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_DIRECT_H
#define DC_DIRECT_H

#include "access/genam.h"

#include "core/rows/probe.h"

/*
 * The choice of the row of a key that is tried first: any (random), the one that
 * this backend wrote to last (backend), or the one for a value (hash). `seed` is
 * random, of the backend or of the value.
 */
typedef struct DcShardChoice
{
	DcShardBy by;
	uint64 seed;
} DcShardChoice;

/* How to take a row that is free. */
typedef enum DcRowHow
{
	ROW_TRY,  /* update it */
	ROW_LOCK, /* lock it first, without waiting */
	ROW_WAIT  /* lock it first, and wait for that */
} DcRowHow;

extern void direct_add(DcDirectRel *rel, const DcDelta *delta,
					   DcShardChoice choice, int32 new_shard,
					   DcDirectTables *totals_first);
extern void direct_insert(DcDirectRel *rel, const DcDelta *delta,
						  int32 new_shard);
extern bool direct_has_room(DcDirectRel *rel, const DcDelta *delta);
extern bool direct_update(DcDirectRel *rel, const DcDelta *delta, DcHint *hint,
						  DcVersion *version, DcRowHow how);
extern void direct_insert_row(DcDirectRel *rel, const DcDelta *delta,
							  DcHintList *list, int32 shard);
extern void direct_insert_number(DcDirectRel *rel, const DcDelta *delta,
								 int32 shard, ItemPointer root);
extern bool direct_set_zero(DcDirectRel *rel, const DcDeltaKey *key, int32 shard,
							TimestampTz at, ItemPointer tid);
extern bool direct_try_insert(DcDirectRel *rel, const DcDelta *delta, int32 shard,
							  ItemPointer root);
extern void direct_insert_again(DcDirectRel *rel, const DcDelta *delta,
								int32 shard, ItemPointer root);

extern bool direct_lock(DcDirectRel *rel, DcVersion *version, bool wait);
extern bool direct_replace(DcDirectRel *rel, DcHint *hint, DcVersion *version,
						   bool locked);
extern bool direct_index_entries(DcDirectRel *rel, ItemPointer tid,
								 IndexUniqueCheck check);

#endif /* DC_DIRECT_H */
