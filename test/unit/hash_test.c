/*
 * hash_test.c
 *		The hash functions against published vectors, and against what a Redis
 *		server and postgresql-hll make of the same bytes.
 */
#include "types/sketch/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define LENGTHS 41

typedef uint64_t (*HashFunction)(const void *data, size_t len);

typedef struct Vector
{
	const char *text;
	uint64_t hash;
} Vector;

/* From sources of Redis and of its clients. */
static const Vector redis_texts[] = {
	{"", UINT64_C(0xd8dfea6585bc9732)},
	{"a", UINT64_C(0x53d2470a9b43b1a7)},
	{"b", UINT64_C(0xf10cdf96c004fda4)},
	{"c", UINT64_C(0x7585a45533f260f4)},
	{"foo", UINT64_C(0xe64609b8b0141cb4)},
	{"hello world", UINT64_C(0xa919bc3051f624b7)},
	{"0123456789abcdef", UINT64_C(0x9f8565428eaa573d)},
};

/* From tests of other implementations. */
static const Vector murmur3_texts[] = {
	{"", 0},
	{"hello", UINT64_C(0xcbd8a7b341bd9b02)},
	{"hello, world", UINT64_C(0x342fac623a5ebc8e)},
	{"hello world", UINT64_C(0x533f6046eb7f610e)},
	{"The quick brown fox jumps over the lazy dog.", UINT64_C(0xcd99481f9ee902c9)},
};

/*
 * The first 0, 1, ... 40 bytes of the pattern below, and its first 255. A Redis
 * 7.0 server's PFADD sets the registers that these hashes say.
 */
static const uint64_t redis_lengths[LENGTHS] = {
	UINT64_C(0xd8dfea6585bc9732), UINT64_C(0x34ea99f643cc5e6a), UINT64_C(0xdd84560a8bc3abdc), UINT64_C(0xbb5ea82ebe2977f4),
	UINT64_C(0x8f31ce1f9d3f8a4c), UINT64_C(0x35305a6e626392d4), UINT64_C(0x7e446b4b100f2271), UINT64_C(0x6ecb43f2a2944ac2),
	UINT64_C(0x76269dc15fb67c4f), UINT64_C(0xef87574905ac51b4), UINT64_C(0xf888d20f0f25fe97), UINT64_C(0x302037c56106d3f3),
	UINT64_C(0x4d90667addd89d26), UINT64_C(0x5174a47a7d42f533), UINT64_C(0x7326490b367b13a2), UINT64_C(0x3d5b1847e7fd5a3a),
	UINT64_C(0xe51808243efd22bf), UINT64_C(0xd03c155d929f8440), UINT64_C(0xe182373fc1ea2f85), UINT64_C(0x61997a3251cb8a9a),
	UINT64_C(0xddf5a0ca0c689d1c), UINT64_C(0xc935719af71d0151), UINT64_C(0xb50fdffdc2c78c47), UINT64_C(0x856e0a7334c2c692),
	UINT64_C(0x39accf453980f761), UINT64_C(0x2c6e70a40b03ddba), UINT64_C(0x80af2f26b346a643), UINT64_C(0x4c8f45b1c902abeb),
	UINT64_C(0x9a4ca79a55de1240), UINT64_C(0x83026b9854ac5c6f), UINT64_C(0xb95deb3824dac1a8), UINT64_C(0xd067b704173a0cc0),
	UINT64_C(0x0ba99766a1a37e93), UINT64_C(0x82f3c9013f6e3590), UINT64_C(0x7cc036c82e556164), UINT64_C(0xc5c3f0c9d41307bf),
	UINT64_C(0xd55c55326bfa83cd), UINT64_C(0x5a9465aaaf6e18d0), UINT64_C(0xf7b92898f34109b3), UINT64_C(0x0c917267d8ff3a86),
	UINT64_C(0xd4b34a2fb6ec45e3)};
static const uint64_t redis_255 = UINT64_C(0xe76ec1ed92652c92);

/* The same by hll_hash_bytea of postgresql-hll 2.17. */
static const uint64_t murmur3_lengths[LENGTHS] = {
	UINT64_C(0x0000000000000000), UINT64_C(0x932fc7cce617f1e7), UINT64_C(0xcff7e5ae5471b39d), UINT64_C(0x6afac0b8de81a4b1),
	UINT64_C(0xd3a4eed1b81f9f72), UINT64_C(0xb0330f40087f990b), UINT64_C(0x32d1f10b04077a12), UINT64_C(0x8340cc686662983b),
	UINT64_C(0xf0b144007f89ced7), UINT64_C(0xdbb3088eaec8a0b1), UINT64_C(0x7fc82ef8fd4f371e), UINT64_C(0xce105a4d0920d564),
	UINT64_C(0x11eea59fafc3bbb8), UINT64_C(0x3c0bc0c7790cc4e7), UINT64_C(0x4af05278beeea171), UINT64_C(0x2906f047b67f83ff),
	UINT64_C(0xda9c66580c5ef0fb), UINT64_C(0x78b8ee9a775e07d1), UINT64_C(0x5022ece9b605f7d8), UINT64_C(0x40591a6345e2fd5e),
	UINT64_C(0xf85aeb21888559f3), UINT64_C(0x2c128c13418db6f3), UINT64_C(0xc0ffc3389f035072), UINT64_C(0x01b7d4fb84dc53aa),
	UINT64_C(0x8372e2feeb61eb1c), UINT64_C(0xed9e2943729d5da2), UINT64_C(0x9fcd422e337cdec4), UINT64_C(0x454a6a1202a0fd74),
	UINT64_C(0xc2ea419f1d4c02de), UINT64_C(0x2ab2e5425a3cf241), UINT64_C(0xfde530955c73468b), UINT64_C(0xb1ca061ed4c5532f),
	UINT64_C(0xaf7374eb8efe799b), UINT64_C(0x08b88a88c3099ba9), UINT64_C(0x46e6fbb70374f1b8), UINT64_C(0x3db6d4b9af498f9f),
	UINT64_C(0xaee3ca841fccf7f7), UINT64_C(0xff4d3072c71df4b3), UINT64_C(0x5003e0c3f8da178f), UINT64_C(0x244221d812da51c7),
	UINT64_C(0xbf77aa22e65e7cfc)};
static const uint64_t murmur3_255 = UINT64_C(0x8e5f39b2d01cd62f);

/*
 * The hash of some bytes, if it is the same at every alignment. Each time they
 * are in a block that ends with them.
 */
static uint64_t
hash_of(HashFunction hash, const uint8_t *data, size_t len)
{
	uint64_t result = 0;

	for (size_t offset = 0; offset < 8; offset++)
	{
		uint8_t *block = malloc(offset + len);
		uint64_t here;

		memcpy(block + offset, data, len);
		here = hash(block + offset, len);
		free(block);
		if (offset > 0 && here != result)
			return ~result;
		result = here;
	}
	return result;
}

static void
test_texts(HashFunction hash, const Vector *vectors, size_t n, const char *name)
{
	bool same = true;

	for (size_t i = 0; i < n; i++)
		same = same && hash_of(hash, (const uint8_t *) vectors[i].text, strlen(vectors[i].text)) == vectors[i].hash;
	ok(same, name);
}

static void
test_lengths(HashFunction hash, const uint64_t *lengths, uint64_t of_255, const char *name)
{
	uint8_t pattern[255];
	bool same;

	for (int i = 0; i < 255; i++)
		pattern[i] = (uint8_t) (i * 37 + 11);
	same = hash_of(hash, pattern, 255) == of_255;
	for (size_t len = 0; len < LENGTHS; len++)
		same = same && hash_of(hash, pattern, len) == lengths[len];
	ok(same, name);
}

/* hll_hash_smallint, _integer, _bigint and _boolean of postgresql-hll */
static void
test_integers(void)
{
	const uint8_t one[8] = {1};
	const uint8_t minus_one[8] = {255, 255, 255, 255, 255, 255, 255, 255};

	ok(hash_murmur3(one, 1) == UINT64_C(0x7ace5c908374fe16) &&
		   hash_murmur3(one, 2) == UINT64_C(0x1b4d344f720fda2e) &&
		   hash_murmur3(one, 4) == UINT64_C(0x8895a3f5af28cafe) &&
		   hash_murmur3(one, 8) == UINT64_C(0x004403b7fb05c44a) &&
		   hash_murmur3(minus_one, 8) == UINT64_C(0xa0e4b27a1abaed73),
	   "murmur3: integers as postgresql-hll hashes them");
}

static bool
same_decimal(int64_t number)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%" PRId64, number);

	return hash_redis_decimal(number) == hash_redis(text, (size_t) len);
}

/* The short cut for numbers, of every length and around each power of ten. */
static void
test_decimal(void)
{
	uint64_t state = 1;
	uint64_t power = 1;
	bool same = same_decimal(INT64_MIN) && same_decimal(INT64_MAX);

	for (int digits = 0; digits < 19; digits++, power *= 10)
	{
		for (int64_t offset = -3; offset <= 3; offset++)
			same = same && same_decimal((int64_t) power + offset) && same_decimal(-(int64_t) power + offset);
	}
	for (int i = 0; i < 200000; i++)
		same = same && same_decimal((int64_t) unit_random(&state) >> (i % 64));
	ok(same, "redis: numbers are their decimal form");
}

int
main(void)
{
	test_texts(hash_redis, redis_texts, sizeof(redis_texts) / sizeof(Vector),
			   "redis: published vectors");
	test_lengths(hash_redis, redis_lengths, redis_255, "redis: every length and alignment");
	test_texts(hash_murmur3, murmur3_texts, sizeof(murmur3_texts) / sizeof(Vector),
			   "murmur3: published vectors");
	test_lengths(hash_murmur3, murmur3_lengths, murmur3_255,
				 "murmur3: every length and alignment");
	test_integers();
	test_decimal();
	return done_testing();
}
