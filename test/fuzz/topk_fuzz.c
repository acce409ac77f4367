/*
 * topk_fuzz.c
 *		Any bytes as a dc_topk: what the check lets pass is in its only form, and
 *		can be read, added to and merged.
 */
#include "types/sketch/topk/topk.h"

#include <stdlib.h>
#include <string.h>

static void
demand(bool condition)
{
	if (!condition)
		abort();
}

/* The state's value is one that the check lets pass; and is it these bytes? */
static bool
stores_as(const TopkState *state, const uint8_t *data, size_t size)
{
	TopkList list;
	size_t len;
	uint8_t *bytes;
	bool same;

	topk_list(state, &list);
	len = topk_encoded_size(&list);
	bytes = malloc(len);
	demand(topk_encode(&list, bytes) == len);
	demand(topk_check(bytes, len) == NULL);
	same = len == size && memcmp(bytes, data, len) == 0;
	free(bytes);
	free(list.items);
	return same;
}

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	TopkList list;
	TopkState *state;
	size_t part = size < 20 ? size : 20;

	if (topk_check(data, size) != NULL)
		return 0;
	topk_decode(data, size, &list);
	state = topk_load(&list);
	demand(stores_as(state, data, size));
	if (topk_merge(state, &list))
		demand(stores_as(state, data, size) == (list.total == 0));
	else
		demand(stores_as(state, data, size) && list.total > INT64_MAX / 2);
	if (topk_add(state, (const char *) data + size - part, part, size) && memchr(data + size - part, 0, part) == NULL)
		stores_as(state, data, size);
	topk_free(state);

	/* with fewer counters */
	state = topk_new(1, 1 + list.counters / 2);
	demand(topk_add(state, "x", 1, 1) && topk_add(state, "y", 1, 2));
	if (topk_merge(state, &list))
		demand(!stores_as(state, data, size));
	for (int i = 0; i < 5; i++)
	{
		if (topk_add(state, &"a rather long item number \n"[i], 20, i))
			stores_as(state, data, size);
	}
	topk_free(state);
	free(list.items);
	return 0;
}
