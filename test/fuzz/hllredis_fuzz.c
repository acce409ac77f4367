/*
 * hllredis_fuzz.c
 *		Values of Redis from anywhere: what is accepted can be used, and written
 *		with the same registers.
 */
#include "hll_fuzz.h"

#include "types/sketch/hll/hllforeign.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *wrong = NULL;
	HllState *state = hll_from_redis(data, size, &wrong);
	HllState *back;
	uint8_t *bytes;
	size_t len;

	if (state == NULL)
	{
		must(wrong != NULL);
		return 0;
	}
	use_state(state, data, size);
	bytes = hll_to_redis(state, &len);
	back = hll_from_redis(bytes, len, &wrong);
	must(back != NULL && same_state(back, state));
	sketch_free(back);
	sketch_free(bytes);
	sketch_free(state);
	return 0;
}
