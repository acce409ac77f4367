/*
 * remote.h
 *		Shard rows with amounts of other regions (see remote.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_REMOTE_H
#define DC_REMOTE_H

#include "core/rows/directrel.h"

extern void remote_add(DcDirectRel *rel, const DcDelta *delta, int32 number);

#endif /* DC_REMOTE_H */
