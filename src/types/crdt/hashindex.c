/*
 * hashindex.c
 *		Numbers by the hashes of their keys: which entry of an array is that string's?
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A table of open addressing that is at most three quarters full. It knows no keys: its
 * user compares those of the few numbers it names.
 *
 * The strings come from anybody, and whoever could choose many of one hash would make
 * each look-up go through all of them. So the hash is SipHash (Aumasson, Bernstein
 * 2012), with a key that only this process knows and that is never stored: without it
 * nobody finds strings that meet more often than by chance. It is SipHash-1-3, as in
 * the tables of Rust and Python.
 */
#include "types/crdt/hashindex.h"

#include <string.h>

static uint64_t hash_key[2];

/*
 * Rotate a word to the left by 1 to 63 bits.
 */
static inline uint64_t
hashindex_rotate(uint64_t x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

/*
 * Mix the state of SipHash by one round.
 */
static inline void
sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = hashindex_rotate(v[1], 13) ^ v[0];
	v[3] = hashindex_rotate(v[3], 16) ^ v[2];
	v[0] = hashindex_rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = hashindex_rotate(v[1], 17) ^ v[2];
	v[3] = hashindex_rotate(v[3], 21) ^ v[0];
	v[2] = hashindex_rotate(v[2], 32);
}

/*
 * Add a word of eight bytes to the state of SipHash, with one round, as in SipHash-1-3.
 */
static inline void
sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	v[0] ^= word;
}

/*
 * hashindex_siphash is SipHash-1-3.
 */
uint64_t
hashindex_siphash(const uint64_t key[2], const void *data, size_t len)
{
	const uint8_t *bytes = data;
	uint64_t last = (uint64_t) len << 56;
	uint64_t v[4] = {
		key[0] ^ UINT64_C(0x736f6d6570736575),
		key[1] ^ UINT64_C(0x646f72616e646f6d),
		key[0] ^ UINT64_C(0x6c7967656e657261),
		key[1] ^ UINT64_C(0x7465646279746573)};
	size_t left = len;

	for (; left >= 8; left -= 8, bytes += 8)
		sip_word(v, bytes_load64(bytes));
	for (size_t i = 0; i < left; i++)
		last |= (uint64_t) bytes[i] << (8 * i);
	sip_word(v, last);
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

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
	return (uint32_t) hashindex_siphash(hash_key, data, len);
}

/*
 * hashindex_reserve makes room for so many numbers in all. If there is no memory for
 * it, the table is as it was.
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
 * hashindex_remove removes a number that is there. Those behind it move up, unless that
 * would put them before their hash's place.
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
