/*
 * dc_cms.h
 *		Functions that the files of dc_cms share (see dc_cms.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCH_DC_CMS_H
#define DC_SKETCH_DC_CMS_H

#include "types/sketch/cms/cmsformat.h"

extern void dc_cms_start(void);
extern void dc_cms_raise(CmsError error);
extern void dc_cms_shape(double epsilon, double delta, bool conservative,
						 CmsShape *shape);
extern void dc_cms_mergeable(const CmsShape *a, const CmsShape *b);
extern void dc_cms_view(const struct varlena *value, CmsView *view);
extern int64 dc_cms_total(Datum value);
extern struct varlena *dc_cms_value(CmsError error, uint8_t *block, size_t len);

#endif /* DC_SKETCH_DC_CMS_H */
