/*
 * topkformat.c
 *		Lists of the heaviest items, and the bytes they are stored as.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A stored sketch is
 *
 *	byte 0		version, 1
 *	byte 1		flags, 0
 *	then		k, counters, n, total and floor as varints
 *	then		n items, the heaviest first (by count, high first; then by error, low
 *				first; then by bytes, as memcmp and the length say)
 *
 * and an item is
 *
 *	varint		the count before it (the total, for the first) less its count
 *	varint		its error
 *	varint		the length of its text
 *	bytes		its text, in the encoding of the database
 *
 * A varint is as in types/sketch/bytes.h. So a list has one form only, the same on all machines.
 *
 * Bytes from outside are checked whole, also for the invariants of topk.c,
 * on which its arithmetic relies:
 *
 *	- 1 <= k <= counters <= 1,000,000, and n <= counters;
 *	- each count is at least 1 and at least the floor, each error below the count
 *	  and at most the floor;
 *	- the counts sum up to the total if the floor is 0, otherwise to at most the total, and n =
 *	  counters;
 *	- items are in order, no two are equal, none has a zero byte.
 *
 * Whether items are valid text, only the server can tell.
 */
#include "types/sketch/topk/topkformat.h"

#include <float.h>
#include <string.h>

#include "types/sketch/bytes.h"
#include "types/sketch/memory.h"

#define HEADER_BYTES 2
#define MIN_ITEM_BYTES 3

/*
 * Compare two items by their bytes; a prefix comes first.
 */
int
topk_compare_bytes(const TopkItem *a, const TopkItem *b)
{
	int order = memcmp(a->data, b->data, a->len < b->len ? a->len : b->len);

	if (order != 0)
		return order;
	return a->len < b->len ? -1 : a->len > b->len;
}

/*
 * topk_compare is the order of a list: the heaviest first.
 */
int
topk_compare(const TopkItem *a, const TopkItem *b)
{
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	if (a->error != b->error)
		return a->error < b->error ? -1 : 1;
	return topk_compare_bytes(a, b);
}

/*
 * Sort n items by merging the two sorted halves. scratch has room for n / 2 of them.
 */
static void
sort_range(TopkItem *items, size_t n, TopkItem *scratch,
		   int (*compare)(const TopkItem *, const TopkItem *))
{
	size_t half = n / 2;
	size_t left = 0;
	size_t right = half;
	size_t out = 0;

	if (n < 2)
		return;
	sort_range(items, half, scratch, compare);
	sort_range(items + half, n - half, scratch, compare);
	if (compare(&items[half - 1], &items[half]) <= 0)
		return;
	memcpy(scratch, items, half * sizeof(TopkItem));
	while (left < half && right < n)
	{
		if (compare(&scratch[left], &items[right]) <= 0)
			items[out++] = scratch[left++];
		else
			items[out++] = items[right++];
	}
	memcpy(&items[out], &scratch[left], (half - left) * sizeof(TopkItem));
}

/*
 * topk_sort is a merge sort: no input takes it longer than another.
 */
void
topk_sort(TopkItem *items, size_t n,
		  int (*compare)(const TopkItem *, const TopkItem *))
{
	TopkItem *scratch;

	if (n < 2)
		return;
	scratch = sketch_alloc(n / 2 * sizeof(TopkItem));
	sort_range(items, n, scratch, compare);
	sketch_free(scratch);
}

/*
 * Return true if a weight is at least a share of the total. Up to
 * 2^40 it errs on neither side, for the share's shortest decimal as well as for
 * its exact value: the quotient is rounded as the share was. Above, it answers
 * generously if asked whether it may be so, and the other way if it must be so.
 */
bool
topk_has_share(int64_t weight, int64_t total, double share, bool must)
{
	double slack = total > INT64_C(1) << 40 ? 4 * DBL_EPSILON : 0;

	return (double) weight / (double) total >= share * (must ? 1 + slack : 1 - slack);
}

/*
 * Read a varint; return false if it is cut short or malformed.
 */
static inline bool
topkformat_get_number(TopkReader *reader, int64_t *value)
{
	return bytes_get_varint(&reader->next, reader->end, value);
}

/* Read the part before the items; false if it is cut short or malformed. */
static bool
get_header(TopkReader *reader, TopkList *list)
{
	int64_t k;
	int64_t counters;
	int64_t n;

	list->items = NULL;
	reader->next += HEADER_BYTES;
	if (!topkformat_get_number(reader, &k) || !topkformat_get_number(reader, &counters) || !topkformat_get_number(reader, &n) ||
		!topkformat_get_number(reader, &list->total) || !topkformat_get_number(reader, &list->floor))
		return false;
	if (k < 1 || k > counters || counters > TOPK_MAX_COUNTERS || n > counters)
		return false;
	list->k = (int32_t) k;
	list->counters = (int32_t) counters;
	list->n = (int32_t) n;
	reader->count = list->total;
	return true;
}

/*
 * topk_read_item reads the next item; false if it is cut short or malformed.
 */
bool
topk_read_item(TopkReader *reader, TopkItem *item)
{
	int64_t below;
	int64_t len;

	if (!topkformat_get_number(reader, &below) || !topkformat_get_number(reader, &item->error) || !topkformat_get_number(reader, &len))
		return false;
	if (below > reader->count || len > reader->end - reader->next)
		return false;
	reader->count -= below;
	item->count = reader->count;
	item->data = (const char *) reader->next;
	item->len = (uint32_t) len;
	item->place = 0;
	reader->next += len;
	return true;
}

/* Read the items of untrusted bytes; returns what is wrong with them, or NULL. */
static const char *
check_items(TopkReader *reader, TopkList *list)
{
	int64_t sum = 0;

	for (int32_t i = 0; i < list->n; i++)
	{
		TopkItem *item = &list->items[i];

		if (!topk_read_item(reader, item))
			return "An item is truncated or has a malformed number.";
		if (item->count < 1 || item->count < list->floor)
			return "A count is too low.";
		if (item->error >= item->count || item->error > list->floor)
			return "An error is too high.";
		if (i > 0 && topk_compare(item - 1, item) >= 0)
			return "Items are not in order.";
		if (item->count > list->total - sum)
			return "The counts add up to more than the total weight.";
		sum += item->count;
		if (memchr(item->data, 0, item->len) != NULL)
			return "An item has a zero byte.";
	}
	if (reader->next != reader->end)
		return "There are bytes after the last item.";
	if (list->floor == 0 && sum != list->total)
		return "The counts do not add up to the total weight.";
	if (list->floor > 0 && list->n < list->counters)
		return "Items were dropped although there is room for more.";
	topk_sort(list->items, (size_t) list->n, topk_compare_bytes);
	for (int32_t i = 1; i < list->n; i++)
	{
		if (topk_compare_bytes(&list->items[i - 1], &list->items[i]) == 0)
			return "An item is listed twice.";
	}
	return NULL;
}

/*
 * topk_check returns what is wrong with untrusted bytes, or NULL. It allocates at most
 * a few times as many bytes.
 */
const char *
topk_check(const uint8_t *data, size_t len)
{
	TopkReader reader = {data, data + len, 0};
	TopkList list;
	const char *wrong;

	if (len < HEADER_BYTES)
		return "The value is truncated.";
	if (data[0] != TOPK_VERSION)
		return "The version is unknown.";
	if (data[1] != 0)
		return "Reserved bits are set.";
	if (!get_header(&reader, &list))
		return "The header is malformed.";
	if (list.n > (reader.end - reader.next) / MIN_ITEM_BYTES)
		return "The value is truncated.";
	list.items = sketch_alloc(((size_t) list.n + 1) * sizeof(TopkItem));
	wrong = check_items(&reader, &list);
	sketch_free(list.items);
	return wrong;
}

/*
 * topk_read begins to read bytes that have been checked. header gets all but the
 * items, which topk_read_item reads one by one. These and topk_decode return false
 * if the bytes, since then, were damaged so that they cannot be read.
 */
bool
topk_read(TopkReader *reader, const uint8_t *data, size_t len, TopkList *header)
{
	reader->next = data;
	reader->end = data + len;
	header->n = 0;
	return len >= HEADER_BYTES && data[0] == TOPK_VERSION && data[1] == 0 && get_header(reader, header);
}

/*
 * topk_decode reads bytes that have been checked. The items' bytes stay where
 * they are; the caller frees the array.
 */
bool
topk_decode(const uint8_t *data, size_t len, TopkList *list)
{
	TopkReader reader;

	if (!topk_read(&reader, data, len, list))
		return false;
	list->items = sketch_alloc(((size_t) list->n + 1) * sizeof(TopkItem));
	for (int32_t i = 0; i < list->n; i++)
	{
		if (!topk_read_item(&reader, &list->items[i]))
		{
			sketch_free(list->items);
			return false;
		}
	}
	return true;
}

/*
 * Return how many bytes topk_encode() writes for a list.
 */
size_t
topk_encoded_size(const TopkList *list)
{
	size_t size = HEADER_BYTES + bytes_varint_size(list->k) + bytes_varint_size(list->counters) +
		bytes_varint_size(list->n) + bytes_varint_size(list->total) + bytes_varint_size(list->floor);
	int64_t count = list->total;

	for (int32_t i = 0; i < list->n; i++)
	{
		const TopkItem *item = &list->items[i];

		size += bytes_varint_size(count - item->count) + bytes_varint_size(item->error) +
			bytes_varint_size(item->len) + item->len;
		count = item->count;
	}
	return size;
}

/*
 * topk_encode writes a list, which is in order, and returns its size.
 */
size_t
topk_encode(const TopkList *list, uint8_t *out)
{
	uint8_t *start = out;
	int64_t count = list->total;

	*out++ = TOPK_VERSION;
	*out++ = 0;
	out = bytes_put_varint(out, list->k);
	out = bytes_put_varint(out, list->counters);
	out = bytes_put_varint(out, list->n);
	out = bytes_put_varint(out, list->total);
	out = bytes_put_varint(out, list->floor);
	for (int32_t i = 0; i < list->n; i++)
	{
		const TopkItem *item = &list->items[i];

		out = bytes_put_varint(out, count - item->count);
		out = bytes_put_varint(out, item->error);
		out = bytes_put_varint(out, item->len);
		memcpy(out, item->data, item->len);
		out += item->len;
		count = item->count;
	}
	return (size_t) (out - start);
}
