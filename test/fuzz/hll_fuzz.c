/*
 * hll_fuzz.c
 *		Values of dc_hll from anywhere: what is accepted is the only encoding of
 *		what it holds, and can be used.
 */
#include "hll_fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	HllState *state;
	uint8_t *again;
	size_t len;

	if (hll_check(data, size) != NULL)
		return 0;
	state = hll_decode(data, size);
	again = hll_encode(state, &len);
	must(len == size && memcmp(again, data, len) == 0);
	sketch_free(again);
	use_state(state, data, size);
	sketch_free(state);
	return 0;
}
