/*
 * sample_test.c
 *		Random rounding: it has no bias, and its error is the one that dc_info() tells.
 *
 * The numbers are drawn with a fixed seed, so a run is like any other.
 */
#include "core/counter/sample.h"

#include <stdbool.h>
#include <stdlib.h>

#include "unit.h"

#define RUNS 10000

static uint64_t seed = 20261128;

static uint64_t
draw(void)
{
	return unit_random(&seed);
}

static void
say(bool passed, const char *what, const char *which, double number)
{
	char name[200];

	snprintf(name, sizeof(name), "%s: %s (%.2f)", what, which, number);
	ok(passed, name);
}

/*
 * test_runs counts in many runs, and compares their mean with the truth, and how many are within the error.
 */
static void
test_runs(int32_t p, int calls, int64_t least, int64_t most, const char *what)
{
	double sum = 0;
	double squares = 0;
	bool multiples = true;
	double bound = 0;
	int within = 0;
	double standard;

	for (int run = 0; run < RUNS; run++)
	{
		int64_t inc = 0;
		int64_t dec = 0;
		int64_t truth = 0;
		int64_t off;

		for (int i = 0; i < calls; i++)
		{
			int64_t delta = least + (int64_t) (draw() % (uint64_t) (most - least + 1));
			int64_t counted = sample_round(delta, p, draw());

			truth += delta;
			if (counted > 0)
				inc += counted;
			else
				dec -= counted;
			if (counted % p != 0)
				multiples = false;
		}
		off = inc - dec - truth;
		sum += (double) off;
		squares += (double) off * (double) off;
		bound += sample_error((double) inc, (double) dec, p);
		within += fabs((double) off) <= sample_error((double) inc, (double) dec, p);
	}
	standard = sqrt(squares / RUNS / RUNS);
	bound /= RUNS;
	say(multiples, what, "multiples of", p);
	say(fabs(sum / RUNS) < 4 * standard, what, "the mean of the runs is the truth, within 4 standard errors", sum / RUNS / standard);
	/* r (p - r) <= |d| (p - 1) is an equation for deltas of 1 and -1: there 95 % are within */
	say(within > 0.93 * RUNS && (within < 0.97 * RUNS || least < -1 || most > 1), what, "percent within the error", 100.0 * within / RUNS);
	say(SAMPLE_95 * standard * sqrt(RUNS) < 1.05 * bound, what, "the error is a bound; a part of", SAMPLE_95 * standard * sqrt(RUNS) / bound);
}

/*
 * Return how likely the truth is within the error when n deltas of 1 are counted.
 */
static double
coverage(int64_t n, int32_t p)
{
	double mean = (double) n / p;
	double reach = 10 * sqrt(mean) + 30;
	int64_t last = (int64_t) fmin((double) n, mean + reach);
	double sum = 0;

	for (int64_t k = (int64_t) fmax(0, mean - reach); k <= last; k++)
	{
		if (fabs((double) (k * p - n)) <= sample_error((double) (k * p), 0, p))
			sum += exp(lgamma((double) n + 1) - lgamma((double) k + 1) - lgamma((double) (n - k) + 1) -
					   (double) k * log(p) + (double) (n - k) * log1p(-1.0 / p));
	}
	return sum;
}

/*
 * test_coverage looks at counts from 1 to 1,000,000.
 */
static void
test_coverage(int32_t p)
{
	double least = 1;

	for (int64_t n = 1; n <= 1000000; n += 1 + n / 30)
		least = fmin(least, coverage(n, p));
	say(least > 0.948, "any count is within the error in 95 % of cases", "sample", p);
	ok(fabs(coverage(1000000, p) - 0.95) < (p > 100 ? 0.015 : 0.005), "and many are in no more");
}

static void
test_small(void)
{
	bool right = true;

	for (int32_t p = 1; p <= 40; p++)
	{
		for (int64_t delta = -100; delta <= 100; delta++)
		{
			int64_t sum = 0;

			/* all remainders of the random number once: the mean is the delta itself */
			for (uint64_t random = 0; random < (uint64_t) p; random++)
			{
				int64_t counted = sample_round(delta, p, random);

				right = right && counted % p == 0 && llabs(counted - delta) < p;
				sum += counted;
			}
			right = right && sum == delta * p;
		}
	}
	ok(right, "each delta of -100 to 100 and each p to 40: multiples next to it, whose mean it is");
}

static void
test_borders(void)
{
	ok(sample_round(INT64_MAX, 64, 0) == INT64_MAX, "one that cannot be rounded up stays");
	ok(sample_round(INT64_MAX, 64, 63) == INT64_MAX - 63, "but may be rounded down");
	ok(sample_round(INT64_MIN, 64, 0) == INT64_MIN && sample_round(INT64_MIN, 63, 0) <= INT64_MIN + 63, "the least bigint");
	ok(sample_round(7, 1, draw()) == 7 && sample_round(0, 64, draw()) == 0, "1 keeps all, and nothing stays nothing");
	ok(sample_error(1e6, 0, 1) == 0, "what is not sampled has no error");
}

int
main(void)
{
	test_coverage(2);
	test_coverage(3);
	test_coverage(16);
	test_coverage(64);
	test_coverage(1024);
	test_small();
	test_borders();
	test_runs(64, 6000, 1, 1, "increments of 1");
	test_runs(64, 3000, -1, 1, "up and down");
	test_runs(64, 300, -500, 700, "any delta");
	test_runs(100, 300, 1, 99, "deltas below the sample");
	return done_testing();
}
