/*
 * wheel_test.c
 *		The timing wheel, and the sorted set, against models that look at all items.
 */
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "memory/presence/sorted.h"
#include "memory/presence/wheel.h"

#define ITEMS 200

typedef struct Item
{
	DcWheelNode node;
	DcSortedNode sorted;
	uint64_t deadline;
	uint32_t priority;
	uint64_t since; /* the tick that the wheel was at when it was added */
	bool in;		/* by the model */
} Item;

static Item item[ITEMS];
static uint64_t seed;

static uint64_t
random_to(uint64_t n)
{
	return unit_random(&seed) % n;
}

static DcWheelNode *
node(void *arg, uint32_t i)
{
	return &((Item *) arg)[i].node;
}

static uint64_t
deadline(void *arg, uint32_t i)
{
	return ((Item *) arg)[i].deadline;
}

static const DcWheelItems items = {item, node, deadline};

static uint64_t
some_ticks(void)
{
	return random_to(UINT64_C(1) << random_to(28)); /* more than the wheel reaches */
}

/* whatever is due comes, once, and nothing else */
static bool
turn_is_right(DcWheel *wheel, uint64_t now, bool whole)
{
	for (;;)
	{
		uint32_t steps = whole ? 1000000 : (uint32_t) random_to(8);
		uint32_t due = wheel_next(wheel, &items, now, &steps);

		if (due == WHEEL_NONE)
		{
			if (steps > 0 && wheel->tick != now + 1)
				return false;
			if (steps > 0 || !whole)
				break;
			continue;
		}
		if (!item[due].in || item[due].deadline > now || wheel_has(&item[due].node))
			return false;
		item[due].in = false;
	}
	for (int i = 0; whole && i < ITEMS; i++)
	{
		if (item[i].in && item[i].deadline <= now && item[i].since <= now)
			return false;
	}
	return true;
}

static bool
wheel_run(void)
{
	DcWheel wheel;
	uint64_t now = some_ticks() * 1000;
	uint64_t count = 0;

	memset(item, 0, sizeof(item));
	for (int i = 0; i < ITEMS; i++)
		wheel_node_init(&item[i].node);
	wheel_init(&wheel, now);
	for (int i = 0; i < 1000; i++)
	{
		uint32_t it = (uint32_t) random_to(ITEMS);

		switch (random_to(5))
		{
			case 0:
			case 1:
				if (item[it].in)
					item[it].deadline += some_ticks(); /* the wheel is not told */
				else
				{
					item[it].deadline = now + some_ticks() - random_to(3);
					item[it].since = wheel.tick;
					wheel_add(&wheel, &items, it);
					item[it].in = true;
				}
				break;
			case 2:
				if (item[it].in)
				{
					wheel_remove(&wheel, &items, it);
					item[it].in = false;
				}
				break;
			case 3:
				now += random_to(2) ? random_to(100) : some_ticks();
				if (!turn_is_right(&wheel, now, true))
					return false;
				break;
			case 4:
				now += random_to(2) ? random_to(100) : some_ticks();
				if (!turn_is_right(&wheel, now, false))
					return false;
		}
		for (int j = 0; j < ITEMS; j++)
		{
			if (item[j].in != wheel_has(&item[j].node))
				return false;
		}
	}
	if (!turn_is_right(&wheel, now + (UINT64_C(1) << 40), true))
		return false;
	for (int i = 0; i < ITEMS; i++)
		count += item[i].in;
	return wheel.count == count;
}

/* an item with deadlines that are not put off is moved as often as there are levels at most */
static bool
moves_are_few(void)
{
	DcWheel wheel;

	for (int i = 0; i < 2000; i++)
	{
		uint64_t start = some_ticks();
		uint32_t total = 0;

		wheel_init(&wheel, start);
		wheel_node_init(&item[0].node);
		item[0].deadline = start + random_to(60 * 64 * 64 * 64);
		wheel_add(&wheel, &items, 0);
		for (;;)
		{
			uint32_t steps = 1;

			total++;
			if (wheel_next(&wheel, &items, item[0].deadline, &steps) == 0)
				break;
			if (total > 2 * WHEEL_LEVELS + 1)
				return false;
		}
		if (wheel.tick != item[0].deadline)
			return false;
	}
	return true;
}

static DcSortedNode *
sorted_node(void *arg, uint32_t i)
{
	return &((Item *) arg)[i].sorted;
}

static uint32_t
priority(void *arg, uint32_t i)
{
	return ((Item *) arg)[i].priority;
}

/* the number is the key */
static int
compare(void *arg, const void *key, uint32_t i)
{
	uint32_t k = *(const uint32_t *) key;

	(void) arg;
	return k < i ? -1 : k > i;
}

static const DcSortedItems sorted = {item, sorted_node, priority, compare};

static bool
is_heap(uint32_t root, uint32_t parent)
{
	const DcSortedNode *n;

	if (root == SORTED_NONE)
		return true;
	n = &item[root].sorted;
	return n->parent == parent && (parent == SORTED_NONE || item[root].priority <= item[parent].priority) &&
		is_heap(n->left, root) && is_heap(n->right, root);
}

static bool
sorted_run(void)
{
	uint32_t root = SORTED_NONE;

	memset(item, 0, sizeof(item));
	for (int i = 0; i < ITEMS; i++)
		item[i].priority = (uint32_t) random_to(i % 2 ? 4 : UINT32_MAX); /* some are equal */
	for (int i = 0; i < 500; i++)
	{
		uint32_t it = (uint32_t) random_to(ITEMS);
		uint32_t next;

		if (item[it].in)
			sorted_remove(&root, &sorted, it);
		else
			sorted_insert(&root, &sorted, it, &it);
		item[it].in = !item[it].in;
		if (!is_heap(root, SORTED_NONE))
			return false;
		next = sorted_first(root, &sorted);
		for (uint32_t j = 0; j < ITEMS; j++)
		{
			if (!item[j].in)
				continue;
			if (next != j)
				return false;
			next = sorted_next(&sorted, next);
			if (sorted_after(root, &sorted, &j) != next)
				return false;
		}
		if (next != SORTED_NONE)
			return false;
		it = (uint32_t) random_to(ITEMS);
		for (next = it + 1; next < ITEMS && !item[next].in; next++)
			;
		if (sorted_after(root, &sorted, &it) != (next < ITEMS ? next : SORTED_NONE))
			return false;
	}
	return true;
}

int
main(int argc, char **argv)
{
	int runs = argc > 1 && strcmp(argv[1], "long") == 0 ? 20000 : 200;
	bool wheels = true;
	bool sets = true;

	for (int i = 0; i < runs; i++)
	{
		seed = (uint64_t) i;
		wheels &= wheel_run();
		sets &= sorted_run();
	}
	ok(wheels, "what is due comes once, whatever is added, removed and put off, and however late the wheel is");
	ok(moves_are_few(), "an item is moved once a level, and the way to it is as short");
	ok(sets, "a set is sorted, whatever is inserted and removed");
	return done_testing();
}
