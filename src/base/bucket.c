/*
 * bucket.c
 *		Buckets of time, and the keys of their rows: of windowed counters and of distinct tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Times are microseconds since PostgreSQL's epoch, midnight of 2000-01-01 UTC. Buckets of a width
 * are counted from Monday, 2000-01-03, so that days begin at midnight and weeks on Mondays, UTC.
 * Those before have numbers below 0, and no rows.
 *
 * The row of a key and a bucket has the key, a byte 1, and the bucket's number in 8 hexadecimal
 * digits. In the "C" collation the buckets of a key follow each other, in their order. Rows of
 * another key may be among them, if that begins with these bytes: it is longer, so bucket_get() and
 * the length tell them apart.
 *
 * Nothing here depends on the server: the unit tests build it as it is.
 */
#include "base/bucket.h"

/*
 * bucket_of returns the bucket that a time is in.
 */
int64_t
bucket_of(int64_t at, int64_t width)
{
	int64_t since = at - BUCKET_ORIGIN;

	return since / width - (since % width < 0);
}

/*
 * bucket_start returns when a bucket begins. For a bucket beyond the range of times, as in a
 * row written directly, it returns the last or first time.
 */
int64_t
bucket_start(int64_t bucket, int64_t width)
{
	int64_t start;

	if (__builtin_mul_overflow(bucket, width, &start) || __builtin_add_overflow(start, BUCKET_ORIGIN, &start))
		return bucket < 0 ? INT64_MIN : INT64_MAX;
	return start;
}

/*
 * bucket_horizon returns the first bucket that is kept. A bucket goes when it has been over for
 * `keep`, both by the clock and by the newest bucket that has been written: a clock that is wrong
 * for a while takes nothing away that the table itself does not show to be old.
 */
int64_t
bucket_horizon(int64_t now, int64_t newest, int64_t width, int64_t keep)
{
	int64_t last = bucket_of(now, width);

	if (keep <= 0)
		return 0;
	if (newest < last)
		last = newest;
	last -= keep / width + (keep % width != 0);
	return last < 0 ? 0 : last;
}

/*
 * bucket_put writes the end of a row's key: BUCKET_SUFFIX_BYTES bytes.
 */
void
bucket_put(char *suffix, int64_t bucket)
{
	static const char digits[] = "0123456789abcdef";

	suffix[0] = BUCKET_SEPARATOR;
	for (int i = 8; i > 0; i--, bucket >>= 4)
		suffix[i] = digits[bucket & 15];
}

/*
 * bucket_get reads the bucket from the end of a row's key; false if the key has no such end.
 */
bool
bucket_get(const char *key, uint32_t len, int64_t *bucket)
{
	int64_t number = 0;

	if (len < BUCKET_SUFFIX_BYTES || key[len - BUCKET_SUFFIX_BYTES] != BUCKET_SEPARATOR)
		return false;
	for (uint32_t i = len - BUCKET_SUFFIX_BYTES + 1; i < len; i++)
	{
		char c = key[i];

		if (c >= '0' && c <= '9')
			number = number << 4 | (c - '0');
		else if (c >= 'a' && c <= 'f')
			number = number << 4 | (c - 'a' + 10);
		else
			return false;
	}
	*bucket = number;
	return true;
}
