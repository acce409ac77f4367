/*
 * listalgorithm.c
 *		Limits that know each unit: the exact sliding window, and leases.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A list has an item for each unit, with the time at which it stops counting. Items are in the
 * order of these times: `now` does not go back, and all items of a list last equally long. (When
 * that is changed, limitlist_convert keeps the order.) So items that are over are at the front,
 * where they are dropped, and a call that has to wait for n units waits for the n-th item.
 *
 * log: a unit counts for `per`. At most `rate` units in any window (t - per, t].
 *
 * concurrent: a unit counts until its lease is given back, or ends after `per`. At most `rate`
 * units at a time, of holders that stop when their lease ends.
 *
 * A list is made of chunks. Its first one may begin with items that are gone, its last one
 * may have room.
 */
#include "memory/limit/algorithm.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* A place in a list. */
typedef struct Place
{
	const DcLimitStore *store;
	uint32_t number; /* of the chunk */
	DcLimitChunk *chunk;
	uint32_t index;
	uint32_t width; /* words of an item */
} Place;

/*
 * Return the words of an item: the time at which it ends and, with leases, the lease.
 */
static uint32_t
item_width(const DcLimitNumbers *numbers)
{
	return numbers->kind == LIMIT_CONCURRENT ? 2 : 1;
}

/* items of a chunk */
static uint32_t
listalgorithm_capacity(uint32_t width, const DcLimitStore *store)
{
	return store->words / width;
}

/*
 * Return the words of the item at a place.
 */
static int64_t *
item_at(const Place *place)
{
	return place->chunk->words + place->index * place->width;
}

/* the first item of a list that has one */
static Place
place_first(const DcLimitState *state, uint32_t width, const DcLimitStore *store)
{
	return (Place){store, state->first, store->chunk(store->arg, state->first), state->skipped, width};
}

/* the item after it; the caller knows that there is one */
static void
place_next(Place *place)
{
	if (++place->index < listalgorithm_capacity(place->width, place->store))
		return;
	place->number = place->chunk->next;
	place->chunk = place->store->chunk(place->store->arg, place->number);
	place->index = 0;
}

/* gives back the first chunk, none of whose items is left */
static void
chunk_drop(DcLimitState *state, const DcLimitStore *store)
{
	uint32_t number = state->first;

	if (number == state->last)
		state->first = state->last = LIMIT_NO_CHUNK;
	else
		state->first = store->chunk(store->arg, number)->next;
	state->skipped = 0;
	store->give_back(store->arg, number);
}

/* drops the first item */
static void
item_drop(DcLimitState *state, uint32_t width, const DcLimitStore *store)
{
	state->used--;
	state->skipped++;
	if (state->used == 0 || state->skipped == listalgorithm_capacity(width, store))
		chunk_drop(state, store);
	if (state->used == 0)
		state->idle_at = state->at;
}

/*
 * limitlist_free gives back all chunks.
 */
void
limitlist_free(DcLimitState *state, const DcLimitStore *store)
{
	while (state->first != LIMIT_NO_CHUNK)
		chunk_drop(state, store);
	state->used = 0;
	state->occupied = 0;
}

/*
 * limitlist_turn drops the items that are over.
 */
void
limitlist_turn(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, const DcLimitStore *store)
{
	uint32_t width = item_width(numbers);

	while (state->used > 0)
	{
		Place place = place_first(state, width, store);

		if (*item_at(&place) > now)
			return;
		item_drop(state, width, store);
	}
}

/* when the n-th item ends, counted from 1 */
static int64_t
nth_end(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t n, const DcLimitStore *store)
{
	Place place = place_first(state, item_width(numbers), store);

	while (--n > 0)
		place_next(&place);
	return *item_at(&place);
}

/*
 * Answer whether `cost` units fit, how many are left, and if they do not fit, in how many us enough
 * of the list will have ended.
 */
void
limitlist_test(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t now, int64_t cost,
			   const DcLimitStore *store, DcLimitAnswer *answer)
{
	int64_t left = MAX(numbers->rate - state->used, 0);
	int64_t missing = state->used + cost - numbers->rate;

	answer->allowed = missing <= 0 && state->at <= now;
	if (state->at > now)
		left = 0;
	answer->remaining = answer->allowed ? left - cost : left;
	if (answer->allowed)
		return;
	if (missing > 0 && missing <= state->used)
		answer->retry_after = nth_end(numbers, state, missing, store) - now;
	answer->retry_after = MAX(answer->retry_after, state->at - now);
}

/*
 * limitlist_chunks_wanted returns how many new chunks `cost` units take.
 */
uint32_t
limitlist_chunks_wanted(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t cost, const DcLimitStore *store)
{
	uint32_t each = listalgorithm_capacity(item_width(numbers), store);
	int64_t room = state->last == LIMIT_NO_CHUNK ? 0 : each - state->occupied;

	return cost <= room ? 0 : (uint32_t) ((cost - room + each - 1) / each);
}

/*
 * Append `cost` units to the list. `fresh` is the first of the chunks that
 * limitlist_chunks_wanted() has asked for.
 */
void
limitlist_add(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, int64_t cost, int64_t lease, uint32_t fresh,
			  const DcLimitStore *store)
{
	uint32_t width = item_width(numbers);
	DcLimitChunk *chunk = state->last != LIMIT_NO_CHUNK ? store->chunk(store->arg, state->last) : NULL;

	state->used += cost;
	for (; cost > 0; cost--)
	{
		int64_t *item;

		if (chunk == NULL || state->occupied == listalgorithm_capacity(width, store))
		{
			if (chunk == NULL)
			{
				state->first = fresh;
				state->skipped = 0;
			}
			else
				chunk->next = fresh;
			state->last = fresh;
			state->occupied = 0;
			chunk = store->chunk(store->arg, fresh);
			fresh = chunk->next;
			chunk->next = LIMIT_NO_CHUNK;
		}
		item = chunk->words + state->occupied++ * width;
		item[0] = now + numbers->per;
		if (width == 2)
			item[1] = lease;
	}
	state->idle_at = MAX(now + numbers->per, state->at);
}

/*
 * limitlist_drop drops items from the front.
 */
void
limitlist_drop(const DcLimitNumbers *numbers, DcLimitState *state, int64_t units, const DcLimitStore *store)
{
	for (; units > 0 && state->used > 0; units--)
		item_drop(state, item_width(numbers), store);
}

/*
 * Move the items of other leases to the front of a list that is not empty, in their order, over
 * those of this one. Return how many there are, and the place of the last one. All in one pass:
 * others wait for the lock in the meantime.
 */
static int64_t
others_to_front(const DcLimitState *state, int64_t lease, const DcLimitStore *store, Place *last)
{
	Place from = place_first(state, 2, store);
	int64_t others = 0;

	*last = from;
	for (int64_t i = 0; i < state->used; i++)
	{
		if (i > 0)
			place_next(&from);
		if (item_at(&from)[1] == lease)
			continue;
		if (others++ > 0)
			place_next(last);
		item_at(last)[0] = item_at(&from)[0];
		item_at(last)[1] = item_at(&from)[1];
	}
	return others;
}

/* gives back the chunks after that of a place, which is that of the last item from now on */
static void
list_cut(DcLimitState *state, const Place *last, const DcLimitStore *store)
{
	uint32_t number = last->number == state->last ? LIMIT_NO_CHUNK : last->chunk->next;

	while (number != LIMIT_NO_CHUNK)
	{
		uint32_t next = store->chunk(store->arg, number)->next;

		store->give_back(store->arg, number);
		number = next;
	}
	last->chunk->next = LIMIT_NO_CHUNK;
	state->last = last->number;
	state->occupied = last->index + 1;
}

/*
 * limitlist_release drops the items of a lease; false if there are none.
 */
bool
limitlist_release(DcLimitState *state, int64_t lease, const DcLimitStore *store)
{
	Place last;
	int64_t others;

	if (state->used == 0)
		return false;
	others = others_to_front(state, lease, store, &last);
	if (others == state->used)
		return false;
	if (others > 0)
	{
		list_cut(state, &last, store);
		state->used = others;
		return true;
	}
	limitlist_free(state, store);
	state->idle_at = state->at;
	return true;
}

/*
 * limitlist_renew lets a lease begin again; false if it is not there any more. Its items go to the
 * end.
 */
bool
limitlist_renew(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, int64_t lease, const DcLimitStore *store)
{
	Place place;
	int64_t others;

	if (state->used == 0)
		return false;
	others = others_to_front(state, lease, store, &place);
	if (others == state->used)
		return false;
	for (int64_t i = others; i < state->used; i++)
	{
		if (i > 0)
			place_next(&place);
		item_at(&place)[0] = now + numbers->per;
		item_at(&place)[1] = lease;
	}
	state->idle_at = now + numbers->per;
	return true;
}

/*
 * limitlist_walk visits all items, in their order.
 */
void
limitlist_walk(const DcLimitNumbers *numbers, const DcLimitState *state, const DcLimitStore *store, DcLimitVisit visit,
			   void *arg)
{
	Place place;

	for (int64_t i = 0; i < state->used; i++)
	{
		if (i == 0)
			place = place_first(state, item_width(numbers), store);
		else
			place_next(&place);
		visit(item_at(&place), arg);
	}
}

/* how the ends of items change */
typedef struct Change
{
	int64_t longer; /* by so much */
	int64_t latest; /* but not after this */
} Change;

/*
 * Move an item's end by the change of `per`, to `latest` at most.
 */
static void
change_item(int64_t *item, void *arg)
{
	const Change *change = arg;

	item[0] = MIN(item[0] + change->longer, change->latest);
}

/*
 * limitlist_convert changes how long items count. A unit of a log counts for the new period from
 * when it came. A lease keeps its end, but ends no later than one that begins now: so the order
 * stays.
 */
void
limitlist_convert(const DcLimitNumbers *old, const DcLimitNumbers *numbers, DcLimitState *state, int64_t now,
				  const DcLimitStore *store)
{
	Change change = {0, now + numbers->per};

	if (numbers->kind == LIMIT_LOG)
		change.longer = numbers->per - old->per;
	limitlist_walk(numbers, state, store, change_item, &change);
	limitlist_turn(numbers, state, now, store);
	state->at = MIN(state->at, now + numbers->per);
	state->idle_at = state->at;
	if (state->used > 0)
		state->idle_at = MAX(nth_end(numbers, state, state->used, store), state->at);
}
