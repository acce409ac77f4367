/*
 * hllestimate.c
 *		Estimates of a HyperLogLog and their bounds.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Registers are estimated by Ertl's improved raw estimator (Otmar Ertl, "New
 * cardinality estimation algorithms for HyperLogLog sketches", 2017): no bias at
 * any number of items, no tables and no switch from one formula to another. The
 * operations and their order are those of Redis, so that equal registers give
 * equal counts. Its relative standard error is 1.04 / sqrt(m), less for few items.
 *
 * Tokens are estimated by linear counting (Whang, Vander-Zanden and Taylor, 1990)
 * in their universe of 2^24 places.
 */
#include "types/sketch/hll/hll.h"

#include <math.h>

#include "types/sketch/hll/rankcode.h"

#define UNIVERSE ((double) (UINT32_C(1) << HLL_TOKEN_BITS))

static double hllestimate_sigma(double x);
static double hllestimate_tau(double x);

/*
 * hll_estimate is the estimated number of distinct items.
 */
double
hll_estimate(const HllState *state)
{
	uint32_t counts[RANK_VALUES];

	if (!state->dense)
		return hll_token_estimate(state->count);
	rankcode_count(hll_registers(state), hll_nregisters(state->precision), counts);
	return hll_estimate_counts(counts, state->precision);
}

/*
 * hll_estimate_counts is the same for registers of which is known how many have each rank, up to 64
 * - precision + 1.
 */
double
hll_estimate_counts(const uint32_t *counts, int precision)
{
	double m = hll_nregisters(precision);
	int q = 64 - precision;
	double z;

	z = m * hllestimate_tau((m - counts[q + 1]) / m);
	for (int k = q; k >= 1; k--)
		z = 0.5 * (z + counts[k]);
	z += m * hllestimate_sigma(counts[0] / m);
	return 0.721347520444481703680 * m * m / z;
}

/* The sum over k >= 1 of x^(2^k) 2^(k-1), plus x. */
static double
hllestimate_sigma(double x)
{
	double y = 1;
	double z = x;
	double before;

	if (x == 1)
		return INFINITY;
	do
	{
		x *= x;
		before = z;
		z += x * y;
		y += y;
	} while (z != before);
	return z;
}

/* A third of 1 - x - the sum over k >= 1 of (1 - x^(2^-k))^2 2^-k. */
static double
hllestimate_tau(double x)
{
	double y = 1;
	double z = 1 - x;
	double before;

	if (x == 0 || x == 1)
		return 0;
	do
	{
		x = sqrt(x);
		before = z;
		y *= 0.5;
		z -= (1 - x) * (1 - x) * y;
	} while (z != before);
	return z / 3;
}

/*
 * hll_token_estimate returns the estimated number of items in this many distinct places.
 */
double
hll_token_estimate(uint32_t count)
{
	return -UNIVERSE * log1p(-(double) count / UNIVERSE);
}

/*
 * hll_token_deviation is the standard deviation of such an estimate.
 */
double
hll_token_deviation(double estimate)
{
	double load = estimate / UNIVERSE;

	return sqrt(UNIVERSE * (expm1(load) - load));
}

/*
 * hll_error is the relative standard error of registers.
 */
double
hll_error(int precision)
{
	return 1.04 / sqrt(hll_nregisters(precision));
}

/*
 * hll_bounds gives an interval that holds the true number with a probability of
 * at least confidence, and the estimate.
 */
void
hll_bounds(const HllState *state, double confidence, double *lower,
		   double *estimate, double *upper)
{
	double z = hll_normal_quantile(0.5 + confidence / 2);

	*estimate = hll_estimate(state);
	if (state->dense)
	{
		double error = z * hll_error(state->precision);
		double nonzero = 0;

		for (uint32_t i = 0; i < hll_nregisters(state->precision); i++)
			nonzero += hll_registers(state)[i] != 0;
		*lower = *estimate / (1 + error);
		*upper = error < 1 ? *estimate / (1 - error) : INFINITY;
		/* Each register that is set has seen an item of its own. */
		if (*lower < nonzero)
			*lower = nonzero;
		if (*upper < nonzero)
			*upper = nonzero;
	}
	else
	{
		/* Items are whole: two of one place are one too few. */
		*lower = state->count;
		*upper = state->count == 0 ? 0 : floor(*estimate + z * hll_token_deviation(*estimate) + 0.5);
		if (*upper < *estimate)
			*upper = *estimate;
	}
}

/*
 * hll_normal_quantile is the inverse of the normal distribution from 0.5 up. It is called
 * once per statement, so bisection will do, which needs no table of constants.
 */
double
hll_normal_quantile(double p)
{
	double low = 0;
	double high = 40;

	for (int i = 0; i < 64; i++)
	{
		double middle = (low + high) / 2;

		if (0.5 * erfc(-middle / sqrt(2)) < p)
			low = middle;
		else
			high = middle;
	}
	return low;
}
