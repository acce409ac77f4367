/*
 * gset.c
 *		Grow-only sets of strings: the merge is the union (Shapiro et al. 2011).
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The body is the number of elements, and each of them, in order.
 */
#include "types/crdt/gset.h"

#include <string.h>

/*
 * Return what is wrong with the body of a dc_gset, or NULL. The header byte has been checked;
 * `valid` may be NULL.
 */
static const char *
gset_check(CrdtBytes state, CrdtValid valid)
{
	const uint8_t *next = state.data + 1;
	const uint8_t *end = state.data + state.len;
	CrdtString before = {NULL, 0};
	CrdtString element;
	int64_t elements;

	if (!bytes_get_varint(&next, end, &elements))
		return "The number of elements is missing.";
	for (int64_t i = 0; i < elements; i++)
	{
		if (!crdt_check_string(&next, end, CRDT_MAX_ELEMENT, &element))
			return "An element is missing or too long.";
		if (i > 0 && crdt_compare(before, element) >= 0)
			return "Elements must be in order, without duplicates.";
		before = element;
		if (valid != NULL && !valid(element, CRDT_STRING_TEXT))
			return "An element is not valid.";
	}
	return next == end ? NULL : "There are extra bytes at the end.";
}

/*
 * Write a set without elements.
 */
void
gset_empty(CrdtBuf *out)
{
	crdt_put_byte(out, CRDT_HEADER(CRDT_GSET));
	crdt_put_number(out, 0);
}

/*
 * Begin to read the elements of a set that has been checked.
 */
GsetIter
gset_iter(CrdtBytes state)
{
	GsetIter iter;

	iter.next = state.data + 1;
	iter.left = crdt_get_number(&iter.next);
	return iter;
}

/*
 * Read the next element, as a view; return false after the last.
 */
bool
gset_next(GsetIter *iter, CrdtString *element)
{
	if (iter->left == 0)
		return false;
	iter->left--;
	*element = crdt_get_string(&iter->next);
	return true;
}

/*
 * Return true if a set has an element. Elements are in order, so the search ends at the first
 * greater one.
 */
bool
gset_contains(CrdtBytes state, CrdtString element)
{
	GsetIter iter = gset_iter(state);
	CrdtString other;

	while (gset_next(&iter, &other))
	{
		int order = crdt_compare(other, element);

		if (order >= 0)
			return order == 0;
	}
	return false;
}

/*
 * gset_finish writes the header and the number of elements, and elements that were written
 * elsewhere.
 */
static void
gset_finish(CrdtBuf *out, CrdtBuf *elements, size_t n)
{
	crdt_put_byte(out, CRDT_HEADER(CRDT_GSET));
	crdt_put_number(out, (int64_t) n);
	crdt_put_bytes(out, elements->data, elements->len);
	crdt_buf_free(elements);
}

/*
 * gset_merge is the union. What is in one set alone is copied.
 */
static void
gset_merge(CrdtBuf *out, CrdtBytes a, CrdtBytes b)
{
	GsetIter next_a = gset_iter(a);
	GsetIter next_b = gset_iter(b);
	CrdtString element_a;
	CrdtString element_b;
	bool have_a = gset_next(&next_a, &element_a);
	bool have_b = gset_next(&next_b, &element_b);
	CrdtBuf elements = {NULL, 0, 0};
	size_t n = 0;

	crdt_buf_reserve(&elements, a.len > b.len ? a.len : b.len);
	for (; have_a || have_b; n++)
	{
		int order = !have_a ? 1 : !have_b ? -1
										  : crdt_compare(element_a, element_b);

		crdt_put_string(&elements, order <= 0 ? element_a : element_b);
		if (order <= 0)
			have_a = gset_next(&next_a, &element_a);
		if (order >= 0)
			have_b = gset_next(&next_b, &element_b);
	}
	gset_finish(out, &elements, n);
}

/*
 * Write the elements of `after` that `before` does not have.
 */
static void
gset_delta(CrdtBuf *out, CrdtBytes after, CrdtBytes before)
{
	GsetIter next_after = gset_iter(after);
	GsetIter next_before = gset_iter(before);
	CrdtString element;
	CrdtString old;
	bool have_old = gset_next(&next_before, &old);
	CrdtBuf elements = {NULL, 0, 0};
	size_t n = 0;

	while (gset_next(&next_after, &element))
	{
		while (have_old && crdt_compare(old, element) < 0)
			have_old = gset_next(&next_before, &old);
		if (have_old && crdt_compare(old, element) == 0)
			continue;
		crdt_put_string(&elements, element);
		n++;
	}
	gset_finish(out, &elements, n);
}

/*
 * Write the set with an element added; it may be there already.
 */
void
gset_add(CrdtBuf *out, CrdtBytes state, CrdtString element)
{
	CrdtBuf one = {NULL, 0, 0};

	gset_encode(&one, &element, 1);
	gset_merge(out, state, crdt_bytes(&one));
	crdt_buf_free(&one);
}

/*
 * gset_encode writes elements that are in order, each once.
 */
void
gset_encode(CrdtBuf *out, const CrdtString *elements, size_t n)
{
	crdt_put_byte(out, CRDT_HEADER(CRDT_GSET));
	crdt_put_number(out, (int64_t) n);
	for (size_t i = 0; i < n; i++)
		crdt_put_string(out, elements[i]);
}

const CrdtType crdt_gset = {CRDT_GSET, "dc_gset", gset_check, gset_merge, gset_delta};
