/*
 * cms_fuzz.c
 *		Any bytes as a Count-Min sketch, for libFuzzer.
 *
 * What cms_check accepts must be the only bytes of its sketch, and all that can be
 * done with a value must work.
 */
#include <stdlib.h>
#include <string.h>

#include "types/sketch/cms/cmsformat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
expect(int condition)
{
	if (!condition)
		abort();
}

/* A value must be valid and have this total. */
static void
expect_valid(uint8_t *block, size_t len, int64_t total)
{
	CmsView view;

	expect(cms_check(block, len) == NULL);
	cms_view(block, len, &view);
	expect(view.total == total);
	free(block);
}

static void
try_adding(const CmsView *view, uint64_t hash, int64_t weight)
{
	uint8_t *block;
	size_t len;
	int64_t estimate = cms_estimate(view, hash);
	CmsView made;

	expect(estimate >= cms_lower(view, estimate) && cms_lower(view, estimate) >= 0);
	if (cms_value_add(view, hash, weight, 0, &block, &len) != CMS_OK)
	{
		expect(weight < 0 || weight > INT64_MAX - view->total);
		return;
	}
	cms_view(block, len, &made);
	expect(weight < 0 || cms_estimate(&made, hash) >= weight);
	expect_valid(block, len, view->total + weight);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CmsView view;
	CmsWide product;
	Cms cms;
	uint8_t *block;
	size_t len;
	char text[40];

	if (cms_check(data, size) != NULL)
		return 0;
	cms_view(data, size, &view);
	cms_init(&cms, &view.shape);
	expect(cms_merge_view(&cms, &view, 1) == CMS_OK);
	expect(cms_encode(&cms, 0, &block, &len) == CMS_OK);
	expect(len == size && memcmp(block, data, len) == 0);
	free(block);

	/* with itself, and without */
	if (cms_merge_view(&cms, &view, 1) == CMS_OK)
	{
		expect(cms_encode(&cms, 0, &block, &len) == CMS_OK);
		expect_valid(block, len, 2 * view.total);
		if (!view.shape.conservative)
		{
			expect(cms_merge_view(&cms, &view, -1) == CMS_OK);
			expect(cms_merge_view(&cms, &view, -1) == CMS_OK);
			expect(cms_encode(&cms, 0, &block, &len) == CMS_OK);
			expect_valid(block, len, 0);
		}
	}
	cms_reset(&cms);

	for (size_t i = 0; i < 4; i++)
	{
		uint64_t hash = cms_get(data + size - 8 - i * 6, 8);

		try_adding(&view, hash, 1);
		try_adding(&view, hash, -1);
		try_adding(&view, hash, INT64_MAX - view.total);
		try_adding(&view, view.body_len > 8 ? cms_get(view.body + 1, 6) : hash, -cms_estimate(&view, hash));
	}
	if (cms_inner_product(&view, &view, &product) == CMS_OK)
		expect(strlen(cms_wide_text(product, text)) > 0);
	return 0;
}
