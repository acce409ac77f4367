/*
 * decay.c
 *		Forward decay (Cormode, Shkapenyuk, Srivastava and Xu, 2009), in powers of two.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The score of a key at time t is the sum over its events of delta * 2^(-(t - at) / h), with h the
 * half-life. That changes all the time. The weight is kept instead, the sum of delta * 2^((at - L)
 * / h), for a landmark L that all keys share: it changes with an event only, and the order of
 * weights is the order of scores, at any time. The score is the weight times 2^(-(t - L) / h).
 *
 * Weights grow without end as time goes on, and a double ends at 2^1024. So time is divided into
 * epochs of DECAY_EPOCH half-lives, counted from the epoch of timestamps, and each has its
 * beginning as landmark. A weight is stored with its epoch, so no landmark has to be stored
 * elsewhere. Moving a weight to another epoch means multiplying it by a power of two, which is
 * exact. An event late in an epoch adds at most 2^63 * 2^512.
 *
 * The exponent is split into a whole number and a fraction with integers, so weights do not lose
 * digits as an epoch grows old: an event is added with a relative error of some 2^-52.
 *
 * A clock may be set back. An epoch that is just about to begin is as good as the present one; a
 * weight of a later one (decay_is_ahead) was left by a clock that was far wrong. It would hide all
 * others for that long, so it counts as none.
 *
 * Nothing here overflows: results are limited to the range of a double. (Only a very large change
 * of the clock, or weights that are written directly, can exceed it.)
 *
 * This file does not depend on the server.
 */
#include "time/trend/decay.h"

#include <float.h>
#include <math.h>

static int64_t decay_floor_div(int64_t a, int64_t b);
static int64_t floor_rest(int64_t a, int64_t b);
static int64_t decay_sane(int64_t epoch);
static double decay_scale(double x, int64_t exponent);

/*
 * decay_epoch returns the epoch of a time. Times and half-lives are in microseconds.
 */
int64_t
decay_epoch(int64_t at, int64_t half_life)
{
	return decay_floor_div(decay_floor_div(at, half_life), DECAY_EPOCH);
}

/*
 * decay_weight returns the weight of a delta at a time, in an epoch.
 */
double
decay_weight(double delta, int64_t at, int64_t half_life, int64_t epoch)
{
	int64_t halves = decay_floor_div(at, half_life);
	int64_t rest = floor_rest(at, half_life);

	return decay_scale(delta * exp2((double) rest / (double) half_life), halves - decay_sane(epoch) * DECAY_EPOCH);
}

/*
 * decay_move returns the equivalent weight in another epoch.
 */
double
decay_move(double weight, int64_t from, int64_t to)
{
	return decay_scale(weight, (decay_sane(from) - decay_sane(to)) * DECAY_EPOCH);
}

/*
 * Return true if an epoch cannot have been reached at a time.
 */
bool
decay_is_ahead(int64_t epoch, int64_t half_life, int64_t now)
{
	return epoch > decay_epoch(now, half_life) + 1;
}

/*
 * decay_score returns the score of a weight of an epoch at a time.
 */
double
decay_score(double weight, int64_t epoch, int64_t half_life, int64_t now)
{
	int64_t halves = decay_floor_div(now, half_life);
	int64_t rest = floor_rest(now, half_life);

	return decay_scale(weight * exp2(-(double) rest / (double) half_life), decay_sane(epoch) * DECAY_EPOCH - halves);
}

/*
 * Divide and round down; C rounds towards zero. b must be positive.
 */
static int64_t
decay_floor_div(int64_t a, int64_t b)
{
	int64_t quotient = a / b;

	return quotient - (a % b < 0 ? 1 : 0);
}

/*
 * Return the rest of decay_floor_div: from 0 to b - 1.
 */
static int64_t
floor_rest(int64_t a, int64_t b)
{
	int64_t rest = a % b;

	return rest < 0 ? rest + b : rest;
}

/*
 * decay_sane limits an epoch to those that times can have, so that a made-up one cannot overflow.
 */
static int64_t
decay_sane(int64_t epoch)
{
	const int64_t limit = INT64_C(1) << 48;

	return epoch < -limit ? -limit : epoch > limit ? limit
												   : epoch;
}

/*
 * decay_scale multiplies by a power of two.
 */
static double
decay_scale(double x, int64_t exponent)
{
	const int64_t limit = 4096; /* beyond any double */
	double scaled = ldexp(x, (int) (exponent < -limit ? -limit : exponent > limit ? limit
																				  : exponent));

	if (isinf(scaled))
		return scaled > 0 ? DBL_MAX : -DBL_MAX;
	return scaled;
}
