/*
 * sketchring_fuzz.c
 *		The ring of sketches by any clock that does not go back: who was heard of is there as long as it must be, and not
 *		longer than it may; no cell is lost; who is there never needs one.
 */
#include <stdlib.h>
#include <string.h>

#include "../unit/ring_cells.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMBERS 24

typedef struct Member
{
	uint64_t hash;
	int64_t heard;
	int64_t counted; /* see sketchring_test.c */
} Member;

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

static bool
is_here(const Member *m, int64_t now, int64_t length)
{
	return m->heard >= 0 && now - m->heard < length * (RING_SLOTS - 1);
}

static bool
may_be_here(const Member *m, int64_t now, int64_t length)
{
	return m->counted >= 0 && now - m->counted <= length * RING_SLOTS;
}

/* few registers, some of one leaf, some of one directory; the last, and each with several ranks */
static uint64_t
some_hash(int i)
{
	static const uint32_t registers[] = {0, 1, RING_LEAF_WORDS, 5000, RING_REGISTERS - 1};

	return registers[i % 5] | UINT64_C(1) << (RING_PRECISION + i * 2 % 50);
}

static void
compare(const Member *member, uint32_t root, const DcRingCells *cells, int64_t now)
{
	int64_t length = ring_time(root, cells)->length;
	bool any = false;
	bool certain = false;

	for (int i = 0; i < 5; i++)
	{
		uint32_t low = 0;
		uint32_t high = 0;
		uint32_t index = 0;
		uint32_t rank;

		for (int j = i; j < MEMBERS; j += 5)
		{
			index = hll_register(RING_PRECISION, member[j].hash, &rank);
			if (is_here(&member[j], now, length) && low < rank)
				low = rank;
			if (may_be_here(&member[j], now, length) && high < rank)
				high = rank;
		}
		rank = ring_union_rank(root, cells, index);
		must(rank >= low && rank <= high);
		any |= rank > 0;
		certain |= low > 0;
	}
	must(ring_is_empty(root, cells) == !any);
	must(!certain || any);
	must(any == (ring_estimate(root, cells) > 0.5));
	must(ring_estimate(root, cells) < 5.5);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static RingCells memory;
	const DcRingCells cells = {&memory, ring_cell, ring_cell_take, ring_cell_give_back};
	Member member[MEMBERS];
	int64_t now = (int64_t) take(&data, &size, 4);
	DcRingTime time = {.length = 1 + (int64_t) take(&data, &size, 2)};
	uint32_t root;

	for (int i = 0; i < MEMBERS; i++)
		member[i] = (Member){some_hash(i), -1, -1};
	time.until = now + time.length;
	memory.most = RING_CELLS_MAX;
	root = ring_new(&cells, &time);
	while (size > 0)
	{
		uint64_t what = take(&data, &size, 1);
		Member *m = &member[(what >> 3) % MEMBERS];
		DcRingAdded added = RING_SEEN;

		switch (what & 7)
		{
			case 0:
				now += (int64_t) take(&data, &size, 1);
				break;
			case 1:
				now += (int64_t) take(&data, &size, 2);
				break;
			case 2:
				now += (int64_t) take(&data, &size, 3);
				break;
			case 3:
				memory.most = memory.used + (int) (what >> 3) % 4;
				break;
			case 4:
				memory.most = RING_CELLS_MAX;
				break;
			case 5:
				ring_turn(root, &cells, now);
				for (int i = 0; i < MEMBERS; i++)
				{
					member[i].heard = is_here(&member[i], now, time.length) ? now : -1;
					member[i].counted = may_be_here(&member[i], now, time.length) ? now : -1;
				}
				time.length = 1 + (int64_t) take(&data, &size, 2);
				time.until = now + time.length;
				ring_restart(root, &cells, &time);
				break;
			case 7: /* who is heard of turns the ring */
				now += (int64_t) take(&data, &size, 1);
				/* FALLTHROUGH */
			default:
				if (!ring_beat(root, &cells, m->hash, now))
				{
					ring_turn(root, &cells, now);
					added = ring_add(root, &cells, m->hash);
				}
				must(added == RING_SEEN || !is_here(m, now, time.length));
				if (added != RING_FULL)
					m->heard = m->counted = now;
		}
		ring_turn(root, &cells, now);
		compare(member, root, &cells, now);
	}
	ring_turn(root, &cells, now + time.length * RING_SLOTS);
	must(ring_is_empty(root, &cells) && memory.used == 2);
	ring_free(root, &cells);
	must(memory.used == 0);
	return 0;
}
