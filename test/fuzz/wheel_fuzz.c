/*
 * wheel_fuzz.c
 *		The timing wheel by a clock that does anything but go back: no item is lost, or due early, or twice.
 */
#include <stdlib.h>
#include <string.h>

#include "memory/presence/wheel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ITEMS 32

typedef struct Item
{
	DcWheelNode node;
	uint64_t deadline;
	uint64_t since; /* the tick that the wheel was at */
} Item;

static DcWheelNode *
node(void *arg, uint32_t item)
{
	return &((Item *) arg)[item].node;
}

static uint64_t
deadline(void *arg, uint32_t item)
{
	return ((Item *) arg)[item].deadline;
}

static uint64_t
take(const uint8_t **data, size_t *size, size_t bytes)
{
	uint64_t value = 0;

	for (; bytes > 0 && *size > 0; bytes--, (*data)++, (*size)--)
		value = value << 8 | **data;
	return value;
}

static void
must(bool what)
{
	if (!what)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static Item item[ITEMS];
	const DcWheelItems items = {item, node, deadline};
	DcWheel wheel;
	uint64_t now = take(&data, &size, 5);
	uint64_t count = 0;

	for (int i = 0; i < ITEMS; i++)
		wheel_node_init(&item[i].node);
	wheel_init(&wheel, now);
	while (size > 0)
	{
		uint64_t what = take(&data, &size, 1);
		uint32_t it = (uint32_t) take(&data, &size, 1) % ITEMS;
		uint64_t ticks = take(&data, &size, 1 + (what >> 3) % 4);
		uint32_t steps = (uint32_t) ticks % 16;
		uint32_t due;

		switch (what & 7)
		{
			case 0:
			case 1:
			case 2:
				if (wheel_has(&item[it].node))
					item[it].deadline += ticks;
				else
				{
					item[it].deadline = now + ticks;
					item[it].since = wheel.tick;
					wheel_add(&wheel, &items, it);
					count++;
				}
				break;
			case 3:
				if (!wheel_has(&item[it].node))
					break;
				wheel_remove(&wheel, &items, it);
				count--;
				break;
			case 4:
				due = wheel_next(&wheel, &items, now, &steps);
				must(due == WHEEL_NONE || (due < ITEMS && item[due].deadline <= now && !wheel_has(&item[due].node)));
				count -= due != WHEEL_NONE;
				break;
			default:
				now += ticks;
				do
				{
					steps = 10000;
					due = wheel_next(&wheel, &items, now, &steps);
					must(due == WHEEL_NONE || (due < ITEMS && item[due].deadline <= now && !wheel_has(&item[due].node)));
					count -= due != WHEEL_NONE;
				} while (due != WHEEL_NONE || steps == 0);
				must(wheel.tick == now + 1);
				for (int i = 0; i < ITEMS; i++)
					must(!wheel_has(&item[i].node) || item[i].deadline > now || item[i].since > now);
		}
		must(wheel.count == count);
	}
	return 0;
}
