/*
 * cmsformat.h
 *		Count-Min sketches as bytes (see cmsformat.c and cmsvalue.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCH_CMSFORMAT_H
#define DC_SKETCH_CMSFORMAT_H

#include "types/sketch/cms/cms.h"

#define CMS_VERSION 1
#define CMS_HEADER_BYTES 32

/* A value's header, and where its body is. */
typedef struct CmsView
{
	CmsShape shape;
	uint8_t cell_bytes; /* 0 if the body is a list */
	int64_t total;
	const uint8_t *body;
	size_t body_len;
} CmsView;

/* Steps through a list; begin with the body's ends and all else zero. */
typedef struct CmsCursor
{
	const uint8_t *at;
	const uint8_t *end;
	CmsEntry entry;	   /* the one that cms_next came to */
	const char *wrong; /* what is wrong with the bytes, once cms_next fails */
} CmsCursor;

/* A number of 128 bits. */
typedef struct CmsWide
{
	uint64_t high;
	uint64_t low;
} CmsWide;

/* cmsformat.c */
extern const char *cms_check(const uint8_t *data, size_t len);
extern const char *cms_open(const uint8_t *data, size_t len, CmsView *view);
extern void cms_view(const uint8_t *data, size_t len, CmsView *view);
extern CmsCursor cms_list(const CmsView *view);
extern bool cms_next(CmsCursor *cursor);
extern size_t cms_entry_bytes(uint64_t previous, const CmsEntry *entry);
extern uint8_t *cms_put_entry(uint8_t *at, uint64_t previous, const CmsEntry *entry);
extern uint8_t *cms_header(const CmsShape *shape, int cell_bytes, int64_t total,
						   size_t body_len, size_t reserve, uint8_t **block);
extern CmsError cms_merge_view(Cms *cms, const CmsView *view, int sign);
extern CmsError cms_encode(const Cms *cms, size_t reserve, uint8_t **block,
						   size_t *len);
extern CmsError cms_encode_list(const CmsShape *shape, const CmsEntry *entries,
								size_t n, size_t reserve, uint8_t **block,
								size_t *len);

/* cmsvalue.c */
extern int64_t cms_estimate(const CmsView *view, uint64_t hash);
extern int64_t cms_lower(const CmsView *view, int64_t estimate);
extern int64_t cms_items(const CmsView *view);
extern CmsError cms_value_add(const CmsView *view, uint64_t hash, int64_t weight,
							  size_t reserve, uint8_t **block, size_t *len);
extern CmsError cms_inner_product(const CmsView *a, const CmsView *b,
								  CmsWide *product);
extern const char *cms_wide_text(CmsWide number, char text[40]);

#endif /* DC_SKETCH_CMSFORMAT_H */
