/*
 * compact.h
 *		What writers need to know of compaction (see compact.c).
 */
#ifndef DC_COMPACT_H
#define DC_COMPACT_H

#include "base/catalog.h"

extern bool compact_in_progress(DcCounter *counter);

#endif /* DC_COMPACT_H */
