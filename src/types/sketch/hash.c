/*
 * hash.c
 *		The hash functions of the sketches.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Both are Austin Appleby's, from SMHasher (public domain), reimplemented from
 * their descriptions. They are part of the stored formats: a value holds hashes,
 * or parts of them, so their results may never change. They read bytes
 * in little-endian order on any machine.
 *
 * Redis's PFADD uses MurmurHash64A with the seed 0xadc83b19. postgresql-hll uses the low
 * half of MurmurHash3_x64_128.
 */
#include "types/sketch/hash.h"

#include "types/sketch/bytes.h"

/* The n bytes, 1 to 7, that end data of len bytes. */
static inline uint64_t
load_tail(const uint8_t *bytes, size_t n, size_t len)
{
	if (len >= 8)
		return bytes_load64(bytes + n - 8) >> (64 - 8 * n);
	if (n >= 4)
		return bytes_load32(bytes) | (uint64_t) bytes_load32(bytes + n - 4) << (8 * (n - 4));
	return bytes[0] | (uint64_t) bytes[n / 2] << (8 * (n / 2)) |
		(uint64_t) bytes[n - 1] << (8 * (n - 1));
}

/* MurmurHash64A: its start, its step for eight bytes or fewer, its end. */

#define REDIS_SEED UINT64_C(0xadc83b19)
#define REDIS_MUL UINT64_C(0xc6a4a7935bd1e995)

/*
 * Return the state of MurmurHash64A before the first byte; len is that of all data.
 */
static inline uint64_t
redis_begin(size_t len)
{
	return REDIS_SEED ^ (len * REDIS_MUL);
}

/*
 * Add a word of eight bytes to the state.
 */
static inline uint64_t
redis_word(uint64_t h, uint64_t word)
{
	word *= REDIS_MUL;
	word ^= word >> 47;
	return (h ^ (word * REDIS_MUL)) * REDIS_MUL;
}

/*
 * Add the last one to seven bytes to the state.
 */
static inline uint64_t
redis_tail(uint64_t h, uint64_t tail)
{
	return (h ^ tail) * REDIS_MUL;
}

/*
 * Return the hash, after all bytes have been added.
 */
static inline uint64_t
redis_end(uint64_t h)
{
	h ^= h >> 47;
	h *= REDIS_MUL;
	return h ^ (h >> 47);
}

/*
 * hash_redis is MurmurHash64A as Redis seeds it. Unlike there, a length above
 * 2 GB is hashed whole.
 */
uint64_t
hash_redis(const void *data, size_t len)
{
	const uint8_t *bytes = data;
	uint64_t h = redis_begin(len);
	size_t left = len;

	for (; left >= 8; left -= 8, bytes += 8)
		h = redis_word(h, bytes_load64(bytes));
	if (left > 0)
		h = redis_tail(h, load_tail(bytes, left, len));
	return redis_end(h);
}

/* The character '0' in each byte. */
#define ZEROS UINT64_C(0x3030303030303030)

/*
 * Eight decimal digits of a number below 10^8, each in a byte, the first one in
 * the lowest: halves, quarters and eighths of the word are divided at once, by
 * multiplication with the inverse.
 */
static inline uint64_t
eight_digits(uint32_t number)
{
	uint64_t by4 = number / 10000 | (uint64_t) (number % 10000) << 32;
	uint64_t hundreds = by4 * 10486 >> 20 & UINT64_C(0x0000007f0000007f);
	uint64_t by2 = hundreds | (by4 - hundreds * 100) << 16;
	uint64_t tens = by2 * 103 >> 10 & UINT64_C(0x000f000f000f000f);

	return tens | (by2 - tens * 10) << 8;
}

/* Any number's decimal form, of up to 20 bytes; writes up to 28. Its length. */
static size_t
put_decimal(uint8_t *out, int64_t number)
{
	uint64_t left = number < 0 ? -(uint64_t) number : (uint64_t) number;
	uint8_t *start = out;
	uint64_t digits[3];
	int n = 0;
	int leading;

	do
	{
		digits[n++] = eight_digits((uint32_t) (left % 100000000));
		left /= 100000000;
	} while (left > 0);
	if (number < 0)
		*out++ = '-';
	leading = digits[n - 1] == 0 ? 7 : __builtin_ctzll(digits[n - 1]) / 8;
	bytes_store64(out, (digits[n - 1] | ZEROS) >> (8 * leading));
	out += 8 - leading;
	while (--n > 0)
	{
		bytes_store64(out, digits[n - 1] | ZEROS);
		out += 8;
	}
	return (size_t) (out - start);
}

/* A function of its own, so that the one for most numbers has no array on its stack. */
static __attribute__((noinline)) uint64_t
hash_long_decimal(int64_t number)
{
	uint8_t decimal[32];

	return hash_redis(decimal, put_decimal(decimal, number));
}

/*
 * hash_redis_decimal is hash_redis of a number's decimal form. Numbers of up to 16
 * digits, which most are, stay in registers.
 */
uint64_t
hash_redis_decimal(int64_t number)
{
	uint64_t positive = (uint64_t) number;
	uint64_t high;
	uint64_t low;
	int n; /* digits of the highest word */

	if (positive >= UINT64_C(10000000000000000))
		return hash_long_decimal(number);
	if (positive < 100000000)
	{
		low = eight_digits((uint32_t) positive);
		n = 8 - (low == 0 ? 7 : __builtin_ctzll(low) / 8);
		low = (low | ZEROS) >> (64 - 8 * n);
		if (n == 8)
			return redis_end(redis_word(redis_begin(8), low));
		return redis_end(redis_tail(redis_begin((size_t) n), low));
	}
	high = eight_digits((uint32_t) (positive / 100000000));
	low = eight_digits((uint32_t) (positive % 100000000)) | ZEROS;
	n = 8 - __builtin_ctzll(high) / 8;
	high |= ZEROS;
	if (n == 8)
		return redis_end(redis_word(redis_word(redis_begin(16), high), low));
	high = high >> (64 - 8 * n) | low << (8 * n);
	return redis_end(redis_tail(redis_word(redis_begin((size_t) n + 8), high),
								low >> (64 - 8 * n)));
}

/*
 * Rotate a word to the left by 1 to 63 bits.
 */
static inline uint64_t
hash_rotate(uint64_t x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

/*
 * Mix a half of MurmurHash3's state when all bytes are in it (its fmix64).
 */
static inline uint64_t
hash_finish(uint64_t k)
{
	k = (k ^ (k >> 33)) * UINT64_C(0xff51afd7ed558ccd);
	k = (k ^ (k >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
	return k ^ (k >> 33);
}

/*
 * hash_murmur3 is the low 64 bits of MurmurHash3_x64_128 with seed 0.
 */
uint64_t
hash_murmur3(const void *data, size_t len)
{
	const uint64_t c1 = UINT64_C(0x87c37b91114253d5);
	const uint64_t c2 = UINT64_C(0x4cf5ad432745937f);
	const uint8_t *bytes = data;
	uint64_t h1 = 0;
	uint64_t h2 = 0;
	size_t left = len;

	for (; left >= 16; left -= 16, bytes += 16)
	{
		h1 ^= hash_rotate(bytes_load64(bytes) * c1, 31) * c2;
		h1 = (hash_rotate(h1, 27) + h2) * 5 + 0x52dce729;
		h2 ^= hash_rotate(bytes_load64(bytes + 8) * c2, 33) * c1;
		h2 = (hash_rotate(h2, 31) + h1) * 5 + 0x38495ab5;
	}
	if (left > 8)
		h2 ^= hash_rotate(load_tail(bytes + 8, left - 8, len) * c2, 33) * c1;
	if (left >= 8)
		h1 ^= hash_rotate(bytes_load64(bytes) * c1, 31) * c2;
	else if (left > 0)
		h1 ^= hash_rotate(load_tail(bytes, left, len) * c1, 31) * c2;
	h1 ^= len;
	h2 ^= len;
	h1 += h2;
	h2 += h1;
	return hash_finish(h1) + hash_finish(h2);
}
