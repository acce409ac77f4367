/*
 * bits.h
 *		Streams of bits, the first bit of a byte being its lowest.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A reader never reads past its end: behind it there are zeros, and bits_left
 * falls below 0. So a caller may check once, after a number of reads, whether
 * all of them were there.
 */
#ifndef DC_SKETCH_BITS_H
#define DC_SKETCH_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "types/sketch/bytes.h"

typedef struct BitWriter
{
	uint8_t *next;
	uint64_t bits; /* not yet written */
	int nbits;	   /* how many, below 8 between calls */
} BitWriter;

typedef struct BitReader
{
	const uint8_t *next;
	const uint8_t *end;
	uint64_t bits; /* read ahead */
	int nbits;	   /* how many of them count; may be virtual zeros */
	int zeros;	   /* virtual bits handed out or held */
} BitReader;

static inline void
bits_begin(BitWriter *writer, uint8_t *out)
{
	writer->next = out;
	writer->bits = 0;
	writer->nbits = 0;
}

/* Append the low n bits of value, n at most 56; the others must be zero. */
static inline void
bits_put(BitWriter *writer, uint64_t value, int n)
{
	writer->bits |= value << writer->nbits;
	writer->nbits += n;
	while (writer->nbits >= 8)
	{
		*writer->next++ = (uint8_t) writer->bits;
		writer->bits >>= 8;
		writer->nbits -= 8;
	}
}

/* Append this many zeros and a one. */
static inline void
bits_put_unary(BitWriter *writer, uint32_t zeros)
{
	for (; zeros > 55; zeros -= 55)
		bits_put(writer, 0, 55);
	bits_put(writer, UINT64_C(1) << zeros, (int) zeros + 1);
}

/* Append a number in Golomb-Rice code of parameter k. */
static inline void
bits_put_rice(BitWriter *writer, uint32_t value, int k)
{
	bits_put_unary(writer, value >> k);
	bits_put(writer, value & ((UINT32_C(1) << k) - 1), k);
}

/* Fill the last byte with zeros; the end of what was written. */
static inline uint8_t *
bits_end(BitWriter *writer)
{
	if (writer->nbits > 0)
		*writer->next++ = (uint8_t) writer->bits;
	return writer->next;
}

static inline void
bits_open(BitReader *reader, const uint8_t *data, size_t len)
{
	reader->next = data;
	reader->end = data + len;
	reader->bits = 0;
	reader->nbits = 0;
	reader->zeros = 0;
}

/* Make at least 56 bits available. */
static inline void
bits_refill(BitReader *reader)
{
	if (reader->end - reader->next >= 8)
	{
		reader->bits |= bytes_load64(reader->next) << reader->nbits;
		reader->next += (63 - reader->nbits) >> 3;
		reader->nbits |= 56;
		return;
	}
	while (reader->nbits < 56)
	{
		if (reader->next < reader->end)
			reader->bits |= (uint64_t) *reader->next++ << reader->nbits;
		else
			reader->zeros += 8;
		reader->nbits += 8;
	}
}

/* Take n of the available bits. */
static inline uint64_t
bits_take(BitReader *reader, int n)
{
	uint64_t value = reader->bits & ((UINT64_C(1) << n) - 1);

	reader->bits >>= n;
	reader->nbits -= n;
	return value;
}

/* Take zeros and a one: how many zeros, or more than max if there are more. */
static inline uint32_t
bits_take_unary(BitReader *reader, uint32_t max)
{
	uint32_t zeros = 0;

	for (;;)
	{
		int here;

		bits_refill(reader);
		here = __builtin_ctzll(reader->bits | UINT64_C(1) << 56);
		zeros += (uint32_t) here;
		if (here < 56)
		{
			(void) bits_take(reader, here + 1);
			return zeros;
		}
		(void) bits_take(reader, 56);
		if (zeros > max)
			return zeros;
	}
}

/*
 * Take a number in Golomb-Rice code of parameter k; one above max, if it is.
 */
static inline uint64_t
bits_take_rice(BitReader *reader, int k, uint32_t max)
{
	uint64_t value;
	int zeros;

	bits_refill(reader);
	zeros = __builtin_ctzll(reader->bits | UINT64_C(1) << 56);
	if (zeros + 1 + k <= 56)
	{
		/* All of it is there. */
		(void) bits_take(reader, zeros + 1);
		return (uint64_t) zeros << k | bits_take(reader, k);
	}
	value = (uint64_t) bits_take_unary(reader, max >> k) << k;
	bits_refill(reader);
	return value | bits_take(reader, k);
}

/* Real bits that were not taken; negative if there were not enough. */
static inline int64_t
bits_left(const BitReader *reader)
{
	return (int64_t) (reader->end - reader->next) * 8 + reader->nbits - reader->zeros;
}

/* Return true if everything was read except for less than a byte of zeros. */
static inline bool
bits_finished(const BitReader *reader)
{
	int64_t left = bits_left(reader);

	return left >= 0 && left < 8 &&
		(left == 0 || (reader->bits & ((UINT64_C(1) << left) - 1)) == 0);
}

#endif /* DC_SKETCH_BITS_H */
