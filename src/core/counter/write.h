/*
 * write.h
 *		Adding to counters when the transaction commits (see write.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_WRITE_H
#define DC_WRITE_H

#include "core/counter/pending.h"
#include "core/table/catalog.h"

extern void counter_add(DcCounter *counter, const DcKey *key, uint64 hint,
						int64 delta, bool subtract);
extern void counter_add_back(DcCounter *counter, const DcKey *key, int64 units);
extern void counter_add_amounts(DcCounter *counter, const DcKey *key,
								uint64 hint, int64 inc, int64 dec);

#endif /* DC_WRITE_H */
