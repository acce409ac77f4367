/*
 * rankbucket_test.c
 *		Buckets of values: their order, their width, and their last values, around all powers of two.
 */
#include "transactional/rank/rankbucket.h"

#include "unit.h"

static uint64_t seed = 48;

/*
 * A value of any magnitude, often a power of two or beside one.
 */
static int64_t
draw_value(void)
{
	int bits = (int) (unit_random(&seed) % 64);
	uint64_t value = UINT64_C(1) << bits;

	value += unit_random(&seed) % 2 == 0 ? unit_random(&seed) % 5 - 2 : unit_random(&seed) % value;
	return (int64_t) (unit_random(&seed) % 2 == 0 ? value : -value);
}

static void
test_order(void)
{
	bool monotone = true;
	bool last = true;
	bool narrow = true;
	bool numbered = true;

	for (int i = 0; i < 1000000; i++)
	{
		int64_t a = draw_value();
		int64_t b = draw_value();
		uint32_t bucket = rank_bucket_of(a);
		int64_t end = rank_bucket_last(bucket);

		monotone &= (a < b) == (rank_bucket_of(a) < rank_bucket_of(b)) || rank_bucket_of(a) == rank_bucket_of(b);
		last &= a <= end && rank_bucket_of(end) == bucket && (end == INT64_MAX || rank_bucket_of(end + 1) == bucket + 1);
		narrow &= (uint64_t) end - (uint64_t) a <= (a < 0 ? -(uint64_t) a : (uint64_t) a) / 8192;
		numbered &= bucket < RANK_BUCKETS;
	}
	ok(monotone, "greater values have greater buckets, or the same");
	ok(last, "the last value of a bucket is in it, and the one after it in the next");
	ok(narrow, "a bucket is at most 1/8192 of its values wide");
	ok(numbered, "numbers of buckets are below RANK_BUCKETS");
}

static void
test_small(void)
{
	bool exact = true;

	for (int64_t value = -16384; value < 16384; value++)
		exact &= rank_bucket_last(rank_bucket_of(value)) == value;
	ok(exact, "each small value has its own bucket");
	ok(rank_bucket_last(rank_bucket_of(16384)) == 16385, "two of those after them have one");
	ok(rank_bucket_last(rank_bucket_of(INT64_MAX)) == INT64_MAX, "the greatest value is the last of its bucket");
	ok(rank_bucket_last(rank_bucket_of(INT64_MIN)) == INT64_MIN, "the least value is alone in its bucket");
}

int
main(void)
{
	test_order();
	test_small();
	return done_testing();
}
