/*
 * totalrow.h
 *		Adding to rows of totals without SQL (see totalrow.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_TOTALROW_H
#define DC_TOTALROW_H

#include "datatype/timestamp.h"

#include "core/rows/directrel.h"

extern bool total_add(DcDirectTables *tables, const DcDelta *delta);
extern bool total_insert(DcDirectRel *rel, const DcDeltaKey *key, int64 inc,
						 int64 dec, TimestampTz at, ItemPointer tid);

#endif /* DC_TOTALROW_H */
