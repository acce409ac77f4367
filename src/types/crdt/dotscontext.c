/*
 * dotscontext.c
 *		Contexts: which dots have been seen, as ranges of numbers per node.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A replica that gets whole states has seen 1 to n of each node, which is a version
 * vector. Deltas leave gaps, which close when the rest comes (Almeida, Shoker, Baquero
 * 2018 call it a compact causal context). Ranges hold both, and are in one form only:
 * in order, each at least one number away from the next.
 *
 * In bytes: the number of nodes, and for each its name, the number of its ranges, and
 * for each of these how many numbers are left out before it, and its length less one.
 */
#include "types/crdt/dots.h"

#include <string.h>

/* Of a node that is not there. */
static const DotsNode no_ranges = {{NULL, 0}, NULL, 0};

/*
 * Allocate an array of n members of this size; never NULL, even for none.
 */
static void *
dotscontext_array_of(size_t n, size_t size)
{
	return sketch_alloc((n == 0 ? 1 : n) * size);
}

/*
 * check_ranges tells what is wrong with a node's ranges, or NULL.
 */
static const char *
check_ranges(const uint8_t **next, const uint8_t *end)
{
	int64_t ranges;
	int64_t last = 0;

	if (!bytes_get_varint(next, end, &ranges) || ranges == 0)
		return "A node must have at least one range of dots.";
	for (int64_t i = 0; i < ranges; i++)
	{
		int64_t gap;
		int64_t more;

		if (!bytes_get_varint(next, end, &gap) || !bytes_get_varint(next, end, &more))
			return "A range of dots is missing or not in its shortest form.";
		if (i > 0 && gap == 0)
			return "Adjacent ranges of dots must be joined.";
		if (gap >= INT64_MAX - last || more > INT64_MAX - last - gap - 1)
			return "A dot is out of range.";
		last += gap + 1 + more;
	}
	return NULL;
}

/*
 * dots_context_check tells what is wrong with a context, or NULL. It leaves next
 * behind it.
 */
const char *
dots_context_check(const uint8_t **next, const uint8_t *end, CrdtValid valid)
{
	CrdtString before = {NULL, 0};
	int64_t nodes;

	if (!bytes_get_varint(next, end, &nodes))
		return "The number of nodes is missing.";
	for (int64_t i = 0; i < nodes; i++)
	{
		CrdtString node;
		const char *wrong;

		if (!crdt_check_string(next, end, CRDT_MAX_NODE, &node))
			return "A node's name is missing or too long.";
		wrong = crdt_node_wrong(node);
		if (wrong != NULL)
			return wrong;
		if (valid != NULL && !valid(node, CRDT_STRING_NODE))
			return "A node's name is not valid in the database's encoding.";
		if (i > 0 && crdt_compare(before, node) >= 0)
			return "Nodes must be in order, without duplicates.";
		before = node;
		wrong = check_ranges(next, end);
		if (wrong != NULL)
			return wrong;
	}
	return NULL;
}

/*
 * count_ranges counts the ranges of a context that is not read yet.
 */
static size_t
count_ranges(const uint8_t *next, size_t nodes)
{
	size_t count = 0;

	for (size_t i = 0; i < nodes; i++)
	{
		size_t ranges;

		(void) crdt_get_string(&next);
		ranges = (size_t) crdt_get_number(&next);
		count += ranges;
		for (size_t j = 0; j < 2 * ranges; j++)
			(void) crdt_get_number(&next);
	}
	return count;
}

/*
 * dots_context_read reads a context that has been checked; its names are views.
 */
void
dots_context_read(DotsContext *context, const uint8_t **next)
{
	DotsRange *range;

	context->n = (size_t) crdt_get_number(next);
	context->nodes = dotscontext_array_of(context->n, sizeof(DotsNode));
	context->nranges = count_ranges(*next, context->n);
	context->ranges = dotscontext_array_of(context->nranges, sizeof(DotsRange));
	range = context->ranges;
	for (size_t i = 0; i < context->n; i++)
	{
		DotsNode *node = &context->nodes[i];
		int64_t last = 0;

		node->node = crdt_get_string(next);
		node->n = (size_t) crdt_get_number(next);
		node->ranges = range;
		for (size_t j = 0; j < node->n; j++, range++)
		{
			range->first = last + crdt_get_number(next) + 1;
			range->last = range->first + crdt_get_number(next);
			last = range->last;
		}
	}
}

/*
 * Write a context, whose nodes and ranges are in order.
 */
void
dots_context_put(CrdtBuf *out, const DotsContext *context)
{
	crdt_put_number(out, (int64_t) context->n);
	for (size_t i = 0; i < context->n; i++)
	{
		const DotsNode *node = &context->nodes[i];
		int64_t last = 0;

		crdt_put_string(out, node->node);
		crdt_put_number(out, (int64_t) node->n);
		for (size_t j = 0; j < node->n; j++)
		{
			crdt_put_number(out, node->ranges[j].first - last - 1);
			crdt_put_number(out, node->ranges[j].last - node->ranges[j].first);
			last = node->ranges[j].last;
		}
	}
}

/*
 * Free the arrays of a context. The names are views of other memory.
 */
void
dots_context_free(DotsContext *context)
{
	sketch_free(context->nodes);
	sketch_free(context->ranges);
}

/*
 * Return true if a context has a dot.
 */
bool
dots_seen(const DotsContext *context, size_t node, int64_t counter)
{
	const DotsNode *of;
	size_t low = 0;
	size_t high;

	if (node == DOTS_NO_NODE)
		return false;
	of = &context->nodes[node];
	high = of->n;
	while (low < high)
	{
		size_t middle = low + (high - low) / 2;

		if (of->ranges[middle].last < counter)
			low = middle + 1;
		else
			high = middle;
	}
	return low < of->n && of->ranges[low].first <= counter;
}

/*
 * A context that is being built: at most this many nodes and ranges, in order.
 */
static void
begin_context(DotsContext *context, size_t nodes, size_t ranges)
{
	context->nodes = dotscontext_array_of(nodes, sizeof(DotsNode));
	context->ranges = dotscontext_array_of(ranges, sizeof(DotsRange));
	context->n = 0;
	context->nranges = 0;
}

/*
 * Begin a node without ranges, which comes after all nodes that the context has.
 */
static void
add_node(DotsContext *context, CrdtString name)
{
	context->nodes[context->n++] = (DotsNode){name, context->ranges + context->nranges, 0};
}

/*
 * add_range adds a range, which does not begin before the last one, to the last node.
 */
static void
add_range(DotsContext *context, DotsRange range)
{
	DotsNode *node = &context->nodes[context->n - 1];
	DotsRange *last = node->ranges + node->n - 1;

	if (node->n > 0 && range.first - 1 <= last->last)
	{
		if (last->last < range.last)
			last->last = range.last;
		return;
	}
	node->ranges[node->n++] = range;
	context->nranges++;
}

/*
 * add_ranges adds what is in either of two lists of ranges to the last node.
 */
static void
add_ranges(DotsContext *context, const DotsNode *a, const DotsNode *b)
{
	size_t i = 0;
	size_t j = 0;

	while (i < a->n || j < b->n)
	{
		if (j == b->n || (i < a->n && a->ranges[i].first <= b->ranges[j].first))
			add_range(context, a->ranges[i++]);
		else
			add_range(context, b->ranges[j++]);
	}
}

/*
 * dots_context_union is what either of two contexts has.
 */
void
dots_context_union(DotsContext *result, const DotsContext *a, const DotsContext *b)
{
	size_t i = 0;
	size_t j = 0;

	begin_context(result, a->n + b->n, a->nranges + b->nranges);
	while (i < a->n || j < b->n)
	{
		int order = i == a->n ? 1 : j == b->n ? -1
											  : crdt_compare(a->nodes[i].node, b->nodes[j].node);

		add_node(result, order <= 0 ? a->nodes[i].node : b->nodes[j].node);
		add_ranges(result, order <= 0 ? &a->nodes[i] : &no_ranges, order >= 0 ? &b->nodes[j] : &no_ranges);
		i += order <= 0;
		j += order >= 0;
	}
}

/*
 * add_news adds to the last node what is in a list of ranges and not in another.
 */
static void
add_news(DotsContext *context, const DotsNode *after, const DotsNode *before)
{
	size_t next = 0;

	for (size_t i = 0; i < after->n; i++)
	{
		DotsRange range = after->ranges[i];

		while (next < before->n && before->ranges[next].first <= range.last)
		{
			const DotsRange *old = &before->ranges[next];

			if (old->first > range.first)
				add_range(context, (DotsRange){range.first, old->first - 1});
			if (old->last >= range.last)
				break;
			if (old->last >= range.first)
				range.first = old->last + 1;
			next++;
		}
		if (next == before->n || before->ranges[next].first > range.last)
			add_range(context, range);
	}
}

/*
 * dots_order compares two dots of one numbering.
 */
int
dots_order(const void *a, const void *b)
{
	const Dot *dot_a = a;
	const Dot *dot_b = b;

	if (dot_a->node != dot_b->node)
		return dot_a->node < dot_b->node ? -1 : 1;
	return (dot_a->counter > dot_b->counter) - (dot_a->counter < dot_b->counter);
}

/*
 * sort_dots puts dots in order. It is a merge sort, since the server's qsort() takes
 * quadratic time for input that is crafted to that end.
 */
static void
sort_dots(Dot *dots, size_t n)
{
	Dot *spare = dotscontext_array_of(n, sizeof(Dot));

	for (size_t width = 1; width < n; width *= 2)
	{
		for (size_t begin = 0; begin + width < n; begin += 2 * width)
		{
			size_t end = n - begin < 2 * width ? n : begin + 2 * width;
			size_t from = begin + width;
			size_t left = 0;
			size_t to = begin;

			memcpy(spare, dots + begin, width * sizeof(Dot));
			while (left < width)
			{
				if (from < end && dots_order(&dots[from], &spare[left]) < 0)
					dots[to++] = dots[from++];
				else
					dots[to++] = spare[left++];
			}
		}
	}
	sketch_free(spare);
}

/*
 * dots_context_news is what a context has that another has not, and some more dots,
 * by their nodes' numbers in `after`, which it puts in order. Nodes without any are
 * left out.
 */
void
dots_context_news(DotsContext *result, const DotsContext *after, const DotsContext *before,
				  Dot *more, size_t nmore)
{
	size_t *numbers = dotscontext_array_of(after->n, sizeof(size_t));
	size_t next = 0;
	DotsContext news;
	DotsContext dots;

	sort_dots(more, nmore);
	dots_context_map(numbers, after, before);
	/* each old range splits one new one at most */
	begin_context(&news, after->n, after->nranges + before->nranges);
	begin_context(&dots, after->n, nmore);
	for (size_t i = 0; i < after->n; i++)
	{
		add_node(&news, after->nodes[i].node);
		add_news(&news, &after->nodes[i], numbers[i] == DOTS_NO_NODE ? &no_ranges : &before->nodes[numbers[i]]);
		add_node(&dots, after->nodes[i].node);
		for (; next < nmore && more[next].node == i; next++)
			add_range(&dots, (DotsRange){more[next].counter, more[next].counter});
	}
	begin_context(result, after->n, news.nranges + dots.nranges);
	for (size_t i = 0; i < after->n; i++)
	{
		if (news.nodes[i].n + dots.nodes[i].n == 0)
			continue;
		add_node(result, after->nodes[i].node);
		add_ranges(result, &news.nodes[i], &dots.nodes[i]);
	}
	dots_context_free(&news);
	dots_context_free(&dots);
	sketch_free(numbers);
}

/*
 * dots_context_draw creates a node's next dot, after all of its dots that were seen. `numbers` gets
 * the new number of each old node. False, and nothing made, if there is no next dot.
 */
bool
dots_context_draw(DotsContext *result, const DotsContext *context, CrdtString node,
				  Dot *dot, size_t *numbers)
{
	DotsRange first = {1, 1};
	DotsNode own = {node, &first, 1};
	DotsContext drawn = {&own, 1, &first, 1};

	for (size_t i = 0; i < context->n; i++)
	{
		const DotsNode *of = &context->nodes[i];

		if (crdt_compare(of->node, node) != 0)
			continue;
		if (of->ranges[of->n - 1].last == INT64_MAX)
			return false;
		first.first = first.last = of->ranges[of->n - 1].last + 1;
	}
	dots_context_union(result, context, &drawn);
	dots_context_map(numbers, context, result);
	dots_context_map(&dot->node, &drawn, result);
	dot->counter = first.first;
	return true;
}

/*
 * dots_context_map tells which number each node of a context has in another.
 */
void
dots_context_map(size_t *numbers, const DotsContext *from, const DotsContext *to)
{
	size_t j = 0;

	for (size_t i = 0; i < from->n; i++)
	{
		while (j < to->n && crdt_compare(to->nodes[j].node, from->nodes[i].node) < 0)
			j++;
		numbers[i] = j < to->n && crdt_compare(to->nodes[j].node, from->nodes[i].node) == 0 ? j : DOTS_NO_NODE;
	}
}
