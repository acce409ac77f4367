/*
 * hints.c
 *		The places at which a backend last saw the shard rows of a key.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Hints save index look-ups and are never trusted. The row that a hint leads to is
 * checked (probe.c), so a stale hint costs a look-up and nothing else.
 * That is why they need no maintenance when a transaction aborts, or
 * when a table is vacuumed, rewritten, truncated or dropped.
 *
 * The cache is private to the backend. It lists as many keys as fit into HINTS_MEMORY; then it
 * is emptied, since hot keys are soon back.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/memutils.h"

#include "core/rows/hints.h"

#define HINTS_MEMORY (4 * 1024 * 1024)

#define SH_PREFIX hintlists
#define SH_ELEMENT_TYPE DcHintList
#define SH_KEY_TYPE DcDeltaKey
#define SH_KEY key
#define SH_HASH_KEY(tb, k) delta_key_hash(&(k))
#define SH_EQUAL(tb, a, b) delta_key_equal(&(a), &(b))
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Below TopMemoryContext; hints_make_room() empties it. */
static MemoryContext hints_cxt = NULL;
static hintlists_hash *hintlists = NULL;

/*
 * hints_make_room creates the cache, or empties it when it is full.
 */
static void
hints_make_room(void)
{
	if (hintlists != NULL &&
		MemoryContextMemAllocated(hints_cxt, true) <= HINTS_MEMORY)
		return;
	if (hints_cxt != NULL)
	{
		hintlists = NULL;
		MemoryContextReset(hints_cxt);
	}
	else
		hints_cxt = AllocSetContextCreate(TopMemoryContext, "dcounter hints",
										  ALLOCSET_DEFAULT_SIZES);
	hintlists = hintlists_create(hints_cxt, 64, NULL);
}

/*
 * hints_find returns the list of a key, or NULL.
 */
DcHintList *
hints_find(const DcDeltaKey *key)
{
	if (hintlists == NULL)
		return NULL;
	return hintlists_lookup(hintlists, *key);
}

/*
 * Return true if this backend knows a shard row of a key.
 */
bool
hints_known(const DcDeltaKey *key)
{
	DcHintList *list = hints_find(key);

	return list != NULL && list->nhints > 0;
}

/*
 * hints_get returns the list of a key, empty if it is new. The pointer is valid until the next
 * call.
 */
DcHintList *
hints_get(const DcDeltaKey *key)
{
	uint32 hash = delta_key_hash(key);
	DcHintList *list;
	DcDeltaKey copy = *key;
	char *data;
	bool found;

	hints_make_room();
	list = hintlists_lookup_hash(hintlists, *key, hash);
	if (list != NULL)
		return list;

	data = MemoryContextAlloc(hints_cxt, key->len + 1);
	memcpy(data, key->data, key->len);
	copy.data = data;
	list = hintlists_insert_hash(hintlists, copy, hash, &found);
	list->nhints = 0;
	list->capacity = 0;
	list->last = -1;
	list->hints = NULL;
	list->absent_in = InvalidLocalTransactionId;
	list->nabsent = 0;
	list->absent_capacity = 0;
	list->absent = NULL;
	return list;
}

/*
 * hints_add remembers a row, or its new place.
 */
void
hints_add(DcHintList *list, ItemPointer root, int32 shard)
{
	for (int i = 0; i < list->nhints; i++)
	{
		if (list->hints[i].shard == shard)
		{
			hint_set(&list->hints[i], root, InvalidOffsetNumber, InvalidBuffer);
			return;
		}
	}
	if (list->nhints == list->capacity)
	{
		int capacity = Max(2, list->capacity * 2);

		if (list->hints == NULL)
			list->hints = MemoryContextAlloc(hints_cxt, capacity * sizeof(DcHint));
		else
			list->hints = repalloc(list->hints, capacity * sizeof(DcHint));
		list->capacity = capacity;
	}
	list->hints[list->nhints].shard = shard;
	hint_set(&list->hints[list->nhints], root, InvalidOffsetNumber, InvalidBuffer);
	list->nhints++;
}

/*
 * hints_add_absent remembers a number for which this transaction sees no row.
 */
void
hints_add_absent(DcHintList *list, int32 shard)
{
	if (list->nabsent == list->absent_capacity)
	{
		int capacity = Max(16, list->absent_capacity * 2);

		if (list->absent == NULL)
			list->absent = MemoryContextAlloc(hints_cxt, capacity * sizeof(int32));
		else
			list->absent = repalloc(list->absent, capacity * sizeof(int32));
		list->absent_capacity = capacity;
	}
	list->absent[list->nabsent++] = shard;
}

/*
 * hint_set notes where a row is now.
 */
void
hint_set(DcHint *hint, ItemPointer root, OffsetNumber newest, Buffer buffer)
{
	hint->root = *root;
	hint->newest = newest;
	hint->buffer = buffer;
}

/*
 * hints_clear forgets all rows of a key.
 */
void
hints_clear(DcHintList *list)
{
	list->nhints = 0;
	list->last = -1;
}

/*
 * hints_remove forgets a row; the last of the list takes its index.
 */
void
hints_remove(DcHintList *list, int i)
{
	int moved = --list->nhints;

	list->hints[i] = list->hints[moved];
	if (list->last == i)
		list->last = -1;
	else if (list->last == moved)
		list->last = i;
}
