/*
 * dotsmerge.c
 *		Two states of elements with dots: what both become, and what one has news of.
 *
 * A dot survives a merge if both states have it at the element, or if one has it and
 * the other has never seen it. One that the other has seen and has no more was removed
 * there. The context is that of both.
 *
 * A delta has the dots that are new, at their elements, and in its context besides
 * these the dots that were seen or removed since. To the merge it looks like any state.
 */
#include "crdt/dots.h"

#include <stdlib.h>
#include <string.h>

/* One of two states that are gone through together. */
typedef struct Side
{
	DotsReader reader;
	bool have;		/* is there a current element? */
	size_t *other;	/* the numbers of its nodes in the other context, */
	size_t *result; /* and in the result's */
} Side;

static void
open_side(Side *side, CrdtBytes state)
{
	dots_reader_open(&side->reader, state);
	side->other = sketch_alloc((side->reader.context.n + 1) * sizeof(size_t));
	side->result = sketch_alloc((side->reader.context.n + 1) * sizeof(size_t));
	side->have = dots_reader_next(&side->reader);
}

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

/*
 * has_dot tells whether the current element of `to` has a dot that side `from` has, or
 * would have, at its own.
 */
static bool
has_dot(const Side *from, Dot dot, const Side *to)
{
	const DotsElement *element = &to->reader.current;

	dot.node = from->other[dot.node];
	return dot.node != DOTS_NO_NODE &&
		bsearch(&dot, element->dots, element->n, sizeof(Dot), dots_order) != NULL;
}

/* Dots that are being gathered, of one element or more. */
typedef struct DotList
{
	Dot *dots;
	size_t n;
	size_t size;
} DotList;

static void
add_to_list(DotList *list, Dot dot)
{
	if (list->n == list->size)
	{
		size_t size = list->size == 0 ? 16 : 2 * list->size;
		Dot *dots = sketch_alloc(size * sizeof(Dot));

		if (list->n > 0)
			memcpy(dots, list->dots, list->n * sizeof(Dot));
		if (list->dots != NULL)
			sketch_free(list->dots);
		list->dots = dots;
		list->size = size;
	}
	list->dots[list->n++] = dot;
}

/*
 * tidy puts the dots that both sides gathered in order, each once.
 */
static void
tidy(DotList *list)
{
	size_t kept = 0;

	if (list->n < 2)
		return;
	qsort(list->dots, list->n, sizeof(Dot), dots_order);
	for (size_t i = 1; i < list->n; i++)
	{
		if (dots_order(&list->dots[kept], &list->dots[i]) != 0)
			list->dots[++kept] = list->dots[i];
	}
	list->n = kept + 1;
}

/*
 * gather adds those dots of a side's current element that survive, with their numbers in
 * the result. both: the other side has the element, too.
 */
static void
gather(DotList *list, const Side *side, const Side *other, bool both)
{
	const DotsElement *element = &side->reader.current;

	for (size_t i = 0; i < element->n; i++)
	{
		Dot dot = element->dots[i];
		bool seen = dots_seen(&other->reader.context, side->other[dot.node], dot.counter);

		if (!seen || (both && has_dot(side, dot, other)))
			add_to_list(list, (Dot){side->result[dot.node], dot.counter});
	}
}

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

		list.n = 0;
		if (order <= 0)
			gather(&list, &left, &right, order == 0);
		if (order >= 0)
			gather(&list, &right, &left, order == 0);
		if (order == 0)
			tidy(&list);
		dots_put(&writer, order <= 0 ? left.reader.current.element : right.reader.current.element,
				 list.dots, list.n);
		if (order <= 0)
			left.have = dots_reader_next(&left.reader);
		if (order >= 0)
			right.have = dots_reader_next(&right.reader);
	}
	dots_finish(&writer, out, a.data[0] >> 4, &context);
	if (list.dots != NULL)
		sketch_free(list.dots);
	dots_context_free(&context);
	close_side(&left);
	close_side(&right);
}

/*
 * gather_removed adds the dots of old elements that are gone, though `after` has
 * seen them, by their numbers in `after`.
 */
static void
gather_removed(DotList *removed, Side *after, Side *before)
{
	for (; before->have; before->have = dots_reader_next(&before->reader))
	{
		const DotsElement *element = &before->reader.current;

		while (after->have && compare_sides(after, before) < 0)
			after->have = dots_reader_next(&after->reader);
		for (size_t i = 0; i < element->n; i++)
		{
			Dot dot = element->dots[i];
			size_t node = before->other[dot.node];
			bool there = after->have && compare_sides(after, before) == 0 && has_dot(before, dot, after);

			if (!there && dots_seen(&after->reader.context, node, dot.counter))
				add_to_list(removed, (Dot){node, dot.counter});
		}
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
	gather_removed(removed, &new_side, &old_side);
	close_side(&new_side);
	close_side(&old_side);
}

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
	dots_context_map(side.other, &side.reader.context, &old.context);
	dots_context_news(&context, &side.reader.context, &old.context, removed.dots, removed.n);
	dots_context_map(side.result, &side.reader.context, &context);
	for (; side.have; side.have = dots_reader_next(&side.reader))
	{
		const DotsElement *element = &side.reader.current;

		list.n = 0;
		for (size_t i = 0; i < element->n; i++)
		{
			Dot dot = element->dots[i];

			if (!dots_seen(&old.context, side.other[dot.node], dot.counter))
				add_to_list(&list, (Dot){side.result[dot.node], dot.counter});
		}
		dots_put(&writer, element->element, list.dots, list.n);
	}
	dots_finish(&writer, out, after.data[0] >> 4, &context);
	if (removed.dots != NULL)
		sketch_free(removed.dots);
	if (list.dots != NULL)
		sketch_free(list.dots);
	dots_context_free(&context);
	dots_reader_close(&old);
	close_side(&side);
}
