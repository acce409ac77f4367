/*
 * sample.h
 *		Counting a sample: random rounding of deltas.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A delta d becomes one of its two neighbours among the multiples of p, at random, so that its
 * expected value is d. With r = |d| mod p it is rounded away from zero with probability r / p. The
 * variance of one rounding is r (p - r), which is at most |d| (p - 1). So the standard error of a
 * sum of deltas is at most the root of (inc + dec) (p - 1), where inc and dec are the sums of the
 * amounts, which the sampled amounts estimate.
 *
 * The remainder of a random number of 64 bits by p is above a threshold with an error below p /
 * 2^64. This does not depend on the server.
 */
#ifndef DC_SAMPLE_H
#define DC_SAMPLE_H

#include <math.h>
#include <stdint.h>

/* The bound of an error that holds in 95 of 100 cases, in standard errors. */
#define SAMPLE_95 1.96

/*
 * sample_round rounds a delta to a multiple of p >= 1. A delta whose neighbour does not fit into a
 * bigint stays as it is, which is always correct.
 */
static inline int64_t
sample_round(int64_t delta, int32_t p, uint64_t random)
{
	int64_t rest = delta % p; /* has the sign of the delta */
	int64_t amount = rest < 0 ? -rest : rest;
	int64_t down = delta - rest;
	int64_t up;

	if ((int64_t) (random % (uint64_t) p) >= amount)
		return down;
	if (__builtin_add_overflow(down, rest < 0 ? -(int64_t) p : (int64_t) p, &up))
		return delta;
	return up;
}

/*
 * Return the maximum error, in 95 of 100 cases, of a sum whose amounts are inc and dec, also if few
 * or no deltas were rounded up: then the variance that follows from the sums is often too small. So
 * the variance is that of three further multiples, and half a step accounts for sums being
 * multiples. The unit test adds up how often that holds, by the binomial distribution.
 */
static inline double
sample_error(double inc, double dec, int32_t p)
{
	return SAMPLE_95 * sqrt((inc + dec + 3.0 * p) * (p - 1)) + (p - 1) / 2.0;
}

#endif /* DC_SAMPLE_H */
