/*
 * wheel.h
 *		A hierarchical timing wheel (see wheel.c). Does not depend on the server.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_WHEEL_H
#define DC_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#define WHEEL_BITS 6
#define WHEEL_SLOTS (1 << WHEEL_BITS) /* of a level */
#define WHEEL_LEVELS 4

#define WHEEL_NONE UINT32_MAX
#define WHEEL_OUT UINT32_MAX /* in no slot */

/* The links that an item contains. Items have numbers. */
typedef struct DcWheelNode
{
	uint32_t next;
	uint32_t prev;
	uint32_t slot; /* level * WHEEL_SLOTS + slot, or WHEEL_OUT */
} DcWheelNode;

typedef struct DcWheel
{
	uint64_t tick; /* all before it have been turned */
	uint64_t occupied[WHEEL_LEVELS];
	uint64_t count;
	uint32_t heads[WHEEL_LEVELS * WHEEL_SLOTS];
} DcWheel;

/* Where the items are. A deadline may grow at any time; if it shrinks, the item is added again. */
typedef struct DcWheelItems
{
	void *arg;
	DcWheelNode *(*node)(void *arg, uint32_t item);
	uint64_t (*deadline)(void *arg, uint32_t item); /* a tick */
} DcWheelItems;

extern void wheel_init(DcWheel *wheel, uint64_t tick);
extern void wheel_node_init(DcWheelNode *node);
extern void wheel_add(DcWheel *wheel, const DcWheelItems *items, uint32_t item);
extern void wheel_remove(DcWheel *wheel, const DcWheelItems *items, uint32_t item);
extern uint32_t wheel_next(DcWheel *wheel, const DcWheelItems *items, uint64_t now, uint32_t *steps);

static inline bool
wheel_has(const DcWheelNode *node)
{
	return node->slot != WHEEL_OUT;
}

#endif /* DC_WHEEL_H */
