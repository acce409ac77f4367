/*
 * hashindex.h
 *		Numbers by the hashes of their keys (see hashindex.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_HASHINDEX_H
#define DC_HASHINDEX_H

#include "types/sketch/bytes.h"
#include "types/sketch/memory.h"

typedef struct HashIndexSlot
{
	uint32_t hash;
	uint32_t number; /* plus one; 0 is an empty slot */
} HashIndexSlot;

typedef struct HashIndex
{
	HashIndexSlot *slots;
	size_t size; /* 0 or a power of two */
	size_t n;
} HashIndex;

/* Goes through the numbers whose keys may have a hash. */
typedef struct HashIndexIter
{
	uint32_t hash;
	size_t at;
} HashIndexIter;

extern uint32_t hashindex_hash(const void *data, size_t len);
extern void hashindex_seed(uint64_t first, uint64_t second);
extern void hashindex_reserve(HashIndex *index, size_t n);
extern void hashindex_put(HashIndex *index, uint32_t hash, uint32_t number);
extern void hashindex_remove(HashIndex *index, uint32_t hash, uint32_t number);
extern void hashindex_clear(HashIndex *index);
extern void hashindex_copy(HashIndex *copy, const HashIndex *index);
extern void hashindex_free(HashIndex *index);

static inline HashIndexIter
hashindex_find(const HashIndex *index, uint32_t hash)
{
	return (HashIndexIter){hash, index->size == 0 ? 0 : hash & (index->size - 1)};
}

static inline bool
hashindex_next(const HashIndex *index, HashIndexIter *iter, uint32_t *number)
{
	while (index->size > 0 && index->slots[iter->at].number > 0)
	{
		const HashIndexSlot *slot = &index->slots[iter->at];

		iter->at = (iter->at + 1) & (index->size - 1);
		if (slot->hash == iter->hash)
		{
			*number = slot->number - 1;
			return true;
		}
	}
	return false;
}

#endif /* DC_HASHINDEX_H */
