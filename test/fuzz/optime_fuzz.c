/*
 * optime_fuzz.c
 *		Ids that carry their time: reads what it is given, no more, and finds a time
 *		that its format can hold, the same in upper and lower case.
 */
#include "transactional/once/optime.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1);
	int64_t ms = -1;
	int64_t upper_ms = -1;
	DcIdKind kind;

	if (copy == NULL)
		abort();
	/* at the end of the block, so that a byte too many is noticed */
	if (size > 0)
		memcpy(copy + 1, data, size);
	kind = id_time(copy + 1, size, &ms);
	if (kind == ID_OPAQUE ? ms != -1 : ms < 0 || ms >= INT64_C(1) << 48)
		abort();
	if ((kind == ID_UUIDV7 && size != 36) || (kind == ID_ULID && size != 26))
		abort();
	for (size_t i = 1; i <= size; i++)
		copy[i] = (char) toupper((unsigned char) copy[i]);
	if (id_time(copy + 1, size, &upper_ms) != kind || upper_ms != ms)
		abort();
	free(copy);
	return 0;
}
