/*
 * hll.h
 *		HyperLogLog: how many distinct items (see hll.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_HLL_H
#define DC_HLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HLL_MIN_PRECISION 10
#define HLL_MAX_PRECISION 18
#define HLL_DEFAULT_PRECISION 14

/* Bits of the hash that a token keeps, and with them the tokens' universe. */
#define HLL_TOKEN_BITS 24
#define HLL_RANK_BITS 6
#define HLL_MAX_RANK 63 /* that a register could hold; ranks end at 55 */

typedef struct HllState
{
	uint8_t precision;
	uint8_t hash;	   /* SketchHash of the items */
	uint8_t dense;	   /* cells are registers of a byte, not tokens */
	uint8_t log2_size; /* of the whole state in bytes; tokens only */
	uint32_t count;	   /* of tokens */
	uint32_t cells[];
} HllState;

/* The effect that adding an item would have. */
typedef enum HllEffect
{
	HLL_SAME,	/* nothing */
	HLL_CHANGE, /* set one cell */
	HLL_FULL	/* the state must grow first */
} HllEffect;

extern HllState *hll_new(int precision, int hash);
extern HllState *hll_new_dense(int precision, int hash);
extern HllState *hll_copy(const HllState *state);
extern size_t hll_size(const HllState *state);
extern HllEffect hll_probe_token(const HllState *state, uint32_t token,
								 uint32_t *cell, uint32_t *value);
extern HllState *hll_reserve(HllState *state, uint32_t more);
extern void hll_append_token(HllState *state, uint32_t token, uint32_t *last);
extern HllState *hll_add(HllState *state, uint64_t hash);
extern HllState *hll_add_token(HllState *state, uint32_t token);
extern HllState *hll_merge(HllState *into, const HllState *from);
extern HllState *hll_merge_registers(HllState *into, const uint8_t *registers,
									 int precision);
extern HllState *hll_reduce(HllState *state, int precision);
extern HllState *hll_densified(HllState *state);
extern uint32_t *hll_sorted_tokens(const HllState *state);

static inline uint8_t *
hll_registers(const HllState *state)
{
	return (uint8_t *) state->cells;
}

static inline uint32_t
hll_nregisters(int precision)
{
	return UINT32_C(1) << precision;
}

/* More tokens than this, and a state has registers. */
static inline uint32_t
hll_max_tokens(int precision)
{
	return UINT32_C(1) << (precision - 3);
}

/* The rank of a register's part of a hash, whose bits above are zero. */
static inline uint32_t
hll_rank(uint64_t bits, int nbits)
{
	return (uint32_t) __builtin_ctzll(bits | UINT64_C(1) << nbits) + 1;
}

/* The register of a hash, and the rank that it has there. */
static inline uint32_t
hll_register(int precision, uint64_t hash, uint32_t *rank)
{
	*rank = hll_rank(hash >> precision, 64 - precision);
	return (uint32_t) hash & (hll_nregisters(precision) - 1);
}

/* Return true if a token at this place in the universe has a rank. */
static inline bool
hll_has_rank(uint32_t place, int precision)
{
	return place >> precision == 0;
}

static inline uint32_t
hll_token(int precision, uint64_t hash)
{
	uint32_t place = (uint32_t) hash & ((UINT32_C(1) << HLL_TOKEN_BITS) - 1);
	uint32_t token = place << HLL_RANK_BITS;

	if (hll_has_rank(place, precision))
		token |= hll_rank(hash >> HLL_TOKEN_BITS, 64 - HLL_TOKEN_BITS);
	return token;
}

/* The register that a token stands for, and its value there. */
static inline uint32_t
hll_token_register(int precision, uint32_t token, uint32_t *rank)
{
	uint32_t place = token >> HLL_RANK_BITS;

	if (hll_has_rank(place, precision))
		*rank = HLL_TOKEN_BITS - precision + (token & ((1 << HLL_RANK_BITS) - 1));
	else
		*rank = (uint32_t) __builtin_ctz(place >> precision) + 1;
	return place & (hll_nregisters(precision) - 1);
}

/* Raise the register that a token stands for. */
static inline void
hll_raise(HllState *state, uint32_t token)
{
	uint32_t rank;
	uint32_t index = hll_token_register(state->precision, token, &rank);

	if (hll_registers(state)[index] < rank)
		hll_registers(state)[index] = (uint8_t) rank;
}

/*
 * hll_probe tells the effect that adding an item of this hash would have, and for
 * HLL_CHANGE the cell that it would set, and the cell's new value.
 */
static inline HllEffect
hll_probe(const HllState *state, uint64_t hash, uint32_t *cell, uint32_t *value)
{
	if (!state->dense)
		return hll_probe_token(state, hll_token(state->precision, hash), cell, value);
	*cell = hll_register(state->precision, hash, value);
	return hll_registers(state)[*cell] < *value ? HLL_CHANGE : HLL_SAME;
}

/* Set a cell as hll_probe said; the cell's value before. */
static inline uint32_t
hll_put(HllState *state, uint32_t cell, uint32_t value)
{
	uint32_t old;

	if (state->dense)
	{
		old = hll_registers(state)[cell];
		hll_registers(state)[cell] = (uint8_t) value;
	}
	else
	{
		old = state->cells[cell];
		state->cells[cell] = value;
		state->count += old == 0;
	}
	return old;
}

/* Take back the last hll_put; only the last, since cells are found by probing. */
static inline void
hll_unput(HllState *state, uint32_t cell, uint32_t before)
{
	if (state->dense)
		hll_registers(state)[cell] = (uint8_t) before;
	else
	{
		state->cells[cell] = before;
		state->count -= before == 0;
	}
}

/* hllestimate.c */
extern double hll_estimate(const HllState *state);
extern double hll_estimate_counts(const uint32_t *counts, int precision);
extern double hll_error(int precision);
extern double hll_token_estimate(uint32_t count);
extern double hll_token_deviation(double estimate);
extern double hll_normal_quantile(double p);
extern void hll_bounds(const HllState *state, double confidence, double *lower,
					   double *estimate, double *upper);

/* hllformat.c */
extern const char *hll_check(const uint8_t *data, size_t len);
extern uint8_t *hll_encode(const HllState *state, size_t *len);
extern HllState *hll_empty_for(const uint8_t *data);
extern HllState *hll_decode(const uint8_t *data, size_t len);
extern HllState *hll_absorb(HllState *into, const uint8_t *data, size_t len,
							const char **wrong);
extern const char *hll_check_header(const uint8_t *data, size_t len);
extern bool hll_value_would_change(const uint8_t *data, size_t len, uint64_t hash);
extern int hll_value_precision(const uint8_t *data);
extern int hll_value_hash(const uint8_t *data);
extern const char *hll_form_name(const uint8_t *data);

#endif /* DC_HLL_H */
