/*
 * hll_fuzz.h
 *		What the fuzz targets of dc_hll share: what holds for every state.
 */
#ifndef HLL_FUZZ_H
#define HLL_FUZZ_H

#include "types/sketch/hll/hll.h"

#include <stdlib.h>
#include <string.h>

#include "types/sketch/memory.h"

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void
must(bool truth)
{
	if (!truth)
		abort();
}

/* Two states are equal if, and only if, their bytes are. */
static inline bool
same_state(const HllState *left, const HllState *right)
{
	size_t left_len;
	size_t right_len;
	uint8_t *left_data = hll_encode(left, &left_len);
	uint8_t *right_data = hll_encode(right, &right_len);
	bool same = left_len == right_len && memcmp(left_data, right_data, left_len) == 0;

	sketch_free(left_data);
	sketch_free(right_data);
	return same;
}

/*
 * A state can be written and read. As it was read it can be merged with itself,
 * reduced, and added to, with hashes that are taken from the input.
 */
static inline void
use_state(const HllState *from, const uint8_t *data, size_t size)
{
	size_t len;
	uint8_t *bytes = hll_encode(from, &len);
	HllState *state;
	HllState *merged;
	HllState *added;
	double estimate = hll_estimate(from);
	const char *wrong = NULL;

	must(hll_check(bytes, len) == NULL);
	state = hll_decode(bytes, len);
	must(same_state(state, from) && hll_estimate(state) == estimate && estimate >= 0);
	merged = hll_merge(hll_new(state->precision, state->hash), state);
	merged = hll_absorb(merged, bytes, len, &wrong);
	must(same_state(merged, state));

	added = hll_copy(state);
	for (size_t i = 0; i + sizeof(uint64_t) <= size && i < 512; i += sizeof(uint64_t))
	{
		uint64_t hash;

		memcpy(&hash, data + i, sizeof(hash));
		added = hll_add(added, hash);
	}
	must(added->dense != state->dense || hll_estimate(added) >= estimate);
	merged = hll_merge(merged, added);
	must(same_state(merged, added));
	if (state->precision > HLL_MIN_PRECISION)
	{
		sketch_free(merged);
		merged = hll_merge(hll_reduce(hll_copy(state), state->precision - 1), added);
		added = hll_reduce(added, added->precision - 1);
		must(same_state(merged, added));
	}
	sketch_free(added);
	sketch_free(merged);
	sketch_free(state);
	sketch_free(bytes);
}

#endif /* HLL_FUZZ_H */
