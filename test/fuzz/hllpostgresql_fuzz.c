/*
 * hllpostgresql_fuzz.c
 *		Values of postgresql-hll from anywhere: what is accepted can be used, and
 *		once it was written, it is read as the same.
 */
#include "hll_fuzz.h"

#include "types/sketch/hll/hllforeign.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *wrong = NULL;
	HllState *state = hll_from_postgresql(data, size, &wrong);
	HllState *once;
	HllState *twice;
	uint8_t *bytes;
	size_t len;

	if (state == NULL)
	{
		must(wrong != NULL);
		return 0;
	}
	use_state(state, data, size);
	/* Registers of more than 31, which hll may have, are 31 from then on. */
	bytes = hll_to_postgresql(state, &len);
	once = hll_from_postgresql(bytes, len, &wrong);
	must(once != NULL);
	sketch_free(bytes);
	bytes = hll_to_postgresql(once, &len);
	twice = hll_from_postgresql(bytes, len, &wrong);
	must(twice != NULL && same_state(once, twice));
	sketch_free(twice);
	sketch_free(once);
	sketch_free(bytes);
	sketch_free(state);
	return 0;
}
