/*
 * dots.c
 *		Elements with the dots of their additions, and the context of all dots that
 *		were ever seen: observed-remove sets and multi-value registers.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A dot is a node and a number that the node has not used before. Each addition makes
 * one; an element is there as long as one of its dots is. The context remembers which
 * dots were ever seen, so a dot that is in a state's context and at none of its
 * elements has been removed, and no tombstone is needed (ORSWOT: Bieniusa, Zawirski,
 * Preguica, Shapiro, Baquero, Balegas, Duarte 2012). An addition that a removal has not
 * seen survives it: add wins. dotsmerge.c merges.
 *
 * An addition takes the place of all earlier ones of the element that it has seen, so
 * an element has one dot, and more only after concurrent additions.
 *
 * A multi-value register is such a set of the values that no later one has
 * replaced: to set it is to remove all values and to add one (Shapiro et al. 2011).
 *
 * The body is the context, the number of elements, and for each its bytes, the number
 * of its dots, and for each of these its node's number in the context, from 0, and its own.
 */
#include "types/crdt/dots.h"

#include <string.h>

/*
 * check_dots tells what is wrong with an element's dots, or NULL.
 */
static const char *
check_dots(const uint8_t **next, const uint8_t *end, const DotsContext *context)
{
	Dot before = {0, 0};
	Dot dot;
	int64_t dots;

	if (!bytes_get_varint(next, end, &dots) || dots == 0)
		return "An element must have at least one dot.";
	for (int64_t i = 0; i < dots; i++)
	{
		int64_t node;
		int64_t counter;

		if (!bytes_get_varint(next, end, &node) || !bytes_get_varint(next, end, &counter))
			return "A dot is missing or not in its shortest form.";
		if ((uint64_t) node >= context->n || !dots_seen(context, (size_t) node, counter))
			return "A dot has not been seen.";
		dot = (Dot){(size_t) node, counter};
		if (i > 0 && dots_order(&before, &dot) >= 0)
			return "Dots must be in order, without duplicates.";
		before = dot;
	}
	return NULL;
}

/*
 * Return what is wrong with the elements, or NULL, and move *next behind them. All their dots must
 * be in the context, which has been checked.
 */
static const char *
check_elements(const uint8_t **next, const uint8_t *end, const DotsContext *context,
			   CrdtStringKind kind, CrdtValid valid)
{
	CrdtString before = {NULL, 0};
	int64_t elements;

	if (!bytes_get_varint(next, end, &elements))
		return "The number of elements is missing.";
	for (int64_t i = 0; i < elements; i++)
	{
		CrdtString element;
		const char *wrong;

		if (!crdt_check_string(next, end, CRDT_MAX_ELEMENT, &element))
			return "An element is missing or too long.";
		if (i > 0 && crdt_compare(before, element) >= 0)
			return "Elements must be in order, without duplicates.";
		before = element;
		if (valid != NULL && !valid(element, kind))
			return "An element is not valid.";
		wrong = check_dots(next, end, context);
		if (wrong != NULL)
			return wrong;
	}
	return NULL;
}

/*
 * Return what is wrong with the body of a dc_orset or dc_mvreg, or NULL. The header byte has been
 * checked; `valid` may be NULL.
 */
static const char *
dots_check(CrdtBytes state, CrdtValid valid)
{
	const uint8_t *next = state.data + 1;
	const uint8_t *end = state.data + state.len;
	const char *wrong = dots_context_check(&next, end, valid);
	CrdtStringKind kind = state.data[0] == CRDT_HEADER(CRDT_MVREG) ? CRDT_STRING_JSON : CRDT_STRING_TEXT;
	DotsContext context;

	if (wrong != NULL)
		return wrong;
	/* which takes memory in proportion to what has been checked */
	next = state.data + 1;
	dots_context_read(&context, &next);
	wrong = check_elements(&next, end, &context, kind, valid);
	dots_context_free(&context);
	if (wrong != NULL)
		return wrong;
	return next == end ? NULL : "There are extra bytes at the end.";
}

/*
 * Write a set or register without elements that has seen no dots.
 */
void
dots_empty(CrdtBuf *out, CrdtKind kind)
{
	crdt_put_byte(out, CRDT_HEADER(kind));
	crdt_put_number(out, 0);
	crdt_put_number(out, 0);
}

/* Reading and writing. */

/*
 * Begin to read the elements of a state that has been checked. Free the reader with
 * dots_reader_close().
 */
void
dots_reader_open(DotsReader *reader, CrdtBytes state)
{
	reader->next = state.data + 1;
	dots_context_read(&reader->context, &reader->next);
	reader->left = crdt_get_number(&reader->next);
	reader->current = (DotsElement){{NULL, 0}, NULL, 0, 0};
}

/*
 * Read the next element into reader->current; return false after the last. Its dots are only valid
 * until the next call.
 */
bool
dots_reader_next(DotsReader *reader)
{
	DotsElement *current = &reader->current;

	if (reader->left == 0)
		return false;
	reader->left--;
	current->element = crdt_get_string(&reader->next);
	current->n = (size_t) crdt_get_number(&reader->next);
	if (current->n > current->size)
	{
		if (current->dots != NULL)
			sketch_free(current->dots);
		/* no more than the element needs, whose bytes are in proportion */
		current->size = current->n;
		current->dots = sketch_alloc(current->size * sizeof(Dot));
	}
	for (size_t i = 0; i < current->n; i++)
	{
		current->dots[i].node = (size_t) crdt_get_number(&reader->next);
		current->dots[i].counter = crdt_get_number(&reader->next);
	}
	return true;
}

/*
 * Free the memory of a reader; the state is the caller's.
 */
void
dots_reader_close(DotsReader *reader)
{
	dots_context_free(&reader->context);
	if (reader->current.dots != NULL)
		sketch_free(reader->current.dots);
}

/*
 * dots_put puts an element after all that were put before. Without dots there is none.
 */
void
dots_put(DotsWriter *writer, CrdtString element, const Dot *dots, size_t n)
{
	if (n == 0)
		return;
	crdt_put_string(&writer->elements, element);
	crdt_put_number(&writer->elements, (int64_t) n);
	for (size_t i = 0; i < n; i++)
	{
		crdt_put_number(&writer->elements, (int64_t) dots[i].node);
		crdt_put_number(&writer->elements, dots[i].counter);
	}
	writer->n++;
}

/*
 * dots_finish writes the state of a context and the elements that were put.
 */
void
dots_finish(DotsWriter *writer, CrdtBuf *out, CrdtKind kind, const DotsContext *context)
{
	crdt_put_byte(out, CRDT_HEADER(kind));
	dots_context_put(out, context);
	crdt_put_number(out, (int64_t) writer->n);
	crdt_put_bytes(out, writer->elements.data, writer->elements.len);
	crdt_buf_free(&writer->elements);
}

/* Functions of one state. */

/*
 * skip_context is where the number of elements is.
 */
static const uint8_t *
skip_context(CrdtBytes state)
{
	const uint8_t *next = state.data + 1;
	int64_t nodes = crdt_get_number(&next);

	for (int64_t i = 0; i < nodes; i++)
	{
		int64_t ranges;

		(void) crdt_get_string(&next);
		ranges = crdt_get_number(&next);
		for (int64_t j = 0; j < 2 * ranges; j++)
			(void) crdt_get_number(&next);
	}
	return next;
}

/*
 * Return the number of elements of a state.
 */
int64_t
dots_count(CrdtBytes state)
{
	const uint8_t *next = skip_context(state);

	return crdt_get_number(&next);
}

/*
 * Return true if a state has an element. Elements are in order, so the search ends at the first
 * greater one.
 */
bool
dots_contains(CrdtBytes state, CrdtString element)
{
	const uint8_t *next = skip_context(state);
	int64_t elements = crdt_get_number(&next);

	for (int64_t i = 0; i < elements; i++)
	{
		CrdtString other = crdt_get_string(&next);
		int64_t dots = crdt_get_number(&next);
		int order = crdt_compare(other, element);

		if (order >= 0)
			return order == 0;
		for (int64_t j = 0; j < 2 * dots; j++)
			(void) crdt_get_number(&next);
	}
	return false;
}

/*
 * put_renumbered puts the current element of a reader, whose nodes have other numbers now.
 */
static void
put_renumbered(DotsWriter *writer, DotsReader *reader, const size_t *numbers)
{
	for (size_t i = 0; i < reader->current.n; i++)
		reader->current.dots[i].node = numbers[reader->current.dots[i].node];
	dots_put(writer, reader->current.element, reader->current.dots, reader->current.n);
}

/*
 * add_dot puts an element with a new dot, and the others as they are or not at all.
 */
static bool
add_dot(CrdtBuf *out, CrdtBytes state, CrdtString element, CrdtString node, bool others)
{
	DotsReader reader;
	DotsWriter writer = {{NULL, 0, 0}, 0};
	DotsContext context;
	size_t *numbers;
	bool put = false;
	bool drawn;
	Dot dot;

	dots_reader_open(&reader, state);
	numbers = sketch_alloc((reader.context.n + 1) * sizeof(size_t));
	drawn = dots_context_draw(&context, &reader.context, node, &dot, numbers);
	if (drawn)
	{
		while (others && dots_reader_next(&reader))
		{
			int order = put ? -1 : crdt_compare(reader.current.element, element);

			if (order >= 0)
				dots_put(&writer, element, &dot, 1);
			put |= order >= 0;
			if (order != 0)
				put_renumbered(&writer, &reader, numbers);
		}
		if (!put)
			dots_put(&writer, element, &dot, 1);
		dots_finish(&writer, out, state.data[0] >> 4, &context);
		dots_context_free(&context);
	}
	sketch_free(numbers);
	dots_reader_close(&reader);
	return drawn;
}

/*
 * dots_add adds an element, on behalf of a node. False if the node has no dots left.
 */
bool
dots_add(CrdtBuf *out, CrdtBytes state, CrdtString element, CrdtString node)
{
	return add_dot(out, state, element, node, true);
}

/*
 * dots_set adds an element and removes all others, on behalf of a node. False if the
 * node has no dots left.
 */
bool
dots_set(CrdtBuf *out, CrdtBytes state, CrdtString element, CrdtString node)
{
	return add_dot(out, state, element, node, false);
}

/*
 * Write the state without an element. The context stays, so the element's dots count as removed.
 */
void
dots_remove(CrdtBuf *out, CrdtBytes state, CrdtString element)
{
	DotsReader reader;
	DotsWriter writer = {{NULL, 0, 0}, 0};

	dots_reader_open(&reader, state);
	while (dots_reader_next(&reader))
	{
		if (crdt_compare(reader.current.element, element) != 0)
			dots_put(&writer, reader.current.element, reader.current.dots, reader.current.n);
	}
	dots_finish(&writer, out, state.data[0] >> 4, &reader.context);
	dots_reader_close(&reader);
}

/*
 * dots_reset removes all elements.
 */
void
dots_reset(CrdtBuf *out, CrdtBytes state)
{
	DotsReader reader;
	DotsWriter writer = {{NULL, 0, 0}, 0};

	dots_reader_open(&reader, state);
	dots_finish(&writer, out, state.data[0] >> 4, &reader.context);
	dots_reader_close(&reader);
}

const CrdtType crdt_orset = {CRDT_ORSET, "dc_orset", dots_check, dots_merge, dots_delta};
const CrdtType crdt_mvreg = {CRDT_MVREG, "dc_mvreg", dots_check, dots_merge, dots_delta};
