/*
 * range.h
 *		Reading a range of keys (see range.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_RANGE_H
#define DC_RANGE_H

#include "base/key.h"
#include "core/rows/scan.h"

extern void counter_range_read(DcCounter *counter, const DcKey *from, const DcKey *end, DcRangeVisit visit, void *arg);

#endif /* DC_RANGE_H */
