/*
 * sorted.c
 *		A sorted set of items, of any size: a treap.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It is a binary tree by key, and a heap by priority: no item has a higher one than its parent. If
 * priorities are random, the tree is like one of keys inserted in random order: about twice as deep
 * as the best one. Inserting compares on the way down; removing compares nothing, as items know
 * their parents. Each rotates twice on average.
 */
#include "memory/presence/sorted.h"

static void put_in_place(uint32_t *root, const DcSortedItems *items, uint32_t parent, uint32_t old, uint32_t item);
static void rotate_up(uint32_t *root, const DcSortedItems *items, uint32_t item);

/*
 * Return the node of an item.
 */
static DcSortedNode *
node_of(const DcSortedItems *items, uint32_t item)
{
	return items->node(items->arg, item);
}

/*
 * sorted_insert inserts an item, whose key is in no other.
 */
void
sorted_insert(uint32_t *root, const DcSortedItems *items, uint32_t item, const void *key)
{
	DcSortedNode *node = node_of(items, item);
	uint32_t parent = SORTED_NONE;
	uint32_t *place = root;
	uint32_t priority = items->priority(items->arg, item);

	while (*place != SORTED_NONE)
	{
		parent = *place;
		if (items->compare(items->arg, key, parent) < 0)
			place = &node_of(items, parent)->left;
		else
			place = &node_of(items, parent)->right;
	}
	*place = item;
	node->left = node->right = SORTED_NONE;
	node->parent = parent;
	while (node->parent != SORTED_NONE && items->priority(items->arg, node->parent) < priority)
		rotate_up(root, items, item);
}

/*
 * sorted_remove removes an item.
 */
void
sorted_remove(uint32_t *root, const DcSortedItems *items, uint32_t item)
{
	DcSortedNode *node = node_of(items, item);
	uint32_t child;

	while (node->left != SORTED_NONE && node->right != SORTED_NONE)
	{
		if (items->priority(items->arg, node->left) < items->priority(items->arg, node->right))
			rotate_up(root, items, node->right);
		else
			rotate_up(root, items, node->left);
	}
	child = node->left != SORTED_NONE ? node->left : node->right;
	put_in_place(root, items, node->parent, item, child);
}

/*
 * sorted_first returns the item with the lowest key, sorted_after the first one behind a key, and
 * sorted_next the one behind an item.
 */
uint32_t
sorted_first(uint32_t root, const DcSortedItems *items)
{
	uint32_t item = root;

	while (item != SORTED_NONE && node_of(items, item)->left != SORTED_NONE)
		item = node_of(items, item)->left;
	return item;
}

/*
 * Return the first item behind a key, which need not be in the set, or SORTED_NONE.
 */
uint32_t
sorted_after(uint32_t root, const DcSortedItems *items, const void *key)
{
	uint32_t found = SORTED_NONE;
	uint32_t item = root;

	while (item != SORTED_NONE)
	{
		if (items->compare(items->arg, key, item) < 0)
		{
			found = item;
			item = node_of(items, item)->left;
		}
		else
			item = node_of(items, item)->right;
	}
	return found;
}

/*
 * Return the item after this one, or SORTED_NONE.
 */
uint32_t
sorted_next(const DcSortedItems *items, uint32_t item)
{
	const DcSortedNode *node = node_of(items, item);

	if (node->right != SORTED_NONE)
		return sorted_first(node->right, items);
	while (node->parent != SORTED_NONE && node_of(items, node->parent)->right == item)
	{
		item = node->parent;
		node = node_of(items, item);
	}
	return node->parent;
}

/*
 * put_in_place makes an item, or none, the child of a parent, in place of another one.
 */
static void
put_in_place(uint32_t *root, const DcSortedItems *items, uint32_t parent, uint32_t old, uint32_t item)
{
	if (parent == SORTED_NONE)
		*root = item;
	else if (node_of(items, parent)->left == old)
		node_of(items, parent)->left = item;
	else
		node_of(items, parent)->right = item;
	if (item != SORTED_NONE)
		node_of(items, item)->parent = parent;
}

/*
 * rotate_up makes an item the parent of its parent.
 */
static void
rotate_up(uint32_t *root, const DcSortedItems *items, uint32_t item)
{
	DcSortedNode *node = node_of(items, item);
	uint32_t parent = node->parent;
	DcSortedNode *above = node_of(items, parent);

	put_in_place(root, items, above->parent, parent, item);
	if (above->left == item)
	{
		above->left = node->right;
		if (node->right != SORTED_NONE)
			node_of(items, node->right)->parent = parent;
		node->right = parent;
	}
	else
	{
		above->right = node->left;
		if (node->left != SORTED_NONE)
			node_of(items, node->left)->parent = parent;
		node->left = parent;
	}
	above->parent = item;
}
