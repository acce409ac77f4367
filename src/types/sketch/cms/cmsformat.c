/*
 * cmsformat.c
 *		Count-Min sketches as bytes.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * All numbers are unsigned with their lowest byte first; epsilon and delta are
 * IEEE 754 doubles.
 *
 *	0		version, 1
 *	1		bit 0: cells follow, not a list; bit 1: conservative update;
 *			bits 2 and 3: base 2 logarithm of the bytes of a cell (0 for a list)
 *	2		hash function: 1, MurmurHash64A as Redis seeds it
 *	3		depth, 1 to 21
 *	4-7		width
 *	8-15	epsilon
 *	16-23	delta
 *	24-31	total weight, at most 2^63 - 1
 *	32-		the list or the cells
 *
 * The list has, for each item in ascending order of hashes, the difference to the
 * hash before (to 0, for the first): what is above its 48 low bits as a varint,
 * and these bits in 6 bytes. Then the weight, at least 1, as a varint (types/sketch/bytes.h).
 * So an item takes 8 to 9 bytes. The list has at most width * depth / 8 items, and
 * ends with the value.
 *
 * The cells are rows of width cells, in 1, 2, 4 or 8 bytes each, which is as few
 * as the largest one needs. The cell of an item in row i, from 0, is
 *
 *	((hash * a[i] + b[i] mod 2^64) >> 32) * width >> 32
 *
 * with a and b of cms_rows. Without conservative update, each row's sum is the
 * total; with it, not above. A total of zero is an empty list.
 *
 * So a sketch is one string of bytes, and cms_check takes no other.
 */
#include "types/sketch/cms/cmsformat.h"

#include "types/sketch/bytes.h"
#include "types/sketch/hash.h"
#include "types/sketch/memory.h"

#include <string.h>

#define DENSE 1
#define CONSERVATIVE 2
#define CELL_SHIFT 2
#define CHUNK 256

static const char *check_list(const CmsView *view);
static const char *check_cells(const CmsView *view);
static void write_cells(uint8_t *at, int cell_bytes, size_t n, const int64_t *values);

/*
 * Read a double of eight bytes, the lowest first.
 */
static double
get_double(const uint8_t *at)
{
	uint64_t bits = cms_get(at, 8);
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/*
 * Write a double as eight bytes, the lowest first.
 */
static void
set_double(uint8_t *at, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	cms_set(at, 8, bits);
}

/*
 * cms_view reads a checked value's header.
 */
void
cms_view(const uint8_t *data, size_t len, CmsView *view)
{
	view->shape.epsilon = get_double(data + 8);
	view->shape.delta = get_double(data + 16);
	view->shape.width = (uint32_t) cms_get(data + 4, 4);
	view->shape.depth = data[3];
	view->shape.conservative = (data[1] & CONSERVATIVE) != 0;
	view->cell_bytes = (data[1] & DENSE) != 0 ? (uint8_t) (1 << (data[1] >> CELL_SHIFT)) : 0;
	view->total = (int64_t) cms_get(data + 24, 8);
	view->body = data + CMS_HEADER_BYTES;
	view->body_len = len - CMS_HEADER_BYTES;
}

/*
 * cms_open reads a value's header. It returns what is wrong with it or the value's
 * length, or NULL. Then the rest can be read, but may be nonsense.
 */
const char *
cms_open(const uint8_t *data, size_t len, CmsView *view)
{
	CmsShape shape;

	if (len < CMS_HEADER_BYTES)
		return "The value is shorter than its header.";
	if (data[0] != CMS_VERSION)
		return "The version of the format is unknown.";
	if (data[1] >= 1 << (CELL_SHIFT + 2) || ((data[1] & DENSE) == 0 && data[1] > CONSERVATIVE))
		return "Reserved bits are set.";
	if (data[2] != SKETCH_HASH_REDIS)
		return "The hash function is unknown.";
	cms_view(data, len, view);
	if (cms_shape(view->shape.epsilon, view->shape.delta, view->shape.conservative, &shape) != CMS_OK)
		return "Epsilon or delta is out of range.";
	if (!cms_same_shape(&view->shape, &shape))
		return "Width and depth do not match epsilon and delta.";
	if (view->total < 0)
		return "The total weight is out of range.";
	if (view->cell_bytes != 0 && view->body_len != (size_t) cms_cells(&shape) * view->cell_bytes)
		return "The length does not match the cells.";
	return NULL;
}

/*
 * cms_check returns what is wrong with some bytes, or NULL if they are a sketch. The
 * time is in proportion to their number.
 */
const char *
cms_check(const uint8_t *data, size_t len)
{
	CmsView view;
	const char *wrong = cms_open(data, len, &view);

	if (wrong != NULL)
		return wrong;
	return view.cell_bytes == 0 ? check_list(&view) : check_cells(&view);
}

/*
 * Return what is wrong with a list, or NULL. The header has been checked.
 */
static const char *
check_list(const CmsView *view)
{
	CmsCursor cursor = cms_list(view);
	uint32_t n = 0;
	int64_t left = view->total;

	while (cms_next(&cursor))
	{
		if (++n > cms_sparse_limit(&view->shape))
			return "The list has too many items.";
		if (cursor.entry.weight > left)
			return "The weights add up to more than the total.";
		left -= cursor.entry.weight;
	}
	if (cursor.wrong == NULL && left != 0)
		return "The weights add up to less than the total.";
	return cursor.wrong;
}

/*
 * Return what is wrong with cells, or NULL. The header, and their number, have been checked.
 */
static const char *
check_cells(const CmsView *view)
{
	const CmsShape *shape = &view->shape;
	int64_t values[CHUNK];
	int64_t highest = 0;

	if (view->total == 0)
		return "An empty sketch must not have cells.";
	for (uint32_t row = 0; row < shape->depth; row++)
	{
		int64_t left = view->total;

		for (uint32_t first = 0; first < shape->width; first += CHUNK)
		{
			uint32_t n = shape->width - first < CHUNK ? shape->width - first : CHUNK;

			cms_read(view->body, view->cell_bytes, (size_t) row * shape->width + first, n, values);
			for (uint32_t i = 0; i < n; i++)
			{
				if (values[i] < 0 || values[i] > left)
					return "The cells add up to more than the total.";
				left -= values[i];
				highest = values[i] > highest ? values[i] : highest;
			}
		}
		if (left != 0 && !shape->conservative)
			return "The cells add up to less than the total.";
	}
	if (view->cell_bytes > 1 && highest >> (4 * view->cell_bytes) == 0)
		return "The cells are wider than necessary.";
	return NULL;
}

/*
 * cms_list is a cursor before the first item of a list.
 */
CmsCursor
cms_list(const CmsView *view)
{
	CmsCursor cursor = {view->body, view->body + view->body_len, {0, 0}, NULL};

	return cursor;
}

/*
 * cms_next reads the next item of a list; false at the end, or where the bytes
 * are no list.
 */
bool
cms_next(CmsCursor *cursor)
{
	int64_t high;
	uint64_t difference;

	if (cursor->at == cursor->end)
		return false;
	cursor->wrong = "The list is corrupted.";
	if (!bytes_get_varint(&cursor->at, cursor->end, &high) || high > 0xffff ||
		cursor->end - cursor->at < 6)
		return false;
	difference = (uint64_t) high << 48 | cms_get(cursor->at, 6);
	cursor->at += 6;
	if (difference == 0 || difference > UINT64_MAX - cursor->entry.hash)
		return false;
	cursor->entry.hash += difference;
	if (!bytes_get_varint(&cursor->at, cursor->end, &cursor->entry.weight) ||
		cursor->entry.weight == 0)
		return false;
	cursor->wrong = NULL;
	return true;
}

/*
 * cms_put_entry writes an item of a list, the one before it having the hash
 * previous.
 */
uint8_t *
cms_put_entry(uint8_t *at, uint64_t previous, const CmsEntry *entry)
{
	uint64_t difference = entry->hash - previous;

	at = bytes_put_varint(at, difference >> 48);
	cms_set(at, 6, difference);
	return bytes_put_varint(at + 6, (uint64_t) entry->weight);
}

/*
 * Return the number of bytes that cms_put_entry() writes for an item.
 */
size_t
cms_entry_bytes(uint64_t previous, const CmsEntry *entry)
{
	uint8_t bytes[18];

	return cms_put_entry(bytes, previous, entry) - bytes;
}

/*
 * cms_header allocates a value, with room for the caller's bytes before it, and
 * writes its header. It returns the place for the body.
 */
uint8_t *
cms_header(const CmsShape *shape, int cell_bytes, int64_t total, size_t body_len,
		   size_t reserve, uint8_t **block)
{
	uint8_t *data;
	int flags = shape->conservative ? CONSERVATIVE : 0;

	*block = sketch_alloc(reserve + CMS_HEADER_BYTES + body_len);
	data = *block + reserve;
	if (cell_bytes != 0)
	{
		flags |= DENSE;
		while (1 << (flags >> CELL_SHIFT) < cell_bytes)
			flags += 1 << CELL_SHIFT;
	}
	data[0] = CMS_VERSION;
	data[1] = (uint8_t) flags;
	data[2] = SKETCH_HASH_REDIS;
	data[3] = shape->depth;
	cms_set(data + 4, 4, shape->width);
	set_double(data + 8, shape->epsilon);
	set_double(data + 16, shape->delta);
	cms_set(data + 24, 8, (uint64_t) total);
	return data + CMS_HEADER_BYTES;
}

/*
 * cms_merge_view adds a value of the same shape to a sketch, or, with a sign of
 * -1, takes it off.
 */
CmsError
cms_merge_view(Cms *cms, const CmsView *view, int sign)
{
	CmsCursor cursor = cms_list(view);

	cms->shape.conservative |= view->shape.conservative;
	if (cms->shape.conservative && sign < 0)
		return CMS_CONSERVATIVE;
	if (view->cell_bytes != 0)
		return cms_merge_cells(cms, view->body, view->cell_bytes, true, view->total, sign);
	while (cms_next(&cursor))
	{
		CmsError error = cms_put(cms, cursor.entry.hash, sign * cursor.entry.weight);

		if (error != CMS_OK)
			return error;
	}
	/* a list can only become too long by items that it did not have */
	if (sign < 0 && cms->cells == NULL && cms->used > cms_sparse_limit(&cms->shape))
		return CMS_NEGATIVE;
	return cms_settle(cms);
}

/*
 * cms_encode creates a value from a sketch, with room for the caller's bytes before it.
 */
CmsError
cms_encode(const Cms *cms, size_t reserve, uint8_t **block, size_t *len)
{
	const CmsShape *shape = &cms->shape;
	uint32_t n_cells = cms_cells(shape);
	int64_t values[CHUNK];
	int64_t lowest = 0;
	int64_t highest = 0;
	int cell_bytes = 1;
	uint8_t *body;

	if (cms->cells == NULL)
	{
		CmsEntry *entries = cms_sorted(cms);
		CmsError error = cms_encode_list(shape, entries, cms->used, reserve, block, len);

		sketch_free(entries);
		return error;
	}
	for (uint32_t first = 0; first < n_cells; first += CHUNK)
	{
		uint32_t n = n_cells - first < CHUNK ? n_cells - first : CHUNK;

		cms_load(cms->cells, cms->cell_bytes, first, n, values);
		for (uint32_t i = 0; i < n; i++)
		{
			lowest = values[i] < lowest ? values[i] : lowest;
			highest = values[i] > highest ? values[i] : highest;
		}
	}
	if (lowest < 0)
		return CMS_NEGATIVE;
	if (cms->total == 0)
		return cms_encode_list(shape, NULL, 0, reserve, block, len);
	while (cell_bytes < 8 && highest >> (8 * cell_bytes) != 0)
		cell_bytes *= 2;
	body = cms_header(shape, cell_bytes, cms->total, (size_t) n_cells * cell_bytes, reserve, block);
	*len = CMS_HEADER_BYTES + (size_t) n_cells * cell_bytes;
	for (uint32_t first = 0; first < n_cells; first += CHUNK)
	{
		uint32_t n = n_cells - first < CHUNK ? n_cells - first : CHUNK;

		cms_load(cms->cells, cms->cell_bytes, first, n, values);
		write_cells(body + (size_t) first * cell_bytes, cell_bytes, n, values);
	}
	return CMS_OK;
}

/*
 * Write n numbers, none of them negative, as cells of a value: cell_bytes each, the lowest byte
 * first.
 */
static void
write_cells(uint8_t *at, int cell_bytes, size_t n, const int64_t *values)
{
	if (cell_bytes == 1)
	{
		for (size_t i = 0; i < n; i++)
			at[i] = (uint8_t) values[i];
	}
	else if (cell_bytes == 2)
	{
		for (size_t i = 0; i < n; i++)
		{
			at[2 * i] = (uint8_t) values[i];
			at[2 * i + 1] = (uint8_t) (values[i] >> 8);
		}
	}
	else
	{
		for (size_t i = 0; i < n; i++)
			cms_set(at + cell_bytes * i, cell_bytes, (uint64_t) values[i]);
	}
}

/*
 * cms_encode_list creates a value from entries in ascending order, leaving out those of weight 0.
 */
CmsError
cms_encode_list(const CmsShape *shape, const CmsEntry *entries, size_t n,
				size_t reserve, uint8_t **block, size_t *len)
{
	uint64_t previous = 0;
	int64_t total = 0;
	size_t body_len = 0;
	uint8_t *at;

	for (size_t i = 0; i < n; i++)
	{
		if (entries[i].weight < 0)
			return CMS_NEGATIVE;
		if (entries[i].weight == 0)
			continue;
		if (__builtin_add_overflow(total, entries[i].weight, &total))
			return CMS_OVERFLOW;
		body_len += cms_entry_bytes(previous, &entries[i]);
		previous = entries[i].hash;
	}
	at = cms_header(shape, 0, total, body_len, reserve, block);
	*len = CMS_HEADER_BYTES + body_len;
	previous = 0;
	for (size_t i = 0; i < n; i++)
	{
		if (entries[i].weight == 0)
			continue;
		at = cms_put_entry(at, previous, &entries[i]);
		previous = entries[i].hash;
	}
	return CMS_OK;
}
