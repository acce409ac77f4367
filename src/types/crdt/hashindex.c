/*
 * hashindex.c
 *		Numbers by the hashes of their keys: which entry of an array is that string's?
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A table of open addressing that is at most three quarters full. It knows no keys: its
 * user compares those of the few numbers it names.
 *
 * The strings come from untrusted users. With many strings of one hash, a user could make each
 * look-up go through all of them. So the hash is SipHash (base/siphash.h), with a key that only
 * this process knows and that is never stored.
 */
#include "types/crdt/hashindex.h"

#include <string.h>

#include "base/siphash.h"

static uint64_t hash_key[2];

/*
 * hashindex_seed sets this process's key. Tables that are there are of no use after it.
 */
void
hashindex_seed(uint64_t first, uint64_t second)
{
	hash_key[0] = first;
	hash_key[1] = second;
}

/*
 * Return the hash of a key, under this process's secret.
 */
uint32_t
hashindex_hash(const void *data, size_t len)
{
	return (uint32_t) siphash_hash(hash_key, data, len);
}

/*
 * hashindex_reserve makes room for this many numbers in total. If there is no memory for that, the
 * table stays unchanged.
 */
void
hashindex_reserve(HashIndex *index, size_t n)
{
	size_t size = index->size == 0 ? 16 : index->size;
	HashIndex larger;

	while (size / 4 * 3 < n)
		size *= 2;
	if (size == index->size)
		return;
	larger.slots = sketch_alloc_huge(size * sizeof(HashIndexSlot));
	memset(larger.slots, 0, size * sizeof(HashIndexSlot));
	larger.size = size;
	larger.n = 0;
	for (size_t i = 0; i < index->size; i++)
	{
		if (index->slots[i].number > 0)
			hashindex_put(&larger, index->slots[i].hash, index->slots[i].number - 1);
	}
	hashindex_free(index);
	*index = larger;
}

/*
 * hashindex_put adds a number, for which there is room.
 */
void
hashindex_put(HashIndex *index, uint32_t hash, uint32_t number)
{
	size_t mask = index->size - 1;
	size_t at = hash & mask;

	while (index->slots[at].number > 0)
		at = (at + 1) & mask;
	index->slots[at] = (HashIndexSlot){hash, number + 1};
	index->n++;
}

/*
 * hashindex_remove removes an existing number. Those behind it move up, unless that would put them
 * before their hash's place.
 */
void
hashindex_remove(HashIndex *index, uint32_t hash, uint32_t number)
{
	size_t mask = index->size - 1;
	size_t hole = hash & mask;

	while (index->slots[hole].number != number + 1)
		hole = (hole + 1) & mask;
	for (size_t at = (hole + 1) & mask; index->slots[at].number > 0; at = (at + 1) & mask)
	{
		size_t home = index->slots[at].hash & mask;

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		index->slots[hole] = index->slots[at];
		hole = at;
	}
	index->slots[hole].number = 0;
	index->n--;
}

/*
 * Remove all numbers; the table keeps its size.
 */
void
hashindex_clear(HashIndex *index)
{
	if (index->size > 0)
		memset(index->slots, 0, index->size * sizeof(HashIndexSlot));
	index->n = 0;
}

/*
 * Make a copy of a table, of the same size.
 */
void
hashindex_copy(HashIndex *copy, const HashIndex *index)
{
	*copy = (HashIndex){NULL, 0, 0};
	if (index->size == 0)
		return;
	copy->slots = sketch_alloc_huge(index->size * sizeof(HashIndexSlot));
	memcpy(copy->slots, index->slots, index->size * sizeof(HashIndexSlot));
	copy->size = index->size;
	copy->n = index->n;
}

/*
 * Free a table's memory, and leave it empty.
 */
void
hashindex_free(HashIndex *index)
{
	if (index->slots != NULL)
		sketch_free(index->slots);
	*index = (HashIndex){NULL, 0, 0};
}
