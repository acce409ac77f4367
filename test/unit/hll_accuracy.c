/*
 * hll_accuracy.c
 *		The errors of dc_hll's estimates over many sets of random hashes.
 *
 *	hll_accuracy [short]
 *
 * A run adds random hashes to a sketch and looks at its estimate at a number of
 * counts on the way: some that are spread out, and those where the sketch's form
 * changes. Over all runs, at each count, the root of the mean squared relative
 * error may be 1.03 times 1.04/sqrt(m), m being the number of registers, and the
 * mean error a tenth of 1.04/sqrt(m). The short form has fewer runs, whose own
 * spread it allows for.
 */
#include "types/sketch/hash.h"
#include "types/sketch/hll/hll.h"
#include "types/sketch/memory.h"

#include <math.h>
#include <string.h>

#include "unit.h"

#define MAX_COUNTS 32

/* Estimates at one count, over all runs. */
typedef struct Errors
{
	uint32_t count;
	double sum;
	double squares;
	double worst;
} Errors;

static int
by_count(const void *a, const void *b)
{
	uint32_t left = ((const Errors *) a)->count;
	uint32_t right = ((const Errors *) b)->count;

	return (left > right) - (left < right);
}

/*
 * The counts to look at, in order: the ones asked for, 2.5 m, where the classic
 * estimator is worst, and around the count where tokens become registers.
 */
static int
make_counts(Errors *at, int precision, uint32_t largest)
{
	static const uint32_t fixed[] = {1, 2, 5, 10, 100, 1000, 10000, 40960, 100000, 1000000};
	uint32_t m = hll_nregisters(precision);
	uint32_t turn = hll_max_tokens(precision);
	uint32_t other[] = {turn - turn / 100 - 1, turn - 1, turn, turn + 1, turn + 2,
						turn + turn / 100 + 2, turn + turn / 8, m / 2, m, 5 * (m / 2), 3 * m, 5 * m};
	int n = 0;
	int kept = 1;

	memset(at, 0, MAX_COUNTS * sizeof(Errors));
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		at[n++].count = fixed[i];
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		at[n++].count = other[i];
	qsort(at, n, sizeof(Errors), by_count);
	for (int i = 1; i < n; i++)
	{
		if (at[i].count != at[kept - 1].count && at[i].count <= largest)
			at[kept++] = at[i];
	}
	return kept;
}

/*
 * What a value at rest says of itself once it is read back: the same.
 */
static bool
same_at_rest(const HllState *state)
{
	size_t len;
	uint8_t *data = hll_encode(state, &len);
	HllState *back = hll_check(data, len) == NULL ? hll_decode(data, len) : NULL;
	bool same = back != NULL && hll_estimate(back) == hll_estimate(state);

	if (back != NULL)
		sketch_free(back);
	sketch_free(data);
	return same;
}

/*
 * One run; false if a value at rest is not what it was.
 */
static bool
run(int precision, uint64_t seed, Errors *at, int ncounts, bool at_rest)
{
	HllState *state = hll_new(precision, SKETCH_HASH_REDIS);
	uint32_t added = 0;
	bool same = true;

	for (int i = 0; i < ncounts; i++)
	{
		double error;

		for (; added < at[i].count; added++)
			state = hll_add(state, unit_random(&seed));
		error = hll_estimate(state) / added - 1;
		at[i].sum += error;
		at[i].squares += error * error;
		if (fabs(error) > at[i].worst)
			at[i].worst = fabs(error);
		if (at_rest)
			same = same && same_at_rest(state);
	}
	sketch_free(state);
	return same;
}

/*
 * All runs of one precision. Random hashes of 64 bits are as good as distinct.
 */
static void
test_precision(int precision, int runs, uint32_t largest, bool is_short)
{
	Errors at[MAX_COUNTS];
	int ncounts = make_counts(at, precision, largest);
	double unit = 1.04 / sqrt(hll_nregisters(precision));
	double most_rmse = 1.03;
	double most_bias = 0.1;
	double top_rmse = 0;
	double top_bias = 0;
	bool same = true;
	char name[128];

	if (is_short)
	{
		most_rmse *= 1 + 3 / sqrt(2.0 * runs);
		most_bias += 3 / sqrt(runs);
	}
	for (int i = 0; i < runs; i++)
		same = run(precision, UINT64_C(0x100000001) * i + precision, at, ncounts, i < 10) && same;

	printf("# precision %d, %d runs, in units of 1.04/sqrt(m) = %.3f %%\n", precision, runs, 100 * unit);
	for (int i = 0; i < ncounts; i++)
	{
		double rmse = sqrt(at[i].squares / runs) / unit;
		double bias = at[i].sum / runs / unit;

		printf("# n = %7u: rmse %.3f, bias %+.3f, worst %.2f%s\n", at[i].count, rmse, bias,
			   at[i].worst / unit, rmse > most_rmse || fabs(bias) > most_bias ? "  <--" : "");
		top_rmse = fmax(top_rmse, rmse);
		top_bias = fmax(top_bias, fabs(bias));
	}
	snprintf(name, sizeof(name), "precision %d: rmse up to %.3f times 1.04/sqrt(m) (at most %.3f)",
			 precision, top_rmse, most_rmse);
	ok(top_rmse <= most_rmse, name);
	snprintf(name, sizeof(name), "precision %d: bias up to %.3f of that (at most %.3f)",
			 precision, top_bias, most_bias);
	ok(top_bias <= most_bias, name);
	snprintf(name, sizeof(name), "precision %d: values at rest have the same estimate", precision);
	ok(same, name);
}

int
main(int argc, char **argv)
{
	static const int precisions[] = {10, 12, 14};
	bool is_short = argc > 1 && strcmp(argv[1], "short") == 0;

	for (size_t i = 0; i < sizeof(precisions) / sizeof(precisions[0]); i++)
	{
		if (is_short)
			test_precision(precisions[i], 100, 8 * hll_nregisters(precisions[i]) / 3, true);
		else
			test_precision(precisions[i], 1000, 1000000, false);
	}
	return done_testing();
}
