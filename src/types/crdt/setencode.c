/*
 * setencode.c
 *		A set in memory as a value: the same bytes as those of the algorithms that know
 *		values only (gset.c, dots.c).
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The first entries are in order, those that were added since they were loaded are not.
 * So those alone are sorted, and a set of n elements that was changed k times is written in
 * O(n + k log k).
 */
#include "types/crdt/setstate.h"

#include <stdlib.h>
#include <string.h>

/* An entry to sort, with its first bytes, which decide most comparisons. */
typedef struct SortEntry
{
	uint64_t prefix;
	const SetEntry *entry;
} SortEntry;

/*
 * Return the first eight bytes of an entry as a number whose order is that of the bytes. Shorter
 * entries are filled up with zeros.
 */
static uint64_t
prefix_of(const SetEntry *entry)
{
	uint64_t prefix = 0;

	for (size_t i = 0; i < 8; i++)
		prefix = prefix << 8 | (i < entry->len ? (uint8_t) entry->data[i] : 0);
	return prefix;
}

/*
 * Compare two SortEntry by their elements, for qsort().
 */
static int
setencode_compare_entries(const void *a, const void *b)
{
	const SortEntry *entry_a = a;
	const SortEntry *entry_b = b;

	if (entry_a->prefix != entry_b->prefix)
		return entry_a->prefix < entry_b->prefix ? -1 : 1;
	return crdt_compare(entry_string(entry_a->entry), entry_string(entry_b->entry));
}

/* Goes through the entries in order. */
typedef struct EntryIter
{
	const SetState *state;
	size_t next; /* of those that are in order */
	SortEntry *added;
	size_t next_added;
	size_t nadded;
} EntryIter;

/*
 * Begin to read the entries in order. Sort those that were added since the set was loaded.
 */
static EntryIter
begin_set_entries(const SetState *state)
{
	EntryIter iter = {state, 0, NULL, 0, 0};

	if (state->nsorted == state->nentries)
		return iter;
	iter.added = sketch_alloc_huge((state->nentries - state->nsorted) * sizeof(SortEntry));
	for (size_t i = state->nsorted; i < state->nentries; i++)
	{
		const SetEntry *entry = &state->entries[i];

		if (!entry->gone)
			iter.added[iter.nadded++] = (SortEntry){prefix_of(entry), entry};
	}
	/* the C library's: the server's takes quadratic time for input crafted to that end */
	(qsort)(iter.added, iter.nadded, sizeof(SortEntry), setencode_compare_entries);
	return iter;
}

/*
 * Return the next entry in order. It may be called once for each live entry.
 */
static const SetEntry *
setencode_next_entry(EntryIter *iter)
{
	const SetEntry *entry = NULL;

	while (iter->next < iter->state->nsorted && iter->state->entries[iter->next].gone)
		iter->next++;
	if (iter->next < iter->state->nsorted)
		entry = &iter->state->entries[iter->next];
	if (iter->next_added < iter->nadded)
	{
		const SetEntry *added = iter->added[iter->next_added].entry;

		if (entry == NULL || crdt_compare(entry_string(added), entry_string(entry)) < 0)
		{
			iter->next_added++;
			return added;
		}
	}
	iter->next++;
	return entry;
}

/*
 * Free the memory of the iterator.
 */
static void
end_set_entries(EntryIter *iter)
{
	if (iter->added != NULL)
		sketch_free(iter->added);
}

/*
 * Write a dc_gset.
 */
static void
encode_gset(CrdtBuf *out, const SetState *state)
{
	EntryIter iter = begin_set_entries(state);

	crdt_buf_reserve(out, state->bytes + state->live + 16);
	crdt_put_byte(out, CRDT_HEADER(CRDT_GSET));
	crdt_put_number(out, (int64_t) state->live);
	for (size_t i = 0; i < state->live; i++)
		crdt_put_string(out, entry_string(setencode_next_entry(&iter)));
	end_set_entries(&iter);
}

/* A node and its number in a state. */
typedef struct NodeRank
{
	const DotsNode *node;
	size_t number;
} NodeRank;

/*
 * Compare two NodeRank by their nodes' names, for qsort().
 */
static int
compare_nodes(const void *a, const void *b)
{
	return crdt_compare(((const NodeRank *) a)->node->node, ((const NodeRank *) b)->node->node);
}

/*
 * order_nodes creates a context from a state's nodes, and tells the number of each in it. The
 * ranges are the state's.
 */
static void
order_nodes(const SetState *state, DotsContext *context, size_t *numbers)
{
	NodeRank *ranks = sketch_alloc_huge((state->nnodes + 1) * sizeof(NodeRank));

	for (size_t i = 0; i < state->nnodes; i++)
		ranks[i] = (NodeRank){&state->nodes[i], i};
	(qsort)(ranks, state->nnodes, sizeof(NodeRank), compare_nodes);
	*context = (DotsContext){NULL, state->nnodes, NULL, 0};
	context->nodes = sketch_alloc_huge((state->nnodes + 1) * sizeof(DotsNode));
	for (size_t i = 0; i < state->nnodes; i++)
	{
		context->nodes[i] = *ranks[i].node;
		numbers[ranks[i].number] = i;
	}
	sketch_free(ranks);
}

/*
 * put_set_entry puts an element with its dots by the nodes' numbers in the context. More
 * than one dot were loaded, and stay in order: so did their nodes.
 */
static void
put_set_entry(DotsWriter *writer, const SetEntry *entry, const size_t *numbers)
{
	Dot *many = entry->dots.of.many;
	size_t n = entry->dots.n;
	Dot one;

	if (n == 1)
	{
		one = (Dot){numbers[entry->dots.node], entry->dots.of.counter};
		dots_put(writer, entry_string(entry), &one, 1);
		return;
	}
	crdt_put_string(&writer->elements, entry_string(entry));
	crdt_put_number(&writer->elements, (int64_t) n);
	for (size_t i = 0; i < n; i++)
	{
		crdt_put_number(&writer->elements, (int64_t) numbers[many[i].node]);
		crdt_put_number(&writer->elements, many[i].counter);
	}
	writer->n++;
}

/*
 * Write a dc_orset: its context, and its elements unless `elements` is false.
 */
static void
encode_orset(CrdtBuf *out, const SetState *state, bool elements)
{
	size_t *numbers = sketch_alloc_huge((state->nnodes + 1) * sizeof(size_t));
	DotsWriter writer = {{NULL, 0, 0}, 0};
	DotsContext context;

	order_nodes(state, &context, numbers);
	if (elements)
	{
		EntryIter iter = begin_set_entries(state);

		crdt_buf_reserve(&writer.elements, state->bytes + 3 * state->live);
		for (size_t i = 0; i < state->live; i++)
			put_set_entry(&writer, setencode_next_entry(&iter), numbers);
		end_set_entries(&iter);
	}
	dots_finish(&writer, out, CRDT_ORSET, &context);
	sketch_free(context.nodes);
	sketch_free(numbers);
}

/*
 * setstate_encode writes a set.
 */
void
setstate_encode(CrdtBuf *out, const SetState *state)
{
	if (state->kind == CRDT_GSET)
		encode_gset(out, state);
	else
		encode_orset(out, state, true);
}

/*
 * setstate_encode_reset writes a dc_orset as it is when all its elements are removed.
 */
void
setstate_encode_reset(CrdtBuf *out, const SetState *state)
{
	encode_orset(out, state, false);
}
