/*
 * memory.h
 *		Memory for the sketches' algorithms, which also build without the server.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * In the server it is the current memory context's; in the unit tests and the
 * fuzzers (DC_STANDALONE) it is malloc's, so that the sanitizers watch it.
 */
#ifndef DC_SKETCH_MEMORY_H
#define DC_SKETCH_MEMORY_H

#include <stddef.h>

#ifdef DC_STANDALONE
#include <stdlib.h>

static inline void *
sketch_alloc(size_t size)
{
	void *block = malloc(size);

	if (block == NULL)
		abort();
	return block;
}

#define sketch_alloc_huge(size) sketch_alloc(size)
#define sketch_free(block) free(block)
#else
#include "postgres.h"

#define sketch_alloc(size) palloc(size)
/* what may be larger than 1 GB */
#define sketch_alloc_huge(size) MemoryContextAllocHuge(CurrentMemoryContext, size)
#define sketch_free(block) pfree(block)
#endif

#endif /* DC_SKETCH_MEMORY_H */
