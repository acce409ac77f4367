/*
 * hlljoint.c
 *		Intersection and difference of two HyperLogLogs.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The joint maximum likelihood estimator of Ertl (2017): inclusion and exclusion
 * would take the small difference of large estimates; the registers of two sets
 * that share items tell more, by how often they are equal.
 *
 * The model: the items only in A, only in B, and in both are three independent
 * Poisson processes of rates l, by m registers. With t = 2^-k / m, a register of
 * rate l is at most k with probability exp(-l t). So where A's register is lower
 * than B's, the two are independent: A's comes from its own and the common items,
 * B's from B's own only, since a common one would have raised A's too. The
 * probability of equal ones is, with a, b, x = exp(-l t) of the three rates,
 *
 *	a b x ((1 - a x)(1 - b x) + a b x (1 - x)).
 *
 * The likelihood needs counts only: for each k, how many of A's and of B's lower,
 * higher and equal registers have it. It is maximized over the logarithms of the
 * rates by Newton's method, damped after Levenberg and Marquardt. Bounds are from
 * the observed information; at the border, where the best rate is none, from the
 * slope as well.
 *
 * Tokens of both sets are compared one by one instead, which is exact except for the rare two items
 * of one place.
 *
 * Only those registers of a set tell which of its items are common that are not
 * lower than the other's. Of a set that is a thousand times smaller, they are few. Below
 * ten, their information is no measure of the error any more, and the bounds are
 * those that the sizes of the sets imply. Below one, the estimate is too.
 */
#include "types/sketch/hll/hlljoint.h"

#include <math.h>
#include <string.h>

#include "types/sketch/memory.h"

#define RATES 3 /* only A, only B, both */
#define KS (HLL_MAX_RANK + 1)
#define MAX_STEPS 60
#define FEW 10		  /* registers that tell nothing about an error */
#define LOPSIDED 0.01 /* a rate that stands for none is at most this part of a set */

typedef struct Pairs
{
	int q;				/* the highest rank but one */
	double m;			/* registers */
	double least;		/* logarithm of a rate that stands for none */
	double a_lower[KS]; /* of A's registers below B's, how many are k */
	double a_higher[KS];
	double b_lower[KS];
	double b_higher[KS];
	double equal[KS];
} Pairs;

static void count_pairs(const HllState *a, const HllState *b, Pairs *pairs);
static void hlljoint_maximize(const Pairs *pairs, double *logs);
static void hlljoint_interval(const Pairs *pairs, const double *logs, int rate, double z,
							  HllInterval *result);
static void joint_tokens(const HllState *a, const HllState *b, double z,
						 HllJoint *joint);
static bool joint_registers(const HllState *a, const HllState *b, double z,
							HllJoint *joint);
static bool joint_lopsided(double least, HllJoint *joint);
static void hlljoint_cap(HllInterval *interval, double most, bool few);

/*
 * hll_joint estimates how many items two sets have alone and together. Each interval holds
 * the true number with a probability of about confidence. False if registers are
 * full, so that there is no number.
 */
bool
hll_joint(const HllState *a, const HllState *b, double confidence, HllJoint *joint)
{
	double z = hll_normal_quantile(0.5 + confidence / 2);
	int precision = a->precision < b->precision ? a->precision : b->precision;
	HllState *own_a;
	HllState *own_b;
	bool known;

	if (!a->dense && !b->dense)
	{
		joint_tokens(a, b, z, joint);
		return true;
	}
	/* The parts of a set are no larger than the set: so the whole sets first. */
	hll_bounds(a, confidence, &joint->only_a.lower, &joint->only_a.estimate, &joint->only_a.upper);
	hll_bounds(b, confidence, &joint->only_b.lower, &joint->only_b.estimate, &joint->only_b.upper);
	own_a = hll_densified(hll_reduce(hll_copy(a), precision));
	own_b = hll_densified(hll_reduce(hll_copy(b), precision));
	known = joint_registers(own_a, own_b, z, joint);
	sketch_free(own_a);
	sketch_free(own_b);
	return known;
}

/*
 * Make an interval of an estimate and an error in both directions, with the bounds rounded to
 * whole numbers. Nothing is below zero.
 */
static void
from_difference(HllInterval *result, double estimate, double error)
{
	result->estimate = estimate > 0 ? estimate : 0;
	result->lower = ceil(result->estimate - error - 0.5);
	if (!(result->lower > 0))
		result->lower = 0; /* and not minus zero */
	if (result->lower > result->estimate)
		result->lower = result->estimate;
	result->upper = floor(result->estimate + error + 0.5);
	if (result->upper < result->estimate)
		result->upper = result->estimate;
}

/*
 * Compare two sets of tokens place by place. z is the quantile of the normal distribution for the
 * confidence.
 */
static void
joint_tokens(const HllState *a, const HllState *b, double z, HllJoint *joint)
{
	uint32_t *a_tokens = hll_sorted_tokens(a);
	uint32_t *b_tokens = hll_sorted_tokens(b);
	uint32_t common = 0;
	uint32_t i = 0;
	uint32_t j = 0;
	double total;
	double error;

	while (i < a->count && j < b->count)
	{
		uint32_t a_place = a_tokens[i] >> HLL_RANK_BITS;
		uint32_t b_place = b_tokens[j] >> HLL_RANK_BITS;

		common += a_place == b_place;
		i += a_place <= b_place;
		j += b_place <= a_place;
	}
	sketch_free(a_tokens);
	sketch_free(b_tokens);

	total = hll_token_estimate(a->count + b->count - common);
	error = z * hll_token_deviation(total);
	from_difference(&joint->both, hll_estimate(a) + hll_estimate(b) - total, error);
	from_difference(&joint->only_a, total - hll_estimate(b), error);
	from_difference(&joint->only_b, total - hll_estimate(a), error);
}

/*
 * joint_registers is hll_joint for registers. It is given all of a and of b as only_a
 * and only_b.
 */
static bool
joint_registers(const HllState *a, const HllState *b, double z, HllJoint *joint)
{
	HllState *either = hll_merge(hll_copy(a), b);
	double n_a = hll_estimate(a);
	double n_b = hll_estimate(b);
	double n = hll_estimate(either);
	double least = n * hll_error(a->precision) * 1e-4;
	double most_a = joint->only_a.upper;
	double most_b = joint->only_b.upper;
	bool few = fmin(n_a, n_b) * hll_nregisters(a->precision) < n * FEW;
	double rates[RATES];
	HllInterval *results[RATES];
	Pairs pairs;

	sketch_free(either);
	if (isinf(n))
		return false;
	if (joint_lopsided(least, joint))
		return true;
	rates[0] = n - n_b;
	rates[1] = n - n_a;
	rates[2] = n_a + n_b - n;
	for (int i = 0; i < RATES; i++)
		rates[i] = log(rates[i] > 100 * least ? rates[i] : 100 * least);
	count_pairs(a, b, &pairs);
	pairs.least = log(least);
	hlljoint_maximize(&pairs, rates);
	results[0] = &joint->only_a;
	results[1] = &joint->only_b;
	results[2] = &joint->both;
	for (int i = 0; i < RATES; i++)
		hlljoint_interval(&pairs, rates, i, z, results[i]);
	hlljoint_cap(&joint->only_a, most_a, few && n_a < n_b);
	hlljoint_cap(&joint->only_b, most_b, few && n_b <= n_a);
	hlljoint_cap(&joint->both, fmin(most_a, most_b), few);
	return true;
}

/*
 * joint_lopsided makes the result of the sizes of both sets alone, if one of them
 * is too small for more. False if it is not.
 */
static bool
joint_lopsided(double least, HllJoint *joint)
{
	bool a_small = joint->only_a.estimate < joint->only_b.estimate;
	HllInterval *small = a_small ? &joint->only_a : &joint->only_b;
	HllInterval *large = a_small ? &joint->only_b : &joint->only_a;

	if (least < LOPSIDED * small->estimate)
		return false;
	large->lower = fmax(large->lower - small->upper, 0);
	large->estimate = fmax(large->estimate - small->estimate / 2, large->lower);
	small->lower = 0;
	small->estimate /= 2;
	joint->both = *small;
	return true;
}

/* A part is at most its set; and anything up to that, if few registers tell more. */
static void
hlljoint_cap(HllInterval *interval, double most, bool few)
{
	interval->upper = few ? most : fmin(interval->upper, most);
	if (few)
		interval->lower = 0;
	interval->estimate = fmin(interval->estimate, most);
	interval->lower = fmin(interval->lower, most);
}

/*
 * Count the registers of two states of one precision by their values, and by which of the two is
 * lower.
 */
static void
count_pairs(const HllState *a, const HllState *b, Pairs *pairs)
{
	const uint8_t *ra = hll_registers(a);
	const uint8_t *rb = hll_registers(b);

	memset(pairs, 0, sizeof(Pairs));
	pairs->q = 64 - a->precision;
	pairs->m = hll_nregisters(a->precision);
	for (uint32_t i = 0; i < hll_nregisters(a->precision); i++)
	{
		if (ra[i] == rb[i])
			pairs->equal[ra[i]]++;
		else if (ra[i] < rb[i])
		{
			pairs->a_lower[ra[i]]++;
			pairs->b_higher[rb[i]]++;
		}
		else
		{
			pairs->a_higher[ra[i]]++;
			pairs->b_lower[rb[i]]++;
		}
	}
}

/* The logarithm of the probability that a register of a rate is k. */
static double
one_log(const Pairs *pairs, int k, double rate)
{
	double load = rate * ldexp(1 / pairs->m, k <= pairs->q ? -k : -pairs->q);

	if (k == 0)
		return -load;
	if (k > pairs->q)
		return log(-expm1(-load));
	return log(-expm1(-load)) - load;
}

/* The logarithm of the probability that both registers are k. */
static double
equal_log(const Pairs *pairs, int k, const double *rates)
{
	double t = ldexp(1 / pairs->m, k <= pairs->q ? -k : -pairs->q);
	double all = (rates[0] + rates[1] + rates[2]) * t;
	double some;

	if (k == 0)
		return -all;
	some = expm1(-(rates[0] + rates[2]) * t) * expm1(-(rates[1] + rates[2]) * t) -
		exp(-all) * expm1(-rates[2] * t);
	return k > pairs->q ? log(some) : log(some) - all;
}

/*
 * Return the logarithm of the likelihood of the registers; logs are those of the rates.
 */
static double
log_likelihood(const Pairs *pairs, const double *logs)
{
	double rates[RATES];
	double sum = 0;

	for (int i = 0; i < RATES; i++)
		rates[i] = exp(logs[i]);
	for (int k = 0; k <= pairs->q + 1; k++)
	{
		if (pairs->a_lower[k] > 0)
			sum += pairs->a_lower[k] * one_log(pairs, k, rates[0] + rates[2]);
		if (pairs->b_lower[k] > 0)
			sum += pairs->b_lower[k] * one_log(pairs, k, rates[1] + rates[2]);
		if (pairs->a_higher[k] > 0)
			sum += pairs->a_higher[k] * one_log(pairs, k, rates[0]);
		if (pairs->b_higher[k] > 0)
			sum += pairs->b_higher[k] * one_log(pairs, k, rates[1]);
		if (pairs->equal[k] > 0)
			sum += pairs->equal[k] * equal_log(pairs, k, rates);
	}
	return sum;
}

/*
 * hlljoint_derive gives the log-likelihood's first and second derivatives by differences.
 */
static void
hlljoint_derive(const Pairs *pairs, const double *logs, double *slope, double (*curve)[RATES])
{
	const double h = 1e-3;
	double here = log_likelihood(pairs, logs);
	double at[RATES];

	memcpy(at, logs, sizeof(at));
	for (int i = 0; i < RATES; i++)
	{
		double up;
		double down;

		at[i] = logs[i] + h;
		up = log_likelihood(pairs, at);
		at[i] = logs[i] - h;
		down = log_likelihood(pairs, at);
		at[i] = logs[i];
		slope[i] = (up - down) / (2 * h);
		curve[i][i] = (up - 2 * here + down) / (h * h);
		for (int j = 0; j < i; j++)
		{
			double sum = 0;

			for (int corner = 0; corner < 4; corner++)
			{
				at[i] = logs[i] + (corner & 1 ? h : -h);
				at[j] = logs[j] + (corner & 2 ? h : -h);
				sum += (corner == 0 || corner == 3 ? 1 : -1) * log_likelihood(pairs, at);
			}
			at[i] = logs[i];
			at[j] = logs[j];
			curve[i][j] = curve[j][i] = sum / (4 * h * h);
		}
	}
}

/*
 * hlljoint_solve solves a system by Cholesky's decomposition; false if the matrix is not
 * positive definite.
 */
static bool
hlljoint_solve(double (*matrix)[RATES], const double *right, double *result)
{
	double l[RATES][RATES];

	for (int i = 0; i < RATES; i++)
	{
		for (int j = 0; j <= i; j++)
		{
			double sum = matrix[i][j];

			for (int k = 0; k < j; k++)
				sum -= l[i][k] * l[j][k];
			if (i == j && !(sum > 0))
				return false;
			l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
		}
	}
	for (int i = 0; i < RATES; i++)
	{
		result[i] = right[i];
		for (int k = 0; k < i; k++)
			result[i] -= l[i][k] * result[k];
		result[i] /= l[i][i];
	}
	for (int i = RATES - 1; i >= 0; i--)
	{
		for (int k = i + 1; k < RATES; k++)
			result[i] -= l[k][i] * result[k];
		result[i] /= l[i][i];
	}
	return true;
}

/*
 * hlljoint_maximize climbs to the most likely rates, none of which goes below the least.
 */
static void
hlljoint_maximize(const Pairs *pairs, double *logs)
{
	double damping = 1e-3;
	double value = log_likelihood(pairs, logs);

	for (int step = 0; step < MAX_STEPS; step++)
	{
		double slope[RATES];
		double curve[RATES][RATES];
		double move[RATES];
		double at[RATES];
		double longest = 0;
		double next;

		hlljoint_derive(pairs, logs, slope, curve);
		for (int i = 0; i < RATES; i++)
		{
			for (int j = 0; j < RATES; j++)
				curve[i][j] = -curve[i][j];
			curve[i][i] += damping * (1 + fabs(curve[i][i]));
		}
		if (!hlljoint_solve(curve, slope, move))
		{
			damping *= 10;
			continue;
		}
		for (int i = 0; i < RATES; i++)
		{
			move[i] = move[i] > 2 ? 2 : move[i] < -2 ? -2
													 : move[i];
			at[i] = fmax(logs[i] + move[i], pairs->least);
			longest = fmax(longest, fabs(at[i] - logs[i]));
		}
		next = log_likelihood(pairs, at);
		if (next >= value)
		{
			memcpy(logs, at, sizeof(at));
			damping /= 10;
			if (longest < 1e-7 || next - value < 1e-10)
				return;
			value = next;
		}
		else
			damping *= 10;
	}
}

/*
 * hlljoint_interval gives an estimate and its bounds: where the likelihood, with the other
 * rates following, falls by z^2 / 2.
 */
static void
hlljoint_interval(const Pairs *pairs, const double *logs, int rate, double z, HllInterval *result)
{
	double slope[RATES];
	double curve[RATES][RATES];
	double unit[RATES] = {0, 0, 0};
	double inverse[RATES];
	double estimate = exp(logs[rate]);
	bool none = logs[rate] <= pairs->least + 1e-6;
	double fall;
	double variance;

	/* By the rates themselves: d/dr = 1/r d/d(log r). */
	hlljoint_derive(pairs, logs, slope, curve);
	for (int i = 0; i < RATES; i++)
	{
		for (int j = 0; j < RATES; j++)
			curve[i][j] = -(curve[i][j] - (i == j ? slope[i] : 0)) / exp(logs[i] + logs[j]);
	}
	/* The other rates follow, but not below none. */
	for (int i = 0; i < RATES; i++)
	{
		if (i == rate || logs[i] > pairs->least + 1e-6)
			continue;
		for (int j = 0; j < RATES; j++)
			curve[i][j] = curve[j][i] = i == j;
	}
	unit[rate] = 1;
	if (hlljoint_solve(curve, unit, inverse))
		variance = inverse[rate];
	else
		variance = pow(exp(logs[0]) + exp(logs[1]) + exp(logs[2]), 2) / pairs->m;
	fall = none ? fabs(slope[rate] / estimate) : 0;
	result->estimate = none ? 0 : estimate;
	result->lower = none ? 0 : fmax(estimate - z * sqrt(variance), 0);
	result->upper = result->estimate + variance * (sqrt(fall * fall + z * z / variance) - fall);
}
