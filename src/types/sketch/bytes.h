/*
 * bytes.h
 *		Numbers in memory, at any address, in the same form on any machine: words in
 *		little-endian order, and varints.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCH_BYTES_H
#define DC_SKETCH_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BYTES_LITTLE64(word) __builtin_bswap64(word)
#define BYTES_LITTLE32(word) __builtin_bswap32(word)
#else
#define BYTES_LITTLE64(word) (word)
#define BYTES_LITTLE32(word) (word)
#endif

static inline uint64_t
bytes_load64(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return BYTES_LITTLE64(word);
}

static inline uint32_t
bytes_load32(const uint8_t *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof(word));
	return BYTES_LITTLE32(word);
}

static inline void
bytes_store64(uint8_t *bytes, uint64_t word)
{
	word = BYTES_LITTLE64(word);
	memcpy(bytes, &word, sizeof(word));
}

/*
 * A varint is a number of at most 63 bits, 7 bits a byte, the low bits first; all
 * bytes but the last have their highest bit set. It has no more bytes than it needs.
 */
static inline uint8_t *
bytes_put_varint(uint8_t *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*out++ = (uint8_t) (value | 0x80);
	*out++ = (uint8_t) value;
	return out;
}

static inline size_t
bytes_varint_size(uint64_t value)
{
	size_t size = 1;

	for (; value >= 0x80; value >>= 7)
		size++;
	return size;
}

/* Read a varint; false if there is none before the end, or not in its only form. */
static inline bool
bytes_get_varint(const uint8_t **next, const uint8_t *end, int64_t *value)
{
	uint64_t bits = 0;

	for (int shift = 0; shift < 63 && *next < end; shift += 7)
	{
		uint8_t byte = *(*next)++;

		bits |= (uint64_t) (byte & 0x7f) << shift;
		if (byte < 0x80)
		{
			*value = (int64_t) bits;
			return byte != 0 || shift == 0;
		}
	}
	return false;
}

#endif /* DC_SKETCH_BYTES_H */
