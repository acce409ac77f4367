/*
 * locks.h
 *		Advisory locks of setters and of compaction (see locks.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_LOCKS_H
#define DC_LOCKS_H

#include "base/key.h"
#include "core/table/catalog.h"

extern void lock_key(DcCounter *counter, const char *data, uint32 len);
extern bool lock_total(DcCounter *counter, const char *data, uint32 len);
extern void lock_contended(DcCounter *counter, const char *data, uint32 len);
extern bool lock_compaction(DcCounter *counter);
extern void lock_compacted(DcCounter *counter);
extern bool lock_compacted_key(DcCounter *counter, const char *data, uint32 len);
extern void lock_out_compaction(DcCounter *counter);
extern void let_in_compaction(DcCounter *counter);
extern TransactionId compaction_xid(DcCounter *counter);
extern bool locked_for_long(DcCounter *counter, const char *data, uint32 len);
extern bool locked_by_setter(DcCounter *counter, const char *data, uint32 len);

#endif /* DC_LOCKS_H */
