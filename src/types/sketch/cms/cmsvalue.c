/*
 * cmsvalue.c
 *		Reading and adding to the bytes of a Count-Min sketch as they are.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A value in SQL is read, or gets an item added, without building a sketch in memory.
 * Adding copies the bytes and changes d cells, or an item of the list. The whole value
 * is rebuilt only if its form or the width of its cells changes. The format is in
 * cmsformat.c.
 */
#include "types/sketch/cms/cmsformat.h"

#include "types/sketch/memory.h"

#include <string.h>

static CmsError add_to_list(const CmsView *view, CmsEntry added, size_t reserve,
							uint8_t **block, size_t *len);
static CmsError add_to_cells(const CmsView *view, CmsEntry added, size_t reserve,
							 uint8_t **block, size_t *len);
static CmsError add_anew(const CmsView *view, CmsEntry added, size_t reserve,
						 uint8_t **block, size_t *len);
static bool can_narrow(const CmsView *view);

/* The value of a cell. */
static inline int64_t
get_cell(const CmsView *view, uint32_t cell)
{
	return (int64_t) cms_get(view->body + (size_t) cell * view->cell_bytes, view->cell_bytes);
}

/*
 * cms_estimate is the weight of an item, or more.
 */
int64_t
cms_estimate(const CmsView *view, uint64_t hash)
{
	CmsCursor cursor = cms_list(view);
	int64_t lowest = view->total;

	hash = cms_item(hash);
	if (view->cell_bytes == 0)
	{
		while (cms_next(&cursor) && cursor.entry.hash < hash)
			;
		return cursor.entry.hash == hash ? cursor.entry.weight : 0;
	}
	for (uint32_t row = 0; row < view->shape.depth; row++)
	{
		int64_t cell = get_cell(view, cms_cell(&view->shape, row, hash));

		lowest = cell < lowest ? cell : lowest;
	}
	return lowest;
}

/*
 * cms_lower is the least weight that an item of some estimate has, with the
 * sketch's confidence of 1 - delta.
 */
int64_t
cms_lower(const CmsView *view, int64_t estimate)
{
	int64_t error;

	if (view->cell_bytes == 0)
		return estimate;
	error = (int64_t) (view->shape.epsilon * (double) view->total);
	return estimate > error ? estimate - error : 0;
}

/*
 * cms_items is the number of items in a list, or -1 if they are not known.
 */
int64_t
cms_items(const CmsView *view)
{
	CmsCursor cursor = cms_list(view);
	int64_t n = 0;

	if (view->cell_bytes != 0)
		return -1;
	while (cms_next(&cursor))
		n++;
	return n;
}

/*
 * cms_value_add makes the value with an item's weight added, with room for the
 * caller's bytes before it.
 */
CmsError
cms_value_add(const CmsView *view, uint64_t hash, int64_t weight, size_t reserve,
			  uint8_t **block, size_t *len)
{
	CmsEntry added = {cms_item(hash), weight};
	int64_t total;

	if (view->shape.conservative && weight < 0)
		return CMS_CONSERVATIVE;
	if (__builtin_add_overflow(view->total, weight, &total))
		return CMS_OVERFLOW;
	if (total < 0)
		return CMS_NEGATIVE;
	if (weight == 0)
		return add_anew(view, added, reserve, block, len);
	if (view->cell_bytes == 0)
		return add_to_list(view, added, reserve, block, len);
	return add_to_cells(view, added, reserve, block, len);
}

/* Add by way of a sketch in memory. */
static CmsError
add_anew(const CmsView *view, CmsEntry added, size_t reserve, uint8_t **block,
		 size_t *len)
{
	Cms cms;
	CmsError error;

	cms_init(&cms, &view->shape);
	error = cms_merge_view(&cms, view, 1);
	if (error == CMS_OK)
		error = cms_add(&cms, added.hash, added.weight);
	if (error == CMS_OK)
		error = cms_encode(&cms, reserve, block, len);
	cms_reset(&cms);
	return error;
}

/*
 * In a list, the bytes up to the item's place and those after it stay. Between
 * them are the item, if any of its weight is left, and its successor, if that
 * gets or loses a neighbour.
 */
static CmsError
add_to_list(const CmsView *view, CmsEntry added, size_t reserve, uint8_t **block,
			size_t *len)
{
	CmsCursor cursor = cms_list(view);
	const uint8_t *cut = view->body;
	uint64_t previous = 0;
	CmsEntry fresh[2];
	int n_fresh = 0;
	bool more;
	size_t fresh_bytes = 0;
	uint8_t *at;

	while ((more = cms_next(&cursor)) && cursor.entry.hash < added.hash)
	{
		previous = cursor.entry.hash;
		cut = cursor.at;
	}
	if (more && cursor.entry.hash == added.hash)
	{
		/* it stays below the total, which was checked */
		fresh[0] = added;
		fresh[0].weight += cursor.entry.weight;
		n_fresh = 1;
		if (fresh[0].weight == 0)
			n_fresh = 0;
		if (n_fresh == 0 && cms_next(&cursor))
			fresh[n_fresh++] = cursor.entry;
	}
	else
	{
		if (added.weight < 0)
			return CMS_NEGATIVE;
		if (view->body_len / 8 >= cms_sparse_limit(&view->shape) &&
			cms_items(view) >= cms_sparse_limit(&view->shape))
			return add_anew(view, added, reserve, block, len);
		fresh[n_fresh++] = added;
		if (more)
			fresh[n_fresh++] = cursor.entry;
	}
	for (int i = 0; i < n_fresh; i++)
	{
		if (fresh[i].weight < 0)
			return CMS_NEGATIVE;
		fresh_bytes += cms_entry_bytes(i == 0 ? previous : fresh[i - 1].hash, &fresh[i]);
	}
	*len = CMS_HEADER_BYTES + (cut - view->body) + fresh_bytes + (cursor.end - cursor.at);
	at = cms_header(&view->shape, 0, view->total + added.weight, *len - CMS_HEADER_BYTES, reserve, block);
	memcpy(at, view->body, cut - view->body);
	at += cut - view->body;
	for (int i = 0; i < n_fresh; i++)
		at = cms_put_entry(at, i == 0 ? previous : fresh[i - 1].hash, &fresh[i]);
	memcpy(at, cursor.at, cursor.end - cursor.at);
	return CMS_OK;
}

/*
 * Copy a value of cells, and change those of the item. If a cell outgrows its width, or all would
 * now fit into half of it, rebuild the value. CMS_NEGATIVE if a cell would fall below 0.
 */
static CmsError
add_to_cells(const CmsView *view, CmsEntry added, size_t reserve, uint8_t **block,
			 size_t *len)
{
	const CmsShape *shape = &view->shape;
	int64_t total = view->total + added.weight;
	int64_t raised = shape->conservative ? cms_estimate(view, added.hash) + added.weight : 0;
	uint64_t limit = UINT64_MAX >> (64 - 8 * view->cell_bytes);
	uint32_t cells[CMS_MAX_DEPTH];
	int64_t values[CMS_MAX_DEPTH];
	bool narrower = total == 0;
	CmsView made;
	uint8_t *body;

	for (uint32_t row = 0; row < shape->depth; row++)
	{
		int64_t old;

		cells[row] = cms_cell(shape, row, added.hash);
		old = get_cell(view, cells[row]);
		if (shape->conservative)
			values[row] = old > raised ? old : raised;
		else
			values[row] = old + added.weight;
		if (values[row] < 0)
			return CMS_NEGATIVE;
		if ((uint64_t) values[row] > limit)
			return add_anew(view, added, reserve, block, len);
		narrower |= values[row] < old && old >> (4 * view->cell_bytes) != 0;
	}
	if (total == 0)
		return cms_encode_list(shape, NULL, 0, reserve, block, len);
	body = cms_header(shape, view->cell_bytes, total, view->body_len, reserve, block);
	*len = CMS_HEADER_BYTES + view->body_len;
	memcpy(body, view->body, view->body_len);
	for (uint32_t row = 0; row < shape->depth; row++)
		cms_set(body + (size_t) cells[row] * view->cell_bytes, view->cell_bytes, (uint64_t) values[row]);
	cms_view(body - CMS_HEADER_BYTES, *len, &made);
	if (narrower && can_narrow(&made))
	{
		sketch_free(*block);
		return add_anew(view, added, reserve, block, len);
	}
	return CMS_OK;
}

/* Return true if all cells fit into half of their width. */
static bool
can_narrow(const CmsView *view)
{
	uint32_t n = cms_cells(&view->shape);

	if (view->cell_bytes == 1)
		return false;
	for (uint32_t cell = 0; cell < n; cell++)
	{
		if (get_cell(view, cell) >> (4 * view->cell_bytes) != 0)
			return false;
	}
	return true;
}

/* sum += a * b, for numbers of 63 bits */
static void
add_product(CmsWide *sum, uint64_t a, uint64_t b)
{
	uint64_t high = 0;
	uint64_t low = a * b;

	if ((a | b) >> 32 != 0)
	{
		uint64_t a_low = (uint32_t) a;
		uint64_t b_low = (uint32_t) b;
		uint64_t middle = (a >> 32) * b_low + (a_low * b_low >> 32);

		high = (a >> 32) * (b >> 32) + (middle >> 32);
		high += (a_low * (b >> 32) + (uint32_t) middle) >> 32;
	}
	sum->low += low;
	sum->high += high + (sum->low < low);
}

/*
 * Return the sum of the products of weights, over the items that are in both lists.
 */
static CmsWide
product_of_lists(const CmsView *a, const CmsView *b)
{
	CmsCursor x = cms_list(a);
	CmsCursor y = cms_list(b);
	CmsWide sum = {0, 0};
	bool more = cms_next(&x) && cms_next(&y);

	while (more)
	{
		if (x.entry.hash == y.entry.hash)
			add_product(&sum, (uint64_t) x.entry.weight, (uint64_t) y.entry.weight);
		more = x.entry.hash <= y.entry.hash ? cms_next(&x) : cms_next(&y);
	}
	return sum;
}

/*
 * Return the least of the rows' sums of products, cell by cell. Both values have cells.
 */
static CmsWide
product_of_rows(const CmsView *a, const CmsView *b)
{
	CmsWide lowest = {UINT64_MAX, UINT64_MAX};
	uint32_t width = a->shape.width;

	for (uint32_t row = 0; row < a->shape.depth; row++)
	{
		CmsWide sum = {0, 0};

		for (uint32_t cell = row * width; cell < (row + 1) * width; cell++)
			add_product(&sum, (uint64_t) get_cell(a, cell), (uint64_t) get_cell(b, cell));
		if (sum.high < lowest.high || (sum.high == lowest.high && sum.low < lowest.low))
			lowest = sum;
	}
	return lowest;
}

/*
 * cms_inner_product is the sum, over all items, of the product of their weights
 * in two sketches of the same shape, or more: with N and M their totals, at most
 * epsilon * N * M more, with probability 1 - delta. It fits in 126 bits, as it is
 * at most N * M.
 *
 * A row's sum of products is not below the truth as long as, in one of the two
 * sketches, a cell is the sum of its items. So two conservative ones have none.
 * With a list on one side, the estimates of its items are closer than a row.
 */
CmsError
cms_inner_product(const CmsView *a, const CmsView *b, CmsWide *product)
{
	CmsCursor cursor;

	if (a->shape.conservative && b->shape.conservative)
		return CMS_CONSERVATIVE;
	if (a->cell_bytes == 0 && b->cell_bytes == 0)
		*product = product_of_lists(a, b);
	else if (a->cell_bytes != 0 && b->cell_bytes != 0)
		*product = product_of_rows(a, b);
	else
	{
		const CmsView *cells = a->cell_bytes != 0 ? a : b;

		product->high = product->low = 0;
		cursor = cms_list(a->cell_bytes != 0 ? b : a);
		while (cms_next(&cursor))
			add_product(product, (uint64_t) cursor.entry.weight,
						(uint64_t) cms_estimate(cells, cursor.entry.hash));
	}
	return CMS_OK;
}

/*
 * cms_wide_text writes a number in decimal, and returns where it begins in text.
 */
const char *
cms_wide_text(CmsWide number, char text[40])
{
	char *at = text + 39;

	*at = '\0';
	do
	{
		uint64_t parts[4] = {number.high >> 32, (uint32_t) number.high, number.low >> 32, (uint32_t) number.low};
		uint64_t rest = 0;

		for (int i = 0; i < 4; i++)
		{
			uint64_t part = rest << 32 | parts[i];

			parts[i] = part / 10;
			rest = part % 10;
		}
		number.high = parts[0] << 32 | parts[1];
		number.low = parts[2] << 32 | parts[3];
		*--at = (char) ('0' + rest);
	} while (number.high != 0 || number.low != 0);
	return at;
}
