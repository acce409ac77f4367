/*
 * limit_store.h
 *		Chunks for lists of limits outside the server: taken, given back, and counted.
 */
#ifndef LIMIT_STORE_H
#define LIMIT_STORE_H

#include <stdlib.h>
#include <string.h>

#include "memory/limit/algorithm.h"

#define STORE_CHUNKS 2048

typedef struct Store
{
	DcLimitStore api;
	DcLimitChunk *chunks[STORE_CHUNKS]; /* NULL: free */
	uint32_t taken;
} Store;

static inline DcLimitChunk *
store_chunk(void *arg, uint32_t number)
{
	Store *store = arg;

	if (number >= STORE_CHUNKS || store->chunks[number] == NULL)
		abort();
	return store->chunks[number];
}

static inline void
store_give_back(void *arg, uint32_t number)
{
	Store *store = arg;

	free(store_chunk(arg, number));
	store->chunks[number] = NULL;
	store->taken--;
}

/* linked, the first one of them */
static inline uint32_t
store_take(Store *store, uint32_t count)
{
	uint32_t first = LIMIT_NO_CHUNK;

	for (uint32_t i = 0; i < STORE_CHUNKS && count > 0; i++)
	{
		if (store->chunks[i] != NULL)
			continue;
		store->chunks[i] = malloc(sizeof(DcLimitChunk) + store->api.words * sizeof(int64_t));
		if (store->chunks[i] == NULL)
			abort();
		memset(store->chunks[i], 0xA5, sizeof(DcLimitChunk) + store->api.words * sizeof(int64_t));
		store->chunks[i]->next = first;
		first = i;
		store->taken++;
		count--;
	}
	if (count > 0)
		abort();
	return first;
}

static inline void
store_init(Store *store, uint32_t words)
{
	memset(store, 0, sizeof(*store));
	store->api = (DcLimitStore){store, words, store_chunk, store_give_back};
}

/* what the server does with a call: whether it is allowed, and then it counts */
static inline bool
store_call(Store *store, const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, int64_t cost, int64_t lease,
		   DcLimitAnswer *answer)
{
	uint32_t fresh = LIMIT_NO_CHUNK;

	limit_turn(numbers, state, now, &store->api);
	limit_test(numbers, state, now, cost, &store->api, answer);
	if (!answer->allowed)
		return false;
	if (limit_has_list(numbers))
		fresh = store_take(store, limitlist_chunks_wanted(numbers, state, cost, &store->api));
	limit_add(numbers, state, now, cost, lease, fresh, &store->api);
	return true;
}

#endif /* LIMIT_STORE_H */
