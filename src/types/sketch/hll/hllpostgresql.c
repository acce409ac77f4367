/*
 * hllpostgresql.c
 *		Values of the extension hll (postgresql-hll), in and out.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Its storage specification 1.0.0, as its code has it:
 *
 *	byte 0	version (1) in the high half, type in the low half: 0 undefined,
 *			1 empty, 2 explicit, 3 sparse, 4 full
 *	byte 1	bits of a register less one in the high three, precision in the low five
 *	byte 2	settings for values that grow: the highest bit is zero, then whether
 *			they may be sparse, then six bits for how long they are explicit
 *
 * Explicit: whole hashes, eight bytes in big-endian order, ascending as signed
 * numbers. Sparse: a word for each register that is not zero, of its index and
 * its value, ascending. Full: a word for each register, of its value. Words are
 * written from the highest bit, and the last byte is filled with zeros.
 *
 * Index and rank are taken from a hash as here, except for a hash whose other bits are all zero,
 * and values stop at the highest that the register's bits can hold. So a value that is read has the
 * same registers, and continues with the same hash function.
 */
#include "types/sketch/hll/hllforeign.h"

#include <string.h>

#include "types/sketch/hash.h"
#include "types/sketch/memory.h"

#define VERSION 1
#define HEADER_BYTES 3
#define REGISTER_BITS 5		  /* that are written: hll's default */
#define AUTOMATIC_SPARSE 0x7f /* sparse, and explicit as hll thinks fit */

typedef enum Type
{
	UNDEFINED = 0,
	EMPTY = 1,
	EXPLICIT = 2,
	SPARSE = 3,
	FULL = 4
} Type;

/* Words of some bits, from the highest. */
typedef struct Words
{
	const uint8_t *next;
	const uint8_t *end;
	uint32_t bits; /* the low nbits are not yet taken */
	int nbits;
} Words;

static HllState *get_explicit(HllState *state, const uint8_t *data, size_t len);
static bool get_sparse(HllState *state, const uint8_t *data, size_t len, int bits);
static bool get_full(HllState *state, const uint8_t *data, size_t len, int bits);
static bool set_register(HllState *state, uint32_t index, uint32_t value);

/*
 * hll_from_postgresql reads a value of the extension hll.
 */
HllState *
hll_from_postgresql(const uint8_t *data, size_t len, const char **wrong)
{
	HllState *state;
	int precision;
	int bits;
	bool good = true;

	if (len < HEADER_BYTES || data[0] >> 4 != VERSION || (data[0] & 15) > FULL || data[2] >> 7 != 0)
	{
		*wrong = "It does not begin like a value of postgresql-hll.";
		return NULL;
	}
	bits = (data[1] >> 5) + 1;
	precision = data[1] & 31;
	if (precision < HLL_MIN_PRECISION || precision > HLL_POSTGRESQL_MAX_PRECISION)
	{
		*wrong = "Its log2m is not in the range from 10 to 17.";
		return NULL;
	}
	state = hll_new(precision, SKETCH_HASH_MURMUR3);
	switch ((Type) (data[0] & 15))
	{
		case UNDEFINED:
		case EMPTY:
			good = len == HEADER_BYTES;
			break;
		case EXPLICIT:
			state = get_explicit(state, data + HEADER_BYTES, len - HEADER_BYTES);
			good = state != NULL;
			break;
		case SPARSE:
			state = hll_densified(state);
			good = get_sparse(state, data + HEADER_BYTES, len - HEADER_BYTES, bits);
			break;
		case FULL:
			state = hll_densified(state);
			good = get_full(state, data + HEADER_BYTES, len - HEADER_BYTES, bits);
			break;
	}
	if (good)
		return state;
	*wrong = "Its contents are not well-formed.";
	if (state != NULL)
		sketch_free(state);
	return NULL;
}

/* NULL, and the state is freed, if they are not well-formed. */
static HllState *
get_explicit(HllState *state, const uint8_t *data, size_t len)
{
	int64_t before = 0;
	bool good = len % 8 == 0;

	for (size_t i = 0; i < len && good; i += 8)
	{
		uint64_t hash = 0;

		for (int j = 0; j < 8; j++)
			hash = hash << 8 | data[i + j];
		good = i == 0 || (int64_t) hash > before;
		before = (int64_t) hash;
		state = hll_add(state, hash);
	}
	if (good)
		return state;
	sketch_free(state);
	return NULL;
}

/*
 * Begin to read words from len bytes.
 */
static void
words_open(Words *words, const uint8_t *data, size_t len)
{
	words->next = data;
	words->end = data + len;
	words->bits = 0;
	words->nbits = 0;
}

/* The next word, of at most 25 bits; false if there is none. */
static bool
words_take(Words *words, int n, uint32_t *word)
{
	while (words->nbits < n)
	{
		if (words->next == words->end)
			return false;
		words->bits = words->bits << 8 | *words->next++;
		words->nbits += 8;
	}
	words->nbits -= n;
	*word = words->bits >> words->nbits & ((UINT32_C(1) << n) - 1);
	return true;
}

/*
 * Return true if nothing is left but less than a byte of zeros.
 */
static bool
words_finished(const Words *words)
{
	return words->next == words->end && words->nbits < 8 &&
		(words->bits & ((UINT32_C(1) << words->nbits) - 1)) == 0;
}

/*
 * Read the words of the type "sparse" into a state's registers. Return false if they are not in
 * ascending order, a value is out of range, or other bits follow.
 */
static bool
get_sparse(HllState *state, const uint8_t *data, size_t len, int bits)
{
	int width = state->precision + bits;
	size_t n = len * 8 / (size_t) width;
	int64_t before = -1;
	uint32_t word;
	Words words;

	words_open(&words, data, len);
	for (size_t i = 0; i < n; i++)
	{
		if (!words_take(&words, width, &word) || (int64_t) (word >> bits) <= before ||
			!set_register(state, word >> bits, word & ((UINT32_C(1) << bits) - 1)))
			return false;
		before = word >> bits;
	}
	return words_finished(&words);
}

/*
 * Read the words of the type "full" into a state's registers, bits each. Return false if there are
 * too few or too many, or a value is out of range.
 */
static bool
get_full(HllState *state, const uint8_t *data, size_t len, int bits)
{
	uint32_t value;
	Words words;

	words_open(&words, data, len);
	for (uint32_t i = 0; i < hll_nregisters(state->precision); i++)
	{
		if (!words_take(&words, bits, &value) || !set_register(state, i, value))
			return false;
	}
	return words_finished(&words);
}

/*
 * Set a register; return false if the value is above the highest rank that there is.
 */
static bool
set_register(HllState *state, uint32_t index, uint32_t value)
{
	if (value > (uint32_t) (65 - state->precision))
		return false;
	hll_registers(state)[index] = (uint8_t) value;
	return true;
}

/*
 * Append the n low bits of word, the highest first. *bits and *nbits keep those that do not fill a
 * byte yet. Return where the next byte goes.
 */
static uint8_t *
put_word(uint8_t *out, uint64_t *bits, int *nbits, uint32_t word, int n)
{
	*bits = *bits << n | word;
	*nbits += n;
	while (*nbits >= 8)
	{
		*nbits -= 8;
		*out++ = (uint8_t) (*bits >> *nbits);
	}
	return out;
}

/*
 * hll_to_postgresql writes a state of at most HLL_POSTGRESQL_MAX_PRECISION, for
 * columns of hll(precision, 5, -1, 1).
 */
uint8_t *
hll_to_postgresql(const HllState *state, size_t *len)
{
	HllState *dense = hll_densified(hll_copy(state));
	const uint8_t *registers = hll_registers(dense);
	int precision = dense->precision;
	int width = precision + REGISTER_BITS;
	uint32_t m = hll_nregisters(precision);
	uint8_t *out = sketch_alloc(HEADER_BYTES + (size_t) m * REGISTER_BITS / 8 + 8);
	uint8_t *end = out + HEADER_BYTES;
	uint64_t bits = 0;
	int nbits = 0;
	uint32_t n = 0;
	bool sparse;

	for (uint32_t i = 0; i < m; i++)
		n += registers[i] != 0;
	sparse = n * (uint64_t) width < (uint64_t) m * REGISTER_BITS;
	out[0] = (uint8_t) (VERSION << 4 | (n == 0 ? EMPTY : sparse ? SPARSE
																: FULL));
	out[1] = (uint8_t) ((REGISTER_BITS - 1) << 5 | precision);
	out[2] = AUTOMATIC_SPARSE;
	for (uint32_t i = 0; i < m; i++)
	{
		uint32_t value = registers[i] < 1 << REGISTER_BITS ? registers[i] : (1 << REGISTER_BITS) - 1;

		if (!sparse)
			end = put_word(end, &bits, &nbits, value, REGISTER_BITS);
		else if (value > 0)
			end = put_word(end, &bits, &nbits, i << REGISTER_BITS | value, width);
	}
	if (nbits > 0)
		end = put_word(end, &bits, &nbits, 0, 8 - nbits);
	sketch_free(dense);
	*len = (size_t) (end - out);
	return out;
}
