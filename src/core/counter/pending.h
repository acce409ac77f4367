/*
 * pending.h
 *		The deltas that this transaction has not yet written (see pending.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_PENDING_H
#define DC_PENDING_H

#include "nodes/pg_list.h"
#include "utils/numeric.h"

#include "base/key.h"
#include "core/rows/delta.h"

extern void pending_add(Oid counter, const DcKey *key, uint64 hint,
						int64 inc, int64 dec, int64 back);
extern bool pending_is_empty(void);
extern bool pending_any(bool (*is)(Oid counter), int64 above);
extern bool pending_memory_is_full(const DcKey *key);
extern void pending_lookup(Oid counter, const DcKey *key,
						   int64 *inc, int64 *dec);
extern Numeric pending_total(Oid counter);
extern void pending_each(Oid counter, void (*visit)(void *arg, const DcDelta *delta), void *arg);
extern DcDelta **pending_sorted(int *count);
extern void pending_mark_applied(void);
extern void pending_keep(const List *counters);

extern bool pending_is_idle(void);
extern void pending_end_xact(void);
extern void pending_commit_subxact(void);
extern void pending_abort_subxact(void);

#endif /* DC_PENDING_H */
