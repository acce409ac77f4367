/*
 * remote.h
 *		Shard rows with amounts of other regions (see remote.c).
 */
#ifndef DC_REMOTE_H
#define DC_REMOTE_H

#include "core/rows/directrel.h"

extern void remote_add(DcDirectRel *rel, const DcDelta *delta, int32 number);

#endif /* DC_REMOTE_H */
