/*
 * cms_test.c
 *		Count-Min sketches against exact counts, and their bytes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "types/sketch/cms/cmsformat.h"
#include "types/sketch/cms/cmsframe.h"
#include "types/sketch/hash.h"

typedef struct Bytes
{
	uint8_t *data;
	size_t len;
} Bytes;

static CmsShape
shape_of(double epsilon, double delta)
{
	CmsShape shape;

	if (cms_shape(epsilon, delta, false, &shape) != CMS_OK)
		abort();
	return shape;
}

static uint64_t
item(uint64_t n)
{
	char text[24];

	return hash_redis(text, (size_t) snprintf(text, sizeof(text), "%llu", (unsigned long long) n));
}

/* A sketch's value; the sketch is left alone. */
static Bytes
encode(const Cms *cms)
{
	Bytes bytes = {NULL, 0};

	if (cms_encode(cms, 0, &bytes.data, &bytes.len) != CMS_OK)
		bytes.data = NULL;
	return bytes;
}

static CmsView
view_of(Bytes bytes)
{
	CmsView view;

	cms_view(bytes.data, bytes.len, &view);
	return view;
}

static bool
equal(Bytes a, Bytes b)
{
	return a.data != NULL && b.data != NULL && a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static bool
is_valid(Bytes bytes)
{
	return bytes.data != NULL && cms_check(bytes.data, bytes.len) == NULL;
}

static void
drop(Bytes *bytes)
{
	free(bytes->data);
	bytes->data = NULL;
}

static void
test_shape(void)
{
	CmsShape s = shape_of(0.001, 0.01);

	ok(s.width == 2719 && s.depth == 5, "width and depth of 0.001 and 0.01");
	s = shape_of(0.5, 0.5);
	ok(s.width == 6 && s.depth == 1, "width and depth of 0.5 and 0.5");
	ok(shape_of(0.01, exp(-3)).depth == 3 && shape_of(0.01, nextafter(exp(-3), 0)).depth == 4,
	   "depth at a power of e");
	ok(shape_of(0.1, 1e-9).depth == 21 && shape_of(1e-6, 0.5).width == 2718282, "at the limits");
	ok(cms_shape(0.51, 0.1, false, &s) == CMS_EPSILON && cms_shape(0.9e-7, 0.1, false, &s) == CMS_EPSILON &&
		   cms_shape(NAN, 0.1, false, &s) == CMS_EPSILON && cms_shape(-1, 0.1, false, &s) == CMS_EPSILON &&
		   cms_shape(0, 0.1, false, &s) == CMS_EPSILON,
	   "epsilon out of range");
	ok(cms_shape(0.1, 0.51, false, &s) == CMS_DELTA && cms_shape(0.1, 0.9e-9, false, &s) == CMS_DELTA &&
		   cms_shape(0.1, NAN, false, &s) == CMS_DELTA && cms_shape(0.1, INFINITY, false, &s) == CMS_DELTA,
	   "delta out of range");
	ok(cms_shape(1e-7, 0.5, false, &s) == CMS_OK && cms_shape(1e-7, 0.3, false, &s) == CMS_CELLS, "too many cells");
}

/* The format, to the byte. */
static void
test_golden(void)
{
	static const uint8_t list[] = {
		1, 0, 1, 3, 28, 0, 0, 0,
		0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f,
		0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xa9, 0x3f,
		0x2d, 1, 0, 0, 0, 0, 0, 0,
		/* a = 53d2470a9b43b1a7, 300 times */
		0xd2, 0xa7, 0x01, 0xa7, 0xb1, 0x43, 0x9b, 0x0a, 0x47, 0xac, 0x02,
		/* c = 7585a45533f260f4, once: 21b35d4a98aeaf4d more */
		0xb3, 0x43, 0x4d, 0xaf, 0xae, 0x98, 0x4a, 0x5d, 0x01};
	CmsShape shape = shape_of(0.1, 0.05);
	Cms cms;
	Bytes bytes;
	CmsView view;
	bool right = true;

	cms_init(&cms, &shape);
	cms_add(&cms, hash_redis("c", 1), 1);
	cms_add(&cms, hash_redis("a", 1), 300);
	bytes = encode(&cms);
	ok(bytes.len == sizeof(list) && memcmp(bytes.data, list, sizeof(list)) == 0, "bytes of a list");
	view = view_of(bytes);
	ok(is_valid(bytes) && cms_items(&view) == 2 && cms_estimate(&view, hash_redis("a", 1)) == 300, "and what they say");
	drop(&bytes);
	for (uint64_t n = 0; n < 20; n++)
		cms_add(&cms, item(n), 1);
	bytes = encode(&cms);
	view = view_of(bytes);
	ok(is_valid(bytes) && view.cell_bytes == 2 && bytes.len == 32 + 2 * 84 && view.total == 321 && bytes.data[1] == 5,
	   "the header of cells");
	for (uint32_t row = 0; row < 3; row++)
	{
		static const uint64_t a[] = {0xe220a8397b1dcdaf, 0x06c45d188009454f, 0x1b39896a51a8749b};
		static const uint64_t b[] = {0x6e789e6aa1b965f4, 0xf88bb8a8724c81ec, 0x53cb9f0c747ea2ea};
		uint64_t cell = row * 28 + (((UINT64_C(0x53d2470a9b43b1a7) * a[row] + b[row]) >> 32) * 28 >> 32);
		int count = bytes.data[32 + 2 * cell] | bytes.data[33 + 2 * cell] << 8;

		right = right && count >= 300 && count <= 320;
	}
	ok(right, "the cells of an item");
	drop(&bytes);
	cms_reset(&cms);
}

#define ITEMS 400

/* Streams cut in parts, shuffled and merged at random: one value. */
static void
test_any_order(uint64_t seed, bool with_deletions)
{
	static uint64_t hashes[3 * ITEMS];
	static int64_t weights[3 * ITEMS];
	CmsShape shape = shape_of(seed % 2 == 0 ? 0.05 : 0.005, 0.01);
	int n = 0;
	int64_t distinct = 1 + (int64_t) (seed % 5) * (ITEMS / 5);
	bool same = true;
	Cms whole;
	Bytes expected;
	char name[80];

	for (int i = 0; i < ITEMS; i++)
	{
		uint64_t r = unit_random(&seed);
		int64_t weight = (int64_t) (r >> 8 & 7);

		if (r % 50 == 0)
			weight = (int64_t) (r >> (20 + r % 40));
		hashes[n] = item(r % (uint64_t) distinct);
		weights[n++] = weight;
		if (with_deletions && r >> 62 == 0)
		{
			hashes[n] = hashes[n - 1];
			weights[n++] = -weight;
		}
	}
	cms_init(&whole, &shape);
	for (int i = 0; i < n; i++)
		cms_add(&whole, hashes[i], weights[i]);
	expected = encode(&whole);
	for (int round = 0; round < 10; round++)
	{
		Cms parts[8];
		int n_parts = 1 + (int) (unit_random(&seed) % 8);
		Bytes bytes;

		for (int i = 0; i < n_parts; i++)
			cms_init(&parts[i], &shape);
		for (int i = n; i-- > 1;)
		{
			int j = (int) (unit_random(&seed) % (uint64_t) (i + 1));
			uint64_t hash = hashes[i];
			int64_t weight = weights[i];

			hashes[i] = hashes[j];
			weights[i] = weights[j];
			hashes[j] = hash;
			weights[j] = weight;
		}
		for (int i = 0; i < n; i++)
			cms_add(&parts[unit_random(&seed) % (uint64_t) n_parts], hashes[i], weights[i]);
		while (n_parts > 1)
		{
			int to = (int) (unit_random(&seed) % (uint64_t) (n_parts - 1));

			n_parts--;
			/* through the bytes, if nothing in them is below zero */
			bytes = encode(&parts[n_parts]);
			if (bytes.data != NULL && !with_deletions && unit_random(&seed) % 2 == 0)
			{
				CmsView view = view_of(bytes);

				cms_merge_view(&parts[to], &view, 1);
			}
			else
				cms_merge(&parts[to], &parts[n_parts]);
			drop(&bytes);
			cms_reset(&parts[n_parts]);
		}
		bytes = encode(&parts[0]);
		same = same && is_valid(bytes) && equal(bytes, expected);
		drop(&bytes);
		cms_reset(&parts[0]);
	}
	snprintf(name, sizeof(name), "any order, split and merge tree%s (%s)", with_deletions ? " with deletions" : "",
			 view_of(expected).cell_bytes == 0 ? "sparse" : "dense");
	ok(same, name);
	drop(&expected);
	cms_reset(&whole);
}

/* An item that was there and went counts for the form, also across a merge. */
static void
test_gone(void)
{
	CmsShape shape = shape_of(0.1, 0.05);
	Cms parts[2];
	Cms whole;
	Bytes bytes;
	Bytes expected;

	cms_init(&parts[0], &shape);
	cms_init(&parts[1], &shape);
	cms_init(&whole, &shape);
	for (uint64_t n = 0; n < 14; n++)
	{
		for (int64_t weight = 3; weight >= (n < 6 ? -3 : 3); weight -= 6)
		{
			cms_add(&parts[n / 7], item(n), weight);
			cms_add(&whole, item(n), weight);
		}
	}
	bytes = encode(&parts[0]);
	ok(view_of(bytes).cell_bytes == 0 && view_of(bytes).total == 3, "items that went are not in the list");
	drop(&bytes);
	cms_merge(&parts[1], &parts[0]);
	bytes = encode(&parts[1]);
	expected = encode(&whole);
	ok(view_of(bytes).cell_bytes == 1 && equal(bytes, expected), "but count for the form, also in a merge");
	drop(&bytes);
	drop(&expected);
	cms_reset(&parts[0]);
	cms_reset(&parts[1]);
	cms_reset(&whole);
}

/* Adding to bytes is the same as adding in memory; conservative, too. */
static void
test_value_add(uint64_t seed, bool conservative)
{
	CmsShape shape = shape_of(0.04, 0.05);
	static int64_t truth[60];
	bool same = true;
	bool bounds = true;
	bool refused = true;
	int forms[9] = {0};
	Cms cms;
	Bytes bytes;

	memset(truth, 0, sizeof(truth));
	shape.conservative = conservative;
	cms_init(&cms, &shape);
	bytes = encode(&cms);
	for (int i = 0; i < 3000; i++)
	{
		uint64_t r = unit_random(&seed);
		uint64_t n = r % 60 % (1 + (uint64_t) i / 20);
		int64_t weight = (int64_t) (r >> 40 & 3);
		CmsView view = view_of(bytes);
		Bytes after = {NULL, 0};
		Bytes expected;

		if (!conservative && r >> 63 != 0)
			weight = (r >> 62 & 1) != 0 ? -truth[n] : -(truth[n] / 2);
		if (i > 1000 && i % 100 == 99)
			weight = (int64_t) (r >> (28 + (3000 - i) / 60));
		if (weight == 0)
			continue;
		if (cms_value_add(&view, item(n), -truth[n] - 1, 0, &after.data, &after.len) == CMS_OK)
		{
			/* not noticed when its cells are shared */
			refused = refused && view.cell_bytes != 0 && !conservative;
			drop(&after);
		}
		truth[n] += weight;
		if (cms_value_add(&view, item(n), weight, 0, &after.data, &after.len) != CMS_OK)
			abort();
		cms_reset(&cms);
		cms_merge_view(&cms, &view, 1);
		cms_add(&cms, item(n), weight);
		drop(&bytes);
		bytes = after;
		view = view_of(bytes);
		forms[view.cell_bytes]++;
		expected = encode(&cms);
		same = same && is_valid(bytes) && equal(bytes, expected);
		drop(&expected);
		for (uint64_t j = 0; j < 60; j++)
			bounds = bounds && cms_estimate(&view, item(j)) >= truth[j] &&
				(view.cell_bytes != 0 || cms_estimate(&view, item(j)) == truth[j]);
	}
	same = same && forms[0] > 10 && forms[1] > 10 && forms[2] > 10 && forms[4] > 10 && forms[8] > 10;
	ok(same, conservative ? "adding to a conservative value" : "adding to a value, and taking out");
	ok(bounds, "no estimate is below the truth, and a list is exact");
	ok(refused, "what is not there is not taken out");
	drop(&bytes);
	cms_reset(&cms);
}

/* Cells get wider in memory and in the value, where they must. */
static void
test_widths(void)
{
	static const int64_t edges[] = {127, 128, 255, 256, 32767, 32768, 65535, 65536,
									INT32_MAX, INT64_C(1) << 31, UINT32_MAX, INT64_C(1) << 32, INT64_MAX - 40, INT64_MAX - 39};
	static const uint8_t widths[] = {1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8};
	CmsShape shape = shape_of(0.1, 0.05);

	for (int i = 0; i < 14; i++)
	{
		Cms cms;
		Cms copy;
		Bytes bytes;
		Bytes again;
		CmsView view;
		bool fits;
		char name[80];

		cms_init(&cms, &shape);
		for (uint64_t n = 0; n < 20; n++)
			cms_add(&cms, item(n), 1);
		bytes = encode(&cms);
		view = view_of(bytes);
		/* as the cells of item 1 have more than that item */
		cms_add(&cms, item(1), edges[i] - cms_estimate(&view, item(1)));
		drop(&bytes);
		bytes = encode(&cms);
		view = view_of(bytes);
		fits = is_valid(bytes) && cms_estimate(&view, item(1)) == edges[i] &&
			(view.cell_bytes == widths[i] || edges[i] == 255 || edges[i] == 65535 || edges[i] == UINT32_MAX);
		cms_init(&copy, &shape);
		cms_merge_view(&copy, &view, 1);
		again = encode(&copy);
		fits = fits && equal(bytes, again);
		drop(&again);
		/* twice itself, less itself */
		if (edges[i] < INT64_MAX / 2)
		{
			cms_merge_view(&copy, &view, 1);
			cms_merge_view(&copy, &view, -1);
		}
		else
		{
			fits = fits && cms_merge_view(&copy, &view, 1) == CMS_OVERFLOW;
			cms_reset(&copy);
			cms_merge_view(&copy, &view, 1);
		}
		again = encode(&copy);
		fits = fits && equal(bytes, again);
		snprintf(name, sizeof(name), "a cell of %lld", (long long) edges[i]);
		ok(fits, name);
		drop(&again);
		drop(&bytes);
		cms_reset(&cms);
		cms_reset(&copy);
	}
}

static void
test_overflow(void)
{
	CmsShape shape = shape_of(0.1, 0.05);
	bool unchanged = true;
	Cms cms;
	Bytes before;
	Bytes after;
	CmsView view;

	for (uint64_t items = 1; items <= 20; items += 19)
	{
		cms_init(&cms, &shape);
		for (uint64_t n = 0; n < items; n++)
			cms_add(&cms, item(n), 1);
		before = encode(&cms);
		view = view_of(before);
		unchanged = unchanged && cms_add(&cms, item(1), INT64_MAX) == CMS_OVERFLOW &&
			cms_add(&cms, item(1), INT64_MIN) == CMS_OVERFLOW;
		after = encode(&cms);
		unchanged = unchanged && equal(before, after) &&
			cms_value_add(&view, item(1), INT64_MAX, 0, &after.data, &after.len) == CMS_OVERFLOW &&
			cms_value_add(&view, item(1), INT64_MIN, 0, &after.data, &after.len) == CMS_NEGATIVE;
		drop(&after);
		cms_add(&cms, item(1), INT64_MAX - (int64_t) items);
		after = encode(&cms);
		unchanged = unchanged && is_valid(after) && view_of(after).total == INT64_MAX && cms_add(&cms, item(3), 1) == CMS_OVERFLOW;
		drop(&before);
		drop(&after);
		cms_reset(&cms);
	}
	ok(unchanged, "an overflow is refused and changes nothing");
	/* below zero in between, but not in the end */
	cms_init(&cms, &shape);
	for (uint64_t n = 0; n < 20; n++)
		cms_add(&cms, item(n), 1);
	before = encode(&cms);
	for (int i = 0; i < 4; i++)
		cms_add(&cms, item(1), -100);
	cms_add(&cms, item(1), 400);
	after = encode(&cms);
	ok(equal(before, after), "cells have room below zero");
	drop(&before);
	drop(&after);
	cms_reset(&cms);
	cms_add(&cms, item(1), -5);
	ok(cms_encode(&cms, 0, &after.data, &after.len) == CMS_NEGATIVE, "a list with a weight below zero is refused");
	cms_add(&cms, item(1), 5);
	after = encode(&cms);
	ok(is_valid(after) && after.len == 32, "until the weight is back");
	drop(&after);
	for (uint64_t n = 0; n < 20; n++)
		cms_add(&cms, item(n), n == 7 ? -200 : 1);
	ok(cms_encode(&cms, 0, &after.data, &after.len) == CMS_NEGATIVE, "cells below zero are refused");
	for (uint64_t n = 0; n < 20; n++)
		cms_add(&cms, item(n), n == 7 ? 200 : -1);
	after = encode(&cms);
	ok(is_valid(after) && after.len == 32, "nothing is left: an empty list");
	drop(&after);
	cms_reset(&cms);
}

static void
test_conservative(uint64_t seed)
{
	CmsShape shape = shape_of(0.02, 0.05);
	static int64_t truth[2000];
	bool bounds = true;
	bool commutes = true;
	Cms cms[2];
	Cms plain;
	Bytes values[3];

	memset(truth, 0, sizeof(truth));
	cms_init(&plain, &shape);
	shape.conservative = true;
	cms_init(&cms[0], &shape);
	cms_init(&cms[1], &shape);
	for (uint64_t i = 0; i < 5000 && seed != 0; i++)
	{
		uint64_t r = unit_random(&seed);
		uint64_t n = r % 2000 % (1 + (r >> 20) % 2000);
		int64_t weight = 1 + (int64_t) (r >> 50 & 3);

		truth[n] += weight;
		cms_add(&plain, item(n), weight);
		/* the second is small for some seeds */
		cms_add(&cms[i % (2 + seed % 300) == 0], item(n), weight);
	}
	ok(cms_add(&cms[0], item(1), -1) == CMS_CONSERVATIVE, "no deletion from a conservative sketch");
	for (int i = 0; i < 2; i++)
		values[i] = encode(&cms[i]);
	for (int i = 0; i < 2; i++)
	{
		CmsView views[2] = {view_of(values[0]), view_of(values[1])};
		Cms both;

		cms_init(&both, &shape);
		cms_merge_view(&both, &views[i], 1);
		cms_merge_view(&both, &views[1 - i], 1);
		commutes = commutes && cms_merge_view(&both, &views[0], -1) == CMS_CONSERVATIVE;
		if (i == 1)
		{
			Bytes other = encode(&both);

			commutes = commutes && equal(values[2], other);
			drop(&other);
		}
		else
			values[2] = encode(&both);
		cms_reset(&both);
	}
	ok(commutes && is_valid(values[2]), "union of conservative sketches commutes");
	{
		Bytes bytes = encode(&plain);
		CmsView view = view_of(values[2]);
		CmsView plain_view = view_of(bytes);
		CmsWide product;

		for (uint64_t n = 0; n < 2000; n++)
			bounds = bounds && cms_estimate(&view, item(n)) >= truth[n] &&
				cms_estimate(&view, item(n)) <= cms_estimate(&plain_view, item(n));
		ok(bounds, "its estimates are between the truth and those of the plain sketch");
		ok(cms_inner_product(&view, &view, &product) == CMS_CONSERVATIVE &&
			   cms_inner_product(&view, &plain_view, &product) == CMS_OK,
		   "inner product with a plain one only");
		drop(&bytes);
	}
	for (int i = 0; i < 3; i++)
		drop(&values[i]);
	cms_reset(&cms[0]);
	cms_reset(&cms[1]);
	cms_reset(&plain);
}

static void
test_inner_product(uint64_t seed, uint64_t a_items, uint64_t b_items)
{
	CmsShape shape = shape_of(0.02, 0.05);
	static int64_t truth[2][1000];
	uint64_t exact = 0;
	Cms cms;
	Bytes values[2];
	CmsView views[2];
	CmsWide product;
	CmsWide reverse;
	char name[80];

	memset(truth, 0, sizeof(truth));
	for (int side = 0; side < 2; side++)
	{
		cms_init(&cms, &shape);
		for (int i = 0; i < 3000; i++)
		{
			uint64_t n = unit_random(&seed) % (side == 0 ? a_items : b_items);

			truth[side][n]++;
			cms_add(&cms, item(n), 1);
		}
		values[side] = encode(&cms);
		views[side] = view_of(values[side]);
		cms_reset(&cms);
	}
	for (int n = 0; n < 1000; n++)
		exact += (uint64_t) (truth[0][n] * truth[1][n]);
	cms_inner_product(&views[0], &views[1], &product);
	cms_inner_product(&views[1], &views[0], &reverse);
	snprintf(name, sizeof(name), "inner product, %s with %s", views[0].cell_bytes == 0 ? "sparse" : "dense",
			 views[1].cell_bytes == 0 ? "sparse" : "dense");
	ok(product.high == 0 && product.low >= exact && (double) product.low <= (double) exact + 0.02 * 3000 * 3000 &&
		   (views[0].cell_bytes + views[1].cell_bytes != 0 || product.low == exact) && reverse.low == product.low,
	   name);
	drop(&values[0]);
	drop(&values[1]);
}

static void
test_wide(void)
{
	CmsShape shape = shape_of(0.1, 0.05);
	CmsWide product;
	CmsWide most = {UINT64_MAX, UINT64_MAX};
	CmsView view;
	Cms cms;
	Bytes bytes;
	char text[40];

	cms_init(&cms, &shape);
	cms_add(&cms, item(1), INT64_MAX);
	bytes = encode(&cms);
	view = view_of(bytes);
	cms_inner_product(&view, &view, &product);
	ok(strcmp(cms_wide_text(product, text), "85070591730234615847396907784232501249") == 0, "the largest inner product");
	ok(strcmp(cms_wide_text(most, text), "340282366920938463463374607431768211455") == 0, "the largest number of 128 bits");
	most.high = most.low = 0;
	ok(strcmp(cms_wide_text(most, text), "0") == 0, "zero");
	ok(cms_lower(&view, 5) == 5, "a list has no error");
	drop(&bytes);
	cms_reset(&cms);
}

/* Random frames against sketches of their rows recreated. */
static void
test_frame(uint64_t seed, double epsilon)
{
	enum
	{
		ROWS = 1500
	};
	static uint64_t hashes[ROWS];
	static int64_t weights[ROWS];
	CmsShape shape = shape_of(epsilon, 0.1);
	CmsShape other = shape_of(0.3, 0.1);
	CmsFrame frame;
	int first = 0;
	int forms[2] = {0, 0};
	bool same = true;

	cms_frame_init(&frame);
	for (int i = 0; i < ROWS; i++)
	{
		uint64_t r = unit_random(&seed);

		hashes[i] = item(r % 40);
		weights[i] = r >> 60 == 0 ? (int64_t) (r >> 30) : (int64_t) (r >> 40 & 3);
		if (r >> 59 == 2)
			weights[i] = -1;
	}
	for (int last = 0; last < ROWS && same; last++)
	{
		int start = first;
		Cms cms;
		Bytes expected;
		Bytes bytes = {NULL, 0};

		/* grows, has few rows, has about as many items as the limit */
		if (last / 100 % 3 == 1)
			start = last - (int) (unit_random(&seed) % 10);
		else if (last / 100 % 3 == 2)
			start = last - 8 - (int) (unit_random(&seed) % 20);
		for (; first < start; first++)
			same = same && cms_frame_remove(&frame, hashes[first], weights[first]) == CMS_OK;
		same = same && cms_frame_shape(&frame, &shape) && (last % 20 != 0 || cms_frame_shape(&frame, &other) == (frame.rows == 0)) && cms_frame_shape(&frame, &shape);
		same = same && cms_frame_add(&frame, hashes[last], weights[last]) == CMS_OK;
		cms_init(&cms, &shape);
		for (int i = first; i <= last; i++)
			cms_add(&cms, hashes[i], weights[i]);
		expected = encode(&cms);
		if (cms_frame_encode(&frame, 0, &bytes.data, &bytes.len) != CMS_OK)
			bytes.data = NULL;
		same = same && (equal(bytes, expected) || (bytes.data == NULL && expected.data == NULL));
		if (bytes.data != NULL)
			forms[view_of(bytes).cell_bytes != 0]++;
		drop(&expected);
		drop(&bytes);
		cms_reset(&cms);
	}
	ok(same && forms[0] > 100 && forms[1] > 100, "frames of a window are as sketches of their rows");
	cms_frame_reset(&frame);
	cms_frame_shape(&frame, &shape);
	ok(cms_frame_remove(&frame, 1, 1) == CMS_UNKNOWN, "what was not added is not taken out");
	cms_frame_reset(&frame);
}

/* Bytes that cms_check accepts are the only ones of their sketch. */
static bool
is_canonical(const uint8_t *data, size_t len)
{
	CmsView view;
	Cms cms;
	Bytes again;
	bool same;

	if (cms_check(data, len) != NULL)
		return true;
	cms_view(data, len, &view);
	cms_init(&cms, &view.shape);
	if (cms_merge_view(&cms, &view, 1) != CMS_OK)
		return false;
	again = encode(&cms);
	same = again.len == len && memcmp(again.data, data, len) == 0;
	drop(&again);
	cms_reset(&cms);
	return same;
}

static void
test_check(uint64_t seed)
{
	static const int items[] = {0, 1, 5, 9, 10, 11, 40, 300};
	bool safe = true;
	bool short_refused = true;
	int accepted = 0;

	for (int kind = 0; kind < 16; kind++)
	{
		CmsShape shape = shape_of(0.1, 0.05);
		Cms cms;
		Bytes bytes;

		shape.conservative = kind >= 8;
		cms_init(&cms, &shape);
		for (int i = 0; i < items[kind % 8]; i++)
			cms_add(&cms, item((uint64_t) i), 1 + (int64_t) (unit_random(&seed) >> (10 + unit_random(&seed) % 54) >> 1));
		bytes = encode(&cms);
		safe = safe && is_valid(bytes);
		for (size_t len = 0; len < bytes.len; len++)
		{
			uint8_t *cut = malloc(len + 1);

			memcpy(cut, bytes.data, len);
			short_refused = short_refused && cms_check(cut, len) != NULL;
			free(cut);
		}
		for (int round = 0; round < 20000; round++)
		{
			size_t at = unit_random(&seed) % bytes.len;
			uint8_t old = bytes.data[at];

			bytes.data[at] = (uint8_t) (unit_random(&seed) % 3 == 0 ? (uint64_t) old ^ 1 << unit_random(&seed) % 8 : unit_random(&seed));
			accepted += bytes.data[at] != old && cms_check(bytes.data, bytes.len) == NULL;
			safe = safe && is_canonical(bytes.data, bytes.len);
			bytes.data[at] = old;
		}
		drop(&bytes);
		cms_reset(&cms);
	}
	ok(short_refused, "a value that is cut off is refused");
	ok(safe, "a value with a changed byte is refused, or canonical");
	ok(accepted > 0, "and both happen");
}

/*
 * Bytes that cms_open accepts can be read, whatever else is wrong with them: the
 * sanitizers watch that nothing is read outside.
 */
static void
test_damage(uint64_t seed)
{
	static const int items[] = {0, 3, 10, 40};
	int opened = 0;
	int refused = 0;

	for (int round = 0; round < 20000; round++)
	{
		CmsShape shape = shape_of(0.1, 0.05);
		CmsView view;
		Cms cms;
		Bytes bytes;
		Bytes damaged;

		cms_init(&cms, &shape);
		for (int i = 0; i < items[round % 4]; i++)
			cms_add(&cms, item((uint64_t) i), 1 << (7 * (round / 4 % 3)));
		bytes = encode(&cms);
		damaged.len = unit_random(&seed) % 2 == 0 ? bytes.len : unit_random(&seed) % bytes.len;
		damaged.data = malloc(damaged.len + 1);
		memcpy(damaged.data, bytes.data, damaged.len);
		for (int i = 0; i < 3 && damaged.len > 0; i++)
			damaged.data[unit_random(&seed) % damaged.len] = (uint8_t) unit_random(&seed);
		cms_reset(&cms);
		if (cms_open(damaged.data, damaged.len, &view) == NULL)
		{
			opened++;
			cms_estimate(&view, item(1));
			cms_items(&view);
			cms_init(&cms, &view.shape);
			cms_merge_view(&cms, &view, 1);
			cms_reset(&cms);
		}
		else
			refused++;
		drop(&bytes);
		drop(&damaged);
	}
	ok(opened > 1000 && refused > 1000, "damaged values are read within their bounds, or refused");
}

/* A list's items are all there is to take out, even where cells would hide it. */
static void
test_not_there(void)
{
	CmsShape shape = shape_of(0.1, 0.05);
	Cms cms;
	Bytes bytes;
	CmsView view;
	int wrong = 0;

	cms_init(&cms, &shape);
	for (uint64_t i = 0; i < cms_sparse_limit(&shape); i++)
		cms_add(&cms, item(i), 1);
	bytes = encode(&cms);
	view = view_of(bytes);
	for (uint64_t i = 100; i < 1100; i++)
	{
		Bytes made = {NULL, 0};
		Bytes unknown;
		CmsView gone;

		wrong += cms_value_add(&view, item(i), -1, 0, &made.data, &made.len) != CMS_NEGATIVE;
		drop(&made);
		cms_reset(&cms);
		cms_add(&cms, item(i), 1);
		unknown = encode(&cms);
		cms_reset(&cms);
		cms_merge_view(&cms, &view, 1);
		gone = view_of(unknown);
		wrong += cms_merge_view(&cms, &gone, -1) != CMS_NEGATIVE;
		drop(&unknown);
	}
	ok(wrong == 0, "what a full list does not have cannot be taken out");
	drop(&bytes);
	cms_reset(&cms);
}

/* Corruptions that a single changed byte cannot produce. */
static void
test_limits_of_check(void)
{
	CmsShape shape = shape_of(0.1, 0.05);
	CmsEntry entries[11];
	Bytes bytes = {NULL, 0};
	uint8_t wide[32 + 2 * 84] = {0};
	Cms cms;

	for (uint64_t i = 0; i < 11; i++)
	{
		entries[i].hash = 1 + (i << 40);
		entries[i].weight = 1;
	}
	cms_encode_list(&shape, entries, 10, 0, &bytes.data, &bytes.len);
	ok(is_valid(bytes), "a list of as many items as it may have");
	drop(&bytes);
	cms_encode_list(&shape, entries, 11, 0, &bytes.data, &bytes.len);
	ok(!is_valid(bytes), "a list of one more is refused");
	drop(&bytes);
	cms_init(&cms, &shape);
	for (uint64_t n = 0; n < 20; n++)
		cms_add(&cms, item(n), 1);
	bytes = encode(&cms);
	memcpy(wide, bytes.data, 32);
	for (int i = 0; i < 84; i++)
		wide[32 + 2 * i] = bytes.data[32 + i];
	wide[1] |= 4;
	ok(is_valid(bytes) && cms_check(wide, sizeof(wide)) != NULL, "cells wider than they need to be are refused");
	bytes.data[24]++;
	ok(!is_valid(bytes), "rows below the total are refused");
	bytes.data[1] |= 2;
	ok(is_valid(bytes), "but not of a conservative sketch");
	bytes.data[24] -= 2;
	ok(!is_valid(bytes), "whose rows may not be above it");
	drop(&bytes);
	cms_reset(&cms);
}

static void
test_hash_zero(void)
{
	CmsShape shape = shape_of(0.1, 0.05);
	Cms cms;
	Bytes bytes;
	CmsView view;

	cms_init(&cms, &shape);
	cms_add(&cms, 0, 3);
	cms_add(&cms, UINT64_MAX, 4);
	bytes = encode(&cms);
	view = view_of(bytes);
	ok(is_valid(bytes) && cms_estimate(&view, 0) == 3 && cms_estimate(&view, UINT64_MAX) == 4 && cms_items(&view) == 2,
	   "the lowest and the highest hash");
	drop(&bytes);
	cms_reset(&cms);
}

int
main(void)
{
	test_shape();
	test_golden();
	for (uint64_t seed = 1; seed <= 20; seed++)
		test_any_order(seed, seed > 10);
	for (uint64_t seed = 1; seed <= 4; seed++)
		test_value_add(seed, seed % 2 == 0);
	test_gone();
	test_widths();
	test_overflow();
	for (uint64_t seed = 1; seed <= 3; seed++)
		test_conservative(seed);
	test_inner_product(1, 30, 40);
	test_inner_product(2, 30, 1000);
	test_inner_product(3, 1000, 30);
	test_inner_product(4, 1000, 900);
	test_wide();
	for (uint64_t seed = 1; seed <= 4; seed++)
		test_frame(seed, seed % 2 == 0 ? 0.05 : 0.1);
	test_check(1);
	test_damage(1);
	test_not_there();
	test_limits_of_check();
	test_hash_zero();
	return done_testing();
}
