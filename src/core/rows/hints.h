/*
 * hints.h
 *		The places at which a backend last saw the shard rows of a key (see hints.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_HINTS_H
#define DC_HINTS_H

#include "storage/buf.h"
#include "storage/itemptr.h"
#include "storage/lock.h"

#include "core/rows/delta.h"

/*
 * A shard row. `root` is where an index entry of it points or pointed, `newest`
 * the line on that page of the version last seen (or InvalidOffsetNumber),
 * `buffer` where the page was in memory.
 */
typedef struct DcHint
{
	ItemPointerData root;
	OffsetNumber newest;
	int32 shard;
	Buffer buffer;
} DcHint;

/* The shard rows of a key that this backend knows, in no order. */
typedef struct DcHintList
{
	DcDeltaKey key; /* hash key */
	uint32 hash;	/* for simplehash */
	char status;	/* for simplehash */
	int nhints;
	int capacity;
	int last; /* the row that was last written to, or -1 */
	DcHint *hints;
	LocalTransactionId absent_in; /* the transaction that sees no rows of */
	int nabsent;				  /* these numbers */
	int absent_capacity;
	int32 *absent;
} DcHintList;

extern DcHintList *hints_find(const DcDeltaKey *key);
extern bool hints_known(const DcDeltaKey *key);
extern DcHintList *hints_get(const DcDeltaKey *key);
extern void hints_add(DcHintList *list, ItemPointer root, int32 shard);
extern void hints_add_absent(DcHintList *list, int32 shard);
extern void hint_set(DcHint *hint, ItemPointer root, OffsetNumber newest,
					 Buffer buffer);
extern void hints_clear(DcHintList *list);
extern void hints_remove(DcHintList *list, int i);

#endif /* DC_HINTS_H */
