/*
 * read.h
 *		Reading counter values (see read.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_READ_H
#define DC_READ_H

#include "base/key.h"
#include "core/counter/sqlpath.h"
#include "core/rows/sums.h"
#include "core/table/catalog.h"

/* key: all rows of it, with whether it is a shard row */
extern const DcStatement sql_read_key;

extern int64 counter_value(DcCounter *counter, const DcKey *key);
extern int64 counter_rows_value(DcCounter *counter, const DcKey *key);
extern void counter_values(DcCounter *counter, Datum *keys, int nkeys,
						   int64 *values);
extern int counter_sums(DcCounter *counter, Datum *keys, int nkeys, DcSums *sums);
extern bool counter_value_below(DcCounter *counter, const DcKey *key,
								int64 limit);
extern bool counter_may_be_buffered(DcCounter *counter);

/* totals.c */
extern void counter_total(DcCounter *counter, const DcKey *key, DcKeyState *state);

#endif /* DC_READ_H */
