/*
 * apply.h
 *		Writing the pending deltas to the tables (see apply.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_APPLY_H
#define DC_APPLY_H

#include "base/key.h"
#include "core/table/catalog.h"

struct DcDelta;

extern void apply_early(void);
extern void apply_when_full(void);
extern void apply_if_late(void);
extern bool apply_is_writing(void);
extern void apply_blind(DcCounter *counter, const DcKey *key,
						int64 inc, int64 dec);
extern void apply_remote(DcCounter *counter, const DcKey *key, int64 inc, int64 dec);
extern void apply_amounts(DcCounter *counter, struct DcDelta **deltas, int count);
extern void xact_callback_move(void);

#endif /* DC_APPLY_H */
