/*
 * sorted.h
 *		A sorted set of items (see sorted.c). Does not depend on the server.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SORTED_H
#define DC_SORTED_H

#include <stdint.h>

#define SORTED_NONE UINT32_MAX

/* The links that an item contains. Items have numbers. */
typedef struct DcSortedNode
{
	uint32_t left;
	uint32_t right;
	uint32_t parent;
} DcSortedNode;

/* Where the items are. */
typedef struct DcSortedItems
{
	void *arg;
	DcSortedNode *(*node)(void *arg, uint32_t item);
	uint32_t (*priority)(void *arg, uint32_t item);			   /* random, but never changes */
	int (*compare)(void *arg, const void *key, uint32_t item); /* a key with that of an item */
} DcSortedItems;

extern void sorted_insert(uint32_t *root, const DcSortedItems *items, uint32_t item, const void *key);
extern void sorted_remove(uint32_t *root, const DcSortedItems *items, uint32_t item);
extern uint32_t sorted_first(uint32_t root, const DcSortedItems *items);
extern uint32_t sorted_after(uint32_t root, const DcSortedItems *items, const void *key);
extern uint32_t sorted_next(const DcSortedItems *items, uint32_t item);

#endif /* DC_SORTED_H */
