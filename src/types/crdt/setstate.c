/*
 * setstate.c
 *		A dc_gset or dc_orset in memory, for many changes in a row: each takes the same
 *		time, however large the set.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Elements are entries of an array, which an index finds by their hashes. Those that
 * are loaded come in order; what is added is put behind them, and sorted when the state is
 * written (setencode.c). An entry that is removed stays as a gap until the array is
 * full. Nodes have numbers by their arrival, and get those of their order when the
 * state is written.
 *
 * A function that runs out of memory leaves the state as it was: first it takes what it
 * needs, then it changes something.
 *
 * Each change can tell what was before (SetChange), and the changes that were made since
 * a copy's version can be undone in it, the last one first. A change may refer to
 * bytes of the state that it was made to, so changes are forgotten all at once: what
 * later ones have put aside, earlier ones may refer to.
 */
#include "types/crdt/setstate.h"

#include "types/crdt/gset.h"

#include <string.h>

/*
 * Allocate an array of n members of this size, which may be above 1 GB; never NULL.
 */
static void *
huge_array(size_t n, size_t size)
{
	return sketch_alloc_huge((n == 0 ? 1 : n) * size);
}

/*
 * Return true if two strings have the same bytes.
 */
static inline bool
same_string(CrdtString a, CrdtString b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/*
 * least_bytes is what an element takes in a value at least.
 */
static inline size_t
least_bytes(const SetState *state, size_t len)
{
	return len + (state->kind == CRDT_GSET ? 1 : 4);
}

/* Loading and copying. */

/*
 * setstate_load_entry puts an element behind all others. There is room for it.
 */
static void
setstate_load_entry(SetState *state, CrdtString element, SetDots dots)
{
	uint32_t hash = hashindex_hash(element.data, element.len);

	hashindex_put(&state->index, hash, (uint32_t) state->nentries);
	state->entries[state->nentries++] = (SetEntry){
		.data = element.data, .len = (uint32_t) element.len, .hash = hash, .dots = dots};
	state->live++;
	state->bytes += least_bytes(state, element.len);
}

/*
 * Make room for n entries in a state that has none.
 */
static void
alloc_entries(SetState *state, size_t n)
{
	state->entries = huge_array(n, sizeof(SetEntry));
	state->size = n;
	hashindex_reserve(&state->index, n);
}

/*
 * Load the elements of a dc_gset. They stay views of its bytes, which must be the state's.
 */
static void
load_gset(SetState *state, CrdtBytes bytes)
{
	GsetIter iter = gset_iter(bytes);
	CrdtString element;

	alloc_entries(state, (size_t) iter.left);
	while (gset_next(&iter, &element))
		setstate_load_entry(state, element, (SetDots){0});
}

/*
 * Return a copy of an element's dots: a single one in place, more in memory of their own.
 */
static SetDots
copy_dots(const Dot *dots, size_t n)
{
	SetDots copy = {(uint32_t) n, 0, {0}};

	if (n == 1)
	{
		copy.node = (uint32_t) dots[0].node;
		copy.of.counter = dots[0].counter;
	}
	else if (n > 1)
	{
		copy.of.many = huge_array(n, sizeof(Dot));
		memcpy(copy.of.many, dots, n * sizeof(Dot));
	}
	return copy;
}

/*
 * Free dots that have memory of their own, and leave none.
 */
static void
free_dots(SetDots *dots)
{
	if (dots->n > 1)
		sketch_free(dots->of.many);
	dots->n = 0;
}

/*
 * Take over the nodes of a context, with its arrays, and index them by name.
 */
static void
load_nodes(SetState *state, DotsContext *context)
{
	state->nodes = context->nodes;
	state->nnodes = state->nloaded = state->nodes_size = context->n;
	state->ranges = context->ranges;
	hashindex_reserve(&state->node_index, context->n);
	for (size_t i = 0; i < context->n; i++)
	{
		CrdtString node = context->nodes[i].node;

		hashindex_put(&state->node_index, hashindex_hash(node.data, node.len), (uint32_t) i);
	}
}

/*
 * Load the context and the elements of a dc_orset. The strings stay views of its bytes, which must
 * be the state's.
 */
static void
load_orset(SetState *state, CrdtBytes bytes)
{
	DotsReader reader;

	dots_reader_open(&reader, bytes);
	load_nodes(state, &reader.context);
	alloc_entries(state, (size_t) reader.left);
	while (dots_reader_next(&reader))
		setstate_load_entry(state, reader.current.element, copy_dots(reader.current.dots, reader.current.n));
	/* its context is the state's now */
	if (reader.current.dots != NULL)
		sketch_free(reader.current.dots);
}

/*
 * setstate_load reads a dc_gset or dc_orset.
 */
SetState *
setstate_load(CrdtBytes bytes)
{
	SetState *state = sketch_alloc(sizeof(SetState));

	memset(state, 0, sizeof(SetState));
	state->kind = bytes.data[0] >> 4;
	state->block = sketch_alloc(bytes.len);
	memcpy(state->block, bytes.data, bytes.len);
	bytes.data = state->block;
	if (state->kind == CRDT_GSET)
		load_gset(state, bytes);
	else
		load_orset(state, bytes);
	state->nsorted = state->nentries;
	return state;
}

/*
 * move_string copies a string to a block that is being filled.
 */
static const char *
move_string(uint8_t **next, const char *data, size_t len)
{
	char *copy = (char *) *next;

	if (len > 0)
		memcpy(copy, data, len);
	*next += len;
	return copy;
}

/*
 * Copy the entries, gaps included, so that the index stays right. Their bytes go to the block at
 * *next.
 */
static void
copy_entries(SetState *copy, const SetState *state, uint8_t **next)
{
	copy->entries = huge_array(state->nentries, sizeof(SetEntry));
	copy->size = state->nentries;
	if (state->nentries > 0)
		memcpy(copy->entries, state->entries, state->nentries * sizeof(SetEntry));
	for (size_t i = 0; i < state->nentries; i++)
	{
		SetEntry *entry = &copy->entries[i];

		if (entry->gone)
			continue;
		entry->own = false;
		entry->data = move_string(next, entry->data, entry->len);
		if (entry->dots.n > 1)
			entry->dots = copy_dots(entry->dots.of.many, entry->dots.n);
	}
}

/*
 * Copy the nodes, their ranges into one array and their names to the block at *next.
 */
static void
copy_nodes(SetState *copy, const SetState *state, uint8_t **next)
{
	size_t nranges = 0;
	DotsRange *range;

	for (size_t i = 0; i < state->nnodes; i++)
		nranges += state->nodes[i].n;
	copy->nodes = huge_array(state->nnodes, sizeof(DotsNode));
	copy->nodes_size = copy->nloaded = state->nnodes;
	copy->ranges = range = huge_array(nranges, sizeof(DotsRange));
	for (size_t i = 0; i < state->nnodes; i++)
	{
		const DotsNode *node = &state->nodes[i];

		memcpy(range, node->ranges, node->n * sizeof(DotsRange));
		copy->nodes[i].node = (CrdtString){move_string(next, node->node.data, node->node.len), node->node.len};
		copy->nodes[i].ranges = range;
		copy->nodes[i].n = node->n;
		range += node->n;
	}
}

/*
 * setstate_copy returns a copy in which entries and nodes have the same numbers.
 */
SetState *
setstate_copy(const SetState *state)
{
	SetState *copy = sketch_alloc(sizeof(SetState));
	size_t len = state->bytes;
	uint8_t *next;

	*copy = *state;
	for (size_t i = 0; i < state->nnodes; i++)
		len += state->nodes[i].node.len;
	copy->block = next = huge_array(len, 1);
	copy_entries(copy, state, &next);
	copy_nodes(copy, state, &next);
	hashindex_copy(&copy->index, &state->index);
	hashindex_copy(&copy->node_index, &state->node_index);
	return copy;
}

/*
 * Free the bytes and the dots that an entry owns.
 */
static void
free_entry(SetEntry *entry)
{
	if (entry->own)
		sketch_free((char *) entry->data);
	free_dots(&entry->dots);
}

/*
 * Free a state and all its memory.
 */
void
setstate_free(SetState *state)
{
	for (size_t i = 0; i < state->nentries; i++)
	{
		if (!state->entries[i].gone)
			free_entry(&state->entries[i]);
	}
	for (size_t i = state->nloaded; i < state->nnodes; i++)
		sketch_free(state->nodes[i].ranges);
	sketch_free(state->entries);
	hashindex_free(&state->index);
	hashindex_free(&state->node_index);
	if (state->nodes != NULL)
		sketch_free(state->nodes);
	if (state->ranges != NULL)
		sketch_free(state->ranges);
	sketch_free(state->block);
	sketch_free(state);
}

/* Entries. */

/*
 * Return the entry of an element with this hash, or NULL.
 */
static SetEntry *
find_entry(const SetState *state, CrdtString element, uint32_t hash)
{
	HashIndexIter iter = hashindex_find(&state->index, hash);
	uint32_t number;

	while (hashindex_next(&state->index, &iter, &number))
	{
		if (same_string(entry_string(&state->entries[number]), element))
			return &state->entries[number];
	}
	return NULL;
}

/*
 * Return true if a set has an element.
 */
bool
setstate_contains(const SetState *state, CrdtString element)
{
	return find_entry(state, element, hashindex_hash(element.data, element.len)) != NULL;
}

/*
 * close_gaps moves the entries together.
 */
static void
close_gaps(SetState *state)
{
	size_t kept = 0;
	size_t sorted = 0;

	hashindex_clear(&state->index);
	for (size_t i = 0; i < state->nentries; i++)
	{
		if (state->entries[i].gone)
			continue;
		sorted += i < state->nsorted;
		hashindex_put(&state->index, state->entries[i].hash, (uint32_t) kept);
		state->entries[kept++] = state->entries[i];
	}
	state->nentries = kept;
	state->nsorted = sorted;
}

/*
 * reserve_entry makes room for one more entry: in the gaps if there are many, so that this
 * is rare enough either way.
 */
static void
reserve_entry(SetState *state)
{
	size_t size = state->size < 16 ? 32 : state->size * 2;
	SetEntry *entries;

	hashindex_reserve(&state->index, state->live + 1);
	if (state->nentries < state->size)
		return;
	if (state->nentries - state->live > state->size / 4)
	{
		close_gaps(state);
		return;
	}
	entries = huge_array(size, sizeof(SetEntry));
	if (state->nentries > 0)
		memcpy(entries, state->entries, state->nentries * sizeof(SetEntry));
	sketch_free(state->entries);
	state->entries = entries;
	state->size = size;
}

/*
 * Return a copy of a string's bytes, in memory of its own.
 */
static const char *
own_string(CrdtString string)
{
	char *data = huge_array(string.len, 1);

	if (string.len > 0)
		memcpy(data, string.data, string.len);
	return data;
}

/*
 * setstate_insert_entry puts an element that is not there, for which there is room. The entry
 * owns its bytes and its dots.
 */
static void
setstate_insert_entry(SetState *state, CrdtString element, uint32_t hash, SetDots dots)
{
	hashindex_put(&state->index, hash, (uint32_t) state->nentries);
	state->entries[state->nentries++] = (SetEntry){
		.data = element.data, .len = (uint32_t) element.len, .own = true, .hash = hash, .dots = dots};
	state->live++;
	state->bytes += least_bytes(state, element.len);
}

/*
 * delete_entry takes an entry out. Its bytes and dots are for the caller to free.
 */
static void
delete_entry(SetState *state, SetEntry *entry)
{
	hashindex_remove(&state->index, entry->hash, (uint32_t) (entry - state->entries));
	state->bytes -= least_bytes(state, entry->len);
	state->live--;
	entry->gone = true;
}

/* Nodes. */

/*
 * Return the number of a node, or SET_NO_NODE.
 */
static uint32_t
find_node(const SetState *state, CrdtString node)
{
	HashIndexIter iter = hashindex_find(&state->node_index, hashindex_hash(node.data, node.len));
	uint32_t number;

	while (hashindex_next(&state->node_index, &iter, &number))
	{
		if (same_string(state->nodes[number].node, node))
			return number;
	}
	return SET_NO_NODE;
}

/*
 * Return where a node's last dot is kept: the end of its last range. The caller may change it.
 */
static inline int64_t *
last_dot(SetState *state, uint32_t number)
{
	DotsNode *node = &state->nodes[number];

	return &node->ranges[node->n - 1].last;
}

/*
 * new_node adds a node that has drawn nothing yet, which no other function may see.
 */
static uint32_t
new_node(SetState *state, CrdtString node)
{
	DotsRange *range;
	char *name;

	hashindex_reserve(&state->node_index, state->nnodes + 1);
	if (state->nnodes == state->nodes_size)
	{
		size_t size = state->nodes_size < 2 ? 4 : state->nodes_size * 2;
		DotsNode *nodes = huge_array(size, sizeof(DotsNode));

		if (state->nnodes > 0)
			memcpy(nodes, state->nodes, state->nnodes * sizeof(DotsNode));
		sketch_free(state->nodes);
		state->nodes = nodes;
		state->nodes_size = size;
	}
	range = sketch_alloc(sizeof(DotsRange) + node.len);
	name = (char *) (range + 1);
	memcpy(name, node.data, node.len);
	*range = (DotsRange){1, 0};
	hashindex_put(&state->node_index, hashindex_hash(name, node.len), (uint32_t) state->nnodes);
	state->nodes[state->nnodes] = (DotsNode){{name, node.len}, range, 1};
	return (uint32_t) state->nnodes++;
}

/*
 * setstate_undraw gives a node's last dot back, and the node with its first one: nodes are given
 * back in the opposite order of their arrival.
 */
static void
setstate_undraw(SetState *state, uint32_t number)
{
	DotsNode *node = &state->nodes[number];
	DotsRange *range = &node->ranges[node->n - 1];

	range->last--;
	if (range->last >= range->first)
		return;
	hashindex_remove(&state->node_index, hashindex_hash(node->node.data, node->node.len), number);
	state->nnodes--;
	if (state->nnodes < state->nloaded)
		state->nloaded = state->nnodes;
	else
		sketch_free(range);
}

/* Changes. */

/*
 * change_made tells the caller what was before, or frees that.
 */
static SetEffect
change_made(SetChange *change, SetChange made)
{
	if (change != NULL)
		*change = made;
	else
		setstate_forget(&made);
	return SET_CHANGED;
}

/*
 * find_or_add_node is the node's number, if it has a dot left, or SET_NO_NODE.
 */
static uint32_t
find_or_add_node(SetState *state, CrdtString node)
{
	uint32_t number = find_node(state, node);

	if (number == SET_NO_NODE)
		return new_node(state, node);
	return *last_dot(state, number) == INT64_MAX ? SET_NO_NODE : number;
}

/*
 * setstate_add adds an element; to a dc_orset on behalf of a node. With `change` it
 * tells what was before, which the caller must keep or forget.
 */
SetEffect
setstate_add(SetState *state, CrdtString element, CrdtString node, SetChange *change)
{
	uint32_t hash = hashindex_hash(element.data, element.len);
	SetEntry *entry = find_entry(state, element, hash);
	SetChange made = {.element = element, .drawn = SET_NO_NODE};
	SetDots dot = {0};

	if (entry == NULL)
	{
		if (state->bytes + least_bytes(state, element.len) > CRDT_MAX_SIZE)
			return SET_TOO_LARGE;
		reserve_entry(state);
		made.element.data = own_string(element);
	}
	else if (state->kind == CRDT_GSET)
		return SET_SAME;
	if (state->kind == CRDT_ORSET)
	{
		made.drawn = find_or_add_node(state, node);
		if (made.drawn == SET_NO_NODE)
		{
			if (entry == NULL)
				sketch_free((char *) made.element.data);
			return SET_NO_DOTS;
		}
		/* from here on nothing can fail */
		dot = (SetDots){1, made.drawn, {++*last_dot(state, made.drawn)}};
	}
	if (entry == NULL)
		setstate_insert_entry(state, made.element, hash, dot);
	else
	{
		made.element = entry_string(entry);
		made.was_there = true;
		made.before = entry->dots;
		entry->dots = dot;
	}
	return change_made(change, made);
}

/*
 * setstate_remove removes an element, if it is there.
 */
SetEffect
setstate_remove(SetState *state, CrdtString element, SetChange *change)
{
	SetEntry *entry = find_entry(state, element, hashindex_hash(element.data, element.len));

	if (entry == NULL)
		return SET_SAME;
	delete_entry(state, entry);
	return change_made(change, (SetChange){.element = entry_string(entry), .drawn = SET_NO_NODE, .was_there = true, .own = entry->own, .before = entry->dots});
}

/*
 * setstate_undo undoes in a copy a change that was made to the state it was copied from. All
 * later ones must be undone already.
 */
void
setstate_undo(SetState *state, const SetChange *change)
{
	uint32_t hash = hashindex_hash(change->element.data, change->element.len);
	SetEntry *entry = find_entry(state, change->element, hash);
	SetDots before = change->before;

	if (change->was_there && before.n > 1)
		before = copy_dots(before.of.many, before.n);
	if (entry == NULL)
	{
		CrdtString element = {own_string(change->element), change->element.len};

		reserve_entry(state);
		setstate_insert_entry(state, element, hash, before);
	}
	else if (change->was_there)
	{
		free_dots(&entry->dots);
		entry->dots = before;
	}
	else
	{
		delete_entry(state, entry);
		free_entry(entry);
	}
	if (change->drawn != SET_NO_NODE)
		setstate_undraw(state, change->drawn);
}

/*
 * setstate_forget frees what a change has put aside.
 */
void
setstate_forget(SetChange *change)
{
	if (change->own)
		sketch_free((char *) change->element.data);
	if (change->was_there)
		free_dots(&change->before);
}
