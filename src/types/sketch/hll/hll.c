/*
 * hll.c
 *		HyperLogLog: how many distinct items, in bounded memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Flajolet, Fusy, Gandouet and Meunier (2007), with the sparse form of Heule,
 * Nunkesser and Hall (2013). The low p bits of an item's hash choose one of
 * m = 2^p registers; the register keeps the highest rank it has seen, which is
 * the number of the lowest set bit among the other bits, from 1. That is how
 * Redis and postgresql-hll share their bits too. With the low bits as index, a
 * sketch of precision p holds all that one of a lower precision would: see
 * fold_register.
 *
 * While there are few items, a state holds tokens instead: the low 24 bits of
 * each hash (its place), and the rank of the bits above where the register's
 * value needs it, that is where bits p to 23 are all zero. Counting distinct
 * places among 2^24 is exact except for the rare two items of one place. With more than m / 8
 * distinct places, all tokens become registers permanently. Since the number of distinct places of
 * a union is never below that of a part, whether a set of items ends up as tokens or as registers,
 * and as which, does not depend on the order or the grouping in which they came.
 *
 * Tokens are in no order. Up to 30 are a list; more are a hash table with linear
 * probing, whose home slots ascend with the places, so that it is nearly sorted.
 * States have sizes of powers of two, as memory contexts hand them out.
 *
 * A function that returns a state may have freed the one it was given.
 */
#include "types/sketch/hll/hll.h"

#include <string.h>

#include "types/sketch/memory.h"

#define FIRST_LOG2_SIZE 6
#define LIST_LOG2_SIZE 7 /* up to here a list, then a hash table */

static HllState *new_tokens(int precision, int hash, int log2_size);
static uint32_t hll_find_place(const HllState *state, uint32_t place);
static HllState *tokens_as_registers(const HllState *state);
static HllState *moved_tokens(const HllState *state, int log2_size);
static void fold_register(uint8_t *registers, int precision, uint32_t index,
						  uint32_t rank, int from_precision);
static void sort_tokens(uint32_t *tokens, uint32_t n);

/*
 * Return the number of cells for tokens that a state has.
 */
static inline uint32_t
hll_slots(const HllState *state)
{
	return ((UINT32_C(1) << state->log2_size) - offsetof(HllState, cells)) / sizeof(uint32_t);
}

/* How many tokens a state of that size takes: a hash table stays a quarter free. */
static inline uint32_t
hll_capacity(int log2_size)
{
	uint32_t n = ((UINT32_C(1) << log2_size) - offsetof(HllState, cells)) / sizeof(uint32_t);

	return log2_size > LIST_LOG2_SIZE ? n - n / 4 : n;
}

/*
 * hll_new creates an empty state.
 */
HllState *
hll_new(int precision, int hash)
{
	return new_tokens(precision, hash, FIRST_LOG2_SIZE);
}

/*
 * Allocate an empty state for tokens, of 2^log2_size bytes in all.
 */
static HllState *
new_tokens(int precision, int hash, int log2_size)
{
	HllState *state = sketch_alloc((size_t) 1 << log2_size);

	memset(state, 0, (size_t) 1 << log2_size);
	state->precision = (uint8_t) precision;
	state->hash = (uint8_t) hash;
	state->log2_size = (uint8_t) log2_size;
	return state;
}

/*
 * hll_new_dense creates a state of empty registers.
 */
HllState *
hll_new_dense(int precision, int hash)
{
	size_t size = offsetof(HllState, cells) + hll_nregisters(precision);
	HllState *state = sketch_alloc(size);

	memset(state, 0, size);
	state->precision = (uint8_t) precision;
	state->hash = (uint8_t) hash;
	state->dense = true;
	return state;
}

/*
 * hll_size is a state's size in bytes.
 */
size_t
hll_size(const HllState *state)
{
	if (state->dense)
		return offsetof(HllState, cells) + hll_nregisters(state->precision);
	return (size_t) 1 << state->log2_size;
}

/*
 * Return a copy of a state, of the same size.
 */
HllState *
hll_copy(const HllState *state)
{
	size_t size = hll_size(state);

	return memcpy(sketch_alloc(size), state, size);
}

/*
 * hll_probe_token is hll_probe for a token. Of two tokens of one place the one with
 * the higher rank stays.
 */
HllEffect
hll_probe_token(const HllState *state, uint32_t token, uint32_t *cell, uint32_t *value)
{
	*cell = hll_find_place(state, token >> HLL_RANK_BITS);
	*value = token;
	if (*cell < hll_slots(state) && state->cells[*cell] != 0)
		return state->cells[*cell] < token ? HLL_CHANGE : HLL_SAME;
	if (state->count < hll_capacity(state->log2_size) &&
		state->count < hll_max_tokens(state->precision))
		return HLL_CHANGE;
	return HLL_FULL;
}

/*
 * hll_find_place is the cell with a place's token, otherwise the free cell for it; the number of
 * slots if a full list does not have it.
 */
static uint32_t
hll_find_place(const HllState *state, uint32_t place)
{
	uint32_t n = hll_slots(state);
	uint32_t cell;

	if (state->log2_size <= LIST_LOG2_SIZE)
	{
		for (cell = 0; cell < state->count; cell++)
		{
			if (state->cells[cell] >> HLL_RANK_BITS == place)
				break;
		}
		return cell;
	}
	cell = (uint32_t) ((uint64_t) place * n >> HLL_TOKEN_BITS);
	while (state->cells[cell] != 0 && state->cells[cell] >> HLL_RANK_BITS != place)
	{
		if (++cell == n)
			cell = 0;
	}
	return cell;
}

/*
 * Return a new state with the registers of a state's tokens. The old one stays as it is.
 */
static HllState *
tokens_as_registers(const HllState *state)
{
	HllState *dense = hll_new_dense(state->precision, state->hash);

	for (uint32_t i = 0; i < hll_slots(state); i++)
	{
		if (state->cells[i] != 0)
			hll_raise(dense, state->cells[i]);
	}
	return dense;
}

/* moved_tokens is a copy of another size. */
static HllState *
moved_tokens(const HllState *state, int log2_size)
{
	HllState *moved = new_tokens(state->precision, state->hash, log2_size);
	uint32_t cell;
	uint32_t value;

	for (uint32_t i = 0; i < hll_slots(state); i++)
	{
		if (state->cells[i] != 0)
		{
			(void) hll_probe_token(moved, state->cells[i], &cell, &value);
			hll_put(moved, cell, value);
		}
	}
	return moved;
}

/*
 * hll_reserve makes room for more tokens, as far as there may be more. Tokens
 * that come in the order of their places would crowd the low end of a table that
 * grows under way.
 */
HllState *
hll_reserve(HllState *state, uint32_t more)
{
	HllState *moved;
	int log2_size = state->log2_size;
	uint32_t wanted = state->count + more;

	if (state->dense)
		return state;
	if (wanted > hll_max_tokens(state->precision))
		wanted = hll_max_tokens(state->precision);
	while (hll_capacity(log2_size) < wanted)
		log2_size++;
	if (log2_size == state->log2_size)
		return state;
	moved = moved_tokens(state, log2_size);
	sketch_free(state);
	return moved;
}

/*
 * hll_append_token puts a token into a state that has room for it, and only tokens
 * of lower places, which came this way. *last is for this function; 0 at first. As
 * those before end where it begins to look, tokens that were chosen to crowd one
 * part of the table take no longer than others.
 */
void
hll_append_token(HllState *state, uint32_t token, uint32_t *last)
{
	uint32_t n = hll_slots(state);
	uint32_t cell = state->count;

	if (!hll_has_rank(token >> HLL_RANK_BITS, state->precision))
		token &= ~(uint32_t) ((1 << HLL_RANK_BITS) - 1);
	if (state->log2_size > LIST_LOG2_SIZE)
	{
		cell = (uint32_t) ((uint64_t) (token >> HLL_RANK_BITS) * n >> HLL_TOKEN_BITS);
		if (state->count > 0 && (cell <= *last || state->cells[cell] != 0))
			cell = *last + 1;
		while (cell >= n || state->cells[cell] != 0)
			cell = cell >= n ? 0 : cell + 1;
	}
	(void) hll_put(state, cell, token);
	*last = cell;
}

/*
 * hll_add adds an item by its hash.
 */
HllState *
hll_add(HllState *state, uint64_t hash)
{
	uint32_t cell;
	uint32_t value;

	if (!state->dense)
		return hll_add_token(state, hll_token(state->precision, hash));
	if (hll_probe(state, hash, &cell, &value) == HLL_CHANGE)
		hll_registers(state)[cell] = (uint8_t) value;
	return state;
}

/*
 * hll_add_token adds an item by a token that was made for this or a lower
 * precision's registers, or for a higher one's.
 */
HllState *
hll_add_token(HllState *state, uint32_t token)
{
	HllEffect effect;
	uint32_t cell;
	uint32_t value;

	if (!hll_has_rank(token >> HLL_RANK_BITS, state->precision))
		token &= ~(uint32_t) ((1 << HLL_RANK_BITS) - 1);
	while (!state->dense)
	{
		HllState *grown;

		effect = hll_probe_token(state, token, &cell, &value);
		if (effect == HLL_CHANGE)
			hll_put(state, cell, value);
		if (effect != HLL_FULL)
			return state;
		grown = state->count < hll_max_tokens(state->precision) ? moved_tokens(state, state->log2_size + 1)
																: tokens_as_registers(state);
		sketch_free(state);
		state = grown;
	}
	hll_raise(state, token);
	return state;
}

/*
 * hll_merge adds all items of another state. The result has the lower of the
 * two precisions.
 */
HllState *
hll_merge(HllState *into, const HllState *from)
{
	if (from->dense)
		return hll_merge_registers(into, hll_registers(from), from->precision);
	if (from->precision < into->precision)
		into = hll_reduce(into, from->precision);
	into = hll_reserve(into, from->count);
	for (uint32_t i = 0; i < hll_slots(from); i++)
	{
		if (from->cells[i] != 0)
			into = hll_add_token(into, from->cells[i]);
	}
	return into;
}

/*
 * hll_merge_registers is hll_merge for registers alone.
 */
HllState *
hll_merge_registers(HllState *into, const uint8_t *registers, int precision)
{
	uint8_t *ours;

	if (precision < into->precision)
		into = hll_reduce(into, precision);
	into = hll_densified(into);
	ours = hll_registers(into);
	if (precision == into->precision)
	{
		uint32_t n = hll_nregisters(precision);

		for (uint32_t i = 0; i < n; i++)
			ours[i] = ours[i] < registers[i] ? registers[i] : ours[i];
		return into;
	}
	for (uint32_t i = 0; i < hll_nregisters(precision); i++)
		fold_register(ours, into->precision, i, registers[i], precision);
	return into;
}

/*
 * fold_register raises a register by one of a higher precision. The index bits
 * that are no index bits any more are the first of the bits that the rank counts.
 */
static void
fold_register(uint8_t *registers, int precision, uint32_t index, uint32_t rank,
			  int from_precision)
{
	uint32_t above = index >> precision;

	if (rank == 0)
		return;
	if (above != 0)
		rank = (uint32_t) __builtin_ctz(above) + 1;
	else
		rank += (uint32_t) (from_precision - precision);
	index &= hll_nregisters(precision) - 1;
	if (registers[index] < rank)
		registers[index] = (uint8_t) rank;
}

/*
 * hll_reduce lowers the precision. Adding the same items to a state of that precision
 * would have given the same result.
 */
HllState *
hll_reduce(HllState *state, int precision)
{
	HllState *reduced;

	if (precision >= state->precision)
		return state;
	if (state->dense)
	{
		reduced = hll_new_dense(precision, state->hash);
		reduced = hll_merge_registers(reduced, hll_registers(state), state->precision);
	}
	else
	{
		reduced = hll_new(precision, state->hash);
		reduced = hll_merge(reduced, state);
	}
	sketch_free(state);
	return reduced;
}

/*
 * hll_densified turns tokens into registers, however few they are.
 */
HllState *
hll_densified(HllState *state)
{
	HllState *dense;

	if (state->dense)
		return state;
	dense = tokens_as_registers(state);
	sketch_free(state);
	return dense;
}

/*
 * hll_sorted_tokens is a new array of a state's tokens in ascending order.
 */
uint32_t *
hll_sorted_tokens(const HllState *state)
{
	uint32_t *tokens = sketch_alloc((state->count + 1) * sizeof(uint32_t));
	uint32_t n = 0;

	for (uint32_t i = 0; i < hll_slots(state); i++)
	{
		if (state->cells[i] != 0)
			tokens[n++] = state->cells[i];
	}
	sort_tokens(tokens, n);
	return tokens;
}

/*
 * Compare two tokens, for qsort().
 */
static int
compare_tokens(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *) a;
	uint32_t y = *(const uint32_t *) b;

	return (x > y) - (x < y);
}

/*
 * sort_tokens sorts by insertion, which suits nearly sorted tokens, unless that
 * turns out to take too long.
 */
static void
sort_tokens(uint32_t *tokens, uint32_t n)
{
	uint64_t patience = (uint64_t) n * 32;

	for (uint32_t i = 1; i < n; i++)
	{
		uint32_t token = tokens[i];
		uint32_t j = i;

		for (; j > 0 && tokens[j - 1] > token; j--)
			tokens[j] = tokens[j - 1];
		tokens[j] = token;
		if (i - j > patience)
		{
			/* few: a sparse sketch */
			qsort(tokens, n, sizeof(uint32_t), compare_tokens);
			return;
		}
		patience -= i - j;
	}
}
