/*
 * cmsframe.h
 *		The Count-Min sketch of a moving window (see cmsframe.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCH_CMSFRAME_H
#define DC_SKETCH_CMSFRAME_H

#include "types/sketch/cms/cms.h"

/* An item of the frame. */
typedef struct CmsPlace
{
	uint64_t hash; /* 0: no item is here */
	int64_t weight;
	int64_t rows; /* of the frame that have the item */
} CmsPlace;

typedef struct CmsFrame
{
	Cms sums;		  /* total, and the cells once there are any; no table */
	int64_t rows;	  /* of the frame */
	CmsPlace *places; /* open addressing, 1 << place_bits places */
	uint32_t used;	  /* items */
	uint8_t place_bits;
} CmsFrame;

extern void cms_frame_init(CmsFrame *frame);
extern void cms_frame_reset(CmsFrame *frame);
extern bool cms_frame_shape(CmsFrame *frame, const CmsShape *shape);
extern CmsError cms_frame_add(CmsFrame *frame, uint64_t hash, int64_t weight);
extern CmsError cms_frame_remove(CmsFrame *frame, uint64_t hash, int64_t weight);
extern CmsError cms_frame_encode(const CmsFrame *frame, size_t reserve,
								 uint8_t **block, size_t *len);

#endif /* DC_SKETCH_CMSFRAME_H */
