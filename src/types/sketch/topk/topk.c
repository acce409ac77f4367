/*
 * topk.c
 *		The heaviest items of a stream, in bounded memory, with bounds.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A Space-Saving summary (Metwally, Agrawal and El Abbadi, 2005), merged as
 * Agarwal and others show (Mergeable Summaries, PODS 2012). There are places for
 * m items ("counters"). A listed item has a count and an error; there is a floor
 * for all items that are not listed. An item of weight w
 *
 *	- that is listed adds w to its count;
 *	- that is not listed, while there is a free place, gets it with count w and
 *	  error 0;
 *	- that is not listed otherwise becomes a candidate with count floor + w and
 *	  error floor. Of the candidate and the m listed items the lightest is
 *	  dropped; the floor rises to its count.
 *
 * The lightest is the last in the order by count (high first), error (low
 * first), bytes. As no two items have the same bytes, the state after a stream
 * depends on nothing but the stream, and on nothing that a stored value lacks:
 * adding to a stored value is adding to the state it was made from. Space-Saving lets each newcomer
 * replace the lightest, and start at that one's count. Here the newcomer itself may be dropped, and
 * starts at the floor, which is never above that count.
 *
 * To merge A and B, an item of one side that the other does not list counts there
 * with that one's floor, as count and as error; counts, errors, floors and
 * totals are added; the heaviest m (of A's and B's m, the smaller) stay, and the
 * floor is raised to the heaviest count dropped.
 *
 * Why the bounds hold. Let N be the total weight. After any adds and merges
 *
 *	(1) count - error <= truth <= count for listed items, truth <= floor for all
 *		others;
 *	(2) no count is below the floor, no error above it, each error below its count;
 *	(3) if the floor is above 0, there are m listed items;
 *	(4) the counts of any m listed items, or of all if they are fewer, sum up to
 *		at most N; to N exactly while the floor is 0.
 *
 * From (2), (3) and (4), m * floor <= N. So errors and the floor are at most N/m,
 * and by (1) every item of more than N/m is listed. While the floor is 0, nothing
 * was ever dropped and all is exact. Further, for any j < m the floor is at most
 * 1/(m-j) of the stream's weight without its j heaviest items (Berinde and
 * others, 2010): of those, an unlisted one weighs no more than any listed item,
 * so m counts bound their weight and m - j times the floor by N.
 *
 * Adding keeps all four: a candidate's truth was at most the floor and grew by w.
 * The item that is dropped is the lightest of m + 1, each at least the floor, so no item
 * is below the new floor. The sum grows by floor + w less the count of the dropped item,
 * which is at most w.
 *
 * Merging: (1) is the sum of both sides' bounds, an item unlisted in A having
 * 0 <= truth <= A's floor there. (2) is clear from counts and errors being at
 * least, or at most, the floors of both sides; dropped items are lighter than
 * those that stay. (3): if A's floor is above 0 it alone lists at least m items, and if
 * neither is, only dropping raises it. (4): of m items, let j be listed in A. If A's
 * floor is above 0, the other m - j count there with that floor, and A has at
 * least m - j further items of at least that much; so together they are at most
 * any m of A's own, thus at most A's total. The same goes for B.
 *
 * In memory, listed items are in an array, with a hash table over it (from
 * 13 items on) and, once the array is full, a heap with the lightest on top. As
 * counts only grow, a heap node may lag: its count is a lower bound, and is put
 * right when it comes to the top. So an item that is listed costs a look-up and
 * an addition. The array grows with the items. The hash is keyed, so that no user
 * can prepare items that share a place. Nothing else depends on it.
 */
#include "types/sketch/topk/topk.h"

#include <string.h>

#include "types/sketch/memory.h"

#define FIRST_SIZE 6	/* doubled as it fills: a little less than a power of two bytes */
#define SCAN_MAX 12		/* up to this many items are searched without a table */
#define INLINE_BYTES 16 /* items up to this length are kept in their entry */

typedef struct TopkEntry
{
	int64_t count;
	int64_t error;
	uint32_t hash;
	uint32_t len;
	union
	{
		char *data;
		char bytes[INLINE_BYTES];
	} item;
} TopkEntry;

typedef struct TopkSlot
{
	uint32_t hash;
	uint32_t place; /* in entries, plus 1; 0 if the slot is free */
} TopkSlot;

typedef struct TopkNode
{
	int64_t count; /* that of the entry, now or before */
	uint32_t place;
} TopkNode;

struct TopkState
{
	int32_t k;
	int32_t counters;
	uint32_t n;
	uint32_t size; /* of entries */
	int64_t total;
	int64_t floor;
	TopkEntry *entries;
	TopkSlot *table;
	uint32_t mask;	/* the table's size less 1 */
	TopkNode *heap; /* NULL if there is none yet */
};

static uint64_t hash_secret = 0;

/*
 * Mix the bits of a word, as splitmix64 does.
 */
static inline uint64_t
topk_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* The hash of UMAC (NH), its keys drawn from a counter that starts at the secret. */
static uint32_t
topk_hash(const char *data, size_t len)
{
	uint64_t seed = hash_secret;
	uint64_t sum = topk_mix(seed + len);

	while (len > 0)
	{
		size_t part = len < 8 ? len : 8;
		uint64_t word = 0;
		uint64_t key;

		memcpy(&word, data, part);
		seed += UINT64_C(0x9e3779b97f4a7c15);
		key = topk_mix(seed);
		sum += (uint64_t) (uint32_t) (word + key) * (uint32_t) ((word >> 32) + (key >> 32));
		data += part;
		len -= part;
	}
	return (uint32_t) (topk_mix(sum) >> 32);
}

/*
 * topk_set_secret sets the key of the hash, before there is any state.
 */
void
topk_set_secret(uint64_t secret)
{
	hash_secret = secret;
}

/*
 * Return the number of counters for a k if none is given: ten for each, but at least 64 and at
 * most TOPK_MAX_COUNTERS.
 */
int32_t
topk_default_counters(int32_t k)
{
	if (k > TOPK_MAX_COUNTERS / TOPK_PER_K)
		return TOPK_MAX_COUNTERS;
	return k * TOPK_PER_K > TOPK_MIN_DEFAULT ? k * TOPK_PER_K : TOPK_MIN_DEFAULT;
}

/*
 * Return an item's bytes, which are in its entry if they are few.
 */
static inline const char *
entry_data(const TopkEntry *entry)
{
	return entry->len <= INLINE_BYTES ? entry->item.bytes : entry->item.data;
}

/*
 * Give an entry a copy of an item's bytes. What it had before must have been freed.
 */
static void
entry_set(TopkEntry *entry, uint32_t hash, const char *data, size_t len)
{
	char *copy = len <= INLINE_BYTES ? entry->item.bytes : sketch_alloc(len);

	if (len > 0)
		memcpy(copy, data, len);
	if (len > INLINE_BYTES)
		entry->item.data = copy;
	entry->hash = hash;
	entry->len = (uint32_t) len;
}

/*
 * Free an item's bytes, unless they are in the entry itself.
 */
static void
topk_entry_free(TopkEntry *entry)
{
	if (entry->len > INLINE_BYTES)
		sketch_free(entry->item.data);
}

/*
 * Return the entry at a place as an item. The bytes stay the state's.
 */
static inline TopkItem
item_of(const TopkState *state, uint32_t place)
{
	const TopkEntry *entry = &state->entries[place];
	TopkItem item = {entry->count, entry->error, entry_data(entry), entry->len, place};

	return item;
}

/*
 * Put the entry at a place, which is not there yet, into the hash table.
 */
static void
table_insert(TopkState *state, uint32_t place)
{
	uint32_t hash = state->entries[place].hash;
	uint32_t slot = hash & state->mask;

	while (state->table[slot].place != 0)
		slot = (slot + 1) & state->mask;
	state->table[slot].hash = hash;
	state->table[slot].place = place + 1;
}

/* Entries that had to go around the one removed move closer to their home. */
static void
table_remove(TopkState *state, uint32_t place)
{
	TopkSlot *table = state->table;
	uint32_t mask = state->mask;
	uint32_t hole = state->entries[place].hash & mask;

	while (table[hole].place != place + 1)
		hole = (hole + 1) & mask;
	for (uint32_t next = (hole + 1) & mask; table[next].place != 0; next = (next + 1) & mask)
	{
		if (((next - table[next].hash) & mask) >= ((next - hole) & mask))
		{
			table[hole] = table[next];
			hole = next;
		}
	}
	table[hole].place = 0;
}

/*
 * Return the entry of an item, or NULL if it is not listed. A state without a table is searched
 * from end to end.
 */
static TopkEntry *
topk_find(const TopkState *state, uint32_t hash, const char *data, size_t len)
{
	if (state->table == NULL)
	{
		for (uint32_t i = 0; i < state->n; i++)
		{
			TopkEntry *entry = &state->entries[i];

			if (entry->hash == hash && entry->len == len && memcmp(entry_data(entry), data, len) == 0)
				return entry;
		}
		return NULL;
	}
	for (uint32_t slot = hash & state->mask; state->table[slot].place != 0; slot = (slot + 1) & state->mask)
	{
		TopkEntry *entry = &state->entries[state->table[slot].place - 1];

		if (state->table[slot].hash == hash && entry->len == len && memcmp(entry_data(entry), data, len) == 0)
			return entry;
	}
	return NULL;
}

/* Move the n entries to an array of this many places, and build its table. */
static void
topk_resize(TopkState *state, uint32_t size)
{
	TopkEntry *entries = sketch_alloc(size * sizeof(TopkEntry));

	if (state->n > 0)
		memcpy(entries, state->entries, state->n * sizeof(TopkEntry));
	if (state->entries != NULL)
		sketch_free(state->entries);
	if (state->table != NULL)
		sketch_free(state->table);
	state->entries = entries;
	state->size = size;
	state->table = NULL;
	if (size > SCAN_MAX)
	{
		state->mask = 1;
		while (state->mask < 2 * size)
			state->mask *= 2;
		state->table = sketch_alloc(state->mask * sizeof(TopkSlot));
		memset(state->table, 0, state->mask * sizeof(TopkSlot));
		state->mask--;
		for (uint32_t i = 0; i < state->n; i++)
			table_insert(state, i);
	}
}

/*
 * Add an item that is not listed, with its count and error. The array doubles as it fills;
 * topk_merge() may have it grow beyond the number of counters for a while.
 */
static void
topk_append(TopkState *state, uint32_t hash, const TopkItem *item)
{
	TopkEntry *entry;

	if (state->n == state->size)
	{
		uint32_t counters = (uint32_t) state->counters;
		uint32_t size = state->size == 0 ? FIRST_SIZE : 2 * state->size;

		topk_resize(state, state->n < counters && size > counters ? counters : size);
	}
	entry = &state->entries[state->n];
	entry->count = item->count;
	entry->error = item->error;
	entry_set(entry, hash, item->data, item->len);
	if (state->table != NULL)
		table_insert(state, state->n);
	state->n++;
}

/*
 * Free the heap. It is rebuilt when it is needed.
 */
static void
heap_drop(TopkState *state)
{
	if (state->heap != NULL)
		sketch_free(state->heap);
	state->heap = NULL;
}

/* Is the entry of one node, with the count there, lighter than that of another? */
static inline bool
topk_lighter(const TopkState *state, const TopkNode *a, const TopkNode *b)
{
	TopkItem left;
	TopkItem right;

	if (a->count != b->count)
		return a->count < b->count;
	left = item_of(state, a->place);
	right = item_of(state, b->place);
	left.count = right.count;
	return topk_compare(&left, &right) > 0;
}

/*
 * Move a node of the heap down until no child is lighter.
 */
static void
sift_down(TopkState *state, uint32_t at)
{
	TopkNode *heap = state->heap;
	TopkNode node = heap[at];

	for (;;)
	{
		uint32_t child = 2 * at + 1;

		if (child >= state->n)
			break;
		if (child + 1 < state->n && topk_lighter(state, &heap[child + 1], &heap[child]))
			child++;
		if (!topk_lighter(state, &heap[child], &node))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = node;
}

/* The lightest entry's place. */
static uint32_t
topk_lightest(TopkState *state)
{
	for (;;)
	{
		TopkNode *top = &state->heap[0];

		if (top->count == state->entries[top->place].count)
			return top->place;
		top->count = state->entries[top->place].count;
		sift_down(state, 0);
	}
}

/*
 * Build the heap of all entries, the lightest on top.
 */
static void
heap_build(TopkState *state)
{
	state->heap = sketch_alloc(state->n * sizeof(TopkNode));
	for (uint32_t i = 0; i < state->n; i++)
	{
		state->heap[i].count = state->entries[i].count;
		state->heap[i].place = i;
	}
	for (uint32_t i = state->n / 2; i-- > 0;)
		sift_down(state, i);
}

/* All places are taken: drop the lightest, which the candidate itself may be. */
static void
topk_replace(TopkState *state, uint32_t hash, const TopkItem *candidate)
{
	uint32_t place;
	TopkItem lowest;
	TopkEntry *entry;

	if (state->heap == NULL)
		heap_build(state);
	if (candidate->count < state->heap[0].count)
	{
		state->floor = candidate->count;
		return;
	}
	place = topk_lightest(state);
	lowest = item_of(state, place);
	if (topk_compare(candidate, &lowest) > 0)
	{
		state->floor = candidate->count;
		return;
	}
	state->floor = lowest.count;
	if (state->table != NULL)
		table_remove(state, place);
	entry = &state->entries[place];
	topk_entry_free(entry);
	entry->count = candidate->count;
	entry->error = candidate->error;
	entry_set(entry, hash, candidate->data, candidate->len);
	if (state->table != NULL)
		table_insert(state, place);
	state->heap[0].count = candidate->count;
	sift_down(state, 0);
}

/* Keep the heaviest of more entries than there are counters. */
static void
topk_prune(TopkState *state)
{
	uint32_t counters = (uint32_t) state->counters;
	TopkEntry *entries = sketch_alloc(counters * sizeof(TopkEntry));
	TopkList list;

	topk_list(state, &list);
	if (list.items[counters].count > state->floor)
		state->floor = list.items[counters].count;
	for (uint32_t i = 0; i < state->n; i++)
	{
		TopkEntry *entry = &state->entries[list.items[i].place];

		if (i < counters)
			entries[i] = *entry;
		else
			topk_entry_free(entry);
	}
	sketch_free(list.items);
	sketch_free(state->entries);
	state->entries = entries;
	state->n = counters;
	topk_resize(state, counters);
}

/*
 * Allocate an empty state. k is at most counters.
 */
TopkState *
topk_new(int32_t k, int32_t counters)
{
	TopkState *state = sketch_alloc(sizeof(TopkState));

	memset(state, 0, sizeof(TopkState));
	state->k = k;
	state->counters = counters;
	return state;
}

/*
 * topk_load creates a state from a list, with bytes of its own.
 */
TopkState *
topk_load(const TopkList *list)
{
	TopkState *state = topk_new(list->k, list->counters);

	state->total = list->total;
	state->floor = list->floor;
	if (list->n > 0)
		topk_resize(state, (uint32_t) list->n);
	for (int32_t i = 0; i < list->n; i++)
		topk_append(state, topk_hash(list->items[i].data, list->items[i].len), &list->items[i]);
	return state;
}

/*
 * Free a state and all its memory.
 */
void
topk_free(TopkState *state)
{
	for (uint32_t i = 0; i < state->n; i++)
		topk_entry_free(&state->entries[i]);
	heap_drop(state);
	if (state->table != NULL)
		sketch_free(state->table);
	if (state->entries != NULL)
		sketch_free(state->entries);
	sketch_free(state);
}

/*
 * Return a state's k: the number of heaviest items that it is for.
 */
int32_t
topk_k(const TopkState *state)
{
	return state->k;
}

/*
 * Return how many items a state has places for.
 */
int32_t
topk_counters(const TopkState *state)
{
	return state->counters;
}

/*
 * topk_add adds a weight, which is not negative, to an item. It changes nothing
 * and returns false if the total weight would be above INT64_MAX.
 */
bool
topk_add(TopkState *state, const char *data, size_t len, int64_t weight)
{
	TopkItem item;
	uint32_t hash;
	TopkEntry *entry;

	if (weight > INT64_MAX - state->total)
		return false;
	if (weight == 0)
		return true;
	item.count = state->floor + weight;
	item.error = state->floor;
	item.data = data;
	item.len = (uint32_t) len;
	hash = topk_hash(data, len);
	entry = topk_find(state, hash, data, len);
	if (entry != NULL)
		entry->count += weight;
	else if (state->n < (uint32_t) state->counters)
		topk_append(state, hash, &item);
	else
		topk_replace(state, hash, &item);
	state->total += weight;
	return true;
}

/*
 * topk_merge adds another sketch, which is not the state itself. It changes
 * nothing and returns false if the total weight would be above INT64_MAX.
 */
bool
topk_merge(TopkState *state, const TopkList *other)
{
	int64_t floor = state->floor;

	if (other->total > INT64_MAX - state->total)
		return false;
	heap_drop(state);
	for (uint32_t i = 0; other->floor > 0 && i < state->n; i++)
	{
		state->entries[i].count += other->floor;
		state->entries[i].error += other->floor;
	}
	for (int32_t i = 0; i < other->n; i++)
	{
		TopkItem item = other->items[i];
		uint32_t hash = topk_hash(item.data, item.len);
		TopkEntry *entry = topk_find(state, hash, item.data, item.len);

		if (entry != NULL)
		{
			entry->count += item.count - other->floor;
			entry->error += item.error - other->floor;
		}
		else
		{
			item.count += floor;
			item.error += floor;
			topk_append(state, hash, &item);
		}
	}
	state->total += other->total;
	state->floor += other->floor;
	if (other->k < state->k)
		state->k = other->k;
	if (other->counters < state->counters)
		state->counters = other->counters;
	if (state->n > (uint32_t) state->counters)
		topk_prune(state);
	return true;
}

/*
 * topk_list makes the list of a state. The items' bytes stay the state's; the
 * caller frees the array.
 */
void
topk_list(const TopkState *state, TopkList *list)
{
	list->k = state->k;
	list->counters = state->counters;
	list->n = (int32_t) state->n;
	list->total = state->total;
	list->floor = state->floor;
	list->items = sketch_alloc((state->n > 0 ? state->n : 1) * sizeof(TopkItem));
	for (uint32_t i = 0; i < state->n; i++)
		list->items[i] = item_of(state, i);
	topk_sort(list->items, state->n, topk_compare);
}
