/*
 * bucket_test.c
 *		Buckets of time: their borders, their keys and the order of these, and what is kept.
 */
#include "base/bucket.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define SECOND INT64_C(1000000)
#define DAY (86400 * SECOND)
#define LONGEST 12 /* bytes of a user's key here */

static uint64_t seed = 7;

static const int64_t widths[] = {SECOND, 7 * SECOND, 60 * SECOND, 3600 * SECOND, DAY, 7 * DAY, 36525 * DAY};
#define WIDTHS ((int) (sizeof(widths) / sizeof(widths[0])))

static uint64_t
draw(uint64_t limit)
{
	return unit_random(&seed) % limit;
}

/*
 * A time within 30,000 years of the origin, often at a border of buckets or beside one.
 */
static int64_t
draw_time(int64_t width)
{
	int64_t at = (int64_t) draw(UINT64_C(60000) * 365 * DAY) - INT64_C(30000) * 365 * DAY;

	if (draw(2) == 0)
		at = bucket_start(bucket_of(at, width), width) + (int64_t) draw(3) - 1;
	return at;
}

static void
test_borders(void)
{
	bool holds = true;
	bool follows = true;
	bool nests = true;

	for (int i = 0; i < 200000; i++)
	{
		int64_t width = widths[draw(WIDTHS)];
		int64_t at = draw_time(width);
		int64_t bucket = bucket_of(at, width);
		int64_t wide = width * (int64_t) (1 + draw(24));
		int64_t next = bucket_start(bucket + 1, width);

		holds &= bucket_start(bucket, width) <= at && at < next && next - bucket_start(bucket, width) == width;
		follows &= bucket_of(next, width) == bucket + 1 && bucket_of(next - 1, width) == bucket;
		/* a bucket lies in one of a multiple of its width as a whole */
		nests &= bucket_of(bucket_start(bucket, width), wide) == bucket_of(next - 1, wide);
	}
	ok(holds, "a bucket has its beginning, and not its end");
	ok(follows, "one follows the other");
	ok(nests, "one lies in a single one that is a multiple as wide");
	ok(bucket_of(0, DAY) == -2 && bucket_of(BUCKET_ORIGIN, DAY) == 0 && bucket_of(BUCKET_ORIGIN - 1, DAY) == -1,
	   "days are counted from 2000-01-03");
	/* 2026-11-23 is a Monday, 9823 days after 2000-01-01 */
	ok(bucket_start(bucket_of(9823 * DAY, 7 * DAY), 7 * DAY) == 9823 * DAY &&
		   bucket_of(9823 * DAY - 1, 7 * DAY) == bucket_of(9823 * DAY, 7 * DAY) - 1,
	   "weeks begin on Monday");
}

static void
test_horizon(void)
{
	int64_t now = bucket_start(1000, DAY) + DAY / 2;
	bool right = true;

	ok(bucket_horizon(now, 1000, DAY, 0) == 0, "what is kept for good has no horizon");
	ok(bucket_horizon(now, 1000, DAY, 30 * DAY) == 970, "it is so many buckets before this one");
	ok(bucket_horizon(now, 1000, DAY, 30 * DAY + 1) == 969, "a part of a bucket is kept as a whole");
	ok(bucket_horizon(now, 900, DAY, 30 * DAY) == 870, "the newest bucket counts if the clock is ahead of it");
	ok(bucket_horizon(now, 1001, DAY, 30 * DAY) == 970, "and the clock if that is ahead");
	ok(bucket_horizon(now, 10, DAY, 30 * DAY) == 0, "it is never below 0");
	for (int i = 0; i < 100000; i++)
	{
		int64_t width = widths[draw(WIDTHS - 1)];
		int64_t newest = (int64_t) draw(BUCKET_MAX / 4096);
		int64_t at = bucket_start(newest, width) + (int64_t) draw((uint64_t) width);
		int64_t keep = width + (int64_t) draw((uint64_t) (100 * width));
		int64_t horizon = bucket_horizon(at, newest, width, keep);

		/* the last one that goes ends at the horizon; it is no more than a bucket late */
		right &= horizon == 0 || bucket_start(horizon, width) <= at - keep;
		right &= bucket_start(horizon + 2, width) > at - keep;
	}
	ok(right, "what goes has been over for as long as it is kept");
}

/*
 * The key of a row: a user's key and a bucket. Returns its length.
 */
static uint32_t
make_key(char *result, const char *key, uint32_t len, int64_t bucket)
{
	memcpy(result, key, len);
	bucket_put(result + len, bucket);
	return len + BUCKET_SUFFIX_BYTES;
}

static int
compare(const char *a, uint32_t a_len, const char *b, uint32_t b_len)
{
	int result = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return result != 0 ? result : (a_len > b_len) - (a_len < b_len);
}

static void
test_keys(void)
{
	bool back = true;
	bool ordered = true;
	bool apart = true;

	for (int i = 0; i < 200000; i++)
	{
		static const char bytes[] = {BUCKET_SEPARATOR, '0', 'f', 'a', 'g', '\377'};
		char key[LONGEST];
		char other_key[LONGEST];
		char row[LONGEST + BUCKET_SUFFIX_BYTES];
		char other[LONGEST + BUCKET_SUFFIX_BYTES];
		uint32_t len = (uint32_t) draw(LONGEST);
		uint32_t other_len = (uint32_t) draw(LONGEST);
		int64_t bucket = (int64_t) draw(BUCKET_MAX + 1);
		int64_t next = bucket + (int64_t) draw((uint64_t) (BUCKET_MAX - bucket) + 1);
		uint32_t row_len;
		int64_t found = -1;

		for (int b = 0; b < LONGEST; b++)
		{
			key[b] = bytes[draw(sizeof(bytes))];
			other_key[b] = bytes[draw(sizeof(bytes))];
		}
		row_len = make_key(row, key, len, bucket);
		back &= bucket_get(row, row_len, &found) && found == bucket;
		(void) make_key(other, key, len, next);
		ordered &= next == bucket || compare(row, row_len, other, row_len) < 0;
		if (len != other_len || memcmp(key, other_key, len) != 0)
			apart &= compare(row, row_len, other, make_key(other, other_key, other_len, bucket)) != 0;
	}
	ok(back, "the bucket of a key is found again");
	ok(ordered, "the buckets of a key are in the order of time");
	ok(apart, "different keys of a user's are different keys of rows");
}

static void
test_strangers(void)
{
	int64_t bucket = -5;
	bool refused = true;

	for (int c = 0; c < 256; c++)
	{
		char digits[] = "k\0010000000?";
		bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');

		digits[9] = (char) c;
		refused &= bucket_get(digits, 10, &bucket) == digit;
		digits[9] = '0';
		digits[1] = (char) c;
		refused &= bucket_get(digits, 10, &bucket) == (c == BUCKET_SEPARATOR);
	}
	ok(refused, "no other byte is a digit, or a separator");
	bucket = -5;
	ok(!bucket_get("\0010000000", 8, &bucket) && !bucket_get("", 0, &bucket) && bucket == -5, "what is too short is no key of a row");
	ok(bucket_get("\00100000010", 9, &bucket) && bucket == 16, "the empty key has rows, too");
	ok(bucket_get("\001ffffffff", 9, &bucket) && bucket == BUCKET_MAX, "and the last bucket is one");
}

int
main(void)
{
	test_borders();
	test_horizon();
	test_keys();
	test_strangers();
	return done_testing();
}
