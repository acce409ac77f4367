/*
 * wheel.c
 *		A hierarchical timing wheel: which items are due, without looking at the others.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Time is in ticks. An item has a deadline, the tick at which it is due. A slot of the first level
 * is for one tick, one of the next level for 64, and so on: slot n of a level is for those ticks
 * that have n in the level's six bits. An item is on the first level where its deadline is less
 * than 64 slots ahead, in that slot. So on higher levels no item is ever put into the present slot:
 * its items were there before its time began, and are moved to lower levels, one at a time. An item
 * is moved three times at most.
 *
 * Moves are lazy: putting off a deadline, as a heartbeat does, does not touch the wheel. The item
 * is found in its old slot, and then moved. An item further away than the wheel reaches is put as
 * far as that, and found there as one whose deadline was put off.
 *
 * Turning can be interrupted after any number of steps, each of which looks at one item or skips
 * empty slots. The wheel may be late. That makes nothing due twice, and loses nothing. Items that
 * are added with a deadline in the past are due next.
 */
#include "memory/presence/wheel.h"

static void wheel_place(DcWheel *wheel, const DcWheelItems *items, uint32_t item, uint64_t deadline);
static void link_item(DcWheel *wheel, const DcWheelItems *items, uint32_t item, uint32_t slot);
static void unlink_item(DcWheel *wheel, const DcWheelItems *items, uint32_t item);
static uint32_t present_item(const DcWheel *wheel);
static void wheel_advance(DcWheel *wheel, uint64_t now);

/* a tick's slot on a level, counted from the beginning of time */
static uint64_t
level_slot(uint64_t tick, int level)
{
	return tick >> (WHEEL_BITS * level);
}

/*
 * Return the bit of a slot in its level's map of occupied slots.
 */
static uint64_t
slot_bit(uint64_t slot)
{
	return UINT64_C(1) << (slot % WHEEL_SLOTS);
}

/*
 * wheel_init creates an empty wheel at a tick.
 */
void
wheel_init(DcWheel *wheel, uint64_t tick)
{
	wheel->tick = tick;
	wheel->count = 0;
	for (int i = 0; i < WHEEL_LEVELS; i++)
		wheel->occupied[i] = 0;
	for (int i = 0; i < WHEEL_LEVELS * WHEEL_SLOTS; i++)
		wheel->heads[i] = WHEEL_NONE;
}

/*
 * Initialize the node of an item that is not in a wheel.
 */
void
wheel_node_init(DcWheelNode *node)
{
	node->next = node->prev = WHEEL_NONE;
	node->slot = WHEEL_OUT;
}

/*
 * wheel_add adds an item that is not in the wheel, by its deadline.
 */
void
wheel_add(DcWheel *wheel, const DcWheelItems *items, uint32_t item)
{
	wheel_place(wheel, items, item, items->deadline(items->arg, item));
	wheel->count++;
}

/*
 * wheel_remove removes an item that is in the wheel.
 */
void
wheel_remove(DcWheel *wheel, const DcWheelItems *items, uint32_t item)
{
	unlink_item(wheel, items, item);
	wheel->count--;
}

/*
 * wheel_next turns the wheel up to a tick, and removes and returns an item that is due by then.
 * WHEEL_NONE: there is no more, and the wheel is past that tick, or the steps are used up: then
 * there may be.
 */
uint32_t
wheel_next(DcWheel *wheel, const DcWheelItems *items, uint64_t now, uint32_t *steps)
{
	while (wheel->tick <= now && *steps > 0)
	{
		uint32_t item = present_item(wheel);
		uint64_t deadline;

		(*steps)--;
		if (item == WHEEL_NONE)
		{
			wheel_advance(wheel, now);
			continue;
		}
		unlink_item(wheel, items, item);
		deadline = items->deadline(items->arg, item);
		if (deadline <= wheel->tick)
		{
			wheel->count--;
			return item;
		}
		wheel_place(wheel, items, item, deadline);
	}
	return WHEEL_NONE;
}

/*
 * present_item returns an item of the present slot of any level, the higher first.
 */
static uint32_t
present_item(const DcWheel *wheel)
{
	for (int level = WHEEL_LEVELS - 1; level >= 0; level--)
	{
		uint64_t slot = level_slot(wheel->tick, level);

		if (wheel->occupied[level] & slot_bit(slot))
			return wheel->heads[(uint64_t) level * WHEEL_SLOTS + slot % WHEEL_SLOTS];
	}
	return WHEEL_NONE;
}

/*
 * wheel_place puts an item into the slot of a deadline.
 */
static void
wheel_place(DcWheel *wheel, const DcWheelItems *items, uint32_t item, uint64_t deadline)
{
	uint64_t slots;
	int level = 0;

	if (deadline < wheel->tick)
		deadline = wheel->tick;
	for (;; level++)
	{
		slots = level_slot(deadline, level) - level_slot(wheel->tick, level);
		if (slots < WHEEL_SLOTS)
			break;
		if (level == WHEEL_LEVELS - 1)
		{
			slots = WHEEL_SLOTS - 1;
			break;
		}
	}
	link_item(wheel, items, item,
			  (uint32_t) ((uint64_t) level * WHEEL_SLOTS + (level_slot(wheel->tick, level) + slots) % WHEEL_SLOTS));
}

/*
 * Put an item at the front of a slot's list.
 */
static void
link_item(DcWheel *wheel, const DcWheelItems *items, uint32_t item, uint32_t slot)
{
	DcWheelNode *node = items->node(items->arg, item);

	node->slot = slot;
	node->prev = WHEEL_NONE;
	node->next = wheel->heads[slot];
	if (node->next != WHEEL_NONE)
		items->node(items->arg, node->next)->prev = item;
	wheel->heads[slot] = item;
	wheel->occupied[slot / WHEEL_SLOTS] |= slot_bit(slot);
}

/*
 * Take an item out of its slot.
 */
static void
unlink_item(DcWheel *wheel, const DcWheelItems *items, uint32_t item)
{
	DcWheelNode *node = items->node(items->arg, item);

	if (node->next != WHEEL_NONE)
		items->node(items->arg, node->next)->prev = node->prev;
	if (node->prev != WHEEL_NONE)
		items->node(items->arg, node->prev)->next = node->next;
	else
	{
		wheel->heads[node->slot] = node->next;
		if (node->next == WHEEL_NONE)
			wheel->occupied[node->slot / WHEEL_SLOTS] &= ~slot_bit(node->slot);
	}
	wheel_node_init(node);
}

/*
 * wheel_advance goes on to the next tick at which there may be an item in a present slot; not past
 * now + 1. The present slots are empty. Below the lowest level that has items nothing has to be
 * checked; on that level, items after the present slot come first, and the others are in the next
 * round, before which the next level's slot begins.
 */
static void
wheel_advance(DcWheel *wheel, uint64_t now)
{
	uint64_t next = now + 1;

	for (int level = 0; level < WHEEL_LEVELS; level++)
	{
		uint64_t slot = level_slot(wheel->tick, level);
		uint64_t within = slot % WHEEL_SLOTS;
		uint64_t later = within + 1 < WHEEL_SLOTS ? wheel->occupied[level] >> (within + 1) << (within + 1) : 0;

		if (wheel->occupied[level] == 0)
			continue;
		slot = slot - within + (later != 0 ? (uint64_t) __builtin_ctzll(later) : WHEEL_SLOTS);
		next = slot << (WHEEL_BITS * level);
		break;
	}
	wheel->tick = next < now + 1 ? next : now + 1;
}
