/*
 * hinttable.c
 *		A table of places of shard rows, without locks.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An entry is found by the hash of a key and by its fields. The entries of a key are within
 * HINT_WINDOW places from where its hash leads to. If all of these are in use, any of them
 * makes room. A place that was used never becomes empty again, but only free, so the entries of
 * a key end at the first empty place.
 *
 * Any number of processes read and write at the same time. Nothing is locked, and only single
 * words are read and written whole: a result may be a mixture of entries, or belong to another
 * key. The caller must check that (sharedhints.c). Whatever is in the table, each call ends
 * after HINT_WINDOW places, no call leaves the table, and a result has the requested database
 * and counter, and each number once. Two processes that put the same row at the same time may
 * put it twice; then the first one is found.
 *
 * This file does not depend on the server.
 */
#include "core/rows/hinttable.h"

/* Instead of a hash: a place that was never used, and one that is free again. */
#define HASH_EMPTY 0
#define HASH_FREE 1
#define HASH_FIRST 2

/*
 * Return a hash that is none of the marks that stand for empty and free places.
 */
static uint32_t
hinttable_usable(uint32_t hash)
{
	return hash < HASH_FIRST ? HASH_FIRST : hash;
}

/*
 * read_entry copies an entry, field by field.
 */
static void
read_entry(volatile DcHintTable *table, uint32_t place, DcHintEntry *entry)
{
	volatile DcHintEntry *from = &table->entries[place];

	entry->database = from->database;
	entry->counter = from->counter;
	entry->shard = from->shard;
	entry->block = from->block;
	entry->offset = from->offset;
}

/*
 * hinttable_next_entry copies the next entry of a key, from the i-th place of its window on, and
 * returns its place, or -1. *i moves on.
 */
static int32_t
hinttable_next_entry(volatile DcHintTable *table, uint32_t hash, uint32_t database, uint32_t counter,
					 uint32_t *i, DcHintEntry *entry)
{
	while (*i < HINT_WINDOW)
	{
		uint32_t place = (hash + (*i)++) & (HINT_PLACES - 1);
		uint32_t found = table->hashes[place];

		if (found == HASH_EMPTY)
			break;
		if (found != hash)
			continue;
		read_entry(table, place, entry);
		if (entry->database == database && entry->counter == counter)
			return (int32_t) place;
	}
	return -1;
}

/*
 * find_shard copies the entry of a row, and returns its place, or -1.
 */
static int32_t
find_shard(volatile DcHintTable *table, uint32_t hash, const DcHintEntry *wanted,
		   DcHintEntry *entry)
{
	uint32_t i = 0;
	int32_t place;

	do
		place = hinttable_next_entry(table, hash, wanted->database, wanted->counter, &i, entry);
	while (place >= 0 && entry->shard != wanted->shard);
	return place;
}

/*
 * find_room returns a place for another entry: one without, or any.
 */
static uint32_t
find_room(volatile DcHintTable *table, uint32_t hash, uint32_t random)
{
	for (uint32_t i = 0; i < HINT_WINDOW; i++)
	{
		uint32_t place = (hash + i) & (HINT_PLACES - 1);

		if (table->hashes[place] < HASH_FIRST)
			return place;
	}
	return (hash + random % HINT_WINDOW) & (HINT_PLACES - 1);
}

/*
 * hinttable_put enters a row, or its new place.
 */
void
hinttable_put(volatile DcHintTable *table, uint32_t hash, const DcHintEntry *entry,
			  uint32_t random)
{
	DcHintEntry old;
	int32_t place;
	volatile DcHintEntry *to;

	hash = hinttable_usable(hash);
	place = find_shard(table, hash, entry, &old);
	if (place < 0)
		place = (int32_t) find_room(table, hash, random);
	to = &table->entries[place];
	to->database = entry->database;
	to->counter = entry->counter;
	to->shard = entry->shard;
	to->block = entry->block;
	to->offset = entry->offset;
	table->hashes[place] = hash;
}

/*
 * hinttable_remove forgets a row.
 */
void
hinttable_remove(volatile DcHintTable *table, uint32_t hash, const DcHintEntry *entry)
{
	DcHintEntry old;
	int32_t place = find_shard(table, hinttable_usable(hash), entry, &old);

	if (place >= 0)
		table->hashes[place] = HASH_FREE;
}

/*
 * hinttable_find completes an entry whose database, counter and shard are given; false if there
 * is none.
 */
bool
hinttable_find(volatile DcHintTable *table, uint32_t hash, DcHintEntry *entry)
{
	DcHintEntry found;

	if (find_shard(table, hinttable_usable(hash), entry, &found) < 0)
		return false;
	*entry = found;
	return true;
}

/*
 * hinttable_read lists the rows of a key, each number once, and returns how many; at most
 * HINT_WINDOW.
 */
int
hinttable_read(volatile DcHintTable *table, uint32_t hash, uint32_t database,
			   uint32_t counter, DcHintEntry *entries)
{
	uint32_t i = 0;
	int count = 0;

	hash = hinttable_usable(hash);
	while (hinttable_next_entry(table, hash, database, counter, &i, &entries[count]) >= 0)
	{
		int j = 0;

		while (entries[j].shard != entries[count].shard)
			j++;
		if (j == count)
			count++;
		if (count == HINT_WINDOW)
			break;
	}
	return count;
}
