/*
 * units.h
 *		The shard rows of a stock (see units.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_UNITS_H
#define DC_UNITS_H

#include "core/rows/direct.h"

/* The outcome of an attempt to take units from a row. */
typedef enum DcTakeResult
{
	TAKE_DONE,
	TAKE_SHORT,	  /* the row has not enough */
	TAKE_BUSY,	  /* another transaction has the row */
	TAKE_REFUSED, /* not updated, though no transaction is changing it */
	TAKE_UNSEEN,  /* the row is too new for this transaction's snapshot */
	TAKE_GONE
} DcTakeResult;

extern void units_check(DcCounter *counter);
extern int units_rows(const DcCounter *counter, int64 units);
extern void units_add(DcDirectRel *rel, const DcDelta *delta,
					  DcShardChoice choice, int32 number, bool own);
extern DcTakeResult units_take(DcDirectRel *rel, const DcDeltaKey *key,
							   DcHint *hint, int64 least, int64 most,
							   bool lock, int64 *taken);

#endif /* DC_UNITS_H */
