/*
 * escrow_test.c
 *		Units of one key in several regions: never sold twice, never left where nobody wants
 *		them, and the oldest request first. Links deliver late, again, and in any order.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "region/escrow.h"

#define REGIONS 4
#define WAITERS 6

static const char *const names[REGIONS] = {"asia", "eu", "us", "west"};

/* A want as a region knows it. */
typedef struct Row
{
	int64_t hlc;
	DcWant want;
} Row;

typedef struct World
{
	int n;
	int64_t clock;
	int64_t stocked;
	int64_t sold;
	int64_t units[REGIONS];
	int64_t grants[REGIONS][REGIONS][REGIONS]; /* as known by, from, to */
	Row rows[REGIONS][REGIONS];				   /* as known by, of */
	struct
	{
		int64_t qty; /* 0: nobody */
		int64_t since;
	} waiters[REGIONS][WAITERS];
} World;

static uint64_t seed;

static int64_t
random_to(int64_t n)
{
	return (int64_t) (unit_random(&seed) % (uint64_t) n);
}

static int64_t
received(const World *world, int view, int region)
{
	int64_t sum = 0;

	for (int i = 0; i < world->n; i++)
		sum += world->grants[view][i][region];
	return sum;
}

static void
change(World *world, int r, DcWantChange change)
{
	DcWantFacts facts = {world->units[r], received(world, r, r), 0, ++world->clock};

	escrow_want(&world->rows[r][r].want, &facts, &change);
	world->rows[r][r].hlc = facts.now;
}

/* b gets what a knows */
static void
sync_one(World *world, int a, int b)
{
	for (int i = 0; i < world->n; i++)
	{
		for (int j = 0; j < world->n; j++)
		{
			int64_t more = world->grants[a][i][j] - world->grants[b][i][j];

			if (more <= 0)
				continue;
			if (j == b)
				world->units[b] += more;
			world->grants[b][i][j] += more;
		}
		if (world->rows[a][i].hlc > world->rows[b][i].hlc)
			world->rows[b][i] = world->rows[a][i];
	}
}

static void
sync_all(World *world)
{
	for (int round = 0; round < 2; round++)
	{
		for (int a = 0; a < world->n; a++)
		{
			for (int b = 0; b < world->n; b++)
			{
				if (a != b)
					sync_one(world, a, b);
			}
		}
	}
}

static void
serve(World *world, int r)
{
	DcRequest requests[REGIONS];
	int64_t before = world->units[r];
	int64_t given;

	for (int i = 0; i < world->n; i++)
	{
		const DcWant *want = &world->rows[r][i].want;

		requests[i] = (DcRequest){.region = names[i], .own = i == r, .since = want->since, .epoch = i};
		escrow_need(want, received(world, r, i), &requests[i].need, &requests[i].low, &requests[i].keep);
	}
	given = escrow_share(requests, world->n, before, 0);
	for (int i = 0; i < world->n; i++)
	{
		world->units[r] -= requests[i].given;
		world->grants[r][r][requests[i].epoch] += requests[i].given;
		given -= requests[i].given;
	}
	if (given != 0 || world->units[r] < 0)
		abort();
}

static bool
take(World *world, int r, int64_t qty)
{
	if (world->units[r] < qty)
		return false;
	world->units[r] -= qty;
	world->sold += qty;
	return true;
}

/* Do what dc_take_wait() does at each check. */
static void
look(World *world, int r, int w, bool over)
{
	int64_t qty = world->waiters[r][w].qty;
	const DcWant *want = &world->rows[r][r].want;
	int64_t need;
	int64_t low;
	int64_t keep;

	if (qty == 0)
		return;
	if (take(world, r, qty) || over)
	{
		world->waiters[r][w].qty = 0;
		change(world, r, (DcWantChange){.keeps = -qty, .since = world->waiters[r][w].since});
		return;
	}
	escrow_need(want, received(world, r, r), &need, &low, &keep);
	if (need < want->asked + want->kept - world->units[r] || want->waits == 0 || want->waits > world->waiters[r][w].since)
		change(world, r, (DcWantChange){.since = world->waiters[r][w].since});
}

static void
begin_wait(World *world, int r, int64_t qty)
{
	for (int w = 0; w < WAITERS; w++)
	{
		if (world->waiters[r][w].qty != 0)
			continue;
		world->waiters[r][w].qty = qty;
		world->waiters[r][w].since = ++world->clock;
		change(world, r, (DcWantChange){.keeps = qty, .since = world->waiters[r][w].since});
		return;
	}
}

static int64_t
in_flight(const World *world)
{
	int64_t sum = world->stocked - world->sold;

	for (int r = 0; r < world->n; r++)
		sum -= world->units[r];
	return sum;
}

/* All links are up, and nobody waits any more. */
static void
calm(World *world)
{
	for (int r = 0; r < world->n; r++)
	{
		for (int w = 0; w < WAITERS; w++)
			look(world, r, w, true);
		change(world, r, (DcWantChange){.asks = -1});
	}
	sync_all(world);
}

static void
any_step(World *world)
{
	int r = (int) random_to(world->n);
	int other = (int) random_to(world->n);

	switch (random_to(9))
	{
		case 0:
			(void) take(world, r, 1 + random_to(3));
			break;
		case 1:
			begin_wait(world, r, 1 + random_to(3));
			break;
		case 2:
		case 3:
			look(world, r, (int) random_to(WAITERS), random_to(8) == 0);
			break;
		case 4:
			world->units[r]++;
			world->stocked++;
			break;
		case 5:
			change(world, r, (DcWantChange){.asks = random_to(4) - 1});
			break;
		case 6:
			serve(world, r);
			break;
		default:
			sync_one(world, r, other);
	}
}

int
main(int argc, char **argv)
{
	int runs = argc > 1 && strcmp(argv[1], "short") == 0 ? 20000 : 1000000;
	int oversold = 0;
	int unsold = 0;
	int wrong_order = 0;
	int starved = 0;
	DcRequest spare[3] = {{"eu", 0, true, 0, 0, 0, 2, 0}, {"us", 0, false, 5, 0, 100, 0, 0}, {"asia", 0, false, 6, 3, 0, 0, 0}};
	DcWant want = {0};

	for (int run = 0; run < runs; run++)
	{
		World world = {0};
		int64_t left;
		int r;
		int other;

		seed = (uint64_t) run * 7919 + 1;
		world.n = 2 + (int) random_to(REGIONS - 1);
		world.stocked = random_to(12);
		world.units[random_to(world.n)] = world.stocked;
		for (int step = 0; step < 80; step++)
		{
			any_step(&world);
			oversold += in_flight(&world) < 0 || world.sold > world.stocked;
		}
		calm(&world);
		oversold += in_flight(&world) != 0;

		/* all that is left, for one: one round */
		r = (int) random_to(world.n);
		left = world.stocked - world.sold;
		if (left > 0)
		{
			begin_wait(&world, r, left);
			sync_all(&world);
			for (int i = 0; i < world.n; i++)
				serve(&world, i);
			sync_all(&world);
			look(&world, r, 0, false);
			unsold += world.sold != world.stocked;
		}
		calm(&world);

		/* one unit, two who want it: the older one gets it, and then the other */
		other = (r + 1) % world.n;
		begin_wait(&world, r, 1);
		begin_wait(&world, other, 1);
		world.units[random_to(world.n)]++;
		world.stocked++;
		for (int round = 0; round < 2; round++)
		{
			sync_all(&world);
			for (int i = 0; i < world.n; i++)
				serve(&world, i);
			sync_all(&world);
		}
		look(&world, other, 0, false);
		wrong_order += world.waiters[other][0].qty == 0;
		look(&world, r, 0, false);
		wrong_order += world.waiters[r][0].qty != 0;
		world.units[random_to(world.n)]++;
		world.stocked++;
		sync_all(&world);
		for (int i = 0; i < world.n; i++)
			serve(&world, i);
		sync_all(&world);
		look(&world, other, 0, false);
		starved += world.waiters[other][0].qty != 0;
	}
	ok(oversold == 0, "no unit is sold twice, or lost");
	ok(unsold == 0, "who is connected gets the last unit, in one round");
	ok(wrong_order == 0, "the older request is served, and the younger one does not take it back");
	ok(starved == 0, "then the younger one is served");

	ok(escrow_share(spare, 3, 20, 5) == 13, "what is left beyond the reserve can be spared");
	ok(spare[0].own && spare[1].given == 10 && spare[2].given == 3, "after what others need");
	escrow_want(&want, &(DcWantFacts){.now = 1}, &(DcWantChange){.asks = INT64_MAX});
	escrow_want(&want, &(DcWantFacts){.now = 2}, &(DcWantChange){.asks = INT64_MAX, .keeps = INT64_MAX, .since = 2});
	ok(want.wanted == INT64_MAX && want.since == 1, "too much is as much as can be");
	return done_testing();
}
