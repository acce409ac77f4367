/*
 * sketchring_test.c
 *		The ring of sketches by a virtual clock, against a model that knows all members; and how far its estimates
 *		are off. All seeds are fixed: what holds once holds always.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ring_cells.h"
#include "unit.h"

#include "memory/presence/sketchring.h"

#define MEMBERS 3000

/* A member: when it was heard of last, and as of when it may count as heard of: a ring that was given another time makes
 * these one moment for who is there, and the second for who perhaps is. */
typedef struct Member
{
	uint64_t hash;
	int64_t heard;
	int64_t counted;
} Member;

static RingCells memory = {.most = RING_CELLS_MAX};
static const DcRingCells cells = {&memory, ring_cell, ring_cell_take, ring_cell_give_back};
static Member member[MEMBERS];
static uint64_t seed;
static bool news_are_new;
static bool known_need_nothing;

static uint64_t
random_to(uint64_t n)
{
	return unit_random(&seed) % n;
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

/* as the server does it */
static DcRingAdded
beat(uint32_t root, Member *m, int64_t now)
{
	DcRingAdded added = RING_SEEN;
	int64_t length = ring_time(root, &cells)->length;

	if (!ring_beat(root, &cells, m->hash, now))
	{
		ring_turn(root, &cells, now);
		added = ring_add(root, &cells, m->hash);
	}
	if (added == RING_NEW && is_here(m, now, length))
		news_are_new = false;
	if (added == RING_FULL && is_here(m, now, length))
		known_need_nothing = false;
	if (added != RING_FULL)
		m->heard = m->counted = now;
	return added;
}

/*
 * Whether each register is between that of who must be there and that of who may be, and the estimate that of these
 * registers. The ring was turned.
 */
static bool
is_as_model(uint32_t root, int64_t now)
{
	static uint8_t low[RING_REGISTERS];
	static uint8_t high[RING_REGISTERS];
	int64_t length = ring_time(root, &cells)->length;
	HllState *sketch = hll_new_dense(RING_PRECISION, 1);
	uint32_t leaves = 0;
	uint32_t dirs = 0;
	uint32_t last_dir = RING_NONE;
	bool same = true;

	memset(low, 0, sizeof(low));
	memset(high, 0, sizeof(high));
	for (int i = 0; i < MEMBERS; i++)
	{
		uint32_t rank;
		uint32_t index = hll_register(RING_PRECISION, member[i].hash, &rank);

		if (is_here(&member[i], now, length) && low[index] < rank)
			low[index] = (uint8_t) rank;
		if (may_be_here(&member[i], now, length) && high[index] < rank)
			high[index] = (uint8_t) rank;
	}
	for (uint32_t i = 0; i < RING_REGISTERS; i++)
	{
		uint32_t rank = ring_union_rank(root, &cells, i);

		same &= rank >= low[i] && rank <= high[i];
		hll_registers(sketch)[i] = (uint8_t) rank;
	}
	same &= hll_estimate(sketch) == ring_estimate(root, &cells);
	free(sketch);
	for (uint32_t i = 0; i < RING_LEAVES; i++)
	{
		if (ring_leaf(root, &cells, i) == NULL)
			continue;
		leaves++;
		dirs += i / RING_DIR_LEAVES != last_dir;
		last_dir = i / RING_DIR_LEAVES;
	}
	return same && memory.used == (int) (2 + leaves + dirs) && ring_is_empty(root, &cells) == (leaves == 0);
}

/* another ring, of the same words */
static uint32_t
copied(uint32_t root, bool *same)
{
	DcRingTime time = *ring_time(root, &cells);
	double estimate = ring_estimate(root, &cells);
	uint64_t words[RING_LEAVES][RING_LEAF_WORDS];
	bool has[RING_LEAVES];
	uint32_t copy;

	for (uint32_t i = 0; i < RING_LEAVES; i++)
	{
		const uint64_t *leaf = ring_leaf(root, &cells, i);

		has[i] = leaf != NULL;
		if (has[i])
			memcpy(words[i], leaf, sizeof(words[i]));
	}
	ring_free(root, &cells);
	*same = memory.used == 0;
	copy = ring_new(&cells, &time);
	for (uint32_t i = 0; i < RING_LEAVES; i++)
	{
		if (has[i] && !ring_put_leaf(copy, &cells, i, words[i]))
			*same = false;
	}
	*same &= ring_estimate(copy, &cells) == estimate;
	return copy;
}

static bool
ring_run(void)
{
	int64_t now = (int64_t) random_to(1000000);
	int64_t length = 1 + (int64_t) random_to(1000);
	DcRingTime time = {.length = length, .until = now + length};
	int some = 1 + (int) random_to(MEMBERS);
	uint32_t root;

	for (int i = 0; i < MEMBERS; i++)
	{
		member[i] = (Member){unit_random(&seed), -1, -1};
		/* some share registers */
		if (i > 0 && random_to(4) == 0)
			member[i].hash = (member[random_to((uint64_t) i)].hash & (RING_REGISTERS - 1)) | unit_random(&seed) << RING_PRECISION;
	}
	memory.most = RING_CELLS_MAX;
	root = ring_new(&cells, &time);
	for (int i = 0; i < 60; i++)
	{
		bool same = true;

		memory.most = random_to(4) == 0 ? memory.used + (int) random_to(10) : RING_CELLS_MAX;
		switch (random_to(8))
		{
			case 0:
				now += (int64_t) random_to((uint64_t) length * 12);
				break;
			case 1:
			case 2:
				now += (int64_t) random_to((uint64_t) length);
				break;
			case 3:
				if (random_to(3) > 0)
					break;
				ring_turn(root, &cells, now);
				length = 1 + (int64_t) random_to(1000);
				for (int j = 0; j < MEMBERS; j++)
				{
					if (is_here(&member[j], now, ring_time(root, &cells)->length))
						member[j].heard = now;
					else
						member[j].heard = -1;
					if (may_be_here(&member[j], now, ring_time(root, &cells)->length))
						member[j].counted = now;
					else
						member[j].counted = -1;
				}
				ring_restart(root, &cells, &(DcRingTime){.length = length, .until = now + length, .version = (uint32_t) i});
				break;
			case 4:
				memory.most = RING_CELLS_MAX;
				root = copied(root, &same);
				break;
			default:
				now += (int64_t) random_to((uint64_t) length * 2); /* whoever is heard of turns the ring */
				for (uint64_t j = random_to(200); j > 0; j--)
					(void) beat(root, &member[random_to((uint64_t) some)], now - (int64_t) random_to(2));
		}
		ring_turn(root, &cells, now);
		if (!same || !is_as_model(root, now))
			return false;
	}
	ring_turn(root, &cells, now + length * RING_SLOTS + 1);
	if (!ring_is_empty(root, &cells) || memory.used != 2 || ring_estimate(root, &cells) != 0)
		return false;
	ring_free(root, &cells);
	return memory.used == 0;
}

/* the largest error of some rooms of so many members, in parts of their number */
static double
worst_error(uint32_t count, int rooms, int *most_cells)
{
	DcRingTime time = {.length = 1000, .until = 1000};
	double worst = 0;

	memory.most = RING_CELLS_MAX;
	for (int i = 0; i < rooms; i++)
	{
		uint32_t root = ring_new(&cells, &time);
		double error;

		for (uint32_t j = 0; j < count; j++)
		{
			uint64_t hash = unit_random(&seed);

			if (!ring_beat(root, &cells, hash, 0))
				(void) ring_add(root, &cells, hash);
		}
		error = fabs(rint(ring_estimate(root, &cells)) - count) / count;
		worst = error > worst ? error : worst;
		*most_cells = memory.used > *most_cells ? memory.used : *most_cells;
		ring_free(root, &cells);
	}
	return worst;
}

static void
errors_are_bounded(bool is_long)
{
	/* five standard deviations: 1.04 / sqrt(m), and for few members those who share a register */
	static const struct
	{
		uint32_t count;
		int rooms;
		double most;
		const char *name;
	} sizes[] = {
		{1, 100, 0, "one member is one"},
		{5, 400, 0.2, "five are five, or four"},
		{20, 400, 0.05, "of 20, one is missed at most"},
		{100, 200, 0.04, "of 100, four"},
		{1000, 100, 0.02, "1,000 are within 2 %"},
		{10000, 20, 0.03, "10,000 within 3 %"},
		{100000, 10, 0.041, "100,000 within 4.1 %"},
		{1000000, 2, 0.041, "a million within 4.1 %"},
	};
	int most = 0;

	seed = 1;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		int cells_of_size = 0;
		double worst = worst_error(sizes[i].count, is_long ? sizes[i].rooms * 20 : sizes[i].rooms, &cells_of_size);

		printf("# %u members: at most %.2f %% off, at most %d cells of %d bytes\n", sizes[i].count, 100 * worst, cells_of_size, RING_CELL);
		ok(is_long || worst <= sizes[i].most, sizes[i].name);
		if (sizes[i].count == 5)
			ok(cells_of_size <= 2 + 2 * 5, "few members take little memory");
		most = cells_of_size > most ? cells_of_size : most;
	}
	ok(most == RING_MAX_CELLS, "a million take no more than ten thousand");
}

static bool
refuses_what_cannot_be(void)
{
	DcRingTime time = {.length = 1, .until = 1};
	uint32_t root = ring_new(&cells, &time);
	uint64_t words[RING_LEAF_WORDS] = {0};
	bool refused = !ring_put_leaf(root, &cells, 0, words);

	words[0] = RING_MAX_RANK + 1;
	refused &= !ring_put_leaf(root, &cells, 0, words);
	words[0] = UINT64_C(1) << (6 * RING_SLOTS);
	refused &= !ring_put_leaf(root, &cells, 0, words);
	words[0] = RING_MAX_RANK;
	refused &= !ring_put_leaf(root, &cells, RING_LEAVES, words);
	refused &= ring_put_leaf(root, &cells, 0, words) && !ring_put_leaf(root, &cells, 0, words);
	words[RING_LEAF_WORDS - 1] = 1; /* behind the last register */
	refused &= !ring_put_leaf(root, &cells, RING_LEAVES - 1, words);
	ring_free(root, &cells);
	return refused && memory.used == 0;
}

int
main(int argc, char **argv)
{
	bool is_long = argc > 1 && strcmp(argv[1], "long") == 0;
	bool rings = true;

	news_are_new = known_need_nothing = true;
	for (int i = 0; i < (is_long ? 5000 : 60); i++)
	{
		seed = (uint64_t) i;
		rings &= ring_run();
	}
	ok(rings, "a member is in the union for nine slots after it was heard of, and for ten at most");
	ok(news_are_new, "who is said to be new was not there");
	ok(known_need_nothing, "who is there needs no memory to be heard of again");
	ok(ring_length(9000000) == 1000000 && ring_length(9000001) == 1000001 && ring_length(1) == 1, "a ttl is nine slots, rounded up");
	ok(refuses_what_cannot_be(), "words that cannot be are refused");
	errors_are_bounded(is_long);
	return done_testing();
}
