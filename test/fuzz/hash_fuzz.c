/*
 * hash_fuzz.c
 *		The hash functions: they read what they are given, no more, and at any
 *		address.
 */
#include "types/sketch/hash.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t redis = hash_redis(data, size);
	uint64_t murmur3 = hash_murmur3(data, size);

	for (size_t offset = 1; offset < 8; offset++)
	{
		uint8_t *block = malloc(offset + size);

		if (block == NULL)
			abort();
		if (size > 0)
			memcpy(block + offset, data, size);
		if (hash_redis(block + offset, size) != redis ||
			hash_murmur3(block + offset, size) != murmur3)
			abort();
		free(block);
	}
	return 0;
}
