/*
 * hllformat.c
 *		The stored form of a HyperLogLog.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *	byte 0		version (1) in the high half, form in the low half
 *	byte 1		precision, 10 to 18, in the low five bits; the others are zero
 *	byte 2		hash of the items in the low half (1 Redis, 2 MurmurHash3);
 *				kind of the registers in the high half (0 HyperLogLog)
 *
 * Forms, and the bytes that follow:
 *
 *	0 tokens	their number, a varint of at most three bytes, and their bits
 *	1 few		the number of registers that are not zero, likewise, and their bits
 *	2 many		all registers, in a code of their own (see rankcode.c)
 *
 * Bits fill bytes from the lowest, and the last byte with zeros. Tokens are in
 * ascending order of their places, registers of their indexes. Of each, there is
 * the gap to the one before (0 if they are neighbours; the first one's gap is
 * its place or index) in Golomb-Rice code: the quotient of the gap by 2^k as so
 * many zeros and a one, then k bits of remainder, with k after Golomb for n of a
 * universe u: the largest with n 2^k <= u 11/16. After a token's gap there are
 * six bits of rank, 1 to 41, if it has one (see hll.c). After a register's gap,
 * its value less one in unary: that many zeros and a one.
 *
 * The form is "few" up to a quarter of the registers. Only the contents of a state
 * decide how it is encoded: equal states are equal bytes, and other bytes
 * are not accepted. A state without items is always in form 0, of no tokens.
 */
#include "types/sketch/hll/hll.h"

#include <string.h>

#include "types/sketch/hash.h"
#include "types/sketch/hll/bits.h"

#include "types/sketch/hll/rankcode.h"
#include "types/sketch/memory.h"

#define VERSION 1
#define HEADER_BYTES 3
#define MAX_NUMBER_BYTES 3
#define MAX_TOKEN_RANK (64 - HLL_TOKEN_BITS + 1)

typedef enum Form
{
	FORM_TOKENS = 0,
	FORM_FEW = 1,
	FORM_MANY = 2
} Form;

static uint8_t *encode_tokens(const HllState *state, uint8_t **end);
static uint8_t *encode_registers(const HllState *state, uint8_t **end);
static HllState *absorb_tokens(HllState *into, const uint8_t *data, size_t len, const char **wrong);
static uint32_t raise_tokens(uint8_t *registers, int precision, BitReader *reader, int k,
							 uint32_t n, uint64_t *place);
static bool get_few(const uint8_t *data, size_t len, uint8_t *registers);
static bool has_token(const uint8_t *data, size_t len, uint32_t token);
static uint32_t few_rank(const uint8_t *data, size_t len, uint32_t wanted);
static bool open_gaps(const uint8_t *data, size_t len, uint32_t universe,
					  BitReader *reader, uint32_t *n, int *k);

/*
 * Return the highest number of nonzero registers that the form "few" may have.
 */
static inline uint32_t
max_few(int precision)
{
	return hll_nregisters(precision) / 4;
}

/*
 * Return a value's form, from its first byte.
 */
static inline Form
value_form(const uint8_t *data)
{
	return data[0] & 15;
}

/*
 * Return a value's precision. Only the first three bytes are read.
 */
int
hll_value_precision(const uint8_t *data)
{
	return data[1];
}

/*
 * Return the hash function of a value's items. Only the first three bytes are read.
 */
int
hll_value_hash(const uint8_t *data)
{
	return data[2];
}

/*
 * hll_form_name names a value's form.
 */
const char *
hll_form_name(const uint8_t *data)
{
	static const char *const names[] = {"tokens", "few registers", "many registers"};

	return names[value_form(data)];
}

/*
 * hll_encode writes a state's bytes to new memory.
 */
uint8_t *
hll_encode(const HllState *state, size_t *len)
{
	uint8_t *end;
	uint8_t *out = state->dense ? encode_registers(state, &end) : encode_tokens(state, &end);

	*len = (size_t) (end - out);
	return out;
}

/*
 * Write the header of a state's value. Return where the body begins.
 */
static uint8_t *
put_header(uint8_t *out, const HllState *state, Form form)
{
	*out++ = (uint8_t) (VERSION << 4 | form);
	*out++ = state->precision;
	*out++ = state->hash;
	return out;
}

/* NULL if there is none. */
static const uint8_t *
hllformat_get_number(const uint8_t *data, const uint8_t *end, uint32_t *number)
{
	*number = 0;
	for (int i = 0; i < MAX_NUMBER_BYTES && data < end; i++)
	{
		*number |= (uint32_t) (*data & 127) << (7 * i);
		if (*data++ < 128)
			return data;
	}
	return NULL;
}

/*
 * Return the parameter k of the Golomb-Rice code for n gaps in a universe, a power of two.
 */
static int
rice_parameter(uint32_t universe, uint32_t n)
{
	uint64_t ratio = (uint64_t) universe * 11 / 16;

	if (n == 0)
		return __builtin_ctz(universe);
	ratio /= n;
	return ratio == 0 ? 0 : 63 - __builtin_clzll(ratio);
}

/*
 * Return the value of a state of tokens, in new memory. *end is set behind its last byte.
 */
static uint8_t *
encode_tokens(const HllState *state, uint8_t **end)
{
	const uint32_t universe = UINT32_C(1) << HLL_TOKEN_BITS;
	uint32_t n = state->count;
	uint32_t *tokens = hll_sorted_tokens(state);
	int k = rice_parameter(universe, n);
	uint32_t next = 0;
	BitWriter writer;
	uint8_t *out;

	/* All quotients together have universe / 2^k zeros at most. */
	out = sketch_alloc(HEADER_BYTES + MAX_NUMBER_BYTES + 1 +
					   ((size_t) n * (k + 1 + HLL_RANK_BITS) + (universe >> k)) / 8);
	bits_begin(&writer, bytes_put_varint(put_header(out, state, FORM_TOKENS), n));
	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t place = tokens[i] >> HLL_RANK_BITS;

		bits_put_rice(&writer, place - next, k);
		if (hll_has_rank(place, state->precision))
			bits_put(&writer, tokens[i] & ((1 << HLL_RANK_BITS) - 1), HLL_RANK_BITS);
		next = place + 1;
	}
	*end = bits_end(&writer);
	sketch_free(tokens);
	return out;
}

/*
 * Return the value of a state of registers, in new memory: the form "few" or "many", or no tokens
 * if all registers are zero. *end is set behind its last byte.
 */
static uint8_t *
encode_registers(const HllState *state, uint8_t **end)
{
	const uint8_t *registers = hll_registers(state);
	uint32_t m = hll_nregisters(state->precision);
	uint32_t n = 0;
	uint32_t next = 0;
	BitWriter writer;
	uint8_t *out;
	int k;

	for (uint32_t i = 0; i < m; i++)
		n += registers[i] != 0;
	if (n > max_few(state->precision))
	{
		out = sketch_alloc(HEADER_BYTES + rankcode_max_size(m));
		*end = put_header(out, state, FORM_MANY);
		*end += rankcode_encode(registers, m, *end);
		return out;
	}

	k = rice_parameter(m, n);
	out = sketch_alloc(HEADER_BYTES + MAX_NUMBER_BYTES + 1 +
					   ((size_t) n * (k + 1 + HLL_MAX_RANK) + (m >> k)) / 8);
	bits_begin(&writer, bytes_put_varint(put_header(out, state, n == 0 ? FORM_TOKENS : FORM_FEW), n));
	for (uint32_t i = 0; n > 0 && i < m; i++)
	{
		if (registers[i] == 0)
			continue;
		bits_put_rice(&writer, i - next, k);
		bits_put_unary(&writer, registers[i] - 1);
		next = i + 1;
	}
	*end = bits_end(&writer);
	return out;
}

/*
 * hll_check returns what is wrong with bytes that are not trusted, or NULL.
 */
const char *
hll_check(const uint8_t *data, size_t len)
{
	const char *wrong = hll_check_header(data, len);
	HllState *state;
	uint8_t *again;
	size_t again_len;

	if (wrong != NULL)
		return wrong;
	state = hll_empty_for(data);
	state = hll_absorb(state, data, len, &wrong);
	for (uint32_t i = 0; state->dense && i < hll_nregisters(state->precision); i++)
	{
		if (hll_registers(state)[i] > 65 - state->precision)
			wrong = "A register is out of range.";
	}
	if (wrong == NULL)
	{
		again = hll_encode(state, &again_len);
		if (again_len != len || memcmp(again, data, len) != 0)
			wrong = "It is not in canonical form.";
		sketch_free(again);
	}
	sketch_free(state);
	return wrong;
}

/*
 * hll_check_header returns what is wrong with a value's first bytes, or NULL.
 */
const char *
hll_check_header(const uint8_t *data, size_t len)
{
	if (len < HEADER_BYTES)
		return "It is too short.";
	if (data[0] >> 4 != VERSION)
		return "Its version is unknown.";
	if (value_form(data) > FORM_MANY)
		return "Its form is unknown.";
	if (data[1] < HLL_MIN_PRECISION || data[1] > HLL_MAX_PRECISION)
		return "Its precision is out of range.";
	if (data[2] != SKETCH_HASH_REDIS && data[2] != SKETCH_HASH_MURMUR3)
		return "Its hash or its kind of registers is unknown.";
	return NULL;
}

/*
 * hll_empty_for is an empty state of a value's form, precision and hash.
 */
HllState *
hll_empty_for(const uint8_t *data)
{
	if (value_form(data) == FORM_TOKENS)
		return hll_new(hll_value_precision(data), hll_value_hash(data));
	return hll_new_dense(hll_value_precision(data), hll_value_hash(data));
}

/*
 * hll_decode makes the state of a value.
 */
HllState *
hll_decode(const uint8_t *data, size_t len)
{
	const char *wrong = NULL;

	return hll_absorb(hll_empty_for(data), data, len, &wrong);
}

/*
 * hll_absorb merges a value into a state without making a state of it first. Of the
 * value only the header need have been checked: *wrong is set if the rest is damaged,
 * and then the state is of no use but to be freed.
 */
HllState *
hll_absorb(HllState *into, const uint8_t *data, size_t len, const char **wrong)
{
	int precision = hll_value_precision(data);
	uint32_t m = hll_nregisters(precision);
	uint8_t *registers;
	bool good;

	if (precision < into->precision)
		into = hll_reduce(into, precision);
	if (value_form(data) == FORM_TOKENS)
		return absorb_tokens(into, data, len, wrong);

	registers = sketch_alloc(m);
	if (value_form(data) == FORM_FEW)
		good = get_few(data, len, registers);
	else
		good = rankcode_decode(data + HEADER_BYTES, len - HEADER_BYTES, registers, m);
	if (good)
		into = hll_merge_registers(into, registers, precision);
	else
		*wrong = "Its registers are not well-formed.";
	sketch_free(registers);
	return into;
}

/*
 * Merge a value of tokens, whose precision is not below the state's. *wrong is set if the bytes
 * are damaged, and then the state is of no use but to be freed.
 */
static HllState *
absorb_tokens(HllState *into, const uint8_t *data, size_t len, const char **wrong)
{
	const uint32_t universe = UINT32_C(1) << HLL_TOKEN_BITS;
	int precision = hll_value_precision(data);
	uint64_t place = 0;
	BitReader reader;
	uint32_t n;
	uint32_t left;
	uint32_t last = 0;
	bool fresh;
	int k;

	if (!open_gaps(data, len, universe, &reader, &n, &k) || n > hll_max_tokens(precision))
	{
		*wrong = "Its number of tokens is out of range.";
		return into;
	}
	left = n;
	into = hll_reserve(into, n);
	fresh = !into->dense && into->count == 0 && n <= hll_max_tokens(into->precision);
	if (into->dense && into->precision == precision)
		left -= raise_tokens(hll_registers(into), precision, &reader, k, n, &place);
	for (uint32_t i = n - left; i < n; i++, place++)
	{
		uint32_t token;

		place += bits_take_rice(&reader, k, universe);
		if (place >= universe)
			break;
		token = (uint32_t) place << HLL_RANK_BITS;
		if (hll_has_rank((uint32_t) place, precision))
		{
			bits_refill(&reader);
			token |= (uint32_t) bits_take(&reader, HLL_RANK_BITS);
			if ((token & ((1 << HLL_RANK_BITS) - 1)) - 1 >= MAX_TOKEN_RANK)
				break;
		}
		if (fresh)
			hll_append_token(into, token, &last);
		else
			into = hll_add_token(into, token);
		left--;
	}
	if (left > 0 || place > universe || !bits_finished(&reader))
		*wrong = "Its tokens are not well-formed.";
	return into;
}

/*
 * raise_tokens raises registers by the tokens that come next, as long as each is
 * whole in the bits of one refill, and returns how many. Places beyond the universe are
 * left for the caller to see: they do no harm, and all after them are beyond it, too.
 */
static uint32_t
raise_tokens(uint8_t *registers, int precision, BitReader *reader, int k, uint32_t n,
			 uint64_t *place)
{
	const uint64_t mask = (UINT64_C(1) << k) - 1;
	const uint32_t index_mask = hll_nregisters(precision) - 1;
	const uint32_t above_mask = (UINT32_C(1) << (HLL_TOKEN_BITS - precision)) - 1;
	uint64_t at = *place;
	uint32_t done = 0;

	for (; done < n; done++, at++)
	{
		uint64_t gap;
		uint32_t above;
		uint32_t rank;
		int zeros;

		bits_refill(reader);
		zeros = __builtin_ctzll(reader->bits | UINT64_C(1) << 56);
		gap = (uint64_t) zeros << k | (reader->bits >> (zeros + 1) & mask);
		above = (uint32_t) ((at + gap) >> precision) & above_mask;
		if (zeros + 1 + k + HLL_RANK_BITS > 56 || at + gap > UINT32_MAX)
			break;
		at += gap;
		reader->bits >>= zeros + 1 + k;
		reader->nbits -= zeros + 1 + k;
		if (above != 0)
			rank = (uint32_t) __builtin_ctz(above) + 1;
		else
		{
			rank = (uint32_t) bits_take(reader, HLL_RANK_BITS);
			if (rank - 1 >= MAX_TOKEN_RANK)
				return 0;
			rank += (uint32_t) (HLL_TOKEN_BITS - precision);
		}
		if (registers[at & index_mask] < rank)
			registers[at & index_mask] = (uint8_t) rank;
	}
	*place = at;
	return done;
}

/* False if they are not well-formed. */
static bool
get_few(const uint8_t *data, size_t len, uint8_t *registers)
{
	int precision = hll_value_precision(data);
	uint32_t m = hll_nregisters(precision);
	uint64_t index = 0;
	BitReader reader;
	uint32_t n;
	int k;

	memset(registers, 0, m);
	if (!open_gaps(data, len, m, &reader, &n, &k) || n > max_few(precision))
		return false;
	for (uint32_t i = 0; i < n; i++, index++)
	{
		uint32_t rank;

		index += bits_take_rice(&reader, k, m);
		rank = bits_take_unary(&reader, HLL_MAX_RANK) + 1;
		if (index >= m || rank > HLL_MAX_RANK)
			return false;
		registers[index] = (uint8_t) rank;
	}
	return bits_finished(&reader);
}

/*
 * Return true if adding an item of this hash would change a
 * value, without making a state of it.
 */
bool
hll_value_would_change(const uint8_t *data, size_t len, uint64_t hash)
{
	int precision = hll_value_precision(data);
	uint32_t m = hll_nregisters(precision);
	uint32_t index = (uint32_t) hash & (m - 1);
	uint32_t rank = hll_rank(hash >> precision, 64 - precision);

	if (value_form(data) == FORM_TOKENS)
		return !has_token(data, len, hll_token(precision, hash));
	if (value_form(data) == FORM_FEW)
		return few_rank(data, len, index) < rank;
	return (uint32_t) rankcode_get(data + HEADER_BYTES, len - HEADER_BYTES, m, index) < rank;
}

/* Return true if a value of tokens has this token, or one at the same place with a higher rank. */
static bool
has_token(const uint8_t *data, size_t len, uint32_t token)
{
	const uint32_t universe = UINT32_C(1) << HLL_TOKEN_BITS;
	uint32_t wanted = token >> HLL_RANK_BITS;
	int precision = hll_value_precision(data);
	uint64_t place = 0;
	BitReader reader;
	uint32_t n;
	int k;

	if (!open_gaps(data, len, universe, &reader, &n, &k))
		return false;
	for (; n > 0 && place <= wanted; n--, place++)
	{
		uint32_t rank = 0;

		place += bits_take_rice(&reader, k, universe);
		if (hll_has_rank((uint32_t) place, precision))
		{
			bits_refill(&reader);
			rank = (uint32_t) bits_take(&reader, HLL_RANK_BITS);
		}
		if (place == wanted)
			return rank >= (token & ((1 << HLL_RANK_BITS) - 1));
	}
	return false;
}

/* The register of that index in a value of few. */
static uint32_t
few_rank(const uint8_t *data, size_t len, uint32_t wanted)
{
	uint32_t m = hll_nregisters(hll_value_precision(data));
	uint64_t index = 0;
	BitReader reader;
	uint32_t n;
	int k;

	if (!open_gaps(data, len, m, &reader, &n, &k))
		return 0;
	for (; n > 0 && index <= wanted; n--, index++)
	{
		uint32_t rank;

		index += bits_take_rice(&reader, k, m);
		rank = bits_take_unary(&reader, HLL_MAX_RANK) + 1;
		if (index == wanted)
			return rank;
	}
	return 0;
}

/* Begin to read a value's gaps: how many there are, and the code's parameter. */
static bool
open_gaps(const uint8_t *data, size_t len, uint32_t universe, BitReader *reader, uint32_t *n,
		  int *k)
{
	const uint8_t *bits = hllformat_get_number(data + HEADER_BYTES, data + len, n);

	if (bits == NULL)
		return false;
	bits_open(reader, bits, (size_t) (data + len - bits));
	*k = rice_parameter(universe, *n);
	return true;
}
