/*
 * siphash.h
 *		SipHash-1-3 (Aumasson, Bernstein 2012): hashes of bytes that users choose.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Without the key no one can find strings that collide more often than by chance, so a chain or
 * a run of a hash table stays short. It is what the tables of Rust and Python use.
 *
 * Plain C, also for programs that are not part of the server.
 */
#ifndef DC_SIPHASH_H
#define DC_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/*
 * Rotate a word to the left by 1 to 63 bits.
 */
static inline uint64_t
siphash_rotate(uint64_t x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

/*
 * Mix the state by one round.
 */
static inline void
siphash_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = siphash_rotate(v[1], 13) ^ v[0];
	v[3] = siphash_rotate(v[3], 16) ^ v[2];
	v[0] = siphash_rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = siphash_rotate(v[1], 17) ^ v[2];
	v[3] = siphash_rotate(v[3], 21) ^ v[0];
	v[2] = siphash_rotate(v[2], 32);
}

/*
 * Add a word of eight bytes to the state.
 */
static inline void
siphash_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	siphash_round(v);
	v[0] ^= word;
}

/*
 * Return up to eight bytes as a number, the first one being the lowest: on any machine.
 */
static inline uint64_t
siphash_load(const uint8_t *bytes, size_t len)
{
	uint64_t word = 0;

	for (size_t i = 0; i < len; i++)
		word |= (uint64_t) bytes[i] << (8 * i);
	return word;
}

/*
 * Return the hash of some bytes under a key.
 */
static inline uint64_t
siphash_hash(const uint64_t key[2], const void *data, size_t len)
{
	const uint8_t *bytes = data;
	uint64_t v[4] = {
		key[0] ^ UINT64_C(0x736f6d6570736575),
		key[1] ^ UINT64_C(0x646f72616e646f6d),
		key[0] ^ UINT64_C(0x6c7967656e657261),
		key[1] ^ UINT64_C(0x7465646279746573)};
	size_t left = len;

	for (; left >= 8; left -= 8, bytes += 8)
		siphash_word(v, siphash_load(bytes, 8));
	siphash_word(v, (uint64_t) len << 56 | siphash_load(bytes, left));
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		siphash_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif /* DC_SIPHASH_H */
