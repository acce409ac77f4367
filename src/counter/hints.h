/*
 * hints.h
 *		Where a backend last saw the shard rows of a key (see hints.c).
 */
#ifndef DC_HINTS_H
#define DC_HINTS_H

#include "counter/pending.h"
#include "storage/itemptr.h"

/* A shard row. `root` is where an index entry of it points or pointed. */
typedef struct DcHint
{
	ItemPointerData root;
	int32 shard;
} DcHint;

/* The shard rows of a key that this backend knows, in no order. */
typedef struct DcHintList
{
	DcDeltaKey key; /* hash key */
	uint32 hash;	/* for simplehash */
	char status;	/* for simplehash */
	int nhints;
	int capacity;
	DcHint *hints;
} DcHintList;

extern DcHintList *hints_find(const DcDeltaKey *key);
extern DcHintList *hints_get(const DcDeltaKey *key);
extern void hints_add(DcHintList *list, ItemPointer root, int32 shard);
extern void hints_remove(DcHintList *list, int i);
extern void hints_make_room(void);

#endif /* DC_HINTS_H */
