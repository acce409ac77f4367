/*
 * rankbucket.c
 *		Buckets of values, by which ranks are counted.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The bucket of a value is a floating-point number of 14 significant bits, as an integer: below
 * 16,384 each value has its own, above a bucket is at most 1/8,192 of its values wide. Those of
 * negative values mirror those of positive ones. Greater values have greater buckets. Since buckets
 * do not depend on the existing values, none is ever split, merged or rebuilt.
 *
 * Nothing here depends on the server: the unit tests build it as it is.
 */
#include "transactional/rank/rankbucket.h"

#define SIGNIFICANT_BITS 14
#define FRACTION_BITS (SIGNIFICANT_BITS - 1)

/* The bucket of the value 0; no number of a magnitude is as large. */
#define BUCKET_OF_ZERO (UINT32_C(1) << 19)

static uint32_t magnitude_bucket(uint64_t magnitude);
static uint64_t magnitude_first(uint32_t number);

/*
 * rank_bucket_of returns the bucket of a value.
 */
uint32_t
rank_bucket_of(int64_t value)
{
	if (value >= 0)
		return BUCKET_OF_ZERO + magnitude_bucket((uint64_t) value);
	return BUCKET_OF_ZERO - magnitude_bucket(-(uint64_t) value);
}

/*
 * rank_bucket_last returns the greatest value of a bucket that some value has.
 */
int64_t
rank_bucket_last(uint32_t bucket)
{
	if (bucket >= BUCKET_OF_ZERO)
		return (int64_t) (magnitude_first(bucket - BUCKET_OF_ZERO + 1) - 1);
	return (int64_t) -magnitude_first(BUCKET_OF_ZERO - bucket);
}

/*
 * Return the number of the bucket of a value without its sign.
 */
static uint32_t
magnitude_bucket(uint64_t magnitude)
{
	int shift;

	if (magnitude >> SIGNIFICANT_BITS == 0)
		return (uint32_t) magnitude;
	shift = 64 - SIGNIFICANT_BITS - __builtin_clzll(magnitude);
	return ((uint32_t) shift << FRACTION_BITS) + (uint32_t) (magnitude >> shift);
}

/*
 * Return the least value without its sign that has this number.
 */
static uint64_t
magnitude_first(uint32_t number)
{
	uint32_t shift;

	if (number >> SIGNIFICANT_BITS == 0)
		return number;
	shift = (number >> FRACTION_BITS) - 1;
	return (uint64_t) (number - (shift << FRACTION_BITS)) << shift;
}
