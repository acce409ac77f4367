/*
 * applying.h
 *		Writing pending deltas: commit.c decides when and which, apply.c writes them.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_APPLYING_H
#define DC_APPLYING_H

#include "core/counter/pending.h"

/* When pending deltas are written. */
typedef enum DcApplyWhen
{
	APPLY_EARLY,
	APPLY_WHEN_FULL, /* early too, since memory ran out */
	APPLY_AT_PREPARE,
	APPLY_AT_COMMIT, /* in the order in which one may wait */
	APPLY_LAST		 /* at commit, after that */
} DcApplyWhen;

/* The state of writing, which is prepared when there is something to write. */
typedef struct DcApplying
{
	DcApplyWhen when;
	bool begun;
	bool read_only; /* the transaction, as it is declared */
} DcApplying;

extern bool counter_is_sync(DcCounter *counter);
extern void apply_begin(DcApplying *applying, DcApplyWhen when);
extern void apply_rows(DcApplying *applying, DcDelta **deltas, int count);
extern void apply_end(DcApplying *applying);
extern void apply_forget(void);
extern void apply_abort_subxact(void);

#endif /* DC_APPLYING_H */
