/*
 * hinttable.h
 *		A table of places of shard rows, without locks (see hinttable.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_HINTTABLE_H
#define DC_HINTTABLE_H

#include <stdbool.h>
#include <stdint.h>

#define HINT_PLACES 16384 /* a power of 2 */
#define HINT_WINDOW 64	  /* places in which the rows of a key are */

/* A row and where it is. Each field is a word, so that it is read and written at once. */
typedef struct DcHintEntry
{
	uint32_t database;
	uint32_t counter;
	int32_t shard;
	uint32_t block;
	uint32_t offset;
} DcHintEntry;

typedef struct DcHintTable
{
	uint32_t hashes[HINT_PLACES]; /* separate, so that a search reads few cache lines */
	DcHintEntry entries[HINT_PLACES];
} DcHintTable;

extern void hinttable_put(volatile DcHintTable *table, uint32_t hash, const DcHintEntry *entry,
						  uint32_t random);
extern void hinttable_remove(volatile DcHintTable *table, uint32_t hash,
							 const DcHintEntry *entry);
extern bool hinttable_find(volatile DcHintTable *table, uint32_t hash, DcHintEntry *entry);
extern int hinttable_read(volatile DcHintTable *table, uint32_t hash, uint32_t database,
						  uint32_t counter, DcHintEntry *entries);

#endif /* DC_HINTTABLE_H */
