/*
 * dotsmerge.c
 *		Two states of elements with dots: merging them, and the delta of one.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A dot survives a merge if both states have it at the element, or if one has it and
 * the other has never seen it. One that the other has seen but no longer has was removed there. The
 * context is that of both.
 *
 * A delta has a context of the dots that were seen or removed since, and the elements
 * that have any of these, with no others. To the merge it looks like any state.
 */
#include "types/crdt/dots.h"

#include <string.h>

/* One of two states that are gone through together. */
typedef struct Side
{
	DotsReader reader;
	bool have;		/* is there a current element? */
	size_t *other;	/* the numbers of its nodes in the other context, */
	size_t *result; /* and in the result's */
} Side;

/*
 * Open a state as one of two, at its first element. The caller fills the number maps.
 */
static void
open_side(Side *side, CrdtBytes state)
{
	dots_reader_open(&side->reader, state);
	side->other = sketch_alloc((side->reader.context.n + 1) * sizeof(size_t));
	side->result = sketch_alloc((side->reader.context.n + 1) * sizeof(size_t));
	side->have = dots_reader_next(&side->reader);
}

/*
 * Free the memory of a side.
 */
static void
close_side(Side *side)
{
	sketch_free(side->other);
	sketch_free(side->result);
	dots_reader_close(&side->reader);
}

/*
 * compare_sides tells which side's element is next; with 0, it is both sides'.
 */
static int
compare_sides(const Side *a, const Side *b)
{
	if (!a->have || !b->have)
		return a->have ? -1 : 1;
	return crdt_compare(a->reader.current.element, b->reader.current.element);
}

/* Dots that are being gathered, of one element or more. */
typedef struct DotList
{
	Dot *dots;
	size_t n;
	size_t size;
} DotList;

/*
 * Free the dots of a list.
 */
static void
free_list(DotList *list)
{
	if (list->dots != NULL)
		sketch_free(list->dots);
}

/*
 * reserve_dots makes room in a list for some dots more.
 */
static void
reserve_dots(DotList *list, size_t more)
{
	size_t size = list->n + more > 2 * list->size ? list->n + more : 2 * list->size;
	Dot *dots;

	if (list->size - list->n >= more)
		return;
	dots = sketch_alloc(size * sizeof(Dot));
	if (list->n > 0)
		memcpy(dots, list->dots, list->n * sizeof(Dot));
	free_list(list);
	list->dots = dots;
	list->size = size;
}

/*
 * dotsmerge_gather adds a dot of a side's current element, by its number in the result, unless the
 * other side, which does not have it there, has seen it.
 */
static void
dotsmerge_gather(DotList *list, const Side *side, const Side *other, Dot dot)
{
	if (!dots_seen(&other->reader.context, side->other[dot.node], dot.counter))
		list->dots[list->n++] = (Dot){side->result[dot.node], dot.counter};
}

/*
 * gather_one lists the dots that survive of an element that one side has.
 */
static void
gather_one(DotList *list, const Side *side, const Side *other)
{
	const DotsElement *element = &side->reader.current;

	list->n = 0;
	reserve_dots(list, element->n);
	for (size_t i = 0; i < element->n; i++)
		dotsmerge_gather(list, side, other, element->dots[i]);
}

/*
 * gather_both lists the dots that survive of an element that both sides have.
 */
static void
gather_both(DotList *list, const Side *left, const Side *right)
{
	const DotsElement *a = &left->reader.current;
	const DotsElement *b = &right->reader.current;
	size_t i = 0;
	size_t j = 0;

	list->n = 0;
	reserve_dots(list, a->n + b->n);
	while (i < a->n && j < b->n)
	{
		Dot dot_a = {left->result[a->dots[i].node], a->dots[i].counter};
		Dot dot_b = {right->result[b->dots[j].node], b->dots[j].counter};
		int order = dots_order(&dot_a, &dot_b);

		if (order == 0)
			list->dots[list->n++] = dot_a;
		else if (order < 0)
			dotsmerge_gather(list, left, right, a->dots[i]);
		else
			dotsmerge_gather(list, right, left, b->dots[j]);
		i += order <= 0;
		j += order >= 0;
	}
	for (; i < a->n; i++)
		dotsmerge_gather(list, left, right, a->dots[i]);
	for (; j < b->n; j++)
		dotsmerge_gather(list, right, left, b->dots[j]);
}

/*
 * Merge two states of one type. An element with no surviving dot is left out by dots_put().
 */
void
dots_merge(CrdtBuf *out, CrdtBytes a, CrdtBytes b)
{
	Side left;
	Side right;
	DotsContext context;
	DotsWriter writer = {{NULL, 0, 0}, 0};
	DotList list = {NULL, 0, 0};

	open_side(&left, a);
	open_side(&right, b);
	dots_context_union(&context, &left.reader.context, &right.reader.context);
	dots_context_map(left.other, &left.reader.context, &right.reader.context);
	dots_context_map(right.other, &right.reader.context, &left.reader.context);
	dots_context_map(left.result, &left.reader.context, &context);
	dots_context_map(right.result, &right.reader.context, &context);
	while (left.have || right.have)
	{
		int order = compare_sides(&left, &right);

		if (order == 0)
			gather_both(&list, &left, &right);
		else if (order < 0)
			gather_one(&list, &left, &right);
		else
			gather_one(&list, &right, &left);
		dots_put(&writer, order <= 0 ? left.reader.current.element : right.reader.current.element,
				 list.dots, list.n);
		if (order <= 0)
			left.have = dots_reader_next(&left.reader);
		if (order >= 0)
			right.have = dots_reader_next(&right.reader);
	}
	dots_finish(&writer, out, a.data[0] >> 4, &context);
	free_list(&list);
	dots_context_free(&context);
	close_side(&left);
	close_side(&right);
}

/*
 * gather_removed adds the dots of `before`'s current element that are gone, though `after`
 * has seen them, by their numbers in `after`. there: `after` has the element, too.
 */
static void
gather_removed(DotList *removed, const Side *after, const Side *before, bool there)
{
	const DotsElement *element = &before->reader.current;
	const DotsElement *left = &after->reader.current;
	size_t next = 0;

	reserve_dots(removed, element->n);
	for (size_t i = 0; i < element->n; i++)
	{
		Dot dot = {before->other[element->dots[i].node], element->dots[i].counter};

		if (!dots_seen(&after->reader.context, dot.node, dot.counter))
			continue;
		while (there && next < left->n && dots_order(&left->dots[next], &dot) < 0)
			next++;
		if (!there || next == left->n || dots_order(&left->dots[next], &dot) != 0)
			removed->dots[removed->n++] = dot;
	}
}

/*
 * removed_since lists the dots that were removed from `before` to `after`.
 */
static void
removed_since(DotList *removed, CrdtBytes after, CrdtBytes before)
{
	Side new_side;
	Side old_side;

	open_side(&new_side, after);
	open_side(&old_side, before);
	dots_context_map(old_side.other, &old_side.reader.context, &new_side.reader.context);
	for (; old_side.have; old_side.have = dots_reader_next(&old_side.reader))
	{
		int order = compare_sides(&new_side, &old_side);

		while (new_side.have && order < 0)
		{
			new_side.have = dots_reader_next(&new_side.reader);
			order = compare_sides(&new_side, &old_side);
		}
		gather_removed(removed, &new_side, &old_side, new_side.have && order == 0);
	}
	close_side(&new_side);
	close_side(&old_side);
}

/*
 * Write what `after` has seen or removed since `before`, as a state: the new and removed dots are
 * its context, and its elements are those that have one of these dots.
 */
void
dots_delta(CrdtBuf *out, CrdtBytes after, CrdtBytes before)
{
	Side side;
	DotsReader old;
	DotsContext context;
	DotsWriter writer = {{NULL, 0, 0}, 0};
	DotList removed = {NULL, 0, 0};
	DotList list = {NULL, 0, 0};

	removed_since(&removed, after, before);
	open_side(&side, after);
	dots_reader_open(&old, before);
	dots_context_news(&context, &side.reader.context, &old.context, removed.dots, removed.n);
	dots_context_map(side.result, &side.reader.context, &context);
	for (; side.have; side.have = dots_reader_next(&side.reader))
	{
		const DotsElement *element = &side.reader.current;

		list.n = 0;
		reserve_dots(&list, element->n);
		for (size_t i = 0; i < element->n; i++)
		{
			Dot dot = {side.result[element->dots[i].node], element->dots[i].counter};

			if (dots_seen(&context, dot.node, dot.counter))
				list.dots[list.n++] = dot;
		}
		dots_put(&writer, element->element, list.dots, list.n);
	}
	dots_finish(&writer, out, after.data[0] >> 4, &context);
	free_list(&removed);
	free_list(&list);
	dots_context_free(&context);
	dots_reader_close(&old);
	close_side(&side);
}
