/*
 * decay_test.c
 *		Forward decay, against sums of the scores of events in long double; and its borders.
 */
#include "time/trend/decay.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define SECOND INT64_C(1000000)
#define HOUR (3600 * SECOND)
#define EVENTS 400

static uint64_t seed = 42;

static uint64_t
draw(void)
{
	return unit_random(&seed);
}

/* A key as the table has it. */
static double weight;
static int64_t epoch;
static bool is_there;

static void
count(double delta, int64_t at, int64_t half_life)
{
	int64_t since = decay_epoch(at, half_life);

	if (!is_there)
	{
		weight = 0;
		epoch = since;
		is_there = true;
	}
	else if (epoch < since)
	{
		weight = decay_move(weight, epoch, since);
		epoch = since;
	}
	weight += decay_weight(delta, at, half_life, epoch);
}

/*
 * worst returns the greatest relative error over random events, of a key that is counted in steps of up to `step`.
 */
static double
worst(int64_t half_life, int64_t start, int64_t step)
{
	static int64_t at[EVENTS];
	static double delta[EVENTS];
	double most = 0;
	int64_t now = start;

	is_there = false;
	for (int i = 0; i < EVENTS; i++)
	{
		long double score = 0;
		double error;

		now += (int64_t) (draw() % (uint64_t) step);
		at[i] = now - (draw() % 8 == 0 ? (int64_t) (draw() % (uint64_t) (half_life / 2)) : 0); /* the clock may go back */
		delta[i] = (double) (1 + draw() % 1000);
		count(delta[i], at[i], half_life);
		for (int e = 0; e <= i; e++)
			score += (long double) delta[e] * exp2l(-((long double) (now - at[e])) / (long double) half_life);
		error = (double) fabsl((decay_score(weight, epoch, half_life, now) - score) / score);
		most = fmax(most, error);
	}
	return most;
}

static void
test_oracle(void)
{
	ok(worst(HOUR, INT64_C(850000000) * SECOND, 5 * HOUR) < 1e-12, "scores over four epochs, with a clock that goes back");
	ok(worst(SECOND, INT64_C(850000000) * SECOND, 40 * SECOND) < 1e-12, "the same with the shortest half-life");
	ok(worst(INT64_C(315619200) * SECOND, INT64_C(850000000) * SECOND, INT64_C(315619200) * SECOND) < 1e-12, "and with the longest one");
	ok(worst(7 * SECOND + 13, -INT64_C(900000000) * SECOND, 30 * SECOND) < 1e-12, "before 2000, and with an odd one");
}

static void
test_epochs(void)
{
	int64_t length = DECAY_EPOCH * HOUR;

	ok(decay_epoch(0, HOUR) == 0 && decay_epoch(length - 1, HOUR) == 0 && decay_epoch(length, HOUR) == 1, "where epochs begin");
	ok(decay_epoch(-1, HOUR) == -1 && decay_epoch(-length, HOUR) == -1 && decay_epoch(-length - 1, HOUR) == -2, "and below zero");
	ok(decay_weight(1, length, HOUR, 1) == 1 && decay_weight(1, length + 3 * HOUR, HOUR, 1) == 8, "weights are powers of two at whole half-lives");
	ok(decay_weight(3, length + 5 * HOUR, HOUR, 0) == decay_move(decay_weight(3, length + 5 * HOUR, HOUR, 1), 1, 0), "another epoch, the same weight");
}

static void
test_exact_moves(void)
{
	bool exact = true;

	for (int i = 0; i < 10000; i++)
	{
		double x = ldexp((double) (draw() >> 11), (int) (draw() % 100) + DECAY_EPOCH - 100);

		exact = exact && decay_move(decay_move(x, 7, 8), 8, 7) == x && decay_move(x, 7, 8) * ldexp(1, DECAY_EPOCH) == x;
	}
	ok(exact, "to move a weight is exact");
	ok(decay_score(decay_weight(5, 9 * HOUR, HOUR, 0), 0, HOUR, 9 * HOUR) == 5, "the score of now is the delta");
}

static void
test_borders(void)
{
	double most = decay_weight(9.3e18, DECAY_EPOCH * HOUR - 1, HOUR, 0);

	ok(isfinite(most) && most * 1e6 < DBL_MAX, "a million times the greatest delta, late in an epoch");
	ok(isfinite(decay_weight(-9.3e18, INT64_MAX, SECOND, INT64_MIN)) && decay_weight(1, INT64_MIN, SECOND, INT64_MAX) == 0, "no time and no epoch leads out of a double");
	ok(decay_score(DBL_MAX, INT64_MAX, SECOND, INT64_MIN) == DBL_MAX && decay_score(-1, INT64_MAX, SECOND, 0) == -DBL_MAX, "scores neither");
	ok(decay_score(DBL_MAX, 0, HOUR, 5 * DECAY_EPOCH * HOUR) == 0, "what is old is worth nothing");
	ok(decay_weight(-4, HOUR, HOUR, 0) == -8, "decrements");
	ok(!decay_is_ahead(1, HOUR, 0) && decay_is_ahead(2, HOUR, 0) && !decay_is_ahead(-9, HOUR, 0), "an epoch that no clock has reached");
}

int
main(void)
{
	test_oracle();
	test_epochs();
	test_exact_moves();
	test_borders();
	return done_testing();
}
