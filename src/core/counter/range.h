/*
 * range.h
 *		Reading a range of keys (see range.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_RANGE_H
#define DC_RANGE_H

#include "base/key.h"
#include "core/table/catalog.h"

/* Called for amounts of a key, which has several of them or one. The key, and what is allocated in the current memory context, live until it returns. */
typedef void (*DcRangeVisit)(void *arg, const DcKey *key, int64 inc, int64 dec);

extern void counter_range_read(DcCounter *counter, const DcKey *from, const DcKey *end, DcRangeVisit visit, void *arg);
extern void counter_range_own(DcCounter *counter, const DcKey *from, const DcKey *end, DcRangeVisit visit, void *arg);

#endif /* DC_RANGE_H */
