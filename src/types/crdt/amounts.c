/*
 * amounts.c
 *		Amounts per node, which only grow: grow-only counters, counters with observed
 *		reset, and vector clocks.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each node raises its own amounts only, so of two states the greater amount of
 * a node is the later one, and the merge is the maximum of each: a G-Counter, and two of
 * them a PN-Counter (Shapiro, Preguica, Baquero, Zawirski 2011). A vector clock is the
 * same thing with another name (Lamport 1978, Fidge 1988).
 *
 * A reset notes, for each node, how much of its amounts it has seen, as two further amounts, which
 * are merged by maximum as well. The value is the part beyond them. So increments that a reset has
 * not seen survive it, and two resets of the same increments take them away once (observed reset:
 * Weidner and Almeida 2022). A node's resets never exceed its amounts, since both travel together.
 *
 * The body is the number of nodes, and for each its name and its one or four amounts.
 * A node without amounts is left out.
 */
#include "types/crdt/amounts.h"

#include <string.h>

static const char *amounts_check(CrdtBytes state, CrdtValid valid);
static void amounts_merge(CrdtBuf *out, CrdtBytes a, CrdtBytes b);
static void amounts_delta(CrdtBuf *out, CrdtBytes after, CrdtBytes before);

const CrdtType crdt_gcounter = {CRDT_GCOUNTER, "dc_gcounter", amounts_check, amounts_merge, amounts_delta};
const CrdtType crdt_pncounter = {CRDT_PNCOUNTER, "dc_pncounter", amounts_check, amounts_merge, amounts_delta};
const CrdtType crdt_vclock = {CRDT_VCLOCK, "dc_vclock", amounts_check, amounts_merge, amounts_delta};

/*
 * Return the number of amounts per node that a state with this header byte has.
 */
static inline int
fields_of(uint8_t header)
{
	return header == CRDT_HEADER(CRDT_PNCOUNTER) ? AMOUNTS_FIELDS : 1;
}

/*
 * Begin to read the entries of a state that has been checked.
 */
AmountsIter
amounts_iter(CrdtBytes state)
{
	AmountsIter iter;

	iter.next = state.data + 1;
	iter.fields = fields_of(state.data[0]);
	iter.left = crdt_get_number(&iter.next);
	return iter;
}

/*
 * Read the next entry; return false after the last. Amounts that the type does not have are 0.
 */
bool
amounts_next(AmountsIter *iter, AmountsEntry *entry)
{
	if (iter->left == 0)
		return false;
	iter->left--;
	entry->node = crdt_get_string(&iter->next);
	for (int i = 0; i < AMOUNTS_FIELDS; i++)
		entry->amounts[i] = i < iter->fields ? crdt_get_number(&iter->next) : 0;
	return true;
}

/*
 * amounts_entry_wrong tells what is wrong with a node's amounts, or NULL.
 */
const char *
amounts_entry_wrong(const AmountsEntry *entry)
{
	if (entry->amounts[AMOUNT_INC] == 0 && entry->amounts[AMOUNT_DEC] == 0)
		return "A node must have amounts.";
	if (entry->amounts[AMOUNT_INC_RESET] > entry->amounts[AMOUNT_INC] ||
		entry->amounts[AMOUNT_DEC_RESET] > entry->amounts[AMOUNT_DEC])
		return "A reset must not exceed the amount.";
	return NULL;
}

/*
 * Return what is wrong with the body of a counter or vector clock, or NULL. The header byte has
 * been checked; `valid` may be NULL.
 */
static const char *
amounts_check(CrdtBytes state, CrdtValid valid)
{
	const uint8_t *next = state.data + 1;
	const uint8_t *end = state.data + state.len;
	CrdtString before = {NULL, 0};
	int64_t nodes;

	if (state.len < 2 || !bytes_get_varint(&next, end, &nodes))
		return "The number of nodes is missing.";
	for (int64_t i = 0; i < nodes; i++)
	{
		AmountsEntry entry = {{NULL, 0}, {0}};
		const char *wrong;

		if (!crdt_check_string(&next, end, CRDT_MAX_NODE, &entry.node))
			return "A node's name is missing or too long.";
		wrong = crdt_node_wrong(entry.node);
		if (wrong != NULL)
			return wrong;
		if (valid != NULL && !valid(entry.node, CRDT_STRING_NODE))
			return "A node's name is not valid in the database's encoding.";
		if (i > 0 && crdt_compare(before, entry.node) >= 0)
			return "Nodes must be in order, without duplicates.";
		before = entry.node;
		for (int field = 0; field < fields_of(state.data[0]); field++)
		{
			if (!bytes_get_varint(&next, end, &entry.amounts[field]))
				return "An amount is missing or not in its shortest form.";
		}
		wrong = amounts_entry_wrong(&entry);
		if (wrong != NULL)
			return wrong;
	}
	return next == end ? NULL : "There are extra bytes at the end.";
}

/*
 * Write a counter or vector clock without nodes.
 */
void
amounts_empty(CrdtBuf *out, CrdtKind kind)
{
	crdt_put_byte(out, CRDT_HEADER(kind));
	crdt_put_number(out, 0);
}

/*
 * Entries are appended to a body whose number of nodes is not known yet.
 * begin_entries leaves one byte for it, which is enough below 128 nodes, end_entries writes it.
 */
static void
begin_entries(CrdtBuf *out, uint8_t header)
{
	crdt_put_byte(out, header);
	crdt_put_byte(out, 0);
}

/*
 * Write the number of nodes where begin_entries() left room for it. From 128 nodes on it takes
 * more than that byte, so the entries move up.
 */
static void
end_entries(CrdtBuf *out, size_t nodes)
{
	size_t more = bytes_varint_size(nodes) - 1;

	if (more > 0)
	{
		crdt_buf_reserve(out, more);
		memmove(out->data + 2 + more, out->data + 2, out->len - 2);
		out->len += more;
	}
	bytes_put_varint(out->data + 1, nodes);
}

/*
 * Append a node's name and its first `fields` amounts.
 */
static void
put_entry(CrdtBuf *out, int fields, const AmountsEntry *entry)
{
	crdt_put_string(out, entry->node);
	for (int i = 0; i < fields; i++)
		crdt_put_number(out, entry->amounts[i]);
}

/*
 * Raise each amount of an entry to that of another entry of the same node, if that is higher.
 */
static void
raise_entry(AmountsEntry *entry, const AmountsEntry *other)
{
	for (int i = 0; i < AMOUNTS_FIELDS; i++)
	{
		if (entry->amounts[i] < other->amounts[i])
			entry->amounts[i] = other->amounts[i];
	}
}

/*
 * Merge two states of one type: the nodes of both, each amount the higher of the two.
 */
static void
amounts_merge(CrdtBuf *out, CrdtBytes a, CrdtBytes b)
{
	AmountsIter next_a = amounts_iter(a);
	AmountsIter next_b = amounts_iter(b);
	AmountsEntry entry_a;
	AmountsEntry entry_b;
	bool have_a = amounts_next(&next_a, &entry_a);
	bool have_b = amounts_next(&next_b, &entry_b);
	size_t nodes = 0;

	crdt_buf_reserve(out, a.len + b.len);
	begin_entries(out, a.data[0]);
	for (; have_a || have_b; nodes++)
	{
		int order = !have_a ? 1 : !have_b ? -1
										  : crdt_compare(entry_a.node, entry_b.node);

		if (order == 0)
			raise_entry(&entry_a, &entry_b);
		put_entry(out, next_a.fields, order <= 0 ? &entry_a : &entry_b);
		if (order <= 0)
			have_a = amounts_next(&next_a, &entry_a);
		if (order >= 0)
			have_b = amounts_next(&next_b, &entry_b);
	}
	end_entries(out, nodes);
}

/*
 * Write the nodes of `after` that have a higher amount than in `before`, each with all its
 * amounts. Merged into `before`, they have the effect of `after`.
 */
static void
amounts_delta(CrdtBuf *out, CrdtBytes after, CrdtBytes before)
{
	AmountsIter next_after = amounts_iter(after);
	AmountsIter next_before = amounts_iter(before);
	AmountsEntry entry;
	AmountsEntry old;
	bool have_old = amounts_next(&next_before, &old);
	size_t nodes = 0;

	begin_entries(out, after.data[0]);
	while (amounts_next(&next_after, &entry))
	{
		bool news = true;

		while (have_old && crdt_compare(old.node, entry.node) < 0)
			have_old = amounts_next(&next_before, &old);
		if (have_old && crdt_compare(old.node, entry.node) == 0)
		{
			news = false;
			for (int i = 0; i < AMOUNTS_FIELDS; i++)
				news |= entry.amounts[i] > old.amounts[i];
		}
		if (news)
		{
			put_entry(out, next_after.fields, &entry);
			nodes++;
		}
	}
	end_entries(out, nodes);
}

/*
 * amounts_add raises one amount of a node. False, and nothing of use written, if it would
 * leave the range of bigint.
 */
bool
amounts_add(CrdtBuf *out, CrdtBytes state, CrdtString node, AmountsField field, int64_t amount)
{
	AmountsIter iter = amounts_iter(state);
	AmountsEntry entry;
	AmountsEntry added = {node, {0}};
	bool there = false;
	size_t nodes = 0;

	if (amount == 0)
	{
		crdt_put_bytes(out, state.data, state.len);
		return true;
	}
	crdt_buf_reserve(out, state.len + node.len + 24);
	begin_entries(out, state.data[0]);
	added.amounts[field] = amount;
	while (amounts_next(&iter, &entry))
	{
		int order = there ? -1 : crdt_compare(entry.node, node);

		if (order == 0)
		{
			if (entry.amounts[field] > INT64_MAX - amount)
				return false;
			entry.amounts[field] += amount;
		}
		else if (order > 0)
		{
			put_entry(out, iter.fields, &added);
			nodes++;
		}
		there |= order >= 0;
		put_entry(out, iter.fields, &entry);
		nodes++;
	}
	if (!there)
	{
		put_entry(out, iter.fields, &added);
		nodes++;
	}
	end_entries(out, nodes);
	return true;
}

/*
 * amounts_reset takes away all that this state has seen.
 */
void
amounts_reset(CrdtBuf *out, CrdtBytes state)
{
	AmountsIter iter = amounts_iter(state);
	AmountsEntry entry;
	size_t nodes = 0;

	begin_entries(out, state.data[0]);
	for (; amounts_next(&iter, &entry); nodes++)
	{
		entry.amounts[AMOUNT_INC_RESET] = entry.amounts[AMOUNT_INC];
		entry.amounts[AMOUNT_DEC_RESET] = entry.amounts[AMOUNT_DEC];
		put_entry(out, iter.fields, &entry);
	}
	end_entries(out, nodes);
}

/*
 * amounts_value adds up a counter. False if the sum is out of the range of bigint.
 * A state has fewer than 2^26 nodes, so 128 bits are enough on the way.
 */
bool
amounts_value(CrdtBytes state, int64_t *value)
{
	AmountsIter iter = amounts_iter(state);
	AmountsEntry entry;
	__int128 sum = 0;

	while (amounts_next(&iter, &entry))
		sum += (__int128) (entry.amounts[AMOUNT_INC] - entry.amounts[AMOUNT_INC_RESET]) -
			(entry.amounts[AMOUNT_DEC] - entry.amounts[AMOUNT_DEC_RESET]);
	*value = (int64_t) sum;
	return sum >= INT64_MIN && sum <= INT64_MAX;
}

/*
 * amounts_encode writes entries that are in order, each node once, and right by
 * amounts_entry_wrong().
 */
void
amounts_encode(CrdtBuf *out, CrdtKind kind, const AmountsEntry *entries, size_t n)
{
	begin_entries(out, CRDT_HEADER(kind));
	for (size_t i = 0; i < n; i++)
		put_entry(out, fields_of(CRDT_HEADER(kind)), &entries[i]);
	end_entries(out, n);
}
